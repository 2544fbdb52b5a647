/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The file driver: what is durable and what is not, sizes, locks, read-back, errors. */

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/loop.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include <rte_common.h>

#include "medium_test.h"
#include "weft_test.h"

#define PG 4096

static const uint32_t P = WEFT_FLUSH_PERSISTENT;

/** Flushed pages are in the file. Pages that were written and not flushed are not, before the close
 * and after. */
static void
durable_on(const char *path)
{
	static uint8_t a[3 * PG], b[PG], got[3 * PG], zero[PG];
	struct weft_exec *e;
	struct weft_persist *p;

	unlink(path);
	memset(a, 'a', sizeof(a));
	memset(b, 'b', sizeof(b));
	CHECK_EQ(weft_exec_create(1, &e), 0);
	p = must_open("file", path, 64 * PG, true);
	CHECK_EQ(p->bytes, 64 * PG);
	CHECK_EQ(file_bytes(path), 64 * PG);
	CHECK_MEM(p->base, zero, PG);

	put_mem(p, 2 * PG + 10, a, 2 * PG); /* pages 2 to 4 */
	put_mem(p, 9 * PG, b, PG);
	put_mem(p, 63 * PG, b, PG);
	CHECK_EQ(get_file(path, got, PG, 2 * PG), 0);
	CHECK_MEM(got, zero, PG); /* nothing is written before the flush */
	CHECK_EQ(flush(p, e, 2 * PG + 10, 2 * PG, P), 0);
	CHECK_EQ(p->dirty[2] + p->dirty[3] + p->dirty[4], 0);
	CHECK_EQ(p->dirty[9] + p->dirty[63], 2);
	CHECK_EQ(get_file(path, got, 3 * PG, 2 * PG), 0);
	CHECK_MEM(got, p->base + 2 * PG, 3 * PG);
	CHECK_EQ(get_file(path, got, PG, 9 * PG), 0);
	CHECK_MEM(got, zero, PG);
	/* A flush for visibility only writes nothing, nor does a flush of clean pages. */
	CHECK_EQ(flush(p, e, 9 * PG, PG, WEFT_FLUSH_VISIBLE), 0);
	CHECK_EQ(flush(p, e, 9 * PG, 0, P), 0);
	CHECK_EQ(flush(p, e, 10 * PG, PG, P), 0);
	CHECK_EQ(p->dirty[9], 1);
	weft_persist_close(p);

	p = must_open("file", path, 0, false); /* with the size of the file */
	CHECK_EQ(p->bytes, 64 * PG);
	CHECK_MEM(p->base + 2 * PG + 10, a, 2 * PG);
	CHECK_MEM(p->base + 9 * PG, zero, PG);
	CHECK_MEM(p->base + 63 * PG, zero, PG);
	for (unsigned int i = 0; i < 64; i++)
		CHECK_EQ(p->dirty[i], 0);
	/* The whole range at once, last page included. */
	put_mem(p, 9 * PG, b, PG);
	put_mem(p, 63 * PG + 1, b, PG - 1);
	CHECK_EQ(weft_persist_flush_wait(p, 0, p->bytes), 0);
	CHECK_EQ(p->dirty[9] + p->dirty[63], 0);
	weft_persist_close(p);
	CHECK_EQ(get_file(path, got, PG, 9 * PG), 0);
	CHECK_MEM(got, b, PG);
	CHECK_EQ(get_file(path, got, PG - 1, 63 * PG + 1), 0);
	CHECK_MEM(got, b, PG - 1);
	weft_exec_destroy(e);
}

/** Whether O_DIRECT has an effect on this file. */
static bool
direct_works(const char *path)
{
	int fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	struct statfs fs;
	void *page;
	ssize_t n;

	if (fd < 0)
		return false;
	CHECK_EQ(posix_memalign(&page, PG, PG), 0);
	CHECK_EQ(fstatfs(fd, &fs), 0);
	n = pread(fd, page, PG, 0);
	free(page);
	close(fd);
	return n == PG && fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC;
}

static void
test_durable(void)
{
	const char *path = scratch_path("durable");
	struct weft_persist *p;

	durable_on(path);
	p = must_open("file", path, 0, false);
	test_note("%s: %s", path, p->mechanism);
	if (direct_works(path))
		CHECK_MSG(strcmp(p->mechanism, "direct I/O by io_uring to an ordinary file") == 0 ||
		                  strcmp(p->mechanism,
		                         "direct I/O by pwrite to an ordinary file") == 0,
		          "%s", p->mechanism);
	else
		CHECK(strncmp(p->mechanism, "buffered I/O and fdatasync to an ordinary file", 46) ==
		      0);
	weft_persist_close(p);
}

/** /dev/shm refuses O_DIRECT, or accepts it without effect. The driver uses its other method and
 * reports it. */
static void
test_buffered(void)
{
	static uint8_t got[8192], want[8192];
	struct weft_persist *p;
	struct weft_exec *e;
	char path[256];

	if (access("/dev/shm", W_OK) != 0)
		test_skip("/dev/shm is not writable");
	snprintf(path, sizeof(path), "%s/f", scratch("/dev/shm"));
	durable_on(path);
	p = must_open("file", path, 0, false);
	CHECK_MSG(strncmp(p->mechanism, "buffered I/O and fdatasync to an ordinary file", 46) == 0,
	          "%s", p->mechanism);
	CHECK_EQ(weft_exec_create(1, &e), 0);
	CHECK_EQ(read_back(p, e, 2 * PG + 3, 8000, got), 0);
	memcpy(want, p->base + 2 * PG + 3, 8000);
	CHECK_MEM(got, want, 8000);
	weft_exec_destroy(e);
	weft_persist_close(p);
}

/** Runs in a child, so without CHECK: the driver flushes by pwrite and reports it. Returns the exit
 * code. */
static int
forbidden_child(const char *path)
{
	struct weft_persist_attr a = {
	        .size = sizeof(a), .driver = "file:uring", .path = path, .numa_node = -1};
	struct weft_persist *p;
	uint8_t got[PG];

	if (weft_persist_open(&a, &p) != -ENOTSUP)
		return 1;
	a.driver = "file";
	if (weft_persist_open(&a, &p) != 0 ||
	    strcmp(p->mechanism, "direct I/O by pwrite to an ordinary file") != 0)
		return 2;
	for (unsigned int pg = 0; pg < 8; pg += 2) {
		memset(p->base + pg * PG, 'a' + (int)pg, PG);
		weft_persist_mark(p, pg * PG, PG);
	}
	if (weft_persist_flush_wait(p, 0, p->bytes) != 0)
		return 3;
	for (unsigned int pg = 0; pg < 8; pg++)
		if (get_file(path, got, PG, pg * PG) != 0 || got[7] != (pg % 2 ? 0 : 'a' + pg))
			return 4;
	weft_persist_close(p);
	return 0;
}

/** In a container that forbids io_uring, as most do. */
static void
test_forbidden(void)
{
	static const int errs[] = {EPERM, ENOSYS};
	const char *path = scratch_path("forbidden");

	put_file(path, 8 * PG, 0);
	if (!direct_works(path))
		test_skip("no O_DIRECT in the scratch folder");
	for (unsigned int i = 0; i < RTE_DIM(errs); i++, put_file(path, 8 * PG, 0)) {
		struct sock_filter code[] = {
		        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned int)errs[i]),
		        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		};
		struct sock_fprog prog = {.len = RTE_DIM(code), .filter = code};
		pid_t pid = fork();
		int st;

		if (pid == 0) {
			if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
			    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) != 0)
				_exit(77);
			_exit(forbidden_child(path));
		}
		CHECK(pid > 0);
		CHECK_EQ(waitpid(pid, &st, 0), pid);
		if (WIFEXITED(st) && WEXITSTATUS(st) == 77)
			test_skip("no seccomp here");
		CHECK_EQ(st, 0);
	}
}

/** The device node is on a tmpfs, the device is not: direct I/O writes and reads it. */
static void
test_block_device(void)
{
	static uint8_t mine[PG], theirs[PG], got[PG];
	const char *file = scratch_path("loop");
	struct weft_persist *p;
	struct weft_exec *e;
	char dev[32];
	int fd;

	put_file(file, 64 * PG, 0);
	fd = loop_make(file, dev);
	if (fd < 0)
		test_skip("no loop device here");
	p = must_open("file", dev, 0, false);
	close(fd);
	CHECK_EQ(p->bytes, 64 * PG);
	CHECK_MSG(strncmp(p->mechanism, "direct I/O by ", 14) == 0 &&
	                  strstr(p->mechanism, "to a block device") != NULL &&
	                  strstr(p->mechanism, "memory") == NULL,
	          "%s", p->mechanism);
	CHECK_EQ(weft_exec_create(1, &e), 0);
	memset(mine, 'm', PG);
	memset(theirs, 't', PG);
	for (unsigned int pg = 1; pg < 20; pg += 3)
		put_mem(p, pg * PG, mine, PG);
	CHECK_EQ(flush(p, e, 0, p->bytes, P), 0);
	CHECK_EQ(read_back(p, e, 7 * PG, PG, got), 0);
	CHECK_MEM(got, mine, PG);
	CHECK_EQ(get_file(file, got, PG, 19 * PG), 0);
	CHECK_MEM(got, mine, PG);
	poke_file(file, theirs, PG, 7 * PG); /* changes the medium, past the device's cache */
	CHECK_EQ(read_back(p, e, 7 * PG, PG, got), 0);
	CHECK_MEM(got, theirs, PG);
	CHECK_EQ(try_open("file", dev, 65 * PG, true), -EBUSY);
	weft_exec_destroy(e);
	weft_persist_close(p);
}

/** kill -9 between two flushes: the first content is in the file, the second is not. */
static void
test_killed(void)
{
	const char *path = scratch_path("killed");
	uint8_t got[2 * PG], one[2 * PG], two[2 * PG];
	pid_t pid;
	int st;

	memset(one, 1, sizeof(one));
	memset(two, 2, sizeof(two));
	pid = fork();
	if (pid == 0) {
		struct weft_persist_attr a = {.size = sizeof(a),
		                              .driver = "file",
		                              .path = path,
		                              .bytes = 16 * PG,
		                              .create = true,
		                              .numa_node = -1};
		struct weft_persist *p;

		if (weft_persist_open(&a, &p) != 0)
			_exit(1);
		put_mem(p, PG, one, sizeof(one));
		if (weft_persist_flush_wait(p, PG, sizeof(one)) != 0)
			_exit(2);
		put_mem(p, PG, two, sizeof(two));
		raise(SIGKILL);
	}
	CHECK(pid > 0);
	CHECK_EQ(waitpid(pid, &st, 0), pid);
	CHECK(WIFSIGNALED(st));
	CHECK_EQ(get_file(path, got, sizeof(got), PG), 0);
	CHECK_MEM(got, one, sizeof(one));
	CHECK_EQ(try_open("file", path, 0, false), 0); /* the lock ended with its holder */
}

static void
test_read_back(void)
{
	static uint8_t mine[PG], theirs[3 * PG], got[1 << 20];
	const char *path = scratch_path("readback");
	struct weft_persist *p;
	struct weft_exec *e;
	uint32_t max;

	for (unsigned int i = 0; i < sizeof(theirs); i++)
		theirs[i] = (uint8_t)(i * 7 >> 2);
	memset(mine, 'm', sizeof(mine));
	CHECK_EQ(weft_exec_create(1, &e), 0);
	p = must_open("file", path, 4 << 20, true);
	max = p->ops->read_back_max_bytes;
	CHECK(max <= sizeof(got));
	/* The read-back is from the medium and not from memory: other content was written there. */
	put_mem(p, 5 * PG, mine, PG);
	poke_file(path, theirs, sizeof(theirs), 4 * PG);
	for (unsigned int off = 0; off < 40; off += 13) {
		CHECK_EQ(read_back(p, e, 4 * PG + off, 2 * PG + 77, got), 0);
		CHECK_MEM(got, theirs + off, 2 * PG + 77);
	}
	CHECK_EQ(read_back(p, e, 5 * PG + PG - 1, 2, got), 0);
	CHECK_MEM(got, theirs + 2 * PG - 1, 2);
	/* After the flush the medium has the driver's content. */
	CHECK_EQ(flush(p, e, 5 * PG, PG, P), 0);
	CHECK_EQ(read_back(p, e, 5 * PG, PG, got), 0);
	CHECK_MEM(got, mine, PG);
	/* The longest, misaligned ones, and at the very end. */
	for (uint64_t i = 0; i < p->bytes; i += 8)
		memcpy(p->base + i, &i, 8);
	weft_persist_mark(p, 0, p->bytes);
	CHECK_EQ(flush(p, e, 0, p->bytes, P), 0);
	CHECK_EQ(read_back(p, e, PG - 1, max, got), 0);
	CHECK_MEM(got, p->base + PG - 1, max);
	CHECK_EQ(read_back(p, e, p->bytes - max, max, got), 0);
	CHECK_MEM(got, p->base + p->bytes - max, max);
	CHECK_EQ(read_back(p, e, p->bytes - 1, 1, got), 0);
	/* Ranges outside the medium are refused. */
	CHECK_EQ(read_back(p, e, 0, (uint64_t)max + 1, got), -EINVAL);
	CHECK_EQ(read_back(p, e, p->bytes, 1, got), -EINVAL);
	CHECK_EQ(read_back(p, e, UINT64_MAX, 2, got), -EINVAL);
	CHECK_EQ(flush(p, e, p->bytes - 1, 2, P), -EINVAL);
	CHECK_EQ(flush(p, e, UINT64_MAX, 2, P), -EINVAL);
	weft_exec_destroy(e);
	weft_persist_close(p);
}

static void
count_done(struct weft_persist_req *req)
{
	++*(unsigned int *)req->owner;
}

/** More read-backs than buffers: -EAGAIN, and success again after a release. */
static void
test_pool(void)
{
	enum { MANY = 64 };
	static struct weft_persist_req req[MANY];
	const char *path = scratch_path("pool");
	struct weft_persist *p = must_open("file", path, 64 * PG, true);
	unsigned int n, done = 0;
	struct weft_exec *e;
	int r = 0;

	CHECK_EQ(weft_exec_create(0, &e), 0);
	for (unsigned int round = 0; round < 3; round++) {
		done = 0;
		for (n = 0; n < MANY; n++) {
			req[n] = (struct weft_persist_req){.off_bytes = n * PG,
			                                   .len_bytes = PG,
			                                   .done = count_done,
			                                   .owner = &done};
			r = p->ops->read_back(p, e, &req[n]);
			if (r != 0)
				break;
		}
		CHECK_EQ(r, -EAGAIN);
		CHECK(n >= 2 && n < MANY);
		while (weft_exec_pending(e) > 0)
			weft_exec_poll(e);
		CHECK_EQ(done, n);
		for (unsigned int i = 0; i < n; i++) {
			CHECK_EQ(req[i].status, 0);
			p->ops->release(p, &req[i]);
			CHECK(req[i].data == NULL);
		}
	}
	weft_exec_destroy(e);
	weft_persist_close(p);
}

/** Two workers flush overlapping ranges while one writes: at the end everything is on the
 * medium. */
static void
test_overlap(void)
{
	enum { PAGES = 64, ROUNDS = 60 };
	const char *path = scratch_path("overlap");
	struct weft_persist *p = must_open("file", path, PAGES * PG, true);
	struct weft_persist_req req[2];
	struct weft_exec *e[2];
	static uint8_t got[PAGES * PG];

	CHECK_EQ(weft_exec_create(1, &e[0]), 0);
	CHECK_EQ(weft_exec_create(1, &e[1]), 0);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		unsigned int done[2] = {0, 0};

		for (unsigned int pg = 0; pg < PAGES; pg += 3) {
			memset(p->base + pg * PG, (int)(i + pg), PG);
			weft_persist_mark(p, pg * PG, PG);
		}
		for (unsigned int k = 0; k < 2; k++) {
			req[k] = (struct weft_persist_req){.off_bytes = k * 8 * PG,
			                                   .len_bytes = (PAGES - 8) * PG,
			                                   .flags = P,
			                                   .done = count_done,
			                                   .owner = &done[k]};
			CHECK_EQ(p->ops->flush(p, e[k], &req[k]), 0);
		}
		/* A completed flush has its whole range on the medium, whichever completes
		 * first. */
		while (done[0] + done[1] < 2) {
			for (unsigned int k = 0; k < 2; k++) {
				if (weft_exec_poll(e[k]) == 0)
					continue;
				CHECK_EQ(req[k].status, 0);
				CHECK_EQ(get_file(path, got, req[k].len_bytes, req[k].off_bytes),
				         0);
				CHECK_MEM(got, p->base + req[k].off_bytes, req[k].len_bytes);
			}
		}
	}
	weft_exec_destroy(e[0]);
	weft_exec_destroy(e[1]);
	weft_persist_close(p);
}

/**
 * One flush has cleared a page's mark and is still writing. Another flush of that page must not
 * succeed before the page is durable.
 */
static void
test_cleared_not_written(void)
{
	enum { BYTES = 16 << 20 };
	const char *path = scratch_path("cleared");
	struct weft_persist *p = must_open("file", path, BYTES, true);
	struct weft_exec *e[2];
	uint8_t got[PG];

	CHECK_EQ(weft_exec_create(1, &e[0]), 0);
	CHECK_EQ(weft_exec_create(1, &e[1]), 0);
	for (unsigned int round = 0; round < 5; round++) {
		unsigned int done = 0;
		struct weft_persist_req req = {.off_bytes = 0,
		                               .len_bytes = BYTES,
		                               .flags = P,
		                               .done = count_done,
		                               .owner = &done};

		memset(p->base, (int)round + 1, BYTES);
		weft_persist_mark(p, 0, BYTES);
		CHECK_EQ(p->ops->flush(p, e[0], &req), 0);
		while (__atomic_load_n(&p->dirty[1000], __ATOMIC_ACQUIRE) != 0)
			sched_yield();
		CHECK_EQ(flush(p, e[1], 1000 * PG, PG, P), 0);
		CHECK_EQ(get_file(path, got, PG, 1000 * PG), 0);
		CHECK_MEM(got, p->base + 1000 * PG, PG);
		while (done == 0)
			weft_exec_poll(e[0]);
		CHECK_EQ(req.status, 0);
	}
	weft_exec_destroy(e[0]);
	weft_exec_destroy(e[1]);
	weft_persist_close(p);
}

static void
test_sizes(void)
{
	const char *path = scratch_path("sizes");
	static uint8_t buf[3 * PG], got[3 * PG];
	struct weft_persist *p;
	struct weft_exec *e;

	CHECK_EQ(try_open("file", path, PG, false), -ENOENT);
	CHECK_EQ(try_open("file", path, 0, true), -EINVAL);
	CHECK_EQ(file_bytes(path), UINT64_MAX); /* no partial file is left */
	CHECK_EQ(try_open("file", path, 2 * PG, true), 0);
	CHECK_EQ(file_bytes(path), 2 * PG);
	/* shorter, and must not be extended */
	CHECK_EQ(try_open("file", path, 3 * PG, false), -EINVAL);
	CHECK_EQ(file_bytes(path), 2 * PG);
	/* Extending keeps the content. Opening with a smaller size does not truncate. */
	poke_file(path, "hello", 5, PG);
	p = must_open("file", path, 4 * PG, true);
	CHECK_EQ(file_bytes(path), 4 * PG);
	CHECK_MEM(p->base + PG, "hello", 5);
	weft_persist_close(p);
	CHECK_EQ(try_open("file", path, PG, true), 0);
	CHECK_EQ(file_bytes(path), 4 * PG);
	/* Larger than the disk. */
	CHECK_EQ(try_open("file", path, 1ULL << 50, true), -ENOSPC);
	CHECK_EQ(file_bytes(path), 4 * PG);
	CHECK_EQ(try_open("file", path, UINT64_MAX, true), -EFBIG);
	CHECK_EQ(try_open("file", scratch_path("toobig"), 1ULL << 50, true), -ENOSPC);
	CHECK_EQ(file_bytes(scratch_path("toobig")), UINT64_MAX);
	CHECK_EQ(try_open("file", scratch_path("empty"), PG, true), 0);
	put_file(scratch_path("empty"), 0, 0);
	CHECK_EQ(try_open("file", scratch_path("empty"), 0, false), -EINVAL);

	/* Lengths that are not whole pages: neither the file nor the octets behind the range
	 * change. */
	put_file(path, 2 * PG + 100, 'o');
	CHECK_EQ(weft_exec_create(0, &e), 0);
	for (unsigned int part = 0; part < 2; part++) {
		uint64_t n = part ? PG + 50 : 2 * PG + 100; /* a part of the file; the whole file */

		memset(buf, 'n' + (int)part, sizeof(buf));
		p = must_open("file", path, part ? n : 0, false);
		CHECK_EQ(p->bytes, n);
		put_mem(p, 0, buf, n);
		CHECK_EQ(flush(p, e, 0, n, P), 0);
		CHECK_EQ(read_back(p, e, 1, n - 1, got), 0);
		CHECK_MEM(got, buf, n - 1);
		weft_persist_close(p);
		CHECK_EQ(file_bytes(path), 2 * PG + 100);
		CHECK_EQ(get_file(path, got, n, 0), 0);
		CHECK_MEM(got, buf, n);
	}
	CHECK_EQ(get_file(path, got, PG + 50, PG + 50), 0);
	for (unsigned int i = 0; i < PG + 50; i++)
		CHECK_EQ(got[i], 'n');
	weft_exec_destroy(e);
}

static void
test_sparse(void)
{
	const char *path = scratch_path("sparse");
	struct stat st;

	put_file(path, 1, 'x');
	CHECK_EQ(truncate(path, 256 * PG), 0);
	CHECK_EQ(try_open("file", path, 0, false), 0);
	CHECK_EQ(stat(path, &st), 0);
	CHECK_EQ(st.st_size, 256 * PG);
	CHECK(st.st_blocks * 512 >= 256 * PG); /* space is allocated before it is needed */
}

static void
test_lock(void)
{
	const char *path = scratch_path("lock");
	struct weft_persist *p = must_open("file", path, 4 * PG, true);
	pid_t pid;
	int st;

	CHECK_EQ(try_open("file", path, 0, false), -EBUSY);
	CHECK_EQ(try_open("file", path, 8 * PG, true), -EBUSY);
	CHECK_EQ(try_open("auto", path, 0, false), -EBUSY);
	CHECK_EQ(try_open("pmem", path, 0, false), -EBUSY);
	CHECK_EQ(file_bytes(path), 4 * PG);
	pid = fork();
	if (pid == 0) {
		struct weft_persist_attr a = {
		        .size = sizeof(a), .driver = "file", .path = path, .numa_node = -1};
		struct weft_persist *q;

		_exit(weft_persist_open(&a, &q) == -EBUSY ? 0 : 1);
	}
	CHECK_EQ(waitpid(pid, &st, 0), pid);
	CHECK_EQ(st, 0);
	weft_persist_close(p);
	CHECK_EQ(try_open("file", path, 0, false), 0);
}

static void
test_paths(void)
{
	const char *file = scratch_path("plain");
	char below[300];

	put_file(file, PG, 0);
	snprintf(below, sizeof(below), "%s/x", file);
	CHECK_EQ(try_open("file", NULL, PG, true), -EINVAL);
	CHECK_EQ(try_open("file", "", PG, true), -EINVAL);
	CHECK_EQ(try_open("file", below, PG, true), -ENOTDIR);
	CHECK_EQ(try_open("file", scratch_path("no/such/folder"), PG, true), -ENOENT);
	CHECK_EQ(try_open("file", scratch_path("."), PG, false), -EISDIR);
	CHECK_EQ(mkfifo(scratch_path("fifo"), 0600), 0);
	CHECK_EQ(try_open("file", scratch_path("fifo"), PG, true), -EINVAL);
	CHECK_EQ(try_open("file", "/dev/null", PG, false), -ENOTSUP);
	CHECK_EQ(chmod(file, 0400), 0);
	if (geteuid() != 0)
		CHECK_EQ(try_open("file", file, 0, false), -EACCES);
	CHECK_EQ(chmod(file, 0600), 0);
}

/** A medium that fails: unwritten pages stay dirty and are written when it works again. */
static void
test_failure(void)
{
	const char *path = scratch_path("failure");
	struct rlimit old, low = {8 * PG, RLIM_INFINITY};
	static uint8_t buf[16 * PG], got[16 * PG];
	struct weft_persist *p = must_open("file", path, 16 * PG, true);
	unsigned int dirty = 0;

	signal(SIGXFSZ, SIG_IGN);
	memset(buf, 'f', sizeof(buf));
	put_mem(p, 0, buf, sizeof(buf));
	CHECK_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
	low.rlim_max = old.rlim_max;
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
	int r = weft_persist_flush_wait(p, 0, p->bytes);
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
	CHECK(r < 0);
	for (unsigned int i = 0; i < 16; i++)
		dirty += p->dirty[i];
	CHECK_EQ(dirty, 16); /* pages written before the failure were not synced, either */
	CHECK_EQ(weft_persist_flush_wait(p, 0, p->bytes), 0);
	for (unsigned int i = 0; i < 16; i++)
		CHECK_EQ(p->dirty[i], 0);
	weft_persist_close(p);
	CHECK_EQ(get_file(path, got, sizeof(got), 0), 0);
	CHECK_MEM(got, buf, sizeof(buf));

	/* A file truncated by another process: a read-back beyond its end is an error and never
	 * returns old memory. */
	p = must_open("file", path, 0, false);
	CHECK_EQ(truncate(path, 4 * PG), 0);
	struct weft_exec *e;

	CHECK_EQ(weft_exec_create(0, &e), 0);
	CHECK_EQ(read_back(p, e, 8 * PG, PG, got), -EIO);
	CHECK_EQ(read_back(p, e, 4 * PG - 1, 2, got), -EIO);
	CHECK_EQ(read_back(p, e, 0, 4 * PG, got), 0);
	weft_exec_destroy(e);
	weft_persist_close(p);
}

static void
test_populated(void)
{
	struct weft_persist *p = must_open("file", scratch_path("populated"), 5 << 20, true);
	static unsigned char core[(5 << 20) / PG];

	CHECK_EQ(mincore(p->base, p->bytes, core), 0);
	for (unsigned int i = 0; i < sizeof(core); i++)
		CHECK_MSG(core[i] & 1, "page %u", i);
	CHECK_EQ((uintptr_t)p->base % PG, 0);
	weft_persist_close(p);
}

/** Without DAX, "auto" means "file". */
static void
test_auto(void)
{
	const char *path = scratch_path("auto");
	struct weft_persist *p = must_open("auto", path, 4 * PG, true);

	if (strcmp(p->ops->name, "file") != 0) {
		CHECK_STR(p->mechanism, "libpmem on DAX");
		weft_persist_close(p);
		test_skip("the scratch folder is on DAX");
	}
	weft_persist_close(p);
	CHECK_EQ(try_open("auto", scratch_path("nothere"), 0, false), -ENOENT);
	CHECK_EQ(try_open("auto", path, 8 * PG, false), -EINVAL);
}

WEFT_TEST_MAIN({"durable", test_durable}, {"buffered", test_buffered},
               {"forbidden", test_forbidden}, {"block_device", test_block_device},
               {"killed", test_killed}, {"read_back", test_read_back}, {"pool", test_pool},
               {"overlap", test_overlap}, {"cleared_not_written", test_cleared_not_written},
               {"sizes", test_sizes}, {"sparse", test_sparse}, {"lock", test_lock},
               {"paths", test_paths}, {"failure", test_failure}, {"populated", test_populated},
               {"auto", test_auto})
