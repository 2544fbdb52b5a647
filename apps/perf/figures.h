/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_FIGURES_H
#define WEFT_PERF_FIGURES_H

/** @file Figures that are derived from a result, as they are printed and judged. */

#include "perf.h"

/** Samples beyond a percentile that make it more than chance. */
#define PERF_PCT_SAMPLES 10

/** Samples behind a percentile: those that are not below it. */
static inline double
perf_samples_beyond(const struct perf_result *r, double pct)
{
	/* 100 - 99.9 is a little less than 0.1 */
	return (double)r->iterations * (100 - pct) / 100 * (1 + 1e-9);
}

/** The --iters, of each QP, with which so many samples lie beyond a percentile. */
static inline uint64_t
perf_iters_for(const struct perf_result *r, double pct, unsigned int beyond)
{
	const double all = beyond * 100 / (100 - pct) / (r->job.qps > 0 ? r->job.qps : 1);
	const double less = all * (1 - 1e-9);

	return (uint64_t)less + ((double)(uint64_t)less < less);
}

static inline double
perf_percent(uint64_t part, uint64_t of)
{
	return of == 0 ? 0 : 100 * (double)part / (double)of;
}

/** How far the rate is off what was asked for, in percent. The first message of each QP starts at
 * once. */
static inline double
perf_rate_error(const struct perf_result *r)
{
	const double n = (double)r->iterations - r->job.qps;

	return n < 1 ? 0 : 100 * (n / r->paced_s / r->job.rate - 1);
}

#endif /* WEFT_PERF_FIGURES_H */
