/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The table of ranges beside a list that is searched from end to end: seeded draws.
 */

#include <stdlib.h>

#include "vol_range.h"
#include "weft_test.h"

#define RANGES 96
#define STEPS  60000
#define BLOCK  4096U
#define SEED   0x72616e6765ULL

struct entry {
	struct weft_vol_range r;
	bool used;
	uint64_t came; /**< its place in the order of arrival */
};

static struct entry list[RANGES];
static struct vol_ranges table;
static uint64_t arrivals, state;

static uint32_t
draw(uint32_t below)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(state >> 33) % below;
}

static bool
meets(const struct entry *e, uint64_t off, uint64_t end, uint8_t mode)
{
	if (!e->used || e->r.off_bytes >= end || e->r.end_bytes <= off)
		return false;
	return mode == VOL_RANGE_WRITE ? e->r.mode != VOL_RANGE_FLUSH
	                               : e->r.mode == VOL_RANGE_WRITE;
}

/** Those of the list that such a range waits for; before: only those that came before it. */
static uint32_t
blockers(uint64_t off, uint64_t end, uint8_t mode, uint64_t before)
{
	uint32_t n = 0;

	for (unsigned int i = 0; i < RANGES; i++)
		n += list[i].came < before && meets(&list[i], off, end, mode);
	return n;
}

/** Of the list: the lowest offset that such a range would wait for. */
static const struct weft_vol_range *
lowest(uint64_t off, uint64_t end, uint8_t mode)
{
	const struct weft_vol_range *first = NULL;

	for (unsigned int i = 0; i < RANGES; i++)
		if (meets(&list[i], off, end, mode) &&
		    (first == NULL || list[i].r.off_bytes < first->off_bytes))
			first = &list[i].r;
	return first;
}

static void
check_counts(void)
{
	for (unsigned int i = 0; i < RANGES; i++)
		if (list[i].used)
			CHECK_EQ(list[i].r.blockers,
			         blockers(list[i].r.off_bytes, list[i].r.end_bytes, list[i].r.mode,
			                  list[i].came));
}

/** Every node stands between its neighbors, and knows the greatest end below it. Returns that. */
static uint64_t
check_tree(const struct weft_vol_range *t, uint64_t *last_off, unsigned int *n)
{
	uint64_t end, below;

	if (t == NULL)
		return 0;
	end = check_tree(t->left, last_off, n);
	CHECK(t->off_bytes >= *last_off);
	CHECK(t->left == NULL || t->left->prio <= t->prio);
	CHECK(t->right == NULL || t->right->prio <= t->prio);
	*last_off = t->off_bytes;
	++*n;
	if (t->end_bytes > end)
		end = t->end_bytes;
	below = check_tree(t->right, last_off, n);
	if (below > end)
		end = below;
	CHECK_EQ(t->max_end_bytes, end);
	return end;
}

static void
add(struct entry *e)
{
	uint64_t off = (uint64_t)draw(64) * BLOCK;
	uint64_t end = off + (1 + draw(draw(8) == 0 ? 64 : 3)) * (uint64_t)BLOCK;
	uint8_t mode = (uint8_t)draw(3);
	const struct weft_vol_range *met, *want = lowest(off, end, mode);
	uint32_t n = blockers(off, end, mode, UINT64_MAX);

	CHECK_EQ(vol_range_meets(&table, off, end, mode), n > 0);
	met = vol_range_met(&table, off, end, mode);
	CHECK((met == NULL) == (want == NULL));
	CHECK(met == NULL || met->off_bytes == want->off_bytes);
	*e = (struct entry){.used = true, .came = ++arrivals};
	e->r.off_bytes = off;
	e->r.end_bytes = end;
	e->r.mode = mode;
	CHECK_EQ(vol_range_add(&table, &e->r), n == 0);
	CHECK_EQ(e->r.blockers, n);
}

static void
del(struct entry *e)
{
	bool was_blocked[RANGES];
	struct weft_vol_range *freed;

	for (unsigned int i = 0; i < RANGES; i++)
		was_blocked[i] = list[i].used && list[i].r.blockers > 0;
	freed = vol_range_del(&table, &e->r);
	e->used = false;
	/* The list has exactly those that wait for none any more. */
	for (; freed != NULL; freed = freed->next) {
		struct entry *f = (struct entry *)((uint8_t *)freed - offsetof(struct entry, r));
		unsigned int i = (unsigned int)(f - list);

		CHECK(i < RANGES && f->used && was_blocked[i] && f->r.blockers == 0);
		was_blocked[i] = false;
	}
	for (unsigned int i = 0; i < RANGES; i++)
		CHECK(!was_blocked[i] || !list[i].used || list[i].r.blockers > 0);
}

/** fill: of 100 steps, those that add where both are possible. */
static void
draws(uint32_t fill, uint64_t seed)
{
	unsigned int n;
	uint64_t last;

	state = seed;
	for (unsigned int step = 0; step < STEPS; step++) {
		struct entry *e = &list[draw(RANGES)];

		if (!e->used && draw(100) < fill)
			add(e);
		else if (e->used && draw(100) >= fill)
			del(e);
		if (step % 16 == 0) {
			n = 0;
			last = 0;
			(void)check_tree(table.root, &last, &n);
			check_counts();
		}
	}
	for (unsigned int i = 0; i < RANGES; i++)
		if (list[i].used)
			del(&list[i]);
	CHECK(table.root == NULL);
}

static void
test_few(void)
{
	draws(15, SEED);
}

static void
test_many(void)
{
	draws(80, SEED + 1);
}

/** Ranges that all begin at one offset stand in the order of arrival. */
static void
test_same(void)
{
	for (unsigned int i = 0; i < RANGES; i++) {
		list[i] = (struct entry){.used = true, .came = ++arrivals};
		list[i].r.off_bytes = 0;
		list[i].r.end_bytes = BLOCK * (uint64_t)(1 + i % 7);
		list[i].r.mode = VOL_RANGE_WRITE;
		CHECK_EQ(vol_range_add(&table, &list[i].r), i == 0);
		CHECK_EQ(list[i].r.blockers, i);
	}
	for (unsigned int i = 0; i < RANGES; i++) {
		CHECK_EQ(list[i].r.blockers, 0);
		del(&list[i]);
	}
	CHECK(table.root == NULL);
}

WEFT_TEST_MAIN({"few at a time", test_few}, {"many at a time", test_many},
               {"the same offset", test_same})
