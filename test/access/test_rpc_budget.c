/* SPDX-License-Identifier: BSD-3-Clause */
/** @file How many octets incomplete calls may hold for each connection, peer and worker: at each
 * limit, one octet above it, and compared with a model. */

#include <errno.h>
#include <string.h>

#include "rpcrdma_budget.h"
#include "weft_test.h"

#define OWN   WEFT_RPC_BUDGET_OWN
#define LIMIT 1000000u

static struct weft_rpc_budget *b;
static uint64_t now_ns;
static bool slow; /* an endpoint that is told to close gives its octets back later */

/* A stand-in for an endpoint. `gone` counts how often it was closed. */
static struct conn {
	struct rpcrdma_holder h; /* first member */
	uint8_t who;
	unsigned int gone;
	uint64_t rests; /**< of its octets, those that rest */
} conn[64];

static void
shed(struct rpcrdma_holder *h)
{
	((struct conn *)h)->gone++;
	if (slow)
		return;
	rpcrdma_budget_give(b, h, h->bytes);
}

static bool
take(unsigned int i, uint64_t n)
{
	return rpcrdma_budget_take(b, &conn[i].h, &conn[i].who, 1, n, now_ns, shed);
}

static uint64_t
held(void)
{
	struct weft_rpc_budget_info info;

	weft_rpc_budget_info(b, &info);
	CHECK(info.held_bytes <= LIMIT && info.most_bytes <= LIMIT);
	return info.held_bytes;
}

static void
start(void)
{
	memset(conn, 0, sizeof(conn));
	for (unsigned int i = 0; i < 64; i++)
		conn[i].who = (uint8_t)(i / 8);
	CHECK_EQ(weft_rpc_budget_create(0, &b), -EINVAL);
	CHECK_EQ(weft_rpc_budget_create(LIMIT, &b), 0);
}

static void
stop(void)
{
	for (unsigned int i = 0; i < 64; i++)
		rpcrdma_budget_give(b, &conn[i].h, conn[i].h.bytes);
	CHECK_EQ(held(), 0);
	CHECK(LIST_EMPTY(&b->peers));
	weft_rpc_budget_destroy(b);
}

/* The share of one connection, one octet more, half of all for one peer, and one octet more. */
static void
test_edge(void)
{
	start();
	CHECK(take(0, OWN));
	CHECK_EQ(held(), 0);
	CHECK(take(0, 1));
	CHECK_EQ(held(), 1);
	CHECK(take(1, OWN + LIMIT / 2 - 1));
	CHECK_EQ(held(), LIMIT / 2);
	CHECK(!take(1, 1));
	CHECK(!take(0, 1));
	CHECK(!take(2, OWN + 1));
	CHECK(take(2, OWN));
	CHECK_EQ(b->info.refused, 3);
	CHECK_EQ(b->info.shed, 0);
	/* Another peer has the other half and not an octet more. Each connection has its own
	 * share besides. */
	CHECK(take(8, OWN + LIMIT / 2));
	CHECK_EQ(held(), LIMIT);
	CHECK(!take(8, 1));
	CHECK(take(9, OWN));
	CHECK_EQ(b->info.shed, 0);
	/* A third peer gets nothing while the connections of the others make progress. */
	now_ns += RPCRDMA_BUDGET_STALL_NS - 1;
	CHECK(!take(16, OWN + 1));
	CHECK_EQ(b->info.shed, 0);
	/* Then a stopped connection of the peer that holds the most is closed. */
	now_ns++;
	CHECK(take(16, OWN + 1));
	CHECK(conn[0].gone + conn[8].gone == 1);
	stop();
}

static bool
rest(struct rpcrdma_holder *h)
{
	struct conn *c = (struct conn *)h;
	uint64_t n = c->rests;

	c->rests = 0;
	rpcrdma_budget_give(b, h, n);
	return n > 0;
}

static void
no_wake(struct rpcrdma_holder *h)
{
	(void)h;
}

/* Octets that rest are given back before another connection waits or is closed, of a stopped
 * connection as of a busy one; and not before they are needed. */
static void
test_rest(void)
{
	start();
	for (unsigned int i = 0; i < 4; i++) {
		conn[8 * i].h.rest = rest;
		conn[8 * i].h.busy = i % 2;
		CHECK(take(8 * i, OWN + LIMIT / 4));
		conn[8 * i].rests = LIMIT / 4;
	}
	now_ns += 2 * RPCRDMA_BUDGET_STALL_NS;
	CHECK_EQ(held(), LIMIT);
	CHECK(take(40, OWN + LIMIT / 2));
	CHECK_EQ(held(), LIMIT);
	CHECK(take(48, OWN + LIMIT / 2));
	CHECK_EQ(held(), LIMIT);
	CHECK_EQ(b->info.shed, 0);
	CHECK_EQ(b->info.refused, 0);
	for (unsigned int i = 0; i < 4; i++)
		CHECK(conn[8 * i].gone == 0 && conn[8 * i].rests == 0);
	stop();
	/* Where it does not help, it stays: a peer has its half, or wants more than it can have. */
	start();
	conn[0].h.rest = rest;
	CHECK(take(0, OWN + LIMIT / 4));
	conn[0].rests = LIMIT / 4;
	CHECK(take(8, OWN + LIMIT / 2));
	CHECK(!take(8, 1));
	CHECK(!take(16, OWN + LIMIT / 2 + 1));
	CHECK_EQ(conn[0].rests, LIMIT / 4);
	CHECK(!rpcrdma_budget_wanted(b, &conn[0].h));
	conn[8].h.wake = no_wake;
	rpcrdma_budget_wait(b, &conn[8].h, false);
	CHECK(!rpcrdma_budget_wanted(b, &conn[0].h));
	CHECK(rpcrdma_budget_wanted(b, &conn[8].h));
	CHECK(!rpcrdma_budget_wanted(b, &conn[16].h)); /* it has its own free octets alone */
	rpcrdma_budget_unwait(b, &conn[8].h);
	stop();
}

/* A peer that holds less than an equal part gets what it asks for. A connection is closed only if
 * its peer holds more than the asking peer or, within one peer, if it holds more than the asking
 * connection. */
static void
fair(uint64_t seed)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15ULL | 1;

	start();
	for (unsigned int k = 0; k < 20000; k++) {
		uint64_t of[8] = {0}, had[64], n, beyond = 0;
		unsigned int i, gone[64];
		bool ok;

		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		i = (x >> 20) % 64;
		n = (x >> 32) % 60000;
		now_ns += RPCRDMA_BUDGET_STALL_NS; /* all connections have stopped */
		if ((x & 7) == 0) {
			rpcrdma_budget_give(b, &conn[i].h, conn[i].h.bytes);
			continue;
		}
		for (unsigned int c = 0; c < 64; c++) {
			gone[c] = conn[c].gone;
			had[c] = conn[c].h.bytes;
			of[c / 8] += conn[c].h.bytes > OWN ? conn[c].h.bytes - OWN : 0;
		}
		for (unsigned int p = 0; p < 8; p++)
			beyond += of[p];
		CHECK_EQ(beyond, held());
		ok = take(i, n);
		if (of[i / 8] + n <= LIMIT / 8)
			CHECK_MSG(ok, "seed %" PRIu64 ": peer %u has %" PRIu64, seed, i / 8,
			          of[i / 8]);
		for (unsigned int c = 0; c < 64; c++)
			if (conn[c].gone != gone[c])
				CHECK(c / 8 != i / 8 ? of[c / 8] > of[i / 8] : had[c] > had[i]);
	}
	CHECK(b->info.shed > 0 && b->info.refused > 0);
	stop();
}

static void
test_fair(void)
{
	for (uint64_t seed = 1; seed <= 8; seed++)
		fair(test_seed(seed));
}

/* A connection that completes calls is not closed. A connection of an authenticated client is
 * not closed for one of an unauthenticated client. */
static void
test_who_goes(void)
{
	const uint64_t part = LIMIT / 8;

	start();
	for (unsigned int i = 0; i < 64; i += 8)
		CHECK(take(i, OWN + part));
	now_ns += RPCRDMA_BUDGET_STALL_NS;
	rpcrdma_budget_give(b, &conn[0].h, 1000);
	rpcrdma_budget_moved(&conn[0].h, now_ns);
	CHECK(take(0, 1000));
	conn[8].h.known = true;
	/* Each of the six others is closed for one new connection. */
	for (unsigned int k = 0; k < 6; k++) {
		conn[57 + k].who = (uint8_t)(100 + k);
		CHECK(take(57 + k, OWN + part - 1));
		CHECK_EQ(b->info.shed, k + 1);
	}
	/* Only the authenticated connection is stopped now. It is closed for another
	 * authenticated one. */
	conn[1].who = 110;
	CHECK(!take(1, OWN + part - 1));
	CHECK_EQ(conn[0].gone + conn[8].gone, 0);
	conn[1].h.known = true;
	CHECK(take(1, OWN + part - 1));
	CHECK_EQ(conn[8].gone, 1);
	CHECK_EQ(conn[0].gone, 0);
	stop();
}

static unsigned int woken;

static void
wake(struct rpcrdma_holder *h)
{
	CHECK(h == &conn[16].h || h == &conn[17].h);
	woken++;
}

/* Octets that are given back go to the first waiter before connections that hold more than it. A
 * connection that holds no more than the first waiter may take them, too. */
static void
test_turn(void)
{
	start();
	woken = 0;
	conn[16].h.wake = conn[17].h.wake = wake;
	CHECK(take(0, OWN + LIMIT / 2));
	CHECK(take(8, OWN + LIMIT / 2));
	CHECK(!take(16, OWN + 100000));
	rpcrdma_budget_wait(b, &conn[16].h, false);
	rpcrdma_budget_wait(b, &conn[17].h, false);
	rpcrdma_budget_wait(b, &conn[16].h, true); /* the waiter keeps its position */
	CHECK(TAILQ_FIRST(&b->waiters) == &conn[16].h);
	CHECK_EQ(woken, 0);
	rpcrdma_budget_give(b, &conn[0].h, 50000);
	CHECK_EQ(woken, 1);
	CHECK(!take(16, OWN + 100000));
	CHECK(!take(0, 40000));
	CHECK(take(24, OWN + 40000));
	rpcrdma_budget_give(b, &conn[0].h, 90000);
	CHECK(take(16, OWN + 100000));
	woken = 0;
	rpcrdma_budget_unwait(b, &conn[16].h);
	CHECK_EQ(woken, 1);
	CHECK(TAILQ_FIRST(&b->waiters) == &conn[17].h);
	rpcrdma_budget_unwait(b, &conn[17].h);
	CHECK(TAILQ_EMPTY(&b->waiters));
	CHECK_EQ(b->info.shed, 0);
	stop();
}

/* A stopped connection is closed, but not while its consumer has a call of it. The octets that
 * it will give back are counted in advance, so that no other connection is closed for them. */
static void
test_going(void)
{
	start();
	CHECK(take(0, OWN + LIMIT / 4));
	CHECK(take(1, OWN + LIMIT / 4));
	now_ns += RPCRDMA_BUDGET_STALL_NS;
	conn[0].h.busy = conn[1].h.busy = 1;
	CHECK(!take(2, OWN + 1));
	CHECK_EQ(b->info.shed, 0);
	conn[1].h.busy = 0;
	slow = true;
	CHECK(!take(2, OWN + 1));
	CHECK(!take(2, OWN + 1));
	CHECK_EQ(conn[1].gone, 1);
	CHECK_EQ(conn[0].gone, 0);
	slow = false;
	rpcrdma_budget_give(b, &conn[1].h, conn[1].h.bytes);
	CHECK(take(2, OWN + 1));
	CHECK_EQ(b->info.shed, 1);
	CHECK(rpcrdma_budget_never(b, OWN + LIMIT / 2 + 1));
	CHECK(!rpcrdma_budget_never(b, OWN + LIMIT / 2));
	stop();
}

WEFT_TEST_MAIN({"memory at rest", test_rest}, {"edge", test_edge}, {"equal parts", test_fair},
               {"who goes", test_who_goes}, {"in turn", test_turn}, {"going", test_going})
