/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Regions: checks before registration, registration, invalidation. */

#include <rte_debug.h>

#include "mem_priv.h"

#define MEM_ALL_RIGHTS                                                                             \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_PERSISTENT | WEFT_ACCESS_FLUSH_VISIBLE |    \
	 WEFT_ACCESS_VERIFY | WEFT_ACCESS_MW_BIND)

int
weft_mem_check_attr(const struct weft_mem_attr *a)
{
	const struct weft_persist *p = a->persist;
	uint64_t last = a->len_bytes - 1; /* not used if the length is 0 */

	if (a->addr == NULL || a->len_bytes == 0 || (a->access & ~MEM_ALL_RIGHTS) != 0)
		return -EINVAL;
	if (last > UINTPTR_MAX - (uintptr_t)a->addr || last > UINT64_MAX - a->base_to)
		return -EINVAL;
	if (p != NULL) {
		uintptr_t base = (uintptr_t)p->base, addr = (uintptr_t)a->addr;

		if (addr < base || addr - base >= p->bytes ||
		    a->len_bytes > p->bytes - (addr - base))
			return -ERANGE;
	}
	if (weft_guard_lost(a->addr, a->len_bytes))
		return -EIO;
	if ((a->access & WEFT_ACCESS_FLUSH_PERSISTENT) && (p == NULL || !p->ops->persistent))
		return -EOPNOTSUPP;
	if (a->hash == NULL ? a->hash_key_bytes > 0 || a->hash_key != NULL
	                    : weft_hash_check_key(a->hash, a->hash_key, a->hash_key_bytes) != 0)
		return -EINVAL;
	if (a->access & WEFT_ACCESS_VERIFY) {
		if (a->hash == NULL || (p != NULL && p->ops->read_back == NULL))
			return -EOPNOTSUPP;
		if (!weft_mem_verify_may_read(a->access))
			return -EOPNOTSUPP;
		if (weft_medium_hash_prepare(a->hash) != 0)
			return -EOPNOTSUPP;
	}
	return 0;
}

int
weft_mem_reg(struct weft_mem *m, struct weft_mem_pd *pd, const struct weft_mem_attr *attr,
             struct weft_mem_mr **out)
{
	struct weft_mem_mr *mr;
	int r = weft_mem_check_attr(attr);

	if (r != 0)
		return r;
	r = mem_account(pd, false);
	if (r != 0)
		return r;
	mr = mem_mr_new(attr->hash_key, attr->hash_key_bytes);
	if (mr == NULL) {
		mem_unaccount(pd, false);
		return -ENOMEM;
	}
	atomic_init(&mr->access, attr->access);
	mr->addr = attr->addr;
	atomic_init(&mr->len_bytes, attr->len_bytes);
	mr->base_to = attr->base_to;
	mr->pd = pd;
	mr->account = pd;
	mr->kind = WEFT_MEM_REGION;
	mr->bound = attr->bound != NULL ? attr->bound : &mr->own_bound;
	mr->persist = attr->persist;
	mr->persist_off_bytes =
	        attr->persist == NULL ? 0 : (uint64_t)(attr->addr - attr->persist->base);
	mr->hash = attr->hash;
	mr->gate = attr->gate;
	mr->owner = attr->owner;

	pthread_mutex_lock(&m->lock);
	if (!mem_take_slot(m, &mr->slot)) {
		pthread_mutex_unlock(&m->lock);
		mem_unaccount(pd, false);
		mem_mr_delete(mr);
		return -ENOSPC;
	}
	mr->stag = mem_draw(m, mr->slot);
	TAILQ_INSERT_TAIL(&m->live, mr, link);
	mem_count(&m->nlive, 1);
	if (attr->stag != NULL)
		atomic_store_explicit(attr->stag, mr->stag, memory_order_relaxed);
	atomic_store_explicit(&m->t.slot[mr->slot], mr, memory_order_release);
	pthread_mutex_unlock(&m->lock);
	*out = mr;
	return 0;
}

int
weft_mem_close(_Atomic uint32_t *bound)
{
	uint32_t n = 0;

	/*
	 * Another worker may be in weft_mem_narrow(), which checks at its end whether the region is
	 * still open.
	 */
	do {
		if (atomic_compare_exchange_strong_explicit(
		            bound, &n, WEFT_MEM_CLOSED, memory_order_acq_rel, memory_order_relaxed))
			return 0;
	} while (n == 0 || n == WEFT_MEM_NARROWING);
	return n == WEFT_MEM_CLOSED ? -EALREADY : -EBUSY;
}

void
weft_mem_invalidate(struct weft_mem *m, struct weft_mem_mr *mr, void (*freed)(void *arg), void *arg)
{
	RTE_ASSERT(MEM_GET(m->t.slot[mr->slot]) == mr && mr->kind == WEFT_MEM_REGION);
	atomic_store_explicit(&m->t.slot[mr->slot], NULL, memory_order_release);
	mem_retire(m, mr, freed, arg);
}
