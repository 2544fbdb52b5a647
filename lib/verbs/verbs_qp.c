/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Queue pairs: creation, destruction, and rdmap's up-calls. */

#include <stdlib.h>

#include "verbs_left.h"
#include "verbs_post.h"
#include "verbs_queue.h"
#include "verbs_srq.h"
#include "weft_verbs_mr.h"
#include "weft_verbs_ops.h"
#include "weft_verbs_chain.h"

#define QP_DEFAULT_DEPTH 256
#define QP_DEFAULT_IRD   32

static void verbs_qp_destroy_run(struct weft_work_item *m);
static void verbs_qp_later(struct weft_work_item *m);

static void
verbs_qp_free(struct weft_qp *qp)
{
	weft_verbs_local_drop(qp);
	free(qp->sq);
	free(qp->rq);
	free(atomic_load_explicit(&qp->sq_ring, memory_order_relaxed));
	free(atomic_load_explicit(&qp->rq_ring, memory_order_relaxed));
	free(qp->last_ev);
	weft_verbs_watch_free(atomic_load_explicit(&qp->watch, memory_order_relaxed));
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

/** The handle no longer uses other objects: from here on it is no reason for -EBUSY. */
static void
verbs_qp_unuse(struct weft_qp *qp)
{
	if (qp->send_sub != NULL)
		atomic_fetch_sub_explicit(&qp->send_cq->users, 1, memory_order_release);
	if (qp->recv_sub != NULL)
		atomic_fetch_sub_explicit(&qp->recv_cq->users, 1, memory_order_release);
	if (qp->srq != NULL)
		weft_verbs_srq_unuse(qp->srq);
	if (qp->evq != NULL)
		atomic_fetch_sub_explicit(&qp->evq->users, 1, memory_order_release);
	if (qp->pd != NULL) {
		atomic_fetch_sub_explicit(&qp->pd->nqps, 1, memory_order_release);
		atomic_fetch_sub_explicit(&qp->pd->users, 1, memory_order_release);
	}
}

/* ---- rdmap's up-calls ---- */

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

	/* What was done before the change completes before it can be seen. */
	weft_verbs_reap(qp);
	atomic_store_explicit(&qp->state, map[s], memory_order_release);
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

static const struct weft_verbs_cm_ops *
verbs_cm_ops(const struct weft_qp *qp)
{
	return qp->vw->ctx->cm_ops;
}

static void
verbs_reply(void *user, const struct weft_mpa_frame *rep)
{
	verbs_cm_ops(user)->reply(user, rep);
}

static bool
verbs_again(void *user, int err)
{
	(void)err;
	return verbs_cm_ops(user)->again(user);
}

static void
verbs_closed(void *user, int err)
{
	verbs_cm_ops(user)->ended(user, err);
}

static const struct weft_rdmap_ops verbs_rdmap_ops = {
        .done = weft_verbs_done,
        .turn = weft_verbs_turn,
        .write_refused = weft_verbs_write_refused,
        .recv_buf = weft_verbs_recv_buf,
        .recv_done = weft_verbs_recv_done,
        .recv_whole = weft_verbs_recv_whole,
        .recv_imm = weft_verbs_recv_imm,
        .invalidate = weft_verbs_invalidate,
        .start = weft_verbs_start,
        .state = verbs_state,
        .reply = verbs_reply,
        .again = verbs_again,
        .closed = verbs_closed,
        .bad_range = weft_verbs_bad_range,
};

/* ---- Creation ---- */

static int
verbs_qp_queues(struct weft_qp *qp)
{
	uint32_t sq = rte_align32pow2(qp->sq_depth), rq = rte_align32pow2(qp->rq_depth);

	if (qp->srq != NULL)
		rq = 1; /* room for the receive that the QP holds */

	qp->sq_mask = sq - 1;
	qp->rq_mask = rq - 1;
	atomic_init(&qp->sq_credits, qp->sq_depth);
	atomic_init(&qp->rq_credits, qp->rq_depth);
	qp->rq_places = qp->srq != NULL ? weft_verbs_srq_credits(qp->srq) : &qp->rq_credits;
	qp->sqe_bytes = weft_verbs_sqe_bytes(qp->max_send_sge, qp->max_inline_bytes);
	qp->rqe_bytes =
	        (uint16_t)(sizeof(struct verbs_rqe) + qp->max_sge * sizeof(struct weft_rdmap_sge));
	qp->rq = calloc(rq, qp->rqe_bytes);
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
	size_t qp_bytes;
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
	if (atomic_fetch_add_explicit(&vw->nqps, 1, memory_order_relaxed) >= vw->max_qps &&
	    !(weft_vworker_is_mine(vw) && weft_verbs_make_room(vw, true))) {
		atomic_fetch_sub_explicit(&vw->nqps, 1, memory_order_relaxed);
		return -ENOSPC;
	}
	qp_bytes = sizeof(*qp) + v->cm_ops->conn_bytes;
	/* not aligned_alloc(), whose size would have to be whole cache lines */
	if (posix_memalign((void **)&qp, RTE_CACHE_LINE_SIZE, qp_bytes) != 0) {
		atomic_fetch_sub_explicit(&vw->nqps, 1, memory_order_relaxed);
		return -ENOMEM;
	}
	memset(qp, 0, qp_bytes);
	qp->conn = (struct weft_cm_conn *)(void *)(qp + 1);
	atomic_init(&qp->refs, 1);
	qp->vw = vw;
	v->cm_ops->created(qp);
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
	qp->free = verbs_qp_free;
	qp->doorbell.fn = weft_verbs_doorbell_run;
	qp->destroy.fn = verbs_qp_destroy_run;
	qp->later.fn = verbs_qp_later;
	qp->snap_work.fn = weft_verbs_qp_snap;
	qp->pd = pd;
	atomic_fetch_add_explicit(&pd->nqps, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&pd->users, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&pd->refs, 1, memory_order_relaxed);
	qp->evq = a.evq;
	atomic_fetch_add_explicit(&a.evq->users, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&a.evq->refs, 1, memory_order_relaxed);
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
	rc = weft_rdmap_create(&ra, &verbs_rdmap_ops, qp, &qp->rdmap);
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
	atomic_fetch_sub_explicit(&vw->nqps, 1, memory_order_relaxed);
	verbs_qp_unuse(qp);
	weft_verbs_qp_unref(qp);
	return rc;
}

/* ---- Destruction ---- */

/**
 * Destroy on the worker (or at teardown); `flush`: with flushed completions. `left`: what has taken
 * the stream; NULL: the connection is reset.
 */
static void
verbs_qp_kill(struct weft_qp *qp, bool flush, struct verbs_left *left)
{
	struct weft_vctx *v = qp->vw->ctx;

	pthread_mutex_lock(&v->lock);
	TAILQ_REMOVE(&v->qps, qp, all);
	qp->listed = false;
	if (left != NULL)
		weft_verbs_left_put(left);
	else
		weft_verbs_count(v, qp->rdmap, &qp->vw->stats);
	pthread_mutex_unlock(&v->lock);
	verbs_cm_set(qp, CM_DOWN);
	verbs_cm_ops(qp)->destroyed(qp);
	weft_timer_cancel(&qp->vw->sched.wheel, &qp->timer);
	weft_verbs_mw_orphan(qp);
	if (left == NULL)
		weft_rdmap_destroy(qp->rdmap);
	qp->rdmap = NULL;
	if (flush) {
		/* Earlier posts of other threads are outstanding work, too. */
		qp->rq_dead = true;
		qp->flushing = true;
		weft_verbs_take_posts(qp);
		weft_verbs_sq_flush(qp);
		weft_verbs_rq_flush(qp);
	} else if (qp->srq != NULL && qp->rq_head != qp->rq_tail) {
		weft_verbs_srq_give_back(qp);
	}
	qp->dead = true;
	weft_verbs_ev_purge_qp(qp->evq, qp->vw, qp);
	if (unlikely(qp->overrun && !atomic_load_explicit(&qp->overrun_told, memory_order_relaxed)))
		weft_verbs_ev_overrun(qp);
	if (!qp->uncounted)
		atomic_fetch_sub_explicit(&qp->vw->nqps, 1, memory_order_relaxed);
	weft_verbs_qp_unref(qp); /* the reference of the handle */
}

static void
verbs_qp_destroy_run(struct weft_work_item *m)
{
	verbs_qp_kill(container_of(m, struct weft_qp, destroy), false, NULL);
}

void
weft_qp_destroy(struct weft_qp *qp)
{
	if (WEFT_HANDLE_CLAIM(qp, QP) < 0)
		return;
	weft_handle_end(&qp->h, WEFT_KIND(QP));
	/* `dying` first: after verbs_qp_unuse() the QP's queues may be destroyed by any thread. */
	atomic_store_explicit(&qp->dying, 1, memory_order_release);
	verbs_qp_unuse(qp);
	if (weft_vworker_is_mine(qp->vw)) {
		verbs_qp_kill(qp, true, NULL);
		return;
	}
	weft_verbs_ev_purge_qp(qp->evq, NULL, qp);
	weft_work_send(&qp->vw->work, &qp->destroy);
}

int
weft_verbs_qp_leave(struct weft_qp *qp, uint64_t wait_ns, void (*gone)(void *arg, int status),
                    void *arg)
{
	const enum weft_rdmap_state st = weft_rdmap_state(qp->rdmap);
	struct verbs_left *l;

	if (verbs_cm_get(qp) != CM_UP || qp->aborting ||
	    (st != WEFT_RDMAP_ST_CLOSING && st != WEFT_RDMAP_ST_TERMINATE)) {
		weft_qp_destroy(qp);
		return 0;
	}
	l = weft_verbs_left_new(qp->vw, gone, arg);
	if (l == NULL)
		return -ENOMEM;
	if (WEFT_HANDLE_CLAIM(qp, QP) < 0) {
		weft_verbs_left_free(l);
		return -EINVAL;
	}
	if (!weft_verbs_left_take(l, qp, wait_ns)) {
		weft_handle_unclaim(&qp->h, WEFT_KIND(QP));
		weft_verbs_left_free(l);
		return -EBUSY;
	}
	weft_handle_end(&qp->h, WEFT_KIND(QP));
	atomic_store_explicit(&qp->dying, 1, memory_order_release);
	verbs_qp_unuse(qp);
	verbs_qp_kill(qp, true, l);
	return 1;
}

/* ---- Resetting the connection ---- */

void
weft_verbs_qp_abort(struct weft_qp *qp)
{
	weft_rdmap_abort(qp->rdmap, qp->vw->sched.now_ns);
	verbs_cm_ops(qp)->ended(qp, -ECONNABORTED);
}

void
weft_verbs_qp_uncount(struct weft_qp *qp)
{
	qp->uncounted = true;
	atomic_fetch_sub_explicit(&qp->vw->nqps, 1, memory_order_relaxed);
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
