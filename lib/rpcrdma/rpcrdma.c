/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Creation, end and completions of an endpoint. */

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "rpcrdma_call.h"
#include "rpcrdma_drc.h"
#include "rpcrdma_mem.h"
#include "rpcrdma_msg.h"
#include "rpcrdma_priv.h"
#include "rpcrdma_req.h"

const char *
weft_rpc_status_str(enum weft_rpc_status s)
{
	static const char *const names[] = {
	        [WEFT_RPC_OK] = "success",
	        [WEFT_RPC_CONNLOST] = "connection lost",
	        [WEFT_RPC_TIMEDOUT] = "timed out",
	        [WEFT_RPC_TRANSPORT] = "refused by the RPC transport",
	        [WEFT_RPC_DENIED] = "denied",
	        [WEFT_RPC_PROG_UNAVAIL] = "program unavailable",
	        [WEFT_RPC_PROG_MISMATCH] = "program version mismatch",
	        [WEFT_RPC_PROC_UNAVAIL] = "procedure unavailable",
	        [WEFT_RPC_GARBAGE_ARGS] = "arguments not understood",
	        [WEFT_RPC_SYSTEM_ERR] = "system error at the server",
	        [WEFT_RPC_BAD_REPLY] = "reply not understood",
	        [WEFT_RPC_CALL_TOO_LONG] = "call too long for what the peer takes",
	        [WEFT_RPC_TOO_LONG] = "reply too long for the room made for it",
	};

	return (unsigned int)s < sizeof(names) / sizeof(names[0]) ? names[s] : "unknown";
}

/* ---- Life ---- */

static void
rpc_free(struct weft_rpc *rpc)
{
	for (unsigned int i = rpc->n_recv; rpc->slots != NULL && i < rpc->n_recv + rpc->n_send; i++)
		free(rpc->slots[i].buf);
	while (!LIST_EMPTY(&rpc->parked)) {
		struct weft_rpc_req *req = LIST_FIRST(&rpc->parked);

		LIST_REMOVE(req, entry);
		weft_rpcrdma_req_free(req);
	}
	for (unsigned int i = 0; rpc->call_mem != NULL && i < WEFT_RPC_MAX_CALLS; i++)
		weft_rpcrdma_call_release(&rpc->call_mem[i]);
	weft_spare_end(&rpc->spare_msgs);
	free(rpc->call_mem);
	free(rpc->slots);
	free(rpc->recv_mem[0]);
	free(rpc->recv_mem[1]);
	/* The sources of posted Writes and Sends are freed only now. */
	weft_rpcrdma_let_go(rpc, rpc->holder.bytes);
	weft_handle_free(&rpc->h, sizeof(rpc->h));
}

static int
rpc_check(const struct weft_rpc_attr *a)
{
	if (a->qp == NULL || weft_qp_worker(a->qp) == NULL ||
	    (a->drc != NULL && weft_handle_check(a->drc, &rpcrdma_drc_kind, __func__) < 0) ||
	    (a->budget != NULL && weft_handle_check(a->budget, &rpcrdma_budget_kind, __func__) < 0))
		return -EINVAL;
	if (a->inline_bytes != 0 &&
	    (a->inline_bytes < RPCRDMA_V1_INLINE_BYTES ||
	     a->inline_bytes > RPCRDMA_MAX_INLINE_BYTES || a->inline_bytes % 4 != 0))
		return -EINVAL;
	if (a->credits == 1 || a->credits > RPCRDMA_MAX_CREDITS)
		return -EINVAL;
	if (a->min_vers > RPCRDMA_V2 || a->max_vers > RPCRDMA_V2 ||
	    (a->max_vers != 0 && a->min_vers > a->max_vers))
		return -EINVAL;
	/* Version 1 has no authentication. */
	if (a->auth != NULL && a->auth->required && a->max_vers == RPCRDMA_V1)
		return -EINVAL;
	if (a->max_message_bytes > RPCRDMA_MESSAGE_MAX_BYTES ||
	    a->max_segments > RPCRDMA_MAX_SEGS || a->reverse > WEFT_RPC_REVERSE_GENERAL ||
	    a->max_segment_bytes % 4 != 0)
		return -EINVAL;
	return 0;
}

static void
rpc_defaults(struct weft_rpc *rpc, const struct weft_rpc_attr *attr)
{
	struct weft_rpc_attr *a = &rpc->a;

	*a = *attr;
	if (a->inline_bytes == 0)
		a->inline_bytes = RPCRDMA_DEFAULT_INLINE_BYTES;
	if (a->credits == 0)
		a->credits = 8;
	if (a->min_vers == 0)
		a->min_vers = RPCRDMA_V1;
	if (a->max_vers == 0)
		a->max_vers = RPCRDMA_V2;
	if (a->max_message_bytes == 0)
		a->max_message_bytes = RPCRDMA_MESSAGE_BYTES;
	if (a->max_segments == 0)
		a->max_segments = 16;
	if (a->max_segment_bytes == 0)
		a->max_segment_bytes = 1048576;
	if (a->reverse == WEFT_RPC_REVERSE_AUTO)
		a->reverse = a->programs != NULL ? WEFT_RPC_REVERSE_GENERAL : WEFT_RPC_REVERSE_NONE;
	/* s4.2.2: without an exchange of properties the peer counts on the default. */
	rpc->recv_bytes = a->inline_bytes > RPCRDMA_DEFAULT_INLINE_BYTES
	                          ? a->inline_bytes
	                          : RPCRDMA_DEFAULT_INLINE_BYTES;
	rpc->limits = (struct rpcrdma_limits){
	        .read_chunks = WEFT_RPC_MAX_ITEMS,
	        .write_chunks = RPCRDMA_MAX_WRITE_CHUNKS,
	        .segs = (uint16_t)a->max_segments,
	};
}

static int
rpc_slots(struct weft_rpc *rpc)
{
	unsigned int n;

	/*
	 * Send slots: for this endpoint's calls; for the answers to the calls that the peer may
	 * have under way, twice, because a part's buffer is busy until its Send completes; for
	 * properties and grants. A message without a slot waits.
	 */
	rpc->n_recv = rpc->a.credits + 1;
	rpc->n_send = WEFT_RPC_MAX_CALLS + 2 * rpc->a.credits + 8;
	rpc->n_ops = WEFT_RPC_MAX_CALLS + RPCRDMA_REQS_HIGH;
	n = rpc->n_recv + rpc->n_send + rpc->n_ops + 1;
	rpc->slots = calloc(n, sizeof(*rpc->slots));
	if (rpc->slots == NULL)
		return -ENOMEM;
	rpc->unowned = &rpc->slots[n - 1];
	for (unsigned int i = rpc->n_recv; i < rpc->n_recv + rpc->n_send; i++)
		STAILQ_INSERT_TAIL(&rpc->free_send, &rpc->slots[i], next);
	for (unsigned int i = rpc->n_recv + rpc->n_send; i < n - 1; i++)
		STAILQ_INSERT_TAIL(&rpc->free_ops, &rpc->slots[i], next);
	return weft_rpcrdma_recvs(rpc, rpc->credit.window + 1);
}

static void
rpc_lost(struct weft_rpc *rpc)
{
	weft_rpcrdma_calls_end(rpc, WEFT_RPC_CONNLOST);
}

/* Drop everything of an endpoint whose connection is gone. No function of the consumer runs. */
static void
rpc_drop(struct weft_rpc *rpc)
{
	struct rpcrdma_batch *b;
	struct rpcrdma_msg *m;

	rpc->down = true;
	if (rpc->retry != NULL)
		weft_alarm_cancel(rpc->retry);
	rpc->retry = NULL;
	if (rpc->unfinished != NULL)
		weft_alarm_cancel(rpc->unfinished);
	rpc->unfinished = NULL;
	if (rpc->starved != NULL)
		weft_alarm_cancel(rpc->starved);
	rpc->starved = NULL;
	while ((b = STAILQ_FIRST(&rpc->batches)) != NULL)
		weft_rpcrdma_batch_forget(rpc, b);
	for (unsigned int i = 0; i < rpc->n_send; i++) {
		m = rpc->slots[rpc->n_recv + i].msg;
		rpc->slots[rpc->n_recv + i].msg = NULL;
		if (m != NULL && --m->in_flight == 0 && !m->queued)
			weft_rpcrdma_msg_free(rpc, m);
	}
	for (unsigned int i = 0; i < rpc->n_ops; i++) {
		b = rpc->slots[rpc->n_recv + rpc->n_send + i].batch;
		if (b != NULL)
			weft_rpcrdma_batch_forget(rpc, b);
	}
	while ((m = STAILQ_FIRST(&rpc->tx)) != NULL) {
		if (m->call != NULL)
			m->call->unsent = !m->begun;
		weft_rpcrdma_msg_free(rpc, m);
	}
	weft_rpcrdma_cont_drop(rpc);
	weft_rpcrdma_wait_end(rpc);
	while (!LIST_EMPTY(&rpc->reqs))
		weft_rpcrdma_req_free(LIST_FIRST(&rpc->reqs));
}

static const struct rpcrdma_ops rpc_ops = {
        .pump = weft_rpcrdma_pump,
        .leave = weft_rpcrdma_wait_arm,
        .drop = rpc_drop,
        .lost = rpc_lost,
        .free = rpc_free,
        .shed = weft_rpcrdma_shed,
};

int
weft_rpc_create(const struct weft_rpc_attr *given, struct weft_rpc **out)
{
	struct weft_rpc_attr a, *attr = &a;
	struct weft_qp_info info;
	struct weft_rpc *rpc;
	int rc = weft_attr_copy(&a, sizeof(a), given);

	if (rc == 0)
		rc = out == NULL ? -EINVAL : rpc_check(attr);
	if (rc != 0)
		return rc;
	rpc = calloc(1, sizeof(*rpc));
	if (rpc == NULL)
		return -ENOMEM;
	rpc->ops = &rpc_ops;
	rpc_defaults(rpc, attr);
	rpc->qp = attr->qp;
	rpc->worker = weft_qp_worker(attr->qp);
	weft_qp_query(attr->qp, &info);
	rpc->pd = info.pd;
	rpc->vers = rpc->a.max_vers;
	rpc->peer = RPCRDMA_PROPS_DEFAULT;
	rpc->authentic = attr->auth == NULL;
	/* RFC 5531 s9: an xid names one call, also among those of earlier and parallel
	 * endpoints, so it starts at random. */
	weft_worker_random(rpc->worker, &rpc->next_xid, sizeof(rpc->next_xid));
	weft_rpcrdma_credit_init(&rpc->credit,
	                         weft_rpcrdma_stranger(rpc) &&
	                                         rpc->a.credits > RPCRDMA_STRANGER_CREDITS
	                                 ? RPCRDMA_STRANGER_CREDITS
	                                 : rpc->a.credits);
	rpc->credit1.granted = 1;
	STAILQ_INIT(&rpc->tx);
	STAILQ_INIT(&rpc->batches);
	STAILQ_INIT(&rpc->free_send);
	STAILQ_INIT(&rpc->free_ops);
	LIST_INIT(&rpc->calls);
	LIST_INIT(&rpc->free_calls);
	LIST_INIT(&rpc->reqs);
	LIST_INIT(&rpc->parked);
	TAILQ_INIT(&rpc->waiting);
	weft_rpcrdma_regs_init(rpc);
	rc = rpc_slots(rpc);
	if (rc != 0) {
		rpc_free(rpc);
		return rc;
	}
	weft_handle_init(&rpc->h, &rpcrdma_rpc_kind);
	*out = rpc;
	return 0;
}

void
weft_rpc_destroy(struct weft_rpc *rpc)
{
	if (rpc == NULL || weft_handle_check(rpc, &rpcrdma_rpc_kind, __func__) < 0)
		return;
	/* The callbacks of the calls below may call this function again. */
	if (atomic_exchange_explicit(&rpc->dead, true, memory_order_relaxed)) {
		(void)weft_handle_refused(&rpc->h, &rpcrdma_rpc_kind, __func__);
		return;
	}
	weft_rpcrdma_enter(rpc);
	weft_rpcrdma_down(rpc);
	weft_handle_end(&rpc->h, &rpcrdma_rpc_kind);
	weft_rpcrdma_leave(rpc);
}

void
weft_rpc_disconnected(struct weft_rpc *rpc)
{
	if (weft_handle_check(rpc, &rpcrdma_rpc_kind, __func__) < 0)
		return;
	weft_rpcrdma_enter(rpc);
	weft_rpcrdma_down(rpc);
	weft_rpcrdma_leave(rpc);
}

const struct weft_rpc_stats *
weft_rpc_stats(const struct weft_rpc *rpc)
{
	if (weft_handle_check(rpc, &rpcrdma_rpc_kind, __func__) < 0)
		return NULL;
	return &rpc->stats;
}

unsigned int
weft_rpc_version(const struct weft_rpc *rpc)
{
	if (weft_handle_check(rpc, &rpcrdma_rpc_kind, __func__) < 0)
		return 0;
	return rpc->heard ? rpc->vers : 0;
}

bool
weft_rpc_stuck(const struct weft_rpc *rpc)
{
	const struct rpcrdma_credit1 *k;

	if (weft_handle_check(rpc, &rpcrdma_rpc_kind, __func__) < 0)
		return false;
	k = &rpc->credit1;
	return rpc->vers == RPCRDMA_V1 && k->lost == k->calls &&
	       k->lost >= weft_rpcrdma_credit1_max(rpc);
}

bool
weft_rpc_is_down(const struct weft_rpc *rpc)
{
	return weft_handle_check(rpc, &rpcrdma_rpc_kind, __func__) < 0 || rpc->down;
}

bool
weft_rpc_unsent(const struct weft_rpc *rpc)
{
	return weft_handle_check(rpc, &rpcrdma_rpc_kind, __func__) == 0 && rpc->unsent;
}

uint32_t
weft_rpc_error_of(const struct weft_rpc *rpc)
{
	if (weft_handle_check(rpc, &rpcrdma_rpc_kind, __func__) < 0)
		return 0;
	return rpc->error;
}

void
weft_rpc_set_raw(struct weft_rpc *rpc, weft_rpc_raw_fn fn)
{
	if (weft_handle_check(rpc, &rpcrdma_rpc_kind, __func__) < 0)
		return;
	rpc->raw = fn;
	if (rpc->a.reverse == WEFT_RPC_REVERSE_NONE)
		rpc->a.reverse = WEFT_RPC_REVERSE_GENERAL;
}

void
weft_rpc_peer_serves(struct weft_rpc *rpc)
{
	if (weft_handle_check(rpc, &rpcrdma_rpc_kind, __func__) < 0)
		return;
	rpc->peer_serves = true;
}

int
weft_rpc_set_peer_name(struct weft_rpc *rpc, const void *name, uint32_t name_bytes)
{
	if (weft_handle_check(rpc, &rpcrdma_rpc_kind, __func__) < 0 ||
	    name_bytes > sizeof(rpc->peer_name) || (name == NULL && name_bytes > 0))
		return -EINVAL;
	if (name_bytes > 0)
		memcpy(rpc->peer_name, name, name_bytes);
	rpc->peer_name_bytes = name_bytes;
	return weft_rpc_set_peer_share(rpc, name, name_bytes);
}

int
weft_rpc_set_peer_share(struct weft_rpc *rpc, const void *share, uint32_t share_bytes)
{
	if (weft_handle_check(rpc, &rpcrdma_rpc_kind, __func__) < 0 ||
	    share_bytes > sizeof(rpc->peer_share) || (share == NULL && share_bytes > 0))
		return -EINVAL;
	if (share_bytes > 0)
		memcpy(rpc->peer_share, share, share_bytes);
	rpc->peer_share_bytes = share_bytes;
	return 0;
}

/* ---- Completions ---- */

static struct rpcrdma_slot *
rpc_slot_of(const struct weft_rpc *rpc, uint64_t wr_id)
{
	uintptr_t off = (uintptr_t)wr_id - (uintptr_t)rpc->slots;

	if (wr_id < (uintptr_t)rpc->slots || off % sizeof(*rpc->slots) != 0 ||
	    off / sizeof(*rpc->slots) > rpc->n_recv + rpc->n_send + rpc->n_ops)
		return NULL;
	return &rpc->slots[off / sizeof(*rpc->slots)];
}

static void
wc_recv(struct weft_rpc *rpc, struct rpcrdma_slot *s, const struct weft_wc *wc)
{
	if (wc->status != WEFT_WC_SUCCESS || wc->len_bytes > rpc->recv_bytes) {
		weft_rpcrdma_down(rpc);
		return;
	}
	if (rpc->down)
		return;
	rpc->credit.recvd++;
	weft_rpcrdma_rx(rpc, s->buf, wc);
	/* The receive is posted again before a message is sent that announces it. */
	if (!rpc->down && weft_rpcrdma_recv_again(rpc, s) != 0)
		weft_rpcrdma_fail(rpc);
}

static void
wc_op(struct weft_rpc *rpc, struct rpcrdma_slot *s, bool ok)
{
	struct rpcrdma_batch *b = s->batch;

	s->batch = NULL;
	STAILQ_INSERT_HEAD(&rpc->free_ops, s, next);
	if (b != NULL) {
		b->slot = NULL;
		if (ok)
			b->done(b->owner, true);
	}
	if (!ok)
		weft_rpcrdma_down(rpc);
}

bool
weft_rpc_wc(struct weft_rpc *rpc, const struct weft_wc *wc)
{
	struct rpcrdma_slot *s;
	unsigned int i;
	bool ok;

	if (weft_handle_check(rpc, &rpcrdma_rpc_kind, __func__) < 0 || wc == NULL)
		return false;
	s = rpc_slot_of(rpc, wc->wr_id);
	ok = wc->status == WEFT_WC_SUCCESS;
	weft_rpcrdma_enter(rpc);
	if (s == NULL) {
		/* The consumer's own work request. It may have made room in the send queue,
		 * which leave() tries. */
		weft_rpcrdma_leave(rpc);
		return false;
	}
	if (wc->status == WEFT_WC_REMOTE_ACCESS && wc->opcode == WEFT_WC_READ && !rpc->down)
		weft_rpcrdma_pull_refused(rpc);
	i = (unsigned int)(s - rpc->slots);
	if (i < rpc->n_recv)
		wc_recv(rpc, s, wc);
	else if (s == rpc->unowned) {
		if (!ok)
			weft_rpcrdma_down(rpc);
	} else if (i < rpc->n_recv + rpc->n_send) {
		weft_rpcrdma_sent(rpc, s, ok);
	} else {
		wc_op(rpc, s, ok);
	}
	weft_rpcrdma_leave(rpc);
	return true;
}
