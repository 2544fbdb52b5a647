/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_CAPTURE_H
#define WEFT_NETIF_CAPTURE_H

/**
 * @file Copies of the packets that interfaces see, on their way to a pcapng file. Internal: the
 * polling threads copy into a ring and never wait; whoever made the capture drains it on a thread
 * of its own.
 */

#include "weft_netif.h"

struct weft_netif_capture;

/** One end of the packets that are wanted; all zero: any. */
struct weft_netif_capture_end {
	struct weft_ip addr; /**< all zero: any */
	uint16_t port;       /**< of TCP; 0: any */
};

struct weft_netif_capture_attr {
	uint16_t port_id;       /**< an ethdev port: the capture's interface */
	uint32_t snaplen_bytes; /**< octets kept of a packet; 0: a whole frame of the MTU */
	/** of several segments handed to the port as one (TSO) so much is kept */
	uint32_t mtu_bytes;
	uint32_t queue_packets; /**< that may wait to be drained, a power of two */
	/** Only what travels between these (local as seen from us); both all zero: everything, ARP
	 * included. */
	struct weft_netif_capture_end local, remote;
};

struct weft_netif_capture_stats {
	uint64_t packets; /**< copied */
	uint64_t dropped; /**< wanted, but the queue was full or no buffer left */
};

/** Set-up thread. -EINVAL (no such port), -ENOMEM. */
int weft_netif_capture_create(const struct weft_netif_capture_attr *attr,
                              struct weft_netif_capture **out);
/** No interface may have it any more. */
void weft_netif_capture_destroy(struct weft_netif_capture *c);

/**
 * Give nif's packets to c from now on, or to nobody (NULL). Any thread; on return no polling thread
 * uses the former capture any more. Waits for the end of a burst under way.
 */
void weft_netif_set_capture(struct weft_netif *nif, struct weft_netif_capture *c);

/** Take at most n waiting packets, formatted for rte_pcapng_write_packets(). One thread at a time.
 */
unsigned int weft_netif_capture_drain(struct weft_netif_capture *c, struct rte_mbuf **m,
                                      unsigned int n);
void weft_netif_capture_stats(const struct weft_netif_capture *c,
                              struct weft_netif_capture_stats *st);

#endif /* WEFT_NETIF_CAPTURE_H */
