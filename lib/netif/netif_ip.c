/* SPDX-License-Identifier: BSD-3-Clause */
/** @file IPv4 receive (RFC 791, RFC 1122 s3.2), and functions that IPv6 shares. */

#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_tcp.h>

#include "netif_cksum.h"
#include "netif_hdr.h"
#include "netif_icmp.h"
#include "netif_ip.h"
#include "netif_net.h"
#include "netif_verdict.h"
#include "weft_netif_mbuf.h"

#define IP_ECN_MASK 0x03 /* RFC 3168 s5 */

/* Whether only we hold every mbuf of the chain: from our pool, direct, refcnt 1. */
static inline bool
ip_mbuf_is_ours(const struct weft_netif *nif, const struct rte_mbuf *m)
{
	for (; m != NULL; m = m->next) {
		if (m->pool != nif->attr.pool || !RTE_MBUF_DIRECT(m) ||
		    rte_mbuf_refcnt_read(m) != 1)
			return false;
		/* Another holder may have let go of it a moment ago: a sender in this process, of a
		 * segment that it had sent twice. What is written into m comes after its last read,
		 * since a store does not pass the load of the count that it depends on. */
		WEFT_TSAN_ACQUIRE(&m->refcnt);
	}
	return true;
}

/* Cuts a chain that no other holder has to its first `len` octets. */
static void
ip_trim(struct rte_mbuf *m, uint32_t len)
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

/* Reduces m, a whole frame, to its TCP segment, in an mbuf of ours. NULL: no mbuf. */
static inline struct rte_mbuf *
ip_take_tcp(struct weft_netif *nif, struct rte_mbuf *m, uint32_t l4_off, uint32_t l4_len)
{
	struct rte_mbuf *c;

	if (likely(ip_mbuf_is_ours(nif, m))) {
		ip_trim(m, l4_off + l4_len);
		rte_pktmbuf_adj(m, (uint16_t)l4_off);
		return m;
	}
	c = rte_pktmbuf_copy(m, nif->attr.pool, l4_off, l4_len);
	if (unlikely(c == NULL))
		nif->stats.rx_no_mbuf++;
	netif_rx_free(m);
	return c;
}

/* netif_take_tcp(), inline for IPv4. */
static inline struct rte_mbuf *
ip_tcp(struct weft_netif *nif, struct rte_mbuf *m, uint32_t l4_off, uint32_t l4_len,
       uint32_t pseudo, const struct weft_ip *src, const struct weft_ip *dst, uint8_t ecn)
{
	struct weft_mbuf_priv *priv;
	enum cksum_verdict verdict;

	if (unlikely(l4_len < NETIF_TCP_LEN))
		goto drop;
	verdict = netif_verdict_tcp(nif->attr.rx_offloads, m);
	m = ip_take_tcp(nif, m, l4_off, l4_len);
	if (unlikely(m == NULL))
		return NULL;
	if (likely(verdict == CKSUM_GOOD && nif->rx_sum.left > 0)) {
		nif->rx_sum.left--;
	} else if (likely(!netif_sum_left_out(
	                   m, rte_pktmbuf_mtod(m, const struct rte_tcp_hdr *)->cksum, pseudo))) {
		bool good = netif_fold(pseudo + netif_sum_mbuf_open(m, 0, l4_len)) == 0xffff;

		if (verdict != CKSUM_UNKNOWN)
			netif_rx_sum_seen(nif, true, verdict == CKSUM_GOOD, good);
		if (unlikely(!good))
			goto drop;
	}
	priv = weft_mbuf_priv(m);
	priv->rx.src = *src;
	priv->rx.dst = *dst;
	priv->rx.ecn = ecn;
	return m;
drop:
	nif->stats.rx_bad_tcp_cksum++;
	netif_rx_free(m);
	return NULL;
}

struct rte_mbuf *
netif_take_tcp(struct weft_netif *nif, struct rte_mbuf *m, uint32_t l4_off, uint32_t l4_len,
               uint32_t pseudo, const struct weft_ip *src, const struct weft_ip *dst, uint8_t ecn)
{
	return ip_tcp(nif, m, l4_off, l4_len, pseudo, src, dst, ecn);
}

void
netif_ip_cut(struct weft_netif *nif, struct rte_mbuf *m, uint32_t sent, uint32_t came)
{
	nif->stats.rx_cut++;
	WEFT_LOG_PEER(netif, WARNING,
	              "a packet of %u octets arrived as %u: a port's buffers are shorter than its "
	              "frame (framesz of net_af_packet, or the sender's mtu), or it is damaged",
	              sent, came);
	netif_rx_free(m);
}

struct rte_mbuf *
netif_ip4_rx(struct netif_vlan *v, struct rte_mbuf *m, uint32_t l3_off)
{
	struct weft_netif *nif = v->nif;
	uint64_t *bad = &nif->stats.rx_bad_ip;
	const struct rte_ipv4_hdr *ip;
	const struct netif_net *net;
	struct weft_ip from;
	enum cksum_verdict verdict;
	uint32_t ihl, total, l4_len, src, dst;

	/* The first mbuf holds all headers or the whole packet (netif_ether_rx()). */
	if (unlikely(m->data_len < l3_off + NETIF_IPV4_LEN))
		goto drop;
	ip = rte_pktmbuf_mtod_offset(m, const struct rte_ipv4_hdr *, l3_off);
	ihl = (ip->version_ihl & 0xf) * 4u;
	total = rte_be_to_cpu_16(ip->total_length);
	/* A TTL of 0 or 1 is accepted (RFC 1122 s3.2.1.7: a host MUST NOT discard for it). */
	if (unlikely(ip->version_ihl >> 4 != 4 || ihl < NETIF_IPV4_LEN || total < ihl))
		goto drop;
	if (unlikely(total > m->pkt_len - l3_off)) {
		netif_ip_cut(nif, m, total, m->pkt_len - l3_off);
		return NULL;
	}
	l4_len = total - ihl;

	bad = &nif->stats.rx_bad_ip_cksum;
	verdict = netif_verdict_ip(nif->attr.rx_offloads, m);
	if (verdict != CKSUM_GOOD || unlikely(nif->rx_sum.left == 0)) {
		bool good = (likely(ihl == NETIF_IPV4_LEN) ? netif_sum_ipv4(ip)
		                                           : netif_sum(ip, ihl)) == 0xffff;

		if (verdict != CKSUM_UNKNOWN)
			netif_rx_sum_seen(nif, false, verdict == CKSUM_GOOD, good);
		if (unlikely(!good))
			goto drop;
	}

	/*
	 * Fragments are dropped, not reassembled. We send with DF, and TCP's segments fit the path.
	 * A host that stores incomplete datagrams can be made to store many.
	 */
	bad = &nif->stats.rx_fragment;
	if (unlikely((ip->fragment_offset &
	              RTE_BE16(RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK)) != 0))
		goto drop;

	bad = &nif->stats.rx_not_ours;
	src = ip->src_addr;
	dst = ip->dst_addr;
	net = netif_net4_find(nif, dst);
	if (unlikely(net == NULL || net->vlan != v ||
	             (netif_net4_find(nif, src) != NULL && !nif->attr.shared) ||
	             !netif_ip_is_host(src) ||
	             (((src ^ dst) & net->mask4) == 0 &&
	              netif_ip_is_subnet_special(src, net->mask4))))
		goto drop;

	if (unlikely(ip->next_proto_id != IPPROTO_TCP)) {
		if (ip->next_proto_id == IPPROTO_ICMP) {
			netif_icmp_rx(v, m, l3_off, l3_off + ihl, l4_len);
			netif_rx_free(m);
			return NULL;
		}
		/* RFC 1122 s3.2.2.1, s4.1.3.1 */
		netif_icmp_unreachable(v, m, l3_off,
		                       ip->next_proto_id == IPPROTO_UDP ? NETIF_ICMP_PORT
		                                                        : NETIF_ICMP_PROTO);
		bad = &nif->stats.rx_bad_proto;
		goto drop;
	}
	from = weft_ip_from_v4(src);
	return ip_tcp(nif, m, l3_off + ihl, l4_len,
	              netif_sum_pseudo(src, dst, IPPROTO_TCP, (uint16_t)l4_len), &from, &net->ip,
	              ip->type_of_service & IP_ECN_MASK);
drop:
	(*bad)++;
	netif_rx_free(m);
	return NULL;
}
