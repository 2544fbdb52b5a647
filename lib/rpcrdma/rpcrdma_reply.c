/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Responder: the answer to a call of the peer. The format of the reply (draft s6.6.4,
 * RFC 8166 s3.5), the Writes in front of it, and the error when it cannot be conveyed.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpcrdma_drc.h"
#include "rpcrdma_mem.h"
#include "rpcrdma_msg.h"
#include "rpcrdma_priv.h"
#include "rpcrdma_req.h"

/* Charge n more heap octets for the answer. */
static bool
reply_more(void *owner, uint64_t n)
{
	struct weft_rpc_req *req = owner;

	if (!weft_rpcrdma_hold(req->rpc, n)) {
		req->never = rpcrdma_budget_never(req->rpc->a.budget, req->out_held_bytes + n);
		return false;
	}
	req->out_held_bytes += n;
	return true;
}

/* Write len octets into the segments of a chunk that the caller gave, in its order. */
static int
reply_writes(struct weft_rpc_req *req, struct rpcrdma_batch *b, const struct rpcrdma_chunk *k,
             uint8_t *from, uint32_t len_bytes)
{
	const struct rpcrdma_segment *s = weft_rpcrdma_segs(req->chunks, k);
	int rc = weft_rpcrdma_batch_room(b, k->n_segs);

	if (rc != 0)
		return rc;
	req->rpc->stats.write_chunks++;
	req->rpc->stats.write_bytes += len_bytes;
	for (unsigned int i = 0; i < k->n_segs && len_bytes > 0; i++) {
		uint32_t n = len_bytes < s[i].len_bytes ? len_bytes : s[i].len_bytes;
		struct weft_wr *wr;

		if (n == 0)
			continue;
		wr = weft_rpcrdma_batch_add(b, from, n);
		wr->opcode = WEFT_WR_WRITE;
		wr->rdma.stag = s[i].handle;
		wr->rdma.to = s[i].offset;
		from += n;
		len_bytes -= n;
	}
	return 0;
}

static void
reply_error(struct weft_rpc_req *req, uint32_t code, uint32_t a, uint32_t b)
{
	struct weft_rpc *rpc = req->rpc;
	struct rpcrdma_prefix p = req->p;

	weft_rpcrdma_req_free(req); /* first: an error without room for it closes everything */
	weft_rpcrdma_error(rpc, &p, &(struct rpcrdma_err){code, a, b});
}

/*
 * Put eligible results into Write chunks in turn (s4.5.2.1, RFC 8166 s4.3.2.2). A result that is
 * missing or empty leaves its chunk to the next one. The result of a chunk without segments goes
 * inline (RFC 8166 s4.3.2.3).
 */
static void
reply_reduce(struct weft_rpc_req *req, const struct weft_rpc_item *items, unsigned int nitems,
             uint8_t *chunk)
{
	const struct rpcrdma_chunks *c = req->chunks;
	unsigned int k = 0;

	req->out.nitems = 0;
	for (unsigned int i = 0; i < nitems && c != NULL && k < c->n_writes; i++) {
		if (items[i].len_bytes == 0)
			continue;
		if (c->writes[k].n_segs > 0) {
			chunk[req->out.nitems] = (uint8_t)k;
			req->out.items[req->out.nitems++] = items[i];
		}
		k++;
	}
}

/* Check that the chunk is large enough for the result; the error tells which chunk is not, and
 * what it needs (s7.3.4). */
static bool
reply_fits(const struct weft_rpc_req *req, const uint8_t *chunk, struct rpcrdma_err *err)
{
	for (unsigned int i = 0; i < req->out.nitems; i++) {
		uint32_t len = req->out.items[i].len_bytes;

		if (req->out.pos[i] == UINT32_MAX || len <= req->chunks->writes[chunk[i]].len_bytes)
			continue;
		*err = (struct rpcrdma_err){RDMA2_ERR_WRITE_RESOURCE, chunk[i] + 1u, len};
		return false;
	}
	return true;
}

/* Return the chunks with their filled lengths; a chunk that nothing was written to is returned
 * as unused. */
static int
reply_chunks(struct weft_rpc_req *req, struct rpcrdma_msg *m, const uint8_t *chunk)
{
	struct rpcrdma_chunks *r = &m->hdr.chunks;
	unsigned int taken = 0;
	uint8_t *copy = NULL;

	if (req->chunks == NULL)
		return 0;
	if (req->raw && req->out.removed_bytes > 0) {
		if (!reply_more(req, req->out.removed_bytes))
			return -EAGAIN;
		copy = req->results = malloc(req->out.removed_bytes);
		if (copy == NULL)
			return -ENOMEM;
	}
	weft_rpcrdma_chunks_return(r, req->chunks, req->p.vers == RPCRDMA_V1);
	for (unsigned int i = 0; i < r->n_writes; i++) {
		const struct weft_rpc_item *it = &req->out.items[taken];
		uint32_t len = 0;
		int rc;

		/* An item that the XDR routine did not meet is in the stream. */
		if (taken < req->out.nitems && chunk[taken] == i &&
		    req->out.pos[taken++] != UINT32_MAX)
			len = it->len_bytes;
		if (len > 0) {
			uint8_t *from = it->addr;

			if (copy != NULL) {
				from = memcpy(copy, from, len);
				copy += len;
			}
			rc = reply_writes(req, &m->pre, &req->chunks->writes[i], from, len);
			if (rc != 0)
				return rc;
		}
		weft_rpcrdma_chunk_fill(r, &r->writes[i], len);
	}
	return 0;
}

/* Choose the format. 0: m conveys the reply. 1: m cannot, and *err says why. -errno. */
static int
reply_format(struct weft_rpc_req *req, struct rpcrdma_msg *m, struct rpcrdma_err *err)
{
	struct weft_rpc *rpc = req->rpc;
	uint32_t threshold = weft_rpcrdma_threshold(rpc), len = req->out.len_bytes;
	const struct rpcrdma_chunks *c = req->chunks;
	bool v2 = req->p.vers == RPCRDMA_V2;
	int rc;

	m->payload = req->out.buf;
	m->payload_bytes = len;
	if (weft_rpcrdma_hdr_bytes(&m->hdr) + len <= threshold) {
		if (m->hdr.chunks.has_reply) /* version 1 returns it unused */
			weft_rpcrdma_chunk_fill(&m->hdr.chunks, &m->hdr.chunks.reply, 0);
		return 0;
	}
	*err = (struct rpcrdma_err){RDMA2_ERR_REPLY_RESOURCE, len, 0};
	/* s6.6.3: a Reply chunk that is large enough must be used */
	if (c != NULL && c->has_reply && c->reply.len_bytes >= len) {
		m->payload = NULL;
		m->payload_bytes = 0;
		m->hdr.p.htype = v2 ? RDMA2_REPLY_EXTERNAL : RDMA1_NOMSG;
		if (v2) {
			struct rpcrdma_segment segs[RPCRDMA_MAX_SEGS];

			memcpy(segs, weft_rpcrdma_segs(c, &c->reply),
			       c->reply.n_segs * sizeof(segs[0]));
			rc = weft_rpcrdma_reply_set(&m->hdr.chunks, segs, c->reply.n_segs);
			if (rc != 0)
				return rc;
		}
		weft_rpcrdma_chunk_fill(&m->hdr.chunks, &m->hdr.chunks.reply, len);
		if (weft_rpcrdma_hdr_bytes(&m->hdr) > threshold)
			return 1;
		return reply_writes(req, &m->pre, &c->reply, req->out.buf, len);
	}
	/* s6.6.4: else the reply is continued, unless the client has said that it does not
	 * support that (s5.2.5) */
	if (!rpc->a.server && rpc->a.reverse < WEFT_RPC_REVERSE_CONT)
		return 1;
	return v2 && weft_rpcrdma_hdr_bytes(&m->hdr) + 4 <= threshold ? 0 : 1;
}

/* s6.5: a handle of the call's chunks, if the call names one; another handle is ignored. */
static uint32_t
reply_inv_stag(const struct weft_rpc_req *req)
{
	const struct rpcrdma_chunks *c = req->chunks;

	if (req->p.vers != RPCRDMA_V2 || c == NULL || c->inv_handle == 0)
		return 0;
	for (unsigned int i = 0; i < c->n_segs; i++)
		if (c->segs[i].handle == c->inv_handle)
			return c->inv_handle;
	return 0;
}

/* No room: free what was made of the answer. False: there never will be room, and the error was
 * sent. */
static bool
reply_later(struct weft_rpc_req *req)
{
	struct weft_rpc *rpc = req->rpc;

	rpcrdma_out_free(&req->out);
	free(req->results);
	req->results = NULL;
	weft_rpcrdma_let_go(rpc, req->out_held_bytes);
	req->out_held_bytes = 0;
	if (!rpc->down && !req->never && req->stage != RPCRDMA_STAGE_RAW)
		return true;
	if (rpc->down)
		weft_rpcrdma_req_free(req);
	else
		reply_error(req, RDMA2_ERR_SYSTEM, 0, 0);
	return false;
}

/* Octets that the answer needs beside its message. */
static uint64_t
reply_least(const struct weft_rpc_req *req)
{
	uint64_t n = sizeof(struct rpcrdma_msg);

	if (req->chunks != NULL && req->chunks->n_segs > 0)
		n += weft_rpcrdma_batch_bytes(req->chunks->n_segs);
	return n;
}

/* Send an answer. False: there is no room now, and nothing has changed. */
static bool
reply_send(struct weft_rpc_req *req, bool (*encode)(void *arg, XDR *xdr), void *arg,
           const struct weft_rpc_item *items, unsigned int nitems)
{
	struct weft_rpc *rpc = req->rpc;
	uint8_t chunk[WEFT_RPC_MAX_ITEMS];
	struct rpcrdma_err err;
	struct rpcrdma_msg *m;
	XDR xdr;
	int rc;

	/* The consumer may have closed the connection. */
	if (rpc == NULL || rpc->down) {
		weft_rpcrdma_req_free(req);
		return true;
	}
	req->out.max_bytes = RPCRDMA_MESSAGE_MAX_BYTES;
	req->out.more = reply_more;
	req->out.owner = req;
	if (!reply_more(req, reply_least(req)))
		return !reply_later(req);
	reply_reduce(req, items, nitems, chunk);
	rpcrdma_out_open(&req->out, &xdr);
	if (!encode(arg, &xdr)) { /* the results cannot be encoded */
		if (req->out.error == -EAGAIN)
			return !reply_later(req);
		reply_error(req, RDMA2_ERR_SYSTEM, 0, 0);
		return true;
	}
	if (!reply_fits(req, chunk, &err)) {
		reply_error(req, err.code, err.a, err.b);
		return true;
	}
	m = weft_rpcrdma_msg_new(rpc, RPCRDMA_REPLY,
	                         req->p.vers == RPCRDMA_V2 ? RDMA2_REPLY_INLINE : RDMA1_MSG,
	                         req->p.xid);
	if (m == NULL) {
		weft_rpcrdma_fail(rpc); /* s7.4 */
		return true;
	}
	m->hdr.p.vers = req->p.vers;
	rc = reply_chunks(req, m, chunk);
	if (rc == 0)
		rc = reply_format(req, m, &err);
	if (rc != 0) {
		weft_rpcrdma_msg_free(rpc, m);
		if (rc == -EAGAIN)
			return !reply_later(req);
		if (rc > 0)
			reply_error(req, err.code, err.a, err.b);
		else
			reply_error(req, RDMA2_ERR_SYSTEM, 0, 0);
		return true;
	}
	m->inv_stag = reply_inv_stag(req);
	m->req = req;
	weft_rpcrdma_req_encoded(req);
	weft_rpcrdma_queue(rpc, m);
	return true;
}

bool
weft_rpcrdma_answer(struct weft_rpc_req *req, bool (*encode)(void *arg, XDR *xdr), void *arg,
                    const struct weft_rpc_item *items, unsigned int nitems)
{
	struct weft_rpc_req *waiter = NULL;
	bool sent;

	if (req->drc != NULL)
		waiter = weft_rpcrdma_drc_keep(req, encode, arg, items, nitems);
	sent = reply_send(req, encode, arg, items, nitems);
	if (!sent)
		weft_rpcrdma_wait(req);
	weft_rpcrdma_drc_wake(waiter);
	return sent;
}

void
weft_rpc_raw_reply(struct weft_rpc_req *req, bool (*encode)(void *arg, XDR *xdr), void *arg,
                   const struct weft_rpc_item *items, unsigned int nitems)
{
	struct weft_rpc *rpc;

	if (!weft_rpcrdma_req_back(req, __func__))
		return;
	rpc = req->rpc;
	if (rpc == NULL || encode == NULL) {
		weft_rpcrdma_req_free(req);
		return;
	}
	req->raw = true;
	weft_rpcrdma_enter(rpc);
	(void)weft_rpcrdma_answer(req, encode, arg, items, nitems);
	weft_rpcrdma_leave(rpc);
}
