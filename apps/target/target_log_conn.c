/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Connections of a remote log (docs/log-host.md). The connection that brings a ticket of
 * OPEN_LOG is a log connection: it has no RPC and one grant of the whole medium, and it ends with
 * that grant.
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
#include "target.h"
#include "target_grant.h"
#include "target_say.h"
#include "ui.h"

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
	g->handle = atomic_fetch_add_explicit(&c->w->t->last_handle, 1, memory_order_relaxed) + 1;
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
		target_log("%s: export %s: its ticket cannot be used now (%d)",
		           rc == 0 ? c->peer : "a connection", tk->ex->conf->name, (int)status);
		log_reject(r, status);
		if (rc == 0)
			target_conn_close(c);
		return;
	}
	reply.stag = weft_mr_stag(g->mr);
	reply.rights = g->rights;
	reply.len_bytes = target_region_bytes(g->ex);
	attr.private_data_bytes = log_ticket_reply_encode(&reply, octets);
	rc = weft_accept(r, c->qp, &attr);
	if (rc != 0) {
		target_log(UI_WARNING "%s: not accepted: %s", c->peer, strerror(-rc));
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
		target_log(UI_WARNING "%s: rejected: its ticket %s", addr_str(&ev->remote, host),
		           why[end]);
		/* All refusals are alike, so that a peer cannot learn which tickets exist. */
		log_reject(ev->connreq, WEFT_EXPORT_STALE);
		return true;
	}
	log_connect(tw, ev->connreq, &tk, &ev->remote);
	explicit_bzero(&tk, sizeof(tk));
	return true;
}
