/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_BAR_H
#define NETIF_BAR_H

/** @file Registers of a device that the kernel takes away while drivers read them (netif_bar.c). */

#include <stdbool.h>
#include <stdint.h>

/**
 * Survive accesses to the registers of PCI device `address`, the device of a port, after the kernel
 * has removed it. Does nothing for devices whose registers are not mapped from sysfs. One thread at
 * a time.
 */
void netif_bar_watch(uint16_t port_id, const char *address);
/** Whether such an access has happened. Any thread. */
bool netif_bar_faulted(uint16_t port_id);
/** Ends netif_bar_watch(). No thread uses the device any more. */
void netif_bar_forget(uint16_t port_id);

#endif /* NETIF_BAR_H */
