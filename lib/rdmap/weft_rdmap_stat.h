/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_RDMAP_STAT_H
#define WEFT_RDMAP_STAT_H

/** @file What RDMAP counts: messages, refusals and their causes. */

#include "weft_rdmap_term.h"
#include "weft_stat.h"

struct weft_rdmap_term_count {
	uint64_t out, in;
};

/**
 * What was refused, and what refused us. A refusal has the counter of its Terminate's code; the
 * ones below tell apart causes that share a code, and what has no Terminate.
 */
struct weft_rdmap_faults {
	struct weft_rdmap_term_count term[WEFT_TERM_NCODES];
	uint64_t terminates_out_other, terminates_in_other; /**< codes that nobody has assigned */
	uint64_t terminates_in_malformed;                   /**< shorter than its own bits say */
	uint64_t terminates_in_swapped; /**< readable only in the octet order of Linux's siw */
	/** the stream could not carry ours: our FIN was out, or it never could send */
	uint64_t terminates_unsent;
	uint64_t sends_without_receive; /**< 1/2/02 on queue 0 */
	uint64_t requests_beyond_ird;   /**< 1/2/02 on queue 1 */
	/** wrong length, flags or alignment of a request of queue 1 */
	uint64_t requests_malformed;
	/** its STag, or right, went away between its arrival and its processing */
	uint64_t requests_revoked;
	/** memory of the peer's or of our own request is gone (weft/guard.h) */
	uint64_t lost;
	/** protection errors on an STag that was asked back (weft/revoke.h) */
	uint64_t refused_after_revoke;
	uint64_t requests_after_fin; /**< could not be answered any more, dropped */
	uint64_t responses_unasked;  /**< nothing was outstanding */
	/** of another kind, place or length than was asked for */
	uint64_t responses_wrong;
	uint64_t segs_after_fault; /**< dropped behind a refused one (RFC 5041 s7.1) */
	uint64_t close_timeouts;   /**< the peer did not close in time: reset */
};

/** Names of the counters of struct weft_rdmap_faults. */
unsigned int weft_rdmap_fault_fields(const struct weft_stat_field **out);

/** Messages by opcode, and faults, of all streams that were given the same one. */
struct weft_rdmap_op_stats {
	uint64_t out[32], in[32];
	struct weft_rdmap_faults faults;
};

struct weft_rdmap_stats {
	uint64_t msgs_out, msgs_in;
	uint64_t bytes_out, bytes_in; /**< ULP payload */
	uint64_t ord_stalls;          /**< times the send queue stopped at ORD */
	uint64_t terminates_out, terminates_in;
};

#endif /* WEFT_RDMAP_STAT_H */
