/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Protection domains and memory regions. */

#include <assert.h>
#include <stdlib.h>

#include "verbs_priv.h"

static_assert(WEFT_ACCESS_LOCAL_WRITE == WEFT_MR_LOCAL_WRITE, "rights differ");
static_assert(WEFT_ACCESS_REMOTE_READ == WEFT_MR_REMOTE_READ, "rights differ");
static_assert(WEFT_ACCESS_REMOTE_WRITE == WEFT_MR_REMOTE_WRITE, "rights differ");
static_assert(WEFT_ACCESS_REMOTE_ATOMIC == WEFT_MR_REMOTE_ATOMIC, "rights differ");
static_assert(WEFT_ACCESS_FLUSH_PERSISTENT == WEFT_MR_FLUSH_PERSISTENT, "rights differ");
static_assert(WEFT_ACCESS_FLUSH_VISIBLE == WEFT_MR_FLUSH_VISIBLE, "rights differ");
static_assert(WEFT_ACCESS_VERIFY == WEFT_MR_VERIFY, "rights differ");

int
weft_pd_alloc(struct weft_ctx *ctx, struct weft_pd **out)
{
	struct weft_vctx *v = weft_vctx_of(ctx);
	struct weft_pd *pd = calloc(1, sizeof(*pd));

	if (pd == NULL)
		return -ENOMEM;
	pd->mem.mem = v->mem;
	pd->ctx = v;
	pd->refs = 1;
	pthread_mutex_lock(&v->lock);
	TAILQ_INSERT_TAIL(&v->pds, pd, all);
	pthread_mutex_unlock(&v->lock);
	*out = pd;
	return 0;
}

void
weft_verbs_pd_unref(struct weft_pd *pd)
{
	if (__atomic_sub_fetch(&pd->refs, 1, __ATOMIC_ACQ_REL) == 0)
		free(pd);
}

int
weft_pd_dealloc(struct weft_pd *pd)
{
	struct weft_vctx *v = pd->ctx;

	pthread_mutex_lock(&v->lock);
	if (__atomic_load_n(&pd->users, __ATOMIC_ACQUIRE) > 0) {
		pthread_mutex_unlock(&v->lock);
		return -EBUSY;
	}
	TAILQ_REMOVE(&v->pds, pd, all);
	pthread_mutex_unlock(&v->lock);
	/* Regions on their way out still point here. */
	weft_verbs_pd_unref(pd);
	return 0;
}

int
weft_mr_reg(struct weft_pd *pd, const struct weft_mr_attr *attr, struct weft_mr **out)
{
	struct weft_vctx *v = pd->ctx;
	struct weft_mem_attr ma = {0};
	struct weft_mr_attr a;
	struct weft_mr *mr;
	int rc = weft_verbs_attr(&a, sizeof(a), attr);

	if (rc < 0)
		return rc;
	if (a.addr == NULL)
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
	mr = calloc(1, sizeof(*mr));
	if (mr == NULL)
		return -ENOMEM;
	/* A peer that guesses the STag may invalidate the region before we are told of it. */
	mr->pd = pd;
	mr->refs = 2;
	ma.owner = mr;
	ma.stag = &mr->stag;
	__atomic_fetch_add(&pd->users, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&pd->refs, 1, __ATOMIC_RELAXED);
	rc = weft_mem_reg(v->mem, &pd->mem, &ma, &mr->mr);
	if (rc < 0) {
		__atomic_fetch_sub(&pd->users, 1, __ATOMIC_RELAXED);
		weft_verbs_pd_unref(pd);
		free(mr);
		return rc;
	}
	pthread_mutex_lock(&v->lock);
	TAILQ_INSERT_TAIL(&v->mrs, mr, all);
	pthread_mutex_unlock(&v->lock);
	*out = mr;
	return 0;
}

/** The region and the handle are both gone when this has run twice. */
static void
verbs_mr_unref(struct weft_mr *mr)
{
	if (__atomic_sub_fetch(&mr->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	if (mr->freed != NULL)
		mr->freed(mr->freed_arg);
	weft_verbs_pd_unref(mr->pd);
	free(mr);
}

static void
verbs_mr_freed(void *arg)
{
	verbs_mr_unref(arg);
}

/** The consumer and peers may all want it; the first one does it. */
static void
verbs_mr_invalidate(struct weft_vctx *v, struct weft_mr *mr, struct weft_mem_mr *mem_mr)
{
	if (__atomic_exchange_n(&mr->invalid, true, __ATOMIC_ACQ_REL) == false)
		weft_mem_invalidate(v->mem, mem_mr, verbs_mr_freed, mr);
}

void
weft_mr_dereg(struct weft_mr *mr, void (*freed)(void *arg), void *arg)
{
	struct weft_pd *pd = mr->pd;
	struct weft_vctx *v = pd->ctx;

	/* Our reference of the handle is what keeps freed() from running before we are done. */
	mr->freed = freed;
	mr->freed_arg = arg;
	/* The region keeps a reference of pd until it is gone. */
	__atomic_fetch_sub(&pd->users, 1, __ATOMIC_RELEASE);
	pthread_mutex_lock(&v->lock);
	TAILQ_REMOVE(&v->mrs, mr, all);
	pthread_mutex_unlock(&v->lock);
	verbs_mr_invalidate(v, mr, mr->mr);
	verbs_mr_unref(mr);
}

void
weft_verbs_mr_disable(struct weft_vctx *v, struct weft_mem_mr *mem_mr)
{
	verbs_mr_invalidate(v, mem_mr->owner, mem_mr);
}

uint32_t
weft_mr_stag(const struct weft_mr *mr)
{
	return mr->stag;
}
