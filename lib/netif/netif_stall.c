/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A transmit queue that sends nothing, with a link: noticed, named, reset. A full one takes no
 * packet for a second. One that is not full goes on taking them. TCP, which gets no answer then,
 * causes a look at the device's own count of what it has sent.
 */

#include <rte_ethdev.h>

#include "netif_priv.h"
#include "netif_stall.h"
#include "weft_netif_offload_trust.h"

#define STALL_NS (1 * WEFT_NS_PER_S)
/** Between two looks at the device's count; an older one is forgotten. */
#define STALL_LOOK_NS   (500 * WEFT_NS_PER_MS)
#define STALL_FORGET_NS (60 * WEFT_NS_PER_S)

static void
stall_found(struct weft_netif *nif, const char *what)
{
	const struct weft_netif_dev *dev = nif->attr.dev;
	int ret = -ENOTSUP;

	nif->stats.tx_stalls++;
	netif_tx_sum_trouble(nif);
	if (dev->tx_reset != NULL)
		ret = dev->tx_reset(nif->attr.dev_arg);
	if (ret == 0)
		nif->stats.tx_resets++;
	if (nif->stats.tx_stalls == 1 || ret == 0)
		WEFT_LOG_PEER(netif, WARNING, "port %u: transmit queue %u %s%s", nif->attr.port_id,
		              nif->attr.queue_id, what, ret == 0 ? "; it was reset" : "");
}

void
netif_stall_look(struct weft_netif *nif, bool moved)
{
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
	stall_found(nif, "moved nothing for a second");
}

void
weft_netif_tx_unanswered(struct weft_netif *nif)
{
	const struct weft_netif_dev *dev = nif->attr.dev;
	struct netif_tx_look *l = &nif->tx_look;
	uint64_t now_ns = netif_now(nif), sent;

	if (dev->tx_count == NULL || !nif->link_up || now_ns - l->at_ns < STALL_LOOK_NS ||
	    dev->tx_count(nif->attr.dev_arg, &sent) != 0)
		return;
	if (l->at_ns > nif->tx_sum.trouble_ns && now_ns - l->at_ns < STALL_FORGET_NS &&
	    sent == l->sent && nif->stats.tx_packets != l->given)
		stall_found(nif, "takes packets and sends none");
	*l = (struct netif_tx_look){.at_ns = now_ns, .sent = sent, .given = nif->stats.tx_packets};
}
