/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_ENGINE_HIST_H
#define WEFT_ENGINE_HIST_H

/**
 * @file
 * The histogram of the duration of a worker's busy polls, in TSC cycles. The worker alone writes
 * it; other threads read it. Internal.
 */

#include <assert.h>
#include <stdatomic.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>

#include <weft/worker.h>

static_assert(WEFT_POLL_HIST_BUCKETS % 8 == 0, "whole octaves");

struct weft_engine_hist {
	_Atomic uint64_t busy_cycles; /**< sum of all busy polls */
	_Atomic uint64_t max_cycles;
	_Atomic uint64_t bucket[WEFT_POLL_HIST_BUCKETS]; /**< by weft_engine_hist_index() */
};

/** Bucket of a number of cycles: one each below 8, then eight buckets per octave. */
static inline unsigned int
weft_engine_hist_index(uint64_t cycles)
{
	unsigned int top = 63 - (unsigned int)__builtin_clzll(cycles | 1);

	if (top < 3)
		return (unsigned int)cycles;
	return RTE_MIN((top - 2) * 8 + (unsigned int)((cycles >> (top - 3)) & 7),
	               WEFT_POLL_HIST_BUCKETS - 1U);
}

/** The smallest number of cycles above bucket i. */
static inline uint64_t
weft_engine_hist_end(unsigned int i)
{
	i++;
	if (i < 16)
		return i;
	return (uint64_t)(8 + i % 8) << (i / 8 - 1);
}

/** One word of a histogram. Any thread; the worker may add to it meanwhile. */
static inline uint64_t
weft_engine_hist_read(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

/** Count one busy poll. The worker's thread alone: a load and a store, no locked instruction. */
static inline void
weft_engine_hist_add(struct weft_engine_hist *h, uint64_t cycles)
{
	_Atomic uint64_t *polls = &h->bucket[weft_engine_hist_index(cycles)];

	atomic_store_explicit(&h->busy_cycles, weft_engine_hist_read(&h->busy_cycles) + cycles,
	                      memory_order_relaxed);
	atomic_store_explicit(polls, weft_engine_hist_read(polls) + 1, memory_order_relaxed);
	if (unlikely(cycles > weft_engine_hist_read(&h->max_cycles)))
		atomic_store_explicit(&h->max_cycles, cycles, memory_order_relaxed);
}

#endif /* WEFT_ENGINE_HIST_H */
