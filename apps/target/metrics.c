/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Metrics: memory, beginning and end. The program's thread. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "metrics_count.h"
#include "metrics_read.h"
#include "target.h"
#include "ui.h"

static void
worker_free(struct metrics_worker *mw)
{
	if (mw == NULL)
		return;
	metrics_watched_free(mw);
	target_table_free(mw->exports, CONF_EXPORTS_MAX * sizeof(*mw->exports));
	free(mw->closed);
	free(mw->gone);
	free(mw);
}

static struct metrics_worker *
worker_make(struct target *t, uint32_t i, bool counted)
{
	struct metrics_worker *mw = calloc(1, sizeof(*mw));

	if (mw == NULL)
		return NULL;
	mw->tw = &t->workers[i];
	mw->number = i;
	mw->counted = counted;
	mw->exports = target_table_make(CONF_EXPORTS_MAX * sizeof(*mw->exports));
	mw->closed = calloc(METRICS_CLOSED, sizeof(*mw->closed));
	mw->gone = calloc(METRICS_GONE, sizeof(*mw->gone));
	if (mw->exports == NULL || mw->closed == NULL || mw->gone == NULL ||
	    getrandom(&mw->closed_key, sizeof(mw->closed_key), 0) != sizeof(mw->closed_key)) {
		worker_free(mw);
		return NULL;
	}
	return mw;
}

/** Whether they are served. */
static bool
served(const struct target *t, struct sockaddr_storage *at)
{
	return conf_parse_metrics(t->conf.target.metrics, at) == 0 && at->ss_family != 0;
}

int
target_metrics_up(struct target *t, char *err, size_t err_size)
{
	struct sockaddr_storage at;
	const bool counted = served(t, &at);
	struct metrics *m;

	if (!counted && t->conf.target.slow_ms == 0)
		return 0;
	m = calloc(1, sizeof(*m));
	if (m != NULL) {
		m->t = t;
		t->metrics = m;
		for (; m->nworkers < t->stack.nworkers; m->nworkers++) {
			m->worker[m->nworkers] = worker_make(t, m->nworkers, counted);
			if (m->worker[m->nworkers] == NULL)
				break;
		}
	}
	if (m != NULL && m->nworkers == t->stack.nworkers)
		return 0;
	snprintf(err, err_size, "[target] metrics: out of memory");
	return -ENOMEM;
}

void
target_metrics_down(struct target *t)
{
	struct metrics *m = t->metrics;

	if (m == NULL)
		return;
	for (uint32_t i = 0; i < m->nworkers; i++)
		worker_free(m->worker[i]);
	free(m);
	t->metrics = NULL;
}

/** On the worker: from now on it counts. */
static void
worker_counts(void *arg)
{
	metrics_me = arg;
	metrics_me->clock_ns = ui_now_ns() - weft_worker_now_ns(metrics_me->tw->w);
}

int
target_metrics_begin(struct target *t, char *err, size_t err_size)
{
	struct metrics *m = t->metrics;
	struct sockaddr_storage at;
	int rc;

	if (m == NULL)
		return 0;
	/* First the workers: each tells the connections that end from then on, and a reader may ask
	 * for its connections as soon as the port is open. */
	for (uint32_t i = 0; i < m->nworkers; i++) {
		while ((rc = weft_worker_call(m->worker[i]->tw->w, worker_counts, m->worker[i])) ==
		       -EAGAIN)
			usleep(1000);
		if (rc != 0) {
			snprintf(err, err_size, "[target] metrics: %s", strerror(-rc));
			return rc;
		}
	}
	if (!served(t, &at))
		return 0;
	rc = metrics_http_open(m, &m->http, err, err_size);
	if (rc != 0)
		return rc;
	ui_msg("metrics: http://%s/", metrics_http_at(m->http));
	return 0;
}

void
target_metrics_end(struct target *t)
{
	if (t->metrics == NULL)
		return;
	metrics_http_close(t->metrics->http);
	t->metrics->http = NULL;
}

void
target_metrics_pushed(const struct target *t, const struct target_export *ex, uint64_t *flushes,
                      uint64_t *bytes)
{
	const size_t at = (size_t)(ex - t->exports);

	*flushes = *bytes = 0;
	for (uint32_t i = 0; t->metrics != NULL && i < t->metrics->nworkers; i++) {
		const struct metrics_export *me = &t->metrics->worker[i]->exports[at];

		*flushes += metrics_get(&me->flushes[METRICS_BY_PUSH]);
		*bytes += metrics_get(&me->flushed_bytes[METRICS_BY_PUSH]);
	}
}

static void
hist_wipe(struct metrics_hist *h)
{
	for (unsigned int i = 0; i < METRICS_BUCKETS; i++)
		atomic_store_explicit(&h->n[i], 0, memory_order_relaxed);
	atomic_store_explicit(&h->sum_ns, 0, memory_order_relaxed);
}

void
target_metrics_wipe(struct target *t, const struct target_export *ex)
{
	const size_t at = (size_t)(ex - t->exports);
	struct metrics *m = t->metrics;

	if (m == NULL)
		return;
	atomic_store_explicit(&m->capacity[at], 0, memory_order_relaxed);
	/* No worker counts for a slot without an export. */
	for (uint32_t i = 0; i < m->nworkers; i++) {
		struct metrics_export *me = &m->worker[i]->exports[at];

		atomic_store_explicit(&me->done, 0, memory_order_relaxed);
		for (unsigned int k = 0; k < METRICS_OPS; k++)
			hist_wipe(&me->op[k]);
		for (unsigned int k = 0; k < METRICS_BYS; k++) {
			atomic_store_explicit(&me->flushes[k], 0, memory_order_relaxed);
			atomic_store_explicit(&me->flushed_bytes[k], 0, memory_order_relaxed);
		}
		atomic_store_explicit(&me->failed, 0, memory_order_relaxed);
	}
}
