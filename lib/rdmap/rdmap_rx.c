/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Up-calls from ddp: opcode and version checks, Sends, Read Responses, other responses. */

#include <stdlib.h>

#include "rdmap_atomic.h"
#include "rdmap_imm.h"
#include "rdmap_irq_rx.h"
#include "rdmap_recv.h"
#include "rdmap_rx.h"
#include "rdmap_state.h"
#include "rdmap_term.h"
#include "rdmap_wire.h"

/* Check version, opcode and carriage (RFC 5040 s7.2: version and opcode MUST be valid). NULL with
 * *term: refused. */
static inline const struct rdmap_op_row *
rdmap_judge(const struct weft_rdmap *r, const struct weft_ddp_hdr *h, uint8_t op,
            struct weft_term *term)
{
	const struct rdmap_op_row *row = &rdmap_ops[op];

	if (unlikely(r->dead ||
	             (r->state != WEFT_RDMAP_ST_RTS && r->state != WEFT_RDMAP_ST_CLOSING))) {
		/* verbs has not called weft_rdmap_start(), or the stream has ended */
		weft_fault(term, WEFT_TERM_LAYER_RDMA, WEFT_TERM_RDMA_LOCAL, 0);
		return NULL;
	}
	if (unlikely(h->rsvdulp >> RDMAP_RV_SHIFT != RDMAP_RV)) {
		weft_fault(term, WEFT_TERM_LAYER_RDMA, WEFT_TERM_RDMA_OPERATION,
		           WEFT_TERM_OP_VERSION);
		return NULL;
	}
	if (unlikely(row->name == NULL || row->tagged != h->tagged ||
	             (!h->tagged && row->qn != h->qn))) {
		rdmap_unexpected(term);
		return NULL;
	}
	return row;
}

/* ---- Tagged: Write and Read Response ---- */

/** Whether a Read Response with octets is the next one of this Read. */
static inline bool
rdmap_is_answer(const struct weft_rdmap_req *req, bool last, uint32_t stag, uint64_t to,
                uint32_t len_bytes)
{
	const uint32_t left = req->len_bytes - req->got_bytes;

	return len_bytes <= left && (!last || len_bytes == left) && stag == req->sink_stag &&
	       to == req->sink_to + req->got_bytes;
}

/*
 * Responses arrive in the order of the requests (RFC 5040 s5.5 rule 20), so this one belongs to the
 * oldest outstanding request. Octets that this request did not ask for are refused, not placed.
 */
static int
rdmap_check_read_resp(struct weft_rdmap *r, const struct weft_ddp_hdr *h, uint32_t len_bytes,
                      uint32_t *access, struct weft_term *term)
{
	const struct weft_rdmap_req *req = TAILQ_FIRST(&r->out);
	uint32_t left;

	if (req == NULL || req->op != WEFT_RDMAP_READ_REQ) {
		if (req == NULL)
			RDMAP_FAULT(r, responses_unasked);
		else
			RDMAP_FAULT(r, responses_wrong);
		return rdmap_unexpected(term);
	}
	left = req->len_bytes - req->got_bytes;
	*access = WEFT_ACCESS_LOCAL_WRITE;
	/* RFC 5041 s5.2: without octets neither STag nor TO may be checked */
	if (len_bytes == 0 ? !h->last || left == 0
	                   : rdmap_is_answer(req, h->last, h->stag, h->to, len_bytes))
		return 0;
	RDMAP_FAULT(r, responses_wrong);
	if (len_bytes <= left && len_bytes > 0 && h->stag != req->sink_stag)
		return weft_fault(term, WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_TAGGED,
		                  WEFT_TERM_TAG_BAD_STAG);
	if (len_bytes > left || (len_bytes > 0 && h->to != req->sink_to + req->got_bytes))
		return weft_fault(term, WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_TAGGED,
		                  WEFT_TERM_TAG_BOUNDS);
	return weft_fault(term, WEFT_TERM_LAYER_RDMA, WEFT_TERM_RDMA_OPERATION,
	                  WEFT_TERM_OP_UNSPECIFIED); /* the response is too short */
}

static int
rdmap_on_tagged(void *user, const struct weft_ddp_hdr *h, uint32_t len_bytes, uint32_t *access,
                struct weft_term *term)
{
	struct weft_rdmap *r = user;
	uint8_t op = rdmap_op_of_tagged(h);

	if (unlikely(rdmap_judge(r, h, op, term) == NULL))
		return -EPROTO;
	if (op == WEFT_RDMAP_READ_RESP)
		return rdmap_check_read_resp(r, h, len_bytes, access, term);
	*access = WEFT_ACCESS_REMOTE_WRITE;
	return 0;
}

/** RFC 5040 s5.5 rule 3: a Write may be placed in any order. A Read Response is judged in order. */
static bool
rdmap_on_tagged_ahead(void *user, const struct weft_ddp_hdr *h, uint32_t *access)
{
	struct weft_rdmap *r = user;
	struct weft_term term;

	*access = WEFT_ACCESS_REMOTE_WRITE;
	return rdmap_op_of_tagged(h) == WEFT_RDMAP_WRITE &&
	       rdmap_judge(r, h, WEFT_RDMAP_WRITE, &term) != NULL;
}

/* The Read Response that is the next one of the oldest request, as rdmap_check_read_resp(). */
static uint32_t
rdmap_on_answer(void *user, uint8_t rsvdulp, bool last, uint32_t stag, uint64_t to,
                uint32_t len_bytes)
{
	const struct weft_rdmap *r = user;
	const struct weft_rdmap_req *req = TAILQ_FIRST(&r->out);

	if (rsvdulp != RDMAP_CTRL(WEFT_RDMAP_READ_RESP) || req == NULL ||
	    req->op != WEFT_RDMAP_READ_REQ || !rdmap_is_answer(req, last, stag, to, len_bytes))
		return 0;
	return WEFT_ACCESS_LOCAL_WRITE;
}

static void
rdmap_on_answered(void *user, uint32_t len_bytes, bool last)
{
	struct weft_rdmap *r = user;

	r->stats.bytes_in += len_bytes;
	TAILQ_FIRST(&r->out)->got_bytes += len_bytes;
	if (!last)
		return;
	rdmap_count_in(r, WEFT_RDMAP_READ_RESP);
	rdmap_enter(r);
	rdmap_answered(r, WEFT_RDMAP_OK);
	rdmap_leave(r);
}

static void
rdmap_on_tagged_placed(void *user, const struct weft_ddp_hdr *h, uint32_t len_bytes,
                       uint64_t now_ns)
{
	struct weft_rdmap *r = user;
	uint8_t op = rdmap_op_of_tagged(h);

	(void)now_ns;
	if (op == WEFT_RDMAP_READ_RESP) {
		rdmap_on_answered(r, len_bytes, h->last);
		return;
	}
	r->stats.bytes_in += len_bytes;
	if (h->last)
		rdmap_count_in(r, op);
}

/* The same for a Write that ddp placed without asking. */
static void
rdmap_on_written(void *user, uint32_t len_bytes, bool last)
{
	struct weft_rdmap *r = user;

	r->stats.bytes_in += len_bytes;
	if (last)
		rdmap_count_in(r, WEFT_RDMAP_WRITE);
}

/* ---- Untagged: a Send is copied straight into its receive buffer ---- */

static int
rdmap_rx_send(struct weft_rdmap *r, const struct rdmap_op_row *row, const struct weft_ddp_hdr *h,
              struct weft_cur *c, uint32_t len_bytes, struct weft_term *term)
{
	struct rdmap_rx_send *s = &r->rx_send;
	uint8_t op = rdmap_op_of(h);
	uint32_t off, left = len_bytes;
	int rc;

	if (!rdmap_recv_goes_on(r, op) && (rc = rdmap_recv_take(r, op, h, term)) < 0)
		return rc;
	if ((uint64_t)h->mo + len_bytes > s->size_bytes) {
		s->active = false;
		r->ops->recv_done(r->user, WEFT_RDMAP_LOCAL_LENGTH, s->got_bytes, false, 0);
		return weft_fault(term, WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_UNTAGGED,
		                  WEFT_TERM_UNT_TOO_LONG);
	}
	off = h->mo;
	for (unsigned int i = 0; i < s->nsge && left > 0; i++) {
		uint32_t have = s->sge[i].len_bytes, n;

		if (off >= have) {
			off -= have;
			continue;
		}
		n = RTE_MIN(have - off, left);
		if (weft_ddp_copy(&r->ddp, s->sge[i].addr + off, c, n) < 0)
			return weft_fault(term, WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_LOCAL, 0);
		weft_medium_mark_at(s->sge[i].addr + off, n);
		if (unlikely(weft_medium_lost_at(s->sge[i].addr + off, n))) {
			RDMAP_FAULT(r, lost);
			s->active = false;
			r->ops->recv_done(r->user, WEFT_RDMAP_LOCAL_PROT, s->got_bytes, false, 0);
			return weft_fault(term, WEFT_TERM_LAYER_RDMA, WEFT_TERM_RDMA_LOCAL, 0);
		}
		left -= n;
		off = 0;
	}
	s->got_bytes = h->mo + len_bytes;
	r->stats.bytes_in += len_bytes;
	if (!h->last)
		return 0;
	if (row->invalidate && r->ops->invalidate(r->user, h->rsvdulp32, term) < 0)
		return -EPROTO; /* the receive buffer completes as flushed */
	if (r->dead)
		return 0;
	s->active = false;
	rdmap_count_in(r, op);
	r->ops->recv_done(r->user, WEFT_RDMAP_OK, s->got_bytes, row->solicited,
	                  row->invalidate ? h->rsvdulp32 : 0);
	return 0;
}

/* The usual Send: in one segment, and ddp_sent() has found it in sequence. */
static bool
rdmap_on_sent(void *user, const uint8_t *p, uint32_t len_bytes)
{
	struct weft_rdmap *r = user;
	bool took;

	if (unlikely(r->rx_send.active))
		return false;
	/* Before the completion is visible, and the stream may be destroyed. */
	r->stats.bytes_in += len_bytes;
	rdmap_count_in(r, WEFT_RDMAP_SEND);
	rdmap_enter(r);
	took = r->ops->recv_whole(r->user, p, len_bytes);
	rdmap_leave(r);
	if (unlikely(!took)) { /* nothing has ended: the general way counts it */
		r->stats.bytes_in -= len_bytes;
		rdmap_count_in_undo(r, WEFT_RDMAP_SEND);
	}
	return took;
}

/* The usual Read Request: in one segment, and ddp_asked() has found it in sequence. */
static bool
rdmap_on_asked(void *user, const uint8_t *seg, uint32_t len_bytes)
{
	struct weft_rdmap *r = user;

	return len_bytes == RDMAP_READ_REQ_BYTES && likely(r->msg[WEFT_DDP_QN_READ] == NULL) &&
	       rdmap_rx_read_usual(r, seg);
}

/* ---- Untagged: other messages are short and parsed as a whole ---- */

/* Flush, Verify and Atomic Write Responses have no identifier. The order alone tells the request.
 */
static int
rdmap_rx_response(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term)
{
	static const uint8_t answers[RDMAP_NOPCODES] = {
	        [WEFT_RDMAP_FLUSH_RESP] = WEFT_RDMAP_FLUSH_REQ,
	        [WEFT_RDMAP_VERIFY_RESP] = WEFT_RDMAP_VERIFY_REQ,
	        [WEFT_RDMAP_AWRITE_RESP] = WEFT_RDMAP_AWRITE_REQ,
	};
	struct weft_rdmap_req *req = TAILQ_FIRST(&r->out);
	enum weft_rdmap_status status = WEFT_RDMAP_OK;

	if (req == NULL) { /* no request is outstanding, so QN 3 has no buffer */
		RDMAP_FAULT(r, responses_unasked);
		return weft_fault(term, WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_UNTAGGED,
		                  WEFT_TERM_UNT_NO_BUFFER);
	}
	if (req->op != answers[m->op]) {
		RDMAP_FAULT(r, responses_wrong);
		return rdmap_unexpected(term);
	}
	if (m->op == WEFT_RDMAP_VERIFY_RESP) {
		/* the responder should have compared; compare again here */
		if (req->hash_bytes > 0 && (req->hash_bytes != m->len_bytes ||
		                            memcmp(req->hash, m->data, m->len_bytes) != 0))
			status = WEFT_RDMAP_HASH_MISMATCH;
		memcpy(req->hash, m->data, m->len_bytes);
		req->hash_bytes = (uint8_t)m->len_bytes;
	}
	rdmap_answered(r, status);
	return 0;
}

int (*const rdmap_handlers[RDMAP_NOPCODES])(struct weft_rdmap *r, const struct rdmap_msg *m,
                                            struct weft_term *term) = {
        [WEFT_RDMAP_READ_REQ] = rdmap_rx_read_req,
        [WEFT_RDMAP_TERMINATE] = rdmap_rx_terminate,
        [WEFT_RDMAP_ATOMIC_REQ] = rdmap_rx_atomic_req,
        [WEFT_RDMAP_ATOMIC_RESP] = rdmap_rx_atomic_resp,
        [WEFT_RDMAP_FLUSH_REQ] = rdmap_rx_ext_req,
        [WEFT_RDMAP_FLUSH_RESP] = rdmap_rx_response,
        [WEFT_RDMAP_VERIFY_REQ] = rdmap_rx_ext_req,
        [WEFT_RDMAP_VERIFY_RESP] = rdmap_rx_response,
        [WEFT_RDMAP_AWRITE_REQ] = rdmap_rx_ext_req,
        [WEFT_RDMAP_AWRITE_RESP] = rdmap_rx_response,
};

static int
rdmap_rx_ctl(struct weft_rdmap *r, const struct rdmap_op_row *row, const struct weft_ddp_hdr *h,
             struct weft_cur *c, uint32_t len_bytes, struct weft_term *term)
{
	struct rdmap_msg whole, *m = r->msg[h->qn];
	uint8_t op = rdmap_op_of(h);
	uint32_t n = len_bytes;

	if (likely(m == NULL)) {
		m = &whole;
		/* only a peer with very small segments splits such a message */
		if (unlikely(!h->last)) {
			m = calloc(1, sizeof(*m));
			if (m == NULL)
				return weft_fault(term, WEFT_TERM_LAYER_RDMA, WEFT_TERM_RDMA_LOCAL,
				                  0);
			r->msg[h->qn] = m;
		}
		m->op = op;
	} else if (op != m->op) {
		return rdmap_unexpected(term);
	}
	if ((uint64_t)h->mo + n > row->max_bytes) {
		if (op != WEFT_RDMAP_TERMINATE) {
			if (row->request)
				RDMAP_FAULT(r, requests_malformed);
			return weft_fault(term, WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_UNTAGGED,
			                  WEFT_TERM_UNT_TOO_LONG);
		}
		n = h->mo < row->max_bytes ? row->max_bytes - h->mo : 0;
	}
	if (n > 0 && weft_cur_read(c, m->data + h->mo, n) < 0)
		return weft_fault(term, WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_LOCAL, 0);
	if (!h->last)
		return 0;
	m->h = *h;
	m->seg_bytes = WEFT_DDP_UNTAGGED_HDR_BYTES + len_bytes;
	m->len_bytes = RTE_MIN((uint64_t)h->mo + len_bytes, row->max_bytes);
	if (m->len_bytes < row->min_bytes) {
		if (row->request)
			RDMAP_FAULT(r, requests_malformed);
		return weft_fault(term, WEFT_TERM_LAYER_RDMA, WEFT_TERM_RDMA_OPERATION,
		                  WEFT_TERM_OP_UNSPECIFIED);
	}
	rdmap_count_in(r, op);
	if (unlikely(m != &whole)) {
		whole = *m;
		free(m);
		r->msg[h->qn] = NULL;
	}
	return rdmap_handlers[op](r, &whole, term);
}

static int
rdmap_on_untagged(void *user, const struct weft_ddp_hdr *h, struct weft_cur *c, uint32_t len_bytes,
                  struct weft_term *term, uint64_t now_ns)
{
	struct weft_rdmap *r = user;
	const struct rdmap_op_row *row = rdmap_judge(r, h, rdmap_op_of(h), term);
	int rc;

	(void)now_ns;
	if (unlikely(row == NULL))
		return -EPROTO;
	rdmap_enter(r);
	rc = row->ulp   ? rdmap_rx_send(r, row, h, c, len_bytes, term)
	     : row->imm ? rdmap_rx_imm(r, row, h, c, len_bytes, term)
	                : rdmap_rx_ctl(r, row, h, c, len_bytes, term);
	rdmap_leave(r);
	return r->dead ? 0 : rc;
}

/* ---- The stream ---- */

static void
rdmap_on_dropped(void *user)
{
	struct weft_rdmap *r = user;

	RDMAP_FAULT(r, segs_after_fault);
}

static void
rdmap_on_reply(void *user, const struct weft_mpa_frame *rep)
{
	struct weft_rdmap *r = user;

	if (r->dead)
		return;
	rdmap_enter(r);
	r->ops->reply(r->user, rep);
	rdmap_leave(r);
}

static void
rdmap_on_writable(void *user)
{
	struct weft_rdmap *r = user;

	if (!r->dead)
		rdmap_schedule(r);
}

/* The peer closed its direction. Answer its requests, send the messages that need no answer, then
 * close this direction. */
static void
rdmap_on_eof(void *user)
{
	struct weft_rdmap *r = user;

	if (r->dead || r->eof)
		return;
	r->eof = true;
	rdmap_enter(r);
	if (r->state == WEFT_RDMAP_ST_RTS)
		rdmap_set_state(r, WEFT_RDMAP_ST_CLOSING, NULL, false);
	else if (r->state == WEFT_RDMAP_ST_IDLE)
		rdmap_fin(r, RDMAP_TERM_WAIT_NS, r->sched->now_ns);
	if (!r->dead)
		rdmap_schedule(r);
	rdmap_leave(r);
}

static void
rdmap_on_closed(void *user, int err)
{
	struct weft_rdmap *r = user;

	if (r->dead || r->gone)
		return;
	if (r->state == WEFT_RDMAP_ST_IDLE && r->ops->again != NULL && r->ops->again(r->user, err))
		return;
	rdmap_enter(r);
	r->gone = true;
	r->term_msg_bytes = 0;
	weft_timer_cancel(&r->sched->wheel, &r->timer);
	if (r->state != WEFT_RDMAP_ST_ERROR)
		rdmap_set_state(r, WEFT_RDMAP_ST_ERROR, NULL, false);
	if (!r->dead)
		r->ops->closed(r->user, err);
	rdmap_leave(r);
}

const struct weft_ddp_ops rdmap_ddp_ops = {
        .tagged = rdmap_on_tagged,
        .tagged_placed = rdmap_on_tagged_placed,
        .written = rdmap_on_written,
        .answer = rdmap_on_answer,
        .answered = rdmap_on_answered,
        .sent = rdmap_on_sent,
        .asked = rdmap_on_asked,
        .tagged_ahead = rdmap_on_tagged_ahead,
        .untagged = rdmap_on_untagged,
        .fault = rdmap_on_fault,
        .dropped = rdmap_on_dropped,
        .reply = rdmap_on_reply,
        .writable = rdmap_on_writable,
        .eof = rdmap_on_eof,
        .closed = rdmap_on_closed,
};
