/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Bandwidth from the server to the client. The server sends as many messages as it is told
 * to, or until it is told to stop, and reports how many these were and how long they took; this
 * side takes them.
 */

#include <errno.h>

#include "client.h"
#include "link_use.h"
#include "ui.h"

/** Messages that this side has seen: of a Write or a Read of the server's it sees none. */
static uint64_t
reversed_seen(const struct run *r)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < r->job.qps; i++)
		n += r->lane[i].f.received;
	return n;
}

/** Take what the server sends, until it has reported or a time is over; then let it stop. */
static int
reversed_take(struct run *r, uint64_t until_ns, struct perf_result *out)
{
	while (!run_is_reported(r)) {
		const uint64_t now_ns = ui_now_ns();

		run_look(r, now_ns);
		if (run_dead(r) != NULL)
			return run_dead(r)->err;
		if (run_failed_elsewhere(r) != 0)
			return -ECANCELED;
		out->interrupted = r->job.stop != NULL && *r->job.stop;
		if (out->interrupted || now_ns >= until_ns)
			return run_stop(r);
		loop_turn(&r->loop, LOOP_WAIT_NS);
		run_show(r, reversed_seen(r));
	}
	return 0;
}

int
measure_reversed(struct run *r, struct perf_result *out)
{
	const struct perf_job *j = &r->job;
	struct link_count link = {0};
	struct perf_self from;
	uint64_t until_ns = UINT64_MAX;
	int rc = 0;

	if (j->warmup > 0) {
		rc = run_start(r, j->warmup);
		if (rc == 0)
			rc = reversed_take(r, UINT64_MAX, out);
		if (rc == 0 && out->interrupted)
			rc = -EINTR;
	}
	if (rc == 0)
		rc = run_meet(r);
	if (rc != 0)
		return rc;
	if (r == r->crew->run)
		(void)link_now(r->crew->side, &link);
	perf_self_now(&r->loop, &from);
	run_begun(r, from.at_ns);
	if (j->duration_s != 0)
		until_ns = from.at_ns + j->duration_s * 1000000000ull;
	rc = run_start(r, j->duration_s != 0 ? 0 : j->iterations);
	if (rc == 0)
		rc = reversed_take(r, until_ns, out);
	if (rc == 0)
		rc = run_collect(r);
	out->self = perf_self_since(&r->loop, &from);
	r->end_ns = from.at_ns + out->self.at_ns;
	out->used_mbps = link_used_mbps(r->crew->side, &link);
	return rc;
}
