/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Plans of a sweep: the jobs that they expand to, their order, and every wrong plan. */

#include <errno.h>

#include "plan.h"
#include "weft_test.h"

static struct plan plan;

static void
load(const char *text)
{
	char why[512] = "";
	int rc = plan_load_string("p.ini", text, &plan, why, sizeof(why));

	CHECK_MSG(rc == 0, "%s", why);
}

static void
refuse(const char *text, const char *line)
{
	char why[512] = "";

	CHECK_EQ(plan_load_string("p.ini", text, &plan, why, sizeof(why)), -EINVAL);
	CHECK_MSG(strncmp(why, line, strlen(line)) == 0, "\"%s\" and not \"%s\"", why, line);
	CHECK(strchr(why, '\n') == NULL);
	CHECK_EQ(plan.n, 0);
}

static void
is_job(unsigned int i, enum perf_test test, bool latency, uint32_t size, uint32_t depth)
{
	const struct perf_job *j = &plan.at[i].job;

	CHECK(i < plan.n);
	CHECK_EQ(j->test, test);
	CHECK_EQ(j->latency, latency);
	CHECK_EQ(j->size_bytes, size);
	CHECK_EQ(j->depth, depth);
}

static void
test_product(void)
{
	load("[sweep]\ntests = write, read\nsizes = 64,4K\ndepths = 1, 16\nrounds = 3\n");
	CHECK_EQ(plan.n, 8);
	CHECK_EQ(plan.rounds, 3);
	CHECK_EQ(plan.runs, 24);
	is_job(0, PERF_WRITE, false, 64, 1);
	is_job(1, PERF_WRITE, false, 4096, 1);
	is_job(2, PERF_WRITE, false, 64, 16);
	is_job(7, PERF_READ, false, 4096, 16);
	plan_free(&plan);
}

static void
test_defaults(void)
{
	load("; a comment\n[sweep]\ntests = write\n");
	CHECK_EQ(plan.n, 4);
	CHECK_EQ(plan.runs, 20);
	is_job(0, PERF_WRITE, false, 64, 128);
	is_job(3, PERF_WRITE, false, 1 << 20, 128);
	CHECK_EQ(plan.at[0].job.iterations + plan.at[0].job.duration_s, 0);
	CHECK_EQ(plan.at[0].job.rpc_version, 2);
	plan_free(&plan);
	load("[sweep]\ntests = rpc-read\nsizes = 1K");
	is_job(0, PERF_RPC_READ, false, 1024, 32);
	plan_free(&plan);
}

/** A latency test has depth 1, and a test of a word eight octets: no point comes twice. */
static void
test_same_points(void)
{
	load("[sweep]\ntests=write\nmodes=latency,bandwidth\nsizes=2..1M\ndepths=1,2,4\n");
	CHECK_EQ(plan.n, 20 + 60);
	is_job(19, PERF_WRITE, true, 1 << 20, 1);
	plan_free(&plan);
	load("[sweep]\ntests = fetch-add, rpc-null\nsizes = 64, 128\ndepths = 8\n");
	CHECK_EQ(plan.n, 2);
	is_job(0, PERF_FETCH_ADD, false, 8, 8);
	is_job(1, PERF_RPC_NULL, false, 1, 8);
	plan_free(&plan);
}

/** Several QPs are for bandwidth of plain operations; the others are not repeated for them. */
static void
test_qps(void)
{
	load("[sweep]\ntests = write, flush\nmodes = bandwidth, latency\nsizes = 64\nqps = 1, 4\n");
	CHECK_EQ(plan.n, 5);
	CHECK_EQ(plan.at[0].job.qps, 1);
	CHECK_EQ(plan.at[1].job.qps, 4);
	is_job(2, PERF_WRITE, true, 64, 1);
	is_job(3, PERF_FLUSH, false, 64, 128);
	for (unsigned int i = 2; i < 5; i++)
		CHECK_EQ(plan.at[i].job.qps, 1);
	CHECK_EQ(plan.at[1].job.rx_depth, PERF_RX_DEPTH);
	plan_free(&plan);
}

/** Lists, rates, both directions, events, workers: those of each point, where its test has them. */
static void
test_shapes(void)
{
	load("[sweep]\ntests = write, rpc-null\nmodes = bandwidth, latency\nsizes = 64\n"
	     "post_lists = 0, 8\nbidirectional = no, yes\nevents = no, yes\n");
	CHECK_EQ(plan.n, 8 + 1 + 1 + 1);
	for (unsigned int i = 0; i < 8; i++) {
		const struct perf_job *j = &plan.at[i].job;

		CHECK_EQ(j->post_list, i % 2 * 8);
		CHECK_EQ(j->both_ways, i / 2 % 2);
		CHECK_EQ(j->events, i / 4);
	}
	for (unsigned int i = 8; i < plan.n; i++)
		CHECK(!plan.at[i].job.events && !plan.at[i].job.both_ways);
	plan_free(&plan);
	load("[sweep]\ntests = read\nmodes = bandwidth, latency\nsizes = 64\nrates = 0, 5000\n"
	     "workers = 1, 3\nqps = 1, 6\nevents = yes\n");
	CHECK_EQ(plan.workers, 3);
	CHECK_EQ(plan.n, 8 + 1);
	CHECK_EQ((uint64_t)plan.at[2].job.rate, 5000);
	CHECK_EQ(plan.at[3].job.qps, 6);
	CHECK_EQ(plan.at[4].job.workers, 3);
	CHECK_EQ(plan.at[4].job.qps, 3); /* one for each worker at least */
	CHECK(plan.at[8].job.latency && plan.at[8].job.events);
	CHECK_EQ(plan.at[8].job.workers, 1);
	plan_free(&plan);
}

static void
test_range(void)
{
	load("[sweep]\ntests = send\nsizes = 100..1K, 3M\n");
	CHECK_EQ(plan.n, 5);
	is_job(3, PERF_SEND, false, 800, 128);
	is_job(4, PERF_SEND, false, 3 << 20, 128);
	plan_free(&plan);
}

static void
test_time(void)
{
	load("[sweep]\ntests=write\nmodes=bandwidth,latency\nsizes=64\nduration=2\niterations="
	     "500\n");
	CHECK_EQ(plan.at[0].job.duration_s, 2);
	CHECK_EQ(plan.at[0].job.iterations, 0);
	CHECK_EQ(plan.at[1].job.duration_s, 0);
	CHECK_EQ(plan.at[1].job.iterations, 500);
	plan_free(&plan);
}

/** Several sections, with rounds of their own, interleaved. */
static void
test_order(void)
{
	static const unsigned int want[][2] = {{0, 1}, {1, 1}, {2, 1}, {0, 2},
	                                       {1, 2}, {2, 2}, {2, 3}};
	unsigned int round;

	load("[sweep small]\ntests = write\nsizes = 64, 128\nrounds = 2\n"
	     "[sweep large]\n  tests = read\nsizes = 1M\nrounds = 3\n");
	CHECK_EQ(plan.runs, 7);
	for (unsigned int i = 0; i < 7; i++) {
		const struct plan_point *p = plan_run(&plan, i, &round);

		CHECK_EQ(p - plan.at, want[i][0]);
		CHECK_EQ(round, want[i][1]);
	}
	plan_free(&plan);
}

static void
test_wrong(void)
{
	char line[512], all[2048] = "[sweep]\ntests=write\nsizes=";

	refuse("", "p.ini:0: there is no [sweep]");
	refuse("[sweep]\n", "p.ini:1: there is no [sweep] section with tests");
	refuse("tests = write\n", "p.ini:1: tests: no [sweep] line");
	refuse("[other]\ntests = write\n", "p.ini:2: [other]: the sections are");
	refuse("[sweep]\nsizes = 64\n", "p.ini:2: [sweep]: which tests?");
	refuse("[sweep]\ntests = writ\n", "p.ini:2: tests: 'writ' is no test");
	refuse("[sweep]\ntests = write,,read\n", "p.ini:2: tests: an empty value");
	refuse("[sweep]\ntests =\n", "p.ini:2: tests: an empty value");
	refuse("[sweep]\ntests = write\nmodes = fast\n", "p.ini:3: modes: 'fast' is neither");
	refuse("[sweep]\ntests = write\nsizes = 0\n", "p.ini:3: sizes: '0' is neither");
	refuse("[sweep]\ntests = write\nsizes = 1G\n", "p.ini:3: sizes: '1G' is neither");
	refuse("[sweep]\ntests = write\nsizes = 4K..64\n", "p.ini:3: sizes: '4K..64' is neither");
	refuse("[sweep]\ntests = write\nsizes = 4K..\n", "p.ini:3: sizes: '4K..' is neither");
	refuse("[sweep]\ntests = write\ndepths = 5000\n",
	       "p.ini:3: depths: '5000' is not a number");
	refuse("[sweep]\ntests = write\nrounds = 1, 2\n", "p.ini:3: rounds: one number");
	refuse("[sweep]\ntests = write\nrounds = 0\n", "p.ini:3: rounds: '0' is not a number");
	refuse("[sweep]\ntests = write\ntests = read\n", "p.ini:3: tests: twice");
	refuse("[sweep]\nnonsense = 5\n", "p.ini:2: unknown key 'nonsense'");
	refuse("[sweep]\ntests = write\nnonsense\n", "p.ini:3: is neither");
	refuse("[sweep\ntests = write\n", "p.ini:2: tests: no [sweep] line");
	refuse("[sweep]\ntests = write\nqps = 257\n", "p.ini:3: qps: '257' is not a number");
	refuse("[sweep]\ntests = write\nworkers = 9\n",
	       "p.ini:3: workers: '9' is not a number from 1 to 8");
	refuse("[sweep]\ntests = write\nevents = maybe\n",
	       "p.ini:3: events: 'maybe' is neither no nor yes");
	refuse("[sweep]\ntests = write\npost_lists = 65\n",
	       "p.ini:3: post_lists: '65' is not a number from 0 to 64");
	refuse("[sweep]\ntests = write\ndepths = 8\npost_lists = 16\n",
	       "p.ini:2: [sweep]: --post_list 16 does not fit --tx-depth 8");
	refuse("[sweep]\ntests = write\nrates = 5\npost_lists = 2\n",
	       "p.ini:2: [sweep]: a rate posts each message at its time");
	refuse("[sweep]\ntests = write\nrates = 5\nbidirectional = yes\n",
	       "p.ini:2: [sweep]: --rate_limit is for one direction");
	refuse("[sweep]\ntests = two-sided\n", "p.ini:2: [sweep]: two-sided measures latency");
	refuse("[sweep]\ntests = rpc-read\nsizes = 2M\n",
	       "p.ini:2: [sweep]: rpc-read at depth 32 takes");
	refuse("[sweep]\ntests = rpc-read\nsizes = 64\ndepths = 65\n",
	       "p.ini:2: [sweep]: rpc-read: the depth");
	refuse("[sweep]\ntests = commit\nsizes = 16M\n",
	       "p.ini:2: [sweep]: commit at depth 128 takes");
	for (unsigned int i = 0; i < 12; i++) { /* 65 sizes in lines that are short enough */
		snprintf(line, sizeof(line), "%s1,2,4,8,16", i > 0 ? "," : "");
		strcat(all, line);
	}
	strcat(all, ",1,2,4,8,16\n");
	refuse(all, "p.ini:3: sizes: more than 64 values");
	memset(line, 'x', 300);
	line[300] = '\0';
	snprintf(all, sizeof(all), "[sweep]\ntests = %s\n", line);
	refuse(all, "p.ini:2: longer than");
}

static void
test_file(void)
{
	char why[512] = "";

	CHECK_EQ(plan_load("/nonexistent/p.ini", &plan, why, sizeof(why)), -ENOENT);
	CHECK_STR(why, "/nonexistent/p.ini: cannot be read: No such file or directory");
	CHECK_EQ(plan_load("/", &plan, why, sizeof(why)), -EISDIR);
}

WEFT_TEST_MAIN({"a product of lists", test_product}, {"defaults", test_defaults},
               {"no point comes twice", test_same_points}, {"several QPs", test_qps},
               {"lists, rates, both directions, events, workers", test_shapes},
               {"ranges of sizes", test_range}, {"duration and iterations", test_time},
               {"rounds are interleaved", test_order}, {"every wrong plan", test_wrong},
               {"files that cannot be read", test_file})
