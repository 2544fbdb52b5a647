/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_ROOM_H
#define WEFT_ROOM_H

/** @file How many connections the buffers of a port suffice for, and what memory they take.
 * Installed; stands alone. */

#include <weft/api.h>
#include <weft/tcp_attr.h>
#include <weft/worker.h>

WEFT_API_BEGIN

/**
 * The most connections that each of `workers` (0 means 1; at most 64) can have over a port with
 * `mbufs` buffers (0: the default). This is tcp->max_conns, or less where the worker's share of the
 * port has fewer transmit buffers than connections; half of that while other connections borrow
 * buffers. tcp NULL: the defaults. No port or context needs to be open. Any thread; never fails.
 */
uint32_t weft_room_conns(const struct weft_tcp_attr *tcp, uint32_t mbufs, uint32_t workers);

/**
 * Octets that the buffers of a port take from memory in pages of `page_bytes` (2 MiB for hugepages
 * of that size, 4096 for ordinary memory), as weft_port_open() allocates them for these attributes.
 * A device whose smallest rings need more buffers than attr->mbufs takes more. What connections and
 * workers take comes on top. The device is not opened, and EAL need not run. Any thread.
 *
 * 0: attr is NULL or of another size, has no `dev`, or has a number of buffers or queues that no
 * port can have; or page_bytes is no power of two.
 */
uint64_t weft_room_bytes(const struct weft_port_attr *attr, uint32_t page_bytes);

WEFT_API_END

#endif /* WEFT_ROOM_H */
