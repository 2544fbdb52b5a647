/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Requester: own calls, their layout, their end. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rpc/rpc.h>
#include <rpc/rpc_msg.h>

#include "rpcrdma_call.h"
#include "rpcrdma_mem.h"
#include "rpcrdma_msg.h"
#include "rpcrdma_priv.h"

#define CALL_HDR_BYTES                                                                             \
	(RPCRDMA_CALL_HDR_BYTES + 24 * (2 * WEFT_RPC_MAX_ITEMS)) /* roughly, with chunks */

struct rpcrdma_call *
weft_rpcrdma_call_find(struct weft_rpc *rpc, uint32_t xid)
{
	struct rpcrdma_call *c;

	LIST_FOREACH (c, &rpc->calls, entry)
		if (c->xid == xid)
			return c;
	return NULL;
}

/* ---- The end ---- */

void
weft_rpcrdma_call_release(struct rpcrdma_call *call)
{
	for (unsigned int i = 0; i < call->nsinks; i++)
		if (call->own_sink[i])
			free(call->sink[i].addr);
	for (unsigned int i = 0; i < call->noutgrown; i++)
		free(call->outgrown[i]);
	weft_rpcrdma_batch_free(&call->inv);
	rpcrdma_out_free(&call->out);
	free(call->reply);
	free(call->res_init);
	memset(call, 0, sizeof(*call));
}

void
weft_rpcrdma_call_late(struct weft_rpc *rpc)
{
	if (rpc->credit1.lost == 0)
		return;
	rpc->credit1.lost--;
	rpc->credit1.calls--;
}

/* No peer can access the call's regions any more. The call is freed before its owner is told. */
static void
call_finish(struct rpcrdma_call *call)
{
	struct weft_rpc *rpc = call->rpc;
	enum weft_rpc_status status = call->status;
	xdrproc_t xdr_res = call->a.xdr_res;
	weft_rpc_fn fn = call->a.fn;
	void *arg = call->a.arg, *res = call->res;
	uint32_t error = call->error, before = rpc->error;
	bool unsent = call->unsent, before_unsent = rpc->unsent;

	for (unsigned int i = 0; i < call->nregs; i++) {
		if (call->late && call->reg[i]->stag == call->inv_stag)
			weft_rpcrdma_reg_put_late(rpc, call->reg[i], call->xid);
		else
			weft_rpcrdma_reg_put(rpc, call->reg[i]);
	}
	call->nregs = 0;
	LIST_REMOVE(call, entry);
	/* A connection that this endpoint closed may still send from offered memory, which is
	 * freed with the endpoint. */
	if (!rpc->down) {
		weft_rpcrdma_call_release(call);
		LIST_INSERT_HEAD(&rpc->free_calls, call, entry);
	}

	rpc->error = error;
	rpc->unsent = unsent;
	fn(arg, status, status == WEFT_RPC_OK ? res : NULL);
	rpc->error = before;
	rpc->unsent = before_unsent;
	if (res != NULL) {
		xdr_free(xdr_res, res);
		free(res);
	}
}

static void
call_inv_done(void *owner, bool ok)
{
	(void)ok;
	call_finish(owner);
}

/* Regions whose registration was never posted are not valid. */
static void
call_unposted(struct rpcrdma_call *call)
{
	for (unsigned int i = 0; i < call->nregs; i++)
		if (call->msg != NULL && call->reg[i]->batch == &call->msg->pre &&
		    call->reg[i]->at >= call->msg->pre.posted)
			call->reg[i]->valid = false;
}

void
weft_rpcrdma_call_end(struct rpcrdma_call *call, enum weft_rpc_status status)
{
	struct weft_rpc *rpc = call->rpc;

	if (call->ended) {
		if (rpc->down) /* the invalidation will not be reported */
			call_finish(call);
		return;
	}
	call->ended = true;
	call->status = status;
	if (call->msg != NULL)
		call->unsent = call->msg->queued && !call->msg->begun;
	/* RFC 8166 s3.3.1: a call without an answer keeps its credit. */
	if (call->counted && status == WEFT_RPC_TIMEDOUT)
		rpc->credit1.lost++;
	else if (call->counted)
		rpc->credit1.calls--;
	if (call->alarm != NULL)
		weft_alarm_cancel(call->alarm);
	call->alarm = NULL;
	call_unposted(call);
	for (unsigned int i = 0; i < call->nregs; i++)
		if (status == WEFT_RPC_TIMEDOUT && call->reg[i]->valid &&
		    call->reg[i]->stag == call->inv_stag)
			call->late = true;
	if (call->msg != NULL)
		weft_rpcrdma_msg_forget(rpc, call->msg);
	if (rpc->down) {
		call_finish(call);
		return;
	}
	/* s7.4: without invalidation the connection has to go before the call ends. */
	if (weft_rpcrdma_reg_inv(&call->inv, call->reg, call->nregs) != 0) {
		weft_rpcrdma_fail(rpc);
		return;
	}
	if (call->inv.n == 0) {
		call_finish(call);
		return;
	}
	call->inv.done = call_inv_done;
	call->inv.owner = call;
	weft_rpcrdma_batch_queue(rpc, &call->inv);
}

void
weft_rpcrdma_calls_end(struct weft_rpc *rpc, enum weft_rpc_status status)
{
	struct rpcrdma_call *c;

	/* When the endpoint is down, each call ends at once. Else calls that wait for their
	 * invalidation end after it. */
	for (;;) {
		LIST_FOREACH (c, &rpc->calls, entry)
			if (rpc->down || !c->ended)
				break;
		if (c == NULL)
			return;
		weft_rpcrdma_call_end(c, status);
	}
}

static void
call_timeout(void *arg)
{
	struct rpcrdma_call *call = arg;
	struct weft_rpc *rpc = call->rpc;

	weft_rpcrdma_enter(rpc);
	call->alarm = NULL;
	weft_rpcrdma_call_end(call, WEFT_RPC_TIMEDOUT);
	weft_rpcrdma_leave(rpc);
}

/* ---- The message ---- */

uint32_t
weft_rpcrdma_new_xid(struct weft_rpc *rpc)
{
	uint32_t xid;

	/* Grants have 0. After 2^32 calls an xid may, if rarely, still be in use. */
	do {
		xid = rpc->next_xid++;
	} while (xid == 0 || weft_rpcrdma_call_find(rpc, xid) != NULL);
	return xid;
}

static bool
call_encode_rpc(const struct rpcrdma_call *call, XDR *xdr)
{
	const struct weft_rpc_call_attr *a = &call->a;
	struct rpc_msg msg = {
	        .rm_xid = call->xid,
	        .rm_direction = CALL,
	        .rm_call =
	                {
	                        .cb_rpcvers = RPC_MSG_VERSION,
	                        .cb_prog = a->prog,
	                        .cb_vers = a->vers,
	                        .cb_proc = a->proc,
	                        .cb_cred = _null_auth,
	                        .cb_verf = _null_auth,
	                },
	};

	if (a->encode != NULL)
		return a->encode(a->arg, xdr, call->xid);
	return xdr_callmsg(xdr, &msg) && a->xdr_args(xdr, (void *)(uintptr_t)a->args);
}

int
weft_rpcrdma_call_encode(struct rpcrdma_call *call, bool reduce)
{
	const struct weft_rpc_binding *b = call->a.binding;
	struct rpcrdma_out *o = &call->out;
	unsigned int n;
	XDR xdr;

	o->max_bytes = call->rpc->a.max_message_bytes;
	o->nitems = 0;
	n = reduce && b != NULL && b->args != NULL && !b->call_only
	            ? b->args(call->a.args, o->items)
	            : 0;
	for (unsigned int i = 0; i < n; i++)
		if (o->items[i].len_bytes > 0)
			o->items[o->nitems++] = o->items[i];
	rpcrdma_out_open(o, &xdr);
	if (call_encode_rpc(call, &xdr))
		return 0;
	return o->error != 0 ? o->error : -EINVAL;
}

/* ---- Layout: format and chunks, once it is known what the peer speaks and takes ---- */

static int
call_offer(struct rpcrdma_call *call, void *addr, uint32_t len_bytes, uint32_t access,
           struct rpcrdma_segment *segs)
{
	struct weft_rpc *rpc = call->rpc;
	uint32_t max = rpc->a.max_segment_bytes < rpc->peer.seg_bytes ? rpc->a.max_segment_bytes
	                                                              : rpc->peer.seg_bytes;
	struct rpcrdma_reg *reg;
	unsigned int n, cap;
	int rc = weft_rpcrdma_reg_get(rpc, &call->msg->pre, addr, len_bytes, access, &reg);

	if (rc != 0)
		return rc;
	call->reg[call->nregs++] = reg;
	/* s5.2.4; version 1 does not tell */
	cap = rpc->vers == RPCRDMA_V2 && rpc->peer.segs < RPCRDMA_CALL_SEGS ? rpc->peer.segs
	                                                                    : RPCRDMA_CALL_SEGS;
	if (cap <= call->msg->hdr.chunks.n_segs)
		return -EMSGSIZE;
	n = weft_rpcrdma_reg_segs(reg, len_bytes, max < 4 ? 4 : max & ~3u, segs,
	                          cap - call->msg->hdr.chunks.n_segs);
	if (rpc->vers == RPCRDMA_V2 && call->msg->hdr.chunks.inv_handle == 0 &&
	    !rpc->a.no_invalidate)
		call->msg->hdr.chunks.inv_handle = call->inv_stag = reg->stag;
	return n == 0 ? -EMSGSIZE : (int)n;
}

static int
call_layout_reads(struct rpcrdma_call *call)
{
	struct rpcrdma_out *o = &call->out;
	struct rpcrdma_segment segs[RPCRDMA_CALL_SEGS];

	for (unsigned int i = 0; i < o->nitems; i++) {
		int n, rc;

		if (o->pos[i] == UINT32_MAX)
			continue; /* the XDR routine has no such item: it stays where it is */
		n = call_offer(call, o->items[i].addr, o->items[i].len_bytes,
		               WEFT_ACCESS_REMOTE_READ, segs);
		if (n < 0)
			return n;
		rc = weft_rpcrdma_read_add(&call->msg->hdr.chunks, o->pos[i], segs,
		                           (unsigned int)n);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/*
 * RFC 8166 s4.3.2.2: when a result is missing, the next result takes its chunk. So a chunk must
 * have room for its own result and for each later one: its room is the longest of these.
 *
 * The caller's memory is offered only as the first chunk, and only if no later result is longer.
 * All other chunks get memory of the endpoint. A result that did not arrive in its own place is
 * copied there while the results are decoded.
 */
static void
call_rooms(struct rpcrdma_call *call)
{
	uint32_t room = 0;

	for (unsigned int i = call->nsinks; i-- > 0;) {
		struct weft_rpc_sink *k = &call->sink[i];

		if (k->max_bytes > room)
			room = k->max_bytes;
		call->room_bytes[i] = k->max_bytes > 0 ? room : 0;
		if (i > 0 || call->room_bytes[i] != k->max_bytes)
			k->addr = NULL;
	}
}

static int
call_layout_writes(struct rpcrdma_call *call)
{
	const struct weft_rpc_binding *b = call->a.binding;
	struct rpcrdma_segment segs[RPCRDMA_CALL_SEGS];

	if (b == NULL || b->sinks == NULL || b->call_only || call->no_writes)
		return 0;
	if (call->nsinks == 0) {
		call->nsinks = b->sinks(call->a.args, call->sink);
		call_rooms(call);
	}
	for (unsigned int i = 0; i < call->nsinks; i++) {
		struct weft_rpc_sink *k = &call->sink[i];
		uint32_t room = call->room_bytes[i];
		int n = 0, rc;

		if (k->addr == NULL && room > 0) {
			k->addr = malloc(room);
			if (k->addr == NULL)
				return -ENOMEM;
			call->own_sink[i] = true;
		}
		if (room > 0) {
			n = call_offer(call, k->addr, room,
			               WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_WRITE, segs);
			if (n < 0)
				return n;
		}
		rc = weft_rpcrdma_write_add(&call->msg->hdr.chunks, segs, (unsigned int)n);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* Octets of the header of an inline reply, which returns the call's Write chunks with all
 * segments. */
static uint32_t
call_reply_hdr_bytes(const struct rpcrdma_call *call)
{
	struct rpcrdma_hdr h;

	weft_rpcrdma_hdr_init(&h, call->rpc->vers,
	                      call->rpc->vers == RPCRDMA_V2 ? RDMA2_REPLY_INLINE : RDMA1_MSG,
	                      call->xid);
	weft_rpcrdma_chunks_return(&h.chunks, &call->msg->hdr.chunks, false);
	return weft_rpcrdma_hdr_bytes(&h);
}

/*
 * Room for a reply that may not fit inline. RFC 8166 s4.3.3: "A Requester MUST provide a Reply
 * chunk whenever the maximum possible size of the RPC Reply message's Transport and Payload streams
 * is larger than the inline threshold".
 */
static int
call_layout_reply(struct rpcrdma_call *call)
{
	const struct weft_rpc_binding *b = call->a.binding;
	struct weft_rpc *rpc = call->rpc;
	uint64_t want = b != NULL && b->reply_bytes != NULL ? b->reply_bytes(call->a.args) : 0;
	struct rpcrdma_segment segs[RPCRDMA_CALL_SEGS];
	int n;

	if ((call->no_reply && rpc->vers == RPCRDMA_V2) || (b != NULL && b->call_only))
		return 0;
	if (call->no_writes)
		for (unsigned int i = 0; i < call->nsinks; i++)
			want += call->sink[i].max_bytes + 4ULL;
	if (want < call->want_reply_bytes)
		want = call->want_reply_bytes;
	if (want + call_reply_hdr_bytes(call) <= weft_rpcrdma_threshold(rpc))
		return 0;
	if (want > rpc->a.max_message_bytes)
		want = rpc->a.max_message_bytes;
	want = (want + 3) & ~3ULL;
	if (call->reply == NULL || call->reply_bytes < want) {
		uint8_t *p = malloc(want);

		if (p == NULL)
			return -ENOMEM;
		/* Not reallocated: a region of the previous try still refers to it. */
		if (call->reply != NULL)
			call->outgrown[call->noutgrown++] = call->reply;
		call->reply = p;
		call->reply_bytes = (uint32_t)want;
	}
	n = call_offer(call, call->reply, call->reply_bytes,
	               WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_WRITE, segs);
	return n < 0 ? n : weft_rpcrdma_reply_set(&call->msg->hdr.chunks, segs, (unsigned int)n);
}

/* Lay out the call itself: inline behind its header, in parts, or in a Call chunk. */
static int
call_layout_body(struct rpcrdma_call *call)
{
	struct weft_rpc *rpc = call->rpc;
	struct rpcrdma_msg *m = call->msg;
	uint32_t threshold = weft_rpcrdma_threshold(rpc);
	bool only = call->a.binding != NULL && call->a.binding->call_only;
	struct rpcrdma_segment segs[RPCRDMA_CALL_SEGS];
	bool parts;
	int n;

	m->payload = call->out.buf;
	m->payload_bytes = call->out.len_bytes;
	if (weft_rpcrdma_hdr_bytes(&m->hdr) + m->payload_bytes <= threshold)
		return 0;
	parts = rpc->vers == RPCRDMA_V2 &&
	        (!rpc->a.server || rpc->peer.reverse >= RDMA2_RVRSDIR_CONT) &&
	        weft_rpcrdma_hdr_bytes(&m->hdr) + 4 <= threshold;
	if (parts && (only || m->payload_bytes <= RPCRDMA_CONT_PARTS * threshold))
		return 0;
	if (only || (call->no_external && rpc->vers == RPCRDMA_V2) ||
	    (rpc->a.server && rpc->vers == RPCRDMA_V2 && rpc->peer.reverse < RDMA2_RVRSDIR_GENL))
		return parts ? 0 : -EMSGSIZE;
	call->external = true;
	n = call_offer(call, call->out.buf, call->out.len_bytes, WEFT_ACCESS_REMOTE_READ, segs);
	if (n < 0)
		return n;
	m->payload = NULL;
	m->payload_bytes = 0;
	m->hdr.p.htype = rpc->vers == RPCRDMA_V2 ? RDMA2_CALL_EXTERNAL : RDMA1_NOMSG;
	n = weft_rpcrdma_call_set(&m->hdr.chunks, segs, (unsigned int)n);
	if (n == 0 && weft_rpcrdma_hdr_bytes(&m->hdr) > threshold)
		n = -EMSGSIZE;
	return n;
}

/* Take back the regions that were offered for this message, none of which was posted. */
static void
call_take_back(struct rpcrdma_call *call, unsigned int nregs)
{
	while (call->nregs > nregs)
		weft_rpcrdma_reg_put(call->rpc, call->reg[--call->nregs]);
	call->msg->pre.n = 0;
}

/*
 * Leave out one more kind of chunk, so that the call needs fewer segments and a shorter header.
 * Items then go in the message, and results in the Reply chunk. In version 2 that one can be left
 * out, too, and the call be continued (s6.6.2). False: no further kind is left.
 */
bool
weft_rpcrdma_call_leaner(struct rpcrdma_call *call)
{
	if (!call->no_reads && call->out.nitems > 0)
		return call->no_reads = true;
	if (!call->no_writes && call->nsinks > 0)
		return call->no_writes = true;
	if (call->rpc->vers != RPCRDMA_V2)
		return false;
	if (!call->no_reply && call->reply != NULL)
		return call->no_reply = true;
	if (!call->no_external && call->external)
		return call->no_external = true;
	return false;
}

static int
call_layout_once(struct rpcrdma_call *call)
{
	struct weft_rpc *rpc = call->rpc;
	struct rpcrdma_msg *m = call->msg;
	bool chunks = !rpc->a.server || rpc->vers == RPCRDMA_V1 ||
	              rpc->peer.reverse == RDMA2_RVRSDIR_GENL;
	uint32_t whole;
	int rc = 0;

	call->external = false;
	weft_rpcrdma_hdr_init(&m->hdr, rpc->vers,
	                      rpc->vers == RPCRDMA_V2 ? RDMA2_CALL_INLINE : RDMA1_MSG, call->xid);
	/* Items go inline where they can: a Read would cost a round trip. */
	whole = call->out.len_bytes + call->out.removed_bytes;
	if (call->out.nitems > 0 &&
	    (call->no_reads || !chunks || whole + CALL_HDR_BYTES <= weft_rpcrdma_threshold(rpc)))
		rc = weft_rpcrdma_call_encode(call, false);
	if (rc == 0 && chunks)
		rc = call_layout_reads(call);
	if (rc == 0 && chunks)
		rc = call_layout_writes(call);
	if (rc == 0 && chunks)
		rc = call_layout_reply(call);
	if (rc == 0)
		rc = call_layout_body(call);
	return rc;
}

int
weft_rpcrdma_call_layout(struct rpcrdma_call *call)
{
	unsigned int nregs = call->nregs;
	int rc;

	do {
		call_take_back(call, nregs);
		rc = call_layout_once(call);
	} while (rc == -EMSGSIZE && weft_rpcrdma_call_leaner(call));
	call->nsegs = call->msg->hdr.chunks.n_segs;
	return rc;
}

/* ---- Making a call ---- */

int
weft_rpcrdma_call_queue(struct rpcrdma_call *call)
{
	struct weft_rpc *rpc = call->rpc;

	call->msg = weft_rpcrdma_msg_new(rpc, RPCRDMA_CALL, RDMA2_CALL_INLINE, call->xid);
	if (call->msg == NULL)
		return -ENOMEM;
	call->msg->call = call;
	weft_rpcrdma_queue(rpc, call->msg);
	return 0;
}

static int
call_check(const struct weft_rpc *rpc, const struct weft_rpc_call_attr *a)
{
	if (a->fn == NULL || (a->encode == NULL) != (a->decode == NULL))
		return -EINVAL;
	if (rpc->down || weft_rpcrdma_is_dead(rpc))
		return -ENOTCONN;
	if (rpc->bad_vers)
		return -EPROTONOSUPPORT;
	return 0;
}

/** Allocate the calls, at the first one. -ENOMEM. */
static int
calls_make(struct weft_rpc *rpc)
{
	if (rpc->call_mem != NULL)
		return 0;
	rpc->call_mem = calloc(WEFT_RPC_MAX_CALLS, sizeof(*rpc->call_mem));
	if (rpc->call_mem == NULL)
		return -ENOMEM;
	for (unsigned int i = 0; i < WEFT_RPC_MAX_CALLS; i++)
		LIST_INSERT_HEAD(&rpc->free_calls, &rpc->call_mem[i], entry);
	return 0;
}

int
weft_rpc_call_with(struct weft_rpc *rpc, const struct weft_rpc_call_attr *attr)
{
	struct weft_rpc_call_attr other; /* of another version of the program */
	struct rpcrdma_call *call;
	int rc = weft_handle_check(rpc, &rpcrdma_rpc_kind, __func__) < 0 || attr == NULL ? -EINVAL
	                                                                                 : 0;

	if (rc == 0 && attr->size != sizeof(*attr)) {
		rc = weft_attr_copy(&other, sizeof(other), attr);
		attr = &other;
	}
	if (rc == 0)
		rc = call_check(rpc, attr);
	if (rc == 0)
		rc = calls_make(rpc);
	if (rc != 0)
		return rc;
	call = LIST_FIRST(&rpc->free_calls);
	if (call == NULL)
		return -EAGAIN;
	call->rpc = rpc;
	call->a = *attr;
	call->xid = attr->xid != 0 && weft_rpcrdma_call_find(rpc, attr->xid) == NULL
	                    ? attr->xid
	                    : weft_rpcrdma_new_xid(rpc);
	if (call->a.xdr_args == NULL)
		call->a.xdr_args = weft_rpc_xdr_void;
	if (call->a.xdr_res == NULL)
		call->a.xdr_res = weft_rpc_xdr_void;
	if (attr->res_init != NULL && attr->res_bytes > 0) {
		call->res_init = malloc(attr->res_bytes);
		rc = call->res_init == NULL ? -ENOMEM : 0;
		if (rc == 0)
			memcpy(call->res_init, attr->res_init, attr->res_bytes);
	}
	if (rc == 0)
		rc = weft_rpcrdma_call_encode(call, true);
	if (rc == 0)
		rc = weft_alarm_set(rpc->worker,
		                    attr->timeout_us != 0 ? attr->timeout_us : RPCRDMA_TIMEOUT_US,
		                    call_timeout, call, &call->alarm);
	if (rc == 0)
		rc = weft_rpcrdma_call_queue(call);
	if (rc != 0)
		goto undo;
	LIST_REMOVE(call, entry);
	LIST_INSERT_HEAD(&rpc->calls, call, entry);
	if (rpc->depth > 0)
		return 0; /* it is sent when the present entry leaves */

	rpc->depth++;
	rc = rpc->ops->pump(rpc);
	if (rc == -ENOTCONN) {
		/* The QP was never connected, so nothing of the queue was sent: take this call
		 * back. */
		call_unposted(call);
		weft_rpcrdma_msg_free(rpc, call->msg);
		for (unsigned int i = 0; i < call->nregs; i++)
			weft_rpcrdma_reg_put(rpc, call->reg[i]);
		weft_rpcrdma_leave(rpc);
		goto undo;
	}
	weft_rpcrdma_leave(rpc);
	return 0;

undo:
	LIST_REMOVE(call, entry);
	if (call->alarm != NULL)
		weft_alarm_cancel(call->alarm);
	weft_rpcrdma_call_release(call);
	LIST_INSERT_HEAD(&rpc->free_calls, call, entry);
	return rc;
}

int
weft_rpc_call(struct weft_rpc *rpc, uint32_t prog, uint32_t vers, uint32_t proc, xdrproc_t xdr_args,
              const void *args, xdrproc_t xdr_res, size_t res_bytes, uint64_t timeout_us,
              weft_rpc_fn fn, void *arg)
{
	const struct weft_rpc_call_attr a = {
	        .size = sizeof(a),
	        .prog = prog,
	        .vers = vers,
	        .proc = proc,
	        .xdr_args = xdr_args,
	        .args = args,
	        .xdr_res = xdr_res,
	        .res_bytes = res_bytes,
	        .timeout_us = timeout_us,
	        .fn = fn,
	        .arg = arg,
	};

	return weft_rpc_call_with(rpc, &a);
}
