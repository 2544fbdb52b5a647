/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_SHARED_H
#define NETIF_SHARED_H

/** @file The TCP ports of a shared port (netif_shared.c). */

#include "weft_netif_shared.h"

struct weft_ip;
struct weft_rand;

/** False: no memory. */
bool netif_shared_init(struct weft_netif *nif);
void netif_shared_fini(struct weft_netif *nif);
/** Whether a TCP port is ours; always true of an interface that is not shared. */
bool netif_shared_has(const struct weft_netif *nif, uint16_t port);
/** weft_netif_pick_port() for a shared port. */
int netif_shared_pick(struct weft_netif *nif, const struct weft_ip *dst, uint16_t dst_port,
                      const struct weft_rand *rand, bool (*usable)(void *arg, uint16_t port),
                      void *arg);

#endif /* NETIF_SHARED_H */
