/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Memory that peers can make MPA hold, and for how long: mbufs and heap of incomplete FPDUs,
 * and octets that precede the Reply. Many connections of one worker share the port's budget and the
 * worker's heap.
 */

#include <rte_random.h>

#include "mpa_peer.h"
#include "mpa_priv.h"
#include "mpa_wire.h"
#include "weft_netif_budget.h"
#include "weft_test.h"

#define MSS   1460
#define CONNS 300
/** Heap beyond its own share of a connection that has received more than half of the longest
 * FPDU. */
#define COST (MPA_FPDU_MAX_RAW_BYTES - WEFT_MPA_KEEP_OWN_BYTES)

static struct weft_netif_budget budget;
static struct weft_mpa_keep keep;
static struct weft_sched sched;
static struct peer *conn[CONNS];
static uint8_t wire[70000];

static void
keep_up(unsigned int conns, uint32_t mbufs, uint64_t heap_bytes)
{
	uint8_t ulpdu[65535] = {1, 2, 3};

	slow_fpdu(wire, ulpdu, sizeof(ulpdu));
	budget = (struct weft_netif_budget){.limit = mbufs};
	weft_mpa_keep_init(&keep, heap_bytes);
	memset(&sched, 0, sizeof(sched));
	TAILQ_INIT(&sched.run);
	weft_wheel_init(&sched.wheel, PEER_NOW);
	sched.now_ns = PEER_NOW;
	sched.mpa_keep = &keep;
	for (unsigned int i = 0; i < conns; i++) {
		conn[i] = peer_full(MSS, i & 1);
		conn[i]->c->budget = &budget;
		conn[i]->m->sched = &sched;
	}
}

static void
keep_down(unsigned int conns)
{
	for (unsigned int i = 0; i < conns; i++)
		weft_mpa_fini(conn[i]->m);
	CHECK_EQ(budget.held, 0);
	CHECK_EQ(keep.heap_bytes, 0);
	CHECK(TAILQ_EMPTY(&keep.held));
	CHECK_EQ(sched.wheel.armed, 0);
	CHECK(TAILQ_EMPTY(&sched.run));
	CHECK_EQ(rte_mempool_in_use_count(conn[0]->c->pool), 0);
	for (unsigned int i = 0; i < conns; i++)
		peer_free(conn[i]);
}

static unsigned int
in_use(void)
{
	return rte_mempool_in_use_count(conn[0]->c->pool);
}

/** Deliver octets [from, to) of one long FPDU, `piece` octets in an mbuf. */
static void
feed(struct peer *p, uint32_t from, uint32_t to, uint32_t piece)
{
	if (from < to)
		fake_rx(p->c, wire + from, to - from, piece, sched.now_ns);
}

static void
pass(uint64_t ns)
{
	for (uint64_t end_ns = sched.now_ns + ns; sched.now_ns < end_ns;) {
		sched.now_ns += RTE_MIN(WEFT_NS_PER_S / 4, end_ns - sched.now_ns);
		weft_timer_run(&sched.wheel, sched.now_ns);
		weft_sched_run(&sched, sched.now_ns);
	}
}

/** Incomplete FPDUs of any number of connections hold no more mbufs than the port lends. */
static void
test_mbufs(void)
{
	static const uint32_t sent[] = {1, 2, 4 * 600, 5 * 1000, 16 * 1000, 60000};

	for (unsigned int k = 0; k < RTE_DIM(sent); k++) {
		keep_up(CONNS, 100, 64u << 20);
		for (unsigned int i = 0; i < CONNS; i++) {
			feed(conn[i], 0, sent[k], 1000);
			CHECK_MSG(in_use() <= 100, "%u mbufs of %u lent", in_use(), 100);
			CHECK_EQ(in_use(), budget.held);
		}
		/* each octet is in an mbuf of its own, and the budget is used completely */
		if (sent[k] <= 2)
			CHECK_EQ(budget.held, 100);
		CHECK(budget.refused > 0 || sent[k] > 16000);
		/* Nothing is lost: each FPDU is completed and handed up whole. */
		for (unsigned int i = 0; i < CONNS; i++) {
			feed(conn[i], sent[k], mpa_fpdu_bytes(65535), MSS);
			CHECK_EQ(conn[i]->ulpdus, 1);
			CHECK_EQ(conn[i]->faults, 0);
		}
		CHECK_EQ(budget.held, 0);
		CHECK_EQ(keep.shed, 0);
		keep_down(CONNS);
	}
}

/** The last mbuf of the budget, and one more. */
static void
test_mbufs_edge(void)
{
	keep_up(3, 5, 0);
	feed(conn[0], 0, 4 * 600, 600);
	CHECK_EQ(budget.held, 4);
	CHECK_EQ(conn[0]->m->held_segs, 4);
	feed(conn[1], 0, 600, 600);
	CHECK_EQ(budget.held, 5);
	CHECK_EQ(conn[1]->m->compact_bytes, 0);
	feed(conn[2], 0, 600, 600);
	CHECK_EQ(budget.held, 5);
	CHECK_EQ(budget.refused, 1);
	CHECK_EQ(conn[2]->m->held_segs, 0);
	CHECK_EQ(conn[2]->m->compact_bytes, 600);
	CHECK_EQ(keep.moved, 1);
	keep_down(3);
}

/** MPA_HELD_FREE_SEGS mbufs may be held, however empty they are. One more causes a copy to the
 * heap. */
static void
test_mbufs_empty(void)
{
	keep_up(1, 100, 0);
	feed(conn[0], 0, MPA_HELD_FREE_SEGS * 400, 400);
	CHECK_EQ(conn[0]->m->held_segs, MPA_HELD_FREE_SEGS);
	CHECK_EQ(conn[0]->m->compact_bytes, 0);
	feed(conn[0], MPA_HELD_FREE_SEGS * 400, (MPA_HELD_FREE_SEGS + 1) * 400, 400);
	CHECK_EQ(conn[0]->m->held_segs, 0);
	CHECK_EQ(conn[0]->m->compact_bytes, (MPA_HELD_FREE_SEGS + 1) * 400);
	keep_down(1);
}

/** The header of an FPDU after a marker has the same deadline as one without a marker. Between
 * FPDUs there is no deadline. */
static void
test_deadline_marked(void)
{
	static const uint8_t head[] = {0, 0, 0, 0, 0, 100};

	for (unsigned int n = 0; n <= sizeof(head); n++) {
		struct peer *p;

		keep_up(0, 100, 0);
		p = conn[0] = peer_full_as(MSS, true, PEER_M | PEER_C, PEER_C);
		p->c->budget = &budget;
		p->m->sched = &sched;
		if (n > 0)
			fake_rx(p->c, head, n, 0, sched.now_ns);
		pass(50 * WEFT_NS_PER_S);
		CHECK_EQ(p->faults, 0);
		pass(20 * WEFT_NS_PER_S);
		CHECK_EQ(p->faults, n > 0);
		keep_down(1);
	}
}

/** Mbufs are held for two seconds at most. Then the octets of the FPDU move to the heap. */
static void
test_mbufs_return(void)
{
	keep_up(20, 1000, 0);
	for (unsigned int i = 0; i < 20; i++)
		feed(conn[i], 0, 15 * 1000, 1000);
	CHECK_EQ(in_use(), 20 * 15);
	pass(2 * WEFT_NS_PER_S);
	CHECK_EQ(in_use(), 0);
	CHECK_EQ(budget.held, 0);
	for (unsigned int i = 0; i < 20; i++) {
		feed(conn[i], 15000, mpa_fpdu_bytes(65535), MSS);
		CHECK_EQ(conn[i]->ulpdus, 1);
	}
	/* the next FPDU may need the buffer; a stream at rest keeps none */
	pass(WEFT_NS_PER_S);
	CHECK(conn[0]->m->compact != NULL);
	pass(2 * WEFT_NS_PER_S);
	CHECK(conn[0]->m->compact == NULL);
	CHECK_EQ(sched.wheel.armed, 0);
	keep_down(20);
}

/** A complete FPDU in more mbufs than one up-call takes leaves nothing on the heap either. */
static void
test_rest_at_once(void)
{
	uint8_t ulpdu[8000] = {7};

	keep_up(1, 100, 0);
	slow_fpdu(wire, ulpdu, sizeof(ulpdu));
	conn[0]->c->ops->rx(conn[0]->c->user,
	                    fake_chain(conn[0]->c, wire, mpa_fpdu_bytes(sizeof(ulpdu)), 100),
	                    sched.now_ns);
	CHECK_EQ(conn[0]->ulpdus, 1);
	CHECK(!conn[0]->m->waits);
	CHECK(conn[0]->m->compact != NULL);
	pass(3 * WEFT_NS_PER_S);
	CHECK(conn[0]->m->compact == NULL);
	CHECK_EQ(sched.wheel.armed, 0);
	keep_down(1);
}

/** An FPDU without a new octet for fpdu_timeout_us ends its stream. Each octet restarts the
 * time. */
static void
test_deadline_idle(void)
{
	for (unsigned int late = 0; late < 2; late++) {
		keep_up(2, 100, 0);
		feed(conn[0], 0, 100, 100);
		feed(conn[1], 0, 1, 1);
		pass(50 * WEFT_NS_PER_S);
		feed(conn[0], 100, 101, 1);
		pass(9 * WEFT_NS_PER_S);
		CHECK_EQ(conn[1]->faults, 0);
		pass(2 * WEFT_NS_PER_S);
		CHECK_EQ(conn[1]->faults, 1);
		CHECK_EQ(conn[1]->term.layer, WEFT_TERM_LAYER_LLP);
		CHECK_EQ(conn[1]->term.code, WEFT_MPA_ERR_LOCAL);
		CHECK_EQ(conn[1]->m->stats.fpdu_timeouts, 1);
		CHECK_EQ(keep.timeouts, 1);
		pass((late ? 50 : 48) * WEFT_NS_PER_S);
		CHECK_EQ(conn[0]->faults, late);
		if (!late) {
			feed(conn[0], 101, mpa_fpdu_bytes(65535), MSS);
			CHECK_EQ(conn[0]->ulpdus, 1);
			/* between FPDUs there is no deadline */
			pass(1000 * WEFT_NS_PER_S);
			CHECK_EQ(conn[0]->faults, 0);
		}
		keep_down(2);
	}
}

/** Single octets do not extend the deadline of an FPDU without limit. The next FPDU has its own
 * deadline. */
static void
test_deadline_trickle(void)
{
	uint32_t pos = 0;

	keep_up(1, 100, 0);
	weft_mpa_set_opts(conn[0]->m, &(struct weft_mpa_opts){.fpdu_timeout_us = 2000000});
	for (unsigned int i = 0; i < 7; i++, pos++) {
		feed(conn[0], pos, pos + 1, 1);
		pass(WEFT_NS_PER_S);
		CHECK_EQ(conn[0]->faults, 0);
	}
	feed(conn[0], pos, mpa_fpdu_bytes(65535), MSS);
	CHECK_EQ(conn[0]->ulpdus, 1);
	for (pos = 0; pos < 7; pos++) {
		feed(conn[0], pos, pos + 1, 1);
		pass(WEFT_NS_PER_S);
		CHECK_EQ(conn[0]->faults, 0);
	}
	feed(conn[0], pos, pos + 1, 1);
	pass(2 * WEFT_NS_PER_S);
	CHECK_EQ(conn[0]->faults, 1);
	keep_down(1);
}

/** The heap: a connection always gets its own share. Beyond that, the connection that is silent
 * the longest is ended. */
static void
test_heap(void)
{
	const uint32_t big = 40000, cost = COST;

	keep_up(20, 0, 10 * cost);
	for (unsigned int i = 0; i < 10; i++)
		feed(conn[i], 0, big, MSS);
	CHECK_EQ(keep.heap_bytes, 10 * cost); /* exactly the limit */
	CHECK_EQ(keep.shed, 0);
	/* A new octet makes the connection the youngest one. */
	feed(conn[0], big, big + 1, 1);
	/* The first 9000 octets need only the connection's own share. */
	for (unsigned int i = 11; i < 20; i++)
		feed(conn[i], 0, 9000, 9000);
	CHECK_EQ(keep.shed, 0);
	feed(conn[10], 0, big, MSS); /* one connection beyond the limit */
	weft_sched_run(&sched, sched.now_ns);
	CHECK_EQ(keep.shed, 1);
	CHECK_EQ(keep.heap_bytes, 10 * cost);
	CHECK_EQ(conn[1]->faults, 1);
	CHECK_EQ(conn[1]->term.code, WEFT_MPA_ERR_LOCAL);
	for (unsigned int i = 0; i < 20; i++) {
		if (i == 1)
			continue;
		CHECK_EQ(conn[i]->faults, 0);
		feed(conn[i], i < 11 ? (i == 0 ? big + 1 : big) : 9000, mpa_fpdu_bytes(65535), MSS);
	}
	weft_sched_run(&sched, sched.now_ns);
	for (unsigned int i = 0; i < 11; i++)
		CHECK_EQ(conn[i]->ulpdus, i != 1);
	keep_down(20);
}

/** The buffer of a stream at rest is taken from it, and the stream continues. */
static void
test_heap_rest(void)
{
	const uint32_t cost = COST;

	keep_up(2, 0, cost);
	feed(conn[0], 0, 40000, MSS);
	feed(conn[0], 40000, mpa_fpdu_bytes(65535), 0);
	CHECK_EQ(conn[0]->ulpdus, 1);
	feed(conn[1], 0, 40000, MSS);
	weft_sched_run(&sched, sched.now_ns);
	CHECK_EQ(keep.shed, 0);
	CHECK(conn[0]->m->compact == NULL);
	feed(conn[1], 40000, 60000, MSS);
	/* conn[1] is ended. Then no other memory can be taken, and the asking connection ends,
	 * too. */
	keep.heap_max_bytes = 10;
	feed(conn[0], 0, 40000, MSS);
	weft_sched_run(&sched, sched.now_ns);
	CHECK_EQ(conn[1]->faults, 1);
	CHECK_EQ(conn[0]->faults, 1);
	keep_down(2);
}

/** The connection that asks may be the longest silent one. Others are ended for it while there
 * are any. */
static void
test_heap_oldest_asks(void)
{
	/* half of the longest FPDU for each of two connections, and not all of it */
	const uint32_t half = MPA_FPDU_MAX_RAW_BYTES / 2 - WEFT_MPA_KEEP_OWN_BYTES;

	for (unsigned int others = 0; others < 2; others++) {
		keep_up(2, 0, 0);
		for (unsigned int i = 0; i <= others; i++)
			feed(conn[i], 0, 20000, MSS);
		CHECK(keep.heap_bytes > 0 && keep.heap_bytes <= 2 * half);
		CHECK(TAILQ_FIRST(&keep.held) == conn[0]->m);
		keep.heap_max_bytes = others ? COST : COST - 1;
		feed(conn[0], 20000, 40000, 20000);
		weft_sched_run(&sched, sched.now_ns);
		CHECK_EQ(conn[0]->faults, !others);
		CHECK_EQ(conn[1]->faults, others);
		CHECK_EQ(keep.shed, others);
		if (others) {
			feed(conn[0], 40000, mpa_fpdu_bytes(65535), MSS);
			CHECK_EQ(conn[0]->ulpdus, 1);
		}
		keep_down(2);
	}
}

/** The same if no octets arrive but the mbufs have been held too long, here mbufs of a large
 * MTU. */
static void
test_heap_oldest_moves(void)
{
	struct rte_mempool *jumbo = rte_pktmbuf_pool_create(
	        "keep_jumbo", 15, 0, 0, RTE_PKTMBUF_HEADROOM + 9000, SOCKET_ID_ANY);
	uint8_t ulpdu[20000] = {4, 5, 6};

	CHECK(jumbo != NULL);
	keep_up(1, 100, 0);
	/* An FPDU in small pieces leaves a buffer at rest that is too small for the next FPDU. */
	slow_fpdu(wire, ulpdu, sizeof(ulpdu));
	feed(conn[0], 0, mpa_fpdu_bytes(sizeof(ulpdu)), 500);
	CHECK_EQ(conn[0]->ulpdus, 1);
	CHECK(keep.heap_bytes > 0);
	keep.heap_max_bytes = COST - 1;
	weft_put_be16(wire, 65000);
	for (unsigned int i = 0; i < 5; i++) {
		struct rte_mbuf *b = rte_pktmbuf_alloc(jumbo);

		CHECK(b != NULL);
		memcpy(rte_pktmbuf_append(b, 9000), wire + i * 9000, 9000);
		conn[0]->c->ops->rx(conn[0]->c->user, b, sched.now_ns);
	}
	CHECK_EQ(conn[0]->m->held_segs, 5);
	pass(2 * WEFT_NS_PER_S);
	CHECK_EQ(conn[0]->faults, 1);
	CHECK_EQ(conn[0]->term.code, WEFT_MPA_ERR_LOCAL);
	CHECK_EQ(keep.shed, 0);
	CHECK_EQ(rte_mempool_in_use_count(jumbo), 0);
	rte_mempool_free(jumbo);
	keep_down(1);
}

/** A stream that is to be ended closes, or its peer closes, before its turn. */
static void
test_shed_races(void)
{
	const uint32_t cost = COST;

	for (unsigned int how = 0; how < 3; how++) {
		keep_up(2, 0, cost);
		feed(conn[0], 0, 40000, MSS);
		feed(conn[1], 0, 40000, MSS);
		CHECK_EQ(keep.shed, 1);
		if (how == 0)
			conn[0]->c->ops->eof(conn[0]->c->user);
		else if (how == 1)
			weft_mpa_abort(conn[0]->m, sched.now_ns);
		else
			fake_rx(conn[0]->c, wire, 100, 1, sched.now_ns);
		weft_sched_run(&sched, sched.now_ns);
		CHECK_EQ(conn[0]->closeds, how == 0);
		CHECK_EQ(conn[0]->faults, how == 2);
		keep_down(2);
	}
}

/** Octets that precede the Reply are charged to the same budget. */
static void
test_early(void)
{
	uint8_t frame[20] = "MPA ID Req Frame@\x01";

	keep_up(1, 10, 0);
	for (unsigned int i = 1; i < 3; i++) {
		conn[i] = peer_new(MSS);
		conn[i]->c->budget = &budget;
		CHECK_EQ(weft_mpa_respond(conn[i]->m, conn[i]->c, &sched, 0, &peer_ops, conn[i],
		                          sched.now_ns),
		         0);
		fake_rx(conn[i]->c, frame, 20, 0, sched.now_ns);
		CHECK_EQ(conn[i]->requests, 1);
	}
	feed(conn[1], 0, 10, 1);
	CHECK_EQ(budget.held, 10); /* exactly the limit */
	CHECK_EQ(conn[1]->closeds, 0);
	feed(conn[2], 0, 1, 1); /* one more mbuf */
	CHECK_EQ(conn[2]->closed_err, -EPROTO);
	CHECK_EQ(keep.early_refused, 1);
	CHECK_EQ(keep.bad_startup, 1);
	CHECK_EQ(budget.held, 10);
	/* The octets held are processed in order after the Reply, and move to the heap while the
	 * FPDU is incomplete. */
	CHECK_EQ(weft_mpa_accept(conn[1]->m, 1, 1, NULL, 0, sched.now_ns), 0);
	weft_sched_run(&sched, sched.now_ns);
	feed(conn[1], 10, mpa_fpdu_bytes(65535), MSS);
	CHECK_EQ(conn[1]->ulpdus, 1);
	CHECK_EQ(budget.held, 0);
	keep_down(3);
}

/** Random octets on random streams, some of which end: the charged octets equal the held ones. */
static void
test_random(void)
{
	uint64_t seed = test_seed(20261123);
	static uint32_t pos[40];

	for (unsigned int round = 0; round < 20; round++) {
		rte_srand(seed + round);
		memset(pos, 0, sizeof(pos));
		keep_up(40, 64, rte_rand_max(2) ? 200000 : 0);
		for (unsigned int step = 0; step < 3000; step++) {
			unsigned int i = rte_rand_max(40), left;
			uint32_t n = 1 + rte_rand_max(rte_rand_max(3) ? 3000 : 30), k;

			if (conn[i]->m->tcp == NULL || conn[i]->faults > 0)
				continue;
			left = mpa_fpdu_bytes(65535) - pos[i];
			k = RTE_MIN(n, left);
			feed(conn[i], pos[i], pos[i] + k, 1 + rte_rand_max(1460));
			pos[i] = (pos[i] + k) % mpa_fpdu_bytes(65535);
			if (rte_rand_max(20) == 0)
				pass(rte_rand_max(2 * WEFT_NS_PER_S));
			if (rte_rand_max(300) == 0)
				weft_mpa_abort(conn[i]->m, sched.now_ns);
			if (in_use() > 64 || in_use() != budget.held ||
			    keep.heap_bytes > keep.heap_max_bytes)
				test_fail(__FILE__, __LINE__, "seed %" PRIu64, seed + round);
		}
		keep_down(40);
	}
}

WEFT_TEST_MAIN({"mbufs", test_mbufs}, {"mbufs edge", test_mbufs_edge},
               {"mbufs, empty", test_mbufs_empty}, {"deadline, marked", test_deadline_marked},
               {"mbufs return", test_mbufs_return}, {"rest at once", test_rest_at_once},
               {"deadline idle", test_deadline_idle}, {"deadline trickle", test_deadline_trickle},
               {"heap", test_heap}, {"heap rest", test_heap_rest},
               {"heap, the oldest asks", test_heap_oldest_asks},
               {"heap, the oldest moves", test_heap_oldest_moves}, {"shed races", test_shed_races},
               {"early", test_early}, {"random", test_random})
