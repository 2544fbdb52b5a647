/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A file is changed under its driver: truncated, truncated and extended again, a hole is punched,
 * it is removed, renamed, or replaced by another file. With any driver and at any moment, no Flush
 * and no read-back of a missing part succeeds afterwards.
 */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "medium_test.h"
#include <weft/guard.h>
#include "weft_medium_file.h"
#include "weft_test.h"

#define PG    4096U
#define PAGES 64U
#define P     WEFT_FLUSH_PERSISTENT

static const char *const drivers[] = {"file", "file:pwrite", "pmem"};

enum what { CUT, CUT_LAST, CUT_ALL, CUT_AND_GROWN, HOLE, REMOVED, REPLACED, MOVED, SWAPPED, WHATS };

static const char *const what_names[] = {"cut",
                                         "cut by an octet",
                                         "cut to nothing",
                                         "cut and grown",
                                         "hole",
                                         "removed",
                                         "replaced",
                                         "moved",
                                         "moved, another in its place"};

static void
change(enum what what, const char *path)
{
	const char *other = scratch_path("other");
	int fd;

	switch (what) {
	case CUT:
		CHECK_EQ(truncate(path, PAGES / 2 * PG), 0);
		break;
	case CUT_LAST:
		CHECK_EQ(truncate(path, PAGES * PG - 1), 0);
		break;
	case CUT_ALL:
		CHECK_EQ(truncate(path, 0), 0);
		break;
	case CUT_AND_GROWN:
		CHECK_EQ(truncate(path, 0), 0);
		CHECK_EQ(truncate(path, PAGES * PG), 0);
		break;
	case HOLE:
		fd = open(path, O_RDWR);
		CHECK_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 3 * PG, PG), 0);
		close(fd);
		break;
	case REMOVED:
		CHECK_EQ(unlink(path), 0);
		break;
	case REPLACED:
		put_file(other, PAGES * PG, 0);
		CHECK_EQ(rename(other, path), 0);
		break;
	case SWAPPED:
		CHECK_EQ(rename(path, scratch_path("aside")), 0);
		put_file(path, PAGES * PG, 0);
		break;
	case MOVED:
		CHECK_EQ(rename(path, scratch_path("aside")), 0);
		break;
	case WHATS:
		break;
	}
}

/** One driver and one change. `dirty`: the next Flush has pages to write. */
static void
one(const char *driver, enum what what, bool dirty)
{
	const char *path = scratch_path("cut");
	const int want = what >= REMOVED ? -ENOENT : -EIO;
	static uint8_t page[PG];
	struct weft_persist *p;
	struct weft_exec *e;

	unlink(path);
	p = must_open(driver, path, PAGES * PG, true);
	CHECK_EQ(weft_exec_create(1, &e), 0);
	memset(page, 'a', sizeof(page));
	for (unsigned int i = 0; i < PAGES; i++)
		put_mem(p, i * PG, page, PG);
	CHECK_EQ(flush(p, e, 0, p->bytes, P), 0);
	CHECK_EQ(weft_persist_check(p), 0);
	if (dirty) {
		put_mem(p, PG, page, PG);
		put_mem(p, (PAGES - 1) * PG, page, PG);
	}
	change(what, path);
	/* A part that was flushed, a part that is dirty, and the whole: each may be affected. */
	for (unsigned int i = 0; i < 3; i++) {
		static const uint64_t off[] = {0, (PAGES - 1) * PG, 0};
		static const uint64_t len[] = {PG, PG, PAGES * PG};
		int r = flush(p, e, off[i], len[i], P);

		/* The part before the new end is unchanged. */
		CHECK_MSG(r < 0 || (i == 0 && what <= CUT_LAST),
		          "%s, %s, dirty %d: flush %u succeeds", driver, what_names[what], dirty,
		          i);
	}
	CHECK_MSG(read_back(p, e, (PAGES - 1) * PG, PG, page) < 0, "%s, %s: a read-back succeeds",
	          driver, what_names[what]);
	CHECK_EQ(weft_persist_check(p), want);
	/* The length is right again, but the content is lost. */
	if (what <= CUT_AND_GROWN) {
		CHECK_EQ(truncate(path, PAGES * PG), 0);
		CHECK_EQ(weft_persist_check(p), want);
		CHECK(flush(p, e, 0, PAGES * PG, P) < 0);
	}
	/* With its old name the file is the medium again, and no content was lost. */
	if (what >= MOVED) {
		CHECK_EQ(rename(scratch_path("aside"), path), 0);
		CHECK_EQ(weft_persist_check(p), 0);
		CHECK_EQ(flush(p, e, 0, PAGES * PG, P), 0);
		CHECK_EQ(read_back(p, e, (PAGES - 1) * PG, PG, page), 0);
	}
	/* A flush of no octets succeeds. */
	CHECK_EQ(flush(p, e, 0, 0, P), 0);
	weft_exec_destroy(e);
	weft_persist_close(p);
	unlink(path);
}

static void
test_changed(void)
{
	CHECK_EQ(weft_guard_install(), 0);
	for (unsigned int d = 0; d < sizeof(drivers) / sizeof(drivers[0]); d++)
		for (unsigned int w = 0; w < WHATS; w++) {
			one(drivers[d], (enum what)w, false);
			one(drivers[d], (enum what)w, true);
		}
	CHECK_EQ(weft_guard_remove(), 0);
}

/** Changes that do not matter: other names, the driver's own flushes, times and modes. */
static void
test_unchanged(void)
{
	for (unsigned int d = 0; d < sizeof(drivers) / sizeof(drivers[0]); d++) {
		const char *path = scratch_path("same"), *link_path = scratch_path("link");
		struct weft_persist *p = must_open(drivers[d], path, PAGES * PG, true);
		uint8_t page[PG] = {7};
		struct weft_exec *e;

		CHECK_EQ(weft_exec_create(1, &e), 0);
		CHECK_EQ(link(path, link_path), 0);
		CHECK_EQ(rename(path, scratch_path("moved")), 0);
		CHECK_EQ(rename(scratch_path("moved"), path), 0);
		CHECK_EQ(chmod(link_path, 0640), 0);
		put_mem(p, 5 * PG, page, PG);
		CHECK_EQ(flush(p, e, 0, p->bytes, P), 0);
		CHECK_EQ(truncate(link_path, (PAGES + 3) * PG), 0);
		CHECK_EQ(flush(p, e, 0, p->bytes, P), 0);
		CHECK_EQ(read_back(p, e, 5 * PG, PG, page), 0);
		CHECK_EQ(weft_persist_check(p), 0);
		/* From another working directory the driver finds the file by the same name. */
		CHECK_EQ(chdir("/"), 0);
		CHECK_EQ(flush(p, e, 0, p->bytes, P), 0);
		weft_exec_destroy(e);
		weft_persist_close(p);
		unlink(link_path);
		unlink(path);
	}
}

/* ---- The reservation ---- */

/** The file has a hole, and as many blocks elsewhere as the hole needs. The file system is full. */
static int
full_child(const char *dir)
{
	char path[256], filler[256];
	uint8_t page[PG] = {1};
	int fd;

	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("weft-test", dir, "tmpfs", 0, "size=512k") != 0)
		return 77;
	snprintf(path, sizeof(path), "%s/x", dir);
	snprintf(filler, sizeof(filler), "%s/y", dir);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	for (unsigned int i = 16; i < 48; i++)
		CHECK_EQ(pwrite(fd, page, PG, i * PG), PG);
	close(fd);
	fd = open(filler, O_RDWR | O_CREAT, 0600);
	while (write(fd, page, sizeof(page)) == (ssize_t)sizeof(page))
		;
	for (unsigned int d = 0; d < sizeof(drivers) / sizeof(drivers[0]); d++) {
		CHECK_EQ(try_open(drivers[d], path, 32 * PG, false), -ENOSPC);
		CHECK_EQ(try_open(drivers[d], path, 17 * PG, true), -ENOSPC);
	}
	/* With space for the hole it opens, and Flushes succeed even if the disk is full
	 * afterwards. */
	CHECK_EQ(ftruncate(fd, lseek(fd, 0, SEEK_END) - 17 * PG), 0);
	for (unsigned int d = 0; d < sizeof(drivers) / sizeof(drivers[0]); d++) {
		struct weft_persist *p = must_open(drivers[d], path, 32 * PG, false);

		lseek(fd, 0, SEEK_END);
		while (write(fd, page, sizeof(page)) == (ssize_t)sizeof(page))
			;
		CHECK_EQ(errno, ENOSPC);
		for (unsigned int i = 0; i < 32; i++)
			put_mem(p, i * PG, page, PG);
		CHECK_EQ(weft_persist_flush_wait(p, 0, p->bytes), 0);
		weft_persist_close(p);
	}
	close(fd);
	return 0;
}

static void
test_hole_on_full_disk(void)
{
	const char *dir = scratch_path("full");
	int status = -1;
	pid_t pid;

	CHECK_EQ(mkdir(dir, 0700), 0);
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		_exit(full_child(dir));
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	rmdir(dir);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		test_skip("needs root: a mount namespace and a tmpfs");
	CHECK_EQ(status, 0);
}

/** Every layout of holes in eight pages: when the file is open, each page of the medium has its
 * block. */
static void
test_every_layout(void)
{
	const char *path = scratch_path("layout");
	uint8_t page[PG] = {1};

	for (unsigned int map = 0; map < 256; map++) {
		struct weft_persist *p;
		int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

		for (unsigned int i = 0; i < 8; i++)
			if (map & (1U << i))
				CHECK_EQ(pwrite(fd, page, PG, i * PG), PG);
		CHECK_EQ(ftruncate(fd, 8 * PG), 0);
		p = must_open("file", path, 4 * PG, false);
		/* Writing in place: no page that was a hole may need a block now. */
		struct stat before, after;

		CHECK_EQ(fstat(fd, &before), 0);
		for (unsigned int i = 0; i < 4; i++)
			CHECK_EQ(pwrite(fd, page, PG, i * PG), PG);
		CHECK_EQ(fsync(fd), 0);
		CHECK_EQ(fstat(fd, &after), 0);
		/* The file system's extent tree may become smaller. */
		CHECK_MSG(after.st_blocks <= before.st_blocks, "map %#x: %ld blocks became %ld",
		          map, (long)before.st_blocks, (long)after.st_blocks);
		weft_persist_close(p);
		close(fd);
	}
	unlink(path);
}

/**
 * Between two checks the file is truncated to nothing and written in its second half. Its length
 * includes the first half, which is a hole.
 */
static void
test_cut_and_written(void)
{
	const char *path = scratch_path("cut");
	static uint8_t page[PG];

	for (unsigned int d = 0; d < sizeof(drivers) / sizeof(drivers[0]); d++) {
		struct weft_persist *p;
		struct weft_exec *e;
		int fd;

		unlink(path);
		p = must_open(drivers[d], path, PAGES * PG, true);
		CHECK_EQ(weft_exec_create(1, &e), 0);
		memset(page, 'a', sizeof(page));
		for (unsigned int i = 0; i < PAGES; i++)
			put_mem(p, i * PG, page, PG);
		CHECK_EQ(flush(p, e, 0, p->bytes, P), 0);
		CHECK_EQ(truncate(path, 0), 0);
		fd = open(path, O_RDWR);
		for (unsigned int i = PAGES / 4; i < PAGES / 2; i++)
			CHECK_EQ(pwrite(fd, page, PG, i * PG), PG);
		close(fd);
		CHECK_MSG(flush(p, e, 0, PAGES / 2 * PG, P) < 0, "%s: what is a hole is durable",
		          drivers[d]);
		CHECK_EQ(weft_persist_check(p), -EIO);
		weft_exec_destroy(e);
		weft_persist_close(p);
		unlink(path);
	}
}

int
main(int argc, char **argv)
{
	static const struct weft_test_case cases[] = {
	        {"changed", test_changed},
	        {"cut and written", test_cut_and_written},
	        {"unchanged", test_unchanged},
	        {"hole on a full disk", test_hole_on_full_disk},
	        {"every layout", test_every_layout},
	};

	scratch(NULL);
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
