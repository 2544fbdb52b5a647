/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Placing octets into a region, and finding lost pages of it. */

#include "mem_priv.h"
#include "weft_mem_place.h"

void
weft_mem_place(struct weft_mem_mr *mr, uint64_t to, struct weft_cur *src, uint32_t len_bytes)
{
	uint8_t *dst = weft_mem_addr(mr, to);
	uint32_t left = len_bytes, n;
	const uint8_t *p;

	while (left > 0 && (n = weft_cur_run(src, left, &p)) > 0) {
		memcpy(dst, p, n);
		dst += n;
		left -= n;
	}
	weft_mem_mark(mr, to, len_bytes - left);
}

void
weft_mem_store8(struct weft_mem_mr *mr, uint64_t to, const uint8_t data[8])
{
	uint8_t *dst = weft_mem_addr(mr, to);
	uint64_t word;

	memcpy(&word, data, sizeof(word));
	if (likely(((uintptr_t)dst & 7) == 0))
		atomic_store_explicit(weft_atomic_u64(dst), word, memory_order_release);
	else /* an error of the caller; at least every octet is stored */
		memcpy(dst, &word, sizeof(word));
	weft_mem_mark(mr, to, sizeof(word));
}

bool
weft_mem_region_lost(struct weft_mem_mr *mr)
{
	uint32_t now = atomic_load_explicit(&weft_medium_losses, memory_order_acquire);
	bool lost;

	if (atomic_load_explicit(&mr->lost_seen, memory_order_relaxed) == (now << 1 | 1))
		return true;
	if (atomic_load_explicit(&mr->lost_seen, memory_order_relaxed) == now << 1)
		return false;
	lost = weft_guard_lost(mr->addr, weft_mem_len(mr));
	atomic_store_explicit(&mr->lost_seen, now << 1 | lost, memory_order_relaxed);
	return lost;
}
