/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TIMER_H
#define WEFT_TIMER_H

/**
 * @file
 * A hierarchical timer wheel, one per worker, on a clock that is handed in.
 * rte_timer reads the TSC itself, so it cannot run in a simulation; hence ours.
 * Arming, moving and cancelling are O(1); nothing allocates. One thread.
 *
 * Slots are WEFT_TIMER_TICK_NS wide, but a timer fires at the first run whose now_ns
 * is at or past its deadline: never early, late only by the distance between polls.
 * A timer armed inside a callback fires in a later run, never in the same one.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define WEFT_TIMER_TICK_NS 16384ULL /**< 2^14 ns */
#define WEFT_TIMER_LEVELS  5        /**< five wheels of 64 slots reach 4.8 hours; later ones park */
#define WEFT_TIMER_SLOTS   64

struct weft_timer;
/** Runs on the worker, inside weft_timer_run(); may arm or cancel any timer, this one included. */
typedef void (*weft_timer_fn)(struct weft_timer *t, uint64_t now_ns);

/** Embed in the owner; zero-filled plus weft_timer_init() is a valid idle timer. */
struct weft_timer {
	LIST_ENTRY(weft_timer) link;
	uint64_t deadline_ns; /**< meaningful while armed */
	weft_timer_fn fn;
	uint16_t slot; /**< where it hangs: level * SLOTS + slot, or LEVELS * SLOTS when due */
	bool armed;
};

LIST_HEAD(weft_timer_list, weft_timer);

struct weft_wheel {
	uint64_t tick;                        /**< the last tick that has been run */
	uint32_t armed;                       /**< timers pending */
	uint64_t occupied[WEFT_TIMER_LEVELS]; /**< bit per non-empty slot */
	struct weft_timer_list slot[WEFT_TIMER_LEVELS][WEFT_TIMER_SLOTS];
	/** taken off their slots, about to fire in the run under way */
	struct weft_timer_list due;
};

void weft_wheel_init(struct weft_wheel *w, uint64_t now_ns);

static inline void
weft_timer_init(struct weft_timer *t, weft_timer_fn fn)
{
	t->fn = fn;
	t->armed = false;
}

/** Arm, or move when armed already. A deadline in the past fires at the next run. */
void weft_timer_arm(struct weft_wheel *w, struct weft_timer *t, uint64_t deadline_ns);
/** No-op when not armed. */
void weft_timer_cancel(struct weft_wheel *w, struct weft_timer *t);
/** Fire everything due; returns how many fired. */
unsigned int weft_timer_run(struct weft_wheel *w, uint64_t now_ns);
/** A time not later than the earliest deadline (so a caller may sleep until it); WEFT_NEVER when
 * idle. */
uint64_t weft_timer_next(const struct weft_wheel *w);

#endif /* WEFT_TIMER_H */
