/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Neighbor Discovery, duplicate address detection, and the multicast listener reports that
 * switches snoop. */

#include <rte_ip.h>
#include <rte_mempool.h>

#include "../../lib/netif/netif_neigh.h"
#include "../../lib/netif/netif_park.h"
#include "../../lib/netif/netif_priv.h"
#include "fake.h"
#include "weft_netif.h"
#include "weft_netif_addr.h"
#include "weft_netif_group.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_stats.h"
#include "weft_netif_tx.h"

static struct fake f;
static uint8_t frame[FAKE_FRAME], buf[FAKE_FRAME * 8];
static const struct rte_ether_addr new_mac = {{2, 0, 0, 0, 9, 9}};

#define OVERRIDE  0x20
#define SOLICITED 0x40

static void
nd_in(uint8_t type, uint8_t flags, const struct weft_ip *src, const struct weft_ip *dst,
      const struct weft_ip *target, const struct rte_ether_addr *lladr)
{
	fake_rx(&f, frame, fake6_nd(frame, type, flags, src, dst, target, lladr), FAKE_EXTBUF, 0);
	fake_poll(&f);
}

static struct weft_neigh *
get(const struct weft_ip *dst)
{
	struct weft_neigh *n;

	CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, dst, &n), 0);
	fake_poll(&f);
	return n;
}

/* The tests identify a segment by its length. */
static void
tx(struct weft_neigh *n, const struct weft_ip *dst, uint32_t len)
{
	struct rte_mbuf *m = weft_netif_alloc(f.nif, WEFT_NETIF_HEADROOM);

	CHECK(m != NULL);
	memset(rte_pktmbuf_append(m, (uint16_t)len), 0, len);
	CHECK_EQ(weft_netif_tx(f.nif, n, weft_netif_src(f.nif, dst), dst, m,
	                       (struct weft_netif_tx_how){0}, f.now_ns),
	         0);
	fake_poll(&f);
}

/* Check that the i-th sent frame is this message. mac NULL: sent to the group. lladr: whether it
 * has the interface's link-layer address. */
static void
check_nd(unsigned int i, uint8_t type, uint8_t flags, const struct weft_ip *src,
         const struct weft_ip *dst, const struct weft_ip *target, const struct rte_ether_addr *mac,
         bool lladr)
{
	struct rte_ether_addr group = {
	        {0x33, 0x33, dst->b[12], dst->b[13], dst->b[14], dst->b[15]}};
	uint32_t len = lladr ? 32 : 24;

	CHECK_EQ(fake_sent(&f, i, buf), 54 + len);
	CHECK_MEM(buf, mac != NULL ? mac : &group, 6);
	CHECK_MEM(buf + 6, &fake_us_mac, 6);
	CHECK_EQ(weft_get_be16(buf + 12), 0x86dd);
	CHECK_EQ(weft_get_be16(buf + 18), len);
	CHECK_EQ(buf[20], IPPROTO_ICMPV6);
	CHECK_EQ(buf[21], 255);
	CHECK_MEM(buf + 22, src->b, 16);
	CHECK_MEM(buf + 38, dst->b, 16);
	CHECK_EQ(buf[54], type);
	CHECK_EQ(buf[55], 0);
	CHECK_EQ(weft_get_be32(buf + 58), (uint32_t)flags << 24);
	CHECK_MEM(buf + 62, target->b, 16);
	CHECK_EQ(fake6_cksum(buf, 54, IPPROTO_ICMPV6, len), 0);
	if (!lladr)
		return;
	CHECK_EQ(buf[78], type == 135 ? 1 : 2);
	CHECK_EQ(buf[79], 1);
	CHECK_MEM(buf + 80, &fake_us_mac, 6);
}

static void
check_tcp(unsigned int i, const struct rte_ether_addr *to, uint32_t len)
{
	CHECK_EQ(fake_sent(&f, i, buf), len + 54);
	CHECK_EQ(buf[20], IPPROTO_TCP);
	CHECK_MEM(buf, to, 6);
}

/* RFC 3810 s5.2: to ff02::16 with a router alert, hop limit 1, a record a group. */
static void
check_report(unsigned int i, const struct weft_ip *src, uint8_t record, unsigned int groups)
{
	static const struct weft_ip to = {.b = {0xff, 0x02, [15] = 0x16}};
	struct weft_ip g[2] = {fake6_solicited(&fake6_us_ll), fake6_solicited(&fake6_us)};

	CHECK_EQ(fake_sent(&f, i, buf), 14 + 40 + 8 + 8 + 20 * groups);
	CHECK_MEM(buf, "\x33\x33\0\0\0\x16", 6);
	CHECK_EQ(buf[20], 0);
	CHECK_EQ(buf[21], 1);
	CHECK_MEM(buf + 22, src->b, 16);
	CHECK_MEM(buf + 38, to.b, 16);
	CHECK_MEM(buf + 54, "\x3a\0\5\2\0\0\1\0", 8);
	CHECK_EQ(buf[62], 143);
	CHECK_EQ(weft_get_be32(buf + 66), groups);
	CHECK_EQ(fake6_cksum(buf, 62, IPPROTO_ICMPV6, 8 + 20 * groups), 0);
	for (unsigned int k = 0; k < groups; k++) {
		CHECK_EQ(weft_get_be32(buf + 70 + 20 * k), (uint32_t)record << 24);
		CHECK_MEM(buf + 74 + 20 * k, g[k].b, 16);
	}
}

/* ---- The interface's own addresses ---- */

/* RFC 4862 s5.4.2 (one solicitation for each address, from the unspecified address), RFC 4429 (the
 * address is used meanwhile), RFC 4861 s7.2.6. */
static void
test_dad(void)
{
	struct weft_netif_attr a = fake6_attr(&f);
	struct weft_ip ll = fake6_solicited(&fake6_us_ll), gl;
	struct weft_neigh *n;

	a.addr6.b[13] = 7; /* its solicited-node group differs */
	gl = fake6_solicited(&a.addr6);
	fake_create(&f, &a);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 4); /* ARP's announcement, the report, the two solicitations */
	fake_sent(&f, 1, buf);
	CHECK_EQ(buf[62], 143);
	CHECK_EQ(weft_get_be32(buf + 66), 2);
	check_nd(2, 135, 0, &fake6_none, &ll, &fake6_us_ll, NULL, false);
	check_nd(3, 135, 0, &fake6_none, &gl, &a.addr6, NULL, false);
	fake_drop(&f);
	/* The tentative address is used: advertisements are without the override flag,
	 * solicitations without the link-layer address. */
	nd_in(135, 0, &fake6_peer, &gl, &a.addr6, &fake_peer_mac);
	CHECK_EQ(f.ntx, 1);
	check_nd(0, 136, SOLICITED, &a.addr6, &fake6_peer, &a.addr6, &fake_peer_mac, true);
	fake_drop(&f);
	n = get(&fake6_gw);
	gl = fake6_solicited(&fake6_gw);
	check_nd(0, 135, 0, &a.addr6, &gl, &fake6_gw, NULL, false);
	weft_netif_neigh_put(f.nif, n);
	fake_drop(&f);
	fake_rx(&f, frame, fake6_build(frame, &(struct fake6_pkt){.dst = &a.addr6, .data = 4}),
	        FAKE_FLAT, 0);
	fake_poll(&f);
	CHECK_EQ(f.nup, 1);
	fake_drop(&f);
	/* Undisputed for a second: announced, and so are the groups once more. */
	fake_pass(&f, 1000 * WEFT_NS_PER_MS);
	unsigned int adv = 0, rep = 0;

	for (unsigned int i = 0; i < f.ntx; i++) {
		fake_sent(&f, i, buf);
		if (buf[54] == 136) {
			check_nd(i, 136, OVERRIDE, adv == 0 ? &fake6_us_ll : &a.addr6, &fake6_all,
			         adv == 0 ? &fake6_us_ll : &a.addr6, NULL, true);
			adv++;
		} else if (buf[20] == 0) {
			rep++;
		}
	}
	CHECK_EQ(adv, 2);
	CHECK_EQ(rep, 1);
	fake_drop(&f);
	fake_pass(&f, 20 * WEFT_NS_PER_S);
	for (unsigned int i = 0; i < f.ntx; i++) {
		fake_sent(&f, i, buf);
		CHECK_EQ(buf[54], 135); /* solicitations for the gateway go on */
	}
	fake_stop(&f);
}

/* RFC 4862 s5.4.3, s5.4.4, s5.4.5 */
static void
test_duplicate(void)
{
	struct weft_ip group = fake6_solicited(&fake6_us);
	struct weft_netif_attr a = fake6_attr(&f);

	for (unsigned int k = 0; k < 2; k++) {
		fake_create(&f, &a);
		fake_poll(&f);
		/* The interface ignores its own solicitation when a loop on the link returns it. */
		fake_rx(&f, frame,
		        fake6_build(frame,
		                    &(struct fake6_pkt){.src = &fake6_none,
		                                        .dst = &group,
		                                        .next = IPPROTO_ICMPV6,
		                                        .hops = 255,
		                                        .body = (const uint8_t[24]){135, [8] = 0x20,
		                                                                    1, 0x0d,
		                                                                    0xb8, [23] = 1},
		                                        .data = 24,
		                                        .mac_src = &fake_us_mac}),
		        FAKE_FLAT, 0);
		fake_poll(&f);
		CHECK_EQ(weft_netif_stats(f.nif)->addr_conflicts, 0);
		CHECK(weft_netif_is_local(f.nif, &fake6_us));
		if (k == 0) /* another node solicits the same address */
			nd_in(135, 0, &fake6_none, &group, &fake6_us, NULL);
		else /* another node advertises it */
			nd_in(136, OVERRIDE, &fake6_us, &fake6_all, &fake6_us, &new_mac);
		CHECK_EQ(weft_netif_stats(f.nif)->addr_conflicts, 1);
		CHECK(!weft_netif_is_local(f.nif, &fake6_us));
		CHECK(weft_netif_is_local(f.nif, &fake6_us_ll));
		CHECK(weft_netif_src(f.nif, &fake6_peer) == NULL);
		CHECK(!weft_netif_reaches(f.nif, NULL, &fake6_peer, true));
		fake_pass(&f, 3 * WEFT_NS_PER_S);
		fake_drop(&f);
		fake_rx(&f, frame, fake6_build(frame, &(struct fake6_pkt){.data = 4}), FAKE_FLAT,
		        0);
		fake_poll(&f);
		CHECK_EQ(f.nup, 0);
		nd_in(135, 0, &fake6_peer, &group, &fake6_us, &fake_peer_mac);
		CHECK_EQ(f.ntx, 0);
		fake_stop(&f);
	}
	/* The address is verified. Solicitations are answered. Advertisements of another node for
	 * the address are counted as conflicts, and the interface defends the address once. */
	fake6_start(&f, NULL);
	nd_in(135, 0, &fake6_none, &group, &fake6_us, NULL);
	CHECK_EQ(f.ntx, 1);
	check_nd(0, 136, OVERRIDE, &fake6_us, &fake6_all, &fake6_us, NULL, true);
	fake_drop(&f);
	for (unsigned int i = 0; i < 50; i++)
		nd_in(136, OVERRIDE, i % 2 ? &fake6_us : &fake6_peer_ll, &fake6_all, &fake6_us,
		      &new_mac);
	CHECK_EQ(weft_netif_stats(f.nif)->addr_conflicts, 50);
	CHECK_EQ(f.ntx, 1);
	check_nd(0, 136, OVERRIDE, &fake6_us, &fake6_all, &fake6_us, NULL, true);
	CHECK(weft_netif_is_local(f.nif, &fake6_us));
	fake_stop(&f);
}

/* RFC 4862 s5.4.5 (SHOULD): a node with our link-local address has our MAC address, too. IPv6 is
 * disabled, and IPv4 continues. */
static void
test_disabled(void)
{
	struct weft_ip group = fake6_solicited(&fake6_us_ll);
	struct weft_netif_attr a = fake6_attr(&f);
	struct weft_neigh *n;

	fake_create(&f, &a);
	fake_poll(&f);
	CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, &fake6_peer, &n), 0);
	fake_poll(&f);
	fake_drop(&f);
	nd_in(135, 0, &fake6_none, &group, &fake6_us_ll, NULL);
	CHECK_EQ(weft_netif_stats(f.nif)->ip6_disabled, 1);
	CHECK(!weft_netif_is_local(f.nif, &fake6_us_ll) && !weft_netif_is_local(f.nif, &fake6_us));
	CHECK(weft_netif_src(f.nif, &fake6_peer) == NULL);
	CHECK(!weft_netif_reaches(f.nif, NULL, &fake6_peer, true));
	CHECK(weft_netif_attr(f.nif)->no_ipv6);
	/* The interface sends no report, announcement, solicitation or answer. */
	fake_pass(&f, 5 * WEFT_NS_PER_S);
	CHECK_EQ(f.ntx, 0);
	fake_rx(&f, frame, fake6_build(frame, &(struct fake6_pkt){.data = 4}), FAKE_FLAT, 0);
	nd_in(135, 0, &fake6_peer, &group, &fake6_us_ll, &fake_peer_mac);
	CHECK_EQ(f.ntx, 0);
	CHECK_EQ(f.nup, 0);
	weft_netif_neigh_put(f.nif, n);
	fake_rx(&f, frame, fake_arp(frame, 1, &fake_peer_mac, FAKE_PEER, FAKE_US), FAKE_FLAT, 0);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 1);
	fake_stop(&f);
}

static void
test_report(void)
{
	uint8_t query[28] = {130};
	static const uint8_t alert[] = {IPPROTO_ICMPV6, 0, 5, 2, 0, 0, 1, 0};
	struct fake6_pkt p = {.src = &fake6_peer_ll,
	                      .dst = &fake6_all,
	                      .next = IPPROTO_ICMPV6,
	                      .hops = 1,
	                      .first = 0,
	                      .ext = alert,
	                      .ext_len = sizeof(alert),
	                      .body = query,
	                      .data = sizeof(query)};
	struct weft_netif_attr a = fake6_attr(&f);
	struct weft_ip mine = fake6_solicited(&fake6_us);

	fake_create(&f, &a);
	fake_poll(&f);
	/* RFC 3590 s4: the source is still unspecified; both addresses have one group */
	check_report(1, &fake6_none, 4, 1);
	fake_drop(&f);
	fake_pass(&f, 2 * WEFT_NS_PER_S);
	fake_drop(&f);
	CHECK_EQ(weft_netif_stats(f.nif)->mld_tx, 2);
	/* s6.2: a query is answered within its maximum response delay. */
	weft_put_be16(query + 4, 1000);
	fake_rx(&f, frame, fake6_build(frame, &p), FAKE_FLAT, 0);
	fake_poll(&f);
	fake_pass(&f, 1100 * WEFT_NS_PER_MS);
	CHECK_EQ(f.ntx, 1);
	check_report(0, &fake6_us_ll, 2, 1);
	fake_drop(&f);
	memcpy(query + 8, mine.b, 16);
	fake_rx(&f, frame, fake6_build(frame, &p), FAKE_FLAT, 0);
	fake_pass(&f, 1100 * WEFT_NS_PER_MS);
	CHECK_EQ(f.ntx, 1);
	fake_drop(&f);
	query[23] ^= 1; /* a query for another group */
	fake_rx(&f, frame, fake6_build(frame, &p), FAKE_FLAT, 0);
	fake_pass(&f, 1100 * WEFT_NS_PER_MS);
	CHECK_EQ(f.ntx, 0);
	CHECK_EQ(weft_netif_stats(f.nif)->mld_rx, 3);
	/* s6.2: a query without router alert, from off-link, or too short is not answered. */
	memset(query + 8, 0, 16);
	p.hops = 2;
	fake_rx(&f, frame, fake6_build(frame, &p), FAKE_FLAT, 0);
	p.hops = 1;
	p.src = &fake6_peer;
	fake_rx(&f, frame, fake6_build(frame, &p), FAKE_FLAT, 0);
	p.src = &fake6_peer_ll;
	p.data = 23;
	fake_rx(&f, frame, fake6_build(frame, &p), FAKE_FLAT, 0);
	p.data = 28;
	p.ext_len = 0;
	fake_rx(&f, frame, fake6_build(frame, &p), FAKE_FLAT, 0);
	fake_pass(&f, 2 * WEFT_NS_PER_S);
	CHECK_EQ(f.ntx, 0);
	CHECK_EQ(weft_netif_stats(f.nif)->nd_bad, 4);
	fake_stop(&f);
}

/** RFC 3810 s6.2: a query is answered once within its maximum response delay, which may be zero.
 * The moment within the delay differs. */
static void
test_report_delay(void)
{
	static const struct {
		uint16_t code;
		uint32_t ms;
	} rows[] = {{0, 0}, {1, 1}, {2, 2}, {500, 500}, {10000, 10000}, {0x8000, 32768}};
	uint8_t query[28] = {130};
	static const uint8_t alert[] = {IPPROTO_ICMPV6, 0, 5, 2, 0, 0, 1, 0};
	struct fake6_pkt p = {.src = &fake6_peer_ll,
	                      .dst = &fake6_all,
	                      .next = IPPROTO_ICMPV6,
	                      .hops = 1,
	                      .ext = alert,
	                      .ext_len = sizeof(alert),
	                      .body = query,
	                      .data = sizeof(query)};
	unsigned int early = 0;

	fake_seed = 7;
	fake6_start(&f, NULL);
	fake_pass(&f, 5 * WEFT_NS_PER_S);
	for (unsigned int i = 0; i < RTE_DIM(rows); i++)
		for (unsigned int k = 0; k < 10; k++) {
			fake_drop(&f);
			weft_put_be16(query + 4, rows[i].code);
			fake_rx(&f, frame, fake6_build(frame, &p), FAKE_FLAT, 0);
			fake_poll(&f);
			fake_pass(&f, (rows[i].ms / 200) * 100 * WEFT_NS_PER_MS);
			early += rows[i].ms >= 500 && f.ntx == 1;
			fake_pass(&f,
			          (rows[i].ms / 200) * 100 * WEFT_NS_PER_MS + 300 * WEFT_NS_PER_MS);
			CHECK_EQ(f.ntx, 1);
			check_report(0, &fake6_us_ll, 2, 1);
		}
	CHECK_MSG(early > 5 && early < 25, "%u of 30 in the first half", early);
	fake_stop(&f);
	fake_seed = 0;
}

/* ---- Neighbours ---- */

static void
test_resolve(void)
{
	const struct weft_ip *who[] = {&fake6_peer, &fake6_peer_ll};
	const struct weft_ip *us[] = {&fake6_us, &fake6_us_ll};

	for (unsigned int k = 0; k < 2; k++) {
		struct weft_ip group = fake6_solicited(who[k]);
		struct weft_neigh *n;

		fake6_start(&f, NULL);
		n = get(who[k]);
		CHECK_EQ(f.ntx, 1);
		check_nd(0, 135, 0, us[k], &group, who[k], NULL, true);
		for (uint32_t i = 0; i < 40; i++)
			tx(n, who[k], 40 + i);
		CHECK_EQ(weft_netif_stats(f.nif)->tx_unresolved, 7);
		CHECK_EQ(f.ntx, 1);
		fake_drop(&f);
		/* s7.2.5: an advertisement without the link-layer address is ignored. */
		nd_in(136, SOLICITED, who[k], us[k], who[k], NULL);
		CHECK_EQ(f.ntx, 0);
		nd_in(136, SOLICITED, who[k], us[k], who[k], &fake_peer_mac);
		CHECK_EQ(f.ntx, 1 + NETIF_PARK_MORE);
		for (uint32_t i = 0; i < NETIF_PARK_MORE; i++)
			check_tcp(i, &fake_peer_mac, 40 + i);
		check_tcp(NETIF_PARK_MORE, &fake_peer_mac, 79);
		fake_drop(&f);
		fake_pass(&f, 20 * WEFT_NS_PER_S);
		tx(n, who[k], 50);
		CHECK_EQ(f.ntx, 1);
		CHECK_EQ(f.sched.wheel.armed, 0);
		weft_netif_neigh_put(f.nif, n);
		fake_stop(&f);
	}
}

/* The gateway of off-link destinations does not answer: three solicitations, one second apart
 * (s7.2.2). */
static void
test_give_up(void)
{
	struct weft_ip group = fake6_solicited(&fake6_gw);
	struct weft_neigh *n;

	fake6_start(&f, NULL);
	n = get(&fake6_far);
	tx(n, &fake6_far, 40);
	fake_pass(&f, 20 * WEFT_NS_PER_S);
	CHECK_EQ(f.ntx, 3);
	for (unsigned int i = 0; i < 3; i++)
		check_nd(i, 135, 0, &fake6_us, &group, &fake6_gw, NULL, true);
	CHECK_EQ(weft_netif_stats(f.nif)->tx_unresolved, 1);
	CHECK_EQ(weft_netif_stats(f.nif)->neigh_failed, 1);
	weft_netif_neigh_put(f.nif, n);
	fake_stop(&f);
}

/* s7.3.3: a stale entry is used and probed by unicast. Later solicitations go to the group. */
static void
test_ageing(void)
{
	struct weft_ip group = fake6_solicited(&fake6_peer);
	unsigned int asked = 0;
	struct weft_neigh *n;

	fake6_start(&f, NULL);
	n = get(&fake6_peer);
	nd_in(136, SOLICITED, &fake6_peer, &fake6_us, &fake6_peer, &fake_peer_mac);
	fake_pass(&f, 60 * WEFT_NS_PER_S);
	fake_drop(&f);
	tx(n, &fake6_peer, 40);
	CHECK_EQ(f.ntx, 2);
	check_nd(0, 135, 0, &fake6_us, &fake6_peer, &fake6_peer, &fake_peer_mac, true);
	check_tcp(1, &fake_peer_mac, 40);
	fake_drop(&f);
	/* An advertisement may omit the link-layer address (s7.2.4). */
	nd_in(136, SOLICITED, &fake6_peer, &fake6_us, &fake6_peer, NULL);
	fake_pass(&f, 20 * WEFT_NS_PER_S);
	tx(n, &fake6_peer, 41);
	CHECK_EQ(f.ntx, 1);
	fake_drop(&f);
	fake_pass(&f, 40 * WEFT_NS_PER_S);
	tx(n, &fake6_peer, 42);
	fake_pass(&f, 3500 * WEFT_NS_PER_MS);
	for (unsigned int i = 0; i < f.ntx; i++) {
		fake_sent(&f, i, buf);
		if (buf[20] == IPPROTO_TCP)
			continue;
		check_nd(i, 135, 0, &fake6_us, asked < 3 ? &fake6_peer : &group, &fake6_peer,
		         asked < 3 ? &fake_peer_mac : NULL, true);
		asked++;
	}
	CHECK_EQ(asked, 4);
	weft_netif_neigh_put(f.nif, n);
	fake_stop(&f);
}

/* RFC 4861 s7.2.5, appendix C: what an advertisement does to an entry. */
static void
test_advertised(void)
{
	static const struct {
		uint8_t flags;
		bool other, none; /* other: another link-layer address; none: no option */
		bool moves;       /* later packets go to the new address */
		bool doubted;     /* the next packet starts a probe */
	} t[] = {
	        {SOLICITED, false, false, false, false},
	        {SOLICITED | OVERRIDE, false, false, false, false},
	        {SOLICITED, false, true, false, false},
	        {0, false, false, false, false},
	        {OVERRIDE, false, false, false, false},
	        {SOLICITED, true, false, false, true}, /* I: does not override */
	        {0, true, false, false, true},
	        {SOLICITED | OVERRIDE, true, false, true, false}, /* II */
	        {OVERRIDE, true, false, true, true},
	};

	for (unsigned int i = 0; i < RTE_DIM(t); i++) {
		const struct rte_ether_addr *said = t[i].none    ? NULL
		                                    : t[i].other ? &new_mac
		                                                 : &fake_peer_mac;
		struct weft_neigh *n;

		fake6_start(&f, NULL);
		n = get(&fake6_peer);
		nd_in(136, SOLICITED, &fake6_peer, &fake6_us, &fake6_peer, &fake_peer_mac);
		fake_drop(&f);
		nd_in(136, t[i].flags, &fake6_peer,
		      (t[i].flags & SOLICITED) != 0 ? &fake6_us : &fake6_all, &fake6_peer, said);
		tx(n, &fake6_peer, 40);
		CHECK_EQ(f.ntx, t[i].doubted ? 2 : 1);
		check_tcp(f.ntx - 1, t[i].moves ? &new_mac : &fake_peer_mac, 40);
		weft_netif_neigh_put(f.nif, n);
		fake_stop(&f);
	}
	/* A neighbour answers our solicitation either with a solicited advertisement, which
	 * proves reachability, or with an unsolicited one. After the latter its address is used,
	 * and probed. */
	for (unsigned int solicited = 0; solicited < 2; solicited++) {
		struct weft_neigh *n;

		fake6_start(&f, NULL);
		n = get(&fake6_peer);
		fake_drop(&f);
		nd_in(136, solicited ? SOLICITED | OVERRIDE : OVERRIDE, &fake6_peer,
		      solicited ? &fake6_us : &fake6_all, &fake6_peer, &fake_peer_mac);
		tx(n, &fake6_peer, 40);
		CHECK_EQ(f.ntx, solicited ? 1 : 2);
		if (!solicited)
			check_nd(0, 135, 0, &fake6_us, &fake6_peer, &fake6_peer, &fake_peer_mac,
			         true);
		check_tcp(f.ntx - 1, &fake_peer_mac, 40);
		weft_netif_neigh_put(f.nif, n);
		fake_stop(&f);
	}
	/* An unsolicited advertisement makes no entry. */
	fake6_start(&f, NULL);
	nd_in(136, OVERRIDE, &fake6_peer, &fake6_all, &fake6_peer, &new_mac);
	struct weft_neigh *n = get(&fake6_peer);

	CHECK_EQ(f.ntx, 1);
	weft_netif_neigh_put(f.nif, n);
	fake_stop(&f);
}

/* s7.2.3, s7.2.4 */
static void
test_answer(void)
{
	struct weft_ip group = fake6_solicited(&fake6_us), ll = fake6_solicited(&fake6_us_ll);
	struct weft_neigh *n;

	fake6_start(&f, NULL);
	nd_in(135, 0, &fake6_peer, &group, &fake6_us, &fake_peer_mac);
	CHECK_EQ(f.ntx, 1);
	check_nd(0, 136, SOLICITED | OVERRIDE, &fake6_us, &fake6_peer, &fake6_us, &fake_peer_mac,
	         true);
	fake_drop(&f);
	/* The sender of a solicitation is known, and its reachability is not proven: its address
	 * is used, and probed. */
	n = get(&fake6_peer);
	tx(n, &fake6_peer, 40);
	CHECK_EQ(f.ntx, 2);
	check_nd(0, 135, 0, &fake6_us, &fake6_peer, &fake6_peer, &fake_peer_mac, true);
	check_tcp(1, &fake_peer_mac, 40);
	weft_netif_neigh_put(f.nif, n);
	fake_drop(&f);
	nd_in(135, 0, &fake6_peer_ll, &ll, &fake6_us_ll, &fake_peer_mac);
	check_nd(0, 136, SOLICITED | OVERRIDE, &fake6_us_ll, &fake6_peer_ll, &fake6_us_ll,
	         &fake_peer_mac, true);
	fake_drop(&f);
	/* Solicitations to our unicast address. RFC 5942: one from off-link is answered, and
	 * makes no entry. */
	nd_in(135, 0, &fake6_peer, &fake6_us, &fake6_us, NULL);
	CHECK_EQ(f.ntx, 1);
	nd_in(135, 0, &fake6_far, &fake6_us, &fake6_us, &new_mac);
	CHECK_EQ(f.ntx, 2);
	CHECK(netif_neigh_find(&f.nif->vlan[0], &fake6_far) == NULL);
	/* A solicitation for another node's address is not answered. */
	nd_in(135, 0, &fake6_peer, &fake6_us, &fake6_gw, &fake_peer_mac);
	CHECK_EQ(f.ntx, 2);
	fake_stop(&f);
}

static void
test_malformed(void)
{
	struct weft_ip group = fake6_solicited(&fake6_us);
	uint64_t bad = 0;
	uint32_t len;
	struct weft_neigh *n;

	fake6_start(&f, NULL);
	n = get(&fake6_peer);
	fake_drop(&f);
	for (uint8_t type = 135; type <= 136; type++) {
		const struct weft_ip *target = type == 135 ? &fake6_us : &fake6_peer;
#define ND() fake6_nd(frame, type, SOLICITED, &fake6_peer, &fake6_us, target, &fake_peer_mac)
#define BAD()                                                                                      \
	do {                                                                                       \
		fake6_fix(frame, len, 54, IPPROTO_ICMPV6);                                         \
		fake_rx(&f, frame, len, FAKE_EXTBUF, 0);                                           \
		fake_rx(&f, frame, len, FAKE_CHAIN, 9);                                            \
		fake_poll(&f);                                                                     \
		CHECK_EQ(f.ntx, 0);                                                                \
		CHECK_EQ(weft_netif_stats(f.nif)->nd_bad, bad += 2);                               \
	} while (0)
		len = ND();
		frame[21] = 254; /* s7.1.1: hop limit not 255 */
		BAD();
		len = ND();
		frame[55] = 1;
		BAD();
		len = ND();
		frame[62] = 0xff; /* the target is a multicast address */
		BAD();
		len = ND();
		frame[79] = 0; /* s4.6: an option of length 0 */
		BAD();
		len = ND();
		frame[79] = 2; /* the option exceeds the packet */
		BAD();
		len = ND();
		frame[80] |= 1; /* the link-layer address is a multicast address */
		BAD();
		for (uint32_t cut = 62; cut < 86; cut++) {
			if (cut == 78)
				continue; /* whole, without its option */
			ND();
			len = cut;
			weft_put_be16(frame + 18, (uint16_t)(cut - 54));
			BAD();
		}
	}
	/* s7.1.1: from the unspecified address, with a link-layer address or to a unicast
	 * address; s7.1.2: solicited, to a multicast address. */
	len = fake6_nd(frame, 135, 0, &fake6_none, &group, &fake6_us, &fake_peer_mac);
	BAD();
	len = fake6_nd(frame, 135, 0, &fake6_none, &fake6_us, &fake6_us, NULL);
	BAD();
	len = fake6_nd(frame, 136, SOLICITED, &fake6_peer, &fake6_all, &fake6_peer, &fake_peer_mac);
	BAD();
	len = fake6_nd(frame, 136, 0, &fake6_none, &fake6_all, &fake6_peer, &fake_peer_mac);
	BAD();
	CHECK_EQ(n->state, NEIGH_INCOMPLETE);
	weft_netif_neigh_put(f.nif, n);
	fake_stop(&f);
}

/* Routers are configured. Messages about routers are counted and have no effect. */
static void
test_ignored(void)
{
	static const uint8_t types[] = {133, 134, 137};
	uint8_t body[64] = {0};

	fake6_start(&f, NULL);
	for (unsigned int i = 0; i < RTE_DIM(types); i++) {
		body[0] = types[i];
		fake_rx(&f, frame,
		        fake6_build(frame, &(struct fake6_pkt){.src = &fake6_peer_ll,
		                                               .dst = &fake6_all,
		                                               .next = IPPROTO_ICMPV6,
		                                               .hops = 255,
		                                               .body = body,
		                                               .data = sizeof(body)}),
		        FAKE_FLAT, 0);
		fake_poll(&f);
		CHECK_EQ(weft_netif_stats(f.nif)->nd_ignored, i + 1);
	}
	/* RFC 4443 s2.4 (b): unknown informational types are discarded silently. */
	for (unsigned int type = 138; type < 256; type++) {
		body[0] = (uint8_t)type;
		fake_rx(&f, frame,
		        fake6_build(frame, &(struct fake6_pkt){.src = &fake6_peer_ll,
		                                               .dst = &fake6_all,
		                                               .next = IPPROTO_ICMPV6,
		                                               .hops = 255,
		                                               .body = body,
		                                               .data = sizeof(body)}),
		        FAKE_FLAT, 0);
		fake_poll(&f);
		CHECK_EQ(weft_netif_stats(f.nif)->nd_rx, RTE_DIM(types));
	}
	CHECK_EQ(weft_netif_stats(f.nif)->icmp_bad, 0);
	CHECK_EQ(f.ntx, 0);
	fake_stop(&f);
}

/* Unknown nodes can neither displace entries in use nor fill the free ones (RFC 6583). */
#define BOUND 256

static void
test_bounds(void)
{
	static struct weft_neigh *n[BOUND];
	struct weft_netif_attr a = fake6_attr(&f);
	struct weft_ip dst = fake6_peer;

	a.max_neighs = BOUND;
	fake6_start(&f, &a);
	for (unsigned int i = 0; i < BOUND; i++) {
		weft_put_be16(&dst.b[12], (uint16_t)(i + 1));
		CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, &dst, &n[i]), 0);
	}
	fake_poll(&f);
	CHECK_EQ(f.ntx, 64); /* at once; the others follow later */
	CHECK_EQ(weft_netif_stats(f.nif)->neigh_limited, BOUND - 64);
	CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, &fake6_peer, &n[0]), -ENOBUFS);
	for (unsigned int i = 0; i < 1000; i++) {
		weft_put_be16(&dst.b[8], (uint16_t)(i + 1));
		nd_in(135, 0, &dst, &fake6_us, &fake6_us, &new_mac);
		rte_pktmbuf_free_bulk(f.txq, f.ntx);
		f.ntx = 0;
	}
	CHECK_EQ(weft_netif_stats(f.nif)->neigh_full, 1001);
	for (unsigned int i = 1; i < BOUND; i++)
		weft_netif_neigh_put(f.nif, n[i]);
	dst = fake6_peer;
	weft_put_be16(&dst.b[12], 1);
	n[0] = netif_neigh_find(&f.nif->vlan[0], &dst);
	weft_netif_neigh_put(f.nif, n[0]);
	fake_stop(&f);
}

/* Member 0 of a group of workers sends for all. The others learn from the answers and also detect a
 * duplicate. */
static void
test_group(void)
{
	const struct weft_netif_group_attr ga = {
	        .members = 2, .rx_queues = 2, .tx_queues = 2, .socket = SOCKET_ID_ANY};
	struct weft_netif_attr a = fake6_attr(&f);
	struct weft_ip group = fake6_solicited(&fake6_gw);
	unsigned int in_use = rte_mempool_in_use_count(fake_pool);
	struct weft_neigh *n;

	CHECK_EQ(weft_netif_group_create(&ga, &a.group), 0);
	a.group_index = 1;
	fake_create(&f, &a);
	fake_poll(&f);
	fake_pass(&f, 2 * WEFT_NS_PER_S);
	CHECK_EQ(f.ntx, 0);
	/* A member's own solicitation comes from a verified address. */
	n = get(&fake6_gw);
	CHECK_EQ(f.ntx, 1);
	check_nd(0, 135, 0, &fake6_us, &group, &fake6_gw, NULL, true);
	weft_netif_neigh_put(f.nif, n);
	fake_drop(&f);
	nd_in(135, 0, &fake6_peer, &fake6_us, &fake6_us, &fake_peer_mac);
	CHECK_EQ(f.ntx, 0);
	CHECK(netif_neigh_find(&f.nif->vlan[0], &fake6_peer) != NULL);
	nd_in(136, OVERRIDE, &fake6_peer_ll, &fake6_all, &fake6_us, &new_mac);
	CHECK_EQ(f.ntx, 0);
	CHECK_EQ(weft_netif_stats(f.nif)->addr_conflicts, 0);
	weft_netif_destroy(f.nif);

	fake_create(&f, &a);
	fake_poll(&f);
	nd_in(136, OVERRIDE, &fake6_peer_ll, &fake6_all, &fake6_us, &new_mac);
	CHECK(!weft_netif_is_local(f.nif, &fake6_us));
	weft_netif_destroy(f.nif);
	weft_netif_group_destroy(a.group);
	CHECK_EQ(rte_mempool_in_use_count(fake_pool), in_use);
}

/* An interface that is destroyed during duplicate address detection and reports leaves no timer. */
static void
test_gone(void)
{
	struct weft_netif_attr a = fake6_attr(&f);

	for (unsigned int polls = 0; polls < 30; polls++) {
		fake_create(&f, &a);
		for (unsigned int i = 0; i < polls; i++) {
			fake_poll(&f);
			f.now_ns += 100 * WEFT_NS_PER_MS;
		}
		if (polls == 1)
			CHECK(f.sched.wheel.armed > 0);
		fake_stop(&f);
	}
}

WEFT_TEST_MAIN({"gone", test_gone}, {"dad", test_dad}, {"duplicate", test_duplicate},
               {"disabled", test_disabled}, {"report", test_report},
               {"report_delay", test_report_delay}, {"resolve", test_resolve},
               {"give_up", test_give_up}, {"ageing", test_ageing}, {"advertised", test_advertised},
               {"answer", test_answer}, {"malformed", test_malformed}, {"ignored", test_ignored},
               {"bounds", test_bounds}, {"group", test_group})
