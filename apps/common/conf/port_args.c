/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Port options: taken, checked, and made into a configuration. */

#include "port_args.h"

#include "ui.h"

bool
port_args_take(struct port_args *a, int option, const char *value)
{
	switch (option) {
	case PORT_ARG_CONFIG:
		a->config = value;
		return true;
	case PORT_ARG_DEV:
		a->dev = value;
		return true;
	case PORT_ARG_ADDRESS:
		a->address = value;
		return true;
	case PORT_ARG_MTU:
		a->mtu_bytes = (uint32_t)ui_arg_u64("--mtu", value, 576, 65535);
		return true;
	default:
		return false;
	}
}

void
port_args_check(const struct port_args *a)
{
	if (a->dev == NULL && (a->address != NULL || a->mtu_bytes != 0))
		ui_usage_die("--address and --mtu go with --dev");
}

int
port_args_conf(const struct port_args *a, struct conf *c, char *err, size_t err_size)
{
	int rc;

	if ((a->config != NULL) == (a->dev != NULL))
		ui_usage_die("give either --config or --dev with --address");
	if (a->config != NULL)
		return conf_load(a->config, c, err, err_size);
	if (a->address == NULL)
		ui_usage_die("--dev needs --address");
	conf_defaults(c);
	rc = conf_add_port(c, "p0", a->dev, a->address, a->mtu_bytes, err, err_size);
	return rc != 0 ? rc : conf_finish(c, err, err_size);
}
