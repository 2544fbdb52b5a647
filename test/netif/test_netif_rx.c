/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Receive: the segments that are handed up, and the one counter that rises for any other
 * frame. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <rte_ethdev.h>
#include <rte_ip.h>

#include "fake.h"
#include "weft_netif.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_stats.h"
#include "weft_netif_offload_trust.h"
#include <weft/offload.h>

static struct fake f;
static uint8_t frame[FAKE_FRAME], other[FAKE_FRAME * 8];

/* Sum of the counters of refused frames. */
static uint64_t
refused(void)
{
	const struct weft_netif_stats *s = weft_netif_stats(f.nif);

	return s->rx_bad_ether + s->rx_vlan + s->rx_bad_ip + s->rx_cut + s->rx_bad_ext +
	       s->rx_bad_ip_cksum + s->rx_fragment + s->rx_not_ours + s->rx_bad_tcp_cksum +
	       s->rx_bad_proto + s->rx_no_mbuf + s->arp_bad + s->icmp_bad;
}

/* Deliver a frame. Returns whether a TCP segment was handed up. If not, exactly one counter must
 * have risen. */
static bool
deliver(const uint8_t *p, uint32_t len, enum fake_how how, uint32_t arg)
{
	uint64_t before = refused();
	bool up;

	fake_drop(&f);
	fake_rx(&f, p, len, how, arg);
	fake_poll(&f);
	up = f.nup == 1;
	CHECK_EQ(refused() - before, !up);
	return up;
}

#define CHECK_REFUSED(counter, len)                                                                \
	do {                                                                                       \
		uint64_t c_ = weft_netif_stats(f.nif)->counter;                                    \
		CHECK(!deliver(frame, (len), FAKE_FLAT, 0));                                       \
		CHECK_EQ(weft_netif_stats(f.nif)->counter, c_ + 1);                                \
		CHECK(!deliver(frame, (len), FAKE_EXTBUF, 0));                                     \
		CHECK_EQ(weft_netif_stats(f.nif)->counter, c_ + 2);                                \
		CHECK(!deliver(frame, (len), FAKE_CHAIN, 17));                                     \
		CHECK_EQ(weft_netif_stats(f.nif)->counter, c_ + 3);                                \
	} while (0)

/* Check that the handed-up segment is exactly the TCP part of the frame. */
static void
check_up(uint32_t l4_off, uint32_t l4_len)
{
	struct rte_mbuf *m = f.up[0];
	const struct weft_mbuf_priv *priv = weft_mbuf_priv(m);
	const uint8_t *p;

	CHECK_EQ(m->pkt_len, l4_len);
	p = rte_pktmbuf_read(m, 0, l4_len, other);
	CHECK(p != NULL);
	CHECK_MEM(p, frame + l4_off, l4_len);
	CHECK(weft_ip_is_v4(&priv->rx.src) && weft_ip_is_v4(&priv->rx.dst));
	CHECK_EQ(rte_be_to_cpu_32(weft_ip_v4(&priv->rx.src)), weft_get_be32(frame + 26));
	CHECK_EQ(rte_be_to_cpu_32(weft_ip_v4(&priv->rx.dst)), FAKE_US);
}

static void
test_good(void)
{
	static const uint32_t sizes[] = {0, 1, 2, 5, 6, 7, 63, 536, 1459, 1460};

	fake_start(&f, NULL);
	for (unsigned int i = 0; i < RTE_DIM(sizes); i++) {
		for (unsigned int ip_opt = 0; ip_opt <= 40; ip_opt += 4) {
			for (unsigned int tcp_opt = 0; tcp_opt <= 40; tcp_opt += 20) {
				struct fake_pkt p = {
				        .data = sizes[i], .ip_opt = ip_opt, .tcp_opt = tcp_opt};
				uint32_t len = fake_build(frame, &p);
				uint32_t off = 34 + ip_opt;

				for (enum fake_how how = FAKE_FLAT; how <= FAKE_FOREIGN; how++) {
					CHECK(deliver(frame, len, how, 700));
					check_up(off, len - off);
				}
			}
		}
	}
	fake_stop(&f);
}

static void
test_padding(void)
{
	uint32_t len;

	fake_start(&f, NULL);
	/* An ACK has 54 octets and is sent as 60. Ports on shared memory may add any number. */
	for (uint32_t data = 0; data < 8; data++) {
		len = fake_build(frame, &(struct fake_pkt){.data = data});
		for (uint32_t pad = 1; pad < 300; pad++) {
			memset(frame + len, 0xa5, pad);
			for (enum fake_how how = FAKE_FLAT; how <= FAKE_FOREIGN; how++) {
				CHECK(deliver(frame, len + pad, how, 1 + pad % 61));
				check_up(34, len - 34);
			}
		}
	}
	fake_stop(&f);
}

static void
test_chains(void)
{
	struct fake_pkt p = {.data = 301, .ip_opt = 8, .tcp_opt = 12};
	uint32_t len;

	fake_start(&f, NULL);
	len = fake_build(frame, &p);
	for (uint32_t piece = 1; piece <= len; piece++) {
		CHECK(deliver(frame, len, FAKE_CHAIN, piece));
		check_up(42, len - 42);
	}
	fake_stop(&f);
}

static void
test_cut(void)
{
	static const struct fake_pkt kinds[] = {
	        {.data = 30},
	        {.data = 30, .ip_opt = 12, .tcp_opt = 8},
	        {.proto = IPPROTO_ICMP, .data = 40},
	        {.proto = IPPROTO_UDP, .data = 40},
	};

	fake_start(&f, NULL);
	for (unsigned int k = 0; k < RTE_DIM(kinds); k++) {
		uint32_t len = fake_build(frame, &kinds[k]);

		if (kinds[k].proto == IPPROTO_ICMP) {
			frame[34] = 8;
			frame[35] = 0;
			fake_fix(frame);
		}
		for (uint32_t n = 0; n < len; n++) {
			CHECK(!deliver(frame, n, FAKE_EXTBUF, 0));
			CHECK(!deliver(frame, n, FAKE_FLAT, 0));
			CHECK(!deliver(frame, n, FAKE_CHAIN, 5));
		}
	}
	/* The same with a total length that matches: the header checksum is right, and the rest
	 * is missing. */
	for (uint32_t n = 34; n < 34 + 20; n++) {
		fake_build(frame, &(struct fake_pkt){.data = 30});
		weft_put_be16(frame + 16, (uint16_t)(n - 14));
		weft_put_be16(frame + 24, 0);
		weft_put_be16(frame + 24, fake_cksum(frame + 14, 20, 0));
		CHECK_REFUSED(rx_bad_tcp_cksum, n);
	}
	fake_stop(&f);
}

static void
test_bits(void)
{
	uint32_t len;

	fake_start(&f, NULL);
	len = fake_build(frame, &(struct fake_pkt){.data = 21, .ip_opt = 4, .tcp_opt = 4});
	/* Any single bit from the IP header on is changed: never handed up. */
	for (uint32_t bit = 14 * 8; bit < len * 8; bit++) {
		frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
		CHECK(!deliver(frame, len, FAKE_EXTBUF, 0));
		CHECK(!deliver(frame, len, FAKE_CHAIN, 33));
		frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	CHECK(deliver(frame, len, FAKE_FLAT, 0));
	/* In the payload, TCP's checksum detects it; in the header, IP's. */
	frame[len - 1] ^= 4;
	CHECK_REFUSED(rx_bad_tcp_cksum, len);
	frame[len - 1] ^= 4;
	frame[14 + 5] ^= 4;
	CHECK_REFUSED(rx_bad_ip_cksum, len);
	fake_stop(&f);
}

static void
test_mutated(void)
{
	uint64_t rng = test_seed(0x5eed) | 1;

	fake_start(&f, NULL);
	/* Octets changed at random, often with corrected checksums: only counters change. */
	for (unsigned int i = 0; i < 60000; i++) {
		static const uint8_t protos[] = {IPPROTO_TCP, IPPROTO_ICMP, IPPROTO_UDP};
		struct fake_pkt p = {
		        .proto = protos[i % 3], .data = 8 + i % 90, .ip_opt = i % 2 * 8};
		uint32_t len =
		        i % 5 == 4 ? fake_arp(frame, 1 + i % 2, &fake_peer_mac, FAKE_PEER, FAKE_US)
		                   : fake_build(frame, &p);
		unsigned int n = 1 + i % 4;

		while (n-- > 0) {
			rng ^= rng << 13;
			rng ^= rng >> 7;
			rng ^= rng << 17;
			frame[(rng >> 8) % RTE_MIN(len, i % 2 ? 60u : len)] = (uint8_t)(rng >> 32);
		}
		if (i % 5 != 4 && (frame[14] & 0xf) * 4u + 20 < len - 14 &&
		    weft_get_be16(frame + 16) >= (frame[14] & 0xf) * 4u + 20 &&
		    weft_get_be16(frame + 16) <= len - 14)
			fake_fix(frame);
		fake_rx(&f, frame, len, i % 7 == 0 ? FAKE_CHAIN : FAKE_EXTBUF, 1 + i % 50);
		if (i % 16 == 0) {
			fake_poll(&f);
			fake_drop(&f);
		}
	}
	fake_poll(&f);
	fake_stop(&f);
}

static void
test_header(void)
{
	uint32_t len;

	fake_start(&f, NULL);
	len = fake_build(frame, &(struct fake_pkt){.data = 10});
	frame[14] = 0x65;
	fake_fix(frame);
	CHECK_REFUSED(rx_bad_ip, len);
	len = fake_build(frame, &(struct fake_pkt){.data = 10});
	frame[14] = 0x44;
	CHECK_REFUSED(rx_bad_ip, len);
	len = fake_build(frame, &(struct fake_pkt){.data = 10});
	/* RFC 1122 s3.2.1.7: a host MUST NOT discard for a TTL below 2. */
	for (frame[22] = 2; frame[22]-- > 0;) {
		fake_fix(frame);
		CHECK(deliver(frame, len, FAKE_FLAT, 0));
	}
	len = fake_build(frame, &(struct fake_pkt){.data = 10});
	weft_put_be16(frame + 16, 19); /* shorter than its own header */
	CHECK_REFUSED(rx_bad_ip, len);
	weft_put_be16(frame + 16, (uint16_t)(len - 14 + 1)); /* longer than the frame */
	CHECK_REFUSED(rx_cut, len);

	len = fake_build(frame, &(struct fake_pkt){.data = 10, .frag = 0x2000});
	CHECK_REFUSED(rx_fragment, len);
	len = fake_build(frame, &(struct fake_pkt){.data = 10, .frag = 1});
	CHECK_REFUSED(rx_fragment, len);
	len = fake_build(frame, &(struct fake_pkt){.data = 10, .frag = 0x4000});
	CHECK(deliver(frame, len, FAKE_FLAT, 0));

	len = fake_build(frame, &(struct fake_pkt){.data = 10, .proto = IPPROTO_UDP});
	CHECK_REFUSED(rx_bad_proto, len);
	fake_stop(&f);
}

static void
test_ether(void)
{
	uint32_t len;

	fake_start(&f, NULL);
	len = fake_build(frame, &(struct fake_pkt){.data = 10});
	frame[5] ^= 1; /* another station */
	CHECK_REFUSED(rx_bad_ether, len);
	frame[5] ^= 1;
	frame[0] = 1; /* a multicast group to which we do not belong */
	CHECK_REFUSED(rx_not_ours, len);
	frame[0] = 2;
	frame[6] |= 1; /* a multicast source */
	CHECK_REFUSED(rx_bad_ether, len);
	memset(frame + 6, 0, 6);
	CHECK_REFUSED(rx_bad_ether, len);
	len = fake_build(frame, &(struct fake_pkt){.data = 10});
	memcpy(frame, &fake_all_mac, 6);
	CHECK_REFUSED(rx_not_ours, len);
	len = fake_build(frame, &(struct fake_pkt){.data = 10});
	memmove(frame + 16, frame + 12, len - 12); /* a VLAN tag */
	weft_put_be16(frame + 12, 0x8100);
	weft_put_be16(frame + 14, 5);
	CHECK_REFUSED(rx_vlan, len + 4);
	len = fake_build(frame, &(struct fake_pkt){.data = 10});
	weft_put_be16(frame + 12, 0x86dd); /* no_ipv6 */
	CHECK_REFUSED(rx_not_ours, len);
	weft_put_be16(frame + 12, 46);
	CHECK_REFUSED(rx_bad_ether, len);
	fake_stop(&f);
}

static void
test_addresses(void)
{
	static const uint32_t dst[] = {FAKE_PEER, FAKE_IP(10, 0, 0, 255), FAKE_IP(224, 0, 0, 1),
	                               FAKE_IP(255, 255, 255, 255), FAKE_IP(127, 0, 0, 1)};
	static const uint32_t src[] = {
	        FAKE_IP(0, 0, 0, 1),
	        FAKE_IP(0, 255, 0, 1),
	        FAKE_IP(127, 0, 0, 1),
	        FAKE_IP(127, 9, 9, 9),
	        FAKE_IP(224, 0, 0, 1),
	        FAKE_IP(239, 1, 2, 3),
	        FAKE_IP(240, 0, 0, 1),
	        FAKE_IP(255, 255, 255, 255),
	        FAKE_IP(10, 0, 0, 255),
	        FAKE_IP(10, 0, 0, 0),
	        FAKE_US,
	};
	struct weft_netif_attr a;
	uint32_t len;

	fake_start(&f, NULL);
	for (unsigned int i = 0; i < RTE_DIM(dst); i++) {
		len = fake_build(frame, &(struct fake_pkt){.data = 10, .dst = dst[i]});
		CHECK_REFUSED(rx_not_ours, len);
	}
	for (unsigned int i = 0; i < RTE_DIM(src); i++) {
		len = fake_build(frame, &(struct fake_pkt){.data = 10, .src = src[i]});
		CHECK_REFUSED(rx_not_ours, len);
	}
	/* The builder cannot produce 0.0.0.0. */
	len = fake_build(frame, &(struct fake_pkt){.data = 10});
	weft_put_be32(frame + 26, 0);
	fake_fix(frame);
	CHECK_REFUSED(rx_not_ours, len);
	/* A distant host is valid even if the last octet of its address is 255. */
	len = fake_build(frame, &(struct fake_pkt){.data = 10, .src = FAKE_IP(192, 0, 2, 255)});
	CHECK(deliver(frame, len, FAKE_FLAT, 0));
	fake_stop(&f);

	/* On a /31 both addresses are hosts (RFC 3021). */
	a = fake_attr(&f);
	a.prefix_len = 31;
	memset(&a.gateway, 0, sizeof(a.gateway));
	fake_start(&f, &a);
	len = fake_build(frame, &(struct fake_pkt){.data = 10, .src = FAKE_IP(10, 0, 0, 0)});
	CHECK(deliver(frame, len, FAKE_FLAT, 0));
	fake_stop(&f);
}

static void
test_shared(void)
{
	static struct rte_mbuf *held[8192];
	struct rte_mbuf *m;
	unsigned int n = 0;
	uint32_t len;

	fake_start(&f, NULL);
	len = fake_build(frame, &(struct fake_pkt){.data = 100});
	memset(frame + len, 0x77, 6);
	m = fake_rx(&f, frame, len + 6, FAKE_SHARED, 0);
	fake_poll(&f);
	CHECK_EQ(f.nup, 1);
	check_up(34, len - 34);
	/* The other owner's mbuf is unchanged. */
	CHECK_EQ(rte_mbuf_refcnt_read(m), 1);
	CHECK_EQ(m->pkt_len, len + 6);
	CHECK_MEM(rte_pktmbuf_mtod(m, uint8_t *), frame, len + 6);
	rte_pktmbuf_free(m);
	fake_drop(&f);

	/* no memory for the copy */
	while (n < RTE_DIM(held) && (held[n] = rte_pktmbuf_alloc(fake_pool)) != NULL)
		n++;
	fake_rx(&f, frame, len, FAKE_FOREIGN, 0);
	fake_poll(&f);
	CHECK_EQ(f.nup, 0);
	CHECK_EQ(weft_netif_stats(f.nif)->rx_no_mbuf, 1);
	len = fake_build(frame, &(struct fake_pkt){.data = 16, .proto = IPPROTO_ICMP});
	frame[34] = 8;
	frame[35] = 0;
	fake_fix(frame);
	fake_rx(&f, frame, len, FAKE_FOREIGN, 0);
	len = fake_arp(frame, 1, &fake_peer_mac, FAKE_PEER, FAKE_US);
	fake_rx(&f, frame, len, FAKE_FOREIGN, 0);
	fake_poll(&f);
	CHECK_EQ(weft_netif_stats(f.nif)->rx_no_mbuf, 2);
	CHECK_EQ(f.ntx, 0);
	rte_pktmbuf_free_bulk(held, n);
	fake_stop(&f);
}

static void
test_indirect(void)
{
	struct rte_mbuf *whole, *head, *ind;
	uint32_t len;

	fake_start(&f, NULL);
	/* A sender's retransmission as net_ring delivers it: new headers, followed by an
	 * indirect mbuf. */
	len = fake_build(frame, &(struct fake_pkt){.data = 400});
	whole = rte_pktmbuf_alloc(fake_pool);
	memcpy(rte_pktmbuf_append(whole, 400), frame + 54, 400);
	ind = rte_pktmbuf_clone(whole, fake_pool);
	head = rte_pktmbuf_alloc(fake_pool);
	memcpy(rte_pktmbuf_append(head, 54), frame, 54);
	CHECK_EQ(rte_pktmbuf_chain(head, ind), 0);
	f.rxq[f.nrx++] = head;
	fake_poll(&f);
	CHECK_EQ(f.nup, 1);
	check_up(34, len - 34);
	CHECK_EQ(rte_mbuf_refcnt_read(whole), 1);
	CHECK_MEM(rte_pktmbuf_mtod(whole, uint8_t *), frame + 54, 400);
	rte_pktmbuf_free(whole);
	fake_stop(&f);
}

static bool
deliver_flags(const uint8_t *p, uint32_t len, uint64_t flags)
{
	fake_drop(&f);
	fake_rx(&f, p, len, FAKE_FLAT, 0)->ol_flags |= flags;
	fake_poll(&f);
	return f.nup == 1;
}

#define GOOD (RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD)
#define BAD  (RTE_MBUF_F_RX_IP_CKSUM_BAD | RTE_MBUF_F_RX_L4_CKSUM_BAD)

/* The first 4096 segments of a queue are checked whatever the device says. */
static void
prove(const uint8_t *p, uint32_t len)
{
	for (unsigned int i = 0; i < 4096; i++)
		CHECK(deliver_flags(p, len, GOOD));
	CHECK_EQ(weft_netif_stats(f.nif)->rx_cksum_checked, 2 * 4096);
}

static void
doubt_start(void)
{
	struct weft_netif_attr a;

	fake_hw = false;
	a = fake_attr(&f);
	a.rx_offloads = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM;
	fake_start(&f, &a);
}

/** A device that calls a damaged packet intact: it is dropped where it is checked, at first always,
 * later one of 64. Then 65536 are checked, and a second one ends the offload. */
static void
test_false_good(void)
{
	const struct weft_netif_stats *st;
	uint32_t len = fake_build(frame, &(struct fake_pkt){.data = 10});
	unsigned int passed = 0;

	doubt_start();
	st = weft_netif_stats(f.nif);
	prove(frame, len);
	frame[len - 1] ^= 1;
	while (passed < 1000 && deliver_flags(frame, len, GOOD))
		passed++;
	CHECK_EQ(passed, 63);
	CHECK_EQ(st->rx_cksum_false_good, 1);
	CHECK_EQ(st->rx_bad_tcp_cksum, 1);
	CHECK_EQ(weft_netif_offloads_off(f.nif), 0);
	frame[len - 1] ^= 1;
	for (unsigned int i = 0; i < 65536; i++)
		CHECK(deliver_flags(frame, len, GOOD));
	frame[len - 1] ^= 1;
	for (passed = 0; passed < 1000 && deliver_flags(frame, len, GOOD); passed++)
		;
	CHECK_EQ(passed, 63);
	CHECK_EQ(st->rx_cksum_false_good, 2);
	CHECK_EQ(st->rx_cksum_off, 1);
	CHECK_EQ(weft_netif_offloads_off(f.nif), WEFT_OFFLOAD_RX_CHECKSUM);
	for (unsigned int i = 0; i < 1000; i++)
		CHECK(!deliver_flags(frame, len, GOOD));
	frame[len - 1] ^= 1;
	CHECK(deliver_flags(frame, len, BAD));
	fake_stop(&f);

	/* The very first packets, and the header of IPv4. */
	doubt_start();
	frame[len - 1] ^= 1;
	CHECK(!deliver_flags(frame, len, GOOD));
	CHECK(!deliver_flags(frame, len, RTE_MBUF_F_RX_L4_CKSUM_NONE));
	CHECK_EQ(weft_netif_stats(f.nif)->rx_cksum_off, 1);
	fake_stop(&f);
	doubt_start();
	frame[len - 1] ^= 1;
	frame[24] ^= 1;
	CHECK(!deliver_flags(frame, len, GOOD));
	CHECK_EQ(weft_netif_stats(f.nif)->rx_bad_ip_cksum, 1);
	CHECK_EQ(weft_netif_stats(f.nif)->rx_cksum_false_good, 1);
	fake_stop(&f);
}

/** A segment of a neighbour on the same host has the sum of its pseudo-header in place of a
 * checksum, and the port calls it intact (virtio). It is used, and says nothing against the device,
 * also when the offload was switched off. A segment with neither sum is damaged. */
static void
test_left_out(void)
{
	uint32_t len = fake_build(frame, &(struct fake_pkt){.data = 10});
	const uint8_t right[2] = {frame[14 + 20 + 16], frame[14 + 20 + 17]};
	uint32_t sum = 6 + (len - 14 - 20);
	const struct weft_netif_stats *st;

	for (unsigned int i = 26; i < 34; i += 2)
		sum += (uint32_t)frame[i] << 8 | frame[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	doubt_start();
	st = weft_netif_stats(f.nif);
	for (unsigned int i = 0; i < 2 * 4096; i++) {
		frame[14 + 20 + 16] = (uint8_t)(sum >> 8);
		frame[14 + 20 + 17] = (uint8_t)sum;
		CHECK(deliver_flags(frame, len, RTE_MBUF_F_RX_L4_CKSUM_NONE));
		memcpy(frame + 14 + 20 + 16, right, 2);
		CHECK(deliver_flags(frame, len, RTE_MBUF_F_RX_L4_CKSUM_NONE));
	}
	CHECK_EQ(st->rx_cksum_false_good, 0);
	CHECK_EQ(st->rx_bad_tcp_cksum, 0);
	fake_stop(&f);

	doubt_start();
	st = weft_netif_stats(f.nif);
	frame[len - 1] ^= 1; /* neither the one nor the other */
	CHECK(!deliver_flags(frame, len, RTE_MBUF_F_RX_L4_CKSUM_NONE));
	CHECK(!deliver_flags(frame, len, GOOD));
	CHECK_EQ(st->rx_cksum_false_good, 2);
	CHECK_EQ(st->rx_cksum_off, 1);
	frame[len - 1] ^= 1;
	frame[14 + 20 + 16] = (uint8_t)(sum >> 8);
	frame[14 + 20 + 17] = (uint8_t)sum;
	CHECK(!deliver_flags(frame, len, GOOD));
	CHECK(!deliver_flags(frame, len, 0));
	CHECK(deliver_flags(frame, len, RTE_MBUF_F_RX_L4_CKSUM_NONE));
	fake_stop(&f);
}

/** An intact packet is used, whatever the device says of it. */
static void
test_false_bad(void)
{
	uint32_t len = fake_build(frame, &(struct fake_pkt){.data = 10});
	const struct weft_netif_stats *st;

	doubt_start();
	st = weft_netif_stats(f.nif);
	prove(frame, len);
	for (unsigned int i = 0; i < 100; i++) {
		CHECK(deliver_flags(frame, len, BAD));
		CHECK(deliver_flags(frame, len,
		                    RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_BAD));
		CHECK(deliver_flags(frame, len,
		                    RTE_MBUF_F_RX_IP_CKSUM_BAD | RTE_MBUF_F_RX_L4_CKSUM_GOOD));
	}
	CHECK_EQ(st->rx_cksum_false_bad, 400);
	CHECK_EQ(st->rx_bad_tcp_cksum + st->rx_bad_ip_cksum, 0);
	/* A device that is right about damaged packets is not suspected. */
	frame[len - 1] ^= 1;
	for (unsigned int i = 0; i < 100; i++)
		CHECK(!deliver_flags(frame, len,
		                     RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_BAD));
	CHECK_EQ(st->rx_bad_tcp_cksum, 100);
	CHECK_EQ(st->rx_cksum_false_bad, 400);
	CHECK_EQ(st->rx_cksum_false_good, 0);
	/* A CRC error of the layers above: all are checked for a while. */
	CHECK(deliver_flags(frame, len, GOOD));
	weft_netif_rx_damaged(f.nif);
	CHECK(!deliver_flags(frame, len, GOOD));
	CHECK_EQ(st->rx_cksum_rechecks, 1);
	CHECK_EQ(st->rx_cksum_false_good, 1);
	fake_stop(&f);
	/* Without the offload there is nothing to suspect. */
	fake_start(&f, NULL);
	weft_netif_rx_damaged(f.nif);
	CHECK_EQ(weft_netif_stats(f.nif)->rx_cksum_rechecks, 0);
	fake_stop(&f);
}

static void
test_offload(void)
{
	const uint64_t ip_good = RTE_MBUF_F_RX_IP_CKSUM_GOOD, l4_good = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
	const uint64_t ip_bad = RTE_MBUF_F_RX_IP_CKSUM_BAD, l4_bad = RTE_MBUF_F_RX_L4_CKSUM_BAD;
	struct weft_netif_attr a;
	uint32_t len;

	fake_hw = false;
	a = fake_attr(&f);
	a.rx_offloads = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM;
	fake_start(&f, &a);
	len = fake_build(frame, &(struct fake_pkt){.data = 10});
	CHECK(deliver_flags(frame, len, 0));
	prove(frame, len);
	CHECK(deliver_flags(frame, len, ip_good | l4_good));
	frame[24] ^= 1;
	CHECK(!deliver_flags(frame, len, ip_bad | l4_good));
	CHECK_EQ(weft_netif_stats(f.nif)->rx_bad_ip_cksum, 1);
	CHECK(deliver_flags(frame, len, ip_good | l4_good));
	frame[24] ^= 1;
	frame[len - 1] ^= 1; /* the port's flags count */
	CHECK(deliver_flags(frame, len, ip_good | l4_good));
	CHECK(deliver_flags(frame, len, l4_good));
	CHECK(!deliver_flags(frame, len, ip_good));
	CHECK(!deliver_flags(frame, len, ip_good | l4_bad));
	CHECK_EQ(weft_netif_stats(f.nif)->rx_bad_tcp_cksum, 2);
	fake_stop(&f);

	/* Flags for an offload that is not in use have no effect. */
	fake_start(&f, NULL);
	CHECK(!deliver_flags(frame, len, ip_good | l4_good));
	frame[len - 1] ^= 1;
	CHECK(deliver_flags(frame, len, ip_bad | l4_bad));
	fake_stop(&f);
}

static void
test_ecn(void)
{
	fake_start(&f, NULL);
	for (unsigned int tos = 0; tos < 256; tos++) {
		uint32_t len =
		        fake_build(frame, &(struct fake_pkt){.data = 1, .tos = (uint8_t)tos});

		CHECK(deliver(frame, len, FAKE_FLAT, 0));
		CHECK_EQ(weft_mbuf_priv(f.up[0])->rx.ecn, tos & 3);
	}
	fake_stop(&f);
}

static void
test_burst(void)
{
	fake_start(&f, NULL);
	/* Valid and invalid frames: the valid ones are handed up in order, as one burst in a
	 * poll. */
	for (uint32_t i = 0; i < 100; i++) {
		uint32_t len = fake_build(frame, &(struct fake_pkt){.data = i});

		if (i % 3 == 0)
			frame[25] ^= 1;
		fake_rx(&f, frame, len, FAKE_FLAT, 0);
	}
	CHECK_EQ(weft_netif_poll(f.nif, f.now_ns), WEFT_NETIF_BURST);
	CHECK_EQ(f.bursts, 1);
	fake_poll(&f);
	CHECK_EQ(f.nup, 66);
	CHECK_EQ(f.bursts, 4);
	for (unsigned int i = 1; i < f.nup; i++)
		CHECK(f.up[i]->pkt_len > f.up[i - 1]->pkt_len);
	CHECK_EQ(weft_netif_stats(f.nif)->rx_packets, 100);
	CHECK_EQ(weft_netif_stats(f.nif)->rx_bytes, 100 * 54 + 99 * 100 / 2);
	fake_stop(&f);
}

/** A burst of long frames ends with the question for 8 that brings it to 48 KiB, one of short
 * frames has 32, whatever the MTU. A port that may be a NIC's is never asked for fewer than 8
 * frames. test_netif_driver has drivers that are asked for one. */
static void
test_burst_octets(void)
{
	static const struct {
		uint16_t mtu;
		uint32_t data, want;
		uint32_t data2; /**< of frames 8 to 15; 0: as the others */
	} v[] = {{1500, 1460, 32},  {1500, 0, 32},     {1518, 1478, 32}, {1519, 1479, 32},
	         {4000, 3960, 16},  {9000, 8960, 8},   {9000, 5000, 16}, {9000, 1, 32},
	         {9600, 9560, 8},   {9978, 9938, 8},   {9978, 1, 32},    {65535, 65200, 8},
	         {65535, 1000, 32}, {65535, 6089, 16}, {65535, 6090, 8}, {9000, 6089, 16, 8960}};
	static uint8_t large[14 + UINT16_MAX];
	uint64_t most = 0;

	for (unsigned int i = 0; i < RTE_DIM(v); i++) {
		struct weft_netif_attr a = fake_attr(&f);
		struct rte_mempool *pool;
		uint32_t len = fake_build(large, &(struct fake_pkt){.data = v[i].data});
		unsigned int left = 40;

		CHECK_EQ(weft_netif_pool_create("fake_long", 63, v[i].mtu, SOCKET_ID_ANY, &pool),
		         0);
		a.pool = pool;
		a.mtu_bytes = v[i].mtu;
		fake_start(&f, &a);
		for (unsigned int k = 0; k < left; k++) {
			struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

			CHECK(m != NULL);
			if (v[i].data2 != 0 && (k == 8 || k == 16))
				len = fake_build(large,
				                 &(struct fake_pkt){.data = k == 8 ? v[i].data2
				                                                   : v[i].data});
			memcpy(rte_pktmbuf_append(m, (uint16_t)len), large, len);
			f.rxq[f.nrx++] = m;
		}
		while (left > 0) {
			const unsigned int want = RTE_MIN(left, v[i].want);
			const uint64_t had = weft_netif_stats(f.nif)->rx_bytes;

			CHECK_MSG(weft_netif_poll(f.nif, f.now_ns) == want, "MTU %u, %u octets",
			          v[i].mtu, len);
			CHECK(f.asked_least >= 8);
			if (v[i].mtu <= 9000)
				most = RTE_MAX(most, weft_netif_stats(f.nif)->rx_bytes - had);
			left -= want;
		}
		CHECK_EQ(f.nup, 40);
		fake_drop(&f);
		fake_stop(&f);
		rte_mempool_free(pool);
	}
	/* The most: less than 48 KiB by one question, and 8 full frames by the next one. */
	CHECK_EQ(most, 8 * 6143 + 8 * 9014);
	CHECK(most < WEFT_NETIF_BURST_BYTES + 8 * 9014);
}

/* ---- ICMP ---- */

static uint32_t
build_echo(uint32_t data, uint32_t src)
{
	uint32_t len = fake_build(
	        frame, &(struct fake_pkt){
	                       .proto = IPPROTO_ICMP, .data = 8 + data, .src = src, .tos = 0xb9});

	frame[34] = 8;
	frame[35] = 0;
	weft_put_be16(frame + 38, 0x1111);
	weft_put_be16(frame + 40, 7);
	fake_fix(frame);
	return len;
}

static void
test_echo(void)
{
	uint64_t bad;
	uint32_t len;

	fake_start(&f, NULL);
	for (uint32_t data = 0; data <= 1472; data += data < 70 ? 1 : 61) {
		for (enum fake_how how = FAKE_FLAT; how <= FAKE_FOREIGN; how++) {
			len = build_echo(data, data % 2 ? FAKE_FAR : 0);
			memset(frame + len, 0xee, 9); /* padding must not be returned */
			fake_drop(&f);
			fake_rx(&f, frame, len + 9, how, 37);
			fake_poll(&f);
			CHECK_EQ(f.nup, 0);
			CHECK_EQ(f.ntx, 1);
			CHECK_EQ(fake_sent(&f, 0, other), len);
			CHECK_MEM(other, &fake_peer_mac, 6);
			CHECK_MEM(other + 6, &fake_us_mac, 6);
			CHECK_EQ(other[14], 0x45);
			CHECK_EQ(other[15], 0xb8);
			CHECK_EQ(weft_get_be16(other + 16), len - 14);
			CHECK_EQ(fake_cksum(other + 14, 20, 0), 0);
			CHECK_EQ(weft_get_be32(other + 26), FAKE_US);
			CHECK_EQ(weft_get_be32(other + 30), weft_get_be32(frame + 26));
			CHECK_EQ(other[34], 0);
			CHECK_EQ(fake_cksum(other + 34, len - 34, 0), 0);
			CHECK_MEM(other + 38, frame + 38, len - 38);
		}
	}
	/* Not answered: a bad checksum, an unknown code, a broadcast, an invalid source address. */
	fake_drop(&f);
	len = build_echo(20, 0);
	frame[len - 1] ^= 1;
	bad = weft_netif_stats(f.nif)->icmp_bad;
	CHECK(!deliver(frame, len, FAKE_FLAT, 0));
	CHECK_EQ(weft_netif_stats(f.nif)->icmp_bad, bad + 1);
	len = build_echo(20, 0);
	frame[35] = 1;
	fake_fix(frame);
	CHECK(!deliver(frame, len, FAKE_FLAT, 0));
	len = build_echo(20, 0);
	memcpy(frame, &fake_all_mac, 6);
	CHECK(!deliver(frame, len, FAKE_FLAT, 0));
	len = build_echo(20, FAKE_IP(10, 0, 0, 255));
	CHECK(!deliver(frame, len, FAKE_FLAT, 0));
	CHECK_EQ(f.ntx, 0);
	/* A reply or an unknown type is silently dropped. */
	bad = refused();
	len = build_echo(20, 0);
	frame[34] = 0;
	fake_fix(frame);
	fake_rx(&f, frame, len, FAKE_FLAT, 0);
	frame[34] = 13;
	fake_fix(frame);
	fake_rx(&f, frame, len, FAKE_FLAT, 0);
	fake_poll(&f);
	CHECK_EQ(refused(), bad);
	CHECK_EQ(f.ntx, 0);
	fake_stop(&f);
}

/* Destination unreachable that quotes `quote` octets of one of our segments with IP options
 * `opt`. */
static uint32_t
build_unreachable(uint8_t code, uint32_t quote, uint8_t opt)
{
	static uint8_t ours[FAKE_FRAME];
	uint32_t len;

	fake_build(ours,
	           &(struct fake_pkt){.src = FAKE_US, .dst = FAKE_FAR, .ip_opt = opt, .data = 100});
	len = fake_build(frame, &(struct fake_pkt){
	                                .proto = IPPROTO_ICMP, .data = 8 + quote, .src = FAKE_GW});
	memset(frame + 34, 0, 8);
	frame[34] = 3;
	frame[35] = code;
	weft_put_be16(frame + 40, 1006);
	memcpy(frame + 42, ours + 14, quote);
	fake_fix(frame);
	return len;
}

static void
test_unreachable(void)
{
	uint32_t len;

	fake_start(&f, NULL);
	for (unsigned int opt = 0; opt <= 40; opt += 4) {
		for (uint32_t quote = 0; quote <= 20 + opt + 28; quote++) {
			unsigned int n = f.unreachable.n;

			len = build_unreachable((uint8_t)(quote % 16), quote, (uint8_t)opt);
			fake_rx(&f, frame, len, FAKE_EXTBUF, 0);
			fake_rx(&f, frame, len, FAKE_CHAIN, 3 + quote);
			fake_poll(&f);
			if (quote < 20 + opt + 8) {
				CHECK_EQ(f.unreachable.n, n);
				continue;
			}
			CHECK_EQ(f.unreachable.n, n + 2);
			CHECK_EQ(rte_be_to_cpu_32(weft_ip_v4(&f.unreachable.dst)), FAKE_FAR);
			CHECK_EQ(f.unreachable.src_port, 5000);
			CHECK_EQ(f.unreachable.dst_port, 6000);
			CHECK_EQ(f.unreachable.seq, 0x01020304);
			CHECK_EQ(f.unreachable.kind, quote % 16 == 2 || quote % 16 == 3
			                                     ? WEFT_ICMP_HARD
			                             : quote % 16 == 4 ? WEFT_ICMP_TOO_BIG
			                                               : WEFT_ICMP_SOFT);
			/* RFC 1191 s4: the next hop's MTU */
			CHECK_EQ(f.unreachable.mtu_bytes, quote % 16 == 4 ? 1006 : 0);
		}
	}
	f.unreachable.n = 0;
	/* About a packet that we never sent, a later fragment, another protocol, an invalid
	 * quote. */
	len = build_unreachable(1, 28, 0);
	weft_put_be32(frame + 42 + 12, FAKE_PEER);
	fake_fix(frame);
	CHECK_REFUSED(icmp_bad, len);
	len = build_unreachable(1, 28, 0);
	frame[42] = 0x4f;
	fake_fix(frame);
	CHECK_REFUSED(icmp_bad, len);
	len = build_unreachable(1, 28, 0);
	frame[42] = 0x65;
	fake_fix(frame);
	CHECK_REFUSED(icmp_bad, len);
	len = build_unreachable(1, 28, 0);
	weft_put_be16(frame + 42 + 6, 100);
	fake_fix(frame);
	fake_rx(&f, frame, len, FAKE_FLAT, 0);
	len = build_unreachable(1, 28, 0);
	frame[42 + 9] = IPPROTO_UDP;
	fake_fix(frame);
	fake_rx(&f, frame, len, FAKE_FLAT, 0);
	fake_poll(&f);
	CHECK_EQ(f.unreachable.n, 0);
	fake_stop(&f);
}

/** The number of errors that one peer gets for 100 packets to a closed port, while other peers
 * send `others` of them each time. */
static unsigned int
errors(unsigned int others)
{
	unsigned int n = 0;

	fake_start(&f, NULL);
	for (unsigned int i = 0; i < 100; i++) {
		for (unsigned int k = 0; k <= others; k++) {
			uint32_t len = fake_build(
			        frame, &(struct fake_pkt){.proto = IPPROTO_UDP,
			                                  .data = 8,
			                                  .src = k == 0 ? 0 : FAKE_PEER + 10 + k});

			fake_rx(&f, frame, len, FAKE_FLAT, 0);
		}
		fake_poll(&f);
		for (unsigned int k = 0; k < f.ntx; k++) {
			CHECK(fake_sent(&f, k, other) > 34);
			n += weft_get_be32(other + 30) == FAKE_PEER;
		}
		fake_drop(&f);
		fake_pass(&f, 33 * WEFT_NS_PER_MS);
	}
	fake_stop(&f);
	return n;
}

/** The errors sent to one peer do not reveal how many were sent to others. */
static void
test_unwanted_of_others(void)
{
	unsigned int n = errors(0);

	CHECK_MSG(n >= 4 * 5 && n < 4 * 15, "%u", n);
	CHECK_EQ(errors(1), n);
	CHECK_EQ(errors(2), n);
}

/* RFC 1122 s3.2.2.1: protocol and port unreachable; RFC 1812 s4.3.2.3 (length), s4.3.2.8 (rate). */
static void
test_unwanted(void)
{
	static const uint8_t protos[] = {IPPROTO_UDP, 132, 47};
	struct weft_netif_attr a;
	uint32_t len;

	fake_start(&f, NULL);
	for (unsigned int k = 0; k < RTE_DIM(protos); k++)
		for (uint32_t data = 8; data < 1400; data += 211) {
			uint32_t quoted;

			fake_pass(&f, 2 * WEFT_NS_PER_S);
			len = fake_build(frame, &(struct fake_pkt){.proto = protos[k],
			                                           .data = data,
			                                           .ip_opt = k * 4,
			                                           .src = k == 1 ? FAKE_FAR : 0});
			memset(frame + len, 0x55, 6);
			CHECK(!deliver(frame, len + 6, FAKE_CHAIN, 300));
			quoted = RTE_MIN(len - 14, 548u);
			CHECK_EQ(f.ntx, 1);
			CHECK_EQ(fake_sent(&f, 0, other), 14 + 20 + 8 + quoted);
			CHECK_MEM(other, &fake_peer_mac, 6);
			CHECK_EQ(fake_cksum(other + 14, 20, 0), 0);
			CHECK_EQ(weft_get_be32(other + 26), FAKE_US);
			CHECK_EQ(weft_get_be32(other + 30), weft_get_be32(frame + 26));
			CHECK_EQ(other[34], 3);
			CHECK_EQ(other[35], k == 0 ? 3 : 2);
			CHECK_EQ(fake_cksum(other + 34, 8 + quoted, 0), 0);
			CHECK_MEM(other + 42, frame + 14, quoted);
		}
	fake_pass(&f, 2 * WEFT_NS_PER_S);
	fake_drop(&f);
	for (unsigned int i = 0; i < 1000; i++)
		fake_rx(&f, frame, len, FAKE_FLAT, 0);
	fake_poll(&f);
	CHECK(f.ntx >= 5 && f.ntx < 15);
	CHECK_EQ(weft_netif_stats(f.nif)->icmp_limited, 1000 - f.ntx);
	fake_stop(&f);
	/* The error fits our own link and is not fragmented. */
	a = fake_attr(&f);
	a.mtu_bytes = 400;
	fake_start(&f, &a);
	len = fake_build(frame, &(struct fake_pkt){.proto = IPPROTO_UDP, .data = 380});
	CHECK_EQ(len, 14 + 400);
	CHECK(!deliver(frame, len, FAKE_FLAT, 0));
	CHECK_EQ(f.ntx, 1);
	CHECK_EQ(fake_sent(&f, 0, other), 14 + 400);
	CHECK_EQ(weft_get_be16(other + 16), 400);
	CHECK_MEM(other + 42, frame + 14, 400 - 28);
	fake_stop(&f);
}

struct sender {
	struct rte_mbuf *m;
	bool read_ok;
	atomic_bool gone;
};

/* Reads the record of its segment, as a sender does for an acknowledgement, and lets go of it. The
 * flag orders nothing: the count of references must do that. */
static void *
sender_acked(void *arg)
{
	struct sender *s = arg;

	s->read_ok = weft_mbuf_priv(s->m)->rx.src.b[10] == 0xff;
	rte_pktmbuf_free_seg(s->m);
	atomic_store_explicit(&s->gone, true, memory_order_relaxed);
	return NULL;
}

/**
 * A segment was sent twice, and its sender, which has its pool in common with the receiver, lets go
 * of it while the second copy is under way. The receiver is then its only holder, and writes where
 * the sender read.
 */
static void
test_let_go(void)
{
	struct sender s = {.read_ok = false};
	pthread_t th;
	uint32_t len;

	fake_start(&f, NULL);
	len = fake_build(frame, &(struct fake_pkt){.data = 100});
	s.m = fake_rx(&f, frame, len, FAKE_SHARED, 0);
	weft_mbuf_priv(s.m)->rx.src = weft_ip_from_v4(rte_cpu_to_be_32(FAKE_US));
	CHECK_EQ(pthread_create(&th, NULL, sender_acked, &s), 0);
	while (!atomic_load_explicit(&s.gone, memory_order_relaxed))
		;
	fake_poll(&f);
	CHECK_EQ(pthread_join(th, NULL), 0);
	CHECK(s.read_ok);
	CHECK_EQ(f.nup, 1);
	CHECK(f.up[0] == s.m);
	check_up(34, len - 34);
	fake_stop(&f);
}

/* each with a port that computes no checksum, and one that computes all */
FAKE_BOTH(test_good)
FAKE_BOTH(test_padding)
FAKE_BOTH(test_chains)
FAKE_BOTH(test_cut)
FAKE_BOTH(test_bits)
FAKE_BOTH(test_mutated)
FAKE_BOTH(test_header)
FAKE_BOTH(test_ether)
FAKE_BOTH(test_addresses)
FAKE_BOTH(test_shared)
FAKE_BOTH(test_indirect)
FAKE_BOTH(test_ecn)
FAKE_BOTH(test_burst)
FAKE_BOTH(test_echo)
FAKE_BOTH(test_unreachable)
FAKE_BOTH(test_unwanted)

WEFT_TEST_MAIN(FAKE_CASES("good", test_good), {"unwanted_of_others", test_unwanted_of_others},
               FAKE_CASES("padding", test_padding), FAKE_CASES("chains", test_chains),
               FAKE_CASES("cut", test_cut), FAKE_CASES("bits", test_bits),
               FAKE_CASES("mutated", test_mutated), FAKE_CASES("header", test_header),
               FAKE_CASES("ether", test_ether), FAKE_CASES("addresses", test_addresses),
               FAKE_CASES("shared", test_shared), FAKE_CASES("indirect", test_indirect),
               {"let go by another thread", test_let_go}, {"offload", test_offload},
               {"a device calls damaged packets intact", test_false_good},
               {"a checksum that a neighbour left out", test_left_out},
               {"a device calls intact packets damaged", test_false_bad},
               FAKE_CASES("ecn", test_ecn), FAKE_CASES("burst", test_burst),
               {"a burst ends above 48 KiB", test_burst_octets}, FAKE_CASES("echo", test_echo),
               FAKE_CASES("unreachable", test_unreachable), FAKE_CASES("unwanted", test_unwanted))
