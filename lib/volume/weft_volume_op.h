/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_VOLUME_OP_H
#define WEFT_VOLUME_OP_H

/**
 * @file One operation of a volume (weft_volume_core.h).
 *
 * An operation is done in steps, one request of the device at a time. Long ones advance from their
 * first octet to their last, so that done_bytes says how far one has come that has failed:
 *
 * - octets before done_bytes are done;
 * - of a change, octets behind done_bytes are as they were, except those of the step that failed
 *   (128 KiB, or max_bytes of the device, at most), which may be old, new, or a mix. With
 *   -ECANCELED, -ETIMEDOUT, -ENODEV, -ESHUTDOWN and -EILSEQ these, too, are as they were.
 * - An octet outside of the range is never changed, although whole blocks are written.
 *
 * Status: that of the request that failed (the table of weft/block.h; weft_block_class_of()).
 * Besides: -ECANCELED: canceled or revoked. -ETIMEDOUT: the deadline came between two steps, or
 * before the first. -EIO, -ENOSPC and -EDQUOT of a flush: also a lost flush of which its client had
 * to be told.
 * -EBADMSG: the block at damaged_off_bytes does not have its checksum.
 *
 * Memory. The device takes memory of a certain alignment. Data that is aligned in memory as it is
 * in the volume (memory address and offset have the same remainder by block_bytes) goes to the
 * device from there, except for the blocks at its ends which it has in part. All other data is
 * copied through scratch memory: correct, and slower.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include <weft/block.h>
#include <weft/hash.h>

struct weft_vol_chan;
struct weft_vol_client;
struct weft_vol_op;

#define WEFT_VOL_MAX_ATOMIC  65536U /**< the greatest atomic_bytes of weft_vol_info */
#define WEFT_VOL_MAX_COMPARE 65536U
#define WEFT_VOL_SUB_IOVS    16U

enum weft_vol_kind {
	WEFT_VOL_READ,
	WEFT_VOL_WRITE,
	/**
	 * Make durable all changes of the range that are done, and those under way on any channel,
	 * which it waits for. (It flushes the device, so others become durable, too.) Length 0 from
	 * offset 0: the whole volume.
	 */
	WEFT_VOL_FLUSH,
	/** Hash the octets that the medium holds (weft_vol_info.verify_medium). */
	WEFT_VOL_VERIFY,
	/** If the range has the octets `expect`, write iov. In one step for all other operations.
	 */
	WEFT_VOL_COMPARE_WRITE,
	/** The octets are not needed any more; may be without effect. */
	WEFT_VOL_DISCARD,
	WEFT_VOL_ZEROES, /**< the range reads as zeros */
	/** Which parts are data, and which read as zeros without using space. */
	WEFT_VOL_EXTENTS,
	/**
	 * Read the range and compare it with its checksums; a volume without checksums is only
	 * read. Begins and ends at multiples of WEFT_VOL_GROUP_BYTES, or at the end of the volume.
	 * Damaged blocks do not end it. Where a crash has left checksums in doubt, they are made
	 * again from the data; a volume that is read-only keeps its doubts.
	 */
	WEFT_VOL_SCRUB,
	/**
	 * Make, list or remove snapshots, or make a clone: `snap`. It has no range, and its status
	 * is that of struct weft_block_snap, or:
	 * - -EBUSY: also another snapshot or clone of a volume with checksums is being made
	 * - -EIO: also the flush before it failed, or a flush was lost of which the client has to
	 *   be told
	 * - -ETIMEDOUT: the deadline came before the device had the request for the snapshot
	 *
	 * A snapshot, or a clone of the present state, has all changes that were done before the
	 * operation was submitted, on whatever channel, and nothing of later ones: it waits for
	 * those under way, later ones wait for it, and it flushes the device. Reads go on. Of a
	 * window it has what was flushed. The clone has a UUID of its own.
	 */
	WEFT_VOL_SNAPSHOT,
	WEFT_VOL_KINDS
};

/** Flags. */
#define WEFT_VOL_DURABLE 0x1 /**< write, compare-and-write, zeroes, discard: durable when done */
/** Write, compare-and-write: refuse it unless it is old or new as a whole after a crash. */
#define WEFT_VOL_WHOLE 0x2
#define WEFT_VOL_KEEP  0x4 /**< zeroes: keep the space */
/**
 * Read: what the medium holds (weft_vol_info.verify_medium; without that, as any read). Where the
 * device has a volatile cache, it may be older than what was written and not flushed. As for a
 * Verify, it is not compared with checksums.
 */
#define WEFT_VOL_MEDIUM 0x8
/**
 * Write: its memory may change until done(). Each octet of it is written as it was at some moment
 * meanwhile. Where checksums are made of the octets, these are copied first.
 */
#define WEFT_VOL_LIVE 0x10

/** A place in the table of ranges. For the volume. */
struct weft_vol_range {
	uint64_t off_bytes, end_bytes;
	uint64_t max_end_bytes; /**< of the subtree */
	uint64_t seq;           /**< order of arrival */
	struct weft_vol_range *left, *right;
	struct weft_vol_range *next; /**< in the list of those that became free to go */
	uint32_t prio;
	uint32_t blockers; /**< earlier ones that it waits for */
	uint32_t mode;
	bool listed; /**< it is in such a list */
};

/** Where in the memory of an operation its next octet is. For the volume. */
struct weft_vol_place {
	uint32_t i;
	uint64_t off_bytes;
};

/** What a SNAPSHOT is about. Its owner zeroes it, and keeps it until done(). */
struct weft_vol_snap {
	/** The owner sets all but the patches; the results are there. */
	struct weft_block_snap block;
	uint8_t uuid[16]; /**< CLONE: the clone's, of the owner's drawing */
	/** CREATE of a volume with checksums: the maps are written as for a snapshot, and none is
	 * made. Groups that are not changed again are not in doubt after a crash. */
	bool maps_only;
	/* for the volume */
	uint64_t at;        /**< checksums: how far the maps are looked at */
	uint32_t pass;      /**< likewise */
	bool wrote;         /**< a map was written, and not flushed */
	bool alone;         /**< no other one may change the maps */
	uint8_t page[4096]; /**< the superblock of the snapshot or clone */
	uint8_t own[4096];  /**< the volume's, of which the guard is a part */
};

/** Its owner zeroes it before its first use, and keeps it, iov and memory until done(). */
struct weft_vol_op {
	enum weft_vol_kind kind;
	uint32_t flags;
	uint64_t off_bytes, len_bytes;
	/** READ, WRITE, COMPARE_WRITE: segments of len_bytes octets in all. */
	const struct iovec *iov;
	uint32_t iovs;
	const void *expect; /**< COMPARE_WRITE: len_bytes octets */
	/** VERIFY: the hash, and its key or NULL and 0. */
	const struct weft_hash_ops *hash;
	const void *key;
	size_t key_bytes;
	/** EXTENTS: room for so many; how many were found. */
	struct weft_block_extent *extents;
	uint32_t max_extents, extents_found;
	struct weft_vol_snap *snap;     /**< SNAPSHOT */
	uint64_t deadline_ns;           /**< of the clock of weft_vol_poll(); 0: none */
	struct weft_vol_client *client; /**< NULL: none */
	void (*done)(struct weft_vol_op *op);
	/** May be NULL. The device has not answered in time: the result is unknown; done() follows.
	 */
	void (*late)(struct weft_vol_op *op);
	void *owner;
	/* results, in done() */
	int status;
	/** EXTENTS: octets that the extents cover. -EILSEQ: offset in the range of the first octet
	 * that differs. */
	uint64_t done_bytes;
	uint32_t lost_flushes;      /**< weft_block_state.lost_flushes when it was done */
	uint64_t damaged;           /**< SCRUB: damaged blocks; 1 with -EBADMSG */
	uint64_t damaged_off_bytes; /**< the first of them, in the volume */
	uint8_t hash_result[WEFT_HASH_MAX_BYTES]; /**< VERIFY: hash->result_bytes octets */

	/* for the volume */
	struct weft_vol_chan *chan;
	TAILQ_ENTRY(weft_vol_op) link, client_link, chan_link;
	struct weft_vol_range range;
	uint32_t state, phase;
	bool canceled, was_late, hashing, fua;
	bool of_window; /**< a window's own: it may change what a window has (vol_window.h) */
	struct weft_vol_place place; /**< of octet done_bytes */
	uint64_t step_bytes;         /**< octets of the range in the step under way */
	/** a change was given to the device, and the client is not told of its loss, */
	bool changed;
	/** when so many flushes were lost; scrub: as many, when the group's first octet was read */
	uint32_t lost_at;
	uint64_t mark; /**< flush: changes of the client that it covers */
	uint8_t *scratch;
	uint64_t hashed_bytes; /**< of the step */
	bool sums_loaded, sums_stored;
	struct iovec sums_iov;
	struct {
		enum weft_block_op op;
		uint32_t phase, flags, iovs;
		uint64_t off_bytes, len_bytes;
	} next; /**< the request that follows that of the checksums */
	struct iovec sub[WEFT_VOL_SUB_IOVS];
	struct weft_block_req req;
	struct weft_hash_state hash_state;
};

#endif /* WEFT_VOLUME_OP_H */
