/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_INTERVAL_H
#define WEFT_PERF_INTERVAL_H

/**
 * @file The ratio of two samples with its confidence interval, by ranks.
 *
 * The ratio is the median of b/a over all pairs of a round of A and a round of B (Hodges and
 * Lehmann's estimate). The interval consists of those factors by which A may be multiplied without
 * Mann and Whitney's two-sided test rejecting that both samples come from one distribution. It
 * assumes that rounds are independent and that B's figures are distributed as A's times a factor;
 * it assumes no shape of that distribution.
 */

#include <stdbool.h>

#define INTERVAL_LEVEL 0.95
#define INTERVAL_LEAST 5  /**< rounds a side; fewer get no interval */
#define INTERVAL_EXACT 60 /**< rounds a side; more use the normal approximation */

struct interval {
	bool valid;       /**< all figures are positive and finite, so that ratio is set */
	bool bounded;     /**< low, high and level are set */
	double ratio;     /**< B divided by A */
	double low, high; /**< ends of the interval */
	double level;     /**< its confidence: at least INTERVAL_LEVEL */
};

/** The median of v, which is sorted thereby; n is not 0. */
double interval_median(double *v, unsigned int n);
/** Compare na figures of A with nb of B. 0 or -ENOMEM. */
int interval_ratio(const double *a, unsigned int na, const double *b, unsigned int nb,
                   struct interval *out);

#endif /* WEFT_PERF_INTERVAL_H */
