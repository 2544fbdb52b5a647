/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Neighbours and ARP (RFC 826; conflicts after RFC 5227). */

#include <assert.h>

#include <rte_arp.h>

#include "netif_priv.h"

#define ARP_LEN       28
#define ARP_RETRY_NS  (1 * WEFT_NS_PER_S) /* RFC 1122 s2.3.2.1: at most one a second */
#define ARP_TRIES     3                   /* by broadcast, then the next hop is given up */
#define ARP_PROBES    3 /* by unicast, then by broadcast (RFC 1122 s2.3.2.1 (2)) */
#define ARP_DEFEND_NS (10 * WEFT_NS_PER_S) /* RFC 5227 s1.1 DEFEND_INTERVAL */
#define ARP_WINDOW_NS (100 * WEFT_NS_PER_MS)
#define ARP_WINDOW_LIMIT                                                                           \
	64 /* requests per window over all neighbours: strangers must not drive us */

/* ---- Frames ---- */

static void
arp_send(struct weft_netif *nif, uint16_t opcode, const struct rte_ether_addr *eth_dst,
         const struct rte_ether_addr *target_mac, uint32_t target_ip)
{
	struct rte_mbuf *m = weft_netif_alloc(nif, RTE_PKTMBUF_HEADROOM);
	struct rte_ether_hdr *eth;
	struct rte_arp_hdr *arp;

	if (m == NULL)
		return; /* whoever wanted it asks again */
	eth = (struct rte_ether_hdr *)rte_pktmbuf_append(m, NETIF_ETHER_LEN + ARP_LEN);
	eth->dst_addr = *eth_dst;
	eth->src_addr = nif->attr.mac;
	eth->ether_type = RTE_BE16(RTE_ETHER_TYPE_ARP);
	arp = (struct rte_arp_hdr *)(eth + 1);
	arp->arp_hardware = RTE_BE16(RTE_ARP_HRD_ETHER);
	arp->arp_protocol = RTE_BE16(RTE_ETHER_TYPE_IPV4);
	arp->arp_hlen = RTE_ETHER_ADDR_LEN;
	arp->arp_plen = sizeof(uint32_t);
	arp->arp_opcode = rte_cpu_to_be_16(opcode);
	arp->arp_data.arp_sha = nif->attr.mac;
	arp->arp_data.arp_sip = nif->addr4;
	arp->arp_data.arp_tha = *target_mac;
	arp->arp_data.arp_tip = target_ip;
	nif->stats.arp_tx++;
	netif_enqueue(nif, m, true);
}

static void
arp_request(struct weft_netif *nif, const struct rte_ether_addr *eth_dst, uint32_t target_ip)
{
	static const struct rte_ether_addr zero;

	arp_send(nif, RTE_ARP_OP_REQUEST, eth_dst, &zero, target_ip);
}

static const struct rte_ether_addr arp_everybody = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

void
netif_arp_announce(struct weft_netif *nif)
{
	arp_request(nif, &arp_everybody, nif->addr4); /* RFC 5227 s2.3 */
}

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

static struct weft_neigh *
neigh_find(struct weft_netif *nif, const struct weft_ip *addr)
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
	for (unsigned int i = 0; i < n->nparked; i++)
		rte_pktmbuf_free(n->parked[i]);
	n->nif->stats.tx_unresolved += n->nparked;
	n->nparked = 0;
}

/* The entry of addr, made if need be from one that nobody holds; NULL when all are held. */
static struct weft_neigh *
neigh_make(struct weft_netif *nif, const struct weft_ip *addr)
{
	struct weft_neigh *n = neigh_find(nif, addr);

	if (n != NULL)
		return n;
	n = TAILQ_FIRST(&nif->idle);
	if (n == NULL)
		return NULL; /* all are held */
	weft_timer_cancel(&nif->sched->wheel, &n->timer);
	neigh_drop_parked(n);
	if (n->hashed)
		LIST_REMOVE(n, chain);
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
	uint64_t now_ns = netif_now(nif);

	weft_timer_arm(&nif->sched->wheel, &n->timer, now_ns + ARP_RETRY_NS);
	n->asked_ns = now_ns;
	n->tries++;
	if (now_ns - nif->ask_window_ns >= ARP_WINDOW_NS) {
		nif->ask_window_ns = now_ns;
		nif->asked = 0;
	}
	if (nif->asked >= ARP_WINDOW_LIMIT)
		return; /* the retry is this one's turn */
	nif->asked++;
	arp_request(nif, n->state == NEIGH_PROBE ? &n->mac : &arp_everybody, weft_ip_v4(&n->addr));
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
		if (n->tries < ARP_TRIES) {
			neigh_ask(n);
			break;
		}
		n->state = NEIGH_FAILED;
		neigh_drop_parked(n);
		WEFT_LOG_PEER(netif, INFO, "%s does not answer ARP", weft_ip_str(&n->addr, buf));
		break;
	case NEIGH_PROBE:
		if (n->tries < ARP_PROBES)
			neigh_ask(n);
		else
			neigh_start(n, NEIGH_INCOMPLETE);
		break;
	default: /* answered meanwhile */
		break;
	}
}

/* The address of n is known (again): send what waited for it. */
static void
neigh_confirm(struct weft_neigh *n, const struct rte_ether_addr *mac)
{
	struct weft_netif *nif = n->nif;
	unsigned int parked = n->nparked;

	n->mac = *mac;
	n->state = NEIGH_REACHABLE;
	n->confirmed_ns = netif_now(nif);
	weft_timer_cancel(&nif->sched->wheel, &n->timer);
	n->nparked = 0;
	for (unsigned int i = 0; i < parked; i++) {
		rte_pktmbuf_mtod(n->parked[i], struct rte_ether_hdr *)->dst_addr = *mac;
		netif_enqueue(nif, n->parked[i], false);
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
		if (netif_now(nif) - n->asked_ns < ARP_RETRY_NS) {
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
	/* RFC 1122 s2.3.2.2: the latest packets are the ones worth keeping. */
	if (n->nparked == NETIF_PARK) {
		nif->stats.tx_unresolved++;
		rte_pktmbuf_free(n->parked[0]);
		memmove(&n->parked[0], &n->parked[1], (NETIF_PARK - 1) * sizeof(n->parked[0]));
		n->nparked--;
	}
	n->parked[n->nparked++] = m;
	return 0;
}

bool
weft_netif_reaches(const struct weft_netif *nif, const struct weft_ip *dst, bool via_gw)
{
	static const struct weft_ip none;
	uint32_t dst4 = weft_ip_v4(dst);

	if (!weft_ip_is_v4(dst) || !netif_ip_is_host(dst4) || dst4 == nif->addr4)
		return false;
	if (((dst4 ^ nif->addr4) & nif->mask4) == 0)
		return !netif_ip_is_subnet_special(nif, dst4);
	return via_gw && !weft_ip_eq(&nif->attr.gateway, &none);
}

int
weft_netif_neigh_get(struct weft_netif *nif, const struct weft_ip *dst, struct weft_neigh **out)
{
	struct weft_neigh *n;

	if (!weft_netif_reaches(nif, dst, true)) {
		nif->stats.tx_no_route++;
		return -EHOSTUNREACH;
	}
	n = neigh_make(nif, weft_netif_reaches(nif, dst, false) ? dst : &nif->attr.gateway);
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
	if (n->state == NEIGH_REACHABLE && netif_now(nif) - n->confirmed_ns >= ARP_RETRY_NS)
		neigh_start(n, NEIGH_PROBE);
}

/* ---- Receive ---- */

/* Somebody else says our address is theirs (RFC 5227 s2.4 (b): defend it, at most so often). */
static void
arp_conflict(struct weft_netif *nif, const struct rte_ether_addr *mac)
{
	char buf[WEFT_ADDR_STR_LEN];
	uint64_t now_ns = netif_now(nif);

	if (!netif_answers(nif))
		return;
	nif->stats.arp_bad++;
	WEFT_LOG_PEER(netif, WARNING,
	              "duplicate address: %s is also used by " RTE_ETHER_ADDR_PRT_FMT,
	              weft_ip_str(&nif->attr.addr, buf), RTE_ETHER_ADDR_BYTES(mac));
	if (nif->defended && now_ns - nif->defended_ns < ARP_DEFEND_NS)
		return;
	nif->defended = true;
	nif->defended_ns = now_ns;
	netif_arp_announce(nif);
}

void
netif_arp_rx(struct weft_netif *nif, const struct rte_mbuf *m)
{
	const struct rte_arp_hdr *arp;
	const struct rte_ether_addr *sha;
	struct weft_neigh *n;
	struct weft_ip sender;
	uint32_t sip, tip;
	uint16_t op;

	nif->stats.arp_rx++;
	if (m->data_len < NETIF_ETHER_LEN + ARP_LEN)
		goto bad;
	arp = rte_pktmbuf_mtod_offset(m, const struct rte_arp_hdr *, NETIF_ETHER_LEN);
	op = rte_be_to_cpu_16(arp->arp_opcode);
	if (arp->arp_hardware != RTE_BE16(RTE_ARP_HRD_ETHER) ||
	    arp->arp_protocol != RTE_BE16(RTE_ETHER_TYPE_IPV4) ||
	    arp->arp_hlen != RTE_ETHER_ADDR_LEN || arp->arp_plen != sizeof(uint32_t) ||
	    (op != RTE_ARP_OP_REQUEST && op != RTE_ARP_OP_REPLY))
		goto bad;
	sha = &arp->arp_data.arp_sha;
	sip = arp->arp_data.arp_sip;
	tip = arp->arp_data.arp_tip;
	if (!rte_is_valid_assigned_ether_addr(sha))
		goto bad;
	if (sip == nif->addr4) {
		/* Our own, come back (a loop on the link), or a conflict. */
		if (!rte_is_same_ether_addr(sha, &nif->attr.mac))
			arp_conflict(nif, sha);
		return;
	}
	if (sip == 0) { /* RFC 5227 s2.1.1: a probe; there is nothing to learn from it */
		if (op == RTE_ARP_OP_REQUEST && tip == nif->addr4 && netif_answers(nif))
			arp_send(nif, RTE_ARP_OP_REPLY, sha, sha, 0);
		return;
	}
	if (!netif_ip_is_host(sip) || ((sip ^ nif->addr4) & nif->mask4) != 0 ||
	    netif_ip_is_subnet_special(nif, sip))
		goto bad;
	/* RFC 826: whoever is known is updated; whoever asks for us becomes known. */
	sender = weft_ip_from_v4(sip);
	n = op == RTE_ARP_OP_REQUEST && tip == nif->addr4 ? neigh_make(nif, &sender)
	                                                  : neigh_find(nif, &sender);
	/* The answer first: whoever asks is waiting for it. */
	if (op == RTE_ARP_OP_REQUEST && tip == nif->addr4 && netif_answers(nif))
		arp_send(nif, RTE_ARP_OP_REPLY, sha, sha, sip);
	if (n != NULL)
		neigh_confirm(n, sha);
	return;
bad:
	nif->stats.arp_bad++;
}

/* ---- Life ---- */

void
netif_arp_init(struct weft_netif *nif)
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
}

void
netif_arp_fini(struct weft_netif *nif)
{
	for (unsigned int i = 0; i < NETIF_NEIGHS; i++) {
		struct weft_neigh *n = &nif->neigh[i];

		RTE_ASSERT(n->refs == 0);
		weft_timer_cancel(&nif->sched->wheel, &n->timer);
		neigh_drop_parked(n);
	}
}
