/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Receive queues that run out. */

#include "rq.h"

#include "cq.h"
#include "engine.h"
#include "qp.h"

#include <stdatomic.h>

#define RQ_MIN 16 /**< queues that never had so many are not looked at */
/** For one queue, until it has been filled again; and for all, until the program gives a sign. */
#define RQ_HOLD_NS (500 * 1000 * 1000ULL)
/** A program that posts nothing for so long is not posting. */
#define RQ_IDLE_NS (2 * 1000 * 1000ULL)

/** The queue that the helper waits for. Changed under the engine's lock. */
static _Atomic(struct wv_qp *) low;
/** When the wait began, and when the helper saw that receives had been posted to the queue; 0: it
 * has not looked yet. */
static uint64_t since_ns, posted_ns;
/** Calls that posted receives to the queue, and those of them that the helper knows of. */
static uint32_t posts, posts_seen;
/** For how long the helper was held since the program's last sign. */
static struct rq_held {
	uint64_t signs, ns, at_ns;
	bool now; /**< it is held since at_ns */
} held;

static bool
rq_is_low(const struct wv_rq *r)
{
	return r->most >= RQ_MIN && r->posted <= r->most / 2;
}

void
wv_rq_posted(struct wv_qp *q, uint32_t n)
{
	struct wv_rq *r = &q->rq;

	r->posted += n;
	if (r->posted > r->most)
		r->most = r->posted;
	if (atomic_load_explicit(&low, memory_order_relaxed) == q)
		posts++;
	if (!rq_is_low(r))
		r->waived = false;
}

void
wv_rq_taken(struct wv_qp *q, uint32_t n)
{
	struct wv_rq *r = &q->rq;

	r->posted -= n < r->posted ? n : r->posted;
	if (!q->up || r->waived || !rq_is_low(r) ||
	    atomic_load_explicit(&low, memory_order_relaxed) != NULL)
		return;
	since_ns = 0;
	atomic_store_explicit(&low, q, memory_order_relaxed);
}

void
wv_rq_forget(struct wv_qp *q)
{
	q->rq = (struct wv_rq){0};
	if (atomic_load_explicit(&low, memory_order_relaxed) != q)
		return;
	atomic_store_explicit(&low, NULL, memory_order_relaxed);
	held.now = false;
}

bool
wv_rq_low(void)
{
	return atomic_load_explicit(&low, memory_order_relaxed) != NULL;
}

/**
 * Whether the program is on its way: it has completions to take, or has just posted receives, and
 * was not asleep when it was heard of last, or has an event that wakes it. A program that sleeps
 * until something else happens may need the helper for that.
 */
static bool
rq_program_is_at(const struct wv_qp *q, uint64_t now_ns)
{
	if (wv_cq_unread(q->rcq) != 0 && wv_channel_has_event(q->rcq))
		return true;
	return !wv_is_waiting() && (wv_cq_unread(q->rcq) != 0 || now_ns - posted_ns < RQ_IDLE_NS);
}

/** Whether the queue is waited for. If not, and not only for now, it is no longer `low`. */
static bool
rq_waits(struct wv_qp *q, uint64_t now_ns)
{
	if (since_ns == 0) {
		since_ns = now_ns;
		posted_ns = now_ns - RQ_IDLE_NS;
		posts_seen = posts;
	}
	if (posts != posts_seen) {
		posts_seen = posts;
		posted_ns = now_ns;
	}
	if (q->up && rq_is_low(&q->rq) && now_ns - since_ns < RQ_HOLD_NS)
		return rq_program_is_at(q, now_ns);
	q->rq.waived = rq_is_low(&q->rq);
	atomic_store_explicit(&low, NULL, memory_order_relaxed);
	return false;
}

bool
wv_rq_hold(uint64_t now_ns, uint64_t signs)
{
	struct wv_qp *q = atomic_load_explicit(&low, memory_order_relaxed);

	if (signs != held.signs)
		held = (struct rq_held){.signs = signs};
	if (held.now)
		held.ns += now_ns - held.at_ns;
	held.at_ns = now_ns;
	held.now = q != NULL && held.ns < RQ_HOLD_NS && rq_waits(q, now_ns);
	return held.now;
}
