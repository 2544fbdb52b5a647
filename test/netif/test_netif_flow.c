/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Owners of connections on a port that places packets otherwise than its table says:
 * buckets, what SYNs teach, and source ports. */

#include <pthread.h>
#include <stdlib.h>

#include "netif_flow.h"
#include "netif_group_priv.h"
#include "netif_learn.h"
#include "test_xorshift.h"
#include "weft_test.h"

#define RETA 128

static uint64_t rng;

static uint64_t
rnd(void)
{
	return test_xorshift(&rng) >> 8;
}

static void
fill(void *arg, void *buf, size_t len)
{
	(void)arg;
	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = (uint8_t)rnd();
}

static struct netif_flows flows;
static uint8_t reta[RETA];

static void
flows_up(unsigned int members)
{
	memset(&flows, 0, sizeof(flows));
	for (unsigned int i = 0; i < RETA; i++)
		reta[i] = (uint8_t)(i % members);
	netif_flow_init(&flows, members, reta, RETA);
}

/* ---- Buckets ---- */

static void
test_claims(void)
{
	const uint64_t now = 1000 * WEFT_FLOW_PIN_NS;
	const uint32_t h = 0x12345604; /* of member 0 */

	flows_up(4);
	for (uint32_t b = 0; b < FLOW_BUCKETS; b++)
		CHECK_EQ(netif_flow_owner(&flows, b | 0xabc00000), reta[b % RETA]);
	CHECK(!netif_flow_hold(&flows, 1, h));
	CHECK(netif_flow_hold(&flows, 0, h));
	CHECK(netif_flow_hold(&flows, 0, h));
	/* A bucket with connections stays with its owner. */
	CHECK(!netif_flow_claim(&flows, 1, h, true, now));
	netif_flow_release(&flows, 0, h);
	CHECK(!netif_flow_claim(&flows, 1, h, true, now));
	netif_flow_release(&flows, 0, h);
	CHECK(netif_flow_claim(&flows, 1, h, true, now));
	CHECK_EQ(netif_flow_owner(&flows, h), 1);
	CHECK(!netif_flow_hold(&flows, 0, h) && netif_flow_hold(&flows, 1, h));
	netif_flow_release(&flows, 1, h);
	/* A bucket counts 65535 connections. */
	for (unsigned int i = 0; i < UINT16_MAX; i++)
		CHECK(netif_flow_hold(&flows, 1, h));
	CHECK(!netif_flow_hold(&flows, 1, h));
	CHECK_EQ(netif_flow_owner(&flows, h), 1);
}

static void
test_pins(void)
{
	const uint32_t h = 77;
	unsigned int o;

	rng = test_seed(4);
	flows_up(2);
	o = netif_flow_owner(&flows, h);
	for (uint64_t k = 0; k < 600; k++) {
		uint64_t now = k * WEFT_FLOW_PIN_NS + rnd() % WEFT_FLOW_PIN_NS;

		CHECK(!netif_flow_pin(&flows, 1 - o, h, now));
		CHECK(netif_flow_pin(&flows, o, h, now));
		CHECK(netif_flow_hold(&flows, o, h));
		netif_flow_release(&flows, o, h);
		CHECK(!netif_flow_claim(&flows, 1 - o, h, true, now));
		CHECK(!netif_flow_claim(&flows, 1 - o, h, true, now + WEFT_FLOW_PIN_NS));
		/* The clock of the member that claims may be a little behind. */
		CHECK(!netif_flow_claim(&flows, 1 - o, h, true, now - RTE_MIN(now, 1000u)));
		CHECK(netif_flow_claim(&flows, 1 - o, h, true, now + 2 * WEFT_FLOW_PIN_NS));
		o = 1 - o;
	}
}

static void
test_share(void)
{
	unsigned int taken = 0;

	flows_up(4);
	/* All SYNs arrive in the queue of member 2. */
	for (uint32_t b = 0; b < 4096; b++) {
		if (netif_flow_claim(&flows, 2, b, false, 0))
			taken++;
		CHECK(netif_flow_hold(&flows, netif_flow_owner(&flows, b), b));
	}
	test_note("%u of 4096 connections for one of four members", flows.count[2].conns);
	CHECK(taken > 0 && flows.count[2].conns >= 4096 / 4);
	CHECK(flows.count[2].conns <= 3 * 4096 / 8 + 8);
}

/** A SYN comes to member 2. Returns the owner. */
static unsigned int
syn_to_2(uint32_t b)
{
	if (netif_flow_owner(&flows, b) == 2)
		return netif_flow_keep(&flows, 2, b, 0);
	(void)netif_flow_claim(&flows, 2, b, false, 0);
	return netif_flow_owner(&flows, b);
}

/** Short connections, one behind the other, bring all buckets to one member. Those that stay are
 * shared all the same. */
static void
test_share_after_many(void)
{
	flows_up(4);
	for (uint32_t b = 0; b < FLOW_BUCKETS; b++) {
		CHECK_EQ(syn_to_2(b), 2);
		CHECK(netif_flow_hold(&flows, 2, b));
		netif_flow_release(&flows, 2, b);
	}
	for (uint32_t b = 0; b < 4096; b++)
		CHECK(netif_flow_hold(&flows, syn_to_2(b), b));
	test_note("%u of 4096 connections for one of four members", flows.count[2].conns);
	CHECK(flows.count[2].conns >= 4096 / 4 && flows.count[2].conns <= 3 * 4096 / 8 + 8);
	/* A bucket with a connection, or with a cookie, is not given back. */
	for (uint32_t b = 0; b < 4096; b++)
		CHECK_EQ(netif_flow_keep(&flows, netif_flow_owner(&flows, b), b, 0),
		         netif_flow_owner(&flows, b));
	CHECK_EQ(netif_flow_owner(&flows, 5000), 2);
	CHECK(netif_flow_pin(&flows, 2, 5000, 0));
	CHECK_EQ(netif_flow_keep(&flows, 2, 5000, 0), 2);
}

/** A member without room leaves SYNs to the others, and gives back what holds nothing. */
static void
test_room(void)
{
	flows_up(4);
	CHECK_EQ(syn_to_2(1), 2);
	netif_flow_full(&flows, 2, true);
	CHECK_EQ(syn_to_2(0), 0);
	CHECK_EQ(syn_to_2(1), 1);
	netif_flow_full(&flows, 2, false);
	CHECK_EQ(syn_to_2(0), 2);
}

#define RACES 4 /* buckets */

static _Atomic uint32_t held[RACES][2];
static _Atomic uint32_t both, claims, holds;

/** One member: claims, and holds what it owns. */
static void *
race_main(void *arg)
{
	unsigned int me = *(const unsigned int *)arg;
	uint64_t r = me + 1;

	for (unsigned int i = 0; i < 200000; i++) {
		uint32_t b;

		r = r * 6364136223846793005ULL + 1442695040888963407ULL;
		b = (uint32_t)(r >> 40) % RACES;
		claims += netif_flow_claim(&flows, me, b, true, 0);
		if (!netif_flow_hold(&flows, me, b))
			continue;
		holds++;
		held[b][me]++;
		both += held[b][1 - me] != 0;
		held[b][me]--;
		netif_flow_release(&flows, me, b);
	}
	return NULL;
}

static void
test_race(void)
{
	static const unsigned int me[2] = {0, 1};
	pthread_t t[2];

	flows_up(2);
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, race_main, (void *)(uintptr_t)&me[i]), 0);
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	test_note("%u claims, %u connections", claims, holds);
	CHECK(claims > 0 && holds > 0);
	CHECK_EQ(both, 0);
	CHECK_EQ(flows.count[0].conns + flows.count[1].conns, 0);
}

/* ---- What SYNs teach ---- */

static struct netif_learn learn;
static struct netif_steer steer;

enum { KEY_RANDOM, KEY_SYMMETRIC, KEYS };

static void
port_up(unsigned int kind, unsigned int members)
{
	uint8_t key[52];
	uint16_t table[RETA];

	fill(NULL, key, sizeof(key));
	for (unsigned int i = 0; i < sizeof(key) && kind == KEY_SYMMETRIC; i++)
		key[i] = i % 2 == 0 ? 0x6d : 0x5a;
	for (unsigned int i = 0; i < RETA; i++)
		table[i] = (uint16_t)(i % members);
	netif_steer_init(&steer, members, key, table, RETA);
}

/** A connection of a host with one address, from some peers, either way. */
static uint32_t
draw(bool v6, struct netif_learn_tuple *t)
{
	struct weft_ip remote = {.b = {0x20, 0x01, [15] = (uint8_t)(rnd() % 5)}};
	struct weft_ip local = {.b = {0x20, 0x01, [15] = 99}};
	uint16_t ephemeral = (uint16_t)(WEFT_PORT_FIRST + rnd() % WEFT_PORT_COUNT);
	bool active = rnd() % 2 != 0;
	uint16_t rport = active ? 7 : ephemeral, lport = active ? ephemeral : 9;
	unsigned int n = v6 ? 16 : 4;

	if (!v6) {
		remote = weft_ip_from_v4(RTE_BE32(0x0a000000) | (uint32_t)remote.b[15] << 24);
		local = weft_ip_from_v4(RTE_BE32(0x0a000063));
	}
	memcpy(t->b, &remote.b[16 - n], n);
	memcpy(t->b + n, &local.b[16 - n], n);
	weft_put_be16(t->b + 2 * n, rport);
	weft_put_be16(t->b + 2 * n + 2, lport);
	t->bytes = 2 * n + 4;
	return netif_steer_hash(&steer, &remote, rport, &local, lport);
}

static void
learn_up(unsigned int members)
{
	for (unsigned int i = 0; i < RETA; i++)
		reta[i] = (uint8_t)(i % members);
	netif_learn_init(&learn, reta, RETA);
}

static void
test_learn(void)
{
	rng = test_seed(1);
	for (unsigned int i = 0; i < 64; i++) {
		bool v6 = i % 2 != 0, told = i / 2 % 2 != 0;
		/* Without the hash only queues that are a power of two tell its bits. */
		unsigned int members = told ? 2 + i % 7 : 2u << i % 3, known = 0;
		/* some hashes begin with a constant */
		uint32_t start = i % 8 < 4 ? 0 : (uint32_t)rnd();
		struct netif_learn_tuple t;

		port_up(i / 4 % KEYS, members);
		learn_up(members);
		for (unsigned int k = 0; k < 300; k++) {
			uint32_t hash = draw(v6, &t) ^ start;
			struct netif_learn_seen seen = {.told = told, .hash = hash};
			int queue = netif_learn_queue(&learn, &t);

			seen.queue = netif_steer_member(&steer, hash);
			CHECK(queue < 0 || (unsigned int)queue == seen.queue);
			known += queue >= 0 && k >= 100;
			CHECK(!netif_learn_add(&learn, &t, &seen));
		}
		CHECK_MSG(known > 190, "%u: %u of 200", i, known);
	}
}

/** A hash that is no linear function, a table that is another one, a key that changes. */
static void
test_learn_wrong(void)
{
	struct netif_learn_tuple t;
	unsigned int wrong = 0, known = 0;

	rng = test_seed(2);
	/* Any queue, and any hash: given up. */
	learn_up(4);
	for (unsigned int k = 0; k < 900; k++) {
		struct netif_learn_seen seen = {
		        .told = true, .hash = (uint32_t)rnd(), .queue = (unsigned int)rnd() % 4};

		(void)draw(false, &t);
		wrong += netif_learn_add(&learn, &t, &seen);
	}
	CHECK(wrong > 0);
	CHECK_EQ(learn.family[0].kind, LEARN_NOT);
	CHECK_EQ(netif_learn_queue(&learn, &t), -1);
	/* Tried again: the port steers by one key now, and by a table that it does not report. */
	port_up(KEY_RANDOM, 4);
	for (unsigned int k = 0; k < 1400; k++) {
		uint32_t hash = draw(false, &t);
		struct netif_learn_seen seen = {
		        .told = true, .hash = hash, .queue = (hash ^ hash >> 5) % 4};
		int queue = netif_learn_queue(&learn, &t);

		CHECK(queue < 0 || (unsigned int)queue == seen.queue);
		known += queue >= 0;
		(void)netif_learn_add(&learn, &t, &seen);
	}
	CHECK_EQ(learn.family[0].kind, LEARN_QUEUE);
	CHECK(known > 100);
	/* Another key: what was learnt is forgotten. */
	port_up(KEY_RANDOM, 4);
	wrong = 0;
	for (unsigned int k = 0; k < 100; k++) {
		uint32_t hash = draw(false, &t);
		struct netif_learn_seen seen = {.queue = netif_steer_member(&steer, hash)};

		wrong += netif_learn_add(&learn, &t, &seen);
	}
	CHECK_EQ(wrong, 1);
	/* A member that finds the equations in use does without. */
	CHECK(!atomic_flag_test_and_set(&learn.busy));
	CHECK(!netif_learn_add(&learn, &t, &(struct netif_learn_seen){.queue = 1}));
	CHECK_EQ(netif_learn_queue(&learn, &t), -1);
	atomic_flag_clear(&learn.busy);
}

/* ---- Source ports ---- */

static bool pick_free[UINT16_MAX + 1];

static bool
pick_usable(void *arg, uint16_t port)
{
	(void)arg;
	return pick_free[port];
}

static void
test_pick(void)
{
	static const struct weft_rand rand = {.fill = fill};
	static struct netif_steer truth;
	const struct weft_ip src = weft_ip_from_v4(RTE_BE32(0x0a000063)),
	                     dst = weft_ip_from_v4(RTE_BE32(0x0a000001));
	struct netif_pick k = {.steer = &steer,
	                       .flows = &flows,
	                       .learn = &learn,
	                       .src = &src,
	                       .dst = &dst,
	                       .dst_port = 7,
	                       .rand = &rand,
	                       .usable = pick_usable};
	unsigned int right = 0, picked = 0;
	uint64_t learnt = 0;

	rng = test_seed(3);
	memset(pick_free, true, sizeof(pick_free));
	port_up(KEY_RANDOM, 3);
	truth = steer;
	port_up(KEY_RANDOM, 3);
	flows_up(3);
	learn_up(3);
	for (unsigned int i = 0; i < 600; i++) {
		struct netif_learn_tuple t = {.bytes = 12};
		struct netif_learn_seen seen = {.told = true};
		int port;

		k.member = i % 3;
		port = netif_pick_port(&k, &learnt);
		CHECK(port >= WEFT_PORT_FIRST && pick_free[port]);
		pick_free[port] = false;
		CHECK(netif_flow_hold(&flows, k.member,
		                      netif_steer_hash(&steer, &dst, 7, &src, (uint16_t)port)));
		memcpy(t.b, &dst.b[12], 4);
		memcpy(t.b + 4, &src.b[12], 4);
		weft_put_be16(t.b + 8, 7);
		weft_put_be16(t.b + 10, (uint16_t)port);
		seen.hash = netif_steer_hash(&truth, &dst, 7, &src, (uint16_t)port);
		seen.queue = netif_steer_member(&truth, seen.hash);
		right += i >= 100 && seen.queue == k.member;
		CHECK(!netif_learn_add(&learn, &t, &seen));
	}
	test_note("%u of 500 on their own queue, %" PRIu64 " by what was learnt", right, learnt);
	CHECK(right >= 490 && learnt >= 490);
	/* Until no port is left. */
	for (int port; (port = netif_pick_port(&k, &learnt)) >= 0; picked++) {
		pick_free[port] = false;
		CHECK(netif_flow_hold(&flows, k.member,
		                      netif_steer_hash(&steer, &dst, 7, &src, (uint16_t)port)));
	}
	test_note("%u more", picked);
	CHECK(picked > WEFT_PORT_COUNT / 2);
	CHECK_EQ(netif_pick_port(&k, &learnt), -EADDRNOTAVAIL);
}

WEFT_TEST_MAIN({"a bucket without connections can be claimed", test_claims},
               {"no bucket is claimed while a cookie may be answered", test_pins},
               {"one queue does not bring all to one member", test_share},
               {"a share after many short connections", test_share_after_many},
               {"no room", test_room}, {"a bucket has one owner at a time", test_race},
               {"the queue of a tuple follows from others", test_learn},
               {"what is not linear is given up", test_learn_wrong},
               {"source ports whose answers arrive at the member", test_pick})
