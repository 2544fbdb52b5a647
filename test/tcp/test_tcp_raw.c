/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file One stack against segments that the test encodes: RFC 9293 s3.10.7, RFC 5961, windows,
 * acknowledgments, reassembly, retransmission.
 */

#include <stdlib.h>

#include "tcp_peer.h"
#include "tcp_conn.h"
#include "weft_netif_icmp.h"

static void
test_options(void)
{
	struct tcp_opts ws = {.mss_bytes = 9000, .has_wscale = true, .wscale = 3};
	struct weft_tcp_info info;

	up(NULL);
	syn(IRS, NULL);
	CHECK_EQ(last().opts.mss_bytes, MSS);
	CHECK(!last().opts.has_wscale);
	CHECK_EQ(last().h.wnd, 65535);
	seg_wait(TCP_ACK, IRS + 1, last().h.seq + 1, 1000, 0, 0);
	app = &net.app[0];
	CHECK_EQ(weft_tcp_mss(app->c), 536); /* RFC 9293 s3.7.1 */
	weft_tcp_info(app->c, &info);
	CHECK_EQ(info.snd_wnd_bytes, 1000);
	CHECK_EQ(info.rcv_wnd_bytes, 65535);
	down();

	up(NULL);
	syn(IRS, &ws);
	CHECK(last().opts.has_wscale);
	CHECK_EQ(last().opts.wscale, 5); /* 1 MiB */
	seg_wait(TCP_ACK, IRS + 1, last().h.seq + 1, 1000, 0, 0);
	app = &net.app[0];
	CHECK_EQ(weft_tcp_mss(app->c), MSS);
	weft_tcp_info(app->c, &info);
	CHECK_EQ(info.snd_wnd_bytes, 8000);
	CHECK_EQ(info.rcv_wnd_bytes, 1 << 20);
	down();

	/* The stack's own SYN offers both. */
	up(NULL);
	app = net_connect(&net, 0, PORT);
	run_for(20 * WEFT_NS_PER_US);
	CHECK_EQ(last().h.flags, TCP_SYN);
	CHECK_EQ(last().opts.mss_bytes, MSS);
	CHECK(last().opts.has_wscale);
	down();
}

/** RFC 9293 s3.10.7.1: the answer to a segment of no connection. */
static void
test_no_conn(void)
{
	struct tcp_hdr h = {.src_port = PORT, .dst_port = 99, .seq = 700, .ack = 900, .wnd = 1};

	up(NULL);
	h.flags = TCP_SYN;
	net_raw(&net, &h, NULL, 0, 0);
	run_for(WEFT_NS_PER_MS);
	CHECK_EQ(last().h.flags, TCP_RST | TCP_ACK);
	CHECK_EQ(last().h.seq, 0);
	CHECK_EQ(last().h.ack, 701);
	h.flags = TCP_ACK;
	net_raw(&net, &h, NULL, 0, 10);
	run_for(WEFT_NS_PER_MS);
	CHECK_EQ(last().h.flags, TCP_RST);
	CHECK_EQ(last().h.seq, 900);
	h.flags = TCP_FIN;
	net_raw(&net, &h, NULL, 0, 10);
	run_for(WEFT_NS_PER_MS);
	CHECK_EQ(last().h.flags, TCP_RST | TCP_ACK);
	CHECK_EQ(last().h.ack, 711);
	h.flags = TCP_RST;
	net_raw(&net, &h, NULL, 0, 0);
	run_for(WEFT_NS_PER_MS);
	CHECK_EQ(net.node[1].nsegs, 0);
	/* A listener resets an ACK, and ignores what is neither SYN, ACK nor RST. */
	seg_wait(TCP_ACK, 1, 2, 3, 0, 0);
	CHECK_EQ(last().h.flags, TCP_RST);
	CHECK_EQ(last().h.seq, 2);
	seg_wait(TCP_FIN, 1, 2, 3, 0, 0);
	CHECK_EQ(net.node[1].nsegs, 0);
	/* A segment with SYN and FIN, and one with port zero, belong to no connection. */
	seg_wait(TCP_SYN | TCP_FIN, 1, 2, 3, 0, 0);
	CHECK_EQ(net.node[1].nsegs, 0);
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->rx_bad, 1);
	net_down(&net);
}

/** RFC 5961 s3, s4, s5. */
static void
test_blind(void)
{
	const struct weft_tcp_stats *st;

	open_conn(NULL, NULL);
	st = weft_tcp_stats(net.node[0].tcp);
	/* RST: outside the window, inside, and exactly at rcv_nxt. */
	seg_wait(TCP_RST, IRS + 1 + 70000, 0, 0, 0, 0);
	CHECK_EQ(net.node[1].nsegs, 0);
	seg_wait(TCP_RST, IRS, 0, 0, 0, 0);
	CHECK_EQ(net.node[1].nsegs, 0);
	seg_wait(TCP_RST, IRS + 2, 0, 0, 0, 0);
	CHECK_EQ(net.node[1].nsegs, 1);
	CHECK_EQ(last().h.flags, TCP_ACK);
	CHECK_EQ(last().h.ack, IRS + 1);
	/* SYN: in the window. */
	seg_wait(TCP_SYN, IRS + 100, 0, 0, 0, 0);
	CHECK_EQ(last().h.flags, TCP_ACK);
	/* ACK of data that were never sent, and of data acknowledged long ago. */
	seg_wait(TCP_ACK, IRS + 1, iss + 2, 65535, 0, 100);
	CHECK_EQ(net.node[1].nsegs, 1);
	seg_wait(TCP_ACK, IRS + 1, iss + 1 - 65536, 65535, 0, 100);
	CHECK_EQ(net.node[1].nsegs, 1);
	CHECK_EQ(app->received, 0);
	CHECK_EQ(st->challenge_acks, 4);
	/* At most ten a second. */
	for (unsigned int i = 0; i < 20; i++)
		seg(TCP_SYN, IRS + 100 + i, 0, 0, 0, 0);
	run_for(WEFT_NS_PER_MS);
	CHECK_EQ(st->challenge_acks, 10);
	CHECK_EQ(net_state(app), WEFT_TCP_ESTABLISHED);
	/* No ACK bit: dropped. */
	seg_wait(0, IRS + 1, 0, 0, 0, 100);
	CHECK_EQ(app->received, 0);
	seg_wait(TCP_RST, IRS + 1, 0, 0, 0, 0);
	CHECK(app->closed);
	CHECK_EQ(app->err, -ECONNRESET);
	down();
}

static void
test_syn_sent(void)
{
	struct tcp_hdr h = {.src_port = PORT, .wnd = 1000};

	up(NULL);
	app = net_connect(&net, 0, PORT);
	run_for(20 * WEFT_NS_PER_US);
	iss = last().h.seq;
	h.dst_port = last().h.src_port;
	/* A wrong ACK is answered with a RST. A RST must acknowledge our SYN. */
	h.flags = TCP_SYN | TCP_ACK;
	h.ack = iss;
	net_raw(&net, &h, NULL, 0, 0);
	run_for(20 * WEFT_NS_PER_US);
	CHECK_EQ(last().h.flags, TCP_RST);
	CHECK_EQ(last().h.seq, iss);
	h.ack = iss + 2;
	net_raw(&net, &h, NULL, 0, 0);
	run_for(20 * WEFT_NS_PER_US);
	CHECK_EQ(last().h.seq, iss + 2);
	h.flags = TCP_RST;
	net_raw(&net, &h, NULL, 0, 0);
	h.flags = TCP_RST | TCP_ACK;
	net_raw(&net, &h, NULL, 0, 0);
	h.flags = TCP_ACK;
	h.ack = iss + 1;
	net_raw(&net, &h, NULL, 0, 0);
	run_for(20 * WEFT_NS_PER_US);
	CHECK_EQ(net_state(app), WEFT_TCP_SYN_SENT);
	h.flags = TCP_RST | TCP_ACK;
	net_raw(&net, &h, NULL, 0, 0);
	run_for(20 * WEFT_NS_PER_US);
	CHECK_EQ(app->err, -ECONNREFUSED);
	down();
}

static void
test_syn_rcvd(void)
{
	struct tcp_opts o = {.mss_bytes = MSS};

	up(NULL);
	syn(IRS, &o);
	iss = last().h.seq;
	syn(IRS, &o); /* repeated: the same answer again */
	CHECK_EQ(last().h.flags, TCP_SYN | TCP_ACK);
	CHECK_EQ(last().h.seq, iss);
	seg_wait(TCP_ACK, IRS + 1, iss + 2, 100, 0, 0);
	CHECK_EQ(last().h.flags, TCP_RST);
	CHECK_EQ(last().h.seq, iss + 2);
	CHECK_EQ(net.accepted, 0);
	/* The timer repeats it, too. */
	run_for(1100 * WEFT_NS_PER_MS);
	CHECK_EQ(net.node[1].nsegs, 1);
	CHECK_EQ(last().h.flags, TCP_SYN | TCP_ACK);
	/* The third segment may carry data. */
	seg_wait(TCP_ACK, IRS + 1, iss + 1, 65535, 0, 10);
	CHECK_EQ(net.accepted, 1);
	app = &net.app[0];
	CHECK_EQ(app->received, 10);
	down();

	up(&(struct weft_tcp_attr){.syn_cookies = WEFT_TCP_COOKIES_NEVER});
	syn(IRS, &o);
	seg_wait(TCP_RST, IRS + 1, 0, 0, 0, 0);
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->conns_now, 0);
	/* The number of half-open connections is limited by the backlog (16), and they end after
	 * some retries. */
	for (uint16_t i = 0; i < 20; i++)
		net_raw(&net,
		        &(struct tcp_hdr){.src_port = PORT + i, .dst_port = 7, .flags = TCP_SYN},
		        &o, 0, 0);
	run_for(WEFT_NS_PER_MS);
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->conns_now, 16);
	CHECK_EQ(net.node[1].nsegs, 20);
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->half_open_evicted, 4);
	run_for(200 * WEFT_NS_PER_S);
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->conns_now, 0);
	CHECK_EQ(net.accepted, 0);
	net_down(&net);
}

/** When an ACK is sent, and how often. */
static void
test_ack_policy(void)
{
	open_conn(&(struct weft_tcp_attr){.no_quick_acks = true}, NULL);
	/* One full segment: a delayed ACK. Two in one burst: one ACK. */
	seg_wait(TCP_ACK, IRS + 1, iss + 1, 65535, 0, MSS);
	CHECK_EQ(net.node[1].nsegs, 0);
	run_for(WEFT_NS_PER_MS);
	CHECK_EQ(net.node[1].nsegs, 1);
	CHECK_EQ(last().h.ack, IRS + 1 + MSS);
	for (unsigned int i = 1; i < 9; i++)
		seg(TCP_ACK, IRS + 1 + i * MSS, iss + 1, 65535, i * MSS, MSS);
	run_for(20 * WEFT_NS_PER_US);
	CHECK_EQ(net.node[1].nsegs, 1);
	CHECK_EQ(last().h.ack, IRS + 1 + 9 * MSS);
	/* Out of order: one ACK for each segment, at once. After the gap is filled: one ACK. */
	for (unsigned int i = 10; i < 14; i++)
		seg(TCP_ACK, IRS + 1 + i * MSS, iss + 1, 65535, i * MSS, MSS);
	run_for(20 * WEFT_NS_PER_US);
	CHECK_EQ(net.node[1].nsegs, 4);
	for (unsigned int i = 0; i < 4; i++)
		CHECK_EQ(net.node[1].segs[i].h.ack, IRS + 1 + 9 * MSS);
	seg_wait(TCP_ACK, IRS + 1 + 9 * MSS, iss + 1, 65535, 9 * MSS, MSS);
	CHECK_EQ(net.node[1].nsegs, 1);
	CHECK_EQ(last().h.ack, IRS + 1 + 14 * MSS);
	CHECK_EQ(app->received, 14 * MSS);
	/* Old data: an ACK at once. */
	seg_wait(TCP_ACK, IRS + 1, iss + 1, 65535, 0, MSS);
	CHECK_EQ(net.node[1].nsegs, 1);
	/* A FIN beyond a gap is remembered, and data after it are not accepted. */
	seg_wait(TCP_ACK | TCP_FIN, IRS + 1 + 15 * MSS, iss + 1, 65535, 15 * MSS, 5);
	CHECK_EQ(net.node[1].nsegs, 1);
	seg_wait(TCP_ACK, IRS + 1 + 15 * MSS, iss + 1, 65535, 15 * MSS, MSS);
	CHECK(!app->eof);
	seg_wait(TCP_ACK, IRS + 1 + 14 * MSS, iss + 1, 65535, 14 * MSS, MSS);
	CHECK_EQ(app->received, 15 * MSS + 5);
	CHECK(app->eof);
	CHECK_EQ(last().h.ack, IRS + 1 + 15 * MSS + 5 + 1);
	CHECK_EQ(net_state(app), WEFT_TCP_CLOSE_WAIT);
	down();
}

/** Pieces of a stream in any order and overlap, the edge of the window, and the limit of
 * buffers. */
static void
test_reassembly(void)
{
	struct weft_tcp_attr attr = {.rcv_buf_bytes = 20000, .max_ooo_bytes = 9000};

	for (uint64_t s = test_seed(1), n = test_seed_given() ? s + 1 : s + 60; s < n; s++) {
		unsigned int tries = 0;

		open_conn(s % 2 ? &attr : NULL, NULL);
		srand((unsigned int)s);
		while (app->received < 15000 && tries++ < 20000) {
			uint32_t off = (uint32_t)rand() % 15000;
			uint32_t len = 1 + (uint32_t)rand() % 1400;

			if (tries % 5 == 0)
				off = (uint32_t)app->received;
			len = RTE_MIN(len, 15000 - off);
			seg(TCP_ACK, IRS + 1 + off, iss + 1, 65535, off, len);
			if (tries % 8 == 0)
				run_for(20 * WEFT_NS_PER_US);
			if (tries == 30) /* the edge of the window, which no segment may cross */
				seg(TCP_ACK, IRS + 1 + 19999, iss + 1, 65535, 19999, 1400);
		}
		run_for(WEFT_NS_PER_MS);
		CHECK_MSG(app->received == 15000, "seed %u: %u", (unsigned int)s,
		          (unsigned int)app->received);
		down();
	}
}

/** Three duplicate ACKs resend the first segment. Partial ACKs continue as in NewReno. */
static void
test_fast_retransmit(void)
{
	struct net_app as = {.to_send = 10 * MSS};
	uint32_t first;

	open_conn(NULL, &as);
	first = iss + 1;
	CHECK_EQ(net.node[1].nsegs, 10); /* RFC 6928: ten at once */
	for (unsigned int i = 0; i < 2; i++)
		seg(TCP_ACK, IRS + 1, first, 65535, 0, 0);
	run_for(20 * WEFT_NS_PER_US);
	CHECK_EQ(net.node[1].nsegs, 0);
	/* A window update is not a duplicate. */
	seg_wait(TCP_ACK, IRS + 1, first, 65000, 0, 0);
	CHECK_EQ(net.node[1].nsegs, 0);
	seg_wait(TCP_ACK, IRS + 1, first, 65000, 0, 0);
	CHECK_EQ(net.node[1].nsegs, 1);
	CHECK_EQ(last().h.seq, first);
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->fast_retrans, 1);
	/* A partial ACK: the next hole is resent at once. */
	seg_wait(TCP_ACK, IRS + 1, first + 3 * MSS, 65000, 0, 0);
	CHECK_EQ(net.node[1].nsegs, 1);
	CHECK_EQ(last().h.seq, first + 3 * MSS);
	/* A partial ACK in the middle of a segment: the rest is resent. */
	seg_wait(TCP_ACK, IRS + 1, first + 5 * MSS + 100, 65000, 0, 0);
	CHECK_EQ(last().h.seq, first + 5 * MSS + 100);
	CHECK_EQ(last().len_bytes, MSS - 100);
	/* No ACK: the timer, then twice as long, but too short for a suspicion of a black hole. */
	run_for(1300 * WEFT_NS_PER_MS);
	CHECK(net.node[1].nsegs >= 2);
	for (unsigned int i = 0; i < net.node[1].nsegs; i++)
		CHECK_EQ(net.node[1].segs[i].h.seq, first + 5 * MSS + 100);
	seg_wait(TCP_ACK, IRS + 1, first + 10 * MSS, 65000, 0, 0);
	CHECK_EQ(net.node[1].nsegs, 0);
	run_for(10 * WEFT_NS_PER_S);
	CHECK_EQ(net.node[1].nsegs, 0);
	down();
}

static void
test_zero_window(void)
{
	struct weft_tcp_attr attr = {.data_retries = 3, .user_timeout_us = 1000000000};
	struct net_app as = {.to_send = 40 * MSS};
	uint32_t una, gap[4];

	open_conn(&attr, &as);
	una = iss + 1 + 10 * MSS;
	seg_wait(TCP_ACK, IRS + 1, una, 0, 0, 0);
	CHECK_EQ(net.node[1].nsegs, 0);
	/* A window probe of one octet is repeated at growing intervals, as long as the peer
	 * answers and the user timeout allows. */
	for (unsigned int i = 0; i < 10; i++) {
		uint64_t start = sim_now_ns(net.sim);

		while (net.node[1].nsegs == 0)
			net_run(&net, WEFT_NS_PER_MS, NULL, NULL);
		CHECK_EQ(last().len_bytes, 1);
		CHECK_EQ(last().h.seq, una);
		if (i < 4)
			gap[i] = (uint32_t)((sim_now_ns(net.sim) - start) / WEFT_NS_PER_MS);
		seg_wait(TCP_ACK, IRS + 1, una, 0, 0, 0);
	}
	CHECK(gap[1] > gap[0] + 100 && gap[3] > gap[2] + 300);
	/* The peer accepts the octet and opens the window a little: what fits is sent after the
	 * next timeout. */
	while (net.node[1].nsegs == 0)
		net_run(&net, WEFT_NS_PER_MS, NULL, NULL);
	seg_wait(TCP_ACK, IRS + 1, una + 1, 500, 0, 0);
	while (net.node[1].nsegs == 0)
		net_run(&net, WEFT_NS_PER_MS, NULL, NULL);
	CHECK_EQ(last().h.seq, una + 1);
	CHECK_EQ(last().len_bytes, 500);
	/* The window is open: everything is sent, the split segment first. */
	seg_wait(TCP_ACK, IRS + 1, una + 501, 65535, 0, 0);
	CHECK(net.node[1].nsegs >= 2);
	CHECK_EQ(net.node[1].segs[0].h.seq, una + 501);
	CHECK_EQ(net.node[1].segs[0].len_bytes, MSS - 501);
	CHECK_EQ(net.node[1].segs[1].len_bytes, MSS);
	/* A peer that stops answering behind a closed window is given up. */
	seg_wait(TCP_ACK, IRS + 1, last().h.seq + last().len_bytes, 0, 0, 0);
	run_for(600 * WEFT_NS_PER_S);
	CHECK_EQ(app->err, -ETIMEDOUT);
	down();
}

/** A peer whose window is always smaller than a segment gets half windows without delay. */
static void
test_small_window(void)
{
	struct tcp_opts o = {.mss_bytes = MSS};
	struct tcp_hdr h = {
	        .src_port = PORT, .dst_port = 7, .seq = IRS, .wnd = 600, .flags = TCP_SYN};
	uint32_t next;

	up(NULL);
	net.accept_as = (struct net_app){.to_send = 6000};
	net_raw(&net, &h, &o, 0, 0);
	run_for(20 * WEFT_NS_PER_US);
	next = last().h.seq + 1;
	while (next - last().h.seq != 6001) {
		uint32_t got = 0;

		seg_wait(TCP_ACK, IRS + 1, next, 600, 0, 0);
		if (net.node[1].nsegs == 0)
			break;
		for (unsigned int i = 0; i < net.node[1].nsegs; i++)
			got += net.node[1].segs[i].len_bytes;
		CHECK(got > 0 && got <= 600);
		next += got;
	}
	app = &net.app[0];
	CHECK_EQ(net.node[1].nsegs, 0);
	CHECK_EQ(app->sent, 6000);
	{
		struct weft_tcp_info info;

		weft_tcp_info(app->c, &info);
		CHECK_EQ(info.queued_bytes, 0);
	}
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->rtos, 0);
	down();
}

/** The end that closed first is in TIME-WAIT. A SYN with a newer number opens a new connection
 * (RFC 9293 s3.6.1). */
static void
test_time_wait(void)
{
	struct tcp_opts o = {.mss_bytes = MSS};
	uint32_t fin;

	open_conn(NULL, NULL);
	weft_tcp_close(app->c, sim_now_ns(net.sim));
	run_for(20 * WEFT_NS_PER_US);
	CHECK_EQ(last().h.flags, TCP_FIN | TCP_ACK);
	fin = last().h.seq;
	seg_wait(TCP_ACK, IRS + 1, fin + 1, 65535, 0, 0);
	CHECK_EQ(net_state(app), WEFT_TCP_FIN_WAIT_2);
	seg_wait(TCP_ACK | TCP_FIN, IRS + 1, fin + 1, 65535, 0, 0);
	CHECK(app->eof && app->closed);
	CHECK_EQ(app->err, 0);
	CHECK_EQ(last().h.ack, IRS + 2);
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->conns_now, 1);
	/* The FIN is repeated, because our ACK was lost. TIME-WAIT starts again. */
	run_for(800 * WEFT_NS_PER_MS);
	seg_wait(TCP_ACK | TCP_FIN, IRS + 1, fin + 1, 65535, 0, 0);
	CHECK_EQ(last().h.ack, IRS + 2);
	run_for(800 * WEFT_NS_PER_MS);
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->conns_now, 1);
	/* An old SYN is answered with an ACK, and a newer one opens a connection. */
	syn(IRS - 100, &o);
	CHECK_EQ(last().h.flags, TCP_ACK);
	CHECK_EQ(net.accepted, 1);
	syn(IRS + 100, &o);
	CHECK_EQ(last().h.flags, TCP_SYN | TCP_ACK);
	CHECK_EQ(last().h.ack, IRS + 101);
	CHECK((int32_t)(last().h.seq - (fin + 1)) > 0);
	seg_wait(TCP_ACK, IRS + 101, last().h.seq + 1, 65535, 0, 0);
	CHECK_EQ(net.accepted, 2);
	down();
}

/** Closing while the peer closes, in each order of FIN and ACK. */
static void
test_closing(void)
{
	open_conn(NULL, NULL);
	weft_tcp_close(app->c, sim_now_ns(net.sim));
	run_for(20 * WEFT_NS_PER_US);
	/* does not acknowledge our FIN */
	seg_wait(TCP_ACK | TCP_FIN, IRS + 1, iss + 1, 65535, 0, 0);
	CHECK_EQ(net_state(app), WEFT_TCP_CLOSING);
	CHECK_EQ(last().h.ack, IRS + 2);
	seg_wait(TCP_ACK, IRS + 2, iss + 2, 65535, 0, 0);
	CHECK(app->closed && app->err == 0);
	net_check_idle(&net);
	down();

	open_conn(NULL, NULL);
	weft_tcp_close(app->c, sim_now_ns(net.sim));
	run_for(20 * WEFT_NS_PER_US);
	seg_wait(TCP_ACK | TCP_FIN, IRS + 1, iss + 2, 65535, 0, 0); /* acknowledges it */
	CHECK(app->closed && app->err == 0);
	net_check_idle(&net);
	down();

	open_conn(NULL, NULL);
	seg_wait(TCP_ACK | TCP_FIN, IRS + 1, iss + 1, 65535, 0, 0);
	CHECK_EQ(net_state(app), WEFT_TCP_CLOSE_WAIT);
	weft_tcp_close(app->c, sim_now_ns(net.sim));
	run_for(20 * WEFT_NS_PER_US);
	CHECK_EQ(last().h.flags, TCP_FIN | TCP_ACK);
	CHECK_EQ(net_state(app), WEFT_TCP_LAST_ACK);
	seg_wait(TCP_ACK, IRS + 2, iss + 2, 65535, 0, 0);
	CHECK(app->closed && app->err == 0);
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->conns_now, 0);
	down();
}

/** An ICMP error for the connection that sent last. */
static void
icmp_error(uint32_t seq, enum weft_icmp_kind kind)
{
	struct weft_icmp_error e = {
	        .kind = kind,
	        .src = net_ip(0),
	        .dst = net_ip(1),
	        .src_port = last().h.src_port,
	        .dst_port = PORT,
	        .seq = seq,
	};

	weft_tcp_icmp_error(net.node[0].tcp, net.node[0].nif, &e, sim_now_ns(net.sim));
}

static void
test_unreachable(void)
{
	struct weft_tcp_attr attr = {.syn_retries = 2};

	up(&attr);
	app = net_connect(&net, 0, PORT);
	run_for(20 * WEFT_NS_PER_US);
	/* An error for octets that were not sent; a soft error; a hard error. */
	icmp_error(last().h.seq + 1, WEFT_ICMP_HARD);
	CHECK(!app->closed);
	icmp_error(last().h.seq, WEFT_ICMP_SOFT);
	CHECK(!app->closed);
	run_for(100 * WEFT_NS_PER_S);
	CHECK_EQ(app->err, -EHOSTUNREACH);
	app = net_connect(&net, 0, PORT);
	run_for(20 * WEFT_NS_PER_US);
	icmp_error(last().h.seq, WEFT_ICMP_HARD);
	CHECK_EQ(app->err, -ECONNREFUSED);
	down();
}

/** `recover`, which separates a new loss from a resent one, must follow snd_una over gigabytes. */
static void
test_recover_wrap(void)
{
	struct net_app as = {.to_send = 30 * MSS};
	const struct weft_tcp_stats *st;
	uint32_t first;

	open_conn(NULL, &as);
	st = weft_tcp_stats(net.node[0].tcp);
	first = iss + 1;
	/* As after almost 2 GiB without a loss. Later sequence numbers go beyond. */
	app->c->recover = app->c->snd_una - 0x7ffffff0u;
	seg_wait(TCP_ACK, IRS + 1, first + 5 * MSS, 65535, 0, 0);
	for (unsigned int i = 0; i < 3; i++)
		seg(TCP_ACK, IRS + 1, first + 5 * MSS, 65535, 0, 0);
	run_for(20 * WEFT_NS_PER_US);
	CHECK_EQ(st->fast_retrans, 1);
	CHECK_EQ(net.node[1].segs[net.node[1].nsegs - 1].h.seq, first + 5 * MSS);
	/* Octets covered by that recovery are not taken for lost again at late duplicates. */
	seg_wait(TCP_ACK, IRS + 1, app->c->recover, 65535, 0, 0);
	CHECK_EQ(app->c->recover, app->c->snd_una);
	for (unsigned int i = 0; i < 5; i++)
		seg_wait(TCP_ACK, IRS + 1, app->c->snd_una, 65535, 0, 0);
	CHECK_EQ(st->fast_retrans, 1);
	down();
}

/** One ACK for a burst opens cwnd as one ACK for each segment would. */
static void
test_slow_start(void)
{
	struct net_app as = {.to_send = 400 * MSS};
	struct tcp_opts o = {.mss_bytes = MSS, .has_wscale = true, .wscale = 7};
	struct weft_tcp_info info;

	up(NULL);
	net.accept_as = as;
	syn(IRS, &o);
	iss = last().h.seq;
	seg_wait(TCP_ACK, IRS + 1, iss + 1, 65535, 0, 0);
	app = &net.app[0];
	for (uint32_t k = 10, una = iss + 1; k <= 40; k *= 2) {
		CHECK_EQ(net.node[1].nsegs, k);
		una += k * MSS;
		seg_wait(TCP_ACK, IRS + 1, una, 65535, 0, 0);
	}
	/* At most one receive burst of 32 segments at once, whatever the ACK covers. */
	weft_tcp_info(app->c, &info);
	CHECK_EQ(info.cwnd_bytes, (10 + 10 + 20 + 32) * MSS);
	/* One segment for each ACK while segments that a timeout declared lost are resent. */
	run_for(1200 * WEFT_NS_PER_MS);
	CHECK(weft_tcp_stats(net.node[0].tcp)->rtos > 0);
	seg_wait(TCP_ACK, IRS + 1, app->c->snd_una + 20 * MSS, 65535, 0, 0);
	weft_tcp_info(app->c, &info);
	CHECK_EQ(info.cwnd_bytes, 2 * MSS);
	down();
}

/** An ACK from a sender that has filled our window is acceptable (RFC 9293 s3.10.7.4). */
static void
test_window_edge(void)
{
	struct net_app as = {.to_send = 3000};
	struct weft_tcp_attr attr = {.rcv_buf_bytes = 20000};
	const struct weft_tcp_stats *st;
	struct weft_tcp_info info;

	open_conn(&attr, &as);
	st = weft_tcp_stats(net.node[0].tcp);
	/* All segments that the window permits except the first, which is lost. */
	for (uint32_t off = 1000; off < 20000; off += 1000)
		seg(TCP_ACK, IRS + 1 + off, iss + 1, 65535, off, 1000);
	run_for(20 * WEFT_NS_PER_US);
	seg_wait(TCP_ACK, IRS + 1 + 20000, iss + 1 + 3000, 65535, 0, 0);
	weft_tcp_info(app->c, &info);
	CHECK_EQ(info.unacked_bytes, 0);
	CHECK_EQ(st->rx_out_of_window, 0);
	/* One octet further is outside the window, and so are a RST and data at the edge. */
	seg_wait(TCP_ACK, IRS + 1 + 20001, iss + 1 + 3000, 65535, 0, 0);
	CHECK_EQ(st->rx_out_of_window, 1);
	seg_wait(TCP_RST, IRS + 1 + 20000, 0, 0, 0, 0);
	CHECK_EQ(net.node[1].nsegs, 0);
	CHECK_EQ(st->rx_out_of_window, 2);
	seg_wait(TCP_ACK, IRS + 1 + 20000, iss + 1 + 3000, 65535, 20000, 1);
	CHECK_EQ(st->rx_out_of_window, 3);
	seg_wait(TCP_ACK, IRS + 1, iss + 1 + 3000, 65535, 0, 1000);
	CHECK_EQ(app->received, 20000);
	down();
}

/** A RST must have the sequence number that the peer expects, even after a retransmission
 * timeout. */
static void
test_abort_after_rto(void)
{
	struct net_app as = {.to_send = 10 * MSS};
	struct weft_tcp_attr attr = {.data_retries = 2};

	open_conn(NULL, &as);
	run_for(1200 * WEFT_NS_PER_MS);
	CHECK(weft_tcp_stats(net.node[0].tcp)->rtos > 0);
	net.node[1].nsegs = 0;
	weft_tcp_abort(app->c, sim_now_ns(net.sim));
	app->c = NULL;
	net_run(&net, 20 * WEFT_NS_PER_US, NULL, NULL);
	CHECK_EQ(last().h.flags, TCP_RST | TCP_ACK);
	CHECK_EQ(last().h.seq, iss + 1 + 10 * MSS);
	down();
	/* The same when the connection gives up after its timeouts. */
	open_conn(&attr, &as);
	run_for(60 * WEFT_NS_PER_S);
	CHECK_EQ(app->err, -ETIMEDOUT);
	CHECK_EQ(last().h.flags, TCP_RST | TCP_ACK);
	CHECK_EQ(last().h.seq, iss + 1 + 10 * MSS);
	down();
}

WEFT_TEST_MAIN({"options", test_options}, {"no_conn", test_no_conn}, {"blind", test_blind},
               {"syn_sent", test_syn_sent}, {"syn_rcvd", test_syn_rcvd},
               {"ack_policy", test_ack_policy}, {"reassembly", test_reassembly},
               {"fast_retransmit", test_fast_retransmit}, {"zero_window", test_zero_window},
               {"small_window", test_small_window}, {"time_wait", test_time_wait},
               {"closing", test_closing}, {"unreachable", test_unreachable},
               {"recover_wrap", test_recover_wrap}, {"slow_start", test_slow_start},
               {"window_edge", test_window_edge}, {"abort_after_rto", test_abort_after_rto})
