/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The link of a port, and the kernel's interface below it. */

#include <stdio.h>
#include <string.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>

#include <rte_ethdev.h>

#include "netif_carrier.h"

/** By port number. Written while no other thread uses the port. */
static struct carrier {
	/** of the interface, which keeps it when it is renamed; 0: there is none */
	unsigned int index;
	int fd; /**< a socket of its network namespace */
} carriers[RTE_MAX_ETHPORTS];

void
netif_carrier_set(uint16_t port_id, const char *iface)
{
	struct carrier *c = &carriers[port_id];

	netif_carrier_forget(port_id);
	if (*iface == '\0')
		return;
	c->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return;
	c->index = if_nametoindex(iface);
	if (c->index == 0)
		close(c->fd);
}

void
netif_carrier_forget(uint16_t port_id)
{
	struct carrier *c = &carriers[port_id];

	if (c->index != 0)
		close(c->fd);
	c->index = 0;
}

bool
netif_carrier_known(uint16_t port_id)
{
	return carriers[port_id].index != 0;
}

/** Ask the kernel about the interface, by its present name. False: it does not answer, because the
 * interface is gone. Another one may have its name since. The port's socket is not bound to it. */
static bool
carrier_ask(uint16_t port_id, unsigned long what, struct ifreq *ifr)
{
	const struct carrier *c = &carriers[port_id];
	struct ifreq name = {.ifr_ifindex = (int)c->index};

	if (ioctl(c->fd, SIOCGIFNAME, &name) != 0)
		return false;
	memcpy(ifr->ifr_name, name.ifr_name, sizeof(ifr->ifr_name));
	return ioctl(c->fd, what, ifr) == 0;
}

bool
netif_carrier_up(uint16_t port_id)
{
	const int want = IFF_UP | IFF_RUNNING;
	struct ifreq ifr = {0};

	return carrier_ask(port_id, SIOCGIFFLAGS, &ifr) && (ifr.ifr_flags & want) == want;
}

bool
netif_carrier_link(uint16_t port_id)
{
	struct rte_eth_link link;

	if (netif_carrier_known(port_id))
		return netif_carrier_up(port_id);
	return rte_eth_link_get_nowait(port_id, &link) != 0 || link.link_status != 0;
}

int
netif_carrier_get(uint16_t port_id, struct rte_eth_link *link)
{
	struct ethtool_cmd cmd = {.cmd = ETHTOOL_GSET};
	struct ifreq ifr = {.ifr_data = (void *)&cmd};
	int ret = rte_eth_link_get_nowait(port_id, link);

	if (!netif_carrier_known(port_id))
		return ret;
	*link = (struct rte_eth_link){.link_speed = RTE_ETH_SPEED_NUM_UNKNOWN,
	                              .link_status = netif_carrier_up(port_id)};
	if (!carrier_ask(port_id, SIOCETHTOOL, &ifr))
		return 0;
	if (ethtool_cmd_speed(&cmd) != 0)
		link->link_speed = ethtool_cmd_speed(&cmd); /* SPEED_UNKNOWN is the same number */
	link->link_duplex = cmd.duplex != DUPLEX_HALF;
	link->link_autoneg = cmd.autoneg != AUTONEG_DISABLE;
	return 0;
}

uint32_t
netif_carrier_mtu(uint16_t port_id)
{
	struct ifreq ifr = {0};

	if (!netif_carrier_known(port_id) || !carrier_ask(port_id, SIOCGIFMTU, &ifr))
		return 0;
	return (uint32_t)ifr.ifr_mtu;
}

void
netif_carrier_set_mtu(uint16_t port_id, uint32_t mtu_bytes)
{
	struct ifreq ifr = {.ifr_mtu = (int)mtu_bytes};

	(void)carrier_ask(port_id, SIOCSIFMTU, &ifr);
}
