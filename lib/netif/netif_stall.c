/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A transmit queue that takes no packet for a second, with a link: noticed, named, reset. */

#include <rte_ethdev.h>

#include "netif_priv.h"
#include "netif_stall.h"

#define STALL_NS (1 * WEFT_NS_PER_S)

void
netif_stall_look(struct weft_netif *nif, bool moved)
{
	const struct weft_netif_dev *dev = nif->attr.dev;
	int ret = -ENOTSUP;

	/* Without a link packets wait, which is no fault of the queue. */
	if (moved || !nif->link_up) {
		nif->stall_due_ns = 0;
		return;
	}
	if (nif->stall_due_ns == 0)
		nif->stall_due_ns = nif->now_ns + STALL_NS;
	if (nif->now_ns < nif->stall_due_ns)
		return;
	nif->stall_due_ns = nif->now_ns + STALL_NS;
	nif->stats.tx_stalls++;
	if (dev->tx_reset != NULL)
		ret = dev->tx_reset(nif->attr.dev_arg);
	if (ret == 0)
		nif->stats.tx_resets++;
	if (nif->stats.tx_stalls == 1 || ret == 0)
		WEFT_LOG_PEER(
		        netif, WARNING, "port %u: transmit queue %u moved nothing for a second%s",
		        nif->attr.port_id, nif->attr.queue_id, ret == 0 ? "; it was reset" : "");
}
