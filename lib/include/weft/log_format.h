/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_LOG_FORMAT_H
#define WEFT_LOG_FORMAT_H

/**
 * @file Contents of the memory of a remote log, versions 1 and 2: a superblock, four words that
 * change by Atomic Write, and a ring of records. A record is whole, or can be recognised as not
 * whole. docs/log-format.md describes every octet. Installed; stands alone.
 *
 * For programs with direct access to the memory, or to an image of the medium: the target that
 * formats it, a program that reads a log in place, a recovery without network. A program at the
 * other end of a QP uses weft/log.h.
 *
 * All functions are pure: any thread, no state, no allocation. They trust nothing that they read:
 * no contents of the memory make them read outside of it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>

WEFT_API_BEGIN

/** the version that is made; version 1 can be read, opened and appended to */
#define WEFT_LOG_VERSION     2
#define WEFT_LOG_SUPER_BYTES 4096u
/**
 * Card word: what the target is in the log, and the highest epoch claimed. Version 1: only that
 * epoch.
 */
#define WEFT_LOG_CARD_OFF 4096u
/** Tail word, the log pointer (draft-talpey-rdma-commit-02 s1.5): the last committed record. */
#define WEFT_LOG_TAIL_OFF  4160u
#define WEFT_LOG_HEAD_OFF  4224u /**< head word: the first record that is not trimmed */
#define WEFT_LOG_GRANT_OFF 4288u /**< grant word: the STag of the last join */
/** the ring; also the number of octets that weft_log_format() writes */
#define WEFT_LOG_RING_OFF     8192u
#define WEFT_LOG_MIN_BYTES    (WEFT_LOG_RING_OFF + 8192u)
#define WEFT_LOG_HEADER_BYTES 64u /**< header before a record's data */
#define WEFT_LOG_MAX_TARGETS  8u  /**< targets that replicate one log */

/**
 * A place in the log. position counts octets since the log began and never wraps; the record is in
 * the ring at position modulo the length of the ring. seq counts records from 1 without gaps. The
 * records that begin an epoch count, but are not shown to readers. Both only grow.
 */
struct weft_log_at {
	uint64_t seq;
	uint64_t position;
};

/** A record that was found. data points into the given memory. */
struct weft_log_record {
	struct weft_log_at at;
	uint64_t epoch; /**< epoch of the writer that appended it */
	const void *data;
	uint32_t len_bytes;
	struct weft_log_at next; /**< place behind the record */
};

/** Contents of a superblock. */
struct weft_log_super {
	size_t size;        /**< sizeof(struct weft_log_super) */
	uint8_t log_id[16]; /**< the same at every target of the log; not zero */
	/**
	 * Different at every target. Both ids are random (RFC 9562), so that a record of another
	 * log is not taken for one of this log.
	 */
	uint8_t target_id[16];
	uint32_t targets; /**< [1] number of targets, at most WEFT_LOG_MAX_TARGETS */
	/** [more than half] targets that make an append durable, 1 to targets */
	uint32_t quorum;
	/**
	 * Result. From weft_log_format(): the region's length minus WEFT_LOG_RING_OFF, rounded
	 * down.
	 */
	uint64_t ring_bytes;
	/**
	 * [WEFT_LOG_VERSION] 1: the old format, for readers that know no other. A log keeps its
	 * version.
	 */
	uint32_t version;
};

/**
 * Format a region of len_bytes: its first WEFT_LOG_RING_OFF octets become a log without records.
 * The caller makes them durable. The contents of the ring do not matter. -EINVAL: shorter than
 * WEFT_LOG_MIN_BYTES; longer than 2^62, or in version 2 than 2^42 and WEFT_LOG_RING_OFF; numbers
 * out of range; an id of zeros.
 */
int weft_log_format(void *region, uint64_t len_bytes, const struct weft_log_super *super);
/**
 * Decode the superblock, WEFT_LOG_SUPER_BYTES at page. len_bytes is the length of the region.
 * Returns 0, or
 * - -ENODATA: its magic is zero; the region was never formatted, or not completely
 * - -EMEDIUMTYPE: another magic
 * - -EPROTONOSUPPORT: another version
 * - -EBADMSG: wrong checksum, contradicting members, or more than len_bytes
 */
int weft_log_super_decode(const void *page, uint64_t len_bytes, struct weft_log_super *super);

/*
 * ---- A whole region in memory: the target's mapping, or a copy of the medium ----
 *
 * An image shows one target. If the quorum is more than 1, the records from the head on may be
 * missing at all other targets, and the next writer may cut them off. The head may be an old one. A
 * target that was replaced shows the log as it was then. The records present are those from head to
 * end. The records that are certain are those before `certain`.
 */

struct weft_log_image {
	const void *region;
	struct weft_log_super super;
	uint64_t epoch; /**< highest epoch claimed at this target */
	/**
	 * The target counts. False: it was never part of the log, or had not received all records
	 * yet.
	 */
	bool seated;
	/** Version 2: the target's own last record says that another target has taken its place. */
	bool replaced;
	/** version 2: identity of the target in the log (weft_log_info) */
	uint32_t place, life;
	struct weft_log_at head; /**< first record; equal to end: there is none */
	struct weft_log_at last; /**< last committed record; 0/0: there never was one */
	uint64_t last_epoch;
	struct weft_log_at end; /**< behind the last record */
	/**
	 * Everything before this place was durable in the log, which is `certain.seq - 1` records
	 * since the log began. It is the end if the quorum is 1, else the head: only a trim tells
	 * at one target what the others have.
	 */
	struct weft_log_at certain;
};

/**
 * Examine superblock, words, first and last record. A writer may be writing to the mapping: the
 * words are read once, and the records between them stay until the writer trims them. Errors as
 * weft_log_super_decode(), and
 * - -EBADMSG: a word names something that is not a record of this log, or has a wrong checksum
 * - -ENODATA: the target gave up its records, or was never part of the log and is being given its
 *   records, so it cannot tell where the log is
 */
int weft_log_image_open(const void *region, uint64_t len_bytes, struct weft_log_image *img);
/**
 * Get the record at *at, and move *at behind it. Begin with img->head. 1: rec is filled. 0: *at was
 * the end. -EBADMSG: the record that must be there is damaged, or was overwritten since.
 */
int weft_log_image_next(const struct weft_log_image *img, struct weft_log_at *at,
                        struct weft_log_record *rec);

WEFT_API_END

#endif /* WEFT_LOG_FORMAT_H */
