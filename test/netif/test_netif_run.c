/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A run of segments leaves as the same frames as its segments one by one. */

#include <rte_ethdev.h>

#include "fake.h"
#include "weft_netif.h"
#include "weft_netif_addr.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_neigh.h"
#include "weft_netif_stats.h"
#include "weft_netif_tx.h"

#define RUN    7
#define IP_ID  4 /* RFC 791 s3.1: offsets in the header */
#define IP_SUM 10

static struct fake f;
static struct weft_ip us, peer;
static struct weft_neigh *neigh;
static uint8_t frame[FAKE_FRAME], one[FAKE_FRAME * 8], other[FAKE_FRAME * 8];

/** One way to send. */
struct way {
	bool v6;
	uint16_t vlan;
	uint64_t offloads;
	struct weft_netif_tx_how how;
};

static uint32_t
tagged(uint32_t len, uint16_t vlan)
{
	if (vlan == 0)
		return len;
	memmove(frame + 16, frame + 12, len - 12);
	weft_put_be16(frame + 12, 0x8100);
	weft_put_be16(frame + 14, vlan);
	return len + 4;
}

static void
resolve(const struct way *w)
{
	uint32_t len = w->v6 ? fake6_nd(frame, 136, 0x60, &fake6_peer, &fake6_us, &fake6_peer,
	                                &fake_peer_mac)
	                     : fake_arp(frame, 2, &fake_peer_mac, FAKE_PEER, FAKE_US);

	fake_rx(&f, frame, tagged(len, w->vlan), FAKE_FLAT, 0);
	fake_poll(&f);
	fake_drop(&f);
}

static void
start(const struct way *w)
{
	struct weft_netif_attr a;

	fake_hw = false;
	a = fake6_attr(&f);
	a.vlan_id = w->vlan;
	a.tx_offloads |= w->offloads;
	fake6_start(&f, &a);
	peer = w->v6 ? fake6_peer : weft_ip_from_v4(rte_cpu_to_be_32(FAKE_PEER));
	CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, &peer, &neigh), 0);
	us = *weft_netif_src(f.nif, &peer);
	resolve(w);
}

static void
stop(void)
{
	weft_netif_neigh_put(f.nif, neigh);
	fake_stop(&f);
}

/** The i-th segment of a run of different lengths: len octets, of which 20 are a header. Sequence
 * number, flags and window are its own. */
static struct rte_mbuf *
segment(unsigned int i, uint32_t len)
{
	struct rte_mbuf *m = weft_netif_alloc(f.nif, WEFT_NETIF_RUN_HEADROOM);
	uint8_t *p;

	CHECK(m != NULL);
	p = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)len);
	for (uint32_t k = 0; k < len; k++)
		p[k] = (uint8_t)(k * 7 +
		                 (k < 4 || (k >= 8 && k < 13) || k == 18 || k == 19 ? 0 : i * 31));
	memset(p + 16, 0, 2);         /* the checksum */
	weft_put_be32(p, 0x1f903039); /* ports: one connection */
	p[12] = 0x50;
	/* What an earlier transmission of the mbuf has left. */
	m->ol_flags = RTE_MBUF_F_TX_IPV6 | RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_VLAN;
	m->tx_offload = UINT64_MAX;
	m->vlan_tci = 0x777;
	memset(m->buf_addr, 0xee, m->data_off);
	return m;
}

static uint32_t
length(unsigned int i)
{
	return i == 0 ? 1400 : i == RUN - 1 ? 20 : 1400 - 131 * i;
}

static unsigned int
run(struct rte_mbuf **m, unsigned int n, struct weft_netif_tx_how how)
{
	return weft_netif_tx_run(f.nif, neigh, &us, &peer, m, n, how, f.now_ns);
}

/** What the port got of the i-th frame of both. */
static void
compare(const struct way *w, unsigned int i)
{
	const struct rte_mbuf *a = f.txq[i], *b = f.txq[RUN + i];
	uint32_t l3 = w->vlan != 0 && (w->offloads & RTE_ETH_TX_OFFLOAD_VLAN_INSERT) == 0 ? 18 : 14;
	uint32_t len = fake_sent(&f, i, one);

	CHECK_EQ(fake_sent(&f, RUN + i, other), len);
	CHECK_EQ(len, l3 + (w->v6 ? 40 : 20) + length(i));
	CHECK_EQ(a->ol_flags, b->ol_flags);
	CHECK_EQ(a->tx_offload, b->tx_offload);
	if ((a->ol_flags & RTE_MBUF_F_TX_VLAN) != 0)
		CHECK_EQ(a->vlan_tci, b->vlan_tci);
	if (!w->v6 && w->how.may_fragment) {
		/* RFC 6864 s4.2: an identification of its own, so the checksum differs as well. */
		CHECK(weft_get_be16(one + l3 + IP_ID) != weft_get_be16(other + l3 + IP_ID));
		if ((a->ol_flags & RTE_MBUF_F_TX_IP_CKSUM) == 0)
			CHECK_EQ(fake_cksum(other + l3, 20, 0), 0);
		memcpy(other + l3 + IP_ID, one + l3 + IP_ID, 2);
		memcpy(other + l3 + IP_SUM, one + l3 + IP_SUM, 2);
	}
	CHECK_MEM(other, one, len);
}

static void
check_way(const struct way *w)
{
	struct rte_mbuf *m[RUN];
	uint64_t bytes;

	start(w);
	for (unsigned int i = 0; i < RUN; i++)
		CHECK_EQ(weft_netif_tx(f.nif, neigh, &us, &peer, segment(i, length(i)), w->how,
		                       f.now_ns),
		         0);
	fake_poll(&f);
	bytes = weft_netif_stats(f.nif)->tx_bytes;
	for (unsigned int i = 0; i < RUN; i++)
		m[i] = segment(i, length(i));
	CHECK_EQ(run(m, RUN, w->how), RUN);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 2 * RUN);
	CHECK(weft_netif_stats(f.nif)->tx_bytes > bytes);
	for (unsigned int i = 0; i < RUN; i++)
		compare(w, i);
	stop();
}

static void
test_frames(void)
{
	static const uint64_t offloads[] = {
	        0,
	        RTE_ETH_TX_OFFLOAD_TCP_CKSUM,
	        RTE_ETH_TX_OFFLOAD_IPV4_CKSUM,
	        RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM |
	                RTE_ETH_TX_OFFLOAD_VLAN_INSERT,
	};

	for (unsigned int i = 0; i < 4 * 4 * RTE_DIM(offloads); i++)
		check_way(&(struct way){
		        .v6 = i & 1,
		        .vlan = i & 2 ? 9 : 0,
		        .how = {.own_sum = i & 4, .may_fragment = i & 8, .ecn = 2, .dscp = 46},
		        .offloads = offloads[i / 16],
		});
}

/* The sum that comes with a payload is used for exactly that payload: a segment that was cut, or
 * whose sum covers a part of it, is read. */
static void
test_summed(void)
{
	const struct way w = {.v6 = false}, port = {.offloads = RTE_ETH_TX_OFFLOAD_TCP_CKSUM};
	struct rte_mbuf *m[4];

	start(&w);
	for (unsigned int i = 0; i < 4; i++) {
		struct weft_mbuf_sum *s;
		uint64_t sum = 0;

		m[i] = segment(i, 420);
		s = &weft_mbuf_priv(m[i])->tx_sum;
		CHECK(s->wanted && s->bytes == 0);
		for (uint32_t k = 0; k < 400; k += 2)
			sum += rte_pktmbuf_mtod(m[i], uint8_t *)[20 + k] |
			       (uint64_t)rte_pktmbuf_mtod(m[i], uint8_t *)[21 + k] << 8;
		*s = (struct weft_mbuf_sum){.sum = weft_sum_add(0, sum), .bytes = 400};
	}
	rte_pktmbuf_trim(m[1], 8);
	weft_mbuf_priv(m[2])->tx_sum.bytes = 200;
	weft_mbuf_priv(m[3])->tx_sum.sum++; /* so it is used */
	CHECK_EQ(run(m, 4, w.how), 4);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 4);
	for (unsigned int i = 0; i < 4; i++) {
		const uint32_t len = i == 1 ? 412 : 420;

		CHECK_EQ(fake_sent(&f, i, one), 34 + len);
		CHECK_EQ(fake_cksum(one + 34, len,
		                    fake_pseudo(FAKE_US, FAKE_PEER, IPPROTO_TCP, len)) == 0,
		         i < 3);
	}
	stop();
	start(&port);
	m[0] = segment(0, 420);
	CHECK(!weft_mbuf_priv(m[0])->tx_sum.wanted);
	rte_pktmbuf_free(m[0]);
	stop();
}

/* A link-local destination has a zone, which no packet carries. */
static void
test_link_local(void)
{
	const struct way w = {.v6 = true};
	struct rte_mbuf *m[2];

	start(&w);
	us = fake6_us_ll;
	peer = fake6_peer_ll;
	weft_ip_set_zone(&us, 1);
	weft_ip_set_zone(&peer, 1);
	for (unsigned int i = 0; i < 2; i++)
		m[i] = segment(i, 400);
	CHECK_EQ(run(m, 2, w.how), 2);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 2);
	for (unsigned int i = 0; i < 2; i++) {
		CHECK_EQ(fake_sent(&f, i, other), 454);
		CHECK_MEM(other + 22, fake6_us_ll.b, 16);
		CHECK_MEM(other + 38, fake6_peer_ll.b, 16);
		CHECK_EQ(fake6_cksum(other, 54, IPPROTO_TCP, 400), 0);
	}
	stop();
}

/* The others stay as they are when one cannot be sent. */
static void
test_refused(void)
{
	const struct way w = {.v6 = false};
	struct rte_mbuf *m[3];

	start(&w);
	for (unsigned int bad = 0; bad < 3; bad++)
		for (unsigned int why = 0; why < 2; why++) {
			for (unsigned int i = 0; i < 3; i++)
				m[i] = segment(i, i == bad && why == 0 ? 1481 : 1480);
			if (why == 1)
				m[bad]->data_off--;
			CHECK_EQ(run(m, 3, w.how), bad);
			fake_poll(&f);
			CHECK_EQ(f.ntx, bad);
			for (unsigned int i = bad; i < 3; i++) {
				CHECK_EQ(rte_mbuf_refcnt_read(m[i]), 1);
				CHECK_EQ(m[i]->pkt_len, i == bad && why == 0 ? 1481 : 1480);
				rte_pktmbuf_free(m[i]);
			}
			fake_drop(&f);
		}
	/* The address has to be asked for again: TCP sends such segments one by one. */
	fake_pass(&f, 29 * WEFT_NS_PER_S);
	m[0] = segment(0, 99);
	CHECK_EQ(run(m, 1, w.how), 1);
	fake_pass(&f, 2 * WEFT_NS_PER_S);
	m[0] = segment(0, 99);
	CHECK_EQ(run(m, 1, w.how), 0);
	rte_pktmbuf_free(m[0]);
	stop();
}

/* A run takes what room there is, and nothing of it is dropped. */
static void
test_room(void)
{
	const struct way w = {.v6 = false};
	struct rte_mbuf *m[RUN];
	unsigned int sent = 0, n;

	start(&w);
	f.tx_room = 0;
	do {
		for (unsigned int i = 0; i < RUN; i++)
			m[i] = segment(i, 60);
		n = run(m, RUN, w.how);
		sent += n;
		CHECK_EQ(weft_netif_tx_room(f.nif), WEFT_NETIF_TXQ - sent);
		for (unsigned int i = n; i < RUN; i++)
			rte_pktmbuf_free(m[i]);
	} while (n == RUN);
	CHECK_EQ(sent, WEFT_NETIF_TXQ);
	CHECK_EQ(weft_netif_stats(f.nif)->tx_queue_full, 0);
	f.tx_room = UINT32_MAX;
	fake_poll(&f);
	CHECK_EQ(f.ntx, sent);
	stop();
}

WEFT_TEST_MAIN({"frames", test_frames}, {"summed", test_summed}, {"link_local", test_link_local},
               {"refused", test_refused}, {"room", test_room})
