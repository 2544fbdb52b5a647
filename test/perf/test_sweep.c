/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The sweep over a double of the measuring core: order of runs, failures, interruption, and
 * the folder of results. */

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sweep.h"
#include "weft_test.h"

static char top[] = "/tmp/weft-sweep.XXXXXX";
static unsigned int ran;                /**< runs so far */
static unsigned int fail_from, fail_to; /**< runs that fail, counted from 0 */
static unsigned int warn_to;            /**< runs from the first one on that have a warning */
static unsigned int stop_after = 1000;
static volatile sig_atomic_t stop;
static struct perf_job jobs[64];

static int
fake_run(const struct perf_job *job, struct perf_result *out, char *why, size_t why_bytes)
{
	const unsigned int i = ran++;

	jobs[i % 64] = *job;
	if (ran >= stop_after)
		stop = 1;
	if (i >= fail_from && i < fail_to) {
		snprintf(why, why_bytes, "no \"server\" <here>\x1b");
		return -ECONNREFUSED;
	}
	*out = (struct perf_result){.job = *job,
	                            .iterations = 10,
	                            .seconds = 0.5,
	                            .avg_mbps = 100 + i,
	                            .lat_typical_us = 5 + i,
	                            .retrans_segs = i < warn_to ? 3 : 0,
	                            .cycles_per_msg = 300};
	return 0;
}

static const char *
in(const char *name)
{
	static char path[4][256];
	static unsigned int k;

	k = (k + 1) % 4;
	snprintf(path[k], sizeof(path[k]), "%s/%s", top, name);
	return path[k];
}

static void
remove_all(void)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", top);
	if (system(cmd) != 0)
		abort();
}

static void
put(const char *name, const char *text)
{
	FILE *f = fopen(in(name), "w");

	CHECK(f != NULL);
	fputs(text, f);
	CHECK_EQ(fclose(f), 0);
}

/** Sweep two sizes for three rounds; returns the exit status. */
static int
sweep(bool force, char *why, size_t why_bytes)
{
	struct sweep s = {.plan_path = in("p.ini"), .host = "10.0.0.1", .force = force};
	char out[256];
	int rc;

	snprintf(out, sizeof(out), "%s", in("out"));
	s.out = out;
	ran = 0;
	stop = 0;
	put("p.ini", "[sweep]\ntests = write\nsizes = 64, 128\nrounds = 3\n");
	rc = sweep_begin(&s, why, why_bytes);
	if (rc == 0)
		rc = sweep_go(&s, fake_run, &stop);
	sweep_end(&s);
	return rc;
}

static void
begin(void)
{
	static bool made;

	if (!made) {
		CHECK(mkdtemp(top) != NULL);
		atexit(remove_all);
	}
	made = true;
	fail_from = fail_to = warn_to = 0;
	stop_after = 1000;
	CHECK_EQ(system("true"), 0);
	for (unsigned int i = 0; i < 4; i++) {
		static const char *const names[] = {"out/results.json", "out/results.csv",
		                                    "out/index.html", "out/results.partial.json"};

		unlink(in(names[i]));
	}
	rmdir(in("out"));
}

static json_t *
results(void)
{
	json_t *doc = json_load_file(in("out/results.json"), 0, NULL);

	CHECK(doc != NULL);
	return doc;
}

static bool
holds(const char *name, const char *text)
{
	static char all[65536];
	FILE *f = fopen(in(name), "r");
	size_t n;

	CHECK(f != NULL);
	n = fread(all, 1, sizeof(all) - 1, f);
	all[n] = '\0';
	fclose(f);
	return strstr(all, text) != NULL;
}

static long long
number(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

static void
test_whole(void)
{
	char why[512];
	json_t *doc, *list;

	begin();
	CHECK_EQ(sweep(false, why, sizeof(why)), 0);
	CHECK_EQ(ran, 6);
	doc = results();
	list = json_object_get(doc, "results");
	CHECK(json_is_true(json_object_get(doc, "complete")));
	CHECK_EQ(json_array_size(list), 6);
	for (unsigned int i = 0; i < 6; i++) {
		const json_t *r = json_array_get(list, i);

		CHECK_EQ(number(r, "round"), i / 2 + 1);
		CHECK_EQ(number(r, "bytes"), i % 2 == 0 ? 64 : 128);
		CHECK_EQ(json_number_value(json_object_get(r, "average_mb_s")), 100 + i);
		CHECK_EQ(jobs[i].size_bytes, i % 2 == 0 ? 64 : 128);
	}
	CHECK_EQ(number(json_object_get(doc, "sweep"), "runs"), 6);
	CHECK(json_object_get(json_object_get(doc, "machine"), "kernel") != NULL);
	json_decref(doc);
	CHECK(holds("out/results.csv", "status,test,mode,bytes,depth,qps,round,"));
	CHECK(holds("out/results.csv", "\r\n\"ok\",\"write\",\"bandwidth\",128,128,1,3,"));
	CHECK(holds("out/index.html", "<svg"));
	CHECK(!holds("out/index.html", "Incomplete"));
	CHECK(access(in("out/results.partial.json"), F_OK) != 0);
	CHECK(access(in("out/results.json.tmp"), F_OK) != 0);
}

static void
test_warned(void)
{
	char why[512];
	json_t *doc;

	begin();
	CHECK_EQ(sweep(false, why, sizeof(why)), 0);
	CHECK(!holds("out/index.html", "warnings"));
	begin();
	warn_to = 2;
	CHECK_EQ(sweep(false, why, sizeof(why)), 0);
	doc = results();
	CHECK_EQ(number(json_object_get(doc, "sweep"), "warned"), 2);
	json_decref(doc);
	CHECK(holds("out/index.html", "2 of 6 results have warnings."));
	CHECK(holds("out/index.html", "3 segment(s) sent again"));
}

static void
test_one_fails(void)
{
	char why[512];
	json_t *doc, *f;

	begin();
	fail_from = 2;
	fail_to = 3;
	CHECK_EQ(sweep(false, why, sizeof(why)), 1);
	CHECK_EQ(ran, 6);
	doc = results();
	CHECK(json_is_false(json_object_get(doc, "complete")));
	CHECK_EQ(json_array_size(json_object_get(doc, "results")), 5);
	f = json_array_get(json_object_get(doc, "failed"), 0);
	CHECK_EQ(number(f, "bytes"), 64);
	CHECK_EQ(number(f, "round"), 2);
	CHECK_STR(json_string_value(json_object_get(f, "why")), "no \"server\" <here>?");
	json_decref(doc);
	CHECK(holds("out/results.csv",
	            "\r\n\"no \"\"server\"\" <here>?\",\"write\",\"bandwidth\",64,128,1,2,"));
	CHECK(holds("out/index.html", "Incomplete: 5 of 6 runs were measured"));
	CHECK(holds("out/index.html", "no &quot;server&quot; &lt;here&gt;?"));
}

static void
test_all_fail(void)
{
	char why[512];
	json_t *doc;

	begin();
	fail_from = 1;
	fail_to = 100;
	CHECK_EQ(sweep(false, why, sizeof(why)), 1);
	CHECK_EQ(ran, 1 + SWEEP_GIVE_UP);
	doc = results();
	CHECK_STR(json_string_value(json_object_get(json_object_get(doc, "sweep"), "ended")),
	          "given up after failures in a row");
	json_decref(doc);
	CHECK(holds("out/results.csv", "\"not run\",\"write\",\"bandwidth\",128,128,1,3"));
}

static void
test_interrupted(void)
{
	char why[512];
	json_t *doc;

	begin();
	stop_after = 2;
	CHECK_EQ(sweep(false, why, sizeof(why)), 1);
	CHECK_EQ(ran, 2);
	doc = results();
	CHECK(json_is_false(json_object_get(doc, "complete")));
	CHECK_EQ(json_array_size(json_object_get(doc, "results")), 2);
	json_decref(doc);
	CHECK(holds("out/index.html", "Incomplete: 2 of 6 runs were measured; interrupted."));
}

static void
test_force(void)
{
	char why[512];
	json_t *doc;

	begin();
	CHECK_EQ(sweep(false, why, sizeof(why)), 0);
	ran = 0;
	CHECK_EQ(sweep(false, why, sizeof(why)), -EEXIST);
	CHECK_EQ(ran, 0);
	CHECK(strstr(why, "--force") != NULL);
	stop_after = 3;
	CHECK_EQ(sweep(true, why, sizeof(why)), 1);
	doc = results();
	CHECK_EQ(json_array_size(json_object_get(doc, "results")), 3);
	json_decref(doc);
}

/** Results of a sweep that was killed are results; the empty file of one that did not begin is
 * none. */
static void
test_killed(void)
{
	char why[512];

	begin();
	CHECK_EQ(mkdir(in("out"), 0777), 0);
	put("out/results.partial.json", "{}");
	CHECK_EQ(sweep(false, why, sizeof(why)), -EEXIST);
	put("out/results.partial.json", "");
	CHECK_EQ(sweep(false, why, sizeof(why)), 0);
}

static void
test_no_folder(void)
{
	char why[512];

	begin();
	put("out", "a file");
	CHECK_EQ(sweep(false, why, sizeof(why)), -ENOTDIR);
	CHECK(strchr(why, '\n') == NULL);
	unlink(in("out"));
}

WEFT_TEST_MAIN({"all is measured", test_whole}, {"results with warnings are counted", test_warned},
               {"one run fails", test_one_fails}, {"failures in a row end it", test_all_fail},
               {"what is interrupted is kept and marked", test_interrupted},
               {"results are not overwritten unasked", test_force},
               {"results of a killed sweep", test_killed}, {"no folder", test_no_folder})
