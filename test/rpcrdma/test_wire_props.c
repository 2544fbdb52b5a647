/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Sets of transport properties on the wire (draft s5, s6.3.3). */

#include "weft_test.h"
#include "wire_rig.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

/* s6.3.4: all six properties, and an unknown one. */
static const uint32_t props[] = {
        7,  2, 9,          RDMA2_CONNPROP_FINAL, 7, 1, 4, 8192, 2, 4, 16384, 3, 4, 1 << 20, 4, 4,
        32, 5, 0,                      /* BRS: the default */
        6,  8, 1,          0x6b000000, /* HOSTAUTH "k" */
        99, 3, 0x61626300,             /* "abc" */
};

static void
test_prop_set(void)
{
	struct rpcrdma_props p = {1, 2, 3, 4, 3};
	struct rpcrdma_hdr h;
	uint8_t m[256], out[256];
	uint32_t len = wire_words(m, props, N(props));

	CHECK_EQ(wire_decode(m, len, NULL, &h), RPCRDMA_OK);
	CHECK_EQ(h.props.present, 0x7e);
	CHECK_EQ(h.props.dflt, 1u << RDMA2_PROPID_BRS);
	CHECK_EQ(h.props.hostauth.len_bytes, 1);
	CHECK_EQ(h.props.hostauth.data[0], 'k');
	CHECK_EQ(h.props.n_unknown, 1);
	CHECK_EQ(h.props.unknown[0].id, 99);
	CHECK_EQ(h.props.unknown[0].value.len_bytes, 3);
	CHECK_MEM(h.props.unknown[0].value.data, "abc", 3);
	weft_rpcrdma_props_apply(&p, &h.props);
	CHECK_EQ(p.send_bytes, 8192);
	CHECK_EQ(p.recv_bytes, 16384);
	CHECK_EQ(p.seg_bytes, 1 << 20);
	CHECK_EQ(p.segs, 32);
	CHECK_EQ(p.reverse, RDMA2_RVRSDIR_NONE); /* zero length: the default (s5.1) */

	/* An empty set changes nothing. If a property is present twice, the last one counts. */
	CHECK_EQ(wire_decode_words((const uint32_t[]){1, 2, 9, 6, 0}, 5, &h), RPCRDMA_OK);
	weft_rpcrdma_props_apply(&p, &h.props);
	CHECK_EQ(p.send_bytes, 8192);
	CHECK_EQ(wire_decode_words((const uint32_t[]){1, 2, 9, 6, 2, 4, 0, 4, 4, 5}, 10, &h),
	         RPCRDMA_OK);
	weft_rpcrdma_props_apply(&p, &h.props);
	CHECK_EQ(p.segs, 5);
	CHECK_EQ(wire_decode_words((const uint32_t[]){1, 2, 9, 6, 2, 4, 4, 5, 4, 0}, 10, &h),
	         RPCRDMA_OK);
	weft_rpcrdma_props_apply(&p, &h.props);
	CHECK_EQ(p.segs, 16);
	p = RPCRDMA_PROPS_DEFAULT; /* table 1 */
	CHECK_EQ(p.send_bytes, 4096);
	CHECK_EQ(p.recv_bytes, 4096);
	CHECK_EQ(p.seg_bytes, 1048576);
	CHECK_EQ(p.segs, 16);

	/* The encoder writes properties in the order of their codes. */
	weft_rpcrdma_hdr_init(&h, 2, RDMA2_CONNPROP_MIDDLE, 7);
	CHECK_EQ(weft_rpcrdma_hdr_bytes(&h), 20);
	h.props.present = 1u << RDMA2_PROPID_HOSTAUTH | 1u << RDMA2_PROPID_RBSIZ;
	h.props.recv_bytes = 5000;
	h.props.hostauth = (struct rpcrdma_opaque){(const uint8_t *)"12345", 5};
	len = weft_rpcrdma_encode(out, sizeof(out), &h);
	CHECK_EQ(len, 20 + 12 + 8 + 4 + 8);
	wire_words(m,
	           (const uint32_t[]){7, 2, 0, 6, 2, 2, 4, 5000, 6, 12, 5, 0x31323334, 0x35000000},
	           13);
	CHECK_MEM(out, m, len);
}

static void
test_prop_values(void)
{
	uint32_t m[16] = {7, 2, 9, RDMA2_CONNPROP_FINAL, 1};
	struct rpcrdma_hdr h;
	uint8_t b[64];

	/* A known property with a length that is wrong for its type (s5.1, s7.2.2). An unknown
	 * one may have any length. */
	for (uint32_t which = 0; which <= 8; which++) {
		for (uint32_t len = 0; len <= 12; len++) {
			bool bad = which >= 1 && which <= 5 ? len != 0 && len != 4 : false;

			m[5] = which;
			m[6] = len;
			memset(&m[7], 0, 12);
			if (which == RDMA2_PROPID_HOSTAUTH) {
				/* A count of its own: as many as fit, padded to words. */
				m[7] = len >= 4 ? len - 4 : 0;
				bad = len % 4 != 0;
			}
			CHECK_EQ(wire_decode_words(m, 7 + (len + 3) / 4, &h),
			         bad ? RPCRDMA_BAD_PROPVAL : RPCRDMA_OK);
		}
	}
	for (uint32_t inner = 0; inner < 16; inner++) {
		uint32_t w[] = {7, 2, 9, 7, 1, 6, 12, inner, 0, 0};

		CHECK_EQ(wire_decode_words(w, 10, &h),
		         inner > 4 && inner <= 8 ? RPCRDMA_OK : RPCRDMA_BAD_PROPVAL);
	}
	/* A value longer than the message is that error. Missing padding is not. */
	wire_words(b, (const uint32_t[]){7, 2, 9, 7, 1, 99, 5, 0x61626364, 0x65000000}, 9);
	for (uint32_t len = 20; len <= 36; len++)
		CHECK_EQ(wire_decode(b, len, NULL, &h), len < 28   ? RPCRDMA_BAD_XDR
		                                        : len < 33 ? RPCRDMA_BAD_PROPVAL
		                                        : len < 36 ? RPCRDMA_BAD_XDR
		                                                   : RPCRDMA_OK);
	/* The content of the padding is ignored (RFC 4506 s4.10 requires zeros of the sender). */
	b[35] = 0xff;
	CHECK_EQ(wire_decode(b, 36, NULL, &h), RPCRDMA_OK);
	/* Unknown properties are kept as far as there is room, and counted. */
	weft_put_be32(b + 16, 12);
	for (uint32_t i = 0; i < 5; i++)
		wire_words(b + 20 + 8 * i, (const uint32_t[]){1000 + i, 0}, 2);
	CHECK_EQ(wire_decode(b, 60, NULL, &h), RPCRDMA_BAD_XDR);
	weft_put_be32(b + 16, 5);
	CHECK_EQ(wire_decode(b, 60, NULL, &h), RPCRDMA_OK);
	CHECK_EQ(h.props.n_unknown, 5);
	CHECK_EQ(h.props.unknown[4].id, 1004);
	{
		uint32_t many[5 + 2 * 20] = {7, 2, 9, 7, 20};

		for (uint32_t i = 0; i < 20; i++)
			many[5 + 2 * i] = 50 + i;
		CHECK_EQ(wire_decode_words(many, N(many), &h), RPCRDMA_OK);
		CHECK_EQ(h.props.n_unknown, 20);
		CHECK_EQ(h.props.unknown[RPCRDMA_MAX_UNKNOWN_PROPS - 1].id, 57);
	}
}

WEFT_TEST_MAIN({"a set of properties", test_prop_set}, {"property values", test_prop_values})
