/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The run list of a worker. */

#include "weft_sched.h"

unsigned int
weft_sched_run(struct weft_sched *s, uint64_t now_ns)
{
	s->poll_no++;
	s->slice_left_bytes = WEFT_SLICE_BYTES;
	s->slice_share_bytes = WEFT_SLICE_BYTES / (s->slice_wanting > 1 ? s->slice_wanting : 1);
	if (s->slice_share_bytes == 0)
		s->slice_share_bytes = 1; /* debts are paid, if slowly */
	s->slice_wanting = 0;
	return weft_sched_run_more(s, now_ns);
}

unsigned int
weft_sched_run_more(struct weft_sched *s, uint64_t now_ns)
{
	/*
	 * Tasks stay on the list until their turn, so that any of them may be cancelled by
	 * another; the mark separates them from those queued meanwhile.
	 */
	struct weft_task mark = {.queued = true}, *t;
	unsigned int ran = 0;

	if (TAILQ_EMPTY(&s->run))
		return 0;
	TAILQ_INSERT_TAIL(&s->run, &mark, link);
	while ((t = TAILQ_FIRST(&s->run)) != &mark) {
		weft_task_cancel(s, t);
		ran++;
		t->fn(t, now_ns);
	}
	TAILQ_REMOVE(&s->run, &mark, link);
	return ran;
}
