/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MEM_PLACE_H
#define WEFT_MEM_PLACE_H

/**
 * @file Stores by a peer's operation: the placement copy, the store of an Atomic Write, and Atomic
 * Operations. All mark what they stored for a later Flush. Internal; used by ddp and rdmap.
 */

#include <string.h>

#include "weft_copy.h"
#include "weft_medium.h"
#include "weft_mem.h"

/**
 * Mark stored octets as changed, for the medium. They are stored before, so no flush misses them.
 */
static inline void
weft_mem_mark(const struct weft_mem_mr *mr, uint64_t to, uint64_t len_bytes)
{
	if (mr->persist != NULL)
		weft_medium_mark(mr->persist, mr->persist_off_bytes + (to - mr->base_to),
		                 len_bytes);
}

/** Copy contiguous octets to a checked range, and mark its pages dirty. */
static inline void
weft_mem_place_run(struct weft_mem_mr *mr, uint64_t to, const uint8_t *src, uint32_t len_bytes)
{
	memcpy(weft_mem_addr(mr, to), src, len_bytes);
	weft_mem_mark(mr, to, len_bytes);
}

/** The same for at most WEFT_COPY_SHORT_BYTES to ordinary memory, which has no pages to mark. */
static inline void
weft_mem_place_short(struct weft_mem_mr *mr, uint64_t to, const uint8_t *src, uint32_t len_bytes)
{
	weft_copy_short(weft_mem_addr(mr, to), src, len_bytes);
}

/** The same from a cursor. These three are the only copies of placement. */
void weft_mem_place(struct weft_mem_mr *mr, uint64_t to, struct weft_cur *src, uint32_t len_bytes);
/**
 * Store 8 octets at once; never torn. `data` is in wire order and is stored in wire order. The
 * caller has checked the range, and that weft_mem_addr(mr, to), not the TO, is a multiple of 8
 * (draft-talpey-rdma-commit-02 s2.3.2).
 */
void weft_mem_store8(struct weft_mem_mr *mr, uint64_t to, const uint8_t data[8]);
/*
 * Atomic Operations (RFC 7306 s5.1) on the 64-bit integer at `to`, in the host's byte order. They
 * return the previous value. They are atomic with respect to each other on any worker, and to
 * atomic instructions of the process; lock-free. Changes are marked dirty as by weft_mem_place().
 * The caller checks as for weft_mem_store8().
 */
/**
 * Each set bit of mask is the highest bit of a field that is added by itself; its carry is lost. 0:
 * one field of 64 bits.
 */
uint64_t weft_mem_fetch_add(struct weft_mem_mr *mr, uint64_t to, uint64_t add, uint64_t mask);
/** If the bits in cmp_mask equal those of cmp, the bits in swap_mask become those of swap. */
uint64_t weft_mem_cmp_swap(struct weft_mem_mr *mr, uint64_t to, uint64_t cmp, uint64_t cmp_mask,
                           uint64_t swap, uint64_t swap_mask);

#endif /* WEFT_MEM_PLACE_H */
