/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_WORD_H
#define LOG_WORD_H

/**
 * @file Codec of the four words of a target, version 2 (docs/log-format.md, "The words"): card,
 * tail, head and grant, each with a check. Version 1 has plain numbers, except for the grant, which
 * is the same.
 *
 * The check covers the value last. So the part before it is computed once (log_word_seed()), and
 * each word costs 8 octets more.
 */

#include <stdbool.h>
#include <stdint.h>

/** A tail that names no record, because there never was one. */
#define LOG_TAIL_NONE 0u

/**
 * A tail that names no record, because the target's records were given up. It keeps the sum of the
 * lives that the target knew, so that a target that was already replaced cannot open the log
 * together with it. It is odd, as no position is.
 */
static inline uint64_t
log_tail_anew(uint32_t lives_sum)
{
	return 1 + 8 * (uint64_t)lives_sum;
}

/** A target's membership in its log. All zero: blank, it never was a member. */
struct log_card {
	uint64_t epoch; /**< the highest claimed there */
	bool seated;    /**< it counts */
	uint8_t place;
	uint16_t life; /**< number of the target among those that had this place; 0: blank */
};

/** The seed of a word's check in an epoch, which covers all but the value. off:
 * WEFT_LOG_CARD_OFF, ... */
uint32_t log_word_seed(const uint8_t *log_id, const uint8_t *target_id, uint32_t off,
                       uint64_t epoch);

/** Encode a card. Epoch less than 2^32, place less than 8, life less than 4096. */
uint64_t log_card_encode(const uint8_t *log_id, const uint8_t *target_id,
                         const struct log_card *card);
/** Decode a card. -EBADMSG: wrong check, or a place or life that is impossible with n targets.
 * Eight zero octets are the blank card. */
int log_card_decode(const uint8_t *log_id, const uint8_t *target_id, uint32_t targets,
                    uint64_t word, struct log_card *card);

/** Encode tail or head. seed: of the word's offset and the epoch; position: whole, LOG_TAIL_NONE
 * or log_tail_anew(). */
uint64_t log_place_encode(uint32_t seed, uint64_t epoch, uint64_t ring_bytes, uint64_t position);

enum log_place_kind {
	LOG_PLACE_UNWRITTEN, /**< eight zero octets */
	LOG_PLACE_NONE,
	LOG_PLACE_ANEW,    /**< tail only; *off is the sum of lives */
	LOG_PLACE_AT,      /**< names this octet of the ring */
	LOG_PLACE_NOWHERE, /**< names no place of the ring */
};

/** What tail or head names, without its check: *off is the octet of the ring. */
enum log_place_kind log_place_look(uint64_t word, uint64_t ring_bytes, uint64_t *off);
/** The whole epoch of the word's writer: the least epoch with this stamp that is not below the
 * card's. */
uint64_t log_place_epoch(uint64_t word, uint64_t card_epoch);
/**
 * Check the word for this whole position: 0, or -EBADMSG. *unfenced is then the epoch below the
 * card's with which the check is right, or 0: a writer of that epoch wrote the word after a later
 * epoch was claimed.
 */
int log_place_check(const uint8_t *log_id, const uint8_t *target_id, uint32_t off,
                    uint64_t card_epoch, uint64_t word, uint64_t position, uint64_t *unfenced);

/**
 * Find the whole position of a head, of a target whose last record ends at `end`. It is one of the
 * ring's octets up to there. Where two are possible (the ring is full, or trimmed completely) the
 * check decides. Errors as log_place_check().
 */
int log_head_decode(const uint8_t *log_id, const uint8_t *target_id, uint64_t ring_bytes,
                    uint64_t card_epoch, uint64_t word, uint64_t end, uint64_t *position,
                    uint64_t *unfenced);

/** The grant word for a target that is joined by this STag; log_id and target_id are 16 octets
 * each. */
uint64_t log_grant_word(const uint8_t *log_id, const uint8_t *target_id, uint32_t stag);

/* ---- Lives: which target is in each place, as a record's header has them ---- */

/** Bits of each place's life. */
static inline unsigned int
log_lives_bits(uint32_t targets)
{
	return 64 / targets < 12 ? 64 / targets : 12;
}

static inline uint16_t
log_lives_max(uint32_t targets)
{
	return (uint16_t)((1U << log_lives_bits(targets)) - 1);
}

static inline uint16_t
log_life(uint64_t lives, uint32_t targets, unsigned int place)
{
	return (uint16_t)(lives >> place * log_lives_bits(targets) & log_lives_max(targets));
}

static inline uint64_t
log_lives_set(uint64_t lives, uint32_t targets, unsigned int place, uint16_t life)
{
	unsigned int at = place * log_lives_bits(targets);

	return (lives & ~((uint64_t)log_lives_max(targets) << at)) | (uint64_t)life << at;
}

/** The lives of a new log: the first in each place. */
static inline uint64_t
log_lives_first(uint32_t targets)
{
	uint64_t lives = 0;

	for (unsigned int i = 0; i < targets; i++)
		lives = log_lives_set(lives, targets, i, 1);
	return lives;
}

static inline uint32_t
log_lives_sum(uint64_t lives, uint32_t targets)
{
	uint32_t sum = 0;

	for (unsigned int i = 0; i < targets; i++)
		sum += log_life(lives, targets, i);
	return sum;
}

/** Whether a header can have these lives: every place has had a target, and no other bit is set. */
static inline bool
log_lives_ok(uint64_t lives, uint32_t targets)
{
	uint64_t all = 0;

	for (unsigned int i = 0; i < targets; i++) {
		all = log_lives_set(all, targets, i, log_lives_max(targets));
		if (log_life(lives, targets, i) == 0)
			return false;
	}
	return (lives & ~all) == 0;
}

#endif /* LOG_WORD_H */
