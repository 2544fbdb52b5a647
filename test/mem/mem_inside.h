/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MEM_INSIDE_H
#define MEM_INSIDE_H

/** @file What tests see of the table of regions. */

#include "mem_priv.h"

/** Copy the i-th region; -ENOENT behind the last. */
static inline int
inside_mem_get(struct weft_mem *m, uint32_t i, struct weft_mem_mr *copy)
{
	struct weft_mem_mr *mr;

	TAILQ_FOREACH (mr, &m->live, link) {
		if (i-- == 0) {
			weft_mem_snapshot(m, mr, copy);
			return 0;
		}
	}
	return -ENOENT;
}

/** The bits of an STag that are not its slot: mem_permute()'s value. */
static inline uint32_t
stag_value(uint32_t stag, unsigned int index_bits)
{
	return stag >> (WEFT_MEM_KEY_BITS + index_bits) << WEFT_MEM_KEY_BITS |
	       (stag & ((1U << WEFT_MEM_KEY_BITS) - 1));
}

#endif /* MEM_INSIDE_H */
