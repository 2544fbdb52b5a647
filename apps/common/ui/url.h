/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_URL_H
#define WEFT_APPS_URL_H

/** @file weft://HOST[:PORT][/EXPORT] */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define URL_DEFAULT_PORT 7471 /**< weft-target's default port */

struct url {
	char host[256];
	uint16_t port;
	char export_name[256]; /**< empty when there is none */
};

/** Whether s begins with "weft://", and so is never a local file. */
bool url_is(const char *s);
/** -EINVAL with the reason in err. */
int url_parse(const char *s, struct url *u, char *err, size_t err_size);

#endif /* WEFT_APPS_URL_H */
