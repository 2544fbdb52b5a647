/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Who a client is: host authentication (docs/host-auth.md), and whose calls its calls are.
 */

#include <stdio.h>
#include <string.h>

#include "addr.h"
#include "target.h"

/* A name that was shown is never the address of somebody who showed none. */
#define AUTH_NAME_MARK '='

int
target_auth_open(struct target *t, char *err, size_t err_size)
{
	char why[CONF_ERR_MAX];

	for (uint32_t i = 0; i < t->conf.nclients; i++) {
		const struct conf_client *c = &t->conf.clients[i];
		int rc = key_file_read(c->key_file, &t->client_keys[i], why, sizeof(why));

		if (rc != 0) {
			snprintf(err, err_size, "client %s: key_file %s: %s", c->name, c->key_file,
			         why);
			return rc;
		}
	}
	return 0;
}

void
target_auth_close(struct target *t)
{
	explicit_bzero(t->client_keys, sizeof(t->client_keys));
}

static const struct key_file *
auth_find(void *arg, const char *name)
{
	const struct target *t = arg;

	for (uint32_t i = 0; i < t->conf.nclients; i++)
		if (strcmp(t->conf.clients[i].name, name) == 0)
			return &t->client_keys[i];
	return NULL;
}

static int
auth_step(void *conn_user, const uint8_t *in, uint32_t in_bytes, uint8_t *out, uint32_t *out_bytes)
{
	char name[1 + HOST_AUTH_NAME_MAX + 1];
	struct target_conn *c = conn_user;
	int rc = host_auth_step(&c->auth, in, in_bytes, out, WEFT_RPC_AUTH_MAX_BYTES, out_bytes);

	if (rc == 1) {
		name[0] = AUTH_NAME_MARK;
		strcpy(name + 1, c->auth.name);
		(void)weft_rpc_set_peer_name(c->rpc, name, (uint32_t)strlen(name));
		atomic_fetch_add(&c->w->t->auth_passed, 1);
	}
	return rc;
}

const struct weft_rpc_auth *
target_auth(const struct target *t)
{
	static const struct weft_rpc_auth optional = {.step = auth_step};
	static const struct weft_rpc_auth required = {.step = auth_step, .required = true};

	switch (t->conf.target.host_auth) {
	case CONF_HOST_AUTH_OPTIONAL:
		return &optional;
	case CONF_HOST_AUTH_REQUIRED:
		return &required;
	default:
		return NULL;
	}
}

void
target_auth_begin(struct target_conn *c, const struct sockaddr_storage *peer)
{
	char host[ADDR_STR_MAX];

	c->auth = (struct host_auth){.server = true, .find = auth_find, .find_arg = c->w->t};
	/* Without the port: after a reconnect it is another. */
	_Static_assert(sizeof(host) <= WEFT_RPC_NAME_MAX_BYTES, "an address is a name");
	addr_host_str(peer, host);
	(void)weft_rpc_set_peer_name(c->rpc, host, (uint32_t)strlen(host));
}

static void
auth_refused(struct target_conn *c, uint64_t times)
{
	atomic_fetch_add(&c->w->t->auth_refused, times);
	if (c->auth_refused > 0)
		return; /* told already */
	if (c->auth.state == HOST_AUTH_NEW)
		target_log("%s: refused: it does not show who it is", c->peer);
	else
		target_log("%s: refused: it does not show that it is %s", c->peer,
		           c->auth.name[0] != '\0' ? c->auth.name : "anybody");
}

void
target_auth_look(struct target_conn *c, bool end)
{
	uint64_t n = weft_rpc_stats(c->rpc)->auth_refused;

	if (n > c->auth_refused)
		auth_refused(c, n - c->auth_refused);
	/* A client with another key sees it in our proof, and has nothing to say to that. */
	else if (end && n == 0 && c->auth.state == HOST_AUTH_ASKED)
		auth_refused(c, 1);
	c->auth_refused = n;
}
