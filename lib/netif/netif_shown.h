/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_SHOWN_H
#define NETIF_SHOWN_H

/** @file The device strings of messages, without secrets. */

#include <weft/device.h>

#define NETIF_SHOWN_BYTES 1024

/**
 * A device string, or arguments of one, for a message: without secrets. It is valid in the
 * enclosing block, and lies on the stack: of memory of a thread's own, a library that is loaded at
 * run time, such as nbdkit's plug-in, has little.
 */
#define netif_dev_shown(dev) weft_device_clean(dev, (char[NETIF_SHOWN_BYTES]){0}, NETIF_SHOWN_BYTES)

#endif /* NETIF_SHOWN_H */
