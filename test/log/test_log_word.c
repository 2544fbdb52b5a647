/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The words of a target: a written word is read back. A word that is damaged or belongs to
 * another target, another word, another lap or another epoch is invalid.
 */

#include "log_wire.h"
#include "weft_base.h"
#include "weft_test.h"

#define RING 8192u

static const uint8_t log_id[16] = {0x4c, 0x4f, 0x47, 1, 2, 3, 4, 5, 6};
static const uint8_t target_id[16] = {0x54, 9, 8, 7};
static const uint8_t other_id[16] = {0x54, 9, 8, 6};

static uint64_t
word(uint32_t off, uint64_t epoch, uint64_t ring, uint64_t position)
{
	return log_place_encode(log_word_seed(log_id, target_id, off, epoch), epoch, ring,
	                        position);
}

/* The examples of docs/log-format.md. */
static void
test_octets(void)
{
	struct log_card card = {.epoch = 5, .seated = true, .place = 1, .life = 2};

	CHECK_EQ(log_card_encode(log_id, target_id, &card), 0x00000005900202d6);
	CHECK_EQ(word(WEFT_LOG_TAIL_OFF, 5, RING, 8256), 0x0000000008058984);
	CHECK_EQ(word(WEFT_LOG_TAIL_OFF, 5, RING, LOG_TAIL_NONE), 0xffffffffff05773a);
	CHECK_EQ(word(WEFT_LOG_HEAD_OFF, 5, RING, 8192), 0x000000000005aac0);
	CHECK_EQ(log_grant_word(log_id, target_id, 0x12345678), 0x123456780000bff3);
	CHECK_EQ(log_lives_first(3), 0x1001001);
}

static void
card_is(const struct log_card *want)
{
	uint64_t w = log_card_encode(log_id, target_id, want);
	struct log_card got;

	CHECK_EQ(log_card_decode(log_id, target_id, 8, w, &got), 0);
	CHECK(got.epoch == want->epoch && got.seated == want->seated && got.place == want->place &&
	      got.life == want->life);
	CHECK_EQ(log_card_decode(log_id, other_id, 8, w, &got), -EBADMSG);
	CHECK_EQ(log_card_decode(target_id, target_id, 8, w, &got), -EBADMSG);
	for (unsigned int bit = 0; bit < 64; bit++) {
		CHECK_MSG(log_card_decode(log_id, target_id, 8, w ^ 1ULL << bit, &got) == -EBADMSG,
		          "epoch %u bit %u", (unsigned int)want->epoch, bit);
		CHECK(got.life == 0 && !got.seated);
	}
}

static void
test_card(void)
{
	struct log_card card = {.epoch = 1}, got;

	for (unsigned int i = 0; i < 2000; i++) {
		card.epoch = 1 + (uint64_t)i * i * 1073 % UINT32_MAX;
		card.seated = i % 2;
		card.place = i / 2 % 8;
		card.life = (uint16_t)(1 + i % 255);
		card_is(&card);
	}
	card = (struct log_card){.epoch = UINT32_MAX, .place = 7, .life = 255};
	card_is(&card);
	/* Blank. */
	CHECK_EQ(log_card_decode(log_id, target_id, 3, 0, &got), 0);
	CHECK(got.life == 0 && !got.seated && got.epoch == 0);
	card = (struct log_card){0};
	CHECK_EQ(log_card_encode(log_id, target_id, &card), 0);
	/* A place and a life that no target of this log has. */
	card = (struct log_card){.epoch = 3, .seated = true, .place = 3, .life = 1};
	CHECK_EQ(log_card_decode(log_id, target_id, 3, log_card_encode(log_id, target_id, &card),
	                         &got),
	         -EBADMSG);
	CHECK_EQ(log_card_decode(log_id, target_id, 4, log_card_encode(log_id, target_id, &card),
	                         &got),
	         0);
	card = (struct log_card){.epoch = 3, .seated = true, .place = 1, .life = 256};
	CHECK_EQ(log_card_decode(log_id, target_id, 8, log_card_encode(log_id, target_id, &card),
	                         &got),
	         -EBADMSG);
	CHECK_EQ(log_card_decode(log_id, target_id, 5, log_card_encode(log_id, target_id, &card),
	                         &got),
	         0);
}

/** Check that a tail with the card's epoch at `card` is valid for this position, and for no
 * other value. */
static void
tail_is(uint64_t ring, uint64_t epoch, uint64_t card, uint64_t position)
{
	uint64_t w = word(WEFT_LOG_TAIL_OFF, epoch, ring, position), u;

	CHECK_EQ(log_place_epoch(w, card), epoch);
	CHECK_EQ(log_place_check(log_id, target_id, WEFT_LOG_TAIL_OFF, card, w, position, &u), 0);
	CHECK(log_place_check(log_id, other_id, WEFT_LOG_TAIL_OFF, card, w, position, &u) < 0);
	CHECK(log_place_check(log_id, target_id, WEFT_LOG_HEAD_OFF, card, w, position, &u) < 0);
	CHECK(log_place_check(log_id, target_id, WEFT_LOG_TAIL_OFF, card, w, position + ring, &u) <
	      0);
	for (unsigned int bit = 0; bit < 64; bit++) {
		uint64_t bad = w ^ 1ULL << bit, off;
		enum log_place_kind kind = log_place_look(bad, ring, &off);

		/* The word names another place, where the record has another position, or its
		 * check is wrong. */
		if (kind == LOG_PLACE_AT && off == position % ring)
			CHECK_MSG(log_place_check(log_id, target_id, WEFT_LOG_TAIL_OFF, card, bad,
			                          position, &u) < 0,
			          "bit %u", bit);
		else if (kind == LOG_PLACE_AT)
			CHECK(log_place_check(log_id, target_id, WEFT_LOG_TAIL_OFF, card, bad,
			                      position - position % ring + off, &u) < 0);
		else if (kind == LOG_PLACE_NONE)
			CHECK(log_place_check(log_id, target_id, WEFT_LOG_TAIL_OFF, card, bad,
			                      LOG_TAIL_NONE, &u) < 0);
		else if (kind == LOG_PLACE_ANEW)
			CHECK(log_place_check(log_id, target_id, WEFT_LOG_TAIL_OFF, card, bad,
			                      log_tail_anew((uint32_t)off), &u) < 0);
	}
}

static void
test_tail(void)
{
	static const uint64_t rings[] = {8192, 16384 + 64, 1ULL << 20, 1ULL << 42};
	uint64_t off, u, w;

	for (unsigned int r = 0; r < RTE_DIM(rings); r++)
		for (uint64_t i = 0; i < 300; i++) {
			uint64_t at =
			        rings[r] * (1 + i % 7) + 8 * (i * i * 37 % (rings[r] / 8 - 7));

			tail_is(rings[r], 1 + i * 11, 1 + i * 11 - RTE_MIN(i * 11, i % 256), at);
		}
	tail_is(RING, UINT32_MAX, UINT32_MAX, RING);
	/* Tails that name no record. */
	CHECK_EQ(log_place_look(0, RING, &off), LOG_PLACE_UNWRITTEN);
	w = word(WEFT_LOG_TAIL_OFF, 7, RING, LOG_TAIL_NONE);
	CHECK_EQ(log_place_look(w, RING, &off), LOG_PLACE_NONE);
	CHECK_EQ(log_place_check(log_id, target_id, WEFT_LOG_TAIL_OFF, 7, w, LOG_TAIL_NONE, &u), 0);
	CHECK(log_place_check(log_id, target_id, WEFT_LOG_TAIL_OFF, 7, w, log_tail_anew(3), &u) <
	      0);
	for (uint32_t sum = 1; sum < 33000; sum += 97) {
		w = word(WEFT_LOG_TAIL_OFF, 7, RING, log_tail_anew(sum));
		CHECK_EQ(log_place_look(w, RING, &off), LOG_PLACE_ANEW);
		CHECK_EQ(off, sum);
		CHECK_EQ(log_place_check(log_id, target_id, WEFT_LOG_TAIL_OFF, 7, w,
		                         log_tail_anew(sum), &u),
		         0);
		CHECK(log_place_check(log_id, target_id, WEFT_LOG_TAIL_OFF, 7, w,
		                      log_tail_anew(sum + 1), &u) < 0);
	}
	/* The last place with room for a header, and the place after it. */
	CHECK_EQ(log_place_look((uint64_t)(RING - 64) / 8 << 24 | 1, RING, &off), LOG_PLACE_AT);
	CHECK_EQ(off, RING - 64);
	CHECK_EQ(log_place_look((uint64_t)(RING - 56) / 8 << 24 | 1, RING, &off),
	         LOG_PLACE_NOWHERE);
}

/* A word written after a later claim: the report names the epoch of its writer. */
static void
test_unfenced(void)
{
	uint64_t u;

	for (uint64_t card = 2; card < 1200; card += 7)
		for (uint64_t back = 1; back < RTE_MIN(card, 256UL); back += 13) {
			uint64_t w = word(WEFT_LOG_TAIL_OFF, card - back, RING, 8192 + 64);

			CHECK_EQ(log_place_check(log_id, target_id, WEFT_LOG_TAIL_OFF, card, w,
			                         8192 + 64, &u),
			         -EBADMSG);
			CHECK_EQ(u, card - back);
		}
	/* A damaged word has no writer. */
	CHECK_EQ(log_place_check(log_id, target_id, WEFT_LOG_TAIL_OFF, 9,
	                         word(WEFT_LOG_TAIL_OFF, 8, RING, 8192 + 64) ^ 4, 8192 + 64, &u),
	         -EBADMSG);
	CHECK_EQ(u, 0);
}

static void
test_head(void)
{
	uint64_t at, u, w;

	for (uint64_t end = RING; end < 4 * RING; end += 8 * 17) {
		if (!log_is_place(RING, end))
			continue;
		for (uint64_t back = 0; back <= RING && end - back >= RING; back += 8 * 13) {
			uint64_t head = end - back;

			if (!log_is_place(RING, head))
				continue;
			w = word(WEFT_LOG_HEAD_OFF, 3, RING, head);
			CHECK_EQ(log_head_decode(log_id, target_id, RING, 3, w, end, &at, &u), 0);
			CHECK_EQ(at, head);
			for (unsigned int bit = 0; bit < 64; bit++)
				CHECK(log_head_decode(log_id, target_id, RING, 3, w ^ 1ULL << bit,
				                      end, &at, &u) < 0);
		}
	}
	/* A full ring and a completely trimmed one: the check distinguishes them. */
	for (uint64_t head = 2 * RING; head <= 3 * RING; head += RING) {
		w = word(WEFT_LOG_HEAD_OFF, 3, RING, head);
		CHECK_EQ(log_head_decode(log_id, target_id, RING, 3, w, 3 * RING, &at, &u), 0);
		CHECK_EQ(at, head);
	}
	/* A head of the previous lap, of an earlier writer, of no record, and one that was never
	 * written. */
	w = word(WEFT_LOG_HEAD_OFF, 3, RING, RING + 64);
	CHECK(log_head_decode(log_id, target_id, RING, 3, w, 3 * RING, &at, &u) < 0);
	CHECK_EQ(u, 0);
	w = word(WEFT_LOG_HEAD_OFF, 2, RING, 2 * RING + 64);
	CHECK(log_head_decode(log_id, target_id, RING, 3, w, 3 * RING, &at, &u) < 0);
	CHECK_EQ(u, 2);
	w = word(WEFT_LOG_HEAD_OFF, 3, RING, LOG_TAIL_NONE);
	CHECK(log_head_decode(log_id, target_id, RING, 3, w, 3 * RING, &at, &u) < 0);
	CHECK(log_head_decode(log_id, target_id, RING, 3, 0, 3 * RING, &at, &u) < 0);
}

static void
test_lives(void)
{
	for (uint32_t n = 1; n <= WEFT_LOG_MAX_TARGETS; n++) {
		uint64_t lives = log_lives_first(n);

		CHECK_EQ(log_lives_max(n), n <= 5 ? 4095 : n == 6 ? 1023 : n == 7 ? 511 : 255);
		CHECK(log_lives_ok(lives, n));
		for (uint32_t i = 0; i < n; i++) {
			uint64_t more = log_lives_set(lives, n, i, log_lives_max(n));

			CHECK_EQ(log_life(lives, n, i), 1);
			CHECK(log_lives_ok(more, n));
			CHECK_EQ(log_life(more, n, i), log_lives_max(n));
			CHECK_EQ(log_lives_set(more, n, i, 1), lives);
			CHECK(!log_lives_ok(log_lives_set(lives, n, i, 0), n));
		}
		if (n * log_lives_bits(n) < 64)
			CHECK(!log_lives_ok(lives | 1ULL << 63, n));
	}
}

WEFT_TEST_MAIN({"octets", test_octets}, {"card", test_card}, {"tail", test_tail},
               {"unfenced", test_unfenced}, {"head", test_head}, {"lives", test_lives})
