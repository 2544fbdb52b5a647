/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_STATS_H
#define WEFT_NETIF_STATS_H

/** @file The counters of an interface. Internal. */

#include <stdint.h>

#include "weft_netif_budget.h"

struct weft_netif;
struct weft_stat_field;

/** Counters of both families, in the order in which a packet meets them. All are 64-bit and
 * readable at any time. */
struct weft_netif_stats {
	uint64_t rx_packets, rx_bytes;
	uint64_t rx_bad_ether; /**< too short, for another station, unknown type */
	uint64_t rx_vlan;      /**< tag of another VLAN, or none where ours is required */
	uint64_t rx_bad_ip;    /**< version, or a header that is longer than the packet */
	/** shorter than the IP header says: cut by a port whose buffers are shorter than the frame,
	 * or damaged */
	uint64_t rx_cut;
	uint64_t rx_bad_ip_cksum; /**< checksum of the IPv4 header */
	/** IPv6 extension headers: malformed, too many, or not supported */
	uint64_t rx_bad_ext;
	/** IP fragments, dropped; atomic fragments of IPv6 (RFC 6946) are accepted */
	uint64_t rx_fragment;
	/** another destination address or group, or a source that no host can have */
	uint64_t rx_not_ours;
	uint64_t rx_bad_tcp_cksum;
	uint64_t rx_bad_proto; /**< neither TCP nor ICMP */
	/** segments of a shared port for a TCP port of another process, dropped without a RST */
	uint64_t rx_not_our_port;
	uint64_t rx_no_mbuf; /**< a copy was needed and the pool was empty */
	uint64_t arp_rx, arp_tx, arp_bad;
	uint64_t icmp_rx, icmp_tx, icmp_bad; /**< ICMP and ICMPv6 */
	/** errors not sent: too many in a second (RFC 1812 s4.3.2.8, RFC 4443 s2.4) */
	uint64_t icmp_limited;
	/** part of ICMPv6: Neighbor Discovery; nd_bad includes MLD queries */
	uint64_t nd_rx, nd_tx, nd_bad;
	/** router solicitations and advertisements, redirects: routers are configured */
	uint64_t nd_ignored;
	uint64_t mld_rx, mld_tx; /**< queries about our groups; reports */
	/** times that the link came up, the first included (once for a device that reports no
	 * link) */
	uint64_t link_ups;
	uint64_t link_downs; /**< times that the link went down */
	/** times that a bonded port has announced itself over another slave than before */
	uint64_t link_moves;
	/** another station used, or asked for, one of our addresses (RFC 5227, RFC 4862) */
	uint64_t addr_conflicts;
	/** IPv6 disabled: another station had the link-local address first (RFC 4862 s5.4.5) */
	uint64_t ip6_disabled;
	uint64_t neigh_full; /**< neighbours not kept: all entries are held */
	/** entries that no connection held, replaced by another neighbour */
	uint64_t neigh_evicted;
	uint64_t neigh_failed;  /**< neighbours that did not answer */
	uint64_t neigh_limited; /**< requests delayed: too many in a second */
	uint64_t tx_packets, tx_bytes;
	/** bursts in which the driver's memory was unmapped (netif_guard.c) */
	uint64_t dev_faults;
	uint64_t tx_queue_full; /**< segments refused or dropped because the queue was full */
	/** dropped: no answer from the next hop in time, or too many packets waited for it */
	uint64_t tx_unresolved;
	uint64_t tx_parked;    /**< packets that waited for the next hop's address */
	uint64_t tx_park_full; /**< part of tx_unresolved: too many waited (netif_park.c) */
	uint64_t tx_no_route;
	/** packets refused or dropped: no mbufs for the copy or the pieces that the port needs */
	uint64_t tx_no_mbuf;
	/** seconds in which the port took no packet, though some waited and there was a link;
	 * resets of its transmit queue for that */
	uint64_t tx_stalls, tx_resets;
	/** checksums that the device has judged and weft has computed, too (netif_rx_sum.c); of
	 * them: damaged packets that it called intact, intact packets that it called damaged (those
	 * are used); CRC errors of MPA behind checksums that it called right */
	uint64_t rx_cksum_checked, rx_cksum_false_good, rx_cksum_false_bad, rx_cksum_rechecks;
	/** segments that peers acknowledged with a checksum of ours, and never with the device's;
	 * second segments of TSO packets that arrived only without TSO (netif_tx_sum.c) */
	uint64_t tx_cksum_rescued, tso_lost;
	/** 1: weft does the offload itself now, because the device does it incorrectly */
	uint64_t rx_cksum_off, tx_cksum_off, tso_off;
	/** sleeps of the worker that this port's receive interrupt ended */
	uint64_t rx_wakes;
	/** packets that the port's driver rejects (rte_eth_tx_prepare()), dropped */
	uint64_t tx_refused;
	/** 1: the port's device was removed (weft_netif_removal.h) */
	uint64_t dev_removed;
	/** packets dropped since then; tx_packets may include them */
	uint64_t tx_removed;
	/** buffers held on behalf of peers (weft_netif_budget.h) */
	struct weft_netif_budgets lent;
};

const struct weft_netif_stats *weft_netif_stats(const struct weft_netif *nif);
/** Offloads that this netif has switched off because the device does them incorrectly:
 * WEFT_OFFLOAD_*. Any thread. */
uint32_t weft_netif_offloads_off(const struct weft_netif *nif);
/** Gives the names of the counters. Returns how many. Any thread. */
unsigned int weft_netif_stat_fields(const struct weft_stat_field **out);

#endif /* WEFT_NETIF_STATS_H */
