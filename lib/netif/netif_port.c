/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Ports: creates, configures and removes an ethdev. */

#include <stdio.h>
#include <stdlib.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_kvargs.h>

#include "netif_attach.h"
#include "netif_group_priv.h"
#include "netif_bar.h"
#include "netif_bond.h"
#include "netif_carrier.h"
#include "netif_loop.h"
#include "netif_memif.h"
#include "netif_offload.h"
#include "netif_priv.h"
#include "netif_removal.h"
#include "netif_rings.h"
#include "netif_shown.h"
#include "netif_tso.h"
#include "weft_device.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_plan.h"
#include "weft_netif_removal.h"

#define PORT_POOL_CACHE 256u
/* net_af_packet: its default framesz; the octets before a received frame; framesz minus
 * PORT_PACKET_HDR is the data room that it requires of mbufs. */
#define PORT_PACKET_FRAMESZ 2048u
#define PORT_PACKET_HEAD    80u
#define PORT_PACKET_HDR     32u
#define PORT_MBUF_MIN       2048u /* data room that several drivers require */

#define PORT_MEMIF_SETTLE_US 20000
/** for the first try to get a link; doubled for each further try */
#define PORT_MEMIF_JOIN_MS 200
#define PORT_MEMIF_JOINS   4

/* ---- The pools ---- */

/** The mbufs in the threads' caches must be a small part of the pool. */
uint32_t
weft_netif_plan_cache(uint32_t mbufs, uint32_t threads)
{
	return RTE_MIN(PORT_POOL_CACHE, mbufs / (16 * threads));
}

#define PORT_PRIV_BYTES RTE_ALIGN(sizeof(struct weft_mbuf_priv), (size_t)RTE_MBUF_PRIV_ALIGN)

/** Octets of an mbuf's buffer for so much data. */
static uint32_t
port_mbuf_room(uint32_t data_bytes)
{
	uint32_t data = RTE_ALIGN(RTE_MAX(data_bytes, PORT_MBUF_MIN), 64u);

	return RTE_PKTMBUF_HEADROOM + RTE_MIN(data, NETIF_DATA_MAX);
}

static int
port_pool_create(const char *name, unsigned int mbufs, unsigned int threads, uint32_t data_bytes,
                 int socket, struct rte_mempool **out)
{
	uint32_t room = port_mbuf_room(data_bytes);
	unsigned int cache = weft_netif_plan_cache(mbufs, threads);

	if (mbufs == 0)
		return -EINVAL;
	*out = rte_pktmbuf_pool_create(name, mbufs, cache, PORT_PRIV_BYTES, (uint16_t)room, socket);
	if (*out == NULL)
		return rte_errno == EEXIST || rte_errno == EINVAL ? -rte_errno : -ENOMEM;
	return 0;
}

int
weft_netif_pool_create(const char *name, unsigned int mbufs, uint16_t mtu_bytes, int socket,
                       struct rte_mempool **out)
{
	return port_pool_create(name, mbufs, 1, netif_data_bytes(mtu_bytes), socket, out);
}

static bool
port_inserts_vlan(const char *driver)
{
	static const char *const by_descriptor[] = {"net_ixgbe", "net_i40e",      "net_ice",
	                                            "net_iavf",  "net_e1000_igb", "net_igc",
	                                            "mlx5_pci"};

	for (unsigned int i = 0; i < RTE_DIM(by_descriptor); i++)
		if (strcmp(driver, by_descriptor[i]) == 0)
			return true;
	return false;
}

/*
 * Whether what the port cuts arrives. DPDK's contract for TSO includes IPv4's header checksum. Of
 * the ports without that offload net_virtio fills the field in each segment. QEMU's vmxnet3 sends
 * IP fragments of the whole packet instead, which weft drops.
 */
static bool
port_cuts_whole(const struct weft_netif_port *p)
{
	return (p->tx_offloads & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM) != 0 ||
	       strcmp(p->driver, "net_virtio") == 0;
}

/*
 * Uses hardware for checksums and segmentation. What a driver does in software netif can do, too,
 * and net_tap's segmentation supports IPv4 only. A port gets TSO packets only if it has everything
 * that DPDK's contract for them demands (virtio ports do not compute the checksum of IPv4 headers).
 */
static void
port_offloads(struct weft_netif_port *p, const struct rte_eth_dev_info *info, bool vlans,
              uint32_t refused)
{
	const uint64_t cksum_rx = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM;
	const uint64_t cksum_tx = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
	uint64_t rx = cksum_rx | RTE_ETH_RX_OFFLOAD_SCATTER;
	uint64_t tx = cksum_tx | RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_TCP_TSO;

	if (strcmp(p->driver, "net_tap") == 0) {
		rx &= ~cksum_rx;
		tx &= ~cksum_tx;
	}
	if (vlans) {
		/* A port may drop tags that it was not told of, also without being asked to filter
		 * (virtio). So the filter is used where there is one: port_vlan() sets it. */
		rx |= RTE_ETH_RX_OFFLOAD_VLAN_STRIP | RTE_ETH_RX_OFFLOAD_VLAN_FILTER;
		/*
		 * Software drivers insert a tag by rte_vlan_insert(), which refuses an mbuf with
		 * another holder, and TCP holds every segment. So insertion is used only with
		 * drivers that are known to do it by descriptor.
		 */
		if (port_inserts_vlan(p->driver))
			tx |= RTE_ETH_TX_OFFLOAD_VLAN_INSERT;
	}
	p->rx_offloads = rx & info->rx_offload_capa & ~netif_offload_rx(refused);
	p->tx_offloads = tx & info->tx_offload_capa & ~netif_offload_tx(refused);
	if (!netif_tso_offered(p->tx_offloads) || !port_cuts_whole(p))
		p->tx_offloads &= ~RTE_ETH_TX_OFFLOAD_TCP_TSO;
	p->tx_mbufs_max = info->tx_desc_lim.nb_seg_max;
}

/*
 * Room for a frame in an entry of net_af_packet's ring: framesz without the octets that the kernel
 * and the driver put in front.
 */
static uint32_t
port_packet_room(const char *args)
{
	char framesz[16];
	uint32_t size_bytes = PORT_PACKET_FRAMESZ;

	if (netif_dev_arg(args, "framesz", framesz, sizeof(framesz)))
		size_bytes = RTE_MIN((uint32_t)strtoul(framesz, NULL, 10), 60000u);
	return size_bytes > PORT_PACKET_HEAD ? size_bytes - PORT_PACKET_HEAD : 0;
}

/* The MTU of the kernel's interface behind net_af_packet; 0: unknown. */
static uint16_t
port_packet_mtu(const char *args)
{
	struct ifreq ifr = {0};
	uint16_t mtu = 0;
	int fd;

	if (!netif_dev_arg(args, "iface", ifr.ifr_name, sizeof(ifr.ifr_name)))
		return 0;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	if (ioctl(fd, SIOCGIFMTU, &ifr) == 0 && ifr.ifr_mtu > 0 && ifr.ifr_mtu <= UINT16_MAX)
		mtu = (uint16_t)ifr.ifr_mtu;
	close(fd);
	return mtu;
}

/*
 * Whether the port carries frames beyond the MTU that it reports. Memory has no wire, and
 * net_af_packet reports 1500 octets whatever its ring and its interface take.
 */
static bool
port_mtu_is_nominal(const struct weft_netif_port *p, const char *dev)
{
	const char *args = weft_device_args(dev);
	char member[NETIF_DEV_MEMBER_MAX];

	if (weft_device_is_bond(dev)) {
		/* The slaves' own: one that carries no such frames has not admitted to it. */
		for (unsigned int i = 0; netif_dev_member(dev, i, member); i++) {
			args = weft_device_args(member);
			if (strncmp(member, "net_af_packet", 13) != 0 ||
			    port_packet_mtu(args) < p->mtu_bytes ||
			    port_packet_room(args) < (uint32_t)p->mtu_bytes + NETIF_ETHER_LEN)
				return false;
		}
		return true;
	}
	if (strcmp(p->driver, "net_af_packet") == 0)
		return port_packet_mtu(args) >= p->mtu_bytes &&
		       port_packet_room(args) >= (uint32_t)p->mtu_bytes + NETIF_ETHER_LEN;
	return strcmp(p->driver, "net_memif") == 0 || strcmp(p->driver, "net_ring") == 0;
}

/* The MTU to request at configuration: ours if the port's limits allow it, else 0 (its default). */
static uint16_t
port_config_mtu(uint16_t mtu, const struct rte_eth_dev_info *info)
{
	uint32_t overhead = NETIF_ETHER_LEN + RTE_ETHER_CRC_LEN;

	if (info->max_mtu != UINT16_MAX && info->max_mtu < info->max_rx_pktlen)
		overhead = info->max_rx_pktlen - info->max_mtu;
	if (mtu < info->min_mtu || mtu > info->max_mtu || mtu + overhead > info->max_rx_pktlen)
		return 0;
	return mtu;
}

/* Sets the port's MTU. Uses the port's own if that fails, unless its value is only nominal. */
static void
port_settle_mtu(struct weft_netif_port *p, const char *dev)
{
	uint16_t have = p->mtu_bytes; /* for a port that reports none */

	(void)rte_eth_dev_get_mtu(p->port_id, &have);
	if (have == p->mtu_bytes)
		return;
	if (rte_eth_dev_set_mtu(p->port_id, p->mtu_bytes) == 0)
		return;
	if (have >= p->mtu_bytes)
		return;
	if (port_mtu_is_nominal(p, dev)) {
		WEFT_LOG(netif, NOTICE, "%s admits to an MTU of %u only; using %u all the same",
		         p->devname, have, p->mtu_bytes);
		return;
	}
	WEFT_LOG(netif, WARNING, "%s refuses an MTU of %u; using %u", p->devname, p->mtu_bytes,
	         have);
	p->mtu_bytes = have;
}

static void
port_settle_mac(struct weft_netif_port *p)
{
	if (rte_eth_macaddr_get(p->port_id, &p->mac) == 0 &&
	    rte_is_valid_assigned_ether_addr(&p->mac))
		return;
	/* net_ring has none. Such a port does not filter, whether it takes ours or not. */
	rte_eth_random_addr(p->mac.addr_bytes);
	(void)rte_eth_dev_default_mac_addr_set(p->port_id, &p->mac);
}

/** Whether the port, or the slave of that name, is of that driver. */
static bool
port_is_driver(const struct weft_netif_port *p, const char *member, const char *driver)
{
	return strcmp(p->driver, driver) == 0 || strncmp(member, driver, strlen(driver)) == 0;
}

/** Octets of data that each mbuf of the port has room for. */
static uint32_t
port_data_bytes(const struct weft_netif_port_attr *attr, const struct weft_netif_port *p)
{
	uint32_t data = netif_data_bytes(p->mtu_bytes);
	char bsize[16], member[NETIF_DEV_MEMBER_MAX];

	for (unsigned int i = 0; netif_dev_member(attr->dev, i, member); i++) {
		const char *args = weft_device_args(member);
		uint32_t bsize_bytes = 0;

		/* Then memif's buffers and ours may be the same (zero-copy). */
		if (port_is_driver(p, member, "net_memif") &&
		    netif_dev_arg(args, "bsize", bsize, sizeof(bsize)))
			bsize_bytes = RTE_MIN((uint32_t)strtoul(bsize, NULL, 10), NETIF_DATA_MAX);
		data = RTE_MAX(data, bsize_bytes);
		/* A whole frame of the ring must fit, whatever the MTU is. */
		if (port_is_driver(p, member, "net_af_packet"))
			data = RTE_MAX(data,
			               port_packet_room(args) + PORT_PACKET_HEAD - PORT_PACKET_HDR);
	}
	return data;
}

/** Rings and pools of a port; each slave of a bonded port has rings of its own. */
static void
port_rings(const struct weft_netif_port *p, const struct rte_eth_dev_info *info, uint32_t mbufs,
           struct netif_rings *r)
{
	const uint32_t each = netif_bond_rings(p->bond);
	struct rte_eth_dev_info with = *info;

	with.rx_desc_lim.nb_min = RTE_MAX(with.rx_desc_lim.nb_min, netif_bond_rx_least(p->bond));
	netif_rings_plan(&with, p->rx_queues * each, p->tx_queues * each, mbufs, r);
}

static int
port_pool(const struct weft_netif_port_attr *attr, struct weft_netif_port *p,
          const struct rte_eth_dev_info *info)
{
	uint32_t data = port_data_bytes(attr, p);
	char name[RTE_MEMPOOL_NAMESIZE];
	struct netif_rings r;
	int ret;

	snprintf(name, sizeof(name), "weft_port_%u", p->port_id);
	port_rings(p, info, attr->mbufs, &r);
	if (r.rx_mbufs + r.tx_mbufs > attr->mbufs)
		WEFT_LOG(netif, NOTICE,
		         "%s: %u buffers instead of %u, because its rings have at "
		         "least %u and %u descriptors",
		         p->devname, r.rx_mbufs + r.tx_mbufs, attr->mbufs, r.rx_desc, r.tx_desc);
	ret = port_pool_create(name, r.rx_mbufs, attr->queues, data, p->socket, &p->pool);
	snprintf(name, sizeof(name), "weft_port_%u_tx", p->port_id);
	if (ret == 0)
		ret = port_pool_create(name, r.tx_mbufs, attr->queues, data, p->socket,
		                       &p->tx_pool);
	if (ret != 0)
		WEFT_LOG(netif, ERR, "%s: no memory for %u buffers of %u octets", p->devname,
		         r.rx_mbufs + r.tx_mbufs, data);
	return ret;
}

/** Memory of a pool, as rte_pktmbuf_pool_create() takes it. */
static uint64_t
port_pool_bytes(uint32_t mbufs, uint32_t threads, uint32_t data_bytes, uint32_t page_bytes)
{
	struct rte_mempool pool = {.cache_size = weft_netif_plan_cache(mbufs, threads)};
	struct rte_mempool_objsz sz;
	size_t least, align;
	ssize_t objects;

	rte_mempool_calc_obj_size((uint32_t)(sizeof(struct rte_mbuf) + PORT_PRIV_BYTES) +
	                                  port_mbuf_room(data_bytes),
	                          0, &sz);
	pool.header_size = sz.header_size;
	pool.elt_size = sz.elt_size;
	pool.trailer_size = sz.trailer_size;
	objects = rte_mempool_op_calc_mem_size_helper(&pool, mbufs, rte_log2_u32(page_bytes), 0,
	                                              &least, &align);
	return (uint64_t)RTE_MAX(objects, 0) + RTE_MEMPOOL_HEADER_SIZE(&pool, pool.cache_size) +
	       (uint64_t)rte_ring_get_memsize(rte_align32pow2(mbufs + 1));
}

uint64_t
weft_netif_plan_bytes(const char *dev, uint16_t mtu_bytes, uint32_t mbufs, uint32_t queues,
                      uint32_t page_bytes)
{
	/* The device is named, and not opened: its rings are taken for those of any device. */
	struct rte_eth_dev_info any = {.driver_name = NULL};
	char member[NETIF_DEV_MEMBER_MAX];
	uint32_t each = 0;
	const struct weft_netif_port_attr attr = {.dev = dev, .check = true};
	const struct weft_netif_port p = {.mtu_bytes = mtu_bytes != 0 ? mtu_bytes : RTE_ETHER_MTU};
	uint32_t data = port_data_bytes(&attr, &p);
	struct netif_rings r;

	/* Each slave of a bonded port has rings of its own. */
	while (weft_device_member(dev, each, member, sizeof(member)) == 0) {
		if (weft_device_is_xdp(member))
			any.rx_desc_lim.nb_min = netif_rings_rx_least("net_af_xdp");
		each++;
	}
	each = RTE_MAX(each, 1u);
	netif_rings_plan(&any, queues * each, queues * each, mbufs, &r);
	return port_pool_bytes(r.rx_mbufs, queues, data, page_bytes) +
	       port_pool_bytes(r.tx_mbufs, queues, data, page_bytes);
}

static int
port_configure(struct weft_netif_port *p, const struct rte_eth_dev_info *info, uint32_t mbufs,
               const char *dev)
{
	struct rte_eth_conf conf = {0};
	struct rte_eth_rxconf rxconf = info->default_rxconf;
	struct rte_eth_txconf txconf = info->default_txconf;
	struct netif_rings r;
	int ret;

	port_rings(p, info, mbufs, &r);
	if (!netif_bond_memory_ok(p->bond, r.tx_desc, p->socket)) {
		WEFT_LOG(netif, ERR, "%s: no memory for the messages of LACP", p->devname);
		return -ENOMEM;
	}
	conf.intr_conf.rxq = p->rx_intr;
	conf.lpbk_mode = p->looped ? 1 : 0;
	conf.rxmode.mtu = port_config_mtu(p->mtu_bytes, info);
	conf.rxmode.offloads = p->rx_offloads;
	conf.txmode.offloads = p->tx_offloads;
	if (p->rss)
		netif_rss_conf(p, info, &conf);
	ret = rte_eth_dev_configure(p->port_id, p->rx_queues, p->tx_queues, &conf);
	if (ret == 0)
		ret = rte_eth_dev_adjust_nb_rx_tx_desc(p->port_id, &r.rx_desc, &r.tx_desc);
	p->rx_desc = r.rx_desc * r.rx_rings;
	rxconf.offloads = p->rx_offloads;
	txconf.offloads = p->tx_offloads;
	for (uint16_t q = 0; ret == 0 && q < p->rx_queues; q++)
		ret = rte_eth_rx_queue_setup(p->port_id, q, r.rx_desc, (unsigned int)p->socket,
		                             &rxconf, p->pool);
	for (uint16_t q = 0; ret == 0 && q < p->tx_queues; q++)
		ret = rte_eth_tx_queue_setup(p->port_id, q, r.tx_desc, (unsigned int)p->socket,
		                             &txconf);
	if (ret == 0) {
		port_settle_mtu(p, dev);
		ret = rte_eth_dev_start(p->port_id);
	}
	/*
	 * Neighbor Discovery uses multicast groups. A port that refuses has no filter (most virtual
	 * ports), or none that we can set. In that case IPv6 peers do not find us, and this line
	 * tells why.
	 */
	if (ret == 0 && rte_eth_allmulticast_enable(p->port_id) != 0)
		WEFT_LOG(netif, INFO, "%s does not take all multicast frames by request",
		         p->devname);
	if (ret == 0)
		netif_bond_started(p->bond, p->port_id);
	if (ret != 0) {
		WEFT_LOG(netif, ERR, "cannot start %s%s", p->devname,
		         strcmp(p->driver, "net_memif") == 0
		                 ? " (a client needs a server that listens)"
		                 : "");
		return ret == -ENOMEM || ret == -ENOTSUP ? ret : -ENODEV;
	}
	return 0;
}

/*
 * Whether to ask for receive interrupts. They need MSI-X, which uio_pci_generic has not, and which
 * vfio-pci has where the chip does. Drivers of virtual devices refuse, or have none.
 */
static bool
port_interrupts(const struct rte_eth_dev_info *info)
{
	struct weft_device_info pci = {.size = sizeof(pci)};

	return info->device != NULL && weft_device_info(rte_dev_name(info->device), &pci) == 0 &&
	       (pci.binding == WEFT_DEVICE_VFIO || pci.binding == WEFT_DEVICE_BIFURCATED);
}

/**
 * The self-test: the port is started with the loopback of its device, and stopped again. What the
 * device does incorrectly is not asked for when the port is started for good. A port that does not
 * start so is not tested.
 */
static int
port_selftest(struct weft_netif_port *p, const struct weft_netif_port_attr *attr,
              const struct rte_eth_dev_info *info)
{
	struct netif_loop r = {.loops = false};
	uint8_t key[sizeof(p->rss_key)];
	int ret;

	if (!netif_loop_driver(p->driver)) {
		WEFT_LOG(netif, NOTICE, "%s: no self-test, because its driver has no loopback",
		         p->devname);
		return 0;
	}
	p->looped = true;
	ret = port_configure(p, info, attr->mbufs, attr->dev);
	if (ret == 0) {
		/* What the port reports as its key is not what is asked for in earnest: peers must
		 * not know that. */
		memcpy(key, p->rss_key, sizeof(key));
		netif_loop_run(p, p->rss && netif_rss_read(p, info) == 0, &r);
		memcpy(p->rss_key, key, sizeof(key));
		p->rss_key_bytes = sizeof(p->rss_key);
		ret = rte_eth_dev_stop(p->port_id) == 0 ? 0 : -ENODEV;
	}
	p->looped = false;
	if (ret != 0 || !r.loops) {
		WEFT_LOG(netif, WARNING, "%s: no self-test, because no frame came back",
		         p->devname);
		return ret == -ENODEV && r.loops ? ret : 0;
	}
	p->rx_offloads &= ~netif_offload_rx(r.failed);
	p->tx_offloads &= ~netif_offload_tx(r.failed);
	p->selftest_failed = r.failed;
	p->selftest_frames = r.frames;
	p->selftest_wrong = r.wrong;
	p->rss_astray = r.astray;
	WEFT_LOG(netif, NOTICE, "%s: self-test: %u frames came back, %u wrong%s%s%s%s", p->devname,
	         r.frames, r.wrong,
	         (r.failed & WEFT_OFFLOAD_RX_CHECKSUM) != 0 ? "; no rx-checksum" : "",
	         (r.failed & WEFT_OFFLOAD_TX_CHECKSUM) != 0 ? "; no tx-checksum" : "",
	         (r.failed & WEFT_OFFLOAD_TSO) != 0 ? "; no tso" : "",
	         r.astray ? "; RSS by another key or table" : "");
	return 0;
}

/* Starts the port with RSS if wanted and offered. Starts it again without RSS if the port does not
 * report how it steers. */
static int
port_start(struct weft_netif_port *p, const struct weft_netif_port_attr *attr,
           const struct rte_eth_dev_info *info)
{
	int ret;

	netif_rss_draw(attr->rand, p->rss_key);
	p->rss_key_bytes = sizeof(p->rss_key);
	if (attr->selftest && !attr->check) {
		ret = port_selftest(p, attr, info);
		if (ret != 0)
			return ret;
	}
	p->rx_intr = !attr->no_intr && port_interrupts(info);
	ret = port_configure(p, info, attr->mbufs, attr->dev);
	if (ret != 0 && p->rx_intr) {
		p->rx_intr = false;
		ret = port_configure(p, info, attr->mbufs, attr->dev);
	}
	if (!p->rss || (ret == 0 && netif_rss_read(p, info) == 0))
		return ret;
	WEFT_LOG(netif, NOTICE, "%s does not say how its RSS steers: worker 0 distributes",
	         p->devname);
	if (ret == 0 && rte_eth_dev_stop(p->port_id) != 0)
		return -ENODEV;
	p->rss = false;
	p->rx_queues = 1;
	p->rx_offloads &= ~RTE_ETH_RX_OFFLOAD_RSS_HASH;
	return port_configure(p, info, attr->mbufs, attr->dev);
}

static bool
port_tagged(const struct weft_netif_port_attr *attr)
{
	for (unsigned int i = 0; i < attr->nvlans; i++)
		if (attr->vlans[i] != 0)
			return true;
	return false;
}

/** Let the port's filter pass our VLANs. Untagged frames pass every filter. So do priority tags
 * (VLAN 0), or only if the filter has VLAN 0; a port that refuses to enter it passes them. */
static int
port_vlan(const struct weft_netif_port *p, const struct weft_netif_port_attr *attr)
{
	if (!(p->rx_offloads & RTE_ETH_RX_OFFLOAD_VLAN_FILTER))
		return 0;
	for (unsigned int i = 0; i < attr->nvlans; i++) {
		int ret = rte_eth_dev_vlan_filter(p->port_id, attr->vlans[i], 1);

		if (ret == 0 || attr->vlans[i] == 0)
			continue;
		WEFT_LOG(netif, ERR, "%s does not let VLAN %u through its filter: %s", p->devname,
		         attr->vlans[i], strerror(-ret));
		return -ENODEV;
	}
	return 0;
}

/*
 * net_memif closes its connection in EAL's interrupt thread when the peer leaves, and in our thread
 * when we leave, without a lock (DPDK 22.11). Wait until the other thread has finished.
 */
static void
port_memif_settle(const struct weft_netif_port *p)
{
	if (strcmp(p->driver, "net_memif") == 0)
		usleep(PORT_MEMIF_SETTLE_US);
}

/*
 * A memif server listens from its creation on. It refuses clients until it is started, and until it
 * has seen the previous client leave. net_memif asks once, so start it again until it has a link.
 */
static int
port_memif_join(const struct weft_netif_port *p, const char *args)
{
	char role[16] = "client";
	uint32_t wait_ms = PORT_MEMIF_JOIN_MS;

	netif_dev_arg(args, "role", role, sizeof(role));
	if (strcmp(p->driver, "net_memif") != 0 ||
	    (strcmp(role, "client") != 0 && strcmp(role, "slave") != 0))
		return 0;
	for (unsigned int try = 0; try < PORT_MEMIF_JOINS; try++, wait_ms *= 2) {
		if (try > 0) {
			if (rte_eth_dev_stop(p->port_id) != 0)
				break;
			port_memif_settle(p);
			if (rte_eth_dev_start(p->port_id) != 0) {
				WEFT_LOG(netif, ERR, "%s: its server is gone", p->devname);
				return -ENODEV;
			}
		}
		for (uint32_t ms = 0; ms < wait_ms; ms++) {
			if (weft_netif_port_link(p))
				return 0;
			usleep(1000);
		}
	}
	WEFT_LOG(netif, WARNING, "%s: its server takes no client now", p->devname);
	return 0;
}

int
weft_netif_port_open(const struct weft_netif_port_attr *attr, struct weft_netif_port *out)
{
	static unsigned int stand_ins;
	uint32_t refused = attr->no_offloads;
	struct weft_netif_port p = {.mtu_bytes = attr->mtu_bytes, .lock_fd = -1};
	struct rte_eth_dev_info info;
	char stand_in[32], memif[NETIF_MEMIF_ARGS_MAX];
	const char *args;
	int ret;

	if (attr->dev == NULL || attr->queues == 0 || attr->queues > WEFT_GROUP_MEMBERS ||
	    attr->mbufs < 2 || attr->nvlans > WEFT_NETIF_NETS)
		return -EINVAL;
	if (p.mtu_bytes == 0)
		p.mtu_bytes = RTE_ETHER_MTU;
	ret = netif_attach_check(attr->dev);
	if (ret != 0)
		return ret;
	if (attr->check && !netif_attach_known(attr->dev)) {
		WEFT_LOG(netif, ERR, "'%s': no port and no driver of that name",
		         netif_dev_shown(attr->dev));
		return -ENODEV;
	}
	args = strchr(attr->dev, ',');
	if (attr->check && strncmp(attr->dev, "net_memif", 9) == 0)
		ret = netif_memif_args(args != NULL ? args + 1 : "", p.mtu_bytes, memif,
		                       sizeof(memif));
	if (ret != 0)
		return ret;
	if (attr->check)
		snprintf(stand_in, sizeof(stand_in), "net_null_weft%u", stand_ins++);
	if (attr->check && !netif_attach_known(stand_in))
		return -ENOTSUP;
	ret = netif_attach(attr->check ? stand_in : attr->dev, &p);
	if (ret != 0)
		goto fail;
	ret = rte_eth_dev_info_get(p.port_id, &info);
	if (ret != 0) {
		ret = -ENODEV;
		goto fail;
	}
	snprintf(p.driver, sizeof(p.driver), "%s", info.driver_name);
	p.socket = rte_eth_dev_socket_id(p.port_id);
	/* With shared buffers the driver loses a part of a chain for which the ring is too full. */
	if (weft_device_is_zero_copy(attr->dev))
		refused |= WEFT_OFFLOAD_GATHER;
	port_offloads(&p, &info, port_tagged(attr), refused);
	netif_rss_plan(&p, p.bond != NULL ? 1 : attr->queues, &info,
	               (attr->no_offloads & WEFT_OFFLOAD_RSS) == 0);
	ret = port_pool(attr, &p, &info);
	if (ret == 0 && weft_device_is_zero_copy(attr->dev))
		ret = netif_memif_shared_check(attr->dev, p.pool, p.tx_pool, attr->queues);
	if (ret == 0)
		ret = port_start(&p, attr, &info);
	if (ret == 0)
		ret = port_vlan(&p, attr);
	if (ret == 0 && p.created)
		ret = port_memif_join(&p, args != NULL ? args + 1 : "");
	if (ret != 0)
		goto fail;
	port_settle_mac(&p);
	*out = p;
	return 0;
fail:
	if (!p.created && p.pool != NULL) {
		/* The port stays, and its rings may have buffers of the pool. */
		(void)rte_eth_dev_stop(p.port_id);
	}
	if (p.created && p.bond != NULL)
		rte_eth_dev_close(p.port_id); /* its driver refuses to be removed with slaves */
	netif_detach(&p);
	rte_mempool_free(p.pool);
	rte_mempool_free(p.tx_pool);
	return ret;
}

/** The part of closing that the device of a removed port has behind it. */
static void
port_stop(struct weft_netif_port *p)
{
	int ret;

	port_memif_settle(p);
	ret = rte_eth_dev_stop(p->port_id);
	port_memif_settle(p);
	if (ret != 0)
		WEFT_LOG(netif, WARNING, "cannot stop %s: %s", p->devname, strerror(-ret));
	rte_eth_dev_close(p->port_id);
}

void
weft_netif_port_close(struct weft_netif_port *p)
{
	weft_netif_port_unwatch(p);
	if (p->created)
		netif_memif_end(p->devname);
	if (!p->given_back)
		port_stop(p);
	else
		p->created = false; /* it was removed */
	netif_detach(p);
	rte_mempool_free(p->pool);
	rte_mempool_free(p->tx_pool);
	p->pool = p->tx_pool = NULL;
}

bool
weft_netif_port_link(const struct weft_netif_port *p)
{
	bool up;

	if (!netif_removal_begin(p))
		return false;
	up = netif_bond_is(p->port_id) ? netif_bond_link(p->port_id)
	                               : netif_carrier_link(p->port_id);
	netif_removal_end(p);
	return up;
}

/** Flow control as the port has it now; -1: it does not say. */
static void
port_pause(uint16_t port_id, struct weft_netif_link *link)
{
	struct rte_eth_fc_conf fc = {0};

	link->pause_rx = link->pause_tx = -1;
	if (rte_eth_dev_flow_ctrl_get(port_id, &fc) != 0)
		return;
	link->pause_rx = fc.mode == RTE_ETH_FC_FULL || fc.mode == RTE_ETH_FC_RX_PAUSE;
	link->pause_tx = fc.mode == RTE_ETH_FC_FULL || fc.mode == RTE_ETH_FC_TX_PAUSE;
}

void
weft_netif_port_link_info(const struct weft_netif_port *p, struct weft_netif_link *link)
{
	struct rte_eth_link l = {0};

	*link = (struct weft_netif_link){.pause_rx = -1, .pause_tx = -1};
	if (!netif_removal_begin(p))
		return;
	if (netif_carrier_get(p->port_id, &l) == 0) {
		link->up = l.link_status != 0;
		link->full_duplex = l.link_duplex != 0;
		link->speed_mbps = l.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : l.link_speed;
	}
	if (netif_bond_is(p->port_id)) {
		link->up = netif_bond_link(p->port_id);
		netif_bond_describe(p->port_id, link->slaves, sizeof(link->slaves));
	}
	port_pause(p->port_id, link);
	netif_removal_end(p);
}

uint64_t
weft_netif_port_missed(const struct weft_netif_port *p)
{
	struct rte_eth_stats st;
	uint64_t missed = 0;

	if (!netif_removal_begin(p))
		return 0;
	if (rte_eth_stats_get(p->port_id, &st) == 0)
		missed = st.imissed + st.rx_nombuf;
	netif_removal_end(p);
	return missed;
}
