/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Responder: reads the chunks of a call into memory of the endpoint, or to the place that
 * the consumer names. */

#include <errno.h>
#include <stdlib.h>

#include <rpc/rpc.h>
#include <rpc/rpc_msg.h>

#include "rpcrdma_drc.h"
#include "rpcrdma_mem.h"
#include "rpcrdma_priv.h"
#include "rpcrdma_program.h"
#include "rpcrdma_req.h"

/* The promise of weft_rpc_xdr_lend(). */
#define PULL_ALIGN RPCRDMA_KEPT_ALIGN

/*
 * Octets to allocate beside what is read, so that the first argument can begin at a multiple of
 * PULL_ALIGN. malloc() and not posix_memalign(): the memory of one call then serves the next one
 * of its length, and all of it is charged.
 */
static uint32_t
pull_slack(const struct rpcrdma_chunks *c)
{
	unsigned int first = 0;

	while (first < c->n_reads && c->reads[first].len_bytes == 0)
		first++;
	if (c->call.len_bytes > 0 || first == c->n_reads || c->reads[first].len_bytes < PULL_ALIGN)
		return 0;
	return PULL_ALIGN - 1;
}

static void
pull_count(struct weft_rpc_req *req, uint32_t total)
{
	req->pulled_bytes = total;
	req->rpc->pulled_bytes += total;
}

/* A sink with memory, for a short message. */
static bool
pull_kept(struct weft_rpc_req *req, uint32_t total, struct weft_rpc_place *at)
{
	if (total > RPCRDMA_KEPT_BYTES ||
	    weft_rpcrdma_kept_get(req->rpc, &req->pull, total, &req->reg) != 0)
		return false;
	pull_count(req, total);
	*at = (struct weft_rpc_place){req->reg->buf, req->reg->stag};
	return true;
}

/* Memory for `total` octets, charged to the endpoint and registered. Returns what
 * weft_rpcrdma_pull() returns. */
static uint32_t
pull_memory(struct weft_rpc_req *req, uint32_t total, struct weft_rpc_place *at)
{
	const uint32_t slack = pull_slack(req->chunks);
	const uint64_t held_bytes = (uint64_t)total + slack;
	struct weft_rpc *rpc = req->rpc;
	uint8_t *to;

	if (pull_kept(req, total, at))
		return 0;
	if (!weft_rpcrdma_hold(rpc, held_bytes))
		return rpcrdma_budget_never(rpc->a.budget, held_bytes) ? RDMA2_ERR_SYSTEM
		                                                       : RPCRDMA_PULL_NO_ROOM;
	req->held_bytes += held_bytes;
	req->pulled = malloc(held_bytes);
	if (req->pulled == NULL)
		return RDMA2_ERR_SYSTEM;
	to = req->pulled;
	if (slack > 0)
		to += -(uintptr_t)to % PULL_ALIGN;
	pull_count(req, total);
	if (weft_rpcrdma_sink_get(rpc, &req->pull, to, total, &req->reg) != 0)
		return RDMA2_ERR_SYSTEM;
	*at = (struct weft_rpc_place){to, req->reg->stag};
	return 0;
}

/*
 * Ask the consumer where it wants the one argument that is to be read. The arguments decoded for
 * that are checked again when the message is complete, and refused then.
 */
static bool
pull_place(struct weft_rpc_req *req, struct weft_rpc_place *at)
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
	proc = weft_rpcrdma_proc_find(rpc->a.programs, &call, &reply, &null);
	if (proc == NULL || proc->place == NULL)
		return false;
	/* A repeated call would overwrite what was written after its first execution. */
	if (proc->once && rpc->a.drc != NULL && weft_rpcrdma_drc_known(rpc->a.drc, rpc, req->p.xid))
		return false;
	return proc->place(rpc->a.user, &xdr, (uint32_t)c->reads[0].len_bytes, at);
}

static int
pull_chunk(struct weft_rpc_req *req, const struct rpcrdma_chunk *k, uint8_t *to, uint32_t stag)
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

uint32_t
weft_rpcrdma_pull(struct weft_rpc_req *req, void (*done)(void *owner, bool ok))
{
	const struct rpcrdma_chunks *c = req->chunks;
	struct rpcrdma_in *in = &req->in;
	uint64_t total = c->call.len_bytes, end = 4;
	struct weft_rpc_place at;
	uint8_t *to;

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
	if (!pull_place(req, &at)) {
		uint32_t code = pull_memory(req, (uint32_t)total, &at);

		if (code != 0)
			return code;
	}
	to = at.addr;
	if (c->call.n_segs > 0) {
		if (pull_chunk(req, &c->call, to, at.stag) != 0)
			return RDMA2_ERR_SYSTEM;
		in->buf = to;
		in->len_bytes = (uint32_t)c->call.len_bytes;
		to += c->call.len_bytes;
	}
	for (unsigned int i = 0; i < c->n_reads; i++) {
		if (c->reads[i].len_bytes == 0)
			continue;
		if (pull_chunk(req, &c->reads[i], to, at.stag) != 0)
			return RDMA2_ERR_SYSTEM;
		in->items[in->nitems++] = (struct rpcrdma_in_item){
		        .data = to,
		        .len_bytes = (uint32_t)c->reads[i].len_bytes,
		        .where = c->reads[i].position,
		};
		to += c->reads[i].len_bytes;
	}
	req->pull.done = done;
	req->pull.owner = req;
	weft_rpcrdma_batch_queue(req->rpc, &req->pull);
	req->reading = true;
	if (req->rpc->a.timed)
		req->asked_ns = weft_worker_now_ns(req->rpc->worker);
	weft_rpcrdma_unfinished(req->rpc);
	return 0;
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
