/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What is measured: the loops that post, poll and read the clock. */

#include <errno.h>
#include <stdlib.h>

#include "client.h"
#include "ui.h"

#define WINDOWS 64 /**< parts of a run; the peak is the fastest part */

/** The connection that has failed, or NULL. */
static const struct client *
run_dead(const struct run *r)
{
	for (uint32_t i = 0; i < r->job.qps; i++)
		if (r->lane[i].dead)
			return &r->lane[i];
	return NULL;
}

/** Post as much as a queue has room for, up to `end` work requests in all. */
static void
lane_fill(struct client *c, uint64_t end)
{
	int rc;

	if (perf_is_place(c->job.test)) {
		client_place_fill(c, end);
		return;
	}
	if (perf_is_rpc(c->job.test)) {
		client_rpc_fill(c, end);
		return;
	}
	rc = flow_fill(&c->f, end);
	if (rc < 0) {
		c->dead = true;
		c->err = rc;
	}
}

/** Fill all queues, each up to `end`, and poll. The work requests completed on all of them. */
static uint64_t
run_turn(struct run *r, uint64_t end)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < r->job.qps; i++)
		lane_fill(&r->lane[i], end);
	weft_worker_poll(r->w);
	for (uint32_t i = 0; i < r->job.qps; i++)
		n += r->lane[i].f.completed;
	return n;
}

static uint64_t
run_posted(const struct run *r)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < r->job.qps; i++)
		n += r->lane[i].f.posted;
	return n;
}

/** Wait for what is under way on all connections. A Write completes when it is copied. The
 * completion of a Read behind it shows that it was placed. */
static int
run_barrier(struct run *r)
{
	int rc = 0;

	/* Each of the others is acknowledged by its own answer. */
	for (uint32_t i = 0; i < r->job.qps && rc == 0; i++)
		if (r->lane[i].log == NULL && r->lane[i].rpc == NULL)
			rc = flow_barrier(&r->lane[i].f);
	for (uint32_t i = 0; i < r->job.qps && rc == 0; i++)
		rc = client_wait(&r->lane[i], client_is_drained);
	return rc;
}

static bool
is_started(const struct client *c)
{
	return c->started;
}

static bool
is_reported(const struct client *c)
{
	return c->reported;
}

/** Tell the server, on each connection, that the measured part begins or is over. */
static int
run_tell(struct run *r, enum perf_ctl what)
{
	int rc = 0;

	if (!perf_is_told(r->job.test))
		return 0;
	for (uint32_t i = 0; i < r->job.qps && rc == 0; i++)
		rc = flow_tell(r->lane[i].qp, what, 0);
	return rc;
}

/** Begin the measured part: the server has read its counters before the first message comes. */
static int
run_start(struct run *r)
{
	int rc = run_tell(r, PERF_CTL_START);

	for (uint32_t i = 0; perf_is_told(r->job.test) && i < r->job.qps && rc == 0; i++)
		rc = client_wait(&r->lane[i], is_started);
	return rc;
}

/** End the measured part at the server, and add up what it reports. */
static int
run_report(struct run *r, struct perf_report *sum)
{
	int rc = run_tell(r, PERF_CTL_STOP);

	if (!perf_is_told(r->job.test))
		return 0;
	for (uint32_t i = 0; i < r->job.qps && rc == 0; i++) {
		const struct perf_report *p = r->lane[i].report;

		rc = client_wait(&r->lane[i], is_reported);
		sum->ns = p->ns > sum->ns ? p->ns : sum->ns;
		sum->sent_ns = p->sent_ns > sum->sent_ns ? p->sent_ns : sum->sent_ns;
		sum->recv_msgs += p->recv_msgs;
		sum->recv_bytes += p->recv_bytes;
		sum->sent_msgs += p->sent_msgs;
		sum->sent_bytes += p->sent_bytes;
		sum->retrans_segs += p->retrans_segs;
		/* One thread serves all of them. */
		if (i == 0) {
			sum->cpu_ns = p->cpu_ns;
			sum->waited_ns = p->waited_ns;
			sum->cycles = p->cycles;
		}
	}
	return rc;
}

/** Iterations of the poll loop since `from`. */
static void
run_polls(struct run *r, const struct weft_poll_hist *from, struct perf_result *out)
{
	static struct weft_poll_hist h;

	h.size = sizeof(h);
	if (weft_worker_poll_hist(r->w, &h) != 0)
		return;
	weft_poll_hist_since(&h, from);
	out->poll_p50_us = (double)weft_poll_hist_pct_ns(&h, 50) / 1e3;
	out->poll_p99_us = (double)weft_poll_hist_pct_ns(&h, 99) / 1e3;
	out->poll_max_us = (double)h.max_ns / 1e3;
}

/* ---- Bandwidth ---- */

/** The fastest part so far. */
struct peak {
	uint64_t at_ns, n, window;
	double mbps;
};

static void
peak_look(struct peak *p, uint64_t now_ns, uint64_t n, uint32_t size_bytes)
{
	double mbps;

	/* A millisecond, so that the clock does not matter. */
	if (now_ns - p->at_ns < 1000000)
		return;
	mbps = (double)(n - p->n) * size_bytes * 1e3 / (double)(now_ns - p->at_ns);
	if (mbps > p->mbps)
		p->mbps = mbps;
	p->at_ns = now_ns;
	p->n = n;
}

/** Report a second that is over. */
static void
tick_look(struct run *r, struct perf_tick *t, uint64_t t0_ns, uint64_t now_ns, uint64_t done)
{
	t->second_ns = now_ns - t0_ns - t->elapsed_ns;
	if (r->job.tick == NULL || t->second_ns < 1000000000ull)
		return;
	t->messages = done - t->done;
	t->done = done;
	t->elapsed_ns = now_ns - t0_ns;
	r->job.tick(t);
}

/** Post until each connection has done `end`, or the time is over. *early: it was stopped. */
static int
bandwidth_loop(struct run *r, uint64_t end, uint64_t all, struct peak *peak, bool *early)
{
	const uint64_t base = peak->n, t0_ns = peak->at_ns;
	uint64_t until_ns = 0, progress_ns = t0_ns, seen = base;
	struct perf_tick tick = {.job = &r->job, .all = all == UINT64_MAX ? 0 : all - base};

	if (r->job.duration_s != 0)
		until_ns = t0_ns + r->job.duration_s * 1000000000ull;
	while (run_dead(r) == NULL) {
		uint64_t n = run_turn(r, end), now_ns;

		if (n == seen) {
			now_ns = ui_now_ns();
			if (now_ns - progress_ns > STALL_S * 1000000000ull)
				return -ETIMEDOUT;
		} else if (n - peak->n >= peak->window) {
			seen = n;
			now_ns = progress_ns = ui_now_ns();
			peak_look(peak, now_ns, n, r->job.size_bytes);
		} else {
			seen = n;
			continue;
		}
		tick_look(r, &tick, t0_ns, now_ns, n - base);
		if (r->job.stop != NULL && *r->job.stop) {
			*early = true;
			return 0;
		}
		if (until_ns != 0 ? now_ns >= until_ns : n >= all)
			return 0;
	}
	return run_dead(r)->err;
}

static int
run_warm_up(struct run *r)
{
	uint64_t all = (uint64_t)r->job.warmup * r->job.qps;

	while (run_dead(r) == NULL && run_turn(r, r->job.warmup) < all)
		;
	if (run_dead(r) != NULL)
		return run_dead(r)->err;
	return r->job.test == PERF_WRITE || r->job.qps > 1 ? run_barrier(r) : 0;
}

int
measure_bandwidth(struct run *r, struct perf_result *out)
{
	static struct weft_poll_hist h0 = {.size = sizeof(h0)};
	uint64_t end = r->job.duration_s != 0 ? UINT64_MAX : r->job.iterations, base, t0, ns;
	struct perf_self from;
	struct peak peak;
	int rc = run_warm_up(r);

	if (rc != 0)
		return rc;
	base = run_posted(r);
	if (end != UINT64_MAX) /* each has posted as much as the others */
		end += base / r->job.qps;
	rc = run_start(r);
	if (rc != 0)
		return rc;
	weft_worker_poll_hist(r->w, &h0);
	perf_self_now(r->w, &from);
	t0 = from.at_ns;
	peak = (struct peak){.at_ns = t0, .n = base};
	if (r->job.duration_s == 0)
		peak.window = r->job.iterations * r->job.qps / WINDOWS;
	rc = bandwidth_loop(r, end,
	                    end == UINT64_MAX ? UINT64_MAX : base + r->job.iterations * r->job.qps,
	                    &peak, &out->interrupted);
	if (rc == 0) {
		out->iterations = run_posted(r) - base;
		rc = run_barrier(r);
	}
	if (rc != 0)
		return rc;
	out->self = perf_self_since(r->w, &from);
	ns = out->self.at_ns;
	run_polls(r, &h0, out);
	rc = run_report(r, &out->peer);
	out->seconds = (double)ns / 1e9;
	out->avg_mbps = (double)out->iterations * r->job.size_bytes / out->seconds / 1e6;
	out->mmsgs = (double)out->iterations / out->seconds / 1e6;
	out->peak_mbps = peak.mbps;
	if (r->job.both_ways && out->peer.sent_ns != 0) {
		double peer_s = (double)out->peer.sent_ns / 1e9;

		out->avg_mbps += (double)out->peer.sent_bytes / peer_s / 1e6;
		out->mmsgs += (double)out->peer.sent_msgs / peer_s / 1e6;
	}
	if (out->peak_mbps < out->avg_mbps)
		out->peak_mbps = out->avg_mbps;
	out->cycles_per_msg =
	        (double)out->self.cycles / (double)(out->iterations + out->peer.sent_msgs);
	return rc;
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

int
measure_latency(struct run *r, struct perf_result *out)
{
	static struct weft_poll_hist h0 = {.size = sizeof(h0)};
	const bool half = r->job.test == PERF_WRITE || perf_takes_receive(r->job.test);
	uint64_t n = r->job.iterations, t0, t1;
	struct client *c = &r->lane[0];
	struct hist *h = calloc(1, sizeof(*h));
	struct perf_self from;
	int rc = 0;

	if (h == NULL)
		return -ENOMEM;
	for (uint64_t i = 0; i < r->job.warmup && rc == 0; i++)
		rc = client_round(c, i);
	if (rc == 0)
		rc = run_start(r);
	weft_worker_poll_hist(r->w, &h0);
	perf_self_now(r->w, &from);
	t0 = t1 = from.at_ns;
	for (uint64_t i = 0; i < n && rc == 0; i++) {
		uint64_t t = t1;

		rc = client_round(c, r->job.warmup + i);
		t1 = ui_now_ns();
		hist_add(h, t1 - t);
	}
	out->self = perf_self_since(r->w, &from);
	if (rc == 0)
		rc = run_report(r, &out->peer);
	if (rc == 0) {
		run_polls(r, &h0, out);
		out->iterations = n;
		out->seconds = (double)(t1 - t0) / 1e9;
		out->cycles_per_msg = (double)out->self.cycles / (double)n;
		perf_latency(out, h, half);
	} else {
		free(h);
	}
	return rc;
}
