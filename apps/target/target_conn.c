/* SPDX-License-Identifier: BSD-3-Clause */
/** @file One connection: made, closed, and freed when nothing refers to it any more. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "addr.h"
#include "target.h"
#include "target_control.h"
#include "target_grant.h"
#include "target_metrics.h"
#include "target_quota.h"
#include "target_rate.h"
#include "target_rpc.h"
#include "target_volume.h"
#include <weft/volume.h>
#include "ui.h"

#define TARGET_SQ_DEPTH 64
/* work requests of a call: register, Read, invalidate; or Write and Send */
#define TARGET_SQ_PER_CALL 4
/* a client that pipelines blocks has two requests per block */
#define TARGET_IRD      64
#define TARGET_LOG_IRD  128   /* likewise for a log's transactions */
#define TARGET_LIMBO_US 20000 /* longer than any completion is late */

/* ---- The end of a connection ---- */

static void limbo_arm(struct target_worker *tw);

/* Free the connections in limbo that nothing refers to; the others wait for the next look. */
static void
limbo_look(struct target_worker *tw, bool all)
{
	struct target_conn *c, *next;
	uint64_t now = ui_now_ns();
	bool freed = false;

	for (c = LIST_FIRST(&tw->limbo); c != NULL; c = next) {
		next = LIST_NEXT(c, link);
		if (!all && now - c->died_ns < TARGET_LIMBO_US * 1000ULL)
			continue;
		/* The regions are freed; the QP's release may take a moment more. */
		if (atomic_load_explicit(&c->pending, memory_order_acquire) > 0 ||
		    weft_pd_dealloc(c->pd) != 0)
			continue;
		LIST_REMOVE(c, link);
		free(c);
		freed = true;
		atomic_fetch_sub_explicit(&tw->t->nconns, 1, memory_order_release);
	}
	if (freed)
		target_rates_reap(tw);
}

static void
limbo_alarm(void *arg)
{
	struct target_worker *tw = arg;

	tw->alarm = NULL;
	limbo_look(tw, false);
	limbo_arm(tw);
}

static void
limbo_arm(struct target_worker *tw)
{
	/* Without memory for the alarm, the next connection that closes sets it. */
	if (tw->alarm == NULL && !LIST_EMPTY(&tw->limbo))
		(void)weft_alarm_set(tw->w, TARGET_LIMBO_US, limbo_alarm, tw, &tw->alarm);
}

void
target_conn_reap(struct target_worker *tw)
{
	limbo_look(tw, true);
}

/* Destroy the QP and the STags. The structure stays until no late completion can refer to it. */
void
target_conn_close(struct target_conn *c)
{
	struct target_grant *g;
	struct target_read *r;

	if (c->dead)
		return;
	c->dead = true;
	c->died_ns = ui_now_ns();
	/* Answers that the client has not taken are no operations that were done. */
	LIST_FOREACH (r, &c->reads, link)
		r->timing.began_ns = 0;
	target_admit_end(c);
	target_tickets_leave(c);
	if (c->end_alarm != NULL)
		weft_alarm_cancel(c->end_alarm);
	c->end_alarm = NULL;
	if (c->rpc != NULL) {
		target_auth_look(c);
		weft_rpc_disconnected(c->rpc);
	}
	while ((g = LIST_FIRST(&c->grants)) != NULL)
		target_grant_drop(g);
	target_vgrants_end(c);
	target_metrics_conn_gone(c);
	target_control_conn_gone(c);
	if (c->qp != NULL)
		weft_qp_destroy(c->qp);
	if (c->rpc != NULL)
		weft_rpc_destroy(c->rpc);
	c->qp = NULL;
	c->rpc = NULL;
	target_auth_end(c);
	LIST_REMOVE(c, link);
	LIST_INSERT_HEAD(&c->w->limbo, c, link);
	limbo_arm(c->w);
}

/* ---- A new connection ---- */

static void
peer_name(const struct sockaddr_storage *ss, char *buf, size_t size)
{
	char name[ADDR_STR_MAX];

	snprintf(buf, size, "%s", addr_str(ss, name));
}

int
target_conn_make(struct target_worker *tw, const struct sockaddr_storage *peer, bool is_log,
                 struct target_conn **out)
{
	struct target *t = tw->t;
	struct target_conn *c = calloc(1, sizeof(*c));
	const struct weft_pd_attr pa = {.size = sizeof(pa),
	                                .max_regions = target_quota_conn_regions(&t->conf)};
	struct weft_qp_attr qa = {
	        .size = sizeof(qa),
	        .worker = tw->w,
	        .send_cq = tw->cq,
	        .recv_cq = tw->cq,
	        .evq = t->evq,
	        .sq_depth = TARGET_SQ_PER_CALL * t->conf.target.credits + TARGET_SQ_DEPTH,
	        .rq_depth = t->conf.target.credits + TARGET_SQ_DEPTH,
	        .ird = TARGET_IRD,
	        .user = c,
	};
	struct weft_rpc_attr ra = {
	        .size = sizeof(ra),
	        .inline_bytes = WEFT_VOLUME_INLINE_BYTES,
	        .credits = t->conf.target.credits,
	        .programs = target_programs,
	        .server = true,
	        .user = c,
	        .auth = target_auth(t),
	        .drc = t->drc,
	        .budget = tw->budget,
	        .timed = t->metrics != NULL,
	};
	int rc;

	if (c == NULL)
		return -ENOMEM;
	if (is_log) {
		/* Only the peer posts requests, so both queues here stay empty. */
		qa.sq_depth = qa.rq_depth = 1;
		qa.ird = TARGET_LOG_IRD;
	}
	c->w = tw;
	c->remote = *peer;
	peer_name(peer, c->peer, sizeof(c->peer));
	rc = weft_pd_alloc_attr(t->stack.ctx, &pa, &c->pd);
	if (rc != 0) {
		free(c);
		return rc;
	}
	LIST_INSERT_HEAD(&tw->conns, c, link);
	atomic_fetch_add_explicit(&t->nconns, 1, memory_order_relaxed);
	rc = weft_qp_create(c->pd, &qa, &c->qp);
	if (rc == 0 && !is_log) {
		ra.qp = c->qp;
		rc = weft_rpc_create(&ra, &c->rpc);
	}
	if (rc == 0 && !is_log) {
		target_auth_begin(c, peer);
		rc = target_admit_begin(c, peer);
	}
	if (rc != 0) {
		target_conn_close(c);
		return rc;
	}
	*out = c;
	return 0;
}
