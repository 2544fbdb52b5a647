/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MEM_FAST_H
#define WEFT_MEM_FAST_H

/**
 * @file Regions and windows that change while streams use them: those that become valid by work
 * request, and regions that are reduced. Internal; used by verbs.
 */

#include "weft_mem.h"

/* ---- Regions and windows that become valid and invalid by work request (mem_fast.c) ---- */

/**
 * Reserve a slot and all memory that a registration needs. The region is not valid yet. kind is
 * WEFT_MEM_FAST or WEFT_MEM_WINDOW. `bound` as in weft_mem_attr; it is set to WEFT_MEM_CLOSED.
 * -ENOSPC, -ENOMEM. Any thread; takes a lock.
 */
int weft_mem_alloc(struct weft_mem *m, struct weft_mem_pd *pd, enum weft_mem_kind kind, void *owner,
                   _Atomic uint32_t *bound, struct weft_mem_mr **out);
/** The same, with a copy of a key that attributes may name (mr->hash_key). 0 octets: none. */
int weft_mem_alloc_keyed(struct weft_mem *m, struct weft_mem_pd *pd, enum weft_mem_kind kind,
                         void *owner, _Atomic uint32_t *bound, const void *hash_key,
                         uint32_t hash_key_bytes, struct weft_mem_mr **out);
/** The STag that the next weft_mem_take_stag() returns. */
uint32_t weft_mem_next_stag(const struct weft_mem_mr *mr);
/** A new STag for one registration of mr. Any thread, lock-free. */
uint32_t weft_mem_take_stag(struct weft_mem *m, struct weft_mem_mr *mr);
/**
 * Make a region or window valid under an STag that was taken before. attr has passed
 * weft_mem_check_attr(). The parent of a window is pinned: the caller has counted the window in
 * parent->bound, and undoes this after an error. scope: the region's domain, or the scope of the
 * one stream that may use it; the stream may end first. Called by an online worker only; no lock,
 * no heap. Returns 0, or
 * - -EBUSY: it is valid
 * - -EAGAIN: operations of its earlier registration still hold it, or another thread is changing
 *   it; try later
 * - -ESTALE: deallocated
 */
int weft_mem_fill(struct weft_mem *m, struct weft_mem_mr *mr, struct weft_mem_pd *scope,
                  struct weft_mem_mr *parent, const struct weft_mem_attr *attr, uint32_t stag);
/**
 * Invalidate it: its STag is invalid when this returns. -EBUSY: windows are bound. -ENOENT: it is
 * not valid. Any thread that keeps mr alive (a worker that looked it up in this poll, or the
 * owner); no lock, no heap.
 */
int weft_mem_fast_invalidate(struct weft_mem *m, struct weft_mem_mr *mr);
/**
 * After weft_mem_fast_invalidate(): whether no operation accesses the memory any more. Online
 * worker only.
 */
bool weft_mem_drained(struct weft_mem *m, const struct weft_mem_mr *mr);
/**
 * Deallocate it, valid or not; then as weft_mem_invalidate(). -EBUSY: windows are bound; nothing
 * was done. Any thread, one caller. Takes a lock, and waits for a worker that is in the middle of
 * changing it.
 */
int weft_mem_dealloc(struct weft_mem *m, struct weft_mem_mr *mr, void (*freed)(void *arg),
                     void *arg);

/* ---- Reducing a region under the same STag (mem_narrow.c) ---- */

/**
 * Reduce a region to these rights and to this number of octets from its beginning. Each of the two
 * is one store of a smaller value. So a reader sees the old values, the new ones, or one of each.
 * Every worker sees the new values from its next poll on; weft_mem_narrowed() tells when all do. No
 * operation is waited for: operations that read or change memory check again for each step. Online
 * worker only; no lock, no heap. Returns 0, or
 * - -ENOENT: the STag is not that of a valid region
 * - -EBUSY: windows are bound, or the region is being reduced
 * - -EINVAL: a right or an octet that the region does not have, or length 0
 * - -EOPNOTSUPP: rights that are not allowed without those taken away (weft_mem_check_attr())
 */
int weft_mem_narrow(struct weft_mem *m, uint32_t stag, uint32_t access, uint64_t len_bytes,
                    uint64_t *token);
/** Whether all workers see the result of weft_mem_narrow(). Online worker only. */
bool weft_mem_narrowed(struct weft_mem *m, uint64_t token);
#endif /* WEFT_MEM_FAST_H */
