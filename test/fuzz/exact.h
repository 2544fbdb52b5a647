/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_FUZZ_EXACT_H
#define WEFT_FUZZ_EXACT_H

/**
 * @file Octets of an exact length without an allocation: places in a static buffer. The address
 * sanitizer permits access only to the places that are lent at the moment. A returned place is the
 * last to be lent again, so that a use after its return is detected.
 */

#include <sanitizer/asan_interface.h>

#include "fuzz.h"

#define EXACT_PLACES 1024u
#define EXACT_MAX    2048u

struct exact_room {
	/** A gap after each place separates it from the next. */
	_Alignas(64) uint8_t place[EXACT_PLACES][EXACT_MAX + 64];
	uint16_t free[EXACT_PLACES]; /**< a queue */
	uint16_t lent[EXACT_PLACES]; /**< octets in use of a lent place */
	unsigned int head, nfree;
	bool ready;
};

static inline void
exact_init(struct exact_room *r)
{
	ASAN_POISON_MEMORY_REGION(r->place, sizeof(r->place));
	for (unsigned int i = 0; i < EXACT_PLACES; i++)
		r->free[i] = (uint16_t)i;
	r->nfree = EXACT_PLACES;
	r->ready = true;
}

/** A copy of len octets. Return it with exact_free(). */
static inline uint8_t *
exact_copy(struct exact_room *r, const void *p, uint32_t len)
{
	unsigned int i;

	if (!r->ready)
		exact_init(r);
	FUZZ_CHECK(len <= EXACT_MAX && r->nfree > 0);
	i = r->free[r->head++ % EXACT_PLACES];
	r->nfree--;
	r->lent[i] = (uint16_t)len;
	ASAN_UNPOISON_MEMORY_REGION(r->place[i], len);
	if (len > 0)
		memcpy(r->place[i], p, len);
	return r->place[i];
}

static inline void
exact_free(struct exact_room *r, const uint8_t *p)
{
	unsigned int i = (unsigned int)((size_t)(p - r->place[0]) / sizeof(r->place[0]));

	FUZZ_CHECK(i < EXACT_PLACES && p == r->place[i] && r->nfree < EXACT_PLACES);
	ASAN_POISON_MEMORY_REGION(r->place[i], (r->lent[i] + 7u) & ~7u);
	r->free[(r->head + r->nfree++) % EXACT_PLACES] = (uint16_t)i;
}

#endif /* WEFT_FUZZ_EXACT_H */
