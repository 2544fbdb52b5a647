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
struct weft_mpa_keep;

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
	/** what incomplete FPDUs may take (weft_mpa_keep.h); NULL: no bound for all together */
	struct weft_mpa_keep *mpa_keep;
	struct weft_exec *exec; /**< runs what would block (weft/exec.h); may be NULL */
	uint64_t now_ns;        /**< the clock as this poll read it, once */
	/* Long work on this core is cut into slices, one a poll and task: see struct weft_slice. */
	uint32_t poll_no;          /**< counts weft_sched_run() */
	uint32_t slice_left_bytes; /**< of this poll's WEFT_SLICE_BYTES */
	/** of one task: as many parts as tasks ran out in the poll before */
	uint32_t slice_share_bytes;
	uint32_t slice_wanting; /**< tasks that ran out in this one so far */
	/* Messages on their way out, see WEFT_SEND_BYTES. */
	uint32_t send_left_bytes;  /**< of this poll's */
	uint32_t send_share_bytes; /**< of one turn */
	bool send_behind;          /**< tasks were left for the next poll */
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

/**
 * Octets hashed, written back or the like in one poll by all tasks together: some 5 us where memory
 * is not in the cache, since a poll shall stay below 50 us. Work that cannot be cut (a flush, a
 * read-back) may begin while any of it is left, so a poll does at most one piece more, itself at
 * most so long.
 *
 * A task that took more than its share, because it could not be cut or because shares below
 * WEFT_SLICE_LEAST_BYTES are not worth a turn, owes the rest to the polls that follow and begins
 * nothing until shares have paid for it. So those that come first in every poll leave room for the
 * last.
 */
#define WEFT_SLICE_BYTES       (32U * 1024)
#define WEFT_SLICE_LEAST_BYTES 1024U

/**
 * Octets of messages, each segment of them counted with what it costs by itself, that are copied,
 * summed up and given to TCP in one poll by all streams together: some 10 us. When they are used
 * up, the poll's run phase ends; tasks that had no turn have the first ones in the next. While that
 * happens a turn is made shorter from poll to poll, down to WEFT_SEND_LEAST_BYTES, so that a short
 * message does not wait for a long turn of everybody else.
 */
#define WEFT_SEND_BYTES       (48U * 1024)
#define WEFT_SEND_LEAST_BYTES (4U * 1024)

/** What a turn may send. */
static inline uint32_t
weft_send_left(const struct weft_sched *s)
{
	return s->send_left_bytes < s->send_share_bytes ? s->send_left_bytes : s->send_share_bytes;
}

/** It sent so much, or somewhat more than was left. */
static inline void
weft_send_take(struct weft_sched *s, uint32_t bytes)
{
	s->send_left_bytes -= bytes < s->send_left_bytes ? bytes : s->send_left_bytes;
}

/** Long work of one task; all zero at first. */
struct weft_slice {
	uint32_t poll_no;
	uint32_t used_bytes; /**< in poll_no, and owed from those before */
	bool wanting;
};

/** What the task may still do in this poll of such a share, however many turns it gets. 0: in a
 * later one. */
static inline uint32_t
weft_slice_left_of(const struct weft_sched *s, struct weft_slice *sl, uint32_t share_bytes)
{
	uint32_t left;

	if (sl->poll_no != s->poll_no) {
		uint64_t paid = (uint64_t)(s->poll_no - sl->poll_no) * share_bytes;

		sl->used_bytes = sl->used_bytes > paid ? (uint32_t)(sl->used_bytes - paid) : 0;
		sl->poll_no = s->poll_no;
		sl->wanting = false;
	}
	if (sl->used_bytes >= share_bytes)
		return 0;
	left = share_bytes - sl->used_bytes;
	if (left < WEFT_SLICE_LEAST_BYTES)
		left = WEFT_SLICE_LEAST_BYTES;
	return left < s->slice_left_bytes ? left : s->slice_left_bytes;
}

/** The same of the share that each task has. */
static inline uint32_t
weft_slice_left(const struct weft_sched *s, struct weft_slice *sl)
{
	return weft_slice_left_of(s, sl, s->slice_share_bytes);
}

/** It did so much, or somewhat more than was left. */
static inline void
weft_slice_take(struct weft_sched *s, struct weft_slice *sl, uint32_t bytes)
{
	sl->used_bytes += bytes;
	s->slice_left_bytes -= bytes < s->slice_left_bytes ? bytes : s->slice_left_bytes;
}

/** It has more to do than it may. */
static inline void
weft_slice_want(struct weft_sched *s, struct weft_slice *sl)
{
	if (!sl->wanting)
		s->slice_wanting++;
	sl->wanting = true;
}

/**
 * Begin a poll's run phase: run the tasks that are queued now, once, until what may be sent in a
 * poll is used up; tasks queued meanwhile wait. Returns how many ran.
 */
unsigned int weft_sched_run(struct weft_sched *s, uint64_t now_ns);
/** Another turn for those that are queued now, in the same poll: no new slice. */
unsigned int weft_sched_run_more(struct weft_sched *s, uint64_t now_ns);

#endif /* WEFT_SCHED_H */
