/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_HIST_H
#define WEFT_APPS_HIST_H

/**
 * @file A histogram of 64-bit samples in fixed memory. Each octave has 128 linear buckets, so a
 * percentile is off by 0.8 % at most; minimum, maximum, sum and sum of squares are exact.
 */

#include <stdint.h>

#define HIST_SUB_SHIFT 7
#define HIST_SUB       (1u << HIST_SUB_SHIFT)
#define HIST_BUCKETS   ((64 - HIST_SUB_SHIFT + 1) * HIST_SUB)

/** An empty histogram is all zero. It has 58 KiB, too much for a stack. */
struct hist {
	uint64_t n, min, max;
	double sum, sum_sq;
	uint64_t bucket[HIST_BUCKETS];
};

void hist_add(struct hist *h, uint64_t v);
void hist_merge(struct hist *into, const struct hist *from);
/** The least value that `pct` percent of the samples do not exceed; 0 when empty. pct 0 is the
 * minimum, 100 the maximum. */
uint64_t hist_pct(const struct hist *h, double pct);
double hist_mean(const struct hist *h);
/** The standard deviation of the population. */
double hist_stdev(const struct hist *h);
/** The least value above bucket i, below HIST_BUCKETS. */
uint64_t hist_above(unsigned int i);
/** The middle of the fullest bucket. */
uint64_t hist_mode(const struct hist *h);

#endif /* WEFT_APPS_HIST_H */
