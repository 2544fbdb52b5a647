/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the commands of telemetry have in common: their numbers, the contexts that telemetry shows,
 * and questions that a worker answers on its own thread.
 */

#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rte_telemetry.h>

#include "observe_ask.h"

#define ASK_WAIT_S 1

pthread_mutex_t observe_lock = PTHREAD_MUTEX_INITIALIZER;
struct observe_ctx_list observe_ctxs = TAILQ_HEAD_INITIALIZER(observe_ctxs);

int
observe_params(const char *params, uint32_t v[OBSERVE_MAX_PARAMS])
{
	int n = 0;
	char *end;

	if (params == NULL || *params == '\0')
		return 0;
	for (;; params = end + 1) {
		unsigned long x;

		if (n == OBSERVE_MAX_PARAMS || *params < '0' || *params > '9')
			return -EINVAL;
		x = strtoul(params, &end, 10);
		if (x > UINT32_MAX || (*end != ',' && *end != '\0'))
			return -EINVAL;
		v[n++] = (uint32_t)x;
		if (*end == '\0')
			return n;
	}
}

struct weft_worker *
observe_worker(uint32_t i)
{
	struct weft_worker *w;
	struct observe_ctx *t;

	TAILQ_FOREACH (t, &observe_ctxs, link)
		for (unsigned int k = 0; (w = weft_engine_worker_at(t->ctx, k)) != NULL; k++)
			if (i-- == 0)
				return w;
	return NULL;
}

/* ---- Questions that a worker answers ---- */

struct ask {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done;
	uint32_t refs; /**< protected by lock: one of the asking thread, one of the worker */
	struct weft_worker *w;
	observe_ask_fn fn;
	alignas(max_align_t) char data[];
};

static struct ask *
ask_of(void *data)
{
	return container_of(data, struct ask, data);
}

static void
ask_put(struct ask *q)
{
	bool last;

	pthread_mutex_lock(&q->lock);
	last = --q->refs == 0;
	pthread_mutex_unlock(&q->lock);
	if (!last)
		return;
	pthread_cond_destroy(&q->cond);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

/** Collect the answer and signal the asking thread. Runs on the worker. */
static void
ask_run(void *arg)
{
	struct ask *q = arg;

	q->fn(q->w, q->data);
	pthread_mutex_lock(&q->lock);
	q->done = true;
	pthread_cond_signal(&q->cond);
	pthread_mutex_unlock(&q->lock);
	ask_put(q);
}

void *
observe_ask_new(size_t bytes)
{
	struct ask *q = calloc(1, sizeof(*q) + bytes);
	pthread_condattr_t ca;

	if (q == NULL)
		return NULL;
	pthread_mutex_init(&q->lock, NULL);
	pthread_condattr_init(&ca);
	pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
	pthread_cond_init(&q->cond, &ca);
	pthread_condattr_destroy(&ca);
	q->refs = 2;
	return q->data;
}

void
observe_ask_free(void *data)
{
	ask_put(ask_of(data));
}

int
observe_ask(uint32_t worker, observe_ask_fn fn, void *data)
{
	struct ask *q = ask_of(data);
	struct timespec until;
	int rc = -ENOENT;

	q->fn = fn;
	pthread_mutex_lock(&observe_lock);
	q->w = observe_worker(worker);
	if (q->w != NULL)
		rc = weft_worker_call(q->w, ask_run, q);
	pthread_mutex_unlock(&observe_lock);
	if (rc != 0) {
		q->refs = 1;
		ask_put(q);
		return rc;
	}
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ASK_WAIT_S;
	pthread_mutex_lock(&q->lock);
	while (!q->done && rc == 0)
		rc = pthread_cond_timedwait(&q->cond, &q->lock, &until);
	rc = q->done ? 0 : -ETIMEDOUT;
	pthread_mutex_unlock(&q->lock);
	if (rc != 0)
		ask_put(q);
	return rc;
}

struct rte_tel_data *
observe_item(struct rte_tel_data *d, uint32_t number)
{
	struct rte_tel_data *one = rte_tel_data_alloc();
	char key[16];

	if (one == NULL)
		return NULL;
	snprintf(key, sizeof(key), "%u", number);
	rte_tel_data_start_dict(one);
	if (rte_tel_data_add_dict_container(d, key, one, 0) == 0)
		return one;
	rte_tel_data_free(one);
	return NULL;
}
