/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Helper threads on demand, and the spawner: one thread of the program that begins them for
 * all executors that ask, and tells those without jobs to end. Its lock is taken by the spawner, by
 * helpers that end, and when an executor begins or ends, never by a worker with a job.
 */

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "worker_exec.h"

#define SPAWN_LOOK_MS 5000 /* between two looks for threads without jobs */

TAILQ_HEAD(spawn_execs, weft_exec);

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;         /**< a thread has ended, or the spawner has */
	int fd;                         /**< tells of an ask; -1: there is no spawner yet */
	struct weft_exec *_Atomic asks; /**< newest first */
	/* under the lock */
	struct spawn_execs execs;
	unsigned int alive; /**< threads of all executors */
	bool forks;         /**< a fork is prepared for */
} spawner = {.lock = PTHREAD_MUTEX_INITIALIZER,
             .changed = PTHREAD_COND_INITIALIZER,
             .fd = -1,
             .execs = TAILQ_HEAD_INITIALIZER(spawner.execs)};

static bool
spawn_is_open(struct weft_exec *e)
{
	return (atomic_load_explicit(WEFT_ATOMIC_REF(e->h.gate), memory_order_acquire) &
	        EXEC_OPEN) != 0;
}

/** Any thread; the executor is not among the asks. True: there were none. */
static bool
spawn_push(struct weft_exec *e)
{
	struct weft_exec *head = atomic_load_explicit(&spawner.asks, memory_order_relaxed);

	do {
		e->ask_next = head;
	} while (!atomic_compare_exchange_weak_explicit(
	        &spawner.asks, &head, e, memory_order_release, memory_order_relaxed));
	return head == NULL;
}

/** Under the lock, so that there is one taker: the executor that has asked last. NULL: none. */
static struct weft_exec *
spawn_pop(void)
{
	struct weft_exec *head = atomic_load_explicit(&spawner.asks, memory_order_acquire);

	while (head != NULL &&
	       !atomic_compare_exchange_weak_explicit(&spawner.asks, &head, head->ask_next,
	                                              memory_order_acquire, memory_order_acquire))
		;
	return head;
}

static void
spawn_ask(struct weft_exec *e)
{
	if (!atomic_exchange_explicit(&e->asked, true, memory_order_seq_cst) && spawn_push(e))
		(void)eventfd_write(spawner.fd, 1);
}

/** The next job, for a thread that was woken. False: it is to end. */
static bool
spawn_next(struct weft_exec *e, void **j)
{
	if (!spawn_is_open(e))
		return false;
	if (rte_ring_dequeue(e->down, j) == 0)
		return true;
	/* It was told to end, or another thread was quicker. See the head of worker_exec.c. */
	atomic_fetch_sub_explicit(&e->running, 1, memory_order_seq_cst);
	atomic_thread_fence(memory_order_seq_cst);
	if (rte_ring_dequeue(e->down, j) != 0)
		return false;
	atomic_fetch_add_explicit(&e->running, 1, memory_order_relaxed);
	return true;
}

static void *
spawn_helper(void *arg)
{
	struct weft_exec *e = arg;
	void *j;

	pthread_setname_np(pthread_self(), "weft-exec");
	for (;;) {
		while (sem_wait(&e->work) != 0)
			; /* EINTR */
		if (!spawn_next(e, &j))
			break;
		((struct weft_job *)j)->run(j);
		exec_finished(e, j);
	}
	pthread_mutex_lock(&spawner.lock);
	e->alive--;
	spawner.alive--;
	/* An ask that came while this one was still counted has found no room for another one. An
	 * executor whose gate is open here takes its asks back when it ends, under the lock. */
	if (spawn_is_open(e) && rte_ring_count(e->down) > 0)
		spawn_ask(e);
	pthread_cond_broadcast(&spawner.changed);
	pthread_mutex_unlock(&spawner.lock);
	return NULL;
}

/** Under the lock, which is free meanwhile: run the jobs here, as no thread can be had. */
static void
spawn_serve(struct weft_exec *e)
{
	void *j;

	e->serving = true;
	pthread_mutex_unlock(&spawner.lock);
	while (spawn_is_open(e) && sem_trywait(&e->work) == 0)
		if (rte_ring_dequeue(e->down, &j) == 0) {
			((struct weft_job *)j)->run(j);
			exec_finished(e, j);
		}
	pthread_mutex_lock(&spawner.lock);
	e->serving = false;
	pthread_cond_broadcast(&spawner.changed);
}

/** Under the lock: as many threads as there are jobs, at most so many as it may have. */
static void
spawn_for(struct weft_exec *e)
{
	pthread_t thread;

	while (e->alive < e->most && atomic_load_explicit(&e->running, memory_order_relaxed) <
	                                     atomic_load_explicit(&e->jobs, memory_order_relaxed)) {
		atomic_fetch_add_explicit(&e->running, 1, memory_order_relaxed);
		e->alive++;
		spawner.alive++;
		if (exec_thread(&thread, NULL, false, spawn_helper, e) == 0)
			continue;
		atomic_fetch_sub_explicit(&e->running, 1, memory_order_seq_cst);
		e->alive--;
		spawner.alive--;
		break;
	}
	if (e->alive == 0)
		spawn_serve(e);
}

/** Under the lock: tell threads of executors without a new job since the last look to end. */
static void
spawn_look(void)
{
	struct weft_exec *e;

	TAILQ_FOREACH (e, &spawner.execs, link) {
		const unsigned int now = atomic_load_explicit(&e->submits, memory_order_relaxed);

		if (now != e->seen)
			e->ending = false;
		else if (!e->ending && e->alive > 0) {
			e->ending = true;
			for (unsigned int i = 0; i < e->alive; i++)
				sem_post(&e->work);
		}
		e->seen = now;
	}
}

static void *
spawn_main(void *arg)
{
	struct pollfd p = {.fd = spawner.fd, .events = POLLIN};
	struct weft_exec *e;
	eventfd_t v;
	int wait_ms = -1;

	(void)arg;
	pthread_setname_np(pthread_self(), "weft-spawn");
	for (;;) {
		const int n = poll(&p, 1, wait_ms);

		(void)eventfd_read(spawner.fd, &v);
		pthread_mutex_lock(&spawner.lock);
		if (n == 0)
			spawn_look();
		/* One at a time: the lock may be free while it is served, and others may end. */
		while ((e = spawn_pop()) != NULL) {
			/* Cleared before the jobs are counted: a job behind that asks again. */
			atomic_store_explicit(&e->asked, false, memory_order_seq_cst);
			atomic_thread_fence(memory_order_seq_cst);
			spawn_for(e);
		}
		wait_ms = spawner.alive > 0 ? SPAWN_LOOK_MS : -1;
		pthread_mutex_unlock(&spawner.lock);
	}
	return NULL;
}

static void
spawn_fork(void)
{
	pthread_mutex_lock(&spawner.lock);
}

static void
spawn_forked(void)
{
	pthread_mutex_unlock(&spawner.lock);
}

/** In the child none of the threads is there. The next executor begins a spawner of its own, and
 * those of the parent can be destroyed. */
static void
spawn_in_child(void)
{
	struct weft_exec *e;

	TAILQ_FOREACH (e, &spawner.execs, link) {
		e->alive = 0;
		e->serving = false;
		atomic_store_explicit(&e->running, 0, memory_order_relaxed);
		atomic_store_explicit(&e->asked, false, memory_order_relaxed);
	}
	spawner.alive = 0;
	atomic_store_explicit(&spawner.asks, NULL, memory_order_relaxed);
	if (spawner.fd >= 0)
		close(spawner.fd);
	spawner.fd = -1;
	pthread_cond_init(&spawner.changed, NULL);
	pthread_mutex_init(&spawner.lock, NULL);
}

/** Under the lock: begin the spawner, which never ends. */
static int
spawn_start(void)
{
	pthread_t thread;
	int r;

	if (spawner.fd >= 0)
		return 0;
	if (!spawner.forks && pthread_atfork(spawn_fork, spawn_forked, spawn_in_child) != 0)
		return -ENOMEM;
	spawner.forks = true;
	spawner.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (spawner.fd < 0)
		return -errno;
	r = exec_thread(&thread, NULL, false, spawn_main, NULL);
	if (r == 0)
		return 0;
	close(spawner.fd);
	spawner.fd = -1;
	return r;
}

int
exec_spawn_begin(struct weft_exec *e, unsigned int most)
{
	int r;

	pthread_mutex_lock(&spawner.lock);
	r = spawn_start();
	if (r == 0) {
		e->most = most;
		TAILQ_INSERT_TAIL(&spawner.execs, e, link);
	}
	pthread_mutex_unlock(&spawner.lock);
	return r;
}

void
exec_spawn_end(struct weft_exec *e)
{
	struct weft_exec *ask, *next;

	pthread_mutex_lock(&spawner.lock);
	ask = atomic_exchange_explicit(&spawner.asks, NULL, memory_order_acquire);
	for (; ask != NULL; ask = next) {
		next = ask->ask_next;
		if (ask != e)
			(void)spawn_push(ask);
	}
	TAILQ_REMOVE(&spawner.execs, e, link);
	for (unsigned int i = 0; i < e->alive; i++)
		sem_post(&e->work);
	while (e->alive > 0 || e->serving)
		pthread_cond_wait(&spawner.changed, &spawner.lock);
	pthread_mutex_unlock(&spawner.lock);
}

void
exec_spawn_ask(struct weft_exec *e)
{
	const unsigned int jobs = e->pending < e->most ? e->pending : e->most;

	atomic_store_explicit(&e->jobs, e->pending, memory_order_relaxed);
	atomic_store_explicit(&e->submits,
	                      atomic_load_explicit(&e->submits, memory_order_relaxed) + 1,
	                      memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&e->running, memory_order_relaxed) < jobs)
		spawn_ask(e);
}
