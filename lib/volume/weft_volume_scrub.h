/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_VOLUME_SCRUB_H
#define WEFT_VOLUME_SCRUB_H

/**
 * @file The scrubber of a volume: reads all of it again and again, at a limited rate, and reports
 * damaged blocks. One group of WEFT_VOL_GROUP_BYTES at a time, during which clients' operations on
 * that group wait. On one channel, by its thread.
 *
 * Or only the groups in doubt (docs/volumes.md, "Checksums"), as long as there are any: these get
 * checksums of what is read. Other operations of the channel go first: while one is under way a
 * group begins at an eighth of the rate. A group that stays in doubt, because it cannot be read
 * or because a flush was lost, is tried again after WEFT_VOL_SCRUB_AGAIN_NS.
 *
 * Such a scrubber also keeps the number of groups small that a crash brings in doubt. When nothing
 * was changed for WEFT_VOL_SCRUB_QUIET_NS, or the last doubt has ended, it has the volume flushed
 * and its maps cleared. Changes wait meanwhile, reads do not.
 */

#include "weft_volume_core.h"

#define WEFT_VOL_SCRUB_AGAIN_NS 60000000000ULL
#define WEFT_VOL_SCRUB_QUIET_NS 30000000000ULL
#define WEFT_VOL_SCRUB_TIDY_NS  10000000000ULL /**< the longest that changes wait for it */

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
	/** With only_doubted: so many groups are in doubt, which was none before; 0: none is any
	 * more. In weft_vol_scrub_poll(). May be NULL. */
	void (*doubt)(struct weft_vol_scrub *s, uint64_t groups);
	void *owner;
	bool only_doubted; /**< scrub groups in doubt alone. A volume that is read-only: nothing */
	/* counters */
	uint64_t passes, damaged, errors;

	/* for the scrubber */
	struct weft_vol_chan *chan;
	struct weft_vol_op op;
	struct weft_vol_snap snap;
	uint64_t off_bytes, next_ns;
	/** when it last looked for changes, and when it last found one */
	uint64_t looked_ns, quiet_ns;
	uint64_t tidied, noted; /**< bits of maps that were set before they were last cleared */
	bool on, busy;
	bool told;  /**< doubt() was told of groups in doubt */
	bool stale; /**< it was started again: the operation under way is of the earlier start */
};

/** Begin at the front. The callbacks and bytes_per_s are set. */
void weft_vol_scrub_start(struct weft_vol_scrub *s, struct weft_vol_chan *c, uint64_t now_ns);
/**
 * Start what is due. Returns when to call it again: UINT64_MAX: after weft_vol_poll() has called
 * done() of something, or never, because it is stopped. With only_doubted others can bring a group
 * in doubt at any time: call it now and then in any case.
 */
uint64_t weft_vol_scrub_poll(struct weft_vol_scrub *s, uint64_t now_ns);
/**
 * Stop. An operation that is under way is canceled: keep `s` until s->busy is false, which
 * weft_vol_poll() sees to.
 */
void weft_vol_scrub_stop(struct weft_vol_scrub *s);

#endif /* WEFT_VOLUME_SCRUB_H */
