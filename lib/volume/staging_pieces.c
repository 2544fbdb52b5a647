/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Which pieces of staging memory are free: a map of bits, searched a word at a time. */

#include <errno.h>
#include <stdlib.h>

#include "staging_pieces.h"

#define PIECES_NONE UINT32_MAX

__extension__ typedef unsigned __int128 pieces_u128;

int
staging_pieces_init(struct staging_pieces *p, uint32_t n)
{
	p->nfree = n;
	p->nwords = n / 64 + (n % 64 != 0);
	p->free = malloc(p->nwords * sizeof(p->free[0]));
	if (p->free == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->nwords; i++)
		p->free[i] = UINT64_MAX;
	if (n % 64 != 0)
		p->free[p->nwords - 1] = (UINT64_C(1) << n % 64) - 1;
	return 0;
}

void
staging_pieces_fini(struct staging_pieces *p)
{
	free(p->free);
	p->free = NULL;
}

/**
 * The first of n free neighbours. A gap of exactly n is best, because it leaves no smaller gap.
 * Else the highest place: requests without `contiguous` take the lowest pieces, so long gaps stay
 * at the other end.
 */
static uint32_t
pieces_run(const struct staging_pieces *p, uint32_t n)
{
	uint32_t highest = PIECES_NONE;

	for (uint32_t i = p->nwords; i-- > 0;) {
		const uint64_t before = i > 0 ? p->free[i - 1] >> 63 : 0;
		const pieces_u128 two =
		        p->free[i] | (pieces_u128)(i + 1 < p->nwords ? p->free[i + 1] : 0) << 64;
		pieces_u128 run = two; /* bit b: `len` pieces from b on are free */
		uint64_t starts, exact;

		for (uint32_t len = 1, more; len < n; len += more) {
			more = len < n - len ? len : n - len;
			run &= run >> more;
		}
		starts = (uint64_t)run;
		exact = starts & ~(p->free[i] << 1 | before) & ~(uint64_t)(two >> n);
		if (exact != 0)
			return i * 64 + 63 - (uint32_t)__builtin_clzll(exact);
		if (highest == PIECES_NONE && starts != 0)
			highest = i * 64 + 63 - (uint32_t)__builtin_clzll(starts);
	}
	return highest;
}

bool
staging_pieces_take(struct staging_pieces *p, uint32_t n, bool contiguous, uint32_t *out)
{
	uint32_t first, word = 0;

	if (n > p->nfree)
		return false;
	if (contiguous) {
		first = pieces_run(p, n);
		if (first == PIECES_NONE)
			return false;
		for (uint32_t i = 0; i < n; i++)
			out[i] = first + i;
	} else {
		uint64_t left = p->free[0];

		for (uint32_t i = 0; i < n; i++) {
			while (left == 0)
				left = p->free[++word];
			out[i] = word * 64 + (uint32_t)__builtin_ctzll(left);
			left &= left - 1;
		}
	}
	for (uint32_t i = 0; i < n; i++)
		p->free[out[i] / 64] &= ~(UINT64_C(1) << out[i] % 64);
	p->nfree -= n;
	return true;
}

void
staging_pieces_give(struct staging_pieces *p, const uint32_t *pieces, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		p->free[pieces[i] / 64] |= UINT64_C(1) << pieces[i] % 64;
	p->nfree += n;
}
