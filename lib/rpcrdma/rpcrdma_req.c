/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Responder: the life of a call of the peer. What the call holds, and who has it. */

#include <stdlib.h>
#include <string.h>

#include "rpcrdma_drc.h"
#include "rpcrdma_mem.h"
#include "rpcrdma_priv.h"
#include "rpcrdma_req.h"

static struct weft_handle_kind rpcrdma_req_kind = {.name = "RPC request"};

/* The octets read for the request are freed, or no longer count for its endpoint. */
static void
req_uncount(struct weft_rpc_req *req)
{
	if (req->rpc == NULL || req->held_bytes == 0)
		return;
	/* The rest is freed with the request. */
	weft_rpcrdma_let_go(req->rpc, req->held_bytes - sizeof(*req));
	req->held_bytes = sizeof(*req);
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

/*
 * The sink goes, whose Reads may be under way. The consumer, or the cache, may still look at what
 * was read: memory of the sink becomes the request's.
 */
static void
req_leave_sink(struct weft_rpc_req *req)
{
	if (req->reg == NULL)
		return;
	if (req->reg->buf != NULL)
		req->pulled = weft_rpcrdma_kept_take(req->rpc, req->reg);
	weft_rpcrdma_reg_free(req->rpc, req->reg);
	req->reg = NULL;
}

/* An endpoint without calls has no more than its own free octets: it would be charged for nothing,
 * and may be ended for others. */
static void
req_trim_sinks(struct weft_rpc *rpc)
{
	while (rpc->nreqs == 0 && rpc->sinks_kept.n > 0 &&
	       (rpc->holder.bytes > WEFT_RPC_BUDGET_OWN ||
	        rpc->sinks_kept.bytes > WEFT_RPC_BUDGET_OWN))
		weft_rpcrdma_kept_trim(rpc, rpc->sinks_kept.n - 1);
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
	req_leave_sink(req);
	req_uncount(req);
	if (!parked)
		weft_rpcrdma_let_go(rpc, req->held_bytes + req->out_held_bytes);
	req->held_bytes = req->out_held_bytes = 0;
	LIST_REMOVE(req, entry);
	rpc->nreqs--;
	rpc->refresh = true;
	req->rpc = NULL;
	req_trim_sinks(rpc);
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

void
weft_rpcrdma_req_free_message(struct weft_rpc_req *req)
{
	/* First, because lent data is in the buffers below. */
	req_xdr_free(req->proc != NULL ? req->proc->xdr_args : NULL, req->args);
	free(req->own_payload);
	free(req->pulled);
	if (req->reg != NULL && req->reg->buf != NULL) {
		weft_rpcrdma_kept_put(req->rpc, req->reg);
		req->reg = NULL;
	}
	req->args = NULL;
	req->payload = req->own_payload = req->pulled = NULL;
	req->in = (struct rpcrdma_in){0};
	req_uncount(req);
}

static void
req_free_call(struct weft_rpc_req *req)
{
	weft_rpcrdma_req_free_message(req);
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

struct weft_rpc *
weft_rpc_req_endpoint(const struct weft_rpc_req *req)
{
	return weft_handle_check(req, &rpcrdma_req_kind, __func__) < 0 ? NULL : req->rpc;
}

void
weft_rpc_req_waits(const struct weft_rpc_req *req, struct weft_rpc_waits *w)
{
	if (w == NULL)
		return;
	memset(w, 0, sizeof(*w));
	if (weft_handle_check(req, &rpcrdma_req_kind, __func__) < 0 || req->rpc == NULL ||
	    !req->rpc->a.timed)
		return;
	w->read_ns = req->read_ns - req->asked_ns;
	w->room_ns = weft_worker_now_ns(req->rpc->worker) - req->came_ns - w->read_ns;
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

void
weft_rpcrdma_req_give(struct weft_rpc_req *req)
{
	req->serving = true;
	req_busy(req, true);
	weft_handle_init(&req->h, &rpcrdma_req_kind);
}
