/* SPDX-License-Identifier: BSD-3-Clause */
/** @file OPEN_LOG for an export that holds a remote log (docs/log-host.md): it checks what OPEN
 * checks, and answers with a ticket. The connection that brings the ticket is target_log_conn.c's.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export_proto.h"
#include "target.h"
#include "target_quota.h"
#include "target_rpc.h"

#define NS_PER_MS 1000000ULL

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
		                  target_why("it holds %s, not a log",
		                             target_is_volume(ex) ? "a volume (format = volume)"
		                                                  : "an object (format = object)"));
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
