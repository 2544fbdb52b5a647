/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The objects of a context, for those who show them. */

#include "verbs_cq.h"
#include "verbs_query.h"
#include "verbs_srq.h"
#include "weft_verbs_list.h"
#include "weft_verbs_mr.h"
#include "weft_verbs_qp.h"

unsigned int
weft_verbs_list_qps(struct weft_vworker *vw, uint32_t from, struct weft_qp_info *out,
                    unsigned int max)
{
	struct weft_vctx *v = vw->ctx;
	unsigned int n = 0;
	struct weft_qp *qp;

	pthread_mutex_lock(&v->lock);
	TAILQ_FOREACH (qp, &v->qps, all)
		if (n < max && qp->vw == vw && qp->qpn >= from)
			weft_verbs_qp_info(qp, &out[n++]);
	pthread_mutex_unlock(&v->lock);
	return n;
}

unsigned int
weft_verbs_list_mrs(struct weft_vctx *v, uint32_t from, struct weft_verbs_mr_item *out,
                    unsigned int max)
{
	unsigned int n = 0;
	struct weft_mr *mr;

	pthread_mutex_lock(&v->lock);
	TAILQ_FOREACH (mr, &v->mrs, all) {
		if (from > 0) {
			from--;
			continue;
		}
		if (n == max)
			break;
		out[n] = (struct weft_verbs_mr_item){.info = {.fast = mr->fast}};
		/* What mr->mr refers to may be freed once this worker has ended its poll. */
		if (!atomic_load_explicit(&mr->dead, memory_order_acquire))
			weft_mr_query(mr, &out[n].info);
		/* A medium is not closed before freed(), which does not run while mr is listed. */
		if (out[n].info.persist != NULL)
			snprintf(out[n].mechanism, sizeof(out[n].mechanism), "%s",
			         out[n].info.persist->mechanism);
		n++;
	}
	pthread_mutex_unlock(&v->lock);
	return n;
}

unsigned int
weft_verbs_list_mws(struct weft_vctx *v, uint32_t from, struct weft_mw_info *out, unsigned int max)
{
	unsigned int n = 0;
	struct weft_pd *pd;
	struct weft_mw *mw;

	pthread_mutex_lock(&v->lock);
	TAILQ_FOREACH (pd, &v->pds, all)
		TAILQ_FOREACH (mw, &pd->mws, all) {
			if (from > 0) {
				from--;
				continue;
			}
			if (n == max)
				break;
			out[n] = (struct weft_mw_info){0};
			if (!atomic_load_explicit(&mw->dead, memory_order_acquire))
				weft_mw_query(mw, &out[n]);
			n++;
		}
	pthread_mutex_unlock(&v->lock);
	return n;
}

unsigned int
weft_verbs_list_cqs(struct weft_vctx *v, uint32_t from, struct weft_cq_info *out, unsigned int max)
{
	unsigned int n = 0;
	struct weft_cq *cq;

	pthread_mutex_lock(&v->lock);
	TAILQ_FOREACH (cq, &v->cqs, all)
		if (from > 0)
			from--;
		else if (n < max)
			weft_cq_query(cq, &out[n++]);
	pthread_mutex_unlock(&v->lock);
	return n;
}

unsigned int
weft_verbs_list_srqs(struct weft_vctx *v, uint32_t from, struct weft_srq_info *out,
                     unsigned int max)
{
	unsigned int n = 0;
	struct weft_srq *srq;

	pthread_mutex_lock(&v->lock);
	TAILQ_FOREACH (srq, &v->srqs, all)
		if (from > 0)
			from--;
		else if (n < max)
			weft_srq_query(srq, &out[n++]);
	pthread_mutex_unlock(&v->lock);
	return n;
}

int
weft_verbs_list_cq_at(struct weft_vctx *v, const struct weft_cq *cq)
{
	const struct weft_cq *one;
	int at = 0, found = -1;

	pthread_mutex_lock(&v->lock);
	TAILQ_FOREACH (one, &v->cqs, all) {
		if (one == cq)
			found = at;
		at++;
	}
	pthread_mutex_unlock(&v->lock);
	return found;
}

int
weft_verbs_list_srq_at(struct weft_vctx *v, const struct weft_srq *srq)
{
	const struct weft_srq *one;
	int at = 0, found = -1;

	pthread_mutex_lock(&v->lock);
	TAILQ_FOREACH (one, &v->srqs, all) {
		if (one == srq)
			found = at;
		at++;
	}
	pthread_mutex_unlock(&v->lock);
	return found;
}
