/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TEST_XORSHIFT_H
#define TEST_XORSHIFT_H

/** @file Pseudo-random numbers of tests, each sequence determined by its first number. */

#include <stdint.h>

/** The next number of a sequence (xorshift), which becomes *x. *x is never 0. */
static inline uint64_t
test_xorshift(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

#endif /* TEST_XORSHIFT_H */
