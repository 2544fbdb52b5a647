/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Messages on their way out: the queue that waits for credit, posting, grants and errors. */

#include <errno.h>
#include <stdlib.h>

#include "rpcrdma_priv.h"

struct rpcrdma_slot *
weft_rpcrdma_slot_get(struct weft_rpc *rpc, enum rpcrdma_kind kind)
{
	struct rpcrdma_slot *s = STAILQ_FIRST(&rpc->free);

	if (s == NULL)
		return NULL;
	/* The last one put is the first taken, so only as many buffers are made as are needed at
	 * once. */
	if (s->buf == NULL && (s->buf = malloc(rpc->inline_bytes)) == NULL)
		return NULL;
	STAILQ_REMOVE_HEAD(&rpc->free, next);
	s->kind = kind;
	s->len_bytes = 0;
	s->stalled = false;
	s->call = NULL;
	return s;
}

void
weft_rpcrdma_slot_put(struct weft_rpc *rpc, struct rpcrdma_slot *s)
{
	if (s->call != NULL)
		s->call->slot = NULL;
	s->call = NULL;
	STAILQ_INSERT_HEAD(&rpc->free, s, next);
}

void
weft_rpcrdma_queue(struct weft_rpc *rpc, struct rpcrdma_slot *s)
{
	s->queued = true;
	if (s->kind == RPCRDMA_REPLY)
		rpc->replies_queued++;
	STAILQ_INSERT_TAIL(&rpc->tx, s, next);
}

void
weft_rpcrdma_unqueue(struct weft_rpc *rpc, struct rpcrdma_slot *s)
{
	s->queued = false;
	if (s->kind == RPCRDMA_REPLY)
		rpc->replies_queued--;
	STAILQ_REMOVE(&rpc->tx, s, rpcrdma_slot, next);
}

void
weft_rpcrdma_error(struct weft_rpc *rpc, const struct rpcrdma_prefix *p,
                   const struct rpcrdma_err *err)
{
	struct rpcrdma_slot *s = weft_rpcrdma_slot_get(rpc, RPCRDMA_CONTROL);
	struct rpcrdma_hdr hdr;

	if (s == NULL) {
		weft_rpcrdma_fail(rpc);
		return;
	}
	weft_rpcrdma_hdr_init(&hdr, p->vers, RDMA2_ERROR, p->xid);
	hdr.err = *err;
	s->len_bytes = weft_rpcrdma_encode(s->buf, rpc->inline_bytes, &hdr);
	weft_rpcrdma_queue(rpc, s);
	rpc->stats.errors_out++;
}

static void
tx_retry(void *arg)
{
	struct weft_rpc *rpc = arg;

	weft_rpcrdma_enter(rpc);
	rpc->retry = NULL;
	weft_rpcrdma_leave(rpc);
}

/* 0, -EAGAIN: the send queue is full, later; -ENOTCONN: not yet; other: never. */
static int
tx_post(struct weft_rpc *rpc, struct rpcrdma_slot *s)
{
	/* A reply that goes now waits no longer. */
	uint32_t backlog = rpc->replies_queued - (s->queued && s->kind == RPCRDMA_REPLY);
	uint32_t field = weft_rpcrdma_credit_field(&rpc->credit, backlog);
	struct weft_sge sge = {.addr = s->buf, .len_bytes = s->len_bytes};
	struct weft_wr wr = {
	        .wr_id = (uintptr_t)s,
	        .opcode = WEFT_WR_SEND,
	        .flags = WEFT_WR_SIGNALED | WEFT_WR_SOLICITED,
	        .sg_list = &sge,
	        .num_sge = 1,
	};
	int rc;

	/* An error in version 1's terms carries version 1's credits: a plain number (RFC 8166
	 * s3.3). */
	rpcrdma_put32(s->buf + RPCRDMA_OFF_CREDIT,
	              rpcrdma_get32(s->buf + RPCRDMA_OFF_VERS) == 1 ? rpc->credit.window : field);
	rc = weft_post_send(rpc->qp, &wr, 1);
	if (rc == 1) {
		weft_rpcrdma_credit_posted(&rpc->credit, field);
		return 0;
	}
	return rc == 0 ? -EAGAIN : rc;
}

static void
tx_grant(struct weft_rpc *rpc)
{
	struct rpcrdma_slot *s;
	struct rpcrdma_hdr hdr;

	if (!weft_rpcrdma_credit_may_grant(&rpc->credit))
		return;
	s = weft_rpcrdma_slot_get(rpc, RPCRDMA_CONTROL);
	if (s == NULL)
		return;
	weft_rpcrdma_hdr_init(&hdr, RPCRDMA_V2, RDMA2_GRANT, 0);
	s->len_bytes = weft_rpcrdma_encode(s->buf, rpc->inline_bytes, &hdr);
	/* Ahead of the queue, which has to wait. A full send queue: the next pump tries again. */
	if (tx_post(rpc, s) != 0) {
		weft_rpcrdma_slot_put(rpc, s);
		return;
	}
	rpc->stats.grants_out++;
	rpc->refresh = rpc->refresh_payload = false;
}

/*
 * The first message may be at most version 1's threshold, and one larger than version 2's default
 * must not be sent before the peer said that it fits (s4.2.2, s4.3). Then properties go first.
 */
static bool
tx_needs_props(const struct weft_rpc *rpc, const struct rpcrdma_slot *s)
{
	return !rpc->heard && rpc->props_out == RPCRDMA_PROPS_NONE &&
	       (s->len_bytes > RPCRDMA_V1_INLINE_BYTES ||
	        rpc->inline_bytes > RPCRDMA_DEFAULT_INLINE_BYTES);
}

static void
tx_count_stalls(struct weft_rpc *rpc)
{
	struct rpcrdma_slot *s;

	STAILQ_FOREACH (s, &rpc->tx, next) {
		if (s->kind == RPCRDMA_CALL && !s->stalled)
			rpc->stats.credit_stalls++;
		s->stalled = true;
	}
}

int
weft_rpcrdma_pump(struct weft_rpc *rpc)
{
	struct rpcrdma_slot *s;
	int rc = 0;

	while (!rpc->down && (s = STAILQ_FIRST(&rpc->tx)) != NULL) {
		if (tx_needs_props(rpc, s)) {
			if (!weft_rpcrdma_props_first(rpc))
				weft_rpcrdma_fail(rpc);
			continue;
		}
		if (s->len_bytes > rpc->peer.recv_bytes && s->kind == RPCRDMA_CALL) {
			if (rpc->props_out == RPCRDMA_PROPS_FINAL &&
			    rpc->props_in != RPCRDMA_PROPS_FINAL)
				break; /* the answer will tell */
			weft_rpcrdma_call_end(s->call, WEFT_RPC_TRANSPORT, NULL);
			continue;
		}
		if (!weft_rpcrdma_credit_may_send(&rpc->credit)) {
			tx_count_stalls(rpc);
			break;
		}
		rc = tx_post(rpc, s);
		if (rc == -EAGAIN) {
			if (rpc->retry == NULL && weft_alarm_set(rpc->worker, RPCRDMA_RETRY_US,
			                                         tx_retry, rpc, &rpc->retry) != 0)
				rpc->retry = NULL;
			return 0;
		}
		if (rc == -ENOTCONN)
			return rc;
		if (rc != 0) {
			weft_rpcrdma_fail(rpc);
			return 0;
		}
		weft_rpcrdma_unqueue(rpc, s);
		if (s->kind == RPCRDMA_CALL)
			rpc->stats.calls_out++;
		else if (s->kind == RPCRDMA_REPLY)
			rpc->stats.replies_out++;
	}
	if (!rpc->down && rpc->refresh && rpc->heard) {
		if (weft_rpcrdma_credit_wants_refresh(&rpc->credit, rpc->replies_queued,
		                                      rpc->refresh_payload))
			tx_grant(rpc);
		else
			rpc->refresh = rpc->refresh_payload = false;
	}
	return 0;
}
