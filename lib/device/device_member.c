/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The devices that a device string stands for: the slaves of a bonded port, or itself. */

#include <errno.h>
#include <string.h>

#include "weft_device.h"

#define BOND_SLAVE "slave="

bool
weft_device_is_bond(const char *dev)
{
	return dev != NULL &&
	       (strncmp(dev, "net_bonding", 11) == 0 || strncmp(dev, "eth_bond", 8) == 0);
}

const char *
weft_device_next_arg(const char **at, size_t *len)
{
	const char *arg = *at, *p = arg;
	bool in_list = false;

	if (arg == NULL || *arg == '\0')
		return NULL;
	for (; *p != '\0' && (*p != ',' || in_list); p++)
		in_list = *p == '[' || (in_list && *p != ']');
	*len = (size_t)(p - arg);
	*at = *p == ',' ? p + 1 : p;
	return arg;
}

bool
weft_device_slave(const char *arg, size_t *len, const char **slave)
{
	const size_t key = sizeof(BOND_SLAVE) - 1;

	if (*len <= key || strncmp(arg, BOND_SLAVE, key) != 0)
		return false;
	*slave = arg + key;
	*len -= key;
	/* A slave with arguments of its own stands in brackets. */
	if (*len >= 2 && **slave == '[' && (*slave)[*len - 1] == ']') {
		(*slave)++;
		*len -= 2;
	}
	return true;
}

bool
weft_device_is_xdp(const char *dev)
{
	return dev != NULL && strncmp(dev, "net_af_xdp", 10) == 0;
}

static bool
arg_is(const char *arg, size_t len, const char *text)
{
	return len == strlen(text) && strncmp(arg, text, len) == 0;
}

bool
weft_device_is_zero_copy(const char *dev)
{
	bool asked = false, server = false;
	const char *args, *arg;
	size_t len;

	if (dev == NULL || strncmp(dev, "net_memif", 9) != 0)
		return false;
	args = weft_device_args(dev);
	while ((arg = weft_device_next_arg(&args, &len)) != NULL) {
		asked = asked || arg_is(arg, len, "zero-copy=yes");
		server = server || arg_is(arg, len, "role=server") ||
		         arg_is(arg, len, "role=master");
	}
	return asked && !server;
}

void
weft_device_xdp_iface(const char *dev, char ifname[16])
{
	const char *args, *arg;
	size_t len;

	ifname[0] = '\0';
	if (!weft_device_is_xdp(dev))
		return;
	args = weft_device_args(dev);
	while ((arg = weft_device_next_arg(&args, &len)) != NULL) {
		if (strncmp(arg, "xdp_prog=", 9) == 0) {
			ifname[0] = '\0';
			return;
		}
		if (len > 6 && len < 6 + 16 && strncmp(arg, "iface=", 6) == 0) {
			memcpy(ifname, arg + 6, len - 6);
			ifname[len - 6] = '\0';
		}
	}
}

int
weft_device_member(const char *dev, unsigned int i, char *buf, size_t size)
{
	const char *args, *arg, *slave;
	size_t len;

	if (dev == NULL || buf == NULL || size == 0)
		return -EINVAL;
	if (!weft_device_is_bond(dev)) {
		if (i > 0)
			return -ENOENT;
		if (strlen(dev) >= size)
			return -ENOSPC;
		strcpy(buf, dev);
		return 0;
	}
	args = weft_device_args(dev);
	while ((arg = weft_device_next_arg(&args, &len)) != NULL) {
		if (!weft_device_slave(arg, &len, &slave) || i-- > 0)
			continue;
		if (len >= size)
			return -ENOSPC;
		memcpy(buf, slave, len);
		buf[len] = '\0';
		return 0;
	}
	return -ENOENT;
}
