/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Our addresses: valid attributes, which addresses are ours, which networks they reach, and
 * how often they are defended. */

#include "netif_hdr.h"
#include "netif_priv.h"
#include "weft_netif_addr.h"
#include "weft_netif_mbuf.h"

#define ADDR_DEFEND_NS (10 * WEFT_NS_PER_S) /* RFC 5227 s1.1 DEFEND_INTERVAL */

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

/* Whether the first len bits are the same. */
static bool
addr_same_prefix(const struct weft_ip *a, const struct weft_ip *b, unsigned int len)
{
	unsigned int octets = len / 8;
	uint8_t mask = (uint8_t)(0xff00 >> len % 8);

	return memcmp(a->b, b->b, octets) == 0 &&
	       (len % 8 == 0 || ((a->b[octets] ^ b->b[octets]) & mask) == 0);
}

static bool
addr_attr4_ok(const struct weft_netif_attr *a)
{
	uint32_t net_diff;

	if (netif_ip_is_none(&a->addr))
		return netif_ip_is_none(&a->gateway);
	if (!weft_ip_is_v4(&a->addr) || !netif_ip_is_host(weft_ip_v4(&a->addr)) ||
	    a->prefix_len > 32)
		return false;
	if (netif_ip_is_none(&a->gateway))
		return true;
	if (!weft_ip_is_v4(&a->gateway) || !netif_ip_is_host(weft_ip_v4(&a->gateway)) ||
	    weft_ip_eq(&a->gateway, &a->addr))
		return false;
	net_diff = rte_be_to_cpu_32(weft_ip_v4(&a->gateway) ^ weft_ip_v4(&a->addr));
	return a->prefix_len == 0 || net_diff >> (32 - a->prefix_len) == 0;
}

static bool
addr_attr6_ok(const struct weft_netif_attr *a)
{
	bool global = !netif_ip_is_none(&a->addr6);

	if (a->no_ipv6 || (a->mtu_bytes != 0 && a->mtu_bytes < NETIF_IPV6_MTU_MIN))
		return !global && netif_ip_is_none(&a->gateway6) && !netif_ip_is_none(&a->addr);
	if (global && (!netif_ip6_is_host(&a->addr6) || netif_ip6_is_link_local(&a->addr6) ||
	               a->prefix6_len > 128))
		return false;
	if (netif_ip_is_none(&a->gateway6))
		return true;
	if (!global || !netif_ip6_is_host(&a->gateway6) || weft_ip_eq(&a->gateway6, &a->addr6))
		return false;
	return netif_ip6_is_link_local(&a->gateway6) ||
	       addr_same_prefix(&a->gateway6, &a->addr6, a->prefix6_len);
}

bool
netif_attr_ok(const struct weft_netif_attr *a)
{
	if (!netif_pool_ok(a->pool) || (a->tx_pool != NULL && !netif_pool_ok(a->tx_pool)))
		return false;
	if (a->dev != NULL && (a->dev->rx == NULL || a->dev->tx == NULL))
		return false;
	if (!rte_is_valid_assigned_ether_addr(&a->mac) || a->vlan_id > 4094 ||
	    a->max_neighs > WEFT_NETIF_NEIGHS_MAX)
		return false;
	/* RFC 791 s3.2: every link carries 68 octets. Headers must leave room for data. */
	if (a->mtu_bytes != 0 && a->mtu_bytes < NETIF_MTU_MIN)
		return false;
	return addr_attr4_ok(a) && addr_attr6_ok(a);
}

void
netif_addr_init(struct weft_netif *nif)
{
	const uint8_t *mac = nif->attr.mac.addr_bytes;
	struct weft_netif_attr *a = &nif->attr;

	nif->has4 = !netif_ip_is_none(&a->addr);
	if (nif->has4) {
		nif->addr4 = weft_ip_v4(&a->addr);
		nif->mask4 = a->prefix_len == 0
		                     ? 0
		                     : rte_cpu_to_be_32(UINT32_MAX << (32 - a->prefix_len));
	}
	/* RFC 8200 s5: a smaller link cannot carry IPv6. */
	if (a->mtu_bytes < NETIF_IPV6_MTU_MIN)
		a->no_ipv6 = true;
	if (a->no_ipv6)
		return;
	/* RFC 4291 appendix A: the MAC with ff:fe in the middle and its universal bit inverted. */
	nif->addr6[NETIF_LINK_LOCAL] = (struct netif_addr6){
	        .ip.b = {0xfe, 0x80, [8] = mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4],
	                 mac[5]},
	        .state = ADDR6_OPTIMISTIC,
	};
	if (!netif_ip_is_none(&a->addr6))
		nif->addr6[NETIF_GLOBAL] =
		        (struct netif_addr6){.ip = a->addr6, .state = ADDR6_OPTIMISTIC};
}

static bool
addr6_usable(const struct netif_addr6 *a)
{
	return a->state == ADDR6_OPTIMISTIC || a->state == ADDR6_PREFERRED;
}

struct netif_addr6 *
netif_addr6_find(struct weft_netif *nif, const struct weft_ip *ip)
{
	for (unsigned int i = 0; i < NETIF_ADDR6S; i++)
		if (addr6_usable(&nif->addr6[i]) && weft_ip_eq(&nif->addr6[i].ip, ip))
			return &nif->addr6[i];
	return NULL;
}

struct weft_ip
netif_ip6_solicited(const struct weft_ip *ip)
{
	struct weft_ip g = {.b = {0xff, 0x02, [11] = 1, 0xff, ip->b[13], ip->b[14], ip->b[15]}};

	return g;
}

bool
netif_addr6_joined(const struct weft_netif *nif, const struct weft_ip *group)
{
	static const struct weft_ip all_link = {.b = {0xff, 0x02, [15] = 1}};
	static const struct weft_ip all_node = {.b = {0xff, 0x01, [15] = 1}};
	struct weft_ip mine;

	if (weft_ip_eq(group, &all_link) || weft_ip_eq(group, &all_node))
		return true;
	for (unsigned int i = 0; i < NETIF_ADDR6S; i++) {
		if (nif->addr6[i].state == ADDR6_NONE)
			continue;
		mine = netif_ip6_solicited(&nif->addr6[i].ip);
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

/* Our address of the scope of dst: link-local for link-local, else the other one. */
static const struct netif_addr6 *
addr6_for(const struct weft_netif *nif, const struct weft_ip *dst)
{
	const struct netif_addr6 *a =
	        &nif->addr6[netif_ip6_is_link_local(dst) ? NETIF_LINK_LOCAL : NETIF_GLOBAL];

	return addr6_usable(a) ? a : NULL;
}

const struct weft_ip *
weft_netif_src(const struct weft_netif *nif, const struct weft_ip *dst)
{
	const struct netif_addr6 *a;

	if (weft_ip_is_v4(dst))
		return nif->has4 ? &nif->attr.addr : NULL;
	a = addr6_for(nif, dst);
	return a != NULL ? &a->ip : NULL;
}

bool
weft_netif_is_local(const struct weft_netif *nif, const struct weft_ip *ip)
{
	if (nif->has4 && weft_ip_eq(ip, &nif->attr.addr))
		return true;
	for (unsigned int i = 0; i < NETIF_ADDR6S; i++)
		if (addr6_usable(&nif->addr6[i]) && weft_ip_eq(&nif->addr6[i].ip, ip))
			return true;
	return false;
}

static bool
addr_reaches4(const struct weft_netif *nif, uint32_t dst, bool via_gw)
{
	if (!nif->has4 || !netif_ip_is_host(dst) || dst == nif->addr4)
		return false;
	if (((dst ^ nif->addr4) & nif->mask4) == 0)
		return !netif_ip_is_subnet_special(dst, nif->mask4);
	return via_gw && !netif_ip_is_none(&nif->attr.gateway);
}

bool
weft_netif_reaches(const struct weft_netif *nif, const struct weft_ip *dst, bool via_gw)
{
	if (nif->stats.dev_removed)
		return false;
	if (weft_ip_is_v4(dst))
		return addr_reaches4(nif, weft_ip_v4(dst), via_gw);
	if (!netif_ip6_is_host(dst) || addr6_for(nif, dst) == NULL || weft_netif_is_local(nif, dst))
		return false;
	/* RFC 5942 s4: on-link are the configured prefix and link-local addresses. */
	if (netif_ip6_is_link_local(dst) ||
	    addr_same_prefix(dst, &nif->attr.addr6, nif->attr.prefix6_len))
		return true;
	return via_gw && !netif_ip_is_none(&nif->attr.gateway6);
}
