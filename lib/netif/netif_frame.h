/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_FRAME_H
#define NETIF_FRAME_H

/** @file Frames that we make: their buffers and their headers (netif_frame.c), weft_netif_alloc()
 * included. Polling thread. */

#include "netif_hdr.h"
#include "netif_priv.h"

/** Allocates an mbuf with `len` zero octets and headroom for every header; NULL: none left. */
struct rte_mbuf *netif_ctrl_alloc(struct weft_netif *nif, uint16_t len);
/** Puts an IPv6 header in front of m. */
void netif_push_ip6(struct rte_mbuf *m, const struct weft_ip *src, const struct weft_ip *dst,
                    uint8_t proto, uint8_t hop_limit, uint32_t vtc_flow);

/** Puts an Ethernet header in front of m, with a tag unless vlan_id is 0. dst NULL: filled in
 * later. m's offload flags must be right before: the tag may add one. */
static inline void
netif_push_ether(struct weft_netif *nif, uint16_t vlan_id, struct rte_mbuf *m, rte_be16_t type,
                 const struct rte_ether_addr *dst)
{
	bool tagged = vlan_id != 0 && !nif->vlan_insert;
	uint16_t len = tagged ? NETIF_L2_MAX : NETIF_ETHER_LEN;
	struct rte_ether_hdr *eth = (struct rte_ether_hdr *)rte_pktmbuf_prepend(m, len);

	m->l2_len = len;
	if (dst != NULL)
		eth->dst_addr = *dst;
	eth->src_addr = nif->attr.mac;
	eth->ether_type = type;
	if (unlikely(tagged)) {
		struct rte_vlan_hdr *tag = (struct rte_vlan_hdr *)(eth + 1);

		eth->ether_type = RTE_BE16(RTE_ETHER_TYPE_VLAN);
		tag->vlan_tci = rte_cpu_to_be_16(vlan_id);
		tag->eth_proto = type;
	} else if (unlikely(vlan_id != 0)) {
		m->ol_flags |= RTE_MBUF_F_TX_VLAN;
		m->vlan_tci = vlan_id;
	}
}

#endif /* NETIF_FRAME_H */
