/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_RDMAP_REQ_H
#define WEFT_RDMAP_REQ_H

/**
 * @file One outbound request, as verbs fills it and rdmap sends it, and how it ends. Internal.
 */

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <weft/hash.h>

#define WEFT_RDMAP_MAX_SGE 4 /**< elements inside a request; longer lists use `sgl` */

struct weft_rdmap_sge {
	uint8_t *addr;
	uint32_t len_bytes;
	uint32_t lkey; /**< key that the element was posted with; used by verbs alone */
};

/* Atomic Operation codes (RFC 7306 s5.2.1 Figure 5, s10.1: 0x1 is reserved). */
#define WEFT_RDMAP_FETCH_ADD 0x0
#define WEFT_RDMAP_CMP_SWAP  0x2

#define WEFT_RDMAP_IMM_BYTES 8 /* RFC 7306 s6.2 */

/** One Atomic Operation: operands and result in host octet order. */
struct weft_rdmap_atomic {
	uint8_t aop;       /**< WEFT_RDMAP_FETCH_ADD or WEFT_RDMAP_CMP_SWAP */
	uint64_t data;     /**< Add Data or Swap Data */
	uint64_t mask;     /**< Add Mask (0: plain) or Swap Mask (all ones: plain) */
	uint64_t cmp;      /**< CmpSwap: Compare Data */
	uint64_t cmp_mask; /**< CmpSwap: Compare Mask (all ones: plain) */
	uint64_t orig;     /**< result, valid after done(): Original Remote Data Value */
};

/** How an outbound request or an inbound Send ended. */
enum weft_rdmap_status {
	WEFT_RDMAP_OK = 0,
	WEFT_RDMAP_FLUSHED,       /**< the stream ended before the request was complete */
	WEFT_RDMAP_REMOTE_ACCESS, /**< the peer's Terminate: remote protection error */
	/** the peer's Terminate: remote operation error (a Flush failed, ...); or the request
	 * cannot be sent (ORD is 0, or the segments are too small) */
	WEFT_RDMAP_REMOTE_OP,
	/** Verify: the peer's Terminate or Response shows another hash than expected */
	WEFT_RDMAP_HASH_MISMATCH,
	/** an inbound Send was longer than its receive buffer, or Immediate Data not 8 octets */
	WEFT_RDMAP_LOCAL_LENGTH,
	/** a local buffer is invalid (a Read's sink was invalidated), or its medium is gone */
	WEFT_RDMAP_LOCAL_PROT,
};

/**
 * One outbound request. verbs' send queue owns the memory and keeps it until done().
 * Lengths are 32-bit as on the wire. What a short Write or Send uses is in the first 64 octets, a
 * cache line where the owner aligns it.
 */
struct weft_rdmap_req {
	TAILQ_ENTRY(weft_rdmap_req) link; /**< used by rdmap while the request is queued */
	/** WRITE, READ_REQ, SEND*, IMM*, ATOMIC_REQ, FLUSH_REQ, VERIFY_REQ, AWRITE_REQ */
	uint8_t op;
	/** the request waits until every earlier read-like request is answered */
	bool fence;
	bool hook; /**< rdmap calls start() when the request is at the head of the send queue */
	/** WRITE: 0, or the IMM* message that follows the Write in this request */
	uint8_t imm_op;
	/** VERIFY: expected length (0: none given), then the length received */
	uint8_t hash_bytes;
	uint8_t nsge;
	/**
	 * A WRITE or SEND of one piece, in sge[0], without fence, hook and imm_op. `done` alone
	 * tells of its success, without a call of done(); the user looks at it when the turn ends.
	 */
	bool plain;
	bool done; /**< rdmap no longer uses the request; set in place of done(), or by its user */
	/** WRITE, SEND*: sum of the list. READ, FLUSH, VERIFY: length. IMM*, ATOMIC: 8. */
	uint32_t len_bytes;
	uint32_t stag;       /**< remote STag; SEND_INV: the STag to invalidate */
	uint64_t to;         /**< remote TO */
	uint32_t sent_bytes; /**< octets sent so far; 0 when posted */
	uint32_t got_bytes;  /**< READ: octets placed so far; 0 when posted */
	struct weft_rdmap_sge sge[WEFT_RDMAP_MAX_SGE]; /**< source (WRITE, SEND) */
	/** not NULL: used in place of sge, unless `plain`. Kept as long as the request. */
	const struct weft_rdmap_sge *sgl;
	uint32_t sink_stag; /**< READ: local STag */
	uint32_t flush_flags;
	uint64_t sink_to;
	union {
		/** VERIFY: expected, then (on completion) computed; AWRITE: 8 octets */
		uint8_t hash[WEFT_HASH_MAX_BYTES];
		struct weft_rdmap_atomic atomic;   /**< ATOMIC_REQ */
		uint8_t imm[WEFT_RDMAP_IMM_BYTES]; /**< IMM*, WRITE with imm_op */
	};
};

static_assert(offsetof(struct weft_rdmap_req, sge) + sizeof(struct weft_rdmap_sge) <= 64,
              "a cache line");

TAILQ_HEAD(weft_rdmap_req_list, weft_rdmap_req);

#endif /* WEFT_RDMAP_REQ_H */
