/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file For LD_PRELOAD into weft-target. It writes a line "CALL BEGUN ENDED OFFSET LENGTH PATH"
 * (nanoseconds of CLOCK_MONOTONIC; "-" instead of a missing path) to the file WEFT_IO_TRACE for
 * every call to a medium, and delays the calls that wait for a medium by WEFT_IO_DELAY_US. With
 * WEFT_IO_NO_ZEROS the medium answers that it has made zeros or holes, and does nothing.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <libpmem.h>
#include <liburing.h>

static int out = -1;
static unsigned int delay_us;

static void __attribute__((constructor)) trace_open(void)
{
	const char *path = getenv("WEFT_IO_TRACE"), *delay = getenv("WEFT_IO_DELAY_US");

	if (path != NULL)
		out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (delay != NULL)
		delay_us = (unsigned int)atoi(delay);
}

static uint64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static void
line(const char *call, uint64_t begun, uint64_t off, uint64_t len, int fd)
{
	char buf[512], path[256] = "-", link[64];
	int saved = errno, n;

	if (fd >= 0) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = (int)readlink(link, path, sizeof(path) - 1);
		path[n > 0 ? n : 0] = '\0';
	}
	n = snprintf(buf, sizeof(buf), "%s %llu %llu %llu %llu %s\n", call,
	             (unsigned long long)begun, (unsigned long long)now_ns(),
	             (unsigned long long)off, (unsigned long long)len, path);
	if (out >= 0 && write(out, buf, (size_t)n) != n)
		abort();
	errno = saved;
}

static void *
behind(const char *name)
{
	void *f = dlsym(RTLD_NEXT, name);

	if (f == NULL)
		abort();
	return f;
}

ssize_t
pwrite(int fd, const void *buf, size_t len, off_t off)
{
	uint64_t begun = now_ns();
	ssize_t n = syscall(SYS_pwrite64, fd, buf, len, off);

	line(n < 0 ? "failed" : "write", begun, (uint64_t)off, n < 0 ? 0 : (uint64_t)n, fd);
	return n;
}

/* Built with 64 bits in off_t, this is fallocate64(). */
int
fallocate(int fd, int mode, off_t off, off_t len)
{
	uint64_t begun = now_ns();
	int r = 0;

	if (!(mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) ||
	    getenv("WEFT_IO_NO_ZEROS") == NULL)
		r = (int)syscall(SYS_fallocate, fd, mode, off, len);
	line(r < 0 ? "failed" : "fallocate", begun, (uint64_t)off, (uint64_t)len, fd);
	return r;
}

int
fdatasync(int fd)
{
	uint64_t begun = now_ns();
	int r;

	usleep(delay_us);
	r = (int)syscall(SYS_fdatasync, fd);
	line(r < 0 ? "failed" : "sync", begun, 0, 0, fd);
	return r;
}

int
msync(void *addr, size_t len, int flags)
{
	uint64_t begun = now_ns();
	int r;

	usleep(delay_us);
	r = (int)syscall(SYS_msync, addr, len, flags);
	line(r < 0 ? "failed" : "msync", begun, (uintptr_t)addr, len, -1);
	return r;
}

/* Not delayed: this runs on the polling thread, and a delay would stop the stack. */
void
pmem_persist(const void *addr, size_t len)
{
	void (*f)(const void *, size_t) = behind("pmem_persist");
	uint64_t begun = now_ns();

	f(addr, len);
	line("persist", begun, (uintptr_t)addr, len, -1);
}

int
io_uring_submit_and_wait(struct io_uring *ring, unsigned int wait_nr)
{
	int (*f)(struct io_uring *, unsigned int) = behind("io_uring_submit_and_wait");
	unsigned int first = ring->sq.sqe_head, last = ring->sq.sqe_tail, done = 0, head;
	uint64_t begun = now_ns();
	struct io_uring_cqe *cqe;
	int r = f(ring, wait_nr);

	io_uring_for_each_cqe(ring, head, cqe)
	{
		done += cqe->res > 0;
	}
	for (unsigned int i = first; i != last; i++) {
		const struct io_uring_sqe *sqe = &ring->sq.sqes[i & ring->sq.ring_mask];

		line(done == last - first ? "uring" : "failed", begun, sqe->off, sqe->len, sqe->fd);
	}
	return r;
}
