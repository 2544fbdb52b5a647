/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_MEMIF_H
#define NETIF_MEMIF_H

/** @file Clients of net_memif that connect and leave (netif_memif.c). */

#include <stdbool.h>

/** A port that is a memif server has been created. -ENOMEM. Set-up thread. */
int netif_memif_begin(const char *devname, const char *path, bool abstract);
/** The port is about to be stopped. No client can connect to its socket from now on, and existing
 * clients are disconnected, unless another port has the same socket. Does nothing for other ports.
 * Blocks for some milliseconds, 500 at most. Set-up thread. */
void netif_memif_end(const char *devname);

#endif /* NETIF_MEMIF_H */
