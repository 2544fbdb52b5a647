/* SPDX-License-Identifier: BSD-3-Clause */
/** @file CLIENT over endpoints: its operations, beginning and end, on its callers' threads. */

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tirpc_clnt.h"

#define CLNT_TIMEOUT_US 25000000ULL /* libtirpc's own */
#define CLNT_TIMEOUT_S  100000000   /* a longer timeout means none, as with libtirpc */
#define CLNT_AUTH_TRIES 2
#define CLNT_DOMAIN_US  100 /* between checks whether the domain's regions are freed */

/* ---- CLIENT's operations ---- */

static struct clnt *
clnt_of(CLIENT *cl)
{
	return cl->cl_private;
}

/* Whether libtirpc accepts it as a timeout. */
static bool
clnt_time_ok(const struct timeval *tv)
{
	return tv->tv_sec >= 0 && tv->tv_sec <= CLNT_TIMEOUT_S && tv->tv_usec >= 0 &&
	       tv->tv_usec <= 1000000;
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
	k->alarm = NULL;
	k->n = NULL;
	rc = tirpc_wait_for(k->c->w, &k->wait, tirpc_call_start, k);
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
	struct clnt_call k = {.c = c,
	                      .proc = proc,
	                      .xargs = xargs != NULL ? xargs : weft_rpc_xdr_void,
	                      .args = args,
	                      .xres = xres != NULL ? xres : weft_rpc_xdr_void,
	                      .res = res};
	const struct timeval *tv = &timeout;
	enum clnt_stat stat;

	pthread_mutex_lock(&c->lock);
	c->inside++;
	k.prog = c->prog;
	k.vers = c->vers;
	k.xid = c->xid;
	c->xid = 0;
	if (c->timeout_set)
		tv = &c->timeout;
	k.timeout_us = clnt_time_ok(tv) ? clnt_usec(tv) : CLNT_TIMEOUT_US;
	pthread_mutex_unlock(&c->lock);
	/* As libtirpc: no time for an answer means that none is expected (RFC 5531 s8,
	 * batching). */
	k.batched = k.timeout_us == 0;
	if (k.batched)
		k.timeout_us = CLNT_TIMEOUT_US;
	for (unsigned int tries = 0;; tries++) {
		call_run(&k);
		stat = k.stat;
		if (stat != RPC_AUTHERROR || k.gss || tries == CLNT_AUTH_TRIES ||
		    !AUTH_REFRESH(cl->cl_auth, NULL))
			break;
		k.xid = 0;
	}
	if (k.batched && stat == RPC_SUCCESS && xres != NULL)
		stat = k.err.re_status = RPC_TIMEDOUT;
	pthread_mutex_lock(&c->lock);
	c->err = k.err;
	c->last_xid = k.xid;
	c->inside--;
	pthread_cond_signal(&c->left); /* under the lock, because the waiting thread frees it */
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
		if (!clnt_time_ok(info))
			return FALSE;
		c->timeout = *(struct timeval *)info;
		c->timeout_set = true;
		return TRUE;
	case CLGET_TIMEOUT:
		*(struct timeval *)info = c->timeout_set
		                                  ? c->timeout
		                                  : (struct timeval){CLNT_TIMEOUT_US / 1000000, 0};
		return TRUE;
	case CLGET_SERVER_ADDR:
		memcpy(info, &c->addr, c->addr_len);
		return TRUE;
	case CLGET_SVC_ADDR:
		*(struct netbuf *)info = (struct netbuf){
		        .maxlen = sizeof(c->addr), .len = c->addr_len, .buf = &c->addr};
		return TRUE;
	case CLGET_XID:
		*(u_int32_t *)info = c->last_xid;
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
	default: /* there is no descriptor */
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
	pthread_cond_destroy(&c->left);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static void
clnt_after(void *arg)
{
	tirpc_wait_signal(arg);
}

/* Wait for a call on the worker: then the callbacks of the previous poll are over. */
static int
clnt_hop(struct clnt *c, struct tirpc_wait *w)
{
	w->done = false;
	return tirpc_wait_for(c->w, w, clnt_after, w);
}

/* Wait for the calls that the close has ended. They return in their threads; one with new
 * credentials may need the worker for that. */
static void
clnt_callers_gone(struct clnt *c)
{
	bool mine = weft_worker_is_mine(c->w);

	pthread_mutex_lock(&c->lock);
	while (c->inside > 0) {
		if (!mine) {
			pthread_cond_wait(&c->left, &c->lock);
			continue;
		}
		pthread_mutex_unlock(&c->lock);
		if (weft_worker_poll(c->w) == 0)
			weft_worker_idle(c->w, CLNT_DOMAIN_US);
		pthread_mutex_lock(&c->lock);
	}
	pthread_mutex_unlock(&c->lock);
}

/* End the client. 0: nothing refers to it any more. */
static int
clnt_leave(struct clnt *c, struct tirpc_wait *w)
{
	int rc;

	c->closed = w;
	rc = tirpc_wait_for(c->w, w, tirpc_clnt_close, c);
	if (rc != 0)
		return rc;
	clnt_callers_gone(c);
	/* Regions may not be freed yet, and with them the domain. */
	while ((rc = clnt_hop(c, w)) == 0 && weft_pd_dealloc(c->pd) == -EBUSY) {
		if (weft_worker_is_mine(c->w))
			(void)weft_worker_poll(c->w);
		usleep(CLNT_DOMAIN_US);
	}
	if (rc != 0)
		return rc;
	c->pd = NULL;
	rc = weft_evq_destroy(c->evq);
	if (rc != 0)
		return rc;
	c->evq = NULL;
	rc = weft_cq_destroy(c->cq);
	if (rc != 0)
		return rc;
	c->cq = NULL;
	return clnt_hop(c, w); /* weft_cq_destroy(): what `user` points to */
}

static void
clnt_op_destroy(CLIENT *cl)
{
	struct clnt *c = clnt_of(cl);
	struct tirpc_wait w;
	int rc;

	tirpc_wait_init(&w);
	rc = clnt_leave(c, &w);
	tirpc_wait_fini(&w);
	if (rc == 0) {
		clnt_free(c);
		return;
	}
	/* Connections, or a callback under way, may still refer to the client: its memory is
	 * lost rather than reused. */
	weft_ulp_error("rpcrdma", "a CLIENT that cannot be ended stays in memory: %s",
	               strerror(-rc));
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

/* Whether a server has answered as RFC 5531 says, also by a refusal: then there is a connection. */
static bool
clnt_reached(enum clnt_stat stat)
{
	return stat == RPC_SUCCESS || stat == RPC_PROGVERSMISMATCH || stat == RPC_PROGUNAVAIL ||
	       stat == RPC_PROCUNAVAIL || stat == RPC_AUTHERROR || stat == RPC_CANTDECODEARGS;
}

CLIENT *
weft_clnt_create(struct weft_ctx *ctx, const struct sockaddr *addr, socklen_t addr_len,
                 rpcprog_t prog, rpcvers_t vers, const struct weft_tirpc_attr *attr)
{
	struct timeval tv = {.tv_sec = 10};
	enum clnt_stat stat;
	struct clnt *c;
	int rc;

	if (weft_ctx_check(ctx, __func__) < 0 || addr == NULL || addr_len < sizeof(addr->sa_family))
		return clnt_refuse(RPC_SYSTEMERROR, EINVAL);
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return clnt_refuse(RPC_SYSTEMERROR, ENOMEM);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->left, NULL);
	rc = tirpc_attr(attr, &c->a);
	if (rc == 0 && addr_len > sizeof(c->addr))
		rc = -EINVAL;
	c->ctx = ctx;
	c->w = c->a.worker != NULL ? c->a.worker : weft_worker_get(ctx, 0);
	if (rc == 0 && weft_worker_check(c->w, __func__) < 0)
		rc = -EINVAL;
	if (rc == 0)
		rc = tirpc_clnt_make(c);
	if (rc != 0) {
		clnt_free(c);
		return clnt_refuse(RPC_SYSTEMERROR, -rc);
	}
	memcpy(&c->addr, addr, addr_len);
	c->addr_len = addr_len;
	c->max_vers = c->a.max_vers != 0 ? c->a.max_vers : TIRPC_RDMA_V2;
	TAILQ_INIT(&c->waiting);
	LIST_INIT(&c->conns);
	c->prog = prog;
	c->vers = vers;
	c->cl.cl_ops = &clnt_ops;
	c->cl.cl_private = c;
	c->cl.cl_auth = authnone_create();
	if (c->a.connect_timeout_us != 0)
		tv = (struct timeval){c->a.connect_timeout_us / 1000000,
		                      c->a.connect_timeout_us % 1000000};
	/* This call connects, and settles the version before the consumer's first call. */
	stat = clnt_call(&c->cl, NULLPROC, weft_rpc_xdr_void, NULL, weft_rpc_xdr_void, NULL, tv);
	if (!clnt_reached(stat)) {
		rc = c->err.re_errno;
		clnt_op_destroy(&c->cl);
		return clnt_refuse(stat == RPC_TIMEDOUT ? RPC_TIMEDOUT : RPC_SYSTEMERROR, rc);
	}
	return &c->cl;
}
