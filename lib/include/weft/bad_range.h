/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_BAD_RANGE_H
#define WEFT_BAD_RANGE_H

/**
 * @file Bad ranges: ranges of a region that failed a Flush or a Verify (draft-talpey-rdma-commit-02
 * s2.1.2, s2.2.2). Installed; stands alone.
 *
 * When a Flush or a Verify of a peer fails, its stream ends, and WEFT_EV_BAD_RANGE tells the
 * consumer of that QP. The region keeps the range marked as bad. The mark belongs to the region: it
 * is the same for all streams that use the region. Only the owner of the region takes a mark away,
 * by weft_mr_clear_bad_ranges(). A later Verify that succeeds does not: it shows that a peer finds
 * what it expects, and not that the medium can be trusted again. A mark forbids no access. Marks
 * end with the region; for a region of weft_mr_alloc() they end with the registration.
 */

#include <weft/api.h>
#include <weft/verbs.h>

WEFT_API_BEGIN

#define WEFT_MAX_BAD_RANGES 16 /**< of one region; see `wide` of struct weft_bad_range */

struct weft_bad_range {
	uint64_t to; /**< tagged offset in the region, also for an access through a window */
	uint64_t len_bytes;
	/** -EIO: the medium failed. -EBADMSG: a Verify found other octets. Both happened: -EIO. */
	int status;
	uint32_t failures; /**< failed operations that this range is made of */
	/**
	 * The range also contains octets that did not fail. The region had WEFT_MAX_BAD_RANGES
	 * ranges, and the two with the smallest distance were joined. Every octet that failed is in
	 * a range.
	 */
	bool wide;
};

/**
 * Copy the bad ranges of a region to out, at most max of them, in ascending order. Ranges are
 * disjoint, and ranges that touch are joined. out may be NULL if max is 0. Returns how many ranges
 * the region has, which may be more than max; 0 if mr is not a region. Any thread; takes a lock.
 */
unsigned int weft_mr_bad_ranges(struct weft_mr *mr, struct weft_bad_range *out, unsigned int max);
/**
 * Remove the marks in [to, to+len_bytes): the owner has repaired or rewritten these octets, or no
 * longer uses them. A range that lies there in part keeps its other part.
 * weft_mr_clear_bad_ranges(mr, 0, UINT64_MAX) removes all marks. Any thread; takes a lock. Returns
 * 0, or
 * - -ENOSPC: the region would have more than WEFT_MAX_BAD_RANGES ranges; nothing was done
 * - -EINVAL: mr is not a region
 */
int weft_mr_clear_bad_ranges(struct weft_mr *mr, uint64_t to, uint64_t len_bytes);

WEFT_API_END

#endif /* WEFT_BAD_RANGE_H */
