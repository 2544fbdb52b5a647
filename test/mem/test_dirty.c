/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the file driver writes, octet by octet, with each of its methods (io_uring, pwrite, without
 * O_DIRECT): exactly the dirty pages of the range, and then a sync. And its behaviour when a call
 * fails. This program has its own versions of the calls and of io_uring.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_common.h>

#include "fake_ring.h"
#include "medium_test.h"
#include "test_xorshift.h"
#include "weft_test.h"

#define PG    4096
#define PAGES 600

static const uint32_t P = WEFT_FLUSH_PERSISTENT;

/* ---- The calls ---- */

static struct {
	bool no_direct;  /* as some file systems */
	int refuse_open; /* errno of an open for writing */
	/* each: the n-th call from now fails, once */
	unsigned int fail_write, fail_sync, fail_read;
	int err;
	/* the calls made */
	unsigned int times[PAGES]; /* writes of each page */
	unsigned int writes, syncs, since_sync, partial;
	uint64_t octets;
} io;

static bool
hit(unsigned int *n)
{
	return *n > 0 && --*n == 0;
}

int
open(const char *path, int flags, ...)
{
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, int) : 0;
	va_end(ap);
	if (io.no_direct && flags & __O_DIRECT) {
		errno = EINVAL;
		return -1;
	}
	if (io.refuse_open != 0 && (flags & O_ACCMODE) == O_RDWR) {
		errno = io.refuse_open;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t
pwrite(int fd, const void *buf, size_t len, off_t off)
{
	io.writes++;
	io.since_sync++;
	io.octets += len;
	io.partial += off % PG != 0 || len % PG != 0;
	for (off_t pg = off / PG; pg < (off_t)((off + (off_t)len + PG - 1) / PG); pg++) {
		CHECK(pg < PAGES);
		io.times[pg]++;
	}
	if (hit(&io.fail_write)) {
		errno = io.err;
		return -1;
	}
	return syscall(SYS_pwrite64, fd, buf, len, off);
}

int
fdatasync(int fd)
{
	io.syncs++;
	io.since_sync = 0;
	if (hit(&io.fail_sync)) {
		errno = io.err;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

ssize_t
pread(int fd, void *buf, size_t len, off_t off)
{
	if (hit(&io.fail_read)) {
		errno = io.err;
		return -1;
	}
	return syscall(SYS_pread64, fd, buf, len, off);
}

/* ---- The methods ---- */

static const struct way {
	const char *driver;
	bool no_direct;
	const char *mechanism;
} ways[] = {
        {"file:uring", false, "direct I/O by io_uring to an ordinary file"},
        {"file:pwrite", false, "direct I/O by pwrite to an ordinary file"},
        {"file", true, "buffered I/O and fdatasync to an ordinary file"},
};

static bool direct; /* whether the scratch folder supports O_DIRECT */

static struct weft_persist *
way_open(const struct way *w, const char *name, uint64_t bytes)
{
	struct weft_persist *p;

	memset(&io, 0, sizeof(io));
	memset(&fake_ring, 0, sizeof(fake_ring));
	io.no_direct = w->no_direct;
	p = must_open(w->driver, scratch_path(name), bytes, true);
	CHECK_STR(p->mechanism, w->mechanism);
	return p;
}

static const struct way *
way_next(const struct way *w)
{
	w = w == NULL ? ways : w + 1;
	while (w < ways + RTE_DIM(ways) && !w->no_direct && !direct)
		w++;
	return w < ways + RTE_DIM(ways) ? w : NULL;
}

#define EACH_WAY(w) (const struct way *w = way_next(NULL); w != NULL; w = way_next(w))

static void
way_close(struct weft_persist *p)
{
	weft_persist_close(p);
	CHECK_EQ(fake_ring.rings, 0);
}

static void
find_direct(void)
{
	struct weft_persist *p = must_open("file:pwrite", scratch_path("probe"), PG, true);

	direct = strstr(p->mechanism, "direct") != NULL;
	weft_persist_close(p);
	if (!direct)
		test_note("no O_DIRECT in the scratch folder: without");
}

/* ---- Dirty ranges only ---- */

static uint64_t rng;

static uint64_t
below(uint64_t n)
{
	return test_xorshift(&rng) % n;
}

/** Flush [off, off + len). Exactly its dirty pages must be written, each once, and synced. */
static void
flush_exactly(struct weft_persist *p, uint64_t off, uint64_t len, uint64_t seed)
{
	uint8_t before[PAGES];
	uint64_t first = off / PG, end = (off + len + PG - 1) / PG;
	unsigned int want = 0;

	memcpy(before, p->dirty, PAGES);
	memset(io.times, 0, sizeof(io.times));
	io.syncs = io.since_sync = 0;
	CHECK_EQ(weft_persist_flush_wait(p, off, len), 0);
	for (uint64_t pg = 0; pg < PAGES; pg++) {
		bool in = before[pg] != 0 && pg >= first && pg < end;

		want += in;
		CHECK_MSG(io.times[pg] == in, "seed %" PRIu64 ": page %" PRIu64 " written %u times",
		          seed, pg, io.times[pg]);
		CHECK_MSG(p->dirty[pg] == (in ? 0 : before[pg]), "seed %" PRIu64 ": page %" PRIu64,
		          seed, pg);
	}
	CHECK_MSG(io.syncs == (want > 0), "seed %" PRIu64 ": %u syncs for %u pages", seed, io.syncs,
	          want);
	CHECK_EQ(io.since_sync, 0); /* the sync came last */
}

static void
test_exact(void)
{
	static uint8_t got[PAGES * PG];
	const uint64_t bytes = PAGES * PG - 1000; /* the last page is partial */

	for
		EACH_WAY(w)
		{
			struct weft_persist *p = way_open(w, "exact", bytes);
			uint64_t rounds = 0;

			for (uint64_t seed = 1; seed <= 40; seed++, rounds++) {
				uint64_t off, len;

				rng = seed * 0x9e3779b97f4a7c15ULL | 1;
				fake_ring.seed = seed;
				for (uint64_t n = below(200); n > 0; n--) {
					off = below(bytes);
					len = 1 + below(RTE_MIN(bytes - off,
					                        below(8) ? 100UL : 20UL * PG));
					memset(p->base + off, (int)below(256), len);
					weft_persist_mark(p, off, len);
				}
				off = below(bytes);
				len = 1 + below(bytes - off);
				flush_exactly(p, off, len, seed);
				CHECK_EQ(get_file(scratch_path("exact"), got, len, off), 0);
				CHECK_MEM(got, p->base + off, len);
				flush_exactly(p, off, len, seed); /* no page is dirty any more */
			}
			flush_exactly(p, 0, bytes, 0);
			/* The mapping ends within its last page. Only the mapped part is
			 * written. */
			io.octets = io.partial = 0;
			weft_persist_mark(p, bytes - 1, 1);
			flush_exactly(p, bytes - 1, 1, 0);
			CHECK_EQ(io.octets, PG - 1000);
			CHECK_EQ(io.partial, 1);
			CHECK_EQ(file_bytes(scratch_path("exact")), bytes);
			CHECK(!strstr(w->mechanism, "io_uring") == (fake_ring.submits == 0));
			test_note("%s: %" PRIu64 " rounds, %u batches", w->mechanism, rounds,
			          fake_ring.submits);
			way_close(p);
		}
}

/** A flush for visibility only does not access the medium. */
static void
test_visible(void)
{
	for
		EACH_WAY(w)
		{
			struct weft_persist *p = way_open(w, "visible", PAGES * PG);
			struct weft_exec *e;

			CHECK_EQ(weft_exec_create(0, &e), 0);
			io.writes = io.syncs = 0;
			weft_persist_mark(p, 0, p->bytes);
			CHECK_EQ(flush(p, e, 0, p->bytes, WEFT_FLUSH_VISIBLE), 0);
			CHECK_EQ(flush(p, e, 5 * PG, 0, P), 0);
			CHECK_EQ(io.writes + io.syncs + fake_ring.submits, 0);
			weft_exec_destroy(e);
			way_close(p);
		}
}

/* ---- A medium that fails ---- */

/** Pages 1, 4, 7, ... have this content and are dirty. */
static void
scatter(struct weft_persist *p, int with)
{
	for (unsigned int pg = 1; pg < PAGES; pg += 3) {
		memset(p->base + pg * PG, with, PG);
		weft_persist_mark(p, pg * PG, PG);
	}
}

static unsigned int
count_dirty(const struct weft_persist *p)
{
	unsigned int n = 0;

	for (unsigned int pg = 0; pg < PAGES; pg++)
		n += p->dirty[pg];
	return n;
}

/** Check the result of a flush that succeeds, whatever happened before. */
static void
flush_all(struct weft_persist *p, const char *name)
{
	static uint8_t got[PAGES * PG];

	CHECK_EQ(weft_persist_flush_wait(p, 0, p->bytes), 0);
	CHECK_EQ(count_dirty(p), 0);
	CHECK_EQ(io.since_sync, 0);
	CHECK_EQ(get_file(scratch_path(name), got, sizeof(got), 0), 0);
	CHECK_MEM(got, p->base, sizeof(got));
}

static void
test_write_fails(void)
{
	static const int errs[] = {EIO, ENOSPC, EDQUOT, EROFS};

	for
		EACH_WAY(w)
		{
			struct weft_persist *p = way_open(w, "wfail", PAGES * PG);

			for (unsigned int i = 0; i < 24; i++) {
				scatter(p, (int)i + 1);
				io.err = errs[i % RTE_DIM(errs)];
				io.fail_write = 1 + i * 8; /* 200 runs, in four batches */
				CHECK_EQ(weft_persist_flush_wait(p, 0, p->bytes), -io.err);
				CHECK(count_dirty(p) > 0);
				/* The failed page is still dirty: each clean page is in the
				 * file. */
				for (unsigned int pg = 1; pg < PAGES; pg += 3) {
					uint8_t b;

					CHECK_EQ(get_file(scratch_path("wfail"), &b, 1, pg * PG),
					         0);
					CHECK(p->dirty[pg] != 0 || b == i + 1);
				}
				flush_all(p, "wfail");
			}
			way_close(p);
		}
}

static void
test_sync_fails(void)
{
	for
		EACH_WAY(w)
		{
			struct weft_persist *p = way_open(w, "sfail", PAGES * PG);

			scatter(p, 's');
			io.err = EIO;
			io.fail_sync = 1;
			CHECK_EQ(weft_persist_flush_wait(p, 0, p->bytes), -EIO);
			/* The kernel reports the error once and then forgets it. All pages count as
			 * not durable. */
			CHECK_EQ(count_dirty(p), PAGES / 3);
			flush_all(p, "sfail");
			/* Pages that another flush has written and not yet synced. */
			scatter(p, 't');
			io.fail_write = 150;
			CHECK_EQ(weft_persist_flush_wait(p, 0, p->bytes), -EIO);
			CHECK(!p->dirty[1]);
			io.fail_sync = 1;
			CHECK_EQ(weft_persist_flush_wait(p, PG, PG), -EIO);
			CHECK(p->dirty[1] && p->dirty[4]);
			flush_all(p, "sfail");
			way_close(p);
		}
}

static void
test_read_fails(void)
{
	static uint8_t got[8 * PG];

	for
		EACH_WAY(w)
		{
			struct weft_persist *p = way_open(w, "rfail", PAGES * PG);
			struct weft_exec *e;

			CHECK_EQ(weft_exec_create(0, &e), 0);
			scatter(p, 'r');
			flush_all(p, "rfail");
			for (unsigned int i = 0; i < 20; i++) { /* no buffer is lost */
				io.err = EIO;
				io.fail_read = 1;
				CHECK_EQ(read_back(p, e, 3, sizeof(got) - 3, got), -EIO);
			}
			CHECK_EQ(read_back(p, e, 0, sizeof(got), got), 0);
			CHECK_MEM(got, p->base, sizeof(got));
			weft_exec_destroy(e);
			way_close(p);
		}
	/* At open the content is read. */
	memset(&io, 0, sizeof(io));
	io.no_direct = true;
	io.err = EIO;
	io.fail_read = 1;
	CHECK_EQ(try_open("file", scratch_path("rfail"), 0, false), -EIO);
	CHECK_EQ(try_open("file", scratch_path("rfail"), 0, false), 0);
}

/* ---- io_uring itself ---- */

static void
test_forbidden(void)
{
	const char *path = scratch_path("forbid");
	struct weft_persist *p;

	if (!direct)
		test_skip("no O_DIRECT in the scratch folder");
	memset(&io, 0, sizeof(io));
	for (unsigned int i = 0; i < 4; i++) {
		static const int errs[] = {EPERM, ENOSYS, ENOMEM, 0};

		fake_ring = (struct fake_ring){.refuse = errs[i], .no_write = errs[i] == 0};
		CHECK_EQ(try_open("file:uring", path, 8 * PG, true), -ENOTSUP);
		CHECK_EQ(file_bytes(path), UINT64_MAX); /* as before: there is no file */
		p = must_open("file", path, 8 * PG, true);
		CHECK_STR(p->mechanism, "direct I/O by pwrite to an ordinary file");
		weft_persist_mark(p, 0, 8 * PG);
		p->dirty[3] = 0;
		CHECK_EQ(weft_persist_flush_wait(p, 0, p->bytes), 0);
		CHECK_EQ(fake_ring.submits, 0);
		way_close(p);
		CHECK_EQ(unlink(path), 0);
	}
	memset(&fake_ring, 0, sizeof(fake_ring));
	p = must_open("file", path, 8 * PG, true);
	CHECK_STR(p->mechanism, "direct I/O by io_uring to an ordinary file");
	way_close(p);
	io.no_direct = true;
	CHECK_EQ(try_open("file:uring", path, 8 * PG, true), -ENOTSUP);
	CHECK_EQ(fake_ring.rings, 0);
}

/** The kernel accepts only a part of a batch. All pages are written, and later ones without a
 * ring. */
static void
test_refused_midway(void)
{
	if (!direct)
		test_skip("no O_DIRECT in the scratch folder");
	for (unsigned int take = 0; take < 70; take += 3) {
		struct weft_persist *p = way_open(&ways[0], "midway", PAGES * PG);

		scatter(p, (int)take + 1);
		fake_ring.submit_errno = ENOMEM;
		fake_ring.take = take;
		fake_ring.seed = take;
		flush_all(p, "midway");
		CHECK_EQ(fake_ring.submits, 1);
		CHECK_EQ(fake_ring.rings, 0);
		scatter(p, (int)take + 2);
		flush_all(p, "midway");
		way_close(p);
	}
}

/** A write that is short, or that the kernel wants repeated, is completed. */
static void
test_short(void)
{
	struct weft_persist *p;

	if (!direct)
		test_skip("no O_DIRECT in the scratch folder");
	p = way_open(&ways[0], "short", PAGES * PG);
	for (unsigned int i = 0; i < 12; i++) {
		/* runs of one page and one run of many */
		scatter(p, (int)i + 1);
		memset(p->base + 100 * PG, (int)i + 1, 50 * PG);
		weft_persist_mark(p, 100 * PG, 50 * PG);
		if (i % 3 == 0)
			fake_ring.cut = 30 + i;
		else
			fake_ring.again = i % 3 == 1 ? -EAGAIN : -EINTR;
		flush_all(p, "short");
		CHECK(fake_ring.cut == 0 && fake_ring.again == 0);
	}
	way_close(p);
}

/** An interrupted wait is repeated. After a wait that fails, writes may still complete at any
 * time. */
static void
test_wait_fails(void)
{
	struct weft_persist *p;

	if (!direct)
		test_skip("no O_DIRECT in the scratch folder");
	p = way_open(&ways[0], "wait", PAGES * PG);
	scatter(p, 'i');
	fake_ring.submit_errno = EINTR; /* all writes are accepted, half of them complete */
	fake_ring.take = 64;
	flush_all(p, "wait");
	CHECK(fake_ring.submits > 2);
	scatter(p, 'j');
	fake_ring.submit_errno = EBADR;
	fake_ring.take = 10;
	fake_ring.wait_errno = EINTR;
	flush_all(p, "wait");
	way_close(p);

	p = way_open(&ways[0], "wait", PAGES * PG);
	scatter(p, 'k');
	fake_ring.submit_errno = ENOMEM;
	fake_ring.take = 10;
	fake_ring.wait_errno = EBADF;
	CHECK_EQ(weft_persist_flush_wait(p, 0, p->bytes), -EIO);
	for (unsigned int i = 0; i < 3; i++)
		CHECK_EQ(weft_persist_flush_wait(p, PG, PG), -EIO);
	way_close(p);
}

/* ---- Opening ---- */

static void
test_options(void)
{
	const char *path = scratch_path("options");

	memset(&io, 0, sizeof(io));
	memset(&fake_ring, 0, sizeof(fake_ring));
	CHECK_EQ(try_open("file:pwrite", path, PG, true), 0);
	CHECK_EQ(try_open("file:", path, PG, true), -ENODEV);
	CHECK_EQ(try_open("file:threads", path, PG, true), -ENODEV);
	CHECK_EQ(try_open("file:pwrite:uring", path, PG, true), -ENODEV);
	CHECK_EQ(try_open(":pwrite", path, PG, true), -ENODEV);
	CHECK_EQ(try_open("fil", path, PG, true), -ENODEV);
	CHECK_EQ(try_open("volatile:pwrite", NULL, PG, true), -ENODEV);
	CHECK_EQ(try_open("pmem:pwrite", path, PG, true), -ENODEV);
	CHECK_EQ(try_open("auto:pwrite", path, PG, true), -ENODEV);
}

/** A file that may not be written is refused at open with its errno and is unchanged. */
static void
test_read_only(void)
{
	static const int errs[] = {EROFS, EACCES, EPERM, ETXTBSY, ENXIO, EIO};
	const char *path = scratch_path("ro");

	put_file(path, 3 * PG, 'o');
	memset(&io, 0, sizeof(io));
	memset(&fake_ring, 0, sizeof(fake_ring));
	for (unsigned int i = 0; i < RTE_DIM(errs); i++) {
		static const char *const drivers[] = {"file", "file:pwrite", "pmem", "auto"};

		for (unsigned int d = 0; d < RTE_DIM(drivers); d++) {
			io.refuse_open = errs[i];
			CHECK_EQ(try_open(drivers[d], path, 0, false), -errs[i]);
			CHECK_EQ(try_open(drivers[d], path, 8 * PG, true), -errs[i]);
			io.refuse_open = 0;
		}
	}
	CHECK_EQ(file_bytes(path), 3 * PG);
	CHECK_EQ(try_open("file", path, 0, false), 0);
}

int
main(int argc, char **argv)
{
	static const struct weft_test_case cases[] = {
	        {"dirty pages of the range, and nothing else", test_exact},
	        {"visibility alone", test_visible},
	        {"a write fails", test_write_fails},
	        {"a sync fails", test_sync_fails},
	        {"a read fails", test_read_fails},
	        {"io_uring is forbidden", test_forbidden},
	        {"io_uring takes a part", test_refused_midway},
	        {"io_uring does a part", test_short},
	        {"io_uring cannot be waited for", test_wait_fails},
	        {"options", test_options},
	        {"a file that may not be written", test_read_only},
	};

	find_direct();
	return test_main(argc, argv, cases, RTE_DIM(cases));
}
