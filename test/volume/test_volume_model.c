/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Random operations on a volume against a byte array.
 *
 * Operations that overlap are done in the order of their submission. So each one's result is known
 * when it is submitted, however many are under way on however many channels: a read finds what the
 * array holds at that moment.
 */

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "medium_test.h"
#include "volume_rig.h"

#define DISK_BYTES (12U << 20)
#define VOL_BYTES  600001U /* no multiple of a block */
#define FLIGHT     24U
#define MAX_LEN    200000U
#define ALIGN_ROOM 8192U

/** What is under the volume. */
enum device { ON_MEM, ON_FAULT, ON_FILE };

struct flight {
	struct rig_op o;
	uint8_t *mem, *expect; /**< of the operation; what a read has to find */
	uint8_t *compare;
	uint8_t hash[WEFT_HASH_MAX_BYTES];
	int status; /**< that it has to have */
	uint64_t differs;
	struct weft_block_extent extents[8];
	bool busy;
};

struct model {
	struct rig r;
	uint64_t seed;
	uint8_t *is;
	struct flight f[FLIGHT];
	uint32_t block;
	uint64_t bytes, low; /**< of the volume; operations begin here */
	bool sums;
	const struct weft_hash_ops *hash;
	enum device on;
	uint64_t done[WEFT_VOL_KINDS];
};

static void
model_range(struct model *m, uint64_t *off, uint64_t *len, uint64_t most)
{
	const uint64_t b = m->block;

	*len = 1 + rig_draw(&m->seed, rig_draw(&m->seed, 3) == 0 ? most : VOL_BYTES / 40);
	if (*len > most)
		*len = most;
	*off = rig_draw(&m->seed, VOL_BYTES - *len + 1) + m->low;
	switch (rig_draw(&m->seed, 4)) {
	case 0: /* whole blocks */
		*off = *off / b * b;
		*len = (*len + b - 1) / b * b;
		if (*len > most)
			*len -= b;
		if (*off + *len > m->bytes)
			*off = (m->bytes - *len) / b * b;
		break;
	case 1: /* up to the end of the volume */
		*off = m->bytes - *len;
		break;
	default:
		break;
	}
	/* The checksums of a compare-and-write are one page. */
	if (most == 60000 && m->sums &&
	    *off<WEFT_VOL_GROUP_BYTES && * off + *len> WEFT_VOL_GROUP_BYTES)
		*off = WEFT_VOL_GROUP_BYTES;
}

/** Memory of the operation in up to four segments, aligned as the volume is, or not. */
static void
model_memory(struct model *m, struct flight *f, uint64_t off, uint64_t len)
{
	uint8_t *at = f->mem + (rig_draw(&m->seed, 2) == 0 ? off % ALIGN_ROOM
	                                                   : rig_draw(&m->seed, ALIGN_ROOM));
	uint32_t n = 1 + (uint32_t)rig_draw(&m->seed, 4);

	f->o.op.iov = f->o.iov;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t part = i + 1 == n ? len : rig_draw(&m->seed, len + 1);

		if (i + 1 < n && rig_draw(&m->seed, 2) == 0)
			part = part / m->block * m->block;
		f->o.iov[i] = (struct iovec){at, part};
		at += part;
		len -= part;
	}
	f->o.op.iovs = n;
}

static void
model_fill(struct model *m, struct flight *f)
{
	uint8_t *to = m->is + f->o.op.off_bytes;

	for (uint32_t i = 0; i < f->o.op.iovs; i++) {
		uint8_t *p = f->o.iov[i].iov_base;

		for (uint64_t k = 0; k < f->o.iov[i].iov_len; k++)
			p[k] = (uint8_t)rig_draw(&m->seed, 256);
		if (f->status == 0)
			memcpy(to, p, f->o.iov[i].iov_len);
		to += f->o.iov[i].iov_len;
	}
}

/** Draw an operation, and note what has to become of it. */
static void
model_begin(struct model *m, struct flight *f)
{
	static const enum weft_vol_kind kinds[] = {
	        WEFT_VOL_READ,    WEFT_VOL_READ,          WEFT_VOL_READ,   WEFT_VOL_WRITE,
	        WEFT_VOL_WRITE,   WEFT_VOL_WRITE,         WEFT_VOL_FLUSH,  WEFT_VOL_VERIFY,
	        WEFT_VOL_DISCARD, WEFT_VOL_COMPARE_WRITE, WEFT_VOL_ZEROES, WEFT_VOL_EXTENTS};
	enum weft_vol_kind kind = kinds[rig_draw(&m->seed, sizeof(kinds) / sizeof(kinds[0]))];
	uint64_t off, len;

	/* "fault" has what is not flushed in its cache, and Verify looks at the medium. */
	if (kind == WEFT_VOL_VERIFY && m->on == ON_FAULT)
		kind = WEFT_VOL_READ;
	/* Which pieces a file discards is up to its file system. */
	if (kind == WEFT_VOL_DISCARD && m->on == ON_FILE)
		kind = WEFT_VOL_ZEROES;
	model_range(m, &off, &len, kind == WEFT_VOL_COMPARE_WRITE ? 60000 : MAX_LEN);
	if (kind == WEFT_VOL_FLUSH && rig_draw(&m->seed, 2) == 0)
		off = len = 0;
	rig_op(&f->o, kind, off, len, NULL);
	f->status = 0;
	if ((kind == WEFT_VOL_WRITE || kind == WEFT_VOL_ZEROES || kind == WEFT_VOL_DISCARD ||
	     kind == WEFT_VOL_COMPARE_WRITE) &&
	    rig_draw(&m->seed, 3) == 0)
		f->o.op.flags = WEFT_VOL_DURABLE;
	switch (kind) {
	case WEFT_VOL_READ:
		model_memory(m, f, off, len);
		memcpy(f->expect, m->is + off, len);
		break;
	case WEFT_VOL_WRITE:
		model_memory(m, f, off, len);
		model_fill(m, f);
		break;
	case WEFT_VOL_COMPARE_WRITE:
		model_memory(m, f, off, len);
		memcpy(f->compare, m->is + off, len);
		f->o.op.expect = f->compare;
		if (rig_draw(&m->seed, 3) == 0) {
			f->differs = rig_draw(&m->seed, len);
			f->compare[f->differs] ^= 0x10;
			f->status = -EILSEQ;
		}
		model_fill(m, f);
		break;
	case WEFT_VOL_ZEROES:
		memset(m->is + off, 0, len);
		break;
	case WEFT_VOL_DISCARD: {
		/* Both drivers discard whole blocks, which read as zeros then. */
		const uint64_t b = m->sums ? WEFT_VOL_SUM_BLOCK : m->block;
		uint64_t lo = (off + b - 1) / b * b, hi = (off + len) / b * b;

		if (lo < hi)
			memset(m->is + lo, 0, hi - lo);
		break;
	}
	case WEFT_VOL_VERIFY:
		f->o.op.hash = m->hash;
		CHECK_EQ(weft_hash_once(m->hash, m->is + off, len, f->hash), 0);
		break;
	case WEFT_VOL_EXTENTS:
		f->o.op.extents = f->extents;
		f->o.op.max_extents = 1 + (uint32_t)rig_draw(&m->seed, 8);
		memcpy(f->expect, m->is + off, len);
		break;
	default:
		break;
	}
	f->busy = true;
	rig_submit(&m->r, (unsigned int)rig_draw(&m->seed, m->r.nchans), &f->o);
}

static void
model_check_read(const struct flight *f)
{
	const uint8_t *expect = f->expect;

	for (uint32_t i = 0; i < f->o.op.iovs; i++) {
		CHECK_MEM(f->o.iov[i].iov_base, expect, f->o.iov[i].iov_len);
		expect += f->o.iov[i].iov_len;
	}
}

static void
model_check_extents(const struct flight *f)
{
	const struct weft_vol_op *op = &f->o.op;
	uint64_t at = op->off_bytes;

	CHECK(op->extents_found >= 1 && op->extents_found <= op->max_extents);
	for (uint32_t i = 0; i < op->extents_found; i++) {
		const struct weft_block_extent *e = &f->extents[i];

		CHECK(e->off_bytes == at && e->len_bytes > 0);
		for (uint64_t k = 0; e->hole && k < e->len_bytes; k++)
			CHECK_EQ(f->expect[at - op->off_bytes + k], 0);
		at += e->len_bytes;
	}
	CHECK_EQ(op->done_bytes, at - op->off_bytes);
	CHECK(at <= op->off_bytes + op->len_bytes);
}

static void
model_end(struct model *m, struct flight *f)
{
	const struct weft_vol_op *op = &f->o.op;

	f->busy = false;
	m->done[op->kind]++;
	CHECK_EQ(f->o.done, 1);
	CHECK_EQ(op->status, f->status);
	if (op->status == -EILSEQ)
		CHECK_EQ(op->done_bytes, f->differs);
	else if (op->kind != WEFT_VOL_EXTENTS)
		CHECK_EQ(op->done_bytes, op->len_bytes);
	if (op->kind == WEFT_VOL_READ)
		model_check_read(f);
	if (op->kind == WEFT_VOL_EXTENTS)
		model_check_extents(f);
	if (op->kind == WEFT_VOL_VERIFY)
		CHECK_MEM(op->hash_result, f->hash, m->hash->result_bytes);
}

static void
model_run(uint64_t seed, uint32_t block, enum device on, bool sums, unsigned int ops)
{
	struct weft_block_fault_cfg cfg = {
	        .delay_max_ns = 20000, .leak_ppm = 20000, .busy_ppm = 100000};
	struct model *m = calloc(1, sizeof(*m));
	uint8_t *all;

	test_seed_note(seed);
	m->seed = seed;
	m->block = block;
	m->on = on;
	/* With checksums around the border of two groups. */
	m->sums = sums;
	m->low = sums ? WEFT_VOL_GROUP_BYTES - VOL_BYTES / 2 : 0;
	m->bytes = m->low + VOL_BYTES;
	m->is = calloc(1, m->bytes);
	all = malloc(m->bytes);
	m->hash = weft_hash_find("crc32c");
	for (unsigned int i = 0; i < FLIGHT; i++) {
		CHECK(posix_memalign((void **)&m->f[i].mem, 4096, MAX_LEN + 2 * ALIGN_ROOM) == 0);
		m->f[i].expect = malloc(MAX_LEN + ALIGN_ROOM);
		m->f[i].compare = malloc(MAX_LEN + ALIGN_ROOM);
	}
	if (on == ON_FILE) {
		rig_file(&m->r, scratch_path("volume"), DISK_BYTES);
		m->block = m->r.block->info.block_bytes;
	} else {
		rig_device(&m->r, DISK_BYTES, block, on == ON_FAULT ? seed : 0);
	}
	m->r.sums = sums;
	rig_format(&m->r, m->bytes);
	rig_open(&m->r, 3, 1 + (uint32_t)rig_draw(&m->seed, 4));
	if (on == ON_FAULT)
		weft_block_fault_set(m->r.block, &cfg);
	for (unsigned int n = 0; n < ops;) {
		struct flight *f = &m->f[rig_draw(&m->seed, FLIGHT)];

		if (!f->busy) {
			model_begin(m, f);
			n++;
		}
		if (rig_draw(&m->seed, 3) == 0)
			rig_poll(&m->r);
		for (unsigned int i = 0; i < FLIGHT; i++) {
			if (m->f[i].busy && m->f[i].o.done > 0)
				model_end(m, &m->f[i]);
		}
	}
	for (unsigned int i = 0; i < FLIGHT; i++) {
		if (!m->f[i].busy)
			continue;
		(void)rig_wait(&m->r, &m->f[i].o);
		model_end(m, &m->f[i]);
	}
	CHECK_EQ(rig_io(&m->r, WEFT_VOL_READ, 0, m->bytes, all, 0), 0);
	CHECK_MEM(all, m->is, m->bytes);
	if (sums) {
		struct rig_op scrub;

		rig_op(&scrub, WEFT_VOL_SCRUB, 0, m->bytes, NULL);
		CHECK_EQ(rig_do(&m->r, &scrub), 0);
		CHECK_EQ(scrub.op.damaged, 0);
		CHECK_EQ(scrub.op.done_bytes, m->bytes);
	}
	/* Opened again it is the same. */
	rig_close(&m->r);
	rig_open(&m->r, 1, 2);
	CHECK_EQ(rig_io(&m->r, WEFT_VOL_READ, 0, m->bytes, all, 0), 0);
	CHECK_MEM(all, m->is, m->bytes);
	rig_end(&m->r);
	for (unsigned int i = 0; i < FLIGHT; i++) {
		free(m->f[i].mem);
		free(m->f[i].expect);
		free(m->f[i].compare);
	}
	free(m->is);
	free(all);
	free(m);
}

static unsigned int
model_runs(unsigned int dflt)
{
	const char *env = getenv("WEFT_VOLUME_RUNS");

	if (test_seed_given())
		return 1;
	return env == NULL ? dflt : (unsigned int)strtoul(env, NULL, 0);
}

static void
test_mem(void)
{
	uint64_t seed = test_seed(1);

	for (unsigned int i = 0; i < model_runs(12); i++)
		model_run(seed + i, i % 2 == 0 ? 512 : 4096, ON_MEM, false, 400);
}

/** The same with checksums; and a scrub finds nothing. */
static void
test_sums(void)
{
	uint64_t seed = test_seed(2001);

	for (unsigned int i = 0; i < model_runs(12); i++)
		model_run(seed + i, i % 2 == 0 ? 512 : 4096, i % 3 != 0 ? ON_FAULT : ON_MEM, true,
		          250);
}

static void
test_fault(void)
{
	uint64_t seed = test_seed(1001);

	for (unsigned int i = 0; i < model_runs(12); i++)
		model_run(seed + i, i % 2 == 0 ? 512 : 4096, ON_FAULT, false, 250);
}

/** A real file, with and without checksums. Each run makes the file anew. */
static void
test_file(void)
{
	uint64_t seed = test_seed(3001);

	for (unsigned int i = 0; i < 2; i++) {
		(void)unlink(scratch_path("volume"));
		model_run(seed + i, 0, ON_FILE, i % 2 != 0, 200);
	}
	(void)unlink(scratch_path("volume"));
}

WEFT_TEST_MAIN({"memory", test_mem}, {"slow device with a cache", test_fault},
               {"checksums", test_sums}, {"file", test_file})
