/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The serving side: reads a call's chunks, then its RPC header (RFC 5531 s9), calls the
 * program, and answers.
 */

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <rpc/rpc.h>
#include <rpc/rpc_msg.h>

#include "rpcrdma_drc.h"
#include "rpcrdma_priv.h"

static struct weft_handle_kind rpcrdma_req_kind = {.name = "RPC request"};

/* Words of an RPC call that are checked before libtirpc, which refuses them without a reason. */
#define CALL_OFF_DIRECTION 4
#define CALL_OFF_RPCVERS   8
#define CALL_MIN_BYTES     40 /* ten words: AUTH_NONE twice, no arguments */

#define REQ_BYTES sizeof(struct weft_rpc_req)

/* ---- Life of a request ---- */

/* The octets read for the request are freed, or no longer count for its endpoint. */
static void
req_uncount(struct weft_rpc_req *req)
{
	if (req->rpc == NULL || req->held_bytes == 0)
		return;
	/* The rest is freed with the request. */
	weft_rpcrdma_let_go(req->rpc, req->held_bytes - REQ_BYTES);
	req->held_bytes = REQ_BYTES;
	if (req->pulled_bytes == 0)
		return;
	req->rpc->pulled_bytes -= req->pulled_bytes;
	req->rpc->refresh = true;
	req->pulled_bytes = 0;
}

/* Record whether the consumer has the request: then the peer is not what it waits for. */
static void
req_busy(struct weft_rpc_req *req, bool on)
{
	if (req->rpc != NULL && on != req->busy)
		req->rpc->holder.busy += on ? 1u : -1u;
	req->busy = on;
}

/* Detach the request from its endpoint; parked: its memory is still needed there. */
static void
req_leave(struct weft_rpc_req *req, bool parked)
{
	struct weft_rpc *rpc = req->rpc;

	if (rpc == NULL)
		return;
	weft_rpcrdma_wait_drop(req);
	req_busy(req, false);
	weft_rpcrdma_batch_forget(rpc, &req->pull);
	if (req->reg != NULL)
		weft_rpcrdma_reg_put(rpc, req->reg);
	req->reg = NULL;
	req_uncount(req);
	if (!parked)
		weft_rpcrdma_let_go(rpc, req->held_bytes + req->out_held_bytes);
	req->held_bytes = req->out_held_bytes = 0;
	LIST_REMOVE(req, entry);
	rpc->nreqs--;
	rpc->refresh = true;
	req->rpc = NULL;
}

void
weft_rpcrdma_req_park(struct weft_rpc_req *req)
{
	struct weft_rpc *rpc = req->rpc;

	req_leave(req, true);
	LIST_INSERT_HEAD(&rpc->parked, req, entry);
}

static void
req_xdr_free(xdrproc_t xdr, void *p)
{
	if (p != NULL)
		xdr_free(xdr != NULL ? xdr : weft_rpc_xdr_void, p);
	free(p);
}

/* Free the message, but not its chunks, which the answer needs. */
static void
req_free_message(struct weft_rpc_req *req)
{
	/* First, because lent data is in the buffers below. */
	req_xdr_free(req->proc != NULL ? req->proc->xdr_args : NULL, req->args);
	free(req->payload);
	free(req->pulled);
	req->args = NULL;
	req->payload = req->pulled = NULL;
	req->in = (struct rpcrdma_in){0};
	req_uncount(req);
}

static void
req_free_call(struct weft_rpc_req *req)
{
	req_free_message(req);
	free(req->chunks);
	weft_rpcrdma_batch_free(&req->pull);
	req->chunks = NULL;
}

static void
req_free_res(struct weft_rpc_req *req)
{
	req_xdr_free(req->proc != NULL ? req->proc->xdr_res : NULL, req->res);
	req->res = NULL;
}

void
weft_rpcrdma_req_free(struct weft_rpc_req *req)
{
	req_leave(req, false);
	if (req->serving) /* the consumer still has it; weft_rpc_done() frees it */
		return;
	if (req->drc != NULL)
		weft_rpcrdma_drc_drop(req->drc);
	if (req->replay != NULL)
		weft_rpcrdma_drc_release(req->replay);
	req_free_call(req);
	req_free_res(req);
	free(req->results);
	rpcrdma_out_free(&req->out);
	weft_handle_free(&req->h, sizeof(req->h));
}

bool
weft_rpcrdma_req_back(struct weft_rpc_req *req, const char *call)
{
	if (weft_handle_claim(req, &rpcrdma_req_kind, call) < 0)
		return false;
	weft_handle_end(&req->h, &rpcrdma_req_kind);
	req->serving = false;
	req_busy(req, false);
	return true;
}

void
weft_rpcrdma_req_encoded(struct weft_rpc_req *req)
{
	req_free_call(req);
	if (req->out.removed_bytes == 0 || req->raw) /* else Writes read the results there */
		req_free_res(req);
}

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
		req_free_message(req); /* results do not refer to the message */
}

static void
serve_accepted(struct rpc_msg *reply, enum accept_stat stat)
{
	reply->rm_reply.rp_stat = MSG_ACCEPTED;
	reply->acpted_rply.ar_verf = _null_auth;
	reply->acpted_rply.ar_stat = stat;
	reply->acpted_rply.ar_results.proc = weft_rpc_xdr_void;
}

static void
serve_auth_error(struct rpc_msg *reply, enum auth_stat why)
{
	reply->rm_reply.rp_stat = MSG_DENIED;
	reply->rjcted_rply.rj_stat = AUTH_ERROR;
	reply->rjcted_rply.rj_why = why;
}

/* Find the procedure; NULL: the refusal is in reply. *null: the built-in procedure 0. */
static const struct weft_rpc_proc *
serve_find(const struct weft_rpc *rpc, const struct rpc_msg *call, struct rpc_msg *reply,
           bool *null)
{
	const struct weft_rpc_program *const *pp = rpc->a.programs;
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
			if (proc != NULL && (proc->serve != NULL || proc->serve_later != NULL))
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
serve_status(struct rpc_msg *reply, enum weft_rpc_status status, uint32_t vers)
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
		reply->acpted_rply.ar_vers.low = vers;
		reply->acpted_rply.ar_vers.high = vers;
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
	serve_status(&reply, status, req->vers);
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

	req->args = calloc(1, proc->args_bytes != 0 ? proc->args_bytes : 1);
	req->res = calloc(1, proc->res_bytes != 0 ? proc->res_bytes : 1);
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
	req->serving = true;
	if (proc->serve_later != NULL) {
		req_busy(req, true);
		weft_handle_init(&req->h, &rpcrdma_req_kind);
		proc->serve_later(rpc->a.user, req, req->args, req->res);
		return;
	}
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

void
weft_rpcrdma_drc_woken(void *arg)
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
		req->serving = true;
		req_busy(req, true);
		weft_handle_init(&req->h, &rpcrdma_req_kind);
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
		serve_auth_error(&reply, AUTH_REJECTEDCRED);
		serve_reply(req, &reply, NULL, 0);
		return;
	}
	req->proc = serve_find(rpc, &call, &reply, &null);
	if (req->proc == NULL) {
		if (null)
			serve_accepted(&reply, SUCCESS);
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
	if (req->reg != NULL)
		weft_rpcrdma_reg_put(req->rpc, req->reg);
	req->reg = NULL;
	serve_message(req);
}

/*
 * Ask the consumer where it wants the one argument that is to be read. The arguments decoded for
 * that are checked again when the message is complete, and refused then.
 */
static bool
serve_place(struct weft_rpc_req *req, struct weft_rpc_place *at)
{
	const struct rpcrdma_chunks *c = req->chunks;
	struct weft_rpc *rpc = req->rpc;
	struct rpcrdma_in in = {.buf = req->payload, .len_bytes = req->payload_bytes};
	char cred[MAX_AUTH_BYTES], verf[MAX_AUTH_BYTES];
	struct rpc_msg call = {0}, reply = {0};
	const struct weft_rpc_proc *proc;
	bool null;
	XDR xdr;

	if (rpc->raw != NULL || c->call.n_segs > 0 || c->n_reads != 1 || c->reads[0].len_bytes == 0)
		return false;
	if (in.len_bytes > c->reads[0].position)
		in.len_bytes = c->reads[0].position;
	call.rm_call.cb_cred.oa_base = cred; /* or the decoder would allocate */
	call.rm_call.cb_verf.oa_base = verf;
	rpcrdma_in_open(&in, &xdr);
	if (!xdr_callmsg(&xdr, &call) || call.rm_xid != req->p.xid ||
	    call.rm_call.cb_cred.oa_flavor != AUTH_NONE)
		return false;
	proc = serve_find(rpc, &call, &reply, &null);
	if (proc == NULL || proc->place == NULL)
		return false;
	/* A repeated call would overwrite what was written after its first execution. */
	if (proc->once && rpc->a.drc != NULL && weft_rpcrdma_drc_known(rpc->a.drc, rpc, req->p.xid))
		return false;
	return proc->place(rpc->a.user, &xdr, (uint32_t)c->reads[0].len_bytes, at);
}

/* The last Read invalidates the STag of the local sink, so that its next use has another one. */
static int
serve_pull_chunk(struct weft_rpc_req *req, const struct rpcrdma_chunk *k, uint8_t *to,
                 uint32_t stag)
{
	const struct rpcrdma_segment *s = weft_rpcrdma_segs(req->chunks, k);
	int rc = weft_rpcrdma_batch_room(&req->pull, k->n_segs);

	if (rc != 0)
		return rc;
	for (unsigned int i = 0; i < k->n_segs; i++) {
		struct weft_wr *wr;

		if (s[i].len_bytes == 0)
			continue;
		wr = weft_rpcrdma_batch_add(&req->pull, to, s[i].len_bytes);
		req->pull.sge[req->pull.n - 1].lkey = stag;
		wr->opcode = WEFT_WR_READ;
		wr->rdma.stag = s[i].handle;
		wr->rdma.to = s[i].offset;
		to += s[i].len_bytes;
	}
	req->rpc->stats.read_chunks++;
	req->rpc->stats.read_bytes += k->len_bytes;
	return 0;
}

#define SERVE_NO_ROOM UINT32_MAX

/* Read a call's chunks. 0, or the error to send; SERVE_NO_ROOM: no error, the call has to wait. */
static uint32_t
serve_pull(struct weft_rpc_req *req)
{
	const struct rpcrdma_chunks *c = req->chunks;
	struct rpcrdma_in *in = &req->in;
	uint64_t total = c->call.len_bytes, end = 4;
	struct weft_rpc_place at;
	struct weft_wr *wr;
	uint8_t *to;
	bool placed;

	for (unsigned int i = 0; i < c->n_reads; i++) {
		if (c->reads[i].position < end)
			return RDMA2_ERR_BAD_XDR; /* inside the previous item */
		end = c->reads[i].position + ((c->reads[i].len_bytes + 3) & ~3ULL);
		total += c->reads[i].len_bytes;
	}
	if (total + req->payload_bytes > req->rpc->a.max_message_bytes) {
		req->rpc->stats.over_limit++;
		return RDMA2_ERR_SYSTEM;
	}
	if (total == 0)
		return c->call.n_segs > 0 ? RDMA2_ERR_BAD_XDR : 0;
	placed = serve_place(req, &at);
	if (!placed) {
		if (!weft_rpcrdma_hold(req->rpc, total))
			return rpcrdma_budget_never(req->rpc->a.budget, total) ? RDMA2_ERR_SYSTEM
			                                                       : SERVE_NO_ROOM;
		req->held_bytes += total;
		req->pulled = malloc(total);
		if (req->pulled == NULL)
			return RDMA2_ERR_SYSTEM;
		req->pulled_bytes = (uint32_t)total;
		req->rpc->pulled_bytes += total;
		if (weft_rpcrdma_reg_get(req->rpc, &req->pull, req->pulled, (uint32_t)total,
		                         WEFT_ACCESS_LOCAL_WRITE, &req->reg) != 0)
			return RDMA2_ERR_SYSTEM;
		at = (struct weft_rpc_place){req->pulled, req->reg->stag};
	}
	to = at.addr;
	if (c->call.n_segs > 0) {
		if (serve_pull_chunk(req, &c->call, to, at.stag) != 0)
			return RDMA2_ERR_SYSTEM;
		in->buf = to;
		in->len_bytes = (uint32_t)c->call.len_bytes;
		to += c->call.len_bytes;
	}
	for (unsigned int i = 0; i < c->n_reads; i++) {
		if (c->reads[i].len_bytes == 0)
			continue;
		if (serve_pull_chunk(req, &c->reads[i], to, at.stag) != 0)
			return RDMA2_ERR_SYSTEM;
		in->items[in->nitems++] = (struct rpcrdma_in_item){
		        .data = to,
		        .len_bytes = (uint32_t)c->reads[i].len_bytes,
		        .where = c->reads[i].position,
		};
		to += c->reads[i].len_bytes;
	}
	if (req->reg != NULL) {
		if (weft_rpcrdma_batch_room(&req->pull, 1) != 0)
			return RDMA2_ERR_SYSTEM;
		wr = weft_rpcrdma_batch_add(&req->pull, NULL, 0);
		wr->opcode = WEFT_WR_LOCAL_INV;
		wr->flags = WEFT_WR_FENCE;
		wr->local_inv.stag = req->reg->stag;
	}
	req->pull.done = serve_pulled;
	req->pull.owner = req;
	weft_rpcrdma_batch_queue(req->rpc, &req->pull);
	req->reading = true;
	weft_rpcrdma_unfinished(req->rpc);
	return 0;
}

/* Read the chunks, and continue when they are here. */
static void
serve_chunks(struct weft_rpc_req *req)
{
	uint32_t code;

	if (weft_rpcrdma_waits(req, RPCRDMA_STAGE_PULL))
		return;
	code = serve_pull(req);
	if (code == SERVE_NO_ROOM)
		weft_rpcrdma_wait(req);
	else if (code != 0)
		serve_refuse(req, code);
	else if (req->pull.n == 0)
		serve_message(req);
}

void
weft_rpcrdma_pull_refused(struct weft_rpc *rpc)
{
	struct weft_rpc_req *req, *first = NULL;

	/* The list begins with the latest request, and Reads are posted in the order of their
	 * calls. */
	LIST_FOREACH (req, &rpc->reqs, entry)
		if (req->pull.slot != NULL && req->pull.posted > 0)
			first = req;
	if (first != NULL && rpc->a.drc != NULL)
		weft_rpcrdma_drc_refused(rpc->a.drc, first);
}

void
weft_rpcrdma_rx_call(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr, const uint8_t *buf,
                     uint32_t len_bytes, uint8_t *own)
{
	const struct rpcrdma_chunks *c = &hdr->chunks;
	struct weft_rpc_req *req = NULL;
	bool chunks = c->n_reads > 0 || c->n_writes > 0 || c->has_reply || c->call.n_segs > 0 ||
	              c->inv_handle != 0;
	uint64_t n = REQ_BYTES + len_bytes + (chunks ? sizeof(*c) : 0);

	/* s7.4: an error about missing memory would need as much memory. */
	if (weft_rpcrdma_hold(rpc, n) && (req = calloc(1, sizeof(*req))) == NULL)
		weft_rpcrdma_let_go(rpc, n);
	if (req == NULL) {
		free(own);
		weft_rpcrdma_fail(rpc);
		return;
	}
	req->held_bytes = n;
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
		/* The receive is posted again before this call is answered. */
		req->payload = own != NULL ? own : malloc(len_bytes != 0 ? len_bytes : 1);
		if (req->payload == NULL) {
			weft_rpcrdma_fail(rpc);
			return;
		}
		if (own == NULL)
			memcpy(req->payload, buf, len_bytes);
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

void
weft_rpcrdma_req_go(struct weft_rpc_req *req)
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
