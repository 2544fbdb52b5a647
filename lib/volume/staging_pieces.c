/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Which pieces of staging memory are free: a map of bits, searched a word at a time. */

#include <errno.h>
#include <stdlib.h>

#include "staging_pieces.h"

#define PIECES_NONE UINT32_MAX

__extension__ typedef unsigned __int128 pieces_u128;

int
staging_pieces_init(struct staging_pieces *p, uint32_t n, uint32_t longest)
{
	p->n = p->nfree = n;
	p->nwords = n / 64 + (n % 64 != 0);
	p->nareas = n / longest < WEFT_STAGING_AREAS ? n / longest : WEFT_STAGING_AREAS;
	p->area_pieces = n / p->nareas;
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

/** Which of the pieces 64 * word to 64 * word + 63 are free and in [from, to). */
static uint64_t
pieces_word(const struct staging_pieces *p, uint32_t word, uint32_t from, uint32_t to)
{
	uint64_t in = UINT64_MAX;

	if (word >= p->nwords || word * 64 >= to)
		return 0;
	if (word * 64 + 64 <= from)
		return 0;
	if (from > word * 64)
		in <<= from - word * 64;
	if (to < word * 64 + 64)
		in &= (UINT64_C(1) << (to - word * 64)) - 1;
	return p->free[word] & in;
}

/**
 * The first of n free neighbours in [from, to). A gap of exactly n is best, because it leaves no
 * smaller gap. Else the highest place: requests without `contiguous` take the lowest pieces, so
 * long gaps stay at the other end.
 */
static uint32_t
pieces_run(const struct staging_pieces *p, uint32_t n, uint32_t from, uint32_t to)
{
	uint32_t highest = PIECES_NONE;
	uint64_t above = 0;

	for (uint32_t i = (to - 1) / 64 + 1; i-- > from / 64;) {
		const uint64_t word = pieces_word(p, i, from, to);
		const uint64_t before = i > from / 64 ? pieces_word(p, i - 1, from, to) >> 63 : 0;
		const pieces_u128 two = word | (pieces_u128)above << 64;
		pieces_u128 run = two; /* bit b: `len` pieces from b on are free */
		uint64_t starts, exact;

		for (uint32_t len = 1, more; len < n; len += more) {
			more = len < n - len ? len : n - len;
			run &= run >> more;
		}
		starts = (uint64_t)run;
		exact = starts & ~(word << 1 | before) & ~(uint64_t)(two >> n);
		if (exact != 0)
			return i * 64 + 63 - (uint32_t)__builtin_clzll(exact);
		if (highest == PIECES_NONE && starts != 0)
			highest = i * 64 + 63 - (uint32_t)__builtin_clzll(starts);
		above = word;
	}
	return highest;
}

/** The next free piece of [from, to); PIECES_NONE: there is none. */
static uint32_t
pieces_lowest(const struct staging_pieces *p, uint32_t from, uint32_t to)
{
	for (uint32_t i = from / 64; i * 64 < to; i++) {
		const uint64_t word = pieces_word(p, i, from, to);

		if (word != 0)
			return i * 64 + (uint32_t)__builtin_ctzll(word);
	}
	return PIECES_NONE;
}

static uint32_t
pieces_area(const struct staging_pieces *p, uint32_t piece)
{
	const uint32_t area = piece / p->area_pieces;

	return area < p->nareas ? area : p->nareas - 1;
}

static uint32_t
pieces_area_end(const struct staging_pieces *p, uint32_t area)
{
	return area + 1 < p->nareas ? (area + 1) * p->area_pieces : p->n;
}

static void
pieces_mark(struct staging_pieces *p, const uint32_t *out, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		p->free[out[i] / 64] &= ~(UINT64_C(1) << out[i] % 64);
	p->nfree -= n;
}

bool
staging_pieces_take(struct staging_pieces *p, uint32_t n, bool contiguous, uint32_t *out)
{
	uint32_t at = 0;

	if (n > p->nfree)
		return false;
	if (contiguous) {
		at = pieces_run(p, n, 0, p->n);
		if (at == PIECES_NONE)
			return false;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (!contiguous)
			at = pieces_lowest(p, at, p->n);
		out[i] = at++;
	}
	pieces_mark(p, out, n);
	return true;
}

/** The first of n free neighbours in one area; of those areas in which the holder has pieces, or of
 * the others. */
static uint32_t
pieces_run_in(const struct staging_pieces *p, uint32_t n, const struct staging_areas *has, bool its)
{
	for (uint32_t a = p->nareas; a-- > 0;) {
		uint32_t at;

		if ((has->pieces[a] > 0) != its)
			continue;
		at = pieces_run(p, n, a * p->area_pieces, pieces_area_end(p, a));
		if (at != PIECES_NONE)
			return at;
	}
	return PIECES_NONE;
}

/** Write free pieces of an area to `out`, at most n. How many. */
static uint32_t
pieces_of_area(const struct staging_pieces *p, uint32_t area, uint32_t n, uint32_t *out)
{
	const uint32_t end = pieces_area_end(p, area);
	uint32_t at = area * p->area_pieces, k = 0;

	while (k < n && (at = pieces_lowest(p, at, end)) != PIECES_NONE)
		out[k++] = at++;
	return k;
}

static uint32_t
pieces_count(const struct staging_pieces *p, uint32_t area)
{
	const uint32_t from = area * p->area_pieces, to = pieces_area_end(p, area);
	uint32_t n = 0;

	for (uint32_t i = from / 64; i * 64 < to; i++)
		n += (uint32_t)__builtin_popcountll(pieces_word(p, i, from, to));
	return n;
}

/** Write n free pieces to `out`: first of the areas in which the holder has some, then of up to
 * `others` other ones, those with the most free pieces first. How many there were. */
static uint32_t
pieces_scattered(const struct staging_pieces *p, uint32_t n, const struct staging_areas *has,
                 uint32_t others, uint32_t *out)
{
	uint32_t left[WEFT_STAGING_AREAS], k = 0;

	for (uint32_t a = 0; a < p->nareas; a++) {
		left[a] = has->pieces[a] == 0 ? pieces_count(p, a) : 0;
		if (has->pieces[a] > 0)
			k += pieces_of_area(p, a, n - k, out + k);
	}
	while (k < n && others-- > 0) {
		uint32_t most = 0;

		for (uint32_t a = 1; a < p->nareas; a++)
			if (left[a] > left[most])
				most = a;
		if (left[most] == 0)
			break;
		left[most] = 0;
		k += pieces_of_area(p, most, n - k, out + k);
	}
	return k;
}

bool
staging_pieces_take_in(struct staging_pieces *p, uint32_t n, bool contiguous,
                       struct staging_areas *has, uint32_t most, uint32_t *out)
{
	const uint32_t others = most > has->nareas ? most - has->nareas : 0;
	uint32_t first;

	if (n > p->nfree)
		return false;
	if (contiguous) {
		first = pieces_run_in(p, n, has, true);
		if (first == PIECES_NONE && others > 0)
			first = pieces_run_in(p, n, has, false);
		if (first == PIECES_NONE)
			return false;
		for (uint32_t i = 0; i < n; i++)
			out[i] = first + i;
	} else if (pieces_scattered(p, n, has, others, out) < n) {
		return false;
	}
	for (uint32_t i = 0; i < n; i++)
		has->nareas += has->pieces[pieces_area(p, out[i])]++ == 0;
	pieces_mark(p, out, n);
	return true;
}

void
staging_pieces_give(struct staging_pieces *p, const uint32_t *pieces, uint32_t n,
                    struct staging_areas *has)
{
	for (uint32_t i = 0; i < n; i++) {
		p->free[pieces[i] / 64] |= UINT64_C(1) << pieces[i] % 64;
		if (has != NULL)
			has->nareas -= --has->pieces[pieces_area(p, pieces[i])] == 0;
	}
	p->nfree += n;
}
