/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The measuring side: a thread for each worker, which measures its share of the connections.
 * All of them begin together. */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "client_wait.h"
#include "connect_why.h"
#include "stack.h"
#include "ui.h"

/** The longest wait for the last event of a connection that has failed. */
#define CREW_LAST_NS 100000000ull

/** A completion has told that a connection has failed: wait for the event that tells why. */
static void
crew_await_last(struct run *r)
{
	const uint64_t until_ns = ui_now_ns() + CREW_LAST_NS;

	for (uint32_t i = 0; r->lane != NULL && i < r->job.qps; i++) {
		struct client *c = &r->lane[i];

		while (c->dead && c->up && !c->down && !c->closed && c->qp != NULL &&
		       ui_now_ns() < until_ns) {
			loop_turn(&r->loop, CREW_WAIT_NS);
			client_look(c);
		}
	}
}

/** Why there was no connection. */
static void
crew_say_connect(struct run *r)
{
	static const struct connect_ask ask = {.server = "weft-perf --server",
	                                       .there = "the address and --port",
	                                       .here = "--dev and --address, or --config"};

	static const struct connect_ask target = {.server = "weft-target",
	                                          .there = "the address and the port of the URL",
	                                          .here = "--dev and --address, or --config"};

	connect_why(perf_is_volume(r->job.test) ? &target : &ask, r->crew->side->port, r->rc,
	            r->why, sizeof(r->why));
}

/** Whether the server has closed a connection in order, and this one failed for no other reason:
 * it may close them one after the other. */
static bool
crew_is_closed(const struct run *r, const struct client *bad)
{
	bool closed = false;

	for (uint32_t i = 0; r->lane != NULL && i < r->job.qps; i++)
		closed |= r->lane[i].closed;
	return bad != NULL && (bad->closed || (closed && bad->term[0] == '\0'));
}

/** What became of one thread's connections, in one line. */
static void
crew_say(struct run *r, const struct client *bad)
{
	for (uint32_t i = 0; r->lane != NULL && i < r->job.qps; i++)
		if (bad == NULL || (!bad->dead && bad->term[0] == '\0'))
			bad = &r->lane[i];
	if (crew_is_closed(r, bad)) {
		snprintf(r->why, sizeof(r->why),
		         "the server was stopped: it closed the connection");
		return;
	}
	if (bad != NULL && !bad->up && (bad->job.hosts == NULL || perf_is_volume(bad->job.test)) &&
	    (r->rc == -ETIMEDOUT || (bad->term[0] == '\0' && r->rc != -EINTR))) {
		crew_say_connect(r);
		return;
	}
	snprintf(r->why, sizeof(r->why), "%s%s%s",
	         r->rc == -EINTR ? "interrupted before anything was measured" : strerror(-r->rc),
	         bad != NULL && bad->term[0] != '\0' ? ": " : "", bad != NULL ? bad->term : "");
}

/** One thread: connect, measure, free. */
static void
crew_run(struct run *r, struct weft_worker *w)
{
	struct crew *crew = r->crew;
	struct client *bad = NULL;
	int none = 0;

	r->rc = run_begin(r, w, &bad);
	if (r->rc == 0) {
		bad = NULL;
		r->rc = run_meet(r);
	}
	if (r->rc == 0)
		r->rc = r->job.latency ? measure_latency(r, &r->out)
		                       : measure_bandwidth(r, &r->out);
	if (r == crew->run)
		atomic_store_explicit(&crew->measured, true, memory_order_release);
	if (r->rc != 0) {
		crew_await_last(r);
		crew_say(r, bad);
		atomic_compare_exchange_strong_explicit(&crew->failed, &none, r->rc,
		                                        memory_order_acq_rel, memory_order_acquire);
	}
	run_end(r);
	/* The port may be polled by this worker for the others. */
	atomic_fetch_add_explicit(&crew->over, 1, memory_order_acq_rel);
	while (r->loop.w != NULL &&
	       atomic_load_explicit(&crew->over, memory_order_acquire) < crew->n)
		loop_turn(&r->loop, CREW_WAIT_NS);
}

struct crew_start {
	struct run *r;
	struct weft_worker *w;
};

static void *
crew_thread(void *arg)
{
	struct crew_start s = *(struct crew_start *)arg;

	free(arg);
	loop_place_thread(s.r->lcore);
	crew_run(s.r, s.w);
	if (s.r->loop.w != NULL)
		weft_worker_detach(s.w);
	return NULL;
}

/** Start the thread of one worker. Signals go to the first thread. 0 or -errno. */
static int
crew_start(struct run *r, struct weft_worker *w)
{
	struct crew_start *s = malloc(sizeof(*s));
	sigset_t all, old;
	int rc;

	if (s == NULL)
		return -ENOMEM;
	*s = (struct crew_start){r, w};
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&r->thread, NULL, crew_thread, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	r->is_thread = rc == 0;
	if (rc != 0)
		free(s);
	return -rc;
}

/** Give each worker its share of the connections. */
static void
crew_share(struct crew *crew, const struct perf_side *side)
{
	const struct perf_job *job = crew->job;

	for (uint32_t i = 0; i < crew->n; i++) {
		struct run *r = &crew->run[i];

		r->crew = crew;
		r->job = *job;
		r->job.qps = job->qps / crew->n + (i < job->qps % crew->n);
		r->job.rate = job->rate * r->job.qps / job->qps;
		/* A thread that polls beside the target's device would take the CPU from it. */
		r->loop.naps = (crew->n > 1 || perf_is_volume(job->test)) && !side->spin[i];
		r->lcore = job->events ? -1 : side->lcore[i];
	}
}

/** Run the first worker's connections on this thread, on the CPU of that worker. */
static void
crew_run_first(struct crew *crew, struct weft_worker *w)
{
	const int lcore = crew->run[0].lcore;
	cpu_set_t before;
	const bool placed =
	        lcore >= 0 && pthread_getaffinity_np(pthread_self(), sizeof(before), &before) == 0;

	if (placed)
		loop_place_thread(lcore);
	crew_run(&crew->run[0], w);
	if (placed)
		(void)pthread_setaffinity_np(pthread_self(), sizeof(before), &before);
}

/** Run all threads to their end; this one is the first. */
static void
crew_go(struct crew *crew, const struct perf_side *side)
{
	uint32_t i = 1;
	int rc = 0;

	for (; i < crew->n && rc == 0; i++) {
		rc = crew_start(&crew->run[i], side->workers[i]);
		if (rc != 0) {
			crew->run[i].rc = rc;
			snprintf(crew->run[i].why, sizeof(crew->run[i].why), "a thread: %s",
			         strerror(-rc));
			atomic_store_explicit(&crew->failed, rc, memory_order_release);
		}
	}
	if (rc != 0) /* those that run end as soon as they see it */
		atomic_fetch_add_explicit(&crew->over, crew->n - i + 1, memory_order_acq_rel);
	crew_run_first(crew, side->workers[0]);
	for (i = 1; i < crew->n; i++)
		if (crew->run[i].is_thread)
			pthread_join(crew->run[i].thread, NULL);
}

/** The failure of a run: that of the thread that was not ended by another one's. */
static int
crew_rc(const struct crew *crew, char *why, size_t why_bytes)
{
	int rc = 0;

	for (uint32_t i = 0; i < crew->n; i++) {
		const struct run *r = &crew->run[i];

		if (r->rc == 0 || (rc != 0 && r->rc == -ECANCELED))
			continue;
		if (rc == 0 || rc == -ECANCELED) {
			rc = r->rc;
			snprintf(why, why_bytes, "%s", r->why);
		}
	}
	return rc;
}

/** Whether something was measured before a failure: all threads had begun. */
static bool
crew_has_part(const struct crew *crew)
{
	bool any = false;

	for (uint32_t i = 0; i < crew->n; i++) {
		const struct run *r = &crew->run[i];

		if (r->begin_ns == 0 || r->end_ns < r->begin_ns)
			return false;
		any |= r->out.ended;
	}
	return any;
}

/** Make the SRQ of this side, where the test sends here. 0 or -errno. */
static int
crew_srq_begin(struct crew *crew)
{
	const struct perf_job *job = crew->job;
	struct weft_srq_attr sa = {.size = sizeof(sa), .max_sge = 1};
	int rc;

	if (!job->use_srq || (!job->both_ways && !job->reversed && !job->latency))
		return 0;
	sa.depth = job->rx_depth + CLIENT_RQ * job->qps;
	crew->srq_mem = malloc(job->size_bytes < 8 ? 8 : job->size_bytes);
	rc = crew->srq_mem == NULL ? -ENOMEM : weft_srq_create(crew->pd, &sa, &crew->srq);
	crew->srq_depth = sa.depth;
	for (uint32_t i = 0; i < sa.depth && rc >= 0; i++)
		rc = crew_srq_post(crew);
	return rc < 0 ? rc : 0;
}

int
perf_client_run(const struct perf_side *side, const struct sockaddr *addr, socklen_t addr_len,
                const struct perf_job *job, struct perf_result *out, char *why, size_t why_bytes)
{
	struct crew crew = {.job = job,
	                    .side = side,
	                    .ctx = side->ctx,
	                    .addr = addr,
	                    .addr_len = addr_len,
	                    .id = ui_now_ns() ^ (uint64_t)getpid() << 40,
	                    .n = job->workers > 1 ? job->workers : 1};
	int rc;

	memset(out, 0, sizeof(*out));
	out->job = *job;
	why[0] = '\0';
	crew.run = calloc(crew.n, sizeof(*crew.run));
	if (crew.run == NULL)
		return -ENOMEM;
	crew_share(&crew, side);
	rc = weft_pd_alloc(side->ctx, &crew.pd);
	if (rc == 0)
		rc = crew_srq_begin(&crew);
	if (rc == 0)
		rc = crew_tick_begin(&crew);
	if (rc == 0) {
		crew_go(&crew, side);
		crew_tick_end(&crew);
		rc = crew_rc(&crew, why, why_bytes);
	} else {
		snprintf(why, why_bytes, "%s", strerror(-rc));
	}
	if (rc == 0)
		rc = crew_merge(&crew, out);
	else if (crew_has_part(&crew))
		out->ended = crew_merge(&crew, out) == 0;
	if (rc != 0 && why[0] == '\0')
		snprintf(why, why_bytes, "%s",
		         rc == -ENODATA ? "no message was completed" : strerror(ENOMEM));
	if (rc == 0 && out->peer.bad != 0) {
		rc = -EILSEQ;
		snprintf(why, why_bytes,
		         "%s: %" PRIu64 " of %" PRIu64 " messages arrived with other octets",
		         strerror(EILSEQ), out->peer.bad, out->peer.verified);
	}
	for (uint32_t i = 0; i < crew.n; i++) {
		free(crew.run[i].hist);
		free(crew.run[i].samples);
		free(crew.run[i].lane);
		loop_end(&crew.run[i].loop);
	}
	free(crew.run);
	if (crew.srq != NULL)
		(void)weft_srq_destroy(crew.srq);
	free(crew.srq_mem);
	/* Regions are freed when all workers have polled. */
	for (uint32_t k = 0; crew.n > 1 && k < 64; k++)
		for (uint32_t i = 0; i < crew.n; i++)
			weft_worker_poll(side->workers[i]);
	for (uint32_t i = 1; i < crew.n; i++)
		weft_worker_detach(side->workers[i]);
	stack_release(side->workers[0], NULL, NULL, crew.pd);
	return rc;
}
