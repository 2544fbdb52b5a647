/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Neighbours: a bounded cache of next hops for both families. ARP and Neighbor Discovery are
 * two ways to ask, given at creation. When to ask, how often, and which frames wait meanwhile is
 * the same for both.
 */

#include <rte_malloc.h>

#include "netif_neigh.h"
#include "netif_net.h"
#include "netif_park.h"
#include "netif_txq.h"
#include "weft_netif_addr.h"
#include "weft_siphash.h"

#define NEIGH_RETRY_NS (1 * WEFT_NS_PER_S) /* RFC 1122 s2.3.2.1, RFC 4861 s10 RETRANS_TIMER */
/* broadcast or multicast (RFC 4861 MAX_MULTICAST_SOLICIT), then the neighbour has failed */
#define NEIGH_TRIES  3
#define NEIGH_PROBES 3 /* unicast (MAX_UNICAST_SOLICIT), then broadcast or multicast */
/* Limits of the requests for all neighbours of one kind. Strangers must not cause more. */
#define NEIGH_ASK_BURST  64
#define NEIGH_ASK_PER_S  640
#define NEIGH_LIMITED_NS (100 * WEFT_NS_PER_MS) /* delay of a request that met the limit */

/* ---- The cache ---- */

static struct neigh_bucket *
neigh_bucket(struct weft_netif *nif, const struct weft_ip *addr)
{
	uint64_t w[2];

	/* With a secret key: a stranger chooses the addresses that are entered. */
	memcpy(w, addr->b, sizeof(w));
	return &nif->bucket[weft_siphash(nif->hash_key, w, 2, 1, 3) >> (64 - nif->bucket_bits)];
}

struct weft_neigh *
netif_neigh_find(const struct netif_vlan *v, const struct weft_ip *addr)
{
	struct weft_neigh *n;

	LIST_FOREACH (n, neigh_bucket(v->nif, addr), chain)
		if (weft_ip_eq(&n->addr, addr) && n->vlan == v)
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

/* No connection holds the entry any more: puts it into an idle list, where it may be replaced. */
static void
neigh_idle(struct weft_neigh *n)
{
	struct weft_netif *nif = n->nif;

	if (n->pinned)
		return;
	if (n->answered) {
		TAILQ_INSERT_TAIL(&nif->idle, n, idle);
		return;
	}
	TAILQ_INSERT_TAIL(&nif->strangers, n, idle);
	nif->nstrangers++;
}

static void
neigh_not_idle(struct weft_neigh *n)
{
	struct weft_netif *nif = n->nif;

	if (n->pinned)
		return;
	if (n->answered) {
		TAILQ_REMOVE(&nif->idle, n, idle);
		return;
	}
	TAILQ_REMOVE(&nif->strangers, n, idle);
	nif->nstrangers--;
}

/*
 * The entry to replace. Neighbours that never answered go before those that did. But they keep a
 * quarter of the places, so that an existing neighbour is known long enough to answer during a
 * flood.
 */
static struct weft_neigh *
neigh_victim(const struct weft_netif *nif)
{
	struct weft_neigh *stranger = TAILQ_FIRST(&nif->strangers),
	                  *known = TAILQ_FIRST(&nif->idle);

	if (stranger == NULL || known == NULL)
		return stranger != NULL ? stranger : known;
	return !stranger->hashed || nif->nstrangers >= nif->nneighs / 4 ? stranger : known;
}

struct weft_neigh *
netif_neigh_make(struct netif_vlan *v, const struct weft_ip *addr)
{
	struct weft_neigh *n = netif_neigh_find(v, addr);
	struct weft_netif *nif = v->nif;

	if (n != NULL)
		return n;
	n = neigh_victim(nif);
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
	neigh_not_idle(n);
	n->addr = *addr;
	n->vlan = v;
	n->vlan_id = v->id;
	n->state = NEIGH_NONE;
	n->tries = 0;
	n->asked_ns = 0;
	n->confirmed_ns = 0;
	n->progress.seen_ns = 0;
	n->answered = false;
	n->hashed = true;
	LIST_INSERT_HEAD(neigh_bucket(nif, addr), n, chain);
	neigh_idle(n);
	return n;
}

/* Takes a token if `b` has one at now_ns. `b` holds `burst` tokens and gains per_s a second. */
static bool
neigh_bucket_take(struct netif_bucket *b, uint64_t now_ns, uint32_t burst, uint32_t per_s)
{
	uint64_t step_ns = WEFT_NS_PER_S / per_s;
	uint64_t gained = (now_ns - b->since_ns) / step_ns;

	if (b->since_ns == 0 || gained >= burst) {
		b->since_ns = now_ns;
		b->tokens = burst;
	} else {
		b->since_ns += gained * step_ns;
		b->tokens = RTE_MIN(burst, b->tokens + (uint32_t)gained);
	}
	if (b->tokens == 0)
		return false;
	b->tokens--;
	return true;
}

/*
 * Sends one more request, by unicast while the old answer may still be right. A request that could
 * not be sent does not count as a try: the neighbour's silence then means nothing.
 */
static void
neigh_ask(struct weft_neigh *n)
{
	struct weft_netif *nif = n->nif;
	const struct rte_ether_addr *mac = n->state == NEIGH_PROBE ? &n->mac : NULL;
	unsigned int asker =
	        (n->refs > 0 ? NETIF_ASK_HELD : 0) | (n->answered ? NETIF_ASK_ANSWERED : 0);
	uint64_t now_ns = netif_now(nif);
	bool sent;

	n->asked_ns = now_ns;
	if (nif->attr.shared && weft_netif_is_local(nif, &n->addr)) {
		/* The owner of the port's device returns frames for our address. */
		netif_neigh_confirm(n, &nif->attr.mac, true);
		return;
	}
	if (!neigh_bucket_take(&nif->ask_rate[asker], now_ns, NEIGH_ASK_BURST, NEIGH_ASK_PER_S)) {
		nif->stats.neigh_limited++;
		n->tries += asker == 0; /* requests for strangers end soon */
		weft_timer_arm(&nif->sched->wheel, &n->timer,
		               now_ns + (asker == 0 ? NEIGH_RETRY_NS : NEIGH_LIMITED_NS));
		return;
	}
	weft_timer_arm(&nif->sched->wheel, &n->timer, now_ns + NEIGH_RETRY_NS);
	sent = (weft_ip_is_v4(&n->addr) ? nif->ask4 : nif->ask6)(n->vlan, &n->addr, mac);
	n->tries += sent;
	if (!sent && mac == NULL)
		/* no mbufs: the frames that wait here must not be the reason */
		neigh_drop_parked(n);
}

/* Whether TCP saw progress recently or since the last request. Progress counts as an answer. */
static bool
neigh_progress(struct weft_neigh *n)
{
	uint64_t seen_ns = n->progress.seen_ns;

	if (seen_ns == 0 || (int64_t)(netif_now(n->nif) - seen_ns) >= (int64_t)NETIF_NEIGH_FRESH_NS)
		return false;
	n->confirmed_ns = RTE_MAX(n->confirmed_ns, seen_ns);
	n->state = NEIGH_REACHABLE;
	weft_timer_cancel(&n->nif->sched->wheel, &n->timer);
	return true;
}

static void
neigh_start(struct weft_neigh *n, enum neigh_state state)
{
	n->state = state;
	n->tries = 0;
	n->progress.seen_ns = 0;
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
		if (neigh_progress(n))
			break;
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
	n->progress.seen_ns = 0; /* the progress may have been by another station */
	if (!n->answered) {
		if (n->refs == 0)
			neigh_not_idle(n);
		n->answered = true;
		if (n->refs == 0)
			neigh_idle(n);
	}
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
	case NEIGH_REACHABLE: /* too old, unless TCP saw progress (RFC 4861 s7.3.1) */
		if (!neigh_progress(n))
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
	if (n->state == NEIGH_PROBE || n->state == NEIGH_REACHABLE) {
		rte_pktmbuf_mtod(m, struct rte_ether_hdr *)->dst_addr = n->mac;
		return netif_enqueue(nif, m, false);
	}
	netif_park(n, m);
	return 0;
}

int
weft_netif_neigh_passing(struct weft_netif *nif, const struct weft_ip *src,
                         const struct weft_ip *dst, struct weft_neigh **out)
{
	struct netif_route r;

	if (!netif_route(nif, src, dst, &r)) {
		nif->stats.tx_no_route++;
		return -EHOSTUNREACH;
	}
	*out = netif_neigh_make(r.vlan, r.hop);
	return *out == NULL ? -ENOBUFS : 0;
}

int
weft_netif_neigh_get(struct weft_netif *nif, const struct weft_ip *src, const struct weft_ip *dst,
                     struct weft_neigh **out)
{
	struct weft_neigh *n;
	int rc = weft_netif_neigh_passing(nif, src, dst, &n);

	if (rc != 0)
		return rc;
	if (n->refs++ == 0)
		neigh_not_idle(n);
	if (n->state == NEIGH_NONE)
		neigh_start(n, NEIGH_INCOMPLETE);
	*out = n;
	return 0;
}

void
weft_netif_neigh_put(struct weft_netif *nif, struct weft_neigh *n)
{
	RTE_ASSERT(n->refs > 0 && n->nif == nif);
	RTE_SET_USED(nif);
	if (--n->refs == 0)
		neigh_idle(n);
}

void
weft_netif_neigh_unconfirmed(struct weft_netif *nif, struct weft_neigh *n)
{
	uint64_t last_ns = RTE_MAX(n->confirmed_ns, n->progress.seen_ns);

	/* An answer or progress within the last second is enough. */
	if (n->state == NEIGH_REACHABLE && netif_now(nif) >= last_ns + NEIGH_RETRY_NS)
		neigh_start(n, NEIGH_PROBE);
}

/* ---- Creation and end ---- */

static void
neigh_pin(const struct netif_net *net)
{
	struct weft_neigh *n;

	if (netif_ip_is_none(&net->gateway))
		return;
	n = netif_neigh_make(net->vlan, &net->gateway);
	if (n->pinned)
		return; /* another network has the same gateway */
	neigh_not_idle(n);
	n->pinned = true;
}

static void
neigh_free(struct weft_netif *nif)
{
	rte_free(nif->bucket);
	rte_free(nif->neigh);
	rte_free(nif->park);
}

bool
netif_neigh_init(struct weft_netif *nif, netif_ask_fn ask4, netif_ask_fn ask6)
{
	struct weft_netif_attr *a = &nif->attr;
	uint32_t nbuckets;

	nif->ask4 = ask4;
	nif->ask6 = ask6;
	if (a->max_neighs == 0)
		a->max_neighs = NETIF_NEIGHS;
	nif->nneighs = a->max_neighs;
	for (unsigned int i = 0; i < nif->nnets_conf; i++)
		nif->nneighs += !netif_ip_is_none(&nif->net[i].gateway);
	nbuckets = rte_align32pow2(RTE_MAX(nif->nneighs, 256u));
	nif->bucket_bits = rte_bsf32(nbuckets);
	nif->bucket = rte_zmalloc("weft_neigh", nbuckets * sizeof(nif->bucket[0]), 0);
	nif->neigh = rte_zmalloc("weft_neigh", nif->nneighs * sizeof(nif->neigh[0]),
	                         RTE_CACHE_LINE_SIZE);
	nif->park = rte_zmalloc("weft_park",
	                        (nif->nneighs * (size_t)NETIF_PARK_OWN + NETIF_PARK_SHARED) *
	                                sizeof(nif->park[0]),
	                        RTE_CACHE_LINE_SIZE);
	if (nif->bucket == NULL || nif->neigh == NULL || nif->park == NULL) {
		neigh_free(nif);
		return false;
	}
	TAILQ_INIT(&nif->idle);
	TAILQ_INIT(&nif->strangers);
	for (uint32_t i = 0; i < nif->nneighs; i++) {
		struct weft_neigh *n = &nif->neigh[i];

		n->nif = nif;
		weft_timer_init(&n->timer, neigh_timer);
		neigh_idle(n);
	}
	netif_park_init(nif);
	for (unsigned int i = 0; i < nif->nnets_conf; i++)
		neigh_pin(&nif->net[i]);
	return true;
}

void
netif_neigh_fini(struct weft_netif *nif)
{
	for (uint32_t i = 0; i < nif->nneighs; i++) {
		struct weft_neigh *n = &nif->neigh[i];

		RTE_ASSERT(n->refs == 0);
		weft_timer_cancel(&nif->sched->wheel, &n->timer);
		neigh_drop_parked(n);
	}
	neigh_free(nif);
}

/* ---- For people ---- */

int
weft_netif_neigh_next(const struct weft_netif *nif, uint32_t *i, struct weft_netif_neigh_info *out)
{
	static const char *const name[] = {
	        [NEIGH_NONE] = "not asked",      [NEIGH_INCOMPLETE] = "incomplete",
	        [NEIGH_REACHABLE] = "reachable", [NEIGH_PROBE] = "probe",
	        [NEIGH_FAILED] = "failed",
	};

	for (; *i < nif->nneighs; ++*i) {
		const struct weft_neigh *n = &nif->neigh[*i];

		if (!n->hashed)
			continue;
		*out = (struct weft_netif_neigh_info){
		        .addr = n->addr,
		        .vlan_id = n->vlan_id,
		        .state = name[n->state],
		        .gateway = n->pinned,
		        .refs = n->refs,
		        .heard_ns = RTE_MAX(n->confirmed_ns, n->progress.seen_ns),
		};
		if (n->state == NEIGH_REACHABLE || n->state == NEIGH_PROBE)
			out->mac = n->mac;
		++*i;
		return 0;
	}
	return -ENOENT;
}
