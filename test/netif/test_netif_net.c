/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Several networks and VLANs on one interface: each address lives on its own VLAN alone. */

#include <rte_arp.h>
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
static uint8_t frame[FAKE_FRAME], out[FAKE_FRAME * 8];

/* The networks of the tests. The first two are those of fake6_attr(). */
enum { NET_US, NET_US6, NET_SECOND, NET_7, NET_7_6, NET_9, NET_9_6, NETS };
#define V7_US    FAKE_IP(10, 7, 0, 1)
#define V7_PEER  FAKE_IP(10, 7, 0, 2)
#define V7_GW    FAKE_IP(10, 7, 0, 254)
#define V9_US    FAKE_IP(10, 9, 0, 1)
#define V9_PEER  FAKE_IP(10, 9, 3, 2)
#define SECOND   FAKE_IP(10, 0, 1, 1) /* untagged, beside FAKE_US */
#define SEC_PEER FAKE_IP(10, 0, 1, 2)

static const struct weft_ip v7_us6 = {.b = {0x20, 0x01, 0x0d, 0xb8, 0, 7, [15] = 1}};
static const struct weft_ip v7_peer6 = {.b = {0x20, 0x01, 0x0d, 0xb8, 0, 7, [15] = 2}};
static const struct weft_ip v9_us6 = {.b = {0x20, 0x01, 0x0d, 0xb8, 0, 9, [15] = 0x91}};
static const struct weft_ip v9_peer6 = {.b = {0x20, 0x01, 0x0d, 0xb8, 0, 9, [15] = 2}};
static const struct rte_ether_addr peer7_mac = {{2, 0, 0, 0, 7, 2}};
static const struct rte_ether_addr peer9_mac = {{2, 0, 0, 0, 9, 2}};

static const uint16_t vlan_of[NETS] = {0, 0, 0, 7, 7, 9, 9};

static struct weft_ip
ip4(uint32_t host_order)
{
	return weft_ip_from_v4(rte_cpu_to_be_32(host_order));
}

static struct weft_ip
us(unsigned int net)
{
	const uint32_t v4[NETS] = {FAKE_US, 0, SECOND, V7_US, 0, V9_US, 0};

	return v4[net] != 0     ? ip4(v4[net])
	       : net == NET_US6 ? fake6_us
	       : net == NET_7_6 ? v7_us6
	                        : v9_us6;
}

static struct weft_ip
peer(unsigned int net)
{
	const uint32_t v4[NETS] = {FAKE_PEER, 0, SEC_PEER, V7_PEER, 0, V9_PEER, 0};

	return v4[net] != 0     ? ip4(v4[net])
	       : net == NET_US6 ? fake6_peer
	       : net == NET_7_6 ? v7_peer6
	                        : v9_peer6;
}

static struct weft_netif_attr
attr(void)
{
	struct weft_netif_attr a = fake6_attr(&f);

	a.nets[0] = (struct weft_netif_net){ip4(SECOND), {{0}}, 24, 0};
	a.nets[1] = (struct weft_netif_net){ip4(V7_US), ip4(V7_GW), 24, 7};
	a.nets[2] = (struct weft_netif_net){v7_us6, {.b = {0xfe, 0x80, [15] = 0x7f}}, 64, 7};
	a.nets[3] = (struct weft_netif_net){ip4(V9_US), {{0}}, 16, 9};
	a.nets[4] = (struct weft_netif_net){v9_us6, {{0}}, 64, 9};
	a.nnets = 5;
	return a;
}

static void
start(void)
{
	struct weft_netif_attr a = attr();

	fake6_start(&f, &a);
}

/* Insert a tag into the frame of `len` octets, unless vlan is 0. Returns the new length. */
static uint32_t
tag(uint32_t len, uint16_t vlan)
{
	if (vlan == 0)
		return len;
	memmove(frame + 16, frame + 12, len - 12);
	weft_put_be16(frame + 12, 0x8100);
	weft_put_be16(frame + 14, vlan);
	return len + 4;
}

static void
deliver(uint32_t len, uint16_t vlan)
{
	fake_rx(&f, frame, tag(len, vlan), FAKE_FLAT, 0);
	fake_poll(&f);
}

static uint32_t
be32(const struct weft_ip *ip)
{
	return rte_be_to_cpu_32(weft_ip_v4(ip));
}

/* A TCP segment between these two. */
static uint32_t
segment(const struct weft_ip *src, const struct weft_ip *dst)
{
	return weft_ip_is_v4(dst)
	               ? fake_build(
	                         frame,
	                         &(struct fake_pkt){.src = be32(src), .dst = be32(dst), .data = 33})
	               : fake6_build(frame,
	                             &(struct fake6_pkt){.src = src, .dst = dst, .data = 33});
}

/* The VLAN of the i-th sent frame, which is left in `out` without its tag. */
static uint16_t
sent(unsigned int i, uint32_t *len)
{
	uint16_t vlan = 0;

	*len = fake_sent(&f, i, out);
	if (weft_get_be16(out + 12) == 0x8100) {
		vlan = weft_get_be16(out + 14);
		memmove(out + 12, out + 16, *len - 16);
		*len -= 4;
	}
	return vlan;
}

/* ---- Receive ---- */

/* A segment reaches TCP on the VLAN of its destination alone. On another VLAN of ours it is not for
 * us; on any other VLAN the tag is refused. */
static void
test_rx(void)
{
	static const uint16_t vlans[] = {0, 7, 9, 8, 4095};

	for (unsigned int strip = 0; strip < 2; strip++) {
		struct weft_netif_attr a = attr();

		if (strip)
			a.rx_offloads |= RTE_ETH_RX_OFFLOAD_VLAN_STRIP;
		fake6_start(&f, &a);
		for (unsigned int n = 0; n < NETS; n++)
			for (unsigned int v = 0; v < RTE_DIM(vlans); v++) {
				const struct weft_netif_stats *st = weft_netif_stats(f.nif);
				uint64_t vlan = st->rx_vlan, others = st->rx_not_ours;
				bool right = vlans[v] == vlan_of[n];
				struct weft_ip from = peer(n), to = us(n);
				uint32_t len = segment(&from, &to);

				fake_drop(&f);
				if (strip) {
					struct rte_mbuf *m = fake_rx(&f, frame, len, FAKE_FLAT, 0);

					m->vlan_tci = vlans[v];
					m->ol_flags |=
					        vlans[v] == 0 ? 0
					                      : RTE_MBUF_F_RX_VLAN |
					                                RTE_MBUF_F_RX_VLAN_STRIPPED;
					fake_poll(&f);
				} else {
					deliver(len, vlans[v]);
				}
				CHECK_EQ(f.nup, right);
				CHECK_EQ(st->rx_vlan - vlan, v >= 3);
				CHECK_EQ(st->rx_not_ours - others, !right && v < 3);
				if (right) {
					CHECK(weft_ip_eq(&weft_mbuf_priv(f.up[0])->rx.dst, &to));
					CHECK(weft_ip_eq(&weft_mbuf_priv(f.up[0])->rx.src, &from));
				}
			}
		fake_stop(&f);
	}
}

static uint64_t rng;

static uint32_t
draw(uint32_t n)
{
	rng = rng * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(rng >> 33) % n;
}

/* Sixteen random networks, and random destinations and VLANs, against a list. */
static void
test_rx_random(void)
{
	rng = test_seed(18);
	test_seed_note(rng);
	for (unsigned int round = 0; round < 20; round++) {
		struct weft_netif_attr a = fake_attr(&f);
		uint32_t addr[WEFT_NETIF_NETS];
		uint16_t vlan[WEFT_NETIF_NETS];

		memset(&a.addr, 0, sizeof(a.addr));
		memset(&a.gateway, 0, sizeof(a.gateway));
		for (unsigned int i = 0; i < WEFT_NETIF_NETS; i++) {
			/* Of one to three hosts each in networks of their own, VLANs of any
			 * number. */
			vlan[i] = (uint16_t)((i / 3) * 818);
			addr[i] = FAKE_IP(10, 20 + i / 3, 0, 1 + draw(3) * 80 + (i % 3) * 7);
			a.nets[i] = (struct weft_netif_net){ip4(addr[i]), {{0}}, 24, vlan[i]};
		}
		a.nnets = WEFT_NETIF_NETS;
		fake_start(&f, &a);
		for (unsigned int k = 0; k < 300; k++) {
			unsigned int i = draw(WEFT_NETIF_NETS);
			uint16_t v = draw(2) != 0 ? vlan[i] : (uint16_t)(draw(6) * 818);
			uint32_t dst = draw(4) != 0 ? addr[i] : addr[i] + 3;
			bool is_ours = false;

			for (unsigned int j = 0; j < WEFT_NETIF_NETS; j++)
				is_ours = is_ours || (addr[j] == dst && vlan[j] == v);
			fake_drop(&f);
			deliver(fake_build(
			                frame,
			                &(struct fake_pkt){.src = FAKE_FAR, .dst = dst, .data = 1}),
			        v);
			CHECK_EQ(f.nup, is_ours);
		}
		fake_stop(&f);
	}
}

/* ---- Neighbours ---- */

/* At its start the interface announces and probes each address on its own VLAN, and reports the
 * groups of each VLAN. */
static void
test_announce(void)
{
	unsigned int arps[NETS] = {0}, probes[NETS] = {0}, locals[10] = {0}, reports[10] = {0};
	struct weft_netif_attr a = attr();

	fake_create(&f, &a);
	fake_poll(&f);
	for (unsigned int i = 0; i < f.ntx; i++) {
		uint32_t len;
		uint16_t vlan = sent(i, &len);
		struct weft_ip target;
		bool found = false;

		if (weft_get_be16(out + 12) == 0x0806) {
			for (unsigned int n = 0; n < NETS; n++) {
				struct weft_ip mine = us(n);

				if (!weft_ip_is_v4(&mine) || memcmp(out + 28, &mine.b[12], 4) != 0)
					continue;
				CHECK_EQ(vlan, vlan_of[n]);
				CHECK_MEM(out + 38, &mine.b[12], 4);
				arps[n]++;
				found = true;
			}
			CHECK(found);
			continue;
		}
		CHECK_EQ(weft_get_be16(out + 12), 0x86dd);
		if (out[20] == 0) { /* hop-by-hop: a report */
			unsigned int groups = weft_get_be16(out + 14 + 40 + 8 + 6);

			/* Untagged and on VLAN 7 both addresses end like our MAC: one group. */
			CHECK_EQ(groups, vlan == 9 ? 2 : 1);
			reports[vlan]++;
			continue;
		}
		CHECK_EQ(out[54], 135);
		memcpy(target.b, out + 62, 16);
		for (unsigned int n = 0; n < NETS; n++) {
			struct weft_ip mine = us(n);

			if (weft_ip_eq(&mine, &target)) {
				CHECK_EQ(vlan, vlan_of[n]);
				probes[n]++;
				found = true;
			}
		}
		if (!found) {
			CHECK(weft_ip_eq(&target, &fake6_us_ll));
			locals[vlan]++;
		}
	}
	for (unsigned int n = 0; n < NETS; n++) {
		struct weft_ip mine = us(n);

		CHECK_EQ(arps[n], weft_ip_is_v4(&mine));
		CHECK_EQ(probes[n], !weft_ip_is_v4(&mine));
	}
	for (unsigned int v = 0; v < 10; v++) {
		CHECK_EQ(locals[v], v == 0 || v == 7 || v == 9);
		CHECK_EQ(reports[v], v == 0 || v == 7 || v == 9);
	}
	fake_pass(&f, 3 * WEFT_NS_PER_S);
	fake_stop(&f);
}

/* A request is answered on the VLAN of the address alone, from the address that was asked for. */
static void
test_ask(void)
{
	static const uint16_t vlans[] = {0, 7, 9};

	start();
	for (unsigned int n = 0; n < NETS; n++)
		for (unsigned int v = 0; v < RTE_DIM(vlans); v++)
			for (unsigned int probe = 0; probe < 2; probe++) {
				struct weft_ip to = us(n), from = peer(n);
				struct weft_ip group = fake6_solicited(&to);
				bool v4 = weft_ip_is_v4(&to), right = vlans[v] == vlan_of[n];
				uint32_t len;

				fake_drop(&f);
				if (v4)
					deliver(fake_arp(frame, 1, &fake_peer_mac,
					                 probe ? 0 : be32(&from), be32(&to)),
					        vlans[v]);
				else
					deliver(fake6_nd(frame, 135, 0, probe ? &fake6_none : &from,
					                 &group, &to,
					                 probe ? NULL : &fake_peer_mac),
					        vlans[v]);
				CHECK_EQ(f.ntx, right);
				if (!right)
					continue;
				CHECK_EQ(sent(0, &len), vlans[v]);
				if (v4)
					CHECK_MEM(out + 28, &to.b[12], 4);
				else
					CHECK_MEM(out + 62, &to, 16);
			}
	fake_stop(&f);
}

/* Send a small segment by that neighbour. */
static void
send_by(struct weft_neigh *n, const struct weft_ip *src, const struct weft_ip *dst)
{
	struct rte_mbuf *m = weft_netif_alloc(f.nif, WEFT_NETIF_HEADROOM);

	memset(rte_pktmbuf_append(m, 40), 0, 40);
	rte_pktmbuf_mtod(m, uint8_t *)[12] = 0x50;
	CHECK_EQ(weft_netif_tx(f.nif, n, src, dst, m, (struct weft_netif_tx_how){0}, f.now_ns), 0);
	fake_poll(&f);
}

/* One link-local address on three VLANs is three neighbours: each has its own answer, and a packet
 * goes to the one of its VLAN, without the zone that tells them apart. */
static void
test_isolation(void)
{
	static const uint16_t vlans[] = {0, 7, 9};
	const struct rte_ether_addr *macs[] = {&fake_peer_mac, &peer7_mac, &peer9_mac};
	struct weft_ip dst[3], src[3];
	struct weft_neigh *n[3];

	start();
	for (unsigned int v = 0; v < 3; v++) {
		uint32_t len;

		dst[v] = fake6_peer_ll;
		weft_ip_set_zone(&dst[v], vlans[v]);
		CHECK(weft_netif_reaches(f.nif, NULL, &dst[v], false));
		src[v] = *weft_netif_src(f.nif, &dst[v]);
		CHECK_EQ(weft_ip_zone(&src[v]), vlans[v]);
		fake_drop(&f);
		CHECK_EQ(weft_netif_neigh_get(f.nif, &src[v], &dst[v], &n[v]), 0);
		fake_poll(&f);
		CHECK_EQ(f.ntx, 1);
		CHECK_EQ(sent(0, &len), vlans[v]);
		CHECK_EQ(out[54], 135);
		CHECK_MEM(out + 62, &fake6_peer_ll, 16);
		CHECK_EQ(fake6_cksum(out, 54, IPPROTO_ICMPV6, len - 54), 0);
		for (unsigned int k = 0; k < v; k++)
			CHECK(n[k] != n[v]);
	}
	for (unsigned int v = 0; v < 3; v++) {
		deliver(fake6_nd(frame, 136, 0x60, &fake6_peer_ll, &fake6_us_ll, &fake6_peer_ll,
		                 macs[v]),
		        vlans[v]);
	}
	for (unsigned int v = 0; v < 3; v++) {
		uint32_t len;

		fake_drop(&f);
		send_by(n[v], &src[v], &dst[v]);
		CHECK_EQ(f.ntx, 1);
		CHECK_EQ(sent(0, &len), vlans[v]);
		CHECK_MEM(out, macs[v], 6);
		CHECK_MEM(out + 22, &fake6_us_ll, 16);
		CHECK_MEM(out + 38, &fake6_peer_ll, 16);
		if (!fake_hw)
			CHECK_EQ(fake6_cksum(out, 54, IPPROTO_TCP, len - 54), 0);
	}
	/* From one VLAN to the link-local address of another there is no way. */
	CHECK(!weft_netif_reaches(f.nif, &src[0], &dst[1], true));
	CHECK(!weft_netif_reaches(f.nif, &v9_us6, &dst[1], true));
	for (unsigned int v = 0; v < 3; v++)
		weft_netif_neigh_put(f.nif, n[v]);
	fake_stop(&f);
}

/* What is claimed on the wrong VLAN changes nothing. */
static void
test_wrong_vlan(void)
{
	const struct weft_netif_stats *st;
	struct weft_ip dst = peer(NET_7), dst6 = v7_peer6, from = us(NET_7);
	struct weft_neigh *n, *n6;
	uint64_t bad;
	uint32_t len;

	start();
	st = weft_netif_stats(f.nif);
	CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, &dst, &n), 0);
	CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, &dst6, &n6), 0);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 2);
	CHECK_EQ(sent(0, &len), 7);
	CHECK_MEM(out + 28, &from.b[12], 4);
	CHECK_EQ(sent(1, &len), 7);
	deliver(fake_arp(frame, 2, &peer7_mac, V7_PEER, V7_US), 7);
	deliver(fake6_nd(frame, 136, 0x60, &v7_peer6, &v7_us6, &v7_peer6, &peer7_mac), 7);
	bad = st->arp_bad;
	deliver(fake_arp(frame, 2, &peer9_mac, V7_PEER, V9_US), 9);
	deliver(fake_arp(frame, 1, &peer9_mac, V7_PEER, V9_US), 9);
	deliver(fake_arp(frame, 2, &fake_peer_mac, V7_PEER, FAKE_US), 0);
	CHECK_EQ(st->arp_bad - bad, 3);
	deliver(fake6_nd(frame, 136, 0x60, &v7_peer6, &v9_us6, &v7_peer6, &peer9_mac), 9);
	/* Neither is it a conflict when another VLAN has our address. */
	deliver(fake_arp(frame, 1, &peer9_mac, V7_US, V7_US), 9);
	deliver(fake6_nd(frame, 136, 0x20, &v7_us6, &fake6_all, &v7_us6, &peer9_mac), 9);
	CHECK_EQ(st->addr_conflicts, 0);
	fake_drop(&f);
	send_by(n, &from, &dst);
	send_by(n6, &v7_us6, &dst6);
	CHECK_EQ(f.ntx, 2);
	for (unsigned int i = 0; i < 2; i++) {
		CHECK_EQ(sent(i, &len), 7);
		CHECK_MEM(out, &peer7_mac, 6);
	}
	deliver(fake_arp(frame, 1, &peer7_mac, V7_US, V7_US), 7);
	CHECK_EQ(st->addr_conflicts, 1);
	weft_netif_neigh_put(f.nif, n);
	weft_netif_neigh_put(f.nif, n6);
	fake_stop(&f);
}

/* Another station has our link-local address on VLAN 7: IPv6 ends there and goes on elsewhere. */
static void
test_disabled(void)
{
	struct weft_ip group = fake6_solicited(&fake6_us_ll), to = us(NET_9_6),
	               from = peer(NET_9_6);
	struct weft_netif_attr a = attr();
	struct weft_netif_net_info info;

	fake_create(&f, &a);
	fake_poll(&f);
	deliver(fake6_nd(frame, 135, 0, &fake6_none, &group, &fake6_us_ll, NULL), 7);
	CHECK_EQ(weft_netif_stats(f.nif)->ip6_disabled, 1);
	fake_pass(&f, 3 * WEFT_NS_PER_S);
	CHECK_EQ(f.sched.wheel.armed, 0);
	for (unsigned int i = 0; weft_netif_net_info(f.nif, i, &info) == 0; i++) {
		CHECK(!info.tentative);
		CHECK_EQ(info.duplicate, info.net.vlan_id == 7 && !weft_ip_is_v4(&info.net.addr));
	}
	CHECK(!weft_netif_reaches(f.nif, NULL, &v7_peer6, true) ||
	      !weft_netif_reaches(f.nif, NULL, &v7_peer6, false));
	CHECK(!weft_netif_reaches(f.nif, &v7_us6, &v7_peer6, true));
	fake_drop(&f);
	deliver(segment(&v7_peer6, &v7_us6), 7);
	CHECK_EQ(f.nup, 0);
	deliver(segment(&from, &to), 9);
	CHECK_EQ(f.nup, 1);
	from = peer(NET_7);
	to = us(NET_7);
	deliver(segment(&from, &to), 7);
	CHECK_EQ(f.nup, 2);
	fake_stop(&f);
}

/* ---- Ways ---- */

/* Where a packet goes, by its destination and by the address that it is sent from. */
static void
test_route(void)
{
	const struct weft_ip far4 = ip4(FAKE_FAR), gw0 = ip4(FAKE_GW), gw7 = ip4(V7_GW);
	const struct weft_ip ll7 = {.b = {0xfe, 0x80, [15] = 0x7f}};
	const struct weft_ip p0 = peer(NET_US), p7 = peer(NET_7), p9 = peer(NET_9),
	                     ps = peer(NET_SECOND);
	struct weft_ip us0 = us(NET_US), us7 = us(NET_7), us9 = us(NET_9), second = us(NET_SECOND);
	const struct {
		const struct weft_ip *src, *dst, *from; /* from: of a route without src */
		const struct weft_ip *hop;              /* NULL: none */
		uint16_t vlan;
	} rows[] = {
	        {NULL, &p0, &us0, &p0, 0},
	        {NULL, &p7, &us7, &p7, 7},
	        {NULL, &p9, &us9, &p9, 9},
	        {NULL, &ps, &second, &ps, 0},
	        {NULL, &v7_peer6, &v7_us6, &v7_peer6, 7},
	        {NULL, &v9_peer6, &v9_us6, &v9_peer6, 9},
	        /* To other networks: the first gateway, or that of the source's VLAN. */
	        {NULL, &far4, &us0, &gw0, 0},
	        {&us7, &far4, NULL, &gw7, 7},
	        {&second, &far4, NULL, &gw0, 0},
	        {&us9, &far4, NULL, NULL, 9},
	        {NULL, &fake6_far, &fake6_us, &fake6_gw, 0},
	        {&v7_us6, &fake6_far, NULL, &ll7, 7},
	        {&v9_us6, &fake6_far, NULL, NULL, 9},
	        /* A source keeps to its VLAN. */
	        {&us7, &p9, NULL, &gw7, 7},
	        {&us9, &p7, NULL, NULL, 9},
	        {&second, &p0, NULL, &p0, 0},
	        /* No address of ours, or of the other family. */
	        {&far4, &p0, NULL, NULL, 0},
	        {&us0, &fake6_peer, NULL, NULL, 0},
	        {&fake6_us, &p0, NULL, NULL, 0},
	        /* Ourselves, on the same VLAN and on another one. */
	        {&us0, &us7, NULL, NULL, 0},
	        {NULL, &v7_us6, NULL, NULL, 0},
	};

	start();
	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		const struct weft_ip *dst = rows[i].dst, *hop = rows[i].hop;
		bool direct = hop != NULL && weft_ip_eq(hop, dst);
		struct weft_neigh *n;
		uint32_t len;

		CHECK_EQ(weft_netif_reaches(f.nif, rows[i].src, dst, true), hop != NULL);
		CHECK_EQ(weft_netif_reaches(f.nif, rows[i].src, dst, false), direct);
		CHECK_EQ(weft_netif_neigh_get(f.nif, rows[i].src, dst, &n),
		         hop != NULL ? 0 : -EHOSTUNREACH);
		if (hop == NULL)
			continue;
		if (rows[i].from != NULL)
			CHECK(weft_ip_eq(weft_netif_src(f.nif, dst), rows[i].from));
		fake_poll(&f);
		fake_drop(&f);
		weft_netif_neigh_put(f.nif, n);
		/* The hop is asked for on its VLAN, as soon as a packet needs it. */
		fake_pass(&f, 4 * WEFT_NS_PER_S);
		fake_drop(&f);
		CHECK_EQ(weft_netif_neigh_get(f.nif, rows[i].src, dst, &n), 0);
		send_by(n, rows[i].src != NULL ? rows[i].src : rows[i].from, dst);
		CHECK(f.ntx > 0);
		CHECK_EQ(sent(0, &len), rows[i].vlan);
		if (weft_ip_is_v4(hop))
			CHECK_MEM(out + 38, &hop->b[12], 4);
		else
			CHECK_MEM(out + 62, hop, 16);
		weft_netif_neigh_put(f.nif, n);
		fake_pass(&f, 4 * WEFT_NS_PER_S);
	}
	fake_stop(&f);
}

/* A ping is answered from the address that it was sent to. An ICMP error counts on the VLAN of the
 * segment that it is about. */
static void
test_icmp(void)
{
	static const uint8_t echo[16] = {8};
	static const uint8_t echo6[16] = {128};
	static const uint16_t vlans[] = {0, 7, 9};

	start();
	for (unsigned int n = 0; n < NETS; n++)
		for (unsigned int v = 0; v < RTE_DIM(vlans); v++) {
			struct weft_ip to = us(n), from = peer(n);
			bool v4 = weft_ip_is_v4(&to), right = vlans[v] == vlan_of[n];
			uint32_t len, before = f.unreachable.n;

			fake_drop(&f);
			if (v4) {
				len = fake_build(frame, &(struct fake_pkt){.src = be32(&from),
				                                           .dst = be32(&to),
				                                           .proto = IPPROTO_ICMP,
				                                           .data = sizeof(echo)});
				memcpy(frame + 34, echo, sizeof(echo));
				fake_fix(frame);
			} else {
				len = fake6_build(frame,
				                  &(struct fake6_pkt){.src = &from,
				                                      .dst = &to,
				                                      .next = IPPROTO_ICMPV6,
				                                      .body = echo6,
				                                      .data = sizeof(echo6)});
			}
			deliver(len, vlans[v]);
			CHECK_EQ(f.ntx, right);
			if (right) {
				CHECK_EQ(sent(0, &len), vlans[v]);
				if (v4)
					CHECK_MEM(out + 26, &to.b[12], 4);
				else
					CHECK_MEM(out + 22, &to, 16);
			}
			if (!v4)
				continue;
			/* Port unreachable, with the header of a segment of ours. The error
			 * itself comes to an address of the VLAN. */
			static const uint32_t at[] = {FAKE_US, V7_US, V9_US};
			uint8_t body[36] = {3, 3};

			body[8] = 0x45;
			weft_put_be16(body + 10, 40);
			body[17] = IPPROTO_TCP;
			memcpy(body + 20, &to.b[12], 4);
			memcpy(body + 24, &from.b[12], 4);
			weft_put_be16(body + 28, 4711);
			len = fake_build(frame, &(struct fake_pkt){.src = FAKE_FAR,
			                                           .dst = at[v],
			                                           .proto = IPPROTO_ICMP,
			                                           .data = sizeof(body)});
			memcpy(frame + 34, body, sizeof(body));
			fake_fix(frame);
			deliver(len, vlans[v]);
			CHECK_EQ(f.unreachable.n - before, right);
			if (right)
				CHECK(weft_ip_eq(&f.unreachable.src, &to));
		}
	fake_stop(&f);
}

/* Link-local addresses: TCP sees the VLAN in the address, and no packet can pretend another one. */
static void
test_zone(void)
{
	struct weft_ip src = fake6_peer_ll, dst = fake6_us_ll, z;
	uint64_t others;

	start();
	for (uint16_t v = 0; v < 10; v++) {
		bool have = v == 0 || v == 7 || v == 9;

		fake_drop(&f);
		deliver(segment(&src, &dst), v);
		CHECK_EQ(f.nup, have);
		if (!have)
			continue;
		CHECK_EQ(weft_ip_zone(&weft_mbuf_priv(f.up[0])->rx.src), v);
		CHECK_EQ(weft_ip_zone(&weft_mbuf_priv(f.up[0])->rx.dst), v);
		z = weft_ip_bare(&weft_mbuf_priv(f.up[0])->rx.src);
		CHECK(weft_ip_eq(&z, &fake6_peer_ll));
	}
	fake_drop(&f);
	others = weft_netif_stats(f.nif)->rx_not_ours;
	weft_ip_set_zone(&src, 7);
	deliver(segment(&src, &dst), 0);
	deliver(segment(&src, &dst), 7);
	weft_ip_set_zone(&src, 0);
	weft_ip_set_zone(&dst, 7);
	deliver(segment(&src, &dst), 0);
	deliver(segment(&src, &dst), 7);
	CHECK_EQ(f.nup, 0);
	CHECK_EQ(weft_netif_stats(f.nif)->rx_not_ours - others, 4);
	/* A program's zone is a VLAN. */
	z = fake6_peer_ll;
	CHECK(weft_netif_zone(f.nif, &z));
	weft_ip_set_zone(&z, WEFT_ZONE_UNTAGGED);
	CHECK(weft_netif_zone(f.nif, &z));
	CHECK_EQ(weft_ip_zone(&z), 0);
	weft_ip_set_zone(&z, 7);
	CHECK(weft_netif_zone(f.nif, &z));
	CHECK_EQ(weft_ip_zone(&z), 7);
	weft_ip_set_zone(&z, 8);
	CHECK(!weft_netif_zone(f.nif, &z));
	fake_stop(&f);
}

/* ---- Attributes ---- */

static void
bad(struct weft_netif_attr *a, int rc)
{
	static const struct weft_netif_ops ops = {.tcp_rx = (void *)(uintptr_t)1};
	struct weft_netif *nif;

	CHECK_EQ(weft_netif_create(a, &ops, NULL, &f.sched, &nif), rc);
}

static void
test_attr(void)
{
	struct weft_netif_attr a;

#define BAD(change)                                                                                \
	do {                                                                                       \
		a = attr();                                                                        \
		change;                                                                            \
		bad(&a, -EINVAL);                                                                  \
	} while (0)
	BAD(a.nets[1].addr = a.addr);                               /* twice */
	BAD(a.nets[1].vlan_id = 4095);                              /* no VLAN */
	BAD(a.nets[1].gateway = ip4(V9_PEER));                      /* not on-link */
	BAD(a.nets[1].gateway = a.nets[1].addr);                    /* ourselves */
	BAD(a.nets[0].gateway = a.addr; a.nets[0].prefix_len = 16); /* likewise */
	BAD(a.nets[1].gateway = v7_peer6);                          /* the other family */
	BAD(a.nets[1].prefix_len = 33);                             /* too long */
	BAD(a.nets[2].prefix_len = 129);                            /* too long */
	BAD(a.nets[2].addr = fake6_us_ll);                          /* link-local */
	BAD(a.nets[1].addr = ip4(FAKE_IP(224, 0, 0, 1)));           /* no host */
	BAD(a.nets[3].addr = ip4(FAKE_IP(10, 7, 0, 9)));            /* overlap with VLAN 7 */
	BAD(a.nets[3].prefix_len = 8);                              /* overlap with all */
	BAD(a.nets[4].addr = v7_peer6);                             /* overlap with VLAN 7 */
	BAD(a.nets[2].gateway.b[3] = 7);                            /* a zone of its own */
	BAD(a.no_ipv6 = true; memset(&a.addr6, 0, 16); memset(&a.gateway6, 0, 16));
	BAD(a.mtu_bytes = 1000);
	BAD(a.nnets = 15); /* 17 in all */
	BAD(a.nnets = 17);
	BAD(a.nets[5] = (struct weft_netif_net){0}; a.nnets = 6);
#undef BAD
	/* On one VLAN networks may overlap, and two addresses may be in one network. */
	a = attr();
	a.nets[0] = (struct weft_netif_net){ip4(FAKE_IP(10, 0, 0, 5)), ip4(FAKE_GW), 24, 0};
	a.nets[3].addr = ip4(FAKE_IP(10, 7, 0, 130));
	a.nets[3].prefix_len = 25;
	a.nets[3].vlan_id = 7;
	fake6_start(&f, &a);
	fake_stop(&f);
}

FAKE_BOTH(test_rx)
FAKE_BOTH(test_isolation)

WEFT_TEST_MAIN(FAKE_CASES("a segment is for us on the VLAN of its address alone", test_rx),
               {"random networks", test_rx_random},
               {"each address is announced on its VLAN", test_announce},
               {"each address is answered for on its VLAN", test_ask},
               FAKE_CASES("one link-local address on three VLANs is three neighbours",
                          test_isolation),
               {"claims on the wrong VLAN change nothing", test_wrong_vlan},
               {"IPv6 ends on one VLAN alone", test_disabled},
               {"routes by destination and by source", test_route}, {"icmp", test_icmp},
               {"zones of link-local addresses", test_zone},
               {"attributes that contradict each other are refused", test_attr})
