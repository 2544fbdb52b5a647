/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The receive queue: the receive that a message fills, and its completion. */

#include "verbs_queue.h"
#include "weft_copy.h"
#include "weft_medium.h"
#include "weft_verbs_mr.h"
#include "verbs_srq.h"

/** The receive at the head is used: complete it. */
static void
verbs_rq_done(struct weft_qp *qp, struct weft_wc *wc)
{
	wc->wr_id = verbs_rqe_at(qp, qp->rq_head)->wr_id;
	if (wc->opcode != WEFT_WC_RECV_IMM)
		wc->opcode = WEFT_WC_RECV;
	qp->rq_head++;
	/* Before the completion is visible, because the consumer may then post in its place. */
	verbs_credits_give(qp->rq_places, 1);
	verbs_wc(qp, qp->recv_sub, wc);
}

/**
 * True: the QP was destroyed from another thread, and its receive was returned to the SRQ unused.
 */
static bool
verbs_rq_unheard(struct weft_qp *qp)
{
	if (qp->srq == NULL || qp->flushing ||
	    !atomic_load_explicit(&qp->dying, memory_order_relaxed))
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

void
weft_verbs_recv_done(void *user, enum weft_rdmap_status status, uint32_t len_bytes, bool solicited,
                     uint32_t inv_stag)
{
	struct weft_qp *qp = user;
	struct weft_wc wc = {
	        .status = weft_verbs_wc_status[status],
	        .len_bytes = len_bytes,
	        .inv_stag = inv_stag,
	        .flags = (solicited ? WEFT_WC_SOLICITED : 0) | (inv_stag != 0 ? WEFT_WC_INV : 0),
	};

	verbs_recv_end(qp, &wc);
}

bool
weft_verbs_take_receives(struct weft_qp *qp)
{
	struct rte_ring *r = atomic_load_explicit(&qp->rq_ring, memory_order_acquire);
	const uint32_t before = qp->rq_tail;

	while (r != NULL && weft_verbs_ring_take(r, verbs_rqe_at(qp, qp->rq_tail), qp->rqe_bytes))
		qp->rq_tail++;
	return qp->rq_tail != before;
}

/** The usual receive: posted to the QP itself, of one piece, and long enough. */
bool
weft_verbs_recv_whole(void *user, const uint8_t *p, uint32_t len_bytes)
{
	struct weft_qp *qp = user;
	const struct verbs_rqe *r = verbs_rqe_at(qp, qp->rq_head);
	struct weft_wc wc = {.opcode = WEFT_WC_RECV, .len_bytes = len_bytes};

	if (unlikely(qp->srq != NULL ||
	             (qp->rq_head == qp->rq_tail && !weft_verbs_take_receives(qp)) ||
	             r->nsge != 1 || len_bytes > r->sge[0].len_bytes) ||
	    (r->keyed && unlikely(!verbs_lkey_ok(qp->vw->ctx->mem, &qp->pd->mem, &r->sge[0],
	                                         WEFT_ACCESS_LOCAL_WRITE))))
		return false;
	weft_copy(r->sge[0].addr, p, len_bytes);
	weft_medium_mark_at(r->sge[0].addr, len_bytes);
	if (unlikely(weft_medium_lost_any())) /* perhaps of this buffer, and during the copy */
		return false;
	verbs_rq_done(qp, &wc);
	return true;
}

void
weft_verbs_recv_imm(void *user, const uint8_t imm[WEFT_RDMAP_IMM_BYTES], bool solicited)
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

const struct weft_rdmap_sge *
weft_verbs_recv_buf(void *user, uint8_t *nsge)
{
	struct weft_qp *qp = user;
	const struct verbs_rqe *r = verbs_rqe_at(qp, qp->rq_head);

	*nsge = 0;
	/* A receive that another thread has posted counts from the return of its post on. The
	 * worker may have taken the message's frame meanwhile, after its look at the posts. */
	if (qp->rq_head == qp->rq_tail &&
	    (qp->srq != NULL ? !weft_verbs_srq_take(qp) : !weft_verbs_take_receives(qp)))
		return NULL;
	if (unlikely(r->keyed) &&
	    !weft_verbs_lkeys_ok(qp->vw->ctx->mem,
	                         qp->srq != NULL ? weft_verbs_srq_pd(qp->srq) : &qp->pd->mem,
	                         r->sge, r->nsge, WEFT_ACCESS_LOCAL_WRITE)) {
		weft_verbs_recv_done(user, WEFT_RDMAP_LOCAL_PROT, 0, false, 0);
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
