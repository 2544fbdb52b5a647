/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_GROUP_H
#define WEFT_NETIF_GROUP_H

/**
 * @file
 * One port for several workers: a group of netifs ("members") that share the port's addresses.
 * Internal; made by the engine before any member, and given to each in its attributes.
 *
 * Who owns a connection is decided by Toeplitz over its addresses and ports and by a redirection
 * table, as receive-side scaling does it. A port with RSS brings each packet to its owner's queue
 * by itself: the group then has the port's own key and table. A port without brings all of them to
 * member 0, which passes whole mbufs on to the owners over rings. Both are one code: whatever a
 * member receives for a connection of another's is passed on, so a packet that the port put on the
 * wrong queue arrives, too.
 *
 * ICMP errors go to the owner of the quoted segment. ARP and Neighbor Discovery go to all, so that
 * each cache learns; member 0 alone answers and announces. An echo is answered where it arrives.
 *
 * Rings are bounded, and what does not fit is dropped and counted. No lock anywhere: the tables do
 * not change after creation, and rings are all that members share.
 */

#include "weft_netif.h"

#define WEFT_GROUP_MEMBERS   64
#define WEFT_GROUP_RETA_BITS 9
/** entries of the largest redirection table (RTE_ETH_RSS_RETA_SIZE_512) */
#define WEFT_GROUP_RETA_MAX (1 << WEFT_GROUP_RETA_BITS)
#define WEFT_GROUP_KEY_MIN  40 /**< octets: what 4-tuples of IPv6 take */
#define WEFT_GROUP_KEY_MAX  52

/** Source ports are chosen from here to 65535: the dynamic ports of RFC 6335. */
#define WEFT_PORT_FIRST 49152
#define WEFT_PORT_COUNT 16384

struct weft_netif_group_attr {
	unsigned int members; /**< 1..WEFT_GROUP_MEMBERS */
	/** a secret, or a peer can aim at one member; NULL: a public one */
	const uint8_t *key;
	unsigned int key_bytes; /**< 40..52 */
	const uint16_t *reta;   /**< entry to member; NULL: in turn, over 128 entries */
	unsigned int reta_size; /**< a power of two, up to WEFT_GROUP_RETA_MAX */
	unsigned int rx_queues; /**< of the port: `members`, or 1: member 0 receives for all */
	unsigned int tx_queues; /**< of the port: `members`, or 1: member 0 sends for all */
	/** [1024, or what pool_mbufs says] mbufs in each ring; a power of two */
	unsigned int ring_size;
	/** of the receive pool: unless told, received frames on all rings are an eighth of it at
	 * most, or 32 of a ring; 0: not looked at */
	unsigned int pool_mbufs;
	int socket;
};

/** Per member; each written by its own thread only. */
struct weft_netif_group_stats {
	uint64_t handed_out;     /**< segments passed on to their owner */
	uint64_t handed_in;      /**< frames taken from the ring */
	uint64_t handover_drops; /**< segments lost because their owner's ring was full */
	uint64_t icmp_handed;    /**< ICMP errors passed on, lost ones not included */
	uint64_t news_out;       /**< copies of ARP and ND frames given to siblings */
	uint64_t news_drops;     /**< copies not made: no mbuf, or a sibling's ring half full */
	uint64_t relay_out;      /**< frames given to member 0 to send */
	uint64_t relay_full;     /**< bursts that member 0's ring did not take whole; they wait */
	/** frames that the port did not take any more when the member left */
	uint64_t leave_drops;
	/** times that a SYN ended trust in the port's hash: it is not what we compute */
	uint64_t hash_mismatch;
	uint64_t no_port; /**< active opens for which no source port was left */
};

/** -EINVAL, -ENOMEM. Set-up thread. */
int weft_netif_group_create(const struct weft_netif_group_attr *attr,
                            struct weft_netif_group **out);
/** After all members; frees what is left in the rings. */
void weft_netif_group_destroy(struct weft_netif_group *g);

/** Which member owns the connection; any thread. Addresses of one family. */
unsigned int weft_netif_group_owner(const struct weft_netif_group *g, const struct weft_ip *local,
                                    uint16_t local_port, const struct weft_ip *remote,
                                    uint16_t remote_port);
unsigned int weft_netif_group_members(const struct weft_netif_group *g);
/** Received frames that all rings together may hold; never lent (weft_netif_budget.h). */
uint32_t weft_netif_group_ring_mbufs(const struct weft_netif_group *g);
/** Whether the port steers by itself, as far as we know. */
bool weft_netif_group_has_rss(const struct weft_netif_group *g);
const struct weft_netif_group_stats *weft_netif_group_stats(const struct weft_netif_group *g,
                                                            unsigned int member);
/** The counters' names; returns how many. */
unsigned int weft_netif_group_stat_fields(const struct weft_stat_field **out);
/** Whether frames wait in a ring that this member empties; any thread, a hint. */
bool weft_netif_group_pending(const struct weft_netif_group *g, unsigned int member);

/**
 * A source port for a connection from src to dst:dst_port whose answers come to nif (RFC 6056: at
 * random, then the next that is usable). In a group it is found without trial: Toeplitz is linear,
 * so the ports that lead to one entry of the redirection table are a list made beforehand. `usable`
 * says whether a port is free. The port, or -EADDRNOTAVAIL. Worker of nif.
 */
int weft_netif_pick_port(struct weft_netif *nif, const struct weft_ip *src,
                         const struct weft_ip *dst, uint16_t dst_port, const struct weft_rand *rand,
                         bool (*usable)(void *arg, uint16_t port), void *arg);

#endif /* WEFT_NETIF_GROUP_H */
