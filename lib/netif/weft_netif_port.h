/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_PORT_H
#define WEFT_NETIF_PORT_H

/** @file Ports: the configuration of an ethdev (netif_port.c). Internal. */

#include <stdbool.h>
#include <stdint.h>

#include <rte_ether.h>

#include "weft_netif_attr.h"

struct netif_bond;
struct rte_mempool;
struct weft_rand;

struct weft_netif_port_attr {
	/**
	 * vdev string ("net_memif0,role=client,...") or PCI address with arguments: hot-plugged if
	 * EAL has no such port; or the name of a probed port. A bonded port names its slaves, which
	 * are opened likewise: "net_bonding0,mode=1,slave=0000:3b:00.0,slave=[net_af_packet0,
	 * iface=eth1]" (without blanks)
	 */
	const char *dev;
	uint16_t mtu_bytes;
	/** Tags of frames; 0: untagged ones. The port inserts, strips and filters them if it can.
	 * None: untagged frames only. */
	uint16_t vlans[WEFT_NETIF_NETS];
	unsigned int nvlans;
	/** in both pools together, half in each, at least 2; more are made if the port's smallest
	 * rings need them */
	unsigned int mbufs;
	uint16_t queues; /**< workers that share the port; 1..64 */
	bool no_intr;    /**< do not ask for receive interrupts */
	/** WEFT_OFFLOAD_* that are not used, whether the port offers them or not */
	uint32_t no_offloads;
	/** Tests the offloads by frames that go out and come back inside the device, before the
	 * port is started for good. Where the driver has no loopback, a log line says so. */
	bool selftest;
	bool check; /**< check the driver only: open a stand-in that uses no device */
	/** source of the Toeplitz key, which peers must not know; NULL: a public key */
	const struct weft_rand *rand;
};

/** An opened and started port. Plain data for the engine to read. */
struct weft_netif_port {
	uint16_t port_id;
	/** MTU that netif uses; the port itself may know only 1500 (net_memif) */
	uint16_t mtu_bytes;
	bool created;     /**< hot-plugged by us: closing removes it */
	const char *bus;  /**< where it was plugged: "vdev" or "pci" */
	int lock_fd;      /**< weft_device_lock() of a PCI device that we plugged; -1: none */
	char devname[64]; /**< the device's name, for removal */
	char driver[32];  /**< "net_memif", ... */
	/** negotiated: only what netif can also do in software */
	uint64_t rx_offloads, tx_offloads;
	uint16_t tx_mbufs_max; /**< for weft_netif_attr.tx_mbufs_max */
	struct rte_ether_addr mac;
	int socket;
	/** Each is the number of workers, or 1. Receive is 1 for a port without RSS. Transmit is 1
	 * for a port without enough queues for us alone. weft_netif_group.h then does the rest. */
	uint16_t rx_queues, tx_queues;
	bool rx_intr;             /**< receive interrupts were asked for, and the port started */
	bool rss;                 /**< the port steers by the key and the table below */
	bool looped;              /**< in the self-test */
	bool rss_astray;          /**< the self-test found that it steers otherwise */
	uint32_t selftest_failed; /**< WEFT_OFFLOAD_* that are not used for this reason */
	uint32_t selftest_frames; /**< frames that came back; 0: no self-test */
	uint32_t selftest_wrong;  /**< incorrect ones */
	/** key of the port, or for the group to steer by where the port does not */
	uint8_t rss_key[52];
	unsigned int rss_key_bytes;
	uint16_t reta[512]; /**< redirection table: entry to queue */
	unsigned int reta_size;
	uint32_t rx_desc;            /**< of all receive rings; a driver may hold an mbuf in each */
	struct rte_mempool *pool;    /**< for receiving; the port's own queues are filled from it */
	struct rte_mempool *tx_pool; /**< for sending */
	struct netif_bond *bond;     /**< its slaves; NULL: no bonded port */
	struct netif_watch *watch;   /**< weft_netif_port_watch(); NULL: none */
	bool given_back;             /**< its device was removed: there is nothing to close */
};

/**
 * Creates the device if necessary, sets its rings, negotiates offloads and starts it. Set-up
 * thread.
 *
 * -ENODEV (no such device, or it cannot be opened), -EINVAL (attr; an argument of dev without a
 * value, or more arguments than DPDK reads, which a driver would misread: one log line), -EMSGSIZE
 * (net_memif: bsize holds no frame of the MTU; one log line), -ENOMEM, -ENOTSUP.
 *
 * With several queues the port steers by RSS if it offers RSS over TCP's four-tuple and tells its
 * key and table (or takes ours). Otherwise it has one receive queue, and member 0 of the group
 * distributes.
 *
 * A net_memif client needs a server that listens. A server that refuses (not started yet, or still
 * with another client) is asked again for up to 3 s; then the port opens without a link. The driver
 * never connects again when the server ends: close the port and open it anew. A socket file that a
 * killed server left is removed first.
 */
int weft_netif_port_open(const struct weft_netif_port_attr *attr, struct weft_netif_port *out);
/** Stops, closes and removes the port, and frees the pools. */
void weft_netif_port_close(struct weft_netif_port *p);
/** The link as the port reports it now, without waiting. */
bool weft_netif_port_link(const struct weft_netif_port *p);
/** The offloads that the port was configured with: WEFT_OFFLOAD_*. */
uint32_t weft_netif_port_offloads(const struct weft_netif_port *p);
/** What a port says of its link. Any thread. */
struct weft_netif_link {
	bool up, full_duplex;
	uint32_t speed_mbps;    /**< 0: none, or unknown */
	int pause_rx, pause_tx; /**< flow control by pause frames: 1 on, 0 off, -1 unknown */
	char slaves[256];       /**< of a bonded port, "net_af_packet0 active, ..."; else empty */
};
void weft_netif_port_link_info(const struct weft_netif_port *p, struct weft_netif_link *link);
/** The port's own count of packets dropped for lack of buffers. */
uint64_t weft_netif_port_missed(const struct weft_netif_port *p);
/** net_memif clients of this process's servers that left before the server's greeting. Any
 * thread. */
uint64_t weft_netif_memif_gone(void);

#endif /* WEFT_NETIF_PORT_H */
