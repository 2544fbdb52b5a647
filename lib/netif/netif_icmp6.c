/* SPDX-License-Identifier: BSD-3-Clause */
/** @file ICMPv6 (RFC 4443): echo, received errors about our segments, errors that we send. */

#include <rte_ip.h>

#include "netif_cksum.h"
#include "netif_hdr.h"
#include "netif_icmp.h"
#include "netif_ip.h"
#include "netif_nd.h"
#include "netif_priv.h"
#include "weft_netif_addr.h"
#include "weft_netif_icmp.h"

#define ICMP6_LEN           8
#define ICMP6_CKSUM_OFF     2
#define ICMP6_TOO_BIG       2 /* s3.2 */
#define ICMP6_TIME_EXCEEDED 3 /* s3.3 */
#define ICMP6_INFORMATIONAL 128
#define ICMP6_ECHO          128 /* s4.1 */
#define ICMP6_ECHO_REPLY    129
#define ICMP6_MLD_QUERY     130  /* RFC 3810 s5.1 */
#define ICMP6_ND_FIRST      133  /* RFC 4861 s4: router solicitation ... */
#define ICMP6_ND_LAST       137  /* ... redirect */
#define ICMP6_QUOTE         8    /* ports and sequence number */
#define ICMP6_MSG_MAX       1280 /* the part that is examined; ND and MLD need much less */

bool
netif_icmp6_send(struct weft_netif *nif, struct rte_mbuf *m, const struct weft_ip *src,
                 const struct weft_ip *dst, uint8_t hop_limit, const struct rte_ether_addr *mac)
{
	/* RFC 2464 s7 */
	struct rte_ether_addr group = {
	        {0x33, 0x33, dst->b[12], dst->b[13], dst->b[14], dst->b[15]}};
	uint8_t *p = rte_pktmbuf_mtod(m, uint8_t *);
	uint16_t sum;

	m->ol_flags &= ~RTE_MBUF_F_TX_OFFLOAD_MASK;
	memset(p + ICMP6_CKSUM_OFF, 0, sizeof(sum));
	sum = (uint16_t)~netif_fold(
	        (uint64_t)netif_sum_pseudo6(src, dst, IPPROTO_ICMPV6, m->pkt_len) +
	        netif_sum_mbuf(m, 0, m->pkt_len));
	memcpy(p + ICMP6_CKSUM_OFF, &sum, sizeof(sum));
	netif_push_ip6(m, src, dst, IPPROTO_ICMPV6, hop_limit, 0);
	netif_push_ether(nif, m, RTE_BE16(RTE_ETHER_TYPE_IPV6), mac != NULL ? mac : &group);
	return netif_enqueue(nif, m, true) == 0;
}

void
netif_icmp6_error(struct weft_netif *nif, const struct rte_mbuf *m, uint32_t l3_off, uint8_t type,
                  uint8_t code, uint32_t param)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);
	const struct rte_ipv6_hdr *ip =
	        rte_pktmbuf_mtod_offset(m, const struct rte_ipv6_hdr *, l3_off);
	/* RFC 4443 s2.4 (c): as much of the packet as fits the minimum MTU */
	uint32_t len = RTE_MIN((uint32_t)NETIF_IPV6_LEN + rte_be_to_cpu_16(ip->payload_len),
	                       (uint32_t)NETIF_IPV6_MTU_MIN - NETIF_IPV6_LEN - ICMP6_LEN);
	const struct weft_ip *from;
	struct weft_ip src, dst;
	struct rte_mbuf *r;
	uint8_t *p;

	memcpy(src.b, ip->src_addr, sizeof(src.b));
	memcpy(dst.b, ip->dst_addr, sizeof(dst.b));
	from = &dst;
	if (netif_ip6_is_multicast(&dst)) {
		/* s2.4 (e.3): for a multicast packet only an unknown option is reported */
		from = type == NETIF_ICMP6_PARAM && code == NETIF_ICMP6_OPTION
		               ? weft_netif_src(nif, &src)
		               : NULL;
	}
	if (from == NULL || !netif_icmp_may_send(nif, &src))
		return;
	r = rte_pktmbuf_copy(m, nif->attr.tx_pool, l3_off, len);
	if (r == NULL)
		return; /* errors are optional; the caller has counted the packet */
	p = (uint8_t *)rte_pktmbuf_prepend(r, ICMP6_LEN);
	if (p == NULL) {
		rte_pktmbuf_free(r);
		return;
	}
	memset(p, 0, ICMP6_LEN);
	p[0] = type;
	p[1] = code;
	weft_put_be32(p + 4, param);
	nif->stats.icmp_tx++;
	netif_icmp6_send(nif, r, from, &src, NETIF_TTL, &eth->src_addr);
}

static bool
icmp6_echo(struct weft_netif *nif, const struct netif_icmp6 *p)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(p->m, const struct rte_ether_hdr *);
	/* s4.2: a request to a group is answered from a suitable address of ours */
	const struct weft_ip *from =
	        netif_ip6_is_multicast(&p->dst) ? weft_netif_src(nif, &p->src) : &p->dst;
	struct rte_mbuf *r;

	if (p->len + NETIF_IPV6_LEN > nif->attr.mtu_bytes || from == NULL)
		return false;
	r = rte_pktmbuf_copy(p->m, nif->attr.tx_pool, p->off, p->len);
	if (r == NULL) {
		nif->stats.rx_no_mbuf++;
		return true;
	}
	*rte_pktmbuf_mtod(r, uint8_t *) = ICMP6_ECHO_REPLY;
	nif->stats.icmp_tx++;
	netif_icmp6_send(nif, r, from, &p->src, NETIF_TTL, &eth->src_addr);
	return true;
}

/* The meaning of an error for TCP; RFC 5461 s2.2 maps RFC 1122's terms to ICMPv6. */
static enum weft_icmp_kind
icmp6_kind(uint8_t type, uint8_t code)
{
	if (type == ICMP6_TOO_BIG)
		return WEFT_ICMP_TOO_BIG;
	if ((type == NETIF_ICMP6_UNREACHABLE && code == NETIF_ICMP6_PORT) ||
	    (type == NETIF_ICMP6_PARAM && code == NETIF_ICMP6_NEXT_HDR))
		return WEFT_ICMP_HARD;
	return WEFT_ICMP_SOFT;
}

static bool
icmp6_is_error(uint8_t type)
{
	return type >= NETIF_ICMP6_UNREACHABLE && type <= NETIF_ICMP6_PARAM;
}

/* Reports an error about a TCP segment to TCP. We send no extension headers. */
static bool
icmp6_about_us(struct weft_netif *nif, const struct netif_icmp6 *p, const uint8_t *msg)
{
	const uint8_t *q = msg + ICMP6_LEN;
	struct weft_icmp_error e = {.kind = icmp6_kind(msg[0], msg[1])};
	uint32_t mtu;

	if (p->len < ICMP6_LEN + NETIF_IPV6_LEN + ICMP6_QUOTE || q[0] >> 4 != 6)
		return false;
	memcpy(e.src.b, q + 8, sizeof(e.src.b));
	memcpy(e.dst.b, q + 24, sizeof(e.dst.b));
	if (netif_addr6_find(nif, &e.src) == NULL)
		return false; /* we never sent it */
	if (q[6] != IPPROTO_TCP)
		return true; /* not about TCP */
	if (e.kind == WEFT_ICMP_TOO_BIG) {
		mtu = weft_get_be32(msg + 4);
		/* RFC 8201 s4: an MTU below the minimum MUST be discarded */
		if (mtu < NETIF_IPV6_MTU_MIN)
			return false;
		e.mtu_bytes = (uint16_t)RTE_MIN(mtu, (uint32_t)UINT16_MAX);
	}
	e.quoted_bytes = (uint16_t)RTE_MIN(weft_get_be16(q + 4) + (uint32_t)NETIF_IPV6_LEN,
	                                   (uint32_t)UINT16_MAX);
	q += NETIF_IPV6_LEN;
	e.src_port = weft_get_be16(q);
	e.dst_port = weft_get_be16(q + 2);
	e.seq = weft_get_be32(q + 4);
	if (nif->ops.icmp_error != NULL)
		nif->ops.icmp_error(nif->ops_arg, nif, &e, netif_now(nif));
	return true;
}

void
netif_icmp6_rx(struct weft_netif *nif, const struct netif_icmp6 *p)
{
	uint8_t buf[ICMP6_MSG_MAX];
	const uint8_t *msg;
	bool ok = true;

	nif->stats.icmp_rx++;
	if (p->len < ICMP6_LEN ||
	    netif_fold((uint64_t)netif_sum_pseudo6(&p->src, &p->dst, IPPROTO_ICMPV6, p->len) +
	               netif_sum_mbuf(p->m, p->off, p->len)) != 0xffff) {
		nif->stats.icmp_bad++;
		return;
	}
	msg = rte_pktmbuf_read(p->m, p->off, RTE_MIN(p->len, (uint32_t)sizeof(buf)), buf);
	if (msg == NULL)
		return;
	if (msg[0] >= ICMP6_ND_FIRST && msg[0] <= ICMP6_ND_LAST) {
		netif_nd_rx(nif, p, msg);
	} else if (netif_ip_is_none(&p->src) || weft_netif_is_local(nif, &p->src)) {
		nif->stats.rx_not_ours++; /* no source to answer */
	} else if (msg[0] == ICMP6_ECHO) {
		ok = msg[1] == 0 && icmp6_echo(nif, p);
	} else if (msg[0] == ICMP6_MLD_QUERY) {
		netif_mld_query(nif, p, msg);
	} else if (icmp6_is_error(msg[0])) {
		ok = icmp6_about_us(nif, p, msg);
	} /* s2.4 (b): unknown messages are silently discarded */
	if (!ok)
		nif->stats.icmp_bad++;
}
