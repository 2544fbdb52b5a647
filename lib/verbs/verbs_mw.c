/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Memory windows: allocation, deallocation, and their end with the stream. */

#include <stdlib.h>

#include "verbs_queue.h"
#include "weft_verbs_mr.h"
#include "weft_mem_fast.h"
#include "weft_mem_find.h"

#define MW_KEY_MASK ((1u << WEFT_MEM_KEY_BITS) - 1)

static_assert(WEFT_MEM_KEY_BITS == 8, "a key is an octet");

int
weft_mw_alloc(struct weft_pd *pd, struct weft_mw **out)
{
	struct weft_mw *mw;
	int rc;

	if (WEFT_HANDLE_BAD(pd, PD) || out == NULL)
		return -EINVAL;
	mw = calloc(1, sizeof(*mw));
	if (mw == NULL)
		return -ENOMEM;
	mw->pd = pd;
	atomic_init(&mw->refs, 2);
	atomic_fetch_add_explicit(&pd->users, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&pd->refs, 1, memory_order_relaxed);
	rc = weft_mem_alloc(pd->ctx->mem, &pd->mem, WEFT_MEM_WINDOW, mw, NULL, &mw->win);
	if (rc < 0) {
		atomic_fetch_sub_explicit(&pd->users, 1, memory_order_relaxed);
		weft_verbs_pd_unref(pd);
		free(mw);
		return rc;
	}
	/* Not 0 with any key: 0 is no STag. */
	do
		mw->keyless = weft_mem_take_stag(pd->ctx->mem, mw->win) & ~MW_KEY_MASK;
	while (mw->keyless == 0);
	weft_handle_init(&mw->h, WEFT_KIND(MW));
	pthread_mutex_lock(&pd->ctx->lock);
	TAILQ_INSERT_TAIL(&pd->mws, mw, all);
	pthread_mutex_unlock(&pd->ctx->lock);
	*out = mw;
	return 0;
}

void
weft_verbs_mw_unref(struct weft_mw *mw)
{
	if (atomic_fetch_sub_explicit(&mw->refs, 1, memory_order_acq_rel) != 1)
		return;
	weft_verbs_pd_unref(mw->pd);
	weft_handle_free(&mw->h, sizeof(mw->h));
}

static void
verbs_mw_freed(void *arg)
{
	weft_verbs_mw_unref(arg);
}

void
weft_mw_dealloc(struct weft_mw *mw)
{
	struct weft_pd *pd;

	if (WEFT_HANDLE_CLAIM(mw, MW) < 0)
		return;
	weft_handle_end(&mw->h, WEFT_KIND(MW));
	pd = mw->pd;
	/*
	 * Under one lock: the end of the stream must find the window either dead or still present.
	 */
	pthread_mutex_lock(&pd->ctx->lock);
	TAILQ_REMOVE(&pd->mws, mw, all);
	atomic_store_explicit(&mw->dead, true, memory_order_release);
	/* Nothing is ever bound to a window, so this does not fail. */
	(void)weft_mem_dealloc(pd->ctx->mem, mw->win, verbs_mw_freed, mw);
	atomic_store_explicit(&mw->gone, true, memory_order_release);
	pthread_mutex_unlock(&pd->ctx->lock);
	atomic_fetch_sub_explicit(&pd->users, 1, memory_order_release);
	weft_verbs_mw_unref(mw);
}

uint32_t
weft_mw_stag(const struct weft_mw *mw)
{
	if (WEFT_HANDLE_BAD(mw, MW))
		return 0;
	return atomic_load_explicit(&mw->stag, memory_order_relaxed);
}

uint32_t
weft_mw_next_stag(const struct weft_mw *mw)
{
	if (WEFT_HANDLE_BAD(mw, MW))
		return 0;
	return weft_mem_next_stag(mw->win);
}

uint32_t
weft_mw_keyed_stag(const struct weft_mw *mw, uint8_t key)
{
	if (WEFT_HANDLE_BAD(mw, MW))
		return 0;
	return mw->keyless | key;
}

void
weft_mw_query(const struct weft_mw *mw, struct weft_mw_info *info)
{
	struct weft_mem_mr now;

	if (info == NULL)
		return;
	if (WEFT_HANDLE_BAD(mw, MW)) {
		memset(info, 0, sizeof(*info));
		return;
	}
	weft_mem_snapshot(mw->pd->ctx->mem, mw->win, &now);
	*info = (struct weft_mw_info){
	        .addr = now.addr,
	        .len_bytes = weft_mem_len(&now),
	        .base_to = now.base_to,
	        .access = weft_mem_access(&now),
	        .stag = now.stag != 0 ? now.stag : weft_mw_stag(mw),
	        .valid = now.stag != 0,
	};
}

/**
 * Remove deallocated windows from the stream's list: two for each new window, so that they do not
 * accumulate.
 */
static void
verbs_mw_prune(struct weft_qp *qp)
{
	for (int i = 0; i < 2; i++) {
		struct weft_mw *mw = TAILQ_FIRST(&qp->windows);

		if (mw == NULL)
			return;
		TAILQ_REMOVE(&qp->windows, mw, bound);
		if (atomic_load_explicit(&mw->gone, memory_order_acquire))
			weft_verbs_mw_unref(mw);
		else
			TAILQ_INSERT_TAIL(&qp->windows, mw, bound);
	}
}

void
weft_verbs_mw_bound(struct weft_qp *qp, struct weft_mw *mw)
{
	verbs_mw_prune(qp);
	atomic_fetch_add_explicit(&mw->refs, 1, memory_order_relaxed);
	TAILQ_INSERT_TAIL(&qp->windows, mw, bound);
}

void
weft_verbs_mw_unbound(struct weft_qp *qp, struct weft_mw *mw)
{
	TAILQ_REMOVE(&qp->windows, mw, bound);
}

void
weft_verbs_mw_orphan(struct weft_qp *qp)
{
	struct weft_vctx *v = qp->vw->ctx;
	struct weft_mw *mw;

	if (TAILQ_EMPTY(&qp->windows))
		return;
	pthread_mutex_lock(&v->lock);
	TAILQ_FOREACH (mw, &qp->windows, bound)
		if (!atomic_load_explicit(&mw->dead, memory_order_relaxed))
			(void)weft_mem_fast_invalidate(v->mem, mw->win);
	pthread_mutex_unlock(&v->lock);
	while ((mw = TAILQ_FIRST(&qp->windows)) != NULL) {
		TAILQ_REMOVE(&qp->windows, mw, bound);
		weft_verbs_mw_unref(mw);
	}
}
