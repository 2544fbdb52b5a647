/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Regions and windows that become valid and invalid by work request, without lock or heap.
 *
 * Such a region owns its slot and its structure for life. It is valid while `slot[i] == mr`.
 * Several threads may want to invalidate it. One of them closes `bound`, empties the slot, starts a
 * grace period, stores its token, and only then sets `idle`. To fill the region, a thread claims
 * `idle`, checks that the grace period is over and no reference is left, writes the members, stores
 * the slot, and opens `bound`. So what a worker finds in the slot does not change while the worker
 * uses it: the worker found it before the slot was emptied, and it is not written before that
 * worker has been quiescent.
 */

#include <sched.h>
#include <stdlib.h>

#include <rte_debug.h>

#include "mem_priv.h"
#include "weft_mem_fast.h"

int
weft_mem_alloc(struct weft_mem *m, struct weft_mem_pd *pd, enum weft_mem_kind kind, void *owner,
               uint32_t *bound, struct weft_mem_mr **out)
{
	return weft_mem_alloc_keyed(m, pd, kind, owner, bound, NULL, 0, out);
}

int
weft_mem_alloc_keyed(struct weft_mem *m, struct weft_mem_pd *pd, enum weft_mem_kind kind,
                     void *owner, uint32_t *bound, const void *hash_key, uint32_t hash_key_bytes,
                     struct weft_mem_mr **out)
{
	const bool window = kind == WEFT_MEM_WINDOW;
	struct weft_mem_mr *mr;
	int r;

	RTE_ASSERT(kind != WEFT_MEM_REGION && (kind == WEFT_MEM_FAST || hash_key_bytes == 0));
	r = mem_account(pd, window);
	if (r != 0)
		return r;
	mr = mem_mr_new(hash_key, hash_key_bytes);
	if (mr == NULL) {
		mem_unaccount(pd, window);
		return -ENOMEM;
	}
	mr->pd = pd;
	mr->account = pd;
	mr->kind = (uint8_t)kind;
	mr->owner = owner;
	mr->idle = 1;
	mr->bound = bound != NULL ? bound : &mr->own_bound;
	__atomic_store_n(mr->bound, WEFT_MEM_CLOSED, __ATOMIC_RELAXED);

	pthread_mutex_lock(&m->lock);
	if (!mem_take_slot(m, &mr->slot)) {
		pthread_mutex_unlock(&m->lock);
		mem_unaccount(pd, window);
		mem_mr_delete(mr);
		return -ENOSPC;
	}
	mr->next_stag = mem_draw(m, mr->slot);
	TAILQ_INSERT_TAIL(&m->live, mr, link);
	__atomic_store_n(&m->nlive, m->nlive + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&m->reserved[mr->slot], mr, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&m->lock);
	*out = mr;
	return 0;
}

uint32_t
weft_mem_next_stag(const struct weft_mem_mr *mr)
{
	return __atomic_load_n(&mr->next_stag, __ATOMIC_RELAXED);
}

uint32_t
weft_mem_take_stag(struct weft_mem *m, struct weft_mem_mr *mr)
{
	return __atomic_exchange_n(&mr->next_stag, mem_draw(m, mr->slot), __ATOMIC_RELAXED);
}

static bool
mem_claim(struct weft_mem_mr *mr)
{
	uint32_t idle = 1;

	return __atomic_compare_exchange_n(&mr->idle, &idle, 0, false, __ATOMIC_ACQ_REL,
	                                   __ATOMIC_RELAXED);
}

/**
 * Empty the slot. The caller has closed the region, so it is the only one. A window is no longer
 * counted in its region.
 */
static void
mem_take_out(struct weft_mem *m, struct weft_mem_mr *mr)
{
	RTE_ASSERT(weft_mem_valid(m, mr));
	__atomic_store_n(&m->slot[mr->slot], NULL, __ATOMIC_RELEASE);
	if (mr->parent != NULL)
		__atomic_fetch_sub(mr->parent->bound, 1, __ATOMIC_RELEASE);
}

/** No worker can still see the earlier registration, and no operation holds a reference. */
static bool
mem_settled(struct weft_mem *m, const struct weft_mem_mr *mr)
{
	return rte_rcu_qsbr_check(m->rcu, __atomic_load_n(&mr->rcu_token, __ATOMIC_RELAXED),
	                          false) == 1 &&
	       __atomic_load_n(&mr->refs, __ATOMIC_ACQUIRE) == 0;
}

int
weft_mem_fill(struct weft_mem *m, struct weft_mem_mr *mr, struct weft_mem_pd *scope,
              struct weft_mem_mr *parent, const struct weft_mem_attr *a, uint32_t stag)
{
	RTE_ASSERT(mr->kind != WEFT_MEM_REGION &&
	           (parent != NULL) == (mr->kind == WEFT_MEM_WINDOW));
	if (weft_mem_valid(m, mr))
		return -EBUSY;
	if (!mem_claim(mr)) {
		if (weft_mem_valid(m, mr))
			return -EBUSY;
		return __atomic_load_n(&mr->dead, __ATOMIC_ACQUIRE) ? -ESTALE : -EAGAIN;
	}
	if (!mem_settled(m, mr)) {
		__atomic_store_n(&mr->idle, 1, __ATOMIC_RELEASE);
		return -EAGAIN;
	}
	__atomic_fetch_add(&mr->version, 1, __ATOMIC_ACQ_REL);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	MEM_SET(mr->stag, stag);
	MEM_SET(mr->access, a->access);
	MEM_SET(mr->addr, a->addr);
	MEM_SET(mr->len_bytes, a->len_bytes);
	MEM_SET(mr->base_to, a->base_to);
	MEM_SET(mr->pd, scope);
	MEM_SET(mr->stream, scope->stream);
	MEM_SET(mr->persist, a->persist);
	MEM_SET(mr->persist_off_bytes,
	        a->persist == NULL ? 0 : (uint64_t)(a->addr - a->persist->base));
	MEM_SET(mr->hash, a->hash);
	MEM_SET(mr->lost_seen, 0);
	if (parent != NULL) {
		mr->hash_key = a->hash_key;
		mr->hash_key_bytes = a->hash_key_bytes;
	}
	MEM_SET(mr->parent, parent);
	MEM_SET(mr->by_peer, 0);
	__atomic_fetch_add(&mr->version, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&m->slot[mr->slot], mr, __ATOMIC_RELEASE);
	/* Last: a thread that closes the region must find it in its slot. */
	__atomic_store_n(mr->bound, 0, __ATOMIC_RELEASE);
	return 0;
}

int
weft_mem_fast_invalidate(struct weft_mem *m, struct weft_mem_mr *mr)
{
	int r = weft_mem_close(mr->bound);

	if (r != 0)
		return r == -EBUSY ? -EBUSY : -ENOENT;
	mem_take_out(m, mr);
	__atomic_store_n(&mr->rcu_token, rte_rcu_qsbr_start(m->rcu), __ATOMIC_RELAXED);
	__atomic_store_n(&mr->idle, 1, __ATOMIC_RELEASE);
	return 0;
}

bool
weft_mem_drained(struct weft_mem *m, const struct weft_mem_mr *mr)
{
	/* If it is valid again, it was drained in between. */
	return weft_mem_valid(m, mr) ||
	       (__atomic_load_n(&mr->idle, __ATOMIC_ACQUIRE) != 0 && mem_settled(m, mr));
}

int
weft_mem_dealloc(struct weft_mem *m, struct weft_mem_mr *mr, void (*freed)(void *arg), void *arg)
{
	int r;

	for (;;) {
		r = weft_mem_close(mr->bound);
		if (r == -EBUSY)
			return r;
		if (r == 0) {
			mem_take_out(m, mr);
			break;
		}
		if (mem_claim(mr))
			break;
		/* A worker is in the middle of a change. */
		sched_yield();
	}
	__atomic_store_n(&mr->dead, true, __ATOMIC_RELEASE);
	__atomic_store_n(&m->reserved[mr->slot], NULL, __ATOMIC_RELEASE);
	mem_retire(m, mr, freed, arg);
	return 0;
}
