/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_ROOM_H
#define WEFT_ROOM_H

/** @file How many connections the buffers of a port suffice for. Installed; stands alone. */

#include <weft/api.h>
#include <weft/tcp_attr.h>

WEFT_API_BEGIN

/**
 * The most connections that each of `workers` (0 means 1; at most 64) can have over a port with
 * `mbufs` buffers (0: the default). This is tcp->max_conns, or less where the worker's share of the
 * port has fewer transmit buffers than connections; half of that while other connections borrow
 * buffers. tcp NULL: the defaults. No port or context needs to be open. Any thread; never fails.
 */
uint32_t weft_room_conns(const struct weft_tcp_attr *tcp, uint32_t mbufs, uint32_t workers);

WEFT_API_END

#endif /* WEFT_ROOM_H */
