/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The first message of a stream: the initiator's ready-to-receive indication, sent first and once
 * (RFC 6581 s9.2). MPA sends the indication without any octets, which verbs_rtr tests.
 */

#include "rdmap_rig.h"

/* RFC 5041 s4.2, RFC 5040 s4.3: tagged, last, version 1; RDMAP version 1, opcode 0; STag 1, TO 0.
 */
static const uint8_t empty_write[14] = {0xc1, 0x40, 0, 0, 0, 1};
/* RFC 5040 s4.4: QN 1, MSN 1, MO 0; sink STag 1, sink TO 0, no octets, source STag 1, source TO 0.
 */
static const uint8_t empty_read[46] = {0x41, 0x41, [9] = 1, [13] = 1, [21] = 1, [37] = 1};
/* An empty Send: QN 0, MSN 1, MO 0. */
static const uint8_t empty_send[18] = {0x41, 0x43, [13] = 1};

/** Without space the indication waits, and is then sent before all posted requests. It is counted
 * as the message that it is. */
static void
test_indication(void)
{
	static const struct {
		uint8_t form, op;
		const uint8_t *ulpdu;
		uint32_t bytes;
	} row[] = {
	        {WEFT_RDMAP_RTR_WRITE, WEFT_RDMAP_WRITE, empty_write, sizeof(empty_write)},
	        {WEFT_RDMAP_RTR_READ, WEFT_RDMAP_READ_REQ, empty_read, sizeof(empty_read)},
	};

	for (unsigned int i = 0; i < 2 * RTE_DIM(row); i++) {
		const unsigned int k = i / 2;
		struct weft_rdmap_req req = {.op = WEFT_RDMAP_SEND};

		rig.idle = true;
		rig_open(1, 1, true);
		rig.idle = false;
		rig.b.ddp->mpa->initiator = true;
		rig_pump();
		weft_rdmap_rtr(rig.b.r, row[k].form);
		rig.b.space = i % 2 ? 0 : UINT32_MAX;
		weft_rdmap_start(rig.b.r, 1, 1);
		rig_pump();
		if (rig.b.space == 0) {
			weft_rdmap_post(rig.b.r, &req);
			rig_pump();
			CHECK(rig_pop(&rig.b) == NULL);
			CHECK_EQ(weft_rdmap_stats(rig.b.r)->msgs_out, 0);
			rig.b.space = UINT32_MAX;
			rig_pump();
			EXPECT_ULPDU(&rig.b, row[k].ulpdu, row[k].bytes);
		} else { /* although nothing is posted */
			EXPECT_ULPDU(&rig.b, row[k].ulpdu, row[k].bytes);
			weft_rdmap_post(rig.b.r, &req);
			rig_pump();
		}
		EXPECT_ULPDU(&rig.b, empty_send, sizeof(empty_send));
		CHECK(rig_pop(&rig.b) == NULL);
		CHECK_EQ(weft_rdmap_stats(rig.b.r)->msgs_out, 2);
		CHECK_EQ(rig.b.op_stats.out[row[k].op], 1);
		CHECK_EQ(rig.b.op_stats.out[WEFT_RDMAP_SEND], 1);
		/* the indication is not a request of the user */
		CHECK_EQ(rig_ev_count(&rig.b, EV_DONE), 1);
		rig_close();
	}
}

WEFT_TEST_MAIN({"indication", test_indication})
