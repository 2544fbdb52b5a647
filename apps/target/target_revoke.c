/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Revocation of grants (draft-talpey-rdma-commit-02 s6). When an export grants less than
 * before, its holders are warned, and later the rights are removed.
 *
 * The program's thread decides what an export grants from now on. Each worker then checks its own
 * grants. A grant changes on its worker only.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export_proto.h"
#include "target.h"
#include "target_grant.h"
#include "target_nvmf.h"
#include "target_rate.h"
#include "target_rpc.h"
#include "target_say.h"
#include "target_volume.h"
#include "ui.h"

/** The rights that a grant keeps. Verify needs the right to read, and ends with it. */
static uint32_t
grant_rest(const struct target_grant *g)
{
	uint32_t rest = g->rights & target_may_client(g->ex, g->conn);

	if (g->yields)
		rest &= ~(uint32_t)WEFT_EXPORT_WRITE;
	/* A log's writer loses everything with any of its rights. Its region has to be freed
	 * before the next writer comes, and a reduction of rights would not show that. */
	if (target_is_log(g->ex))
		return rest == g->rights ? rest : 0;
	if (!(rest & WEFT_EXPORT_READ))
		rest &= ~(uint32_t)WEFT_EXPORT_VERIFY;
	return rest;
}

static void
grant_count(struct target_export *ex, uint64_t *counter)
{
	pthread_mutex_lock(&ex->lock);
	++*counter;
	pthread_mutex_unlock(&ex->lock);
}

static void
revoke_told(void *arg, enum weft_rpc_status status, void *res)
{
	struct target_export *ex = arg;

	(void)res;
	if (status == WEFT_RPC_OK)
		grant_count(ex, &ex->told);
}

/*
 * Warn the holder before the revocation, if it has said that it serves calls (draft s5.2.5); a
 * client of version 1 cannot say so. The revocation does not depend on the warning.
 */
static void
revoke_tell(const struct target_grant *g, uint64_t deadline_us)
{
	const weft_export_revoke_args args = {
	        .handle = g->handle, .rest = g->rest, .deadline_ms = (u_int)(deadline_us / 1000)};
	struct weft_rpc *rpc = g->conn->rpc;

	if (rpc != NULL && weft_rpc_version(rpc) == 2)
		(void)weft_rpc_call(rpc, WEFT_EXPORT_PROG, WEFT_EXPORT_V1, WEFT_EXPORT_REVOKE,
		                    (xdrproc_t)xdr_weft_export_revoke_args, &args, NULL, 0,
		                    deadline_us, revoke_told, g->ex);
}

static void
on_revoke(void *user, const struct weft_revoke *r)
{
	struct target_grant *g = user;
	struct target_export *ex = g->ex;
	char rights[64];

	switch (r->step) {
	case WEFT_REVOKE_ASKED:
		target_log_export(
		        "export %s: rights of %s will be revoked in %.1f s; then it keeps %s",
		        ex->conf->name, g->conn->peer, (double)r->deadline_us / 1e6,
		        target_rights_str(g->rest, rights, sizeof(rights)));
		grant_count(ex, &ex->revocations);
		revoke_tell(g, r->deadline_us);
		break;
	case WEFT_REVOKE_REDUCED:
		if ((g->rights & ~g->rest) & WEFT_EXPORT_WRITE)
			target_writer_undo(g);
		if ((g->rights & ~g->rest) & WEFT_EXPORT_READ)
			target_reads_end(g);
		g->rights = g->rest;
		target_log_export("export %s: %s keeps %s", ex->conf->name, g->conn->peer,
		                  target_rights_str(g->rights, rights, sizeof(rights)));
		grant_count(ex, &ex->reduced);
		target_grant_revoke(g); /* more rights may have been revoked meanwhile */
		break;
	case WEFT_REVOKE_INVALIDATED:
		target_log_export("export %s: the grant of %s is revoked", ex->conf->name,
		                  g->conn->peer);
		grant_count(ex, &ex->revoked);
		target_grant_drop(g);
		break;
	case WEFT_REVOKE_FAILED:
		/* The peer has already invalidated the STag, so no right is left. */
		target_log_export("export %s: %s has invalidated its grant", ex->conf->name,
		                  g->conn->peer);
		target_grant_drop(g);
		break;
	}
}

/** The time that a holder gets to give rights up, as configured last. */
static uint64_t
grant_time_us(const struct target *t)
{
	return (uint64_t)atomic_load_explicit(&t->revoke_ms, memory_order_relaxed) * 1000;
}

void
target_grant_revoke(struct target_grant *g)
{
	struct target *t = g->conn->w->t;
	struct weft_revoke_attr a = {
	        .size = sizeof(a),
	        /* When the file is lost, no more data may be acknowledged as durable, so the
	         * revocation is immediate. */
	        .deadline_us = target_file_lost(g->ex) ? 0 : grant_time_us(t),
	        .on_revoke = on_revoke,
	        .user = g,
	        .worker = g->conn->w->w,
	};
	uint32_t rest = grant_rest(g);
	int rc;

	if (rest == g->rights)
		return;
	a.access = target_access(rest);
	rc = weft_mr_revoke(g->mr, &a);
	if (rc == 0) {
		g->rest = rest;
	} else if (rc == -ENOENT) {
		target_grant_drop(g);
	} else if (rc == -EALREADY) {
		/*
		 * The rest is checked when this revocation is over. When the file is lost it is
		 * ended now, whatever time its holder was given.
		 */
		if (target_file_lost(g->ex))
			(void)weft_mr_revoke_go(g->mr);
	} else {
		target_log_export(UI_WARNING "export %s: the grant of %s cannot be revoked: %s",
		                  g->ex->conf->name, g->conn->peer, strerror(-rc));
	}
}

struct revoke_call {
	struct target_worker *tw;
	struct target_export *ex;
};

static void
worker_revoke(void *arg)
{
	struct revoke_call *call = arg;
	struct target_conn *c;
	struct target_grant *g, *next;
	struct target_vgrant *v, *vnext;

	target_rate_look(call->tw, call->ex);
	LIST_FOREACH (c, &call->tw->conns, link)
		for (g = LIST_FIRST(&c->grants); g != NULL; g = next) {
			next = LIST_NEXT(g, link);
			if (g->ex == call->ex)
				target_grant_revoke(g);
		}
	LIST_FOREACH (c, &call->tw->conns, link)
		for (v = LIST_FIRST(&c->vgrants); v != NULL; v = vnext) {
			vnext = LIST_NEXT(v, link);
			if (v->ex == call->ex)
				target_vgrant_revoke(v);
		}
	free(call);
}

void
target_export_revoke(struct target *t, struct target_export *ex)
{
	target_nvmf_rights(t, ex);
	for (uint32_t i = 0; i < t->stack.nworkers; i++) {
		struct revoke_call *call = malloc(sizeof(*call));
		int rc = -ENOMEM;

		if (call != NULL) {
			*call = (struct revoke_call){&t->workers[i], ex};
			rc = weft_worker_call(t->workers[i].w, worker_revoke, call);
		}
		if (rc != 0) {
			free(call);
			ui_msg(UI_WARNING
			       "export %s: its grants cannot be revoked now: %s; send SIGHUP",
			       ex->conf->name, strerror(-rc));
		}
	}
}
