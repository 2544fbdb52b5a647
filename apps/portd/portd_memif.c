/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The net_memif of a process.
 *
 * The name is in the abstract name space, so that nothing is left of a daemon that was killed, and
 * the secret is known to the process alone: names of that space can be read in /proc/net/unix.
 */

#include "portd_memif.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <rte_ethdev.h>

#include "netif_attach.h"
#include "netif_memif.h"
#include "weft_netif_port.h"

#define MEMIF_DESC      1024
#define MEMIF_SETTLE_US 20000 /* as of weft_netif_port_close() */
#define MEMIF_RANDOM    12

struct portd_memif {
	struct weft_netif_port port;
	char name[PORTD_MEMIF_NAME_BYTES], secret[PORTD_MEMIF_SECRET_BYTES];
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
portd_memif_open(uint32_t proc, uint16_t mtu_bytes, struct rte_mempool *pool,
                 struct portd_memif **out)
{
	struct portd_memif *m = calloc(1, sizeof(*m));
	char random[2 * MEMIF_RANDOM + 1], dev[256];
	int rc;

	if (m == NULL)
		return -ENOMEM;
	rc = memif_random(random, MEMIF_RANDOM);
	if (rc == 0)
		rc = memif_random(m->secret, MEMIF_RANDOM - 1);
	if (rc != 0)
		goto fail;
	snprintf(m->name, sizeof(m->name), "weft-portd-%s", random);
	snprintf(dev, sizeof(dev),
	         "net_memif_p%u,role=server,id=0,socket=%s,socket-abstract=yes,secret=%s", proc,
	         m->name, m->secret);
	m->port = (struct weft_netif_port){.mtu_bytes = mtu_bytes, .lock_fd = -1};
	rc = netif_attach(dev, &m->port);
	if (rc != 0) {
		netif_detach(&m->port);
		goto fail;
	}
	rc = memif_start(m, pool);
	if (rc != 0) {
		portd_memif_close(m);
		return -EIO;
	}
	*out = m;
	return 0;
fail:
	free(m);
	return rc == -ENOMEM ? rc : -EIO;
}

uint16_t
portd_memif_port_id(const struct portd_memif *m)
{
	return m->port.port_id;
}

void
portd_memif_say(const struct portd_memif *m, struct portd_answer *a)
{
	a->memif_id = 0;
	memcpy(a->memif_name, m->name, sizeof(a->memif_name));
	memcpy(a->memif_secret, m->secret, sizeof(a->memif_secret));
}

void
portd_memif_close(struct portd_memif *m)
{
	if (m == NULL)
		return;
	/* EAL's thread ends the connection first: see netif_memif.c. */
	netif_memif_end(m->port.devname);
	usleep(MEMIF_SETTLE_US);
	(void)rte_eth_dev_stop(m->port.port_id);
	usleep(MEMIF_SETTLE_US);
	(void)rte_eth_dev_close(m->port.port_id);
	netif_detach(&m->port);
	free(m);
}
