/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The rate limit per second: weft/limit.h. */

#include <weft/limit.h>

bool
weft_limit_ok(struct weft_limit *l, uint32_t most, uint64_t now, uint64_t second, uint32_t *held)
{
	uint64_t since = __atomic_load_n(&l->since, __ATOMIC_RELAXED);

	/* The clock of this thread may be behind `since`: then the current second goes on. */
	if ((since == 0 || (int64_t)(now - since) > (int64_t)second) &&
	    __atomic_compare_exchange_n(&l->since, &since, now, false, __ATOMIC_RELAXED,
	                                __ATOMIC_RELAXED))
		__atomic_store_n(&l->used, 0, __ATOMIC_RELAXED);
	if (__atomic_load_n(&l->used, __ATOMIC_RELAXED) >= most ||
	    __atomic_fetch_add(&l->used, 1, __ATOMIC_RELAXED) >= most) {
		__atomic_fetch_add(&l->held, 1, __ATOMIC_RELAXED);
		return false;
	}
	*held = __atomic_exchange_n(&l->held, 0, __ATOMIC_RELAXED);
	return true;
}
