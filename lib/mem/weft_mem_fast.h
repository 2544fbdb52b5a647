/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MEM_FAST_H
#define WEFT_MEM_FAST_H

/**
 * @file
 * Regions and windows that change while streams use them: those that come and go by work request,
 * and grants that are made smaller. Internal; used by verbs.
 */

#include "weft_mem.h"

/* ---- Regions and windows that come and go by work request (mem_fast.c) ---- */

/**
 * Reserve a slot and all the memory that registering will need; not valid yet. kind: WEFT_MEM_FAST
 * or WEFT_MEM_WINDOW. `bound` as in weft_mem_attr; it begins as WEFT_MEM_CLOSED. -ENOSPC, -ENOMEM.
 * Any thread; takes a lock.
 */
int weft_mem_alloc(struct weft_mem *m, struct weft_mem_pd *pd, enum weft_mem_kind kind, void *owner,
                   uint32_t *bound, struct weft_mem_mr **out);
/** The same with a key of its own, copied, for attributes to name (mr->hash_key). 0 octets: none.
 */
int weft_mem_alloc_keyed(struct weft_mem *m, struct weft_mem_pd *pd, enum weft_mem_kind kind,
                         void *owner, uint32_t *bound, const void *hash_key,
                         uint32_t hash_key_bytes, struct weft_mem_mr **out);
/** The STag that the next weft_mem_take_stag() will give. */
uint32_t weft_mem_next_stag(const struct weft_mem_mr *mr);
/** A fresh STag, for one registration of mr. Any thread, lock-free. */
uint32_t weft_mem_take_stag(struct weft_mem *m, struct weft_mem_mr *mr);
/**
 * Make it valid under an STag taken before. attr passed weft_mem_check_attr(); a window's parent is
 * pinned: the caller has counted the window in parent->bound, and takes that back on an error.
 * scope: the region's domain, or the one stream's that may use it; the stream may end before it.
 * -EBUSY (is valid), -EAGAIN (operations of its former life still hold it, or somebody changes it
 * at this moment: come back), -ESTALE (deallocated). An online worker only; no lock, no heap.
 */
int weft_mem_fill(struct weft_mem *m, struct weft_mem_mr *mr, struct weft_mem_pd *scope,
                  struct weft_mem_mr *parent, const struct weft_mem_attr *attr, uint32_t stag);
/**
 * Make it invalid: its STag resolves no more. -EBUSY: windows are bound to it; -ENOENT: it is not
 * valid. Any thread that keeps mr alive (a worker that looked it up in this poll, or the owner); no
 * lock, no heap.
 */
int weft_mem_fast_invalidate(struct weft_mem *m, struct weft_mem_mr *mr);
/** After weft_mem_fast_invalidate(): whether nothing touches the memory any more. An online worker
 * only. */
bool weft_mem_drained(struct weft_mem *m, const struct weft_mem_mr *mr);
/**
 * Give it up, valid or not; then as weft_mem_invalidate(). -EBUSY: windows are bound to it, nothing
 * was done. Any thread, one caller; takes a lock, and waits for a worker that is in the middle of
 * changing it.
 */
int weft_mem_dealloc(struct weft_mem *m, struct weft_mem_mr *mr, void (*freed)(void *arg),
                     void *arg);

/* ---- Less of a grant, under the same STag (mem_narrow.c) ---- */

/**
 * What is left of a region: rights, and octets from its beginning. Each of the two is one store of
 * something smaller, so whoever looks sees what was, what is, or one of each; every worker sees
 * what is from its next poll on, which weft_mem_narrowed() says of them all. No operation is waited
 * for: those that read or change memory look again for each step. -ENOENT (the STag resolves to no
 * region), -EBUSY (windows are bound to it, or it is being narrowed), -EINVAL (a right or an octet
 * that it does not have, no length), -EOPNOTSUPP (rights that cannot be without those taken,
 * weft_mem_check_attr()). An online worker only; no lock, no heap.
 */
int weft_mem_narrow(struct weft_mem *m, uint32_t stag, uint32_t access, uint64_t len_bytes,
                    uint64_t *token);
/** Whether weft_mem_narrow() holds for every worker by now. An online worker only. */
bool weft_mem_narrowed(struct weft_mem *m, uint64_t token);
#endif /* WEFT_MEM_FAST_H */
