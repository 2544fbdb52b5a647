/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The limits of a client's grants, and the number of STags. There is a region for each grant
 * that may exist, and others for each connection's RPC, which no grant can take.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "target.h"
#include "target_grant.h"
#include "target_quota.h"
#include "target_say.h"
#include "target_volume.h"
#include "ui.h"

#define TARGET_GRANTS 4096 /* of all clients */
/* of these, reserved for authenticated clients where authentication is on */
#define TARGET_NAMED 1024
/* upper limit; the more STags exist, the easier one is to guess */
#define TARGET_REGIONS (1u << 16)
#define TARGET_CONNS   1024 /* per worker where [tcp] does not say; weft_tcp_attr's default */

uint32_t
target_quota_regions(const struct conf *conf)
{
	uint64_t conns = conf->tcp.max_conns != 0 ? conf->tcp.max_conns : TARGET_CONNS;
	uint64_t workers = conf->nworkers > 0 ? conf->nworkers : 1;
	uint64_t windows = conf->target.staging_bytes / 2 / conf->target.window_bytes;
	uint64_t n = TARGET_GRANTS + conns * workers * 2 * conf->target.credits + windows;

	return n < TARGET_REGIONS ? (uint32_t)n : TARGET_REGIONS;
}

uint32_t
target_quota_conn_regions(const struct conf *conf)
{
	/* Grants, windows, and calls whose data is fetched; twice, because as many may be waiting
	 * to be freed. */
	return 2 * (TARGET_GRANTS_MAX + TARGET_VWINDOWS_MAX + 2 * conf->target.credits);
}

int
target_quota_up(struct target *t, char *err, size_t err_size)
{
	struct quota_attr a = {
	        .grants = TARGET_GRANTS,
	        .for_named = t->conf.target.host_auth != CONF_HOST_AUTH_NONE ? TARGET_NAMED : 0,
	        .grants_per_client = t->conf.target.max_grants_per_client,
	        .opens_per_s = t->conf.target.max_opens_per_s,
	};
	int rc = 0;

	if (getrandom(a.key, sizeof(a.key), 0) != sizeof(a.key))
		rc = -EIO;
	if (rc == 0)
		rc = quota_create(&a, &t->quota);
	if (rc != 0)
		snprintf(err, err_size, "cannot start: shares of clients: %s", strerror(-rc));
	return rc;
}

void
target_quota_id(const struct target_conn *c, struct quota_id *id)
{
	quota_id(id, c->auth.state == HOST_AUTH_DONE ? c->auth.name : NULL, &c->remote);
}

int
target_quota_open(struct target_conn *c, struct quota_client **out, const char **why)
{
	struct quota_id id;
	int rc;

	target_quota_id(c, &id);
	rc = quota_open(c->w->t->quota, &id, ui_now_ns(), out);
	*why = rc == -EBUSY    ? "too many OPENs in a second; try again later"
	       : rc == -EDQUOT ? "the client has as many grants as it may; close some"
	       : rc == -EUSERS ? "the clients of its network (the IPv6 /64) have as many grants as "
	                         "they may; try again later"
	       : rc == -ENOSPC ? "the target has given out what it may; try again later"
	                       : "out of memory";
	return rc;
}

/* ---- Connections that hold grants and do nothing ---- */

/** A counter that changes with any activity of the connection. */
static uint64_t
conn_seen(const struct target_conn *c, bool *busy)
{
	struct weft_qp_info info;

	weft_qp_query(c->qp, &info);
	*busy = info.in_reads > 0;
	return info.recv_msgs + info.recv_bytes + info.sent_msgs + info.sent_bytes;
}

void
target_quota_hold(struct target_conn *c, struct quota_client *client)
{
	bool busy;

	quota_hold(c->w->t->quota, client, &c->holder, conn_seen(c, &busy), ui_now_ns());
}

void
target_quota_let_go(struct target_conn *c, struct quota_client **client)
{
	*client = quota_let_go(c->w->t->quota, *client, &c->holder);
}

static void
worker_look(void *arg)
{
	struct target_worker *tw = arg;
	struct target_conn *c, *next;
	uint64_t now = ui_now_ns();

	for (c = LIST_FIRST(&tw->conns); c != NULL; c = next) {
		bool busy;
		uint64_t seen;

		next = LIST_NEXT(c, link);
		if (c->ngrants == 0)
			continue;
		seen = conn_seen(c, &busy);
		if (quota_look(tw->t->quota, &c->holder, seen, busy, now)) {
			target_log(UI_WARNING
			           "%s: its %u grants are idle; another client of its network asks "
			           "for one",
			           c->peer, c->ngrants);
			tw->ops->close(c);
		}
	}
}

void
target_quota_look(struct target *t)
{
	if (!quota_is_pressed(t->quota))
		return;
	/* A worker that cannot be called now is called at the next look. */
	for (uint32_t i = 0; i < t->stack.nworkers; i++)
		(void)weft_worker_call(t->workers[i].w, worker_look, &t->workers[i]);
}

void
target_conn_standing(struct target_conn *c)
{
	enum weft_standing s = c->auth.state == HOST_AUTH_DONE ? WEFT_STANDING_KEPT
	                       : c->ngrants > 0                ? WEFT_STANDING_HOLDER
	                                                       : WEFT_STANDING_STRANGER;

	if (s == WEFT_STANDING_KEPT)
		quota_keep(c->w->t->quota, &c->holder);
	if (!c->dead && weft_qp_set_standing(c->qp, s) != 0)
		target_log("%s: its standing could not be set", c->peer);
}
