/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The timer wheel. */

#include <assert.h>

#include "weft_base.h"
#include "weft_timer.h"

/*
 * Ticks are numbers of base 64. A timer is in the level of the highest digit in which its tick
 * differs from w->tick, and in the slot of that digit. So every timer of a level is earlier than
 * every timer of the levels above. On every level only slots after the current digit are in use,
 * with two exceptions. The current slot of level 0 holds the timers of the current tick and the
 * late ones. Slot 0 of the top level, which is never after the current digit, holds the timers
 * beyond the top level's reach.
 */

#define TIMER_TICK_BITS  14
#define TIMER_SLOT_BITS  6
#define TIMER_LEVEL_TOP  (WEFT_TIMER_LEVELS - 1)
#define TIMER_REACH_BITS (TIMER_SLOT_BITS * WEFT_TIMER_LEVELS)
#define TIMER_SLOT_DUE   (WEFT_TIMER_LEVELS * WEFT_TIMER_SLOTS)

static_assert(1ULL << TIMER_TICK_BITS == WEFT_TIMER_TICK_NS, "tick");
static_assert(1 << TIMER_SLOT_BITS == WEFT_TIMER_SLOTS, "slots");

static inline unsigned int
timer_digit(uint64_t tick, unsigned int level)
{
	return (tick >> (TIMER_SLOT_BITS * level)) & (WEFT_TIMER_SLOTS - 1);
}

void
weft_wheel_init(struct weft_wheel *w, uint64_t now_ns)
{
	memset(w, 0, sizeof(*w));
	w->tick = now_ns >> TIMER_TICK_BITS;
}

/* Put t, which is on no list, into the slot of its deadline as seen from w->tick. */
static void
timer_place(struct weft_wheel *w, struct weft_timer *t)
{
	uint64_t tick = RTE_MAX(t->deadline_ns >> TIMER_TICK_BITS, w->tick);
	uint64_t diff = tick ^ w->tick;
	unsigned int level = 0, slot;

	if (diff != 0)
		level = (63 - __builtin_clzll(diff)) / TIMER_SLOT_BITS;
	if (level < WEFT_TIMER_LEVELS) {
		slot = timer_digit(tick, level);
	} else {
		level = TIMER_LEVEL_TOP;
		slot = 0;
	}
	t->slot = level * WEFT_TIMER_SLOTS + slot;
	w->occupied[level] |= 1ULL << slot;
	LIST_INSERT_HEAD(&w->slot[level][slot], t, link);
}

static void
timer_unplace(struct weft_wheel *w, struct weft_timer *t)
{
	unsigned int level = t->slot / WEFT_TIMER_SLOTS, slot = t->slot % WEFT_TIMER_SLOTS;

	LIST_REMOVE(t, link);
	if (t->slot != TIMER_SLOT_DUE && LIST_EMPTY(&w->slot[level][slot]))
		w->occupied[level] &= ~(1ULL << slot);
}

void
weft_timer_arm(struct weft_wheel *w, struct weft_timer *t, uint64_t deadline_ns)
{
	if (t->armed) {
		timer_unplace(w, t);
	} else {
		t->armed = true;
		w->armed++;
	}
	t->deadline_ns = deadline_ns;
	timer_place(w, t);
}

void
weft_timer_cancel(struct weft_wheel *w, struct weft_timer *t)
{
	if (!t->armed)
		return;
	timer_unplace(w, t);
	t->armed = false;
	w->armed--;
}

/*
 * The first occupied slot after the current tick. Returns its first tick, UINT64_MAX if there is
 * none. Lower levels are earlier, so the search ends at the first level with one.
 */
static uint64_t
timer_next_slot(const struct weft_wheel *w, unsigned int *level, unsigned int *slot)
{
	*level = TIMER_LEVEL_TOP;
	*slot = 0;
	for (unsigned int l = 0; l < WEFT_TIMER_LEVELS; l++) {
		unsigned int shift = TIMER_SLOT_BITS * l;
		uint64_t behind = w->occupied[l] & (~1ULL << timer_digit(w->tick, l));

		if (behind != 0) {
			uint64_t base = w->tick >> (shift + TIMER_SLOT_BITS)
			                                   << (shift + TIMER_SLOT_BITS);

			*level = l;
			*slot = __builtin_ctzll(behind);
			return base | (uint64_t)*slot << shift;
		}
	}
	if ((w->occupied[TIMER_LEVEL_TOP] & 1) == 0)
		return UINT64_MAX;
	return ((w->tick >> TIMER_REACH_BITS) + 1) << TIMER_REACH_BITS;
}

/* Move the due timers in the slot of w->tick to the end of the due list. Returns its new end. */
static struct weft_timer *
timer_collect(struct weft_wheel *w, uint64_t now_ns, struct weft_timer *last)
{
	unsigned int slot = timer_digit(w->tick, 0);
	struct weft_timer *t, *next;

	for (t = LIST_FIRST(&w->slot[0][slot]); t != NULL; t = next) {
		next = LIST_NEXT(t, link);
		if (t->deadline_ns > now_ns)
			continue;
		timer_unplace(w, t);
		t->slot = TIMER_SLOT_DUE;
		if (last == NULL)
			LIST_INSERT_HEAD(&w->due, t, link);
		else
			LIST_INSERT_AFTER(last, t, link);
		last = t;
	}
	return last;
}

/* Move the timers of a slot to lower levels: w->tick has reached the slot's first tick. */
static void
timer_cascade(struct weft_wheel *w, unsigned int level, unsigned int slot)
{
	struct weft_timer *t = LIST_FIRST(&w->slot[level][slot]), *next;

	/* Empty the slot first: timers still beyond reach go back into it. */
	LIST_INIT(&w->slot[level][slot]);
	w->occupied[level] &= ~(1ULL << slot);
	for (; t != NULL; t = next) {
		next = LIST_NEXT(t, link);
		timer_place(w, t);
	}
}

unsigned int
weft_timer_run(struct weft_wheel *w, uint64_t now_ns)
{
	uint64_t until = RTE_MAX(now_ns >> TIMER_TICK_BITS, w->tick);
	struct weft_timer *t, *last = NULL;
	unsigned int fired = 0;

	if (w->armed == 0) {
		w->tick = until;
		return 0;
	}
	/* All due timers leave the wheel before a callback can change it. */
	for (;;) {
		unsigned int level, slot;
		uint64_t tick;

		last = timer_collect(w, now_ns, last);
		tick = timer_next_slot(w, &level, &slot);
		if (tick > until)
			break;
		w->tick = tick;
		if (level > 0)
			timer_cascade(w, level, slot);
	}
	/* No slot between w->tick and `until` is occupied, so none is skipped. */
	w->tick = until;
	while ((t = LIST_FIRST(&w->due)) != NULL) {
		LIST_REMOVE(t, link);
		t->armed = false;
		w->armed--;
		fired++;
		t->fn(t, now_ns);
	}
	return fired;
}

uint64_t
weft_timer_next(const struct weft_wheel *w)
{
	const struct weft_timer_list *list = &w->slot[0][timer_digit(w->tick, 0)];
	uint64_t next = WEFT_NEVER;
	const struct weft_timer *t;
	unsigned int level, slot;
	uint64_t tick;

	if (!LIST_EMPTY(&w->due)) {
		LIST_FOREACH (t, &w->due, link)
			next = RTE_MIN(next, t->deadline_ns);
		return next;
	}
	if (LIST_EMPTY(list)) {
		tick = timer_next_slot(w, &level, &slot);
		if (tick == UINT64_MAX)
			return WEFT_NEVER;
		if (level > 0) /* not after the deadline: the run then cascades the slot */
			return tick << TIMER_TICK_BITS;
		list = &w->slot[0][slot];
	}
	LIST_FOREACH (t, list, link)
		next = RTE_MIN(next, t->deadline_ns);
	return next;
}
