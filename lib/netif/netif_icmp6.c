/* SPDX-License-Identifier: BSD-3-Clause */
/** @file ICMPv6 (RFC 4443): echo, received errors about our segments. */

#include <rte_ip.h>

#include "netif_cksum.h"
#include "netif_frame.h"
#include "netif_icmp.h"
#include "netif_nd.h"
#include "netif_net.h"
#include "netif_txq.h"
#include "weft_netif_addr.h"
#include "weft_netif_icmp.h"
#include "weft_netif_mbuf.h"

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

static bool
icmp6_echo(struct netif_vlan *v, const struct netif_icmp6 *p)
{
	struct weft_netif *nif = v->nif;
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(p->m, const struct rte_ether_hdr *);
	/* s4.2: a request to a group is answered from a suitable address of ours */
	const struct netif_net *own =
	        netif_ip6_is_multicast(&p->dst) ? netif_net_src6(v, &p->src) : NULL;
	const struct weft_ip *from = own != NULL                       ? &own->ip
	                             : netif_ip6_is_multicast(&p->dst) ? NULL
	                                                               : &p->dst;
	struct rte_mbuf *r;

	if (p->len + NETIF_IPV6_LEN > weft_netif_tx_most(nif) || from == NULL)
		return false;
	r = rte_pktmbuf_copy(p->m, nif->attr.tx_pool, p->off, p->len);
	if (r == NULL) {
		nif->stats.rx_no_mbuf++;
		return true;
	}
	*rte_pktmbuf_mtod(r, uint8_t *) = ICMP6_ECHO_REPLY;
	nif->stats.icmp_tx++;
	netif_icmp6_send(v, r, from, &p->src, NETIF_TTL, &eth->src_addr);
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
icmp6_about_us(struct netif_vlan *v, const struct netif_icmp6 *p, const uint8_t *msg)
{
	struct weft_netif *nif = v->nif;
	const uint8_t *q = msg + NETIF_ICMP6_LEN;
	struct weft_icmp_error e = {.kind = icmp6_kind(msg[0], msg[1])};
	uint32_t mtu;

	if (p->len < NETIF_ICMP6_LEN + NETIF_IPV6_LEN + ICMP6_QUOTE || q[0] >> 4 != 6)
		return false;
	memcpy(e.src.b, q + 8, sizeof(e.src.b));
	memcpy(e.dst.b, q + 24, sizeof(e.dst.b));
	if (!netif_zone_in(v, &e.src) || !netif_zone_in(v, &e.dst) ||
	    netif_net6_on(v, &e.src) == NULL)
		return false; /* we never sent it, or not on this VLAN */
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
netif_icmp6_rx(struct netif_vlan *v, const struct netif_icmp6 *p)
{
	struct weft_netif *nif = v->nif;
	const struct weft_ip src = weft_ip_bare(&p->src), dst = weft_ip_bare(&p->dst);
	uint8_t buf[ICMP6_MSG_MAX];
	const uint8_t *msg;
	bool ok = true;

	nif->stats.icmp_rx++;
	if (p->len < NETIF_ICMP6_LEN ||
	    netif_fold((uint64_t)netif_sum_pseudo6(&src, &dst, IPPROTO_ICMPV6, p->len) +
	               netif_sum_mbuf(p->m, p->off, p->len)) != 0xffff) {
		nif->stats.icmp_bad++;
		return;
	}
	msg = rte_pktmbuf_read(p->m, p->off, RTE_MIN(p->len, (uint32_t)sizeof(buf)), buf);
	if (msg == NULL)
		return;
	if (msg[0] >= ICMP6_ND_FIRST && msg[0] <= ICMP6_ND_LAST) {
		netif_nd_rx(v, p, msg);
	} else if (netif_ip_is_none(&p->src) ||
	           (!nif->attr.shared && weft_netif_is_local(nif, &p->src))) {
		nif->stats.rx_not_ours++; /* no source to answer */
	} else if (msg[0] == ICMP6_ECHO) {
		ok = nif->attr.shared || (msg[1] == 0 && icmp6_echo(v, p));
	} else if (msg[0] == ICMP6_MLD_QUERY) {
		netif_mld_query(v, p, msg);
	} else if (icmp6_is_error(msg[0])) {
		ok = icmp6_about_us(v, p, msg);
	} /* s2.4 (b): unknown messages are silently discarded */
	if (!ok)
		nif->stats.icmp_bad++;
}
