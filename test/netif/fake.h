/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TEST_NETIF_FAKE_H
#define WEFT_TEST_NETIF_FAKE_H

/**
 * @file
 * A netif on a port made of two queues in memory, a builder of frames with a checksum of
 * its own, and the ways a frame may lie in memory when it arrives.
 */

#include "weft_netif.h"
#include "weft_test.h"

#define FAKE_QUEUE 4096
#define FAKE_FRAME 2048

/** A host-order address. */
#define FAKE_IP(a, b, c, d)                                                                        \
	((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))
#define FAKE_US   FAKE_IP(10, 0, 0, 1) /* host order, /24 */
#define FAKE_PEER FAKE_IP(10, 0, 0, 2)
#define FAKE_GW   FAKE_IP(10, 0, 0, 254)
#define FAKE_FAR  FAKE_IP(192, 0, 2, 7)

extern const struct rte_ether_addr fake_us_mac, fake_peer_mac, fake_all_mac;

/** One interface under test. */
struct fake {
	struct weft_sched sched;
	struct weft_netif *nif;
	uint64_t now_ns;
	struct rte_mbuf *rxq[FAKE_QUEUE];
	unsigned int nrx;
	struct rte_mbuf *txq[FAKE_QUEUE]; /**< what the port took */
	unsigned int ntx;
	unsigned int tx_room;            /**< how many it will take */
	struct rte_mbuf *up[FAKE_QUEUE]; /**< segments handed up */
	unsigned int nup, bursts;
	unsigned int in_use[2]; /**< mbufs of either pool before this case */
	struct {
		unsigned int n;
		struct weft_ip src, dst;
		uint16_t src_port, dst_port, mtu_bytes;
		uint32_t seq;
		enum weft_icmp_kind kind;
	} unreachable;
};

extern struct rte_mempool *fake_pool;    /**< the interface's */
extern struct rte_mempool *fake_foreign; /**< somebody else's */

/**
 * Whether the port computes checksums, in both directions, as a NIC does: received frames come with
 * a verdict, sent ones get what was left out. A case that FAKE_BOTH() names runs without and with
 * it.
 */
extern bool fake_hw;
#define FAKE_BOTH(fn)                                                                              \
	static void fn##_sw(void)                                                                  \
	{                                                                                          \
		fake_hw = false;                                                                   \
		fn();                                                                              \
	}                                                                                          \
	static void fn##_hw(void)                                                                  \
	{                                                                                          \
		fake_hw = true;                                                                    \
		fn();                                                                              \
	}
#define FAKE_CASES(name, fn)                                                                       \
	{name, fn##_sw},                                                                           \
	{                                                                                          \
		name "_hw", fn##_hw                                                                \
	}

/** Of what interfaces made from now on are handed as randomness; 0: none. */
extern uint64_t fake_seed;

/** Attributes every test starts from; needs fake_start() once before. */
struct weft_netif_attr fake_attr(struct fake *f);
/** Create the interface and nothing else. */
void fake_create(struct fake *f, const struct weft_netif_attr *attr);
/** Create the interface; attr NULL: fake_attr(). The announcements are sent and dropped. */
void fake_start(struct fake *f, const struct weft_netif_attr *attr);
/** Destroy it and check that every mbuf came back. */
void fake_stop(struct fake *f);
/** One turn: receive, timers, transmit. */
void fake_poll(struct fake *f);
/** Turns of 100 ms each until `ns` have passed. */
void fake_pass(struct fake *f, uint64_t ns);
/** Forget what was sent and handed up. */
void fake_drop(struct fake *f);

/** How a frame arrives. */
enum fake_how {
	FAKE_FLAT,    /**< one mbuf of the interface's pool */
	FAKE_CHAIN,   /**< pieces of `arg` octets, same pool */
	FAKE_EXTBUF,  /**< malloc'ed memory of exactly this length, so that ASan sees overruns */
	FAKE_FOREIGN, /**< another pool */
	FAKE_SHARED,  /**< somebody holds a second reference, returned */
};
struct rte_mbuf *fake_rx(struct fake *f, const void *frame, uint32_t len, enum fake_how how,
                         uint32_t arg);

/** Naive Internet checksum, octet by octet: the value to store, host order. */
uint16_t fake_cksum(const void *p, uint32_t len, uint32_t start);
/** Sum of TCP's pseudo-header, to start fake_cksum() with. */
uint32_t fake_pseudo(uint32_t src, uint32_t dst, uint8_t proto, uint32_t len);

/** What a frame is built from; zero-filled: peer to us, no options. */
struct fake_pkt {
	uint32_t src, dst; /**< host order; 0: peer, us */
	uint8_t proto;     /**< 0: TCP */
	uint8_t tos, ttl;  /**< ttl 0: 64 */
	uint16_t frag;     /**< flags and offset */
	uint8_t ip_opt;    /**< octets of NOPs in the IP header, a multiple of 4 */
	uint8_t tcp_opt;   /**< likewise in TCP's */
	uint32_t data;     /**< octets of payload, a counting pattern */
};
/** Builds Ethernet, IP and (for TCP) a TCP header; all checksums right. Returns the length. */
uint32_t fake_build(uint8_t *frame, const struct fake_pkt *p);
/** Put the IP header checksum (and TCP's or ICMP's) right again after changes. */
void fake_fix(uint8_t *frame);
/** An ARP frame from mac. */
uint32_t fake_arp(uint8_t *frame, uint16_t op, const struct rte_ether_addr *sha, uint32_t sip,
                  uint32_t tip);
/** Flat copy of what was sent i-th; returns its length. */
uint32_t fake_sent(struct fake *f, unsigned int i, uint8_t buf[FAKE_FRAME * 8]);
/** Peer answers ARP, so that the neighbour is resolved. */
void fake_resolve(struct fake *f);

/* ---- fake6.c: IPv6 ---- */

extern const struct weft_ip fake6_us, fake6_peer, fake6_gw, fake6_far; /* 2001:db8::/64, and afar */
extern const struct weft_ip fake6_us_ll, fake6_peer_ll;
extern const struct weft_ip fake6_all, fake6_none;

struct fake6_pkt {
	const struct weft_ip *src, *dst; /**< NULL: peer, us */
	uint8_t next;                    /**< 0: TCP */
	uint8_t tclass, hops;            /**< hops 0: 64 */
	uint8_t first;                   /**< type of the first of ... */
	const uint8_t *ext;              /**< extension headers that end in `next` */
	uint32_t ext_len;
	uint8_t tcp_opt;
	const uint8_t *body; /**< of other than TCP; NULL: a pattern */
	uint32_t data;
	const struct rte_ether_addr *mac_src, *mac_dst; /**< NULL: peer, us or the group */
};
/** fake_attr() with fake6_us and fake6_gw. */
struct weft_netif_attr fake6_attr(struct fake *f);
/** Start and wait until our addresses are beyond doubt. */
void fake6_start(struct fake *f, const struct weft_netif_attr *attr);
/** Build a frame, all checksums right; its length. */
uint32_t fake6_build(uint8_t *frame, const struct fake6_pkt *p);
/** Put the checksum of the message of this protocol at l4_off right. */
void fake6_fix(uint8_t *frame, uint32_t len, uint32_t l4_off, uint8_t proto);
/** What the checksum over message and pseudo-header says; 0: right. */
uint16_t fake6_cksum(const uint8_t *frame, uint32_t l4_off, uint8_t proto, uint32_t l4_len);
/** A solicitation (135) or advertisement (136); lladr NULL: without the option. */
uint32_t fake6_nd(uint8_t *frame, uint8_t type, uint8_t flags, const struct weft_ip *src,
                  const struct weft_ip *dst, const struct weft_ip *target,
                  const struct rte_ether_addr *lladr);
struct weft_ip fake6_solicited(const struct weft_ip *ip);

#endif /* WEFT_TEST_NETIF_FAKE_H */
