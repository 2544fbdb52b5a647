/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Codec of the words of a target (docs/log-format.md, "The words"). */

#include <errno.h>
#include <string.h>

#include "log_word.h"
#include "log_wire.h"
#include <weft/byteorder.h>

#define LOG_OFFSET_NONE ((1ULL << 40) - 1)
#define LOG_OFFSET_ANEW ((1ULL << 40) - 2) /**< minus the sum of lives */
#define LOG_SUM_MAX     0xffffu

#define LOG_EARLIER 16 /**< laps of the stamp to try for a writer of an earlier epoch */

uint32_t
log_word_seed(const uint8_t *log_id, const uint8_t *target_id, uint32_t off, uint64_t epoch)
{
	uint8_t in[16 + 16 + 4 + 8];

	memcpy(in, log_id, 16);
	memcpy(in + 16, target_id, 16);
	weft_put_be32(in + 32, off);
	weft_put_be64(in + 36, epoch);
	return log_crc(0, in, sizeof(in));
}

static uint64_t
log_word_check(uint32_t seed, uint64_t value)
{
	uint8_t in[8];

	weft_put_be64(in, value);
	return log_crc(seed, in, sizeof(in)) & 0xffff;
}

/* ---- Card ---- */

uint64_t
log_card_encode(const uint8_t *log_id, const uint8_t *target_id, const struct log_card *card)
{
	uint64_t value;

	if (card->life == 0)
		return 0;
	value = (card->epoch & UINT32_MAX) << 16 | (uint64_t)card->seated << 15 |
	        (uint64_t)(card->place & 7) << 12 | (card->life & 0xfff);
	return value << 16 |
	       log_word_check(log_word_seed(log_id, target_id, WEFT_LOG_CARD_OFF, card->epoch),
	                      value);
}

int
log_card_decode(const uint8_t *log_id, const uint8_t *target_id, uint32_t targets, uint64_t word,
                struct log_card *card)
{
	*card = (struct log_card){.epoch = word >> 32,
	                          .seated = word >> 31 & 1,
	                          .place = word >> 28 & 7,
	                          .life = word >> 16 & 0xfff};
	if (word == 0)
		return 0;
	if (log_card_encode(log_id, target_id, card) == word && card->epoch != 0 &&
	    card->place < targets && card->life <= log_lives_max(targets))
		return 0;
	*card = (struct log_card){0};
	return -EBADMSG;
}

/* ---- Tail and head ---- */

uint64_t
log_place_encode(uint32_t seed, uint64_t epoch, uint64_t ring_bytes, uint64_t position)
{
	uint64_t off = position % ring_bytes / 8;

	if (position == LOG_TAIL_NONE)
		off = LOG_OFFSET_NONE;
	else if ((position & 1) != 0)
		off = LOG_OFFSET_ANEW - (position >> 3 & LOG_SUM_MAX);
	return off << 24 | (epoch & 0xff) << 16 | log_word_check(seed, position);
}

enum log_place_kind
log_place_look(uint64_t word, uint64_t ring_bytes, uint64_t *off)
{
	uint64_t place = word >> 24;

	*off = 0;
	if (word == 0)
		return LOG_PLACE_UNWRITTEN;
	if (place == LOG_OFFSET_NONE)
		return LOG_PLACE_NONE;
	if (place >= LOG_OFFSET_ANEW - LOG_SUM_MAX) {
		*off = LOG_OFFSET_ANEW - place;
		return LOG_PLACE_ANEW;
	}
	*off = place * 8;
	return *off <= ring_bytes - WEFT_LOG_HEADER_BYTES ? LOG_PLACE_AT : LOG_PLACE_NOWHERE;
}

uint64_t
log_place_epoch(uint64_t word, uint64_t card_epoch)
{
	uint64_t stamp = word >> 16 & 0xff, epoch = (card_epoch & ~0xffULL) | stamp;

	return epoch < card_epoch ? epoch + 0x100 : epoch;
}

int
log_place_check(const uint8_t *log_id, const uint8_t *target_id, uint32_t off, uint64_t card_epoch,
                uint64_t word, uint64_t position, uint64_t *unfenced)
{
	uint64_t epoch = log_place_epoch(word, card_epoch), check = word & 0xffff;

	*unfenced = 0;
	if (epoch <= UINT32_MAX &&
	    log_word_check(log_word_seed(log_id, target_id, off, epoch), position) == check)
		return 0;
	for (unsigned int i = 0; i < LOG_EARLIER && epoch > 0x100; i++) {
		epoch -= 0x100;
		if (log_word_check(log_word_seed(log_id, target_id, off, epoch), position) != check)
			continue;
		*unfenced = epoch;
		break;
	}
	return -EBADMSG;
}

int
log_head_decode(const uint8_t *log_id, const uint8_t *target_id, uint64_t ring_bytes,
                uint64_t card_epoch, uint64_t word, uint64_t end, uint64_t *position,
                uint64_t *unfenced)
{
	uint64_t off, back, earlier;

	*unfenced = 0;
	if (log_place_look(word, ring_bytes, &off) != LOG_PLACE_AT)
		return -EBADMSG;
	back = (end % ring_bytes + ring_bytes - off) % ring_bytes;
	for (uint64_t b = back; b <= ring_bytes && b < end; b += ring_bytes) {
		if (log_is_place(ring_bytes, end - b) &&
		    log_place_check(log_id, target_id, WEFT_LOG_HEAD_OFF, card_epoch, word, end - b,
		                    &earlier) == 0) {
			*position = end - b;
			return 0;
		}
		if (log_is_place(ring_bytes, end - b) && earlier != 0)
			*unfenced = earlier;
	}
	return -EBADMSG;
}

/* ---- Grant ---- */

/** The check covers the identity of the word, so another target's or another word's octets fail
 * it. */
uint64_t
log_grant_word(const uint8_t *log_id, const uint8_t *target_id, uint32_t stag)
{
	return (uint64_t)stag << 32 |
	       log_word_check(log_word_seed(log_id, target_id, WEFT_LOG_GRANT_OFF, 0), stag);
}
