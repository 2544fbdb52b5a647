/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The calling side: calls, their replies, errors about them, timeouts. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rpc/rpc.h>
#include <rpc/rpc_msg.h>

#include "rpcrdma_priv.h"

bool_t
weft_rpcrdma_xdr_void(XDR *xdr, ...)
{
	(void)xdr;
	return TRUE;
}

struct rpcrdma_call *
weft_rpcrdma_call_find(struct weft_rpc *rpc, uint32_t xid)
{
	struct rpcrdma_call *c;

	LIST_FOREACH (c, &rpc->calls, entry)
		if (c->xid == xid)
			return c;
	return NULL;
}

void
weft_rpcrdma_call_end(struct rpcrdma_call *call, enum weft_rpc_status status, void *res)
{
	struct weft_rpc *rpc = call->rpc;
	weft_rpc_fn fn = call->fn;
	void *arg = call->arg;

	if (call->alarm != NULL)
		weft_alarm_cancel(call->alarm);
	call->alarm = NULL;
	if (call->slot != NULL) {
		struct rpcrdma_slot *s = call->slot;

		call->slot = NULL;
		s->call = NULL;
		if (s->queued) {
			weft_rpcrdma_unqueue(rpc, s);
			weft_rpcrdma_slot_put(rpc, s);
		}
	}
	/* The call is gone before its owner hears of it: once, whatever the owner does then. */
	LIST_REMOVE(call, entry);
	LIST_INSERT_HEAD(&rpc->free_calls, call, entry);
	fn(arg, status, res);
}

void
weft_rpcrdma_calls_end(struct weft_rpc *rpc, enum weft_rpc_status status)
{
	struct rpcrdma_call *c;

	while ((c = LIST_FIRST(&rpc->calls)) != NULL)
		weft_rpcrdma_call_end(c, status, NULL);
}

static void
call_timeout(void *arg)
{
	struct rpcrdma_call *call = arg;
	struct weft_rpc *rpc = call->rpc;

	weft_rpcrdma_enter(rpc);
	call->alarm = NULL;
	weft_rpcrdma_call_end(call, WEFT_RPC_TIMEDOUT, NULL);
	weft_rpcrdma_leave(rpc);
}

static uint32_t
call_new_xid(struct weft_rpc *rpc)
{
	uint32_t xid;

	/* 0 stands in grants; one still in use after 2^32 calls is possible, if unlikely. */
	do {
		xid = rpc->next_xid++;
	} while (xid == 0 || weft_rpcrdma_call_find(rpc, xid) != NULL);
	return xid;
}

/* Length of the message in buf, or -EMSGSIZE, -EINVAL (the arguments do not encode at all). */
static int
call_encode(uint8_t *buf, uint32_t cap_bytes, uint32_t xid, uint32_t prog, uint32_t vers,
            uint32_t proc, xdrproc_t xdr_args, const void *args)
{
	struct rpc_msg msg = {
	        .rm_xid = xid,
	        .rm_direction = CALL,
	        .rm_call =
	                {
	                        .cb_rpcvers = RPC_MSG_VERSION,
	                        .cb_prog = prog,
	                        .cb_vers = vers,
	                        .cb_proc = proc,
	                        .cb_cred = _null_auth,
	                        .cb_verf = _null_auth,
	                },
	};
	struct rpcrdma_hdr hdr;
	uint32_t hdr_bytes;
	XDR xdr;

	weft_rpcrdma_hdr_init(&hdr, RPCRDMA_V2, RDMA2_CALL_INLINE, xid);
	hdr_bytes = weft_rpcrdma_encode(buf, cap_bytes, &hdr);
	if (hdr_bytes == 0)
		return -EMSGSIZE;
	xdrmem_create(&xdr, (char *)buf + hdr_bytes, cap_bytes - hdr_bytes, XDR_ENCODE);
	if (xdr_callmsg(&xdr, &msg) && xdr_args(&xdr, (void *)(uintptr_t)args))
		return (int)(hdr_bytes + xdr_getpos(&xdr));
	/* An encoder says only "no". Ask for the size to tell too long from impossible. */
	if (xdr_sizeof(xdr_args, (void *)(uintptr_t)args) == 0)
		return -EINVAL;
	return -EMSGSIZE;
}

int
weft_rpc_call(struct weft_rpc *rpc, uint32_t prog, uint32_t vers, uint32_t proc, xdrproc_t xdr_args,
              const void *args, xdrproc_t xdr_res, size_t res_bytes, uint64_t timeout_us,
              weft_rpc_fn fn, void *arg)
{
	struct rpcrdma_call *call = LIST_FIRST(&rpc->free_calls);
	struct rpcrdma_slot *s;
	uint32_t cap_bytes = rpc->inline_bytes;
	int rc;

	if (fn == NULL)
		return -EINVAL;
	if (rpc->down || rpc->dead)
		return -ENOTCONN;
	if (rpc->bad_vers)
		return -EPROTONOSUPPORT;
	if (call == NULL)
		return -EAGAIN;
	/* Once the peer's threshold is settled, what does not fit is refused here. */
	if ((rpc->heard && rpc->props_out == RPCRDMA_PROPS_NONE) ||
	    rpc->props_in == RPCRDMA_PROPS_FINAL)
		cap_bytes = cap_bytes < rpc->peer.recv_bytes ? cap_bytes : rpc->peer.recv_bytes;

	s = weft_rpcrdma_slot_get(rpc, RPCRDMA_CALL);
	if (s == NULL)
		return -ENOMEM;
	call->xid = call_new_xid(rpc);
	call->rpc = rpc;
	call->slot = s;
	call->xdr_res = xdr_res != NULL ? xdr_res : weft_rpcrdma_xdr_void;
	call->res_bytes = res_bytes;
	call->fn = fn;
	call->arg = arg;
	call->alarm = NULL;
	rc = call_encode(s->buf, cap_bytes, call->xid, prog, vers, proc,
	                 xdr_args != NULL ? xdr_args : weft_rpcrdma_xdr_void, args);
	if (rc < 0)
		goto undo;
	s->len_bytes = (uint32_t)rc;
	rc = weft_alarm_set(rpc->worker, timeout_us != 0 ? timeout_us : RPCRDMA_TIMEOUT_US,
	                    call_timeout, call, &call->alarm);
	if (rc != 0)
		goto undo;
	s->call = call;
	LIST_REMOVE(call, entry);
	LIST_INSERT_HEAD(&rpc->calls, call, entry);
	weft_rpcrdma_queue(rpc, s);
	if (rpc->depth > 0)
		return 0; /* it goes when the entry we are in leaves */

	rpc->depth++;
	rc = weft_rpcrdma_pump(rpc);
	if (rc == -ENOTCONN) {
		/* The QP never connected, so none of the queue has gone: take back this one. */
		weft_alarm_cancel(call->alarm);
		weft_rpcrdma_unqueue(rpc, s);
		weft_rpcrdma_slot_put(rpc, s);
		LIST_REMOVE(call, entry);
		LIST_INSERT_HEAD(&rpc->free_calls, call, entry);
	} else {
		rc = 0;
	}
	weft_rpcrdma_leave(rpc);
	return rc;

undo:
	weft_rpcrdma_slot_put(rpc, s);
	return rc;
}

static enum weft_rpc_status
call_status(const struct rpc_msg *msg)
{
	static const enum weft_rpc_status accepted[] = {
	        [SUCCESS] = WEFT_RPC_OK,
	        [PROG_UNAVAIL] = WEFT_RPC_PROG_UNAVAIL,
	        [PROG_MISMATCH] = WEFT_RPC_PROG_MISMATCH,
	        [PROC_UNAVAIL] = WEFT_RPC_PROC_UNAVAIL,
	        [GARBAGE_ARGS] = WEFT_RPC_GARBAGE_ARGS,
	        [SYSTEM_ERR] = WEFT_RPC_SYSTEM_ERR,
	};
	unsigned int stat = msg->acpted_rply.ar_stat;

	if (msg->rm_reply.rp_stat == MSG_DENIED)
		return WEFT_RPC_DENIED;
	return stat < sizeof(accepted) / sizeof(accepted[0]) ? accepted[stat] : WEFT_RPC_BAD_REPLY;
}

void
weft_rpcrdma_rx_reply(struct weft_rpc *rpc, uint32_t xid, const uint8_t *buf, uint32_t len_bytes)
{
	struct rpcrdma_call *call = weft_rpcrdma_call_find(rpc, xid);
	enum weft_rpc_status status = WEFT_RPC_BAD_REPLY;
	char verf[MAX_AUTH_BYTES];
	struct rpc_msg msg = {0};
	xdrproc_t xdr_res;
	void *res;
	XDR xdr;

	/* A call whose message has not even gone cannot have been answered. */
	if (call == NULL || (call->slot != NULL && call->slot->queued)) {
		rpc->stats.bad_xid++;
		return;
	}
	rpc->stats.replies_in++;
	xdr_res = call->xdr_res;
	res = calloc(1, call->res_bytes != 0 ? call->res_bytes : 1);
	if (res == NULL) {
		weft_rpcrdma_call_end(call, WEFT_RPC_BAD_REPLY, NULL);
		return;
	}
	msg.acpted_rply.ar_verf.oa_base = verf; /* or the decoder would allocate */
	msg.acpted_rply.ar_results.proc = xdr_res;
	msg.acpted_rply.ar_results.where = res;
	xdrmem_create(&xdr, (char *)(uintptr_t)buf, len_bytes, XDR_DECODE);
	if (xdr_replymsg(&xdr, &msg))
		status = call_status(&msg);
	weft_rpcrdma_call_end(call, status, status == WEFT_RPC_OK ? res : NULL);
	xdr_free(xdr_res, res);
	free(res);
}

void
weft_rpcrdma_rx_bad_reply(struct weft_rpc *rpc, uint32_t xid)
{
	struct rpcrdma_call *call = weft_rpcrdma_call_find(rpc, xid);

	if (call == NULL)
		rpc->stats.bad_xid++;
	else
		weft_rpcrdma_call_end(call, WEFT_RPC_BAD_REPLY, NULL);
}

void
weft_rpcrdma_rx_error(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr)
{
	struct rpcrdma_call *call;

	rpc->stats.errors_in++;
	if (rpc->props_out == RPCRDMA_PROPS_FINAL && hdr->p.xid == rpc->props_xid &&
	    rpc->props_in != RPCRDMA_PROPS_FINAL)
		rpc->props_in = RPCRDMA_PROPS_FINAL; /* it will not tell; the defaults hold */
	else if ((call = weft_rpcrdma_call_find(rpc, hdr->p.xid)) == NULL)
		rpc->stats.bad_xid++;
	else
		weft_rpcrdma_call_end(call, WEFT_RPC_TRANSPORT, NULL);
	/*
	 * s7.1.1: what the peer does not speak must not be sent again. Once version 2 has worked
	 * the error is about one message only.
	 */
	if (hdr->err.code == RDMA2_ERR_VERS && !rpc->heard) {
		rpc->bad_vers = true;
		weft_rpcrdma_calls_end(rpc, WEFT_RPC_TRANSPORT);
	}
}
