/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_LIMIT_H
#define WEFT_LIMIT_H

/**
 * @file
 * How often something is said that a peer can provoke: so many times a second, and how many times
 * it was held back since. Any thread; no lock, and no allocation.
 */

#include <stdbool.h>
#include <stdint.h>

#include <weft/api.h>

WEFT_API_BEGIN

/** All zero at first. */
struct weft_limit {
	uint64_t since; /**< the current second's beginning, on the caller's clock */
	uint32_t used;  /**< times allowed in it */
	uint32_t held;  /**< times refused since the last one allowed */
};

/**
 * Whether one more is allowed at `now`, of at most `most` in a `second` (both in the clock's
 * units); *held gets how many were refused before it. Threads whose clocks differ a little may
 * begin a second twice.
 */
bool weft_limit_ok(struct weft_limit *l, uint32_t most, uint64_t now, uint64_t second,
                   uint32_t *held);

WEFT_API_END

#endif /* WEFT_LIMIT_H */
