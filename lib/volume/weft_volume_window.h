/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_VOLUME_WINDOW_H
#define WEFT_VOLUME_WINDOW_H

/**
 * @file Windows: memory that stands for ranges of volumes, so that peers reach these by RDMA Write,
 * Read, Flush, Verify and Atomic Write (push mode).
 *
 * Two objects. A *window pool* (struct weft_vol_windows) is a worker's memory for windows: slots of
 * equal length, which all volumes and clients share. It is a medium (weft/persist.h, driver
 * "window"), on which the regions of windows are registered. A *window* (struct weft_vol_window) is
 * one slot that stands for a range of one volume.
 *
 * What holds of a window:
 *
 * - Its memory has the volume's octets when it is open (`fill`), or zeros. What its slot has behind
 *   its end is zeros.
 * - A Flush of a part of it (weft_persist_ops.flush) writes those pages of the part that were
 *   marked as written (WEFT_PERSIST_PAGE_SHIFT), whole. A Flush for persistence then flushes the
 *   volume: the pages are durable when it is done. After another one (WEFT_FLUSH_VISIBLE alone) all
 *   operations on the volume see them. What is not flushed never reaches the medium. A page at the
 *   end of the volume is written up to that end. Pages that were marked while they were on their
 *   way, stay marked. Flushes are answered when they are done, whatever their order.
 * - A flush ahead (weft_persist_ops.flush_ahead) does the same without an answer, and without
 *   waiting for the flush to follow. That flush waits for what was begun, and does the rest. Writes
 *   that fail ahead are made again by it. A flush of the volume that fails ahead is told by the
 *   next flush of the client. At most 32 are under way in a pool, of one volume 16; others begin
 *   when they are flushes.
 * - A flush that fails says nothing of what the medium holds of its pages, which stay marked: the
 *   next one writes them again. When a flush of the device was lost, the pages of earlier flushes
 *   for visibility are marked again, too.
 * - read_back (Verify) reads the medium, past the caches of the host where the device can
 *   (WEFT_VOL_MEDIUM). What lies in the window and no flush has begun to write, is
 *   not seen.
 * - Operations of others see what was flushed.
 * - While a window is open that may write, windows that overlap it are refused, and so are changes
 *   of its range by weft_vol_submit() (-EBUSY), on every channel; a scrub is not. Changes that were
 *   submitted before are done before the window is filled, and before its own writes. Read-only
 *   windows may overlap each other, and do not see later changes of the range: only what they were
 *   filled with.
 * - When its client is revoked (weft_vol_revoke()), or the window is closed, flushes and read-backs
 *   that are under way end as these functions say, with -ECANCELED if not with their result, and
 *   later ones fail with -ESHUTDOWN. The owner ends the region first, then closes the window. An
 *   owner that is not to wait for the region's end, because the device may be stuck, stops the
 *   window meanwhile (weft_vol_window_stop()). The window is closed before its client and its
 *   channel are.
 *
 * Statuses of flushes and read-backs besides those of weft_vol_op:
 *
 * - -ESHUTDOWN (status): no open window has all of the range; it is being opened, moved or closed;
 *   its client was revoked. Of a Flush with WEFT_FLUSH_REGION, which has the length of a region,
 *   only what the window has of it counts.
 * - -EIO (status): the medium failed, or a flush of the device was lost (weft_vol_client)
 * - -EINVAL (refused): a range outside of the medium
 * - -EOPNOTSUPP (refused): a Flush for persistence, and the device is not persistent. The owner
 *   does not grant it there.
 * - -EAGAIN (refused): a read-back, and all buffers are in use. It is tried again in the next poll.
 *
 * The executor is not used: weft_vol_poll() of the window's channel calls done(), or the submission
 * does. So weft_persist_flush_wait(), which polls an executor alone, does not work on this medium.
 *
 * Threads. The pool is created and destroyed on a set-up thread. Everything else belongs to the
 * worker, the thread of the channels of its windows, on which the QPs that use its regions are.
 * weft_persist_mark() may be called by any thread. Nothing blocks.
 */

#include <stdbool.h>
#include <stdint.h>

#include <weft/persist.h>

#include "weft_volume_core.h"

struct weft_vol_windows;
struct weft_vol_window;

struct weft_vol_windows_attr {
	uint64_t bytes;        /**< memory of all slots; a multiple of window_bytes */
	uint32_t window_bytes; /**< of a slot: a power of 2, 64 KiB to 64 MiB */
	int numa_node;         /**< -1: any */
};

struct weft_vol_windows_stats {
	uint32_t slots, open;     /**< slots; of these, in use now (a closing one included) */
	uint64_t opened, moved;   /**< that succeeded */
	uint64_t refused_overlap; /**< openings and moves: -EBUSY */
	uint64_t refused_full;    /**< openings: -ENOSPC */
	/** Flushes that were done by writing, with status 0 and with another one; refused ones are
	 * not counted. */
	uint64_t flushes, flush_errors;
	/** Flushes that have begun ahead; those that have not because too many had. */
	uint64_t ahead, ahead_refused;
	uint64_t flushed_octets;  /**< written by flushes */
	uint64_t verified_octets; /**< delivered by read-backs */
};

/**
 * Create a pool. Its memory is populated; besides it uses 2 MiB for read-backs. Set-up thread.
 * -EINVAL: attributes out of range. -ENOMEM.
 */
int weft_vol_windows_create(const struct weft_vol_windows_attr *attr,
                            struct weft_vol_windows **out);
/**
 * Does nothing for NULL. -EBUSY: a window is open, or the data of a read-back was not released. The
 * regions on the medium are gone. Set-up thread.
 */
int weft_vol_windows_destroy(struct weft_vol_windows *p);
/** The medium on which regions of windows are registered; `base` and `bytes` are the memory, which
 * devices are told of (weft_block_mem_add()). */
struct weft_persist *weft_vol_windows_medium(const struct weft_vol_windows *p);
void weft_vol_windows_query(const struct weft_vol_windows *p, struct weft_vol_windows_stats *stats);

struct weft_vol_window_attr {
	struct weft_vol_chan *chan;     /**< a channel of the volume, of this worker */
	struct weft_vol_client *client; /**< opened on that channel; not NULL */
	/** A multiple of WEFT_VOL_WINDOW_ALIGN. */
	uint64_t off_bytes;
	/** Up to window_bytes; ends at such a multiple, or at the end of the volume. */
	uint32_t len_bytes;
	bool write; /**< it may be written and flushed; else flushes do nothing */
	/** Read the volume first; else it is zeros. A window that is not `write` is filled. */
	bool fill;
	/**
	 * Required. The window is open (0) or moved, or that failed (the status of the read): then
	 * an opened window is gone when it returns (it is not closed), and a moved one stands for
	 * its new range and has zeros. Never inside the call, and not after
	 * weft_vol_window_close(). It may close the window.
	 */
	void (*ready)(struct weft_vol_window *w, int status);
	void *owner;
	/** Who has it, for weft_vol_window_holder(); stays valid as long as it. NULL: not told. */
	const char *who;
};

#define WEFT_VOL_WINDOW_ALIGN 4096U

/**
 * Open a window. 0: ready() follows, in a later weft_vol_poll(). A long one is zeroed in several.
 * - -EBUSY: it overlaps another window, and one of the two may write
 * - -ENOSPC: all slots are in use
 * - -EINVAL: a range outside of the volume, empty, not aligned, or longer than a slot; no client,
 *   or one of another channel; no ready()
 * - -EROFS: `write`, and the volume is read-only
 * - -ESHUTDOWN: the client was revoked
 * - -ENOMEM
 */
int weft_vol_window_open(struct weft_vol_windows *p, const struct weft_vol_window_attr *attr,
                         struct weft_vol_window **out);
/**
 * Let it stand for another range. Its memory stays where it is. What was marked is forgotten.
 * -EAGAIN: it is not ready yet, or is closed, or a flush or read-back of it is under way (also in
 * their done()). Errors as above; then it stays as it was.
 */
int weft_vol_window_move(struct weft_vol_window *w, uint64_t off_bytes, uint32_t len_bytes,
                         bool fill);
/**
 * Give a window up, while its region cannot end yet because a Flush of it is under way in the
 * device; weft_vol_window_close() follows. Does nothing for NULL, and for one that is stopped or
 * closed. From the call on its range is open to others, whose operations wait for those of the
 * window that are under way. These are canceled. ready() is not called any more. Its memory and
 * slot stay as they are.
 */
void weft_vol_window_stop(struct weft_vol_window *w);
/**
 * Close a window; does nothing for NULL, and for one that is closed. If it was not stopped, it is
 * as by weft_vol_window_stop(). closed() (may be NULL) is called when none is left; then the slot
 * is free and w is gone: during this call, if nothing is under way. In a done() of the window:
 * after that. In closed() the client may be closed.
 */
void weft_vol_window_close(struct weft_vol_window *w, void (*closed)(void *owner), void *owner);

/** Where its memory is in the medium. */
uint64_t weft_vol_window_at(const struct weft_vol_window *w);
/** Where it stands. */
/**
 * Who has the window for which another window or a change by a call was refused with -EBUSY: its
 * `who`, into buf. False: it is gone meanwhile, or does not tell. `write`: a window that may write
 * was refused, which any other window keeps away; else only those that may write are asked. Any
 * thread; takes the volume's lock.
 */
bool weft_vol_window_holder(const struct weft_vol_chan *chan, uint64_t off_bytes,
                            uint64_t len_bytes, bool write, char *buf, size_t size);
uint64_t weft_vol_window_off(const struct weft_vol_window *w);
void *weft_vol_window_owner(const struct weft_vol_window *w);
/** The owner of the window whose slot has this offset of the medium; NULL: the slot is free. */
void *weft_vol_windows_owner_at(const struct weft_vol_windows *p, uint64_t off_bytes);
/** Time of its last flush, read-back, opening or move, by weft_vol_poll()'s clock. */
uint64_t weft_vol_window_used_ns(const struct weft_vol_window *w);

#endif /* WEFT_VOLUME_WINDOW_H */
