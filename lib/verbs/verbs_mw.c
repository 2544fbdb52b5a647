/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Memory windows: allocation, deallocation, and their end with the stream. */

#include <stdlib.h>

#include "verbs_priv.h"

int
weft_mw_alloc(struct weft_pd *pd, struct weft_mw **out)
{
	struct weft_mw *mw = calloc(1, sizeof(*mw));
	int rc;

	if (mw == NULL)
		return -ENOMEM;
	mw->pd = pd;
	mw->refs = 2;
	__atomic_fetch_add(&pd->users, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&pd->refs, 1, __ATOMIC_RELAXED);
	rc = weft_mem_alloc(pd->ctx->mem, &pd->mem, WEFT_MEM_WINDOW, mw, NULL, &mw->win);
	if (rc < 0) {
		__atomic_fetch_sub(&pd->users, 1, __ATOMIC_RELAXED);
		weft_verbs_pd_unref(pd);
		free(mw);
		return rc;
	}
	pthread_mutex_lock(&pd->ctx->lock);
	TAILQ_INSERT_TAIL(&pd->mws, mw, all);
	pthread_mutex_unlock(&pd->ctx->lock);
	*out = mw;
	return 0;
}

void
weft_verbs_mw_unref(struct weft_mw *mw)
{
	if (__atomic_sub_fetch(&mw->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	weft_verbs_pd_unref(mw->pd);
	free(mw);
}

static void
verbs_mw_freed(void *arg)
{
	weft_verbs_mw_unref(arg);
}

void
weft_mw_dealloc(struct weft_mw *mw)
{
	struct weft_pd *pd = mw->pd;

	/* In one go for who walks the list: the end of the stream must not miss it. */
	pthread_mutex_lock(&pd->ctx->lock);
	TAILQ_REMOVE(&pd->mws, mw, all);
	__atomic_store_n(&mw->dead, true, __ATOMIC_RELEASE);
	/* Nothing is ever bound to a window, so this does not fail. */
	(void)weft_mem_dealloc(pd->ctx->mem, mw->win, verbs_mw_freed, mw);
	pthread_mutex_unlock(&pd->ctx->lock);
	__atomic_fetch_sub(&pd->users, 1, __ATOMIC_RELEASE);
	weft_verbs_mw_unref(mw);
}

uint32_t
weft_mw_stag(const struct weft_mw *mw)
{
	return __atomic_load_n(&mw->stag, __ATOMIC_RELAXED);
}

uint32_t
weft_mw_next_stag(const struct weft_mw *mw)
{
	return weft_mem_next_stag(mw->win);
}

void
weft_mw_query(const struct weft_mw *mw, struct weft_mw_info *info)
{
	struct weft_mem_mr now;

	weft_mem_snapshot(mw->pd->ctx->mem, mw->win, &now);
	*info = (struct weft_mw_info){
	        .addr = now.addr,
	        .len_bytes = now.len_bytes,
	        .base_to = now.base_to,
	        .access = now.access,
	        .stag = now.stag != 0 ? now.stag : weft_mw_stag(mw),
	        .valid = now.stag != 0,
	};
}

void
weft_verbs_mw_orphan(struct weft_qp *qp)
{
	const struct weft_mem_pd *scope = weft_rdmap_scope(qp->rdmap);
	struct weft_vctx *v = qp->vw->ctx;
	struct weft_mem_mr now;
	struct weft_mw *mw;

	if (!qp->windows)
		return;
	qp->windows = false;
	pthread_mutex_lock(&v->lock);
	TAILQ_FOREACH (mw, &qp->pd->mws, all) {
		weft_mem_snapshot(v->mem, mw->win, &now);
		if (now.stag != 0 && now.pd == scope)
			(void)weft_mem_fast_invalidate(v->mem, mw->win);
	}
	pthread_mutex_unlock(&v->lock);
}
