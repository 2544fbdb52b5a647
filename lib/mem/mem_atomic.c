/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Atomic Operations on integers of this host (RFC 7306 s5.1), by atomic instructions of the
 * CPU. So they are atomic for every stream on every worker, and for local code that uses atomic
 * instructions.
 */

#include "mem_priv.h"
#include "weft_mem_place.h"

/**
 * s5.1.1: the highest bit of each field is left out of the addition, so that no carry leaves a
 * field, and is then added without carry.
 */
static uint64_t
mem_add_fields(uint64_t a, uint64_t b, uint64_t tops)
{
	return ((a & ~tops) + (b & ~tops)) ^ ((a ^ b) & tops);
}

uint64_t
weft_mem_fetch_add(struct weft_mem_mr *mr, uint64_t to, uint64_t add, uint64_t mask)
{
	_Atomic uint64_t *p = weft_atomic_u64(weft_mem_addr(mr, to));
	uint64_t orig, sum;

	if (likely((mask & ~(UINT64_C(1) << 63)) ==
	           0)) { /* one field: a carry out of bit 63 is lost anyway */
		orig = atomic_fetch_add_explicit(p, add, memory_order_acq_rel);
		sum = orig + add;
	} else {
		orig = atomic_load_explicit(p, memory_order_relaxed);
		do {
			sum = mem_add_fields(orig, add, mask);
		} while (!atomic_compare_exchange_weak_explicit(p, &orig, sum, memory_order_acq_rel,
		                                                memory_order_relaxed));
	}
	if (sum != orig)
		weft_mem_mark(mr, to, sizeof(*p));
	return orig;
}

uint64_t
weft_mem_cmp_swap(struct weft_mem_mr *mr, uint64_t to, uint64_t cmp, uint64_t cmp_mask,
                  uint64_t swap, uint64_t swap_mask)
{
	_Atomic uint64_t *p = weft_atomic_u64(weft_mem_addr(mr, to));
	uint64_t orig = atomic_load_explicit(p, memory_order_acquire), next;

	do {
		/* unequal: return the loaded value and store nothing */
		if (((cmp ^ orig) & cmp_mask) != 0)
			return orig;
		next = (orig & ~swap_mask) | (swap & swap_mask);
	} while (!atomic_compare_exchange_weak_explicit(p, &orig, next, memory_order_acq_rel,
	                                                memory_order_acquire));
	if (next != orig)
		weft_mem_mark(mr, to, sizeof(*p));
	return orig;
}
