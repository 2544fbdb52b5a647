/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_CAPTURE_H
#define WEFT_NETIF_CAPTURE_H

/**
 * @file Captures: copies of the packets of interfaces, for a pcapng file. Internal. The polling
 * threads copy into a ring and never wait. The creator of the capture drains the ring on a thread
 * of its own.
 */

#include <stdbool.h>
#include <stdint.h>

#include "weft_base.h"

struct rte_mbuf;
struct weft_netif;
struct weft_netif_capture;

/** One end of the wanted packets; all zero: any. */
struct weft_netif_capture_end {
	struct weft_ip addr; /**< all zero: any */
	uint16_t port;       /**< TCP port; 0: any */
};

/** Which packets are wanted. All zero: every packet, ARP included. */
struct weft_netif_capture_filter {
	struct weft_netif_capture_end local, remote; /**< local: ours */
	uint16_t port;                               /**< TCP port of either end; 0: any */
	/** Bit N: RDMAP opcode N (RFC 5040 s4.3). 0: any. Else segments with octets of an FPDU
	 * that has one of these, and the start-up frames of connections. */
	uint32_t opcodes;
	bool keep_unknown; /**< with opcodes: also segments of which the FPDUs are not known */
};

struct weft_netif_capture_attr {
	uint16_t port_id;       /**< an ethdev port: the capture's interface */
	uint32_t snaplen_bytes; /**< octets kept of a packet; 0: a whole frame of the MTU */
	/** the MTU; of a longer TSO packet one frame of this MTU is kept */
	uint32_t mtu_bytes;
	uint32_t queue_packets; /**< packets that may wait to be drained; a power of two */
	struct weft_netif_capture_filter filter;
};

struct weft_netif_capture_stats {
	uint64_t packets; /**< copied */
	uint64_t dropped; /**< wanted, but the queue was full or no buffer was left */
	/** segments of which the FPDUs are not known, while the filter asks for opcodes */
	uint64_t unknown;
};

/** Creates a capture. Set-up thread. -EINVAL (no such port), -ENOMEM. */
int weft_netif_capture_create(const struct weft_netif_capture_attr *attr,
                              struct weft_netif_capture **out);
/** Replaces the filter, while no interface uses the capture. */
void weft_netif_capture_set_filter(struct weft_netif_capture *c,
                                   const struct weft_netif_capture_filter *filter);
/** Call when no interface uses the capture any more. */
void weft_netif_capture_destroy(struct weft_netif_capture *c);

/**
 * Gives nif's packets to c from now on, or to no capture (NULL). Any thread. On return no polling
 * thread uses the previous capture. Waits for the end of a burst in progress.
 */
void weft_netif_set_capture(struct weft_netif *nif, struct weft_netif_capture *c);

/** Takes at most n waiting packets, formatted for rte_pcapng_write_packets(). Their stamps are the
 * TSC: weft_netif_capture_stamp() gives them the time of day. One thread at a time. */
unsigned int weft_netif_capture_drain(struct weft_netif_capture *c, struct rte_mbuf **m,
                                      unsigned int n);
/** The TSC at which a drained packet came or went. */
uint64_t weft_netif_capture_tsc(const struct rte_mbuf *m);
/** Sets the stamp of a copy; in a file it is in ns since 1970. */
void weft_netif_capture_stamp(struct rte_mbuf *m, uint64_t stamp);
void weft_netif_capture_stats(const struct weft_netif_capture *c,
                              struct weft_netif_capture_stats *st);

#endif /* WEFT_NETIF_CAPTURE_H */
