/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MEM_FIND_H
#define WEFT_MEM_FIND_H

/**
 * @file What is done with the STag of each message: the look-up in the table, and the check of a
 * range against the region. Inline, because it is a good part of the work for a short message.
 * Internal; used by ddp, rdmap and verbs.
 */

#include "weft_mem.h"

/** The part of a table that a look-up reads; the first member of struct weft_mem. Constant. */
struct weft_mem_slots {
	struct weft_mem_mr *_Atomic *slot;
	uint32_t index_mask;
};

/** The number of low bits of an STag that are no part of its slot: the key of an STag. */
#define WEFT_MEM_KEY_BITS 8

/** The slot of an STag in a table. */
static inline uint32_t
weft_mem_slot_of(const struct weft_mem_slots *t, uint32_t stag)
{
	return stag >> WEFT_MEM_KEY_BITS & t->index_mask;
}

/** NULL: the STag is not valid now. Lock-free. Good until the caller's next quiescent state. */
static inline struct weft_mem_mr *
weft_mem_lookup(struct weft_mem *m, uint32_t stag)
{
	const struct weft_mem_slots *t = (const void *)m;
	struct weft_mem_mr *mr =
	        atomic_load_explicit(&t->slot[weft_mem_slot_of(t, stag)], memory_order_acquire);

	return likely(mr != NULL && mr->stag == stag) ? mr : NULL;
}

/**
 * Check pd, range and rights, in enum order; nothing can wrap. Length 0: pd and rights only (RFC
 * 5040 s5.2 note).
 */
static inline enum weft_mem_err
weft_mem_check(const struct weft_mem_mr *mr, const struct weft_mem_pd *pd, uint64_t to,
               uint64_t len_bytes, uint32_t access)
{
	if (unlikely(mr == NULL))
		return WEFT_MEM_BAD_STAG;
	if (unlikely(!weft_mem_in_scope(mr, pd)))
		return WEFT_MEM_BAD_PD;
	if (len_bytes > 0) {
		uint64_t off = to - mr->base_to; /* used only if to >= base_to */
		/* loaded once: it may become smaller at any moment */
		uint64_t have = weft_mem_len(mr);

		/* The last octet may be octet 2^64 - 1, hence the - 1. */
		if (unlikely(len_bytes - 1 > UINT64_MAX - to))
			return WEFT_MEM_TO_WRAP;
		if (unlikely(to < mr->base_to || off >= have || len_bytes > have - off))
			return WEFT_MEM_BOUNDS;
	}
	if (unlikely((weft_mem_access(mr) & access) != access))
		return WEFT_MEM_ACCESS;
	return WEFT_MEM_OK;
}

/**
 * Whether weft_mem_check() allows a range that is not empty, in fewer steps: no region wraps
 * (weft_mem_check_attr()), so a TO before it has an offset behind its end, and a range that ends
 * inside it does not wrap.
 */
static inline bool
weft_mem_allows(const struct weft_mem_mr *mr, const struct weft_mem_pd *pd, uint64_t to,
                uint64_t len_bytes, uint32_t access)
{
	uint64_t off = to - mr->base_to;
	/* loaded once: it may become smaller at any moment */
	uint64_t have = weft_mem_len(mr);

	return likely(weft_mem_in_scope(mr, pd)) && off < have && len_bytes <= have - off &&
	       (~weft_mem_access(mr) & access) == 0;
}

#endif /* WEFT_MEM_FIND_H */
