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

/** Let the client's RDMAP have sent what the server's has received, and the other way round. */
static void
agree(struct perf_result *r)
{
	r->moved = (struct perf_moved){r->peer.recv_msgs, r->peer.recv_bytes,
	                               r->peer.out_msgs + r->job.qps,
	                               r->peer.out_bytes + r->job.qps * sizeof(r->peer)};
}

/** A thousand messages on each of two QPs, all of which the server has counted. */
static struct perf_result
counted(enum perf_test test)
{
	const bool imm = test == PERF_WRITE_IMM;

	struct perf_result r = {.job = {.test = test, .size_bytes = 100, .qps = 2, .depth = 16},
	                        .iterations = 2000,
	                        .seconds = 1,
	                        .peer = {.ns = 1000000000,
	                                 .recv_msgs = imm ? 4004 : 2004,
	                                 .recv_bytes = imm ? 216016 : 200016,
	                                 .out_msgs = 12,
	                                 .out_bytes = 96}};

	agree(&r);
	return r;
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
		agree(&r);
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
	agree(&r);
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

/** What RDMAP counts at both ends is compared for each test, in both directions; a few messages may
 * be under way. */
static void
test_moved(void)
{
	static const enum perf_test tests[] = {PERF_READ, PERF_FETCH_ADD, PERF_COMMIT, PERF_FLUSH};
	struct perf_result r;

	for (unsigned int i = 0; i < 4; i++) {
		r = counted(tests[i]);
		CHECK_EQ(warnings(&r), 0);
		r.moved.out_msgs -= 16;
		r.moved.out_bytes -= 128;
		r.moved.in_msgs += 16;
		r.moved.in_bytes += 128;
		CHECK_EQ(warnings(&r), 0);
		r.moved.out_bytes--;
		CHECK_EQ(warnings(&r), 1);
		CHECK(strstr(said[0], "the client has sent 199887 octets and the other side "
		                      "received 200016 (RDMAP)") != NULL);
		r.moved.out_bytes++;
		r.moved.in_msgs++;
		CHECK_EQ(warnings(&r), 1);
		CHECK(strstr(said[0],
		             "the server has sent 14 messages and the other side received 31") !=
		      NULL);
		r.ended = true;
		CHECK_EQ(warnings(&r), 0);
	}
}

/** A link that is not full, where neither side's CPU is the reason. */
static void
test_link(void)
{
	const struct perf_result slow = {
	        .job = {.test = PERF_WRITE, .size_bytes = 100, .qps = 1},
	        .iterations = 1000,
	        .link_mbps = 10000,
	        .used_mbps = 2500,
	        .self = {.at_ns = 1000, .busy_ns = 200},
	        .peer = {.ns = 1000, .recv_msgs = 1001, .recv_bytes = 100008, .busy_ns = 100}};
	struct perf_result r = slow;

	agree(&r);
	CHECK_EQ(warnings(&r), 1);
	CHECK(strstr(said[0], "the link is not full: 2.50 of 10 Gbit/s") != NULL);
	CHECK(strstr(said[0], "had work for 20 % and 10 % of the time") != NULL);
#define QUIET(change)                                                                              \
	do {                                                                                       \
		r = slow;                                                                          \
		change;                                                                            \
		agree(&r);                                                                         \
		CHECK_EQ(warnings(&r), 0);                                                         \
	} while (0)
	QUIET(r.used_mbps = 9001);
	QUIET(r.link_mbps = 0);
	QUIET(r.used_mbps = 0);
	QUIET(r.self.busy_ns = 400);
	QUIET(r.peer.busy_ns = 400);
	QUIET(r.job.events = true);
	QUIET(r.job.verify = true);
	QUIET(r.peer.ns = 0);
	QUIET((r.job.rate = 1, r.paced_s = 999));
#undef QUIET
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
	r.iterations = 1000;
	warnings(&r);
	CHECK(strstr(said[0], "1 sample lies beyond the 99.9 % percentile") != NULL);
}

WEFT_TEST_MAIN({"counts of the two sides that disagree", test_counts},
               {"counts that are not compared", test_not_compared},
               {"what RDMAP counts at both ends", test_moved},
               {"a link that is not full", test_link},
               {"CPU, segments sent again and few samples", test_others})
