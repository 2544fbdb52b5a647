/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_PRIV_H
#define NETIF_PRIV_H

/**
 * @file
 * The interface itself. The other private headers are one for each part. One thread uses an
 * interface.
 */

#include <stdatomic.h>

#include <rte_common.h>
#include <rte_mbuf.h>

#include "netif_addr.h"
#include "netif_offload_trust.h"
#include "netif_packet.h"
#include "weft_answers.h"
#include "weft_netif.h"
#include "weft_netif_attr.h"
#include "weft_netif_stats.h"
#include "weft_sched.h"
#include "weft_tsan.h"

WEFT_LOG_DECLARE(netif);

/** The ring in front of the port. TCP has WEFT_NETIF_TXQ entries, ARP and ICMP have the rest. */
#define NETIF_RING      2048
#define NETIF_RING_CTRL (WEFT_NETIF_TXQ + 64)

/** The fewest frames that a driver is asked for, if one frame is not known to be enough
 * (rx_single): the vector receive functions of NICs' drivers give none when they are asked for
 * fewer. */
#define NETIF_RX_ASK 8

/** Our addresses: of each network, and one link-local for each VLAN. */
#define NETIF_NETS_ALL (2 * WEFT_NETIF_NETS)
#define NETIF_NET_BITS 6

/** The requester of a neighbour's address. Packets to strangers never use up the requests for
 * neighbours in use. */
enum { NETIF_ASK_HELD = 1, NETIF_ASK_ANSWERED = 2, NETIF_ASKERS = 4 };

/** A token bucket. */
struct netif_bucket {
	uint64_t since_ns; /**< the time at which `tokens` is right */
	uint32_t tokens;
};

/** What is known of the receive interrupt (netif_sleep.c). */
struct netif_sleep {
	int fd; /**< as armed last; -1: never */
	bool armed;
	/** fd is readable while a frame waits: the tap of net_tap, the socket of net_af_packet */
	bool waits;
	bool proven; /**< it has ended a sleep */
	bool lies;   /**< it does not end sleeps */
	uint8_t doubts;
};

/** A look at what the device has sent (netif_stall.c). */
struct netif_tx_look {
	uint64_t at_ns; /**< 0: never */
	uint64_t sent;  /**< packets, as the device counts */
	uint64_t given; /**< packets that it was given */
};

LIST_HEAD(neigh_bucket, weft_neigh);
TAILQ_HEAD(neigh_list, weft_neigh);

struct netif_shared;

struct weft_netif {
	struct weft_netif_attr attr;
	struct netif_shared *shared; /**< the ports that are ours; NULL: all are */
	struct weft_netif_ops ops;
	void *ops_arg;
	struct weft_sched *sched;
	uint64_t now_ns;       /**< latest time given by a caller */
	uint64_t ip_ids;       /**< IPv4 packets with an identification so far */
	uint64_t id_key[2];    /**< of identifications */
	uint64_t hash_key[2];  /**< of tables whose entries peers choose */
	bool vlan_insert;      /**< the port inserts our tags */
	bool link_up;          /**< at the last check */
	uint64_t link_due_ns;  /**< next check */
	uint64_t link_back_ns; /**< when it came back last; 0: it was never lost */
	/** it goes and comes with its peer: no log lines, and the loss tells of the peer */
	bool link_quiet;
	uint64_t link_lost_ns; /**< when it went down; 0: it is up, or never was */
	bool link_often;       /**< a bonded port: it has to be checked often */
	bool link_moved;       /**< at the last check: its frames take another way now */
	bool ethdev;           /**< dev is a queue of an ethdev */
	bool rx_single;        /**< its driver gives a frame when it is asked for one */
	bool stalled;          /**< the port did not take all: wait for the next flush */
	uint8_t early;         /**< early pushes left in this poll */
	uint32_t head;         /**< ring: next to send; free-running */
	uint32_t tail;         /**< ring: next free */
	uint32_t fresh_bytes;  /**< octets queued since the port was last offered a burst */
	struct netif_sleep sleep;
	struct netif_packet packet;
	struct netif_rx_sum rx_sum;
	struct netif_tx_sum tx_sum;
	struct netif_tx_look tx_look;
	uint64_t stall_due_ns; /**< when a queue that takes nothing is a stalled one; 0: it takes */
	struct weft_netif_stats stats;
	struct weft_netif_capture *_Atomic capture; /**< NULL: off */
	/** the polling thread is inside netif_capture.c */
	_Atomic uint32_t capturing;
	struct rte_mbuf *ring[NETIF_RING];

	uint64_t flow_key[2];        /**< of flow labels (RFC 6437) */
	struct weft_timer dad_timer; /**< end of Duplicate Address Detection */
	/** limit of the errors that we send (RFC 4443 s2.4 (f), RFC 1812 s4.3.2.8) */
	struct weft_answers icmp_rate;

	/** How the neighbour cache asks for an IPv4 or IPv6 neighbour (netif_ask_fn). */
	bool (*ask4)(struct netif_vlan *v, const struct weft_ip *addr,
	             const struct rte_ether_addr *mac);
	bool (*ask6)(struct netif_vlan *v, const struct weft_ip *addr,
	             const struct rte_ether_addr *mac);
	struct neigh_bucket *bucket; /**< 1 << bucket_bits buckets */
	unsigned int bucket_bits;
	/** Entries that no connection holds, the longest unused first: those that answered once;
	 * strangers and unused places. */
	struct neigh_list idle, strangers;
	uint32_t nstrangers;
	uint32_t nneighs;                           /**< entries of `neigh`, gateways included */
	struct netif_bucket ask_rate[NETIF_ASKERS]; /**< limits of requests, by requester */
	struct weft_neigh *neigh;
	struct netif_parked *park; /**< NETIF_PARK_OWN for each neighbour and NETIF_PARK_SHARED */
	uint32_t park_free;        /**< head of the list of free places */
	uint32_t park_shared;      /**< places taken beyond NETIF_PARK_OWN */

	/* Our networks: first the configured ones, then the link-local ones (netif_net.h). */
	unsigned int nnets, nnets_conf, nnets4, nvlans;
	struct netif_net *last4;             /**< the IPv4 one that was found last, or any */
	uint8_t net_of[1 << NETIF_NET_BITS]; /**< first network of a bucket, from 1; 0: none */
	struct netif_net net[NETIF_NETS_ALL];
	struct netif_vlan vlan[WEFT_NETIF_NETS];
	uint8_t vlan_of[RTE_ETHER_MAX_VLAN_ID + 1]; /**< by identifier, from 1; 0: not ours */
};

/** The latest known time, for up-calls without a clock. */
static inline uint64_t
netif_now(const struct weft_netif *nif)
{
	return RTE_MAX(nif->now_ns, nif->sched->now_ns);
}

/** In a group member 0 speaks for the port: the other members do not ask the device for its link.
 */
static inline bool
netif_leads(const struct weft_netif *nif)
{
	return nif->attr.group == NULL || nif->attr.group_index == 0;
}

/** In a group only member 0 answers and announces. The other members only learn. Of a shared port
 * the owner of the device answers and announces. */
static inline bool
netif_answers(const struct weft_netif *nif)
{
	return netif_leads(nif) && !nif->attr.shared;
}

/* ---- netif_budget.c ---- */

/** Computes the budgets from complete attributes. */
void netif_budget_init(struct weft_netif *nif);

/* ---- netif_link.c ---- */

/** Checks the link. Announces our addresses when the link has come up. */
void netif_link_look(struct weft_netif *nif);

/**
 * Frees a received frame. A port in shared memory hands over mbufs that their sender holds as well,
 * or indirect ones of such: for ThreadSanitizer this is an acquire of each count (weft_tsan.h).
 */
static inline void
netif_rx_free(struct rte_mbuf *m)
{
#ifdef __SANITIZE_THREAD__
	for (struct rte_mbuf *s = m; s != NULL; s = s->next) {
		WEFT_TSAN_ACQUIRE(&s->refcnt);
		if (RTE_MBUF_CLONED(s))
			WEFT_TSAN_ACQUIRE(&rte_mbuf_from_indirect(s)->refcnt);
	}
#endif
	rte_pktmbuf_free(m);
}

#endif /* NETIF_PRIV_H */
