/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The interface: creation and end, receive burst. */

#include <assert.h>
#include <stdlib.h>

#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_prefetch.h>

#include "netif_arp.h"
#include "netif_bond.h"
#include "netif_capture.h"
#include "netif_carrier.h"
#include "netif_group_priv.h"
#include "netif_guard.h"
#include "netif_ip.h"
#include "netif_nd.h"
#include "netif_net.h"
#include "netif_neigh.h"
#include "netif_rings.h"
#include "netif_shared.h"
#include "netif_tso.h"
#include "netif_txq.h"
#include "weft_netif_mbuf.h"

WEFT_LOG_REGISTER(netif);

static uint16_t
netif_eth_rx(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
	const struct weft_netif *nif = arg;

	return rte_eth_rx_burst(nif->attr.port_id, nif->attr.queue_id, pkts, n);
}

static uint16_t
netif_eth_tx(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
	const struct weft_netif *nif = arg;

	return rte_eth_tx_burst(nif->attr.port_id, nif->attr.queue_id, pkts, n);
}

/* net_af_packet may leave frames in its ring. netif_packet_look() asks for them. */
static uint16_t
netif_packet_tx(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
	struct weft_netif *nif = arg;

	netif_packet_sent(&nif->packet, nif->now_ns);
	return netif_eth_tx(arg, pkts, n);
}

/*
 * Drivers differ in the TSO packets that they accept. A packet that this port rejects is dropped,
 * as if lost on the wire. Otherwise it would block all packets behind it.
 */
static uint16_t
netif_tso_dev_tx(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
	struct weft_netif *nif = arg;
	uint16_t ready = rte_eth_tx_prepare(nif->attr.port_id, nif->attr.queue_id, pkts, n);

	if (unlikely(ready == 0 && n > 0)) {
		nif->stats.tx_refused++;
		rte_pktmbuf_free(pkts[0]);
		return 1;
	}
	return netif_eth_tx(arg, pkts, ready);
}

static bool
netif_eth_link(void *arg)
{
	const struct weft_netif *nif = arg;

	return netif_carrier_link(nif->attr.port_id);
}

static bool
netif_bond_dev_link(void *arg)
{
	struct weft_netif *nif = arg;
	bool moved, up = netif_bond_look(nif->attr.port_id, nif->attr.queue_id, &moved);

	nif->link_moved = moved && nif->link_up;
	return up;
}

static uint16_t
netif_memif_rx(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
	struct weft_netif *nif = arg;

	return netif_guard_burst(netif_eth_rx, nif, pkts, n, 0, &nif->stats.dev_faults);
}

static uint16_t
netif_memif_tx(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
	struct weft_netif *nif = arg;

	return netif_guard_burst(netif_eth_tx, nif, pkts, n, n, &nif->stats.dev_faults);
}

static int
netif_eth_tx_reset(void *arg)
{
	const struct weft_netif *nif = arg;
	int ret = rte_eth_dev_tx_queue_stop(nif->attr.port_id, nif->attr.queue_id);

	return ret != 0 ? ret : rte_eth_dev_tx_queue_start(nif->attr.port_id, nif->attr.queue_id);
}

static int
netif_eth_tx_count(void *arg, uint64_t *packets)
{
	const struct weft_netif *nif = arg;
	struct rte_eth_stats st;
	int ret = rte_eth_stats_get(nif->attr.port_id, &st);

	if (ret != 0)
		return ret;
	/* Not every driver counts by queue. */
	*packets = st.opackets;
	if (nif->attr.queue_id < RTE_ETHDEV_QUEUE_STAT_CNTRS &&
	    st.q_opackets[nif->attr.queue_id] != 0)
		*packets = st.q_opackets[nif->attr.queue_id];
	return 0;
}

static int
netif_eth_arm(void *arg, bool on)
{
	const struct weft_netif *nif = arg;
	const uint16_t port = nif->attr.port_id, queue = nif->attr.queue_id;
	int fd = -1, ret;

	if (nif->packet.n > 0)
		return nif->packet.fd[0];
	/* A port without interrupts would print an error for each question. */
	if (nif->attr.rx_intr || nif->sleep.waits)
		fd = rte_eth_dev_rx_intr_ctl_q_get_fd(port, queue);
	if (fd < 0)
		return -ENOTSUP;
	if (nif->sleep.waits)
		return fd;
	ret = on ? rte_eth_dev_rx_intr_enable(port, queue)
	         : rte_eth_dev_rx_intr_disable(port, queue);
	return ret != 0 ? -ENOTSUP : fd;
}

static const struct weft_netif_dev netif_eth_dev = {
        .rx = netif_eth_rx,
        .tx = netif_eth_tx,
        .link = netif_eth_link,
        .tx_reset = netif_eth_tx_reset,
        .tx_count = netif_eth_tx_count,
        .arm = netif_eth_arm,
};
static const struct weft_netif_dev netif_tso_dev = {
        .rx = netif_eth_rx,
        .tx = netif_tso_dev_tx,
        .link = netif_eth_link,
        .tx_reset = netif_eth_tx_reset,
        .tx_count = netif_eth_tx_count,
        .arm = netif_eth_arm,
};
static const struct weft_netif_dev netif_packet_dev = {
        .rx = netif_eth_rx,
        .tx = netif_packet_tx,
        .link = netif_eth_link,
        .tx_reset = netif_eth_tx_reset,
        .tx_count = netif_eth_tx_count,
        .arm = netif_eth_arm,
};
static const struct weft_netif_dev netif_bond_dev = {
        .rx = netif_eth_rx,
        .tx = netif_packet_tx,
        .link = netif_bond_dev_link,
};
static const struct weft_netif_dev netif_bond_tso_dev = {
        .rx = netif_eth_rx,
        .tx = netif_tso_dev_tx,
        .link = netif_bond_dev_link,
};
static const struct weft_netif_dev netif_memif_dev = {
        .rx = netif_memif_rx,
        .tx = netif_memif_tx,
        .link = netif_eth_link,
};

/** Drivers that take frames one by one, and may have longer ones than a NIC. */
static bool
netif_is_soft(const char *driver)
{
	static const char *const soft[] = {"net_memif", "net_ring", "net_tap", "net_af_packet"};

	for (unsigned int i = 0; i < RTE_DIM(soft); i++)
		if (strcmp(driver, soft[i]) == 0)
			return true;
	return false;
}

/** The device functions for an ethdev queue. */
static const struct weft_netif_dev *
netif_ethdev(struct weft_netif *nif)
{
	const char *driver = "";
	struct rte_eth_dev_info info;

	if (rte_eth_dev_info_get(nif->attr.port_id, &info) == 0)
		driver = info.driver_name;
	nif->sleep.waits = strcmp(driver, "net_tap") == 0;
	nif->rx_single = netif_is_soft(driver);
	if (netif_bond_is(nif->attr.port_id)) {
		netif_bond_packet(nif->attr.port_id, nif->attr.queue_id, &nif->packet);
		nif->link_often = true;
		return netif_tso_offered(nif->attr.tx_offloads) ? &netif_bond_tso_dev
		                                                : &netif_bond_dev;
	}
	netif_packet_add(&nif->packet, nif->attr.port_id, nif->attr.queue_id);
	if (nif->packet.n > 0) {
		nif->sleep.waits = true;
		return &netif_packet_dev;
	}
	if (strcmp(driver, "net_memif") != 0)
		return netif_tso_offered(nif->attr.tx_offloads) ? &netif_tso_dev : &netif_eth_dev;
	nif->link_quiet = true;
	netif_guard_install();
	return &netif_memif_dev;
}

int
weft_netif_create(const struct weft_netif_attr *attr, const struct weft_netif_ops *ops,
                  void *ops_arg, struct weft_sched *sched, struct weft_netif **out)
{
	struct weft_netif *nif;

	if (ops == NULL || ops->tcp_rx == NULL || !netif_attr_ok(attr))
		return -EINVAL;
	nif = rte_zmalloc("weft_netif", sizeof(*nif), RTE_CACHE_LINE_SIZE);
	if (nif == NULL)
		return -ENOMEM;
	nif->attr = *attr;
	if (attr->tx_pool == NULL)
		nif->attr.tx_pool = attr->pool;
	nif->ops = *ops;
	nif->ops_arg = ops_arg;
	nif->sched = sched;
	nif->sleep.fd = -1;
	if (attr->dev == NULL) {
		nif->attr.dev = netif_ethdev(nif);
		nif->attr.dev_arg = nif;
		nif->ethdev = true;
	}
	if (attr->group != NULL && netif_group_join(nif) != 0) {
		rte_free(nif);
		return -EINVAL;
	}
	if (attr->shared && !netif_shared_init(nif)) {
		rte_free(nif);
		return -ENOMEM;
	}
	if (attr->mtu_bytes == 0)
		nif->attr.mtu_bytes = RTE_ETHER_MTU;
	nif->vlan_insert = (attr->tx_offloads & RTE_ETH_TX_OFFLOAD_VLAN_INSERT) != 0;
	if (sched->rand.fill != NULL) {
		sched->rand.fill(sched->rand.arg, nif->flow_key, sizeof(nif->flow_key));
		sched->rand.fill(sched->rand.arg, nif->id_key, sizeof(nif->id_key));
		sched->rand.fill(sched->rand.arg, nif->hash_key, sizeof(nif->hash_key));
	}
	netif_budget_init(nif);
	netif_rx_sum_init(nif);
	netif_addr_init(nif);
	if (!netif_neigh_init(nif, netif_arp_ask, netif_nd_ask)) {
		if (attr->group != NULL)
			netif_group_leave(nif);
		netif_shared_fini(nif);
		rte_free(nif);
		return -ENOMEM;
	}
	netif_nd_init(nif);
	*out = nif;
	return 0;
}

void
weft_netif_destroy(struct weft_netif *nif)
{
	if (nif == NULL)
		return;
	if (nif->attr.group != NULL)
		netif_group_leave(nif);
	for (; nif->head != nif->tail; nif->head++)
		rte_pktmbuf_free(nif->ring[nif->head % NETIF_RING]);
	netif_nd_fini(nif);
	netif_neigh_fini(nif);
	netif_shared_fini(nif);
	rte_free(nif);
}

static bool
netif_pool_holds(const struct rte_mempool *pool, uint16_t mtu_bytes)
{
	return rte_pktmbuf_data_room_size((struct rte_mempool *)(uintptr_t)pool) >=
	       RTE_PKTMBUF_HEADROOM + netif_data_bytes(mtu_bytes);
}

int
weft_netif_set_mtu(struct weft_netif *nif, uint16_t mtu_bytes)
{
	/* RFC 8200 s5: an interface with an IPv6 address keeps the minimum MTU of IPv6 links. */
	if (mtu_bytes < (nif->attr.no_ipv6 ? NETIF_MTU_MIN : NETIF_IPV6_MTU_MIN) ||
	    !netif_pool_holds(nif->attr.pool, mtu_bytes) ||
	    !netif_pool_holds(nif->attr.tx_pool, mtu_bytes))
		return -EINVAL;
	nif->attr.mtu_bytes = mtu_bytes;
	return 0;
}

const struct weft_netif_attr *
weft_netif_attr(const struct weft_netif *nif)
{
	return &nif->attr;
}

const struct weft_netif_stats *
weft_netif_stats(const struct weft_netif *nif)
{
	return &nif->stats;
}

/* ---- Receive ---- */

/*
 * Returns the VLAN, the Ethernet type behind at most one tag, and where the packet starts. NULL: no
 * network of ours is on the VLAN. A priority tag (VLAN 0, IEEE 802.1Q s6.9.3) counts as no tag. A
 * port that strips tags reports the tag in the mbuf.
 */
static struct netif_vlan *
netif_vlan_rx(struct weft_netif *nif, const struct rte_mbuf *m, rte_be16_t *type, uint32_t *l3_off)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);
	uint16_t vid = 0;

	*type = eth->ether_type;
	*l3_off = NETIF_ETHER_LEN;
	if ((nif->attr.rx_offloads & RTE_ETH_RX_OFFLOAD_VLAN_STRIP) != 0 &&
	    (m->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0) {
		vid = m->vlan_tci & RTE_ETHER_MAX_VLAN_ID;
	} else if (unlikely(*type == RTE_BE16(RTE_ETHER_TYPE_VLAN))) {
		const struct rte_vlan_hdr *tag = (const struct rte_vlan_hdr *)(eth + 1);

		if (m->data_len < NETIF_L2_MAX)
			return NULL;
		vid = rte_be_to_cpu_16(tag->vlan_tci) & RTE_ETHER_MAX_VLAN_ID;
		*type = tag->eth_proto;
		*l3_off = NETIF_L2_MAX;
	}
	return netif_vlan_find(nif, vid);
}

/* Whether a group frame is for us: broadcast, all nodes, or one of our groups (RFC 2464 s7). */
static bool
netif_group_rx(const struct netif_vlan *v, const struct rte_ether_addr *dst)
{
	static const struct rte_ether_addr all = {{0x33, 0x33, 0, 0, 0, 1}}; /* ff02::1 */

	if (rte_is_broadcast_ether_addr(dst))
		return true;
	if (rte_is_same_ether_addr(dst, &all))
		return !v->no_ipv6;
	if (dst->addr_bytes[0] != 0x33 || dst->addr_bytes[1] != 0x33 || dst->addr_bytes[2] != 0xff)
		return false;
	for (unsigned int i = 0; i < v->nif->nnets; i++) {
		const struct netif_net *n = &v->nif->net[i];

		if (n->vlan == v && !n->v4 && memcmp(&dst->addr_bytes[3], &n->ip.b[13], 3) == 0)
			return true;
	}
	return false;
}

/* Checks the Ethernet header. Returns a TCP segment. All other frames are handled here. */
static struct rte_mbuf *
netif_ether_rx(struct weft_netif *nif, struct rte_mbuf *m)
{
	uint64_t *bad = &nif->stats.rx_bad_ether;
	const struct rte_ether_hdr *eth;
	struct netif_vlan *v;
	bool group = false;
	rte_be16_t type;
	uint32_t l3_off;

	nif->stats.rx_packets++;
	nif->stats.rx_bytes += m->pkt_len;
	/* Rare: a chain whose headers are split over mbufs. A copy makes them contiguous. */
	if (unlikely(m->data_len < NETIF_HEADERS_MAX && m->nb_segs > 1)) {
		struct rte_mbuf *c = rte_pktmbuf_copy(m, nif->attr.pool, 0, UINT32_MAX);

		bad = &nif->stats.rx_no_mbuf;
		if (c == NULL)
			goto drop;
		netif_rx_free(m);
		m = c;
		bad = &nif->stats.rx_bad_ether;
	}
	if (unlikely(m->data_len < NETIF_ETHER_LEN))
		goto drop;
	eth = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);
	if (unlikely(!rte_is_same_ether_addr(&eth->dst_addr, &nif->attr.mac))) {
		if (!rte_is_multicast_ether_addr(&eth->dst_addr))
			goto drop;
		group = true;
	}
	if (unlikely(!rte_is_valid_assigned_ether_addr(&eth->src_addr)))
		goto drop;
	v = netif_vlan_rx(nif, m, &type, &l3_off);
	if (unlikely(v == NULL)) {
		bad = &nif->stats.rx_vlan;
		goto drop;
	}
	if (unlikely(group && !netif_group_rx(v, &eth->dst_addr))) {
		bad = &nif->stats.rx_not_ours;
		goto drop;
	}
	switch (type) {
	case RTE_BE16(RTE_ETHER_TYPE_IPV4):
		/* All that we speak over IPv4 is unicast (RFC 1122 s3.2.2.6, s4.2.3.10). */
		bad = &nif->stats.rx_not_ours;
		if (group || !v->has4)
			goto drop;
		return netif_ip4_rx(v, m, l3_off);
	case RTE_BE16(RTE_ETHER_TYPE_IPV6):
		bad = &nif->stats.rx_not_ours;
		if (v->no_ipv6)
			goto drop;
		return netif_ip6_rx(v, m, l3_off, group);
	case RTE_BE16(RTE_ETHER_TYPE_ARP):
		netif_arp_rx(v, m, l3_off);
		netif_rx_free(m);
		return NULL;
	default:
		break;
	}
drop:
	(*bad)++;
	netif_rx_free(m);
	return NULL;
}

/** Octets of an IP packet up to which a whole burst is below WEFT_NETIF_BURST_BYTES. */
#define NETIF_SHORT_MTU (WEFT_NETIF_BURST_BYTES / WEFT_NETIF_BURST - 18)
/** Above this MTU a driver of which it is known that it gives one frame is asked for one at a time.
 * NICs have MTUs of up to some 10000, and their drivers are asked for NETIF_RX_ASK at any MTU. */
#define NETIF_SINGLE_MTU 9600

/** Receive a burst from a port whose frames may be long. */
static __rte_noinline unsigned int
netif_rx_long(struct weft_netif *nif, struct rte_mbuf **m)
{
	const unsigned int ask =
	        nif->rx_single && nif->attr.mtu_bytes > NETIF_SINGLE_MTU ? 1 : NETIF_RX_ASK;
	unsigned int n = 0, got;
	uint32_t bytes = 0;

	static_assert(WEFT_NETIF_BURST % NETIF_RX_ASK == 0, "the array holds the last question");
	do {
		got = nif->attr.dev->rx(nif->attr.dev_arg, m + n, (uint16_t)ask);
		for (unsigned int i = 0; i < got; i++)
			bytes += m[n + i]->pkt_len;
		n += got;
	} while (got == ask && n < WEFT_NETIF_BURST && bytes < WEFT_NETIF_BURST_BYTES);
	return n;
}

unsigned int
weft_netif_poll(struct weft_netif *nif, uint64_t now_ns)
{
	struct rte_mbuf *m[WEFT_NETIF_BURST];
	unsigned int n, segs = 0;

	nif->now_ns = now_ns;
	if (unlikely(now_ns >= nif->link_due_ns))
		netif_link_look(nif);
	if (likely(nif->attr.mtu_bytes <= NETIF_SHORT_MTU))
		n = nif->attr.dev->rx(nif->attr.dev_arg, m, WEFT_NETIF_BURST);
	else
		n = netif_rx_long(nif, m);
	if (netif_capture_on(nif) && n > 0)
		netif_capture_rx(nif, m, n);
	for (unsigned int i = 0; i < n; i++)
		rte_prefetch0(rte_pktmbuf_mtod(m[i], void *));
	/* Segments are collected at the front of the same array. */
	for (unsigned int i = 0; i < n; i++) {
		struct rte_mbuf *seg = netif_ether_rx(nif, m[i]);

		if (likely(seg != NULL))
			m[segs++] = seg;
	}
	if (segs > 0)
		nif->ops.tcp_rx(nif->ops_arg, nif, m, segs, now_ns);
	return nif->attr.group == NULL ? n : n + netif_group_moved(nif);
}
