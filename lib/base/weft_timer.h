/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TIMER_H
#define WEFT_TIMER_H

/**
 * @file
 * A hierarchical timer wheel, one per worker. The caller passes the time, so that it also runs in a
 * simulation; rte_timer reads the TSC itself. To arm, move or cancel a timer is O(1). Nothing is
 * allocated. One thread.
 *
 * Slots are WEFT_TIMER_TICK_NS wide. A timer fires in the first weft_timer_run() whose now_ns has
 * reached its deadline: never early, and late by at most the time between two runs. A timer armed
 * inside a callback fires in a later run, not in the present one.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define WEFT_TIMER_TICK_NS 16384ULL /**< 2^14 ns */
#define WEFT_TIMER_LEVELS  5        /**< 5 levels of 64 slots reach 4.8 hours; beyond: one slot */
#define WEFT_TIMER_SLOTS   64

struct weft_timer;
/** Callback, inside weft_timer_run() on the worker. It may arm or cancel any timer, t included. */
typedef void (*weft_timer_fn)(struct weft_timer *t, uint64_t now_ns);

/** A timer, embedded in its owner. Zero-filled and after weft_timer_init() it is idle. */
struct weft_timer {
	LIST_ENTRY(weft_timer) link;
	uint64_t deadline_ns; /**< valid while armed */
	weft_timer_fn fn;
	uint16_t slot; /**< its list: level * SLOTS + slot, or LEVELS * SLOTS for `due` */
	bool armed;
};

LIST_HEAD(weft_timer_list, weft_timer);

struct weft_wheel {
	uint64_t tick;                        /**< tick of the last run */
	uint32_t armed;                       /**< number of armed timers */
	uint64_t occupied[WEFT_TIMER_LEVELS]; /**< a bit per slot that is not empty */
	struct weft_timer_list slot[WEFT_TIMER_LEVELS][WEFT_TIMER_SLOTS];
	/** timers that the present run is about to fire */
	struct weft_timer_list due;
};

void weft_wheel_init(struct weft_wheel *w, uint64_t now_ns);

static inline void
weft_timer_init(struct weft_timer *t, weft_timer_fn fn)
{
	t->fn = fn;
	t->armed = false;
}

/** Arm a timer, or move an armed one. A deadline in the past fires in the next run. */
void weft_timer_arm(struct weft_wheel *w, struct weft_timer *t, uint64_t deadline_ns);
/** Cancel a timer. Does nothing if it is not armed. */
void weft_timer_cancel(struct weft_wheel *w, struct weft_timer *t);
/** Fire the timers whose deadline has passed. Returns how many. */
unsigned int weft_timer_run(struct weft_wheel *w, uint64_t now_ns);
/** A time not later than the earliest deadline: the caller may sleep until then. WEFT_NEVER: no
 * timer is armed. */
uint64_t weft_timer_next(const struct weft_wheel *w);

#endif /* WEFT_TIMER_H */
