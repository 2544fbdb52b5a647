/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MEM_PRIV_H
#define MEM_PRIV_H

/**
 * @file
 * What the sources of lib/mem share among themselves.
 */

#include <pthread.h>

#include "weft_mem.h"

TAILQ_HEAD(mem_mr_list, weft_mem_mr);

struct weft_mem {
	/* read by every lookup, constant */
	struct weft_mem_mr **slot;     /**< loaded and stored atomically */
	struct weft_mem_mr **reserved; /**< per slot: whose it is, valid or not; likewise */
	uint32_t index_mask;
	uint32_t index_bits;
	struct rte_rcu_qsbr *rcu;
	unsigned int max_workers;
	uint64_t key[2];
	uint32_t *revoked; /**< per slot: weft_mem_set_revoked(), 0 none (atomic) */
	uint64_t *uses; /**< per slot: STags issued (atomic); changed for the slot's region alone */

	/* under the lock */
	pthread_mutex_t lock __rte_cache_aligned;
	struct weft_rand rand;
	/** a ring of as many entries as there are slots: unused ones, longest unused first */
	uint32_t *free;
	uint32_t free_head;
	uint32_t nfree;
	uint32_t nlive;    /**< also read without the lock */
	uint32_t nwaiting; /**< also read without the lock */
	struct mem_mr_list live;
	struct mem_mr_list waiting; /**< invalidated, oldest token first */
};

/* ---- mem_stag.c: slots and their STags ---- */

/** The STag of a slot's use-th registration; may be 0, which is none. */
uint32_t mem_stag_value(const struct weft_mem *m, uint32_t slot, uint64_t use);
/** One of the older half of the slots that are free; false: none is. Under the lock. */
bool mem_take_slot(struct weft_mem *m, uint32_t *slot);
/** To the end of the queue of free slots. Under the lock. */
void mem_give_slot(struct weft_mem *m, uint32_t slot);
/** The next STag of a slot that is the caller's; never 0. Lock-free. */
uint32_t mem_draw(struct weft_mem *m, uint32_t slot);

/* ---- mem_table.c: regions in the table, and out of it ---- */

/** Count one more in its domain; -ENOSPC beyond the limit. */
int mem_account(struct weft_mem_pd *pd, bool window);
void mem_unaccount(struct weft_mem_pd *pd, bool window);
/** A zeroed one on its cache lines, with a copy of the key behind it; NULL: no memory. */
struct weft_mem_mr *mem_mr_new(const void *hash_key, uint32_t hash_key_bytes);
/** Wipes the key. */
void mem_mr_delete(struct weft_mem_mr *mr);
/** From `live` to `waiting`; its slot is empty. Takes the lock. */
void mem_retire(struct weft_mem *m, struct weft_mem_mr *mr, void (*freed)(void *arg), void *arg);

/* Readers of the data path see these by the slot; a snapshot, which does not, by the version. */
#define MEM_SET(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)
#define MEM_GET(field)        __atomic_load_n(&(field), __ATOMIC_RELAXED)

/** Say to the medium that octets changed; they have been stored already, so no flush misses them.
 */
static inline void
mem_mark(const struct weft_mem_mr *mr, uint64_t to, uint64_t len_bytes)
{
	if (mr->persist != NULL)
		weft_persist_mark(mr->persist, mr->persist_off_bytes + (to - mr->base_to),
		                  len_bytes);
}

#endif /* MEM_PRIV_H */
