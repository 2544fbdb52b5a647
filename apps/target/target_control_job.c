/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Jobs of the control socket, and the queue of those that the program's thread does. */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "target.h"
#include "target_control.h"
#include "target_say.h"
#include "ui.h"

#define NS_PER_MS 1000000ULL

STAILQ_HEAD(control_jobs, control_job);

/** The lock is the control thread's and the program's alone; no worker takes it. */
struct control_queue {
	pthread_mutex_t lock;
	struct control_jobs waiting;   /**< under lock */
	uint32_t n;                    /**< under lock: those under way included */
	struct control_jobs under_way; /**< the program's thread alone */
	pthread_t program;
	int wake_fd;
	bool ends; /**< under lock: no job is taken any more */
};

/** The parameter interval_ms; what is too long becomes UINT32_MAX. */
static uint32_t
interval_of(const json_t *params)
{
	const json_int_t ms = json_integer_value(json_object_get(params, "interval_ms"));

	return ms > CONTROL_INTERVAL_MS ? UINT32_MAX : (uint32_t)ms;
}

struct control_job *
control_job_make(struct target *t, const struct control_handler *h, const struct ctl_method *m,
                 json_t *params)
{
	struct control_job *job = calloc(1, sizeof(*job));

	if (job == NULL)
		return NULL;
	job->t = t;
	job->handler = h;
	job->method = m;
	job->params = json_incref(params);
	if (h->sample != NULL)
		job->interval_ms = interval_of(params);
	atomic_init(&job->refs, 1);
	return job;
}

void
control_job_put(struct control_job *job)
{
	/* Acquire: what the other one did to it is over. */
	if (job == NULL || atomic_fetch_sub_explicit(&job->refs, 1, memory_order_acq_rel) > 1)
		return;
	json_decref(job->params);
	json_decref(job->result);
	json_decref(job->hosts);
	for (uint32_t i = 0; i < CONF_WORKERS_MAX; i++) {
		free(job->part[i].rows);
		free(job->part[i].before);
		free(job->part[i].holds);
		free(job->part[i].lanes);
		free(job->part[i].lanes_before);
		free(job->part[i].slow);
	}
	free(job->limited);
	free(job->before);
	free(job);
}

void
control_job_result(struct control_job *job, json_t *result)
{
	job->result = result;
	if (result == NULL)
		ctl_fail(&job->fault, CTL_INTERNAL, "out of memory");
}

/** The control thread may take the answer. Called on the thread that did the job. */
static void
job_done(struct control_job *job, int wake_fd)
{
	atomic_store_explicit(&job->done, true, memory_order_release);
	(void)eventfd_write(wake_fd, 1);
}

/* ---- Values ---- */

json_t *
control_text(const char *s)
{
	json_t *v = json_string(s);
	char *copy = v == NULL ? strdup(s) : NULL;

	if (copy == NULL)
		return v;
	for (char *p = copy; *p != '\0'; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	v = json_string(copy);
	free(copy);
	return v;
}

const char *
control_param(const struct control_job *job, const char *name)
{
	return json_string_value(json_object_get(job->params, name));
}

void
control_add_to(json_t *object, const char *key, uint64_t n)
{
	json_t *v = json_object_get(object, key);

	(void)json_integer_set(v, json_integer_value(v) + (json_int_t)n);
}

json_t *
control_rate(const struct control_job *job, uint64_t n)
{
	return job->took_s > 0 ? json_real((double)n / job->took_s) : json_null();
}

/* ---- By the workers ---- */

static void
part_run(void *arg)
{
	struct control_part *part = arg;
	struct control_job *job = part->job;
	const int wake_fd = job->t->control_queue->wake_fd;

	part->alarm = NULL;
	while (!job->handler->worker(part))
		if (weft_alarm_set(part->tw->w, 1, part_run, part, &part->alarm) == 0)
			return; /* else the rest is done at once */
	/* The last one's release is behind all parts; the control thread finishes the job. */
	if (atomic_fetch_sub_explicit(&job->left, 1, memory_order_acq_rel) == 1)
		job_done(job, wake_fd);
	control_job_put(job);
}

static void
job_start_workers(struct control_job *job)
{
	struct target *t = job->t;
	const uint32_t n = t->stack.nworkers;
	uint32_t called = 0;

	if (job->handler->prepare != NULL && !job->handler->prepare(job)) {
		atomic_store_explicit(&job->done, true, memory_order_relaxed);
		return;
	}
	/* One more, so that no worker finds itself the last one while others are called. */
	atomic_store_explicit(&job->left, n + 1, memory_order_relaxed);
	for (uint32_t i = 0; i < n; i++) {
		struct control_part *part = &job->part[i];

		part->job = job;
		part->tw = &t->workers[i];
		part->number = i;
		atomic_fetch_add_explicit(&job->refs, 1, memory_order_relaxed);
		part->called = weft_worker_call(t->workers[i].w, part_run, part) == 0;
		if (!part->called)
			control_job_put(job);
		called += part->called;
	}
	if (called < n)
		ctl_fail(&job->fault, CTL_BUSY, "%u of %u workers have too much to do; try again",
		         n - called, n);
	if (atomic_fetch_sub_explicit(&job->left, n - called + 1, memory_order_acq_rel) ==
	    n - called + 1)
		atomic_store_explicit(&job->done, true, memory_order_relaxed);
}

bool
control_job_measures(struct control_job *job, uint64_t now_ns, uint64_t *at_ns)
{
	*at_ns = 0;
	if (job->interval_ms == 0 || job->fault.code != CTL_OK)
		return false;
	if (job->sample_ns == 0) {
		job->handler->sample(job);
		job->sample_ns = ui_now_ns();
	}
	*at_ns = job->sample_ns + job->interval_ms * NS_PER_MS;
	if (now_ns < *at_ns)
		return true;
	*at_ns = 0;
	job->interval_ms = 0;
	atomic_store_explicit(&job->done, false, memory_order_relaxed);
	control_job_start(job);
	return !atomic_load_explicit(&job->done, memory_order_acquire);
}

void
control_job_finish(struct control_job *job)
{
	if (job->sample_ns != 0)
		job->took_s = (double)(ui_now_ns() - job->sample_ns) / 1e9;
	if (job->handler->here != NULL && job->fault.code == CTL_OK && job->result == NULL)
		job->handler->here(job);
	if (job->handler->worker != NULL && job->fault.code == CTL_OK && job->result == NULL)
		job->handler->finish(job);
}

/* ---- By the program's thread ---- */

int
control_queue_open(struct control_queue **out, int wake_fd)
{
	struct control_queue *q = calloc(1, sizeof(*q));

	if (q == NULL)
		return -ENOMEM;
	pthread_mutex_init(&q->lock, NULL);
	STAILQ_INIT(&q->waiting);
	STAILQ_INIT(&q->under_way);
	q->program = pthread_self();
	q->wake_fd = wake_fd;
	*out = q;
	return 0;
}

void
control_queue_close(struct control_queue *q)
{
	if (q == NULL)
		return;
	pthread_mutex_destroy(&q->lock);
	free(q);
}

static void
job_start_program(struct control_job *job)
{
	struct control_queue *q = job->t->control_queue;
	bool ends, full;

	pthread_mutex_lock(&q->lock);
	ends = q->ends;
	full = q->n >= CONTROL_JOBS;
	if (!ends && !full) {
		q->n++;
		atomic_fetch_add_explicit(&job->refs, 1, memory_order_relaxed);
		STAILQ_INSERT_TAIL(&q->waiting, job, link);
	}
	pthread_mutex_unlock(&q->lock);
	if (!ends && !full) {
		(void)pthread_kill(q->program, SIGUSR1);
		return;
	}
	if (ends)
		ctl_fail(&job->fault, CTL_BUSY, "the target ends");
	else
		ctl_fail(&job->fault, CTL_BUSY, "%u requests wait already; try again",
		         CONTROL_JOBS);
	atomic_store_explicit(&job->done, true, memory_order_relaxed);
}

/** Log a request that changes something, with what it names. */
static void
job_say(const struct control_job *job)
{
	const char *of = control_param(job, "name");

	if (!job->method->changes)
		return;
	of = of != NULL ? of : control_param(job, "client");
	target_log("control: %s%s%.64s by user %u, process %d", job->method->name,
	           of != NULL ? " " : "", of != NULL ? of : "", (unsigned int)job->uid,
	           (int)job->pid);
}

void
control_job_start(struct control_job *job)
{
	job_say(job);
	if (job->interval_ms > CONTROL_INTERVAL_MS) {
		ctl_fail(&job->fault, CTL_BAD_PARAMS, "%s: interval_ms is at most %u",
		         job->method->name, CONTROL_INTERVAL_MS);
		atomic_store_explicit(&job->done, true, memory_order_relaxed);
	} else if (job->handler->here != NULL) {
		/* control_job_finish() calls it. */
		atomic_store_explicit(&job->done, true, memory_order_relaxed);
	} else if (job->handler->program != NULL) {
		job_start_program(job);
	} else {
		job_start_workers(job);
	}
}

/** It is done, or has to be given up: hand it back. */
static void
queue_give_back(struct control_queue *q, struct control_job *job)
{
	pthread_mutex_lock(&q->lock);
	q->n--;
	pthread_mutex_unlock(&q->lock);
	if (atomic_load_explicit(&job->given, memory_order_relaxed))
		target_log("control: %s, which took longer than its %u s, has ended: %s",
		           job->method->name, job->method->limit_ms / 1000,
		           job->fault.code == CTL_OK ? "done" : job->fault.text);
	job_done(job, q->wake_fd);
	control_job_put(job);
}

/** A turn of a job. */
static void
queue_turn(struct control_queue *q, struct control_job *job)
{
	if (!job->handler->program(job)) {
		job->begun = true;
		STAILQ_INSERT_TAIL(&q->under_way, job, link);
		return;
	}
	queue_give_back(q, job);
}

bool
control_queue_run(struct control_queue *q)
{
	struct control_jobs now = STAILQ_HEAD_INITIALIZER(now);
	struct control_job *job;

	STAILQ_CONCAT(&now, &q->under_way);
	pthread_mutex_lock(&q->lock);
	STAILQ_CONCAT(&now, &q->waiting);
	pthread_mutex_unlock(&q->lock);
	while ((job = STAILQ_FIRST(&now)) != NULL) {
		STAILQ_REMOVE_HEAD(&now, link);
		queue_turn(q, job);
	}
	return !STAILQ_EMPTY(&q->under_way);
}

void
control_queue_end(struct control_queue *q)
{
	struct control_job *job;

	pthread_mutex_lock(&q->lock);
	q->ends = true;
	STAILQ_CONCAT(&q->under_way, &q->waiting);
	pthread_mutex_unlock(&q->lock);
	while ((job = STAILQ_FIRST(&q->under_way)) != NULL) {
		STAILQ_REMOVE_HEAD(&q->under_way, link);
		ctl_fail(&job->fault, CTL_BUSY, "the target ends; not done");
		queue_give_back(q, job);
	}
}
