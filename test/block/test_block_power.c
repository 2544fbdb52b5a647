/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file What a caller of block devices may count on when things go wrong, over the driver "fault":
 * power cuts, an error at each request in turn, requests that are stuck. A driver that breaks a
 * promise is caught.
 */

#include <errno.h>
#include <stdlib.h>

#include "block_test.h"
#include "weft_base.h"
#include "weft_block_fault.h"
#include "weft_test.h"

#define BLOCK  512U
#define BLOCKS 24U
#define OPS    16U

static void
open_fault(struct disk *d, uint64_t seed)
{
	char options[64];
	struct weft_block_attr a = {
	        .driver = "fault", .options = options, .bytes = (uint64_t)BLOCKS * BLOCK};

	snprintf(options, sizeof(options), "inner=mem,seed=%" PRIu64, seed);
	disk_open(d, &a, OPS);
	d->step_ns = 1000;
}

/* ---- Power cuts ---- */

/** A write or flush under way. */
struct op {
	struct weft_block_req req;
	struct iovec iov;
	uint8_t data[4 * BLOCK];
	uint64_t version[4];     /**< of a write: that of each of its blocks */
	uint64_t covers[BLOCKS]; /**< of a flush: the versions that it makes durable */
	bool busy;
	struct run *run;
};

struct run {
	struct disk d;
	struct draw draw;
	struct op op[OPS];
	uint64_t submitted[BLOCKS], done[BLOCKS], durable[BLOCKS]; /**< versions; 0: zeros */
	bool writing[BLOCKS];
	uint64_t version;
};

/** Version v of a block tells itself in each of its words. */
static void
put_version(uint8_t *block, uint64_t v)
{
	for (unsigned int i = 0; i < BLOCK; i += 8)
		memcpy(block + i, &v, 8);
}

static void
op_done(struct weft_block_req *req)
{
	struct op *o = req->owner;
	struct run *r = o->run;
	uint64_t first = req->off_bytes / BLOCK;

	o->busy = false;
	if (req->op == WEFT_BLOCK_FLUSH) {
		for (unsigned int i = 0; req->status == 0 && i < BLOCKS; i++)
			r->durable[i] = RTE_MAX(r->durable[i], o->covers[i]);
		return;
	}
	for (uint64_t i = 0; i < req->len_bytes / BLOCK; i++) {
		r->writing[first + i] = false;
		if (req->status != 0)
			continue;
		r->done[first + i] = o->version[i];
		if (req->flags & WEFT_BLOCK_FUA)
			r->durable[first + i] = o->version[i];
	}
}

static void
start_write(struct run *r, struct op *o)
{
	uint64_t n = draw(&r->draw, 4) + 1, first = draw(&r->draw, BLOCKS - n + 1);

	for (uint64_t i = 0; i < n; i++)
		if (r->writing[first + i])
			return;
	o->iov = (struct iovec){o->data, n * BLOCK};
	o->req = (struct weft_block_req){.op = WEFT_BLOCK_WRITE,
	                                 .flags = draw(&r->draw, 8) == 0 ? WEFT_BLOCK_FUA : 0,
	                                 .off_bytes = first * BLOCK,
	                                 .len_bytes = n * BLOCK,
	                                 .iov = &o->iov,
	                                 .iovs = 1,
	                                 .done = op_done,
	                                 .owner = o};
	for (uint64_t i = 0; i < n; i++) {
		r->writing[first + i] = true;
		r->submitted[first + i] = o->version[i] = ++r->version;
		put_version(o->data + i * BLOCK, o->version[i]);
	}
	o->busy = true;
	CHECK_EQ(weft_block_submit(r->d.c, &o->req), 0);
}

static void
start_flush(struct run *r, struct op *o)
{
	o->req = (struct weft_block_req){.op = WEFT_BLOCK_FLUSH, .done = op_done, .owner = o};
	memcpy(o->covers, r->done, sizeof(r->done));
	o->busy = true;
	CHECK_EQ(weft_block_submit(r->d.c, &o->req), 0);
}

static bool
any_busy(const struct run *r)
{
	for (unsigned int i = 0; i < OPS; i++)
		if (r->op[i].busy)
			return true;
	return false;
}

/** After the cut each word is of a version between what was durable and what was submitted. */
static bool
holds(struct run *r)
{
	uint8_t data[BLOCK];
	uint64_t v;

	for (unsigned int b = 0; b < BLOCKS; b++) {
		CHECK_EQ(disk_io(&r->d, WEFT_BLOCK_READ, WEFT_BLOCK_MEDIUM, b * BLOCK, data, BLOCK),
		         0);
		for (unsigned int i = 0; i < BLOCK; i += 8) {
			memcpy(&v, data + i, 8);
			if (v < r->durable[b] || v > r->submitted[b])
				return false;
		}
	}
	return true;
}

/** One run: random writes and flushes, a cut, a look. */
static bool
survives(uint64_t seed, const struct weft_block_fault_cfg *cfg)
{
	struct run *r = calloc(1, sizeof(*r));
	bool ok;

	CHECK(r != NULL);
	r->draw.state = seed * 0x9e3779b97f4a7c15ULL + 1;
	for (unsigned int i = 0; i < OPS; i++)
		r->op[i].run = r;
	open_fault(&r->d, seed);
	weft_block_fault_set(r->d.b, cfg);
	for (uint64_t n = draw(&r->draw, 150); n > 0; n--) {
		struct op *o = &r->op[draw(&r->draw, OPS)];

		if (!o->busy && draw(&r->draw, 6) == 0)
			start_flush(r, o);
		else if (!o->busy)
			start_write(r, o);
		disk_poll(&r->d);
	}
	weft_block_fault_cut(r->d.b);
	while (any_busy(r))
		disk_poll(&r->d);
	weft_block_fault_boot(r->d.b);
	disk_poll(&r->d);
	ok = holds(r);
	disk_close(&r->d);
	free(r);
	return ok;
}

static const struct weft_block_fault_cfg slow = {
        .delay_max_ns = 8000, .leak_ppm = 30000, .atom_bytes = 8};

static void
test_cuts(void)
{
	uint64_t seed = test_seed(1);
	uint64_t last = test_seed_given() ? seed : seed + 999;

	for (; seed <= last; seed++) {
		test_seed_note(seed);
		CHECK(survives(seed, &slow));
	}
}

static void
test_flush_lies(void)
{
	struct weft_block_fault_cfg lies = slow;
	unsigned int caught = 0;

	lies.flush_lies = true;
	for (uint64_t seed = 1; seed <= 100; seed++)
		caught += !survives(seed, &lies);
	test_note("caught in %u of 100 runs", caught);
	CHECK(caught > 20);
}

/* ---- An error at each request in turn ---- */

/**
 * Write each block, flush, write each again, flush. Returns the number of requests; *failed: how
 * many ended with an error. What failed is written and flushed again.
 */
static uint64_t
workload(struct disk *d, unsigned int *failed)
{
	uint64_t before = weft_block_fault_requests(d->b);
	uint8_t data[BLOCK];

	for (unsigned int round = 1; round <= 2; round++) {
		bool again;

		do {
			again = false;
			for (unsigned int b = 0; b < 6; b++) {
				int r;

				put_version(data, round * 100 + b);
				while ((r = disk_io(d, WEFT_BLOCK_WRITE, 0, b * BLOCK, data,
				                    BLOCK)) != 0) {
					CHECK_EQ(r, -EIO);
					++*failed;
				}
			}
			if (disk_io(d, WEFT_BLOCK_FLUSH, 0, 0, NULL, 0) != 0) {
				++*failed;
				again = true;
			}
		} while (again);
	}
	return weft_block_fault_requests(d->b) - before;
}

static void
test_each_error(void)
{
	struct weft_block_fault_hit hit = {.skip = 0};
	struct weft_block_state state;
	uint8_t data[BLOCK], want[BLOCK];
	unsigned int failed = 0;
	uint64_t n;
	struct disk d;

	open_fault(&d, 3);
	n = workload(&d, &failed);
	CHECK_EQ(failed, 0);
	disk_close(&d);
	for (hit.skip = 0; hit.skip < n; hit.skip++) {
		failed = 0;
		open_fault(&d, hit.skip);
		weft_block_fault_fail(d.b, &hit, -EIO);
		(void)workload(&d, &failed);
		CHECK_EQ(failed, 1);
		weft_block_query_state(d.b, &state);
		CHECK_EQ(state.lost_flushes, hit.skip % 7 == 6);
		weft_block_fault_cut(d.b);
		weft_block_fault_boot(d.b);
		disk_poll(&d);
		for (unsigned int b = 0; b < 6; b++) {
			put_version(want, 200 + b);
			CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, b * BLOCK, data, BLOCK), 0);
			CHECK_MEM(data, want, BLOCK);
		}
		disk_close(&d);
	}
}

/* ---- Nothing lands later ---- */

/** The first owner's write is given up; the second owner's must stay. */
static bool
ghost_free(bool ghosts, uint64_t seed)
{
	const struct weft_block_fault_cfg cfg = {
	        .delay_min_ns = 5000, .delay_max_ns = 50000, .ghosts = ghosts};
	uint8_t one[BLOCK], two[BLOCK], is[BLOCK];
	struct iovec iov = {one, BLOCK};
	struct op o = {.req = {.op = WEFT_BLOCK_WRITE,
	                       .len_bytes = BLOCK,
	                       .iov = &iov,
	                       .iovs = 1,
	                       .done = op_done,
	                       .owner = &o}};
	struct run r = {.version = 0};
	bool ok;

	o.run = &r;
	open_fault(&r.d, seed);
	weft_block_fault_set(r.d.b, &cfg);
	put_version(one, 1);
	put_version(two, 2);
	o.busy = true;
	CHECK_EQ(weft_block_submit(r.d.c, &o.req), 0);
	for (uint64_t n = seed % 20; n > 0; n--)
		disk_poll(&r.d);
	(void)weft_block_cancel(r.d.c, &o.req);
	while (o.busy)
		disk_poll(&r.d);
	CHECK_EQ(disk_io(&r.d, WEFT_BLOCK_WRITE, WEFT_BLOCK_FUA, 0, two, BLOCK), 0);
	for (unsigned int n = 0; n < 100; n++)
		disk_poll(&r.d);
	CHECK_EQ(disk_io(&r.d, WEFT_BLOCK_READ, 0, 0, is, BLOCK), 0);
	ok = memcmp(is, two, BLOCK) == 0;
	disk_close(&r.d);
	return ok;
}

static void
test_ghosts(void)
{
	unsigned int caught = 0;

	for (uint64_t seed = 1; seed <= 500; seed++)
		CHECK(ghost_free(false, seed));
	for (uint64_t seed = 1; seed <= 100; seed++)
		caught += !ghost_free(true, seed);
	test_note("caught in %u of 100 runs", caught);
	CHECK(caught > 20);
}

/** A write with FUA is durable itself, and makes nothing else so. */
static void
test_fua_alone(void)
{
	uint8_t old[BLOCK], data[BLOCK];
	unsigned int lost = 0;

	for (uint64_t seed = 1; seed <= 32; seed++) {
		struct disk d;

		test_seed_note(seed);
		open_fault(&d, seed);
		put_version(data, 5);
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, 0, data, BLOCK), 0);
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, WEFT_BLOCK_FUA, BLOCK, data, BLOCK), 0);
		weft_block_fault_cut(d.b);
		weft_block_fault_boot(d.b);
		disk_poll(&d);
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, BLOCK, old, BLOCK), 0);
		CHECK_MEM(old, data, BLOCK);
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, 0, old, BLOCK), 0);
		lost += memcmp(old, data, BLOCK) != 0;
		disk_close(&d);
	}
	CHECK_MSG(lost > 0 && lost < 32, "lost in %u runs", lost);
}

static unsigned int late;

static void
on_late(struct weft_block_req *req)
{
	(void)req;
	late++;
}

/** A request that hangs is told, and keeps neither others nor the truth of a fence waiting. */
static void
test_stuck(void)
{
	const struct weft_block_fault_hit hit = {.off_bytes = 0, .len_bytes = BLOCK};
	uint8_t one[BLOCK], two[BLOCK], is[BLOCK];
	struct iovec iov = {one, BLOCK};
	struct run r = {.version = 0};
	struct op o = {.req = {.op = WEFT_BLOCK_WRITE,
	                       .len_bytes = BLOCK,
	                       .iov = &iov,
	                       .iovs = 1,
	                       .done = op_done,
	                       .late = on_late,
	                       .deadline_ns = 50000,
	                       .owner = &o},
	               .run = &r};
	struct weft_block_stats st;

	late = 0;
	open_fault(&r.d, 1);
	weft_block_fault_stick(r.d.b, &hit);
	put_version(one, 1);
	put_version(two, 2);
	o.busy = true;
	CHECK_EQ(weft_block_submit(r.d.c, &o.req), 0);
	CHECK_EQ(weft_block_next_ns(r.d.c), 50000);
	for (unsigned int n = 0; n < 10000; n++) {
		disk_poll(&r.d);
		if (n % 1000 == 0)
			CHECK_EQ(disk_io(&r.d, WEFT_BLOCK_WRITE, WEFT_BLOCK_FUA, BLOCK, two, BLOCK),
			         0);
	}
	CHECK(o.busy);
	CHECK_EQ(late, 1);
	CHECK_EQ(weft_block_cancel(r.d.c, &o.req), 0);
	CHECK_EQ(weft_block_fence(r.d.b), -EINPROGRESS);
	disk_poll(&r.d);
	CHECK_EQ(weft_block_fence(r.d.b), -EINPROGRESS);
	weft_block_query_stats(r.d.b, &st);
	CHECK(st.under_way == 1 && st.oldest_ns == 0);
	CHECK_EQ(weft_block_chan_close(r.d.c), -EBUSY);
	weft_block_fault_stick(r.d.b, NULL);
	while (o.busy)
		disk_poll(&r.d);
	CHECK_EQ(o.req.status, 0);
	CHECK_EQ(weft_block_fence(r.d.b), 0);
	CHECK_EQ(disk_io(&r.d, WEFT_BLOCK_READ, 0, BLOCK, is, BLOCK), -ESHUTDOWN);
	disk_close(&r.d);
}

/** A power cut ends what is under way, and the device comes back. */
static void
test_off_and_on(void)
{
	uint8_t data[BLOCK];
	struct disk d;

	open_fault(&d, 4);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, 0, data, BLOCK), 0);
	weft_block_fault_cut(d.b);
	CHECK_EQ(weft_block_check(d.b), -ENODEV);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, 0, data, BLOCK), -ENODEV);
	weft_block_fault_boot(d.b);
	CHECK_EQ(weft_block_check(d.b), 0);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, 0, data, BLOCK), 0);
	disk_close(&d);
}

WEFT_TEST_MAIN({"what is durable survives a power cut", test_cuts},
               {"a write with FUA is no flush", test_fua_alone},
               {"a flush without effect is caught", test_flush_lies},
               {"an error at each request in turn loses nothing", test_each_error},
               {"a canceled write never lands later, and one that does is caught", test_ghosts},
               {"a stuck request keeps nothing else waiting", test_stuck},
               {"a device goes offline and comes back", test_off_and_on})
