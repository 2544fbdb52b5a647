/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Our addresses: valid attributes, VLANs and networks made of them, which addresses are
 * ours, and how often they are defended. Ways to other addresses are in netif_route.c. */

#include "netif_hdr.h"
#include "netif_net.h"
#include "weft_netif_addr.h"
#include "weft_netif_mbuf.h"

#define ADDR_DEFEND_NS (10 * WEFT_NS_PER_S) /* RFC 5227 s1.1 DEFEND_INTERVAL */
#define ADDR_V4_BITS   96                   /* of an IPv4-mapped address, in front of IPv4's */

static bool
netif_pool_ok(struct rte_mempool *pool)
{
	return pool != NULL && rte_pktmbuf_priv_size(pool) >= sizeof(struct weft_mbuf_priv) &&
	       rte_pktmbuf_data_room_size(pool) >=
	               RTE_PKTMBUF_HEADROOM + NETIF_HEADERS_MAX + WEFT_NETIF_HEADROOM;
}

bool
netif_ip6_is_host(const struct weft_ip *ip)
{
	static const struct weft_ip loopback = {.b = {[15] = 1}};

	return !netif_ip6_is_multicast(ip) && !weft_ip_is_v4(ip) && !netif_ip_is_none(ip) &&
	       !weft_ip_eq(ip, &loopback);
}

/* ---- Attributes ---- */

#define ADDR_LIST_MAX (WEFT_NETIF_NETS + 2)

/* Lists all networks of the attributes: those of addr and addr6, then the others. */
static unsigned int
addr_list(const struct weft_netif_attr *a, struct weft_netif_net list[ADDR_LIST_MAX])
{
	unsigned int n = 0;

	if (!netif_ip_is_none(&a->addr))
		list[n++] = (struct weft_netif_net){a->addr, a->gateway, a->prefix_len, a->vlan_id};
	if (!netif_ip_is_none(&a->addr6))
		list[n++] =
		        (struct weft_netif_net){a->addr6, a->gateway6, a->prefix6_len, a->vlan_id};
	for (unsigned int i = 0; i < a->nnets; i++)
		list[n++] = a->nets[i];
	return n;
}

static bool
addr_is_host(const struct weft_ip *ip)
{
	return weft_ip_is_v4(ip) ? netif_ip_is_host(weft_ip_v4(ip)) : netif_ip6_is_host(ip);
}

static unsigned int
addr_bits(const struct weft_netif_net *n)
{
	return weft_ip_is_v4(&n->addr) ? ADDR_V4_BITS + n->prefix_len : n->prefix_len;
}

static bool
addr_net_ok(const struct weft_netif_net *n)
{
	bool v4 = weft_ip_is_v4(&n->addr);

	if (!addr_is_host(&n->addr) || n->prefix_len > (v4 ? 32 : 128) || n->vlan_id > 4094 ||
	    (!v4 && weft_ip_is_link_local(&n->addr)))
		return false;
	if (netif_ip_is_none(&n->gateway))
		return true;
	if (weft_ip_is_v4(&n->gateway) != v4 || !addr_is_host(&n->gateway))
		return false;
	if (!v4 && weft_ip_is_link_local(&n->gateway))
		return weft_ip_zone(&n->gateway) == 0;
	return weft_ip_same_prefix(&n->gateway, &n->addr, addr_bits(n));
}

/* Whether two networks can be on one port. */
static bool
addr_pair_ok(const struct weft_netif_net *a, const struct weft_netif_net *b)
{
	if (weft_ip_eq(&a->addr, &b->addr) || weft_ip_eq(&a->gateway, &b->addr) ||
	    weft_ip_eq(&a->addr, &b->gateway))
		return false;
	return a->vlan_id == b->vlan_id || weft_ip_is_v4(&a->addr) != weft_ip_is_v4(&b->addr) ||
	       !weft_ip_same_prefix(&a->addr, &b->addr, RTE_MIN(addr_bits(a), addr_bits(b)));
}

bool
weft_netif_nets_ok(const struct weft_netif_attr *a)
{
	bool no_ipv6 = a->no_ipv6 || (a->mtu_bytes != 0 && a->mtu_bytes < NETIF_IPV6_MTU_MIN);
	struct weft_netif_net list[ADDR_LIST_MAX];
	unsigned int n;

	if (a->nnets > WEFT_NETIF_NETS || a->vlan_id > 4094)
		return false;
	n = addr_list(a, list);
	if (n > WEFT_NETIF_NETS || (n == 0 && no_ipv6))
		return false;
	/* addr is IPv4 and addr6 is IPv6; a gateway has an address beside it */
	if (netif_ip_is_none(&a->addr) ? !netif_ip_is_none(&a->gateway) : !weft_ip_is_v4(&a->addr))
		return false;
	if (netif_ip_is_none(&a->addr6) ? !netif_ip_is_none(&a->gateway6)
	                                : weft_ip_is_v4(&a->addr6))
		return false;
	for (unsigned int i = 0; i < n; i++) {
		if (!addr_net_ok(&list[i]) || (no_ipv6 && !weft_ip_is_v4(&list[i].addr)) ||
		    weft_ip_eq(&list[i].addr, &list[i].gateway))
			return false;
		for (unsigned int k = 0; k < i; k++)
			if (!addr_pair_ok(&list[i], &list[k]))
				return false;
	}
	return true;
}

bool
netif_attr_ok(const struct weft_netif_attr *a)
{
	if (!netif_pool_ok(a->pool) || (a->tx_pool != NULL && !netif_pool_ok(a->tx_pool)))
		return false;
	if (a->dev != NULL && (a->dev->rx == NULL || a->dev->tx == NULL))
		return false;
	if (!rte_is_valid_assigned_ether_addr(&a->mac) || a->max_neighs > WEFT_NETIF_NEIGHS_MAX)
		return false;
	/* RFC 791 s3.2: every link carries 68 octets. Headers must leave room for data. */
	if (a->mtu_bytes != 0 && a->mtu_bytes < NETIF_MTU_MIN)
		return false;
	if (a->shared && a->group != NULL)
		return false;
	return weft_netif_nets_ok(a);
}

/* ---- Creation ---- */

/** The owner of a shared port's device has probed the addresses. */
static enum netif_net_state
addr_first_state(const struct weft_netif *nif)
{
	return nif->attr.shared ? NET_PREFERRED : NET_OPTIMISTIC;
}

static struct netif_net *
addr_enter(struct weft_netif *nif, struct netif_vlan *v, const struct weft_ip *ip,
           enum netif_net_state state)
{
	struct netif_net *n = &nif->net[nif->nnets++];
	uint8_t *bucket = &nif->net_of[netif_net_bucket(weft_ip_v4(ip))];

	n->ip = *ip;
	n->vlan = v;
	atomic_init(&n->state, (uint8_t)state);
	n->next = *bucket;
	*bucket = (uint8_t)nif->nnets;
	return n;
}

static struct netif_vlan *
addr_vlan(struct weft_netif *nif, uint16_t id)
{
	struct netif_vlan *v = &nif->vlan[nif->nvlans];

	if (nif->vlan_of[id] != 0)
		return &nif->vlan[nif->vlan_of[id] - 1];
	v->nif = nif;
	v->id = id;
	v->zone = nif->nvlans == 0 ? 0 : id == 0 ? WEFT_ZONE_UNTAGGED : id;
	v->no_ipv6 = nif->attr.no_ipv6;
	nif->vlan_of[id] = (uint8_t)++nif->nvlans;
	return v;
}

static void
addr_enter_conf(struct weft_netif *nif, const struct weft_netif_net *c)
{
	struct netif_vlan *v = addr_vlan(nif, c->vlan_id);
	bool v4 = weft_ip_is_v4(&c->addr);
	struct netif_net *n =
	        addr_enter(nif, v, &c->addr, v4 ? NET_PREFERRED : addr_first_state(nif));

	n->bits = (uint8_t)addr_bits(c);
	n->gateway = c->gateway;
	if (!v4) {
		if (weft_ip_is_link_local(&n->gateway))
			weft_ip_set_zone(&n->gateway, v->zone);
		return;
	}
	n->v4 = v->has4 = true;
	nif->nnets4++;
	nif->last4 = n;
	n->ip4 = weft_ip_v4(&c->addr);
	n->mask4 = c->prefix_len == 0 ? 0 : rte_cpu_to_be_32(UINT32_MAX << (32 - c->prefix_len));
}

void
netif_addr_init(struct weft_netif *nif)
{
	const uint8_t *mac = nif->attr.mac.addr_bytes;
	struct weft_netif_net list[ADDR_LIST_MAX];
	unsigned int n = addr_list(&nif->attr, list);

	/* RFC 8200 s5: a smaller link cannot carry IPv6. */
	if (nif->attr.mtu_bytes < NETIF_IPV6_MTU_MIN)
		nif->attr.no_ipv6 = true;
	nif->last4 = &nif->net[0];
	for (unsigned int i = 0; i < n; i++)
		addr_enter_conf(nif, &list[i]);
	if (n == 0)
		(void)addr_vlan(nif, nif->attr.vlan_id);
	nif->nnets_conf = nif->nnets;
	for (unsigned int i = 0; i < nif->nvlans && !nif->attr.no_ipv6; i++) {
		struct netif_vlan *v = &nif->vlan[i];
		/* RFC 4291 appendix A: the MAC with ff:fe in the middle and its universal bit
		 * inverted. */
		struct weft_ip ip = {.b = {0xfe, 0x80, [8] = mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe,
		                           mac[3], mac[4], mac[5]}};

		weft_ip_set_zone(&ip, v->zone);
		v->local = addr_enter(nif, v, &ip, addr_first_state(nif));
		v->local->bits = 64; /* RFC 4291 s2.5.6 */
	}
}

/* ---- Groups and defence ---- */

struct weft_ip
netif_ip6_solicited(const struct weft_ip *ip)
{
	struct weft_ip g = {.b = {0xff, 0x02, [11] = 1, 0xff, ip->b[13], ip->b[14], ip->b[15]}};

	return g;
}

bool
netif_net_joined(const struct netif_vlan *v, const struct weft_ip *group)
{
	static const struct weft_ip all_link = {.b = {0xff, 0x02, [15] = 1}};
	static const struct weft_ip all_node = {.b = {0xff, 0x01, [15] = 1}};
	struct weft_ip mine;

	if (weft_ip_eq(group, &all_link) || weft_ip_eq(group, &all_node))
		return true;
	for (unsigned int i = 0; i < v->nif->nnets; i++) {
		const struct netif_net *n = &v->nif->net[i];

		if (n->vlan != v || n->v4)
			continue;
		mine = netif_ip6_solicited(&n->ip);
		if (weft_ip_eq(group, &mine))
			return true;
	}
	return false;
}

bool
netif_defend(struct netif_defence *d, uint64_t now_ns)
{
	if (d->done && now_ns - d->last_ns < ADDR_DEFEND_NS)
		return false;
	d->done = true;
	d->last_ns = now_ns;
	return true;
}

/* ---- Queries ---- */

bool
weft_netif_has_addr_in(const struct weft_netif *nif, const struct weft_ip *net, unsigned int bits)
{
	for (unsigned int i = 0; i < nif->nnets; i++)
		if (netif_net_usable(&nif->net[i]) &&
		    weft_ip_same_prefix(&nif->net[i].ip, net, bits))
			return true;
	return false;
}

bool
weft_netif_is_local(const struct weft_netif *nif, const struct weft_ip *ip)
{
	return netif_net_usable_find((struct weft_netif *)(uintptr_t)nif, ip) != NULL;
}

bool
weft_netif_zone(const struct weft_netif *nif, struct weft_ip *ip)
{
	if (!weft_ip_is_link_local(ip) || weft_ip_zone(ip) == 0)
		return true;
	for (unsigned int i = 0; i < nif->nvlans; i++) {
		const struct netif_vlan *v = &nif->vlan[i];

		if (weft_ip_zone(ip) != (v->id != 0 ? v->id : WEFT_ZONE_UNTAGGED))
			continue;
		weft_ip_set_zone(ip, v->zone);
		return true;
	}
	return false;
}

int
weft_netif_net_info(const struct weft_netif *nif, unsigned int i, struct weft_netif_net_info *out)
{
	const struct netif_net *n;

	if (i >= nif->nnets)
		return -ENOENT;
	n = &nif->net[i];
	*out = (struct weft_netif_net_info){
	        .net = {.addr = n->ip,
	                .gateway = n->gateway,
	                .prefix_len = n->v4 ? (uint8_t)(n->bits - ADDR_V4_BITS) : n->bits,
	                .vlan_id = n->vlan->id},
	        .tentative = netif_net_state(n) == NET_OPTIMISTIC,
	        .duplicate = netif_net_state(n) == NET_DUPLICATE,
	};
	return 0;
}
