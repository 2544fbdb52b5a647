/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_ARP_H
#define NETIF_ARP_H

/** @file ARP (netif_arp.c). */

#include <stdbool.h>
#include <stdint.h>

struct netif_vlan;
struct rte_ether_addr;
struct rte_mbuf;
struct weft_ip;
struct weft_netif;

/** Handles an ARP packet at l3_off that came on this VLAN, not yet validated. m stays the
 * caller's. */
void netif_arp_rx(struct netif_vlan *v, const struct rte_mbuf *m, uint32_t l3_off);
/** Announces each of our addresses on its VLAN. */
void netif_arp_announce(struct weft_netif *nif);
/** Asks for an IPv4 address (netif_ask_fn): by unicast to `mac`, or by broadcast when NULL. */
bool netif_arp_ask(struct netif_vlan *v, const struct weft_ip *addr,
                   const struct rte_ether_addr *mac);

#endif /* NETIF_ARP_H */
