/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Segments that no honest peer sends, found by fuzzing, and calls of the user at unusual
 * moments. */

#include "tcp_peer.h"
#include "tcp_conn.h"
#include "tcp_instance.h"
#include "tcp_life.h"

/**
 * RFC 9293 s3.10.7.4, eighth: nothing follows a FIN. Octets from beyond the FIN that arrived before
 * it are neither kept until the connection ends, nor do they hide the FIN.
 */
static void
test_fin_below_text(void)
{
	const struct weft_tcp_stats *st;
	struct weft_tcp_conn *c;

	/* Separate from the FIN, around it, and both. The gap before it is filled first or last. */
	for (unsigned int how = 0; how < 6; how++) {
		struct net_app as = {.close_on_eof = true};

		open_conn(NULL, &as);
		c = app->c;
		st = weft_tcp_stats(net.node[0].tcp);
		if (how % 3 != 1)
			seg(TCP_ACK, IRS + 1 + 300, iss + 1, 65535, 300, 500);
		if (how % 3 != 0)
			seg(TCP_ACK, IRS + 1 + 50, iss + 1, 65535, 50, 200);
		if (how < 3)
			seg(TCP_ACK, IRS + 1, iss + 1, 65535, 0, 50);
		seg(TCP_ACK | TCP_FIN, IRS + 1 + 80, iss + 1, 65535, 80, 0);
		run_for(WEFT_NS_PER_MS);
		if (how == 1 || how == 2) {
			/* The data arrived first: they are part of the stream, and the FIN is in
			 * its past. */
			CHECK_EQ(app->received, 250);
			CHECK(!app->eof);
		} else {
			CHECK_EQ(st->data_after_close, 1 + (how == 5));
			CHECK_EQ(app->received, how < 3 ? 50 : 0);
			seg(TCP_ACK, IRS + 1, iss + 1, 65535, 0, 80);
			run_for(WEFT_NS_PER_MS);
			CHECK_EQ(app->received, 80);
			CHECK(app->eof);
			CHECK_EQ(c->ooo_mbufs, 0);
			CHECK_EQ(c->nsack, 0);
		}
		down();
	}
}

static void
die_of_mss(void *user, uint16_t mss_bytes)
{
	struct net_app *a = user;

	(void)mss_bytes;
	weft_tcp_abort(a->c, a->node->sched.now_ns);
	a->c->rcv_unacked_bytes = 1; /* as if there had been no mbuf for the RST */
}

/** The user aborts the connection in the callback of its MSS: nothing is sent after the RST, and
 * the connection does not wait for room. */
static void
test_abort_on_mss(void)
{
	static const struct weft_tcp_conn_ops ops = {.mss = die_of_mss};
	struct weft_tcp_conn *c;
	struct weft_tcp *t;

	open_conn(NULL, NULL);
	c = app->c;
	t = net.node[0].tcp;
	weft_tcp_set_user(c, &ops, app);
	tcp_hold(c);
	c->rcv_unacked_bytes = 1;
	tcp_work(c, TCP_WORK_MSS | TCP_WORK_OUTPUT | TCP_WORK_ACK);
	run_for(WEFT_NS_PER_MS);
	CHECK(c->dead);
	CHECK_EQ(net.node[1].nsegs, 1);
	CHECK_EQ(last().h.flags, TCP_RST | TCP_ACK);
	tcp_wait(c, TCP_WORK_ACK);
	tcp_work(c, TCP_WORK_ACK);
	CHECK(!c->waiting && !c->task.queued);
	CHECK_EQ(t->nwaiting, 0);
	tcp_release(c);
	down();
}

WEFT_TEST_MAIN({"fin_below_text", test_fin_below_text}, {"abort_on_mss", test_abort_on_mss})
