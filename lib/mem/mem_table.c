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
	uint32_t *count = window ? &pd->windows : &pd->regions;
	uint32_t max = window ? pd->max_windows : pd->max_regions;

	if (__atomic_add_fetch(count, 1, __ATOMIC_RELAXED) <= max || max == 0)
		return 0;
	__atomic_fetch_sub(count, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&pd->refused, 1, __ATOMIC_RELAXED);
	return -ENOSPC;
}

void
mem_unaccount(struct weft_mem_pd *pd, bool window)
{
	__atomic_fetch_sub(window ? &pd->windows : &pd->regions, 1, __ATOMIC_RELEASE);
}

/* ---- Life of the table ---- */

/** Free what weft_mem_create() has allocated, and the table itself. */
static void
mem_table_free(struct weft_mem *m)
{
	free(m->rcu);
	free(m->slot);
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
	m->slot = calloc(n, sizeof(*m->slot));
	m->reserved = calloc(n, sizeof(*m->reserved));
	m->uses = calloc(n, sizeof(*m->uses));
	m->revoked = calloc(n, sizeof(*m->revoked));
	m->free = calloc(n, sizeof(*m->free));
	if (m->rcu == NULL || m->slot == NULL || m->uses == NULL || m->free == NULL ||
	    m->reserved == NULL || m->revoked == NULL ||
	    rte_rcu_qsbr_init(m->rcu, max_workers) != 0) {
		mem_table_free(m);
		return -ENOMEM;
	}
	m->index_bits = bits;
	m->index_mask = n - 1;
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
		m->nwaiting--;
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
	mr->rcu_token = rte_rcu_qsbr_start(m->rcu);
	TAILQ_REMOVE(&m->live, mr, link);
	TAILQ_INSERT_TAIL(&m->waiting, mr, link);
	__atomic_store_n(&m->nlive, m->nlive - 1, __ATOMIC_RELAXED);
	__atomic_store_n(&m->nwaiting, m->nwaiting + 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&m->lock);
}

unsigned int
weft_mem_reclaim(struct weft_mem *m)
{
	struct mem_mr_list gone = TAILQ_HEAD_INITIALIZER(gone);
	struct weft_mem_mr *mr, *next;
	unsigned int n = 0;

	if (__atomic_load_n(&m->nwaiting, __ATOMIC_RELAXED) == 0)
		return 0;
	if (pthread_mutex_trylock(&m->lock) != 0)
		return 0; /* a poll loop does not wait; it tries again later */
	for (mr = TAILQ_FIRST(&m->waiting); mr != NULL; mr = next) {
		next = TAILQ_NEXT(mr, link);
		/*
		 * Tokens grow along the list, so all behind the first one that is too young are too
		 * young.
		 */
		if (rte_rcu_qsbr_check(m->rcu, mr->rcu_token, false) != 1)
			break;
		/* No lookup can find it any more, so no new reference can be taken. */
		if (__atomic_load_n(&mr->refs, __ATOMIC_ACQUIRE) != 0)
			continue;
		TAILQ_REMOVE(&m->waiting, mr, link);
		TAILQ_INSERT_TAIL(&gone, mr, link);
		mem_give_slot(m, mr->slot);
		n++;
	}
	__atomic_store_n(&m->nwaiting, m->nwaiting - n, __ATOMIC_RELAXED);
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
	return __atomic_load_n(&m->slot[mr->slot], __ATOMIC_ACQUIRE) == mr;
}

uint64_t
weft_mem_new_stream(void)
{
	static uint64_t last;

	return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

struct weft_mem_mr *
weft_mem_lookup(struct weft_mem *m, uint32_t stag)
{
	struct weft_mem_mr *mr = __atomic_load_n(&m->slot[stag & m->index_mask], __ATOMIC_ACQUIRE);

	return likely(mr != NULL && mr->stag == stag) ? mr : NULL;
}

struct weft_mem_mr *
weft_mem_lookup_past(struct weft_mem *m, uint32_t stag)
{
	uint32_t slot = stag & m->index_mask;
	struct weft_mem_mr *mr = __atomic_load_n(&m->reserved[slot], __ATOMIC_ACQUIRE);

	if (mr == NULL || stag == 0 || __atomic_load_n(&mr->stag, __ATOMIC_RELAXED) != stag)
		return NULL;
	return weft_mem_valid(m, mr) ? NULL : mr;
}

void
weft_mem_ref(struct weft_mem_mr *mr)
{
	__atomic_fetch_add(&mr->refs, 1, __ATOMIC_RELAXED);
	/*
	 * While the operation is under way, the window may be deallocated and its region
	 * deregistered.
	 */
	if (unlikely(mr->parent != NULL))
		__atomic_fetch_add(&mr->parent->refs, 1, __ATOMIC_RELAXED);
}

static inline void
mem_unref_one(struct weft_mem_mr *mr)
{
	uint32_t before = __atomic_fetch_sub(&mr->refs, 1, __ATOMIC_RELEASE);

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
	uint32_t version;
	bool valid;

	memset(copy, 0, sizeof(*copy));
	do {
		version = __atomic_load_n(&mr->version, __ATOMIC_ACQUIRE);
		valid = weft_mem_valid(m, mr);
		copy->stag = MEM_GET(mr->stag);
		copy->access = MEM_GET(mr->access);
		copy->addr = MEM_GET(mr->addr);
		copy->len_bytes = MEM_GET(mr->len_bytes);
		copy->base_to = MEM_GET(mr->base_to);
		copy->pd = MEM_GET(mr->pd);
		copy->persist = MEM_GET(mr->persist);
		copy->persist_off_bytes = MEM_GET(mr->persist_off_bytes);
		copy->hash = MEM_GET(mr->hash);
		copy->parent = MEM_GET(mr->parent);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while ((version & 1) != 0 || version != __atomic_load_n(&mr->version, __ATOMIC_RELAXED));
	copy->kind = mr->kind;
	copy->slot = mr->slot;
	copy->own_bound = __atomic_load_n(mr->bound, __ATOMIC_RELAXED);
	if (copy->own_bound == WEFT_MEM_NARROWING)
		copy->own_bound = 0;
	copy->refs = __atomic_load_n(&mr->refs, __ATOMIC_RELAXED);
	if (!valid)
		copy->stag = 0;
}

uint32_t
weft_mem_count(const struct weft_mem *m)
{
	return __atomic_load_n(&m->nlive, __ATOMIC_RELAXED);
}

uint32_t
weft_mem_max(const struct weft_mem *m)
{
	return m->index_mask + 1;
}
