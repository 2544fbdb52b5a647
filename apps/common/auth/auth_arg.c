/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Option --auth: the client's name and the keys that its key file gives. */

#include "auth_arg.h"

#include <string.h>

#include "key_file.h"
#include "ui.h"

void
auth_arg_take(struct auth_arg *a, const char *value)
{
	const char *colon = strchr(value, ':');
	size_t n = colon != NULL ? (size_t)(colon - value) : 0;
	struct key_file key;
	char why[512];

	if (n == 0 || n > HOST_AUTH_NAME_MAX || colon[1] == '\0')
		ui_usage_die("--auth %s: give NAME:KEYFILE", value);
	memcpy(a->name, value, n);
	a->name[n] = '\0';
	if (!host_auth_name_ok(a->name))
		ui_usage_die("--auth %s: a name has letters, digits, '.', '_' and '-' only",
		             a->name);
	if (key_file_read(colon + 1, &key, why, sizeof(why)) != 0)
		ui_usage_die("--auth %s: %s: %s", a->name, colon + 1, why);
	if (host_auth_derive(&key, &a->keys) != 0)
		ui_usage_die("--auth %s: libcrypto has no HKDF", a->name);
	explicit_bzero(&key, sizeof(key));
}
