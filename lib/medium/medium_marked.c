/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Marking by address: media whose dirty pages are to be marked. Used for stores of this
 * process to local memory, where the consumer's buffer is known, but not the region that it may
 * belong to.
 *
 * Nearly all such memory belongs to no medium. Two words hold the span of all these media. They
 * change when a medium is opened or closed. Only for an address inside the span the list is
 * searched. A polling thread takes no lock for this (medium_walk.h). The mutex is for threads that
 * open and close media.
 */

#include <pthread.h>
#include <stdlib.h>

#include "medium_priv.h"
#include "medium_walk.h"

/** One open medium. */
struct medium_marked {
	struct medium_link link; /**< first member */
	struct weft_persist *p;
};

/* On a cache line of its own, because every Send reads it. */
struct weft_medium_span weft_medium_marked __rte_cache_aligned = {UINTPTR_MAX, 0};

static struct medium_list marked_list;
static pthread_mutex_t marked_lock = PTHREAD_MUTEX_INITIALIZER;

static struct weft_persist *
marked_of(struct medium_link *link)
{
	return ((struct medium_marked *)link)->p;
}

/**
 * Compute the span. A medium that stays open is inside the old span and the new one, so it is also
 * inside what is seen between the two stores.
 */
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
weft_persist_mark(struct weft_persist *p, uint64_t off_bytes, uint64_t len_bytes)
{
	weft_medium_mark(p, off_bytes, len_bytes);
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
			weft_medium_mark(p, a - base, b - a);
	}
	medium_walk_end(&marked_list);
}
