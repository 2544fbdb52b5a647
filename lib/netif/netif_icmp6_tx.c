/* SPDX-License-Identifier: BSD-3-Clause */
/** @file ICMPv6 messages (RFC 4443) that we send: their checksum and headers, and errors. */

#include <rte_ip.h>

#include "netif_cksum.h"
#include "netif_frame.h"
#include "netif_icmp.h"
#include "netif_txq.h"

#define ICMP6_CKSUM_OFF 2

bool
netif_icmp6_send(struct netif_vlan *v, struct rte_mbuf *m, const struct weft_ip *src,
                 const struct weft_ip *dst, uint8_t hop_limit, const struct rte_ether_addr *mac)
{
	const struct weft_ip from = weft_ip_bare(src), to = weft_ip_bare(dst);
	/* RFC 2464 s7 */
	struct rte_ether_addr group = {
	        {0x33, 0x33, dst->b[12], dst->b[13], dst->b[14], dst->b[15]}};
	uint8_t *p = rte_pktmbuf_mtod(m, uint8_t *);
	uint16_t sum;

	m->ol_flags &= ~RTE_MBUF_F_TX_OFFLOAD_MASK;
	memset(p + ICMP6_CKSUM_OFF, 0, sizeof(sum));
	sum = (uint16_t)~netif_fold(
	        (uint64_t)netif_sum_pseudo6(&from, &to, IPPROTO_ICMPV6, m->pkt_len) +
	        netif_sum_mbuf(m, 0, m->pkt_len));
	memcpy(p + ICMP6_CKSUM_OFF, &sum, sizeof(sum));
	netif_push_ip6(m, &from, &to, IPPROTO_ICMPV6, hop_limit, 0);
	netif_push_ether(v->nif, v->id, m, RTE_BE16(RTE_ETHER_TYPE_IPV6),
	                 mac != NULL ? mac : &group);
	return netif_enqueue(v->nif, m, true) == 0;
}

void
netif_icmp6_error(struct netif_vlan *v, const struct rte_mbuf *m, uint32_t l3_off, uint8_t type,
                  uint8_t code, uint32_t param)
{
	struct weft_netif *nif = v->nif;
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);
	const struct rte_ipv6_hdr *ip =
	        rte_pktmbuf_mtod_offset(m, const struct rte_ipv6_hdr *, l3_off);
	/* RFC 4443 s2.4 (c): as much of the packet as fits the minimum MTU */
	uint32_t len = RTE_MIN((uint32_t)NETIF_IPV6_LEN + rte_be_to_cpu_16(ip->payload_len),
	                       (uint32_t)NETIF_IPV6_MTU_MIN - NETIF_IPV6_LEN - NETIF_ICMP6_LEN);
	const struct netif_net *own;
	const struct weft_ip *from;
	struct weft_ip src, dst;
	struct rte_mbuf *r;
	uint8_t *p;

	memcpy(src.b, ip->src_addr, sizeof(src.b));
	memcpy(dst.b, ip->dst_addr, sizeof(dst.b));
	/* ip6_rx() has checked both. */
	if (weft_ip_is_link_local(&src))
		weft_ip_set_zone(&src, v->zone);
	from = &dst;
	if (netif_ip6_is_multicast(&dst)) {
		/* s2.4 (e.3): for a multicast packet only an unknown option is reported */
		own = type == NETIF_ICMP6_PARAM && code == NETIF_ICMP6_OPTION
		              ? netif_net_src6(v, &src)
		              : NULL;
		from = own != NULL ? &own->ip : NULL;
	}
	if (from == NULL || !netif_icmp_may_send(nif, &src))
		return;
	r = rte_pktmbuf_copy(m, nif->attr.tx_pool, l3_off, len);
	if (r == NULL)
		return; /* errors are optional; the caller has counted the packet */
	p = (uint8_t *)rte_pktmbuf_prepend(r, NETIF_ICMP6_LEN);
	if (p == NULL) {
		rte_pktmbuf_free(r);
		return;
	}
	memset(p, 0, NETIF_ICMP6_LEN);
	p[0] = type;
	p[1] = code;
	weft_put_be32(p + 4, param);
	nif->stats.icmp_tx++;
	netif_icmp6_send(v, r, from, &src, NETIF_TTL, &eth->src_addr);
}
