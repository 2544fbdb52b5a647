/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_IP_H
#define NETIF_IP_H

/** @file IPv4 and IPv6: packets in (netif_ip.c, netif_ip6.c), identifications (netif_id.c). */

#include <stdbool.h>
#include <stdint.h>

#include <rte_byteorder.h>

struct netif_vlan;
struct rte_mbuf;
struct weft_ip;
struct weft_netif;

/* ---- netif_ip.c: IPv4, and what both families share ---- */

/** Handles an IPv4 packet of the VLAN at l3_off whose Ethernet header is checked. Consumes m.
 * Returns a valid TCP segment, cut to size and with its private area filled; else NULL. */
struct rte_mbuf *netif_ip4_rx(struct netif_vlan *v, struct rte_mbuf *m, uint32_t l3_off);
/** Drops, counts and names a packet of `sent` octets of which only `came` have arrived. Owns m. */
void netif_ip_cut(struct weft_netif *nif, struct rte_mbuf *m, uint32_t sent, uint32_t came);
/** Validates a TCP segment of l4_len octets at l4_off whose IP header is checked. `pseudo` is the
 * sum of its pseudo-header. Consumes m. NULL: dropped and counted. */
struct rte_mbuf *netif_take_tcp(struct weft_netif *nif, struct rte_mbuf *m, uint32_t l4_off,
                                uint32_t l4_len, uint32_t pseudo, const struct weft_ip *src,
                                const struct weft_ip *dst, uint8_t ecn);

/* ---- netif_ip6.c ---- */

/** Like netif_ip4_rx(). group: the frame was sent to a multicast address. */
struct rte_mbuf *netif_ip6_rx(struct netif_vlan *v, struct rte_mbuf *m, uint32_t l3_off,
                              bool group);

/* ---- netif_id.c ---- */

/** The identification of the next IPv4 packet of protocol `proto` to dst. Addresses are in network
 * order. df: the packet must not be fragmented. */
rte_be16_t netif_ip_id(struct weft_netif *nif, uint32_t src, uint32_t dst, uint8_t proto, bool df);

#endif /* NETIF_IP_H */
