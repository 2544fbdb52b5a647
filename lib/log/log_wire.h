/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_WIRE_H
#define LOG_WIRE_H

/**
 * @file Codec of the log's format, versions 1 and 2 (docs/log-format.md): records, positions,
 * superblock. log_word.h has the words.
 */

#include "log_num.h"
#include "log_word.h"
#include <weft/log_format.h>

/** Identity and geometry of a log: they tell its records from others. */
struct log_geom {
	uint8_t id[8]; /**< the first octets of the log's id */
	uint64_t ring_bytes;
	uint32_t version;
	uint32_t targets;
};

enum log_kind {
	LOG_RECORD = 1,
	LOG_FILLER = 2,  /**< fills the rest of the ring, in which the next record did not fit */
	LOG_OPENING = 3, /**< begins an epoch, or changes the lives; has no data */
};

/** Header of a record, in host order. */
struct log_hdr {
	uint64_t position;
	uint64_t seq; /**< a filler has the number of the record behind it */
	uint64_t epoch;
	uint64_t prev; /**< position of the previous record that is no filler; 0: none */
	uint32_t len_bytes;
	uint32_t kind;
	uint32_t crc;   /**< CRC32c of the data */
	uint64_t lives; /**< the membership from this record on (log_word.h); version 1: 0 */
};

uint32_t log_crc(uint32_t crc, const void *data, size_t len_bytes);

/** The first position of a log: offset 0 of the ring, and not 0. */
static inline uint64_t
log_first(uint64_t ring_bytes)
{
	return ring_bytes;
}

/** Octets from the position to the ring's end. */
static inline uint64_t
log_left(uint64_t ring_bytes, uint64_t position)
{
	return ring_bytes - position % ring_bytes;
}

/**
 * Whether `at` is the place where a record ends, or behind the filler that follows it: a filler
 * takes the rest of the ring, whatever is left.
 */
static inline bool
log_same_place(uint64_t ring_bytes, uint64_t end, uint64_t at)
{
	return at == end || at == end + log_left(ring_bytes, end);
}

/**
 * The next multiple of the ring's length. If a filler covers the position, the record at that
 * multiple follows the filler. The octets of a filler may hold a whole record of a writer that
 * died, so a header alone does not show that the log has a record at its position.
 */
static inline uint64_t
log_lap_end(uint64_t ring_bytes, uint64_t position)
{
	return position + log_left(ring_bytes, position);
}

/** Whether a filler in front of `end`, where a log or a part of it ends, can cover the position. */
static inline bool
log_may_be_filler(uint64_t ring_bytes, uint64_t position, uint64_t end)
{
	return position % ring_bytes != 0 && log_lap_end(ring_bytes, position) < end;
}

/** Octets that a record takes. */
static inline uint64_t
log_record_bytes(uint64_t len_bytes)
{
	return WEFT_LOG_HEADER_BYTES + log_align(len_bytes, (uint64_t)8);
}

/** The position where the next record may begin: a rest of the ring too short for a header is
 * not used. */
static inline uint64_t
log_norm(uint64_t ring_bytes, uint64_t position)
{
	uint64_t left = log_left(ring_bytes, position);

	return left < WEFT_LOG_HEADER_BYTES ? position + left : position;
}

/** Whether a record or filler can begin at the position. */
static inline bool
log_is_place(uint64_t ring_bytes, uint64_t position)
{
	return position >= log_first(ring_bytes) && position % 8 == 0 &&
	       position <= UINT64_MAX / 2 && log_norm(ring_bytes, position) == position;
}

/** Data octets of the longest record. The ring has room for it wherever the previous one lies,
 * however long that is. */
uint32_t log_max_record(uint64_t ring_bytes);

/**
 * Octets that appends leave free, so that a full log can be opened several times before it is
 * trimmed. Each epoch begins with a record of 64 octets, so that is up to 64 times. When the
 * reserve is used up, only weft_log_open_trim() opens the log.
 */
static inline uint64_t
log_reserve(uint64_t ring_bytes)
{
	return log_min(ring_bytes / 8, (uint64_t)4096);
}

void log_hdr_encode(const struct log_geom *g, const struct log_hdr *h, uint8_t *out);
/** Decode a header. -EBADMSG: it is no header of this log at this position, or its record is too
 * long. */
int log_hdr_decode(const struct log_geom *g, uint64_t position, const uint8_t *in,
                   struct log_hdr *h);
/** Decode the header at this octet of the ring, with the position that it names itself. */
int log_hdr_decode_at(const struct log_geom *g, uint64_t off, const uint8_t *in, struct log_hdr *h);

/** The position behind the record with this header. */
static inline uint64_t
log_hdr_end(const struct log_geom *g, const struct log_hdr *h)
{
	return log_norm(g->ring_bytes, h->position + log_record_bytes(h->len_bytes));
}

/** A walk from record to record. The caller sets at and least_epoch; log_walk() updates them. */
struct log_walk {
	struct weft_log_at at;
	uint64_t least_epoch; /**< least epoch of what follows: epochs never decrease */
	struct log_hdr hdr;   /**< result: the header found, which may be a filler's */
	const uint8_t *data;
	uint64_t need_bytes; /**< when log_walk() returns 0: octets needed */
};

/**
 * Decode the record or filler at w->at; p has `avail` octets of it. Moves w->at behind it and
 * returns its length, which may be more than avail for a filler; 0: too few octets; -EBADMSG.
 */
int64_t log_walk(const struct log_geom *g, struct log_walk *w, const uint8_t *p, uint64_t avail);

/** The record at `at`, which log_walk() has just found. */
static inline struct weft_log_record
log_record_of(const struct log_walk *w, const struct weft_log_at *at)
{
	return (struct weft_log_record){.at = *at,
	                                .epoch = w->hdr.epoch,
	                                .data = w->data,
	                                .len_bytes = w->hdr.len_bytes,
	                                .next = w->at};
}

void log_geom_of(const struct weft_log_super *s, struct log_geom *g);

/** Encode the superblock and return its length. -EINVAL as weft_log_format(). */
int log_super_encode(uint64_t len_bytes, const struct weft_log_super *in, uint8_t *page);

#endif /* LOG_WIRE_H */
