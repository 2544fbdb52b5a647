/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Neighbours: a bounded cache of next hops for both families. ARP and Neighbor Discovery are
 * two ways to ask; when to ask, how often, and what waits meanwhile is the same for both.
 */

#include <assert.h>

#include "netif_priv.h"

#define NEIGH_RETRY_NS  (1 * WEFT_NS_PER_S) /* RFC 1122 s2.3.2.1, RFC 4861 s10 RETRANS_TIMER */
#define NEIGH_TRIES     3 /* to everybody (RFC 4861 MAX_MULTICAST_SOLICIT), then it is given up */
#define NEIGH_PROBES    3 /* to it alone (MAX_UNICAST_SOLICIT), then to everybody */
#define NEIGH_WINDOW_NS (100 * WEFT_NS_PER_MS)
/* Requests per window over all neighbours: strangers must not drive us. */
#define NEIGH_WINDOW_LIMIT 64

/* ---- The cache ---- */

static struct neigh_bucket *
neigh_bucket(struct weft_netif *nif, const struct weft_ip *addr)
{
	uint64_t a, b;

	memcpy(&a, &addr->b[0], sizeof(a));
	memcpy(&b, &addr->b[8], sizeof(b));
	a = (a ^ b) * 0x9e3779b97f4a7c15ULL;
	return &nif->bucket[a >> 56];
}

static_assert(NETIF_NEIGH_BUCKETS == 256, "the hash keeps eight bits");

struct weft_neigh *
netif_neigh_find(struct weft_netif *nif, const struct weft_ip *addr)
{
	struct weft_neigh *n;

	LIST_FOREACH (n, neigh_bucket(nif, addr), chain)
		if (weft_ip_eq(&n->addr, addr))
			return n;
	return NULL;
}

static void
neigh_drop_parked(struct weft_neigh *n)
{
	struct rte_mbuf *m;

	while ((m = netif_unpark(n)) != NULL) {
		n->nif->stats.tx_unresolved++;
		rte_pktmbuf_free(m);
	}
}

struct weft_neigh *
netif_neigh_make(struct weft_netif *nif, const struct weft_ip *addr)
{
	struct weft_neigh *n = netif_neigh_find(nif, addr);

	if (n != NULL)
		return n;
	n = TAILQ_FIRST(&nif->idle);
	if (n == NULL) {
		nif->stats.neigh_full++;
		return NULL;
	}
	weft_timer_cancel(&nif->sched->wheel, &n->timer);
	neigh_drop_parked(n);
	if (n->hashed) {
		LIST_REMOVE(n, chain);
		nif->stats.neigh_evicted++;
	}
	n->addr = *addr;
	n->state = NEIGH_NONE;
	n->tries = 0;
	n->asked_ns = 0;
	n->confirmed_ns = 0;
	n->hashed = true;
	LIST_INSERT_HEAD(neigh_bucket(nif, addr), n, chain);
	TAILQ_REMOVE(&nif->idle, n, idle);
	TAILQ_INSERT_TAIL(&nif->idle, n, idle);
	return n;
}

/* One more request, by unicast while the old answer may still be right. */
static void
neigh_ask(struct weft_neigh *n)
{
	struct weft_netif *nif = n->nif;
	const struct rte_ether_addr *mac = n->state == NEIGH_PROBE ? &n->mac : NULL;
	uint64_t now_ns = netif_now(nif);

	weft_timer_arm(&nif->sched->wheel, &n->timer, now_ns + NEIGH_RETRY_NS);
	n->asked_ns = now_ns;
	n->tries++;
	if (now_ns - nif->ask_window_ns >= NEIGH_WINDOW_NS) {
		nif->ask_window_ns = now_ns;
		nif->asked = 0;
	}
	if (nif->asked >= NEIGH_WINDOW_LIMIT) {
		nif->stats.neigh_limited++;
		return; /* the retry is this one's turn */
	}
	nif->asked++;
	if (weft_ip_is_v4(&n->addr))
		netif_arp_ask(nif, weft_ip_v4(&n->addr), mac);
	else
		netif_nd_ask(nif, &n->addr, mac);
}

static void
neigh_start(struct weft_neigh *n, enum neigh_state state)
{
	n->state = state;
	n->tries = 0;
	neigh_ask(n);
}

static void
neigh_timer(struct weft_timer *t, uint64_t now_ns)
{
	struct weft_neigh *n = container_of(t, struct weft_neigh, timer);
	char buf[WEFT_ADDR_STR_LEN];

	n->nif->now_ns = RTE_MAX(n->nif->now_ns, now_ns);
	switch ((enum neigh_state)n->state) {
	case NEIGH_INCOMPLETE:
		if (n->tries < NEIGH_TRIES) {
			neigh_ask(n);
			break;
		}
		n->state = NEIGH_FAILED;
		n->nif->stats.neigh_failed++;
		neigh_drop_parked(n);
		WEFT_LOG_PEER(netif, INFO, "%s does not answer %s", weft_ip_str(&n->addr, buf),
		              weft_ip_is_v4(&n->addr) ? "ARP" : "neighbor solicitations");
		break;
	case NEIGH_PROBE:
		if (n->tries < NEIGH_PROBES)
			neigh_ask(n);
		else
			neigh_start(n, NEIGH_INCOMPLETE);
		break;
	default: /* answered meanwhile */
		break;
	}
}

void
netif_neigh_confirm(struct weft_neigh *n, const struct rte_ether_addr *mac, bool proven)
{
	struct weft_netif *nif = n->nif;
	struct rte_mbuf *m;

	n->mac = *mac;
	n->state = NEIGH_REACHABLE;
	n->confirmed_ns = netif_now(nif) - (proven ? 0 : NETIF_NEIGH_FRESH_NS);
	weft_timer_cancel(&nif->sched->wheel, &n->timer);
	while ((m = netif_unpark(n)) != NULL) {
		rte_pktmbuf_mtod(m, struct rte_ether_hdr *)->dst_addr = *mac;
		netif_enqueue(nif, m, false);
	}
}

int
netif_neigh_tx(struct weft_netif *nif, struct weft_neigh *n, struct rte_mbuf *m)
{
	switch ((enum neigh_state)n->state) {
	case NEIGH_REACHABLE: /* too long ago to be sure */
		neigh_start(n, NEIGH_PROBE);
		break;
	case NEIGH_PROBE:
	case NEIGH_INCOMPLETE:
		break;
	case NEIGH_FAILED:
		if (netif_now(nif) - n->asked_ns < NEIGH_RETRY_NS) {
			nif->stats.tx_unresolved++;
			rte_pktmbuf_free(m);
			return 0;
		}
		/* fall through */
	case NEIGH_NONE:
		neigh_start(n, NEIGH_INCOMPLETE);
		break;
	}
	if (n->state == NEIGH_PROBE) {
		rte_pktmbuf_mtod(m, struct rte_ether_hdr *)->dst_addr = n->mac;
		return netif_enqueue(nif, m, false);
	}
	netif_park(n, m);
	return 0;
}

int
weft_netif_neigh_get(struct weft_netif *nif, const struct weft_ip *dst, struct weft_neigh **out)
{
	struct weft_neigh *n;

	if (!weft_netif_reaches(nif, dst, true)) {
		nif->stats.tx_no_route++;
		return -EHOSTUNREACH;
	}
	n = netif_neigh_make(nif, weft_netif_reaches(nif, dst, false) ? dst
	                          : weft_ip_is_v4(dst)                ? &nif->attr.gateway
	                                                              : &nif->attr.gateway6);
	if (n == NULL)
		return -ENOBUFS;
	if (n->refs++ == 0)
		TAILQ_REMOVE(&nif->idle, n, idle);
	if (n->state == NEIGH_NONE)
		neigh_start(n, NEIGH_INCOMPLETE);
	*out = n;
	return 0;
}

void
weft_netif_neigh_put(struct weft_netif *nif, struct weft_neigh *n)
{
	RTE_ASSERT(n->refs > 0);
	if (--n->refs == 0)
		TAILQ_INSERT_TAIL(&nif->idle, n, idle);
}

void
weft_netif_neigh_suspect(struct weft_netif *nif, struct weft_neigh *n)
{
	/* An answer within the last second settles it. */
	if (n->state == NEIGH_REACHABLE && netif_now(nif) - n->confirmed_ns >= NEIGH_RETRY_NS)
		neigh_start(n, NEIGH_PROBE);
}

/* ---- Life ---- */

void
netif_neigh_init(struct weft_netif *nif)
{
	TAILQ_INIT(&nif->idle);
	for (unsigned int i = 0; i < NETIF_NEIGH_BUCKETS; i++)
		LIST_INIT(&nif->bucket[i]);
	for (unsigned int i = 0; i < NETIF_NEIGHS; i++) {
		struct weft_neigh *n = &nif->neigh[i];

		n->nif = nif;
		weft_timer_init(&n->timer, neigh_timer);
		TAILQ_INSERT_TAIL(&nif->idle, n, idle);
	}
	netif_park_init(nif);
}

void
netif_neigh_fini(struct weft_netif *nif)
{
	for (unsigned int i = 0; i < NETIF_NEIGHS; i++) {
		struct weft_neigh *n = &nif->neigh[i];

		RTE_ASSERT(n->refs == 0);
		weft_timer_cancel(&nif->sched->wheel, &n->timer);
		neigh_drop_parked(n);
	}
}
