/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Queries of queue pairs, domains and contexts. */

#include "verbs_cq.h"
#include "verbs_query.h"
#include "verbs_srq.h"
#include "weft_verbs_mr.h"
#include "weft_verbs_ops.h"
#include "weft_verbs_qp.h"
#include "weft_stat.h"

/* ---- Queue pairs ---- */

/**
 * Copy rdmap's counters. The context's lock is held; it keeps rdmap while the QP is in the
 * context's list.
 */
static WEFT_STAT_READER void
verbs_snap_counts(struct weft_qp *qp)
{
	const struct weft_rdmap_stats *rs = weft_rdmap_stats(qp->rdmap);

	qp->snap.sent_msgs = rs->msgs_out;
	qp->snap.recv_msgs = rs->msgs_in;
	qp->snap.sent_bytes = rs->bytes_out;
	qp->snap.recv_bytes = rs->bytes_in;
	qp->snap.ord_stalls = rs->ord_stalls;
	weft_rdmap_depths(qp->rdmap, &qp->snap.out_reads, &qp->snap.in_reads);
}

/** The context's lock is held. Worker only. */
static void
verbs_snap_take(struct weft_qp *qp)
{
	verbs_snap_counts(qp);
	qp->vw->ctx->cm_ops->snap(qp);
}

void
weft_verbs_qp_snap(struct weft_work_item *m)
{
	struct weft_qp *qp = container_of(m, struct weft_qp, snap_work);

	if (!qp->dead) {
		pthread_mutex_lock(&qp->vw->ctx->lock);
		verbs_snap_take(qp);
		pthread_mutex_unlock(&qp->vw->ctx->lock);
	}
	atomic_store_explicit(&qp->snap_asked, 0, memory_order_release);
	weft_verbs_qp_unref(qp);
}

/** What a query reports, with this snapshot. */
static void
verbs_qp_fill(struct weft_qp *qp, const struct verbs_snap *s, struct weft_qp_info *info)
{
	*info = (struct weft_qp_info){
	        .qpn = qp->qpn,
	        .state = atomic_load_explicit(&qp->state, memory_order_acquire),
	        .ird = s->ird,
	        .ord = s->ord,
	        .sq_used =
	                qp->sq_depth - atomic_load_explicit(&qp->sq_credits, memory_order_relaxed),
	        .rq_used =
	                qp->rq_depth - atomic_load_explicit(&qp->rq_credits, memory_order_relaxed),
	        .sent_msgs = s->sent_msgs,
	        .recv_msgs = s->recv_msgs,
	        .sent_bytes = s->sent_bytes,
	        .recv_bytes = s->recv_bytes,
	        .retrans_segs = s->retrans_segs,
	        .srtt_us = s->srtt_us,
	        .unacked_bytes = s->unacked_bytes,
	        .mulpdu_bytes = s->mulpdu_bytes,
	        .asked_ird = qp->ird,
	        .asked_ord = qp->ord,
	        .sq_depth = qp->sq_depth,
	        .rq_depth = qp->rq_depth,
	        .max_send_sge = qp->max_send_sge,
	        .max_sge = qp->max_sge,
	        .max_inline_bytes = qp->max_inline_bytes,
	        .all_signaled = qp->all_signaled,
	        .pd = qp->pd,
	        .send_cq = qp->send_cq,
	        .recv_cq = qp->recv_cq,
	        .srq = qp->srq,
	        .evq = qp->evq,
	        .out_reads = s->out_reads,
	        .in_reads = s->in_reads,
	        .ord_stalls = s->ord_stalls,
	        .terminated = s->terminated,
	        .term = s->term,
	        .mpa = s->mpa,
	};
	memcpy(info->ddp, s->ddp, sizeof(info->ddp));
	if (!s->named)
		return;
	weft_ip_to_sockaddr(&s->remote, s->remote_port, &info->remote);
	if (s->local_port != 0)
		weft_ip_to_sockaddr(&s->local, s->local_port, &info->local);
}

void
weft_qp_query(struct weft_qp *qp, struct weft_qp_info *info)
{
	struct verbs_snap s;
	bool mine;

	if (info == NULL)
		return;
	if (WEFT_HANDLE_BAD(qp, QP)) {
		memset(info, 0, sizeof(*info));
		return;
	}
	mine = weft_vworker_is_mine(qp->vw);
	pthread_mutex_lock(&qp->vw->ctx->lock);
	if (mine)
		verbs_snap_take(qp);
	else if (qp->listed)
		verbs_snap_counts(qp);
	s = qp->snap;
	pthread_mutex_unlock(&qp->vw->ctx->lock);
	if (!mine && !atomic_exchange_explicit(&qp->snap_asked, 1, memory_order_acq_rel)) {
		/* The worker stores newer values for the next query. */
		weft_verbs_qp_ref(qp);
		weft_work_send(&qp->vw->work, &qp->snap_work);
	}
	verbs_qp_fill(qp, &s, info);
}

void
weft_verbs_qp_info(struct weft_qp *qp, struct weft_qp_info *info)
{
	verbs_snap_take(qp);
	verbs_qp_fill(qp, &qp->snap, info);
}

struct weft_worker *
weft_qp_worker(const struct weft_qp *qp)
{
	if (WEFT_HANDLE_BAD(qp, QP))
		return NULL;
	return (struct weft_worker *)qp->vw;
}

void *
weft_qp_user(const struct weft_qp *qp)
{
	if (WEFT_HANDLE_BAD(qp, QP))
		return NULL;
	return qp->user;
}

/* ---- Domains and contexts ---- */

void
weft_pd_query(struct weft_pd *pd, struct weft_pd_info *info)
{
	struct weft_srq *srq;
	struct weft_vctx *v;
	struct weft_qp *qp;

	if (info == NULL)
		return;
	if (WEFT_HANDLE_BAD(pd, PD)) {
		memset(info, 0, sizeof(*info));
		return;
	}
	v = pd->ctx;
	*info = (struct weft_pd_info){
	        .regions = atomic_load_explicit(&pd->mem.regions, memory_order_relaxed),
	        .windows = atomic_load_explicit(&pd->mem.windows, memory_order_relaxed),
	        .max_regions = pd->mem.max_regions,
	        .max_windows = pd->mem.max_windows,
	        .refused = atomic_load_explicit(&pd->mem.refused, memory_order_relaxed),
	};
	pthread_mutex_lock(&v->lock);
	TAILQ_FOREACH (qp, &v->qps, all)
		info->qps += qp->pd == pd;
	for (srq = TAILQ_FIRST(&v->srqs); srq != NULL; srq = weft_verbs_srq_next(srq))
		info->srqs += weft_verbs_srq_pd(srq) == &pd->mem;
	pthread_mutex_unlock(&v->lock);
}

void
weft_ctx_query(struct weft_ctx *ctx, struct weft_ctx_info *info)
{
	struct weft_vctx *v = weft_vctx_of(ctx);
	struct weft_srq *srq;
	struct weft_evq *evq;
	struct weft_pd *pd;
	struct weft_cq *cq;

	if (info == NULL)
		return;
	if (WEFT_HANDLE_BAD(ctx, CTX)) {
		memset(info, 0, sizeof(*info));
		return;
	}
	*info = (struct weft_ctx_info){
	        .max_sq_depth = VERBS_QP_MAX_DEPTH,
	        .max_rq_depth = VERBS_QP_MAX_DEPTH,
	        .max_srq_depth = VERBS_SRQ_MAX_DEPTH,
	        .max_cq_depth = VERBS_CQ_MAX_DEPTH,
	        .max_sge = WEFT_MAX_SGE,
	        .max_send_sge = WEFT_MAX_SGE,
	        .max_inline_bytes = WEFT_MAX_INLINE,
	        .max_ird = VERBS_QP_MAX_IRD,
	        .max_ord = VERBS_QP_MAX_IRD,
	        .max_private_data_bytes = WEFT_MAX_PRIVATE_DATA,
	        .max_message_bytes = UINT32_MAX, /* RFC 5041 s5.2 */
	        .max_regions = weft_mem_max(v->mem),
	        .regions = weft_mem_count(v->mem),
	};
	pthread_mutex_lock(&v->lock);
	info->workers = weft_vctx_nworkers(v);
	for (uint32_t i = 0; i < info->workers; i++) {
		info->max_qps += v->worker[i]->max_qps;
		info->qps += atomic_load_explicit(&v->worker[i]->nqps, memory_order_relaxed);
	}
	TAILQ_FOREACH (pd, &v->pds, all)
		info->pds++;
	TAILQ_FOREACH (cq, &v->cqs, all)
		info->cqs++;
	TAILQ_FOREACH (evq, &v->evqs, all)
		info->evqs++;
	for (srq = TAILQ_FIRST(&v->srqs); srq != NULL; srq = weft_verbs_srq_next(srq))
		info->srqs++;
	info->listeners = v->cm_ops->listeners(v);
	pthread_mutex_unlock(&v->lock);
}
