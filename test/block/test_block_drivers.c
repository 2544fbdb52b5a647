/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file What every block driver must do, for each driver: a case of a driver and a subject.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "block_test.h"
#include "medium_test.h"
#include "rbd_test.h"
#include "weft_base.h"
#include "weft_block_fault.h"
#include "weft_test.h"

#define BYTES    (2U << 20)
#define UNDERWAY 16

enum where {
	NOWHERE,
	FILE_THERE,
	FILE_SHM,
	FILE_DAX,
	LOOP,
	LOOP_4096,
	RBD_FAKE,
	RBD_CEPH,
	RBD_CEPH_LARGE
};

static const struct target {
	const char *name, *driver, *options;
	enum where where;
	bool one_thread;
} targets[] = {
        {"mem", "mem", NULL, NOWHERE, false},
        {"mem 4096", "mem", "block=4096", NOWHERE, false},
        {"fault", "fault", "inner=mem,seed=5", NOWHERE, true},
        {"fault 4096", "fault", "inner=mem,inner.block=4096", NOWHERE, true},
        {"uring", "uring", NULL, FILE_THERE, false},
        {"uring 4096", "uring", "block=4096,io=auto", FILE_THERE, false},
        {"uring threads", "uring", "io=threads", FILE_THERE, false},
        {"uring tmpfs", "uring", "block=4096", FILE_SHM, false},
        {"pmem", "pmem", NULL, FILE_THERE, false},
        {"pmem on DAX", "pmem", NULL, FILE_DAX, false},
        {"uring loop", "uring", NULL, LOOP, false},
        {"uring loop 4096", "uring", NULL, LOOP_4096, false},
        {"uring loop threads", "uring", "io=threads", LOOP, false},
        {"rbd", "rbd", NULL, RBD_FAKE, false},
        {"ceph", "rbd", NULL, RBD_CEPH, false},
        {"ceph large", "rbd", NULL, RBD_CEPH_LARGE, false},
};

static int loop_fd = -1;
static char target_path[160]; /**< the file of the case */

/** A folder in memory, which is removed at exit. The first scratch folder is that of the others. */
static const char *
shm_folder(void)
{
	static const char *folder;

	(void)scratch_path("disk");
	if (folder == NULL)
		folder = scratch("/dev/shm");
	return folder;
}

/**
 * The image rbd/disk: of a folder that stands for a cluster, or of the cluster whose configuration
 * WEFT_TEST_CEPH names (test/ceph/run starts one).
 */
static void
open_image(struct weft_block_attr *a, const struct target *t, bool fresh)
{
	static char options[256];
	const char *conf = getenv("WEFT_TEST_CEPH");
	char command[1024];

	a->path = "rbd/disk";
	a->bytes = 0;
	if (t->where == RBD_FAKE) {
		rbd_fake_folder(scratch_path("."));
		if (fresh) { /* sparse */
			unlink(scratch_path("disk"));
			put_file(scratch_path("disk"), 0, 0);
			CHECK_EQ(truncate(scratch_path("disk"), BYTES), 0);
		}
		return;
	}
	CHECK(conf != NULL);
	rbd_real();
	snprintf(options, sizeof(options), "conf=%s", conf);
	a->options = options;
	snprintf(command, sizeof(command),
	         "rbd -c %s rm --no-progress rbd/disk >/dev/null 2>&1; "
	         "rbd -c %s create --size 2M --object-size %s rbd/disk",
	         conf, conf, t->where == RBD_CEPH ? "64K" : "4M");
	if (fresh)
		CHECK_EQ(system(command), 0);
}

/** Open the target; fresh: with new content, all zeros. */
static void
open_target(struct disk *d, const struct target *t, bool fresh, uint32_t depth)
{
	struct weft_block_attr a = {.size = sizeof(a),
	                            .driver = t->driver,
	                            .options = t->options,
	                            .bytes = t->where >= LOOP ? 0 : BYTES,
	                            .create = t->where != NOWHERE && t->where < LOOP};
	static char dev[32];
	char *path = target_path;
	struct weft_block *probe;

	if (t->where == FILE_SHM)
		snprintf(path, sizeof(target_path), "%s/disk", shm_folder());
	else if (t->where != NOWHERE)
		snprintf(path, sizeof(target_path), "%s", scratch_path("disk"));
	if (fresh && a.create)
		unlink(path);
	if (fresh && (t->where == LOOP || t->where == LOOP_4096)) {
		unlink(path);
		put_file(path, BYTES, 0);
		if (loop_fd >= 0)
			close(loop_fd);
		loop_fd = loop_make(path, dev);
		if (loop_fd < 0)
			test_skip("loop devices are not permitted here");
		if (t->where == LOOP_4096)
			CHECK_EQ(loop_block(loop_fd, 4096), 0);
	}
	a.path = t->where == NOWHERE ? NULL : t->where >= LOOP ? dev : path;
	if (fresh && t->where == FILE_SHM) {
		int r = weft_block_open(&a, &probe);

		unlink(path);
		if (r == -ENOTSUP)
			test_skip("tmpfs has no direct I/O on this kernel");
		CHECK_EQ(r, 0);
		CHECK_EQ(weft_block_close(probe), 0);
	}
	if (t->where >= RBD_FAKE)
		open_image(&a, t, fresh);
	disk_open(d, &a, depth);
	CHECK_EQ(d->bytes, BYTES);
	if (t->where == LOOP || t->where == LOOP_4096)
		CHECK_EQ(d->info.block_bytes, t->where == LOOP ? 512 : 4096);
	if (strcmp(t->driver, "fault") == 0) {
		const struct weft_block_fault_cfg cfg = {.delay_min_ns = 1000,
		                                         .delay_max_ns = 9000,
		                                         .leak_ppm = 20000,
		                                         .busy_ppm = 100000,
		                                         .atom_bytes = 8};
		weft_block_fault_set(d->b, &cfg);
		d->step_ns = 1000;
	}
}

static void
close_target(struct disk *d, const struct target *t)
{
	disk_close(d);
	if (t->where == FILE_SHM)
		unlink(target_path);
}

/** The flag of a read that is answered by the medium, if the device can tell what that holds. */
static uint32_t
medium_of(const struct disk *d)
{
	return d->info.can & WEFT_BLOCK_CAN_MEDIUM ? WEFT_BLOCK_MEDIUM : 0;
}

/* ---- Random operations against a model ---- */

struct op {
	struct weft_block_req req;
	struct iovec iov[4];
	uint8_t *data, *expect;
	bool busy;
	struct model *m;
};

struct model {
	struct disk d;
	const struct target *t;
	struct draw draw;
	uint8_t *bytes; /**< what the device holds */
	uint8_t *maybe; /**< an octet of a block: 1: its content is the old one or zeros */
	struct op op[UNDERWAY];
	uint64_t version;
};

static bool
overlaps(const struct model *m, uint64_t off, uint64_t len)
{
	for (unsigned int i = 0; i < UNDERWAY; i++) {
		const struct weft_block_req *r = &m->op[i].req;

		if (m->op[i].busy && r->op != WEFT_BLOCK_FLUSH &&
		    off < r->off_bytes + r->len_bytes && r->off_bytes < off + len)
			return true;
	}
	return false;
}

static bool
is_zero(const uint8_t *p, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		if (p[i] != 0)
			return false;
	return true;
}

/** What a read brought is what the model has. */
static void
check_read(struct model *m, const struct op *o)
{
	const uint64_t bs = m->d.info.block_bytes;

	for (uint64_t at = 0; at < o->req.len_bytes;) {
		uint64_t off = o->req.off_bytes + at;
		uint64_t n = RTE_MIN(bs - off % bs, o->req.len_bytes - at);

		if (m->maybe[off / bs] == 0 || !is_zero(o->data + at, n))
			CHECK_MEM(o->data + at, m->bytes + off, n);
		at += n;
	}
}

static void
settle(struct model *m, struct op *o)
{
	const struct weft_block_req *r = &o->req;

	CHECK_MSG(r->status == 0 || (r->op == WEFT_BLOCK_COMPARE_WRITE && r->status == -EILSEQ),
	          "operation %d of %" PRIu64 "+%" PRIu64 ": %s", r->op, r->off_bytes, r->len_bytes,
	          strerror(-r->status));
	if (r->op == WEFT_BLOCK_READ)
		check_read(m, o);
}

/** At once, because the next operation of the range changes the model. */
static void
model_done(struct weft_block_req *req)
{
	struct op *o = req->owner;

	o->busy = false;
	settle(o->m, o);
}

static void
wait_op(struct model *m, struct op *o)
{
	uint64_t end = test_now_us() + TEST_WAIT_US;

	while (o->busy) {
		disk_turn(&m->d);
		CHECK(test_now_us() < end);
	}
}

/** Fill in a random operation of the range; the model changes at once, as nothing overlaps it. */
static void
make_op(struct model *m, struct op *o, uint64_t off, uint64_t len)
{
	static const enum weft_block_op ops[] = {
	        WEFT_BLOCK_READ,    WEFT_BLOCK_READ,   WEFT_BLOCK_WRITE,        WEFT_BLOCK_WRITE,
	        WEFT_BLOCK_DISCARD, WEFT_BLOCK_ZEROES, WEFT_BLOCK_COMPARE_WRITE};
	const uint32_t can = m->d.info.can;
	const uint64_t bs = m->d.info.block_bytes;
	enum weft_block_op op = ops[draw(&m->draw, RTE_DIM(ops))];
	uint64_t part = 0;

	if ((op == WEFT_BLOCK_DISCARD && !(can & WEFT_BLOCK_CAN_DISCARD)) ||
	    (op == WEFT_BLOCK_ZEROES && !(can & WEFT_BLOCK_CAN_ZEROES)) ||
	    (op == WEFT_BLOCK_COMPARE_WRITE &&
	     (!(can & WEFT_BLOCK_CAN_COMPARE_WRITE) || bs > m->d.info.compare_write_bytes ||
	      m->maybe[off / bs] != 0)))
		op = WEFT_BLOCK_WRITE;
	if (op == WEFT_BLOCK_COMPARE_WRITE)
		len = bs;
	o->req = (struct weft_block_req){
	        .op = op, .off_bytes = off, .len_bytes = len, .done = model_done, .owner = o};
	/* segments of whole blocks */
	o->req.iov = o->iov;
	for (uint64_t at = 0; at < len; at += part) {
		part = o->req.iovs == 3 ? len - at : (draw(&m->draw, (len - at) / bs) + 1) * bs;
		o->iov[o->req.iovs++] = (struct iovec){o->data + at, part};
	}
	if (op != WEFT_BLOCK_READ && op != WEFT_BLOCK_DISCARD && draw(&m->draw, 4) == 0 &&
	    (can & WEFT_BLOCK_CAN_FUA))
		o->req.flags = WEFT_BLOCK_FUA;
	m->version++;
	switch (op) {
	case WEFT_BLOCK_READ:
		memset(o->data, 0xee, len);
		break;
	case WEFT_BLOCK_COMPARE_WRITE:
		memcpy(o->expect, m->bytes + off, len);
		o->req.expect = o->expect;
		if (draw(&m->draw, 2) == 0) { /* one that must not write */
			o->expect[draw(&m->draw, len)] ^= 1;
			fill(o->data, len, off, m->version);
			break;
		}
		/* fallthrough */
	case WEFT_BLOCK_WRITE:
		fill(o->data, len, off, m->version);
		memcpy(m->bytes + off, o->data, len);
		memset(m->maybe + off / bs, 0, len / bs);
		break;
	case WEFT_BLOCK_ZEROES:
		memset(m->bytes + off, 0, len);
		memset(m->maybe + off / bs, 0, len / bs);
		if (draw(&m->draw, 2) == 0)
			o->req.flags |= WEFT_BLOCK_KEEP;
		break;
	default: {
		uint64_t piece = RTE_MAX(m->d.info.discard_bytes, (uint32_t)bs);
		uint64_t from = RTE_ALIGN_CEIL(off, piece), to = RTE_ALIGN_FLOOR(off + len, piece);

		if (to <= from)
			break;
		if (can & WEFT_BLOCK_CAN_DISCARD_ZEROES)
			memset(m->bytes + from, 0, to - from);
		else
			memset(m->maybe + from / bs, 1, (to - from) / bs);
		if (can & WEFT_BLOCK_CAN_DISCARD_ZEROES)
			memset(m->maybe + from / bs, 0, (to - from) / bs);
	}
	}
}

static void
subject_model(const struct target *t)
{
	struct model *m = calloc(1, sizeof(*m));
	const uint64_t seed = test_seed(11);
	uint64_t bs, blocks;

	test_seed_note(seed);
	CHECK(m != NULL);
	m->draw.state = seed * 0x9e3779b97f4a7c15ULL + 1;
	open_target(&m->d, t, true, 8);
	bs = m->d.info.block_bytes;
	blocks = BYTES / bs;
	m->bytes = calloc(1, BYTES);
	m->maybe = calloc(1, blocks);
	for (unsigned int i = 0; i < UNDERWAY; i++) {
		m->op[i].m = m;
		m->op[i].data = disk_memory(65536);
		m->op[i].expect = malloc(4096);
	}
	for (unsigned int n = 0; n < (t->where == NOWHERE ? 3000U : 250U); n++) {
		struct op *o = &m->op[draw(&m->draw, UNDERWAY)];
		uint64_t len = (draw(&m->draw, 65536 / bs) + 1) * bs;
		uint64_t off = draw(&m->draw, blocks - len / bs + 1) * bs;

		/* 256 KiB of the device are used most, so that ranges meet. */
		if (draw(&m->draw, 4) != 0)
			off %= 262144;
		wait_op(m, o);
		if (draw(&m->draw, 12) == 0) {
			o->req = (struct weft_block_req){
			        .op = WEFT_BLOCK_FLUSH, .done = model_done, .owner = o};
		} else {
			while (overlaps(m, off, len))
				disk_turn(&m->d);
			make_op(m, o, off, len);
		}
		o->busy = true;
		CHECK_EQ(weft_block_submit(m->d.c, &o->req), 0);
		disk_poll(&m->d);
	}
	for (unsigned int i = 0; i < UNDERWAY; i++)
		wait_op(m, &m->op[i]);
	/* all of it, from the medium if it can tell */
	CHECK_EQ(disk_io(&m->d, WEFT_BLOCK_FLUSH, 0, 0, NULL, 0), 0);
	for (uint64_t off = 0; off < BYTES; off += 65536) {
		struct op *o = &m->op[0];

		o->req = (struct weft_block_req){
		        .op = WEFT_BLOCK_READ, .off_bytes = off, .len_bytes = 65536};
		CHECK_EQ(disk_io(&m->d, WEFT_BLOCK_READ, medium_of(&m->d), off, o->data, 65536), 0);
		check_read(m, o);
	}
	close_target(&m->d, t);
	for (unsigned int i = 0; i < UNDERWAY; i++)
		free(m->op[i].expect);
	free(m->bytes);
	free(m->maybe);
	free(m);
}

/* ---- Sizes and memory ---- */

static void
subject_sizes(const struct target *t)
{
	struct disk d;
	uint8_t *w, *r;
	struct iovec iov[1024];
	struct weft_block_req req = {.op = WEFT_BLOCK_WRITE, .iov = iov};
	uint64_t bs, max;

	open_target(&d, t, true, 4);
	bs = d.info.block_bytes;
	max = RTE_MIN(d.info.max_bytes, BYTES);
	w = disk_memory(max);
	r = disk_memory(max);
	fill(w, max, 0, 1);
	CHECK(d.info.driver != NULL && d.info.mechanism[0] != '\0');
	/* the longest, and the first and last block */
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, 0, w, max), 0);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, 0, r, max), 0);
	CHECK_MEM(r, w, max);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, BYTES - bs, w, bs), 0);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, BYTES - bs, r, bs), 0);
	CHECK_MEM(r, w, bs);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, BYTES, r, bs), -EINVAL);
	/* as many segments as there may be, back to front */
	req.iovs = (uint32_t)RTE_MIN((uint64_t)d.info.max_iovs, max / bs);
	req.iovs = RTE_MIN(req.iovs, (uint32_t)RTE_DIM(iov));
	req.len_bytes = req.iovs * bs;
	for (uint32_t i = 0; i < req.iovs; i++)
		iov[i] = (struct iovec){w + (req.iovs - 1 - i) * bs, bs};
	CHECK_EQ(disk_do(&d, &req), 0);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, 0, r, req.len_bytes), 0);
	for (uint32_t i = 0; i < req.iovs; i++)
		CHECK_MEM(r + i * bs, w + (req.iovs - 1 - i) * bs, bs);
	if (d.info.can & WEFT_BLOCK_CAN_UNALIGNED) {
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, 1001, w, 777), 0);
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, 1000, r, 779), 0);
		CHECK_MEM(r + 1, w, 777);
	} else {
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, 1, r, bs), -EINVAL);
	}
	if (d.info.mem_align_bytes > 1)
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, 0, r + 1, bs), -EINVAL);
	close_target(&d, t);
}

/** Memory that the device was told of, at its edges and across them. */
static void
subject_registered(const struct target *t)
{
	struct weft_block_chan_attr ca = {.size = sizeof(ca), .depth = 8};
	uint8_t *mem = disk_memory(262144);
	struct disk d;
	struct iovec iov[2];
	struct weft_block_req req = {.op = WEFT_BLOCK_READ, .iov = iov, .iovs = 2};

	open_target(&d, t, true, 4);
	CHECK_EQ(weft_block_chan_close(d.c), 0);
	CHECK_EQ(weft_block_mem_add(d.b, mem + 65536, 65536), 0);
	CHECK_EQ(weft_block_mem_add(d.b, mem + 131072, 65536), 0);
	CHECK_EQ(weft_block_chan_open(d.b, &ca, &d.c), 0);
	test_note("registered: %d", d.c->registered);
	fill(mem, 262144, 0, 3);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, 0, mem + 65536, 65536), 0);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, WEFT_BLOCK_FUA, 65536, mem + 196608 - 4096, 4096),
	         0);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, 131072, mem + 131072 - 4096, 8192), 0);
	memset(mem, 0, 262144);
	iov[0] = (struct iovec){mem, 4096};
	iov[1] = (struct iovec){mem + 65536, 4096};
	req.len_bytes = 8192;
	CHECK_EQ(disk_do(&d, &req), 0);
	fill(mem + 8192, 8192, 65536, 3);
	CHECK_MEM(mem, mem + 8192, 4096);
	CHECK_MEM(mem + 65536, mem + 12288, 4096);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, 131072, mem + 131072, 8192), 0);
	fill(mem, 8192, 131072 - 4096, 3);
	CHECK_MEM(mem + 131072, mem, 8192);
	close_target(&d, t);
}

/* ---- Zeroes, discards, extents, compare-and-write ---- */

static void
subject_zeroes(const struct target *t)
{
	uint8_t *w = disk_memory(65536), *r = disk_memory(65536);
	struct disk d;

	open_target(&d, t, true, 4);
	if ((d.info.can & WEFT_BLOCK_CAN_ZEROES) == 0) {
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_ZEROES, 0, 0, NULL, 4096), -EOPNOTSUPP);
		close_target(&d, t);
		return;
	}
	fill(w, 65536, 0, 1);
	for (unsigned int keep = 0; keep < 2; keep++) {
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, 0, w, 65536), 0);
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_ZEROES,
		                 (keep ? WEFT_BLOCK_KEEP : 0) | WEFT_BLOCK_FUA, 4096, NULL, 32768),
		         0);
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, medium_of(&d), 0, r, 65536), 0);
		CHECK(is_zero(r + 4096, 32768));
		CHECK_MEM(r, w, 4096);
		CHECK_MEM(r + 36864, w + 36864, 65536 - 36864);
	}
	close_target(&d, t);
}

static void
subject_discard(const struct target *t)
{
	uint8_t *w = disk_memory(262144), *r = disk_memory(262144);
	struct disk d;
	uint64_t piece, bs;

	open_target(&d, t, true, 4);
	if ((d.info.can & WEFT_BLOCK_CAN_DISCARD) == 0) {
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_DISCARD, 0, 0, NULL, 4096), -EOPNOTSUPP);
		close_target(&d, t);
		return;
	}
	bs = d.info.block_bytes;
	piece = RTE_MAX((uint64_t)d.info.discard_bytes, bs);
	CHECK(4 * piece <= 262144);
	fill(w, 262144, 0, 1);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, 0, w, 262144), 0);
	/* a whole piece, and a part of the next one, which stays */
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_DISCARD, 0, piece, NULL, piece + (piece > bs ? bs : 0)), 0);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, 0, r, 262144), 0);
	CHECK_MEM(r, w, piece);
	CHECK_MEM(r + 2 * piece, w + 2 * piece, 262144 - 2 * piece);
	if (d.info.can & WEFT_BLOCK_CAN_DISCARD_ZEROES)
		CHECK(is_zero(r + piece, piece));
	else
		CHECK(is_zero(r + piece, piece) || memcmp(r + piece, w + piece, piece) == 0);
	close_target(&d, t);
}

static void
subject_extents(const struct target *t)
{
	struct weft_block_extent x[8];
	struct weft_block_req req = {
	        .op = WEFT_BLOCK_EXTENTS, .len_bytes = BYTES, .extents = x, .max_extents = 8};
	uint8_t *w = disk_memory(65536);
	struct disk d;
	uint64_t at = 0;
	int r;

	open_target(&d, t, true, 4);
	if ((d.info.can & WEFT_BLOCK_CAN_EXTENTS) == 0) {
		CHECK_EQ(disk_do(&d, &req), -EOPNOTSUPP);
		close_target(&d, t);
		return;
	}
	CHECK_EQ(disk_do(&d, &req), 0);
	CHECK(req.extents_found == 1 && x[0].hole && x[0].len_bytes == BYTES);
	memset(w, 1, 65536);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, 1U << 20, w, 65536), 0);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_FLUSH, 0, 0, NULL, 0), 0);
	CHECK_EQ(disk_do(&d, &req), 0);
	CHECK_EQ(req.done_bytes, BYTES);
	for (uint32_t i = 0; i < req.extents_found; i++) {
		CHECK_EQ(x[i].off_bytes, at);
		CHECK(x[i].len_bytes > 0);
		at += x[i].len_bytes;
		/* What was written is in no hole. A file system may allocate more. */
		if (x[i].hole)
			CHECK(at <= 1U << 20 || x[i].off_bytes >= (1U << 20) + 65536);
	}
	CHECK_EQ(at, BYTES);
	CHECK(x[0].hole && !x[1].hole);
	/* room for one only */
	req.max_extents = 1;
	CHECK_EQ(disk_do(&d, &req), 0);
	CHECK(req.extents_found == 1 && req.done_bytes == x[0].len_bytes);
	/* a discard makes the hole again */
	r = disk_io(&d, WEFT_BLOCK_DISCARD, 0, 1U << 20, NULL, 65536);
	CHECK_EQ(r, 0);
	req.max_extents = 8;
	CHECK_EQ(disk_do(&d, &req), 0);
	CHECK(req.extents_found == 1 && x[0].hole);
	close_target(&d, t);
}

static void
subject_compare_write(const struct target *t)
{
	uint8_t *w = disk_memory(4096), *r = disk_memory(4096);
	struct iovec iov = {w, 4096};
	struct weft_block_req req = {.op = WEFT_BLOCK_COMPARE_WRITE,
	                             .off_bytes = (1U << 20) + 8192,
	                             .len_bytes = 4096,
	                             .iov = &iov,
	                             .iovs = 1,
	                             .expect = r};
	struct disk d;
	uint32_t n;

	open_target(&d, t, true, 4);
	if ((d.info.can & WEFT_BLOCK_CAN_COMPARE_WRITE) == 0) {
		CHECK_EQ(disk_do(&d, &req), -EOPNOTSUPP);
		close_target(&d, t);
		return;
	}
	req.len_bytes = iov.iov_len = n = RTE_MIN(4096U, d.info.compare_write_bytes);
	fill(w, n, 0, 1);
	CHECK_EQ(disk_do(&d, &req), 0);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, (1U << 20) + 8192, r, n), 0);
	CHECK_MEM(r, w, n);
	r[n / 2 + 5] ^= 4;
	fill(w, n, 0, 2);
	CHECK_EQ(disk_do(&d, &req), -EILSEQ);
	CHECK_EQ(req.done_bytes, n / 2 + 5);
	fill(w, n, 0, 1);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, (1U << 20) + 8192, r, n), 0);
	CHECK_MEM(r, w, n);
	close_target(&d, t);
}

/* ---- Channels, sleep, end ---- */

#define THREADS 2
#define PART    (BYTES / THREADS)

struct half {
	struct disk d;
	unsigned int i;
	uint8_t *w, *r;
	const char *fault;
};

/** One thread writes, flushes and reads its half of the device by its own channel. */
static void *
half_main(void *arg)
{
	struct half *h = arg;
	struct draw dr = {h->i + 77};
	const uint64_t bs = h->d.info.block_bytes;

	for (unsigned int n = 0; n < 40 && h->fault == NULL; n++) {
		uint64_t len = (draw(&dr, 16) + 1) * bs;
		uint64_t off = h->i * PART + draw(&dr, (PART - len) / bs + 1) * bs;

		fill(h->w, len, off, n + h->i);
		if (disk_io(&h->d, WEFT_BLOCK_WRITE, 0, off, h->w, len) != 0)
			h->fault = "write";
		else if (n % 8 == 0 && disk_io(&h->d, WEFT_BLOCK_FLUSH, 0, 0, NULL, 0) != 0)
			h->fault = "flush";
		else if (disk_io(&h->d, WEFT_BLOCK_READ, 0, off, h->r, len) != 0)
			h->fault = "read";
		else if (memcmp(h->w, h->r, len) != 0)
			h->fault = "octets";
	}
	return NULL;
}

static void
subject_threads(const struct target *t)
{
	struct weft_block_chan_attr ca = {.size = sizeof(ca), .depth = 4};
	struct half h[THREADS];
	pthread_t id[THREADS];
	struct disk d;

	open_target(&d, t, true, 4);
	for (unsigned int i = 0; i < THREADS; i++) {
		h[i] = (struct half){
		        .d = d, .i = i, .w = disk_memory(65536), .r = disk_memory(65536)};
		CHECK_EQ(weft_block_chan_open(d.b, &ca, &h[i].d.c), 0);
	}
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&id[i], NULL, half_main, &h[i]), 0);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(id[i], NULL);
	for (unsigned int i = 0; i < THREADS; i++) {
		CHECK_MSG(h[i].fault == NULL, "thread %u: %s", i, h[i].fault);
		CHECK_EQ(weft_block_chan_close(h[i].d.c), 0);
	}
	close_target(&d, t);
}

static void
count_done(struct weft_block_req *req)
{
	++*(unsigned int *)req->owner;
}

/** Work under way keeps a channel open. A fence ends it, and nothing changes afterwards. */
static void
subject_fence(const struct target *t)
{
	enum { N = 32 };
	uint8_t *w = disk_memory(N * 4096), *a = disk_memory(N * 4096), *b = disk_memory(N * 4096);
	struct weft_block_req req[N];
	struct iovec iov[N];
	unsigned int done = 0;
	struct disk d;
	uint64_t end;
	int r;

	open_target(&d, t, true, 8);
	fill(w, N * 4096, 0, 9);
	for (unsigned int i = 0; i < N; i++) {
		iov[i] = (struct iovec){w + i * 4096, 4096};
		req[i] = (struct weft_block_req){.op = WEFT_BLOCK_WRITE,
		                                 .off_bytes = i * 4096,
		                                 .len_bytes = 4096,
		                                 .iov = &iov[i],
		                                 .iovs = 1,
		                                 .done = count_done,
		                                 .owner = &done};
		CHECK_EQ(weft_block_submit(d.c, &req[i]), 0);
	}
	CHECK_EQ(weft_block_chan_close(d.c), -EBUSY);
	CHECK_EQ(weft_block_close(d.b), -EBUSY);
	end = test_now_us() + TEST_WAIT_US;
	while ((r = weft_block_fence(d.b)) == -EINPROGRESS && test_now_us() < end)
		disk_turn(&d);
	CHECK_EQ(r, 0);
	while (done < N && test_now_us() < end)
		disk_turn(&d);
	CHECK_EQ(done, N);
	if (t->where == NOWHERE) { /* its content ends with it */
		close_target(&d, t);
		return;
	}
	disk_close(&d);
	/* Those that were done are there, those that were given up are not. */
	open_target(&d, t, false, 8);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, 0, a, N * 4096), 0);
	for (unsigned int i = 0; i < N; i++) {
		if (req[i].status == 0)
			CHECK_MEM(a + i * 4096, w + i * 4096, 4096);
		else
			CHECK(is_zero(a + i * 4096, 4096));
	}
	usleep(20000);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, medium_of(&d), 0, b, N * 4096), 0);
	CHECK_MEM(a, b, N * 4096);
	close_target(&d, t);
}

struct writer {
	struct disk d;
	uint8_t *data;
	uint64_t version;
	int status;
};

/** Write one block, each time another version, until that is refused. */
static void *
writer_main(void *arg)
{
	struct writer *w = arg;

	while (w->status == 0) {
		memcpy(w->data, &w->version, 8);
		w->version++;
		w->status = disk_io(&w->d, WEFT_BLOCK_WRITE, 0, 0, w->data, 4096);
	}
	return NULL;
}

/** The fence of one thread ends the writes of another, and is not over before they are. */
static void
subject_fence_thread(const struct target *t)
{
	uint64_t end = test_now_us() + TEST_WAIT_US, now, later;
	struct writer w = {.data = disk_memory(4096)};
	pthread_t id;
	int r;

	open_target(&w.d, t, true, 4);
	CHECK_EQ(pthread_create(&id, NULL, writer_main, &w), 0);
	usleep(20000);
	while ((r = weft_block_fence(w.d.b)) == -EINPROGRESS && test_now_us() < end)
		usleep(100);
	CHECK_EQ(r, 0);
	CHECK_EQ(get_file(target_path, &now, 8, 0), 0);
	usleep(20000);
	CHECK_EQ(get_file(target_path, &later, 8, 0), 0);
	CHECK_EQ(now, later);
	pthread_join(id, NULL);
	/* The last one was under way and was canceled, or came behind the fence. */
	CHECK(w.status == -ECANCELED || w.status == -ESHUTDOWN);
	test_note("%" PRIu64 " writes before the fence", w.version);
	close_target(&w.d, t);
}

/** A worker that sleeps on the descriptor, or until the time that is asked for, wakes. */
static void
subject_sleep(const struct target *t)
{
	uint8_t *w = disk_memory(65536);
	struct iovec iov = {w, 65536};
	unsigned int done = 0;
	struct weft_block_req req[3];
	struct disk d;
	uint64_t end = test_now_us() + TEST_WAIT_US;

	open_target(&d, t, true, 4);
	CHECK(weft_block_next_ns(d.c) == UINT64_MAX);
	for (unsigned int n = 0; n < 8; n++) {
		for (unsigned int i = 0; i < 3; i++) {
			req[i] = (struct weft_block_req){.op = i == 2 ? WEFT_BLOCK_FLUSH
			                                              : WEFT_BLOCK_WRITE,
			                                 .off_bytes = i == 2 ? 0 : i * 65536U,
			                                 .len_bytes = i == 2 ? 0 : 65536,
			                                 .iov = &iov,
			                                 .iovs = 1,
			                                 .done = count_done,
			                                 .owner = &done};
			CHECK_EQ(weft_block_submit(d.c, &req[i]), 0);
		}
		while (done < 3 * (n + 1)) {
			struct pollfd p = {.fd = weft_block_chan_fd(d.c), .events = POLLIN};
			uint64_t next;

			disk_poll(&d);
			next = weft_block_next_ns(d.c);
			CHECK(test_now_us() < end);
			if (done == 3 * (n + 1) || next == 0 || d.step_ns != 0)
				continue;
			/* A driver may look by time whether its requests hang, but the descriptor
			 * wakes: or the test does not end. */
			CHECK(next > test_now_us() * 1000 + 100000000 && p.fd >= 0);
			CHECK_EQ(poll(&p, 1, TEST_WAIT_US / 1000), 1);
		}
	}
	CHECK(weft_block_next_ns(d.c) == UINT64_MAX);
	close_target(&d, t);
}

static void
subject_cancel(const struct target *t)
{
	uint8_t *w = disk_memory(4096);
	struct iovec iov = {w, 4096};
	struct weft_block_req req[20];
	unsigned int done = 0;
	struct disk d;
	uint64_t end = test_now_us() + TEST_WAIT_US;

	open_target(&d, t, true, 4);
	for (unsigned int i = 0; i < 20; i++) {
		req[i] = (struct weft_block_req){.op = i % 5 == 4   ? WEFT_BLOCK_FLUSH
		                                       : i % 2 == 0 ? WEFT_BLOCK_READ
		                                                    : WEFT_BLOCK_WRITE,
		                                 .off_bytes = i % 5 == 4 ? 0 : i * 4096U,
		                                 .len_bytes = i % 5 == 4 ? 0 : 4096,
		                                 .iov = &iov,
		                                 .iovs = 1,
		                                 .done = count_done,
		                                 .owner = &done};
		CHECK_EQ(weft_block_submit(d.c, &req[i]), 0);
		if (i == 10)
			disk_poll(&d);
	}
	for (unsigned int i = 0; i < 20; i++) {
		int r = weft_block_cancel(d.c, &req[i]);

		CHECK(r == 0 || r == -ENOENT);
	}
	while (done < 20 && test_now_us() < end)
		disk_turn(&d);
	CHECK_EQ(done, 20);
	for (unsigned int i = 0; i < 20; i++)
		CHECK(req[i].status == 0 || req[i].status == -ECANCELED);
	close_target(&d, t);
}

static const struct {
	const char *name;
	void (*fn)(const struct target *t);
} subjects[] = {
        {"random operations leave what a model has", subject_model},
        {"longest and most, first and last", subject_sizes},
        {"memory that was registered", subject_registered},
        {"zeroes", subject_zeroes},
        {"discards", subject_discard},
        {"extents", subject_extents},
        {"compare-and-write", subject_compare_write},
        {"a channel for each thread", subject_threads},
        {"nothing lands behind a fence", subject_fence},
        {"a fence by another thread", subject_fence_thread},
        {"a sleeper wakes", subject_sleep},
        {"canceled requests end", subject_cancel},
};

/** The cases: a target and a subject each, of those that fit. */
static struct {
	const struct target *t;
	unsigned int subject;
} of_case[RTE_DIM(targets) * RTE_DIM(subjects)];

/** Threads need a driver that takes them, and a file that can be read beside the device. */
static bool
fits(const struct target *t, unsigned int subject)
{
	if (subjects[subject].fn == subject_threads)
		return !t->one_thread;
	/* All of the image is one object, of which the cluster knows only the highest octet. */
	if (subjects[subject].fn == subject_extents && t->where == RBD_CEPH_LARGE)
		return false;
	if (subjects[subject].fn == subject_fence_thread)
		return t->where == FILE_THERE || t->where == FILE_SHM || t->where == RBD_FAKE;
	return true;
}

static char *self;

/** libpmem decides once in a process what is DAX, so a case that says it is has a process. */
static void
run_in_child(unsigned int i)
{
	char name[512], out[4096];
	FILE *f;
	size_t n;
	int st;

	snprintf(name, sizeof(name), "PMEM_IS_PMEM_FORCE=1 WEFT_TEST_CHILD=1 '%s' '%s: %s' 2>&1",
	         self, targets[i / RTE_DIM(subjects)].name, subjects[i % RTE_DIM(subjects)].name);
	fflush(stdout);
	f = popen(name, "r");
	CHECK(f != NULL);
	n = fread(out, 1, sizeof(out) - 1, f);
	out[n] = '\0';
	st = pclose(f);
	CHECK_MSG(st == 0, "%s", out);
	if (strstr(out, "# SKIP ") != NULL) {
		char *why = strstr(out, "# SKIP ") + strlen("# SKIP ");

		test_skip("%.*s", (int)strcspn(why, "\n"), why);
	}
}

static void
run(void)
{
	unsigned int i = test_case_index();
	const struct target *t = of_case[i].t;

	disk_memory_free();
	if (t->where == FILE_DAX && getenv("WEFT_TEST_CHILD") == NULL)
		run_in_child(i);
	else
		subjects[of_case[i].subject].fn(t);
}

int
main(int argc, char **argv)
{
	static struct weft_test_case cases[RTE_DIM(of_case)];
	static char names[RTE_DIM(of_case)][96];
	unsigned int n = 0;

	self = argv[0];
	if (getenv("WEFT_TEST_CHILD") == NULL)
		unsetenv("PMEM_IS_PMEM_FORCE");
	for (unsigned int t = 0; t < RTE_DIM(targets); t++) {
		for (unsigned int i = 0; i < RTE_DIM(subjects); i++) {
			if (!fits(&targets[t], i) ||
			    (targets[t].where >= RBD_CEPH && getenv("WEFT_TEST_CEPH") == NULL))
				continue;
			snprintf(names[n], sizeof(names[n]), "%s: %s", targets[t].name,
			         subjects[i].name);
			cases[n] = (struct weft_test_case){names[n], run};
			of_case[n].t = &targets[t];
			of_case[n++].subject = i;
		}
	}
	return test_main(argc, argv, cases, n);
}
