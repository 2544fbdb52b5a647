/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_BOND_H
#define NETIF_BOND_H

/**
 * @file Ports of DPDK's driver net_bonding: several ports that are used as one.
 *
 * The driver learns of a leg's link from the leg's driver. Those of net_af_packet and net_af_xdp do
 * not know it, so weft stops a leg whose interface has lost its carrier, and starts it again.
 */

#include <stdbool.h>
#include <stdint.h>

struct netif_bond;
struct netif_packet;
struct rte_eth_dev_info;
struct rte_mempool;
struct weft_netif_port;

/** Opens one device, with the arguments behind its name: 0 or -errno. */
typedef int (*netif_bond_attach_fn)(const char *dev, struct weft_netif_port *leg);

/**
 * Open the slaves that dev names, and the bonded port p over them. -EINVAL, -ENODEV, -ENOMEM; one
 * log line.
 */
int netif_bond_attach(const char *dev, struct weft_netif_port *p, netif_bond_attach_fn attach);
/** Close the slaves. The bonded port is closed already. */
void netif_bond_detach(struct netif_bond *b, void (*detach)(struct weft_netif_port *leg));
/** Receive rings, and transmit rings, of one queue: those of all slaves. */
uint32_t netif_bond_rings(const struct netif_bond *b);
/** The least descriptors of a receive queue that a slave needs beyond what its driver reports. */
uint16_t netif_bond_rx_least(const struct netif_bond *b);
/** Whether there is memory for what the driver allocates, and aborts the process without. */
bool netif_bond_memory_ok(const struct netif_bond *b, uint32_t tx_desc, int socket);
/** The bonded port was started: undo what the driver did to the kernel's interfaces. */
void netif_bond_started(struct netif_bond *b, uint16_t port_id);
/**
 * On the polling thread, 20 times a second: pass on the carriers of the slaves, send the messages
 * of LACP. Returns whether the port has a link. *moved: another slave is now the active one, or one
 * more can receive.
 */
bool netif_bond_look(uint16_t port_id, uint16_t tx_queue, bool *moved);
/** Whether the port has a link. Any thread. */
bool netif_bond_link(uint16_t port_id);
/** Describe the slaves in one line, "net_af_packet0 active, 0000:3b:00.0 down". Any thread. */
void netif_bond_describe(uint16_t port_id, char *buf, size_t size);
/** The rings of net_af_packet behind one transmit queue of the port: of all slaves. */
void netif_bond_packet(uint16_t port_id, uint16_t tx_queue, struct netif_packet *p);
/** Whether the port is a bonded one that netif_bond_attach() opened. */
bool netif_bond_is(uint16_t port_id);

#endif /* NETIF_BOND_H */
