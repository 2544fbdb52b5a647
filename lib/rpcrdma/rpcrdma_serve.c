/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The serving side: a call's RPC header (RFC 5531 s9), its program, its answer. */

#include <stdlib.h>

#include <rpc/rpc.h>
#include <rpc/rpc_msg.h>

#include "rpcrdma_priv.h"

/* Words of an RPC call that are looked at before libtirpc, which refuses them without telling. */
#define CALL_OFF_DIRECTION 4
#define CALL_OFF_RPCVERS   8
#define CALL_MIN_BYTES     40 /* ten words: AUTH_NONE twice, no arguments */

static void
serve_accepted(struct rpc_msg *reply, enum accept_stat stat)
{
	reply->rm_reply.rp_stat = MSG_ACCEPTED;
	reply->acpted_rply.ar_verf = _null_auth;
	reply->acpted_rply.ar_stat = stat;
}

static void
serve_auth_error(struct rpc_msg *reply, enum auth_stat why)
{
	reply->rm_reply.rp_stat = MSG_DENIED;
	reply->rjcted_rply.rj_stat = AUTH_ERROR;
	reply->rjcted_rply.rj_why = why;
}

/* Encode into a message and queue it; an RDMA2_ERROR says when that is not possible. */
static void
serve_reply(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr, struct rpc_msg *reply)
{
	struct rpcrdma_slot *s;
	struct rpcrdma_hdr out;
	uint32_t room_bytes = rpc->inline_bytes, need_bytes;
	XDR xdr;

	if (room_bytes > rpc->peer.recv_bytes)
		room_bytes = rpc->peer.recv_bytes;
	s = weft_rpcrdma_slot_get(rpc, RPCRDMA_REPLY);
	if (s == NULL) {
		weft_rpcrdma_fail(rpc);
		return;
	}
	weft_rpcrdma_hdr_init(&out, RPCRDMA_V2, RDMA2_REPLY_INLINE, hdr->p.xid);
	s->len_bytes = weft_rpcrdma_encode(s->buf, room_bytes, &out);
	if (s->len_bytes != 0) {
		xdrmem_create(&xdr, (char *)s->buf + s->len_bytes, room_bytes - s->len_bytes,
		              XDR_ENCODE);
		if (xdr_replymsg(&xdr, reply)) {
			s->len_bytes += xdr_getpos(&xdr);
			weft_rpcrdma_queue(rpc, s);
			return;
		}
	}
	weft_rpcrdma_slot_put(rpc, s);
	need_bytes = xdr_sizeof((xdrproc_t)xdr_replymsg, reply);
	if (need_bytes == 0) /* the results do not encode at all */
		weft_rpcrdma_error(rpc, &hdr->p, &(struct rpcrdma_err){RDMA2_ERR_SYSTEM, 0, 0});
	else
		weft_rpcrdma_error(rpc, &hdr->p,
		                   &(struct rpcrdma_err){RDMA2_ERR_REPLY_RESOURCE, need_bytes, 0});
}

/* The procedure, or NULL with the refusal in reply. *null: the built-in procedure 0. */
static const struct weft_rpc_proc *
serve_find(const struct weft_rpc *rpc, const struct rpc_msg *call, struct rpc_msg *reply,
           bool *null)
{
	const struct weft_rpc_program *const *pp = rpc->programs;
	bool known = false;

	*null = false;
	for (; pp != NULL && *pp != NULL; pp++) {
		const struct weft_rpc_program *p = *pp;
		const struct weft_rpc_proc *proc;

		if (p->prog != call->rm_call.cb_prog)
			continue;
		if (p->vers == call->rm_call.cb_vers) {
			if (call->rm_call.cb_proc == NULLPROC) {
				*null = true;
				return NULL;
			}
			proc = call->rm_call.cb_proc < p->nprocs ? &p->procs[call->rm_call.cb_proc]
			                                         : NULL;
			if (proc != NULL && proc->serve != NULL)
				return proc;
			serve_accepted(reply, PROC_UNAVAIL);
			return NULL;
		}
		if (!known || p->vers < reply->acpted_rply.ar_vers.low)
			reply->acpted_rply.ar_vers.low = p->vers;
		if (!known || p->vers > reply->acpted_rply.ar_vers.high)
			reply->acpted_rply.ar_vers.high = p->vers;
		known = true;
	}
	serve_accepted(reply, known ? PROG_MISMATCH : PROG_UNAVAIL);
	return NULL;
}

static void
serve_status(struct rpc_msg *reply, enum weft_rpc_status status, const struct rpc_msg *call)
{
	switch (status) {
	case WEFT_RPC_OK:
		serve_accepted(reply, SUCCESS);
		break;
	case WEFT_RPC_DENIED:
		serve_auth_error(reply, AUTH_TOOWEAK);
		break;
	case WEFT_RPC_PROG_UNAVAIL:
		serve_accepted(reply, PROG_UNAVAIL);
		break;
	case WEFT_RPC_PROG_MISMATCH:
		serve_accepted(reply, PROG_MISMATCH);
		reply->acpted_rply.ar_vers.low = call->rm_call.cb_vers;
		reply->acpted_rply.ar_vers.high = call->rm_call.cb_vers;
		break;
	case WEFT_RPC_PROC_UNAVAIL:
		serve_accepted(reply, PROC_UNAVAIL);
		break;
	case WEFT_RPC_GARBAGE_ARGS:
		serve_accepted(reply, GARBAGE_ARGS);
		break;
	default:
		serve_accepted(reply, SYSTEM_ERR);
		break;
	}
}

static void
serve_proc(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr, const struct weft_rpc_proc *proc,
           XDR *xdr, const struct rpc_msg *call, struct rpc_msg *reply)
{
	xdrproc_t xdr_args = proc->xdr_args != NULL ? proc->xdr_args : weft_rpcrdma_xdr_void;
	xdrproc_t xdr_res = proc->xdr_res != NULL ? proc->xdr_res : weft_rpcrdma_xdr_void;
	void *args = calloc(1, proc->args_bytes != 0 ? proc->args_bytes : 1);
	void *res = calloc(1, proc->res_bytes != 0 ? proc->res_bytes : 1);
	enum weft_rpc_status status = WEFT_RPC_SYSTEM_ERR;

	if (args != NULL && res != NULL)
		status = xdr_args(xdr, args) ? proc->serve(rpc->user, args, res)
		                             : WEFT_RPC_GARBAGE_ARGS;
	serve_status(reply, status, call);
	if (status == WEFT_RPC_OK) {
		reply->acpted_rply.ar_results.proc = xdr_res;
		reply->acpted_rply.ar_results.where = res;
	}
	/* It may have closed the connection. */
	if (!rpc->down)
		serve_reply(rpc, hdr, reply);
	if (args != NULL)
		xdr_free(xdr_args, args);
	if (res != NULL)
		xdr_free(xdr_res, res);
	free(args);
	free(res);
}

void
weft_rpcrdma_rx_call(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr, const uint8_t *buf,
                     uint32_t len_bytes)
{
	char cred[MAX_AUTH_BYTES], verf[MAX_AUTH_BYTES];
	const struct weft_rpc_proc *proc;
	struct rpc_msg call = {0}, reply = {.rm_xid = hdr->p.xid, .rm_direction = REPLY};
	bool null;
	XDR xdr;

	if (len_bytes < CALL_MIN_BYTES || rpcrdma_get32(buf + CALL_OFF_DIRECTION) != CALL)
		goto bad_xdr;
	rpc->stats.calls_in++;
	if (rpcrdma_get32(buf + CALL_OFF_RPCVERS) != RPC_MSG_VERSION) {
		reply.rm_reply.rp_stat = MSG_DENIED;
		reply.rjcted_rply.rj_stat = RPC_MISMATCH;
		reply.rjcted_rply.rj_vers.low = RPC_MSG_VERSION;
		reply.rjcted_rply.rj_vers.high = RPC_MSG_VERSION;
		serve_reply(rpc, hdr, &reply);
		return;
	}
	call.rm_call.cb_cred.oa_base = cred; /* or the decoder would allocate */
	call.rm_call.cb_verf.oa_base = verf;
	xdrmem_create(&xdr, (char *)(uintptr_t)buf, len_bytes, XDR_DECODE);
	if (!xdr_callmsg(&xdr, &call))
		goto bad_xdr;
	reply.acpted_rply.ar_results.proc = weft_rpcrdma_xdr_void;
	if (call.rm_call.cb_cred.oa_flavor != AUTH_NONE) {
		serve_auth_error(&reply, AUTH_REJECTEDCRED);
		serve_reply(rpc, hdr, &reply);
		return;
	}
	proc = serve_find(rpc, &call, &reply, &null);
	if (proc != NULL) {
		serve_proc(rpc, hdr, proc, &xdr, &call, &reply);
		return;
	}
	if (null)
		serve_accepted(&reply, SUCCESS);
	serve_reply(rpc, hdr, &reply);
	return;

bad_xdr:
	weft_rpcrdma_error(rpc, &hdr->p, &(struct rpcrdma_err){RDMA2_ERR_BAD_XDR, 0, 0});
}
