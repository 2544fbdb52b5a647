/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_RDMAP_STAT_H
#define WEFT_RDMAP_STAT_H

/** @file Counters of RDMAP: messages, Terminates and faults. */

#include "weft_rdmap_term.h"
#include "weft_stat.h"

struct weft_rdmap_term_count {
	uint64_t out, in;
};

/**
 * Faults. Each Terminate sent or received has the counter of its code in `term`. The other counters
 * separate causes that share a code, and count faults without a Terminate.
 */
struct weft_rdmap_faults {
	struct weft_rdmap_term_count term[WEFT_TERM_NCODES];
	uint64_t terminates_out_other, terminates_in_other; /**< the code is not assigned */
	/** received: shorter than its M, D and R bits require */
	uint64_t terminates_in_malformed;
	uint64_t terminates_in_swapped; /**< received: in the octet order of Linux's siw */
	/** not sent: our FIN had been sent, the connection was gone, or a responder may never send
	 */
	uint64_t terminates_unsent;
	uint64_t sends_without_receive; /**< Terminate 1/2/02 on queue 0 */
	uint64_t requests_beyond_ird;   /**< Terminate 1/2/02 on queue 1 */
	/** a request or Immediate Data of a wrong length, or a request with wrong flags or
	 * alignment */
	uint64_t requests_malformed;
	/** the STag or the right became invalid between arrival and execution of the request */
	uint64_t requests_revoked;
	/** the medium of a request is gone, at the initiator or the responder (weft/guard.h) */
	uint64_t lost;
	/** protection errors on an STag that was revoked or reduced (weft/revoke.h) */
	uint64_t refused_after_revoke;
	uint64_t requests_after_fin; /**< dropped: our FIN had been sent, no answer is possible */
	uint64_t responses_unasked;  /**< no request was outstanding */
	/** the kind, STag, offset or length does not match the oldest outstanding request */
	uint64_t responses_wrong;
	/** dropped behind a refused segment (RFC 5041 s7.1), or after weft_rdmap_leave() */
	uint64_t segs_after_fault;
	uint64_t close_timeouts; /**< the peer did not close in time; the stream was reset */
};

/** *out: the table of the counters of struct weft_rdmap_faults, static. Returns its length. */
unsigned int weft_rdmap_fault_fields(const struct weft_stat_field **out);

/** Messages by opcode, and faults, of all streams created with this object. */
struct weft_rdmap_op_stats {
	uint64_t out[32], in[32];
	struct weft_rdmap_faults faults;
};

struct weft_rdmap_stats {
	uint64_t msgs_out, msgs_in;
	uint64_t bytes_out, bytes_in; /**< ULP payload */
	uint64_t ord_stalls;          /**< times that the send queue waited at the limit ORD */
	uint64_t terminates_out, terminates_in;
};

#endif /* WEFT_RDMAP_STAT_H */
