/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_WIRE_H
#define RDMAP_WIRE_H

/**
 * @file
 * RDMAP on the wire: the control octet, the opcode table, the payloads of Read,
 * Atomic, Flush, Verify and Atomic Write Requests and of Atomic Responses, and the
 * Terminate header.
 *
 * A decoder fills a host-order struct and returns the octets consumed, or -ENODATA when the input
 * is too short. An encoder returns the octets written. Its caller supplies a buffer that is large
 * enough. All run on any thread.
 */

#include "weft_ddp.h"
#include "weft_rdmap.h"

/*
 * The RsvdULP octet (RFC 5040 s4.1): RV in the two high bits, two reserved bits, a four-bit opcode.
 * RV 00b belongs to streams of MPA revision 0, which this stack never sets up. RFC 5044 C.1 forbids
 * to mix the two versions in a stream.
 */
#define RDMAP_RV           1 /* RFC 5040 s4.1: 01b */
#define RDMAP_RV_SHIFT     6
#define RDMAP_OPCODE_MASK  0x0f
#define RDMAP_OPCODE_FIFTH 0x10 /* draft-talpey-rdma-commit-02 s2 Figure 1 */
#define RDMAP_CTRL(op)     ((uint8_t)(RDMAP_RV << RDMAP_RV_SHIFT | (op)))

/**
 * The opcode of a message. The reserved bits are ignored (RFC 5040 s4.1), except for the draft's
 * two opcodes of five bits. Their carriage distinguishes them from RFC 5040 messages: 10000b is
 * untagged (a Write is tagged), and 10001b is not on queue 1 (a Read Request is).
 */
static inline uint8_t
rdmap_op_of(const struct weft_ddp_hdr *h)
{
	uint8_t low = h->rsvdulp & RDMAP_OPCODE_MASK;

	if (likely(!(h->rsvdulp & RDMAP_OPCODE_FIFTH)) || h->tagged)
		return low;
	if (low == (WEFT_RDMAP_AWRITE_REQ & RDMAP_OPCODE_MASK) ||
	    (low == (WEFT_RDMAP_AWRITE_RESP & RDMAP_OPCODE_MASK) && h->qn != WEFT_DDP_QN_READ))
		return RDMAP_OPCODE_FIFTH | low;
	return low;
}

/** The opcode of a tagged message. */
static inline uint8_t
rdmap_op_of_tagged(const struct weft_ddp_hdr *h)
{
	return h->rsvdulp & RDMAP_OPCODE_MASK;
}

#define RDMAP_READ_REQ_BYTES   28 /* RFC 5040 s4.4 Figure 6 */
#define RDMAP_FLUSH_REQ_BYTES  20 /* draft-talpey-rdma-commit-02 s2.1.1 Figure 4 */
#define RDMAP_VERIFY_REQ_BYTES 16 /* s2.2.1 Figure 5, without the hash */
#define RDMAP_AWRITE_REQ_BYTES 24 /* s2.3.1 Figure 7 */
#define RDMAP_AWRITE_BYTES     8

#define RDMAP_ATOMIC_REQ_BYTES 52 /* RFC 7306 s5.2.1 Figure 4 */
/* RFC 7306 s5.2.2 Figure 6 and the figure of A.2. The text of s4 says 32, and no figure agrees. */
#define RDMAP_ATOMIC_RESP_BYTES 12

#define RDMAP_TERM_WORD_BYTES 4 /* RFC 5040 s4.8 Figure 7: control and reserved bits */
#define RDMAP_TERM_MAX_BYTES                                                                       \
	(RDMAP_TERM_WORD_BYTES + 2 + WEFT_DDP_UNTAGGED_HDR_BYTES + RDMAP_READ_REQ_BYTES)

/** Longest payload of an untagged message other than a Send. */
#define RDMAP_CTL_MAX_BYTES (RDMAP_VERIFY_REQ_BYTES + WEFT_HASH_MAX_BYTES)

#define RDMAP_NOPCODES 32

/** Properties of one opcode. */
struct rdmap_op_row {
	const char *name; /**< NULL: not assigned */
	bool tagged;      /**< false: untagged, on queue qn */
	uint8_t qn;
	bool ulp;        /**< the payload is the ULP's, in any number of segments */
	bool request;    /**< weft_rdmap_post() accepts the opcode */
	bool read_like;  /**< the peer answers it: it counts against ORD and IRD */
	bool invalidate; /**< the Invalidate STag field is valid */
	bool solicited;
	bool imm;           /**< Immediate Data: eight octets for a receive buffer of QN 0 */
	uint16_t min_bytes; /**< length of the payload when `ulp` is false */
	uint16_t max_bytes;
};

extern const struct rdmap_op_row rdmap_ops[RDMAP_NOPCODES];

/** RDMA Read Request header. */
struct rdmap_read_req {
	uint32_t sink_stag;
	uint64_t sink_to;
	uint32_t len_bytes;
	uint32_t src_stag;
	uint64_t src_to;
};

/* Offsets of RFC 5040 s4.4 Figure 6. Inline, as a part of each short Read. */

#define RDMAP_READ_SINK_STAG 0
#define RDMAP_READ_SINK_TO   4
#define RDMAP_READ_SIZE      12
#define RDMAP_READ_SRC_STAG  16
#define RDMAP_READ_SRC_TO    20

/** Decode RDMAP_READ_REQ_BYTES. */
static inline void
rdmap_read_req_get(const uint8_t *p, struct rdmap_read_req *q)
{
	q->sink_stag = weft_get_be32(p + RDMAP_READ_SINK_STAG);
	q->sink_to = weft_get_be64(p + RDMAP_READ_SINK_TO);
	q->len_bytes = weft_get_be32(p + RDMAP_READ_SIZE);
	q->src_stag = weft_get_be32(p + RDMAP_READ_SRC_STAG);
	q->src_to = weft_get_be64(p + RDMAP_READ_SRC_TO);
}

static inline int
rdmap_read_req_decode(const uint8_t *p, size_t len, struct rdmap_read_req *q)
{
	if (len < RDMAP_READ_REQ_BYTES)
		return -ENODATA;
	rdmap_read_req_get(p, q);
	return RDMAP_READ_REQ_BYTES;
}

static inline unsigned int
rdmap_read_req_encode(const struct rdmap_read_req *q, uint8_t *p)
{
	weft_put_be32(p + RDMAP_READ_SINK_STAG, q->sink_stag);
	weft_put_be64(p + RDMAP_READ_SINK_TO, q->sink_to);
	weft_put_be32(p + RDMAP_READ_SIZE, q->len_bytes);
	weft_put_be32(p + RDMAP_READ_SRC_STAG, q->src_stag);
	weft_put_be64(p + RDMAP_READ_SRC_TO, q->src_to);
	return RDMAP_READ_REQ_BYTES;
}

/** A Flush, Verify or Atomic Write Request. */
struct rdmap_ext_req {
	uint32_t stag;
	uint32_t len_bytes;
	uint64_t to;
	uint32_t flags;                    /**< Flush: disposition */
	uint8_t hash_bytes;                /**< Verify: length of the hash; 0: none given */
	uint8_t hash[WEFT_HASH_MAX_BYTES]; /**< Verify: expected; Atomic Write: the eight octets */
};

/** op: FLUSH_REQ, VERIFY_REQ or AWRITE_REQ. A Verify consumes all of len. -ENODATA; -EMSGSIZE: the
 * hash of a Verify is longer than WEFT_HASH_MAX_BYTES. */
int rdmap_ext_req_decode(uint8_t op, const uint8_t *p, size_t len, struct rdmap_ext_req *q);
unsigned int rdmap_ext_req_encode(uint8_t op, const struct rdmap_ext_req *q, uint8_t *p);

/** Atomic Operation Request (RFC 7306 s5.2.1 Figure 4). */
struct rdmap_atomic_req {
	uint8_t aop; /**< the four bits, not checked */
	uint32_t id; /**< Request Identifier */
	uint32_t stag;
	uint64_t to;
	uint64_t data; /**< Add Data or Swap Data */
	uint64_t mask;
	uint64_t cmp;
	uint64_t cmp_mask;
};

int rdmap_atomic_req_decode(const uint8_t *p, size_t len, struct rdmap_atomic_req *q);
unsigned int rdmap_atomic_req_encode(const struct rdmap_atomic_req *q, uint8_t *p);

/** Atomic Operation Response (RFC 7306 s5.2.2 Figure 6). */
struct rdmap_atomic_resp {
	uint32_t id; /**< of the request */
	uint64_t orig;
};

int rdmap_atomic_resp_decode(const uint8_t *p, size_t len, struct rdmap_atomic_resp *q);
unsigned int rdmap_atomic_resp_encode(const struct rdmap_atomic_resp *q, uint8_t *p);

/** Terminate header (RFC 5040 s4.8). */
struct rdmap_terminate {
	struct weft_term term;
	bool has_len;       /**< M: seg_bytes is valid */
	bool has_ddp;       /**< D: ddp_hdr is present */
	bool has_rdma;      /**< R: rdma_hdr is present */
	bool swapped;       /**< decode: the first word is in the octet order of Linux's siw */
	uint16_t seg_bytes; /**< DDP Segment Length */
	uint8_t ddp_hdr_bytes;
	uint8_t ddp_hdr[WEFT_DDP_UNTAGGED_HDR_BYTES];
	uint8_t rdma_hdr[RDMAP_READ_REQ_BYTES];
};

/**
 * Returns octets consumed. -ENODATA: the header is shorter than its M, D and R bits require. The
 * fields that are present are filled in. Without a whole first word the term is "unspecified".
 */
int rdmap_terminate_decode(const uint8_t *p, size_t len, struct rdmap_terminate *t);
unsigned int rdmap_terminate_encode(const struct rdmap_terminate *t, uint8_t *p);

#endif /* RDMAP_WIRE_H */
