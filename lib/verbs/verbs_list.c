/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The objects of a context, for those who show them. */

#include "verbs_cq.h"
#include "verbs_query.h"
#include "verbs_srq.h"
#include "weft_verbs_list.h"
#include "weft_verbs_mr.h"
#include "weft_verbs_qp.h"

/** Place number i of an array whose entries have so many octets. */
static void *
list_at(void *out, size_t each_bytes, unsigned int i)
{
	return (char *)out + i * each_bytes;
}

unsigned int
weft_verbs_list_qps(struct weft_vworker *vw, uint32_t from, struct weft_qp_info *out,
                    unsigned int max)
{
	struct weft_vctx *v = vw->ctx;
	unsigned int n = 0;
	struct weft_qp *qp;

	pthread_mutex_lock(&v->lock);
	TAILQ_FOREACH (qp, &v->qps, all) {
		if (n == max)
			break;
		if (qp->vw == vw && qp->qpn >= from)
			weft_verbs_qp_info(qp, &out[n++]);
	}
	pthread_mutex_unlock(&v->lock);
	return n;
}

unsigned int
weft_verbs_list_mrs(struct weft_vctx *v, uint32_t from, void *out, size_t each_bytes,
                    unsigned int max)
{
	struct weft_verbs_mr_item *item;
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
		item = list_at(out, each_bytes, n);
		*item = (struct weft_verbs_mr_item){.info = {.fast = mr->fast}};
		/* What mr->mr refers to may be freed once this worker has ended its poll. */
		if (!atomic_load_explicit(&mr->dead, memory_order_acquire))
			weft_mr_query(mr, &item->info);
		/* A medium is not closed before freed(), which does not run while mr is listed. */
		if (item->info.persist != NULL)
			snprintf(item->mechanism, sizeof(item->mechanism), "%s",
			         item->info.persist->mechanism);
		n++;
	}
	pthread_mutex_unlock(&v->lock);
	return n;
}

unsigned int
weft_verbs_list_mws(struct weft_vctx *v, uint32_t from, void *out, size_t each_bytes,
                    unsigned int max)
{
	struct weft_mw_info *info;
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
			info = list_at(out, each_bytes, n);
			*info = (struct weft_mw_info){0};
			if (!atomic_load_explicit(&mw->dead, memory_order_acquire))
				weft_mw_query(mw, info);
			n++;
		}
	pthread_mutex_unlock(&v->lock);
	return n;
}

unsigned int
weft_verbs_list_cqs(struct weft_vctx *v, uint32_t from, void *out, size_t each_bytes,
                    unsigned int max)
{
	unsigned int n = 0;
	struct weft_cq *cq;

	pthread_mutex_lock(&v->lock);
	TAILQ_FOREACH (cq, &v->cqs, all) {
		if (n == max)
			break;
		if (from > 0)
			from--;
		else
			weft_cq_query(cq, list_at(out, each_bytes, n++));
	}
	pthread_mutex_unlock(&v->lock);
	return n;
}

unsigned int
weft_verbs_list_srqs(struct weft_vctx *v, uint32_t from, void *out, size_t each_bytes,
                     unsigned int max)
{
	unsigned int n = 0;
	struct weft_srq *srq;

	pthread_mutex_lock(&v->lock);
	TAILQ_FOREACH (srq, &v->srqs, all) {
		if (n == max)
			break;
		if (from > 0)
			from--;
		else
			weft_srq_query(srq, list_at(out, each_bytes, n++));
	}
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
		if (one == cq) {
			found = at;
			break;
		}
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
		if (one == srq) {
			found = at;
			break;
		}
		at++;
	}
	pthread_mutex_unlock(&v->lock);
	return found;
}
