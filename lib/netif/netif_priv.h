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

#include "weft_answers.h"
#include "weft_netif.h"
#include "weft_siphash.h"

WEFT_LOG_DECLARE(netif);

#define NETIF_ETHER_LEN 14
#define NETIF_VLAN_LEN  4 /* IEEE 802.1Q */
#define NETIF_L2_MAX    (NETIF_ETHER_LEN + NETIF_VLAN_LEN)
#define NETIF_IPV4_LEN  20 /* RFC 791 s3.1, without options */
#define NETIF_IPV4_MAX  60
#define NETIF_IPV6_LEN  40  /* RFC 8200 s3 */
#define NETIF_EXT_MAX   256 /* octets of extension headers that we walk; more is refused */
#define NETIF_TCP_LEN   20
#define NETIF_TCP_MAX   60
/** In the first segment of every received chain: all headers up to TCP's options. */
#define NETIF_HEADERS_MAX (NETIF_L2_MAX + NETIF_IPV6_LEN + NETIF_EXT_MAX + NETIF_TCP_MAX)
#define NETIF_MTU_MIN     128
#define NETIF_IP_MAX      65535 /* total length (RFC 791 s3.1); for IPv6 we stay below it, too */
#define NETIF_TTL         64    /* RFC 1700; hop limit, too */

#define NETIF_IPV6_MTU_MIN 1280 /* RFC 8200 s5 */

/** The ring in front of the port: TCP's share is WEFT_NETIF_TXQ, the rest is for ARP and ICMP. */
#define NETIF_RING      2048
#define NETIF_RING_CTRL (WEFT_NETIF_TXQ + 64)

/*
 * The first long packets of a poll need not wait for its last: while the next one is built, the
 * port sends them, and the peer takes them in. Few, so that what sends much still does so in full
 * bursts.
 */
#define NETIF_EARLY_PUSHES 4
#define NETIF_EARLY_BYTES  1024
/** With WEFT_NETIF_BURST packets, or so many octets, the port is offered what there is: the peer
 * works on it meanwhile. */
#define NETIF_BURST_BYTES 65536

#define NETIF_NEIGHS 1024 /**< neighbours known at once, unless said otherwise */
/* Frames that wait for a neighbour's address (netif_park.c). */
#define NETIF_PARK_FLOWS  128 /**< connections whose first one waits for one neighbour */
#define NETIF_PARK_MORE   32  /**< others of these connections, together */
#define NETIF_PARK_OWN    4   /**< places that each neighbour has for itself */
#define NETIF_PARK_SHARED 512 /**< places beyond these */
#define NETIF_PARK_NONE   UINT32_MAX
/** An answer is trusted that long; then the neighbour is asked again while it is used. */
#define NETIF_NEIGH_FRESH_NS (30 * WEFT_NS_PER_S)

enum neigh_state {
	NEIGH_NONE,       /**< known by name only; nothing asked yet */
	NEIGH_INCOMPLETE, /**< asked by broadcast or multicast, no answer yet */
	NEIGH_REACHABLE,  /**< answered lately */
	NEIGH_PROBE,      /**< answered once; asked again by unicast, used meanwhile */
	NEIGH_FAILED,     /**< did not answer; asked again when wanted, once a second at most */
};

/** A next hop. In a hash chain when it has an address; in an idle list when nobody holds it. */
struct weft_neigh {
	struct weft_neigh_progress progress; /**< first (weft_netif_neigh_confirm()) */
	struct weft_timer timer;             /**< next request, or giving up */
	struct weft_netif *nif;
	struct weft_ip addr;
	struct rte_ether_addr mac; /**< meaningful in REACHABLE and PROBE */
	uint8_t state;             /**< enum neigh_state */
	uint8_t tries;             /**< requests that left in this state */
	bool hashed;
	bool pinned;   /**< a gateway: never forgotten */
	bool answered; /**< once, whatever came of it since */
	uint32_t refs;
	uint64_t confirmed_ns;           /**< last word from it */
	uint64_t asked_ns;               /**< last request to it */
	uint32_t park_head, park_tail;   /**< whole frames that lack the destination address */
	uint16_t park_firsts, park_more; /**< how many of them */
	LIST_ENTRY(weft_neigh) chain;
	TAILQ_ENTRY(weft_neigh) idle;
};

/** A frame that waits, in the list of its neighbour or of free places. */
struct netif_parked {
	struct rte_mbuf *m;
	uint32_t flow; /**< tells connections apart */
	uint32_t next;
	bool first; /**< of its connection here */
};

/**
 * One of our IPv6 addresses. Optimistic Duplicate Address Detection (RFC 4429): it is used while it
 * is being asked about, with the restrictions that keep other caches clean.
 */
enum addr6_state {
	ADDR6_NONE,
	ADDR6_OPTIMISTIC, /**< asked about, or not yet */
	ADDR6_PREFERRED,  /**< nobody else had it */
	ADDR6_DUPLICATE,  /**< somebody has it: not used (RFC 4862 s5.4.5) */
};

enum { NETIF_LINK_LOCAL, NETIF_GLOBAL, NETIF_ADDR6S };

/** Defence of one address against those who claim it, too (RFC 5227 s2.4 (b)). */
struct netif_defence {
	uint64_t last_ns;
	bool done; /**< ever */
};

struct netif_addr6 {
	struct weft_ip ip;
	uint8_t state; /**< enum addr6_state */
	struct netif_defence defence;
};

/**
 * Who wants to know a neighbour: strangers' packets never take the requests of what is in use.
 */
enum { NETIF_ASK_HELD = 1, NETIF_ASK_ANSWERED = 2, NETIF_ASKERS = 4 };

/** Something that may happen so often and no more. */
struct netif_bucket {
	uint64_t since_ns; /**< the tokens are right for this time */
	uint32_t tokens;
};

LIST_HEAD(neigh_bucket, weft_neigh);
TAILQ_HEAD(neigh_list, weft_neigh);

struct weft_netif {
	struct weft_netif_attr attr;
	struct weft_netif_ops ops;
	void *ops_arg;
	struct weft_sched *sched;
	uint64_t now_ns;      /**< the latest time we were told */
	uint32_t addr4;       /**< our address, network order */
	uint32_t mask4;       /**< of the on-link network, network order */
	uint64_t ip_ids;      /**< IPv4 packets that had an identification so far */
	uint64_t id_key[2];   /**< of identifications */
	uint64_t hash_key[2]; /**< of tables whose entries a peer chooses */
	bool has4;            /**< whether there is an IPv4 address */
	bool vlan_insert;     /**< the port puts our tag in */
	bool link_up;         /**< when it was last looked at */
	uint64_t link_due_ns; /**< when to look again */
	bool ethdev;          /**< dev is a queue of an ethdev */
	bool stalled;         /**< the port did not take all; wait for the next flush */
	uint8_t early; /**< times that this poll may still hand packets over before its end */
	uint32_t head; /**< ring: next to send; free-running */
	uint32_t tail; /**< ring: next free */
	uint32_t fresh_bytes; /**< queued since the port was last offered a burst */
	struct weft_netif_stats stats;
	struct weft_netif_capture *capture; /**< atomic; NULL: off */
	/** atomic: the polling thread is inside netif_capture.c */
	uint32_t capturing;
	struct rte_mbuf *ring[NETIF_RING];

	struct netif_addr6 addr6[NETIF_ADDR6S];
	uint64_t flow_key[2];        /**< of flow labels (RFC 6437) */
	struct weft_timer dad_timer; /**< end of duplicate address detection */
	struct weft_timer mld_timer; /**< next membership report */
	bool mld_query;              /**< it answers a query */
	/** errors that we send (RFC 4443 s2.4 (f), RFC 1812 s4.3.2.8) */
	struct weft_answers icmp_rate;

	struct neigh_bucket *bucket; /**< 1 << bucket_bits of them */
	unsigned int bucket_bits;
	/** Not held, the longest unused first: those that answered once, and strangers' and unused
	 * places. */
	struct neigh_list idle, strangers;
	uint32_t nstrangers;
	uint32_t nneighs;                           /**< in `neigh`, the gateways included */
	struct netif_bucket ask_rate[NETIF_ASKERS]; /**< requests, by who wants to know */
	struct netif_defence defence4;              /**< of the IPv4 address */
	struct weft_neigh *neigh;
	struct netif_parked *park; /**< NETIF_PARK_OWN for each neighbour and NETIF_PARK_SHARED */
	uint32_t park_free;        /**< list of places */
	uint32_t park_shared;      /**< places taken beyond those that a neighbour has for itself */
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

/* ---- netif_budget.c ---- */

/** From complete attributes. */
void netif_budget_init(struct weft_netif *nif);

/* ---- netif_cksum.c: the Internet checksum (RFC 1071) ---- */

/** Sum of `len` octets as 16-bit words in memory order, folded to 16 bits, not complemented. */
uint16_t netif_sum(const void *p, uint32_t len);
/** Set before main(): netif_sum() may use AVX2. A test clears it to see the other way. */
extern bool netif_sum_wide;
/** The same over `len` octets of a chain from `off` on; the chain holds that many. */
uint16_t netif_sum_mbuf(const struct rte_mbuf *m, uint32_t off, uint32_t len);

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

/** Sum of the pseudo-header of RFC 8200 s8.1. */
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

/* ---- netif_addr.c: which addresses are ours, and what they reach ---- */

bool netif_attr_ok(const struct weft_netif_attr *a);
void netif_addr_init(struct weft_netif *nif);
/** Whether it can be a single host's (and not an IPv4 one in disguise, RFC 4291 s2.5.5.2). */
bool netif_ip6_is_host(const struct weft_ip *ip);
/** Which of our usable IPv6 addresses this is; NULL: none. */
struct netif_addr6 *netif_addr6_find(struct weft_netif *nif, const struct weft_ip *ip);
/** Whether it is a group that we listen to: all nodes, or of our solicited nodes. */
bool netif_addr6_joined(const struct weft_netif *nif, const struct weft_ip *group);
/** RFC 4291 s2.7.1: ff02::1:ffXX:XXXX */
struct weft_ip netif_ip6_solicited(const struct weft_ip *ip);

/* ---- netif.c ---- */

/** Queue a whole frame; consumes m. ctrl: may use the room kept free for ARP and ICMP. */
int netif_enqueue(struct weft_netif *nif, struct rte_mbuf *m, bool ctrl);
/** An mbuf with `len` zero octets behind room for every header; NULL: none left. */
struct rte_mbuf *netif_ctrl_alloc(struct weft_netif *nif, uint16_t len);
/** Cut a chain that only we hold to its first `len` octets. */
void netif_trim(struct rte_mbuf *m, uint32_t len);

/** Whether `b` has a token left at now_ns; takes it. It holds `burst` and gains per_s a second. */
bool netif_bucket_take(struct netif_bucket *b, uint64_t now_ns, uint32_t burst, uint32_t per_s);

/* ---- netif_tx.c ---- */

/**
 * Put an Ethernet header, with our tag if we have one, in front of m. dst NULL: filled in later.
 * The offload flags of m must be right before: the tag may add one.
 */
void netif_push_ether(struct weft_netif *nif, struct rte_mbuf *m, rte_be16_t type,
                      const struct rte_ether_addr *dst);

/* ---- netif_id.c ---- */

/**
 * The identification of one more IPv4 packet of protocol `proto` to dst, both addresses in network
 * order; df: whether it may not be fragmented.
 */
rte_be16_t netif_ip_id(struct weft_netif *nif, uint32_t src, uint32_t dst, uint8_t proto, bool df);

/* ---- netif_tso.c: several segments in one hand-over ---- */

static inline unsigned int
netif_tso_segs(uint32_t payload_bytes, uint32_t segsz_bytes)
{
	return (payload_bytes + segsz_bytes - 1) / segsz_bytes;
}

/** Whether a port configured with these cuts segments. */
bool netif_tso_offered(uint64_t tx_offloads);
/** Whether the port cuts m. */
bool netif_tso_port(const struct weft_netif *nif, const struct rte_mbuf *m);
/** weft_netif_tx() of what we cut; sizes are checked. */
int netif_tso_tx(struct weft_netif *nif, struct weft_neigh *n, const struct weft_ip *src,
                 const struct weft_ip *dst, struct rte_mbuf *m, uint32_t hdr_len,
                 struct weft_netif_tx_how how, uint64_t now_ns);

/* ---- netif_link.c ---- */

/** Look whether the link is there; start, or start again, when it came. */
void netif_link_look(struct weft_netif *nif);

/* ---- netif_arp.c ---- */

/** A packet of ARP at l3_off, not yet validated; m stays the caller's. */
void netif_arp_rx(struct weft_netif *nif, const struct rte_mbuf *m, uint32_t l3_off);
/** Tell the link our address. */
void netif_arp_announce(struct weft_netif *nif);
/** Ask for an address: `mac` alone, or everybody when NULL. false: not sent, for want of buffers.
 */
bool netif_arp_ask(struct weft_netif *nif, uint32_t addr, const struct rte_ether_addr *mac);
/** Whether an address may be defended now; then it is taken as done. */
bool netif_defend(struct netif_defence *d, uint64_t now_ns);

/* ---- netif_neigh.c ---- */

/** false: no memory. */
bool netif_neigh_init(struct weft_netif *nif);
void netif_neigh_fini(struct weft_netif *nif);
/** The entry of addr, NULL when there is none. */
struct weft_neigh *netif_neigh_find(struct weft_netif *nif, const struct weft_ip *addr);
/** The same, made if need be from one that nobody holds; NULL when all are held, counted. */
struct weft_neigh *netif_neigh_make(struct weft_netif *nif, const struct weft_ip *addr);
/**
 * Its address is known (again): send what waited for it. proven: it answered us; else it only said
 * so, and is asked before long use (RFC 4861's STALE).
 */
void netif_neigh_confirm(struct weft_neigh *n, const struct rte_ether_addr *mac, bool proven);
/**
 * Send a frame whose Ethernet destination is still to be filled in. Consumes m. Parks it while
 * the address is being asked for. 0 or what netif_enqueue() says.
 */
int netif_neigh_tx(struct weft_netif *nif, struct weft_neigh *n, struct rte_mbuf *m);

/* ---- netif_park.c ---- */

void netif_park_init(struct weft_netif *nif);
/** Let a TCP segment's frame wait for the neighbour's address; consumes m. Counts what must go. */
void netif_park(struct weft_neigh *n, struct rte_mbuf *m);
/** The frame that waits longest, or NULL. */
struct rte_mbuf *netif_unpark(struct weft_neigh *n);

/* ---- netif_ip.c: IPv4, and what both families share ---- */

/**
 * An IPv4 packet at l3_off, the Ethernet header checked; consumes m. A valid TCP segment comes
 * back, cut to size and with its private area filled; else NULL.
 */
struct rte_mbuf *netif_ip4_rx(struct weft_netif *nif, struct rte_mbuf *m, uint32_t l3_off);
/**
 * The TCP segment of l4_len octets at l4_off, its IP header checked; `pseudo` is the sum of its
 * pseudo-header. Consumes m. NULL: dropped and counted.
 */
struct rte_mbuf *netif_take_tcp(struct weft_netif *nif, struct rte_mbuf *m, uint32_t l4_off,
                                uint32_t l4_len, uint32_t pseudo, const struct weft_ip *src,
                                const struct weft_ip *dst, uint8_t ecn);
/** Whether an address (network order) can be a single host's on some network. */
bool netif_ip_is_host(uint32_t addr);
/** Whether an on-link address is the network's own or its broadcast address. */
bool netif_ip_is_subnet_special(const struct weft_netif *nif, uint32_t addr);

/* ---- netif_icmp.c: ICMP (RFC 792) ---- */

/** m stays the caller's. */
void netif_icmp_rx(struct weft_netif *nif, const struct rte_mbuf *m, uint32_t l3_off,
                   uint32_t l4_off, uint32_t l4_len);
/** Tell the sender of the packet at l3_off that nobody wants it; rate-limited. m stays the
 * caller's. */
void netif_icmp_unreachable(struct weft_netif *nif, const struct rte_mbuf *m, uint32_t l3_off,
                            uint8_t code);
#define NETIF_ICMP_PROTO 2 /* RFC 792: codes of destination unreachable */
#define NETIF_ICMP_PORT  3

/** Whether an error may be sent to this address now; counts those that may not. */
bool netif_icmp_may_send(struct weft_netif *nif, const struct weft_ip *to);

/* ---- netif_ip6.c ---- */

/** As netif_ip4_rx(). group: the frame was sent to several. */
struct rte_mbuf *netif_ip6_rx(struct weft_netif *nif, struct rte_mbuf *m, uint32_t l3_off,
                              bool group);
/** Put an IPv6 header in front of m. */
void netif_push_ip6(struct rte_mbuf *m, const struct weft_ip *src, const struct weft_ip *dst,
                    uint8_t proto, uint8_t hop_limit, uint32_t vtc_flow);

/* ---- netif_icmp6.c: ICMPv6 (RFC 4443) ---- */

/** One received message. */
struct netif_icmp6 {
	const struct rte_mbuf *m;
	uint32_t l3_off, off, len; /**< of the packet; of the message and its length */
	struct weft_ip src, dst;
	uint8_t hop_limit;
	bool alert; /**< with a router alert option (RFC 2711) */
};

void netif_icmp6_rx(struct weft_netif *nif, const struct netif_icmp6 *p);
/** Send the ICMPv6 message in m (checksum written here). mac NULL: dst is a group. Consumes m;
 * false: dropped. */
bool netif_icmp6_send(struct weft_netif *nif, struct rte_mbuf *m, const struct weft_ip *src,
                      const struct weft_ip *dst, uint8_t hop_limit,
                      const struct rte_ether_addr *mac);
/** Tell the sender of the packet at l3_off what is wrong with it; rate-limited (RFC 4443 s2.4). */
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
/**
 * Ask whether our addresses are ours alone, and announce them afterwards; again: announce those
 * that are.
 */
void netif_nd_start(struct weft_netif *nif);
void netif_nd_fini(struct weft_netif *nif);
/** A message of types 133 to 137, its checksum right. */
void netif_nd_rx(struct weft_netif *nif, const struct netif_icmp6 *p, const uint8_t *msg);
/** Ask for an address: `mac` alone, or its solicited-node group when NULL. false: as above. */
bool netif_nd_ask(struct weft_netif *nif, const struct weft_ip *addr,
                  const struct rte_ether_addr *mac);

/* ---- netif_mld.c: Multicast Listener Discovery (RFC 3810) ---- */

void netif_mld_init(struct weft_netif *nif);
/** Report the groups of our addresses, now and once more. */
void netif_mld_report(struct weft_netif *nif);
void netif_mld_query(struct weft_netif *nif, const struct netif_icmp6 *p, const uint8_t *msg);

/* ---- netif_guard.c: bursts that may fault ---- */

typedef uint16_t (*netif_burst_fn)(void *arg, struct rte_mbuf **pkts, uint16_t n);

/** Catch faults of guarded bursts from now on; once per process. */
void netif_guard_install(void);
/** burst(arg, pkts, n), or on_fault after a fault in it, counted. */
uint16_t netif_guard_burst(netif_burst_fn burst, void *arg, struct rte_mbuf **pkts, uint16_t n,
                           uint16_t on_fault, uint64_t *faults);

/* ---- netif_memif.c: net_memif's clients that come and leave ---- */

/** A port that is a memif server has been created. -ENOMEM. Set-up thread. */
int netif_memif_begin(const char *devname, const char *path, bool abstract);
/**
 * It is about to be stopped: no client connects to its socket from now on, and those that there are
 * end, unless another port has the same socket. Does nothing for other ports. Blocks for some
 * milliseconds. Set-up thread.
 */
void netif_memif_end(const char *devname);

#endif /* WEFT_NETIF_PRIV_H */
