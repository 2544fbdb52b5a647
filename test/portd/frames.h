/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TEST_PORTD_FRAMES_H
#define TEST_PORTD_FRAMES_H

/** @file Frames, written octet by octet: between us, whose address is shared, and a peer. */

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <rte_ip.h>
#include <rte_tcp.h>

#include <weft/byteorder.h>

#define UNUSED __attribute__((unused))

static const uint8_t our_mac[6] UNUSED = {2, 0, 0, 0, 0, 1};
static const uint8_t peer_mac[6] UNUSED = {2, 0, 0, 0, 0, 2};
static const uint8_t all_mac[6] UNUSED = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
static const uint8_t our4[4] UNUSED = {10, 0, 0, 1}, peer4[4] UNUSED = {10, 0, 0, 2};
static const uint8_t other4[4] UNUSED = {10, 0, 0, 3}, zero4[4] UNUSED;
static const uint8_t our6[16] UNUSED = {0xfd, [15] = 1}, peer6[16] UNUSED = {0xfd, [15] = 2};
static const uint8_t our_ll[16] UNUSED = {0xfe, 0x80, [15] = 1}, zero6[16] UNUSED;

/** A frame that is being written. */
struct w {
	uint8_t b[2048];
	unsigned int n, l3;
};

static inline void
put(struct w *w, const void *p, unsigned int n)
{
	memcpy(w->b + w->n, p, n);
	w->n += n;
}

static inline void
ether(struct w *w, const uint8_t *dst, const uint8_t *src, uint16_t vlan_id, uint16_t type)
{
	uint8_t tag[4] = {0x81, 0};

	w->n = 0;
	put(w, dst, 6);
	put(w, src, 6);
	if (vlan_id != 0) {
		weft_put_be16(tag + 2, vlan_id);
		put(w, tag, 4);
	}
	weft_put_be16(w->b + w->n, type);
	w->n += 2;
	w->l3 = w->n;
}

static inline void
ip4(struct w *w, const uint8_t *src, const uint8_t *dst, uint8_t proto, unsigned int len)
{
	uint8_t h[20] = {0x45, [8] = 64, [9] = proto};

	weft_put_be16(h + 2, (uint16_t)(20 + len));
	memcpy(h + 12, src, 4);
	memcpy(h + 16, dst, 4);
	put(w, h, sizeof(h));
}

static inline void
ip6(struct w *w, const uint8_t *src, const uint8_t *dst, uint8_t next, unsigned int len)
{
	uint8_t h[40] = {0x60, [6] = next, [7] = 64};

	weft_put_be16(h + 4, (uint16_t)len);
	memcpy(h + 8, src, 16);
	memcpy(h + 24, dst, 16);
	put(w, h, sizeof(h));
}

static inline void
tcp(struct w *w, uint16_t sport, uint16_t dport, uint8_t flags, unsigned int data)
{
	uint8_t h[20] = {[12] = 0x50, [13] = flags};

	weft_put_be16(h, sport);
	weft_put_be16(h + 2, dport);
	weft_put_be32(h + 4, 1000);
	weft_put_be32(h + 8, 2000);
	put(w, h, sizeof(h));
	memset(w->b + w->n, 0, data);
	w->n += data;
}

/** Fill in the checksums of a segment over IPv4. */
static inline void
sums4(struct w *w)
{
	struct rte_ipv4_hdr *ip = (void *)(w->b + w->l3);
	struct rte_tcp_hdr *t = (void *)(w->b + w->l3 + 20);

	ip->hdr_checksum = 0;
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	t->cksum = 0;
	t->cksum = rte_ipv4_udptcp_cksum(ip, t);
}

/** A segment over IPv4. */
static inline struct w
seg4(const uint8_t *src, uint16_t sport, const uint8_t *dst, uint16_t dport, bool to_us)
{
	struct w w = {.n = 0};

	ether(&w, to_us ? our_mac : peer_mac, to_us ? peer_mac : our_mac, 0, 0x0800);
	ip4(&w, src, dst, IPPROTO_TCP, 20);
	tcp(&w, sport, dport, 0x10, 0);
	sums4(&w);
	return w;
}

static inline void
arp(struct w *w, const uint8_t *dst, const uint8_t *src, uint8_t op, const uint8_t *spa,
    const uint8_t *tpa)
{
	const uint8_t h[8] = {0, 1, 8, 0, 6, 4, 0, op};

	ether(w, dst, src, 0, 0x0806);
	put(w, h, sizeof(h));
	put(w, src, 6);
	put(w, spa, 4);
	put(w, dst, 6);
	put(w, tpa, 4);
}

static inline void
nd(struct w *w, const uint8_t *dst_mac, const uint8_t *src_mac, uint8_t type, const uint8_t *src,
   const uint8_t *dst, const uint8_t *target)
{
	const uint8_t h[8] = {type};

	ether(w, dst_mac, src_mac, 0, 0x86dd);
	ip6(w, src, dst, IPPROTO_ICMPV6, 24);
	w->b[w->l3 + 7] = 255;
	put(w, h, sizeof(h));
	put(w, target, 16);
}

#endif /* TEST_PORTD_FRAMES_H */
