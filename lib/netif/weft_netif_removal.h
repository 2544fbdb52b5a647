/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_REMOVAL_H
#define WEFT_NETIF_REMOVAL_H

/**
 * @file A device that is removed while its port is in use (netif_removal.c). Internal.
 *
 * 1. weft_netif_port_watch() tells the engine, on EAL's interrupt thread, that the device goes.
 * 2. Each worker of the port calls weft_netif_remove() for its interface between two polls. After
 *    that the interface does not touch the device.
 * 3. After the last one, weft_netif_port_give_back() closes the port and gives the device back,
 *    which the kernel waits for under vfio.
 *
 * So the polling threads stop without a lock, and the data path has no check for this. A peer of
 * net_memif that leaves is no removal.
 */

#include <stdbool.h>

struct weft_netif;
struct weft_netif_port;

/**
 * Watch the port's device. removed(arg, how) is called once, on EAL's interrupt thread, when the
 * device is removed, or is about to be; `how` is a phrase for the log ("the kernel asks for it").
 * Of this header it may call weft_netif_port_give_back() only. p stays where it is. Set-up thread.
 * -ENOMEM, -ENODEV (there is no such port).
 *
 * A removal is noticed at once by an event: RTE_DEV_EVENT_REMOVE, which EAL raises when vfio asks
 * for a device, and RTE_ETH_EVENT_INTR_RMV of a driver (mlx4, mlx5, mana, failsafe). A PCI device
 * is also asked once a second, on EAL's interrupt thread: whether it is in sysfs, answers reads of
 * its configuration space, and had its registers when a driver wanted them last.
 */
int weft_netif_port_watch(struct weft_netif_port *p, void (*removed)(void *arg, const char *how),
                          void *arg);
/** Ends the watch: after the return removed() neither runs nor is called. weft_netif_port_close()
 * does it, too. Set-up thread. */
void weft_netif_port_unwatch(struct weft_netif_port *p);
/** After removed(): no interface uses the port any more. The port is closed soon, on EAL's
 * interrupt thread. It is abandoned, without being closed, if the kernel has removed the device
 * already (uio). Any thread; does not wait. */
void weft_netif_port_give_back(struct weft_netif_port *p);
/** Whether a port was abandoned. EAL's cleanup would make its driver wait for registers that are
 * gone. Any thread, after weft_netif_port_close(). */
bool weft_netif_port_abandoned(void);

/** Takes the interface from its device, which was removed. Queued packets are dropped, and so are
 * all that are sent from now on. Nothing is received, and no address is resolved. The interface's
 * thread. */
void weft_netif_remove(struct weft_netif *nif);

#endif /* WEFT_NETIF_REMOVAL_H */
