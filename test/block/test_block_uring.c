/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The block driver "uring": what it opens and refuses, and files that are cut, replaced,
 * taken by another opener or full.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "block_test.h"
#include "medium_test.h"
#include "weft_base.h"
#include "weft_test.h"

#define BYTES (1U << 20)

static struct weft_block_attr
attr_of(const char *path, uint64_t bytes, bool create)
{
	return (struct weft_block_attr){.size = sizeof(struct weft_block_attr),
	                                .driver = "uring",
	                                .path = path,
	                                .bytes = bytes,
	                                .create = create};
}

/** Open and close. The reason of a refusal is in `reason`. */
static char reason[160];

static int
try_attr(struct weft_block_attr a)
{
	struct weft_block *b;
	int r;

	a.reason = reason;
	a.reason_bytes = sizeof(reason);
	r = weft_block_open(&a, &b);
	if (r == 0)
		CHECK_EQ(weft_block_close(b), 0);
	return r;
}

static int
try_bytes(const char *path, uint64_t bytes, bool create)
{
	return try_attr(attr_of(path, bytes, create));
}

static void
test_open(void)
{
	const char *path = scratch_path("open");
	struct weft_block_attr a = attr_of(path, 0, false);
	struct disk d;
	int fd;

	CHECK_EQ(try_bytes(NULL, BYTES, true), -EINVAL);
	CHECK_EQ(try_bytes("", BYTES, true), -EINVAL);
	CHECK_EQ(try_bytes(path, BYTES, false), -ENOENT);
	CHECK(strstr(reason, path) != NULL);
	CHECK_EQ(try_bytes(path, 0, true), -EINVAL);
	CHECK(strstr(reason, "length") != NULL);
	CHECK_EQ(try_bytes(scratch_path("no/such"), BYTES, true), -ENOENT);
	CHECK_EQ(try_bytes("/tmp", BYTES, true), -EISDIR);
	CHECK_EQ(try_bytes("/dev/null", BYTES, true), -ENOTSUP);
	CHECK_EQ(mkfifo(scratch_path("fifo"), 0600), 0);
	CHECK(try_bytes(scratch_path("fifo"), BYTES, true) < 0); /* and it does not wait */
	/* one that fails leaves nothing */
	CHECK_EQ(try_bytes(path, BYTES + 100, true), -EINVAL);
	CHECK_EQ(file_bytes(path), UINT64_MAX);
	/* it is made, sparse; it is extended; it is not cut */
	CHECK_EQ(try_bytes(path, BYTES, true), 0);
	CHECK_EQ(file_bytes(path), BYTES);
	CHECK_EQ(try_bytes(path, 2 * BYTES, false), -EINVAL);
	CHECK_EQ(try_bytes(path, 2 * BYTES, true), 0);
	CHECK_EQ(file_bytes(path), 2 * BYTES);
	CHECK_EQ(try_bytes(path, BYTES, true), 0);
	CHECK_EQ(file_bytes(path), 2 * BYTES);
	CHECK_EQ(try_bytes(path, 3 * BYTES + 1, true), -EINVAL);
	CHECK_EQ(file_bytes(path), 2 * BYTES);
	a.options = "io=fast";
	CHECK_EQ(try_attr(a), -EINVAL);
	CHECK_STR(reason, "option io: auto, uring or threads");
	a.options = "block=1024";
	CHECK_EQ(try_attr(a), -EINVAL);
	CHECK_STR(reason, "option block: 512 or 4096");
	/* larger blocks than the disk's are not written as a whole by it */
	a.options = "block=4096";
	disk_open(&d, &a, 4);
	CHECK(d.info.block_bytes == 4096 && d.info.atomic_bytes == 512);
	CHECK(d.info.mem_align_bytes >= 4096); /* each segment is of whole blocks */
	disk_close(&d);
	/* a second opener, of this process or by another lock */
	a.options = NULL;
	disk_open(&d, &a, 4);
	CHECK_EQ(d.bytes, 2 * BYTES);
	CHECK_EQ(try_attr(a), -EBUSY);
	CHECK(strstr(reason, "in use") != NULL);
	disk_close(&d);
	fd = open(path, O_RDWR);
	CHECK(fd >= 0 && flock(fd, LOCK_EX) == 0);
	CHECK_EQ(try_attr(a), -EBUSY);
	a.bytes = 4 * BYTES;
	a.create = true;
	CHECK_EQ(try_attr(a), -EBUSY); /* and it is not extended */
	CHECK_EQ(file_bytes(path), 2 * BYTES);
	close(fd);
	/* read-only: two at once, no writes, no extension */
	a = attr_of(path, 0, true);
	a.read_only = true;
	disk_open(&d, &a, 4);
	CHECK_EQ(try_attr(a), 0);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, 0, disk_memory(4096), 4096), -EROFS);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, 0, disk_memory(4096), 4096), 0);
	disk_close(&d);
	a.bytes = 4 * BYTES;
	CHECK_EQ(try_attr(a), -EINVAL);
	CHECK_EQ(file_bytes(path), 2 * BYTES);
}

/** A file that is cut: what was behind the cut fails, and the device is offline for good. */
static void
test_cut(void)
{
	const char *path = scratch_path("cut");
	struct weft_block_attr a = attr_of(path, BYTES, true);
	uint8_t *w = disk_memory(65536);
	struct disk d;

	for (unsigned int how = 0; how < 3; how++) {
		unlink(path);
		disk_open(&d, &a, 4);
		memset(w, 7, 65536);
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, WEFT_BLOCK_FUA, BYTES - 65536, w, 65536), 0);
		CHECK_EQ(weft_block_check(d.b), 0);
		CHECK_EQ(truncate(path, BYTES / 2), 0);
		if (how == 0) /* a read finds it */
			CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, BYTES - 65536, w, 65536), -EIO);
		else if (how == 1) /* a flush finds it */
			CHECK_EQ(disk_io(&d, WEFT_BLOCK_FLUSH, 0, 0, NULL, 0), -EIO);
		else
			CHECK_EQ(weft_block_check(d.b), -EIO);
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, 0, w, 4096), -ENODEV);
		/* that it is long again does not bring it back */
		CHECK_EQ(truncate(path, BYTES), 0);
		CHECK_EQ(weft_block_check(d.b), -EIO);
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, 0, w, 4096), -ENODEV);
		disk_close(&d);
	}
}

/** A file whose name belongs to another: offline, and back when the name is. */
static void
test_replaced(void)
{
	const char *path = scratch_path("here"), *away = scratch_path("away");
	struct weft_block_attr a = attr_of(path, BYTES, true);
	uint8_t *w = disk_memory(4096);
	struct disk d;

	disk_open(&d, &a, 4);
	CHECK_EQ(rename(path, away), 0);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, WEFT_BLOCK_FUA, 0, w, 4096), -ENOENT);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, 0, w, 4096), -ENODEV);
	put_file(path, BYTES, 1);
	CHECK_EQ(weft_block_check(d.b), -ENOENT);
	CHECK_EQ(rename(away, path), 0);
	CHECK_EQ(weft_block_check(d.b), 0);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, WEFT_BLOCK_FUA, 0, w, 4096), 0);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_FLUSH, 0, 0, NULL, 0), -ENOENT);
	CHECK_EQ(weft_block_check(d.b), -ENOENT);
	disk_close(&d);
}

/** Octets that direct I/O moves are in no page cache. */
static void
test_page_cache(void)
{
	enum { LEN = 16 << 20, PAGES = LEN / 4096 };
	static uint8_t in[PAGES];
	const char *path = scratch_path("uncached");
	struct weft_block_attr a = attr_of(path, LEN, true);
	uint8_t *w = disk_memory(1U << 20);
	unsigned int cached = 0;
	struct disk d;
	void *map;
	int fd;

	disk_open(&d, &a, 8);
	fill(w, 1U << 20, 0, 1);
	for (uint64_t off = 0; off < LEN; off += 1U << 20) {
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, off, w, 1U << 20), 0);
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, off, w, 1U << 20), 0);
	}
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_FLUSH, 0, 0, NULL, 0), 0);
	fd = open(path, O_RDONLY);
	CHECK(fd >= 0);
	map = mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(map != MAP_FAILED);
	CHECK_EQ(mincore(map, LEN, in), 0);
	for (unsigned int i = 0; i < PAGES; i++)
		cached += in[i] & 1;
	munmap(map, LEN);
	close(fd);
	disk_close(&d);
	test_note("%u of %u pages in the page cache", cached, (unsigned int)PAGES);
	CHECK_EQ(cached, 0);
}

/** In a mount namespace of its own: a file system that has no room. Exit status 0: as it should be.
 */
static int
full_child(void)
{
	struct weft_block_attr a = attr_of("/mnt/disk", 4U << 20, true);
	uint8_t *w = disk_memory(1U << 20);
	unsigned int refused = 0;
	struct disk d;
	int r = 0;

	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("weft", "/mnt", "tmpfs", 0, "size=1m") != 0)
		return 77;
	if (try_attr(a) == -ENOTSUP)
		return 77;
	disk_open(&d, &a, 4);
	for (uint64_t off = 0; off < 4U << 20; off += 1U << 18) {
		r = disk_io(&d, WEFT_BLOCK_WRITE, 0, off, w, 1U << 18);
		refused += r == -ENOSPC && weft_block_class_of(r) == WEFT_BLOCK_SPACE;
		if (r != 0 && r != -ENOSPC)
			return 1;
	}
	/* what was written before is there, and space that is freed can be used */
	if (refused == 0 || disk_io(&d, WEFT_BLOCK_READ, 0, 0, w, 1U << 18) != 0)
		return 2;
	if (disk_io(&d, WEFT_BLOCK_DISCARD, 0, 0, NULL, 1U << 19) != 0 ||
	    disk_io(&d, WEFT_BLOCK_WRITE, 0, 3U << 20, w, 1U << 18) != 0)
		return 3;
	if (weft_block_check(d.b) != 0)
		return 4;
	disk_close(&d);
	return 0;
}

static void
test_full(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(full_child());
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		test_skip("no mount of a small tmpfs with direct I/O here");
	CHECK_EQ(WEXITSTATUS(status), 0);
}

/** A killed opener's lock is free once its requests have ended: then the file can be opened. */
static void
test_killed(void)
{
	const char *path = scratch_path("killed");
	struct weft_block_attr a = attr_of(path, BYTES, true);
	uint64_t end = test_now_us() + TEST_WAIT_US;
	int up[2], r;
	char c;
	pid_t pid;

	CHECK_EQ(pipe(up), 0);
	pid = fork();
	if (pid == 0) {
		struct disk d;

		disk_open(&d, &a, 4);
		if (write(up[1], "x", 1) != 1)
			_exit(1);
		for (uint64_t n = 0;; n++)
			(void)disk_io(&d, WEFT_BLOCK_WRITE, 0, (n % 16) * 65536, disk_memory(65536),
			              65536);
	}
	CHECK_EQ(read(up[0], &c, 1), 1);
	CHECK_EQ(try_attr(a), -EBUSY);
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	while ((r = try_attr(a)) == -EBUSY && test_now_us() < end)
		usleep(1000);
	CHECK_EQ(r, 0);
	close(up[0]);
	close(up[1]);
}

/** A block device that grows or shrinks says so. */
static void
test_resize(void)
{
	const char *path = scratch_path("backing");
	struct weft_block_attr a;
	struct weft_block_state state;
	uint8_t *w = disk_memory(4096);
	char dev[32];
	struct disk d;
	int fd, ro = 1, for_writing, for_reading;

	put_file(path, BYTES, 0);
	fd = loop_make(path, dev);
	if (fd < 0)
		test_skip("loop devices are not permitted here");
	a = attr_of(dev, 0, false);
	disk_open(&d, &a, 4);
	CHECK_EQ(d.bytes, BYTES);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, BYTES, w, 4096), -EINVAL);
	CHECK_EQ(truncate(path, 2 * BYTES), 0);
	CHECK_EQ(loop_resize(fd), 0);
	CHECK_EQ(weft_block_check(d.b), 0);
	weft_block_query_state(d.b, &state);
	CHECK_EQ(state.bytes, 2 * BYTES);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, BYTES, w, 4096), 0);
	CHECK_EQ(truncate(path, BYTES / 2), 0);
	CHECK_EQ(loop_resize(fd), 0);
	CHECK_EQ(weft_block_check(d.b), 0);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, BYTES, w, 4096), -EINVAL);
	disk_close(&d);
	/* what is smaller than its logical block is refused */
	CHECK_EQ(loop_block(fd, 4096), 0);
	a.options = "block=512";
	CHECK_EQ(try_attr(a), -EINVAL);
	CHECK(strstr(reason, "only of 4096") != NULL);
	CHECK_EQ(loop_block(fd, 512), 0);
	a.options = NULL;
	/* opened with a length, it has lost what was promised */
	a.bytes = BYTES / 2;
	disk_open(&d, &a, 4);
	CHECK_EQ(truncate(path, BYTES / 4), 0);
	CHECK_EQ(loop_resize(fd), 0);
	CHECK_EQ(weft_block_check(d.b), -EIO);
	disk_close(&d);
	/* it takes an open for writing, and refuses the writes */
	a.bytes = 0;
	CHECK_EQ(ioctl(fd, BLKROSET, &ro), 0);
	for_writing = try_attr(a);
	a.read_only = true;
	for_reading = try_attr(a);
	/* the flag outlives the loop device's file, so it goes before anything is checked */
	ro = 0;
	CHECK_EQ(ioctl(fd, BLKROSET, &ro), 0);
	CHECK_EQ(for_writing, -EROFS);
	CHECK_EQ(for_reading, 0);
	close(fd);
}

/** A file that was copied there a moment ago: its first page is in the cache, not written back. */
static void
test_dirty(void)
{
	const char *path = scratch_path("dirty");
	uint8_t *data = malloc(BYTES);
	struct statfs fs;
	int fd;

	CHECK(data != NULL);
	memset(data, 7, BYTES);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	CHECK_EQ(fstatfs(fd, &fs), 0);
	if (fs.f_type == TMPFS_MAGIC) {
		close(fd);
		free(data);
		test_skip("tmpfs writes nothing back");
	}
	for (unsigned int len = 4096; len <= BYTES; len *= 16) {
		CHECK_EQ(ftruncate(fd, 0), 0);
		CHECK_EQ(ftruncate(fd, BYTES), 0);
		CHECK_EQ(pwrite(fd, data, len, 0), len);
		CHECK_MSG(try_bytes(path, 0, false) == 0, "%u octets: %s", len, reason);
		/* in the middle of a file that is clean */
		CHECK_EQ(fdatasync(fd), 0);
		CHECK_EQ(pwrite(fd, data, 100, 50), 100);
		CHECK_MSG(try_bytes(path, 0, false) == 0, "%u octets, again: %s", len, reason);
	}
	close(fd);
	free(data);
}

WEFT_TEST_MAIN({"what it opens, and what it refuses with the reason", test_open},
               {"a file that is not written back yet opens at once", test_dirty},
               {"a file that is cut goes offline for good", test_cut},
               {"a file that is replaced goes offline and comes back", test_replaced},
               {"the page cache does not grow", test_page_cache},
               {"a full file system refuses writes and nothing else", test_full},
               {"a killed opener's file can be opened when its requests have ended", test_killed},
               {"a block device that is resized says so", test_resize})
