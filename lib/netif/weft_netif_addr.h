/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_ADDR_H
#define WEFT_NETIF_ADDR_H

/** @file An interface's own addresses, and what they reach. Internal. */

#include <stdbool.h>

#include "weft_netif_attr.h"

struct weft_ip;
struct weft_netif;

/** Whether the addresses, networks and VLANs of these attributes, and their MTU, go together. Any
 * thread. */
bool weft_netif_nets_ok(const struct weft_netif_attr *attr);

/** Our source address for packets to dst: of the network that has dst, or of the first one with a
 * gateway, or the first one (RFC 6724, as far as configured networks decide). NULL: none of that
 * family or scope. */
const struct weft_ip *weft_netif_src(const struct weft_netif *nif, const struct weft_ip *dst);
/** Whether ip is one of our addresses. Any thread. */
bool weft_netif_is_local(const struct weft_netif *nif, const struct weft_ip *ip);
/** Whether one of our addresses is in the network (weft_ip_same_prefix()). Any thread. */
bool weft_netif_has_addr_in(const struct weft_netif *nif, const struct weft_ip *net,
                            unsigned int bits);
/** Whether dst is on a network of this interface, or with via_gw also by a gateway. src: only from
 * this address of ours; NULL: from any. */
bool weft_netif_reaches(const struct weft_netif *nif, const struct weft_ip *src,
                        const struct weft_ip *dst, bool via_gw);
/** Brings the zone that a program gave, a VLAN, into the form of this interface, whose first VLAN
 * has zone 0 (weft_ip.h). False: the interface has no such VLAN. */
bool weft_netif_zone(const struct weft_netif *nif, struct weft_ip *ip);

/** What people see of one of our addresses. */
struct weft_netif_net_info {
	struct weft_netif_net net;
	bool tentative; /**< Duplicate Address Detection is not complete */
	bool duplicate; /**< another station has it: it is not used */
};
/** Gets the i-th of our addresses: the configured ones, then the link-local ones. -ENOENT: there
 * are fewer. Any thread. */
int weft_netif_net_info(const struct weft_netif *nif, unsigned int i,
                        struct weft_netif_net_info *out);

#endif /* WEFT_NETIF_ADDR_H */
