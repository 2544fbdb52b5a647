/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Frames that we make: their buffers and their headers. */

#include <rte_ethdev.h>
#include <rte_ip.h>

#include "netif_frame.h"
#include "weft_netif_mbuf.h"

uint16_t
weft_netif_tx_most(const struct weft_netif *nif)
{
	uint32_t room = rte_pktmbuf_data_room_size(nif->attr.tx_pool);

	room = room > RTE_PKTMBUF_HEADROOM + NETIF_L2_MAX
	               ? room - RTE_PKTMBUF_HEADROOM - NETIF_L2_MAX
	               : 0;
	return (uint16_t)RTE_MIN(room, (uint32_t)nif->attr.mtu_bytes);
}

struct rte_mbuf *
weft_netif_alloc(struct weft_netif *nif, uint16_t headroom)
{
	struct rte_mbuf *m;

	if (headroom > rte_pktmbuf_data_room_size(nif->attr.tx_pool))
		return NULL;
	m = rte_pktmbuf_alloc(nif->attr.tx_pool);
	if (unlikely(m == NULL))
		return NULL;
	m->data_off = headroom;
	weft_mbuf_priv(m)->tx_sum = (struct weft_mbuf_sum){
	        .wanted = (nif->attr.tx_offloads & RTE_ETH_TX_OFFLOAD_TCP_CKSUM) == 0};
	return m;
}

struct rte_mbuf *
netif_ctrl_alloc(struct weft_netif *nif, uint16_t len)
{
	struct rte_mbuf *m = weft_netif_alloc(nif, RTE_PKTMBUF_HEADROOM);

	/* Every mbuf has room for a whole frame that we send (netif_pool_holds()). */
	if (m != NULL)
		memset(rte_pktmbuf_append(m, len), 0, len);
	return m;
}

void
netif_push_ip6(struct rte_mbuf *m, const struct weft_ip *src, const struct weft_ip *dst,
               uint8_t proto, uint8_t hop_limit, uint32_t vtc_flow)
{
	uint16_t len = (uint16_t)m->pkt_len;
	struct rte_ipv6_hdr *ip = (struct rte_ipv6_hdr *)rte_pktmbuf_prepend(m, NETIF_IPV6_LEN);

	ip->vtc_flow = rte_cpu_to_be_32(6u << 28 | vtc_flow);
	ip->payload_len = rte_cpu_to_be_16(len);
	ip->proto = proto;
	ip->hop_limits = hop_limit;
	memcpy(ip->src_addr, src->b, sizeof(ip->src_addr));
	memcpy(ip->dst_addr, dst->b, sizeof(ip->dst_addr));
}
