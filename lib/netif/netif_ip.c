/* SPDX-License-Identifier: BSD-3-Clause */
/** @file IPv4 receive (RFC 791, RFC 1122 s3.2) and ICMP (RFC 792). */

#include <rte_icmp.h>

#include "netif_priv.h"

#define ICMP_LEN         8
#define ICMP_ECHO_REPLY  0 /* RFC 792 */
#define ICMP_UNREACHABLE 3
#define ICMP_ECHO        8
#define ICMP_QUOTE       8 /* octets of the datagram behind its IP header: ports and sequence number */

#define IP_ECN_MASK 0x03 /* RFC 3168 s5 */

bool
netif_ip_is_host(uint32_t addr)
{
	uint8_t top = (uint8_t)(rte_be_to_cpu_32(addr) >> 24);

	/* RFC 1122 s3.2.1.3: this network, loopback; multicast, reserved and broadcast above. */
	return top != 0 && top != 127 && top < 224;
}

bool
netif_ip_is_subnet_special(const struct weft_netif *nif, uint32_t addr)
{
	if (nif->attr.prefix_len >= 31) /* RFC 3021 */
		return false;
	return (addr & ~nif->mask4) == 0 || (addr & ~nif->mask4) == ~nif->mask4;
}

/* ---- ICMP ---- */

static void
icmp_echo(struct weft_netif *nif, const struct rte_mbuf *m, uint32_t l4_off, uint32_t l4_len)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);
	const struct rte_ipv4_hdr *ip = (const struct rte_ipv4_hdr *)(eth + 1);
	struct rte_mbuf *r;
	struct rte_icmp_hdr *icmp;
	struct rte_ipv4_hdr *rip;
	struct rte_ether_hdr *reth;

	if (l4_len + NETIF_IPV4_LEN > nif->attr.mtu_bytes) {
		nif->stats.icmp_bad++;
		return;
	}
	r = rte_pktmbuf_copy(m, nif->attr.tx_pool, l4_off, l4_len);
	if (r == NULL) {
		nif->stats.rx_no_mbuf++;
		return;
	}
	r->ol_flags &= ~(RTE_MBUF_F_TX_OFFLOAD_MASK);
	icmp = rte_pktmbuf_mtod(r, struct rte_icmp_hdr *);
	icmp->icmp_type = ICMP_ECHO_REPLY;
	icmp->icmp_cksum = 0;
	icmp->icmp_cksum = (uint16_t)~netif_sum_mbuf(r, 0, l4_len);
	rip = (struct rte_ipv4_hdr *)rte_pktmbuf_prepend(r, NETIF_IPV4_LEN);
	*rip = (struct rte_ipv4_hdr){
	        .version_ihl = RTE_IPV4_VHL_DEF,
	        .type_of_service = ip->type_of_service & ~IP_ECN_MASK, /* RFC 1122 s3.2.2.6 */
	        .total_length = rte_cpu_to_be_16((uint16_t)(l4_len + NETIF_IPV4_LEN)),
	        .packet_id = rte_cpu_to_be_16(nif->ip_id++),
	        .time_to_live = NETIF_TTL,
	        .next_proto_id = IPPROTO_ICMP,
	        .src_addr = nif->addr4,
	        .dst_addr = ip->src_addr,
	};
	rip->hdr_checksum = (uint16_t)~netif_sum_ipv4(rip);
	/* Back the way it came: a stranger's ping must not take a place among the neighbours. */
	reth = (struct rte_ether_hdr *)rte_pktmbuf_prepend(r, NETIF_ETHER_LEN);
	reth->dst_addr = eth->src_addr;
	reth->src_addr = nif->attr.mac;
	reth->ether_type = RTE_BE16(RTE_ETHER_TYPE_IPV4);
	if (netif_enqueue(nif, r, true) == 0)
		nif->stats.icmp_tx++;
}

/* Tell TCP which of its segments could not be delivered. */
static bool
icmp_unreachable(struct weft_netif *nif, const struct rte_mbuf *m, uint32_t l4_off, uint32_t l4_len,
                 uint8_t code)
{
	uint8_t buf[NETIF_IPV4_MAX + ICMP_QUOTE];
	const uint8_t *q;
	struct rte_ipv4_hdr ip;
	struct weft_icmp_error e;
	uint32_t have = l4_len - ICMP_LEN, ihl;

	have = RTE_MIN(have, (uint32_t)sizeof(buf));
	if (have < NETIF_IPV4_LEN + ICMP_QUOTE)
		return false;
	q = rte_pktmbuf_read(m, l4_off + ICMP_LEN, have, buf);
	if (q == NULL)
		return false;
	memcpy(&ip, q, sizeof(ip));
	ihl = (ip.version_ihl & 0xf) * 4u;
	if (ip.version_ihl >> 4 != 4 || ihl < NETIF_IPV4_LEN || have < ihl + ICMP_QUOTE)
		return false;
	if (ip.src_addr != nif->addr4)
		return false; /* we never sent it */
	if (ip.next_proto_id != IPPROTO_TCP ||
	    (ip.fragment_offset & RTE_BE16(RTE_IPV4_HDR_OFFSET_MASK)) != 0)
		return true; /* not TCP's business */
	e = (struct weft_icmp_error){
	        .kind = code == 2 || code == 3 ? WEFT_ICMP_HARD : WEFT_ICMP_SOFT,
	        .src = nif->attr.addr,
	        .dst = weft_ip_from_v4(ip.dst_addr),
	        .src_port = weft_get_be16(q + ihl),
	        .dst_port = weft_get_be16(q + ihl + 2),
	        .seq = weft_get_be32(q + ihl + 4),
	};
	if (nif->ops.icmp_error != NULL)
		nif->ops.icmp_error(nif->ops_arg, nif, &e, netif_now(nif));
	return true;
}

static void
icmp_rx(struct weft_netif *nif, const struct rte_mbuf *m, uint32_t l4_off, uint32_t l4_len)
{
	const struct rte_icmp_hdr *icmp;

	nif->stats.icmp_rx++;
	if (l4_len < ICMP_LEN || netif_sum_mbuf(m, l4_off, l4_len) != 0xffff)
		goto bad;
	icmp = rte_pktmbuf_mtod_offset(m, const struct rte_icmp_hdr *, l4_off);
	switch (icmp->icmp_type) {
	case ICMP_ECHO:
		if (icmp->icmp_code != 0)
			goto bad;
		icmp_echo(nif, m, l4_off, l4_len);
		return;
	case ICMP_UNREACHABLE:
		if (!icmp_unreachable(nif, m, l4_off, l4_len, icmp->icmp_code))
			goto bad;
		return;
	default: /* RFC 1122 s3.2.2: others are silently discarded */
		return;
	}
bad:
	nif->stats.icmp_bad++;
}

/* ---- IPv4 ---- */

/* What the port says about a checksum; it is asked only when it promised to tell. */
enum cksum_verdict { CKSUM_GOOD, CKSUM_BAD, CKSUM_UNKNOWN };

static inline enum cksum_verdict
ip_port_verdict(const struct weft_netif *nif, const struct rte_mbuf *m)
{
	if ((nif->attr.rx_offloads & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM) == 0)
		return CKSUM_UNKNOWN;
	switch (m->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) {
	case RTE_MBUF_F_RX_IP_CKSUM_GOOD:
	case RTE_MBUF_F_RX_IP_CKSUM_NONE: /* never on a wire, intact all the same */
		return CKSUM_GOOD;
	case RTE_MBUF_F_RX_IP_CKSUM_BAD:
		return CKSUM_BAD;
	default:
		return CKSUM_UNKNOWN;
	}
}

static inline enum cksum_verdict
tcp_port_verdict(const struct weft_netif *nif, const struct rte_mbuf *m)
{
	if ((nif->attr.rx_offloads & RTE_ETH_RX_OFFLOAD_TCP_CKSUM) == 0)
		return CKSUM_UNKNOWN;
	switch (m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) {
	case RTE_MBUF_F_RX_L4_CKSUM_GOOD:
	case RTE_MBUF_F_RX_L4_CKSUM_NONE:
		return CKSUM_GOOD;
	case RTE_MBUF_F_RX_L4_CKSUM_BAD:
		return CKSUM_BAD;
	default:
		return CKSUM_UNKNOWN;
	}
}

/* Whether every segment of the chain is ours alone: from our pool, direct, and held once. */
static inline bool
ip_mbuf_is_ours(const struct weft_netif *nif, const struct rte_mbuf *m)
{
	for (; m != NULL; m = m->next)
		if (m->pool != nif->attr.pool || !RTE_MBUF_DIRECT(m) ||
		    rte_mbuf_refcnt_read(m) != 1)
			return false;
	return true;
}

/* Make m (a whole frame) into its TCP segment alone, in memory of ours; NULL: no memory. */
static inline struct rte_mbuf *
ip_take_tcp(struct weft_netif *nif, struct rte_mbuf *m, uint32_t l4_off, uint32_t l4_len)
{
	struct rte_mbuf *c;

	if (likely(ip_mbuf_is_ours(nif, m))) {
		netif_trim(m, l4_off + l4_len);
		rte_pktmbuf_adj(m, (uint16_t)l4_off);
		return m;
	}
	c = rte_pktmbuf_copy(m, nif->attr.pool, l4_off, l4_len);
	if (unlikely(c == NULL))
		nif->stats.rx_no_mbuf++;
	rte_pktmbuf_free(m);
	return c;
}

struct rte_mbuf *
netif_ip_rx(struct weft_netif *nif, struct rte_mbuf *m)
{
	uint64_t *bad = &nif->stats.rx_bad_ip;
	const struct rte_ipv4_hdr *ip;
	struct weft_mbuf_priv *priv;
	enum cksum_verdict verdict;
	uint32_t ihl, total, l4_len, src, dst;
	uint8_t tos;

	/* The first segment holds all headers or the whole packet (netif_ether_rx). */
	if (unlikely(m->data_len < NETIF_ETHER_LEN + NETIF_IPV4_LEN))
		goto drop;
	ip = rte_pktmbuf_mtod_offset(m, const struct rte_ipv4_hdr *, NETIF_ETHER_LEN);
	ihl = (ip->version_ihl & 0xf) * 4u;
	total = rte_be_to_cpu_16(ip->total_length);
	if (unlikely(ip->version_ihl >> 4 != 4 || ihl < NETIF_IPV4_LEN || total < ihl ||
	             total > m->pkt_len - NETIF_ETHER_LEN || ip->time_to_live == 0))
		goto drop;
	l4_len = total - ihl;

	bad = &nif->stats.rx_bad_ip_cksum;
	verdict = ip_port_verdict(nif, m);
	if (verdict == CKSUM_UNKNOWN)
		verdict = (likely(ihl == NETIF_IPV4_LEN) ? netif_sum_ipv4(ip)
		                                         : netif_sum(ip, ihl)) == 0xffff
		                  ? CKSUM_GOOD
		                  : CKSUM_BAD;
	if (unlikely(verdict == CKSUM_BAD))
		goto drop;

	bad = &nif->stats.rx_fragment;
	if (unlikely((ip->fragment_offset &
	              RTE_BE16(RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK)) != 0))
		goto drop;

	bad = &nif->stats.rx_not_ours;
	src = ip->src_addr;
	dst = ip->dst_addr;
	if (unlikely(dst != nif->addr4 || src == nif->addr4 || !netif_ip_is_host(src) ||
	             (((src ^ dst) & nif->mask4) == 0 && netif_ip_is_subnet_special(nif, src))))
		goto drop;

	if (unlikely(ip->next_proto_id != IPPROTO_TCP)) {
		bad = &nif->stats.rx_bad_proto;
		if (ip->next_proto_id != IPPROTO_ICMP)
			goto drop;
		icmp_rx(nif, m, NETIF_ETHER_LEN + ihl, l4_len);
		rte_pktmbuf_free(m);
		return NULL;
	}

	bad = &nif->stats.rx_bad_tcp_cksum;
	if (unlikely(l4_len < NETIF_TCP_LEN))
		goto drop;
	tos = ip->type_of_service;
	verdict = tcp_port_verdict(nif, m);
	m = ip_take_tcp(nif, m, NETIF_ETHER_LEN + ihl, l4_len);
	if (unlikely(m == NULL))
		return NULL;
	if (verdict == CKSUM_UNKNOWN)
		verdict = netif_fold(netif_sum_pseudo(src, dst, IPPROTO_TCP, (uint16_t)l4_len) +
		                     netif_sum_mbuf(m, 0, l4_len)) == 0xffff
		                  ? CKSUM_GOOD
		                  : CKSUM_BAD;
	if (unlikely(verdict == CKSUM_BAD))
		goto drop;
	priv = weft_mbuf_priv(m);
	priv->rx.src = weft_ip_from_v4(src);
	priv->rx.dst = weft_ip_from_v4(dst);
	priv->rx.ecn = tos & IP_ECN_MASK;
	return m;
drop:
	(*bad)++;
	rte_pktmbuf_free(m);
	return NULL;
}
