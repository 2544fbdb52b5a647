/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What is measured: the loops that post, poll and read the clock. */

#include <errno.h>
#include <stdlib.h>

#include "client.h"
#include "client_volume.h"
#include "client_wait.h"
#include "link_use.h"
#include "parts.h"
#include "ui.h"

/** Polls between two looks at the clock, which costs as much as a small message. */
#define LOOK_TURNS 16
/** Time without progress after which the CPU time so far is noted, which costs a read of /proc. */
#define STILL_NS 10000000ull

/** Iterations of the poll loop since `from`. */
static void
run_polls(struct run *r, const struct weft_poll_hist *from, struct perf_result *out)
{
	static _Thread_local struct weft_poll_hist h;

	h.size = sizeof(h);
	if (weft_worker_poll_hist(r->loop.w, &h) != 0)
		return;
	weft_poll_hist_since(&h, from);
	out->poll_p50_us = (double)weft_poll_hist_pct_ns(&h, 50) / 1e3;
	out->poll_p99_us = (double)weft_poll_hist_pct_ns(&h, 99) / 1e3;
	out->poll_max_us = (double)h.max_ns / 1e3;
}

/* ---- Bandwidth ---- */

static bool
is_stopped(const struct run *r)
{
	return r->job.stop != NULL && *r->job.stop;
}

/** Time between two messages of one connection, with a rate. */
static uint64_t
rate_gap_ns(const struct run *r)
{
	return r->job.rate == 0 ? 0 : (uint64_t)(1e9 * r->job.qps / r->job.rate);
}

/** The work requests that each connection may have posted by now, with a rate. */
static uint64_t
rate_end(const struct run *r, uint64_t base, uint64_t end, uint64_t elapsed_ns)
{
	uint64_t due = (uint64_t)(r->job.rate * (double)elapsed_ns / 1e9 / r->job.qps) + 1;

	return due < end - base ? base + due : end;
}

/** Where a bandwidth test ends: at so many work requests of each connection, or messages of all
 * connections of this worker. */
struct goal {
	uint64_t each, all; /**< UINT64_MAX with a duration */
};

/** The time until the next message is due, with a rate. */
static uint64_t
rate_wait_ns(const struct run *r, uint64_t elapsed_ns)
{
	const double qps = r->job.qps;
	const double due = (double)(uint64_t)(r->job.rate * (double)elapsed_ns / 1e9 / qps) + 1;
	const double wait_ns = due * qps / r->job.rate * 1e9 - (double)elapsed_ns;

	return wait_ns < 0 ? 0 : wait_ns > (double)LOOP_WAIT_NS ? LOOP_WAIT_NS : (uint64_t)wait_ns;
}

/** Nothing was completed for STALL_S. */
static int
run_stalled(struct run *r)
{
	snprintf(r->lane[0].term, sizeof(r->lane[0].term), "no message was completed for %u s",
	         STALL_S);
	return -ETIMEDOUT;
}

/** Post until the goal is reached, the time is over, or it is stopped. `base`: work requests of
 * each connection before the measured part; `before`: of all. */
static int
bandwidth_loop(struct run *r, uint64_t base, uint64_t before, struct goal goal, struct parts *parts,
               struct perf_result *out)
{
	const uint64_t t0_ns = r->begin_ns;
	uint64_t until_ns = UINT64_MAX, now_ns = t0_ns, progress_ns = t0_ns, seen = 0;
	const bool paced = r->job.rate != 0, slow = loop_is_slow(&r->loop);

	if (r->job.duration_s != 0)
		until_ns = t0_ns + (r->job.duration_s - 2 * r->job.margin_s) * 1000000000ull;
	for (unsigned int turns = 1; run_dead(r) == NULL; turns++) {
		uint64_t n;

		run_turn(r, paced ? rate_end(r, base, goal.each, now_ns - t0_ns) : goal.each,
		         paced ? rate_wait_ns(r, now_ns - t0_ns) : LOOP_WAIT_NS);
		n = run_count(r).done - before;
		/* The clock is read seldom, unless it decides what is sent. */
		if (turns % LOOK_TURNS != 0 && !paced && !slow && n < goal.all)
			continue;
		now_ns = ui_now_ns();
		if (n != seen) {
			progress_ns = now_ns;
			r->is_still = false;
		} else if (!r->is_still && now_ns - progress_ns > STILL_NS) {
			perf_self_now(&r->loop, &r->still);
			r->is_still = true;
		} else if (now_ns - progress_ns > STALL_S * 1000000000ull + rate_gap_ns(r)) {
			return run_stalled(r);
		} else {
			run_look(r, now_ns);
		}
		seen = n;
		r->end_ns = progress_ns;
		run_show(r, n);
		if (!r->job.no_peak)
			parts_look(parts, r, now_ns, crew_shown(r->crew));
		out->interrupted = is_stopped(r);
		out->paced_s = (double)(now_ns - t0_ns) / 1e9;
		if (out->interrupted || now_ns >= until_ns || n >= goal.all)
			return 0;
		if (run_failed_elsewhere(r) != 0)
			return -ECANCELED;
	}
	return run_dead(r)->err;
}

/** What was completed in the measured part of a run that has failed is kept; a bandwidth loop that
 * stood still at its end has noted what was used until then. */
static void
run_keep(struct run *r, const struct perf_self *from, uint64_t done, struct perf_result *out)
{
	if (!r->is_still)
		perf_self_now(&r->loop, &r->still);
	out->self = perf_self_between(from, &r->still);
	out->iterations = done;
	out->ended = done > 0 && r->end_ns > r->begin_ns;
}

/** Send for the time of the margin, and wait for what is under way. Nothing is measured: other
 * clients, which began earlier or end later, find the load that they are measured with. */
static int
run_margin(struct run *r)
{
	const uint64_t until_ns = ui_now_ns() + r->job.margin_s * 1000000000ull;

	for (unsigned int turns = 1; run_dead(r) == NULL; turns++) {
		run_turn(r, UINT64_MAX, LOOP_WAIT_NS);
		if (turns % LOOK_TURNS != 0 && !loop_is_slow(&r->loop))
			continue;
		if (ui_now_ns() >= until_ns || is_stopped(r))
			return run_barrier(r);
	}
	return run_dead(r)->err;
}

static int
run_warm_up(struct run *r)
{
	uint64_t all = (uint64_t)r->job.warmup * r->job.qps;

	uint64_t done = 0, since_ns = ui_now_ns();

	for (unsigned int turns = 1; run_dead(r) == NULL && done < all; turns++) {
		uint64_t before = done, now_ns;

		run_turn(r, r->job.warmup, LOOP_WAIT_NS);
		done = run_count(r).done;
		if (turns % LOOK_TURNS != 0 && !loop_is_slow(&r->loop))
			continue;
		now_ns = ui_now_ns();
		since_ns = done != before ? now_ns : since_ns;
		if (is_stopped(r))
			return -EINTR;
		if (now_ns - since_ns > STALL_S * 1000000000ull)
			return -ETIMEDOUT;
		if (done == before)
			run_look(r, now_ns);
	}
	if (run_dead(r) != NULL)
		return run_dead(r)->err;
	return r->job.test == PERF_WRITE || r->job.qps > 1 ? run_barrier(r) : 0;
}

int
measure_bandwidth(struct run *r, struct perf_result *out)
{
	static _Thread_local struct weft_poll_hist h0 = {.size = sizeof(h0)};
	struct goal goal = {UINT64_MAX, UINT64_MAX};
	struct perf_self from;
	struct link_count link = {0};
	struct parts parts;
	uint64_t base, before;
	int rc = 0;

	if (r->job.reversed)
		return measure_reversed(r, out);
	if (r->job.margin_s != 0)
		rc = run_margin(r);
	else if (!r->job.verify) /* what is compared has no messages before it */
		rc = run_warm_up(r);
	if (rc == 0)
		rc = run_start(r, 0);
	if (rc == 0)
		rc = run_meet(r);
	if (rc != 0)
		return rc;
	/* Each connection has posted as much as the others, but for a margin. */
	before = run_count(r).posted;
	base = before / r->job.qps;
	if (r->job.duration_s == 0)
		goal = (struct goal){base + r->job.iterations, r->job.iterations * r->job.qps};
	weft_worker_poll_hist(r->loop.w, &h0);
	if (r == r->crew->run)
		(void)link_now(r->crew->side, &link);
	perf_self_now(&r->loop, &from);
	run_begun(r, from.at_ns);
	parts_begin(&parts, r, from.at_ns);
	rc = r->job.verify ? measure_verify(r, out)
	                   : bandwidth_loop(r, base, before, goal, &parts, out);
	if (rc == 0) {
		out->iterations = run_count(r).posted - before;
		rc = run_barrier(r);
	}
	out->peak_mbps = parts.peak_mbps;
	out->worst_mbps = parts.worst_mbps;
	if (rc != 0) {
		const uint64_t done = run_count(r).done;

		if (!r->job.verify)
			run_keep(r, &from, done > before ? done - before : 0, out);
		return rc;
	}
	out->self = perf_self_since(&r->loop, &from);
	r->end_ns = from.at_ns + out->self.at_ns;
	out->used_mbps = link_used_mbps(r->crew->side, &link);
	run_polls(r, &h0, out);
	rc = run_report(r);
	return rc == 0 && r->job.margin_s != 0 && !out->interrupted ? run_margin(r) : rc;
}

/* ---- Latency ---- */

/** Write latency: the server's Write ends in the number of the client's. */
static bool
client_is_ponged(const struct client *c)
{
	const volatile uint8_t *last = c->back + c->job.size_bytes - 1;

	return *last == (uint8_t)c->f.posted;
}

/** Send latency: every message came back. */
static bool
client_is_echoed(const struct client *c)
{
	return c->f.received == c->f.posted;
}

/** Run one round of a latency test; each test has its own sign of completion. */
static int
client_round(struct client *c, uint64_t seq)
{
	struct weft_wr wr;
	struct weft_sge sge;
	int rc;

	if (perf_is_place(c->job.test))
		return client_place_round(c, seq);
	if (perf_is_rpc(c->job.test))
		return client_rpc_round(c);
	if (perf_is_volume(c->job.test))
		return client_volume_round(c);
	flow_wr(&c->f, &wr, &sge, seq);
	wr.flags |= WEFT_WR_SIGNALED;
	wr.wr_id = 1;
	if (c->job.test == PERF_WRITE)
		c->mem[c->job.size_bytes - 1] = (uint8_t)(seq + 1);
	rc = weft_post_send(c->qp, &wr, 1);
	if (rc < 1)
		return rc;
	c->f.posted++;
	return client_wait(c, c->job.test == PERF_WRITE         ? client_is_ponged
	                      : perf_takes_receive(c->job.test) ? client_is_echoed
	                                                        : client_is_drained);
}

/** Iterations before the measured ones, and of a run by time no longer than a tenth of it. 0 or
 * -errno. */
static int
latency_warm_up(struct run *r, uint64_t *done)
{
	const uint64_t from_ns = ui_now_ns();
	int rc = 0;

	for (*done = 0; *done < r->job.warmup && rc == 0; ++*done) {
		if (r->job.duration_s != 0 &&
		    ui_now_ns() - from_ns > r->job.duration_s * 100000000ull)
			break;
		rc = is_stopped(r) ? -EINTR : client_round(&r->lane[0], *done);
	}
	return rc;
}

/** Messages one after the other, as many as are asked for or until the time is over; the first one
 * of the measured part has the number `seq`. */
static int
measure_closed(struct run *r, uint64_t seq, struct perf_result *out)
{
	const uint64_t n = r->job.duration_s != 0 ? UINT64_MAX : r->job.iterations;
	uint64_t t = r->begin_ns, until_ns = UINT64_MAX, now_ns;
	int rc = 0;

	if (r->job.duration_s != 0)
		until_ns = t + r->job.duration_s * 1000000000ull;
	for (uint64_t i = 0; i < n && t < until_ns && rc == 0 && !out->interrupted; i++) {
		rc = client_round(&r->lane[0], seq + i);
		now_ns = ui_now_ns();
		if (rc == 0) {
			run_sample(r, now_ns - t);
			t = now_ns;
			run_show(r, i + 1);
		}
		out->interrupted = is_stopped(r);
		if (rc == 0 && (i & 1023) == 1023)
			rc = run_failed_elsewhere(r);
	}
	r->end_ns = t;
	return rc;
}

int
measure_latency(struct run *r, struct perf_result *out)
{
	static _Thread_local struct weft_poll_hist h0 = {.size = sizeof(h0)};
	struct perf_self from;
	uint64_t took_ns, warm;
	int rc;

	/* In an open loop a sample begins before the post, so half of it means nothing. */
	out->half =
	        r->job.rate == 0 && (r->job.test == PERF_WRITE || perf_takes_receive(r->job.test));
	r->hist = calloc(1, sizeof(*r->hist));
	if (r->job.keep_samples)
		r->samples = calloc(r->job.iterations, sizeof(*r->samples));
	if (r->hist == NULL || (r->job.keep_samples && r->samples == NULL))
		return -ENOMEM;
	rc = latency_warm_up(r, &warm);
	if (rc == 0)
		rc = run_start(r, 0);
	if (rc == 0)
		rc = run_meet(r);
	if (rc != 0)
		return rc;
	weft_worker_poll_hist(r->loop.w, &h0);
	perf_self_now(&r->loop, &from);
	run_begun(r, from.at_ns);
	if (r->job.rate > 0) {
		rc = measure_open(r, &took_ns, &out->interrupted);
		r->end_ns = r->begin_ns + took_ns;
		out->paced_s = (double)took_ns / 1e9;
	} else {
		rc = measure_closed(r, warm, out);
	}
	out->self = perf_self_since(&r->loop, &from);
	if (rc == 0)
		rc = run_report(r);
	if (rc != 0) {
		run_keep(r, &from, r->hist->n, out);
		return rc;
	}
	run_polls(r, &h0, out);
	out->iterations = r->hist->n;
	return 0;
}
