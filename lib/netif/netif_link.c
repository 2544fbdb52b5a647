/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Changes of the link. Unsolicited messages (announcements, membership reports, Duplicate
 * Address Detection) are lost while the link is down, and a switch may have forgotten us after an
 * interruption. So they are sent when the link is there, and again when it has come back.
 *
 * The poll asks the port once a second, or ten times a second while the link is down. In a group
 * only the member that answers asks, and the others read its answer ten times a second. There is no
 * timer, so an idle stack stays idle. A shorter interruption is not noticed. A device that reports
 * no link always has one. A bonded port is asked twenty times a second. When its frames take
 * another way, the switch has to learn that as well.
 */

#include "netif_arp.h"
#include "netif_group_priv.h"
#include "netif_nd.h"
#include "netif_priv.h"
#include "weft_timer.h"

#define LINK_UP_NS   (1 * WEFT_NS_PER_S)
#define LINK_DOWN_NS (100 * WEFT_NS_PER_MS)
/** A bonded port sends messages of LACP at its checks, which must come at least every 100 ms. */
#define LINK_OFTEN_NS (50 * WEFT_NS_PER_MS)

/** A link that was up is logged when it goes, and when it is back. With LACP a peer can have it go
 * and come. */
static void
link_say(struct weft_netif *nif, bool up)
{
	if (nif->link_quiet || !nif->ethdev || !netif_leads(nif))
		return;
	if (!up && nif->link_up) {
		nif->link_lost_ns = nif->now_ns;
		WEFT_LOG_PEER(netif, NOTICE, "port %u: its link is down", nif->attr.port_id);
	} else if (up && nif->link_lost_ns != 0) {
		WEFT_LOG_PEER(netif, NOTICE, "port %u: its link is up again after %.1f s",
		              nif->attr.port_id,
		              (double)(nif->now_ns - nif->link_lost_ns) / (double)WEFT_NS_PER_S);
		nif->link_lost_ns = 0;
	}
}

void
netif_link_look(struct weft_netif *nif)
{
	const struct weft_netif_dev *dev = nif->attr.dev;
	const bool leads = netif_leads(nif), watched = dev->link != NULL || !leads;
	bool up = true;

	if (!leads) {
		/* A device of a group: member 0 reports what it saw. */
		up = netif_group_link(nif);
	} else if (watched) {
		up = dev->link(nif->attr.dev_arg);
		if (nif->attr.group != NULL)
			netif_group_set_link(nif, up);
	}
	nif->link_due_ns = !watched ? WEFT_NEVER
	                            : nif->now_ns + (nif->link_often ? LINK_OFTEN_NS
	                                             : up && leads   ? LINK_UP_NS
	                                                             : LINK_DOWN_NS);
	link_say(nif, up);
	/* What was on its way is lost, whatever the device does. */
	if (up != nif->link_up || nif->link_moved)
		netif_tx_sum_trouble(nif);
	if (!up && nif->link_up)
		nif->stats.link_downs++;
	if (up && (!nif->link_up || nif->link_moved)) {
		nif->stats.link_ups += !nif->link_up;
		nif->stats.link_moves += nif->link_up;
		if (netif_answers(nif))
			netif_arp_announce(nif);
		netif_nd_start(nif);
	}
	if (up && !nif->link_up && nif->stats.link_ups > 1 && !nif->link_quiet) {
		nif->link_up = true;
		nif->link_back_ns = nif->now_ns;
		if (nif->ops.link_up != NULL)
			nif->ops.link_up(nif->ops_arg, nif, nif->now_ns);
	}
	/* No other station could object: detection starts again later. */
	if (!up)
		weft_timer_cancel(&nif->sched->wheel, &nif->dad_timer);
	nif->link_up = up;
}

bool
weft_netif_link_up(const struct weft_netif *nif)
{
	return nif->link_up || nif->link_quiet;
}

uint64_t
weft_netif_link_back_ns(const struct weft_netif *nif)
{
	return nif->link_back_ns;
}
