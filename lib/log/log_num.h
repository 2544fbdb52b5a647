/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_NUM_H
#define LOG_NUM_H

/** @file Small arithmetic functions. */

#include <stdint.h>

#define LOG_DIM(array) (sizeof(array) / sizeof((array)[0]))

static inline uint64_t
log_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t
log_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/** Round up to a multiple of `to`, a power of two. */
static inline uint64_t
log_align(uint64_t n, uint64_t to)
{
	return (n + to - 1) & ~(to - 1);
}

/** The least power of two that is not less than n, which is at most 2^31 and not 0. */
static inline uint32_t
log_pow2(uint32_t n)
{
	return n == 1 ? 1 : 1U << (32 - __builtin_clz(n - 1));
}

#endif /* LOG_NUM_H */
