/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Checksums of a volume: damage that is found, doubt after a crash, scrubs and their rate.
 */

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vol_priv.h"
#include "volume_rig.h"
#include "weft_volume_scrub.h"

#define DISK_BYTES (24U << 20)
#define GROUP      WEFT_VOL_GROUP_BYTES
#define VOL_BYTES  (3U * GROUP - 5000)

static uint8_t mem[262144], is[262144];

static void
start(struct rig *r, uint64_t seed)
{
	rig_device(r, DISK_BYTES, 512, seed);
	r->sums = true;
	rig_format(r, VOL_BYTES);
	rig_open(r, 2, 0);
	CHECK(weft_vol_info(r->vol)->sums && !weft_vol_info(r->vol)->in_doubt);
}

/** Flip a bit of the device where the volume's octet is. */
static void
damage(struct rig *r, uint64_t at)
{
	const uint64_t data_at = weft_vol_info(r->vol)->super.data_at;
	uint8_t sector[512];
	struct iovec iov = {sector, 512};
	struct weft_block_req req = {.op = WEFT_BLOCK_READ,
	                             .off_bytes = data_at + at / 512 * 512,
	                             .len_bytes = 512,
	                             .iov = &iov,
	                             .iovs = 1};

	CHECK_EQ(weft_block_wait(r->block, &req), 0);
	sector[at % 512] ^= 0x20;
	req.op = WEFT_BLOCK_WRITE;
	CHECK_EQ(weft_block_wait(r->block, &req), 0);
}

static struct rig_op
scrub(struct rig *r, uint64_t off, uint64_t len)
{
	struct rig_op o;

	rig_op(&o, WEFT_VOL_SCRUB, off, len, NULL);
	rig_submit(r, 0, &o);
	CHECK_EQ(rig_wait(r, &o), 0);
	CHECK_EQ(o.op.done_bytes, len);
	return o;
}

static void
fill(void)
{
	for (unsigned int i = 0; i < sizeof(mem); i++)
		mem[i] = (uint8_t)(i * 11 + i / 251);
}

static void
test_damage(void)
{
	struct weft_vol_stats st;
	struct rig_op o;
	struct rig r;

	start(&r, 0);
	fill();
	CHECK_EQ(rig_io(&r, WEFT_VOL_WRITE, GROUP - 100000, 200000, mem, 0), 0);
	CHECK_EQ(scrub(&r, 0, VOL_BYTES).op.damaged, 0);
	damage(&r, GROUP + 50000);
	/* an error to the read that needs the block, and says where */
	rig_op(&o, WEFT_VOL_READ, GROUP - 100000, 200000, is);
	rig_submit(&r, 0, &o);
	CHECK_EQ(rig_wait(&r, &o), -EBADMSG);
	CHECK(o.op.damaged == 1 && o.op.damaged_off_bytes == GROUP + 49152);
	CHECK(o.op.done_bytes <= GROUP + 49152 - (GROUP - 100000));
	CHECK_EQ(rig_io(&r, WEFT_VOL_READ, GROUP + 50000, 1, is, 0), -EBADMSG);
	CHECK_EQ(rig_io(&r, WEFT_VOL_READ, GROUP - 100000, 149152, is, 0), 0);
	CHECK_MEM(is, mem, 149152);
	CHECK_EQ(rig_io(&r, WEFT_VOL_READ, GROUP + 53248, 1000, is, 0), 0);
	/* nor is a part of it written, or compared */
	CHECK_EQ(rig_io(&r, WEFT_VOL_WRITE, GROUP + 50000, 10, mem, 0), -EBADMSG);
	CHECK_EQ(rig_io(&r, WEFT_VOL_ZEROES, GROUP + 50000, 10, NULL, 0), -EBADMSG);
	rig_op(&o, WEFT_VOL_COMPARE_WRITE, GROUP + 50000, 10, mem)->op.expect = is;
	CHECK_EQ(rig_do(&r, &o), -EBADMSG);
	o = scrub(&r, 0, VOL_BYTES);
	CHECK(o.op.damaged == 1 && o.op.damaged_off_bytes == GROUP + 49152);
	weft_vol_query_stats(r.chan[0], &st);
	CHECK_EQ(st.damaged, 6);
	/* The block is written as a whole, in the middle of a longer write: it is good again. */
	CHECK_EQ(rig_io(&r, WEFT_VOL_WRITE, GROUP + 45001, 16001, mem + 1, 0), 0);
	CHECK_EQ(rig_io(&r, WEFT_VOL_READ, GROUP + 45001, 16001, is, 0), 0);
	CHECK_MEM(is, mem + 1, 16001);
	CHECK_EQ(scrub(&r, 0, VOL_BYTES).op.damaged, 0);
	/* what was never written is protected, too; zeros and discards change checksums */
	damage(&r, 2 * GROUP + 4096);
	CHECK_EQ(rig_io(&r, WEFT_VOL_READ, 2 * GROUP, 8192, is, 0), -EBADMSG);
	CHECK_EQ(rig_io(&r, WEFT_VOL_ZEROES, 2 * GROUP + 4096, 4096, NULL, 0), 0);
	CHECK_EQ(rig_io(&r, WEFT_VOL_DISCARD, GROUP, 4096, NULL, 0), 0);
	CHECK_EQ(scrub(&r, 0, VOL_BYTES).op.damaged, 0);
	damage(&r, VOL_BYTES - 1);
	CHECK_EQ(rig_io(&r, WEFT_VOL_READ, VOL_BYTES - 1, 1, is, 0), -EBADMSG);
	CHECK_EQ(scrub(&r, 2 * GROUP, VOL_BYTES - 2 * GROUP).op.damaged, 1);
	CHECK_EQ(scrub(&r, 0, 2 * GROUP).op.damaged, 0);
	/* all of it survives a proper close */
	rig_close(&r);
	rig_open(&r, 2, 0);
	CHECK(!weft_vol_info(r.vol)->in_doubt);
	CHECK_EQ(rig_io(&r, WEFT_VOL_READ, VOL_BYTES - 1, 1, is, 0), -EBADMSG);
	rig_end(&r);
}

static void
test_doubt(void)
{
	struct weft_vol_stats st;
	struct rig r;

	start(&r, 3);
	fill();
	CHECK_EQ(rig_io(&r, WEFT_VOL_WRITE, 1000, 9000, mem, WEFT_VOL_DURABLE), 0);
	CHECK_EQ(rig_io(&r, WEFT_VOL_WRITE, 1000, 9000, mem + 1, 0), 0);
	weft_block_fault_cut(r.block);
	rig_close(&r);
	weft_block_fault_boot(r.block);
	rig_open(&r, 2, 0);
	CHECK(weft_vol_info(r.vol)->in_doubt);
	/* The first group is not compared until it is scrubbed. Others are. */
	CHECK_EQ(rig_io(&r, WEFT_VOL_READ, 0, 20000, is, 0), 0);
	weft_vol_query_stats(r.chan[0], &st);
	CHECK(st.unverified > 0 && st.damaged == 0);
	damage(&r, GROUP);
	CHECK_EQ(rig_io(&r, WEFT_VOL_READ, GROUP, 1, is, 0), -EBADMSG);
	CHECK_EQ(scrub(&r, 0, GROUP).op.damaged, 0);
	CHECK_EQ(rig_io(&r, WEFT_VOL_READ, 0, 20000, is, 0), 0);
	damage(&r, 0);
	CHECK_EQ(rig_io(&r, WEFT_VOL_READ, 0, 20000, is, 0), -EBADMSG);
	rig_close(&r);
	rig_open(&r, 2, 0);
	CHECK(!weft_vol_info(r.vol)->in_doubt);
	CHECK_EQ(rig_io(&r, WEFT_VOL_READ, 0, 20000, is, 0), -EBADMSG);
	rig_end(&r);
}

/** Whenever the power is cut, what is read afterwards is not taken for damaged. */
static void
test_cut(void)
{
	for (uint64_t n = 0; n < 48; n++) {
		struct weft_block_fault_cfg cfg = {.delay_max_ns = 2000, .leak_ppm = 100000};
		struct rig_op o[2];
		struct rig r;

		test_seed_note(n);
		start(&r, 1 + n);
		fill();
		weft_block_fault_set(r.block, &cfg);
		rig_submit(&r, 0, rig_op(&o[0], WEFT_VOL_WRITE, 1000, 9000, mem));
		rig_submit(&r, 1, rig_op(&o[1], WEFT_VOL_WRITE, GROUP + 1000, 9000, mem));
		for (uint64_t k = 0; k < n / 3; k++)
			rig_poll(&r);
		weft_block_fault_cut(r.block);
		(void)rig_wait(&r, &o[0]);
		(void)rig_wait(&r, &o[1]);
		rig_close(&r);
		weft_block_fault_boot(r.block);
		rig_open(&r, 2, 0);
		CHECK_EQ(rig_io(&r, WEFT_VOL_READ, 0, 20000, is, 0), 0);
		CHECK_EQ(rig_io(&r, WEFT_VOL_READ, GROUP, 20000, is, 0), 0);
		CHECK_EQ(scrub(&r, 0, VOL_BYTES).op.damaged, 0);
		rig_end(&r);
	}
}

/** Errors and lost flushes never make good data look damaged. */
static void
test_errors(void)
{
	for (uint64_t nth = 0; nth < 24; nth++) {
		struct weft_block_fault_hit h = {.skip = nth};
		struct rig r;

		start(&r, 1 + nth);
		fill();
		weft_block_fault_fail(r.block, &h, -EIO);
		(void)rig_io(&r, WEFT_VOL_WRITE, 0, 8192, mem, 0);
		(void)rig_io(&r, WEFT_VOL_WRITE, 5001, 3000, mem, WEFT_VOL_DURABLE);
		(void)rig_io(&r, WEFT_VOL_ZEROES, 6000, 12000, NULL, 0);
		(void)rig_flush(&r);
		(void)rig_io(&r, WEFT_VOL_WRITE, 8192, 4096, mem, 0);
		(void)rig_flush(&r);
		weft_block_fault_fail(r.block, NULL, 0);
		CHECK_EQ(rig_io(&r, WEFT_VOL_READ, 0, 30000, is, 0), 0);
		CHECK_EQ(scrub(&r, 0, VOL_BYTES).op.damaged, 0);
		CHECK_EQ(rig_io(&r, WEFT_VOL_READ, 0, 30000, is, 0), 0);
		rig_end(&r);
	}
}

/** A volume of which the first group is in doubt, data and page as a crash has left them. */
static void
start_doubted(struct rig *r, uint64_t seed)
{
	start(r, seed);
	memset(mem, 0x11, 65536);
	CHECK_EQ(rig_io(r, WEFT_VOL_WRITE, 0, 65536, mem, WEFT_VOL_DURABLE), 0);
	memset(mem, 0x22, 65536);
	CHECK_EQ(rig_io(r, WEFT_VOL_WRITE, 0, 65536, mem, 0), 0);
	weft_block_fault_cut(r->block);
	rig_close(r);
	weft_block_fault_boot(r->block);
	rig_open(r, 2, 0);
	CHECK(weft_vol_info(r->vol)->in_doubt);
}

/** The device does not take the change whose checksums are stored: the group is in doubt. */
static void
test_refused(void)
{
	const struct weft_block_fault_hit write = {.ops = 1U << WEFT_BLOCK_WRITE, .count = 1000};
	struct weft_block_state state;
	struct rig_op o;
	struct rig r;

	start(&r, 1);
	fill();
	CHECK_EQ(rig_io(&r, WEFT_VOL_WRITE, 2 * GROUP, 65536, mem, 0), 0);
	weft_block_fault_stick(r.block, &write);
	rig_submit(&r, 0, rig_op(&o, WEFT_VOL_WRITE, 2 * GROUP, 65536, mem + 1));
	for (unsigned int i = 0; i < 20; i++)
		rig_poll(&r);
	/* the device is shorter for a while */
	weft_block_query_state(r.block, &state);
	weft_block_set_state(r.block, weft_vol_info(r.vol)->super.data_at + GROUP, 0);
	weft_block_fault_stick(r.block, NULL);
	CHECK_EQ(rig_wait(&r, &o), -EINVAL);
	weft_block_set_state(r.block, state.bytes, 0);
	CHECK_EQ(rig_io(&r, WEFT_VOL_READ, 2 * GROUP, 65536, is, 0), 0);
	CHECK_MEM(is, mem, 65536);
	rig_end(&r);
}

static const struct weft_block_fault_hit any_flush = {.ops = 1U << WEFT_BLOCK_FLUSH};

/** A flush of another worker is lost while a scrub makes checksums: the doubt stays. */
static void
test_scrub_lost(void)
{
	for (uint64_t seed = 1; seed <= 24; seed++) {
		struct rig_op s, f;
		struct rig r;

		test_seed_note(seed);
		start_doubted(&r, seed);
		memset(mem, 0x33, 65536);
		CHECK_EQ(rig_io(&r, WEFT_VOL_WRITE, 0, 65536, mem, 0), 0);
		rig_submit(&r, 0, rig_op(&s, WEFT_VOL_SCRUB, 0, GROUP, NULL));
		for (unsigned int i = 0; i < 10; i++)
			rig_poll(&r);
		weft_block_fault_fail(r.block, &any_flush, -EIO);
		rig_submit(&r, 1, rig_op(&f, WEFT_VOL_FLUSH, GROUP, 4096, NULL));
		CHECK_EQ(rig_wait(&r, &f), -EIO);
		CHECK_EQ(s.done, 0);
		CHECK_EQ(rig_wait(&r, &s), 0);
		CHECK_EQ(rig_io(&r, WEFT_VOL_READ, 0, 65536, is, 0), 0);
		/* the next one ends the doubt */
		CHECK_EQ(scrub(&r, 0, GROUP).op.damaged, 0);
		damage(&r, 0);
		CHECK_EQ(rig_io(&r, WEFT_VOL_READ, 0, 65536, is, 0), -EBADMSG);
		rig_end(&r);
	}
}

/** What a scrub has answered is durable: a flush that is lost later takes no checksum back. */
static void
test_scrub_flushes(void)
{
	for (uint64_t seed = 1; seed <= 24; seed++) {
		struct rig r;

		test_seed_note(seed);
		start_doubted(&r, seed);
		CHECK_EQ(scrub(&r, 0, GROUP).op.damaged, 0);
		weft_block_fault_fail(r.block, &any_flush, -EIO);
		CHECK_EQ(rig_flush(&r), -EIO);
		CHECK_EQ(rig_io(&r, WEFT_VOL_READ, 0, 65536, is, 0), 0);
		CHECK_EQ(scrub(&r, 0, GROUP).op.damaged, 0);
		rig_end(&r);
	}
}

/* ---- The scrubber ---- */

struct found {
	unsigned int n, passes;
	uint64_t off;
};

static void
on_damage(struct weft_vol_scrub *s, uint64_t off, uint64_t blocks)
{
	struct found *f = s->owner;

	f->n += (unsigned int)blocks;
	f->off = off;
}

static void
on_pass(struct weft_vol_scrub *s)
{
	((struct found *)s->owner)->passes++;
}

static void
test_scrubber(void)
{
	struct found f = {0};
	struct weft_vol_scrub s = {
	        .bytes_per_s = 8 * GROUP, .damage = on_damage, .pass = on_pass, .owner = &f};
	uint64_t began, next;
	struct rig r;

	start(&r, 0);
	damage(&r, GROUP + 8192);
	r.now_ns = 5000000000;
	weft_vol_scrub_start(&s, r.chan[0], r.now_ns);
	for (began = r.now_ns; f.passes < 2;) {
		next = weft_vol_scrub_poll(&s, r.now_ns);
		/* nothing to do before: the time may be skipped */
		if (next != UINT64_MAX && next > r.now_ns)
			r.now_ns = next;
		rig_poll(&r);
		CHECK(r.now_ns < began + 3000000000ULL);
	}
	CHECK(f.n == 2 && f.off == GROUP + 8192);
	/* two passes of three groups, eight groups a second: the sixth begins after 5/8 s */
	CHECK_MSG(r.now_ns - began >= 600000000ULL && r.now_ns - began <= 800000000ULL,
	          "%" PRIu64 " ns", r.now_ns - began);
	weft_vol_scrub_stop(&s);
	while (s.busy)
		rig_poll(&r);
	CHECK_EQ(weft_vol_scrub_poll(&s, r.now_ns + 10000000000ULL), UINT64_MAX);
	rig_end(&r);
}

/** A start while the operation of the last one is under way begins at the front. */
static void
test_scrub_again(void)
{
	struct found f = {0};
	struct weft_vol_scrub s = {
	        .bytes_per_s = 1U << 30, .damage = on_damage, .pass = on_pass, .owner = &f};
	struct rig r;

	start(&r, 0);
	weft_vol_scrub_start(&s, r.chan[0], r.now_ns);
	(void)weft_vol_scrub_poll(&s, r.now_ns);
	CHECK(s.busy);
	weft_vol_scrub_stop(&s);
	weft_vol_scrub_start(&s, r.chan[0], r.now_ns);
	damage(&r, 8192);
	for (unsigned int i = 0; f.passes == 0; i++) {
		CHECK(i < 1000000);
		(void)weft_vol_scrub_poll(&s, r.now_ns);
		rig_poll(&r);
	}
	CHECK(f.n == 1 && s.errors == 0);
	weft_vol_scrub_stop(&s);
	while (s.busy)
		rig_poll(&r);
	rig_end(&r);
}

/* ---- Groups in doubt alone ---- */

struct doubts {
	unsigned int began, ended, errors;
	uint64_t groups;
};

static void
on_doubt(struct weft_vol_scrub *s, uint64_t groups)
{
	struct doubts *d = s->owner;

	d->began += groups > 0;
	d->ended += groups == 0;
	d->groups = groups;
}

static void
on_failed(struct weft_vol_scrub *s, uint64_t off, int status)
{
	(void)off;
	CHECK_EQ(status, -EIO);
	((struct doubts *)s->owner)->errors++;
}

/** Poll until the volume has so many groups in doubt, and 20 ms more. Returns the time until then.
 */
static uint64_t
settle(struct rig *r, struct weft_vol_scrub *s, uint64_t left)
{
	const uint64_t began = r->now_ns;
	uint64_t took = 0, end = UINT64_MAX;

	while (r->now_ns < end) {
		(void)weft_vol_scrub_poll(s, r->now_ns);
		rig_poll(r);
		r->now_ns += 1000000;
		CHECK(r->now_ns < began + 200000000000ULL);
		if (end == UINT64_MAX && weft_vol_in_doubt(r->vol) == left) {
			took = r->now_ns - began;
			end = r->now_ns + 1020000000;
		}
	}
	return took;
}

/** After a crash the groups in doubt, and no others, get checksums, at the rate. */
static void
test_only_doubted(void)
{
	struct doubts d = {0};
	struct weft_vol_scrub s = {.bytes_per_s = 4 * GROUP,
	                           .doubt = on_doubt,
	                           .failed = on_failed,
	                           .owner = &d,
	                           .only_doubted = true};
	struct weft_vol_stats before, after;
	struct weft_block_fault_hit h = {.ops = 1U << WEFT_BLOCK_READ};
	struct rig_op f;
	uint64_t took;
	struct rig r;

	start(&r, 5);
	fill();
	CHECK_EQ(rig_io(&r, WEFT_VOL_WRITE, 1000, 9000, mem, 0), 0);
	CHECK_EQ(rig_io(&r, WEFT_VOL_WRITE, 2 * GROUP + 1000, 9000, mem, 0), 0);
	CHECK_EQ(weft_vol_in_doubt(r.vol), 0);
	weft_block_fault_cut(r.block);
	rig_close(&r);
	weft_block_fault_boot(r.block);
	rig_open(&r, 2, 0);
	CHECK_EQ(weft_vol_in_doubt(r.vol), 2);
	r.now_ns = 5000000000;
	weft_vol_scrub_start(&s, r.chan[0], r.now_ns);
	weft_vol_query_stats(r.chan[0], &before);
	took = settle(&r, &s, 0);
	weft_vol_query_stats(r.chan[0], &after);
	CHECK_EQ(after.ops[WEFT_VOL_SCRUB] - before.ops[WEFT_VOL_SCRUB], 2);
	CHECK_MSG(took >= 250000000 && took < 400000000, "%" PRIu64 " ns", took);
	CHECK(d.began == 1 && d.ended == 1 && d.errors == 0);
	CHECK_EQ(rig_io(&r, WEFT_VOL_READ, 0, 20000, is, 0), 0);
	damage(&r, 2 * GROUP);
	CHECK_EQ(rig_io(&r, WEFT_VOL_READ, 2 * GROUP, 1, is, 0), -EBADMSG);
	/* A flush is lost: in doubt is what was written to, again while the scrubber goes on. */
	CHECK_EQ(rig_io(&r, WEFT_VOL_WRITE, GROUP, 9000, mem, 0), 0);
	weft_block_fault_fail(r.block, &any_flush, -EIO);
	CHECK_EQ(rig_flush(&r), -EIO);
	weft_block_fault_fail(r.block, NULL, 0);
	CHECK_EQ(weft_vol_in_doubt(r.vol), 1);
	/* It cannot be read: it is tried again later, not all the time. */
	weft_block_fault_fail(r.block, &h, -EIO);
	took = settle(&r, &s, 0);
	CHECK_MSG(took > WEFT_VOL_SCRUB_AGAIN_NS && took < 2 * WEFT_VOL_SCRUB_AGAIN_NS,
	          "%" PRIu64 " ns", took);
	CHECK(d.began == 2 && d.ended == 2 && d.errors == 1);
	damage(&r, GROUP);
	CHECK_EQ(rig_io(&r, WEFT_VOL_READ, GROUP, 1, is, 0), -EBADMSG);
	/* Others go first. */
	CHECK_EQ(rig_io(&r, WEFT_VOL_WRITE, 0, 9000, mem, 0), 0);
	weft_block_fault_fail(r.block, &any_flush, -EIO);
	CHECK_EQ(rig_flush(&r), -EIO);
	weft_block_fault_fail(r.block, NULL, 0);
	CHECK_EQ(weft_vol_in_doubt(r.vol), 2);
	s.next_ns = r.now_ns;
	h = (struct weft_block_fault_hit){.ops = 1U << WEFT_BLOCK_FLUSH, .count = 1};
	weft_block_fault_stick(r.block, &h);
	rig_submit(&r, 0, rig_op(&f, WEFT_VOL_FLUSH, 0, 4096, NULL));
	took = r.now_ns;
	while (!s.busy) {
		(void)weft_vol_scrub_poll(&s, r.now_ns);
		rig_poll(&r);
		r.now_ns += 1000000;
		CHECK(r.now_ns < took + 60000000000ULL);
	}
	took = r.now_ns - took;
	CHECK_MSG(took >= 1750000000 && took < 1800000000, "%" PRIu64 " ns", took);
	weft_block_fault_stick(r.block, NULL);
	CHECK_EQ(rig_wait(&r, &f), 0);
	(void)settle(&r, &s, 0);
	CHECK(d.began == 3 && d.ended == 3);
	/* What was settled is so after a proper close. */
	weft_vol_scrub_stop(&s);
	while (s.busy)
		rig_poll(&r);
	rig_close(&r);
	rig_open(&r, 2, 0);
	CHECK(!weft_vol_info(r.vol)->in_doubt && weft_vol_in_doubt(r.vol) == 0);
	rig_end(&r);
}

/** Let the scrubber go on for so long. */
static void
goes_on(struct rig *r, struct weft_vol_scrub *s, uint64_t ns)
{
	for (const uint64_t end = r->now_ns + ns; r->now_ns < end; r->now_ns += 1000000) {
		(void)weft_vol_scrub_poll(s, r->now_ns);
		rig_poll(r);
	}
}

static void
crash(struct rig *r, struct weft_vol_scrub *s)
{
	weft_block_fault_cut(r->block);
	weft_vol_scrub_stop(s);
	while (s->busy)
		rig_poll(r);
	rig_close(r);
	weft_block_fault_boot(r->block);
	rig_open(r, 2, 0);
	s->tidied = s->noted = 0;
	weft_vol_scrub_start(s, r->chan[0], r->now_ns);
}

/** A crash brings no group in doubt but those that were changed of late. */
static void
test_tidy(void)
{
	struct weft_vol_scrub s = {.bytes_per_s = 64 * GROUP, .only_doubted = true};
	struct rig r;

	start(&r, 9);
	fill();
	weft_vol_scrub_start(&s, r.chan[0], r.now_ns);
	CHECK_EQ(rig_io(&r, WEFT_VOL_WRITE, 0, 9000, mem, 0), 0);
	goes_on(&r, &s, WEFT_VOL_SCRUB_QUIET_NS / 2);
	CHECK_EQ(rig_io(&r, WEFT_VOL_WRITE, GROUP, 9000, mem, 0), 0);
	goes_on(&r, &s, WEFT_VOL_SCRUB_QUIET_NS * 3 / 4);
	crash(&r, &s);
	CHECK_EQ(weft_vol_in_doubt(r.vol), 2); /* it was not quiet for long enough */
	(void)settle(&r, &s, 0);
	crash(&r, &s);
	CHECK_EQ(weft_vol_in_doubt(r.vol), 0); /* what was settled stays so */
	CHECK_EQ(rig_io(&r, WEFT_VOL_WRITE, 0, 9000, mem, 0), 0);
	goes_on(&r, &s, WEFT_VOL_SCRUB_QUIET_NS + 1000000000);
	CHECK_EQ(rig_io(&r, WEFT_VOL_WRITE, GROUP, 9000, mem + 1, 0), 0);
	goes_on(&r, &s, 20000000); /* the long quiet before the change does not count */
	crash(&r, &s);
	CHECK_EQ(weft_vol_in_doubt(r.vol), 1);
	/* What came to the group meanwhile is found. */
	damage(&r, 4096);
	CHECK_EQ(rig_io(&r, WEFT_VOL_READ, 4096, 1, is, 0), -EBADMSG);
	CHECK_EQ(rig_io(&r, WEFT_VOL_READ, GROUP, 20000, is, 0), 0);
	weft_vol_scrub_stop(&s);
	while (s.busy)
		rig_poll(&r);
	rig_end(&r);
}

/** A write to a group that is in use stores nothing that all workers share: in a child process,
 * whose memory is read-only then. */
static void
test_use(void)
{
	uint8_t *page =
	        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct vol_sums *s = (struct vol_sums *)page;
	int status;
	pid_t pid;

	CHECK(page != MAP_FAILED);
	s->in_use = (_Atomic uint8_t *)(page + 2048);
	vol_sums_use(s, 13);
	CHECK_EQ(page[2049], 1U << 5);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		(void)mprotect(page, 4096, PROT_READ);
		vol_sums_use(s, 13);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	munmap(page, 4096);
}

/** Clear the maps without a snapshot. */
static int
tidy(struct rig *r)
{
	struct weft_vol_snap snap = {.block.what = WEFT_BLOCK_SNAP_CREATE, .maps_only = true};
	struct rig_op o;

	rig_op(&o, WEFT_VOL_SNAPSHOT, 0, 0, NULL)->op.snap = &snap;
	return rig_do(r, &o);
}

static void
crash_alone(struct rig *r)
{
	weft_block_fault_cut(r->block);
	rig_close(r);
	weft_block_fault_boot(r->block);
	rig_open(r, 2, 0);
}

/** One request for the maps fails, each in turn: the next tidy writes again what may be missing. */
static void
test_tidy_fails(void)
{
	unsigned int failed = 0;

	for (bool done = false; !done; failed++) {
		struct weft_block_fault_hit h = {
		        .ops = 1U << WEFT_BLOCK_WRITE | 1U << WEFT_BLOCK_FLUSH, .skip = failed};
		struct rig_op o;
		struct rig r;
		int status;

		test_seed_note(failed);
		start(&r, 21 + failed);
		fill();
		for (unsigned int i = 0; i < 2; i++) {
			rig_op(&o, WEFT_VOL_WRITE, i * (uint64_t)GROUP, 9000, mem);
			rig_submit(&r, i, &o);
			CHECK_EQ(rig_wait(&r, &o), 0);
		}
		CHECK_EQ(rig_flush(&r), 0);
		weft_block_fault_fail(r.block, &h, -EIO);
		status = tidy(&r);
		weft_block_fault_fail(r.block, NULL, 0);
		done = status == 0;
		CHECK_MSG(done || status == -EIO, "%d", status);
		/* A lost flush brings groups in doubt. */
		CHECK_EQ(scrub(&r, 0, VOL_BYTES).op.damaged, 0);
		CHECK_EQ(weft_vol_in_doubt(r.vol), 0);
		CHECK_EQ(tidy(&r), 0);
		crash_alone(&r);
		CHECK_EQ(weft_vol_in_doubt(r.vol), 0);
		rig_end(&r);
	}
	CHECK(failed > 4);
}

/** Another program's flush of the device is lost. */
static void
lose_flush(struct rig *r)
{
	struct weft_block_req req = {.op = WEFT_BLOCK_FLUSH};

	weft_block_fault_fail(r->block, &any_flush, -EIO);
	CHECK_EQ(weft_block_wait(r->block, &req), -EIO);
	weft_block_fault_fail(r->block, NULL, 0);
}

/** A flush is lost when the doubts are written, and not flushed yet: they are not lost with it. */
static void
test_tidy_lost(void)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct weft_vol_snap snap = {.block.what = WEFT_BLOCK_SNAP_CREATE,
		                             .maps_only = true};
		struct rig_op o;
		struct rig r;

		test_seed_note(seed);
		start(&r, seed);
		memset(mem, 0x11, 65536);
		rig_op(&o, WEFT_VOL_WRITE, 0, 65536, mem)->op.flags = WEFT_VOL_DURABLE;
		rig_submit(&r, 1, &o);
		CHECK_EQ(rig_wait(&r, &o), 0);
		crash_alone(&r);
		CHECK_EQ(weft_vol_in_doubt(r.vol), 1);
		rig_op(&o, WEFT_VOL_SNAPSHOT, 0, 0, NULL)->op.snap = &snap;
		rig_submit(&r, 0, &o);
		while (!snap.wrote || o.op.state != VOL_RUN)
			rig_poll(&r);
		lose_flush(&r);
		CHECK_EQ(rig_wait(&r, &o), -EIO);
		crash_alone(&r);
		CHECK_EQ(weft_vol_in_doubt(r.vol), 1);
		CHECK_EQ(tidy(&r), 0);
		crash_alone(&r);
		CHECK_EQ(weft_vol_in_doubt(r.vol), 1);
		rig_end(&r);
	}
}

/** Doubts that a snapshot has written to a map are cleared from it when they have ended. */
static void
test_tidy_noted(void)
{
	struct weft_vol_scrub s = {.bytes_per_s = 64 * GROUP, .only_doubted = true};
	struct rig r;

	start(&r, 11);
	fill();
	weft_vol_scrub_start(&s, r.chan[0], r.now_ns);
	CHECK_EQ(rig_io(&r, WEFT_VOL_WRITE, 0, 9000, mem, 0), 0);
	goes_on(&r, &s, WEFT_VOL_SCRUB_QUIET_NS + 1000000000);
	weft_block_fault_fail(r.block, &any_flush, -EIO);
	CHECK_EQ(rig_flush(&r), -EIO);
	weft_block_fault_fail(r.block, NULL, 0);
	CHECK_EQ(weft_vol_in_doubt(r.vol), 1);
	CHECK_EQ(tidy(&r), 0);
	(void)settle(&r, &s, 0);
	goes_on(&r, &s, 1000000000);
	crash(&r, &s);
	CHECK_EQ(weft_vol_in_doubt(r.vol), 0);
	weft_vol_scrub_stop(&s);
	while (s.busy)
		rig_poll(&r);
	rig_end(&r);
}

WEFT_TEST_MAIN({"maps are cleared when nothing changes", test_tidy},
               {"maps are written again after an error", test_tidy_fails},
               {"a flush is lost while maps are written", test_tidy_lost},
               {"a snapshot's doubts are cleared", test_tidy_noted},
               {"a change of a group in use", test_use},
               {"groups in doubt alone", test_only_doubted},
               {"a scrubber is started again", test_scrub_again}, {"damage", test_damage},
               {"doubt", test_doubt}, {"power cut", test_cut}, {"errors", test_errors},
               {"a change is refused behind its checksums", test_refused},
               {"a flush is lost under a scrub", test_scrub_lost},
               {"a scrub flushes", test_scrub_flushes}, {"scrubber", test_scrubber})
