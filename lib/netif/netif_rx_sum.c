/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the device says of received checksums, and whether it is right. A packet that it calls
 * damaged is dropped only if it is. Of the packets that it calls intact some are checked: the first
 * ones of the queue, one in RX_SUM_EVERY afterwards, and again many in a row after a wrong word. A
 * second wrong word ends the offload of this queue.
 */

#include <rte_ethdev.h>

#include "netif_priv.h"
#include "weft_netif_offload_trust.h"

#define RX_SUM_FIRST 4096  /**< segments of a new queue that are all checked */
#define RX_SUM_EVERY 64    /**< one of so many later ones */
#define RX_SUM_AFTER 65536 /**< segments that are all checked after a wrong word */
#define RX_SUM_BITS  (RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM)

void
netif_rx_sum_init(struct weft_netif *nif)
{
	nif->rx_sum = (struct netif_rx_sum){.checks = RX_SUM_FIRST};
}

static void
rx_sum_doubt(struct weft_netif *nif)
{
	nif->rx_sum.left = 0;
	nif->rx_sum.checks = RX_SUM_AFTER;
}

static void
rx_sum_wrong(struct weft_netif *nif)
{
	nif->stats.rx_cksum_false_good++;
	if (nif->rx_sum.doubted) {
		nif->attr.rx_offloads &= ~RX_SUM_BITS;
		nif->stats.rx_cksum_off = 1;
	}
	WEFT_LOG_PEER(netif, WARNING,
	              "port %u, queue %u: the device called a packet intact whose checksum is "
	              "wrong%s",
	              nif->attr.port_id, nif->attr.queue_id,
	              nif->rx_sum.doubted ? ", again: weft checks all from now on" : "");
	nif->rx_sum.doubted = true;
	rx_sum_doubt(nif);
}

void
netif_rx_sum_seen(struct weft_netif *nif, bool tcp, bool says_good, bool good)
{
	struct netif_rx_sum *r = &nif->rx_sum;

	nif->stats.rx_cksum_checked++;
	if (unlikely(says_good && !good)) {
		rx_sum_wrong(nif);
		return;
	}
	if (unlikely(good && !says_good)) {
		if (nif->stats.rx_cksum_false_bad++ == 0)
			WEFT_LOG_PEER(netif, WARNING,
			              "port %u, queue %u: the device called a packet damaged "
			              "whose checksum is right",
			              nif->attr.port_id, nif->attr.queue_id);
		return;
	}
	/* The word on headers alone is judged where there is no word on segments. */
	if (!good || (!tcp && (nif->attr.rx_offloads & RTE_ETH_RX_OFFLOAD_TCP_CKSUM) != 0))
		return;
	if (r->checks > 0)
		r->checks--;
	if (r->checks == 0)
		r->left = RX_SUM_EVERY - 1;
}

void
weft_netif_rx_damaged(struct weft_netif *nif)
{
	if ((nif->attr.rx_offloads & RX_SUM_BITS) == 0)
		return;
	nif->stats.rx_cksum_rechecks++;
	rx_sum_doubt(nif);
}
