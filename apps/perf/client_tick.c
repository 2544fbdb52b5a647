/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The measuring side: tells once a second how a run goes, from a thread of its own. So no
 * message waits for a terminal. */

#include <errno.h>
#include <signal.h>
#include <time.h>

#include "client.h"
#include "ui.h"

#define SECOND_NS 1000000000ull
/** Between two looks whether the measured part has begun. */
#define TICK_BEGIN_NS 20000000ull

/** Wait until a time, or the end of the run. False: it is over. */
static bool
tick_wait(struct crew *crew, uint64_t until_ns)
{
	const struct timespec ts = {(time_t)(until_ns / SECOND_NS), (long)(until_ns % SECOND_NS)};
	struct crew_tick *t = &crew->tick;
	bool over;
	int rc = 0;

	pthread_mutex_lock(&t->lock);
	while (!t->over && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&t->cond, &t->lock, &ts);
	over = t->over;
	pthread_mutex_unlock(&t->lock);
	return !over;
}

static void *
tick_main(void *arg)
{
	struct crew *crew = arg;
	const struct perf_job *job = crew->job;
	struct perf_tick t = {.job = job};
	uint64_t begun_ns, now_ns, n;

	loop_place_thread(-1);
	if (job->duration_s == 0)
		t.all = job->iterations * job->qps;
	do {
		if (!tick_wait(crew, ui_now_ns() + TICK_BEGIN_NS))
			return NULL;
		begun_ns = atomic_load_explicit(&crew->begun_ns, memory_order_acquire);
	} while (begun_ns == 0);
	for (uint64_t k = 1; tick_wait(crew, begun_ns + k * SECOND_NS); k++) {
		if (atomic_load_explicit(&crew->measured, memory_order_acquire))
			continue; /* what follows is no part of it */
		now_ns = ui_now_ns();
		n = crew_shown(crew);
		t.second_ns = now_ns - begun_ns - t.elapsed_ns;
		t.elapsed_ns = now_ns - begun_ns;
		t.messages = n - t.done;
		t.done = n;
		job->tick(&t);
	}
	return NULL;
}

int
crew_tick_begin(struct crew *crew)
{
	struct crew_tick *t = &crew->tick;
	pthread_condattr_t attr;
	sigset_t all, old;
	int rc;

	if (crew->job->tick == NULL)
		return 0;
	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&t->cond, &attr);
	pthread_condattr_destroy(&attr);
	/* Signals go to the first thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&t->thread, NULL, tick_main, crew);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	t->runs = rc == 0;
	return -rc;
}

void
crew_tick_end(struct crew *crew)
{
	struct crew_tick *t = &crew->tick;

	if (!t->runs)
		return;
	pthread_mutex_lock(&t->lock);
	t->over = true;
	pthread_cond_signal(&t->cond);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	pthread_cond_destroy(&t->cond);
	pthread_mutex_destroy(&t->lock);
	t->runs = false;
}
