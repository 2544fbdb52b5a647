/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What ports with other limits than the virtual ones of this machine say, and what is made of it:
 * the calls of DPDK by which a port is set up are this program's own, in front of net_null's.
 */

#include <rte_ethdev.h>

#include "weft_netif.h"
#include "weft_test.h"

static struct {
	const char *driver; /**< NULL: what it is */
	uint16_t max_mtu, desc_max, mtu;
	uint32_t max_rx_pktlen;
	uint64_t tx_capa; /**< and these */
	int configure_rc, reta_update_rc, reta_query_rc;
	/* seen */
	uint16_t conf_mtu, nrx, ntx;
	unsigned int configures, adjusts;
} nic;

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
	nic.nrx = n;
	return __real_rte_eth_rx_queue_setup(port, q, n, socket, conf, pool);
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

/* ---- Cases ---- */

static int
open_port(uint16_t mtu, uint16_t queues, bool vlan, struct weft_netif_port *p)
{
	struct weft_netif_port_attr pa = {.dev = "net_null8",
	                                  .mtu_bytes = mtu,
	                                  .mbufs = 8192,
	                                  .queues = queues,
	                                  .vlan = vlan};

	test_eal_init();
	nic.configures = nic.adjusts = 0;
	return weft_netif_port_open(&pa, p);
}

/** A queue has as many descriptors as the port takes; one that cannot be set up is no port. */
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

/** The MTU that a port is asked for at configuration is within its limits, by its own count of what
 * a frame has besides; what it has then is used, and one that does not say has what it was asked
 * for. */
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
	        /* It counts neither CRC nor tag, or both. */
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

/** Drivers that put a tag into the descriptor are left to it; those that would change the mbuf are
 * not. */
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

/** A table that was taken or is told is believed; a port that does neither is not steered by RSS.
 */
static void
test_table(void)
{
	for (unsigned int deaf = 0; deaf < 2; deaf++)
		for (unsigned int mute = 0; mute < 2; mute++) {
			struct weft_netif_port p;

			memset(&nic, 0, sizeof(nic));
			nic.mtu = 1500;
			nic.reta_update_rc = deaf ? -ENOTSUP : 0;
			nic.reta_query_rc = mute ? -ENOTSUP : 0;
			CHECK_EQ(open_port(1500, 2, false, &p), 0);
			CHECK_EQ(p.rss, !(deaf && mute));
			CHECK_EQ(p.rx_queues, p.rss ? 2 : 1);
			CHECK_EQ(nic.configures, p.rss ? 1 : 2);
			for (unsigned int i = 0; p.rss && !deaf && i < p.reta_size; i++)
				CHECK_EQ(p.reta[i], i % 2);
			weft_netif_port_close(&p);
		}
}

WEFT_TEST_MAIN({"descriptors", test_descriptors}, {"mtu", test_mtu}, {"tags", test_tags},
               {"table", test_table})
