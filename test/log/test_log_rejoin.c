/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Targets that leave and join again while another one lags, a log that is full, and the
 * events of the log. */

#include "lt_three.h"

static bool
lagging(void *arg)
{
	return ((struct lt *)arg)->events[WEFT_LOG_EV_LAGGING] > 0;
}

static bool
is_full(void *arg)
{
	struct lt *x = arg;

	return lt_info(x).full_ring > 0 && x->in_flight == 0;
}

static bool
is_pinned(void *arg)
{
	return ((struct lt *)arg)->log->target[2].pinned;
}

static bool
one_is_live(void *arg)
{
	(void)arg;
	return is_live(1);
}

/* Two targets acknowledge and one lags. One of the two leaves and joins again, and keeps its
 * acknowledged records. */
static void
beside_laggard(enum log_sabotage s, unsigned int trim)
{
	struct lt_attr a = {.seed = 1, .quick = true, .log = s, .no_trim = true};
	struct weft_log_at keep;

	start(&a);
	append_n(5, 60);
	CHECK(lt_until(&l, all_live));
	stall(0, true);
	append_n(6, 60);
	CHECK(lt_until(&l, all_durable));
	CHECK(lt_info(&l).target[0].durable.seq < l.durable - 5);
	if (trim > 0) {
		keep = trim == 6 ? lt_info(&l).durable : l.rec[l.durable - 6 + trim].at;
		l.trim_seq = keep.seq;
		CHECK_EQ(weft_log_trim(l.log, &keep), 0);
	}
	rejoin(1);
	(void)lt_until(&l, one_is_live);
}

static void
test_laggard(void)
{
	for (unsigned int trim = 0; trim <= 6; trim++) {
		beside_laggard(LOG_SOUND, trim);
		CHECK_EQ(lt_info(&l).cuts, 0);
		CHECK_EQ(lt_info(&l).resets, 0);
		CHECK_EQ(l.verdict, LT_SOUND);
		power_cut();
		lt_recover(&l, 3);
		finish();
	}
	beside_laggard(LOG_LAGGARD, 0);
	CHECK_EQ(l.verdict, LT_LOST);
	l.verdict = LT_SOUND;
	lt_close(&l);
}

/** Target 0 lags from record 7 on. Later records are durable at the two others, of which target
 * 2 loses its memory or is damaged. The records that target 2 lacks are sent to it one at a time.
 */
static void
hurt_beside_laggard(bool damaged)
{
	static struct weft_log_attr la = {.max_transactions = 1, .transaction_bytes = 64};
	struct lt_attr a = {
	        .seed = 1, .quick = true, .no_trim = true, .remote_format = true, .la = &la};
	uint8_t word[8];

	start(&a);
	append_n(5, 60);
	CHECK(lt_until(&l, all_live));
	stall(0, true);
	append_n(6, 60);
	CHECK(lt_until(&l, all_durable));
	CHECK(lt_info(&l).target[0].durable.seq < l.durable - 5);
	drop(2);
	lt_revoke_one(&l, 2);
	if (damaged) {
		memcpy(word, l.target[2].persist->base + WEFT_LOG_TAIL_OFF, 8);
		word[7] ^= 4;
		l.target[2].rotten = l.target[2].wiped = true;
		lt_poke(&l, 2, WEFT_LOG_TAIL_OFF, word, 8);
	} else {
		lt_wipe_target(&l, 2);
	}
	CHECK_EQ(lt_join(&l, 2), 0);
}

static bool
two_is_live(void *arg)
{
	(void)arg;
	return is_live(2);
}

/** Target 2 does not count before it has every durable record. If power is cut earlier, the log
 * does not open with two targets of which one lacks a durable record. */
static void
counts_late(bool damaged)
{
	const uint8_t *medium;
	unsigned int refused = 0;
	bool unseated = false;
	uint64_t durable;

	hurt_beside_laggard(damaged);
	durable = l.durable;
	medium = weft_persist_sim_medium(l.target[2].persist);
	for (unsigned int i = 0; i < 100000 && !two_is_live(&l); i++) {
		struct weft_log_image img;

		vt_run(&l.t, 1000);
		unseated |= !lt_words(&l, 2).card.seated;
		if (!unseated || !lt_words(&l, 2).card.seated)
			continue;
		CHECK_EQ(weft_log_image_open(medium, l.region_bytes, &img), 0);
		CHECK(img.end.seq >= durable);
	}
	CHECK(unseated);
	/* The replacement must be known at the lagging target, too. */
	if (l.a.version != 1)
		stall(0, false);
	CHECK(lt_until(&l, two_is_live));
	CHECK_EQ(l.verdict, LT_SOUND);
	power_cut();
	lt_recover(&l, 5);
	CHECK_EQ(l.verdict, LT_SOUND);
	rejoin(1);
	CHECK(lt_until(&l, all_live));
	finish();
	/* Power is cut while target 2 catches up. */
	for (unsigned int us = 0; us < 3000; us += 20) {
		hurt_beside_laggard(damaged);
		durable = l.durable;
		vt_run(&l.t, us * 1000);
		power_cut();
		lt_recover(&l, 5);
		CHECK_MSG(l.verdict == LT_SOUND ||
		                  (l.verdict == LT_FAILED && l.fail_status == -ENOTCONN),
		          "after %u us: %s (%d)", us, lt_verdict_str(l.verdict), l.fail_status);
		CHECK(l.verdict != LT_SOUND || l.durable > durable);
		refused += l.verdict == LT_FAILED;
		if (l.verdict == LT_FAILED) {
			l.verdict = LT_SOUND;
			l.failed = false;
			lt_recover(&l, 2);
		}
		finish();
	}
	CHECK(refused > 10);
}

static void
test_wiped(void)
{
	counts_late(false);
}

static void
test_unseated(void)
{
	counts_late(true);
}

/* A trim was durable at one target only when the writer crashed. The target keeps its records. */
static void
test_newer_head(void)
{
	for (unsigned int k = 0; k < 3; k++) {
		struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true};
		struct weft_log_at keep;

		start(&a);
		append_n(5, 60);
		CHECK(lt_until(&l, all_live));
		stall(0, true);
		append_n(6, 60);
		CHECK(lt_until(&l, all_durable));
		drop(2);
		keep = k == 2 ? lt_info(&l).durable : l.rec[k == 0 ? 4 : 9].at;
		l.trim_seq = keep.seq;
		CHECK_EQ(weft_log_trim(l.log, &keep), 0);
		vt_run(&l.t, 5 * VT_MS);
		CHECK_EQ(lt_info(&l).target[1].head, keep.position);
		power_cut();
		lt_recover(&l, 5);
		CHECK_EQ(l.verdict, LT_SOUND);
		CHECK_EQ(l.head.seq, 1);
		append_n(2, 60);
		rejoin(1);
		CHECK(lt_until(&l, all_live));
		CHECK_EQ(lt_info(&l).resets, 0);
		CHECK_EQ(lt_info(&l).target[l.target[1].joined].head, keep.position);
		CHECK_STR(lt_read_all(&l) == NULL ? "" : "damaged", "");
		power_cut();
		lt_recover(&l, 6);
		CHECK_EQ(l.verdict, LT_SOUND);
		CHECK_EQ(l.head.seq, keep.seq);
		finish();
	}
}

static bool
zero_catches(void *arg)
{
	struct lt *x = arg;

	return x->target[0].joined >= 0 &&
	       lt_info(x).target[x->target[0].joined].state == WEFT_LOG_TARGET_CATCHING;
}

/* A trim was durable at one target only, and that one remains. A target that lacks everything
 * begins at the head of the remaining one. */
static void
test_trim_found(void)
{
	struct lt_attr a = {.seed = 1,
	                    .quick = true,
	                    .no_trim = true,
	                    .remote_format = true,
	                    .ring_bytes = 65536};
	struct weft_log_at keep;

	start(&a);
	append_n(5, 2000);
	CHECK(lt_until(&l, all_live));
	stall(0, true);
	append_n(6, 2000);
	CHECK(lt_until(&l, all_durable));
	drop(2);
	keep = l.rec[9].at;
	l.trim_seq = keep.seq;
	CHECK_EQ(weft_log_trim(l.log, &keep), 0);
	vt_run(&l.t, 5 * VT_MS);
	power_cut();
	lt_recover(&l, 5);
	CHECK_EQ(l.head.seq, 1);
	rejoin(1);
	CHECK(lt_until(&l, all_live));
	drop(0);
	lt_revoke_one(&l, 0);
	lt_wipe_target(&l, 0);
	CHECK_EQ(lt_join(&l, 0), 0);
	CHECK(lt_until(&l, zero_catches));
	l.lost_status = 0;
	drop(2);
	vt_run(&l.t, VT_S);
	CHECK(!l.failed);
	CHECK_EQ(l.lost_status, -ECANCELED);
	CHECK_EQ(l.events[WEFT_LOG_EV_DAMAGED], 0);
	CHECK_EQ(lt_info(&l).head.seq, keep.seq);
	CHECK_EQ(lt_info(&l).head.position, keep.position);
	CHECK_EQ(lt_join(&l, 2), 0);
	CHECK(lt_until(&l, all_live));
	CHECK_EQ(lt_words(&l, 0).head, keep.position);
	power_cut();
	lt_recover(&l, 3);
	finish();
}

/* A target whose records cannot be read does not count until it has every record. */
static void
test_unknown(void)
{
	struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true, .no_judge = true};
	uint64_t at;
	bool zero = false;

	start(&a);
	append_n(5, 60);
	CHECK(lt_until(&l, all_live));
	at = WEFT_LOG_RING_OFF + l.rec[6].at.position % l.a.ring_bytes;
	stall(0, true);
	stall(2, true);
	append_n(1, 60); /* at target 1 only */
	vt_run(&l.t, 5 * VT_MS);
	power_cut();
	lt_recover(&l, 5);
	CHECK_EQ(l.verdict, LT_SOUND);
	l.target[1].persist->base[at + 20] ^= 4;
	CHECK_EQ(lt_join(&l, 1), 0);
	for (unsigned int i = 0; i < 100000 && !one_is_live(&l); i++) {
		uint64_t tail = lt_words(&l, 1).tail;

		vt_run(&l.t, 1000);
		zero |= !lt_words(&l, 1).card.seated;
		CHECK(zero || tail != 0);
	}
	CHECK(zero);
	CHECK(lt_until(&l, all_live));
	CHECK(lt_words(&l, 1).card.seated);
	CHECK_EQ(lt_words(&l, 1).card.epoch, l.epoch);
	CHECK_EQ(lt_info(&l).resets, 1);
	CHECK_EQ(l.damaged, 1U << 1);
	CHECK_EQ(l.damage, WEFT_LOG_DAMAGE_RECORD);
	CHECK_EQ(l.damage_pos, l.rec[6].at.position);
	finish();
}

/* A target that the log waits for at the end of its catching up stops answering: that is
 * reported. */
static void
test_pinned(void)
{
	struct weft_log_attr la = {.max_appends = 16};
	struct lt_attr a = {.seed = 1, .quick = true, .la = &la};
	struct weft_persist_sim_cfg cfg;
	int rc = 0;

	start(&a);
	CHECK(lt_until(&l, all_live));
	drop(2);
	for (unsigned int i = 0; i < 2; i++) {
		append_n(10, 500);
		CHECK(lt_until(&l, all_durable));
	}
	cfg = l.cfg;
	cfg.delay_min_ns = cfg.delay_max_ns = VT_MS;
	weft_persist_sim_set(l.target[2].persist, &cfg);
	rejoin(2);
	CHECK(lt_until(&l, is_pinned));
	cfg.delay_min_ns = cfg.delay_max_ns = 5 * VT_S;
	weft_persist_sim_set(l.target[2].persist, &cfg);
	for (unsigned int i = 0; i < 40 && rc == 0; i++) {
		rc = lt_append(&l, 50);
		vt_run(&l.t, 5 * VT_MS);
	}
	CHECK_EQ(rc, -EAGAIN);
	CHECK_EQ(lt_info(&l).target[2].state, WEFT_LOG_TARGET_CATCHING);
	CHECK(lt_until(&l, lagging));
	drop(2);
	CHECK_EQ(lt_append(&l, 50), 0);
	vt_run(&l.t, 6 * VT_S); /* its medium is finished, too */
	lt_close(&l);
}

/* A target answers now and then, but still delays the appends: that is reported again. */
static void
test_told_again(void)
{
	struct weft_log_attr la = {
	        .max_appends = 8, .max_transactions = 1, .transaction_bytes = 64};
	struct lt_attr a = {.seed = 1, .quick = true, .la = &la};

	start(&a);
	CHECK(lt_until(&l, all_live));
	stall(1, true);
	append_n(8, 50);
	CHECK(lt_until(&l, all_durable));
	CHECK_EQ(lt_append(&l, 50), -EAGAIN);
	CHECK(lt_until(&l, lagging));
	/* One report until the target has answered. */
	CHECK_EQ(lt_append(&l, 50), -EAGAIN);
	vt_run(&l.t, 10 * VT_MS);
	CHECK_EQ(l.events[WEFT_LOG_EV_LAGGING], 1);
	for (unsigned int i = 0; i < 200 && l.events[WEFT_LOG_EV_LAGGING] < 3; i++) {
		(void)lt_append(&l, 50);
		vt_run(&l.t, 20 * VT_MS);
	}
	CHECK(l.events[WEFT_LOG_EV_LAGGING] >= 3);
	stall(1, false);
	CHECK(lt_until(&l, all_live));
	finish();
}

/* A log that is opened again and again and never trimmed becomes full. An open that trims
 * succeeds. */
static void
full(unsigned int targets)
{
	struct lt_attr a = {.seed = 1,
	                    .targets = targets,
	                    .quick = true,
	                    .no_trim = true,
	                    .appends = 3000,
	                    .max_len = 300,
	                    .ring_bytes = 65536};
	struct weft_log_at keep, wrong;
	unsigned int n = 0, all = (1U << targets) - 1;

	lt_open(&l, &a);
	lt_recover(&l, all);
	l.pump = true;
	CHECK(lt_until(&l, is_full));
	l.pump = false;
	keep = l.rec[l.durable / 2].at;
	for (; n < 200 && l.verdict == LT_SOUND; n++) {
		lt_kill_writer(&l);
		lt_recover(&l, all);
	}
	CHECK_EQ(l.fail_status, -ENOSPC);
	CHECK(n >= 64 && n <= 70);
	for (unsigned int k = 0; k < 2; k++) {
		l.verdict = LT_SOUND;
		lt_kill_writer(&l);
		l.failed = false;
		wrong = k == 0 ? (struct weft_log_at){keep.seq + 1, keep.position}
		               : (struct weft_log_at){keep.seq, keep.position + 8};
		lt_recover_trim(&l, all, &wrong);
		CHECK_EQ(l.verdict, LT_FAILED);
	}
	l.verdict = LT_SOUND;
	lt_kill_writer(&l);
	l.failed = false;
	l.trim_seq = keep.seq;
	lt_recover_trim(&l, all, &keep);
	CHECK_MSG(l.verdict == LT_SOUND, "%s %d", lt_verdict_str(l.verdict), l.fail_status);
	CHECK_EQ(l.head.seq, keep.seq);
	CHECK_EQ(lt_append(&l, 300), 0);
	CHECK(lt_until(&l, all_durable));
	finish();
}

static void
test_full(void)
{
	full(1);
	full(3);
}

/* An append from released() takes the slot that has become free. The position given to
 * released() stays as it is. */
static bool appended;

static void
nothing(void *arg, const struct weft_log_at *at, int status)
{
	(void)arg;
	(void)at;
	(void)status;
}

static void
again(void *arg, const struct weft_log_at *at)
{
	struct weft_log_append a = {.durable = nothing};
	uint64_t seq = at->seq;

	(void)arg;
	CHECK_EQ(weft_log_append(l.log, &a, NULL), 0);
	CHECK_EQ(at->seq, seq);
	appended = true;
}

static void
test_released(void)
{
	struct weft_log_attr la = {.max_appends = 1};
	struct lt_attr a = {.seed = 1, .quick = true, .la = &la, .no_judge = true};
	struct weft_log_append ap = {.durable = nothing, .released = again};

	start(&a);
	CHECK(lt_until(&l, all_live));
	CHECK_EQ(weft_log_append(l.log, &ap, NULL), 0);
	vt_run(&l.t, 50 * VT_MS);
	CHECK(appended);
	lt_close(&l);
}

static bool
zero_is_busy(void *arg)
{
	return weft_persist_sim_next_ns(((struct lt *)arg)->target[0].persist) != UINT64_MAX;
}

/** The target joins by another connection while its medium is busy with operations of the old
 * one. */
static void
back_while_busy(bool no_fence)
{
	struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true, .no_fence = no_fence};

	start(&a);
	append_n(5, 60);
	CHECK(lt_until(&l, all_live));
	stall(0, true);
	append_n(6, 60);
	CHECK(lt_until(&l, zero_is_busy));
	rejoin(0);
}

static void
test_fence(void)
{
	back_while_busy(false);
	CHECK(lt_until(&l, all_live));
	finish();
	back_while_busy(true);
	CHECK_EQ(l.verdict, LT_UNFENCED);
	l.verdict = LT_SOUND;
	lt_close(&l);
}

static bool
is_lost(void *arg)
{
	return ((struct lt *)arg)->lost_status != 0;
}

/* The host gives one grant twice: to the same writer, and to the next one. */
static void
test_grant_twice(void)
{
	struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true};
	uint64_t word;

	start(&a);
	append_n(5, 60);
	CHECK(lt_until(&l, all_live));
	drop(1);
	l.a.same_grant = true;
	l.lost_status = 0;
	CHECK_EQ(lt_join(&l, 1), 0);
	CHECK(lt_until(&l, is_lost));
	CHECK_EQ(l.lost_status, -EALREADY);
	/* The target joins by a grant of its own, which is recorded durably. */
	l.a.same_grant = false;
	CHECK_EQ(lt_join(&l, 1), 0);
	CHECK(lt_until(&l, all_live));
	word = weft_get_be64(weft_persist_sim_medium(l.target[1].persist) + WEFT_LOG_GRANT_OFF);
	CHECK_EQ(word >> 32, l.target[1].stag);
	/* The writer crashes. The host of target 1 gives the same grant to the next writer. */
	weft_log_destroy(l.log);
	l.log = NULL;
	for (unsigned int i = 0; i < 3; i++)
		l.target[i].client = NULL;
	lt_log(&l);
	l.a.same_grant = true;
	l.lost_status = 0;
	CHECK_EQ(lt_join(&l, 1), 0);
	CHECK(lt_until(&l, is_lost));
	CHECK_EQ(l.lost_status, -EALREADY);
	l.a.same_grant = false;
	lt_recover(&l, 7);
	finish();
}

WEFT_TEST_MAIN({"a target comes back beside one that lags", test_laggard},
               {"a newer head", test_newer_head}, {"what it has is not known", test_unknown},
               {"a wiped target counts when it has everything", test_wiped},
               {"a damaged target counts when it has everything", test_unseated},
               {"what all live ones have trimmed", test_trim_found},
               {"held up while it catches up", test_pinned},
               {"held up, and told again", test_told_again},
               {"full and opened again and again", test_full},
               {"an append from released()", test_released},
               {"a grant waits for what came by the one before", test_fence},
               {"one grant given twice", test_grant_twice})
