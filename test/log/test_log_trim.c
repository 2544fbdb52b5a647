/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Trims on three targets: which places a head may name, and what an open makes of a head that
 * names none.
 */

#include "lt_three.h"

#define RING 16384

/** The word of target i names this position, by a writer of this epoch. */
static void
put_head(unsigned int i, uint64_t epoch, uint64_t position)
{
	struct weft_log_super s = {.size = sizeof(s)};
	uint64_t word = position;
	uint8_t octets[8];

	CHECK_EQ(weft_log_super_decode(l.target[i].persist->base, l.region_bytes, &s), 0);
	if (s.version > 1)
		word = log_place_encode(
		        log_word_seed(s.log_id, s.target_id, WEFT_LOG_HEAD_OFF, epoch), epoch,
		        s.ring_bytes, position);
	weft_put_be64(octets, word);
	lt_poke(&l, i, WEFT_LOG_HEAD_OFF, octets, 8);
}

/**
 * Record 18 is behind a filler, at target 0 alone. The log is trimmed up to it, which gives up the
 * records before it. The writer dies. Returns the place in front of the filler.
 */
static struct weft_log_at
trimmed_in_flight(bool judged)
{
	struct lt_attr a = {
	        .seed = 1, .quick = true, .no_trim = true, .no_judge = !judged, .ring_bytes = RING};
	struct weft_log_at end, at;

	start(&a);
	put(10, 936);
	CHECK(lt_until(&l, all_live));
	trim_to(&l.rec[8].at);
	vt_run(&l.t, 5 * VT_MS);
	put(6, 936);
	CHECK(lt_until(&l, all_live));
	end = lt_info(&l).durable;
	slow(1, 10000);
	slow(2, 10000);
	append_n(1, 936);
	vt_run(&l.t, 5 * VT_MS);
	at = l.rec[l.appended - 1].at;
	CHECK(at.seq == end.seq && at.position > end.position && at.position % RING == 0);
	CHECK_EQ(lt_info(&l).durable.seq, at.seq);
	trim_to(&at);
	vt_run(&l.t, 5 * VT_MS);
	CHECK_EQ(lt_words(&l, 0).head, end.position);
	lt_kill_writer(&l);
	slow(1, 0);
	slow(2, 0);
	vt_run(&l.t, 50 * VT_S);
	return end;
}

/** Another writer, with the targets 1 and 2, appends `n` records, of which the first has `len`
 * octets. */
static void
other_writer(unsigned int n, uint32_t len)
{
	lt_recover(&l, 6);
	CHECK_EQ(l.verdict, LT_SOUND);
	CHECK_EQ(l.head.seq, 8);
	if (n > 0)
		put(1, len);
	if (n > 1)
		put(n - 1, 100);
	lt_kill_writer(&l);
}

/** The log opens with these targets, has everything that is durable, and goes on with all three. */
static void
opens_with(unsigned int which)
{
	lt_recover(&l, which);
	CHECK_MSG(l.verdict == LT_SOUND, "%s (%d)", lt_verdict_str(l.verdict), l.fail_status);
	CHECK_EQ(l.events[WEFT_LOG_EV_DAMAGED], 0);
	put(1, 100);
	for (unsigned int i = 0; i < 3; i++)
		if ((which & 1U << i) == 0)
			rejoin(i);
	CHECK(lt_until(&l, all_live));
}

/* A trim may name the record that is not durable yet, since everything in front of it is. No head
 * passes the end of what is durable: another writer may write another record there. */
static void
test_in_flight(void)
{
	for (unsigned int which = 3; which <= 7; which += 2)
		for (unsigned int n = 0; n <= 3; n++) {
			trimmed_in_flight(true);
			other_writer(n, 100);
			opens_with(which);
			power_cut();
			lt_recover(&l, 3);
			finish();
		}
}

/* The same, and a writer of an earlier version moved the head past the filler. The lengths put that
 * head inside a record of the other writer, between two of its records, or behind its end. */
static void
test_past_filler(void)
{
	for (unsigned int which = 3; which <= 7; which += 2)
		for (uint32_t len = 40; len <= 2200; len += 216)
			for (unsigned int n = 0; n <= 3; n++) {
				struct weft_log_at end = trimmed_in_flight(false);
				uint64_t epoch = l.epoch;

				other_writer(n, len);
				put_head(0, epoch, (end.position / RING + 1) * RING);
				opens_with(which);
				power_cut();
				lt_recover(&l, 6);
				finish();
			}
}

/* That record is in the right one's log, so the head is a place of it. */
static void
test_past_filler_kept(void)
{
	struct weft_log_at end = trimmed_in_flight(false);

	put_head(0, l.epoch, (end.position / RING + 1) * RING);
	lt_recover(&l, 3);
	CHECK_EQ(l.verdict, LT_SOUND);
	CHECK_EQ(l.head.seq, end.seq);
	put(2, 100);
	rejoin(2);
	CHECK(lt_until(&l, all_live));
	finish();
}

/* An open trims up to the record that is not durable yet. It may die, too, before that is. */
static void
test_open_in_flight(void)
{
	struct weft_log_at end = trimmed_in_flight(true), keep = end;

	keep.position = (end.position / RING + 1) * RING;
	l.trim_max = keep.seq;
	lt_recover_trim(&l, 3, &keep);
	CHECK_EQ(l.verdict, LT_SOUND);
	CHECK_EQ(l.head.seq, end.seq);
	CHECK_EQ(l.head.position, end.position);
	put(2, 100);
	rejoin(2);
	CHECK(lt_until(&l, all_live));
	finish();
}

/* ---- A member that shares nothing ---- */

/* A target that was away is begun anew at the head, where it gets one record that is not durable.
 * Another writer writes another record there. What is in front of the target's head was never
 * written at this target, and all of it is trimmed, so the target shares nothing with the log. It
 * is begun anew again, and counts at every moment. */
static void
test_shares_nothing(void)
{
	struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true, .ring_bytes = RING};
	struct weft_log_at at;
	uint64_t resets;

	start(&a);
	put(5, 100);
	CHECK(lt_until(&l, all_live));
	drop(0);
	put(5, 100);
	at = lt_info(&l).durable;
	trim_to(&at);
	vt_run(&l.t, 5 * VT_MS);
	slow(1, 10000);
	slow(2, 10000);
	append_n(1, 100);
	rejoin(0);
	vt_run(&l.t, 200 * VT_MS);
	CHECK_EQ(lt_words(&l, 0).tail, at.position);
	CHECK_EQ(lt_words(&l, 0).head, at.position);
	CHECK_EQ(lt_info(&l).durable.seq, at.seq);
	lt_kill_writer(&l);
	slow(1, 0);
	slow(2, 0);
	vt_run(&l.t, 50 * VT_S);
	lt_recover(&l, 6);
	CHECK_EQ(l.verdict, LT_SOUND);
	CHECK_EQ(l.head.position, at.position);
	put(2, 300);
	resets = lt_info(&l).resets;
	rejoin(0);
	for (unsigned int i = 0; i < 100000 && !all_live(&l); i++) {
		vt_run(&l.t, 1000);
		CHECK(lt_words(&l, 0).card.seated);
	}
	CHECK(all_live(&l));
	CHECK_EQ(lt_info(&l).resets, resets + 1);
	CHECK_EQ(l.events[WEFT_LOG_EV_DAMAGED], 0);
	power_cut();
	lt_recover(&l, 3);
	finish();
}

/* ---- A place that is none ---- */

static void
proof_of(unsigned int n)
{
	static struct weft_log_attr la = {.max_appends = 4};
	struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true, .la = &la};

	start(&a);
	put(n, 100);
	CHECK(lt_until(&l, all_live));
}

/** A trim to this place is refused, or nothing is trimmed. */
static void
none_there(uint64_t seq, uint64_t position, int want)
{
	struct weft_log_at keep = {.seq = seq, .position = position};
	struct weft_log_info before = lt_info(&l), after;

	CHECK_EQ(weft_log_trim(l.log, &keep), want);
	vt_run(&l.t, 5 * VT_MS);
	after = lt_info(&l);
	CHECK_EQ(after.trims, before.trims);
	CHECK_EQ(after.bad_trims, before.bad_trims + (want == 0));
	CHECK_EQ(after.head.position, before.head.position);
	/* In version 1 a head word of 0 is the begin of the log. */
	for (unsigned int i = 0; i < 3; i++)
		CHECK_EQ(RTE_MAX(lt_words(&l, i).head, l.a.ring_bytes), before.head.position);
}

static void
proven(uint64_t seq)
{
	trim_to(&l.rec[seq].at);
	vt_run(&l.t, 5 * VT_MS);
	CHECK_EQ(lt_info(&l).head.position, l.rec[seq].at.position);
	CHECK_EQ(lt_words(&l, 0).head, l.rec[seq].at.position);
}

/* A place that the window does not know is looked up: a head that names no record would be damage
 * for every later open. */
static void
test_proof(void)
{
	struct weft_log_at keep;

	proof_of(20);
	none_there(19, l.rec[19].at.position + 8, -EINVAL);
	none_there(19, l.rec[18].at.position, -EINVAL);
	none_there(5, l.rec[5].at.position + 4, -EINVAL);
	none_there(5, l.rec[5].at.position + 8, 0);
	none_there(5, l.rec[6].at.position, 0);
	proven(5);
	proven(20);
	power_cut();
	lt_recover(&l, 7);
	CHECK_EQ(l.events[WEFT_LOG_EV_DAMAGED], 0);
	finish();
	/* Records of an earlier writer */
	proof_of(20);
	lt_kill_writer(&l);
	lt_recover(&l, 7);
	none_there(20, l.rec[20].at.position + 8, 0);
	proven(6);
	/* Of two that are looked up at a time the higher one counts in the end. */
	trim_to(&l.rec[8].at);
	trim_to(&l.rec[10].at);
	keep = l.rec[9].at;
	CHECK_EQ(weft_log_trim(l.log, &keep), 0);
	vt_run(&l.t, 5 * VT_MS);
	CHECK_EQ(lt_info(&l).head.seq, 10);
	/* The target that is asked is lost. */
	trim_to(&l.rec[12].at);
	drop(0);
	vt_run(&l.t, 5 * VT_MS);
	CHECK_EQ(lt_info(&l).head.seq, 12);
	CHECK_EQ(l.events[WEFT_LOG_EV_DAMAGED], 0);
	power_cut();
	lt_recover(&l, 3);
	finish();
}

/* ---- The place in front of a filler ---- */

/** Record 18 is behind a filler, and 6 records more have taken it out of a small window. All are
 * durable everywhere. Returns the place in front of the filler: the end of record 17. */
static struct weft_log_at
behind_filler(void)
{
	static struct weft_log_attr la = {.max_appends = 4};
	struct lt_attr a = {
	        .seed = 1, .quick = true, .no_trim = true, .ring_bytes = RING, .la = &la};
	struct weft_log_at end;

	start(&a);
	put(10, 936);
	CHECK(lt_until(&l, all_live));
	trim_to(&l.rec[8].at);
	vt_run(&l.t, 5 * VT_MS);
	put(6, 936);
	end = lt_info(&l).durable;
	put(1, 936);
	put(6, 200);
	CHECK(lt_until(&l, all_live));
	CHECK(l.rec[end.seq].at.position > end.position);
	CHECK_EQ(l.rec[end.seq].at.position % RING, 0);
	return end;
}

/* A reader names the end of a record, which is in front of a filler. The window does not know the
 * place any more. */
static void
test_front_trim(void)
{
	struct weft_log_at keep = behind_filler();

	CHECK_EQ(keep.seq, 18);
	trim_to(&keep);
	vt_run(&l.t, 5 * VT_MS);
	CHECK_EQ(lt_info(&l).bad_trims, 0);
	CHECK_EQ(lt_info(&l).head.seq, keep.seq);
	put(4, 936);
	power_cut();
	lt_recover(&l, 5);
	CHECK_EQ(l.head.seq, keep.seq);
	finish();
}

/* An open trims to it. */
static void
test_front_open(void)
{
	struct weft_log_at keep = behind_filler();

	lt_kill_writer(&l);
	l.trim_max = keep.seq;
	lt_recover_trim(&l, 3, &keep);
	CHECK_MSG(l.verdict == LT_SOUND, "%d", l.fail_status);
	CHECK_EQ(l.head.seq, keep.seq);
	CHECK_EQ(l.head.position, keep.position);
	put(4, 936);
	rejoin(2);
	CHECK(lt_until(&l, all_live));
	power_cut();
	lt_recover(&l, 6);
	CHECK_EQ(l.head.seq, keep.seq);
	finish();
}

/* A trim to it was durable at one target alone. An open takes that head. */
static void
test_front_head(void)
{
	for (unsigned int which = 3; which <= 7; which += 2) {
		struct weft_log_at keep = behind_filler();
		uint64_t epoch = l.epoch;

		lt_kill_writer(&l);
		put_head(1, epoch, keep.position);
		l.trim_max = keep.seq;
		lt_recover(&l, which);
		CHECK_MSG(l.verdict == LT_SOUND, "%d", l.fail_status);
		if ((which & 2) != 0)
			CHECK_EQ(l.head.seq, keep.seq);
		put(4, 100);
		power_cut();
		lt_recover(&l, 6);
		CHECK_EQ(l.head.seq, keep.seq);
		finish();
	}
}

/* ---- A record in a filler ---- */

#define SEVERAL 6 /* records that take the last ones out of the window */

/**
 * The targets 1 and 2 have the octets of a record that a writer wrote and that was not durable; the
 * tail of target 0 names it. Another writer, with 1 and 2, covers it by a filler. Returns the place
 * of the covered record, whose number another record has.
 */
static struct weft_log_at
covered(void)
{
	static struct weft_log_attr la = {.max_appends = 4};
	struct lt_attr a = {
	        .seed = 1, .quick = true, .no_trim = true, .ring_bytes = RING, .la = &la};
	struct weft_log_at at;

	start(&a);
	put(10, 936);
	CHECK(lt_until(&l, all_live));
	trim_to(&l.rec[8].at);
	vt_run(&l.t, 5 * VT_MS);
	put(4, 936);
	CHECK(lt_until(&l, all_live));
	slow(1, 10000);
	slow(2, 10000);
	append_n(2, 200);
	vt_run(&l.t, 5 * VT_MS);
	at = l.rec[l.appended - 1].at;
	CHECK_EQ(at.seq, lt_info(&l).durable.seq + 1);
	CHECK_EQ(lt_words(&l, 0).end, at.position + 264);
	CHECK(lt_words(&l, 1).end < at.position && lt_words(&l, 2).end < at.position);
	lt_kill_writer(&l);
	slow(1, 0);
	slow(2, 0);
	vt_run(&l.t, 50 * VT_S);
	lt_recover(&l, 6);
	CHECK_EQ(l.verdict, LT_SOUND);
	CHECK_EQ(lt_info(&l).end.seq, at.seq);
	CHECK(lt_info(&l).end.position < at.position);
	put(1, 2400);
	CHECK(l.rec[at.seq].at.position % RING == 0);
	return at;
}

/* The header of the covered record is equal at target 0 and at the targets that are read, but the
 * log has no such record. */
static void
test_covered_compared(void)
{
	for (unsigned int n = 0; n <= SEVERAL; n += SEVERAL) {
		covered();
		if (n > 0)
			put(n, 100);
		rejoin(0);
		CHECK(lt_until(&l, all_live));
		CHECK_EQ(l.events[WEFT_LOG_EV_DAMAGED], 0);
		power_cut();
		lt_recover(&l, 3);
		finish();
	}
}

/* A place of the writer that died is none of the log. */
static void
test_covered_trim(void)
{
	for (unsigned int n = 0; n <= SEVERAL; n += SEVERAL) {
		struct weft_log_at at = covered();

		if (n > 0)
			put(n, 100);
		none_there(at.seq, at.position, n > 0 ? 0 : -EINVAL);
		rejoin(0);
		CHECK(lt_until(&l, all_live));
		power_cut();
		lt_recover(&l, 6);
		finish();
	}
}

/* An open does not trim to it either. */
static void
test_covered_open(void)
{
	struct weft_log_at at = covered();

	put(SEVERAL, 100);
	lt_kill_writer(&l);
	lt_recover_trim(&l, 6, &at);
	CHECK_EQ(l.verdict, LT_FAILED);
	CHECK_EQ(l.fail_status, -EINVAL);
	l.verdict = LT_SOUND;
	power_cut();
	lt_recover(&l, 6);
	CHECK_EQ(l.verdict, LT_SOUND);
	finish();
}

/* The head of target 0 names the covered record, as a writer of an earlier version left it. */
static void
test_covered_head(void)
{
	for (unsigned int which = 3; which <= 7; which += 2) {
		struct weft_log_at at = covered();

		put(SEVERAL, 100);
		lt_kill_writer(&l);
		put_head(0, 1, at.position);
		l.a.no_judge = true;
		opens_with(which);
		CHECK_EQ(l.head.seq, 8);
		power_cut();
		lt_recover(&l, 6);
		finish();
	}
}

/* Behind an opening 64 octets are left in front of the ring's end, and the next record is in flight
 * behind this filler. So 64 octets in front of the record is a right place. */
static void
test_wrong_places(void)
{
	static const int64_t offs[] = {8, -8, 64, -64, 4096, -4096};
	struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true, .ring_bytes = RING};
	struct weft_log_info before;
	uint64_t seq;

	start(&a);
	put(2, 3984);
	trim_to(&l.rec[3].at);
	put(2, 3984);
	lt_kill_writer(&l);
	lt_recover(&l, 7);
	CHECK_EQ(l.verdict, LT_SOUND);
	CHECK_EQ(lt_info(&l).durable.position, 2 * RING - 64);
	slow(1, 10000);
	slow(2, 10000);
	append_n(1, 100);
	seq = l.appended - 1;
	CHECK_EQ(l.rec[seq].at.position, 2 * RING);
	before = lt_info(&l);
	CHECK_EQ(before.durable.seq, seq);
	for (unsigned int i = 0; i < RTE_DIM(offs); i++)
		for (uint64_t old = before.head.seq + 1; old <= seq; old++)
			lt_trim_wrong(&l, old, offs[i]);
	vt_run(&l.t, 50 * VT_S);
	CHECK_EQ(lt_info(&l).head.position, before.head.position);
	CHECK_EQ(lt_info(&l).trims, before.trims);
	CHECK(l.trims_refused > 0 && l.trims_looked_up > 0);
	finish();
}

WEFT_TEST_MAIN({"a trim to what is not durable yet", test_in_flight},
               {"a head past a filler, as it once was left", test_past_filler},
               {"such a head, and the record is in the log", test_past_filler_kept},
               {"an open trims to what is not durable yet", test_open_in_flight},
               {"a member that shares nothing keeps its seat", test_shares_nothing},
               {"a trim to a place that is none", test_proof},
               {"a trim to the place in front of a filler, old", test_front_trim},
               {"an open trims to the place in front of a filler", test_front_open},
               {"a head in front of a filler, at one target", test_front_head},
               {"a covered record is not shared", test_covered_compared},
               {"a trim to a covered record", test_covered_trim},
               {"an open trims to a covered record", test_covered_open},
               {"a head at a covered record, as it once was left", test_covered_head},
               {"a trim to a wrong place, old or in flight", test_wrong_places})
