/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_BLOCK_FAULT_H
#define WEFT_BLOCK_FAULT_H

/**
 * @file Block driver "fault": a device in front of another one, the medium, that is slow, fails and
 * loses power as a test says. Only test programs link it; libweft and the programs do not have it,
 * and no configuration can name it.
 *
 * Options: inner=DRIVER (required), inner.KEY=VALUE for that driver, seed=N. Path and length are
 * the inner driver's.
 *
 * The device has a volatile cache. A write that is done is in the cache; a flush puts on the medium
 * what was in the cache when the flush was submitted, and a write with WEFT_BLOCK_FUA its own range
 * alone. A read sees the cache. A read with WEFT_BLOCK_MEDIUM sees the medium alone, so a Verify
 * that comes before its Flush is seen to be wrong. A snapshot has the medium alone, too, so one
 * that is made before a flush has lost what was not flushed.
 *
 * Requests become due in the order of their times, which are drawn; requests that are due at the
 * same time are done in a drawn order. All choices follow from the seed. Time is that of
 * weft_block_poll(). All channels of a device belong to one thread. The inner device is used by a
 * channel of its own, whose requests are waited for.
 */

#include <weft/block.h>

struct weft_block_fault_cfg {
	uint64_t delay_min_ns, delay_max_ns; /**< of each request; both 0: done in the next poll */
	/**
	 * chance, for each entry of the cache and each poll, to reach the medium without a flush
	 */
	uint32_t leak_ppm;
	uint32_t error_ppm; /**< chance of a request to fail with -EIO */
	uint32_t busy_ppm;  /**< chance of submit() to have no room */
	/** A write that lands in part is torn between such pieces; 0: the logical block. A power of
	 * 2, at most the logical block. */
	uint32_t atom_bytes;
	/* faults of a driver, which tests have to notice */
	bool flush_lies; /**< a flush is done without effect */
	bool ghosts;     /**< a write that was canceled lands all the same, with the next write */
};

/** Which requests strike at: all that match. */
struct weft_block_fault_hit {
	uint32_t ops;                  /**< a bit (1 << op) for each operation; 0: all */
	uint64_t off_bytes, len_bytes; /**< those that touch this range; length 0: all */
	uint64_t skip;                 /**< matching requests that are spared first */
	uint64_t count;                /**< how many are struck then; 0: one */
};

/** Set the behaviour from now on. Requests under way keep their time. */
void weft_block_fault_set(struct weft_block *b, const struct weft_block_fault_cfg *cfg);
/** Fail requests with status (-errno). A write that fails so lands in part, in its torn pieces; a
 * flush that fails loses the cache. Replaces what was set before; NULL: nothing fails. */
void weft_block_fault_fail(struct weft_block *b, const struct weft_block_fault_hit *hit,
                           int status);
/** Requests that match are stuck: they do not end, and cancel does not help. NULL: those that are
 * stuck go on. */
void weft_block_fault_stick(struct weft_block *b, const struct weft_block_fault_hit *hit);
/** Requests that were given to the driver so far. */
uint64_t weft_block_fault_requests(const struct weft_block *b);
/**
 * Cut the power. Of each atom that the cache or a write under way has, the medium keeps its old
 * octets or those of any of these writes. Requests under way end with -ENODEV, and the device is
 * offline.
 */
void weft_block_fault_cut(struct weft_block *b);
/** The power is back: the cache is empty, and the device is online. */
void weft_block_fault_boot(struct weft_block *b);

#endif /* WEFT_BLOCK_FAULT_H */
