/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_SCHED_H
#define WEFT_SCHED_H

/**
 * @file
 * The run list of a worker: tasks that need a turn in this or the next poll (a QP with segments to
 * send, a Verify with slices left). The same structure holds the services of a worker that layers
 * below the engine use. Worker's thread only.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "weft_base.h"
#include "weft_timer.h"

struct weft_exec;
struct weft_mpa_keep;

struct weft_task;
/** One turn of a task, at most tens of microseconds long. The function queues the task again if it
 * needs another turn in the next poll. */
typedef void (*weft_task_fn)(struct weft_task *t, uint64_t now_ns);

/** A task, embedded in its owner, which cancels it before it is freed. */
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
	struct weft_rand rand;     /**< source of random numbers */
	/** memory budget of incomplete FPDUs (weft_mpa_keep.h); NULL: no common limit */
	struct weft_mpa_keep *mpa_keep;
	struct weft_exec *exec; /**< runs operations that would block (weft/exec.h); may be NULL */
	uint64_t now_ns;        /**< time of this poll */
	/* long work: struct weft_slice */
	uint32_t poll_no;          /**< counts calls of weft_sched_run() */
	uint32_t slice_left_bytes; /**< left of WEFT_SLICE_BYTES in this poll */
	/** share of one task: WEFT_SLICE_BYTES by the tasks that wanted more in the last poll */
	uint32_t slice_share_bytes;
	uint32_t slice_wanting; /**< tasks that wanted more in this poll so far */
	/* outbound messages: WEFT_SEND_BYTES */
	uint32_t send_left_bytes;  /**< left in this poll */
	uint32_t send_share_bytes; /**< limit of one turn */
	bool send_behind;          /**< tasks had no turn in this poll */
};

static inline void
weft_task_init(struct weft_task *t, weft_task_fn fn)
{
	t->fn = fn;
	t->queued = false;
}

/** Give the task a turn: in this poll if called before the run phase, else in the next. */
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
 * The slice: octets that all tasks together hash, write back and the like in one poll. It takes
 * about 5 us when the memory is not in the cache; a poll is to stay below 50 us. Work that cannot
 * be divided (a flush, a read-back) may start while any of the slice is left. So a poll does at
 * most one such piece beyond the slice, of at most WEFT_SLICE_BYTES.
 *
 * A task may exceed its share: its work cannot be divided, or the share is below
 * WEFT_SLICE_LEAST_BYTES, the least that is worth a turn. It then owes the excess, and starts no
 * work until its shares of the following polls have paid for it. So the first tasks of every poll
 * leave some of the slice for the last.
 */
#define WEFT_SLICE_BYTES       (32U * 1024)
#define WEFT_SLICE_LEAST_BYTES 1024U

/**
 * Octets of messages that all streams together copy, checksum and give to TCP in one poll, about
 * 10 us. Each segment adds a fixed cost. When they are used up, the run phase ends; the tasks
 * without a turn come first in the next poll. While that happens, turns become shorter from poll to
 * poll, down to WEFT_SEND_LEAST_BYTES, so that a short message does not wait for long turns of all
 * other streams.
 */
#define WEFT_SEND_BYTES       (48U * 1024)
#define WEFT_SEND_LEAST_BYTES (4U * 1024)

/** Octets that this turn may send. */
static inline uint32_t
weft_send_left(const struct weft_sched *s)
{
	return s->send_left_bytes < s->send_share_bytes ? s->send_left_bytes : s->send_share_bytes;
}

/** Charge octets that a turn has sent. They may exceed what was left. */
static inline void
weft_send_take(struct weft_sched *s, uint32_t bytes)
{
	s->send_left_bytes -= bytes < s->send_left_bytes ? bytes : s->send_left_bytes;
}

/** Long work of one task. Zero-filled at first. */
struct weft_slice {
	uint32_t poll_no;
	uint32_t used_bytes; /**< used in poll_no, and owed from earlier polls */
	bool wanting;        /**< the task wanted more in poll_no */
};

/** Octets of the share that the task may still work on in this poll, over all its turns. 0: none
 * before a later poll. */
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

/** weft_slice_left_of() with the share of each task in this poll. */
static inline uint32_t
weft_slice_left(const struct weft_sched *s, struct weft_slice *sl)
{
	return weft_slice_left_of(s, sl, s->slice_share_bytes);
}

/** Charge octets of long work. They may exceed what was left. */
static inline void
weft_slice_take(struct weft_sched *s, struct weft_slice *sl, uint32_t bytes)
{
	sl->used_bytes += bytes;
	s->slice_left_bytes -= bytes < s->slice_left_bytes ? bytes : s->slice_left_bytes;
}

/** The task has more to do than its share: it counts when the next poll's shares are set. */
static inline void
weft_slice_want(struct weft_sched *s, struct weft_slice *sl)
{
	if (!sl->wanting)
		s->slice_wanting++;
	sl->wanting = true;
}

/**
 * Begin a poll's run phase with a new slice and send budget. Runs each task that is queued now
 * once, until the send budget is used up. Tasks queued meanwhile wait. Returns how many ran.
 */
unsigned int weft_sched_run(struct weft_sched *s, uint64_t now_ns);
/** Run the tasks that are queued now, in the same poll, without a new slice or send budget. */
unsigned int weft_sched_run_more(struct weft_sched *s, uint64_t now_ns);

#endif /* WEFT_SCHED_H */
