/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Ratio and confidence interval of two samples by ranks (interval.h). */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interval.h"

static int
interval_order(const void *x, const void *y)
{
	const double *a = x, *b = y;

	return (*a > *b) - (*a < *b);
}

double
interval_median(double *v, unsigned int n)
{
	qsort(v, n, sizeof(*v), interval_order);
	return n % 2 != 0 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/**
 * The distribution of Mann and Whitney's U of samples of m and n values: p[u] is the probability
 * that U = u, for u from 0 to m * n. The greatest value belongs to the first sample with
 * probability m / (m + n), and then adds n to U. NULL: out of memory.
 */
static double *
interval_u(unsigned int m, unsigned int n)
{
	const size_t len = (size_t)m * n + 1;
	double *all = calloc((size_t)(n + 1) * len, sizeof(*all));

	if (all == NULL)
		return NULL;
	/* all[j] has the distribution for i and j; it begins with i = 0, where U is 0 */
	for (unsigned int j = 0; j <= n; j++)
		all[j * len] = 1;
	for (unsigned int i = 1; i <= m; i++) {
		for (unsigned int j = 1; j <= n; j++) {
			const double first = (double)i / (i + j);
			double *p = all + j * len;
			const double *left = p - len;

			for (size_t u = (size_t)i * j + 1; u-- > 0;)
				p[u] = (u >= j ? first * p[u - j] : 0) + (1 - first) * left[u];
		}
	}
	memmove(all, all + n * len, len * sizeof(*all));
	return all;
}

/** The number of pairs to leave out at either end, and the confidence of what remains. 0 or
 * -ENOMEM. */
static int
interval_cut(unsigned int m, unsigned int n, size_t *cut, double *level)
{
	const double tail = (1 - INTERVAL_LEVEL) / 2, pairs = (double)m * n;
	double sum = 0, *p;

	*cut = 0;
	if (m > INTERVAL_EXACT || n > INTERVAL_EXACT) {
		/* the quantile of the normal distribution at 2.5 % */
		double u = floor(pairs / 2 + 0.5 - 1.959964 * sqrt(pairs * (m + n + 1) / 12));

		*cut = u > 0 ? (size_t)u : 0;
		*level = INTERVAL_LEVEL;
		return 0;
	}
	p = interval_u(m, n);
	if (p == NULL)
		return -ENOMEM;
	while (sum + p[*cut] <= tail)
		sum += p[(*cut)++];
	free(p);
	*level = 1 - 2 * sum;
	return 0;
}

static bool
interval_positive(const double *v, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (!(v[i] > 0 && isfinite(v[i])))
			return false;
	return n > 0;
}

int
interval_ratio(const double *a, unsigned int na, const double *b, unsigned int nb,
               struct interval *out)
{
	const size_t pairs = (size_t)na * nb;
	size_t cut, k = 0;
	double *r;
	int rc = 0;

	*out = (struct interval){0};
	if (!interval_positive(a, na) || !interval_positive(b, nb))
		return 0;
	r = calloc(pairs, sizeof(*r));
	if (r == NULL)
		return -ENOMEM;
	for (unsigned int i = 0; i < na; i++)
		for (unsigned int j = 0; j < nb; j++)
			r[k++] = b[j] / a[i];
	out->ratio = interval_median(r, (unsigned int)pairs);
	out->valid = true;
	if (na >= INTERVAL_LEAST && nb >= INTERVAL_LEAST) {
		rc = interval_cut(na, nb, &cut, &out->level);
		/* with five rounds a side, at least one pair is left out at either end */
		out->low = r[cut == 0 ? 0 : cut - 1];
		out->high = r[pairs - (cut == 0 ? 1 : cut)];
		out->bounded = rc == 0;
	}
	free(r);
	return rc;
}
