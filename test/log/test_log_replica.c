/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Tests of a log on three targets with a quorum of two. Targets lose their power, their
 * connection or their memory, and writers crash, at any step. Any two targets that are left must
 * have every durable record.
 */

#include "lt_three.h"

#define RUNS 300

static struct {
	uint64_t runs, judged, power, streams, writers, stalls, rejoins, copied, cuts, resets,
	        wiped, refused, replaced, old_refused, old_live, rotten, named, said_nothing, ahead,
	        before, trims_refused, trims_looked_up, ones, behind;
} sum;

static bool
has_failed(void *arg)
{
	return ((struct lt *)arg)->failed;
}

static bool
lagging(void *arg)
{
	return ((struct lt *)arg)->events[WEFT_LOG_EV_LAGGING] > 0;
}

/** Check that all three media hold the same log. */
static void
check_same(void)
{
	struct weft_log_image img[3];

	CHECK(lt_until(&l, all_live));
	for (unsigned int i = 0; i < 3; i++) {
		CHECK_EQ(weft_log_image_open(weft_persist_sim_medium(l.target[i].persist),
		                             l.region_bytes, &img[i]),
		         0);
		CHECK_EQ(img[i].end.seq, img[0].end.seq);
		CHECK_EQ(img[i].end.position, img[0].end.position);
		CHECK_EQ(img[i].epoch, l.epoch);
		CHECK_EQ(img[i].last_epoch, l.epoch);
	}
}

static void
test_all(void)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct lt_attr a = {.seed = seed, .appends = 100, .verify = seed % 2};

		start(&a);
		lt_run(&l);
		check_same();
		finish();
	}
}

/* A record is durable when two targets have answered. The third target receives it later. */
static void
test_quorum(void)
{
	struct lt_attr a = {.seed = 1, .quick = true};

	start(&a);
	stall(2, true);
	append_n(10, 100);
	CHECK(lt_until(&l, all_durable));
	CHECK_EQ(l.durable, l.appended);
	CHECK_EQ(l.bufs, 10);
	CHECK(lt_info(&l).target[2].durable.seq < l.durable - 9);
	stall(2, false);
	check_same();
	finish();
}

static void
test_below(void)
{
	struct lt_attr a = {.seed = 1, .quick = true};

	start(&a);
	CHECK(lt_until(&l, all_live));
	lt_cut_target(&l, 0);
	append_n(3, 100);
	CHECK(lt_until(&l, all_durable));
	CHECK_EQ(l.durable, l.appended);
	CHECK(!l.failed);
	lt_cut_target(&l, 1);
	append_n(3, 100);
	CHECK(lt_until(&l, has_failed));
	CHECK_EQ(l.fail_status, -ENOTCONN);
	CHECK_EQ(l.in_flight, 0);
	CHECK_EQ(lt_info(&l).lost, 2);
	CHECK_EQ(lt_append(&l, 1), -EPIPE);
	lt_boot_target(&l, 0);
	lt_boot_target(&l, 1);
	lt_kill_writer(&l);
	lt_recover(&l, 3);
	CHECK_EQ(l.verdict, LT_SOUND);
	rejoin(2);
	check_same();
	finish();
}

static void
test_lagging(void)
{
	struct weft_log_attr la = {.max_appends = 8};
	struct lt_attr a = {.seed = 1, .quick = true, .la = &la};

	start(&a);
	CHECK(lt_until(&l, all_live));
	stall(1, true);
	append_n(8, 50);
	CHECK(lt_until(&l, all_durable));
	CHECK_EQ(lt_append(&l, 50), -EAGAIN);
	CHECK(lt_until(&l, lagging));
	drop(1);
	CHECK_EQ(l.lost_status, -ECANCELED);
	CHECK_EQ(l.bufs, 0); /* The slow target held the buffers. */
	append_n(8, 50);
	CHECK(lt_until(&l, all_durable));
	stall(1, false);
	rejoin(1);
	check_same();
	CHECK(lt_info(&l).copied_records >= 8);
	CHECK_EQ(lt_info(&l).cuts, 0);
	finish();
}

/**
 * Write records to target 0 only. Then a writer that never saw them opens the log on the two other
 * targets and appends. When target 0 joins again, the records must be cut off, whether target 0 has
 * more records than the others or fewer: the epoch decides, not the sequence number.
 */
static void
diverge(uint64_t seed, unsigned int extra, unsigned int then, enum log_sabotage s)
{
	struct lt_attr a = {.seed = seed, .quick = true, .no_trim = true};

	start(&a);
	append_n(5, 60);
	CHECK(lt_until(&l, all_live));
	stall(1, true);
	stall(2, true);
	append_n(extra, 60);
	vt_run(&l.t, 5 * VT_MS);
	CHECK_EQ(lt_info(&l).target[0].durable.seq, l.appended);
	lt_kill_writer(&l);
	stall(1, false);
	stall(2, false);
	lt_recover(&l, 6);
	CHECK_EQ(l.verdict, LT_SOUND);
	append_n(then, 90);
	CHECK(lt_until(&l, all_durable));
	lt_kill_writer(&l);
	l.a.log = s;
	/* target 0, which was absent, and target 1, which has the new epoch */
	lt_recover(&l, 3);
}

static void
test_diverged(void)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		diverge(seed, 1 + (unsigned int)seed % 9, 1 + (unsigned int)seed % 7, LOG_SOUND);
		CHECK_MSG(l.verdict == LT_SOUND, "%s", lt_verdict_str(l.verdict));
		rejoin(2);
		check_same();
		CHECK_EQ(lt_info(&l).cuts, 1);
		CHECK_EQ(lt_info(&l).resets, 0);
		finish();
	}
	diverge(1, 9, 1, LOG_LONGEST);
	CHECK(l.verdict != LT_SOUND);
	l.verdict = LT_SOUND;
	lt_close(&l);
}

/* Target 2 lacks records that are trimmed. It is begun anew. */
static void
test_reset(void)
{
	struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true};
	struct weft_log_at keep;

	for (unsigned int all = 0; all < 2; all++) {
		start(&a);
		append_n(5, 60);
		CHECK(lt_until(&l, all_live));
		lt_cut_target(&l, 2);
		drop(2);
		append_n(10, 60);
		CHECK(lt_until(&l, all_durable));
		keep = all ? lt_info(&l).durable : l.rec[14].at;
		l.trim_seq = keep.seq;
		CHECK_EQ(weft_log_trim(l.log, &keep), 0);
		append_n(all ? 0 : 5, 60);
		CHECK(lt_until(&l, all_durable));
		lt_boot_target(&l, 2);
		rejoin(2);
		CHECK(lt_until(&l, all_live));
		append_n(1, 60); /* so that the target has a record */
		check_same();
		CHECK_EQ(lt_info(&l).resets, 1);
		CHECK_EQ(lt_info(&l).target[2].head, keep.position);
		append_n(3, 60);
		check_same();
		finish();
	}
}

/* Records that are longer than the buffer of the copy. */
static void
test_long(void)
{
	struct lt_attr a = {
	        .seed = 1, .quick = true, .no_trim = true, .ring_bytes = 131072, .max_len = 30000};

	start(&a);
	CHECK(lt_until(&l, all_live));
	drop(0);
	append_n(1, 30000);
	append_n(2, 10);
	append_n(1, 8192 - 64);
	append_n(1, 8192 - 63);
	append_n(1, 16384 - 64);
	append_n(1, 0);
	CHECK(lt_until(&l, all_durable));
	rejoin(0);
	check_same();
	CHECK_EQ(lt_info(&l).copied_records, 7);
	/* the copied records equal the appended ones */
	lt_kill_writer(&l);
	lt_recover(&l, 5);
	finish();
}

/* A target that lost its memory does not count until it has every record. */
static void
test_wiped(void)
{
	struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true, .remote_format = true};

	start(&a);
	append_n(20, 100);
	CHECK(lt_until(&l, all_live));
	lt_kill_writer(&l);
	lt_wipe_target(&l, 1);
	lt_log(&l);
	CHECK_EQ(lt_join(&l, 1), 0);
	CHECK_EQ(lt_join(&l, 0), 0);
	vt_run(&l.t, 10 * VT_MS);
	CHECK_EQ(weft_log_open(l.log), -ENOTCONN);
	lt_recover(&l, 4);
	CHECK_EQ(l.verdict, LT_SOUND);
	check_same();
	finish();
}

/* An overtaken writer fails with -ESTALE when it joins a target that the new writer claimed. */
static void
test_overtaken(void)
{
	struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true};
	struct weft_log *old, *new;
	struct weft_qp *client[3];

	start(&a);
	append_n(5, 60);
	CHECK(lt_until(&l, all_live));
	old = l.log;
	for (unsigned int i = 0; i < 3; i++)
		client[i] = l.target[i].client;
	l.log = NULL;
	lt_revoke(&l);
	lt_recover(&l, 6);
	CHECK_EQ(l.verdict, LT_SOUND);
	append_n(5, 60);
	CHECK(lt_until(&l, all_durable));
	new = l.log;
	l.log = old;
	CHECK_EQ(weft_log_leave(old, client[1]), 0);
	lt_revoke_one(&l, 1);
	CHECK_EQ(lt_join(&l, 1), 0);
	CHECK(lt_until(&l, has_failed));
	CHECK_EQ(l.fail_status, -ESTALE);
	weft_log_destroy(old);
	l.log = new;
	l.failed = false;
	finish();
}

static void
test_same_target(void)
{
	struct lt_attr a = {.seed = 1, .quick = true, .targets = 3, .quorum = 2};
	struct weft_qp *first;

	lt_open(&l, &a);
	lt_log(&l);
	CHECK_EQ(lt_join(&l, 0), 0);
	vt_run(&l.t, 10 * VT_MS);
	CHECK_EQ(l.events[WEFT_LOG_EV_JOINED], 1);
	first = l.target[0].server; /* keep the connection */
	l.target[0].server = NULL;
	CHECK_EQ(lt_join(&l, 0), 0);
	vt_run(&l.t, 10 * VT_MS);
	CHECK_EQ(l.events[WEFT_LOG_EV_LOST], 1);
	CHECK_EQ(l.lost_status, -EEXIST);
	weft_qp_destroy(first);
	finish();
}

/* A record that is damaged at one target is read from another. */
static void
test_damaged(void)
{
	struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true, .no_judge = true};
	uint64_t at;

	start(&a);
	append_n(10, 100);
	CHECK(lt_until(&l, all_live));
	at = WEFT_LOG_RING_OFF + l.rec[6].at.position % l.a.ring_bytes;
	l.target[0].persist->base[at + 70] ^= 4;
	l.target[1].persist->base[at + 20] ^= 4;
	CHECK(lt_read_all(&l) == NULL);
	CHECK_EQ(lt_info(&l).bad_reads, 2);
	/* the damaged record is not copied */
	drop(2);
	rejoin(2);
	check_same();
	l.target[2].persist->base[at + 20] ^= 4;
	CHECK_STR(lt_read_all(&l), strerror(EBADMSG));
	finish();
}

/* ---- All faults in random order ---- */

/** Which medium is at each place. out: the medium at no place, which is new or was replaced. */
static unsigned int who[3], out;

/** Convert a bit mask of places to a bit mask of media. */
static unsigned int
media_of(unsigned int places)
{
	unsigned int media = 0;

	for (unsigned int k = 0; k < 3; k++)
		if ((places & 1U << k) != 0)
			media |= 1U << who[k];
	return media;
}

/** The lives in the record of the highest epoch, and within it of the highest number. Without a
 * record: the lives of the first open. Version 1: 0. */
static uint64_t
lives_now(unsigned int media)
{
	struct weft_log_image img;
	uint64_t lives = l.a.version == 1 ? 0 : log_lives_first(3), epoch = 0, seq = 0;

	for (unsigned int m = 0; m < l.media; m++) {
		const uint8_t *medium = weft_persist_sim_medium(l.target[m].persist);

		if ((media & 1U << m) == 0 || l.target[m].rotten || !lt_words(&l, m).card.seated ||
		    weft_log_image_open(medium, l.region_bytes, &img) != 0 ||
		    img.last_epoch < epoch || (img.last_epoch == epoch && img.last.seq < seq))
			continue;
		epoch = img.last_epoch;
		seq = img.last.seq;
		if (img.last.seq != 0)
			lives = lt_words(&l, m).lives;
	}
	return lives;
}

static bool
is_member(unsigned int m, uint64_t lives)
{
	struct log_card card = lt_words(&l, m).card;

	return card.seated && !l.target[m].rotten &&
	       (lives == 0 || log_life(lives, 3, card.place) == card.life);
}

/** Whether each of the three targets is a member and has power. Only then may one target lose
 * its memory. */
static bool
settled(void)
{
	uint64_t lives = lives_now(15);

	for (unsigned int k = 0; k < 3; k++)
		if (l.target[who[k]].off || !is_member(who[k], lives))
			return false;
	return true;
}

/**
 * Damage one word of a medium: flip one bit or replace the word. A word that would make the target
 * a new one is not written. If the tail names no record, the head has no meaning: then damage to
 * the head changes nothing and is not reported.
 */
static void
damage(unsigned int m)
{
	static const uint32_t offs[] = {WEFT_LOG_CARD_OFF, WEFT_LOG_TAIL_OFF, WEFT_LOG_HEAD_OFF};
	uint32_t w = (uint32_t)lt_draw(&l, 3), bit = (uint32_t)lt_draw(&l, 64);
	uint8_t word[8] = {0};
	bool says;

	if (w == 0 || lt_draw(&l, 4) != 0) {
		memcpy(word, l.target[m].persist->base + offs[w], 8);
		word[bit / 8] ^= (uint8_t)(1 << bit % 8);
	} else if (lt_draw(&l, 2) == 0) {
		memcpy(word, l.target[(m + 1) % 3].persist->base + offs[w], 8);
	}
	if (memcmp(word, l.target[m].persist->base + offs[w], 8) == 0)
		return;
	/* Copy the words in memory to the medium first: the next writer reads them from there. */
	lt_poke(&l, m, WEFT_LOG_CARD_OFF, l.target[m].persist->base + WEFT_LOG_CARD_OFF,
	        WEFT_LOG_RING_OFF - WEFT_LOG_CARD_OFF);
	says = offs[w] != WEFT_LOG_HEAD_OFF || lt_words(&l, m).tail != 0;
	if (says)
		l.target[m].rotten = l.target[m].wiped = true;
	l.damaged &= ~(1U << m);
	lt_poke(&l, m, offs[w], word, 8);
	sum.rotten += says;
	sum.said_nothing += !says;
}

/** Replace the medium at this place by the spare one. */
static void
replace(unsigned int place)
{
	unsigned int m = who[place];

	lt_revoke_one(&l, out);
	lt_wipe_target(&l, out);
	who[place] = out;
	out = m;
	sum.replaced++;
}

/** If no other target has anything to recover, sometimes do one of three things to the medium at
 * this place: wipe it, replace it or damage its words. */
static void
hurt_some(unsigned int place)
{
	unsigned int how;

	if (!l.a.remote_format || lt_draw(&l, 2) != 0 || !settled())
		return;
	how = l.a.spares != 0 ? (unsigned int)lt_draw(&l, 7) : 0;
	lt_revoke_one(&l, who[place]);
	if (how < 2) {
		lt_wipe_target(&l, who[place]);
		sum.wiped++;
	} else if (how < 6) {
		replace(place);
	} else {
		damage(who[place]);
	}
}

static unsigned int looked_at;

static bool
looked(void *arg)
{
	struct lt *x = arg;
	const struct lt_target *g = &x->target[looked_at];

	return x->failed || g->joined < 0 ||
	       lt_info(x).target[g->joined].state != WEFT_LOG_TARGET_LOOKING;
}

/**
 * Whether the next writer that joins target m must report damage. A writer may have begun the
 * target anew in memory before that writer crashed. Then `join.flush` writes these words to the
 * medium, and the head has no meaning.
 */
static bool
to_be_named(unsigned int m)
{
	const uint8_t *memory = l.target[m].persist->base,
	              *medium = weft_persist_sim_medium(l.target[m].persist);
	struct weft_log_image img;

	if (!l.target[m].rotten)
		return false;
	if (memcmp(memory + WEFT_LOG_CARD_OFF, medium + WEFT_LOG_CARD_OFF,
	           WEFT_LOG_GRANT_OFF - WEFT_LOG_CARD_OFF) != 0 &&
	    weft_log_image_open(memory, l.region_bytes, &img) == -ENODATA)
		return false;
	/* an earlier report does not count */
	l.damaged &= ~(1U << m);
	return true;
}

/** Join target m to the open log. The writer must report its damage. */
static void
join_again(unsigned int m)
{
	bool rotten = to_be_named(m);

	CHECK_EQ(lt_join(&l, m), 0);
	if (!rotten)
		return;
	looked_at = m;
	CHECK(lt_until(&l, looked));
	vt_run(&l.t, VT_MS / 10);
	if (l.failed || l.verdict != LT_SOUND || l.target[m].lost == -ENOTCONN)
		return;
	CHECK_MSG((l.damaged & 1U << m) != 0, "seed %" PRIu64 ": %u was not named", l.a.seed, m);
	sum.named++;
}

/** Whether the replaced medium is to return now. This is likely when the new medium already
 * counts in its place. Before that, the replaced medium may still be the member, and the new one is
 * dropped. */
static bool
old_comes(void)
{
	return l.a.spares != 0 && lt_words(&l, out).card.seated &&
	       lt_draw(&l, 8) < (settled() ? 7 : 2);
}

/** The replaced medium returns while its place is free. It is refused, unless no member knows of
 * the replacement yet. */
static void
old_returns(unsigned int place)
{
	unsigned int m;

	if (!old_comes())
		return;
	CHECK_EQ(lt_join(&l, out), 0);
	looked_at = out;
	CHECK(lt_until(&l, looked));
	if (l.failed || l.verdict != LT_SOUND || l.target[out].lost == -ENOTCONN)
		return;
	if (l.target[out].lost != 0) {
		CHECK_MSG(l.target[out].lost == -EREMCHG, "seed %" PRIu64 ": %d", l.a.seed,
		          l.target[out].lost);
		sum.old_refused++;
		return;
	}
	m = who[place];
	who[place] = out;
	out = m;
	sum.old_live++;
}

/** Join a target at this place: the medium that was there, the replaced one, or a new one. */
static void
come_back(unsigned int place)
{
	old_returns(place);
	if (l.failed || l.verdict != LT_SOUND || l.target[who[place]].joined >= 0)
		return;
	hurt_some(place);
	join_again(who[place]);
}

/** Whether these media cannot tell what is in the log, because one of them was wiped, replaced,
 * damaged, or is being begun anew. */
static bool
know_too_little(unsigned int media, unsigned int rotten)
{
	uint64_t head = 0, end = 0, lives = lives_now(media);
	unsigned int members = 0;

	for (unsigned int i = 0; i < l.media; i++) {
		struct lt_words w = lt_words(&l, i);

		if ((media & 1U << i) == 0 || (rotten & 1U << i) != 0 || !is_member(i, lives))
			continue;
		if (w.knows > log_lives_sum(lives, 3))
			return true;
		members++;
		head = RTE_MAX(head, w.anew && l.a.version != 1 ? 0 : w.head);
		end = RTE_MAX(end, w.end);
	}
	return members < 2 || head > end;
}

/** Open the log with these media. Returns false if the open was refused, and checks that the
 * refusal is right. */
static bool
open_with(unsigned int media, bool all)
{
	unsigned int rotten = 0;

	for (unsigned int m = 0; m < l.media; m++)
		if ((media & 1U << m) != 0 && to_be_named(m))
			rotten |= 1U << m;
	lt_recover(&l, media);
	for (unsigned int m = 0; m < l.media; m++) {
		if ((rotten & 1U << m) == 0)
			continue;
		CHECK_MSG((l.damaged & 1U << m) != 0 && l.target[m].lost == -EBADMSG,
		          "seed %" PRIu64 ": %u was not named (%d)", l.a.seed, m, l.target[m].lost);
		sum.named++;
	}
	if (l.verdict != LT_FAILED || l.fail_status != -ENOTCONN || l.failed || all)
		return true;
	CHECK_MSG(know_too_little(media, rotten), "seed %" PRIu64 ": %x refused", l.a.seed, media);
	l.verdict = LT_SOUND;
	sum.refused++;
	/* the events of the targets follow */
	vt_run(&l.t, VT_MS);
	return false;
}

/** Open the log with the replaced medium and another one. The open is refused, unless no member
 * knows of the replacement yet. Then the replaced medium is the member again. */
static void
open_with_old(unsigned int place)
{
	unsigned int m = out;

	if (!open_with(1U << who[place] | 1U << out, false)) {
		sum.old_refused += l.target[out].lost == -EREMCHG;
		drop(out);
		(void)open_with(media_of(7 & ~(1U << place)), true);
		return;
	}
	for (unsigned int k = 0; k < 3; k++)
		if (k != place && (l.target[who[k]].joined < 0) &&
		    lt_words(&l, who[k]).card.place == lt_words(&l, out).card.place)
			m = k;
	/* its place is that of the new medium, which is not seated yet */
	if (m == out)
		for (m = 0; m == place || lt_words(&l, who[m]).card.seated; m++)
			CHECK(m < 2);
	sum.old_live++;
	place = who[m];
	who[m] = out;
	out = place;
}

/** Open the log with these places, and with all three if the open is rightly refused. Returns a
 * bit mask of the places that are not joined. */
static unsigned int
recover(unsigned int which)
{
	unsigned int away = 0;

	if (old_comes())
		open_with_old((unsigned int)lt_draw(&l, 3));
	else if (!open_with(media_of(which), which == 7))
		(void)open_with(media_of(7 & ~which), true);
	for (unsigned int k = 0; k < 3; k++)
		if (l.target[who[k]].joined < 0)
			away |= 1U << k;
	return away;
}

/** Trims that the writers of this run gave up. */
static uint64_t bad_trims;

/** Add up the counters of this writer before it ends. */
static void
count_log(void)
{
	struct weft_log_info info = lt_info(&l);

	sum.copied += info.copied_records;
	sum.cuts += info.cuts;
	sum.resets += info.resets;
	bad_trims += info.bad_trims;
}

/** One target gets the record in flight, behind a filler, and the head there. The writer ends, and
 * the two others open the log. Returns the bit mask of the places that are not joined. */
static unsigned int
one_ahead(void)
{
	unsigned int has = (unsigned int)lt_draw(&l, 3);

	for (unsigned int k = 0; k < 3; k++)
		stall(who[k], k != has);
	vt_run(&l.t, (1 + lt_draw(&l, 8)) * VT_MS / 4);
	count_log();
	lt_kill_writer(&l);
	for (unsigned int k = 0; k < 3; k++) {
		if (l.target[who[k]].off)
			lt_boot_target(&l, who[k]);
		stall(who[k], false);
	}
	lt_judge(&l);
	sum.writers++;
	sum.ones++;
	return l.verdict == LT_SOUND ? recover(7 & ~(1U << has)) : 0;
}

/** One target is away while the others go on, and catches up slowly while they are trimmed and go
 * on. */
static void
fall_behind(unsigned int place)
{
	struct weft_persist_sim_cfg slow = l.cfg;

	l.pump = true;
	drop(who[place]);
	l.cut_at = 1 + lt_draw(&l, 800);
	lt_run(&l);
	if (!l.cut || l.failed || l.ahead || l.verdict != LT_SOUND)
		return;
	slow.delay_min_ns = slow.delay_max_ns = (1 + lt_draw(&l, 40)) * VT_MS / 4;
	weft_persist_sim_set(l.target[who[place]].persist, &slow);
	l.pump = true;
	CHECK_EQ(lt_join(&l, who[place]), 0);
	l.cut_at = 1 + lt_draw(&l, 800);
	lt_run(&l);
	stall(who[place], false);
	sum.behind++;
}

static void
lives(unsigned int n)
{
	unsigned int away = 0, late = 3;

	for (unsigned int life = 0; l.verdict == LT_SOUND; life++) {
		unsigned int what = (unsigned int)lt_draw(&l, 6), i = (unsigned int)lt_draw(&l, 3);

		if (late < 3 && lt_draw(&l, 2) != 0) {
			what = 5;
			i = (late + 1 + i % 2) % 3;
		} else if (what < 2 && old_comes()) {
			what = 5;
		}
		l.cut_at = life < n ? 1 + lt_draw(&l, 1 + lt_draw(&l, 300)) : UINT64_MAX;
		lt_run(&l);
		if (l.cut && l.a.any_trim && !l.ahead && life < n && away == 0 && late == 3 &&
		    lt_draw(&l, 6) < (l.a.ring_bytes > 16384 ? 5 : 2) && three_live() &&
		    !l.failed) {
			fall_behind(i);
			if (l.target[who[i]].joined < 0)
				away = 1U << i;
		}
		if (!l.cut || l.verdict != LT_SOUND)
			return;
		if (l.ahead && life < n && away == 0) {
			late = 3;
			away = one_ahead();
			continue;
		}
		if (what == 4) {
			/* the flushes of one target become slow, or fast again */
			if (late < 3)
				stall(who[late], false);
			late = late < 3 ? 3 : i;
			if (late < 3)
				stall(who[late], true);
			sum.stalls++;
			continue;
		}
		if (what == 5) {
			/* one target leaves and joins at once, even if another one is slow */
			if (away == 0 && three_live() && !l.failed) {
				l.pump = true;
				drop(who[i]);
				sum.rejoins++;
				come_back(i);
			}
			continue;
		}
		/* at most one target may be absent */
		if (what < 2 && (away != 0 || !three_live()))
			continue;
		if (what == 0) {
			/* one target loses its power */
			lt_cut_target(&l, who[i]);
			away = 1U << i;
			sum.power++;
		} else if (what == 1) {
			/* one connection ends */
			weft_qp_destroy(l.target[who[i]].server);
			l.target[who[i]].server = NULL;
			away = 1U << i;
			sum.streams++;
		} else if (what == 2) {
			/* the absent target, or the one that was replaced, joins during the
			 * appends */
			l.pump = true;
			for (unsigned int k = 0; k < 3 && !l.failed && l.verdict == LT_SOUND; k++) {
				if ((away & 1U << k) == 0)
					continue;
				drop(who[k]);
				if (l.target[who[k]].off)
					lt_boot_target(&l, who[k]);
				come_back(k);
			}
			away = 0;
		} else {
			/* the writer crashes; some targets lose power, and one may stay absent */
			unsigned int cut = (unsigned int)lt_draw(&l, 8),
			             miss = 1U << lt_draw(&l, 4);

			for (unsigned int k = 0; k < 3; k++)
				if ((cut & 1U << k) != 0 && !l.target[who[k]].off)
					lt_cut_target(&l, who[k]);
			count_log();
			lt_kill_writer(&l);
			for (unsigned int k = 0; k < 3; k++) {
				if (l.target[who[k]].off)
					lt_boot_target(&l, who[k]);
				stall(who[k], false);
			}
			lt_judge(&l);
			sum.writers++;
			away = miss & 7;
			late = 3;
			hurt_some((unsigned int)lt_draw(&l, 3));
			if (l.verdict == LT_SOUND)
				away = recover(7 & ~away);
		}
	}
}

static void
run_one(uint64_t seed, const struct lt_attr *base)
{
	struct lt_attr a = *base;

	test_seed_note(seed);
	a.seed = seed;
	a.targets = 3;
	a.quorum = 2;
	a.verify = seed % 3 == 0;
	for (unsigned int k = 0; k < 3; k++)
		who[k] = k;
	out = 3;
	bad_trims = 0;
	lt_open(&l, &a);
	lt_recover(&l, 7);
	lives(8);
	if (l.log != NULL)
		count_log();
	/* A trim to a right place is never given up. */
	CHECK_MSG(bad_trims <= l.trims_looked_up,
	          "seed %" PRIu64 ": %" PRIu64 " trims given up, of %" PRIu64 " wrong ones", seed,
	          bad_trims, l.trims_looked_up);
	sum.judged += l.judged;
	sum.ahead += l.trims_ahead;
	sum.before += l.trims_before;
	sum.trims_refused += l.trims_refused;
	sum.trims_looked_up += l.trims_looked_up;
	sum.runs++;
}

/**
 * The size of ring, window and records. Most rings are small, so fillers are frequent. The largest
 * has records that are longer than copy_bytes, which is 8192. With a small window, a target that
 * comes back holds nothing up, and the log may be trimmed while it catches up.
 */
static void
shape(struct lt_attr *a, uint64_t seed)
{
	static const uint64_t rings[] = {16384, 8192, 12288, 16384, 65536, 10240, 16384, 40960};
	static const uint32_t windows[] = {32, 4, 32, 16, 2};

	a->ring_bytes = rings[seed % RTE_DIM(rings)];
	a->window = windows[seed % RTE_DIM(windows)];
	if (a->ring_bytes > 16384) {
		a->max_len = (uint32_t)a->ring_bytes / 4;
		a->window = 2 + 2 * (seed & 8) / 8;
		a->appends = 150;
	}
}

static void
random_one(uint64_t seed, bool old)
{
	/* In every second run, targets lose their memory or are replaced. */
	struct lt_attr a = {.appends = 110,
	                    .remote_format = seed % 2 == 0,
	                    .spares = seed % 2 == 0 && !old,
	                    .any_trim = true};

	shape(&a, seed / 2);
	run_one(seed, &a);
	CHECK_MSG(l.verdict == LT_SOUND && l.done >= 60, "seed %" PRIu64 ": %s (%d)", seed,
	          lt_verdict_str(l.verdict), l.fail_status);
	lt_close(&l);
}

/** Seeds of the random test that have failed: by a fault of the log, or of the judge. */
static void
test_seeds(void)
{
	static const uint64_t seeds[] = {
	        569,      /* a sound member was unseated */
	        1449,     /* the judge: a member that was trimmed further than the log */
	        2194,     /* an open was refused */
	        10075889, /* the judge: as 1449, and the log is trimmed later */
	};

	for (unsigned int i = 0; i < RTE_DIM(seeds); i++)
		random_one(seeds[i], getenv("WEFT_LOG_VERSION") != NULL);
}

static void
test_random(void)
{
	const char *want = getenv("WEFT_LOG_RUNS");
	const bool old = getenv("WEFT_LOG_VERSION") != NULL;
	/* With WEFT_LOG_RUNS and a seed: this number of runs from that seed on. */
	const bool one = test_seed_given() && want == NULL;
	uint64_t first = test_seed(1), n = one ? 1 : want != NULL ? strtoull(want, NULL, 10) : RUNS;

	for (uint64_t seed = first; seed < first + n; seed++)
		random_one(seed, old);
	test_note(
	        "%" PRIu64 " runs: %" PRIu64 " targets without power, %" PRIu64
	        " streams lost, %" PRIu64 " writers killed, %" PRIu64 " times stalled, %" PRIu64
	        " rejoined at once; %" PRIu64 " records copied, %" PRIu64 " cut off, %" PRIu64
	        " begun anew; %" PRIu64 " wiped, %" PRIu64
	        " replaced (the old one was refused %" PRIu64 " times, and taken back %" PRIu64
	        "), %" PRIu64 " damaged (named %" PRIu64 " times; %" PRIu64
	        " where nothing is said), %" PRIu64 " opens refused; trims: %" PRIu64
	        " to a record in flight behind a filler, %" PRIu64
	        " to the end in front of one, %" PRIu64 " refused, %" PRIu64 " looked up; %" PRIu64
	        " times one target was ahead, %" PRIu64 " times behind; %" PRIu64 " times judged",
	        sum.runs, sum.power, sum.streams, sum.writers, sum.stalls, sum.rejoins, sum.copied,
	        sum.cuts, sum.resets, sum.wiped, sum.replaced, sum.old_refused, sum.old_live,
	        sum.rotten, sum.named, sum.said_nothing, sum.refused, sum.ahead, sum.before,
	        sum.trims_refused, sum.trims_looked_up, sum.ones, sum.behind, sum.judged);
	if (one)
		return;
	/* Each kind of fault occurred often enough. 5000 runs from seed 10,000,000 had 937 targets
	 * without power and 955 lost streams, so a fifth of the runs is more than their average. */
	CHECK_MSG(sum.power >= n / 8, "%" PRIu64 " targets without power", sum.power);
	CHECK_MSG(sum.streams >= n / 8, "%" PRIu64 " streams lost", sum.streams);
	CHECK_MSG(sum.writers >= n / 2, "%" PRIu64 " writers killed", sum.writers);
	CHECK_MSG(sum.stalls >= n / 2 && sum.rejoins >= n / 3,
	          "%" PRIu64 " stalled, %" PRIu64 " rejoined", sum.stalls, sum.rejoins);
	CHECK_MSG(sum.copied >= 2 * n, "%" PRIu64 " records copied", sum.copied);
	CHECK_MSG(sum.cuts > 0 && sum.resets >= n / 10, "%" PRIu64 " cut off, %" PRIu64 " anew",
	          sum.cuts, sum.resets);
	CHECK_MSG(sum.wiped >= n / 20 && sum.refused > 0, "%" PRIu64 " wiped, %" PRIu64 " refused",
	          sum.wiped, sum.refused);
	CHECK_MSG(old || (sum.replaced >= n / 20 && sum.old_refused >= n / 50 && sum.old_live > 0 &&
	                  sum.rotten >= n / 50 && sum.named > 0),
	          "%" PRIu64 " replaced, %" PRIu64 " refused, %" PRIu64 " taken back, %" PRIu64
	          " damaged",
	          sum.replaced, sum.old_refused, sum.old_live, sum.rotten);
	CHECK_MSG(sum.judged >= 200 * n, "%" PRIu64 " times judged", sum.judged);
}

/* ---- The model detects wrong implementations ---- */

#define AS(verdict) (1U << (verdict))

/** Each wrong implementation must be detected with a verdict of `want`. LT_FAILED is not in
 * `want`. */
static const struct {
	const char *what;
	enum weft_rdmap_sabotage stack;
	enum log_sabotage log;
	unsigned int want;
	/** 0: WRONG_RUNS. More if the fault needs a wipe while another target is slow. */
	unsigned int runs;
} wrongs[] = {
        {"durable with one answer", WEFT_RDMAP_SOUND, LOG_EARLY_DURABLE,
         AS(LT_LOST) | AS(LT_WRONG)},
        {"a log that moves its pointer first", WEFT_RDMAP_SOUND, LOG_POINTER_FIRST, AS(LT_DAMAGED)},
        {"a target compared with one that lags", WEFT_RDMAP_SOUND, LOG_LAGGARD, AS(LT_LOST)},
        {"a wiped target that counts at once", WEFT_RDMAP_SOUND, LOG_SEAT_EARLY, AS(LT_LOST), 120},
        {"Flush answered early", WEFT_RDMAP_EARLY_RESPONSE, LOG_SOUND, AS(LT_LOST) | AS(LT_WRONG)},
};

#define WRONG_RUNS 40

static void
test_wrong(void)
{
	for (unsigned int i = 0; i < RTE_DIM(wrongs); i++) {
		unsigned int caught[LT_VERDICTS] = {0}, n = 0;
		unsigned int runs = wrongs[i].runs != 0 ? wrongs[i].runs : WRONG_RUNS;

		for (uint64_t seed = 1; seed <= runs; seed++) {
			struct lt_attr a = {.appends = 40,
			                    .remote_format = wrongs[i].log == LOG_SEAT_EARLY,
			                    .stack = wrongs[i].stack,
			                    .log = wrongs[i].log};

			run_one(seed, &a);
			caught[l.verdict]++;
			n += (wrongs[i].want & AS(l.verdict)) != 0;
			l.verdict = LT_SOUND;
			lt_close(&l);
		}
		test_note("%s: of %u runs %u left no log, %u lost what was durable, %u had another "
		          "record, %u ended, %u passed",
		          wrongs[i].what, runs, caught[LT_DAMAGED], caught[LT_LOST],
		          caught[LT_WRONG], caught[LT_FAILED], caught[LT_SOUND]);
		CHECK_MSG(n >= WRONG_RUNS / 10, "%s: caught in %u of %u runs", wrongs[i].what, n,
		          runs);
	}
}

WEFT_TEST_MAIN({"all", test_all}, {"quorum", test_quorum}, {"below the quorum", test_below},
               {"lagging", test_lagging}, {"diverged", test_diverged}, {"begun anew", test_reset},
               {"long records", test_long}, {"without memory", test_wiped},
               {"overtaken", test_overtaken}, {"the same target twice", test_same_target},
               {"damaged copies", test_damaged}, {"seeds that failed", test_seeds},
               {"random", test_random}, {"wrong ones are caught", test_wrong})
