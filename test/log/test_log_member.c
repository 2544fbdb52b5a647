/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Which targets count: replaced targets that return, strangers, and damaged words. Three
 * targets, a quorum of two, and a fourth medium that replaces one of the three.
 */

#include "lt_three.h"

#define SPARE 3u

static bool
all_looked(void *arg)
{
	struct weft_log_info info = lt_info(arg);

	for (unsigned int i = 0; i < 3; i++)
		if (info.target[i].state == WEFT_LOG_TARGET_LOOKING)
			return false;
	return true;
}

static bool
some_lost(void *arg)
{
	return ((struct lt *)arg)->lost_status != 0;
}

static bool
spare_live(void *arg)
{
	(void)arg;
	return is_live(SPARE);
}

static bool
spare_catches(void *arg)
{
	struct lt *x = arg;

	return x->target[SPARE].joined >= 0 &&
	       lt_info(x).target[x->target[SPARE].joined].state == WEFT_LOG_TARGET_CATCHING;
}

/** A log with records on three targets. The writer formats every medium. */
static void
begin(enum log_sabotage s)
{
	struct lt_attr a = {.seed = 1,
	                    .quick = true,
	                    .no_trim = true,
	                    .remote_format = true,
	                    .spares = 1,
	                    .log = s};

	start(&a);
	append_n(5, 60);
	CHECK(lt_until(&l, all_live));
}

/** Target 2 leaves, and the spare takes its place. */
static void
replace_two(void)
{
	drop(2);
	CHECK_EQ(lt_join(&l, SPARE), 0);
	CHECK(lt_until(&l, spare_live));
}

static struct log_card
card_of(unsigned int i)
{
	return lt_words(&l, i).card;
}

/** Join target i to the open log, which refuses it. Returns the error. */
static int
refused(unsigned int i)
{
	l.lost_status = 0;
	CHECK_EQ(lt_join(&l, i), 0);
	CHECK(lt_until(&l, some_lost));
	return l.target[i].lost;
}

/** The log does not open with these targets alone, because they know too little. */
static void
too_few(unsigned int which)
{
	lt_recover(&l, which);
	CHECK_MSG(l.verdict == LT_FAILED && l.fail_status == -ENOTCONN && !l.failed, "%s (%d)",
	          lt_verdict_str(l.verdict), l.fail_status);
	l.verdict = LT_SOUND;
	/* the events of the targets follow */
	vt_run(&l.t, VT_MS);
}

/* ---- Replaced ---- */

/* The replaced target is refused with -EREMCHG, by an open log and by an open, if any member
 * that knows of the replacement takes part. */
static void
test_replaced(void)
{
	struct log_card was;

	for (unsigned int left = 0; left < 2; left++) {
		begin(LOG_SOUND);
		was = card_of(2);
		CHECK_EQ(was.life, 1);
		replace_two();
		CHECK_EQ(card_of(SPARE).place, was.place);
		CHECK_EQ(card_of(SPARE).life, 2);
		CHECK(card_of(SPARE).seated && card_of(2).seated);
		CHECK_EQ(lt_info(&l).target[l.target[SPARE].joined].life, 2);
		drop(left);
		append_n(5, 60);
		CHECK(lt_until(&l, all_durable));
		CHECK_EQ(refused(2), -EREMCHG);
		lt_kill_writer(&l);
		/* together with a member that lacks the last records */
		too_few(1U << left | 1U << 2);
		CHECK_EQ(l.target[2].lost, -EREMCHG);
		lt_recover(&l, 1U << SPARE);
		CHECK_EQ(l.verdict, LT_SOUND);
		CHECK_EQ(refused(2), -EREMCHG);
		/* After a wipe the target joins as a new one. */
		lt_revoke_one(&l, 2);
		lt_wipe_target(&l, 2);
		rejoin(1 - left);
		CHECK(lt_until(&l, all_live));
		drop(SPARE);
		CHECK_EQ(lt_join(&l, 2), 0);
		CHECK(lt_until(&l, all_live));
		CHECK_EQ(card_of(2).life, 3);
		finish();
	}
}

/* Without lives, a replaced target can open a log that lacks the newer records. */
static void
test_replaced_wrong(void)
{
	begin(LOG_NO_LIVES);
	replace_two();
	drop(0);
	append_n(5, 60);
	CHECK(lt_until(&l, all_durable));
	lt_kill_writer(&l);
	lt_recover(&l, 1U << 0 | 1U << 2);
	CHECK_EQ(l.verdict, LT_LOST);
	l.verdict = LT_SOUND;
	lt_close(&l);
}

/** Target 2 was replaced, and target 1 knows it. All records of target 1 are trimmed, so target
 * 1 is begun anew. */
static void
anew_beside_old(enum log_sabotage s)
{
	struct weft_log_at keep;

	begin(s);
	replace_two();
	CHECK(lt_until(&l, all_live));
	drop(1);
	append_n(5, 60);
	CHECK(lt_until(&l, all_durable));
	keep = lt_info(&l).durable;
	l.trim_seq = keep.seq;
	CHECK_EQ(weft_log_trim(l.log, &keep), 0);
	vt_run(&l.t, 5 * VT_MS);
	CHECK_EQ(lt_join(&l, 1), 0);
}

/* Target 1 has no records then. Still the replaced target does not open the log together with
 * it. */
static void
test_anew_knows(void)
{
	unsigned int anew = 0;

	for (unsigned int us = 0; us < 800; us += 10) {
		anew_beside_old(LOG_SOUND);
		vt_run(&l.t, us * 1000);
		power_cut();
		anew += lt_words(&l, 1).anew;
		too_few(1U << 1 | 1U << 2);
		if (l.target[2].client != NULL)
			drop(2);
		lt_recover(&l, 1U << 0);
		CHECK_MSG(l.verdict == LT_SOUND, "after %u us: %s (%d)", us,
		          lt_verdict_str(l.verdict), l.fail_status);
		CHECK_EQ(lt_join(&l, SPARE), 0);
		CHECK(lt_until(&l, all_live));
		finish();
	}
	CHECK_MSG(anew > 3, "%u", anew);
	anew_beside_old(LOG_FORGETS);
	vt_run(&l.t, 5 * VT_MS);
	CHECK_EQ(l.verdict, LT_LOST);
	l.verdict = LT_SOUND;
	lt_close(&l);
}

/* A stranger counts only when enough members know of it that every later open finds out. Until
 * then its answers make no record durable. */
static void
test_seat_waits(void)
{
	uint64_t durable;

	begin(LOG_SOUND);
	drop(0);
	/* one member is left, with the stranger */
	CHECK_EQ(lt_join(&l, SPARE), 0);
	CHECK(lt_until(&l, spare_catches));
	drop(2);
	durable = l.durable;
	append_n(3, 60);
	vt_run(&l.t, VT_S);
	CHECK(!l.failed);
	CHECK_EQ(l.durable, durable);
	CHECK(!card_of(SPARE).seated && !is_live(SPARE));
	CHECK_EQ(lt_join(&l, 2), 0);
	CHECK(lt_until(&l, spare_live));
	CHECK(lt_until(&l, all_live));
	CHECK(card_of(SPARE).seated);
	/* The stranger got the lowest free place. */
	CHECK_EQ(card_of(SPARE).place, card_of(0).place);
	CHECK_EQ(lt_join(&l, 0), -ENOSPC);
	drop(1);
	CHECK_EQ(refused(0), -EREMCHG);
	finish();
}

/* The writer crashes at any step of the stranger's join. Then the replaced target counts or is
 * refused, and the log stays usable. */
static void
test_seat_cut(void)
{
	unsigned int replaced = 0, same = 0;

	for (unsigned int us = 0; us < 2400; us += 20) {
		begin(LOG_SOUND);
		drop(2);
		CHECK_EQ(lt_join(&l, SPARE), 0);
		vt_run(&l.t, us * 1000);
		power_cut();
		lt_recover(&l, 3);
		CHECK_EQ(l.verdict, LT_SOUND);
		append_n(3, 60);
		CHECK(lt_until(&l, all_durable));
		CHECK_EQ(lt_join(&l, 2), 0);
		vt_run(&l.t, 50 * VT_MS);
		if (l.target[2].lost == 0) {
			same++;
			CHECK(is_live(2));
		} else {
			replaced++;
			CHECK_EQ(l.target[2].lost, -EREMCHG);
			CHECK_EQ(lt_join(&l, SPARE), 0);
		}
		CHECK_MSG(lt_until(&l, all_live), "after %u us", us);
		finish();
	}
	CHECK_MSG(replaced > 5 && same > 5, "%u replaced, %u not", replaced, same);
}

/* The number of lives of a place is limited by the bits of the field. */
static void
test_lives_end(void)
{
	begin(LOG_SOUND);
	drop(2);
	l.log->lives = log_lives_set(l.log->lives, 3, card_of(2).place, log_lives_max(3));
	CHECK_EQ(refused(SPARE), -EOVERFLOW);
	CHECK(!l.failed);
	l.verdict = LT_SOUND;
	lt_close(&l);
}

/* ---- The first open ---- */

/* The first open is interrupted at any step. The next open with all three targets succeeds. */
static void
test_first_cut(void)
{
	unsigned int offered = 0, seated = 0;

	for (unsigned int us = 0; us < 2000; us += 10) {
		struct lt_attr a = {.seed = 1, .quick = true, .targets = 3, .quorum = 2};
		struct weft_persist_sim_cfg slow;
		unsigned int n = 0, m = 0;

		lt_open(&l, &a);
		slow = l.cfg;
		slow.delay_min_ns = slow.delay_max_ns = 30000;
		weft_persist_sim_set(l.target[1].persist, &slow);
		lt_log(&l);
		for (unsigned int i = 0; i < 3; i++)
			CHECK_EQ(lt_join(&l, i), 0);
		CHECK(lt_until(&l, all_looked));
		CHECK_EQ(weft_log_open(l.log), 0);
		vt_run(&l.t, us * 1000);
		power_cut();
		for (unsigned int i = 0; i < 3; i++) {
			n += card_of(i).seated;
			m += card_of(i).life != 0;
		}
		CHECK(n == 0 || m == 3);
		offered += m > 0 && n == 0;
		seated += n > 0 && n < 3;
		/* the opening record, which was not reported to the application */
		if (l.appended == 1 &&
		    lt_words(&l, 0).tail + lt_words(&l, 1).tail + lt_words(&l, 2).tail != 0)
			lt_remember(&l, l.appended++, (struct lt_record){.opening = true});
		lt_recover(&l, 7);
		CHECK_MSG(l.verdict == LT_SOUND, "after %u us: %s (%d)", us,
		          lt_verdict_str(l.verdict), l.fail_status);
		append_n(3, 60);
		CHECK(lt_until(&l, all_live));
		finish();
	}
	CHECK_MSG(offered > 2 && seated > 0, "%u offered, %u seated", offered, seated);
}

/* No target has a record, and one is blank. It was joined later, so its earlier content is
 * unknown. */
static void
test_fresh_beside_blank(void)
{
	struct lt_attr a = {.seed = 1,
	                    .quick = true,
	                    .targets = 2,
	                    .quorum = 1,
	                    .no_judge = true,
	                    .remote_format = true};

	lt_open(&l, &a);
	lt_recover(&l, 3);
	lt_kill_writer(&l);
	/* Set the state as if the opening and later records had been durable at target 0 only. */
	lt_wipe_target(&l, 0);
	for (uint32_t off = WEFT_LOG_TAIL_OFF; off <= WEFT_LOG_HEAD_OFF; off += LOG_WORD_STRIDE) {
		struct weft_log_super s = {.size = sizeof(s)};
		uint8_t word[8];

		CHECK_EQ(weft_log_super_decode(l.target[1].persist->base, l.region_bytes, &s), 0);
		weft_put_be64(word, log_place_encode(log_word_seed(s.log_id, s.target_id, off, 1),
		                                     1, s.ring_bytes,
		                                     off == WEFT_LOG_TAIL_OFF ? LOG_TAIL_NONE
		                                                              : s.ring_bytes));
		lt_poke(&l, 1, off, word, 8);
	}
	CHECK(card_of(1).seated && lt_words(&l, 1).tail == 0 && !lt_words(&l, 1).bad);
	lt_recover(&l, 3);
	CHECK_EQ(l.verdict, LT_FAILED);
	CHECK_EQ(l.fail_status, -ENOTCONN);
	CHECK(!l.failed);
	lt_close(&l);
}

/* ---- Damage ---- */

/** Damage words of target i. Its content is then no proof of anything. */
static void
rot(unsigned int i, uint64_t off, const void *octets, uint32_t len)
{
	l.target[i].rotten = l.target[i].wiped = true;
	lt_poke(&l, i, off, octets, len);
}

static void
rot_bit(unsigned int i, uint64_t off, unsigned int bit)
{
	uint8_t word[8];

	memcpy(word, l.target[i].persist->base + off, 8);
	word[bit / 8] ^= (uint8_t)(1 << bit % 8);
	rot(i, off, word, 8);
}

/** Check that exactly target i was reported, with one of these kinds of damage. */
static void
named(unsigned int i, unsigned int kinds)
{
	CHECK_EQ(l.damaged, 1U << i);
	CHECK_MSG((kinds & 1U << l.damage) != 0, "%s", weft_log_damage_str(l.damage));
	l.damaged = 0;
}

/** Before an open, the damaged target is refused and not counted. On the open log it is begun
 * anew. */
static void
judge_damage(unsigned int kinds, uint64_t position, uint64_t record)
{
	too_few(1U << 0 | 1U << 1);
	CHECK_EQ(l.target[0].lost, -EBADMSG);
	named(0, kinds);
	CHECK_EQ(l.damage_pos, l.damage == WEFT_LOG_DAMAGE_TAIL ? record : position);
	lt_recover(&l, 1U << 2);
	CHECK_EQ(l.verdict, LT_SOUND);
	CHECK_EQ(l.damaged, 0);
	append_n(2, 60);
	CHECK(lt_until(&l, all_durable));
	CHECK_EQ(lt_join(&l, 0), 0);
	CHECK(lt_until(&l, all_live));
	named(0, kinds);
	CHECK_EQ(lt_info(&l).resets, 1);
	CHECK(card_of(0).seated && !lt_words(&l, 0).bad);
	power_cut();
	lt_recover(&l, 3);
	CHECK_EQ(l.damaged, 0);
	finish();
}

/* Damage each bit of each word. */
static void
test_word_bits(void)
{
	static const struct {
		uint32_t off;
		unsigned int kinds;
	} words[] = {
	        {WEFT_LOG_CARD_OFF, 1U << WEFT_LOG_DAMAGE_CARD},
	        {WEFT_LOG_TAIL_OFF, 1U << WEFT_LOG_DAMAGE_TAIL_WORD | 1U << WEFT_LOG_DAMAGE_TAIL},
	        {WEFT_LOG_HEAD_OFF, 1U << WEFT_LOG_DAMAGE_HEAD_WORD},
	};

	for (unsigned int w = 0; w < RTE_DIM(words); w++)
		for (unsigned int bit = 0; bit < 64; bit++) {
			uint64_t off = 0;

			begin(LOG_SOUND);
			lt_kill_writer(&l);
			rot_bit(0, words[w].off, bit);
			/* If the damaged word names a position without a record, that position
			 * is reported. */
			(void)log_place_look(
			        weft_get_be64(l.target[0].persist->base + words[w].off),
			        l.a.ring_bytes, &off);
			judge_damage(words[w].kinds, words[w].off, off);
		}
}

/* A word that was never written, and a word of another target. */
static void
test_word_others(void)
{
	for (uint32_t off = WEFT_LOG_TAIL_OFF; off <= WEFT_LOG_HEAD_OFF; off += LOG_WORD_STRIDE)
		for (unsigned int k = 0; k < 2; k++) {
			static const uint8_t zero[8];
			unsigned int kind = off == WEFT_LOG_TAIL_OFF ? WEFT_LOG_DAMAGE_TAIL_WORD
			                                             : WEFT_LOG_DAMAGE_HEAD_WORD;

			begin(LOG_SOUND);
			lt_kill_writer(&l);
			rot(0, off, k == 0 ? zero : l.target[1].persist->base + off, 8);
			judge_damage(1U << kind, off, 0);
		}
}

/** Replace a word by a valid one of a writer of this epoch. */
static void
put_word(unsigned int i, uint32_t off, uint64_t epoch, uint64_t position)
{
	struct weft_log_super s = {.size = sizeof(s)};
	uint8_t word[8];

	CHECK_EQ(weft_log_super_decode(l.target[i].persist->base, l.region_bytes, &s), 0);
	weft_put_be64(word, log_place_encode(log_word_seed(s.log_id, s.target_id, off, epoch),
	                                     epoch, s.ring_bytes, position));
	rot(i, off, word, 8);
}

/* A writer that was paused and not stopped changes a word. The report names the writer's epoch. */
static void
test_unfenced(void)
{
	for (uint32_t off = WEFT_LOG_TAIL_OFF; off <= WEFT_LOG_HEAD_OFF; off += LOG_WORD_STRIDE) {
		begin(LOG_SOUND);
		lt_kill_writer(&l);
		lt_recover(&l, 7);
		append_n(3, 60);
		CHECK(lt_until(&l, all_live));
		lt_kill_writer(&l);
		CHECK_EQ(l.epoch, 2);
		put_word(0, off, 1,
		         off == WEFT_LOG_TAIL_OFF ? l.rec[4].at.position : l.rec[3].at.position);
		too_few(1U << 0 | 1U << 1);
		CHECK_EQ(l.damage_epoch, 1);
		lt_kill_writer(&l);
		l.damaged = 0;
		judge_damage(1U << WEFT_LOG_DAMAGE_UNFENCED, off, 0);
	}
}

/* The head of a target that was begun anew has no meaning. No damage is reported, neither before
 * an open nor on an open log, and the target gets every record. */
static void
test_says_nothing(void)
{
	for (unsigned int bit = 0; bit < 128; bit++) {
		struct weft_log_super s = {.size = sizeof(s)};
		uint8_t word[8];

		begin(LOG_SOUND);
		lt_kill_writer(&l);
		CHECK_EQ(weft_log_super_decode(l.target[0].persist->base, l.region_bytes, &s), 0);
		weft_put_be64(word, log_place_encode(log_word_seed(s.log_id, s.target_id,
		                                                   WEFT_LOG_TAIL_OFF, 1),
		                                     1, s.ring_bytes, log_tail_anew(3)));
		lt_poke(&l, 0, WEFT_LOG_TAIL_OFF, word, 8);
		memcpy(word, l.target[0].persist->base + WEFT_LOG_HEAD_OFF, 8);
		word[bit % 64 / 8] ^= (uint8_t)(1 << bit % 8);
		lt_poke(&l, 0, WEFT_LOG_HEAD_OFF, word, 8);
		CHECK(lt_words(&l, 0).anew && card_of(0).seated);
		lt_recover(&l, bit < 64 ? 7 : 6);
		CHECK_EQ(l.verdict, LT_SOUND);
		if (bit >= 64)
			CHECK_EQ(lt_join(&l, 0), 0);
		CHECK(lt_until(&l, all_live));
		CHECK_EQ(l.damaged, 0);
		CHECK(!lt_words(&l, 0).bad);
		finish();
	}
}

/* The last record does not have the life of the target's card. Then: a damaged superblock. */
static void
test_life_and_super(void)
{
	struct weft_log_super s = {.size = sizeof(s)};
	struct log_card card;
	uint8_t word[8];

	begin(LOG_SOUND);
	lt_kill_writer(&l);
	card = card_of(0);
	card.life++;
	CHECK_EQ(weft_log_super_decode(l.target[0].persist->base, l.region_bytes, &s), 0);
	weft_put_be64(word, log_card_encode(s.log_id, s.target_id, &card));
	rot(0, WEFT_LOG_CARD_OFF, word, 8);
	too_few(1U << 0 | 1U << 1);
	CHECK_EQ(l.target[0].lost, -EBADMSG);
	named(0, 1U << WEFT_LOG_DAMAGE_LIFE);
	CHECK_EQ(l.damage_pos, l.rec[l.durable - 1].at.position);
	lt_kill_writer(&l);
	card.life--;
	weft_put_be64(word, log_card_encode(s.log_id, s.target_id, &card));
	lt_poke(&l, 0, WEFT_LOG_CARD_OFF, word, 8);
	/* No field of a damaged superblock is used, and the superblock is not repaired. */
	rot_bit(0, 100, 3);
	too_few(1U << 0 | 1U << 1);
	CHECK_EQ(l.target[0].lost, -EBADMSG);
	named(0, 1U << WEFT_LOG_DAMAGE_SUPER);
	lt_recover(&l, 1U << 2);
	CHECK_EQ(refused(0), -EBADMSG);
	named(0, 1U << WEFT_LOG_DAMAGE_SUPER);
	finish();
}

/* Power is cut at any step while a damaged target is unseated. Afterwards the target is still
 * damaged, or it does not count. */
static void
test_unseat_cut(void)
{
	for (unsigned int us = 0; us < 1500; us += 20) {
		begin(LOG_SOUND);
		lt_kill_writer(&l);
		rot_bit(0, WEFT_LOG_TAIL_OFF, 5 + us % 40);
		lt_recover(&l, 6);
		append_n(3, 60);
		CHECK(lt_until(&l, all_durable));
		CHECK_EQ(lt_join(&l, 0), 0);
		vt_run(&l.t, us * 1000);
		power_cut();
		lt_recover(&l, 3);
		if (l.verdict == LT_FAILED && l.fail_status == -ENOTCONN && !l.failed) {
			l.verdict = LT_SOUND;
			lt_recover(&l, 4);
		}
		CHECK_MSG(l.verdict == LT_SOUND, "after %u us: %s (%d)", us,
		          lt_verdict_str(l.verdict), l.fail_status);
		for (unsigned int i = 0; i < 3; i++)
			if (l.target[i].joined < 0)
				CHECK_EQ(lt_join(&l, i), 0);
		CHECK(lt_until(&l, all_live));
		finish();
	}
}

/* ---- What a reader of an image learns ---- */

/** Write this card. Then a reader of the image must see these values of seated and replaced. */
static void
told_of_card(unsigned int i, struct log_card card, bool seated, bool is_replaced)
{
	struct weft_log_super s = {.size = sizeof(s)};
	struct weft_log_image img;
	uint8_t word[8];

	CHECK_EQ(weft_log_super_decode(l.target[i].persist->base, l.region_bytes, &s), 0);
	weft_put_be64(word, log_card_encode(s.log_id, s.target_id, &card));
	lt_poke(&l, i, WEFT_LOG_CARD_OFF, word, 8);
	CHECK_EQ(weft_log_image_open(weft_persist_sim_medium(l.target[i].persist), l.region_bytes,
	                             &img),
	         0);
	CHECK_EQ(img.seated, seated);
	CHECK_EQ(img.replaced, is_replaced);
}

/* A reader of an image learns that the target does not count, and that its last record names
 * another target for its place. */
static void
test_told_of_card(void)
{
	struct log_card card;

	begin(LOG_SOUND);
	replace_two();
	CHECK(lt_until(&l, all_live));
	l.a.no_judge = true;
	lt_kill_writer(&l);
	card = card_of(SPARE);
	CHECK_EQ(card.life, 2);
	told_of_card(SPARE, card, true, false);
	card.seated = false;
	told_of_card(SPARE, card, false, false);
	card.life = 1;
	told_of_card(SPARE, card, false, true);
	card.seated = true;
	told_of_card(SPARE, card, true, true);
	finish();
}

static void
test_told(void)
{
	struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true};
	struct weft_log_image img;
	struct weft_log_at keep;

	for (a.version = 1; a.version <= 2; a.version++) {
		start(&a);
		append_n(5, 60);
		CHECK(lt_until(&l, all_live));
		CHECK_EQ(lt_info(&l).version, a.version);
		keep = l.rec[3].at;
		l.trim_seq = keep.seq;
		CHECK_EQ(weft_log_trim(l.log, &keep), 0);
		vt_run(&l.t, 5 * VT_MS);
		CHECK_EQ(weft_log_image_open(weft_persist_sim_medium(l.target[1].persist),
		                             l.region_bytes, &img),
		         0);
		CHECK_EQ(img.super.version, a.version);
		CHECK(img.seated && !img.replaced);
		CHECK_EQ(img.life, a.version - 1);
		CHECK_EQ(img.end.seq, l.appended);
		/* One target alone does not prove that others have its records. */
		CHECK_EQ(img.certain.seq, 3);
		CHECK_EQ(img.certain.position, keep.position);
		finish();
	}
	a.version = 0;
	a.targets = 1;
	lt_open(&l, &a);
	lt_recover(&l, 1);
	append_n(5, 60);
	CHECK(lt_until(&l, all_durable));
	CHECK_EQ(weft_log_image_open(weft_persist_sim_medium(l.target[0].persist), l.region_bytes,
	                             &img),
	         0);
	CHECK_EQ(img.certain.seq, img.end.seq);
	finish();
}

/* The version of a log does not change. A target of another version is refused. A target that is
 * formatted for the log gets the log's version. */
static void
test_versions(void)
{
	struct lt_attr a = {
	        .seed = 1, .quick = true, .no_trim = true, .version = 1, .remote_format = true};

	start(&a);
	append_n(3, 60);
	CHECK(lt_until(&l, all_live));
	drop(2);
	lt_revoke_one(&l, 2);
	lt_wipe_target(&l, 2);
	l.a.version = 2;
	CHECK_EQ(refused(2), -EINVAL);
	lt_revoke_one(&l, 2);
	lt_wipe_target(&l, 2);
	l.a.version = 0;
	CHECK_EQ(lt_join(&l, 2), 0);
	CHECK(lt_until(&l, all_live));
	CHECK_EQ(lt_info(&l).version, 1);
	l.a.version = 1;
	finish();
}

/* ---- A window that is full before the seat ---- */

static bool
four_catches(void *arg)
{
	struct lt *x = arg;

	return lt_info(x).target[x->target[4].joined].state == WEFT_LOG_TARGET_CATCHING;
}

static bool
quorum_again(void *arg)
{
	struct lt *x = arg;

	return x->in_flight == 0 || x->failed;
}

/* Four targets and a quorum of three. A stranger catches up when another target goes, so only two
 * are left that count. The appends fill the window. The stranger gets its seat, and counts. */
static void
test_full_window(void)
{
	struct weft_log_attr la = {.max_appends = 4};
	struct lt_attr a = {.seed = 1,
	                    .quick = true,
	                    .no_trim = true,
	                    .no_judge = true,
	                    .remote_format = true,
	                    .targets = 4,
	                    .quorum = 3,
	                    .spares = 1,
	                    .la = &la};

	lt_open(&l, &a);
	lt_recover(&l, 15);
	CHECK_EQ(l.verdict, LT_SOUND);
	put(5, 60);
	drop(3);
	stall(4, true);
	CHECK_EQ(lt_join(&l, 4), 0);
	CHECK(lt_until(&l, four_catches));
	drop(2);
	while (lt_append(&l, 60) == 0)
		;
	vt_run(&l.t, 5 * VT_MS);
	CHECK_MSG(l.in_flight > 0 && !l.failed, "%u %d %d lost %d", l.in_flight, l.failed,
	          l.fail_status, l.lost_status);
	stall(4, false);
	vt_run(&l.t, 5 * VT_S);
	CHECK(quorum_again(&l));
	CHECK_EQ(l.in_flight, 0);
	CHECK(lt_words(&l, 4).card.seated);
	append_n(1, 60);
	CHECK(lt_until(&l, all_durable));
	finish();
}

/* ---- A member is away while a stranger is fed ---- */

static bool
two_catches(void *arg)
{
	struct lt *x = arg;

	return lt_info(x).target[x->target[2].joined].state == WEFT_LOG_TARGET_CATCHING;
}

/* Target 2 comes back blank. Target 0 is away for a while, with all of its records. The place of
 * target 0 is not given to target 2: one member alone would know of that, and no log opens with
 * one. Target 0 counts again when it is back. */
static void
test_absent_member(void)
{
	for (unsigned int cut = 0; cut < 2; cut++) {
		struct lt_attr a = {
		        .seed = 1, .quick = true, .no_trim = true, .remote_format = true};

		start(&a);
		put(5, 60);
		CHECK(lt_until(&l, all_live));
		drop(2);
		lt_revoke_one(&l, 2);
		lt_wipe_target(&l, 2);
		stall(2, true);
		CHECK_EQ(lt_join(&l, 2), 0);
		CHECK(lt_until(&l, two_catches));
		drop(0);
		stall(2, false);
		vt_run(&l.t, 5 * VT_S);
		if (cut) {
			power_cut();
			lt_recover(&l, 7);
			CHECK_MSG(l.verdict == LT_SOUND, "%s (%d)", lt_verdict_str(l.verdict),
			          l.fail_status);
		} else {
			CHECK_EQ(lt_join(&l, 0), 0);
		}
		CHECK_MSG(lt_until(&l, all_live), "lost %d %d", l.target[0].lost, l.target[2].lost);
		put(1, 60);
		finish();
	}
}

WEFT_TEST_MAIN({"a stranger comes while a member is away", test_absent_member},
               {"a stranger comes, and the window is full", test_full_window},
               {"a replaced target is refused by name", test_replaced},
               {"a replaced target without lives", test_replaced_wrong},
               {"begun anew beside one that was replaced", test_anew_knows},
               {"a stranger waits until it is known", test_seat_waits},
               {"the power goes while a stranger comes", test_seat_cut},
               {"no more lives", test_lives_end},
               {"the first open ends at any step", test_first_cut},
               {"a new log beside a blank target", test_fresh_beside_blank},
               {"each bit of each word", test_word_bits},
               {"a word never written, or another target's", test_word_others},
               {"a word of a writer that was not fenced", test_unfenced},
               {"a head that says nothing", test_says_nothing},
               {"a life and a superblock", test_life_and_super},
               {"the power goes while one is unseated", test_unseat_cut},
               {"what is told of a log", test_told}, {"what is told of a card", test_told_of_card},
               {"versions", test_versions})
