/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_ROOM_H
#define WEFT_ROOM_H

/**
 * @file
 * How many connections a port has buffers for. Installed; stands alone.
 */

#include <weft/api.h>
#include <weft/tcp_attr.h>

WEFT_API_BEGIN

/**
 * Connections that each of `workers` (0: 1; 64 are the most) can have at most over a port of
 * `mbufs` (0: the default): tcp->max_conns, or fewer where the port's share for each worker does
 * not have a transmit buffer for each; half of that while others borrow. tcp NULL: the defaults.
 * Nothing need be open. Any thread; never fails.
 */
uint32_t weft_room_conns(const struct weft_tcp_attr *tcp, uint32_t mbufs, uint32_t workers);

WEFT_API_END

#endif /* WEFT_ROOM_H */
