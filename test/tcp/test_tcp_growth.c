/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file When cwnd grows and when it must not (RFC 5681, RFC 7661). A receiver acknowledges a filled
 * gap at once (RFC 5681 s4.2).
 */

#include "tcp_peer.h"
#include "tcp_conn.h"

#define RTT_NS (10 * WEFT_NS_PER_MS)

static uint32_t first;
static struct weft_tcp_conn *c;

static void
open_sender(enum weft_tcp_cc cc, unsigned int segs)
{
	struct weft_tcp_attr attr = {.cc = cc};
	struct net_app as = {.to_send = (uint64_t)segs * MSS};

	open_conn(&attr, &as);
	c = app->c;
	first = iss + 1;
	run_for(RTT_NS);
}

static void
ack(unsigned int upto)
{
	seg(TCP_ACK, IRS + 1, first + upto * MSS, 65535, 0, 0);
}

/** RFC 5681 s3.1: every ACK of a full window counts, even if several are processed before
 * anything is sent. */
static void
test_burst_of_acks(void)
{
	open_sender(WEFT_TCP_CC_NEWRENO, 200);
	CHECK_EQ(c->snd_nxt, first + 10 * MSS);
	c->ssthresh = c->cwnd;
	for (unsigned int round = 1, una = 0; round <= 5; round++) {
		unsigned int window = 9 + round;

		CHECK_EQ(c->cwnd, window * MSS);
		for (unsigned int i = 2; i <= window + 1; i += 2)
			ack(una + RTE_MIN(i, window));
		una += window;
		run_for(RTT_NS);
		CHECK_EQ(c->cwnd, (window + 1) * MSS);
	}
	net_discard(&net);
}

/** Send this number of segments in each of 40 round trips. */
static void
trickle(unsigned int per_rtt)
{
	for (unsigned int i = 0, sent = 0; i < 40; i++) {
		app->to_send = (uint64_t)per_rtt * MSS;
		app->sent = 0;
		net_app_push(app);
		run_for(RTT_NS / 2);
		sent += per_rtt;
		CHECK_EQ(c->snd_nxt, first + sent * MSS);
		for (unsigned int k = sent - per_rtt + 1; k <= sent; k++)
			ack(k);
		run_for(RTT_NS / 2);
	}
}

/** RFC 7661 s4.2: a window that the application does not use shows nothing about the path. */
static void
test_application_limited(void)
{
	static const enum weft_tcp_cc ccs[] = {WEFT_TCP_CC_NEWRENO, WEFT_TCP_CC_CUBIC};

	for (unsigned int i = 0; i < RTE_DIM(ccs); i++) {
		open_sender(ccs[i], 0);
		c->ssthresh = c->cwnd;
		trickle(4);
		CHECK_EQ(c->cwnd, 10 * MSS);
		net_discard(&net);
		/* Slow start raises cwnd up to twice what the application sends, and no further. */
		open_sender(ccs[i], 0);
		trickle(4);
		CHECK_EQ(c->cwnd, 10 * MSS);
		net_discard(&net);
		open_sender(ccs[i], 0);
		trickle(8);
		CHECK(c->cwnd > 10 * MSS && c->cwnd <= 2 * 8 * MSS + 8 * MSS);
		net_discard(&net);
	}
}

static bool
all_sent(void *arg)
{
	return ((struct net *)arg)->app[1].received == ((struct net *)arg)->app[0].to_send;
}

/** The same where the peer's window is the limit: 16 MiB with 64 KiB at a time. */
static void
test_peer_limited(void)
{
	static const enum weft_tcp_cc ccs[] = {WEFT_TCP_CC_NEWRENO, WEFT_TCP_CC_CUBIC};
	static struct net n;

	for (unsigned int i = 0; i < RTE_DIM(ccs); i++) {
		struct sim_link_cfg cfg[2] = {{.delay_ns = 500 * WEFT_NS_PER_US},
		                              {.delay_ns = 500 * WEFT_NS_PER_US}};
		struct weft_tcp_attr attr[2] = {{.cc = ccs[i]}, {.rcv_buf_bytes = 65536}};
		struct net_app *a;

		net_up(&n, 1, cfg, attr, 1500);
		net_listen(&n, 1);
		a = net_connect(&n, 0, 7);
		a->to_send = 16u << 20;
		CHECK(net_run(&n, 10 * WEFT_NS_PER_S, all_sent, &n));
		CHECK_MSG(a->c->cwnd <= 3 * 65536, "%u", a->c->cwnd);
		net_discard(&n);
	}
}

/** RFC 5681 s4.2: "immediately", and not with the rest of the burst, whose ACK may be lost. */
static void
test_filled_gap(void)
{
	open_conn(NULL, NULL);
	seg_wait(TCP_ACK, IRS + 1 + MSS, iss + 1, 65535, MSS, MSS);
	CHECK_EQ(net.node[1].nsegs, 1);
	CHECK_EQ(last().h.ack, IRS + 1);
	seg(TCP_ACK, IRS + 1, iss + 1, 65535, 0, MSS);
	for (unsigned int i = 2; i < 6; i++)
		seg(TCP_ACK, IRS + 1 + i * MSS, iss + 1, 65535, i * MSS, MSS);
	run_for(20 * WEFT_NS_PER_US);
	CHECK_EQ(net.node[1].nsegs, 2);
	CHECK_EQ(net.node[1].segs[0].h.ack, IRS + 1 + 2 * MSS);
	CHECK_EQ(last().h.ack, IRS + 1 + 6 * MSS);
	net_discard(&net);
}

WEFT_TEST_MAIN({"burst_of_acks", test_burst_of_acks},
               {"application_limited", test_application_limited},
               {"peer_limited", test_peer_limited}, {"filled_gap", test_filled_gap})
