/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_SCHED_H
#define WEFT_SCHED_H

/**
 * @file
 * The run list of a worker: work that wants a turn in this or the next poll
 * (a QP with segments to send, a Verify with slices left, a Flush to ask after).
 * Also the worker's shared services, so that layers below the engine need not
 * know the engine. Single-threaded: everything here belongs to one worker.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "weft_base.h"
#include "weft_timer.h"

struct weft_exec;

struct weft_task;
/** One turn, bounded in time (tens of microseconds). Queue again for another turn next poll. */
typedef void (*weft_task_fn)(struct weft_task *t, uint64_t now_ns);

/** Embed in the owner; cancel before freeing the owner. */
struct weft_task {
	TAILQ_ENTRY(weft_task) link;
	weft_task_fn fn;
	bool queued;
};

TAILQ_HEAD(weft_task_list, weft_task);

/** Services of one worker to the layers below it. */
struct weft_sched {
	struct weft_task_list run; /**< tasks for this poll's turn */
	struct weft_wheel wheel;   /**< timers */
	struct weft_rand rand;     /**< randomness of this stack */
	struct weft_exec *exec;    /**< runs what would block (weft_persist.h); may be NULL */
	uint64_t now_ns;           /**< the clock as this poll read it, once */
};

static inline void
weft_task_init(struct weft_task *t, weft_task_fn fn)
{
	t->fn = fn;
	t->queued = false;
}

/** Give the task a turn: in this poll if it is queued before the run phase, else in the next. */
static inline void
weft_task_queue(struct weft_sched *s, struct weft_task *t)
{
	if (!t->queued) {
		t->queued = true;
		TAILQ_INSERT_TAIL(&s->run, t, link);
	}
}

static inline void
weft_task_cancel(struct weft_sched *s, struct weft_task *t)
{
	if (t->queued) {
		t->queued = false;
		TAILQ_REMOVE(&s->run, t, link);
	}
}

/** Run every task that is queued now, once; tasks queued meanwhile wait. Returns how many ran. */
unsigned int weft_sched_run(struct weft_sched *s, uint64_t now_ns);

#endif /* WEFT_SCHED_H */
