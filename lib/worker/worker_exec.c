/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The executor of one worker: helper threads run jobs that would block.
 *
 * Submission: the worker enqueues a job in a ring, of which it is the only producer, and posts a
 * semaphore to wake a helper. The worker never waits.
 *
 * Completion: helpers push finished jobs to a stack. The worker takes the whole stack in one
 * exchange. The helper that makes the stack non-empty writes to the eventfd. This wakes a worker
 * that sleeps, and costs a worker that polls one load per poll. Each stack taken stands for one
 * write, so the worker knows how many writes it has still to read from the eventfd.
 *
 * Helpers on demand: the worker counts its jobs, and asks the spawner (worker_spawn.c) when there
 * are fewer threads than jobs. A thread that is told to end counts itself out first and then looks
 * for a job once more; the worker submits first and then looks at the count. So either the thread
 * finds the job, or the worker finds that a thread is missing.
 */

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_ring.h>

#include "worker_exec.h"

#define EXEC_DEPTH       1024
#define EXEC_MAX_THREADS 64

static void *
exec_main(void *arg)
{
	struct weft_exec *e = arg;
	void *j;

	for (;;) {
		while (sem_wait(&e->work) != 0)
			; /* EINTR */
		if ((atomic_load_explicit(WEFT_ATOMIC_REF(e->h.gate), memory_order_acquire) &
		     EXEC_OPEN) == 0)
			return NULL;
		/* The worker posts once per job, so the ring is not empty here. */
		if (rte_ring_dequeue(e->down, &j) != 0)
			continue;
		((struct weft_job *)j)->run(j);
		exec_finished(e, j);
	}
}

static int
exec_start(struct weft_exec *e, unsigned int threads)
{
	int r = 0;

	while (e->nthreads < threads && r == 0) {
		r = exec_thread(&e->thread[e->nthreads], "weft-exec", true, exec_main, e);
		e->nthreads += r == 0;
	}
	return r;
}

/** Stop and join the helpers. done() of finished jobs has not run yet. */
static void
exec_stop(struct weft_exec *e)
{
	atomic_fetch_and_explicit(WEFT_ATOMIC_REF(e->h.gate), ~EXEC_OPEN, memory_order_release);
	if (e->most > 0)
		exec_spawn_end(e);
	for (unsigned int i = 0; i < e->nthreads; i++)
		sem_post(&e->work);
	for (unsigned int i = 0; i < e->nthreads; i++)
		pthread_join(e->thread[i], NULL);
}

static void
exec_free(struct weft_exec *e)
{
	if (e->fd >= 0)
		close(e->fd);
	sem_destroy(&e->work);
	free(e->down);
	weft_handle_free(&e->h, sizeof(e->h));
}

/** `threads` that begin now, or up to `most` on demand. */
static int
exec_create(unsigned int threads, unsigned int most, struct weft_exec **out)
{
	struct weft_exec *e;
	ssize_t ring_bytes = rte_ring_get_memsize(EXEC_DEPTH * 2);
	int r;

	if (posix_memalign((void **)&e, RTE_CACHE_LINE_SIZE,
	                   sizeof(*e) + threads * sizeof(e->thread[0])) != 0)
		return -ENOMEM;
	memset(e, 0, sizeof(*e) + threads * sizeof(e->thread[0]));
	e->fd = -1;
	if (ring_bytes < 0 ||
	    posix_memalign((void **)&e->down, RTE_CACHE_LINE_SIZE, (size_t)ring_bytes) != 0) {
		free(e);
		return -ENOMEM;
	}
	/* Relaxed tail sync on the consumer side: a helper that is preempted must not make the
	 * others spin. */
	rte_ring_init(e->down, "weft_exec", EXEC_DEPTH * 2, RING_F_SP_ENQ | RING_F_MC_RTS_DEQ);
	sem_init(&e->work, 0, 0);
	e->h.gate = EXEC_OPEN | (threads + most > 0 ? EXEC_THREADS : 0);
	if (threads + most > 0) {
		e->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		r = e->fd < 0 ? -errno : exec_start(e, threads);
		if (r == 0 && most > 0)
			r = exec_spawn_begin(e, most);
		if (r != 0) {
			exec_stop(e);
			exec_free(e);
			return r == -EMFILE || r == -ENFILE ? -EAGAIN : r;
		}
	}
	weft_handle_init(&e->h, WEFT_KIND(EXEC));
	*out = e;
	return 0;
}

int
weft_exec_create(unsigned int threads, struct weft_exec **out)
{
	return threads > EXEC_MAX_THREADS || out == NULL ? -EINVAL : exec_create(threads, 0, out);
}

int
weft_exec_create_on_demand(unsigned int most, struct weft_exec **out)
{
	return most == 0 || most > EXEC_MAX_THREADS || out == NULL ? -EINVAL
	                                                           : exec_create(0, most, out);
}

void
weft_exec_destroy(struct weft_exec *e)
{
	if (e == NULL || WEFT_HANDLE_BAD(e, EXEC))
		return;
	/* A done() that runs below may call this function again. */
	if ((atomic_load_explicit(WEFT_ATOMIC_REF(e->h.gate), memory_order_relaxed) & EXEC_OPEN) ==
	    0) {
		(void)weft_handle_refused(&e->h, WEFT_KIND(EXEC), __func__);
		return;
	}
	exec_stop(e);
	/* The jobs that were running have finished: call their done(). */
	if (e->fd >= 0)
		weft_exec_poll(e);
	weft_handle_end(&e->h, WEFT_KIND(EXEC));
	exec_free(e);
}

/** Why a job is refused: -EINVAL or -EAGAIN. */
static int
exec_refused(struct weft_exec *e, const struct weft_job *j)
{
	return WEFT_HANDLE_BAD(e, EXEC) || j == NULL ? -EINVAL : -EAGAIN;
}

int
weft_exec_submit(struct weft_exec *e, struct weft_job *j)
{
	if (unlikely(e == NULL || j == NULL ||
	             (atomic_load_explicit(WEFT_ATOMIC_REF(e->h.gate), memory_order_relaxed) &
	              EXEC_OPEN) == 0 ||
	             e->pending >= EXEC_DEPTH))
		return exec_refused(e, j);
	/* Does not fail: the ring has more room than EXEC_DEPTH. */
	if (rte_ring_enqueue(e->down, j) != 0)
		return -EAGAIN;
	e->pending++;
	if (e->fd >= 0)
		sem_post(&e->work);
	if (e->most > 0)
		exec_spawn_ask(e);
	return 0;
}

/** Poll an executor without helpers: run one job here. Returns 0 for a handle that is not valid. */
static unsigned int
exec_run_one(struct weft_exec *e)
{
	struct weft_job *j;
	void *obj;

	if (WEFT_HANDLE_BAD(e, EXEC) || e->pending == 0 || rte_ring_dequeue(e->down, &obj) != 0)
		return 0;
	j = obj;
	j->run(j);
	e->pending--;
	j->done(j);
	return 1;
}

unsigned int
weft_exec_poll(struct weft_exec *e)
{
	struct weft_job *j, *next, *first = NULL;
	unsigned int n = 0;
	eventfd_t v;

	/* Read the gate instead of the number of threads: it also tells a destroyed handle. */
	if (e == NULL || (atomic_load_explicit(WEFT_ATOMIC_REF(e->h.gate), memory_order_relaxed) &
	                  (EXEC_THREADS | WEFT_GATE_GONE)) != EXEC_THREADS)
		return exec_run_one(e);

	/*
	 * Read the eventfd first, then take the stack. A job pushed in between is taken now. A job
	 * pushed later finds the stack empty, so its helper writes again. A helper may be preempted
	 * between its push and its write. Then a later poll reads that write, and a worker that
	 * sleeps is woken once without need.
	 */
	if (e->owed == 0 && atomic_load_explicit(&e->up, memory_order_relaxed) == NULL)
		return 0;
	if (eventfd_read(e->fd, &v) == 0)
		e->owed -= (int64_t)v;
	j = atomic_exchange_explicit(&e->up, NULL, memory_order_acquire);
	if (j != NULL)
		e->owed++;
	for (; j != NULL; j = next) { /* oldest first */
		next = j->next;
		j->next = first;
		first = j;
	}
	for (j = first; j != NULL; j = next) {
		next = j->next; /* done() may free or submit the job again */
		e->pending--;
		j->done(j);
		n++;
	}
	return n;
}

unsigned int
weft_exec_pending(const struct weft_exec *e)
{
	return WEFT_HANDLE_BAD(e, EXEC) ? 0 : e->pending;
}

int
weft_exec_fd(const struct weft_exec *e)
{
	return WEFT_HANDLE_BAD(e, EXEC) ? -1 : e->fd;
}
