/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Option --auth: mutual authentication with the target. */

#include "cp.h"

#include <stdio.h>
#include <string.h>

#include "ui.h"

void
cp_auth_arg(struct cp_options *opt, const char *value)
{
	const char *colon = strchr(value, ':');
	size_t n = colon != NULL ? (size_t)(colon - value) : 0;
	char why[CP_ERR_MAX];
	struct key_file key;

	if (n == 0 || n > HOST_AUTH_NAME_MAX || colon[1] == '\0')
		ui_usage_die("--auth %s: give NAME:KEYFILE", value);
	memcpy(opt->auth_name, value, n);
	opt->auth_name[n] = '\0';
	if (!host_auth_name_ok(opt->auth_name))
		ui_usage_die("--auth %s: a name has letters, digits, '.', '_' and '-' only",
		             opt->auth_name);
	if (key_file_read(colon + 1, &key, why, sizeof(why)) != 0)
		ui_usage_die("--auth %s: %s: %s", opt->auth_name, colon + 1, why);
	if (host_auth_derive(&key, &opt->auth_keys) != 0)
		ui_usage_die("--auth %s: libcrypto has no HKDF", opt->auth_name);
	explicit_bzero(&key, sizeof(key));
}

static int
auth_step(void *conn_user, const uint8_t *in, uint32_t in_bytes, uint8_t *out, uint32_t *out_bytes)
{
	struct cp_session *s = conn_user;

	return host_auth_step(&s->auth, in, in_bytes, out, WEFT_RPC_AUTH_MAX_BYTES, out_bytes);
}

const struct weft_rpc_auth *
cp_auth(struct cp_session *s)
{
	static const struct weft_rpc_auth auth = {.step = auth_step, .required = true};

	if (s->opt->auth_name[0] == '\0')
		return NULL;
	s->auth = (struct host_auth){.keys = &s->opt->auth_keys};
	strcpy(s->auth.name, s->opt->auth_name);
	return &auth;
}

void
cp_auth_called(struct cp_session *s, const struct sockaddr_storage *to)
{
	(void)host_auth_place(to, &s->auth.place);
}

const char *
cp_auth_failure(const struct cp_session *s)
{
	if (s->opt->auth_name[0] == '\0' || s->rpc == NULL ||
	    weft_rpc_stats(s->rpc)->auth_refused == 0)
		return NULL;
	if (s->auth.state == HOST_AUTH_PROVED || s->auth.state == HOST_AUTH_FAILED)
		return "the target does not know this name, or has another key for it, or this "
		       "address is not its own";
	return weft_rpc_stats(s->rpc)->errors_in > 0
	               ? "the target takes none now (after failures of this address it waits), or "
	                 "speaks another version of it"
	               : "the target does not authenticate anybody (leave --auth out)";
}
