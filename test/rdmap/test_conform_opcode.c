/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Every opcode, on every queue and tagged, with every value of the reserved bits. The names
 * of the counters. */

#include <stdlib.h>

#include "conform.h"

static const uint8_t zero[64];

#define T    1 /* tagged */
#define Q(n) (2 << (n))

/* RFC 5040 Figure 4, RFC 7306 Figure 2, draft-talpey-rdma-commit-02 Figure 2: legal carriers. */
static const uint8_t legal[32] = {
        [WEFT_RDMAP_WRITE] = T,
        [WEFT_RDMAP_READ_REQ] = Q(1),
        [WEFT_RDMAP_READ_RESP] = T,
        [WEFT_RDMAP_SEND] = Q(0),
        [WEFT_RDMAP_SEND_INV] = Q(0),
        [WEFT_RDMAP_SEND_SE] = Q(0),
        [WEFT_RDMAP_SEND_SE_INV] = Q(0),
        [WEFT_RDMAP_TERMINATE] = Q(2),
        [WEFT_RDMAP_IMM] = Q(0),
        [WEFT_RDMAP_IMM_SE] = Q(0),
        [WEFT_RDMAP_ATOMIC_REQ] = Q(1),
        [WEFT_RDMAP_ATOMIC_RESP] = Q(3),
        [WEFT_RDMAP_FLUSH_REQ] = Q(1),
        [WEFT_RDMAP_FLUSH_RESP] = Q(3),
        [WEFT_RDMAP_VERIFY_REQ] = Q(1),
        [WEFT_RDMAP_VERIFY_RESP] = Q(3),
        [WEFT_RDMAP_AWRITE_REQ] = Q(1) | T,
        [WEFT_RDMAP_AWRITE_RESP] = Q(3) | Q(1),
        /* The reserved bit is ignored: 0x12 to 0x1f are read as 2 to 0xf. 10000b tagged is a Write,
         * and 10001b on queue 1 is a Read Request. */
        [0x12] = T,
        [0x13] = Q(0),
        [0x14] = Q(0),
        [0x15] = Q(0),
        [0x16] = Q(0),
        [0x17] = Q(2),
        [0x18] = Q(0),
        [0x19] = Q(0),
        [0x1a] = Q(1),
        [0x1b] = Q(3),
        [0x1c] = Q(1),
        [0x1d] = Q(3),
        [0x1e] = Q(1),
        [0x1f] = Q(3),
};

static void
test_opcode_matrix(void)
{
	static const struct weft_term unexpected = {0, 2, 6};
	unsigned int refused = 0;

	for (unsigned int ctrl = 0x40; ctrl < 0x80; ctrl++)
		for (unsigned int by = 0; by < 5; by++) {
			unsigned int op = ctrl & 0x1f;

			if (legal[op] & 1 << by)
				continue;
			cf_open();
			if (by == 0)
				CF_TAGGED((uint8_t)ctrl, cf.all->stag, CF_BASE, zero, 4);
			else
				CF_UNTAGGED((uint8_t)ctrl, by - 1, 1, 0, zero, 4);
			cf_expect_term(&unexpected, CF_DDP);
			cf_close();
			refused++;
		}
	test_note("%u ways to carry an opcode are refused", refused);
}

/* RFC 5040 s4.1: reserved bits are "ignored by the receiver". */
static void
test_reserved_bits(void)
{
	for (uint8_t rsv = 0; rsv < 4; rsv++) {
		uint8_t b = (uint8_t)(0x40 | rsv << 4);

		cf_open();
		rig_post_recv(&rig.b, 2);
		CF_TAGGED(b | 0x0, cf.all->stag, CF_BASE, "wwww", 4);
		CHECK_MEM(cf.med.p.base, "wwww", 4);
		CF_UNTAGGED(b | 0x3, 0, 1, 0, "send", 4);
		rig_inject_untagged(&rig.b, b | 0x6, 0, 2, 0, true, 0xfeed, "inva", 4);
		CHECK_EQ(rig_ev_count(&rig.b, EV_RECV), 2);
		CHECK_EQ(rig.b.inv_stag, 0xfeed);
		CF_UNTAGGED(b | 0x1, 1, 1, 0, zero, 28); /* a Read of no octets */
		rig_pump();
		EXPECT_ULPDU(&rig.b, "\xc1\x42\0\0\0\0\0\0\0\0\0\0\0\0", 14);
		cf_post(WEFT_RDMAP_READ_REQ, 1);
		CF_TAGGED(b | 0x2, cf.all->stag, CF_BASE, "response", 8);
		CHECK_EQ(rig_status(&rig.b, &cf.req[0]), WEFT_RDMAP_OK);
		CF_UNTAGGED(b | 0x7, 2, 1, 0, "\x01\x02\0\0", 4);
		CHECK_EQ(weft_rdmap_stats(rig.b.r)->terminates_in, 1);
		cf.touched = true;
		cf_close();
	}
}

/* Every counter of the structure has a name. */
static void
test_stat_names(void)
{
	const struct weft_stat_field *f;
	unsigned int n = weft_rdmap_fault_fields(&f);
	bool seen[sizeof(struct weft_rdmap_faults) / 8] = {false};

	CHECK_EQ(n, RTE_DIM(seen));
	for (unsigned int i = 0; i < n; i++) {
		CHECK(f[i].bytes == 8 && f[i].off % 8 == 0 && !seen[f[i].off / 8]);
		seen[f[i].off / 8] = true;
		for (unsigned int k = 0; k < i; k++)
			CHECK(strcmp(f[i].name, f[k].name) != 0);
	}
}

WEFT_TEST_MAIN({"opcode_matrix", test_opcode_matrix}, {"reserved_bits", test_reserved_bits},
               {"stat_names", test_stat_names})
