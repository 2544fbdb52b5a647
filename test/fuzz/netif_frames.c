/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Packets of fuzz_netif. */

#include "netif_cksum.h"
#include "netif_frames.h"

static void
fix_l4(uint8_t *p, size_t len, uint8_t proto, uint32_t pseudo)
{
	uint32_t at = proto == IPPROTO_TCP ? 16 : 2;

	if (len < at + 2)
		return;
	p[at] = p[at + 1] = 0;
	if (proto == IPPROTO_ICMP)
		pseudo = 0;
	{
		uint16_t sum =
		        (uint16_t)~netif_fold((uint64_t)pseudo + netif_sum(p, (uint32_t)len));

		memcpy(p + at, &sum, 2);
	}
}

void
fix_ipv4(uint8_t *p, size_t len, uint8_t how)
{
	static const uint8_t us[4] = {10, 0, 0, 1}, peer[4] = {10, 0, 0, 2};
	static const uint8_t protos[4] = {IPPROTO_TCP, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP};
	uint32_t ihl, src, dst;
	uint16_t sum;

	if (len < 20)
		return;
	if (how & 1)
		p[0] = (uint8_t)(0x40 | (p[0] & 0x0f));
	if (how & 2)
		p[0] = 0x45;
	ihl = (p[0] & 0x0f) * 4u;
	if (how & 4)
		weft_put_be16(p + 2, (uint16_t)len);
	if (how & 8)
		p[6] = p[7] = 0;
	if (how & 16) {
		p[9] = protos[how >> 6];
		memcpy(p + 12, peer, 4);
		memcpy(p + 16, us, 4);
	}
	if (ihl < 20 || ihl > len)
		return;
	memcpy(&src, p + 12, 4);
	memcpy(&dst, p + 16, 4);
	if (how & 32)
		fix_l4(p + ihl, len - ihl, p[9],
		       netif_sum_pseudo(src, dst, p[9], (uint16_t)(len - ihl)));
	p[10] = p[11] = 0;
	sum = (uint16_t)~netif_sum(p, ihl);
	memcpy(p + 10, &sum, 2);
}

void
fix_ipv6(uint8_t *p, size_t len, uint8_t how)
{
	static const uint8_t protos[4] = {IPPROTO_TCP, 58, 58, 0};
	uint8_t pseudo[40] = {0};
	uint8_t proto;

	if (len < 40)
		return;
	if (how & 1)
		p[0] = 0x60 | (p[0] & 0x0f);
	if (how & 4)
		weft_put_be16(p + 4, (uint16_t)(len - 40));
	if (how & 2)
		p[7] = 255;
	if (how & 16) {
		p[6] = protos[how >> 6];
		memcpy(p + 8, ip6_peer, 16);
		memcpy(p + 24, how & 8 ? ip6_ll : ip6_us, 16);
	}
	if ((how & 32) == 0)
		return;
	proto = p[6];
	memcpy(pseudo, p + 8, 32);
	weft_put_be32(pseudo + 32, (uint32_t)(len - 40));
	pseudo[39] = proto;
	fix_l4(p + 40, len - 40, proto == 58 ? 58 : IPPROTO_TCP, netif_sum(pseudo, 40));
}

static uint32_t
put_tcp(uint8_t *p, uint32_t len)
{
	memset(p, 0, 20);
	weft_put_be16(p, 80);
	weft_put_be16(p + 2, 50000);
	weft_put_be32(p + 4, 12345);
	p[12] = 0x50;
	p[13] = 0x10;
	for (uint32_t i = 20; i < len; i++)
		p[i] = (uint8_t)i;
	return len;
}

static uint32_t
put_ip4(uint8_t *p, uint8_t proto, uint32_t len, bool ours)
{
	static const uint8_t us[4] = {10, 0, 0, 1}, peer[4] = {10, 0, 0, 2};

	memset(p, 0, 20);
	p[0] = 0x45;
	weft_put_be16(p + 2, (uint16_t)(20 + len));
	p[8] = 64;
	p[9] = proto;
	memcpy(p + 12, ours ? us : peer, 4);
	memcpy(p + 16, ours ? peer : us, 4);
	return 20 + len;
}

static uint32_t
put_ip6(uint8_t *p, uint8_t next, uint32_t len, bool ours)
{
	memset(p, 0, 40);
	p[0] = 0x60;
	weft_put_be16(p + 4, (uint16_t)len);
	p[6] = next;
	p[7] = 255;
	memcpy(p + 8, ours ? ip6_us : ip6_peer, 16);
	memcpy(p + 24, ours ? ip6_peer : ip6_us, 16);
	return 40 + len;
}

static uint32_t
put_nd(uint8_t *p, uint8_t type, const uint8_t *target)
{
	uint32_t n = put_ip6(p, 58, 32, false);

	memset(p + 40, 0, 32);
	p[40] = type;
	p[44] = type == 136 ? 0x60 : 0;
	memcpy(p + 48, target, 16);
	p[64] = type == 136 ? 2 : 1;
	p[65] = 1;
	memcpy(p + 66, mac_peer, 6);
	return n;
}

uint32_t
sample(uint8_t *p, uint8_t kind, uint8_t v, uint16_t *type)
{
	static const uint8_t arp[8] = {0, 1, 8, 0, 6, 4, 0, 1}, us[4] = {10, 0, 0, 1};
	static const uint8_t all_nodes[16] = {0xff, 2, [15] = 1};
	uint32_t n, text = v * 5u;

	*type = RTE_ETHER_TYPE_IPV6;
	switch (kind % 14) {
	case 0:
	case 1:
		*type = RTE_ETHER_TYPE_ARP;
		memset(p, 0, 28);
		memcpy(p, arp, 8);
		p[7] = 1 + kind % 14;
		memcpy(p + 8, mac_peer, 6);
		memcpy(p + 14, us, 4);
		p[17] = v;
		memcpy(p + 18, mac_us, 6);
		memcpy(p + 24, us, 4);
		return 28;
	case 2:
		*type = RTE_ETHER_TYPE_IPV4;
		return put_ip4(p, IPPROTO_TCP, put_tcp(p + 20, 20 + text), false);
	case 3:
		return put_ip6(p, IPPROTO_TCP, put_tcp(p + 40, 20 + text), false);
	case 4: /* echo */
		*type = RTE_ETHER_TYPE_IPV4;
		n = put_ip4(p, IPPROTO_ICMP, 8 + text, false);
		memset(p + 20, 0, 8 + text);
		p[20] = 8;
		return n;
	case 5:
		n = put_ip6(p, 58, 8 + text, false);
		memset(p + 40, 0, 8 + text);
		p[40] = 128;
		return n;
	case 6: /* fragmentation needed, or another error about a segment of ours */
		*type = RTE_ETHER_TYPE_IPV4;
		n = put_ip4(p, IPPROTO_ICMP, 8 + put_ip4(p + 28, IPPROTO_TCP, 1000, true), false);
		put_tcp(p + 48, 28);
		memset(p + 20, 0, 8);
		p[20] = v & 1 ? 11 : 3;
		p[21] = v & 1 ? 0 : 4 - (v >> 1 & 3);
		weft_put_be16(p + 26, (uint16_t)(v * 6));
		weft_put_be16(p + 2, 20 + 8 + 48);
		return n - 972 < 76 ? n - 972 : 76;
	case 7: /* packet too big */
		n = put_ip6(p, 58, 8 + 40 + 28, false);
		put_ip6(p + 48, IPPROTO_TCP, 1000, true);
		put_tcp(p + 88, 28);
		memset(p + 40, 0, 8);
		p[40] = 1 + (v & 3);
		weft_put_be32(p + 44, 1000 + v * 4u);
		return n;
	case 8:
		return put_nd(p, 135, v & 1 ? ip6_ll : ip6_us);
	case 9:
		n = put_nd(p, 136, ip6_peer);
		p[63] = v;
		return n;
	case 10: /* duplicate address detection by another host for our address */
		n = put_nd(p, 135, v & 1 ? ip6_ll : ip6_us);
		memset(p + 8, 0, 16);
		memcpy(p + 24, "\xff\x02\0\0\0\0\0\0\0\0\0\1\xff\0\0\1", 16);
		weft_put_be16(p + 4, 24);
		return n - 8;
	case 11: /* multicast listener query behind a router alert */
		n = put_ip6(p, 0, 8 + 24 + (v & 1 ? 4 : 0), false);
		p[7] = 1;
		memcpy(p + 8, ip6_ll_peer, 16);
		memcpy(p + 24, all_nodes, 16);
		memcpy(p + 40, "\x3a\0\5\2\0\0\1\0", 8);
		memset(p + 48, 0, 28);
		p[48] = 130;
		weft_put_be16(p + 52, v * 100);
		return n;
	case 12: { /* extension headers: what v says, up to four of them */
		uint8_t *next = p + 6;

		put_ip6(p, IPPROTO_TCP, 0, false);
		for (n = 40; v != 0 && n < 72; v >>= 2, n += 8) {
			static const uint8_t kinds[4] = {0, 60, 44, 43};

			*next = kinds[v & 3];
			memset(p + n, 0, 8);
			next = p + n;
			*next = IPPROTO_TCP;
			if ((v & 3) < 2)
				memcpy(p + n + 1, "\0\1\4", 3);
		}
		n += put_tcp(p + n, 40);
		weft_put_be16(p + 4, (uint16_t)(n - 40));
		return n;
	}
	default: /* router advertisement, redirect, solicitation */
		n = put_nd(p, 133 + (v & 7), ip6_us);
		memcpy(p + 8, ip6_ll_peer, 16);
		return n;
	}
}

void
spoil(struct fuzz_in *in, uint8_t *p, uint32_t len, uint16_t type, uint8_t how)
{
	uint8_t pseudo[40] = {0};
	uint32_t off = 40;

	for (unsigned int i = 0; i < (how & 7u); i++) {
		uint32_t at = fuzz_u8(in);

		if (at < len)
			p[at] = fuzz_u8(in);
	}
	if (how & 8 || type == RTE_ETHER_TYPE_ARP)
		return;
	if (type == RTE_ETHER_TYPE_IPV4) {
		fix_ipv4(p, len, 32);
		return;
	}
	pseudo[39] = p[6];
	for (unsigned int i = 0; i < 4 && off + 8 <= len; i++) {
		if (pseudo[39] != 0 && pseudo[39] != 60 && pseudo[39] != 43 && pseudo[39] != 44)
			break;
		pseudo[39] = p[off];
		off += 8;
	}
	memcpy(pseudo, p + 8, 32);
	weft_put_be32(pseudo + 32, len - off);
	fix_l4(p + off, len - off, pseudo[39] == 58 ? 58 : IPPROTO_TCP, netif_sum(pseudo, 40));
}
