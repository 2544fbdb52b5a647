/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_MBUF_H
#define WEFT_NETIF_MBUF_H

/** @file mbufs and their pools, as netif and the layers above it use them. Internal. */

#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "weft_base.h"

struct weft_netif;

/** Octets that netif puts in front of a TCP header at most: Ethernet, one VLAN tag, IPv6. */
#define WEFT_NETIF_HEADROOM (14 + 4 + 40)

/** The ECN field of an IP header (RFC 3168 s5). */
enum weft_ecn {
	WEFT_ECN_NOT_ECT = 0,
	WEFT_ECN_ECT1 = 1,
	WEFT_ECN_ECT0 = 2,
	WEFT_ECN_CE = 3,
};

/**
 * The sum of what a segment carries, made by the layer that wrote it while it had the octets in
 * hand, so that netif need not read them again for TCP's checksum.
 */
struct weft_mbuf_sum {
	/** the 16-bit words in memory order, added in one's complement (RFC 1071), as a sum of 32
	 * bits that is not folded */
	uint32_t sum;
	/** octets that it covers, from the first one of the payload on. netif uses it for a payload
	 * of exactly this length. 0: there is none */
	uint16_t bytes;
	/** set by weft_netif_alloc(): netif computes the checksum, and not the port */
	bool wanted;
};

/** Adds a sum of words to another one. */
static inline uint32_t
weft_sum_add(uint32_t sum, uint64_t more)
{
	uint64_t all = sum + (more & UINT32_MAX) + (more >> 32);

	all = (all & UINT32_MAX) + (all >> 32);
	return (uint32_t)((all & UINT32_MAX) + (all >> 32));
}

/** The sum of the same octets behind an odd number of others. */
static inline uint32_t
weft_sum_odd(uint32_t sum)
{
	return sum << 8 | sum >> 24;
}

/** The private area of every mbuf of a weft pool. The pool's priv_size must be at least this.
 * Received segments use `rx`. Segments in TCP's send queue use `tx`, whose content TCP defines. A
 * received mbuf with refcnt > 1 (net_ring passes the sender's mbuf) is copied first, so the two
 * uses never conflict. */
struct weft_mbuf_priv {
	union {
		struct {
			struct weft_ip src; /**< IP source */
			struct weft_ip dst; /**< IP destination, one of our addresses */
			/** ECN field of the packet (RFC 3168 s5), enum weft_ecn */
			uint8_t ecn;
		} rx;
		struct {
			uint64_t tx[7]; /**< holds struct tcp_seg */
			struct weft_mbuf_sum tx_sum;
		};
	};
};

static inline struct weft_mbuf_priv *
weft_mbuf_priv(struct rte_mbuf *m)
{
	return (struct weft_mbuf_priv *)rte_mbuf_to_priv(m);
}

/** Creates a mempool for a netif. Each mbuf holds a whole frame of mtu_bytes, or the longest frame
 * that an mbuf can hold (weft_netif_tx_most()). The name must be unique in the process. -ENOMEM. */
int weft_netif_pool_create(const char *name, unsigned int mbufs, uint16_t mtu_bytes, int socket,
                           struct rte_mempool **out);

/**
 * The longest IP packet that the layers above send: the MTU, or what one mbuf of the transmit pool
 * holds as a frame with a VLAN tag, if that is less (an mbuf's length has 16 bits). Longer packets
 * are received.
 */
uint16_t weft_netif_tx_most(const struct weft_netif *nif);

/** Allocates an mbuf of tx_pool with `headroom` octets reserved (WEFT_NETIF_HEADROOM and what TCP
 * adds), without a sum of its payload. NULL: the pool is empty. */
struct rte_mbuf *weft_netif_alloc(struct weft_netif *nif, uint16_t headroom);

#endif /* WEFT_NETIF_MBUF_H */
