/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_LOG_FORMAT_H
#define WEFT_LOG_FORMAT_H

/**
 * @file What the memory of a remote log holds, versions 1 and 2 (docs/log-format.md has every
 * octet): a superblock, four words that change by Atomic Write, and a ring of records that are
 * whole or recognisably not. Installed; stands alone.
 *
 * For who has the memory or an image of the medium at hand: the target that formats it, a program
 * that reads a log where it lies, a recovery without network. Who has it at the far end of a QP
 * uses weft/log.h.
 *
 * All functions are pure: any thread, no state, nothing is allocated. They believe nothing they
 * read: no content of the memory makes them read outside of it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>

WEFT_API_BEGIN

#define WEFT_LOG_VERSION     2 /**< that is made; 1 is read, opened and appended to as well */
#define WEFT_LOG_SUPER_BYTES 4096u
/** what the target is in the log, and the highest epoch claimed; version 1: that epoch alone */
#define WEFT_LOG_CARD_OFF 4096u
/** the log pointer (draft-talpey-rdma-commit-02 s1.5): the last committed record */
#define WEFT_LOG_TAIL_OFF     4160u
#define WEFT_LOG_HEAD_OFF     4224u /**< the first record that is not trimmed */
#define WEFT_LOG_GRANT_OFF    4288u /**< the STag that was joined with last */
#define WEFT_LOG_RING_OFF     8192u /**< also the octets that weft_log_format() writes */
#define WEFT_LOG_MIN_BYTES    (WEFT_LOG_RING_OFF + 8192u)
#define WEFT_LOG_HEADER_BYTES 64u /**< in front of a record's data */
#define WEFT_LOG_MAX_TARGETS  8u  /**< that replicate one log */

/**
 * A place in the log. position counts octets from the beginning of all times and never wraps; the
 * record at it lies in the ring at position modulo the ring's length. seq counts records from 1,
 * without a gap; those by which an epoch begins count too, and readers are not shown them. Both
 * only grow.
 */
struct weft_log_at {
	uint64_t seq;
	uint64_t position;
};

/** A record found; data points into the memory that was given. */
struct weft_log_record {
	struct weft_log_at at;
	uint64_t epoch; /**< of the writer that appended it */
	const void *data;
	uint32_t len_bytes;
	struct weft_log_at next; /**< behind it */
};

/** What a superblock says. */
struct weft_log_super {
	size_t size;        /**< sizeof(struct weft_log_super) */
	uint8_t log_id[16]; /**< the same at every target of the log; not zero */
	/** another at each; both random (RFC 9562): a record of another log is none of this one's
	 */
	uint8_t target_id[16];
	uint32_t targets; /**< [1] how many there are, at most WEFT_LOG_MAX_TARGETS */
	/** [more than half] targets that make an append durable, 1 to targets */
	uint32_t quorum;
	/** result; of weft_log_format() the region's length less WEFT_LOG_RING_OFF, rounded down */
	uint64_t ring_bytes;
	/** [WEFT_LOG_VERSION] 1: as it was before, for readers that know no other; a log stays what
	 * it is */
	uint32_t version;
};

/**
 * Format: the first WEFT_LOG_RING_OFF octets of a region of len_bytes are a log without records.
 * The caller makes them durable. What the ring holds does not matter. -EINVAL (shorter than
 * WEFT_LOG_MIN_BYTES, longer than 2^62, of version 2 than 2^42 and WEFT_LOG_RING_OFF, numbers out
 * of range, an id of zeros).
 */
int weft_log_format(void *region, uint64_t len_bytes, const struct weft_log_super *super);
/**
 * Read the superblock, WEFT_LOG_SUPER_BYTES. len_bytes: of the region. -ENODATA (its magic is zero:
 * never formatted, or not to the end), -EMEDIUMTYPE (another magic), -EPROTONOSUPPORT (another
 * version), -EBADMSG (checksum, fields that contradict each other, or more than len_bytes).
 */
int weft_log_super_decode(const void *page, uint64_t len_bytes, struct weft_log_super *super);

/*
 * ---- A whole region in memory: the target's mapping, or a copy of the medium ----
 *
 * It shows one target. When the quorum is more than 1, records from the head on may have been
 * acknowledged by nobody, and be cut off by the next writer; the head may be an old one; a target
 * that was replaced shows the log as it was then. What is there is head to end; what is certain is
 * before `certain`.
 */

struct weft_log_image {
	const void *region;
	struct weft_log_super super;
	uint64_t epoch; /**< the highest claimed at this target */
	/** it counts. Not: it was never part of the log, or had not got everything yet */
	bool seated;
	/** version 2: its own last record says that another target has its place */
	bool replaced;
	uint32_t place, life;    /**< version 2: who it is in the log (weft_log_info) */
	struct weft_log_at head; /**< the first record; == end: there is none */
	struct weft_log_at last; /**< the last committed one, 0/0: there never was one */
	uint64_t last_epoch;
	struct weft_log_at end; /**< behind it */
	/**
	 * Everything before it was durable, so `certain.seq - 1` records are certain of all that
	 * ever were: the end when the quorum is 1, else the head, since nothing but a trim says at
	 * one target what others have.
	 */
	struct weft_log_at certain;
};

/**
 * Look at superblock, words, and the first and last record. Errors as weft_log_super_decode(), and
 * -EBADMSG when a word names something that is no record of this log, or its check is wrong.
 * -ENODATA also: what it had was given up, or it was never part of the log and is being given its
 * records, so it does not say where the log is. Of a mapping that a writer is writing to: the words
 * are read once; what is between them stays until the writer trims it.
 */
int weft_log_image_open(const void *region, uint64_t len_bytes, struct weft_log_image *img);
/**
 * The record at *at, and *at behind it; begin with img->head. 1: rec is filled; 0: *at was the end;
 * -EBADMSG: what is there is not the record that must be (damaged, or overwritten since).
 */
int weft_log_image_next(const struct weft_log_image *img, struct weft_log_at *at,
                        struct weft_log_record *rec);

WEFT_API_END

#endif /* WEFT_LOG_FORMAT_H */
