/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Outgoing messages: making, queueing and freeing them; errors; their limits. */

#include <stdlib.h>

#include "rpcrdma_call.h"
#include "rpcrdma_mem.h"
#include "rpcrdma_msg.h"
#include "rpcrdma_priv.h"
#include "rpcrdma_req.h"

struct rpcrdma_msg *
weft_rpcrdma_msg_new(struct weft_rpc *rpc, enum rpcrdma_kind kind, uint32_t htype, uint32_t xid)
{
	struct rpcrdma_msg *m = weft_spare_get(&rpc->spare_msgs, sizeof(*m));

	if (m == NULL)
		return NULL;
	if (kind == RPCRDMA_CONTROL) {
		if (!weft_rpcrdma_hold(rpc, sizeof(*m))) {
			weft_spare_put(&rpc->spare_msgs, m, RPCRDMA_SPARE_MSGS);
			return NULL;
		}
		m->held_bytes = sizeof(*m);
	}
	m->kind = kind;
	weft_rpcrdma_hdr_init(&m->hdr, rpc->vers, htype, xid);
	return m;
}

void
weft_rpcrdma_unqueue(struct weft_rpc *rpc, struct rpcrdma_msg *m)
{
	m->queued = false;
	if (m->kind == RPCRDMA_REPLY)
		rpc->replies_queued--;
	if (m->kind == RPCRDMA_CONTROL)
		rpc->controls_queued--;
	STAILQ_REMOVE(&rpc->tx, m, rpcrdma_msg, next);
}

void
weft_rpcrdma_msg_free(struct weft_rpc *rpc, struct rpcrdma_msg *m)
{
	if (m->queued)
		weft_rpcrdma_unqueue(rpc, m);
	if (m->call != NULL)
		m->call->msg = NULL;
	/* An orderly close sends what is posted. */
	if (m->req != NULL && rpc->down && m->pre.posted > 0)
		weft_rpcrdma_req_park(m->req);
	else if (m->req != NULL)
		weft_rpcrdma_req_free(m->req);
	weft_rpcrdma_batch_free(&m->pre);
	weft_rpcrdma_let_go(rpc, m->held_bytes);
	free(m->own);
	weft_spare_put(&rpc->spare_msgs, m, RPCRDMA_SPARE_MSGS);
}

static void
msg_count(struct weft_rpc *rpc, struct rpcrdma_msg *m)
{
	m->queued = true;
	if (m->kind == RPCRDMA_REPLY)
		rpc->replies_queued++;
	if (m->kind == RPCRDMA_CONTROL)
		rpc->controls_queued++;
}

void
weft_rpcrdma_queue(struct weft_rpc *rpc, struct rpcrdma_msg *m)
{
	msg_count(rpc, m);
	STAILQ_INSERT_TAIL(&rpc->tx, m, next);
}

void
weft_rpcrdma_queue_first(struct weft_rpc *rpc, struct rpcrdma_msg *m)
{
	struct rpcrdma_msg *head = STAILQ_FIRST(&rpc->tx);

	msg_count(rpc, m);
	if (head != NULL && head->begun) /* s6.3.6, s6.3.9: not between its parts */
		STAILQ_INSERT_AFTER(&rpc->tx, head, m, next);
	else
		STAILQ_INSERT_HEAD(&rpc->tx, m, next);
}

void
weft_rpcrdma_msg_forget(struct weft_rpc *rpc, struct rpcrdma_msg *m)
{
	struct rpcrdma_call *call = m->call;

	call->msg = NULL;
	m->call = NULL;
	if (m->queued && !m->begun) {
		weft_rpcrdma_msg_free(rpc, m);
	} else if (m->queued && m->payload != NULL) {
		/* The message is sent to its end, because the peer could not tell where the next
		 * one starts. */
		m->own = call->out.buf;
		call->out.buf = NULL;
	}
}

void
weft_rpcrdma_error(struct weft_rpc *rpc, const struct rpcrdma_prefix *p,
                   const struct rpcrdma_err *err)
{
	struct rpcrdma_msg *m;

	if (rpc->controls_queued >= RPCRDMA_CONTROL_MAX ||
	    (m = weft_rpcrdma_msg_new(rpc, RPCRDMA_CONTROL, RDMA2_ERROR, p->xid)) == NULL) {
		weft_rpcrdma_fail(rpc);
		return;
	}
	m->hdr.p.vers = p->vers; /* s7: the version of the message in error */
	m->hdr.err = *err;
	/*
	 * RFC 8166 s4.5.1: each message of another version is answered. Such a peer's credit is
	 * unknown, and by s3.3.1 it has a receive for each answer.
	 */
	m->no_credit = err->code == RDMA2_ERR_VERS;
	/* In version 1 all other errors are sent as ERR_CHUNK (RFC 8166 s4.5). An exception is
	 * VERS_MISMATCH of the draft's s7.1.2, for a peer that knows version 2. */
	if (p->vers == RPCRDMA_V1 && err->code != RDMA2_ERR_VERS &&
	    err->code != RDMA2_ERR_VERS_MISMATCH)
		m->hdr.err = (struct rpcrdma_err){.code = RDMA1_ERR_CHUNK};
	weft_rpcrdma_queue(rpc, m);
	rpc->stats.errors_out++;
}

uint32_t
weft_rpcrdma_threshold(const struct weft_rpc *rpc)
{
	uint32_t max = rpc->a.inline_bytes;

	if (rpc->vers == RPCRDMA_V1)
		return max < RPCRDMA_V1_INLINE_BYTES ? max : RPCRDMA_V1_INLINE_BYTES;
	return max < rpc->peer.recv_bytes ? max : rpc->peer.recv_bytes;
}

uint32_t
weft_rpcrdma_credit1_max(const struct weft_rpc *rpc)
{
	uint32_t asked = rpc->credit.window / 2, granted = rpc->credit1.granted;

	return granted == 0 ? 1 : granted < asked ? granted : asked;
}
