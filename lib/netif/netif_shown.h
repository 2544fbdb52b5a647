/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_SHOWN_H
#define NETIF_SHOWN_H

/** @file Device strings in messages. */

#include <weft/device.h>

/** A device string, or arguments of one, for a message: without secrets. Valid until the thread's
 * next call in the same source. */
static inline const char *
netif_dev_shown(const char *dev)
{
	static _Thread_local char shown[1024];

	return weft_device_clean(dev, shown, sizeof(shown));
}

#endif /* NETIF_SHOWN_H */
