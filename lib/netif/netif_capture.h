/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_CAPTURE_H
#define NETIF_CAPTURE_H

/** @file The calls from an interface's bursts into a capture. */

#include <stdatomic.h>

#include "netif_priv.h"
#include "weft_netif_capture.h"

/** Copies the received packets. */
void netif_capture_rx(struct weft_netif *nif, struct rte_mbuf **m, unsigned int n);
/** Offers a burst to the port and copies what the port took. Returns how many. */
unsigned int netif_capture_tx(struct weft_netif *nif, struct rte_mbuf **m, unsigned int n);

/** Whether a capture may be on. netif_capture_rx() and _tx() check for certain. */
static inline bool
netif_capture_on(const struct weft_netif *nif)
{
	return unlikely(atomic_load_explicit(&nif->capture, memory_order_relaxed) != NULL);
}

#endif /* NETIF_CAPTURE_H */
