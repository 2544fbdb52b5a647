/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Wrappers of the calls that use a persistent medium: they record each call, then execute
 * it. */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <liburing.h>
#include <libpmem.h>

#include "io_watch.h"
#include "weft_test.h"

struct io_watch io_watch = {.blind = -1};

static struct io_call *
begin(enum io_what what, int fd, uint64_t off, uint64_t len)
{
	static struct io_call hidden;
	struct io_call *c = &hidden;

	if ((int)what != io_watch.blind) {
		CHECK(io_watch.n < IO_CALLS);
		c = &io_watch.call[io_watch.n++];
	}
	*c = (struct io_call){.what = what,
	                      .off = off,
	                      .len = len,
	                      .direct = fd >= 0 && (fcntl(fd, F_GETFL) & __O_DIRECT) != 0,
	                      .begun = ++io_watch.clock};
	return c;
}

static int
io_call_end(struct io_call *c, int rc)
{
	c->rc = rc < 0 ? -errno : 0;
	c->ended = ++io_watch.clock;
	return rc;
}

/** Count a call of this kind. Returns whether it must fail. */
static bool
fails(enum io_what what)
{
	if (io_watch.fail[what] == 0 || --io_watch.fail[what] > 0)
		return false;
	errno = EIO;
	return true;
}

int
open(const char *path, int flags, ...)
{
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, int) : 0;
	va_end(ap);
	if (io_watch.no_direct && flags & __O_DIRECT) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t
pwrite(int fd, const void *buf, size_t len, off_t off)
{
	struct io_call *c = begin(IO_WRITE, fd, (uint64_t)off, len);
	ssize_t n = fails(IO_WRITE) ? -1 : syscall(SYS_pwrite64, fd, buf, len, off);

	if (n >= 0)
		c->len = (uint64_t)n;
	io_call_end(c, (int)n);
	return n;
}

ssize_t
pread(int fd, void *buf, size_t len, off_t off)
{
	struct io_call *c = begin(IO_READ, fd, (uint64_t)off, len);
	ssize_t n = fails(IO_READ) ? -1 : syscall(SYS_pread64, fd, buf, len, off);

	if (n > 0 && io_watch.flip_read) {
		((uint8_t *)buf)[n / 2] ^= 0x10;
		io_watch.flip_read = false;
	}
	io_call_end(c, (int)n);
	return n;
}

int
fdatasync(int fd)
{
	struct io_call *c = begin(IO_SYNC, fd, 0, 0);

	return io_call_end(c, fails(IO_SYNC) ? -1 : (int)syscall(SYS_fdatasync, fd));
}

int
msync(void *addr, size_t len, int flags)
{
	struct io_call *c = begin(IO_MSYNC, -1, (uint64_t)((uint8_t *)addr - io_watch.base), len);

	CHECK_EQ(flags, MS_SYNC);
	return io_call_end(c, fails(IO_MSYNC) ? -1 : (int)syscall(SYS_msync, addr, len, flags));
}

int
posix_fadvise(int fd, off_t off, off_t len, int advice)
{
	struct io_call *c = begin(IO_DROP, fd, (uint64_t)off, (uint64_t)len);

	CHECK_EQ(advice, POSIX_FADV_DONTNEED);
	return io_call_end(c, (int)syscall(SYS_fadvise64, fd, off, len, advice));
}

static void *
behind(const char *name)
{
	void *f = dlsym(RTLD_NEXT, name);

	CHECK_MSG(f != NULL, "%s", name);
	return f;
}

void
pmem_persist(const void *addr, size_t len)
{
	void (*f)(const void *, size_t) = behind("pmem_persist");
	struct io_call *c =
	        begin(IO_PERSIST, -1, (uint64_t)((const uint8_t *)addr - io_watch.base), len);

	f(addr, len);
	io_call_end(c, 0);
}

/** A write that must fail is submitted as a no-op request, and the result of its completion is
 * changed. */
int
io_uring_submit_and_wait(struct io_uring *ring, unsigned int wait_nr)
{
	int (*f)(struct io_uring *, unsigned int) = behind("io_uring_submit_and_wait");
	unsigned int first = io_watch.n, head;
	struct io_uring_cqe *cqe;
	uint64_t fail = UINT64_MAX;
	int r;

	for (unsigned int i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++) {
		struct io_uring_sqe *sqe = &ring->sq.sqes[i & ring->sq.ring_mask];

		CHECK_EQ(sqe->opcode, IORING_OP_WRITE);
		begin(IO_WRITE, sqe->fd, sqe->off, sqe->len)->uring = true;
		if (!fails(IO_WRITE))
			continue;
		fail = sqe->user_data;
		io_uring_prep_nop(sqe);
		sqe->user_data = fail;
		if (io_watch.blind != IO_WRITE)
			io_watch.call[io_watch.n - 1].rc = -EIO;
	}
	r = f(ring, wait_nr);
	io_uring_for_each_cqe(ring, head, cqe)
	{
		if (cqe->user_data == fail)
			cqe->res = -EIO;
	}
	CHECK_EQ(io_uring_cq_ready(ring), wait_nr);
	/* The driver numbers the requests of a batch from 0 in the order of submission. No write of
	 * the batch is short in these tests. */
	for (unsigned int i = first; i < io_watch.n; i++)
		io_watch.call[i].ended = ++io_watch.clock;
	return r;
}
