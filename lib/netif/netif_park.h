/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_PARK_H
#define NETIF_PARK_H

/** @file Frames that wait for a neighbour's address (netif_park.c). */

#include <stdbool.h>
#include <stdint.h>

struct rte_mbuf;
struct weft_neigh;
struct weft_netif;

#define NETIF_PARK_FLOWS  128 /**< connections whose first frame waits for one neighbour */
#define NETIF_PARK_MORE   32  /**< other frames of these connections, together */
#define NETIF_PARK_OWN    4   /**< places reserved for each neighbour */
#define NETIF_PARK_SHARED 512 /**< places that all neighbours share */
#define NETIF_PARK_NONE   UINT32_MAX

/** A waiting frame, in the list of its neighbour or of free places. */
struct netif_parked {
	struct rte_mbuf *m;
	uint32_t flow; /**< hash of the connection */
	uint32_t next;
	bool first; /**< the connection's first frame in the list */
};

void netif_park_init(struct weft_netif *nif);
/** Lets a TCP segment's frame wait for the neighbour's address. Consumes m. Counts dropped
 * frames. */
void netif_park(struct weft_neigh *n, struct rte_mbuf *m);
/** Takes the frame that has waited longest; NULL: none. */
struct rte_mbuf *netif_unpark(struct weft_neigh *n);

#endif /* NETIF_PARK_H */
