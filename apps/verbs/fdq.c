/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Queues of events with a descriptor. */

#include "fdq.h"

#include "engine.h"
#include "libc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/eventfd.h>

int
wv_fdq_init(struct wv_fdq *q)
{
	TAILQ_INIT(&q->nodes);
	pthread_mutex_init(&q->lock, NULL);
	sem_init(&q->wake, 0, 0);
	q->sleepers = 0;
	/* Blocking, as the kernel's are: the program may look at the flag. */
	q->fd = eventfd(0, EFD_CLOEXEC);
	return q->fd < 0 ? -errno : 0;
}

void
wv_fdq_fini(struct wv_fdq *q)
{
	if (q->fd >= 0)
		wv_libc.close(q->fd);
	pthread_mutex_destroy(&q->lock);
	sem_destroy(&q->wake);
}

/** Take the lock. read(2) and write(2) under it are points at which a thread may be cancelled. */
static int
fdq_lock(struct wv_fdq *q)
{
	int old;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	pthread_mutex_lock(&q->lock);
	return old;
}

static void
fdq_unlock(struct wv_fdq *q, int old)
{
	pthread_mutex_unlock(&q->lock);
	(void)pthread_setcancelstate(old, NULL);
}

void
wv_fdq_close(struct wv_fdq *q)
{
	int old = fdq_lock(q);

	wv_libc.close(q->fd);
	q->fd = -1;
	fdq_unlock(q, old);
}

/** Under the lock. Each event is an edge for epoll, as a wake-up of the kernel's is. */
static void
fdq_tell(struct wv_fdq *q)
{
	const uint64_t one = 1;

	if (wv_libc.write(q->fd, &one, sizeof(one)) < 0) {
		/* Its counter has room for more events than there can be. */
	}
	if (q->sleepers > 0)
		(void)sem_post(&q->wake);
}

/** Under the lock. */
static void
fdq_append(struct wv_fdq *q, struct wv_fdq_node *n)
{
	TAILQ_INSERT_TAIL(&q->nodes, n, link);
	n->queued = true;
	fdq_tell(q);
}

void
wv_fdq_put(struct wv_fdq *q, struct wv_fdq_node *n)
{
	int old;

	old = fdq_lock(q);
	fdq_append(q, n);
	fdq_unlock(q, old);
}

void
wv_fdq_put_again(struct wv_fdq *q, struct wv_fdq_node *n, uint32_t *more)
{
	int old;

	old = fdq_lock(q);
	if (n->queued) {
		(*more)++;
		fdq_tell(q);
	} else {
		fdq_append(q, n);
	}
	fdq_unlock(q, old);
}

/** Under the lock. */
static void
fdq_remove(struct wv_fdq *q, struct wv_fdq_node *n)
{
	uint64_t drop;

	TAILQ_REMOVE(&q->nodes, n, link);
	n->queued = false;
	if (TAILQ_EMPTY(&q->nodes) && wv_libc.read(q->fd, &drop, sizeof(drop)) < 0) {
		/* Its counter is not 0: it was raised with each node. */
	}
}

static struct wv_fdq_node *
fdq_take(struct wv_fdq *q, wv_fdq_taken_fn *taken)
{
	struct wv_fdq_node *n;
	int old;

	old = fdq_lock(q);
	n = TAILQ_FIRST(&q->nodes);
	if (n != NULL && taken != NULL && taken(n)) {
		/* An event that was told of: no edge. */
		TAILQ_REMOVE(&q->nodes, n, link);
		TAILQ_INSERT_TAIL(&q->nodes, n, link);
	} else if (n != NULL) {
		fdq_remove(q, n);
	}
	fdq_unlock(q, old);
	return n;
}

struct wv_fdq_node *
wv_fdq_take(struct wv_fdq *q)
{
	return fdq_take(q, NULL);
}

bool
wv_fdq_drop(struct wv_fdq *q, struct wv_fdq_node *n)
{
	bool was;
	int old;

	old = fdq_lock(q);
	was = n->queued;
	if (was)
		fdq_remove(q, n);
	fdq_unlock(q, old);
	return was;
}

bool
wv_fdq_has(struct wv_fdq *q, const struct wv_fdq_node *n)
{
	bool has;
	int old;

	old = fdq_lock(q);
	has = n->queued;
	fdq_unlock(q, old);
	return has;
}

bool
wv_fdq_has_sleeper(struct wv_fdq *q)
{
	bool has;
	int old;

	old = fdq_lock(q);
	has = q->sleepers > 0;
	fdq_unlock(q, old);
	return has;
}

struct wv_fdq_node *
wv_fdq_find(struct wv_fdq *q, bool (*match)(const struct wv_fdq_node *n, const void *arg),
            const void *arg)
{
	struct wv_fdq_node *n;
	int old;

	old = fdq_lock(q);
	TAILQ_FOREACH (n, &q->nodes, link)
		if (match(n, arg)) {
			fdq_remove(q, n);
			break;
		}
	fdq_unlock(q, old);
	return n;
}

static void
fdq_slept(void *arg)
{
	struct wv_fdq *q = arg;
	int old = fdq_lock(q);

	q->sleepers--;
	/* This thread may have been woken and cancelled, or interrupted. */
	if (q->sleepers > 0 && !TAILQ_EMPTY(&q->nodes))
		(void)sem_post(&q->wake);
	fdq_unlock(q, old);
}

/**
 * poll(2) of the descriptor would end with EINTR in spite of SA_RESTART, and read(2) would take
 * what tells the program's own poll(2): sem_wait(3) does neither.
 */
int
wv_fdq_sleep(struct wv_fdq *q)
{
	bool empty;
	int rc, old;

	if (wv_spin_readable(q->fd))
		return 0;
	old = fdq_lock(q);
	empty = TAILQ_EMPTY(&q->nodes);
	if (empty && q->sleepers++ == 0)
		while (sem_trywait(&q->wake) == 0)
			; /* of sleepers before */
	fdq_unlock(q, old);
	if (!empty)
		return 0;
	pthread_cleanup_push(fdq_slept, q);
	rc = sem_wait(&q->wake) < 0 ? -errno : 0;
	pthread_cleanup_pop(1);
	return rc;
}

int
wv_fdq_wait(struct wv_fdq *q, wv_fdq_taken_fn *taken, struct wv_fdq_node **out)
{
	int flags, rc;

	/* Its nodes are copies, and the counter of its descriptor is the parent's. */
	if (wv_engine_orphan())
		return -EPERM;
	for (;;) {
		*out = fdq_take(q, taken);
		if (*out != NULL)
			return 0;
		flags = fcntl(q->fd, F_GETFL);
		if (flags >= 0 && (flags & O_NONBLOCK) != 0) {
			wv_progress();
			*out = fdq_take(q, taken);
			return *out != NULL ? 0 : -EAGAIN;
		}
		rc = wv_fdq_sleep(q);
		if (rc < 0)
			return rc;
	}
}
