/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The file driver's calls to the kernel: opens that fail late, cached pages, and when a flush may
 * report success. This program has its own pwrite, fdatasync, posix_fadvise and io_uring.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_common.h>

#include "fake_ring.h"
#include "medium_test.h"
#include "weft_medium_file.h"
#include "test_xorshift.h"
#include "weft_test.h"

#define PG 4096

static const uint32_t P = WEFT_FLUSH_PERSISTENT;

/* ---- The calls ---- */

static struct {
	off_t off, len; /* of the first call */
	off_t last_len;
	off_t deaf; /* calls for a shorter range return success without effect */
	int rc;
	unsigned int n;
} advised;

int
posix_fadvise(int fd, off_t off, off_t len, int advice)
{
	CHECK(fd >= 0);
	CHECK_EQ(advice, POSIX_FADV_DONTNEED);
	if (advised.n++ == 0) {
		advised.off = off;
		advised.len = len;
	}
	advised.last_len = len;
	if (advised.rc != 0 || (advised.deaf > 0 && (len == 0 ? INT64_MAX : len) < advised.deaf))
		return advised.rc;
	return syscall(SYS_fadvise64, fd, off, len, advice) == 0 ? 0 : errno;
}

/* A model of the medium: the first word of each page, as written, and as it survives a power
 * cut. */
#define MODEL_PAGES 8192

static struct {
	bool on;
	unsigned int syncs;
	unsigned int fail_sync, fail_write; /* the n-th from now fails; 0: none */
	uint64_t written[MODEL_PAGES], durable[MODEL_PAGES];
} model;

ssize_t
pwrite(int fd, const void *buf, size_t len, off_t off)
{
	uint64_t first = (uint64_t)off / PG;

	if (!model.on)
		return syscall(SYS_pwrite64, fd, buf, len, off);
	CHECK_EQ(off % PG, 0);
	if (model.fail_write > 0 && --model.fail_write == 0) {
		/* the content of these pages is undefined now */
		for (uint64_t pg = first; pg < first + len / PG; pg += 2)
			model.written[pg] = UINT64_MAX;
		errno = EIO;
		return -1;
	}
	for (uint64_t pg = first; pg < first + len / PG; pg++)
		memcpy(&model.written[pg], (const uint8_t *)buf + (pg - first) * PG, 8);
	return (ssize_t)len;
}

int
fdatasync(int fd)
{
	model.syncs++;
	if (!model.on)
		return (int)syscall(SYS_fdatasync, fd);
	if (model.fail_sync > 0 && --model.fail_sync == 0) {
		/* reported once; then the kernel forgets the pages */
		memcpy(model.written, model.durable, sizeof(model.written));
		errno = EIO;
		return -1;
	}
	memcpy(model.durable, model.written, sizeof(model.written));
	return 0;
}

/* ---- Opening ---- */

/** Open with little address space left: the file is created first, then the memory is refused. */
static int
open_without_memory(const char *path, uint64_t bytes)
{
	pid_t pid = fork();
	int st;

	if (pid == 0) {
		struct weft_persist_attr a = {.size = sizeof(a),
		                              .driver = "file",
		                              .path = path,
		                              .bytes = bytes,
		                              .create = true,
		                              .numa_node = -1};
		unsigned long long pages = 0;
		struct weft_persist *p;
		struct rlimit lim;
		FILE *f = fopen("/proc/self/statm", "r");

		if (f == NULL || fscanf(f, "%llu", &pages) != 1)
			_exit(99);
		fclose(f);
		lim.rlim_cur = lim.rlim_max = pages * PG + bytes / 4;
		if (setrlimit(RLIMIT_AS, &lim) != 0)
			_exit(98);
		_exit(-weft_persist_open(&a, &p));
	}
	CHECK(pid > 0);
	CHECK_EQ(waitpid(pid, &st, 0), pid);
	CHECK(WIFEXITED(st));
	return -WEXITSTATUS(st);
}

static void
test_failed_open(void)
{
	const char *path = scratch_path("undo");
	uint8_t got[3 * PG], want[3 * PG];
	struct stat st;

	CHECK_EQ(open_without_memory(path, 128 << 20), -ENOMEM);
	CHECK_EQ(file_bytes(path), UINT64_MAX);
	put_file(path, 3 * PG - 5, 'o');
	memset(want, 'o', sizeof(want));
	CHECK_EQ(open_without_memory(path, 128 << 20), -ENOMEM);
	CHECK_EQ(file_bytes(path), 3 * PG - 5);
	CHECK_EQ(get_file(path, got, 3 * PG - 5, 0), 0);
	CHECK_MEM(got, want, 3 * PG - 5);
	CHECK_EQ(stat(path, &st), 0);
	CHECK(st.st_blocks * 512 < 1 << 20);
	CHECK_EQ(try_open("file", path, 4 * PG, true), 0);
	CHECK_EQ(file_bytes(path), 4 * PG);
}

/** A new file belongs to its owner alone, whatever its name is and whichever descriptors are
 * open. */
static void
test_new_file(void)
{
	mode_t mask = umask(0);
	char back[4096];
	struct stat st;
	int in;

	CHECK(getcwd(back, sizeof(back)) != NULL);
	CHECK_EQ(chdir(scratch(NULL)), 0);
	CHECK_EQ(try_open("file", "bare", 3 * PG, true), 0);
	CHECK_EQ(try_open("file", "./dotted", 3 * PG, true), 0);
	CHECK_EQ(stat("bare", &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0600);
	CHECK_EQ(st.st_size, 3 * PG);
	/* A service may have closed its standard input. Descriptor 0 must work like any other. */
	in = fcntl(0, F_DUPFD_CLOEXEC, 10);
	if (in >= 0)
		close(0);
	CHECK_EQ(try_open("file", "zero", 3 * PG, true), 0);
	CHECK_EQ(try_open("file", "zero", 3 * PG, false), 0);
	/* A file too large for the disk is not created. */
	CHECK(try_open("file", "huge", 1ULL << 55, true) < 0);
	CHECK_EQ(file_bytes("huge"), UINT64_MAX);
	if (in >= 0) {
		CHECK_EQ(dup2(in, 0), 0);
		close(in);
	}
	CHECK_EQ(file_bytes("zero"), 3 * PG);
	unlink("bare");
	unlink("dotted");
	unlink("zero");
	CHECK_EQ(chdir(back), 0);
	umask(mask);
}

/* ---- Reading back without O_DIRECT ---- */

/** Open as if O_DIRECT were refused, whatever this file system does. */
static void
open_buffered(const char *path, uint64_t bytes, struct weft_medium *md)
{
	struct weft_persist_attr a = {.size = sizeof(a),
	                              .driver = "file",
	                              .path = path,
	                              .bytes = bytes,
	                              .create = true,
	                              .numa_node = -1};

	unlink(path);
	CHECK_EQ(weft_medium_open(&a, md), 0);
	if (md->tmpfs)
		test_skip("the scratch folder is memory: nothing can be dropped there");
	if (md->direct_fd >= 0)
		close(md->direct_fd);
	md->direct_fd = -1;
	if (md->read_fd < 0)
		md->read_fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(md->read_fd >= 0);
}

static void
test_drop_cache(void)
{
	const char *path = scratch_path("cached");
	static uint8_t page[2 * PG + 100];
	struct weft_bounce b;
	struct weft_medium md;
	const uint8_t *data;
	uint8_t *map;

	open_buffered(path, sizeof(page), &md);
	memset(page, 'c', sizeof(page));
	CHECK_EQ(weft_medium_pwrite(md.fd, page, sizeof(page), 0), 0);
	CHECK_EQ(weft_bounce_init(&b), 0);
	/* posix_fadvise does not drop a page if only a part of it is named */
	for (unsigned int end = 1; end <= 2 * PG + 100; end += 1111) {
		uint64_t off = end / 3;

		advised.n = 0;
		CHECK_EQ(weft_bounce_read(&b, 0, &md, off, end - off, &data), 0);
		CHECK_EQ(data[end - off - 1], 'c');
		CHECK_EQ(advised.off, RTE_ALIGN_FLOOR(off, PG));
		CHECK_EQ(advised.off + advised.len, RTE_ALIGN_CEIL(end, PG));
	}
	/* the pages stay cached: an error is better than an answer from the cache */
	advised.rc = EINVAL;
	CHECK_EQ(weft_bounce_read(&b, 0, &md, 0, 10, &data), -EINVAL);
	advised.rc = 0;
	/* the pages stay cached, and the kernel reports success */
	CHECK_EQ(get_file(path, page, 10, 0), 0);
	map = mmap(NULL, PG, PROT_READ, MAP_SHARED, md.fd, 0);
	CHECK(map != MAP_FAILED);
	CHECK_EQ(*(volatile uint8_t *)map, 'c');
	CHECK_EQ(weft_bounce_read(&b, 0, &md, 0, 10, &data), -EIO);
	munmap(map, PG);
	CHECK_EQ(weft_bounce_read(&b, 0, &md, 0, 10, &data), 0);
	/* the range grows until the pages are dropped: to a folio, to the file */
	for (unsigned int i = 0; i < 3; i++) {
		static const off_t deaf[] = {PG + 1, 3 << 20, INT64_MAX};

		CHECK_EQ(get_file(path, page, 2 * PG, 0), 0);
		advised.n = 0;
		advised.deaf = deaf[i];
		CHECK_EQ(weft_bounce_read(&b, 0, &md, PG, 10, &data), 0);
		CHECK_EQ(advised.n, i == 0 ? 2 : 3);
		CHECK_EQ(advised.last_len, i == 0 ? 2 << 20 : 0);
	}
	advised.deaf = 0;
	md.tmpfs = true; /* memory is the only medium there, and the mechanism's name says so */
	advised.n = 0;
	CHECK_EQ(weft_bounce_read(&b, 0, &md, 0, 10, &data), 0);
	CHECK_EQ(advised.n, 0);
	weft_bounce_fini(&b);
	weft_medium_close(&md);
}

/** Octets that this process has had read from devices; -1: the kernel does not count them. */
static int64_t
device_reads(void)
{
	FILE *f = fopen("/proc/self/io", "r");
	long long n = -1;
	char line[96];

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "read_bytes: %lld", &n) == 1)
			break;
	if (f != NULL)
		fclose(f);
	return n;
}

/** Pages are cached as one large folio. A part of it is read from the device and not from the
 * folio. */
static void
test_reads_device(void)
{
	enum { BYTES = 8 << 20 };
	static const uint32_t wrote[] = {PG, 64 << 10, 256 << 10, 4 << 20};
	const char *path = scratch_path("device");
	uint8_t *mem = malloc(4 << 20);
	struct weft_bounce b;
	struct weft_medium md;
	const uint8_t *data;
	int64_t before;

	open_buffered(path, BYTES, &md);
	CHECK_EQ(weft_bounce_init(&b), 0);
	memset(mem, 'd', 4 << 20);
	CHECK_EQ(weft_medium_pwrite(md.fd, mem, PG, 0), 0);
	CHECK_EQ(fsync(md.fd), 0);
	CHECK_EQ(syscall(SYS_fadvise64, md.fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	before = device_reads();
	CHECK_EQ(weft_medium_pread(md.fd, mem, PG, 0), 0);
	if (before < 0 || device_reads() == before)
		test_skip("nothing counts what is read of the device here");
	for (unsigned int i = 0; i < RTE_DIM(wrote); i++) {
		const uint64_t off = wrote[i] / 2 & ~(uint64_t)(PG - 1);

		memset(mem, 'e' + (int)i, wrote[i]);
		CHECK_EQ(weft_medium_pwrite(md.fd, mem, wrote[i], 0), 0);
		CHECK_EQ(fdatasync(md.fd), 0);
		before = device_reads();
		CHECK_EQ(weft_bounce_read(&b, 0, &md, off + 100, PG - 200, &data), 0);
		CHECK_MEM(data, mem, PG - 200);
		CHECK_MSG(device_reads() - before >= PG, "of %u octets", wrote[i]);
		/* the next read does not use what this one has cached */
		before = device_reads();
		CHECK_EQ(weft_bounce_read(&b, 0, &md, off, PG, &data), 0);
		CHECK_MSG(device_reads() - before >= PG, "again, of %u octets", wrote[i]);
	}
	weft_bounce_fini(&b);
	weft_medium_close(&md);
	free(mem);
}

/** The content of the medium changes below all caches. */
static void
test_changed_underneath(void)
{
	static uint8_t mine[64 * PG], theirs[PG];
	const char *file = scratch_path("underneath");
	struct weft_persist_attr a = {.size = sizeof(a), .driver = "file", .numa_node = -1};
	struct weft_bounce b;
	struct weft_medium md;
	const uint8_t *data;
	char dev[32];
	int fd;

	put_file(file, sizeof(mine), 0);
	fd = loop_make(file, dev);
	if (fd < 0)
		test_skip("no loop device here");
	a.path = dev;
	CHECK_EQ(weft_medium_open(&a, &md), 0);
	close(fd);
	close(md.direct_fd);
	md.direct_fd = -1;
	md.read_fd = open(dev, O_RDONLY | O_CLOEXEC);
	CHECK_EQ(weft_bounce_init(&b), 0);
	memset(mine, 'm', sizeof(mine));
	memset(theirs, 't', sizeof(theirs));
	CHECK_EQ(weft_medium_pwrite(md.fd, mine, sizeof(mine), 0), 0);
	CHECK_EQ(fdatasync(md.fd), 0);
	CHECK_EQ(weft_bounce_read(&b, 0, &md, 0, sizeof(mine), &data), 0);
	CHECK_MEM(data, mine, sizeof(mine));
	poke_file(file, theirs, PG, 17 * PG);
	CHECK_EQ(weft_medium_pread(md.read_fd, mine, sizeof(mine), 0), 0);
	CHECK_EQ(mine[17 * PG], 'm'); /* the cache does not see it */
	CHECK_EQ(weft_bounce_read(&b, 0, &md, 17 * PG, PG, &data), 0);
	CHECK_MEM(data, theirs, PG);
	weft_bounce_fini(&b);
	weft_medium_close(&md);
}

/** A medium that ends before the range does, not at a page boundary: an error with either
 * method. */
static void
test_cut(void)
{
	static const uint32_t cut[] = {0, 1, PG - 1, PG, PG + 1, 5000, 2 * PG, 3 * PG - 1};

	alarm(30);
	for (unsigned int i = 0; i < 2 * RTE_DIM(cut); i++) {
		const uint32_t left = cut[i / 2];
		const char *path = scratch_path("cut");
		struct weft_persist_attr a = {.size = sizeof(a),
		                              .driver = "file",
		                              .path = path,
		                              .bytes = 1 << 20,
		                              .create = true,
		                              .numa_node = -1};
		struct weft_bounce b;
		struct weft_medium md;
		const uint8_t *data;

		if (i % 2 == 0) {
			unlink(path);
			CHECK_EQ(weft_medium_open(&a, &md), 0);
		} else {
			open_buffered(path, a.bytes, &md);
		}
		CHECK_EQ(weft_bounce_init(&b), 0);
		CHECK_EQ(truncate(path, left), 0);
		CHECK_EQ(weft_bounce_read(&b, 0, &md, 0, 3 * PG, &data), -EIO);
		CHECK_EQ(weft_bounce_read(&b, 0, &md, PG, 2 * PG, &data), -EIO);
		CHECK_EQ(weft_bounce_read(&b, 0, &md, 2 * PG, PG, &data), -EIO);
		CHECK_EQ(weft_bounce_read(&b, 0, &md, left, 1, &data), -EIO);
		CHECK_EQ(weft_bounce_read(&b, 0, &md, 1 << 19, 1 << 19, &data), -EIO);
		CHECK_EQ(weft_bounce_read(&b, 0, &md, 0, left, &data), 0);
		weft_bounce_fini(&b);
		weft_medium_close(&md);
	}
	alarm(0);
}

/* ---- Long flushes ---- */

static void
count_done(struct weft_persist_req *req)
{
	++*(unsigned int *)req->owner;
}

/** A short job behind a long flush on the only helper does not wait for its end. */
static void
test_slices(void)
{
	enum { BYTES = 32 << 20 };
	struct weft_persist *a = must_open("file", scratch_path("long"), BYTES, true);
	struct weft_persist *b = must_open("file", scratch_path("short"), PG, true);
	unsigned int done[2] = {0, 0}, polls = 0;
	struct weft_persist_req req[2];
	struct weft_exec *e;

	CHECK_EQ(weft_exec_create(0, &e), 0);
	memset(a->base, 1, BYTES);
	weft_persist_mark(a, 0, BYTES);
	for (unsigned int i = 0; i < 2; i++)
		req[i] = (struct weft_persist_req){.len_bytes = i ? PG : BYTES,
		                                   .flags = P,
		                                   .done = count_done,
		                                   .owner = &done[i]};
	model.syncs = 0;
	CHECK_EQ(a->ops->flush(a, e, &req[0]), 0);
	CHECK_EQ(b->ops->read_back(b, e, &req[1]), 0);
	weft_exec_poll(e);
	weft_exec_poll(e);
	CHECK_EQ(done[1], 1);
	CHECK_EQ(req[1].status, 0);
	b->ops->release(b, &req[1]);
	CHECK_EQ(done[0], 0);
	for (; done[0] == 0; polls++) {
		CHECK(polls < 64);
		CHECK_EQ(weft_exec_poll(e), 1);
	}
	CHECK_EQ(req[0].status, 0);
	CHECK(model.syncs > 0);
	CHECK_EQ(weft_exec_pending(e), 0);
	/* an interrupted flush does not report success and loses nothing */
	memset(a->base, 2, BYTES);
	weft_persist_mark(a, 0, BYTES);
	done[0] = 0;
	CHECK_EQ(a->ops->flush(a, e, &req[0]), 0);
	weft_exec_poll(e);
	CHECK_EQ(done[0], 0);
	weft_exec_destroy(e);
	model.syncs = 0;
	CHECK_EQ(weft_persist_flush_wait(a, 0, PG), 0);
	CHECK_EQ(model.syncs, 1); /* its page was written and not synced */
	CHECK_EQ(weft_persist_flush_wait(a, 0, BYTES), 0);
	CHECK_EQ(model.syncs, 2);
	weft_persist_close(a);
	weft_persist_close(b);
}

/**
 * A short flush fails at a page that a long flush in progress has already written. The content of
 * the page is undefined now, so the long flush must fail, too.
 */
static void
test_fails_behind(void)
{
	enum { BYTES = 32 << 20 };

	for (unsigned int sync = 0; sync < 2; sync++) {
		struct weft_persist *p =
		        must_open("file:pwrite", scratch_path("behind"), BYTES, true);
		struct weft_persist_req req[2];
		unsigned int done[2] = {0, 0};
		struct weft_exec *e[2];

		memset(&model, 0, sizeof(model));
		model.on = true;
		for (unsigned int i = 0; i < 2; i++) {
			CHECK_EQ(weft_exec_create(0, &e[i]), 0);
			req[i] = (struct weft_persist_req){.len_bytes = i ? PG : BYTES,
			                                   .flags = P,
			                                   .done = count_done,
			                                   .owner = &done[i]};
		}
		weft_persist_mark(p, 0, BYTES);
		CHECK_EQ(p->ops->flush(p, e[0], &req[0]), 0);
		weft_exec_poll(e[0]);
		CHECK(done[0] == 0 && p->dirty[0] == 0);
		weft_persist_mark(p, 0, 8);
		model.fail_write = !sync;
		model.fail_sync = sync;
		CHECK_EQ(p->ops->flush(p, e[1], &req[1]), 0);
		weft_exec_poll(e[1]);
		CHECK_EQ(done[1], 1);
		CHECK_EQ(req[1].status, -EIO);
		while (done[0] == 0)
			CHECK_EQ(weft_exec_poll(e[0]), 1);
		CHECK_EQ(req[0].status, -EIO);
		CHECK_EQ(weft_persist_flush_wait(p, 0, BYTES), 0);
		for (unsigned int i = 0; i < 2; i++)
			weft_exec_destroy(e[i]);
		model.on = false;
		weft_persist_close(p);
	}
}

/* ---- Many flushes at once on a failing medium, compared with what survives ---- */

#define FLUSHES 6

static struct flight {
	struct weft_persist_req req;
	unsigned int done;
	bool busy;
	uint64_t first, end;
	uint64_t want[MODEL_PAGES]; /* content of memory at the submission */
} flight[FLUSHES];

static uint64_t rng;

static uint64_t
below(uint64_t n)
{
	return test_xorshift(&rng) % n;
}

static uint64_t
version_of(const struct weft_persist *p, uint64_t pg)
{
	uint64_t v;

	memcpy(&v, p->base + pg * PG, 8);
	return v;
}

/** A successful flush has made its whole range durable, as it was at the submission or newer. */
static void
flight_end(struct flight *fl, uint64_t seed)
{
	fl->busy = false;
	if (fl->req.status != 0)
		return;
	for (uint64_t pg = fl->first; pg < fl->end; pg++)
		CHECK_MSG(model.durable[pg] >= fl->want[pg] && model.durable[pg] != UINT64_MAX,
		          "seed %" PRIu64 ": page %" PRIu64 ": %" PRIu64 " < %" PRIu64, seed, pg,
		          model.durable[pg], fl->want[pg]);
}

static void
flight_start(struct flight *fl, struct weft_persist *p, struct weft_exec *e)
{
	uint64_t max = below(3) == 0 ? MODEL_PAGES : 40;

	fl->first = below(MODEL_PAGES);
	fl->end = RTE_MIN(fl->first + 1 + below(max), (uint64_t)MODEL_PAGES);
	for (uint64_t pg = fl->first; pg < fl->end; pg++)
		fl->want[pg] = version_of(p, pg);
	fl->done = 0;
	fl->busy = true;
	fl->req = (struct weft_persist_req){.off_bytes = fl->first * PG,
	                                    .len_bytes = (fl->end - fl->first) * PG,
	                                    .flags = P,
	                                    .done = count_done,
	                                    .owner = &fl->done};
	CHECK_EQ(p->ops->flush(p, e, &fl->req), 0);
}

static unsigned int batches;

static void
model_round(uint64_t seed)
{
	bool uring = seed % 2 == 0; /* with many writes at once, or with one at a time */
	struct weft_persist *p = must_open(uring ? "file:uring" : "file:pwrite",
	                                   scratch_path("model"), (uint64_t)MODEL_PAGES * PG, true);
	uint64_t version = 1, failures = 0;
	struct weft_exec *e[3];

	rng = seed * 0x9e3779b97f4a7c15ULL + 1;
	memset(p->base, 0, p->bytes);
	memset(&model, 0, sizeof(model));
	model.on = true;
	memset(&fake_ring, 0, sizeof(fake_ring));
	fake_ring.rings = uring;
	fake_ring.seed = seed;
	for (unsigned int i = 0; i < RTE_DIM(e); i++)
		CHECK_EQ(weft_exec_create(0, &e[i]), 0);
	for (unsigned int step = 0; step < 400; step++) {
		uint64_t pg = below(MODEL_PAGES), n = below(4) == 0 ? 3000 : 1;
		struct flight *fl = &flight[below(FLUSHES)];

		switch (below(8)) {
		case 0:
		case 1:
			for (n += pg; pg < RTE_MIN(n, (uint64_t)MODEL_PAGES); pg++, version++) {
				memcpy(p->base + pg * PG, &version, 8);
				weft_persist_mark(p, pg * PG, 8);
			}
			break;
		case 2:
		case 3:
			if (!fl->busy)
				flight_start(fl, p, e[below(RTE_DIM(e))]);
			break;
		case 4:
			if (failures < 6 && below(3) == 0) {
				*(below(2) ? &model.fail_sync : &model.fail_write) = 1 + below(3);
				failures++;
			} else if (below(2)) {
				fake_ring.cut = 1 + below(3);
			} else if (below(2)) {
				fake_ring.again = -EAGAIN;
			} else if (below(40) == 0) {
				fake_ring.submit_errno = ENOMEM;
				fake_ring.take = below(5);
			}
			break;
		default:
			weft_exec_poll(e[below(RTE_DIM(e))]);
			break;
		}
		for (unsigned int i = 0; i < FLUSHES; i++)
			if (flight[i].busy && flight[i].done)
				flight_end(&flight[i], seed);
	}
	model.fail_sync = model.fail_write = 0;
	fake_ring.submit_errno = fake_ring.again = 0;
	fake_ring.cut = 0;
	for (unsigned int i = 0; i < RTE_DIM(e); i++) {
		while (weft_exec_pending(e[i]) > 0)
			weft_exec_poll(e[i]);
		weft_exec_destroy(e[i]);
	}
	for (unsigned int i = 0; i < FLUSHES; i++)
		if (flight[i].busy)
			flight_end(&flight[i], seed);
	/* After every failure, a flush of the whole medium repairs it. */
	flight[0].first = 0;
	flight[0].end = MODEL_PAGES;
	for (uint64_t pg = 0; pg < MODEL_PAGES; pg++)
		flight[0].want[pg] = version_of(p, pg);
	flight[0].req.status = weft_persist_flush_wait(p, 0, p->bytes);
	CHECK_EQ(flight[0].req.status, 0);
	flight_end(&flight[0], seed);
	model.on = false;
	weft_persist_close(p);
	CHECK_EQ(fake_ring.rings, 0);
	batches += fake_ring.submits;
}

static void
test_model(void)
{
	unsigned int rounds = test_seed_given() ? 1 : 60;

	for (unsigned int i = 0; i < rounds; i++)
		model_round(test_seed(7000 + i));
	CHECK(rounds == 1 || batches > 100);
}

WEFT_TEST_MAIN({"failed_open", test_failed_open}, {"new_file", test_new_file},
               {"drop_cache", test_drop_cache}, {"reads_device", test_reads_device},
               {"changed_underneath", test_changed_underneath}, {"cut", test_cut},
               {"slices", test_slices}, {"fails_behind", test_fails_behind}, {"model", test_model})
