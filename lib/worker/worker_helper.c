/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Helper threads: how one begins, and what it does with a job that it has run. */

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>

#include "worker_exec.h"

/** The CPU set of the program at its start. EAL pins the polling thread to one CPU later, and a
 * helper thread must not inherit that. */
static cpu_set_t exec_cpus;
static bool exec_cpus_known;

static void __attribute__((constructor)) exec_note_cpus(void)
{
	exec_cpus_known = sched_getaffinity(0, sizeof(exec_cpus), &exec_cpus) == 0;
}

void
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

int
exec_thread(pthread_t *thread, const char *name, bool joined, void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	sigset_t old;
	int r;

	if (pthread_attr_init(&attr) != 0)
		return -ENOMEM;
	if (!joined)
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (exec_cpus_known)
		pthread_attr_setaffinity_np(&attr, sizeof(exec_cpus), &exec_cpus);
	weft_block_signals(&old);
	r = pthread_create(thread, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (r == EINVAL && exec_cpus_known) {
		/* The CPU set has shrunk since the program started: do not set it. */
		exec_cpus_known = false;
		return exec_thread(thread, name, joined, run, arg);
	}
	/* One that nothing joins may have ended. */
	if (r == 0 && joined)
		pthread_setname_np(*thread, name);
	return -r;
}
