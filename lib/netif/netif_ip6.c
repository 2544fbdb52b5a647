/* SPDX-License-Identifier: BSD-3-Clause */
/** @file IPv6 receive (RFC 8200): addresses and extension headers. */

#include <rte_ip.h>

#include "netif_cksum.h"
#include "netif_ext.h"
#include "netif_icmp.h"
#include "netif_ip.h"
#include "netif_net.h"

#define IP6_OPT_PAD1   0
#define IP6_OPT_PADN   1
#define IP6_OPT_ALERT  5    /* RFC 2711 */
#define IP6_OPT_ACTION 0xc0 /* RFC 8200 s4.2: the action for an unknown option */

struct ip6_walk {
	struct netif_ext ext;
	bool alert;
	/* Why the walk ended early. */
	uint64_t *bad;
	uint8_t code; /**< of the parameter problem, if one is sent */
	uint32_t param;
	bool tell;
};

static bool
ip6_refuse(struct ip6_walk *w, uint8_t code, uint32_t param)
{
	w->tell = true;
	w->code = code;
	w->param = param;
	return false;
}

/* Examines the options of the header at p, at the walk's position (RFC 8200 s4.2). */
static bool
ip6_options(struct ip6_walk *w, const uint8_t *p, bool hop_by_hop, bool multicast)
{
	uint32_t len = w->ext.len;

	for (uint32_t i = 2; i < len;) {
		uint8_t action = p[i] & IP6_OPT_ACTION;

		if (p[i] == IP6_OPT_PAD1) {
			i++;
			continue;
		}
		if (len - i < 2 || p[i + 1] > len - i - 2)
			return ip6_refuse(w, NETIF_ICMP6_FIELD, w->ext.off + i);
		if (p[i] == IP6_OPT_ALERT && hop_by_hop)
			w->alert = true;
		else if (action == 0x80 || (action == 0xc0 && !multicast))
			return ip6_refuse(w, NETIF_ICMP6_OPTION, w->ext.off + i);
		else if (action != 0)
			return false;
		i += 2u + p[i + 1];
	}
	return true;
}

/* Steps over extension headers to the packet's payload. False: the packet is refused. */
static bool
ip6_walk(struct weft_netif *nif, const struct rte_mbuf *m, uint32_t l3_off, bool multicast,
         struct ip6_walk *w)
{
	const uint8_t *ip = rte_pktmbuf_mtod_offset(m, const uint8_t *, l3_off);
	struct netif_ext *e = &w->ext;

	w->bad = &nif->stats.rx_bad_ext;
	for (;; netif_ext_step(e, ip)) {
		const uint8_t *p = ip + e->off;

		switch (netif_ext_look(e, ip)) {
		case NETIF_EXT_NONE:
			return true;
		case NETIF_EXT_ORDER:
			return ip6_refuse(w, NETIF_ICMP6_NEXT_HDR, e->next_at);
		case NETIF_EXT_BAD:
			return false;
		case NETIF_EXT_FRAGMENT:
			w->bad = &nif->stats.rx_fragment;
			return false;
		case NETIF_EXT_WHOLE:
			break;
		}
		if (e->next == IP6_ROUTING) {
			/* No routing type is supported; type 0 is deprecated (RFC 5095 s3). */
			if (p[3] != 0)
				return ip6_refuse(w, NETIF_ICMP6_FIELD, e->off + 2);
		} else if (e->next != IP6_FRAGMENT &&
		           !ip6_options(w, p, e->next == IP6_HOP_BY_HOP, multicast)) {
			return false;
		}
	}
}

/* Handles all packets but plain TCP. Consumes m. */
static struct rte_mbuf *
ip6_other(struct netif_vlan *v, struct rte_mbuf *m, uint32_t l3_off, const struct weft_ip *src,
          const struct weft_ip *dst, bool no_sender, bool group)
{
	const struct weft_ip from = weft_ip_bare(src), to = weft_ip_bare(dst);
	struct weft_netif *nif = v->nif;
	const struct rte_ipv6_hdr *ip =
	        rte_pktmbuf_mtod_offset(m, const struct rte_ipv6_hdr *, l3_off);
	bool multicast = netif_ip6_is_multicast(dst);
	struct ip6_walk w = {.ext = {.off = NETIF_IPV6_LEN,
	                             .left = rte_be_to_cpu_16(ip->payload_len),
	                             .next_at = IP6_NEXT_HDR_OFF,
	                             .next = ip->proto}};
	uint64_t *bad;

	if (!ip6_walk(nif, m, l3_off, multicast, &w)) {
		if (w.tell && !no_sender)
			netif_icmp6_error(v, m, l3_off, NETIF_ICMP6_PARAM, w.code, w.param);
		bad = w.bad;
		goto drop;
	}
	bad = &nif->stats.rx_not_ours;
	if (w.ext.next == IPPROTO_ICMPV6) {
		struct netif_icmp6 p = {.m = m,
		                        .l3_off = l3_off,
		                        .off = l3_off + w.ext.off,
		                        .len = w.ext.left,
		                        .src = *src,
		                        .dst = *dst,
		                        .hop_limit = ip->hop_limits,
		                        .alert = w.alert};

		netif_icmp6_rx(v, &p);
		netif_rx_free(m);
		return NULL;
	}
	/* RFC 9293 s3.9.2.3 (MUST-57): TCP is unicast only, source and destination. */
	if (no_sender || multicast || group)
		goto drop;
	if (w.ext.next == IPPROTO_TCP)
		return netif_take_tcp(nif, m, l3_off + w.ext.off, w.ext.left,
		                      netif_sum_pseudo6(&from, &to, IPPROTO_TCP, w.ext.left), src,
		                      dst, (uint8_t)(rte_be_to_cpu_32(ip->vtc_flow) >> 20 & 3));
	bad = &nif->stats.rx_bad_proto;
	if (w.ext.next == IPPROTO_UDP)
		netif_icmp6_error(v, m, l3_off, NETIF_ICMP6_UNREACHABLE, NETIF_ICMP6_PORT, 0);
	else if (w.ext.next != IP6_NONE)
		netif_icmp6_error(v, m, l3_off, NETIF_ICMP6_PARAM, NETIF_ICMP6_NEXT_HDR,
		                  w.ext.next_at);
drop:
	(*bad)++;
	netif_rx_free(m);
	return NULL;
}

struct rte_mbuf *
netif_ip6_rx(struct netif_vlan *v, struct rte_mbuf *m, uint32_t l3_off, bool group)
{
	struct weft_netif *nif = v->nif;
	uint64_t *bad = &nif->stats.rx_bad_ip;
	const struct rte_ipv6_hdr *ip;
	const struct netif_net *own;
	struct weft_ip src, dst;
	uint32_t vtc_flow, len, pseudo;
	bool multicast, no_sender;

	if (unlikely(m->data_len < l3_off + NETIF_IPV6_LEN))
		goto drop;
	ip = rte_pktmbuf_mtod_offset(m, const struct rte_ipv6_hdr *, l3_off);
	vtc_flow = rte_be_to_cpu_32(ip->vtc_flow);
	len = rte_be_to_cpu_16(ip->payload_len);
	/* A hop limit of 0 is accepted at the destination (RFC 8200 s3). */
	if (unlikely(vtc_flow >> 28 != 6))
		goto drop;
	if (unlikely(len > m->pkt_len - l3_off - NETIF_IPV6_LEN)) {
		netif_ip_cut(nif, m, len + NETIF_IPV6_LEN, m->pkt_len - l3_off);
		return NULL;
	}

	bad = &nif->stats.rx_not_ours;
	memcpy(src.b, ip->src_addr, sizeof(src.b));
	memcpy(dst.b, ip->dst_addr, sizeof(dst.b));
	/* Before the zones are set, which are not in the packet. */
	pseudo = ip->proto == IPPROTO_TCP ? netif_sum_pseudo6(&src, &dst, IPPROTO_TCP, len) : 0;
	if (unlikely(!netif_zone_in(v, &src) || !netif_zone_in(v, &dst)))
		goto drop;
	multicast = netif_ip6_is_multicast(&dst);
	if (unlikely(multicast ? !netif_net_joined(v, &dst)
	                       : group || netif_net6_on(v, &dst) == NULL))
		goto drop;
	/* An unspecified source, or one of our addresses: only Neighbor Discovery accepts it. On a
	 * shared port our address is that of other processes as well. */
	own = netif_net_usable_find(nif, &src);
	no_sender = netif_ip_is_none(&src) || (own != NULL && !nif->attr.shared);
	/* A router would have to return it from another VLAN. */
	if (unlikely(own != NULL && own->vlan != v))
		goto drop;
	if (unlikely(!no_sender && !netif_ip6_is_host(&src)))
		goto drop;
	if (unlikely(ip->proto != IPPROTO_TCP || multicast || no_sender))
		return ip6_other(v, m, l3_off, &src, &dst, no_sender, group);
	return netif_take_tcp(nif, m, l3_off + NETIF_IPV6_LEN, len, pseudo, &src, &dst,
	                      (uint8_t)(vtc_flow >> 20 & 3));
drop:
	(*bad)++;
	netif_rx_free(m);
	return NULL;
}
