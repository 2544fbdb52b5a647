/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file SVCXPRT over endpoints: the transports, on the thread of svc_run().
 *
 * There are two kinds of transport. The listener is readable while connections wait to be made
 * known to svc_run(). Each connection has one that is readable while calls wait. The worker puts
 * calls into a connection's queue. The thread of svc_run() takes one call at a time and decodes it;
 * it waits while the worker encodes the answer. A connection is freed when both sides have dropped
 * it.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tirpc_svc.h"

#include <rpc/svc_auth.h>
#include <rpc/svc_mt.h>

static void
svc_quiet(int fd)
{
	uint64_t n;

	(void)!read(fd, &n, sizeof(n));
}

/* ---- A connection's transport ---- */

static struct svc_conn *
conn_of(SVCXPRT *xprt)
{
	return xprt->xp_p1;
}

/* Argument of a call on the worker: the answer to the present call, or none. */
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

/* End the present call, with msg or without an answer. */
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
		return false; /* the worker cannot be called; its end frees the request */
	tirpc_wait_fini(&a.wait);
	return a.encoded;
}

static void
answer_refuse(void *arg)
{
	struct svc_answer *a = arg;

	weft_rpc_raw_refuse(a->req);
	tirpc_wait_signal(&a->wait);
}

/* The call's header is invalid. The sender is told; otherwise it would wait, and its credit
 * would be lost. */
static void
conn_refuse(struct svc_conn *n)
{
	struct svc_answer a = {.n = n, .req = n->cur->req};

	free(n->cur);
	n->cur = NULL;
	tirpc_wait_init(&a.wait);
	if (tirpc_wait_for(n->w, &a.wait, answer_refuse, &a) == 0)
		tirpc_wait_fini(&a.wait);
}

/* Refuse RPCSEC_GSS (see tirpc_clnt.c), which libtirpc would accept. */
static void
conn_refuse_gss(struct svc_conn *n)
{
	struct rpc_msg msg = {
	        .rm_xid = n->xid,
	        .rm_direction = REPLY,
	        .rm_reply.rp_stat = MSG_DENIED,
	};

	msg.rjcted_rply.rj_stat = AUTH_ERROR;
	msg.rjcted_rply.rj_why = AUTH_REJECTEDCRED;
	conn_answer(n, &msg, NULL, NULL);
}

static bool_t
conn_op_recv(SVCXPRT *xprt, struct rpc_msg *msg)
{
	struct svc_conn *n = conn_of(xprt);

	if (n->cur != NULL) /* its dispatcher gave no answer, which is allowed */
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
		conn_refuse(n);
		return FALSE;
	}
	n->xid = msg->rm_xid;
	n->prog = msg->rm_call.cb_prog;
	n->vers = msg->rm_call.cb_vers;
	n->proc = msg->rm_call.cb_proc;
	if (msg->rm_call.cb_cred.oa_flavor == RPCSEC_GSS) {
		conn_refuse_gss(n);
		return FALSE;
	}
	n->dispatching = true;
	return TRUE;
}

static enum xprt_stat
conn_op_stat(SVCXPRT *xprt)
{
	struct svc_conn *n = conn_of(xprt);
	enum xprt_stat st;

	n->dispatching = false;
	if (n->destroyed)
		return XPRT_DIED;
	pthread_mutex_lock(&n->lock);
	st = !STAILQ_EMPTY(&n->calls) ? XPRT_MOREREQS : n->dead ? XPRT_DIED : XPRT_IDLE;
	pthread_mutex_unlock(&n->lock);
	return st;
}

static bool_t
conn_op_getargs(SVCXPRT *xprt, xdrproc_t xargs, void *args)
{
	struct svc_conn *n = conn_of(xprt);

	return n->cur != NULL && SVCAUTH_UNWRAP(&SVC_XP_AUTH(xprt), n->cur->xdr, xargs, args) &&
	       weft_rpc_raw_args_ok(n->cur->xdr,
	                            tirpc_binding(n->l->a.programs, n->prog, n->vers, n->proc),
	                            args);
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
		msg->acpted_rply.ar_results.proc = weft_rpc_xdr_void;
		msg->acpted_rply.ar_results.where = NULL;
	}
	return conn_answer(n, msg, xres, res);
}

static void
conn_reap(struct svc_conn *n)
{
	if (n->destroyed)
		LIST_REMOVE(n, zombie);
	free(n->xprt.xp_netid);
	n->xprt.xp_netid = NULL;
	tirpc_svc_conn_leave(n);
}

/* Free the connections that libtirpc accesses no more. */
static void
listener_reap(struct svc_listener *l)
{
	while (!LIST_EMPTY(&l->zombies))
		conn_reap(LIST_FIRST(&l->zombies));
}

/*
 * After a dispatcher svc_run() asks the transport for its state and accesses it, even when the
 * dispatcher has destroyed it. It is then told that the transport died, and destroys it again,
 * which is final.
 */
static void
conn_op_destroy(SVCXPRT *xprt)
{
	struct svc_conn *n = conn_of(xprt);

	if (n->destroyed) {
		if (!n->dispatching)
			conn_reap(n);
		return;
	}
	xprt_unregister(xprt);
	if (n->cur != NULL)
		conn_answer(n, NULL, NULL, NULL);
	if (!n->dispatching) {
		conn_reap(n);
		return;
	}
	n->destroyed = true;
	LIST_INSERT_HEAD(&n->l->zombies, n, zombie);
	tirpc_svc_conn_end(n);
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
	listener_reap(l);
	svc_quiet(xprt->xp_fd);
	while ((n = tirpc_svc_fresh(l)) != NULL)
		conn_announce(n);
	return FALSE; /* a listener has no calls */
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
	listener_reap(l);
	pthread_mutex_lock(&l->lock);
	l->gone = true;
	pthread_mutex_unlock(&l->lock);
	weft_unlisten(l->lsn);
	while ((n = tirpc_svc_fresh(l)) != NULL)
		conn_op_destroy(&n->xprt);
	free(xprt->xp_netid);
	tirpc_svc_listener_end(l);
}

static const struct xp_ops listener_ops = {
        .xp_recv = listener_op_recv,
        .xp_stat = listener_op_stat,
        .xp_getargs = listener_op_none,
        .xp_reply = listener_op_reply,
        .xp_freeargs = listener_op_none,
        .xp_destroy = listener_op_destroy,
};

SVCXPRT *
weft_svc_create(struct weft_ctx *ctx, const struct sockaddr *addr, socklen_t addr_len,
                const struct weft_tirpc_attr *attr)
{
	struct svc_listener *l;
	int rc;

	if (weft_ctx_check(ctx, __func__) < 0 || addr == NULL ||
	    addr_len < sizeof(addr->sa_family)) {
		errno = EINVAL;
		return NULL;
	}
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return NULL;
	l->xprt.xp_fd = -1;
	l->ctx = ctx;
	pthread_mutex_init(&l->lock, NULL);
	STAILQ_INIT(&l->fresh);
	STAILQ_INIT(&l->stuck);
	LIST_INIT(&l->zombies);
	l->conns = 1;
	rc = tirpc_attr(attr, &l->a);
	if (rc == 0 && addr_len > sizeof(l->addr))
		rc = -EINVAL;
	if (rc == 0) {
		l->xprt.xp_netid = strdup(addr->sa_family == AF_INET6 ? "rdma6" : "rdma");
		l->xprt.xp_ops2 = &svc_ops2;
		l->conn_ops = &conn_ops;
		rc = l->xprt.xp_netid == NULL ? -ENOMEM : tirpc_svc_listen(l, addr, addr_len);
	}
	if (rc != 0) {
		free(l->xprt.xp_netid);
		tirpc_svc_listener_end(l);
		errno = -rc;
		return NULL;
	}
	memcpy(&l->addr, addr, addr_len);
	l->xprt.xp_ops = &listener_ops;
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
