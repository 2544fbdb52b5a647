/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The codecs of RDMAP: octets as in the figures, and every decoder with its input cut at
 * every length. */

#include <stdlib.h>

#include "rdmap_rx.h"
#include "rdmap_wire.h"
#include "weft_test.h"

static void
test_opcode_table(void)
{
	static const struct {
		uint8_t op;
		bool tagged;
		uint8_t qn;
		const char *name;
	} want[] = {
	        {0x0, true, 0, "write"},          {0x1, false, 1, "read"},
	        {0x2, true, 0, "read-response"},  {0x3, false, 0, "send"},
	        {0x4, false, 0, "send-inv"},      {0x5, false, 0, "send-se"},
	        {0x6, false, 0, "send-se-inv"},   {0x7, false, 2, "terminate"},
	        {0x8, false, 0, "imm"},           {0x9, false, 0, "imm-se"},
	        {0xa, false, 1, "atomic"},        {0xb, false, 3, "atomic-response"},
	        {0xc, false, 1, "flush"},         {0xd, false, 3, "flush-response"},
	        {0xe, false, 1, "verify"},        {0xf, false, 3, "verify-response"},
	        {0x10, false, 1, "atomic-write"}, {0x11, false, 3, "atomic-write-response"},
	};
	unsigned int assigned = 0;

	for (unsigned int i = 0; i < RTE_DIM(want); i++) {
		const struct rdmap_op_row *row = &rdmap_ops[want[i].op];

		CHECK_STR(weft_rdmap_op_name(want[i].op), want[i].name);
		CHECK_EQ(row->tagged, want[i].tagged);
		if (!row->tagged)
			CHECK_EQ(row->qn, want[i].qn);
		CHECK_EQ(rdmap_handlers[want[i].op] != NULL,
		         !row->tagged && !row->ulp && !row->imm);
		CHECK_EQ(row->read_like, row->request && !row->tagged && row->qn == 1);
	}
	for (unsigned int op = 0; op < 256; op++)
		assigned += strcmp(weft_rdmap_op_name((uint8_t)op), "?") != 0;
	CHECK_EQ(assigned, RTE_DIM(want));
	CHECK_EQ(RDMAP_CTRL(WEFT_RDMAP_AWRITE_RESP), 0x51);
	CHECK_STR(weft_rdmap_state_name(WEFT_RDMAP_ST_TERMINATE), "TERMINATE");
	CHECK_STR(weft_rdmap_state_name(WEFT_RDMAP_ST_NSTATES), "?");
}

static void
test_read_req(void)
{
	/* RFC 5040 s4.4 Figure 6 */
	static const uint8_t v[28] = {0x11, 0x22, 0x33, 0x44, 0,    0,    0, 1, 0, 0, 0, 2, 0, 1, 0,
	                              0,    0xaa, 0xbb, 0xcc, 0xdd, 0x80, 0, 0, 0, 0, 0, 0, 9};
	struct rdmap_read_req q;
	uint8_t out[28];

	for (size_t n = 0; n < sizeof(v); n++) {
		uint8_t *c = test_heap_copy(v, n);

		CHECK_EQ(rdmap_read_req_decode(c, n, &q), -ENODATA);
		free(c);
	}
	CHECK_EQ(rdmap_read_req_decode(v, sizeof(v), &q), 28);
	CHECK_EQ(q.sink_stag, 0x11223344);
	CHECK_EQ(q.sink_to, 0x100000002);
	CHECK_EQ(q.len_bytes, 0x10000);
	CHECK_EQ(q.src_stag, 0xaabbccdd);
	CHECK_EQ(q.src_to, 0x8000000000000009);
	CHECK_EQ(rdmap_read_req_encode(&q, out), 28);
	CHECK_MEM(out, v, 28);
}

/* STag 0x01020304, length 0x11121314, TO 0x2122232425262728, then the rest. */
static const uint8_t place_head[16] = {1,    2,    3,    4,    0x11, 0x12, 0x13, 0x14,
                                       0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28};

static void
check_place(uint8_t op, size_t rest, size_t min)
{
	struct rdmap_ext_req q;
	uint8_t v[128], out[128];

	memcpy(v, place_head, 16);
	for (size_t i = 0; i < rest; i++)
		v[16 + i] = (uint8_t)(0xa0 + i);
	for (size_t n = 0; n < min; n++) {
		uint8_t *c = test_heap_copy(v, n);

		CHECK_EQ(rdmap_ext_req_decode(op, c, n, &q), -ENODATA);
		free(c);
	}
	CHECK_EQ(rdmap_ext_req_decode(op, v, 16 + rest, &q), 16 + rest);
	CHECK_EQ(q.stag, 0x01020304);
	CHECK_EQ(q.len_bytes, 0x11121314);
	CHECK_EQ(q.to, 0x2122232425262728);
	CHECK_EQ(rdmap_ext_req_encode(op, &q, out), 16 + rest);
	CHECK_MEM(out, v, 16 + rest);
}

static void
test_place_req(void)
{
	struct rdmap_ext_req q;
	uint8_t v[128] = {0};

	/* draft-talpey-rdma-commit-02 Figures 4, 5, 7 */
	check_place(WEFT_RDMAP_FLUSH_REQ, 4, 20);
	check_place(WEFT_RDMAP_AWRITE_REQ, 8, 24);
	for (size_t hash = 0; hash <= WEFT_HASH_MAX_BYTES; hash++)
		check_place(WEFT_RDMAP_VERIFY_REQ, hash, 16);
	CHECK_EQ(rdmap_ext_req_decode(WEFT_RDMAP_VERIFY_REQ, v, 16 + 65, &q), -EMSGSIZE);
	v[19] = 7;
	CHECK_EQ(rdmap_ext_req_decode(WEFT_RDMAP_FLUSH_REQ, v, 20, &q), 20);
	CHECK_EQ(q.flags, 7);
}

static void
test_atomic_req(void)
{
	/* RFC 7306 s5.2.1 Figure 4; the 28 reserved bits are ignored */
	static const uint8_t v[52] = {
	        0,    0,    0,    2,    0x0a, 0x0b, 0x0c, 0x0d, 0x11, 0x22, 0x33, 0x44, 0x80,
	        0,    0,    0,    0,    0,    0,    0x08, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25,
	        0x26, 0x27, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x40, 0x41, 0x42,
	        0x43, 0x44, 0x45, 0x46, 0x47, 0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57};
	struct rdmap_atomic_req q;
	uint8_t out[52], r[52];

	for (size_t n = 0; n < sizeof(v); n++) {
		uint8_t *c = test_heap_copy(v, n);

		CHECK_EQ(rdmap_atomic_req_decode(c, n, &q), -ENODATA);
		free(c);
	}
	CHECK_EQ(rdmap_atomic_req_decode(v, sizeof(v), &q), 52);
	CHECK_EQ(q.aop, WEFT_RDMAP_CMP_SWAP);
	CHECK_EQ(q.id, 0x0a0b0c0d);
	CHECK_EQ(q.stag, 0x11223344);
	CHECK_EQ(q.to, 0x8000000000000008);
	CHECK_EQ(q.data, 0x2021222324252627);
	CHECK_EQ(q.mask, 0x3031323334353637);
	CHECK_EQ(q.cmp, 0x4041424344454647);
	CHECK_EQ(q.cmp_mask, 0x5051525354555657);
	CHECK_EQ(rdmap_atomic_req_encode(&q, out), 52);
	CHECK_MEM(out, v, 52);
	memcpy(r, v, 52);
	memset(r, 0xff, 3);
	r[3] = 0xf1;
	CHECK_EQ(rdmap_atomic_req_decode(r, 52, &q), 52);
	CHECK_EQ(q.aop, 1);
}

static void
test_atomic_resp(void)
{
	/* RFC 7306 s5.2.2 Figure 6, A.2: twelve octets, although s4 says otherwise */
	static const uint8_t v[12] = {0x0a, 0x0b, 0x0c, 0x0d, 1, 2, 3, 4, 5, 6, 7, 8};
	struct rdmap_atomic_resp q;
	uint8_t out[12];

	for (size_t n = 0; n < sizeof(v); n++) {
		uint8_t *c = test_heap_copy(v, n);

		CHECK_EQ(rdmap_atomic_resp_decode(c, n, &q), -ENODATA);
		free(c);
	}
	CHECK_EQ(rdmap_atomic_resp_decode(v, sizeof(v), &q), 12);
	CHECK_EQ(q.id, 0x0a0b0c0d);
	CHECK_EQ(q.orig, 0x0102030405060708);
	CHECK_EQ(rdmap_atomic_resp_encode(&q, out), 12);
	CHECK_MEM(out, v, 12);
}

static void
check_term(const uint8_t *v, size_t len, const struct rdmap_terminate *want)
{
	struct rdmap_terminate t;
	uint8_t out[RDMAP_TERM_MAX_BYTES];

	for (size_t n = 0; n < len; n++) {
		uint8_t *c = test_heap_copy(v, n);

		CHECK_EQ(rdmap_terminate_decode(c, n, &t), -ENODATA);
		if (n < 4) {
			CHECK_EQ(t.term.etype, WEFT_TERM_RDMA_OPERATION);
			CHECK_EQ(t.term.code, 0xff);
		} else {
			CHECK_EQ(t.term.layer, want->term.layer);
			CHECK_EQ(t.term.code, want->term.code);
		}
		free(c);
	}
	CHECK_EQ(rdmap_terminate_decode(v, len, &t), len);
	CHECK_EQ(t.term.layer, want->term.layer);
	CHECK_EQ(t.term.etype, want->term.etype);
	CHECK_EQ(t.term.code, want->term.code);
	CHECK_EQ(t.has_len, want->has_len);
	CHECK_EQ(t.has_ddp, want->has_ddp);
	CHECK_EQ(t.has_rdma, want->has_rdma);
	CHECK_EQ(t.swapped, want->swapped);
	CHECK_EQ(t.seg_bytes, want->seg_bytes);
	CHECK_EQ(t.ddp_hdr_bytes, want->ddp_hdr_bytes);
	if (!want->swapped) {
		CHECK_EQ(rdmap_terminate_encode(&t, out), len);
		CHECK_MEM(out, v, len);
	}
}

static void
test_terminate(void)
{
	uint8_t v[52] = {0x01, 0x02, 0xe0, 0, 0x00, 46, 0x41, 0x41};

	/* RFC 5040 s4.8 Figures 7, 8: a Read Request without the right: M, D, R */
	for (unsigned int i = 8; i < sizeof(v); i++)
		v[i] = (uint8_t)i;
	check_term(v, 52,
	           &(struct rdmap_terminate){.term = {0, 1, 2},
	                                     .has_len = true,
	                                     .has_ddp = true,
	                                     .has_rdma = true,
	                                     .seg_bytes = 46,
	                                     .ddp_hdr_bytes = 18});
	/* a Write out of bounds: the tagged header has 14 octets */
	v[0] = 0x11;
	v[1] = 0x01;
	v[2] = 0xc0;
	v[6] = 0xc1;
	check_term(v, 20,
	           &(struct rdmap_terminate){.term = {1, 1, 1},
	                                     .has_len = true,
	                                     .has_ddp = true,
	                                     .seg_bytes = 46,
	                                     .ddp_hdr_bytes = 14});
	/* MPA's CRC error: the control word only */
	check_term((const uint8_t[]){0x20, 0x02, 0, 0}, 4,
	           &(struct rdmap_terminate){.term = {2, 0, 2}});
	check_term((const uint8_t[]){0x02, 0x0b, 0, 0}, 4,
	           &(struct rdmap_terminate){.term = {0, 2, 0x0b}});
	check_term((const uint8_t[]){0x00, 0x77, 0, 0}, 4,
	           &(struct rdmap_terminate){.term = {0, 0, 0x77}});
}

static void
test_terminate_swapped(void)
{
	uint8_t v[24] = {0x20, 0x06, 0x03, 0, 0, 18, 0x41, 0x48};

	/* siw's CRC error */
	check_term((const uint8_t[]){0x02, 0x02, 0, 0}, 4,
	           &(struct rdmap_terminate){.term = {2, 0, 2}, .swapped = true});
	/* siw's unexpected opcode, with M and D: in the RFC's form it would be MPA's code 6 */
	check_term(v, 24,
	           &(struct rdmap_terminate){.term = {0, 2, 6},
	                                     .has_len = true,
	                                     .has_ddp = true,
	                                     .swapped = true,
	                                     .seg_bytes = 18,
	                                     .ddp_hdr_bytes = 18});
	/* reserved bits are ignored in a word whose form is clear */
	v[0] = 0x02;
	v[2] = 0xdf;
	v[3] = 0xff;
	{
		struct rdmap_terminate t;

		CHECK_EQ(rdmap_terminate_decode(v, 24, &t), 24);
		CHECK_EQ(t.term.layer, 0);
		CHECK_EQ(t.term.etype, 2);
		CHECK(!t.swapped && t.has_ddp && !t.has_rdma);
	}
	/* neither form is known: the word is reported unchanged */
	check_term((const uint8_t[]){0x77, 0x55, 0, 0}, 4,
	           &(struct rdmap_terminate){.term = {7, 7, 0x55}});
}

/* Random octets: no decoder reads beyond the input or consumes more than it. */
static void
test_terminate_any(void)
{
	uint64_t x = test_seed(4242);

	for (unsigned int i = 0; i < 200000; i++) {
		uint8_t v[64];
		struct rdmap_terminate t;
		size_t n;
		uint8_t *c;
		int rc;

		for (unsigned int k = 0; k < sizeof(v); k++) {
			x = x * 6364136223846793005ull + 1442695040888963407ull;
			v[k] = (uint8_t)(x >> 56);
		}
		n = v[63] % 61;
		c = test_heap_copy(v, n);
		rc = rdmap_terminate_decode(c, n, &t);
		CHECK(rc == -ENODATA || (rc >= 4 && (size_t)rc <= n));
		free(c);
	}
}

WEFT_TEST_MAIN({"opcode_table", test_opcode_table}, {"read_req", test_read_req},
               {"place_req", test_place_req}, {"atomic_req", test_atomic_req},
               {"atomic_resp", test_atomic_resp}, {"terminate", test_terminate},
               {"terminate_swapped", test_terminate_swapped}, {"terminate_any", test_terminate_any})
