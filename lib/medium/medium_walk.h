/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MEDIUM_WALK_H
#define MEDIUM_WALK_H

/**
 * @file A list of open media. Polling threads and signal handlers walk it without a lock, while a
 * set-up thread opens and closes media.
 *
 * A walker first counts itself in `walkers`. A removed link may be freed only after this count was
 * seen at 0. Both are sequentially consistent: either the walker finds the link removed, or the
 * remover sees the walker. So only the set-up thread ever waits.
 */

#include <sched.h>
#include <stdatomic.h>

/** First member of a list entry. */
struct medium_link {
	struct medium_link *_Atomic next;
};

struct medium_list {
	struct medium_link *_Atomic first;
	atomic_uint walkers;
};

static inline void
medium_walk_begin(struct medium_list *l)
{
	atomic_fetch_add_explicit(&l->walkers, 1, memory_order_seq_cst);
}

static inline void
medium_walk_end(struct medium_list *l)
{
	atomic_fetch_sub_explicit(&l->walkers, 1, memory_order_seq_cst);
}

/** NULL: the list is empty. Called between begin and end, like medium_next(). */
static inline struct medium_link *
medium_first(struct medium_list *l)
{
	return atomic_load_explicit(&l->first, memory_order_seq_cst);
}

static inline struct medium_link *
medium_next(struct medium_link *link)
{
	return atomic_load_explicit(&link->next, memory_order_seq_cst);
}

/** The caller holds a lock that excludes other changes. */
static inline void
medium_link_add(struct medium_list *l, struct medium_link *link)
{
	atomic_store_explicit(&link->next, medium_first(l), memory_order_relaxed);
	atomic_store_explicit(&l->first, link, memory_order_seq_cst);
}

/** Remove a link, and wait until no walker can be at it. Under the same lock. */
static inline void
medium_link_del(struct medium_list *l, struct medium_link *link)
{
	struct medium_link *_Atomic *at = &l->first;

	while (atomic_load_explicit(at, memory_order_relaxed) != link)
		at = &atomic_load_explicit(at, memory_order_relaxed)->next;
	/* The link's own pointer stays unchanged, because a walker may be at it. */
	atomic_store_explicit(at, medium_next(link), memory_order_seq_cst);
	while (atomic_load_explicit(&l->walkers, memory_order_seq_cst) != 0)
		sched_yield();
}

#endif /* MEDIUM_WALK_H */
