/* SPDX-License-Identifier: BSD-3-Clause */
/** @file An initiator whose responder does not answer sends empty Writes after 100 ms and after 1.1
 * s, and no more. */

#include "rdmap_rig.h"

/* RFC 5041 s4.2, RFC 5040 s4.3: tagged, last, version 1; RDMAP version 1, opcode 0; STag 1, TO 0.
 */
static const uint8_t empty_write[14] = {0xc1, 0x40, 0, 0, 0, 1};

static void
begin(bool initiator)
{
	rig.idle = true;
	rig_open(1, 1, true);
	rig.idle = false;
	rig.b.ddp->mpa->initiator = initiator;
	weft_rdmap_start(rig.b.r, 1, 1);
	rig_pump();
}

static void
send_one(struct weft_rdmap_req *req)
{
	*req = (struct weft_rdmap_req){.op = WEFT_RDMAP_SEND};
	weft_rdmap_post(rig.b.r, req);
	rig_pump();
	free(rig_pop(&rig.b));
	rig.b.ddp->mpa->stats.fpdus_out++;
}

static bool
silent(void)
{
	struct rig_ulpdu *u = rig_pop(&rig.b);

	free(u);
	return u == NULL;
}

static void
test_unheard(void)
{
	struct weft_rdmap_req req;
	unsigned int flushes;

	begin(true);
	send_one(&req);
	rig_advance(99 * WEFT_NS_PER_MS);
	CHECK(silent());
	flushes = rig.b.flushes;
	rig_advance(2 * WEFT_NS_PER_MS);
	EXPECT_ULPDU(&rig.b, empty_write, sizeof(empty_write));
	CHECK_EQ(rig.b.flushes, flushes + 1);
	rig_advance(998 * WEFT_NS_PER_MS);
	CHECK(silent());
	rig_advance(3 * WEFT_NS_PER_MS);
	EXPECT_ULPDU(&rig.b, empty_write, sizeof(empty_write));
	CHECK_EQ(rig.b.sched.wheel.armed, 0); /* no timer is left */
	for (unsigned int i = 0; i < 20; i++)
		rig_advance(WEFT_NS_PER_S);
	CHECK(silent());
	CHECK_EQ(rig.b.op_stats.out[WEFT_RDMAP_WRITE], 2);
	CHECK_EQ(rig_ev_count(&rig.b, EV_DONE), 1);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_RTS);
	rig_close();
}

/* No probe is needed: nothing was sent, something was received, or this side is the responder. */
static void
test_no_reason(void)
{
	for (unsigned int i = 0; i < 3; i++) {
		struct weft_rdmap_req req;

		begin(i != 2);
		if (i == 1)
			send_one(&req);
		rig.b.ddp->mpa->stats.fpdus_in = i == 1;
		rig_advance(WEFT_NS_PER_S);
		rig_advance(WEFT_NS_PER_S);
		CHECK(silent());
		rig_close();
	}
}

/* Without space no probe is sent. The stream ends as usual. */
static void
test_not_now(void)
{
	struct weft_rdmap_req req;

	begin(true);
	send_one(&req);
	rig.b.space = 0;
	rig_advance(101 * WEFT_NS_PER_MS);
	CHECK(silent());
	rig.b.space = UINT32_MAX;
	rig_pump();
	CHECK(silent());
	weft_rdmap_close(rig.b.r, rig.now_ns);
	rig_pump();
	CHECK(rig.b.fin);
	rig_advance(2 * WEFT_NS_PER_S);
	CHECK(silent());
	rig_close();
}

/* An initiator that closes unheard before its first probe sends the probe, and the FIN later. */
static void
test_closing(void)
{
	struct weft_rdmap_req req;

	begin(true);
	send_one(&req);
	weft_rdmap_close(rig.b.r, rig.now_ns);
	rig_pump();
	rig_advance(9 * WEFT_NS_PER_MS);
	CHECK(silent() && !rig.b.fin);
	rig_advance(2 * WEFT_NS_PER_MS);
	EXPECT_ULPDU(&rig.b, empty_write, sizeof(empty_write));
	CHECK(!rig.b.fin);
	rig_advance(8 * WEFT_NS_PER_MS);
	CHECK(silent() && !rig.b.fin);
	rig_advance(3 * WEFT_NS_PER_MS);
	CHECK(silent() && rig.b.fin);
	/* the time to close is the usual one */
	rig_advance(59 * WEFT_NS_PER_S);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_CLOSING);
	rig_advance(2 * WEFT_NS_PER_S);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_ERROR);
	CHECK_EQ(rig.b.op_stats.out[WEFT_RDMAP_WRITE], 1);
	rig_close();
}

/* A Read is outstanding: its answer does not come if the peer has not read the request, so the
 * probe is sent. The FIN waits for the answer. */
static void
test_closing_reads(void)
{
	struct weft_rdmap_req req = {.op = WEFT_RDMAP_READ_REQ, .stag = 5, .len_bytes = 8};

	begin(true);
	weft_rdmap_post(rig.b.r, &req);
	rig_pump();
	free(rig_pop(&rig.b));
	rig.b.ddp->mpa->stats.fpdus_out++;
	weft_rdmap_close(rig.b.r, rig.now_ns);
	rig_pump();
	CHECK(silent() && !rig.b.fin);
	rig_advance(11 * WEFT_NS_PER_MS);
	EXPECT_ULPDU(&rig.b, empty_write, sizeof(empty_write));
	rig_advance(11 * WEFT_NS_PER_MS);
	CHECK(silent() && !rig.b.fin);
	rig_close();
}

/* The FIN does not wait: nothing was sent, something was received, this side is the responder, or
 * the probe was sent. */
static void
test_closing_at_once(void)
{
	for (unsigned int i = 0; i < 4; i++) {
		struct weft_rdmap_req req;

		begin(i != 2);
		if (i > 0)
			send_one(&req);
		rig.b.ddp->mpa->stats.fpdus_in = i == 1;
		if (i == 3) {
			rig_advance(101 * WEFT_NS_PER_MS);
			EXPECT_ULPDU(&rig.b, empty_write, sizeof(empty_write));
		}
		weft_rdmap_close(rig.b.r, rig.now_ns);
		rig_pump();
		CHECK(rig.b.fin && silent());
		rig_close();
	}
}

/* What is heard while the FIN waits lets it go. */
static void
test_closing_heard(void)
{
	struct weft_rdmap_req req;

	begin(true);
	send_one(&req);
	weft_rdmap_close(rig.b.r, rig.now_ns);
	rig_pump();
	rig_advance(5 * WEFT_NS_PER_MS);
	CHECK(!rig.b.fin);
	rig.b.ddp->mpa->stats.fpdus_in = 1;
	weft_rdmap_resume(rig.b.r);
	rig_pump();
	CHECK(rig.b.fin && silent());
	rig_advance(WEFT_NS_PER_S);
	CHECK(silent());
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_CLOSING);
	rig_close();
}

WEFT_TEST_MAIN({"unheard", test_unheard}, {"no_reason", test_no_reason}, {"not_now", test_not_now},
               {"closing", test_closing}, {"closing_at_once", test_closing_at_once},
               {"closing_heard", test_closing_heard}, {"closing_reads", test_closing_reads})
