/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_NET_H
#define NETIF_NET_H

/** @file Finds the VLAN of a frame and our addresses, once or twice for each packet. */

#include "netif_priv.h"

/** The bucket of an address: by its last four octets. Addresses are configured, so no peer can
 * choose them to make a long chain. */
static inline unsigned int
netif_net_bucket(uint32_t low)
{
	return (low * 0x9e3779b1u) >> (32 - NETIF_NET_BITS);
}

/** The VLAN of that identifier; NULL: not ours. */
static inline struct netif_vlan *
netif_vlan_find(struct weft_netif *nif, uint16_t id)
{
	unsigned int i;

	if (likely(id == nif->vlan[0].id))
		return &nif->vlan[0];
	i = nif->vlan_of[id];
	return likely(i != 0) ? &nif->vlan[i - 1] : NULL;
}

/** Our IPv4 address, in network order; NULL: not ours. */
static inline struct netif_net *
netif_net4_find(struct weft_netif *nif, uint32_t ip4)
{
	/* The address of the last segment is likely that of the next. */
	if (likely(nif->last4->ip4 == ip4 && nif->last4->v4))
		return nif->last4;
	if (likely(nif->nnets4 <= 1))
		return NULL;
	for (unsigned int i = nif->net_of[netif_net_bucket(ip4)]; i != 0; i = nif->net[i - 1].next)
		if (nif->net[i - 1].v4 && nif->net[i - 1].ip4 == ip4)
			return nif->last4 = &nif->net[i - 1];
	return NULL;
}

/** Our address of either family, with its zone, usable or not; NULL: not ours. */
static inline struct netif_net *
netif_net_find(struct weft_netif *nif, const struct weft_ip *ip)
{
	for (unsigned int i = nif->net_of[netif_net_bucket(weft_ip_v4(ip))]; i != 0;
	     i = nif->net[i - 1].next)
		if (weft_ip_eq(&nif->net[i - 1].ip, ip))
			return &nif->net[i - 1];
	return NULL;
}

/** One of our usable addresses of either family; NULL: not ours. */
static inline struct netif_net *
netif_net_usable_find(struct weft_netif *nif, const struct weft_ip *ip)
{
	struct netif_net *n = netif_net_find(nif, ip);

	return n != NULL && netif_net_usable(n) ? n : NULL;
}

/** One of our usable IPv6 addresses on this VLAN; NULL: not ours, or ours on another VLAN. */
static inline struct netif_net *
netif_net6_on(const struct netif_vlan *v, const struct weft_ip *ip)
{
	struct netif_net *n = netif_net_usable_find(v->nif, ip);

	return n != NULL && n->vlan == v && !n->v4 ? n : NULL;
}

/** Sets the zone of an address of a frame that came on this VLAN. False: no host has such an
 * address (RFC 4291 s2.5.6). */
static inline bool
netif_zone_in(const struct netif_vlan *v, struct weft_ip *ip)
{
	if (likely(!weft_ip_is_link_local(ip)))
		return true;
	if (weft_ip_zone(ip) != 0)
		return false;
	weft_ip_set_zone(ip, v->zone);
	return true;
}

#endif /* NETIF_NET_H */
