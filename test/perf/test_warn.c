/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The warnings of weft-perf: what both sides count is compared, and nothing else is said. */

#include <stdio.h>
#include <string.h>

#include "perf.h"
#include "warn.h"
#include "weft_test.h"

static char said[4][256];
static unsigned int nsaid;

static void
note(void *arg, const char *text)
{
	(void)arg;
	if (nsaid < 4)
		snprintf(said[nsaid], sizeof(said[nsaid]), "%s", text);
	nsaid++;
}

/** How many warnings a result has. */
static unsigned int
warnings(const struct perf_result *r)
{
	nsaid = 0;
	warn_each(r, note, NULL);
	return nsaid;
}

/** A thousand messages on each of two QPs, all of which the server has counted. */
static struct perf_result
counted(enum perf_test test)
{
	const bool imm = test == PERF_WRITE_IMM;

	return (struct perf_result){.job = {.test = test, .size_bytes = 100, .qps = 2, .depth = 16},
	                            .iterations = 2000,
	                            .seconds = 1,
	                            .peer = {.ns = 1000000000,
	                                     .recv_msgs = imm ? 4004 : 2004,
	                                     .recv_bytes = imm ? 216016 : 200016}};
}

static void
test_counts(void)
{
	static const enum perf_test tests[] = {PERF_WRITE, PERF_SEND, PERF_WRITE_IMM};

	for (unsigned int i = 0; i < 3; i++) {
		struct perf_result r = counted(tests[i]);

		CHECK_EQ(warnings(&r), 0);
		r.peer.recv_bytes -= 17;
		CHECK_EQ(warnings(&r), 1);
		CHECK(strstr(said[0], i < 2 ? "received 199999 octets of the 200000 octets"
		                            : "received 215999 octets of the 216000 octets") !=
		      NULL);
		r.peer.recv_bytes += 17;
		r.peer.recv_msgs -= 5;
		CHECK_EQ(warnings(&r), 1);
		CHECK(strstr(said[0], i < 2 ? "received 1999 messages of the 2000 messages"
		                            : "received 3999 messages of the 4000 messages") !=
		      NULL);
		r.peer.recv_msgs += 105;
		r.peer.recv_bytes += 10000;
		CHECK_EQ(warnings(&r), 2);
		/* acknowledgements of what the server sends */
		r.job.both_ways = true;
		r.peer.sent_msgs = 5000;
		CHECK_EQ(warnings(&r), 0);
	}
}

/** Where the server does not report, or its sums are others, nothing is compared. */
static void
test_not_compared(void)
{
	struct perf_result r = counted(PERF_READ);

	r.peer.recv_bytes = 0;
	CHECK_EQ(warnings(&r), 0);
	r.job.test = PERF_WRITE;
	CHECK_EQ(warnings(&r), 1);
	r.job.verify = true;
	CHECK_EQ(warnings(&r), 0);
	r.job.verify = false;
	r.ended = true;
	CHECK_EQ(warnings(&r), 0);
	r.ended = false;
	r.peer.ns = 0;
	CHECK_EQ(warnings(&r), 0);
}

static void
test_others(void)
{
	struct perf_result r = counted(PERF_WRITE);

	r.retrans_segs = 3;
	r.self = (struct perf_self){.at_ns = 100, .waited_ns = 2};
	CHECK_EQ(warnings(&r), 2);
	CHECK(strstr(said[0], "waited 2.0 % of the time") != NULL);
	CHECK(strstr(said[1], "3 segment(s) sent again") != NULL);
	r = counted(PERF_WRITE);
	r.job.latency = true;
	CHECK_EQ(warnings(&r), 1);
	CHECK(strstr(said[0], "2 samples lie beyond the 99.9 % percentile") != NULL);
}

WEFT_TEST_MAIN({"counts of the two sides that disagree", test_counts},
               {"counts that are not compared", test_not_compared},
               {"CPU, segments sent again and few samples", test_others})
