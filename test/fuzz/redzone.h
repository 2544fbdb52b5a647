/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_FUZZ_REDZONE_H
#define WEFT_FUZZ_REDZONE_H

/**
 * @file Copies of octets with red zones of the address sanitizer around them, in the slots of a
 * static pool, without an allocation. The sanitizer permits access only to slots in use, and only
 * to the length of the copy. A freed slot is the last to be used again, so that a use after free is
 * detected.
 */

#include <sanitizer/asan_interface.h>

#include "fuzz.h"

#define REDZONE_SLOTS 1024u
#define REDZONE_MAX   2048u

struct redzone_pool {
	/** A gap after each slot separates it from the next. */
	_Alignas(64) uint8_t slot[REDZONE_SLOTS][REDZONE_MAX + 64];
	uint16_t free[REDZONE_SLOTS]; /**< a queue */
	uint16_t len[REDZONE_SLOTS];  /**< octets in use of a slot */
	unsigned int head, nfree;
	bool ready;
};

static inline void
redzone_init(struct redzone_pool *r)
{
	ASAN_POISON_MEMORY_REGION(r->slot, sizeof(r->slot));
	for (unsigned int i = 0; i < REDZONE_SLOTS; i++)
		r->free[i] = (uint16_t)i;
	r->nfree = REDZONE_SLOTS;
	r->ready = true;
}

/** A copy of len octets. Return it with redzone_free(). */
static inline uint8_t *
redzone_copy(struct redzone_pool *r, const void *p, uint32_t len)
{
	unsigned int i;

	if (!r->ready)
		redzone_init(r);
	FUZZ_CHECK(len <= REDZONE_MAX && r->nfree > 0);
	i = r->free[r->head++ % REDZONE_SLOTS];
	r->nfree--;
	r->len[i] = (uint16_t)len;
	ASAN_UNPOISON_MEMORY_REGION(r->slot[i], len);
	if (len > 0)
		memcpy(r->slot[i], p, len);
	return r->slot[i];
}

static inline void
redzone_free(struct redzone_pool *r, const uint8_t *p)
{
	unsigned int i = (unsigned int)((size_t)(p - r->slot[0]) / sizeof(r->slot[0]));

	FUZZ_CHECK(i < REDZONE_SLOTS && p == r->slot[i] && r->nfree < REDZONE_SLOTS);
	ASAN_POISON_MEMORY_REGION(r->slot[i], (r->len[i] + 7u) & ~7u);
	r->free[(r->head + r->nfree++) % REDZONE_SLOTS] = (uint16_t)i;
}

#endif /* WEFT_FUZZ_REDZONE_H */
