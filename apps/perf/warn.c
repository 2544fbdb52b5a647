/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Finds what makes a result doubtful (warn.h). */

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "figures.h"
#include "table.h"
#include "ui.h"
#include "warn.h"

struct warn {
	void (*say)(void *arg, const char *text);
	void *arg;
};

static void __attribute__((format(printf, 2, 3)))
warn_say(const struct warn *w, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	w->say(w->arg, text);
}

/* ---- What the two sides have counted ---- */

/**
 * Messages that the server may have received beside those that this side counts: on each QP those
 * that end the measured part and see it placed; with both_ways acknowledgements of the server's
 * own; and of a latency test that was interrupted those under way.
 */
static uint64_t
warn_beside(const struct perf_result *r)
{
	return 4ull * r->job.qps + (r->job.both_ways ? r->peer.sent_msgs : 0) +
	       (r->job.latency ? 2ull * r->job.depth * r->job.qps : 0);
}

/** Compare what this side has sent with what the server has received. Octets have other sums where
 * a schedule mixes sizes, or where what was sent is read back. */
static void
warn_counts(const struct warn *w, const struct perf_result *r)
{
	const struct perf_job *j = &r->job;
	/* a Write with immediate data is a Write and a message of eight octets (RFC 7306 s6) */
	const bool imm = j->test == PERF_WRITE_IMM;
	const uint64_t msgs = r->iterations * (imm ? 2 : 1);
	const uint64_t bytes = r->iterations * (j->size_bytes + (imm ? 8ull : 0));
	const uint64_t beside = warn_beside(r);
	const uint64_t beside_bytes =
	        beside * (j->latency && j->size_bytes > 16 ? j->size_bytes : 16);

	if (r->peer.ns == 0 || r->ended || j->mix != NULL || j->verify ||
	    (j->test != PERF_WRITE && !perf_takes_receive(j->test)))
		return;
	if (r->peer.recv_bytes < bytes || r->peer.recv_bytes > bytes + beside_bytes)
		warn_say(w,
		         "the server received %" PRIu64 " octets of the %" PRIu64
		         " octets that were sent; up to %" PRIu64
		         " more would be explained: the two sides disagree",
		         r->peer.recv_bytes, bytes, beside_bytes);
	if (r->peer.recv_msgs < msgs || r->peer.recv_msgs > msgs + beside)
		warn_say(w,
		         "the server received %" PRIu64 " messages of the %" PRIu64
		         " messages that were sent; up to %" PRIu64
		         " more would be explained: the two sides disagree",
		         r->peer.recv_msgs, msgs, beside);
}

/* ---- All of it ---- */

void
warn_each(const struct perf_result *r, void (*say)(void *arg, const char *text), void *arg)
{
	const struct warn w = {say, arg};
	const double here = perf_percent(r->self.waited_ns, r->self.at_ns);
	const double there = perf_percent(r->peer.waited_ns, r->peer.ns);
	const double beyond = perf_samples_beyond(r, 99.9);

	if (here >= 1 || there >= 1)
		warn_say(&w,
		         "not to be trusted: this side waited %.1f %% of the time for its CPU, the "
		         "server %.1f %%; give each a CPU of its own",
		         here, there);
	if (r->retrans_segs > 0)
		warn_say(&w,
		         "%" PRIu64 " segment(s) sent again: the path loses frames or an end is "
		         "too slow",
		         r->retrans_segs);
	if (r->job.latency && beyond < PERF_PCT_SAMPLES - 0.5)
		warn_say(&w,
		         "%.0f samples lie beyond the 99.9 %% percentile; with --iters %u it is "
		         "more than chance",
		         beyond, 1000 * PERF_PCT_SAMPLES);
	if (r->job.rate > 0 && fabs(perf_rate_error(r)) > 1)
		warn_say(&w, "the rate is off by %.1f %%: %s", perf_rate_error(r),
		         perf_rate_error(r) < 0 ? "the two sides do not reach it"
		                                : "the run is too short");
	warn_counts(&w, r);
}

/** Whether the clock of the CPUs may change, by their governor. */
static bool
warn_frequency_moves(void)
{
	char governor[32] = "";
	FILE *f = fopen("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "re");

	if (f == NULL)
		return false;
	if (fgets(governor, sizeof(governor), f) == NULL)
		governor[0] = '\0';
	fclose(f);
	return governor[0] != '\0' && strncmp(governor, "performance", 11) != 0;
}

static void
warn_line(void *arg, const char *text)
{
	const struct perf_result *r = arg;

	table_say("%s of %u octets: %s", perf_job_name(&r->job), r->job.size_bytes, text);
}

void
warn_print(const struct perf_result *r)
{
	static bool said;

	if (r->interrupted && r->job.duration_s != PERF_FOREVER_S)
		table_say("%s of %u octets: interrupted after %" PRIu64 " iterations",
		          perf_job_name(&r->job), r->job.size_bytes, r->iterations);
	warn_each(r, warn_line, (void *)(uintptr_t)r);
	if (!said && warn_frequency_moves()) {
		ui_msg("the CPU frequency is not constant; set the governor 'performance' "
		       "(cpupower frequency-set -g performance)");
		said = true;
	}
}
