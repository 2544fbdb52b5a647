/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The opcode table, and the codecs of the RDMAP payloads behind a DDP header. */

#include "rdmap_wire.h"

/* RFC 5040 s4.1 Figure 4, s4.2 Figure 5; RFC 7306 s4 Figures 2 and 3; draft-talpey-rdma-commit-02
 * s2 Figures 2 and 3. */
const struct rdmap_op_row rdmap_ops[RDMAP_NOPCODES] = {
        [WEFT_RDMAP_WRITE] = {.name = "write", .tagged = true, .ulp = true, .request = true},
        [WEFT_RDMAP_READ_REQ] = {.name = "read",
                                 .qn = WEFT_DDP_QN_READ,
                                 .request = true,
                                 .read_like = true,
                                 .min_bytes = RDMAP_READ_REQ_BYTES,
                                 .max_bytes = RDMAP_READ_REQ_BYTES},
        [WEFT_RDMAP_READ_RESP] = {.name = "read-response", .tagged = true, .ulp = true},
        [WEFT_RDMAP_SEND] = {.name = "send", .qn = WEFT_DDP_QN_SEND, .ulp = true, .request = true},
        [WEFT_RDMAP_SEND_INV] = {.name = "send-inv",
                                 .qn = WEFT_DDP_QN_SEND,
                                 .ulp = true,
                                 .request = true,
                                 .invalidate = true},
        [WEFT_RDMAP_SEND_SE] = {.name = "send-se",
                                .qn = WEFT_DDP_QN_SEND,
                                .ulp = true,
                                .request = true,
                                .solicited = true},
        [WEFT_RDMAP_SEND_SE_INV] = {.name = "send-se-inv",
                                    .qn = WEFT_DDP_QN_SEND,
                                    .ulp = true,
                                    .request = true,
                                    .invalidate = true,
                                    .solicited = true},
        [WEFT_RDMAP_TERMINATE] = {.name = "terminate",
                                  .qn = WEFT_DDP_QN_TERM,
                                  .max_bytes = RDMAP_CTL_MAX_BYTES,
                                  /* octets beyond max_bytes are ignored */},
        [WEFT_RDMAP_IMM] = {.name = "imm", .qn = WEFT_DDP_QN_SEND, .request = true, .imm = true},
        [WEFT_RDMAP_IMM_SE] = {.name = "imm-se",
                               .qn = WEFT_DDP_QN_SEND,
                               .request = true,
                               .solicited = true,
                               .imm = true},
        [WEFT_RDMAP_ATOMIC_REQ] = {.name = "atomic",
                                   .qn = WEFT_DDP_QN_READ,
                                   .request = true,
                                   .read_like = true,
                                   .min_bytes = RDMAP_ATOMIC_REQ_BYTES,
                                   .max_bytes = RDMAP_ATOMIC_REQ_BYTES},
        [WEFT_RDMAP_ATOMIC_RESP] = {.name = "atomic-response",
                                    .qn = WEFT_DDP_QN_RESP,
                                    .min_bytes = RDMAP_ATOMIC_RESP_BYTES,
                                    .max_bytes = RDMAP_ATOMIC_RESP_BYTES},
        [WEFT_RDMAP_FLUSH_REQ] = {.name = "flush",
                                  .qn = WEFT_DDP_QN_READ,
                                  .request = true,
                                  .read_like = true,
                                  .min_bytes = RDMAP_FLUSH_REQ_BYTES,
                                  .max_bytes = RDMAP_FLUSH_REQ_BYTES},
        [WEFT_RDMAP_FLUSH_RESP] = {.name = "flush-response", .qn = WEFT_DDP_QN_RESP},
        [WEFT_RDMAP_VERIFY_REQ] = {.name = "verify",
                                   .qn = WEFT_DDP_QN_READ,
                                   .request = true,
                                   .read_like = true,
                                   .min_bytes = RDMAP_VERIFY_REQ_BYTES,
                                   .max_bytes = RDMAP_VERIFY_REQ_BYTES + WEFT_HASH_MAX_BYTES},
        [WEFT_RDMAP_VERIFY_RESP] = {.name = "verify-response",
                                    .qn = WEFT_DDP_QN_RESP,
                                    .min_bytes = 1,
                                    .max_bytes = WEFT_HASH_MAX_BYTES},
        [WEFT_RDMAP_AWRITE_REQ] = {.name = "atomic-write",
                                   .qn = WEFT_DDP_QN_READ,
                                   .request = true,
                                   .read_like = true,
                                   .min_bytes = RDMAP_AWRITE_REQ_BYTES,
                                   .max_bytes = RDMAP_AWRITE_REQ_BYTES},
        [WEFT_RDMAP_AWRITE_RESP] = {.name = "atomic-write-response", .qn = WEFT_DDP_QN_RESP},
};

const char *
weft_rdmap_op_name(uint8_t op)
{
	return op < RDMAP_NOPCODES && rdmap_ops[op].name != NULL ? rdmap_ops[op].name : "?";
}

/* ---- Flush, Verify, Atomic Write: draft-talpey-rdma-commit-02 Figures 4, 5, 7 ---- */

#define PLACE_STAG 0
#define PLACE_LEN  4
#define PLACE_TO   8
#define PLACE_REST 16 /* flags, hash or data */

int
rdmap_ext_req_decode(uint8_t op, const uint8_t *p, size_t len, struct rdmap_ext_req *q)
{
	if (len < rdmap_ops[op].min_bytes)
		return -ENODATA;
	q->stag = weft_get_be32(p + PLACE_STAG);
	q->len_bytes = weft_get_be32(p + PLACE_LEN);
	q->to = weft_get_be64(p + PLACE_TO);
	q->flags = 0;
	q->hash_bytes = 0;
	switch (op) {
	case WEFT_RDMAP_FLUSH_REQ:
		q->flags = weft_get_be32(p + PLACE_REST);
		return RDMAP_FLUSH_REQ_BYTES;
	case WEFT_RDMAP_VERIFY_REQ:
		if (len - PLACE_REST > WEFT_HASH_MAX_BYTES)
			return -EMSGSIZE;
		q->hash_bytes = (uint8_t)(len - PLACE_REST);
		memcpy(q->hash, p + PLACE_REST, q->hash_bytes);
		return (int)len;
	default:
		memcpy(q->hash, p + PLACE_REST, RDMAP_AWRITE_BYTES);
		return RDMAP_AWRITE_REQ_BYTES;
	}
}

unsigned int
rdmap_ext_req_encode(uint8_t op, const struct rdmap_ext_req *q, uint8_t *p)
{
	weft_put_be32(p + PLACE_STAG, q->stag);
	weft_put_be32(p + PLACE_LEN, q->len_bytes);
	weft_put_be64(p + PLACE_TO, q->to);
	switch (op) {
	case WEFT_RDMAP_FLUSH_REQ:
		weft_put_be32(p + PLACE_REST, q->flags);
		return RDMAP_FLUSH_REQ_BYTES;
	case WEFT_RDMAP_VERIFY_REQ:
		memcpy(p + PLACE_REST, q->hash, q->hash_bytes);
		return RDMAP_VERIFY_REQ_BYTES + q->hash_bytes;
	default:
		memcpy(p + PLACE_REST, q->hash, RDMAP_AWRITE_BYTES);
		return RDMAP_AWRITE_REQ_BYTES;
	}
}

/* ---- Atomic Request and Response: RFC 7306 s5.2.1 Figure 4, s5.2.2 Figure 6 ---- */

#define ATOMIC_CODE     3 /* its low four bits; the rest of the word is reserved */
#define ATOMIC_ID       4
#define ATOMIC_STAG     8
#define ATOMIC_TO       12
#define ATOMIC_DATA     20
#define ATOMIC_MASK     28
#define ATOMIC_CMP      36
#define ATOMIC_CMP_MASK 44

#define ATOMIC_CODE_MASK 0x0f

#define ATOMIC_RESP_ID   0
#define ATOMIC_RESP_ORIG 4

int
rdmap_atomic_req_decode(const uint8_t *p, size_t len, struct rdmap_atomic_req *q)
{
	if (len < RDMAP_ATOMIC_REQ_BYTES)
		return -ENODATA;
	q->aop = p[ATOMIC_CODE] & ATOMIC_CODE_MASK;
	q->id = weft_get_be32(p + ATOMIC_ID);
	q->stag = weft_get_be32(p + ATOMIC_STAG);
	q->to = weft_get_be64(p + ATOMIC_TO);
	q->data = weft_get_be64(p + ATOMIC_DATA);
	q->mask = weft_get_be64(p + ATOMIC_MASK);
	q->cmp = weft_get_be64(p + ATOMIC_CMP);
	q->cmp_mask = weft_get_be64(p + ATOMIC_CMP_MASK);
	return RDMAP_ATOMIC_REQ_BYTES;
}

unsigned int
rdmap_atomic_req_encode(const struct rdmap_atomic_req *q, uint8_t *p)
{
	weft_put_be32(p, q->aop & ATOMIC_CODE_MASK);
	weft_put_be32(p + ATOMIC_ID, q->id);
	weft_put_be32(p + ATOMIC_STAG, q->stag);
	weft_put_be64(p + ATOMIC_TO, q->to);
	weft_put_be64(p + ATOMIC_DATA, q->data);
	weft_put_be64(p + ATOMIC_MASK, q->mask);
	weft_put_be64(p + ATOMIC_CMP, q->cmp);
	weft_put_be64(p + ATOMIC_CMP_MASK, q->cmp_mask);
	return RDMAP_ATOMIC_REQ_BYTES;
}

int
rdmap_atomic_resp_decode(const uint8_t *p, size_t len, struct rdmap_atomic_resp *q)
{
	if (len < RDMAP_ATOMIC_RESP_BYTES)
		return -ENODATA;
	q->id = weft_get_be32(p + ATOMIC_RESP_ID);
	q->orig = weft_get_be64(p + ATOMIC_RESP_ORIG);
	return RDMAP_ATOMIC_RESP_BYTES;
}

unsigned int
rdmap_atomic_resp_encode(const struct rdmap_atomic_resp *q, uint8_t *p)
{
	weft_put_be32(p + ATOMIC_RESP_ID, q->id);
	weft_put_be64(p + ATOMIC_RESP_ORIG, q->orig);
	return RDMAP_ATOMIC_RESP_BYTES;
}

/* ---- Terminate: RFC 5040 s4.8 Figures 7 and 8 ---- */

#define TERM_M 0x80 /* bits 16, 17, 18 of the word: the high bits of octet 2 */
#define TERM_D 0x40
#define TERM_R 0x20
#define SIW_M  0x01 /* the same bits as Linux's siw writes them */
#define SIW_D  0x02
#define SIW_R  0x04

static bool
term_known(uint8_t layer, uint8_t etype, uint8_t code)
{
	const struct weft_term t = {layer, etype, code};

	return weft_rdmap_term_index(&t) >= 0;
}

/*
 * Whether the word is siw's. siw writes it as a little-endian bit-field: layer and type are swapped
 * in octet 0, and M, D and R are the low bits of octet 2. The word is taken for siw's only if it is
 * a known code in that order and has no header bit of the RFC's. In addition it must have a header
 * bit of siw's, or be unknown in the RFC's order.
 */
static bool
term_is_swapped(const uint8_t *p)
{
	if (!term_known(p[0] & 0xf, p[0] >> 4, p[1]) || (p[2] & (TERM_M | TERM_D | TERM_R)) != 0)
		return false;
	return (p[2] & (SIW_M | SIW_D | SIW_R)) != 0 || !term_known(p[0] >> 4, p[0] & 0xf, p[1]);
}

int
rdmap_terminate_decode(const uint8_t *p, size_t len, struct rdmap_terminate *t)
{
	size_t off = RDMAP_TERM_WORD_BYTES;

	*t = (struct rdmap_terminate){.term = {.layer = WEFT_TERM_LAYER_RDMA,
	                                       .etype = WEFT_TERM_RDMA_OPERATION,
	                                       .code = WEFT_TERM_OP_UNSPECIFIED}};
	if (len < RDMAP_TERM_WORD_BYTES)
		return -ENODATA;
	t->swapped = term_is_swapped(p);
	t->term.layer = t->swapped ? p[0] & 0xf : p[0] >> 4;
	t->term.etype = t->swapped ? p[0] >> 4 : p[0] & 0xf;
	t->term.code = p[1];
	if (p[2] & (t->swapped ? SIW_M | SIW_D : TERM_M | TERM_D)) {
		if (len - off < 2)
			return -ENODATA;
		t->has_len = p[2] & (t->swapped ? SIW_M : TERM_M);
		t->seg_bytes = weft_get_be16(p + off);
		off += 2;
	}
	if (p[2] & (t->swapped ? SIW_D : TERM_D)) {
		/* the T bit of the first octet tells the kind of header (RFC 5041 s4.1) */
		uint8_t n = len > off && (p[off] & 0x80) ? WEFT_DDP_TAGGED_HDR_BYTES
		                                         : WEFT_DDP_UNTAGGED_HDR_BYTES;

		if (len - off < n)
			return -ENODATA;
		t->has_ddp = true;
		t->ddp_hdr_bytes = n;
		memcpy(t->ddp_hdr, p + off, t->ddp_hdr_bytes);
		off += t->ddp_hdr_bytes;
	}
	if (p[2] & (t->swapped ? SIW_R : TERM_R)) {
		if (len - off < RDMAP_READ_REQ_BYTES)
			return -ENODATA;
		t->has_rdma = true;
		memcpy(t->rdma_hdr, p + off, RDMAP_READ_REQ_BYTES);
		off += RDMAP_READ_REQ_BYTES;
	}
	return (int)off;
}

unsigned int
rdmap_terminate_encode(const struct rdmap_terminate *t, uint8_t *p)
{
	unsigned int off = RDMAP_TERM_WORD_BYTES;

	p[0] = (uint8_t)(t->term.layer << 4 | t->term.etype);
	p[1] = t->term.code;
	p[2] = (t->has_len ? TERM_M : 0) | (t->has_ddp ? TERM_D : 0) | (t->has_rdma ? TERM_R : 0);
	p[3] = 0;
	if (t->has_len || t->has_ddp) {
		weft_put_be16(p + off, t->seg_bytes);
		off += 2;
	}
	if (t->has_ddp) {
		memcpy(p + off, t->ddp_hdr, t->ddp_hdr_bytes);
		off += t->ddp_hdr_bytes;
	}
	if (t->has_rdma) {
		memcpy(p + off, t->rdma_hdr, RDMAP_READ_REQ_BYTES);
		off += RDMAP_READ_REQ_BYTES;
	}
	return off;
}
