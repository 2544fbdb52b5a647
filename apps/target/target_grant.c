/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Grants. Runs on workers; never blocks. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "export_proto.h"
#include "target.h"
#include "target_grant.h"
#include "target_quota.h"
#include "target_rate.h"
#include "target_rpc.h"
#include "target_say.h"

#define RIGHTS_ALL (WEFT_EXPORT_READ | WEFT_EXPORT_WRITE | WEFT_EXPORT_FLUSH | WEFT_EXPORT_VERIFY)

/* The region is free: no peer can reach the memory by this grant any more. Any worker's thread. */
static void
grant_freed(void *arg)
{
	struct target_grant *g = arg;
	struct target_conn *c = g->conn;

	/* For a log this is the step fence.end: only now may another writer be granted the
	 * memory. */
	target_writer_freed(g);
	atomic_fetch_sub_explicit(&g->ex->grants, 1, memory_order_release);
	quota_close(c->w->t->quota, g->client);
	rate_pass_put(&g->pass);
	free(g);
	/* Last: with 0 here the connection may be freed, on its worker (limbo_look()). */
	atomic_fetch_sub_explicit(&c->pending, 1, memory_order_release);
}

/** A log connection has no use without its grant. */
static void
grant_end_log(struct target_conn *c)
{
	if (!c->dead && target_conn_close_later(c) != 0)
		(void)weft_abort(c->qp);
}

void
target_grant_drop(struct target_grant *g)
{
	target_reads_end(g);
	target_writer_leave(g);
	target_quota_let_go(g->conn, &g->client);
	LIST_REMOVE(g, link);
	target_rate_end(g->conn, g->ex, &g->pass);
	g->conn->ngrants--;
	target_conn_standing(g->conn);
	if (g->conn->rpc == NULL)
		grant_end_log(g->conn);
	weft_mr_dereg(g->mr, grant_freed, g);
}

int
target_grant_register(struct target_grant *g)
{
	struct weft_mr_attr attr = {
	        .size = sizeof(attr),
	        .addr = (uint8_t *)g->ex->persist->base + target_region_off(g->ex),
	        .len_bytes = target_region_bytes(g->ex),
	        .base_to = 0,
	        .access = target_access(g->rights),
	        .persist = g->ex->persist,
	        .hash = g->ex->conf->hash,
	        .hash_key = g->ex->hash_key.bytes > 0 ? g->ex->hash_key.key : NULL,
	        .hash_key_bytes = g->ex->hash_key.bytes,
	};
	int rc;

	rc = target_rate_open(g->conn, g->ex, &g->pass);
	if (rc != 0)
		return rc;
	attr.gate = &g->pass.gate;
	rc = weft_mr_reg(g->conn->pd, &attr, &g->mr);
	if (rc != 0) {
		target_rate_end(g->conn, g->ex, &g->pass);
		rate_pass_put(&g->pass);
	}
	return rc;
}

void
target_grant_add(struct target_grant *g)
{
	struct target_conn *c = g->conn;
	char rights[64];

	atomic_fetch_add_explicit(&c->pending, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&g->ex->grants, 1, memory_order_relaxed);
	LIST_INSERT_HEAD(&c->grants, g, link);
	target_quota_hold(c, g->client);
	target_conn_standing(c);
	c->ngrants++;
	target_log("export %s: %s granted to %s", g->ex->conf->name,
	           target_rights_str(g->rights, rights, sizeof(rights)), c->peer);
}

weft_export_status
target_open_check(struct target_conn *c, struct target_export *ex, uint32_t wants,
                  uint32_t cred_bytes, char *why, size_t size)
{
	const uint32_t may = ex != NULL ? target_may(ex) : 0;
	const uint32_t left = ex != NULL ? may & target_left_by_hosts(ex) : 0;
	char rights[64];

	if (ex == NULL) {
		snprintf(why, size, "no such export");
		return WEFT_EXPORT_NOENT;
	}
	/* A grant in spite of credentials would suggest that they were checked. */
	if (cred_bytes > 0) {
		snprintf(why, size, "credentials of an OPEN are not checked here");
		return WEFT_EXPORT_PERM;
	}
	if (!target_allows(ex, c)) {
		target_access_refuse(ex, c, why, size);
		return WEFT_EXPORT_PERM;
	}
	if (target_export_why(ex, why, size))
		return WEFT_EXPORT_OFFLINE;
	if (may == 0) {
		snprintf(why, size, "the target has revoked it");
		return WEFT_EXPORT_NOENT;
	}
	if (left == 0) {
		snprintf(why, size, "NVMe hosts have reserved the volume");
		return WEFT_EXPORT_PERM;
	}
	if (wants == 0 || (wants & ~(uint32_t)RIGHTS_ALL)) {
		snprintf(why, size, "unknown rights 0x%x", wants);
		return WEFT_EXPORT_INVAL;
	}
	/* The hash of a single octet reveals the octet. */
	if ((wants & WEFT_EXPORT_VERIFY) && !(wants & WEFT_EXPORT_READ)) {
		snprintf(why, size, "verify needs read; ask for both");
		return WEFT_EXPORT_PERM;
	}
	if (wants & ~may) {
		snprintf(why, size, "only %s is granted",
		         target_rights_str(may, rights, sizeof(rights)));
		return WEFT_EXPORT_PERM;
	}
	if (wants & ~left) {
		snprintf(why, size, "NVMe hosts have reserved the volume; only %s is left",
		         target_rights_str(left, rights, sizeof(rights)));
		return WEFT_EXPORT_PERM;
	}
	if (!target_rate_conn(c, ex)) {
		snprintf(why, size, TARGET_CONNS_FULL);
		return WEFT_EXPORT_NORES;
	}
	if (c->ngrants + atomic_load_explicit(&c->ntickets, memory_order_relaxed) >=
	    TARGET_GRANTS_MAX) {
		snprintf(why, size, "too many grants on one connection");
		return WEFT_EXPORT_NORES;
	}
	return WEFT_EXPORT_OK;
}
