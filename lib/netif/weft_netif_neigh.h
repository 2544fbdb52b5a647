/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_NEIGH_H
#define WEFT_NETIF_NEIGH_H

/** @file Next hops, as TCP holds and confirms them. Internal. Polling thread. */

#include <rte_ether.h>

#include "weft_base.h"

struct weft_neigh;
struct weft_netif;

/** Gets the next hop from our address src to dst, resolved or not yet, with the VLAN that it is on.
 * src NULL: from weft_netif_src(). A connection keeps it. The entry is counted and cannot be
 * evicted while it is held. -EHOSTUNREACH (no route, or src is none of our addresses), -ENOBUFS
 * (all entries are held). */
int weft_netif_neigh_get(struct weft_netif *nif, const struct weft_ip *src,
                         const struct weft_ip *dst, struct weft_neigh **out);
/** Like weft_netif_neigh_get(), for one answer to a peer of which no state is kept. There is
 * nothing to put. The entry is valid for one weft_netif_tx() right after. Address requests for
 * such answers have a limit of their own, so a flood of them delays no other request. */
int weft_netif_neigh_passing(struct weft_netif *nif, const struct weft_ip *src,
                             const struct weft_ip *dst, struct weft_neigh **out);
/** Ends a weft_netif_neigh_get(). The entry may be evicted when no connection holds it. */
void weft_netif_neigh_put(struct weft_netif *nif, struct weft_neigh *n);

/** The part of a next hop that TCP writes in the data path. */
struct weft_neigh_progress {
	uint64_t seen_ns; /**< last confirmation by TCP; 0: none since the last request */
};
/** Confirms the next hop: a peer has acknowledged new data that went by it. It need not be asked
 * then (RFC 4861 s7.3.1; RFC 1122 s2.3.2.1 (4) for ARP). Has no effect while the next hop's
 * address is unknown. Polling thread. */
static inline void
weft_netif_neigh_confirm(struct weft_neigh *n, uint64_t now_ns)
{
	/* the first member of struct weft_neigh */
	((struct weft_neigh_progress *)n)->seen_ns = now_ns;
}
/** TCP reports that the next hop may be dead (several RTOs): asks for it again. */
void weft_netif_neigh_unconfirmed(struct weft_netif *nif, struct weft_neigh *n);

/** What people see of a neighbour. */
struct weft_netif_neigh_info {
	struct weft_ip addr;
	struct rte_ether_addr mac; /**< all zero: not known */
	uint16_t vlan_id;          /**< 0: untagged */
	const char *state;         /**< static: "reachable", "incomplete", ... */
	bool gateway;
	uint32_t refs;     /**< connections that use it */
	uint64_t heard_ns; /**< when it last answered, or a peer's ACK came by it; 0: never */
};
/** The next neighbour from place *i on; *i becomes the place behind it. -ENOENT: there is none. */
int weft_netif_neigh_next(const struct weft_netif *nif, uint32_t *i,
                          struct weft_netif_neigh_info *out);

#endif /* WEFT_NETIF_NEIGH_H */
