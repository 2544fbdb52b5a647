/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The rate limit per second: weft/limit.h. */

#include <weft/atomic_ref.h>
#include <weft/limit.h>

bool
weft_limit_ok(struct weft_limit *l, uint32_t most, uint64_t now, uint64_t second, uint32_t *held)
{
	_Atomic uint64_t *since = WEFT_ATOMIC_REF(l->since);
	_Atomic uint32_t *used = WEFT_ATOMIC_REF(l->used);
	uint64_t was = atomic_load_explicit(since, memory_order_relaxed);

	/* The clock of this thread may be behind `since`: then the current second goes on. */
	if ((was == 0 || (int64_t)(now - was) > (int64_t)second) &&
	    atomic_compare_exchange_strong_explicit(since, &was, now, memory_order_relaxed,
	                                            memory_order_relaxed))
		atomic_store_explicit(used, 0, memory_order_relaxed);
	if (atomic_load_explicit(used, memory_order_relaxed) >= most ||
	    atomic_fetch_add_explicit(used, 1, memory_order_relaxed) >= most) {
		atomic_fetch_add_explicit(WEFT_ATOMIC_REF(l->held), 1, memory_order_relaxed);
		return false;
	}
	*held = atomic_exchange_explicit(WEFT_ATOMIC_REF(l->held), 0, memory_order_relaxed);
	return true;
}
