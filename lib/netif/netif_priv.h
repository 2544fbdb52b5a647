/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_PRIV_H
#define WEFT_NETIF_PRIV_H

/**
 * @file
 * The private declarations of netif: the interface, a neighbour, checksums, and the functions that
 * the sources call in each other. One thread uses an interface.
 */

#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_tcp.h>

#include "weft_answers.h"
#include "weft_netif.h"
#include "weft_siphash.h"

WEFT_LOG_DECLARE(netif);

#define NETIF_ETHER_LEN 14
#define NETIF_VLAN_LEN  4 /* IEEE 802.1Q */
#define NETIF_L2_MAX    (NETIF_ETHER_LEN + NETIF_VLAN_LEN)
#define NETIF_IPV4_LEN  20 /* RFC 791 s3.1, without options */
#define NETIF_IPV4_MAX  60
#define NETIF_IPV6_LEN  40 /* RFC 8200 s3 */
/* octets of extension headers that netif walks; a packet with more is dropped */
#define NETIF_EXT_MAX 256
#define NETIF_TCP_LEN 20
#define NETIF_TCP_MAX 60
/** Octets in the first mbuf of every received chain: all headers up to TCP's options. */
#define NETIF_HEADERS_MAX (NETIF_L2_MAX + NETIF_IPV6_LEN + NETIF_EXT_MAX + NETIF_TCP_MAX)
#define NETIF_MTU_MIN     128
#define NETIF_IP_MAX      65535 /* total length (RFC 791 s3.1); IPv6 packets stay below it, too */
#define NETIF_TTL         64    /* RFC 1700; also the hop limit */

#define NETIF_IPV6_MTU_MIN 1280 /* RFC 8200 s5 */

/** The ring in front of the port. TCP has WEFT_NETIF_TXQ entries, ARP and ICMP have the rest. */
#define NETIF_RING      2048
#define NETIF_RING_CTRL (WEFT_NETIF_TXQ + 64)

/* The first long packets of a poll are given to the port early. The port sends them, and the peer
 * receives them, while the next ones are built. There are few early pushes, so that a busy sender
 * still sends in full bursts. */
#define NETIF_EARLY_PUSHES 4
#define NETIF_EARLY_BYTES  1024
/** With WEFT_NETIF_BURST packets or this many octets, the port is offered the queue at once, so
 * that the peer can work on it meanwhile. */
#define NETIF_BURST_BYTES 65536

#define NETIF_NEIGHS 1024 /**< neighbours known at once, by default */
/* Frames that wait for a neighbour's address (netif_park.c). */
#define NETIF_PARK_FLOWS  128 /**< connections whose first frame waits for one neighbour */
#define NETIF_PARK_MORE   32  /**< other frames of these connections, together */
#define NETIF_PARK_OWN    4   /**< places reserved for each neighbour */
#define NETIF_PARK_SHARED 512 /**< places that all neighbours share */
#define NETIF_PARK_NONE   UINT32_MAX
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
	struct weft_ip addr;
	struct rte_ether_addr mac; /**< valid in REACHABLE and PROBE */
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

/** A waiting frame, in the list of its neighbour or of free places. */
struct netif_parked {
	struct rte_mbuf *m;
	uint32_t flow; /**< hash of the connection */
	uint32_t next;
	bool first; /**< the connection's first frame in the list */
};

/** One of our IPv6 addresses. Optimistic Duplicate Address Detection (RFC 4429): the address is
 * used during detection, with restrictions that keep other hosts' caches correct. */
enum addr6_state {
	ADDR6_NONE,
	ADDR6_OPTIMISTIC, /**< detection runs, or has not started */
	ADDR6_PREFERRED,  /**< no other station has it */
	ADDR6_DUPLICATE,  /**< another station has it: not used (RFC 4862 s5.4.5) */
};

enum { NETIF_LINK_LOCAL, NETIF_GLOBAL, NETIF_ADDR6S };

/** Defence of one address against other stations that claim it (RFC 5227 s2.4 (b)). */
struct netif_defence {
	uint64_t last_ns;
	bool done; /**< at least once */
};

struct netif_addr6 {
	struct weft_ip ip;
	uint8_t state; /**< enum addr6_state */
	struct netif_defence defence;
};

/** The requester of a neighbour's address. Packets to strangers never use up the requests for
 * neighbours in use. */
enum { NETIF_ASK_HELD = 1, NETIF_ASK_ANSWERED = 2, NETIF_ASKERS = 4 };

/** A token bucket. */
struct netif_bucket {
	uint64_t since_ns; /**< the time at which `tokens` is right */
	uint32_t tokens;
};

LIST_HEAD(neigh_bucket, weft_neigh);
TAILQ_HEAD(neigh_list, weft_neigh);

struct weft_netif {
	struct weft_netif_attr attr;
	struct weft_netif_ops ops;
	void *ops_arg;
	struct weft_sched *sched;
	uint64_t now_ns;      /**< latest time given by a caller */
	uint32_t addr4;       /**< our address, network order */
	uint32_t mask4;       /**< of the on-link network, network order */
	uint64_t ip_ids;      /**< IPv4 packets with an identification so far */
	uint64_t id_key[2];   /**< of identifications */
	uint64_t hash_key[2]; /**< of tables whose entries peers choose */
	bool has4;            /**< there is an IPv4 address */
	bool vlan_insert;     /**< the port inserts our tag */
	bool link_up;         /**< at the last check */
	uint64_t link_due_ns; /**< next check */
	bool ethdev;          /**< dev is a queue of an ethdev */
	bool stalled;         /**< the port did not take all: wait for the next flush */
	uint8_t early;        /**< early pushes left in this poll */
	uint32_t head;        /**< ring: next to send; free-running */
	uint32_t tail;        /**< ring: next free */
	uint32_t fresh_bytes; /**< octets queued since the port was last offered a burst */
	struct weft_netif_stats stats;
	struct weft_netif_capture *capture; /**< atomic; NULL: off */
	/** atomic: the polling thread is inside netif_capture.c */
	uint32_t capturing;
	struct rte_mbuf *ring[NETIF_RING];

	struct netif_addr6 addr6[NETIF_ADDR6S];
	uint64_t flow_key[2];        /**< of flow labels (RFC 6437) */
	struct weft_timer dad_timer; /**< end of Duplicate Address Detection */
	struct weft_timer mld_timer; /**< next membership report */
	bool mld_query;              /**< the next report answers a query */
	/** limit of the errors that we send (RFC 4443 s2.4 (f), RFC 1812 s4.3.2.8) */
	struct weft_answers icmp_rate;

	struct neigh_bucket *bucket; /**< 1 << bucket_bits buckets */
	unsigned int bucket_bits;
	/** Entries that no connection holds, the longest unused first: those that answered once;
	 * strangers and unused places. */
	struct neigh_list idle, strangers;
	uint32_t nstrangers;
	uint32_t nneighs;                           /**< entries of `neigh`, gateways included */
	struct netif_bucket ask_rate[NETIF_ASKERS]; /**< limits of requests, by requester */
	struct netif_defence defence4;              /**< defence of the IPv4 address */
	struct weft_neigh *neigh;
	struct netif_parked *park; /**< NETIF_PARK_OWN for each neighbour and NETIF_PARK_SHARED */
	uint32_t park_free;        /**< head of the list of free places */
	uint32_t park_shared;      /**< places taken beyond NETIF_PARK_OWN */
};

/** The latest known time, for up-calls without a clock. */
static inline uint64_t
netif_now(const struct weft_netif *nif)
{
	return RTE_MAX(nif->now_ns, nif->sched->now_ns);
}

/** In a group only member 0 answers and announces. The other members only learn. */
static inline bool
netif_answers(const struct weft_netif *nif)
{
	return nif->attr.group == NULL || nif->attr.group_index == 0;
}

/* ---- netif_budget.c ---- */

/** Computes the budgets from complete attributes. */
void netif_budget_init(struct weft_netif *nif);

/* ---- netif_cksum.c: the Internet checksum (RFC 1071) ---- */

/** The sum of `len` octets as 16-bit words in memory order, folded to 16 bits, not complemented. */
uint16_t netif_sum(const void *p, uint32_t len);
/** Set before main(): netif_sum() may use AVX2. A test clears it to test the other path. */
extern bool netif_sum_wide;
/** The same over `len` octets of a chain from `off` on. The chain must have that many. */
uint16_t netif_sum_mbuf(const struct rte_mbuf *m, uint32_t off, uint32_t len);

static inline uint16_t
netif_fold(uint64_t sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

/** The sum of a 20-octet IPv4 header. */
static inline uint16_t
netif_sum_ipv4(const void *hdr)
{
	uint32_t w[5];

	memcpy(w, hdr, sizeof(w));
	return netif_fold((uint64_t)w[0] + w[1] + w[2] + w[3] + w[4]);
}

/** The sum of TCP's pseudo-header (RFC 9293 s3.1). Addresses are in network order. */
static inline uint32_t
netif_sum_pseudo(uint32_t src, uint32_t dst, uint8_t proto, uint16_t len)
{
	return netif_fold((uint64_t)src + dst + rte_cpu_to_be_16(proto) + rte_cpu_to_be_16(len));
}

static inline uint64_t
netif_sum_words(const void *p, unsigned int n)
{
	const uint8_t *b = p;
	uint64_t sum = 0;

	for (unsigned int i = 0; i < n; i++) {
		uint32_t w;

		memcpy(&w, b + 4 * i, sizeof(w));
		sum += w;
	}
	return sum;
}

/** The sum of the pseudo-header of RFC 8200 s8.1. */
static inline uint32_t
netif_sum_pseudo6(const struct weft_ip *src, const struct weft_ip *dst, uint8_t proto, uint32_t len)
{
	return netif_fold(netif_sum_words(src, 4) + netif_sum_words(dst, 4) +
	                  rte_cpu_to_be_32(len) + rte_cpu_to_be_16(proto));
}

/* ---- Kinds of IPv6 addresses (RFC 4291 s2.4) ---- */

static inline bool
netif_ip6_is_multicast(const struct weft_ip *ip)
{
	return ip->b[0] == 0xff;
}

static inline bool
netif_ip6_is_link_local(const struct weft_ip *ip)
{
	return ip->b[0] == 0xfe && (ip->b[1] & 0xc0) == 0x80;
}

static inline bool
netif_ip_is_none(const struct weft_ip *ip)
{
	static const struct weft_ip none;

	return weft_ip_eq(ip, &none);
}

/* ---- netif_addr.c: our addresses, and the networks they reach ---- */

bool netif_attr_ok(const struct weft_netif_attr *a);
void netif_addr_init(struct weft_netif *nif);
/** Whether ip can be a single host, and is no IPv4-mapped address (RFC 4291 s2.5.5.2). */
bool netif_ip6_is_host(const struct weft_ip *ip);
/** The entry of one of our usable IPv6 addresses; NULL: not ours. */
struct netif_addr6 *netif_addr6_find(struct weft_netif *nif, const struct weft_ip *ip);
/** Whether we listen to the group: all nodes, or the solicited nodes of our addresses. */
bool netif_addr6_joined(const struct weft_netif *nif, const struct weft_ip *group);
/** RFC 4291 s2.7.1: ff02::1:ffXX:XXXX */
struct weft_ip netif_ip6_solicited(const struct weft_ip *ip);

/* ---- netif.c ---- */

/** Queues a whole frame. Consumes m. ctrl: may use the entries kept free for ARP and ICMP. */
int netif_enqueue(struct weft_netif *nif, struct rte_mbuf *m, bool ctrl);
/** Allocates an mbuf with `len` zero octets and headroom for every header; NULL: none left. */
struct rte_mbuf *netif_ctrl_alloc(struct weft_netif *nif, uint16_t len);
/** Cuts a chain that no other holder has to its first `len` octets. */
void netif_trim(struct rte_mbuf *m, uint32_t len);

/** Takes a token if `b` has one at now_ns. `b` holds `burst` tokens and gains per_s a second. */
bool netif_bucket_take(struct netif_bucket *b, uint64_t now_ns, uint32_t burst, uint32_t per_s);

/* ---- netif_tx.c ---- */

/** Puts an Ethernet header in front of m, with our tag if there is one. dst NULL: filled in later.
 * m's offload flags must be right before: the tag may add one. */
void netif_push_ether(struct weft_netif *nif, struct rte_mbuf *m, rte_be16_t type,
                      const struct rte_ether_addr *dst);

/* ---- netif_id.c ---- */

/** The identification of the next IPv4 packet of protocol `proto` to dst. Addresses are in network
 * order. df: the packet must not be fragmented. */
rte_be16_t netif_ip_id(struct weft_netif *nif, uint32_t src, uint32_t dst, uint8_t proto, bool df);

/* ---- netif_tso.c: TSO packets ---- */

static inline unsigned int
netif_tso_segs(uint32_t payload_bytes, uint32_t segsz_bytes)
{
	return (payload_bytes + segsz_bytes - 1) / segsz_bytes;
}

/** Whether a port configured with these offloads cuts segments. */
bool netif_tso_offered(uint64_t tx_offloads);
/** Whether the port can cut m. */
bool netif_tso_port(const struct weft_netif *nif, const struct rte_mbuf *m);
/** weft_netif_tx() for a packet that netif cuts. The caller has checked the sizes. */
int netif_tso_tx(struct weft_netif *nif, struct weft_neigh *n, const struct weft_ip *src,
                 const struct weft_ip *dst, struct rte_mbuf *m, uint32_t hdr_len,
                 struct weft_netif_tx_how how, uint64_t now_ns);

/* ---- netif_link.c ---- */

/** Checks the link. Announces our addresses when the link has come up. */
void netif_link_look(struct weft_netif *nif);

/* ---- netif_arp.c ---- */

/** Handles an ARP packet at l3_off, not yet validated. m stays the caller's. */
void netif_arp_rx(struct weft_netif *nif, const struct rte_mbuf *m, uint32_t l3_off);
/** Announces our address to the link. */
void netif_arp_announce(struct weft_netif *nif);
/** Asks for an address: by unicast to `mac`, or by broadcast when NULL. False: no mbuf to send
 * it. */
bool netif_arp_ask(struct weft_netif *nif, uint32_t addr, const struct rte_ether_addr *mac);
/** Whether an address may be defended now. True counts as done. */
bool netif_defend(struct netif_defence *d, uint64_t now_ns);

/* ---- netif_neigh.c ---- */

/** false: no memory. */
bool netif_neigh_init(struct weft_netif *nif);
void netif_neigh_fini(struct weft_netif *nif);
/** The entry of addr; NULL: there is none. */
struct weft_neigh *netif_neigh_find(struct weft_netif *nif, const struct weft_ip *addr);
/** The same, made if needed from an entry that no connection holds. NULL: all are held; counted. */
struct weft_neigh *netif_neigh_make(struct weft_netif *nif, const struct weft_ip *addr);
/** The neighbour's address is known (again): sends the waiting frames. proven: it answered our
 * request. Otherwise it only claimed the address, and is asked before long use (RFC 4861's
 * STALE). */
void netif_neigh_confirm(struct weft_neigh *n, const struct rte_ether_addr *mac, bool proven);
/** Sends a frame whose Ethernet destination is not filled in. Consumes m. Parks the frame while the
 * address is being asked for. Returns 0 or netif_enqueue()'s result. */
int netif_neigh_tx(struct weft_netif *nif, struct weft_neigh *n, struct rte_mbuf *m);

/* ---- netif_park.c ---- */

void netif_park_init(struct weft_netif *nif);
/** Lets a TCP segment's frame wait for the neighbour's address. Consumes m. Counts dropped
 * frames. */
void netif_park(struct weft_neigh *n, struct rte_mbuf *m);
/** Takes the frame that has waited longest; NULL: none. */
struct rte_mbuf *netif_unpark(struct weft_neigh *n);

/* ---- netif_ip.c: IPv4, and what both families share ---- */

/** Handles an IPv4 packet at l3_off whose Ethernet header is checked. Consumes m. Returns a valid
 * TCP segment, cut to size and with its private area filled; else NULL. */
struct rte_mbuf *netif_ip4_rx(struct weft_netif *nif, struct rte_mbuf *m, uint32_t l3_off);
/** Validates a TCP segment of l4_len octets at l4_off whose IP header is checked. `pseudo` is the
 * sum of its pseudo-header. Consumes m. NULL: dropped and counted. */
struct rte_mbuf *netif_take_tcp(struct weft_netif *nif, struct rte_mbuf *m, uint32_t l4_off,
                                uint32_t l4_len, uint32_t pseudo, const struct weft_ip *src,
                                const struct weft_ip *dst, uint8_t ecn);
/** Whether an address (network order) can be a single host on some network. */
bool netif_ip_is_host(uint32_t addr);
/** Whether an on-link address is the network's own or its broadcast address. */
bool netif_ip_is_subnet_special(const struct weft_netif *nif, uint32_t addr);

/* ---- netif_icmp.c: ICMP (RFC 792) ---- */

/** Handles an ICMP message. m stays the caller's. */
void netif_icmp_rx(struct weft_netif *nif, const struct rte_mbuf *m, uint32_t l3_off,
                   uint32_t l4_off, uint32_t l4_len);
/** Tells the sender of the packet at l3_off that it is unreachable here; rate-limited. m stays the
 * caller's. */
void netif_icmp_unreachable(struct weft_netif *nif, const struct rte_mbuf *m, uint32_t l3_off,
                            uint8_t code);
#define NETIF_ICMP_PROTO 2 /* RFC 792: codes of destination unreachable */
#define NETIF_ICMP_PORT  3

/** Whether an error may be sent to this address now. Counts the refusals. */
bool netif_icmp_may_send(struct weft_netif *nif, const struct weft_ip *to);

/* ---- netif_ip6.c ---- */

/** Like netif_ip4_rx(). group: the frame was sent to a multicast address. */
struct rte_mbuf *netif_ip6_rx(struct weft_netif *nif, struct rte_mbuf *m, uint32_t l3_off,
                              bool group);
/** Puts an IPv6 header in front of m. */
void netif_push_ip6(struct rte_mbuf *m, const struct weft_ip *src, const struct weft_ip *dst,
                    uint8_t proto, uint8_t hop_limit, uint32_t vtc_flow);

/* ---- netif_icmp6.c: ICMPv6 (RFC 4443) ---- */

/** A received ICMPv6 message. */
struct netif_icmp6 {
	const struct rte_mbuf *m;
	uint32_t l3_off, off, len; /**< offset of the packet; offset and length of the message */
	struct weft_ip src, dst;
	uint8_t hop_limit;
	bool alert; /**< with a router alert option (RFC 2711) */
};

void netif_icmp6_rx(struct weft_netif *nif, const struct netif_icmp6 *p);
/** Sends the ICMPv6 message in m and writes its checksum. mac NULL: dst is a group. Consumes m.
 * False: dropped. */
bool netif_icmp6_send(struct weft_netif *nif, struct rte_mbuf *m, const struct weft_ip *src,
                      const struct weft_ip *dst, uint8_t hop_limit,
                      const struct rte_ether_addr *mac);
/** Reports an error to the sender of the packet at l3_off; rate-limited (RFC 4443 s2.4). */
void netif_icmp6_error(struct weft_netif *nif, const struct rte_mbuf *m, uint32_t l3_off,
                       uint8_t type, uint8_t code, uint32_t param);
#define NETIF_ICMP6_UNREACHABLE 1 /* RFC 4443 s2.1 */
#define NETIF_ICMP6_PARAM       4
#define NETIF_ICMP6_PORT        4 /* codes: s3.1, s3.4 */
#define NETIF_ICMP6_FIELD       0
#define NETIF_ICMP6_NEXT_HDR    1
#define NETIF_ICMP6_OPTION      2

/* ---- netif_nd.c: Neighbor Discovery (RFC 4861), DAD (RFC 4862, RFC 4429) ---- */

void netif_nd_init(struct weft_netif *nif);
/** Starts Duplicate Address Detection for our addresses and announces them afterwards. When called
 * again: announces those that have passed. */
void netif_nd_start(struct weft_netif *nif);
void netif_nd_fini(struct weft_netif *nif);
/** Handles a message of types 133 to 137 with a correct checksum. */
void netif_nd_rx(struct weft_netif *nif, const struct netif_icmp6 *p, const uint8_t *msg);
/** Asks for an address: by unicast to `mac`, or to the solicited-node group when NULL. False: no
 * mbuf. */
bool netif_nd_ask(struct weft_netif *nif, const struct weft_ip *addr,
                  const struct rte_ether_addr *mac);

/* ---- netif_mld.c: Multicast Listener Discovery (RFC 3810) ---- */

void netif_mld_init(struct weft_netif *nif);
/** Reports the groups of our addresses, now and once more. */
void netif_mld_report(struct weft_netif *nif);
void netif_mld_query(struct weft_netif *nif, const struct netif_icmp6 *p, const uint8_t *msg);

/* ---- netif_guard.c: bursts that may fault ---- */

typedef uint16_t (*netif_burst_fn)(void *arg, struct rte_mbuf **pkts, uint16_t n);

/** Catches faults of guarded bursts from now on. Once per process. */
void netif_guard_install(void);
/** Returns burst(arg, pkts, n), or on_fault after a fault in it, which is counted. */
uint16_t netif_guard_burst(netif_burst_fn burst, void *arg, struct rte_mbuf **pkts, uint16_t n,
                           uint16_t on_fault, uint64_t *faults);

/* ---- netif_memif.c: clients of net_memif that connect and leave ---- */

/** A port that is a memif server has been created. -ENOMEM. Set-up thread. */
int netif_memif_begin(const char *devname, const char *path, bool abstract);
/** The port is about to be stopped. No client can connect to its socket from now on, and existing
 * clients are disconnected, unless another port has the same socket. Does nothing for other ports.
 * Blocks for some milliseconds, 500 at most. Set-up thread. */
void netif_memif_end(const char *devname);

#endif /* WEFT_NETIF_PRIV_H */
