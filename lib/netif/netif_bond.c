/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Bonded ports: the slaves opened and closed, their carriers, the messages of LACP. */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_eth_bond.h>
#include <rte_eth_bond_8023ad.h>
#include <rte_ethdev.h>

#include "netif_bond.h"
#include "netif_carrier.h"
#include "netif_priv.h"
#include "netif_rings.h"
#include "netif_shown.h"
#include "weft_device.h"
#include "weft_netif_port.h"

#define BOND_LEGS_MAX 8
#define BOND_ARGS_MAX 1024
/** The driver looks at its slaves' links every 10 ms, in EAL's interrupt thread. */
#define BOND_LOOK_US  1000
#define BOND_LOOK_MAX 200
/** Octets of an mbuf, and mbufs of a slave beyond its transmit ring, that the driver takes for
 * LACP: struct slow_protocol_frame, BOND_MODE_8023AX_SLAVE_TX_PKTS. */
#define BOND_LACP_ROOM  (128 + 18 + RTE_PKTMBUF_HEADROOM)
#define BOND_LACP_MBUFS 64

struct bond_leg {
	struct weft_netif_port port;
	uint32_t mtu_bytes; /**< of the kernel's interface before the port was started; 0: none */
	bool dark;          /**< the kernel's interface has no carrier */
	bool stopped;       /**< for that */
};

struct netif_bond {
	unsigned int nlegs;
	bool lacp;
	uint32_t active;       /**< slaves in use at the last look, as bits */
	_Atomic uint32_t dark; /**< slaves whose interface has no carrier; others may read it */
	struct bond_leg leg[BOND_LEGS_MAX];
};

/** By port number. */
static struct netif_bond *bonds[RTE_MAX_ETHPORTS];

bool
netif_bond_is(uint16_t port_id)
{
	return bonds[port_id] != NULL;
}

/* ---- Opening and closing ---- */

/** Add one argument to those of the driver. */
static int
bond_add_arg(char args[BOND_ARGS_MAX], const char *key, const char *value, size_t len)
{
	const size_t at = strlen(args);

	return snprintf(args + at, BOND_ARGS_MAX - at, "%s%s%.*s", at > 0 ? "," : "", key, (int)len,
	                value) < (int)(BOND_ARGS_MAX - at)
	               ? 0
	               : -EINVAL;
}

static int
bond_add_leg(struct netif_bond *b, const char *slave, size_t len, struct weft_netif_port *p,
             netif_bond_attach_fn attach)
{
	struct weft_netif_port *leg = &b->leg[b->nlegs].port;
	char dev[BOND_ARGS_MAX];

	if (b->nlegs == BOND_LEGS_MAX) {
		WEFT_LOG(netif, ERR, "%s: more than %u slaves", p->devname, BOND_LEGS_MAX);
		return -EINVAL;
	}
	snprintf(dev, sizeof(dev), "%.*s", (int)len, slave);
	if (len >= sizeof(dev) || weft_device_is_bond(dev)) {
		WEFT_LOG(netif, ERR, "%s: '%s' cannot be a slave", p->devname,
		         netif_dev_shown(dev));
		return -EINVAL;
	}
	*leg = (struct weft_netif_port){.mtu_bytes = p->mtu_bytes, .lock_fd = -1};
	/* It counts from here on: a slave that is opened in part is closed with the bond. */
	b->nlegs++;
	return attach(dev, leg);
}

/** Open the slaves. args becomes the arguments of the driver, which knows them by their names. */
static int
bond_add_legs(struct netif_bond *b, const char *dev, char args[BOND_ARGS_MAX],
              struct weft_netif_port *p, netif_bond_attach_fn attach)
{
	const char *at = weft_device_args(dev), *arg, *slave;
	size_t len;
	int ret = 0;

	while (ret == 0 && (arg = weft_device_next_arg(&at, &len)) != NULL) {
		if (!weft_device_slave(arg, &len, &slave)) {
			ret = bond_add_arg(args, "", arg, len);
			continue;
		}
		ret = bond_add_leg(b, slave, len, p, attach);
		if (ret == 0) {
			const char *name = b->leg[b->nlegs - 1].port.devname;

			ret = bond_add_arg(args, "slave=", name, strlen(name));
		}
	}
	if (ret == 0 && b->nlegs == 0) {
		WEFT_LOG(netif, ERR, "%s: it has no slave; write slave=DEVICE for each",
		         p->devname);
		ret = -EINVAL;
	}
	return ret;
}

/** The driver sets its own MTU on its slaves, which it takes from what their drivers admit to. */
static void
bond_restore_mtu(const struct netif_bond *b)
{
	for (unsigned int i = 0; i < b->nlegs; i++) {
		const struct bond_leg *leg = &b->leg[i];

		if (leg->mtu_bytes != 0 && netif_carrier_mtu(leg->port.port_id) < leg->mtu_bytes)
			netif_carrier_set_mtu(leg->port.port_id, leg->mtu_bytes);
	}
}

int
netif_bond_attach(const char *dev, struct weft_netif_port *p, netif_bond_attach_fn attach)
{
	static const struct rte_eth_conf plain;
	char args[BOND_ARGS_MAX] = "";
	struct netif_bond *b = calloc(1, sizeof(*b));
	int ret;

	if (b == NULL)
		return -ENOMEM;
	p->bond = b;
	ret = bond_add_legs(b, dev, args, p, attach);
	if (ret != 0)
		return ret;
	for (unsigned int i = 0; i < b->nlegs; i++)
		b->leg[i].mtu_bytes = netif_carrier_mtu(b->leg[i].port.port_id);
	ret = rte_eal_hotplug_add("vdev", p->devname, args);
	if (ret != 0) {
		WEFT_LOG(netif, ERR, "cannot create %s: its driver refuses '%s'", p->devname,
		         netif_dev_shown(args));
		return ret == -ENOMEM ? ret : -ENODEV;
	}
	p->created = true;
	p->bus = "vdev";
	/* The driver takes its slaves at its first configuration, and before does not know what
	 * they can do. */
	ret = rte_eth_dev_get_port_by_name(p->devname, &p->port_id);
	if (ret == 0)
		ret = rte_eth_dev_configure(p->port_id, 1, 1, &plain);
	if (ret == 0) {
		uint16_t slaves[RTE_MAX_ETHPORTS];

		if (rte_eth_bond_slaves_get(p->port_id, slaves, RTE_MAX_ETHPORTS) != (int)b->nlegs)
			ret = -ENODEV;
	}
	if (ret != 0) {
		WEFT_LOG(netif, ERR, "%s: its driver does not take its slaves", p->devname);
		return -ENODEV;
	}
	b->lacp = rte_eth_bond_mode_get(p->port_id) == BONDING_MODE_8023AD;
	bond_restore_mtu(b);
	bonds[p->port_id] = b;
	return 0;
}

void
netif_bond_detach(struct netif_bond *b, void (*detach)(struct weft_netif_port *leg))
{
	if (b == NULL)
		return;
	for (unsigned int i = 0; i < RTE_DIM(bonds); i++)
		if (bonds[i] == b)
			bonds[i] = NULL;
	/* The start may have failed after the driver had set the MTU of some slaves. */
	bond_restore_mtu(b);
	while (b->nlegs > 0)
		detach(&b->leg[--b->nlegs].port);
	free(b);
}

uint32_t
netif_bond_rings(const struct netif_bond *b)
{
	struct rte_eth_dev_info info;
	uint32_t rings = 0;

	if (b == NULL)
		return 1;
	for (unsigned int i = 0; i < b->nlegs; i++)
		rings += rte_eth_dev_info_get(b->leg[i].port.port_id, &info) == 0
		                 ? netif_rings_rx(info.driver_name)
		                 : 1;
	return rings;
}

uint16_t
netif_bond_rx_least(const struct netif_bond *b)
{
	struct rte_eth_dev_info info;
	uint16_t least = 0;

	for (unsigned int i = 0; b != NULL && i < b->nlegs; i++)
		if (rte_eth_dev_info_get(b->leg[i].port.port_id, &info) == 0)
			least = RTE_MAX(least, netif_rings_rx_least(info.driver_name));
	return least;
}

bool
netif_bond_memory_ok(const struct netif_bond *b, uint32_t tx_desc, int socket)
{
	struct rte_mempool *m;

	if (b == NULL || !b->lacp)
		return true;
	m = rte_pktmbuf_pool_create("weft_lacp", b->nlegs * (tx_desc + BOND_LACP_MBUFS), 0, 0,
	                            BOND_LACP_ROOM, socket);
	rte_mempool_free(m);
	return m != NULL;
}

void
netif_bond_started(struct netif_bond *b, uint16_t port_id)
{
	if (b == NULL)
		return;
	bond_restore_mtu(b);
	/* With LACP the driver drops group frames, broadcasts included, unless it is told to take
	 * all of them; and slaves may know no other way than taking every frame. */
	if (b->lacp && rte_eth_allmulticast_get(port_id) != 1)
		(void)rte_eth_promiscuous_enable(port_id);
}

/* ---- In use ---- */

static uint32_t
bond_dark(const struct netif_bond *b)
{
	return atomic_load_explicit(&b->dark, memory_order_relaxed);
}

/** The slaves in use: those that send and receive. */
static uint32_t
bond_active(const struct netif_bond *b, uint16_t port_id)
{
	uint16_t slaves[RTE_MAX_ETHPORTS];
	int n = rte_eth_bond_active_slaves_get(port_id, slaves, RTE_MAX_ETHPORTS);
	uint32_t bits = 0;

	for (int k = 0; k < n; k++)
		for (unsigned int i = 0; i < b->nlegs; i++)
			if (b->leg[i].port.port_id == slaves[k])
				bits |= 1u << i;
	return bits;
}

/** The slaves with a carrier that are in use; with LACP those whose partner takes part. */
static uint32_t
bond_ready(const struct netif_bond *b, uint16_t port_id)
{
	struct rte_eth_bond_8023ad_slave_info info;
	uint32_t bits = bond_active(b, port_id) & ~bond_dark(b);

	for (unsigned int i = 0; b->lacp && i < b->nlegs; i++)
		if (rte_eth_bond_8023ad_slave_info(port_id, b->leg[i].port.port_id, &info) != 0 ||
		    (info.actor_state & STATE_DISTRIBUTING) == 0)
			bits &= ~(1u << i);
	return bits;
}

/** Whether the slave has a carrier, as the kernel says; of other slaves the driver knows it. */
static bool
bond_lit(const struct bond_leg *leg)
{
	return !netif_carrier_known(leg->port.port_id) || netif_carrier_up(leg->port.port_id);
}

bool
netif_bond_link(uint16_t port_id)
{
	const struct netif_bond *b = bonds[port_id];
	uint32_t ready = bond_ready(b, port_id);

	/* No worker may have looked at the carriers yet. */
	for (unsigned int i = 0; i < b->nlegs; i++)
		if (!bond_lit(&b->leg[i]))
			ready &= ~(1u << i);
	return ready != 0;
}

/**
 * Pass a slave's carrier on to the driver: a stopped slave has no link. The last slave that the
 * driver uses stays started, because the driver would go on to call it. `active`: the slaves in
 * use.
 */
static void
bond_look_leg(struct netif_bond *b, unsigned int i, uint16_t port_id, uint32_t active)
{
	struct bond_leg *leg = &b->leg[i];
	const uint16_t id = leg->port.port_id;

	if (leg->dark == leg->stopped)
		return;
	if (!leg->dark) {
		leg->stopped =
		        rte_eth_dev_start(id) != 0; /* if it fails: once more at the next look */
		return;
	}
	if ((active & ~bond_dark(b) & ~(1u << i)) == 0 || rte_eth_dev_stop(id) != 0)
		return;
	leg->stopped = true;
	/* Until the driver has seen it, its bursts would reach a stopped port. */
	for (unsigned int k = 0; k < BOND_LOOK_MAX; k++) {
		if ((bond_active(b, port_id) & 1u << i) == 0)
			break;
		usleep(BOND_LOOK_US);
	}
}

/** Ask the kernel for the carriers of the slaves that are on interfaces of its own. */
static void
bond_look_carriers(struct netif_bond *b)
{
	for (unsigned int i = 0; i < b->nlegs; i++) {
		struct bond_leg *leg = &b->leg[i];
		const bool dark = !bond_lit(leg);

		if (dark == leg->dark)
			continue;
		leg->dark = dark;
		atomic_fetch_xor_explicit(&b->dark, 1u << i, memory_order_relaxed);
		WEFT_LOG_PEER(netif, NOTICE, "%s: the link of this slave is %s", leg->port.devname,
		              dark ? "down" : "up");
	}
}

bool
netif_bond_look(uint16_t port_id, uint16_t tx_queue, bool *moved)
{
	struct netif_bond *b = bonds[port_id];
	uint32_t active;

	bond_look_carriers(b);
	for (unsigned int i = 0; i < b->nlegs; i++)
		bond_look_leg(b, i, port_id, bond_active(b, port_id));
	/* The driver sends messages of LACP in a burst, also one without packets. */
	if (b->lacp)
		(void)rte_eth_tx_burst(port_id, tx_queue, NULL, 0);
	active = bond_ready(b, port_id);
	if (!b->lacp && active != 0)
		active |= (uint32_t)rte_eth_bond_primary_get(port_id) << BOND_LEGS_MAX;
	*moved = active != b->active;
	b->active = active;
	return active != 0;
}

void
netif_bond_packet(uint16_t port_id, uint16_t tx_queue, struct netif_packet *p)
{
	const struct netif_bond *b = bonds[port_id];

	for (unsigned int i = 0; i < b->nlegs; i++)
		netif_packet_add(p, b->leg[i].port.port_id, tx_queue);
}

void
netif_bond_describe(uint16_t port_id, char *buf, size_t size)
{
	const struct netif_bond *b = bonds[port_id];
	uint32_t active, ready;
	size_t at = 0;
	int primary;

	*buf = '\0';
	if (b == NULL)
		return;
	active = bond_active(b, port_id) & ~bond_dark(b);
	ready = bond_ready(b, port_id);
	primary = rte_eth_bond_mode_get(port_id) == BONDING_MODE_ACTIVE_BACKUP
	                  ? rte_eth_bond_primary_get(port_id)
	                  : -1;
	for (unsigned int i = 0; i < b->nlegs && at < size; i++) {
		const struct weft_netif_port *leg = &b->leg[i].port;
		const uint32_t bit = 1u << i;

		at += (size_t)snprintf(buf + at, size - at, "%s%s %s", i > 0 ? ", " : "",
		                       leg->devname,
		                       (active & bit) == 0                       ? "down"
		                       : (ready & bit) == 0                      ? "no partner"
		                       : primary >= 0 && primary != leg->port_id ? "backup"
		                                                                 : "active");
	}
}
