/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Regions and windows registered by work requests: STags, the rules of reuse, scopes, limits, every
 * edge of the range check, and readers that race with the owner.
 */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "mem_inside.h"
#include "weft_mem_fast.h"
#include "weft_test.h"
#include "weft_mem_find.h"

static uint64_t
splitmix(uint64_t *x)
{
	uint64_t z = *x += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static void
rng_fill(void *arg, void *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = (uint8_t)(splitmix(arg) >> 32);
}

static uint8_t memory[4096] __attribute__((aligned(4096)));

static struct weft_mem *
table(uint32_t n, unsigned int workers, uint64_t seed)
{
	static uint64_t x;
	struct weft_mem *m;

	x = seed;
	CHECK_EQ(weft_mem_create(n, workers, &(struct weft_rand){rng_fill, &x}, &m), 0);
	return m;
}

static struct weft_mem_attr
attr_of(void *addr, uint64_t len, uint64_t base_to, uint32_t access)
{
	return (struct weft_mem_attr){
	        .addr = addr, .len_bytes = len, .base_to = base_to, .access = access};
}

static void
count_freed(void *arg)
{
	++*(unsigned int *)arg;
}

static uint32_t
fill(struct weft_mem *m, struct weft_mem_mr *mr, const struct weft_mem_attr *a)
{
	uint32_t stag = weft_mem_take_stag(m, mr);

	CHECK_EQ(weft_mem_fill(m, mr, mr->account, NULL, a, stag), 0);
	return stag;
}

/* ---- STags ---- */

/** RFC 5042 s6.1.1: a new STag each time. A value is used again only after three eighths of its
 * slot's values. */
static void
test_stags(void)
{
	enum { BITS = 12, ALL = 1 << BITS, N = 10 * ALL };
	struct weft_mem *m = table(1 << (32 - BITS), 1, test_seed(21));
	struct weft_mem_pd pd = {.mem = m};
	struct weft_mem_attr a = attr_of(memory, sizeof(memory), 0, WEFT_ACCESS_REMOTE_WRITE);
	uint32_t *seen = calloc(N, sizeof(*seen)), last[ALL];
	unsigned int same = 0, bits = 0;
	struct weft_mem_mr *mr;

	memset(last, 0xff, sizeof(last));
	CHECK_EQ(weft_mem_alloc(m, &pd, WEFT_MEM_FAST, NULL, NULL, &mr), 0);
	for (unsigned int i = 0; i < N; i++) {
		uint32_t next = weft_mem_next_stag(mr), stag = fill(m, mr, &a), value;

		CHECK_EQ(stag, next);
		CHECK(stag != 0);
		CHECK(weft_mem_lookup(m, stag) == mr);
		if (i > 0)
			CHECK(weft_mem_lookup(m, seen[i - 1]) == NULL);
		value = stag_value(stag, 32 - BITS);
		CHECK_EQ(weft_mem_slot_of(&m->t, stag), mr->slot);
		CHECK_MSG(last[value] == UINT32_MAX || i - last[value] >= ALL / 8 * 3 - 2,
		          "value %x after %u registrations", value, i - last[value]);
		last[value] = i;
		seen[i] = stag;
		if (i > 0)
			bits += (unsigned int)__builtin_popcount(seen[i] ^ seen[i - 1]);
		if (i >= ALL / 4 * 3)
			same += seen[i] == seen[i - ALL / 4 * 3];
		CHECK_EQ(weft_mem_fast_invalidate(m, mr), 0);
		CHECK(weft_mem_lookup(m, stag) == NULL);
		CHECK(weft_mem_drained(m, mr));
	}
	/* Each round has another order. Successive STags differ in half of their bits. */
	CHECK_MSG(same < N / ALL * 8, "%u of %u came at the same place again", same, N);
	CHECK_MSG(bits > N * 59ULL / 10 && bits < N * 61ULL / 10, "%u bits in %u", bits, N);
	CHECK_EQ(weft_mem_dealloc(m, mr, NULL, NULL), 0);
	CHECK_EQ(weft_mem_reclaim(m), 1);
	free(seen);
	weft_mem_destroy(m);
}

/**
 * Regions with many registrations are allocated and freed with their connections. Their slots stay
 * usable for such regions and for weft_mem_reg().
 */
static void
test_no_slot_wears_out(void)
{
	enum { BITS = 12, ALL = 1 << BITS, SLOTS = 1 << (32 - BITS), LIVES = 40 };
	struct weft_mem *m = table(SLOTS, 1, test_seed(25));
	struct weft_mem_pd pd = {.mem = m};
	struct weft_mem_attr a = attr_of(memory, sizeof(memory), 0, WEFT_ACCESS_REMOTE_WRITE);
	struct weft_mem_mr **mr = calloc(SLOTS, sizeof(*mr));
	uint32_t last[ALL], slot = 0;
	uint64_t draws = 0;

	/* All other slots are taken. */
	for (uint32_t n = 1; n < SLOTS; n++)
		CHECK_EQ(weft_mem_reg(m, &pd, &a, &mr[n]), 0);
	memset(last, 0xff, sizeof(last));
	for (unsigned int life = 0; life < LIVES; life++) {
		CHECK_EQ(weft_mem_alloc(m, &pd, life % 2 ? WEFT_MEM_FAST : WEFT_MEM_WINDOW, NULL,
		                        NULL, &mr[0]),
		         0);
		if (life == 0)
			slot = mr[0]->slot;
		CHECK_EQ(mr[0]->slot, slot);
		for (unsigned int i = 0; i < ALL + life; i++) {
			uint32_t stag = weft_mem_take_stag(m, mr[0]),
			         value = stag_value(stag, 32 - BITS);

			/* The rule of a slot holds across its uses (RFC 5042 s6.1.1). */
			CHECK(last[value] == UINT32_MAX ||
			      draws - last[value] >= ALL / 8 * 3 - 2 * LIVES);
			last[value] = (uint32_t)draws++;
		}
		CHECK_EQ(weft_mem_dealloc(m, mr[0], NULL, NULL), 0);
		CHECK_EQ(weft_mem_reclaim(m), 1);
		/* weft_mem_reg() uses the slot in between. */
		CHECK_EQ(weft_mem_reg(m, &pd, &a, &mr[0]), 0);
		CHECK_EQ(mr[0]->slot, slot);
		last[stag_value(mr[0]->stag, 32 - BITS)] = (uint32_t)draws++;
		weft_mem_invalidate(m, mr[0], NULL, NULL);
		CHECK_EQ(weft_mem_reclaim(m), 1);
	}
	for (uint32_t n = 1; n < SLOTS; n++)
		weft_mem_invalidate(m, mr[n], NULL, NULL);
	CHECK_EQ(weft_mem_reclaim(m), SLOTS - 1);
	free(mr);
	weft_mem_destroy(m);
}

/** The STags of a region that a peer has seen do not reveal the region's next STag, nor those of
 * other regions. */
static void
test_unpredictable(void)
{
	enum { TABLES = 256, USES = 16 };
	unsigned int step[32] = {0}, equal = 0, n = 0;
	uint32_t first[USES] = {0};

	for (uint64_t t = 0; t < TABLES; t++) {
		struct weft_mem *m = table(1024, 1, test_seed(22) + t * 1000003);
		struct weft_mem_pd pd = {.mem = m};
		struct weft_mem_mr *mr[2];
		uint32_t stag, other, before = 0;

		for (unsigned int i = 0; i < 2; i++)
			CHECK_EQ(weft_mem_alloc(m, &pd, WEFT_MEM_FAST, NULL, NULL, &mr[i]), 0);
		for (unsigned int i = 0; i < USES; i++) {
			stag = weft_mem_take_stag(m, mr[0]);
			other = weft_mem_take_stag(m, mr[1]);
			equal += stag_value(stag, 10) == stag_value(other, 10);
			if (t == 0)
				first[i] = stag;
			else
				equal += stag == first[i];
			for (unsigned int b = 0; i > 0 && b < 22; b++)
				step[b] += ((stag_value(stag, 10) - before) >> b) & 1;
			n += i > 0;
			before = stag_value(stag, 10);
		}
		for (unsigned int i = 0; i < 2; i++)
			CHECK_EQ(weft_mem_dealloc(m, mr[i], NULL, NULL), 0);
		weft_mem_destroy(m);
	}
	CHECK_MSG(equal <= 2, "%u equal", equal);
	/* 3840 coin tosses, sigma 31: within six sigma on either side. */
	for (unsigned int b = 0; b < 22; b++)
		CHECK_MSG(step[b] > n / 2 - 186 && step[b] < n / 2 + 186, "bit %u: %u of %u", b,
		          step[b], n);
}

/* ---- The rules of reuse ---- */

static void
test_life(void)
{
	struct weft_mem *m = table(4, 1, 1);
	struct weft_mem_pd pd = {.mem = m};
	struct weft_mem_attr a = attr_of(memory, 100, 5, WEFT_ACCESS_REMOTE_WRITE);
	struct weft_mem_attr b = attr_of(memory + 100, 50, 0, WEFT_ACCESS_REMOTE_READ);
	struct weft_mem_mr *mr, copy;
	_Atomic uint32_t bound = 7;
	uint32_t s, s2;
	unsigned int freed = 0;

	CHECK_EQ(weft_mem_alloc(m, &pd, WEFT_MEM_FAST, &freed, &bound, &mr), 0);
	CHECK_EQ(bound, WEFT_MEM_CLOSED);
	CHECK_EQ(weft_mem_count(m), 1);
	CHECK_EQ(pd.regions, 1);
	CHECK(!weft_mem_valid(m, mr));
	CHECK(weft_mem_lookup(m, weft_mem_next_stag(mr)) == NULL);
	CHECK_EQ(weft_mem_fast_invalidate(m, mr), -ENOENT);
	CHECK_EQ(inside_mem_get(m, 0, &copy), 0);
	CHECK_EQ(copy.stag, 0);

	s = fill(m, mr, &a);
	CHECK_EQ(bound, 0);
	CHECK(weft_mem_valid(m, mr));
	CHECK(weft_mem_lookup(m, s) == mr && mr->addr == memory && mr->owner == &freed);
	CHECK_EQ(weft_mem_fill(m, mr, &pd, NULL, &b, weft_mem_take_stag(m, mr)), -EBUSY);
	CHECK_EQ(inside_mem_get(m, 0, &copy), 0);
	CHECK_EQ(copy.stag, s);
	CHECK_EQ(copy.base_to, 5);
	/* While windows are bound to the region, it cannot be invalidated. */
	bound = 2;
	CHECK_EQ(weft_mem_fast_invalidate(m, mr), -EBUSY);
	CHECK_EQ(weft_mem_dealloc(m, mr, NULL, NULL), -EBUSY);
	CHECK(weft_mem_lookup(m, s) == mr);
	bound = 0;
	CHECK_EQ(weft_mem_fast_invalidate(m, mr), 0);
	CHECK_EQ(weft_mem_fast_invalidate(m, mr), -ENOENT);
	CHECK(weft_mem_lookup(m, s) == NULL);
	s2 = fill(m, mr, &b);
	CHECK(s2 != s && weft_mem_lookup(m, s) == NULL && weft_mem_lookup(m, s2) == mr);
	CHECK(mr->addr == memory + 100 && mr->len_bytes == 50 &&
	      mr->access == WEFT_ACCESS_REMOTE_READ);
	/* Deallocated while valid. */
	CHECK_EQ(weft_mem_dealloc(m, mr, count_freed, &freed), 0);
	CHECK(weft_mem_lookup(m, s2) == NULL);
	CHECK_EQ(weft_mem_count(m), 0);
	CHECK_EQ(pd.regions, 1);
	CHECK_EQ(weft_mem_reclaim(m), 1);
	CHECK_EQ(freed, 1);
	CHECK_EQ(pd.regions, 0);
	weft_mem_destroy(m);
}

/** The structure is not written while a worker may use it or an operation holds it. */
static void
test_held(void)
{
	struct weft_mem *m = table(4, 2, 1);
	struct weft_mem_pd pd = {.mem = m};
	struct weft_mem_attr a = attr_of(memory, 100, 0, WEFT_ACCESS_REMOTE_WRITE);
	struct weft_mem_attr b = attr_of(memory + 100, 50, 0, WEFT_ACCESS_REMOTE_WRITE);
	struct weft_mem_mr *mr;
	unsigned int freed = 0;
	uint32_t s;

	CHECK_EQ(weft_mem_reader_register(m, 0), 0);
	CHECK_EQ(weft_mem_reader_register(m, 1), 0);
	weft_mem_online(m, 0);
	weft_mem_online(m, 1);
	CHECK_EQ(weft_mem_alloc(m, &pd, WEFT_MEM_FAST, NULL, NULL, &mr), 0);
	s = fill(m, mr, &a);
	CHECK(weft_mem_lookup(m, s) == mr); /* e.g. by worker 1 */
	CHECK_EQ(weft_mem_fast_invalidate(m, mr), 0);
	CHECK(!weft_mem_drained(m, mr));
	CHECK_EQ(weft_mem_fill(m, mr, &pd, NULL, &b, weft_mem_take_stag(m, mr)), -EAGAIN);
	weft_mem_quiescent(m, 0);
	CHECK_EQ(weft_mem_fill(m, mr, &pd, NULL, &b, weft_mem_take_stag(m, mr)), -EAGAIN);
	CHECK(mr->stag == s && mr->addr == memory);
	weft_mem_quiescent(m, 1);
	CHECK(weft_mem_drained(m, mr));
	fill(m, mr, &b);

	weft_mem_ref(mr);
	CHECK_EQ(weft_mem_fast_invalidate(m, mr), 0);
	weft_mem_quiescent(m, 0);
	weft_mem_quiescent(m, 1);
	CHECK(!weft_mem_drained(m, mr));
	CHECK_EQ(weft_mem_fill(m, mr, &pd, NULL, &a, weft_mem_take_stag(m, mr)), -EAGAIN);
	CHECK(mr->addr == memory + 100);
	weft_mem_unref(mr);
	CHECK(weft_mem_drained(m, mr));
	fill(m, mr, &a);

	/* Deallocated while an operation holds it: freed when the operation releases it. */
	weft_mem_ref(mr);
	CHECK_EQ(weft_mem_dealloc(m, mr, count_freed, &freed), 0);
	CHECK_EQ(weft_mem_fill(m, mr, &pd, NULL, &a, 1), -ESTALE);
	weft_mem_offline(m, 0);
	weft_mem_offline(m, 1);
	CHECK_EQ(weft_mem_reclaim(m), 0);
	weft_mem_unref(mr);
	CHECK_EQ(weft_mem_reclaim(m), 1);
	CHECK_EQ(freed, 1);
	weft_mem_destroy(m);
}

/* ---- Windows ---- */

static void
test_window(void)
{
	struct weft_mem *m = table(4, 1, 1);
	struct weft_mem_pd pd = {.mem = m};
	struct weft_mem_pd scope[2] = {{.mem = m, .home = &pd}, {.mem = m, .home = &pd}};
	struct weft_mem_attr a = attr_of(memory, 1000, 1ULL << 40, WEFT_ACCESS_MW_BIND);
	struct weft_mem_attr w = attr_of(memory + 100, 10, 0, WEFT_ACCESS_REMOTE_WRITE);
	struct weft_mem_mr *mr, *win;
	unsigned int freed = 0;
	uint32_t s;

	CHECK_EQ(weft_mem_reg(m, &pd, &a, &mr), 0);
	CHECK_EQ(weft_mem_alloc(m, &pd, WEFT_MEM_WINDOW, NULL, NULL, &win), 0);
	CHECK_EQ(pd.windows, 1);
	CHECK_EQ(pd.regions, 1);
	++*mr->bound; /* as the caller of weft_mem_fill() must */
	s = weft_mem_take_stag(m, win);
	CHECK_EQ(weft_mem_fill(m, win, &scope[0], mr, &w, s), 0);
	CHECK(weft_mem_lookup(m, s) == win);
	/* RFC 5042 s6.1.1: limited to a single stream. No other stream can use it, nor the domain
	 * as a whole. */
	CHECK_EQ(weft_mem_check(win, &scope[0], 0, 10, WEFT_ACCESS_REMOTE_WRITE), WEFT_MEM_OK);
	CHECK_EQ(weft_mem_check(win, &scope[1], 0, 10, WEFT_ACCESS_REMOTE_WRITE), WEFT_MEM_BAD_PD);
	CHECK_EQ(weft_mem_check(win, &pd, 0, 10, WEFT_ACCESS_REMOTE_WRITE), WEFT_MEM_BAD_PD);
	CHECK_EQ(weft_mem_check(win, &scope[0], 0, 11, WEFT_ACCESS_REMOTE_WRITE), WEFT_MEM_BOUNDS);
	CHECK_EQ(weft_mem_check(win, &scope[0], 0, 1, WEFT_ACCESS_REMOTE_READ), WEFT_MEM_ACCESS);
	/* Every stream of the domain can use the region. */
	CHECK_EQ(weft_mem_check(mr, &scope[1], 1ULL << 40, 10, WEFT_ACCESS_MW_BIND), WEFT_MEM_OK);
	CHECK(weft_mem_addr(win, 0) == memory + 100);

	/* An operation through the window holds the region, even if the window is invalidated. */
	weft_mem_ref(win);
	CHECK_EQ(mr->refs, 1);
	CHECK_EQ(weft_mem_close(mr->bound), -EBUSY);
	CHECK_EQ(weft_mem_fast_invalidate(m, win), 0);
	CHECK_EQ(weft_mem_close(mr->bound), 0);
	CHECK_EQ(weft_mem_close(mr->bound), -EALREADY);
	weft_mem_invalidate(m, mr, count_freed, &freed);
	CHECK_EQ(weft_mem_reclaim(m), 0);
	CHECK_EQ(weft_mem_dealloc(m, win, count_freed, &freed), 0);
	CHECK_EQ(weft_mem_reclaim(m), 0);
	weft_mem_unref(win);
	CHECK_EQ(weft_mem_reclaim(m), 2);
	CHECK_EQ(freed, 2);
	CHECK_EQ(pd.windows, 0);
	CHECK_EQ(pd.regions, 0);
	weft_mem_destroy(m);
}

/** RFC 5042 s6.4.1: one domain cannot take all slots. */
static void
test_limits(void)
{
	struct weft_mem *m = table(8, 1, 1);
	struct weft_mem_pd pd = {.mem = m, .max_regions = 3, .max_windows = 1}, other = {.mem = m};
	struct weft_mem_attr a = attr_of(memory, 100, 0, WEFT_ACCESS_REMOTE_WRITE);
	struct weft_mem_mr *mr[8], *none;

	CHECK_EQ(weft_mem_reg(m, &pd, &a, &mr[0]), 0);
	CHECK_EQ(weft_mem_alloc(m, &pd, WEFT_MEM_FAST, NULL, NULL, &mr[1]), 0);
	CHECK_EQ(weft_mem_reg(m, &pd, &a, &mr[2]), 0);
	CHECK_EQ(weft_mem_reg(m, &pd, &a, &none), -ENOSPC);
	CHECK_EQ(weft_mem_alloc(m, &pd, WEFT_MEM_FAST, NULL, NULL, &none), -ENOSPC);
	CHECK_EQ(weft_mem_alloc(m, &pd, WEFT_MEM_WINDOW, NULL, NULL, &mr[3]), 0);
	CHECK_EQ(weft_mem_alloc(m, &pd, WEFT_MEM_WINDOW, NULL, NULL, &none), -ENOSPC);
	CHECK_EQ(pd.refused, 3);
	/* A region counts until it is freed: its memory is still in use. */
	weft_mem_invalidate(m, mr[0], NULL, NULL);
	CHECK_EQ(weft_mem_reg(m, &pd, &a, &none), -ENOSPC);
	CHECK_EQ(weft_mem_reclaim(m), 1);
	CHECK_EQ(weft_mem_reg(m, &pd, &a, &mr[0]), 0);
	for (unsigned int i = 4; i < 8; i++)
		CHECK_EQ(weft_mem_reg(m, &other, &a, &mr[i]), 0);
	CHECK_EQ(weft_mem_reg(m, &other, &a, &none), -ENOSPC); /* the table is full */
	CHECK_EQ(other.refused, 0);
	CHECK_EQ(other.regions, 4);
	for (unsigned int i = 0; i < 8; i++) {
		if (i == 1 || i == 3)
			CHECK_EQ(weft_mem_dealloc(m, mr[i], NULL, NULL), 0);
		else
			weft_mem_invalidate(m, mr[i], NULL, NULL);
	}
	weft_mem_destroy(m);
	CHECK_EQ(pd.regions + pd.windows + other.regions, 0);
}

/* ---- Every edge of the range check (RFC 5041 s7.1, RFC 5042 s6.2.1) ---- */

static enum weft_mem_err
oracle(const struct weft_mem_mr *mr, uint64_t to, uint64_t n)
{
	const unsigned __int128 top = (unsigned __int128)1 << 64;
	unsigned __int128 end = (unsigned __int128)to + n;
	unsigned __int128 region_end = (unsigned __int128)mr->base_to + mr->len_bytes;

	if (n == 0)
		return WEFT_MEM_OK;
	if (end > top)
		return WEFT_MEM_TO_WRAP;
	return to >= mr->base_to && end <= region_end ? WEFT_MEM_OK : WEFT_MEM_BOUNDS;
}

static void
test_edges(void)
{
	/* All pairs of edges: of the address space, of the sign, of 2^32 and of the region. */
	static const uint64_t mark[] = {0, 1ULL << 31, 1ULL << 32, 1ULL << 63};
	struct weft_mem_pd pd = {0};
	struct weft_mem_mr mr = {.pd = &pd, .access = WEFT_ACCESS_REMOTE_WRITE};
	uint64_t x = test_seed(23), checks = 0, len[16], base[32], at[64];
	unsigned int nlen = 0, nbase, nat;

	for (unsigned int i = 0; i < RTE_DIM(mark); i++)
		for (int d = -2; d <= 2; d++)
			if (nlen < RTE_DIM(len) && mark[i] + d != 0)
				len[nlen++] = mark[i] + (uint64_t)(int64_t)d;
	for (unsigned int l = 0; l < nlen; l++) {
		nbase = 0;
		for (int d = -2; d <= 2; d++) {
			base[nbase++] = (uint64_t)(int64_t)d;          /* 0 and the top */
			base[nbase++] = (uint64_t)(int64_t)d - len[l]; /* ends at the top */
			base[nbase++] = (1ULL << 63) + (uint64_t)(int64_t)d;
			base[nbase++] = splitmix(&x);
		}
		for (unsigned int b = 0; b < nbase; b++) {
			if (len[l] - 1 > UINT64_MAX - base[b])
				continue; /* cannot be registered */
			mr.base_to = base[b];
			mr.len_bytes = len[l];
			nat = 0;
			for (int d = -2; d <= 2; d++) {
				at[nat++] = (uint64_t)(int64_t)d;
				at[nat++] = base[b] + (uint64_t)(int64_t)d;
				at[nat++] = base[b] + len[l] + (uint64_t)(int64_t)d;
				at[nat++] = base[b] + splitmix(&x) % len[l];
				at[nat++] = splitmix(&x);
			}
			for (unsigned int i = 0; i < nat; i++)
				for (unsigned int j = 0; j < nat; j++, checks++) {
					uint64_t to = at[i], n = at[j] - to;
					enum weft_mem_err e = weft_mem_check(
					        &mr, &pd, to, n, WEFT_ACCESS_REMOTE_WRITE);

					CHECK_MSG(e == oracle(&mr, to, n),
					          "region %" PRIx64 "+%" PRIx64 ", range %" PRIx64
					          "+%" PRIx64 ": %d",
					          base[b], len[l], to, n, e);
					CHECK(n == 0 || weft_mem_allows(&mr, &pd, to, n,
					                                WEFT_ACCESS_REMOTE_WRITE) ==
					                        (e == WEFT_MEM_OK));
				}
		}
	}
	test_note("%" PRIu64 " ranges", checks);
}

/* ---- One thread registers, one uses the region, one copies it ---- */

struct race {
	struct weft_mem *m;
	struct weft_mem_mr *mr;
	uint32_t stag[4]; /**< atomic: recent STags */
	bool stop;        /**< atomic */
	unsigned long found, wrong, looks, odd;
};

/** Attributes from which the number of the registration can be computed. */
static struct weft_mem_attr
race_attr(uint32_t n)
{
	return attr_of(memory + n % 2048, 1 + n % 2048, (uint64_t)n << 20,
	               n & 1 ? WEFT_ACCESS_REMOTE_WRITE : WEFT_ACCESS_REMOTE_READ);
}

static bool
race_whole(const struct weft_mem_mr *r)
{
	struct weft_mem_attr a = race_attr((uint32_t)(r->base_to >> 20));

	return r->addr == a.addr && r->len_bytes == a.len_bytes && r->access == a.access;
}

static void *
race_reader(void *arg)
{
	struct race *t = arg;
	struct weft_mem_mr *held = NULL, was = {0};

	weft_mem_reader_register(t->m, 1);
	weft_mem_online(t->m, 1);
	for (unsigned int n = 0; !__atomic_load_n(&t->stop, __ATOMIC_RELAXED); n++) {
		uint32_t stag = __atomic_load_n(&t->stag[n % 4], __ATOMIC_ACQUIRE);
		struct weft_mem_mr *mr = weft_mem_lookup(t->m, stag);

		if (held != NULL) {
			/* From one poll to the next, only by the reference. */
			t->wrong += held->stag != was.stag || held->base_to != was.base_to ||
			            !race_whole(held);
			weft_mem_unref(held);
			held = NULL;
		}
		if (mr != NULL) {
			t->found++;
			t->wrong += mr->stag != stag || !race_whole(mr);
			if (n % 16 == 0) {
				weft_mem_ref(mr);
				held = mr;
				was.stag = mr->stag;
				was.base_to = mr->base_to;
			}
		}
		weft_mem_quiescent(t->m, 1);
		if (n % 256 == 0)
			sched_yield();
	}
	if (held != NULL)
		weft_mem_unref(held);
	weft_mem_reader_unregister(t->m, 1);
	return NULL;
}

static void *
race_onlooker(void *arg)
{
	struct race *t = arg;
	struct weft_mem_mr copy;

	while (!__atomic_load_n(&t->stop, __ATOMIC_RELAXED)) {
		weft_mem_snapshot(t->m, t->mr, &copy);
		t->looks++;
		if (copy.addr != NULL)
			t->odd += !race_whole(&copy);
		sched_yield();
	}
	return NULL;
}

static uint64_t
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void
test_race(void)
{
	struct race t = {.m = table(64, 2, test_seed(24))};
	struct weft_mem_pd pd = {.mem = t.m};
	uint64_t end = now_ms() + 800;
	unsigned long rounds = 0, waits = 0;
	pthread_t th[2];

	CHECK_EQ(weft_mem_alloc(t.m, &pd, WEFT_MEM_FAST, NULL, NULL, &t.mr), 0);
	weft_mem_reader_register(t.m, 0);
	weft_mem_online(t.m, 0);
	CHECK_EQ(pthread_create(&th[0], NULL, race_reader, &t), 0);
	CHECK_EQ(pthread_create(&th[1], NULL, race_onlooker, &t), 0);
	/* On a busy machine each wait takes as long as the other threads' time slices: run until
	 * there were enough rounds. */
	while (now_ms() < end || (rounds <= 500 && now_ms() < end + 20000)) {
		struct weft_mem_attr a = race_attr((uint32_t)rounds);
		uint32_t stag = weft_mem_take_stag(t.m, t.mr);
		int r;

		while ((r = weft_mem_fill(t.m, t.mr, &pd, NULL, &a, stag)) == -EAGAIN) {
			weft_mem_quiescent(t.m, 0);
			sched_yield();
			waits++;
		}
		if (r != 0)
			break;
		__atomic_store_n(&t.stag[rounds++ % 4], stag, __ATOMIC_RELEASE);
		if (rounds % 8 == 0)
			sched_yield();
		if (weft_mem_fast_invalidate(t.m, t.mr) != 0)
			break;
		weft_mem_quiescent(t.m, 0);
	}
	__atomic_store_n(&t.stop, true, __ATOMIC_RELAXED);
	pthread_join(th[0], NULL);
	pthread_join(th[1], NULL);
	weft_mem_reader_unregister(t.m, 0);
	CHECK(now_ms() >= end); /* the loop did not break */
	CHECK_EQ(weft_mem_dealloc(t.m, t.mr, NULL, NULL), 0);
	CHECK_EQ(weft_mem_reclaim(t.m), 1);
	weft_mem_destroy(t.m);
	test_note("%lu registrations, %lu waits, %lu found, %lu looks", rounds, waits, t.found,
	          t.looks);
	CHECK_EQ(t.wrong, 0);
	CHECK_EQ(t.odd, 0);
	CHECK(rounds > 500 && t.looks > 0);
}

WEFT_TEST_MAIN({"stags", test_stags}, {"unpredictable", test_unpredictable},
               {"no slot wears out", test_no_slot_wears_out}, {"life", test_life},
               {"held", test_held}, {"window", test_window}, {"limits", test_limits},
               {"edges", test_edges}, {"race", test_race})
