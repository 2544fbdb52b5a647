/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_SHARED_PORT_H
#define WEFT_SHARED_PORT_H

/**
 * @file
 * A port whose addresses and MAC other processes have as well (weft_port_attr.shared): a program
 * that owns the device, as weft-portd does, passes the TCP segments of a TCP port on to the process
 * that has it. Which process has which TCP port is what that program and the process agree on.
 *
 * At first no TCP port is this process's. A segment for one that is not is dropped without a RST.
 * Active opens use the TCP ports that were added for them, and no others. Connections to the port's
 * own address go to the port, because another process may be meant; a program may thus connect to
 * itself.
 *
 * Installed; stands alone. Misuse: as weft/worker.h says. Both functions are for the thread of the
 * worker that has the port: -EPERM while another thread polls it. -ENOENT: no worker has the port.
 */

#include <stdbool.h>
#include <stdint.h>

#include <weft/api.h>

WEFT_API_BEGIN

struct weft_port;

/**
 * The TCP ports first to last become this process's. opens: a block for active opens, which stays
 * until the port is closed; there may be 64. -EINVAL (the port is not shared, first is 0 or beyond
 * last, or a TCP port of a block for active opens is this process's already), -ENOSPC (65 blocks).
 */
int weft_port_tcp_add(struct weft_port *port, uint16_t first, uint16_t last, bool opens);
/**
 * tcp_port ceases to be this process's. -EBUSY: the context has a listener or a connection on it,
 * TIME-WAIT included: then nothing changes. -EINVAL: the port is not shared, tcp_port is 0 or in a
 * block for active opens.
 */
int weft_port_tcp_drop(struct weft_port *port, uint16_t tcp_port);

WEFT_API_END

#endif /* WEFT_SHARED_PORT_H */
