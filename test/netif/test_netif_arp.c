/* SPDX-License-Identifier: BSD-3-Clause */
/** @file ARP: resolution, answers, ageing, limits and address conflicts. */

#include <rte_ip.h>

#include "../../lib/netif/netif_arp.h"
#include "../../lib/netif/netif_neigh.h"
#include "../../lib/netif/netif_park.h"
#include "../../lib/netif/netif_priv.h"
#include "fake.h"
#include "weft_netif_addr.h"
#include "weft_netif_budget.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_tx.h"

static struct fake f;
static struct weft_ip us;
static uint8_t frame[FAKE_FRAME], buf[FAKE_FRAME * 8];
static const struct rte_ether_addr new_mac = {{2, 0, 0, 0, 9, 9}};

static struct weft_ip
ip(uint32_t host_order)
{
	return weft_ip_from_v4(rte_cpu_to_be_32(host_order));
}

static struct weft_neigh *
get(uint32_t host_order)
{
	struct weft_neigh *n;
	struct weft_ip dst = ip(host_order);

	CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, &dst, &n), 0);
	return n;
}

static void
start(void)
{
	fake_start(&f, NULL);
	us = ip(FAKE_US);
}

static void
arp_in(uint16_t op, const struct rte_ether_addr *sha, uint32_t sip, uint32_t tip)
{
	fake_rx(&f, frame, fake_arp(frame, op, sha, sip, tip), FAKE_EXTBUF, 0);
	fake_poll(&f);
}

/* Check that the i-th sent frame is this ARP packet to this station. */
static void
check_arp(unsigned int i, uint16_t op, const struct rte_ether_addr *to,
          const struct rte_ether_addr *tha, uint32_t tip)
{
	static const struct rte_ether_addr zero;

	CHECK_EQ(fake_sent(&f, i, buf), 42);
	CHECK_MEM(buf, to, 6);
	CHECK_MEM(buf + 6, &fake_us_mac, 6);
	CHECK_EQ(weft_get_be16(buf + 12), 0x0806);
	CHECK_EQ(weft_get_be32(buf + 14), 0x00010800);
	CHECK_EQ(weft_get_be16(buf + 18), 0x0604);
	CHECK_EQ(weft_get_be16(buf + 20), op);
	CHECK_MEM(buf + 22, &fake_us_mac, 6);
	CHECK_EQ(weft_get_be32(buf + 28), FAKE_US);
	CHECK_MEM(buf + 32, tha != NULL ? tha : &zero, 6);
	CHECK_EQ(weft_get_be32(buf + 38), tip);
}

/* Segments are identified by their length. */
static int
tx_from(struct weft_neigh *n, uint32_t dst, uint16_t port, uint32_t len)
{
	struct weft_ip d = ip(dst);
	struct rte_mbuf *m = weft_netif_alloc(f.nif, WEFT_NETIF_HEADROOM);

	CHECK(m != NULL);
	memset(rte_pktmbuf_append(m, (uint16_t)len), 0, len);
	weft_put_be16(rte_pktmbuf_mtod(m, uint8_t *), port);
	return weft_netif_tx(f.nif, n, &us, &d, m, (struct weft_netif_tx_how){0}, f.now_ns);
}

static int
tx(struct weft_neigh *n, uint32_t dst, uint32_t len)
{
	return tx_from(n, dst, 0, len);
}

static void
check_tcp(unsigned int i, const struct rte_ether_addr *to, uint32_t len)
{
	CHECK_EQ(fake_sent(&f, i, buf), len + 34);
	CHECK_EQ(weft_get_be16(buf + 12), 0x0800);
	CHECK_MEM(buf, to, 6);
}

static void
test_announce(void)
{
	struct weft_netif_attr a = fake_attr(&f);

	fake_start(&f, &a);
	fake_stop(&f);
	/* fake_start() discards the announcement. This start keeps it. */
	start();
	netif_arp_announce(f.nif);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 1);
	check_arp(0, 1, &fake_all_mac, NULL, FAKE_US);
	fake_stop(&f);
}

static void
test_answer(void)
{
	static const struct rte_ether_addr zero;
	struct weft_neigh *n;

	start();
	arp_in(1, &fake_peer_mac, FAKE_PEER, FAKE_US);
	CHECK_EQ(f.ntx, 1);
	check_arp(0, 2, &fake_peer_mac, &fake_peer_mac, FAKE_PEER);
	fake_drop(&f);
	/* The sender of the request is known now, so no request is sent to it. */
	n = get(FAKE_PEER);
	CHECK_EQ(tx(n, FAKE_PEER, 30), 0);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 1);
	check_tcp(0, &fake_peer_mac, 30);
	fake_drop(&f);
	/* A probe (RFC 5227) is answered and changes no entry. */
	arp_in(1, &new_mac, 0, FAKE_US);
	CHECK_EQ(f.ntx, 1);
	check_arp(0, 2, &new_mac, &new_mac, 0);
	fake_drop(&f);
	/* A request for another address is not answered. A known sender's entry is updated. */
	arp_in(1, &new_mac, FAKE_PEER, FAKE_GW);
	CHECK_EQ(f.ntx, 0);
	tx(n, FAKE_PEER, 31);
	fake_poll(&f);
	check_tcp(0, &new_mac, 31);
	weft_netif_neigh_put(f.nif, n);
	CHECK_EQ(rte_is_zero_ether_addr(&zero), 1);
	fake_stop(&f);
}

static void
test_resolve(void)
{
	struct weft_neigh *n;

	start();
	n = get(FAKE_PEER);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 1);
	check_arp(0, 1, &fake_all_mac, NULL, FAKE_PEER);
	/* RFC 1122 s2.3.2.2: the latest packet is kept. The first packets of the burst are kept,
	 * too. */
	for (uint32_t i = 0; i < 40; i++)
		CHECK_EQ(tx(n, FAKE_PEER, 40 + i), 0);
	CHECK_EQ(weft_netif_stats(f.nif)->tx_unresolved, 7);
	CHECK_EQ(weft_netif_stats(f.nif)->tx_park_full, 7);
	CHECK_EQ(weft_netif_stats(f.nif)->tx_parked, 40);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 1);
	fake_drop(&f);
	fake_resolve(&f);
	CHECK_EQ(f.ntx, 1 + NETIF_PARK_MORE);
	for (uint32_t i = 0; i < NETIF_PARK_MORE; i++)
		check_tcp(i, &fake_peer_mac, 40 + i);
	check_tcp(NETIF_PARK_MORE, &fake_peer_mac, 79);
	fake_drop(&f);
	/* no further requests */
	fake_pass(&f, 20 * WEFT_NS_PER_S);
	CHECK_EQ(f.ntx, 0);
	CHECK_EQ(f.sched.wheel.armed, 0);
	weft_netif_neigh_put(f.nif, n);
	fake_stop(&f);
}

/* Packets to neighbours that do not answer hold a limited part of the pool, regardless of the
 * number of neighbours. */
static void
test_park_budget(void)
{
	struct weft_netif_budget *b;
	struct weft_neigh *n;
	uint64_t limit;

	start();
	b = &weft_netif_budgets(f.nif)->park;
	limit = b->limit;
	CHECK_EQ(limit, 8191 / 8);
	for (uint32_t k = 3; b->refused < 50; k++) {
		n = get(FAKE_IP(10, 0, k >> 8, k & 255));
		for (uint16_t p = 0; p < 8; p++)
			tx_from(n, FAKE_IP(10, 0, k >> 8, k & 255), p, 20);
		weft_netif_neigh_put(f.nif, n);
		CHECK(b->held <= limit);
	}
	CHECK_EQ(b->held, limit); /* exactly the limit, though more was requested */
	CHECK_EQ(b->most, limit);
	CHECK(weft_netif_stats(f.nif)->tx_park_full >= 50);
	fake_poll(&f);
	fake_drop(&f);
	fake_pass(&f, 4 * WEFT_NS_PER_S);
	fake_drop(&f);
	CHECK_EQ(b->held, 0);
	fake_stop(&f);
}

/* A burst of one connection does not displace the first segment of another. So no SYN has to
 * wait for its retransmission timer. */
static void
test_park_flows(void)
{
	struct weft_neigh *n, *other;
	unsigned int own = 0;

	start();
	n = get(FAKE_PEER);
	for (uint32_t i = 0; i < 100; i++)
		CHECK_EQ(tx(n, FAKE_PEER, 40 + i), 0);
	for (uint16_t p = 1; p <= 8; p++)
		CHECK_EQ(tx_from(n, FAKE_PEER, p, 20), 0);
	for (uint32_t i = 0; i < 100; i++)
		CHECK_EQ(tx_from(n, FAKE_PEER, 9, 140 + i), 0);
	fake_poll(&f);
	fake_drop(&f);
	fake_resolve(&f);
	for (unsigned int i = 0, p = 1; i < f.ntx; i++) {
		uint32_t len = fake_sent(&f, i, buf) - 34;

		if (weft_get_be16(buf + 34) == 0)
			CHECK_EQ(len, 40 + own++);
		if (len == 20)
			CHECK_EQ(weft_get_be16(buf + 34), p++);
		if (i + 1 == f.ntx)
			CHECK_EQ(p, 9);
	}
	/* 1 + 32 of the first burst were parked. The latest segment of the second burst replaced
	 * the last one. */
	CHECK_EQ(own, 1 + NETIF_PARK_MORE - 1);
	CHECK_EQ(f.ntx, NETIF_PARK_MORE + 1 + 8 + 1);
	CHECK_EQ(weft_netif_stats(f.nif)->tx_park_full, 200 - NETIF_PARK_MORE - 2);
	fake_drop(&f);
	weft_netif_neigh_put(f.nif, n);
	fake_stop(&f);

	/* Limits for one neighbour and for all. Each neighbour has some places of its own. */
	start();
	n = get(FAKE_PEER);
	for (uint16_t p = 0; p < 1000; p++)
		tx_from(n, FAKE_PEER, p, 20);
	CHECK_EQ(weft_netif_stats(f.nif)->tx_park_full, 1000 - NETIF_PARK_FLOWS);
	for (uint32_t k = 3; k < 20; k++) {
		other = get(FAKE_IP(10, 0, 0, k));
		for (uint16_t p = 0; p < 200; p++)
			tx_from(other, FAKE_IP(10, 0, 0, k), p, 20);
		CHECK(f.nif->park_shared <= NETIF_PARK_SHARED);
		CHECK(other->park_firsts >= NETIF_PARK_OWN);
		weft_netif_neigh_put(f.nif, other);
	}
	CHECK_EQ(f.nif->park_shared, NETIF_PARK_SHARED);
	CHECK_EQ(f.nif->stats.lent.park.held, NETIF_PARK_SHARED + 18 * NETIF_PARK_OWN);
	fake_drop(&f);
	fake_resolve(&f);
	CHECK_EQ(f.ntx - 18, NETIF_PARK_FLOWS); /* and the ARP requests */
	CHECK_EQ(f.nif->park_shared, NETIF_PARK_SHARED - (NETIF_PARK_FLOWS - NETIF_PARK_OWN));
	fake_pass(&f, 4 * WEFT_NS_PER_S);
	CHECK_EQ(f.nif->park_shared, 0);
	weft_netif_neigh_put(f.nif, n);
	fake_stop(&f);
}

/* Hosts behind a gateway are distinguished by every octet of their address. */
static void
test_park_hosts(void)
{
	static const uint32_t far[] = {FAKE_FAR, FAKE_FAR ^ 1, FAKE_FAR ^ 0x100, FAKE_FAR ^ 0x10000,
	                               FAKE_FAR ^ 0x1000000};
	struct weft_neigh *n;
	unsigned int syns = 0;

	start();
	n = get(FAKE_FAR);
	for (uint32_t i = 0; i < 200; i++)
		tx_from(n, FAKE_FAR, 5000, 40 + i);
	/* The list is full of segments of one connection. The first segment of each other
	 * connection still has a place. */
	for (unsigned int k = 1; k < RTE_DIM(far); k++)
		CHECK_EQ(tx_from(n, far[k], 5000, 20), 0);
	CHECK_EQ(n->park_firsts, RTE_DIM(far));
	fake_poll(&f);
	fake_drop(&f);
	fake_rx(&f, frame, fake_arp(frame, 2, &fake_peer_mac, FAKE_GW, FAKE_US), FAKE_FLAT, 0);
	fake_poll(&f);
	for (unsigned int i = 0; i < f.ntx; i++)
		syns += fake_sent(&f, i, buf) == 34 + 20;
	CHECK_EQ(syns, RTE_DIM(far) - 1);
	weft_netif_neigh_put(f.nif, n);
	fake_stop(&f);
}

/* Bursts to many neighbours leave a quarter of the shared places to first segments. */
static void
test_park_bursts(void)
{
	struct weft_neigh *n;

	start();
	for (uint32_t k = 3; k < 24; k++) {
		n = get(FAKE_IP(10, 0, 0, k));
		for (uint16_t i = 0; i < 200; i++)
			tx_from(n, FAKE_IP(10, 0, 0, k), 1, 20);
		CHECK(f.nif->park_shared <= NETIF_PARK_SHARED / 4 * 3);
		weft_netif_neigh_put(f.nif, n);
	}
	CHECK_EQ(f.nif->park_shared, NETIF_PARK_SHARED / 4 * 3);
	n = get(FAKE_IP(10, 0, 0, 30));
	for (uint16_t p = 0; p < NETIF_PARK_FLOWS; p++)
		CHECK_EQ(tx_from(n, FAKE_IP(10, 0, 0, 30), p, 20), 0);
	CHECK_EQ(n->park_firsts, NETIF_PARK_FLOWS);
	weft_netif_neigh_put(f.nif, n);
	fake_pass(&f, 4 * WEFT_NS_PER_S);
	CHECK_EQ(f.nif->park_shared, 0);
	fake_stop(&f);
}

static void
test_give_up(void)
{
	struct weft_neigh *n;

	start();
	n = get(FAKE_PEER);
	tx(n, FAKE_PEER, 40);
	tx(n, FAKE_PEER, 41);
	fake_pass(&f, 900 * WEFT_NS_PER_MS);
	CHECK_EQ(f.ntx, 1);
	fake_pass(&f, 1000 * WEFT_NS_PER_MS);
	CHECK_EQ(f.ntx, 2);
	fake_pass(&f, 20 * WEFT_NS_PER_S);
	CHECK_EQ(f.ntx, 3); /* three requests, one a second, and no more */
	CHECK_EQ(weft_netif_stats(f.nif)->tx_unresolved, 2);
	fake_drop(&f);
	/* New packets cause new requests, but at most one a second. */
	for (uint32_t i = 0; i < 3; i++)
		tx(n, FAKE_PEER, 42 + i);
	fake_pass(&f, 3100 * WEFT_NS_PER_MS);
	CHECK_EQ(f.ntx, 3);
	CHECK_EQ(weft_netif_stats(f.nif)->tx_unresolved, 5);
	/* The neighbour answers late, without a request. */
	fake_drop(&f);
	fake_resolve(&f);
	tx(n, FAKE_PEER, 50);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 1);
	check_tcp(0, &fake_peer_mac, 50);
	weft_netif_neigh_put(f.nif, n);
	fake_stop(&f);
}

static void
test_ageing(void)
{
	struct weft_neigh *n;
	unsigned int arps = 0;

	start();
	n = get(FAKE_PEER);
	fake_poll(&f);
	fake_resolve(&f);
	fake_drop(&f);
	/* An idle entry causes no request. An old entry that is used causes a unicast request,
	 * and stays in use meanwhile. */
	fake_pass(&f, 60 * WEFT_NS_PER_S);
	CHECK_EQ(f.ntx, 0);
	tx(n, FAKE_PEER, 40);
	tx(n, FAKE_PEER, 41);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 3);
	check_arp(0, 1, &fake_peer_mac, NULL, FAKE_PEER);
	check_tcp(1, &fake_peer_mac, 40);
	check_tcp(2, &fake_peer_mac, 41);
	fake_drop(&f);
	fake_resolve(&f);
	fake_pass(&f, 20 * WEFT_NS_PER_S);
	tx(n, FAKE_PEER, 42);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 1);
	fake_drop(&f);
	/* The neighbour has moved: three unicast requests, then broadcast ones, and packets are
	 * parked again. */
	fake_pass(&f, 40 * WEFT_NS_PER_S);
	tx(n, FAKE_PEER, 43);
	fake_pass(&f, 3500 * WEFT_NS_PER_MS);
	tx(n, FAKE_PEER, 44);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 5);
	for (unsigned int i = 0; i < f.ntx; i++) {
		fake_sent(&f, i, buf);
		if (weft_get_be16(buf + 12) == 0x0806)
			check_arp(i, 1, arps++ < 3 ? &fake_peer_mac : &fake_all_mac, NULL,
			          FAKE_PEER);
	}
	CHECK_EQ(arps, 4);
	fake_drop(&f);
	arp_in(2, &new_mac, FAKE_PEER, FAKE_US);
	CHECK_EQ(f.ntx, 1);
	check_tcp(0, &new_mac, 44);
	weft_netif_neigh_put(f.nif, n);
	fake_stop(&f);
}

static void
test_unconfirmed(void)
{
	struct weft_neigh *n;

	start();
	n = get(FAKE_PEER);
	fake_poll(&f);
	fake_resolve(&f);
	fake_drop(&f);
	weft_netif_neigh_unconfirmed(f.nif, n); /* it has just answered */
	fake_poll(&f);
	CHECK_EQ(f.ntx, 0);
	fake_pass(&f, 2 * WEFT_NS_PER_S);
	weft_netif_neigh_unconfirmed(f.nif, n);
	weft_netif_neigh_unconfirmed(f.nif, n);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 1);
	check_arp(0, 1, &fake_peer_mac, NULL, FAKE_PEER);
	weft_netif_neigh_put(f.nif, n);
	fake_stop(&f);
}

static void
test_route(void)
{
	static const uint32_t nowhere[] = {
	        FAKE_US, FAKE_IP(10, 0, 0, 255), FAKE_IP(10, 0, 0, 0),       FAKE_IP(127, 0, 0, 1),
	        0,       FAKE_IP(224, 1, 1, 1),  FAKE_IP(255, 255, 255, 255)};
	struct weft_netif_attr a = fake_attr(&f);
	struct weft_neigh *n, *g;
	struct weft_ip dst;

	start();
	n = get(FAKE_FAR);
	fake_poll(&f);
	check_arp(0, 1, &fake_all_mac, NULL, FAKE_GW);
	g = get(FAKE_GW);
	CHECK(n == g);
	weft_netif_neigh_put(f.nif, g);
	weft_netif_neigh_put(f.nif, n);
	for (unsigned int i = 0; i < RTE_DIM(nowhere); i++) {
		dst = ip(nowhere[i]);
		CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, &dst, &n), -EHOSTUNREACH);
		CHECK(!weft_netif_reaches(f.nif, NULL, &dst, true));
	}
	CHECK_EQ(weft_netif_stats(f.nif)->tx_no_route, RTE_DIM(nowhere));
	dst = ip(FAKE_PEER);
	dst.b[0] = 0x20; /* IPv6 */
	CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, &dst, &n), -EHOSTUNREACH);
	dst = ip(FAKE_FAR);
	CHECK(!weft_netif_reaches(f.nif, NULL, &dst, false));
	CHECK(weft_netif_reaches(f.nif, NULL, &dst, true));
	dst = ip(FAKE_PEER);
	CHECK(weft_netif_reaches(f.nif, NULL, &dst, false));
	fake_stop(&f);

	memset(&a.gateway, 0, sizeof(a.gateway));
	fake_start(&f, &a);
	dst = ip(FAKE_FAR);
	CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, &dst, &n), -EHOSTUNREACH);
	CHECK(!weft_netif_reaches(f.nif, NULL, &dst, true));
	fake_stop(&f);
}

#define BOUND 256

static void
test_bounds(void)
{
	struct weft_netif_attr a = fake_attr(&f);
	struct weft_neigh *n[BOUND], *one;
	struct weft_ip dst;
	uint64_t before;

	a.prefix_len = 8;
	memset(&a.gateway, 0, sizeof(a.gateway));
	a.max_neighs = BOUND;
	fake_start(&f, &a);
	us = ip(FAKE_US);
	for (unsigned int i = 0; i < BOUND; i++)
		n[i] = get(FAKE_IP(10, 1, i, 1));
	dst = ip(FAKE_IP(10, 2, 0, 1));
	CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, &dst, &one), -ENOBUFS);
	/* At most 64 requests are sent in a tenth of a second. The retries send the others. */
	fake_poll(&f);
	CHECK_EQ(f.ntx, 64);
	/* Unknown senders cannot displace entries that are held. */
	for (unsigned int i = 0; i < 1000; i++)
		arp_in(1, &new_mac, FAKE_IP(10, 3, i / 250, 1 + i % 250), FAKE_US);
	fake_drop(&f);
	/* The parked packets of an evicted entry are freed. */
	tx(n[7], FAKE_IP(10, 1, 7, 1), 40);
	before = weft_netif_stats(f.nif)->tx_unresolved;
	weft_netif_neigh_put(f.nif, n[7]);
	CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, &dst, &n[7]), 0);
	CHECK_EQ(weft_netif_stats(f.nif)->tx_unresolved, before + 1);
	for (unsigned int i = 0; i < BOUND; i++)
		weft_netif_neigh_put(f.nif, n[i]);
	/* Without held entries, unknown senders displace the entry that is unused the longest. */
	for (unsigned int i = 0; i < 3000; i++) {
		fake_drop(&f);
		arp_in(1, &new_mac, FAKE_IP(10, 4, i / 250, 1 + i % 250), FAKE_US);
	}
	fake_drop(&f);
	one = get(FAKE_IP(10, 4, 11, 250)); /* the last entry is still known */
	tx(one, FAKE_IP(10, 4, 11, 250), 40);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 1);
	check_tcp(0, &new_mac, 40);
	weft_netif_neigh_put(f.nif, one);
	fake_stop(&f);
}

static void
test_conflict(void)
{
	start();
	/* Our own announcement that returns by a loop is no conflict. */
	arp_in(1, &fake_us_mac, FAKE_US, FAKE_US);
	CHECK_EQ(weft_netif_stats(f.nif)->addr_conflicts, 0);
	CHECK_EQ(f.ntx, 0);
	for (unsigned int i = 0; i < 50; i++)
		arp_in(1 + i % 2, &new_mac, FAKE_US, FAKE_US);
	CHECK_EQ(weft_netif_stats(f.nif)->addr_conflicts, 50);
	CHECK_EQ(f.ntx, 1); /* defended once */
	check_arp(0, 1, &fake_all_mac, NULL, FAKE_US);
	/* RFC 5227 s1.1: DEFEND_INTERVAL is 10 s */
	fake_pass(&f, 9900 * WEFT_NS_PER_MS);
	arp_in(1, &new_mac, FAKE_US, FAKE_PEER);
	CHECK_EQ(f.ntx, 1);
	fake_pass(&f, 200 * WEFT_NS_PER_MS);
	arp_in(1, &new_mac, FAKE_US, FAKE_PEER);
	CHECK_EQ(f.ntx, 2);
	fake_stop(&f);
}

static void
test_malformed(void)
{
	/* The offset in the frame and the octet to write there. */
	static const struct {
		unsigned int off;
		uint8_t v;
	} bad[] = {{15, 6}, {16, 0x86}, {18, 8}, {19, 16}, {21, 0},
	           {21, 3}, {21, 8},    {22, 1}, {22, 3}};
	struct weft_neigh *n;
	uint64_t count = 0;
	uint32_t len;

	start();
	n = get(FAKE_PEER);
	fake_poll(&f);
	fake_drop(&f);
	for (uint32_t i = 14; i < 42; i++, count++) {
		fake_arp(frame, 2, &fake_peer_mac, FAKE_PEER, FAKE_US);
		fake_rx(&f, frame, i, FAKE_EXTBUF, 0);
	}
	for (unsigned int i = 0; i < RTE_DIM(bad); i++, count++) {
		len = fake_arp(frame, 2, &fake_peer_mac, FAKE_PEER, FAKE_US);
		frame[bad[i].off] = bad[i].v;
		fake_rx(&f, frame, len, FAKE_EXTBUF, 0);
	}
	arp_in(2, &new_mac, FAKE_FAR, FAKE_US); /* not an address of this link */
	arp_in(1, &new_mac, FAKE_FAR, FAKE_US);
	arp_in(2, &new_mac, FAKE_IP(10, 0, 0, 255), FAKE_US);
	arp_in(1, &new_mac, FAKE_IP(224, 0, 0, 1), FAKE_US);
	CHECK_EQ(weft_netif_stats(f.nif)->arp_bad, count + 4);
	CHECK_EQ(weft_netif_stats(f.nif)->arp_rx, count + 4);
	CHECK_EQ(f.ntx, 0);
	tx(n, FAKE_PEER, 40);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 0); /* still unresolved */
	/* Chained mbufs and padding are accepted. */
	len = fake_arp(frame, 2, &fake_peer_mac, FAKE_PEER, FAKE_US);
	memset(frame + len, 0, 18);
	fake_rx(&f, frame, len + 18, FAKE_CHAIN, 7);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 1);
	weft_netif_neigh_put(f.nif, n);
	fake_stop(&f);
}

/*
 * A flood of packets from on-link senders that do not exist uses up the request tokens of unknown
 * neighbours, and none of the tokens of neighbours in use. A probe that was not sent is not counted
 * as a try, and the known address stays in use.
 */
static void
test_flood(void)
{
	struct weft_netif_attr a = fake_attr(&f);
	struct weft_neigh *n, *other, *fresh = NULL;
	unsigned int probes = 0, ours = 0;
	struct weft_ip dst;
	bool asked = false;

	a.prefix_len = 8;
	fake_start(&f, &a);
	us = ip(FAKE_US);
	n = get(FAKE_PEER);
	fake_poll(&f);
	fake_resolve(&f);
	fake_pass(&f, 31 * WEFT_NS_PER_S);
	fake_drop(&f);
	for (unsigned int i = 0; i < 600; i++) {
		for (unsigned int k = 0; k < 200; k++) {
			dst = ip(FAKE_IP(10, 1 + i % 200, i / 200, 1 + k));
			CHECK_EQ(weft_netif_neigh_passing(f.nif, NULL, &dst, &other), 0);
			tx(other, FAKE_IP(10, 1 + i % 200, i / 200, 1 + k), 60);
		}
		if (i == 300)
			fresh = get(FAKE_IP(10, 250, 0, 1)); /* an active open */
		tx(n, FAKE_PEER, 40);
		fake_pass(&f, 100 * WEFT_NS_PER_MS);
		for (unsigned int k = 0; k < f.ntx; k++) {
			uint32_t len = fake_sent(&f, k, buf);

			if (len == 42 && weft_get_be32(buf + 38) == FAKE_IP(10, 250, 0, 1))
				asked = true;
			if (memcmp(buf, &fake_peer_mac, 6) != 0)
				continue;
			probes += len == 42;
			ours += len != 42;
		}
		if (n->state == NEIGH_PROBE)
			fake_resolve(&f);
		fake_drop(&f);
	}
	CHECK(weft_netif_stats(f.nif)->neigh_limited > 10000);
	CHECK_EQ(ours, 600); /* each of our segments was sent at once */
	CHECK_EQ(probes, 2);
	CHECK(asked);
	weft_netif_neigh_put(f.nif, fresh);
	weft_netif_neigh_put(f.nif, n);
	fake_stop(&f);
}

/* A request that was not sent, here for lack of tokens, is not counted as a try. */
static void
test_unsent(void)
{
	struct weft_neigh *n;

	start();
	n = get(FAKE_PEER);
	fake_poll(&f);
	fake_resolve(&f);
	fake_pass(&f, 31 * WEFT_NS_PER_S);
	fake_drop(&f);
	for (unsigned int i = 0; i < 100; i++) {
		struct netif_bucket *b = &f.nif->ask_rate[NETIF_ASK_HELD | NETIF_ASK_ANSWERED];

		b->since_ns = f.now_ns;
		b->tokens = 0;
		tx(n, FAKE_PEER, 40);
		CHECK_EQ(n->state, NEIGH_PROBE);
		CHECK_EQ(n->tries, 0);
		fake_poll(&f);
		CHECK_EQ(f.ntx, 1);
		check_tcp(0, &fake_peer_mac, 40);
		fake_drop(&f);
		f.now_ns += 50 * WEFT_NS_PER_MS;
	}
	fake_pass(&f, 200 * WEFT_NS_PER_MS);
	CHECK_EQ(n->tries, 1);
	CHECK_EQ(f.ntx, 1);
	check_arp(0, 1, &fake_peer_mac, NULL, FAKE_PEER);
	weft_netif_neigh_put(f.nif, n);
	fake_stop(&f);
}

/* RFC 4861 s7.3.1: while TCP confirms progress no request is sent, and a probe under way ends. */
static void
test_progress(void)
{
	struct weft_neigh *n;

	start();
	n = get(FAKE_PEER);
	weft_netif_neigh_confirm(n, f.now_ns); /* no effect before the address is resolved */
	fake_poll(&f);
	CHECK_EQ(n->state, NEIGH_INCOMPLETE);
	fake_resolve(&f);
	fake_drop(&f);
	for (unsigned int i = 0; i < 20; i++) {
		fake_pass(&f, 20 * WEFT_NS_PER_S);
		weft_netif_neigh_confirm(n, f.now_ns);
		tx(n, FAKE_PEER, 40);
		fake_poll(&f);
		CHECK_EQ(f.ntx, 1);
		check_tcp(0, &fake_peer_mac, 40);
		fake_drop(&f);
	}
	fake_pass(&f, 31 * WEFT_NS_PER_S);
	tx(n, FAKE_PEER, 41);
	CHECK_EQ(n->state, NEIGH_PROBE);
	weft_netif_neigh_confirm(n, f.now_ns);
	fake_pass(&f, 1100 * WEFT_NS_PER_MS);
	CHECK_EQ(n->state, NEIGH_REACHABLE);
	CHECK_EQ(f.ntx, 2); /* the segment and one request */
	fake_drop(&f);
	/* Another station has the address now. TCP's confirmation was for the old one. */
	weft_netif_neigh_confirm(n, f.now_ns);
	netif_neigh_confirm(n, &new_mac, false);
	tx(n, FAKE_PEER, 42);
	CHECK_EQ(n->state, NEIGH_PROBE);
	weft_netif_neigh_put(f.nif, n);
	fake_stop(&f);
}

/* RFC 5227 s2.4 (b): each of our addresses is defended, independently of the others. */
static void
test_defend_each(void)
{
	struct weft_netif_attr a;
	uint8_t adv[FAKE_FRAME];

	fake6_start(&f, NULL);
	a = *weft_netif_attr(f.nif);
	CHECK(!a.no_ipv6);
	us = ip(FAKE_US);
	fake_drop(&f);
	arp_in(2, &new_mac, FAKE_US, FAKE_US);
	CHECK_EQ(f.ntx, 1);
	for (unsigned int i = 0; i < 2; i++) {
		const struct weft_ip *mine = i == 0 ? &fake6_us : &fake6_us_ll;

		fake_drop(&f);
		for (unsigned int k = 0; k < 3; k++) {
			fake_rx(&f, adv, fake6_nd(adv, 136, 0x20, mine, &fake6_all, mine, &new_mac),
			        FAKE_FLAT, 0);
			fake_poll(&f);
		}
		CHECK_EQ(f.ntx, 1);
	}
	fake_stop(&f);
}

static void
no_rx(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n, uint64_t now_ns)
{
	(void)arg;
	(void)nif;
	(void)now_ns;
	rte_pktmbuf_free_bulk(m, n);
}

/*
 * The order of eviction: entries that never answered before those that did, and the gateway's
 * never. During a flood of senders that do not exist, an existing neighbour's entry lives long
 * enough for its answer.
 */
static void
test_forget(void)
{
	struct weft_netif_attr a = fake_attr(&f);
	struct weft_neigh *n, *far;
	struct weft_ip dst;

	a.prefix_len = 8;
	a.max_neighs = WEFT_NETIF_NEIGHS_MAX + 1;
	CHECK_EQ(weft_netif_create(&a, &(struct weft_netif_ops){.tcp_rx = no_rx}, NULL, &f.sched,
	                           &f.nif),
	         -EINVAL);
	a.max_neighs = BOUND;
	fake_start(&f, &a);
	us = ip(FAKE_US);
	for (unsigned int i = 0; i < BOUND / 2; i++) {
		arp_in(1, &new_mac, FAKE_IP(10, 1, 0, 1 + i), FAKE_US);
		fake_drop(&f);
	}
	for (unsigned int i = 0; i < 2000; i++) {
		dst = ip(FAKE_IP(10, 2, i / 250, 1 + i % 250));
		CHECK_EQ(weft_netif_neigh_passing(f.nif, NULL, &dst, &n), 0);
		tx(n, FAKE_IP(10, 2, i / 250, 1 + i % 250), 60);
	}
	for (unsigned int i = 0; i < BOUND / 2; i++) {
		dst = ip(FAKE_IP(10, 1, 0, 1 + i));
		CHECK(netif_neigh_find(&f.nif->vlan[0], &dst) != NULL);
	}
	/* All places are taken by neighbours that answered once. Unknown ones get back a
	 * quarter, and no more. */
	for (unsigned int i = 0; i < 2 * BOUND; i++) {
		arp_in(1, &new_mac, FAKE_IP(10, 3, i / 250, 1 + i % 250), FAKE_US);
		fake_drop(&f);
	}
	for (unsigned int i = 0; i < 2000; i++) {
		dst = ip(FAKE_IP(10, 4, i / 250, 1 + i % 250));
		CHECK_EQ(weft_netif_neigh_passing(f.nif, NULL, &dst, &n), 0);
	}
	CHECK_EQ(f.nif->nstrangers, f.nif->nneighs / 4);
	for (unsigned int i = 2000 - BOUND / 4; i < 2000; i++) {
		dst = ip(FAKE_IP(10, 4, i / 250, 1 + i % 250));
		CHECK(netif_neigh_find(&f.nif->vlan[0], &dst) != NULL);
	}
	/* The gateway keeps its place regardless of the other entries. */
	dst = ip(FAKE_GW);
	CHECK(netif_neigh_find(&f.nif->vlan[0], &dst) != NULL);
	far = get(FAKE_FAR);
	CHECK(far == netif_neigh_find(&f.nif->vlan[0], &dst));
	weft_netif_neigh_put(f.nif, far);
	fake_stop(&f);
}

WEFT_TEST_MAIN({"announce", test_announce}, {"answer", test_answer}, {"resolve", test_resolve},
               {"park_flows", test_park_flows}, {"park_hosts", test_park_hosts},
               {"park_bursts", test_park_bursts}, {"park_budget", test_park_budget},
               {"give_up", test_give_up}, {"ageing", test_ageing},
               {"unconfirmed", test_unconfirmed}, {"route", test_route}, {"bounds", test_bounds},
               {"conflict", test_conflict}, {"malformed", test_malformed}, {"flood", test_flood},
               {"forget", test_forget}, {"unsent", test_unsent}, {"progress", test_progress},
               {"defend_each", test_defend_each})
