/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Where a frame goes. */

#include "portd_switch.h"

#include <netinet/in.h>
#include <string.h>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_mbuf.h>

#include "netif_group_priv.h"
#include <weft/byteorder.h>

#define SWITCH_ARP_BYTES 28 /* RFC 826, of Ethernet and IPv4 */
#define SWITCH_ARP_ASK   1
/* RFC 4861 s4 */
#define SWITCH_ND_RA        134
#define SWITCH_ND_NS        135
#define SWITCH_ND_NA        136
#define SWITCH_ND_REDIRECT  137
#define SWITCH_ND_BYTES     24 /* up to the end of the target */
#define SWITCH_OPTION_BYTES 8  /* of a link-layer address of Ethernet */
#define SWITCH_NEXT_HDR     6  /* offset in the header of IPv6 */
#define SWITCH_TCP_FIN      0x01
#define SWITCH_TCP_SYN      0x02
#define SWITCH_TCP_RST      0x04
#define SWITCH_TCP_ACK      0x10
/* What netif_steer_look() examines, and beyond it nothing is read here. */
#define SWITCH_READ STEER_READ_BYTES

/** A frame, from its start. */
struct frame {
	const uint8_t *p;
	unsigned int len; /**< octets at p */
	unsigned int l3;  /**< where the network's header begins */
	uint16_t type, vlan_id;
	uint8_t buf[SWITCH_READ];
};

static bool
frame_read(struct frame *f, const struct rte_mbuf *m)
{
	f->len = RTE_MIN(m->pkt_len, (uint32_t)SWITCH_READ);
	if (f->len < NETIF_ETHER_LEN)
		return false;
	f->p = rte_pktmbuf_read(m, 0, f->len, f->buf);
	if (f->p == NULL)
		return false;
	f->l3 = NETIF_ETHER_LEN;
	f->vlan_id = 0;
	f->type = weft_get_be16(f->p + 12);
	if (f->type == RTE_ETHER_TYPE_VLAN) {
		if (f->len < NETIF_L2_MAX)
			return false;
		f->vlan_id = weft_get_be16(f->p + 14) & 0x0fff;
		f->type = weft_get_be16(f->p + 16);
		f->l3 = NETIF_L2_MAX;
	}
	return true;
}

static bool
switch_has_addr(const struct portd_switch *s, const uint8_t *addr, unsigned int bytes)
{
	if (bytes == sizeof(s->ipv4))
		return s->has_ipv4 && memcmp(addr, s->ipv4, bytes) == 0;
	for (unsigned int i = 0; i < s->nipv6; i++)
		if (memcmp(addr, s->ipv6[i], sizeof(s->ipv6[i])) == 0)
			return true;
	return false;
}

static bool
switch_has_mac(const struct portd_switch *s, const uint8_t *mac)
{
	return memcmp(mac, s->mac, sizeof(s->mac)) == 0;
}

/* ---- ARP and Neighbor Discovery ---- */

/** The packet of ARP, of Ethernet and IPv4; NULL: it is another one. */
static const uint8_t *
switch_arp(const struct frame *f)
{
	static const uint8_t head[6] = {0, 1, 8, 0, 6, 4};

	if (f->len - f->l3 < SWITCH_ARP_BYTES || memcmp(f->p + f->l3, head, sizeof(head)) != 0)
		return NULL;
	return f->p + f->l3;
}

/** ICMPv6 right behind the header, whose octets up to the end of a target are present; else NULL.
 */
static const uint8_t *
switch_nd(const struct frame *f)
{
	if (f->len - f->l3 < NETIF_IPV6_LEN + SWITCH_ND_BYTES ||
	    f->p[f->l3 + SWITCH_NEXT_HDR] != IPPROTO_ICMPV6)
		return NULL;
	return f->p + f->l3 + NETIF_IPV6_LEN;
}

static bool
switch_is_zero(const uint8_t *p, unsigned int n)
{
	while (n > 0 && p[n - 1] == 0)
		n--;
	return n == 0;
}

/**
 * Whether processes learn from what the network says of neighbours. What is about our own addresses
 * (probes, claims of another station, questions of Duplicate Address Detection) is the daemon's
 * alone.
 */
static bool
switch_teaches(const struct portd_switch *s, const struct frame *f)
{
	const uint8_t *p;

	if (f->type == RTE_ETHER_TYPE_ARP) {
		p = switch_arp(f);
		/* RFC 826 updates a known sender whatever the target is. A station that announces
		 * a new MAC address asks for itself (RFC 5227 s2.3). */
		return p != NULL && !switch_is_zero(p + 14, 4) && !switch_has_addr(s, p + 14, 4) &&
		       (switch_has_addr(s, p + 24, 4) || memcmp(p + 14, p + 24, 4) == 0);
	}
	p = switch_nd(f);
	if (p == NULL || switch_has_addr(s, f->p + f->l3 + 8, 16) ||
	    switch_is_zero(f->p + f->l3 + 8, 16))
		return false;
	switch (p[0]) {
	case SWITCH_ND_RA:
	case SWITCH_ND_NS:
	case SWITCH_ND_REDIRECT:
		return true;
	case SWITCH_ND_NA:
		return !switch_has_addr(s, p + 8, 16);
	default:
		return false;
	}
}

/**
 * Whether the options of a Neighbor Solicitation are none, or one: the source's link-layer address,
 * which is the device's (RFC 4861 s4.3, s4.6.1). Any other one would teach the neighbour to send
 * our frames elsewhere.
 */
static bool
switch_options_ok(const struct portd_switch *s, const struct frame *f, const uint8_t *p)
{
	static const uint8_t head[2] = {1, 1}; /* in units of 8 octets */
	const unsigned int bytes = weft_get_be16(f->p + f->l3 + 4);

	if (bytes == SWITCH_ND_BYTES)
		return true;
	return bytes == SWITCH_ND_BYTES + SWITCH_OPTION_BYTES &&
	       f->len - f->l3 >= NETIF_IPV6_LEN + bytes &&
	       memcmp(p + SWITCH_ND_BYTES, head, sizeof(head)) == 0 &&
	       switch_has_mac(s, p + SWITCH_ND_BYTES + sizeof(head));
}

/** Whether a process asks for a neighbour, by the shared address. */
static bool
switch_asks(const struct portd_switch *s, const struct frame *f)
{
	const uint8_t *p;

	if (f->type == RTE_ETHER_TYPE_ARP) {
		p = switch_arp(f);
		return p != NULL && weft_get_be16(p + 6) == SWITCH_ARP_ASK &&
		       switch_has_mac(s, p + 8) && switch_has_addr(s, p + 14, 4) &&
		       !switch_has_addr(s, p + 24, 4);
	}
	p = switch_nd(f);
	return p != NULL && p[0] == SWITCH_ND_NS && switch_has_addr(s, f->p + f->l3 + 8, 16) &&
	       !switch_has_addr(s, p + 8, 16) && switch_options_ok(s, f, p);
}

/* ---- Verdicts ---- */

enum portd_to
portd_switch_in(const struct portd_switch *s, const struct rte_mbuf *m, uint32_t *proc)
{
	struct steer_flow flow;
	struct frame f;
	enum steer_verdict v;

	if (!frame_read(&f, m) || f.vlan_id != s->vlan_id)
		return PORTD_TO_DAEMON;
	v = netif_steer_look(m, &flow);
	if (v == STEER_ALL)
		return switch_teaches(s, &f) ? PORTD_TO_ALL : PORTD_TO_DAEMON;
	if (v == STEER_HERE || !switch_has_mac(s, f.p) ||
	    !switch_has_addr(s, flow.local, flow.addr_bytes) ||
	    switch_has_addr(s, flow.remote, flow.addr_bytes))
		return PORTD_TO_DAEMON;
	*proc = portd_table_owner(s->table, weft_get_be16(flow.local_port));
	return *proc == PORTD_NO_PROC ? PORTD_TO_DAEMON : PORTD_TO_PROC;
}

static enum portd_to
switch_drop(enum portd_why *why, enum portd_why is)
{
	*why = is;
	return PORTD_TO_DROP;
}

enum portd_to
portd_switch_out(const struct portd_switch *s, uint32_t from, const struct rte_mbuf *m,
                 uint32_t *proc, enum portd_why *why)
{
	struct steer_flow flow;
	struct frame f;
	enum steer_verdict v;

	if (!frame_read(&f, m) || m->pkt_len > f.l3 + s->mtu_bytes)
		return switch_drop(why, PORTD_WHY_LENGTH);
	if (!switch_has_mac(s, f.p + 6))
		return switch_drop(why, PORTD_WHY_MAC);
	if (f.vlan_id != s->vlan_id)
		return switch_drop(why, PORTD_WHY_VLAN);
	v = netif_steer_look(m, &flow);
	if (v == STEER_ALL) {
		if (!switch_asks(s, &f))
			return switch_drop(why, PORTD_WHY_NEIGH);
		return switch_has_mac(s, f.p) ? switch_drop(why, PORTD_WHY_MAC) : PORTD_TO_WIRE;
	}
	if (v != STEER_OWNER || !flow.plain)
		return switch_drop(why, PORTD_WHY_OTHER);
	/* netif_steer_look() speaks as the receiver: the process is the remote end. */
	if (!switch_has_addr(s, flow.remote, flow.addr_bytes))
		return switch_drop(why, PORTD_WHY_ADDR);
	if (portd_table_owner(s->table, weft_get_be16(flow.remote_port)) != from)
		return switch_drop(why, PORTD_WHY_PORT);
	if (switch_has_addr(s, flow.local, flow.addr_bytes) != switch_has_mac(s, f.p) ||
	    (f.p[0] & 1) != 0)
		return switch_drop(why, PORTD_WHY_MAC);
	if (!switch_has_mac(s, f.p))
		return PORTD_TO_WIRE;
	*proc = portd_table_owner(s->table, weft_get_be16(flow.local_port));
	return *proc == PORTD_NO_PROC ? PORTD_TO_RESET : PORTD_TO_PROC;
}

/* ---- A segment that no process wants ---- */

/** Octets of the segment's data, and one for each of SYN and FIN (RFC 9293 s3.4). */
static uint32_t
reset_seg_len(const struct frame *f, const uint8_t *tcp, bool v6)
{
	const uint8_t *ip = f->p + f->l3;
	const uint32_t rest = weft_get_be16(ip + (v6 ? 4 : 2)), l3 = v6 ? 0 : NETIF_IPV4_LEN;
	const uint32_t l4 = rest > l3 ? rest - l3 : 0;
	const uint32_t hdr = (tcp[12] >> 4) * 4U;

	return (l4 > hdr ? l4 - hdr : 0) + ((tcp[13] & SWITCH_TCP_SYN) != 0) +
	       ((tcp[13] & SWITCH_TCP_FIN) != 0);
}

static void
reset_tcp(const struct frame *f, const uint8_t *tcp, bool v6, uint8_t *out)
{
	memset(out, 0, NETIF_TCP_LEN);
	memcpy(out, tcp + 2, 2);
	memcpy(out + 2, tcp, 2);
	out[12] = NETIF_TCP_LEN / 4 << 4;
	if ((tcp[13] & SWITCH_TCP_ACK) != 0) {
		memcpy(out + 4, tcp + 8, 4);
		out[13] = SWITCH_TCP_RST;
	} else {
		weft_put_be32(out + 8, weft_get_be32(tcp + 4) + reset_seg_len(f, tcp, v6));
		out[13] = SWITCH_TCP_RST | SWITCH_TCP_ACK;
	}
}

static void
reset_ipv4(const struct frame *f, uint8_t *ip)
{
	const uint8_t *from = f->p + f->l3;
	struct rte_ipv4_hdr h = {.version_ihl = 0x45,
	                         .total_length = RTE_BE16(NETIF_IPV4_LEN + NETIF_TCP_LEN),
	                         .fragment_offset = RTE_BE16(RTE_IPV4_HDR_DF_FLAG),
	                         .time_to_live = NETIF_TTL,
	                         .next_proto_id = IPPROTO_TCP};
	uint16_t sum;

	memcpy(&h.src_addr, from + 16, 4);
	memcpy(&h.dst_addr, from + 12, 4);
	h.hdr_checksum = rte_ipv4_cksum(&h);
	sum = rte_ipv4_udptcp_cksum(&h, ip + NETIF_IPV4_LEN);
	memcpy(ip, &h, sizeof(h));
	memcpy(ip + NETIF_IPV4_LEN + 16, &sum, sizeof(sum));
}

static void
reset_ipv6(const struct frame *f, uint8_t *ip)
{
	const uint8_t *from = f->p + f->l3;
	struct rte_ipv6_hdr h = {.vtc_flow = RTE_BE32(6U << 28),
	                         .payload_len = RTE_BE16(NETIF_TCP_LEN),
	                         .proto = IPPROTO_TCP,
	                         .hop_limits = NETIF_TTL};
	uint16_t sum;

	memcpy(h.src_addr, from + 24, 16);
	memcpy(h.dst_addr, from + 8, 16);
	sum = rte_ipv6_udptcp_cksum(&h, ip + NETIF_IPV6_LEN);
	memcpy(ip, &h, sizeof(h));
	memcpy(ip + NETIF_IPV6_LEN + 16, &sum, sizeof(sum));
}

unsigned int
portd_switch_reset(const struct rte_mbuf *m, uint8_t out[PORTD_RESET_BYTES])
{
	unsigned int l3_bytes;
	struct frame f;
	const uint8_t *tcp;
	bool v6;

	if (!frame_read(&f, m))
		return 0;
	v6 = f.type == RTE_ETHER_TYPE_IPV6;
	/* The verdict took the frame only with a plain header and a whole one of TCP. */
	l3_bytes = v6 ? NETIF_IPV6_LEN : NETIF_IPV4_LEN;
	if (f.len < f.l3 + l3_bytes + NETIF_TCP_LEN)
		return 0;
	tcp = f.p + f.l3 + l3_bytes;
	if ((tcp[13] & SWITCH_TCP_RST) != 0)
		return 0;
	memcpy(out, f.p, f.l3);
	memcpy(out, f.p + 6, 6);
	memcpy(out + 6, f.p, 6);
	reset_tcp(&f, tcp, v6, out + f.l3 + l3_bytes);
	if (v6)
		reset_ipv6(&f, out + f.l3);
	else
		reset_ipv4(&f, out + f.l3);
	return f.l3 + l3_bytes + NETIF_TCP_LEN;
}
