/* SPDX-License-Identifier: BSD-3-Clause */
/** @file All connections: the listener, its events, and the orderly end. */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "addr.h"
#include "target.h"
#include "target_grant.h"
#include "target_rate.h"
#include "target_rpc.h"
#include "target_say.h"
#include "ui.h"

#define TARGET_CQ_DEPTH    8192
#define TARGET_DRC_ENTRIES 4096          /* per worker */
#define TARGET_CALLS_BYTES (64ull << 20) /* per worker, for calls and their answers */

static const struct target_ops listen_ops = {
        .close = target_conn_close,
        .revoke = target_grant_revoke,
};

static struct target_worker *
worker_of(struct target *t, const struct weft_worker *w)
{
	for (uint32_t i = 0; i < t->stack.nworkers; i++)
		if (t->workers[i].w == w)
			return &t->workers[i];
	return NULL;
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

	if (tw == NULL || atomic_load_explicit(&t->stopping, memory_order_relaxed) ||
	    !target_admit(t, &ev->remote)) {
		weft_reject(ev->connreq, NULL, 0);
		return;
	}
	if (target_log_request(tw, ev))
		return;
	rc = target_conn_make(tw, &ev->remote, false, &c);
	if (rc != 0) {
		target_log(UI_WARNING "a connection was refused: %s", strerror(-rc));
		weft_reject(ev->connreq, NULL, 0);
		return;
	}
	rc = weft_accept(ev->connreq, c->qp, &attr);
	if (rc != 0) {
		target_log(UI_WARNING "%s: not accepted: %s", c->peer, strerror(-rc));
		target_conn_close(c);
	}
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
		if (c->ngrants > 0)
			target_log("%s: %s, its grants end", c->peer,
			           ev->status == -ETIMEDOUT ? "does not answer any more"
			           : ev->status != 0        ? "connection lost"
			                                    : "disconnected");
		target_conn_close(c);
		break;
	case WEFT_EV_TERMINATED:
		target_log(UI_WARNING "%s: terminated by %s: %s", c->peer,
		           ev->term.ours ? "us" : "the peer",
		           weft_terminate_str(&ev->term, text, sizeof(text)));
		break;
	case WEFT_EV_BAD_RANGE:
		target_bad_range(c, ev);
		break;
	case WEFT_EV_CQ_OVERRUN:
		target_log(UI_WARNING "%s: completions were lost", c->peer);
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

bool
target_listens(const struct target *t, const struct sockaddr_storage *addr)
{
	const struct conf_target *c = &t->conf.target;

	return c->nlisten_on == 0 || conf_has_addr(c->listen_on, c->nlisten_on, addr);
}

int
target_listen_at(struct target *t, const struct conf_listen *l, uint32_t tcp_port,
                 struct weft_listen_attr *la, struct weft_listener **out)
{
	struct sockaddr_storage at = l->addr;
	const uint16_t port = htons((uint16_t)tcp_port);

	if (at.ss_family == AF_INET)
		((struct sockaddr_in *)&at)->sin_port = port;
	else
		((struct sockaddr_in6 *)&at)->sin6_port = port;
	la->prefix_len = (uint8_t)l->prefix_len;
	return weft_listen(t->stack.ctx, (struct sockaddr *)&at, addr_len(&at), la, out);
}

int
target_listen(struct target *t, char *err, size_t err_size)
{
	const struct conf_listen any = {.addr.ss_family = AF_INET}, *at = &any;
	const uint32_t n = t->conf.target.nlisten_on;
	char text[ADDR_STR_MAX];
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
		tw->ops = &listen_ops;
		tw->w = t->stack.workers[i];
		LIST_INIT(&tw->conns);
		LIST_INIT(&tw->limbo);
		LIST_INIT(&tw->ios);
		LIST_INIT(&tw->writers);
		rc = weft_cq_create(t->stack.ctx, &ca, &tw->cq);
		if (rc == 0)
			rc = target_rates_up(tw);
		if (rc == 0)
			rc = weft_rpc_budget_create(TARGET_CALLS_BYTES, &tw->budget);
	}
	if (rc == 0)
		rc = weft_rpc_drc_create(TARGET_DRC_ENTRIES * t->stack.nworkers, &t->drc);
	la.evq = t->evq;
	for (uint32_t i = 0; i < (n > 0 ? n : 1) && rc == 0; i++) {
		at = n > 0 ? &t->conf.target.listen_on[i] : &any;
		rc = target_listen_at(t, at, t->conf.target.listen_port, &la,
		                      &t->listeners[t->nlisteners]);
		t->nlisteners += rc == 0;
	}
	if (rc != 0 && n > 0)
		snprintf(err, err_size, "cannot listen on %s, port %u: %s",
		         conf_net_str(&at->addr, at->prefix_len, text), t->conf.target.listen_port,
		         strerror(-rc));
	else if (rc != 0)
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
		if (atomic_load_explicit(&t->nconns, memory_order_acquire) == 0)
			return true;
		usleep(1000);
	}
	return atomic_load_explicit(&t->nconns, memory_order_acquire) == 0;
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
	/* The calls below bring it to each worker. */
	atomic_store_explicit(&t->stopping, true, memory_order_relaxed);
	for (uint32_t i = 0; i < t->nlisteners; i++)
		weft_unlisten(t->listeners[i]);
	t->nlisteners = 0;
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
		target_conn_reap(tw);
		target_rates_down(tw);
		if (tw->cq != NULL)
			(void)weft_cq_destroy(tw->cq);
		weft_rpc_budget_destroy(tw->budget);
	}
	if (t->evq != NULL)
		(void)weft_evq_destroy(t->evq);
}
