/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The codec of version 2 headers: vectors of every type, rules besides the XDR, limits,
 * encoding. test_wire_xdr.c compares it with rpcgen.
 */

#include <errno.h>

#include "weft_test.h"
#include "wire_rig.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

/* Segments of the vectors: handle, length, offset. */
#define SEG_A 0x11223344, 0x00001000, 0x00000001, 0x00000002
#define SEG_B 0x55667788, 0x00000010, 0x00000000, 0x80000000
static const struct rpcrdma_segment segs[] = {
        {0x11223344, 0x1000, 0x100000002},
        {0x55667788, 0x10, 0x80000000},
};

#define XID 0x12345678

/* Draft s6.3.5: every field of an external call. */
static const uint32_t call_external[] = {
        XID,        2,     9,     RDMA2_CALL_EXTERNAL,
        0x55667788, /* rdma_inv_handle */
        1,          0,     SEG_A, 1,
        0,          SEG_B, 0, /* rdma_call: two segments */
        1,          72,    SEG_A, 1,
        72,         SEG_B, 1,     80,
        SEG_A,      0, /* rdma_reads: two chunks */
        1,          2,     SEG_A, SEG_B,
        1,          0,     0,     /* writes: one of two segments, an empty one */
        1,          1,     SEG_B, /* the Reply chunk */
};
/* s6.3.7 without and with chunks, followed by the RPC message. */
static const uint32_t call_plain[] = {XID, 2, 9, RDMA2_CALL_INLINE, 0, 0, 0, 0, XID, 0};
static const uint32_t call_chunks[] = {
        XID, 2, 9, RDMA2_CALL_INLINE, 0x11223344, 1, 4, SEG_A, 1, 8, SEG_B, 0, 1, 1, SEG_B,
        0,   1, 0, /* an empty Reply chunk */
        XID, 0,
};
static const uint32_t call_middle[] = {XID, 2, 9, RDMA2_CALL_MIDDLE, 70000, XID, 0};
static const uint32_t reply_external[] = {
        XID, 2, 9, RDMA2_REPLY_EXTERNAL, 1, 2, SEG_A, SEG_B, 0, 1, 1, SEG_B,
};
static const uint32_t reply_middle[] = {XID, 2, 9, RDMA2_REPLY_MIDDLE, 4, XID, 1};
static const uint32_t reply_plain[] = {XID, 2, 9, RDMA2_REPLY_INLINE, 0, XID, 1};
static const uint32_t reply_writes[] = {XID, 2,   9, RDMA2_REPLY_INLINE, 1, 1, SEG_A, 1, 0,
                                        0,   XID, 1};
static const uint32_t grant[] = {0, 2, 9, RDMA2_GRANT};
static const uint32_t err_vers[] = {7, 2, 9, RDMA2_ERROR, RDMA2_ERR_VERS, 1, 1};
/* s6.3.3: two known properties and an unknown one. More are in test_wire_props.c. */
static const uint32_t props[] = {
        7, 2, 9, RDMA2_CONNPROP_MIDDLE, 3, 1, 4, 8192, 5, 0, 99, 3, 0x61626300,
};

struct vector {
	const uint32_t *w;
	unsigned int n;       /* number of words, including the RPC message */
	unsigned int payload; /* words of the RPC message */
};
#define VECTOR(a, payload)                                                                         \
	{                                                                                          \
		(a), N(a), (payload)                                                               \
	}
static const struct vector vectors[] = {
        VECTOR(call_external, 0), VECTOR(call_plain, 2),     VECTOR(call_chunks, 2),
        VECTOR(call_middle, 2),   VECTOR(reply_external, 0), VECTOR(reply_middle, 2),
        VECTOR(reply_plain, 2),   VECTOR(reply_writes, 2),   VECTOR(grant, 0),
        VECTOR(err_vers, 0),      VECTOR(props, 0),
};

static bool
is_chunk(const struct rpcrdma_chunks *c, const struct rpcrdma_chunk *k, unsigned int seg,
         unsigned int n)
{
	uint64_t len = 0;

	for (unsigned int i = 0; i < n; i++) {
		const struct rpcrdma_segment *s = &weft_rpcrdma_segs(c, k)[i];

		len += segs[seg + i].len_bytes;
		if (s->handle != segs[seg + i].handle || s->len_bytes != segs[seg + i].len_bytes ||
		    s->offset != segs[seg + i].offset)
			return false;
	}
	return k->n_segs == n && k->len_bytes == len;
}

static void
test_vectors(void)
{
	struct rpcrdma_hdr h;
	uint8_t m[1024], out[1024];

	for (unsigned int i = 0; i < N(vectors); i++) {
		uint32_t len = wire_words(m, vectors[i].w, vectors[i].n), hdr = len;

		hdr -= 4 * vectors[i].payload;
		CHECK_EQ(wire_decode(m, len, NULL, &h), RPCRDMA_OK);
		CHECK_EQ(h.p.xid, vectors[i].w[0]);
		CHECK_EQ(h.p.vers, 2);
		CHECK_EQ(h.p.credit, 9);
		CHECK_EQ(h.p.htype, vectors[i].w[3]);
		CHECK_EQ(h.len_bytes, hdr);
		CHECK_EQ(weft_rpcrdma_hdr_bytes(&h), hdr);
		CHECK_EQ(weft_rpcrdma_encode(out, sizeof(out), &h), hdr);
		CHECK_MEM(out, m, hdr);
	}
	CHECK_EQ(4 * (N(call_plain) - 2), RPCRDMA_CALL_HDR_BYTES);
	CHECK_EQ(4 * (N(reply_plain) - 2), RPCRDMA_REPLY_HDR_BYTES);
}

static void
test_chunks(void)
{
	struct rpcrdma_hdr h;
	const struct rpcrdma_chunks *c = &h.chunks;

	CHECK_EQ(wire_decode_words(call_external, N(call_external), &h), RPCRDMA_OK);
	CHECK_EQ(c->inv_handle, 0x55667788);
	CHECK(is_chunk(c, &c->call, 0, 2));
	CHECK_EQ(c->n_reads, 2);
	CHECK(is_chunk(c, &c->reads[0], 0, 2));
	CHECK_EQ(c->reads[0].position, 72);
	CHECK(is_chunk(c, &c->reads[1], 0, 1));
	CHECK_EQ(c->reads[1].position, 80);
	CHECK_EQ(c->n_writes, 2);
	CHECK(is_chunk(c, &c->writes[0], 0, 2));
	CHECK(is_chunk(c, &c->writes[1], 0, 0));
	CHECK(c->has_reply);
	CHECK(is_chunk(c, &c->reply, 1, 1));
	CHECK_EQ(c->n_segs, 8);

	CHECK_EQ(wire_decode_words(call_plain, N(call_plain), &h), RPCRDMA_OK);
	CHECK_EQ(c->inv_handle + c->n_reads + c->n_writes + c->n_segs + c->has_reply, 0);
	CHECK_EQ(c->call.n_segs, 0);

	CHECK_EQ(wire_decode_words(call_chunks, N(call_chunks), &h), RPCRDMA_OK);
	CHECK_EQ(c->n_reads, 2);
	CHECK(c->has_reply);
	CHECK_EQ(c->reply.n_segs, 0);

	CHECK_EQ(wire_decode_words(call_middle, N(call_middle), &h), RPCRDMA_OK);
	CHECK_EQ(h.remaining_bytes, 70000);
	/* Chunks may name the same memory, as some of these do, because it belongs to the
	 * requester. */
	CHECK_EQ(wire_decode_words(call_chunks, N(call_chunks), &h), RPCRDMA_OK);
	CHECK(is_chunk(c, &c->reads[1], 1, 1));
	CHECK(is_chunk(c, &c->writes[0], 1, 1));
}

static void
test_direction(void)
{
	static const struct {
		uint32_t htype;
		enum rpcrdma_dir dir;
	} t[] = {
	        {RDMA2_ERROR, RPCRDMA_DIR_NONE},           {RDMA2_GRANT, RPCRDMA_DIR_NONE},
	        {RDMA2_CONNPROP_FINAL, RPCRDMA_DIR_NONE},  {RDMA2_CALL_EXTERNAL, RPCRDMA_DIR_CALL},
	        {RDMA2_CALL_MIDDLE, RPCRDMA_DIR_CALL},     {RDMA2_CALL_INLINE, RPCRDMA_DIR_CALL},
	        {RDMA2_REPLY_EXTERNAL, RPCRDMA_DIR_REPLY}, {RDMA2_REPLY_MIDDLE, RPCRDMA_DIR_REPLY},
	        {RDMA2_REPLY_INLINE, RPCRDMA_DIR_REPLY},   {14, RPCRDMA_DIR_NONE},
	};
	struct rpcrdma_hdr h;
	uint8_t m[64];

	for (unsigned int i = 0; i < N(t); i++) {
		weft_rpcrdma_hdr_init(&h, 2, t[i].htype, 1);
		CHECK_EQ(weft_rpcrdma_dir(&h, NULL, 0), t[i].dir);
	}
	/* s7.2: the xid of the RPC message is the header's. */
	CHECK_EQ(wire_decode(m, wire_words(m, call_plain, N(call_plain)), NULL, &h), RPCRDMA_OK);
	CHECK(weft_rpcrdma_xid_ok(&h, m, 40));
	CHECK(weft_rpcrdma_xid_ok(&h, m, 36));
	CHECK(!weft_rpcrdma_xid_ok(&h, m, 35));
	m[35] ^= 1;
	CHECK(!weft_rpcrdma_xid_ok(&h, m, 40));
}

static void
test_errors(void)
{
	/* Words of each arm (s6.3.1), and those of the default arm. */
	static const struct {
		uint32_t code, words;
		enum rpcrdma_verdict v;
	} arm[] = {
	        {RDMA2_ERR_VERS, 2, RPCRDMA_OK},
	        {RDMA2_ERR_BAD_XDR, 0, RPCRDMA_OK},
	        {RDMA2_ERR_BAD_PROPVAL, 0, RPCRDMA_OK},
	        {RDMA2_ERR_INVAL_HTYPE, 0, RPCRDMA_OK},
	        {RDMA2_ERR_INVAL_CONT, 0, RPCRDMA_OK},
	        {RDMA2_ERR_READ_CHUNKS, 1, RPCRDMA_OK},
	        {RDMA2_ERR_WRITE_CHUNKS, 1, RPCRDMA_OK},
	        {RDMA2_ERR_SEGMENTS, 1, RPCRDMA_OK},
	        {RDMA2_ERR_WRITE_RESOURCE, 2, RPCRDMA_OK},
	        {RDMA2_ERR_REPLY_RESOURCE, 1, RPCRDMA_OK},
	        {RDMA2_ERR_VERS_MISMATCH, 0, RPCRDMA_OK},
	        {RDMA2_ERR_SYSTEM, 0, RPCRDMA_OK},
	        {0, 0, RPCRDMA_DISCARD},
	        {12, 0, RPCRDMA_DISCARD},
	        {99, 0, RPCRDMA_DISCARD},
	        {0xffffffff, 0, RPCRDMA_DISCARD},
	};
	struct rpcrdma_hdr h;
	uint8_t out[64];

	for (unsigned int i = 0; i < N(arm); i++) {
		uint32_t w[] = {5, 2, 0, RDMA2_ERROR, arm[i].code, 11, 22};

		CHECK_EQ(wire_decode_words(w, 5 + arm[i].words, &h), arm[i].v);
		CHECK_EQ(h.err.code, arm[i].code);
		CHECK_EQ(h.err.a, arm[i].words > 0 ? 11 : 0);
		CHECK_EQ(h.err.b, arm[i].words > 1 ? 22 : 0);
		for (unsigned int n = 4; n < 5 + arm[i].words; n++)
			CHECK_EQ(wire_decode_words(w, n, &h), RPCRDMA_BAD_XDR);
		CHECK_EQ(wire_decode_words(w, 5 + arm[i].words, &h), arm[i].v);
		CHECK_EQ(weft_rpcrdma_encode(out, sizeof(out), &h),
		         arm[i].v == RPCRDMA_OK ? 20 + 4 * arm[i].words : 0);
	}
}

static void
test_versions(void)
{
	struct rpcrdma_hdr h;
	uint8_t out[64];

	/* Neither 1 nor 2: only the fixed part may be decoded. */
	CHECK_EQ(wire_decode_changed(call_plain, N(call_plain), 1, 3), RPCRDMA_BAD_VERS);
	CHECK_EQ(wire_decode_changed(call_plain, N(call_plain), 1, 0), RPCRDMA_BAD_VERS);
	CHECK_EQ(wire_decode_changed(grant, N(grant), 1, 3), RPCRDMA_BAD_VERS);
	/* Only ERR_VERS has the same form in every version (s7.1.1, RFC 8166 s4.2). */
	for (uint32_t vers = 0; vers < 5; vers++)
		CHECK_EQ(wire_decode_changed(err_vers, N(err_vers), 1, vers), RPCRDMA_OK);
	CHECK_EQ(wire_decode_words((const uint32_t[]){7, 3, 9, RDMA2_ERROR, 2}, 5, &h),
	         RPCRDMA_BAD_VERS);
	CHECK_EQ(wire_decode_words((const uint32_t[]){7, 3, 9, RDMA2_ERROR, 1, 1}, 6, &h),
	         RPCRDMA_BAD_VERS);
	/* An error has the version of the message in error (s7), or any version if it is about
	 * the version. */
	weft_rpcrdma_hdr_init(&h, 77, RDMA2_ERROR, 5);
	h.err = (struct rpcrdma_err){RDMA2_ERR_VERS, 1, 2};
	CHECK_EQ(weft_rpcrdma_encode(out, sizeof(out), &h), 28);
	CHECK_EQ(weft_get_be32(out + 4), 77);
	h.err = (struct rpcrdma_err){.code = RDMA2_ERR_VERS_MISMATCH};
	CHECK_EQ(weft_rpcrdma_encode(out, sizeof(out), &h), 20);
	h.err = (struct rpcrdma_err){.code = RDMA2_ERR_BAD_XDR};
	CHECK_EQ(weft_rpcrdma_encode(out, sizeof(out), &h), 0);
	/* Types that table 2 does not have. */
	for (uint32_t t = 0; t < 300; t++)
		CHECK_EQ(wire_decode_changed(call_plain, N(call_plain), 3, t) == RPCRDMA_BAD_HTYPE,
		         t < 4 || t > 13);
	CHECK_EQ(wire_decode_changed(call_plain, N(call_plain), 3, 0xffffff0a), RPCRDMA_BAD_HTYPE);
}

static void
test_rules(void)
{
	/* call_external: the words of rdma_call begin at 5, those of rdma_reads at 18. */
	const uint32_t *x = call_external;
	const unsigned int n = N(call_external);
	struct rpcrdma_hdr h;

	/* s6.6.3: every segment of a Call chunk is at position 0; s6.3.5: there is one. */
	CHECK_EQ(wire_decode_changed(x, n, 6, 4), RPCRDMA_BAD_XDR);
	CHECK_EQ(wire_decode_changed(x, n, 12, 4), RPCRDMA_BAD_XDR);
	CHECK_EQ(wire_decode_words((const uint32_t[]){1, 2, 9, 8, 0, 0, 0, 0, 0}, 9, &h),
	         RPCRDMA_BAD_XDR);
	/* s4.5.1: multiples of four; s4.5.1.1: not backwards; s6.3.7: not 0. */
	for (uint32_t p = 0; p < 90; p++) {
		bool ok = p % 4 == 0 && p > 0 && p <= 72;

		CHECK_EQ(wire_decode_changed(x, n, 19, p) == RPCRDMA_OK, ok);
		CHECK_EQ(wire_decode_changed(x, n, 31, p) == RPCRDMA_OK, p % 4 == 0 && p >= 72);
	}
	CHECK_EQ(wire_decode_changed(call_chunks, N(call_chunks), 6, 0), RPCRDMA_BAD_XDR);
	/* s6.3.8: exactly one Reply chunk. */
	CHECK_EQ(wire_decode_words((const uint32_t[]){1, 2, 9, RDMA2_REPLY_EXTERNAL, 0, 0}, 6, &h),
	         RPCRDMA_BAD_XDR);
	CHECK_EQ(wire_decode_words((const uint32_t[]){1, 2, 9, RDMA2_REPLY_EXTERNAL, 0, 1, 0}, 7,
	                           &h),
	         RPCRDMA_OK);
	CHECK(h.chunks.has_reply);
	/* RFC 4506 s4.4: 0 or 1, also for the flag that another element follows. */
	for (unsigned int at = 5; at <= 7; at++) {
		CHECK_EQ(wire_decode_changed(call_plain, N(call_plain), at, 2), RPCRDMA_BAD_XDR);
		CHECK_EQ(wire_decode_changed(call_plain, N(call_plain), at, 0x01000000),
		         RPCRDMA_BAD_XDR);
		CHECK_EQ(wire_decode_changed(call_plain, N(call_plain), at, 0xffffffff),
		         RPCRDMA_BAD_XDR);
	}
	/* rdma_rpc_first_word is part of the header: a payload has one word at least. */
	CHECK_EQ(wire_decode_words(call_plain, 8, &h), RPCRDMA_BAD_XDR);
	CHECK_EQ(wire_decode_words(call_plain, 9, &h), RPCRDMA_OK);
	CHECK_EQ(wire_decode_words(call_middle, 5, &h), RPCRDMA_BAD_XDR);
	/* Octets after a header without payload are ignored. */
	CHECK_EQ(wire_decode_words((const uint32_t[]){0, 2, 9, RDMA2_GRANT, 1, 2, 3}, 7, &h),
	         RPCRDMA_OK);
	CHECK_EQ(h.len_bytes, 16);
}

static void
test_huge_counts(void)
{
	static const uint32_t counts[] = {3,          4,          64,         65,
	                                  0xffff,     0x0fffffff, 0x10000000, 0x10000001,
	                                  0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};

	for (unsigned int i = 0; i < N(counts); i++) {
		/* Segments of Write and Reply chunks; properties; the octets of one. */
		CHECK_EQ(wire_decode_changed(reply_writes, N(reply_writes), 5, counts[i]),
		         RPCRDMA_BAD_XDR);
		CHECK_EQ(wire_decode_changed(reply_external, N(reply_external), 5, counts[i]),
		         RPCRDMA_BAD_XDR);
		CHECK_EQ(wire_decode_changed(call_external, N(call_external), N(call_external) - 5,
		                             counts[i]),
		         RPCRDMA_BAD_XDR);
		if (counts[i] > 3)
			CHECK_EQ(wire_decode_changed(props, N(props), 4, counts[i]),
			         RPCRDMA_BAD_XDR);
		if (counts[i] > 28)
			CHECK_EQ(wire_decode_changed(props, N(props), 6, counts[i]),
			         RPCRDMA_BAD_PROPVAL);
	}
}

/* A call with n Read chunks of one segment each, and Write chunks of n segments each. */
static enum rpcrdma_verdict
decode_lists(unsigned int reads, unsigned int writes, unsigned int each,
             const struct rpcrdma_limits *limits)
{
	struct rpcrdma_hdr h;
	uint8_t m[32768];
	uint32_t len = wire_words(m, (const uint32_t[]){1, 2, 9, RDMA2_CALL_INLINE, 0}, 5);

	for (unsigned int i = 0; i < reads; i++)
		len += wire_words(m + len, (const uint32_t[]){1, 4 + 4 * i, SEG_A}, 6);
	len += wire_words(m + len, (const uint32_t[]){0}, 1);
	for (unsigned int i = 0; i < writes; i++) {
		len += wire_words(m + len, (const uint32_t[]){1, each}, 2);
		for (unsigned int k = 0; k < each; k++)
			len += wire_words(m + len, (const uint32_t[]){SEG_B}, 4);
	}
	len += wire_words(m + len, (const uint32_t[]){0, 0, 1, 0}, 4);
	CHECK(len <= sizeof(m));
	return wire_decode(m, len, limits, &h);
}

static void
test_limits(void)
{
	static const struct rpcrdma_limits few = {.read_chunks = 2, .write_chunks = 1, .segs = 6};
	static const struct rpcrdma_limits none = {0}, more = {1000, 1000, 1000};
	struct rpcrdma_err err;

	CHECK_EQ(decode_lists(16, 16, 3, NULL), RPCRDMA_OK);
	CHECK_EQ(decode_lists(16, 16, 3, &more), RPCRDMA_OK);
	CHECK_EQ(decode_lists(17, 0, 0, NULL), RPCRDMA_MANY_READS);
	CHECK_EQ(decode_lists(17, 0, 0, &more), RPCRDMA_MANY_READS);
	CHECK_EQ(decode_lists(0, 17, 0, NULL), RPCRDMA_MANY_WRITES);
	CHECK_EQ(decode_lists(16, 16, 4, NULL), RPCRDMA_MANY_SEGS);
	CHECK_EQ(decode_lists(0, 1, 64, NULL), RPCRDMA_OK);
	CHECK_EQ(decode_lists(0, 1, 65, NULL), RPCRDMA_MANY_SEGS);
	/* the first limit that is exceeded */
	CHECK_EQ(decode_lists(100, 17, 70, NULL), RPCRDMA_MANY_READS);
	CHECK_EQ(decode_lists(2, 1, 4, &few), RPCRDMA_OK);
	CHECK_EQ(decode_lists(3, 1, 1, &few), RPCRDMA_MANY_READS);
	CHECK_EQ(decode_lists(2, 2, 1, &few), RPCRDMA_MANY_WRITES);
	CHECK_EQ(decode_lists(2, 1, 5, &few), RPCRDMA_MANY_SEGS);
	CHECK_EQ(decode_lists(0, 0, 0, &none), RPCRDMA_OK);
	CHECK_EQ(decode_lists(1, 0, 0, &none), RPCRDMA_MANY_READS);
	CHECK_EQ(decode_lists(0, 1, 0, &none), RPCRDMA_MANY_WRITES);

	/* The error for each verdict (s7). */
	CHECK(!weft_rpcrdma_verdict_err(RPCRDMA_OK, 2, NULL, 1, 2, &err));
	CHECK(!weft_rpcrdma_verdict_err(RPCRDMA_SHORT, 2, NULL, 1, 2, &err));
	CHECK(!weft_rpcrdma_verdict_err(RPCRDMA_DISCARD, 2, NULL, 1, 2, &err));
	CHECK(weft_rpcrdma_verdict_err(RPCRDMA_BAD_VERS, 3, NULL, 1, 2, &err));
	CHECK_EQ(err.code, RDMA2_ERR_VERS);
	CHECK_EQ(err.a, 1);
	CHECK_EQ(err.b, 2);
	CHECK(weft_rpcrdma_verdict_err(RPCRDMA_BAD_HTYPE, 2, NULL, 1, 2, &err));
	CHECK_EQ(err.code, RDMA2_ERR_INVAL_HTYPE);
	CHECK(weft_rpcrdma_verdict_err(RPCRDMA_BAD_XDR, 2, NULL, 1, 2, &err));
	CHECK_EQ(err.code, RDMA2_ERR_BAD_XDR);
	CHECK(weft_rpcrdma_verdict_err(RPCRDMA_BAD_PROPVAL, 2, NULL, 1, 2, &err));
	CHECK_EQ(err.code, RDMA2_ERR_BAD_PROPVAL);
	CHECK(weft_rpcrdma_verdict_err(RPCRDMA_MANY_READS, 2, &few, 1, 2, &err));
	CHECK_EQ(err.code, RDMA2_ERR_READ_CHUNKS);
	CHECK_EQ(err.a, 2);
	CHECK(weft_rpcrdma_verdict_err(RPCRDMA_MANY_WRITES, 2, &few, 1, 2, &err));
	CHECK_EQ(err.code, RDMA2_ERR_WRITE_CHUNKS);
	CHECK_EQ(err.a, 1);
	CHECK(weft_rpcrdma_verdict_err(RPCRDMA_MANY_SEGS, 2, NULL, 1, 2, &err));
	CHECK_EQ(err.code, RDMA2_ERR_SEGMENTS);
	CHECK_EQ(err.a, RPCRDMA_MAX_SEGS);
}

static void
test_build(void)
{
	struct rpcrdma_hdr h;
	struct rpcrdma_chunks *c = &h.chunks;
	uint8_t out[1024], m[1024];
	uint32_t len;

	weft_rpcrdma_hdr_init(&h, 2, RDMA2_CALL_EXTERNAL, XID);
	h.p.credit = 9;
	c->inv_handle = 0x55667788;
	CHECK_EQ(weft_rpcrdma_encode(out, sizeof(out), &h), 0); /* no Call chunk yet */
	CHECK_EQ(weft_rpcrdma_call_set(c, segs, 0), -EINVAL);
	CHECK_EQ(weft_rpcrdma_call_set(c, segs, 2), 0);
	CHECK_EQ(weft_rpcrdma_call_set(c, segs, 1), -EINVAL);
	CHECK_EQ(weft_rpcrdma_read_add(c, 0, segs, 1), -EINVAL);
	CHECK_EQ(weft_rpcrdma_read_add(c, 6, segs, 1), -EINVAL);
	CHECK_EQ(weft_rpcrdma_read_add(c, 72, segs, 0), -EINVAL);
	CHECK_EQ(weft_rpcrdma_read_add(c, 72, segs, 2), 0);
	CHECK_EQ(weft_rpcrdma_read_add(c, 72, segs, 1), -EINVAL);
	CHECK_EQ(weft_rpcrdma_read_add(c, 80, segs, 1), 0);
	CHECK_EQ(weft_rpcrdma_write_add(c, segs, 2), 0);
	CHECK_EQ(weft_rpcrdma_write_add(c, NULL, 0), 0);
	CHECK_EQ(weft_rpcrdma_reply_set(c, &segs[1], 1), 0);
	CHECK_EQ(weft_rpcrdma_reply_set(c, segs, 1), -EINVAL);
	len = wire_words(m, call_external, N(call_external));
	CHECK_EQ(weft_rpcrdma_encode(out, sizeof(out), &h), len);
	CHECK_MEM(out, m, len);
	/* An inline call has its payload inline. A reply has none in a Read chunk. */
	h.p.htype = RDMA2_CALL_INLINE;
	CHECK_EQ(weft_rpcrdma_hdr_bytes(&h), 0);
	h.p.htype = RDMA2_REPLY_INLINE;
	CHECK_EQ(weft_rpcrdma_hdr_bytes(&h), 0);
	h.p.htype = 14;
	CHECK_EQ(weft_rpcrdma_hdr_bytes(&h), 0);

	/* A full list: refused, and its content stays. */
	weft_rpcrdma_hdr_init(&h, 2, RDMA2_CALL_INLINE, XID);
	for (unsigned int i = 0; i < RPCRDMA_MAX_READ_CHUNKS; i++)
		CHECK_EQ(weft_rpcrdma_read_add(c, 4 + 4 * i, segs, 2), 0);
	CHECK_EQ(weft_rpcrdma_read_add(c, 4000, segs, 1), -ENOSPC);
	for (unsigned int i = 0; i < RPCRDMA_MAX_WRITE_CHUNKS - 1; i++)
		CHECK_EQ(weft_rpcrdma_write_add(c, segs, 2), 0);
	CHECK_EQ(weft_rpcrdma_write_add(c, segs, 1), 0);
	CHECK_EQ(weft_rpcrdma_write_add(c, NULL, 0), -ENOSPC);
	CHECK_EQ(weft_rpcrdma_reply_set(c, segs, 2), -ENOSPC);
	CHECK(!c->has_reply);
	CHECK_EQ(weft_rpcrdma_reply_set(c, segs, 1), 0);
	CHECK_EQ(c->n_segs, RPCRDMA_MAX_SEGS);
	len = weft_rpcrdma_encode(out, sizeof(out), &h);
	CHECK_EQ(len, 0);
	{
		uint8_t big[WIRE_MAX_BYTES];
		struct rpcrdma_hdr back;

		len = weft_rpcrdma_encode(big, sizeof(big), &h);
		CHECK_EQ(len, weft_rpcrdma_hdr_bytes(&h));
		len += wire_words(big + len, (const uint32_t[]){XID, 0}, 2);
		CHECK_EQ(wire_decode(big, len, NULL, &back), RPCRDMA_OK);
		CHECK(wire_equal(&h, &back));
	}
}

/* Draft s4.5.2.1: the segment count is returned, and the lengths say what was written. */
static void
test_write_back(void)
{
	static const struct rpcrdma_segment three[] = {{1, 100, 0}, {2, 50, 7}, {3, 100, 9}};
	struct rpcrdma_hdr call, reply;
	const struct rpcrdma_segment *s;
	struct rpcrdma_chunks *c = &reply.chunks;

	weft_rpcrdma_hdr_init(&call, 2, RDMA2_CALL_INLINE, 1);
	weft_rpcrdma_read_add(&call.chunks, 4, three, 3);
	weft_rpcrdma_write_add(&call.chunks, three, 3);
	weft_rpcrdma_write_add(&call.chunks, NULL, 0);
	weft_rpcrdma_write_add(&call.chunks, three, 1);
	weft_rpcrdma_reply_set(&call.chunks, three, 2);
	weft_rpcrdma_hdr_init(&reply, 2, RDMA2_REPLY_INLINE, 1);
	weft_rpcrdma_chunks_return(c, &call.chunks, false);
	CHECK_EQ(c->n_reads, 0);
	CHECK_EQ(c->n_writes, 3);
	CHECK(!c->has_reply);
	CHECK_EQ(weft_rpcrdma_chunk_fill(c, &c->writes[0], 120), 0);
	s = weft_rpcrdma_segs(c, &c->writes[0]);
	CHECK_EQ(s[0].len_bytes, 100);
	CHECK_EQ(s[1].len_bytes, 20);
	CHECK_EQ(s[2].len_bytes, 0);
	CHECK_EQ(s[1].offset, 7);
	CHECK_EQ(c->writes[0].len_bytes, 120);
	CHECK_EQ(weft_rpcrdma_chunk_fill(c, &c->writes[1], 5), 5); /* an empty one holds nothing */
	CHECK_EQ(weft_rpcrdma_chunk_fill(c, &c->writes[2], 0), 0); /* unused */
	CHECK_EQ(c->writes[2].n_segs, 1);
	CHECK_EQ(c->writes[2].len_bytes, 0);
	CHECK_EQ(weft_rpcrdma_hdr_bytes(&reply), 20 + 3 * 8 + 4 * 16);
	/* The chunks of the call are unchanged. */
	CHECK_EQ(call.chunks.writes[0].len_bytes, 250);

	weft_rpcrdma_hdr_init(&reply, 2, RDMA2_REPLY_EXTERNAL, 1);
	CHECK_EQ(weft_rpcrdma_hdr_bytes(&reply), 0);
	weft_rpcrdma_chunks_return(c, &call.chunks, true);
	CHECK(c->has_reply);
	CHECK_EQ(weft_rpcrdma_chunk_fill(c, &c->reply, UINT64_C(0x100000000)), 0x100000000 - 150);
	CHECK_EQ(c->reply.len_bytes, 150);
	CHECK_EQ(weft_rpcrdma_hdr_bytes(&reply), 16 + 3 * 8 + 4 * 16 + 4 + 4 + 4 + 2 * 16);
}

WEFT_TEST_MAIN({"vectors", test_vectors}, {"chunks", test_chunks},
               {"direction and xid", test_direction}, {"errors", test_errors},
               {"versions and types", test_versions}, {"rules", test_rules},
               {"huge counts", test_huge_counts}, {"limits", test_limits}, {"building", test_build},
               {"lengths written back", test_write_back})
