/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Streams whose QP is gone, and that close by themselves. */

#include "verbs_left.h"

#include "weft_stat.h"

#include <errno.h>
#include <stdlib.h>

struct verbs_left {
	TAILQ_ENTRY(verbs_left) link;
	struct weft_vworker *vw;
	struct weft_rdmap *rdmap;
	bool counted;     /**< has a place in nqps */
	uint32_t poll_no; /**< of the scheduler, when the QP left */
	int status;
	verbs_left_fn gone;
	void *arg;
	struct weft_work_item work; /**< calls gone() outside of up-calls */
};

static void
verbs_left_tell(struct weft_work_item *m)
{
	struct verbs_left *l = container_of(m, struct verbs_left, work);

	if (l->gone != NULL)
		l->gone(l->arg, l->status);
	free(l);
}

static void
verbs_left_end(struct verbs_left *l, int status)
{
	struct weft_vctx *v = l->vw->ctx;

	pthread_mutex_lock(&v->lock);
	TAILQ_REMOVE(&l->vw->left, l, link);
	weft_verbs_count(v, l->rdmap, &l->vw->stats);
	l->vw->stats.left_now--;
	l->vw->stats.left_timeouts += status == -ETIMEDOUT;
	pthread_mutex_unlock(&v->lock);
	l->status = status;
	weft_rdmap_destroy(l->rdmap);
	if (l->counted)
		atomic_fetch_sub_explicit(&l->vw->nqps, 1, memory_order_relaxed);
	weft_vworker_later(l->vw, &l->work);
}

/* ---- rdmap's up-calls: no other one comes ---- */

static void
verbs_left_state(void *user, enum weft_rdmap_state s, const struct weft_term *term, bool ours)
{
	(void)user;
	(void)s;
	(void)term;
	(void)ours;
}

static void
verbs_left_closed(void *user, int err)
{
	verbs_left_end(user, err);
}

static const struct weft_rdmap_ops verbs_left_ops = {
        .state = verbs_left_state,
        .closed = verbs_left_closed,
};

/* ---- From a QP ---- */

struct verbs_left *
weft_verbs_left_new(struct weft_vworker *vw, verbs_left_fn gone, void *arg)
{
	struct verbs_left *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	l->vw = vw;
	l->gone = gone;
	l->arg = arg;
	l->work.fn = verbs_left_tell;
	return l;
}

void
weft_verbs_left_free(struct verbs_left *l)
{
	free(l);
}

bool
weft_verbs_left_take(struct verbs_left *l, struct weft_qp *qp, uint64_t wait_ns)
{
	if (!weft_rdmap_leave(qp->rdmap, &verbs_left_ops, l, wait_ns))
		return false;
	l->rdmap = qp->rdmap;
	l->counted = !qp->uncounted;
	l->poll_no = l->vw->sched.poll_no;
	qp->uncounted = true;
	return true;
}

void
weft_verbs_left_put(struct verbs_left *l)
{
	TAILQ_INSERT_TAIL(&l->vw->left, l, link);
	l->vw->stats.left_now++;
	l->vw->stats.left_total++;
}

WEFT_STAT_READER void
weft_verbs_left_stats(const struct weft_vworker *vw, struct weft_vworker_stats *st)
{
	const struct verbs_left *l;

	TAILQ_FOREACH (l, &vw->left, link)
		weft_verbs_count(vw->ctx, l->rdmap, st);
}

bool
weft_verbs_left_cut(struct weft_vworker *vw)
{
	struct verbs_left *l = TAILQ_FIRST(&vw->left);

	if (l == NULL)
		return false;
	verbs_left_end(l, -ECONNABORTED);
	return true;
}

bool
weft_verbs_make_room(struct weft_vworker *vw, bool take)
{
	const struct verbs_left *l = TAILQ_FIRST(&vw->left);

	/* What was sent, and the FIN, leave with the next poll. */
	if (l == NULL || l->poll_no == vw->sched.poll_no)
		return false;
	if (take) {
		vw->stats.left_cut++;
		(void)weft_verbs_left_cut(vw);
	}
	return true;
}
