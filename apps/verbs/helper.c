/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The helper thread, which polls the worker while the program does not. */

#include "helper.h"

#include "engine.h"
#include "lock.h"
#include "wake_soon.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HELPER_SPIN_NS     (200 * 1000ULL)  /**< idle time before the first sleep */
#define HELPER_LOOK_MIN_NS (500 * 1000ULL)  /**< between two looks, while the program polls */
#define HELPER_LOOK_MAX_NS (4000 * 1000ULL) /**< the same, when it has polled for long */
#define HELPER_NAP_NS      (10 * 1000L)     /**< between two polls beside a program that spins */
#define HELPER_HOLD_NS     (50 * 1000L) /**< between two looks whether the program has caught up */
#define HELPER_JUDGE_NS    (1000 * 1000ULL)
#define HELPER_MANY_CPUS   4                /**< so many for both without a nap */
#define HELPER_HOT_NS      (5000 * 1000ULL) /**< stays after packets that the program left */

static atomic_uint_fast64_t seen; /**< polls of the program */
static atomic_uint kicked;        /**< the futex on which the helper waits between two looks */

/** Alarms of the last poll that were no work; under the engine's lock. */
static unsigned int no_work;

static _Thread_local bool is_me;

void
wv_helper_no_work(void)
{
	no_work++;
}

bool
wv_helper_is_me(void)
{
	return is_me;
}

void
wv_helper_seen(void)
{
	/* A count that is lost to another thread's does no harm: any change is a sign. */
	atomic_store_explicit(&seen, atomic_load_explicit(&seen, memory_order_relaxed) + 1,
	                      memory_order_relaxed);
}

void
wv_helper_kick(void)
{
	if (atomic_exchange_explicit(&kicked, 1, memory_order_acq_rel) == 0)
		(void)syscall(SYS_futex, &kicked, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/** Wait between two looks. True: the program has announced that it will sleep. */
static bool
helper_look_later(uint64_t ns)
{
	const struct timespec ts = {.tv_sec = 0, .tv_nsec = (long)ns};

	if (atomic_load_explicit(&kicked, memory_order_acquire) == 0)
		(void)syscall(SYS_futex, &kicked, FUTEX_WAIT_PRIVATE, 0, &ts, NULL, 0);
	return atomic_exchange_explicit(&kicked, 0, memory_order_acq_rel) != 0;
}

/** The processor time of the program's threads, without this one. */
static uint64_t
helper_program_ns(void)
{
	struct timespec all, own;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
	return (uint64_t)(all.tv_sec - own.tv_sec) * 1000000000ULL + (uint64_t)all.tv_nsec -
	       (uint64_t)own.tv_nsec;
}

/** Whether the program uses a processor, looked at once in HELPER_JUDGE_NS. */
struct helper_judge {
	uint64_t at_ns, program_ns;
	bool spins;
};

static bool
helper_spins(struct helper_judge *j, uint64_t now_ns)
{
	uint64_t used_ns;

	if (now_ns - j->at_ns < HELPER_JUDGE_NS)
		return j->spins;
	used_ns = helper_program_ns();
	/* A program that spins may have to share its processor. The two clocks are read one after
	 * the other, so that the time of a program that sleeps may go back. */
	j->spins = (int64_t)(used_ns - j->program_ns) > (int64_t)((now_ns - j->at_ns) / 16);
	j->program_ns = used_ns;
	j->at_ns = now_ns;
	return j->spins;
}

/** The lock is taken without wv_lock(), which polls when the worker was another thread's. */
static bool
helper_holds(const struct wv_helper_hooks *hooks)
{
	bool holds;

	if (!hooks->may_hold())
		return false;
	wv_lock_only();
	holds = hooks->hold(wv_now_ns(), atomic_load_explicit(&seen, memory_order_relaxed));
	wv_unlock();
	return holds;
}

/**
 * Poll until the program polls again by itself. announced: the program has said that it sleeps;
 * else it may spin, or sleep in a call that this library does not know.
 */
static void
helper_take_over(bool announced, unsigned int ncpus, const struct wv_helper_hooks *hooks)
{
	const struct timespec nap = {.tv_nsec = HELPER_NAP_NS};
	const struct timespec hold = {.tv_nsec = HELPER_HOLD_NS};
	uint64_t last = atomic_load_explicit(&seen, memory_order_relaxed);
	uint64_t now_ns = wv_now_ns(), idle_ns = now_ns, hot_ns = 0;
	struct helper_judge judge = {
	        .at_ns = now_ns, .program_ns = helper_program_ns(), .spins = true};

	for (;;) {
		uint64_t count;
		bool alone;
		int n;

		if (helper_holds(hooks)) {
			(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &hold, NULL);
			continue;
		}
		wv_lock();
		no_work = 0;
		n = wv_poll_locked() - (int)no_work;
		now_ns = wv_now_ns();
		count = atomic_load_explicit(&seen, memory_order_relaxed);
		alone = count == last;
		last = count;
		if (atomic_exchange_explicit(&kicked, 0, memory_order_acq_rel) != 0)
			announced = true;
		else if (!alone)
			announced = false;
		if (n > 0) {
			idle_ns = now_ns;
			if (alone)
				hot_ns = now_ns + HELPER_HOT_NS;
		} else if (now_ns - idle_ns > HELPER_SPIN_NS && alone && now_ns >= hot_ns) {
			wv_sleep_locked((now_ns - idle_ns) / 1000);
		}
		wv_unlock();
		if (!alone && now_ns >= hot_ns)
			return;
		if (n <= 0 && !announced && ncpus < HELPER_MANY_CPUS &&
		    helper_spins(&judge, now_ns))
			(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
		else if (wv_lock_wanted())
			sched_yield();
	}
}

void
wv_helper_run(unsigned int ncpus, const struct wv_helper_hooks *hooks)
{
	uint64_t look_ns = HELPER_LOOK_MIN_NS, last = 0, count;

	is_me = true;
	wake_soon();
	for (;;) {
		count = atomic_load_explicit(&seen, memory_order_relaxed);
		if (count == last) {
			helper_take_over(false, ncpus, hooks);
			look_ns = HELPER_LOOK_MIN_NS;
			last = atomic_load_explicit(&seen, memory_order_relaxed);
		} else {
			last = count;
			look_ns =
			        look_ns * 2 < HELPER_LOOK_MAX_NS ? look_ns * 2 : HELPER_LOOK_MAX_NS;
		}
		if (helper_look_later(look_ns)) {
			helper_take_over(true, ncpus, hooks);
			look_ns = HELPER_LOOK_MIN_NS;
			last = atomic_load_explicit(&seen, memory_order_relaxed);
		}
	}
}
