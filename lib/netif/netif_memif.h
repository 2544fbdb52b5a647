/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_MEMIF_H
#define NETIF_MEMIF_H

/** @file net_memif: clients that connect and leave (netif_memif.c), and the ring
 * (netif_memif_args.c). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A port that is a memif server has been created. -ENOMEM. Set-up thread. */
int netif_memif_begin(const char *devname, const char *path, bool abstract);
/** The port is about to be stopped. No client can connect to its socket from now on, and existing
 * clients are disconnected, unless another port has the same socket. Does nothing for other ports.
 * Blocks for some milliseconds, 500 at most. Set-up thread. */
void netif_memif_end(const char *devname);

/** Copies the driver's arguments to out. A client without bsize gets buffers that hold the frames
 * of this MTU, and without rsize as many as 16 MiB hold, at most 1024. -EMSGSIZE: bsize is given
 * and holds no such frame (one log line). -EINVAL: out is too short. Any thread. */
int netif_memif_args(const char *args, uint16_t mtu_bytes, char *out, size_t size);

#endif /* NETIF_MEMIF_H */
