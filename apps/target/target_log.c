/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Exports that hold a remote log (docs/log-host.md). OPEN_LOG on an RPC connection checks
 * what OPEN checks, and answers with a ticket. The connection that brings the ticket is a log
 * connection: it has no RPC and one grant of the whole medium, and it ends with that grant.
 *
 * The fence of docs/log-format.md: the writer's place becomes free only when grant_freed() of the
 * previous writer has run (fence.end), and the next writer's region is registered anew
 * (fence.give). A client that comes too early is refused and asks again. Nothing here waits.
 *
 * A log connection does not depend on the RPC connection that asked for the ticket. That one may
 * close, and is evicted when it is idle and connections are short.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "addr.h"
#include "export_proto.h"
#include "target.h"

#define NS_PER_MS 1000000ULL

bool
target_is_log(const struct target_export *ex)
{
	return ex->conf->format == CONF_FORMAT_LOG;
}

/* ---- OPEN_LOG ---- */

/** why: allocated by target_why(). */
static enum weft_rpc_status
log_refuse(weft_export_log_res *res, weft_export_status status, char *why)
{
	res->status = status;
	res->weft_export_log_res_u.why = why;
	return why != NULL ? WEFT_RPC_OK : WEFT_RPC_SYSTEM_ERR;
}

enum weft_rpc_status
target_serve_open_log(void *conn_user, void *vargs, void *vres)
{
	struct target_conn *c = conn_user;
	struct target *t = c->w->t;
	const weft_export_log_args *args = vargs;
	weft_export_log_res *res = vres;
	weft_export_ticket *a = &res->weft_export_log_res_u.ticket;
	struct target_export *ex = target_export_find(t, args->name);
	struct target_ticket tk = {.ex = ex, .rights = args->rights, .remote = c->remote};
	char off[WEFT_TEXT_MAX + 1];
	weft_export_status status;
	const char *why;
	int rc;

	status = target_open_check(c, ex, args->rights, args->cred.cred_len, off, sizeof(off));
	if (status != WEFT_EXPORT_OK)
		return log_refuse(res, status, target_why("%s", off));
	if (!target_is_log(ex))
		return log_refuse(res, WEFT_EXPORT_INVAL,
		                  target_why("it holds an object (format = object), not a log"));
	if ((args->rights & WEFT_EXPORT_WRITE) &&
	    !target_writer_keep(c, ex, TARGET_TICKET_LIFE_NS, off, sizeof(off)))
		return log_refuse(res, WEFT_EXPORT_BUSY, target_why("%s", off));
	if (target_quota_open(c, &tk.client, &why) != 0)
		return log_refuse(res, WEFT_EXPORT_NORES, target_why("%s", why));
	tk.named = c->auth.state == HOST_AUTH_DONE;
	if (tk.named) {
		strcpy(tk.name, c->auth.name);
		tk.place = c->auth.place;
	}
	rc = target_ticket_give(c, &tk, (uint8_t *)a->ticket);
	if (rc != 0) {
		quota_close(t->quota, tk.client);
		return log_refuse(res, WEFT_EXPORT_NORES,
		                  target_why("no ticket: %s", strerror(-rc)));
	}
	res->status = WEFT_EXPORT_OK;
	a->life_ms = TARGET_TICKET_LIFE_NS / NS_PER_MS;
	a->len = ex->persist->bytes;
	a->hash = strdup(ex->conf->hash);
	a->hash_bytes = weft_hash_find(ex->conf->hash)->result_bytes;
	a->persistent = ex->persist->ops->persistent;
	a->mechanism = strdup(ex->persist->mechanism);
	/* A ticket whose answer fails expires by its time. */
	return a->hash != NULL && a->mechanism != NULL ? WEFT_RPC_OK : WEFT_RPC_SYSTEM_ERR;
}

/* ---- A log connection ---- */

static void
log_reject(struct weft_connreq *r, weft_export_status status)
{
	const struct log_ticket_reply reply = {.status = (uint16_t)status};
	uint8_t octets[LOG_TICKET_REPLY_BYTES];

	weft_reject(r, octets, log_ticket_reply_encode(&reply, octets));
}

/**
 * Make the ticket's grant on its connection. OK: the grant has taken over the ticket's share. Else
 * the reason, and the share is still the caller's.
 */
static weft_export_status
log_grant(struct target_conn *c, const struct target_ticket *tk, struct target_grant **out)
{
	struct target_export *ex = tk->ex;
	struct target_grant *g;
	char why[WEFT_TEXT_MAX + 1];
	weft_export_status status;
	int rc;

	/* Check again, because time has passed since OPEN_LOG. */
	status = target_open_check(c, ex, tk->rights, 0, why, sizeof(why));
	if (status == WEFT_EXPORT_OK && !target_is_log(ex))
		status = WEFT_EXPORT_INVAL;
	if (status != WEFT_EXPORT_OK)
		return status;
	g = calloc(1, sizeof(*g));
	if (g == NULL)
		return WEFT_EXPORT_NORES;
	g->ex = ex;
	g->conn = c;
	g->rights = tk->rights;
	g->client = tk->client;
	g->handle = atomic_fetch_add(&c->w->t->last_handle, 1) + 1;
	if ((g->rights & WEFT_EXPORT_WRITE) && !target_writer_take(g, why, sizeof(why))) {
		free(g);
		return WEFT_EXPORT_BUSY;
	}
	rc = target_grant_register(g);
	if (rc != 0) {
		target_writer_undo(g);
		free(g);
		return rc == -EIO ? WEFT_EXPORT_IO : WEFT_EXPORT_NORES;
	}
	target_grant_add(g);
	*out = g;
	return WEFT_EXPORT_OK;
}

static void
log_connect(struct target_worker *tw, struct weft_connreq *r, const struct target_ticket *tk,
            const struct sockaddr_storage *remote)
{
	struct target *t = tw->t;
	struct log_ticket_reply reply = {0};
	uint8_t octets[LOG_TICKET_REPLY_BYTES];
	struct weft_conn_attr attr = {
	        .size = sizeof(attr),
	        .keepalive_us = t->conf.target.keepalive_ms * 1000,
	        .private_data = octets,
	};
	weft_export_status status = WEFT_EXPORT_NORES;
	struct target_grant *g = NULL;
	struct target_conn *c;
	int rc = target_conn_make(tw, remote, true, &c);

	if (rc == 0) {
		/* From here on SIGHUP finds the connection, and closes it when the client is no
		 * longer configured. The ticket's proof was checked before. */
		if (tk->named) {
			strcpy(c->auth.name, tk->name);
			c->auth.state = HOST_AUTH_DONE;
		}
		status = log_grant(c, tk, &g);
	}
	if (g == NULL) {
		quota_close(t->quota, tk->client);
		target_log("%s: export %s: its ticket is of no use now (%d)",
		           rc == 0 ? c->peer : "a connection", tk->ex->conf->name, (int)status);
		log_reject(r, status);
		if (rc == 0)
			target_conn_close(c);
		return;
	}
	reply.stag = weft_mr_stag(g->mr);
	reply.rights = g->rights;
	reply.len_bytes = target_grant_bytes(g);
	attr.private_data_bytes = log_ticket_reply_encode(&reply, octets);
	rc = weft_accept(r, c->qp, &attr);
	if (rc != 0) {
		target_log("%s: not accepted: %s", c->peer, strerror(-rc));
		target_conn_close(c);
	}
}

bool
target_log_request(struct target_worker *tw, const struct weft_event *ev)
{
	static const char *const why[TARGET_TICKET_ENDS] = {
	        [TARGET_TICKET_EXPIRED] = "has expired",
	        [TARGET_TICKET_UNKNOWN] = "was never given, or was used",
	        [TARGET_TICKET_ELSEWHERE] = "is of another address",
	        [TARGET_TICKET_UNPROVED] = "comes without its client's proof",
	};
	struct log_ticket_ask ask;
	struct target_ticket tk;
	enum target_ticket_end end;
	char host[ADDR_STR_MAX];
	int rc = log_ticket_ask_decode(ev->private_data, ev->private_data_bytes, &ask);

	if (rc == -ENOMSG)
		return false;
	if (rc != 0) {
		target_ticket_malformed(tw->t);
		log_reject(ev->connreq, WEFT_EXPORT_INVAL);
		return true;
	}
	end = target_ticket_take(tw->t, &ask, &ev->remote, &tk);
	if (end != TARGET_TICKET_USED) {
		target_log("%s: rejected: its ticket %s", addr_str(&ev->remote, host), why[end]);
		/* All refusals are alike, so that a peer cannot learn which tickets exist. */
		log_reject(ev->connreq, WEFT_EXPORT_STALE);
		return true;
	}
	log_connect(tw, ev->connreq, &tk, &ev->remote);
	explicit_bzero(&tk, sizeof(tk));
	return true;
}

static void
log_close(void *arg)
{
	struct target_conn *c = arg;

	c->end_alarm = NULL;
	target_conn_close(c);
}

void
target_log_end(struct target_conn *c)
{
	if (c->dead || c->end_alarm != NULL)
		return;
	if (weft_alarm_set(c->w->w, 0, log_close, c, &c->end_alarm) != 0) {
		c->end_alarm = NULL;
		(void)weft_abort(c->qp);
	}
}
