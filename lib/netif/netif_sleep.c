/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Receive interrupts: armed for an idle worker's sleep, and judged by what they do. */

#include <unistd.h>

#include "netif_priv.h"
#include "weft_netif_sleep.h"

/** Sleeps in a row that ran to their end with packets waiting, before a port is not believed. */
#define SLEEP_DOUBTS 3

enum weft_netif_wakes
weft_netif_sleep_begin(struct weft_netif *nif, int *fd)
{
	const struct weft_netif_dev *dev = nif->attr.dev;
	int ret;

	*fd = -1;
	if (nif->sleep.lies || dev->arm == NULL)
		return WEFT_NETIF_WAKES_NEVER;
	ret = dev->arm(nif->attr.dev_arg, true);
	if (ret < 0)
		return ret == -EALREADY ? WEFT_NETIF_WAKES : WEFT_NETIF_WAKES_NEVER;
	*fd = nif->sleep.fd = ret;
	nif->sleep.armed = true;
	return nif->sleep.proven ? WEFT_NETIF_WAKES : WEFT_NETIF_WAKES_UNPROVEN;
}

void
weft_netif_sleep_end(struct weft_netif *nif, bool readable)
{
	uint64_t drop;

	if (!nif->sleep.armed)
		return;
	nif->sleep.armed = false;
	(void)nif->attr.dev->arm(nif->attr.dev_arg, false);
	/* An event counter. What is read from a tap or a packet socket is a frame: the poll reads
	 * it. */
	if (readable && !nif->sleep.waits && read(nif->sleep.fd, &drop, sizeof(drop)) < 0) {
		/* EAGAIN: an earlier read has reset the counter. */
	}
	if (readable && nif->packet.n > 0)
		netif_packet_woke(&nif->packet);
	if (readable)
		nif->stats.rx_wakes++;
}

void
weft_netif_sleep_judge(struct weft_netif *nif, bool readable, bool timed_out, uint64_t packets)
{
	struct netif_sleep *s = &nif->sleep;

	if (readable && packets > 0) {
		s->proven = true;
		s->doubts = 0;
	} else if (timed_out && packets > 0 && s->fd >= 0 && !s->lies &&
	           ++s->doubts >= SLEEP_DOUBTS) {
		s->lies = true;
		WEFT_LOG(
		        netif, NOTICE,
		        "port %u, queue %u: its receive interrupt does not wake; idle workers poll",
		        nif->attr.port_id, nif->attr.queue_id);
	}
}
