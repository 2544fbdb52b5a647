/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Calls of libc that librdmacm and programs make, with this library in front. */

/* Else the compiler defines open64() and fstat64() where this file says open() and fstat(). */
#undef _FILE_OFFSET_BITS

#include "libc.h"

#include "api.h"
#include "engine.h"
#include "ifaddr.h"
#include "ucm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#define LIBC_CM_DEVICE "/dev/infiniband/rdma_cm"

static inline const struct wv_libc *
libc_next(void)
{
	if (__builtin_expect(wv_libc.freeifaddrs == NULL, 0))
		wv_libc_init();
	return &wv_libc;
}

/* ---- Connection management's device ---- */

static bool
libc_is_cm(const char *path)
{
	return path != NULL && path[0] == '/' && strcmp(path, LIBC_CM_DEVICE) == 0;
}

/** A child of vfork() would note its descriptor in its parent's memory. */
static int
libc_open_cm(void)
{
	if (!wv_engine_foreign())
		return wv_ucm_open();
	errno = EPERM;
	return -1;
}

static mode_t
libc_mode(int flags, va_list ap)
{
	return (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(ap, mode_t) : 0;
}

WV_API int
open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	if (libc_is_cm(path))
		return libc_open_cm();
	va_start(ap, flags);
	mode = libc_mode(flags, ap);
	va_end(ap);
	return libc_next()->open(path, flags, mode);
}

WV_API int
open64(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	if (libc_is_cm(path))
		return libc_open_cm();
	va_start(ap, flags);
	mode = libc_mode(flags, ap);
	va_end(ap);
	return libc_next()->open64(path, flags, mode);
}

/** The number is about to be closed, or to be another file's. */
static void
libc_will_close(int fd)
{
	const int saved = errno;

	if (!wv_ucm_is(fd))
		return;
	/* In a child the ids are the parent's, and so is the memory if it called vfork(). */
	if (!wv_engine_foreign())
		(void)wv_ucm_close(fd);
	else if (wv_engine_orphan())
		wv_ucm_forget(fd);
	errno = saved;
}

WV_API int
close(int fd)
{
	if (wv_ucm_is(fd) && !wv_engine_foreign())
		return wv_ucm_close(fd);
	libc_will_close(fd);
	return libc_next()->close(fd);
}

WV_API int
dup2(int from, int to)
{
	/* What fails, or does nothing, closes nothing. */
	if (from != to && wv_ucm_is(to) && fcntl(from, F_GETFD) >= 0)
		libc_will_close(to);
	return libc_next()->dup2(from, to);
}

WV_API int
dup3(int from, int to, int flags)
{
	if (from != to && (flags & ~O_CLOEXEC) == 0 && wv_ucm_is(to) && fcntl(from, F_GETFD) >= 0)
		libc_will_close(to);
	return libc_next()->dup3(from, to, flags);
}

static void
libc_will_close_range(unsigned int first, unsigned int last)
{
	for (unsigned int fd = first; fd <= last && fd < WV_UCM_FDS; fd++)
		libc_will_close((int)fd);
}

WV_API int
close_range(unsigned int first, unsigned int last, int flags)
{
	if ((flags & ~CLOSE_RANGE_UNSHARE) == 0)
		libc_will_close_range(first, last);
	return libc_next()->close_range(first, last, flags);
}

WV_API void
closefrom(int first)
{
	libc_will_close_range(first > 0 ? (unsigned int)first : 0, WV_UCM_FDS);
	libc_next()->closefrom(first);
}

WV_API ssize_t
write(int fd, const void *buf, size_t n)
{
	ssize_t rc;

	if (wv_ucm_is(fd)) {
		if (!wv_engine_foreign())
			return wv_ucm_write(fd, buf, n);
		errno = EPERM;
		return -1;
	}
	rc = libc_next()->write(fd, buf, n);
	/*
	 * librdmacm, on a channel that another thread has closed before it called exit(). A program
	 * would call exit() a second time, and the end of its connections would be cut off.
	 */
	if (__builtin_expect(rc < 0 && errno == EBADF, 0)) {
		wv_engine_hold();
		errno = EBADF;
	}
	return rc;
}

WV_API int
fstat(int fd, struct stat *st)
{
	struct stat real;
	int rc;

	if (!wv_ucm_is(fd))
		return libc_next()->fstat(fd, st);
	/* librdmacm compares the device with the one that the kernel tells, if there is one. */
	rc = libc_next()->fstat(fd, st);
	if (rc == 0) {
		st->st_mode = (st->st_mode & ~(mode_t)S_IFMT) | S_IFCHR;
		st->st_rdev = stat(LIBC_CM_DEVICE, &real) == 0 ? real.st_rdev : makedev(10, 0);
	}
	return rc;
}

/* ---- Calls in which a program sleeps ---- */

WV_API int
poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	if (timeout_ms != 0)
		wv_will_block();
	else
		wv_progress();
	return libc_next()->poll(fds, n, timeout_ms);
}

/* What poll() is called by programs that are compiled with -D_FORTIFY_SOURCE. */
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t bytes);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask,
                size_t bytes);

WV_API int
__poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t bytes)
{
	if (n > bytes / sizeof(*fds))
		abort();
	return poll(fds, n, timeout_ms);
}

WV_API int
__ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask,
            size_t bytes)
{
	if (n > bytes / sizeof(*fds))
		abort();
	return ppoll(fds, n, timeout, mask);
}

WV_API int
ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	wv_will_block();
	return libc_next()->ppoll(fds, n, timeout, mask);
}

WV_API int
select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout)
{
	wv_will_block();
	return libc_next()->select(n, r, w, e, timeout);
}

WV_API int
pselect(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *timeout,
        const sigset_t *mask)
{
	wv_will_block();
	return libc_next()->pselect(n, r, w, e, timeout, mask);
}

WV_API int
epoll_wait(int fd, struct epoll_event *ev, int n, int timeout_ms)
{
	if (timeout_ms != 0)
		wv_will_block();
	else
		wv_progress();
	return libc_next()->epoll_wait(fd, ev, n, timeout_ms);
}

WV_API int
epoll_pwait(int fd, struct epoll_event *ev, int n, int timeout_ms, const sigset_t *mask)
{
	if (timeout_ms != 0)
		wv_will_block();
	else
		wv_progress();
	return libc_next()->epoll_pwait(fd, ev, n, timeout_ms, mask);
}

/* ---- The interface that the kernel does not have ---- */

WV_API int
getifaddrs(struct ifaddrs **out)
{
	int rc = libc_next()->getifaddrs(out);

	if (rc == 0)
		wv_ifaddr_add(out);
	return rc;
}

WV_API void
freeifaddrs(struct ifaddrs *list)
{
	libc_next()->freeifaddrs(wv_ifaddr_remove(list));
}
