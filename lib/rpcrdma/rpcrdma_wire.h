/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_WIRE_H
#define RPCRDMA_WIRE_H

/**
 * @file
 * The transport headers of RPC-over-RDMA version 2 (draft s6), decoded into host order and
 * back. Pure functions over octets; the XDR proper is rpcgen's, from rpcrdma2.x. A decoder
 * reads nothing beyond the message and leaves nothing allocated.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rpcrdma2.h"

#define RPCRDMA_VERS 2

/* Prefix, s6.2.1: four words, the same in every version. */
#define RPCRDMA_OFF_XID      0
#define RPCRDMA_OFF_VERS     4
#define RPCRDMA_OFF_CREDIT   8
#define RPCRDMA_OFF_HTYPE    12
#define RPCRDMA_PREFIX_BYTES 16

/** Prefix and header of an inline call or reply without chunks; the RPC message follows. */
#define RPCRDMA_CALL_HDR_BYTES  (RPCRDMA_PREFIX_BYTES + 16)
#define RPCRDMA_REPLY_HDR_BYTES (RPCRDMA_PREFIX_BYTES + 4)
/** The longest RDMA2_ERROR: a code and two words. */
#define RPCRDMA_ERROR_MAX_BYTES (RPCRDMA_PREFIX_BYTES + 12)

/** Defaults of the transport properties, s5.2 table 1. */
#define RPCRDMA_DEFAULT_INLINE_BYTES 4096
#define RPCRDMA_V1_INLINE_BYTES      1024 /* s4.3: bound of the first message */

struct rpcrdma_prefix {
	uint32_t xid, vers, credit, htype;
};

/** RDMA2_ERROR; a and b are the words of the arm in the order of the XDR. */
struct rpcrdma_err {
	uint32_t code; /**< RDMA2_ERR_* */
	uint32_t a;    /**< vers_low, max_*, chunk_index, length_needed */
	uint32_t b;    /**< vers_high, length_needed of ERR_WRITE_RESOURCE */
};

/** What an inline header says besides where the RPC message starts. */
struct rpcrdma_chunks {
	uint32_t inv_handle;
	unsigned int reads;  /**< read segments */
	unsigned int writes; /**< write chunks */
	bool reply;          /**< a provisional reply chunk */
};

/** The properties of s5.2 that mean something here; the defaults where the peer said nothing. */
struct rpcrdma_props {
	uint32_t send_bytes; /**< RDMA2_PROPID_SBSIZ */
	uint32_t recv_bytes; /**< RDMA2_PROPID_RBSIZ */
	uint32_t reverse;    /**< RDMA2_PROPID_BRS: RDMA2_RVRSDIR_* */
};

struct rpcrdma_hdr {
	struct rpcrdma_prefix p;
	uint32_t len_bytes; /**< of prefix and header: where the RPC message starts */
	union {
		struct rpcrdma_err err;
		struct rpcrdma_chunks chunks; /**< RDMA2_CALL_INLINE, RDMA2_REPLY_INLINE */
		struct rpcrdma_props
		        props; /**< RDMA2_CONNPROP_*: *props with the changes applied */
	};
};

static inline uint32_t
rpcrdma_get32(const void *p)
{
	const uint8_t *b = p;

	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static inline void
rpcrdma_put32(void *p, uint32_t v)
{
	uint8_t *b = p;

	b[0] = v >> 24;
	b[1] = v >> 16;
	b[2] = v >> 8;
	b[3] = v;
}

/** "call_inline" and the like; "?" for what table 2 does not have. */
const char *weft_rpcrdma_htype_str(uint32_t htype);

/**
 * Decode a message's header. `props` are the peer's properties so far (read for CONNPROP only).
 * 0, or what s7 asks for:
 *   -ENODATA          shorter than the prefix: discard in silence; *hdr is undefined
 *   -EPROTONOSUPPORT  another version: hdr->p is valid, nothing else
 *   -EOPNOTSUPP       a header type that is unknown or not supported here (hdr->p valid)
 *   -EBADMSG          the header does not parse, or its xid is not that of the RPC message
 *   -EILSEQ           a transport property has a value that its type forbids
 * An RDMA2_ERROR in another version is decoded when it says ERR_VERS, which is the same in all
 * (s7.1.1).
 */
int weft_rpcrdma_hdr_decode(const void *buf, uint32_t len_bytes, const struct rpcrdma_props *props,
                            struct rpcrdma_hdr *hdr);

/*
 * Encoders: octets written, or 0 when cap_bytes is too small. The credit word is written as 0:
 * its value is known when the message is posted.
 */
uint32_t weft_rpcrdma_call_encode(void *buf, uint32_t cap_bytes, uint32_t xid);
uint32_t weft_rpcrdma_reply_encode(void *buf, uint32_t cap_bytes, uint32_t xid);
uint32_t weft_rpcrdma_grant_encode(void *buf, uint32_t cap_bytes);
/** vers: that of the message in error (s7). */
uint32_t weft_rpcrdma_error_encode(void *buf, uint32_t cap_bytes, uint32_t xid, uint32_t vers,
                                   const struct rpcrdma_err *err);
uint32_t weft_rpcrdma_connprop_encode(void *buf, uint32_t cap_bytes, uint32_t xid,
                                      const struct rpcrdma_props *props);

#endif /* RPCRDMA_WIRE_H */
