/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Calls of the TI-RPC interface's client, on its worker. */

#include <errno.h>

#include "tirpc_clnt.h"

/* wait for the answer, by which version 1 gives the credit back */
#define CLNT_BATCH_US 1000000ULL

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

void
tirpc_calls_fail(struct clnt *c, enum clnt_stat stat, int err)
{
	struct clnt_call *k;

	while ((k = TAILQ_FIRST(&c->waiting)) != NULL) {
		call_stop_waiting(k);
		/* A call that was sent before may have been executed. */
		call_done(k, k->resends > 0 ? RPC_CANTRECV : stat, err);
	}
}

static uint64_t
call_left_us(const struct clnt_call *k)
{
	uint64_t now = weft_worker_now_ns(k->c->w);

	return k->deadline_ns > now + 1000 ? (k->deadline_ns - now) / 1000 : 1;
}

/* RFC 5531 s8: a batched call expects no answer, but it has to be sent. */
static void
call_timed_out(struct clnt_call *k, bool unsent)
{
	if (!k->batched)
		call_done(k, RPC_TIMEDOUT, 0);
	else if (unsent)
		call_done(k, RPC_CANTSEND, ETIMEDOUT);
	else
		call_done(k, RPC_SUCCESS, 0);
}

static void
call_waited_long(void *arg)
{
	struct clnt_call *k = arg;

	k->alarm = NULL;
	call_stop_waiting(k);
	call_timed_out(k, true);
}

/* Wait until the call's time is over. */
static void
call_wait(struct clnt_call *k)
{
	if (weft_alarm_set(k->c->w, call_left_us(k), call_waited_long, k, &k->alarm) != 0) {
		k->alarm = NULL;
		call_done(k, RPC_CANTSEND, ENOMEM);
		return;
	}
	TAILQ_INSERT_TAIL(&k->c->waiting, k, next);
}

/*
 * RPCSEC_GSS moves back in the stream that it wraps, which our streams do not support, and what it
 * protects must not be reduced (draft s11.2.2.3). cl_auth has its flavor only after it was
 * marshalled once.
 */
static bool
call_is_gss(struct clnt_call *k)
{
	k->gss = k->c->cl.cl_auth->ah_cred.oa_flavor == RPCSEC_GSS;
	return k->gss;
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
	return !call_is_gss(k) && AUTH_MARSHALL(auth, x) && !call_is_gss(k) &&
	       AUTH_WRAP(auth, x, k->xargs, k->args);
}

static enum weft_rpc_status
call_decode(void *arg, XDR *x)
{
	struct clnt_call *k = arg;
	AUTH *auth = k->c->cl.cl_auth;
	char verf[MAX_AUTH_BYTES];
	struct rpc_msg msg = {0};

	if (k->batched) /* an answer that came before the Send's completion */
		return WEFT_RPC_OK;
	msg.acpted_rply.ar_verf.oa_base = verf;
	msg.acpted_rply.ar_results.proc = weft_rpc_xdr_void;
	if (!xdr_replymsg(x, &msg))
		return WEFT_RPC_BAD_REPLY;
	_seterr_reply(&msg, &k->err);
	if (k->err.re_status != RPC_SUCCESS)
		return WEFT_RPC_OK; /* k->err has the reason */
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

/* Whether a second execution would do harm. A procedure without a description is assumed to be
 * one of these. */
static bool
call_once(const struct clnt_call *k)
{
	const struct weft_rpc_proc *p;

	if (k->proc == NULLPROC)
		return false;
	p = tirpc_proc(k->c->a.programs, k->prog, k->vers, k->proc);
	return p == NULL || p->once;
}

/* The call's connection is lost, and takes no more calls. Whether the call was executed is
 * unknown (RFC 5531 s4). */
static void
call_lost(struct clnt_call *k, struct clnt_conn *n)
{
	struct clnt *c = k->c;
	/* A call that waited for credit which could not come was not sent. */
	bool again = !c->closing && ((n->spent && weft_rpc_unsent(n->rpc)) ||
	                             (tirpc_conn_falls_back(n) && !call_once(k)));

	if (c->conn == n)
		tirpc_conn_leave(n);
	if (!c->closing && !again && !k->batched && k->resends < c->a.resend) {
		k->resends++;
		again = true;
	}
	if (again)
		tirpc_call_start(k);
	else
		call_done(k, k->batched ? RPC_CANTSEND : RPC_CANTRECV, ECONNRESET);
}

static void
call_answered(void *arg, enum weft_rpc_status status, void *res)
{
	struct clnt_call *k = arg;
	struct clnt_conn *n = k->n;
	struct clnt *c = k->c;

	(void)res;
	c->ncalls--;
	k->n = NULL;
	switch (status) {
	case WEFT_RPC_OK:
		call_done(k, k->err.re_status, 0);
		break;
	case WEFT_RPC_TIMEDOUT:
		call_timed_out(k, weft_rpc_unsent(n->rpc));
		/* Other calls may wait for the credit that this one keeps. */
		if (c->ncalls > 0)
			(void)tirpc_conn_ready(c);
		break;
	case WEFT_RPC_BAD_REPLY:
		call_done(k, RPC_CANTDECODERES, 0);
		break;
	case WEFT_RPC_CALL_TOO_LONG:
		call_done(k, RPC_CANTSEND, EMSGSIZE);
		break;
	case WEFT_RPC_TOO_LONG:
		call_done(k, RPC_CANTRECV, EMSGSIZE);
		break;
	case WEFT_RPC_CONNLOST:
		call_lost(k, n);
		break;
	default:
		call_done(k, RPC_CANTRECV, EPROTO);
		break;
	}
	/* After a timeout no completion shows that there is room. */
	if (!TAILQ_EMPTY(&c->waiting))
		tirpc_calls_go_on(c);
}

static uint32_t
call_reply_bytes(const void *args)
{
	const struct clnt_call *k = args;

	return k->c->a.reply_bytes;
}

/* Without a binding the call takes the place of the arguments, to tell how long its reply may
 * be. */
static const struct weft_rpc_binding call_unbound = {.reply_bytes = call_reply_bytes};
static const struct weft_rpc_binding call_batched = {.call_only = true};

static void
call_issue(struct clnt_call *k)
{
	struct clnt *c = k->c;
	const struct weft_rpc_binding *b = tirpc_binding(c->a.programs, k->prog, k->vers, k->proc);
	/* RFC 8166 s3.3.1: in version 1 the answer gives the credit back. */
	bool only =
	        k->batched && c->conn->vers == TIRPC_RDMA_V2 && weft_rpc_version(c->conn->rpc) != 1;
	struct weft_rpc_call_attr a = {
	        .size = sizeof(a),
	        .args = b != NULL ? k->args : k,
	        .binding = only                   ? &call_batched
	                   : b != NULL            ? b
	                   : c->a.reply_bytes > 0 ? &call_unbound
	                                          : NULL,
	        .timeout_us = k->batched && !only ? CLNT_BATCH_US : call_left_us(k),
	        .fn = call_answered,
	        .arg = k,
	        .encode = call_encode,
	        .decode = call_decode,
	        .xid = k->xid,
	        .once = call_once(k),
	};
	int rc;

	c->ncalls++;
	k->n = c->conn;
	rc = weft_rpc_call_with(c->conn->rpc, &a);
	if (rc == 0)
		return;
	c->ncalls--;
	k->n = NULL;
	if (rc == -ENOTCONN && !c->closing) { /* the connection has just ended */
		(void)tirpc_conn_ready(c);
		call_wait(k);
		return;
	}
	if (rc == -EAGAIN) { /* too many calls at once: the next answer makes room */
		call_wait(k);
		return;
	}
	if (k->gss) {
		k->err.re_why = AUTH_REJECTEDCRED;
		call_done(k, RPC_AUTHERROR, 0);
		return;
	}
	call_done(k, rc == -EINVAL || rc == -EMSGSIZE ? RPC_CANTENCODEARGS : RPC_CANTSEND, -rc);
}

/* On the worker: issue the call now, or when there is a connection. */
void
tirpc_call_start(void *arg)
{
	struct clnt_call *k = arg;
	struct clnt *c = k->c;

	if (c->closing) {
		call_done(k, RPC_CANTSEND, ESHUTDOWN);
		return;
	}
	if (k->deadline_ns == 0)
		k->deadline_ns = weft_worker_now_ns(c->w) + k->timeout_us * 1000;
	if (tirpc_conn_ready(c) != NULL)
		call_issue(k);
	else
		call_wait(k);
	if (c->conn == NULL)
		tirpc_calls_go_on(c);
}

void
tirpc_calls_go_on(struct clnt *c)
{
	struct clnt_call *k;
	unsigned int n = 0;
	int rc;

	if (c->going_on)
		return;
	c->going_on = true;
	/* As many as there are now: a call without room goes to the end. */
	TAILQ_FOREACH (k, &c->waiting, next)
		n++;
	while (n-- > 0 && tirpc_conn_ready(c) != NULL && (k = TAILQ_FIRST(&c->waiting)) != NULL) {
		TAILQ_REMOVE(&c->waiting, k, next);
		if (k->alarm != NULL)
			weft_alarm_cancel(k->alarm);
		k->alarm = NULL;
		call_issue(k);
	}
	c->going_on = false;
	if (c->closing || c->conn != NULL || TAILQ_EMPTY(&c->waiting))
		return;
	rc = tirpc_conn_make(c);
	if (rc != 0)
		tirpc_calls_fail(c, RPC_SYSTEMERROR, -rc);
}
