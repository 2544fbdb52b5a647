/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_NEIGH_H
#define NETIF_NEIGH_H

/** @file Neighbours (netif_neigh.c). */

#include <rte_ether.h>

#include "weft_base.h"
#include "weft_netif_neigh.h"
#include "weft_timer.h"

struct netif_vlan;
struct rte_mbuf;
struct weft_netif;

#define NETIF_NEIGHS 1024 /**< neighbours known at once, by default */
/** How long an answer is trusted. After that a neighbour in use is asked again. */
#define NETIF_NEIGH_FRESH_NS (30 * WEFT_NS_PER_S)

enum neigh_state {
	NEIGH_NONE,       /**< only the address is known; not asked yet */
	NEIGH_INCOMPLETE, /**< asked by broadcast or multicast, no answer yet */
	NEIGH_REACHABLE,  /**< answered recently */
	NEIGH_PROBE,      /**< answered before; asked again by unicast and used meanwhile */
	NEIGH_FAILED,     /**< did not answer; asked again when needed, at most once a second */
};

/** A next hop. In a hash chain if it has an address; in an idle list if no connection holds it. */
struct weft_neigh {
	struct weft_neigh_progress progress; /**< first (weft_netif_neigh_confirm()) */
	struct weft_timer timer;             /**< next request, or the end of the attempts */
	struct weft_netif *nif;
	struct netif_vlan *vlan; /**< the key is VLAN and address */
	struct weft_ip addr;
	struct rte_ether_addr mac; /**< valid in REACHABLE and PROBE */
	uint16_t vlan_id;          /**< that of `vlan`, beside what a sent packet needs */
	uint8_t state;             /**< enum neigh_state */
	uint8_t tries;             /**< requests sent in this state */
	bool hashed;
	bool pinned;   /**< a gateway: never evicted */
	bool answered; /**< has answered at least once */
	uint32_t refs;
	uint64_t confirmed_ns;           /**< last answer from it, or progress */
	uint64_t asked_ns;               /**< last request to it */
	uint32_t park_head, park_tail;   /**< frames that lack the destination address */
	uint16_t park_firsts, park_more; /**< counts of first and other frames */
	LIST_ENTRY(weft_neigh) chain;
	TAILQ_ENTRY(weft_neigh) idle;
};

/**
 * A way to ask on a VLAN for the address of neighbour `addr`: by unicast to `mac`, or to all that
 * may know it when NULL. False: no mbuf to send it. The answer, if one comes, calls
 * netif_neigh_confirm().
 */
typedef bool (*netif_ask_fn)(struct netif_vlan *v, const struct weft_ip *addr,
                             const struct rte_ether_addr *mac);

/** ask4, ask6: how to ask for neighbours of each family. false: no memory. */
bool netif_neigh_init(struct weft_netif *nif, netif_ask_fn ask4, netif_ask_fn ask6);
void netif_neigh_fini(struct weft_netif *nif);
/** The entry of addr on this VLAN; NULL: there is none. */
struct weft_neigh *netif_neigh_find(const struct netif_vlan *v, const struct weft_ip *addr);
/** The same, made if needed from an entry that no connection holds. NULL: all are held; counted. */
struct weft_neigh *netif_neigh_make(struct netif_vlan *v, const struct weft_ip *addr);
/** The neighbour's address is known (again): sends the waiting frames. proven: it answered our
 * request. Otherwise it only claimed the address, and is asked before long use (RFC 4861's
 * STALE). */
void netif_neigh_confirm(struct weft_neigh *n, const struct rte_ether_addr *mac, bool proven);
/** Sends a frame whose Ethernet destination is not filled in. Consumes m. Parks the frame while the
 * address is being asked for. Returns 0 or netif_enqueue()'s result. */
int netif_neigh_tx(struct weft_netif *nif, struct weft_neigh *n, struct rte_mbuf *m);

#endif /* NETIF_NEIGH_H */
