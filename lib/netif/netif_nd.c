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
#include "netif_net.h"

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
	const struct weft_ip bare = weft_ip_bare(target);
	uint8_t *p;

	if (m == NULL)
		return NULL; /* the caller asks again later */
	p = rte_pktmbuf_mtod(m, uint8_t *);
	p[0] = type;
	p[ND_FLAGS_OFF] = flags;
	memcpy(p + ND_TARGET_OFF, bare.b, sizeof(bare.b));
	if (lladr) {
		p[ND_LEN] = type == ND_SOLICIT ? ND_OPT_SRC_LLADR : ND_OPT_DST_LLADR;
		p[ND_LEN + 1] = ND_OPT_LLADR_LEN / 8;
		memcpy(p + ND_LEN + 2, nif->attr.mac.addr_bytes, RTE_ETHER_ADDR_LEN);
	}
	nif->stats.nd_tx++;
	return m;
}

bool
netif_nd_ask(struct netif_vlan *v, const struct weft_ip *addr, const struct rte_ether_addr *mac)
{
	const struct netif_net *src = netif_net_src6(v, addr);
	struct weft_ip group = netif_ip6_solicited(addr);
	struct rte_mbuf *m;

	if (src == NULL)
		return true; /* our address was a duplicate: no answer will come */
	/*
	 * DEVIATION: RFC 4429 s3.2 forbids solicitations from an optimistic address. A host without
	 * a router would then have no address to use. Ours carry no link-layer address in that
	 * state. So no neighbour's cache changes, which is the purpose of the rule.
	 */
	m = nd_message(v->nif, ND_SOLICIT, 0, addr, netif_net_state(src) == NET_PREFERRED);
	return m != NULL &&
	       netif_icmp6_send(v, m, &src->ip, mac != NULL ? addr : &group, ND_HOPS, mac);
}

/* Announces the address to all nodes of its VLAN (RFC 4861 s7.2.6). */
static void
nd_announce(const struct netif_net *a)
{
	uint8_t flags = netif_net_state(a) == NET_PREFERRED ? ND_OVERRIDE : 0;
	struct weft_netif *nif = a->vlan->nif;
	struct rte_mbuf *m;

	if (!netif_answers(nif))
		return;
	m = nd_message(nif, ND_ADVERTISE, flags, &a->ip, true);
	if (m != NULL)
		netif_icmp6_send(a->vlan, m, &a->ip, &nd_all_nodes, ND_HOPS, NULL);
}

/* ---- Duplicate Address Detection ---- */

static void
nd_probe(const struct netif_net *a)
{
	struct weft_ip group = netif_ip6_solicited(&a->ip);
	struct rte_mbuf *m = nd_message(a->vlan->nif, ND_SOLICIT, 0, &a->ip, false);

	if (m != NULL)
		netif_icmp6_send(a->vlan, m, &nd_nobody, &group, ND_HOPS, NULL);
}

/* The i-th address in turn: the link-local ones come first. */
static unsigned int
nd_turn(const struct weft_netif *nif, unsigned int i)
{
	return (nif->nnets_conf + i) % nif->nnets;
}

void
netif_nd_start(struct weft_netif *nif)
{
	bool ipv6 = false;

	for (unsigned int i = 0; i < nif->nvlans; i++)
		ipv6 = ipv6 || !nif->vlan[i].no_ipv6;
	if (!ipv6 || nif->attr.shared)
		return;
	/* In a group member 0 asks for all members. All of them see the answers. */
	weft_timer_arm(&nif->sched->wheel, &nif->dad_timer, netif_now(nif) + ND_DAD_NS);
	if (!netif_answers(nif))
		return;
	/* Before the solicitations: a switch may need the reports (RFC 4862 s5.4.2). */
	for (unsigned int i = 0; i < nif->nvlans; i++)
		if (!nif->vlan[i].no_ipv6)
			netif_mld_report(&nif->vlan[i]);
	for (unsigned int i = 0; i < nif->nnets; i++) {
		const struct netif_net *a = &nif->net[nd_turn(nif, i)];

		if (a->v4)
			continue;
		if (netif_net_state(a) == NET_OPTIMISTIC)
			nd_probe(a);
		else if (netif_net_state(a) == NET_PREFERRED)
			nd_announce(a); /* the link has come back */
	}
}

static void
nd_set_state(struct netif_net *a, enum netif_net_state state)
{
	atomic_store_explicit(&a->state, (uint8_t)state, memory_order_relaxed);
}

static void
nd_dad_timer(struct weft_timer *t, uint64_t now_ns)
{
	struct weft_netif *nif = container_of(t, struct weft_netif, dad_timer);

	nif->now_ns = RTE_MAX(nif->now_ns, now_ns);
	for (unsigned int i = 0; i < nif->nnets; i++) {
		struct netif_net *a = &nif->net[nd_turn(nif, i)];

		if (netif_net_state(a) != NET_OPTIMISTIC)
			continue;
		nd_set_state(a, NET_PREFERRED);
		nd_announce(a);
	}
}

/*
 * RFC 4862 s5.4.5: the address was made from our MAC, so another station seems to have the same
 * MAC. IPv6 is disabled on the VLAN: nothing is sent or received there.
 */
static void
nd_disable(struct netif_vlan *v)
{
	struct weft_netif *nif = v->nif;
	bool tentative = false, none = true;

	v->no_ipv6 = true;
	for (unsigned int i = 0; i < nif->nvlans; i++)
		none = none && nif->vlan[i].no_ipv6;
	nif->attr.no_ipv6 = none;
	v->mld_query = false;
	weft_timer_cancel(&nif->sched->wheel, &v->mld_timer);
	for (unsigned int i = 0; i < nif->nnets; i++) {
		struct netif_net *a = &nif->net[i];

		if (a->vlan == v && !a->v4)
			nd_set_state(a, NET_DUPLICATE);
		tentative = tentative || netif_net_state(a) == NET_OPTIMISTIC;
	}
	if (!tentative)
		weft_timer_cancel(&nif->sched->wheel, &nif->dad_timer);
	nif->stats.ip6_disabled++;
	if (v->id == 0)
		WEFT_LOG(netif, ERR, "IPv6 is off: another host has our link-local address");
	else
		WEFT_LOG(netif, ERR,
		         "IPv6 is off on VLAN %u: another host has our link-local address there",
		         v->id);
}

/* Another station uses, or is about to use, one of our addresses. */
static void
nd_conflict(struct netif_net *a, const struct rte_ether_addr *mac)
{
	struct weft_netif *nif = a->vlan->nif;
	char buf[WEFT_ADDR_STR_LEN];

	nif->stats.addr_conflicts += netif_answers(nif);
	if (netif_net_state(a) == NET_OPTIMISTIC) {
		/* RFC 4862 s5.4.5, RFC 4429 s3.3: the address is no longer used */
		nd_set_state(a, NET_DUPLICATE);
		WEFT_LOG(netif, ERR,
		         "duplicate address: %s belongs to " RTE_ETHER_ADDR_PRT_FMT
		         " and is not used",
		         weft_ip_str(&a->ip, buf), RTE_ETHER_ADDR_BYTES(mac));
		if (a == a->vlan->local)
			nd_disable(a->vlan);
		return;
	}
	if (!netif_answers(nif))
		return;
	WEFT_LOG_PEER(netif, WARNING,
	              "duplicate address: %s is also used by " RTE_ETHER_ADDR_PRT_FMT,
	              weft_ip_str(&a->ip, buf), RTE_ETHER_ADDR_BYTES(mac));
	if (netif_defend(&a->defence, netif_now(nif)))
		nd_announce(a); /* at the same rate as ARP */
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
nd_solicit(struct netif_vlan *v, const struct netif_icmp6 *p, const struct weft_ip *target,
           const struct rte_ether_addr *mac)
{
	struct weft_netif *nif = v->nif;
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(p->m, const struct rte_ether_hdr *);
	bool probe = netif_ip_is_none(&p->src);
	struct weft_ip group = netif_ip6_solicited(target);
	struct netif_net *a;
	struct weft_neigh *n;
	struct rte_mbuf *m;
	uint8_t flags;

	/* s7.1.1 */
	if (probe && (mac != NULL || !weft_ip_eq(&p->dst, &group)))
		return false;
	a = netif_net6_on(v, target);
	if (a == NULL)
		return true; /* for another station */
	if (probe) {
		if (rte_is_same_ether_addr(&eth->src_addr, &nif->attr.mac))
			return true; /* our own, returned by a loop on the link */
		if (netif_net_state(a) == NET_OPTIMISTIC) {
			nd_conflict(a, &eth->src_addr); /* RFC 4862 s5.4.3: both ask */
			return true;
		}
		nd_announce(a); /* s7.2.4: to all nodes, not solicited */
		return true;
	}
	flags = ND_SOLICITED | (netif_net_state(a) == NET_PREFERRED ? ND_OVERRIDE : 0);
	/* Reply to the frame's source: a stranger must not take an entry of the neighbour cache. */
	m = netif_answers(nif) ? nd_message(nif, ND_ADVERTISE, flags, target, true) : NULL;
	if (m != NULL)
		netif_icmp6_send(v, m, target, &p->src, ND_HOPS, &eth->src_addr);
	/* s7.2.3; RFC 5942 s3: only a sender that is on-link by our configuration */
	if (mac == NULL || netif_net_onlink(v, &p->src) == NULL)
		return true;
	n = netif_neigh_make(v, &p->src);
	if (n != NULL && (!(n->state == NEIGH_REACHABLE || n->state == NEIGH_PROBE) ||
	                  !rte_is_same_ether_addr(&n->mac, mac)))
		netif_neigh_confirm(n, mac, false);
	return true;
}

static void
nd_advertised(struct netif_vlan *v, const struct weft_ip *target, uint8_t flags,
              const struct rte_ether_addr *mac)
{
	struct weft_neigh *n = netif_neigh_find(v, target);
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
		n->confirmed_ns = netif_now(v->nif) - NETIF_NEIGH_FRESH_NS;
		n->progress.seen_ns = 0;
	}
}

static bool
nd_advertise(struct netif_vlan *v, const struct netif_icmp6 *p, const struct weft_ip *target,
             uint8_t flags, const struct rte_ether_addr *mac)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(p->m, const struct rte_ether_hdr *);
	struct netif_net *a = netif_net6_on(v, target);

	/* s7.1.2 */
	if (netif_ip_is_none(&p->src) ||
	    (netif_ip6_is_multicast(&p->dst) && (flags & ND_SOLICITED) != 0))
		return false;
	if (a != NULL) {
		if (!rte_is_same_ether_addr(mac != NULL ? mac : &eth->src_addr, &v->nif->attr.mac))
			nd_conflict(a, mac != NULL ? mac : &eth->src_addr);
		return true;
	}
	nd_advertised(v, target, flags, mac);
	return true;
}

void
netif_nd_rx(struct netif_vlan *v, const struct netif_icmp6 *p, const uint8_t *msg)
{
	struct weft_netif *nif = v->nif;
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(p->m, const struct rte_ether_hdr *);
	const struct rte_ether_addr *mac;
	struct netif_net *own;
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
	if (netif_ip6_is_multicast(&target) || !netif_zone_in(v, &target) ||
	    !nd_options(msg + ND_LEN, p->len - ND_LEN,
	                msg[0] == ND_SOLICIT ? ND_OPT_SRC_LLADR : ND_OPT_DST_LLADR, &mac))
		goto bad;
	own = netif_net6_on(v, &p->src);
	if (own != NULL) {
		/* Our own, returned by a loop on the link, or a conflict (RFC 4862 s5.4). */
		if (!rte_is_same_ether_addr(&eth->src_addr, &nif->attr.mac))
			nd_conflict(own, &eth->src_addr);
		return;
	}
	ok = msg[0] == ND_SOLICIT ? nd_solicit(v, p, &target, mac)
	                          : nd_advertise(v, p, &target, msg[ND_FLAGS_OFF], mac);
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
	for (unsigned int i = 0; i < nif->nvlans; i++)
		netif_mld_init(&nif->vlan[i]);
}

void
netif_nd_fini(struct weft_netif *nif)
{
	weft_timer_cancel(&nif->sched->wheel, &nif->dad_timer);
	for (unsigned int i = 0; i < nif->nvlans; i++)
		weft_timer_cancel(&nif->sched->wheel, &nif->vlan[i].mld_timer);
}
