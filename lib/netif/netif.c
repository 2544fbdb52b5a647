/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The interface: its life, its receive burst and its transmit queue. */

#include <stdlib.h>

#include <rte_malloc.h>
#include <rte_prefetch.h>

#include "netif_capture.h"
#include "netif_group_priv.h"

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

static const struct weft_netif_dev netif_eth_dev = {.rx = netif_eth_rx, .tx = netif_eth_tx};
static const struct weft_netif_dev netif_memif_dev = {.rx = netif_memif_rx, .tx = netif_memif_tx};

/** How to reach an ethdev queue. */
static const struct weft_netif_dev *
netif_ethdev(uint16_t port_id)
{
	struct rte_eth_dev_info info;

	if (rte_eth_dev_info_get(port_id, &info) != 0 || strcmp(info.driver_name, "net_memif") != 0)
		return &netif_eth_dev;
	netif_guard_install();
	return &netif_memif_dev;
}

static bool
netif_pool_ok(struct rte_mempool *pool)
{
	return pool != NULL && rte_pktmbuf_priv_size(pool) >= sizeof(struct weft_mbuf_priv) &&
	       rte_pktmbuf_data_room_size(pool) >=
	               RTE_PKTMBUF_HEADROOM + NETIF_HEADERS_MAX + WEFT_NETIF_HEADROOM;
}

static bool
netif_attr_ok(const struct weft_netif_attr *a)
{
	static const struct weft_ip none;
	uint32_t net_diff;

	if (!netif_pool_ok(a->pool) || (a->tx_pool != NULL && !netif_pool_ok(a->tx_pool)))
		return false;
	if (a->dev != NULL && (a->dev->rx == NULL || a->dev->tx == NULL))
		return false;
	if (!rte_is_valid_assigned_ether_addr(&a->mac))
		return false;
	if (!weft_ip_is_v4(&a->addr) || !netif_ip_is_host(weft_ip_v4(&a->addr)))
		return false;
	/* RFC 791 s3.2: every link carries 68 octets; a header pair must leave room for data. */
	if (a->prefix_len > 32 || (a->mtu_bytes != 0 && a->mtu_bytes < 128))
		return false;
	if (weft_ip_eq(&a->gateway, &none))
		return true;
	if (!weft_ip_is_v4(&a->gateway) || !netif_ip_is_host(weft_ip_v4(&a->gateway)) ||
	    weft_ip_eq(&a->gateway, &a->addr))
		return false;
	net_diff = rte_be_to_cpu_32(weft_ip_v4(&a->gateway) ^ weft_ip_v4(&a->addr));
	return a->prefix_len == 0 || net_diff >> (32 - a->prefix_len) == 0;
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
	if (attr->dev == NULL) {
		nif->attr.dev = netif_ethdev(attr->port_id);
		nif->attr.dev_arg = nif;
		nif->ethdev = true;
	}
	if (attr->group != NULL && netif_group_join(nif) != 0) {
		rte_free(nif);
		return -EINVAL;
	}
	if (attr->mtu_bytes == 0)
		nif->attr.mtu_bytes = RTE_ETHER_MTU;
	nif->addr4 = weft_ip_v4(&attr->addr);
	nif->mask4 =
	        attr->prefix_len == 0 ? 0 : rte_cpu_to_be_32(UINT32_MAX << (32 - attr->prefix_len));
	if (sched->rand.fill != NULL)
		nif->ip_id = (uint16_t)weft_rand_u32(&sched->rand);
	netif_arp_init(nif);
	*out = nif;
	return 0;
}

void
weft_netif_destroy(struct weft_netif *nif)
{
	if (nif == NULL)
		return;
	for (; nif->head != nif->tail; nif->head++)
		rte_pktmbuf_free(nif->ring[nif->head % NETIF_RING]);
	netif_arp_fini(nif);
	if (nif->attr.group != NULL)
		netif_group_leave(nif);
	rte_free(nif);
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

struct rte_mbuf *
weft_netif_alloc(struct weft_netif *nif, uint16_t headroom)
{
	struct rte_mbuf *m;

	if (headroom > rte_pktmbuf_data_room_size(nif->attr.tx_pool))
		return NULL;
	m = rte_pktmbuf_alloc(nif->attr.tx_pool);
	if (likely(m != NULL))
		m->data_off = headroom;
	return m;
}

const struct weft_ip *
weft_netif_src(const struct weft_netif *nif, const struct weft_ip *dst)
{
	return weft_ip_is_v4(dst) ? &nif->attr.addr : NULL;
}

bool
weft_netif_is_local(const struct weft_netif *nif, const struct weft_ip *ip)
{
	return weft_ip_eq(ip, &nif->attr.addr);
}

/* ---- Receive ---- */

void
netif_trim(struct rte_mbuf *m, uint32_t len)
{
	struct rte_mbuf *s = m, *rest;
	uint32_t left = len;

	if (len >= m->pkt_len)
		return;
	m->pkt_len = len;
	for (m->nb_segs = 1; left > s->data_len; s = s->next, m->nb_segs++)
		left -= s->data_len;
	s->data_len = (uint16_t)left;
	rest = s->next;
	s->next = NULL;
	if (rest != NULL)
		rte_pktmbuf_free(rest);
}

/* Check the Ethernet header; a TCP segment comes back, anything else is dealt with here. */
static struct rte_mbuf *
netif_ether_rx(struct weft_netif *nif, struct rte_mbuf *m)
{
	const struct rte_ether_hdr *eth;
	bool broadcast;

	nif->stats.rx_packets++;
	nif->stats.rx_bytes += m->pkt_len;
	/* Rare: a chain whose headers are torn. Copied together, the rest need not care. */
	if (unlikely(m->data_len < NETIF_HEADERS_MAX && m->nb_segs > 1)) {
		struct rte_mbuf *c = rte_pktmbuf_copy(m, nif->attr.pool, 0, UINT32_MAX);

		if (c == NULL)
			goto no_mbuf;
		rte_pktmbuf_free(m);
		m = c;
	}
	if (unlikely(m->data_len < NETIF_ETHER_LEN))
		goto bad;
	eth = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);
	broadcast = rte_is_broadcast_ether_addr(&eth->dst_addr);
	if (!rte_is_same_ether_addr(&eth->dst_addr, &nif->attr.mac) && !broadcast)
		goto bad;
	if (unlikely(!rte_is_valid_assigned_ether_addr(&eth->src_addr)))
		goto bad;
	switch (eth->ether_type) {
	case RTE_BE16(RTE_ETHER_TYPE_IPV4):
		if (broadcast) { /* nothing we speak is ever broadcast (RFC 1122 s3.2.2.6,
			            s4.2.3.10) */
			nif->stats.rx_not_ours++;
			break;
		}
		return netif_ip_rx(nif, m);
	case RTE_BE16(RTE_ETHER_TYPE_ARP):
		netif_arp_rx(nif, m);
		break;
	default:
		goto bad;
	}
	rte_pktmbuf_free(m);
	return NULL;
bad:
	nif->stats.rx_bad_ether++;
	rte_pktmbuf_free(m);
	return NULL;
no_mbuf:
	nif->stats.rx_no_mbuf++;
	rte_pktmbuf_free(m);
	return NULL;
}

unsigned int
weft_netif_poll(struct weft_netif *nif, uint64_t now_ns)
{
	struct rte_mbuf *m[WEFT_NETIF_BURST];
	unsigned int n, segs = 0;

	nif->now_ns = now_ns;
	if (unlikely(!nif->announced)) {
		nif->announced = true;
		if (netif_answers(nif))
			netif_arp_announce(nif);
	}
	n = nif->attr.dev->rx(nif->attr.dev_arg, m, WEFT_NETIF_BURST);
	if (netif_capture_on(nif) && n > 0)
		netif_capture_rx(nif, m, n);
	for (unsigned int i = 0; i < n; i++)
		rte_prefetch0(rte_pktmbuf_mtod(m[i], void *));
	/* Segments gather at the front of the array they came in. */
	for (unsigned int i = 0; i < n; i++) {
		struct rte_mbuf *seg = netif_ether_rx(nif, m[i]);

		if (likely(seg != NULL))
			m[segs++] = seg;
	}
	if (segs > 0)
		nif->ops.tcp_rx(nif->ops_arg, nif, m, segs, now_ns);
	return nif->attr.group == NULL ? n : n + netif_group_moved(nif);
}

/* ---- Transmit ---- */

/* Offer one burst to the port; false when it did not take all of it. */
static bool
netif_push(struct weft_netif *nif)
{
	struct rte_mbuf **m = &nif->ring[nif->head % NETIF_RING];
	uint32_t n = RTE_MIN(nif->tail - nif->head, (uint32_t)WEFT_NETIF_BURST);
	uint32_t len[WEFT_NETIF_BURST], sent;

	n = RTE_MIN(n, NETIF_RING - nif->head % NETIF_RING);
	/* Once sent, an mbuf may be gone. */
	for (uint32_t i = 0; i < n; i++)
		len[i] = m[i]->pkt_len;
	if (netif_capture_on(nif))
		sent = netif_capture_tx(nif, m, n);
	else
		sent = nif->attr.dev->tx(nif->attr.dev_arg, m, (uint16_t)n);
	for (uint32_t i = 0; i < sent; i++)
		nif->stats.tx_bytes += len[i];
	nif->stats.tx_packets += sent;
	nif->head += sent;
	nif->stalled = sent < n;
	return !nif->stalled;
}

unsigned int
weft_netif_flush(struct weft_netif *nif, uint64_t now_ns)
{
	uint32_t before = nif->head;

	nif->now_ns = now_ns;
	while (nif->head != nif->tail && netif_push(nif))
		;
	return nif->head - before;
}

unsigned int
weft_netif_tx_room(const struct weft_netif *nif)
{
	uint32_t used = nif->tail - nif->head;

	return used < WEFT_NETIF_TXQ ? WEFT_NETIF_TXQ - used : 0;
}

int
netif_enqueue(struct weft_netif *nif, struct rte_mbuf *m, bool ctrl)
{
	if (unlikely(nif->tail - nif->head >= (ctrl ? NETIF_RING_CTRL : WEFT_NETIF_TXQ))) {
		nif->stats.tx_queue_full++;
		rte_pktmbuf_free(m);
		return -ENOBUFS;
	}
	nif->ring[nif->tail++ % NETIF_RING] = m;
	/* A full burst goes out while its headers are still in the cache. */
	if (nif->tail - nif->head >= WEFT_NETIF_BURST && !nif->stalled)
		netif_push(nif);
	return 0;
}

/* Ports that cannot gather get one flat copy. */
static struct rte_mbuf *
netif_flatten(struct weft_netif *nif, struct rte_mbuf *m)
{
	struct rte_mbuf *c = rte_pktmbuf_copy(m, nif->attr.tx_pool, 0, UINT32_MAX);

	rte_pktmbuf_free(m);
	if (c != NULL && c->nb_segs > 1) {
		rte_pktmbuf_free(c);
		return NULL;
	}
	return c;
}

int
weft_netif_tx(struct weft_netif *nif, struct weft_neigh *n, const struct weft_ip *src,
              const struct weft_ip *dst, struct rte_mbuf *m, struct weft_netif_tx_how how,
              uint64_t now_ns)
{
	const uint64_t ip_off = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;
	const uint64_t tcp_off = RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
	uint64_t flags = 0;
	uint32_t tcp_len = m->pkt_len, src4 = weft_ip_v4(src), dst4 = weft_ip_v4(dst), sum;
	struct rte_ether_hdr *eth;
	struct rte_ipv4_hdr *ip;
	struct rte_tcp_hdr *tcp;

	nif->now_ns = now_ns;
	/* A full queue is found out before the checksum is paid for. */
	if (unlikely(weft_netif_tx_room(nif) == 0)) {
		nif->stats.tx_queue_full++;
		rte_pktmbuf_free(m);
		return -ENOBUFS;
	}
	if (unlikely(m->data_len < NETIF_TCP_LEN || rte_pktmbuf_headroom(m) < WEFT_NETIF_HEADROOM ||
	             tcp_len + NETIF_IPV4_LEN > nif->attr.mtu_bytes)) {
		rte_pktmbuf_free(m);
		return -EMSGSIZE;
	}

	tcp = rte_pktmbuf_mtod(m, struct rte_tcp_hdr *);
	sum = netif_sum_pseudo(src4, dst4, IPPROTO_TCP, (uint16_t)tcp_len);
	if ((nif->attr.tx_offloads & tcp_off) != 0) {
		tcp->cksum = (uint16_t)sum;
		flags |= RTE_MBUF_F_TX_TCP_CKSUM | RTE_MBUF_F_TX_IPV4;
	} else {
		tcp->cksum = 0;
		tcp->cksum = (uint16_t)~netif_fold(sum + netif_sum_mbuf(m, 0, tcp_len));
	}

	ip = (struct rte_ipv4_hdr *)rte_pktmbuf_prepend(m, NETIF_IPV4_LEN);
	ip->version_ihl = RTE_IPV4_VHL_DEF;
	ip->type_of_service = how.ecn;
	ip->total_length = rte_cpu_to_be_16((uint16_t)(tcp_len + NETIF_IPV4_LEN));
	ip->packet_id = rte_cpu_to_be_16(nif->ip_id++);
	ip->fragment_offset = RTE_BE16(RTE_IPV4_HDR_DF_FLAG);
	ip->time_to_live = NETIF_TTL;
	ip->next_proto_id = IPPROTO_TCP;
	ip->hdr_checksum = 0;
	ip->src_addr = src4;
	ip->dst_addr = dst4;
	if ((nif->attr.tx_offloads & ip_off) != 0)
		flags |= RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_IPV4;
	else
		ip->hdr_checksum = (uint16_t)~netif_sum_ipv4(ip);

	eth = (struct rte_ether_hdr *)rte_pktmbuf_prepend(m, NETIF_ETHER_LEN);
	eth->src_addr = nif->attr.mac;
	eth->ether_type = RTE_BE16(RTE_ETHER_TYPE_IPV4);

	/* A segment that is sent again still carries the flags of the first time. */
	m->ol_flags = (m->ol_flags & ~RTE_MBUF_F_TX_OFFLOAD_MASK) | flags;
	m->l2_len = NETIF_ETHER_LEN;
	m->l3_len = NETIF_IPV4_LEN;
	m->l4_len = (tcp->data_off >> 4) * 4;

	if (unlikely(m->nb_segs > 1 && nif->ethdev &&
	             (nif->attr.tx_offloads & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) == 0)) {
		m = netif_flatten(nif, m);
		if (m == NULL) {
			nif->stats.tx_queue_full++;
			return -ENOBUFS;
		}
	}
	if (likely(n->state == NEIGH_REACHABLE &&
	           now_ns - n->confirmed_ns < NETIF_NEIGH_FRESH_NS)) {
		rte_pktmbuf_mtod(m, struct rte_ether_hdr *)->dst_addr = n->mac;
		return netif_enqueue(nif, m, false);
	}
	return netif_neigh_tx(nif, n, m);
}
