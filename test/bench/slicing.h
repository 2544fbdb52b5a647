/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SLICING_H
#define SLICING_H

/**
 * @file
 * What bench_slicing measures with: what a piece of the thread's work cost, and samples of it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Samples, in ns: all are kept, so what is said of them is exact ---- */

struct samples {
	uint32_t *ns;
	size_t n, room;
	bool sorted;
};

void samples_add(struct samples *s, uint64_t ns);
/** Sorts them. */
double samples_pct_us(struct samples *s, double pct);
uint64_t samples_below(const struct samples *s, double us);

/* ---- Cost ---- */

/** What this thread had between two moments, by the kernel's account. */
struct probe {
	uint64_t cpu_ns; /**< CLOCK_THREAD_CPUTIME_ID */
	long faults;     /**< page faults */
	long waits;      /**< it slept */
	long preempted;  /**< others were given the core */
};

/** Before the work: the clock is read last. */
void probe_begin(struct probe *p);
/** After it: the clock is read first, and p becomes the difference. */
void probe_end(struct probe *p);
/** What the machine does to a thread by itself: arithmetic without a memory access in pieces of
 * some 8 us. */
void probe_floor(struct samples *s, double seconds);

#endif /* SLICING_H */
