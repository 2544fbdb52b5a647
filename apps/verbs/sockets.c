/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Calls of sockets programs that librdmacm's librspreload does not know: it takes over a
 * socket() of the plain type SOCK_STREAM only, accept() but not accept4(), and fcntl() but neither
 * fcntl64() nor ioctl(FIONBIO). Here they become the calls that it knows. Without librspreload all
 * are libc's, and so are the sockets of libweft and of DPDK's drivers with it.
 */

/* Else fcntl64() would be meant where this file says fcntl(). */
#undef _FILE_OFFSET_BITS

#include "api.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
	int (*socket)(int domain, int type, int protocol);
	int (*accept)(int fd, struct sockaddr *addr, socklen_t *len);
	int (*accept4)(int fd, struct sockaddr *addr, socklen_t *len, int flags);
	int (*fcntl64)(int fd, int cmd, ...);
	int (*ioctl)(int fd, unsigned long request, ...);
	bool rspreload; /**< the next socket() is librspreload's */
} next;

static void
sockets_once(void)
{
	Dl_info info;
	void *sym;

	/* A function pointer cannot be converted from void * in ISO C; POSIX asks for it. */
	sym = dlsym(RTLD_NEXT, "accept");
	memcpy(&next.accept, &sym, sizeof(sym));
	sym = dlsym(RTLD_NEXT, "accept4");
	memcpy(&next.accept4, &sym, sizeof(sym));
	sym = dlsym(RTLD_NEXT, "fcntl64");
	memcpy(&next.fcntl64, &sym, sizeof(sym));
	sym = dlsym(RTLD_NEXT, "ioctl");
	memcpy(&next.ioctl, &sym, sizeof(sym));
	sym = dlsym(RTLD_NEXT, "socket");
	memcpy(&next.socket, &sym, sizeof(sym));
	next.rspreload = dladdr(sym, &info) != 0 && info.dli_fname != NULL &&
	                 strstr(info.dli_fname, "librspreload") != NULL;
}

static void
sockets_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, sockets_once);
}

/** As ioctl(FIONBIO). fcntl() is librspreload's. */
static int
sockets_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -1;
	return fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

/** What SOCK_CLOEXEC and SOCK_NONBLOCK ask for. Closes the socket if it fails. */
static int
sockets_flags(int fd, int flags)
{
	int err;

	/* The number is that of a descriptor of the kernel, too, which stands for the socket. */
	if (fd < 0 ||
	    (((flags & SOCK_CLOEXEC) == 0 || syscall(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC) == 0) &&
	     ((flags & SOCK_NONBLOCK) == 0 || sockets_nonblock(fd, true) == 0)))
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

/**
 * Whether the code at pc is weft's or DPDK's, which ask the kernel about an interface by a socket:
 * libweft for its link, net_af_packet when it starts, mlx5 at any time and on any thread. An
 * rsocket answers no such question, and its close() needs the device that is being opened.
 */
static bool
sockets_is_ours(const void *pc)
{
	Dl_info info;
	const char *name;

	if (dladdr(pc, &info) == 0 || info.dli_fname == NULL)
		return false;
	name = strrchr(info.dli_fname, '/');
	name = name == NULL ? info.dli_fname : name + 1;
	return strncmp(name, "librte_", strlen("librte_")) == 0 ||
	       strncmp(name, "libweft", strlen("libweft")) == 0;
}

WV_API int
socket(int domain, int type, int protocol)
{
	const int flags = type & (SOCK_CLOEXEC | SOCK_NONBLOCK);

	sockets_init();
	if (!next.rspreload || (domain != AF_INET && domain != AF_INET6))
		return next.socket(domain, type, protocol);
	if (sockets_is_ours(__builtin_return_address(0)))
		return (int)syscall(SYS_socket, domain, type, protocol);
	if (flags == 0)
		return next.socket(domain, type, protocol);
	return sockets_flags(next.socket(domain, type & ~flags, protocol), flags);
}

WV_API int
accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	sockets_init();
	if (!next.rspreload || (flags & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) != 0)
		return next.accept4(fd, addr, len, flags);
	return sockets_flags(next.accept(fd, addr, len), flags);
}

WV_API int
fcntl64(int fd, int cmd, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	sockets_init();
	return next.rspreload ? fcntl(fd, cmd, arg) : next.fcntl64(fd, cmd, arg);
}

WV_API int
ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	sockets_init();
	if (next.rspreload && request == FIONBIO && arg != NULL)
		return sockets_nonblock(fd, *(const int *)arg != 0);
	return next.ioctl(fd, request, arg);
}
