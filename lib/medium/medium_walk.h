/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MEDIUM_WALK_H
#define MEDIUM_WALK_H

/**
 * @file
 * A list of open media that polling threads and signal handlers walk without a lock, while a set-up
 * thread opens and closes media.
 *
 * A walker counts itself in `walkers` first. A link that has been taken out is given back only when
 * that count has been seen at 0. Both are sequentially consistent: either the walker finds the link
 * gone, or the remover sees the walker. So only the set-up thread ever waits.
 */

#include <sched.h>
#include <stdatomic.h>

/** Embedded first in what is listed. */
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

/** NULL: the list is empty. Between begin and end, as medium_next() is. */
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

/** Changes exclude each other: the caller has a lock for them. */
static inline void
medium_link_add(struct medium_list *l, struct medium_link *link)
{
	atomic_store_explicit(&link->next, medium_first(l), memory_order_relaxed);
	atomic_store_explicit(&l->first, link, memory_order_seq_cst);
}

/** Take it out, and wait until no walker can stand on it. Under the same lock. */
static inline void
medium_link_del(struct medium_list *l, struct medium_link *link)
{
	struct medium_link *_Atomic *at = &l->first;

	while (atomic_load_explicit(at, memory_order_relaxed) != link)
		at = &atomic_load_explicit(at, memory_order_relaxed)->next;
	/* Its own link stays as it is: a walker may stand on it. */
	atomic_store_explicit(at, medium_next(link), memory_order_seq_cst);
	while (atomic_load_explicit(&l->walkers, memory_order_seq_cst) != 0)
		sched_yield();
}

#endif /* MEDIUM_WALK_H */
