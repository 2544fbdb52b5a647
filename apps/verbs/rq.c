/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Receive queues that run out. */

#include "rq.h"

#include "cq.h"
#include "engine.h"
#include "qp.h"

#include <stdatomic.h>

#define RQ_MIN     16                     /**< queues that never had so many are not looked at */
#define RQ_HOLD_NS (500 * 1000 * 1000ULL) /**< for one queue, until it has been filled again */
#define RQ_IDLE_NS                                                                                 \
	(2 * 1000 * 1000ULL) /**< a program that posts nothing for so long is not
                                                posting */

/** The queue that the helper waits for. Changed under the engine's lock. */
static _Atomic(struct wv_qp *) low;
/** When the wait began and receives were posted last; 0: the helper has not looked yet. */
static uint64_t since_ns, posted_ns;
static uint32_t posted_last;

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
	if (atomic_load_explicit(&low, memory_order_relaxed) == q)
		atomic_store_explicit(&low, NULL, memory_order_relaxed);
}

bool
wv_rq_low(void)
{
	return atomic_load_explicit(&low, memory_order_relaxed) != NULL;
}

/**
 * Whether the program has completions to take and is on its way: it was not asleep when it was
 * heard of last, or has an event that wakes it. A program that sleeps until something else happens
 * may need the helper for that.
 */
static bool
rq_program_is_at(const struct wv_qp *q)
{
	return wv_cq_unread(q->rcq) != 0 && (!wv_is_waiting() || wv_channel_has_event(q->rcq));
}

bool
wv_rq_hold(uint64_t now_ns)
{
	struct wv_qp *q = atomic_load_explicit(&low, memory_order_relaxed);

	if (q == NULL)
		return false;
	if (since_ns == 0) {
		since_ns = now_ns;
		posted_ns = now_ns - RQ_IDLE_NS;
		posted_last = q->rq.posted;
	}
	if (q->rq.posted != posted_last) {
		posted_last = q->rq.posted;
		posted_ns = now_ns;
	}
	if (q->up && rq_is_low(&q->rq) && now_ns - since_ns < RQ_HOLD_NS)
		return rq_program_is_at(q) || now_ns - posted_ns < RQ_IDLE_NS;
	q->rq.waived = rq_is_low(&q->rq);
	atomic_store_explicit(&low, NULL, memory_order_relaxed);
	return false;
}
