/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The table of ranges, an interval tree.
 */

#include <stddef.h>

#include "vol_range.h"

/** Whether `r` stands before the place (off_bytes, seq). */
static bool
range_before(const struct weft_vol_range *r, uint64_t off_bytes, uint64_t seq)
{
	return r->off_bytes != off_bytes ? r->off_bytes < off_bytes : r->seq < seq;
}

static void
range_update(struct weft_vol_range *r)
{
	r->max_end_bytes = r->end_bytes;
	if (r->left != NULL && r->left->max_end_bytes > r->max_end_bytes)
		r->max_end_bytes = r->left->max_end_bytes;
	if (r->right != NULL && r->right->max_end_bytes > r->max_end_bytes)
		r->max_end_bytes = r->right->max_end_bytes;
}

/** Cut a tree before the place (off_bytes, seq). */
static void
range_split(struct weft_vol_range *t, uint64_t off_bytes, uint64_t seq,
            struct weft_vol_range **below, struct weft_vol_range **above)
{
	if (t == NULL) {
		*below = *above = NULL;
	} else if (range_before(t, off_bytes, seq)) {
		range_split(t->right, off_bytes, seq, &t->right, above);
		range_update(t);
		*below = t;
	} else {
		range_split(t->left, off_bytes, seq, below, &t->left);
		range_update(t);
		*above = t;
	}
}

/** Join two trees, of which all of the first stands before all of the second. */
static struct weft_vol_range *
range_join(struct weft_vol_range *below, struct weft_vol_range *above)
{
	if (below == NULL || above == NULL)
		return below == NULL ? above : below;
	if (below->prio > above->prio) {
		below->right = range_join(below->right, above);
		range_update(below);
		return below;
	}
	above->left = range_join(below, above->left);
	range_update(above);
	return above;
}

/** Put a range at its place: below those of a higher priority, above all others. */
static void
range_enter(struct weft_vol_range **at, struct weft_vol_range *r)
{
	struct weft_vol_range *t;

	for (; (t = *at) != NULL && t->prio >= r->prio;) {
		if (t->max_end_bytes < r->end_bytes)
			t->max_end_bytes = r->end_bytes;
		at = range_before(t, r->off_bytes, r->seq) ? &t->right : &t->left;
	}
	range_split(t, r->off_bytes, r->seq, &r->left, &r->right);
	range_update(r);
	*at = r;
}

static void
range_leave(struct weft_vol_range **at, const struct weft_vol_range *r)
{
	struct weft_vol_range *t = *at;

	if (t == NULL)
		return;
	if (t == r) {
		*at = range_join(t->left, t->right);
		return;
	}
	range_leave(range_before(t, r->off_bytes, r->seq) ? &t->right : &t->left, r);
	if (t->max_end_bytes == r->end_bytes)
		range_update(t);
}

/** Whether a later range waits for an earlier one that it overlaps. */
static bool
range_waits(const struct weft_vol_range *earlier, const struct weft_vol_range *later)
{
	if (later->mode == VOL_RANGE_WRITE)
		return earlier->mode != VOL_RANGE_FLUSH;
	return earlier->mode == VOL_RANGE_WRITE;
}

/** Count the ranges of a subtree that the new range waits for. */
static void
range_count(const struct weft_vol_range *t, struct weft_vol_range *r)
{
	if (t == NULL || t->max_end_bytes <= r->off_bytes)
		return;
	range_count(t->left, r);
	if (t->off_bytes >= r->end_bytes)
		return;
	if (t->end_bytes > r->off_bytes && range_waits(t, r))
		r->blockers++;
	range_count(t->right, r);
}

/** Those of a subtree that wait for `gone`, too, wait for one fewer. */
static void
range_free(struct weft_vol_range *t, const struct weft_vol_range *gone,
           struct weft_vol_range **first)
{
	if (t == NULL || t->max_end_bytes <= gone->off_bytes)
		return;
	range_free(t->left, gone, first);
	if (t->off_bytes >= gone->end_bytes)
		return;
	if (t->end_bytes > gone->off_bytes && t->seq > gone->seq && range_waits(gone, t) &&
	    --t->blockers == 0) {
		t->next = *first;
		*first = t;
	}
	range_free(t->right, gone, first);
}

bool
vol_range_add(struct vol_ranges *t, struct weft_vol_range *r)
{
	uint64_t mix;

	r->seq = ++t->seq;
	/* Any number that does not follow the offsets keeps the tree shallow. */
	mix = r->seq * 0x9e3779b97f4a7c15ULL;
	r->prio = (uint32_t)((mix ^ mix >> 29) * 0xbf58476d1ce4e5b9ULL >> 32);
	r->next = NULL;
	r->blockers = 0;
	r->listed = false;
	range_count(t->root, r);
	range_enter(&t->root, r);
	return r->blockers == 0;
}

bool
vol_range_meets(const struct vol_ranges *t, uint64_t off_bytes, uint64_t end_bytes,
                enum vol_range_mode mode)
{
	struct weft_vol_range r = {.off_bytes = off_bytes, .end_bytes = end_bytes, .mode = mode};

	range_count(t->root, &r);
	return r.blockers > 0;
}

static const struct weft_vol_range *
range_met(const struct weft_vol_range *t, const struct weft_vol_range *r)
{
	const struct weft_vol_range *found;

	if (t == NULL || t->max_end_bytes <= r->off_bytes)
		return NULL;
	found = range_met(t->left, r);
	if (found != NULL || t->off_bytes >= r->end_bytes)
		return found;
	if (t->end_bytes > r->off_bytes && range_waits(t, r))
		return t;
	return range_met(t->right, r);
}

const struct weft_vol_range *
vol_range_met(const struct vol_ranges *t, uint64_t off_bytes, uint64_t end_bytes,
              enum vol_range_mode mode)
{
	const struct weft_vol_range r = {
	        .off_bytes = off_bytes, .end_bytes = end_bytes, .mode = mode};

	return range_met(t->root, &r);
}

struct weft_vol_range *
vol_range_del(struct vol_ranges *t, struct weft_vol_range *r)
{
	struct weft_vol_range *first = NULL;

	range_leave(&t->root, r);
	range_free(t->root, r, &first);
	return first;
}
