/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The header codec: vectors, every cut, bounds, and seeded mutations. */

#include <errno.h>
#include <stdlib.h>

#include "rpcrdma_wire.h"
#include "weft_test.h"

static const struct rpcrdma_props defaults = {4096, 4096, RDMA2_RVRSDIR_NONE};

/* Draft s6.3.7: prefix, inv handle, no reads, no writes, no reply chunk; then the RPC's xid. */
static const uint8_t call_vec[] = {
        0x12, 0x34, 0x56, 0x78, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 10, /* prefix */
        0,    0,    0,    0,                                         /* rdma_inv_handle */
        0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0,              /* the lists */
        0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0,                          /* RPC: xid, CALL */
};
static const uint8_t reply_vec[] = {
        0x12, 0x34, 0x56, 0x78, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 13, /* prefix */
        0,    0,    0,    0,                                         /* rdma_writes */
        0x12, 0x34, 0x56, 0x78, 0, 0, 0, 1,                          /* RPC: xid, REPLY */
};
static const uint8_t grant_vec[] = {0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 5};
static const uint8_t err_vers_vec[] = {
        0, 0, 0, 7, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 4, /* prefix */
        0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1,             /* ERR_VERS, low, high */
};
static const uint8_t props_vec[] = {
        0, 0, 0, 7,  0, 0, 0, 2, 0,   0,   0,    9, 0,   0, 0, 7, /* prefix */
        0, 0, 0, 5,                                               /* five properties */
        0, 0, 0, 1,  0, 0, 0, 4, 0,   0,   0x20, 0,               /* SBSIZ 8192 */
        0, 0, 0, 2,  0, 0, 0, 4, 0,   0,   0x10, 0,               /* RBSIZ 4096 */
        0, 0, 0, 99, 0, 0, 0, 3, 'a', 'b', 'c',  0,               /* unknown */
        0, 0, 0, 5,  0, 0, 0, 0,                                  /* BRS: the default */
        0, 0, 0, 6,  0, 0, 0, 8, 0,   0,   0,    1, 'k', 0, 0, 0, /* HOSTAUTH "k" */
};
/* A call with one of everything: two reads, a write chunk of one segment, an empty reply chunk. */
static const uint8_t chunks_vec[] = {
        0, 0,  0, 7, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 10, 0, 0,  0, 0xaa, /* prefix, handle */
        0, 0,  0, 1, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 16, 0, 0,  0, 0,    0, 0,
        0, 0,  0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 2, 0, 0,  0, 16, 0, 0,    0, 0,
        0, 0,  0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1,  0, 0,  0, 3,    0, 0,
        0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0, 1,  0, 0,    0, 0, /* reply chunk */
        0, 0,  0, 7, 0, 0, 0, 0,                                                /* RPC */
};

/* Decode from a buffer that ends where the message does. */
static int
decode(const void *buf, uint32_t len, struct rpcrdma_hdr *hdr)
{
	uint8_t *copy = malloc(len != 0 ? len : 1);
	int rc;

	CHECK(copy != NULL);
	memcpy(copy, buf, len);
	memset(hdr, 0x5a, sizeof(*hdr));
	rc = weft_rpcrdma_hdr_decode(copy, len, &defaults, hdr);
	free(copy);
	return rc;
}

static void
test_vectors(void)
{
	struct rpcrdma_hdr h;
	uint8_t buf[256];

	CHECK_EQ(decode(call_vec, sizeof(call_vec), &h), 0);
	CHECK_EQ(h.p.xid, 0x12345678);
	CHECK_EQ(h.p.vers, 2);
	CHECK_EQ(h.p.credit, 9);
	CHECK_EQ(h.p.htype, RDMA2_CALL_INLINE);
	CHECK_EQ(h.len_bytes, RPCRDMA_CALL_HDR_BYTES);
	CHECK_EQ(h.chunks.reads + h.chunks.writes + h.chunks.reply + h.chunks.inv_handle, 0);
	CHECK_EQ(weft_rpcrdma_call_encode(buf, sizeof(buf), 0x12345678), RPCRDMA_CALL_HDR_BYTES);
	rpcrdma_put32(buf + RPCRDMA_OFF_CREDIT, 9);
	CHECK_MEM(buf, call_vec, RPCRDMA_CALL_HDR_BYTES);

	CHECK_EQ(decode(reply_vec, sizeof(reply_vec), &h), 0);
	CHECK_EQ(h.len_bytes, RPCRDMA_REPLY_HDR_BYTES);
	CHECK_EQ(weft_rpcrdma_reply_encode(buf, sizeof(buf), 0x12345678), RPCRDMA_REPLY_HDR_BYTES);
	rpcrdma_put32(buf + RPCRDMA_OFF_CREDIT, 9);
	CHECK_MEM(buf, reply_vec, RPCRDMA_REPLY_HDR_BYTES);

	CHECK_EQ(decode(grant_vec, sizeof(grant_vec), &h), 0);
	CHECK_EQ(weft_rpcrdma_grant_encode(buf, sizeof(buf)), sizeof(grant_vec));
	rpcrdma_put32(buf + RPCRDMA_OFF_CREDIT, 9);
	CHECK_MEM(buf, grant_vec, sizeof(grant_vec));

	CHECK_EQ(decode(err_vers_vec, sizeof(err_vers_vec), &h), 0);
	CHECK_EQ(h.err.code, RDMA2_ERR_VERS);
	CHECK_EQ(h.err.a, 1);
	CHECK_EQ(h.err.b, 1);
	CHECK_EQ(weft_rpcrdma_error_encode(buf, sizeof(buf), 7, 2, &h.err), sizeof(err_vers_vec));
	rpcrdma_put32(buf + RPCRDMA_OFF_CREDIT, 9);
	CHECK_MEM(buf, err_vers_vec, sizeof(err_vers_vec));

	CHECK_EQ(decode(props_vec, sizeof(props_vec), &h), 0);
	CHECK_EQ(h.props.send_bytes, 8192);
	CHECK_EQ(h.props.recv_bytes, 4096);
	CHECK_EQ(h.props.reverse, RDMA2_RVRSDIR_NONE);

	CHECK_EQ(decode(chunks_vec, sizeof(chunks_vec), &h), 0);
	CHECK_EQ(h.chunks.inv_handle, 0xaa);
	CHECK_EQ(h.chunks.reads, 2);
	CHECK_EQ(h.chunks.writes, 1);
	CHECK_EQ(h.chunks.reply, 1);
	CHECK_EQ(h.len_bytes, sizeof(chunks_vec) - 8);
}

static void
test_errors_round_trip(void)
{
	/* Octets of each arm (s6.3.1). */
	static const struct {
		uint32_t code, words;
	} arm[] = {
	        {RDMA2_ERR_VERS, 2},
	        {RDMA2_ERR_BAD_XDR, 0},
	        {RDMA2_ERR_BAD_PROPVAL, 0},
	        {RDMA2_ERR_INVAL_HTYPE, 0},
	        {RDMA2_ERR_INVAL_CONT, 0},
	        {RDMA2_ERR_READ_CHUNKS, 1},
	        {RDMA2_ERR_WRITE_CHUNKS, 1},
	        {RDMA2_ERR_SEGMENTS, 1},
	        {RDMA2_ERR_WRITE_RESOURCE, 2},
	        {RDMA2_ERR_REPLY_RESOURCE, 1},
	        {RDMA2_ERR_VERS_MISMATCH, 0},
	        {RDMA2_ERR_SYSTEM, 0},
	        {12345, 0},
	};
	uint8_t buf[RPCRDMA_ERROR_MAX_BYTES];
	struct rpcrdma_hdr h;

	for (unsigned int i = 0; i < sizeof(arm) / sizeof(arm[0]); i++) {
		struct rpcrdma_err e = {arm[i].code, arm[i].words > 0 ? 11 : 0,
		                        arm[i].words > 1 ? 22 : 0};
		uint32_t len = 20 + 4 * arm[i].words;

		for (uint32_t cap = 0; cap < len; cap++)
			CHECK_EQ(weft_rpcrdma_error_encode(buf, cap, 5, 2, &e), 0);
		CHECK_EQ(weft_rpcrdma_error_encode(buf, sizeof(buf), 5, 2, &e), len);
		CHECK_EQ(decode(buf, len, &h), 0);
		CHECK_EQ(h.err.code, e.code);
		CHECK_EQ(h.err.a, e.a);
		CHECK_EQ(h.err.b, e.b);
		CHECK_EQ(h.len_bytes, len);
		for (uint32_t cut = 16; cut < len; cut++)
			CHECK_EQ(decode(buf, cut, &h), -EBADMSG);
	}
}

static void
test_props_round_trip(void)
{
	struct rpcrdma_props p = {8192, 16384, RDMA2_RVRSDIR_SIMPLE};
	struct rpcrdma_hdr h;
	uint8_t buf[128];
	uint32_t len = weft_rpcrdma_connprop_encode(buf, sizeof(buf), 3, &p);

	CHECK_EQ(len, 16 + 4 + 3 * 12);
	CHECK_EQ(decode(buf, len, &h), 0);
	CHECK_EQ(h.p.htype, RDMA2_CONNPROP_FINAL);
	CHECK_MEM(&h.props, &p, sizeof(p));
	for (uint32_t cap = 0; cap < len; cap++)
		CHECK_EQ(weft_rpcrdma_connprop_encode(buf, cap, 3, &p), 0);
}

static void
test_cut_everywhere(void)
{
	static const struct {
		const uint8_t *p;
		uint32_t len, need;
	} v[] = {
	        {call_vec, sizeof(call_vec), RPCRDMA_CALL_HDR_BYTES + 4},
	        {reply_vec, sizeof(reply_vec), RPCRDMA_REPLY_HDR_BYTES + 4},
	        {grant_vec, sizeof(grant_vec), 16},
	        {err_vers_vec, sizeof(err_vers_vec), sizeof(err_vers_vec)},
	        {props_vec, sizeof(props_vec), sizeof(props_vec)},
	        {chunks_vec, sizeof(chunks_vec), sizeof(chunks_vec) - 4},
	};
	struct rpcrdma_hdr h;

	for (unsigned int i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		for (uint32_t cut = 0; cut <= v[i].len; cut++) {
			int rc = decode(v[i].p, cut, &h);

			if (cut < 16)
				CHECK_EQ(rc, -ENODATA);
			else if (cut >= v[i].need)
				CHECK_EQ(rc, 0);
			else
				CHECK_MSG(rc == -EBADMSG || rc == -EILSEQ,
				          "vector %u cut at %u: %d", i, cut, rc);
		}
	}
	/* The property value is cut: its length is more than the message (s5.1). */
	CHECK_EQ(decode(props_vec, 30, &h), -EILSEQ);
	/* The count is there and a property is not. */
	CHECK_EQ(decode(props_vec, 24, &h), -EBADMSG);
}

static void
test_rules(void)
{
	uint8_t m[sizeof(chunks_vec)];
	struct rpcrdma_hdr h;

	/* The RPC's xid must be the header's (s7.2). */
	memcpy(m, call_vec, sizeof(call_vec));
	m[RPCRDMA_CALL_HDR_BYTES] ^= 1;
	CHECK_EQ(decode(m, sizeof(call_vec), &h), -EBADMSG);
	/* Another version: the prefix is all that may be read. */
	memcpy(m, call_vec, sizeof(call_vec));
	m[7] = 1;
	CHECK_EQ(decode(m, sizeof(call_vec), &h), -EPROTONOSUPPORT);
	CHECK_EQ(h.p.vers, 1);
	/* ERR_VERS reads the same in version 1 (RFC 8166 s4.5.1); its other errors do not. */
	memcpy(m, err_vers_vec, sizeof(err_vers_vec));
	m[7] = 1;
	CHECK_EQ(decode(m, sizeof(err_vers_vec), &h), 0);
	m[19] = 2;
	CHECK_EQ(decode(m, sizeof(err_vers_vec), &h), -EPROTONOSUPPORT);
	/* Header types: those of table 2 that are not here, and those that nobody knows. */
	for (unsigned int t = 0; t < 256; t++) {
		bool ours = t == 4 || t == 5 || t == 6 || t == 7 || t == 10 || t == 13;

		memcpy(m, call_vec, sizeof(call_vec));
		m[15] = (uint8_t)t;
		CHECK_EQ(decode(m, sizeof(call_vec), &h) == -EOPNOTSUPP, !ours);
	}
	m[12] = 0xff;
	CHECK_EQ(decode(m, sizeof(call_vec), &h), -EOPNOTSUPP);
	CHECK_STR(weft_rpcrdma_htype_str(RDMA2_GRANT), "grant");
	CHECK_STR(weft_rpcrdma_htype_str(0), "?");
	CHECK_STR(weft_rpcrdma_htype_str(14), "?");
	CHECK_STR(weft_rpcrdma_htype_str(UINT32_MAX), "?");
}

static void
test_prop_values(void)
{
	uint8_t m[64] = {0, 0, 0, 7, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 7, 0, 0, 0, 1};
	struct rpcrdma_hdr h;

	/* A known word of the wrong size (s7.2.2); an unknown property may be anything. */
	for (uint32_t which = 1; which <= 8; which++) {
		for (uint32_t len = 0; len <= 12; len++) {
			bool bad = which <= 5 ? len != 0 && len != 4 : false;

			rpcrdma_put32(m + 20, which);
			rpcrdma_put32(m + 24, len);
			memset(m + 28, 0, 12);
			if (which == 6) {
				/* The opaque's own count: as many as fit after it, filled to words.
				 */
				if (len >= 4)
					rpcrdma_put32(m + 28, len - 4);
				bad = len != 0 && len != 4 && len != 8 && len != 12;
			}
			CHECK_EQ(decode(m, 28 + (len + 3) / 4 * 4, &h), bad ? -EILSEQ : 0);
		}
	}
	rpcrdma_put32(m + 20, 6);
	rpcrdma_put32(m + 24, 8);
	rpcrdma_put32(m + 28, 0xffffffff);
	CHECK_EQ(decode(m, 36, &h), -EILSEQ);
}

static void
test_counts_bounded(void)
{
	/* Counts that would allocate gigabytes if believed; a sanitizer's limit would show it. */
	static const uint32_t counts[] = {257, 513, 0xffff, 0x10000000, 0x7fffffff, 0xffffffff};
	uint8_t m[64] = {0, 0, 0, 7, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 7};
	struct rpcrdma_hdr h;

	for (unsigned int i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		memset(m + 16, 0, sizeof(m) - 16);
		m[15] = RDMA2_CONNPROP_FINAL;
		rpcrdma_put32(m + 16, counts[i]);
		CHECK_EQ(decode(m, 20, &h), -EBADMSG);
		CHECK_EQ(decode(m, sizeof(m), &h), -EBADMSG);
		rpcrdma_put32(m + 16, 1);
		rpcrdma_put32(m + 20, 99);
		rpcrdma_put32(m + 24, counts[i]);
		CHECK_EQ(decode(m, sizeof(m), &h), -EILSEQ);
		/* Segments of a write chunk. */
		m[15] = RDMA2_REPLY_INLINE;
		rpcrdma_put32(m + 16, 1);
		rpcrdma_put32(m + 20, counts[i]);
		CHECK_EQ(decode(m, sizeof(m), &h), -EBADMSG);
	}
}

static void
test_long_list(void)
{
	/* As many read segments as the largest message holds; then the list's end is missing. */
	uint32_t cap = 65536, len = 20;
	uint8_t *m = calloc(1, cap);
	struct rpcrdma_hdr h;
	unsigned int n = 0;

	memcpy(m, call_vec, 20);
	while (len + 24 <= cap - 20) {
		rpcrdma_put32(m + len, 1);
		len += 24;
		n++;
	}
	rpcrdma_put32(m + len + 12, 0x12345678);
	CHECK_EQ(decode(m, len + 16, &h), 0);
	CHECK_EQ(h.chunks.reads, n);
	CHECK_EQ(h.len_bytes, len + 12);
	CHECK_EQ(decode(m, len, &h), -EBADMSG);
	free(m);
}

static uint64_t
next(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

static void
test_mutations(void)
{
	static const struct {
		const uint8_t *p;
		uint32_t len;
	} v[] = {
	        {call_vec, sizeof(call_vec)},   {reply_vec, sizeof(reply_vec)},
	        {grant_vec, sizeof(grant_vec)}, {err_vers_vec, sizeof(err_vers_vec)},
	        {props_vec, sizeof(props_vec)}, {chunks_vec, sizeof(chunks_vec)},
	};
	uint64_t seed = test_seed(0x7ea5), s = seed;
	struct rpcrdma_hdr h;
	uint8_t m[256];

	for (unsigned int round = 0; round < 300000; round++) {
		unsigned int i = next(&s) % (sizeof(v) / sizeof(v[0]));
		uint32_t len = v[i].len;
		int rc;

		memcpy(m, v[i].p, len);
		for (unsigned int k = next(&s) % 4 + 1; k > 0; k--) {
			if (next(&s) & 1)
				m[next(&s) % len] = (uint8_t)next(&s);
			else
				m[next(&s) % (len / 4) * 4 + 3] = (uint8_t)(next(&s) % 16);
		}
		if (next(&s) % 4 == 0)
			len = next(&s) % (len + 1);
		rc = decode(m, len, &h);
		CHECK_MSG(rc == 0 || rc == -ENODATA || rc == -EPROTONOSUPPORT ||
		                  rc == -EOPNOTSUPP || rc == -EBADMSG || rc == -EILSEQ,
		          "seed %#" PRIx64 " round %u: %d", seed, round, rc);
		if (rc == 0)
			CHECK_MSG(h.len_bytes >= 16 && h.len_bytes <= len,
			          "seed %#" PRIx64 " round %u", seed, round);
	}
}

WEFT_TEST_MAIN({"vectors", test_vectors}, {"errors round trip", test_errors_round_trip},
               {"properties round trip", test_props_round_trip},
               {"cut at every length", test_cut_everywhere}, {"rules", test_rules},
               {"property values", test_prop_values}, {"counts are bounded", test_counts_bounded},
               {"the longest list", test_long_list}, {"mutations", test_mutations})
