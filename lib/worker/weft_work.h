/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_WORK_H
#define WEFT_WORK_H

/**
 * @file
 * Work that other threads leave for a worker: a queue of many producers and one consumer, and how a
 * producer ends the worker's sleep. Every call of the public interface that acts on a worker's
 * objects goes through it, unless the caller is the worker's own thread.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/**
 * Something for the worker to do. It is embedded in an object of the sender, so that sending never
 * allocates and cannot fail. The sender keeps it until fn has begun; fn may free it or send it
 * again.
 */
struct weft_work_item {
	struct weft_work_item *next;
	void (*fn)(struct weft_work_item *item);
};

/** One worker's. Its cache line is written by other threads: keep the owner's fields off it. */
struct weft_work_queue {
	struct weft_work_item *_Atomic newest; /**< the list of what was sent, newest first */
	/** the worker sleeps, or is about to: wake_fd must be written */
	atomic_uint sleeping;
	int wake_fd; /**< an eventfd of the owner's; -1: none, the worker never sleeps */
};

void weft_work_queue_init(struct weft_work_queue *q);

/**
 * End the worker's sleep after something was left for it to find. A worker that is about to sleep
 * sets `sleeping` first and then looks for work once more; a sender leaves its work first and then
 * looks at `sleeping`. So at least one of the two sees the other. Any thread.
 */
void weft_work_wake(struct weft_work_queue *q);

/** Send an item, and wake the worker if it sleeps. Items run in the order in which they were sent.
 * Any thread. */
void weft_work_send(struct weft_work_queue *q, struct weft_work_item *item);

/** Whether an item waits. Any thread; only a hint for those that are not the worker's. */
static inline bool
weft_work_waits(const struct weft_work_queue *q)
{
	return atomic_load_explicit(&q->newest, memory_order_acquire) != NULL;
}

/** Run the items that wait; returns how many. The worker's thread only. */
unsigned int weft_work_run(struct weft_work_queue *q);

#endif /* WEFT_WORK_H */
