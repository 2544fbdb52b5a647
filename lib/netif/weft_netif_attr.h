/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_ATTR_H
#define WEFT_NETIF_ATTR_H

/** @file The attributes of an interface. Internal. */

#include <stdbool.h>
#include <stdint.h>

#include <rte_ether.h>

#include "weft_base.h"

struct rte_mbuf;
struct rte_mempool;
struct weft_netif_group;

#define WEFT_NETIF_NEIGHS_MAX 65536
/** The most networks of an interface, addr and addr6 of its attributes included. */
#define WEFT_NETIF_NETS 16

/** One of our addresses and the network that it is in. */
struct weft_netif_net {
	struct weft_ip addr; /**< IPv4, or global or unique-local IPv6 */
	struct weft_ip
	        gateway;    /**< next hop to other networks, of the same family and on-link (IPv6:
	                             or link-local); all zero: none */
	uint8_t prefix_len; /**< of the on-link network: 0..32, or 0..128 for IPv6 */
	/** tag that we send and require, 1..4094; 0: untagged. Networks of one family that overlap
	 * are on one VLAN, so that a neighbour's address says which VLAN it is on. */
	uint16_t vlan_id;
};

/** The device. NULL in the attributes means the ethdev queue. Simulations give their own functions,
 * with the contracts of rte_eth_rx_burst() and rte_eth_tx_burst(). */
struct weft_netif_dev {
	uint16_t (*rx)(void *dev, struct rte_mbuf **pkts, uint16_t n);
	uint16_t (*tx)(void *dev, struct rte_mbuf **pkts, uint16_t n);
	/** Whether there is a link now; must not wait. Asked once a second, or ten times a second
	 * while there is none. NULL: always a link. */
	bool (*link)(void *dev);
	/** Stop and start the transmit queue, which drops what it holds. 0 or -errno. NULL: it
	 * cannot be reset. */
	int (*tx_reset)(void *dev);
	/** The packets that the device has sent from the queue, as it counts itself: 0 and the
	 * count, or -errno. May take some time; asked at most twice a second, and only while
	 * no peer acknowledges what was sent. NULL: it does not count. */
	int (*tx_count)(void *dev, uint64_t *packets);
	/** Arm the receive interrupt of the queue, or disarm it. Returns the descriptor that is
	 * then readable when a packet has arrived; -EALREADY: what arrives wakes the worker by
	 * itself; or another -errno: there is none. NULL: none. */
	int (*arm)(void *dev, bool on);
};

struct weft_netif_attr {
	const struct weft_netif_dev *dev; /**< NULL: ethdev port_id/queue_id */
	void *dev_arg;
	uint16_t port_id;
	uint16_t queue_id;
	uint64_t tx_offloads; /**< RTE_ETH_TX_OFFLOAD_* that the port was configured with */
	uint64_t rx_offloads; /**< RTE_ETH_RX_OFFLOAD_* that the port was configured with */
	/** the port was configured with receive interrupts */
	bool rx_intr;
	/** the most mbufs that the port takes in one TSO packet; 0: any number */
	uint16_t tx_mbufs_max;
	/** pool of received mbufs; owned by the caller. Its priv_size is at least
	 * sizeof(struct weft_mbuf_priv). */
	struct rte_mempool *pool;
	/** pool of everything we send, with the same priv_size; owned by the caller. With a second
	 * pool, data that peers leave unacknowledged never takes the buffers that their ACKs need
	 * on receive. NULL: `pool` (weft_netif_attr() then returns it). */
	struct rte_mempool *tx_pool;
	/** mbufs of `pool` that all receive queues of the port hold permanently. They are never
	 * lent (weft_netif_budget.h). */
	uint32_t rx_desc;
	/** Netifs that use these pools; 0: the members of the group, or this netif alone. */
	unsigned int pool_sharers;
	struct rte_ether_addr mac;
	struct weft_ip addr;    /**< our IPv4 address; all zero: IPv6 only */
	uint8_t prefix_len;     /**< of the on-link network */
	struct weft_ip gateway; /**< all zero: none */
	/** our global or unique-local IPv6 address; all zero: none beside link-local */
	struct weft_ip addr6;
	uint8_t prefix6_len; /**< of the on-link IPv6 network */
	/** next hop of all other IPv6 addresses, on-link or link-local; all zero: none */
	struct weft_ip gateway6;
	/** no IPv6 at all; otherwise a link-local address is made from mac (RFC 4291 appendix A) */
	bool no_ipv6;
	/** VLAN of addr and addr6, or of the link-local address alone: tag that we send and
	 * require, 1..4094; 0: untagged. Not used with `nets` alone. */
	uint16_t vlan_id;
	/** Further networks. Every VLAN has a link-local IPv6 address of its own. The first VLAN is
	 * that of addr and addr6, or of nets[0] without those (weft_ip.h, zones). No address
	 * occurs twice. */
	struct weft_netif_net nets[WEFT_NETIF_NETS];
	unsigned int nnets;
	/** The group of the port's queues that share these addresses (weft_netif_group.h); NULL:
	 * this is the only queue. */
	struct weft_netif_group *group;
	unsigned int group_index; /**< the number of this member */
	/** Other processes have the same addresses and the same MAC (weft_netif_shared.h). Not with
	 * a group. */
	bool shared;
	uint16_t mtu_bytes; /**< size of an IP packet; 0: 1500 */
	/** Next hops kept at once, in addition to the gateways. Each connection holds at most one,
	 * and packets to strangers need some more. 0: 1024. At most WEFT_NETIF_NEIGHS_MAX. */
	uint32_t max_neighs;
	/** of TCP segments whose connection or listener names none, 0..63 (RFC 2474 s3) */
	uint8_t dscp;
};

#endif /* WEFT_NETIF_ATTR_H */
