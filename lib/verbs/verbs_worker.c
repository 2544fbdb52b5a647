/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A worker's delivery phase and counters. */

#include "verbs_cq.h"
#include "verbs_left.h"
#include "verbs_srq.h"
#include "weft_verbs_mr.h"
#include "weft_verbs_ops.h"
#include "weft_verbs_qp.h"
#include "weft_stat.h"

void
weft_vworker_init(struct weft_vworker *vw, struct weft_vctx *ctx)
{
	vw->ctx = ctx;
	TAILQ_INIT(&vw->ready);
	TAILQ_INIT(&vw->early);
	TAILQ_INIT(&vw->late);
	TAILQ_INIT(&vw->left);
	vw->later = NULL;
	vw->later_tail = &vw->later;
	weft_work_queue_init(&vw->work);
}

static unsigned int
verbs_run_later(struct weft_vworker *vw)
{
	struct weft_work_item *m = vw->later, *next;
	unsigned int n = 0;

	vw->later = NULL;
	vw->later_tail = &vw->later;
	for (; m != NULL; m = next) {
		next = m->next;
		m->fn(m);
		n++;
	}
	return n;
}

/** Apart from the check, so that a delivery phase without work saves no registers. */
static __rte_noinline unsigned int
verbs_deliver(struct weft_vworker *vw)
{
	unsigned int n = verbs_run_later(vw);

	n += weft_verbs_ev_deliver(vw, false);
	n += weft_verbs_cq_deliver(vw);
	n += weft_verbs_ev_deliver(vw, true);
	return n;
}

unsigned int
weft_vworker_deliver(struct weft_vworker *vw)
{
	return likely(!weft_vworker_pending(vw)) ? 0 : verbs_deliver(vw);
}

WEFT_STAT_READER void
weft_vworker_stats(struct weft_vworker *vw, struct weft_vworker_stats *st)
{
	struct weft_qp *qp;

	/* A QP leaves the list, under the lock, before its layers are freed. */
	pthread_mutex_lock(&vw->ctx->lock);
	*st = vw->stats;
	TAILQ_FOREACH (qp, &vw->ctx->qps, all)
		if (qp->vw == vw)
			weft_verbs_count(vw->ctx, qp->rdmap, st);
	weft_verbs_left_stats(vw, st);
	pthread_mutex_unlock(&vw->ctx->lock);
}
