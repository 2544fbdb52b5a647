/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_LIBC_H
#define WEFT_APPS_VERBS_LIBC_H

/**
 * @file The calls of libc that this library puts its own in front of: those by which librdmacm
 * talks to /dev/infiniband/rdma_cm, and those in which a program sleeps.
 */

#include <ifaddrs.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

/** The next definitions, libc's as a rule; another preloaded library's, if there is one. */
struct wv_libc {
	int (*open)(const char *path, int flags, ...);
	int (*open64)(const char *path, int flags, ...);
	int (*close)(int fd);
	int (*close_range)(unsigned int first, unsigned int last, int flags);
	void (*closefrom)(int first);
	int (*dup2)(int from, int to);
	int (*dup3)(int from, int to, int flags);
	ssize_t (*read)(int fd, void *buf, size_t n);
	ssize_t (*write)(int fd, const void *buf, size_t n);
	int (*fstat)(int fd, struct stat *st);
	int (*poll)(struct pollfd *fds, nfds_t n, int timeout_ms);
	int (*ppoll)(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
	             const sigset_t *mask);
	int (*select)(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout);
	int (*pselect)(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *timeout,
	               const sigset_t *mask);
	int (*epoll_wait)(int fd, struct epoll_event *ev, int n, int timeout_ms);
	int (*epoll_pwait)(int fd, struct epoll_event *ev, int n, int timeout_ms,
	                   const sigset_t *mask);
	int (*getifaddrs)(struct ifaddrs **out);
	void (*freeifaddrs)(struct ifaddrs *list);
};

/** Filled in by the first call of any of them, and by wv_libc_init(). */
extern struct wv_libc wv_libc;
void wv_libc_init(void);

#endif /* WEFT_APPS_VERBS_LIBC_H */
