/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_AUTH_ARG_H
#define WEFT_APPS_AUTH_ARG_H

/** @file Option --auth NAME:KEYFILE of clients. */

#include "host_auth.h"

struct auth_arg {
	char name[HOST_AUTH_NAME_MAX + 1]; /**< "": no authentication */
	struct host_auth_keys keys;
};

/** Parse the option and derive the keys. Ends the program with its message on a fault. */
void auth_arg_take(struct auth_arg *a, const char *value);

#endif /* WEFT_APPS_AUTH_ARG_H */
