/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Mutual authentication with the target. */

#include "cp.h"

#include <stdio.h>
#include <string.h>

#include "ui.h"

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

	if (s->opt->auth.name[0] == '\0')
		return NULL;
	s->auth = (struct host_auth){.keys = &s->opt->auth.keys};
	strcpy(s->auth.name, s->opt->auth.name);
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
	if (s->opt->auth.name[0] == '\0' || s->rpc == NULL ||
	    weft_rpc_stats(s->rpc)->auth_refused == 0)
		return NULL;
	if (s->auth.state == HOST_AUTH_PROVED || s->auth.state == HOST_AUTH_FAILED)
		return "the target does not know this name, or has another key for it, or this "
		       "address is not its own";
	return weft_rpc_stats(s->rpc)->errors_in > 0
	               ? "the target accepts no authentication now (after failures of this address "
	                 "it waits), or "
	                 "has another version of it"
	               : "the target does not authenticate clients (leave --auth out)";
}
