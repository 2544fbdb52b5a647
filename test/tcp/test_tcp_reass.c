/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The limited cost of one out-of-order segment, in any order that a peer chooses: the number
 * of queue elements that are walked to find its place, and to report the run that contains it.
 */

#include "tcp_peer.h"
#include "tcp_conn.h"
#include "tcp_instance.h"
#include "tcp_rcv.h"

/* from the last place, the head and the tail; and along its run in both directions */
#define STEPS_MAX (5 * TCP_REASS_STEPS)

static const struct weft_tcp_stats *st;
static struct weft_tcp_attr attr; /**< for the stack of the next connection */

static void
open_sack(bool sack)
{
	struct tcp_opts o = {.mss_bytes = MSS, .sack_perm = sack, .has_wscale = true, .wscale = 7};

	up(&attr);
	st = weft_tcp_stats(net.node[0].tcp);
	syn(IRS, &o);
	iss = last().h.seq;
	seg_wait(TCP_ACK, IRS + 1, iss + 1, 65535, 0, 0);
	app = &net.app[0];
}

/** Deliver octets of the stream. Returns the number of elements that were walked. */
static uint64_t
put(uint32_t off, uint32_t len)
{
	uint64_t before = net.node[0].tcp->ooo_steps;

	seg_wait(TCP_ACK, IRS + 1 + off, iss + 1, 65535, off, len);
	return net.node[0].tcp->ooo_steps - before;
}

/** Check that every block of the last ACK covers only octets that are held. */
static void
check_blocks(void)
{
	struct net_seg s = last();

	for (unsigned int i = 0; i < s.opts.nsack; i++) {
		uint32_t at = s.opts.sack[i].left;

		for (struct rte_mbuf *m = app->c->ooo_head; m != NULL; m = tcp_ooo(m)->next)
			if (weft_seq_leq(tcp_ooo(m)->seq, at) &&
			    weft_seq_lt(at, tcp_ooo(m)->seq + tcp_ooo(m)->len_bytes))
				at = tcp_ooo(m)->seq + tcp_ooo(m)->len_bytes;
		CHECK(weft_seq_leq(s.opts.sack[i].right, at));
	}
}

/** Send again, in order, everything that was dropped. Then nothing may be missing. */
static void
finish(uint32_t end)
{
	for (uint32_t off = 0; off < end; off += 1000)
		put(off, RTE_MIN(1000u, end - off));
	CHECK_EQ(app->received, end);
	CHECK_EQ(net.node[0].tcp->ooo_mbufs, 0);
	down();
}

/** Segments in turn at two places of a long queue, both far from its ends: they are dropped. */
static void
test_far(void)
{
	for (unsigned int sack = 0; sack < 2; sack++) {
		open_sack(sack);
		for (uint32_t i = 1; i <= 900; i++)
			CHECK(put(6 * i, 1) <= STEPS_MAX);
		CHECK_EQ(st->rx_ooo_far, 0);
		for (uint32_t k = 0; k < 60; k++) {
			uint64_t steps = put(6 * (k % 2 == 0 ? 200 + k : 700 - k) + 3, 1);

			CHECK_MSG(steps <= STEPS_MAX, "%u steps", (unsigned int)steps);
		}
		CHECK_EQ(st->rx_ooo_far, 60);
		CHECK_EQ(st->rx_ooo_dropped, 60);
		finish(5401);
	}
}

/** A full queue is not walked at all. */
static void
test_full(void)
{
	open_sack(true);
	for (uint32_t i = 1; i <= 1024; i++)
		put(6 * i, 1);
	CHECK_EQ(app->c->ooo_mbufs, 1024);
	for (uint32_t k = 0; k < 100; k++)
		CHECK(put(6 * (5 + 997 * k % 1000) + 3, 1) <= 3);
	CHECK_EQ(st->rx_ooo_dropped, 100);
	CHECK(put(6 * 1025, 1) <= 3);
	CHECK_EQ(st->rx_ooo_dropped, 101);
	CHECK_EQ(app->c->ooo_mbufs, 1024);
	finish(6 * 1024 + 1);
}

/** The same if the connection has used its share of all connections' limit. */
static void
test_full_share(void)
{
	attr.max_ooo_mbufs_total = 300;
	open_sack(true);
	attr.max_ooo_mbufs_total = 0;
	for (uint32_t i = 1; i <= 300; i++)
		put(6 * i, 1);
	CHECK_EQ(app->c->ooo_mbufs, 300);
	CHECK_EQ(st->rx_ooo_dropped, 0);
	for (uint32_t k = 0; k < 100; k++)
		CHECK(put(6 * (5 + 97 * k % 290) + 3, 1) <= 3);
	CHECK_EQ(st->rx_ooo_dropped, 100);
	finish(1801);
}

/** More runs than are remembered, too long to be walked, each extended again and again. */
static void
test_runs(void)
{
	enum { RUNS = 6, LEN = 150, GAP = 400 };

	open_sack(true);
	/* Large enough to remain separate elements, the last ones first. */
	for (uint32_t r = 0; r < RUNS; r++)
		for (uint32_t i = LEN; i > 0; i--)
			put(r * GAP * 1000 / 8 + i * 200 + 1000, 200);
	for (uint32_t k = 0; k < 60; k++) {
		uint32_t r = k % RUNS, i = k / RUNS;
		uint64_t steps = put(r * GAP * 1000 / 8 + (LEN / 2 + i) * 200 + 1000, 200);

		CHECK_MSG(steps <= STEPS_MAX, "%u steps", (unsigned int)steps);
		check_blocks();
	}
	finish(RUNS * GAP * 1000 / 8);
}

/** A duplicate of a reported segment causes no walk along its run, even if the newest block is
 * another one. */
static void
test_kept(void)
{
	open_sack(true);
	/* Too large to share a buffer, the last ones first. */
	for (uint32_t i = 400; i > 0; i--)
		put(i * 1400, 1400);
	CHECK(app->c->ooo_mbufs > 30);
	put(700000, 100);
	CHECK_EQ(app->c->nsack, 2);
	CHECK(put(1400, 1400) <= 2);
	/* RFC 2883 s4: the duplicate, then the whole run that contains it. */
	CHECK_EQ(last().opts.nsack, 3);
	CHECK_EQ(last().opts.sack[0].right, IRS + 1 + 2800);
	CHECK_EQ(last().opts.sack[1].left, IRS + 1 + 1400);
	CHECK_EQ(last().opts.sack[1].right, IRS + 1 + 401 * 1400);
	finish(700100);
}

/** Orders caused by losses and by paths: the place is always found. */
static void
test_ordinary(void)
{
	uint64_t rng = 88172645463325252ULL;
	uint32_t order[64];

	/* Every third segment is lost, and retransmitted in order while new ones arrive. */
	open_sack(true);
	for (uint32_t i = 1; i < 600; i++)
		if (i % 3 != 0)
			put(10 * i, 10);
	for (uint32_t i = 3; i < 600; i += 3) {
		put(10 * i, 10);
		put(10 * (600 + i), 10);
	}
	CHECK_EQ(st->rx_ooo_far, 0);
	finish(12000);
	/* Groups of 64 in any order. */
	open_sack(true);
	for (uint32_t base = 1; base < 600; base += RTE_DIM(order)) {
		for (uint32_t i = 0; i < RTE_DIM(order); i++) {
			uint32_t k;

			rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
			k = (uint32_t)(rng % (i + 1));
			order[i] = order[k];
			order[k] = base + i;
		}
		for (uint32_t i = 0; i < RTE_DIM(order); i++)
			put(10 * order[i], 10);
	}
	CHECK_EQ(st->rx_ooo_far, 0);
	CHECK_EQ(st->rx_ooo_dropped, 0);
	finish(6410);
}

/** Any order: limited cost, correct blocks, and a complete stream in the end. */
static void
test_any(void)
{
	uint64_t rng = 1442695040888963407ULL;

	for (unsigned int round = 0; round < 6; round++) {
		open_sack(round % 2 == 0);
		for (unsigned int k = 0; k < 1500; k++) {
			uint32_t off, len;

			rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
			off = 1 + (uint32_t)(rng >> 33) % 9000;
			len = 1 + (uint32_t)(rng & 1023) % (round < 3 ? 5 : 60);
			CHECK(put(off, len) <= STEPS_MAX);
			if (k % 50 == 0)
				check_blocks();
		}
		finish(9100);
	}
}

WEFT_TEST_MAIN({"far apart", test_far}, {"a full queue", test_full},
               {"a full share", test_full_share}, {"long runs", test_runs},
               {"kept runs", test_kept}, {"ordinary orders", test_ordinary},
               {"any order", test_any})
