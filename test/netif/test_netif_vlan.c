/* SPDX-License-Identifier: BSD-3-Clause */
/** @file One VLAN (IEEE 802.1Q) in both directions, by software and by the port. */

#include <rte_ethdev.h>
#include <rte_ip.h>

#include "fake.h"
#include "weft_netif_addr.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_neigh.h"
#include "weft_netif_stats.h"
#include "weft_netif_tx.h"

static struct fake f;
static uint8_t frame[FAKE_FRAME], other[FAKE_FRAME * 8];

/* Insert a tag into the frame of `len` octets. Returns the new length. */
static uint32_t
tag(uint32_t len, uint16_t tci)
{
	memmove(frame + 16, frame + 12, len - 12);
	weft_put_be16(frame + 12, 0x8100);
	weft_put_be16(frame + 14, tci);
	return len + 4;
}

static bool
deliver(uint32_t len, enum fake_how how, uint32_t arg)
{
	uint64_t before = weft_netif_stats(f.nif)->rx_vlan;

	fake_drop(&f);
	fake_rx(&f, frame, len, how, arg);
	fake_poll(&f);
	CHECK_EQ(weft_netif_stats(f.nif)->rx_vlan - before, f.nup == 0);
	return f.nup == 1;
}

/* Our VLAN, the tag of the frame (-1: none), and whether the frame is for us. */
static const struct {
	uint16_t ours;
	int tci;
	bool up;
} tags[] = {
        {0, -1, true},     {0, 0, true}, /* a priority tag belongs to no VLAN */
        {0, 0xe000, true}, {0, 1, false},      {0, 0x0fff, false},  {7, 7, true},
        {7, 0xe007, true}, {7, 0x1007, true},  {7, 8, false},       {7, 0, false},
        {7, -1, false},    {4094, 4094, true}, {4094, 4095, false},
};

static void
test_rx(void)
{
	for (unsigned int i = 0; i < RTE_DIM(tags); i++)
		for (unsigned int v6 = 0; v6 < 2; v6++) {
			struct weft_netif_attr a = fake6_attr(&f);
			uint32_t len;

			a.vlan_id = tags[i].ours;
			fake6_start(&f, &a);
			len = v6 ? fake6_build(frame, &(struct fake6_pkt){.data = 33})
			         : fake_build(frame, &(struct fake_pkt){.data = 33});
			if (tags[i].tci >= 0)
				len = tag(len, (uint16_t)tags[i].tci);
			memset(frame + len, 0xa5, 5);
			for (uint32_t piece = 1; piece <= len; piece++)
				CHECK_EQ(deliver(len + 5, FAKE_CHAIN, piece), tags[i].up);
			CHECK_EQ(deliver(len, FAKE_EXTBUF, 0), tags[i].up);
			if (tags[i].up) {
				CHECK_EQ(f.up[0]->pkt_len, 20 + 33);
				CHECK_MEM(rte_pktmbuf_mtod(f.up[0], uint8_t *), frame + len - 53,
				          53);
			}
			fake_stop(&f);
		}
}

/* A port that strips tags reports the tag. The report counts only when stripping was requested. */
static void
test_strip(void)
{
	for (unsigned int i = 0; i < RTE_DIM(tags); i++)
		for (unsigned int asked = 0; asked < 2; asked++) {
			struct weft_netif_attr a = fake_attr(&f);
			uint32_t len;
			struct rte_mbuf *m;

			a.vlan_id = tags[i].ours;
			if (asked)
				a.rx_offloads |= RTE_ETH_RX_OFFLOAD_VLAN_STRIP;
			fake_start(&f, &a);
			len = fake_build(frame, &(struct fake_pkt){.data = 33});
			m = fake_rx(&f, frame, len, FAKE_FLAT, 0);
			if (tags[i].tci >= 0) {
				m->ol_flags |= RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;
				m->vlan_tci = (uint16_t)tags[i].tci;
			}
			fake_poll(&f);
			CHECK_EQ(f.nup, asked ? tags[i].up : tags[i].ours == 0);
			fake_stop(&f);
		}
}

/* Every kind of sent frame has the tag. */
static void
test_tx(void)
{
	static const uint8_t echo[40] = {128};

	for (unsigned int insert = 0; insert < 2; insert++) {
		struct weft_netif_attr a = fake6_attr(&f);
		struct weft_ip dst[2] = {weft_ip_from_v4(rte_cpu_to_be_32(FAKE_PEER)), fake6_peer};
		unsigned int kinds = 0;
		uint32_t len;

		a.vlan_id = 0x123;
		if (insert)
			a.tx_offloads |= RTE_ETH_TX_OFFLOAD_VLAN_INSERT;
		fake_create(&f, &a);
		fake_poll(&f); /* announcements, solicitations, a report */
		len = tag(fake_arp(frame, 1, &fake_peer_mac, FAKE_PEER, FAKE_US), 0x123);
		fake_rx(&f, frame, len, FAKE_FLAT, 0);
		len = tag(
		        fake6_nd(frame, 135, 0, &fake6_peer, &fake6_us, &fake6_us, &fake_peer_mac),
		        0x123);
		fake_rx(&f, frame, len, FAKE_FLAT, 0);
		len = tag(fake6_build(frame, &(struct fake6_pkt){.next = IPPROTO_ICMPV6,
		                                                 .body = echo,
		                                                 .data = sizeof(echo)}),
		          0x123);
		fake_rx(&f, frame, len, FAKE_FLAT, 0);
		len = tag(fake_build(frame, &(struct fake_pkt){.proto = IPPROTO_UDP, .data = 8}),
		          0x123);
		fake_rx(&f, frame, len, FAKE_FLAT, 0);
		fake_poll(&f);
		for (unsigned int k = 0; k < 2; k++)
			for (uint32_t n = 20; n < 1440; n += 77) {
				struct rte_mbuf *m = weft_netif_alloc(f.nif, WEFT_NETIF_HEADROOM);
				struct weft_neigh *neigh;

				memset(rte_pktmbuf_append(m, (uint16_t)n), (int)n, n);
				rte_pktmbuf_mtod(m, uint8_t *)[12] = 0x50;
				CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, &dst[k], &neigh), 0);
				CHECK_EQ(weft_netif_tx(f.nif, neigh, weft_netif_src(f.nif, &dst[k]),
				                       &dst[k], m, (struct weft_netif_tx_how){0},
				                       f.now_ns),
				         0);
				weft_netif_neigh_put(f.nif, neigh);
			}
		fake_pass(&f, 2 * WEFT_NS_PER_S);
		CHECK(f.ntx > 40);
		for (unsigned int i = 0; i < f.ntx; i++) {
			uint32_t at = insert ? 12 : 16;
			uint16_t type;

			len = fake_sent(&f, i, other);
			if (insert) {
				CHECK((f.txq[i]->ol_flags & RTE_MBUF_F_TX_VLAN) != 0);
				CHECK_EQ(f.txq[i]->vlan_tci, 0x123);
			} else {
				CHECK_EQ(weft_get_be16(other + 12), 0x8100);
				CHECK_EQ(weft_get_be16(other + 14), 0x123);
				CHECK_EQ(f.txq[i]->ol_flags & RTE_MBUF_F_TX_VLAN, 0);
			}
			type = weft_get_be16(other + at);
			if (type == 0x0806) {
				kinds |= 1;
				CHECK_EQ(len, at + 2 + 28);
			} else if (type == 0x0800) {
				kinds |= other[at + 2 + 9] == IPPROTO_TCP ? 2 : 4;
				CHECK_EQ(len, at + 2 + weft_get_be16(other + at + 4));
				CHECK_EQ(fake_cksum(other + at + 2, 20, 0), 0);
			} else {
				CHECK_EQ(type, 0x86dd);
				kinds |= other[at + 2 + 6] == IPPROTO_TCP ? 8 : 16;
				CHECK_EQ(len, at + 2 + 40 + weft_get_be16(other + at + 6));
				if (other[at + 2 + 6] == IPPROTO_TCP)
					CHECK_EQ(fake_cksum(other + at + 2 + 40, len - at - 42,
					                    (uint16_t)~fake_cksum(
					                            other + at + 2 + 8, 32,
					                            len - at - 42 + 6)),
					         0);
			}
		}
		CHECK_EQ(kinds, 31);
		fake_stop(&f);
	}
}

/* Jumbo frames: 9000 octets of IP packet, in one mbuf or many, with and without a tag. */
static void
test_jumbo(void)
{
	static uint8_t data[9100], up[9100];
	struct rte_mempool *pool;

	fake_drop(&f);
	(void)fake_attr(&f);
	CHECK_EQ(weft_netif_pool_create("fake_jumbo", 255, 9000, SOCKET_ID_ANY, &pool), 0);
	for (unsigned int i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 11);
	for (unsigned int v6 = 0; v6 < 2; v6++) {
		struct weft_netif_attr a = fake6_attr(&f);
		struct weft_ip dst = v6 ? fake6_peer : weft_ip_from_v4(rte_cpu_to_be_32(FAKE_PEER));
		uint32_t l4 = v6 ? 58 : 38, mss = v6 ? 8940 : 8960;
		struct weft_neigh *neigh;
		struct rte_mbuf *m;

		a.mtu_bytes = 9000;
		a.vlan_id = 9;
		a.tx_pool = pool;
		fake6_start(&f, &a);
		CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, &dst, &neigh), 0);
		fake_rx(&f, frame,
		        v6 ? tag(fake6_nd(frame, 136, 0x60, &fake6_peer, &fake6_us, &fake6_peer,
		                          &fake_peer_mac),
		                 9)
		           : tag(fake_arp(frame, 2, &fake_peer_mac, FAKE_PEER, FAKE_US), 9),
		        FAKE_FLAT, 0);
		fake_poll(&f);
		fake_drop(&f);
		m = weft_netif_alloc(f.nif, WEFT_NETIF_HEADROOM);
		memcpy(rte_pktmbuf_append(m, (uint16_t)(mss + 20)), data, mss + 20);
		rte_pktmbuf_mtod(m, uint8_t *)[12] = 0x50;
		CHECK_EQ(weft_netif_tx(f.nif, neigh, weft_netif_src(f.nif, &dst), &dst, m,
		                       (struct weft_netif_tx_how){0}, f.now_ns),
		         0);
		fake_poll(&f);
		CHECK_EQ(f.ntx, 1);
		CHECK_EQ(fake_sent(&f, 0, other), 9018);
		/* Returned to us with source and destination exchanged, in any pieces. */
		for (uint32_t piece = 100; piece < 2048; piece += 97) {
			struct rte_mbuf *head = NULL, *last = NULL;
			const struct rte_ether_hdr *e = (const void *)other;

			(void)e;
			for (uint32_t off = 0; off < 9018; off += piece) {
				struct rte_mbuf *s = rte_pktmbuf_alloc(fake_pool);
				uint32_t n = RTE_MIN(piece, 9018 - off);

				memcpy(rte_pktmbuf_append(s, (uint16_t)n), other + off, n);
				if (head == NULL) {
					head = s;
				} else {
					last->next = s;
					head->nb_segs++;
					head->pkt_len += n;
				}
				last = s;
			}
			/* The exchange of source and destination does not change any checksum. */
			uint8_t *p = rte_pktmbuf_mtod(head, uint8_t *), t[16];
			uint32_t at = v6 ? 18 + 8 : 18 + 12, n = v6 ? 16 : 4;

			memcpy(p, &fake_us_mac, 6);
			memcpy(p + 6, &fake_peer_mac, 6);
			memcpy(t, p + at, n);
			memcpy(p + at, p + at + n, n);
			memcpy(p + at + n, t, n);
			if (fake_hw)
				head->ol_flags |=
				        RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD;
			f.rxq[f.nrx++] = head;
			fake_poll(&f);
			CHECK_EQ(f.nup, 1);
			CHECK_EQ(f.up[0]->pkt_len, mss + 20);
			CHECK_MEM(rte_pktmbuf_read(f.up[0], 0, mss + 20, up), other + l4, mss + 20);
			rte_pktmbuf_free(f.up[0]);
			f.nup = 0;
		}
		weft_netif_neigh_put(f.nif, neigh);
		fake_stop(&f);
	}
	rte_mempool_free(pool);
}

FAKE_BOTH(test_rx)
FAKE_BOTH(test_tx)
FAKE_BOTH(test_jumbo)

WEFT_TEST_MAIN(FAKE_CASES("rx", test_rx), {"strip", test_strip}, FAKE_CASES("tx", test_tx),
               FAKE_CASES("jumbo", test_jumbo))
