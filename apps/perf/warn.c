/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Finds what makes a result doubtful (warn.h). */

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "figures.h"
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

	if (r->peer.ns == 0 || r->ended || j->mix != NULL || j->verify || j->reversed ||
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

/** Messages of eight octets on each QP that one side has counted already, and the other one not
 * yet: acknowledgements, and what begins and ends the measured part. */
#define WARN_LATE_MSGS  8
#define WARN_LATE_BYTES (8 * WARN_LATE_MSGS)

/** One direction: what one side says that it has sent, and the other one that it has received. */
static void
warn_direction(const struct warn *w, const struct perf_result *r, const char *from, uint64_t sent,
               uint64_t received, bool octets)
{
	const uint64_t late = (octets ? WARN_LATE_BYTES : WARN_LATE_MSGS) * (uint64_t)r->job.qps;

	if (received > sent + late || sent > received + late)
		warn_say(w,
		         "the %s has sent %" PRIu64 " %s and the other side received %" PRIu64
		         " (RDMAP): the two sides disagree",
		         from, sent, octets ? "octets" : "messages", received);
}

/** Compare what RDMAP has counted at both ends, in each direction, whatever the test. */
static void
warn_moved(const struct warn *w, const struct perf_result *r)
{
	const struct perf_report *p = &r->peer;
	/* The server counts until it reports; the report itself is a Write. */
	const uint64_t reports = r->job.qps;

	if (p->ns == 0 || r->ended)
		return;
	warn_direction(w, r, "client", r->moved.out_msgs, p->recv_msgs, false);
	warn_direction(w, r, "client", r->moved.out_bytes, p->recv_bytes, true);
	warn_direction(w, r, "server", p->out_msgs + reports, r->moved.in_msgs, false);
	warn_direction(w, r, "server", p->out_bytes + reports * sizeof(*p), r->moved.in_bytes,
	               true);
}

/* ---- A link that is not full ---- */

/** A link is full from this share on: acknowledgements and the like need some. */
#define WARN_LINK_FULL 0.9
/** A side whose worker had work for less of the time has waited for the other one. Of a side whose
 * CPU is the limit it is more than half; posting is the rest. */
#define WARN_BUSY_PERCENT 40

/**
 * Bandwidth that neither the link nor a CPU has limited: then the work requests outstanding or a
 * window have. Not with a rate or verification, which pause by themselves, nor with events, whose
 * threads sleep; nor where the server does not report.
 */
static void
warn_link(const struct warn *w, const struct perf_result *r)
{
	const struct perf_job *j = &r->job;
	const double here = perf_percent(r->self.busy_ns, r->self.at_ns);
	const double there = perf_percent(r->peer.busy_ns, r->peer.ns);
	const double waited = perf_percent(r->self.waited_ns, r->self.at_ns) +
	                      perf_percent(r->peer.waited_ns, r->peer.ns);

	/* An end without its CPU is a reason, and has its own line. */
	if (waited >= 1)
		return;
	if (j->latency || j->rate > 0 || j->verify || j->events || r->ended || r->peer.ns == 0 ||
	    r->link_mbps <= 0 || r->used_mbps <= 0 ||
	    r->used_mbps >= WARN_LINK_FULL * r->link_mbps || here >= WARN_BUSY_PERCENT ||
	    there >= WARN_BUSY_PERCENT)
		return;
	warn_say(w,
	         "the link is not full: %.2f of %.0f Gbit/s, and no CPU is the reason (the workers "
	         "of this side and the server had work for %.0f %% and %.0f %% of the time); more "
	         "--tx-depth or --qp, more rcv_buf_bytes, or the path has less",
	         r->used_mbps / 1e3, r->link_mbps / 1e3, here, there);
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
		         "%.0f %s beyond the 99.9 %% percentile; with --iters %u it is more than "
		         "chance",
		         beyond, nearbyint(beyond) == 1 ? "sample lies" : "samples lie",
		         1000 * PERF_PCT_SAMPLES);
	if (r->job.rate > 0 && fabs(perf_rate_error(r)) > 1)
		warn_say(&w, "the rate is off by %.1f %%: %s", perf_rate_error(r),
		         perf_rate_error(r) < 0 ? "the two sides do not reach it"
		                                : "the run is too short");
	warn_counts(&w, r);
	warn_moved(&w, r);
	warn_link(&w, r);
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
	char size[48], round[32] = "";

	if (r->round != 0)
		snprintf(round, sizeof(round), ", round %" PRIu32, r->round);
	ui_msg("%s of %s%s: %s", perf_job_name(&r->job),
	       perf_size_text(&r->job, size, sizeof(size)), round, text);
}

void
warn_print(const struct perf_result *r)
{
	char size[48];

	if (r->interrupted && r->job.duration_s != PERF_FOREVER_S)
		ui_msg("%s of %s: interrupted after %" PRIu64 " iterations", perf_job_name(&r->job),
		       perf_size_text(&r->job, size, sizeof(size)), r->iterations);
	warn_each(r, warn_line, (void *)(uintptr_t)r);
}

void
warn_frequency(void)
{
	if (warn_frequency_moves())
		ui_msg("the CPU frequency is not constant; set the governor 'performance' "
		       "(cpupower frequency-set -g performance)");
}
