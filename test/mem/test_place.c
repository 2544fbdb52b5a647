/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Checks of ranges and rights, placement of fragments, dirty marks, the store of 8
 * octets. */

#include <errno.h>

#include "weft_mem_place.h"
#include "weft_test.h"
#include "weft_mem_find.h"

static uint8_t memory[8 * 4096] __attribute__((aligned(4096)));
static uint8_t dirty[8];

static void
test_check(void)
{
	struct weft_mem_pd pd = {0}, other = {0};
	const uint64_t max = UINT64_MAX;
	const uint32_t w = WEFT_ACCESS_REMOTE_WRITE, r = WEFT_ACCESS_REMOTE_READ;
	const struct {
		const char *what;
		uint64_t base, len; /* of the region */
		const struct weft_mem_pd *pd;
		uint64_t to, n;
		uint32_t access;
		enum weft_mem_err e;
	} rows[] = {
	        {"whole", 1000, 100, &pd, 1000, 100, w, WEFT_MEM_OK},
	        {"first", 1000, 100, &pd, 1000, 1, w, WEFT_MEM_OK},
	        {"last", 1000, 100, &pd, 1099, 1, w, WEFT_MEM_OK},
	        {"one too long", 1000, 100, &pd, 1000, 101, w, WEFT_MEM_BOUNDS},
	        {"end beyond", 1000, 100, &pd, 1099, 2, w, WEFT_MEM_BOUNDS},
	        {"behind", 1000, 100, &pd, 1100, 1, w, WEFT_MEM_BOUNDS},
	        {"before", 1000, 100, &pd, 999, 1, w, WEFT_MEM_BOUNDS},
	        {"over the start", 1000, 100, &pd, 999, 2, w, WEFT_MEM_BOUNDS},
	        {"zero TO", 1000, 100, &pd, 0, 1, w, WEFT_MEM_BOUNDS},
	        {"around all", 1000, 100, &pd, 0, max, w, WEFT_MEM_BOUNDS},
	        {"up to the top", 1000, 100, &pd, 1, max, w, WEFT_MEM_BOUNDS},
	        {"wraps by one", 1000, 100, &pd, 2, max, w, WEFT_MEM_TO_WRAP},
	        {"wraps onto the region", 1000, 100, &pd, max, 1002, w, WEFT_MEM_TO_WRAP},
	        {"top octet", 1000, 100, &pd, max, 1, w, WEFT_MEM_BOUNDS},
	        {"top octet and one", 1000, 100, &pd, max, 2, w, WEFT_MEM_TO_WRAP},
	        {"longest from inside", 1000, 100, &pd, 1050, max, w, WEFT_MEM_TO_WRAP},
	        {"region at the top", max - 99, 100, &pd, max - 99, 100, w, WEFT_MEM_OK},
	        {"its last octet", max - 99, 100, &pd, max, 1, w, WEFT_MEM_OK},
	        {"its last and one", max - 99, 100, &pd, max, 2, w, WEFT_MEM_TO_WRAP},
	        {"before it", max - 99, 100, &pd, max - 100, 1, w, WEFT_MEM_BOUNDS},
	        {"low TO against it", max - 99, 100, &pd, 0, 1, w, WEFT_MEM_BOUNDS},
	        {"all of memory", 0, max, &pd, 0, max, w, WEFT_MEM_OK},
	        {"all but for the top", 0, max, &pd, max, 1, w, WEFT_MEM_BOUNDS},
	        {"nothing, inside", 1000, 100, &pd, 1000, 0, w, WEFT_MEM_OK},
	        {"nothing, anywhere", 1000, 100, &pd, max, 0, w, WEFT_MEM_OK},
	        {"nothing, no right", 1000, 100, &pd, 5, 0, r, WEFT_MEM_ACCESS},
	        {"nothing, foreign", 1000, 100, &other, 5, 0, w, WEFT_MEM_BAD_PD},
	        {"no right", 1000, 100, &pd, 1000, 1, r, WEFT_MEM_ACCESS},
	        {"one of two rights", 1000, 100, &pd, 1000, 1, r | w, WEFT_MEM_ACCESS},
	        {"both rights held", 1000, 100, &pd, 1000, 1, w | WEFT_ACCESS_VERIFY, WEFT_MEM_OK},
	        /* order: PD, wrap, bounds, rights */
	        {"PD first", 1000, 100, &other, max, 2, r, WEFT_MEM_BAD_PD},
	        {"wrap second", 1000, 100, &pd, max, 2, r, WEFT_MEM_TO_WRAP},
	        {"bounds third", 1000, 100, &pd, 0, 2, r, WEFT_MEM_BOUNDS},
	};

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		struct weft_mem_mr mr = {.base_to = rows[i].base,
		                         .len_bytes = rows[i].len,
		                         .pd = &pd,
		                         .access = w | WEFT_ACCESS_VERIFY};
		enum weft_mem_err e =
		        weft_mem_check(&mr, rows[i].pd, rows[i].to, rows[i].n, rows[i].access);

		CHECK_MSG(e == rows[i].e, "%s: %d, not %d", rows[i].what, e, rows[i].e);
		CHECK_EQ(rows[i].n == 0 || weft_mem_allows(&mr, rows[i].pd, rows[i].to, rows[i].n,
		                                           rows[i].access),
		         rows[i].n == 0 || e == WEFT_MEM_OK);
	}
	CHECK_EQ(weft_mem_check(NULL, &pd, 0, 0, 0), WEFT_MEM_BAD_STAG);
}

static struct weft_persist medium = {.base = memory, .bytes = sizeof(memory), .dirty = dirty};

/** A region that starts `off` octets into the medium. */
static struct weft_mem_mr
region(uint64_t off, uint64_t base_to)
{
	return (struct weft_mem_mr){.addr = memory + off,
	                            .len_bytes = sizeof(memory) - off,
	                            .base_to = base_to,
	                            .persist = &medium,
	                            .persist_off_bytes = off};
}

/** Every cut of 24 octets into three fragments, also empty ones, at every alignment to 8. */
static void
test_fragments(void)
{
	uint8_t src[24], want[64];
	struct weft_mem_mr mr = region(0, 77);

	for (unsigned int i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(i + 1);
	for (unsigned int a = 0; a <= 24; a++) {
		for (unsigned int b = a; b <= 24; b++) {
			unsigned int at = (a * 7 + b) % 8, len = 24 - (a + b) % 3, skip = b % 2;
			struct weft_frag f[3] = {{src, a}, {src + a, b - a}, {src + b, 24 - b}};
			struct weft_cur c;
			uint8_t sink;

			weft_cur_init(&c, f, 3);
			len -= skip;
			if (skip)
				CHECK_EQ(weft_cur_read(&c, &sink, 1), 0);
			memset(memory, 0, 64);
			memset(want, 0, 64);
			memcpy(want + at, src + skip, len);
			weft_mem_place(&mr, 77 + at, &c, len);
			CHECK_MEM(memory, want, 64);
			CHECK_EQ(c.left_bytes, 24 - skip - len);
			/* The cursor is right behind the placed octets. */
			if (c.left_bytes > 0) {
				CHECK_EQ(weft_cur_read(&c, &sink, 1), 0);
				CHECK_EQ(sink, src[skip + len]);
			}
		}
	}
}

static void
test_dirty(void)
{
	static uint8_t src[3 * 4096];
	static const struct {
		uint32_t off, to, n;
		uint8_t want; /**< one bit for each page */
	} rows[] = {
	        {0, 0, 1, 0x01},       {0, 4095, 1, 0x01},         {0, 4095, 2, 0x03},
	        {0, 4096, 4096, 0x02}, {0, 4096, 4097, 0x06},      {0, 4000, 8288, 0x07},
	        {4096, 0, 1, 0x02},    {100, 3996, 1, 0x02},       {100, 3995, 1, 0x01},
	        {100, 3995, 2, 0x03},  {0, 8 * 4096 - 1, 1, 0x80}, {0, 50, 0, 0x00},
	};

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		struct weft_mem_mr mr = region(rows[i].off, 5000);
		struct weft_frag f = {src, rows[i].n};
		struct weft_cur c;

		memset(dirty, 0, sizeof(dirty));
		weft_cur_init(&c, &f, 1);
		weft_mem_place(&mr, 5000 + rows[i].to, &c, rows[i].n);
		for (unsigned int p = 0; p < 8; p++)
			CHECK_MSG(dirty[p] == (rows[i].want >> p & 1), "row %u page %u", i, p);
	}
	/* A region without a medium has no marks. */
	struct weft_mem_mr plain = {.addr = memory, .len_bytes = 4096};
	struct weft_frag f = {src, 10};
	struct weft_cur c;

	memset(dirty, 0, sizeof(dirty));
	weft_cur_init(&c, &f, 1);
	weft_mem_place(&plain, 0, &c, 10);
	for (unsigned int p = 0; p < 8; p++)
		CHECK_EQ(dirty[p], 0);
}

static void
test_store8(void)
{
	static const uint8_t word[8] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};
	/* the address is aligned where the TO is not: TO 10 */
	struct weft_mem_mr mr = region(3, 5);

	memset(memory, 0xee, 32);
	memset(dirty, 0, sizeof(dirty));
	weft_mem_store8(&mr, 10, word);
	CHECK_MEM(memory + 8, word, 8);
	CHECK_EQ(memory[7], 0xee);
	CHECK_EQ(memory[16], 0xee);
	CHECK_EQ(dirty[0], 1);
	CHECK_EQ(dirty[1], 0);
	/* Across a page boundary, and not at a multiple of 8: all octets are stored, and both pages
	 * are marked. */
	memset(memory, 0xee, 2 * 4096);
	memset(dirty, 0, sizeof(dirty));
	weft_mem_store8(&mr, 5 + 4090 - 3, word);
	CHECK_MEM(memory + 4090, word, 8);
	CHECK_EQ(memory[4089], 0xee);
	CHECK_EQ(memory[4098], 0xee);
	CHECK(dirty[0] == 1 && dirty[1] == 1 && dirty[2] == 0);
}

/** weft_copy() at each length, and nothing beside it. */
static void
test_copy(void)
{
	uint8_t src[200], dst[200];

	for (unsigned int i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(i * 7 + 1);
	for (uint32_t n = 0; n <= 180; n++) {
		memset(dst, 0xee, sizeof(dst));
		weft_copy(dst + 3, src + n % 9, n);
		CHECK_MEM(dst + 3, src + n % 9, n);
		CHECK(dst[2] == 0xee && dst[3 + n] == 0xee);
	}
}

WEFT_TEST_MAIN({"check", test_check}, {"copy", test_copy}, {"fragments", test_fragments},
               {"dirty", test_dirty}, {"store8", test_store8})
