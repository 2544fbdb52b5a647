/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_GROUP_H
#define WEFT_NETIF_GROUP_H

/**
 * @file
 * One port for several workers: a group of netifs ("members") that share the port's addresses.
 * Internal. The engine makes the group before any member and passes it in each member's attributes.
 *
 * The owner of a connection follows from Toeplitz over its addresses and ports and from a
 * redirection table, as in receive-side scaling. A port with RSS puts each packet into the owner's
 * queue; the group then uses the port's key and table. A port without RSS puts all packets into the
 * queue of member 0, which passes whole mbufs to the owners over rings. Both use the same code: a
 * member passes on what it receives for another member's connection. So a packet that the port put
 * into the wrong queue arrives, too.
 *
 * An ICMP error goes to the owner of the quoted segment. ARP and Neighbor Discovery go to all
 * members, so that each cache learns. Member 0 alone answers and announces. The member that
 * receives an echo request answers it.
 *
 * A port may place packets otherwise than its key and table say. When this was measured, owners
 * follow the port (netif_flow.h): the member on whose queue a SYN arrives owns the connection, and
 * an active open chooses a source port whose answers arrive on its own queue, as far as the SYNs
 * have shown (netif_learn.h). A connection never changes its owner, so a wrong measurement costs
 * hand-overs and no connection.
 *
 * Rings are bounded. Frames that do not fit are dropped and counted. There is no lock: the tables
 * of the hash do not change after creation, and members share the rings and the words of owners.
 */

#include <stdbool.h>
#include <stdint.h>

struct weft_ip;
struct weft_netif;
struct weft_netif_group;
struct weft_rand;
struct weft_stat_field;

#define WEFT_GROUP_MEMBERS   64
#define WEFT_GROUP_RETA_BITS 9
/** entries of the largest redirection table (RTE_ETH_RSS_RETA_SIZE_512) */
#define WEFT_GROUP_RETA_MAX (1 << WEFT_GROUP_RETA_BITS)
#define WEFT_GROUP_KEY_MIN  40 /**< octets: needed for the 4-tuple of IPv6 */
#define WEFT_GROUP_KEY_MAX  52

/** Source ports are chosen from this one to 65535: the dynamic ports of RFC 6335. */
#define WEFT_PORT_FIRST 49152
#define WEFT_PORT_COUNT 16384

struct weft_netif_group_attr {
	unsigned int members; /**< 1..WEFT_GROUP_MEMBERS */
	/** should be secret, or a peer can aim at one member; NULL: a public key */
	const uint8_t *key;
	unsigned int key_bytes; /**< 40..52 */
	const uint16_t *reta; /**< table entry to member; NULL: members in turn, over 128 entries */
	unsigned int reta_size; /**< a power of two, up to WEFT_GROUP_RETA_MAX */
	unsigned int rx_queues; /**< of the port: `members`, or 1: member 0 receives for all */
	unsigned int tx_queues; /**< of the port: `members`, or 1: member 0 sends for all */
	bool astray;            /**< the port is known to place otherwise than key and table say */
	/** [1024, or what pool_mbufs allows] mbufs in each ring; a power of two */
	unsigned int ring_size;
	/** size of the receive pool: without ring_size, the rings together hold at most an eighth
	 * of it in received frames, or 32 each; 0: not considered */
	unsigned int pool_mbufs;
	int socket;
};

/** Counters of one member. Each is written by the member's thread only. */
struct weft_netif_group_stats {
	uint64_t handed_out;     /**< segments passed on to their owner */
	uint64_t handed_in;      /**< frames taken from the member's ring */
	uint64_t handover_drops; /**< segments lost because their owner's ring was full */
	uint64_t icmp_handed;    /**< ICMP errors passed on, without lost ones */
	uint64_t copies_out;     /**< copies of ARP and ND frames given to siblings */
	uint64_t copy_drops;     /**< copies not made: no mbuf, or a sibling's ring was half full */
	uint64_t relay_out;      /**< frames given to member 0 for sending */
	uint64_t relay_full;     /**< bursts that did not fit member 0's ring; the rest waits */
	/** frames that the port did not take when the member left */
	uint64_t leave_drops;
	/** times that the trust in the port's hash ended: it is not the one we compute */
	uint64_t hash_mismatch;
	uint64_t hash_missing; /**< segments without a hash, of a port with RSS */
	/** segments of other members that were dropped, because the port's hash was wrong */
	uint64_t strays;
	/** checked segments that the port put into another queue than its table says */
	uint64_t queue_mismatch;
	/** times that this was more than a quarter of them, of 64 in sequence */
	uint64_t queue_wrong;
	uint64_t no_port; /**< active opens without a free source port */
	/** SYNs of a port that places by another key or table, whose connections the member took
	 * over because they arrived on its queue */
	uint64_t adopted;
	/** active opens whose source port was chosen by what such a port was seen to do */
	uint64_t ports_learnt;
	uint64_t learn_wrong; /**< times that a SYN contradicted it, and it was forgotten */
	/** SYNs and active opens that began anew because another member had taken over */
	uint64_t owner_changed;
};

/** Creates a group. -EINVAL, -ENOMEM. Set-up thread. */
int weft_netif_group_create(const struct weft_netif_group_attr *attr,
                            struct weft_netif_group **out);
/** Call after all members are destroyed. Frees the frames left in the rings. */
void weft_netif_group_destroy(struct weft_netif_group *g);

/** The member that owns the connection. Both addresses are of one family. Any thread. */
unsigned int weft_netif_group_owner(const struct weft_netif_group *g, const struct weft_ip *local,
                                    uint16_t local_port, const struct weft_ip *remote,
                                    uint16_t remote_port);
unsigned int weft_netif_group_members(const struct weft_netif_group *g);
/** Received frames that all rings together can hold. They are never lent (weft_netif_budget.h). */
uint32_t weft_netif_group_ring_mbufs(const struct weft_netif_group *g);
/** Whether the port steers by itself, as far as it reports. */
bool weft_netif_group_has_rss(const struct weft_netif_group *g);
const struct weft_netif_group_stats *weft_netif_group_stats(const struct weft_netif_group *g,
                                                            unsigned int member);
/** Gives the names of the counters. Returns how many. */
unsigned int weft_netif_group_stat_fields(const struct weft_stat_field **out);
/** Whether frames wait in a ring that this member empties, or were taken from the port and not
 * handed up yet. Any thread; a hint. */
bool weft_netif_group_pending(const struct weft_netif_group *g, unsigned int member);

/**
 * Whether a segment belongs to another member, because the port's hash brought it to this one. The
 * caller drops it without an answer; its sender sends it again, and no member uses the port's hash
 * then. Ask for a segment without SYN that belongs to no connection. Worker of nif.
 */
bool weft_netif_stray(struct weft_netif *nif, const struct weft_ip *local, uint16_t local_port,
                      const struct weft_ip *remote, uint16_t remote_port);

/** No owner changes so long after a pin: 128 s, in which a SYN cookie may be answered. */
#define WEFT_FLOW_PIN_NS UINT64_C(128000000000)

/** Addresses and ports of a connection. */
struct weft_netif_flow {
	const struct weft_ip *local, *remote;
	uint16_t local_port, remote_port;
};

/**
 * A connection begins: from now on nif's member owns it. False: another member does (its SYN was
 * meant for that member, or a claim came first). Then the SYN is dropped as if lost, and an active
 * open picks another port. Worker of nif; so are the next two.
 */
bool weft_netif_flow_hold(struct weft_netif *nif, const struct weft_netif_flow *f);
/** Its end, TIME-WAIT included. */
void weft_netif_flow_release(struct weft_netif *nif, const struct weft_netif_flow *f);
/** Whether the worker has no room for another connection: then it takes over no more of them from
 * other members. */
void weft_netif_flow_full(struct weft_netif *nif, bool full);
/** Keeps the owner for WEFT_FLOW_PIN_NS without a connection, for a SYN cookie. False: as above. */
bool weft_netif_flow_pin(struct weft_netif *nif, const struct weft_netif_flow *f);

/**
 * Picks a source port for a connection from src to dst:dst_port whose replies arrive at nif
 * (RFC 6056: a random port, then the next usable one). In a group no trial is needed: Toeplitz is
 * linear, so the ports of each entry of the redirection table are listed in advance. `usable` says
 * whether a port is free. Returns the port, or -EADDRNOTAVAIL. Worker of nif.
 */
int weft_netif_pick_port(struct weft_netif *nif, const struct weft_ip *src,
                         const struct weft_ip *dst, uint16_t dst_port, const struct weft_rand *rand,
                         bool (*usable)(void *arg, uint16_t port), void *arg);
/** Whether replies of a connection arrive at nif: its local port is not another process's
 * (weft_netif_shared.h), and no other member's (as it is now). Worker of nif. */
bool weft_netif_port_leads(const struct weft_netif *nif, const struct weft_netif_flow *f);

#endif /* WEFT_NETIF_GROUP_H */
