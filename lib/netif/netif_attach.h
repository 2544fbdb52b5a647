/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_ATTACH_H
#define NETIF_ATTACH_H

/**
 * @file
 * The device of a port, by its device string: "net_memif0,role=server". Set-up threads only.
 */

#include <stdbool.h>

struct weft_netif_port;

#define NETIF_DEV_MEMBER_MAX 1024 /**< octets of a slave with its arguments */
#define NETIF_MEMIF_ARGS_MAX 1024 /**< octets of net_memif's arguments, with what is added */

/** Copies the value of `key` in "k=v,k=v". False: it is not there. */
bool netif_dev_arg(const char *args, const char *key, char *buf, size_t size);
/** The i-th device that a device string stands for (weft_device_member()). False: there are no
 * more, or it is too long. */
bool netif_dev_member(const char *dev, unsigned int i, char member[NETIF_DEV_MEMBER_MAX]);
/** Whether drivers can take the arguments. -EINVAL, after a log line. */
int netif_attach_check(const char *dev);
/** Whether a port, or a driver that makes one, of that name exists. */
bool netif_attach_known(const char *dev);
/** Finds the port named in dev, or creates it. After an error, too, netif_detach() follows. 0,
 * -EINVAL, -ENODEV, -EBUSY (another program has the device), -ENOMEM, after a log line. */
int netif_attach(const char *dev, struct weft_netif_port *p);
/** Gives back what netif_attach() has opened. The port is closed, or was never configured. */
void netif_detach(struct weft_netif_port *p);

#endif /* NETIF_ATTACH_H */
