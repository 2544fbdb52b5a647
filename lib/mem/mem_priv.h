/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MEM_PRIV_H
#define MEM_PRIV_H

/**
 * @file
 * What the sources of lib/mem share among themselves.
 */

#include "weft_mem.h"

WEFT_LOG_DECLARE(mem);

/** Say to the medium that octets changed; they have been stored already, so no flush misses them.
 */
static inline void
mem_mark(const struct weft_mem_mr *mr, uint64_t to, uint64_t len_bytes)
{
	if (mr->persist != NULL)
		weft_persist_mark(mr->persist, mr->persist_off_bytes + (to - mr->base_to),
		                  len_bytes);
}

#endif /* MEM_PRIV_H */
