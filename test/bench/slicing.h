/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SLICING_H
#define SLICING_H

/**
 * @file Measurements of bench_slicing: the cost of a piece of the thread's work, and samples of it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Samples in ns. All are kept, so that percentiles are exact ---- */

struct samples {
	uint32_t *ns;
	size_t n, room;
	bool sorted;
};

void samples_add(struct samples *s, uint64_t ns);
/** Sorts the samples. */
double samples_pct_us(struct samples *s, double pct);
uint64_t samples_below(const struct samples *s, double us);

/* ---- Cost ---- */

/** What the kernel accounts to this thread between two moments. */
struct probe {
	uint64_t cpu_ns; /**< CLOCK_THREAD_CPUTIME_ID */
	long faults;     /**< page faults */
	long waits;      /**< number of times it slept */
	long preempted;  /**< number of times it was preempted */
};

/** Call before the work. The clock is read last. */
void probe_begin(struct probe *p);
/** Call after the work. The clock is read first, and p becomes the difference. */
void probe_end(struct probe *p);
/** Sample pure arithmetic without memory accesses in pieces of about 8 us: the computer's own
 * disturbance. */
void probe_floor(struct samples *s, double seconds);

#endif /* SLICING_H */
