/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_LINE_LOCK_H
#define WEFT_LINE_LOCK_H

/**
 * @file A fair lock: threads get it in the order in which they asked for it.
 *
 * A plain mutex is not fair. A helper thread with one job after another unlocks it and locks it
 * again before the thread that it woke runs. Helpers of another worker, with jobs of other clients,
 * would wait until the first one has no more jobs. The lock is for threads that may sleep, a few at
 * a time.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct weft_line_lock {
	pthread_mutex_t m;
	pthread_cond_t moved;
	/** protected by m: the next ticket to give, and the ticket that holds the lock */
	uint64_t next, serving;
};

static inline void
weft_line_lock_init(struct weft_line_lock *l)
{
	pthread_mutex_init(&l->m, NULL);
	pthread_cond_init(&l->moved, NULL);
	l->next = l->serving = 0;
}

/** Destroy the lock. No thread may hold it or wait for it. */
static inline void
weft_line_lock_fini(struct weft_line_lock *l)
{
	pthread_cond_destroy(&l->moved);
	pthread_mutex_destroy(&l->m);
}

static inline void
weft_line_lock(struct weft_line_lock *l)
{
	pthread_mutex_lock(&l->m);
	for (uint64_t mine = l->next++; mine != l->serving;)
		pthread_cond_wait(&l->moved, &l->m);
	pthread_mutex_unlock(&l->m);
}

/** Take the lock if it is free. False: a thread holds it or waits for it. */
static inline bool
weft_line_trylock(struct weft_line_lock *l)
{
	bool got;

	pthread_mutex_lock(&l->m);
	got = l->next == l->serving;
	l->next += got;
	pthread_mutex_unlock(&l->m);
	return got;
}

static inline void
weft_line_unlock(struct weft_line_lock *l)
{
	pthread_mutex_lock(&l->m);
	if (++l->serving != l->next)
		pthread_cond_broadcast(&l->moved);
	pthread_mutex_unlock(&l->m);
}

#endif /* WEFT_LINE_LOCK_H */
