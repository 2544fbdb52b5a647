/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_WORK_H
#define WEFT_WORK_H

/**
 * @file
 * The work queue of a worker: other threads send items, the worker runs them. Many producers, one
 * consumer. A producer wakes a worker that sleeps. Every call of the public interface that acts on
 * a worker's objects from another thread uses this queue.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/**
 * One item of work: the worker calls fn. The sender embeds the item in an object of its own, so
 * sending allocates nothing and cannot fail. The sender keeps the item until fn runs. fn may free
 * it or send it again.
 */
struct weft_work_item {
	struct weft_work_item *next;
	void (*fn)(struct weft_work_item *item);
};

/** The queue of one worker. Other threads write to its cache line, so the worker's own fields must
 * be on another line. */
struct weft_work_queue {
	struct weft_work_item *_Atomic newest; /**< items sent and not yet run, newest first */
	/** not 0: the worker sleeps or is about to; a sender must write to wake_fd */
	atomic_uint sleeping;
	int wake_fd; /**< eventfd, owned by the worker; -1: none, the worker never sleeps */
};

void weft_work_queue_init(struct weft_work_queue *q);

/**
 * Wake the worker if it sleeps. A sender stores its work first, then reads `sleeping`. A worker
 * that is about to sleep sets `sleeping` first, then checks for work once more. So at least one of
 * the two sees the other's store. Any thread.
 */
void weft_work_wake(struct weft_work_queue *q);

/** Send an item, and wake the worker if it sleeps. Items run in order of sending. Any thread. */
void weft_work_send(struct weft_work_queue *q, struct weft_work_item *item);

/** Whether an item waits. Any thread; on another thread than the worker's it is only a hint. */
static inline bool
weft_work_waits(const struct weft_work_queue *q)
{
	return atomic_load_explicit(&q->newest, memory_order_acquire) != NULL;
}

/** Run the waiting items. Returns how many. Worker's thread only. */
unsigned int weft_work_run(struct weft_work_queue *q);

#endif /* WEFT_WORK_H */
