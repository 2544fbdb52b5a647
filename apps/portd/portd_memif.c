/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The net_memifs of processes.
 *
 * Their socket is in a directory for processes of the daemon alone (portd_socket.c). Each has a
 * secret, so that none takes another one's net_memif by mistake.
 *
 * All have one socket, which a device of its own keeps open: when the last device of a socket is
 * closed, the driver of DPDK 22.11 leaves the socket's descriptor and its handler behind
 * (netif_memif.c). With a socket for each process, one descriptor would be lost with each.
 *
 * The driver has no lock of a socket's list of devices, nor of a device's connection. EAL's
 * interrupt thread uses both when a process connects, speaks or leaves. So devices are made and
 * removed on that thread alone, each in one piece: a process cannot connect to a device that is
 * half gone.
 */

#define ALLOW_EXPERIMENTAL_API /* rte_intr_instance_alloc() */

#include "portd_memif.h"

#include <errno.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <rte_ethdev.h>
#include <rte_interrupts.h>

#include "netif_attach.h"
#include "netif_memif.h"
#include "weft_netif_port.h"

#define MEMIF_DESC      1024
#define MEMIF_SETTLE_US 20000 /* as of weft_netif_port_close() */
#define MEMIF_RANDOM    11

struct portd_memifs {
	struct weft_netif_port hold; /**< keeps the socket, and takes no client */
	uint16_t mtu_bytes;
	/* Work for EAL's interrupt thread. */
	struct rte_intr_handle *intr;
	int work_fd;
	sem_t worked;
	void (*work)(void *arg);
	void *work_arg;
	char name[PORTD_MEMIF_NAME_BYTES];
};

struct portd_memif {
	struct portd_memifs *all;
	struct weft_netif_port port;
	uint32_t id;
	bool attached; /**< the device exists */
	char secret[PORTD_MEMIF_SECRET_BYTES];
};

/* ---- EAL's interrupt thread ---- */

/* Not rte_eal_alarm_set(): at the end, EAL unregisters its alarms' handler. Then its thread looks
 * at all handlers while their memory is unmapped, that of a net_memif's socket included, which the
 * driver leaves behind. */

static void
intr_do(void *arg)
{
	struct portd_memifs *all = arg;
	uint64_t n;

	if (read(all->work_fd, &n, sizeof(n)) != (ssize_t)sizeof(n))
		return;
	all->work(all->work_arg);
	sem_post(&all->worked);
}

/** Runs fn(arg) on that thread, and waits for its end. One thread at a time asks. */
static void
intr_run(struct portd_memifs *all, void (*fn)(void *arg), void *arg)
{
	const uint64_t one = 1;

	all->work = fn;
	all->work_arg = arg;
	if (write(all->work_fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
		abort(); /* an eventfd of ours with the value 0 has room */
	while (sem_wait(&all->worked) != 0) {
		/* EINTR */
	}
}

static int
intr_begin(struct portd_memifs *all)
{
	sem_init(&all->worked, 0, 0);
	all->work_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	all->intr = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	if (all->work_fd < 0 || all->intr == NULL)
		return -ENOMEM;
	(void)rte_intr_fd_set(all->intr, all->work_fd);
	(void)rte_intr_type_set(all->intr, RTE_INTR_HANDLE_EXT);
	return rte_intr_callback_register(all->intr, intr_do, all) == 0 ? 0 : -ENOMEM;
}

static void
intr_end(struct portd_memifs *all)
{
	if (all->intr != NULL)
		(void)rte_intr_callback_unregister_sync(all->intr, intr_do, all);
	rte_intr_instance_free(all->intr);
	if (all->work_fd >= 0)
		close(all->work_fd);
	sem_destroy(&all->worked);
}

/* ---- Devices ---- */

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
	int rc = memif_random(secret, MEMIF_RANDOM);

	*port = (struct weft_netif_port){.mtu_bytes = all->mtu_bytes, .lock_fd = -1};
	if (rc != 0)
		return rc;
	snprintf(dev, sizeof(dev),
	         "net_memif_%s,role=server,id=%u,socket=%s,socket-abstract=no,secret=%s", device,
	         id, all->name, secret);
	rc = netif_attach(dev, port);
	if (rc != 0)
		netif_detach(port);
	return rc == 0 || rc == -ENOMEM ? rc : -EIO;
}

struct memif_hold {
	struct portd_memifs *all;
	uint32_t id;
	int rc;
};

static void
memif_do_hold(void *arg)
{
	char secret[PORTD_MEMIF_SECRET_BYTES];
	struct memif_hold *h = arg;

	h->rc = memif_attach(h->all, "hold", h->id, secret, &h->all->hold);
}

int
portd_memifs_create(uint32_t max_procs, uint16_t mtu_bytes, const struct portd_socket *at,
                    struct portd_memifs **out)
{
	struct portd_memifs *all = calloc(1, sizeof(*all));
	struct memif_hold hold = {.all = all, .id = max_procs};
	int rc;

	if (all == NULL)
		return -ENOMEM;
	all->mtu_bytes = mtu_bytes;
	rc = intr_begin(all);
	memcpy(all->name, at->memif, sizeof(all->name));
	if (rc == 0) {
		intr_run(all, memif_do_hold, &hold);
		rc = hold.rc;
	}
	if (rc != 0) {
		intr_end(all);
		free(all);
		return rc;
	}
	rc = portd_socket_share(at);
	if (rc != 0) {
		portd_memifs_destroy(all);
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
	intr_end(all);
	/* No process can connect any more after this. */
	netif_memif_end(all->hold.devname);
	netif_detach(&all->hold);
	/* EAL's thread looks at the handler that is left once more. */
	usleep(MEMIF_SETTLE_US);
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

struct memif_open {
	struct portd_memif *m;
	struct rte_mempool *pool;
	int rc;
};

static void
memif_do_open(void *arg)
{
	struct memif_open *o = arg;
	struct portd_memif *m = o->m;
	char device[16];

	snprintf(device, sizeof(device), "p%u", m->id);
	o->rc = memif_attach(m->all, device, m->id, m->secret, &m->port);
	m->attached = o->rc == 0;
	if (o->rc == 0 && memif_start(m, o->pool) != 0)
		o->rc = -EIO;
}

int
portd_memif_open(struct portd_memifs *all, uint32_t proc, struct rte_mempool *pool,
                 struct portd_memif **out)
{
	struct memif_open o = {.m = calloc(1, sizeof(*o.m)), .pool = pool};

	if (o.m == NULL)
		return -ENOMEM;
	o.m->all = all;
	o.m->id = proc;
	intr_run(all, memif_do_open, &o);
	if (o.rc != 0) {
		if (o.m->attached)
			portd_memif_close(o.m);
		else
			free(o.m);
		return o.rc;
	}
	*out = o.m;
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

static void
memif_do_close(void *arg)
{
	struct portd_memif *m = arg;

	/* This ends the process' connection, too. */
	(void)rte_eth_dev_stop(m->port.port_id);
	(void)rte_eth_dev_close(m->port.port_id);
	netif_detach(&m->port);
}

void
portd_memif_close(struct portd_memif *m)
{
	if (m == NULL)
		return;
	intr_run(m->all, memif_do_close, m);
	free(m);
}
