/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_WORD_H
#define LOG_WORD_H

/**
 * @file Codec of the four words of a target, version 2 (docs/log-format.md, "The words"): card,
 * tail, head and grant, each with a check of its own. Those of version 1 are plain numbers, but for
 * the grant, which is the same.
 *
 * Everything but the value goes into a check first, so it is computed once (log_word_seed()), and a
 * word costs 8 octets more.
 */

#include <stdbool.h>
#include <stdint.h>

/** A tail that names no record: there never was one. */
#define LOG_TAIL_NONE 0u

/**
 * A tail that names no record: what the target had is given up, and the sum of the lives that it
 * knew is kept. So whoever was replaced by then cannot open the log beside it. Odd, as no position
 * is.
 */
static inline uint64_t
log_tail_anew(uint32_t lives_sum)
{
	return 1 + 8 * (uint64_t)lives_sum;
}

/** What a target is in its log. All zero: blank, it never was part of it. */
struct log_card {
	uint64_t epoch; /**< the highest claimed there */
	bool seated;    /**< it counts */
	uint8_t place;
	uint16_t life; /**< which target in this place; 0: blank */
};

/** Of an epoch: what the check of a word covers besides its value. off: WEFT_LOG_CARD_OFF, ... */
uint32_t log_word_seed(const uint8_t *log_id, const uint8_t *target_id, uint32_t off,
                       uint64_t epoch);

/** Epoch less than 2^32, place less than 8, life less than 4096. */
uint64_t log_card_encode(const uint8_t *log_id, const uint8_t *target_id,
                         const struct log_card *card);
/** -EBADMSG: its check is wrong, or a place or life that no target of n has. Eight zero octets are
 * the blank card. */
int log_card_decode(const uint8_t *log_id, const uint8_t *target_id, uint32_t targets,
                    uint64_t word, struct log_card *card);

/** Tail or head. seed: of the word's offset and the epoch; position: whole, or LOG_TAIL_NONE,
 * log_tail_anew(). */
uint64_t log_place_encode(uint32_t seed, uint64_t epoch, uint64_t ring_bytes, uint64_t position);

enum log_place_kind {
	LOG_PLACE_UNWRITTEN, /**< eight zero octets */
	LOG_PLACE_NONE,
	LOG_PLACE_ANEW,    /**< of a tail; *off is the sum of lives */
	LOG_PLACE_AT,      /**< names this octet of the ring */
	LOG_PLACE_NOWHERE, /**< names no place of the ring */
};

/** What tail or head names, before its check is looked at: *off is the octet of the ring. */
enum log_place_kind log_place_look(uint64_t word, uint64_t ring_bytes, uint64_t *off);
/** Whole epoch of the writer that wrote it: the least one with this stamp that is no less than the
 * card's. */
uint64_t log_place_epoch(uint64_t word, uint64_t card_epoch);
/**
 * Whether the word is one for this whole position: 0, or -EBADMSG. *unfenced is then the epoch,
 * lower than the card's, with which its check is right, so a writer of that epoch wrote it when a
 * later one was claimed; or 0.
 */
int log_place_check(const uint8_t *log_id, const uint8_t *target_id, uint32_t off,
                    uint64_t card_epoch, uint64_t word, uint64_t position, uint64_t *unfenced);

/**
 * Whole position of a head, of a target whose last record ends at `end`: one of the ring's octets
 * up to there; where two are possible (a ring that is full, or all trimmed) the check decides.
 * Errors as log_place_check().
 */
int log_head_decode(const uint8_t *log_id, const uint8_t *target_id, uint64_t ring_bytes,
                    uint64_t card_epoch, uint64_t word, uint64_t end, uint64_t *position,
                    uint64_t *unfenced);

/** The grant word of a target that is joined by this STag: log_id and target_id are 16 octets each.
 */
uint64_t log_grant_word(const uint8_t *log_id, const uint8_t *target_id, uint32_t stag);

/* ---- Lives: which target is in each place, as a record's header has them ---- */

/** Bits of each place's. */
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

/** Those of a new log: each the first. */
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

/** Whether a header can have them: every place has had somebody, and no other bit is set. */
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
