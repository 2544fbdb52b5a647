/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_ND_H
#define NETIF_ND_H

/** @file Neighbor Discovery, DAD and Multicast Listener Discovery (netif_nd.c, netif_mld.c). */

#include <stdbool.h>
#include <stdint.h>

struct netif_icmp6;
struct netif_vlan;
struct rte_ether_addr;
struct weft_ip;
struct weft_netif;

/* ---- netif_nd.c: Neighbor Discovery (RFC 4861), DAD (RFC 4862, RFC 4429) ---- */

void netif_nd_init(struct weft_netif *nif);
/** Starts Duplicate Address Detection for our addresses and announces them afterwards. When called
 * again: announces those that have passed. */
void netif_nd_start(struct weft_netif *nif);
void netif_nd_fini(struct weft_netif *nif);
/** Handles a message of types 133 to 137 that came on this VLAN with a correct checksum. */
void netif_nd_rx(struct netif_vlan *v, const struct netif_icmp6 *p, const uint8_t *msg);
/** Asks for an IPv6 address (netif_ask_fn): by unicast to `mac`, or to the solicited-node group
 * when NULL. */
bool netif_nd_ask(struct netif_vlan *v, const struct weft_ip *addr,
                  const struct rte_ether_addr *mac);

/* ---- netif_mld.c: Multicast Listener Discovery (RFC 3810) ---- */

void netif_mld_init(struct netif_vlan *v);
/** Reports the groups of our addresses on the VLAN, now and once more. */
void netif_mld_report(struct netif_vlan *v);
void netif_mld_query(struct netif_vlan *v, const struct netif_icmp6 *p, const uint8_t *msg);

#endif /* NETIF_ND_H */
