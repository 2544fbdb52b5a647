/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_CONFIG_H
#define WEFT_APPS_VERBS_CONFIG_H

/**
 * @file The configuration of the process, from the environment that weft-run sets: WEFT_CONFIG, the
 * name of a configuration file, or WEFT_DEV with WEFT_ADDRESS and perhaps WEFT_MTU; or WEFT_PORTD,
 * the socket of weft-portd, alone or with a configuration file without ports.
 */

#include "conf.h"

#define WV_ENV_CONFIG  "WEFT_CONFIG"
#define WV_ENV_DEV     "WEFT_DEV"
#define WV_ENV_ADDRESS "WEFT_ADDRESS"
#define WV_ENV_MTU     "WEFT_MTU"
#define WV_ENV_PORTD   "WEFT_PORTD"
/** 0: connect without the peer-to-peer model of MPA revision 2 (RFC 6581 s9.2) */
#define WV_ENV_P2P "WEFT_P2P"
/** 1: do not refuse versions of libibverbs and librdmacm that were not tested */
#define WV_ENV_ANY_VERSION "WEFT_VERBS_ANY_VERSION"
#define WV_LIBRARY         "libweft_verbs.so"

struct portd_answer;

/**
 * Read the environment. hello: what weft-portd said, whose addresses are then the port's; NULL: it
 * was not asked, and the configuration has no port if the environment names a daemon. 0, or -errno
 * with one line in err; -ENOENT: it has no configuration.
 */
int wv_config_read(struct conf *c, const struct portd_answer *hello, char *err, size_t err_size);
/** Why portd_client_open() returned this error. */
const char *wv_portd_why(int rc);
/**
 * The configuration of this process (mine.c). Any thread. It is read until that succeeds, and then
 * stays. NULL after one line on standard error, unless the last one said the same.
 */
const struct conf *wv_config(void);

#endif /* WEFT_APPS_VERBS_CONFIG_H */
