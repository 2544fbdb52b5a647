/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The calls that open a medium: which descriptor is used for read-backs, whether the name of a new
 * file is made durable, where the memory is mapped. This program has its own open, fsync,
 * posix_fallocate and mmap.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_common.h>

#include "medium_test.h"
#include "weft_medium_file.h"
#include "weft_test.h"

#define PG   4096
#define HUGE (2u << 20)

/* ---- The calls ---- */

enum direct { DIRECT_AS_IS, DIRECT_REFUSED, DIRECT_BY_CACHE };

static struct {
	enum direct direct;
	const char *instead; /* the name leads here after its first open */
	unsigned int opens;
	int read_only; /* -errno of an open for reading only */
} hook;

int
open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	if (flags & O_CREAT) {
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		va_end(ap);
	}
	if (flags & O_DIRECT) {
		if (hook.direct == DIRECT_REFUSED) {
			errno = EINVAL;
			return -1;
		}
		if (hook.direct == DIRECT_BY_CACHE) /* accepted without effect */
			flags &= ~O_DIRECT;
	}
	if (hook.read_only != 0 && (flags & (O_ACCMODE | O_DIRECTORY)) == O_RDONLY) {
		errno = -hook.read_only;
		return -1;
	}
	if (hook.instead != NULL && hook.opens++ > 0)
		path = hook.instead;
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static struct {
	dev_t dev;
	ino_t ino;
	unsigned int n; /* syncs of this folder */
} watched;

int
fsync(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && st.st_dev == watched.dev && st.st_ino == watched.ino)
		watched.n++;
	return (int)syscall(SYS_fsync, fd);
}

static unsigned int signals; /* delivered while blocks are allocated */

int
posix_fallocate(int fd, off_t off, off_t len)
{
	if (signals > 0) {
		signals--;
		return EINTR;
	}
	return syscall(SYS_fallocate, fd, 0, off, len) == 0 ? 0 : errno;
}

static uint8_t *map_at; /* address of the next mapping of 2 MiB or more; NULL: any */

void *
mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	if (map_at != NULL && addr == NULL && len >= HUGE) {
		addr = map_at;
		map_at = NULL;
	}
	return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, off);
}

/* ---- Descriptors ---- */

static bool
same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

static int
open_medium(const char *path, struct weft_medium *md)
{
	const struct weft_persist_attr a = {
	        .size = sizeof(a), .driver = "file", .path = path, .numa_node = -1};

	return weft_medium_open(&a, md);
}

/**
 * Without O_DIRECT the file is read back by a descriptor of its own. So a wait for it does not
 * consume a write error that belongs to the flushing descriptor.
 */
static void
test_buffered(void)
{
	const char *path = scratch_path("f");
	struct weft_medium md;

	put_file(path, 3 * PG, 'b');
	CHECK_EQ(open_medium(path, &md), 0);
	if (md.tmpfs)
		test_skip("the scratch folder is memory: there is nothing else to read back");
	weft_medium_close(&md);
	for (unsigned int how = DIRECT_REFUSED; how <= DIRECT_BY_CACHE; how++) {
		memset(&hook, 0, sizeof(hook));
		hook.direct = how;
		CHECK_EQ(open_medium(path, &md), 0);
		CHECK_EQ(md.direct_fd, -1);
		CHECK_MSG(md.read_fd >= 0 && md.read_fd != md.fd && same_file(md.read_fd, md.fd),
		          "direct %u", how);
		weft_medium_close(&md);
	}
	memset(&hook, 0, sizeof(hook));
}

/** Another file takes over the name between two opens. The driver notices and refuses it. */
static void
test_exchanged(void)
{
	const char *path = scratch_path("one"), *other = scratch_path("two");
	struct weft_medium md;

	put_file(path, 3 * PG, '1');
	put_file(other, 3 * PG, '2');
	CHECK_EQ(open_medium(path, &md), 0);
	if (md.tmpfs)
		test_skip("the scratch folder is memory: a name is opened once there");
	weft_medium_close(&md);
	for (unsigned int row = 0; row < 3; row++) {
		memset(&hook, 0, sizeof(hook));
		hook.direct = row == 0 ? DIRECT_AS_IS : DIRECT_REFUSED;
		if (row < 2)
			hook.instead = other;
		else
			hook.read_only = -EACCES;
		CHECK_MSG(open_medium(path, &md) == -EIO, "row %u", row);
		CHECK(md.fd == -1 && md.read_fd == -1 && md.direct_fd == -1);
	}
	memset(&hook, 0, sizeof(hook));
	CHECK_EQ(file_bytes(path), 3 * PG);
	CHECK_EQ(open_medium(path, &md), 0); /* the lock was released */
	weft_medium_close(&md);
}

/* ---- Names ---- */

/** Open a file, which is created unless `there`. Returns how often the folder was synced. */
static unsigned int
syncs_of(const char *folder, const char *path, bool there)
{
	struct stat st;

	CHECK_EQ(stat(folder, &st), 0);
	watched.dev = st.st_dev;
	watched.ino = st.st_ino;
	watched.n = 0;
	CHECK_EQ(try_open("file", path, 3 * PG, !there), 0);
	return watched.n;
}

/** Runs in a child with another root directory. */
static int
in_root(const char *dir)
{
	if (chroot(dir) != 0 || chdir("/") != 0)
		return 77;
	return syncs_of("/", "/top", false) > 0 ? 0 : 1;
}

/** A file is lost if its name is lost, so its folder is synced, however the path names it. */
static void
test_name(void)
{
	const char *dir = scratch(NULL);
	char back[4096], path[256];
	pid_t pid;
	int st;

	snprintf(path, sizeof(path), "%s/made", dir);
	CHECK(syncs_of(dir, path, false) > 0);
	CHECK_EQ(syncs_of(dir, path, true), 0);
	CHECK(getcwd(back, sizeof(back)) != NULL);
	CHECK_EQ(chdir(dir), 0);
	CHECK(syncs_of(dir, "bare", false) > 0);
	CHECK_EQ(chdir(back), 0);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		_exit(in_root(dir));
	CHECK_EQ(waitpid(pid, &st, 0), pid);
	if (WIFEXITED(st) && WEXITSTATUS(st) == 77)
		test_note("needs root: a file right below /");
	else
		CHECK_EQ(st, 0);
}

/** A signal that arrives while the blocks of a new file are allocated causes no error. */
static void
test_signal(void)
{
	const char *path = scratch_path("interrupted");
	struct stat st;

	signals = 2;
	CHECK_EQ(try_open("file", path, 5 * PG, true), 0);
	CHECK_EQ(signals, 0);
	CHECK_EQ(stat(path, &st), 0);
	CHECK(st.st_size == 5 * PG && st.st_blocks * 512 >= 5 * PG);
}

/* ---- Memory ---- */

static bool
mapped(const uint8_t *page)
{
	unsigned char in;

	return mincore((void *)(uintptr_t)page, PG, &in) == 0;
}

/**
 * Memory of 2 MiB or more begins at a multiple of 2 MiB, wherever the system maps it, so that it
 * can use huge pages. Mappings made to reach that address are removed.
 */
static void
test_huge(void)
{
	static const uint64_t bytes[] = {HUGE, HUGE + 1, 2 * HUGE - PG, 3 * HUGE};
	static const uint64_t off[] = {0, PG, HUGE / 2, HUGE - PG};

	for (unsigned int i = 0; i < RTE_DIM(bytes) * RTE_DIM(off); i++) {
		const uint64_t len = bytes[i / RTE_DIM(off)], room = 8 * (uint64_t)HUGE;
		uint8_t *free_at, *mem;
		int node;

		free_at = (uint8_t *)syscall(SYS_mmap, NULL, room, PROT_NONE,
		                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		CHECK(free_at != MAP_FAILED);
		CHECK_EQ(munmap(free_at, room), 0);
		free_at = RTE_PTR_ALIGN_CEIL(free_at, HUGE);
		map_at = free_at + off[i % RTE_DIM(off)];
		CHECK_EQ(weft_numa_alloc(len, -1, &mem, &node), 0);
		CHECK(map_at == NULL);
		CHECK_MSG((uintptr_t)mem % HUGE == 0, "%p", (void *)mem);
		CHECK_EQ(mem[0] + mem[len - 1], 0);
		CHECK(mapped(mem) && mapped(mem + RTE_ALIGN_CEIL(len, HUGE) - PG));
		if (mem == free_at || mem == free_at + HUGE)
			CHECK(!mapped(mem - PG) && !mapped(mem + RTE_ALIGN_CEIL(len, HUGE)));
		weft_numa_free(mem, len);
		CHECK(!mapped(mem) && !mapped(mem + RTE_ALIGN_CEIL(len, HUGE) - PG));
	}
}

WEFT_TEST_MAIN({"buffered", test_buffered}, {"exchanged", test_exchanged}, {"name", test_name},
               {"signal", test_signal}, {"huge", test_huge})
