/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Protection domains and memory regions. */

#include <stdlib.h>

#include "weft_verbs_mr.h"
#include "weft_verbs_ops.h"
#include "weft_mem_fast.h"

/* ---- Domains ---- */

int
weft_pd_alloc(struct weft_ctx *ctx, struct weft_pd **out)
{
	const struct weft_pd_attr a = {.size = sizeof(a)};

	return weft_pd_alloc_attr(ctx, &a, out);
}

int
weft_pd_alloc_attr(struct weft_ctx *ctx, const struct weft_pd_attr *attr, struct weft_pd **out)
{
	struct weft_vctx *v = weft_vctx_of(ctx);
	struct weft_pd_attr a;
	struct weft_pd *pd;
	int rc;

	if (WEFT_HANDLE_BAD(ctx, CTX) || out == NULL)
		return -EINVAL;
	rc = weft_attr_copy(&a, sizeof(a), attr);
	if (rc < 0)
		return rc;
	pd = calloc(1, sizeof(*pd));
	if (pd == NULL)
		return -ENOMEM;
	pd->mem.mem = v->mem;
	pd->mem.max_regions = a.max_regions != 0 ? a.max_regions : v->max_pd_regions;
	pd->mem.max_windows = a.max_windows != 0 ? a.max_windows : v->max_pd_windows;
	pd->ctx = v;
	atomic_init(&pd->refs, 1);
	TAILQ_INIT(&pd->mws);
	weft_handle_init(&pd->h, WEFT_KIND(PD));
	pthread_mutex_lock(&v->lock);
	TAILQ_INSERT_TAIL(&v->pds, pd, all);
	pthread_mutex_unlock(&v->lock);
	*out = pd;
	return 0;
}

void
weft_verbs_pd_unref(struct weft_pd *pd)
{
	if (atomic_fetch_sub_explicit(&pd->refs, 1, memory_order_acq_rel) == 1)
		weft_handle_free(&pd->h, sizeof(pd->h));
}

int
weft_verbs_lock_unused(struct weft_vctx *v, struct weft_handle *h,
                       const struct weft_handle_kind *kind, const _Atomic uint32_t *users)
{
	pthread_mutex_lock(&v->lock);
	if (atomic_load_explicit(users, memory_order_acquire) == 0)
		return 0;
	pthread_mutex_unlock(&v->lock);
	weft_handle_unclaim(h, kind);
	return -EBUSY;
}

int
weft_pd_dealloc(struct weft_pd *pd)
{
	struct weft_vctx *v;

	if (WEFT_HANDLE_CLAIM(pd, PD) < 0)
		return -EINVAL;
	v = pd->ctx;
	if (weft_verbs_lock_unused(v, &pd->h, WEFT_KIND(PD), &pd->users) < 0)
		return -EBUSY;
	TAILQ_REMOVE(&v->pds, pd, all);
	pthread_mutex_unlock(&v->lock);
	weft_handle_end(&pd->h, WEFT_KIND(PD));
	/* Regions that are being freed still point to the domain. */
	weft_verbs_pd_unref(pd);
	return 0;
}

/* ---- Regions ---- */

static struct weft_mr *
verbs_mr_new(struct weft_pd *pd)
{
	struct weft_mr *mr = calloc(1, sizeof(*mr));

	if (mr == NULL)
		return NULL;
	mr->pd = pd;
	atomic_init(&mr->left, 2);
	atomic_init(&mr->refs, 1);
	atomic_fetch_add_explicit(&pd->users, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&pd->refs, 1, memory_order_relaxed);
	return mr;
}

/**
 * Finish a registration: add the region to the context's list, or free the handle if rc is an
 * error.
 */
static int
verbs_mr_made(struct weft_mr *mr, int rc, struct weft_mr **out)
{
	struct weft_pd *pd = mr->pd;

	if (rc < 0) {
		atomic_fetch_sub_explicit(&pd->users, 1, memory_order_relaxed);
		weft_verbs_pd_unref(pd);
		free(mr);
		return rc;
	}
	weft_handle_init(&mr->h, WEFT_KIND(MR));
	pthread_mutex_lock(&pd->ctx->lock);
	TAILQ_INSERT_TAIL(&pd->ctx->mrs, mr, all);
	pthread_mutex_unlock(&pd->ctx->lock);
	*out = mr;
	return 0;
}

int
weft_mr_reg(struct weft_pd *pd, const struct weft_mr_attr *attr, struct weft_mr **out)
{
	struct weft_mem_attr ma = {0};
	struct weft_mr_attr a;
	struct weft_mr *mr;
	int rc;

	if (WEFT_HANDLE_BAD(pd, PD) || out == NULL)
		return -EINVAL;
	rc = weft_attr_copy(&a, sizeof(a), attr);
	if (rc < 0)
		return rc;
	if (a.addr == NULL || (a.persist != NULL && WEFT_HANDLE_BAD(a.persist, MEDIUM)))
		return -EINVAL;
	if (a.hash != NULL) {
		ma.hash = weft_hash_find(a.hash);
		if (ma.hash == NULL)
			return -ENOENT;
	}
	ma.addr = a.addr;
	ma.len_bytes = a.len_bytes;
	ma.base_to = a.base_to;
	ma.access = a.access;
	ma.persist = a.persist;
	ma.gate = a.gate;
	ma.hash_key = a.hash_key;
	ma.hash_key_bytes = a.hash_key_bytes;
	mr = verbs_mr_new(pd);
	if (mr == NULL)
		return -ENOMEM;
	/* A peer that guesses the STag may invalidate the region before weft_mem_reg() returns. */
	mr->attr = ma;
	mr->attr.hash_key = NULL; /* it belongs to the caller */
	mr->attr.hash_key_bytes = 0;
	ma.owner = mr;
	ma.stag = &mr->stag;
	ma.bound = &mr->bound;
	rc = weft_mem_reg(pd->ctx->mem, &pd->mem, &ma, &mr->mr);
	return verbs_mr_made(mr, rc, out);
}

int
weft_mr_alloc(struct weft_pd *pd, struct weft_mr **out)
{
	return weft_mr_alloc_keyed(pd, NULL, 0, out);
}

int
weft_mr_alloc_keyed(struct weft_pd *pd, const void *hash_key, uint32_t hash_key_bytes,
                    struct weft_mr **out)
{
	struct weft_mr *mr;
	int rc;

	if (WEFT_HANDLE_BAD(pd, PD) || out == NULL)
		return -EINVAL;
	if (hash_key_bytes > WEFT_HASH_KEY_MAX_BYTES || (hash_key == NULL && hash_key_bytes > 0))
		return -EINVAL;
	mr = verbs_mr_new(pd);
	if (mr == NULL)
		return -ENOMEM;
	mr->fast = true;
	rc = weft_mem_alloc_keyed(pd->ctx->mem, &pd->mem, WEFT_MEM_FAST, mr, &mr->bound, hash_key,
	                          hash_key_bytes, &mr->mr);
	return verbs_mr_made(mr, rc, out);
}

void
weft_verbs_mr_unref(struct weft_mr *mr)
{
	if (atomic_fetch_sub_explicit(&mr->refs, 1, memory_order_acq_rel) != 1)
		return;
	mr->pd->ctx->place->freed(mr);
	weft_verbs_pd_unref(mr->pd);
	weft_handle_free(&mr->h, sizeof(mr->h));
}

/**
 * The handle or the region is gone; true: both are. Not used for work requests: these end inside
 * up-calls, in which the consumer must not be called.
 */
static bool
verbs_mr_leave(struct weft_mr *mr)
{
	return atomic_fetch_sub_explicit(&mr->left, 1, memory_order_acq_rel) == 1;
}

static void
verbs_mr_over(struct weft_mr *mr)
{
	if (mr->freed != NULL)
		mr->freed(mr->freed_arg);
	weft_verbs_mr_unref(mr);
}

static void
verbs_mr_last(struct weft_work_item *m)
{
	verbs_mr_over(container_of(m, struct weft_mr, last));
}

static void
verbs_mr_freed(void *arg)
{
	struct weft_mr *mr = arg;

	atomic_store_explicit(&mr->gone, true, memory_order_release);
	if (verbs_mr_leave(mr))
		verbs_mr_over(mr);
}

struct weft_vworker *
weft_verbs_any_worker(const struct weft_vctx *v)
{
	uint32_t n = atomic_load_explicit(&v->nworkers, memory_order_acquire);
	struct weft_vworker *polled = v->worker[0];

	for (uint32_t i = 0; i < n; i++) {
		if (weft_vworker_is_mine(v->worker[i]))
			return v->worker[i];
		if (atomic_load_explicit(&v->worker[i]->owner, memory_order_relaxed) != NULL)
			polled = v->worker[i];
	}
	return polled;
}

int
weft_verbs_mr_disable(struct weft_vctx *v, struct weft_mem_mr *mem_mr)
{
	struct weft_mr *mr = mem_mr->owner;
	int rc = weft_mem_close(&mr->bound);

	/* The consumer and several peers may invalidate at the same time. The first one does it. */
	if (rc == 0)
		weft_mem_invalidate(v->mem, mem_mr, verbs_mr_freed, mr);
	return rc == -EBUSY ? rc : 0;
}

int
weft_mr_dereg(struct weft_mr *mr, void (*freed)(void *arg), void *arg)
{
	struct weft_vctx *v;
	struct weft_pd *pd;
	int rc = 0;

	if (WEFT_HANDLE_CLAIM(mr, MR) < 0)
		return -EINVAL;
	pd = mr->pd;
	v = pd->ctx;
	/*
	 * A peer may have invalidated the region. Then `bound` is closed and the region may be
	 * gone.
	 */
	if (!mr->fast)
		rc = weft_mem_close(&mr->bound);
	if (rc == -EBUSY) {
		weft_handle_unclaim(&mr->h, WEFT_KIND(MR));
		return rc;
	}
	/* `left` counts the handle, too, so freed() does not run before this function is done. */
	mr->freed = freed;
	mr->freed_arg = arg;
	if (mr->fast) {
		/*
		 * A work request that still names the region checks this before it accesses the
		 * region.
		 */
		atomic_store_explicit(&mr->dead, true, memory_order_release);
		rc = weft_mem_dealloc(v->mem, mr->mr, verbs_mr_freed, mr);
		if (rc < 0) {
			atomic_store_explicit(&mr->dead, false, memory_order_release);
			mr->freed = NULL;
			weft_handle_unclaim(&mr->h, WEFT_KIND(MR));
			return rc;
		}
	} else if (rc == 0) {
		weft_mem_invalidate(v->mem, mr->mr, verbs_mr_freed, mr);
	}
	weft_handle_end(&mr->h, WEFT_KIND(MR));
	/* The region keeps its reference of pd until it is freed. */
	atomic_fetch_sub_explicit(&pd->users, 1, memory_order_release);
	pthread_mutex_lock(&v->lock);
	TAILQ_REMOVE(&v->mrs, mr, all);
	v->place->deregistered(mr);
	pthread_mutex_unlock(&v->lock);
	if (!verbs_mr_leave(mr))
		return 0;
	/*
	 * A peer invalidated the region before, and a worker has freed it. freed() does not run
	 * inside this call, because the caller may hold a lock that freed() takes.
	 */
	if (freed != NULL) {
		mr->last.fn = verbs_mr_last;
		weft_work_send(&weft_verbs_any_worker(v)->work, &mr->last);
	} else {
		weft_verbs_mr_unref(mr);
	}
	return 0;
}

uint32_t
weft_mr_stag(const struct weft_mr *mr)
{
	if (WEFT_HANDLE_BAD(mr, MR))
		return 0;
	return atomic_load_explicit(&mr->stag, memory_order_relaxed);
}

uint32_t
weft_mr_next_stag(const struct weft_mr *mr)
{
	if (WEFT_HANDLE_BAD(mr, MR))
		return 0;
	return mr->fast ? weft_mem_next_stag(mr->mr) : 0;
}

void
weft_mr_query(const struct weft_mr *mr, struct weft_mr_info *info)
{
	struct weft_mem_mr now;
	uint32_t bound;

	if (info == NULL)
		return;
	if (WEFT_HANDLE_BAD(mr, MR)) {
		memset(info, 0, sizeof(*info));
		return;
	}
	bound = atomic_load_explicit(&mr->bound, memory_order_acquire);
	*info = (struct weft_mr_info){
	        .stag = weft_mr_stag(mr),
	        .valid = bound != WEFT_MEM_CLOSED,
	        .fast = mr->fast,
	        .windows = bound < WEFT_MEM_NARROWING ? bound : 0,
	        .addr = mr->attr.addr,
	        .len_bytes = atomic_load_explicit(WEFT_ATOMIC_REF(mr->attr.len_bytes),
	                                          memory_order_relaxed),
	        .base_to = mr->attr.base_to,
	        .access = atomic_load_explicit(WEFT_ATOMIC_REF(mr->attr.access),
	                                       memory_order_relaxed),
	        .persist = mr->attr.persist,
	        .hash = mr->attr.hash != NULL ? mr->attr.hash->name : NULL,
	        .bad_ranges = atomic_load_explicit(&mr->nbad_ranges, memory_order_relaxed),
	};
	if (!mr->fast)
		return;
	weft_mem_snapshot(mr->pd->ctx->mem, mr->mr, &now);
	info->valid = now.stag != 0;
	if (info->valid)
		info->stag = now.stag;
	info->addr = now.addr;
	info->len_bytes = weft_mem_len(&now);
	info->base_to = now.base_to;
	info->access = weft_mem_access(&now);
	info->persist = now.persist;
	info->hash = now.hash != NULL ? now.hash->name : NULL;
}
