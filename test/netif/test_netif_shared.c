/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A shared port: what it does not say, its way to its own address, and its TCP ports. */

#include <rte_ip.h>

#include "../../lib/netif/netif_priv.h"
#include "fake.h"
#include "weft_netif.h"
#include "weft_netif_addr.h"
#include "weft_netif_group.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_neigh.h"
#include "weft_netif_shared.h"
#include "weft_netif_tx.h"

static struct fake f;
static uint8_t frame[FAKE_FRAME], buf[FAKE_FRAME * 8];
static const struct rte_ether_addr new_mac = {{2, 0, 0, 0, 9, 9}};

static struct weft_ip
ip(uint32_t host_order)
{
	return weft_ip_from_v4(rte_cpu_to_be_32(host_order));
}

static void
start(bool ipv6)
{
	struct weft_netif_attr a = ipv6 ? fake6_attr(&f) : fake_attr(&f);

	a.shared = true;
	fake_create(&f, &a);
	fake_poll(&f);
}

static void
in(uint32_t len)
{
	fake_rx(&f, frame, len, FAKE_EXTBUF, 0);
	fake_poll(&f);
}

/** Nothing is announced or probed, at the start and when the link is back. */
static void
test_silent(void)
{
	struct weft_netif_net_info info;

	start(true);
	CHECK_EQ(f.ntx, 0);
	for (unsigned int i = 0; weft_netif_net_info(f.nif, i, &info) == 0; i++)
		CHECK(!info.tentative && !info.duplicate);
	fake_pass(&f, 3 * WEFT_NS_PER_S);
	f.no_link = true;
	fake_pass(&f, 3 * WEFT_NS_PER_S);
	CHECK(!weft_netif_link_up(f.nif));
	f.no_link = false;
	fake_pass(&f, 3 * WEFT_NS_PER_S);
	CHECK(weft_netif_link_up(f.nif));
	CHECK_EQ(f.ntx, 0);
	fake_stop(&f);
}

/** Requests and packets that the owner of the device answers. */
static void
test_no_answers(void)
{
	static const uint8_t echo6[16] = {128};
	const struct weft_ip group = fake6_solicited(&fake6_us);
	uint32_t len;

	start(true);
	in(fake_arp(frame, 1, &fake_peer_mac, FAKE_PEER, FAKE_US));
	in(fake_arp(frame, 1, &fake_peer_mac, 0, FAKE_US)); /* a probe */
	in(fake_arp(frame, 2, &new_mac, FAKE_US, FAKE_US)); /* a conflict */
	in(fake6_nd(frame, 135, 0, &fake6_peer, &group, &fake6_us, &fake_peer_mac));
	in(fake6_nd(frame, 135, 0, &fake6_none, &group, &fake6_us, NULL));
	in(fake6_nd(frame, 136, 0x20, &fake6_us, &fake6_all, &fake6_us, &new_mac));
	in(fake_build(frame, &(struct fake_pkt){.proto = IPPROTO_UDP, .data = 20}));
	in(fake_build(frame, &(struct fake_pkt){.proto = 132, .data = 20}));
	len = fake_build(frame, &(struct fake_pkt){.proto = IPPROTO_ICMP, .data = 64});
	frame[34] = 8;
	frame[35] = 0;
	fake_fix(frame);
	in(len);
	len = fake6_build(
	        frame,
	        &(struct fake6_pkt){.next = IPPROTO_ICMPV6, .body = echo6, .data = sizeof(echo6)});
	in(len);
	in(fake6_build(frame, &(struct fake6_pkt){.next = IPPROTO_UDP, .data = 20}));
	fake_pass(&f, 3 * WEFT_NS_PER_S);
	CHECK_EQ(f.ntx, 0);
	CHECK_EQ(weft_netif_stats(f.nif)->addr_conflicts, 0);
	CHECK(weft_netif_is_local(f.nif, &fake6_us));
	fake_stop(&f);
}

/** A neighbour is asked for, and learnt from the answer. */
static void
test_asks(void)
{
	const struct weft_ip peer = ip(FAKE_PEER);
	struct weft_neigh *n;

	start(false);
	CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, &peer, &n), 0);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 1);
	CHECK_EQ(fake_sent(&f, 0, buf), 42);
	CHECK_EQ(weft_get_be16(buf + 20), 1);
	in(fake_arp(frame, 2, &fake_peer_mac, FAKE_PEER, FAKE_US));
	CHECK_EQ(weft_netif_stats(f.nif)->neigh_failed, 0);
	fake_pass(&f, 5 * WEFT_NS_PER_S);
	CHECK_EQ(f.ntx, 1);
	weft_netif_neigh_put(f.nif, n);
	fake_stop(&f);
}

static void
send_to(struct weft_neigh *n, const struct weft_ip *to)
{
	struct rte_mbuf *m = weft_netif_alloc(f.nif, WEFT_NETIF_HEADROOM);

	CHECK(m != NULL);
	memset(rte_pktmbuf_append(m, 60), 0, 60);
	rte_pktmbuf_mtod(m, uint8_t *)[12] = 0x50;
	CHECK_EQ(weft_netif_tx(f.nif, n, to, to, m, (struct weft_netif_tx_how){0}, f.now_ns), 0);
	fake_poll(&f);
}

/** Frames for its own address go to the port, to its own MAC, and none asks for it. */
static void
check_self(const struct weft_ip *us)
{
	struct weft_neigh *n;

	CHECK(weft_netif_reaches(f.nif, us, us, false));
	CHECK(weft_ip_eq(weft_netif_src(f.nif, us), us));
	CHECK_EQ(weft_netif_neigh_get(f.nif, us, us, &n), 0);
	/* Longer than an answer of a neighbour is trusted. */
	for (unsigned int i = 0; i < 4; i++) {
		send_to(n, us);
		CHECK_EQ(f.ntx, 1);
		CHECK(fake_sent(&f, 0, buf) >= 14 + 20 + 60);
		CHECK_MEM(buf, &fake_us_mac, 6);
		CHECK_MEM(buf + 6, &fake_us_mac, 6);
		fake_drop(&f);
		fake_pass(&f, 20 * WEFT_NS_PER_S);
		CHECK_EQ(f.ntx, 0);
	}
	weft_netif_neigh_put(f.nif, n);
}

static void
test_self(void)
{
	const struct weft_ip us = ip(FAKE_US);

	start(true);
	check_self(&us);
	check_self(&fake6_us);
	check_self(&fake6_us_ll);
	fake_stop(&f);
}

/** Segments from its own address come from another process. */
static void
test_from_self(void)
{
	const struct weft_ip group = fake6_solicited(&fake6_us);

	start(true);
	in(fake_build(frame, &(struct fake_pkt){.src = FAKE_US, .data = 10}));
	CHECK_EQ(f.nup, 1);
	in(fake6_build(frame, &(struct fake6_pkt){.src = &fake6_us, .data = 10}));
	CHECK_EQ(f.nup, 2);
	/* Neighbor Discovery of another process, which the port returns. */
	in(fake6_build(frame, &(struct fake6_pkt){.src = &fake6_none, .dst = &group, .data = 10}));
	CHECK_EQ(f.nup, 2);
	CHECK_EQ(weft_netif_stats(f.nif)->rx_not_ours, 1);
	fake_stop(&f);
}

/** A port that is not shared drops what seems to come from itself, and does not send there. */
static void
test_not_shared(void)
{
	const struct weft_ip us = ip(FAKE_US);
	struct weft_neigh *n;

	fake_start(&f, NULL);
	CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, &us, &n), -EHOSTUNREACH);
	in(fake_build(frame, &(struct fake_pkt){.src = FAKE_US, .data = 10}));
	CHECK_EQ(f.nup, 0);
	CHECK_EQ(weft_netif_ports_add(f.nif, 1, 2, false), -EINVAL);
	CHECK_EQ(weft_netif_ports_drop(f.nif, 1, 2), -EINVAL);
	CHECK(weft_netif_port_ours(f.nif, 1));
	CHECK_EQ(weft_netif_stats(f.nif)->rx_not_our_port, 0);
	fake_stop(&f);
}

/* ---- Ports ---- */

static void
test_ports(void)
{
	start(false);
	CHECK(!weft_netif_port_ours(f.nif, 7));
	CHECK_EQ(weft_netif_stats(f.nif)->rx_not_our_port, 1);
	CHECK_EQ(weft_netif_ports_add(f.nif, 0, 7, false), -EINVAL);
	CHECK_EQ(weft_netif_ports_add(f.nif, 8, 7, false), -EINVAL);
	CHECK_EQ(weft_netif_ports_add(f.nif, 7, 9, false), 0);
	CHECK_EQ(weft_netif_ports_add(f.nif, 65535, 65535, false), 0);
	CHECK(!weft_netif_port_ours(f.nif, 6));
	CHECK(weft_netif_port_ours(f.nif, 7));
	CHECK(weft_netif_port_ours(f.nif, 9));
	CHECK(!weft_netif_port_ours(f.nif, 10));
	CHECK(weft_netif_port_ours(f.nif, 65535));
	CHECK_EQ(weft_netif_ports_drop(f.nif, 8, 8), 0);
	CHECK(weft_netif_port_ours(f.nif, 7));
	CHECK(!weft_netif_port_ours(f.nif, 8));
	CHECK_EQ(weft_netif_ports_add(f.nif, 5, 7, true), -EINVAL);
	CHECK_EQ(weft_netif_ports_add(f.nif, 50000, 50001, true), 0);
	CHECK_EQ(weft_netif_ports_drop(f.nif, 49000, 50000), -EINVAL);
	CHECK(weft_netif_port_ours(f.nif, 50000));
	for (uint16_t i = 1; i < WEFT_NETIF_PORT_BLOCKS; i++)
		CHECK_EQ(weft_netif_ports_add(f.nif, 51000 + i, 51000 + i, true), 0);
	CHECK_EQ(weft_netif_ports_add(f.nif, 52000, 52000, true), -ENOSPC);
	CHECK(!weft_netif_port_ours(f.nif, 52000));
	fake_stop(&f);
}

static uint8_t taken[65536];

static bool
usable(void *arg, uint16_t port)
{
	(void)arg;
	return taken[port] == 0;
}

static int
pick(uint32_t dst, uint16_t dst_port)
{
	const struct weft_ip from = ip(FAKE_US), to = ip(dst);

	return weft_netif_pick_port(f.nif, &from, &to, dst_port, &f.sched.rand, usable, NULL);
}

static bool
leads(uint16_t port)
{
	const struct weft_ip us = ip(FAKE_US), peer = ip(FAKE_PEER);

	return weft_netif_port_leads(f.nif, &(struct weft_netif_flow){.local = &us,
	                                                              .remote = &peer,
	                                                              .local_port = port,
	                                                              .remote_port = 7});
}

/** Active opens use every port of the blocks and no other, in no order. */
static void
test_pick(void)
{
	static const uint16_t bounds[2][2] = {{49152, 49200}, {60000, 60007}};
	unsigned int in_order = 0;
	int last = 0;

	fake_seed = 7;
	memset(taken, 0, sizeof(taken));
	start(false);
	CHECK_EQ(weft_netif_ports_add(f.nif, 1, 2000, false), 0);
	CHECK_EQ(pick(FAKE_PEER, 7), -EADDRNOTAVAIL);
	/* One that is named has only to be ours. */
	CHECK(leads(1) && leads(2000) && !leads(2001) && !leads(49152));
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(weft_netif_ports_add(f.nif, bounds[i][0], bounds[i][1], true), 0);
	for (unsigned int i = 0; i < 49 + 8; i++) {
		const int p = pick(FAKE_PEER, 7);

		CHECK((p >= bounds[0][0] && p <= bounds[0][1]) ||
		      (p >= bounds[1][0] && p <= bounds[1][1]));
		CHECK_EQ(taken[p], 0);
		taken[p] = 1;
		in_order += p == last + 1;
		last = p;
	}
	CHECK(in_order < 45);
	CHECK_EQ(pick(FAKE_PEER, 7), -EADDRNOTAVAIL);
	/* One more block. */
	CHECK_EQ(weft_netif_ports_add(f.nif, 50000, 50000, true), 0);
	CHECK_EQ(pick(FAKE_PEER, 7), 50000);
	/* A connection of a port to itself would have one end. */
	CHECK_EQ(pick(FAKE_PEER, 50000), 50000);
	CHECK_EQ(pick(FAKE_US, 50000), -EADDRNOTAVAIL);
	CHECK_EQ(pick(FAKE_US, 50001), 50000);
	fake_stop(&f);
	fake_seed = 0;
}

static void
no_rx(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n, uint64_t now_ns)
{
	(void)arg;
	(void)nif;
	(void)now_ns;
	rte_pktmbuf_free_bulk(m, n);
}

static void
test_not_with_a_group(void)
{
	static const struct weft_netif_ops ops = {.tcp_rx = no_rx};
	struct weft_netif_attr a = fake_attr(&f);
	struct weft_netif_group *g;
	struct weft_netif *nif;

	CHECK_EQ(weft_netif_group_create(
	                 &(struct weft_netif_group_attr){
	                         .members = 1, .rx_queues = 1, .tx_queues = 1, .key_bytes = 40},
	                 &g),
	         0);
	a.group = g;
	a.shared = true;
	CHECK_EQ(weft_netif_create(&a, &ops, NULL, &f.sched, &nif), -EINVAL);
	a.group = NULL;
	CHECK_EQ(weft_netif_create(&a, &ops, NULL, &f.sched, &nif), 0);
	weft_netif_destroy(nif);
	weft_netif_group_destroy(g);
}

WEFT_TEST_MAIN({"a shared port announces and probes nothing", test_silent},
               {"a shared port answers no request and sends no error", test_no_answers},
               {"a shared port asks for its neighbours", test_asks},
               {"frames for its own address go to the port", test_self},
               {"segments from its own address are another process's", test_from_self},
               {"a port of its own does neither", test_not_shared},
               {"TCP ports become and cease to be its own", test_ports},
               {"active opens use the ports of their blocks", test_pick},
               {"a shared port has no group", test_not_with_a_group})
