/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TEST_NETIF_FAKE_H
#define WEFT_TEST_NETIF_FAKE_H

/**
 * @file
 * An interface on a simulated port (two queues in memory), and a builder of frames. The builder has
 * its own checksum code and can place a frame in mbufs in several ways (enum fake_how).
 */

#include "weft_netif_attr.h"
#include "weft_netif_icmp.h"
#include "weft_sched.h"
#include "weft_test.h"

#define FAKE_QUEUE 4096
#define FAKE_FRAME 2048

/** An IPv4 address in host order. */
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
	unsigned int asked_least;         /**< the fewest frames that the port was asked for */
	struct rte_mbuf *txq[FAKE_QUEUE]; /**< packets that the port accepted */
	unsigned int ntx;
	unsigned int tx_room; /**< packets that the port still accepts */
	bool no_link;         /**< the port reports that it has no link */
	int reset_rc;         /**< what a reset of its transmit queue returns */
	unsigned int resets;
	uint64_t tx_counted; /**< packets that the port says it has sent */
	int tx_count_rc;
	int wake_fd;       /**< descriptor of the receive interrupt; 0: the port has none */
	unsigned int arms; /**< the interrupt was armed so often, and is now: */
	bool armed;
	struct rte_mbuf *up[FAKE_QUEUE]; /**< segments passed to TCP */
	unsigned int nup, bursts;
	unsigned int in_use[2]; /**< mbufs of each pool in use before this case */
	struct {
		unsigned int n;
		struct weft_ip src, dst;
		uint16_t src_port, dst_port, mtu_bytes;
		uint32_t seq;
		enum weft_icmp_kind kind;
	} unreachable;
};

extern struct rte_mempool *fake_pool;    /**< pool of the interface */
extern struct rte_mempool *fake_foreign; /**< pool of another owner */

/**
 * Whether the port offloads checksums as a NIC does: it sets the checksum flags of received frames
 * and completes the checksums of sent frames. A case named with FAKE_BOTH() runs without and with
 * offloads.
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

/** Seed of the random numbers of interfaces that are created from now on; 0: they get no source of
 * random numbers. */
extern uint64_t fake_seed;

/** Default attributes of the tests. */
struct weft_netif_attr fake_attr(struct fake *f);
/** Create the interface without polling it. attr is as for fake_start(). */
void fake_create(struct fake *f, const struct weft_netif_attr *attr);
/** Create the interface with attr (NULL: fake_attr()). Its announcements are sent and dropped. */
void fake_start(struct fake *f, const struct weft_netif_attr *attr);
/** Destroy the interface and check that every mbuf was freed. */
void fake_stop(struct fake *f);
/** Poll once: receive, run timers, transmit. */
void fake_poll(struct fake *f);
/** Poll every 100 ms until `ns` have passed. */
void fake_pass(struct fake *f, uint64_t ns);
/** Free the frames that were sent and the segments that were passed up. */
void fake_drop(struct fake *f);

/** The form of mbufs in which a frame arrives. */
enum fake_how {
	FAKE_FLAT,    /**< one mbuf of the interface's pool */
	FAKE_CHAIN,   /**< segments of `arg` octets, same pool */
	FAKE_EXTBUF,  /**< malloc'ed memory of exactly this length, so that ASan detects overruns */
	FAKE_FOREIGN, /**< one mbuf of fake_foreign */
	FAKE_SHARED,  /**< the test has a second reference, which is returned */
};
struct rte_mbuf *fake_rx(struct fake *f, const void *frame, uint32_t len, enum fake_how how,
                         uint32_t arg);

/** Internet checksum computed octet by octet. Returns the value to store, in host order. */
uint16_t fake_cksum(const void *p, uint32_t len, uint32_t start);
/** Sum of the pseudo-header, for `start` of fake_cksum(). */
uint32_t fake_pseudo(uint32_t src, uint32_t dst, uint8_t proto, uint32_t len);

/** Description of a frame. All zeros: a TCP segment from FAKE_PEER to FAKE_US without options. */
struct fake_pkt {
	uint32_t src, dst; /**< host order; 0: peer, us */
	uint8_t proto;     /**< 0: TCP */
	uint8_t tos, ttl;  /**< ttl 0: 64 */
	uint16_t frag;     /**< flags and offset */
	uint8_t ip_opt;    /**< octets of NOPs in the IP header, a multiple of 4 */
	uint8_t tcp_opt;   /**< octets of NOPs in the TCP header */
	uint32_t data;     /**< octets of payload (a counting pattern) */
};
/** Build Ethernet, IP and (for TCP) TCP headers with valid checksums. Returns the length of the
 * frame. */
uint32_t fake_build(uint8_t *frame, const struct fake_pkt *p);
/** Recompute the checksums of the IP header and of TCP or ICMP after a change. */
void fake_fix(uint8_t *frame);
/** Build an ARP frame whose Ethernet source is sha. */
uint32_t fake_arp(uint8_t *frame, uint16_t op, const struct rte_ether_addr *sha, uint32_t sip,
                  uint32_t tip);
/** Copy the i-th sent frame to buf. Returns its length. */
uint32_t fake_sent(struct fake *f, unsigned int i, uint8_t buf[FAKE_FRAME * 8]);
/** Let the peer answer an ARP request, so that the neighbour is resolved. */
void fake_resolve(struct fake *f);

/* ---- fake6.c: IPv6 ---- */

extern const struct weft_ip fake6_us, fake6_peer, fake6_gw, fake6_far; /* far: off-link */
extern const struct weft_ip fake6_us_ll, fake6_peer_ll;
extern const struct weft_ip fake6_all, fake6_none;

struct fake6_pkt {
	const struct weft_ip *src, *dst; /**< NULL: peer, us */
	uint8_t next;                    /**< 0: TCP */
	uint8_t tclass, hops;            /**< hops 0: 64 */
	uint8_t first;                   /**< type of the first header in ext */
	const uint8_t *ext;              /**< extension headers; `next` follows the last */
	uint32_t ext_len;
	uint8_t tcp_opt;
	const uint8_t *body; /**< if not TCP; NULL: a pattern */
	uint32_t data;
	const struct rte_ether_addr *mac_src,
	        *mac_dst; /**< NULL: FAKE_PEER's; FAKE_US's or the group's */
};
/** fake_attr() with the address fake6_us and the gateway fake6_gw. */
struct weft_netif_attr fake6_attr(struct fake *f);
/** Create the interface and wait until duplicate address detection has ended (RFC 4862 s5.4). */
void fake6_start(struct fake *f, const struct weft_netif_attr *attr);
/** Build a frame with valid checksums. Returns its length. */
uint32_t fake6_build(uint8_t *frame, const struct fake6_pkt *p);
/** Recompute the checksum of the message of this protocol at l4_off. */
void fake6_fix(uint8_t *frame, uint32_t len, uint32_t l4_off, uint8_t proto);
/** Checksum over the message and the pseudo-header. 0: the message's checksum is valid. */
uint16_t fake6_cksum(const uint8_t *frame, uint32_t l4_off, uint8_t proto, uint32_t l4_len);
/** Build a Neighbor Solicitation (135) or Advertisement (136). lladr NULL: without the link-layer
 * address option. */
uint32_t fake6_nd(uint8_t *frame, uint8_t type, uint8_t flags, const struct weft_ip *src,
                  const struct weft_ip *dst, const struct weft_ip *target,
                  const struct rte_ether_addr *lladr);
struct weft_ip fake6_solicited(const struct weft_ip *ip);

#endif /* WEFT_TEST_NETIF_FAKE_H */
