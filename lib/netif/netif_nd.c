/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Neighbor Discovery (RFC 4861) and Duplicate Address Detection (RFC 4862 s5.4, RFC 4429).
 *
 * Routers, prefixes and parameters are configured. Router advertisements and redirects are counted
 * and ignored. So a stranger on the link cannot redirect our packets to himself.
 */

#include "netif_frame.h"
#include "netif_icmp.h"
#include "netif_nd.h"
#include "netif_neigh.h"
#include "weft_netif_addr.h"

#define ND_SOLICIT       135 /* RFC 4861 s4.3 */
#define ND_ADVERTISE     136 /* s4.4 */
#define ND_LEN           24  /* both, without options */
#define ND_TARGET_OFF    8
#define ND_FLAGS_OFF     4
#define ND_SOLICITED     0x40
#define ND_OVERRIDE      0x20
#define ND_OPT_SRC_LLADR 1 /* s4.6.1 */
#define ND_OPT_DST_LLADR 2
#define ND_OPT_LLADR_LEN 8
#define ND_HOPS          255 /* a host beyond the link cannot send it */

#define ND_DAD_NS (1 * WEFT_NS_PER_S) /* RFC 4862 s5.1: one solicitation, RetransTimer */

static const struct weft_ip nd_nobody;
static const struct weft_ip nd_all_nodes = {.b = {0xff, 0x02, [15] = 1}};

/* ---- Sending ---- */

/* Makes a solicitation or advertisement about target. lladr: with our link-layer address. */
static struct rte_mbuf *
nd_message(struct weft_netif *nif, uint8_t type, uint8_t flags, const struct weft_ip *target,
           bool lladr)
{
	uint16_t len = ND_LEN + (lladr ? ND_OPT_LLADR_LEN : 0);
	struct rte_mbuf *m = netif_ctrl_alloc(nif, len);
	uint8_t *p;

	if (m == NULL)
		return NULL; /* the caller asks again later */
	p = rte_pktmbuf_mtod(m, uint8_t *);
	p[0] = type;
	p[ND_FLAGS_OFF] = flags;
	memcpy(p + ND_TARGET_OFF, target->b, sizeof(target->b));
	if (lladr) {
		p[ND_LEN] = type == ND_SOLICIT ? ND_OPT_SRC_LLADR : ND_OPT_DST_LLADR;
		p[ND_LEN + 1] = ND_OPT_LLADR_LEN / 8;
		memcpy(p + ND_LEN + 2, nif->attr.mac.addr_bytes, RTE_ETHER_ADDR_LEN);
	}
	nif->stats.nd_tx++;
	return m;
}

bool
netif_nd_ask(struct weft_netif *nif, const struct weft_ip *addr, const struct rte_ether_addr *mac)
{
	const struct weft_ip *src = weft_netif_src(nif, addr);
	struct weft_ip group = netif_ip6_solicited(addr);
	struct rte_mbuf *m;

	if (src == NULL)
		return true; /* our address was a duplicate: no answer will come */
	/*
	 * DEVIATION: RFC 4429 s3.2 forbids solicitations from an optimistic address. A host without
	 * a router would then have no address to use. Ours carry no link-layer address in that
	 * state. So no neighbour's cache changes, which is the purpose of the rule.
	 */
	m = nd_message(nif, ND_SOLICIT, 0, addr,
	               netif_addr6_find(nif, src)->state == ADDR6_PREFERRED);
	return m != NULL &&
	       netif_icmp6_send(nif, m, src, mac != NULL ? addr : &group, ND_HOPS, mac);
}

/* Announces the address to all nodes (RFC 4861 s7.2.6). */
static void
nd_announce(struct weft_netif *nif, const struct netif_addr6 *a)
{
	uint8_t flags = a->state == ADDR6_PREFERRED ? ND_OVERRIDE : 0;
	struct rte_mbuf *m;

	if (!netif_answers(nif))
		return;
	m = nd_message(nif, ND_ADVERTISE, flags, &a->ip, true);
	if (m != NULL)
		netif_icmp6_send(nif, m, &a->ip, &nd_all_nodes, ND_HOPS, NULL);
}

/* ---- Duplicate Address Detection ---- */

static void
nd_probe(struct weft_netif *nif, const struct netif_addr6 *a)
{
	struct weft_ip group = netif_ip6_solicited(&a->ip);
	struct rte_mbuf *m = nd_message(nif, ND_SOLICIT, 0, &a->ip, false);

	if (m != NULL)
		netif_icmp6_send(nif, m, &nd_nobody, &group, ND_HOPS, NULL);
}

void
netif_nd_start(struct weft_netif *nif)
{
	if (nif->attr.no_ipv6)
		return;
	/* In a group member 0 asks for all members. All of them see the answers. */
	weft_timer_arm(&nif->sched->wheel, &nif->dad_timer, netif_now(nif) + ND_DAD_NS);
	if (!netif_answers(nif))
		return;
	netif_mld_report(nif); /* before the solicitation: a switch may need it (RFC 4862 s5.4.2) */
	for (unsigned int i = 0; i < NETIF_ADDR6S; i++) {
		if (nif->addr6[i].state == ADDR6_OPTIMISTIC)
			nd_probe(nif, &nif->addr6[i]);
		else if (nif->addr6[i].state == ADDR6_PREFERRED)
			nd_announce(nif, &nif->addr6[i]); /* the link has come back */
	}
}

static void
nd_dad_timer(struct weft_timer *t, uint64_t now_ns)
{
	struct weft_netif *nif = container_of(t, struct weft_netif, dad_timer);

	nif->now_ns = RTE_MAX(nif->now_ns, now_ns);
	for (unsigned int i = 0; i < NETIF_ADDR6S; i++) {
		if (nif->addr6[i].state != ADDR6_OPTIMISTIC)
			continue;
		nif->addr6[i].state = ADDR6_PREFERRED;
		nd_announce(nif, &nif->addr6[i]);
	}
}

/*
 * RFC 4862 s5.4.5: the address was made from our MAC, so another station seems to have the same
 * MAC. IPv6 is disabled: nothing is sent or received.
 */
static void
nd_disable(struct weft_netif *nif)
{
	for (unsigned int i = 0; i < NETIF_ADDR6S; i++)
		if (nif->addr6[i].state != ADDR6_NONE)
			nif->addr6[i].state = ADDR6_DUPLICATE;
	nif->attr.no_ipv6 = true;
	nif->mld_query = false;
	weft_timer_cancel(&nif->sched->wheel, &nif->mld_timer);
	weft_timer_cancel(&nif->sched->wheel, &nif->dad_timer);
	nif->stats.ip6_disabled++;
	WEFT_LOG(netif, ERR, "IPv6 is off: another host has our link-local address");
}

/* Another station uses, or is about to use, one of our addresses. */
static void
nd_conflict(struct weft_netif *nif, struct netif_addr6 *a, const struct rte_ether_addr *mac)
{
	char buf[WEFT_ADDR_STR_LEN];

	nif->stats.addr_conflicts += netif_answers(nif);
	if (a->state == ADDR6_OPTIMISTIC) {
		/* RFC 4862 s5.4.5, RFC 4429 s3.3: the address is no longer used */
		a->state = ADDR6_DUPLICATE;
		WEFT_LOG(netif, ERR,
		         "duplicate address: %s belongs to " RTE_ETHER_ADDR_PRT_FMT
		         " and is not used",
		         weft_ip_str(&a->ip, buf), RTE_ETHER_ADDR_BYTES(mac));
		if (a == &nif->addr6[NETIF_LINK_LOCAL])
			nd_disable(nif);
		return;
	}
	if (!netif_answers(nif))
		return;
	WEFT_LOG_PEER(netif, WARNING,
	              "duplicate address: %s is also used by " RTE_ETHER_ADDR_PRT_FMT,
	              weft_ip_str(&a->ip, buf), RTE_ETHER_ADDR_BYTES(mac));
	if (netif_defend(&a->defence, netif_now(nif)))
		nd_announce(nif, a); /* at the same rate as ARP */
}

/* ---- Receiving ---- */

/*
 * Checks the options (RFC 4861 s4.6: a length of zero invalidates the packet) and finds the
 * link-layer address of this type. *mac NULL: there is none.
 */
static bool
nd_options(const uint8_t *p, uint32_t len, uint8_t type, const struct rte_ether_addr **mac)
{
	*mac = NULL;
	while (len > 0) {
		uint32_t n = len >= 2 ? p[1] * 8u : 0;

		if (n == 0 || n > len)
			return false;
		if (p[0] == type && n == ND_OPT_LLADR_LEN && *mac == NULL) {
			*mac = (const struct rte_ether_addr *)(p + 2);
			if (!rte_is_valid_assigned_ether_addr(*mac))
				return false;
		}
		p += n;
		len -= n;
	}
	return true;
}

static bool
nd_solicit(struct weft_netif *nif, const struct netif_icmp6 *p, const struct weft_ip *target,
           const struct rte_ether_addr *mac)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(p->m, const struct rte_ether_hdr *);
	bool probe = netif_ip_is_none(&p->src);
	struct weft_ip group = netif_ip6_solicited(target);
	struct netif_addr6 *a;
	struct weft_neigh *n;
	struct rte_mbuf *m;
	uint8_t flags;

	/* s7.1.1 */
	if (probe && (mac != NULL || !weft_ip_eq(&p->dst, &group)))
		return false;
	a = netif_addr6_find(nif, target);
	if (a == NULL)
		return true; /* for another station */
	if (probe) {
		if (rte_is_same_ether_addr(&eth->src_addr, &nif->attr.mac))
			return true; /* our own, returned by a loop on the link */
		if (a->state == ADDR6_OPTIMISTIC) {
			nd_conflict(nif, a, &eth->src_addr); /* RFC 4862 s5.4.3: both ask */
			return true;
		}
		nd_announce(nif, a); /* s7.2.4: to all nodes, not solicited */
		return true;
	}
	flags = ND_SOLICITED | (a->state == ADDR6_PREFERRED ? ND_OVERRIDE : 0);
	/* Reply to the frame's source: a stranger must not take an entry of the neighbour cache. */
	m = netif_answers(nif) ? nd_message(nif, ND_ADVERTISE, flags, target, true) : NULL;
	if (m != NULL)
		netif_icmp6_send(nif, m, target, &p->src, ND_HOPS, &eth->src_addr);
	/* s7.2.3; RFC 5942 s3: only a sender that is on-link by our configuration */
	if (mac == NULL || !weft_netif_reaches(nif, &p->src, false))
		return true;
	n = netif_neigh_make(nif, &p->src);
	if (n != NULL && (!(n->state == NEIGH_REACHABLE || n->state == NEIGH_PROBE) ||
	                  !rte_is_same_ether_addr(&n->mac, mac)))
		netif_neigh_confirm(n, mac, false);
	return true;
}

static void
nd_advertised(struct weft_netif *nif, const struct weft_ip *target, uint8_t flags,
              const struct rte_ether_addr *mac)
{
	struct weft_neigh *n = netif_neigh_find(nif, target);
	bool known, same;

	if (n == NULL || n->state == NEIGH_NONE)
		return; /* s7.2.5: we did not ask */
	known = n->state == NEIGH_REACHABLE || n->state == NEIGH_PROBE;
	same = known && (mac == NULL || rte_is_same_ether_addr(&n->mac, mac));
	if (!known) {
		if (mac != NULL)
			netif_neigh_confirm(n, mac, (flags & ND_SOLICITED) != 0);
	} else if (same || (flags & ND_OVERRIDE) != 0) {
		struct rte_ether_addr to = mac != NULL ? *mac : n->mac;

		if (!same || (flags & ND_SOLICITED) != 0)
			netif_neigh_confirm(n, &to, (flags & ND_SOLICITED) != 0);
	} else if (n->state == NEIGH_REACHABLE) {
		/* Another address without the override flag: ask again before long use (s7.2.5
		 * I). */
		n->confirmed_ns = netif_now(nif) - NETIF_NEIGH_FRESH_NS;
		n->progress.seen_ns = 0;
	}
}

static bool
nd_advertise(struct weft_netif *nif, const struct netif_icmp6 *p, const struct weft_ip *target,
             uint8_t flags, const struct rte_ether_addr *mac)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(p->m, const struct rte_ether_hdr *);
	struct netif_addr6 *a = netif_addr6_find(nif, target);

	/* s7.1.2 */
	if (netif_ip_is_none(&p->src) ||
	    (netif_ip6_is_multicast(&p->dst) && (flags & ND_SOLICITED) != 0))
		return false;
	if (a != NULL) {
		if (!rte_is_same_ether_addr(mac != NULL ? mac : &eth->src_addr, &nif->attr.mac))
			nd_conflict(nif, a, mac != NULL ? mac : &eth->src_addr);
		return true;
	}
	nd_advertised(nif, target, flags, mac);
	return true;
}

void
netif_nd_rx(struct weft_netif *nif, const struct netif_icmp6 *p, const uint8_t *msg)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(p->m, const struct rte_ether_hdr *);
	const struct rte_ether_addr *mac;
	struct netif_addr6 *own;
	struct weft_ip target;
	bool ok;

	nif->stats.nd_rx++;
	if (msg[0] != ND_SOLICIT && msg[0] != ND_ADVERTISE) {
		nif->stats.nd_ignored++; /* routers, prefixes and MTU are configured */
		return;
	}
	if (p->hop_limit != ND_HOPS || msg[1] != 0 || p->len < ND_LEN ||
	    p->len > NETIF_IPV6_MTU_MIN)
		goto bad;
	memcpy(target.b, msg + ND_TARGET_OFF, sizeof(target.b));
	if (netif_ip6_is_multicast(&target) ||
	    !nd_options(msg + ND_LEN, p->len - ND_LEN,
	                msg[0] == ND_SOLICIT ? ND_OPT_SRC_LLADR : ND_OPT_DST_LLADR, &mac))
		goto bad;
	own = netif_addr6_find(nif, &p->src);
	if (own != NULL) {
		/* Our own, returned by a loop on the link, or a conflict (RFC 4862 s5.4). */
		if (!rte_is_same_ether_addr(&eth->src_addr, &nif->attr.mac))
			nd_conflict(nif, own, &eth->src_addr);
		return;
	}
	ok = msg[0] == ND_SOLICIT ? nd_solicit(nif, p, &target, mac)
	                          : nd_advertise(nif, p, &target, msg[ND_FLAGS_OFF], mac);
	if (ok)
		return;
bad:
	nif->stats.nd_bad++;
}

/* ---- Creation and end ---- */

void
netif_nd_init(struct weft_netif *nif)
{
	weft_timer_init(&nif->dad_timer, nd_dad_timer);
	netif_mld_init(nif);
}

void
netif_nd_fini(struct weft_netif *nif)
{
	weft_timer_cancel(&nif->sched->wheel, &nif->dad_timer);
	weft_timer_cancel(&nif->sched->wheel, &nif->mld_timer);
}
