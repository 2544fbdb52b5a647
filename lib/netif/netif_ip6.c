/* SPDX-License-Identifier: BSD-3-Clause */
/** @file IPv6 receive (RFC 8200): addresses and extension headers. */

#include "netif_priv.h"

/* Next headers (RFC 8200 s4, IANA). */
#define IP6_HOP_BY_HOP   0
#define IP6_ROUTING      43
#define IP6_FRAGMENT     44
#define IP6_NONE         59
#define IP6_DST_OPTIONS  60
#define IP6_OPT_PAD1     0
#define IP6_OPT_PADN     1
#define IP6_OPT_ALERT    5    /* RFC 2711 */
#define IP6_OPT_ACTION   0xc0 /* RFC 8200 s4.2: what to do when it is unknown */
#define IP6_FRAG_MORE    0x0001
#define IP6_FRAG_OFFSET  0xfff8
#define IP6_NEXT_HDR_OFF 6 /* of the field in the fixed header */

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

/* Where the walk along the headers stands; offsets count from the IPv6 header. */
struct ip6_walk {
	uint32_t off, left; /**< next header; octets from there to the packet's end */
	uint32_t next_at;   /**< the field that says what it is */
	uint8_t next;
	bool alert;
	/* Why it ended early. */
	uint64_t *bad;
	uint8_t code; /**< of the parameter problem, when there is to be one */
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

/* The options of the header of `len` octets at p, which lies at w->off (RFC 8200 s4.2). */
static bool
ip6_options(struct ip6_walk *w, const uint8_t *p, uint32_t len, bool hop_by_hop, bool multicast)
{
	for (uint32_t i = 2; i < len;) {
		uint8_t action = p[i] & IP6_OPT_ACTION;

		if (p[i] == IP6_OPT_PAD1) {
			i++;
			continue;
		}
		if (len - i < 2 || p[i + 1] > len - i - 2)
			return ip6_refuse(w, NETIF_ICMP6_FIELD, w->off + i);
		if (p[i] == IP6_OPT_ALERT && hop_by_hop)
			w->alert = true;
		else if (action == 0x80 || (action == 0xc0 && !multicast))
			return ip6_refuse(w, NETIF_ICMP6_OPTION, w->off + i);
		else if (action != 0)
			return false;
		i += 2u + p[i + 1];
	}
	return true;
}

/* Step over extension headers up to what the packet carries; false: refused. */
static bool
ip6_walk(struct weft_netif *nif, const struct rte_mbuf *m, uint32_t l3_off, bool multicast,
         struct ip6_walk *w)
{
	bool first = true;

	w->bad = &nif->stats.rx_bad_ext;
	for (;; first = false) {
		const uint8_t *p = rte_pktmbuf_mtod_offset(m, const uint8_t *, l3_off + w->off);
		uint32_t len = 8;

		switch (w->next) {
		case IP6_HOP_BY_HOP:
		case IP6_DST_OPTIONS:
		case IP6_ROUTING:
		case IP6_FRAGMENT:
			break;
		default:
			return true;
		}
		if (w->next == IP6_HOP_BY_HOP && !first)
			return ip6_refuse(w, NETIF_ICMP6_NEXT_HDR, w->next_at);
		if (w->left < len)
			return false;
		if (w->next != IP6_FRAGMENT)
			len = (p[1] + 1u) * 8;
		if (w->left < len || w->off + len > NETIF_IPV6_LEN + NETIF_EXT_MAX)
			return false;
		if (w->next == IP6_FRAGMENT) {
			/* As IPv4's; but one that is whole is taken (RFC 6946 s4). */
			if ((weft_get_be16(p + 2) & (IP6_FRAG_OFFSET | IP6_FRAG_MORE)) != 0) {
				w->bad = &nif->stats.rx_fragment;
				return false;
			}
		} else if (w->next == IP6_ROUTING) {
			/* No type is known here, type 0 is history (RFC 5095 s3). */
			if (p[3] != 0)
				return ip6_refuse(w, NETIF_ICMP6_FIELD, w->off + 2);
		} else if (!ip6_options(w, p, len, w->next == IP6_HOP_BY_HOP, multicast)) {
			return false;
		}
		w->next_at = w->off;
		w->next = p[0];
		w->off += len;
		w->left -= len;
	}
}

/* Anything but plain TCP; consumes m. */
static struct rte_mbuf *
ip6_other(struct weft_netif *nif, struct rte_mbuf *m, uint32_t l3_off, const struct weft_ip *src,
          const struct weft_ip *dst, bool nobody, bool group)
{
	const struct rte_ipv6_hdr *ip =
	        rte_pktmbuf_mtod_offset(m, const struct rte_ipv6_hdr *, l3_off);
	bool multicast = netif_ip6_is_multicast(dst);
	struct ip6_walk w = {.off = NETIF_IPV6_LEN,
	                     .left = rte_be_to_cpu_16(ip->payload_len),
	                     .next_at = IP6_NEXT_HDR_OFF,
	                     .next = ip->proto};
	uint64_t *bad;

	if (!ip6_walk(nif, m, l3_off, multicast, &w)) {
		if (w.tell && !nobody)
			netif_icmp6_error(nif, m, l3_off, NETIF_ICMP6_PARAM, w.code, w.param);
		bad = w.bad;
		goto drop;
	}
	bad = &nif->stats.rx_not_ours;
	if (w.next == IPPROTO_ICMPV6) {
		struct netif_icmp6 p = {.m = m,
		                        .l3_off = l3_off,
		                        .off = l3_off + w.off,
		                        .len = w.left,
		                        .src = *src,
		                        .dst = *dst,
		                        .hop_limit = ip->hop_limits,
		                        .alert = w.alert};

		netif_icmp6_rx(nif, &p);
		rte_pktmbuf_free(m);
		return NULL;
	}
	/* RFC 9293 s3.9.2.3 (MUST-57): TCP is for one and from one. */
	if (nobody || multicast || group)
		goto drop;
	if (w.next == IPPROTO_TCP)
		return netif_take_tcp(nif, m, l3_off + w.off, w.left,
		                      netif_sum_pseudo6(src, dst, IPPROTO_TCP, w.left), src, dst,
		                      (uint8_t)(rte_be_to_cpu_32(ip->vtc_flow) >> 20 & 3));
	bad = &nif->stats.rx_bad_proto;
	if (w.next == IPPROTO_UDP)
		netif_icmp6_error(nif, m, l3_off, NETIF_ICMP6_UNREACHABLE, NETIF_ICMP6_PORT, 0);
	else if (w.next != IP6_NONE)
		netif_icmp6_error(nif, m, l3_off, NETIF_ICMP6_PARAM, NETIF_ICMP6_NEXT_HDR,
		                  w.next_at);
drop:
	(*bad)++;
	rte_pktmbuf_free(m);
	return NULL;
}

struct rte_mbuf *
netif_ip6_rx(struct weft_netif *nif, struct rte_mbuf *m, uint32_t l3_off, bool group)
{
	uint64_t *bad = &nif->stats.rx_bad_ip;
	const struct rte_ipv6_hdr *ip;
	struct weft_ip src, dst;
	uint32_t vtc_flow, len;
	bool multicast, nobody;

	if (unlikely(m->data_len < l3_off + NETIF_IPV6_LEN))
		goto drop;
	ip = rte_pktmbuf_mtod_offset(m, const struct rte_ipv6_hdr *, l3_off);
	vtc_flow = rte_be_to_cpu_32(ip->vtc_flow);
	len = rte_be_to_cpu_16(ip->payload_len);
	/* A hop limit of 0 is no reason at the destination (RFC 8200 s3). */
	if (unlikely(vtc_flow >> 28 != 6 || len > m->pkt_len - l3_off - NETIF_IPV6_LEN))
		goto drop;

	bad = &nif->stats.rx_not_ours;
	memcpy(src.b, ip->src_addr, sizeof(src.b));
	memcpy(dst.b, ip->dst_addr, sizeof(dst.b));
	multicast = netif_ip6_is_multicast(&dst);
	if (unlikely(multicast ? !netif_addr6_joined(nif, &dst)
	                       : group || netif_addr6_find(nif, &dst) == NULL))
		goto drop;
	/* Nobody, or one who uses an address of ours: Neighbor Discovery alone wants to know. */
	nobody = netif_ip_is_none(&src) || weft_netif_is_local(nif, &src);
	if (unlikely(!nobody && !netif_ip6_is_host(&src)))
		goto drop;
	if (unlikely(ip->proto != IPPROTO_TCP || multicast || nobody))
		return ip6_other(nif, m, l3_off, &src, &dst, nobody, group);
	return netif_take_tcp(nif, m, l3_off + NETIF_IPV6_LEN, len,
	                      netif_sum_pseudo6(&src, &dst, IPPROTO_TCP, len), &src, &dst,
	                      (uint8_t)(vtc_flow >> 20 & 3));
drop:
	(*bad)++;
	rte_pktmbuf_free(m);
	return NULL;
}
