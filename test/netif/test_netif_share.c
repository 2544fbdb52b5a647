/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A shared port in rare situations: extension headers, wrong hashes, and segments sent
 * while polling ends. */

#include <rte_ip.h>

#include "netif_cksum.h"
#include "netif_group_priv.h"
#include "netif_neigh.h"
#include "netif_priv.h"
#include "weft_netif.h"
#include "weft_netif_attr.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_tx.h"
#include "weft_sched.h"
#include "weft_test.h"

#define MEMBERS 3

static const struct rte_ether_addr our_mac = {{2, 0, 0, 0, 0, 1}}, peer_mac = {{2, 0, 0, 0, 0, 2}};
#define OUR_IP  RTE_BE32(RTE_IPV4(10, 0, 0, 1))
#define PEER_IP RTE_BE32(RTE_IPV4(10, 0, 0, 2))
static const struct weft_ip our_ip6 = {.b = {0xfd, [15] = 1}}, peer_ip6 = {.b = {0xfd, [15] = 2}};

struct box {
	struct rte_mbuf *in[64];
	unsigned int nin, nout, room;
};

/** Members of one port, and an interface with a port of its own. */
static struct rig {
	struct weft_netif_group *g;
	struct box box[MEMBERS + 1];
	struct weft_sched sched[MEMBERS + 1];
	struct weft_netif *nif[MEMBERS + 1];
	unsigned int segs[MEMBERS + 1];
	uint64_t now_ns;
} R;

static uint64_t rng;

static uint32_t
rnd(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng * 0x2545f4914f6cdd1dULL >> 33) % n;
}

static struct rte_mempool *
pool(void)
{
	static struct rte_mempool *p;

	if (p == NULL) {
		test_eal_init();
		CHECK_EQ(weft_netif_pool_create("share", 4095, 1500, 0, &p), 0);
	}
	return p;
}

static uint16_t
box_rx(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	struct box *b = dev;
	uint16_t got = (uint16_t)RTE_MIN((unsigned int)n, b->nin);

	memcpy(pkts, b->in, got * sizeof(pkts[0]));
	b->nin -= got;
	memmove(b->in, b->in + got, b->nin * sizeof(b->in[0]));
	return got;
}

static uint16_t
box_tx(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	struct box *b = dev;
	uint16_t i;

	for (i = 0; i < n && b->room > 0; i++, b->room--, b->nout++)
		rte_pktmbuf_free(pkts[i]);
	return i;
}

static const struct weft_netif_dev box_dev = {.rx = box_rx, .tx = box_tx};

static void
rig_rx(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n, uint64_t now_ns)
{
	(void)nif;
	(void)now_ns;
	R.segs[(uintptr_t)arg] += n;
	rte_pktmbuf_free_bulk(m, n);
}

static void
rig_up(unsigned int queues, unsigned int ring_size)
{
	static const struct weft_netif_ops ops = {.tcp_rx = rig_rx};
	const struct weft_netif_group_attr ga = {.members = MEMBERS,
	                                         .rx_queues = queues,
	                                         .tx_queues = queues,
	                                         .ring_size = ring_size};

	pool();
	memset(&R, 0, sizeof(R));
	R.now_ns = WEFT_NS_PER_S;
	CHECK_EQ(weft_netif_group_create(&ga, &R.g), 0);
	for (unsigned int i = 0; i <= MEMBERS; i++) {
		struct weft_netif_attr a = {.dev = &box_dev,
		                            .dev_arg = &R.box[i],
		                            .pool = pool(),
		                            .mac = our_mac,
		                            .addr = weft_ip_from_v4(OUR_IP),
		                            .prefix_len = 24,
		                            .addr6 = our_ip6,
		                            .prefix6_len = 64,
		                            .group = i < MEMBERS ? R.g : NULL,
		                            .group_index = i < MEMBERS ? i : 0};

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
	for (unsigned int i = 0; i <= MEMBERS; i++) {
		weft_netif_poll(R.nif[i], R.now_ns);
		weft_netif_flush(R.nif[i], R.now_ns);
	}
}

static void
rig_down(void)
{
	for (unsigned int i = MEMBERS + 1; i-- > 0;)
		if (R.nif[i] != NULL)
			weft_netif_destroy(R.nif[i]);
	weft_netif_group_destroy(R.g);
	CHECK_EQ(rte_mempool_in_use_count(pool()), 0);
}

/* ---- Segments ---- */

static uint8_t *
add(struct rte_mbuf *m, unsigned int n)
{
	uint8_t *p = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)n);

	CHECK(p != NULL);
	return memset(p, 0, n);
}

static struct rte_mbuf *
ether(uint16_t type)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool());
	uint8_t *p;

	CHECK(m != NULL);
	p = add(m, 14);
	memcpy(p, &our_mac, 6);
	memcpy(p + 6, &peer_mac, 6);
	weft_put_be16(p + 12, type);
	return m;
}

static void
put_tcp(uint8_t *t, uint16_t sport, uint8_t flags, uint32_t pseudo)
{
	memset(t, 0, 20);
	weft_put_be16(t, sport);
	weft_put_be16(t + 2, 7);
	t[12] = 0x50;
	t[13] = flags;
	*(uint16_t *)(void *)(t + 16) = (uint16_t)~netif_fold(pseudo + netif_sum(t, 20));
}

static struct rte_mbuf *
seg4(uint16_t sport, uint8_t flags, unsigned int opt)
{
	struct rte_mbuf *m = ether(RTE_ETHER_TYPE_IPV4);
	uint8_t *p = add(m, 40 + 4 * opt);
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)p;

	memset(p, 1, 20 + 4 * opt); /* no-operation options */
	*ip = (struct rte_ipv4_hdr){.version_ihl = (uint8_t)(0x45 + opt),
	                            .total_length = rte_cpu_to_be_16((uint16_t)(40 + 4 * opt)),
	                            .time_to_live = 64,
	                            .next_proto_id = IPPROTO_TCP,
	                            .src_addr = PEER_IP,
	                            .dst_addr = OUR_IP};
	ip->hdr_checksum = (uint16_t)~netif_sum(ip, 20 + 4 * opt);
	put_tcp(p + 20 + 4 * opt, sport, flags, netif_sum_pseudo(PEER_IP, OUR_IP, IPPROTO_TCP, 20));
	return m;
}

/* `ext`: extension headers. Each but the last has the type of the next one in its first octet. */
static struct rte_mbuf *
seg6(uint16_t sport, uint8_t flags, uint8_t first, const uint8_t *ext, unsigned int n)
{
	struct rte_mbuf *m = ether(RTE_ETHER_TYPE_IPV6);
	uint8_t *p = add(m, 60 + n);

	p[0] = 0x60;
	weft_put_be16(p + 4, (uint16_t)(n + 20));
	p[6] = n > 0 ? first : IPPROTO_TCP;
	p[7] = 64;
	memcpy(p + 8, peer_ip6.b, 16);
	memcpy(p + 24, our_ip6.b, 16);
	memcpy(p + 40, ext, n);
	put_tcp(p + 40 + n, sport, flags, netif_sum_pseudo6(&peer_ip6, &our_ip6, IPPROTO_TCP, 20));
	return m;
}

static unsigned int
owner(bool v6, uint16_t sport)
{
	struct weft_ip us = v6 ? our_ip6 : weft_ip_from_v4(OUR_IP),
	               peer = v6 ? peer_ip6 : weft_ip_from_v4(PEER_IP);

	return weft_netif_group_owner(R.g, &us, 7, &peer, sport);
}

/* Deliver m at a member. Returns the member whose TCP got it, or -1. */
static int
deliver(struct rte_mbuf *m, unsigned int at)
{
	int who = -1;

	memset(R.segs, 0, sizeof(R.segs));
	R.box[at].in[R.box[at].nin++] = m;
	rig_poll();
	rig_poll();
	for (unsigned int i = 0; i <= MEMBERS; i++)
		for (unsigned int k = 0; k < R.segs[i]; k++) {
			CHECK_EQ(who, -1);
			who = (int)i;
		}
	return who;
}

static struct rte_mbuf *
torn(struct rte_mbuf *m)
{
	uint32_t cut = 1 + rnd(m->pkt_len - 1);
	struct rte_mbuf *c = rte_pktmbuf_copy(m, pool(), 0, cut);

	CHECK_EQ(rte_pktmbuf_chain(c, rte_pktmbuf_copy(m, pool(), cut, UINT32_MAX)), 0);
	rte_pktmbuf_free(m);
	return c;
}

/**
 * RFC 8200 s4, RFC 6946: a packet that a single interface accepts is accepted by a shared port at
 * its owner, whichever member received it. A packet that a single interface refuses reaches no TCP.
 */
static void
test_ext(void)
{
	static const uint8_t kinds[] = {60, 60, 60, 43, 44, 44};
	unsigned int taken = 0, refused = 0, longest = 0;

	rng = test_seed(71) | 1;
	for (unsigned int queues = 1; queues <= MEMBERS; queues += MEMBERS - 1) {
		rig_up(queues, 0);
		for (unsigned int i = 0; i < 8000; i++) {
			uint8_t ext[512] = {0}, *link = NULL, first = IPPROTO_TCP;
			unsigned int n = 0, left = rnd(i % 3 == 0 ? 36 : 8);
			uint16_t sport = (uint16_t)(1024 + rnd(60000));
			struct rte_mbuf *m;
			int alone, who;

			while (left > 0) {
				uint8_t kind = n == 0 && rnd(4) == 0 ? 0 : kinds[rnd(6)];
				unsigned int units = kind == 44 ? 1 : 1 + rnd(RTE_MIN(left, 32u));
				uint8_t *p = ext + n;

				if (kind == 44 && rnd(40) == 0)
					p[3] = (uint8_t)(rnd(2) == 0 ? 1 : 8); /* a fragment */
				if (kind != 44)
					p[1] = (uint8_t)(units - 1);
				if (kind == 43)
					p[3] = rnd(40) == 0;
				for (unsigned int k = 0; kind == 60 && k < 8 * units - 2;) {
					unsigned int pad = RTE_MIN(8 * units - 4 - k, 255u);

					if (8 * units - 2 - k < 2)
						break;
					p[2 + k] = 1; /* PadN */
					p[3 + k] = (uint8_t)pad;
					k += 2 + pad;
				}
				*(link != NULL ? link : &first) = kind;
				link = p;
				n += 8 * units;
				left -= units;
			}
			if (link != NULL)
				*link = IPPROTO_TCP;
			m = seg6(sport, 16, first, ext, n);
			if (rnd(30) == 0)
				weft_put_be16(rte_pktmbuf_mtod_offset(m, uint8_t *, 18),
				              (uint16_t)(n + rnd(20))); /* truncated */
			if (rnd(3) == 0)
				m = torn(m);
			alone = deliver(rte_pktmbuf_copy(m, pool(), 0, UINT32_MAX), MEMBERS);
			who = deliver(m, queues == 1 ? 0 : rnd(MEMBERS));
			if (alone < 0) {
				CHECK_EQ(who, -1);
				refused++;
				continue;
			}
			CHECK_EQ(who, (int)owner(true, sport));
			taken++;
			longest = RTE_MAX(longest, n);
		}
		rig_down();
	}
	test_note("%u taken, %u refused", taken, refused);
	CHECK(taken > 4000 && refused > 500);
	CHECK_EQ(longest, NETIF_EXT_MAX);
}

/* ---- The port's hash ---- */

/* A segment whose hash leads to `to`. */
static struct rte_mbuf *
hashed(struct rte_mbuf *m, unsigned int to)
{
	m->ol_flags |= RTE_MBUF_F_RX_RSS_HASH;
	m->hash.rss = to; /* the entries of the table are the members in turn */
	return m;
}

static struct rte_mbuf *
rightly(struct rte_mbuf *m)
{
	struct netif_steer *s = malloc(sizeof(*s));
	struct steer_flow f;
	uint16_t reta[128];

	for (unsigned int i = 0; i < RTE_DIM(reta); i++)
		reta[i] = (uint16_t)(i % MEMBERS);
	netif_steer_init(s, MEMBERS, netif_rss_key, reta, RTE_DIM(reta));
	CHECK_EQ(netif_steer_look(m, &f), STEER_OWNER);
	m->ol_flags |= RTE_MBUF_F_RX_RSS_HASH;
	m->hash.rss = netif_steer_flow_hash(s, &f);
	free(s);
	return m;
}

/* Whether a segment goes to the member that its hash names, although it belongs to another one. */
static bool
trusted(bool v6)
{
	unsigned int own = owner(v6, 4000), other = (own + 1) % MEMBERS;
	int who = deliver(hashed(v6 ? seg6(4000, 16, 0, NULL, 0) : seg4(4000, 16, 0), other), 0);

	CHECK(who == (int)own || who == (int)other);
	return who == (int)other;
}

/* One right hash of each family: from then on the port's hash is used. */
static void
prove(void)
{
	CHECK_EQ(deliver(rightly(seg4(4001, 16, 0)), 0), (int)owner(false, 4001));
	CHECK_EQ(deliver(rightly(seg6(4001, 16, 0, NULL, 0)), 0), (int)owner(true, 4001));
}

/** One SYN with options or extension headers and a wrong hash does not end the trust in the
 * port's hash. */
static void
test_hash_odd(void)
{
	static const uint8_t pad[8] = {IPPROTO_TCP, 0, 1, 4};
	const struct weft_netif_group_stats *st;

	rig_up(MEMBERS, 0);
	prove();
	st = weft_netif_group_stats(R.g, 0);
	for (uint16_t p = 5000; p < 5050; p++) {
		unsigned int own6 = owner(true, p), own4 = owner(false, p);

		for (unsigned int flags = 2; flags <= 16; flags += 14) {
			CHECK_EQ(deliver(hashed(seg6(p, (uint8_t)flags, 60, pad, 8), own6 + 1), 0),
			         (int)own6);
			CHECK_EQ(deliver(hashed(seg4(p, (uint8_t)flags, 2), own4 + 1), 0),
			         (int)own4);
		}
	}
	CHECK_EQ(st->hash_mismatch, 0);
	CHECK(trusted(false) && trusted(true));
	rig_down();
}

/** A plain SYN with a wrong hash ends the trust for its family. The port may regain it. */
static void
test_hash_doubt(void)
{
	const struct weft_netif_group_stats *st;

	rig_up(MEMBERS, 0);
	prove();
	st = weft_netif_group_stats(R.g, 0);
	CHECK_EQ(deliver(hashed(seg4(5000, 2, 0), owner(false, 5000) + 1), 0),
	         (int)owner(false, 5000));
	CHECK_EQ(st->hash_mismatch, 1);
	CHECK(!trusted(false) && trusted(true));
	for (uint16_t p = 6000; p < 6063; p++)
		CHECK_EQ(deliver(rightly(seg4(p, 2, 0)), 0), (int)owner(false, p));
	CHECK(!trusted(false));
	/* The count begins again. */
	CHECK_EQ(deliver(hashed(seg4(5000, 2, 0), owner(false, 5000) + 1), 0),
	         (int)owner(false, 5000));
	CHECK_EQ(st->hash_mismatch, 1);
	for (uint16_t p = 6000; p < 6064; p++) {
		CHECK(!trusted(false));
		(void)deliver(rightly(seg4(p, 2, 0)), 0);
	}
	CHECK(trusted(false) && trusted(true));
	rig_down();
}

/** A hash is wrong on segments without SYN alone: one of 64 is checked, so it is found. */
static void
test_hash_later(void)
{
	const struct weft_netif_group_stats *st;
	unsigned int used = 0;

	rig_up(MEMBERS, 0);
	prove();
	st = weft_netif_group_stats(R.g, 0);
	while (used < 1000 && trusted(false))
		used++;
	CHECK_EQ(used, 63);
	CHECK_EQ(st->hash_mismatch, 1);
	CHECK(!trusted(false) && trusted(true));
	/* Each further time takes twice as many right ones. */
	for (uint16_t p = 6000; p < 6064; p++)
		(void)deliver(rightly(seg4(p, 2, 0)), 0);
	for (used = 0; used < 1000 && trusted(false); used++)
		;
	CHECK_EQ(used, 63);
	for (uint16_t p = 6000; p < 6127; p++)
		(void)deliver(rightly(seg4(p, 2, 0)), 0);
	CHECK(!trusted(false));
	(void)deliver(rightly(seg4(6200, 2, 0)), 0);
	CHECK(trusted(false));
	CHECK_EQ(st->hash_mismatch, 2);
	rig_down();
}

/** A member that got another's segment tells all: none uses the port's hash any more. */
static void
test_stray(void)
{
	struct weft_ip us = weft_ip_from_v4(OUR_IP), peer = weft_ip_from_v4(PEER_IP);
	unsigned int own, other;

	rig_up(MEMBERS, 0);
	prove();
	own = owner(false, 4000);
	other = (own + 1) % MEMBERS;
	R.now_ns += WEFT_NS_PER_S;
	rig_poll();
	CHECK(trusted(false));
	CHECK(!weft_netif_stray(R.nif[own], &us, 7, &peer, 4000));
	CHECK(trusted(false));
	CHECK(weft_netif_stray(R.nif[other], &us, 7, &peer, 4000));
	CHECK(weft_netif_stray(R.nif[other], &us, 7, &peer, 4000));
	CHECK(!trusted(false) && trusted(true));
	CHECK_EQ(weft_netif_group_stats(R.g, other)->strays, 2);
	CHECK_EQ(weft_netif_group_stats(R.g, other)->hash_mismatch, 1);
	rig_down();
	/* Without RSS no hash of the port is used, so no segment can be brought to a wrong
	 * member. */
	rig_up(1, 0);
	CHECK(!weft_netif_stray(R.nif[(owner(false, 4000) + 1) % MEMBERS], &us, 7, &peer, 4000));
	rig_down();
}

/** Segments in wrong queues, and without a hash, are counted and passed on. */
static void
test_queue_wrong(void)
{
	const struct weft_netif_group_stats *st;
	unsigned int wrong = 0;

	rig_up(MEMBERS, 0);
	st = weft_netif_group_stats(R.g, 0);
	for (uint16_t p = 6000; p < 6064; p++) {
		struct rte_mbuf *m = p % 2 == 0 ? rightly(seg4(p, 2, 0)) : seg4(p, 2, 0);

		CHECK_EQ(deliver(m, 0), (int)owner(false, p));
		wrong += owner(false, p) != 0;
	}
	CHECK_EQ(st->hash_missing, 32);
	CHECK_EQ(st->queue_mismatch, wrong);
	CHECK_EQ(st->queue_wrong, 1);
	CHECK_EQ(st->hash_mismatch, 0);
	rig_down();
}

/* ---- Segments sent while polling ends ---- */

#define WORDS 700

/* Every member has WORDS segments to send when polling ends. Returns how many frames were
 * queued. */
static unsigned int
words_up(void)
{
	unsigned int queued = 0;

	struct weft_ip us = weft_ip_from_v4(OUR_IP), peer = weft_ip_from_v4(PEER_IP);

	rig_up(1, 64);
	rig_poll();
	rig_poll();
	for (unsigned int i = 0; i < MEMBERS; i++) {
		struct weft_neigh *n;

		CHECK_EQ(weft_netif_neigh_get(R.nif[i], NULL, &peer, &n), 0);
		n->state = NEIGH_REACHABLE;
		n->mac = peer_mac;
		for (unsigned int k = 0; k < WORDS; k++) {
			struct rte_mbuf *m = weft_netif_alloc(R.nif[i], 128);

			CHECK(m != NULL);
			add(m, 20)[12] = 0x50;
			CHECK_EQ(weft_netif_tx(R.nif[i], n, &us, &peer, m,
			                       (struct weft_netif_tx_how){0}, R.now_ns),
			         0);
		}
		weft_netif_neigh_put(R.nif[i], n);
		queued += R.nif[i]->tail;
	}
	return queued;
}

static void
words_leave(unsigned int i)
{
	weft_netif_destroy(R.nif[i]);
	R.nif[i] = NULL;
}

static uint64_t
words_lost(void)
{
	uint64_t lost = 0;

	for (unsigned int i = 0; i < MEMBERS; i++)
		lost += weft_netif_group_stats(R.g, i)->leave_drops;
	return lost;
}

/** More segments than the rings can hold, and all are sent. */
static void
test_leave(void)
{
	for (unsigned int turn = 0; turn < 2; turn++) {
		unsigned int queued = words_up();

		CHECK(R.box[0].nout < queued / 2);
		words_leave(1 + turn);
		words_leave(2 - turn);
		words_leave(0);
		CHECK_EQ(words_lost(), 0);
		CHECK_EQ(R.box[1].nout + R.box[2].nout, 0);
		CHECK_EQ(R.box[0].nout, queued);
		rig_down();
	}
}

/** Segments that cannot be sent are counted: the port is full, or the member that sends for all
 * has left. */
static void
test_leave_lost(void)
{
	unsigned int queued = words_up(), sent = R.box[0].nout;

	R.box[0].room = 50;
	for (unsigned int i = MEMBERS; i-- > 0;)
		words_leave(i);
	CHECK_EQ(R.box[0].nout, sent + 50);
	CHECK_EQ(R.box[0].nout + words_lost(), queued);
	rig_down();
	queued = words_up();
	for (unsigned int i = 0; i < MEMBERS; i++)
		words_leave(i);
	CHECK(words_lost() > 0);
	CHECK_EQ(R.box[0].nout + words_lost(), queued);
	rig_down();
}

WEFT_TEST_MAIN({"ext", test_ext}, {"hash_odd", test_hash_odd}, {"hash_doubt", test_hash_doubt},
               {"hash_later", test_hash_later}, {"stray", test_stray},
               {"queue_wrong", test_queue_wrong}, {"leave", test_leave},
               {"leave_lost", test_leave_lost})
