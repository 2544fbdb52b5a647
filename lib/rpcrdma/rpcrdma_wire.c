/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The codec of transport headers: each version's table of types, and the rules between
 * header fields. */

#include <string.h>

#include "rpcrdma_wire_priv.h"

/* Words of an RPC message (RFC 5531 s9). */
#define RPC_OFF_DIRECTION 4
#define RPC_CALL          0
#define RPC_REPLY         1
#define RPC_XID_BYTES     4 /* rdma_rpc_first_word */

enum wire_body { BODY_NONE, BODY_ERROR, BODY_PROPS, BODY_REMAINING, BODY_CHUNKS };

struct wire_type {
	bool known; /**< false: no such type */
	enum wire_body body;
	uint16_t parts;       /**< for BODY_CHUNKS: WIRE_* */
	uint8_t skip_bytes;   /**< octets ahead of them that have no meaning */
	bool payload;         /**< an RPC message, or part of one, follows */
	enum rpcrdma_dir dir; /**< version 2 */
	bool obsolete;        /**< it is never sent */
};

/* RFC 8166 s4.2.4. s4.6 keeps RDMA_MSGP and RDMA_DONE as types that are never sent. */
static const struct wire_type types_1[] = {
        [RDMA1_MSG] = {.known = true,
                       .body = BODY_CHUNKS,
                       .parts = WIRE_READS_1 | WIRE_WRITES | WIRE_REPLY,
                       .payload = true},
        [RDMA1_NOMSG] = {.known = true,
                         .body = BODY_CHUNKS,
                         .parts = WIRE_READS_1 | WIRE_WRITES | WIRE_REPLY},
        [RDMA1_MSGP] = {.known = true,
                        .body = BODY_CHUNKS,
                        .parts = WIRE_READS_1 | WIRE_WRITES | WIRE_REPLY,
                        .skip_bytes = 8, /* rdma_align, rdma_thresh */
                        .payload = true,
                        .obsolete = true},
        [RDMA1_DONE] = {.known = true, .obsolete = true},
        [RDMA1_ERROR] = {.known = true, .body = BODY_ERROR},
};

/* Draft s6.1 table 2. */
static const struct wire_type types_2[] = {
        [RDMA2_ERROR] = {.known = true, .body = BODY_ERROR},
        [RDMA2_GRANT] = {.known = true},
        [RDMA2_CONNPROP_MIDDLE] = {.known = true, .body = BODY_PROPS},
        [RDMA2_CONNPROP_FINAL] = {.known = true, .body = BODY_PROPS},
        [RDMA2_CALL_EXTERNAL] = {.known = true,
                                 .body = BODY_CHUNKS,
                                 .parts = WIRE_INV | WIRE_CALL | WIRE_READS | WIRE_WRITES |
                                          WIRE_REPLY,
                                 .dir = RPCRDMA_DIR_CALL},
        [RDMA2_CALL_MIDDLE] = {.known = true,
                               .body = BODY_REMAINING,
                               .payload = true,
                               .dir = RPCRDMA_DIR_CALL},
        [RDMA2_CALL_INLINE] = {.known = true,
                               .body = BODY_CHUNKS,
                               .parts = WIRE_INV | WIRE_READS | WIRE_WRITES | WIRE_REPLY,
                               .payload = true,
                               .dir = RPCRDMA_DIR_CALL},
        [RDMA2_REPLY_EXTERNAL] = {.known = true,
                                  .body = BODY_CHUNKS,
                                  .parts = WIRE_WRITES | WIRE_REPLY,
                                  .dir = RPCRDMA_DIR_REPLY},
        [RDMA2_REPLY_MIDDLE] = {.known = true,
                                .body = BODY_REMAINING,
                                .payload = true,
                                .dir = RPCRDMA_DIR_REPLY},
        [RDMA2_REPLY_INLINE] = {.known = true,
                                .body = BODY_CHUNKS,
                                .parts = WIRE_WRITES,
                                .payload = true,
                                .dir = RPCRDMA_DIR_REPLY},
};

#define N_ELEMENTS(a) (sizeof(a) / sizeof((a)[0]))

/* The row of a type. NULL: neither version 1 nor 2, or no type of that version. */
static const struct wire_type *
wire_type(uint32_t vers, uint32_t htype)
{
	const struct wire_type *t = NULL;

	if (vers == RPCRDMA_V1 && htype < N_ELEMENTS(types_1))
		t = &types_1[htype];
	else if (vers == RPCRDMA_V2 && htype < N_ELEMENTS(types_2))
		t = &types_2[htype];
	return t != NULL && t->known ? t : NULL;
}

/* ---- Errors ---- */

/* Words of an error's arm, without the code; -1: unknown. Where both texts have an arm, they
 * agree (draft s6.3.1, RFC 8166 s4.1.2). */
static int
err_words(uint32_t vers, uint32_t code)
{
	if (code == RDMA2_ERR_VERS)
		return 2; /* in every version */
	if (vers == RPCRDMA_V1)
		return code == RDMA1_ERR_CHUNK ? 0 : -1;
	switch (code) {
	case RDMA2_ERR_BAD_XDR:
	case RDMA2_ERR_BAD_PROPVAL:
	case RDMA2_ERR_INVAL_HTYPE:
	case RDMA2_ERR_INVAL_CONT:
	case RDMA2_ERR_VERS_MISMATCH:
	case RDMA2_ERR_SYSTEM:
		return 0;
	case RDMA2_ERR_READ_CHUNKS:
	case RDMA2_ERR_WRITE_CHUNKS:
	case RDMA2_ERR_SEGMENTS:
	case RDMA2_ERR_REPLY_RESOURCE:
		return 1;
	case RDMA2_ERR_WRITE_RESOURCE:
		return 2;
	default:
		return -1;
	}
}

/*
 * The same for an error that we send. It has the version of the message that it is about (draft
 * s7). When that is not ours, or not the connection's, the error is about the version.
 */
static int
err_words_out(uint32_t vers, uint32_t code)
{
	if (code == RDMA2_ERR_VERS_MISMATCH)
		return 0;
	return code == RDMA2_ERR_VERS || vers == RPCRDMA_V1 || vers == RPCRDMA_V2
	               ? err_words(vers, code)
	               : -1;
}

static enum rpcrdma_verdict
err_decode(struct wire_cur *cur, uint32_t vers, struct rpcrdma_err *err)
{
	int words;

	*err = (struct rpcrdma_err){0};
	if (!wire_u32(cur, &err->code))
		return RPCRDMA_BAD_XDR;
	words = err_words(vers, err->code);
	if (words < 0)
		return RPCRDMA_DISCARD;
	if ((words > 0 && !wire_u32(cur, &err->a)) || (words > 1 && !wire_u32(cur, &err->b)))
		return RPCRDMA_BAD_XDR;
	return RPCRDMA_OK;
}

bool
weft_rpcrdma_verdict_err(enum rpcrdma_verdict v, uint32_t vers, const struct rpcrdma_limits *limits,
                         uint32_t vers_low, uint32_t vers_high, struct rpcrdma_err *err)
{
	*err = (struct rpcrdma_err){0};
	switch (v) {
	case RPCRDMA_BAD_VERS:
		*err = (struct rpcrdma_err){RDMA2_ERR_VERS, vers_low, vers_high};
		return true;
	case RPCRDMA_BAD_HTYPE:
		err->code = RDMA2_ERR_INVAL_HTYPE;
		break;
	case RPCRDMA_BAD_XDR:
		err->code = RDMA2_ERR_BAD_XDR;
		break;
	case RPCRDMA_BAD_PROPVAL:
		err->code = RDMA2_ERR_BAD_PROPVAL;
		break;
	case RPCRDMA_MANY_READS:
		err->code = RDMA2_ERR_READ_CHUNKS;
		err->a = limits != NULL ? limits->read_chunks : RPCRDMA_MAX_READ_CHUNKS;
		break;
	case RPCRDMA_MANY_WRITES:
		err->code = RDMA2_ERR_WRITE_CHUNKS;
		err->a = limits != NULL ? limits->write_chunks : RPCRDMA_MAX_WRITE_CHUNKS;
		break;
	case RPCRDMA_MANY_SEGS:
		err->code = RDMA2_ERR_SEGMENTS;
		err->a = limits != NULL ? limits->segs : RPCRDMA_MAX_SEGS;
		break;
	default:
		return false;
	}
	/* RFC 8166 s4.5.2: one code for all of them. */
	if (vers == RPCRDMA_V1)
		*err = (struct rpcrdma_err){.code = RDMA1_ERR_CHUNK};
	return true;
}

/* ---- Decoding ---- */

/*
 * A version that is not ours: the prefix and ERR_VERS are the same in all (RFC 8166 s4.2, s7, draft
 * s7.1.1), nothing else is.
 */
static enum rpcrdma_verdict
wire_other_version(struct wire_cur *cur, struct rpcrdma_hdr *hdr)
{
	struct rpcrdma_err err;

	if (hdr->p.htype != RDMA2_ERROR || err_decode(cur, hdr->p.vers, &err) != RPCRDMA_OK ||
	    err.code != RDMA2_ERR_VERS)
		return RPCRDMA_BAD_VERS;
	hdr->err = err;
	return RPCRDMA_OK;
}

static enum rpcrdma_verdict
wire_body(struct wire_cur *cur, const struct wire_type *t, const struct rpcrdma_limits *limits,
          struct rpcrdma_hdr *hdr)
{
	switch (t->body) {
	case BODY_ERROR:
		return err_decode(cur, hdr->p.vers, &hdr->err);
	case BODY_PROPS:
		return weft_rpcrdma_propset_decode(cur, &hdr->props);
	case BODY_REMAINING:
		return wire_u32(cur, &hdr->remaining_bytes) ? RPCRDMA_OK : RPCRDMA_BAD_XDR;
	case BODY_CHUNKS:
		if (cur->left_bytes < t->skip_bytes)
			return RPCRDMA_BAD_XDR;
		cur->p += t->skip_bytes;
		cur->left_bytes -= t->skip_bytes;
		return weft_rpcrdma_chunks_decode(cur, t->parts, limits, &hdr->chunks);
	default:
		return RPCRDMA_OK;
	}
}

/* Check rules that the XDR cannot express. Only for a verdict of OK: past a limit not all chunks
 * are there. */
static bool
wire_consistent(const struct rpcrdma_hdr *hdr)
{
	const struct rpcrdma_chunks *c = &hdr->chunks;

	if (hdr->p.vers == RPCRDMA_V2)
		/* s6.3.8: "exactly one Reply chunk". */
		return hdr->p.htype != RDMA2_REPLY_EXTERNAL || c->has_reply;
	switch (hdr->p.htype) {
	case RDMA1_NOMSG:
		/* RFC 8166 s4.2.4: one of the two has the payload; a Write chunk cannot. */
		return c->call.n_segs > 0 || c->has_reply;
	case RDMA1_MSG:
		/* The payload is inline, and a second one would contradict it. */
		return c->call.n_segs == 0;
	default:
		return true;
	}
}

enum rpcrdma_verdict
weft_rpcrdma_decode(const void *buf, uint32_t len_bytes, const struct rpcrdma_limits *limits,
                    struct rpcrdma_hdr *hdr)
{
	struct wire_cur cur = {buf, len_bytes};
	const struct wire_type *t;
	enum rpcrdma_verdict v;

	/*
	 * Draft s7 names 20 octets for struct rpcrdma2_hdr_prefix; it has four words, and an
	 * RDMA2_GRANT is nothing but it (s6.3.2). So 16. RFC 8166 s4.5 names 28, more than the 20
	 * of its own ERR_CHUNK: 28 for all but its errors.
	 */
	if (len_bytes < RPCRDMA_PREFIX_BYTES)
		return RPCRDMA_SHORT;
	hdr->p.xid = weft_get_be32(cur.p + RPCRDMA_OFF_XID);
	hdr->p.vers = weft_get_be32(cur.p + RPCRDMA_OFF_VERS);
	hdr->p.credit = weft_get_be32(cur.p + RPCRDMA_OFF_CREDIT);
	hdr->p.htype = weft_get_be32(cur.p + RPCRDMA_OFF_HTYPE);
	hdr->len_bytes = RPCRDMA_PREFIX_BYTES;
	cur.p += RPCRDMA_PREFIX_BYTES;
	cur.left_bytes -= RPCRDMA_PREFIX_BYTES;
	if (hdr->p.vers == RPCRDMA_V1 && hdr->p.htype != RDMA1_ERROR &&
	    len_bytes < RPCRDMA_V1_MIN_BYTES)
		return RPCRDMA_SHORT;
	if (hdr->p.vers != RPCRDMA_V1 && hdr->p.vers != RPCRDMA_V2) {
		v = wire_other_version(&cur, hdr);
		hdr->len_bytes = len_bytes - cur.left_bytes;
		return v;
	}
	t = wire_type(hdr->p.vers, hdr->p.htype);
	if (t == NULL)
		return RPCRDMA_BAD_HTYPE;
	v = wire_body(&cur, t, limits, hdr);
	hdr->len_bytes = len_bytes - cur.left_bytes;
	if (v == RPCRDMA_BAD_XDR || v == RPCRDMA_BAD_PROPVAL)
		return v;
	if ((t->payload && cur.left_bytes < RPC_XID_BYTES) ||
	    (v == RPCRDMA_OK && t->body == BODY_CHUNKS && !wire_consistent(hdr)))
		return RPCRDMA_BAD_XDR;
	if (t->obsolete)
		return t->body == BODY_CHUNKS ? RPCRDMA_BAD_HTYPE : RPCRDMA_DISCARD;
	return v;
}

bool
weft_rpcrdma_xid_ok(const struct rpcrdma_hdr *hdr, const void *buf, uint32_t len_bytes)
{
	return len_bytes - hdr->len_bytes >= RPC_XID_BYTES &&
	       weft_get_be32((const uint8_t *)buf + hdr->len_bytes) == hdr->p.xid;
}

enum rpcrdma_dir
weft_rpcrdma_dir(const struct rpcrdma_hdr *hdr, const void *buf, uint32_t len_bytes)
{
	const struct wire_type *t = wire_type(hdr->p.vers, hdr->p.htype);

	if (t == NULL || hdr->p.vers == RPCRDMA_V2 || t->body != BODY_CHUNKS)
		return t != NULL ? t->dir : RPCRDMA_DIR_NONE;
	if (!t->payload)
		return hdr->chunks.call.n_segs > 0 ? RPCRDMA_DIR_CALL : RPCRDMA_DIR_REPLY;
	if (len_bytes - hdr->len_bytes < RPC_OFF_DIRECTION + 4)
		return RPCRDMA_DIR_NONE;
	switch (weft_get_be32((const uint8_t *)buf + hdr->len_bytes + RPC_OFF_DIRECTION)) {
	case RPC_CALL:
		return RPCRDMA_DIR_CALL;
	case RPC_REPLY:
		return RPCRDMA_DIR_REPLY;
	default:
		return RPCRDMA_DIR_NONE;
	}
}

/* ---- Encoding ---- */

void
weft_rpcrdma_hdr_init(struct rpcrdma_hdr *hdr, uint32_t vers, uint32_t htype, uint32_t xid)
{
	/* The arrays are valid as far as the counts before them say. */
	const size_t chunks = offsetof(struct rpcrdma_hdr, chunks.reads);
	const size_t props = offsetof(struct rpcrdma_hdr, props.unknown);

	memset(hdr, 0, chunks > props ? chunks : props);
	hdr->p = (struct rpcrdma_prefix){.xid = xid, .vers = vers, .htype = htype};
}

/* Whether the header is valid, by the rules that weft_rpcrdma_decode() applies to a peer's. */
static bool
wire_sound(const struct rpcrdma_hdr *hdr, const struct wire_type *t)
{
	const struct rpcrdma_chunks *c = &hdr->chunks;

	if (t->obsolete)
		return false;
	if (t->body != BODY_CHUNKS)
		return true;
	if (hdr->p.vers == RPCRDMA_V2 && (((t->parts & WIRE_CALL) != 0) != (c->call.n_segs > 0) ||
	                                  (c->n_reads > 0 && !(t->parts & WIRE_READS))))
		return false;
	return wire_consistent(hdr);
}

uint32_t
weft_rpcrdma_hdr_bytes(const struct rpcrdma_hdr *hdr)
{
	const struct wire_type *t = wire_type(hdr->p.vers, hdr->p.htype);
	int words;

	if (hdr->p.htype == RDMA2_ERROR) {
		words = err_words_out(hdr->p.vers, hdr->err.code);
		return words < 0 ? 0 : RPCRDMA_PREFIX_BYTES + 4 + 4 * (uint32_t)words;
	}
	if (t == NULL || !wire_sound(hdr, t))
		return 0;
	switch (t->body) {
	case BODY_PROPS:
		return RPCRDMA_PREFIX_BYTES + weft_rpcrdma_propset_bytes(&hdr->props);
	case BODY_REMAINING:
		return RPCRDMA_PREFIX_BYTES + 4;
	case BODY_CHUNKS:
		return RPCRDMA_PREFIX_BYTES + weft_rpcrdma_chunks_bytes(&hdr->chunks, t->parts);
	default:
		return RPCRDMA_PREFIX_BYTES;
	}
}

uint32_t
weft_rpcrdma_encode(void *buf, uint32_t cap_bytes, const struct rpcrdma_hdr *hdr)
{
	const struct wire_type *t = wire_type(hdr->p.vers, hdr->p.htype);
	uint32_t len_bytes = weft_rpcrdma_hdr_bytes(hdr), words;
	uint8_t *p = buf;

	if (len_bytes == 0 || len_bytes > cap_bytes)
		return 0;
	weft_put_be32(p + RPCRDMA_OFF_XID, hdr->p.xid);
	weft_put_be32(p + RPCRDMA_OFF_VERS, hdr->p.vers);
	weft_put_be32(p + RPCRDMA_OFF_CREDIT, hdr->p.credit);
	weft_put_be32(p + RPCRDMA_OFF_HTYPE, hdr->p.htype);
	p += RPCRDMA_PREFIX_BYTES;
	switch (t != NULL ? t->body : BODY_ERROR) {
	case BODY_ERROR:
		words = (len_bytes - RPCRDMA_PREFIX_BYTES) / 4 - 1;
		weft_put_be32(p, hdr->err.code);
		if (words > 0)
			weft_put_be32(p + 4, hdr->err.a);
		if (words > 1)
			weft_put_be32(p + 8, hdr->err.b);
		break;
	case BODY_PROPS:
		weft_rpcrdma_propset_encode(p, &hdr->props);
		break;
	case BODY_REMAINING:
		weft_put_be32(p, hdr->remaining_bytes);
		break;
	case BODY_CHUNKS:
		weft_rpcrdma_chunks_encode(p, &hdr->chunks, t->parts);
		break;
	default:
		break;
	}
	return len_bytes;
}
