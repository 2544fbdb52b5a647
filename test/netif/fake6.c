/* SPDX-License-Identifier: BSD-3-Clause */
/** @file IPv6 frames for the simulated port. */

#include <netinet/in.h>

#include "fake.h"

const struct weft_ip fake6_us = {.b = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}};
const struct weft_ip fake6_peer = {.b = {0x20, 0x01, 0x0d, 0xb8, [15] = 2}};
const struct weft_ip fake6_gw = {.b = {0x20, 0x01, 0x0d, 0xb8, [14] = 0xff, 0xfe}};
const struct weft_ip fake6_far = {.b = {0x20, 0x01, 0x0d, 0xb8, 0xff, 0xff, [15] = 7}};
/* The link-local addresses of fake_us_mac and fake_peer_mac (RFC 4291 appendix A). */
const struct weft_ip fake6_us_ll = {.b = {0xfe, 0x80, [11] = 0xff, 0xfe, [15] = 1}};
const struct weft_ip fake6_peer_ll = {.b = {0xfe, 0x80, [11] = 0xff, 0xfe, [15] = 2}};
const struct weft_ip fake6_all = {.b = {0xff, 0x02, [15] = 1}};
const struct weft_ip fake6_none;

struct weft_netif_attr
fake6_attr(struct fake *f)
{
	struct weft_netif_attr a = fake_attr(f);

	a.no_ipv6 = false;
	a.addr6 = fake6_us;
	a.prefix6_len = 64;
	a.gateway6 = fake6_gw;
	return a;
}

void
fake6_start(struct fake *f, const struct weft_netif_attr *attr)
{
	struct weft_netif_attr a = fake6_attr(f);

	fake_start(f, attr != NULL ? attr : &a);
	fake_pass(f, 3 * WEFT_NS_PER_S);
	CHECK_EQ(f->sched.wheel.armed, 0);
	fake_drop(f);
}

uint16_t
fake6_cksum(const uint8_t *frame, uint32_t l4_off, uint8_t proto, uint32_t l4_len)
{
	return fake_cksum(frame + l4_off, l4_len,
	                  (uint16_t)~fake_cksum(frame + 22, 32, proto + l4_len));
}

void
fake6_fix(uint8_t *frame, uint32_t len, uint32_t l4_off, uint8_t proto)
{
	uint32_t at = l4_off + (proto == IPPROTO_TCP ? 16 : proto == IPPROTO_UDP ? 6 : 2);

	if (proto != IPPROTO_TCP && proto != IPPROTO_UDP && proto != IPPROTO_ICMPV6)
		return;
	weft_put_be16(frame + at, 0);
	weft_put_be16(frame + at, fake6_cksum(frame, l4_off, proto, len - l4_off));
}

struct weft_ip
fake6_solicited(const struct weft_ip *ip)
{
	struct weft_ip g = {.b = {0xff, 0x02, [11] = 1, 0xff, ip->b[13], ip->b[14], ip->b[15]}};

	return g;
}

uint32_t
fake6_build(uint8_t *frame, const struct fake6_pkt *p)
{
	const struct weft_ip *src = p->src != NULL ? p->src : &fake6_peer;
	const struct weft_ip *dst = p->dst != NULL ? p->dst : &fake6_us;
	uint8_t proto = p->next != 0 ? p->next : IPPROTO_TCP;
	uint32_t l4h = proto == IPPROTO_TCP ? 20u + p->tcp_opt : 0, l4_off = 54 + p->ext_len;
	uint32_t len = l4_off + l4h + p->data;
	uint8_t *ip = frame + 14, *l4 = frame + l4_off;

	memset(frame, 0, l4_off + l4h);
	memcpy(frame, p->mac_dst != NULL ? p->mac_dst : &fake_us_mac, 6);
	if (dst->b[0] == 0xff && p->mac_dst == NULL) {
		frame[0] = frame[1] = 0x33;
		memcpy(frame + 2, &dst->b[12], 4);
	}
	memcpy(frame + 6, p->mac_src != NULL ? p->mac_src : &fake_peer_mac, 6);
	weft_put_be16(frame + 12, 0x86dd);
	weft_put_be32(ip, 0x60012345 | (uint32_t)p->tclass << 20);
	weft_put_be16(ip + 4, (uint16_t)(len - 54));
	ip[6] = p->ext_len > 0 ? p->first : proto;
	ip[7] = p->hops != 0 ? p->hops : 64;
	memcpy(ip + 8, src->b, 16);
	memcpy(ip + 24, dst->b, 16);
	if (p->ext_len > 0)
		memcpy(ip + 40, p->ext, p->ext_len);
	if (proto == IPPROTO_TCP) {
		weft_put_be16(l4, 5000);
		weft_put_be16(l4 + 2, 6000);
		weft_put_be32(l4 + 4, 0x01020304);
		l4[12] = (uint8_t)(l4h / 4 << 4);
		l4[13] = 0x10;
		memset(l4 + 20, 1, p->tcp_opt);
	}
	for (uint32_t i = 0; i < p->data; i++)
		l4[l4h + i] = p->body != NULL ? p->body[i] : (uint8_t)(i * 7 + 3);
	fake6_fix(frame, len, l4_off, proto);
	return len;
}

uint32_t
fake6_nd(uint8_t *frame, uint8_t type, uint8_t flags, const struct weft_ip *src,
         const struct weft_ip *dst, const struct weft_ip *target,
         const struct rte_ether_addr *lladr)
{
	uint8_t body[32] = {type, 0, 0, 0, flags};

	memcpy(body + 8, target->b, 16);
	body[24] = type == 135 ? 1 : 2;
	body[25] = 1;
	if (lladr != NULL)
		memcpy(body + 26, lladr, 6);
	return fake6_build(frame, &(struct fake6_pkt){.src = src,
	                                              .dst = dst,
	                                              .next = IPPROTO_ICMPV6,
	                                              .hops = 255,
	                                              .body = body,
	                                              .data = lladr != NULL ? 32 : 24,
	                                              .mac_src = lladr});
}
