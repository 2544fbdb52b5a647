/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Connections: accepting, serving and freeing them. */

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target.h"
#include "ui.h"
#include "addr.h"
#include <weft/limit.h>

#define TARGET_CQ_DEPTH 8192
#define TARGET_SQ_DEPTH 64
/* work requests of a call: register, Read, invalidate; or Write and Send */
#define TARGET_SQ_PER_CALL 4
#define TARGET_DRC_ENTRIES 4096          /* per worker */
#define TARGET_CALLS_BYTES (64ull << 20) /* per worker, for calls and their answers */
/* a client that pipelines blocks has two requests per block */
#define TARGET_IRD         64
#define TARGET_LOG_IRD     128   /* likewise for a log's transactions */
#define TARGET_LIMBO_US    20000 /* longer than any completion is late */
#define TARGET_LINES_A_SEC 20
#define NS_PER_SEC         1000000000ULL

/* Separate limits, so that strangers cannot suppress messages about exports. */
static struct weft_limit peer_lines, export_lines;

static void
target_say(struct weft_limit *limit, const char *fmt, va_list ap)
{
	char text[1024];
	uint32_t held;

	if (!weft_limit_ok(limit, TARGET_LINES_A_SEC, ui_now_ns(), NS_PER_SEC, &held))
		return;
	if (held > 0)
		ui_msg("%" PRIu32 " lines left out", held);
	vsnprintf(text, sizeof(text), fmt, ap);
	ui_msg("%s", text);
}

void
target_log(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	target_say(&peer_lines, fmt, ap);
	va_end(ap);
}

void
target_log_export(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	target_say(&export_lines, fmt, ap);
	va_end(ap);
}

/* ---- The end of a connection ---- */

static void limbo_arm(struct target_worker *tw);

/* Free the connections in limbo that nothing refers to; the others wait for the next look. */
static void
limbo_look(struct target_worker *tw, bool all)
{
	struct target_conn *c, *next;
	uint64_t now = ui_now_ns();

	for (c = LIST_FIRST(&tw->limbo); c != NULL; c = next) {
		next = LIST_NEXT(c, link);
		if (!all && now - c->died_ns < TARGET_LIMBO_US * 1000ULL)
			continue;
		/* The regions are freed; the QP's release may take a moment more. */
		if (atomic_load(&c->pending) > 0 || weft_pd_dealloc(c->pd) != 0)
			continue;
		LIST_REMOVE(c, link);
		free(c);
		atomic_fetch_sub(&tw->t->nconns, 1);
	}
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

/* Destroy the QP and the STags. The structure stays until no late completion can refer to it. */
void
target_conn_close(struct target_conn *c)
{
	struct target_grant *g;

	if (c->dead)
		return;
	c->dead = true;
	c->died_ns = ui_now_ns();
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

/* ---- Its beginning ---- */

static struct target_worker *
worker_of(struct target *t, const struct weft_worker *w)
{
	for (uint32_t i = 0; i < t->stack.nworkers; i++)
		if (t->workers[i].w == w)
			return &t->workers[i];
	return NULL;
}

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
	        .credits = t->conf.target.credits,
	        .programs = target_programs,
	        .server = true,
	        .user = c,
	        .auth = target_auth(t),
	        .drc = t->drc,
	        .budget = tw->budget,
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
	atomic_fetch_add(&t->nconns, 1);
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

static void
on_request(struct target *t, const struct weft_event *ev)
{
	struct target_worker *tw = worker_of(t, weft_connreq_worker(ev->connreq));
	struct weft_conn_attr attr = {
	        .size = sizeof(attr),
	        .keepalive_us = t->conf.target.keepalive_ms * 1000,
	};
	struct target_conn *c;
	int rc;

	if (tw == NULL || atomic_load(&t->stopping) || !target_admit(t, &ev->remote)) {
		weft_reject(ev->connreq, NULL, 0);
		return;
	}
	if (target_log_request(tw, ev))
		return;
	rc = target_conn_make(tw, &ev->remote, false, &c);
	if (rc != 0) {
		target_log("a connection was refused: %s", strerror(-rc));
		weft_reject(ev->connreq, NULL, 0);
		return;
	}
	rc = weft_accept(ev->connreq, c->qp, &attr);
	if (rc != 0) {
		target_log("%s: not accepted: %s", c->peer, strerror(-rc));
		target_conn_close(c);
	}
}

void
target_conn_standing(struct target_conn *c)
{
	enum weft_standing s = c->auth.state == HOST_AUTH_DONE ? WEFT_STANDING_KEPT
	                       : !LIST_EMPTY(&c->grants)       ? WEFT_STANDING_HOLDER
	                                                       : WEFT_STANDING_STRANGER;

	if (s == WEFT_STANDING_KEPT)
		quota_keep(c->w->t->quota, &c->holder);
	if (!c->dead && weft_qp_set_standing(c->qp, s) != 0)
		target_log("%s: its standing could not be set", c->peer);
}

static void
on_event(void *user, const struct weft_event *ev)
{
	struct target *t = user;
	struct target_conn *c = ev->user;
	char text[160];

	if (ev->type == WEFT_EV_CONNECT_REQUEST) {
		on_request(t, ev);
		return;
	}
	if (c == NULL || c->dead)
		return;
	switch (ev->type) {
	case WEFT_EV_DISCONNECTED:
	case WEFT_EV_CONNECT_ERROR:
	case WEFT_EV_REJECTED:
		if (!LIST_EMPTY(&c->grants))
			target_log("%s: %s, its grants end", c->peer,
			           ev->status == -ETIMEDOUT ? "is dead (it answers no more)"
			           : ev->status != 0        ? "connection lost"
			                                    : "disconnected");
		target_conn_close(c);
		break;
	case WEFT_EV_TERMINATED:
		target_log("%s: terminated by %s: %s", c->peer, ev->term.ours ? "us" : "the peer",
		           weft_terminate_str(&ev->term, text, sizeof(text)));
		break;
	case WEFT_EV_BAD_RANGE:
		target_bad_range(c, ev);
		break;
	case WEFT_EV_CQ_OVERRUN:
		target_log("%s: completions were lost", c->peer);
		break;
	case WEFT_EV_SRQ_LIMIT:
	case WEFT_EV_LAST_WQE:
	case WEFT_EV_CONNECT_REQUEST:
	case WEFT_EV_ESTABLISHED:
		break;
	}
}

static void
on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		struct target_conn *c = wc[i].qp_user;

		if (c->dead || c->rpc == NULL)
			continue;
		(void)weft_rpc_wc(c->rpc, &wc[i]);
		target_auth_look(c);
	}
}

/* ---- All of them ---- */

int
target_listen(struct target *t, char *err, size_t err_size)
{
	struct sockaddr_in any = {
	        .sin_family = AF_INET,
	        .sin_port = htons((uint16_t)t->conf.target.listen_port),
	        .sin_addr.s_addr = htonl(INADDR_ANY),
	};
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = on_event, .user = t};
	struct weft_listen_attr la = {
	        .size = sizeof(la),
	        .keepalive_us = t->conf.target.keepalive_ms * 1000,
	        .max_conns_per_peer = t->conf.target.max_conns_per_peer,
	        .max_requests_per_peer = t->conf.target.max_requests_per_peer,
	        .push_out = true,
	};
	int rc = weft_evq_create(t->stack.ctx, &ea, &t->evq);

	for (uint32_t i = 0; rc == 0 && i < t->stack.nworkers; i++) {
		struct target_worker *tw = &t->workers[i];
		struct weft_cq_attr ca = {
		        .size = sizeof(ca),
		        .depth = TARGET_CQ_DEPTH,
		        .on_wc = on_wc,
		        .user = tw,
		};

		tw->t = t;
		tw->w = t->stack.workers[i];
		LIST_INIT(&tw->conns);
		LIST_INIT(&tw->limbo);
		LIST_INIT(&tw->ios);
		LIST_INIT(&tw->writers);
		rc = weft_cq_create(t->stack.ctx, &ca, &tw->cq);
		if (rc == 0)
			rc = weft_rpc_budget_create(TARGET_CALLS_BYTES, &tw->budget);
	}
	if (rc == 0)
		rc = weft_rpc_drc_create(TARGET_DRC_ENTRIES * t->stack.nworkers, &t->drc);
	if (rc == 0) {
		la.evq = t->evq;
		rc = weft_listen(t->stack.ctx, (struct sockaddr *)&any, sizeof(any), &la,
		                 &t->listener);
	}
	if (rc != 0)
		snprintf(err, err_size, "cannot listen on port %u: %s", t->conf.target.listen_port,
		         strerror(-rc));
	return rc;
}

/* On the worker: close all connections in order. */
static void
worker_disconnect(void *arg)
{
	struct target_worker *tw = arg;
	struct target_conn *c, *next;

	for (c = LIST_FIRST(&tw->conns); c != NULL; c = next) {
		next = LIST_NEXT(c, link);
		if (weft_disconnect(c->qp) != 0)
			target_conn_close(c);
	}
}

/* On the worker: close all connections at once. */
static void
worker_close(void *arg)
{
	struct target_worker *tw = arg;
	struct target_conn *c;

	while ((c = LIST_FIRST(&tw->conns)) != NULL)
		target_conn_close(c);
}

static bool
wait_for_none(struct target *t, unsigned int timeout_ms)
{
	for (unsigned int i = 0; i < timeout_ms; i++) {
		if (atomic_load(&t->nconns) == 0)
			return true;
		usleep(1000);
	}
	return atomic_load(&t->nconns) == 0;
}

void
target_io_end(struct target *t)
{
	for (uint32_t i = 0; i < t->stack.nworkers; i++)
		target_io_fini(&t->workers[i]);
	weft_rpc_drc_destroy(t->drc);
}

void
target_hang_up(struct target *t, unsigned int timeout_ms)
{
	atomic_store(&t->stopping, true);
	if (t->listener != NULL)
		weft_unlisten(t->listener);
	t->listener = NULL;
	for (uint32_t i = 0; i < t->stack.nworkers; i++)
		(void)weft_worker_call(t->workers[i].w, worker_disconnect, &t->workers[i]);
	if (wait_for_none(t, timeout_ms))
		return;
	for (uint32_t i = 0; i < t->stack.nworkers; i++)
		(void)weft_worker_call(t->workers[i].w, worker_close, &t->workers[i]);
	(void)wait_for_none(t, timeout_ms);
}

void
target_conn_fini(struct target *t)
{
	for (uint32_t i = 0; i < t->stack.nworkers; i++) {
		struct target_worker *tw = &t->workers[i];

		if (tw->w == NULL)
			continue;
		worker_close(tw);
		target_writer_fini(tw);
		limbo_look(tw, true);
		if (tw->cq != NULL)
			(void)weft_cq_destroy(tw->cq);
		weft_rpc_budget_destroy(tw->budget);
	}
	if (t->evq != NULL)
		(void)weft_evq_destroy(t->evq);
}
