/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The device of a port: its string is checked, it is found or created, and given back. */

#include <stdio.h>
#include <stdlib.h>
#include <net/if.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_ethdev.h>
#include <rte_kvargs.h>

#include "netif_attach.h"
#include "netif_bar.h"
#include "netif_bond.h"
#include "netif_carrier.h"
#include "netif_memif.h"
#include "netif_packet.h"
#include "netif_priv.h"
#include "netif_shown.h"
#include "weft_device.h"
#include "weft_netif_port.h"

#define ATTACH_MEMIF_SOCKET "/run/memif.sock" /**< the driver's default */

bool
netif_dev_arg(const char *args, const char *key, char *buf, size_t size)
{
	struct rte_kvargs *kv = rte_kvargs_parse(args, NULL);
	const char *v = kv != NULL ? rte_kvargs_get(kv, key) : NULL;
	bool found = v != NULL;

	if (found)
		snprintf(buf, size, "%s", v);
	rte_kvargs_free(kv);
	return found;
}

bool
netif_dev_member(const char *dev, unsigned int i, char member[NETIF_DEV_MEMBER_MAX])
{
	return weft_device_member(dev, i, member, NETIF_DEV_MEMBER_MAX) == 0;
}

static int
attach_check_members(const char *dev)
{
	const char *at = weft_device_args(dev), *arg;
	char member[NETIF_DEV_MEMBER_MAX];
	size_t len;
	int ret = 0;

	while ((arg = weft_device_next_arg(&at, &len)) != NULL) {
		const char *eq = memchr(arg, '=', len);

		if (eq != NULL && eq > arg && eq + 1 < arg + len)
			continue;
		WEFT_LOG(netif, ERR, "'%s': %.*s has no value", netif_dev_shown(dev), (int)len,
		         arg);
		return -EINVAL;
	}
	for (unsigned int i = 0; ret == 0 && netif_dev_member(dev, i, member); i++)
		ret = weft_device_is_bond(member) ? -EINVAL : netif_attach_check(member);
	return ret;
}

/*
 * For a key without a value a driver gets NULL, which most drivers dereference. If there are too
 * many arguments, a driver sees none. net_ring takes the value of "internal" for an address.
 */
int
netif_attach_check(const char *dev)
{
	const char *args = strchr(dev, ',');
	struct rte_kvargs *kv;
	int ret = 0;

	/* Those of a bonded port are read by netif_bond.c, and those of its slaves when these are
	 * opened. */
	if (weft_device_is_bond(dev))
		return attach_check_members(dev);
	kv = args != NULL ? rte_kvargs_parse(args + 1, NULL) : NULL;
	if (args == NULL)
		return 0;
	if (kv == NULL) {
		WEFT_LOG(netif, ERR, "'%s': its arguments are too many", netif_dev_shown(dev));
		return -EINVAL;
	}
	for (unsigned int i = 0; ret == 0 && i < kv->count; i++) {
		const struct rte_kvargs_pair *pair = &kv->pairs[i];

		if (pair->value == NULL) {
			WEFT_LOG(netif, ERR, "'%s': %s has no value; write %s=...",
			         netif_dev_shown(dev), pair->key, pair->key);
			ret = -EINVAL;
		} else if (strcmp(pair->key, "internal") == 0) {
			WEFT_LOG(netif, ERR, "'%s': %s is for DPDK's own use", netif_dev_shown(dev),
			         pair->key);
			ret = -EINVAL;
		}
	}
	rte_kvargs_free(kv);
	return ret;
}

static bool
attach_memif_serves(const char *args)
{
	char role[16] = "";

	netif_dev_arg(args, "role", role, sizeof(role));
	return strcmp(role, "server") == 0 || strcmp(role, "master") == 0;
}

/*
 * A memif server that was killed leaves its socket file, and no server can bind it again. The file
 * is removed if no process holds it. Abstract sockets leave no file.
 */
static void
attach_memif_unlink_stale(const char *args)
{
	char abstract[8] = "yes";
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	struct stat st;
	int fd;

	if (!attach_memif_serves(args))
		return;
	netif_dev_arg(args, "socket-abstract", abstract, sizeof(abstract));
	if (strcmp(abstract, "no") != 0 ||
	    !netif_dev_arg(args, "socket", sun.sun_path, sizeof(sun.sun_path)))
		return;
	if (lstat(sun.sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
		return;
	/*
	 * A datagram socket never connects to a socket of memif's kind. The kernel says whether a
	 * process holds the address (EPROTOTYPE), and a server does not notice. A client that
	 * connects and leaves at once may make a server's EAL panic.
	 */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (connect(fd, (const struct sockaddr *)&sun, sizeof(sun)) != 0 && errno == ECONNREFUSED &&
	    unlink(sun.sun_path) == 0)
		WEFT_LOG(netif, INFO, "removed the stale socket %s", sun.sun_path);
	close(fd);
}

static int
attach_memif_begin(const struct weft_netif_port *p, const char *args)
{
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)] = ATTACH_MEMIF_SOCKET;
	char abstract[8] = "yes";

	netif_dev_arg(args, "socket", path, sizeof(path));
	netif_dev_arg(args, "socket-abstract", abstract, sizeof(abstract));
	return attach_memif_serves(args)
	               ? netif_memif_begin(p->devname, path, strcmp(abstract, "yes") == 0)
	               : 0;
}

#define ATTACH_REFUSES "its driver refuses"
/* DPDK numbers a group by process id and interface. Two of one network namespace can collide. */
#define ATTACH_FANOUT "; if it says PACKET_FANOUT, another process has that group: start again"

static bool
attach_members_known(const char *dev)
{
	char member[NETIF_DEV_MEMBER_MAX];
	bool known = netif_attach_known("net_bonding_weft");

	for (unsigned int i = 0; known && netif_dev_member(dev, i, member); i++)
		known = !weft_device_is_bond(member) && netif_attach_known(member);
	return known;
}

bool
netif_attach_known(const char *dev)
{
	const size_t len = strcspn(dev, ",");
	struct weft_device_info info = {.size = sizeof(info)};
	char name[RTE_DEV_NAME_MAX_LEN];
	struct rte_devargs da = {0};
	uint16_t port_id;
	bool known;

	if (len == 0 || len >= sizeof(name))
		return false;
	if (weft_device_is_bond(dev) && dev[len] == ',')
		return attach_members_known(dev);
	memcpy(name, dev, len);
	name[len] = '\0';
	if (rte_eth_dev_get_port_by_name(name, &port_id) == 0)
		return true;
	if (weft_device_is_pci(dev))
		return weft_device_info(dev, &info) == 0;
	/* A device on another bus was probed, or does not exist. */
	known = rte_devargs_parse(&da, name) == 0 && strcmp(rte_bus_name(da.bus), "vdev") == 0;
	free(da.data);
	return known;
}

/*
 * A PCI device that EAL has not probed. EAL does it now if the program started it with the PCI bus
 * (weft_env_init() with another device, or an EAL of the program's own).
 */
static int
attach_pci(const char *dev, struct weft_netif_port *p)
{
	struct rte_devargs *da;
	int ret;

	/* EAL had the device in its list and looked for a driver. It holds the lock. */
	RTE_EAL_DEVARGS_FOREACH("pci", da)
	{
		if (strcmp(da->name, p->devname) == 0) {
			WEFT_LOG(netif, ERR, "%s: no driver of DPDK takes this device", p->devname);
			return -ENODEV;
		}
	}
	ret = weft_device_lock(&weft_device_kernel, dev, &p->lock_fd);
	if (ret != 0) {
		WEFT_LOG(netif, ERR, "%s: %s", p->devname,
		         ret == -ENOENT  ? "there is no such PCI device"
		         : ret == -EBUSY ? "another program of weft uses it"
		                         : strerror(-ret));
		return ret == -EBUSY ? ret : -ENODEV;
	}
	ret = rte_eal_hotplug_add("pci", p->devname, weft_device_args(dev));
	if (ret != 0) {
		WEFT_LOG(netif, ERR, "cannot open PCI device %s: %s", p->devname,
		         ret == -ENOENT || ret == -EFAULT
		                 ? "EAL was started without the PCI bus; name the device to "
		                   "weft_env_init()"
		                 : "no driver of DPDK takes it");
		return ret == -ENOMEM ? -ENOMEM : -ENODEV;
	}
	p->created = true;
	p->bus = "pci";
	return 0;
}

/** Whether the port is on an interface of the kernel, whose link its driver does not know. */
static bool
attach_is_kernels(const char *dev)
{
	return strncmp(dev, "net_af_", 7) == 0 || strncmp(dev, "eth_af_", 7) == 0;
}

/** Learn the sockets of a port of net_af_packet. */
static void
attach_packet(const struct weft_netif_port *p, const char *args, const char *iface)
{
	struct rte_eth_dev_info info;
	char qpairs[16] = "1";

	if (rte_eth_dev_info_get(p->port_id, &info) != 0 ||
	    strcmp(info.driver_name, "net_af_packet") != 0)
		return;
	(void)netif_dev_arg(args, "qpairs", qpairs, sizeof(qpairs));
	netif_packet_find(p->port_id, iface, (unsigned int)strtoul(qpairs, NULL, 10));
}

int
netif_attach(const char *dev, struct weft_netif_port *p)
{
	const char *comma = strchr(dev, ',');
	const char *args = comma != NULL ? comma + 1 : "";
	size_t len = comma != NULL ? (size_t)(comma - dev) : strlen(dev);
	char memif[NETIF_MEMIF_ARGS_MAX], iface[IFNAMSIZ];
	bool pci;
	int ret;

	if (len == 0 || len >= sizeof(p->devname)) {
		WEFT_LOG(netif, ERR, "'%s' names no device", netif_dev_shown(dev));
		return -EINVAL;
	}
	memcpy(p->devname, dev, len);
	p->devname[len] = '\0';
	pci = weft_device_address(dev, p->devname) == 0;
	if (rte_eth_dev_get_port_by_name(p->devname, &p->port_id) == 0) {
		/* EAL has the arguments of a PCI device from weft_env_init(). */
		if (comma != NULL && !pci) {
			WEFT_LOG(netif, ERR, "%s exists already: arguments would be ignored",
			         p->devname);
			return -EINVAL;
		}
		return 0;
	}
	if (weft_device_is_bond(dev))
		return netif_bond_attach(dev, p, netif_attach);
	if (pci) {
		ret = attach_pci(dev, p);
		if (ret != 0)
			return ret;
		goto created;
	}
	if (strncmp(p->devname, "net_memif", 9) == 0) {
		ret = netif_memif_args(args, p->mtu_bytes, memif, sizeof(memif));
		args = memif;
		if (ret == 0) {
			attach_memif_unlink_stale(args);
			ret = attach_memif_begin(p, args);
		}
		if (ret != 0)
			return ret;
	}
	ret = rte_eal_hotplug_add("vdev", p->devname, args);
	if (ret != 0) {
		netif_memif_end(p->devname);
		/* Drivers return -1 or any other value. Their own log line says more. */
		WEFT_LOG(netif, ERR, "cannot create device '%s': %s", netif_dev_shown(dev),
		         ret == -EFAULT   ? "no port and no driver of that name"
		         : ret == -ENOMEM ? "not enough memory"
		         : strncmp(p->devname, "net_af_packet", 13) == 0
		                 ? ATTACH_REFUSES ATTACH_FANOUT
		                 : ATTACH_REFUSES);
		return ret == -ENOMEM ? -ENOMEM : -ENODEV;
	}
	p->created = true;
	p->bus = "vdev";
created:
	ret = rte_eth_dev_get_port_by_name(p->devname, &p->port_id);
	if (ret != 0) {
		WEFT_LOG(netif, ERR, "device '%s' has no port", netif_dev_shown(dev));
		return -ENODEV;
	}
	if (attach_is_kernels(dev) && netif_dev_arg(args, "iface", iface, sizeof(iface))) {
		netif_carrier_set(p->port_id, iface);
		attach_packet(p, args, iface);
	}
	return 0;
}

void
netif_detach(struct weft_netif_port *p)
{
	if (p->created) {
		netif_carrier_forget(p->port_id);
		netif_packet_forget(p->port_id);
		netif_memif_end(p->devname);
		rte_eal_hotplug_remove(p->bus, p->devname);
		netif_bar_forget(p->port_id);
	}
	if (p->lock_fd >= 0)
		close(p->lock_fd);
	netif_bond_detach(p->bond, netif_detach);
	p->bond = NULL;
}
