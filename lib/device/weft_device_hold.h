/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_DEVICE_HOLD_H
#define WEFT_DEVICE_HOLD_H

/**
 * @file Why the machine itself needs a NIC: its default route, or the SSH connection of who works
 * on the machine, uses an interface of that NIC. Internal.
 */

#include "weft_device.h"

enum weft_device_hold_kind {
	WEFT_HOLD_NONE = 0,
	WEFT_HOLD_ROUTE, /**< a default route, of IPv4 or IPv6 */
	WEFT_HOLD_SSH,   /**< an established SSH connection */
};

struct weft_device_hold {
	enum weft_device_hold_kind kind;
	/** the interface: one of the device, or one that is built on it (VLAN, bond, bridge) */
	char ifname[16];
	char peer[64]; /**< WEFT_HOLD_SSH: the address of the connection's other end */
};

/**
 * Whether the machine needs a device. An SSH connection is any established TCP connection with
 * port 22 at either end, and the one that SSH_CONNECTION names in the environment of this process
 * or of a process above it, so sudo does not hide it. The connection uses the interfaces of the
 * best routes to its other end, and the interface that has its own address. The tables are those of
 * this process's network namespace, and of IPv4 the main table alone. `dev` is a PCI device or one
 * of net_af_xdp. -ENOMEM, -EINVAL (it is neither).
 */
int weft_device_hold(const struct weft_device_roots *at, const char *dev,
                     struct weft_device_hold *hold);

#endif /* WEFT_DEVICE_HOLD_H */
