/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_EXPECT_H
#define WEFT_PERF_EXPECT_H

/** @file Thresholds of --expect: 'p99<20us,bw>9G'. */

#include <stdbool.h>
#include <stddef.h>

struct perf_result;

#define EXPECT_MAX 16

/** What a condition is about. */
enum expect_key {
	EXPECT_BW,     /**< bits a second */
	EXPECT_RATE,   /**< messages a second */
	EXPECT_CYCLES, /**< cycles of a message */
	EXPECT_RETRANS,
	EXPECT_MIN, /**< from here on nanoseconds of latency */
	EXPECT_MAX_NS,
	EXPECT_AVG,
	EXPECT_STDEV,
	EXPECT_PCT,
};

struct expect {
	unsigned int n;
	struct {
		const char *text; /**< of the command line, up to a comma or its end */
		enum expect_key key;
		double pct; /**< EXPECT_PCT */
		bool less;  /**< the figure has to be less than the limit; else greater */
		double limit;
		const char *unit; /**< that of the limit; empty: none */
		double factor;    /**< of it */
	} at[EXPECT_MAX];
};

/** Read a list of conditions; text stays with e. Ends the program if it is wrong. */
void expect_parse(struct expect *e, const char *text);
/**
 * Whether a result meets all conditions. False: *why has one line with the first that it does not
 * meet. A condition on a figure that the result does not have is not met, nor one on a percentile
 * that no sample lies beyond.
 */
bool expect_met(const struct expect *e, const struct perf_result *r, char *why, size_t why_bytes);
/** Print on standard error each condition on a percentile that few samples lie beyond. */
void expect_warn(const struct expect *e, const struct perf_result *r);

#endif /* WEFT_PERF_EXPECT_H */
