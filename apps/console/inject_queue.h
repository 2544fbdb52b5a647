/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_INJECT_QUEUE_H
#define WEFT_CONSOLE_INJECT_QUEUE_H

/**
 * @file The faults of one receive or transmit queue: which packets they hit, and those that wait.
 * The queue's worker owns all but the counters. inject_rx.c brings the packets that arrive,
 * inject_tx.c those that leave.
 */

#include <stdatomic.h>
#include <stdint.h>

#include "inject.h"

struct rte_eth_rxtx_callback;
struct rte_mbuf;
struct rte_mempool;
struct weft_alarm;
struct weft_worker;

#define INJECT_HELD  2048u /**< packets held of a queue, of each kind; a power of two */
#define INJECT_BURST 256u

/** Packets that wait, in order. */
struct inject_held {
	struct rte_mbuf *m[INJECT_HELD];
	uint64_t due_ns[INJECT_HELD];
	uint32_t head, n;
};

struct inject_queue {
	struct inject_want want;
	enum inject_way way;
	uint16_t number;
	const struct rte_eth_rxtx_callback *callback; /**< of a receive queue */
	struct rte_mempool *copies; /**< for copies; NULL: the pool of the packet */
	/** Called when packets are due or wait in ready: by an alarm. NULL: the next burst is
	 * enough. */
	void (*on_due)(struct inject_queue *q);
	struct weft_worker *worker; /**< NULL: not known yet, and nothing is held */
	struct weft_alarm *alarm;
	uint64_t random;
	uint64_t seen[INJECT_FAULTS];
	struct inject_held late;  /**< delayed: all by the same time */
	struct inject_held ready; /**< those that go on, in order */
	_Atomic uint64_t packets, done[INJECT_FAULTS], held, undone;
};

/**
 * Put a packet through the faults. What is left of it is in ready, or in late if it is delayed. The
 * queue owns m from here on.
 */
void inject_queue_take(struct inject_queue *q, struct rte_mbuf *m, uint64_t now_ns);
/** Move the packets that are due from late to ready. */
void inject_queue_due(struct inject_queue *q, uint64_t now_ns);
/** Take the oldest packets of ready, at most max; returns how many. */
uint16_t inject_queue_pop(struct inject_queue *q, struct rte_mbuf **out, uint16_t max);
/** Count `packets` more, and see to it that the worker wakes up for those that are held. */
void inject_queue_done(struct inject_queue *q, uint16_t packets, uint64_t now_ns);
/** Free what is held, and cancel the alarm. On the worker, if it is known. */
void inject_queue_end(struct inject_queue *q);

#endif /* WEFT_CONSOLE_INJECT_QUEUE_H */
