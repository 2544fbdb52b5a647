/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_CARRIER_H
#define NETIF_CARRIER_H

/**
 * @file The link of a port as it really is. net_af_packet and net_af_xdp report a link of 10 Gbit/s
 * whatever the kernel's interface below them has (DPDK 22.11), so the kernel is asked.
 */

#include <stdbool.h>
#include <stdint.h>

struct rte_eth_link;

/** Remember the kernel's interface below a port, in the network namespace of the caller. Set-up
 * thread. An empty name: there is none. */
void netif_carrier_set(uint16_t port_id, const char *iface);
void netif_carrier_forget(uint16_t port_id);
/** Whether the port has an interface of the kernel that netif_carrier_up() asks. */
bool netif_carrier_known(uint16_t port_id);
/** Whether that interface is up and has a carrier. Any thread; one system call. */
bool netif_carrier_up(uint16_t port_id);
/** Whether the port has a link: as the kernel says of its interface, else as its driver says. A
 * port that does not report its link always has one. Any thread. */
bool netif_carrier_link(uint16_t port_id);
/** The same, with speed and duplex. 0, or -errno: the port does not report its link. */
int netif_carrier_get(uint16_t port_id, struct rte_eth_link *link);
/** The MTU of the kernel's interface; 0: none, or unknown. */
uint32_t netif_carrier_mtu(uint16_t port_id);
void netif_carrier_set_mtu(uint16_t port_id, uint32_t mtu_bytes);

#endif /* NETIF_CARRIER_H */
