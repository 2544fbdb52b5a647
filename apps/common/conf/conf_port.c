/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The port of a command line. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conf_key.h"
#include <weft/device.h>

int
conf_add_port(struct conf *c, const char *name, const char *dev, const char *cidr,
              uint32_t mtu_bytes, char *err, size_t err_size)
{
	const char *comma = strchr(cidr, ','), *six;
	struct conf_port *p = &c->ports[c->nports];
	char four[64];
	char why[CONF_ERR_MAX], shown[CONF_PATH_MAX];

	if (c->nports == CONF_PORTS_MAX || strlen(name) > CONF_NAME_MAX) {
		snprintf(err, err_size, "port %s: too many ports, or its name is too long", name);
		return -ENOSPC;
	}
	memset(p, 0, sizeof(*p));
	conf_named_defaults("port", p);
	strcpy(p->name, name);
	if (*dev == '\0' || strlen(dev) >= sizeof(p->dev)) {
		snprintf(err, err_size, "port %s: device empty or too long", name);
		return -EINVAL;
	}
	strcpy(p->dev, dev);
	if (conf_check_dev(dev, why, sizeof(why)) != 0) {
		snprintf(err, err_size, "port %s (%s): %s", name,
		         weft_device_clean(dev, shown, sizeof(shown)), why);
		return -EINVAL;
	}
	/* An address of each family, or the family that the only one looks like. */
	six = comma != NULL ? comma + 1 : strchr(cidr, ':') != NULL ? cidr : NULL;
	if (six != NULL && conf_parse_cidr6(six, &p->net.addr6, &p->net.prefix6_len) != 0) {
		snprintf(err, err_size,
		         "\"%s\" is not a host's IPv6 address with prefix length; write it like "
		         "fd00::2/64",
		         six);
		return -EINVAL;
	}
	/* Text that does not fit is no address, nor is its beginning. */
	snprintf(four, sizeof(four), "%.*s",
	         (int)strnlen(cidr, comma != NULL ? (size_t)(comma - cidr) : sizeof(four)), cidr);
	if (six != cidr && conf_parse_cidr(four, &p->net.addr, &p->net.prefix_len) != 0) {
		snprintf(err, err_size,
		         "\"%s\" is not a host's IPv4 address with prefix length; write it like "
		         "10.0.0.2/24",
		         cidr);
		return -EINVAL;
	}
	if (p->net.addr6.ss_family != 0 && mtu_bytes != 0 && mtu_bytes < CONF_IPV6_MTU) {
		snprintf(err, err_size, "port %s: IPv6 wants an mtu of 1280 or more", name);
		return -EINVAL;
	}
	if (mtu_bytes != 0)
		p->mtu_bytes = mtu_bytes;
	p->mbufs = WEFT_PORT_MBUFS(p->mtu_bytes);
	c->nports++;
	return 0;
}
