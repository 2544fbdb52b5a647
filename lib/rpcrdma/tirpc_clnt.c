/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file CLIENT over an endpoint.
 *
 * A call is a structure on its caller's stack, handed to the worker, which owns it until it is told
 * to be done. All of a client's connections and calls are touched on the worker alone; only what
 * callers may set (program, version, timeout) is under a lock. A connection outlives its client for
 * as long as its QP takes to go.
 */

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "tirpc_priv.h"

#define CLNT_TIMEOUT_US 25000000ULL /* libtirpc's own */
#define CLNT_AUTH_TRIES 2

struct clnt_conn;

struct clnt_call {
	TAILQ_ENTRY(clnt_call) next; /* in waiting */
	struct clnt *c;
	struct tirpc_wait wait;
	uint32_t prog, vers, proc;
	xdrproc_t xargs, xres;
	void *args, *res;
	uint64_t deadline_ns, timeout_us;
	struct weft_alarm *alarm; /* while waiting for a connection */
	uint32_t xid, resends;
	bool again; /* sent once more because the server spoke no version at all */
	enum clnt_stat stat;
	struct rpc_err err;
};

TAILQ_HEAD(clnt_calls, clnt_call);

struct clnt {
	CLIENT cl;
	struct weft_tirpc_attr a;
	struct weft_ctx *ctx;
	struct weft_worker *w;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct sockaddr_storage addr;
	socklen_t addr_len;
	/* the worker's */
	struct clnt_conn *conn; /* NULL: none */
	struct clnt_calls waiting;
	unsigned int nconns, ncalls; /* connections not gone, calls in endpoints */
	uint8_t max_vers;
	bool closing;
	struct tirpc_wait *closed;
	/* under lock */
	pthread_mutex_t lock;
	uint32_t prog, vers, xid;
	struct timeval timeout;
	bool timeout_set;
	struct rpc_err err; /* of the last call that failed */
};

struct clnt_conn {
	struct clnt *c;
	struct weft_qp *qp;
	struct weft_rpc *rpc;
	bool ready;
};

/* ---- Calls ---- */

static void
call_done(struct clnt_call *k, enum clnt_stat stat, int err)
{
	k->stat = k->err.re_status = stat;
	if (err != 0)
		k->err.re_errno = err;
	tirpc_wait_signal(&k->wait);
}

static void
call_stop_waiting(struct clnt_call *k)
{
	TAILQ_REMOVE(&k->c->waiting, k, next);
	if (k->alarm != NULL)
		weft_alarm_cancel(k->alarm);
	k->alarm = NULL;
}

static void
call_waited_long(void *arg)
{
	struct clnt_call *k = arg;

	k->alarm = NULL;
	call_stop_waiting(k);
	call_done(k, RPC_TIMEDOUT, 0);
}

static bool
call_encode(void *arg, XDR *x, uint32_t xid)
{
	struct clnt_call *k = arg;
	u_int words[] = {xid, CALL, RPC_MSG_VERSION, k->prog, k->vers, k->proc};
	AUTH *auth = k->c->cl.cl_auth;

	k->xid = xid;
	for (unsigned int i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!xdr_u_int(x, &words[i]))
			return false;
	return AUTH_MARSHALL(auth, x) && AUTH_WRAP(auth, x, k->xargs, k->args);
}

static enum weft_rpc_status
call_decode(void *arg, XDR *x)
{
	struct clnt_call *k = arg;
	AUTH *auth = k->c->cl.cl_auth;
	char verf[MAX_AUTH_BYTES];
	struct rpc_msg msg = {0};

	msg.acpted_rply.ar_verf.oa_base = verf;
	msg.acpted_rply.ar_results.proc = weft_rpcrdma_xdr_void;
	if (!xdr_replymsg(x, &msg))
		return WEFT_RPC_BAD_REPLY;
	_seterr_reply(&msg, &k->err);
	if (k->err.re_status != RPC_SUCCESS)
		return WEFT_RPC_OK; /* told by k->err */
	if (!AUTH_VALIDATE(auth, &msg.acpted_rply.ar_verf)) {
		k->err.re_status = RPC_AUTHERROR;
		k->err.re_why = AUTH_INVALIDRESP;
		return WEFT_RPC_OK;
	}
	weft_rpc_xdr_results(x, k->res);
	if (!AUTH_UNWRAP(auth, x, k->xres, k->res))
		k->err.re_status = RPC_CANTDECODERES;
	return WEFT_RPC_OK;
}

static void call_start(void *arg);

static void
call_answered(void *arg, enum weft_rpc_status status, void *res)
{
	struct clnt_call *k = arg;
	struct clnt *c = k->c;

	(void)res;
	c->ncalls--;
	switch (status) {
	case WEFT_RPC_OK:
		call_done(k, k->err.re_status, 0);
		break;
	case WEFT_RPC_TIMEDOUT:
		call_done(k, RPC_TIMEDOUT, 0);
		break;
	case WEFT_RPC_BAD_REPLY:
		call_done(k, RPC_CANTDECODERES, 0);
		break;
	case WEFT_RPC_TOO_LONG:
		call_done(k, RPC_CANTRECV, EMSGSIZE);
		break;
	case WEFT_RPC_CONNLOST:
		if (!c->closing && (k->again || k->resends < c->a.resend)) {
			k->resends += !k->again;
			k->again = false;
			/* Behind the event that ends this connection. */
			if (weft_worker_call(c->w, call_start, k) == 0)
				return;
		}
		call_done(k, RPC_CANTRECV, ECONNRESET);
		break;
	default:
		call_done(k, RPC_CANTRECV, EPROTO);
		break;
	}
}

static uint32_t
call_reply_bytes(const void *args)
{
	const struct clnt_call *k = args;

	return k->c->a.reply_bytes;
}

/* With no binding the call itself stands for the arguments, to say how long its reply may be. */
static const struct weft_rpc_binding call_unbound = {.reply_bytes = call_reply_bytes};

static void
call_issue(struct clnt_call *k)
{
	struct clnt *c = k->c;
	const struct weft_rpc_binding *b = tirpc_binding(c->a.programs, k->prog, k->vers, k->proc);
	uint64_t now = weft_worker_now_ns(c->w);
	struct weft_rpc_call_attr a = {
	        .size = sizeof(a),
	        .args = b != NULL ? k->args : k,
	        .binding = b != NULL              ? b
	                   : c->a.reply_bytes > 0 ? &call_unbound
	                                          : NULL,
	        .timeout_us = k->deadline_ns > now + 1000 ? (k->deadline_ns - now) / 1000 : 1,
	        .fn = call_answered,
	        .arg = k,
	        .encode = call_encode,
	        .decode = call_decode,
	        .xid = k->xid,
	};
	int rc;

	c->ncalls++;
	rc = weft_rpc_call_with(c->conn->rpc, &a);
	if (rc == 0)
		return;
	c->ncalls--;
	if (rc == -EAGAIN) { /* too many at once: the next one that is answered makes room */
		TAILQ_INSERT_TAIL(&c->waiting, k, next);
		return;
	}
	call_done(k, rc == -EINVAL || rc == -EMSGSIZE ? RPC_CANTENCODEARGS : RPC_CANTSEND, -rc);
}

/* ---- Connections ---- */

static void
clnt_try_closed(struct clnt *c)
{
	if (c->closing && c->nconns == 0 && c->ncalls == 0 && c->closed != NULL) {
		struct tirpc_wait *w = c->closed;

		c->closed = NULL;
		tirpc_wait_signal(w);
	}
}

static void
conn_fail_waiting(struct clnt *c, enum clnt_stat stat, int err)
{
	struct clnt_call *k;

	while ((k = TAILQ_FIRST(&c->waiting)) != NULL) {
		call_stop_waiting(k);
		call_done(k, stat, err);
	}
}

/* The QP first: what it flushes is then of no endpoint (weft_rpcrdma.h). */
static void
conn_free(struct clnt_conn *n)
{
	struct clnt *c = n->c;

	if (c->conn == n)
		c->conn = NULL;
	/* Nobody ever answered in our version: a server of version 1 may drop what it does not know
	 * (draft s4.3.2). Once, and not again. */
	if (n->ready && n->rpc != NULL && weft_rpc_version(n->rpc) == 0 &&
	    c->max_vers == RPCRDMA_V2 && c->a.min_vers < RPCRDMA_V2 && !c->closing) {
		struct rpcrdma_call *call;

		c->max_vers = RPCRDMA_V1;
		LIST_FOREACH (call, &n->rpc->calls, entry)
			((struct clnt_call *)call->a.arg)->again = true;
	}
	if (n->rpc != NULL)
		weft_rpc_disconnected(n->rpc);
	if (n->qp != NULL)
		weft_qp_destroy(n->qp);
	if (n->rpc != NULL)
		weft_rpc_destroy(n->rpc);
	free(n);
	c->nconns--;
	clnt_try_closed(c);
}

static int
conn_make(struct clnt *c)
{
	struct weft_qp_attr qa = tirpc_qp_attr(&c->a);
	struct weft_rpc_attr ra = tirpc_rpc_attr(&c->a);
	struct weft_conn_attr ca = {
	        .size = sizeof(ca),
	        .timeout_us = c->a.connect_timeout_us,
	        .keepalive_us = c->a.keepalive_us,
	};
	struct clnt_conn *n = calloc(1, sizeof(*n));
	int rc;

	if (n == NULL)
		return -ENOMEM;
	n->c = c;
	c->nconns++;
	c->conn = n;
	qa.worker = c->w;
	qa.send_cq = qa.recv_cq = c->cq;
	qa.evq = c->evq;
	qa.user = n;
	rc = weft_qp_create(c->pd, &qa, &n->qp);
	if (rc == 0) {
		ra.qp = n->qp;
		ra.max_vers = c->max_vers;
		ra.user = c->a.auth_user;
		rc = weft_rpc_create(&ra, &n->rpc);
	}
	if (rc == 0)
		rc = weft_connect(n->qp, (const struct sockaddr *)&c->addr, c->addr_len, &ca);
	if (rc != 0)
		conn_free(n);
	return rc;
}

static void
clnt_flush_waiting(struct clnt *c)
{
	/* As many as there are now: one for which there is no room goes to the end. */
	struct clnt_call *k, *last = TAILQ_LAST(&c->waiting, clnt_calls);
	bool more = last != NULL;

	while (more && c->conn != NULL && c->conn->ready) {
		k = TAILQ_FIRST(&c->waiting);
		more = k != last;
		call_stop_waiting(k);
		call_issue(k);
	}
}

static void
clnt_on_event(void *user, const struct weft_event *ev)
{
	struct clnt_conn *n = ev->user;
	struct clnt *c = user;

	switch (ev->type) {
	case WEFT_EV_ESTABLISHED:
		n->ready = true;
		clnt_flush_waiting(c);
		return;
	case WEFT_EV_REJECTED:
		conn_free(n);
		conn_fail_waiting(c, RPC_SYSTEMERROR, ECONNREFUSED);
		return;
	case WEFT_EV_CONNECT_ERROR:
		conn_free(n);
		conn_fail_waiting(c, ev->status == -ETIMEDOUT ? RPC_TIMEDOUT : RPC_SYSTEMERROR,
		                  -ev->status);
		return;
	case WEFT_EV_DISCONNECTED:
		conn_free(n);
		return;
	default:
		return;
	}
}

static void
clnt_on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int nwc)
{
	struct clnt *c = user;

	(void)cq;
	for (unsigned int i = 0; i < nwc; i++) {
		/* One of a connection that is gone already has no endpoint to go to. */
		if (c->conn != NULL && c->conn == wc[i].qp_user)
			(void)weft_rpc_wc(c->conn->rpc, &wc[i]);
	}
	if (!TAILQ_EMPTY(&c->waiting))
		clnt_flush_waiting(c);
	clnt_try_closed(c);
}

/* On the worker: issue it now, or when there is a connection. */
static void
call_start(void *arg)
{
	struct clnt_call *k = arg;
	struct clnt *c = k->c;
	uint64_t now = weft_worker_now_ns(c->w);
	int rc;

	if (k->deadline_ns == 0)
		k->deadline_ns = now + k->timeout_us * 1000;
	if (c->conn != NULL && c->conn->ready) {
		call_issue(k);
		return;
	}
	TAILQ_INSERT_TAIL(&c->waiting, k, next);
	if (weft_alarm_set(c->w, k->deadline_ns > now + 1000 ? (k->deadline_ns - now) / 1000 : 1,
	                   call_waited_long, k, &k->alarm) != 0)
		k->alarm = NULL;
	if (c->conn != NULL)
		return;
	rc = conn_make(c);
	if (rc != 0)
		conn_fail_waiting(c, RPC_SYSTEMERROR, -rc);
}

/* ---- CLIENT's operations ---- */

static struct clnt *
clnt_of(CLIENT *cl)
{
	return cl->cl_private;
}

static uint64_t
clnt_usec(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000 + (uint64_t)tv->tv_usec;
}

static void
call_run(struct clnt_call *k)
{
	int rc;

	memset(&k->err, 0, sizeof(k->err));
	tirpc_wait_init(&k->wait);
	k->deadline_ns = 0;
	k->resends = 0;
	k->again = false;
	k->alarm = NULL;
	rc = tirpc_wait_for(k->c->w, &k->wait, call_start, k);
	if (rc != 0) {
		k->stat = k->err.re_status = RPC_CANTSEND;
		k->err.re_errno = -rc;
	}
	tirpc_wait_fini(&k->wait);
}

static enum clnt_stat
clnt_op_call(CLIENT *cl, rpcproc_t proc, xdrproc_t xargs, void *args, xdrproc_t xres, void *res,
             struct timeval timeout)
{
	struct clnt *c = clnt_of(cl);
	struct clnt_call k = {
	        .c = c, .proc = proc, .xargs = xargs, .args = args, .xres = xres, .res = res};
	enum clnt_stat stat;

	pthread_mutex_lock(&c->lock);
	k.prog = c->prog;
	k.vers = c->vers;
	k.xid = c->xid;
	c->xid = 0;
	k.timeout_us = clnt_usec(c->timeout_set ? &c->timeout : &timeout);
	pthread_mutex_unlock(&c->lock);
	/* RFC 5531 batching, a timeout of nothing, has no meaning where each call needs a reply's
	 * credit. */
	if (k.timeout_us == 0)
		k.timeout_us = CLNT_TIMEOUT_US;
	for (unsigned int tries = 0;; tries++) {
		call_run(&k);
		stat = k.stat;
		if (stat != RPC_AUTHERROR || tries == CLNT_AUTH_TRIES ||
		    !AUTH_REFRESH(cl->cl_auth, NULL))
			break;
		k.xid = 0;
	}
	pthread_mutex_lock(&c->lock);
	c->err = k.err;
	pthread_mutex_unlock(&c->lock);
	return stat;
}

static void
clnt_op_abort(CLIENT *cl)
{
	(void)cl;
}

static void
clnt_op_geterr(CLIENT *cl, struct rpc_err *err)
{
	struct clnt *c = clnt_of(cl);

	pthread_mutex_lock(&c->lock);
	*err = c->err;
	pthread_mutex_unlock(&c->lock);
}

static bool_t
clnt_op_freeres(CLIENT *cl, xdrproc_t xres, void *res)
{
	(void)cl;
	xdr_free(xres, res);
	return TRUE;
}

static bool_t
clnt_control_locked(struct clnt *c, u_int rq, void *info)
{
	switch (rq) {
	case CLSET_TIMEOUT:
		c->timeout = *(struct timeval *)info;
		c->timeout_set = true;
		return TRUE;
	case CLGET_TIMEOUT:
		*(struct timeval *)info = c->timeout;
		return TRUE;
	case CLGET_SERVER_ADDR:
		memcpy(info, &c->addr, c->addr_len);
		return TRUE;
	case CLGET_SVC_ADDR:
		*(struct netbuf *)info = (struct netbuf){
		        .maxlen = sizeof(c->addr), .len = c->addr_len, .buf = &c->addr};
		return TRUE;
	case CLGET_XID:
		*(u_int32_t *)info = c->xid;
		return TRUE;
	case CLSET_XID:
		c->xid = *(u_int32_t *)info;
		return TRUE;
	case CLGET_VERS:
		*(u_int32_t *)info = c->vers;
		return TRUE;
	case CLSET_VERS:
		c->vers = *(u_int32_t *)info;
		return TRUE;
	case CLGET_PROG:
		*(u_int32_t *)info = c->prog;
		return TRUE;
	case CLSET_PROG:
		c->prog = *(u_int32_t *)info;
		return TRUE;
	default: /* there is no descriptor to be had */
		return FALSE;
	}
}

static bool_t
clnt_op_control(CLIENT *cl, u_int rq, void *info)
{
	struct clnt *c = clnt_of(cl);
	bool_t r;

	if (info == NULL)
		return FALSE;
	pthread_mutex_lock(&c->lock);
	r = clnt_control_locked(c, rq, info);
	pthread_mutex_unlock(&c->lock);
	return r;
}

static void
clnt_free(struct clnt *c)
{
	if (c->evq != NULL)
		weft_evq_destroy(c->evq);
	if (c->cq != NULL)
		weft_cq_destroy(c->cq);
	if (c->pd != NULL)
		weft_pd_dealloc(c->pd);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static void
clnt_close(void *arg)
{
	struct clnt *c = arg;

	c->closing = true;
	conn_fail_waiting(c, RPC_CANTSEND, ESHUTDOWN);
	if (c->conn != NULL)
		conn_free(c->conn);
	clnt_try_closed(c);
}

static void
clnt_after(void *arg)
{
	tirpc_wait_signal(arg);
}

static void
clnt_op_destroy(CLIENT *cl)
{
	struct clnt *c = clnt_of(cl);
	struct tirpc_wait w;

	tirpc_wait_init(&w);
	c->closed = &w;
	if (tirpc_wait_for(c->w, &w, clnt_close, c) == 0) {
		/* Callbacks of that poll are over when this has run (weft_cq_destroy()); regions
		 * may still be on their way out, and with them the domain. */
		do {
			w.done = false;
			if (tirpc_wait_for(c->w, &w, clnt_after, &w) != 0)
				break;
		} while (weft_pd_dealloc(c->pd) == -EBUSY);
		c->pd = NULL;
	}
	tirpc_wait_fini(&w);
	clnt_free(c);
}

static struct clnt_ops clnt_ops = {
        .cl_call = clnt_op_call,
        .cl_abort = clnt_op_abort,
        .cl_geterr = clnt_op_geterr,
        .cl_freeres = clnt_op_freeres,
        .cl_destroy = clnt_op_destroy,
        .cl_control = clnt_op_control,
};

static CLIENT *
clnt_refuse(enum clnt_stat stat, int err)
{
	rpc_createerr.cf_stat = stat;
	rpc_createerr.cf_error.re_status = stat;
	rpc_createerr.cf_error.re_errno = err;
	return NULL;
}

static int
clnt_make(struct clnt *c)
{
	const struct weft_cq_attr qa = {
	        .size = sizeof(qa), .depth = 2048, .on_wc = clnt_on_wc, .user = c};
	const struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = clnt_on_event, .user = c};
	int rc = weft_pd_alloc(c->ctx, &c->pd);

	if (rc == 0)
		rc = weft_cq_create(c->ctx, &qa, &c->cq);
	if (rc == 0)
		rc = weft_evq_create(c->ctx, &ea, &c->evq);
	return rc;
}

CLIENT *
weft_clnt_create(struct weft_ctx *ctx, const struct sockaddr *addr, socklen_t addr_len,
                 rpcprog_t prog, rpcvers_t vers, const struct weft_tirpc_attr *attr)
{
	struct clnt *c = calloc(1, sizeof(*c));
	struct timeval tv = {.tv_sec = 10};
	enum clnt_stat stat;
	int rc;

	if (c == NULL)
		return clnt_refuse(RPC_SYSTEMERROR, ENOMEM);
	pthread_mutex_init(&c->lock, NULL);
	rc = tirpc_attr(attr, &c->a);
	if (rc == 0 && addr_len > sizeof(c->addr))
		rc = -EINVAL;
	c->ctx = ctx;
	c->w = c->a.worker != NULL ? c->a.worker : weft_worker_get(ctx, 0);
	if (rc == 0 && c->w == NULL)
		rc = -EINVAL;
	if (rc == 0)
		rc = clnt_make(c);
	if (rc != 0) {
		clnt_free(c);
		return clnt_refuse(RPC_SYSTEMERROR, -rc);
	}
	memcpy(&c->addr, addr, addr_len);
	c->addr_len = addr_len;
	c->max_vers = c->a.max_vers != 0 ? c->a.max_vers : RPCRDMA_V2;
	TAILQ_INIT(&c->waiting);
	c->prog = prog;
	c->vers = vers;
	c->cl.cl_ops = &clnt_ops;
	c->cl.cl_private = c;
	c->cl.cl_auth = authnone_create();
	if (c->a.connect_timeout_us != 0)
		tv = (struct timeval){c->a.connect_timeout_us / 1000000,
		                      c->a.connect_timeout_us % 1000000};
	/* Connects, and settles the version before the first call that matters. */
	stat = clnt_call(&c->cl, NULLPROC, weft_rpcrdma_xdr_void, NULL, weft_rpcrdma_xdr_void, NULL,
	                 tv);
	if (stat != RPC_SUCCESS && stat != RPC_PROGVERSMISMATCH && stat != RPC_PROGUNAVAIL) {
		rc = c->err.re_errno;
		clnt_op_destroy(&c->cl);
		return clnt_refuse(stat == RPC_TIMEDOUT ? RPC_TIMEDOUT : RPC_SYSTEMERROR, rc);
	}
	return &c->cl;
}
