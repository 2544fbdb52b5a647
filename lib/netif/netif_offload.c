/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The names that users have for offloads, and ethdev's. */

#include <rte_ethdev.h>

#include "netif_offload.h"
#include "weft_netif_port.h"

static const struct offload_bits {
	uint32_t offload;
	uint64_t rx, tx;
} offload_bits[] = {
        {WEFT_OFFLOAD_RX_CHECKSUM,
         .rx = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM},
        {WEFT_OFFLOAD_TX_CHECKSUM,
         .tx = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM},
        {WEFT_OFFLOAD_TSO, .tx = RTE_ETH_TX_OFFLOAD_TCP_TSO},
        {WEFT_OFFLOAD_SCATTER, .rx = RTE_ETH_RX_OFFLOAD_SCATTER},
        {WEFT_OFFLOAD_GATHER, .tx = RTE_ETH_TX_OFFLOAD_MULTI_SEGS},
        {WEFT_OFFLOAD_RSS, .rx = RTE_ETH_RX_OFFLOAD_RSS_HASH},
        {WEFT_OFFLOAD_VLAN_STRIP, .rx = RTE_ETH_RX_OFFLOAD_VLAN_STRIP},
        {WEFT_OFFLOAD_VLAN_INSERT, .tx = RTE_ETH_TX_OFFLOAD_VLAN_INSERT},
        {WEFT_OFFLOAD_VLAN_FILTER, .rx = RTE_ETH_RX_OFFLOAD_VLAN_FILTER},
};

uint64_t
netif_offload_rx(uint32_t offloads)
{
	uint64_t bits = 0;

	for (unsigned int i = 0; i < RTE_DIM(offload_bits); i++)
		if ((offloads & offload_bits[i].offload) != 0)
			bits |= offload_bits[i].rx;
	return bits;
}

uint64_t
netif_offload_tx(uint32_t offloads)
{
	uint64_t bits = 0;

	/* TSO fills in checksums, and its packets have several mbufs. */
	if ((offloads & (WEFT_OFFLOAD_TX_CHECKSUM | WEFT_OFFLOAD_GATHER)) != 0)
		offloads |= WEFT_OFFLOAD_TSO;
	for (unsigned int i = 0; i < RTE_DIM(offload_bits); i++)
		if ((offloads & offload_bits[i].offload) != 0)
			bits |= offload_bits[i].tx;
	return bits;
}

uint32_t
weft_netif_port_offloads(const struct weft_netif_port *p)
{
	uint32_t offloads = 0;

	for (unsigned int i = 0; i < RTE_DIM(offload_bits); i++)
		if ((p->rx_offloads & offload_bits[i].rx) != 0 ||
		    (p->tx_offloads & offload_bits[i].tx) != 0)
			offloads |= offload_bits[i].offload;
	/* A port may steer without telling the hash. */
	return p->rss ? offloads | WEFT_OFFLOAD_RSS : offloads & ~(uint32_t)WEFT_OFFLOAD_RSS;
}
