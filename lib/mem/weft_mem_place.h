/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MEM_PLACE_H
#define WEFT_MEM_PLACE_H

/**
 * @file
 * What a peer's operation stores in a region: the placement copy, the store of an Atomic Write, and
 * Atomic Operations. All mark what they stored for a later Flush. Internal; used by ddp and rdmap.
 */

#include "weft_mem.h"

/** Copy checked octets in from the cursor and mark the pages dirty: the one placement copy. */
void weft_mem_place(struct weft_mem_mr *mr, uint64_t to, struct weft_cur *src, uint32_t len_bytes);
/**
 * One 8-octet store, never torn; `data` in wire order goes to memory in wire order. Checked by the
 * caller, who also sees to it that weft_mem_addr(mr, to), not the TO, is a multiple of 8
 * (draft-talpey-rdma-commit-02 s2.3.2).
 */
void weft_mem_store8(struct weft_mem_mr *mr, uint64_t to, const uint8_t data[8]);
/*
 * Atomic Operations (RFC 7306 s5.1) on the 64-bit integer, in the host's byte order, at `to`; they
 * return what was there before. Atomic with respect to each other on any worker and to the
 * process's own atomic instructions; lock-free. What changed is marked dirty as weft_mem_place()
 * does. Checked by the caller as for weft_mem_store8().
 */
/** Each set bit of mask is the top of a field that is added by itself, what it carries out is
 * lost; 0: one field of 64 bits. */
uint64_t weft_mem_fetch_add(struct weft_mem_mr *mr, uint64_t to, uint64_t add, uint64_t mask);
/** Where the bits of cmp_mask equal those of cmp, the bits of swap_mask become those of swap. */
uint64_t weft_mem_cmp_swap(struct weft_mem_mr *mr, uint64_t to, uint64_t cmp, uint64_t cmp_mask,
                           uint64_t swap, uint64_t swap_mask);

#endif /* WEFT_MEM_PLACE_H */
