/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A worker that polls by itself: its loop, its thread or lcore, start and stop. */

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_pause.h>

#include "engine_priv.h"

static cpu_set_t process_cpus;

/** Note the CPUs of the process before EAL pins its threads. An unpinned thread may use all. */
static void __attribute__((constructor)) run_note_cpus(void)
{
	if (sched_getaffinity(0, sizeof(process_cpus), &process_cpus) != 0)
		CPU_ZERO(&process_cpus);
}

const cpu_set_t *
weft_engine_cpus(void)
{
	return &process_cpus;
}

int
weft_worker_run(struct weft_worker *w)
{
	uint64_t idle_since_ns = 0, idle_ns;

	if (WEFT_HANDLE_BAD(w, WORKER))
		return -EINVAL;
	while (!atomic_load_explicit(&w->stop, memory_order_relaxed)) {
		int n = weft_worker_poll(w);

		if (unlikely(n < 0))
			return n;
		if (n > 0) {
			idle_since_ns = 0;
			continue;
		}
		if (idle_since_ns == 0)
			idle_since_ns = w->v.sched.now_ns;
		idle_ns = w->v.sched.now_ns - idle_since_ns;
		if (w->spin || idle_ns < w->idle_spin_ns) {
			rte_pause();
			continue;
		}
		n = weft_engine_sleep(w, idle_ns);
		if (unlikely(n < 0))
			return n;
		if (n > 0)
			idle_since_ns = 0;
	}
	atomic_store_explicit(&w->stop, 0, memory_order_relaxed);
	weft_worker_detach(w);
	return 0;
}

static int
run_lcore(void *arg)
{
	return weft_worker_run(arg);
}

static void *
run_thread(void *arg)
{
	struct weft_worker *w = arg;

	/* The default timer slack of 50 us would double every short sleep. */
	(void)prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
	(void)weft_worker_run(w);
	return NULL;
}

static int
run_thread_start(struct weft_worker *w)
{
	cpu_set_t cpus = process_cpus;
	pthread_attr_t attr;
	sigset_t old;
	char name[16];
	int rc;

	if (w->lcore >= 0) {
		if (w->lcore >= CPU_SETSIZE)
			return -EINVAL;
		CPU_ZERO(&cpus);
		CPU_SET((unsigned int)w->lcore, &cpus);
	}
	if (pthread_attr_init(&attr) != 0)
		return -ENOMEM;
	if (CPU_COUNT(&cpus) > 0)
		(void)pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus);
	weft_block_signals(&old);
	rc = pthread_create(&w->thread, &attr, run_thread, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (rc != 0)
		return -rc;
	snprintf(name, sizeof(name), "%.15s", w->name);
	(void)pthread_setname_np(w->thread, name);
	return 0;
}

int
weft_worker_start(struct weft_worker *w)
{
	int rc;

	if (WEFT_HANDLE_BAD(w, WORKER))
		return -EINVAL;
	if (w->started != RUN_NOT)
		return -EALREADY;
	/* Set before the worker runs: it may stop itself at once. */
	atomic_store_explicit(&w->v.runs, 1, memory_order_release);
	/* An lcore of EAL if it has that number and is not the main one; else a new thread. */
	if (w->lcore >= 0 && rte_lcore_is_enabled((unsigned int)w->lcore) &&
	    (unsigned int)w->lcore != rte_get_main_lcore()) {
		rc = rte_eal_remote_launch(run_lcore, w, (unsigned int)w->lcore);
		if (rc < 0) {
			atomic_store_explicit(&w->v.runs, 0, memory_order_release);
			return rc;
		}
		w->started_lcore = (unsigned int)w->lcore;
		w->started = RUN_LCORE;
		return 0;
	}
	rc = run_thread_start(w);
	if (rc == 0)
		w->started = RUN_THREAD;
	else
		atomic_store_explicit(&w->v.runs, 0, memory_order_release);
	return rc;
}

void
weft_worker_stop_async(struct weft_worker *w)
{
	uint64_t one = 1;

	/* Nothing is logged: the caller may be a signal handler. */
	if (!weft_handle_ok(WEFT_HANDLE_OF(w), WEFT_KIND(WORKER)))
		return;
	atomic_store_explicit(&w->v.runs, 0, memory_order_release);
	atomic_store_explicit(&w->stop, 1, memory_order_seq_cst);
	if (write(w->v.work.wake_fd, &one, sizeof(one)) < 0) {
		/* EAGAIN: the eventfd is already readable. */
	}
}

void
weft_worker_stop(struct weft_worker *w)
{
	if (WEFT_HANDLE_BAD(w, WORKER))
		return;
	weft_worker_stop_async(w);
	if (w->started == RUN_NOT || weft_vworker_is_mine(&w->v))
		return;
	if (w->started == RUN_LCORE)
		(void)rte_eal_wait_lcore(w->started_lcore);
	else
		(void)pthread_join(w->thread, NULL);
	w->started = RUN_NOT;
	/* weft_worker_run() may have returned before `stop` was set. */
	atomic_store_explicit(&w->stop, 0, memory_order_relaxed);
}
