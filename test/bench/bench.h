/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_H
#define BENCH_H

/**
 * @file
 * What measuring programs have in common: ending with a word, seconds, medians.
 */

#include <stdint.h>

/** Say why under the program's name, and end. */
void bench_die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/** End when rc is a negative errno. */
void bench_must(int rc, const char *what);
/** Of no particular beginning. */
double bench_now_s(void);
/** Sorts v. */
double bench_median(double *v, uint32_t n);

#endif /* BENCH_H */
