/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The STag table: uniqueness, unpredictability, refusals of registration, RCU,
 * references. */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "alloc_fails.h"
#include "mem_inside.h"
#include "weft_test.h"
#include "weft_mem_find.h"

struct rng {
	uint64_t x;
};

static void
rng_fill(void *arg, void *buf, size_t len)
{
	struct rng *r = arg;
	uint8_t *p = buf;

	for (size_t i = 0; i < len; i++) { /* splitmix64, one octet at a time */
		uint64_t z = r->x += 0x9e3779b97f4a7c15ULL;

		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
		z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
		p[i] = (uint8_t)((z ^ z >> 31) >> 32);
	}
}

/* A page with another page on either side, so that a test may point next to it. */
static uint8_t pages[3 * 4096] __attribute__((aligned(4096)));
#define memory   (pages + 4096)
#define MEM_SIZE 4096

static struct weft_mem_attr
plain_attr(void)
{
	return (struct weft_mem_attr){
	        .addr = memory, .len_bytes = MEM_SIZE, .access = WEFT_ACCESS_REMOTE_WRITE};
}

static struct weft_mem *
table(uint32_t n, unsigned int workers, uint64_t seed)
{
	static struct rng r;
	struct weft_mem *m;

	r.x = seed;
	CHECK_EQ(weft_mem_create(n, workers, &(struct weft_rand){rng_fill, &r}, &m), 0);
	return m;
}

static void
count_freed(void *arg)
{
	++*(unsigned int *)arg;
}

static void
test_create_args(void)
{
	struct rng r = {1};
	struct weft_rand rand = {rng_fill, &r};
	struct weft_mem *m;

	CHECK_EQ(weft_mem_create(0, 1, &rand, &m), -EINVAL);
	CHECK_EQ(weft_mem_create((1 << 20) + 1, 1, &rand, &m), -EINVAL);
	CHECK_EQ(weft_mem_create(1, 0, &rand, &m), -EINVAL);
	CHECK_EQ(weft_mem_create(1, 1, NULL, &m), -EINVAL);
	CHECK_EQ(weft_mem_create(1 << 20, 1, &rand, &m), 0);
	weft_mem_destroy(m);
	weft_mem_destroy(NULL);
}

/* ---- Failing allocations ---- */

/** If any allocation fails, the table is not created and all memory is freed. A table that was
 * created is freed wholly, too. */
static void
test_no_memory(void)
{
	struct rng r = {1};
	struct weft_rand rand = {rng_fill, &r};
	unsigned int n = 0;
	int rc;

	do {
		struct weft_mem *m;

		in_use = 0;
		fail_at = ++n;
		rc = weft_mem_create(1024, 4, &rand, &m);
		CHECK(rc == 0 || rc == -ENOMEM);
		CHECK_EQ(fail_at > 0, rc == 0);
		fail_at = 0;
		if (rc == 0)
			weft_mem_destroy(m);
		CHECK_MSG(in_use == 0, "allocation %u", n);
	} while (rc != 0);
	CHECK(n > 5);
}

static int
cmp_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/** Register and invalidate on few slots. No value occurs twice, none is 0, and none resolves after
 * its invalidation. */
static void
test_unique(void)
{
	enum { N = 300000 };
	struct weft_mem *m = table(4, 1, test_seed(7));
	struct weft_mem_pd pd = {.mem = m};
	struct weft_mem_attr a = plain_attr();
	uint32_t *seen = malloc(N * sizeof(*seen));
	unsigned int up = 0;

	for (unsigned int i = 0; i < N; i++) {
		struct weft_mem_mr *mr;

		CHECK_EQ(weft_mem_reg(m, &pd, &a, &mr), 0);
		seen[i] = mr->stag;
		CHECK(mr->stag != 0);
		CHECK(weft_mem_lookup(m, mr->stag) == mr);
		if (i > 0) {
			CHECK(weft_mem_lookup(m, seen[i - 1]) == NULL);
			CHECK(weft_mem_lookup(m, seen[i / 2]) == (i / 2 == i ? mr : NULL));
			up += seen[i] > seen[i - 1];
		}
		weft_mem_invalidate(m, mr, NULL, NULL);
		CHECK(weft_mem_lookup(m, seen[i]) == NULL);
		CHECK_EQ(weft_mem_reclaim(m), 1);
	}
	CHECK_EQ(pd.regions, 0);
	/* Values in random order rise as often as they fall. */
	CHECK_MSG(up > N / 2 - N / 50 && up < N / 2 + N / 50, "%u of %u rose", up, N);
	qsort(seen, N, sizeof(*seen), cmp_u32);
	for (unsigned int i = 1; i < N; i++)
		CHECK_MSG(seen[i] != seen[i - 1], "STag %08x came twice", seen[i]);
	free(seen);
	weft_mem_destroy(m);
}

/** A table of 2^20 slots. All are taken except slot 0, which has 4096 values. */
enum { FULL_SLOTS = 1 << 20, FULL_VALUES = 1 << 12, FULL_REST = FULL_VALUES / 8 * 3 };

static struct weft_mem *
all_but_one(struct weft_mem_pd *pd, uint64_t seed, struct weft_mem_mr **all)
{
	struct weft_mem *m = table(FULL_SLOTS, 1, seed);
	struct weft_mem_attr a = plain_attr();

	*pd = (struct weft_mem_pd){.mem = m};
	for (uint32_t i = 0; i < FULL_SLOTS; i++) {
		CHECK_EQ(weft_mem_reg(m, pd, &a, &all[i]), 0);
		if (all[i]->slot != 0)
			continue;
		weft_mem_invalidate(m, all[i], NULL, NULL);
		all[i] = NULL;
	}
	CHECK_EQ(weft_mem_reg(m, pd, &a, &all[0]), -ENOSPC);
	CHECK_EQ(weft_mem_reclaim(m), 1);
	return m;
}

static void
give_all(struct weft_mem *m, struct weft_mem_mr **all)
{
	for (uint32_t i = 0; i < FULL_SLOTS; i++) {
		if (all[i] != NULL)
			weft_mem_invalidate(m, all[i], NULL, NULL);
	}
	CHECK_EQ(weft_mem_reclaim(m), FULL_SLOTS - 1);
	free(all);
	weft_mem_destroy(m);
}

/**
 * Values are used again as long as the table exists: after three eighths of the slot's values at
 * the earliest, in another order, and no value is left out for ever.
 */
static void
test_reuse(void)
{
	enum { N = 40 * FULL_VALUES };
	struct weft_mem_mr *mr, **all = malloc(sizeof(*all) * FULL_SLOTS);
	static uint32_t last[FULL_VALUES], times[FULL_VALUES];
	struct weft_mem_attr a = plain_attr();
	struct weft_mem_pd pd;
	struct weft_mem *m = all_but_one(&pd, test_seed(8), all);
	uint32_t most = 0, after[2] = {0};

	memset(last, 0xff, sizeof(last));
	memset(times, 0, sizeof(times));
	for (uint32_t n = 0; n < N; n++) {
		uint32_t value;

		CHECK_EQ(weft_mem_reg(m, &pd, &a, &mr), 0);
		value = stag_value(mr->stag, 20);
		CHECK(mr->stag != 0);
		CHECK_EQ(weft_mem_slot_of(&m->t, mr->stag), 0);
		CHECK_MSG(last[value] == UINT32_MAX || n - last[value] >= FULL_REST - 2,
		          "value %x after %u registrations", value, n - last[value]);
		last[value] = n;
		times[value]++;
		/* Each time another value follows. */
		if (value == 5) {
			after[0] = after[1];
			after[1] = n;
		}
		weft_mem_invalidate(m, mr, NULL, NULL);
		CHECK_EQ(weft_mem_reclaim(m), 1);
	}
	for (uint32_t v = 1; v < FULL_VALUES; v++) {
		CHECK_MSG(times[v] > 0, "value %x never came", v);
		most = RTE_MAX(most, times[v]);
	}
	CHECK_EQ(times[0], 0);
	CHECK(after[0] > 0 && (after[1] - after[0]) % FULL_REST != 0);
	/* At most once in two rounds. */
	CHECK_MSG(most <= N / (2 * FULL_REST) + 1, "%u times", most);
	give_all(m, all);
}

/**
 * An observer that recorded all earlier values of a slot cannot predict the next one. At least a
 * quarter of the half in use is left, and each of these values is equally likely.
 */
static void
test_observed(void)
{
	enum { LEFT = FULL_VALUES / 8, TURNS = 600, FIRST = 40 };
	struct weft_mem *m = table(FULL_SLOTS, 1, test_seed(18));
	static uint8_t half[FULL_VALUES], now[FULL_VALUES];
	uint64_t ranks = 0;

	memset(half, 0, sizeof(half));
	for (unsigned int turn = 0; turn < TURNS; turn++) {
		uint32_t left = 0, before = 0, next = 0;

		memset(now, 0, sizeof(now));
		for (uint32_t n = 0; n < FULL_REST; n++) {
			next = mem_stag_value(m, 77, (uint64_t)turn * FULL_REST + n);
			CHECK_EQ(weft_mem_slot_of(&m->t, next), 77);
			next = stag_value(next, 20);
			CHECK_MSG(!now[next], "%x twice in turn %u", next, turn);
			CHECK(half[next] == 0 || half[next] == turn % 2 + 1);
			half[next] = turn % 2 + 1;
			now[next] = n < FULL_REST - 1;
		}
		/* Before the last value of the round: which values of its half have not
		 * occurred? */
		for (uint32_t v = 0; v < FULL_VALUES; v++) {
			bool may = half[v] == turn % 2 + 1 && !now[v];

			left += may;
			before += may && v < next;
		}
		if (turn < FIRST)
			continue;
		CHECK_EQ(left, LEFT + 1);
		ranks += before * 1000ULL / left;
	}
	/* Ranks are 0 to 999. Their mean is within six sigma, 6 * 289 / sqrt(560), of 500. */
	ranks /= TURNS - FIRST;
	CHECK_MSG(ranks > 426 && ranks < 574, "mean rank %u of 1000", (unsigned int)ranks);
	weft_mem_destroy(m);
}

/**
 * The key space wraps many times, and clients keep every STag that they ever got. An old STag never
 * gives access to another client's memory. It names memory of its own client again only after three
 * eighths of the values.
 */
static void
test_stale(void)
{
	enum { CLIENTS = 5, N = 20 * FULL_VALUES };
	struct weft_mem_mr *mr, **all = malloc(sizeof(*all) * FULL_SLOTS);
	static uint32_t mine[CLIENTS]
	                    [FULL_VALUES]; /* number of its last use by the client, plus 1 */
	struct weft_mem_attr a = plain_attr();
	struct weft_mem_pd others, pd[CLIENTS];
	struct weft_mem *m = all_but_one(&others, test_seed(28), all);
	uint64_t resolved = 0, x = test_seed(38);

	memset(mine, 0, sizeof(mine));
	for (unsigned int c = 0; c < CLIENTS; c++)
		pd[c] = (struct weft_mem_pd){.mem = m};
	for (uint32_t n = 0; n < N; n++) {
		unsigned int owner;
		uint32_t value;

		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		owner = (unsigned int)(x >> 33) % CLIENTS;
		CHECK_EQ(weft_mem_reg(m, &pd[owner], &a, &mr), 0);
		value = stag_value(mr->stag, 20);
		for (unsigned int c = 0; c < CLIENTS; c++) {
			enum weft_mem_err err = weft_mem_check(weft_mem_lookup(m, mr->stag), &pd[c],
			                                       0, 8, WEFT_ACCESS_REMOTE_WRITE);

			CHECK_EQ(err, c == owner ? WEFT_MEM_OK : WEFT_MEM_BAD_PD);
			if (mine[c][value] == 0)
				continue;
			resolved++; /* an old STag of c, which names a region */
			CHECK(c != owner || n + 1 - mine[c][value] >= FULL_REST - 2);
		}
		mine[owner][value] = n + 1;
		weft_mem_invalidate(m, mr, NULL, NULL);
		CHECK(weft_mem_lookup(m, mr->stag) == NULL);
		CHECK_EQ(weft_mem_reclaim(m), 1);
	}
	CHECK_MSG(resolved > N, "%u", (unsigned int)resolved);
	give_all(m, all);
}

/** A slot is used again only after half of the free slots have been used. */
static void
test_slots_rest(void)
{
	enum { SLOTS = 256, HELD = 56, N = 100000 };
	struct weft_mem *m = table(SLOTS, 1, test_seed(48));
	struct weft_mem_pd pd = {.mem = m};
	struct weft_mem_attr a = plain_attr();
	struct weft_mem_mr *mr, *held[HELD];
	uint32_t last[SLOTS], hits = 0;

	memset(last, 0xff, sizeof(last));
	for (unsigned int i = 0; i < HELD; i++)
		CHECK_EQ(weft_mem_reg(m, &pd, &a, &held[i]), 0);
	for (uint32_t n = 0; n < N; n++) {
		CHECK_EQ(weft_mem_reg(m, &pd, &a, &mr), 0);
		CHECK_MSG(last[mr->slot] == UINT32_MAX ||
		                  n - last[mr->slot] >= (SLOTS - HELD) / 2 - 1,
		          "slot %u after %u", mr->slot, n - last[mr->slot]);
		/* The next slot is not predictable. */
		hits += mr->slot == (n * 7) % SLOTS;
		last[mr->slot] = n;
		weft_mem_invalidate(m, mr, NULL, NULL);
		CHECK_EQ(weft_mem_reclaim(m), 1);
	}
	CHECK_MSG(hits < 2 * N / (SLOTS - HELD), "%u", hits);
	for (unsigned int i = 0; i < HELD; i++)
		weft_mem_invalidate(m, held[i], NULL, NULL);
	CHECK_EQ(weft_mem_reclaim(m), HELD);
	weft_mem_destroy(m);
}

/** The first STags of tables with different keys have no values in common. Successive STags differ
 * in half of their bits. */
static void
test_unpredictable(void)
{
	enum { TABLES = 512, USES = 16 };
	unsigned int bits = 0, n = 0, equal = 0;
	uint32_t first[USES] = {0};

	for (uint64_t t = 0; t < TABLES; t++) {
		struct weft_mem *m = table(1, 1, test_seed(9) + t * 1000003);
		struct weft_mem_pd pd = {.mem = m};
		struct weft_mem_attr a = plain_attr();
		uint32_t last = 0;

		for (unsigned int i = 0; i < USES; i++) {
			struct weft_mem_mr *mr;

			CHECK_EQ(weft_mem_reg(m, &pd, &a, &mr), 0);
			if (t == 0)
				first[i] = mr->stag;
			else
				equal += first[i] == mr->stag;
			if (i > 0) {
				bits += (unsigned int)__builtin_popcount(last ^ mr->stag);
				n++;
			}
			last = mr->stag;
			weft_mem_invalidate(m, mr, NULL, NULL);
			weft_mem_reclaim(m);
		}
		weft_mem_destroy(m);
	}
	CHECK_EQ(equal, 0);
	/* 7680 samples of 16 +- 2.83: the mean is within 0.2 with more than six sigma. */
	CHECK_MSG(bits > n * 158 / 10 && bits < n * 162 / 10, "%u bits in %u pairs", bits, n);
}

static void
test_guess(void)
{
	struct weft_mem *m = table(1024, 1, test_seed(10));
	struct weft_mem_pd pd = {.mem = m};
	struct weft_mem_attr a = plain_attr();
	struct weft_mem_mr *mr[1024], *one, copy;
	unsigned int hits = 0;

	for (unsigned int i = 0; i < 1024; i++)
		CHECK_EQ(weft_mem_reg(m, &pd, &a, &mr[i]), 0);
	CHECK_EQ(weft_mem_reg(m, &pd, &a, &one), -ENOSPC);
	CHECK_EQ(weft_mem_count(m), 1024);
	CHECK_EQ(pd.regions, 1024);
	CHECK_EQ(inside_mem_get(m, 0, &copy), 0);
	CHECK_EQ(copy.stag, mr[0]->stag);
	CHECK_EQ(inside_mem_get(m, 1023, &copy), 0);
	CHECK_EQ(inside_mem_get(m, 1024, &copy), -ENOENT);
	CHECK(weft_mem_lookup(m, 0) == NULL);
	/* A full table answers one guess in 2^22. */
	for (uint32_t s = 0; s < 1 << 20; s++)
		hits += weft_mem_lookup(m, s * 2654435761U) != NULL;
	CHECK_MSG(hits <= 8, "%u hits", hits);
	for (unsigned int i = 0; i < 1024; i++)
		weft_mem_invalidate(m, mr[i], NULL, NULL);
	CHECK_EQ(weft_mem_count(m), 0);
	CHECK_EQ(pd.regions, 1024);
	/* Not reclaimed yet: the slots are still taken. */
	CHECK_EQ(weft_mem_reg(m, &pd, &a, &one), -ENOSPC);
	CHECK_EQ(weft_mem_reclaim(m), 1024);
	CHECK_EQ(pd.regions, 0);
	weft_mem_destroy(m);
}

/* ---- Refusals of registration ---- */

static int
no_init(struct weft_hash_state *st, const void *key, size_t n)
{
	(void)st;
	(void)key;
	return n == 0 ? 0 : -EINVAL;
}

static void
test_refusals(void)
{
	static const struct weft_hash_ops plain = {.name = "plain", .init = no_init};
	static const struct weft_hash_ops keyed = {
	        .name = "keyed", .key_min_bytes = 1, .key_max_bytes = 8, .init = no_init};
	static const struct weft_persist_ops fleeting = {.name = "fleeting", .persistent = false};
	static struct weft_persist_ops lasting = {.name = "lasting", .persistent = true};
	struct weft_persist vol = {.ops = &fleeting, .base = memory, .bytes = MEM_SIZE};
	struct weft_persist dur = {.ops = &lasting, .base = memory, .bytes = MEM_SIZE};
	const uint32_t w = WEFT_ACCESS_REMOTE_WRITE, r = WEFT_ACCESS_REMOTE_READ;
	const uint32_t fp = WEFT_ACCESS_FLUSH_PERSISTENT, fv = WEFT_ACCESS_FLUSH_VISIBLE,
	               v = WEFT_ACCESS_VERIFY;
	uint8_t *top = (uint8_t *)(UINTPTR_MAX - 9); /* ten octets are left there */
	const struct {
		const char *what;
		struct weft_mem_attr a;
		int r;
	} rows[] = {
	        {"plain", {memory, 64, 0, w}, 0},
	        {"no right", {memory, 64, 0, 0}, 0},
	        {"no address", {NULL, 64, 0, w}, -EINVAL},
	        {"no length", {memory, 0, 0, w}, -EINVAL},
	        {"unknown right", {memory, 64, 0, 0x100}, -EINVAL},
	        {"unknown right 2", {memory, 64, 0, 0x80000000}, -EINVAL},
	        {"address reaches the top", {top, 10, 0, w}, 0},
	        {"address wraps", {top, 11, 0, w}, -EINVAL},
	        {"length wraps", {memory, UINT64_MAX, 0, w}, -EINVAL},
	        {"offset reaches the top", {memory, 64, UINT64_MAX - 63, w}, 0},
	        {"offset wraps by one", {memory, 64, UINT64_MAX - 62, w}, -EINVAL},
	        {"TO reaches the top", {memory, 64, UINT64_MAX - 63, w}, 0},
	        {"TO wraps", {memory, 64, UINT64_MAX - 62, w}, -EINVAL},
	        {"TO wraps by far", {memory, 64, UINT64_MAX, w}, -EINVAL},
	        {"persistent without medium", {memory, 64, 0, fp}, -EOPNOTSUPP},
	        {"visible without medium", {memory, 64, 0, fv}, 0},
	        {"persistent on volatile", {memory, 64, 0, fp, &vol}, -EOPNOTSUPP},
	        {"visible on volatile", {memory, 64, 0, fv, &vol}, 0},
	        {"persistent", {memory, 64, 0, fp, &dur}, 0},
	        {"whole medium", {memory, 4096, 0, fp, &dur}, 0},
	        {"beyond the medium", {memory, 4097, 0, fp, &dur}, -ERANGE},
	        {"end beyond the medium", {memory + 4095, 2, 0, fp, &dur}, -ERANGE},
	        {"last octet", {memory + 4095, 1, 0, fp, &dur}, 0},
	        {"behind the medium", {memory + 4096, 1, 0, fp, &dur}, -ERANGE},
	        {"before the medium", {memory - 1, 2, 0, fp, &dur}, -ERANGE},
	        {"verify without hash", {memory, 64, 0, v | r}, -EOPNOTSUPP},
	        /* The hash of one octet reveals the octet: verify needs the right to read, with any
	         * hash. */
	        {"verify, unreadable", {memory, 64, 0, v, NULL, &plain}, -EOPNOTSUPP},
	        {"verify, writable", {memory, 64, 0, v | w, NULL, &plain}, -EOPNOTSUPP},
	        {"verify, readable", {memory, 64, 0, v | r, NULL, &plain}, 0},
	        {"verify, keyed", {memory, 64, 0, v, NULL, &keyed, memory, 8}, -EOPNOTSUPP},
	        {"verify, keyed, readable", {memory, 64, 0, v | r, NULL, &keyed, memory, 8}, 0},
	        {"verify, no read-back", {memory, 64, 0, v | r, &dur, &plain}, -EOPNOTSUPP},
	};
	struct weft_mem *m = table(4, 1, 1);
	struct weft_mem_pd pd = {.mem = m};

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		struct weft_mem_mr *mr;
		int rc = weft_mem_reg(m, &pd, &rows[i].a, &mr);

		CHECK_MSG(rc == rows[i].r, "%s: %d, not %d", rows[i].what, rc, rows[i].r);
		CHECK_EQ(weft_mem_count(m), rc == 0);
		if (rc == 0) {
			CHECK_EQ(mr->persist_off_bytes,
			         rows[i].a.persist ? rows[i].a.addr - memory : 0);
			weft_mem_invalidate(m, mr, NULL, NULL);
			CHECK_EQ(weft_mem_reclaim(m), 1);
		}
	}
	weft_mem_destroy(m);
}

/* ---- RCU and references ---- */

static void
test_reader_holds(void)
{
	struct weft_mem *m = table(4, 2, 1);
	struct weft_mem_pd pd = {.mem = m};
	struct weft_mem_attr a = plain_attr();
	struct weft_mem_mr *mr;
	unsigned int freed = 0;

	CHECK_EQ(weft_mem_reader_register(m, 2), -EINVAL);
	CHECK_EQ(weft_mem_reader_register(m, 0), 0);
	CHECK_EQ(weft_mem_reader_register(m, 1), 0);
	weft_mem_online(m, 0);
	CHECK_EQ(weft_mem_reg(m, &pd, &a, &mr), 0);
	weft_mem_invalidate(m, mr, count_freed, &freed);
	CHECK_EQ(weft_mem_reclaim(m), 0);
	CHECK_EQ(freed, 0);
	CHECK_EQ(mr->len_bytes, MEM_SIZE); /* readers that found it before may still use it */
	CHECK_EQ(pd.regions, 1);
	weft_mem_quiescent(m, 0);
	CHECK_EQ(weft_mem_reclaim(m), 1);
	CHECK_EQ(freed, 1);
	CHECK_EQ(pd.regions, 0);
	CHECK_EQ(weft_mem_reclaim(m), 0);

	/* A quiescent state before the invalidation does not count. */
	CHECK_EQ(weft_mem_reg(m, &pd, &a, &mr), 0);
	weft_mem_quiescent(m, 0);
	weft_mem_invalidate(m, mr, count_freed, &freed);
	CHECK_EQ(weft_mem_reclaim(m), 0);
	/* With a second reader, both must have passed a quiescent state. An offline reader does not
	 * count. */
	weft_mem_online(m, 1);
	weft_mem_offline(m, 0);
	CHECK_EQ(weft_mem_reclaim(m), 1);
	CHECK_EQ(weft_mem_reg(m, &pd, &a, &mr), 0);
	weft_mem_online(m, 0);
	weft_mem_invalidate(m, mr, count_freed, &freed);
	weft_mem_quiescent(m, 0);
	CHECK_EQ(weft_mem_reclaim(m), 0);
	weft_mem_reader_unregister(m, 1);
	CHECK_EQ(weft_mem_reclaim(m), 1);
	CHECK_EQ(freed, 3);
	weft_mem_reader_unregister(m, 0);
	weft_mem_destroy(m);
}

static void
test_ref_holds(void)
{
	struct weft_mem *m = table(4, 1, 1);
	struct weft_mem_pd pd = {.mem = m};
	struct weft_mem_attr a = plain_attr();
	struct weft_mem_mr *held, *other;
	unsigned int freed = 0;

	CHECK_EQ(weft_mem_reg(m, &pd, &a, &held), 0);
	CHECK_EQ(weft_mem_reg(m, &pd, &a, &other), 0);
	weft_mem_ref(held);
	weft_mem_ref(held);
	weft_mem_invalidate(m, held, count_freed, &freed);
	weft_mem_invalidate(m, other, count_freed, &freed);
	CHECK_EQ(weft_mem_reclaim(m), 1); /* the region behind it is reclaimed all the same */
	CHECK_EQ(freed, 1);
	weft_mem_unref(held);
	CHECK_EQ(weft_mem_reclaim(m), 0);
	weft_mem_unref(held);
	CHECK_EQ(weft_mem_reclaim(m), 1);
	CHECK_EQ(freed, 2);
	/* Regions that still wait are freed with the table. */
	CHECK_EQ(weft_mem_reg(m, &pd, &a, &held), 0);
	weft_mem_invalidate(m, held, count_freed, &freed);
	weft_mem_destroy(m);
	CHECK_EQ(freed, 3);
	CHECK_EQ(pd.regions, 0);
}

struct nest {
	struct weft_mem *m;
	struct weft_mem_pd *pd;
	struct weft_mem_mr *mr;
};

static void
freed_registers(void *arg)
{
	struct nest *n = arg;
	struct weft_mem_attr a = plain_attr();

	if (weft_mem_reg(n->m, n->pd, &a, &n->mr) != 0)
		n->mr = NULL;
}

static void
test_callback_registers(void)
{
	struct weft_mem *m = table(1, 1, 1);
	struct weft_mem_pd pd = {.mem = m};
	struct weft_mem_attr a = plain_attr();
	struct nest n = {m, &pd, NULL};
	struct weft_mem_mr *mr;

	CHECK_EQ(weft_mem_reg(m, &pd, &a, &mr), 0);
	weft_mem_invalidate(m, mr, freed_registers, &n);
	CHECK_EQ(weft_mem_reclaim(m), 1);
	CHECK(n.mr != NULL);
	weft_mem_invalidate(m, n.mr, NULL, NULL);
	weft_mem_destroy(m);
}

/* ---- Stress: a worker looks up and reads while the owner registers and invalidates ---- */

struct torture {
	struct weft_mem *m;
	uint32_t stag[8]; /**< atomic: the newest STags, some already invalidated */
	bool stop;
	unsigned long found, stale, wrong;
};

static uint64_t
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void *
torture_reader(void *arg)
{
	struct torture *t = arg;
	unsigned int n = 0;

	weft_mem_reader_register(t->m, 0);
	weft_mem_online(t->m, 0);
	while (!__atomic_load_n(&t->stop, __ATOMIC_RELAXED)) {
		struct weft_mem_mr *mr =
		        weft_mem_lookup(t->m, __atomic_load_n(&t->stag[n % 8], __ATOMIC_ACQUIRE));

		if (mr == NULL) {
			t->stale++;
		} else {
			t->found++;
			/* The memory of the region holds its own address while a reader may see
			 * it. */
			if (*(uint8_t **)(void *)mr->addr != mr->addr)
				t->wrong++;
		}
		weft_mem_quiescent(t->m, 0);
		if (++n % 1024 == 0) {
			weft_mem_offline(t->m, 0);
			weft_mem_online(t->m, 0);
		}
	}
	weft_mem_reader_unregister(t->m, 0);
	return NULL;
}

static void
torture_freed(void *arg)
{
	memset(arg, 0xdd, 64);
	free(arg);
}

static void
test_torture(void)
{
	struct torture t = {.m = table(64, 1, test_seed(11))};
	struct weft_mem_pd pd = {.mem = t.m};
	struct weft_mem_mr *live[8] = {NULL};
	uint64_t begin = now_ms();
	unsigned long rounds = 0;
	pthread_t th;

	CHECK_EQ(pthread_create(&th, NULL, torture_reader, &t), 0);
	/* At least this many rounds, however busy the machine is. */
	while (now_ms() < begin + 800 || (rounds <= 1000 && now_ms() < begin + 30000)) {
		struct weft_mem_mr *mr;
		struct weft_mem_attr a = plain_attr();
		unsigned int at = (unsigned int)(rounds * 5 % 8);
		int r;

		/* The oldest region is invalidated while its STag is still in use, and is then
		 * reclaimed. */
		if (live[at] != NULL)
			weft_mem_invalidate(t.m, live[at], torture_freed, live[at]->addr);
		a.addr = malloc(64);
		a.len_bytes = 64;
		*(uint8_t **)(void *)a.addr = a.addr;
		while ((r = weft_mem_reg(t.m, &pd, &a, &mr)) == -ENOSPC)
			weft_mem_reclaim(t.m);
		if (r != 0)
			break;
		if (rounds++ % 8 == 0)
			weft_mem_reclaim(t.m);
		live[at] = mr;
		__atomic_store_n(&t.stag[at], mr->stag, __ATOMIC_RELEASE);
	}
	for (unsigned int i = 0; i < 8; i++) {
		if (live[i] != NULL)
			weft_mem_invalidate(t.m, live[i], torture_freed, live[i]->addr);
	}
	__atomic_store_n(&t.stop, true, __ATOMIC_RELAXED);
	pthread_join(th, NULL);
	weft_mem_reclaim(t.m);
	CHECK_EQ(pd.regions, 0);
	weft_mem_destroy(t.m);
	test_note("%lu regions, %lu found, %lu stale", rounds, t.found, t.stale);
	CHECK_EQ(t.wrong, 0);
	CHECK(rounds > 1000 && t.found > 0);
}

WEFT_TEST_MAIN({"create_args", test_create_args}, {"no_memory", test_no_memory},
               {"unique", test_unique}, {"reuse", test_reuse}, {"observed", test_observed},
               {"stale", test_stale}, {"slots rest", test_slots_rest},
               {"unpredictable", test_unpredictable}, {"guess", test_guess},
               {"refusals", test_refusals}, {"reader_holds", test_reader_holds},
               {"ref_holds", test_ref_holds}, {"callback_registers", test_callback_registers},
               {"torture", test_torture})
