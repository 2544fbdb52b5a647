/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_PRIV_H
#define WEFT_NETIF_PRIV_H

/**
 * @file
 * What the parts of netif share: the interface itself, a neighbour, checksums and
 * the calls from one part to another. One thread per interface throughout.
 */

#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_tcp.h>

#include "weft_netif.h"

WEFT_LOG_DECLARE(netif);

#define NETIF_ETHER_LEN 14
#define NETIF_IPV4_LEN  20 /* RFC 791 s3.1, without options */
#define NETIF_IPV4_MAX  60
#define NETIF_TCP_LEN   20
#define NETIF_TCP_MAX   60
/** In the first segment of every received chain: all headers up to TCP's options. */
#define NETIF_HEADERS_MAX (NETIF_ETHER_LEN + NETIF_IPV4_MAX + NETIF_TCP_MAX)
#define NETIF_TTL         64 /* RFC 1700 */

/** The ring in front of the port: TCP's share is WEFT_NETIF_TXQ, the rest is for ARP and ICMP. */
#define NETIF_RING      2048
#define NETIF_RING_CTRL (WEFT_NETIF_TXQ + 64)

#define NETIF_NEIGHS        256 /**< neighbours known at once */
#define NETIF_NEIGH_BUCKETS 256
#define NETIF_PARK          4 /**< packets waiting for one neighbour's address */
/** An answer to ARP is trusted that long; then the neighbour is asked again while it is used. */
#define NETIF_NEIGH_FRESH_NS (30 * WEFT_NS_PER_S)

enum neigh_state {
	NEIGH_NONE,       /**< known by name only; nothing asked yet */
	NEIGH_INCOMPLETE, /**< asked by broadcast, no answer yet */
	NEIGH_REACHABLE,  /**< answered lately */
	NEIGH_PROBE,      /**< answered once; asked again by unicast, used meanwhile */
	NEIGH_FAILED,     /**< did not answer; asked again when wanted, once a second at most */
};

/** A next hop. In a hash chain when it has an address; in `idle` when nobody holds it. */
struct weft_neigh {
	struct weft_timer timer; /**< next request, or giving up */
	struct weft_netif *nif;
	struct weft_ip addr;
	struct rte_ether_addr mac; /**< meaningful in REACHABLE and PROBE */
	uint8_t state;             /**< enum neigh_state */
	uint8_t tries;             /**< requests sent in this state */
	uint8_t nparked;
	bool hashed;
	uint32_t refs;
	uint64_t confirmed_ns;               /**< last word from it */
	uint64_t asked_ns;                   /**< last request to it */
	struct rte_mbuf *parked[NETIF_PARK]; /**< whole frames that lack the destination address */
	LIST_ENTRY(weft_neigh) chain;
	TAILQ_ENTRY(weft_neigh) idle;
};

LIST_HEAD(neigh_bucket, weft_neigh);
TAILQ_HEAD(neigh_list, weft_neigh);

struct weft_netif {
	struct weft_netif_attr attr;
	struct weft_netif_ops ops;
	void *ops_arg;
	struct weft_sched *sched;
	uint64_t now_ns; /**< the latest time we were told */
	uint32_t addr4;  /**< our address, network order */
	uint32_t mask4;  /**< of the on-link network, network order */
	uint16_t ip_id;
	bool announced;
	bool ethdev;   /**< dev is a queue of an ethdev */
	bool stalled;  /**< the port did not take all; wait for the next flush */
	uint32_t head; /**< ring: next to send; free-running */
	uint32_t tail; /**< ring: next free */
	struct weft_netif_stats stats;
	struct weft_netif_capture *capture; /**< atomic; NULL: off */
	uint32_t capturing;                 /**< atomic: the polling thread is inside netif_capture.c */
	struct rte_mbuf *ring[NETIF_RING];

	struct neigh_bucket bucket[NETIF_NEIGH_BUCKETS];
	struct neigh_list idle; /**< not held, the longest unused first */
	uint64_t ask_window_ns; /**< start of the window in which requests are counted */
	uint32_t asked;         /**< requests in it */
	uint64_t defended_ns;   /**< last announcement against a duplicate address */
	bool defended;
	struct weft_neigh neigh[NETIF_NEIGHS];
};

/** The time as far as anybody told us: up-calls without a clock use it. */
static inline uint64_t
netif_now(const struct weft_netif *nif)
{
	return RTE_MAX(nif->now_ns, nif->sched->now_ns);
}

/** Of a group one member alone answers and announces; the others only learn. */
static inline bool
netif_answers(const struct weft_netif *nif)
{
	return nif->attr.group == NULL || nif->attr.group_index == 0;
}

/* ---- netif_cksum.c: the Internet checksum (RFC 1071) ---- */

/** Sum of `len` octets as 16-bit words in memory order, folded to 16 bits, not complemented. */
uint16_t
netif_sum(const void *p, uint32_t len);
/** The same over `len` octets of a chain from `off` on; the chain holds that many. */
uint16_t
netif_sum_mbuf(const struct rte_mbuf *m, uint32_t off, uint32_t len);

static inline uint16_t
netif_fold(uint64_t sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

/** Sum of a 20-octet IPv4 header. */
static inline uint16_t
netif_sum_ipv4(const void *hdr)
{
	uint32_t w[5];

	memcpy(w, hdr, sizeof(w));
	return netif_fold((uint64_t)w[0] + w[1] + w[2] + w[3] + w[4]);
}

/** Sum of TCP's pseudo-header (RFC 9293 s3.1); addresses in network order. */
static inline uint32_t
netif_sum_pseudo(uint32_t src, uint32_t dst, uint8_t proto, uint16_t len)
{
	return netif_fold((uint64_t)src + dst + rte_cpu_to_be_16(proto) + rte_cpu_to_be_16(len));
}

/* ---- netif.c ---- */

/** Queue a whole frame; consumes m. ctrl: may use the room kept free for ARP and ICMP. */
int
netif_enqueue(struct weft_netif *nif, struct rte_mbuf *m, bool ctrl);
/** Cut a chain that only we hold to its first `len` octets. */
void
netif_trim(struct rte_mbuf *m, uint32_t len);

/* ---- netif_arp.c ---- */

void
netif_arp_init(struct weft_netif *nif);
void
netif_arp_fini(struct weft_netif *nif);
/** A frame of type ARP, not yet validated; m stays the caller's. */
void
netif_arp_rx(struct weft_netif *nif, const struct rte_mbuf *m);
/** Tell the link our address. */
void
netif_arp_announce(struct weft_netif *nif);
/**
 * Send a frame whose Ethernet destination is still to be filled in. Consumes m. Parks it while
 * the address is being asked for. 0 or what netif_enqueue() says.
 */
int
netif_neigh_tx(struct weft_netif *nif, struct weft_neigh *n, struct rte_mbuf *m);

/* ---- netif_ip.c ---- */

/**
 * A frame of type IPv4, its Ethernet header checked; consumes m. A valid TCP segment comes back,
 * cut to size and with its private area filled; else NULL.
 */
struct rte_mbuf *
netif_ip_rx(struct weft_netif *nif, struct rte_mbuf *m);
/** Whether an address (network order) can be a single host's on some network. */
bool
netif_ip_is_host(uint32_t addr);
/** Whether an on-link address is the network's own or its broadcast address. */
bool
netif_ip_is_subnet_special(const struct weft_netif *nif, uint32_t addr);

/* ---- netif_guard.c: bursts that may fault ---- */

typedef uint16_t (*netif_burst_fn)(void *arg, struct rte_mbuf **pkts, uint16_t n);

/** Catch faults of guarded bursts from now on; once per process. */
void netif_guard_install(void);
/** burst(arg, pkts, n), or on_fault after a fault in it, counted. */
uint16_t netif_guard_burst(netif_burst_fn burst, void *arg, struct rte_mbuf **pkts, uint16_t n,
                           uint16_t on_fault, uint64_t *faults);

#endif /* WEFT_NETIF_PRIV_H */
