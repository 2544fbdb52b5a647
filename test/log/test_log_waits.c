/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A log that waits for its targets (weft_log_attr.wait_us): they lose their power and come
 * back while appends are under way. */

#include "lt.h"

static struct lt l;

static bool
all_durable(void *arg)
{
	return ((struct lt *)arg)->in_flight == 0;
}

static bool
all_released(void *arg)
{
	return ((struct lt *)arg)->bufs == 0;
}

/** The power of the target fails. Where nothing is under way, its owner reports the loss. */
static void
cut(unsigned int i)
{
	lt_cut_target(&l, i);
	vt_run(&l.t, lt_draw(&l, 300) * VT_MS);
	if (l.target[i].joined >= 0)
		CHECK_EQ(weft_log_leave(l.log, l.target[i].client), 0);
}

static bool
is_live(void *arg)
{
	struct lt *lt = arg;

	return lt_info(lt).target[0].state == WEFT_LOG_TARGET_LIVE || lt->failed;
}

static void
come_back(void)
{
	lt_boot_target(&l, 0);
	while (lt_join(&l, 0) != 0)
		vt_run(&l.t, VT_MS);
	CHECK(lt_until(&l, is_live));
}

/* The only target is lost with its power again and again, while appends are under way, and joins
 * again: each append is there once, and none has failed. */
static void
test_one(void)
{
	struct weft_log_attr la = {.wait_us = 20000000};
	uint64_t waits = 0;

	for (uint64_t seed = 1; seed <= 16; seed++) {
		struct lt_attr a = {.seed = seed,
		                    .appends = 900,
		                    .ring_bytes = seed % 2 ? 8192 : 65536,
		                    .la = &la,
		                    .verify = seed % 3 == 0};

		la.max_appends = seed % 5 ? 32 : 4;
		lt_open(&l, &a);
		lt_recover(&l, 1);
		CHECK_EQ(l.verdict, LT_SOUND);
		l.pump = true;
		for (unsigned int i = 0; i < 6; i++) {
			vt_run(&l.t, lt_draw(&l, 20) * VT_MS / 4);
			cut(0);
			vt_run(&l.t, lt_draw(&l, 8) * VT_MS);
			come_back();
			CHECK_MSG(!l.failed && l.verdict == LT_SOUND,
			          "seed %" PRIu64 ", %u: %s (%d)", seed, i,
			          lt_verdict_str(l.verdict), l.fail_status);
			CHECK_EQ(lt_info(&l).epoch, 1);
		}
		l.pump = false;
		CHECK(lt_until(&l, all_released));
		CHECK_EQ(l.events[WEFT_LOG_EV_FAILED], 0);
		CHECK(lt_info(&l).durable.seq == lt_info(&l).end.seq && l.done > 10);
		waits += lt_info(&l).waits;
		lt_kill_writer(&l);
		lt_recover(&l, 1);
		CHECK_EQ(l.verdict, LT_SOUND);
		lt_close(&l);
	}
	CHECK_EQ(waits, 96);
}

/* The time of the wait is over; another writer has the log in the meantime. */
static void
test_in_vain(void)
{
	struct weft_log_attr la = {.wait_us = 3000000};
	struct lt_attr a = {.seed = 1, .quick = true, .la = &la};

	lt_open(&l, &a);
	lt_recover(&l, 1);
	CHECK_EQ(l.verdict, LT_SOUND);
	CHECK_EQ(lt_append(&l, 100), 0);
	CHECK(lt_until(&l, all_durable));
	CHECK_EQ(lt_append(&l, 100), 0);
	cut(0);
	CHECK_EQ(lt_append(&l, 100), 0);
	vt_run(&l.t, 2500 * VT_MS);
	CHECK(!l.failed);
	vt_run(&l.t, 1000 * VT_MS);
	CHECK(l.failed && l.fail_status == -ENOTCONN);
	CHECK_EQ(lt_append(&l, 100), -EPIPE);
	lt_kill_writer(&l);
	lt_boot_target(&l, 0);
	l.failed = false;
	lt_recover(&l, 1);
	CHECK_EQ(l.verdict, LT_SOUND);
	lt_close(&l);
}

static unsigned int away; /* bit mask */

static bool
all_are_live(void *arg)
{
	const struct weft_log_info info = lt_info(arg);
	unsigned int n = 0;

	for (unsigned int i = 0; i < 3; i++)
		n += info.target[i].state == WEFT_LOG_TARGET_LIVE;
	return n == 3;
}

static void
all_back(void)
{
	const unsigned int first = (unsigned int)lt_draw(&l, 3);

	for (unsigned int i = 0; i < 3; i++)
		if (away & 1U << (first + i) % 3) {
			lt_boot_target(&l, (first + i) % 3);
			(void)lt_join(&l, (first + i) % 3);
			vt_run(&l.t, lt_draw(&l, 8) * VT_MS);
		}
	/* One that found no source of what it lacks is lost, and tries again. */
	for (unsigned int n = 0; !all_are_live(&l); n++) {
		CHECK_MSG(n < 4000 && !l.failed, "seed %" PRIu64 ": %s (%d)", l.a.seed,
		          lt_verdict_str(l.verdict), l.fail_status);
		for (unsigned int i = 0; i < 3; i++)
			if (l.target[i].joined < 0)
				(void)lt_join(&l, i);
		vt_run(&l.t, 5 * VT_MS);
	}
}

/* Any of three targets, and all, are lost with their power, and come back in any order: no append
 * fails, and each is there once. */
static void
test_three(void)
{
	struct weft_log_attr la = {.wait_us = 100000000};
	uint64_t waits = 0;

	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct lt_attr a = {.seed = seed,
		                    .targets = 3,
		                    .quorum = 2,
		                    .ring_bytes = seed % 2 ? 8192 : 65536,
		                    .la = &la};

		test_seed_note(seed);
		la.max_appends = seed % 5 ? 32 : 4;
		lt_open(&l, &a);
		lt_recover(&l, 7);
		CHECK_EQ(l.verdict, LT_SOUND);
		for (unsigned int i = 0; i < 5; i++) {
			l.pump = true;
			l.a.appends = (unsigned int)l.done + l.in_flight + 150;
			vt_run(&l.t, lt_draw(&l, 20) * VT_MS / 4);
			away = i == 4 ? 7 : 1 + (unsigned int)lt_draw(&l, 7);
			for (unsigned int k = 0; k < 3; k++)
				if (away & 1U << k)
					cut(k);
			vt_run(&l.t, lt_draw(&l, 8) * VT_MS);
			all_back();
			CHECK_MSG(!l.failed && l.verdict == LT_SOUND, "seed %" PRIu64 ": %s (%d)",
			          seed, lt_verdict_str(l.verdict), l.fail_status);
		}
		l.pump = false;
		CHECK(lt_until(&l, all_released));
		CHECK(lt_info(&l).durable.seq == lt_info(&l).end.seq && l.done > 10);
		CHECK_EQ(lt_info(&l).epoch, 1);
		waits += lt_info(&l).waits;
		lt_kill_writer(&l);
		lt_recover(&l, 7);
		CHECK_MSG(l.verdict == LT_SOUND, "seed %" PRIu64 ": %s (%d)", seed,
		          lt_verdict_str(l.verdict), l.fail_status);
		lt_close(&l);
	}
	CHECK(waits > 20);
}

/* ---- A target comes back without records that it had acknowledged ---- */

static uint8_t *snapshots[LT_TARGETS];

static void
append_all(unsigned int n, uint32_t len)
{
	for (unsigned int i = 0; i < n; i++) {
		CHECK_EQ(lt_append(&l, len), 0);
		CHECK(lt_until(&l, all_released));
	}
}

/** Open the log at its targets. Each medium is remembered between some appends and others. */
static void
open_with_snapshots(const struct lt_attr *a)
{
	lt_open(&l, a);
	lt_recover(&l, (1U << a->targets) - 1);
	CHECK_EQ(l.verdict, LT_SOUND);
	append_all(3, 100);
	for (unsigned int i = 0; i < a->targets; i++) {
		snapshots[i] = malloc(l.region_bytes);
		CHECK(snapshots[i] != NULL);
		memcpy(snapshots[i], l.target[i].persist->base, l.region_bytes);
	}
	append_all(3, 100);
	/* What the media lose now is no fault of the log. */
	l.a.no_judge = true;
}

/** The target comes back with the medium that was remembered. */
static void
come_back_without(unsigned int i)
{
	lt_boot_target(&l, i);
	lt_poke(&l, i, 0, snapshots[i], (uint32_t)l.region_bytes);
	free(snapshots[i]);
	CHECK_EQ(lt_join(&l, i), 0);
	vt_run(&l.t, 200 * VT_MS);
}

static void
test_lost_records(void)
{
	struct weft_log_attr la = {.wait_us = 20000000, .max_appends = 32};
	struct lt_attr a = {.seed = 1, .targets = 1, .quick = true, .la = &la};

	open_with_snapshots(&a);
	cut(0);
	come_back_without(0);
	CHECK_EQ(l.target[0].lost, -EBADMSG);
	CHECK(!l.failed);
	vt_run(&l.t, 21 * VT_S);
	CHECK(l.failed && l.fail_status == -ENOTCONN);
	lt_close(&l);
}

/* Two of them wait for the third one, until it has come and lacks the same. */
static void
test_all_lost_records(void)
{
	struct weft_log_attr la = {.wait_us = 100000000, .max_appends = 32};
	struct lt_attr a = {.seed = 1, .targets = 3, .quorum = 2, .quick = true, .la = &la};

	open_with_snapshots(&a);
	for (unsigned int i = 0; i < 3; i++)
		cut(i);
	come_back_without(0);
	come_back_without(1);
	CHECK(l.target[0].joined >= 0 && l.target[1].joined >= 0);
	come_back_without(2);
	CHECK_EQ(l.target[2].lost, -EBADMSG);
	CHECK(!l.failed);
	lt_close(&l);
}

/* ---- Reads and trims meanwhile ---- */

struct answer {
	bool have;
	int status;
	uint64_t seq;
};

static void
on_read(void *arg, struct weft_log_chunk *chunk)
{
	struct answer *a = arg;
	struct weft_log_record rec;

	*a = (struct answer){.have = true, .status = chunk->status};
	if (chunk->status == 0 && weft_log_chunk_next(chunk, &rec) == 1) {
		a->seq = rec.at.seq;
		CHECK(lt_same(&l, rec.at.seq, rec.data, rec.len_bytes));
	}
}

/** Begin to read the record. */
static void
begin_read(uint64_t seq, struct answer *a)
{
	const struct weft_sge sg = {
	        .addr = l.sink, .len_bytes = LT_SINK_BYTES, .lkey = weft_mr_stag(l.sink_mr)};

	*a = (struct answer){0};
	CHECK_EQ(weft_log_read(l.log, &l.rec[seq].at, &sg, on_read, a), 0);
}

/* The only target is lost while a Read and the proof of a trim are under way. */
static void
test_read_and_trim(void)
{
	struct weft_log_attr la = {.wait_us = 20000000, .max_appends = 4};
	struct lt_attr a = {.seed = 1, .quick = true, .la = &la};
	struct answer answer;
	uint64_t seq;

	lt_open(&l, &a);
	lt_recover(&l, 1);
	CHECK_EQ(l.verdict, LT_SOUND);
	append_all(12, 100);
	seq = l.appended - 10;
	begin_read(seq + 1, &answer);
	l.trim_seq = seq;
	CHECK_EQ(weft_log_trim(l.log, &l.rec[seq].at), 0);
	CHECK(lt_info(&l).head.seq < seq);
	cut(0);
	come_back();
	vt_run(&l.t, 200 * VT_MS);
	CHECK(answer.have);
	CHECK_EQ(answer.status, 0);
	CHECK_EQ(answer.seq, seq + 1);
	CHECK_EQ(lt_info(&l).head.seq, seq);
	CHECK_EQ(lt_info(&l).bad_trims, 0);
	CHECK_EQ(l.verdict, LT_SOUND);
	lt_close(&l);
}

/* The wait is over while the one live target has not got the record yet, and another one, which
 * has it, catches up. */
static void
test_read_behind(void)
{
	struct weft_log_attr la = {.wait_us = 20000000, .max_appends = 32};
	struct lt_attr a = {.seed = 1, .targets = 3, .quorum = 2, .quick = true, .la = &la};
	struct weft_persist_sim_cfg slow;
	struct answer answer;
	uint64_t seq;

	lt_open(&l, &a);
	lt_recover(&l, 7);
	CHECK_EQ(l.verdict, LT_SOUND);
	append_all(3, 100);
	slow = l.cfg;
	slow.delay_min_ns = slow.delay_max_ns = 5 * VT_S;
	weft_persist_sim_set(l.target[0].persist, &slow);
	for (unsigned int i = 0; i < 4; i++)
		CHECK_EQ(lt_append(&l, 100), 0);
	CHECK(lt_until(&l, all_durable));
	seq = l.appended - 2;
	CHECK(lt_info(&l).target[0].durable.seq <= seq);
	begin_read(seq, &answer);
	lt_cut_target(&l, 2);
	cut(1);
	cut(2);
	lt_boot_target(&l, 1);
	CHECK_EQ(lt_join(&l, 1), 0);
	vt_run(&l.t, 200 * VT_MS);
	CHECK_EQ(lt_info(&l).waits, 1);
	CHECK(answer.have);
	CHECK_EQ(answer.status, 0);
	CHECK_EQ(answer.seq, seq);
	CHECK_EQ(l.verdict, LT_SOUND);
	lt_close(&l);
}

/* ---- Room ---- */

/* An append that waited for room hears of the end of the wait, though the ring is still full. */
static void
test_full_ring(void)
{
	struct weft_log_attr la = {.wait_us = 20000000, .max_appends = 256};
	struct lt_attr a = {.seed = 1, .quick = true, .ring_bytes = 8192, .la = &la};
	uint64_t rooms;
	int rc;

	lt_open(&l, &a);
	lt_recover(&l, 1);
	CHECK_EQ(l.verdict, LT_SOUND);
	while ((rc = lt_append(&l, 300)) == 0)
		CHECK(lt_until(&l, all_released));
	CHECK_EQ(rc, -ENOSPC);
	cut(0);
	CHECK_EQ(lt_append(&l, 300), -EAGAIN);
	rooms = l.events[WEFT_LOG_EV_ROOM];
	come_back();
	vt_run(&l.t, 200 * VT_MS);
	CHECK_EQ(l.events[WEFT_LOG_EV_ROOM], rooms + 1);
	CHECK_EQ(lt_append(&l, 300), -ENOSPC);
	CHECK_EQ(l.verdict, LT_SOUND);
	lt_close(&l);
}

/** Append and trim more than the ring holds. Then a target is lost that the log needs. */
static void
append_while_one_is_gone(void)
{
	lt_run(&l);
	CHECK(lt_until(&l, all_released));
	l.trim_seq = lt_info(&l).durable.seq;
	CHECK_EQ(weft_log_trim(l.log,
	                       &(struct weft_log_at){l.trim_seq, lt_info(&l).durable.position}),
	         0);
	vt_run(&l.t, 200 * VT_MS);
	cut(0);
	CHECK_EQ(lt_info(&l).waits, 1);
	CHECK_EQ(lt_append(&l, 100), 0);
	come_back();
	CHECK(lt_until(&l, all_durable));
	CHECK_EQ(l.verdict, LT_SOUND);
	lt_close(&l);
}

/* The memory of a target that never joined, or that was lost long ago, delays no append of a log
 * that waits. */
static void
test_gone(void)
{
	struct weft_log_attr la = {.wait_us = 20000000, .max_appends = 32};
	struct lt_attr a = {.seed = 1,
	                    .targets = 3,
	                    .quorum = 2,
	                    .quick = true,
	                    .ring_bytes = 8192,
	                    .appends = 200,
	                    .max_len = 300,
	                    .la = &la};

	lt_open(&l, &a);
	lt_recover(&l, 7);
	lt_kill_writer(&l);
	lt_recover(&l, 3);
	CHECK_EQ(l.verdict, LT_SOUND);
	append_while_one_is_gone();

	lt_open(&l, &a);
	lt_recover(&l, 7);
	CHECK_EQ(l.verdict, LT_SOUND);
	cut(2);
	append_while_one_is_gone();
}

WEFT_TEST_MAIN({"one target comes back", test_one}, {"a target does not come back", test_in_vain},
               {"some or all of three come back", test_three},
               {"the only target lost records", test_lost_records},
               {"all three lost records", test_all_lost_records},
               {"a read and a trim under way", test_read_and_trim},
               {"a read that one target does not have yet", test_read_behind},
               {"a full ring", test_full_ring}, {"appends while a target is gone", test_gone})
