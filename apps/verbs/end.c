/* SPDX-License-Identifier: BSD-3-Clause */
/** @file _exit() and _Exit(). */

#include "end.h"

#include "api.h"
#include "engine.h"
#include "lock.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define END_STACK_BYTES (512 * 1024)
#define END_NAP_NS      (100 * 1000L)

static void (*end_drain)(uint64_t end_ns);
static pid_t end_pid;      /**< whose the port is */
static pthread_t end_self; /**< end_thread() */
static sem_t end_asked;    /**< sem_post() is for signal handlers, too */
static atomic_bool there, asked, done;

static void *
end_thread(void *arg)
{
	uint64_t end_ns;

	(void)arg;
	while (sem_wait(&end_asked) != 0)
		;
	end_ns = wv_now_ns() + WV_END_DRAIN_NS;
	wv_engine_set_ending();
	if (wv_lock_until(end_ns))
		end_drain(end_ns);
	/* The lock is kept: nothing more is sent that could be lost. */
	atomic_store_explicit(&done, true, memory_order_release);
	return NULL;
}

void
wv_end_start(void (*drain)(uint64_t end_ns))
{
	pthread_attr_t attr;

	end_drain = drain;
	end_pid = getpid();
	if (sem_init(&end_asked, 0, 0) != 0 || pthread_attr_init(&attr) != 0)
		return;
	(void)pthread_attr_setstacksize(&attr, END_STACK_BYTES);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&end_self, &attr, end_thread, NULL) == 0) {
		(void)pthread_setname_np(end_self, "weft-end");
		atomic_store_explicit(&there, true, memory_order_release);
	}
	(void)pthread_attr_destroy(&attr);
}

/**
 * Only what a signal handler may call. A thread that was interrupted with the lock never returns
 * it; a child of fork() or vfork() has no port.
 */
static void
end_wait(void)
{
	const struct timespec nap = {.tv_nsec = END_NAP_NS};
	const uint64_t end_ns = wv_now_ns() + 2 * WV_END_DRAIN_NS;

	if (!wv_engine_is_up() || getpid() != end_pid || wv_lock_is_mine() ||
	    !atomic_load_explicit(&there, memory_order_acquire) ||
	    pthread_equal(pthread_self(), end_self))
		return;
	/* A second thread that ends the process waits for what the first one sends. */
	if (!atomic_exchange_explicit(&asked, true, memory_order_relaxed) &&
	    sem_post(&end_asked) != 0)
		return;
	while (!atomic_load_explicit(&done, memory_order_acquire) && wv_now_ns() < end_ns)
		(void)syscall(SYS_nanosleep, &nap, NULL); /* no point of cancellation */
}

WV_API void
_exit(int status)
{
	end_wait();
	for (;;)
		(void)syscall(SYS_exit_group, status);
}

WV_API void
_Exit(int status)
{
	_exit(status);
}
