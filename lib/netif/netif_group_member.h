/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_GROUP_MEMBER_H
#define NETIF_GROUP_MEMBER_H

/**
 * @file What a group and its members consist of: for netif_group.c (the device of a member),
 * netif_group_make.c (the group as a whole) and netif_group_flow.c (connections).
 */

#include <stdatomic.h>

#include <rte_ring.h>

#include "netif_flow.h"
#include "netif_group_priv.h"
#include "netif_learn.h"
#include "netif_priv.h"

/** Frames that wait to be handed to one sibling. */
struct group_stage {
	unsigned int n;
	struct rte_mbuf *m[WEFT_NETIF_BURST];
};

/** How far a member believes the port's hash. */
struct group_trust {
	uint32_t left;   /**< hashes that are used before the next check; 0: check */
	uint32_t doubt;  /**< SYNs with a correct hash that are still needed; 0: trusted */
	uint32_t wrongs; /**< the group's count that `doubt` knows of */
};

struct group_member {
	struct weft_netif_group *g;
	unsigned int index;
	bool joined;
	bool rx, tx;                    /**< the member has a queue of the port in this direction */
	struct weft_netif *_Atomic nif; /**< siblings wake the netif */
	const struct weft_netif_dev *dev; /**< device of that queue */
	void *dev_arg;
	struct rte_mempool *pool;
	struct rte_ring *in;    /**< frames from siblings; only this member empties the ring */
	struct rte_ring *relay; /**< frames for member 0 to send; NULL: this member sends itself */
	struct group_trust trust[2]; /**< IPv4, IPv6 */
	uint64_t stray_ns;           /**< time of the last stray that counted */
	uint8_t places, misplaced;   /**< segments checked for their queue; those in a wrong one */
	bool ring_next;              /**< of one frame: it is the ring's turn, not the port's */
	unsigned int moved;
	struct weft_netif_group_stats stats;
	struct group_stage stage[WEFT_GROUP_MEMBERS];
	/** the member's own frames that the port gave beyond those that netif asked for */
	unsigned int kept_first;
	_Atomic uint32_t kept_n; /**< weft_netif_group_pending() reads it */
	struct rte_mbuf *kept[NETIF_RX_ASK];
	/* Member 0, when it sends for all: the frames that the port has not taken yet. */
	unsigned int relay_next; /**< the next member whose ring is emptied */
	unsigned int pend_first, pend_n;
	struct rte_mbuf *pend[WEFT_NETIF_BURST];
} __rte_cache_aligned;

struct weft_netif_group {
	struct netif_steer steer;
	bool rss;
	_Atomic uint32_t link_down; /**< written by member 0 */
	/** times that a member's trust in the port's hash ended, for IPv4 and IPv6; all members
	 * then doubt it */
	_Atomic uint32_t wrongs[2];
	uint32_t ring_mbufs;       /**< received frames that all rings can hold */
	struct netif_flows *flows; /**< of a port with RSS; else NULL */
	struct netif_learn *learn; /**< likewise */
	struct group_member member[];
};

/** The member that owns the connections with this hash. */
static inline unsigned int
group_owner(const struct weft_netif_group *g, uint32_t hash)
{
	if (unlikely(g->flows != NULL && netif_flow_adopts(g->flows)))
		return netif_flow_owner(g->flows, hash);
	return netif_steer_member(&g->steer, hash);
}

/* ---- netif_group_make.c ---- */

/** Frees the frames in the ring. Returns how many. */
unsigned int netif_group_ring_drop(struct rte_ring *r);

#endif /* NETIF_GROUP_MEMBER_H */
