/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Sizes of a port's rings and pools: from what the device says, with a margin. */

#include <string.h>

#include <rte_common.h>

#include "netif_rings.h"

#define RINGS_RX_DESC 1024u
#define RINGS_TX_DESC 1024u

/** How a driver differs from what it reports. */
struct rings_quirk {
	const char *driver;
	uint16_t rx_rings;  /**< rings of one receive queue, each filled in advance; 0: one */
	uint16_t tx_queues; /**< the most that work; 0: as many as the driver reports */
	uint16_t rx_least;  /**< buffers that a receive queue takes, whatever its ring has */
};

static const struct rings_quirk *
rings_quirk(const char *driver)
{
	static const struct rings_quirk quirks[] = {
	        {"net_vmxnet3", .rx_rings = 2},
	        {"net_e1000_em", .tx_queues = 1},
	        {"net_af_xdp", .rx_least = 2048},
	};

	for (unsigned int i = 0; driver != NULL && i < RTE_DIM(quirks); i++)
		if (strcmp(driver, quirks[i].driver) == 0)
			return &quirks[i];
	return NULL;
}

uint32_t
netif_rings_rx(const char *driver)
{
	const struct rings_quirk *q = rings_quirk(driver);

	return q != NULL && q->rx_rings != 0 ? q->rx_rings : 1;
}

uint16_t
netif_rings_rx_least(const char *driver)
{
	const struct rings_quirk *q = rings_quirk(driver);

	return q != NULL ? q->rx_least : 0;
}

uint16_t
netif_rings_tx_queues(const struct rte_eth_dev_info *info)
{
	const struct rings_quirk *q = rings_quirk(info->driver_name);

	return q != NULL && q->tx_queues != 0 ? RTE_MIN(q->tx_queues, info->max_tx_queues)
	                                      : info->max_tx_queues;
}

/** The number nearest to `want` from below that the device takes; its least if all are above. */
static uint16_t
rings_desc(uint32_t want, const struct rte_eth_desc_lim *lim)
{
	uint32_t align = lim->nb_align != 0 ? lim->nb_align : 1;
	uint32_t least = lim->nb_min != 0 ? lim->nb_min : 1;
	uint32_t n = rte_align32prevpow2(RTE_MAX(want, 1u));

	if (lim->nb_max != 0)
		n = RTE_MIN(n, (uint32_t)lim->nb_max);
	n -= n % align;
	n = RTE_MAX(n, least);
	n += (align - n % align) % align;
	return (uint16_t)RTE_MIN(n, (uint32_t)UINT16_MAX);
}

void
netif_rings_plan(const struct rte_eth_dev_info *info, uint32_t rx_queues, uint32_t tx_queues,
                 uint32_t mbufs, struct netif_rings *r)
{
	uint32_t rings = rx_queues * netif_rings_rx(info->driver_name);
	struct rte_eth_desc_lim rx_lim = info->rx_desc_lim;

	rx_lim.nb_min = RTE_MAX(rx_lim.nb_min, netif_rings_rx_least(info->driver_name));
	r->tx_mbufs = mbufs / 2;
	r->rx_mbufs = mbufs - r->tx_mbufs;
	r->rx_desc = rings_desc(RTE_MIN(r->rx_mbufs / 2 / rings, RINGS_RX_DESC), &rx_lim);
	r->tx_desc =
	        rings_desc(RTE_MIN(r->tx_mbufs / 4 / tx_queues, RINGS_TX_DESC), &info->tx_desc_lim);
	r->rx_rings = rings;
	r->rx_mbufs = RTE_MAX(r->rx_mbufs, 2 * r->rx_desc * rings);
	r->tx_mbufs = RTE_MAX(r->tx_mbufs, 4u * r->tx_desc * tx_queues);
}
