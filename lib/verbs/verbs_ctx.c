/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The lists of a context: made, and emptied at its end. */

#include "verbs_cq.h"
#include "verbs_left.h"
#include "verbs_srq.h"
#include "weft_verbs_event.h"
#include "weft_verbs_mr.h"
#include "weft_verbs_ops.h"
#include "weft_verbs_qp.h"

void
weft_vctx_init(struct weft_vctx *v, struct weft_mem *mem, const struct weft_verbs_cm_ops *cm,
               const struct weft_verbs_place_ops *place)
{
	v->mem = mem;
	v->cm_ops = cm;
	v->place = place;
	pthread_mutex_init(&v->lock, NULL);
	TAILQ_INIT(&v->pds);
	TAILQ_INIT(&v->mrs);
	TAILQ_INIT(&v->cqs);
	TAILQ_INIT(&v->evqs);
	TAILQ_INIT(&v->qps);
	TAILQ_INIT(&v->srqs);
}

void
weft_vctx_quiesce(struct weft_vctx *v)
{
	struct weft_evq *evq;
	struct weft_cq *cq;
	struct weft_qp *qp;
	struct weft_mr *mr;
	unsigned int i, n;

	pthread_mutex_lock(&v->lock);
	TAILQ_FOREACH (mr, &v->mrs, all)
		v->place->deregistered(mr);
	pthread_mutex_unlock(&v->lock);
	for (i = 0; i < weft_vctx_nworkers(v); i++)
		atomic_store_explicit(&v->worker[i]->owner, &weft_thread_mark,
		                      memory_order_relaxed);
	do {
		n = 0;
		for (i = 0; i < weft_vctx_nworkers(v); i++)
			n += weft_work_run(&v->worker[i]->work);
	} while (n > 0);
	/* No callback is called from here on. */
	TAILQ_FOREACH (cq, &v->cqs, all)
		atomic_store_explicit(&cq->dead, true, memory_order_relaxed);
	TAILQ_FOREACH (evq, &v->evqs, all)
		atomic_store_explicit(&evq->dead, true, memory_order_relaxed);
	v->cm_ops->unlisten_all(v);
	while ((qp = TAILQ_FIRST(&v->qps)) != NULL)
		weft_qp_destroy(qp);
	for (i = 0; i < weft_vctx_nworkers(v); i++)
		while (weft_verbs_left_cut(v->worker[i]))
			;
	do {
		n = 0;
		for (i = 0; i < weft_vctx_nworkers(v); i++) {
			n += weft_work_run(&v->worker[i]->work);
			n += weft_vworker_deliver(v->worker[i]);
		}
	} while (n > 0);
	for (i = 0; i < weft_vctx_nworkers(v); i++)
		v->cm_ops->worker_gone(v->worker[i]);
}

void
weft_vctx_fini(struct weft_vctx *v)
{
	struct weft_mr *mr;
	struct weft_cq *cq;
	struct weft_srq *srq;
	struct weft_evq *evq;
	struct weft_pd *pd;

	while ((srq = TAILQ_FIRST(&v->srqs)) != NULL)
		weft_srq_destroy(srq);
	while ((evq = TAILQ_FIRST(&v->evqs)) != NULL) {
		TAILQ_REMOVE(&v->evqs, evq, all);
		weft_handle_end(&evq->h, WEFT_KIND(EVQ));
		weft_verbs_ev_free(evq);
	}
	/* After the events that name them. */
	while ((cq = TAILQ_FIRST(&v->cqs)) != NULL) {
		TAILQ_REMOVE(&v->cqs, cq, all);
		weft_handle_end(&cq->h, WEFT_KIND(CQ));
		weft_verbs_cq_free(cq);
	}
	/* Windows first, because they hold their regions. */
	TAILQ_FOREACH (pd, &v->pds, all)
		while (!TAILQ_EMPTY(&pd->mws))
			weft_mw_dealloc(TAILQ_FIRST(&pd->mws));
	while ((mr = TAILQ_FIRST(&v->mrs)) != NULL)
		(void)weft_mr_dereg(mr, NULL, NULL);
	while ((pd = TAILQ_FIRST(&v->pds)) != NULL) {
		TAILQ_REMOVE(&v->pds, pd, all);
		weft_handle_end(&pd->h, WEFT_KIND(PD));
		weft_verbs_pd_unref(pd);
	}
}
