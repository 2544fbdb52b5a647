/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_RINGS_H
#define NETIF_RINGS_H

/** @file Sizes of a port's rings and pools, which depend on each other (netif_rings.c). */

#include <stdint.h>

#include <rte_ethdev.h>

#include "netif_hdr.h"
#include "weft_netif_mbuf.h"

/**
 * The most octets behind an mbuf's headroom. An mbuf's length has 16 bits, so a frame of the
 * longest IP packets takes two mbufs. netif sends none of these (weft_netif_tx_most()).
 */
#define NETIF_DATA_MAX ((UINT16_MAX & ~63u) - RTE_PKTMBUF_HEADROOM)

/**
 * Octets behind the headroom of an mbuf for packets of mtu_bytes. Received: a frame. Sent: all
 * headers and options in front of one MSS of payload.
 */
static inline uint32_t
netif_data_bytes(uint16_t mtu_bytes)
{
	return RTE_MIN(WEFT_NETIF_HEADROOM + NETIF_TCP_MAX + (uint32_t)mtu_bytes, NETIF_DATA_MAX);
}

/** What a port is to have, before it is configured. */
struct netif_rings {
	uint16_t rx_desc, tx_desc;   /**< descriptors of each queue */
	uint32_t rx_mbufs, tx_mbufs; /**< buffers of the two pools */
	/** receive rings of all queues, which hold a buffer in each of their descriptors */
	uint32_t rx_rings;
};

/**
 * Plan rings and pools for a port of `mbufs` buffers, half of them for each direction.
 *
 * A driver fills its receive rings in advance: they hold at most half of their pool. A driver gives
 * sent buffers back late, some only when the ring runs short: transmit rings hold at most a quarter
 * of their pool, so that buffers for unacknowledged segments (five eighths) and the threads' caches
 * are left. Rings shrink to that, down to the device's least size. Beyond that the pools grow.
 */
void netif_rings_plan(const struct rte_eth_dev_info *info, uint32_t rx_queues, uint32_t tx_queues,
                      uint32_t mbufs, struct netif_rings *r);

/** Receive rings of one queue of a driver, each filled in advance. */
uint32_t netif_rings_rx(const char *driver);

/**
 * The least descriptors of a receive queue that a driver does not report. net_af_xdp gives the
 * kernel 2048 buffers of each queue when the queue is set up, and fails if the pool has fewer.
 */
uint16_t netif_rings_rx_least(const char *driver);

/**
 * Transmit queues that a driver really has, of those that it claims. Example: net_e1000_em claims
 * two for chips that have one, and what the second queue sends is lost.
 */
uint16_t netif_rings_tx_queues(const struct rte_eth_dev_info *info);

#endif /* NETIF_RINGS_H */
