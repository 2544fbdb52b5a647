/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Grants of volumes. Runs on workers; never blocks. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target.h"
#include "target_grant.h"
#include "target_quota.h"
#include "target_rate.h"
#include "target_rpc.h"
#include "target_say.h"
#include "target_volume.h"
#include "target_volume_client.h"
#include "target_volume_window.h"

weft_volrpc_status
target_vgrant_open(struct target_conn *c, struct target_export *ex, uint32_t rights,
                   struct target_vgrant **out, char *why, size_t size)
{
	struct target *t = c->w->t;
	struct target_vgrant *g = calloc(1, sizeof(*g));
	const char *refused;
	char text[64];
	int rc;

	if (g == NULL) {
		snprintf(why, size, "out of memory");
		return WEFT_VOLRPC_NORES;
	}
	g->share = target_vclient_get(c);
	if (g->share == NULL) {
		snprintf(why, size, "out of memory");
		free(g);
		return WEFT_VOLRPC_NORES;
	}
	if (target_quota_open(c, &g->quota, &refused) != 0) {
		snprintf(why, size, "%s", refused);
		target_vclient_put(g->share);
		free(g);
		return WEFT_VOLRPC_NORES;
	}
	rc = target_rate_open(c, ex, &g->rate);
	if (rc != 0) {
		snprintf(why, size, "%s", rc == -EUSERS ? TARGET_CONNS_FULL : "out of memory");
		quota_close(t->quota, g->quota);
		target_vclient_put(g->share);
		free(g);
		return WEFT_VOLRPC_NORES;
	}
	g->ex = ex;
	g->conn = c;
	g->vc = target_vchan_of(c->w, ex);
	g->rights = rights;
	g->refs = 1;
	g->handle = atomic_fetch_add_explicit(&t->last_handle, 1, memory_order_relaxed) + 1;
	LIST_INIT(&g->waiting);
	LIST_INIT(&g->windows);
	TAILQ_INIT(&g->windows_waiting);
	g->vc->staging.max_bytes = c->w->volumes->volume_staging_bytes;
	weft_staging_lane_init(&g->lane, &g->vc->staging);
	weft_vol_client_open(g->vc->chan, &g->client);
	LIST_INSERT_HEAD(&c->vgrants, g, link);
	target_quota_hold(c, g->quota);
	c->ngrants++;
	atomic_fetch_add_explicit(&c->pending, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&ex->grants, 1, memory_order_relaxed);
	target_conn_standing(c);
	target_log("export %s: %s granted to %s", ex->conf->name,
	           target_rights_str(rights, text, sizeof(text)), c->peer);
	*out = g;
	return WEFT_VOLRPC_OK;
}

void
target_vgrant_end(struct target_vgrant *g)
{
	if (g->ended)
		return;
	g->ended = true;
	target_quota_let_go(g->conn, &g->quota);
	g->conn->ngrants--;
	if (g->revoke_alarm != NULL)
		weft_alarm_cancel(g->revoke_alarm);
	g->revoke_alarm = NULL;
	/* First the regions, so that no peer writes to a window that ends. */
	target_vwindows_end(g);
	target_vio_end_waiting(g);
	/* Calls that wait for the rate are answered, too: it is ended. */
	target_rate_end(g->conn, g->ex, &g->rate);
	(void)weft_vol_revoke(&g->client);
	target_conn_standing(g->conn);
	target_vgrant_unref(g);
}

void
target_vgrants_end(struct target_conn *c)
{
	struct target_vgrant *g, *next;

	for (g = LIST_FIRST(&c->vgrants); g != NULL; g = next) {
		next = LIST_NEXT(g, link);
		target_vgrant_end(g);
	}
}

/* ---- Revocation ---- */

static void
vgrant_time(void *arg)
{
	struct target_vgrant *g = arg;

	g->revoke_alarm = NULL;
	if ((g->rights & target_may_client(g->ex, g->conn)) == g->rights) {
		target_log_export("export %s: %s keeps its grant: it is granted again",
		                  g->ex->conf->name, g->conn->peer);
		return;
	}
	target_log_export("export %s: the grant of %s is revoked", g->ex->conf->name,
	                  g->conn->peer);
	target_vcount(g->ex, &g->ex->revoked);
	target_vgrant_end(g);
}

void
target_vgrant_revoke(struct target_vgrant *g)
{
	struct target *t = g->conn->w->t;
	const uint32_t ms = target_file_lost(g->ex)
	                            ? 0
	                            : atomic_load_explicit(&t->revoke_ms, memory_order_relaxed);
	const weft_volrpc_revoke_args args = {.handle = g->handle, .deadline_ms = ms};

	if (g->ended || (g->rights & target_may_client(g->ex, g->conn)) == g->rights)
		return;
	if (g->revoke_alarm != NULL && ms > 0)
		return;
	if (g->revoke_alarm == NULL) {
		target_vcount(g->ex, &g->ex->revocations);
		if (g->conn->rpc != NULL && weft_rpc_version(g->conn->rpc) == 2)
			(void)weft_rpc_call(
			        g->conn->rpc, WEFT_VOLRPC_PROG, WEFT_VOLRPC_V2, WEFT_VOLRPC_REVOKE,
			        (xdrproc_t)xdr_weft_volrpc_revoke_args, &args, NULL, 0,
			        (uint64_t)(ms > 0 ? ms : 1) * 1000, target_vtold, g->ex);
	} else {
		weft_alarm_cancel(g->revoke_alarm);
		g->revoke_alarm = NULL;
	}
	/* When the file is lost nothing may be acknowledged any more. */
	if (ms == 0 || weft_alarm_set(g->conn->w->w, (uint64_t)ms * 1000, vgrant_time, g,
	                              &g->revoke_alarm) != 0)
		vgrant_time(g);
}
