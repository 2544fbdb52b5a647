/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_ROUND_H
#define WEFT_APPS_TARGET_ROUND_H

/** @file A function on each worker, for which the program's thread waits. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct target;

/** What one worker does: the first member of its argument. */
struct target_round {
	atomic_uint *left;
	bool ok; /**< fn says so */
};

/**
 * Call fn on each worker, which may be stopped, with its element of `parts`, an array of elements
 * of `bytes` octets. fn ends with target_round_done(). False: one of them was not ok. The program's
 * thread.
 */
bool target_round(struct target *t, void *parts, size_t bytes, void (*fn)(void *part));

/** The worker is done with its part. */
static inline void
target_round_done(struct target_round *r, bool ok)
{
	r->ok = ok;
	atomic_fetch_sub_explicit(r->left, 1, memory_order_release);
}

#endif /* WEFT_APPS_TARGET_ROUND_H */
