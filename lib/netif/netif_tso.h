/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_TSO_H
#define NETIF_TSO_H

/** @file TSO packets (netif_tso.c). */

#include <stdbool.h>
#include <stdint.h>

#include "weft_netif_tx.h"

static inline unsigned int
netif_tso_segs(uint32_t payload_bytes, uint32_t segsz_bytes)
{
	return (payload_bytes + segsz_bytes - 1) / segsz_bytes;
}

/** Whether a port configured with these offloads cuts segments. */
bool netif_tso_offered(uint64_t tx_offloads);
/** Whether the port can cut m. */
bool netif_tso_port(const struct weft_netif *nif, const struct rte_mbuf *m);
/** weft_netif_tx() for a packet that netif cuts. The caller has checked the sizes. */
int netif_tso_tx(struct weft_netif *nif, struct weft_neigh *n, const struct weft_ip *src,
                 const struct weft_ip *dst, struct rte_mbuf *m, uint32_t hdr_len,
                 struct weft_netif_tx_how how, uint64_t now_ns);

#endif /* NETIF_TSO_H */
