/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The codec of version 1 headers (RFC 8166 s4): the RFC's examples, headers of a Linux NFS
 * client and server over iWARP, and the rules.
 */

#include <errno.h>

#include "weft_test.h"
#include "wire_rig.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

/* ---- Headers of a Linux NFS version 3 client, and of the Linux server's answers ---- */

/* NULL: no chunks. The RPC message follows, up to its procedure. */
static const uint32_t nfs_null_call[] = {0x8b2de697, 1, 128, 0,       0, 0, 0,
                                         0x8b2de697, 0, 2,   0x186a3, 3, 0};
static const uint32_t nfs_null_reply[] = {0x8b2de697, 1, 64, 0, 0, 0, 0, 0x8b2de697, 1, 0, 0, 0, 0};
/* READ of 20000 octets: a Write chunk with room for five pages, and the length that was written. */
static const uint32_t nfs_read_call[] = {
        0x952de697, 1, 128, 0,          0, 1, 1,       0xcd715201, 0x5000, 0x952de697,
        0x0a7ac000, 0, 0,   0x952de697, 0, 2, 0x186a3, 3,          6};
static const uint32_t nfs_read_reply[] = {
        0x952de697, 1, 64, 0,          0, 1, 1, 0xcd715201, 0x4e20, 0x952de697,
        0x0a7ac000, 0, 0,  0x952de697, 1, 0, 0, 0,          0};
/* WRITE of 20000 octets: a Read chunk at position 108. */
static const uint32_t nfs_write_call[] = {
        0x992de697, 1, 128, 0,          1, 0x6c, 0xb541f201, 0x4e20, 0x992de697, 0x028fc000,
        0,          0, 0,   0x992de697, 0, 2,    0x186a3,    3,      7};
/* GETACL: a Reply chunk of three segments. The reply is a Long one, in the first segment. */
static const uint32_t nfs_acl_call[] = {
        0x972de697, 1,          128,        0,          0,          0,          1,
        3,          0xeafaf302, 0x100,      0x972de697, 0x08fb3800, 0xfd9ebd02, 0x7000,
        0x972de697, 0x2fdc9000, 0x03c16301, 4,          0x972de697, 0x08fb3900, 0x972de697,
        0,          2,          0x18783,    3,          1};
static const uint32_t nfs_acl_reply[] = {
        0x972de697, 1,          64,         1,          0,          0,          1,
        3,          0xeafaf302, 0x88,       0x972de697, 0x08fb3800, 0xfd9ebd02, 0,
        0x972de697, 0x2fdc9000, 0x03c16301, 0,          0x972de697, 0x08fb3900};

struct vector {
	const uint32_t *w;
	unsigned int n, payload;
	enum rpcrdma_dir dir;
};
static const struct vector vectors[] = {
        {nfs_null_call, N(nfs_null_call), 6, RPCRDMA_DIR_CALL},
        {nfs_null_reply, N(nfs_null_reply), 6, RPCRDMA_DIR_REPLY},
        {nfs_read_call, N(nfs_read_call), 6, RPCRDMA_DIR_CALL},
        {nfs_read_reply, N(nfs_read_reply), 6, RPCRDMA_DIR_REPLY},
        {nfs_write_call, N(nfs_write_call), 6, RPCRDMA_DIR_CALL},
        {nfs_acl_call, N(nfs_acl_call), 6, RPCRDMA_DIR_CALL},
        {nfs_acl_reply, N(nfs_acl_reply), 0, RPCRDMA_DIR_REPLY},
};

static void
test_linux(void)
{
	struct rpcrdma_hdr h;
	const struct rpcrdma_chunks *c = &h.chunks;
	uint8_t m[1024], out[1024];

	for (unsigned int i = 0; i < N(vectors); i++) {
		uint32_t len = wire_words(m, vectors[i].w, vectors[i].n);
		uint32_t hdr = len - 4 * vectors[i].payload;

		CHECK_EQ(wire_decode(m, len, NULL, &h), RPCRDMA_OK);
		CHECK_EQ(h.len_bytes, hdr);
		CHECK_EQ(weft_rpcrdma_dir(&h, m, len), vectors[i].dir);
		CHECK(vectors[i].payload == 0 || weft_rpcrdma_xid_ok(&h, m, len));
		CHECK_EQ(weft_rpcrdma_hdr_bytes(&h), hdr);
		CHECK_EQ(weft_rpcrdma_encode(out, sizeof(out), &h), hdr);
		CHECK_MEM(out, m, hdr);
	}
	CHECK_EQ(wire_decode_words(nfs_read_call, N(nfs_read_call), &h), RPCRDMA_OK);
	CHECK_EQ(c->n_writes, 1);
	CHECK_EQ(c->writes[0].len_bytes, 0x5000);
	CHECK_EQ(c->segs[0].handle, 0xcd715201);
	CHECK_EQ(c->segs[0].offset, 0x952de6970a7ac000);
	CHECK_EQ(wire_decode_words(nfs_write_call, N(nfs_write_call), &h), RPCRDMA_OK);
	CHECK_EQ(c->n_reads, 1);
	CHECK_EQ(c->reads[0].position, 108);
	CHECK_EQ(c->reads[0].len_bytes, 20000);
	CHECK_EQ(c->call.n_segs, 0);
	CHECK_EQ(wire_decode_words(nfs_acl_call, N(nfs_acl_call), &h), RPCRDMA_OK);
	CHECK(c->has_reply);
	CHECK_EQ(c->reply.n_segs, 3);
	/* The returned chunk of the server equals what weft computes from the call's Reply
	 * chunk. */
	{
		struct rpcrdma_hdr reply;
		uint32_t len = wire_words(m, nfs_acl_reply, N(nfs_acl_reply));

		weft_rpcrdma_hdr_init(&reply, 1, RDMA1_NOMSG, h.p.xid);
		reply.p.credit = 64;
		weft_rpcrdma_chunks_return(&reply.chunks, c, true);
		CHECK_EQ(weft_rpcrdma_chunk_fill(&reply.chunks, &reply.chunks.reply, 0x88), 0);
		CHECK_EQ(weft_rpcrdma_encode(out, sizeof(out), &reply), len);
		CHECK_MEM(out, m, len);
	}
}

/* RFC 8166 s4.7 with values for its letters H, L, OO and P. */
static void
test_rfc_examples(void)
{
	static const uint32_t w[] = {7, 1, 3, RDMA1_MSG,
	                             /* a Read chunk "1 PHLOO 1 PHLOO 1 PHLOO 0" */
	                             1, 16, 0xa1, 10, 0, 1, 1, 16, 0xa2, 20, 0, 2, 1, 16, 0xa3, 30,
	                             0, 3, 0,
	                             /* "1 3 HLOO HLOO HLOO 1 2 HLOO HLOO 0" */
	                             1, 3, 0xb1, 1, 0, 4, 0xb2, 2, 0, 5, 0xb3, 3, 0, 6, 1, 2, 0xc1,
	                             4, 0, 7, 0xc2, 5, 0, 8, 0,
	                             /* "1 2 HLOO HLOO" */
	                             1, 2, 0xd1, 6, 0, 9, 0xd2, 7, 1, 10, 7, 0};
	struct rpcrdma_hdr h;
	const struct rpcrdma_chunks *c = &h.chunks;
	uint8_t m[512], out[512];
	uint32_t len = wire_words(m, w, N(w));

	CHECK_EQ(wire_decode(m, len, NULL, &h), RPCRDMA_OK);
	CHECK_EQ(c->n_reads, 1);
	CHECK_EQ(c->reads[0].n_segs, 3);
	CHECK_EQ(c->reads[0].len_bytes, 60);
	CHECK_EQ(c->n_writes, 2);
	CHECK_EQ(c->writes[0].n_segs, 3);
	CHECK_EQ(c->writes[1].len_bytes, 9);
	CHECK_EQ(weft_rpcrdma_segs(c, &c->writes[1])[1].handle, 0xc2);
	CHECK_EQ(c->reply.n_segs, 2);
	CHECK_EQ(weft_rpcrdma_segs(c, &c->reply)[1].offset, 0x10000000a);
	CHECK_EQ(weft_rpcrdma_encode(out, sizeof(out), &h), len - 8);
	CHECK_MEM(out, m, len - 8);
}

/* RFC 8166 s3.4.5: segments are grouped by their positions, in any order. */
static void
test_read_list_any_order(void)
{
	static const uint32_t w[] = {7,  1, 3, RDMA1_NOMSG, 1,  80, 1,   1, 0, 0,  1,  0,   2,
	                             10, 0, 0, 1,           40, 3,  100, 0, 0, 1,  80, 4,   2,
	                             0,  0, 1, 0,           5,  20, 0,   0, 1, 40, 6,  200, 0,
	                             0,  0, 1, 1,           7,  5,  0,   0, 0, 0};
	static const uint32_t call[] = {2, 5}, at40[] = {3, 6}, at80[] = {1, 4};
	struct rpcrdma_hdr h;
	const struct rpcrdma_chunks *c = &h.chunks;
	uint8_t out[512];

	CHECK_EQ(wire_decode_words(w, N(w), &h), RPCRDMA_OK);
	CHECK_EQ(c->n_segs, 7);
	CHECK_EQ(c->n_reads, 2);
	CHECK_EQ(c->reads[0].position, 40);
	CHECK_EQ(c->reads[1].position, 80);
	CHECK_EQ(c->call.len_bytes, 30);
	CHECK_EQ(c->reads[0].len_bytes, 300);
	CHECK_EQ(c->reads[1].len_bytes, 3);
	for (unsigned int i = 0; i < 2; i++) {
		CHECK_EQ(weft_rpcrdma_segs(c, &c->call)[i].handle, call[i]);
		CHECK_EQ(weft_rpcrdma_segs(c, &c->reads[0])[i].handle, at40[i]);
		CHECK_EQ(weft_rpcrdma_segs(c, &c->reads[1])[i].handle, at80[i]);
	}
	CHECK_EQ(weft_rpcrdma_segs(c, &c->writes[0])[0].handle, 7);
	/* Encoded in order, the header has the same length. */
	CHECK_EQ(weft_rpcrdma_encode(out, sizeof(out), &h), 4 * N(w));
	CHECK_EQ(weft_get_be32(out + 20), 0);
	CHECK_EQ(weft_get_be32(out + 24), 2);
	CHECK_EQ(weft_rpcrdma_dir(&h, NULL, 4 * N(w)), RPCRDMA_DIR_CALL);
}

static void
test_rules(void)
{
	static const uint32_t nomsg[] = {7, 1, 3, RDMA1_NOMSG, 0, 1, 1, 1, 2, 3, 4, 0, 0};
	struct rpcrdma_hdr h;
	uint8_t m[64];

	/* s4.5: 28 octets at least, or the message is dropped silently; but an ERR_CHUNK has 20. */
	wire_words(m, nfs_null_call, N(nfs_null_call));
	for (uint32_t n = 0; n < 40; n++)
		CHECK_EQ(wire_decode(m, n, NULL, &h), n < 28   ? RPCRDMA_SHORT
		                                      : n < 32 ? RPCRDMA_BAD_XDR
		                                               : RPCRDMA_OK);
	/* s4.5.2: an undefined procedure; s4.2.4: the place of the payload. */
	for (uint32_t proc = 5; proc < 20; proc++)
		CHECK_EQ(wire_decode_changed(nfs_null_call, N(nfs_null_call), 3, proc),
		         RPCRDMA_BAD_HTYPE);
	CHECK_EQ(wire_decode_words((const uint32_t[]){7, 1, 3, RDMA1_NOMSG, 0, 0, 0}, 7, &h),
	         RPCRDMA_BAD_XDR);
	CHECK_EQ(wire_decode_words(nomsg, N(nomsg), &h),
	         RPCRDMA_BAD_XDR); /* a Write chunk holds no payload */
	CHECK_EQ(wire_decode_words((const uint32_t[]){7, 1, 3, RDMA1_NOMSG, 0, 0, 1, 0}, 8, &h),
	         RPCRDMA_OK);
	CHECK_EQ(wire_decode_changed(nfs_write_call, N(nfs_write_call), 5, 0), RPCRDMA_BAD_XDR);
	/* s3.4.5: a multiple of four. */
	for (uint32_t p = 1; p < 20; p++)
		CHECK_EQ(wire_decode_changed(nfs_write_call, N(nfs_write_call), 5, p),
		         p % 4 == 0 ? RPCRDMA_OK : RPCRDMA_BAD_XDR);
	/* RFC 4506 s4.4: 0 or 1. */
	for (unsigned int at = 4; at <= 6; at++)
		CHECK_EQ(wire_decode_changed(nfs_null_call, N(nfs_null_call), at, 2),
		         RPCRDMA_BAD_XDR);
	/* The direction is in the second word of the RPC message (RFC 8167 s5). */
	CHECK_EQ(wire_decode(m, 52, NULL, &h), RPCRDMA_OK);
	m[35] = 2;
	CHECK_EQ(weft_rpcrdma_dir(&h, m, 52), RPCRDMA_DIR_NONE);
	m[35] = 1;
	CHECK_EQ(weft_rpcrdma_dir(&h, m, 52), RPCRDMA_DIR_REPLY);
	CHECK_EQ(weft_rpcrdma_dir(&h, m, 35), RPCRDMA_DIR_NONE);
}

static void
test_errors(void)
{
	struct rpcrdma_hdr h;
	struct rpcrdma_err err;
	uint8_t out[64];

	CHECK_EQ(wire_decode_words((const uint32_t[]){7, 1, 3, RDMA1_ERROR, 1, 1, 1}, 7, &h),
	         RPCRDMA_OK);
	CHECK_EQ(h.err.code, RDMA1_ERR_VERS);
	CHECK_EQ(h.err.a, 1);
	CHECK_EQ(weft_rpcrdma_encode(out, sizeof(out), &h), 28);
	CHECK_EQ(wire_decode_words((const uint32_t[]){7, 1, 3, RDMA1_ERROR, 2}, 5, &h), RPCRDMA_OK);
	CHECK_EQ(h.err.code, RDMA1_ERR_CHUNK);
	CHECK_EQ(weft_rpcrdma_encode(out, sizeof(out), &h), 20);
	/* s4.5: a message that cannot be decoded is dropped silently. */
	for (uint32_t code = 3; code < 20; code++)
		CHECK_EQ(wire_decode_words((const uint32_t[]){7, 1, 3, RDMA1_ERROR, code, 0, 0}, 7,
		                           &h),
		         RPCRDMA_DISCARD);
	CHECK_EQ(wire_decode_words((const uint32_t[]){7, 1, 3, RDMA1_ERROR}, 4, &h),
	         RPCRDMA_BAD_XDR);
	CHECK_EQ(wire_decode_words((const uint32_t[]){7, 1, 3, RDMA1_ERROR, 1, 1}, 6, &h),
	         RPCRDMA_BAD_XDR);
	/* s4.5.2: ERR_CHUNK for every fault in a header except its version. */
	for (unsigned int v = 0; v < RPCRDMA_N_VERDICTS; v++) {
		bool silent = v == RPCRDMA_OK || v == RPCRDMA_SHORT || v == RPCRDMA_DISCARD;

		CHECK_EQ(weft_rpcrdma_verdict_err(v, 1, NULL, 1, 2, &err), !silent);
		if (!silent && v != RPCRDMA_BAD_VERS)
			CHECK_EQ(err.code, RDMA1_ERR_CHUNK);
		CHECK(v == RPCRDMA_BAD_VERS || err.a == 0);
	}
}

/* s4.6: these types are never sent. RDMA_DONE is dropped. A responder answers RDMA_MSGP with
 * ERR_CHUNK. */
static void
test_no_longer_supported(void)
{
	static const uint32_t msgp[] = {7, 1, 3, RDMA1_MSGP, 4096, 512, 1, 8, 1,
	                                2, 3, 4, 0,          0,    0,   7, 0};
	struct rpcrdma_hdr h;
	uint8_t m[128], out[128];
	uint32_t len = wire_words(m, msgp, N(msgp));

	CHECK_EQ(wire_decode(m, len, NULL, &h), RPCRDMA_BAD_HTYPE);
	CHECK_EQ(h.chunks.n_reads, 1);
	CHECK_EQ(h.len_bytes, len - 8);
	CHECK_EQ(weft_rpcrdma_dir(&h, m, len), RPCRDMA_DIR_CALL);
	m[len - 1] = 1;
	CHECK_EQ(weft_rpcrdma_dir(&h, m, len), RPCRDMA_DIR_REPLY);
	CHECK_EQ(weft_rpcrdma_encode(out, sizeof(out), &h), 0);
	for (uint32_t n = 28; n < len - 4; n++)
		CHECK_EQ(wire_decode(m, n, NULL, &h), RPCRDMA_BAD_XDR);
	CHECK_EQ(wire_decode_words((const uint32_t[]){7, 1, 3, RDMA1_DONE, 0, 0, 0}, 7, &h),
	         RPCRDMA_DISCARD);
	CHECK_EQ(weft_rpcrdma_encode(out, sizeof(out), &h), 0);
	CHECK_EQ(wire_decode_words((const uint32_t[]){7, 1, 3, RDMA1_DONE}, 4, &h), RPCRDMA_SHORT);
}

WEFT_TEST_MAIN({"headers of Linux NFS", test_linux}, {"examples of RFC 8166", test_rfc_examples},
               {"a Read list in any order", test_read_list_any_order}, {"rules", test_rules},
               {"errors", test_errors}, {"RDMA_MSGP and RDMA_DONE", test_no_longer_supported})
