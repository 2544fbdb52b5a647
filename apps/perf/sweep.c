/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Runs the jobs of a plan, round after round, and shows how far it is. */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doc.h"
#include "sweep.h"
#include "ui.h"

/** How far the sweep is, on a terminal. */
struct sweep_line {
	bool on;
	uint64_t start_ns;
};

static void
sweep_show(const struct sweep_line *l, const struct sweep *s, unsigned int i,
           const struct plan_point *p, unsigned int round)
{
	const double spent = (double)(ui_now_ns() - l->start_ns) / 1e9;
	const double left = i > 0 ? spent / i * (s->plan.runs - i) : 0;
	char time[32] = "";

	if (!l->on)
		return;
	if (i > 0 && left < 100)
		snprintf(time, sizeof(time), ", %.0f s left", left);
	else if (i > 0)
		snprintf(time, sizeof(time), ", %.0f min left", left / 60);
	fprintf(stderr, "\r%u of %u%s: %s %s %u d %u, round %u\033[K", i + 1, s->plan.runs, time,
	        perf_test_names[p->job.test], p->job.latency ? "lat" : "bw", p->job.size_bytes,
	        p->job.depth, round);
	fflush(stderr);
}

static void
sweep_clear(const struct sweep_line *l)
{
	if (l->on)
		fputs("\r\033[K", stderr);
	fflush(stderr);
}

int
sweep_begin(struct sweep *s, char *why, size_t why_bytes)
{
	int rc = plan_load(s->plan_path, &s->plan, why, why_bytes);

	if (rc == 0)
		rc = sweep_dir_take(s->out, s->force, why, why_bytes);
	return rc;
}

/** Run one job and keep its result, or why there is none. 0, or -errno of the run. */
static int
sweep_step(struct sweep *s, unsigned int i, sweep_run run, const struct sweep_line *line)
{
	char why[256] = "";
	struct perf_result res = {0};
	unsigned int round;
	const struct plan_point *p = plan_run(&s->plan, i, &round);
	int rc, kept;

	sweep_show(line, s, i, p, round);
	rc = run(&p->job, &res, why, sizeof(why));
	if (rc == -EINTR) {
		perf_result_free(&res);
		return rc;
	}
	if (rc == 0) {
		s->done++;
		kept = sweep_doc_add(s->doc, &res, round);
		json_array_set_new(s->status, i, json_string("ok"));
	} else {
		ui_printable(why, why, sizeof(why));
		kept = sweep_doc_failed(s->doc, &p->job, round, why);
		json_array_set_new(s->status, i, json_string(why));
		sweep_clear(line);
		ui_msg("%s %s of %u octets, round %u: %s", perf_test_names[p->job.test],
		       p->job.latency ? "latency" : "bandwidth", p->job.size_bytes, round, why);
	}
	perf_result_free(&res);
	if (kept == 0)
		kept = sweep_dir_partial(s->out, s->doc);
	if (kept != 0) {
		sweep_clear(line);
		ui_msg("%s: the results so far cannot be kept: %s", s->out, strerror(-kept));
	}
	return rc;
}

/** Run the plan. NULL: all runs were tried; else why not. */
static const char *
sweep_loop(struct sweep *s, sweep_run run, const volatile sig_atomic_t *stop)
{
	struct sweep_line line = {.on = isatty(STDERR_FILENO) == 1, .start_ns = ui_now_ns()};
	const char *ended = NULL;
	unsigned int failed = 0;

	for (unsigned int i = 0; i < s->plan.runs && ended == NULL; i++) {
		int rc = *stop ? -EINTR : sweep_step(s, i, run, &line);

		failed = rc == 0 ? 0 : failed + 1;
		if (rc == -EINTR)
			ended = "interrupted";
		else if (failed == SWEEP_GIVE_UP && i + 1 < s->plan.runs)
			ended = "given up after failures in a row";
	}
	sweep_clear(&line);
	return ended;
}

int
sweep_go(struct sweep *s, sweep_run run, const volatile sig_atomic_t *stop)
{
	const uint64_t start_ns = ui_now_ns();
	char warned[48] = "";
	const char *ended;
	unsigned int n;
	json_t *about;
	int rc;

	s->doc = sweep_doc(s);
	s->status = json_array();
	for (unsigned int i = 0; i < s->plan.runs; i++)
		json_array_append_new(s->status, json_string("not run"));
	if (s->doc == NULL || json_array_size(s->status) != s->plan.runs) {
		ui_msg("out of memory");
		return 1;
	}
	ended = sweep_loop(s, run, stop);
	about = json_object_get(s->doc, "sweep");
	json_object_set_new(about, "seconds", json_real((double)(ui_now_ns() - start_ns) / 1e9));
	json_object_set_new(about, "done", json_integer(s->done));
	n = doc_warned(json_object_get(s->doc, "results"));
	json_object_set_new(about, "warned", json_integer(n));
	if (n > 0)
		snprintf(warned, sizeof(warned), ", %u with warnings", n);
	if (ended != NULL)
		json_object_set_new(about, "ended", json_string(ended));
	json_object_set_new(s->doc, "complete", json_boolean(s->done == s->plan.runs));
	rc = sweep_dir_finish(s->out, s);
	if (rc != 0) {
		ui_msg("%s: the results cannot be written: %s", s->out, strerror(-rc));
		return 1;
	}
	printf("%s/index.html, results.json, results.csv: %u of %u runs measured%s%s%s\n", s->out,
	       s->done, s->plan.runs, warned, ended != NULL ? ", " : "",
	       ended != NULL ? ended : "");
	return s->done == s->plan.runs ? 0 : 1;
}

void
sweep_end(struct sweep *s)
{
	json_decref(s->doc);
	json_decref(s->status);
	plan_free(&s->plan);
}
