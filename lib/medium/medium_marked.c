/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Media that want their dirty pages marked, by address: for stores of ours to local memory, where
 * the consumer's buffer is known and not the region that it may lie in.
 *
 * Nearly all such memory lies in none. What spans all these media is two words that change when one
 * is opened or closed; only for an address in between is the list looked at.
 */

#include <pthread.h>

#include "medium_priv.h"

/* On a line of its own: every Send looks at it. */
struct weft_medium_span weft_medium_marked __rte_cache_aligned = {UINTPTR_MAX, 0};

static pthread_rwlock_t marked_lock = PTHREAD_RWLOCK_INITIALIZER;
static TAILQ_HEAD(, weft_persist) marked_list = TAILQ_HEAD_INITIALIZER(marked_list);

/** Whatever medium stays is inside of the old span and of the new one, so also of what is seen
 * between both stores. */
static void
marked_span(void)
{
	uintptr_t from = UINTPTR_MAX, to = 0;
	const struct weft_persist *p;

	TAILQ_FOREACH (p, &marked_list, marked) {
		from = RTE_MIN(from, (uintptr_t)p->base);
		to = RTE_MAX(to, (uintptr_t)p->base + p->bytes);
	}
	__atomic_store_n(&weft_medium_marked.from, from, __ATOMIC_RELEASE);
	__atomic_store_n(&weft_medium_marked.to, to, __ATOMIC_RELEASE);
}

void
medium_marked_add(struct weft_persist *p)
{
	if (p->dirty == NULL)
		return;
	pthread_rwlock_wrlock(&marked_lock);
	TAILQ_INSERT_TAIL(&marked_list, p, marked);
	marked_span();
	pthread_rwlock_unlock(&marked_lock);
}

void
medium_marked_del(struct weft_persist *p)
{
	if (p->dirty == NULL)
		return;
	pthread_rwlock_wrlock(&marked_lock);
	TAILQ_REMOVE(&marked_list, p, marked);
	marked_span();
	pthread_rwlock_unlock(&marked_lock);
}

void
weft_medium_mark_slow(const void *addr, uint64_t len_bytes)
{
	uintptr_t from = (uintptr_t)addr, to = from + len_bytes;
	struct weft_persist *p;

	pthread_rwlock_rdlock(&marked_lock);
	TAILQ_FOREACH (p, &marked_list, marked) {
		uintptr_t base = (uintptr_t)p->base, a = RTE_MAX(from, base),
		          b = RTE_MIN(to, base + p->bytes);

		if (a < b)
			weft_persist_mark(p, a - base, b - a);
	}
	pthread_rwlock_unlock(&marked_lock);
}
