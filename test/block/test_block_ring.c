/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The block driver "uring" and a kernel that does less than it is asked for: transfers that
 * are short, interrupted or refused for now, errors, no io_uring. The linker puts functions of this
 * file in the place of the system's.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include <liburing.h>
#include <rte_log.h>

#include "block_test.h"
#include "medium_test.h"
#include "weft_base.h"
#include "weft_test.h"

#define BYTES (1U << 20)
#define LEN   65536U

/* ---- The kernel's place ---- */

static struct draw dr = {7};
static int forbidden; /**< what io_uring_queue_init() returns, if not 0 */
/** chance in 100 of a result that is changed, and of a call that does less */
static unsigned int spoil;
static int error; /**< a result that is changed is this error; 0: a short transfer or again */
static unsigned int spoiled;        /**< results and calls changed so far */
static int sync_error;              /**< what the next fdatasync() ends with, if not 0 */
static unsigned int rings, threads; /**< made so far */

int __real_io_uring_queue_init(unsigned int entries, struct io_uring *ring, unsigned int flags);
int __wrap_io_uring_queue_init(unsigned int entries, struct io_uring *ring, unsigned int flags);
int __real_io_uring_queue_init_params(unsigned int entries, struct io_uring *ring,
                                      struct io_uring_params *p);
int __wrap_io_uring_queue_init_params(unsigned int entries, struct io_uring *ring,
                                      struct io_uring_params *p);
int __real_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);
int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);
ssize_t __real_preadv64(int fd, const struct iovec *iov, int n, off_t off);
ssize_t __wrap_preadv64(int fd, const struct iovec *iov, int n, off_t off);
ssize_t __real_pwritev64v2(int fd, const struct iovec *iov, int n, off_t off, int flags);
ssize_t __wrap_pwritev64v2(int fd, const struct iovec *iov, int n, off_t off, int flags);
static bool no_punch; /**< the file system has no holes */

int __real_fallocate64(int fd, int mode, off_t off, off_t len);
int __wrap_fallocate64(int fd, int mode, off_t off, off_t len);
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);

int
__wrap_io_uring_queue_init(unsigned int entries, struct io_uring *ring, unsigned int flags)
{
	return forbidden != 0 ? forbidden : __real_io_uring_queue_init(entries, ring, flags);
}

int
__wrap_io_uring_queue_init_params(unsigned int entries, struct io_uring *ring,
                                  struct io_uring_params *p)
{
	rings++;
	return __real_io_uring_queue_init_params(entries, ring, p);
}

int
__wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	threads++;
	return __real_pthread_create(t, attr, fn, arg);
}

/** Wait for what was submitted, and change some of the results. */
int
__wrap_io_uring_submit(struct io_uring *ring)
{
	unsigned int want = io_uring_sq_ready(ring) + io_uring_cq_ready(ring), head;
	int r = __real_io_uring_submit(ring);
	struct io_uring_cqe *cqe;

	while (spoil > 0 && io_uring_cq_ready(ring) < want)
		usleep(10);
	io_uring_for_each_cqe(ring, head, cqe)
	{
		if (draw(&dr, 100) >= spoil || cqe->res <= 0)
			continue;
		spoiled++;
		if (error != 0)
			cqe->res = error;
		else if (draw(&dr, 3) == 0)
			cqe->res = draw(&dr, 2) == 0 ? -EAGAIN : -EINTR;
		else /* short, perhaps inside a block */
			cqe->res = (int)draw(&dr, (uint64_t)cqe->res);
	}
	return r;
}

/** How many segments to do now. -1 with errno: none. */
static int
fewer(const struct iovec *iov, int n, struct iovec *one)
{
	if (draw(&dr, 100) >= spoil)
		return n;
	spoiled++;
	errno = error != 0 ? -error : EINTR;
	if (error != 0 || draw(&dr, 4) == 0)
		return -1;
	*one = iov[0];
	if (one->iov_len > 4096 && draw(&dr, 2) == 0)
		one->iov_len = 4096;
	return 0;
}

ssize_t
__wrap_preadv64(int fd, const struct iovec *iov, int n, off_t off)
{
	struct iovec one;
	int k = fewer(iov, n, &one);

	return k < 0 ? -1 : __real_preadv64(fd, k == 0 ? &one : iov, k == 0 ? 1 : k, off);
}

ssize_t
__wrap_pwritev64v2(int fd, const struct iovec *iov, int n, off_t off, int flags)
{
	struct iovec one;
	int k = fewer(iov, n, &one);

	return k < 0 ? -1 : __real_pwritev64v2(fd, k == 0 ? &one : iov, k == 0 ? 1 : k, off, flags);
}

int
__wrap_fdatasync(int fd)
{
	if (sync_error != 0) {
		errno = -sync_error;
		sync_error = 0;
		return -1;
	}
	return __real_fdatasync(fd);
}

int
__wrap_fallocate64(int fd, int mode, off_t off, off_t len)
{
	if (no_punch && (mode & FALLOC_FL_PUNCH_HOLE) != 0) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return __real_fallocate64(fd, mode, off, len);
}

/* ---- Cases ---- */

static void
open_file(struct disk *d, const char *options)
{
	struct weft_block_attr a = {.driver = "uring",
	                            .path = scratch_path("ring"),
	                            .options = options,
	                            .bytes = BYTES,
	                            .create = true};

	spoil = 0;
	error = 0;
	spoiled = 0;
	unlink(a.path);
	disk_open(d, &a, 16);
}

static void
short_transfers(const char *options)
{
	uint8_t *w = disk_memory(LEN), *r = disk_memory(LEN);
	struct iovec iov[4];
	struct weft_block_req req = {.iov = iov, .iovs = 4, .len_bytes = LEN};
	struct disk d;

	open_file(&d, options);
	spoil = 60;
	for (unsigned int n = 0; n < 60; n++) {
		uint64_t off = draw(&dr, BYTES / 4096 - LEN / 4096) * 4096;

		fill(w, LEN, off, n);
		memset(r, 0, LEN);
		for (unsigned int i = 0; i < 4; i++)
			iov[i] = (struct iovec){w + i * (LEN / 4), LEN / 4};
		req.op = WEFT_BLOCK_WRITE;
		req.flags = n % 3 == 0 ? WEFT_BLOCK_FUA : 0;
		req.off_bytes = off;
		CHECK_EQ(disk_do(&d, &req), 0);
		CHECK_EQ(req.done_bytes, LEN);
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, off, r, LEN), 0);
		CHECK_MEM(r, w, LEN);
	}
	spoil = 0;
	disk_close(&d);
	CHECK_MSG(spoiled > 20, "only %u transfers were spoiled", spoiled);
}

static void
test_short_ring(void)
{
	short_transfers("io=uring");
}

static void
test_short_threads(void)
{
	short_transfers("io=threads");
}

static void
test_errors(void)
{
	static const char *const how[] = {"io=uring", "io=threads"};
	uint8_t *w = disk_memory(4096);
	struct weft_block_state state;
	struct disk d;

	for (unsigned int i = 0; i < 2; i++) {
		open_file(&d, how[i]);
		spoil = 100;
		error = -EIO;
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, 0, w, 4096), -EIO);
		error = -ETIMEDOUT; /* as a disk's */
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, 0, w, 4096), -EIO);
		error = -ENOSPC;
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, WEFT_BLOCK_FUA, 0, w, 4096), -ENOSPC);
		error = -EBADMSG;
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, 0, w, 4096), -EBADMSG);
		spoil = 0;
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, 0, w, 4096), 0);
		weft_block_query_state(d.b, &state);
		CHECK(state.status == 0 && state.lost_flushes == 1); /* by FUA */
		/* the system reports a failed sync once; who flushes next learns that it was lost
		 */
		sync_error = -EIO;
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_FLUSH, 0, 0, NULL, 0), -EIO);
		weft_block_query_state(d.b, &state);
		CHECK(state.status == 0 && state.lost_flushes == 2);
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_FLUSH, 0, 0, NULL, 0), 0);
		disk_close(&d);
	}
}

/** A file system that punches no holes: no discard is claimed or answered, zeroes are written. */
static void
test_no_punch(void)
{
	const uint32_t both = WEFT_BLOCK_CAN_DISCARD | WEFT_BLOCK_CAN_DISCARD_ZEROES;
	uint8_t *w = disk_memory(LEN), *r = disk_memory(LEN);
	struct disk d;

	for (unsigned int late = 0; late < 2; late++) {
		no_punch = late == 0;
		open_file(&d, NULL);
		CHECK_EQ(d.info.can & both, late == 0 ? 0 : both);
		no_punch = true; /* or from now on, as on another server */
		fill(w, LEN, 0, 1);
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, 0, w, LEN), 0);
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_DISCARD, 0, 0, NULL, LEN), -EOPNOTSUPP);
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, 0, r, LEN), 0);
		CHECK_MEM(r, w, LEN);
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_ZEROES, 0, 0, NULL, LEN), 0);
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, 0, r, LEN), 0);
		CHECK(r[0] == 0 && memcmp(r, r + 1, LEN - 1) == 0);
		disk_close(&d);
		no_punch = false;
	}
}

/** Where io_uring is forbidden, helper threads serve. It is said once. */
static void
test_forbidden(void)
{
	char reason[128];
	struct weft_block_attr a = {.size = sizeof(a),
	                            .driver = "uring",
	                            .path = scratch_path("ring"),
	                            .options = "io=uring",
	                            .bytes = BYTES,
	                            .create = true,
	                            .reason = reason,
	                            .reason_bytes = sizeof(reason)};
	uint8_t *w = disk_memory(4096);
	struct weft_block *b;
	struct disk d;
	size_t len;
	char *log, *first;
	FILE *f = open_memstream(&log, &len);

	CHECK(f != NULL);
	forbidden = -EPERM;
	CHECK_EQ(weft_block_open(&a, &b), -ENOTSUP);
	CHECK_STR(reason, "io_uring cannot be used: Operation not permitted");
	CHECK_EQ(rte_openlog_stream(f), 0);
	for (unsigned int i = 0; i < 2; i++) {
		open_file(&d, NULL);
		CHECK(strstr(d.info.mechanism, "helper threads") != NULL);
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, 0, w, 4096), 0);
		disk_close(&d);
	}
	rte_openlog_stream(NULL);
	fclose(f);
	forbidden = 0;
	first = strstr(log, "io_uring cannot be used");
	CHECK_MSG(first != NULL && strstr(first + 1, "io_uring cannot be used") == NULL, "%s", log);
	free(log);
}

/** A start and an end make some of these for each volume. */
static void
test_wait(void)
{
	static uint8_t mem[LEN] __attribute__((aligned(4096)));
	struct iovec iov = {mem, LEN};
	struct weft_block_extent found[2];
	struct weft_block_req req = {
	        .op = WEFT_BLOCK_WRITE, .len_bytes = LEN, .iov = &iov, .iovs = 1};
	struct disk d;

	for (unsigned int io = 0; io < 2; io++) {
		unsigned int had_rings, had_threads;

		open_file(&d, io == 0 ? NULL : "io=threads");
		had_rings = rings;
		had_threads = threads;
		req.op = WEFT_BLOCK_WRITE;
		memset(mem, (int)(7 + io), LEN);
		CHECK_EQ(weft_block_wait(d.b, &req), 0);
		req.op = WEFT_BLOCK_READ;
		memset(mem, 0, LEN);
		CHECK_EQ(weft_block_wait(d.b, &req), 0);
		CHECK_EQ(req.done_bytes, LEN);
		CHECK_EQ(mem[LEN - 1], 7 + io);
		req = (struct weft_block_req){.op = WEFT_BLOCK_FLUSH};
		CHECK_EQ(weft_block_wait(d.b, &req), 0);
		sync_error = -EIO;
		CHECK_EQ(weft_block_wait(d.b, &req), -EIO);
		req = (struct weft_block_req){.op = WEFT_BLOCK_ZEROES, .len_bytes = LEN};
		CHECK_EQ(weft_block_wait(d.b, &req), 0);
		req = (struct weft_block_req){.op = WEFT_BLOCK_EXTENTS,
		                              .len_bytes = BYTES,
		                              .extents = found,
		                              .max_extents = 2};
		CHECK_EQ(weft_block_wait(d.b, &req), 0);
		CHECK(req.extents_found > 0);
		CHECK_EQ(rings, had_rings);
		CHECK_EQ(threads, had_threads);
		req = (struct weft_block_req){.len_bytes = LEN, .iov = &iov, .iovs = 1};
		disk_close(&d);
	}
}

WEFT_TEST_MAIN({"short and interrupted transfers by the ring are completed", test_short_ring},
               {"short and interrupted transfers by threads are completed", test_short_threads},
               {"an error ends its request alone, and one of a sync is told", test_errors},
               {"a file system without holes claims no discard", test_no_punch},
               {"helper threads serve where io_uring is forbidden", test_forbidden},
               {"a request with a wait makes no ring and no thread", test_wait})
