/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_TX_H
#define WEFT_NETIF_TX_H

/** @file How TCP sends its segments. Internal. Polling thread. */

#include <stdbool.h>
#include <stdint.h>

struct rte_mbuf;
struct weft_ip;
struct weft_neigh;
struct weft_netif;

/** The most segments that one TSO packet is cut into (struct weft_netif_tx_how). */
#define WEFT_NETIF_TSO_SEGS 64

/** How a segment is sent. */
struct weft_netif_tx_how {
	uint8_t ecn;  /**< enum weft_ecn */
	uint8_t dscp; /**< 0..63 (RFC 2474 s3) */
	/** 0: m is one segment. Otherwise m is several: the port cuts its payload into segments of
	 * this many octets; the last may be shorter. netif cuts it where the port lacks
	 * RTE_ETH_TX_OFFLOAD_TCP_TSO or what that needs. FIN and PSH are set on the last segment.
	 * m may then exceed the MTU, up to 65535 octets of IP packet and WEFT_NETIF_TSO_SEGS
	 * segments. netif sets CWR on the first segment alone (RFC 3168 s6.1.2). Ports differ, so
	 * do not set CWR for them. */
	uint16_t tso_segsz_bytes;
	bool may_fragment; /**< IPv4: DF stays clear */
	bool own_sum;      /**< the port fills in no checksum and cuts nothing */
};

/** The number of segments that weft_netif_tx() will take now. */
unsigned int weft_netif_tx_room(const struct weft_netif *nif);

/** Whether packets wait for room in the port, or in the kernel below it. Neither reports when it
 * has room again. */
bool weft_netif_tx_waits(const struct weft_netif *nif);

/**
 * Sends one TCP segment. m's data begins at the TCP header, with WEFT_NETIF_HEADROOM in front.
 * netif writes the checksum field. m may be a chain whose first mbuf holds the whole TCP header.
 * Consumes one reference of m always, also on error. The headers stay in front: a holder of another
 * reference finds data_off, the lengths and the TX flags changed.
 *
 * 0, -ENOBUFS (queue full or no mbufs, counted; of several segments none is sent), -EMSGSIZE
 * (longer than the MTU, or no headroom). While the next hop's address is being asked for, segments
 * wait: the first of each connection and a few more (netif_park.c). Excess segments are dropped and
 * counted. All are dropped if no answer comes. TCP retransmits them.
 */
int weft_netif_tx(struct weft_netif *nif, struct weft_neigh *n, const struct weft_ip *src,
                  const struct weft_ip *dst, struct rte_mbuf *m, struct weft_netif_tx_how how,
                  uint64_t now_ns);

/**
 * Sends the first of n segments of one connection, each like weft_netif_tx() with `how`, which asks
 * for no cutting. Each is one mbuf, with WEFT_NETIF_RUN_HEADROOM in front. The TCP headers differ
 * in sequence number, flags and window alone; their checksum field is 0. A payload whose sum has
 * come with it (struct weft_mbuf_sum) is not read. Returns how many it has consumed; it leaves the
 * others as they were: when the queue is full, a segment is too long or has too little headroom, or
 * the next hop's address has to be asked for.
 */
unsigned int weft_netif_tx_run(struct weft_netif *nif, struct weft_neigh *n,
                               const struct weft_ip *src, const struct weft_ip *dst,
                               struct rte_mbuf **m, unsigned int count,
                               struct weft_netif_tx_how how, uint64_t now_ns);
/** WEFT_NETIF_HEADROOM, in whole vectors. */
#define WEFT_NETIF_RUN_HEADROOM 64

/** What the port accepts as one TSO packet. */
struct weft_netif_tso {
	/** TCP header and payload; 0: no TSO (netif would cut the packet, without gain) */
	uint16_t bytes;
	uint16_t mbufs;
};
/** The values for packets to dst. They become 0 when TSO is switched off
 * (weft_netif_offload_trust.h). */
struct weft_netif_tso weft_netif_tso(const struct weft_netif *nif, const struct weft_ip *dst);

#endif /* WEFT_NETIF_TX_H */
