/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The peer's frames: Ethernet, ARP, IPv4, IPv6, ICMP and TCP, encoded and decoded octet
 * by octet. */

#include "script.h"

static const uint8_t our_mac[6] = {2, 0, 0, 0, 0, 1};
static const uint8_t peer_mac[6] = {2, 0, 0, 0, 0, 2};

#define ETH 14

uint32_t
sc_our_v4(void)
{
	return 0x0a000001;
}

uint32_t
sc_peer_v4(void)
{
	return 0x0a000002;
}

struct weft_ip
sc_ip(bool v6, bool peer)
{
	struct weft_ip ip = {.b = {0xfd, 0, [15] = peer ? 2 : 1}};

	return v6 ? ip : weft_ip_from_v4(rte_cpu_to_be_32(peer ? sc_peer_v4() : sc_our_v4()));
}

uint8_t
sc_octet(uint64_t off, bool from_peer)
{
	return (uint8_t)((from_peer ? 17 : 99) + off * 131 + (off >> 8) * 31 + (off >> 16) * 7);
}

static uint32_t
sum_add(uint32_t sum, const uint8_t *p, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		sum += i & 1 ? p[i] : (uint32_t)p[i] << 8;
	while (sum > 0xffff)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static uint32_t
sum_pseudo(bool v6, const uint8_t *ip, uint8_t proto, uint32_t len)
{
	uint32_t sum = proto + len;

	return v6 ? sum_add(sum, ip + 8, 32) : sum_add(sum, ip + 12, 8);
}

static uint8_t *
put_eth(struct sc *s, uint8_t *p, uint16_t type)
{
	(void)s;
	memcpy(p, our_mac, 6);
	memcpy(p + 6, peer_mac, 6);
	weft_put_be16(p + 12, type);
	return p + ETH;
}

static uint32_t
ip_len(const struct sc *s)
{
	return s->v6 ? 40 : 20;
}

static void
sum_ip(uint8_t *ip, uint32_t len)
{
	weft_put_be16(ip + 10, 0);
	weft_put_be16(ip + 10, (uint16_t)~sum_add(0, ip, len));
}

/** Write an IP header for len octets. to_us: from the peer to the stack. */
static void
put_ip(struct sc *s, uint8_t *p, uint8_t proto, uint32_t len, uint8_t tos, uint8_t ttl, bool to_us)
{
	struct weft_ip src = sc_ip(s->v6, to_us), dst = sc_ip(s->v6, !to_us);

	if (s->v6) {
		weft_put_be32(p, 6u << 28 | (uint32_t)tos << 20);
		weft_put_be16(p + 4, (uint16_t)len);
		p[6] = proto;
		p[7] = ttl;
		memcpy(p + 8, src.b, 16);
		memcpy(p + 24, dst.b, 16);
		return;
	}
	p[0] = 0x45;
	p[1] = tos;
	weft_put_be16(p + 2, (uint16_t)(20 + len));
	weft_put_be16(p + 4, s->ip_id++);
	weft_put_be16(p + 6, 0x4000);
	p[8] = ttl;
	p[9] = proto;
	memcpy(p + 12, src.b + 12, 4);
	memcpy(p + 16, dst.b + 12, 4);
	sum_ip(p, 20);
}

static uint32_t
num(const struct sc_num *n, uint32_t base)
{
	return n->abs ? n->v : n->v + base;
}

static uint32_t
put_opts(struct sc *s, const struct sc_flow *f, const struct sc_opts *o, uint8_t *p)
{
	uint32_t n = 0;

	if (o->has_mss) {
		p[n] = 2;
		p[n + 1] = 4;
		weft_put_be16(p + n + 2, o->mss);
		n += 4;
	}
	if (o->sack_ok) {
		p[n++] = 4;
		p[n++] = 2;
	}
	if (o->has_ts) {
		uint32_t clock = f->ts_base +
		                 (uint32_t)((sim_now_ns(s->sim) - f->ts_base_ns) / WEFT_NS_PER_MS);

		p[n] = 8;
		p[n + 1] = 10;
		weft_put_be32(p + n + 2, o->val_auto ? clock : o->ts_val);
		weft_put_be32(p + n + 6, o->ecr_last ? f->last_tsval + o->ts_ecr : o->ts_ecr);
		n += 10;
	}
	if (o->has_ws) {
		p[n++] = 1;
		p[n++] = 3;
		p[n++] = 3;
		p[n++] = o->ws;
	}
	if (o->has_sack) {
		p[n++] = 5;
		p[n++] = (uint8_t)(2 + 8 * o->nsack);
		for (unsigned int i = 0; i < o->nsack; i++, n += 8) {
			weft_put_be32(p + n, num(&o->sack[i][0], f->iss));
			weft_put_be32(p + n + 4, num(&o->sack[i][1], f->iss));
		}
	}
	memcpy(p + n, o->raw, o->nraw);
	n += o->nraw;
	while (n % 4 != 0)
		p[n++] = o->nraw > 0 ? 0 : 1;
	if (n > SC_OPTS_MAX)
		SC_FAIL(s, "script: %u octets of options", n);
	return n;
}

uint32_t
sc_frame_tcp(struct sc *s, const struct sc_flow *f, const struct sc_seg *g, uint8_t *frame)
{
	uint8_t *ip = put_eth(s, frame, s->v6 ? 0x86dd : 0x0800), *t = ip + ip_len(s);
	uint32_t hdr = 20, len, seq = num(&g->seq, f->irs);

	memset(t, 0, 20 + SC_OPTS_MAX);
	if (g->has_opts)
		hdr += put_opts(s, f, &g->o, t + 20);
	weft_put_be16(t, f->peer_port);
	weft_put_be16(t + 2, f->our_port);
	weft_put_be32(t + 4, seq);
	weft_put_be32(t + 8, g->has_ack ? num(&g->ack, f->iss) : 0);
	t[12] = (uint8_t)((g->doff >= 0 ? (uint32_t)g->doff : hdr / 4) << 4);
	t[13] = g->flags;
	weft_put_be16(t + 14, g->has_wnd ? g->wnd : f->last_wnd);
	weft_put_be16(t + 18, g->urg);
	for (uint32_t i = 0; i < g->len; i++)
		t[hdr + i] = (uint8_t)(sc_octet(seq - f->irs - 1 + i, true) ^ (g->junk ? 0xff : 0));
	len = hdr + g->len;
	put_ip(s, ip, 6, len, g->ecn >= 0 ? (uint8_t)g->ecn : 0, g->ttl >= 0 ? (uint8_t)g->ttl : 64,
	       true);
	if (!s->v6) {
		if (g->from != 0)
			weft_put_be32(ip + 12, g->from);
		if (g->to != 0)
			weft_put_be32(ip + 16, g->to);
		if ((g->to & 0xff) == 0xff)
			memset(frame, 0xff, 6);
		sum_ip(ip, 20);
	}
	weft_put_be16(t + 16, (uint16_t)~sum_add(sum_pseudo(s->v6, ip, 6, len), t, len));
	if (g->badsum)
		t[16] ^= 0x55;
	if (!s->v6 && g->frag) {
		weft_put_be16(ip + 6, 0x2000);
		sum_ip(ip, 20);
	}
	if (!s->v6 && g->ip_nops > 0) {
		memmove(t + 4 * g->ip_nops, t, len);
		memset(t, 1, 4 * g->ip_nops);
		len += 4u * g->ip_nops;
		ip[0] += g->ip_nops;
		weft_put_be16(ip + 2, (uint16_t)(20 + len));
		sum_ip(ip, 20 + 4u * g->ip_nops);
	}
	if (!s->v6 && g->badip)
		ip[10] ^= 0x55;
	return ETH + ip_len(s) + len - RTE_MIN(g->cut, len);
}

uint32_t
sc_frame_icmp_error(struct sc *s, const struct sc_flow *f, uint8_t type, uint8_t code, uint16_t mtu,
                    uint32_t seq, uint16_t quoted_bytes, uint8_t *frame)
{
	uint8_t *ip = put_eth(s, frame, s->v6 ? 0x86dd : 0x0800), *c = ip + ip_len(s);
	uint32_t len = 8 + ip_len(s) + 20;
	uint8_t *t = c + 8 + ip_len(s);

	memset(c, 0, len);
	c[0] = type;
	c[1] = code;
	if (s->v6)
		weft_put_be32(c + 4, mtu);
	else
		weft_put_be16(c + 6, mtu);
	put_ip(s, c + 8, 6, quoted_bytes - ip_len(s), 0, 60, false);
	weft_put_be16(t, f->our_port);
	weft_put_be16(t + 2, f->peer_port);
	weft_put_be32(t + 4, seq);
	t[12] = 0x50;
	t[13] = SC_ACK;
	put_ip(s, ip, s->v6 ? 58 : 1, len, 0, 64, true);
	weft_put_be16(c + 2, (uint16_t)~sum_add(s->v6 ? sum_pseudo(true, ip, 58, len) : 0, c, len));
	return ETH + ip_len(s) + len;
}

uint32_t
sc_frame_echo(struct sc *s, uint32_t data, bool badsum, uint8_t *frame)
{
	uint8_t *ip = put_eth(s, frame, s->v6 ? 0x86dd : 0x0800), *c = ip + ip_len(s);
	uint32_t len = 8 + data;

	memset(c, 0, 8);
	c[0] = s->v6 ? 128 : 8;
	weft_put_be16(c + 4, 77);
	weft_put_be16(c + 6, 1);
	for (uint32_t i = 0; i < data; i++)
		c[8 + i] = sc_octet(i, true);
	put_ip(s, ip, s->v6 ? 58 : 1, len, 0, 64, true);
	weft_put_be16(c + 2, (uint16_t)~sum_add(s->v6 ? sum_pseudo(true, ip, 58, len) : 0, c, len));
	if (badsum)
		c[2] ^= 0x55;
	return ETH + ip_len(s) + len;
}

uint32_t
sc_frame_arp(struct sc *s, uint16_t op, uint32_t spa, uint32_t tpa, uint8_t *frame)
{
	static const uint8_t head[] = {0, 1, 8, 0, 6, 4};
	uint8_t *a = put_eth(s, frame, 0x0806);

	memset(a, 0, 46);
	if (op == 1)
		memset(frame, 0xff, 6);
	memcpy(a, head, sizeof(head));
	weft_put_be16(a + 6, op);
	memcpy(a + 8, peer_mac, 6);
	weft_put_be32(a + 14, spa);
	if (op == 2)
		memcpy(a + 18, our_mac, 6);
	weft_put_be32(a + 24, tpa);
	return ETH + 46;
}

/** Neighbor Advertisement (RFC 4861 s4.4): solicited, override, with our link-layer address. */
uint32_t
sc_frame_na(struct sc *s, const uint8_t *target, const uint8_t *dst, uint8_t *frame)
{
	uint8_t *ip = put_eth(s, frame, 0x86dd), *c = ip + 40;

	memset(c, 0, 32);
	c[0] = 136;
	c[4] = 0x60;
	memcpy(c + 8, target, 16);
	c[24] = 2;
	c[25] = 1;
	memcpy(c + 26, peer_mac, 6);
	put_ip(s, ip, 58, 32, 0, 255, true);
	memcpy(ip + 8, target, 16);
	memcpy(ip + 24, dst, 16);
	weft_put_be16(c + 2, (uint16_t)~sum_add(sum_pseudo(true, ip, 58, 32), c, 32));
	return ETH + 72;
}

/* ---- Reading ---- */

static void
read_opts(struct sc *s, const uint8_t *p, uint32_t len, struct sc_opts *o)
{
	for (uint32_t i = 0; i < len;) {
		uint8_t kind = p[i], n = i + 1 < len ? p[i + 1] : 0;

		if (kind == 0)
			return;
		if (kind == 1) {
			i++;
			continue;
		}
		if (n < 2 || i + n > len)
			SC_FAIL(s, "the stack sent malformed options");
		if (kind == 2 && n == 4) {
			o->has_mss = true;
			o->mss = weft_get_be16(p + i + 2);
		} else if (kind == 3 && n == 3) {
			o->has_ws = true;
			o->ws = p[i + 2];
		} else if (kind == 4 && n == 2) {
			o->sack_ok = true;
		} else if (kind == 5 && n >= 10 && n <= 34 && (n - 2) % 8 == 0) {
			o->has_sack = true;
			o->nsack = (uint8_t)((n - 2) / 8);
			for (unsigned int k = 0; k < o->nsack; k++)
				for (unsigned int e = 0; e < 2; e++)
					o->sack[k][e] = (struct sc_num){
					        weft_get_be32(p + i + 2 + 8 * k + 4 * e), true};
		} else if (kind == 8 && n == 10) {
			o->has_ts = true;
			o->ts_val = weft_get_be32(p + i + 2);
			o->ts_ecr = weft_get_be32(p + i + 6);
		} else {
			memcpy(o->raw + o->nraw, p + i, n);
			o->nraw += n;
		}
		i += n;
	}
}

static bool
read_tcp(struct sc *s, const uint8_t *ip, const uint8_t *t, uint32_t len, struct sc_cap *c)
{
	struct sc_seg *g = &c->seg;
	uint32_t hdr;

	if (len < 20 || (hdr = (t[12] >> 4) * 4u) < 20 || hdr > len)
		SC_FAIL(s, "the stack sent a TCP header that is none");
	if (sum_add(sum_pseudo(s->v6, ip, 6, len), t, len) != 0xffff)
		SC_FAIL(s, "the stack sent a wrong TCP checksum");
	c->kind = SC_TCP;
	c->src_port = weft_get_be16(t);
	c->dst_port = weft_get_be16(t + 2);
	g->seq = (struct sc_num){weft_get_be32(t + 4), true};
	g->ack = (struct sc_num){weft_get_be32(t + 8), true};
	g->flags = t[13];
	g->wnd = weft_get_be16(t + 14);
	g->urg = weft_get_be16(t + 18);
	if (t[12] & 0x0f)
		SC_FAIL(s, "the stack set reserved bits");
	read_opts(s, t + 20, hdr - 20, &g->o);
	g->len = len - hdr;
	memcpy(c->payload, t + hdr, g->len);
	return true;
}

static bool
read_v4(struct sc *s, const uint8_t *ip, uint32_t len, struct sc_cap *c)
{
	uint32_t total;

	if (len < 20 || ip[0] != 0x45 || (total = weft_get_be16(ip + 2)) > len || total < 20)
		SC_FAIL(s, "the stack sent a malformed IP header");
	if (sum_add(0, ip, 20) != 0xffff)
		SC_FAIL(s, "the stack sent a wrong IP checksum");
	if (total > s->nif_attr.mtu_bytes)
		SC_FAIL(s, "the stack sent %u octets over an MTU of %u", total,
		        s->nif_attr.mtu_bytes);
	c->seg.ecn = ip[1] & 3;
	c->seg.dscp = ip[1] >> 2;
	c->seg.df = (ip[6] & 0x40) != 0;
	if (ip[9] == 6)
		return read_tcp(s, ip, ip + 20, total - 20, c);
	if (ip[9] == 1 && ip[20] == 0) {
		if (sum_add(0, ip + 20, total - 20) != 0xffff)
			SC_FAIL(s, "the stack sent a wrong ICMP checksum");
		c->kind = SC_ECHO_REPLY;
		c->echo_len = total - 28;
		memcpy(c->payload, ip + 28, c->echo_len);
		return true;
	}
	c->kind = SC_OTHER;
	return true;
}

static bool
read_v6(struct sc *s, const uint8_t *ip, uint32_t len, struct sc_cap *c)
{
	uint32_t plen;
	uint8_t na[128];

	if (len < 40 || ip[0] >> 4 != 6 || (plen = weft_get_be16(ip + 4)) > len - 40)
		SC_FAIL(s, "the stack sent a malformed IPv6 header");
	c->seg.ecn = ip[1] >> 4 & 3;
	c->seg.dscp = (ip[0] << 2 & 0x3c) | ip[1] >> 6;
	if (ip[6] == 6)
		return read_tcp(s, ip, ip + 40, plen, c);
	if (ip[6] != 58)
		return false;
	if (sum_add(sum_pseudo(true, ip, 58, plen), ip + 40, plen) != 0xffff)
		SC_FAIL(s, "the stack sent a wrong ICMPv6 checksum");
	if (ip[40] == 135 && s->v6 && !s->manual_arp) {
		/* A Neighbor Solicitation for the peer is answered. One for the stack's own
		 * address (DAD) is not. */
		struct weft_ip peer = sc_ip(true, true);

		if (memcmp(ip + 48, peer.b, 16) == 0)
			sc_inject(s, na, sc_frame_na(s, peer.b, ip + 8, na));
		return false;
	}
	if (ip[40] == 129) {
		c->kind = SC_ECHO_REPLY;
		c->echo_len = plen - 8;
		memcpy(c->payload, ip + 48, c->echo_len);
		return true;
	}
	return false;
}

bool
sc_frame_read(struct sc *s, const uint8_t *p, uint32_t len, struct sc_cap *c)
{
	uint16_t type = weft_get_be16(p + 12);

	memset(c, 0, offsetof(struct sc_cap, payload));
	c->at_ns = sim_now_ns(s->sim);
	if (type == 0x0806) {
		uint8_t reply[64];

		c->kind = SC_ARP;
		c->op = weft_get_be16(p + ETH + 6);
		c->spa = weft_get_be32(p + ETH + 14);
		c->tpa = weft_get_be32(p + ETH + 24);
		if (s->manual_arp)
			return c->spa != c->tpa && c->spa != 0; /* not the announcements */
		if (c->op == 1 && c->tpa == sc_peer_v4())
			sc_inject(s, reply, sc_frame_arp(s, 2, sc_peer_v4(), c->spa, reply));
		return false;
	}
	if (memcmp(p + 6, our_mac, 6) != 0)
		SC_FAIL(s, "the stack sent from a strange address");
	if (type == 0x0800)
		return read_v4(s, p + ETH, len - ETH, c);
	if (type == 0x86dd)
		return read_v6(s, p + ETH, len - ETH, c);
	return false;
}
