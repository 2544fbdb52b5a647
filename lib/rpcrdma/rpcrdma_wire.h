/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_WIRE_H
#define RPCRDMA_WIRE_H

/**
 * @file
 * The transport headers of RPC-over-RDMA: version 2 (draft-ietf-nfsv4-rpcrdma-version-two-07 s6 to
 * s8, "the draft" below) and version 1 (RFC 8166 s4), decoded into host order and back. Pure
 * functions over octets, for any thread: no heap, no clock, no state. A decoder reads nothing
 * beyond the message and takes time in proportion to its length, whatever its counts say.
 *
 * A decoder returns a verdict about the message. The caller counts it, and answers as section 7 of
 * the draft, or RFC 8166 section 4.5, requires. Both versions are decoded into the same structures,
 * so that callers need not distinguish them:
 *
 *     enum rpcrdma_verdict v = weft_rpcrdma_decode(buf, len, &limits, &hdr);
 *     ...
 *     payload = buf + hdr.len_bytes;
 *
 *     weft_rpcrdma_hdr_init(&hdr, 2, RDMA2_CALL_INLINE, xid);
 *     weft_rpcrdma_write_add(&hdr.chunks, segs, n);
 *     room = threshold - weft_rpcrdma_hdr_bytes(&hdr);
 *     len = weft_rpcrdma_encode(buf, cap, &hdr);
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rpcrdma_chunks.h"
#include <weft/byteorder.h>

/* ---- Constants of the texts, under their names ---- */

#define RPCRDMA_V1 1
#define RPCRDMA_V2 2

/** Header types of version 2, draft s8.4; its table 2 lists them. */
#define RDMA2_ERROR           4
#define RDMA2_GRANT           5
#define RDMA2_CONNPROP_MIDDLE 6
#define RDMA2_CONNPROP_FINAL  7
#define RDMA2_CALL_EXTERNAL   8
#define RDMA2_CALL_MIDDLE     9
#define RDMA2_CALL_INLINE     10
#define RDMA2_REPLY_EXTERNAL  11
#define RDMA2_REPLY_MIDDLE    12
#define RDMA2_REPLY_INLINE    13

/** Procedures of version 1, RFC 8166 s4.2.4; there without the 1. */
#define RDMA1_MSG   0
#define RDMA1_NOMSG 1
#define RDMA1_MSGP  2
#define RDMA1_DONE  3
#define RDMA1_ERROR 4

/** Codes of an RDMA2_ERROR, draft s8.4. */
#define RDMA2_ERR_VERS           1
#define RDMA2_ERR_BAD_XDR        2
#define RDMA2_ERR_BAD_PROPVAL    3
#define RDMA2_ERR_INVAL_HTYPE    4
#define RDMA2_ERR_INVAL_CONT     5
#define RDMA2_ERR_READ_CHUNKS    6
#define RDMA2_ERR_WRITE_CHUNKS   7
#define RDMA2_ERR_SEGMENTS       8
#define RDMA2_ERR_WRITE_RESOURCE 9
#define RDMA2_ERR_REPLY_RESOURCE 10
#define RDMA2_ERR_VERS_MISMATCH  11
#define RDMA2_ERR_SYSTEM         100

/** Codes of version 1's RDMA_ERROR, RFC 8166 s4.1.2. */
#define RDMA1_ERR_VERS  1
#define RDMA1_ERR_CHUNK 2

/** Transport properties, draft s5.2 table 1. */
#define RDMA2_PROPID_SBSIZ    1
#define RDMA2_PROPID_RBSIZ    2
#define RDMA2_PROPID_RSSIZ    3
#define RDMA2_PROPID_RCSIZ    4
#define RDMA2_PROPID_BRS      5
#define RDMA2_PROPID_HOSTAUTH 6

/** Values of RDMA2_PROPID_BRS, draft s5.2.5. */
#define RDMA2_RVRSDIR_NONE   0
#define RDMA2_RVRSDIR_SIMPLE 1
#define RDMA2_RVRSDIR_CONT   2
#define RDMA2_RVRSDIR_GENL   3

#define RPCRDMA_DEFAULT_INLINE_BYTES 4096 /* draft s4.2.2 */
/* RFC 8166 s3.3.2; bound of the first message, draft s4.3 */
#define RPCRDMA_V1_INLINE_BYTES 1024

/* Prefix: four words, the same in every version (draft s6.2.1, RFC 8166 s4.2). */
#define RPCRDMA_OFF_XID      0
#define RPCRDMA_OFF_VERS     4
#define RPCRDMA_OFF_CREDIT   8
#define RPCRDMA_OFF_HTYPE    12
#define RPCRDMA_PREFIX_BYTES 16
/** The least header of version 1: prefix and three empty lists (RFC 8166 s4.5). */
#define RPCRDMA_V1_MIN_BYTES 28

/* Lengths of the most frequent headers, and of errors, which must always fit. */
#define RPCRDMA_CALL_HDR_BYTES  (RPCRDMA_PREFIX_BYTES + 16) /**< CALL_INLINE without chunks */
#define RPCRDMA_REPLY_HDR_BYTES (RPCRDMA_PREFIX_BYTES + 4)  /**< REPLY_INLINE without chunks */
#define RPCRDMA_V1_HDR_BYTES    (RPCRDMA_PREFIX_BYTES + 12) /**< RDMA_MSG without chunks */
#define RPCRDMA_ERROR_MAX_BYTES (RPCRDMA_PREFIX_BYTES + 12) /**< any error */

/* ---- Errors and properties ---- */

/** RDMA2_ERROR or RDMA_ERROR; a and b are the words of the arm in the order of the XDR. */
struct rpcrdma_err {
	uint32_t code; /**< RDMA2_ERR_*, or RDMA1_ERR_* in version 1 */
	uint32_t a;    /**< vers_low, max_*, chunk_index, length_needed of ERR_REPLY_RESOURCE */
	uint32_t b;    /**< vers_high, length_needed of ERR_WRITE_RESOURCE */
};

/** Octets of the decoded message, valid as long as it is; or the caller's when encoding. */
struct rpcrdma_opaque {
	const uint8_t *data;
	uint32_t len_bytes;
};

/** Unknown properties that are kept of one message; more are counted (s5.1: no error). */
#define RPCRDMA_MAX_UNKNOWN_PROPS 8

struct rpcrdma_unknown_prop {
	uint32_t id;
	struct rpcrdma_opaque value;
};

/**
 * The properties of one RDMA2_CONNPROP_*. The last one of a repeated property counts. Only types
 * are checked; the layer above judges the values.
 */
struct rpcrdma_propset {
	uint32_t present; /**< bit 1 << RDMA2_PROPID_* for each that is present */
	uint32_t dflt;    /**< of these, the ones without octets, which mean the default (s5.1) */
	/** in the order of their codes */
	uint32_t send_bytes, recv_bytes, seg_bytes, segs, reverse;
	struct rpcrdma_opaque hostauth;
	uint32_t n_unknown; /**< number of all; the first RPCRDMA_MAX_UNKNOWN_PROPS are kept */
	struct rpcrdma_unknown_prop unknown[RPCRDMA_MAX_UNKNOWN_PROPS];
};

/** The properties that apply to a peer: the defaults, then every set that it sent. */
struct rpcrdma_props {
	uint32_t send_bytes; /**< RDMA2_PROPID_SBSIZ */
	uint32_t recv_bytes; /**< RDMA2_PROPID_RBSIZ */
	uint32_t seg_bytes;  /**< RDMA2_PROPID_RSSIZ */
	uint32_t segs;       /**< RDMA2_PROPID_RCSIZ */
	uint32_t reverse;    /**< RDMA2_PROPID_BRS: RDMA2_RVRSDIR_* */
};

/** Draft s5.2 table 1. */
#define RPCRDMA_PROPS_DEFAULT                                                                      \
	((struct rpcrdma_props){RPCRDMA_DEFAULT_INLINE_BYTES, RPCRDMA_DEFAULT_INLINE_BYTES,        \
	                        1048576, 16, RDMA2_RVRSDIR_NONE})

/* ---- A header ---- */

struct rpcrdma_prefix {
	uint32_t xid, vers, credit, htype;
};

/**
 * Prefix and body. p.htype selects the member of the union: err of an error, props of
 * RDMA2_CONNPROP_*, remaining_bytes of *_MIDDLE, chunks of other calls and replies; a grant has
 * none. About 1.7 KiB; weft_rpcrdma_hdr_init() writes little of it.
 */
struct rpcrdma_hdr {
	struct rpcrdma_prefix p;
	uint32_t len_bytes; /**< decoded: where the payload starts */
	union {
		struct rpcrdma_err err;
		struct rpcrdma_propset props;
		struct rpcrdma_chunks chunks;
		uint32_t remaining_bytes; /**< of the RPC message, after this message (s6.3.6) */
	};
};

/** What the receiver accepts; at most the RPCRDMA_MAX_* above. */
struct rpcrdma_limits {
	uint16_t read_chunks, write_chunks;
	uint16_t segs; /**< in one chunk, and in all lists together */
};

/** The decoder's judgement of a message, and the members of hdr that are then valid. */
enum rpcrdma_verdict {
	RPCRDMA_OK,
	RPCRDMA_SHORT,     /**< no fixed header: discard silently (s7); hdr: nothing */
	RPCRDMA_BAD_VERS,  /**< neither 1 nor 2; hdr: the prefix, as for all that follow */
	RPCRDMA_BAD_HTYPE, /**< unknown type. RDMA_MSGP of version 1, too: hdr has its chunks */
	RPCRDMA_BAD_XDR,   /**< malformed, or inconsistent */
	/** a known property's value is malformed, or longer than the message */
	RPCRDMA_BAD_PROPVAL,
	/** discard silently: RDMA_DONE, an error with unknown code (hdr: err) */
	RPCRDMA_DISCARD,
	RPCRDMA_MANY_READS,  /**< more Read chunks than the limit; well-formed otherwise */
	RPCRDMA_MANY_WRITES, /**< more Write chunks */
	RPCRDMA_MANY_SEGS,   /**< more segments, in a chunk or in all */
	RPCRDMA_N_VERDICTS,
};

/* ---- Decoding ---- */

/**
 * Decode the header of a message. `limits` NULL: the RPCRDMA_MAX_*. An RDMA2_ERROR of any version
 * is RPCRDMA_OK when it says ERR_VERS, which reads the same in all (draft s7.1.1, RFC 8166 s4.2).
 *
 * The XDR counts the first word of the payload to the header (rdma_rpc_first_word). Here the header
 * ends before it; it must be there, or the verdict is BAD_XDR. Whether it is the xid, see
 * weft_rpcrdma_xid_ok(): in the later parts of a continued message it is not.
 */
enum rpcrdma_verdict weft_rpcrdma_decode(const void *buf, uint32_t len_bytes,
                                         const struct rpcrdma_limits *limits,
                                         struct rpcrdma_hdr *hdr);

/** Whether the payload of a whole message, or of its first part, begins with rdma_xid (s7.2). */
bool weft_rpcrdma_xid_ok(const struct rpcrdma_hdr *hdr, const void *buf, uint32_t len_bytes);

/** Direction of a decoded message whose header type is for calls or replies. */
enum rpcrdma_dir { RPCRDMA_DIR_NONE, RPCRDMA_DIR_CALL, RPCRDMA_DIR_REPLY };

/**
 * In version 2 the type tells. In version 1 it is looked up: the RPC message's own word, or, where
 * none is inline, the chunk that has it (RFC 8167 s5, draft C.8). NONE: an error, a grant,
 * properties, or a word that is neither CALL nor REPLY.
 */
enum rpcrdma_dir weft_rpcrdma_dir(const struct rpcrdma_hdr *hdr, const void *buf,
                                  uint32_t len_bytes);

/**
 * Make the error that answers a verdict. The caller knows whether the message may be answered
 * (never an error; a requester never answers a reply). False: nothing is sent, for OK, SHORT and
 * DISCARD. BAD_VERS has the range in a and b, from vers_low and vers_high.
 */
bool weft_rpcrdma_verdict_err(enum rpcrdma_verdict v, uint32_t vers,
                              const struct rpcrdma_limits *limits, uint32_t vers_low,
                              uint32_t vers_high, struct rpcrdma_err *err);

/** Apply a set to a peer's properties. Unknown properties and hostauth have no effect. */
void weft_rpcrdma_props_apply(struct rpcrdma_props *props, const struct rpcrdma_propset *set);

/* ---- Building and encoding ---- */

/** An empty header of that type: no chunks, no properties, zeros. The credit is zero, too. */
void weft_rpcrdma_hdr_init(struct rpcrdma_hdr *hdr, uint32_t vers, uint32_t htype, uint32_t xid);

/** Octets that weft_rpcrdma_encode() will write. 0: the header cannot be encoded (see there). */
uint32_t weft_rpcrdma_hdr_bytes(const struct rpcrdma_hdr *hdr);
/**
 * Encode; octets written. 0: more than cap_bytes; or no header of its version: an unknown type,
 * RDMA_MSGP or RDMA_DONE (RFC 8166 s4.6), a Call chunk missing or where none may be, a
 * RDMA2_REPLY_EXTERNAL without Reply chunk, Read chunks in a version 2 reply. Lists that the type
 * has no place for are left out: a Reply chunk of RDMA2_REPLY_INLINE, that is.
 */
uint32_t weft_rpcrdma_encode(void *buf, uint32_t cap_bytes, const struct rpcrdma_hdr *hdr);

#endif /* RPCRDMA_WIRE_H */
