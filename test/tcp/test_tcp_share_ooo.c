/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file How the connections of a port share the buffers for out-of-order octets: few for small
 * segments, a share for each connection, and not without limit of time.
 */

#include "share_peers.h"
#include "tcp_rcv.h"
#include "weft_netif_budget.h"

/** Adjacent segments of one octet share a buffer, in any order of arrival. The delivered octets
 * are the sent ones. */
static void
test_ooo_join(void)
{
	for (unsigned int order = 0; order < 3; order++) {
		const struct weft_tcp_stats *st;
		const uint32_t n = 3000;

		up(NULL);
		st = weft_tcp_stats(net.node[0].tcp);
		CHECK(hand_open(0));
		app = &net.app[0];
		for (uint32_t k = 0; k < n; k++) {
			uint32_t at = order == 0 ? k : order == 1 ? n - 1 - k : k * 7 % n;

			hand_seg(0, TCP_ACK, 1 + at, conn(0)->snd_max, 65535, 1);
			run_for(20 * WEFT_NS_PER_US);
			CHECK_MSG(conn(0)->ooo_mbufs <= 1000, "%u mbufs", conn(0)->ooo_mbufs);
			check_share(1);
		}
		CHECK_MSG(conn(0)->ooo_mbufs <= (order == 2 ? n / 3 : 8), "%u mbufs for %u octets",
		          conn(0)->ooo_mbufs, n);
		CHECK(st->ooo_joined > n / 2);
		CHECK_EQ(conn(0)->nsack, 1);
		hand_seg(0, TCP_ACK, 0, conn(0)->snd_max, 65535, 1);
		run_for(20 * WEFT_NS_PER_US);
		CHECK_EQ(app->received, n + 1);
		CHECK_EQ(conn(0)->ooo_mbufs, 0);
		down();
	}
}

/**
 * Peers with a thousand separate segments of one octet each take no more than the port lends. A
 * peer that has lost a segment still gets its share at once.
 */
static void
test_ooo_fair(void)
{
	struct weft_tcp_attr attr = {
	        .max_ooo_mbufs_total = 300, .max_conns = 64, .max_conns_per_peer = 64};
	const struct weft_tcp_stats *st;
	unsigned int before;

	up(&attr);
	st = weft_tcp_stats(net.node[0].tcp);
	for (unsigned int i = 0; i < 20; i++)
		CHECK(hand_open(i));
	before = rte_mempool_in_use_count(net_pool());
	for (unsigned int i = 0; i < 19; i++)
		for (uint32_t k = 1; k <= 400; k++) {
			hand_seg(i, TCP_ACK, 2 * k, conn(i)->snd_max, 65535, 1);
			run_for(20 * WEFT_NS_PER_US);
			CHECK(share()->lent->ooo.held <= 300);
			CHECK(rte_mempool_in_use_count(net_pool()) - before <= 300);
		}
	CHECK_EQ(share()->lent->ooo.held, 300); /* exactly the limit */
	CHECK(share()->lent->ooo.refused > 0 && st->ooo_shed > 0);
	check_share(20);
	for (uint32_t k = 1; k <= 15; k++) {
		hand_seg(19, TCP_ACK, 2 * k * MSS, conn(19)->snd_max, 65535, MSS);
		run_for(20 * WEFT_NS_PER_US);
	}
	CHECK_EQ(conn(19)->ooo_mbufs, 15); /* 300 shared by 20 */
	CHECK_EQ(share()->lent->ooo.held, 300);
	check_share(20);
	for (uint32_t k = 0; k <= 30; k += 1 + (k > 0)) {
		hand_seg(19, TCP_ACK, k * MSS, conn(19)->snd_max, 65535, MSS);
		run_for(20 * WEFT_NS_PER_US);
	}
	CHECK_EQ(net.app[19].received, 31 * MSS);
	/* Evicted octets are in no SACK block, and are retransmitted. */
	for (unsigned int i = 0; i < 19; i++) {
		for (unsigned int b = 0; b < conn(i)->nsack; b++) {
			const struct tcp_ooo *o = NULL;

			for (struct rte_mbuf *m = conn(i)->ooo_head; m != NULL;
			     m = tcp_ooo(m)->next)
				if (tcp_ooo(m)->seq == conn(i)->sack[b].left)
					o = tcp_ooo(m);
			CHECK(o != NULL);
		}
		hand_seg(i, TCP_ACK, 0, conn(i)->snd_max, 65535, 801);
		run_for(20 * WEFT_NS_PER_US);
		CHECK_EQ(net.app[i].received, 801);
		CHECK(!net.app[i].bad_data);
	}
	CHECK_EQ(share()->lent->ooo.held, 0);
	app = &net.app[19];
	down();
}

/** A gap that is not filled holds buffers for ooo_timeout_us at most, and the connection
 * continues. */
static void
test_ooo_timeout(void)
{
	const struct weft_tcp_stats *st;

	up(&(struct weft_tcp_attr){.ooo_timeout_us = 5000000, .max_conns = 16});
	st = weft_tcp_stats(net.node[0].tcp);
	for (unsigned int i = 0; i < 2; i++) {
		CHECK(hand_open(i));
		for (uint32_t k = 1; k <= 50; k++)
			hand_seg(i, TCP_ACK, 2 * k, conn(i)->snd_max, 65535, 1);
		run_for(20 * WEFT_NS_PER_US);
	}
	run_for(4 * WEFT_NS_PER_S);
	CHECK_EQ(share()->lent->ooo.held, 100);
	/* One of them makes progress: its present gap is a new one. */
	hand_seg(0, TCP_ACK, 0, conn(0)->snd_max, 65535, 2);
	run_for(2100 * WEFT_NS_PER_MS);
	CHECK_EQ(st->ooo_timeouts, 1);
	CHECK_EQ(conn(1)->ooo_mbufs, 0);
	CHECK_EQ(conn(1)->nsack, 0);
	CHECK_EQ(conn(0)->ooo_mbufs, 49);
	/* New segments at the old gap do not restart the time. */
	hand_seg(1, TCP_ACK, 4, conn(1)->snd_max, 65535, 1);
	run_for(1100 * WEFT_NS_PER_MS);
	CHECK_EQ(conn(1)->ooo_mbufs, 0);
	run_for(5 * WEFT_NS_PER_S);
	CHECK_EQ(share()->lent->ooo.held, 0);
	CHECK_EQ(net.node[0].tcp->sweep.armed, false);
	for (unsigned int i = 0; i < 2; i++) {
		hand_seg(i, TCP_ACK, 0, conn(i)->snd_max, 65535, 1000);
		run_for(20 * WEFT_NS_PER_US);
		CHECK_EQ(net.app[i].received, 1000);
	}
	app = &net.app[0];
	down();
}

/** A segment without room examines 32 connections for one that holds more than its share. The
 * next segment continues after them. */
static void
test_looks(void)
{
	struct weft_tcp_attr attr = {
	        .max_ooo_mbufs_total = 350, .max_conns = 64, .max_conns_per_peer = 64};
	const struct weft_tcp_stats *st;

	for (unsigned int modest = 31; modest <= 33; modest++) {
		const unsigned int greedy = modest, late = modest + 1;
		uint32_t k = 1;

		up(&attr);
		st = weft_tcp_stats(net.node[0].tcp);
		for (unsigned int i = 0; i <= late; i++)
			CHECK(hand_open(i));
		/* Connections below their share, in the order of examination. The next one holds
		 * all the rest. */
		for (unsigned int i = 0; i < modest; i++)
			for (uint32_t n = 1; n <= 2; n++) {
				hand_seg(i, TCP_ACK, 2 * n, conn(i)->snd_max, 65535, 1);
				run_for(20 * WEFT_NS_PER_US);
			}
		for (; share()->lent->ooo.held < 350; k++) {
			hand_seg(greedy, TCP_ACK, 2 * k, conn(greedy)->snd_max, 65535, 1);
			run_for(20 * WEFT_NS_PER_US);
		}
		CHECK_EQ(conn(greedy)->ooo_mbufs, 350 - 2 * modest);
		CHECK_EQ(st->ooo_shed, 0);
		for (uint32_t n = 1; n <= 2; n++) {
			hand_seg(late, TCP_ACK, 2 * n, conn(late)->snd_max, 65535, 1);
			run_for(20 * WEFT_NS_PER_US);
			CHECK_EQ(conn(late)->ooo_mbufs, n - (modest > 31));
			CHECK_EQ(st->ooo_shed, n > 1 || modest == 31);
			check_share(late + 1);
		}
		app = &net.app[0];
		for (unsigned int i = 0; i <= late; i++) {
			weft_tcp_abort(conn(i), sim_now_ns(net.sim));
			net.app[i].c = NULL;
		}
		CHECK_EQ(net.node[0].tcp->ooo_mbufs, 0);
		run_for(WEFT_NS_PER_MS);
		down();
	}
}

WEFT_TEST_MAIN({"join", test_ooo_join}, {"fair", test_ooo_fair}, {"timeout", test_ooo_timeout},
               {"looks", test_looks})
