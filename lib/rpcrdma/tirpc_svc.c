/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file SVCXPRT over endpoints.
 *
 * Two kinds: the listener, readable while connections wait to be made known to svc_run(), and one
 * for each connection, readable while calls wait. The worker puts calls into a connection's queue;
 * the thread of svc_run() takes one at a time, decodes it, and has the worker encode the answer
 * while it waits. A connection is freed when both sides have let go of it.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tirpc_priv.h"

#include <rpc/svc_auth.h>
#include <rpc/svc_mt.h>

struct svc_conn;

struct svc_call {
	STAILQ_ENTRY(svc_call) next;
	struct weft_rpc_req *req;
	XDR *xdr;
};

STAILQ_HEAD(svc_calls, svc_call);
STAILQ_HEAD(svc_conns, svc_conn);

struct svc_listener {
	SVCXPRT xprt;
	SVCXPRT_EXT ext;
	struct weft_tirpc_attr a;
	struct weft_ctx *ctx;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_listener *lsn;
	struct sockaddr_storage addr;
	pthread_mutex_t lock;
	struct svc_conns fresh; /* under lock: not known to svc_run() yet */
	unsigned int conns;     /* under lock: not freed */
	bool gone;              /* under lock: svc_destroy() was called */
};

struct svc_conn {
	STAILQ_ENTRY(svc_conn) next; /* in fresh */
	SVCXPRT xprt;
	SVCXPRT_EXT ext;
	struct svc_listener *l;
	struct weft_worker *w;
	struct weft_qp *qp; /* the worker's, with rpc */
	struct weft_rpc *rpc;
	struct sockaddr_storage remote;
	pthread_mutex_t lock;
	struct svc_calls calls; /* under lock */
	bool dead;              /* under lock: no more will come */
	unsigned int refs;      /* under lock: the worker, and the transport while there is one */
	/* svc_run()'s thread */
	struct svc_call *cur;
	uint32_t xid, prog, vers, proc;
};

static void
svc_wake(int fd)
{
	uint64_t one = 1;

	(void)!write(fd, &one, sizeof(one));
}

static void
svc_quiet(int fd)
{
	uint64_t n;

	(void)!read(fd, &n, sizeof(n));
}

/* ---- Letting go ---- */

static void
listener_put(struct svc_listener *l)
{
	bool last;

	pthread_mutex_lock(&l->lock);
	last = l->gone && l->conns == 0;
	pthread_mutex_unlock(&l->lock);
	if (!last)
		return;
	if (l->evq != NULL)
		weft_evq_destroy(l->evq);
	if (l->cq != NULL)
		weft_cq_destroy(l->cq);
	if (l->pd != NULL)
		weft_pd_dealloc(l->pd);
	close(l->xprt.xp_fd);
	pthread_mutex_destroy(&l->lock);
	free(l);
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
	l->conns--;
	pthread_mutex_unlock(&l->lock);
	listener_put(l);
}

/* ---- The worker's side ---- */

static void
conn_on_call(void *user, struct weft_rpc_req *req, XDR *xdr)
{
	struct svc_conn *n = user;
	struct svc_call *k = malloc(sizeof(*k));

	if (k == NULL) {
		weft_rpc_raw_reply(req, NULL, NULL, NULL, 0);
		return;
	}
	k->req = req;
	k->xdr = xdr;
	pthread_mutex_lock(&n->lock);
	STAILQ_INSERT_TAIL(&n->calls, k, next);
	pthread_mutex_unlock(&n->lock);
	svc_wake(n->xprt.xp_fd);
}

/* The connection is gone; what it asked for is still in the queue, and answered to nobody. */
static void
conn_die(struct svc_conn *n)
{
	if (n->rpc == NULL)
		return;
	weft_rpc_disconnected(n->rpc);
	weft_qp_destroy(n->qp);
	weft_rpc_destroy(n->rpc);
	n->qp = NULL;
	n->rpc = NULL;
	pthread_mutex_lock(&n->lock);
	n->dead = true;
	pthread_mutex_unlock(&n->lock);
	svc_wake(n->xprt.xp_fd);
	conn_put(n);
}

static void svc_conn_ops(SVCXPRT *xprt);

static int
conn_make(struct svc_listener *l, struct weft_connreq *r, const struct sockaddr_storage *remote,
          struct svc_conn **out)
{
	struct svc_conn *n = calloc(1, sizeof(*n));
	struct weft_qp_attr qa = tirpc_qp_attr(&l->a);
	struct weft_rpc_attr ra = tirpc_rpc_attr(&l->a);
	int rc = -EMFILE;

	if (n == NULL)
		return -ENOMEM;
	n->l = l;
	n->w = weft_connreq_worker(r);
	n->remote = *remote;
	n->refs = 1;
	pthread_mutex_init(&n->lock, NULL);
	STAILQ_INIT(&n->calls);
	svc_conn_ops(&n->xprt);
	n->xprt.xp_p1 = n;
	n->xprt.xp_p3 = &n->ext;
	n->xprt.xp_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	qa.worker = n->w;
	qa.send_cq = qa.recv_cq = l->cq;
	qa.evq = l->evq;
	qa.user = n;
	if (n->xprt.xp_fd >= 0)
		rc = weft_qp_create(l->pd, &qa, &n->qp);
	if (rc == 0) {
		ra.qp = n->qp;
		ra.server = true;
		ra.user = n;
		rc = weft_rpc_create(&ra, &n->rpc);
	}
	if (rc != 0) {
		if (n->qp != NULL)
			weft_qp_destroy(n->qp);
		if (n->xprt.xp_fd >= 0)
			close(n->xprt.xp_fd);
		pthread_mutex_destroy(&n->lock);
		free(n);
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
	int rc;

	if (conn_make(l, ev->connreq, &ev->remote, &n) != 0) {
		weft_reject(ev->connreq, NULL, 0);
		return;
	}
	pthread_mutex_lock(&l->lock);
	l->conns++;
	pthread_mutex_unlock(&l->lock);
	rc = weft_accept(ev->connreq, n->qp, &ca);
	if (rc != 0) {
		conn_die(n);
		return;
	}
	pthread_mutex_lock(&n->lock);
	n->refs++; /* the transport's, from here on */
	pthread_mutex_unlock(&n->lock);
	pthread_mutex_lock(&l->lock);
	STAILQ_INSERT_TAIL(&l->fresh, n, next);
	pthread_mutex_unlock(&l->lock);
	svc_wake(l->xprt.xp_fd);
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

		/* Those of a QP that was destroyed come no more. */
		if (n->rpc != NULL && wc[i].qp == n->qp)
			(void)weft_rpc_wc(n->rpc, &wc[i]);
	}
}

/* ---- A connection's transport ---- */

static struct svc_conn *
conn_of(SVCXPRT *xprt)
{
	return xprt->xp_p1;
}

/* Called on the worker: the answer of the call in hand, or none. */
struct svc_answer {
	struct svc_conn *n;
	struct weft_rpc_req *req;
	struct tirpc_wait wait;
	struct rpc_msg *msg; /* NULL: none */
	xdrproc_t xres;
	void *res;
	struct weft_rpc_item items[WEFT_RPC_MAX_ITEMS];
	unsigned int nitems;
	bool encoded;
};

static bool
answer_encode(void *arg, XDR *x)
{
	struct svc_answer *a = arg;

	a->encoded =
	        xdr_replymsg(x, a->msg) &&
	        (a->xres == NULL || SVCAUTH_WRAP(&SVC_XP_AUTH(&a->n->xprt), x, a->xres, a->res));
	return a->encoded;
}

static void
answer_give(void *arg)
{
	struct svc_answer *a = arg;

	weft_rpc_raw_reply(a->req, a->msg != NULL ? answer_encode : NULL, a, a->items, a->nitems);
	tirpc_wait_signal(&a->wait);
}

/* The call in hand is over, with msg or without an answer. */
static bool
conn_answer(struct svc_conn *n, struct rpc_msg *msg, xdrproc_t xres, void *res)
{
	const struct weft_rpc_binding *b =
	        tirpc_binding(n->l->a.programs, n->prog, n->vers, n->proc);
	struct svc_answer a = {.n = n, .msg = msg, .xres = xres, .res = res};

	if (n->cur == NULL)
		return false;
	a.req = n->cur->req;
	free(n->cur);
	n->cur = NULL;
	if (xres != NULL && b != NULL && b->results != NULL)
		a.nitems = b->results(res, a.items);
	tirpc_wait_init(&a.wait);
	if (tirpc_wait_for(n->w, &a.wait, answer_give, &a) != 0)
		return false; /* the worker is beyond hearing: its end frees the request */
	tirpc_wait_fini(&a.wait);
	return a.encoded;
}

static bool_t
conn_op_recv(SVCXPRT *xprt, struct rpc_msg *msg)
{
	struct svc_conn *n = conn_of(xprt);

	if (n->cur != NULL) /* its dispatcher gave no answer, which it may */
		conn_answer(n, NULL, NULL, NULL);
	pthread_mutex_lock(&n->lock);
	n->cur = STAILQ_FIRST(&n->calls);
	if (n->cur != NULL)
		STAILQ_REMOVE_HEAD(&n->calls, next);
	if (STAILQ_EMPTY(&n->calls) && !n->dead)
		svc_quiet(xprt->xp_fd);
	pthread_mutex_unlock(&n->lock);
	if (n->cur == NULL)
		return FALSE;
	if (!xdr_callmsg(n->cur->xdr, msg)) {
		conn_answer(n, NULL, NULL, NULL);
		return FALSE;
	}
	n->xid = msg->rm_xid;
	n->prog = msg->rm_call.cb_prog;
	n->vers = msg->rm_call.cb_vers;
	n->proc = msg->rm_call.cb_proc;
	return TRUE;
}

static enum xprt_stat
conn_op_stat(SVCXPRT *xprt)
{
	struct svc_conn *n = conn_of(xprt);
	enum xprt_stat st;

	pthread_mutex_lock(&n->lock);
	st = !STAILQ_EMPTY(&n->calls) ? XPRT_MOREREQS : n->dead ? XPRT_DIED : XPRT_IDLE;
	pthread_mutex_unlock(&n->lock);
	return st;
}

static bool_t
conn_op_getargs(SVCXPRT *xprt, xdrproc_t xargs, void *args)
{
	struct svc_conn *n = conn_of(xprt);

	return n->cur != NULL && SVCAUTH_UNWRAP(&SVC_XP_AUTH(xprt), n->cur->xdr, xargs, args);
}

static bool_t
conn_op_freeargs(SVCXPRT *xprt, xdrproc_t xargs, void *args)
{
	(void)xprt;
	xdr_free(xargs, args);
	return TRUE;
}

static bool_t
conn_op_reply(SVCXPRT *xprt, struct rpc_msg *msg)
{
	struct svc_conn *n = conn_of(xprt);
	xdrproc_t xres = NULL;
	void *res = NULL;

	msg->rm_xid = n->xid;
	if (msg->rm_reply.rp_stat == MSG_ACCEPTED && msg->acpted_rply.ar_stat == SUCCESS) {
		xres = msg->acpted_rply.ar_results.proc;
		res = msg->acpted_rply.ar_results.where;
		msg->acpted_rply.ar_results.proc = weft_rpcrdma_xdr_void;
		msg->acpted_rply.ar_results.where = NULL;
	}
	return conn_answer(n, msg, xres, res);
}

static void
conn_close(void *arg)
{
	struct svc_conn *n = arg;

	conn_die(n);
	conn_put(n); /* what conn_op_destroy() held for us */
}

static void
conn_op_destroy(SVCXPRT *xprt)
{
	struct svc_conn *n = conn_of(xprt);
	struct svc_call *k;

	xprt_unregister(xprt);
	if (n->cur != NULL)
		conn_answer(n, NULL, NULL, NULL);
	for (;;) {
		pthread_mutex_lock(&n->lock);
		k = STAILQ_FIRST(&n->calls);
		if (k != NULL)
			STAILQ_REMOVE_HEAD(&n->calls, next);
		pthread_mutex_unlock(&n->lock);
		if (k == NULL)
			break;
		n->cur = k;
		conn_answer(n, NULL, NULL, NULL);
	}
	free(xprt->xp_netid);
	xprt->xp_netid = NULL;
	/* The transport's own hold goes to the worker, which ends the connection if it still is. */
	if (weft_worker_call(n->w, conn_close, n) != 0)
		conn_put(n);
}

static bool_t
op_control(SVCXPRT *xprt, const u_int rq, void *in)
{
	(void)xprt;
	(void)rq;
	(void)in;
	return FALSE;
}

static const struct xp_ops2 svc_ops2 = {.xp_control = op_control};

static const struct xp_ops conn_ops = {
        .xp_recv = conn_op_recv,
        .xp_stat = conn_op_stat,
        .xp_getargs = conn_op_getargs,
        .xp_reply = conn_op_reply,
        .xp_freeargs = conn_op_freeargs,
        .xp_destroy = conn_op_destroy,
};

static void
svc_conn_ops(SVCXPRT *xprt)
{
	xprt->xp_ops = &conn_ops;
	xprt->xp_ops2 = &svc_ops2;
}

/* ---- The listener's transport ---- */

static void
conn_announce(struct svc_conn *n)
{
	SVCXPRT *x = &n->xprt;

	x->xp_rtaddr =
	        (struct netbuf){.maxlen = sizeof(n->remote),
	                        .len = n->remote.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
	                                                               : sizeof(struct sockaddr_in),
	                        .buf = &n->remote};
	memcpy(&x->xp_raddr, &n->remote, x->xp_rtaddr.len);
	x->xp_addrlen = (int)x->xp_rtaddr.len;
	x->xp_ltaddr = n->l->xprt.xp_ltaddr;
	x->xp_netid = strdup(n->l->xprt.xp_netid);
	xprt_register(x);
}

static bool_t
listener_op_recv(SVCXPRT *xprt, struct rpc_msg *msg)
{
	struct svc_listener *l = xprt->xp_p1;
	struct svc_conn *n;

	(void)msg;
	svc_quiet(xprt->xp_fd);
	do {
		pthread_mutex_lock(&l->lock);
		n = STAILQ_FIRST(&l->fresh);
		if (n != NULL)
			STAILQ_REMOVE_HEAD(&l->fresh, next);
		pthread_mutex_unlock(&l->lock);
		if (n != NULL)
			conn_announce(n);
	} while (n != NULL);
	return FALSE; /* there are no calls here */
}

static enum xprt_stat
listener_op_stat(SVCXPRT *xprt)
{
	(void)xprt;
	return XPRT_IDLE;
}

static bool_t
listener_op_none(SVCXPRT *xprt, xdrproc_t xargs, void *args)
{
	(void)xprt;
	(void)xargs;
	(void)args;
	return FALSE;
}

static bool_t
listener_op_reply(SVCXPRT *xprt, struct rpc_msg *msg)
{
	(void)xprt;
	(void)msg;
	return FALSE;
}

static void
listener_op_destroy(SVCXPRT *xprt)
{
	struct svc_listener *l = xprt->xp_p1;
	struct svc_conn *n;

	xprt_unregister(xprt);
	weft_unlisten(l->lsn);
	do {
		pthread_mutex_lock(&l->lock);
		n = STAILQ_FIRST(&l->fresh);
		if (n != NULL)
			STAILQ_REMOVE_HEAD(&l->fresh, next);
		pthread_mutex_unlock(&l->lock);
		if (n != NULL)
			conn_op_destroy(&n->xprt);
	} while (n != NULL);
	free(xprt->xp_netid);
	pthread_mutex_lock(&l->lock);
	l->gone = true;
	pthread_mutex_unlock(&l->lock);
	listener_put(l);
}

static const struct xp_ops listener_ops = {
        .xp_recv = listener_op_recv,
        .xp_stat = listener_op_stat,
        .xp_getargs = listener_op_none,
        .xp_reply = listener_op_reply,
        .xp_freeargs = listener_op_none,
        .xp_destroy = listener_op_destroy,
};

static int
listener_make(struct svc_listener *l, const struct sockaddr *addr, socklen_t addr_len)
{
	const struct weft_cq_attr qa = {.size = sizeof(qa), .depth = 4096, .on_wc = svc_on_wc};
	const struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = svc_on_event, .user = l};
	struct weft_listen_attr la = {.size = sizeof(la), .keepalive_us = l->a.keepalive_us};
	int rc;

	l->xprt.xp_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (l->xprt.xp_fd < 0)
		return -errno;
	l->xprt.xp_netid = strdup(addr->sa_family == AF_INET6 ? "rdma6" : "rdma");
	rc = l->xprt.xp_netid == NULL ? -ENOMEM : weft_pd_alloc(l->ctx, &l->pd);
	if (rc == 0)
		rc = weft_cq_create(l->ctx, &qa, &l->cq);
	if (rc == 0)
		rc = weft_evq_create(l->ctx, &ea, &l->evq);
	la.evq = l->evq;
	if (rc == 0)
		rc = weft_listen(l->ctx, addr, addr_len, &la, &l->lsn);
	return rc;
}

SVCXPRT *
weft_svc_create(struct weft_ctx *ctx, const struct sockaddr *addr, socklen_t addr_len,
                const struct weft_tirpc_attr *attr)
{
	struct svc_listener *l = calloc(1, sizeof(*l));
	int rc;

	if (l == NULL)
		return NULL;
	l->xprt.xp_fd = -1;
	l->ctx = ctx;
	pthread_mutex_init(&l->lock, NULL);
	STAILQ_INIT(&l->fresh);
	rc = tirpc_attr(attr, &l->a);
	if (rc == 0 && addr_len > sizeof(l->addr))
		rc = -EINVAL;
	if (rc == 0)
		rc = listener_make(l, addr, addr_len);
	if (rc != 0) {
		free(l->xprt.xp_netid);
		l->gone = true;
		listener_put(l);
		errno = -rc;
		return NULL;
	}
	memcpy(&l->addr, addr, addr_len);
	l->xprt.xp_ops = &listener_ops;
	l->xprt.xp_ops2 = &svc_ops2;
	l->xprt.xp_p1 = l;
	l->xprt.xp_p3 = &l->ext;
	l->xprt.xp_ltaddr =
	        (struct netbuf){.maxlen = sizeof(l->addr), .len = addr_len, .buf = &l->addr};
	l->xprt.xp_port =
	        ntohs(addr->sa_family == AF_INET6
	                      ? ((const struct sockaddr_in6 *)(const void *)addr)->sin6_port
	                      : ((const struct sockaddr_in *)(const void *)addr)->sin_port);
	xprt_register(&l->xprt);
	return &l->xprt;
}
