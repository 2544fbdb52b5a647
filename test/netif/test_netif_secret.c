/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Information that a scanner must not get or compute: the number of packets sent to other
 * hosts, from identifications that the scanner sees; and addresses with the same slot in the
 * neighbour table.
 */

#include <rte_ip.h>

#include "../../lib/netif/netif_ip.h"
#include "../../lib/netif/netif_neigh.h"
#include "../../lib/netif/netif_park.h"
#include "../../lib/netif/netif_priv.h"
#include "fake.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_tx.h"

#define PROBES 400

static struct fake f;
static struct weft_ip us, peer;
static struct weft_neigh *neigh;
static uint8_t buf[FAKE_FRAME * 8];

static void
start(uint64_t seed)
{
	struct weft_netif_attr a = fake_attr(&f);

	fake_seed = seed;
	fake_start(&f, &a);
	us = weft_ip_from_v4(rte_cpu_to_be_32(FAKE_US));
	peer = weft_ip_from_v4(rte_cpu_to_be_32(FAKE_PEER));
	CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, &peer, &neigh), 0);
	fake_resolve(&f);
	fake_drop(&f);
}

static void
stop(void)
{
	weft_netif_neigh_put(f.nif, neigh);
	fake_stop(&f);
}

/* ---- Identifications ---- */

/** Send one segment to a host behind this neighbour. Returns its identification. */
static uint16_t
tcp_id(uint32_t host, bool may_fragment)
{
	struct weft_netif_tx_how how = {.may_fragment = may_fragment};
	struct weft_ip dst = weft_ip_from_v4(rte_cpu_to_be_32(host));
	struct rte_mbuf *m = weft_netif_alloc(f.nif, WEFT_NETIF_HEADROOM);
	uint8_t *h = (uint8_t *)rte_pktmbuf_append(m, 20);

	CHECK(h != NULL);
	memset(h, 0, 20);
	h[12] = 0x50;
	CHECK_EQ(weft_netif_tx(f.nif, neigh, &us, &dst, m, how, f.now_ns), 0);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 1);
	fake_sent(&f, 0, buf);
	fake_drop(&f);
	CHECK_EQ(weft_get_be16(buf + 20), may_fragment ? 0 : 0x4000);
	return weft_get_be16(buf + 18);
}

/** Receive a ping from a host. Returns the answer's identification. */
static uint16_t
ping_id(uint32_t host)
{
	static uint8_t frame[FAKE_FRAME];
	uint32_t len = fake_build(
	        frame, &(struct fake_pkt){.src = host, .data = 16, .proto = IPPROTO_ICMP});

	frame[34] = 8;
	frame[35] = 0;
	fake_fix(frame);
	fake_rx(&f, frame, len, FAKE_FLAT, 0);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 1);
	fake_sent(&f, 0, buf);
	fake_drop(&f);
	CHECK_EQ(buf[34], 0);
	return weft_get_be16(buf + 18);
}

/**
 * A scanner probes. Between two probes a victim is sent `between` packets. Returns how often the
 * difference of two answers reveals that number.
 */
static unsigned int
idle_scan(bool by_ping, unsigned int between)
{
	unsigned int told = 0;
	uint16_t last = by_ping ? ping_id(FAKE_FAR) : tcp_id(FAKE_FAR, true), id;

	for (unsigned int i = 0; i < PROBES; i++, last = id) {
		for (unsigned int k = 0; k < between; k++)
			(void)(k % 2 == 0 ? tcp_id(FAKE_PEER, true) : ping_id(FAKE_PEER));
		id = by_ping ? ping_id(FAKE_FAR) : tcp_id(FAKE_FAR, true);
		told += (uint16_t)(id - last) == between + 1;
	}
	return told;
}

static void
test_idle_scan(void)
{
	static const unsigned int between[] = {0, 1, 2, 7, 40};

	for (unsigned int i = 0; i < 2 * RTE_DIM(between); i++) {
		unsigned int told;

		start(i + 1);
		told = idle_scan(i % 2 == 0, between[i / 2]);
		/* By chance once in 65536. */
		CHECK_MSG(told <= 2, "%u of %u differences tell of %u packets", told, PROBES,
		          between[i / 2]);
		stop();
	}
}

/** RFC 6864 s4.1: a datagram that must not be fragmented needs no identification. */
static void
test_atomic(void)
{
	start(1);
	for (unsigned int i = 0; i < 100; i++) {
		CHECK_EQ(tcp_id(FAKE_PEER, false), 0);
		CHECK_EQ(tcp_id(FAKE_FAR, false), 0);
		(void)tcp_id(FAKE_FAR, true);
	}
	stop();
}

/** RFC 6864 s4.2: the identification of a datagram that may be fragmented is not repeated soon. */
static void
test_unique(void)
{
	static uint8_t seen[65536 / 8];
	uint64_t from = 0;

	start(2);
	for (unsigned int round = 0; round < 3; round++, from += 65536) {
		uint32_t dst = rte_cpu_to_be_32(FAKE_PEER + round);

		memset(seen, 0, sizeof(seen));
		for (unsigned int i = 0; i < 65536; i++) {
			uint16_t id;

			f.nif->ip_ids = from + i;
			id = netif_ip_id(f.nif, rte_cpu_to_be_32(FAKE_US), dst, IPPROTO_TCP, false);
			CHECK((seen[id / 8] & 1u << id % 8) == 0);
			seen[id / 8] |= (uint8_t)(1u << id % 8);
		}
	}
	stop();
}

/** Other destinations, protocols, keys and rounds give other numbers for the same packet. */
static void
test_keyed(void)
{
	uint16_t id[5];
	unsigned int same = 0;

	for (uint64_t i = 0; i < 1000; i++) {
		for (unsigned int k = 0; k < 5; k++) {
			static struct weft_netif nif;

			nif.ip_ids = i + (k == 1 ? 65536 : 0);
			nif.id_key[0] = k == 2;
			id[k] = netif_ip_id(&nif, 1, k == 3 ? 3 : 2,
			                    k == 4 ? IPPROTO_ICMP : IPPROTO_TCP, false);
			same += k > 0 && id[k] == id[0];
		}
	}
	CHECK_MSG(same <= 3, "%u of 4000 are the same", same);
}

/* ---- Neighbours ---- */

/** The table's former hash, without a key. */
static uint64_t
unkeyed(const struct weft_ip *ip)
{
	uint64_t w[2];

	memcpy(w, ip->b, sizeof(w));
	return (w[0] ^ w[1]) * 0x9e3779b97f4a7c15ULL;
}

static unsigned int
longest_chain(void)
{
	unsigned int most = 0;

	for (unsigned int i = 0; i < 1u << f.nif->bucket_bits; i++) {
		struct weft_neigh *n;
		unsigned int len = 0;

		LIST_FOREACH (n, &f.nif->bucket[i], chain)
			len++;
		most = RTE_MAX(most, len);
	}
	return most;
}

/** Addresses on the link with equal former hashes fill the table: chains stay short. */
static void
test_collisions(void)
{
	for (unsigned int v6 = 0; v6 < 2; v6++) {
		struct weft_netif_attr a = v6 ? fake6_attr(&f) : fake_attr(&f);
		unsigned int made = 0;
		struct weft_ip ip;

		memset(&a.gateway, 0, sizeof(a.gateway));
		a.prefix_len = 8;
		fake_seed = 3 + v6;
		fake_create(&f, &a);
		fake_pass(&f, 3 * WEFT_NS_PER_S);
		fake_drop(&f);
		for (uint32_t i = 1; made < f.nif->nneighs; i++) {
			if (v6) {
				ip = fake6_peer;
				weft_put_be32(&ip.b[12], i);
			} else {
				ip = weft_ip_from_v4(rte_cpu_to_be_32(FAKE_IP(10, 0, 1, 0) + i));
			}
			if (unkeyed(&ip) >> (64 - f.nif->bucket_bits) != 5)
				continue;
			CHECK(netif_neigh_make(&f.nif->vlan[0], &ip) != NULL);
			made++;
		}
		CHECK_MSG(longest_chain() <= 12, "%u of %u neighbours in one chain",
		          longest_chain(), made);
		fake_stop(&f);
	}
}

/** Connections whose addresses and ports had equal former hashes are parked separately. */
static void
test_parked(void)
{
	start(5);
	neigh->state = NEIGH_INCOMPLETE;
	for (uint32_t d = 0; d < NETIF_PARK_FLOWS; d++) {
		struct weft_ip dst = weft_ip_from_v4(rte_cpu_to_be_32(FAKE_FAR ^ d));
		struct weft_netif_tx_how how = {0};
		struct rte_mbuf *m = weft_netif_alloc(f.nif, WEFT_NETIF_HEADROOM);
		uint8_t *t = (uint8_t *)rte_pktmbuf_append(m, 20);

		CHECK(t != NULL);
		memset(t, 0, 20);
		/* the former hash was a function of address xor ports */
		weft_put_be32(t, (7471u << 16 | 5000) ^ d);
		t[12] = 0x50;
		CHECK_EQ(weft_netif_tx(f.nif, neigh, &us, &dst, m, how, f.now_ns), 0);
	}
	CHECK_EQ(neigh->park_firsts, NETIF_PARK_FLOWS);
	CHECK_EQ(neigh->park_more, 0);
	stop();
}

WEFT_TEST_MAIN({"idle scan", test_idle_scan}, {"no identification", test_atomic},
               {"identifications come once", test_unique},
               {"identifications are keyed", test_keyed}, {"neighbours collide", test_collisions},
               {"connections that wait collide", test_parked})
