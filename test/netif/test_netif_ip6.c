/* SPDX-License-Identifier: BSD-3-Clause */
/** @file IPv6 (RFC 8200) and ICMPv6 (RFC 4443): packets that are handed up, refused, answered
 * and sent. */

#include <rte_ethdev.h>
#include <rte_ip.h>

#include "fake.h"
#include "weft_netif.h"
#include "weft_netif_addr.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_neigh.h"
#include "weft_netif_stats.h"
#include "weft_netif_tx.h"

static struct fake f;
static uint8_t frame[FAKE_FRAME * 2], other[FAKE_FRAME * 8];

static uint64_t
refused(void)
{
	const struct weft_netif_stats *s = weft_netif_stats(f.nif);

	return s->rx_bad_ether + s->rx_vlan + s->rx_bad_ip + s->rx_cut + s->rx_bad_ext +
	       s->rx_bad_ip_cksum + s->rx_fragment + s->rx_not_ours + s->rx_bad_tcp_cksum +
	       s->rx_bad_proto + s->rx_no_mbuf + s->icmp_bad + s->nd_bad;
}

/* Deliver a frame. Returns whether a TCP segment was handed up. If not, exactly one counter must
 * have risen. */
static bool
deliver(uint32_t len, enum fake_how how, uint32_t arg)
{
	uint64_t before = refused();
	bool up;

	fake_drop(&f);
	fake_rx(&f, frame, len, how, arg);
	fake_poll(&f);
	up = f.nup == 1;
	CHECK_EQ(refused() - before, !up);
	return up;
}

#define CHECK_REFUSED(counter, len)                                                                \
	do {                                                                                       \
		uint64_t c_ = weft_netif_stats(f.nif)->counter;                                    \
		CHECK(!deliver((len), FAKE_FLAT, 0));                                              \
		CHECK(!deliver((len), FAKE_EXTBUF, 0));                                            \
		CHECK(!deliver((len), FAKE_CHAIN, 17));                                            \
		CHECK_EQ(weft_netif_stats(f.nif)->counter, c_ + 3);                                \
	} while (0)

static void
check_up(uint32_t l4_off, uint32_t l4_len)
{
	struct rte_mbuf *m = f.up[0];
	const struct weft_mbuf_priv *priv = weft_mbuf_priv(m);

	CHECK_EQ(m->pkt_len, l4_len);
	CHECK_MEM(rte_pktmbuf_read(m, 0, l4_len, other), frame + l4_off, l4_len);
	CHECK_MEM(priv->rx.src.b, frame + 22, 16);
	CHECK_MEM(priv->rx.dst.b, frame + 38, 16);
	CHECK_EQ(priv->rx.ecn, weft_get_be16(frame + 14) >> 4 & 3);
}

static void
test_good(void)
{
	static const uint32_t sizes[] = {0, 1, 2, 7, 63, 1219, 1439, 1440};
	static const struct weft_ip *pairs[][2] = {
	        {&fake6_peer, &fake6_us},
	        {&fake6_far, &fake6_us},
	        {&fake6_peer_ll, &fake6_us_ll},
	        {&fake6_peer_ll, &fake6_us}, /* RFC 4291 s2.5.6: the destination is on the link */
	};

	fake6_start(&f, NULL);
	for (unsigned int i = 0; i < RTE_DIM(sizes); i++)
		for (unsigned int k = 0; k < RTE_DIM(pairs); k++)
			for (unsigned int opt = 0; opt <= 40; opt += 20)
				for (enum fake_how how = FAKE_FLAT; how <= FAKE_FOREIGN; how++) {
					uint32_t len = fake6_build(
					        frame,
					        &(struct fake6_pkt){.src = pairs[k][0],
					                            .dst = pairs[k][1],
					                            .tclass = (uint8_t)(opt + i),
					                            .tcp_opt = (uint8_t)opt,
					                            .data = sizes[i]});

					memset(frame + len, 0xa5, 9); /* padding */
					CHECK(deliver(len + 9, how, 61 + i));
					check_up(54, len - 54);
				}
	/* RFC 8200 s3: a destination does not discard for a hop limit of 0. */
	uint32_t len = fake6_build(frame, &(struct fake6_pkt){.data = 5});

	frame[21] = 0;
	CHECK(deliver(len, FAKE_FLAT, 0));
	fake_stop(&f);
}

/* Headers split at every octet (RFC 8200 s4: any number of extension headers may come first). */
static void
test_chains(void)
{
	static const uint8_t ext[] = {43, 1, 1, 4, 0, 0, 0, 0,
	                              1,  6, 0, 0, 0, 0, 0, 0,  /* dst opts */
	                              6,  0, 9, 0, 0, 0, 0, 0}; /* routing, no segments left */
	uint32_t len;

	fake6_start(&f, NULL);
	len = fake6_build(frame, &(struct fake6_pkt){.data = 301, .tcp_opt = 12});
	for (uint32_t piece = 1; piece <= len; piece++) {
		CHECK(deliver(len, FAKE_CHAIN, piece));
		check_up(54, len - 54);
	}
	len = fake6_build(frame, &(struct fake6_pkt){.first = 60,
	                                             .ext = ext,
	                                             .ext_len = sizeof(ext),
	                                             .data = 301,
	                                             .tcp_opt = 12});
	for (uint32_t piece = 1; piece <= len; piece++) {
		CHECK(deliver(len, FAKE_CHAIN, piece));
		check_up(54 + sizeof(ext), len - 54 - sizeof(ext));
	}
	/* RFC 3168 s5: for every traffic class, and the flow label next to it. */
	for (unsigned int tclass = 0; tclass < 256; tclass++) {
		uint32_t n = fake6_build(frame, &(struct fake6_pkt){.first = 60,
		                                                    .ext = ext,
		                                                    .ext_len = sizeof(ext),
		                                                    .tclass = (uint8_t)tclass});

		frame[15] |= tclass & 4 ? 0x0f : 0;
		CHECK(deliver(n, FAKE_FLAT, 0));
		check_up(54 + sizeof(ext), n - 54 - sizeof(ext));
		CHECK_EQ(weft_mbuf_priv(f.up[0])->rx.ecn, tclass & 3);
	}
	len = fake6_build(frame, &(struct fake6_pkt){.first = 60,
	                                             .ext = ext,
	                                             .ext_len = sizeof(ext),
	                                             .data = 301,
	                                             .tcp_opt = 12});
	/* Truncated at every octet: never handed up, and one counter rises. */
	for (uint32_t n = 0; n < len; n++) {
		CHECK(!deliver(n, FAKE_EXTBUF, 0));
		CHECK(!deliver(n, FAKE_CHAIN, 5));
	}
	/* The same with a payload length that matches. */
	for (uint32_t n = 54; n < 54 + sizeof(ext) + 20; n++) {
		weft_put_be16(frame + 18, (uint16_t)(n - 54));
		CHECK(!deliver(n, FAKE_EXTBUF, 0));
		CHECK(!deliver(n, FAKE_CHAIN, 5));
	}
	fake_stop(&f);
}

static void
test_bits(void)
{
	uint32_t len;

	fake6_start(&f, NULL);
	len = fake6_build(frame, &(struct fake6_pkt){.data = 21, .tcp_opt = 4});
	for (uint32_t bit = 14 * 8; bit < len * 8; bit++) {
		frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
		/* Traffic class, flow label and hop limit are not protected, so a change is not
		 * detected. */
		bool free = (bit / 8 == 14 && bit % 8 < 4) || (bit / 8 > 14 && bit / 8 < 18) ||
		            bit / 8 == 21;

		for (unsigned int how = 0; how < 2; how++) {
			fake_drop(&f);
			fake_rx(&f, frame, len, how != 0 ? FAKE_CHAIN : FAKE_EXTBUF, 33);
			fake_poll(&f);
			CHECK_EQ(f.nup, free);
		}
		frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	frame[len - 1] ^= 4;
	CHECK_REFUSED(rx_bad_tcp_cksum, len);
	frame[len - 1] ^= 4;
	frame[14] = 0x50;
	CHECK_REFUSED(rx_bad_ip, len);
	frame[14] = 0x60;
	weft_put_be16(frame + 18, (uint16_t)(len - 54 + 1));
	CHECK_REFUSED(rx_cut, len);
	fake_stop(&f);
}

static void
test_addresses(void)
{
	static const struct weft_ip loopback = {.b = {[15] = 1}},
	                            mapped = {.b = {[10] = 0xff, 0xff, 10, 0, 0, 2}},
	                            mapped_us = {.b = {[10] = 0xff, 0xff, 10, 0, 0, 1}},
	                            mdns = {.b = {0xff, 0x02, [15] = 0xfb}};
	const struct weft_ip *dst[] = {&fake6_peer, &fake6_none,    &loopback,
	                               &mapped_us,  &fake6_peer_ll, &mdns};
	const struct weft_ip *src[] = {&loopback,  &mapped, &fake6_us,  &fake6_us_ll,
	                               &fake6_all, &mdns,   &fake6_none};
	struct weft_ip group = fake6_solicited(&fake6_us);
	uint32_t len;

	fake6_start(&f, NULL);
	for (unsigned int i = 0; i < RTE_DIM(dst); i++) {
		len = fake6_build(
		        frame,
		        &(struct fake6_pkt){.dst = dst[i], .mac_dst = &fake_us_mac, .data = 9});
		CHECK_REFUSED(rx_not_ours, len);
	}
	for (unsigned int i = 0; i < RTE_DIM(src); i++) {
		len = fake6_build(frame, &(struct fake6_pkt){.src = src[i], .data = 9});
		CHECK_REFUSED(rx_not_ours, len);
	}
	/* TCP to a multicast address, or to us in a multicast frame (RFC 9293 MUST-57). */
	len = fake6_build(frame, &(struct fake6_pkt){.dst = &fake6_all, .data = 9});
	CHECK_REFUSED(rx_not_ours, len);
	len = fake6_build(frame, &(struct fake6_pkt){.dst = &group, .data = 9});
	CHECK_REFUSED(rx_not_ours, len);
	len = fake6_build(frame, &(struct fake6_pkt){.data = 9});
	memcpy(frame, "\x33\x33\0\0\0\1", 6);
	CHECK_REFUSED(rx_not_ours, len);
	memcpy(frame, "\x33\x33\0\0\0\xfb", 6); /* a group to which we do not belong */
	CHECK_REFUSED(rx_not_ours, len);
	memcpy(frame, &fake_all_mac, 6);
	CHECK_REFUSED(rx_not_ours, len);
	CHECK_EQ(f.ntx, 0);
	fake_stop(&f);
}

/* ---- Extension headers: whether each is accepted, and the error its sender gets ---- */

#define PASS                                                                                       \
	{                                                                                          \
		.up = true                                                                         \
	}
#define SILENT                                                                                     \
	{                                                                                          \
		0                                                                                  \
	}
#define TELL(code_, at_)                                                                           \
	{                                                                                          \
		.type = 4, .code = (code_), .param = 40 + (at_)                                    \
	}

struct ext_case {
	const char *name; /* section of RFC 8200 unless it says otherwise */
	uint8_t first, len;
	uint8_t ext[32];
	struct {
		bool up;
		uint8_t type, code;
		uint32_t param;
	} then;
	uint64_t (*count)(const struct weft_netif_stats *s);
	struct {
		uint8_t type, code;
		uint32_t param;
	} group; /* the error for a packet to a multicast address */
};

static uint64_t
bad_ext(const struct weft_netif_stats *s)
{
	return s->rx_bad_ext;
}

static uint64_t
fragment(const struct weft_netif_stats *s)
{
	return s->rx_fragment;
}

static uint64_t
bad_proto(const struct weft_netif_stats *s)
{
	return s->rx_bad_proto;
}

/* clang-format off */
static const struct ext_case ext_cases[] = {
	{"4.3 hop-by-hop, padding", 0, 8, {6, 0, 1, 4}, PASS, NULL, {0}},
	{"4.3 hop-by-hop, Pad1 only", 0, 8, {6, 0}, PASS, NULL, {0}},
	{"4.3 hop-by-hop, RFC 2711 router alert", 0, 8, {6, 0, 5, 2, 0, 0, 1, 0}, PASS, NULL, {0}},
	{"4.6 destination options of two units", 60, 16, {6, 1, 1, 12}, PASS, NULL, {0}},
	{"4.2 action 00: skip", 60, 8, {6, 0, 0x1e, 4, 1, 2, 3, 4}, PASS, NULL, {0}},
	{"4.2 action 01: discard", 60, 8, {6, 0, 0x5e, 4, 1, 2, 3, 4}, SILENT, bad_ext, {0}},
	{"4.2 action 10: tell", 60, 8, {6, 0, 0x9e, 4, 1, 2, 3, 4},
	 TELL(2, 2), bad_ext, {4, 2, 42}},
	{"4.2 action 11: tell one", 0, 8, {6, 0, 0, 0xde, 3, 1, 2, 3}, TELL(2, 3), bad_ext, {0}},
	{"4.2 option beyond its header", 60, 8, {6, 0, 0x1e, 5, 1, 2, 3, 4},
	 TELL(0, 2), bad_ext, {0}},
	{"4.2 option without a length", 60, 8, {6, 0, 1, 3, 0, 0, 0, 0x1e},
	 TELL(0, 7), bad_ext, {0}},
	{"4.1 hop-by-hop not first", 60, 16, {0, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4},
	 TELL(1, 0), bad_ext, {0}},
	{"4.1 hop-by-hop twice", 0, 16, {0, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4},
	 TELL(1, 0), bad_ext, {0}},
	{"4.4 unknown routing, none left", 43, 8, {6, 0, 253, 0}, PASS, NULL, {0}},
	{"4.4 unknown routing, one left", 43, 8, {6, 0, 253, 1}, TELL(0, 2), bad_ext, {0}},
	{"RFC 5095 s3 type 0, none left", 43, 8, {6, 0, 0, 0}, PASS, NULL, {0}},
	{"RFC 5095 s3 type 0, one left", 43, 24, {6, 2, 0, 1}, TELL(0, 2), bad_ext, {0}},
	{"4.5 first fragment", 44, 8, {6, 0, 0, 1, 1, 2, 3, 4}, SILENT, fragment, {0}},
	{"4.5 last fragment", 44, 8, {6, 0, 0x10, 0, 1, 2, 3, 4}, SILENT, fragment, {0}},
	{"RFC 6946 s4 atomic fragment", 44, 8, {6, 0, 0, 0, 1, 2, 3, 4}, PASS, NULL, {0}},
	{"4.7 no next header", 59, 8, {0}, SILENT, bad_proto, {0}},
	{"4 authentication header", 51, 16, {6, 2},
	 {.type = 4, .code = 1, .param = 6}, bad_proto, {0}},
	{"4 unknown behind options", 60, 8, {200, 0, 1, 4}, TELL(1, 0), bad_proto, {0}},
};
/* clang-format on */

static void
check_error(uint8_t type, uint8_t code, uint32_t param, uint32_t len, const struct weft_ip *from)
{
	uint32_t quoted = RTE_MIN(len - 14, 1280u - 48);

	CHECK_EQ(f.ntx, 1);
	CHECK_EQ(fake_sent(&f, 0, other), 14 + 40 + 8 + quoted);
	CHECK_MEM(other, &fake_peer_mac, 6);
	CHECK_MEM(other + 6, &fake_us_mac, 6);
	CHECK_EQ(other[14] >> 4, 6);
	CHECK_EQ(other[20], IPPROTO_ICMPV6);
	CHECK_MEM(other + 22, from->b, 16);
	CHECK_MEM(other + 38, frame + 22, 16);
	CHECK_EQ(other[54], type);
	CHECK_EQ(other[55], code);
	CHECK_EQ(weft_get_be32(other + 58), param);
	CHECK_MEM(other + 62, frame + 14, quoted);
	CHECK_EQ(fake6_cksum(other, 54, IPPROTO_ICMPV6, 8 + quoted), 0);
}

static void
test_ext(void)
{
	fake6_start(&f, NULL);
	for (unsigned int i = 0; i < RTE_DIM(ext_cases); i++) {
		const struct ext_case *c = &ext_cases[i];
		struct fake6_pkt p = {
		        .first = c->first, .ext = c->ext, .ext_len = c->len, .data = 99};
		uint64_t before = c->count != NULL ? c->count(weft_netif_stats(f.nif)) : 0;
		uint32_t len = fake6_build(frame, &p);

		for (enum fake_how how = FAKE_FLAT; how <= FAKE_FOREIGN; how++) {
			fake_pass(&f,
			          /* the limit of errors has a test of its own */
			          10 * WEFT_NS_PER_S);
			CHECK_MSG(deliver(len, how, 7) == c->then.up, "%s", c->name);
			if (c->then.up)
				check_up(54 + c->len, len - 54 - c->len);
			if (c->then.type != 0)
				check_error(c->then.type, c->then.code, c->then.param, len,
				            &fake6_us);
			else
				CHECK_MSG(f.ntx == 0, "%s", c->name);
			if (c->count != NULL)
				CHECK_EQ(c->count(weft_netif_stats(f.nif)), ++before);
		}
		p.dst = &fake6_all;
		len = fake6_build(frame, &p);
		CHECK(!deliver(len, FAKE_FLAT, 0));
		if (c->group.type != 0) /* RFC 4443 s2.4 (e.3) */
			check_error(c->group.type, c->group.code, c->group.param, len, &fake6_us);
		else
			CHECK_MSG(f.ntx == 0, "%s", c->name);
	}
	fake_stop(&f);
}

/* More headers than any sender needs cost a limited effort (RFC 8504 s5.3). */
static void
test_ext_bound(void)
{
	static uint8_t ext[1400];

	fake6_start(&f, NULL);
	for (uint32_t n = 8; n <= 1200; n += 8) {
		uint32_t len;

		for (uint32_t i = 0; i < n; i += 8)
			memcpy(ext + i, "\x3c\0\1\4\0\0\0\0", 8);
		ext[n - 8] = 6;
		len = fake6_build(frame, &(struct fake6_pkt){
		                                 .first = 60, .ext = ext, .ext_len = n, .data = 9});
		CHECK_EQ(deliver(len, FAKE_FLAT, 0), n <= 256);
		CHECK_EQ(deliver(len, FAKE_CHAIN, 3), n <= 256);
	}
	CHECK_EQ(weft_netif_stats(f.nif)->rx_bad_ext, 2 * (150 - 32));
	fake_stop(&f);
}

static void
test_mutated(void)
{
	static const uint8_t ext[] = {43, 0, 1, 4, 0, 0, 0, 0, 44, 0, 9, 0,
	                              0,  0, 0, 0, 6, 0, 0, 0, 1,  2, 3, 4};
	uint64_t rng = test_seed(0x6eed) | 1;

	fake6_start(&f, NULL);
	for (unsigned int i = 0; i < 60000; i++) {
		static const uint8_t protos[] = {IPPROTO_TCP, IPPROTO_ICMPV6, IPPROTO_UDP};
		uint8_t proto = protos[i % 3];
		struct fake6_pkt p = {.next = proto, .data = 8 + i % 90};
		unsigned int n = 1 + i % 4;
		uint32_t len, l4 = 54;

		if (i % 2 != 0 && proto == IPPROTO_TCP) {
			p.first = 60;
			p.ext = ext;
			p.ext_len = sizeof(ext);
			l4 += sizeof(ext);
		}
		len = i % 5 == 4 ? fake6_nd(frame, 135 + i / 5 % 2, 0x60, &fake6_peer, &fake6_us,
		                            i % 2 != 0 ? &fake6_us : &fake6_peer, &fake_peer_mac)
		                 : fake6_build(frame, &p);
		while (n-- > 0) {
			rng ^= rng << 13;
			rng ^= rng >> 7;
			rng ^= rng << 17;
			frame[14 + (rng >> 8) % (RTE_MIN(len, i % 2 ? 90u : len) - 14)] =
			        (uint8_t)(rng >> 32);
		}
		fake6_fix(frame, len, l4, i % 5 == 4 ? IPPROTO_ICMPV6 : proto);
		fake_rx(&f, frame, len, i % 7 == 0 ? FAKE_CHAIN : FAKE_EXTBUF, 1 + i % 50);
		if (i % 16 == 0) {
			fake_poll(&f);
			fake_drop(&f);
		}
	}
	fake_poll(&f);
	fake_pass(&f, 5 * WEFT_NS_PER_S);
	fake_stop(&f);
}

/* The port's checksum flags count only where the offload is in use. */
static void
test_offload(void)
{
	static const struct {
		bool asked, intact, proved;
		uint64_t flags;
		bool up;
	} t[] = {
	        {false, true, false, 0, true},
	        {false, true, false, RTE_MBUF_F_RX_L4_CKSUM_BAD, true},
	        {false, false, false, 0, false},
	        {false, false, false, RTE_MBUF_F_RX_L4_CKSUM_GOOD, false},
	        {true, true, false, 0, true},
	        {true, false, false, RTE_MBUF_F_RX_L4_CKSUM_BAD, false},
	        {true, true, true, RTE_MBUF_F_RX_L4_CKSUM_BAD, true},
	        {true, false, true, 0, false},
	        {true, false, false, RTE_MBUF_F_RX_L4_CKSUM_GOOD, false},
	        {true, false, true, RTE_MBUF_F_RX_L4_CKSUM_GOOD, true},
	        {true, true, false, RTE_MBUF_F_RX_L4_CKSUM_NONE, true},
	};

	fake_hw = false;
	for (unsigned int i = 0; i < RTE_DIM(t); i++) {
		struct weft_netif_attr a = fake6_attr(&f);
		uint32_t len;

		a.rx_offloads = t[i].asked ? RTE_ETH_RX_OFFLOAD_TCP_CKSUM : 0;
		fake6_start(&f, &a);
		len = fake6_build(frame, &(struct fake6_pkt){.data = 10});
		/* The first segments of a queue are checked in any case. */
		for (unsigned int k = 0; t[i].proved && k < 4096; k++) {
			fake_rx(&f, frame, len, FAKE_FLAT, 0)->ol_flags |=
			        RTE_MBUF_F_RX_L4_CKSUM_GOOD;
			fake_poll(&f);
			fake_drop(&f);
		}
		if (!t[i].intact)
			frame[len - 1] ^= 1;
		fake_rx(&f, frame, len, FAKE_FLAT, 0)->ol_flags |= t[i].flags;
		fake_poll(&f);
		CHECK_EQ(f.nup, t[i].up);
		CHECK_EQ(weft_netif_stats(f.nif)->rx_bad_tcp_cksum, !t[i].up);
		fake_stop(&f);
	}
}

/* ---- ICMPv6 ---- */

static uint32_t
build_icmp(uint8_t type, uint8_t code, uint32_t word, const void *rest, uint32_t n,
           const struct weft_ip *src, const struct weft_ip *dst)
{
	static uint8_t body[FAKE_FRAME];

	memset(body, 0, 8);
	body[0] = type;
	body[1] = code;
	weft_put_be32(body + 4, word);
	memcpy(body + 8, rest, n);
	return fake6_build(frame, &(struct fake6_pkt){.src = src,
	                                              .dst = dst,
	                                              .next = IPPROTO_ICMPV6,
	                                              .body = body,
	                                              .data = 8 + n});
}

/* RFC 4443 s4.2 */
static void
test_echo(void)
{
	static uint8_t data[1500];
	const struct weft_ip *from[] = {&fake6_us, &fake6_us_ll, &fake6_us};
	const struct weft_ip *src[] = {&fake6_far, &fake6_peer_ll, &fake6_peer};
	const struct weft_ip *dst[] = {&fake6_us, &fake6_us_ll, &fake6_all};
	uint64_t bad;
	uint32_t len;

	fake6_start(&f, NULL);
	for (unsigned int i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 3);
	for (uint32_t n = 0; n <= 1452; n += n < 40 ? 1 : 61)
		for (unsigned int k = 0; k < RTE_DIM(src); k++)
			for (enum fake_how how = FAKE_FLAT; how <= FAKE_FOREIGN; how++) {
				len = build_icmp(128, 0, 0x11110007, data, n, src[k], dst[k]);
				memset(frame + len, 0xee, 9);
				fake_drop(&f);
				fake_rx(&f, frame, len + 9, how, 37);
				fake_poll(&f);
				CHECK_EQ(f.ntx, 1);
				CHECK_EQ(fake_sent(&f, 0, other), len);
				CHECK_MEM(other, &fake_peer_mac, 6);
				CHECK_MEM(other + 22, from[k]->b, 16);
				CHECK_MEM(other + 38, src[k]->b, 16);
				CHECK_EQ(other[54], 129);
				CHECK_MEM(other + 58, frame + 58, len - 58);
				CHECK_EQ(fake6_cksum(other, 54, IPPROTO_ICMPV6, len - 54), 0);
			}
	fake_drop(&f);
	bad = weft_netif_stats(f.nif)->icmp_bad;
	len = build_icmp(128, 0, 7, data, 20, &fake6_peer, &fake6_us);
	frame[len - 1] ^= 1;
	CHECK_REFUSED(icmp_bad, len);
	len = build_icmp(128, 1, 7, data, 20, &fake6_peer, &fake6_us);
	CHECK_REFUSED(icmp_bad, len);
	CHECK_EQ(weft_netif_stats(f.nif)->icmp_bad, bad + 6);
	len = build_icmp(128, 0, 7, data, 20, &fake6_none, &fake6_us);
	CHECK_REFUSED(rx_not_ours, len);
	/* s2.4 (b): unknown informational messages and replies are dropped silently */
	for (unsigned int type = 129; type < 256; type += 9) {
		uint64_t before = refused();

		if ((type >= 133 && type <= 137) || type == 130)
			continue;
		len = build_icmp((uint8_t)type, 0, 7, data, 20, &fake6_peer, &fake6_us);
		fake_drop(&f);
		fake_rx(&f, frame, len, FAKE_FLAT, 0);
		fake_poll(&f);
		CHECK_EQ(refused(), before);
		CHECK_EQ(f.ntx, 0);
	}
	fake_stop(&f);
}

static void
test_errors(void)
{
	static const struct {
		uint8_t type, code;
		uint32_t word;
		int kind; /* -1: refused */
		uint16_t mtu;
	} t[] = {
	        {1, 0, 0, WEFT_ICMP_SOFT, 0}, /* RFC 4443 s3.1; RFC 5461 s2.2 */
	        {1, 1, 0, WEFT_ICMP_SOFT, 0},
	        {1, 3, 0, WEFT_ICMP_SOFT, 0},
	        {1, 4, 0, WEFT_ICMP_HARD, 0},
	        {2, 0, 1280, WEFT_ICMP_TOO_BIG, 1280},
	        {2, 0, 1400, WEFT_ICMP_TOO_BIG, 1400},
	        {2, 0, 1279, -1, 0}, /* RFC 8201 s4 */
	        {2, 0, 0, -1, 0},
	        {2, 0, 0x10005dc, WEFT_ICMP_TOO_BIG, 65535},
	        {3, 0, 0, WEFT_ICMP_SOFT, 0},
	        {4, 0, 40, WEFT_ICMP_SOFT, 0},
	        {4, 1, 6, WEFT_ICMP_HARD, 0},
	};
	static uint8_t ours[FAKE_FRAME];
	uint32_t len;

	fake6_start(&f, NULL);
	fake6_build(ours, &(struct fake6_pkt){.src = &fake6_us, .dst = &fake6_far, .data = 100});
	for (unsigned int i = 0; i < RTE_DIM(t); i++)
		for (uint32_t quote = 0; quote < 120; quote++) {
			unsigned int n = f.unreachable.n;
			bool told = t[i].kind >= 0 && quote >= 48;

			len = build_icmp(t[i].type, t[i].code, t[i].word, ours + 14, quote,
			                 &fake6_gw, &fake6_us);
			fake_rx(&f, frame, len, FAKE_EXTBUF, 0);
			fake_rx(&f, frame, len, FAKE_CHAIN, 3 + quote);
			fake_poll(&f);
			CHECK_EQ(f.unreachable.n - n, told ? 2 : 0);
			if (!told)
				continue;
			CHECK(weft_ip_eq(&f.unreachable.dst, &fake6_far));
			CHECK(weft_ip_eq(&f.unreachable.src, &fake6_us));
			CHECK_EQ(f.unreachable.src_port, 5000);
			CHECK_EQ(f.unreachable.dst_port, 6000);
			CHECK_EQ(f.unreachable.seq, 0x01020304);
			CHECK_EQ(f.unreachable.kind, t[i].kind);
			CHECK_EQ(f.unreachable.mtu_bytes, t[i].mtu);
		}
	f.unreachable.n = 0;
	/* About a packet that we never sent, of another protocol, or not IPv6. */
	len = build_icmp(1, 0, 0, frame + 14, 100, &fake6_gw, &fake6_us);
	CHECK_REFUSED(icmp_bad, len);
	ours[14] = 0x45;
	len = build_icmp(1, 0, 0, ours + 14, 100, &fake6_gw, &fake6_us);
	CHECK_REFUSED(icmp_bad, len);
	ours[14] = 0x60;
	ours[20] = IPPROTO_UDP;
	len = build_icmp(1, 0, 0, ours + 14, 100, &fake6_gw, &fake6_us);
	fake_rx(&f, frame, len, FAKE_FLAT, 0);
	fake_poll(&f);
	CHECK_EQ(f.unreachable.n, 0);
	fake_stop(&f);
}

/* RFC 4443 s3.1 (port unreachable), s2.4 (f) (rate) */
static void
test_unwanted(void)
{
	unsigned int sent;
	uint32_t len;

	fake6_start(&f, NULL);
	for (uint32_t data = 8; data <= 1440; data += 179) {
		fake_pass(&f, 3 * WEFT_NS_PER_S);
		len = fake6_build(frame, &(struct fake6_pkt){.next = IPPROTO_UDP, .data = data});
		CHECK(!deliver(len, FAKE_CHAIN, 400));
		check_error(1, 4, 0, len, &fake6_us);
		len = fake6_build(frame, &(struct fake6_pkt){.next = 132, .data = data});
		CHECK(!deliver(len, FAKE_FLAT, 0));
		check_error(4, 1, 6, len, &fake6_us);
	}
	/* A flood is answered about ten times a second, in periods of a second. Answers that
	 * were not sent are counted. */
	fake_pass(&f, 3 * WEFT_NS_PER_S);
	fake_drop(&f);
	len = fake6_build(frame, &(struct fake6_pkt){.next = IPPROTO_UDP, .data = 8});
	for (unsigned int i = 0; i < 1000; i++)
		fake_rx(&f, frame, len, FAKE_FLAT, 0);
	fake_poll(&f);
	CHECK(f.ntx >= 5 && f.ntx < 15);
	CHECK_EQ(weft_netif_stats(f.nif)->icmp_limited, 1000 - f.ntx);
	for (sent = 0; sent < 50; sent++) {
		fake_pass(&f, 100 * WEFT_NS_PER_MS);
		fake_rx(&f, frame, len, FAKE_FLAT, 0);
		fake_rx(&f, frame, len, FAKE_FLAT, 0);
	}
	fake_poll(&f);
	CHECK(f.ntx >= 30 && f.ntx <= 85);
	fake_stop(&f);
}

/* ---- Transmit ---- */

static void
test_tx(void)
{
	struct weft_neigh *n;
	uint32_t label = 0, labels = 0, seen[33];

	fake6_start(&f, NULL);
	CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, &fake6_peer, &n), 0);
	fake_rx(&f, frame,
	        fake6_nd(frame, 136, 0x60, &fake6_peer, &fake6_us, &fake6_peer, &fake_peer_mac),
	        FAKE_FLAT, 0);
	fake_poll(&f);
	fake_drop(&f);
	for (uint32_t len = 20; len <= 1460; len += len < 60 ? 1 : 23)
		for (uint32_t piece = 20; piece <= len; piece = piece * 3 + 1)
			for (uint8_t ecn = 0; ecn < 4; ecn++) {
				struct rte_mbuf *m = weft_netif_alloc(f.nif, WEFT_NETIF_HEADROOM),
				                *l = m;

				for (uint32_t off = 0; off < len;) {
					uint32_t k = RTE_MIN(piece, len - off);
					uint8_t *p;

					if (off > 0) {
						l->next = rte_pktmbuf_alloc(fake_pool);
						l = l->next;
						m->nb_segs++;
					}
					p = rte_pktmbuf_mtod(l, uint8_t *);
					for (uint32_t i = 0; i < k; i++)
						p[i] = (uint8_t)(off + i);
					l->data_len = (uint16_t)k;
					off += k;
				}
				m->pkt_len = len;
				rte_pktmbuf_mtod(m, uint8_t *)[12] = 0x50;
				weft_put_be32(rte_pktmbuf_mtod(m, uint8_t *), len);
				CHECK_EQ(weft_netif_tx(f.nif, n, &fake6_us, &fake6_peer, m,
				                       (struct weft_netif_tx_how){.ecn = ecn},
				                       f.now_ns),
				         0);
				fake_poll(&f);
				CHECK_EQ(f.ntx, 1);
				CHECK_EQ((m->ol_flags & RTE_MBUF_F_TX_OFFLOAD_MASK) != 0, fake_hw);
				CHECK_EQ(fake_sent(&f, 0, other), len + 54);
				CHECK_MEM(other, &fake_peer_mac, 6);
				CHECK_EQ(weft_get_be16(other + 12), 0x86dd);
				CHECK_EQ(weft_get_be16(other + 14) >> 4, 0x600 | ecn);
				CHECK_EQ(weft_get_be16(other + 18), len);
				CHECK_EQ(other[20], IPPROTO_TCP);
				CHECK_EQ(other[21], 64);
				CHECK_MEM(other + 22, fake6_us.b, 16);
				CHECK_MEM(other + 38, fake6_peer.b, 16);
				CHECK_EQ(fake6_cksum(other, 54, IPPROTO_TCP, len), 0);
				/* RFC 6437 s3: one label for a connection, and not the same for
				 * all. */
				if (piece == 20 && ecn == 0) {
					labels += label != (weft_get_be32(other + 14) & 0xfffff);
					label = weft_get_be32(other + 14) & 0xfffff;
				}
				CHECK_EQ(weft_get_be32(other + 14) & 0xfffff, label);
				fake_drop(&f);
			}
	CHECK(labels > 90);
	/* A change in any octet of either address makes another connection. */
	for (unsigned int i = 0; i < 33; i++) {
		struct rte_mbuf *m = weft_netif_alloc(f.nif, WEFT_NETIF_HEADROOM);
		struct weft_ip src = fake6_us, dst = fake6_peer;

		if (i < 16)
			src.b[i] ^= 1;
		else if (i < 32)
			dst.b[i - 16] ^= 1;
		memset(rte_pktmbuf_append(m, 20), 0, 20);
		rte_pktmbuf_mtod(m, uint8_t *)[12] = 0x50;
		CHECK_EQ(weft_netif_tx(f.nif, n, &src, &dst, m, (struct weft_netif_tx_how){0},
		                       f.now_ns),
		         0);
		fake_poll(&f);
		CHECK_EQ(f.ntx, 1);
		fake_sent(&f, 0, other);
		seen[i] = weft_get_be32(other + 14) & 0xfffff;
		for (unsigned int k = 0; k < i; k++)
			CHECK_MSG(seen[i] != seen[k], "addresses %u and %u", k, i);
		fake_drop(&f);
	}
	struct rte_mbuf *m = weft_netif_alloc(f.nif, WEFT_NETIF_HEADROOM);

	memset(rte_pktmbuf_append(m, 1461), 0, 1461);
	CHECK_EQ(weft_netif_tx(f.nif, n, &fake6_us, &fake6_peer, m, (struct weft_netif_tx_how){0},
	                       f.now_ns),
	         -EMSGSIZE);
	weft_netif_neigh_put(f.nif, n);
	fake_stop(&f);
}

/* ---- Addresses and routes ---- */

static void
test_route(void)
{
	struct weft_netif_attr a = fake6_attr(&f), good = a;
	static const struct weft_netif_ops ops = {
	        .tcp_rx = (void (*)(void *, struct weft_netif *, struct rte_mbuf **, unsigned int,
	                            uint64_t))1};
	struct weft_netif *nif;
	struct weft_ip v4 = weft_ip_from_v4(rte_cpu_to_be_32(FAKE_PEER));

	fake6_start(&f, NULL);
	CHECK(weft_ip_eq(weft_netif_src(f.nif, &fake6_peer), &fake6_us));
	CHECK(weft_ip_eq(weft_netif_src(f.nif, &fake6_far), &fake6_us));
	CHECK(weft_ip_eq(weft_netif_src(f.nif, &fake6_peer_ll), &fake6_us_ll));
	CHECK(weft_ip_is_v4(weft_netif_src(f.nif, &v4)));
	CHECK(weft_netif_is_local(f.nif, &fake6_us) && weft_netif_is_local(f.nif, &fake6_us_ll));
	CHECK(!weft_netif_is_local(f.nif, &fake6_peer) && !weft_netif_is_local(f.nif, &fake6_none));
	CHECK(weft_netif_reaches(f.nif, NULL, &fake6_peer, false));
	CHECK(weft_netif_reaches(f.nif, NULL, &fake6_peer_ll, false));
	CHECK(!weft_netif_reaches(f.nif, NULL, &fake6_far, false));
	CHECK(weft_netif_reaches(f.nif, NULL, &fake6_far, true));
	CHECK(!weft_netif_reaches(f.nif, NULL, &fake6_us, true));
	CHECK(!weft_netif_reaches(f.nif, NULL, &fake6_us_ll, true));
	CHECK(!weft_netif_reaches(f.nif, NULL, &fake6_all, true));
	CHECK(!weft_netif_reaches(f.nif, NULL, &fake6_none, true));
	fake_stop(&f);

	/* With a link-local address only, no other destination is reachable (RFC 6724, as far as
	 * needed here). */
	memset(&a.addr6, 0, sizeof(a.addr6));
	memset(&a.gateway6, 0, sizeof(a.gateway6));
	memset(&a.addr, 0, sizeof(a.addr));
	memset(&a.gateway, 0, sizeof(a.gateway));
	fake6_start(&f, &a);
	CHECK(weft_netif_src(f.nif, &fake6_peer) == NULL);
	CHECK(weft_netif_src(f.nif, &v4) == NULL);
	CHECK(!weft_netif_reaches(f.nif, NULL, &fake6_peer, true));
	CHECK(!weft_netif_reaches(f.nif, NULL, &v4, true));
	CHECK(weft_netif_reaches(f.nif, NULL, &fake6_peer_ll, true));
	/* Without an IPv4 address, IPv4 packets are not for us. */
	uint32_t len = fake_build(frame, &(struct fake_pkt){.data = 3});

	CHECK_REFUSED(rx_not_ours, len);
	fake_stop(&f);

#define REFUSE(change)                                                                             \
	do {                                                                                       \
		a = good;                                                                          \
		change;                                                                            \
		CHECK_EQ(weft_netif_create(&a, &ops, NULL, &f.sched, &nif), -EINVAL);              \
	} while (0)
	REFUSE(a.addr6 = fake6_us_ll);
	REFUSE(a.addr6 = fake6_all);
	REFUSE(a.addr6 = v4);
	REFUSE(a.prefix6_len = 129);
	REFUSE(a.gateway6 = fake6_far);
	REFUSE(a.gateway6 = fake6_us);
	REFUSE(a.gateway6 = fake6_all);
	REFUSE(memset(&a.addr6, 0, 16));
	REFUSE((memset(&a.addr6, 0, 16), a.gateway6 = fake6_peer_ll));
	REFUSE(a.no_ipv6 = true);
	REFUSE(a.mtu_bytes = 1279);
	REFUSE(a.vlan_id = 4095);
#undef REFUSE
	/* An MTU too small for IPv6 (RFC 8200 s5) does not affect IPv4. */
	a = fake_attr(&f);
	a.no_ipv6 = false;
	a.mtu_bytes = 1279;
	fake_start(&f, &a);
	CHECK(weft_netif_attr(f.nif)->no_ipv6);
	fake_stop(&f);
}

FAKE_BOTH(test_good)
FAKE_BOTH(test_chains)
FAKE_BOTH(test_bits)
FAKE_BOTH(test_addresses)
FAKE_BOTH(test_ext)
FAKE_BOTH(test_ext_bound)
FAKE_BOTH(test_mutated)
FAKE_BOTH(test_echo)
FAKE_BOTH(test_errors)
FAKE_BOTH(test_unwanted)
FAKE_BOTH(test_tx)

WEFT_TEST_MAIN(FAKE_CASES("good", test_good), FAKE_CASES("chains", test_chains),
               FAKE_CASES("bits", test_bits), FAKE_CASES("addresses", test_addresses),
               FAKE_CASES("ext_headers", test_ext), FAKE_CASES("ext_bound", test_ext_bound),
               FAKE_CASES("mutated", test_mutated), {"offload", test_offload},
               FAKE_CASES("echo", test_echo), FAKE_CASES("errors", test_errors),
               FAKE_CASES("unwanted", test_unwanted), FAKE_CASES("tx", test_tx),
               {"route", test_route})
