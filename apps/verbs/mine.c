/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The configuration of this process. Addresses of weft-portd are known only by asking it. */

#include "config.h"

#include "portd.h"

#include <pthread.h>
#include <stdio.h>

#include "portd_client.h"

static struct conf config;
static bool config_ok;

static void
config_once(void)
{
	struct portd_answer hello = {0};
	char err[CONF_ERR_MAX];
	int rc = 0;

	if (wv_portd_on())
		rc = wv_portd_attach(&hello, err, sizeof(err));
	if (rc == 0)
		rc = wv_config_read(&config, wv_portd_on() ? &hello : NULL, err, sizeof(err));
	config_ok = rc == 0;
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
