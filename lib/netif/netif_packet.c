/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The packet sockets below net_af_packet: found, and asked to send what is left. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <linux/if_packet.h>

#include <rte_common.h>
#include <rte_ethdev.h>

#include "netif_packet.h"
#include "weft_base.h"

/** The kernel gets time to send what it has before it is asked for more, up to PACKET_ASK_MAX_NS
 * when it has taken nothing. PACKET_VAIN: questions in vain after which the next packet is waited
 * for, as if the interface were down; about a second. */
#define PACKET_ASK_NS     (20 * WEFT_NS_PER_US)
#define PACKET_ASK_MAX_NS (1 * WEFT_NS_PER_MS)
#define PACKET_VAIN       1000
#define PACKET_FULL       3 /* an interface that was full is asked each 160 us */
/** Sockets looked at for one port. */
#define PACKET_QUEUES_MAX 64

WEFT_LOG_DECLARE(netif);

/** By port number: descriptors of our own for the driver's sockets, one for each queue. So none of
 * them becomes another file when the driver closes its own. Written while no other thread uses the
 * port. */
static struct packet_port {
	int fd[PACKET_QUEUES_MAX];
	unsigned int n;
} packet_ports[RTE_MAX_ETHPORTS];

/** Whether fd is a packet socket with the driver's kind of ring, on that interface. */
static bool
packet_is(int fd, unsigned int ifindex)
{
	struct sockaddr_ll at = {0};
	socklen_t len = sizeof(at);
	int domain = 0, version = -1;
	socklen_t dlen = sizeof(domain), vlen = sizeof(version);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &dlen) == 0 && domain == AF_PACKET &&
	       getsockname(fd, (struct sockaddr *)&at, &len) == 0 &&
	       at.sll_ifindex == (int)ifindex &&
	       getsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, &vlen) == 0 &&
	       version == TPACKET_V2;
}

/** Whether fd is a socket of a port that is known already: of the driver, or our own. */
static bool
packet_known(int fd)
{
	struct stat of_fd, of_known;

	if (fstat(fd, &of_fd) != 0)
		return true;
	for (unsigned int i = 0; i < RTE_DIM(packet_ports); i++)
		for (unsigned int q = 0; q < packet_ports[i].n; q++)
			if (fstat(packet_ports[i].fd[q], &of_known) == 0 &&
			    of_known.st_ino == of_fd.st_ino && of_known.st_dev == of_fd.st_dev)
				return true;
	return false;
}

static int
packet_fd_cmp(const void *a, const void *b)
{
	const int *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/** The new sockets on the interface, at most max, in the order in which they were made: while they
 * are all open, each gets the least number that is free. Returns how many there are. */
static unsigned int
packet_scan(unsigned int ifindex, int *fds, unsigned int max)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	unsigned int n = 0;

	if (d == NULL)
		return 0;
	while ((e = readdir(d)) != NULL) {
		char *end;
		long fd = strtol(e->d_name, &end, 10);

		if (end == e->d_name || *end != '\0' || !packet_is((int)fd, ifindex) ||
		    packet_known((int)fd))
			continue;
		if (n < max)
			fds[n] = (int)fd;
		n++;
	}
	closedir(d);
	qsort(fds, RTE_MIN(n, max), sizeof(*fds), packet_fd_cmp);
	return n;
}

void
netif_packet_find(uint16_t port_id, const char *iface, unsigned int queues)
{
	struct packet_port *port = &packet_ports[port_id];
	unsigned int ifindex = if_nametoindex(iface), found;
	int fds[PACKET_QUEUES_MAX];

	netif_packet_forget(port_id);
	found = ifindex != 0 ? packet_scan(ifindex, fds, RTE_DIM(fds)) : 0;
	if (found != queues || queues > RTE_DIM(fds)) {
		WEFT_LOG(netif, NOTICE,
		         "net_af_packet on %s: %u sockets found instead of %u; frames that the "
		         "kernel does not take at once may wait for the next ones",
		         iface, found, queues);
		return;
	}
	for (unsigned int q = 0; q < queues; q++) {
		port->fd[q] = fcntl(fds[q], F_DUPFD_CLOEXEC, 0);
		if (port->fd[q] < 0)
			break;
		port->n++;
	}
}

void
netif_packet_forget(uint16_t port_id)
{
	struct packet_port *port = &packet_ports[port_id];

	for (unsigned int q = 0; q < port->n; q++)
		close(port->fd[q]);
	port->n = 0;
}

void
netif_packet_add(struct netif_packet *p, uint16_t port_id, uint16_t queue_id)
{
	const struct packet_port *port = &packet_ports[port_id];

	if (queue_id < port->n && p->n < RTE_DIM(p->fd))
		p->fd[p->n++] = port->fd[queue_id];
}

void
netif_packet_sent(struct netif_packet *p, uint64_t now_ns)
{
	p->asked = 0;
	/* Frames that come all the time must not put the question off. */
	if (p->due || p->n == 0)
		return;
	p->due = true;
	p->at_ns = now_ns + PACKET_ASK_NS;
}

void
netif_packet_look(struct netif_packet *p, uint64_t now_ns)
{
	bool took = false, left = false, full = false;
	uint64_t wait_ns;

	if (!p->due || now_ns < p->at_ns)
		return;
	for (unsigned int i = 0; i < p->n; i++) {
		ssize_t ret = sendto(p->fd[i], NULL, 0, MSG_DONTWAIT, NULL, 0);

		/* Octets that it took, or 0: the ring is empty. The errors are a full send buffer,
		 * and what ends with the next link: an interface that is down or gone. */
		took |= ret > 0;
		/* The interface is full. It may have taken some: the kernel does not say. */
		full |= ret < 0 && errno == ENOBUFS;
		left |= ret > 0 || (ret < 0 && (errno == EAGAIN || errno == ENOBUFS));
	}
	p->asked = took ? 0 : p->asked + 1;
	if (full)
		p->asked = RTE_MIN(p->asked, (unsigned int)PACKET_FULL);
	p->due = left && p->asked < PACKET_VAIN;
	wait_ns = PACKET_ASK_NS << RTE_MIN(p->asked, 16u);
	p->at_ns = now_ns + RTE_MIN(wait_ns, PACKET_ASK_MAX_NS);
}

void
netif_packet_woke(const struct netif_packet *p)
{
	int err;
	socklen_t len = sizeof(err);

	/* The interface was down: the error makes the socket readable until it is asked for. */
	if (getsockopt(p->fd[0], SOL_SOCKET, SO_ERROR, &err, &len) != 0) {
		/* A socket has this option. */
	}
}
