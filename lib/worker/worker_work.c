/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The work queue of a worker. */

#include "weft_work.h"

#include <unistd.h>

#include "weft_base.h"

void
weft_work_queue_init(struct weft_work_queue *q)
{
	atomic_init(&q->newest, NULL);
	atomic_init(&q->sleeping, 0);
	q->wake_fd = -1;
}

void
weft_work_wake(struct weft_work_queue *q)
{
	uint64_t one = 1;

	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&q->sleeping, memory_order_relaxed) && q->wake_fd >= 0 &&
	    write(q->wake_fd, &one, sizeof(one)) < 0) {
		/* EAGAIN: the counter is full, so the eventfd is already readable. */
	}
}

void
weft_work_send(struct weft_work_queue *q, struct weft_work_item *item)
{
	struct weft_work_item *old = atomic_load_explicit(&q->newest, memory_order_relaxed);

	do
		item->next = old;
	while (!atomic_compare_exchange_weak_explicit(&q->newest, &old, item, memory_order_release,
	                                              memory_order_relaxed));
	/* If an item was already waiting, its sender wakes the worker. */
	if (old == NULL)
		weft_work_wake(q);
}

unsigned int
weft_work_run(struct weft_work_queue *q)
{
	struct weft_work_item *item, *next, *oldest = NULL;
	unsigned int n = 0;

	if (likely(atomic_load_explicit(&q->newest, memory_order_relaxed) == NULL))
		return 0;
	item = atomic_exchange_explicit(&q->newest, NULL, memory_order_acquire);
	for (; item != NULL; item = next) {
		next = item->next;
		item->next = oldest;
		oldest = item;
	}
	for (item = oldest; item != NULL; item = next) {
		next = item->next; /* fn may free it, or send it again */
		item->fn(item);
		n++;
	}
	return n;
}
