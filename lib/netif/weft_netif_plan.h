/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_PLAN_H
#define WEFT_NETIF_PLAN_H

/** @file What a port will lend, computed before it is opened. Internal. */

#include <stdint.h>

/** mbufs that one of `workers` may have queued and unacknowledged over a port of `mbufs`, as
 * weft_netif_budget_plan() computes it for that port's pools. Any thread. */
uint32_t weft_netif_plan_snd(uint32_t mbufs, uint32_t workers);
/** The size of the caches of a pool of that many mbufs, used by that many threads. */
uint32_t weft_netif_plan_cache(uint32_t mbufs, uint32_t threads);
/**
 * Octets that the pools of a port take from memory in pages of page_bytes (a power of two), as
 * weft_netif_port_open() makes them. A device whose smallest rings need more buffers takes more.
 * mbufs and queues are at least 1; mtu_bytes 0: 1500. Any thread, without EAL.
 */
uint64_t weft_netif_plan_bytes(const char *dev, uint16_t mtu_bytes, uint32_t mbufs, uint32_t queues,
                               uint32_t page_bytes);

#endif /* WEFT_NETIF_PLAN_H */
