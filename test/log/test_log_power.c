/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file One target whose power is cut, and a writer that crashes, at any step. The recovered log is
 * a prefix of the appended records with every durable one (draft-talpey-rdma-commit-02 s1.5).
 * Implementations that break this are detected.
 */

#include "lt.h"

#define RUNS 1000

static struct lt l;
static uint64_t judged, cuts, deaths;

/** Run until every append is durable, in several runs of the writer. Each run but the last ends
 * at a random step. */
static void
lives(unsigned int n)
{
	lt_recover(&l, 1);
	for (unsigned int life = 0; l.verdict == LT_SOUND; life++) {
		bool power = lt_draw(&l, 3) != 0;

		l.cut_at = life < n ? 1 + lt_draw(&l, 1 + lt_draw(&l, 300)) : UINT64_MAX;
		lt_run(&l);
		if (!l.cut || l.verdict != LT_SOUND)
			break;
		if (power)
			lt_cut_target(&l, 0);
		lt_kill_writer(&l);
		if (power)
			lt_boot_target(&l, 0);
		cuts += power;
		deaths += !power;
		lt_judge(&l);
		if (l.verdict == LT_SOUND)
			lt_recover(&l, 1);
	}
	judged += l.judged;
}

static void
test_cuts(void)
{
	uint64_t first = test_seed(1), n = test_seed_given() ? 1 : RUNS;

	for (uint64_t seed = first; seed < first + n; seed++) {
		struct lt_attr a = {.seed = seed,
		                    .appends = 40,
		                    .verify = seed % 3 == 0,
		                    .ring_bytes = seed % 2 ? 16384 : 16384 + 64 * (seed % 200)};

		test_seed_note(seed);
		lt_open(&l, &a);
		lives(3);
		CHECK_MSG(l.verdict == LT_SOUND && l.done >= a.appends, "seed %" PRIu64 ": %s (%d)",
		          seed, lt_verdict_str(l.verdict), l.fail_status);
		lt_close(&l);
	}
	test_note("%" PRIu64 " runs, %" PRIu64 " power cuts, %" PRIu64 " writers killed, %" PRIu64
	          " media judged",
	          n, cuts, deaths, judged);
	if (test_seed_given())
		return;
	/* Each kind of fault occurred often enough. */
	CHECK_MSG(cuts >= n * 2 / 3, "%" PRIu64 " power cuts", cuts);
	CHECK_MSG(deaths >= n / 3, "%" PRIu64 " writers killed", deaths);
	CHECK_MSG(judged >= 100 * n, "%" PRIu64 " media judged", judged);
}

/* ---- Wrong implementations are detected ---- */

#define AS(verdict) (1U << (verdict))

/** A wrong stack or log, and the verdicts that detect it. LT_FAILED, the end of the log by
 * itself, is not among them, because it says nothing about the medium. */
struct wrong {
	const char *what;
	enum weft_rdmap_sabotage stack;
	enum log_sabotage log;
	unsigned int want;
};

static const struct wrong wrongs[] = {
        {"Flush left out", WEFT_RDMAP_DROP_FLUSH, LOG_SOUND,
         AS(LT_WRONG) | AS(LT_DAMAGED) | AS(LT_LOST)},
        {"Flush answered early", WEFT_RDMAP_EARLY_RESPONSE, LOG_SOUND, AS(LT_LOST) | AS(LT_WRONG)},
        {"Atomic Write ahead of Flush", WEFT_RDMAP_EARLY_AWRITE, LOG_SOUND, AS(LT_DAMAGED)},
        {"a log that moves its pointer first", WEFT_RDMAP_SOUND, LOG_POINTER_FIRST, AS(LT_DAMAGED)},
        {"a log that does not flush", WEFT_RDMAP_SOUND, LOG_NO_FLUSH,
         AS(LT_WRONG) | AS(LT_DAMAGED) | AS(LT_LOST)},
};

#define WRONG_RUNS 100

static void
test_wrong(void)
{
	for (unsigned int i = 0; i < RTE_DIM(wrongs); i++) {
		unsigned int caught[LT_VERDICTS] = {0}, n = 0;

		for (uint64_t seed = 1; seed <= WRONG_RUNS; seed++) {
			struct lt_attr a = {.seed = seed,
			                    .appends = 30,
			                    .verify = seed % 3 == 0,
			                    .stack = wrongs[i].stack,
			                    .log = wrongs[i].log};

			test_seed_note(seed);
			lt_open(&l, &a);
			lives(2);
			caught[l.verdict]++;
			n += (wrongs[i].want & AS(l.verdict)) != 0;
			lt_close(&l);
		}
		test_note("%s: of %u runs %u left no log, %u lost what was durable, %u had another "
		          "record, "
		          "%u ended, %u passed",
		          wrongs[i].what, WRONG_RUNS, caught[LT_DAMAGED], caught[LT_LOST],
		          caught[LT_WRONG], caught[LT_FAILED], caught[LT_SOUND]);
		/* often enough to exclude chance */
		CHECK_MSG(n >= WRONG_RUNS / 10, "%s: caught in %u of %u runs", wrongs[i].what, n,
		          WRONG_RUNS);
	}
}

/* ---- Step 0 of a recovery ---- */

static bool
head_in_memory(void *arg)
{
	struct lt *x = arg;

	return memcmp(x->target[0].persist->base + WEFT_LOG_HEAD_OFF,
	              weft_persist_sim_medium(x->target[0].persist) + WEFT_LOG_HEAD_OFF, 8) != 0;
}

static bool
ring_full(void *arg)
{
	struct lt *x = arg;

	return lt_info(x).full_ring > 0 && x->in_flight == 0;
}

/** Version 1, because every open of version 2 writes the words again and flushes them. The
 * writer crashes when its trim is in the target's memory and not on the medium. The next writer
 * fills the ring. */
static enum lt_verdict
dies_at_trim(uint64_t seed, enum log_sabotage s)
{
	struct lt_attr a = {.seed = seed,
	                    .appends = 30,
	                    .max_len = 300,
	                    .no_trim = true,
	                    .quick = true,
	                    .version = 1};
	struct weft_persist_sim_cfg cfg = {.seed = seed, .busy_ppm = 1000000};
	struct weft_log_at keep;
	enum lt_verdict v;

	test_seed_note(seed);
	lt_open(&l, &a);
	lt_recover(&l, 1);
	lt_run(&l);
	CHECK_EQ(l.verdict, LT_SOUND);
	weft_persist_sim_set(l.target[0].persist, &cfg);
	keep = lt_info(&l).durable;
	l.trim_seq = keep.seq;
	CHECK_EQ(weft_log_trim(l.log, &keep), 0);
	CHECK(lt_until(&l, head_in_memory));
	lt_kill_writer(&l);
	cfg.busy_ppm = 0;
	weft_persist_sim_set(l.target[0].persist, &cfg);
	l.a.log = s;
	lt_recover(&l, 1);
	CHECK_EQ(l.verdict, LT_SOUND);
	l.a.appends = 1000;
	l.pump = true;
	CHECK(lt_until(&l, ring_full));
	v = l.verdict;
	lt_close(&l);
	return v;
}

static void
test_step0(void)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		CHECK_EQ(dies_at_trim(seed, LOG_SOUND), LT_SOUND);
		CHECK_EQ(dies_at_trim(seed, LOG_NO_STEP0), LT_DAMAGED);
	}
}

/** The formatting writer crashes when the magic is in the target's memory and not on the medium. */
static void
half_formatted(void)
{
	struct weft_log_super s = {
	        .size = sizeof(s), .targets = 1, .quorum = 1, .ring_bytes = l.a.ring_bytes};
	struct weft_persist *p = l.target[0].persist;
	uint8_t magic[8];

	memset(s.log_id, 7, sizeof(s.log_id));
	memset(s.target_id, 8, sizeof(s.target_id));
	CHECK_EQ(weft_log_format(p->base, l.region_bytes, &s), 0);
	memcpy(magic, p->base, sizeof(magic));
	memset(p->base, 0, sizeof(magic));
	weft_persist_mark(p, 0, WEFT_LOG_RING_OFF);
	CHECK_EQ(weft_persist_flush_wait(p, 0, WEFT_LOG_RING_OFF), 0);
	memcpy(p->base, magic, sizeof(magic));
	weft_persist_mark(p, 0, sizeof(magic));
}

/** Open the log, append, and cut the power. */
static enum lt_verdict
dies_at_format(uint64_t seed, enum log_sabotage s)
{
	struct lt_attr a = {.seed = seed,
	                    .appends = 5,
	                    .max_len = 100,
	                    .no_trim = true,
	                    .no_judge = true,
	                    .quick = true,
	                    .remote_format = true,
	                    .log = s};
	enum lt_verdict v;

	test_seed_note(seed);
	lt_open(&l, &a);
	half_formatted();
	lt_recover(&l, 1);
	CHECK_EQ(l.verdict, LT_SOUND);
	lt_run(&l);
	CHECK_EQ(l.verdict, LT_SOUND);
	lt_cut_target(&l, 0);
	lt_kill_writer(&l);
	lt_boot_target(&l, 0);
	/* Without its magic the region is blank, and would be formatted. */
	if (weft_get_be64(l.target[0].persist->base) != 0)
		lt_recover(&l, 1);
	else
		l.verdict = LT_LOST;
	v = l.verdict;
	l.verdict = LT_SOUND;
	lt_close(&l);
	return v;
}

static void
test_step0_format(void)
{
	unsigned int lost = 0;

	for (uint64_t seed = 1; seed <= 20; seed++) {
		CHECK_EQ(dies_at_format(seed, LOG_SOUND), LT_SOUND);
		lost += dies_at_format(seed, LOG_WORDS_ONLY) == LT_LOST;
	}
	CHECK(lost > 0);
}

WEFT_TEST_MAIN({"power cuts", test_cuts}, {"wrong stacks and logs are caught", test_wrong},
               {"the words are flushed first", test_step0},
               {"the superblock is flushed first", test_step0_format})
