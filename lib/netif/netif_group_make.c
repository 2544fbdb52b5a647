/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Groups as a whole: creation, rings, what a group has, and its end. */

#include <rte_malloc.h>

#include "netif_group_member.h"

#define GROUP_RING     1024
#define GROUP_RING_MIN 32
#define GROUP_RETA     128

static struct rte_ring *
group_ring(unsigned int size, int socket, unsigned int flags)
{
	ssize_t bytes = rte_ring_get_memsize(size);
	struct rte_ring *r;

	if (bytes < 0)
		return NULL;
	r = rte_zmalloc_socket("weft_ring", (size_t)bytes, RTE_CACHE_LINE_SIZE, socket);
	if (r != NULL && rte_ring_init(r, "weft_group", size, flags) != 0) {
		rte_free(r);
		return NULL;
	}
	return r;
}

static bool
group_attr_ok(const struct weft_netif_group_attr *a)
{
	if (a->members == 0 || a->members > WEFT_GROUP_MEMBERS)
		return false;
	if ((a->rx_queues != 1 && a->rx_queues != a->members) ||
	    (a->tx_queues != 1 && a->tx_queues != a->members))
		return false;
	if (a->key != NULL &&
	    (a->key_bytes < WEFT_GROUP_KEY_MIN || a->key_bytes > WEFT_GROUP_KEY_MAX))
		return false;
	/* The size of a ring is a power of two. One entry stays empty. */
	if (a->ring_size != 0 && (!rte_is_power_of_2(a->ring_size) || a->ring_size < 2))
		return false;
	if (a->reta == NULL)
		return true;
	if (!rte_is_power_of_2(a->reta_size) || a->reta_size > WEFT_GROUP_RETA_MAX)
		return false;
	for (unsigned int i = 0; i < a->reta_size; i++)
		if (a->reta[i] >= a->members)
			return false;
	return true;
}

/** Rings for received frames. Without RSS the ring of member 0 stays empty. */
static unsigned int
group_rings(const struct weft_netif_group_attr *a)
{
	return a->rx_queues > 1 ? a->members : a->members - 1;
}

static unsigned int
group_ring_size(const struct weft_netif_group_attr *a)
{
	unsigned int most;

	if (a->ring_size != 0 || a->pool_mbufs == 0 || group_rings(a) == 0)
		return a->ring_size != 0 ? a->ring_size : GROUP_RING;
	most = rte_align32prevpow2(RTE_MAX(a->pool_mbufs / 8 / group_rings(a), 1u));
	most = RTE_MAX(most, (unsigned int)GROUP_RING_MIN);
	return RTE_MIN(most, (unsigned int)GROUP_RING);
}

int
weft_netif_group_create(const struct weft_netif_group_attr *a, struct weft_netif_group **out)
{
	unsigned int ring;
	bool rss = a->rx_queues > 1;
	uint16_t reta[GROUP_RETA];
	struct weft_netif_group *g;

	if (!group_attr_ok(a))
		return -EINVAL;
	ring = group_ring_size(a);
	g = rte_zmalloc_socket("weft_group", sizeof(*g) + a->members * sizeof(g->member[0]),
	                       RTE_CACHE_LINE_SIZE, a->socket);
	if (g == NULL)
		return -ENOMEM;
	g->rss = rss;
	if (rss) {
		g->flows = rte_zmalloc_socket("weft_flows", sizeof(*g->flows), RTE_CACHE_LINE_SIZE,
		                              a->socket);
		g->learn = rte_zmalloc_socket("weft_learn", sizeof(*g->learn), RTE_CACHE_LINE_SIZE,
		                              a->socket);
	}
	if (rss && (g->flows == NULL || g->learn == NULL)) {
		weft_netif_group_destroy(g);
		return -ENOMEM;
	}
	g->ring_mbufs = group_rings(a) * ring;
	for (unsigned int i = 0; i < GROUP_RETA; i++)
		reta[i] = (uint16_t)(i % a->members);
	netif_steer_init(&g->steer, a->members, a->key != NULL ? a->key : netif_rss_key,
	                 a->reta != NULL ? a->reta : reta,
	                 a->reta != NULL ? a->reta_size : GROUP_RETA);
	if (rss) {
		netif_flow_init(g->flows, a->members, g->steer.reta, g->steer.reta_mask + 1);
		netif_learn_init(g->learn, g->steer.reta, g->steer.reta_mask + 1);
		if (a->astray)
			netif_flow_adopt(g->flows);
	}
	for (unsigned int i = 0; i < a->members; i++) {
		struct group_member *m = &g->member[i];

		m->g = g;
		m->index = i;
		m->rx = rss || i == 0;
		m->tx = a->tx_queues > 1 || i == 0;
		/*
		 * Only members with a receive queue hand frames over. With several producers, none
		 * waits for another that was interrupted (relaxed tail sync).
		 */
		m->in = group_ring(ring, a->socket,
		                   RING_F_SC_DEQ | (rss ? RING_F_MP_RTS_ENQ : RING_F_SP_ENQ));
		if (m->in != NULL && !m->tx)
			/* Its frames are from the transmit pool, and counted there. */
			m->relay = group_ring(a->ring_size != 0 ? a->ring_size : GROUP_RING,
			                      a->socket, RING_F_SP_ENQ | RING_F_SC_DEQ);
		if (m->in == NULL || (!m->tx && m->relay == NULL)) {
			weft_netif_group_destroy(g);
			return -ENOMEM;
		}
	}
	*out = g;
	return 0;
}

unsigned int
netif_group_ring_drop(struct rte_ring *r)
{
	unsigned int n = 0;
	void *m;

	for (; rte_ring_sc_dequeue(r, &m) == 0; n++)
		rte_pktmbuf_free(m);
	return n;
}

static void
group_ring_free(struct rte_ring *r)
{
	if (r == NULL)
		return;
	(void)netif_group_ring_drop(r);
	rte_free(r);
}

void
weft_netif_group_destroy(struct weft_netif_group *g)
{
	if (g == NULL)
		return;
	for (unsigned int i = 0; i < g->steer.members; i++) {
		group_ring_free(g->member[i].in);
		group_ring_free(g->member[i].relay);
	}
	rte_free(g->flows);
	rte_free(g->learn);
	rte_free(g);
}

uint32_t
weft_netif_group_ring_mbufs(const struct weft_netif_group *g)
{
	return g->ring_mbufs;
}

unsigned int
weft_netif_group_members(const struct weft_netif_group *g)
{
	return g->steer.members;
}

bool
weft_netif_group_has_rss(const struct weft_netif_group *g)
{
	return g->rss;
}

const struct weft_netif_group_stats *
weft_netif_group_stats(const struct weft_netif_group *g, unsigned int member)
{
	return &g->member[member].stats;
}
