/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * FetchAdd and CmpSwap compared with the pseudocode of RFC 7306 s5.1, bit by bit. Dirty marks.
 * Several threads change one word.
 */

#include <pthread.h>

#include "weft_mem_place.h"
#include "test_xorshift.h"
#include "weft_test.h"

static uint8_t memory[8 * 4096] __attribute__((aligned(4096)));
static uint8_t dirty[8];
static struct weft_persist medium = {.base = memory, .bytes = sizeof(memory), .dirty = dirty};

#define ALL_ONES UINT64_MAX

/** A random word: sparse, dense, runs of bits, all bits, none, or a single bit. */
static uint64_t
any_word(uint64_t *x)
{
	uint64_t a = test_xorshift(x), b = test_xorshift(x);

	switch (a >> 60) {
	case 0:
		return 0;
	case 1:
		return ALL_ONES;
	case 2:
		return UINT64_C(1) << (b & 63);
	case 3:
		return ALL_ONES << (b & 63);
	case 4:
		return ALL_ONES >> (b & 63);
	case 5:
		return ~(UINT64_C(1) << (b & 63));
	case 6:
		return a & b & test_xorshift(x);
	case 7:
		return a | b | test_xorshift(x);
	case 8:
		return 0x8080808080808080;
	case 9:
		return 0x8000000080000000;
	default:
		return b;
	}
}

/** s5.1.1, one bit after the other. */
static uint64_t
model_add(uint64_t orig, uint64_t add, uint64_t mask)
{
	uint64_t out = 0;
	unsigned int carry = 0;

	for (unsigned int bit = 0; bit < 64; bit++) {
		unsigned int sum = carry + (orig >> bit & 1) + (add >> bit & 1);

		out |= (uint64_t)(sum & 1) << bit;
		carry = (mask >> bit & 1) != 0 ? 0 : sum >> 1;
	}
	return out;
}

/** s5.1.2, one bit after the other. */
static uint64_t
model_swap(uint64_t orig, uint64_t cmp, uint64_t cmp_mask, uint64_t swap, uint64_t swap_mask)
{
	uint64_t out = 0;

	for (unsigned int bit = 0; bit < 64; bit++)
		if ((cmp_mask >> bit & 1) != 0 && (cmp >> bit & 1) != (orig >> bit & 1))
			return orig;
	for (unsigned int bit = 0; bit < 64; bit++)
		out |= ((swap_mask >> bit & 1) != 0 ? swap >> bit & 1 : orig >> bit & 1) << bit;
	return out;
}

#define TO 0x1000 /* TO of the word, in a region whose base TO is not aligned */

static struct weft_mem_mr
region(void)
{
	/* the address is aligned: TO 0x1000 is at memory + 4096 */
	return (struct weft_mem_mr){.addr = memory + 3,
	                            .len_bytes = sizeof(memory) - 3,
	                            .base_to = TO - 4093,
	                            .persist = &medium,
	                            .persist_off_bytes = 3};
}

static uint64_t *
word(void)
{
	return (uint64_t *)(void *)(memory + 4096);
}

static void
check_marks(bool changed)
{
	for (unsigned int i = 0; i < 8; i++)
		CHECK_EQ(dirty[i], changed && i == 1);
	memset(dirty, 0, sizeof(dirty));
}

static void
check_add(uint64_t orig, uint64_t add, uint64_t mask, uint64_t want)
{
	struct weft_mem_mr mr = region();

	*word() = orig;
	CHECK_EQ(weft_mem_fetch_add(&mr, TO, add, mask), orig);
	CHECK_MSG(*word() == want,
	          "0x%" PRIx64 " + 0x%" PRIx64 ", mask 0x%" PRIx64 ": 0x%" PRIx64
	          ", not 0x%" PRIx64,
	          orig, add, mask, *word(), want);
	check_marks(want != orig);
}

static void
test_fetch_add(void)
{
	const uint64_t top = UINT64_C(1) << 63;
	uint64_t x = test_seed(77);

	memset(memory, 0xee, sizeof(memory));
	/* no mask: one addition of 64 bits, which wraps */
	check_add(40, 2, 0, 42);
	check_add(ALL_ONES, 1, 0, 0);
	check_add(5, ALL_ONES, 0, 4);
	check_add(ALL_ONES, 1, top, 0);
	check_add(5, 0, 0, 5);
	/* eight counters of eight bits: none carries into the next */
	check_add(0xff01ff01ff01ff01, 0x0101010101010101, 0x8080808080808080, 0x0002000200020002);
	check_add(0x00000000ffffffff, 1, 0x8000000080000000, 0);
	check_add(0x7fffffff7fffffff, 0x0000000100000001, 0x8000000080000000, 0x8000000080000000);
	/* every bit is a field of its own: exclusive or */
	check_add(0x0ff00ff012345678, 0x00ffff00deadbeef, ALL_ONES,
	          0x0ff00ff012345678 ^ 0x00ffff00deadbeef);
	/* a boundary at the lowest bit only */
	check_add(1, 1, 1, 0);
	check_add(3, 1, 1, 2);
	for (unsigned int i = 0; i < 300000; i++) {
		uint64_t orig = any_word(&x), add = any_word(&x), mask = any_word(&x);

		check_add(orig, add, mask, model_add(orig, add, mask));
	}
	CHECK_EQ(memory[4095], 0xee);
	CHECK_EQ(memory[4104], 0xee);
}

static void
check_swap(uint64_t orig, uint64_t cmp, uint64_t cmp_mask, uint64_t swap, uint64_t swap_mask,
           uint64_t want)
{
	struct weft_mem_mr mr = region();

	*word() = orig;
	CHECK_EQ(weft_mem_cmp_swap(&mr, TO, cmp, cmp_mask, swap, swap_mask), orig);
	CHECK_MSG(*word() == want,
	          "0x%" PRIx64 ": 0x%" PRIx64 " in 0x%" PRIx64 ", then 0x%" PRIx64 " in 0x%" PRIx64
	          ": 0x%" PRIx64 ", not 0x%" PRIx64,
	          orig, cmp, cmp_mask, swap, swap_mask, *word(), want);
	check_marks(want != orig);
}

static void
test_cmp_swap(void)
{
	uint64_t x = test_seed(78);

	memset(memory, 0xee, sizeof(memory));
	check_swap(5, 5, ALL_ONES, 9, ALL_ONES, 9);
	check_swap(5, 6, ALL_ONES, 9, ALL_ONES, 5);
	/* an empty compare mask: a masked swap with any value; an empty swap mask: only a
	 * comparison */
	check_swap(0x1234, 99, 0, 0xabcd, 0xff00, 0xab34);
	check_swap(0x1234, 0x34, 0xff, 0xabcd, 0, 0x1234);
	/* different only outside the mask */
	check_swap(0xff34, 0x0034, 0x00ff, 0xab00, 0xff00, 0xab34);
	for (unsigned int i = 0; i < 300000; i++) {
		uint64_t orig = any_word(&x), cmp = any_word(&x), cm = any_word(&x);
		uint64_t swap = any_word(&x), sm = any_word(&x);

		if (i % 2) /* half of them compare equal */
			cmp = (orig & cm) | (cmp & ~cm);
		check_swap(orig, cmp, cm, swap, sm, model_swap(orig, cmp, cm, swap, sm));
	}
	CHECK_EQ(memory[4095], 0xee);
	CHECK_EQ(memory[4104], 0xee);
}

/** A region without a medium has no marks. */
static void
test_plain_memory(void)
{
	struct weft_mem_mr mr = {.addr = memory, .len_bytes = sizeof(memory)};

	memset(memory, 0, 64);
	CHECK_EQ(weft_mem_fetch_add(&mr, 8, 7, 0), 0);
	CHECK_EQ(weft_mem_cmp_swap(&mr, 8, 7, ALL_ONES, 8, ALL_ONES), 7);
	check_marks(false);
}

/* ---- Threads ---- */

#define THREADS 3
#define ROUNDS  200000

enum how { PLAIN_ADD, MASKED_ADD, SWAP_LOOP, CPU_ADD };

static struct {
	pthread_t thread;
	enum how how;
} threads[THREADS];

static void *
thread_main(void *arg)
{
	struct weft_mem_mr mr = region();
	enum how how = *(enum how *)arg;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint64_t seen = 0, was;

		switch (how) {
		case PLAIN_ADD:
			weft_mem_fetch_add(&mr, TO, 1, 0);
			break;
		case MASKED_ADD: /* a field of the upper 32 bits that wraps at times */
			weft_mem_fetch_add(&mr, TO, UINT64_C(0xfffff) << 32, 0x8000000080000000);
			break;
		case SWAP_LOOP:
			while ((was = weft_mem_cmp_swap(&mr, TO, seen, ALL_ONES, seen + 1,
			                                ALL_ONES)) != seen)
				seen = was;
			break;
		case CPU_ADD:
			__atomic_fetch_add(word(), 1, __ATOMIC_RELAXED);
			break;
		}
	}
	return NULL;
}

/** Two threads with Atomics and a CPU that adds, in every mixture: no addition is lost. */
static void
test_threads(void)
{
	static const enum how mix[][THREADS] = {
	        {PLAIN_ADD, PLAIN_ADD, CPU_ADD},
	        {PLAIN_ADD, MASKED_ADD, CPU_ADD},
	        {SWAP_LOOP, MASKED_ADD, CPU_ADD},
	        {SWAP_LOOP, SWAP_LOOP, MASKED_ADD},
	};

	for (unsigned int m = 0; m < RTE_DIM(mix); m++) {
		uint64_t low = 0, high = 0;

		*word() = 0;
		for (unsigned int i = 0; i < THREADS; i++) {
			threads[i].how = mix[m][i];
			low += mix[m][i] == MASKED_ADD ? 0 : ROUNDS;
			high += mix[m][i] == MASKED_ADD ? (uint64_t)ROUNDS * 0xfffff : 0;
			CHECK_EQ(pthread_create(&threads[i].thread, NULL, thread_main,
			                        &threads[i].how),
			         0);
		}
		for (unsigned int i = 0; i < THREADS; i++)
			pthread_join(threads[i].thread, NULL);
		CHECK_EQ((uint32_t)*word(), (uint32_t)low);
		CHECK_EQ((uint32_t)(*word() >> 32), (uint32_t)high);
	}
}

WEFT_TEST_MAIN({"fetch_add", test_fetch_add}, {"cmp_swap", test_cmp_swap},
               {"plain_memory", test_plain_memory}, {"threads", test_threads})
