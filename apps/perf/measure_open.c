/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Latency under load. Messages start by the clock, one each 1/rate seconds, and not when the
 * one before has been answered. What a slow answer delays is counted in full: a sample is the time
 * from the intended start to the answer, also where the message was posted late because the queue
 * was full. (The common mistake is called coordinated omission.)
 */

#include <errno.h>

#include "client.h"
#include "ui.h"

/** Answers so far: echoes, or completions. */
static uint64_t
open_answers(const struct client *c)
{
	return perf_takes_receive(c->job.test) ? c->f.received : c->f.completed;
}

int
measure_open(struct run *r, uint64_t *elapsed_ns, bool *early)
{
	struct client *c = &r->lane[0];
	const uint64_t n = r->job.iterations, base = c->f.posted;
	const double period_ns = 1e9 / r->job.rate;
	const uint64_t t0_ns = ui_now_ns();
	uint64_t answered = 0, now_ns = t0_ns, progress_ns = t0_ns;

	while (answered < n && !c->dead) {
		uint64_t due = (uint64_t)((double)(now_ns - t0_ns) / period_ns) + 1, seen, wait_ns;

		wait_ns = (uint64_t)((double)due * period_ns) - (now_ns - t0_ns);
		run_turn(r, base + (due < n ? due : n),
		         due < n && wait_ns < LOOP_WAIT_NS ? wait_ns : LOOP_WAIT_NS);
		now_ns = ui_now_ns();
		seen = open_answers(c) - base;
		if (seen != answered || seen == due)
			progress_ns = now_ns;
		else if (now_ns - progress_ns > STALL_S * 1000000000ull) {
			*elapsed_ns = progress_ns - t0_ns;
			return -ETIMEDOUT;
		} else {
			run_look(r, now_ns);
		}
		/* Answers come in the order of the messages. */
		for (; answered < seen; answered++)
			run_sample(r, now_ns - t0_ns - (uint64_t)((double)answered * period_ns));
		run_show(r, answered);
		if (r->job.stop != NULL && *r->job.stop) {
			*early = true;
			*elapsed_ns = now_ns - t0_ns;
			if (answered == 0)
				return -EINTR;
			break;
		}
	}
	*elapsed_ns = now_ns - t0_ns;
	return c->dead ? c->err : 0;
}
