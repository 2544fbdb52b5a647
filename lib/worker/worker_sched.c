/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The run list of a worker. */

#include "weft_sched.h"

/* Renew the send budget. While tasks are left without a turn, the limit of a turn is halved each
 * poll; afterwards it is doubled each poll. */
static inline void
sched_renew_send(struct weft_sched *s)
{
	uint32_t share = s->send_share_bytes;

	if (unlikely(s->send_behind))
		s->send_share_bytes = RTE_MAX(share / 2, WEFT_SEND_LEAST_BYTES);
	else if (unlikely(share != WEFT_SEND_BYTES))
		s->send_share_bytes =
		        share == 0 ? WEFT_SEND_BYTES : RTE_MIN(2 * share, WEFT_SEND_BYTES);
	s->send_left_bytes = WEFT_SEND_BYTES;
}

static unsigned int
sched_run(struct weft_sched *s, uint64_t now_ns, bool *behind)
{
	/*
	 * A task stays on the list until its turn, so another task may cancel it. The mark
	 * separates the queued tasks from those queued meanwhile. Tasks without a turn stay at the
	 * front of the list.
	 */
	struct weft_task mark = {.queued = true}, *t;
	unsigned int ran = 0;

	*behind = false;
	if (TAILQ_EMPTY(&s->run))
		return 0;
	TAILQ_INSERT_TAIL(&s->run, &mark, link);
	while ((t = TAILQ_FIRST(&s->run)) != &mark) {
		if (unlikely(s->send_left_bytes == 0)) {
			*behind = true;
			break;
		}
		weft_task_cancel(s, t);
		ran++;
		t->fn(t, now_ns);
	}
	TAILQ_REMOVE(&s->run, &mark, link);
	return ran;
}

unsigned int
weft_sched_run(struct weft_sched *s, uint64_t now_ns)
{
	s->poll_no++;
	s->slice_left_bytes = WEFT_SLICE_BYTES;
	s->slice_share_bytes = WEFT_SLICE_BYTES / (s->slice_wanting > 1 ? s->slice_wanting : 1);
	if (s->slice_share_bytes == 0)
		s->slice_share_bytes = 1; /* so that a debt is paid in the end */
	s->slice_wanting = 0;
	sched_renew_send(s);
	return sched_run(s, now_ns, &s->send_behind);
}

unsigned int
weft_sched_run_more(struct weft_sched *s, uint64_t now_ns)
{
	bool unseen; /* not send_behind: these tasks have had a turn in this poll */

	return sched_run(s, now_ns, &unseen);
}
