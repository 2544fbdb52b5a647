/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_SLEEP_H
#define WEFT_NETIF_SLEEP_H

/**
 * @file An idle worker's sleep, which a port's receive interrupt ends (netif_sleep.c). Internal.
 *
 * The order keeps a wake-up from being lost: begin() arms the interrupt; the worker polls once
 * more; it sleeps only if that poll found nothing; end() disarms the interrupt. A packet that
 * arrives after the poll makes the descriptor readable.
 *
 * Some ports claim a receive interrupt and never send it (net_e1000_em on MSI-X). So a port's
 * interrupt is believed once it has ended a sleep, and no more when packets are found behind
 * sleeps that ran to their end. The worker's thread only.
 */

#include <stdbool.h>
#include <stdint.h>

struct weft_netif;

/** How long a worker may sleep for an interface. */
enum weft_netif_wakes {
	WEFT_NETIF_WAKES_NEVER = 0, /**< no interrupt: the sleep must be short */
	WEFT_NETIF_WAKES_UNPROVEN,  /**< armed, but it has not ended a sleep yet: likewise */
	WEFT_NETIF_WAKES,           /**< the interrupt ends the sleep */
};

/** Arm the receive interrupt. *fd: what to poll for reading, or -1. */
enum weft_netif_wakes weft_netif_sleep_begin(struct weft_netif *nif, int *fd);
/** Disarm it, whether the worker has slept or not. `readable`: *fd was. */
void weft_netif_sleep_end(struct weft_netif *nif, bool readable);
/** After a sleep and the poll behind it. timed_out: nothing ended the sleep early. `packets`:
 * what that poll received. */
void weft_netif_sleep_judge(struct weft_netif *nif, bool readable, bool timed_out,
                            uint64_t packets);

#endif /* WEFT_NETIF_SLEEP_H */
