/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Servers of net_memif: clients that connect or leave at a moment that the driver does not
 * handle.
 *
 * The greeting. net_memif of DPDK 22.11 accepts a client in EAL's interrupt thread, registers the
 * new socket with that thread, and then sends a greeting. If the client has left meanwhile, the
 * greeting fails. The driver then closes the socket and frees the control channel, but leaves the
 * socket registered. EAL cannot wait for a closed socket: it panics, and the process ends. Any
 * client that connects and leaves at once can cause that, most easily while the computer is busy,
 * for example while a program starts.
 *
 * The driver handles the end of a greeted client well. So its greeting must not fail. sendmsg() is
 * replaced: when the peer of a Unix socket of memif's kind is gone, EAL's interrupt thread is told
 * that the message was sent. The driver then reads the end of the connection, unregisters the
 * socket and frees it, in this order. Every other call of any thread gets the kernel's result.
 *
 * The end. When a server's port is closed, the driver frees the data of its socket's handlers and
 * leaves the handlers registered. A client that connects or sends after that makes them use freed
 * memory. So before the port is stopped, the listening socket is replaced by a descriptor on which
 * nothing ever arrives, its connections are shut down, and EAL's interrupt thread gets time to see
 * them end. Without that, EAL's thread and ours could also tear down an attached client's
 * connection at the same time.
 */

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "netif_memif.h"
#include "weft_netif_port.h"

#define MEMIF_END_MS 500 /**< time for EAL's interrupt thread to see its clients end */

static ssize_t (*memif_sendmsg)(int fd, const struct msghdr *msg, int flags);
static _Atomic uint64_t memif_gone;

/* ---- The greeting ---- */

static void __attribute__((constructor)) memif_find_sendmsg(void)
{
	void *fn = dlsym(RTLD_NEXT, "sendmsg");

	/* ISO C has no conversion from an object pointer to a function pointer. */
	memcpy(&memif_sendmsg, &fn, sizeof(fn));
}

static bool
memif_peer_is_gone(int fd, int err)
{
	int type = 0, domain = 0;
	socklen_t len = sizeof(int);

	if (err != EPIPE && err != ECONNRESET && err != ECONNREFUSED && err != ENOTCONN)
		return false;
	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET &&
	       getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX;
}

static ssize_t
memif_sent(int fd, const struct msghdr *msg, ssize_t n)
{
	const int err = errno;
	size_t bytes = 0;

	if (likely(n >= 0) || !rte_thread_is_intr())
		return n;
	if (!memif_peer_is_gone(fd, err)) {
		errno = err;
		return n;
	}
	for (size_t i = 0; i < (size_t)msg->msg_iovlen; i++)
		bytes += msg->msg_iov[i].iov_len;
	atomic_fetch_add_explicit(&memif_gone, 1, memory_order_relaxed);
	return (ssize_t)bytes;
}

/* Replaces the C library's function in the whole process: drivers are loaded after this library. */
__attribute__((visibility("default"))) ssize_t
sendmsg(int fd, const struct msghdr *msg, int flags)
{
	ssize_t n;

	/* A constructor of another library may send before ours has run. */
	if (memif_sendmsg != NULL)
		n = memif_sendmsg(fd, msg, flags);
	else
		n = syscall(SYS_sendmsg, fd, msg, flags);
	return memif_sent(fd, msg, n);
}

uint64_t
weft_netif_memif_gone(void)
{
	return atomic_load_explicit(&memif_gone, memory_order_relaxed);
}

/* ---- The end ---- */

/** An open port that is a server. One thread at a time opens and closes ports. */
struct memif_server {
	LIST_ENTRY(memif_server) link;
	char devname[64];
	struct sockaddr_un addr;
};

static LIST_HEAD(, memif_server) memif_servers = LIST_HEAD_INITIALIZER(memif_servers);

int
netif_memif_begin(const char *devname, const char *path, bool abstract)
{
	struct memif_server *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return -ENOMEM;
	snprintf(s->devname, sizeof(s->devname), "%s", devname);
	s->addr.sun_family = AF_UNIX;
	snprintf(s->addr.sun_path + abstract, sizeof(s->addr.sun_path) - abstract, "%s", path);
	LIST_INSERT_HEAD(&memif_servers, s, link);
	return 0;
}

/** Whether fd is a socket of the server at `addr`. Returns 1 for the listening socket, 0 for a
 * client's, -1 for any other. */
static int
memif_socket_of(int fd, const struct sockaddr_un *addr)
{
	struct sockaddr_un own = {0};
	socklen_t len = sizeof(own);
	int listens = 0;

	/* The rest of `own` stays zero, like the rest of `addr`. */
	if (getsockname(fd, (struct sockaddr *)&own, &len) != 0 || own.sun_family != AF_UNIX ||
	    memcmp(own.sun_path, addr->sun_path, sizeof(own.sun_path)) != 0)
		return -1;
	len = sizeof(listens);
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) != 0)
		return -1;
	return listens;
}

/** Goes through our descriptors once. Returns the number of clients. */
static unsigned int
memif_end_all(const struct sockaddr_un *addr, int never)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int clients = 0;
	struct dirent *e;

	if (dir == NULL)
		return 0;
	while ((e = readdir(dir)) != NULL) {
		const int fd = atoi(e->d_name);
		const int listens = e->d_name[0] == '.' ? -1 : memif_socket_of(fd, addr);

		if (listens == 1)
			(void)dup2(never, fd);
		else if (listens == 0)
			(void)shutdown(fd, SHUT_RDWR);
		clients += listens == 0;
	}
	closedir(dir);
	return clients;
}

void
netif_memif_end(const char *devname)
{
	struct memif_server *s, *other;
	int never;

	LIST_FOREACH (s, &memif_servers, link)
		if (strcmp(s->devname, devname) == 0)
			break;
	if (s == NULL)
		return;
	LIST_REMOVE(s, link);
	/* The driver closes a socket with the last of its ports. */
	LIST_FOREACH (other, &memif_servers, link)
		if (memcmp(&other->addr, &s->addr, sizeof(s->addr)) == 0)
			break;
	never = other == NULL ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
	/* At least two passes: a client may have been accepted during the first. */
	for (unsigned int ms = 0; never >= 0 && ms < MEMIF_END_MS; ms++) {
		if (memif_end_all(&s->addr, never) == 0 && ms > 1)
			break;
		usleep(1000);
	}
	if (never >= 0)
		close(never);
	free(s);
}
