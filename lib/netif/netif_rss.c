/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Receive-side scaling of a port: its capabilities, its configuration, and what it
 * reports. */

#include "netif_group_priv.h"
#include "netif_rings.h"

#define RSS_TCP4  RTE_ETH_RSS_NONFRAG_IPV4_TCP
#define RSS_DRAWS 64
#define RSS_TCP6  (RTE_ETH_RSS_NONFRAG_IPV6_TCP | RTE_ETH_RSS_IPV6_TCP_EX)

/** Used when no key is drawn. */
const uint8_t netif_rss_key[WEFT_GROUP_KEY_MAX] = {
        0x59, 0x8f, 0xb2, 0x2a, 0xac, 0x25, 0x02, 0x5c, 0x52, 0xb9, 0xb3, 0x57, 0x54,
        0xba, 0xc9, 0xb3, 0xb0, 0x3b, 0x7d, 0xd1, 0x27, 0xf0, 0x28, 0xa7, 0x4c, 0x2f,
        0x76, 0x6b, 0xbd, 0x01, 0xb3, 0xdc, 0x0c, 0x6f, 0x64, 0x59, 0x43, 0x86, 0xbd,
        0xbf, 0xc4, 0xde, 0xeb, 0xdd, 0x87, 0x0a, 0x70, 0x7c, 0xef, 0xf1, 0xca, 0xf6,
};

void
netif_rss_draw(const struct weft_rand *rand, uint8_t key[WEFT_GROUP_KEY_MAX])
{
	/* Of random keys 19 in 20 are suitable. */
	for (unsigned int i = 0; i < RSS_DRAWS && rand != NULL; i++) {
		rand->fill(rand->arg, key, WEFT_GROUP_KEY_MAX);
		if (netif_steer_rank(key, false) == WEFT_GROUP_RETA_BITS &&
		    netif_steer_rank(key, true) == WEFT_GROUP_RETA_BITS)
			return;
	}
	memcpy(key, netif_rss_key, WEFT_GROUP_KEY_MAX);
}

/*
 * Devices whose other end is memory, a process or the kernel. That end expects every queue to be
 * served, and receive and transmit queues come in pairs.
 */
static bool
rss_queues_are_pairs(const char *driver)
{
	static const char *const pairs[] = {"net_memif",  "net_ring",        "net_tap",
	                                    "net_vhost",  "net_virtio_user", "net_virtio",
	                                    "net_af_xdp", "net_af_packet",   "net_pcap"};

	for (unsigned int i = 0; i < RTE_DIM(pairs); i++)
		if (strcmp(driver, pairs[i]) == 0)
			return true;
	return false;
}

static bool
rss_reta_fits(uint16_t size, uint16_t queues)
{
	return size >= queues && size <= WEFT_GROUP_RETA_MAX && rte_is_power_of_2(size);
}

static unsigned int
rss_key_bytes(const struct rte_eth_dev_info *info)
{
	return info->hash_key_size != 0 ? info->hash_key_size : WEFT_GROUP_KEY_MIN;
}

void
netif_rss_plan(struct weft_netif_port *p, uint16_t queues, const struct rte_eth_dev_info *info,
               bool rss)
{
	const uint16_t tx_queues = netif_rings_tx_queues(info);

	p->rss = rss && queues > 1 && queues <= info->max_rx_queues && queues <= tx_queues &&
	         (info->flow_type_rss_offloads & RSS_TCP4) == RSS_TCP4 &&
	         rss_reta_fits(info->reta_size, queues) &&
	         rss_key_bytes(info) >= WEFT_GROUP_KEY_MIN &&
	         rss_key_bytes(info) <= WEFT_GROUP_KEY_MAX;
	p->rx_queues = p->rss ? queues : 1;
	p->tx_queues =
	        p->rss || (queues <= tx_queues && !rss_queues_are_pairs(p->driver)) ? queues : 1;
	if (p->rss)
		p->rx_offloads |= RTE_ETH_RX_OFFLOAD_RSS_HASH & info->rx_offload_capa;
}

void
netif_rss_conf(const struct weft_netif_port *p, const struct rte_eth_dev_info *info,
               struct rte_eth_conf *conf)
{
	/* If the port has no RSS for IPv6, members hand IPv6 packets over like those in a wrong
	 * queue. */
	uint64_t hf = (RSS_TCP4 | RSS_TCP6) & info->flow_type_rss_offloads;

	conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
	conf->rx_adv_conf.rss_conf = (struct rte_eth_rss_conf){
	        .rss_key = (uint8_t *)(uintptr_t)p->rss_key,
	        .rss_key_len = (uint8_t)rss_key_bytes(info),
	        .rss_hf = hf,
	};
}

static int
rss_read_key(struct weft_netif_port *p, const struct rte_eth_dev_info *info)
{
	uint8_t key[UINT8_MAX] = {0};
	struct rte_eth_rss_conf rc = {.rss_key = p->rss_key,
	                              .rss_key_len = (uint8_t)rss_key_bytes(info),
	                              .rss_hf =
	                                      (RSS_TCP4 | RSS_TCP6) & info->flow_type_rss_offloads};
	int ret;

	/* Some drivers take the key at configuration, some only now, some never. */
	(void)rte_eth_dev_rss_hash_update(p->port_id, &rc);
	rc.rss_key = key;
	ret = rte_eth_dev_rss_hash_conf_get(p->port_id, &rc);
	p->rss_key_bytes = rss_key_bytes(info);
	if (ret == -ENOTSUP)
		return 0; /* a SYN will show whether the port uses our key */
	if (ret != 0 || (rc.rss_hf & RSS_TCP4) == 0)
		return -ENOTSUP;
	memcpy(p->rss_key, key, p->rss_key_bytes);
	return 0;
}

static int
rss_read_reta(struct weft_netif_port *p, uint16_t size)
{
	struct rte_eth_rss_reta_entry64 r[WEFT_GROUP_RETA_MAX / RTE_ETH_RETA_GROUP_SIZE];
	bool told;

	for (unsigned int g = 0; g < RTE_DIM(r); g++) {
		r[g].mask = UINT64_MAX;
		for (unsigned int i = 0; i < RTE_ETH_RETA_GROUP_SIZE; i++)
			r[g].reta[i] = (uint16_t)((g * RTE_ETH_RETA_GROUP_SIZE + i) % p->rx_queues);
	}
	told = rte_eth_dev_rss_reta_update(p->port_id, r, size) == 0;
	/* The table that the port reports counts; if it reports none, the table that was set. */
	if (rte_eth_dev_rss_reta_query(p->port_id, r, size) != 0 && !told)
		return -ENOTSUP;
	p->reta_size = size;
	for (unsigned int i = 0; i < size; i++) {
		p->reta[i] = r[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];
		if (p->reta[i] >= p->rx_queues)
			return -ENOTSUP;
	}
	return 0;
}

int
netif_rss_read(struct weft_netif_port *p, const struct rte_eth_dev_info *info)
{
	int ret = rss_read_reta(p, info->reta_size);

	return ret != 0 ? ret : rss_read_key(p, info);
}
