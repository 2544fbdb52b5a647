/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Transmit of TCP segments: checksums, IP and Ethernet headers, the next hop. */

#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_tcp.h>

#include "netif_cksum.h"
#include "netif_frame.h"
#include "netif_ip.h"
#include "netif_neigh.h"
#include "netif_tso.h"
#include "netif_txq.h"
#include "weft_netif_mbuf.h"

/* Makes one contiguous copy for a port that cannot gather. */
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

/*
 * tx_ip4() and tx_ip6() both write the TCP checksum or leave it to the port, and set the flags that
 * say which. A port that cuts TSO packets needs the sum of a pseudo-header without the length. The
 * port adds each segment's length.
 */
static inline uint32_t
tx_pseudo_len(const struct rte_mbuf *m, struct weft_netif_tx_how how)
{
	return likely(how.tso_segsz_bytes == 0) ? m->pkt_len : 0;
}

static inline uint64_t
tx_cksum(const struct weft_netif *nif, struct rte_mbuf *m, uint32_t pseudo,
         struct weft_netif_tx_how how)
{
	struct rte_tcp_hdr *tcp = rte_pktmbuf_mtod(m, struct rte_tcp_hdr *);

	if (unlikely(how.tso_segsz_bytes != 0)) {
		tcp->cksum = (uint16_t)pseudo;
		return RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_TCP_CKSUM;
	}
	if ((nif->attr.tx_offloads & RTE_ETH_TX_OFFLOAD_TCP_CKSUM) != 0 && !how.own_sum) {
		tcp->cksum = (uint16_t)pseudo;
		return RTE_MBUF_F_TX_TCP_CKSUM;
	}
	tcp->cksum = 0;
	tcp->cksum = (uint16_t)~netif_fold((uint64_t)pseudo + netif_sum_mbuf(m, 0, m->pkt_len));
	return 0;
}

/** The octet that IPv4 calls type of service and IPv6 traffic class (RFC 2474 s3, RFC 3168 s5). */
static inline uint8_t
tx_class(struct weft_netif_tx_how how)
{
	return (uint8_t)(how.dscp << 2 | how.ecn);
}

static inline uint64_t
tx_ip4(struct weft_netif *nif, struct rte_mbuf *m, const struct weft_ip *src,
       const struct weft_ip *dst, struct weft_netif_tx_how how)
{
	uint32_t tcp_len = m->pkt_len, src4 = weft_ip_v4(src), dst4 = weft_ip_v4(dst);
	uint32_t pseudo =
	        netif_sum_pseudo(src4, dst4, IPPROTO_TCP, (uint16_t)tx_pseudo_len(m, how));
	uint64_t flags = tx_cksum(nif, m, pseudo, how);
	struct rte_ipv4_hdr *ip;

	ip = (struct rte_ipv4_hdr *)rte_pktmbuf_prepend(m, NETIF_IPV4_LEN);
	ip->version_ihl = RTE_IPV4_VHL_DEF;
	ip->type_of_service = tx_class(how);
	ip->total_length = rte_cpu_to_be_16((uint16_t)(tcp_len + NETIF_IPV4_LEN));
	ip->packet_id = netif_ip_id(nif, src4, dst4, IPPROTO_TCP, !how.may_fragment);
	ip->fragment_offset = how.may_fragment ? 0 : RTE_BE16(RTE_IPV4_HDR_DF_FLAG);
	ip->time_to_live = NETIF_TTL;
	ip->next_proto_id = IPPROTO_TCP;
	ip->hdr_checksum = 0;
	ip->src_addr = src4;
	ip->dst_addr = dst4;
	if ((nif->attr.tx_offloads & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM) != 0 && !how.own_sum)
		flags |= RTE_MBUF_F_TX_IP_CKSUM;
	else
		ip->hdr_checksum = (uint16_t)~netif_sum_ipv4(ip);
	return flags != 0 ? flags | RTE_MBUF_F_TX_IPV4 : 0;
}

/*
 * The flow label of a connection (RFC 6437 s3): the same for all its packets, evenly distributed,
 * and useless for guessing the label of another connection.
 */
static inline uint32_t
tx_flow_label(const struct weft_netif *nif, const struct weft_ip *src, const struct weft_ip *dst,
              uint32_t ports)
{
	uint64_t w[4], h = nif->flow_key[0] ^ ports;

	memcpy(&w[0], src->b, sizeof(src->b));
	memcpy(&w[2], dst->b, sizeof(dst->b));
	for (unsigned int i = 0; i < RTE_DIM(w); i++) {
		h = (h ^ w[i]) * 0x9e3779b97f4a7c15ULL;
		h ^= h >> 32;
	}
	h = (h ^ nif->flow_key[1]) * 0xff51afd7ed558ccdULL;
	return (uint32_t)(h >> 44);
}

static inline uint64_t
tx_ip6(struct weft_netif *nif, struct rte_mbuf *m, const struct weft_ip *src,
       const struct weft_ip *dst, struct weft_netif_tx_how how)
{
	struct weft_ip bare[2];
	uint32_t pseudo, ports;
	uint64_t flags;

	if (unlikely(weft_ip_is_link_local(src) || weft_ip_is_link_local(dst))) {
		bare[0] = weft_ip_bare(src);
		bare[1] = weft_ip_bare(dst);
		src = &bare[0];
		dst = &bare[1];
	}
	pseudo = netif_sum_pseudo6(src, dst, IPPROTO_TCP, tx_pseudo_len(m, how));
	flags = tx_cksum(nif, m, pseudo, how);
	memcpy(&ports, rte_pktmbuf_mtod(m, void *), sizeof(ports));
	netif_push_ip6(m, src, dst, IPPROTO_TCP, NETIF_TTL,
	               (uint32_t)tx_class(how) << 20 | tx_flow_label(nif, src, dst, ports));
	return flags != 0 ? flags | RTE_MBUF_F_TX_IPV6 : 0;
}

/*
 * weft_netif_tx() for a packet that netif cuts. The caller has checked the sizes. Not inline: the
 * array of pieces would enlarge the stack frame of every call of weft_netif_tx().
 */
static __rte_noinline int
tx_pieces(struct weft_netif *nif, struct weft_neigh *n, const struct weft_ip *src,
          const struct weft_ip *dst, struct rte_mbuf *m, uint32_t hdr_len,
          struct weft_netif_tx_how how, uint64_t now_ns)
{
	struct rte_mbuf *piece[WEFT_NETIF_TSO_SEGS];
	unsigned int segs = netif_tso_segs(m->pkt_len - hdr_len, how.tso_segsz_bytes);
	bool ok;

	if (weft_netif_tx_room(nif) < segs) {
		nif->stats.tx_queue_full += segs;
		rte_pktmbuf_free(m);
		return -ENOBUFS;
	}
	ok = netif_tso_cut(nif, m, hdr_len, how.tso_segsz_bytes, piece, segs);
	rte_pktmbuf_free(m);
	if (!ok) {
		nif->stats.tx_no_mbuf++;
		return -ENOBUFS;
	}
	how.tso_segsz_bytes = 0;
	/* Room, size and headroom are already checked: no piece is refused. */
	for (unsigned int i = 0; i < segs; i++)
		(void)weft_netif_tx(nif, n, src, dst, piece[i], how, now_ns);
	return 0;
}

int
weft_netif_tx(struct weft_netif *nif, struct weft_neigh *n, const struct weft_ip *src,
              const struct weft_ip *dst, struct rte_mbuf *m, struct weft_netif_tx_how how,
              uint64_t now_ns)
{
	bool v4 = weft_ip_is_v4(dst);
	uint32_t ip_len = v4 ? NETIF_IPV4_LEN : NETIF_IPV6_LEN;
	uint32_t limit = likely(how.tso_segsz_bytes == 0) ? nif->attr.mtu_bytes : NETIF_IP_MAX;
	uint64_t flags;
	uint8_t tcp_hdr;

	nif->now_ns = now_ns;
	/* Check for a full queue before computing the checksum. */
	if (unlikely(weft_netif_tx_room(nif) == 0)) {
		nif->stats.tx_queue_full++;
		rte_pktmbuf_free(m);
		return -ENOBUFS;
	}
	if (unlikely(m->data_len < NETIF_TCP_LEN || rte_pktmbuf_headroom(m) < WEFT_NETIF_HEADROOM ||
	             m->pkt_len + ip_len > limit)) {
		rte_pktmbuf_free(m);
		return -EMSGSIZE;
	}
	tcp_hdr = (uint8_t)((rte_pktmbuf_mtod(m, struct rte_tcp_hdr *)->data_off >> 4) * 4);
	if (unlikely(how.tso_segsz_bytes != 0)) {
		uint32_t payload = m->pkt_len - tcp_hdr;

		if (tcp_hdr > m->data_len ||
		    ip_len + tcp_hdr + how.tso_segsz_bytes > nif->attr.mtu_bytes ||
		    payload > (uint32_t)how.tso_segsz_bytes * WEFT_NETIF_TSO_SEGS) {
			rte_pktmbuf_free(m);
			return -EMSGSIZE;
		}
		if (netif_tso_segs(payload, how.tso_segsz_bytes) <= 1) {
			how.tso_segsz_bytes = 0;
		} else if (!netif_tso_port(nif, m) || how.may_fragment || how.own_sum) {
			/* A port counts identifications up from ours, so they would be used
			 * twice. */
			return tx_pieces(nif, n, src, dst, m, tcp_hdr, how, now_ns);
		}
	}
	flags = v4 ? tx_ip4(nif, m, src, dst, how) : tx_ip6(nif, m, src, dst, how);
	/* A retransmitted segment still has the flags of its first transmission. */
	m->ol_flags = (m->ol_flags & ~RTE_MBUF_F_TX_OFFLOAD_MASK) | flags;
	netif_push_ether(nif, n->vlan_id, m,
	                 v4 ? RTE_BE16(RTE_ETHER_TYPE_IPV4) : RTE_BE16(RTE_ETHER_TYPE_IPV6), NULL);
	m->l3_len = ip_len;
	m->l4_len = tcp_hdr;
	m->tso_segsz = how.tso_segsz_bytes;

	if (unlikely(m->nb_segs > 1 && nif->ethdev &&
	             (nif->attr.tx_offloads & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) == 0)) {
		m = netif_flatten(nif, m);
		if (m == NULL) {
			nif->stats.tx_no_mbuf++;
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
