/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_WIRE_PRIV_H
#define RPCRDMA_WIRE_PRIV_H

/** @file The codec's cursor, and the parts of a header that have sources of their own. */

#include "rpcrdma_wire.h"

/** The octets of a message that are not read yet. */
struct wire_cur {
	const uint8_t *p;
	uint32_t left_bytes;
};

static inline bool
wire_u32(struct wire_cur *cur, uint32_t *v)
{
	if (cur->left_bytes < 4)
		return false;
	*v = weft_get_be32(cur->p);
	cur->p += 4;
	cur->left_bytes -= 4;
	return true;
}

/** Read an XDR bool, which is 0 or 1 (RFC 4506 s4.3, s4.4), also as "another one follows"
 * (s4.19). */
static inline bool
wire_bool(struct wire_cur *cur, bool *v)
{
	uint32_t word;

	if (!wire_u32(cur, &word) || word > 1)
		return false;
	*v = word == 1;
	return true;
}

/** Zero octets behind `len_bytes` of opaque data (RFC 4506 s4.10). */
static inline uint32_t
wire_pad(uint32_t len_bytes)
{
	return -len_bytes & 3;
}

/* ---- rpcrdma_chunks.c ---- */

/** The parts of a header that list chunks, in their order on the wire. */
enum {
	WIRE_INV = 1 << 0,     /**< rdma_inv_handle */
	WIRE_CALL = 1 << 1,    /**< rdma_call: one Read segment at least */
	WIRE_READS = 1 << 2,   /**< rdma_reads, in order and without position 0 */
	WIRE_READS_1 = 1 << 3, /**< version 1: position 0 is the call, in any order */
	WIRE_WRITES = 1 << 4,
	WIRE_REPLY = 1 << 5,
};

/** OK, BAD_XDR or MANY_*. */
enum rpcrdma_verdict weft_rpcrdma_chunks_decode(struct wire_cur *cur, unsigned int parts,
                                                const struct rpcrdma_limits *limits,
                                                struct rpcrdma_chunks *c);
uint32_t weft_rpcrdma_chunks_bytes(const struct rpcrdma_chunks *c, unsigned int parts);
/** Encode; returns the octet behind. The caller has checked the room. */
uint8_t *weft_rpcrdma_chunks_encode(uint8_t *p, const struct rpcrdma_chunks *c, unsigned int parts);

/* ---- rpcrdma_propset.c ---- */

/** OK, BAD_XDR or BAD_PROPVAL. */
enum rpcrdma_verdict weft_rpcrdma_propset_decode(struct wire_cur *cur, struct rpcrdma_propset *set);
uint32_t weft_rpcrdma_propset_bytes(const struct rpcrdma_propset *set);
uint8_t *weft_rpcrdma_propset_encode(uint8_t *p, const struct rpcrdma_propset *set);

#endif /* RPCRDMA_WIRE_PRIV_H */
