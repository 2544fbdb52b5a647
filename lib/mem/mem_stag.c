/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The STag table: registration, lock-free lookup, invalidation and RCU reclaim.
 *
 * An STag is `perm(slot, use count) << index_bits | slot`. perm is a Feistel network on the
 * remaining bits whose round function is SipHash-2-4 under a key drawn when the table is made and
 * tweaked by the slot, so the order in which a slot takes its values cannot be told from outside.
 * The price of a bigger table is fewer secret bits: 12 of them at 2^20 regions, 22 at 1024.
 *
 * There are 2^32 STags, and at 10^5 registrations a second they have all been used after 12 hours.
 * So values come back, for as long as the table is there, and these rules make that safe:
 *
 * - A slot's values are in two halves, which take turns. A turn uses three quarters of its half, in
 *   an order drawn anew for every turn; then the other half has its turn. So a value rests for at
 *   least three eighths of the slot's values, and who noted all values of a turn still does not
 *   know which of the last quarter comes next.
 * - A slot that was given up goes to the end of a queue, and the next one is drawn from the older
 *   half of that queue. So a value rests for as many registrations as that, times half of the slots
 *   that are free: at 4096 slots of which 1024 are free 2 * 10^8, which is half an hour at 10^5 a
 *   second.
 * - Whatever its value, an STag is looked at only together with a domain (weft_mem_check()). What a
 *   peer kept of a stream that is over can name memory of its next stream's domain alone.
 * - A slot is free only when no operation holds its region and every worker has been quiescent, so
 *   nothing that is under way meets the value's next life.
 *
 * A reserved region (mem_fast.c) keeps its slot, and takes its values by the same rule.
 */

#include <stdlib.h>

#include <rte_debug.h>

#include "mem_priv.h"
#include "weft_siphash.h"

#define MEM_MAX_INDEX_BITS 20
/* for the order of a turn, and as many again over both halves: 8 in all */
#define MEM_ROUNDS     4
#define MEM_TURN(half) ((half) / 4 * 3) /* values of a half that one turn uses */
#define MEM_ALL_RIGHTS                                                                             \
	(WEFT_MR_LOCAL_WRITE | WEFT_MR_REMOTE_READ | WEFT_MR_REMOTE_WRITE |                        \
	 WEFT_MR_REMOTE_ATOMIC | WEFT_MR_FLUSH_PERSISTENT | WEFT_MR_FLUSH_VISIBLE |                \
	 WEFT_MR_VERIFY | WEFT_MR_BIND)

/* ---- The keyed permutation ---- */

/** A permutation of [0, 2^bits): x in, x out. 2 <= bits <= 32. */
static uint32_t
mem_permute(const uint64_t key[2], uint32_t slot, unsigned int bits, uint32_t x)
{
	const unsigned int lo_bits = bits / 2;
	const uint32_t lo_mask = (1U << lo_bits) - 1, hi_mask = (1U << (bits - lo_bits)) - 1;
	uint32_t lo = x & lo_mask, hi = x >> lo_bits;

	/* Unbalanced for odd widths: each round adds a function of one part to the other. */
	for (unsigned int r = 0; r < MEM_ROUNDS; r++) {
		const uint64_t w[2] = {(uint64_t)slot << 32 | r, r & 1 ? lo : hi};
		const uint32_t f = (uint32_t)weft_siphash(key, w, 2, 2, 4);

		if (r & 1)
			hi ^= f & hi_mask;
		else
			lo ^= f & lo_mask;
	}
	return hi << lo_bits | lo;
}

uint32_t
mem_stag_value(const struct weft_mem *m, uint32_t slot, uint64_t use)
{
	const unsigned int bits = 32 - m->index_bits;
	const uint64_t half = 1ULL << (bits - 1), turn = use / MEM_TURN(half);
	const uint64_t key[2] = {m->key[0] ^ (turn + 1) * 0x9e3779b97f4a7c15ULL, m->key[1]};
	uint64_t x = (turn & 1) * half +
	             mem_permute(key, slot, bits - 1, (uint32_t)(use % MEM_TURN(half)));

	return (uint32_t)((uint64_t)mem_permute(m->key, slot, bits, (uint32_t)x) << m->index_bits) |
	       slot;
}

/* ---- Life of the table ---- */

/** All that weft_mem_create() has allocated, and the table itself. */
static void
mem_table_free(struct weft_mem *m)
{
	free(m->rcu);
	free(m->slot);
	free(m->reserved);
	free(m->uses);
	free(m->recalled);
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
	m->recalled = calloc(n, sizeof(*m->recalled));
	m->free = calloc(n, sizeof(*m->free));
	if (m->rcu == NULL || m->slot == NULL || m->uses == NULL || m->free == NULL ||
	    m->reserved == NULL || m->recalled == NULL ||
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

/** Report a region gone. The caller has unlinked it; nobody can see it any more. */
static void
mem_free(struct weft_mem_mr *mr)
{
	void (*freed)(void *arg) = mr->freed;
	void *arg = mr->freed_arg;

	/* The PD may go away with the callback, so it is told first. */
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
	/* Callbacks may take the lock but no longer register: a region of theirs would be lost. */
	while ((mr = TAILQ_FIRST(&m->waiting)) != NULL) {
		TAILQ_REMOVE(&m->waiting, mr, link);
		m->nwaiting--;
		mem_free(mr);
	}
	RTE_VERIFY(TAILQ_EMPTY(&m->live));
	pthread_mutex_destroy(&m->lock);
	mem_table_free(m);
}

/* ---- Registration ---- */

int
weft_mem_check_attr(const struct weft_mem_attr *a)
{
	const struct weft_persist *p = a->persist;
	uint64_t last = a->len_bytes - 1; /* never used when there is no length */

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
	if ((a->access & WEFT_MR_FLUSH_PERSISTENT) && (p == NULL || !p->ops->persistent))
		return -EOPNOTSUPP;
	if (a->hash == NULL ? a->hash_key_bytes > 0 || a->hash_key != NULL
	                    : weft_hash_check_key(a->hash, a->hash_key, a->hash_key_bytes) != 0)
		return -EINVAL;
	if (a->access & WEFT_MR_VERIFY) {
		if (a->hash == NULL || (p != NULL && p->ops->read_back == NULL))
			return -EOPNOTSUPP;
		if (!weft_mem_verify_may_read(a->access))
			return -EOPNOTSUPP;
		if (weft_medium_hash_prepare(a->hash) != 0)
			return -EOPNOTSUPP;
	}
	return 0;
}

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

static inline uint32_t *
mem_free_slot(struct weft_mem *m, uint32_t i)
{
	return &m->free[(m->free_head + i) & m->index_mask];
}

/** To the end of the queue. Under the lock. */
static void
mem_give_slot(struct weft_mem *m, uint32_t slot)
{
	*mem_free_slot(m, m->nfree++) = slot;
}

bool
mem_take_slot(struct weft_mem *m, uint32_t *slot)
{
	uint32_t at;

	if (m->nfree == 0)
		return false;
	/* The bias of the modulo does not matter here: secrecy is in the permutation. */
	at = weft_rand_u32(&m->rand) % ((m->nfree + 1) / 2);
	*slot = *mem_free_slot(m, at);
	*mem_free_slot(m, at) = *mem_free_slot(m, 0);
	m->free_head++;
	m->nfree--;
	return true;
}

uint32_t
mem_draw(struct weft_mem *m, uint32_t slot)
{
	uint32_t stag;

	do
		stag = mem_stag_value(m, slot,
		                      __atomic_fetch_add(&m->uses[slot], 1, __ATOMIC_RELAXED));
	while (stag == 0);
	/* The value may have been another registration's. */
	if (weft_mem_is_recalled(m, stag))
		__atomic_store_n(&m->recalled[slot], 0, __ATOMIC_RELAXED);
	return stag;
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
	mr->access = attr->access;
	mr->addr = attr->addr;
	mr->len_bytes = attr->len_bytes;
	mr->base_to = attr->base_to;
	mr->pd = pd;
	mr->account = pd;
	mr->kind = WEFT_MEM_REGION;
	mr->bound = attr->bound != NULL ? attr->bound : &mr->own_bound;
	mr->persist = attr->persist;
	mr->persist_off_bytes =
	        attr->persist == NULL ? 0 : (uint64_t)(attr->addr - attr->persist->base);
	mr->hash = attr->hash;
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
	__atomic_store_n(&m->nlive, m->nlive + 1, __ATOMIC_RELAXED);
	if (attr->stag != NULL)
		*attr->stag = mr->stag;
	__atomic_store_n(&m->slot[mr->slot], mr, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&m->lock);
	*out = mr;
	return 0;
}

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

int
weft_mem_close(uint32_t *bound)
{
	uint32_t n = 0;

	/* Narrowing may be under way on another worker: it looks whether it still stands. */
	do {
		if (__atomic_compare_exchange_n(bound, &n, WEFT_MEM_CLOSED, false, __ATOMIC_ACQ_REL,
		                                __ATOMIC_RELAXED))
			return 0;
	} while (n == 0 || n == WEFT_MEM_NARROWING);
	return n == WEFT_MEM_CLOSED ? -EALREADY : -EBUSY;
}

void
weft_mem_invalidate(struct weft_mem *m, struct weft_mem_mr *mr, void (*freed)(void *arg), void *arg)
{
	RTE_ASSERT(m->slot[mr->slot] == mr && mr->kind == WEFT_MEM_REGION);
	__atomic_store_n(&m->slot[mr->slot], NULL, __ATOMIC_RELEASE);
	mem_retire(m, mr, freed, arg);
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
		return 0; /* a poll loop does not wait; it comes back */
	for (mr = TAILQ_FIRST(&m->waiting); mr != NULL; mr = next) {
		next = TAILQ_NEXT(mr, link);
		/* Tokens grow along the list: behind the first that is too young all are. */
		if (rte_rcu_qsbr_check(m->rcu, mr->rcu_token, false) != 1)
			break;
		/* No lookup can yield it any more, so nobody new can take a reference. */
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

int
weft_mem_get(struct weft_mem *m, uint32_t i, struct weft_mem_mr *copy)
{
	struct weft_mem_mr *mr;

	pthread_mutex_lock(&m->lock);
	TAILQ_FOREACH (mr, &m->live, link) {
		if (i-- == 0)
			break;
	}
	if (mr != NULL)
		weft_mem_snapshot(m, mr, copy);
	pthread_mutex_unlock(&m->lock);
	return mr == NULL ? -ENOENT : 0;
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

/* ---- Data path ---- */

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
	/* The window may be gone, and its region given up, while the operation is under way. */
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
	/* Without our reference a window may be filled anew. */
	struct weft_mem_mr *parent = mr->parent;

	if (unlikely(parent != NULL))
		mem_unref_one(parent);
	mem_unref_one(mr);
}
