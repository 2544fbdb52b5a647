/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_FLOW_H
#define NETIF_FLOW_H

/**
 * @file
 * Which member owns the connections of a bucket (netif_flow.c). Private to groups with RSS.
 *
 * A bucket has all tuples with the same 16 low bits of the group's Toeplitz hash. Its first owner
 * is the one that the redirection table names. Where a port was found to place packets otherwise,
 * owners change: the member on whose queue a SYN arrives claims the SYN's bucket, and the packets
 * that follow the SYN need no hand-over.
 *
 * A bucket can be claimed only while it holds no connection, in TIME-WAIT or otherwise, and no SYN
 * cookie that may still be answered. So at each moment all connections of a bucket are in the table
 * of one member, whatever was measured and whether it was right. The owner adds and removes
 * connections, and any member claims, by compare-and-exchange of one word: if the bucket changes
 * hands between a SYN's arrival and its connection, the SYN counts as lost and its sender sends it
 * again.
 *
 * A member claims only while it has room and less than one and a half times its share of the
 * connections. Above that it gives a bucket that holds nothing back to the owner that the table
 * names. So a port that brings all packets to one queue does not bring all work to one worker, also
 * if many short connections came before.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_common.h>

#include "weft_netif_group.h"

struct netif_learn;
struct netif_steer;

#define FLOW_BUCKETS (1 << 16)

/** Connections of one member. */
struct flow_count {
	_Atomic uint32_t conns;
	atomic_bool full; /**< it has no room for another connection */
} __rte_cache_aligned;

struct netif_flows {
	_Atomic uint32_t adopts; /**< claims are allowed */
	unsigned int members;
	const uint8_t *reta; /**< the first owners, of reta_mask + 1 entries */
	uint32_t reta_mask;
	struct flow_count count[WEFT_GROUP_MEMBERS];
	/** owner: bits 24 to 31; time of the last cookie: bits 16 to 23; connections: the rest */
	_Atomic uint32_t bucket[FLOW_BUCKETS];
};

/** reta: of reta_size entries, to members; it stays the caller's, and valid. */
void netif_flow_init(struct netif_flows *fl, unsigned int members, const uint8_t *reta,
                     uint32_t reta_size);
/** The member claims the bucket of the hash. False: it cannot. `mine`: for an active open, whatever
 * the member's share is. */
bool netif_flow_claim(struct netif_flows *fl, unsigned int member, uint32_t hash, bool mine,
                      uint64_t now_ns);
/** A SYN came to the member, which owns its bucket. Gives the bucket back to its first owner if it
 * holds nothing and the member has its share. Returns the owner. */
unsigned int netif_flow_keep(struct netif_flows *fl, unsigned int member, uint32_t hash,
                             uint64_t now_ns);
/** Whether the member has no room for another connection. */
void netif_flow_full(struct netif_flows *fl, unsigned int member, bool full);
/** The member adds a connection to the bucket. False: the bucket is not the member's, or full. */
bool netif_flow_hold(struct netif_flows *fl, unsigned int member, uint32_t hash);
/** Removes it. */
void netif_flow_release(struct netif_flows *fl, unsigned int member, uint32_t hash);
/** No member claims the bucket for the next WEFT_FLOW_PIN_NS. False: it is not the member's. */
bool netif_flow_pin(struct netif_flows *fl, unsigned int member, uint32_t hash, uint64_t now_ns);

/** Members may claim from now on. */
static inline void
netif_flow_adopt(struct netif_flows *fl)
{
	if (atomic_load_explicit(&fl->adopts, memory_order_relaxed) == 0)
		atomic_store_explicit(&fl->adopts, 1, memory_order_relaxed);
}

static inline unsigned int
netif_flow_owner(const struct netif_flows *fl, uint32_t hash)
{
	return atomic_load_explicit(&fl->bucket[hash & (FLOW_BUCKETS - 1)], memory_order_relaxed) >>
	       24;
}

/** Whether owners may differ from the redirection table. */
static inline bool
netif_flow_adopts(const struct netif_flows *fl)
{
	return atomic_load_explicit(&fl->adopts, memory_order_relaxed) != 0;
}

/* ---- netif_pick.c ---- */

/** An active open that needs a source port, as in weft_netif_pick_port(). */
struct netif_pick {
	const struct netif_steer *steer;
	struct netif_flows *flows;
	struct netif_learn *learn;
	unsigned int member;
	const struct weft_ip *src, *dst; /**< without the number of a VLAN */
	uint16_t dst_port;
	uint64_t now_ns;
	const struct weft_rand *rand;
	bool (*usable)(void *arg, uint16_t port);
	void *arg;
};

/** Picks a port whose bucket is the member's, or was claimed; one whose answer arrives on the
 * member's queue, as far as that was learnt, which *learnt counts. -EADDRNOTAVAIL. */
int netif_pick_port(const struct netif_pick *k, uint64_t *learnt);

#endif /* NETIF_FLOW_H */
