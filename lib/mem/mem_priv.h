/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MEM_PRIV_H
#define MEM_PRIV_H

/** @file Declarations shared by the sources of lib/mem. */

#include <assert.h>
#include <pthread.h>

#include "weft_mem_find.h"
#include <weft/atomic_ref.h>

TAILQ_HEAD(mem_mr_list, weft_mem_mr);

struct weft_mem {
	struct weft_mem_slots t; /**< first: weft_mem_lookup() reads it */
	/* constant */
	/** per slot: the reserved region that owns it, valid or not */
	struct weft_mem_mr *_Atomic *reserved;
	uint32_t index_bits;
	struct rte_rcu_qsbr *rcu;
	unsigned int max_workers;
	uint64_t key[2];
	_Atomic uint32_t *revoked; /**< per slot: STag of weft_mem_set_revoked(), 0: none */
	_Atomic uint64_t *uses; /**< per slot: STags issued; changed only for the slot's region */

	/* under the lock */
	pthread_mutex_t lock __rte_cache_aligned;
	struct weft_rand rand;
	/**
	 * Ring with one entry for each slot: the free slots, the one that is free for the longest
	 * time first.
	 */
	uint32_t *free;
	uint32_t free_head;
	uint32_t nfree;
	_Atomic uint32_t nlive;    /**< also read without the lock */
	_Atomic uint32_t nwaiting; /**< also read without the lock */
	struct mem_mr_list live;
	struct mem_mr_list waiting; /**< invalidated, oldest token first */
};

static_assert(offsetof(struct weft_mem, t) == 0, "weft_mem_lookup() relies on it");

/* ---- mem_stag.c: slots and their STags ---- */

/** The STag of registration number `use` of a slot. May be 0, which is not an STag. */
uint32_t mem_stag_value(const struct weft_mem *m, uint32_t slot, uint64_t use);
/** Take a slot from the older half of the free slots; false: none is free. The lock is held. */
bool mem_take_slot(struct weft_mem *m, uint32_t *slot);
/** Append a slot to the queue of free slots. The lock is held. */
void mem_give_slot(struct weft_mem *m, uint32_t slot);
/** The next STag of a slot that the caller owns; never 0. Lock-free. */
uint32_t mem_draw(struct weft_mem *m, uint32_t slot);

/* ---- mem_table.c: the table of regions, and regions that have ended ---- */

/** Count one more region or window in its domain; -ENOSPC beyond the limit. */
int mem_account(struct weft_mem_pd *pd, bool window);
void mem_unaccount(struct weft_mem_pd *pd, bool window);
/**
 * Allocate a zeroed region on cache lines of its own, followed by a copy of the key; NULL: no
 * memory.
 */
struct weft_mem_mr *mem_mr_new(const void *hash_key, uint32_t hash_key_bytes);
/** Free a region; its key is erased. */
void mem_mr_delete(struct weft_mem_mr *mr);
/** Move a region from `live` to `waiting`. Its slot is empty. Takes the lock. */
void mem_retire(struct weft_mem *m, struct weft_mem_mr *mr, void (*freed)(void *arg), void *arg);

/*
 * Readers of the data path see these members through the slot, so they read them plainly. A
 * snapshot, which does not use the slot, checks the version.
 */
#define MEM_SET(field, value)                                                                      \
	atomic_store_explicit(WEFT_ATOMIC_REF(field), (value), memory_order_relaxed)
#define MEM_GET(field) atomic_load_explicit(WEFT_ATOMIC_REF(field), memory_order_relaxed)

/** Change a count that other threads read without the lock. The lock is held. */
static inline void
mem_count(_Atomic uint32_t *n, int by)
{
	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + (uint32_t)by,
	                      memory_order_relaxed);
}

#endif /* MEM_PRIV_H */
