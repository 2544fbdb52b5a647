/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_VOLUME_CORE_H
#define WEFT_VOLUME_CORE_H

/**
 * @file Volumes: a superblock, and raw octets behind it, on one block device (weft/block.h). A
 * volume is read and written at any octet, by many clients at once, in bounded memory.
 * docs/volumes.md has the layout, and what each operation promises after a crash.
 *
 * Four objects. A *volume* (struct weft_vol) is a formatted device. A *channel* (struct
 * weft_vol_chan) is one worker's way to it. A *client* (struct weft_vol_client) is one for whom
 * operations are done, and who can be given up on as a whole. An *operation* (weft_volume_op.h) is
 * embedded by its owner, and is submitted to one channel.
 *
 * The callers are what serves clients (the export program, windows, an NVMe controller), and what
 * looks after a volume (scrub, check).
 *
 * Threads are those of weft/block.h. Formatting, opening and closing a volume belong to a set-up
 * thread and may block. All calls with a channel, its clients and its operations belong to the
 * channel's thread and never block; weft_vol_poll() is given the time. Channels of one volume share
 * one table of ranges. Its mutex is held for the change of a tree with one entry for each operation
 * under way, or for each window, and for nothing else: no I/O, no copy, no callback but `wake`. A
 * shard of the table for each worker, reached by messages, would avoid the mutex, and would cost
 * two messages for each operation whose range belongs to another worker, and the wake of that
 * worker when it sleeps.
 *
 * Order. Operations whose ranges overlap, of which one changes the range, are done one after the
 * other, in the order of their submission, on whatever channel; reads go together. The order is
 * that of a queue, so none waits for ever. A range stays closed until done(), also when the
 * operation is late. So what a client that was given up on has still under way never lands on a
 * later write: that one waits. Operations that do not overlap have no order.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <weft/block.h>

#include "weft_volume_format.h"
#include "weft_volume_op.h"

struct weft_vol;

/* ---- Format, open, close ---- */

/** How to format a device. */
struct weft_vol_format {
	uint64_t bytes;      /**< length of the data; 0: what the device has room for */
	uint8_t uuid[16];    /**< of the caller's drawing (RFC 9562, version 4) */
	uint64_t created_ns; /**< now, since 1970 */
	bool sums;           /**< with checksums (docs/volumes.md) */
	/** Format a device that has data: that data is lost. */
	bool force;
};

/**
 * A range of a device of so many octets that has to be zero before it is formatted: the first and
 * the last MiB, where nearly all formats have their signatures; places of the copies of ext and
 * btrfs; and a page of 4096 octets in each 256th part of what begins at `from_bytes`, or each MiB.
 * i counts from 0. False: there are no more. Any thread.
 */
bool weft_vol_format_place(uint64_t bytes, uint64_t from_bytes, uint32_t i, uint64_t *off_bytes,
                           uint64_t *len_bytes);

/**
 * Write a superblock. First looks at the medium (weft_vol_format_place()), and refuses one that is
 * not all zero there. Set-up thread. If it fails, `reason` (of reason_bytes octets; may be NULL) is
 * one line:
 * - -EEXIST: the device has a volume
 * - -EMEDIUMTYPE: it has data of another format, or of an unknown one
 * - -EINVAL, -ENOSPC: a length that is too long for a volume, or for the device
 * - -ENOTSUP: a device that cannot have a volume, or none with checksums: blocks of more than 4096
 *   octets
 * - -EROFS, -EIO and others of the device
 *
 * A crash inside leaves a device that can be formatted (with `force`, if the superblock is torn),
 * or a volume.
 */
int weft_vol_format(struct weft_block *b, const struct weft_vol_format *f, char *reason,
                    size_t reason_bytes);

/**
 * Give a volume that is not open another length: that of the device behind the superblock, or
 * `bytes` unless it is 0. Data beyond a shorter length is lost. The superblock's copies are written
 * one after the other, so after a crash the volume has its old length or its new one. 0 also if
 * nothing is to be done. Set-up thread. If it fails, `reason` (may be NULL) is one line:
 * - -ENODATA, -EMEDIUMTYPE, -EBADMSG, -EPROTONOSUPPORT: weft_vol_super_decode()
 * - -EOPNOTSUPP: a volume with checksums, or other features, keeps its length
 * - -ENOSPC, -EINVAL: a length for which the device has no room, or none
 * - -EROFS, -ENOMEM, -EIO and others of the device
 */
int weft_vol_resize(struct weft_block *b, uint64_t bytes, char *reason, size_t reason_bytes);

/** How to open a volume. */
struct weft_vol_attr {
	uint32_t channels; /**< channels that may be open at once, 1 to 64; 0: 1 */
	uint32_t scratch;  /**< pieces of scratch memory of each channel, 1 to 256; 0: 8 */
	/**
	 * Scratch memory: weft_vol_scratch_bytes() octets at a multiple of 4096, and of the
	 * device's mem_align_bytes. It stays the caller's, who may have given it to the device
	 * before (weft_block_mem_add()), and keeps it until weft_vol_close().
	 */
	void *memory;
	bool read_only; /**< refuse all that changes the volume with -EROFS */
	char *reason;   /**< if the open fails: one line that says why; NULL: not wanted */
	size_t reason_bytes;
};

/** Constant while the volume is open. */
struct weft_vol_info {
	struct weft_vol_super super;
	uint64_t bytes;       /**< length */
	uint32_t block_bytes; /**< operations at multiples of it are not read first */
	/**
	 * A write that lies inside one aligned piece of so many octets is old or new as a whole
	 * after a crash, aligned to blocks or not. A power of 2, up to WEFT_VOL_MAX_ATOMIC.
	 */
	uint32_t atomic_bytes;
	uint32_t compare_bytes; /**< longest compare-and-write */
	bool read_only;
	bool discards; /**< a discard has an effect */
	/** A Verify reads the medium, past every cache of this host. Else it sees what a read sees.
	 */
	bool verify_medium;
	bool sums;        /**< each read is compared with checksums */
	bool in_doubt;    /**< after a crash: some checksums are in doubt until they are scrubbed */
	bool second_copy; /**< a copy of the superblock was damaged: the other one was used */
};

/** Octets of memory that attr asks for: 132 KiB for each piece. 0: attr is NULL or out of range. */
uint64_t weft_vol_scratch_bytes(const struct weft_vol_attr *attr);
/**
 * Open a volume. The caller keeps the device open until weft_vol_close(), and is the only one that
 * changes it. Operations use no memory but their own and the scratch memory. If one copy of the
 * superblock is damaged, the other one is used, and the damaged one is written again unless the
 * volume is read-only. Set-up thread:
 * - -ENODATA, -EMEDIUMTYPE, -EBADMSG, -EPROTONOSUPPORT: weft_vol_super_decode()
 * - -ENOTSUP: the device's logical block is longer than 64 KiB, or it takes no two of them at once
 * - -EROFS: features that allow only reading, and the volume is to be written
 * - -EIO: the device is shorter than the volume, or fails
 * - -ENOMEM, -EINVAL
 */
int weft_vol_open(struct weft_block *b, const struct weft_vol_attr *attr, struct weft_vol **out);
/**
 * Close. Does nothing for NULL. -EBUSY: a channel is open. A volume with checksums is flushed, and
 * noted as closed properly; if that fails it is closed all the same, and is as after a crash.
 * Set-up thread.
 */
int weft_vol_close(struct weft_vol *v);
/** Any thread. */
const struct weft_vol_info *weft_vol_info(const struct weft_vol *v);
/** Groups whose checksums are in doubt now; 0 without checksums. Any thread. */
uint64_t weft_vol_in_doubt(const struct weft_vol *v);

/* ---- Channels ---- */

/** How to open a channel. */
struct weft_vol_chan_attr {
	uint32_t depth; /**< weft_block_chan_attr.depth */
	/**
	 * May be NULL. Another channel has ended an operation that one of this channel waited for:
	 * wake the channel's thread, so that it polls. On any thread; must not block, and must not
	 * call the volume. Not called again before a poll.
	 */
	void (*wake)(struct weft_vol_chan *c);
	/** May be NULL. An operation was taken, and the channel had none: from now on it is to be
	 * polled, until weft_vol_is_idle(). Called by weft_vol_submit(); must not call the volume.
	 */
	void (*busy)(struct weft_vol_chan *c);
	/** May be NULL: the device's state has changed, see weft_block_chan_attr. */
	void (*event)(struct weft_vol_chan *c, const struct weft_block_state *state);
	void *owner; /**< weft_vol_chan_owner() */
};

/** Counters of a channel since its open. */
struct weft_vol_stats {
	uint64_t ops[WEFT_VOL_KINDS];    /**< done with status 0 */
	uint64_t errors[WEFT_VOL_KINDS]; /**< done with another status */
	uint64_t octets[WEFT_VOL_KINDS]; /**< of those with status 0 */
	uint64_t range_waits;            /**< operations that waited for an earlier one */
	uint64_t scratch_waits;          /**< steps that waited for scratch memory */
	uint64_t read_first;             /**< writes of a part of a block, which was read first */
	uint64_t copied_octets;          /**< moved through scratch memory */
	uint64_t late;                   /**< operations that were late */
	uint64_t revoked;                /**< operations that ended because of weft_vol_revoke() */
	uint64_t damaged;                /**< blocks that did not have their checksum */
	uint64_t unverified;             /**< steps on a group whose checksums are in doubt */
	uint64_t told_lost;              /**< flushes that told a client of a lost flush */
	uint32_t under_way;              /**< operations now */
};

/** -EINVAL; -ENOSPC: weft_vol_attr.channels are open; -ENOMEM; weft_block_chan_open(). As there. */
int weft_vol_chan_open(struct weft_vol *v, const struct weft_vol_chan_attr *attr,
                       struct weft_vol_chan **out);
/** Close a channel. Does nothing for NULL. -EBUSY: an operation is under way, or a client is open.
 */
int weft_vol_chan_close(struct weft_vol_chan *c);
void *weft_vol_chan_owner(const struct weft_vol_chan *c);
/**
 * Submit an operation. 0: taken; done() follows in a later weft_vol_poll(). Else it was not taken:
 * - -EINVAL: a range outside of the volume; unknown kind or flag; memory that does not have
 *   len_bytes octets; what the operation needs is missing; a client of another channel
 * - -EBUSY: it is under way; or it changes octets of a window that may write
 *   (weft_volume_window.h), on whatever channel that is open. A scrub is taken
 * - -EROFS: a change of a volume that is read-only
 * - -ESHUTDOWN: the client was revoked
 * - -EOPNOTSUPP: WEFT_VOL_WHOLE of what is not atomic here; with checksums, a compare-and-write
 *   across a multiple of WEFT_VOL_GROUP_BYTES
 * - -EMSGSIZE: a compare-and-write that is longer than compare_bytes
 */
int weft_vol_submit(struct weft_vol_chan *c, struct weft_vol_op *op);
/**
 * Ask to end an operation early. What was not yet given to the device is never given to it. done()
 * follows as ever: with -ECANCELED, or with its result if it was too late. -ENOENT: not under way
 * here.
 */
int weft_vol_cancel(struct weft_vol_chan *c, struct weft_vol_op *op);
/**
 * Take results, start what can be started, call done() and late(). now_ns does not go backwards.
 * Returns how many done() were called. A call inside these callbacks does nothing.
 */
unsigned int weft_vol_poll(struct weft_vol_chan *c, uint64_t now_ns);
/** As weft_block_next_ns(). After a call of `wake` it is 0. */
uint64_t weft_vol_next_ns(const struct weft_vol_chan *c);
/** As weft_block_chan_fd(). */
int weft_vol_chan_fd(const struct weft_vol_chan *c);
/** Whether no operation is under way. Then a poll brings nothing but a change of the device's
 * state. */
bool weft_vol_is_idle(const struct weft_vol_chan *c);
/** Channel's thread. */
void weft_vol_query_stats(const struct weft_vol_chan *c, struct weft_vol_stats *stats);

/* ---- Clients ---- */

/**
 * One for whom operations are done. The owner embeds it; it is opened on one channel.
 *
 * Lost flushes. When a flush of the device fails, unflushed writes of all clients may be lost. Each
 * client that has unflushed writes then is told once: the first of its flushes that ends from then
 * on fails, even if the device's flush succeeds, with weft_block_state.lost_status: -EIO, or
 * -ENOSPC or -EDQUOT where the medium had no room. The client writes again what it has written
 * since its last flush of the whole volume, or since its last flush that covered it. A client can
 * also compare `lost_flushes` of its operations, which grows with each lost flush.
 */
struct weft_vol_client {
	struct weft_vol_chan *chan;
	TAILQ_ENTRY(weft_vol_client) link;
	TAILQ_HEAD(weft_vol_ops, weft_vol_op) ops; /**< under way */
	uint32_t under_way;
	uint32_t windows; /**< open ones (weft_volume_window.h) */
	bool revoked;
	int lost; /**< status of a lost flush of which it has to be told; 0: there is none */
	/** unstable changes done, and how many of these are durable */
	uint64_t changes, durable;
	/** May be NULL. Of a revoked client: its last operation has had its done(). Not called if
	 * the client was closed in that. */
	void (*quiet)(struct weft_vol_client *client);
	void *owner;
};

/** Set `quiet` and `owner` before; the rest is overwritten. */
void weft_vol_client_open(struct weft_vol_chan *c, struct weft_vol_client *client);
/**
 * Close a client, which is its owner's again: also in done() of its last operation. -EBUSY: an
 * operation is under way, or a window is open.
 */
int weft_vol_client_close(struct weft_vol_client *client);
/**
 * Give up on a client. From the return on nothing that it has not yet given to the device is ever
 * given to it: that ends with -ECANCELED in the next poll. What the device has is asked back. It
 * keeps its range closed until it is final, so that the next owner's writes come behind it. New
 * operations are refused. Returns how many operations are under way still; `quiet` tells when none
 * is.
 */
unsigned int weft_vol_revoke(struct weft_vol_client *client);

#endif /* WEFT_VOLUME_CORE_H */
