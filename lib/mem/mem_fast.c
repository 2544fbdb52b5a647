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
               _Atomic uint32_t *bound, struct weft_mem_mr **out)
{
	return weft_mem_alloc_keyed(m, pd, kind, owner, bound, NULL, 0, out);
}

int
weft_mem_alloc_keyed(struct weft_mem *m, struct weft_mem_pd *pd, enum weft_mem_kind kind,
                     void *owner, _Atomic uint32_t *bound, const void *hash_key,
                     uint32_t hash_key_bytes, struct weft_mem_mr **out)
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
	atomic_init(&mr->idle, 1);
	mr->bound = bound != NULL ? bound : &mr->own_bound;
	atomic_store_explicit(mr->bound, WEFT_MEM_CLOSED, memory_order_relaxed);

	pthread_mutex_lock(&m->lock);
	if (!mem_take_slot(m, &mr->slot)) {
		pthread_mutex_unlock(&m->lock);
		mem_unaccount(pd, window);
		mem_mr_delete(mr);
		return -ENOSPC;
	}
	atomic_init(&mr->next_stag, mem_draw(m, mr->slot));
	TAILQ_INSERT_TAIL(&m->live, mr, link);
	mem_count(&m->nlive, 1);
	atomic_store_explicit(&m->reserved[mr->slot], mr, memory_order_release);
	pthread_mutex_unlock(&m->lock);
	*out = mr;
	return 0;
}

uint32_t
weft_mem_next_stag(const struct weft_mem_mr *mr)
{
	return atomic_load_explicit(&mr->next_stag, memory_order_relaxed);
}

uint32_t
weft_mem_take_stag(struct weft_mem *m, struct weft_mem_mr *mr)
{
	return atomic_exchange_explicit(&mr->next_stag, mem_draw(m, mr->slot),
	                                memory_order_relaxed);
}

static bool
mem_claim(struct weft_mem_mr *mr)
{
	uint32_t idle = 1;

	return atomic_compare_exchange_strong_explicit(&mr->idle, &idle, 0, memory_order_acq_rel,
	                                               memory_order_relaxed);
}

/**
 * Empty the slot. The caller has closed the region, so it is the only one. A window is no longer
 * counted in its region.
 */
static void
mem_take_out(struct weft_mem *m, struct weft_mem_mr *mr)
{
	RTE_ASSERT(weft_mem_valid(m, mr));
	atomic_store_explicit(&m->t.slot[mr->slot], NULL, memory_order_release);
	if (mr->parent != NULL)
		atomic_fetch_sub_explicit(mr->parent->bound, 1, memory_order_release);
}

/** No worker can still see the earlier registration, and no operation holds a reference. */
static bool
mem_settled(struct weft_mem *m, const struct weft_mem_mr *mr)
{
	return rte_rcu_qsbr_check(m->rcu,
	                          atomic_load_explicit(&mr->rcu_token, memory_order_relaxed),
	                          false) == 1 &&
	       atomic_load_explicit(&mr->refs, memory_order_acquire) == 0;
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
		return atomic_load_explicit(&mr->dead, memory_order_acquire) ? -ESTALE : -EAGAIN;
	}
	if (!mem_settled(m, mr)) {
		atomic_store_explicit(&mr->idle, 1, memory_order_release);
		return -EAGAIN;
	}
	atomic_fetch_add_explicit(&mr->version, 1, memory_order_acq_rel);
	atomic_thread_fence(memory_order_release);
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
	MEM_SET(mr->gate, a->gate);
	MEM_SET(mr->lost_seen, 0);
	if (parent != NULL) {
		mr->hash_key = a->hash_key;
		mr->hash_key_bytes = a->hash_key_bytes;
	}
	MEM_SET(mr->parent, parent);
	MEM_SET(mr->by_peer, 0);
	atomic_fetch_add_explicit(&mr->version, 1, memory_order_release);
	atomic_store_explicit(&m->t.slot[mr->slot], mr, memory_order_release);
	/* Last: a thread that closes the region must find it in its slot. */
	atomic_store_explicit(mr->bound, 0, memory_order_release);
	return 0;
}

int
weft_mem_fast_invalidate(struct weft_mem *m, struct weft_mem_mr *mr)
{
	int r = weft_mem_close(mr->bound);

	if (r != 0)
		return r == -EBUSY ? -EBUSY : -ENOENT;
	mem_take_out(m, mr);
	atomic_store_explicit(&mr->rcu_token, rte_rcu_qsbr_start(m->rcu), memory_order_relaxed);
	atomic_store_explicit(&mr->idle, 1, memory_order_release);
	return 0;
}

bool
weft_mem_drained(struct weft_mem *m, const struct weft_mem_mr *mr)
{
	/* If it is valid again, it was drained in between. */
	return weft_mem_valid(m, mr) ||
	       (atomic_load_explicit(&mr->idle, memory_order_acquire) != 0 && mem_settled(m, mr));
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
	atomic_store_explicit(&mr->dead, true, memory_order_release);
	atomic_store_explicit(&m->reserved[mr->slot], NULL, memory_order_release);
	mem_retire(m, mr, freed, arg);
	return 0;
}
