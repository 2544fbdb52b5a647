/* SPDX-License-Identifier: BSD-3-Clause */
/** @file ICMP (RFC 792, RFC 1122 s3.2.2): echo, received errors about our segments, errors that we
 * send. */

#include <rte_icmp.h>
#include <rte_ip.h>

#include "netif_cksum.h"
#include "netif_frame.h"
#include "netif_icmp.h"
#include "netif_ip.h"
#include "netif_net.h"
#include "netif_txq.h"
#include "weft_netif_icmp.h"
#include "weft_netif_mbuf.h"

#define ICMP_LEN           8
#define ICMP_ECHO_REPLY    0 /* RFC 792 */
#define ICMP_UNREACHABLE   3
#define ICMP_ECHO          8
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAM         12
#define ICMP_FRAG_NEEDED   4 /* code; the next hop's MTU is in the last two octets (RFC 1191 s4) */
/* octets quoted behind the IP header: ports and sequence number */
#define ICMP_QUOTE     8
#define ICMP_ERROR_MAX 576 /* RFC 1812 s4.3.2.3: the whole error, IP header included */

/* RFC 4443 s2.4 (f): ten to each peer */
#define ICMP_RATE_PER_S (10 * WEFT_ANSWERS_PEERS)

#define IP_ECN_MASK 0x03 /* RFC 3168 s5 */

bool
netif_icmp_may_send(struct weft_netif *nif, const struct weft_ip *to)
{
	if (nif->attr.shared)
		return false; /* it is the business of the owner of the port's device */
	if (weft_answers_take(&nif->icmp_rate, nif->hash_key, to, ICMP_RATE_PER_S, netif_now(nif)))
		return true;
	nif->stats.icmp_limited++;
	return false;
}

/* Sends the ICMP message in r, with type and code set, to the sender of the packet in m. */
static void
icmp_reply(struct netif_vlan *v, struct rte_mbuf *r, const struct rte_mbuf *m, uint32_t l3_off,
           uint8_t tos)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);
	const struct rte_ipv4_hdr *ip =
	        rte_pktmbuf_mtod_offset(m, const struct rte_ipv4_hdr *, l3_off);
	struct rte_icmp_hdr *icmp = rte_pktmbuf_mtod(r, struct rte_icmp_hdr *);
	struct weft_netif *nif = v->nif;
	uint32_t len = r->pkt_len;
	struct rte_ipv4_hdr *rip;

	r->ol_flags &= ~RTE_MBUF_F_TX_OFFLOAD_MASK;
	icmp->icmp_cksum = 0;
	icmp->icmp_cksum = (uint16_t)~netif_sum_mbuf(r, 0, len);
	rip = (struct rte_ipv4_hdr *)rte_pktmbuf_prepend(r, NETIF_IPV4_LEN);
	*rip = (struct rte_ipv4_hdr){
	        .version_ihl = RTE_IPV4_VHL_DEF,
	        .type_of_service = tos,
	        .total_length = rte_cpu_to_be_16((uint16_t)(len + NETIF_IPV4_LEN)),
	        .packet_id = netif_ip_id(nif, ip->dst_addr, ip->src_addr, IPPROTO_ICMP, false),
	        .time_to_live = NETIF_TTL,
	        .next_proto_id = IPPROTO_ICMP,
	        .src_addr = ip->dst_addr,
	        .dst_addr = ip->src_addr,
	};
	rip->hdr_checksum = (uint16_t)~netif_sum_ipv4(rip);
	/* Reply to the frame's source: a stranger's ping must not take an entry of the cache. */
	netif_push_ether(nif, v->id, r, RTE_BE16(RTE_ETHER_TYPE_IPV4), &eth->src_addr);
	if (netif_enqueue(nif, r, true) == 0)
		nif->stats.icmp_tx++;
}

static bool
icmp_echo(struct netif_vlan *v, const struct rte_mbuf *m, uint32_t l3_off, uint32_t l4_off,
          uint32_t l4_len)
{
	struct weft_netif *nif = v->nif;
	const struct rte_ipv4_hdr *ip =
	        rte_pktmbuf_mtod_offset(m, const struct rte_ipv4_hdr *, l3_off);
	struct rte_mbuf *r;

	if (l4_len + NETIF_IPV4_LEN > weft_netif_tx_most(nif))
		return false;
	r = rte_pktmbuf_copy(m, nif->attr.tx_pool, l4_off, l4_len);
	if (r == NULL) {
		nif->stats.rx_no_mbuf++;
		return true;
	}
	rte_pktmbuf_mtod(r, struct rte_icmp_hdr *)->icmp_type = ICMP_ECHO_REPLY;
	icmp_reply(v, r, m, l3_off, ip->type_of_service & (uint8_t)~IP_ECN_MASK);
	return true;
}

void
netif_icmp_unreachable(struct netif_vlan *v, const struct rte_mbuf *m, uint32_t l3_off,
                       uint8_t code)
{
	struct weft_netif *nif = v->nif;
	const struct rte_ipv4_hdr *ip =
	        rte_pktmbuf_mtod_offset(m, const struct rte_ipv4_hdr *, l3_off);
	uint32_t len = RTE_MIN((uint32_t)rte_be_to_cpu_16(ip->total_length),
	                       (uint32_t)ICMP_ERROR_MAX - NETIF_IPV4_LEN - ICMP_LEN);
	const struct weft_ip to = weft_ip_from_v4(ip->src_addr);
	struct rte_mbuf *r;
	uint8_t *icmp;

	len = RTE_MIN(len, (uint32_t)nif->attr.mtu_bytes - NETIF_IPV4_LEN - ICMP_LEN);
	if (!netif_icmp_may_send(nif, &to))
		return;
	r = rte_pktmbuf_copy(m, nif->attr.tx_pool, l3_off, len);
	if (r == NULL)
		return; /* errors are optional; the caller has counted the packet */
	icmp = (uint8_t *)rte_pktmbuf_prepend(r, ICMP_LEN);
	if (icmp == NULL) {
		rte_pktmbuf_free(r);
		return;
	}
	memset(icmp, 0, ICMP_LEN);
	icmp[0] = ICMP_UNREACHABLE;
	icmp[1] = code;
	icmp_reply(v, r, m, l3_off, 0xc0); /* RFC 1812 s4.3.2.5: internetwork control */
}

/* The meaning of an error for TCP: RFC 1122 s4.2.3.9, RFC 5461 s2.2. */
static enum weft_icmp_kind
icmp_kind(uint8_t type, uint8_t code)
{
	if (type != ICMP_UNREACHABLE)
		return WEFT_ICMP_SOFT;
	switch (code) {
	case NETIF_ICMP_PROTO:
	case NETIF_ICMP_PORT:
		return WEFT_ICMP_HARD;
	case ICMP_FRAG_NEEDED:
		return WEFT_ICMP_TOO_BIG;
	default:
		return WEFT_ICMP_SOFT;
	}
}

/* Reports an error about a TCP segment to TCP. */
static bool
icmp_error(struct netif_vlan *v, const struct rte_mbuf *m, uint32_t l4_off, uint32_t l4_len)
{
	struct weft_netif *nif = v->nif;
	const uint8_t *icmp = rte_pktmbuf_mtod_offset(m, const uint8_t *, l4_off);
	uint8_t buf[NETIF_IPV4_MAX + ICMP_QUOTE];
	const uint8_t *q;
	const struct netif_net *net;
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
	net = netif_net4_find(nif, ip.src_addr);
	if (net == NULL || net->vlan != v)
		return false; /* we never sent it, or not on this VLAN */
	if (ip.next_proto_id != IPPROTO_TCP ||
	    (ip.fragment_offset & RTE_BE16(RTE_IPV4_HDR_OFFSET_MASK)) != 0)
		return true; /* not about TCP */
	e = (struct weft_icmp_error){
	        .kind = icmp_kind(icmp[0], icmp[1]),
	        .src = net->ip,
	        .dst = weft_ip_from_v4(ip.dst_addr),
	        .src_port = weft_get_be16(q + ihl),
	        .dst_port = weft_get_be16(q + ihl + 2),
	        .seq = weft_get_be32(q + ihl + 4),
	        .quoted_bytes = rte_be_to_cpu_16(ip.total_length),
	};
	if (e.kind == WEFT_ICMP_TOO_BIG)
		e.mtu_bytes = weft_get_be16(icmp + 6);
	if (nif->ops.icmp_error != NULL)
		nif->ops.icmp_error(nif->ops_arg, nif, &e, netif_now(nif));
	return true;
}

void
netif_icmp_rx(struct netif_vlan *v, const struct rte_mbuf *m, uint32_t l3_off, uint32_t l4_off,
              uint32_t l4_len)
{
	struct weft_netif *nif = v->nif;
	const struct rte_icmp_hdr *icmp;
	bool ok = true;

	nif->stats.icmp_rx++;
	if (l4_len < ICMP_LEN || netif_sum_mbuf(m, l4_off, l4_len) != 0xffff) {
		nif->stats.icmp_bad++;
		return;
	}
	icmp = rte_pktmbuf_mtod_offset(m, const struct rte_icmp_hdr *, l4_off);
	switch (icmp->icmp_type) {
	case ICMP_ECHO:
		ok = nif->attr.shared ||
		     (icmp->icmp_code == 0 && icmp_echo(v, m, l3_off, l4_off, l4_len));
		break;
	case ICMP_UNREACHABLE:
	case ICMP_TIME_EXCEEDED:
	case ICMP_PARAM:
		ok = icmp_error(v, m, l4_off, l4_len);
		break;
	default: /* RFC 1122 s3.2.2: silently discarded; source quench, too (RFC 6633 s3) */
		break;
	}
	if (!ok)
		nif->stats.icmp_bad++;
}
