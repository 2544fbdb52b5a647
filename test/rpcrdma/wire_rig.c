/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Makes random headers of every type and compares headers. */

#include "wire_rig.h"

const uint32_t wire_types[][2] = {
        {2, RDMA2_ERROR},
        {2, RDMA2_GRANT},
        {2, RDMA2_CONNPROP_MIDDLE},
        {2, RDMA2_CONNPROP_FINAL},
        {2, RDMA2_CALL_EXTERNAL},
        {2, RDMA2_CALL_MIDDLE},
        {2, RDMA2_CALL_INLINE},
        {2, RDMA2_REPLY_EXTERNAL},
        {2, RDMA2_REPLY_MIDDLE},
        {2, RDMA2_REPLY_INLINE},
        {1, RDMA1_MSG},
        {1, RDMA1_NOMSG},
        {1, RDMA1_ERROR},
        {0, 0},
};

enum rpcrdma_verdict
wire_decode(const void *buf, uint32_t len, const struct rpcrdma_limits *limits,
            struct rpcrdma_hdr *hdr)
{
	static uint8_t *copies[2];
	static unsigned int turn;
	uint8_t *copy = malloc(len != 0 ? len : 1);

	if (copy == NULL)
		abort();
	turn ^= 1;
	free(copies[turn]);
	copies[turn] = copy;
	if (len > 0)
		memcpy(copy, buf, len);
	memset(hdr, 0x5a, sizeof(*hdr));
	return weft_rpcrdma_decode(copy, len, limits, hdr);
}

enum rpcrdma_verdict
wire_decode_words(const uint32_t *w, unsigned int n, struct rpcrdma_hdr *hdr)
{
	uint8_t m[2048];

	return wire_decode(m, wire_words(m, w, n), NULL, hdr);
}

enum rpcrdma_verdict
wire_decode_changed(const uint32_t *w, unsigned int n, unsigned int at, uint32_t word)
{
	uint32_t copy[256];
	struct rpcrdma_hdr h;

	memcpy(copy, w, n * sizeof(*w));
	copy[at] = word;
	return wire_decode_words(copy, n, &h);
}

static uint32_t
rand_below(uint64_t *s, uint32_t n)
{
	return (uint32_t)(test_xorshift(s) >> 20) % n;
}

/* Make at least `min` segments for a chunk, usually few. Some have length 0. */
static unsigned int
rand_segs(struct rpcrdma_segment *segs, unsigned int min, unsigned int max, uint64_t *s)
{
	unsigned int n = rand_below(s, rand_below(s, 8) == 0 ? max + 1 : 4);

	n = n > max ? max : n < min ? min : n;
	for (unsigned int i = 0; i < n; i++) {
		segs[i].handle = (uint32_t)test_xorshift(s);
		segs[i].len_bytes = rand_below(s, 4) == 0 ? 0 : (uint32_t)test_xorshift(s);
		segs[i].offset = test_xorshift(s);
	}
	return n;
}

static void
rand_chunks(struct rpcrdma_hdr *h, bool call, bool reads, bool reply, bool must_reply, uint64_t *s)
{
	struct rpcrdma_segment segs[RPCRDMA_MAX_SEGS];
	struct rpcrdma_chunks *c = &h->chunks;
	uint32_t position = 0;
	unsigned int n;

	if (call)
		weft_rpcrdma_call_set(c, segs, rand_segs(segs, 1, 8, s));
	for (n = reads ? rand_below(s, 5) : 0; n > 0; n--) {
		position += 4 + 4 * rand_below(s, 100);
		weft_rpcrdma_read_add(c, position, segs, rand_segs(segs, 1, 6, s));
	}
	for (n = rand_below(s, 5); n > 0; n--)
		weft_rpcrdma_write_add(c, segs, rand_segs(segs, 0, 6, s));
	if (must_reply || (reply && rand_below(s, 2)))
		weft_rpcrdma_reply_set(c, segs, rand_segs(segs, 0, 6, s));
}

static void
rand_props(struct rpcrdma_propset *p, uint64_t *s)
{
	static uint8_t pool[512];
	unsigned int n = rand_below(s, RPCRDMA_MAX_UNKNOWN_PROPS + 1);

	for (unsigned int i = 0; i < sizeof(pool); i++)
		pool[i] = (uint8_t)test_xorshift(s);
	p->present = rand_below(s, 64) << RDMA2_PROPID_SBSIZ;
	p->dflt = p->present & rand_below(s, 64) << RDMA2_PROPID_SBSIZ;
	p->send_bytes = (uint32_t)test_xorshift(s);
	p->recv_bytes = (uint32_t)test_xorshift(s);
	p->seg_bytes = (uint32_t)test_xorshift(s);
	p->segs = (uint32_t)test_xorshift(s);
	p->reverse = rand_below(s, 6);
	p->hostauth = (struct rpcrdma_opaque){pool, rand_below(s, 300)};
	p->n_unknown = n;
	for (unsigned int i = 0; i < n; i++) {
		struct rpcrdma_unknown_prop *u = &p->unknown[i];

		u->id = rand_below(s, 2) ? 0 : RDMA2_PROPID_HOSTAUTH + 1 + rand_below(s, 1000);
		u->value.data = pool + rand_below(s, 256);
		u->value.len_bytes = rand_below(s, 100);
	}
}

static void
rand_err(struct rpcrdma_hdr *h, uint64_t *s)
{
	static const uint32_t codes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 100};
	uint32_t words;

	h->err.code = h->p.vers == 1 ? 1 + rand_below(s, 2) : codes[rand_below(s, 12)];
	words = h->err.code == RDMA2_ERR_VERS || h->err.code == RDMA2_ERR_WRITE_RESOURCE ? 2
	        : (h->err.code >= RDMA2_ERR_READ_CHUNKS && h->err.code <= RDMA2_ERR_SEGMENTS) ||
	                        h->err.code == RDMA2_ERR_REPLY_RESOURCE
	                ? 1
	                : 0;
	h->err.a = words > 0 ? (uint32_t)test_xorshift(s) : 0;
	h->err.b = words > 1 ? (uint32_t)test_xorshift(s) : 0;
}

void
wire_random(struct rpcrdma_hdr *h, uint32_t vers, uint32_t htype, uint64_t *s)
{
	bool call = rand_below(s, 2);

	weft_rpcrdma_hdr_init(h, vers, htype, (uint32_t)test_xorshift(s));
	h->p.credit = (uint32_t)test_xorshift(s);
	if (htype == RDMA2_ERROR) {
		rand_err(h, s);
	} else if (vers == 1) {
		rand_chunks(h, htype == RDMA1_NOMSG && call, true, true,
		            htype == RDMA1_NOMSG && !call, s);
	} else if (htype == RDMA2_CONNPROP_MIDDLE || htype == RDMA2_CONNPROP_FINAL) {
		rand_props(&h->props, s);
	} else if (htype == RDMA2_CALL_MIDDLE || htype == RDMA2_REPLY_MIDDLE) {
		h->remaining_bytes = (uint32_t)test_xorshift(s);
	} else if (htype == RDMA2_CALL_EXTERNAL || htype == RDMA2_CALL_INLINE) {
		h->chunks.inv_handle = (uint32_t)test_xorshift(s);
		rand_chunks(h, htype == RDMA2_CALL_EXTERNAL, true, true, false, s);
	} else if (htype == RDMA2_REPLY_EXTERNAL || htype == RDMA2_REPLY_INLINE) {
		rand_chunks(h, false, false, false, htype == RDMA2_REPLY_EXTERNAL, s);
	}
}

/* ---- Comparison ---- */

static bool
equal_chunk(const struct rpcrdma_chunks *a, const struct rpcrdma_chunk *ka,
            const struct rpcrdma_chunks *b, const struct rpcrdma_chunk *kb)
{
	if (ka->n_segs != kb->n_segs || ka->position != kb->position ||
	    ka->len_bytes != kb->len_bytes)
		return false;
	for (unsigned int i = 0; i < ka->n_segs; i++) {
		const struct rpcrdma_segment *x = &weft_rpcrdma_segs(a, ka)[i];
		const struct rpcrdma_segment *y = &weft_rpcrdma_segs(b, kb)[i];

		if (x->handle != y->handle || x->len_bytes != y->len_bytes ||
		    x->offset != y->offset)
			return false;
	}
	return true;
}

static bool
equal_chunks(const struct rpcrdma_chunks *a, const struct rpcrdma_chunks *b)
{
	if (a->inv_handle != b->inv_handle || a->n_reads != b->n_reads ||
	    a->n_writes != b->n_writes || a->n_segs != b->n_segs || a->has_reply != b->has_reply ||
	    !equal_chunk(a, &a->call, b, &b->call) || !equal_chunk(a, &a->reply, b, &b->reply))
		return false;
	for (unsigned int i = 0; i < a->n_reads; i++)
		if (!equal_chunk(a, &a->reads[i], b, &b->reads[i]))
			return false;
	for (unsigned int i = 0; i < a->n_writes; i++)
		if (!equal_chunk(a, &a->writes[i], b, &b->writes[i]))
			return false;
	return true;
}

static bool
equal_opaque(const struct rpcrdma_opaque *a, const struct rpcrdma_opaque *b)
{
	return a->len_bytes == b->len_bytes &&
	       (a->len_bytes == 0 || memcmp(a->data, b->data, a->len_bytes) == 0);
}

static bool
equal_props(const struct rpcrdma_propset *a, const struct rpcrdma_propset *b)
{
	const uint32_t *const wa[] = {&a->send_bytes, &a->recv_bytes, &a->seg_bytes, &a->segs,
	                              &a->reverse};
	const uint32_t *const wb[] = {&b->send_bytes, &b->recv_bytes, &b->seg_bytes, &b->segs,
	                              &b->reverse};
	uint32_t said = a->present & ~a->dflt;

	if (a->present != b->present || a->dflt != b->dflt || a->n_unknown != b->n_unknown)
		return false;
	for (uint32_t id = RDMA2_PROPID_SBSIZ; id <= RDMA2_PROPID_BRS; id++)
		if ((said & 1u << id) && *wa[id - 1] != *wb[id - 1])
			return false;
	if ((said & 1u << RDMA2_PROPID_HOSTAUTH) && !equal_opaque(&a->hostauth, &b->hostauth))
		return false;
	for (uint32_t i = 0; i < a->n_unknown && i < RPCRDMA_MAX_UNKNOWN_PROPS; i++)
		if (a->unknown[i].id != b->unknown[i].id ||
		    !equal_opaque(&a->unknown[i].value, &b->unknown[i].value))
			return false;
	return true;
}

bool
wire_equal(const struct rpcrdma_hdr *a, const struct rpcrdma_hdr *b)
{
	if (a->p.xid != b->p.xid || a->p.vers != b->p.vers || a->p.credit != b->p.credit ||
	    a->p.htype != b->p.htype)
		return false;
	if (a->p.htype == RDMA2_ERROR)
		return a->err.code == b->err.code && a->err.a == b->err.a && a->err.b == b->err.b;
	if (a->p.vers == 1)
		return equal_chunks(&a->chunks, &b->chunks);
	switch (a->p.htype) {
	case RDMA2_GRANT:
		return true;
	case RDMA2_CONNPROP_MIDDLE:
	case RDMA2_CONNPROP_FINAL:
		return equal_props(&a->props, &b->props);
	case RDMA2_CALL_MIDDLE:
	case RDMA2_REPLY_MIDDLE:
		return a->remaining_bytes == b->remaining_bytes;
	default:
		return equal_chunks(&a->chunks, &b->chunks);
	}
}
