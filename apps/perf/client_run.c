/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The connections of a run together: filled, polled, waited for, told of begin and end. */

#include <errno.h>

#include "client.h"
#include "client_volume.h"
#include "client_wait.h"

/** The connection that has failed, or NULL. */
const struct client *
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
	if (perf_is_volume(c->job.test)) {
		client_volume_fill(c, end);
		return;
	}
	rc = flow_fill(&c->f, end);
	if (rc < 0) {
		c->dead = true;
		c->err = rc;
	}
}

void
run_turn(struct run *r, uint64_t end, uint64_t wait_ns)
{
	for (uint32_t i = 0; i < r->job.qps; i++) {
		struct client *c = &r->lane[i];
		uint64_t before;

		/* Nothing but a completion ends a sleep, so all that has room is posted. */
		do {
			before = c->f.posted;
			lane_fill(c, end);
		} while (r->loop.events && c->f.posted != before && !c->dead);
	}
	loop_turn(&r->loop, wait_ns);
}

int
run_failed_elsewhere(const struct run *r)
{
	return atomic_load_explicit(&r->crew->failed, memory_order_relaxed) != 0 ? -ECANCELED : 0;
}

int
run_meet(struct run *r)
{
	struct crew *crew = r->crew;
	const uint32_t all = ++r->meets * crew->n;

	atomic_fetch_add_explicit(&crew->arrived, 1, memory_order_acq_rel);
	/* The worker turns on: others may depend on it for their packets. */
	while (atomic_load_explicit(&crew->arrived, memory_order_acquire) < all) {
		if (run_failed_elsewhere(r) != 0)
			return -ECANCELED;
		loop_turn(&r->loop, CREW_WAIT_NS);
	}
	return 0;
}

int
crew_srq_post(const struct crew *crew)
{
	struct weft_sge sge = {crew->srq_mem, crew->job->size_bytes < 8 ? 8 : crew->job->size_bytes,
	                       0};
	struct weft_recv_wr wr = {.sg_list = &sge, .num_sge = 1};

	return weft_post_srq_recv(crew->srq, &wr, 1);
}

void
run_sample(struct run *r, uint64_t ns)
{
	if (r->samples != NULL && r->hist->n < r->job.iterations)
		r->samples[r->hist->n] = ns;
	hist_add(r->hist, ns);
}

void
run_begun(struct run *r, uint64_t at_ns)
{
	r->begin_ns = at_ns;
	if (r == r->crew->run)
		atomic_store_explicit(&r->crew->begun_ns, at_ns, memory_order_release);
}

/** Time between two looks, each of which takes a lock. */
#define LOOK_NS 10000000ull

void
run_look(struct run *r, uint64_t now_ns)
{
	if (now_ns - r->looked_ns < LOOK_NS)
		return;
	r->looked_ns = now_ns;
	for (uint32_t i = 0; i < r->job.qps; i++)
		client_look(&r->lane[i]);
}

uint64_t
crew_shown(const struct crew *crew)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < crew->n; i++)
		n += atomic_load_explicit(&crew->run[i].shown, memory_order_relaxed);
	return n;
}

struct run_count
run_count(const struct run *r)
{
	struct run_count n = {0};

	for (uint32_t i = 0; i < r->job.qps; i++) {
		n.posted += r->lane[i].f.posted;
		n.done += r->lane[i].f.completed;
	}
	return n;
}

/** Wait for what is under way on all connections. A Write completes when it is copied. The
 * completion of a Read behind it shows that it was placed. */
int
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

void
report_add(struct perf_report *sum, const struct perf_report *p)
{
	sum->sent_ns = p->sent_ns > sum->sent_ns ? p->sent_ns : sum->sent_ns;
	sum->recv_msgs += p->recv_msgs;
	sum->recv_bytes += p->recv_bytes;
	sum->out_msgs += p->out_msgs;
	sum->out_bytes += p->out_bytes;
	sum->sent_msgs += p->sent_msgs;
	sum->sent_bytes += p->sent_bytes;
	sum->retrans_segs += p->retrans_segs;
	sum->verified += p->verified;
	sum->bad += p->bad;
	sum->mpa_rev = p->mpa_rev;
	sum->crc = p->crc;
	sum->rx_markers = p->rx_markers;
	sum->tx_markers = p->tx_markers;
	/* One thread serves all connections of a worker; the longest time has all of it. */
	if (p->ns > sum->ns) {
		sum->ns = p->ns;
		sum->cpu_ns = p->cpu_ns;
		sum->waited_ns = p->waited_ns;
		sum->cycles = p->cycles;
		sum->busy_ns = p->busy_ns;
	}
}

/** Tell the server, on each connection, that the measured part begins or is over. */
static int
run_tell(struct run *r, enum perf_ctl what, uint64_t value)
{
	int rc = 0;

	if (!perf_is_told(r->job.test))
		return 0;
	for (uint32_t i = 0; i < r->job.qps && rc == 0; i++)
		rc = flow_tell(r->lane[i].qp, what, value);
	return rc;
}

/** Begin the measured part: the server has read its counters before the first message comes. What
 * this side counts begins a message earlier, because the server may send as soon as it is told. */
int
run_start(struct run *r, uint64_t n)
{
	struct weft_qp_info info;
	int rc;

	for (uint32_t i = 0; i < r->job.qps; i++)
		r->lane[i].done_before = r->lane[i].f.completed;
	for (uint32_t i = 0; i < r->job.qps; i++)
		if (r->lane[i].qp != NULL) {
			r->lane[i].started = r->lane[i].reported = false;
			weft_qp_query(r->lane[i].qp, &info);
			r->lane[i].resent_before = info.retrans_segs;
			r->lane[i].before = (struct perf_moved){info.sent_msgs, info.sent_bytes,
			                                        info.recv_msgs, info.recv_bytes};
		}
	rc = run_tell(r, PERF_CTL_START, n);
	for (uint32_t i = 0; perf_is_told(r->job.test) && i < r->job.qps && rc == 0; i++)
		rc = client_wait(&r->lane[i], is_started);
	return rc;
}

/** Add what a connection has moved since run_start(). */
static void
run_moved(struct perf_moved *sum, const struct client *c)
{
	struct weft_qp_info now;

	weft_qp_query(c->qp, &now);
	sum->out_msgs += now.sent_msgs - c->before.out_msgs;
	sum->out_bytes += now.sent_bytes - c->before.out_bytes;
	sum->in_msgs += now.recv_msgs - c->before.in_msgs;
	sum->in_bytes += now.recv_bytes - c->before.in_bytes;
}

bool
run_is_reported(const struct run *r)
{
	for (uint32_t i = 0; i < r->job.qps; i++)
		if (!r->lane[i].reported)
			return false;
	return true;
}

int
run_collect(struct run *r)
{
	int rc = 0;

	for (uint32_t i = 0; i < r->job.qps && rc == 0; i++) {
		rc = r->lane[i].reported ? 0 : client_wait(&r->lane[i], is_reported);
		if (rc == 0 && r->lane[i].report->worker >= PERF_MAX_WORKERS)
			rc = -EPROTO;
		if (rc == 0)
			report_add(&r->by[r->lane[i].report->worker], r->lane[i].report);
		/* Nothing of the server's is under way: its report came behind all of it. */
		if (rc == 0)
			run_moved(&r->out.moved, &r->lane[i]);
	}
	return rc;
}

int
run_stop(struct run *r)
{
	return run_tell(r, PERF_CTL_STOP, 0);
}

int
run_report(struct run *r)
{
	int rc = run_stop(r);

	return perf_is_told(r->job.test) && rc == 0 ? run_collect(r) : rc;
}
