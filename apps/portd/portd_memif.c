/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The net_memifs of processes.
 *
 * Their socket's name is in the abstract name space, so that nothing is left of a daemon that was
 * killed. Names of that space can be read in /proc/net/unix, so each process has a secret, too.
 *
 * All have one socket, which a device of its own keeps open: when the last device of a socket is
 * closed, the driver of DPDK 22.11 leaves the socket's descriptor and its handler behind
 * (netif_memif.c). With a socket for each process, one descriptor would be lost with each.
 */

#include "portd_memif.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_ethdev.h>

#include "netif_attach.h"
#include "netif_memif.h"
#include "weft_netif_port.h"

#define MEMIF_DESC      1024
#define MEMIF_SETTLE_US 20000 /* as of weft_netif_port_close() */
#define MEMIF_END_MS    400   /* for EAL's interrupt thread to see a connection end */
#define MEMIF_RANDOM    12

struct portd_memifs {
	struct weft_netif_port hold; /**< keeps the socket, and takes no client */
	uint16_t mtu_bytes;
	char name[PORTD_MEMIF_NAME_BYTES];
};

struct portd_memif {
	struct portd_memifs *all;
	struct weft_netif_port port;
	uint32_t id;
	pid_t pid;
	char secret[PORTD_MEMIF_SECRET_BYTES];
};

/** 2 n digits of base 16, which nothing predicts, and a zero. */
static int
memif_random(char *out, unsigned int n)
{
	uint8_t r[MEMIF_RANDOM];

	if (getrandom(r, n, 0) != (ssize_t)n)
		return -EIO;
	for (unsigned int i = 0; i < n; i++)
		snprintf(out + 2 * i, 3, "%02x", r[i]);
	return 0;
}

/** A device of the socket, with a secret of its own. */
static int
memif_attach(const struct portd_memifs *all, const char *device, uint32_t id,
             char secret[PORTD_MEMIF_SECRET_BYTES], struct weft_netif_port *port)
{
	char dev[256];
	int rc = memif_random(secret, MEMIF_RANDOM - 1);

	*port = (struct weft_netif_port){.mtu_bytes = all->mtu_bytes, .lock_fd = -1};
	if (rc != 0)
		return rc;
	snprintf(dev, sizeof(dev),
	         "net_memif_%s,role=server,id=%u,socket=%s,socket-abstract=yes,secret=%s", device,
	         id, all->name, secret);
	rc = netif_attach(dev, port);
	if (rc != 0)
		netif_detach(port);
	return rc == 0 || rc == -ENOMEM ? rc : -EIO;
}

int
portd_memifs_create(uint32_t max_procs, uint16_t mtu_bytes, struct portd_memifs **out)
{
	struct portd_memifs *all = calloc(1, sizeof(*all));
	char random[2 * MEMIF_RANDOM + 1], secret[PORTD_MEMIF_SECRET_BYTES];
	int rc;

	if (all == NULL)
		return -ENOMEM;
	all->mtu_bytes = mtu_bytes;
	rc = memif_random(random, MEMIF_RANDOM);
	snprintf(all->name, sizeof(all->name), "weft-portd-%s", rc == 0 ? random : "");
	if (rc == 0)
		rc = memif_attach(all, "hold", max_procs, secret, &all->hold);
	if (rc != 0) {
		free(all);
		return rc;
	}
	*out = all;
	return 0;
}

void
portd_memifs_destroy(struct portd_memifs *all)
{
	if (all == NULL)
		return;
	netif_memif_end(all->hold.devname);
	netif_detach(&all->hold);
	free(all);
}

static int
memif_start(struct portd_memif *m, struct rte_mempool *pool)
{
	const struct rte_eth_conf conf = {0};
	const uint16_t id = m->port.port_id;
	int rc = rte_eth_dev_configure(id, 1, 1, &conf);

	if (rc == 0)
		rc = rte_eth_rx_queue_setup(id, 0, MEMIF_DESC, SOCKET_ID_ANY, NULL, pool);
	if (rc == 0)
		rc = rte_eth_tx_queue_setup(id, 0, MEMIF_DESC, SOCKET_ID_ANY, NULL);
	return rc == 0 ? rte_eth_dev_start(id) : rc;
}

int
portd_memif_open(struct portd_memifs *all, uint32_t proc, pid_t pid, struct rte_mempool *pool,
                 struct portd_memif **out)
{
	struct portd_memif *m = calloc(1, sizeof(*m));
	char device[16];
	int rc;

	if (m == NULL)
		return -ENOMEM;
	m->all = all;
	m->id = proc;
	m->pid = pid;
	snprintf(device, sizeof(device), "p%u", proc);
	rc = memif_attach(all, device, m->id, m->secret, &m->port);
	if (rc != 0) {
		free(m);
		return rc;
	}
	if (memif_start(m, pool) != 0) {
		portd_memif_close(m);
		return -EIO;
	}
	*out = m;
	return 0;
}

uint16_t
portd_memif_port_id(const struct portd_memif *m)
{
	return m->port.port_id;
}

void
portd_memif_say(const struct portd_memif *m, struct portd_answer *a)
{
	a->memif_id = m->id;
	memcpy(a->memif_name, m->all->name, sizeof(a->memif_name));
	memcpy(a->memif_secret, m->secret, sizeof(a->memif_secret));
}

/** Whether fd is a connection of our socket with the process. */
static bool
memif_is_of(const struct portd_memif *m, int fd)
{
	struct sockaddr_un own = {0};
	struct ucred peer = {0};
	socklen_t len = sizeof(own);

	if (getsockname(fd, (struct sockaddr *)&own, &len) != 0 || own.sun_family != AF_UNIX ||
	    strcmp(own.sun_path + 1, m->all->name) != 0)
		return false;
	len = sizeof(peer);
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.pid == m->pid;
}

/** End the connections of a process that lives on. */
static void
memif_shut(const struct portd_memif *m)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;

	if (dir == NULL)
		return;
	while ((e = readdir(dir)) != NULL)
		if (e->d_name[0] != '.' && memif_is_of(m, atoi(e->d_name)))
			(void)shutdown(atoi(e->d_name), SHUT_RDWR);
	closedir(dir);
}

/** Wait until EAL's thread has ended the connection: it and this thread must not do so at once. */
static void
memif_await_end(const struct portd_memif *m)
{
	for (unsigned int ms = 0; ms < MEMIF_END_MS && weft_netif_port_link(&m->port); ms++)
		usleep(1000);
}

void
portd_memif_close(struct portd_memif *m)
{
	if (m == NULL)
		return;
	memif_shut(m);
	memif_await_end(m);
	usleep(MEMIF_SETTLE_US);
	(void)rte_eth_dev_stop(m->port.port_id);
	usleep(MEMIF_SETTLE_US);
	(void)rte_eth_dev_close(m->port.port_id);
	netif_detach(&m->port);
	free(m);
}
