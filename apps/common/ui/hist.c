/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The histogram: bucket arithmetic and the figures read from it. */

#include "hist.h"

#include <math.h>
#include <stddef.h>

/* Values below HIST_SUB have a bucket each; above, the octave of bit b holds HIST_SUB buckets. */
static unsigned int
hist_index(uint64_t v)
{
	unsigned int b;

	if (v < HIST_SUB)
		return (unsigned int)v;
	b = 63 - (unsigned int)__builtin_clzll(v);
	return ((b - HIST_SUB_SHIFT + 1) << HIST_SUB_SHIFT) +
	       (unsigned int)((v >> (b - HIST_SUB_SHIFT)) & (HIST_SUB - 1));
}

/* The middle of a bucket. */
static uint64_t
hist_value(unsigned int i)
{
	unsigned int octave = i >> HIST_SUB_SHIFT;
	uint64_t low;

	if (octave == 0)
		return i;
	low = ((uint64_t)HIST_SUB + (i & (HIST_SUB - 1))) << (octave - 1);
	return low + (((uint64_t)1 << (octave - 1)) >> 1);
}

uint64_t
hist_above(unsigned int i)
{
	unsigned int octave = i >> HIST_SUB_SHIFT;

	if (octave == 0)
		return (uint64_t)i + 1;
	return ((uint64_t)HIST_SUB + (i & (HIST_SUB - 1)) + 1) << (octave - 1);
}

void
hist_add(struct hist *h, uint64_t v)
{
	if (h->n == 0 || v < h->min)
		h->min = v;
	if (v > h->max)
		h->max = v;
	h->n++;
	h->sum += (double)v;
	h->sum_sq += (double)v * (double)v;
	h->bucket[hist_index(v)]++;
}

void
hist_merge(struct hist *into, const struct hist *from)
{
	if (from->n == 0)
		return;
	if (into->n == 0 || from->min < into->min)
		into->min = from->min;
	if (from->max > into->max)
		into->max = from->max;
	into->n += from->n;
	into->sum += from->sum;
	into->sum_sq += from->sum_sq;
	for (unsigned int i = 0; i < HIST_BUCKETS; i++)
		into->bucket[i] += from->bucket[i];
}

static uint64_t
hist_clamp(const struct hist *h, uint64_t v)
{
	return v < h->min ? h->min : v > h->max ? h->max : v;
}

uint64_t
hist_pct(const struct hist *h, double pct)
{
	uint64_t rank, seen = 0;

	if (h->n == 0)
		return 0;
	if (pct <= 0)
		return h->min;
	if (pct >= 100)
		return h->max;
	rank = (uint64_t)ceil(pct / 100 * (double)h->n);
	if (rank >= h->n)
		return h->max;
	for (unsigned int i = 0; i < HIST_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen >= rank)
			return hist_clamp(h, hist_value(i));
	}
	return h->max;
}

double
hist_mean(const struct hist *h)
{
	return h->n == 0 ? 0 : h->sum / (double)h->n;
}

double
hist_stdev(const struct hist *h)
{
	double m = hist_mean(h), var;

	if (h->n == 0)
		return 0;
	var = h->sum_sq / (double)h->n - m * m;
	return var > 0 ? sqrt(var) : 0;
}

uint64_t
hist_mode(const struct hist *h)
{
	unsigned int best = 0;

	if (h->n == 0)
		return 0;
	for (unsigned int i = 1; i < HIST_BUCKETS; i++)
		if (h->bucket[i] > h->bucket[best])
			best = i;
	return hist_clamp(h, hist_value(best));
}
