/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_REMOVAL_H
#define NETIF_REMOVAL_H

/** @file Calls of ethdev by threads that do not poll, while the port may be closed. */

#include <stdbool.h>

struct weft_netif_port;

/** False: the device was removed, and ethdev must not be asked. True: netif_removal_end() is due.
 */
bool netif_removal_begin(const struct weft_netif_port *p);
void netif_removal_end(const struct weft_netif_port *p);

#endif /* NETIF_REMOVAL_H */
