/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The lock around the worker, and what its holder does. */

#include "lock.h"

#include "engine.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

struct wv_engine wv_engine;

static pthread_mutex_t engine_lock = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static atomic_bool up;     /**< there is a worker */
static atomic_bool ending; /**< a thread is in exit() */
static _Thread_local bool ends_here;
static atomic_bool posted; /**< requests wait for the next poll */
static atomic_bool waits;  /**< the program's last sign was that it sleeps */
/** Threads that want the lock, and whether its holder sleeps: of two, one sees the other. */
static atomic_uint wanted;
static atomic_bool asleep;
/** Of the holder before it took the lock: a thread that is cancelled would keep the lock. */
static _Thread_local int cancel_state;
static _Thread_local bool holds; /**< looked at by signal handlers */

/** Why there is no worker any more for this process. */
static atomic_int gone;
enum { GONE_NOT, GONE_PARENTS, GONE_OVER };

bool
wv_engine_over(void)
{
	return atomic_load_explicit(&gone, memory_order_relaxed) == GONE_OVER && ends_here;
}

bool
wv_engine_orphan(void)
{
	const int why = atomic_load_explicit(&gone, memory_order_relaxed);

	return why == GONE_PARENTS || (why == GONE_OVER && ends_here);
}

void
wv_engine_set_over(void)
{
	atomic_store_explicit(&gone, GONE_OVER, memory_order_relaxed);
}

void
wv_engine_set_orphan(void)
{
	atomic_store_explicit(&gone, GONE_PARENTS, memory_order_relaxed);
	/* Its holder was a thread of the parent, which the child does not have. */
	(void)pthread_mutex_init(&engine_lock, NULL);
	atomic_store_explicit(&asleep, false, memory_order_relaxed);
}

bool
wv_engine_is_up(void)
{
	return atomic_load_explicit(&up, memory_order_acquire);
}

void
wv_engine_set_ending(void)
{
	ends_here = true;
	atomic_store_explicit(&ending, true, memory_order_release);
}

void
wv_engine_hold(void)
{
	while (atomic_load_explicit(&ending, memory_order_acquire) && !ends_here)
		(void)pause();
}

void
wv_engine_set_up(bool now)
{
	atomic_store_explicit(&up, now, memory_order_release);
}

uint64_t
wv_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static void
engine_nothing(void *arg)
{
	(void)arg;
}

/** End the sleep of the thread that has the lock. */
static void
engine_wake(void)
{
	if (atomic_exchange_explicit(&asleep, false, memory_order_seq_cst))
		(void)weft_worker_call(wv_engine.worker, engine_nothing, NULL);
}

static void
engine_own(void)
{
	/* weft_worker_poll() makes the caller the worker's thread. */
	if (!wv_engine_orphan() && !weft_worker_is_mine(wv_engine.worker))
		(void)weft_worker_poll(wv_engine.worker);
}

void
wv_lock_only(void)
{
	int old;

	if (wv_engine_over())
		return; /* this thread has it, and keeps it */
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	if (pthread_mutex_trylock(&engine_lock) != 0) {
		atomic_fetch_add_explicit(&wanted, 1, memory_order_seq_cst);
		engine_wake();
		pthread_mutex_lock(&engine_lock);
		atomic_fetch_sub_explicit(&wanted, 1, memory_order_relaxed);
	}
	cancel_state = old;
	holds = true;
}

void
wv_lock(void)
{
	wv_lock_only();
	engine_own();
}

void
wv_unlock(void)
{
	const int old = cancel_state;

	if (wv_engine_over())
		return;
	pthread_mutex_unlock(&engine_lock);
	holds = false;
	(void)pthread_setcancelstate(old, NULL);
}

void
wv_give_way(uint64_t nap_ns)
{
	const struct timespec nap = {.tv_nsec = (long)nap_ns};
	const int old = cancel_state;

	if (wv_engine_over())
		return;
	/* wv_unlock() without the cancel state of before, which the end of the call gives back. */
	pthread_mutex_unlock(&engine_lock);
	holds = false;
	if (nap_ns > 0)
		(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	else
		sched_yield();
	wv_lock();
	cancel_state = old;
}

bool
wv_lock_is_mine(void)
{
	return holds;
}

int
wv_poll_locked(void)
{
	atomic_store_explicit(&posted, false, memory_order_relaxed);
	if (wv_engine_orphan())
		return 0;
	return weft_worker_poll(wv_engine.worker);
}

void
wv_sleep_locked(uint64_t idle_us)
{
	atomic_store_explicit(&asleep, true, memory_order_seq_cst);
	if (atomic_load_explicit(&wanted, memory_order_seq_cst) == 0)
		(void)weft_worker_sleep(wv_engine.worker, idle_us);
	atomic_store_explicit(&asleep, false, memory_order_relaxed);
}

bool
wv_lock_wanted(void)
{
	return atomic_load_explicit(&wanted, memory_order_relaxed) != 0;
}

void
wv_posted(void)
{
	atomic_store_explicit(&posted, true, memory_order_relaxed);
	wv_set_waiting(false);
}

void
wv_set_waiting(bool now)
{
	if (atomic_load_explicit(&waits, memory_order_relaxed) != now)
		atomic_store_explicit(&waits, now, memory_order_relaxed);
}

bool
wv_is_waiting(void)
{
	return atomic_load_explicit(&waits, memory_order_relaxed);
}

bool
wv_trylock_poll(void)
{
	int old;

	if (pthread_mutex_trylock(&engine_lock) != 0) {
		if (atomic_load_explicit(&asleep, memory_order_relaxed))
			engine_wake();
		return false;
	}
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	holds = true;
	(void)wv_poll_locked();
	pthread_mutex_unlock(&engine_lock);
	holds = false;
	(void)pthread_setcancelstate(old, NULL);
	return true;
}

bool
wv_lock_until(uint64_t end_ns)
{
	while (pthread_mutex_trylock(&engine_lock) != 0) {
		if (wv_now_ns() > end_ns)
			return false;
		engine_wake();
		sched_yield();
	}
	holds = true;
	engine_own();
	return true;
}

bool
wv_has_posted(void)
{
	return atomic_load_explicit(&posted, memory_order_relaxed);
}
