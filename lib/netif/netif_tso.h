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
/**
 * Cuts the payload behind the first hdr_len octets of m into n = netif_tso_segs() packets of
 * `segsz` octets, each behind a corrected copy of the TCP header. The pieces are the caller's, and
 * m stays the caller's. False: no mbufs, and no piece is left.
 */
bool netif_tso_cut(struct weft_netif *nif, struct rte_mbuf *m, uint32_t hdr_len, uint32_t segsz,
                   struct rte_mbuf **piece, unsigned int n);

#endif /* NETIF_TSO_H */
