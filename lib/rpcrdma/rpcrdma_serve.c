/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Responder: serves calls of the peer. Waits for their chunks, reads the RPC header (RFC 5531
 * s9), calls the program, and answers.
 */

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <rpc/rpc.h>
#include <rpc/rpc_msg.h>

#include "rpcrdma_drc.h"
#include "rpcrdma_mem.h"
#include "rpcrdma_msg.h"
#include "rpcrdma_priv.h"
#include "rpcrdma_program.h"
#include "rpcrdma_req.h"

/* Words of an RPC call that are checked before libtirpc, which refuses them without a reason. */
#define CALL_OFF_DIRECTION 4
#define CALL_OFF_RPCVERS   8
#define CALL_MIN_BYTES     40 /* ten words: AUTH_NONE twice, no arguments */

static void
serve_refuse(struct weft_rpc_req *req, uint32_t code)
{
	struct weft_rpc *rpc = req->rpc;
	struct rpcrdma_prefix p = req->p;

	weft_rpcrdma_req_free(req); /* first: an error without room for it closes everything */
	weft_rpcrdma_error(rpc, &p, &(struct rpcrdma_err){.code = code});
}

bool
weft_rpc_raw_args_ok(const XDR *xdr, const struct weft_rpc_binding *binding, const void *args)
{
	return rpcrdma_in_args_ok(xdr->x_private, binding, args);
}

void
weft_rpc_raw_refuse(struct weft_rpc_req *req)
{
	struct weft_rpc *rpc;

	if (!weft_rpcrdma_req_back(req, __func__))
		return;
	rpc = req->rpc;
	if (rpc == NULL) {
		weft_rpcrdma_req_free(req);
		return;
	}
	weft_rpcrdma_enter(rpc);
	serve_refuse(req, RDMA2_ERR_BAD_XDR);
	weft_rpcrdma_leave(rpc);
}

/* ---- Answers without results ---- */

static bool
serve_encode_reply(void *arg, XDR *xdr)
{
	return xdr_replymsg(xdr, arg);
}

static void
serve_reply(struct weft_rpc_req *req, struct rpc_msg *reply, const struct weft_rpc_item *items,
            unsigned int nitems)
{
	if (!weft_rpcrdma_answer(req, serve_encode_reply, reply, items, nitems) &&
	    req->stage == RPCRDMA_STAGE_ANSWER)
		weft_rpcrdma_req_free_message(req); /* results do not refer to the message */
}

/* ---- A procedure ---- */

static void
serve_answer(struct weft_rpc_req *req, enum weft_rpc_status status)
{
	const struct weft_rpc_binding *b = req->proc->binding;
	struct rpc_msg reply = {.rm_xid = req->p.xid, .rm_direction = REPLY};
	struct weft_rpc_item items[WEFT_RPC_MAX_ITEMS];
	unsigned int n = 0;

	req->stage = RPCRDMA_STAGE_ANSWER;
	req->status = status;
	if (b != NULL && b->call_only) {
		weft_rpcrdma_req_free(req);
		return;
	}
	weft_rpcrdma_status(&reply, status, req->vers);
	if (status == WEFT_RPC_OK) {
		reply.acpted_rply.ar_results.proc =
		        req->proc->xdr_res != NULL ? req->proc->xdr_res : weft_rpc_xdr_void;
		reply.acpted_rply.ar_results.where = req->res;
		if (b != NULL && b->results != NULL)
			n = b->results(req->res, items);
	}
	serve_reply(req, &reply, items, n);
}

static void
serve_done(struct weft_rpc_req *req, enum weft_rpc_status status)
{
	struct weft_rpc *rpc = req->rpc;

	req->serving = false;
	if (rpc == NULL) {
		/* the peer is gone, but the cache keeps the reply for a repetition */
		serve_answer(req, status);
		return;
	}
	weft_rpcrdma_enter(rpc);
	serve_answer(req, status);
	weft_rpcrdma_leave(rpc);
}

void
weft_rpc_done(struct weft_rpc_req *req, enum weft_rpc_status status)
{
	if (weft_rpcrdma_req_back(req, __func__))
		serve_done(req, status);
}

static void
serve_proc(struct weft_rpc_req *req)
{
	const struct weft_rpc_proc *proc = req->proc;
	struct weft_rpc *rpc = req->rpc;
	xdrproc_t xdr_args = proc->xdr_args != NULL ? proc->xdr_args : weft_rpc_xdr_void;
	enum weft_rpc_status status;

	req->args = weft_spare_zeroed(proc->args_bytes);
	req->res = weft_spare_zeroed(proc->res_bytes);
	if (req->args == NULL || req->res == NULL) {
		serve_answer(req, WEFT_RPC_SYSTEM_ERR);
		return;
	}
	/* s7.2: chunks that do not match the arguments are such a failure, too, and so are
	 * chunks of items that are not eligible (RFC 8166 s6.1, s4.5.2). */
	if (!xdr_args(&req->xdr, req->args) ||
	    !rpcrdma_in_args_ok(&req->in, proc->binding, req->args)) {
		serve_answer(req, WEFT_RPC_GARBAGE_ARGS);
		return;
	}
	if (proc->serve_later != NULL) {
		weft_rpcrdma_req_give(req);
		proc->serve_later(rpc->a.user, req, req->args, req->res);
		return;
	}
	req->serving = true;
	status = proc->serve(rpc->a.user, req->args, req->res);
	serve_done(req, status);
}

/* Execute the call, unless it was executed before. */
static void
serve_once(struct weft_rpc_req *req)
{
	struct weft_rpc *rpc = req->rpc;

	/* Callers without a name cannot be distinguished. */
	if (!req->proc->once || rpc->a.drc == NULL || rpc->peer_name_bytes == 0) {
		serve_proc(req);
		return;
	}
	switch (weft_rpcrdma_drc_find(rpc->a.drc, req)) {
	case RPCRDMA_DRC_NEW:
		serve_proc(req);
		break;
	case RPCRDMA_DRC_BUSY:
		rpc->stats.waited++;
		break;
	case RPCRDMA_DRC_REPLAY:
		rpc->stats.replayed++;
		weft_rpcrdma_drc_replay(req);
		break;
	}
}

static void
serve_woken(void *arg)
{
	struct weft_rpc_req *req = arg;
	struct weft_rpc *rpc = req->rpc;

	req->serving = false;
	if (rpc == NULL || rpc->down) {
		weft_rpcrdma_req_free(req);
		return;
	}
	weft_rpcrdma_enter(rpc);
	if (req->drc_replaced)
		weft_rpcrdma_req_free(req);
	else
		serve_once(req);
	weft_rpcrdma_leave(rpc);
}

/* ---- The RPC header ---- */

static void
serve_rpc(struct weft_rpc_req *req)
{
	struct weft_rpc *rpc = req->rpc;
	char cred[MAX_AUTH_BYTES], verf[MAX_AUTH_BYTES];
	struct rpc_msg call = {0}, reply = {.rm_xid = req->p.xid, .rm_direction = REPLY};
	bool null;

	if (weft_get_be32(req->in.buf + CALL_OFF_RPCVERS) != RPC_MSG_VERSION) {
		reply.rm_reply.rp_stat = MSG_DENIED;
		reply.rjcted_rply.rj_stat = RPC_MISMATCH;
		reply.rjcted_rply.rj_vers.low = RPC_MSG_VERSION;
		reply.rjcted_rply.rj_vers.high = RPC_MSG_VERSION;
		serve_reply(req, &reply, NULL, 0);
		return;
	}
	if (rpc->raw != NULL) {
		req->stage = RPCRDMA_STAGE_RAW;
		weft_rpcrdma_req_give(req);
		rpc->raw(rpc->a.user, req, &req->xdr);
		return;
	}
	call.rm_call.cb_cred.oa_base = cred; /* or the decoder would allocate */
	call.rm_call.cb_verf.oa_base = verf;
	if (!xdr_callmsg(&req->xdr, &call)) {
		serve_refuse(req, RDMA2_ERR_BAD_XDR);
		return;
	}
	req->prog = call.rm_call.cb_prog;
	req->vers = call.rm_call.cb_vers;
	req->procno = call.rm_call.cb_proc;
	reply.acpted_rply.ar_results.proc = weft_rpc_xdr_void;
	if (call.rm_call.cb_cred.oa_flavor != AUTH_NONE) {
		weft_rpcrdma_auth_error(&reply, AUTH_REJECTEDCRED);
		serve_reply(req, &reply, NULL, 0);
		return;
	}
	req->proc = weft_rpcrdma_proc_find(rpc->a.programs, &call, &reply, &null);
	if (req->proc == NULL) {
		if (null)
			weft_rpcrdma_accepted(&reply, SUCCESS);
		serve_reply(req, &reply, NULL, 0);
		return;
	}
	serve_once(req);
}

/* The whole message is here: serve it. */
static void
serve_message(struct weft_rpc_req *req)
{
	struct rpcrdma_in *in = &req->in;

	if (weft_rpcrdma_waits(req, RPCRDMA_STAGE_SERVE))
		return;
	if (in->len_bytes < CALL_MIN_BYTES || weft_get_be32(in->buf) != req->p.xid ||
	    weft_get_be32(in->buf + CALL_OFF_DIRECTION) != CALL) {
		serve_refuse(req, RDMA2_ERR_BAD_XDR);
		return;
	}
	req->rpc->stats.calls_in += !req->met;
	req->met = true;
	rpcrdma_in_open(in, &req->xdr);
	serve_rpc(req);
}

/* ---- Reading chunks ---- */

static void
serve_pulled(void *owner, bool ok)
{
	struct weft_rpc_req *req = owner;

	(void)ok; /* a failed Read ends the connection */
	req->reading = false;
	if (req->rpc->a.timed)
		req->read_ns = weft_worker_now_ns(req->rpc->worker);
	if (req->reg != NULL && req->reg->buf == NULL) {
		weft_rpcrdma_sink_put(req->rpc, req->reg);
		req->reg = NULL;
	}
	serve_message(req);
}

/* Read the chunks, and continue when they are here. */
static void
serve_chunks(struct weft_rpc_req *req)
{
	uint32_t code;

	if (weft_rpcrdma_waits(req, RPCRDMA_STAGE_PULL))
		return;
	code = weft_rpcrdma_pull(req, serve_pulled);
	if (code == RPCRDMA_PULL_NO_ROOM)
		weft_rpcrdma_wait(req);
	else if (code != 0)
		serve_refuse(req, code);
	else if (req->pull.n == 0)
		serve_message(req);
}

static void
serve_go(struct weft_rpc_req *req)
{
	switch (req->stage) {
	case RPCRDMA_STAGE_PULL:
		serve_chunks(req);
		break;
	case RPCRDMA_STAGE_ANSWER:
		serve_answer(req, req->status);
		break;
	case RPCRDMA_STAGE_REPLAY:
		weft_rpcrdma_drc_replay(req);
		break;
	case RPCRDMA_STAGE_SERVE:
	case RPCRDMA_STAGE_RAW:
		serve_message(req);
		break;
	}
}

static const struct rpcrdma_req_ops serve_ops = {
        .go = serve_go,
        .woken = serve_woken,
        .free = weft_rpcrdma_req_free,
};

/*
 * Copy the message: the receive is posted again before this call is answered. A long one ends at a
 * multiple of RPCRDMA_KEPT_ALIGN, and so a long last argument begins at one if its length is one:
 * a device then writes from there. It is charged here, a short one was. False: no memory.
 */
static bool
serve_copy(struct weft_rpc_req *req, const uint8_t *buf, uint32_t len_bytes)
{
	const bool reads =
	        req->chunks != NULL && (req->chunks->n_reads > 0 || req->chunks->call.n_segs > 0);

	if (len_bytes > RPCRDMA_KEPT_ALIGN && len_bytes <= RPCRDMA_KEPT_BYTES && !reads &&
	    weft_rpcrdma_kept_get(req->rpc, NULL, len_bytes, &req->reg) == 0) {
		req->payload = req->reg->buf + req->reg->buf_bytes - len_bytes;
	} else {
		if (len_bytes > RPCRDMA_KEPT_ALIGN) {
			if (!weft_rpcrdma_hold(req->rpc, len_bytes))
				return false;
			req->held_bytes += len_bytes;
		}
		req->payload = req->own_payload = malloc(len_bytes != 0 ? len_bytes : 1);
		if (req->payload == NULL)
			return false;
	}
	memcpy(req->payload, buf, len_bytes);
	return true;
}

void
weft_rpcrdma_rx_call(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr, const uint8_t *buf,
                     uint32_t len_bytes, uint8_t *own)
{
	const struct rpcrdma_chunks *c = &hdr->chunks;
	struct weft_rpc_req *req = NULL;
	bool chunks = c->n_reads > 0 || c->n_writes > 0 || c->has_reply || c->call.n_segs > 0 ||
	              c->inv_handle != 0;
	uint64_t n = sizeof(*req) +
	             (own != NULL || len_bytes <= RPCRDMA_KEPT_ALIGN ? len_bytes : 0) +
	             (chunks ? sizeof(*c) : 0);

	/* s7.4: an error about missing memory would need as much memory. */
	if (weft_rpcrdma_hold(rpc, n) && (req = calloc(1, sizeof(*req))) == NULL)
		weft_rpcrdma_let_go(rpc, n);
	if (req == NULL) {
		free(own);
		weft_rpcrdma_fail(rpc);
		return;
	}
	req->ops = &serve_ops;
	req->held_bytes = n;
	if (rpc->a.timed)
		req->came_ns = weft_worker_now_ns(rpc->worker);
	req->rpc = rpc;
	req->p = hdr->p;
	LIST_INSERT_HEAD(&rpc->reqs, req, entry);
	if (++rpc->nreqs > RPCRDMA_REQS_HIGH + rpc->a.credits ||
	    rpc->pulled_bytes > RPCRDMA_PULLED_HIGH +
	                                (rpc->a.credits + 1) * (uint64_t)rpc->a.max_message_bytes) {
		free(own);
		weft_rpcrdma_fail(rpc); /* the peer continues without credit */
		return;
	}
	if (chunks) {
		req->chunks = malloc(sizeof(*req->chunks));
		if (req->chunks == NULL) {
			free(own);
			weft_rpcrdma_fail(rpc);
			return;
		}
		*req->chunks = *c;
	}
	if (buf != NULL) {
		req->payload = req->own_payload = own;
		if (own == NULL && !serve_copy(req, buf, len_bytes)) {
			weft_rpcrdma_fail(rpc);
			return;
		}
		req->payload_bytes = len_bytes;
		req->in.buf = req->payload;
		req->in.len_bytes = len_bytes;
	}
	if (c->n_reads == 0 && c->call.n_segs == 0) {
		serve_message(req);
		return;
	}
	if (rpc->a.drc != NULL && weft_rpcrdma_drc_was_refused(rpc->a.drc, req))
		serve_refuse(req, RDMA2_ERR_SYSTEM);
	else
		serve_chunks(req);
}
