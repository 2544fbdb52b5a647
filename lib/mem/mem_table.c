/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The table of regions: creation, lock-free lookup, and the release of ended regions. An
 * ended region is freed when no worker can see it any more (RCU) and no operation holds it.
 */

#include <stdlib.h>

#include <rte_debug.h>

#include "mem_priv.h"

#define MEM_MAX_INDEX_BITS 20

/* ---- Regions, as memory ---- */

struct weft_mem_mr *
mem_mr_new(const void *hash_key, uint32_t hash_key_bytes)
{
	struct weft_mem_mr *mr;
	size_t bytes = sizeof(*mr) + hash_key_bytes;

	if (posix_memalign((void **)&mr, RTE_CACHE_LINE_SIZE,
	                   RTE_ALIGN_CEIL(bytes, RTE_CACHE_LINE_SIZE)) != 0)
		return NULL;
	memset(mr, 0, sizeof(*mr));
	if (hash_key_bytes > 0) {
		mr->hash_key = memcpy(mr + 1, hash_key, hash_key_bytes);
		mr->hash_key_bytes = hash_key_bytes;
	}
	return mr;
}

void
mem_mr_delete(struct weft_mem_mr *mr)
{
	if (mr->kind != WEFT_MEM_WINDOW && mr->hash_key_bytes > 0)
		explicit_bzero(mr + 1, mr->hash_key_bytes);
	free(mr);
}

int
mem_account(struct weft_mem_pd *pd, bool window)
{
	_Atomic uint32_t *count = window ? &pd->windows : &pd->regions;
	uint32_t max = window ? pd->max_windows : pd->max_regions;

	if (atomic_fetch_add_explicit(count, 1, memory_order_relaxed) + 1 <= max || max == 0)
		return 0;
	atomic_fetch_sub_explicit(count, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&pd->refused, 1, memory_order_relaxed);
	return -ENOSPC;
}

void
mem_unaccount(struct weft_mem_pd *pd, bool window)
{
	atomic_fetch_sub_explicit(window ? &pd->windows : &pd->regions, 1, memory_order_release);
}

/* ---- Life of the table ---- */

/** Free what weft_mem_create() has allocated, and the table itself. */
static void
mem_table_free(struct weft_mem *m)
{
	free(m->rcu);
	free(m->t.slot);
	free(m->reserved);
	free(m->uses);
	free(m->revoked);
	free(m->free);
	free(m);
}

int
weft_mem_create(uint32_t max_regions, unsigned int max_workers, const struct weft_rand *rand,
                struct weft_mem **out)
{
	struct weft_mem *m;
	uint32_t n = 1, bits = 0;
	size_t rcu_bytes;

	if (max_regions == 0 || max_regions > 1U << MEM_MAX_INDEX_BITS || max_workers == 0 ||
	    max_workers > 4096 || rand == NULL || rand->fill == NULL)
		return -EINVAL;
	while (n < max_regions) {
		n <<= 1;
		bits++;
	}
	rcu_bytes = rte_rcu_qsbr_get_memsize(max_workers);
	if (posix_memalign((void **)&m, RTE_CACHE_LINE_SIZE, sizeof(*m)) != 0)
		return -ENOMEM;
	memset(m, 0, sizeof(*m));
	if (posix_memalign((void **)&m->rcu, RTE_CACHE_LINE_SIZE, rcu_bytes) != 0)
		m->rcu = NULL;
	m->t.slot = calloc(n, sizeof(*m->t.slot));
	m->reserved = calloc(n, sizeof(*m->reserved));
	m->uses = calloc(n, sizeof(*m->uses));
	m->revoked = calloc(n, sizeof(*m->revoked));
	m->free = calloc(n, sizeof(*m->free));
	if (m->rcu == NULL || m->t.slot == NULL || m->uses == NULL || m->free == NULL ||
	    m->reserved == NULL || m->revoked == NULL ||
	    rte_rcu_qsbr_init(m->rcu, max_workers) != 0) {
		mem_table_free(m);
		return -ENOMEM;
	}
	m->index_bits = bits;
	m->t.index_mask = n - 1;
	m->max_workers = max_workers;
	m->rand = *rand;
	m->rand.fill(m->rand.arg, m->key, sizeof(m->key));
	for (uint32_t i = 0; i < n; i++)
		m->free[i] = i;
	m->nfree = n;
	TAILQ_INIT(&m->live);
	TAILQ_INIT(&m->waiting);
	pthread_mutex_init(&m->lock, NULL);
	weft_medium_hash_prepare_all();
	*out = m;
	return 0;
}

/** Free a region and call freed(). The caller has unlinked it; no thread can see it. */
static void
mem_free(struct weft_mem_mr *mr)
{
	void (*freed)(void *arg) = mr->freed;
	void *arg = mr->freed_arg;

	/* The callback may free the domain, so the domain is updated first. */
	mem_unaccount(mr->account, mr->kind == WEFT_MEM_WINDOW);
	mem_mr_delete(mr);
	if (freed != NULL)
		freed(arg);
}

void
weft_mem_destroy(struct weft_mem *m)
{
	struct weft_mem_mr *mr;

	if (m == NULL)
		return;
	RTE_VERIFY(TAILQ_EMPTY(&m->live));
	/* Callbacks may take the lock, but may not register: such a region would be lost. */
	while ((mr = TAILQ_FIRST(&m->waiting)) != NULL) {
		TAILQ_REMOVE(&m->waiting, mr, link);
		mem_count(&m->nwaiting, -1);
		mem_free(mr);
	}
	RTE_VERIFY(TAILQ_EMPTY(&m->live));
	pthread_mutex_destroy(&m->lock);
	mem_table_free(m);
}

/* ---- Ended regions ---- */

void
mem_retire(struct weft_mem *m, struct weft_mem_mr *mr, void (*freed)(void *arg), void *arg)
{
	pthread_mutex_lock(&m->lock);
	mr->freed = freed;
	mr->freed_arg = arg;
	atomic_store_explicit(&mr->rcu_token, rte_rcu_qsbr_start(m->rcu), memory_order_relaxed);
	TAILQ_REMOVE(&m->live, mr, link);
	TAILQ_INSERT_TAIL(&m->waiting, mr, link);
	mem_count(&m->nlive, -1);
	mem_count(&m->nwaiting, 1);
	pthread_mutex_unlock(&m->lock);
}

unsigned int
weft_mem_reclaim(struct weft_mem *m)
{
	struct mem_mr_list gone = TAILQ_HEAD_INITIALIZER(gone);
	struct weft_mem_mr *mr, *next;
	unsigned int n = 0;

	if (atomic_load_explicit(&m->nwaiting, memory_order_relaxed) == 0)
		return 0;
	if (pthread_mutex_trylock(&m->lock) != 0)
		return 0; /* a poll loop does not wait; it tries again later */
	for (mr = TAILQ_FIRST(&m->waiting); mr != NULL; mr = next) {
		next = TAILQ_NEXT(mr, link);
		/*
		 * Tokens grow along the list, so all behind the first one that is too young are too
		 * young.
		 */
		if (rte_rcu_qsbr_check(m->rcu, MEM_GET(mr->rcu_token), false) != 1)
			break;
		/* No lookup can find it any more, so no new reference can be taken. */
		if (atomic_load_explicit(&mr->refs, memory_order_acquire) != 0)
			continue;
		TAILQ_REMOVE(&m->waiting, mr, link);
		TAILQ_INSERT_TAIL(&gone, mr, link);
		mem_give_slot(m, mr->slot);
		n++;
	}
	mem_count(&m->nwaiting, -(int)n);
	pthread_mutex_unlock(&m->lock);

	while ((mr = TAILQ_FIRST(&gone)) != NULL) {
		TAILQ_REMOVE(&gone, mr, link);
		mem_free(mr);
	}
	return n;
}

/* ---- Readers ---- */

int
weft_mem_reader_register(struct weft_mem *m, unsigned int worker_id)
{
	if (worker_id >= m->max_workers)
		return -EINVAL;
	return rte_rcu_qsbr_thread_register(m->rcu, worker_id) == 0 ? 0 : -EINVAL;
}

void
weft_mem_reader_unregister(struct weft_mem *m, unsigned int worker_id)
{
	if (worker_id >= m->max_workers)
		return;
	rte_rcu_qsbr_thread_offline(m->rcu, worker_id);
	rte_rcu_qsbr_thread_unregister(m->rcu, worker_id);
}

void
weft_mem_online(struct weft_mem *m, unsigned int worker_id)
{
	rte_rcu_qsbr_thread_online(m->rcu, worker_id);
}

void
weft_mem_offline(struct weft_mem *m, unsigned int worker_id)
{
	rte_rcu_qsbr_thread_offline(m->rcu, worker_id);
}

void
weft_mem_quiescent(struct weft_mem *m, unsigned int worker_id)
{
	rte_rcu_qsbr_quiescent(m->rcu, worker_id);
}

/* ---- Lookup ---- */

bool
weft_mem_valid(const struct weft_mem *m, const struct weft_mem_mr *mr)
{
	return atomic_load_explicit(&m->t.slot[mr->slot], memory_order_acquire) == mr;
}

uint64_t
weft_mem_new_stream(void)
{
	static _Atomic uint64_t last;

	return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

struct weft_mem_mr *
weft_mem_lookup_past(struct weft_mem *m, uint32_t stag)
{
	uint32_t slot = weft_mem_slot_of(&m->t, stag);
	struct weft_mem_mr *mr = atomic_load_explicit(&m->reserved[slot], memory_order_acquire);

	if (mr == NULL || stag == 0 || MEM_GET(mr->stag) != stag)
		return NULL;
	return weft_mem_valid(m, mr) ? NULL : mr;
}

void
weft_mem_ref(struct weft_mem_mr *mr)
{
	atomic_fetch_add_explicit(&mr->refs, 1, memory_order_relaxed);
	/*
	 * While the operation is under way, the window may be deallocated and its region
	 * deregistered.
	 */
	if (unlikely(mr->parent != NULL))
		atomic_fetch_add_explicit(&mr->parent->refs, 1, memory_order_relaxed);
}

static inline void
mem_unref_one(struct weft_mem_mr *mr)
{
	uint32_t before = atomic_fetch_sub_explicit(&mr->refs, 1, memory_order_release);

	RTE_ASSERT(before > 0);
	RTE_SET_USED(before);
}

void
weft_mem_unref(struct weft_mem_mr *mr)
{
	/* Loaded before: without this reference the window may be filled again. */
	struct weft_mem_mr *parent = mr->parent;

	if (unlikely(parent != NULL))
		mem_unref_one(parent);
	mem_unref_one(mr);
}

/* ---- For display ---- */

void
weft_mem_snapshot(const struct weft_mem *m, const struct weft_mem_mr *mr, struct weft_mem_mr *copy)
{
	uint32_t version, bound;
	bool valid;

	memset(copy, 0, sizeof(*copy));
	do {
		version = atomic_load_explicit(&mr->version, memory_order_acquire);
		valid = weft_mem_valid(m, mr);
		copy->stag = MEM_GET(mr->stag);
		atomic_init(&copy->access, MEM_GET(mr->access));
		copy->addr = MEM_GET(mr->addr);
		atomic_init(&copy->len_bytes, MEM_GET(mr->len_bytes));
		copy->base_to = MEM_GET(mr->base_to);
		copy->pd = MEM_GET(mr->pd);
		copy->persist = MEM_GET(mr->persist);
		copy->persist_off_bytes = MEM_GET(mr->persist_off_bytes);
		copy->hash = MEM_GET(mr->hash);
		copy->parent = MEM_GET(mr->parent);
		atomic_thread_fence(memory_order_acquire);
	} while ((version & 1) != 0 ||
	         version != atomic_load_explicit(&mr->version, memory_order_relaxed));
	copy->kind = mr->kind;
	copy->slot = mr->slot;
	bound = atomic_load_explicit(mr->bound, memory_order_relaxed);
	atomic_init(&copy->own_bound, bound == WEFT_MEM_NARROWING ? 0 : bound);
	atomic_init(&copy->refs, atomic_load_explicit(&mr->refs, memory_order_relaxed));
	if (!valid)
		copy->stag = 0;
}

uint32_t
weft_mem_count(const struct weft_mem *m)
{
	return atomic_load_explicit(&m->nlive, memory_order_relaxed);
}

uint32_t
weft_mem_max(const struct weft_mem *m)
{
	return m->t.index_mask + 1;
}
