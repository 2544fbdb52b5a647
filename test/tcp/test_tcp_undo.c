/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Undoing a reduction of cwnd that was not needed (RFC 3708, RFC 2883), the effect of a CE
 * mark (RFC 3168), and the choice of the algorithm.
 */

#include "tcp_instance.h"

#include "sack_peer.h"
#include "tcp_cc.h"

/** RFC 3708 and RFC 9438 s4.9.2: D-SACKs for every retransmitted segment restore cwnd. */
static void
test_undo(void)
{
	uint32_t cwnd, ssthresh;
	unsigned int all;

	open_sack(NULL, 60);
	run_for(RTT_NS);
	cwnd = c->cwnd;
	ssthresh = c->ssthresh;
	for (int k = 2; k <= 5; k++)
		sack(0, 1, k);
	CHECK(c->in_recovery);
	CHECK_EQ(st->retrans_segs, 1);
	CHECK(c->ssthresh < cwnd);
	/* The original arrives after all, then the copy (RFC 2883 s4). */
	run_for(RTT_NS);
	all = (c->snd_max - first) / MSS;
	sack(all, 0, 0);
	CHECK(c->cwnd < cwnd);
	sack2(all, (const int[]){0, 2, -1});
	CHECK_EQ(st->dsacks_in, 1);
	CHECK_EQ(st->spurious_retrans, 1);
	CHECK_EQ(st->undos, 1);
	CHECK(!c->in_recovery);
	CHECK(c->cwnd >= cwnd);
	CHECK_EQ(c->ssthresh, ssthresh);
	CHECK_EQ(c->reo_mult, 2);
	/* RFC 8985 s6.2 step 4: reo_mult grows at most once per round trip, also with more D-SACKs.
	 */
	sack2(all, (const int[]){0, 2, -1});
	CHECK_EQ(c->reo_mult, 2);
	CHECK_EQ(st->undos, 1);
	down();
}

/** A needed retransmission is not undone, because no D-SACK reports it. */
static void
test_no_undo(void)
{
	open_sack(NULL, 60);
	run_for(RTT_NS);
	for (int k = 2; k <= 5; k++)
		sack(0, 1, k);
	run_for(RTT_NS);
	sack((c->snd_max - first) / MSS, 0, 0);
	CHECK_EQ(st->undos, 0);
	CHECK(!c->in_recovery);
	CHECK_EQ(c->cwnd, c->ssthresh);
	down();
	/* A D-SACK below the octets of the reduction concerns an earlier one (RFC 3708 s3.2). */
	open_sack(NULL, 60);
	run_for(RTT_NS);
	sack(2, 0, 0);
	run_for(RTT_NS);
	for (int k = 4; k <= 7; k++)
		sack(2, 3, k);
	CHECK(c->in_recovery);
	CHECK_EQ(st->retrans_segs, 1);
	sack2(2, (const int[]){0, 2, 6, 14, -1});
	CHECK_EQ(st->dsacks_in, 1);
	CHECK_EQ(st->undos, 0);
	CHECK(c->in_recovery);
	run_for(RTT_NS);
	sack((c->snd_max - first) / MSS, 0, 0);
	CHECK_EQ(st->undos, 0);
	down();
}

/** RFC 3708: after a change of the algorithm an earlier reduction is not undone, and its
 * recovery continues. */
static void
test_undo_other(void)
{
	open_sack(NULL, 60);
	run_for(RTT_NS);
	for (int k = 2; k <= 5; k++)
		sack(0, 1, k);
	CHECK(c->in_recovery);
	CHECK_EQ(st->retrans_segs, 1);
	weft_tcp_set_cc(c, WEFT_TCP_CC_NEWRENO);
	run_for(RTT_NS);
	sack2(5, (const int[]){0, 2, -1});
	CHECK_EQ(st->dsacks_in, 1);
	CHECK_EQ(st->undos, 0);
	CHECK(c->in_recovery);
	CHECK_EQ(st->recoveries, 1);
	down();
}

/** RFC 2883 s4: a D-SACK for octets further back than any window or queue of ours is ignored. */
static void
test_old_dsack(void)
{
	const struct weft_tcp_attr attr = {.initial_cwnd_segs = 200, .snd_buf_bytes = 100 * MSS};
	struct tcp_opts o = {.mss_bytes = MSS, .sack_perm = true};

	open_with(&attr, 200, &o);
	for (unsigned int una = 10; una <= 110; una += 10)
		sack(una, 0, 0);
	CHECK_EQ(c->snd_una, first + 110 * MSS);
	CHECK(c->max_snd_wnd < 100 * MSS);
	sack2(110, (const int[]){19, 21, -1});
	CHECK_EQ(st->dsacks_in, 0);
	CHECK_EQ(st->sack_blocks_bad, 1);
	sack2(110, (const int[]){20, 22, -1});
	CHECK_EQ(st->dsacks_in, 1);
	CHECK_EQ(st->sack_blocks_bad, 1);
	down();
}

/** RFC 3168 s6.1.2: ECE reduces cwnd once per window of data. The next data segment carries CWR. */
static void
test_ece(void)
{
	uint32_t cwnd;

	open_sack(NULL, 60);
	run_for(RTT_NS);
	c->ecn_ok = true;
	cwnd = c->cwnd;
	sack(1, 1, 1);
	tcp_cc_ece(c, sim_now_ns(net.sim));
	CHECK_EQ(st->ecn_reductions, 1);
	CHECK(c->cwnd < cwnd && c->cwr_due);
	cwnd = c->cwnd;
	tcp_cc_ece(c, sim_now_ns(net.sim));
	sack(5, 5, 5);
	tcp_cc_ece(c, sim_now_ns(net.sim));
	CHECK_EQ(st->ecn_reductions, 1);
	/* A later window of data: the next ECE reduces cwnd again. */
	sack((c->snd_max - first) / MSS, 0, 0);
	cwnd = c->cwnd;
	sack((c->snd_una - first) / MSS + 1, 0, 0);
	tcp_cc_ece(c, sim_now_ns(net.sim));
	CHECK_EQ(st->ecn_reductions, 2);
	CHECK(c->cwnd < cwnd);
	/* s6.1.2: cwnd does not fall below one segment. */
	for (unsigned int i = 0; i < 12; i++) {
		sack((c->snd_max - first) / MSS, 0, 0);
		sack(RTE_MIN((c->snd_una - first) / MSS + 1, (c->snd_max - first) / MSS), 0, 0);
		tcp_cc_ece(c, sim_now_ns(net.sim));
	}
	CHECK(c->cwnd >= MSS);
	sack((c->snd_max - first) / MSS, 0, 0);
	c->cwnd = 2 * MSS;
	c->ece_recover = c->snd_una - 1;
	tcp_cc_ece(c, sim_now_ns(net.sim));
	CHECK_EQ(c->cwnd, MSS);
	down();
}

/** The algorithm can be chosen for the stack, for a listener, and for a connection. */
static void
test_choice(void)
{
	struct weft_tcp_attr reno = {.cc = WEFT_TCP_CC_NEWRENO};
	struct weft_tcp_info info;

	open_sack(NULL, 1);
	weft_tcp_info(c, &info);
	CHECK_STR(info.cc_name, "cubic");
	CHECK(info.sack && !info.in_recovery);
	weft_tcp_set_cc(c, WEFT_TCP_CC_NEWRENO);
	weft_tcp_info(c, &info);
	CHECK_STR(info.cc_name, "newreno");
	down();
	open_sack(&reno, 1);
	weft_tcp_info(c, &info);
	CHECK_STR(info.cc_name, "newreno");
	down();
	up(&reno);
	net.listener->cc = WEFT_TCP_CC_CUBIC;
	syn(IRS, NULL);
	seg_wait(TCP_ACK, IRS + 1, last().h.seq + 1, 65535, 0, 0);
	app = &net.app[0];
	weft_tcp_info(app->c, &info);
	CHECK_STR(info.cc_name, "cubic");
	down();
}

/** RFC 5681 s3.1: in congestion avoidance a window of octets adds one segment, and not one octet
 * less, even for an algorithm that was chosen later. */
static void
test_newreno_window(void)
{
	uint32_t cwnd;

	open_sack(NULL, 10);
	cwnd = c->cwnd;
	CHECK_EQ(cwnd, 10 * MSS);
	c->ssthresh = cwnd;
	weft_tcp_set_cc(c, WEFT_TCP_CC_NEWRENO);
	sack(9, 9, 9);
	CHECK_EQ(c->cwnd, cwnd);
	seg_wait(TCP_ACK, IRS + 1, first + 10 * MSS - 1, 65535, 0, 0);
	CHECK_EQ(c->cwnd, cwnd);
	seg_wait(TCP_ACK, IRS + 1, first + 10 * MSS, 65535, 0, 0);
	CHECK_EQ(c->cwnd, cwnd + MSS);
	down();
}

WEFT_TEST_MAIN({"undo", test_undo}, {"no_undo", test_no_undo}, {"undo_other", test_undo_other},
               {"old_dsack", test_old_dsack}, {"ece", test_ece}, {"choice", test_choice},
               {"newreno_window", test_newreno_window})
