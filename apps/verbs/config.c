/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The configuration of the process, from its environment. */

#include "config.h"

#include "ui.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

int
wv_config_read(struct conf *c, char *err, size_t err_size)
{
	const char *file = getenv(WV_ENV_CONFIG), *dev = getenv(WV_ENV_DEV);
	const char *address = getenv(WV_ENV_ADDRESS), *mtu = getenv(WV_ENV_MTU);
	const char *p2p = getenv(WV_ENV_P2P);
	uint64_t mtu_bytes = 0;
	int rc;

	if (file == NULL && dev == NULL) {
		snprintf(err, err_size,
		         "no configuration: start the program by weft-run, or set " WV_ENV_CONFIG
		         ", or " WV_ENV_DEV " and " WV_ENV_ADDRESS);
		return -ENOENT;
	}
	if (file != NULL) {
		rc = conf_load(file, c, err, err_size);
	} else {
		if (address == NULL) {
			snprintf(err, err_size, WV_ENV_DEV " needs " WV_ENV_ADDRESS);
			return -EINVAL;
		}
		if (mtu != NULL && ui_parse_u64(mtu, 576, 65535, &mtu_bytes) != 0) {
			snprintf(err, err_size, WV_ENV_MTU ": '%s' is not from 576 to 65535", mtu);
			return -EINVAL;
		}
		conf_defaults(c);
		rc = conf_add_port(c, "p0", dev, address, (uint32_t)mtu_bytes, err, err_size);
		if (rc == 0)
			rc = conf_finish(c, err, err_size);
	}
	if (rc != 0)
		return rc;
	if (c->nports == 0) {
		snprintf(err, err_size, "%s: it has no [port NAME]", file);
		return -EINVAL;
	}
	/* Programs let the server send first, which MPA allows in this model only. */
	c->mpa.p2p = c->mpa.rev != 1 && (p2p == NULL || strcmp(p2p, "0") != 0);
	return 0;
}

static struct conf config;
static bool config_ok;

static void
config_once(void)
{
	char err[CONF_ERR_MAX];

	config_ok = wv_config_read(&config, err, sizeof(err)) == 0;
	if (!config_ok)
		fprintf(stderr, "weft: %s\n", err);
}

const struct conf *
wv_config(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, config_once);
	return config_ok ? &config : NULL;
}
