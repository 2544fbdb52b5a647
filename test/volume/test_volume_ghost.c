/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file No ghost writes: what an old owner has still under way never lands on a new owner's writes.
 *
 * The old owner's writes are frozen in the device, or slow. It is revoked, and the new owner writes
 * over some of its ranges. Every octet has a stamp: the owner's. Where the new owner's write is
 * done, its stamp has to be there in the end.
 */

#include <errno.h>
#include <stdlib.h>

#include "volume_rig.h"
#include "volume_sabotage.h"

#define DISK_BYTES (1536U << 10)
#define VOL_BYTES  32768U
#define WRITES     16U
#define MAX_LEN    6000U
#define OLD_STAMP  0x0d
#define NEW_STAMP  0xee
#define FREEZE_NS  11000000000ULL

struct ghost {
	struct rig r;
	uint64_t seed;
	struct rig_op old[WRITES], new[WRITES];
	struct weft_vol_client from, to;
	uint8_t old_mem[MAX_LEN + 512], new_mem[MAX_LEN + 512], is[VOL_BYTES];
	unsigned int quiet;
};

static void
ghost_quiet(struct weft_vol_client *client)
{
	((struct ghost *)client->owner)->quiet++;
}

static void
ghost_write(struct ghost *g, struct rig_op *o, bool old)
{
	const uint64_t len = 1 + rig_draw(&g->seed, MAX_LEN);
	const uint64_t off = rig_draw(&g->seed, VOL_BYTES - len + 1);

	rig_op(o, WEFT_VOL_WRITE, off, len,
	       (old ? g->old_mem : g->new_mem) + rig_draw(&g->seed, 512));
	o->op.client = old ? &g->from : &g->to;
	o->op.flags = rig_draw(&g->seed, 2) == 0 ? WEFT_VOL_DURABLE : 0;
	rig_submit(&g->r, old ? 0 : 1, o);
}

/** Old stamps where the new owner's should be. */
static unsigned int
ghost_run(uint64_t seed)
{
	struct weft_block_fault_cfg cfg = {.delay_max_ns = 30000, .leak_ppm = 10000};
	struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_WRITE, .count = 1000};
	struct ghost *g = calloc(1, sizeof(*g));
	unsigned int wrong = 0, left, late = 0;
	struct rig_op refused;
	bool frozen;

	test_seed_note(seed);
	g->seed = seed;
	memset(g->old_mem, OLD_STAMP, sizeof(g->old_mem));
	memset(g->new_mem, NEW_STAMP, sizeof(g->new_mem));
	rig_device(&g->r, DISK_BYTES, 512, seed);
	rig_format(&g->r, VOL_BYTES);
	rig_open(&g->r, 2, 3);
	g->from.owner = g;
	g->from.quiet = ghost_quiet;
	weft_vol_client_open(g->r.chan[0], &g->from);
	weft_vol_client_open(g->r.chan[1], &g->to);
	weft_block_fault_set(g->r.block, &cfg);
	frozen = rig_draw(&g->seed, 2) == 0;
	hit.skip = rig_draw(&g->seed, 6);
	if (frozen)
		weft_block_fault_stick(g->r.block, &hit);
	for (unsigned int i = 0; i < WRITES; i++) {
		ghost_write(g, &g->old[i], true);
		if (rig_draw(&g->seed, 2) == 0)
			rig_poll(&g->r);
	}
	for (uint64_t n = rig_draw(&g->seed, 40); n > 0; n--)
		rig_poll(&g->r);
	left = weft_vol_revoke(&g->from);
	CHECK(left <= WRITES);
	/* A client that was revoked has no more operations. */
	rig_op(&refused, WEFT_VOL_FLUSH, 0, 0, NULL)->op.client = &g->from;
	CHECK_EQ(weft_vol_submit(g->r.chan[0], &refused.op), -ESHUTDOWN);
	/* What is frozen stays so; in half of the runs new writes are frozen as well. */
	hit.skip = UINT64_MAX;
	if (frozen && rig_draw(&g->seed, 2) == 0)
		weft_block_fault_stick(g->r.block, &hit);
	for (unsigned int i = 0; i < WRITES; i++)
		ghost_write(g, &g->new[i], false);
	for (unsigned int n = 0; n < 60; n++)
		rig_poll(&g->r);
	if (frozen) {
		g->r.now_ns += FREEZE_NS;
		for (unsigned int n = 0; n < 60; n++)
			rig_poll(&g->r);
		weft_block_fault_stick(g->r.block, NULL);
	}
	for (unsigned int i = 0; i < WRITES; i++) {
		(void)rig_wait(&g->r, &g->old[i]);
		CHECK_EQ(rig_wait(&g->r, &g->new[i]), 0);
		CHECK(g->old[i].op.status == 0 || g->old[i].op.status == -ECANCELED);
		late += g->old[i].late;
	}
	CHECK(late == 0 && g->quiet == (left > 0));
	CHECK_EQ(rig_io(&g->r, WEFT_VOL_READ, 0, VOL_BYTES, g->is, 0), 0);
	for (unsigned int i = 0; i < WRITES; i++) {
		for (uint64_t at = 0; at < g->new[i].op.len_bytes; at++)
			wrong += g->is[g->new[i].op.off_bytes + at] != NEW_STAMP;
	}
	CHECK_EQ(weft_vol_client_close(&g->from), 0);
	CHECK_EQ(weft_vol_client_close(&g->to), 0);
	rig_end(&g->r);
	free(g);
	return wrong;
}

static void
test_draws(void)
{
	const char *env = getenv("WEFT_VOLUME_RUNS");
	const uint64_t seed = test_seed(1);
	const unsigned long runs = test_seed_given() ? 1
	                           : env == NULL     ? 300
	                                             : strtoul(env, NULL, 0);

	for (unsigned long i = 0; i < runs; i++) {
		unsigned int wrong = ghost_run(seed + i);

		CHECK_MSG(wrong == 0, "%u old stamps", wrong);
	}
}

static void
test_mutant(void)
{
	unsigned int found = 0;

	volume_sabotage = VOLUME_OPEN_RANGE;
	for (unsigned int i = 0; i < 100; i++)
		found += ghost_run(9000 + i) > 0;
	volume_sabotage = VOLUME_SOUND;
	CHECK(found > 0);
	test_note("a range that is open too early: found in %u of 100 runs", found);
}

/* ---- A cancel that does not help ---- */

#define LONG_BYTES (3U << 20)

/**
 * The nth request of an operation is stuck, its owner is revoked, and the request ends: the device
 * gets no other request of the operation. Returns whether the operation was under way.
 */
static bool
revoke_stuck(enum weft_vol_kind kind, uint64_t off, uint64_t len, uint32_t flags, uint64_t nth,
             bool sums)
{
	const struct weft_block_fault_hit hit = {.skip = nth, .count = 1000};
	static uint8_t buf[LONG_BYTES + 4096] __attribute__((aligned(4096))), zeros[4096];
	const bool memory =
	        kind == WEFT_VOL_READ || kind == WEFT_VOL_WRITE || kind == WEFT_VOL_COMPARE_WRITE;
	struct weft_vol_client from = {0};
	uint64_t requests;
	struct rig_op o;
	struct rig r;
	bool stuck;

	rig_device(&r, 24U << 20, 512, 1 + nth);
	r.sums = sums;
	rig_format(&r, 8U << 20);
	rig_open(&r, 1, 0);
	weft_vol_client_open(r.chan[0], &from);
	rig_op(&o, kind, off, len, memory ? buf + off % 4096 : NULL);
	o.op.client = &from;
	o.op.flags = flags;
	o.op.expect = zeros;
	weft_block_fault_stick(r.block, &hit);
	rig_submit(&r, 0, &o);
	for (unsigned int n = 0; n < 200 && o.done == 0; n++)
		rig_poll(&r);
	stuck = o.done == 0;
	CHECK_EQ(weft_vol_revoke(&from), stuck);
	requests = weft_block_fault_requests(r.block);
	weft_block_fault_stick(r.block, NULL);
	(void)rig_wait(&r, &o);
	CHECK_EQ(weft_block_fault_requests(r.block), requests);
	CHECK(o.op.status == 0 || (stuck && o.op.status == -ECANCELED));
	CHECK_EQ(weft_vol_client_close(&from), 0);
	rig_end(&r);
	return stuck;
}

static void
test_stuck(void)
{
	static const struct {
		enum weft_vol_kind kind;
		uint64_t off, len;
		unsigned int requests; /**< at least, without checksums */
	} ops[] = {{WEFT_VOL_READ, 0, LONG_BYTES, 3},
	           {WEFT_VOL_READ, 100, 70000, 2},
	           {WEFT_VOL_WRITE, 0, LONG_BYTES, 3},
	           {WEFT_VOL_WRITE, 100, 3000, 2},
	           {WEFT_VOL_WRITE, 100, 200000, 3},
	           {WEFT_VOL_ZEROES, 100, 200000, 3},
	           {WEFT_VOL_COMPARE_WRITE, 10, 4000, 2},
	           {WEFT_VOL_DISCARD, 0, 65536, 1},
	           {WEFT_VOL_FLUSH, 0, 0, 1}};
	unsigned int stuck;

	for (unsigned int i = 0; i < 4 * sizeof(ops) / sizeof(ops[0]); i++) {
		const bool sums = (i & 1) != 0;
		const enum weft_vol_kind kind = ops[i / 4].kind;
		const uint32_t durable =
		        (i & 2) != 0 && kind != WEFT_VOL_READ && kind != WEFT_VOL_FLUSH
		                ? WEFT_VOL_DURABLE
		                : 0;

		for (stuck = 0; stuck < 100; stuck++) {
			if (!revoke_stuck(kind, ops[i / 4].off, ops[i / 4].len, durable, stuck,
			                  sums))
				break;
		}
		CHECK_MSG(stuck >= ops[i / 4].requests, "operation %u has %u requests", i / 4,
		          stuck);
	}
}

WEFT_TEST_MAIN({"draws", test_draws}, {"no new request of an old owner", test_stuck},
               {"a mutant is found", test_mutant})
