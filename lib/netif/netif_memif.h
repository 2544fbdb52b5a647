/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_MEMIF_H
#define NETIF_MEMIF_H

/** @file net_memif: clients that connect and leave (netif_memif.c), the ring
 * (netif_memif_args.c), and one that has our mbufs (netif_memif_shared.c). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rte_mempool;

/** rsize of a client with zero-copy=yes that names none. Each slot may hold an mbuf of ours. */
#define NETIF_MEMIF_SHARED_RSIZE 8u

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

/** Whether a device string, of a client with zero-copy=yes, can be used with these pools and so
 * many queues. -EINVAL (rsize is below 6, or its rings could hold more than half of a pool),
 * -ENOTSUP (the pools' memory is not all in the one piece that the driver shares, or DPDK's
 * driver is too old), both after a log line. Set-up thread. */
int netif_memif_shared_check(const char *dev, struct rte_mempool *rx, struct rte_mempool *tx,
                             uint32_t queues);

#endif /* NETIF_MEMIF_H */
