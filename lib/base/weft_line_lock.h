/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_LINE_LOCK_H
#define WEFT_LINE_LOCK_H

/**
 * @file A lock that threads get in the order in which they asked for it. A helper thread that has
 * one job after the other gives a mutex back and has it again before the thread that it woke is
 * running: helpers of another worker, with other clients' jobs, would wait for as long as that goes
 * on. For threads that may sleep; few wait at a time.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct weft_line_lock {
	pthread_mutex_t m;
	pthread_cond_t moved;
	/** under m: the ticket that is given next, and the one that has the lock */
	uint64_t next, serving;
};

static inline void
weft_line_lock_init(struct weft_line_lock *l)
{
	pthread_mutex_init(&l->m, NULL);
	pthread_cond_init(&l->moved, NULL);
	l->next = l->serving = 0;
}

/** Nobody has it or waits for it. */
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

/** False: somebody has it, or waits for it. */
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
