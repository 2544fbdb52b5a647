/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The send queue: its memory while it is at rest, and the completion of its requests in
 * order, alone or as a chain (weft_verbs_chain.h).
 */

#include <stdlib.h>

#include "verbs_queue.h"
#include "weft_verbs_chain.h"

/** The send queue's memory is freed after one to two of these periods without a post. */
#define VERBS_REST_NS (1 * WEFT_NS_PER_S)

/* ---- A send queue at rest ---- */

/**
 * If nothing was posted since the last check, and nothing is outstanding, free the send queue's
 * memory.
 */
static void
verbs_rest(struct weft_timer *t, uint64_t now_ns)
{
	struct weft_qp *qp = container_of(t, struct weft_qp, timer);

	if (qp->sq_head != qp->sq_tail || qp->sq_seen != qp->sq_tail) {
		qp->sq_seen = qp->sq_tail;
		weft_timer_arm(&qp->vw->sched.wheel, t, now_ns + VERBS_REST_NS);
		if (qp->waits > 0)
			weft_rdmap_resume(qp->rdmap);
		return;
	}
	free(qp->sq);
	qp->sq = NULL;
}

bool
weft_verbs_sq_wake(struct weft_qp *qp)
{
	const size_t bytes = (size_t)(qp->sq_mask + 1) * qp->sqe_bytes;

	qp->sq = aligned_alloc(VERBS_SQE_ALIGN, bytes);
	if (qp->sq == NULL)
		return false;
	memset(qp->sq, 0, bytes);
	qp->sq_seen = qp->sq_tail;
	if (qp->dead || qp->rdmap == NULL)
		return true; /* being destroyed: the memory is freed with the QP */
	weft_timer_init(&qp->timer, verbs_rest);
	weft_timer_arm(&qp->vw->sched.wheel, &qp->timer, qp->vw->sched.now_ns + VERBS_REST_NS);
	return true;
}

/* ---- Chains ---- */

/** Handle the result of one part. If it is the cause of the failure, it becomes the chain's. */
static void
verbs_chain_judge(struct weft_qp *qp, const struct verbs_sqe *s, struct weft_wc *wc)
{
	if (s->chain & VERBS_WATCHED)
		weft_verbs_watch_del(qp, s->watch);
	if (likely(s->status == WEFT_WC_SUCCESS))
		return;
	/*
	 * A step that ended the stream takes precedence over an earlier step that was only flushed.
	 */
	if (wc->status != WEFT_WC_SUCCESS &&
	    (wc->status != WEFT_WC_FLUSHED || s->status == WEFT_WC_FLUSHED))
		return;
	wc->status = s->status;
	wc->commit.step = s->step;
	wc->commit.range = s->range;
}

/**
 * After an error every request is flushed, also a Write that was sent beside an unanswered Read. A
 * Verify with an unexpected hash, but without a Terminate, does not end the stream.
 */
static __rte_noinline void
verbs_sq_fail(struct weft_qp *qp, struct verbs_sqe *s)
{
	if (qp->sq_failed) {
		if (s->status == WEFT_WC_SUCCESS)
			s->status = WEFT_WC_FLUSHED;
	} else {
		qp->sq_failed = s->status != WEFT_WC_HASH_MISMATCH || qp->rdmap == NULL ||
		                weft_rdmap_state(qp->rdmap) >= WEFT_RDMAP_ST_TERMINATE;
	}
}

/**
 * The head of the send queue is a chain: complete it if all its parts are done, and count its
 * places. False: not all are done.
 */
static __rte_noinline bool
verbs_chain_reap(struct weft_qp *qp, uint32_t *free_places)
{
	struct weft_wc wc = {.status = WEFT_WC_SUCCESS, .opcode = WEFT_WC_COMMIT};
	bool failed = qp->sq_failed;
	struct verbs_sqe *s;
	uint32_t end = qp->sq_head;

	do {
		if (end == qp->sq_tail)
			return false;
		s = verbs_sqe_at(qp, end++);
		if (!s->req.done)
			return false;
	} while ((s->chain & VERBS_CHAIN_LAST) == 0);
	wc.wr_id = s->wr_id;
	*free_places += end - qp->sq_head;
	while (qp->sq_head != end) {
		s = verbs_sqe_at(qp, qp->sq_head++);
		verbs_chain_judge(qp, s, &wc);
		if (unlikely(s->status != WEFT_WC_SUCCESS))
			verbs_sq_fail(qp, s);
	}
	/*
	 * If all parts are Writes, they are done when copied, even behind a failed request. They
	 * are flushed.
	 */
	if (unlikely(failed && wc.status == WEFT_WC_SUCCESS))
		wc.status = WEFT_WC_FLUSHED;
	verbs_credits_give(&qp->sq_credits, *free_places);
	*free_places = 0;
	verbs_wc(qp, qp->send_sub, &wc);
	return true;
}

/* ---- Completing ---- */

/**
 * Complete requests that are done at the head of the send queue, in order. When it is empty, it
 * begins again with its first slot: a stream with few requests at a time uses few slots, which stay
 * in the cache, whatever the depth of the queue.
 */
static void
verbs_sq_reap(struct weft_qp *qp)
{
	uint32_t free_places = 0;

	while (qp->sq_head != qp->sq_tail) {
		struct verbs_sqe *s = verbs_sqe_at(qp, qp->sq_head);

		if (!s->req.done)
			break;
		if (likely(s->silent) && likely(s->status == WEFT_WC_SUCCESS && !qp->sq_failed)) {
			qp->sq_head++;
			free_places++;
			continue;
		}
		if (unlikely(s->chain != 0)) {
			if (s->chain & VERBS_CHAIN_PART) {
				if (!verbs_chain_reap(qp, &free_places))
					break;
				continue;
			}
			weft_verbs_watch_del(qp, s->watch);
		}
		qp->sq_head++;
		free_places++;
		if (unlikely(qp->sq_failed || s->status != WEFT_WC_SUCCESS))
			verbs_sq_fail(qp, s);
		if (unlikely(verbs_is_local(s)))
			weft_verbs_local_put(s);
		if (s->signaled || s->status != WEFT_WC_SUCCESS) {
			struct weft_wc wc = {
			        .wr_id = s->wr_id,
			        .status = s->status,
			        .opcode = s->opcode,
			        .len_bytes = s->opcode == WEFT_WC_VERIFY ? s->req.hash_bytes
			                                                 : s->req.len_bytes,
			};

			/*
			 * Before the completion is visible, because the consumer may then post in
			 * its place.
			 */
			verbs_credits_give(&qp->sq_credits, free_places);
			free_places = 0;
			verbs_wc(qp, qp->send_sub, &wc);
		}
	}
	if (free_places > 0)
		verbs_credits_give(&qp->sq_credits, free_places);
	if (qp->sq_head == qp->sq_tail)
		qp->sq_head = qp->sq_tail = (qp->sq_tail + qp->sq_mask) & ~qp->sq_mask;
}

void
weft_verbs_sq_flush(struct weft_qp *qp)
{
	for (uint32_t i = qp->sq_head; i != qp->sq_tail; i++) {
		struct verbs_sqe *s = verbs_sqe_at(qp, i);

		if (!s->req.done) {
			s->req.done = true;
			s->status = WEFT_WC_FLUSHED;
		}
	}
	verbs_sq_reap(qp);
}

void
weft_verbs_sq_drop(struct weft_qp *qp, struct verbs_sqe *s)
{
	struct weft_wc wc = {.wr_id = s->wr_id, .status = WEFT_WC_FLUSHED, .opcode = s->opcode};

	if (verbs_is_local(s))
		weft_verbs_local_put(s);
	verbs_credits_give(&qp->sq_credits, 1);
	if (s->chain & VERBS_WATCHED)
		weft_verbs_watch_del(qp, s->watch);
	if (s->chain & VERBS_CHAIN_PART)
		wc.opcode = WEFT_WC_COMMIT;
	if ((s->chain & VERBS_CHAIN_PART) == 0 || (s->chain & VERBS_CHAIN_LAST) != 0)
		verbs_wc(qp, qp->send_sub, &wc);
}

/* ---- rdmap's up-calls ---- */

static __rte_noinline void
verbs_result(struct weft_qp *qp, struct verbs_sqe *s)
{
	if (s->opcode != WEFT_WC_VERIFY)
		weft_verbs_atomic_done(qp, s);
	else
		memcpy(s->result, s->req.hash,
		       RTE_MIN(s->result_bytes, (uint32_t)s->req.hash_bytes));
}

void
weft_verbs_done(void *user, struct weft_rdmap_req *req, enum weft_rdmap_status status)
{
	struct weft_qp *qp = user;
	struct verbs_sqe *s = container_of(req, struct verbs_sqe, req);

	s->req.done = true;
	s->status = weft_verbs_wc_status[status];
	if (unlikely(verbs_is_local(s)))
		qp->locals--;
	if (unlikely(s->result != NULL) && status == WEFT_RDMAP_OK)
		verbs_result(qp, s);
	if (qp->in_turn)
		return;
	if (s == verbs_sqe_at(qp, qp->sq_head) || (s->chain & VERBS_CHAIN_LAST) != 0)
		verbs_sq_reap(qp);
}

void
weft_verbs_reap(struct weft_qp *qp)
{
	verbs_sq_reap(qp);
}

void
weft_verbs_turn(void *user, bool begins)
{
	struct weft_qp *qp = user;

	qp->in_turn = begins;
	if (!begins)
		verbs_sq_reap(qp);
}

/** If the Write is a part of a chain, its status becomes that of the refusal. */
void
weft_verbs_write_refused(void *user, uint32_t stag, uint64_t to, enum weft_rdmap_status status)
{
	struct weft_qp *qp = user;
	struct verbs_sqe *guilty = NULL;

	for (uint32_t i = qp->sq_head; i != qp->sq_tail; i++) {
		struct verbs_sqe *s = verbs_sqe_at(qp, i);

		if ((s->chain & VERBS_CHAIN_PART) == 0 || s->opcode != WEFT_WC_WRITE ||
		    !s->req.done || s->req.stag != stag || to - s->req.to >= s->req.len_bytes)
			continue;
		/*
		 * If two Writes match, it is unknown which one was refused. The first may have been
		 * executed, with its commit word. So neither is blamed.
		 */
		if (guilty != NULL)
			return;
		guilty = s;
	}
	if (guilty != NULL)
		guilty->status = weft_verbs_wc_status[status];
}
