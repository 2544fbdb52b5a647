/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_LIMIT_H
#define WEFT_LIMIT_H

/**
 * @file A rate limit for messages that a peer can provoke: at most so many in a second, and a count
 * of those suppressed. Any thread; no lock, no allocation.
 */

#include <stdbool.h>
#include <stdint.h>

#include <weft/api.h>

WEFT_API_BEGIN

/** State of one limit; all zero at first. */
struct weft_limit {
	uint64_t since; /**< start of the current second, on the caller's clock */
	uint32_t used;  /**< messages allowed in the current second */
	uint32_t held;  /**< messages refused since the last one allowed */
};

/**
 * Whether one more message is allowed at time `now`, if at most `most` are allowed in a `second`.
 * now and second have the unit of the caller's clock. *held gets the number of messages refused
 * since the last allowed one. Threads whose clocks differ a little may start the same second twice.
 */
bool weft_limit_ok(struct weft_limit *l, uint32_t most, uint64_t now, uint64_t second,
                   uint32_t *held);

WEFT_API_END

#endif /* WEFT_LIMIT_H */
