/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Links that fail and recover, ports and pools that are exhausted, ends that leave early
 * or return. */

#include "props.h"
#include "props_cases.h"
#include "weft_netif_stats.h"

/** When the peer's application exists. */
static bool
accepted(void *arg)
{
	struct props *p = arg;

	return p->net.accepted > 0 && p->net.app[0].established;
}

static void
finish(struct props *p)
{
	CHECK_MSG(net_run_closed(&p->net, 4000 * WEFT_NS_PER_S),
	          "%s %s, received %" PRIu64 " %" PRIu64,
	          weft_tcp_state_name(net_state(&p->net.app[0])),
	          weft_tcp_state_name(net_state(&p->net.app[1])), p->net.app[0].received,
	          p->net.app[1].received);
}

static void
finish_one(struct props *p)
{
	finish(p);
	CHECK_EQ(p->net.napps, 2);
	props_check_complete(p, &p->net.app[0], &p->net.app[1]);
	props_down(p);
}

/* ---- Outages: the time to recover is limited ---- */

static struct {
	bool down;
	unsigned int ends; /**< one bit for each direction */
	uint64_t rtos, arrived, acked;
	bool watching;
} outage;

static uint64_t
node0_rtos(struct props *p)
{
	return weft_tcp_stats(p->net.node[0].tcp)->rtos;
}

/**
 * RFC 6298 s5: the timer that runs when the link recovers expires within the backed-off RTO. Its
 * segment arrives and is answered within a round trip. One more round trip is for the segments that
 * the answer permits. The next hop may have to be resolved first (at most once a second: RFC 1122
 * s2.3.2.1). Of the segments that wait for its address the latest is kept (s2.3.2.2), which may not
 * be the missing one. Then another timeout sends the missing one.
 */
static uint64_t
recovery_bound_ns(struct props *p, const struct weft_tcp_info *info)
{
	uint64_t n = RTE_MIN(node0_rtos(p) - outage.rtos, (uint64_t)20);
	uint64_t rto_us = RTE_MIN((uint64_t)info->rto_us << n, (uint64_t)p->attr[0].rto_max_us);

	if (weft_netif_stats(p->net.node[0].nif)->tx_unresolved > 0)
		rto_us += p->attr[0].rto_max_us;
	return rto_us * WEFT_NS_PER_US + 2 * props_rtt_ns(p) + WEFT_NS_PER_S +
	       2 * p->attr[1].delack_us * WEFT_NS_PER_US;
}

static void
outage_act(struct props *p)
{
	struct net_app *a = &p->net.app[0];
	struct props_half *h = &p->flow[0].half[0];
	struct weft_tcp_info info;
	uint64_t now = sim_now_ns(p->net.sim);

	if (!outage.down && (a->c == NULL || h->arrived == a->to_send))
		return;
	if (outage.watching) {
		CHECK_MSG(h->arrived > outage.arrived || h->acked > outage.acked,
		          "nothing arrived since the link healed");
		outage.watching = false;
	}
	if (!outage.down && p->acts > 6)
		return;
	outage.down = !outage.down;
	for (unsigned int i = 0; i < 2; i++) {
		struct sim_link_cfg c = p->cfg[i];

		c.down = outage.down && (outage.ends >> i & 1) != 0;
		sim_link_set(p->net.link, i, &c);
	}
	if (outage.down) {
		outage.rtos = node0_rtos(p);
		p->next_ns = now + props_log(p, 100 * WEFT_NS_PER_US, 30 * WEFT_NS_PER_S);
		return;
	}
	if (a->c == NULL || h->arrived == a->to_send)
		return;
	weft_tcp_info(a->c, &info);
	outage.arrived = h->arrived;
	outage.acked = h->acked;
	outage.watching = true;
	p->next_ns = now + recovery_bound_ns(p, &info);
}

static void
run_outage(struct props *p)
{
	struct net_app *a;

	props_draw_path(p);
	props_draw_attr(p);
	memset(&outage, 0, sizeof(outage));
	outage.ends = 1 + (unsigned int)props_rand(p, 3);
	props_up(p);
	p->net.accept_as.close_on_eof = true;
	a = props_connect(p, 400000);
	CHECK(net_run(&p->net, 100 * WEFT_NS_PER_S, accepted, p));
	(void)a;
	p->act = outage_act;
	p->next_ns = sim_now_ns(p->net.sim) + props_rand(p, 2 * props_rtt_ns(p));
	finish_one(p);
}

void
test_outage(void)
{
	props_each(1500, run_outage);
}

/* ---- Only lost segments are retransmitted ---- */

static void
run_economy(struct props *p)
{
	const struct weft_tcp_stats *st;
	const struct props_half *h = &p->flow[0].half[0];
	uint64_t lost, allowed;

	props_draw_path(p);
	p->cfg[0].queue_pkts = p->cfg[1].queue_pkts = 0;
	if (props_chance(p, 50)) {
		p->cfg[0].loss_ppm = 1 + (uint32_t)props_rand(p, 100000);
	} else {
		p->cfg[0].burst_len = 2 + (uint32_t)props_rand(p, 9);
		p->cfg[0].burst_loss_ppm = (uint32_t)props_rand(p, 20000);
	}
	props_draw_attr(p);
	for (unsigned int i = 0; i < 2; i++) {
		p->attr[i].no_sack = false;
		p->attr[i].max_ooo_bytes = 0;
		p->attr[i].delack_us = 0;
		p->attr[i].rto_min_us = 0;
		p->attr[i].ecn = WEFT_TCP_ECN_OFF;
	}
	props_up(p);
	p->net.accept_as.close_on_eof = true;
	props_connect(p, 400000);
	finish(p);
	st = weft_tcp_stats(p->net.node[0].tcp);
	/*
	 * RFC 8985: with SACK, in-order delivery and no lost ACK, a retransmitted segment was lost.
	 * Exceptions are a probe (s7.3), and what a timeout takes for lost (RFC 6298 s5.4: the
	 * first segment; RFC 8985 s6.3: all sent a round trip before).
	 */
	/* A segment that the receiver has no room for is lost, too. */
	lost = h->lost_segs + weft_tcp_stats(p->net.node[1].tcp)->rx_ooo_dropped;
	lost += weft_netif_stats(p->net.node[0].nif)->tx_unresolved;
	/* A segment that was split for a suspected black hole is retransmitted as several. */
	lost += st->segs_split;
	allowed = lost + st->tlp_probes + st->recovery_probes + h->timeout_segs;
	CHECK_MSG(h->retrans_segs <= allowed,
	          "%" PRIu64 " of %" PRIu64 " segments sent again, %" PRIu64 " lost, %" PRIu64
	          " probes, %" PRIu64 " timeouts",
	          h->retrans_segs, h->segs, lost, st->tlp_probes + st->recovery_probes, st->rtos);
	CHECK_EQ(p->net.napps, 2);
	props_check_complete(p, &p->net.app[0], &p->net.app[1]);
	props_down(p);
}

void
test_economy(void)
{
	props_each(2000, run_economy);
}

/* ---- Ports that accept nothing, and empty pools ---- */

static struct rte_mbuf *hoard[8192];
static unsigned int hoarded;

static void
hoard_free(void)
{
	while (hoarded > 0)
		rte_pktmbuf_free(hoard[--hoarded]);
}

static void
starve_act(struct props *p)
{
	struct net_node *nd = &p->net.node[props_rand(p, 2)];
	unsigned int left = (unsigned int)props_log(p, 1, 400);

	hoard_free();
	p->net.node[0].tx_stuck = p->net.node[1].tx_stuck = false;
	p->net.node[0].tx_limit = p->net.node[1].tx_limit = 0;
	if (p->acts > 30)
		return;
	p->next_ns = sim_now_ns(p->net.sim) + props_log(p, 10000, 100 * WEFT_NS_PER_MS);
	switch (props_rand(p, 4)) {
	case 0:
		nd->tx_stuck = true;
		break;
	case 1:
		nd->tx_limit = 1 + (unsigned int)props_rand(p, 8);
		break;
	case 2:
		while (hoarded < RTE_DIM(hoard) && rte_mempool_avail_count(net_pool()) >= left)
			hoard[hoarded++] = rte_pktmbuf_alloc(net_pool());
		break;
	default:
		break;
	}
}

static void
run_starve(struct props *p)
{
	hoard_free();
	props_draw_path(p);
	if (props_chance(p, 50))
		props_draw_faults(p, 5);
	props_draw_attr(p);
	p->stale_port = true;
	props_up(p);
	props_draw_app(p, &p->net.accept_as, 250000);
	props_connect(p, 250000);
	p->act = starve_act;
	p->next_ns = sim_now_ns(p->net.sim) + props_rand(p, 1 + props_rtt_ns(p));
	finish(p);
	starve_act(p);
	hoard_free();
	p->net.node[0].tx_stuck = p->net.node[1].tx_stuck = false;
	p->net.node[0].tx_limit = p->net.node[1].tx_limit = 0;
	CHECK_EQ(p->net.napps, 2);
	props_check_complete(p, &p->net.app[0], &p->net.app[1]);
	props_down(p);
}

void
test_starve(void)
{
	props_each(400, run_starve);
}

/* ---- One end leaves during the transfer ---- */

static void
abort_act(struct props *p)
{
	struct net_app *a = &p->net.app[props_rand(p, p->net.napps)];

	if (a->c == NULL)
		return;
	weft_tcp_abort(a->c, sim_now_ns(p->net.sim));
	a->c = NULL;
	a->closed = true;
	a->err = -ECONNABORTED;
}

static void
run_abort(struct props *p)
{
	props_draw_path(p);
	props_draw_faults(p, 10);
	props_draw_attr(p);
	/* A lost RST is detected when segments are sent (RFC 9293 s3.5.1: half-open
	 * connections). */
	for (unsigned int i = 0; i < 2; i++) {
		p->attr[i].keepalive_us = 2000000;
		p->attr[i].keepalive_intvl_us = 500000;
		p->attr[i].keepalive_probes = 40;
	}
	p->strangers = true;
	props_up(p);
	props_draw_app(p, &p->net.accept_as, 250000);
	props_connect(p, 250000);
	p->act = abort_act;
	p->next_ns = sim_now_ns(p->net.sim) + props_log(p, 1000, 8 * props_rtt_ns(p));
	finish(p);
	for (unsigned int i = 0; i < p->net.napps; i++) {
		const struct net_app *a = &p->net.app[i];

		CHECK(!a->bad_data && !a->torn);
		/* Refused: our connection was gone when the SYN was repeated. */
		CHECK_MSG(a->err == 0 || a->err == -ECONNABORTED || a->err == -ECONNRESET, "%d",
		          a->err);
		CHECK_MSG(a->err != 0 || a->eof, "an end without an end");
	}
	props_down(p);
}

void
test_abort(void)
{
	props_each(1500, run_abort);
}

/* ---- Both ends open, and both close ---- */

static void
both_open_act(struct props *p)
{
	struct net_app *b = &p->net.app[p->net.napps++];
	struct weft_tcp_info info;

	weft_tcp_info(p->net.app[0].c, &info);
	memset(b, 0, sizeof(*b));
	b->node = &p->net.node[1];
	b->tx_key = 200;
	b->rx_key = 100;
	props_draw_app(p, b, 100000);
	CHECK_EQ(net_connect_from(b, 7, info.local_port), 0);
}

static void
run_both_open(struct props *p)
{
	props_draw_path(p);
	props_draw_faults(p, 20);
	props_draw_attr(p);
	props_up(p);
	weft_tcp_unlisten(p->net.node[1].tcp, p->net.listener);
	props_connect(p, 100000);
	/* Before the other's SYN arrives, because it would be answered with a RST. */
	p->act = both_open_act;
	p->next_ns = sim_now_ns(p->net.sim) + props_rand(p, p->cfg[0].delay_ns);
	CHECK(!net_run(&p->net, p->cfg[0].delay_ns, NULL, NULL));
	finish_one(p);
}

void
test_both_open(void)
{
	props_each(1000, run_both_open);
}

/* ---- The path MTU falls ---- */

static void
mtu_act(struct props *p)
{
	unsigned int ends = 1 + (unsigned int)props_rand(p, 3);
	uint16_t mtu = (uint16_t)(576 + props_rand(p, p->mtu_bytes - 576u));
	bool silent = props_chance(p, 50), old = props_chance(p, 20);

	for (unsigned int i = 0; i < 2; i++) {
		struct sim_link_cfg c = p->cfg[i];

		if ((ends >> i & 1) == 0)
			continue;
		c.mtu_bytes = mtu;
		c.mtu_silent = silent;
		c.mtu_old = old;
		sim_link_set(p->net.link, i, &c);
	}
}

static void
run_mtu(struct props *p)
{
	props_draw_path(p);
	p->mtu_bytes = props_chance(p, 50) ? 1500 : 9000;
	if (props_chance(p, 50))
		props_draw_faults(p, 3);
	props_draw_attr(p);
	p->may_split = true;
	props_up(p);
	props_draw_app(p, &p->net.accept_as, 250000);
	props_connect(p, 250000);
	p->act = mtu_act;
	p->next_ns = sim_now_ns(p->net.sim) + props_log(p, 1000, 8 * props_rtt_ns(p));
	finish_one(p);
}

void
test_mtu(void)
{
	props_each(1000, run_mtu);
}

/* ---- A peer that restarted ---- */

static void
run_restart(struct props *p)
{
	unsigned int node = (unsigned int)props_rand(p, 2);
	struct net_app *stale, *fresh;
	struct weft_tcp_info info;

	props_draw_path(p);
	props_draw_faults(p, 5);
	props_draw_attr(p);
	for (unsigned int i = 0; i < 2; i++) {
		p->attr[i].keepalive_us = 2000000;
		p->attr[i].keepalive_intvl_us = 500000;
		p->attr[i].keepalive_probes = 40;
	}
	p->strangers = true;
	props_up(p);
	props_draw_app(p, &p->net.accept_as, 100000);
	p->net.accept_as.close_when_sent = false;
	props_connect(p, 100000)->close_when_sent = false;
	CHECK(net_run(&p->net, 4000 * WEFT_NS_PER_S, accepted, p));
	net_run(&p->net, props_log(p, 1000, 20 * props_rtt_ns(p)), NULL, NULL);
	CHECK_EQ(p->net.napps, 2);
	weft_tcp_info(p->net.app[0].c, &info);
	stale = &p->net.app[1 - node];
	CHECK(stale->c != NULL);
	net_restart(&p->net, node, &p->attr[node]);
	/* RFC 9293 s3.5.1: the survivor learns of it by the RST for its segments. */
	if (node == 1) {
		net_listen(&p->net, 1);
		if (props_chance(p, 50))
			finish(p);
		fresh = props_connect(p, 100000);
	} else if (props_chance(p, 50)) {
		finish(p);
		fresh = props_connect(p, 100000);
	} else {
		/* Figure 9: a SYN for the survivor's connection. The survivor sends an ACK, and
		 * gets a RST. */
		fresh = &p->net.app[p->net.napps++];
		memset(fresh, 0, sizeof(*fresh));
		fresh->node = &p->net.node[0];
		fresh->tx_key = 100;
		fresh->rx_key = 200;
		props_draw_app(p, fresh, 100000);
		CHECK_EQ(net_connect_from(fresh, info.local_port, 7), 0);
	}
	p->net.accept_as.close_when_sent = true;
	finish(p);
	CHECK_MSG(stale->err == -ECONNRESET, "%d", stale->err);
	CHECK_EQ(p->net.napps, 4);
	props_check_complete(p, fresh, &p->net.app[3]);
	props_down(p);
}

void
test_restart(void)
{
	props_each(1000, run_restart);
}
