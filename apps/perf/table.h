/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_TABLE_H
#define WEFT_PERF_TABLE_H

/**
 * @file perftest's columns, as wide as the terminal. Where the output is no terminal, each row is
 * one line.
 */

#include <stdbool.h>
#include <stdio.h>

struct perf_job;
struct perf_result;

/** Print the heading, then rows. What does not fit a terminal stands in a second, indented line.
 * rounds: each row names its round. */
void perf_print_head(FILE *f, const struct perf_job *job, bool rounds);
void perf_print_row(FILE *f, const struct perf_result *r);
/** Two rows below that of a test in both directions: each by itself. */
void perf_print_both(FILE *f, const struct perf_result *r);

#endif /* WEFT_PERF_TABLE_H */
