/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Sends the queue of messages: what waits for credit, the parts of a message, and grants.
 *
 * Only an RDMA2_GRANT may come between the parts of a message (docs/conformance.md). A peer that
 * waits for credit, having begun a message of its own, must be able to get it.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpcrdma_call.h"
#include "rpcrdma_mem.h"
#include "rpcrdma_msg.h"
#include "rpcrdma_priv.h"

#define TX_MIDDLE_HDR_BYTES (RPCRDMA_PREFIX_BYTES + 4)

/* Credits follow the connection's version (s7). An error about a message of another version does
 * not have that version. */
static bool
tx_credits_1(const struct weft_rpc *rpc, const struct rpcrdma_msg *m)
{
	return (rpc->heard ? rpc->vers : m->hdr.p.vers) == RPCRDMA_V1;
}

/* ---- Posting ---- */

static void
tx_retry(void *arg)
{
	struct weft_rpc *rpc = arg;

	weft_rpcrdma_enter(rpc);
	rpc->retry = NULL;
	weft_rpcrdma_leave(rpc);
}

/*
 * The send queue is full, and the completions that make room may be of other work. Or there was no
 * memory, and while no message of this endpoint is under way, no other event would cause a new try.
 */
static void
tx_arm_retry(struct weft_rpc *rpc)
{
	if (rpc->retry == NULL &&
	    weft_alarm_set(rpc->worker, RPCRDMA_RETRY_US, tx_retry, rpc, &rpc->retry) != 0)
		rpc->retry = NULL;
}

static void tx_arm_starved(struct weft_rpc *rpc);

static void
tx_starved(void *arg)
{
	struct weft_rpc *rpc = arg;

	weft_rpcrdma_enter(rpc);
	rpc->starved = NULL;
	if (rpc->replies_queued + rpc->controls_queued > 0) {
		if (rpc->moved || weft_rpcrdma_credit_may_send(&rpc->credit)) {
			tx_arm_starved(rpc);
		} else {
			rpc->stats.starved++;
			weft_rpcrdma_fail(rpc);
		}
	}
	weft_rpcrdma_leave(rpc);
}

/*
 * A peer that calls and gives no credit for the answers would keep their memory for ever. An answer
 * that cannot be sent ends the connection (s7.4). A slow peer is given time.
 */
static void
tx_arm_starved(struct weft_rpc *rpc)
{
	if (rpc->starved != NULL || rpc->replies_queued + rpc->controls_queued == 0)
		return;
	rpc->moved = false;
	if (weft_alarm_set(rpc->worker, RPCRDMA_STARVED_US, tx_starved, rpc, &rpc->starved) != 0)
		rpc->starved = NULL;
}

/* Continue to post from b->posted; the last work request completes in slot, if there is one. */
static int
tx_post_batch(struct weft_rpc *rpc, struct rpcrdma_batch *b, struct rpcrdma_slot *slot)
{
	while (b->posted < b->n) {
		struct weft_wr *wr = &b->wr[b->posted];
		int rc;

		wr->sg_list = wr->num_sge > 0 ? &b->sge[b->posted] : NULL;
		wr->wr_id = (uintptr_t)rpc->unowned;
		if (b->posted + 1 == b->n && slot != NULL) {
			wr->wr_id = (uintptr_t)slot;
			wr->flags |= WEFT_WR_SIGNALED;
		}
		rc = weft_post_send(rpc->qp, wr, 1);
		if (rc != 1)
			return rc == 0 ? -EAGAIN : rc;
		b->posted++;
	}
	return 0;
}

/* Get a slot's buffer. A few are the endpoint's own; beyond these, a buffer is freed when its
 * part has completed. False: no memory, try again later. */
static bool
tx_buf(struct weft_rpc *rpc, struct rpcrdma_slot *s)
{
	bool own = rpc->a.budget == NULL || rpc->n_bufs < RPCRDMA_BUFS_OWN;

	if (!own && !weft_rpcrdma_hold(rpc, rpc->a.inline_bytes))
		return false;
	s->buf = malloc(rpc->a.inline_bytes);
	if (s->buf == NULL) {
		if (!own)
			weft_rpcrdma_let_go(rpc, rpc->a.inline_bytes);
		tx_arm_retry(rpc);
		return false;
	}
	s->charged = !own;
	rpc->n_bufs += own;
	return true;
}

static struct rpcrdma_slot *
tx_slot(struct weft_rpc *rpc)
{
	struct rpcrdma_slot *s = STAILQ_FIRST(&rpc->free_send);

	if (s == NULL)
		return NULL;
	/* The slot that was freed last is used first, so only as many buffers are made as are
	 * needed at once. */
	if (s->buf == NULL && !tx_buf(rpc, s))
		return NULL;
	STAILQ_REMOVE_HEAD(&rpc->free_send, next);
	return s;
}

/* Behind the slots that have a buffer. */
static void
tx_slot_done(struct weft_rpc *rpc, struct rpcrdma_slot *s)
{
	if (!s->charged) {
		STAILQ_INSERT_HEAD(&rpc->free_send, s, next);
		return;
	}
	free(s->buf);
	s->buf = NULL;
	s->charged = false;
	weft_rpcrdma_let_go(rpc, rpc->a.inline_bytes);
	STAILQ_INSERT_TAIL(&rpc->free_send, s, next);
}

/* Whether enough requests are being served, so that no more credit is given. */
static bool
tx_no_more(const struct weft_rpc *rpc)
{
	return rpc->nreqs >= RPCRDMA_REQS_HIGH || rpc->pulled_bytes >= RPCRDMA_PULLED_HIGH ||
	       !TAILQ_EMPTY(&rpc->waiting);
}

/* Post the Send in s. The caller must not use s afterwards, also on an error. In version 1 it is a
 * plain Send, as Linux sends it. (tshark decodes version 1 only in plain Sends.) */
static int
tx_post_part(struct weft_rpc *rpc, struct rpcrdma_msg *m, struct rpcrdma_slot *s,
             uint32_t len_bytes, bool last)
{
	/* A reply that is sent now does not count as waiting. */
	uint32_t backlog = rpc->replies_queued - (m->queued && m->kind == RPCRDMA_REPLY);
	uint32_t field = weft_rpcrdma_credit_field(&rpc->credit, backlog);
	struct weft_sge sge = {.addr = s->buf, .len_bytes = len_bytes};
	struct weft_wr wr = {
	        .wr_id = (uintptr_t)s,
	        .opcode = last && m->inv_stag != 0 ? WEFT_WR_SEND_INV : WEFT_WR_SEND,
	        .flags = WEFT_WR_SIGNALED | (m->hdr.p.vers == RPCRDMA_V1 ? 0 : WEFT_WR_SOLICITED),
	        .sg_list = &sge,
	        .num_sge = 1,
	        .send = {.inv_stag = m->inv_stag},
	};
	int rc;

	if (tx_no_more(rpc))
		field = rpc->credit.promised;
	/* Version 1 sends a number of calls, half of our receives for each direction (RFC 8166
	 * s3.3.1, RFC 8167 s4.1). */
	weft_put_be32(s->buf + RPCRDMA_OFF_CREDIT,
	              tx_credits_1(rpc, m) ? rpc->credit.window / 2 : field);
	s->msg = m;
	rc = weft_post_send(rpc->qp, &wr, 1);
	if (rc == 1) {
		m->in_flight++;
		weft_rpcrdma_credit_posted(&rpc->credit, field);
		return 0;
	}
	s->msg = NULL;
	STAILQ_INSERT_HEAD(&rpc->free_send, s, next);
	return rc == 0 ? -EAGAIN : rc;
}

/* Post the next part of m. 1: it was the last. -ENOBUFS: parts in flight use all slots. */
static int
tx_part(struct weft_rpc *rpc, struct rpcrdma_msg *m)
{
	uint32_t room =
	        m->kind == RPCRDMA_CONTROL ? rpc->a.inline_bytes : weft_rpcrdma_threshold(rpc);
	uint32_t hdr_bytes = weft_rpcrdma_hdr_bytes(&m->hdr), left, n, len;
	struct rpcrdma_slot *s = tx_slot(rpc);
	struct rpcrdma_hdr mid;
	int rc;

	if (s == NULL)
		return -ENOBUFS;
	left = m->payload != NULL ? m->payload_bytes - m->sent_bytes : 0;
	/* After the layout the peer has announced smaller receives. */
	if (hdr_bytes + (left > 0 ? 4 : 0) > room) {
		STAILQ_INSERT_HEAD(&rpc->free_send, s, next);
		return -EMSGSIZE;
	}
	if (hdr_bytes + left <= room) {
		n = left;
		len = weft_rpcrdma_encode(s->buf, rpc->a.inline_bytes, &m->hdr);
	} else {
		/* At least a word remains for the last part, whose header tells where it begins. */
		n = room - TX_MIDDLE_HDR_BYTES;
		if (n > left - 4)
			n = left - 4;
		n &= ~3u;
		weft_rpcrdma_hdr_init(&mid, RPCRDMA_V2,
		                      m->kind == RPCRDMA_CALL ? RDMA2_CALL_MIDDLE
		                                              : RDMA2_REPLY_MIDDLE,
		                      m->hdr.p.xid);
		mid.remaining_bytes = left - n;
		len = weft_rpcrdma_encode(s->buf, rpc->a.inline_bytes, &mid);
	}
	if (len == 0) { /* the layout cannot be encoded: a fault of this code, not of the peer */
		STAILQ_INSERT_HEAD(&rpc->free_send, s, next);
		return -EINVAL;
	}
	if (n > 0)
		memcpy(s->buf + len, m->payload + m->sent_bytes, n);
	rc = tx_post_part(rpc, m, s, len + n, n == left);
	if (rc != 0)
		return rc;
	m->sent_bytes += n;
	m->begun = true;
	m->continued |= n != left;
	return n == left;
}

/* Post a message. 0: all of it is posted. -EAGAIN, -ENOBUFS: later; -ENOTCONN: not yet; other:
 * never. */
static int
tx_message(struct weft_rpc *rpc, struct rpcrdma_msg *m)
{
	int rc = tx_post_batch(rpc, &m->pre, NULL);

	while (rc == 0) {
		if (!tx_credits_1(rpc, m) && !m->no_credit &&
		    !weft_rpcrdma_credit_may_send(&rpc->credit))
			return -EBUSY;
		rc = tx_part(rpc, m);
		rpc->moved |= rc >= 0;
	}
	return rc == 1 ? 0 : rc;
}

void
weft_rpcrdma_sent(struct weft_rpc *rpc, struct rpcrdma_slot *s, bool ok)
{
	struct rpcrdma_msg *m = s->msg;

	s->msg = NULL;
	tx_slot_done(rpc, s);
	if (m != NULL && --m->in_flight == 0 && !m->queued) {
		struct rpcrdma_call *call = m->call;
		bool only =
		        ok && call != NULL && call->a.binding != NULL && call->a.binding->call_only;

		if (ok && m->kind == RPCRDMA_REPLY && rpc->a.budget != NULL)
			rpcrdma_budget_moved(&rpc->holder, weft_worker_now_ns(rpc->worker));
		weft_rpcrdma_msg_free(rpc, m);
		if (only)
			weft_rpcrdma_call_end(call, WEFT_RPC_OK);
	}
	if (!ok)
		weft_rpcrdma_down(rpc);
}

/* ---- Grants ---- */

static void
tx_grant(struct weft_rpc *rpc)
{
	struct rpcrdma_msg *m;
	int rc;

	if (!weft_rpcrdma_credit_may_grant(&rpc->credit))
		return;
	m = weft_rpcrdma_msg_new(rpc, RPCRDMA_CONTROL, RDMA2_GRANT, 0);
	if (m == NULL) {
		tx_arm_retry(rpc);
		return;
	}
	/* Ahead of the queue, which has to wait. If the send queue is full, the next pump tries
	 * again. */
	rc = tx_part(rpc, m);
	if (rc != 1) {
		weft_rpcrdma_msg_free(rpc, m);
		return;
	}
	rpc->stats.grants_out++;
	rpc->refresh = rpc->refresh_payload = false;
}

static void
tx_refresh(struct weft_rpc *rpc)
{
	if (!rpc->refresh || !rpc->heard || rpc->vers != RPCRDMA_V2 || tx_no_more(rpc))
		return;
	if (weft_rpcrdma_credit_wants_refresh(&rpc->credit, rpc->replies_queued,
	                                      rpc->refresh_payload))
		tx_grant(rpc);
	else
		rpc->refresh = rpc->refresh_payload = false;
}

/* ---- The queue ---- */

/*
 * The first message may have at most version 1's threshold. A message above version 2's default
 * must not be sent before the peer has said that it fits (s4.2.2, s4.3). Then properties go first.
 * They also go first when the peer has to know who this endpoint is, or that it serves calls
 * (s4.6.3).
 */
static bool
tx_needs_props(const struct weft_rpc *rpc, const struct rpcrdma_msg *m)
{
	/* Chunks take so much room that a call with them may not fit. */
	uint32_t len = m->call == NULL ? 0 : m->call->out.len_bytes + RPCRDMA_CALL_HDR_BYTES;

	/* A server's first message does not authenticate it. */
	if ((rpc->heard && (rpc->a.auth == NULL || rpc->authentic)) || rpc->vers != RPCRDMA_V2 ||
	    rpc->props_out != RPCRDMA_PROPS_NONE || rpc->a.server)
		return false;
	return rpc->a.auth != NULL || rpc->a.programs != NULL || rpc->raw != NULL ||
	       len > RPCRDMA_V1_INLINE_BYTES || (m->call != NULL && m->call->a.binding != NULL) ||
	       rpc->a.inline_bytes > RPCRDMA_DEFAULT_INLINE_BYTES;
}

static void
tx_count_stalls(struct weft_rpc *rpc)
{
	struct rpcrdma_msg *m;

	STAILQ_FOREACH (m, &rpc->tx, next) {
		if (m->kind == RPCRDMA_CALL && !m->stalled)
			rpc->stats.credit_stalls++;
		m->stalled = true;
	}
}

static void
tx_gone(struct weft_rpc *rpc, struct rpcrdma_msg *m)
{
	weft_rpcrdma_unqueue(rpc, m);
	if (m->kind == RPCRDMA_CONTROL)
		return;
	if (m->payload == NULL)
		rpc->stats.special++;
	else if (m->continued)
		rpc->stats.continued++;
	else
		rpc->stats.simple++;
	if (m->kind == RPCRDMA_REPLY)
		rpc->stats.replies_out++;
	if (m->kind == RPCRDMA_CALL)
		rpc->stats.calls_out++;
	if (m->kind == RPCRDMA_CALL && m->call != NULL && rpc->vers == RPCRDMA_V1) {
		m->call->counted = true;
		rpc->credit1.calls++;
	}
}

/* Lay out the call at the front, or set *wait. False: it was ended. */
static bool
tx_prepare_call(struct weft_rpc *rpc, struct rpcrdma_msg *m, bool *wait)
{
	int rc;

	*wait = false;
	if (m->begun || m->pre.n > 0 || m->payload != NULL || m->call == NULL)
		return true; /* it is laid out already */
	/* The answer will tell what fits, and authenticate the peer. A server waits for the
	 * client's first message. */
	if (rpc->closing)
		*wait = true;
	else if (rpc->a.server ? !rpc->heard || rpc->props_in == RPCRDMA_PROPS_MIDDLE
	                       : rpc->props_out != RPCRDMA_PROPS_NONE &&
	                                 rpc->props_in != RPCRDMA_PROPS_FINAL)
		*wait = true;
	if (*wait)
		return true;
	if ((rpc->a.auth != NULL && rpc->a.auth->required && !rpc->authentic) ||
	    (rpc->a.server && (rpc->vers == RPCRDMA_V2 ? rpc->peer.reverse == RDMA2_RVRSDIR_NONE
	                                               : !rpc->peer_serves))) {
		weft_rpcrdma_call_end(m->call, WEFT_RPC_TRANSPORT); /* s4.6.3; RFC 8167 s6 */
		return false;
	}
	if (rpc->vers == RPCRDMA_V1) {
		if (rpc->credit1.calls >= weft_rpcrdma_credit1_max(rpc)) {
			tx_count_stalls(rpc);
			*wait = true;
			return true;
		}
	}
	rc = weft_rpcrdma_call_layout(m->call);
	if (rc != 0) {
		weft_rpcrdma_call_end(m->call, rc == -EMSGSIZE ? WEFT_RPC_CALL_TOO_LONG
		                                               : WEFT_RPC_TRANSPORT);
		return false;
	}
	return true;
}

static int
tx_batches(struct weft_rpc *rpc)
{
	struct rpcrdma_batch *b;

	while (!rpc->down && (b = STAILQ_FIRST(&rpc->batches)) != NULL) {
		int rc;

		if (b->slot == NULL) {
			b->slot = STAILQ_FIRST(&rpc->free_ops);
			if (b->slot == NULL)
				return 0; /* a completion makes room */
			STAILQ_REMOVE_HEAD(&rpc->free_ops, next);
			b->slot->batch = b;
		}
		rc = tx_post_batch(rpc, b, b->slot);
		if (rc != 0)
			return rc;
		STAILQ_REMOVE_HEAD(&rpc->batches, next);
	}
	return 0;
}

/* A call that waits for the peer's answer holds up our calls, but not the answers behind it. */
static struct rpcrdma_msg *
tx_not_call(struct rpcrdma_msg *m)
{
	while (m != NULL && m->kind == RPCRDMA_CALL)
		m = STAILQ_NEXT(m, next);
	return m;
}

static int
tx_queue(struct weft_rpc *rpc)
{
	struct rpcrdma_msg *m;
	bool wait = false;

	while (!rpc->down && (m = STAILQ_FIRST(&rpc->tx)) != NULL) {
		int rc;

		if (wait && (m = tx_not_call(m)) == NULL)
			return 0;

		if (m->kind != RPCRDMA_CONTROL && !m->begun && tx_needs_props(rpc, m)) {
			if (!weft_rpcrdma_props_first(rpc))
				weft_rpcrdma_fail(rpc);
			continue;
		}
		if (m->kind == RPCRDMA_CALL && !tx_prepare_call(rpc, m, &wait))
			continue;
		if (m->kind == RPCRDMA_CALL && wait)
			continue;
		rc = tx_message(rpc, m);
		/* A message that is begun continues first, although a call that waited may be
		 * ahead. */
		if (rc != 0 && m->begun && m != STAILQ_FIRST(&rpc->tx)) {
			STAILQ_REMOVE(&rpc->tx, m, rpcrdma_msg, next);
			STAILQ_INSERT_HEAD(&rpc->tx, m, next);
		}
		if (rc == -EBUSY) {
			tx_count_stalls(rpc);
			tx_arm_starved(rpc);
			return 0;
		}
		if (rc == -ENOBUFS)
			return 0;
		if (rc != 0)
			return rc;
		tx_gone(rpc, m);
		if (m->in_flight == 0) /* completed already, which happens only with a failure */
			weft_rpcrdma_msg_free(rpc, m);
	}
	return 0;
}

int
weft_rpcrdma_pump(struct weft_rpc *rpc)
{
	int rc = tx_batches(rpc);

	if (rc == 0)
		rc = tx_queue(rpc);
	if (rc == -ENOTCONN)
		return rc;
	if (rc == -EAGAIN)
		tx_arm_retry(rpc);
	else if (rc != 0)
		weft_rpcrdma_fail(rpc);
	if (!rpc->down)
		tx_refresh(rpc);
	return 0;
}
