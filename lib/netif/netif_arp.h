/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_ARP_H
#define NETIF_ARP_H

/** @file ARP (netif_arp.c). */

#include <stdbool.h>
#include <stdint.h>

struct rte_ether_addr;
struct rte_mbuf;
struct weft_ip;
struct weft_netif;

/** Handles an ARP packet at l3_off, not yet validated. m stays the caller's. */
void netif_arp_rx(struct weft_netif *nif, const struct rte_mbuf *m, uint32_t l3_off);
/** Announces our address to the link. */
void netif_arp_announce(struct weft_netif *nif);
/** Asks for an IPv4 address (netif_ask_fn): by unicast to `mac`, or by broadcast when NULL. */
bool netif_arp_ask(struct weft_netif *nif, const struct weft_ip *addr,
                   const struct rte_ether_addr *mac);

#endif /* NETIF_ARP_H */
