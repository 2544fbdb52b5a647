/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_SHARED_H
#define WEFT_NETIF_SHARED_H

/**
 * @file
 * A port whose addresses other processes have as well (weft_netif_attr.shared). Internal.
 *
 * Another program owns the device. It gives each process a link, on which it passes on the TCP
 * segments of the process's TCP ports, ICMP errors about them, and copies of ARP and Neighbor
 * Discovery. All processes have its MAC and its addresses.
 *
 * The interface of such a port asks for neighbours, and learns them. It probes, announces and
 * defends no address, answers no request of ARP, Neighbor Discovery, MLD or echo, and sends no ICMP
 * error: the owner of the device does that. Frames for its own address go out to the port, because
 * another process may have the TCP port. It sends no RST for a TCP port that is not its own.
 *
 * At first no TCP port is its own. Those that weft_netif_ports_add() names for active opens are the
 * only source ports of active opens.
 */

#include <stdbool.h>
#include <stdint.h>

struct weft_netif;

/** The most blocks of ports for active opens. */
#define WEFT_NETIF_PORT_BLOCKS 64

/**
 * The TCP ports first to last become ours. opens: active opens may use them. 0, -EINVAL (the
 * interface is not shared; port 0; last before first; of a block for opens, a port that is ours),
 * -ENOSPC (WEFT_NETIF_PORT_BLOCKS). Thread of the interface, as the next two.
 */
int weft_netif_ports_add(struct weft_netif *nif, uint16_t first, uint16_t last, bool opens);
/** They are not ours any more. -EINVAL: as above, or a port is in a block for active opens. */
int weft_netif_ports_drop(struct weft_netif *nif, uint16_t first, uint16_t last);
/** Whether a TCP port is ours; always true of an interface that is not shared. Counts a port that
 * is not: a segment came for it. */
bool weft_netif_port_ours(struct weft_netif *nif, uint16_t port);

#endif /* WEFT_NETIF_SHARED_H */
