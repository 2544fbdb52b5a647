/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Frames that wait for a neighbour's address. The first segment of each connection matters
 * most: it starts the connection (a SYN) or continues it (the oldest missing segment). So the burst
 * of one connection never takes the place of another connection's first segment, nor of its own. Of
 * the other segments, the earliest and the latest one stay (RFC 1122 s2.3.2.2). All waiting frames
 * together are a part of the transmit pool (weft_netif_budget.h). So neighbours that do not answer
 * never take the buffers that answers to others need.
 */

#include "netif_hdr.h"
#include "netif_neigh.h"
#include "netif_park.h"
#include "netif_priv.h"
#include "weft_netif_budget.h"
#include "weft_siphash.h"

void
netif_park_init(struct weft_netif *nif)
{
	uint32_t all = nif->nneighs * NETIF_PARK_OWN + NETIF_PARK_SHARED;

	for (uint32_t i = 0; i < all; i++)
		nif->park[i].next = i + 1 < all ? i + 1 : NETIF_PARK_NONE;
	nif->park_free = 0;
	for (uint32_t i = 0; i < nif->nneighs; i++)
		nif->neigh[i].park_head = nif->neigh[i].park_tail = NETIF_PARK_NONE;
}

/* A 32-bit hash of the frame's connection. Two connections with the same hash share a place. */
static uint32_t
park_flow(const struct weft_netif *nif, const struct rte_mbuf *m)
{
	const uint8_t *ip = rte_pktmbuf_mtod_offset(m, const uint8_t *, m->l2_len);
	uint64_t w[3] = {weft_get_be32(ip + m->l3_len)}; /* the ports */

	/* With a secret key: a peer chooses its port, and must not imitate another connection. */
	if (m->l3_len == NETIF_IPV4_LEN)
		w[1] = weft_get_be32(ip + 16);
	else
		memcpy(&w[1], ip + 24, 16);
	return (uint32_t)weft_siphash(nif->hash_key, w, RTE_DIM(w), 1, 3);
}

static inline unsigned int
park_count(const struct weft_neigh *n)
{
	return n->park_firsts + n->park_more;
}

/* Frees the place behind prev (NONE: at the head). Returns its frame, which the caller owns. */
static struct rte_mbuf *
park_take(struct weft_neigh *n, uint32_t prev)
{
	struct weft_netif *nif = n->nif;
	uint32_t *link = prev == NETIF_PARK_NONE ? &n->park_head : &nif->park[prev].next;
	uint32_t i = *link;
	struct netif_parked *p = &nif->park[i];

	*link = p->next;
	if (n->park_tail == i)
		n->park_tail = prev;
	nif->park_shared -= park_count(n) > NETIF_PARK_OWN;
	if (p->first)
		n->park_firsts--;
	else
		n->park_more--;
	p->next = nif->park_free;
	nif->park_free = i;
	weft_netif_budget_give(&nif->stats.lent.park, 1);
	return p->m;
}

static void
park_refuse(struct weft_netif *nif, struct rte_mbuf *m)
{
	nif->stats.tx_unresolved++;
	nif->stats.tx_park_full++;
	rte_pktmbuf_free(m);
}

/* Whether the neighbour may have one more place, given what the others have. */
static bool
park_room(const struct weft_neigh *n, bool first)
{
	/* Other frames leave a quarter of the shared places to first segments. */
	uint32_t limit = first ? NETIF_PARK_SHARED : NETIF_PARK_SHARED / 4 * 3;

	if (!first && n->park_more == NETIF_PARK_MORE)
		return false;
	return park_count(n) < NETIF_PARK_OWN || n->nif->park_shared < limit;
}

void
netif_park(struct weft_neigh *n, struct rte_mbuf *m)
{
	uint32_t prev = NETIF_PARK_NONE, before_last_more = NETIF_PARK_NONE, at;
	struct weft_netif *nif = n->nif;
	uint32_t flow = park_flow(nif, m);
	bool first = true;

	for (uint32_t i = n->park_head; i != NETIF_PARK_NONE; prev = i, i = nif->park[i].next) {
		first = first && nif->park[i].flow != flow;
		if (!nif->park[i].first)
			before_last_more = prev;
	}
	if (first && n->park_firsts == NETIF_PARK_FLOWS) {
		park_refuse(nif, m);
		return;
	}
	if (!park_room(n, first) || !weft_netif_budget_take(&nif->stats.lent.park, 1)) {
		if (n->park_more == 0) {
			park_refuse(nif, m);
			return;
		}
		park_refuse(nif, park_take(n, before_last_more));
		(void)weft_netif_budget_take(&nif->stats.lent.park, 1); /* the place just freed */
	}
	at = nif->park_free;
	nif->park_free = nif->park[at].next;
	nif->park[at] = (struct netif_parked){
	        .m = m, .flow = flow, .next = NETIF_PARK_NONE, .first = first};
	if (n->park_tail == NETIF_PARK_NONE)
		n->park_head = at;
	else
		nif->park[n->park_tail].next = at;
	n->park_tail = at;
	if (first)
		n->park_firsts++;
	else
		n->park_more++;
	nif->park_shared += park_count(n) > NETIF_PARK_OWN;
	nif->stats.tx_parked++;
}

struct rte_mbuf *
netif_unpark(struct weft_neigh *n)
{
	return n->park_head == NETIF_PARK_NONE ? NULL : park_take(n, NETIF_PARK_NONE);
}
