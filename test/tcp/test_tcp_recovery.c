/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file One sender against selective acknowledgments that the test encodes: the scoreboard (RFC
 * 2018, RFC 2883), RACK-TLP (RFC 8985), PRR (RFC 6937).
 */

#include <stdlib.h>

#include "tcp_loss.h"
#include "tcp_snd.h"
#include "sack_peer.h"

static uint32_t
brute_sacked(void)
{
	uint32_t n = 0;

	for (struct rte_mbuf *m = c->sq_head; m != NULL; m = tcp_seg(m)->next)
		if (tcp_seg(m)->flags & TCP_SEG_SACKED)
			n += tcp_seg(m)->len_bytes;
	return n;
}

/** RFC 2018 s5: blocks that mark segments, and blocks that do not. */
static void
test_blocks(void)
{
	open_sack(NULL, 10);
	CHECK_EQ(net.node[1].nsegs, 10);
	/* Parts of segments: only whole segments are marked. */
	sack2(0, (const int[]){3, 5, -1});
	CHECK_EQ(c->sacked_segs, 0);
	sack2(0, (const int[]){3, 7, -1});
	CHECK_EQ(c->sacked_segs, 1);
	CHECK_EQ(c->sacked_bytes, MSS);
	/* Inverted, empty, beyond the octets sent, and across the cumulative ACK. */
	sack2(0, (const int[]){8, 6, -1});
	sack2(0, (const int[]){8, 8, -1});
	sack2(0, (const int[]){8, 22, -1});
	CHECK_EQ(st->sack_blocks_bad, 3);
	sack2(1, (const int[]){6, 8, 1, 4, -1});
	CHECK_EQ(st->sack_blocks_bad, 4);
	CHECK_EQ(c->sacked_segs, 2);
	CHECK_EQ(st->dsacks_in, 0);
	CHECK_EQ(c->sacked_bytes, brute_sacked());
	/* An ACK that ends within a marked segment: its rest stays marked. */
	seg_wait(TCP_ACK, IRS + 1, first + 3 * MSS + 500, 65535, 0, 0);
	CHECK_EQ(c->sacked_segs, 1);
	CHECK_EQ(c->sacked_bytes, MSS - 500);
	CHECK_EQ(c->sacked_bytes, brute_sacked());
	down();
}

/** A block far from all others is found, but not by a walk through the whole queue at one ACK. */
static void
test_far_block(void)
{
	/* Few connections: nearly all buffers can be borrowed. */
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
	/* From the highest marked segment on, no search is needed. */
	sack(0, 1500, 1502);
	sack(0, 1990, 1995);
	CHECK_EQ(c->sacked_segs, 7);
	/* The position of the search is dropped with its segment. */
	sack(0, 700, 701);
	CHECK_EQ(st->sack_searches_cut, 3);
	sack(1000, 1000, 1000);
	sack(1000, 1200, 1201);
	CHECK_EQ(c->sacked_segs, 8);
	CHECK_EQ(c->sacked_bytes, brute_sacked());
	/* Nor does a long run of marks without a hint stop the search. */
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

/** After a low block, a block above all others does not start a search from the low one. */
static void
test_low_block(void)
{
	struct weft_tcp_attr attr = {
	        .initial_cwnd_segs = 2000, .data_retries = 200, .max_conns = 4};

	open_sack(&attr, 2000);
	run_for(RTT_NS);
	for (int at = 500; at < 2000; at += 400) {
		sack(0, at, at + 1);
		sack(0, at % 9 + 2, at % 9 + 3);
	}
	CHECK_EQ(st->sack_searches_cut, 0);
	CHECK_EQ(c->sacked_bytes, brute_sacked());
	down();
}

/** Any blocks in any order: the hints find what a search of the whole queue finds. */
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
				/* As a receiver does: report the whole run around the new
				 * segment. */
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

/** RFC 6675 s5 (1), (3): the third duplicate ACK declares a loss. The first two permit new data
 * (RFC 3042). */
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
	/* RFC 6675 s5 (A): recovery ends with the ACK of all octets sent before it, at ssthresh. */
	run_for(RTT_NS);
	sack(12, 12, 12);
	CHECK(!c->in_recovery);
	CHECK_EQ(c->cwnd, c->ssthresh);
	CHECK_EQ(st->retrans_segs, 1);
	CHECK_EQ(st->rtos, 0);
	down();
}

/** RFC 8985 s6.2 step 5: one SACK is enough after the reordering window has ended. */
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

/** RFC 8985 s6.2 steps 3, 4: a sender that has seen reordering waits, whatever the number of
 * SACKs. */
static void
test_reordering(void)
{
	open_sack(NULL, 40);
	run_for(RTT_NS);
	sack(0, 1, 2);
	sack(2, 2, 2); /* segment 0 arrived late, and was sent once */
	CHECK(c->reordering_seen);
	CHECK_EQ(st->recoveries, 0);
	for (int k = 4; k <= 9; k++)
		sack(2, 3, k);
	CHECK(!c->in_recovery);
	CHECK_EQ(st->retrans_segs, 0);
	sack(9, 9, 9);
	CHECK_EQ(st->retrans_segs, 0);
	CHECK_EQ(st->recoveries, 0);
	/* But it does not wait longer than that. */
	run_for(RTT_NS);
	net.node[1].nsegs = 0;
	sack(9, 10, 14);
	run_for(RTT_NS / 2);
	CHECK(c->in_recovery);
	CHECK(tcp_seg(c->sq_head)->xmits == 2);
	CHECK_EQ(st->rtos, 0);
	down();
}

/** RFC 8985 s3.4: a lost retransmission is detected by segments sent after it; three times. */
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

		/* Segments sent after the retransmission arrive, and the retransmission does
		 * not. */
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

/** RFC 6937 s3.1, first figure: 20 in flight, one lost. The data sent follow the data delivered
 * until ssthresh. */
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
		/* Never more than the proportion. At ssthresh, one segment is sent for each
		 * delivered one. */
		CHECK(out <= (delivered * 10 + 21) / 22 + MSS - 1);
		CHECK(out + MSS > delivered * 10 / 22 || tcp_pipe(c) >= 10 * MSS);
	}
	/* 22 sent, 19 delivered, 1 lost. Recovery ends near ssthresh, without a pause or a
	 * burst. */
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

/** RFC 2018 s8: after a timeout the marks are cleared. A receiver that reneged gets everything
 * again. */
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
	/* The receiver acknowledges the first segment and has dropped the others. */
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

/** A receiver that kept its data reports them again. Its blocks after the timeout count like the
 * first ones. */
static void
test_said_again(void)
{
	open_sack(NULL, 10);
	run_for(RTT_NS);
	sack(0, 1, 10);
	CHECK_EQ(c->sacked_segs, 9);
	run_for(2 * WEFT_NS_PER_S);
	CHECK(st->rtos > 0);
	CHECK_EQ(c->sacked_segs, 0);
	sack(0, 1, 10);
	CHECK_EQ(c->sacked_segs, 9);
	CHECK_EQ(c->sacked_bytes, brute_sacked());
	sack(10, 0, 0);
	CHECK_EQ(c->snd_una, first + 10 * MSS);
	down();
}

/** RFC 8985 s7.3: the last segment is sent again after 2 SRTT, once. Then the timeout follows. */
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
	/* s7.4.1: its SACK shows that the four before it are lost. */
	sack(0, 4, 5);
	CHECK(c->in_recovery);
	CHECK_EQ(sent(0), 0);
	CHECK_EQ(st->rtos, 0);
	down();
	/* No answer arrives. */
	open_sack(NULL, 5);
	run_for(300 * WEFT_NS_PER_MS);
	CHECK_EQ(st->tlp_probes, 1);
	CHECK_EQ(st->rtos, 1);
	CHECK_EQ(sent(1), 0);
	down();
}

/** RFC 8985 s7.3: new data are sent first, regardless of cwnd. */
static void
test_tlp_new(void)
{
	open_sack(NULL, 30);
	CHECK_EQ(net.node[1].nsegs, 10);
	run_for(RTT_NS * 2 + 500 * WEFT_NS_PER_US);
	CHECK_EQ(net.node[1].nsegs, 1);
	CHECK_EQ(sent(0), 10);
	CHECK_EQ(st->retrans_segs, 0);
	/* s7.4.2: its acknowledgment is no sign of a loss. */
	sack(11, 11, 11);
	CHECK_EQ(st->tlp_recovered, 0);
	CHECK(!c->tlp_active);
	CHECK_EQ(st->recoveries, 0);
	down();
}

/** RFC 8985 s7.4.2: a loss that the probe itself repaired still counts as a loss. */
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

/** Sequence numbers that are only compared do not fall so far behind that they seem to be ahead. */
static void
test_far_behind(void)
{
	static const uint32_t by[] = {0,          1u << 29,   (1u << 30) + 1,
	                              0x7fffffff, 0xb0000000, 0u - 3 * MSS};

	for (unsigned int i = 0; i < RTE_DIM(by); i++) {
		uint32_t *seq[4];

		open_sack(NULL, 3); /* too few to use the whole window */
		seq[0] = &c->recover;
		seq[1] = &c->ece_recover;
		seq[2] = &c->cwnd_used;
		seq[3] = &c->ts_rtt_seq;
		for (unsigned int k = 0; k < RTE_DIM(seq); k++)
			*seq[k] = first - by[i];
		sack(1, 1, 1);
		for (unsigned int k = 0; k < RTE_DIM(seq); k++)
			CHECK_EQ(c->snd_una - *seq[k],
			         (int32_t)by[i] > -100 * MSS && (int32_t)by[i] < 0
			                 ? by[i] + MSS
			                 : RTE_MIN(by[i] + MSS, 1u << 30));
		down();
	}
}

WEFT_TEST_MAIN({"blocks", test_blocks}, {"far_block", test_far_block},
               {"low_block", test_low_block}, {"hints", test_hints}, {"dupthresh", test_dupthresh},
               {"reo_timer", test_reo_timer}, {"reordering", test_reordering},
               {"lost_again", test_lost_again}, {"prr", test_prr}, {"prr_ssrb", test_prr_ssrb},
               {"far_behind", test_far_behind}, {"renege", test_renege},
               {"said_again", test_said_again}, {"tlp", test_tlp}, {"tlp_new", test_tlp_new},
               {"tlp_repaired", test_tlp_repaired})
