/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Connections of the TI-RPC interface's server, on their workers, and their end. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tirpc_svc.h"

#define SVC_CLOSE_US    1000000 /* time for a peer to take part in an orderly close */
#define SVC_REST_US     1000    /* first wait for late completions, longer than nearly all need */
#define SVC_REST_MAX_US 20000
#define SVC_WAIT_TURNS  3000 /* svc_destroy() waits so many turns for ending connections */
#define SVC_TURN_US     1000

void
tirpc_svc_wake(int fd)
{
	uint64_t one = 1;

	(void)!write(fd, &one, sizeof(one));
}

/* ---- Letting go ---- */

/* After the last worker nothing refers to the listener: no callback of its queues runs any more
 * (weft_cq_destroy()). */
static void
listener_hop(void *arg)
{
	struct svc_listener *l = arg;
	struct weft_worker *w;
	bool awaited;

	while ((w = weft_worker_get(l->ctx, l->hop)) != NULL) {
		l->hop++;
		if (weft_worker_is_mine(w))
			continue;
		if (weft_worker_call(w, listener_hop, l) == 0)
			return;
	}
	pthread_mutex_lock(&l->lock);
	awaited = l->awaited;
	l->over = true;
	pthread_mutex_unlock(&l->lock);
	if (!awaited)
		free(l);
}

static void
listener_free(struct svc_listener *l)
{
	if (l->evq != NULL)
		weft_evq_destroy(l->evq);
	if (l->cq != NULL)
		weft_cq_destroy(l->cq);
	if (l->xprt.xp_fd >= 0)
		close(l->xprt.xp_fd);
	listener_hop(l);
}

static void
conn_put(struct svc_conn *n)
{
	struct svc_listener *l = n->l;
	bool last;

	pthread_mutex_lock(&n->lock);
	last = --n->refs == 0;
	pthread_mutex_unlock(&n->lock);
	if (!last)
		return;
	close(n->xprt.xp_fd);
	pthread_mutex_destroy(&n->lock);
	free(n);
	pthread_mutex_lock(&l->lock);
	last = --l->conns == 0 && l->gone;
	pthread_mutex_unlock(&l->lock);
	if (last)
		listener_free(l);
}

static void conn_rest(struct svc_conn *n);

static void
conn_rested(void *arg)
{
	struct svc_conn *n = arg, *s, *mine = NULL;
	struct svc_listener *l = n->l;

	n->alarm = NULL;
	pthread_mutex_lock(&l->lock);
	STAILQ_FOREACH (s, &l->stuck, next)
		if (s->w == n->w)
			mine = s;
	if (mine != NULL)
		STAILQ_REMOVE(&l->stuck, mine, svc_conn, next);
	pthread_mutex_unlock(&l->lock);
	if (mine != NULL)
		conn_rest(mine);
	/* Regions that are not freed yet count as users of the domain. */
	if (n->pd != NULL && weft_pd_dealloc(n->pd) != 0) {
		conn_rest(n);
		return;
	}
	n->pd = NULL;
	conn_put(n);
}

/* The connection is over, but completions made before name it, and regions its domain. */
static void
conn_rest(struct svc_conn *n)
{
	n->rest_us = n->rest_us == 0 ? SVC_REST_US : n->rest_us * 2;
	if (n->rest_us > SVC_REST_MAX_US)
		n->rest_us = SVC_REST_MAX_US;
	if (weft_alarm_set(n->w, n->rest_us, conn_rested, n, &n->alarm) == 0)
		return;
	/* Without memory the next connection that ends sets the alarm. */
	pthread_mutex_lock(&n->l->lock);
	STAILQ_INSERT_TAIL(&n->l->stuck, n, next);
	pthread_mutex_unlock(&n->l->lock);
}

/* ---- Authentication of the client ---- */

static int
conn_auth_step(void *user, const uint8_t *in, uint32_t in_bytes, uint8_t *out, uint32_t *out_bytes)
{
	const struct svc_conn *n = user;

	return n->l->a.auth->step(n->auth_user, in, in_bytes, out, out_bytes);
}

static int
conn_auth_open(struct svc_conn *n, struct weft_rpc_attr *ra)
{
	struct svc_listener *l = n->l;

	if (l->a.auth == NULL)
		return 0;
	ra->auth = &l->auth;
	n->auth_user = l->a.auth_user;
	if (l->a.auth_open == NULL)
		return 0;
	n->auth_user = l->a.auth_open(l->a.auth_user, &n->remote);
	return n->auth_user != NULL ? 0 : -EACCES;
}

static void
conn_auth_close(struct svc_conn *n)
{
	if (n->auth_user != NULL && n->l->a.auth_close != NULL)
		n->l->a.auth_close(n->l->a.auth_user, n->auth_user);
	n->auth_user = NULL;
}

/* The connection is gone. Its calls are still in the queue; their answers are dropped. */
static void
conn_die(struct svc_conn *n)
{
	if (n->rpc == NULL)
		return;
	if (n->alarm != NULL)
		weft_alarm_cancel(n->alarm);
	n->alarm = NULL;
	weft_rpc_disconnected(n->rpc);
	weft_qp_destroy(n->qp);
	weft_rpc_destroy(n->rpc);
	n->qp = NULL;
	n->rpc = NULL;
	conn_auth_close(n);
	pthread_mutex_lock(&n->lock);
	n->dead = true;
	pthread_mutex_unlock(&n->lock);
	tirpc_svc_wake(n->xprt.xp_fd);
	conn_rest(n);
}

static void
conn_close_late(void *arg)
{
	struct svc_conn *n = arg;

	n->alarm = NULL;
	conn_die(n);
}

/* End the connection in order, so that earlier answers reach the peer. A peer that does not take
 * part is aborted. */
static void
conn_end(struct svc_conn *n)
{
	struct svc_call *k;

	n->closing = true;
	do {
		pthread_mutex_lock(&n->lock);
		k = STAILQ_FIRST(&n->calls);
		if (k != NULL)
			STAILQ_REMOVE_HEAD(&n->calls, next);
		pthread_mutex_unlock(&n->lock);
		if (k != NULL)
			weft_rpc_raw_reply(k->req, NULL, NULL, NULL, 0);
		free(k);
	} while (k != NULL);
	if (n->rpc == NULL || n->alarm != NULL)
		return;
	/* The alarm first, because a QP that is not up yet ends at once. */
	if (weft_alarm_set(n->w, SVC_CLOSE_US, conn_close_late, n, &n->alarm) != 0)
		n->alarm = NULL;
	if (n->alarm == NULL || weft_disconnect(n->qp) != 0)
		conn_die(n);
}

static void
conn_end_held(void *arg)
{
	struct svc_conn *n = arg;

	conn_end(n);
	conn_put(n);
}

void
tirpc_svc_conn_end(struct svc_conn *n)
{
	pthread_mutex_lock(&n->lock);
	n->refs++;
	pthread_mutex_unlock(&n->lock);
	if (tirpc_worker_call(n->w, conn_end_held, n) != 0)
		conn_put(n);
}

void
tirpc_svc_conn_leave(struct svc_conn *n)
{
	pthread_mutex_lock(&n->l->lock);
	n->l->live--;
	pthread_mutex_unlock(&n->l->lock);
	if (tirpc_worker_call(n->w, conn_end_held, n) != 0)
		conn_put(n);
}

struct svc_conn *
tirpc_svc_fresh(struct svc_listener *l)
{
	struct svc_conn *n;

	pthread_mutex_lock(&l->lock);
	n = STAILQ_FIRST(&l->fresh);
	if (n != NULL) {
		STAILQ_REMOVE_HEAD(&l->fresh, next);
		l->live++;
	}
	pthread_mutex_unlock(&l->lock);
	return n;
}

/* ---- The worker's side ---- */

static void
conn_on_call(void *user, struct weft_rpc_req *req, XDR *xdr)
{
	struct svc_conn *n = user;
	struct svc_call *k = malloc(sizeof(*k));

	if (k == NULL || n->closing) {
		free(k);
		weft_rpc_raw_reply(req, NULL, NULL, NULL, 0);
		return;
	}
	k->req = req;
	k->xdr = xdr;
	pthread_mutex_lock(&n->lock);
	STAILQ_INSERT_TAIL(&n->calls, k, next);
	pthread_mutex_unlock(&n->lock);
	tirpc_svc_wake(n->xprt.xp_fd);
}

static int
conn_make(struct svc_listener *l, struct weft_connreq *r, const struct sockaddr_storage *remote,
          struct svc_conn **out)
{
	struct svc_conn *n = calloc(1, sizeof(*n));
	struct weft_qp_attr qa = tirpc_qp_attr(&l->a);
	struct weft_rpc_attr ra = tirpc_rpc_attr(&l->a);
	int rc = -EMFILE;
	bool gone;

	if (n == NULL)
		return -ENOMEM;
	/* When the listener is gone there are no new connections; the last one frees it. */
	pthread_mutex_lock(&l->lock);
	gone = l->gone;
	l->conns += !gone;
	pthread_mutex_unlock(&l->lock);
	if (gone) {
		free(n);
		return -ESHUTDOWN;
	}
	n->l = l;
	n->w = weft_connreq_worker(r);
	n->remote = *remote;
	n->refs = 1;
	pthread_mutex_init(&n->lock, NULL);
	STAILQ_INIT(&n->calls);
	n->xprt.xp_ops = l->conn_ops;
	n->xprt.xp_ops2 = l->xprt.xp_ops2;
	n->xprt.xp_p1 = n;
	n->xprt.xp_p3 = &n->ext;
	n->xprt.xp_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	qa.worker = n->w;
	qa.send_cq = qa.recv_cq = l->cq;
	qa.evq = l->evq;
	qa.user = n;
	if (n->xprt.xp_fd >= 0)
		rc = weft_pd_alloc(l->ctx, &n->pd);
	if (rc == 0)
		rc = weft_qp_create(n->pd, &qa, &n->qp);
	if (rc == 0)
		rc = conn_auth_open(n, &ra);
	if (rc == 0) {
		ra.qp = n->qp;
		ra.server = true;
		ra.user = n;
		rc = weft_rpc_create(&ra, &n->rpc);
	}
	if (rc != 0) {
		/* Posted work is flushed, and its completions name the connection. */
		if (n->qp != NULL)
			weft_qp_destroy(n->qp);
		n->qp = NULL;
		conn_auth_close(n);
		conn_rest(n);
		return rc;
	}
	weft_rpc_set_raw(n->rpc, conn_on_call);
	*out = n;
	return 0;
}

static void
listener_request(struct svc_listener *l, const struct weft_event *ev)
{
	const struct weft_conn_attr ca = {.size = sizeof(ca), .keepalive_us = l->a.keepalive_us};
	struct svc_conn *n;
	bool gone;
	int rc;

	if (conn_make(l, ev->connreq, &ev->remote, &n) != 0) {
		weft_reject(ev->connreq, NULL, 0);
		return;
	}
	rc = weft_accept(ev->connreq, n->qp, &ca);
	if (rc != 0) {
		conn_die(n);
		return;
	}
	pthread_mutex_lock(&l->lock);
	gone = l->gone;
	if (!gone) {
		n->refs++; /* the transport's reference, from here on */
		STAILQ_INSERT_TAIL(&l->fresh, n, next);
	}
	pthread_mutex_unlock(&l->lock);
	if (gone)
		conn_die(n);
	else
		tirpc_svc_wake(l->xprt.xp_fd);
}

static void
svc_on_event(void *user, const struct weft_event *ev)
{
	switch (ev->type) {
	case WEFT_EV_CONNECT_REQUEST:
		listener_request(user, ev);
		return;
	case WEFT_EV_CONNECT_ERROR:
	case WEFT_EV_DISCONNECTED:
		conn_die(ev->user);
		return;
	default:
		return;
	}
}

static void
svc_on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int nwc)
{
	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < nwc; i++) {
		struct svc_conn *n = wc[i].qp_user;

		/* Late completions of a destroyed QP belong to no endpoint. */
		if (n->rpc != NULL && wc[i].qp == n->qp)
			(void)weft_rpc_wc(n->rpc, &wc[i]);
	}
}

/* ---- The listener ---- */

int
tirpc_svc_listen(struct svc_listener *l, const struct sockaddr *addr, socklen_t addr_len)
{
	const struct weft_cq_attr qa = {.size = sizeof(qa), .depth = 4096, .on_wc = svc_on_wc};
	const struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = svc_on_event, .user = l};
	struct weft_listen_attr la = {.size = sizeof(la), .keepalive_us = l->a.keepalive_us};
	int rc;

	if (l->a.auth != NULL)
		l->auth = (struct weft_rpc_auth){.step = conn_auth_step,
		                                 .required = l->a.auth->required};
	l->xprt.xp_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (l->xprt.xp_fd < 0)
		return -errno;
	rc = weft_cq_create(l->ctx, &qa, &l->cq);
	if (rc == 0)
		rc = weft_evq_create(l->ctx, &ea, &l->evq);
	la.evq = l->evq;
	if (rc == 0)
		rc = weft_listen(l->ctx, addr, addr_len, &la, &l->lsn);
	return rc;
}

/* How long svc_destroy() waits: by the clock of a worker that its thread polls, else by the turns
 * that it slept. */
struct svc_turns {
	struct weft_worker *mine;
	uint64_t until_ns; /* 0: the first poll is to come */
	unsigned int left;
};

/* Wait for a turn, with the lock released meanwhile; a worker of this thread is polled. False: the
 * turns are over. */
static bool
listener_wait(struct svc_listener *l, struct svc_turns *t)
{
	uint64_t now;

	pthread_mutex_unlock(&l->lock);
	if (t->mine == NULL)
		usleep(SVC_TURN_US);
	else if (weft_worker_poll(t->mine) == 0)
		weft_worker_idle(t->mine, 50);
	pthread_mutex_lock(&l->lock);
	if (t->mine == NULL)
		return t->left > 0 && --t->left > 0;
	now = weft_worker_now_ns(t->mine);
	if (t->until_ns == 0)
		t->until_ns = now + SVC_WAIT_TURNS * SVC_TURN_US * 1000ULL;
	return now < t->until_ns;
}

void
tirpc_svc_listener_end(struct svc_listener *l)
{
	struct svc_turns turns = {.left = SVC_WAIT_TURNS};
	struct weft_worker *w;
	bool none, over;

	for (unsigned int i = 0; (w = weft_worker_get(l->ctx, i)) != NULL; i++)
		if (weft_worker_is_mine(w))
			turns.mine = w;
	pthread_mutex_lock(&l->lock);
	l->gone = true;
	while (l->conns - 1 > l->live && listener_wait(l, &turns))
		;
	none = --l->conns == 0;
	l->awaited = none;
	pthread_mutex_unlock(&l->lock);
	if (!none)
		return; /* the last connection frees it */
	listener_free(l);
	pthread_mutex_lock(&l->lock);
	while (!l->over && listener_wait(l, &turns))
		;
	over = l->over;
	l->awaited = false;
	pthread_mutex_unlock(&l->lock);
	if (over)
		free(l);
}
