/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_ENGINE_HIST_H
#define WEFT_ENGINE_HIST_H

/**
 * @file
 * How long the busy polls of a worker were: a histogram in TSC cycles, counted by the worker alone
 * and read by others. Internal.
 */

#include <assert.h>
#include <stdatomic.h>

#include <rte_common.h>

#include <weft/worker.h>

static_assert(WEFT_POLL_HIST_BUCKETS % 8 == 0, "whole octaves");

struct weft_engine_hist {
	uint64_t busy_cycles; /**< the sum of all */
	uint64_t max_cycles;
	uint64_t bucket[WEFT_POLL_HIST_BUCKETS]; /**< by weft_engine_hist_index() */
};

/** Bucket of so many cycles: below eight each its own, then eight to an octave. */
static inline unsigned int
weft_engine_hist_index(uint64_t cycles)
{
	unsigned int top = 63 - (unsigned int)__builtin_clzll(cycles | 1);

	if (top < 3)
		return (unsigned int)cycles;
	return RTE_MIN((top - 2) * 8 + (unsigned int)((cycles >> (top - 3)) & 7),
	               WEFT_POLL_HIST_BUCKETS - 1U);
}

/** The first number of cycles that belongs to a later bucket. */
static inline uint64_t
weft_engine_hist_end(unsigned int i)
{
	i++;
	if (i < 16)
		return i;
	return (uint64_t)(8 + i % 8) << (i / 8 - 1);
}

/** Polls in a bucket, asked by any thread while the worker counts on. */
static inline uint64_t
weft_engine_hist_count(const struct weft_engine_hist *h, unsigned int i)
{
	return atomic_load_explicit((const _Atomic uint64_t *)&h->bucket[i], memory_order_relaxed);
}

#endif /* WEFT_ENGINE_HIST_H */
