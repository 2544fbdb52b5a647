/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file weft-fsck's examination: media of all three formats, whole and damaged at random. Nothing
 * is written without `repair`; data never is; what readers cannot read is found; after a repair a
 * second examination agrees with the first one; and each thing that is mended is mended to what it
 * was.
 */

#include <errno.h>
#include <stdlib.h>

#include "export_format.h"
#include "fsck_rig.h"
#include "log_wire.h"
#include "weft_volume_format.h"
#include <weft/byteorder.h>

static unsigned int
draws(void)
{
	const char *env = getenv("WEFT_FSCK_DRAWS");

	if (test_seed_given())
		return 1;
	return env != NULL ? (unsigned int)atoi(env) : 10000;
}

/** Findings of an examination, and that each one says what it has to. */
static void
on_found(void *owner, const struct fsck_finding *f)
{
	struct fsck_medium *m = owner;

	CHECK(f->what[0] != '\0' && f->consequence[0] != '\0');
	CHECK(f->state == FSCK_NOTE || f->state == FSCK_MENDED || f->todo[0] != '\0');
	CHECK(f->len_bytes > 0 || f->state == FSCK_LEFT);
	CHECK(f->state == FSCK_LEFT || f->off_bytes + f->len_bytes <= m->bytes);
}

static int
run(struct rig_medium *r, bool repair, struct fsck_result *res)
{
	const struct fsck_options o = {
	        .repair = repair, .data = true, .found = on_found, .owner = &r->medium};
	int rc = fsck_run(&r->medium, &o, res);

	CHECK((rc == 0) == (res->reason[0] == '\0'));
	return rc;
}

static uint64_t
bad(const struct fsck_result *res)
{
	return res->count[FSCK_LEFT] + res->count[FSCK_CAN_MEND];
}

static void
make(struct rig_medium *r, struct rig_facts *facts, uint64_t which, uint64_t *seed)
{
	if (which == 0)
		rig_object(r, facts, seed);
	else if (which == 1)
		rig_log(r, facts, seed);
	else
		rig_volume(r, facts, seed);
}

/** Where damage falls: half of it where the format has something. */
static uint64_t
hit_at(const struct rig_medium *r, const struct rig_facts *facts, uint64_t *seed)
{
	static const uint64_t places[] = {0, 4096, 8192, WEFT_VOL_COPY_AT, WEFT_VOL_DATA_ALIGN};
	uint64_t at;

	switch (rig_draw(seed, 4)) {
	case 0:
		at = places[rig_draw(seed, 5)] + rig_draw(seed, 4096);
		break;
	case 1: /* superblock, words, commit word: their first octets */
		at = places[rig_draw(seed, 4)] + rig_draw(seed, 200);
		break;
	case 2:
		at = facts->data_at + rig_draw(seed, 16384);
		break;
	default:
		at = rig_draw(seed, r->medium.bytes);
		break;
	}
	return at % r->medium.bytes;
}

static void
hit(struct rig_medium *r, const struct rig_facts *facts, uint64_t *seed)
{
	uint8_t octets[4096];
	uint64_t at = hit_at(r, facts, seed), len = 1;

	switch (rig_draw(seed, 5)) {
	case 0:
		rig_get(r, at, octets, 1);
		octets[0] ^= (uint8_t)(1U << rig_draw(seed, 8));
		break;
	case 1:
		len = 1 + rig_draw(seed, 64);
		for (uint64_t i = 0; i < len; i++)
			octets[i] = (uint8_t)rig_draw(seed, 256);
		break;
	case 2: /* a sector that is lost */
		at &= ~511ULL;
		len = 512;
		memset(octets, rig_draw(seed, 2) == 0 ? 0 : 0xff, len);
		break;
	case 3: /* another sector's octets */
		at &= ~511ULL;
		len = 512;
		rig_get(r, rig_draw(seed, r->medium.bytes / 512) * 512, octets, len);
		break;
	default:
		at &= ~4095ULL;
		len = 4096;
		memset(octets, 0, len);
		break;
	}
	if (at + len > r->medium.bytes)
		len = r->medium.bytes - at;
	rig_put(r, at, octets, len);
}

/** Cut a medium. What was behind the cut reads as zeros if fsck asks for it. */
static void
cut(struct rig_medium *r, uint64_t *seed)
{
	struct rig_medium whole;
	const uint64_t bytes = rig_draw(seed, r->medium.bytes);

	rig_copy(&whole, r);
	rig_free(r);
	rig_init(r, bytes);
	for (uint64_t at = 0; at < bytes; at += RIG_PAGE) {
		uint8_t mem[RIG_PAGE];

		if (whole.page[at / RIG_PAGE] == NULL)
			continue;
		rig_get(&whole, at, mem, sizeof(mem));
		rig_put(r, at, mem, bytes - at < RIG_PAGE ? bytes - at : RIG_PAGE);
	}
	rig_free(&whole);
}

/** How readers find a medium: what they can read, or -1. Of a volume: blocks that they cannot. */
static int64_t
reads(const struct rig_medium *r, enum fsck_format format)
{
	return format == FSCK_OBJECT ? rig_object_reads(r)
	       : format == FSCK_LOG  ? rig_log_reads(r)
	                             : rig_volume_reads(r);
}

/** What a repair makes of a damaged medium. */
static void
check_repair(struct rig_medium *r, const struct rig_medium *damaged, const struct rig_facts *facts,
             int rc, const struct fsck_result *before)
{
	struct fsck_result res, again;
	int rc2 = run(r, true, &res);

	CHECK_EQ(rc2, rc);
	CHECK_EQ(res.count[FSCK_LEFT], before->count[FSCK_LEFT]);
	CHECK_EQ(res.count[FSCK_CAN_MEND], 0);
	CHECK(res.count[FSCK_MENDED] >= before->count[FSCK_CAN_MEND]);
	/* To clear the maps is one finding more. */
	CHECK(res.count[FSCK_MENDED] <= before->count[FSCK_CAN_MEND] + 1);
	CHECK((r->writes > 0) == (res.count[FSCK_MENDED] > 0));
	CHECK(rig_equal(r, damaged, facts->data_at, facts->data_end));
	r->writes = 0;
	CHECK_EQ(run(r, false, &again), rc);
	CHECK_EQ(again.count[FSCK_LEFT], res.count[FSCK_LEFT]);
	CHECK_EQ(again.count[FSCK_CAN_MEND], 0);
	CHECK_EQ(r->writes, 0);
	if (rc == 0 && bad(&again) == 0 && res.format == facts->format) {
		/* What is called clean can be read. */
		if (facts->format == FSCK_VOLUME)
			CHECK_EQ(reads(r, facts->format), 0);
		else
			CHECK(reads(r, facts->format) >= 0);
	}
}

static void
one(uint64_t number)
{
	uint64_t seed = number * 0x9e3779b97f4a7c15ULL + 1;
	struct rig_medium whole, damaged, r;
	struct rig_facts facts;
	struct fsck_result res;
	const uint64_t hits = rig_draw(&seed, 4);
	int64_t was, is;
	int rc;

	test_seed_note(number);
	make(&whole, &facts, number % 3, &seed);
	was = reads(&whole, facts.format);
	rig_copy(&damaged, &whole);
	for (uint64_t i = 0; i < hits; i++)
		hit(&damaged, &facts, &seed);
	if (hits != 0 && rig_draw(&seed, 10) == 0)
		cut(&damaged, &seed);
	rig_copy(&r, &damaged);
	rc = run(&r, false, &res);
	CHECK_EQ(r.writes, 0);
	CHECK(rig_equal(&r, &damaged, 0, (uint64_t)RIG_MAX_PAGES * RIG_PAGE));
	if (hits == 0) {
		/* No false alarm. What a crash left is no damage, but checksums of a group in
		 * doubt. */
		CHECK_EQ(rc, 0);
		CHECK_EQ(res.format, facts.format);
		CHECK_EQ(res.count[FSCK_LEFT], 0);
		CHECK(facts.doubt || res.count[FSCK_CAN_MEND] == 0);
	}
	is = reads(&damaged, facts.format);
	/* A medium that lost all that it had is a new one. */
	if (was >= 0 && is < 0 && !(rc == 0 && res.format == FSCK_ANY))
		CHECK(rc != 0 || bad(&res) > 0);
	if (facts.format == FSCK_VOLUME && is > 0)
		CHECK(rc != 0 || res.count[FSCK_LEFT] > 0);
	check_repair(&r, &damaged, &facts, rc, &res);
	/* One thing that was damaged, and has no place for a second meaning, is as it was. */
	if (facts.format == FSCK_OBJECT && hits == 1 && rc == 0 && res.count[FSCK_LEFT] == 0 &&
	    reads(&r, FSCK_OBJECT) >= 0 && facts.generation > 1)
		CHECK(reads(&r, FSCK_OBJECT) >= (int64_t)facts.generation);
	rig_free(&whole);
	rig_free(&damaged);
	rig_free(&r);
}

static void
test_random(void)
{
	const unsigned int n = draws();

	test_eal_init();
	for (unsigned int i = 0; i < n; i++)
		one(test_seed(1) + i);
}

/* ---- What is mended ---- */

/** Make a medium that holds something. */
static void
made(struct rig_medium *r, struct rig_facts *facts, uint64_t which, uint64_t number)
{
	uint64_t seed = number + 77;

	do {
		seed += 1000003;
		make(r, facts, which, &seed);
		if ((which == 0 && facts->generation > 1) ||
		    (which == 1 && facts->records > 3 && rig_log_reads(r) > 0) ||
		    (which == 2 && facts->sums && !facts->doubt))
			return;
		rig_free(r);
	} while (true);
}

/** Damage `len` octets from off on: they are mended, and the medium is as it was. */
static void
mends(uint64_t which, uint64_t off, size_t len)
{
	struct rig_medium r, whole;
	struct rig_facts facts;
	struct fsck_result res;
	uint8_t octets[8192];

	made(&whole, &facts, which, off);
	rig_copy(&r, &whole);
	rig_get(&r, off, octets, len);
	for (size_t i = 0; i < len; i++)
		octets[i] ^= 0x5a;
	rig_put(&r, off, octets, len);
	CHECK_EQ(run(&r, false, &res), 0);
	CHECK_MSG(res.count[FSCK_CAN_MEND] > 0 && res.count[FSCK_LEFT] == 0,
	          "format %" PRIu64 ", octet %" PRIu64, which, off);
	CHECK_EQ(run(&r, true, &res), 0);
	CHECK(res.count[FSCK_MENDED] > 0);
	CHECK(rig_equal(&r, &whole, 0, whole.medium.bytes));
	rig_free(&r);
	rig_free(&whole);
}

static void
test_mends(void)
{
	test_eal_init();
	mends(0, 0, 8);     /* magic */
	mends(0, 16, 8);    /* size */
	mends(0, 32, 24);   /* slots and capacity */
	mends(0, 80, 4000); /* zeros */
	mends(1, 0, 8);     /* magic */
	mends(1, 8, 40);    /* all but ids */
	mends(1, 4092, 4);  /* CRC: the words prove the ids */
	mends(1, 4104, 50); /* between the words */
	mends(2, 0, 4096);  /* the superblock, its magic too */
	mends(2, 500, 100);
	mends(2, 65536, 4096);
	mends(2, 65600, 1);
	mends(2, 8000, 1000); /* zeros */
}

/** A log that lost its magic is told from one whose format did not end by its words. */
static void
test_log_magic(void)
{
	static const uint8_t zeros[4096];
	struct rig_medium r, whole;
	struct rig_facts facts;
	struct fsck_result res;

	made(&whole, &facts, 1, 5);
	rig_copy(&r, &whole);
	rig_put(&r, 0, zeros, 8);
	CHECK_EQ(run(&r, true, &res), 0);
	CHECK_EQ(res.count[FSCK_MENDED], 1);
	CHECK(rig_equal(&r, &whole, 0, whole.medium.bytes));
	rig_put(&r, 0, zeros, 8);
	rig_put(&r, 4096, zeros, 4096);
	r.writes = 0;
	CHECK_EQ(run(&r, true, &res), 0);
	CHECK_EQ(res.count[FSCK_NOTE], 1);
	CHECK_EQ(r.writes, 0);
	rig_free(&r);
	rig_free(&whole);
}

/** A commit word that names nothing: the newest whole object is named again. */
static void
test_commit_word(void)
{
	struct rig_medium r, whole;
	struct rig_facts facts;
	struct fsck_result res;

	for (uint64_t i = 0; i < 50; i++) {
		uint8_t word[8];

		made(&whole, &facts, 0, i);
		rig_copy(&r, &whole);
		rig_get(&r, EXPFMT_COMMIT_OFF, word, 8);
		word[i % 7] ^= (uint8_t)(0x10 + i);
		rig_put(&r, EXPFMT_COMMIT_OFF, word, 8);
		CHECK(rig_object_reads(&r) < 0);
		CHECK_EQ(run(&r, true, &res), 0);
		/* A push that was interrupted may have made the older slot unreadable. */
		if (res.count[FSCK_LEFT] == 0)
			CHECK(rig_object_reads(&r) >= (int64_t)facts.generation);
		else
			CHECK(rig_equal(&r, &r, 0, 4096) && r.writes == 0);
		rig_free(&r);
		rig_free(&whole);
	}
}

/** The object before a damaged one is named only if that is asked for. */
static void
test_previous(void)
{
	struct fsck_options o = {.repair = true};
	struct rig_medium r;
	struct rig_facts facts;
	struct fsck_result res;
	struct expfmt_super s;
	struct expfmt_commit word;
	uint8_t page[4096], octets[8], x;

	o.found = on_found;
	o.owner = &r.medium;
	for (uint64_t i = 0;; i++) {
		made(&r, &facts, 0, i);
		rig_get(&r, 0, page, sizeof(page));
		CHECK_EQ(expfmt_super_decode(page, &s), EXPFMT_OK);
		rig_get(&r, EXPFMT_COMMIT_OFF, octets, 8);
		expfmt_commit_decode(octets, &word);
		/* the other slot is to be whole, so no push may have begun */
		expfmt_commit_encode(&(struct expfmt_commit){.generation = word.generation - 1,
		                                             .slot = 1 - word.slot},
		                     octets);
		rig_put(&r, EXPFMT_COMMIT_OFF, octets, 8);
		if (rig_object_reads(&r) == (int64_t)word.generation - 1)
			break;
		rig_free(&r);
	}
	expfmt_commit_encode(&word, octets);
	rig_put(&r, EXPFMT_COMMIT_OFF, octets, 8);
	rig_get(&r, s.slot_off[word.slot] + 100, &x, 1);
	x ^= 1;
	rig_put(&r, s.slot_off[word.slot] + 100, &x, 1);
	CHECK_EQ(fsck_run(&r.medium, &o, &res), 0);
	CHECK_EQ(res.count[FSCK_LEFT], 1);
	CHECK_EQ(r.writes, 0);
	o.previous = true;
	CHECK_EQ(fsck_run(&r.medium, &o, &res), 0);
	CHECK_EQ(res.count[FSCK_MENDED], 1);
	CHECK_EQ(rig_object_reads(&r), (int64_t)word.generation - 1);
	rig_free(&r);
}

/** Groups in doubt get their checksums and are in doubt no more; damage elsewhere stays damage. */
static void
test_doubt(void)
{
	struct rig_medium r;
	struct rig_facts facts;
	struct fsck_result res;
	uint8_t map[RIG_PAGE], zeros[RIG_PAGE] = {0};
	unsigned int seen = 0;

	test_eal_init();
	for (uint64_t i = 1; seen < 20; i++) {
		uint64_t seed = i * 7919;

		rig_volume(&r, &facts, &seed);
		if (facts.doubt) {
			seen++;
			CHECK_EQ(run(&r, true, &res), 0);
			CHECK_EQ(res.count[FSCK_LEFT], 0);
			CHECK_EQ(res.count[FSCK_NOTE], 1);
			CHECK(res.count[FSCK_MENDED] > 0);
			for (uint64_t m = 0; m < WEFT_VOL_MAPS; m++) {
				rig_get(&r, WEFT_VOL_DATA_ALIGN + m * 65536, map, sizeof(map));
				CHECK(memcmp(map, zeros, sizeof(map)) == 0);
			}
			CHECK_EQ(rig_volume_reads(&r), 0);
			CHECK_EQ(run(&r, false, &res), 0);
			CHECK_EQ(res.count[FSCK_NOTE] + bad(&res), 0);
		}
		rig_free(&r);
	}
}

/** What a repair cannot write is left, and the examination says that it failed. */
static void
test_write_fails(void)
{
	struct rig_medium r;
	struct rig_facts facts;
	struct fsck_result res;
	uint8_t x = 0x77;

	test_eal_init();
	made(&r, &facts, 2, 1);
	rig_put(&r, 100, &x, 1);
	r.write_fails = 0;
	CHECK_EQ(run(&r, true, &res), -EIO);
	CHECK_EQ(res.count[FSCK_LEFT], 1);
	CHECK_EQ(res.count[FSCK_MENDED], 0);
	rig_free(&r);
}

/** Other formats are named and left alone; a new medium is clean. */
static void
test_foreign(void)
{
	struct rig_medium r;
	struct fsck_result res;

	rig_init(&r, 1 << 20);
	CHECK_EQ(run(&r, true, &res), 0);
	CHECK_EQ(res.format, FSCK_ANY);
	CHECK_EQ(bad(&res), 0);
	rig_put(&r, 0, "XFSB", 4);
	CHECK_EQ(run(&r, true, &res), -EMEDIUMTYPE);
	CHECK(strstr(res.reason, "XFS") != NULL);
	rig_put(&r, 0, "text", 4);
	CHECK_EQ(run(&r, true, &res), -EMEDIUMTYPE);
	CHECK_EQ(r.writes, 0);
	rig_free(&r);
	rig_init(&r, 100);
	CHECK_EQ(run(&r, true, &res), -EMEDIUMTYPE);
	rig_free(&r);
}

/** A volume's version is damaged in one copy: that is named and mended. A newer one is refused. */
static void
test_volume_version(void)
{
	struct weft_vol_super s = {.version = 2, .block_bytes = 512, .generation = 9};
	struct rig_medium r;
	struct rig_facts facts;
	struct fsck_result res;
	uint8_t page[WEFT_VOL_SUPER_BYTES];

	test_eal_init();
	for (unsigned int i = 0; i < 2; i++) {
		made(&r, &facts, 2, i);
		CHECK_EQ(run(&r, false, &res), 0);
		CHECK_EQ(bad(&res), 0);
		rig_put(&r, i * (uint64_t)WEFT_VOL_COPY_AT + 11, "\2", 1);
		CHECK_EQ(run(&r, false, &res), 0);
		CHECK_EQ(bad(&res), 1);
		CHECK_EQ(rig_volume_reads(&r), 0);
		CHECK_EQ(run(&r, true, &res), 0);
		CHECK_EQ(res.count[FSCK_MENDED], 1);
		CHECK_EQ(run(&r, false, &res), 0);
		CHECK_EQ(bad(&res), 0);
		weft_vol_super_encode(&s, page);
		rig_put(&r, i * (uint64_t)WEFT_VOL_COPY_AT, page, sizeof(page));
		CHECK_EQ(run(&r, true, &res), -EPROTONOSUPPORT);
		CHECK(strstr(res.reason, "its format is version 2, and this program") != NULL);
		rig_free(&r);
	}
}

/** The checksum of a block, as it is stored. */
static void
test_block_sum(void)
{
	uint8_t block[WEFT_VOL_SUM_BLOCK] = {0};

	CHECK_EQ(weft_vol_block_sum(block), 0);
	block[17] = 3;
	CHECK_EQ(weft_vol_block_sum(block), log_crc(0, block, sizeof(block)) ^ 0x98f94189U);
}

WEFT_TEST_MAIN({"random", test_random}, {"mends", test_mends}, {"commit_word", test_commit_word},
               {"log_magic", test_log_magic}, {"previous", test_previous}, {"doubt", test_doubt},
               {"write_fails", test_write_fails}, {"foreign", test_foreign},
               {"volume_version", test_volume_version}, {"block_sum", test_block_sum})
