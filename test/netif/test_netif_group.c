/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Port groups alone: Toeplitz hashes, lists of source ports, steering of frames, and
 * rings. */

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include <rte_arp.h>
#include <rte_cycles.h>
#include <rte_ip.h>
#include <rte_tcp.h>
#include <rte_thash.h>

#include "netif_cksum.h"
#include "netif_group_priv.h"
#include "netif_neigh.h"
#include "netif_priv.h"
#include "weft_netif.h"
#include "weft_netif_attr.h"
#include "weft_netif_icmp.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_stats.h"
#include "weft_netif_tx.h"
#include "weft_sched.h"
#include "weft_test.h"

static uint64_t rng;

static uint64_t
rnd(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng * 0x2545f4914f6cdd1dULL >> 8;
}

static void
fill(void *arg, void *buf, size_t len)
{
	(void)arg;
	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = (uint8_t)rnd();
}

static const struct weft_rand rand_seeded = {.fill = fill};

static struct weft_ip
random_ip(bool v6)
{
	struct weft_ip ip;

	if (!v6)
		return weft_ip_from_v4((uint32_t)rnd());
	fill(NULL, ip.b, sizeof(ip.b));
	ip.b[0] = 0x20;
	return ip;
}

/* The reference: DPDK's bitwise Toeplitz hash. */
static uint32_t
judge(const uint8_t *key, const struct weft_ip *remote, uint16_t rport, const struct weft_ip *local,
      uint16_t lport)
{
	unsigned int n = weft_ip_is_v4(remote) ? 1 : 4;
	uint32_t t[9];

	for (unsigned int i = 0; i < n; i++) {
		t[i] = weft_get_be32(&remote->b[16 - 4 * n + 4 * i]);
		t[n + i] = weft_get_be32(&local->b[16 - 4 * n + 4 * i]);
	}
	t[2 * n] = (uint32_t)rport << 16 | lport;
	return rte_softrss(t, 2 * n + 1, key);
}

static struct netif_steer steer;

/* kind 0: random; else a key of low rank. */
static void
random_steer(unsigned int kind, uint8_t key[52], uint16_t *reta, unsigned int *size,
             unsigned int *members)
{
	*members = 1 + (unsigned int)(rnd() % 9);
	*size = 64u << rnd() % 4;
	fill(NULL, key, 52);
	for (unsigned int i = 0; i < 52 && kind != 0; i++)
		key[i] = kind == 1 ? 0 : kind == 2 ? 0xff : kind == 3 ? key[i % 2] : key[i] & 0x81;
	for (unsigned int i = 0; i < *size; i++)
		reta[i] = (uint16_t)(rnd() % *members);
	netif_steer_init(&steer, *members, key, reta, *size);
}

static void
test_toeplitz(void)
{
	uint8_t key[52];
	uint16_t reta[512];
	unsigned int size, members;

	rng = test_seed(1);
	for (unsigned int kind = 0; kind < 5; kind++) {
		random_steer(kind, key, reta, &size, &members);
		for (unsigned int i = 0; i < 2000; i++) {
			bool v6 = i % 2 != 0;
			struct weft_ip a = random_ip(v6), b = random_ip(v6);
			uint16_t p = (uint16_t)rnd(), q = (uint16_t)rnd();
			uint32_t h = netif_steer_hash(&steer, &a, p, &b, q);

			CHECK_EQ(h, judge(key, &a, p, &b, q));
			CHECK_EQ(netif_steer_member(&steer, h), reta[h % size]);
		}
	}
}

/* The RSS verification suite: its key, and one test vector of each kind. */
static void
test_toeplitz_vectors(void)
{
	static const uint8_t key[52] = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
	                                0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
	                                0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
	                                0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};
	static const uint16_t reta[64];
	struct weft_ip a = weft_ip_from_v4(RTE_BE32(RTE_IPV4(66, 9, 149, 187)));
	struct weft_ip b = weft_ip_from_v4(RTE_BE32(RTE_IPV4(161u, 142, 100, 80)));
	struct weft_ip c = {.b = {0x3f, 0xfe, 0x25, 0x01, 0x02, 0x00, 0x00, 0x03, [15] = 0x01}};
	struct weft_ip d = {.b = {0x3f, 0xfe, 0x25, 0x01, 0x02, 0x00, 0x1f, 0xff, [15] = 0x07}};

	netif_steer_init(&steer, 1, key, reta, 64);
	CHECK_EQ(netif_steer_hash(&steer, &a, 2794, &b, 1766), 0x51ccc178);
	/* 3ffe:2501:200:1fff::7 to 3ffe:2501:200:3::1 */
	CHECK_EQ(netif_steer_hash(&steer, &d, 2794, &c, 1766), 0x40207d3d);
}

struct want {
	uint8_t used[UINT16_MAX + 1];
	unsigned int asked;
	int only; /**< the only free port; -1: all ports that are not in use */
};

static bool
want_usable(void *arg, uint16_t port)
{
	struct want *w = arg;

	w->asked++;
	return w->only >= 0 ? port == w->only : w->used[port] == 0;
}

static void
test_ports(void)
{
	static struct want w;
	unsigned int none = 0;

	rng = test_seed(2);
	for (unsigned int i = 0; i < 60; i++) {
		struct weft_ip src = random_ip(i % 2 != 0), dst = random_ip(i % 2 != 0);
		uint16_t reta[512], dport = (uint16_t)(1 + rnd() % 65535);
		unsigned int size, members, me, mine = 0, found = 0, last = 0;
		uint8_t key[52];
		int port;

		random_steer(i % 5, key, reta, &size, &members);
		me = (unsigned int)(rnd() % members);
		for (uint32_t p = WEFT_PORT_FIRST; p <= UINT16_MAX; p++)
			if (reta[judge(key, &dst, dport, &src, (uint16_t)p) % size] == me) {
				mine++;
				last = p;
			}
		memset(&w, 0, sizeof(w));
		w.only = -1;
		/* Each port that leads to this worker is found once, and no other, until none is
		 * left. */
		while ((port = netif_steer_pick(&steer, me, &src, &dst, dport, &rand_seeded,
		                                want_usable, &w)) >= 0) {
			CHECK_EQ(reta[judge(key, &dst, dport, &src, (uint16_t)port) % size], me);
			CHECK_EQ(w.used[port]++, 0);
			found++;
			if (found == 200 && mine > 400) {
				/* The remaining entries, with only the last port free. */
				w.only = (int)last;
				w.asked = 0;
				CHECK_EQ(netif_steer_pick(&steer, me, &src, &dst, dport,
				                          &rand_seeded, want_usable, &w),
				         last);
				CHECK(w.asked <= mine);
				w.only = 0;
				w.asked = 0;
				CHECK_EQ(netif_steer_pick(&steer, me, &src, &dst, dport,
				                          &rand_seeded, want_usable, &w),
				         -EADDRNOTAVAIL);
				/* each port asked once, and none of other workers */
				CHECK_EQ(w.asked, mine);
				found = mine;
				break;
			}
		}
		CHECK_EQ(found, mine);
		none += mine == 0;
	}
	CHECK(none > 0); /* degenerate keys and tables were among them */
}

static void
fill_zero(void *arg, void *buf, size_t len)
{
	(*(unsigned int *)arg)++;
	memset(buf, 0, len);
}

/** The drawn key lets source ports reach every entry of the largest table, for both families. */
static void
test_drawn_key(void)
{
	uint8_t key[2][WEFT_GROUP_KEY_MAX];
	unsigned int zeros = 0;
	const struct weft_rand bad = {.fill = fill_zero, .arg = &zeros};
	uint16_t reta[WEFT_GROUP_RETA_MAX] = {0};

	rng = test_seed(5);
	for (unsigned int i = 0; i < 200; i++) {
		netif_rss_draw(&rand_seeded, key[i % 2]);
		CHECK(i == 0 || memcmp(key[0], key[1], sizeof(key[0])) != 0);
		netif_steer_init(&steer, 1, key[i % 2], reta, WEFT_GROUP_RETA_MAX);
		for (unsigned int v6 = 0; v6 < 2; v6++)
			for (unsigned int e = 0; e < WEFT_GROUP_RETA_MAX; e++)
				CHECK(steer.ports[v6].first[e] < steer.ports[v6].first[e + 1]);
	}
	/* Random numbers that yield no such key: the draw ends, and the public key is used. */
	netif_rss_draw(&bad, key[0]);
	CHECK(zeros > 1);
	CHECK_MEM(key[0], netif_rss_key, sizeof(key[0]));
	CHECK_EQ(netif_steer_rank(netif_rss_key, false), WEFT_GROUP_RETA_BITS);
	CHECK_EQ(netif_steer_rank(netif_rss_key, true), WEFT_GROUP_RETA_BITS);
	netif_rss_draw(NULL, key[1]);
	CHECK_MEM(key[1], netif_rss_key, sizeof(key[1]));
}

/** RFC 6056 s3.1: the next port cannot be guessed from the last. */
static void
test_ports_spread(void)
{
	struct weft_ip src = weft_ip_from_v4(RTE_BE32(0x0a000001)),
	               dst = weft_ip_from_v4(RTE_BE32(0x0a000002));
	static struct want w;
	static unsigned int hits[UINT16_MAX + 1];
	uint16_t reta[512];
	unsigned int size, members, distinct = 0, most = 0;
	uint8_t key[52];

	rng = test_seed(3);
	do
		random_steer(0, key, reta, &size, &members);
	while (members != 4);
	memset(&w, 0, sizeof(w));
	w.only = -1;
	for (unsigned int i = 0; i < 16384; i++) {
		int p = netif_steer_pick(&steer, 1, &src, &dst, 80, &rand_seeded, want_usable, &w);

		CHECK(p >= WEFT_PORT_FIRST);
		distinct += hits[p]++ == 0;
		most = RTE_MAX(most, hits[p]);
	}
	/* About 4096 ports lead there: four hits each on average. */
	CHECK_MSG(distinct > 3500, "%u distinct", distinct);
	CHECK_MSG(most < 24, "one port %u times", most);
}

/** The cost of a source port for an active open, compared with trying ports until one fits. */
static void
test_ports_cost(void)
{
	struct weft_ip src = weft_ip_from_v4(RTE_BE32(0x0a000001));
	static struct want w;
	uint16_t reta[512];
	uint8_t key[52];
	uint64_t t0, listed, tried;
	unsigned int sum = 0;

	rng = test_seed(4);
	fill(NULL, key, sizeof(key));
	memset(&w, 0, sizeof(w));
	w.only = -1;
	for (unsigned int members = 2; members <= 64; members *= 4) {
		for (unsigned int i = 0; i < 128; i++)
			reta[i] = (uint16_t)(i % members);
		netif_steer_init(&steer, members, key, reta, 128);
		t0 = rte_rdtsc();
		for (uint32_t i = 0; i < 20000; i++) {
			struct weft_ip dst = weft_ip_from_v4(i * 2654435761u);

			sum += (unsigned int)netif_steer_pick(&steer, 1, &src, &dst, 80,
			                                      &rand_seeded, want_usable, &w);
		}
		listed = rte_rdtsc() - t0;
		t0 = rte_rdtsc();
		for (uint32_t i = 0; i < 20000; i++) {
			struct weft_ip dst = weft_ip_from_v4(i * 2654435761u);
			uint16_t p;

			do
				p = (uint16_t)(WEFT_PORT_FIRST + rnd() % WEFT_PORT_COUNT);
			while (!want_usable(&w, p) ||
			       netif_steer_member(
			               &steer, netif_steer_hash(&steer, &dst, 80, &src, p)) != 1);
			sum += p;
		}
		tried = rte_rdtsc() - t0;
		test_note("%u members: %" PRIu64 " cycles a port, by trial %" PRIu64, members,
		          listed / 20000, tried / 20000);
	}
	CHECK(sum != 0);
}

/* ---- Frames ---- */

static struct rte_mempool *
pool(void)
{
	static struct rte_mempool *p;

	if (p == NULL) {
		test_eal_init();
		CHECK_EQ(weft_netif_pool_create("group", 4095, 1500, 0, &p), 0);
	}
	return p;
}

static const struct rte_ether_addr our_mac = {{2, 0, 0, 0, 0, 1}}, peer_mac = {{2, 0, 0, 0, 0, 2}};
#define OUR_IP  RTE_BE32(RTE_IPV4(10, 0, 0, 1))
#define PEER_IP RTE_BE32(RTE_IPV4(10, 0, 0, 2))

static struct rte_mempool *frames_from; /**< NULL: pool() */

static struct rte_mbuf *
frame(uint16_t type, unsigned int vlan)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(frames_from != NULL ? frames_from : pool());
	uint8_t *p = m != NULL ? (uint8_t *)rte_pktmbuf_append(m, 14) : NULL;

	CHECK(p != NULL);
	memcpy(p, &our_mac, 6);
	memcpy(p + 6, &peer_mac, 6);
	weft_put_be16(p + 12, type);
	if (vlan != 0) {
		weft_put_be16(p + 12, RTE_ETHER_TYPE_VLAN);
		p = (uint8_t *)rte_pktmbuf_append(m, 4);
		weft_put_be16(p, (uint16_t)vlan);
		weft_put_be16(p + 2, type);
	}
	return m;
}

static uint8_t *
add(struct rte_mbuf *m, unsigned int n)
{
	uint8_t *p = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)n);

	CHECK(p != NULL);
	return memset(p, 0, n);
}

static void
put_ip4(uint8_t *p, uint32_t src, uint32_t dst, uint8_t proto, unsigned int l4_len,
        unsigned int opt)
{
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)p;

	ip->version_ihl = (uint8_t)(0x45 + opt);
	ip->total_length = rte_cpu_to_be_16((uint16_t)(20 + 4 * opt + l4_len));
	ip->time_to_live = 64;
	ip->next_proto_id = proto;
	ip->src_addr = src;
	ip->dst_addr = dst;
	ip->hdr_checksum = (uint16_t)~netif_sum(ip, 20 + 4 * opt);
}

/* A segment to us with correct checksums. */
static struct rte_mbuf *
tcp4(uint16_t sport, uint16_t dport, uint8_t flags, unsigned int vlan, unsigned int opt)
{
	struct rte_mbuf *m = frame(RTE_ETHER_TYPE_IPV4, vlan);
	uint8_t *ip = add(m, 20 + 4 * opt), *t = add(m, 20);
	uint32_t sum;

	memset(ip + 20, 1, 4 * opt);
	put_ip4(ip, PEER_IP, OUR_IP, IPPROTO_TCP, 20, opt);
	weft_put_be16(t, sport);
	weft_put_be16(t + 2, dport);
	t[12] = 0x50;
	t[13] = flags;
	sum = netif_sum_pseudo(PEER_IP, OUR_IP, IPPROTO_TCP, 20) + netif_sum(t, 20);
	*(uint16_t *)(void *)(t + 16) = (uint16_t)~netif_fold(sum);
	return m;
}

static void
check_flow(const struct rte_mbuf *m, enum steer_verdict v, const struct weft_ip *remote,
           uint16_t rport, const struct weft_ip *local, uint16_t lport)
{
	struct steer_flow f;

	CHECK_EQ(netif_steer_look(m, &f), v);
	CHECK_EQ(netif_steer_flow_hash(&steer, &f),
	         netif_steer_hash(&steer, remote, rport, local, lport));
}

/* No octet beyond the end is read: each truncated frame is STEER_HERE, or is steered as the
 * whole one. */
static void
check_cuts(const struct rte_mbuf *m, unsigned int need)
{
	struct steer_flow f;

	for (unsigned int len = 0; len < need; len++) {
		struct rte_mbuf c;
		uint8_t *exact = malloc(len + 1);

		memcpy(exact, rte_pktmbuf_mtod(m, void *), len);
		memset(&c, 0, sizeof(c));
		c.buf_addr = exact;
		c.nb_segs = 1;
		c.pkt_len = len;
		c.data_len = (uint16_t)len;
		CHECK_EQ(netif_steer_look(&c, &f), STEER_HERE);
		free(exact);
	}
}

static void
test_look4(void)
{
	struct weft_ip us = weft_ip_from_v4(OUR_IP), peer = weft_ip_from_v4(PEER_IP);
	uint8_t key[52];
	uint16_t reta[512];
	unsigned int size, members;
	struct steer_flow f;
	struct rte_mbuf *m, *c;
	uint8_t *p;

	rng = test_seed(5);
	random_steer(0, key, reta, &size, &members);
	for (unsigned int vlan = 0; vlan < 2; vlan++)
		for (unsigned int opt = 0; opt < 11; opt += 5) {
			m = tcp4(4000, 7, 2, vlan, opt);
			check_flow(m, STEER_OWNER, &peer, 4000, &us, 7);
			CHECK_EQ(netif_steer_look(m, &f), STEER_OWNER);
			CHECK(f.syn);
			check_cuts(m, m->pkt_len);
			/* Split into two mbufs at any octet. */
			for (unsigned int cut = 1; cut < m->pkt_len; cut++) {
				c = rte_pktmbuf_copy(m, pool(), 0, cut);
				CHECK_EQ(rte_pktmbuf_chain(
				                 c, rte_pktmbuf_copy(m, pool(), cut, UINT32_MAX)),
				         0);
				check_flow(c, STEER_OWNER, &peer, 4000, &us, 7);
				rte_pktmbuf_free(c);
			}
			/* A fragment (RFC 791 s3.2) has no ports. */
			weft_put_be16(rte_pktmbuf_mtod_offset(m, uint8_t *, 20 + 4 * vlan), 0x2000);
			CHECK_EQ(netif_steer_look(m, &f), STEER_HERE);
			rte_pktmbuf_free(m);
		}
	/* RFC 792: an ICMP error is steered like the segment that it quotes. */
	m = frame(RTE_ETHER_TYPE_IPV4, 0);
	p = add(m, 20 + 8 + 20 + 8);
	put_ip4(p, RTE_BE32(RTE_IPV4(10, 0, 0, 77)), OUR_IP, IPPROTO_ICMP, 36, 0);
	p[20] = 3;
	put_ip4(p + 28, OUR_IP, PEER_IP, IPPROTO_TCP, 20, 0);
	weft_put_be16(p + 48, 50001);
	weft_put_be16(p + 50, 7471);
	check_flow(m, STEER_ICMP, &peer, 7471, &us, 50001);
	check_cuts(m, 14 + 20 + 8 + 20 + 4);
	p[28 + 9] = IPPROTO_UDP;
	CHECK_EQ(netif_steer_look(m, &f), STEER_HERE);
	p[28 + 9] = IPPROTO_TCP;
	p[20] = 8; /* an echo request belongs to no worker in particular */
	CHECK_EQ(netif_steer_look(m, &f), STEER_HERE);
	rte_pktmbuf_free(m);
	m = frame(RTE_ETHER_TYPE_ARP, 0);
	CHECK_EQ(netif_steer_look(m, &f), STEER_ALL);
	rte_pktmbuf_free(m);
}

static void
test_look6(void)
{
	struct weft_ip us, peer;
	uint8_t key[52];
	uint16_t reta[512];
	unsigned int size, members;
	struct steer_flow f;
	struct rte_mbuf *m;
	uint8_t *p;

	rng = test_seed(6);
	random_steer(0, key, reta, &size, &members);
	us = random_ip(true);
	peer = random_ip(true);
	for (unsigned int ext = 0; ext < 3; ext++) {
		static const uint8_t kinds[3] = {IPPROTO_TCP, 0, 60}; /* RFC 8200 s4 */

		m = frame(RTE_ETHER_TYPE_IPV6, ext);
		p = add(m, 40 + 8 * ext + 20);
		p[0] = 0x60;
		weft_put_be16(p + 4, (uint16_t)(8 * ext + 20));
		p[6] = kinds[ext];
		memcpy(p + 8, peer.b, 16);
		memcpy(p + 24, us.b, 16);
		for (unsigned int i = 0; i < ext; i++)
			p[40 + 8 * i] = i + 1 == ext ? IPPROTO_TCP : 60;
		weft_put_be16(p + 40 + 8 * ext, 999);
		weft_put_be16(p + 42 + 8 * ext, 7);
		check_flow(m, STEER_OWNER, &peer, 999, &us, 7);
		check_cuts(m, m->pkt_len);
		p[6] = 44; /* a fragment */
		p[42] = 1;
		CHECK_EQ(netif_steer_look(m, &f), STEER_HERE);
		rte_pktmbuf_free(m);
	}
	m = frame(RTE_ETHER_TYPE_IPV6, 0);
	p = add(m, 40 + 8 + 40 + 8);
	p[0] = 0x60;
	weft_put_be16(p + 4, 8 + 40 + 8);
	p[6] = IPPROTO_ICMPV6;
	p[40] = 2; /* packet too big (RFC 4443 s3.2) */
	p[48] = 0x60;
	p[48 + 6] = IPPROTO_TCP;
	memcpy(p + 56, us.b, 16);
	memcpy(p + 72, peer.b, 16);
	weft_put_be16(p + 88, 50001);
	weft_put_be16(p + 90, 7471);
	check_flow(m, STEER_ICMP, &peer, 7471, &us, 50001);
	check_cuts(m, 14 + 40 + 8 + 40 + 4);
	for (unsigned int type = 0; type < 256; type++) {
		p[40] = (uint8_t)type;
		CHECK_EQ(netif_steer_look(m, &f), type >= 1 && type <= 4 ? STEER_ICMP
		                                  : (type >= 133 && type <= 137) || type == 130
		                                          ? STEER_ALL
		                                          : STEER_HERE);
	}
	rte_pktmbuf_free(m);
}

/* ---- Members of a group over a simulated device ---- */

#define MEMBERS 3

struct box {
	struct rte_mbuf *in[2048], *out[2048];
	unsigned int first, nin, nout, room;
	uint16_t step; /**< it gives a multiple of so many frames, of those asked for; 0: any */
};

static uint16_t
box_rx(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	struct box *b = dev;
	uint16_t i;

	if (b->step != 0)
		n = RTE_ALIGN_FLOOR(n, b->step);
	for (i = 0; i < n && b->first < b->nin; i++)
		pkts[i] = b->in[b->first++];
	return i;
}

static uint16_t
box_tx(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	struct box *b = dev;
	uint16_t i;

	for (i = 0; i < n && b->room > 0 && b->nout < RTE_DIM(b->out); i++, b->room--)
		b->out[b->nout++] = pkts[i];
	return i;
}

static bool box_link_down;
static unsigned int box_links_asked;

static bool
box_link(void *dev)
{
	CHECK(dev != NULL);
	box_links_asked++;
	return !box_link_down;
}

static const struct weft_netif_dev box_dev = {.rx = box_rx, .tx = box_tx, .link = box_link};

static struct rig {
	struct weft_netif_group *g;
	struct box box[MEMBERS];
	struct weft_sched sched[MEMBERS];
	struct weft_netif *nif[MEMBERS];
	unsigned int segs[MEMBERS], errors[MEMBERS];
	uint64_t now_ns;
} R;

static void
rig_rx(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n, uint64_t now_ns)
{
	unsigned int i = (unsigned int)(uintptr_t)arg;

	(void)nif;
	(void)now_ns;
	R.segs[i] += n;
	rte_pktmbuf_free_bulk(m, n);
}

static void
rig_icmp(void *arg, struct weft_netif *nif, const struct weft_icmp_error *e, uint64_t now_ns)
{
	(void)nif;
	(void)e;
	(void)now_ns;
	R.errors[(uintptr_t)arg]++;
}

static void
rig_up(unsigned int rx_queues, unsigned int tx_queues, unsigned int ring_size)
{
	static const struct weft_netif_ops ops = {.tcp_rx = rig_rx, .icmp_error = rig_icmp};
	const struct weft_netif_group_attr ga = {.members = MEMBERS,
	                                         .rx_queues = rx_queues,
	                                         .tx_queues = tx_queues,
	                                         .ring_size = ring_size};

	pool();
	memset(&R, 0, sizeof(R));
	R.now_ns = WEFT_NS_PER_S;
	CHECK_EQ(weft_netif_group_create(&ga, &R.g), 0);
	for (unsigned int i = 0; i < MEMBERS; i++) {
		struct weft_netif_attr a = {.dev = &box_dev,
		                            .dev_arg = &R.box[i],
		                            .pool = pool(),
		                            .mac = our_mac,
		                            .addr = weft_ip_from_v4(OUR_IP),
		                            .prefix_len = 24,
		                            .no_ipv6 = true,
		                            .group = R.g,
		                            .group_index = i};

		R.box[i].room = UINT32_MAX;
		TAILQ_INIT(&R.sched[i].run);
		weft_wheel_init(&R.sched[i].wheel, R.now_ns);
		R.sched[i].now_ns = R.now_ns;
		CHECK_EQ(weft_netif_create(&a, &ops, (void *)(uintptr_t)i, &R.sched[i], &R.nif[i]),
		         0);
	}
}

static void
rig_poll(void)
{
	R.now_ns += WEFT_NS_PER_MS;
	for (unsigned int i = 0; i < MEMBERS; i++) {
		R.sched[i].now_ns = R.now_ns;
		weft_timer_run(&R.sched[i].wheel, R.now_ns);
		weft_netif_poll(R.nif[i], R.now_ns);
		weft_netif_flush(R.nif[i], R.now_ns);
	}
}

static void
rig_down(void)
{
	for (unsigned int i = MEMBERS; i-- > 0;) {
		weft_netif_destroy(R.nif[i]);
		for (unsigned int k = 0; k < R.box[i].nout; k++)
			rte_pktmbuf_free(R.box[i].out[k]);
		rte_pktmbuf_free_bulk(R.box[i].in + R.box[i].first, R.box[i].nin - R.box[i].first);
		R.box[i].nout = 0;
	}
	/* Frames that member 0 sent for others while it left are in its box. */
	for (unsigned int k = 0; k < R.box[0].nout; k++)
		rte_pktmbuf_free(R.box[0].out[k]);
	weft_netif_group_destroy(R.g);
	CHECK_EQ(rte_mempool_in_use_count(pool()), 0);
}

static unsigned int
owner4(uint16_t rport, uint16_t lport)
{
	struct weft_ip us = weft_ip_from_v4(OUR_IP), peer = weft_ip_from_v4(PEER_IP);

	return weft_netif_group_owner(R.g, &us, lport, &peer, rport);
}

static void
test_attributes(void)
{
	struct weft_netif_group_attr a = {.members = 2, .rx_queues = 2, .tx_queues = 2};
	uint16_t reta[64] = {0};
	uint8_t key[52] = {0};
	struct weft_netif_group *g;

	pool();
#define BAD(field, bad, good)                                                                      \
	a.field = (bad);                                                                           \
	CHECK_EQ(weft_netif_group_create(&a, &g), -EINVAL);                                        \
	a.field = (good)
	BAD(members, 0, 2);
	BAD(members, 65, 2);
	BAD(rx_queues, 3, 2);
	BAD(tx_queues, 0, 2);
	BAD(ring_size, 100, 0);
	a.key = key;
	a.key_bytes = 40;
	BAD(key_bytes, 39, 40);
	BAD(key_bytes, 53, 52);
	a.reta = reta;
	a.reta_size = 64;
	BAD(reta_size, 96, 64);
	BAD(reta_size, 1024, 64);
	reta[63] = 2;
	CHECK_EQ(weft_netif_group_create(&a, &g), -EINVAL);
	reta[63] = 1;
#undef BAD
	CHECK_EQ(weft_netif_group_create(&a, &g), 0);
	CHECK(weft_netif_group_has_rss(g));
	CHECK_EQ(weft_netif_group_members(g), 2);
	weft_netif_group_destroy(g);
	rig_up(1, 1, 0);
	CHECK(!weft_netif_group_has_rss(R.g));
	/* An index that is in use, and an invalid index. */
	struct weft_netif_attr na = *weft_netif_attr(R.nif[1]);
	static const struct weft_netif_ops ops = {.tcp_rx = rig_rx};
	struct weft_netif *nif;

	CHECK_EQ(weft_netif_create(&na, &ops, NULL, &R.sched[1], &nif), -EINVAL);
	na.group_index = MEMBERS;
	CHECK_EQ(weft_netif_create(&na, &ops, NULL, &R.sched[1], &nif), -EINVAL);
	/* A member that leaves frees its index. */
	na.group_index = 1;
	na.dev = &box_dev;
	na.dev_arg = &R.box[1];
	weft_netif_destroy(R.nif[1]);
	CHECK_EQ(weft_netif_create(&na, &ops, (void *)1, &R.sched[1], &R.nif[1]), 0);
	rig_down();
}

static void
test_distribute(void)
{
	unsigned int expect[MEMBERS] = {0};

	rig_up(1, 1, 0);
	for (unsigned int i = 0; i < 600; i++) {
		R.box[0].in[R.box[0].nin++] = tcp4((uint16_t)(1000 + i), 7, 16, 0, 0);
		expect[owner4((uint16_t)(1000 + i), 7)]++;
	}
	for (unsigned int i = 0; i < 100; i++)
		rig_poll();
	for (unsigned int i = 0; i < MEMBERS; i++) {
		CHECK(expect[i] > 100);
		CHECK_EQ(R.segs[i], expect[i]);
	}
	CHECK_EQ(weft_netif_group_stats(R.g, 0)->handed_out, expect[1] + expect[2]);
	CHECK_EQ(weft_netif_group_stats(R.g, 1)->handed_in, expect[1]);
	rig_down();
}

/** A member that does not poll costs the others nothing. Only its own segments are lost. */
static void
test_overflow(void)
{
	uint16_t port = 1000;

	rig_up(1, 1, 64);
	for (unsigned int i = 0; i < 500; i++) {
		while (owner4(port, 7) != 2)
			port++;
		R.box[0].in[R.box[0].nin++] = tcp4(port++, 7, 16, 0, 0);
	}
	for (unsigned int i = 0; i < 50; i++) {
		R.now_ns += WEFT_NS_PER_MS;
		weft_netif_poll(R.nif[0], R.now_ns);
	}
	CHECK_EQ(weft_netif_group_stats(R.g, 0)->handed_out, 63);
	CHECK_EQ(weft_netif_group_stats(R.g, 0)->handover_drops, 500 - 63);
	/* Only the member that has segments waiting must not sleep. */
	CHECK(weft_netif_handed(R.nif[2]));
	CHECK(!weft_netif_handed(R.nif[0]) && !weft_netif_handed(R.nif[1]));
	CHECK(weft_netif_group_pending(R.g, 2) && !weft_netif_group_pending(R.g, 1));
	rig_poll();
	rig_poll();
	CHECK_EQ(R.segs[2], 63);
	rig_down();
}

/** Adds n segments of member 1's connections to the box of member `at`. */
static void
add_for_1(unsigned int at, unsigned int n)
{
	static uint16_t port;

	while (n-- > 0) {
		do
			port++;
		while (owner4(port, 7) != 1);
		R.box[at].in[R.box[at].nin++] = tcp4(port, 7, 16, 0, 0);
	}
}

/** A member's port and its ring, which a sibling fills in every poll, both get their shares. */
static void
check_shares(uint16_t mtu, bool single, uint16_t step)
{
	uint64_t before;

	rig_up(MEMBERS, MEMBERS, 0);
	R.nif[1]->attr.mtu_bytes = mtu;
	R.nif[1]->rx_single = single;
	R.box[1].step = step;
	add_for_1(0, 32);
	add_for_1(1, 200);
	for (unsigned int i = 0; i < 4; i++) {
		add_for_1(0, 32);
		R.now_ns += WEFT_NS_PER_MS;
		weft_netif_poll(R.nif[0], R.now_ns);
		before = weft_netif_group_stats(R.g, 1)->handed_in;
		CHECK_EQ(weft_netif_poll(R.nif[1], R.now_ns), WEFT_NETIF_BURST);
		CHECK_EQ(R.segs[1], (i + 1) * WEFT_NETIF_BURST);
		CHECK_EQ(weft_netif_group_stats(R.g, 1)->handed_in - before, WEFT_NETIF_BURST / 2);
		CHECK(R.box[1].first >= (i + 1) * WEFT_NETIF_BURST / 2);
	}
	/* Nothing is lost. */
	for (unsigned int i = 0; i < 40; i++)
		rig_poll();
	CHECK_EQ(R.box[1].first, 200);
	CHECK_EQ(R.segs[1], 200 + 5 * 32);
	/* The whole burst is the ring's while the port has nothing. */
	add_for_1(0, WEFT_NETIF_BURST + 2);
	weft_netif_poll(R.nif[0], R.now_ns);
	weft_netif_poll(R.nif[0], R.now_ns);
	CHECK_EQ(weft_netif_poll(R.nif[1], R.now_ns), WEFT_NETIF_BURST);
	/* What was taken from the port and not handed up is freed. */
	add_for_1(1, 40);
	CHECK_EQ(weft_netif_poll(R.nif[1], R.now_ns), WEFT_NETIF_BURST);
	CHECK_EQ(weft_netif_group_pending(R.g, 1), mtu > 1500 && mtu != UINT16_MAX);
	rig_down();
}

static void
test_shares(void)
{
	check_shares(1500, false, 0);
	check_shares(9000, false, 0);
	check_shares(9000, false, 4);
	check_shares(9000, false, 8);
	check_shares(9978, false, 8);
	check_shares(9000, true, 0);
	check_shares(UINT16_MAX, true, 0);
}

static struct rte_mbuf *
arp(uint16_t op, uint32_t sip, const struct rte_ether_addr *sha, uint32_t tip)
{
	struct rte_mbuf *m = frame(RTE_ETHER_TYPE_ARP, 0);
	struct rte_arp_hdr *a = (struct rte_arp_hdr *)add(m, sizeof(*a));

	a->arp_hardware = RTE_BE16(RTE_ARP_HRD_ETHER);
	a->arp_protocol = RTE_BE16(RTE_ETHER_TYPE_IPV4);
	a->arp_hlen = 6;
	a->arp_plen = 4;
	a->arp_opcode = rte_cpu_to_be_16(op);
	a->arp_data.arp_sha = *sha;
	a->arp_data.arp_sip = sip;
	a->arp_data.arp_tip = tip;
	return m;
}

/** RFC 826: one answer is sent, and every cache learns; RFC 5227 s2.3: one announcement is sent. */
static void
check_arp(unsigned int rx_queues, unsigned int tx_queues, unsigned int at)
{
	struct weft_ip peer = weft_ip_from_v4(PEER_IP);
	unsigned int sent = 0;

	rig_up(rx_queues, tx_queues, 0);
	rig_poll();
	rig_poll();
	for (unsigned int i = 0; i < MEMBERS; i++)
		sent += R.box[i].nout;
	CHECK_EQ(sent, 1); /* the announcement */
	R.box[at].in[R.box[at].nin++] = arp(RTE_ARP_OP_REQUEST, PEER_IP, &peer_mac, OUR_IP);
	for (unsigned int i = 0; i < 4; i++)
		rig_poll();
	CHECK_EQ(R.box[0].nout, 2);
	CHECK_EQ(R.box[1].nout + R.box[2].nout, 0);
	for (unsigned int i = 0; i < MEMBERS; i++) {
		struct weft_neigh *n;

		CHECK_EQ(weft_netif_neigh_get(R.nif[i], NULL, &peer, &n), 0);
		CHECK_EQ(n->state, NEIGH_REACHABLE);
		weft_netif_neigh_put(R.nif[i], n);
	}
	/* Another station uses our address: one announcement defends it (RFC 5227 s2.4 (b)). */
	R.box[at].in[R.box[at].nin++] = arp(RTE_ARP_OP_REPLY, OUR_IP, &peer_mac, OUR_IP);
	for (unsigned int i = 0; i < 4; i++)
		rig_poll();
	CHECK_EQ(R.box[0].nout, 3);
	CHECK_EQ(R.box[1].nout + R.box[2].nout, 0);
	CHECK_EQ(weft_netif_stats(R.nif[0])->addr_conflicts, 1);
	CHECK_EQ(weft_netif_stats(R.nif[1])->addr_conflicts, 0);
	CHECK_EQ(weft_netif_group_stats(R.g, at)->copies_out, 2 * (MEMBERS - 1));
	rig_down();
}

static void
test_arp(void)
{
	check_arp(1, 1, 0);
	check_arp(MEMBERS, MEMBERS, 0);
	check_arp(MEMBERS, MEMBERS, 2); /* the NIC delivers it to another queue */
}

/** A flood of ARP leaves room in the rings for segments. */
static void
test_copy_flood(void)
{
	uint16_t port = 1000;

	rig_up(1, 1, 64);
	for (unsigned int i = 0; i < 200; i++)
		R.box[0].in[R.box[0].nin++] =
		        arp(RTE_ARP_OP_REQUEST, PEER_IP, &peer_mac, RTE_BE32(0x0a000063));
	while (owner4(port, 7) != 1)
		port++;
	R.box[0].in[R.box[0].nin++] = tcp4(port, 7, 16, 0, 0);
	for (unsigned int i = 0; i < 20; i++)
		weft_netif_poll(R.nif[0], R.now_ns);
	CHECK(weft_netif_group_stats(R.g, 0)->copy_drops > 300);
	CHECK_EQ(weft_netif_group_stats(R.g, 0)->handover_drops, 0);
	for (unsigned int i = 0; i < 5; i++)
		rig_poll();
	CHECK_EQ(R.segs[1], 1);
	rig_down();
}

static void
test_icmp_error(void)
{
	unsigned int expect[MEMBERS] = {0};

	rig_up(1, 1, 0);
	for (unsigned int i = 0; i < 30; i++) {
		struct rte_mbuf *m = frame(RTE_ETHER_TYPE_IPV4, 0);
		uint8_t *p = add(m, 20 + 8 + 20 + 8);

		put_ip4(p, PEER_IP, OUR_IP, IPPROTO_ICMP, 36, 0);
		p[20] = 3;
		p[21] = 1;
		put_ip4(p + 28, OUR_IP, PEER_IP, IPPROTO_TCP, 20, 0);
		weft_put_be16(p + 48, (uint16_t)(50000 + i));
		weft_put_be16(p + 50, 7);
		*(uint16_t *)(void *)(p + 22) = (uint16_t)~netif_sum(p + 20, 36);
		R.box[0].in[R.box[0].nin++] = m;
		expect[owner4(7, (uint16_t)(50000 + i))]++;
	}
	for (unsigned int i = 0; i < 5; i++)
		rig_poll();
	for (unsigned int i = 0; i < MEMBERS; i++) {
		CHECK(expect[i] > 0);
		CHECK_EQ(R.errors[i], expect[i]);
	}
	CHECK_EQ(weft_netif_group_stats(R.g, 0)->icmp_handed, expect[1] + expect[2]);
	rig_down();
}

/** One TX queue for all: a full port stops every member and loses no frame. */
static void
test_relay(void)
{
	struct weft_ip us = weft_ip_from_v4(OUR_IP), peer = weft_ip_from_v4(PEER_IP);
	unsigned int sent = 0;

	rig_up(1, 1, 64);
	rig_poll();
	R.box[0].in[R.box[0].nin++] = arp(RTE_ARP_OP_REQUEST, PEER_IP, &peer_mac, OUR_IP);
	rig_poll();
	rig_poll();
	sent = R.box[0].nout;
	R.box[0].room = 10;
	for (unsigned int i = 0; i < MEMBERS; i++) {
		struct weft_neigh *n;

		CHECK_EQ(weft_netif_neigh_get(R.nif[i], NULL, &peer, &n), 0);
		for (unsigned int k = 0; k < 200; k++) {
			struct rte_mbuf *m = weft_netif_alloc(R.nif[i], 128);

			memset(rte_pktmbuf_append(m, 20), 0, 20);
			rte_pktmbuf_mtod(m, uint8_t *)[12] = 0x50;
			CHECK_EQ(weft_netif_tx(R.nif[i], n, &us, &peer, m,
			                       (struct weft_netif_tx_how){0}, R.now_ns),
			         0);
		}
		weft_netif_neigh_put(R.nif[i], n);
	}
	for (unsigned int i = 0; i < 10; i++)
		rig_poll();
	CHECK_EQ(R.box[0].nout, sent + 10);
	CHECK(weft_netif_tx_room(R.nif[1]) < WEFT_NETIF_TXQ); /* TCP sees that there is less room */
	CHECK(weft_netif_group_stats(R.g, 1)->relay_full > 0);
	R.box[0].room = UINT32_MAX;
	for (unsigned int i = 0; i < 30; i++)
		rig_poll();
	CHECK_EQ(R.box[0].nout, sent + 600);
	CHECK_EQ(R.box[1].nout + R.box[2].nout, 0);
	CHECK_EQ(weft_netif_group_stats(R.g, 2)->relay_out, 200);
	rig_down();
}

/** One member asks the port for the link state once a second. The others read its answer. */
static void
test_link(void)
{
	box_link_down = true;
	box_links_asked = 0;
	rig_up(1, 1, 0);
	for (unsigned int i = 0; i < 250; i++)
		rig_poll();
	CHECK_EQ(box_links_asked, 3);
	CHECK_EQ(R.box[0].nout, 0);
	box_link_down = false;
	for (unsigned int i = 0; i < 2200; i++)
		rig_poll();
	CHECK_EQ(box_links_asked, 6);
	for (unsigned int i = 0; i < MEMBERS; i++)
		CHECK_EQ(weft_netif_stats(R.nif[i])->link_ups, 1);
	CHECK_EQ(R.box[0].nout, 1);
	/* All see that it goes, and that it comes back. */
	box_link_down = true;
	for (unsigned int i = 0; i < 1200; i++)
		rig_poll();
	for (unsigned int i = 0; i < MEMBERS; i++)
		CHECK(!weft_netif_link_up(R.nif[i]));
	box_link_down = false;
	for (unsigned int i = 0; i < 300; i++)
		rig_poll();
	for (unsigned int i = 0; i < MEMBERS; i++) {
		CHECK(weft_netif_link_up(R.nif[i]));
		CHECK_EQ(weft_netif_stats(R.nif[i])->link_ups, 2);
		CHECK_EQ(weft_netif_stats(R.nif[i])->link_downs, 1);
	}
	rig_down();
}

/** Members may leave in any order while their rings are full. */
static void
test_leave(void)
{
	rig_up(MEMBERS, 1, 64);
	for (unsigned int at = 0; at < MEMBERS; at++)
		for (unsigned int i = 0; i < 100; i++)
			R.box[at].in[R.box[at].nin++] = tcp4((uint16_t)(1000 + i), 7, 16, 0, 0);
	for (unsigned int i = 0; i < MEMBERS; i++)
		weft_netif_poll(R.nif[i], R.now_ns);
	CHECK(weft_netif_group_pending(R.g, 0));
	rig_down();
}

/* ---- Two threads ---- */

#define THREAD_FRAMES 20000

struct duo {
	unsigned int made;
	struct weft_neigh *neigh[2];
	unsigned int stop; /**< atomic */
	unsigned int out;  /**< frames that the device accepted */
	unsigned int got[2];
};

static struct duo D;

/*
 * A mempool whose ring is compiled in this file and not in DPDK's library. ThreadSanitizer sees
 * only code that it compiled. With this pool it knows that an mbuf freed by one thread reaches the
 * other thread in order. The build needs -DRTE_USE_C11_MEM_MODEL=1, too, because ThreadSanitizer
 * does not understand the barriers of the other form of rte_ring.
 */
static int
seen_alloc(struct rte_mempool *mp)
{
	char name[RTE_RING_NAMESIZE];

	snprintf(name, sizeof(name), "seen_%.16s", mp->name);
	mp->pool_data = rte_ring_create(name, rte_align32pow2(mp->size + 1), mp->socket_id, 0);
	return mp->pool_data != NULL ? 0 : -ENOMEM;
}

static void
seen_free(struct rte_mempool *mp)
{
	rte_ring_free(mp->pool_data);
}

static int
seen_enqueue(struct rte_mempool *mp, void *const *obj, unsigned int n)
{
	return rte_ring_mp_enqueue_bulk(mp->pool_data, obj, n, NULL) == 0 ? -ENOBUFS : 0;
}

static int
seen_dequeue(struct rte_mempool *mp, void **obj, unsigned int n)
{
	return rte_ring_mc_dequeue_bulk(mp->pool_data, obj, n, NULL) == 0 ? -ENOBUFS : 0;
}

static unsigned int
seen_count(const struct rte_mempool *mp)
{
	return rte_ring_count(mp->pool_data);
}

static const struct rte_mempool_ops seen_ops = {
        .name = "weft_seen",
        .alloc = seen_alloc,
        .free = seen_free,
        .enqueue = seen_enqueue,
        .dequeue = seen_dequeue,
        .get_count = seen_count,
};

RTE_MEMPOOL_REGISTER_OPS(seen_ops)

static struct rte_mempool *duo_pool;

/* Create segments as fast as they are requested. */
static uint16_t
duo_rx(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	uint16_t i;

	(void)dev;
	for (i = 0; i < n && i < 8 && D.made < THREAD_FRAMES; i++) {
		if (rte_mempool_avail_count(duo_pool) < 1024)
			break;
		pkts[i] = D.made % 1000 == 999
		                  ? arp(RTE_ARP_OP_REQUEST, PEER_IP, &peer_mac, OUR_IP)
		                  : tcp4((uint16_t)(1000 + D.made % 5000), 7, 16, 0, 0);
		D.made++;
	}
	return i;
}

static uint16_t
duo_tx(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	(void)dev;
	for (uint16_t i = 0; i < n; i++)
		rte_pktmbuf_free(pkts[i]);
	D.out += n;
	return n;
}

static const struct weft_netif_dev duo_dev = {.rx = duo_rx, .tx = duo_tx};

/* Answer each received segment with one segment. */
static void
duo_seg(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n, uint64_t now_ns)
{
	struct weft_ip us = weft_ip_from_v4(OUR_IP), peer = weft_ip_from_v4(PEER_IP);
	unsigned int me = (unsigned int)(uintptr_t)arg;

	D.got[me] += n;
	for (unsigned int i = 0; i < n; i++) {
		struct rte_mbuf *r = weft_netif_alloc(nif, 128);

		rte_pktmbuf_free(m[i]);
		if (r == NULL)
			continue;
		memset(rte_pktmbuf_append(r, 20), 0, 20);
		rte_pktmbuf_mtod(r, uint8_t *)[12] = 0x50;
		(void)weft_netif_tx(nif, D.neigh[me], &us, &peer, r, (struct weft_netif_tx_how){0},
		                    now_ns);
	}
}

static void
duo_turn(unsigned int me, uint64_t now_ns)
{
	R.sched[me].now_ns = now_ns;
	weft_timer_run(&R.sched[me].wheel, now_ns);
	weft_netif_poll(R.nif[me], now_ns);
	weft_netif_flush(R.nif[me], now_ns);
}

static void *
duo_main(void *arg)
{
	uint64_t now_ns = WEFT_NS_PER_S;

	(void)arg;
	while (!__atomic_load_n(&D.stop, __ATOMIC_ACQUIRE)) {
		duo_turn(1, now_ns += 1000);
		if (!weft_netif_group_pending(R.g, 1))
			sched_yield();
	}
	return NULL;
}

/** Two threads: one receives and sends for both. Every segment is received by its owner or
 * counted as lost. */
static void
test_threads(void)
{
	static const struct weft_netif_ops ops = {.tcp_rx = duo_seg};
	const struct weft_netif_group_attr ga = {.members = 2, .rx_queues = 1, .tx_queues = 1};
	struct weft_ip peer = weft_ip_from_v4(PEER_IP);
	const struct weft_netif_group_stats *st;
	uint64_t now_ns = WEFT_NS_PER_S, queued = 0;
	pthread_t th;

	test_eal_init();
	if (duo_pool == NULL)
		duo_pool = rte_pktmbuf_pool_create_by_ops(
		        "group_duo", 4095, 0, RTE_ALIGN(sizeof(struct weft_mbuf_priv), 8), 2048, 0,
		        "weft_seen");
	CHECK(duo_pool != NULL);
	memset(&R, 0, sizeof(R));
	memset(&D, 0, sizeof(D));
	frames_from = duo_pool;
	CHECK_EQ(weft_netif_group_create(&ga, &R.g), 0);
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_netif_attr a = {.dev = &duo_dev,
		                            .pool = duo_pool,
		                            .mac = our_mac,
		                            .addr = weft_ip_from_v4(OUR_IP),
		                            .prefix_len = 24,
		                            .group = R.g,
		                            .group_index = i};

		TAILQ_INIT(&R.sched[i].run);
		weft_wheel_init(&R.sched[i].wheel, now_ns);
		R.sched[i].now_ns = now_ns;
		CHECK_EQ(weft_netif_create(&a, &ops, (void *)(uintptr_t)i, &R.sched[i], &R.nif[i]),
		         0);
		CHECK_EQ(weft_netif_neigh_get(R.nif[i], NULL, &peer, &D.neigh[i]), 0);
	}
	CHECK_EQ(pthread_create(&th, NULL, duo_main, NULL), 0);
	for (unsigned int i = 0;
	     i < 4000000 && (D.made < THREAD_FRAMES || weft_netif_group_pending(R.g, 1) ||
	                     weft_netif_group_pending(R.g, 0));
	     i++) {
		duo_turn(0, now_ns += 1000);
		if (weft_netif_group_pending(R.g, 1))
			sched_yield();
	}
	__atomic_store_n(&D.stop, 1, __ATOMIC_RELEASE);
	pthread_join(th, NULL);
	for (unsigned int i = 0; i < 100; i++) {
		duo_turn(1, now_ns += 1000);
		duo_turn(0, now_ns);
	}
	CHECK_EQ(D.made, THREAD_FRAMES);
	st = weft_netif_group_stats(R.g, 0);
	CHECK_EQ(D.got[0] + D.got[1] + st->handover_drops, THREAD_FRAMES - THREAD_FRAMES / 1000);
	CHECK(D.got[1] > THREAD_FRAMES / 100);
	CHECK_EQ(D.got[1], st->handed_out);
	for (unsigned int i = 0; i < 2; i++) {
		queued += weft_netif_stats(R.nif[i])->tx_packets;
		weft_netif_neigh_put(R.nif[i], D.neigh[i]);
	}
	CHECK_EQ(D.out, queued);
	weft_netif_destroy(R.nif[1]);
	weft_netif_destroy(R.nif[0]);
	weft_netif_group_destroy(R.g);
	frames_from = NULL;
	CHECK_EQ(rte_mempool_in_use_count(duo_pool), 0);
}

WEFT_TEST_MAIN({"toeplitz", test_toeplitz}, {"toeplitz_vectors", test_toeplitz_vectors},
               {"ports", test_ports}, {"ports_spread", test_ports_spread},
               {"ports_cost", test_ports_cost}, {"drawn_key", test_drawn_key},
               {"look4", test_look4}, {"look6", test_look6}, {"attributes", test_attributes},
               {"distribute", test_distribute}, {"overflow", test_overflow},
               {"a ring and a port, each with a share", test_shares}, {"arp", test_arp},
               {"a flood of ARP requests", test_copy_flood}, {"icmp_error", test_icmp_error},
               {"relay", test_relay}, {"link", test_link}, {"leave", test_leave},
               {"threads", test_threads})
