/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Host authentication of clients (docs/host-auth.md), and the identity under which their
 * calls count. */

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "addr.h"
#include "key_check.h"
#include "target.h"
#include "target_quota.h"
#include "target_say.h"
#include "ui.h"

/* Marks an authenticated name, so that it never equals the address of another client. */
#define AUTH_NAME_MARK '='

/* ---- The configured clients and their keys ---- */

/* Under the lock. */
static void
clients_unref(struct target_clients *cs)
{
	if (cs == NULL || --cs->refs > 0)
		return;
	explicit_bzero(cs->c, cs->n * sizeof(cs->c[0]));
	free(cs);
}

/* The file's octets are erased before the return; only keys derived from them are kept. */
static int
client_read(const struct target *t, const struct conf_client *c, struct host_auth_keys *keys,
            char *err, size_t err_size)
{
	char why[CONF_ERR_MAX];
	struct key_file key;
	int rc = key_file_read(c->key_file, &key, why, sizeof(why));

	if (rc != 0) {
		snprintf(err, err_size, "client %s: key_file %s: %s", c->name, c->key_file, why);
		return rc;
	}
	/* The keys of the exports in use: at SIGHUP the configuration may name others. */
	for (uint32_t i = 0; rc == 0 && i < target_nexports(t); i++)
		if (!target_export_gone(&t->exports[i]))
			rc = key_check_export(c->name, &key, t->exports[i].conf->name,
			                      &t->exports[i].hash_key, err, err_size);
	if (rc == 0) {
		rc = host_auth_derive(&key, keys);
		if (rc != 0)
			snprintf(err, err_size, "client %s: libcrypto has no HKDF", c->name);
	}
	explicit_bzero(&key, sizeof(key));
	return rc;
}

static int
clients_read(const struct target *t, const struct conf *conf, struct target_clients **out,
             char *err, size_t err_size)
{
	struct target_clients *cs = calloc(1, sizeof(*cs) + conf->nclients * sizeof(cs->c[0]));
	if (cs == NULL) {
		snprintf(err, err_size, "clients: out of memory");
		return -ENOMEM;
	}
	cs->refs = 1;
	for (; cs->n < conf->nclients; cs->n++) {
		const struct conf_client *c = &conf->clients[cs->n];
		int rc = client_read(t, c, &cs->c[cs->n].keys, err, err_size);

		if (rc != 0) {
			clients_unref(cs);
			return rc;
		}
		snprintf(cs->c[cs->n].name, sizeof(cs->c[cs->n].name), "%s", c->name);
	}
	*out = cs;
	return 0;
}

static const struct host_auth_keys *
clients_find(const struct target_clients *cs, const char *name)
{
	for (uint32_t i = 0; cs != NULL && i < cs->n; i++)
		if (strcmp(cs->c[i].name, name) == 0)
			return &cs->c[i].keys;
	return NULL;
}

int
target_auth_open(struct target *t, char *err, size_t err_size)
{
	pthread_mutex_init(&t->clients_lock, NULL);
	return clients_read(t, &t->conf, &t->clients, err, err_size);
}

/* On the worker: close the connections of clients that are no longer configured. A client's new
 * key applies to its next connection. A client in the middle of the exchange is looked up again at
 * its end. */
static void
worker_reload(void *arg)
{
	struct target_worker *tw = arg;
	struct target *t = tw->t;
	struct target_conn *c, *next;

	for (c = LIST_FIRST(&tw->conns); c != NULL; c = next) {
		bool known;

		next = LIST_NEXT(c, link);
		if (c->auth.state != HOST_AUTH_DONE)
			continue;
		pthread_mutex_lock(&t->clients_lock);
		known = clients_find(t->clients, c->auth.name) != NULL;
		pthread_mutex_unlock(&t->clients_lock);
		if (known)
			continue;
		target_log("%s: closed: client %s is no longer configured", c->peer, c->auth.name);
		tw->ops->close(c);
	}
}

int
target_auth_reload(struct target *t, const struct conf *fresh, char *err, size_t err_size)
{
	struct target_clients *cs, *old;
	int rc = key_check(fresh, err, err_size);

	if (rc == 0)
		rc = clients_read(t, fresh, &cs, err, err_size);
	if (rc != 0)
		return rc;
	pthread_mutex_lock(&t->clients_lock);
	old = t->clients;
	t->clients = cs;
	clients_unref(old);
	pthread_mutex_unlock(&t->clients_lock);
	for (uint32_t i = 0; i < t->stack.nworkers; i++)
		if (weft_worker_call(t->workers[i].w, worker_reload, &t->workers[i]) != 0)
			ui_msg(UI_WARNING
			       "connections of removed clients are still open; send SIGHUP again");
	return 0;
}

int
target_auth_check_export(const struct conf *fresh, const char *name,
                         const struct key_file *hash_key, char *err, size_t err_size)
{
	char why[CONF_ERR_MAX];
	struct key_file key;
	int rc = 0;

	for (uint32_t i = 0; hash_key->bytes > 0 && i < fresh->nclients && rc == 0; i++) {
		const struct conf_client *c = &fresh->clients[i];

		rc = key_file_read(c->key_file, &key, why, sizeof(why));
		if (rc != 0)
			snprintf(err, err_size, "client %s: key_file %s: %s", c->name, c->key_file,
			         why);
		else
			rc = key_check_export(c->name, &key, name, hash_key, err, err_size);
		explicit_bzero(&key, sizeof(key));
	}
	return rc;
}

uint32_t
target_auth_known(struct target *t)
{
	uint32_t n;

	pthread_mutex_lock(&t->clients_lock);
	n = t->clients != NULL ? t->clients->n : 0;
	pthread_mutex_unlock(&t->clients_lock);
	return n;
}

void
target_auth_close(struct target *t)
{
	pthread_mutex_lock(&t->clients_lock);
	clients_unref(t->clients);
	t->clients = NULL;
	pthread_mutex_unlock(&t->clients_lock);
}

static const struct host_auth_keys *
auth_find(void *arg, const char *name)
{
	struct target_conn *c = arg;
	struct target *t = c->w->t;

	pthread_mutex_lock(&t->clients_lock);
	if (c->clients == NULL && t->clients != NULL) {
		c->clients = t->clients;
		c->clients->refs++;
	}
	pthread_mutex_unlock(&t->clients_lock);
	return clients_find(c->clients, name);
}

bool
target_auth_proof(struct target *t, const struct target_ticket *tk,
                  const struct log_ticket_ask *ask)
{
	uint8_t want[HOST_AUTH_PROOF_BYTES];
	const struct host_auth_keys *keys;
	bool good = false;

	pthread_mutex_lock(&t->clients_lock);
	keys = clients_find(t->clients, tk->name);
	if (keys != NULL && log_ticket_proof(keys, tk->name, &tk->place, tk->octets, want) == 0)
		good = host_auth_equal(want, ask->proof, sizeof(want));
	pthread_mutex_unlock(&t->clients_lock);
	return good;
}

void
target_auth_end(struct target_conn *c)
{
	struct target *t = c->w->t;

	if (c->clients == NULL)
		return;
	c->auth.keys = NULL;
	pthread_mutex_lock(&t->clients_lock);
	clients_unref(c->clients);
	c->clients = NULL;
	pthread_mutex_unlock(&t->clients_lock);
}

/* ---- A connection ---- */

/* Whether the key that authenticated the client is still its key: SIGHUP may have changed it
 * since. */
static bool
auth_current(struct target_conn *c)
{
	struct target *t = c->w->t;
	const struct host_auth_keys *keys;
	bool same;

	pthread_mutex_lock(&t->clients_lock);
	keys = clients_find(t->clients, c->auth.name);
	same = keys != NULL && memcmp(keys, c->auth.keys, sizeof(*keys)) == 0;
	pthread_mutex_unlock(&t->clients_lock);
	return same;
}

static int
auth_step(void *conn_user, const uint8_t *in, uint32_t in_bytes, uint8_t *out, uint32_t *out_bytes)
{
	char name[1 + HOST_AUTH_NAME_MAX + 1];
	struct target_conn *c = conn_user;
	struct weft_qp_info info;
	int rc;

	if (c->auth.state == HOST_AUTH_NEW) {
		weft_qp_query(c->qp, &info);
		rc = host_auth_place(&info.local, &c->auth.place);
		if (rc == 0)
			rc = target_admit_asked(c);
		if (rc != 0)
			return rc;
	}
	rc = host_auth_step(&c->auth, in, in_bytes, out, WEFT_RPC_AUTH_MAX_BYTES, out_bytes);
	if (rc == 1 && !auth_current(c)) {
		c->auth.state = HOST_AUTH_FAILED;
		return -EACCES;
	}
	if (rc == 1) {
		target_admit_passed(c);
		target_conn_standing(c);
		name[0] = AUTH_NAME_MARK;
		strcpy(name + 1, c->auth.name);
		(void)weft_rpc_set_peer_name(c->rpc, name, (uint32_t)strlen(name));
		atomic_fetch_add_explicit(&c->w->t->auth_passed, 1, memory_order_relaxed);
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
	uint8_t net[ADDR_NET6_BYTES];

	c->auth = (struct host_auth){
	        .server = true,
	        .find = auth_find,
	        .find_arg = c,
	        .known_as = c->w->t->known_as,
	        .nknown_as = c->w->t->nknown_as,
	};
	/* Without the port, which changes with a reconnect. */
	_Static_assert(sizeof(host) <= WEFT_RPC_NAME_MAX_BYTES, "an address is a name");
	addr_host_str(peer, host);
	(void)weft_rpc_set_peer_name(c->rpc, host, (uint32_t)strlen(host));
	/* A host can use any number of addresses of its IPv6 /64, so a /64 has one share of the
	 * cache. */
	if (addr_net6(peer, net) > 0)
		(void)weft_rpc_set_peer_share(c->rpc, net, sizeof(net));
}

static void
auth_refused(struct target_conn *c, uint64_t times)
{
	if (c->held_off)
		return; /* the attempt was refused and logged */
	atomic_fetch_add_explicit(&c->w->t->auth_refused, times, memory_order_relaxed);
	if (c->auth_refused > 0)
		return; /* already logged */
	target_admit_failed(c);
	if (c->auth.elsewhere)
		target_log(UI_WARNING
		           "%s: refused: it says that it is %s and called another address than "
		           "ours (known_as in [target] names those that are translated)",
		           c->peer, c->auth.name);
	else if (c->auth.state == HOST_AUTH_NEW)
		target_log(UI_WARNING "%s: refused: it does not authenticate", c->peer);
	else
		target_log(UI_WARNING "%s: refused: it does not show that it is %s", c->peer,
		           c->auth.name[0] != '\0' ? c->auth.name : "a client with a key");
}

void
target_auth_look(struct target_conn *c)
{
	uint64_t n = weft_rpc_stats(c->rpc)->auth_refused;

	if (n > c->auth_refused)
		auth_refused(c, n - c->auth_refused);
	c->auth_refused = n;
}
