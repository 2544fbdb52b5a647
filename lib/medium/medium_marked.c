/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Media that want their dirty pages marked, by address: for stores of ours to local memory, where
 * the consumer's buffer is known and not the region that it may lie in.
 *
 * Nearly all such memory lies in none. What spans all these media is two words that change when one
 * is opened or closed; only for an address in between is the list looked at. A polling thread takes
 * no lock for that (medium_walk.h); the mutex is for the threads that open and close media.
 */

#include <pthread.h>
#include <stdlib.h>

#include "medium_priv.h"
#include "medium_walk.h"

/** One open medium. */
struct medium_marked {
	struct medium_link link; /**< first */
	struct weft_persist *p;
};

/* On a line of its own: every Send looks at it. */
struct weft_medium_span weft_medium_marked __rte_cache_aligned = {UINTPTR_MAX, 0};

static struct medium_list marked_list;
static pthread_mutex_t marked_lock = PTHREAD_MUTEX_INITIALIZER;

static struct weft_persist *
marked_of(struct medium_link *link)
{
	return ((struct medium_marked *)link)->p;
}

/** A medium that stays open is inside of the old span and of the new one, so also of what is seen
 * between the two stores. */
static void
marked_span(void)
{
	uintptr_t from = UINTPTR_MAX, to = 0;

	for (struct medium_link *l = medium_first(&marked_list); l != NULL; l = medium_next(l)) {
		const struct weft_persist *p = marked_of(l);

		from = RTE_MIN(from, (uintptr_t)p->base);
		to = RTE_MAX(to, (uintptr_t)p->base + p->bytes);
	}
	atomic_store_explicit(&weft_medium_marked.from, from, memory_order_release);
	atomic_store_explicit(&weft_medium_marked.to, to, memory_order_release);
}

int
medium_marked_add(struct weft_persist *p)
{
	struct medium_marked *k;

	if (p->dirty == NULL)
		return 0;
	k = calloc(1, sizeof(*k));
	if (k == NULL)
		return -ENOMEM;
	k->p = p;
	p->marked = k;
	pthread_mutex_lock(&marked_lock);
	medium_link_add(&marked_list, &k->link);
	marked_span();
	pthread_mutex_unlock(&marked_lock);
	return 0;
}

void
medium_marked_del(struct weft_persist *p)
{
	struct medium_marked *k = p->marked;

	if (k == NULL)
		return;
	pthread_mutex_lock(&marked_lock);
	medium_link_del(&marked_list, &k->link);
	marked_span();
	pthread_mutex_unlock(&marked_lock);
	p->marked = NULL;
	free(k);
}

void
weft_medium_mark_slow(const void *addr, uint64_t len_bytes)
{
	uintptr_t from = (uintptr_t)addr, to = from + len_bytes;

	medium_walk_begin(&marked_list);
	for (struct medium_link *l = medium_first(&marked_list); l != NULL; l = medium_next(l)) {
		struct weft_persist *p = marked_of(l);
		uintptr_t base = (uintptr_t)p->base, a = RTE_MAX(from, base),
		          b = RTE_MIN(to, base + p->bytes);

		if (a < b)
			weft_persist_mark(p, a - base, b - a);
	}
	medium_walk_end(&marked_list);
}
