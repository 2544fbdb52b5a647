/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What the threads of a loop have used: times of short runs, whose counts are read by
 * threads that lose their CPU meanwhile. */

#include "perf.h"
#include "weft_test.h"

#define MS 1000000ull

static void
test_whole(void)
{
	struct perf_self from = {
	        .begun_ns = 5 * MS, .at_ns = 5 * MS, .threads = 1, .cpu_ns = 7 * MS};
	struct perf_self to = {.begun_ns = 105 * MS,
	                       .at_ns = 105 * MS,
	                       .threads = 1,
	                       .cpu_ns = 67 * MS,
	                       .waited_ns = 40 * MS,
	                       .busy_ns = 30 * MS,
	                       .cycles = 1234};
	struct perf_self s = perf_self_between(&from, &to);

	CHECK_EQ(s.at_ns, 100 * MS);
	CHECK_EQ(s.cpu_ns, 60 * MS);
	CHECK_EQ(s.waited_ns, 40 * MS);
	CHECK_EQ(s.busy_ns, 30 * MS);
	CHECK_EQ(s.cycles, 1234);
}

/* The thread lost its CPU for 8 ms between the counts and the clock, in a run of 2 ms. */
static void
test_lost_in_the_reading(void)
{
	struct perf_self from = {.begun_ns = 100 * MS, .at_ns = 108 * MS, .threads = 1};
	struct perf_self to = {.begun_ns = 110 * MS,
	                       .at_ns = 110 * MS,
	                       .threads = 1,
	                       .cpu_ns = 2 * MS,
	                       .waited_ns = 8 * MS};
	struct perf_self s = perf_self_between(&from, &to);

	CHECK_EQ(s.at_ns, 2 * MS);
	CHECK(s.cpu_ns + s.waited_ns <= s.at_ns);
	CHECK(s.waited_ns > 3 * s.cpu_ns);
}

/* The time of the worker's thread is booked at its next tick. */
static void
test_booked_late(void)
{
	struct perf_self from = {.begun_ns = 100 * MS, .at_ns = 100 * MS, .threads = 2};
	struct perf_self to = {.begun_ns = 101 * MS,
	                       .at_ns = 101 * MS,
	                       .threads = 2,
	                       .cpu_ns = 5 * MS,
	                       .worker_waited_ns = 9 * MS,
	                       .busy_ns = 4 * MS};
	struct perf_self s = perf_self_between(&from, &to);

	CHECK_EQ(s.cpu_ns, 2 * MS);
	CHECK_EQ(s.waited_ns, MS);
	CHECK_EQ(s.busy_ns, MS);
}

/* A clock that stood still. */
static void
test_no_time(void)
{
	struct perf_self at = {.begun_ns = 100, .at_ns = 100, .threads = 1};
	struct perf_self s = perf_self_between(&at, &at);

	CHECK_EQ(s.at_ns, 0);
	CHECK_EQ(s.cpu_ns, 0);
}

WEFT_TEST_MAIN({"counts of a run", test_whole},
               {"a CPU lost while the counts are read", test_lost_in_the_reading},
               {"time that is booked late", test_booked_late}, {"no time", test_no_time})
