/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Thresholds of --expect, read and compared. */

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "figures.h"
#include "ui.h"

static const struct {
	const char *name;
	enum expect_key key;
} names[] = {
        {"bw", EXPECT_BW},       {"rate", EXPECT_RATE},       {"cycles", EXPECT_CYCLES},
        {"min", EXPECT_MIN},     {"max", EXPECT_MAX_NS},      {"avg", EXPECT_AVG},
        {"stdev", EXPECT_STDEV}, {"retrans", EXPECT_RETRANS},
};

static const struct {
	const char *name;
	double factor;
	bool time;
} units[] = {
        {"ns", 1, true},   {"us", 1e3, true}, {"ms", 1e6, true}, {"s", 1e9, true},
        {"K", 1e3, false}, {"M", 1e6, false}, {"G", 1e9, false}, {"", 1, false},
};

/** The key of the n octets at text. False: there is none of that name. */
static bool
expect_key(const char *text, size_t n, enum expect_key *key, double *pct)
{
	char *end;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i].name) == n && strncmp(names[i].name, text, n) == 0) {
			*key = names[i].key;
			return true;
		}
	if (n < 2 || text[0] != 'p')
		return false;
	*key = EXPECT_PCT;
	*pct = strtod(text + 1, &end);
	return end == text + n && *pct > 0 && *pct < 100;
}

/** The limit at text, up to a comma or the end, and the number of its unit. Latencies need one of
 * time. */
static bool
expect_limit(const char *text, size_t n, bool time, double *limit, size_t *unit)
{
	char *end;

	*limit = strtod(text, &end);
	if (end == text || !isfinite(*limit) || *limit < 0)
		return false;
	n -= (size_t)(end - text);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (units[i].time == time && strlen(units[i].name) == n &&
		    strncmp(units[i].name, end, n) == 0) {
			*limit *= units[i].factor;
			*unit = i;
			return true;
		}
	return false;
}

void
expect_parse(struct expect *e, const char *text)
{
	for (;;) {
		size_t len = strcspn(text, ","), name = strcspn(text, "<>");
		enum expect_key key = EXPECT_BW;
		double pct = 0, limit = 0;
		size_t unit = 0;

		if (e->n == EXPECT_MAX)
			ui_usage_die("--expect: at most %u conditions", EXPECT_MAX);
		if (name >= len || !expect_key(text, name, &key, &pct))
			ui_usage_die("--expect: '%.*s' is no condition such as p99<20us or bw>9G",
			             (int)len, text);
		if (!expect_limit(text + name + 1, len - name - 1, key >= EXPECT_MIN, &limit,
		                  &unit))
			ui_usage_die("--expect: '%.*s': %s", (int)len, text,
			             key >= EXPECT_MIN ? "a time needs a unit: ns, us, ms or s"
			                               : "a number, with K, M or G at its end");
		e->at[e->n].text = text;
		e->at[e->n].key = key;
		e->at[e->n].pct = pct;
		e->at[e->n].less = text[name] == '<';
		e->at[e->n].limit = limit;
		e->at[e->n].unit = units[unit].name;
		e->at[e->n].factor = units[unit].factor;
		e->n++;
		if (text[len] == '\0')
			return;
		text += len + 1;
	}
}

/** The figure of a result. NAN: it has none. */
static double
expect_figure(const struct perf_result *r, enum expect_key key, double pct)
{
	const bool lat = r->job.latency;

	switch (key) {
	case EXPECT_BW:
		return lat ? (double)NAN : r->avg_mbps * 8e6;
	case EXPECT_RATE:
		return lat ? (double)NAN : r->mmsgs * 1e6;
	case EXPECT_CYCLES:
		return r->cycles_per_msg;
	case EXPECT_RETRANS:
		return (double)r->retrans_segs;
	case EXPECT_MIN:
		return lat ? r->lat_min_us * 1e3 : (double)NAN;
	case EXPECT_MAX_NS:
		return lat ? r->lat_max_us * 1e3 : (double)NAN;
	case EXPECT_AVG:
		return lat ? r->lat_avg_us * 1e3 : (double)NAN;
	case EXPECT_STDEV:
		return lat ? r->lat_stdev_us * 1e3 : (double)NAN;
	default:
		return r->hist != NULL ? perf_pct_us(r, pct) * 1e3 : (double)NAN;
	}
}

bool
expect_met(const struct expect *e, const struct perf_result *r, char *why, size_t why_bytes)
{
	for (unsigned int i = 0; i < e->n; i++) {
		double v = expect_figure(r, e->at[i].key, e->at[i].pct);
		int len = (int)strcspn(e->at[i].text, ",");

		if (e->at[i].key == EXPECT_PCT && !isnan(v) &&
		    perf_samples_beyond(r, e->at[i].pct) < 1) {
			snprintf(why, why_bytes, "%.*s: p%g needs --iters %" PRIu64 " or more", len,
			         e->at[i].text, e->at[i].pct, perf_iters_for(r, e->at[i].pct, 1));
			return false;
		}
		if (isnan(v)) {
			snprintf(why, why_bytes, "%.*s: a %s test has no such figure", len,
			         e->at[i].text, r->job.latency ? "latency" : "bandwidth");
			return false;
		}
		if (e->at[i].less ? v < e->at[i].limit : v > e->at[i].limit)
			continue;
		v /= e->at[i].factor;
		/* The form with an exponent is hard to compare with a limit. */
		snprintf(why, why_bytes, v >= 1e5 ? "%.*s: it is %.0f%s%s" : "%.*s: it is %.6g%s%s",
		         len, e->at[i].text, v, e->at[i].key >= EXPECT_MIN ? " " : "",
		         e->at[i].unit);
		return false;
	}
	return true;
}

void
expect_warn(const struct expect *e, const struct perf_result *r)
{
	for (unsigned int i = 0; i < e->n; i++) {
		const double pct = e->at[i].pct;
		const double n = perf_samples_beyond(r, pct);
		char size[48];

		if (e->at[i].key != EXPECT_PCT || r->hist == NULL || n < 1 || n >= PERF_PCT_SAMPLES)
			continue;
		ui_msg("%s of %s: %.0f sample%s beyond p%g of --expect; with --iters %" PRIu64
		       " it is more than chance",
		       perf_job_name(&r->job), perf_size_text(&r->job, size, sizeof(size)),
		       floor(n), n < 2 ? " lies" : "s lie", pct,
		       perf_iters_for(r, pct, PERF_PCT_SAMPLES));
	}
}
