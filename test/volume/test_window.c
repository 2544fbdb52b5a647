/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Windows, each rule alone.
 */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "window_rig.h"

#define DISK_BYTES (12U << 20)
#define VOL_BYTES  600001U /* no multiple of a page */
#define SLOT_BYTES 65536U
#define SLOTS      4U
#define PERSIST    WEFT_FLUSH_PERSISTENT
#define VISIBLE    WEFT_FLUSH_VISIBLE

/** A volume with two channels and a client on each, and a pool. */
struct bench {
	struct rig r;
	struct weft_vol_windows *p;
	struct weft_vol_client client[2];
	uint8_t first[VOL_BYTES], is[VOL_BYTES + WIN_PAGE];
};

/** seed 0: the device "mem". All octets of the volume are drawn, and durable. */
static struct bench *
bench_begin(uint64_t seed, bool sums)
{
	struct bench *b = calloc(1, sizeof(*b));
	uint64_t draw = seed + 77;

	CHECK(b != NULL);
	rig_device(&b->r, DISK_BYTES, 512, seed);
	b->r.sums = sums;
	rig_format(&b->r, VOL_BYTES);
	rig_open(&b->r, 2, 4);
	for (unsigned int i = 0; i < 2; i++)
		weft_vol_client_open(b->r.chan[i], &b->client[i]);
	b->p = win_pool(SLOTS, SLOT_BYTES);
	for (uint64_t at = 0; at < VOL_BYTES; at++)
		b->first[at] = (uint8_t)rig_draw(&draw, 256);
	CHECK_EQ(rig_io(&b->r, WEFT_VOL_WRITE, 0, VOL_BYTES, b->first, 0), 0);
	CHECK_EQ(rig_flush(&b->r), 0);
	return b;
}

static void
bench_end(struct bench *b)
{
	CHECK_EQ(weft_vol_windows_destroy(b->p), 0);
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(weft_vol_client_close(&b->client[i]), 0);
	rig_end(&b->r);
	free(b);
}

/** A window of channel 0's client. */
static void
bench_window(struct bench *b, struct win *win, uint64_t off, uint32_t len)
{
	const struct weft_vol_window_attr a = win_attr(&b->r, 0, &b->client[0], win, off, len);

	win_open(&b->r, b->p, &a);
}

static void
bench_close(struct bench *b, struct win *win)
{
	win_close(win);
	win_closed(&b->r, win);
}

/** The volume has b->first. */
static void
bench_check(struct bench *b)
{
	CHECK_EQ(rig_io(&b->r, WEFT_VOL_READ, 0, VOL_BYTES, b->is, 0), 0);
	CHECK_MEM(b->is, b->first, VOL_BYTES);
}

static struct weft_vol_windows_stats
bench_stats(const struct bench *b)
{
	struct weft_vol_windows_stats s;

	weft_vol_windows_query(b->p, &s);
	return s;
}

static struct weft_vol_stats
chan_stats(const struct bench *b)
{
	struct weft_vol_stats s;

	weft_vol_query_stats(b->r.chan[0], &s);
	return s;
}

/* ---- The pool ---- */

static void
test_pool(void)
{
	static const struct weft_vol_windows_attr bad[] = {
	        {.bytes = 1 << 20, .window_bytes = 32768, .numa_node = -1},
	        {.bytes = 1 << 20, .window_bytes = 65536 + 4096, .numa_node = -1},
	        {.bytes = 1 << 28, .window_bytes = 128 << 20, .numa_node = -1},
	        {.bytes = 0, .window_bytes = 65536, .numa_node = -1},
	        {.bytes = 65536 + 4096, .window_bytes = 65536, .numa_node = -1}};
	struct weft_persist_attr pa = {
	        .size = sizeof(pa), .driver = "window", .bytes = 65536, .numa_node = -1};
	struct weft_vol_windows *p;
	struct weft_persist *m;

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_EQ(weft_vol_windows_create(&bad[i], &p), -EINVAL);
	CHECK_EQ(weft_vol_windows_create(NULL, &p), -EINVAL);
	CHECK_EQ(weft_vol_windows_destroy(NULL), 0);
	p = win_pool(3, 1 << 20);
	m = weft_vol_windows_medium(p);
	CHECK(m->bytes == 3 << 20 && (uintptr_t)m->base % 4096 == 0 && m->dirty != NULL);
	CHECK_STR(m->ops->name, "window");
	CHECK_EQ(weft_vol_windows_destroy(p), 0);
	/* Not by a configuration that has the name. */
	CHECK_EQ(weft_persist_open(&pa, &m), -ENOTSUP);
	pa.path = "windows of volumes";
	CHECK_EQ(weft_persist_open(&pa, &m), -ENOTSUP);
}

static void
test_errors(void)
{
	struct bench *b = bench_begin(0, false);
	struct weft_vol_window_attr a;
	struct weft_vol_client other = {0};
	struct win win[SLOTS + 1];
	struct weft_vol_window *w;

	static const struct {
		uint64_t off;
		uint32_t len;
	} bad[] = {{100, 4096},    {0, 0},         {0, 100},      {0, SLOT_BYTES + 4096},
	           {606208, 4096}, {598016, 4096}, {598016, 100}, {UINT64_MAX - 4095, 4096}};

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		a = win_attr(&b->r, 0, &b->client[0], &win[0], bad[i].off, bad[i].len);
		CHECK_EQ(weft_vol_window_open(b->p, &a, &w), -EINVAL);
	}
	a = win_attr(&b->r, 0, &b->client[1], &win[0], 0, 4096);
	CHECK_EQ(weft_vol_window_open(b->p, &a, &w), -EINVAL);
	a = win_attr(&b->r, 0, NULL, &win[0], 0, 4096);
	CHECK_EQ(weft_vol_window_open(b->p, &a, &w), -EINVAL);
	for (unsigned int i = 0; i < SLOTS; i++)
		bench_window(b, &win[i], i * 8192ULL, 4096);
	a = win_attr(&b->r, 0, &b->client[0], &win[SLOTS], 1 << 18, 4096);
	CHECK_EQ(weft_vol_window_open(b->p, &a, &w), -ENOSPC);
	CHECK_EQ(bench_stats(b).open, SLOTS);
	CHECK_EQ(bench_stats(b).opened, SLOTS);
	CHECK_EQ(bench_stats(b).refused_full, 1);
	CHECK_EQ(weft_vol_windows_destroy(b->p), -EBUSY);
	CHECK_EQ(weft_vol_client_close(&b->client[0]), -EBUSY);
	for (unsigned int i = 0; i < SLOTS; i++) {
		CHECK(weft_vol_window_at(win[i].w) % SLOT_BYTES == 0);
		CHECK_EQ(weft_vol_window_off(win[i].w), i * 8192);
		CHECK(weft_vol_window_used_ns(win[i].w) > 0);
		win_close(&win[i]);
		CHECK_EQ(win[i].closed, 1); /* nothing was under way */
	}
	weft_vol_window_close(NULL, NULL, NULL);
	weft_vol_client_open(b->r.chan[0], &other);
	CHECK_EQ(weft_vol_revoke(&other), 0);
	a = win_attr(&b->r, 0, &other, &win[0], 0, 4096);
	CHECK_EQ(weft_vol_window_open(b->p, &a, &w), -ESHUTDOWN);
	CHECK_EQ(weft_vol_client_close(&other), 0);
	bench_end(b);
}

static void
test_read_only(void)
{
	struct rig r;
	struct weft_vol_attr va = {.read_only = true};
	struct weft_vol_client client = {0};
	struct weft_vol_chan_attr ca = {0};
	struct weft_vol_window_attr a;
	struct weft_vol_windows *p = win_pool(2, SLOT_BYTES);
	struct weft_vol_window *w;
	struct win win;
	void *scratch;

	rig_device(&r, DISK_BYTES, 512, 0);
	rig_format(&r, VOL_BYTES);
	CHECK(posix_memalign(&scratch, 4096, weft_vol_scratch_bytes(&va)) == 0);
	va.memory = scratch;
	CHECK_EQ(weft_vol_open(r.block, &va, &r.vol), 0);
	CHECK_EQ(weft_vol_chan_open(r.vol, &ca, &r.chan[0]), 0);
	r.nchans = 1;
	r.scratch = scratch;
	weft_vol_client_open(r.chan[0], &client);
	a = win_attr(&r, 0, &client, &win, 0, 8192);
	CHECK_EQ(weft_vol_window_open(p, &a, &w), -EROFS);
	a.write = false;
	win_open(&r, p, &a);
	win_place(p, &win, 0, "x", 1);
	CHECK_EQ(win_flush(&r, p, &win, 0, 8192, PERSIST), 0); /* does nothing */
	win_close(&win);
	CHECK_EQ(weft_vol_windows_destroy(p), 0);
	CHECK_EQ(weft_vol_client_close(&client), 0);
	rig_end(&r);
}

/* ---- Memory ---- */

static void
test_fill(void)
{
	struct bench *b = bench_begin(1, false);
	struct weft_vol_window_attr a;
	static const uint8_t zeros[SLOT_BYTES];
	struct win win, last;

	bench_window(b, &win, 8192, SLOT_BYTES);
	CHECK_MEM(win_mem(b->p, &win), b->first + 8192, SLOT_BYTES);
	memset(win_mem(b->p, &win), 0xee, SLOT_BYTES);
	/* Moved: what it had is gone, behind its end as well. */
	CHECK_EQ(weft_vol_window_move(win.w, 16384, 8192, true), 0);
	CHECK_EQ(weft_vol_window_move(win.w, 16384, 8192, true), -EAGAIN); /* not ready */
	CHECK_EQ(win_wait(&b->r, &win), 0);
	CHECK_MEM(win_mem(b->p, &win), b->first + 16384, 8192);
	CHECK_MEM(win_mem(b->p, &win) + 8192, zeros, SLOT_BYTES - 8192);
	/* Zeros; and marks of before are forgotten. */
	win_place(b->p, &win, 0, b->first, 8192);
	CHECK_EQ(weft_vol_window_move(win.w, 0, 12288, false), 0);
	CHECK_EQ(win_wait(&b->r, &win), 0);
	CHECK_MEM(win_mem(b->p, &win), zeros, SLOT_BYTES);
	CHECK_EQ(win_flush(&b->r, b->p, &win, 0, 12288, PERSIST), 0);
	CHECK_EQ(bench_stats(b).flushed_octets, 0);
	CHECK_EQ(bench_stats(b).moved, 2);
	bench_check(b);
	/* The end of the volume. */
	a = win_attr(&b->r, 0, &b->client[0], &last, 598016, VOL_BYTES - 598016);
	win_open(&b->r, b->p, &a);
	CHECK_MEM(win_mem(b->p, &last), b->first + 598016, VOL_BYTES - 598016);
	b->first[VOL_BYTES - 1] ^= 0x55;
	win_place(b->p, &last, VOL_BYTES - 1 - 598016, b->first + VOL_BYTES - 1, 1);
	CHECK_EQ(win_flush(&b->r, b->p, &last, VOL_BYTES - 1 - 598016, 1, PERSIST), 0);
	bench_check(b);
	win_check_medium(&b->r, b->p, &last, 0, b->first + 598016, VOL_BYTES - 598016);
	bench_close(b, &win);
	bench_close(b, &last);
	bench_end(b);
}

/** A read that fails ends an opening; a moved window has zeros. */
static void
test_fill_fails(void)
{
	const struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_READ};
	struct bench *b = bench_begin(2, false);
	static const uint8_t zeros[SLOT_BYTES];
	struct weft_vol_window_attr a;
	struct win win, no;

	weft_block_fault_fail(b->r.block, &hit, -EIO);
	a = win_attr(&b->r, 0, &b->client[0], &no, 0, SLOT_BYTES);
	CHECK_EQ(weft_vol_window_open(b->p, &a, &no.w), 0);
	CHECK_EQ(win_wait(&b->r, &no), -EIO);
	CHECK_EQ(bench_stats(b).open, 0);
	bench_window(b, &win, 0, SLOT_BYTES);
	weft_block_fault_fail(b->r.block, &hit, -EIO);
	CHECK_EQ(weft_vol_window_move(win.w, 65536, SLOT_BYTES, true), 0);
	CHECK_EQ(win_wait(&b->r, &win), -EIO);
	CHECK_EQ(weft_vol_window_off(win.w), 65536);
	CHECK_MEM(win_mem(b->p, &win), zeros, SLOT_BYTES);
	weft_block_fault_fail(b->r.block, NULL, 0);
	bench_close(b, &win);
	/* Closed before it is ready: ready() is not called. */
	a = win_attr(&b->r, 0, &b->client[0], &no, 0, SLOT_BYTES);
	CHECK_EQ(weft_vol_window_open(b->p, &a, &no.w), 0);
	bench_close(b, &no);
	CHECK_EQ(no.ready, 0);
	bench_check(b);
	bench_end(b);
}

/* ---- Flushes ---- */

/** Only marked pages are written, and of these only those of the range. */
static void
test_marks(void)
{
	struct bench *b = bench_begin(3, false);
	uint64_t copied;
	uint8_t *mem;
	struct win win;

	bench_window(b, &win, 4096, 10 * WIN_PAGE);
	mem = win_mem(b->p, &win);
	memset(mem, 0x11, 10 * WIN_PAGE);
	win_place(b->p, &win, 2 * WIN_PAGE + 100, "a", 1);
	win_place(b->p, &win, 4 * WIN_PAGE - 1, "bc", 2); /* two pages */
	win_place(b->p, &win, 8 * WIN_PAGE, "d", 1);
	/* From the last octet of page 2 to the first of page 3. */
	CHECK_EQ(win_flush(&b->r, b->p, &win, 3 * WIN_PAGE - 1, 2, PERSIST), 0);
	memcpy(b->first + 4096 + 2 * WIN_PAGE, mem + 2 * WIN_PAGE, 2 * WIN_PAGE);
	bench_check(b);
	CHECK_EQ(bench_stats(b).flushed_octets, 2 * WIN_PAGE);
	CHECK(!win_marked(b->p, &win, 2) && !win_marked(b->p, &win, 3));
	CHECK(win_marked(b->p, &win, 4) && win_marked(b->p, &win, 8));
	win_check_medium(&b->r, b->p, &win, 2 * WIN_PAGE, mem + 2 * WIN_PAGE, 2 * WIN_PAGE);
	/* The rest. Pages that are not marked stay as they are, and nothing is copied. */
	copied = chan_stats(b).copied_octets;
	CHECK_EQ(win_flush(&b->r, b->p, &win, 0, 10 * WIN_PAGE, PERSIST | VISIBLE), 0);
	CHECK_EQ(chan_stats(b).copied_octets, copied);
	memcpy(b->first + 4096 + 4 * WIN_PAGE, mem + 4 * WIN_PAGE, WIN_PAGE);
	memcpy(b->first + 4096 + 8 * WIN_PAGE, mem + 8 * WIN_PAGE, WIN_PAGE);
	bench_check(b);
	CHECK_EQ(bench_stats(b).flushed_octets, 4 * WIN_PAGE);
	CHECK_EQ(bench_stats(b).flushes, 2);
	/* What is not flushed is lost with the window. */
	win_place(b->p, &win, 0, "e", 1);
	bench_close(b, &win);
	bench_check(b);
	bench_end(b);
}

/** What is placed while its page is written stays marked; with checksums, no block is damaged. */
static void
marks_kept(uint64_t seed, bool sums)
{
	const struct weft_block_fault_hit all = {.ops = 1U << WEFT_BLOCK_WRITE, .count = 1000};
	struct bench *b = bench_begin(seed, sums);
	const struct weft_vol_windows_stats before = bench_stats(b);
	struct preq q[2] = {0};
	struct rig_op scrub;
	struct win win;

	bench_window(b, &win, 0, 4 * WIN_PAGE);
	win_place(b->p, &win, 0, "old", 3);
	win_place(b->p, &win, WIN_PAGE, "old", 3);
	/* Of checksums and data the write of the data is stuck. */
	weft_block_fault_stick(b->r.block, &(struct weft_block_fault_hit){.ops = all.ops,
	                                                                  .count = 1000,
	                                                                  .skip = sums ? 1 : 0});
	CHECK_EQ(preq_flush(b->p, &win, &q[0], 0, 2 * WIN_PAGE, PERSIST), 0);
	for (unsigned int i = 0; i < 100; i++)
		rig_poll(&b->r);
	CHECK_EQ(q[0].done, 0);
	win_place(b->p, &win, 0, "new", 3);
	CHECK(win_marked(b->p, &win, 0) && !win_marked(b->p, &win, 1));
	/* A second flush does not overtake the first one. */
	CHECK_EQ(preq_flush(b->p, &win, &q[1], WIN_PAGE, WIN_PAGE, PERSIST), 0);
	for (unsigned int i = 0; i < 100; i++)
		rig_poll(&b->r);
	CHECK(q[0].done == 0 && q[1].done == 0);
	CHECK_EQ(weft_vol_window_move(win.w, 0, 4096, true), -EAGAIN);
	weft_block_fault_stick(b->r.block, NULL);
	CHECK_EQ(preq_wait(&b->r, &q[0]), 0);
	CHECK_EQ(preq_wait(&b->r, &q[1]), 0);
	CHECK(win_marked(b->p, &win, 0));
	if (sums) {
		rig_op(&scrub, WEFT_VOL_SCRUB, 0, VOL_BYTES, NULL);
		CHECK_EQ(rig_do(&b->r, &scrub), 0);
		CHECK_EQ(scrub.op.damaged, 0);
		CHECK_EQ(rig_io(&b->r, WEFT_VOL_READ, 0, VOL_BYTES, b->is, 0), 0);
	}
	memcpy(b->first, "new", 3);
	memcpy(b->first + WIN_PAGE, "old", 3);
	CHECK_EQ(win_flush(&b->r, b->p, &win, 0, 1, PERSIST), 0);
	CHECK(!win_marked(b->p, &win, 0));
	bench_check(b);
	win_check_medium(&b->r, b->p, &win, 0, b->first, 4 * WIN_PAGE);
	CHECK_EQ(bench_stats(b).flushed_octets - before.flushed_octets, 3 * WIN_PAGE);
	bench_close(b, &win);
	bench_end(b);
}

static void
test_marks_kept(void)
{
	marks_kept(4, false);
}

static void
test_marks_kept_sums(void)
{
	marks_kept(5, true);
}

/** A write that fails fails the requests that have its pages, and these stay marked. */
static void
test_write_fails(void)
{
	struct bench *b = bench_begin(6, false);
	struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_WRITE};
	struct preq q[3] = {0};
	struct win win;

	bench_window(b, &win, 0, 8 * WIN_PAGE);
	for (unsigned int i = 0; i < 8; i += 2) {
		win_place(b->p, &win, i * WIN_PAGE, "fresh", 5);
		memcpy(b->first + i * WIN_PAGE, "fresh", 5);
	}
	/* Page 2, wherever the volume's data begin. */
	hit.off_bytes = weft_vol_info(b->r.vol)->super.data_at + 2 * WIN_PAGE;
	hit.len_bytes = WIN_PAGE;
	weft_block_fault_fail(b->r.block, &hit, -EIO);
	/* The first holds the round, so the others are of one. */
	CHECK_EQ(preq_flush(b->p, &win, &q[0], 6 * WIN_PAGE, WIN_PAGE, PERSIST), 0);
	CHECK_EQ(preq_flush(b->p, &win, &q[1], 0, 4 * WIN_PAGE, PERSIST), 0);
	CHECK_EQ(preq_flush(b->p, &win, &q[2], 4 * WIN_PAGE, WIN_PAGE, PERSIST), 0);
	CHECK_EQ(preq_wait(&b->r, &q[1]), -EIO);
	CHECK_EQ(preq_wait(&b->r, &q[0]), 0);
	CHECK_EQ(preq_wait(&b->r, &q[2]), 0);
	CHECK(win_marked(b->p, &win, 2) && !win_marked(b->p, &win, 4));
	CHECK_EQ(bench_stats(b).flush_errors, 1);
	CHECK_EQ(win_flush(&b->r, b->p, &win, 0, 8 * WIN_PAGE, PERSIST), 0);
	bench_check(b);
	win_check_medium(&b->r, b->p, &win, 0, b->first, 8 * WIN_PAGE);
	bench_close(b, &win);
	bench_end(b);
}

/** A flush of the volume that fails: the pages are marked again, and the next flush writes them. */
static void
test_flush_fails(void)
{
	const struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_FLUSH};
	struct bench *b = bench_begin(7, false);
	struct win win;

	bench_window(b, &win, 0, 8 * WIN_PAGE);
	win_place(b->p, &win, 3 * WIN_PAGE, "fresh", 5);
	memcpy(b->first + 3 * WIN_PAGE, "fresh", 5);
	weft_block_fault_fail(b->r.block, &hit, -EIO);
	CHECK_EQ(win_flush(&b->r, b->p, &win, 0, 8 * WIN_PAGE, PERSIST), -EIO);
	CHECK(win_marked(b->p, &win, 3));
	CHECK_EQ(win_flush(&b->r, b->p, &win, 0, 8 * WIN_PAGE, PERSIST), 0);
	bench_check(b);
	win_check_medium(&b->r, b->p, &win, 0, b->first, 8 * WIN_PAGE);
	bench_close(b, &win);
	bench_end(b);
}

/** A flush for visibility is seen by others and is not durable. If another one's flush is lost, the
 * next flush for persistence fails, and the one behind it writes the pages again. */
static void
test_lost_flush(void)
{
	const struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_FLUSH};
	struct bench *b = bench_begin(8, false);
	struct rig_op o;
	struct win win;
	uint8_t page[WIN_PAGE];

	bench_window(b, &win, 0, 4 * WIN_PAGE);
	memcpy(page, b->first + WIN_PAGE, WIN_PAGE);
	memset(b->first + WIN_PAGE, 0x77, 100);
	win_place(b->p, &win, WIN_PAGE, b->first + WIN_PAGE, 100);
	CHECK_EQ(win_flush(&b->r, b->p, &win, 0, 4 * WIN_PAGE, VISIBLE), 0);
	CHECK(!win_marked(b->p, &win, 1));
	bench_check(b);
	win_check_medium(&b->r, b->p, &win, WIN_PAGE, page, WIN_PAGE);
	weft_block_fault_fail(b->r.block, &hit, -EIO);
	rig_op(&o, WEFT_VOL_FLUSH, 0, 0, NULL)->op.client = &b->client[1];
	rig_submit(&b->r, 1, &o);
	CHECK_EQ(rig_wait(&b->r, &o), -EIO);
	/* The client's own flush is told first; the window knows it by itself. */
	rig_op(&o, WEFT_VOL_FLUSH, 0, 0, NULL)->op.client = &b->client[0];
	CHECK_EQ(rig_do(&b->r, &o), -EIO);
	CHECK_EQ(win_flush(&b->r, b->p, &win, 0, WIN_PAGE, PERSIST), -EIO);
	CHECK(win_marked(b->p, &win, 1));
	CHECK_EQ(win_flush(&b->r, b->p, &win, 0, 4 * WIN_PAGE, PERSIST), 0);
	bench_check(b);
	win_check_medium(&b->r, b->p, &win, 0, b->first, 4 * WIN_PAGE);
	bench_close(b, &win);
	bench_end(b);
}

/** A device that is not persistent; ranges that no window has. */
static void
test_refused(void)
{
	struct bench *b = bench_begin(0, false);
	struct weft_persist *m = weft_vol_windows_medium(b->p);
	struct win win, short_one;
	struct preq q = {0};

	bench_window(b, &win, 0, SLOT_BYTES);
	bench_window(b, &short_one, SLOT_BYTES, 8192);
	CHECK_EQ(preq_flush(b->p, &win, &q, 0, 1, PERSIST), -EOPNOTSUPP);
	CHECK_EQ(q.done, 0);
	CHECK_EQ(preq_flush(b->p, &win, &q, m->bytes, 1, VISIBLE), -EINVAL);
	CHECK_EQ(preq_flush(b->p, &win, &q, 8, UINT64_MAX - 4, VISIBLE), -EINVAL);
	CHECK_EQ(preq_read(b->p, &win, &q, m->bytes - 1, 2), -EINVAL);
	CHECK_EQ(win_flush(&b->r, b->p, &win, 0, 0, PERSIST), 0);
	/* Behind the window's end, in a free slot, in two slots. */
	CHECK_EQ(win_flush(&b->r, b->p, &short_one, 8191, 2, VISIBLE), -ESHUTDOWN);
	CHECK_EQ(win_flush(&b->r, b->p, &short_one, 2 * SLOT_BYTES, 1, VISIBLE), -ESHUTDOWN);
	CHECK_EQ(win_flush(&b->r, b->p, &win, SLOT_BYTES - 1, 2, VISIBLE), -ESHUTDOWN);
	CHECK_EQ(preq_read(b->p, &short_one, &q, 8192, 1), 0);
	CHECK(q.done == 1 && q.req.status == -ESHUTDOWN && q.req.data == NULL);
	m->ops->release(m, &q.req);
	/* A whole region, which is longer. */
	win_place(b->p, &short_one, 8191, "x", 1);
	b->first[SLOT_BYTES + 8191] = 'x';
	CHECK_EQ(win_flush(&b->r, b->p, &short_one, 0, SLOT_BYTES, VISIBLE | WEFT_FLUSH_REGION), 0);
	bench_check(b);
	bench_close(b, &win);
	bench_close(b, &short_one);
	bench_end(b);
}

/** More runs than operations, several flushes at once: each is answered. */
static void
test_many(void)
{
	enum { FLUSHES = 40 };
	struct weft_block_fault_cfg cfg = {.delay_max_ns = 20000, .busy_ppm = 100000};
	struct bench *b = bench_begin(9, false);
	struct preq *q = calloc(FLUSHES, sizeof(*q));
	struct win win;

	weft_block_fault_set(b->r.block, &cfg);
	bench_window(b, &win, 0, SLOT_BYTES);
	for (unsigned int i = 0; i < FLUSHES; i++) {
		const uint64_t page = i * 7 % 16;
		const uint8_t value = (uint8_t)i;

		win_place(b->p, &win, page * WIN_PAGE + i, &value, 1);
		b->first[page * WIN_PAGE + i] = value;
		if (i % 4 == 3)
			CHECK_EQ(preq_flush(b->p, &win, &q[i], i % 8 < 4 ? 0 : page * WIN_PAGE,
			                    i % 8 < 4 ? SLOT_BYTES : 1, PERSIST),
			         0);
		else
			CHECK_EQ(preq_flush(b->p, &win, &q[i], page * WIN_PAGE, WIN_PAGE, PERSIST),
			         0);
		if (i % 5 == 0)
			rig_poll(&b->r);
	}
	for (unsigned int i = 0; i < FLUSHES; i++)
		CHECK_EQ(preq_wait(&b->r, &q[i]), 0);
	/* Those that wait share a flush of the volume. */
	CHECK(chan_stats(b).ops[WEFT_VOL_FLUSH] < FLUSHES / 2);
	bench_check(b);
	win_check_medium(&b->r, b->p, &win, 0, b->first, SLOT_BYTES);
	bench_close(b, &win);
	free(q);
	bench_end(b);
}

/* ---- Flushes ahead ---- */

#define SLOW_NS 1000000U /* of each request of the device */

/** N pages, each with a flush, executed one after the other: with or without a beginning ahead.
 * Returns how many times SLOW_NS that has taken. */
static uint64_t
slow_flushes(unsigned int n, bool ahead)
{
	const struct weft_block_fault_cfg cfg = {.delay_min_ns = SLOW_NS, .delay_max_ns = SLOW_NS};
	struct bench *b = bench_begin(19, false);
	struct preq q = {0};
	struct win win;
	uint64_t from;

	bench_window(b, &win, 0, SLOT_BYTES);
	weft_block_fault_set(b->r.block, &cfg);
	for (unsigned int i = 0; i < n; i++) {
		win_place(b->p, &win, i * 2 * WIN_PAGE, "slow", 4);
		memcpy(b->first + i * 2 * WIN_PAGE, "slow", 4);
	}
	from = b->r.now_ns;
	for (unsigned int i = 0; i < n && ahead; i++)
		win_ahead(b->p, &win, i * 2 * WIN_PAGE, WIN_PAGE, PERSIST);
	for (unsigned int i = 0; i < n; i++) {
		CHECK_EQ(preq_flush(b->p, &win, &q, i * 2 * WIN_PAGE, WIN_PAGE, PERSIST), 0);
		CHECK_EQ(preq_wait(&b->r, &q), 0);
	}
	from = b->r.now_ns - from;
	CHECK_EQ(bench_stats(b).flushes, n);
	CHECK_EQ(bench_stats(b).flushed_octets, n * WIN_PAGE);
	CHECK_EQ(bench_stats(b).ahead, ahead ? n : 0);
	weft_block_fault_set(b->r.block, &(struct weft_block_fault_cfg){0});
	win_check_medium(&b->r, b->p, &win, 0, b->first, SLOT_BYTES);
	bench_close(b, &win);
	bench_end(b);
	return (from + SLOW_NS / 2) / SLOW_NS;
}

/** A write and a flush of the device for all, or for each. */
static void
test_ahead_overlaps(void)
{
	CHECK_EQ(slow_flushes(8, false), 16);
	/* The first one of all that are written does not wait for the others. */
	CHECK(slow_flushes(8, true) <= 3);
	CHECK_EQ(slow_flushes(1, true), 2);
}

/** What is placed behind a beginning ahead, the flush has as well. */
static void
test_ahead_marks(void)
{
	const struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_WRITE, .count = 1000};
	struct bench *b = bench_begin(20, false);
	struct preq q = {0};
	struct win win;

	bench_window(b, &win, 0, SLOT_BYTES);
	win_place(b->p, &win, 0, "old", 3);
	win_place(b->p, &win, 2 * WIN_PAGE, "none", 4);
	weft_block_fault_stick(b->r.block, &hit);
	win_ahead(b->p, &win, 0, WIN_PAGE, PERSIST);
	for (unsigned int i = 0; i < 20; i++)
		rig_poll(&b->r);
	CHECK(!win_marked(b->p, &win, 0) && win_marked(b->p, &win, 2));
	/* The flush finds the mark taken, and waits all the same. */
	CHECK_EQ(preq_flush(b->p, &win, &q, 0, WIN_PAGE, VISIBLE), 0);
	for (unsigned int i = 0; i < 20; i++)
		rig_poll(&b->r);
	CHECK_EQ(q.done, 0);
	weft_block_fault_stick(b->r.block, NULL);
	CHECK_EQ(preq_wait(&b->r, &q), 0);
	/* A mark that was set since. */
	win_ahead(b->p, &win, 0, WIN_PAGE, PERSIST);
	for (unsigned int i = 0; i < 100; i++)
		rig_poll(&b->r);
	win_place(b->p, &win, 0, "new", 3);
	CHECK_EQ(win_flush(&b->r, b->p, &win, 0, WIN_PAGE, PERSIST), 0);
	memcpy(b->first, "new", 3);
	win_check_medium(&b->r, b->p, &win, 0, b->first, SLOT_BYTES);
	bench_check(b);
	/* All is durable: the flush needs no device. */
	CHECK_EQ(preq_flush(b->p, &win, &q, 0, WIN_PAGE, PERSIST), 0);
	CHECK(q.done == 1 && q.req.status == 0);
	CHECK_EQ(bench_stats(b).flushed_octets, 2 * WIN_PAGE);
	bench_close(b, &win);
	bench_end(b);
}

/** What fails ahead is done again; but a client is told of a flush of the device that failed. */
static void
test_ahead_fails(void)
{
	struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_WRITE};
	struct bench *b = bench_begin(21, false);
	struct rig_op o;
	struct win win;

	bench_window(b, &win, 0, SLOT_BYTES);
	win_place(b->p, &win, 0, "once", 4);
	memcpy(b->first, "once", 4);
	weft_block_fault_fail(b->r.block, &hit, -EIO);
	win_ahead(b->p, &win, 0, WIN_PAGE, PERSIST);
	for (unsigned int i = 0; i < 100; i++)
		rig_poll(&b->r);
	CHECK(win_marked(b->p, &win, 0));
	CHECK_EQ(win_flush(&b->r, b->p, &win, 0, WIN_PAGE, PERSIST), 0);
	win_check_medium(&b->r, b->p, &win, 0, b->first, SLOT_BYTES);
	/* The flush waits for the write that fails. */
	win_place(b->p, &win, 0, "more", 4);
	memcpy(b->first, "more", 4);
	weft_block_fault_fail(b->r.block, &hit, -EIO);
	win_ahead(b->p, &win, 0, WIN_PAGE, PERSIST);
	CHECK_EQ(win_flush(&b->r, b->p, &win, 0, WIN_PAGE, PERSIST), 0);
	win_check_medium(&b->r, b->p, &win, 0, b->first, SLOT_BYTES);
	/* The flush of the device, which had a change by a call as well. */
	rig_op(&o, WEFT_VOL_WRITE, SLOT_BYTES, 1, b->first + SLOT_BYTES)->op.client = &b->client[0];
	CHECK_EQ(rig_do(&b->r, &o), 0);
	win_place(b->p, &win, WIN_PAGE, "told", 4);
	memcpy(b->first + WIN_PAGE, "told", 4);
	hit.ops = 1U << WEFT_BLOCK_FLUSH;
	weft_block_fault_fail(b->r.block, &hit, -EIO);
	win_ahead(b->p, &win, WIN_PAGE, WIN_PAGE, PERSIST);
	for (unsigned int i = 0; i < 100; i++)
		rig_poll(&b->r);
	CHECK(win_marked(b->p, &win, 1));
	CHECK_EQ(win_flush(&b->r, b->p, &win, 0, WIN_PAGE, PERSIST), -EIO);
	CHECK_EQ(win_flush(&b->r, b->p, &win, WIN_PAGE, WIN_PAGE, PERSIST), 0);
	CHECK_EQ(rig_io(&b->r, WEFT_VOL_WRITE, SLOT_BYTES, 1, b->first + SLOT_BYTES, 0), 0);
	bench_check(b);
	win_check_medium(&b->r, b->p, &win, 0, b->first, SLOT_BYTES);
	CHECK_EQ(bench_stats(b).flush_errors, 1);
	bench_close(b, &win);
	bench_end(b);
}

/** A flush of the device fails when the pages of another request are written: that one writes them
 * again, and so does one that began ahead. */
static void
test_ahead_flush_fails(void)
{
	const struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_FLUSH};
	struct bench *b = bench_begin(22, false);
	struct preq q[2] = {0};
	struct win win;

	bench_window(b, &win, 0, SLOT_BYTES);
	for (unsigned int i = 0; i < 6; i += 2) {
		win_place(b->p, &win, i * WIN_PAGE, "again", 5);
		memcpy(b->first + i * WIN_PAGE, "again", 5);
	}
	weft_block_fault_stick(b->r.block, &hit);
	weft_block_fault_fail(b->r.block, &hit, -EIO);
	CHECK_EQ(preq_flush(b->p, &win, &q[0], 0, WIN_PAGE, PERSIST), 0);
	for (unsigned int i = 0; i < 20; i++)
		rig_poll(&b->r);
	CHECK_EQ(preq_flush(b->p, &win, &q[1], 0, 3 * WIN_PAGE, PERSIST), 0);
	win_ahead(b->p, &win, 4 * WIN_PAGE, WIN_PAGE, PERSIST);
	for (unsigned int i = 0; i < 20; i++)
		rig_poll(&b->r);
	CHECK_EQ(bench_stats(b).flushed_octets, 3 * WIN_PAGE);
	weft_block_fault_stick(b->r.block, NULL);
	CHECK_EQ(preq_wait(&b->r, &q[0]), -EIO);
	CHECK(q[1].done == 0 && win_marked(b->p, &win, 4));
	CHECK_EQ(preq_wait(&b->r, &q[1]), 0);
	CHECK_EQ(bench_stats(b).flushed_octets, 5 * WIN_PAGE);
	win_check_medium(&b->r, b->p, &win, 0, b->first, 4 * WIN_PAGE);
	CHECK_EQ(win_flush(&b->r, b->p, &win, 4 * WIN_PAGE, 1, PERSIST), 0);
	win_check_medium(&b->r, b->p, &win, 0, b->first, SLOT_BYTES);
	bench_check(b);
	bench_close(b, &win);
	bench_end(b);
}

/** Where nothing begins ahead: no such range, a window that only reads, a device that is not
 * persistent, too many. */
static void
test_ahead_refused(void)
{
	const struct weft_block_fault_hit hit = {.count = 1000};
	struct bench *b = bench_begin(0, false);
	struct weft_vol_window_attr a;
	struct weft_persist *m = weft_vol_windows_medium(b->p);
	struct win win, other;
	struct preq q = {0};

	bench_window(b, &win, 0, 2 * WIN_PAGE);
	win_place(b->p, &win, 0, "x", 1);
	win_ahead(b->p, &win, 0, 1, PERSIST);
	win_ahead(b->p, &win, 0, 0, VISIBLE);
	win_ahead(b->p, &win, WIN_PAGE, SLOT_BYTES, VISIBLE);
	win_ahead(b->p, &win, m->bytes, 1, VISIBLE);
	win_ahead(b->p, &win, 8, UINT64_MAX - 4, VISIBLE);
	a = win_attr(&b->r, 1, &b->client[1], &other, SLOT_BYTES, WIN_PAGE);
	a.write = false;
	win_open(&b->r, b->p, &a);
	win_ahead(b->p, &other, 0, 1, VISIBLE);
	CHECK(bench_stats(b).ahead == 0 && win_marked(b->p, &win, 0));
	/* A whole region. */
	win_ahead(b->p, &win, 0, SLOT_BYTES, VISIBLE | WEFT_FLUSH_REGION);
	for (unsigned int i = 0; i < 100; i++)
		rig_poll(&b->r);
	b->first[0] = 'x';
	bench_check(b);
	CHECK_EQ(bench_stats(b).ahead, 1);
	bench_close(b, &win);
	bench_close(b, &other);
	bench_end(b);

	b = bench_begin(23, false);
	bench_window(b, &win, 0, SLOT_BYTES);
	weft_block_fault_stick(b->r.block, &hit);
	for (unsigned int i = 0; i < 18; i++) {
		win_place(b->p, &win, 0, "x", 1);
		win_ahead(b->p, &win, 0, WIN_PAGE + i, PERSIST);
	}
	CHECK_EQ(bench_stats(b).ahead, 16);
	CHECK_EQ(bench_stats(b).ahead_refused, 2);
	CHECK_EQ(weft_vol_window_move(win.w, 0, WIN_PAGE, true), -EAGAIN);
	weft_block_fault_stick(b->r.block, NULL);
	CHECK_EQ(preq_flush(b->p, &win, &q, 0, 2 * WIN_PAGE, PERSIST), 0);
	CHECK_EQ(preq_wait(&b->r, &q), 0);
	for (unsigned int i = 0; i < 100; i++)
		rig_poll(&b->r);
	CHECK_EQ(weft_vol_window_move(win.w, 0, WIN_PAGE, true), 0);
	CHECK_EQ(win_wait(&b->r, &win), 0);
	b->first[0] = 'x';
	bench_check(b);
	bench_close(b, &win);
	bench_end(b);
}

/** A window that is closed, or whose client is revoked: no request of the device follows. */
static void
ahead_ends(bool revoke)
{
	const struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_WRITE, .count = 1000};
	struct bench *b = bench_begin(24, false);
	uint64_t requests;
	struct win win;

	CHECK_EQ(weft_vol_windows_destroy(b->p), 0);
	b->p = win_pool(1, 1U << 17);
	bench_window(b, &win, 0, 1U << 17);
	for (unsigned int i = 0; i < 32; i += 2)
		win_place(b->p, &win, i * WIN_PAGE, "y", 1);
	weft_block_fault_stick(b->r.block, &hit);
	win_ahead(b->p, &win, 0, 1U << 17, PERSIST);
	win_ahead(b->p, &win, WIN_PAGE, WIN_PAGE, PERSIST);
	for (unsigned int i = 0; i < 20; i++)
		rig_poll(&b->r);
	requests = weft_block_fault_requests(b->r.block);
	if (revoke)
		CHECK_EQ(weft_vol_revoke(&b->client[0]), 8);
	win_close(&win);
	CHECK_EQ(win.closed, 0);
	weft_block_fault_stick(b->r.block, NULL);
	win_closed(&b->r, &win);
	CHECK_EQ(weft_block_fault_requests(b->r.block), requests);
	bench_end(b);
}

static void
test_ahead_ends(void)
{
	ahead_ends(false);
	ahead_ends(true);
}

/* ---- Read-backs ---- */

static void
test_read_back(void)
{
	struct bench *b = bench_begin(10, false);
	struct weft_persist *m = weft_vol_windows_medium(b->p);
	const struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_READ, .count = 1000};
	struct preq q[16] = {0};
	struct rig_op o;
	struct win win, other;
	unsigned int n = 0;

	bench_window(b, &win, 0, SLOT_BYTES);
	win_place(b->p, &win, 100, "not flushed", 11);
	/* Of the medium: neither what lies in the window nor what lies in the device's cache. */
	win_check_medium(&b->r, b->p, &win, 0, b->first, SLOT_BYTES);
	win_check_medium(&b->r, b->p, &win, 99, b->first + 99, 4001);
	CHECK_EQ(bench_stats(b).verified_octets, SLOT_BYTES + 4001);
	CHECK(bench_stats(b).flushed_octets == 0);
	/* Buffers are bounded, and so is what one volume has of them while it is stuck. */
	bench_window(b, &other, SLOT_BYTES, SLOT_BYTES);
	weft_block_fault_stick(b->r.block, &hit);
	while (n < 16 && preq_read(b->p, &win, &q[n], 0, 4096) == 0)
		n++;
	CHECK_EQ(n, 4);
	CHECK_EQ(preq_read(b->p, &other, &q[n], 0, 4096), -EAGAIN);
	weft_block_fault_stick(b->r.block, NULL);
	for (unsigned int i = 0; i < n; i++)
		CHECK_EQ(preq_wait(&b->r, &q[i]), 0);
	/* Data that is held does not hinder others, until all buffers are in use. */
	for (; n < 8; n++) {
		CHECK_EQ(preq_read(b->p, &other, &q[n], 0, 4096), 0);
		CHECK_EQ(preq_wait(&b->r, &q[n]), 0);
	}
	CHECK_EQ(preq_read(b->p, &other, &q[n], 0, 4096), -EAGAIN);
	for (unsigned int i = 0; i < n; i++)
		CHECK_MEM(q[i].req.data, b->first + (i < 4 ? 0 : SLOT_BYTES), 4096);
	bench_close(b, &other);
	bench_close(b, &win);
	CHECK_EQ(weft_vol_windows_destroy(b->p), -EBUSY);
	for (unsigned int i = 0; i < n; i++)
		m->ops->release(m, &q[i].req);
	/* A medium that fails. */
	bench_window(b, &win, 0, SLOT_BYTES);
	weft_block_fault_fail(b->r.block, &hit, -EIO);
	CHECK_EQ(preq_read(b->p, &win, &q[0], 0, 4096), 0);
	CHECK_EQ(preq_wait(&b->r, &q[0]), -EIO);
	CHECK(q[0].req.data == NULL);
	m->ops->release(m, &q[0].req);
	weft_block_fault_fail(b->r.block, NULL, 0);
	/* Another operation of the medium: a read with the flag. */
	rig_op(&o, WEFT_VOL_READ, 10, 5000, b->is)->op.flags = WEFT_VOL_MEDIUM;
	CHECK_EQ(rig_do(&b->r, &o), 0);
	CHECK_MEM(b->is, b->first + 10, 5000);
	rig_op(&o, WEFT_VOL_WRITE, 10, 5000, b->is)->op.flags = WEFT_VOL_MEDIUM;
	CHECK_EQ(weft_vol_submit(b->r.chan[0], &o.op), -EINVAL);
	bench_close(b, &win);
	bench_end(b);
}

/** With checksums: the medium may be older than the page of checksums, and is no damage. */
static void
test_read_back_sums(void)
{
	struct bench *b = bench_begin(11, true);
	uint8_t was[WIN_PAGE];
	struct win win;

	memcpy(was, b->first, WIN_PAGE);
	bench_window(b, &win, 0, SLOT_BYTES);
	win_place(b->p, &win, 0, "seen", 4);
	memcpy(b->first, "seen", 4);
	CHECK_EQ(win_flush(&b->r, b->p, &win, 0, SLOT_BYTES, VISIBLE), 0);
	bench_check(b);
	win_check_medium(&b->r, b->p, &win, 0, was, WIN_PAGE);
	CHECK_EQ(win_flush(&b->r, b->p, &win, 0, 1, PERSIST), 0);
	win_check_medium(&b->r, b->p, &win, 0, b->first, SLOT_BYTES);
	CHECK_EQ(chan_stats(b).damaged, 0);
	bench_close(b, &win);
	bench_end(b);
}

/* ---- Overlap ---- */

static void
test_overlap(void)
{
	struct bench *b = bench_begin(12, false);
	struct weft_vol_window_attr a;
	struct win win[3], no;
	struct rig_op o;

	bench_window(b, &win[0], 8192, 8192);
	a = win_attr(&b->r, 1, &b->client[1], &no, 12288, 8192);
	CHECK_EQ(weft_vol_window_open(b->p, &a, &no.w), -EBUSY);
	a.write = false;
	CHECK_EQ(weft_vol_window_open(b->p, &a, &no.w), -EBUSY);
	CHECK_EQ(bench_stats(b).refused_overlap, 2);
	/* Neighbours; and two that only read. */
	a = win_attr(&b->r, 1, &b->client[1], &win[1], 16384, 8192);
	a.write = false;
	win_open(&b->r, b->p, &a);
	a.owner = &win[2];
	win[2] = (struct win){0};
	a.off_bytes = 20480;
	win_open(&b->r, b->p, &a);
	CHECK_EQ(weft_vol_window_move(win[0].w, 12288, 8192, true), -EBUSY);
	CHECK_EQ(weft_vol_window_off(win[0].w), 8192);
	/* Over its own old range. */
	CHECK_EQ(weft_vol_window_move(win[0].w, 4096, 8192, true), 0);
	CHECK_EQ(win_wait(&b->r, &win[0]), 0);
	/* Changes by others, on whatever channel, also by its client. */
	for (unsigned int i = 0; i < 6; i++) {
		static const enum weft_vol_kind kinds[] = {WEFT_VOL_WRITE, WEFT_VOL_COMPARE_WRITE,
		                                           WEFT_VOL_ZEROES, WEFT_VOL_DISCARD};
		const enum weft_vol_kind kind = kinds[i % 4];
		const bool memory = i % 4 < 2;

		rig_op(&o, kind, 12287, 1, memory ? b->is : NULL);
		o.op.expect = b->is;
		o.op.client = i < 4 ? NULL : &b->client[0];
		CHECK_EQ(weft_vol_submit(b->r.chan[i < 4 ? i % 2 : 0], &o.op), -EBUSY);
		rig_op(&o, kind, 4000, 97, memory ? b->is : NULL);
		o.op.expect = b->is;
		CHECK_EQ(weft_vol_submit(b->r.chan[i % 2], &o.op), -EBUSY);
	}
	/* Not: beside it, in a window that only reads, reads, flushes, scrubs. */
	memcpy(b->first + 4000, "beside", 6);
	CHECK_EQ(rig_io(&b->r, WEFT_VOL_WRITE, 4000, 96, b->first + 4000, 0), 0);
	memcpy(b->first + 17000, "under", 5);
	CHECK_EQ(rig_io(&b->r, WEFT_VOL_WRITE, 12288, 9000, b->first + 12288, 0), 0);
	CHECK_EQ(rig_flush(&b->r), 0);
	CHECK_EQ(rig_io(&b->r, WEFT_VOL_WRITE, 5000, 0, NULL, 0), 0);
	rig_op(&o, WEFT_VOL_SCRUB, 0, VOL_BYTES, NULL);
	CHECK_EQ(rig_do(&b->r, &o), 0);
	bench_check(b);
	/* The window that only reads has what it was filled with. */
	CHECK(memcmp(win_mem(b->p, &win[1]) + 616, "under", 5) != 0);
	for (unsigned int i = 0; i < 3; i++)
		bench_close(b, &win[i]);
	CHECK_EQ(rig_io(&b->r, WEFT_VOL_WRITE, 4096, 8192, b->first + 4096, 0), 0);
	bench_end(b);
}

/** A change that was submitted before the opening is in the window, which waits for it. */
static void
test_change_before(void)
{
	const struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_WRITE, .count = 1000};
	struct bench *b = bench_begin(13, false);
	struct weft_vol_window_attr a;
	struct rig_op o;
	struct win win;

	weft_block_fault_stick(b->r.block, &hit);
	memset(b->first + 5000, 0x3c, 100);
	rig_op(&o, WEFT_VOL_WRITE, 5000, 100, b->first + 5000);
	rig_submit(&b->r, 1, &o);
	a = win_attr(&b->r, 0, &b->client[0], &win, 4096, 4096);
	CHECK_EQ(weft_vol_window_open(b->p, &a, &win.w), 0);
	for (unsigned int i = 0; i < 100; i++)
		rig_poll(&b->r);
	CHECK_EQ(win.ready, 0);
	weft_block_fault_stick(b->r.block, NULL);
	CHECK_EQ(win_wait(&b->r, &win), 0);
	CHECK_EQ(o.done, 1);
	CHECK_MEM(win_mem(b->p, &win), b->first + 4096, 4096);
	bench_close(b, &win);
	bench_end(b);
}

/* ---- Ends ---- */

static void
close_then(struct preq *q)
{
	win_close(q->owner);
}

static void
flush_then(struct preq *q)
{
	struct preq *next = q->owner;
	struct weft_persist *m = next->owner;

	CHECK_EQ(m->ops->flush(m, NULL, &next->req), 0);
}

/** Callbacks close the window, and flush it. */
static void
test_callbacks(void)
{
	struct bench *b = bench_begin(15, false);
	struct weft_persist *m = weft_vol_windows_medium(b->p);
	struct preq q[3] = {0};
	struct win win;

	bench_window(b, &win, 0, SLOT_BYTES);
	for (unsigned int i = 0; i < 3; i++)
		win_place(b->p, &win, i * 2 * WIN_PAGE, "x", 1);
	q[0].then = close_then;
	q[0].owner = &win;
	CHECK_EQ(preq_flush(b->p, &win, &q[0], 0, 1, PERSIST), 0);
	CHECK_EQ(preq_flush(b->p, &win, &q[1], 2 * WIN_PAGE, 1, PERSIST), 0);
	CHECK_EQ(preq_wait(&b->r, &q[0]), 0);
	CHECK_EQ(preq_wait(&b->r, &q[1]), -ECANCELED);
	win_closed(&b->r, &win);
	b->first[0] = 'x';
	/* The device had the write of the second one. */
	CHECK_EQ(rig_io(&b->r, WEFT_VOL_READ, 2 * WIN_PAGE, 1, b->is, 0), 0);
	CHECK(b->is[0] == 'x' || b->is[0] == b->first[2 * WIN_PAGE]);
	b->first[2 * WIN_PAGE] = b->is[0];
	bench_check(b);
	/* A read-back that flushes, whose flush closes. */
	bench_window(b, &win, 0, SLOT_BYTES);
	win_place(b->p, &win, 8, "y", 1);
	b->first[8] = 'y';
	q[1].then = close_then;
	q[1].owner = &win;
	CHECK_EQ(preq_flush(b->p, &win, &q[1], SLOT_BYTES, 0, VISIBLE), 0);
	win_closed(&b->r, &win);
	bench_window(b, &win, 0, SLOT_BYTES);
	win_place(b->p, &win, 8, "y", 1);
	q[1].then = NULL;
	q[1].owner = m;
	q[0].then = flush_then;
	q[0].owner = &q[1];
	CHECK_EQ(preq_read(b->p, &win, &q[1], 0, 64), 0); /* sets the fields that flush_then uses */
	CHECK_EQ(preq_wait(&b->r, &q[1]), 0);
	m->ops->release(m, &q[1].req);
	q[1].done = 0;
	q[1].req.flags = PERSIST;
	CHECK_EQ(preq_read(b->p, &win, &q[0], 0, 64), 0);
	CHECK_EQ(preq_wait(&b->r, &q[0]), 0);
	CHECK_EQ(preq_wait(&b->r, &q[1]), 0);
	m->ops->release(m, &q[0].req);
	bench_check(b);
	/* A read-back in whose done() the window is closed. */
	q[0].then = close_then;
	q[0].owner = &win;
	CHECK_EQ(preq_read(b->p, &win, &q[0], 0, 64), 0);
	CHECK_EQ(preq_wait(&b->r, &q[0]), 0);
	CHECK_EQ(win.closed, 1);
	CHECK_MEM(q[0].req.data, b->first, 64);
	m->ops->release(m, &q[0].req);
	bench_end(b);
}

/** Requests under way when the window is closed, or its client revoked. */
static void
end_in_the_middle(bool revoke)
{
	const struct weft_block_fault_hit hit = {.count = 1000};
	struct bench *b = bench_begin(15, false);
	struct weft_persist *m = weft_vol_windows_medium(b->p);
	struct preq q[4] = {0};
	struct win win;

	bench_window(b, &win, 0, SLOT_BYTES);
	win_place(b->p, &win, 0, "x", 1);
	win_place(b->p, &win, 2 * WIN_PAGE, "x", 1);
	weft_block_fault_stick(b->r.block, &hit);
	CHECK_EQ(preq_flush(b->p, &win, &q[0], 0, 1, PERSIST), 0);
	CHECK_EQ(preq_flush(b->p, &win, &q[1], 2 * WIN_PAGE, 1, PERSIST), 0);
	CHECK_EQ(preq_read(b->p, &win, &q[2], 0, 64), 0);
	for (unsigned int i = 0; i < 20; i++)
		rig_poll(&b->r);
	if (revoke) {
		CHECK(weft_vol_revoke(&b->client[0]) > 0);
		CHECK_EQ(win_flush(&b->r, b->p, &win, 0, 1, PERSIST), -ESHUTDOWN);
		CHECK_EQ(preq_read(b->p, &win, &q[3], 0, 64), 0);
		CHECK_EQ(q[3].req.status, -ESHUTDOWN);
		m->ops->release(m, &q[3].req);
		CHECK_EQ(weft_vol_window_move(win.w, 0, 4096, true), -ESHUTDOWN);
	}
	win_close(&win);
	CHECK_EQ(win.closed, 0);
	weft_block_fault_stick(b->r.block, NULL);
	(void)preq_wait(&b->r, &q[0]);
	CHECK(q[0].req.status == 0 || q[0].req.status == -ECANCELED);
	CHECK_EQ(preq_wait(&b->r, &q[1]), -ECANCELED);
	(void)preq_wait(&b->r, &q[2]);
	m->ops->release(m, &q[2].req);
	win_closed(&b->r, &win);
	CHECK_EQ(rig_io(&b->r, WEFT_VOL_READ, 0, VOL_BYTES, b->is, 0), 0);
	for (unsigned int i = 0; i <= 2; i += 2) {
		/* the writes that the device had */
		CHECK(b->is[i * WIN_PAGE] == 'x' || b->is[i * WIN_PAGE] == b->first[i * WIN_PAGE]);
		b->first[i * WIN_PAGE] = b->is[i * WIN_PAGE];
	}
	bench_check(b);
	bench_end(b);
}

/** A window is closed when the device has a part of a flush, which it does in spite of that. */
static void
end_of_a_part(bool revoke)
{
	const struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_WRITE, .count = 1000};
	struct bench *b = bench_begin(16, false);
	uint64_t requests;
	struct preq q = {0};
	struct win win;

	CHECK_EQ(weft_vol_windows_destroy(b->p), 0);
	b->p = win_pool(1, 1U << 17);
	bench_window(b, &win, 0, 1U << 17);
	/* More runs than a window has operations. */
	for (unsigned int i = 0; i < 32; i += 2)
		win_place(b->p, &win, i * WIN_PAGE, "y", 1);
	weft_block_fault_stick(b->r.block, &hit);
	CHECK_EQ(preq_flush(b->p, &win, &q, 0, 1U << 17, VISIBLE), 0);
	for (unsigned int i = 0; i < 20; i++)
		rig_poll(&b->r);
	if (revoke)
		CHECK_EQ(weft_vol_revoke(&b->client[0]), 8);
	else
		win_close(&win);
	requests = weft_block_fault_requests(b->r.block);
	weft_block_fault_stick(b->r.block, NULL);
	CHECK_EQ(preq_wait(&b->r, &q), -ECANCELED);
	CHECK_EQ(weft_block_fault_requests(b->r.block), requests);
	if (revoke)
		win_close(&win);
	win_closed(&b->r, &win);
	bench_end(b);
}

static void
free_client(void *owner)
{
	struct weft_vol_client *client = owner;

	CHECK_EQ(weft_vol_client_close(client), 0);
	free(client);
}

static void
no_quiet(struct weft_vol_client *client)
{
	CHECK_MSG(false, "quiet() of a client that is closed: %p", (void *)client);
}

/** The last operation of a revoked client ends its window, and that the client. */
static void
end_of_the_client(void)
{
	const struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_WRITE, .count = 1000};
	struct weft_vol_client *client = calloc(1, sizeof(*client));
	struct bench *b = bench_begin(17, false);
	struct weft_vol_window_attr a;
	struct preq q = {0};
	struct win win;

	CHECK(client != NULL);
	client->quiet = no_quiet;
	weft_vol_client_open(b->r.chan[0], client);
	a = win_attr(&b->r, 0, client, &win, 0, SLOT_BYTES);
	win_open(&b->r, b->p, &a);
	win_place(b->p, &win, 0, "x", 1);
	weft_block_fault_stick(b->r.block, &hit);
	CHECK_EQ(preq_flush(b->p, &win, &q, 0, 1, PERSIST), 0);
	for (unsigned int i = 0; i < 20; i++)
		rig_poll(&b->r);
	CHECK_EQ(weft_vol_revoke(client), 1);
	weft_vol_window_close(win.w, free_client, client);
	weft_block_fault_stick(b->r.block, NULL);
	CHECK_EQ(preq_wait(&b->r, &q), -ECANCELED);
	CHECK_EQ(bench_stats(b).open, 0);
	bench_end(b);
}

static void
test_ends(void)
{
	end_in_the_middle(false);
	end_in_the_middle(true);
	end_of_a_part(false);
	end_of_a_part(true);
	end_of_the_client();
}

/**
 * A window is stopped while the device has its flush: its range is free for others, whose change is
 * done behind that flush. It keeps its slot until it is closed.
 */
static void
test_stop(void)
{
	const struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_WRITE, .count = 1};
	struct bench *b = bench_begin(18, false);
	struct win win, other, never;
	struct weft_vol_window_attr a;
	uint8_t page[WIN_PAGE];
	struct preq q = {0};
	struct rig_op o;

	memset(page, 0xab, sizeof(page));
	bench_window(b, &win, 0, SLOT_BYTES);
	win_place(b->p, &win, 0, "x", 1);
	weft_block_fault_stick(b->r.block, &hit);
	CHECK_EQ(preq_flush(b->p, &win, &q, 0, 1, PERSIST), 0);
	for (unsigned int i = 0; i < 20; i++)
		rig_poll(&b->r);
	rig_op(&o, WEFT_VOL_WRITE, 0, WIN_PAGE, page)->op.client = &b->client[1];
	CHECK_EQ(weft_vol_submit(b->r.chan[1], &o.op), -EBUSY);
	weft_vol_window_stop(win.w);
	weft_vol_window_stop(win.w);
	CHECK_EQ(win_flush(&b->r, b->p, &win, WIN_PAGE, 1, PERSIST), -ESHUTDOWN);
	rig_submit(&b->r, 1, &o);
	for (unsigned int i = 0; i < 20; i++)
		rig_poll(&b->r);
	CHECK_EQ(o.done, 0);
	/* One that is filled behind that change is stopped before it is ready. */
	a = win_attr(&b->r, 0, &b->client[0], &never, 0, SLOT_BYTES);
	CHECK_EQ(weft_vol_window_open(b->p, &a, &never.w), 0);
	weft_vol_window_stop(never.w);
	weft_block_fault_stick(b->r.block, NULL);
	CHECK_EQ(rig_wait(&b->r, &o), 0);
	CHECK_EQ(preq_wait(&b->r, &q), -ECANCELED);
	memcpy(b->first, page, sizeof(page));
	bench_check(b);
	CHECK_EQ(bench_stats(b).open, 2);
	bench_window(b, &other, 0, SLOT_BYTES);
	CHECK(weft_vol_window_at(other.w) != weft_vol_window_at(win.w));
	CHECK(never.ready == 0 && win.closed == 0);
	bench_close(b, &other);
	bench_close(b, &never);
	bench_close(b, &win);
	CHECK_EQ(never.ready, 0);
	weft_vol_window_stop(NULL);
	bench_end(b);
}

/* ---- Two threads ---- */

#define RACE_OPENINGS 100000U
#define RACE_MEETINGS 500U

/** Another worker, which changes the range as often as it is let. */
struct race {
	struct rig *r;
	atomic_bool stop;
	_Atomic unsigned int written, refused;
};

static void *
race_main(void *arg)
{
	static uint8_t page[WIN_PAGE];
	struct race *race = arg;
	struct rig_op o;
	uint64_t now = 1;

	while (!atomic_load(&race->stop)) {
		memset(page, (int)(race->written & 0xff), sizeof(page));
		rig_op(&o, WEFT_VOL_WRITE, 0, WIN_PAGE, page);
		if (weft_vol_submit(race->r->chan[1], &o.op) != 0) {
			race->refused++;
			continue;
		}
		while (o.done == 0)
			weft_vol_poll(race->r->chan[1], now++);
		race->written++;
	}
	return NULL;
}

/** Open, compare, close. No check may end the case while the other thread runs. */
static bool
race_once(struct bench *b, uint64_t *now)
{
	struct weft_vol_window_attr a;
	struct rig_op o;
	struct win win;

	a = win_attr(&b->r, 0, &b->client[0], &win, 0, WIN_PAGE);
	if (weft_vol_window_open(b->p, &a, &win.w) != 0)
		return false;
	while (win.ready == 0)
		weft_vol_poll(b->r.chan[0], *now += 1000);
	rig_op(&o, WEFT_VOL_READ, 0, WIN_PAGE, b->is);
	if (win.status != 0 || weft_vol_submit(b->r.chan[0], &o.op) != 0)
		return false;
	while (o.done == 0)
		weft_vol_poll(b->r.chan[0], *now += 1000);
	if (memcmp(b->is, win_mem(b->p, &win), WIN_PAGE) != 0)
		return false;
	win_close(&win);
	return win.closed == 1;
}

/** While a window is open, the volume has what it was filled with, whatever another worker does. */
static void
test_race(void)
{
	struct bench *b = bench_begin(0, false);
	struct race race = {.r = &b->r};
	const uint64_t until = test_now_us() + TEST_WAIT_US;
	unsigned int openings = 0;
	uint64_t now = b->r.now_ns;
	pthread_t thread;
	bool good = true;

	CHECK_EQ(pthread_create(&thread, NULL, race_main, &race), 0);
	while (race.written == 0 && test_now_us() < until)
		(void)sched_yield();
	/* Until the two have met often enough, which takes long on one processor. */
	while (good && openings < RACE_OPENINGS &&
	       (openings < 20 * RACE_MEETINGS || race.written < RACE_MEETINGS ||
	        race.refused < RACE_MEETINGS)) {
		good = race_once(b, &now);
		openings++;
	}
	atomic_store(&race.stop, true);
	pthread_join(thread, NULL);
	CHECK_MSG(good, "opening %u: the volume was changed, or a call has failed", openings);
	CHECK(race.written > 0);
	test_note("%u openings, %u changes, %u refused", openings, race.written, race.refused);
	bench_end(b);
}

WEFT_TEST_MAIN({"pool", test_pool}, {"what is refused at the opening", test_errors},
               {"a volume that is read-only", test_read_only}, {"memory", test_fill},
               {"a read that fails", test_fill_fails},
               {"only marked pages are written", test_marks},
               {"marks during a write are kept", test_marks_kept},
               {"marks during a write are kept, and no checksum is wrong", test_marks_kept_sums},
               {"a write that fails", test_write_fails}, {"a flush that fails", test_flush_fails},
               {"a lost flush is told", test_lost_flush},
               {"requests that are refused", test_refused}, {"many flushes at once", test_many},
               {"flushes ahead overlap", test_ahead_overlaps},
               {"marks and flushes ahead", test_ahead_marks},
               {"flushes ahead that fail", test_ahead_fails},
               {"a flush that fails beside one ahead", test_ahead_flush_fails},
               {"where no flush begins ahead", test_ahead_refused},
               {"flushes ahead and the end of a window", test_ahead_ends},
               {"read-backs", test_read_back}, {"read-backs with checksums", test_read_back_sums},
               {"overlap", test_overlap}, {"a change before the opening", test_change_before},
               {"callbacks that close and flush", test_callbacks},
               {"ends in the middle", test_ends}, {"a window that is stopped", test_stop},
               {"openings beside another worker", test_race})
