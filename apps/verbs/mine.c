/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The configuration of this process. Addresses of weft-portd are known only by asking it. */

#include "config.h"

#include "portd.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "portd_client.h"

static struct conf config; /**< does not change any more once config_ok is set */
static atomic_bool config_ok;
static pthread_mutex_t config_lock = PTHREAD_MUTEX_INITIALIZER;

/** Another thread of the parent may have had it. What that thread read is read anew. */
static void
config_in_child(void)
{
	(void)pthread_mutex_init(&config_lock, NULL);
}

static void
config_once(void)
{
	(void)pthread_atfork(NULL, NULL, config_in_child);
}

/** Under the lock. */
static bool
config_try(void)
{
	static char said[CONF_ERR_MAX];
	struct portd_answer hello = {0};
	char err[CONF_ERR_MAX] = "";
	int rc = 0;

	if (wv_portd_on())
		rc = wv_portd_attach(&hello, err, sizeof(err));
	if (rc == 0)
		rc = wv_config_read(&config, wv_portd_on() ? &hello : NULL, err, sizeof(err));
	if (rc == 0)
		return true;
	/* A program that tries again and again need not hear the same each time. */
	if (strcmp(said, err) != 0)
		fprintf(stderr, "weft: %s\n", err);
	snprintf(said, sizeof(said), "%s", err);
	return false;
}

const struct conf *
wv_config(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (atomic_load_explicit(&config_ok, memory_order_acquire))
		return &config;
	pthread_once(&once, config_once);
	pthread_mutex_lock(&config_lock);
	if (!atomic_load_explicit(&config_ok, memory_order_relaxed) && config_try())
		atomic_store_explicit(&config_ok, true, memory_order_release);
	pthread_mutex_unlock(&config_lock);
	return atomic_load_explicit(&config_ok, memory_order_acquire) ? &config : NULL;
}
