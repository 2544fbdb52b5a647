/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The export program's LIST, OPEN and CLOSE, and its table of procedures. Runs on workers;
 * never blocks. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export_proto.h"
#include "target.h"
#include "target_quota.h"
#include "target_rate.h"
#include "target_rpc.h"
#include "target_say.h"
#include "target_volume.h"

/* With many exports LIST's reply has to fit one message, so its descriptive texts are cut. */
#define LIST_MANY           TARGET_LIST_PAGE
#define LIST_MECHANISM_MANY 40

_Static_assert(CONF_RIGHT_READ == WEFT_EXPORT_READ && CONF_RIGHT_WRITE == WEFT_EXPORT_WRITE &&
                       CONF_RIGHT_FLUSH == WEFT_EXPORT_FLUSH &&
                       CONF_RIGHT_VERIFY == WEFT_EXPORT_VERIFY,
               "rights of the configuration are those of the protocol");
_Static_assert(TARGET_LIST_PAGE <= WEFT_EXPORTS_MAX, "LIST_FROM has room");

/** why: allocated by target_why(). */
static enum weft_rpc_status
open_refuse(weft_export_open_res *res, weft_export_status status, char *why)
{
	res->status = status;
	res->weft_export_open_res_u.why = why;
	return why != NULL ? WEFT_RPC_OK : WEFT_RPC_SYSTEM_ERR;
}

static enum weft_rpc_status
open_answer(const struct target_grant *g, weft_export_open_res *res)
{
	const struct expfmt_super *s = &g->ex->super;
	weft_export_grant *a = &res->weft_export_open_res_u.grant;

	res->status = WEFT_EXPORT_OK;
	a->handle = g->handle;
	a->stag = weft_mr_stag(g->mr);
	a->base_to = 0;
	a->len = target_region_bytes(g->ex);
	a->commit_to = 0;
	a->slot_to[0] = s->slot_off[0] - EXPFMT_COMMIT_OFF;
	a->slot_to[1] = s->slot_off[1] - EXPFMT_COMMIT_OFF;
	a->header_bytes = EXPFMT_HEADER_BYTES;
	a->capacity = s->capacity_bytes;
	a->rights = g->rights;
	a->hash = strdup(g->ex->conf->hash);
	a->hash_bytes = weft_hash_find(g->ex->conf->hash)->result_bytes;
	a->persistent = g->ex->persist->ops->persistent;
	a->mechanism = strdup(g->ex->persist->mechanism);
	return a->hash != NULL && a->mechanism != NULL ? WEFT_RPC_OK : WEFT_RPC_SYSTEM_ERR;
}

static enum weft_rpc_status
serve_open(void *conn_user, void *vargs, void *vres)
{
	struct target_conn *c = conn_user;
	const weft_export_open_args *args = vargs;
	weft_export_open_res *res = vres;
	struct target_export *ex = target_export_find(c->w->t, args->name);
	struct target_grant *g;
	char off[WEFT_TEXT_MAX + 1];
	weft_export_status status;
	const char *why;
	int rc;

	status = target_open_check(c, ex, args->rights, args->cred.cred_len, off, sizeof(off));
	if (status != WEFT_EXPORT_OK)
		return open_refuse(res, status, target_why("%s", off));
	if (target_is_log(ex) || target_is_volume(ex))
		return open_refuse(res, WEFT_EXPORT_INVAL,
		                   target_why("it holds a %s (format = %s), not an object",
		                              target_is_log(ex) ? "log" : "volume",
		                              target_is_log(ex) ? "log" : "volume"));
	g = calloc(1, sizeof(*g));
	if (g == NULL)
		return open_refuse(res, WEFT_EXPORT_NORES, target_why("out of memory"));
	g->ex = ex;
	g->conn = c;
	g->rights = args->rights;
	g->handle = atomic_fetch_add_explicit(&c->w->t->last_handle, 1, memory_order_relaxed) + 1;
	if ((g->rights & WEFT_EXPORT_WRITE) && !target_writer_take(g, off, sizeof(off))) {
		free(g);
		return open_refuse(res, WEFT_EXPORT_BUSY, target_why("%s", off));
	}
	/* After the checks that take no share, because a client that waits for another may ask
	 * any number of times. */
	if (target_quota_open(c, &g->client, &why) != 0) {
		target_writer_undo(g);
		free(g);
		return open_refuse(res, WEFT_EXPORT_NORES, target_why("%s", why));
	}
	rc = target_grant_register(g);
	if (rc != 0) {
		target_writer_undo(g);
		quota_close(c->w->t->quota, g->client);
		free(g);
		if (rc == -EOPNOTSUPP)
			return open_refuse(res, WEFT_EXPORT_PERM,
			                   target_why("these rights do not go together"));
		if (rc == -EIO)
			return open_refuse(
			        res, WEFT_EXPORT_IO,
			        target_why("its medium has lost pages; restart the target"));
		if (rc == -EUSERS)
			return open_refuse(res, WEFT_EXPORT_NORES,
			                   target_why("%s", TARGET_CONNS_FULL));
		return open_refuse(res, WEFT_EXPORT_NORES,
		                   target_why("cannot register: %s", strerror(-rc)));
	}
	target_grant_add(g);
	if (open_answer(g, res) != WEFT_RPC_OK) {
		target_grant_drop(g);
		return WEFT_RPC_SYSTEM_ERR;
	}
	return WEFT_RPC_OK;
}

static enum weft_rpc_status
serve_close(void *conn_user, void *vargs, void *vres)
{
	struct target_conn *c = conn_user;
	const weft_export_close_args *args = vargs;
	weft_export_close_res *res = vres;
	struct target_grant *g;

	res->status = WEFT_EXPORT_STALE;
	LIST_FOREACH (g, &c->grants, link) {
		if (g->handle == args->handle) {
			target_log("export %s: closed by %s", g->ex->conf->name, c->peer);
			target_grant_drop(g);
			res->status = WEFT_EXPORT_OK;
			break;
		}
	}
	return WEFT_RPC_OK;
}

/** Fill in an item. False: no memory. */
static bool
list_item(const struct target_conn *c, struct target_export *ex, size_t mechanism_max,
          weft_export_item *it)
{
	char why[WEFT_TEXT_MAX + 1];
	bool off;

	it->name = strdup(ex->conf->name);
	off = target_export_off(ex, c, why, sizeof(why));
	it->bytes = off ? 0 : target_export_bytes(ex);
	it->rights = target_may_client(ex, c);
	pthread_mutex_lock(&ex->lock);
	it->busy = ex->writer != NULL;
	pthread_mutex_unlock(&ex->lock);
	it->hash = strdup(off ? "" : ex->conf->hash);
	if (!off)
		(void)target_export_mechanism(ex, why, sizeof(why));
	it->mechanism = strndup(why, mechanism_max);
	if (it->name != NULL && it->hash != NULL && it->mechanism != NULL)
		return true;
	/* Every item that is encoded or freed has to be complete. */
	free(it->name);
	free(it->hash);
	free(it->mechanism);
	return false;
}

static enum weft_rpc_status
serve_list(void *conn_user, void *vargs, void *vres)
{
	const struct target_conn *c = conn_user;
	weft_export_list *res = vres;
	const size_t mechanism_max =
	        target_nexports(c->w->t) > LIST_MANY ? LIST_MECHANISM_MANY : WEFT_TEXT_MAX;
	uint32_t at = 0;
	struct target_export *ex;

	(void)vargs;
	res->items.items_val = calloc(WEFT_EXPORTS_MAX, sizeof(*res->items.items_val));
	if (res->items.items_val == NULL)
		return WEFT_RPC_SYSTEM_ERR;
	while (res->items.items_len < WEFT_EXPORTS_MAX &&
	       (ex = target_export_next(c->w->t, &at)) != NULL) {
		if (!list_item(c, ex, mechanism_max, &res->items.items_val[res->items.items_len]))
			return WEFT_RPC_SYSTEM_ERR;
		res->items.items_len++;
	}
	return WEFT_RPC_OK;
}

static enum weft_rpc_status
serve_list_from(void *conn_user, void *vargs, void *vres)
{
	const struct target_conn *c = conn_user;
	const weft_export_list_args *args = vargs;
	weft_export_page *res = vres;
	uint32_t at = args->from;
	struct target_export *ex;

	res->next = 0;
	res->items.items_val = calloc(TARGET_LIST_PAGE, sizeof(*res->items.items_val));
	if (res->items.items_val == NULL)
		return WEFT_RPC_SYSTEM_ERR;
	while ((ex = target_export_next(c->w->t, &at)) != NULL) {
		if (res->items.items_len == TARGET_LIST_PAGE) {
			res->next = at - 1; /* its own slot */
			break;
		}
		if (!list_item(c, ex, WEFT_TEXT_MAX, &res->items.items_val[res->items.items_len]))
			return WEFT_RPC_SYSTEM_ERR;
		res->items.items_len++;
	}
	return WEFT_RPC_OK;
}

static const struct weft_rpc_proc export_procs[] = {
        [WEFT_EXPORT_LIST] =
                {
                        .xdr_args = WEFT_EXPORT_XDR_VOID,
                        .xdr_res = (xdrproc_t)xdr_weft_export_list,
                        .args_bytes = 0,
                        .res_bytes = sizeof(weft_export_list),
                        .serve = serve_list,
                },
        [WEFT_EXPORT_OPEN] =
                {
                        .xdr_args = (xdrproc_t)xdr_weft_export_open_args,
                        .xdr_res = (xdrproc_t)xdr_weft_export_open_res,
                        .args_bytes = sizeof(weft_export_open_args),
                        .res_bytes = sizeof(weft_export_open_res),
                        .serve = serve_open,
                },
        [WEFT_EXPORT_CLOSE] =
                {
                        .xdr_args = (xdrproc_t)xdr_weft_export_close_args,
                        .xdr_res = (xdrproc_t)xdr_weft_export_close_res,
                        .args_bytes = sizeof(weft_export_close_args),
                        .res_bytes = sizeof(weft_export_close_res),
                        .serve = serve_close,
                        .once = true,
                },
        [WEFT_EXPORT_STAT] =
                {
                        .xdr_args = (xdrproc_t)xdr_weft_export_stat_args,
                        .xdr_res = (xdrproc_t)xdr_weft_export_stat_res,
                        .args_bytes = sizeof(weft_export_stat_args),
                        .res_bytes = sizeof(weft_export_stat_res),
                        .serve = target_serve_stat,
                },
        [WEFT_EXPORT_READ_DATA] =
                {
                        .xdr_args = (xdrproc_t)xdr_weft_export_read_args,
                        .xdr_res = (xdrproc_t)target_xdr_read,
                        .args_bytes = sizeof(weft_export_read_args),
                        .res_bytes = sizeof(struct target_read),
                        .serve_later = target_serve_read,
                        .binding = &weft_export_read_binding,
                },
        /*
         * A second execution would undo what was written in between. OPEN may be executed twice,
         * because its grant ends with the connection.
         */
        [WEFT_EXPORT_WRITE_DATA] =
                {
                        .xdr_args = (xdrproc_t)weft_export_xdr_write_args,
                        .xdr_res = (xdrproc_t)xdr_weft_export_write_res,
                        .args_bytes = sizeof(weft_export_write_args),
                        .res_bytes = sizeof(weft_export_write_res),
                        .serve_later = target_serve_write,
                        .binding = &weft_export_write_binding,
                        .once = true,
                },
        [WEFT_EXPORT_LIST_FROM] =
                {
                        .xdr_args = (xdrproc_t)xdr_weft_export_list_args,
                        .xdr_res = (xdrproc_t)xdr_weft_export_page,
                        .args_bytes = sizeof(weft_export_list_args),
                        .res_bytes = sizeof(weft_export_page),
                        .serve = serve_list_from,
                },
        [WEFT_EXPORT_OPEN_LOG] =
                {
                        .xdr_args = (xdrproc_t)xdr_weft_export_log_args,
                        .xdr_res = (xdrproc_t)xdr_weft_export_log_res,
                        .args_bytes = sizeof(weft_export_log_args),
                        .res_bytes = sizeof(weft_export_log_res),
                        .serve = target_serve_open_log,
                },
};

static const struct weft_rpc_program export_program = {
        .prog = WEFT_EXPORT_PROG,
        .vers = WEFT_EXPORT_V1,
        .procs = export_procs,
        .nprocs = sizeof(export_procs) / sizeof(export_procs[0]),
};

const struct weft_rpc_program *const target_programs[] = {&export_program, &target_volume_program,
                                                          NULL};
