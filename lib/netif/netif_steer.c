/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The owner of a packet within a group, and the source ports that lead to a member.
 *
 * Toeplitz is linear over GF(2): the hash of a tuple is the exclusive or of the contributions of
 * its bits. So hash(addresses, ports) = hash(addresses, remote port, 0) ^ T(local port), and only
 * the low bits of T matter for the redirection table. The ports are sorted by those bits once. An
 * active open chooses one of the member's entries. The exclusive or of that entry and the hash
 * without the local port gives the list of ports that lead to the entry.
 */

#include <rte_ip.h>

#include "netif_ext.h"
#include "netif_group_priv.h"

#define STEER_ICMP_LEN  8 /**< octets before the quoted packet, in ICMP and ICMPv6 */
#define STEER_PORTS_LEN 4
#define STEER_PORT_BITS 14 /**< bits in which dynamic ports differ */
#define STEER_TCP_FLAGS 13 /**< offset in the TCP header */
#define STEER_TCP_SYN   0x02
#define STEER_TCP_ACK   0x10

/* ---- Tables ---- */

/* The 32 bits of the key that apply to bit `bit` of the tuple. */
static uint32_t
steer_window(const uint8_t *key, unsigned int bit)
{
	uint64_t w = (uint64_t)weft_get_be32(key + bit / 8) << 8;

	if (bit % 8 != 0)
		w |= key[bit / 8 + 4];
	return (uint32_t)(w >> (8 - bit % 8));
}

static inline uint32_t
steer_sum(const struct netif_steer *s, unsigned int at, const uint8_t *p, unsigned int n)
{
	uint32_t h = 0;

	for (unsigned int i = 0; i < n; i++)
		h ^= s->nib[2 * (at + i)][p[i] >> 4] ^ s->nib[2 * (at + i) + 1][p[i] & 0xf];
	return h;
}

static inline uint32_t
steer_port(const struct netif_steer *s, bool v6, uint16_t port)
{
	uint8_t p[2];

	weft_put_be16(p, port);
	return steer_sum(s, (v6 ? STEER_TUPLE6 : STEER_TUPLE4) - 2, p, sizeof(p));
}

static void
steer_sort_ports(const struct netif_steer *s, bool v6, struct steer_ports *t)
{
	uint16_t count[WEFT_GROUP_RETA_MAX] = {0};

	for (unsigned int i = 0; i < WEFT_PORT_COUNT; i++)
		count[steer_port(s, v6, (uint16_t)(WEFT_PORT_FIRST + i)) & s->reta_mask]++;
	t->first[0] = 0;
	for (unsigned int e = 0; e <= s->reta_mask; e++)
		t->first[e + 1] = (uint16_t)(t->first[e] + count[e]);
	memset(count, 0, sizeof(count));
	for (unsigned int i = 0; i < WEFT_PORT_COUNT; i++) {
		uint16_t port = (uint16_t)(WEFT_PORT_FIRST + i);
		uint32_t e = steer_port(s, v6, port) & s->reta_mask;

		t->port[t->first[e] + count[e]++] = port;
	}
}

unsigned int
netif_steer_rank(const uint8_t *key, bool v6)
{
	unsigned int end = 8 * (v6 ? STEER_TUPLE6 : STEER_TUPLE4), rank = 0;
	uint32_t base[WEFT_GROUP_RETA_BITS] = {0};

	/* Gaussian elimination over GF(2), one vector for each bit in which dynamic ports
	 * differ. */
	for (unsigned int bit = end - STEER_PORT_BITS; bit < end; bit++) {
		uint32_t v = steer_window(key, bit) & (WEFT_GROUP_RETA_MAX - 1);

		for (unsigned int b = WEFT_GROUP_RETA_BITS; b-- > 0 && v != 0;) {
			if ((v & 1u << b) == 0)
				continue;
			if (base[b] == 0) {
				base[b] = v;
				rank++;
				break;
			}
			v ^= base[b];
		}
	}
	return rank;
}

void
netif_steer_init(struct netif_steer *s, unsigned int members, const uint8_t *key,
                 const uint16_t *reta, unsigned int reta_size)
{
	unsigned int n = 0;

	s->members = members;
	s->reta_mask = reta_size - 1;
	for (unsigned int place = 0; place < RTE_DIM(s->nib); place++)
		for (unsigned int v = 0; v < 16; v++) {
			uint32_t h = 0;

			for (unsigned int b = 0; b < 4; b++)
				if ((v & 8u >> b) != 0)
					h ^= steer_window(key, 4 * place + b);
			s->nib[place][v] = h;
		}
	for (unsigned int e = 0; e < reta_size; e++)
		s->reta[e] = (uint8_t)reta[e];
	for (unsigned int m = 0; m < members; m++) {
		s->own_first[m] = (uint16_t)n;
		for (unsigned int e = 0; e < reta_size; e++)
			if (reta[e] == m)
				s->own[n++] = (uint16_t)e;
	}
	s->own_first[members] = (uint16_t)n;
	steer_sort_ports(s, false, &s->ports[0]);
	steer_sort_ports(s, true, &s->ports[1]);
}

uint32_t
netif_steer_hash(const struct netif_steer *s, const struct weft_ip *remote, uint16_t remote_port,
                 const struct weft_ip *local, uint16_t local_port)
{
	uint8_t tuple[STEER_TUPLE6];
	unsigned int n = 16;

	if (weft_ip_is_v4(remote)) {
		n = 4;
		memcpy(tuple, &remote->b[12], n);
		memcpy(tuple + n, &local->b[12], n);
	} else {
		memcpy(tuple, remote->b, n);
		memcpy(tuple + n, local->b, n);
	}
	weft_put_be16(tuple + 2 * n, remote_port);
	weft_put_be16(tuple + 2 * n + 2, local_port);
	return steer_sum(s, 0, tuple, 2 * n + 4);
}

/* ---- Choosing a source port ---- */

int
netif_steer_pick(const struct netif_steer *s, unsigned int member, const struct weft_ip *src,
                 const struct weft_ip *dst, uint16_t dst_port, const struct weft_rand *rand,
                 bool (*usable)(void *arg, uint16_t port), void *arg)
{
	const uint16_t *own = &s->own[s->own_first[member]];
	const struct steer_ports *t = &s->ports[weft_ip_is_v4(dst) ? 0 : 1];
	uint32_t nown = s->own_first[member + 1] - (uint32_t)s->own_first[member];
	uint32_t base = netif_steer_hash(s, dst, dst_port, src, 0);
	uint32_t r[2];

	if (nown == 0)
		return -EADDRNOTAVAIL;
	rand->fill(rand->arg, r, sizeof(r));
	/* With a key of low rank some lists are empty. Then another entry is tried. */
	for (uint32_t i = 0; i < nown; i++) {
		uint32_t e = (own[(r[0] + i) % nown] ^ base) & s->reta_mask;
		const uint16_t *port = &t->port[t->first[e]];
		uint32_t n = t->first[e + 1] - (uint32_t)t->first[e];

		for (uint32_t k = 0; k < n; k++) {
			uint16_t p = port[(r[1] + k) % n];

			if (usable(arg, p))
				return p;
		}
	}
	return -EADDRNOTAVAIL;
}

/* ---- Examining frames ---- */

uint32_t
netif_steer_flow_hash(const struct netif_steer *s, const struct steer_flow *f)
{
	unsigned int n = f->addr_bytes;

	return steer_sum(s, 0, f->remote, n) ^ steer_sum(s, n, f->local, n) ^
	       steer_sum(s, 2 * n, f->remote_port, 2) ^ steer_sum(s, 2 * n + 2, f->local_port, 2);
}

/* An error quotes a packet of ours: its destination is the remote end. */
static enum steer_verdict
steer_quoted(const uint8_t *q, unsigned int len, bool v6, struct steer_flow *f)
{
	unsigned int min = v6 ? NETIF_IPV6_LEN : NETIF_IPV4_LEN, l4;

	if (len < min || q[0] >> 4 != (v6 ? 6 : 4))
		return STEER_HERE;
	l4 = v6 ? NETIF_IPV6_LEN : (q[0] & 0xfu) * 4;
	if (q[v6 ? 6 : 9] != IPPROTO_TCP || l4 < min || len < l4 + STEER_PORTS_LEN ||
	    (!v6 && (weft_get_be16(q + 6) & RTE_IPV4_HDR_OFFSET_MASK) != 0))
		return STEER_HERE;
	f->addr_bytes = v6 ? 16 : 4;
	f->local = q + (v6 ? 8 : 12);
	f->remote = f->local + f->addr_bytes;
	f->local_port = q + l4;
	f->remote_port = q + l4 + 2;
	return STEER_ICMP;
}

static enum steer_verdict
steer_tcp(const uint8_t *addr, unsigned int addr_bytes, const uint8_t *tcp, bool plain,
          struct steer_flow *f)
{
	f->addr_bytes = (uint8_t)addr_bytes;
	f->remote = addr;
	f->local = addr + addr_bytes;
	f->remote_port = tcp;
	f->local_port = tcp + 2;
	f->plain = plain;
	f->syn = (tcp[STEER_TCP_FLAGS] & STEER_TCP_SYN) != 0;
	f->ack = (tcp[STEER_TCP_FLAGS] & STEER_TCP_ACK) != 0;
	return STEER_OWNER;
}

static enum steer_verdict
steer_look4(const uint8_t *p, unsigned int len, struct steer_flow *f)
{
	unsigned int ihl;

	if (unlikely(len < NETIF_IPV4_LEN || p[0] >> 4 != 4))
		return STEER_HERE;
	ihl = (p[0] & 0xfu) * 4;
	/* Fragments have no ports. netif drops them at any member. */
	if (unlikely(ihl < NETIF_IPV4_LEN ||
	             (weft_get_be16(p + 6) & (RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK)) !=
	                     0))
		return STEER_HERE;
	if (likely(p[9] == IPPROTO_TCP))
		return likely(len >= ihl + NETIF_TCP_LEN)
		               ? steer_tcp(p + 12, 4, p + ihl, ihl == NETIF_IPV4_LEN, f)
		               : STEER_HERE;
	if (p[9] != IPPROTO_ICMP || len < ihl + STEER_ICMP_LEN)
		return STEER_HERE;
	/* RFC 792: unreachable, source quench, redirect, time exceeded, parameter problem. */
	switch (p[ihl]) {
	case 3:
	case 4:
	case 5:
	case 11:
	case 12:
		return steer_quoted(p + ihl + STEER_ICMP_LEN, len - ihl - STEER_ICMP_LEN, false, f);
	default:
		return STEER_HERE;
	}
}

static enum steer_verdict
steer_look6(const uint8_t *p, unsigned int len, struct steer_flow *f)
{
	struct netif_ext w = {.off = NETIF_IPV6_LEN, .next_at = IP6_NEXT_HDR_OFF};
	enum netif_ext_kind kind;
	const uint8_t *up;

	if (unlikely(len < NETIF_IPV6_LEN || p[0] >> 4 != 6))
		return STEER_HERE;
	w.next = p[IP6_NEXT_HDR_OFF];
	w.left = RTE_MIN((unsigned int)weft_get_be16(p + 4), len - NETIF_IPV6_LEN);
	while (unlikely((kind = netif_ext_look(&w, p)) == NETIF_EXT_WHOLE))
		netif_ext_step(&w, p);
	/* Receive drops these, at any member. */
	if (unlikely(kind != NETIF_EXT_NONE))
		return STEER_HERE;
	up = p + w.off;
	if (likely(w.next == IPPROTO_TCP))
		return likely(w.left >= NETIF_TCP_LEN)
		               ? steer_tcp(p + 8, 16, up, w.off == NETIF_IPV6_LEN, f)
		               : STEER_HERE;
	if (w.next != IPPROTO_ICMPV6 || w.left < STEER_ICMP_LEN)
		return STEER_HERE;
	/* RFC 4861 s4; and Multicast Listener Queries (RFC 3810 s5.1), which member 0 answers. */
	if ((up[0] >= 133 && up[0] <= 137) || up[0] == 130)
		return STEER_ALL;
	if (up[0] < 1 || up[0] > 4) /* RFC 4443 s2.1: the errors */
		return STEER_HERE;
	return steer_quoted(up + STEER_ICMP_LEN, w.left - STEER_ICMP_LEN, true, f);
}

enum steer_verdict
netif_steer_look(const struct rte_mbuf *m, struct steer_flow *f)
{
	unsigned int len = RTE_MIN(m->pkt_len, (uint32_t)sizeof(f->buf)), off = NETIF_ETHER_LEN;
	const uint8_t *p;
	uint16_t type;

	if (unlikely(len < NETIF_ETHER_LEN))
		return STEER_HERE;
	p = rte_pktmbuf_read(m, 0, len, f->buf);
	if (unlikely(p == NULL))
		return STEER_HERE;
	type = weft_get_be16(p + 12);
	if (unlikely(type == RTE_ETHER_TYPE_VLAN)) {
		if (len < NETIF_ETHER_LEN + 4)
			return STEER_HERE;
		type = weft_get_be16(p + 16);
		off += 4;
	}
	switch (type) {
	case RTE_ETHER_TYPE_IPV4:
		return steer_look4(p + off, len - off, f);
	case RTE_ETHER_TYPE_IPV6:
		return steer_look6(p + off, len - off, f);
	case RTE_ETHER_TYPE_ARP:
		return STEER_ALL;
	default:
		return STEER_HERE;
	}
}
