/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A log at one target: the effect of each call, and the calls that are refused. */

#include "lt.h"

static struct lt l;

static void
start(const struct lt_attr *a)
{
	lt_open(&l, a);
	lt_recover(&l, 1);
	CHECK_MSG(l.verdict == LT_SOUND, "%s (%d)", lt_verdict_str(l.verdict), l.fail_status);
}

static void
finish(void)
{
	CHECK_MSG(l.verdict == LT_SOUND, "%s (%d)", lt_verdict_str(l.verdict), l.fail_status);
	lt_close(&l);
}

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

/* Many appends in flight, over several laps of the ring. Then every record is found again. */
static void
test_append(void)
{
	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct lt_attr a = {.seed = seed, .appends = 120, .verify = seed % 2};
		struct weft_log_info info;

		start(&a);
		lt_run(&l);
		CHECK(lt_until(&l, all_released));
		info = lt_info(&l);
		CHECK_EQ(info.appends, 120);
		CHECK_EQ(info.transaction_records, 121); /* the opening record counts, too */
		CHECK_EQ(info.durable.seq, info.end.seq);
		lt_kill_writer(&l);
		lt_recover(&l, 1);
		CHECK_EQ(l.epoch, 2);
		finish();
	}
}

/* With a full pipeline, later appends share a transaction. */
static void
test_batches(void)
{
	struct weft_log_attr la = {.max_appends = 64, .max_transactions = 2};
	struct lt_attr a = {
	        .seed = 1, .appends = 64, .depth = 64, .max_len = 40, .la = &la, .quick = true};

	start(&a);
	lt_run(&l);
	CHECK_EQ(lt_info(&l).transaction_records, 65);
	CHECK(lt_info(&l).transactions <= 8);
	finish();
}

static void
test_window(void)
{
	struct weft_log_attr la = {.max_appends = 8};
	struct lt_attr a = {.seed = 1, .la = &la, .quick = true, .max_len = 8};

	start(&a);
	CHECK(lt_until(&l, all_durable));
	vt_run(&l.t, VT_MS);
	for (unsigned int i = 0; i < 8; i++)
		CHECK_EQ(lt_append(&l, 8), 0);
	CHECK_EQ(lt_append(&l, 8), -EAGAIN);
	CHECK_EQ(lt_info(&l).full_window, 1);
	CHECK(lt_until(&l, all_released));
	CHECK_EQ(l.events[WEFT_LOG_EV_ROOM], 1);
	CHECK_EQ(l.events[WEFT_LOG_EV_LAGGING], 0);
	CHECK_EQ(lt_append(&l, 8), 0);
	CHECK(lt_until(&l, all_durable));
	finish();
}

/* A full ring accepts no record until it is trimmed, and can still be opened. */
static void
test_full(void)
{
	struct lt_attr a = {.seed = 1, .quick = true, .ring_bytes = 8192};
	struct weft_log_info info;
	struct weft_log_at mid;

	start(&a);
	info = lt_info(&l);
	CHECK_EQ(info.ring_bytes, 8192);
	CHECK_EQ(info.max_record_bytes, 8192 / 4 - 64);
	CHECK_EQ(lt_append(&l, info.max_record_bytes + 1), -EMSGSIZE);
	while (lt_append(&l, 200) == 0)
		CHECK(lt_until(&l, all_durable));
	CHECK_EQ(lt_append(&l, 200), -ENOSPC);
	for (unsigned int i = 0; i < 10; i++) {
		lt_kill_writer(&l);
		lt_recover(&l, 1);
		CHECK_EQ(l.verdict, LT_SOUND);
	}
	CHECK_EQ(lt_append(&l, 200), -ENOSPC);
	mid = l.rec[9].at;
	CHECK_EQ(mid.seq, 9);
	CHECK_EQ(weft_log_trim(l.log, &mid), 0);
	l.trim_seq = 9;
	/* not before the head is durable */
	CHECK_EQ(lt_append(&l, 200), -ENOSPC);
	vt_run(&l.t, 10 * VT_MS);
	CHECK(l.events[WEFT_LOG_EV_ROOM] > 0);
	CHECK_EQ(lt_append(&l, 200), 0);
	CHECK(lt_until(&l, all_durable));
	lt_kill_writer(&l);
	lt_recover(&l, 1);
	CHECK_EQ(l.head.seq, 9);
	finish();
}

/* The longest record fits after everything is trimmed, wherever the last one is. */
static void
test_longest(void)
{
	struct lt_attr a = {.seed = 3, .quick = true, .ring_bytes = 8192};
	uint32_t max;

	start(&a);
	max = lt_info(&l).max_record_bytes;
	for (unsigned int i = 0; i < 200; i++) {
		struct weft_log_at end;

		CHECK_EQ(lt_append(&l, i % 3 == 0 ? (uint32_t)lt_draw(&l, 600) : max), 0);
		CHECK(lt_until(&l, all_durable));
		end = lt_info(&l).durable;
		l.trim_seq = end.seq;
		CHECK_EQ(weft_log_trim(l.log, &end), 0);
		vt_run(&l.t, VT_MS);
	}
	finish();
}

static void
test_trim(void)
{
	struct lt_attr a = {.seed = 1, .quick = true, .max_len = 50};
	struct weft_log_at at;

	start(&a);
	for (unsigned int i = 0; i < 5; i++)
		CHECK_EQ(lt_append(&l, 10 * i), 0);
	at = l.rec[4].at;
	CHECK_EQ(weft_log_trim(l.log, &at), -EINVAL); /* not durable yet */
	CHECK(lt_until(&l, all_durable));
	at.position += 4;
	CHECK_EQ(weft_log_trim(l.log, &at), -EINVAL);
	at = lt_info(&l).durable;
	at.seq++;
	CHECK_EQ(weft_log_trim(l.log, &at), -EINVAL);
	at.seq--;
	CHECK_EQ(weft_log_trim(l.log, &at), 0);
	l.trim_seq = at.seq;
	at = l.rec[4].at;
	CHECK_EQ(weft_log_trim(l.log, &at), 0); /* now it is */
	CHECK_EQ(lt_info(&l).trims, 1);
	/* a position before the head is not valid for later records */
	CHECK_EQ(lt_append(&l, 8), 0);
	CHECK_EQ(lt_append(&l, 8), 0);
	CHECK(lt_until(&l, all_released));
	at = (struct weft_log_at){.seq = l.trim_seq + 1, .position = l.rec[4].at.position};
	CHECK_EQ(weft_log_trim(l.log, &at), -EINVAL);
	vt_run(&l.t, VT_MS);
	lt_kill_writer(&l);
	lt_recover(&l, 1);
	CHECK_EQ(l.head.seq, l.end.seq - 3);
	finish();
}

static bool
was_read(void *arg)
{
	return ((struct lt *)arg)->read_done;
}

static void
on_read(void *arg, struct weft_log_chunk *chunk)
{
	((struct lt *)arg)->chunk = *chunk;
	((struct lt *)arg)->read_done = true;
}

static void
test_read(void)
{
	struct lt_attr a = {.seed = 1, .quick = true, .max_len = 1000};
	struct weft_log_at at, bad;
	struct weft_log_record rec;
	struct weft_sge sg;

	start(&a);
	for (unsigned int i = 0; i < 6; i++)
		CHECK_EQ(lt_append(&l, 500), 0);
	CHECK(lt_until(&l, all_durable));
	sg = (struct weft_sge){.addr = l.sink, .len_bytes = 63, .lkey = weft_mr_stag(l.sink_mr)};
	at = l.rec[2].at;
	CHECK_EQ(weft_log_read(l.log, &at, &sg, on_read, &l), -EINVAL);
	sg.len_bytes = 64;
	bad = at;
	bad.position += 4;
	CHECK_EQ(weft_log_read(l.log, &bad, &sg, on_read, &l), -EINVAL);
	/* shorter than the record: the error reports the needed length */
	l.read_done = false;
	CHECK_EQ(weft_log_read(l.log, &at, &sg, on_read, &l), 0);
	CHECK(lt_until(&l, was_read));
	CHECK_EQ(l.chunk.status, -EMSGSIZE);
	CHECK_EQ(l.chunk.need_bytes, 64 + 504);
	/* two whole records and a part */
	sg.len_bytes = 3 * 568 - 1;
	l.read_done = false;
	CHECK_EQ(weft_log_read(l.log, &at, &sg, on_read, &l), 0);
	CHECK(lt_until(&l, was_read));
	CHECK_EQ(l.chunk.status, 0);
	CHECK_EQ(weft_log_chunk_next(&l.chunk, &rec), 1);
	CHECK_EQ(rec.at.seq, 2);
	CHECK_EQ(weft_log_chunk_next(&l.chunk, &rec), 1);
	CHECK_EQ(weft_log_chunk_next(&l.chunk, &rec), 0);
	CHECK_EQ(l.chunk.at.seq, 4);
	CHECK_EQ(l.chunk.at.position, l.rec[4].at.position);
	/* a position between records: no record there has this number */
	bad = l.rec[3].at;
	bad.seq = 4;
	l.read_done = false;
	CHECK_EQ(weft_log_read(l.log, &bad, &sg, on_read, &l), 0);
	CHECK(lt_until(&l, was_read));
	CHECK_EQ(l.chunk.status, -EBADMSG);
	CHECK_EQ(lt_info(&l).bad_reads, 1);
	for (unsigned int i = 0; i < WEFT_LOG_MAX_READS; i++)
		CHECK_EQ(weft_log_read(l.log, &at, &sg, on_read, &l), 0);
	CHECK_EQ(weft_log_read(l.log, &at, &sg, on_read, &l), -EAGAIN);
	finish(); /* while reads are in flight */
}

/* The writer formats a blank region remotely, and the log is recovered afterwards. */
static void
test_format(void)
{
	struct lt_attr a = {.seed = 1, .remote_format = true, .appends = 20};

	start(&a);
	lt_run(&l);
	lt_kill_writer(&l);
	lt_recover(&l, 1);
	CHECK(l.end.seq > 20);
	finish();
}

static bool
joined(void *arg)
{
	return ((struct lt *)arg)->events[WEFT_LOG_EV_JOINED] > 0;
}

static bool
lost(void *arg)
{
	return ((struct lt *)arg)->events[WEFT_LOG_EV_LOST] > 0;
}

/** Join a target whose region has these octets at this offset. */
static int
join_status(uint32_t off, const void *octets, uint32_t len)
{
	struct lt_attr a = {.seed = 1, .quick = true, .version = 1};
	int status = 0;

	lt_open(&l, &a);
	lt_log(&l);
	memcpy(l.target[0].persist->base + off, octets, len);
	weft_persist_mark(l.target[0].persist, off, len);
	CHECK_EQ(lt_join(&l, 0), 0);
	l.a.no_judge = true;
	if (!lt_until(&l, lost))
		status = 1;
	else
		status = l.lost_status;
	CHECK_EQ(l.events[WEFT_LOG_EV_JOINED], 0);
	CHECK_EQ(weft_log_open(l.log), -ENOTCONN);
	lt_close(&l);
	return status;
}

/* The magic of a log is lost, and its words are not: it is damaged, and not formatted anew. What a
 * format that did not end leaves has no words. */
static void
test_format_lost(void)
{
	static const uint8_t zero[WEFT_LOG_CARD_OFF];

	for (uint32_t len = 8; len <= sizeof(zero); len += sizeof(zero) - 8) {
		struct lt_attr a = {.seed = 1, .quick = true, .remote_format = true};

		start(&a);
		for (unsigned int i = 0; i < 5; i++)
			CHECK_EQ(lt_append(&l, 100), 0);
		CHECK(lt_until(&l, all_released));
		lt_kill_writer(&l);
		l.a.no_judge = true;
		lt_poke(&l, 0, 0, zero, len);
		lt_recover(&l, 1);
		CHECK_EQ(l.fail_status, -ENOTCONN);
		CHECK_EQ(l.lost_status, -EBADMSG);
		CHECK_EQ(l.damaged, 1);
		CHECK_EQ(l.damage, WEFT_LOG_DAMAGE_SUPER);
		CHECK(memcmp(weft_persist_sim_medium(l.target[0].persist), zero, len) == 0);
		l.verdict = LT_SOUND;
		finish();
	}
}

static void
test_format_again(void)
{
	struct lt_attr a = {.seed = 1, .quick = true, .remote_format = true, .no_judge = true};
	uint8_t half[512];

	lt_open(&l, &a);
	memset(half, 0x5a, sizeof(half));
	lt_poke(&l, 0, 8, half, sizeof(half));
	lt_recover(&l, 1);
	CHECK_EQ(l.verdict, LT_SOUND);
	finish();
}

static void
test_join_refused(void)
{
	static const uint8_t zero[8], high[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xf8};
	static const uint8_t somewhere[8] = {0, 0, 0, 0, 0, 0, 0x50, 0x40},
	                     odd[8] = {0, 0, 0, 0, 0, 0, 0x50, 1};

	CHECK_EQ(join_status(0, zero, 8), -ENODATA);
	CHECK_EQ(join_status(0, "WEFTEXP1", 8), -EMEDIUMTYPE);
	CHECK_EQ(join_status(8, "\0\0\0\3", 4), -EPROTONOSUPPORT);
	CHECK_EQ(join_status(100, "x", 1), -EBADMSG);
	CHECK_EQ(join_status(WEFT_LOG_TAIL_OFF, high, 8), -EBADMSG);
	CHECK_EQ(join_status(WEFT_LOG_TAIL_OFF, somewhere, 8), -EBADMSG);
	CHECK_EQ(join_status(WEFT_LOG_TAIL_OFF, odd, 8), -EBADMSG);
	CHECK_EQ(join_status(WEFT_LOG_HEAD_OFF, odd, 8), -EBADMSG);
}

/* Other numbers of targets or quorum than the superblock's are refused, because recovery would
 * not be safe. */
static void
test_numbers(void)
{
	struct lt_attr a = {.seed = 1, .quick = true, .targets = 2, .quorum = 2};

	lt_open(&l, &a);
	l.a.quorum = 1;
	lt_log(&l);
	CHECK_EQ(lt_join(&l, 0), 0);
	CHECK(lt_until(&l, lost));
	CHECK_EQ(l.lost_status, -EINVAL);
	lt_close(&l);
}

static void
test_attr(void)
{
	struct lt_attr a = {.seed = 1, .quick = true};
	struct weft_log_attr la = {.size = sizeof(la)};
	struct weft_log_append ap = {0};
	struct weft_log *log;

	lt_open(&l, &a);
	CHECK_EQ(weft_log_create(&la, &log), -EINVAL);
	lt_log(&l);
	CHECK_EQ(weft_log_append(l.log, &ap, NULL), -ENOTCONN);
	CHECK_EQ(weft_log_trim(l.log, &l.head), -ENOTCONN);
	CHECK_EQ(weft_log_open(l.log), -ENOTCONN);
	CHECK_EQ(lt_join(&l, 0), 0);
	CHECK(lt_until(&l, joined));
	CHECK_EQ(lt_join(&l, 0), -ENOSPC);
	CHECK_EQ(weft_log_open(l.log), 0);
	CHECK_EQ(weft_log_open(l.log), -EALREADY);
	finish();
}

/* The target refuses, its medium fails, or it disappears: the log ends, each append is reported,
 * and nothing leaks. */
static void
test_ends(void)
{
	static const enum weft_persist_sim_fault faults[] = {WEFT_SIM_FLUSH_ERR, WEFT_SIM_FLIP,
	                                                     WEFT_SIM_READ_ERR};
	static const int want[] = {-EIO, -EILSEQ, -EIO};

	for (unsigned int i = 0; i < RTE_DIM(faults); i++) {
		struct lt_attr a = {.seed = i + 1,
		                    .appends = 100,
		                    .depth = 8,
		                    .max_len = 100,
		                    .no_trim = true,
		                    .quick = true,
		                    .verify = true,
		                    .no_judge = true};

		start(&a);
		weft_persist_sim_fault(l.target[0].persist, faults[i], WEFT_LOG_RING_OFF, 16384,
		                       20);
		lt_run(&l);
		CHECK_EQ(l.verdict, LT_FAILED);
		CHECK_EQ(l.fail_status, -ENOTCONN);
		CHECK_EQ(l.lost_status, want[i]);
		CHECK_EQ(l.in_flight, 0);
		CHECK(l.done > 5 && l.done < 100);
		CHECK_EQ(lt_append(&l, 1), -EPIPE);
		lt_close(&l);
	}
}

/* The log is destroyed from its own callback. */
static void
destroy_in(void *arg, const struct weft_log_at *at, int status)
{
	struct lt *x = arg;

	(void)at;
	x->fail_status += status == 0 ? 1 : 100;
	if (x->log != NULL)
		weft_log_destroy(x->log);
	x->log = NULL;
}

static bool
destroyed(void *arg)
{
	return ((struct lt *)arg)->log == NULL;
}

static void
test_destroy(void)
{
	struct lt_attr a = {.seed = 1, .quick = true};
	struct weft_log_append ap = {.durable = destroy_in, .arg = &l};

	start(&a);
	l.fail_status = 0;
	for (unsigned int i = 0; i < 5; i++)
		CHECK_EQ(weft_log_append(l.log, &ap, NULL), 0);
	l.a.no_judge = true;
	CHECK(lt_until(&l, destroyed));
	/* one append is durable, and the others are reported as failed */
	CHECK_EQ(l.fail_status, 401);
	finish();
}

/* The callback of the end queries the log, and tries to use it, or to end it again. */
static unsigned int ends;

static void
end_ask(struct lt *x)
{
	struct weft_log_append ap = {0};
	struct weft_log_info info;

	ends++;
	weft_log_query(x->log, &info);
	CHECK_EQ(info.appends, 5);
	CHECK_EQ(info.end.seq - info.durable.seq, 5);
	weft_log_destroy(x->log);
	CHECK_EQ(weft_log_append(x->log, &ap, NULL), -EINVAL);
	CHECK_EQ(weft_log_trim(x->log, &info.end), -EINVAL);
}

static void
end_durable(void *arg, const struct weft_log_at *at, int status)
{
	(void)at;
	CHECK_EQ(status, -ECANCELED);
	end_ask(arg);
}

static void
end_released(void *arg, const struct weft_log_at *at)
{
	(void)at;
	end_ask(arg);
}

static void
test_destroy_told(void)
{
	struct lt_attr a = {.seed = 1, .quick = true};
	struct weft_log_append ap = {.durable = end_durable, .released = end_released, .arg = &l};
	struct weft_log_info info;

	start(&a);
	ends = 0;
	for (unsigned int i = 0; i < 5; i++)
		CHECK_EQ(weft_log_append(l.log, &ap, NULL), 0);
	l.a.no_judge = true;
	weft_log_destroy(l.log);
	CHECK_EQ(ends, 10);
	weft_log_query(l.log, &info);
	CHECK_EQ(info.appends, 0);
	l.log = NULL;
	finish();
}

/* Links that lose, duplicate, reorder and corrupt packets. */
static void
test_hostile(void)
{
	for (uint64_t seed = 1; seed <= 25; seed++) {
		struct sim_link_cfg link = {.delay_ns = 20000,
		                            .loss_ppm = 30000,
		                            .dup_ppm = 30000,
		                            .reorder_ppm = 30000,
		                            .reorder_ns = 200000,
		                            .corrupt_ppm = 10000};
		struct lt_attr a = {.seed = seed, .appends = 60, .link = &link, .verify = seed % 2};

		test_seed_note(seed);
		start(&a);
		lt_run(&l);
		CHECK_EQ(l.done, 60);
		lt_kill_writer(&l);
		lt_recover(&l, 1);
		finish();
	}
}

WEFT_TEST_MAIN({"append", test_append}, {"hostile links", test_hostile}, {"batches", test_batches},
               {"window", test_window}, {"full ring", test_full}, {"longest record", test_longest},
               {"trim", test_trim}, {"read", test_read}, {"remote format", test_format},
               {"magic lost", test_format_lost}, {"a format that did not end", test_format_again},
               {"join refused", test_join_refused}, {"other numbers", test_numbers},
               {"attributes", test_attr}, {"ends", test_ends}, {"destroy", test_destroy},
               {"destroy, and what is told", test_destroy_told})
