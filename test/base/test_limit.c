/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A limit of events each second, for all callers together. */

#include <pthread.h>

#include "weft_base.h"
#include "weft_test.h"
#include <weft/limit.h>

#define MOST    10u
#define SECOND  1000ull
#define THREADS 2u
#define CALLS   50000u

/** Make n tries at `now`. Returns how many are allowed. *held is the sum of the held-back counts
 * that were reported. */
static unsigned int
tries(struct weft_limit *l, unsigned int n, uint64_t now, uint64_t *held)
{
	unsigned int ok = 0;

	*held = 0;
	for (unsigned int i = 0; i < n; i++) {
		uint32_t h = 0;

		if (weft_limit_ok(l, MOST, now, SECOND, &h)) {
			ok++;
			*held += h;
		}
	}
	return ok;
}

static void
test_so_many_a_second(void)
{
	struct weft_limit l = {0};
	uint64_t held;

	CHECK(tries(&l, 7, 5000, &held) == 7 && held == 0);
	CHECK(tries(&l, 100, 5999, &held) == 3 && held == 0);
	/* After exactly one second, and no earlier. */
	CHECK(tries(&l, 5, 6000, &held) == 0);
	CHECK(tries(&l, 4, 6001, &held) == 4 && held == 97 + 5);
	CHECK(tries(&l, 100, 7002, &held) == MOST && held == 0);
	CHECK(tries(&l, 1, 9000, &held) == 1 && held == 90);
}

static void
test_a_clock_that_is_behind(void)
{
	struct weft_limit l = {0};
	uint64_t held;

	CHECK(tries(&l, 100, 5000, &held) == MOST);
	/* The clock of another processor may be behind. It begins no new second. */
	CHECK(tries(&l, 100, 4990, &held) == 0);
	CHECK(tries(&l, 100, 5010, &held) == 0);
}

static uint64_t line_ns;

static uint64_t
line_clock(void)
{
	return line_ns;
}

static unsigned int
lines(struct weft_limit *l, unsigned int n, uint32_t *held)
{
	unsigned int ok = 0;

	*held = 0;
	for (unsigned int i = 0; i < n; i++)
		ok += weft_log_allowed(l, held);
	return ok;
}

static void
test_log_lines(void)
{
	struct weft_limit l = {0};
	uint32_t held;

	/* Without a clock, time stands still. */
	CHECK(lines(&l, 100, &held) == MOST);
	CHECK(lines(&l, 100, &held) == 0);
	weft_log_clock(line_clock);
	line_ns = 5 * WEFT_NS_PER_S;
	CHECK(lines(&l, 1, &held) == 1 && held == 190);
	CHECK(lines(&l, 100, &held) == MOST - 1);
	line_ns += WEFT_NS_PER_S;
	CHECK(lines(&l, 100, &held) == 0);
	line_ns++;
	CHECK(lines(&l, 1, &held) == 1 && held == 191);
	weft_log_clock(NULL);
}

static struct weft_limit shared;
static uint64_t told[THREADS];
static unsigned int allowed[THREADS];

static void *
call(void *arg)
{
	unsigned int i = (unsigned int)(uintptr_t)arg;

	for (unsigned int n = 0; n < CALLS; n++) {
		uint64_t held;

		allowed[i] += tries(&shared, 1, 5000 + n / 100, &held);
		told[i] += held;
	}
	return NULL;
}

static void
test_several_threads(void)
{
	unsigned int sum = 0, seconds = CALLS / 100 / SECOND + 1;
	uint64_t held, all = 0;
	pthread_t t[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&t[i], NULL, call, (void *)i) == 0);
	for (unsigned int i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		sum += allowed[i];
		all += told[i];
	}
	/* The threads' clocks differ, so each thread may begin a second. */
	CHECK(sum >= MOST && sum <= MOST * seconds * THREADS);
	/* Each try that was held back is reported exactly once. */
	CHECK(tries(&shared, 1, 1000000, &held) == 1);
	CHECK(sum + all + held == CALLS * THREADS);
}

WEFT_TEST_MAIN({"so_many_a_second", test_so_many_a_second},
               {"a_clock_that_is_behind", test_a_clock_that_is_behind},
               {"log_lines", test_log_lines}, {"several_threads", test_several_threads})
