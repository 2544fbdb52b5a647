/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file One record is damaged at one target of three, while another target has it whole: no open
 * and no catch-up gives up the whole one.
 */

#include "lt_three.h"

/** Flip a bit of the header of this record at target i. */
static void
rot_header(unsigned int i, uint64_t position)
{
	uint64_t off = WEFT_LOG_RING_OFF + position % l.a.ring_bytes + 41;
	uint8_t octet = l.target[i].persist->base[off] ^ 1;

	lt_poke(&l, i, off, &octet, 1);
}

static bool
all_live_but_one(void *arg)
{
	struct weft_log_info info = lt_info(arg);

	return info.target[0].durable.seq == info.end.seq &&
	       info.target[2].durable.seq == info.end.seq;
}

/**
 * Record 7 is durable at the targets 0 and 1, and target 2 lags. Target 0 has `more` records that
 * are not durable. Then all lose their power, and record 7 is damaged at target 0.
 */
static void
source_rots(unsigned int more)
{
	struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true, .no_judge = true};

	start(&a);
	append_n(5, 60);
	CHECK(lt_until(&l, all_live));
	stall(2, true);
	put(1, 60);
	stall(1, true);
	append_n(more, 60);
	vt_run(&l.t, 5 * VT_MS);
	CHECK_EQ(lt_info(&l).target[0].durable.seq, 8 + more);
	CHECK_EQ(lt_info(&l).target[1].durable.seq, 8);
	CHECK_EQ(lt_info(&l).target[2].durable.seq, 7);
	power_cut();
	rot_header(0, l.rec[7].at.position);
}

/** The damaged record of target 0 was named, and no other. */
static void
named(uint64_t seq)
{
	CHECK_EQ(l.damaged, 1);
	CHECK_EQ(l.damage, WEFT_LOG_DAMAGE_RECORD);
	CHECK_EQ(l.damage_pos, l.rec[seq].at.position);
}

/* Target 1 has record 7 whole. The log's next record names it, and is of the same epoch: so it is
 * the log's, and target 2 gets it from there. */
static void
test_compared(void)
{
	for (unsigned int more = 1; more <= 3; more++) {
		source_rots(more);
		lt_recover(&l, 3);
		CHECK_MSG(l.verdict == LT_SOUND, "%s (%d)", lt_verdict_str(l.verdict),
		          l.fail_status);
		CHECK_EQ(lt_info(&l).cuts, 0);
		CHECK_EQ(lt_info(&l).resets, 0);
		named(7);
		rejoin(2);
		CHECK(lt_until(&l, all_live));
		lt_kill_writer(&l);
		lt_recover(&l, 6);
		finish();
	}
}

/* The log's next record is of a later epoch. So it is not known whether record 7 of target 1 is the
 * log's: target 1 keeps it, and is refused until another target has the record whole. */
static void
test_not_known(void)
{
	source_rots(0);
	/* not yet: the same bit again */
	rot_header(0, l.rec[7].at.position);
	lt_recover(&l, 5);
	CHECK_EQ(l.verdict, LT_SOUND);
	put(2, 60);
	CHECK(lt_words(&l, 2).tail > l.rec[7].at.position);
	power_cut();
	rot_header(0, l.rec[7].at.position);
	l.damaged = 0;
	lt_recover(&l, 3);
	CHECK_EQ(l.verdict, LT_FAILED);
	CHECK_EQ(l.target[1].lost, -EBADMSG);
	named(7);
	CHECK_EQ(lt_words(&l, 1).tail, l.rec[7].at.position);
	l.verdict = LT_SOUND;
	lt_kill_writer(&l);
	l.damaged = 0;
	lt_recover(&l, 6);
	CHECK_EQ(l.verdict, LT_SOUND);
	CHECK_EQ(lt_info(&l).cuts, 0);
	CHECK_EQ(l.damaged, 0);
	finish();
}

/* Of two sources one has the record whole. */
static void
test_two_sources(void)
{
	struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true, .no_judge = true};

	start(&a);
	put(6, 60);
	CHECK(lt_until(&l, all_live));
	drop(1);
	put(40, 60);
	CHECK(lt_until(&l, all_live_but_one));
	l.target[0].persist->base[WEFT_LOG_RING_OFF + l.rec[7].at.position % l.a.ring_bytes + 41] ^=
	        1;
	CHECK_EQ(lt_join(&l, 1), 0);
	CHECK(lt_until(&l, all_live));
	CHECK_EQ(lt_info(&l).cuts, 0);
	CHECK_EQ(lt_info(&l).resets, 0);
	named(7);
	finish();
}

/* The record at the log's head is damaged at the source. Target 1 was begun anew there and has
 * nothing in front of it. */
static void
test_at_head(void)
{
	struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true, .no_judge = true};
	struct weft_log_at keep;

	start(&a);
	put(6, 60);
	CHECK(lt_until(&l, all_live));
	drop(1);
	put(4, 60);
	keep = lt_info(&l).durable;
	trim_to(&keep);
	vt_run(&l.t, 5 * VT_MS);
	CHECK_EQ(lt_join(&l, 1), 0);
	CHECK(lt_until(&l, all_live));
	stall(2, true);
	put(1, 60);
	stall(1, true);
	append_n(2, 60);
	vt_run(&l.t, 5 * VT_MS);
	CHECK_EQ(lt_words(&l, 1).tail, keep.position);
	power_cut();
	rot_header(0, keep.position);
	lt_recover(&l, 3);
	CHECK_MSG(l.verdict == LT_SOUND, "%s (%d)", lt_verdict_str(l.verdict), l.fail_status);
	CHECK_EQ(lt_info(&l).cuts, 0);
	CHECK_EQ(lt_info(&l).resets, 0);
	rejoin(2);
	CHECK(lt_until(&l, all_live));
	lt_kill_writer(&l);
	lt_recover(&l, 6);
	finish();
}

/* ---- The last record of a log that is trimmed whole ---- */

static bool
one_is_settled(void *arg)
{
	(void)arg;
	return is_live(1) || l.target[1].joined < 0;
}

/* Target 1 is begun anew, and needs the log's last record, of which the data are damaged at n
 * targets. It gets the record from another one, or is refused. */
static void
test_last(void)
{
	for (unsigned int n = 1; n <= 2; n++) {
		struct lt_attr a = {.seed = 1,
		                    .quick = true,
		                    .no_trim = true,
		                    .no_judge = true,
		                    .remote_format = true};
		struct weft_log_at keep;

		start(&a);
		put(6, 60);
		CHECK(lt_until(&l, all_live));
		drop(1);
		put(3, 60);
		keep = lt_info(&l).durable;
		trim_to(&keep);
		vt_run(&l.t, 5 * VT_MS);
		for (unsigned int i = 0; i < 2 * n; i += 2)
			l.target[i].persist->base[WEFT_LOG_RING_OFF +
			                          l.rec[keep.seq - 1].at.position % l.a.ring_bytes +
			                          70] ^= 1;
		CHECK_EQ(lt_join(&l, 1), 0);
		for (unsigned int ms = 0; ms < 100 && !one_is_settled(&l); ms++)
			vt_run(&l.t, VT_MS);
		CHECK_EQ(is_live(1), n == 1);
		CHECK_EQ(l.damaged, n == 1 ? 1 : 5);
		CHECK_EQ(l.damage, WEFT_LOG_DAMAGE_RECORD);
		CHECK_EQ(l.damage_pos, l.rec[keep.seq - 1].at.position);
		if (n == 2)
			CHECK_EQ(l.target[1].lost, -EBADMSG);
		finish();
	}
}

WEFT_TEST_MAIN({"a record is damaged where it is compared", test_compared},
               {"and the next one is of a later epoch", test_not_known},
               {"and another source has it", test_two_sources},
               {"and it is at the head", test_at_head},
               {"the last record of a log that is trimmed whole", test_last})
