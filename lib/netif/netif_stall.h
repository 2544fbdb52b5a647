/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_STALL_H
#define NETIF_STALL_H

/** @file A transmit queue that moves nothing (netif_stall.c). */

#include <stdbool.h>

struct weft_netif;

/** After a flush that left packets, or one behind such a flush. moved: the port took some, or none
 * is left. */
void netif_stall_look(struct weft_netif *nif, bool moved);

#endif /* NETIF_STALL_H */
