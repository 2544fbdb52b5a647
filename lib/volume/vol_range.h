/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VOL_RANGE_H
#define VOL_RANGE_H

/**
 * @file The table of ranges: which operation waits for which. A tree of all ranges that are in use
 * or waited for, ordered by offset, that knows the greatest end of each subtree (a treap, augmented
 * to an interval tree). The caller holds the mutex.
 *
 * A volume has a second table, of its windows, of which none waits: one that would is refused.
 *
 * Each range counts the earlier ones that it has to wait for. A range that leaves counts down those
 * that came later. So the order is that of arrival, none is overtaken by one that it conflicts
 * with, and none waits for one that it does not.
 */

#include "weft_volume_op.h"

enum vol_range_mode {
	VOL_RANGE_READ,
	VOL_RANGE_WRITE,
	/** A flush: waits for earlier writes; nothing waits for it. */
	VOL_RANGE_FLUSH,
};

struct vol_ranges {
	struct weft_vol_range *root;
	uint64_t seq; /**< of the last one */
};

/** Enter a range with off_bytes, end_bytes and mode. True: it is free to go. */
bool vol_range_add(struct vol_ranges *t, struct weft_vol_range *r);
/** Whether a range of that mode, if it was entered now, would wait for another one. */
bool vol_range_meets(const struct vol_ranges *t, uint64_t off_bytes, uint64_t end_bytes,
                     enum vol_range_mode mode);
/** The first range, by offset, that such a one would wait for; NULL: there is none. */
const struct weft_vol_range *vol_range_met(const struct vol_ranges *t, uint64_t off_bytes,
                                           uint64_t end_bytes, enum vol_range_mode mode);
/** Remove a range, also one that waits. Returns the list of those that are free to go now. */
struct weft_vol_range *vol_range_del(struct vol_ranges *t, struct weft_vol_range *r);

#endif /* VOL_RANGE_H */
