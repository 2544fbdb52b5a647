/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_BAD_RANGE_H
#define WEFT_BAD_RANGE_H

/**
 * @file
 * Ranges of a region that failed a Flush or a Verify (draft-talpey-rdma-commit-02 s2.1.2, s2.2.2).
 * Installed; stands alone.
 *
 * WEFT_EV_BAD_RANGE tells of one when it happens, to the consumer of the QP it came by, whose
 * stream ends with it. The region keeps it marked, whoever owns it and whichever streams use it,
 * until the owner says that it is well again. Nothing else takes a mark away: a later Verify that
 * succeeds shows that a peer finds there what it expects, not that the medium is to be trusted, and
 * nobody but the owner knows whether it is. A mark forbids nothing. It ends with the region, of
 * weft_mr_alloc() with the registration.
 */

#include <weft/api.h>
#include <weft/verbs.h>

WEFT_API_BEGIN

#define WEFT_MAX_BAD_RANGES 16 /**< ranges of one region; see `wide` of struct weft_bad_range */

struct weft_bad_range {
	uint64_t to; /**< tagged offset in the region, also of what came through a window */
	uint64_t len_bytes;
	/** -EIO: the medium failed; -EBADMSG: it held something else; -EIO if both */
	int status;
	uint32_t failures; /**< that made this range */
	/**
	 * Octets that did not fail are among them: the region had WEFT_MAX_BAD_RANGES ranges, and
	 * the two that lay closest were made one. No octet that failed is ever left out.
	 */
	bool wide;
};

/**
 * The ranges in ascending order, disjoint; those that touch are one. Copies at most max of them
 * (out may be NULL with max 0) and returns how many there are; 0 of what is no region. Any thread;
 * takes a lock.
 */
unsigned int weft_mr_bad_ranges(struct weft_mr *mr, struct weft_bad_range *out, unsigned int max);
/**
 * The owner has repaired or rewritten [to, to+len) of the region, or given it up: no mark is left
 * there. Of a range that lies there in part the rest stays. -ENOSPC: that would make more than
 * WEFT_MAX_BAD_RANGES; nothing was done. -EINVAL. Any thread; takes a lock.
 * weft_mr_clear_bad_ranges(mr, 0, UINT64_MAX) is all of them.
 */
int weft_mr_clear_bad_ranges(struct weft_mr *mr, uint64_t to, uint64_t len_bytes);

WEFT_API_END

#endif /* WEFT_BAD_RANGE_H */
