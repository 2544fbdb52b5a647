/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Outbound requests: posting, the stream's turn, post order, ORD, fence, segmentation. They
 * alternate with responses.
 *
 * Segments of two messages never interleave: a message that has started is finished first. RFC 5041
 * s5.3 has segments sent in the order submitted, and Linux's siw refuses any other order.
 */

#include "rdmap_atomic.h"
#include "rdmap_imm.h"
#include "rdmap_irq_exec.h"
#include "rdmap_irq_tx.h"
#include "rdmap_probe.h"
#include "rdmap_rtr.h"
#include "rdmap_seg.h"
#include "rdmap_state.h"
#include "rdmap_term.h"
#include "rdmap_tx.h"
#include "rdmap_wire.h"

/* A Write or Send is copied into the TCP stream: tell its user. False: the stream is destroyed. */
static inline bool
rdmap_sent(struct weft_rdmap *r, struct weft_rdmap_req *req)
{
	if (likely(req->plain)) {
		req->done = true;
		return true;
	}
	r->ops->done(r->user, req, WEFT_RDMAP_OK);
	return !r->dead;
}

static inline const struct weft_rdmap_sge *
rdmap_pieces(const struct weft_rdmap_req *req)
{
	return likely(req->plain || req->sgl == NULL) ? req->sge : req->sgl;
}

/* Copy len octets of the request's payload, from offset off, into one segment. */
static void
rdmap_gather(struct weft_rdmap *r, const struct weft_rdmap_req *req, uint32_t off, uint8_t *dst,
             uint32_t len)
{
	const struct weft_rdmap_sge *sge = rdmap_pieces(req);

	if (likely(req->nsge == 1)) {
		weft_ddp_tx_copy(&r->ddp, dst, sge[0].addr + off, len);
		return;
	}
	for (unsigned int i = 0; i < req->nsge && len > 0; i++) {
		uint32_t have = sge[i].len_bytes, n;

		if (off >= have) {
			off -= have;
			continue;
		}
		n = RTE_MIN(have - off, len);
		memcpy(dst, sge[i].addr + off, n);
		dst += n;
		len -= n;
		off = 0;
	}
}

/* Whether the medium behind these octets is gone: what rdmap_gather() copied is not their content.
 */
static bool
rdmap_gather_lost(const struct weft_rdmap_req *req, uint32_t off, uint32_t len)
{
	const struct weft_rdmap_sge *sge = rdmap_pieces(req);

	for (unsigned int i = 0; i < req->nsge && len > 0; i++) {
		uint32_t have = sge[i].len_bytes, n;

		if (off >= have) {
			off -= have;
			continue;
		}
		n = RTE_MIN(have - off, len);
		if (weft_medium_lost_at(sge[i].addr + off, n))
			return true;
		len -= n;
		off = 0;
	}
	return false;
}

/* Encode a Read Request. Returns its octets. */
static unsigned int
rdmap_read_body(const struct weft_rdmap_req *req, uint8_t *buf)
{
	const struct rdmap_read_req q = {.sink_stag = req->sink_stag,
	                                 .sink_to = req->sink_to,
	                                 .len_bytes = req->len_bytes,
	                                 .src_stag = req->stag,
	                                 .src_to = req->to};

	return rdmap_read_req_encode(&q, buf);
}

/* The first n requests of the send queue are sent, one segment each. */
static void
rdmap_packed(struct weft_rdmap *r, unsigned int n, int32_t *budget_bytes)
{
	struct weft_rdmap_req *req = TAILQ_FIRST(&r->sq);
	uint32_t bytes = 0;

	if (n == 0)
		return;
	for (unsigned int i = 0; i < n; i++) {
		struct weft_rdmap_req *next = TAILQ_NEXT(req, link);

		bytes += req->len_bytes;
		if (r->op_stats != NULL)
			r->op_stats->out[req->op]++;
		req->done = true;
		req = next;
	}
	/* all of them leave the list at once */
	r->sq.tqh_first = req;
	if (req != NULL)
		req->link.tqe_prev = &r->sq.tqh_first;
	else
		r->sq.tqh_last = &r->sq.tqh_first;
	rdmap_pack_account(r, n, bytes, 0, budget_bytes);
}

/*
 * Send the short Writes and Sends at the head of the send queue, one segment each, as long as they
 * fit the TCP segment under construction. Only while no response may come between them. What cannot
 * be sent here is left to rdmap_send_one().
 */
static void
rdmap_tx_packed(struct weft_rdmap *r, int32_t *budget_bytes)
{
	const uint32_t most = weft_ddp_max_payload(&r->ddp, false); /* untagged: the smaller one */
	struct weft_ddp_msg msg[RDMAP_PACK_MAX];
	unsigned int n, sent;

	do {
		const struct weft_rdmap_req *req = TAILQ_FIRST(&r->sq);
		int64_t room = weft_ddp_tx_room(&r->ddp), left = *budget_bytes;
		struct weft_ddp_msg *m = msg;

		for (; req != NULL && m != &msg[RDMAP_PACK_MAX] && left > 0; m++) {
			const uint32_t len = req->len_bytes;

			room -= (int64_t)len + WEFT_DDP_MSG_MIN_BYTES;
			left -= (int64_t)len + RDMAP_SEG_COST_BYTES;
			if (room < 0 || !req->plain || len > most)
				break;
			m->src = req->sge[0].addr;
			m->to = req->to;
			m->len_bytes = len;
			m->stag = req->stag;
			m->rsvdulp = RDMAP_CTRL(req->op);
			m->tagged = req->op == WEFT_RDMAP_WRITE;
			m->qn = WEFT_DDP_QN_SEND;
			req = TAILQ_NEXT(req, link);
		}
		n = (unsigned int)(m - msg);
		sent = n > 0 ? weft_ddp_tx_pack(&r->ddp, msg, n) : 0;
		rdmap_packed(r, sent, budget_bytes);
	} while (sent == RDMAP_PACK_MAX);
}

/*
 * The same for the Reads at the head of the send queue that may start: under ORD, without a fence
 * or hook. They then wait in `out`.
 */
static void
rdmap_tx_packed_reads(struct weft_rdmap *r, int32_t *budget_bytes)
{
	const uint32_t len = RDMAP_READ_REQ_BYTES;
	const uint32_t free_places = r->ord > r->n_out ? (uint32_t)(r->ord - r->n_out) : 0;
	const uint32_t most = RTE_MIN(free_places, (uint32_t)RDMAP_PACK_MAX);
	uint8_t body[RDMAP_PACK_MAX][RDMAP_READ_REQ_BYTES];
	struct weft_rdmap_req *req = TAILQ_FIRST(&r->sq);
	int64_t room = weft_ddp_tx_room(&r->ddp), left = *budget_bytes;
	struct weft_ddp_msg msg[RDMAP_PACK_MAX];
	uint32_t n, sent;

	if (len > weft_ddp_max_payload(&r->ddp, false))
		return;
	for (n = 0; n < most && req != NULL && left > 0; n++) {
		room -= len + WEFT_DDP_MSG_MIN_BYTES;
		left -= len + RDMAP_SEG_COST_BYTES;
		if (room < 0 || req->op != WEFT_RDMAP_READ_REQ || req->fence || req->hook)
			break;
		rdmap_read_body(req, body[n]);
		msg[n].src = body[n];
		msg[n].len_bytes = len;
		msg[n].stag = 0;
		msg[n].rsvdulp = RDMAP_CTRL(WEFT_RDMAP_READ_REQ);
		msg[n].tagged = false;
		msg[n].qn = WEFT_DDP_QN_READ;
		req = TAILQ_NEXT(req, link);
	}
	sent = n > 0 ? weft_ddp_tx_pack(&r->ddp, msg, n) : 0;
	if (sent == 0)
		return;
	for (uint32_t i = 0; i < sent; i++) {
		req = TAILQ_FIRST(&r->sq);
		TAILQ_REMOVE(&r->sq, req, link);
		TAILQ_INSERT_TAIL(&r->out, req, link);
	}
	r->n_out = (uint16_t)(r->n_out + sent);
	if (r->op_stats != NULL)
		r->op_stats->out[WEFT_RDMAP_READ_REQ] += sent;
	rdmap_pack_account(r, sent, 0, sent * len, budget_bytes);
}

/* Send segments of a Write or a Send, as many as space and budget allow. */
static enum rdmap_tx
rdmap_tx_ulp(struct weft_rdmap *r, struct weft_rdmap_req *req, int32_t *budget_bytes,
             uint64_t now_ns)
{
	const struct rdmap_op_row *row = &rdmap_ops[req->op];
	struct weft_ddp_hdr h = {.tagged = row->tagged,
	                         .rsvdulp = RDMAP_CTRL(req->op),
	                         .rsvdulp32 = row->invalidate ? req->stag : 0,
	                         .stag = req->stag,
	                         .qn = row->qn};

	for (;;) {
		uint32_t left = req->len_bytes - req->sent_bytes;
		uint32_t n = RTE_MIN(left, weft_ddp_max_payload(&r->ddp, row->tagged));
		uint8_t *p;

		h.last = n == left;
		h.to = req->to + req->sent_bytes;
		h.mo = req->sent_bytes;
		p = weft_ddp_tx_begin(&r->ddp, &h, n, now_ns);
		if (p == NULL)
			return RDMAP_TX_BLOCKED;
		rdmap_gather(r, req, req->sent_bytes, p, n);
		if (weft_medium_lost_any() && rdmap_gather_lost(req, req->sent_bytes, n)) {
			RDMAP_FAULT(r, lost);
			weft_ddp_tx_cancel(&r->ddp, &h);
			return rdmap_tx_refuse(r, req, WEFT_RDMAP_LOCAL_PROT, now_ns);
		}
		weft_ddp_tx_end(&r->ddp, now_ns);
		rdmap_seg_account(r, RDMAP_MID_REQ, n, budget_bytes);
		req->sent_bytes += n;
		if (h.last)
			break;
		if (*budget_bytes <= 0)
			return RDMAP_TX_BUDGET;
	}
	r->mid = RDMAP_MID_NONE;
	rdmap_count_out(r, req->op);
	if (unlikely(req->imm_op != 0)) { /* the request stays at the head of sq: IMM* is next */
		req->op = req->imm_op;
		return RDMAP_TX_SENT;
	}
	TAILQ_REMOVE(&r->sq, req, link);
	(void)rdmap_sent(r, req);
	return RDMAP_TX_SENT;
}

/*
 * Ask start() about the request at the head of the send queue. This sends nothing, so it may happen
 * while a response is partly sent. start() may be waiting for that very response to be sent.
 */
static enum rdmap_tx
rdmap_tx_hook(struct weft_rdmap *r, struct weft_rdmap_req *req, int32_t *budget_bytes,
              uint64_t now_ns)
{
	if (req->fence && r->n_out > 0)
		return RDMAP_TX_NONE;
	switch (r->ops->start(r->user, req)) {
	case WEFT_RDMAP_GO:
		req->hook = false;
		return RDMAP_TX_NONE;
	case WEFT_RDMAP_WAIT:
		r->start_deferred = true;
		return RDMAP_TX_NONE;
	case WEFT_RDMAP_DONE:
		*budget_bytes -= RDMAP_SEG_COST_BYTES;
		TAILQ_REMOVE(&r->sq, req, link);
		r->ops->done(r->user, req, WEFT_RDMAP_OK);
		return RDMAP_TX_SENT;
	default:
		return rdmap_tx_refuse(r, req, WEFT_RDMAP_LOCAL_PROT, now_ns);
	}
}

/* Send a Read, Atomic, Flush, Verify or Atomic Write Request in one segment. It then waits in `out`
 * for its answer. */
static enum rdmap_tx
rdmap_tx_ctl(struct weft_rdmap *r, struct weft_rdmap_req *req, int32_t *budget_bytes,
             uint64_t now_ns)
{
	uint8_t buf[RDMAP_CTL_MAX_BYTES];
	unsigned int len;
	int rc;

	if (req->op == WEFT_RDMAP_READ_REQ) {
		len = rdmap_read_body(req, buf);
	} else if (req->op == WEFT_RDMAP_ATOMIC_REQ) {
		len = rdmap_atomic_payload(r, req, buf);
	} else {
		struct rdmap_ext_req q;

		q.stag = req->stag;
		q.len_bytes = req->len_bytes;
		q.to = req->to;
		q.flags = req->flush_flags;
		q.hash_bytes = req->hash_bytes;
		memcpy(q.hash, req->hash, sizeof(q.hash));
		len = rdmap_ext_req_encode(req->op, &q, buf);
	}
	rc = rdmap_tx_untagged(r, req->op, buf, len, now_ns);
	if (rc == 0)
		return RDMAP_TX_BLOCKED;
	if (rc < 0)
		return rdmap_tx_refuse(r, req, WEFT_RDMAP_REMOTE_OP, now_ns);
	*budget_bytes -= (int32_t)len + RDMAP_SEG_COST_BYTES;
	TAILQ_REMOVE(&r->sq, req, link);
	TAILQ_INSERT_TAIL(&r->out, req, link);
	r->n_out++;
	return RDMAP_TX_SENT;
}

/* Send the head of the send queue. Requests start in post order, so a head that must wait stops the
 * requests behind it. */
static enum rdmap_tx
rdmap_sq_send(struct weft_rdmap *r, int32_t *budget_bytes, uint64_t now_ns)
{
	struct weft_rdmap_req *req = TAILQ_FIRST(&r->sq);
	const struct rdmap_op_row *row;
	bool read_like;

	if (req == NULL)
		return RDMAP_TX_NONE;
	row = &rdmap_ops[req->op];
	read_like = row->read_like;
	if (r->mid == RDMAP_MID_NONE) {
		/* a request with a hook waits until start() has answered */
		if (unlikely(req->fence || req->hook) && (req->hook || r->n_out > 0))
			return RDMAP_TX_NONE;
		if (read_like && r->n_out >= r->ord) {
			if (r->ord == 0) /* else the request would wait for ever */
				return rdmap_tx_refuse(r, req, WEFT_RDMAP_REMOTE_OP, now_ns);
			if (!r->stalled)
				r->stats.ord_stalls++;
			r->stalled = true;
			return RDMAP_TX_NONE;
		}
		r->stalled = false;
	}
	return likely(row->ulp) ? rdmap_tx_ulp(r, req, budget_bytes, now_ns)
	       : read_like      ? rdmap_tx_ctl(r, req, budget_bytes, now_ns)
	                        : rdmap_tx_imm(r, req, budget_bytes, now_ns);
}

/*
 * After the peer's FIN no answer can arrive. Flush the outstanding requests, the first request that
 * needs an answer, and all requests behind it. A message that is partly sent is kept and finished.
 * A responder that still may not send (RFC 5044 s7.1.2 rule 4) never will: everything is flushed.
 */
static void
rdmap_cut_queue(struct weft_rdmap *r)
{
	struct weft_rdmap_req_list keep = TAILQ_HEAD_INITIALIZER(keep);
	bool cut = !TAILQ_EMPTY(&r->out) || weft_ddp_tx_impossible(&r->ddp);
	struct weft_rdmap_req *req;

	TAILQ_CONCAT(&r->flush_list, &r->out, link);
	r->n_out = 0;
	while ((req = TAILQ_FIRST(&r->sq)) != NULL) {
		bool under_way = r->mid == RDMAP_MID_REQ && TAILQ_EMPTY(&keep);

		cut |= rdmap_ops[req->op].read_like;
		TAILQ_REMOVE(&r->sq, req, link);
		if (cut && !under_way)
			TAILQ_INSERT_TAIL(&r->flush_list, req, link);
		else
			TAILQ_INSERT_TAIL(&keep, req, link);
	}
	TAILQ_CONCAT(&r->sq, &keep, link);
	rdmap_drain(r);
}

static enum rdmap_tx
rdmap_send_one(struct weft_rdmap *r, int32_t *budget_bytes, uint64_t now_ns)
{
	struct weft_rdmap_req *req = TAILQ_FIRST(&r->sq);
	enum rdmap_tx rc;

	if (unlikely(req != NULL && req->hook && !r->start_deferred)) {
		rc = rdmap_tx_hook(r, req, budget_bytes, now_ns);
		if (rc != RDMAP_TX_NONE)
			return rc;
	}
	if (r->mid == RDMAP_MID_REQ)
		return rdmap_sq_send(r, budget_bytes, now_ns);
	if (r->mid == RDMAP_MID_RESP)
		return rdmap_irq_send(r, budget_bytes, now_ns);
	if (likely(r->irq_head == r->irq_tail)) /* the peer has asked for nothing */
		return rdmap_sq_send(r, budget_bytes, now_ns);
	r->resp_turn = !r->resp_turn;
	for (int i = 0; i < 2; i++) {
		rc = r->resp_turn ? rdmap_irq_send(r, budget_bytes, now_ns)
		                  : rdmap_sq_send(r, budget_bytes, now_ns);
		if (rc != RDMAP_TX_NONE)
			return rc;
		r->resp_turn = !r->resp_turn;
	}
	return RDMAP_TX_NONE;
}

/** One turn of the stream: execute requests of the peer, send responses and requests. */
static void
rdmap_turn(struct weft_rdmap *r, uint64_t now_ns)
{
	int32_t left_bytes = (int32_t)weft_send_left(r->sched), budget_bytes = left_bytes;
	enum rdmap_tx rc = RDMAP_TX_NONE;

	r->start_deferred = false;
	if (r->term_msg_bytes > 0)
		rdmap_term_push(r, now_ns);
	rdmap_flush_late(r);
	if (!rdmap_flowing(r))
		return;
	/* the RTR goes before any message, and before rdmap_cut_queue(), which flushes a Read RTR
	 */
	if (unlikely(r->rtr != 0) && !rdmap_rtr_send(r, now_ns))
		return;
	if (r->eof)
		rdmap_cut_queue(r);
	while (rdmap_flowing(r)) {
		if (unlikely(r->irq_exec != r->irq_tail)) {
			rdmap_irq_run(r);
			if (!rdmap_flowing(r))
				break;
		}
		if (budget_bytes <= 0) {
			rc = RDMAP_TX_BUDGET;
			break;
		}
		rc = rdmap_send_one(r, &budget_bytes, now_ns);
		if (rc != RDMAP_TX_SENT)
			break;
		/* the first of a burst has begun a TCP segment */
		if (unlikely(r->mid != RDMAP_MID_NONE || r->dead || weft_medium_lost_any()))
			continue;
		if (likely(r->irq_head == r->irq_tail)) { /* no response wants to be sent */
			const struct weft_rdmap_req *req = TAILQ_FIRST(&r->sq);

			if (likely(req != NULL && req->plain))
				rdmap_tx_packed(r, &budget_bytes);
			else if (req != NULL && req->op == WEFT_RDMAP_READ_REQ)
				rdmap_tx_packed_reads(r, &budget_bytes);
		} else if (TAILQ_EMPTY(&r->sq) && r->irq_head == r->irq_exec &&
		           rdmap_irq_at(r, r->irq_head)->op == WEFT_RDMAP_READ_REQ) {
			rdmap_irq_packed(r, &budget_bytes);
		}
	}
	weft_send_take(r->sched, (uint32_t)(left_bytes - budget_bytes));
	if (r->dead || rc == RDMAP_TX_STOP)
		return;
	if (rc == RDMAP_TX_BUDGET)
		rdmap_schedule(r); /* the next turn continues the partly filled TCP segment */
	else if (r->unflushed && !r->gone) {
		r->unflushed = false;
		weft_ddp_tx_flush(&r->ddp, now_ns);
	}
	if (r->dead)
		return;
	/* The probe is asked first: what this side still waits for does not come if its FPDUs
	 * were not read. */
	if (r->state == WEFT_RDMAP_ST_CLOSING && !rdmap_probe_hold(r, now_ns) &&
	    TAILQ_EMPTY(&r->sq) && TAILQ_EMPTY(&r->out) && rdmap_irq_depth(r) == 0)
		rdmap_fin(r, RDMAP_LINGER_NS, now_ns);
}

void
rdmap_on_task(struct weft_task *t, uint64_t now_ns)
{
	struct weft_rdmap *r = container_of(t, struct weft_rdmap, task);

	rdmap_enter(r);
	if (likely(r->ops->turn != NULL))
		r->ops->turn(r->user, true);
	rdmap_turn(r, now_ns);
	if (likely(r->ops->turn != NULL && !r->dead))
		r->ops->turn(r->user, false);
	rdmap_leave(r);
}

static inline struct weft_rdmap_req_list *
rdmap_post_queue(struct weft_rdmap *r)
{
	return likely(r->state == WEFT_RDMAP_ST_RTS) ? &r->sq : &r->late;
}

void
weft_rdmap_post(struct weft_rdmap *r, struct weft_rdmap_req *req)
{
	RTE_ASSERT(req->op < RDMAP_NOPCODES && rdmap_ops[req->op].request);
	RTE_ASSERT(req->plain ? req->nsge == 1
	                      : req->sgl != NULL || req->nsge <= WEFT_RDMAP_MAX_SGE);
	RTE_ASSERT(req->hash_bytes <= WEFT_HASH_MAX_BYTES);
	RTE_ASSERT(req->imm_op == 0 || (req->op == WEFT_RDMAP_WRITE && rdmap_ops[req->imm_op].imm));
	req->sent_bytes = 0;
	req->got_bytes = 0;
	TAILQ_INSERT_TAIL(rdmap_post_queue(r), req, link);
	rdmap_schedule(r);
}

void
weft_rdmap_post_list(struct weft_rdmap *r, struct weft_rdmap_req_list *reqs)
{
	TAILQ_CONCAT(rdmap_post_queue(r), reqs, link);
	rdmap_schedule(r);
}
