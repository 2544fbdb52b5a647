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

#include "weft_base.h"
#include <weft/exec.h>
#include "weft_handle.h"

#define EXEC_DEPTH       1024
#define EXEC_MAX_THREADS 64

/* Bits of an executor's gate. No other kind of handle uses them. */
#define EXEC_OPEN    0x40000000u /**< the executor accepts jobs */
#define EXEC_THREADS 0x20000000u /**< helper threads run the jobs */

struct weft_exec {
	struct weft_handle h;
	/* used by the worker's thread alone */
	struct rte_ring *down;
	unsigned int pending; /**< jobs submitted whose done() has not run */
	int64_t owed;         /**< stacks taken minus eventfd writes read */
	int fd;
	unsigned int nthreads;

	/* shared with the helpers */
	sem_t work __rte_cache_aligned;
	struct weft_job *_Atomic up __rte_cache_aligned; /**< finished jobs, newest first */
	pthread_t thread[];
};

/** The CPU set of the program at its start. EAL pins the polling thread to one CPU later, and a
 * helper thread must not inherit that. */
static cpu_set_t exec_cpus;
static bool exec_cpus_known;

static void __attribute__((constructor)) exec_note_cpus(void)
{
	exec_cpus_known = sched_getaffinity(0, sizeof(exec_cpus), &exec_cpus) == 0;
}

static void
exec_finished(struct weft_exec *e, struct weft_job *j)
{
	struct weft_job *head = atomic_load_explicit(&e->up, memory_order_relaxed);

	do {
		j->next = head;
	} while (!atomic_compare_exchange_weak_explicit(&e->up, &head, j, memory_order_release,
	                                                memory_order_relaxed));
	/* j belongs to the worker from here on. head is compared only, not dereferenced. */
	if (head == NULL) {
		ssize_t n;

		do {
			n = eventfd_write(e->fd, 1);
		} while (n < 0 && errno == EINTR);
	}
}

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
	pthread_attr_t attr;
	sigset_t old;
	int r = 0;

	if (pthread_attr_init(&attr) != 0)
		return -ENOMEM;
	if (exec_cpus_known)
		pthread_attr_setaffinity_np(&attr, sizeof(exec_cpus), &exec_cpus);
	weft_block_signals(&old);
	while (e->nthreads < threads && r == 0) {
		r = pthread_create(&e->thread[e->nthreads], &attr, exec_main, e);
		if (r == EINVAL && exec_cpus_known) {
			/* The CPU set has shrunk since the program started: do not set it. */
			exec_cpus_known = false;
			pthread_attr_destroy(&attr);
			pthread_attr_init(&attr);
			r = 0;
			continue;
		}
		if (r == 0)
			pthread_setname_np(e->thread[e->nthreads++], "weft-exec");
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -r;
}

/** Stop and join the helpers. done() of finished jobs has not run yet. */
static void
exec_stop(struct weft_exec *e)
{
	atomic_fetch_and_explicit(WEFT_ATOMIC_REF(e->h.gate), ~EXEC_OPEN, memory_order_release);
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

int
weft_exec_create(unsigned int threads, struct weft_exec **out)
{
	struct weft_exec *e;
	ssize_t ring_bytes = rte_ring_get_memsize(EXEC_DEPTH * 2);
	int r;

	if (threads > EXEC_MAX_THREADS || out == NULL)
		return -EINVAL;
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
	e->h.gate = EXEC_OPEN | (threads > 0 ? EXEC_THREADS : 0);
	if (threads > 0) {
		e->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		r = e->fd < 0 ? -errno : exec_start(e, threads);
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
	if (e->nthreads > 0)
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
	if (e->nthreads > 0)
		sem_post(&e->work);
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
