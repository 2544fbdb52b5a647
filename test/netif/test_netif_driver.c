/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Ports with other limits than this computer's virtual ones, and lack of memory. This program
 * wraps the DPDK calls that set up a port, and puts its own results in front of net_null's.
 */

#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <sys/ioctl.h>

#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_malloc.h>

#include "weft_netif.h"
#include "weft_netif_attr.h"
#include "weft_netif_group.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_port.h"
#include "weft_sched.h"
#include "weft_test.h"
#include <weft/offload.h>

static struct {
	const char *driver; /**< NULL: the real name */
	uint16_t max_mtu, desc_max, mtu;
	uint32_t max_rx_pktlen;
	uint64_t tx_capa, rx_capa; /**< added to the port's own */
	uint16_t rx_desc_min, tx_desc_min, tx_desc_align;
	uint16_t max_tx_queues; /**< 0: the port's own */
	int vlan_rc;            /**< result of setting the filter */
	int configure_rc, reta_update_rc, reta_query_rc;
	int stop_rc, restart_rc; /**< results of rte_eth_dev_stop(), and of the next start */
	uint64_t link_after_us;  /**< sleep time from the open until there is a link; 0: at once */
	int if_mtu;              /**< MTU of the kernel's interface; negative: -errno */
	/* seen */
	uint16_t conf_mtu, nrx, ntx, ntxq, vlan_passed;
	unsigned int vlans_passed, vlan_sum; /**< calls of the filter, and what they named */
	uint64_t conf_rx;                    /**< offloads asked for */
	unsigned int configures, adjusts, links_asked, starts;
	uint64_t slept_us, start_us[8]; /**< time of each start */
	/** allocations of zeroed memory, and the one that fails, from 1 */
	unsigned int allocs, fail_alloc;
	char if_asked[IFNAMSIZ];
} nic;

int __real_rte_eal_hotplug_add(const char *bus, const char *name, const char *args);
int __wrap_rte_eal_hotplug_add(const char *bus, const char *name, const char *args);

/* net_null refuses the arguments of the driver that it replaces here. */
int
__wrap_rte_eal_hotplug_add(const char *bus, const char *name, const char *args)
{
	return __real_rte_eal_hotplug_add(bus, name, nic.driver != NULL ? "" : args);
}

int __wrap_rte_eth_link_get_nowait(uint16_t port, struct rte_eth_link *link);

int
__wrap_rte_eth_link_get_nowait(uint16_t port, struct rte_eth_link *link)
{
	(void)port;
	nic.links_asked++;
	memset(link, 0, sizeof(*link));
	link->link_status = nic.slept_us >= nic.link_after_us;
	return 0;
}

int __real_rte_eth_dev_start(uint16_t port);
int __wrap_rte_eth_dev_start(uint16_t port);

int
__wrap_rte_eth_dev_start(uint16_t port)
{
	if (nic.starts < RTE_DIM(nic.start_us))
		nic.start_us[nic.starts] = nic.slept_us;
	return nic.starts++ > 0 && nic.restart_rc != 0 ? nic.restart_rc
	                                               : __real_rte_eth_dev_start(port);
}

int __real_rte_eth_dev_stop(uint16_t port);
int __wrap_rte_eth_dev_stop(uint16_t port);

int
__wrap_rte_eth_dev_stop(uint16_t port)
{
	return nic.stop_rc != 0 ? nic.stop_rc : __real_rte_eth_dev_stop(port);
}

int __wrap_usleep(useconds_t us);

int
__wrap_usleep(useconds_t us)
{
	nic.slept_us += us;
	return 0;
}

int __wrap_ioctl(int fd, unsigned long request, ...);

int
__wrap_ioctl(int fd, unsigned long request, ...)
{
	struct ifreq *ifr;
	va_list ap;

	va_start(ap, request);
	ifr = va_arg(ap, struct ifreq *);
	va_end(ap);
	CHECK(fd >= 0);
	CHECK_EQ(request, SIOCGIFMTU);
	snprintf(nic.if_asked, sizeof(nic.if_asked), "%s", ifr->ifr_name);
	if (nic.if_mtu < 0) {
		errno = -nic.if_mtu;
		return -1;
	}
	ifr->ifr_mtu = nic.if_mtu;
	return 0;
}

int __real_rte_eth_dev_info_get(uint16_t port, struct rte_eth_dev_info *info);
int __wrap_rte_eth_dev_info_get(uint16_t port, struct rte_eth_dev_info *info);

int
__wrap_rte_eth_dev_info_get(uint16_t port, struct rte_eth_dev_info *info)
{
	int rc = __real_rte_eth_dev_info_get(port, info);

	if (nic.driver != NULL)
		info->driver_name = nic.driver;
	if (nic.max_mtu != 0)
		info->max_mtu = nic.max_mtu;
	if (nic.max_rx_pktlen != 0)
		info->max_rx_pktlen = nic.max_rx_pktlen;
	info->tx_offload_capa |= nic.tx_capa;
	info->rx_offload_capa |= nic.rx_capa;
	if (nic.rx_desc_min != 0)
		info->rx_desc_lim.nb_min = nic.rx_desc_min;
	if (nic.tx_desc_min != 0)
		info->tx_desc_lim.nb_min = nic.tx_desc_min;
	if (nic.tx_desc_align != 0)
		info->tx_desc_lim.nb_align = nic.tx_desc_align;
	if (nic.max_tx_queues != 0)
		info->max_tx_queues = nic.max_tx_queues;
	return rc;
}

int __real_rte_eth_dev_configure(uint16_t port, uint16_t nrx, uint16_t ntx,
                                 const struct rte_eth_conf *conf);
int __wrap_rte_eth_dev_configure(uint16_t port, uint16_t nrx, uint16_t ntx,
                                 const struct rte_eth_conf *conf);

int
__wrap_rte_eth_dev_configure(uint16_t port, uint16_t nrx, uint16_t ntx,
                             const struct rte_eth_conf *conf)
{
	struct rte_eth_conf c = *conf;

	nic.configures++;
	nic.conf_mtu = (uint16_t)c.rxmode.mtu;
	c.rxmode.mtu = 0;
	c.txmode.offloads &= ~nic.tx_capa;
	nic.conf_rx = c.rxmode.offloads;
	c.rxmode.offloads &= ~nic.rx_capa;
	nic.ntxq = ntx;
	return nic.configure_rc != 0 ? nic.configure_rc
	                             : __real_rte_eth_dev_configure(port, nrx, ntx, &c);
}

int __wrap_rte_eth_dev_adjust_nb_rx_tx_desc(uint16_t port, uint16_t *nrx, uint16_t *ntx);

int
__wrap_rte_eth_dev_adjust_nb_rx_tx_desc(uint16_t port, uint16_t *nrx, uint16_t *ntx)
{
	(void)port;
	nic.adjusts++;
	if (nic.desc_max != 0) {
		*nrx = RTE_MIN(*nrx, nic.desc_max);
		*ntx = RTE_MIN(*ntx, nic.desc_max);
	}
	return 0;
}

int __real_rte_eth_rx_queue_setup(uint16_t port, uint16_t q, uint16_t n, unsigned int socket,
                                  const struct rte_eth_rxconf *conf, struct rte_mempool *pool);
int __wrap_rte_eth_rx_queue_setup(uint16_t port, uint16_t q, uint16_t n, unsigned int socket,
                                  const struct rte_eth_rxconf *conf, struct rte_mempool *pool);

int
__wrap_rte_eth_rx_queue_setup(uint16_t port, uint16_t q, uint16_t n, unsigned int socket,
                              const struct rte_eth_rxconf *conf, struct rte_mempool *pool)
{
	struct rte_eth_rxconf c = *conf;

	nic.nrx = n;
	c.offloads &= ~nic.rx_capa;
	return __real_rte_eth_rx_queue_setup(port, q, n, socket, &c, pool);
}

int __wrap_rte_eth_dev_vlan_filter(uint16_t port, uint16_t id, int on);

int
__wrap_rte_eth_dev_vlan_filter(uint16_t port, uint16_t id, int on)
{
	(void)port;
	CHECK_EQ(on, 1);
	nic.vlan_passed = id;
	nic.vlan_sum += id;
	nic.vlans_passed++;
	return id == 0 ? -EINVAL : nic.vlan_rc;
}

int __real_rte_eth_tx_queue_setup(uint16_t port, uint16_t q, uint16_t n, unsigned int socket,
                                  const struct rte_eth_txconf *conf);
int __wrap_rte_eth_tx_queue_setup(uint16_t port, uint16_t q, uint16_t n, unsigned int socket,
                                  const struct rte_eth_txconf *conf);

int
__wrap_rte_eth_tx_queue_setup(uint16_t port, uint16_t q, uint16_t n, unsigned int socket,
                              const struct rte_eth_txconf *conf)
{
	struct rte_eth_txconf c = *conf;

	nic.ntx = n;
	c.offloads &= ~nic.tx_capa;
	return __real_rte_eth_tx_queue_setup(port, q, n, socket, &c);
}

int __wrap_rte_eth_dev_get_mtu(uint16_t port, uint16_t *mtu);

int
__wrap_rte_eth_dev_get_mtu(uint16_t port, uint16_t *mtu)
{
	(void)port;
	if (nic.mtu == 0)
		return -ENODEV;
	*mtu = nic.mtu;
	return 0;
}

int __wrap_rte_eth_dev_set_mtu(uint16_t port, uint16_t mtu);

int
__wrap_rte_eth_dev_set_mtu(uint16_t port, uint16_t mtu)
{
	(void)port;
	(void)mtu;
	return -ENOTSUP;
}

int __real_rte_eth_dev_rss_reta_update(uint16_t port, struct rte_eth_rss_reta_entry64 *r,
                                       uint16_t n);
int __wrap_rte_eth_dev_rss_reta_update(uint16_t port, struct rte_eth_rss_reta_entry64 *r,
                                       uint16_t n);

int
__wrap_rte_eth_dev_rss_reta_update(uint16_t port, struct rte_eth_rss_reta_entry64 *r, uint16_t n)
{
	return nic.reta_update_rc != 0 ? nic.reta_update_rc
	                               : __real_rte_eth_dev_rss_reta_update(port, r, n);
}

int __real_rte_eth_dev_rss_reta_query(uint16_t port, struct rte_eth_rss_reta_entry64 *r,
                                      uint16_t n);
int __wrap_rte_eth_dev_rss_reta_query(uint16_t port, struct rte_eth_rss_reta_entry64 *r,
                                      uint16_t n);

int
__wrap_rte_eth_dev_rss_reta_query(uint16_t port, struct rte_eth_rss_reta_entry64 *r, uint16_t n)
{
	return nic.reta_query_rc != 0 ? nic.reta_query_rc
	                              : __real_rte_eth_dev_rss_reta_query(port, r, n);
}

void *__real_rte_zmalloc(const char *type, size_t size, unsigned int align);
void *__wrap_rte_zmalloc(const char *type, size_t size, unsigned int align);

void *
__wrap_rte_zmalloc(const char *type, size_t size, unsigned int align)
{
	return ++nic.allocs == nic.fail_alloc ? NULL : __real_rte_zmalloc(type, size, align);
}

void *__real_rte_zmalloc_socket(const char *type, size_t size, unsigned int align, int socket);
void *__wrap_rte_zmalloc_socket(const char *type, size_t size, unsigned int align, int socket);

void *
__wrap_rte_zmalloc_socket(const char *type, size_t size, unsigned int align, int socket)
{
	return ++nic.allocs == nic.fail_alloc
	               ? NULL
	               : __real_rte_zmalloc_socket(type, size, align, socket);
}

/* ---- Cases ---- */

static uint32_t no_offloads; /**< of the ports that are opened */

static int
open_as(const char *dev, uint16_t mtu, uint16_t queues, bool vlan, struct weft_netif_port *p)
{
	struct weft_netif_port_attr pa = {.dev = dev,
	                                  .mtu_bytes = mtu,
	                                  .mbufs = 8192,
	                                  .queues = queues,
	                                  .no_offloads = no_offloads,
	                                  .vlans = {vlan ? 100 : 0},
	                                  .nvlans = 1};

	test_eal_init();
	nic.configures = nic.adjusts = nic.starts = nic.links_asked = 0;
	nic.slept_us = 0;
	return weft_netif_port_open(&pa, p);
}

static int
open_port(uint16_t mtu, uint16_t queues, bool vlan, struct weft_netif_port *p)
{
	return open_as("net_null8", mtu, queues, vlan, p);
}

/** A queue has as many descriptors as the port supports. If they cannot be set up, the open
 * fails. */
static void
test_descriptors(void)
{
	struct weft_netif_port p;

	memset(&nic, 0, sizeof(nic));
	nic.mtu = 1500;
	CHECK_EQ(open_port(1500, 1, false, &p), 0);
	CHECK(nic.nrx > 256 && nic.ntx > 256);
	CHECK_EQ(p.rx_desc, nic.nrx);
	weft_netif_port_close(&p);
	nic.desc_max = 256;
	CHECK_EQ(open_port(1500, 1, false, &p), 0);
	CHECK_EQ(nic.nrx, 256);
	CHECK_EQ(nic.ntx, 256);
	CHECK_EQ(p.rx_desc, 256);
	weft_netif_port_close(&p);
	nic.configure_rc = -EINVAL;
	nic.nrx = 0;
	CHECK_EQ(open_port(1500, 1, false, &p), -ENODEV);
	CHECK_EQ(nic.nrx, 0);
	nic.configure_rc = -ENOMEM;
	CHECK_EQ(open_port(1500, 1, false, &p), -ENOMEM);
}

/*
 * Rings and pools of a port fit each other, whatever `mbufs` says: receive rings hold at most half
 * of their pool, transmit rings a quarter. A port whose smallest rings are larger gets more
 * buffers.
 */
static void
test_rings(void)
{
	static const struct {
		const char *driver;
		uint32_t mbufs;
		uint16_t queues, rx_min, tx_min, tx_align;
		uint16_t nrx, ntx;
		uint32_t rx_desc, rx_mbufs, tx_mbufs;
	} rows[] = {
	        {"net_ice", 8192, 1, 0, 0, 0, 1024, 1024, 1024, 4096, 4096},
	        {"net_ice", 16384, 1, 0, 0, 0, 1024, 1024, 1024, 8192, 8192},
	        {"net_ice", 1024, 1, 0, 0, 0, 256, 128, 256, 512, 512},
	        {"net_ice", 8192, 4, 0, 0, 0, 512, 256, 2048, 4096, 4096},
	        {"net_ice", 3000, 2, 0, 0, 0, 256, 128, 512, 1500, 1500},
	        /* Two receive rings each, and large smallest rings. */
	        {"net_vmxnet3", 8192, 1, 128, 512, 512, 1024, 1024, 2048, 4096, 4096},
	        {"net_vmxnet3", 1024, 1, 128, 512, 512, 128, 512, 256, 512, 2048},
	        {"net_vmxnet3", 2048, 2, 128, 512, 512, 128, 512, 512, 1024, 4096},
	        {"net_ice", 1024, 2, 1024, 64, 0, 1024, 64, 2048, 4096, 512},
	        /* Its queues take 2048 buffers each, which it does not report. */
	        {"net_af_xdp", 1024, 1, 0, 0, 0, 2048, 128, 2048, 4096, 512},
	        {"net_af_xdp", 16384, 1, 0, 0, 0, 2048, 1024, 2048, 8192, 8192},
	        {"net_ice", 1024, 1, 0, 100, 64, 256, 128, 256, 512, 512},
	};

	test_eal_init();
	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		struct weft_netif_port_attr pa = {.dev = "net_null8",
		                                  .mtu_bytes = 1500,
		                                  .mbufs = rows[i].mbufs,
		                                  .queues = rows[i].queues};
		struct weft_netif_port p;

		memset(&nic, 0, sizeof(nic));
		nic.driver = rows[i].driver;
		nic.mtu = 1500;
		nic.rx_desc_min = rows[i].rx_min;
		nic.tx_desc_min = rows[i].tx_min;
		nic.tx_desc_align = rows[i].tx_align;
		test_eal_init();
		CHECK_EQ(weft_netif_port_open(&pa, &p), 0);
		CHECK_MSG(nic.nrx == rows[i].nrx && nic.ntx == rows[i].ntx, "row %u: %u and %u", i,
		          nic.nrx, nic.ntx);
		CHECK_MSG(p.rx_desc == rows[i].rx_desc, "row %u: %u held", i, p.rx_desc);
		CHECK_MSG(p.pool->size == rows[i].rx_mbufs && p.tx_pool->size == rows[i].tx_mbufs,
		          "row %u: %u and %u", i, p.pool->size, p.tx_pool->size);
		weft_netif_port_close(&p);
	}
}

/** A driver that claims a transmit queue which its chips do not have is not believed. */
static void
test_tx_queues(void)
{
	struct weft_netif_port p;

	memset(&nic, 0, sizeof(nic));
	nic.driver = "net_e1000_em";
	nic.mtu = 1500;
	nic.max_tx_queues = 2;
	CHECK_EQ(open_port(1500, 2, false, &p), 0);
	CHECK_EQ(p.tx_queues, 1);
	CHECK(!p.rss);
	weft_netif_port_close(&p);
	nic.driver = "net_ice";
	CHECK_EQ(open_port(1500, 2, false, &p), 0);
	CHECK_EQ(p.tx_queues, 2);
	weft_netif_port_close(&p);
}

/** A port with a VLAN filter is told our VLAN. A port that refuses it cannot be used. */
static void
test_vlan_filter(void)
{
	struct weft_netif_port p;

	memset(&nic, 0, sizeof(nic));
	nic.driver = "net_virtio";
	nic.mtu = 1500;
	CHECK_EQ(open_port(1500, 1, true, &p), 0);
	CHECK_EQ(nic.vlan_passed, 0);
	weft_netif_port_close(&p);
	nic.rx_capa = RTE_ETH_RX_OFFLOAD_VLAN_FILTER;
	CHECK_EQ(open_port(1500, 1, true, &p), 0);
	CHECK((nic.conf_rx & RTE_ETH_RX_OFFLOAD_VLAN_FILTER) != 0);
	CHECK_EQ(nic.vlan_passed, 100);
	weft_netif_port_close(&p);
	nic.vlan_passed = 0;
	CHECK_EQ(open_port(1500, 1, false, &p), 0);
	CHECK_EQ(nic.conf_rx & RTE_ETH_RX_OFFLOAD_VLAN_FILTER, 0);
	CHECK_EQ(nic.vlan_passed, 0);
	weft_netif_port_close(&p);
	nic.vlan_rc = -ENOSPC;
	CHECK_EQ(open_port(1500, 1, true, &p), -ENODEV);
}

/** Untagged frames beside those of two VLANs: the filter is told each. That it refuses VLAN 0,
 * which priority tags have, does not matter. */
static void
test_vlan_filters(void)
{
	struct weft_netif_port_attr pa = {.dev = "net_null8",
	                                  .mtu_bytes = 1500,
	                                  .mbufs = 8192,
	                                  .queues = 1,
	                                  .vlans = {100, 0, 4094},
	                                  .nvlans = 3};
	struct weft_netif_port p;

	memset(&nic, 0, sizeof(nic));
	nic.driver = "net_virtio";
	nic.mtu = 1500;
	nic.rx_capa = RTE_ETH_RX_OFFLOAD_VLAN_FILTER;
	test_eal_init();
	CHECK_EQ(weft_netif_port_open(&pa, &p), 0);
	CHECK_EQ(nic.vlans_passed, 3);
	CHECK_EQ(nic.vlan_sum, 4194);
	weft_netif_port_close(&p);
	/* Untagged alone, and no filter is asked for. */
	nic.vlans_passed = 0;
	pa.vlans[0] = 0;
	pa.nvlans = 1;
	CHECK_EQ(weft_netif_port_open(&pa, &p), 0);
	CHECK_EQ(nic.conf_rx & RTE_ETH_RX_OFFLOAD_VLAN_FILTER, 0);
	CHECK_EQ(nic.vlans_passed, 0);
	weft_netif_port_close(&p);
	pa.nvlans = WEFT_NETIF_NETS + 1;
	CHECK_EQ(weft_netif_port_open(&pa, &p), -EINVAL);
}

/** Each offload can be left out, and what needs it is left out with it. */
static void
test_offloads_left_out(void)
{
	const uint64_t rx = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM |
	                    RTE_ETH_RX_OFFLOAD_SCATTER | RTE_ETH_RX_OFFLOAD_VLAN_STRIP |
	                    RTE_ETH_RX_OFFLOAD_VLAN_FILTER;
	const uint64_t tx = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM |
	                    RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_TCP_TSO |
	                    RTE_ETH_TX_OFFLOAD_VLAN_INSERT;
	static const struct {
		uint32_t out;
		uint64_t rx, tx; /**< what is not used then */
	} rows[] = {
	        {0, 0, 0},
	        {WEFT_OFFLOAD_RX_CHECKSUM,
	         RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM, 0},
	        {WEFT_OFFLOAD_TX_CHECKSUM, 0,
	         RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM |
	                 RTE_ETH_TX_OFFLOAD_TCP_TSO},
	        {WEFT_OFFLOAD_TSO, 0, RTE_ETH_TX_OFFLOAD_TCP_TSO},
	        {WEFT_OFFLOAD_SCATTER, RTE_ETH_RX_OFFLOAD_SCATTER, 0},
	        {WEFT_OFFLOAD_GATHER, 0,
	         RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_TCP_TSO},
	        {WEFT_OFFLOAD_VLAN_STRIP, RTE_ETH_RX_OFFLOAD_VLAN_STRIP, 0},
	        {WEFT_OFFLOAD_VLAN_INSERT, 0, RTE_ETH_TX_OFFLOAD_VLAN_INSERT},
	        {WEFT_OFFLOAD_VLAN_FILTER, RTE_ETH_RX_OFFLOAD_VLAN_FILTER, 0},
	        {WEFT_OFFLOAD_ALL, UINT64_MAX, UINT64_MAX},
	};

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		uint32_t offloads = WEFT_OFFLOAD_ALL & ~rows[i].out & ~WEFT_OFFLOAD_RSS;
		struct weft_netif_port p;

		memset(&nic, 0, sizeof(nic));
		nic.driver = "net_ice";
		nic.mtu = 1500;
		nic.rx_capa = rx;
		nic.tx_capa = tx;
		no_offloads = rows[i].out;
		CHECK_EQ(open_port(1500, 1, true, &p), 0);
		no_offloads = 0;
		CHECK_EQ(p.rx_offloads, rx & ~rows[i].rx);
		CHECK_EQ(p.tx_offloads, tx & ~rows[i].tx);
		CHECK_EQ(nic.conf_rx, rx & ~rows[i].rx);
		CHECK_EQ(nic.vlan_sum,
		         (p.rx_offloads & RTE_ETH_RX_OFFLOAD_VLAN_FILTER) != 0 ? 100 : 0);
		if ((rows[i].out & (WEFT_OFFLOAD_TX_CHECKSUM | WEFT_OFFLOAD_GATHER)) != 0)
			offloads &= ~(uint32_t)WEFT_OFFLOAD_TSO;
		CHECK_EQ(weft_netif_port_offloads(&p), offloads);
		weft_netif_port_close(&p);
	}
	/* net_null has RSS. */
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_netif_port p;

		memset(&nic, 0, sizeof(nic));
		no_offloads = i == 0 ? 0 : WEFT_OFFLOAD_RSS;
		CHECK_EQ(open_port(1500, 3, false, &p), 0);
		no_offloads = 0;
		CHECK_EQ(p.rss, i == 0);
		CHECK_EQ(p.rx_queues, i == 0 ? 3 : 1);
		CHECK_EQ(weft_netif_port_offloads(&p) & WEFT_OFFLOAD_RSS,
		         i == 0 ? WEFT_OFFLOAD_RSS : 0);
		weft_netif_port_close(&p);
	}
}

/** A port that the program has probed is stopped when it cannot be used: its rings have our
 * buffers. It can be opened later. */
static void
test_probed(void)
{
	struct weft_netif_port p;

	memset(&nic, 0, sizeof(nic));
	nic.driver = "net_virtio";
	nic.mtu = 1500;
	nic.rx_capa = RTE_ETH_RX_OFFLOAD_VLAN_FILTER;
	nic.vlan_rc = -ENOSPC;
	CHECK_EQ(rte_eal_hotplug_add("vdev", "net_null9", ""), 0);
	CHECK_EQ(open_as("net_null9", 1500, 1, true, &p), -ENODEV);
	nic.vlan_rc = 0;
	CHECK_EQ(open_as("net_null9", 1500, 1, true, &p), 0);
	weft_netif_port_close(&p);
	CHECK_EQ(rte_eal_hotplug_remove("vdev", "net_null9"), 0);
}

/** The MTU requested at configuration is within the port's limits, for the port's own frame
 * overhead. The MTU that the port then reports is used. A port that reports none has the requested
 * one. */
static void
test_mtu(void)
{
	static const struct {
		uint16_t asked, max_mtu;
		uint32_t max_rx_pktlen;
		uint16_t has;
		uint16_t conf, used;
	} rows[] = {
	        {9000, 9600, 9618, 9000, 9000, 9000},
	        /* Its overhead contains neither CRC nor tag, or both. */
	        {9600, 9600, 9614, 9600, 9600, 9600},
	        {9600, 9600, 9626, 9600, 9600, 9600},
	        {9600, 9500, 9618, 9500, 0, 9500},
	        {9600, UINT16_MAX, 9618, 9600, 9600, 9600},
	        {9600, UINT16_MAX, 9617, 1500, 0, 1500},
	        {1500, UINT16_MAX, 9617, 9000, 1500, 1500},
	        {1500, UINT16_MAX, 9617, 0, 1500, 1500},
	};

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		struct weft_netif_port p;

		memset(&nic, 0, sizeof(nic));
		nic.max_mtu = rows[i].max_mtu;
		nic.max_rx_pktlen = rows[i].max_rx_pktlen;
		nic.mtu = rows[i].has;
		CHECK_EQ(open_port(rows[i].asked, 1, false, &p), 0);
		CHECK_MSG(nic.conf_mtu == rows[i].conf, "row %u: asked for %u", i, nic.conf_mtu);
		CHECK_MSG(p.mtu_bytes == rows[i].used, "row %u: uses %u", i, p.mtu_bytes);
		weft_netif_port_close(&p);
	}
}

/** The VLAN tag is inserted by drivers that put it into the descriptor, and not by drivers that
 * would change the mbuf. */
static void
test_tags(void)
{
	static const struct {
		const char *driver;
		bool inserts;
	} rows[] = {{"net_ixgbe", true}, {"net_i40e", true},   {"net_ice", true},
	            {"net_iavf", true},  {"net_igc", true},    {"net_e1000_igb", true},
	            {"mlx5_pci", true},  {"net_vhost", false}, {"net_virtio", false},
	            {"net_null", false}, {"net_ixgb", false}};

	for (unsigned int i = 0; i < RTE_DIM(rows); i++)
		for (unsigned int vlan = 0; vlan < 2; vlan++) {
			struct weft_netif_port p;
			bool inserts;

			memset(&nic, 0, sizeof(nic));
			nic.driver = rows[i].driver;
			nic.mtu = 1500;
			nic.tx_capa = RTE_ETH_TX_OFFLOAD_VLAN_INSERT;
			CHECK_EQ(open_port(1500, 1, vlan, &p), 0);
			inserts = (p.tx_offloads & RTE_ETH_TX_OFFLOAD_VLAN_INSERT) != 0;
			CHECK_MSG(inserts == (vlan && rows[i].inserts), "%s", rows[i].driver);
			weft_netif_port_close(&p);
		}
}

/** A redirection table that was accepted or can be read is used. A port with neither is not
 * steered by RSS. */
static void
test_table(void)
{
	for (unsigned int no_update = 0; no_update < 2; no_update++)
		for (unsigned int no_query = 0; no_query < 2; no_query++) {
			struct weft_netif_port p;

			memset(&nic, 0, sizeof(nic));
			nic.mtu = 1500;
			nic.reta_update_rc = no_update ? -ENOTSUP : 0;
			nic.reta_query_rc = no_query ? -ENOTSUP : 0;
			CHECK_EQ(open_port(1500, 2, false, &p), 0);
			CHECK_EQ(p.rss, !(no_update && no_query));
			CHECK_EQ(p.rx_queues, p.rss ? 2 : 1);
			CHECK_EQ(nic.configures, p.rss ? 1 : 2);
			for (unsigned int i = 0; p.rss && !no_update && i < p.reta_size; i++)
				CHECK_EQ(p.reta[i], i % 2);
			weft_netif_port_close(&p);
		}
}

/** net_af_packet reports 1500 whatever it can carry. A larger MTU is used only if its interface
 * and its ring have room for it. */
static void
test_packet_mtu(void)
{
	static const struct {
		const char *args;
		int if_mtu;
		uint16_t used;
	} rows[] = {
	        {",iface=if0,framesz=16384", 9000, 9000},
	        {",iface=if0,framesz=16384", 65535, 9000},
	        {",iface=if0,framesz=16384", 8999, 1500},
	        {",iface=if0,framesz=16384", 65536, 1500},
	        {",iface=if0,framesz=16384", 0, 1500},
	        {",iface=if0,framesz=16384", -ENODEV, 1500},
	        {",framesz=16384", 9000, 1500},
	        {",iface=if0", 9000, 1500},
	        /* the Ethernet header of a frame, and 80 octets of the ring's header */
	        {",iface=if0,framesz=9094", 9000, 9000},
	        {",iface=if0,framesz=9093", 9000, 1500},
	        {",iface=if0,framesz=79", 9000, 1500},
	};

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		struct weft_netif_port p;
		char dev[64];

		memset(&nic, 0, sizeof(nic));
		nic.driver = "net_af_packet";
		nic.mtu = 1500;
		nic.max_mtu = 1500;
		nic.if_mtu = rows[i].if_mtu;
		snprintf(dev, sizeof(dev), "net_null8%s", rows[i].args);
		CHECK_EQ(open_as(dev, 9000, 1, false, &p), 0);
		CHECK_MSG(p.mtu_bytes == rows[i].used, "row %u: uses %u", i, p.mtu_bytes);
		if (strstr(rows[i].args, "iface") != NULL)
			CHECK_STR(nic.if_asked, "if0");
		weft_netif_port_close(&p);
	}
}

/** A memif client whose server does not accept connections is started again, after growing
 * waits, and finally opened. Servers and other ports do not wait. */
static void
test_memif_join(void)
{
	static const struct {
		const char *driver, *dev;
		bool waits;
	} rows[] = {
	        {"net_memif", "net_null8", true},
	        {"net_memif", "net_null8,id=0", true},
	        {"net_memif", "net_null8,role=client", true},
	        {"net_memif", "net_null8,role=slave", true},
	        {"net_memif", "net_null8,role=server", false},
	        {"net_memif", "net_null8,role=master", false},
	        {"net_ring", "net_null8,role=client", false},
	};
	struct weft_netif_port p;

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		memset(&nic, 0, sizeof(nic));
		nic.driver = rows[i].driver;
		nic.mtu = 1500;
		/* The server accepts at once. */
		CHECK_EQ(open_as(rows[i].dev, 1500, 1, false, &p), 0);
		CHECK_EQ(nic.links_asked, rows[i].waits);
		CHECK_EQ(nic.starts, 1);
		CHECK_EQ(nic.slept_us, 0);
		weft_netif_port_close(&p);
		/* The server accepts in time. */
		nic.link_after_us = 150000;
		CHECK_EQ(open_as(rows[i].dev, 1500, 1, false, &p), 0);
		CHECK_EQ(nic.starts, 1);
		CHECK_EQ(nic.slept_us, rows[i].waits ? 150000 : 0);
		weft_netif_port_close(&p);
		/* The server accepts after the first attempt, or never. */
		for (unsigned int never = 0; never < 2; never++) {
			nic.link_after_us = never ? UINT64_MAX : 300000;
			CHECK_EQ(open_as(rows[i].dev, 1500, 1, false, &p), 0);
			CHECK_EQ(nic.starts, !rows[i].waits ? 1 : never ? 4 : 2);
			CHECK(nic.slept_us <= 3100000);
			if (rows[i].waits)
				CHECK(nic.slept_us >= (never ? 3000000 : 300000));
			for (unsigned int k = 2; k < nic.starts; k++)
				CHECK(nic.start_us[k] - nic.start_us[k - 1] >
				      3 * (nic.start_us[k - 1] - nic.start_us[k - 2]) / 2);
			weft_netif_port_close(&p);
		}
	}
	/* The server ends while the client waits: the port is lost. A port that cannot be
	 * stopped stays as it is. */
	memset(&nic, 0, sizeof(nic));
	nic.driver = "net_memif";
	nic.mtu = 1500;
	nic.link_after_us = UINT64_MAX;
	nic.restart_rc = -1;
	CHECK_EQ(open_port(1500, 1, false, &p), -ENODEV);
	CHECK_EQ(nic.starts, 2);
	CHECK_EQ(rte_eth_dev_count_avail(), 0);
	nic.restart_rc = 0;
	nic.stop_rc = -1;
	CHECK_EQ(open_port(1500, 1, false, &p), 0);
	CHECK_EQ(nic.starts, 1);
	nic.stop_rc = 0;
	weft_netif_port_close(&p);
}

static uint16_t
no_packets(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	(void)dev;
	(void)pkts;
	(void)n;
	return 0;
}

static void
no_tcp(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n, uint64_t now_ns)
{
	(void)arg;
	(void)nif;
	(void)now_ns;
	rte_pktmbuf_free_bulk(m, n);
}

static size_t
heap_used(void)
{
	struct rte_malloc_socket_stats st;

	CHECK_EQ(rte_malloc_get_socket_stats((int)rte_socket_id(), &st), 0);
	return st.heap_allocsz_bytes;
}

/** Any failed allocation: -ENOMEM, nothing leaks, and the index of a member stays free. */
static void
test_no_memory(void)
{
	static const struct weft_netif_ops ops = {.tcp_rx = no_tcp};
	static const struct weft_netif_dev dev = {.rx = no_packets, .tx = no_packets};
	const struct weft_netif_group_attr ga = {.members = 3, .rx_queues = 1, .tx_queues = 1};
	struct weft_netif_attr na = {
	        .dev = &dev,
	        .mac = {.addr_bytes = {2}},
	        .addr = weft_ip_from_v4(RTE_BE32(0x0a000001)),
	        .prefix_len = 24,
	};
	struct weft_sched sched = {0};
	struct rte_mempool *pool;
	struct weft_netif *nif;
	unsigned int k;
	size_t before;
	int rc = -1;

	test_eal_init();
	CHECK_EQ(weft_netif_pool_create("driver_memory", 255, 1500, SOCKET_ID_ANY, &pool), 0);
	na.pool = pool;
	TAILQ_INIT(&sched.run);
	weft_wheel_init(&sched.wheel, WEFT_NS_PER_S);
	before = heap_used();
	for (k = 1; rc != 0; k++) {
		memset(&nic, 0, sizeof(nic));
		nic.fail_alloc = k;
		rc = weft_netif_group_create(&ga, &na.group);
		if (rc != 0) {
			CHECK_EQ(rc, -ENOMEM);
			CHECK_EQ(heap_used(), before);
		}
	}
	/* itself, its rings, and those of members that send through the first */
	CHECK_EQ(k - 2, 1 + 3 + 2);
	before = heap_used();
	rc = -1;
	for (k = 1; rc != 0; k++) {
		memset(&nic, 0, sizeof(nic));
		nic.fail_alloc = k;
		rc = weft_netif_create(&na, &ops, NULL, &sched, &nif);
		if (rc != 0) {
			CHECK_EQ(rc, -ENOMEM);
			CHECK_EQ(heap_used(), before);
		}
	}
	CHECK(k - 2 >= 4);
	weft_netif_destroy(nif);
	CHECK_EQ(heap_used(), before);
	weft_netif_group_destroy(na.group);
	rte_mempool_free(pool);
}

static void
no_segments(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n, uint64_t now_ns)
{
	(void)arg;
	(void)nif;
	(void)now_ns;
	rte_pktmbuf_free_bulk(m, n);
}

/** Frames of 20000 octets: a driver whose vector receive function gives none when it is asked for
 * fewer than 8 is asked for 8, whatever the MTU. Drivers that are known to give one are asked for
 * one, above the MTUs of NICs, and three such frames end a burst. */
static void
test_ask(void)
{
	static const struct weft_netif_ops ops = {.tcp_rx = no_segments};
	static const struct {
		const char *driver;
		uint16_t mtu;
		unsigned int got;
	} rows[] = {{"net_i40e", 9000, 8},       {"net_i40e", 9601, 8},
	            {"net_i40e", 9706, 8},       {"net_iavf", 9978, 8},
	            {"net_unheard_of", 9978, 8}, {"net_ring", 9600, 8},
	            {"net_ring", 9601, 3},       {"net_ring", UINT16_MAX, 3},
	            {"net_memif", 9600, 8},      {"net_memif", UINT16_MAX, 3},
	            {"net_tap", UINT16_MAX, 3},  {"net_af_packet", UINT16_MAX, 3}};
	const struct weft_netif_attr attr = {
	        .prefix_len = 24,
	        .mac = {{2, 0, 0, 0, 0, 1}},
	        .addr = weft_ip_from_v4(RTE_BE32(RTE_IPV4(10, 0, 0, 1)))};

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		struct weft_netif_port_attr pa = {
		        .dev = "net_null7,size=20000", .mbufs = 1024, .queues = 1};
		struct weft_netif_attr a = attr;
		struct weft_netif_port p;
		struct weft_sched sched;
		struct weft_netif *nif;

		memset(&nic, 0, sizeof(nic));
		nic.max_mtu = UINT16_MAX;
		nic.max_rx_pktlen = UINT16_MAX + 18;
		nic.mtu = rows[i].mtu;
		pa.mtu_bytes = rows[i].mtu;
		CHECK_EQ(weft_netif_port_open(&pa, &p), 0);
		CHECK_EQ(p.mtu_bytes, rows[i].mtu);
		memset(&sched, 0, sizeof(sched));
		TAILQ_INIT(&sched.run);
		weft_wheel_init(&sched.wheel, WEFT_NS_PER_S);
		a.port_id = p.port_id;
		a.pool = p.pool;
		a.tx_pool = p.tx_pool;
		a.mtu_bytes = p.mtu_bytes;
		nic.driver = rows[i].driver;
		CHECK_EQ(weft_netif_create(&a, &ops, NULL, &sched, &nif), 0);
		CHECK_MSG(weft_netif_poll(nif, WEFT_NS_PER_S) == rows[i].got, "%s, MTU %u",
		          rows[i].driver, rows[i].mtu);
		weft_netif_destroy(nif);
		weft_netif_port_close(&p);
	}
}

WEFT_TEST_MAIN({"descriptors", test_descriptors}, {"rings", test_rings},
               {"tx_queues", test_tx_queues}, {"vlan_filter", test_vlan_filter},
               {"the filter is told each of several VLANs", test_vlan_filters},
               {"offloads left out", test_offloads_left_out}, {"probed", test_probed},
               {"mtu", test_mtu}, {"tags", test_tags}, {"table", test_table},
               {"packet mtu", test_packet_mtu}, {"memif join", test_memif_join},
               {"no memory", test_no_memory}, {"frames that a driver is asked for", test_ask})
