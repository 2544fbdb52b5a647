/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Edge cases of a log on three targets: a head after a filler, a ring that is full at one
 * target, a log that is trimmed completely, a damaged record at the head. In each case the log once
 * could not be opened or did not make progress.
 */

#include "lt_three.h"

static const uint8_t *
medium_of(unsigned int i)
{
	return weft_persist_sim_medium(l.target[i].persist);
}

/** The end of the record that the medium's tail names; 0: none. */
static uint64_t
tail_end(unsigned int i)
{
	return lt_words(&l, i).end;
}

/* ---- A filler ---- */

/** The length of the first record decides how near the ring's end the log ends. The first half
 * is trimmed. */
static void
ahead(const struct lt_attr *a, uint32_t first)
{
	start(a);
	append_n(1, first);
	append_n(6, 1800);
	CHECK(lt_until(&l, all_live));
	trim_to(&l.rec[6].at);
	vt_run(&l.t, 5 * VT_MS);
}

/** Target 1 lacks a record after a filler, and the log is trimmed up to that record. */
static bool
filler_missed(uint32_t first)
{
	struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true, .ring_bytes = 16384};
	struct weft_log_at keep;

	ahead(&a, first);
	drop(1);
	append_n(1, 3500);
	CHECK(lt_until(&l, all_durable));
	keep = l.rec[l.durable - 1].at;
	if (keep.position % a.ring_bytes != 0 ||
	    lt_info(&l).target[1].durable.position == keep.position)
		return false;
	trim_to(&keep);
	vt_run(&l.t, 5 * VT_MS);
	append_n(2, 3500);
	CHECK(lt_until(&l, all_durable));
	return true;
}

/** Check that the medium of target 1 holds a log, and that its head is not after its end. */
static void
check_head(void)
{
	struct weft_log_image img;
	int rc = weft_log_image_open(medium_of(1), l.region_bytes, &img);

	CHECK_MSG(rc == 0 || rc == -ENODATA, "%d", rc);
	if (tail_end(1) != 0)
		CHECK(!lt_words(&l, 1).bad && lt_words(&l, 1).head <= tail_end(1));
}

static void
test_filler(void)
{
	unsigned int n = 0;

	for (uint32_t first = 1000; first < 3000; first += 40) {
		if (filler_missed(first)) {
			n++;
			CHECK_EQ(lt_join(&l, 1), 0);
			for (unsigned int i = 0; i < 100000 && !is_live(1); i++) {
				check_head();
				vt_run(&l.t, 1000);
			}
			CHECK(is_live(1));
			CHECK(lt_until(&l, all_live));
			check_head();
			power_cut();
			lt_recover(&l, 3);
		}
		finish();
	}
	CHECK_MSG(n >= 10, "%u", n);
}

/* An earlier writer left the head after the filler. The target joins, and the log opens with it
 * and another one. */
static void
test_filler_of_old(void)
{
	uint64_t head;
	uint8_t word[8];
	unsigned int n = 0;

	for (uint32_t first = 1000; first < 3000; first += 200) {
		struct weft_persist *p;
		struct lt_attr a = {.seed = 1,
		                    .quick = true,
		                    .no_trim = true,
		                    .ring_bytes = 16384,
		                    .version = 1,
		                    .no_judge = true};
		struct weft_log_at keep;

		ahead(&a, first);
		append_n(1, 3500);
		CHECK(lt_until(&l, all_live));
		keep = l.rec[l.durable - 1].at;
		head = tail_end(1);
		if (keep.position % a.ring_bytes == 0 &&
		    l.rec[l.durable - 2].at.position % a.ring_bytes != 0) {
			/* Move the tail back to the record before the filler. */
			n++;
			trim_to(&keep);
			vt_run(&l.t, 5 * VT_MS);
			drop(1);
			lt_revoke_one(&l, 1);
			p = l.target[1].persist;
			weft_put_be64(word, l.rec[l.durable - 2].at.position);
			memcpy(p->base + WEFT_LOG_TAIL_OFF, word, 8);
			weft_persist_mark(p, WEFT_LOG_TAIL_OFF, 8);
			CHECK_EQ(weft_persist_flush_wait(p, WEFT_LOG_TAIL_OFF, 8), 0);
			CHECK(tail_end(1) < keep.position && keep.position < head);
			CHECK_EQ(lt_join(&l, 1), 0);
			CHECK(lt_until(&l, all_live));
			CHECK_EQ(lt_info(&l).resets, 0);
			CHECK_EQ(l.events[WEFT_LOG_EV_DAMAGED], 0);
		}
		finish();
	}
	CHECK_MSG(n >= 2, "%u", n);
}

/* The end of a record, as a reader reports it, is a valid position for a trim, also before a
 * filler. */
static void
test_trim_at_filler(void)
{
	unsigned int n = 0;

	for (uint32_t first = 1000; first < 3000; first += 100) {
		struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true, .ring_bytes = 16384};
		struct weft_log_at keep;

		ahead(&a, first);
		keep = lt_info(&l).durable;
		append_n(1, 3500);
		if (l.rec[l.appended - 1].at.position != keep.position) {
			n++;
			trim_to(&keep);
			CHECK(lt_until(&l, all_live));
			trim_to(&l.rec[l.appended - 1].at);
			power_cut();
			lt_recover(&l, 3);
		}
		finish();
	}
	CHECK_MSG(n >= 2, "%u", n);
}

/* ---- A full ring ---- */

/* A target was absent while the others trimmed and continued. The records that it lacks fit its
 * ring only if its head moves, too. */
static void
test_full_at_one(void)
{
	for (uint32_t len = 500; len <= 3500; len += 500) {
		struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true, .ring_bytes = 16384};
		struct weft_log_at keep;
		unsigned int n = 0;
		int rc = 0;

		start(&a);
		while (lt_append(&l, len) == 0)
			CHECK(lt_until(&l, all_durable));
		CHECK(lt_until(&l, all_live));
		stall(1, true);
		keep = lt_info(&l).durable;
		trim_to(&keep);
		vt_run(&l.t, 5 * VT_MS);
		drop(1);
		stall(1, false);
		/* The others continue until the ring is full. */
		while (n < 100 && (rc = lt_append(&l, len)) == 0) {
			n++;
			CHECK(lt_until(&l, all_durable));
		}
		CHECK_EQ(rc, -ENOSPC);
		keep = l.rec[l.durable - 1].at;
		trim_to(&keep);
		CHECK_EQ(lt_join(&l, 1), 0);
		for (unsigned int i = 0; i < 20; i++) {
			rc = lt_append(&l, len);
			CHECK(rc == 0 || rc == -ENOSPC || rc == -EAGAIN);
			if (rc == -ENOSPC) {
				keep = lt_info(&l).durable;
				trim_to(&keep);
			}
			CHECK(lt_until(&l, all_durable));
		}
		CHECK(lt_until(&l, all_live));
		keep = lt_info(&l).durable;
		trim_to(&keep);
		vt_run(&l.t, 5 * VT_MS);
		CHECK_EQ(lt_append(&l, len), 0);
		finish();
	}
}

/* A live target lags, its head is old, and the records that wait for it do not fit its ring. Its
 * head moves first. */
static void
test_old_head(void)
{
	for (uint32_t len = 700; len <= 3500; len += 400) {
		struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true, .ring_bytes = 16384};
		struct weft_log_at keep;

		start(&a);
		while (lt_append(&l, len) == 0)
			CHECK(lt_until(&l, all_durable));
		CHECK(lt_until(&l, all_live));
		/* A trim that reached only the two other targets. */
		drop(1);
		keep = l.rec[l.durable - 2].at;
		trim_to(&keep);
		vt_run(&l.t, 5 * VT_MS);
		append_n(1, len);
		CHECK(lt_until(&l, all_durable));
		CHECK_EQ(lt_join(&l, 1), 0);
		(void)lt_append(&l, len); /* the log has room, or not yet */
		CHECK(lt_until(&l, all_durable));
		keep = l.rec[l.durable - 1].at;
		trim_to(&keep);
		CHECK(lt_until(&l, all_live));
		for (unsigned int i = 0; i < 10; i++) {
			keep = lt_info(&l).durable;
			trim_to(&keep);
			vt_run(&l.t, 5 * VT_MS);
			CHECK_EQ(lt_append(&l, len), 0);
			CHECK(lt_until(&l, all_live));
		}
		finish();
	}
}

static bool
one_pinned(void *arg)
{
	struct lt *x = arg;

	return x->target[1].joined >= 0 && x->log->target[x->target[1].joined].pinned;
}

/* A target catches up while the others trim and continue. The window that it is to get does not
 * fit after its head, and its records are trimmed before it is live. Its head moves as far as its
 * records reach. Otherwise neither the target nor the log makes progress. */
static void
test_window_does_not_fit(void)
{
	struct weft_log_attr la = {.max_appends = 16};
	struct lt_attr a = {.seed = 1,
	                    .version = 2,
	                    .quick = true,
	                    .no_trim = true,
	                    .ring_bytes = 16384,
	                    .la = &la};
	struct weft_log_at keep;

	start(&a);
	append_n(5, 800);
	CHECK(lt_until(&l, all_live));
	drop(1);
	append_n(9, 800);
	CHECK(lt_until(&l, all_durable));
	slow(1, 40);
	CHECK_EQ(lt_join(&l, 1), 0);
	CHECK(lt_until(&l, one_catches));
	/* The records that the target lacks are on the way. Its head stays until they arrive. */
	vt_run(&l.t, 2 * VT_MS);
	trim_to(&l.rec[l.durable - 1].at);
	vt_run(&l.t, 5 * VT_MS);
	slow(2, 25);
	vt_run(&l.t, 45 * VT_MS);
	CHECK(!l.log->target[l.target[1].joined].pinned);
	append_n(14, 800);
	/* The target has the copied records. The window is not sent yet. */
	CHECK(lt_until(&l, one_pinned));
	slow(2, 0);
	CHECK(lt_until(&l, all_durable));
	CHECK(one_catches(&l));
	CHECK(lt_info(&l).end.position > lt_words(&l, 1).head + a.ring_bytes);
	keep = lt_info(&l).durable;
	trim_to(&keep);
	slow(1, 0);
	CHECK(lt_until(&l, all_live));
	append_n(1, 800);
	CHECK(lt_until(&l, all_live));
	power_cut();
	lt_recover(&l, 3);
	finish();
}

/** Target 1 gets a record before a filler. Meanwhile the log is trimmed up to the filler, and
 * the next record has no room after the old head of target 1. */
static bool
copied_behind_old_head(uint32_t first)
{
	static struct weft_log_attr la = {.max_appends = 4};
	struct lt_attr a = {
	        .seed = 1, .quick = true, .no_trim = true, .ring_bytes = 16384, .la = &la};
	struct weft_log_at keep;
	uint64_t before, left;

	start(&a);
	put(1, first);
	put(5, 1800);
	CHECK(lt_until(&l, all_live));
	trim_to(&l.rec[5].at);
	vt_run(&l.t, 5 * VT_MS);
	put(1, 1800);
	CHECK(lt_until(&l, all_live));
	drop(1);
	put(1, 1000);
	left = a.ring_bytes - lt_info(&l).durable.position % a.ring_bytes;
	if (left >= 1000)
		return false;
	put(1, 3500);
	keep = l.rec[l.durable - 1].at;
	put(2, 500);
	CHECK_EQ(keep.position % a.ring_bytes, 0);
	slow(1, 10);
	CHECK_EQ(lt_join(&l, 1), 0);
	CHECK(lt_until(&l, one_catches));
	vt_run(&l.t, 2 * VT_MS);
	before = lt_words(&l, 1).head;
	trim_to(&keep);
	vt_run(&l.t, VT_MS);
	while (lt_append(&l, 800) == 0)
		CHECK(lt_until(&l, all_durable));
	CHECK(one_catches(&l));
	CHECK_EQ(lt_words(&l, 1).head, before);
	CHECK(lt_info(&l).end.position > before + a.ring_bytes);
	return true;
}

/* The head of target 1 moves as far as its records reach, and not past the filler. Its medium
 * holds a log at each step. */
static void
test_copied_behind_old_head(void)
{
	unsigned int n = 0;

	for (uint32_t first = 2900; first < 4000; first += 100) {
		if (copied_behind_old_head(first)) {
			n++;
			for (unsigned int i = 0; i < 20000 && !is_live(1); i++) {
				check_head();
				vt_run(&l.t, 20000);
			}
			CHECK(is_live(1));
			CHECK_EQ(l.events[WEFT_LOG_EV_DAMAGED], 0);
			slow(1, 0);
			CHECK(lt_until(&l, all_live));
			power_cut();
			lt_recover(&l, 3);
		}
		finish();
	}
	CHECK_MSG(n >= 5, "%u", n);
}

/* ---- Both, at random ---- */

/** Append, or trim to one of the last records if there is no room. */
static void
go_on(void)
{
	if (l.durable < l.appended && lt_draw(&l, 4) != 0)
		return;
	if (lt_append(&l, (uint32_t)lt_draw(&l, 3600)) == -ENOSPC && l.durable == l.appended) {
		struct weft_log_at keep = l.rec[l.durable - 1 - lt_draw(&l, 2)].at;

		if (keep.seq > l.trim_seq && !l.rec[keep.seq].opening)
			trim_to(&keep);
	}
}

/* A slow target joins a log whose ring is full and that continues. The target becomes live, and
 * holds a log at each step. */
static void
test_slow_beside_full(void)
{
	uint64_t first = test_seed(1), n = test_seed_given() ? 1 : 60;

	for (uint64_t seed = first; seed < first + n; seed++) {
		struct lt_attr a = {
		        .seed = seed, .quick = true, .no_trim = true, .ring_bytes = 16384};
		struct weft_persist_sim_cfg slow;
		unsigned int left = 20;

		test_seed_note(seed);
		start(&a);
		append_n(4, 500);
		CHECK(lt_until(&l, all_live));
		lt_kill_writer(&l);
		lt_recover(&l, 5);
		for (unsigned int i = 0; i < 200; i++) {
			go_on();
			vt_run(&l.t, 20000);
		}
		slow = l.cfg;
		slow.delay_min_ns = slow.delay_max_ns = 100000 + 50000 * (seed % 8);
		weft_persist_sim_set(l.target[1].persist, &slow);
		CHECK_EQ(lt_join(&l, 1), 0);
		for (unsigned int i = 0; i < 20000 && left > 0; i++) {
			go_on();
			check_head();
			vt_run(&l.t, 20000);
			left -= is_live(1);
		}
		CHECK_MSG(lt_until(&l, all_live), "seed %" PRIu64, seed);
		check_head();
		CHECK_MSG(l.verdict == LT_SOUND && !l.failed, "seed %" PRIu64 ": %s (%d)", seed,
		          lt_verdict_str(l.verdict), l.failed ? l.fail_status : 0);
		weft_persist_sim_set(l.target[1].persist, &l.cfg);
		power_cut();
		lt_recover(&l, 3);
		finish();
	}
}

/* ---- Five targets ---- */

static bool
five_live(void *arg)
{
	struct weft_log_info info = lt_info(arg);

	for (unsigned int i = 0; i < 5; i++)
		if (info.target[i].state != WEFT_LOG_TARGET_LIVE)
			return false;
	return info.durable.seq == info.end.seq;
}

static bool
joined_live(void *arg)
{
	struct lt *x = arg;

	for (unsigned int i = 1; i < 3; i++)
		if (x->target[i].joined < 0 ||
		    lt_info(x).target[x->target[i].joined].state != WEFT_LOG_TARGET_LIVE)
			return false;
	return true;
}

static bool
three_catches(void *arg)
{
	struct lt *x = arg;

	return lt_info(x).target[x->target[3].joined].state == WEFT_LOG_TARGET_CATCHING;
}

/* Two targets have a newer head than the log. The records that are trimmed only there are in the
 * log of all others, whose rings must hold all of it. So appends never go further than one ring
 * from the log's own head. */
static void
test_newer_heads(void)
{
	/* the log does not wait for a target that lacks more than half of these */
	struct weft_log_attr la = {.max_appends = 8};
	struct lt_attr a = {.seed = 1,
	                    .la = &la,
	                    .quick = true,
	                    .no_trim = true,
	                    .no_judge = true,
	                    .targets = 5,
	                    .quorum = 3,
	                    .ring_bytes = 16384};
	struct weft_log_info info;
	struct weft_log_at keep;

	lt_open(&l, &a);
	lt_recover(&l, 31);
	for (unsigned int i = 0; i < 9; i++) {
		append_n(1, 1000);
		CHECK(lt_until(&l, five_live));
	}
	/* From now on no flush succeeds at the other targets. */
	for (unsigned int i = 0; i < 5; i++) {
		struct weft_persist_sim_cfg cfg = l.cfg;

		cfg.busy_ppm = i != 1 && i != 2 ? 1000000 : 0;
		weft_persist_sim_set(l.target[i].persist, &cfg);
	}
	keep = l.rec[8].at;
	trim_to(&keep);
	vt_run(&l.t, 5 * VT_MS);
	CHECK_EQ(lt_words(&l, 1).head, keep.position);
	CHECK_EQ(lt_words(&l, 2).head, keep.position);
	for (unsigned int i = 0; i < 5; i++)
		lt_cut_target(&l, i);
	lt_kill_writer(&l);
	for (unsigned int i = 0; i < 5; i++) {
		lt_boot_target(&l, i);
		stall(i, false);
	}
	lt_recover(&l, 25);
	CHECK_EQ(l.verdict, LT_SOUND);
	CHECK_EQ(l.head.seq, 1);
	CHECK_EQ(lt_join(&l, 1), 0);
	CHECK_EQ(lt_join(&l, 2), 0);
	CHECK(lt_until(&l, joined_live));
	/* One of the other targets is left, and catches up slowly. */
	stall(3, true);
	drop(3);
	append_n(6, 100);
	CHECK(lt_until(&l, all_durable));
	CHECK_EQ(lt_join(&l, 3), 0);
	CHECK(lt_until(&l, three_catches));
	drop(4);
	drop(0);
	while (lt_append(&l, 2000) == 0)
		vt_run(&l.t, VT_MS);
	info = lt_info(&l);
	CHECK_EQ(info.state, WEFT_LOG_OPENED);
	CHECK(info.end.position - info.head.position <= l.a.ring_bytes);
	stall(3, false);
	CHECK_EQ(lt_join(&l, 0), 0);
	CHECK_EQ(lt_join(&l, 4), 0);
	CHECK(lt_until(&l, five_live));
	CHECK_EQ(lt_info(&l).resets, 0);
	CHECK_EQ(l.fail_status, 0);
	finish();
}

/* ---- A log that is trimmed completely ---- */

/* Two targets are replaced, one after the other. The log opens with those two alone and has the
 * right next sequence number. */
static void
test_trimmed_whole(void)
{
	for (unsigned int more = 0; more < 2; more++) {
		struct lt_attr a = {
		        .seed = 1, .quick = true, .no_trim = true, .remote_format = true};
		struct weft_log_at keep;

		start(&a);
		append_n(8, 200);
		CHECK(lt_until(&l, all_live));
		keep = lt_info(&l).durable;
		trim_to(&keep);
		CHECK(lt_until(&l, all_live));
		for (unsigned int i = 0; i < 2; i++) {
			drop(i);
			lt_revoke_one(&l, i);
			lt_wipe_target(&l, i);
			CHECK_EQ(lt_join(&l, i), 0);
			CHECK(lt_until(&l, all_live));
			/* The record of the seat follows. */
			CHECK(tail_end(i) == keep.position || l.a.version != 1);
			CHECK(lt_words(&l, i).head == keep.position);
		}
		append_n(more, 100);
		CHECK(lt_until(&l, all_durable));
		power_cut();
		lt_recover(&l, 3);
		CHECK_EQ(l.verdict, LT_SOUND);
		append_n(2, 100);
		rejoin(2);
		CHECK(lt_until(&l, all_live));
		finish();
	}
}

/* Two targets are damaged and begun anew, one after the other. They keep their lives, so no
 * record of a seat follows the last record, and that is the record they hold. */
static void
test_trimmed_unseated(void)
{
	struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true, .remote_format = true};
	struct weft_log_at keep;
	uint8_t word[8];

	start(&a);
	append_n(8, 200);
	CHECK(lt_until(&l, all_live));
	keep = lt_info(&l).durable;
	trim_to(&keep);
	CHECK(lt_until(&l, all_live));
	for (unsigned int i = 0; i < 2; i++) {
		drop(i);
		lt_revoke_one(&l, i);
		memcpy(word, l.target[i].persist->base + WEFT_LOG_TAIL_OFF, 8);
		word[7] ^= 4;
		l.target[i].rotten = l.target[i].wiped = true;
		lt_poke(&l, i, WEFT_LOG_TAIL_OFF, word, 8);
		CHECK_EQ(lt_join(&l, i), 0);
		CHECK(lt_until(&l, all_live));
		CHECK_EQ(tail_end(i), keep.position);
		CHECK_EQ(lt_words(&l, i).head, keep.position);
	}
	CHECK_EQ(lt_info(&l).resets, 2);
	power_cut();
	lt_recover(&l, 3);
	CHECK_EQ(l.verdict, LT_SOUND);
	append_n(2, 100);
	rejoin(2);
	CHECK(lt_until(&l, all_live));
	finish();
}

/* A state that no log leaves: one target lags, and another was begun anew after the end of the
 * first. The absent target knows more, and that is the error. With the absent target the log opens.
 */
static void
test_others_know_more(void)
{
	struct lt_attr a = {
	        .seed = 1, .quick = true, .no_trim = true, .version = 1, .no_judge = true};
	uint64_t end;
	uint8_t word[8];

	start(&a);
	append_n(8, 200);
	CHECK(lt_until(&l, all_live));
	end = lt_info(&l).durable.position;
	lt_kill_writer(&l);
	weft_put_be64(word, l.rec[4].at.position);
	lt_poke(&l, 0, WEFT_LOG_TAIL_OFF, word, 8);
	weft_put_be64(word, end);
	lt_poke(&l, 1, WEFT_LOG_HEAD_OFF, word, 8);
	weft_put_be64(word, 0);
	lt_poke(&l, 1, WEFT_LOG_TAIL_OFF, word, 8);
	CHECK(lt_words(&l, 1).anew);
	lt_recover(&l, 3);
	CHECK_EQ(l.fail_status, -ENOTCONN);
	CHECK(!l.failed);
	l.verdict = LT_SOUND;
	/* A new open succeeds after the absent target has joined. */
	l.trim_seq = l.trim_max = l.durable;
	lt_recover(&l, 4);
	CHECK_EQ(l.verdict, LT_SOUND);
	CHECK_EQ(l.head.position, end);
	finish();
}

/* At each step of begin-anew: the remaining targets open the log, or the error is that others
 * know more. */
static void
test_trimmed_cut(void)
{
	unsigned int waits = 0, opened = 0;

	for (unsigned int us = 0; us < 1500; us += 10) {
		struct lt_attr a = {
		        .seed = 1, .quick = true, .no_trim = true, .remote_format = true};
		struct weft_log_at keep;

		start(&a);
		append_n(8, 200);
		CHECK(lt_until(&l, all_live));
		keep = lt_info(&l).durable;
		trim_to(&keep);
		CHECK(lt_until(&l, all_live));
		drop(0);
		lt_revoke_one(&l, 0);
		lt_wipe_target(&l, 0);
		CHECK_EQ(lt_join(&l, 0), 0);
		vt_run(&l.t, us * 1000);
		power_cut();
		lt_recover(&l, 3);
		if (l.verdict == LT_FAILED && l.fail_status == -ENOTCONN && !l.failed) {
			waits++;
			l.verdict = LT_SOUND;
			lt_recover(&l, 4);
		} else {
			opened++;
		}
		CHECK_MSG(l.verdict == LT_SOUND, "after %u us: %s (%d)", us,
		          lt_verdict_str(l.verdict), l.fail_status);
		append_n(1, 100);
		CHECK(lt_until(&l, all_durable));
		finish();
	}
	CHECK_MSG(waits > 5 && opened > 5, "%u waited, %u opened", waits, opened);
}

/** Whether target 1, which is begun anew, is to get the last record of a log that is trimmed
 * completely. */
static bool
gets_last(void *arg)
{
	struct lt *x = arg;

	return x->target[1].joined >= 0 && x->log->target[x->target[1].joined].c.last;
}

/** Target 1 lost its memory and joins a log whose records are all trimmed. */
static void
anew_behind_all(const struct lt_attr *a, uint32_t len)
{
	struct weft_log_at keep;

	start(a);
	append_n(7, 200);
	append_n(1, len);
	CHECK(lt_until(&l, all_live));
	keep = lt_info(&l).durable;
	trim_to(&keep);
	CHECK(lt_until(&l, all_live));
	vt_run(&l.t, 5 * VT_MS);
	drop(1);
	lt_revoke_one(&l, 1);
	lt_wipe_target(&l, 1);
	slow(1, 10);
	CHECK_EQ(lt_join(&l, 1), 0);
	CHECK(lt_until(&l, gets_last));
}

/** Target 1 becomes live, and the log opens with it and one of the others. */
static void
anew_gets_there(void)
{
	slow(1, 0);
	for (unsigned int ms = 0; ms < 100 && !is_live(1); ms++)
		vt_run(&l.t, VT_MS);
	CHECK(is_live(1));
	CHECK(lt_until(&l, all_live));
	check_head();
	CHECK_EQ(l.events[WEFT_LOG_EV_DAMAGED], 0);
	append_n(1, 100);
	CHECK(lt_until(&l, all_live));
	power_cut();
	lt_recover(&l, 3);
	finish();
}

/* Before target 1 asks for that record, the log continues, and is then not trimmed, or trimmed
 * up to its last record, or completely. No live target holds the record any longer, so target 1 is
 * begun anew again. */
static void
test_trimmed_again(void)
{
	for (unsigned int trimmed = 0; trimmed < 3; trimmed++) {
		struct lt_attr a = {
		        .seed = 1, .quick = true, .no_trim = true, .remote_format = true};
		struct weft_log_at keep;

		anew_behind_all(&a, 200);
		put(2, 100);
		keep = trimmed == 1 ? l.rec[l.durable - 1].at : lt_info(&l).durable;
		if (trimmed > 0)
			trim_to(&keep);
		vt_run(&l.t, 2 * VT_MS);
		/* its head is not flushed yet, so it has not asked for the record */
		CHECK(gets_last(&l));
		CHECK_EQ(lt_info(&l).resets, 1);
		anew_gets_there();
	}
}

/* The record does not fit the buffer, so it is copied in pieces. */
static void
test_trimmed_long(void)
{
	struct weft_log_attr la = {.copy_bytes = 8192};
	struct lt_attr a = {.seed = 1,
	                    .quick = true,
	                    .no_trim = true,
	                    .remote_format = true,
	                    .ring_bytes = 65536,
	                    .la = &la};

	anew_behind_all(&a, 16000);
	anew_gets_there();
}

/* ---- Damage ---- */

/* The record at the head is damaged at the target where the log ends last. Another target has
 * it: the log opens, and the damage is reported. */
static void
damaged_head(unsigned int damaged)
{
	struct lt_attr a = {.seed = 1, .quick = true, .no_trim = true, .no_judge = true};
	unsigned int all = (1U << damaged) - 1;
	struct weft_log_at keep;
	uint64_t off;

	start(&a);
	append_n(10, 100);
	CHECK(lt_until(&l, all_live));
	keep = l.rec[4].at;
	trim_to(&keep);
	CHECK(lt_until(&l, all_live));
	vt_run(&l.t, 5 * VT_MS);
	power_cut();
	off = WEFT_LOG_RING_OFF + keep.position % l.a.ring_bytes + 41;
	for (unsigned int i = 0; i < damaged; i++) {
		struct weft_persist *p = l.target[i].persist;

		p->base[off] ^= 1;
		weft_persist_mark(p, off, 1);
		CHECK_EQ(weft_persist_flush_wait(p, off, 1), 0);
	}
	lt_recover(&l, 7);
	if (damaged < 3) {
		CHECK_EQ(l.verdict, LT_SOUND);
		CHECK_EQ(l.head.seq, 4);
		CHECK_STR(lt_read_all(&l) == NULL ? "" : "damaged", "");
	} else {
		CHECK_EQ(l.fail_status, -EBADMSG);
		l.verdict = LT_SOUND;
	}
	for (unsigned int i = 0; i < 3; i++)
		if (damaged == 3 || (l.damaged & 1U << i) != 0) {
			CHECK((l.damaged & all) != 0);
			CHECK_EQ(l.damage_pos, keep.position);
		}
	CHECK_EQ(l.damaged & ~all, 0);
	CHECK(damaged < 3 || l.damaged == 7);
	finish();
}

static void
test_damaged_head(void)
{
	for (unsigned int n = 1; n <= 3; n++)
		damaged_head(n);
}

WEFT_TEST_MAIN({"the head stays in front of a filler", test_filler},
               {"a head behind a filler, as it once was left", test_filler_of_old},
               {"trimmed to the end of a record", test_trim_at_filler},
               {"full at one that was away", test_full_at_one},
               {"an old head and a window that does not fit", test_old_head},
               {"a window that does not fit behind an old head", test_window_does_not_fit},
               {"what it is copied does not fit behind an old head", test_copied_behind_old_head},
               {"a slow one beside a full ring", test_slow_beside_full},
               {"two newer heads of five", test_newer_heads},
               {"trimmed whole, and two replaced", test_trimmed_whole},
               {"trimmed whole, and two that were damaged", test_trimmed_unseated},
               {"behind the end of one that lags", test_others_know_more},
               {"trimmed whole, and cut while it joins", test_trimmed_cut},
               {"trimmed whole, and again before it has the last record", test_trimmed_again},
               {"trimmed whole, and the last record is long", test_trimmed_long},
               {"the record at the head is damaged", test_damaged_head})
