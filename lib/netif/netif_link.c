/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The link's coming and going. What we say unasked (announcements, membership reports,
 * duplicate address detection) reaches nobody while the link is down, and a switch that we come
 * back to may have forgotten us: it is said when the link is there, and again when it came back.
 *
 * The port is asked from the poll, once in a second (in a tenth while it is down), by the one
 * member of a group that answers for all: no timer, so that an idle stack stays idle. An
 * interruption shorter than that is not seen. A device that does not know of links always has one.
 */

#include "netif_group_priv.h"

#define LINK_UP_NS   (1 * WEFT_NS_PER_S)
#define LINK_DOWN_NS (100 * WEFT_NS_PER_MS)

void
netif_link_look(struct weft_netif *nif)
{
	const struct weft_netif_dev *dev = nif->attr.dev;
	bool up = true, watched = dev->link != NULL;

	if (!netif_answers(nif)) {
		/* A group's device: member 0 says what it saw. */
		up = netif_group_link(nif);
		watched = !up; /* only until we began */
	} else if (watched) {
		up = dev->link(nif->attr.dev_arg);
		if (nif->attr.group != NULL)
			netif_group_set_link(nif, up);
	}
	nif->link_due_ns = !watched ? WEFT_NEVER : nif->now_ns + (up ? LINK_UP_NS : LINK_DOWN_NS);
	if (up && !nif->link_up) {
		nif->stats.link_ups++;
		if (netif_answers(nif))
			netif_arp_announce(nif);
		netif_nd_start(nif);
	}
	/* Nobody could object: asked again later. */
	if (!up)
		weft_timer_cancel(&nif->sched->wheel, &nif->dad_timer);
	nif->link_up = up;
}
