/* SPDX-License-Identifier: BSD-3-Clause */
/** @file RACK-TLP (RFC 8985) at its limits: which ACK counts, how long a wider reordering window
 * lasts, and a probe for which the port has no room. */

#include "tcp_instance.h"
#include "tcp_loss.h"
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

/** Send one segment alone, and acknowledge it after a time. */
static void
lone(unsigned int *n, uint64_t after_ns)
{
	app->to_send += MSS;
	net_app_push(app);
	run_for(after_ns);
	sack(++*n, 0, 0);
}

/** How long after the transmission of a lone segment its probe is sent. */
static uint64_t
probe_ns(void)
{
	uint64_t begin_ns = sim_now_ns(net.sim), probes = st->tlp_probes;

	app->to_send += MSS;
	net_app_push(app);
	while (st->tlp_probes == probes && sim_now_ns(net.sim) < begin_ns + WEFT_NS_PER_S)
		run_for(100 * WEFT_NS_PER_US);
	return sim_now_ns(net.sim) - begin_ns;
}

/**
 * s7.2, TLP.max_ack_delay: 40 ms at first. When the peer has acknowledged sixteen lone segments it
 * is what these show, with a margin. After a probe that was not needed it is 40 ms again, and more
 * samples are asked for. A probe that was needed changes nothing.
 */
static void
test_lone_delay(void)
{
	const uint64_t late_ns = 2 * WEFT_NS_PER_MS, slack_ns = 6 * WEFT_NS_PER_MS;
	unsigned int n = 1;
	uint64_t pto_ns;

	open_sack(NULL, 1);
	run_for(RTT_NS);
	sack(1, 0, 0);
	for (unsigned int i = 0; i < 14; i++)
		lone(&n, RTT_NS + late_ns);
	CHECK(!c->lone.known);
	pto_ns = 2 * (uint64_t)c->srtt8_us / 8 * WEFT_NS_PER_US;
	CHECK(probe_ns() >= pto_ns + 39 * WEFT_NS_PER_MS);
	/* It was needed: the segment was lost. */
	run_for(RTT_NS);
	sack(++n, 0, 0);
	app->to_send += MSS;
	net_app_push(app);
	run_for(RTT_NS);
	sack(++n, 0, 0);
	for (unsigned int i = 0; i < 20; i++)
		lone(&n, RTT_NS + late_ns);
	CHECK(c->lone.known);
	pto_ns = 2 * (uint64_t)c->srtt8_us / 8 * WEFT_NS_PER_US;
	CHECK(probe_ns() <= pto_ns + slack_ns);
	/* Now the segment had arrived, and only its ACK was late. */
	run_for(RTT_NS);
	n++;
	sack2(n, (const int[]){2 * ((int)n - 1), 2 * (int)n, -1});
	CHECK(!c->lone.known);
	for (unsigned int i = 0; i < 31; i++)
		lone(&n, RTT_NS + late_ns);
	CHECK(!c->lone.known);
	for (unsigned int i = 0; i < 4; i++)
		lone(&n, RTT_NS + late_ns);
	CHECK(c->lone.known);
	/* The longest delay of this round and of the one before counts. */
	lone(&n, RTT_NS + 5 * late_ns);
	for (unsigned int i = 0; i < 10; i++)
		lone(&n, RTT_NS);
	CHECK(tcp_lone_delay_us(c) >= 2 * 9000);
	for (unsigned int i = 0; i < 40; i++)
		lone(&n, RTT_NS);
	CHECK(tcp_lone_delay_us(c) < 2000);
	CHECK_EQ(st->rtos, 0);
	down();
}

/** Sixteen lone segments, and a few more: TCP knows how long this peer delays their ACKs. */
static unsigned int
learn_lone(void)
{
	unsigned int n = 1;

	open_sack(NULL, 1);
	run_for(RTT_NS);
	sack(1, 0, 0);
	for (unsigned int i = 0; i < 20; i++)
		lone(&n, RTT_NS);
	CHECK(c->lone.known);
	return n;
}

/** s7.4.2: a peer without D-SACK answers a probe that was not needed by a duplicate ACK. It delays
 * its ACKs longer than TCP has learned. */
static void
test_lone_no_dsack(void)
{
	unsigned int n = learn_lone();

	CHECK(probe_ns() < 40 * WEFT_NS_PER_MS);
	CHECK(c->tlp_active);
	/* The ACK of the first copy was late. The next segment leaves, and then comes that of the
	 * second copy. */
	sack(++n, 0, 0);
	app->to_send += MSS;
	net_app_push(app);
	CHECK(c->lone.known);
	sack(n, 0, 0);
	CHECK(!c->tlp_active);
	CHECK(!c->lone.known);
	CHECK_EQ(tcp_lone_delay_us(c), 40000);
	CHECK_EQ(st->tlp_recovered, 0);
	down();
}

/** A retransmission is lost in recovery, and nothing is behind it: a probe after two round trips
 * repairs it. cwnd is reduced once. */
static void
test_recovery_probe(void)
{
	uint32_t ssthresh;

	open_sack(NULL, 10);
	run_for(RTT_NS);
	sack(0, 1, 10);
	CHECK(c->in_recovery);
	CHECK_EQ(sent(0), 0);
	ssthresh = c->ssthresh;
	run_for(2 * RTT_NS - WEFT_NS_PER_MS);
	CHECK_EQ(net.node[1].nsegs, 0);
	run_for(2 * WEFT_NS_PER_MS);
	CHECK_EQ(net.node[1].nsegs, 1);
	CHECK_EQ(sent(0), 0);
	CHECK_EQ(st->recovery_probes, 1);
	CHECK_EQ(st->tlp_probes, 0);
	run_for(RTT_NS);
	sack(10, 0, 0);
	CHECK(!c->in_recovery);
	CHECK_EQ(c->ssthresh, ssthresh);
	CHECK_EQ(st->tlp_recovered, 0);
	CHECK_EQ(st->rtos, 0);
	CHECK_EQ(st->recoveries, 1);
	down();
	/* As long as SACKs come, none is needed. */
	open_sack(NULL, 40);
	run_for(RTT_NS);
	for (int k = 4; k < 10; k++) {
		sack(0, 1, k);
		run_for(RTT_NS);
	}
	CHECK(c->in_recovery);
	CHECK_EQ(st->recovery_probes, 0);
	down();
}

WEFT_TEST_MAIN({"min_rtt_edge", test_min_rtt_edge}, {"persist", test_persist},
               {"tlp_full", test_tlp_full}, {"lone_delay", test_lone_delay},
               {"lone_no_dsack", test_lone_no_dsack}, {"recovery_probe", test_recovery_probe})
