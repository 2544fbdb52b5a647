/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_FUZZ_GUARD_H
#define WEFT_FUZZ_GUARD_H

/**
 * @file Memory that a peer may not exceed: inaccessible pages around it, canary octets around it,
 * and a copy of the content it must have, except for octets that may change.
 */

#include <string.h>
#include <sys/mman.h>

#include "fuzz.h"

#define GUARD_PAGE   4096u
#define GUARD_SLACK  104u /* octets between the memory and its inaccessible pages */
#define GUARD_LEN    (GUARD_PAGE - 2 * GUARD_SLACK)
#define GUARD_CANARY 0xc5

_Static_assert(GUARD_LEN % 8 == 0 && GUARD_SLACK % 8 == 0, "it is checked by words");

struct guard {
	uint8_t *map;
	uint8_t *mem;                          /**< GUARD_LEN octets */
	_Alignas(8) uint8_t shadow[GUARD_LEN]; /**< the required content of mem */
	/** 0xff: the octet may change, and shadow does not count; 0: it may not. */
	_Alignas(8) uint8_t may[GUARD_LEN];
};

/** Prepare for an input. The mapping is kept between inputs. */
static inline void
guard_open(struct guard *g)
{
	if (g->map == NULL) {
		g->map = mmap(NULL, 3 * GUARD_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		FUZZ_CHECK(g->map != MAP_FAILED);
		FUZZ_CHECK(mprotect(g->map + GUARD_PAGE, GUARD_PAGE, PROT_READ | PROT_WRITE) == 0);
		g->mem = g->map + GUARD_PAGE + GUARD_SLACK;
	}
	memset(g->map + GUARD_PAGE, GUARD_CANARY, GUARD_PAGE);
	memset(g->shadow, GUARD_CANARY, GUARD_LEN);
	memset(g->may, 0, GUARD_LEN);
}

static inline void
guard_allow(struct guard *g, uint64_t off, uint64_t len)
{
	FUZZ_CHECK(off <= GUARD_LEN && len <= GUARD_LEN - off);
	memset(g->may + off, 0xff, len);
}

/** No octet from `off` on may change from now on. */
static inline void
guard_seal_from(struct guard *g, uint64_t off)
{
	memcpy(g->shadow + off, g->mem + off, GUARD_LEN - off);
	memset(g->may + off, 0, GUARD_LEN - off);
}

static inline void
guard_seal(struct guard *g)
{
	guard_seal_from(g, 0);
}

static inline void
guard_slack(const uint8_t *p)
{
	/* The first octet is right, and each equals the one before it. */
	FUZZ_CHECK(p[0] == GUARD_CANARY && memcmp(p, p + 1, GUARD_SLACK - 1) == 0);
}

/** By words: whether an octet differs that may not change. Accesses only the guard's own memory. */
__attribute__((no_sanitize("address", "undefined"))) static inline bool
guard_differs(const struct guard *g)
{
	const uint64_t *mem = (const void *)g->mem, *shadow = (const void *)g->shadow;
	const uint64_t *may = (const void *)g->may;
	uint64_t wrong = 0;

	for (unsigned int i = 0; i < GUARD_LEN / 8; i++)
		wrong |= mem[i] ^ shadow[i];
	if (wrong == 0)
		return false;
	wrong = 0;
	for (unsigned int i = 0; i < GUARD_LEN / 8; i++)
		wrong |= (mem[i] ^ shadow[i]) & ~may[i];
	return wrong != 0;
}

static inline void
guard_check(const struct guard *g)
{
	guard_slack(g->mem - GUARD_SLACK);
	guard_slack(g->mem + GUARD_LEN);
	FUZZ_CHECK(!guard_differs(g));
}

#endif /* WEFT_FUZZ_GUARD_H */
