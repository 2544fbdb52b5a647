/* SPDX-License-Identifier: BSD-3-Clause */
/** @file RACK-TLP (RFC 8985) at its limits: which ACK counts, how long a wider reordering window
 * lasts, and a probe for which the port has no room. */

#include "tcp_instance.h"
#include "tcp_snd.h"
#include "sack_peer.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_stats.h"
#include "weft_netif_tx.h"

/** s6.2 step 2: a segment retransmitted less than the minimum RTT ago is acknowledged for its
 * first transmission. If exactly that time has passed, the ACK is for the last one. */
static void
test_min_rtt_edge(void)
{
	uint64_t rtt_ns = 0;

	for (int by = -2; by <= 1; by++) {
		uint64_t sent_ns;

		open_sack(NULL, 10);
		run_for(RTT_NS);
		sack(0, 1, 4);
		CHECK(c->in_recovery);
		CHECK_EQ(sent(0), 0);
		sent_ns = tcp_seg(c->sq_head)->sent_ns;
		run_for(RTT_NS / 2);
		/* The first pass only measures that time. */
		if (by > -2) {
			c->min_rtt_ns[0] = rtt_ns + (uint64_t)(int64_t)by;
			c->min_rtt_ns[1] = 0;
			c->min_rtt_at_ns = sim_now_ns(net.sim);
		}
		CHECK(c->rack_xmit_ns < sent_ns);
		sack(4, 4, 4);
		if (by == -2)
			rtt_ns = c->t->ack.now_ns - sent_ns;
		else
			CHECK_EQ(c->rack_xmit_ns == sent_ns, by <= 0);
		down();
	}
	CHECK(rtt_ns > RTT_NS / 4 && rtt_ns < RTT_NS);
}

/** s6.2 step 4: a window widened by a D-SACK lasts for sixteen recoveries without another one. */
static void
test_persist(void)
{
	unsigned int all;

	open_sack(NULL, 2000);
	run_for(RTT_NS);
	for (int k = 2; k <= 5; k++)
		sack(0, 1, k);
	run_for(RTT_NS);
	all = (c->snd_max - first) / MSS;
	sack(all, 0, 0);
	sack2(all, (const int[]){0, 2, -1});
	CHECK_EQ(c->reo_mult, 2);
	for (unsigned int i = 1; i <= 18; i++) {
		unsigned int una = (c->snd_una - first) / MSS;

		CHECK_EQ(c->reo_mult, i <= 16 ? 2 : 1);
		run_for(RTT_NS);
		sack(una, (int)una + 1, (int)una + 5);
		run_for(2 * RTT_NS);
		CHECK(c->in_recovery);
		all = (c->snd_max - first) / MSS;
		c->ssthresh = 10 * MSS; /* always enough segments to lose some */
		sack(all, 0, 0);
		CHECK(!c->in_recovery);
		CHECK_EQ(st->rtos, 0);
	}
	CHECK_EQ(st->dsacks_in, 1);
	down();
}

/** Send packets that the port does not accept, until its queue is full. */
static void
fill_port(void)
{
	struct weft_netif *nif = net.node[0].nif;

	net.node[0].tx_stuck = true;
	while (weft_netif_tx_room(nif) > 0) {
		struct rte_mbuf *m = weft_netif_alloc(nif, WEFT_NETIF_HEADROOM);
		uint8_t *p = m != NULL ? (uint8_t *)rte_pktmbuf_append(m, TCP_HDR_LEN) : NULL;

		CHECK(p != NULL);
		memset(p, 0, TCP_HDR_LEN);
		p[12] = 0x50;
		CHECK_EQ(weft_netif_tx(nif, c->neigh, &c->local, &c->remote, m,
		                       (struct weft_netif_tx_how){0}, sim_now_ns(net.sim)),
		         0);
	}
}

/** s7.2: a probe for which the port has no room does not count, with new data or old. The
 * timeout repairs the loss. A full port gets no packet. */
static void
test_tlp_full(void)
{
	for (unsigned int segs = 5; segs <= 30; segs += 25) {
		open_sack(NULL, segs);
		fill_port();
		run_for(RTT_NS * 2 + WEFT_NS_PER_MS);
		CHECK_EQ(st->tlp_probes, 0);
		CHECK(!c->tlp_active);
		CHECK_EQ(c->snd_max, first + RTE_MIN(segs, 10u) * MSS);
		run_for(300 * WEFT_NS_PER_MS);
		CHECK_EQ(st->rtos, 1);
		CHECK_EQ(st->retrans_segs, 0);
		CHECK_EQ(weft_netif_stats(net.node[0].nif)->tx_queue_full, 0);
		net.node[0].tx_stuck = false;
		run_for(100 * WEFT_NS_PER_MS);
		CHECK(st->retrans_segs > 0);
		down();
	}
}

WEFT_TEST_MAIN({"min_rtt_edge", test_min_rtt_edge}, {"persist", test_persist},
               {"tlp_full", test_tlp_full})
