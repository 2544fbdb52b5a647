/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_VERBS_OPS_H
#define WEFT_VERBS_OPS_H

/**
 * @file The up-calls of verbs: what it asks of the rooms above it. A context is given them when it
 * is created (weft_vctx_init()). None of them is called for a message.
 */

#include <stdbool.h>
#include <stdint.h>

struct weft_mr;

/** To lib/place: about a region. */
struct weft_verbs_place_ops {
	/**
	 * A Flush or Verify of this range failed, as `status` says (-EIO, -EBADMSG): mark it. `to`
	 * is an offset in the region. False: no memory.
	 */
	bool (*bad_range)(struct weft_mr *mr, uint64_t to, uint64_t len_bytes, int status);
	/** The region is registered anew: remove its marks, of which it has some. */
	void (*registered)(struct weft_mr *mr);
	/**
	 * Its handle is destroyed: end a revocation without a callback. The context's lock is held.
	 */
	void (*deregistered)(struct weft_mr *mr);
	/** The last reference is gone: free what belongs to place. */
	void (*freed)(struct weft_mr *mr);
};

#endif /* WEFT_VERBS_OPS_H */
