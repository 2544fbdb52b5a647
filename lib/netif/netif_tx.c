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
	tcp->cksum =
	        (uint16_t)~netif_fold((uint64_t)pseudo + netif_sum_mbuf_open(m, 0, m->pkt_len));
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

/** Puts all headers in front of m, but for the destination of the frame. */
static inline void
tx_headers(struct weft_netif *nif, const struct weft_neigh *n, const struct weft_ip *src,
           const struct weft_ip *dst, struct rte_mbuf *m, uint32_t tcp_hdr,
           struct weft_netif_tx_how how)
{
	bool v4 = weft_ip_is_v4(dst);
	uint64_t flags = v4 ? tx_ip4(nif, m, src, dst, how) : tx_ip6(nif, m, src, dst, how);

	/* A retransmitted segment still has the flags of its first transmission. */
	m->ol_flags = (m->ol_flags & ~RTE_MBUF_F_TX_OFFLOAD_MASK) | flags;
	netif_push_ether(nif, n->vlan_id, m,
	                 v4 ? RTE_BE16(RTE_ETHER_TYPE_IPV4) : RTE_BE16(RTE_ETHER_TYPE_IPV6), NULL);
	m->tx_offload = rte_mbuf_tx_offload(m->l2_len, v4 ? NETIF_IPV4_LEN : NETIF_IPV6_LEN,
	                                    tcp_hdr, how.tso_segsz_bytes, 0, 0, 0);
}

/** Whether the neighbour's address is known, and was heard of recently. */
static inline bool
tx_neigh_fresh(const struct weft_neigh *n, uint64_t now_ns)
{
	return n->state == NEIGH_REACHABLE && now_ns - n->confirmed_ns < NETIF_NEIGH_FRESH_NS;
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
	uint32_t ip_len = weft_ip_is_v4(dst) ? NETIF_IPV4_LEN : NETIF_IPV6_LEN;
	uint32_t limit = likely(how.tso_segsz_bytes == 0) ? nif->attr.mtu_bytes : NETIF_IP_MAX;
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
	tx_headers(nif, n, src, dst, m, tcp_hdr, how);
	if (unlikely(m->nb_segs > 1 && nif->ethdev &&
	             (nif->attr.tx_offloads & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) == 0)) {
		m = netif_flatten(nif, m);
		if (m == NULL) {
			nif->stats.tx_no_mbuf++;
			return -ENOBUFS;
		}
	}
	if (likely(tx_neigh_fresh(n, now_ns))) {
		rte_pktmbuf_mtod(m, struct rte_ether_hdr *)->dst_addr = n->mac;
		return netif_enqueue(nif, m, false);
	}
	return netif_neigh_tx(nif, n, m);
}

/* ---- A run of segments ---- */

static_assert(WEFT_NETIF_RUN_HEADROOM >= WEFT_NETIF_HEADROOM, "the headers of a run");

/** What the frames of a run have in common: all but lengths, checksums and identifications. */
struct tx_run {
	uint8_t hdr[WEFT_NETIF_RUN_HEADROOM]; /**< ends before TCP's header */
	uint64_t tx_offload, ol_flags;
	/** of TCP's pseudo-header without the length; `sum` with the parts of TCP's header that the
	 * segments share */
	uint64_t pseudo, sum;
	uint64_t ip_sum; /**< of the IPv4 header without its own fields */
	uint32_t src4, dst4;
	uint16_t len;     /**< of the headers in hdr */
	uint16_t tcp_len; /**< of TCP's header */
	uint16_t vlan_tci;
	bool v4, own_sum, own_ip_sum; /**< we compute TCP's, or IPv4's, checksum */
};

/* Words of TCP's header (RFC 9293 s3.1). */
#define TX_TCP_SEQ   1
#define TX_TCP_FLAGS 3 /* with data offset and window */

static inline uint32_t
tx_word(const uint8_t *tcp, unsigned int i)
{
	uint32_t w;

	memcpy(&w, tcp + 4 * i, sizeof(w));
	return w;
}

static void
tx_run_ip4(struct tx_run *r, const struct weft_ip *src, const struct weft_ip *dst,
           struct weft_netif_tx_how how)
{
	struct rte_ipv4_hdr ip = {
	        .version_ihl = RTE_IPV4_VHL_DEF,
	        .type_of_service = tx_class(how),
	        .fragment_offset = how.may_fragment ? 0 : RTE_BE16(RTE_IPV4_HDR_DF_FLAG),
	        .time_to_live = NETIF_TTL,
	        .next_proto_id = IPPROTO_TCP,
	        .src_addr = weft_ip_v4(src),
	        .dst_addr = weft_ip_v4(dst),
	};

	r->src4 = ip.src_addr;
	r->dst4 = ip.dst_addr;
	r->ip_sum = netif_sum_words(&ip, NETIF_IPV4_LEN / 4);
	r->pseudo = (uint64_t)ip.src_addr + ip.dst_addr + RTE_BE16(IPPROTO_TCP);
	memcpy(r->hdr + sizeof(r->hdr) - NETIF_IPV4_LEN, &ip, NETIF_IPV4_LEN);
}

static void
tx_run_ip6(struct tx_run *r, const struct weft_netif *nif, const struct weft_ip *src,
           const struct weft_ip *dst, const uint8_t *tcp, struct weft_netif_tx_how how)
{
	struct weft_ip s = *src, d = *dst;
	struct rte_ipv6_hdr ip = {.proto = IPPROTO_TCP, .hop_limits = NETIF_TTL};

	if (weft_ip_is_link_local(src) || weft_ip_is_link_local(dst)) {
		s = weft_ip_bare(src);
		d = weft_ip_bare(dst);
	}
	ip.vtc_flow = rte_cpu_to_be_32(6u << 28 | (uint32_t)tx_class(how) << 20 |
	                               tx_flow_label(nif, &s, &d, tx_word(tcp, 0)));
	memcpy(ip.src_addr, s.b, sizeof(ip.src_addr));
	memcpy(ip.dst_addr, d.b, sizeof(ip.dst_addr));
	r->pseudo = netif_sum_pseudo6(&s, &d, IPPROTO_TCP, 0);
	memcpy(r->hdr + sizeof(r->hdr) - NETIF_IPV6_LEN, &ip, NETIF_IPV6_LEN);
}

/** tcp: the header of the first segment. */
static inline void
tx_run_begin(struct tx_run *r, const struct weft_netif *nif, const struct weft_neigh *n,
             const struct weft_ip *src, const struct weft_ip *dst, const uint8_t *tcp,
             struct weft_netif_tx_how how)
{
	uint64_t tx = how.own_sum ? 0 : nif->attr.tx_offloads;
	bool tagged = n->vlan_id != 0 && !nif->vlan_insert;
	uint16_t l2_len = tagged ? NETIF_L2_MAX : NETIF_ETHER_LEN, ip_len;
	struct rte_ether_hdr eth = {.dst_addr = n->mac, .src_addr = nif->attr.mac};
	rte_be16_t type;
	uint8_t *p;

	r->v4 = weft_ip_is_v4(dst);
	if (likely(r->v4)) {
		tx_run_ip4(r, src, dst, how);
		type = RTE_BE16(RTE_ETHER_TYPE_IPV4);
		ip_len = NETIF_IPV4_LEN;
	} else {
		tx_run_ip6(r, nif, src, dst, tcp, how);
		type = RTE_BE16(RTE_ETHER_TYPE_IPV6);
		ip_len = NETIF_IPV6_LEN;
	}
	r->len = l2_len + ip_len;
	r->tcp_len = (uint16_t)((tcp[TX_TCP_FLAGS * 4] >> 4) * 4);
	r->tx_offload = rte_mbuf_tx_offload(l2_len, ip_len, r->tcp_len, 0, 0, 0, 0);
	p = r->hdr + sizeof(r->hdr) - r->len;
	eth.ether_type = tagged ? RTE_BE16(RTE_ETHER_TYPE_VLAN) : type;
	memcpy(p, &eth, sizeof(eth));
	if (unlikely(tagged)) {
		struct rte_vlan_hdr tag = {rte_cpu_to_be_16(n->vlan_id), type};

		memcpy(p + sizeof(eth), &tag, sizeof(tag));
	}
	r->own_sum = (tx & RTE_ETH_TX_OFFLOAD_TCP_CKSUM) == 0;
	r->own_ip_sum = (tx & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM) == 0;
	r->sum = r->pseudo + netif_sum_words(tcp, r->tcp_len / 4u) - tx_word(tcp, TX_TCP_SEQ) -
	         tx_word(tcp, TX_TCP_FLAGS);
	r->ol_flags = r->own_sum ? 0 : RTE_MBUF_F_TX_TCP_CKSUM;
	if (r->v4 && !r->own_ip_sum)
		r->ol_flags |= RTE_MBUF_F_TX_IP_CKSUM;
	if (r->ol_flags != 0)
		r->ol_flags |= r->v4 ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6;
	r->vlan_tci = n->vlan_id;
	if (unlikely(n->vlan_id != 0) && !tagged)
		r->ol_flags |= RTE_MBUF_F_TX_VLAN;
}

/** The sum of len octets of payload: the one that came with them, or else they are read. */
static inline uint64_t
tx_payload_sum(struct rte_mbuf *m, const uint8_t *payload, uint32_t len)
{
	const struct weft_mbuf_sum *s = &weft_mbuf_priv(m)->tx_sum;

	return s->bytes != 0 && s->bytes == len ? s->sum : netif_sum_open(payload, len);
}

/** Puts the headers in front of a segment of the run. */
static inline void
tx_run_next(struct weft_netif *nif, const struct tx_run *r, struct rte_mbuf *m,
            struct weft_netif_tx_how how)
{
	uint8_t *tcp = rte_pktmbuf_mtod(m, uint8_t *);
	struct rte_tcp_hdr *h = (struct rte_tcp_hdr *)(void *)tcp;
	uint16_t l4_len = (uint16_t)m->pkt_len;
	uint64_t sum;

	/* By arithmetic: of a segment's own octets, only its payload is read for the checksum, and
	 * that only if its sum has not come with it. */
	if (likely(r->own_sum)) {
		sum = r->sum + rte_cpu_to_be_16(l4_len) + tx_word(tcp, TX_TCP_SEQ) +
		      tx_word(tcp, TX_TCP_FLAGS) +
		      tx_payload_sum(m, tcp + r->tcp_len, l4_len - (uint32_t)r->tcp_len);
		h->cksum = (uint16_t)~netif_fold(sum);
	} else {
		h->cksum = netif_fold(r->pseudo + rte_cpu_to_be_16(l4_len));
	}
	memcpy(tcp - sizeof(r->hdr), r->hdr, sizeof(r->hdr));
	if (likely(r->v4)) {
		struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(void *)(tcp - NETIF_IPV4_LEN);

		ip->total_length = rte_cpu_to_be_16((uint16_t)(l4_len + NETIF_IPV4_LEN));
		if (unlikely(how.may_fragment))
			ip->packet_id = netif_ip_id(nif, r->src4, r->dst4, IPPROTO_TCP, false);
		if (likely(r->own_ip_sum))
			ip->hdr_checksum =
			        (uint16_t)~netif_fold(r->ip_sum + ip->total_length + ip->packet_id);
	} else {
		struct rte_ipv6_hdr *ip = (struct rte_ipv6_hdr *)(void *)(tcp - NETIF_IPV6_LEN);

		ip->payload_len = rte_cpu_to_be_16(l4_len);
	}
	m->data_off -= r->len;
	m->data_len += r->len;
	m->pkt_len += r->len;
	m->ol_flags = (m->ol_flags & ~RTE_MBUF_F_TX_OFFLOAD_MASK) | r->ol_flags;
	m->tx_offload = r->tx_offload;
	m->vlan_tci = r->vlan_tci;
}

unsigned int
weft_netif_tx_run(struct weft_netif *nif, struct weft_neigh *n, const struct weft_ip *src,
                  const struct weft_ip *dst, struct rte_mbuf **m, unsigned int count,
                  struct weft_netif_tx_how how, uint64_t now_ns)
{
	uint32_t most = nif->attr.mtu_bytes;
	struct tx_run r;
	unsigned int i;

	nif->now_ns = now_ns;
	most -= weft_ip_is_v4(dst) ? NETIF_IPV4_LEN : NETIF_IPV6_LEN;
	if (unlikely(!tx_neigh_fresh(n, now_ns)))
		return 0;
	count = RTE_MIN(count, weft_netif_tx_room(nif));
	for (i = 0; i < count; i++) {
		if (unlikely(m[i]->pkt_len > most ||
		             rte_pktmbuf_headroom(m[i]) < WEFT_NETIF_RUN_HEADROOM))
			break;
		if (i == 0)
			tx_run_begin(&r, nif, n, src, dst, rte_pktmbuf_mtod(m[0], uint8_t *), how);
		tx_run_next(nif, &r, m[i], how);
	}
	netif_enqueue_run(nif, m, i);
	return i;
}
