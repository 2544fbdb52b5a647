/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * One sender against hand-made selective acknowledgments: the scoreboard (RFC 2018, RFC 2883),
 * RACK-TLP (RFC 8985), PRR (RFC 6937), undo, ECE, and the choice of the algorithm.
 */

#include <stdlib.h>

#include "tcp_peer.h"
#include "tcp_priv.h"

#define RTT_NS (10 * WEFT_NS_PER_MS)

static uint32_t first; /**< of the stack's octets */
static const struct weft_tcp_stats *st;
static struct weft_tcp_conn *c;

/** A connection with SACK, without timestamps, whose round trip is 10 ms. */
static void
open_sack(const struct weft_tcp_attr *attr, unsigned int segs)
{
	struct tcp_opts o = {.mss_bytes = MSS, .sack_perm = true, .has_wscale = true, .wscale = 7};

	up(attr);
	net.accept_as = (struct net_app){.to_send = (uint64_t)segs * MSS};
	syn(IRS, &o);
	iss = last().h.seq;
	CHECK(last().opts.sack_perm);
	run_for(RTT_NS - 20 * WEFT_NS_PER_US);
	seg_wait(TCP_ACK, IRS + 1, iss + 1, 65535, 0, 0);
	app = &net.app[0];
	c = app->c;
	first = iss + 1;
	st = weft_tcp_stats(net.node[0].tcp);
	CHECK(c->sack_ok);
}

/** An ACK of the first `upto` segments with blocks, in halves of segments: from, to, ..., -1. */
static void
sack2(unsigned int upto, const int *b)
{
	struct tcp_hdr h = {.src_port = PORT,
	                    .dst_port = 7,
	                    .seq = IRS + 1,
	                    .ack = first + upto * MSS,
	                    .wnd = 65535,
	                    .flags = TCP_ACK};
	struct tcp_opts o = {0};

	for (; *b >= 0; b += 2) {
		o.sack[o.nsack].left = first + (uint32_t)b[0] * (MSS / 2);
		o.sack[o.nsack++].right = first + (uint32_t)b[1] * (MSS / 2);
	}
	net_raw(&net, &h, &o, 0, 0);
	run_for(20 * WEFT_NS_PER_US);
}

/** The same in whole segments with one block; from == to: none. */
static void
sack(unsigned int upto, int from, int to)
{
	sack2(upto, from == to ? (const int[]){-1} : (const int[]){2 * from, 2 * to, -1});
}

/** The number, in segments, of what was sent as the i-th since. */
static unsigned int
sent(unsigned int i)
{
	CHECK_MSG(i < net.node[1].nsegs, "only %u segments", net.node[1].nsegs);
	return (net.node[1].segs[i].h.seq - first) / MSS;
}

static uint32_t
brute_sacked(void)
{
	uint32_t n = 0;

	for (struct rte_mbuf *m = c->sq_head; m != NULL; m = tcp_seg(m)->next)
		if (tcp_seg(m)->flags & TCP_SEG_SACKED)
			n += tcp_seg(m)->len_bytes;
	return n;
}

/** RFC 2018 s5: what marks, and what does not. */
static void
test_blocks(void)
{
	open_sack(NULL, 10);
	CHECK_EQ(net.node[1].nsegs, 10);
	/* Halves: only whole segments are marked. */
	sack2(0, (const int[]){3, 5, -1});
	CHECK_EQ(c->sacked_segs, 0);
	sack2(0, (const int[]){3, 7, -1});
	CHECK_EQ(c->sacked_segs, 1);
	CHECK_EQ(c->sacked_bytes, MSS);
	/* Inverted, empty, beyond what was sent, across the cumulative ACK. */
	sack2(0, (const int[]){8, 6, -1});
	sack2(0, (const int[]){8, 8, -1});
	sack2(0, (const int[]){8, 22, -1});
	CHECK_EQ(st->sack_blocks_bad, 3);
	sack2(1, (const int[]){6, 8, 1, 4, -1});
	CHECK_EQ(st->sack_blocks_bad, 4);
	CHECK_EQ(c->sacked_segs, 2);
	CHECK_EQ(st->dsacks_in, 0);
	CHECK_EQ(c->sacked_bytes, brute_sacked());
	/* An ACK that ends within a marked segment: what is left of it stays marked. */
	seg_wait(TCP_ACK, IRS + 1, first + 3 * MSS + 500, 65535, 0, 0);
	CHECK_EQ(c->sacked_segs, 1);
	CHECK_EQ(c->sacked_bytes, MSS - 500);
	CHECK_EQ(c->sacked_bytes, brute_sacked());
	down();
}

/** A block far from all others is found, but not by one ACK that walks through the whole queue. */
static void
test_far_block(void)
{
	/* Few connections: nearly all buffers are there to be lent. */
	struct weft_tcp_attr attr = {
	        .initial_cwnd_segs = 2000, .data_retries = 200, .max_conns = 4};
	unsigned int acks = 0;

	open_sack(&attr, 2000);
	run_for(RTT_NS);
	CHECK_EQ(c->snd_nxt, first + 2000 * MSS);
	while (c->sacked_segs == 0 && acks < 10) {
		sack(0, 1500, 1501);
		acks++;
	}
	CHECK_EQ(acks, 3);
	CHECK_EQ(c->sacked_segs, 1);
	CHECK_EQ(st->sack_searches_cut, 2);
	/* From the highest mark on it is no search. */
	sack(0, 1500, 1502);
	sack(0, 1990, 1995);
	CHECK_EQ(c->sacked_segs, 7);
	/* Where the search stands is forgotten with its segment. */
	sack(0, 700, 701);
	CHECK_EQ(st->sack_searches_cut, 3);
	sack(1000, 1000, 1000);
	sack(1000, 1200, 1201);
	CHECK_EQ(c->sacked_segs, 8);
	CHECK_EQ(c->sacked_bytes, brute_sacked());
	/* Nor does a run of marks that no hint knows hold it up for ever. */
	for (int i = 1202; i < 1978; i += 2)
		sack(1000, i, i + 1);
	for (int i = 1203; i < 1978; i += 2)
		sack(1000, i, i + 1);
	sack(1000, 1100, 1101);
	for (unsigned int i = 0; i < 6; i++)
		sack(1000, 1100, 1979);
	CHECK_EQ(c->sacked_segs, 1979 - 1100 + 5);
	CHECK_EQ(c->sacked_bytes, brute_sacked());
	down();
}

/** Any blocks in any order: the hints find what a search of the whole queue would. */
static void
test_hints(void)
{
	struct weft_tcp_attr attr = {.initial_cwnd_segs = 200, .data_retries = 200};

	for (uint64_t s = test_seed(1), n = test_seed_given() ? s + 1 : s + 40; s < n; s++) {
		bool have[200] = {false};
		unsigned int una = 0;

		open_sack(&attr, 200);
		CHECK_EQ(net.node[1].nsegs, 200);
		srand((unsigned int)s);
		for (unsigned int turn = 0; turn < 150 && una < 200; turn++) {
			int b[9], k = 0;
			uint32_t want = 0;

			if (rand() % 10 == 0) {
				have[una] = true;
				while (una < 200 && have[una])
					una++;
			}
			for (int i = rand() % 3; i >= 0 && una < 200; i--) {
				unsigned int l = una + (unsigned int)rand() % (200 - una);
				unsigned int r = l + 1 + (unsigned int)rand() % 12;

				r = RTE_MIN(r, 200u);
				/* As a receiver does: the whole run around what came. */
				while (l > una && have[l - 1])
					l--;
				while (r < 200 && have[r])
					r++;
				if (l == una)
					continue;
				for (unsigned int x = l; x < r; x++)
					have[x] = true;
				b[k++] = 2 * (int)l;
				b[k++] = 2 * (int)r;
			}
			b[k] = -1;
			sack2(una, b);
			for (unsigned int x = una; x < 200; x++)
				want += have[x] ? MSS : 0;
			CHECK_MSG(c->sacked_bytes == want, "seed %u turn %u: %u, not %u",
			          (unsigned int)s, turn, c->sacked_bytes, want);
			CHECK_EQ(brute_sacked(), want);
		}
		CHECK_EQ(st->sack_blocks_bad, 0);
		down();
	}
}

/** RFC 6675 s5 (1), (3): the third makes a loss; the first two let new data out (RFC 3042). */
static void
test_dupthresh(void)
{
	open_sack(NULL, 40);
	CHECK_EQ(net.node[1].nsegs, 10);
	run_for(RTT_NS);
	sack(0, 1, 2);
	CHECK_EQ(net.node[1].nsegs, 1);
	CHECK_EQ(sent(0), 10);
	sack(0, 1, 3);
	CHECK_EQ(net.node[1].nsegs, 1);
	CHECK_EQ(sent(0), 11);
	CHECK(!c->in_recovery);
	sack(0, 1, 4);
	CHECK(c->in_recovery);
	CHECK_EQ(sent(0), 0);
	CHECK_EQ(st->recoveries, 1);
	CHECK_EQ(st->rack_marked_lost, 1);
	/* RFC 6675 s5 (A): it ends with the ACK of all that was out, at ssthresh. */
	run_for(RTT_NS);
	sack(12, 12, 12);
	CHECK(!c->in_recovery);
	CHECK_EQ(c->cwnd, c->ssthresh);
	CHECK_EQ(st->retrans_segs, 1);
	CHECK_EQ(st->rtos, 0);
	down();
}

/** RFC 8985 s6.2 step 5: one SACK is enough, once the reordering window is over. */
static void
test_reo_timer(void)
{
	uint64_t reo_ns = RTT_NS / 4, sent_ns, due_ns;

	open_sack(NULL, 10);
	sent_ns = net.node[1].segs[0].at_ns;
	run_for(RTT_NS);
	sack(0, 9, 10);
	due_ns = sent_ns + RTT_NS + reo_ns;
	CHECK_EQ(net.node[1].nsegs, 0);
	CHECK(c->reo_at_ns != WEFT_NEVER && !c->in_recovery);
	run_for(due_ns - sim_now_ns(net.sim) - 100 * WEFT_NS_PER_US);
	CHECK_EQ(net.node[1].nsegs, 0);
	run_for(200 * WEFT_NS_PER_US);
	CHECK(c->in_recovery);
	CHECK(net.node[1].nsegs >= 1);
	CHECK_EQ(sent(0), 0);
	CHECK_EQ(c->lost_bytes + net.node[1].nsegs * MSS, 9 * MSS);
	CHECK_EQ(st->rtos, 0);
	CHECK_EQ(st->tlp_probes, 0);
	down();
}

/** RFC 8985 s6.2 steps 3, 4: who has seen reordering waits, however many SACKs come. */
static void
test_reordering(void)
{
	open_sack(NULL, 40);
	run_for(RTT_NS);
	sack(0, 1, 2);
	sack(2, 2, 2); /* segment 0 came late, and was sent once */
	CHECK(c->reordering_seen);
	CHECK_EQ(st->recoveries, 0);
	for (int k = 4; k <= 9; k++)
		sack(2, 3, k);
	CHECK(!c->in_recovery);
	CHECK_EQ(st->retrans_segs, 0);
	sack(9, 9, 9);
	CHECK_EQ(st->retrans_segs, 0);
	CHECK_EQ(st->recoveries, 0);
	/* But it waits no longer than that. */
	run_for(RTT_NS);
	net.node[1].nsegs = 0;
	sack(9, 10, 14);
	run_for(RTT_NS / 2);
	CHECK(c->in_recovery);
	CHECK(tcp_seg(c->sq_head)->xmits == 2);
	CHECK_EQ(st->rtos, 0);
	down();
}

/** RFC 8985 s3.4: a retransmission lost, too, is found by what was sent after it; three times. */
static void
test_lost_again(void)
{
	unsigned int next = 13;

	open_sack(NULL, 400);
	run_for(RTT_NS);
	sack(0, 1, 2);
	sack(0, 1, 3);
	sack(0, 1, 4);
	CHECK_EQ(sent(0), 0);
	for (unsigned int k = 5; k <= 10; k++)
		sack(0, 1, (int)k);
	for (unsigned int times = 1; times <= 3; times++) {
		bool again = false;

		/* What followed the retransmission arrives; it does not. */
		run_for(RTT_NS);
		while (!again && next < 100) {
			sack(0, 1, (int)RTE_MIN(next, (c->snd_nxt - first) / MSS));
			next++;
			for (unsigned int i = 0; i < net.node[1].nsegs; i++)
				again |= sent(i) == 0;
		}
		CHECK_MSG(again, "time %u", times);
	}
	CHECK_EQ(st->rtos, 0);
	CHECK_EQ(st->recoveries, 1);
	CHECK_EQ(st->retrans_segs, 4);
	down();
}

/** RFC 6937 s3.1, first figure: 20 out, one lost; data out follows data delivered to ssthresh. */
static void
test_prr(void)
{
	struct weft_tcp_attr attr = {.initial_cwnd_segs = 20, .cc = WEFT_TCP_CC_NEWRENO};
	uint32_t out = 0, delivered = 0;

	open_sack(&attr, 100);
	CHECK_EQ(net.node[1].nsegs, 20);
	run_for(RTT_NS);
	sack(0, 1, 2);
	sack(0, 1, 3);
	for (int k = 4; k <= 20; k++) {
		sack(0, 1, k);
		if (k == 4) {
			CHECK(c->in_recovery);
			CHECK_EQ(c->ssthresh, 10 * MSS);
			CHECK_EQ(c->prr_flight, 22 * MSS);
			CHECK_EQ(sent(0), 0);
		}
		delivered += MSS;
		out += net.node[1].nsegs * MSS;
		CHECK_EQ(c->prr_out, out);
		CHECK_EQ(c->prr_delivered, delivered);
		/* Never more than the proportion says; at ssthresh one goes for one that came. */
		CHECK(out <= (delivered * 10 + 21) / 22 + MSS - 1);
		CHECK(out + MSS > delivered * 10 / 22 || tcp_pipe(c) >= 10 * MSS);
	}
	/* 22 out, 19 delivered, 1 lost; ends around ssthresh without a silence or a burst. */
	CHECK(tcp_pipe(c) >= 9 * MSS && tcp_pipe(c) <= 11 * MSS);
	down();
}

/** RFC 6937 s3.1, second figure: 15 of 20 lost; two for each ACK (PRR-SSRB). */
static void
test_prr_ssrb(void)
{
	struct weft_tcp_attr attr = {.initial_cwnd_segs = 20, .cc = WEFT_TCP_CC_NEWRENO};

	open_sack(&attr, 100);
	run_for(RTT_NS);
	sack(0, 15, 16);
	CHECK_EQ(net.node[1].nsegs, 1);
	sack(0, 15, 17);
	CHECK_EQ(net.node[1].nsegs, 1);
	for (int k = 18; k <= 20; k++) {
		sack(0, 15, k);
		CHECK_EQ(net.node[1].nsegs, 2);
		CHECK_EQ(sent(0), 2 * (unsigned int)(k - 18));
		CHECK_EQ(sent(1), 2 * (unsigned int)(k - 18) + 1);
	}
	CHECK_EQ(st->rack_marked_lost, 15);
	CHECK_EQ(tcp_pipe(c), 8 * MSS);
	down();
}

/** RFC 3708 and RFC 9438 s4.9.2: D-SACKs for all that was sent again give the window back. */
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
	/* RFC 8985 s6.2 step 4: once a round trip, whatever comes. */
	sack2(all, (const int[]){0, 2, -1});
	CHECK_EQ(c->reo_mult, 2);
	CHECK_EQ(st->undos, 1);
	down();
}

/** A needed retransmission is not undone: nobody says it came twice. */
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
	/* A D-SACK below what the reduction was about is of something else (RFC 3708 s3.2). */
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

/** RFC 2018 s8: after a timeout the marks are gone; a receiver that reneged gets everything. */
static void
test_renege(void)
{
	unsigned int seen = 0;
	bool got[10] = {false};

	open_sack(NULL, 10);
	run_for(RTT_NS);
	sack(0, 1, 10);
	CHECK_EQ(c->sacked_segs, 9);
	run_for(RTT_NS);
	run_for(2 * WEFT_NS_PER_S);
	CHECK(st->rtos > 0);
	CHECK_EQ(c->sacked_segs, 0);
	CHECK_EQ(sent(0), 0);
	/* It acknowledges the head and has dropped the rest. */
	for (unsigned int una = 1; una <= 10; una++) {
		for (unsigned int i = 0; i < net.node[1].nsegs; i++)
			got[sent(i)] = true;
		sack(una, 0, 0);
	}
	for (unsigned int i = 0; i < 10; i++)
		seen += got[i];
	CHECK_EQ(seen, 10);
	CHECK_EQ(c->snd_una, first + 10 * MSS);
	CHECK(!c->after_rto);
	down();
}

/** RFC 8985 s7.3: the last segment again after 2 SRTT, once; then the timeout. */
static void
test_tlp(void)
{
	open_sack(NULL, 5);
	run_for(RTT_NS * 2 - 500 * WEFT_NS_PER_US);
	CHECK_EQ(net.node[1].nsegs, 0);
	run_for(WEFT_NS_PER_MS);
	CHECK_EQ(net.node[1].nsegs, 1);
	CHECK_EQ(sent(0), 4);
	CHECK_EQ(st->tlp_probes, 1);
	CHECK_EQ(st->rtos, 0);
	run_for(150 * WEFT_NS_PER_MS);
	CHECK_EQ(net.node[1].nsegs, 0);
	/* s7.4.1: its SACK tells that the four before it are lost. */
	sack(0, 4, 5);
	CHECK(c->in_recovery);
	CHECK_EQ(sent(0), 0);
	CHECK_EQ(st->rtos, 0);
	down();
	/* Nobody answers. */
	open_sack(NULL, 5);
	run_for(300 * WEFT_NS_PER_MS);
	CHECK_EQ(st->tlp_probes, 1);
	CHECK_EQ(st->rtos, 1);
	CHECK_EQ(sent(1), 0);
	down();
}

/** RFC 8985 s7.3: what was never sent goes first, whatever cwnd says. */
static void
test_tlp_new(void)
{
	open_sack(NULL, 30);
	CHECK_EQ(net.node[1].nsegs, 10);
	run_for(RTT_NS * 2 + 500 * WEFT_NS_PER_US);
	CHECK_EQ(net.node[1].nsegs, 1);
	CHECK_EQ(sent(0), 10);
	CHECK_EQ(st->retrans_segs, 0);
	/* s7.4.2: its acknowledgment is no loss. */
	sack(11, 11, 11);
	CHECK_EQ(st->tlp_recovered, 0);
	CHECK(!c->tlp_active);
	CHECK_EQ(st->recoveries, 0);
	down();
}

/** RFC 8985 s7.4.2: a loss that the probe itself repaired still counts as one. */
static void
test_tlp_repaired(void)
{
	for (unsigned int how = 0; how < 3; how++) {
		uint32_t cwnd;

		open_sack(NULL, 5);
		run_for(RTT_NS * 2 + 500 * WEFT_NS_PER_US);
		CHECK_EQ(sent(0), 4);
		cwnd = c->cwnd;
		run_for(RTT_NS);
		sack(5, 5, 5);
		CHECK(c->tlp_active);
		if (how == 1) /* case 1: D-SACK */
			sack2(5, (const int[]){8, 10, -1});
		app->to_send += 2 * MSS;
		net_app_push(app);
		run_for(RTT_NS);
		if (how == 2) /* case 2: a duplicate without blocks */
			sack(5, 5, 5);
		sack(7, 7, 7);
		CHECK(!c->tlp_active);
		CHECK_EQ(st->tlp_recovered, how == 0);
		CHECK(how == 0 ? c->cwnd < cwnd : c->cwnd >= cwnd);
		CHECK_EQ(st->recoveries, 0);
		down();
	}
}

/** RFC 3168 s6.1.2: once per window, and CWR with the next data. */
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
	/* The next window. */
	sack((c->snd_max - first) / MSS, 0, 0);
	cwnd = c->cwnd;
	sack((c->snd_una - first) / MSS + 1, 0, 0);
	tcp_cc_ece(c, sim_now_ns(net.sim));
	CHECK_EQ(st->ecn_reductions, 2);
	CHECK(c->cwnd < cwnd);
	/* s6.1.2: down to one segment. */
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

/** Chosen for the machine, for a listener, for a connection. */
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
	weft_tcp_listener_set_cc(net.listener, WEFT_TCP_CC_CUBIC);
	syn(IRS, NULL);
	seg_wait(TCP_ACK, IRS + 1, last().h.seq + 1, 65535, 0, 0);
	app = &net.app[0];
	weft_tcp_info(app->c, &info);
	CHECK_STR(info.cc_name, "cubic");
	down();
}

WEFT_TEST_MAIN({"blocks", test_blocks}, {"far_block", test_far_block}, {"hints", test_hints},
               {"dupthresh", test_dupthresh}, {"reo_timer", test_reo_timer},
               {"reordering", test_reordering}, {"lost_again", test_lost_again}, {"prr", test_prr},
               {"prr_ssrb", test_prr_ssrb}, {"undo", test_undo}, {"no_undo", test_no_undo},
               {"renege", test_renege}, {"tlp", test_tlp}, {"tlp_new", test_tlp_new},
               {"tlp_repaired", test_tlp_repaired}, {"ece", test_ece}, {"choice", test_choice})
