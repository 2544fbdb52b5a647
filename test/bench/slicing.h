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
	uint32_t kind;   /**< of the work; the caller's */
};

/** Call before the work. The clock is read last. */
void probe_begin(struct probe *p);
/** Call after the work. The clock is read first, and p becomes the difference. */
void probe_end(struct probe *p);
/** Sample pure arithmetic without memory accesses in pieces of about 8 us: the computer's own
 * disturbance. Without the pieces in which the thread lost its CPU. */
void probe_floor(struct samples *s, double seconds);

/* ---- Polls by the kind of their work ----
 *
 * A virtual machine does not say what the one below takes from it. Polls that do the same work take
 * about the same time, so what one of them takes above the median of its kind is not its work.
 */

/** What one poll did. */
struct work {
	uint64_t rx_bytes, tx_bytes; /**< of frames */
	uint64_t slice_bytes;        /**< hashed, written back or evicted by the polling thread */
};

#define KIND_STEP_BYTES 4096u /**< polls of a kind differ by less, in each of the three */
#define KIND_LEAST      20    /**< the fewest polls that make a median */
#define KIND_TEXT       96

struct kinds {
	uint64_t *poll; /**< kind and ns of each */
	size_t n, room;
	bool sorted;
};

/** A kind, how many polls were of it, and what they took. */
struct kind {
	uint32_t kind;
	size_t n;
	double p50_us, p90_us;
};

uint32_t kind_of(const struct work *w);
void kinds_add(struct kinds *k, const struct work *w, uint64_t ns);
/** n is 0 if there is none. Sorts. */
struct kind kinds_find(struct kinds *k, uint32_t kind);
/** That with the greatest median among those of KIND_LEAST polls and more. Sorts. */
struct kind kinds_heaviest(struct kinds *k);
const char *kind_text(uint32_t kind, char buf[KIND_TEXT]);

#endif /* SLICING_H */
