/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Options and ECN of one stack, tested with segments that the test encodes: timestamps and
 * PAWS (RFC 7323), the receiver's selective acknowledgments (RFC 2018, RFC 2883), explicit
 * congestion notification (RFC 3168).
 */

#include "tcp_peer.h"
#include "tcp_conn.h"
#include "weft_netif_mbuf.h"

static uint32_t irs, tsval;
static const struct weft_tcp_stats *st;

/** Send a segment of the peer with a timestamp and octets [off, off + len) of its stream. */
static void
ts_seg(uint8_t flags, uint32_t off, uint32_t len, uint32_t ack, uint32_t val, uint32_t ecr)
{
	struct tcp_hdr h = {.src_port = PORT,
	                    .dst_port = 7,
	                    .seq = irs + 1 + off,
	                    .ack = ack,
	                    .wnd = 65535,
	                    .flags = flags};
	struct tcp_opts o = {.has_ts = true, .ts_val = val, .ts_ecr = ecr};

	net_raw(&net, &h, &o, off, len);
}

/** The same without options. */
static void
plain(uint8_t flags, uint32_t off, uint32_t len, uint32_t ack)
{
	seg(flags, irs + 1 + off, ack, 65535, off, len);
}

static void
turn(void)
{
	run_for(20 * WEFT_NS_PER_US);
}

/** Open a connection with these options and flags. last() is then the SYN-ACK. */
static struct net_seg
opt_open(const struct weft_tcp_attr *attr, const struct net_app *as, struct tcp_opts o,
         uint8_t flags)
{
	struct tcp_hdr h = {.src_port = PORT, .dst_port = 7, .seq = irs, .wnd = 65535};
	struct net_seg answer;

	up(attr);
	st = weft_tcp_stats(net.node[0].tcp);
	if (as != NULL)
		net.accept_as = *as;
	h.flags = flags;
	net_raw(&net, &h, &o, 0, 0);
	turn();
	CHECK_EQ(net.node[1].nsegs, 1);
	answer = last();
	iss = answer.h.seq;
	if (o.has_ts && answer.opts.has_ts)
		ts_seg(TCP_ACK, 0, 0, iss + 1, o.ts_val, answer.opts.ts_val);
	else
		plain(TCP_ACK, 0, 0, iss + 1);
	turn();
	CHECK_EQ(net.accepted, 1);
	app = &net.app[0];
	return answer;
}

static struct tcp_opts
ts_opts(void)
{
	tsval = 1000;
	return (struct tcp_opts){.mss_bytes = MSS, .has_ts = true, .ts_val = tsval};
}

/** RFC 7323 s3.2: after negotiation every segment has the option; s4.3 and RFC 9293 s3.7.1: the
 * MSS. */
static void
test_ts_negotiation(void)
{
	struct weft_tcp_attr off = {
	        .no_timestamps = true, .no_sack = true, .no_window_scale = true};
	struct net_app as = {.to_send = 2 * MSS};
	struct tcp_opts all = ts_opts();
	struct net_seg a;
	uint32_t first;

	irs = IRS;
	all.sack_perm = all.has_wscale = true;
	a = opt_open(NULL, &as, all, TCP_SYN);
	CHECK(a.opts.has_ts && a.opts.sack_perm && a.opts.has_wscale);
	CHECK_EQ(a.opts.ts_ecr, 1000);
	CHECK_EQ(a.opts.mss_bytes, MSS); /* RFC 9293 s3.7.1: not less for options */
	CHECK_EQ(weft_tcp_mss(app->c), MSS - 12);
	CHECK_EQ(net.node[1].segs[0].len_bytes, MSS - 12);
	for (unsigned int i = 0; i < net.node[1].nsegs; i++)
		CHECK(net.node[1].segs[i].opts.has_ts);
	/* Retransmissions carry the current time. */
	first = net.node[1].segs[0].opts.ts_val;
	run_for(1500 * WEFT_NS_PER_MS);
	CHECK(net.node[1].nsegs >= 1);
	CHECK(last().opts.ts_val - first >= 190);
	down();
	/* An option that is switched off is not granted, and an option that the peer did not
	 * offer is not used. */
	a = opt_open(&off, NULL, all, TCP_SYN);
	CHECK(!a.opts.has_ts && !a.opts.sack_perm && !a.opts.has_wscale);
	CHECK_EQ(weft_tcp_mss(app->c), MSS);
	down();
	a = opt_open(NULL, NULL, (struct tcp_opts){.mss_bytes = MSS}, TCP_SYN);
	CHECK(!a.opts.has_ts && !a.opts.sack_perm && !a.opts.has_wscale);
	down();
	/* Our own SYN offers all options, or none. */
	for (unsigned int i = 0; i < 2; i++) {
		up(i == 0 ? NULL : &off);
		app = net_connect(&net, 0, PORT);
		turn();
		CHECK_EQ(last().opts.has_ts, i == 0);
		CHECK_EQ(last().opts.sack_perm, i == 0);
		CHECK_EQ(last().opts.has_wscale, i == 0);
		CHECK_EQ(last().opts.ts_ecr, 0);
		down();
	}
}

/** RFC 7323 s4.3: the three situations of which timestamp to echo. */
static void
test_ts_echo(void)
{
	irs = IRS;
	opt_open(NULL, NULL, ts_opts(), TCP_SYN);

	/* (A) a delayed ACK echoes the earliest segment that it covers. */
	ts_seg(TCP_ACK, 0, 100, iss + 1, 2000, 0);
	ts_seg(TCP_ACK, 100, 100, iss + 1, 2005, 0);
	run_for(2 * WEFT_NS_PER_MS);
	CHECK_EQ(net.node[1].nsegs, 1);
	CHECK_EQ(last().h.ack, irs + 201);
	CHECK_EQ(last().opts.ts_ecr, 2000);
	/* (B) beyond a hole: the one that advanced rcv_nxt last. */
	ts_seg(TCP_ACK, 300, 100, iss + 1, 2010, 0);
	turn();
	CHECK_EQ(last().opts.ts_ecr, 2000);
	/* (C) the segment that fills it. */
	ts_seg(TCP_ACK, 200, 100, iss + 1, 2020, 0);
	turn();
	CHECK_EQ(last().h.ack, irs + 401);
	CHECK_EQ(last().opts.ts_ecr, 2020);
	/* A segment with an unacceptable ACK changes nothing (RFC 5961 s5.2). */
	ts_seg(TCP_ACK, 400, 10, iss + 500, 900000, 0);
	turn();
	CHECK_EQ(last().opts.ts_ecr, 2020);
	CHECK_EQ(app->c->ts_recent, 2020);
	down();
}

/** RFC 7323 s3.2: after negotiation a segment without the option is silently dropped. */
static void
test_ts_missing(void)
{
	irs = IRS;
	opt_open(NULL, NULL, ts_opts(), TCP_SYN);
	plain(TCP_ACK, 0, 100, iss + 1);
	plain(TCP_ACK | TCP_FIN, 0, 0, iss + 1);
	turn();
	CHECK_EQ(net.node[1].nsegs, 0);
	CHECK_EQ(st->ts_missing, 2);
	CHECK_EQ(app->received, 0);
	/* A SYN still gets a challenge ACK: its sender may have restarted (RFC 5961 s4.2). */
	plain(TCP_SYN, 500, 0, 0);
	turn();
	CHECK_EQ(last().h.flags, TCP_ACK);
	CHECK(last().opts.has_ts);
	/* s5.2: a RST needs no timestamp. */
	plain(TCP_RST, 0, 0, 0);
	turn();
	CHECK_EQ(app->err, -ECONNRESET);
	down();
}

/** RFC 7323 s5.3 R1, s5.2 on RST, s5.5 on a connection idle for 24 days. */
static void
test_paws(void)
{
	irs = IRS;
	opt_open(NULL, NULL, ts_opts(), TCP_SYN);
	ts_seg(TCP_ACK, 0, 100, iss + 1, 5000, 0);
	run_for(2 * WEFT_NS_PER_MS);
	ts_seg(TCP_ACK, 100, 100, iss + 1, 4999, 0);
	turn();
	CHECK_EQ(net.node[1].nsegs, 1); /* an ACK is sent, and no data are accepted */
	CHECK_EQ(last().h.ack, irs + 101);
	CHECK_EQ(last().opts.ts_ecr, 5000);
	CHECK_EQ(app->received, 100);
	CHECK_EQ(st->paws_drops, 1);
	ts_seg(TCP_ACK, 100, 100, iss + 1, 5000, 0); /* equal is not older */
	turn();
	CHECK_EQ(app->received, 200);
	/* Half the space ahead is ahead, one more is behind. */
	ts_seg(TCP_ACK, 200, 100, iss + 1, 5000 + 0x80000001u, 0);
	turn();
	CHECK_EQ(app->received, 200);
	CHECK_EQ(st->paws_drops, 2);
	/* 24 days later TS.Recent is invalid. */
	run_for(25ULL * 24 * 3600 * WEFT_NS_PER_S);
	ts_seg(TCP_ACK, 200, 100, iss + 1, 4000, 0);
	turn();
	CHECK_EQ(app->received, 300);
	CHECK_EQ(app->c->ts_recent, 4000);
	/* A RST is exempt. */
	ts_seg(TCP_RST, 300, 0, 0, 1, 0);
	turn();
	CHECK_EQ(app->err, -ECONNRESET);
	down();
}

/**
 * RFC 7323 s5.1: duplicates from one wrap of the sequence number ago. Their sequence numbers equal
 * those of segments that are sent now, and only the timestamp distinguishes them.
 */
static void
test_paws_wrap(void)
{
	const uint32_t len = 1000;

	irs = UINT32_MAX - 20 * len;
	opt_open(NULL, NULL, ts_opts(), TCP_SYN);
	for (uint32_t i = 0; i < 60; i++) {
		/* The sequence numbers have wrapped once: this duplicate is 4 GiB old. */
		ts_seg(TCP_ACK, i * len, len, iss + 1, 10000 + 10 * i, 0);
		if (i % 3 == 0) {
			struct tcp_hdr h = {.src_port = PORT,
			                    .dst_port = 7,
			                    .seq = irs + 1 + (i + 1 + i % 2) * len,
			                    .ack = iss + 1,
			                    .wnd = 65535,
			                    .flags = TCP_ACK};
			struct tcp_opts o = {.has_ts = true, .ts_val = 10 * i};

			/* Its octets belong to another place in the stream than the expected
			 * ones. */
			net_raw(&net, &h, &o, 777777 + i, len);
		}
		turn();
	}
	CHECK_EQ(app->received, 60 * len);
	CHECK(!app->bad_data);
	CHECK_EQ(st->paws_drops, 20);
	CHECK_EQ(st->rx_ooo_segs, 0);
	down();
}

/** The RTO after data were sent nine times and acknowledged with the echo of the first copy. */
static uint32_t
old_echo(bool dsack, uint32_t *age_us)
{
	struct weft_tcp_attr attr = {.rto_min_us = 10000};
	struct net_app as = {.to_send = 4 * MSS};
	struct weft_tcp_info info;
	struct tcp_opts o;
	uint64_t begin_ns;

	irs = IRS;
	opt_open(&attr, &as, ts_opts(), TCP_SYN);
	begin_ns = sim_now_ns(net.sim);
	while (st->rtos < 8)
		run_for(WEFT_NS_PER_MS);
	*age_us = (uint32_t)((sim_now_ns(net.sim) - begin_ns) / 1000);
	o = (struct tcp_opts){.has_ts = true, .ts_val = 1001};
	o.ts_ecr = last().opts.ts_val - *age_us / 1000;
	if (dsack) {
		o.nsack = 1;
		o.sack[0] = (struct tcp_sack){.left = iss + 1, .right = iss + 1 + MSS - 12};
	}
	net_raw(&net,
	        &(struct tcp_hdr){.src_port = PORT,
	                          .dst_port = 7,
	                          .seq = irs + 1,
	                          .ack = iss + 1 + MSS - 12,
	                          .wnd = 65535,
	                          .flags = TCP_ACK},
	        &o, 0, 0);
	run_for(20 * WEFT_NS_PER_US);
	weft_tcp_info(app->c, &info);
	CHECK_EQ(info.unacked_bytes, 3 * MSS + 12);
	down();
	return info.rto_us;
}

/**
 * RFC 7323 s4.1, RFC 2883 s4: all ACKs were lost but the one for the last of many copies. Its echo
 * is seconds old (s4.3 (2)), although the path is fast.
 */
static void
test_rttm_old_echo(void)
{
	uint32_t age_us, rto_us;

	rto_us = old_echo(true, &age_us);
	CHECK(age_us > 2000000);
	CHECK_MSG(rto_us <= 10000, "%u us", rto_us);
	/* Without DSACK of the copies, the RTO grows as much as one timeout would raise it. */
	rto_us = old_echo(false, &age_us);
	CHECK_MSG(rto_us > 10000 && rto_us < 60000, "%u us", rto_us);
}

/** RFC 7323 s4.1: a retransmitted segment gives a sample by its timestamp; s4.2: about one per
 * round trip. */
static void
test_rttm(void)
{
	struct weft_tcp_attr attr = {.rto_min_us = 10000};
	struct net_app as = {.to_send = 4 * MSS};
	struct weft_tcp_info info;
	uint32_t ecr;

	irs = IRS;
	opt_open(&attr, &as, ts_opts(), TCP_SYN);
	weft_tcp_info(app->c, &info);
	CHECK(info.srtt_us < 1000);
	/* Every segment is lost but the retransmission, which is answered before the next. */
	do
		run_for(WEFT_NS_PER_MS);
	while (net.node[1].nsegs == 0 || last().h.seq != iss + 1 || st->rtos == 0);
	ecr = last().opts.ts_val;
	run_for(15 * WEFT_NS_PER_MS);
	CHECK_EQ(st->rtos, 1);
	ts_seg(TCP_ACK, 0, 0, iss + 1 + MSS - 12, 1001, ecr);
	turn();
	weft_tcp_info(app->c, &info);
	/* srtt is 7/8 of almost 0 and 1/8 of 15 ms. */
	CHECK(info.srtt_us > 1600 && info.srtt_us < 2900);
	/* An echo from the future, or from before the connection, gives no sample. */
	ts_seg(TCP_ACK, 0, 0, iss + 1 + 2 * (MSS - 12), 1002, ecr + 100000);
	ts_seg(TCP_ACK, 0, 0, iss + 1 + 3 * (MSS - 12), 1003, ecr - 100000);
	turn();
	weft_tcp_info(app->c, &info);
	CHECK(info.srtt_us > 1600 && info.srtt_us < 2900);
	down();
}

/** The same 2 GiB after the last such sample, where sequence numbers of that age compare the
 * other way. */
static void
test_rttm_late(void)
{
	struct weft_tcp_attr attr = {.rto_min_us = 10000};
	struct net_app as = {.to_send = 4 * MSS};
	struct weft_tcp_info info;
	uint32_t seg = MSS - 12, ecr;

	irs = IRS;
	opt_open(&attr, &as, ts_opts(), TCP_SYN);
	app->c->ts_rtt_seq = iss + 1 + seg / 2 - (1u << 31);
	ts_seg(TCP_ACK, 0, 0, iss + 1 + seg, 1001, last().opts.ts_val);
	do
		run_for(WEFT_NS_PER_MS);
	while (net.node[1].nsegs == 0 || last().h.seq != iss + 1 + seg || st->rtos == 0);
	ecr = last().opts.ts_val;
	run_for(15 * WEFT_NS_PER_MS);
	ts_seg(TCP_ACK, 0, 0, iss + 1 + 2 * seg, 1002, ecr);
	turn();
	weft_tcp_info(app->c, &info);
	CHECK(info.srtt_us > 1600 && info.srtt_us < 2900);
	down();
}

static void
check_block(const struct net_seg *s, unsigned int i, uint32_t left, uint32_t right)
{
	CHECK(i < s->opts.nsack);
	CHECK_EQ(s->opts.sack[i].left, irs + 1 + left);
	CHECK_EQ(s->opts.sack[i].right, irs + 1 + right);
}

/** RFC 2018 s4: the block with the newest octets first, then those reported before. */
static void
test_sack_blocks(void)
{
	struct tcp_opts o = {.mss_bytes = MSS, .sack_perm = true};
	struct net_seg s;

	for (unsigned int ts = 0; ts < 2; ts++) {
		o.has_ts = ts == 1;
		irs = 0xfffff000u; /* across the wrap of the sequence number */
		opt_open(NULL, NULL, o, TCP_SYN);
		for (uint32_t i = 1; i <= 5; i++) {
			if (ts == 1)
				ts_seg(TCP_ACK, 2000 * i, 1000, iss + 1, 0, 0);
			else
				plain(TCP_ACK, 2000 * i, 1000, iss + 1);
			turn();
			s = last();
			CHECK_EQ(s.h.ack, irs + 1);
			CHECK_EQ(s.opts.nsack, RTE_MIN(i, ts == 1 ? 3u : 4u));
			for (uint32_t k = 0; k < s.opts.nsack; k++)
				check_block(&s, k, 2000 * (i - k), 2000 * (i - k) + 1000);
		}
		down();
	}
	o.has_ts = false;
	opt_open(NULL, NULL, o, TCP_SYN);
	for (uint32_t i = 1; i <= 6; i++)
		plain(TCP_ACK, 2000 * i, 1000, iss + 1);
	turn();
	/* Two runs become one. The first of the six had been dropped from the report. */
	plain(TCP_ACK, 3000, 1000, iss + 1);
	turn();
	s = last();
	check_block(&s, 0, 2000, 5000);
	check_block(&s, 1, 12000, 13000);
	plain(TCP_ACK, 11000, 1000, iss + 1);
	turn();
	s = last();
	check_block(&s, 0, 10000, 13000);
	check_block(&s, 1, 2000, 5000);
	check_block(&s, 2, 8000, 9000);
	/* The gap at the front is filled: blocks below rcv_nxt are not reported any more. */
	plain(TCP_ACK, 0, 1000, iss + 1);
	plain(TCP_ACK, 1000, 1000, iss + 1);
	turn();
	s = last();
	CHECK_EQ(s.h.ack, irs + 1 + 5000);
	check_block(&s, 0, 10000, 13000);
	check_block(&s, 1, 8000, 9000);
	CHECK_EQ(s.opts.nsack,
	         /* 6000-7000 was dropped from the report, and is reported again only when it
	          * changes */
	         2);
	for (uint32_t off = 5000; off < 10000; off += 2000)
		plain(TCP_ACK, off, 1000, iss + 1);
	turn();
	CHECK_EQ(last().h.ack, irs + 1 + 13000);
	CHECK_EQ(last().opts.nsack, 0);
	CHECK(st->sack_blocks_out > 10);
	down();
	/* no SACK without the peer's permission */
	o.sack_perm = false;
	opt_open(NULL, NULL, o, TCP_SYN);
	plain(TCP_ACK, 2000, 1000, iss + 1);
	turn();
	CHECK_EQ(last().opts.nsack, 0);
	down();
}

/** RFC 2883 s4: a duplicate is reported first, and once. */
static void
test_dsack(void)
{
	struct tcp_opts o = {.mss_bytes = MSS, .sack_perm = true};
	struct net_seg s;

	irs = IRS;
	opt_open(NULL, NULL, o, TCP_SYN);
	plain(TCP_ACK, 0, 1000, iss + 1);
	run_for(WEFT_NS_PER_MS);
	/* s4.1.1: a duplicate below the cumulative ACK. */
	plain(TCP_ACK, 0, 1000, iss + 1);
	turn();
	s = last();
	CHECK_EQ(s.opts.nsack, 1);
	check_block(&s, 0, 0, 1000);
	/* s4.1.2: a duplicate within the out-of-order data, with the block that contains it. */
	plain(TCP_ACK, 2000, 1000, iss + 1);
	plain(TCP_ACK, 4000, 1000, iss + 1);
	turn();
	CHECK_EQ(last().opts.nsack, 2); /* once */
	plain(TCP_ACK, 2200, 500, iss + 1);
	turn();
	s = last();
	CHECK_EQ(s.opts.nsack, 3);
	check_block(&s, 0, 2200, 2700);
	check_block(&s, 1, 2000, 3000);
	check_block(&s, 2, 4000, 5000);
	/* s4.2.1: a partial duplicate. */
	plain(TCP_ACK, 500, 1000, iss + 1);
	turn();
	s = last();
	CHECK_EQ(s.h.ack, irs + 1 + 1500);
	check_block(&s, 0, 500, 1000);
	plain(TCP_ACK, 2500, 1000, iss + 1);
	turn();
	s = last();
	check_block(&s, 0, 2500, 3000);
	check_block(&s, 1, 2000, 3500);
	CHECK_EQ(st->dsacks_out, 4);
	CHECK_EQ(app->received, 1500);
	down();
}

/** Blocks are added to data only if the segment still fits the path. */
static void
test_sack_on_data(void)
{
	struct tcp_opts o = {.mss_bytes = MSS, .sack_perm = true, .has_ts = true};
	struct net_app as = {.to_send = MSS};

	irs = IRS;
	opt_open(NULL, NULL, o, TCP_SYN);
	ts_seg(TCP_ACK, 2000, 1000, iss + 1, 0, 0);
	ts_seg(TCP_ACK, 4000, 1000, iss + 1, 0, 0);
	turn();
	app->node->sched.now_ns = sim_now_ns(net.sim);
	app->to_send = as.to_send;
	net_app_push(app);
	turn();
	CHECK_EQ(net.node[1].nsegs, 2);
	CHECK_EQ(net.node[1].segs[0].len_bytes, MSS - 12);
	CHECK_EQ(net.node[1].segs[0].opts.nsack, 0);
	CHECK_EQ(net.node[1].segs[1].len_bytes, 12);
	CHECK_EQ(net.node[1].segs[1].opts.nsack, 2);
	CHECK_EQ(net.node[1].segs[1].h.seq, iss + 1 + MSS - 12);
	down();
}

/** RFC 3168 s6.1.1: a peer that requests ECN, one that answers, and one that does neither. */
static void
test_ecn_negotiation(void)
{
	static const enum weft_tcp_ecn mode[] = {WEFT_TCP_ECN_DEFAULT, WEFT_TCP_ECN_OFF,
	                                         WEFT_TCP_ECN_PASSIVE, WEFT_TCP_ECN_ON};
	const uint8_t ask = TCP_ECE | TCP_CWR;
	struct tcp_opts o = {.mss_bytes = MSS};

	irs = IRS;
	for (unsigned int i = 0; i < RTE_DIM(mode); i++) {
		struct weft_tcp_attr attr = {.ecn = mode[i]};
		bool on = mode[i] == WEFT_TCP_ECN_ON;
		struct tcp_hdr h = {.src_port = PORT, .seq = irs, .wnd = 65535};
		struct weft_tcp_info info;

		CHECK_EQ(opt_open(&attr, NULL, o, TCP_SYN | ask).h.flags,
		         TCP_SYN | TCP_ACK | (mode[i] == WEFT_TCP_ECN_OFF ? 0 : TCP_ECE));
		down();
		/* One of the two bits alone is not a request. */
		CHECK_EQ(opt_open(&attr, NULL, o, TCP_SYN | TCP_ECE).h.flags, TCP_SYN | TCP_ACK);
		down();
		CHECK_EQ(opt_open(&attr, NULL, o, TCP_SYN).h.flags, TCP_SYN | TCP_ACK);
		down();
		for (unsigned int k = 0; k < 3; k++) {
			static const uint8_t answer[] = {0, TCP_ECE, TCP_ECE | TCP_CWR};

			up(&attr);
			app = net_connect(&net, 0, PORT);
			turn();
			CHECK_EQ(last().h.flags, TCP_SYN | (on ? ask : 0));
			CHECK_EQ(last().ecn, WEFT_ECN_NOT_ECT);
			h.dst_port = last().h.src_port;
			h.flags = TCP_SYN | TCP_ACK | answer[k];
			h.ack = last().h.seq + 1;
			net_raw(&net, &h, &o, 0, 0);
			turn();
			CHECK(app->established);
			weft_tcp_info(app->c, &info);
			CHECK_EQ(info.ecn, on && k == 1);
			down();
		}
	}
	/* s6.1.1.1: a SYN without an answer is repeated without the request. */
	{
		struct weft_tcp_attr attr = {.ecn = WEFT_TCP_ECN_ON};

		up(&attr);
		app = net_connect(&net, 0, PORT);
		turn();
		CHECK_EQ(last().h.flags, TCP_SYN | ask);
		run_for(1100 * WEFT_NS_PER_MS);
		CHECK_EQ(last().h.flags, TCP_SYN);
		down();
	}
}

/** RFC 3168 s6.1.2, s6.1.5: ECT on new octets only; a reduction once per window, then CWR. */
static void
test_ecn_sender(void)
{
	struct net_app as = {.to_send = 20 * MSS};
	struct tcp_opts o = {.mss_bytes = MSS};
	struct weft_tcp_info info;
	uint32_t una, cwnd, cwrs = 0;

	irs = IRS;
	opt_open(NULL, &as, o, TCP_SYN | TCP_ECE | TCP_CWR);
	CHECK_EQ(net.node[1].nsegs, 10);
	for (unsigned int i = 0; i < 10; i++) {
		CHECK_EQ(net.node[1].segs[i].ecn, WEFT_ECN_ECT0);
		CHECK_EQ(net.node[1].segs[i].h.flags & (TCP_ECE | TCP_CWR), 0);
	}
	una = iss + 1 + 4 * MSS;
	plain(TCP_ACK | TCP_ECE, 0, 0, una);
	turn();
	CHECK_EQ(st->ecn_reductions, 1);
	weft_tcp_info(app->c, &info);
	cwnd = info.cwnd_bytes;
	CHECK(cwnd < 10 * MSS);
	/* Further ECEs of the same window cause no further reduction. */
	for (unsigned int i = 5; i <= 10; i++) {
		plain(TCP_ACK | TCP_ECE, 0, 0, iss + 1 + i * MSS);
		run_for(20 * WEFT_NS_PER_US);
		for (unsigned int k = 0; k < net.node[1].nsegs; k++) {
			CHECK_EQ(net.node[1].segs[k].ecn, WEFT_ECN_ECT0);
			cwrs += (net.node[1].segs[k].h.flags & TCP_CWR) != 0;
			if (cwrs == 1 && net.node[1].segs[k].h.flags & TCP_CWR)
				CHECK_EQ(net.node[1].segs[k].h.seq, iss + 1 + 10 * MSS);
		}
	}
	CHECK_EQ(st->ecn_reductions, 1);
	CHECK_EQ(st->ecn_ece_in, 7);
	CHECK_EQ(cwrs, 1);
	/* Retransmissions and segments without data are not ECT. */
	run_for(1500 * WEFT_NS_PER_MS);
	CHECK(net.node[1].nsegs > 0 && st->rtos > 0);
	for (unsigned int k = 0; k < net.node[1].nsegs; k++) {
		CHECK_EQ(net.node[1].segs[k].ecn, WEFT_ECN_NOT_ECT);
		CHECK_EQ(net.node[1].segs[k].h.flags & TCP_CWR, 0);
	}
	down();
}

/** RFC 3168 s6.1.3: ECE on every ACK from CE until CWR. */
static void
test_ecn_receiver(void)
{
	struct tcp_opts o = {.mss_bytes = MSS};

	irs = IRS;
	opt_open(NULL, NULL, o, TCP_SYN | TCP_ECE | TCP_CWR);
	net.node[1].raw_ecn = WEFT_ECN_ECT0;
	plain(TCP_ACK, 0, 1000, iss + 1);
	run_for(WEFT_NS_PER_MS);
	CHECK_EQ(last().h.flags, TCP_ACK);
	CHECK_EQ(last().ecn, WEFT_ECN_NOT_ECT);
	net.node[1].raw_ecn = WEFT_ECN_CE;
	plain(TCP_ACK, 1000, 1000, iss + 1);
	run_for(WEFT_NS_PER_MS);
	CHECK_EQ(last().h.flags, TCP_ACK | TCP_ECE);
	net.node[1].raw_ecn = WEFT_ECN_ECT0;
	plain(TCP_ACK, 2000, 1000, iss + 1);
	run_for(WEFT_NS_PER_MS);
	CHECK_EQ(last().h.flags, TCP_ACK | TCP_ECE);
	plain(TCP_ACK | TCP_CWR, 3000, 1000, iss + 1);
	run_for(WEFT_NS_PER_MS);
	CHECK_EQ(last().h.flags, TCP_ACK);
	/* CWR on a packet that is itself marked CE: ECE is set again. */
	net.node[1].raw_ecn = WEFT_ECN_CE;
	plain(TCP_ACK | TCP_CWR, 4000, 1000, iss + 1);
	run_for(WEFT_NS_PER_MS);
	CHECK_EQ(last().h.flags, TCP_ACK | TCP_ECE);
	CHECK_EQ(st->ecn_ce_in, 2);
	down();
	/* Without negotiation CE has no effect. */
	opt_open(NULL, NULL, o, TCP_SYN);
	net.node[1].raw_ecn = WEFT_ECN_CE;
	plain(TCP_ACK, 0, 1000, iss + 1);
	run_for(WEFT_NS_PER_MS);
	CHECK_EQ(last().h.flags, TCP_ACK);
	down();
}

WEFT_TEST_MAIN({"ts_negotiation", test_ts_negotiation}, {"ts_echo", test_ts_echo},
               {"ts_missing", test_ts_missing}, {"paws", test_paws}, {"paws_wrap", test_paws_wrap},
               {"rttm", test_rttm}, {"rttm_late", test_rttm_late},
               {"rttm_old_echo", test_rttm_old_echo}, {"sack_blocks", test_sack_blocks},
               {"dsack", test_dsack}, {"sack_on_data", test_sack_on_data},
               {"ecn_negotiation", test_ecn_negotiation}, {"ecn_sender", test_ecn_sender},
               {"ecn_receiver", test_ecn_receiver})
