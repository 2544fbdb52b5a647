/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Listening: a listener, its part on each worker, and the connections that TCP offers. */

#include <stdlib.h>
#include <unistd.h>

#include "cm_listen.h"

/** TCP offers a connection. */
static int
cm_lsn_accept(void *arg, struct weft_tcp_conn *c)
{
	struct cm_lsn *lsn = arg;
	struct weft_cm_worker *w = lsn->vw->cm;
	struct cm_peer *peer;
	struct weft_tcp_info ti;
	int rc;

	if (cm_listener_closed(lsn->l))
		return -ENOBUFS;
	if (w->push == NULL && cm_push_init(w) < 0)
		return -ENOMEM;
	weft_tcp_info(c, &ti);
	peer = cm_peer_call(lsn->vw, &ti.remote);
	if (peer == NULL)
		return -ENOMEM;
	rc = cm_admit(lsn, peer, &ti.remote, weft_tcp_conns_most(c));
	if (rc == 0)
		rc = cm_req_new(lsn, peer, c);
	if (rc < 0)
		cm_peer_hang_up(peer);
	return rc;
}

static int
cm_lsn_open(struct cm_lsn *lsn)
{
	struct weft_listener *l = lsn->l;

	/* TCP limits half-open connections. They are not requests yet. */
	int rc = weft_tcp_listen(lsn->vw->cm->tcp, &lsn->addr, l->bits, l->port,
	                         RTE_MAX(l->backlog, (uint32_t)LISTEN_DEFAULT_BACKLOG),
	                         cm_lsn_accept, lsn, &lsn->tcp);

	if (rc == 0) {
		weft_tcp_listener_set_room(lsn->tcp, cm_admit_room);
		weft_tcp_listener_set_dscp(lsn->tcp, l->dscp);
	}
	return rc;
}

static void
cm_lsn_open_run(struct weft_work_item *m)
{
	struct cm_lsn *lsn = container_of(m, struct cm_lsn, open);
	struct weft_listener *l = lsn->l;
	int rc = cm_listener_closed(l) ? 0 : cm_lsn_open(lsn);

	if (rc < 0)
		WEFT_LOG(cm, ERR, "worker %u cannot listen: %s", lsn->vw->id, strerror(-rc));
	atomic_store_explicit(&lsn->answered, true, memory_order_release);
	cm_listener_unref(l);
}

/*
 * Wait until the workers listen: a SYN that arrives before is reset, and the program may tell a
 * peer to connect as soon as weft_listen() returns. Not done on a worker's thread, because two
 * workers would wait for each other. Not done for workers that the program polls, perhaps later on
 * this very thread.
 */
static void
cm_listen_await(const struct weft_listener *l)
{
	for (unsigned int i = 0; i < l->nparts; i++)
		if (weft_vworker_is_mine(l->part[i].vw))
			return;
	for (unsigned int i = 0, turns = 0; i < l->nparts && turns < LISTEN_AWAIT_TURNS; turns++) {
		if (!cm_listen_waits(l->part[i].vw, &l->part[i].answered))
			i++;
		else
			usleep(LISTEN_AWAIT_US);
	}
}

static void
cm_lsn_close(struct cm_lsn *lsn)
{
	struct weft_vworker *vw = lsn->vw;
	struct weft_connreq *r, *next;

	if (lsn->tcp != NULL)
		weft_tcp_unlisten(vw->cm->tcp, lsn->tcp);
	lsn->tcp = NULL;
	for (r = TAILQ_FIRST(&vw->cm->connreqs); r != NULL; r = next) {
		next = TAILQ_NEXT(r, link);
		if (r->lsn == lsn)
			cm_req_unlisten(r);
	}
}

static void
cm_lsn_close_run(struct weft_work_item *m)
{
	struct cm_lsn *lsn = container_of(m, struct cm_lsn, close);

	cm_lsn_close(lsn);
	cm_listener_unref(lsn->l);
}

/** Add the listener's part on a worker that has a fitting address. */
static void
cm_listen_part(struct weft_listener *l, struct weft_vworker *vw)
{
	struct cm_lsn *lsn = &l->part[l->nparts];

	if (!cm_listen_local(vw, &l->addr, l->bits, &lsn->addr))
		return;
	lsn->l = l;
	lsn->vw = vw;
	l->nparts++;
}

int
weft_listen(struct weft_ctx *ctx, const struct sockaddr *addr, socklen_t addr_len,
            const struct weft_listen_attr *attr, struct weft_listener **out)
{
	struct weft_vctx *v = weft_vctx_of(ctx);
	struct weft_listen_attr a;
	struct weft_listener *l;
	bool any;
	int rc;

	if (WEFT_HANDLE_BAD(ctx, CTX) || out == NULL)
		return -EINVAL;
	rc = weft_attr_copy(&a, sizeof(a), attr);
	if (rc < 0)
		return rc;
	if (WEFT_HANDLE_BAD(a.evq, EVQ) || a.evq->ctx != v)
		return -EINVAL;
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return -ENOMEM;
	rc = cm_attr_addr(addr, addr_len, &l->addr, &l->port);
	if (rc == 0 && (l->port == 0 || !cm_attr_dscp(a.dscp, &l->dscp)))
		rc = -EINVAL;
	if (rc == 0)
		rc = weft_cm_mpa_policy(a.mpa, &v->cm->mpa, &l->mpa);
	if (rc < 0) {
		free(l);
		return rc;
	}
	any = cm_listen_any(&l->addr);
	rc = cm_listen_bits(&l->addr, any, a.prefix_len);
	if (rc < 0) {
		free(l);
		return rc;
	}
	l->bits = (uint8_t)rc;
	rc = 0;
	if (any)
		memset(&l->addr, 0, sizeof(l->addr)); /* the form that TCP uses for any address */
	l->ctx = v;
	l->evq = a.evq;
	l->user = a.user;
	l->backlog = a.backlog != 0 ? a.backlog : LISTEN_DEFAULT_BACKLOG;
	l->timeout_us = a.startup_timeout_us != 0 ? a.startup_timeout_us : CM_DEFAULT_TIMEOUT_US;
	l->keepalive_us = a.keepalive_us;
	l->max_requests_per_peer =
	        a.max_requests_per_peer != 0 ? a.max_requests_per_peer : cm_admit_share(l->backlog);
	l->max_conns_per_peer = a.max_conns_per_peer;
	l->max_conns = a.max_conns;
	l->push_out = a.push_out;
	atomic_init(&l->refs, 1);

	pthread_mutex_lock(&v->lock);
	if (cm_listen_taken(v, &l->addr, l->bits, l->port)) {
		pthread_mutex_unlock(&v->lock);
		free(l);
		return -EADDRINUSE;
	}
	for (uint32_t i = 0; i < weft_vctx_nworkers(v); i++)
		cm_listen_part(l, v->worker[i]);
	if (l->nparts == 0) {
		pthread_mutex_unlock(&v->lock);
		free(l);
		return -EADDRNOTAVAIL;
	}
	weft_handle_init(&l->h, WEFT_KIND(LISTENER));
	atomic_fetch_add_explicit(&l->evq->users, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&l->evq->refs, 1, memory_order_relaxed);
	TAILQ_INSERT_TAIL(&v->cm->listeners, l, all);
	pthread_mutex_unlock(&v->lock);

	for (unsigned int i = 0; i < l->nparts && rc == 0; i++) {
		struct cm_lsn *lsn = &l->part[i];

		if (weft_vworker_is_mine(lsn->vw)) {
			rc = cm_lsn_open(lsn);
			continue;
		}
		lsn->open.fn = cm_lsn_open_run;
		atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
		weft_work_send(&lsn->vw->work, &lsn->open);
	}
	if (rc < 0) {
		weft_unlisten(l);
		return rc;
	}
	cm_listen_await(l);
	*out = l;
	return 0;
}

void
weft_unlisten(struct weft_listener *l)
{
	struct weft_vctx *v;

	if (WEFT_HANDLE_CLAIM(l, LISTENER) < 0)
		return;
	weft_handle_end(&l->h, WEFT_KIND(LISTENER));
	v = l->ctx;
	pthread_mutex_lock(&v->lock);
	TAILQ_REMOVE(&v->cm->listeners, l, all);
	pthread_mutex_unlock(&v->lock);
	atomic_store_explicit(&l->closed, true, memory_order_release);
	atomic_fetch_sub_explicit(&l->evq->users, 1, memory_order_release);
	for (unsigned int i = 0; i < l->nparts; i++) {
		struct cm_lsn *lsn = &l->part[i];

		if (weft_vworker_is_mine(lsn->vw)) {
			cm_lsn_close(lsn);
		} else {
			lsn->close.fn = cm_lsn_close_run;
			atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
			weft_work_send(&lsn->vw->work, &lsn->close);
		}
	}
	cm_listener_unref(l);
}
