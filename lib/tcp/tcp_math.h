/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_MATH_H
#define TCP_MATH_H

/**
 * @file
 * Arithmetic on limits: clamping, and subtraction that ends at 0.
 */

#include <stdbool.h>
#include <stdint.h>

static inline uint32_t
tcp_clamp(uint64_t v, uint32_t lo, uint32_t hi)
{
	return v < lo ? lo : v > hi ? hi : (uint32_t)v;
}

static inline uint32_t
tcp_left(uint32_t max, uint32_t used)
{
	return used < max ? max - used : 0;
}

/** Whether a segment with sequence number seq starts within [from, from + len). */
static inline bool
tcp_within(uint32_t seq, uint32_t from, uint32_t len)
{
	return seq - from < len;
}

#endif /* TCP_MATH_H */
