/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_VOLUME_SCRUB_H
#define WEFT_VOLUME_SCRUB_H

/**
 * @file The scrubber of a volume: reads all of it again and again, at a limited rate, and reports
 * damaged blocks. One group of WEFT_VOL_GROUP_BYTES at a time, during which clients' operations on
 * that group wait. On one channel, by its thread.
 */

#include "weft_volume_core.h"

/** The owner embeds it, and zeroes it before its first use. */
struct weft_vol_scrub {
	uint64_t bytes_per_s; /**< at least 1 */
	/** Damaged blocks of one group; off_bytes: the first. In weft_vol_poll(). May be NULL. */
	void (*damage)(struct weft_vol_scrub *s, uint64_t off_bytes, uint64_t blocks);
	/** The device has failed to read, or a volume that is read-only cannot be scrubbed. The
	 * scrubber goes on behind it. In weft_vol_poll() or weft_vol_scrub_poll(). May be NULL. */
	void (*failed)(struct weft_vol_scrub *s, uint64_t off_bytes, int status);
	/** The end is reached; it begins again. In weft_vol_poll(). May be NULL. */
	void (*pass)(struct weft_vol_scrub *s);
	void *owner;
	/* counters */
	uint64_t passes, damaged, errors;

	/* for the scrubber */
	struct weft_vol_chan *chan;
	struct weft_vol_op op;
	uint64_t off_bytes, next_ns;
	bool on, busy;
	bool stale; /**< it was started again: the operation under way is of the earlier start */
};

/** Begin at the front. The callbacks and bytes_per_s are set. */
void weft_vol_scrub_start(struct weft_vol_scrub *s, struct weft_vol_chan *c, uint64_t now_ns);
/**
 * Start what is due. Returns when to call it again: UINT64_MAX: after weft_vol_poll() has called
 * done() of something, or never, because it is stopped.
 */
uint64_t weft_vol_scrub_poll(struct weft_vol_scrub *s, uint64_t now_ns);
/**
 * Stop. An operation that is under way is canceled: keep `s` until s->busy is false, which
 * weft_vol_poll() sees to.
 */
void weft_vol_scrub_stop(struct weft_vol_scrub *s);

#endif /* WEFT_VOLUME_SCRUB_H */
