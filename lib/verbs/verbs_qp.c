/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Queue pairs: creation, destruction, and rdmap's up-calls. */

#include <stdlib.h>

#include "verbs_unit.h"

#define QP_DEFAULT_DEPTH 256
/** The send queue's memory is freed after one to two of these periods without a post. */
#define VERBS_REST_NS  (1 * WEFT_NS_PER_S)
#define QP_DEFAULT_IRD 32

static void verbs_qp_bye(struct weft_work_item *m);
static void verbs_qp_later(struct weft_work_item *m);

static void
verbs_qp_free(struct weft_qp *qp)
{
	weft_verbs_local_drop(qp);
	free(qp->sq);
	free(qp->rq);
	free(qp->sq_ring);
	free(qp->rq_ring);
	free(qp->last_ev);
	weft_verbs_watch_free(qp->watch);
	if (qp->srq != NULL)
		weft_verbs_srq_unref(qp->srq);
	if (qp->send_cq != NULL)
		weft_verbs_cq_unref(qp->send_cq);
	if (qp->recv_cq != NULL)
		weft_verbs_cq_unref(qp->recv_cq);
	if (qp->evq != NULL)
		weft_verbs_ev_unref(qp->evq);
	if (qp->pd != NULL)
		weft_verbs_pd_unref(qp->pd);
	weft_handle_free(&qp->h, sizeof(qp->h));
}

void
weft_verbs_qp_unref(struct weft_qp *qp)
{
	if (__atomic_sub_fetch(&qp->refs, 1, __ATOMIC_ACQ_REL) == 0)
		verbs_qp_free(qp);
}

/** The handle no longer uses other objects: from here on it is no reason for -EBUSY. */
static void
verbs_qp_unuse(struct weft_qp *qp)
{
	if (qp->send_sub != NULL)
		__atomic_fetch_sub(&qp->send_cq->users, 1, __ATOMIC_RELEASE);
	if (qp->recv_sub != NULL)
		__atomic_fetch_sub(&qp->recv_cq->users, 1, __ATOMIC_RELEASE);
	if (qp->srq != NULL)
		weft_verbs_srq_unuse(qp->srq);
	if (qp->evq != NULL)
		__atomic_fetch_sub(&qp->evq->users, 1, __ATOMIC_RELEASE);
	if (qp->pd != NULL) {
		__atomic_fetch_sub(&qp->pd->nqps, 1, __ATOMIC_RELEASE);
		__atomic_fetch_sub(&qp->pd->users, 1, __ATOMIC_RELEASE);
	}
}

static int
verbs_qp_queues(struct weft_qp *qp)
{
	uint32_t sq = rte_align32pow2(qp->sq_depth), rq = rte_align32pow2(qp->rq_depth);

	if (qp->srq != NULL)
		rq = 1; /* room for the receive that the QP holds */

	qp->sq_mask = sq - 1;
	qp->rq_mask = rq - 1;
	qp->sq_credits = qp->sq_depth;
	qp->rq_credits = qp->rq_depth;
	qp->rq_places = qp->srq != NULL ? weft_verbs_srq_credits(qp->srq) : &qp->rq_credits;
	qp->swr_bytes = weft_verbs_swr_bytes(qp->max_send_sge, qp->max_inline_bytes);
	qp->rwr_bytes =
	        (uint16_t)(sizeof(struct verbs_rwr) + qp->max_sge * sizeof(struct weft_rdmap_sge));
	qp->rq = calloc(rq, qp->rwr_bytes);
	return qp->rq == NULL ? -ENOMEM : 0;
}

int
weft_qp_create(struct weft_pd *pd, const struct weft_qp_attr *attr, struct weft_qp **out)
{
	struct weft_rdmap_attr ra = {0};
	struct weft_vworker *vw;
	struct weft_vctx *v;
	struct weft_qp_attr a;
	struct weft_qp *qp;
	int rc;

	if (WEFT_HANDLE_BAD(pd, PD) || out == NULL)
		return -EINVAL;
	v = pd->ctx;
	rc = weft_attr_copy(&a, sizeof(a), attr);
	if (rc < 0)
		return rc;
	if (WEFT_HANDLE_BAD(a.worker, WORKER) || WEFT_HANDLE_BAD(a.send_cq, CQ) ||
	    WEFT_HANDLE_BAD(a.recv_cq, CQ) || WEFT_HANDLE_BAD(a.evq, EVQ) ||
	    (a.srq != NULL && WEFT_HANDLE_BAD(a.srq, SRQ)))
		return -EINVAL;
	if (a.sq_depth == 0)
		a.sq_depth = QP_DEFAULT_DEPTH;
	if (a.rq_depth == 0)
		a.rq_depth = QP_DEFAULT_DEPTH;
	if (a.max_sge == 0)
		a.max_sge = WEFT_DEFAULT_SGE;
	if (a.max_send_sge == 0)
		a.max_send_sge = WEFT_DEFAULT_SGE;
	if (a.ird == 0)
		a.ird = QP_DEFAULT_IRD;
	if (a.ord == 0)
		a.ord = QP_DEFAULT_IRD;
	if (a.sq_depth > VERBS_QP_MAX_DEPTH || a.rq_depth > VERBS_QP_MAX_DEPTH ||
	    a.ird > VERBS_QP_MAX_IRD || a.ord > VERBS_QP_MAX_IRD || a.max_sge > WEFT_MAX_SGE ||
	    a.max_send_sge > WEFT_MAX_SGE || a.max_inline_bytes > WEFT_MAX_INLINE)
		return -EINVAL;
	vw = weft_vworker_of(a.worker);
	if (vw->ctx != v || a.send_cq->ctx != v || a.recv_cq->ctx != v || a.evq->ctx != v ||
	    (a.srq != NULL && weft_verbs_srq_pd(a.srq)->mem != v->mem))
		return -EINVAL;
	if (__atomic_add_fetch(&vw->nqps, 1, __ATOMIC_RELAXED) > vw->max_qps) {
		__atomic_fetch_sub(&vw->nqps, 1, __ATOMIC_RELAXED);
		return -ENOSPC;
	}
	qp = aligned_alloc(64, RTE_ALIGN_CEIL(sizeof(*qp), 64));
	if (qp == NULL) {
		__atomic_fetch_sub(&vw->nqps, 1, __ATOMIC_RELAXED);
		return -ENOMEM;
	}
	memset(qp, 0, sizeof(*qp));
	qp->refs = 1;
	qp->vw = vw;
	TAILQ_INIT(&qp->windows);
	qp->user = a.user;
	qp->all_signaled = a.all_signaled;
	qp->ird = qp->snap.ird = a.ird;
	qp->ord = qp->snap.ord = a.ord;
	qp->sq_depth = a.sq_depth;
	qp->rq_depth = a.rq_depth;
	qp->max_sge = (uint8_t)a.max_sge;
	qp->max_send_sge = (uint8_t)a.max_send_sge;
	qp->max_inline_bytes = (uint16_t)a.max_inline_bytes;
	qp->bell.fn = weft_verbs_bell;
	qp->bye.fn = verbs_qp_bye;
	qp->later.fn = verbs_qp_later;
	qp->snap_work.fn = weft_verbs_qp_snap;
	qp->pd = pd;
	__atomic_fetch_add(&pd->nqps, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&pd->users, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&pd->refs, 1, __ATOMIC_RELAXED);
	qp->evq = a.evq;
	__atomic_fetch_add(&a.evq->users, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&a.evq->refs, 1, __ATOMIC_RELAXED);
	rc = -ENOMEM;
	if (a.srq != NULL) {
		if (weft_verbs_srq_join(a.srq, vw) < 0)
			goto fail;
		qp->srq = a.srq;
		qp->rq_depth = 0;
		qp->max_sge = weft_verbs_srq_max_sge(a.srq);
	}
	qp->send_sub = weft_verbs_cq_join(a.send_cq, vw);
	if (qp->send_sub == NULL)
		goto fail;
	qp->send_cq = a.send_cq;
	qp->recv_sub = weft_verbs_cq_join(a.recv_cq, vw);
	if (qp->recv_sub == NULL)
		goto fail;
	qp->recv_cq = a.recv_cq;
	qp->last_ev = weft_verbs_ev_new_brief();
	if (qp->last_ev == NULL)
		goto fail;
	qp->note.brief = qp->note.kept = true;
	qp->note.qp = qp;
	rc = verbs_qp_queues(qp);
	if (rc < 0)
		goto fail;
	ra.mem = v->mem;
	ra.pd = &pd->mem;
	ra.sched = &vw->sched;
	ra.ird = a.ird;
	ra.ord = a.ord;
	ra.op_stats = &vw->op_stats;
	rc = weft_rdmap_create(&ra, &weft_verbs_rdmap_ops, qp, &qp->rdmap);
	if (rc < 0)
		goto fail;
	qp->h.gate = QP_GATE_SEND | (a.srq != NULL ? QP_GATE_RECV : 0);
	weft_handle_init(&qp->h, WEFT_KIND(QP));
	pthread_mutex_lock(&v->lock);
	qp->qpn = ++v->next_qpn;
	TAILQ_INSERT_TAIL(&v->qps, qp, all);
	qp->listed = true;
	pthread_mutex_unlock(&v->lock);
	*out = qp;
	return 0;
fail:
	__atomic_fetch_sub(&vw->nqps, 1, __ATOMIC_RELAXED);
	verbs_qp_unuse(qp);
	weft_verbs_qp_unref(qp);
	return rc;
}

/* ---- Rest ---- */

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
	qp->sq = calloc(qp->sq_mask + 1, qp->swr_bytes);
	if (qp->sq == NULL)
		return false;
	qp->sq_seen = qp->sq_tail;
	if (qp->dead || qp->rdmap == NULL)
		return true; /* being destroyed: the memory is freed with the QP */
	/* The timer of the active open is free: nothing is posted before ESTABLISHED. */
	weft_timer_init(&qp->timer, verbs_rest);
	weft_timer_arm(&qp->vw->sched.wheel, &qp->timer, qp->vw->sched.now_ns + VERBS_REST_NS);
	return true;
}

/* ---- Destruction ---- */

/** Complete as flushed what rdmap, which is destroyed, left undone. */
static void
verbs_sq_flush(struct weft_qp *qp)
{
	for (uint32_t i = qp->sq_head; i != qp->sq_tail; i++) {
		struct verbs_swr *s = verbs_swr_at(qp, i);

		if (!s->done) {
			s->done = true;
			s->status = WEFT_WC_FLUSHED;
		}
	}
	weft_verbs_sq_reap(qp);
}

void
weft_verbs_qp_kill(struct weft_qp *qp, bool flush)
{
	struct weft_vctx *v = qp->vw->ctx;

	pthread_mutex_lock(&v->lock);
	TAILQ_REMOVE(&v->qps, qp, all);
	qp->listed = false;
	weft_verbs_stats_keep(qp);
	pthread_mutex_unlock(&v->lock);
	verbs_cm_set(qp, CM_DOWN);
	weft_verbs_connect_forget(qp);
	weft_verbs_peer_leave(qp);
	weft_timer_cancel(&qp->vw->sched.wheel, &qp->timer);
	weft_verbs_mw_orphan(qp);
	weft_rdmap_destroy(qp->rdmap);
	qp->rdmap = NULL;
	qp->conn = NULL;
	if (flush) {
		/* Earlier posts of other threads are outstanding work, too. */
		qp->rq_dead = true;
		qp->flushing = true;
		weft_verbs_take_posts(qp);
		verbs_sq_flush(qp);
		weft_verbs_rq_flush(qp);
	} else if (qp->srq != NULL && qp->rq_head != qp->rq_tail) {
		weft_verbs_srq_give_back(qp);
	}
	qp->dead = true;
	weft_verbs_ev_purge_qp(qp->evq, qp->vw, qp);
	if (unlikely(qp->overrun && !__atomic_load_n(&qp->overrun_told, __ATOMIC_RELAXED)))
		weft_verbs_ev_overrun(qp);
	if (!qp->uncounted)
		__atomic_fetch_sub(&qp->vw->nqps, 1, __ATOMIC_RELAXED);
	weft_verbs_qp_unref(qp); /* the reference of the handle */
}

static void
verbs_qp_bye(struct weft_work_item *m)
{
	weft_verbs_qp_kill(container_of(m, struct weft_qp, bye), false);
}

void
weft_qp_destroy(struct weft_qp *qp)
{
	if (WEFT_HANDLE_CLAIM(qp, QP) < 0)
		return;
	weft_handle_end(&qp->h, WEFT_KIND(QP));
	/* `dying` first: after verbs_qp_unuse() the QP's queues may be destroyed by any thread. */
	__atomic_store_n(&qp->dying, 1, __ATOMIC_RELEASE);
	verbs_qp_unuse(qp);
	if (weft_vworker_is_mine(qp->vw)) {
		weft_verbs_qp_kill(qp, true);
		return;
	}
	weft_verbs_ev_purge_qp(qp->evq, NULL, qp);
	weft_work_send(&qp->vw->work, &qp->bye);
}

/* ---- rdmap's up-calls ---- */

static const uint8_t verbs_status[] = {
        [WEFT_RDMAP_OK] = WEFT_WC_SUCCESS,
        [WEFT_RDMAP_FLUSHED] = WEFT_WC_FLUSHED,
        [WEFT_RDMAP_REMOTE_ACCESS] = WEFT_WC_REMOTE_ACCESS,
        [WEFT_RDMAP_REMOTE_OP] = WEFT_WC_REMOTE_OP,
        [WEFT_RDMAP_HASH_MISMATCH] = WEFT_WC_HASH_MISMATCH,
        [WEFT_RDMAP_LOCAL_LENGTH] = WEFT_WC_LOCAL_LENGTH,
        [WEFT_RDMAP_LOCAL_PROT] = WEFT_WC_LOCAL_PROT,
};

static __rte_noinline void
verbs_overrun(struct weft_qp *qp, struct weft_cq_sub *sub)
{
	if (qp->overrun || qp->dead)
		return;
	qp->overrun = true;
	qp->overrun_cq = sub->cq;
	weft_verbs_ev_note(qp, NOTE_OVERRUN);
	weft_verbs_qp_abort_later(qp);
}

void
weft_verbs_wc(struct weft_qp *qp, struct weft_cq_sub *sub, struct weft_wc *wc)
{
	/* Destroyed from another thread: the consumer expects no more completions. */
	if (unlikely(__atomic_load_n(&qp->dying, __ATOMIC_RELAXED)) && !qp->flushing)
		return;
	wc->qp = qp;
	wc->qp_user = qp->user;
	if (unlikely(!weft_verbs_cq_put(sub, wc)))
		verbs_overrun(qp, sub);
}

/**
 * After an error every request is flushed, also a Write that was sent beside an unanswered Read. A
 * Verify with an unexpected hash, but without a Terminate, does not end the stream.
 */
__rte_noinline void
weft_verbs_sq_fail(struct weft_qp *qp, struct verbs_swr *s)
{
	if (qp->sq_failed) {
		if (s->status == WEFT_WC_SUCCESS)
			s->status = WEFT_WC_FLUSHED;
	} else {
		qp->sq_failed = s->status != WEFT_WC_HASH_MISMATCH || qp->rdmap == NULL ||
		                weft_rdmap_state(qp->rdmap) >= WEFT_RDMAP_ST_TERMINATE;
	}
}

void
weft_verbs_sq_reap(struct weft_qp *qp)
{
	uint32_t free_places = 0;

	while (qp->sq_head != qp->sq_tail) {
		struct verbs_swr *s = verbs_swr_at(qp, qp->sq_head);

		if (!s->done)
			break;
		if (unlikely(s->unit != 0)) {
			if (s->unit & VERBS_UNIT_PART) {
				if (!weft_verbs_unit_reap(qp, &free_places))
					break;
				continue;
			}
			weft_verbs_watch_del(qp, s->watch);
		}
		qp->sq_head++;
		free_places++;
		if (unlikely(qp->sq_failed || s->status != WEFT_WC_SUCCESS))
			weft_verbs_sq_fail(qp, s);
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
			weft_verbs_wc(qp, qp->send_sub, &wc);
		}
	}
	if (free_places > 0)
		verbs_credits_give(&qp->sq_credits, free_places);
}

static __rte_noinline void
verbs_result(struct weft_qp *qp, struct verbs_swr *s)
{
	if (s->opcode != WEFT_WC_VERIFY)
		weft_verbs_atomic_done(qp, s);
	else
		memcpy(s->result, s->req.hash,
		       RTE_MIN(s->result_bytes, (uint32_t)s->req.hash_bytes));
}

static void
verbs_done(void *user, struct weft_rdmap_req *req, enum weft_rdmap_status status)
{
	struct weft_qp *qp = user;
	struct verbs_swr *s = container_of(req, struct verbs_swr, req);

	s->done = true;
	s->status = verbs_status[status];
	if (unlikely(verbs_is_local(s)))
		qp->locals--;
	if (unlikely(s->result != NULL) && status == WEFT_RDMAP_OK)
		verbs_result(qp, s);
	if (s == verbs_swr_at(qp, qp->sq_head) || unlikely((s->unit & VERBS_UNIT_LAST) != 0))
		weft_verbs_sq_reap(qp);
}

static void
verbs_write_refused(void *user, uint32_t stag, uint64_t to, enum weft_rdmap_status status)
{
	weft_verbs_unit_refused(user, stag, to, verbs_status[status]);
}

/** The receive at the head is used: complete it. */
static void
verbs_rq_done(struct weft_qp *qp, struct weft_wc *wc)
{
	wc->wr_id = verbs_rwr_at(qp, qp->rq_head)->wr_id;
	if (wc->opcode != WEFT_WC_RECV_IMM)
		wc->opcode = WEFT_WC_RECV;
	qp->rq_head++;
	/* Before the completion is visible, because the consumer may then post in its place. */
	verbs_credits_give(qp->rq_places, 1);
	weft_verbs_wc(qp, qp->recv_sub, wc);
}

/**
 * True: the QP was destroyed from another thread, and its receive was returned to the SRQ unused.
 */
static bool
verbs_rq_unheard(struct weft_qp *qp)
{
	if (qp->srq == NULL || qp->flushing || !__atomic_load_n(&qp->dying, __ATOMIC_RELAXED))
		return false;
	weft_verbs_srq_give_back(qp);
	return true;
}

/** Complete the receive at the head, or return it to the SRQ. */
static void
verbs_recv_end(struct weft_qp *qp, struct weft_wc *wc)
{
	if (qp->rq_head == qp->rq_tail)
		return;
	if (unlikely(verbs_rq_unheard(qp)))
		return;
	verbs_rq_done(qp, wc);
}

static void
verbs_recv_done(void *user, enum weft_rdmap_status status, uint32_t len_bytes, bool solicited,
                uint32_t inv_stag)
{
	struct weft_qp *qp = user;
	struct weft_wc wc = {
	        .status = verbs_status[status],
	        .len_bytes = len_bytes,
	        .inv_stag = inv_stag,
	        .flags = (solicited ? WEFT_WC_SOLICITED : 0) | (inv_stag != 0 ? WEFT_WC_INV : 0),
	};

	verbs_recv_end(qp, &wc);
}

static void
verbs_recv_imm(void *user, const uint8_t imm[WEFT_RDMAP_IMM_BYTES], bool solicited)
{
	struct weft_qp *qp = user;
	struct weft_wc wc = {
	        .opcode = WEFT_WC_RECV_IMM,
	        .len_bytes = WEFT_RDMAP_IMM_BYTES,
	        .flags = solicited ? WEFT_WC_SOLICITED : 0,
	};

	memcpy(wc.imm, imm, WEFT_RDMAP_IMM_BYTES);
	verbs_recv_end(qp, &wc);
}

static const struct weft_rdmap_sge *
verbs_recv_buf(void *user, uint8_t *nsge)
{
	struct weft_qp *qp = user;
	const struct verbs_rwr *r = verbs_rwr_at(qp, qp->rq_head);

	*nsge = 0;
	if (qp->rq_head == qp->rq_tail && (qp->srq == NULL || !weft_verbs_srq_take(qp)))
		return NULL;
	if (unlikely(r->keyed) &&
	    !weft_verbs_lkeys_ok(qp->vw->ctx->mem,
	                         qp->srq != NULL ? weft_verbs_srq_pd(qp->srq) : &qp->pd->mem,
	                         r->sge, r->nsge, WEFT_ACCESS_LOCAL_WRITE)) {
		verbs_recv_done(user, WEFT_RDMAP_LOCAL_PROT, 0, false, 0);
		*nsge = UINT8_MAX;
		return NULL;
	}
	*nsge = r->nsge;
	return r->sge;
}

void
weft_verbs_rq_flush(struct weft_qp *qp)
{
	if (qp->rq_head != qp->rq_tail && verbs_rq_unheard(qp))
		return;
	while (qp->rq_head != qp->rq_tail) {
		struct weft_wc wc = {.status = WEFT_WC_FLUSHED};

		verbs_rq_done(qp, &wc);
	}
}

static void
verbs_state(void *user, enum weft_rdmap_state s, const struct weft_term *term, bool ours)
{
	static const uint8_t map[] = {
	        [WEFT_RDMAP_ST_IDLE] = WEFT_QP_IDLE,
	        [WEFT_RDMAP_ST_RTS] = WEFT_QP_RTS,
	        [WEFT_RDMAP_ST_CLOSING] = WEFT_QP_CLOSING,
	        [WEFT_RDMAP_ST_TERMINATE] = WEFT_QP_TERMINATE,
	        [WEFT_RDMAP_ST_ERROR] = WEFT_QP_ERROR,
	};
	struct weft_qp *qp = user;

	__atomic_store_n(&qp->state, map[s], __ATOMIC_RELEASE);
	if (s == WEFT_RDMAP_ST_TERMINATE && term != NULL && !qp->snap.terminated) {
		pthread_mutex_lock(&qp->vw->ctx->lock);
		qp->snap.term.layer = term->layer;
		qp->snap.term.etype = term->etype;
		qp->snap.term.code = term->code;
		qp->snap.term.ours = ours;
		qp->snap.terminated = true;
		pthread_mutex_unlock(&qp->vw->ctx->lock);
		weft_verbs_ev_note(qp, NOTE_TERMINATED);
	}
	if (s == WEFT_RDMAP_ST_ERROR) {
		weft_verbs_mw_orphan(qp);
		qp->rq_dead = true;
		weft_verbs_rq_flush(qp);
		if (qp->srq != NULL)
			weft_verbs_ev_note(qp, NOTE_LAST_WQE);
	}
}

static void
verbs_reply(void *user, const struct weft_mpa_frame *rep)
{
	weft_verbs_reply(user, rep);
}

static bool
verbs_again(void *user, int err)
{
	(void)err;
	return weft_verbs_again(user);
}

static void
verbs_closed(void *user, int err)
{
	struct weft_qp *qp = user;

	qp->conn = NULL;
	weft_verbs_peer_leave(qp);
	weft_verbs_down(qp, err);
}

const struct weft_rdmap_ops weft_verbs_rdmap_ops = {
        .done = verbs_done,
        .write_refused = verbs_write_refused,
        .recv_buf = verbs_recv_buf,
        .recv_done = verbs_recv_done,
        .recv_imm = verbs_recv_imm,
        .invalidate = weft_verbs_invalidate,
        .start = weft_verbs_start,
        .state = verbs_state,
        .reply = verbs_reply,
        .again = verbs_again,
        .closed = verbs_closed,
        .bad_range = weft_verbs_bad_range,
};

/* ---- Resetting the connection ---- */

void
weft_verbs_qp_abort(struct weft_qp *qp)
{
	weft_rdmap_abort(qp->rdmap, qp->vw->sched.now_ns);
	qp->conn = NULL;
	weft_verbs_peer_leave(qp);
	weft_verbs_down(qp, -ECONNABORTED);
}

static void
verbs_qp_later(struct weft_work_item *m)
{
	struct weft_qp *qp = container_of(m, struct weft_qp, later);

	qp->aborting = false;
	if (!qp->dead)
		weft_verbs_qp_abort(qp);
	weft_verbs_qp_unref(qp);
}

void
weft_verbs_qp_abort_later(struct weft_qp *qp)
{
	if (qp->aborting)
		return;
	qp->aborting = true;
	weft_verbs_qp_ref(qp);
	weft_vworker_later(qp->vw, &qp->later);
}
