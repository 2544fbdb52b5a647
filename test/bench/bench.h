/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_H
#define BENCH_H

/**
 * @file Shared by measuring programs: ending with a message, seconds, and medians.
 */

#include <stdint.h>

/** Print the message after the program's name, and exit. */
void bench_die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/** Exit if rc is a negative errno. */
void bench_must(int rc, const char *what);
/** Seconds since an arbitrary moment. */
double bench_now_s(void);
/** Sorts v. */
double bench_median(double *v, uint32_t n);

#endif /* BENCH_H */
