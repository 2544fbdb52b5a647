/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_H
#define WEFT_NETIF_H

/**
 * @file
 * One queue of one port: Ethernet with at most one VLAN tag, ARP (RFC 826) and Neighbor Discovery
 * (RFC 4861), IPv4 (RFC 791) and IPv6 (RFC 8200), ICMP and ICMPv6, checksums. netif is the only
 * user of ethdev. The header is internal. The engine (receive) and TCP (transmit) call it on the
 * worker that owns the queue.
 *
 * Receive: netif takes a burst from the port and validates it: every length, the IP and the TCP
 * checksum (in software when the port does not report it). It hands the TCP segments up as one
 * burst. The data of each mbuf begins at the TCP header, and pkt_len is exact.
 *
 * Transmit: TCP gives mbufs whose data begins at the TCP header, with WEFT_NETIF_HEADROOM octets in
 * front. A queue in front of the port holds what the port does not take at once.
 * weft_netif_tx_room() is the back-pressure.
 *
 * Memory: one pool for received and one for sent packets, so that neither direction can take the
 * buffers that the other needs to continue.
 *
 * This header is the interface itself. Its parts have headers of their own: weft_netif_attr.h
 * (attributes and devices), weft_netif_tx.h, weft_netif_mbuf.h, weft_netif_neigh.h (next hops),
 * weft_netif_addr.h (our addresses), weft_netif_icmp.h, weft_netif_stats.h, weft_netif_budget.h,
 * weft_netif_port.h, weft_netif_group.h and weft_netif_capture.h.
 */

#include <stdbool.h>
#include <stdint.h>

struct rte_mbuf;
struct weft_icmp_error;
struct weft_netif;
struct weft_netif_attr;
struct weft_netif_budgets;
struct weft_sched;

/** The size of a receive burst, and the largest burst handed up. */
#define WEFT_NETIF_BURST 32
/** A receive burst ends with the question to the port that brings it to so many octets: to copy and
 * to check them takes up to 10 us, and a poll is to stay below 50 us. A question is for 8 frames,
 * so a burst has less than so many octets and 8 frames: at an MTU of 9000 up to 121 KB, in two
 * questions. Frames of 1514 octets do not reach it. */
#define WEFT_NETIF_BURST_BYTES (48U * 1024)
/** The most segments that wait for the port. */
#define WEFT_NETIF_TXQ 1024

/** Up-calls. */
struct weft_netif_ops {
	/** n >= 1 validated TCP segments of 20 octets or more. The callee owns the mbufs. They may
	 * be chains. The first mbuf of a chain holds the whole TCP header with its options. */
	void (*tcp_rx)(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n,
	               uint64_t now_ns);
	/** An ICMP error about one of our TCP segments. May be NULL. */
	void (*icmp_error)(void *arg, struct weft_netif *nif, const struct weft_icmp_error *e,
	                   uint64_t now_ns);
	/** A sibling of the group has handed a frame to this member, for weft_netif_poll() to take.
	 * Runs on the sibling's thread, once a burst. A worker that sleeps between polls must wake
	 * up here. Its last check before it sleeps is weft_netif_handed(). May be NULL. */
	void (*wake)(void *arg);
	/** The link is back after an interruption. May be NULL. */
	void (*link_up)(void *arg, struct weft_netif *nif, uint64_t now_ns);
};

/** Creates a netif. Copies *attr. The first poll that finds a link announces the IPv4 address by
 * gratuitous ARP and starts Duplicate Address Detection for the IPv6 addresses (RFC 4862 s5.4). So
 * does the first poll after the link was lost; it then announces the IPv6 addresses that have
 * passed. An IPv6 address is used during detection (RFC 4429), and no longer if another station
 * objects within the second. If that address is the link-local one, IPv6 is disabled
 * (RFC 4862 s5.4.5). Set-up thread. -EINVAL (attributes), -ENOMEM. */
int weft_netif_create(const struct weft_netif_attr *attr, const struct weft_netif_ops *ops,
                      void *ops_arg, struct weft_sched *sched, struct weft_netif **out);
/** Frees queued packets and timers, and leaves the port alone. A member of a group first sends what
 * it and its siblings have queued, as far as the port takes it: no member may be polling, and
 * member 0 is destroyed last. */
void weft_netif_destroy(struct weft_netif *nif);

/** Receives one burst and hands it up. Returns the number of packets received. Polling thread. */
unsigned int weft_netif_poll(struct weft_netif *nif, uint64_t now_ns);
/**
 * Whether there was a link at the last look, a second ago at most (in a group 1.1 s). Always true
 * of net_memif: its link is the peer, so the loss of the link says of the peer what its silence
 * says. Polling thread.
 */
bool weft_netif_link_up(const struct weft_netif *nif);
/** When a link that was lost came back last; 0: it was never lost. Polling thread. */
uint64_t weft_netif_link_back_ns(const struct weft_netif *nif);
/** Whether siblings have handed over frames that a poll would take now. Polling thread. */
bool weft_netif_handed(const struct weft_netif *nif);
/** Gives the transmit queue to the port. Returns the number of packets taken. Polling thread. */
unsigned int weft_netif_flush(struct weft_netif *nif, uint64_t now_ns);

/** Follows a change of the port's MTU. -EINVAL: below the minimum of IPv4 or, if in use, IPv6, or
 * longer than the pools' mbufs allow. The caller tells TCP by weft_tcp_mtu_changed(). Queued
 * packets are sent unchanged. */
int weft_netif_set_mtu(struct weft_netif *nif, uint16_t mtu_bytes);
const struct weft_netif_attr *weft_netif_attr(const struct weft_netif *nif);
/** What this netif lends to peers (weft_netif_budget.h). Owned by the netif; charged on its
 * worker. */
struct weft_netif_budgets *weft_netif_budgets(struct weft_netif *nif);

#endif /* WEFT_NETIF_H */
