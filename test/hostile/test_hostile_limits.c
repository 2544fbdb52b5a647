/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * docs/limits.md states how many octets an unauthenticated peer can hold at most. For each of its
 * rows this test checks two things. The figure is the result of the formula for the default
 * configuration. Peers that take as much as possible get no more than the formula gives, and more
 * than half of it. For resources that are counted, peers get exactly the maximum, and one more
 * request is refused and counted.
 */

#include <stdlib.h>
#include <unistd.h>

#include <rte_mempool.h>

#include "kinds.h"
#include "netif_neigh.h"
#include "netif_priv.h"
#include "weft_engine.h"
#include "weft_netif_budget.h"
#include "weft_test.h"
#include "world.h"

#define KIB      1024ull
#define MIB      (1024 * KIB)
#define HOLD_NS  (4 * WORLD_S)
#define CONN_KIB 72 /* QP, RPC endpoint with its receives, and the target's state */

/* Octets that a kept reply needs in addition to the reply: its entry and the state of its client.
 */
#define REPLY_KEPT 480

struct conf_part {
	uint64_t max_conns, mbufs;
};

static uint64_t
mbuf_bytes(void)
{
	return world.rx_pool != NULL ? world.rx_pool->header_size + world.rx_pool->elt_size +
	                                       world.rx_pool->trailer_size
	                             : 2496;
}

static uint64_t
of_conns(const struct conf_part *c)
{
	return c->max_conns / 2 * CONN_KIB * KIB;
}

static uint64_t
of_parts(const struct conf_part *c)
{
	/* Half of the budget, the part of each connection outside it, and the rounding of
	 * realloc(). */
	return 32 * MIB + c->max_conns / 2 * (32 + 64) * KIB;
}

static uint64_t
of_answers(const struct conf_part *c)
{
	/* Half of the same budget, and two parts that each connection may have in flight: its grant
	 * and its Writes. */
	return 32 * MIB + c->max_conns / 2 * (32 + 32) * KIB;
}

static uint64_t
of_gaps(const struct conf_part *c)
{
	return c->mbufs / 2 / 2 * 3 / 4 * mbuf_bytes();
}

static uint64_t
of_fpdus(const struct conf_part *c)
{
	return c->mbufs / 2 / 2 / 4 * mbuf_bytes();
}

static uint64_t
of_fpdu_heap(const struct conf_part *c)
{
	return c->max_conns / 2 * 16 * KIB + 16 * MIB;
}

static uint64_t
of_unacknowledged(const struct conf_part *c)
{
	return c->mbufs / 2 * 5 / 8 * mbuf_bytes();
}

static uint64_t
of_replies(const struct conf_part *c)
{
	/* An entry, its client's state, and the longest reply of a procedure with `once`: that of
	 * WRITE with a reason of the maximum length. */
	const uint64_t rpc = 6 * 4, status = 4, why = 4 + WEFT_TEXT_MAX + 1;

	(void)c;
	return 4096 * (REPLY_KEPT + rpc + status + why);
}

enum what { HEAP, HEAP_BUT_CONNS, RX, TX };

static const struct row {
	const char *name;
	uint64_t (*octets)(const struct conf_part *c);
	enum what what;
	const char *kind;
	unsigned int peers, addrs, steps;
	uint32_t max_conns; /* 0: the default */
} rows[] = {
        {"connections", of_conns, HEAP, "idle_conns", 600, 1, 0, 0},
        {"calls begun", of_parts, HEAP_BUT_CONNS, "rpc_parts", 40, 1, 1159, 64},
        {"answers not taken", of_answers, HEAP_BUT_CONNS, "replies_unread", 40, 1, 0, 64},
        {"beyond a gap", of_gaps, RX, "gap_segments", 44, 1, 0, 0},
        {"incomplete FPDUs", of_fpdus, RX, "half_fpdu", 500, 1, 0, 0},
        {"incomplete FPDUs, heap", of_fpdu_heap, HEAP_BUT_CONNS, "half_fpdu", 500, 1, 0, 0},
        {"replies", of_replies, HEAP_BUT_CONNS, "stale_closes", 16, 16, 0, 0},
        {"not acknowledged", of_unacknowledged, TX, "reads_unacknowledged", 200, 1, 0, 0},
};

static const struct crowd_kind *
kind_of(const char *name)
{
	const struct crowd_kind *const *all[] = {kinds_conn, kinds_read, kinds_storm, kinds_kept};

	for (unsigned int i = 0; i < RTE_DIM(all); i++)
		for (unsigned int k = 0; all[i][k] != NULL; k++)
			if (strcmp(all[i][k]->name, name) == 0)
				return all[i][k];
	test_fail(__FILE__, __LINE__, "no kind %s", name);
}

/* Read the figure of a row of docs/limits.md: " `name` figure ...". */
static uint64_t
stated(const char *name)
{
	FILE *f = fopen(DOCS_DIR "/limits.md", "re");
	char line[1024], begin[64];
	uint64_t v = 0;

	CHECK(f != NULL);
	snprintf(begin, sizeof(begin), "| `%s` | ", name);
	while (fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, begin, strlen(begin)) == 0)
			v = strtoull(line + strlen(begin), NULL, 10);
	fclose(f);
	return v;
}

static uint64_t
held_bytes(const struct row *r, const struct world_held *base)
{
	struct world_held h = world_held();

	switch (r->what) {
	case RX:
		return (h.rx_mbufs - base->rx_mbufs) * mbuf_bytes();
	case TX:
		return (h.tx_mbufs - base->tx_mbufs) * mbuf_bytes();
	case HEAP:
		return h.heap_bytes - base->heap_bytes;
	case HEAP_BUT_CONNS:
		break;
	}
	/* Subtract nine tenths of the part of each connection: its own state. */
	h.heap_bytes -= (uint64_t)(h.target_conns - base->target_conns) * CONN_KIB * KIB * 9 / 10;
	return h.heap_bytes > base->heap_bytes ? h.heap_bytes - base->heap_bytes : 0;
}

static void
row(void)
{
	const struct row *r = &rows[test_case_index()];
	const struct conf_part dflt = {.max_conns = 1024, .mbufs = 8192};
	struct conf_part c = dflt;
	struct world_held base;
	struct crowd_kind k;
	char tcp[64];
	uint64_t most = 0, at_most;
	struct world_attr a = {.workers = 1, .seed = test_seed(7)};

	CHECK_EQ(stated(r->name), r->octets(&dflt));
	if (r->max_conns != 0) {
		c.max_conns = r->max_conns;
		snprintf(tcp, sizeof(tcp), "[tcp]\nmax_conns = %u", r->max_conns);
		a.target = tcp;
	}
	k = *kind_of(r->kind);
	k.peers = r->peers;
	k.addrs = r->addrs;
	if (r->steps != 0)
		k.steps = r->steps;
	world_open(&a);
	base = world_held();
	crowd_attack(world.crowd, &k);
	for (unsigned int i = 0; i < 80; i++) {
		world_run(HOLD_NS / 80);
		most = RTE_MAX(most, held_bytes(r, &base));
	}
	at_most = r->octets(&c);
	crowd_leave(world.crowd);
	world_close();
	test_note("%-24s stated %10" PRIu64 "; with max_conns = %" PRIu64 " at most %10" PRIu64
	          ", held %10" PRIu64,
	          r->name, stated(r->name), c.max_conns, at_most, most);
	CHECK_MSG(most <= at_most, "%" PRIu64 " of %" PRIu64 " octets", most, at_most);
	CHECK_MSG(most > at_most / 2, "%" PRIu64 " of %" PRIu64 " octets: the figure says nothing",
	          most, at_most);
}

/* ---- Limits of numbers, not of octets ---- */

static struct weft_netif *
nif(void)
{
	return weft_engine_netif(world.t->stack.workers[0], 0);
}

static uint64_t
now_grants(uint64_t *beyond)
{
	struct quota_stats s;

	quota_stats(world.t->quota, &s);
	*beyond = s.refused_client;
	return s.grants - 1; /* the client's */
}

static uint64_t
now_half_open(uint64_t *beyond)
{
	const struct weft_tcp_stats *st =
	        weft_tcp_stats(weft_engine_tcp(world.t->stack.workers[0]));

	*beyond = st->syn_cookies_out;
	return st->half_open_now;
}

static uint64_t
now_neighbours(uint64_t *beyond)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < nif()->nneighs; i++)
		n += nif()->neigh[i].hashed;
	*beyond = weft_netif_stats(nif())->neigh_evicted;
	return n;
}

static uint64_t
now_parked(uint64_t *beyond)
{
	*beyond = weft_netif_stats(nif())->tx_park_full;
	return weft_netif_budgets(nif())->park.held;
}

/* A maximum, and the counter of requests beyond it. */
static const struct count {
	const char *name;
	uint64_t at_most;
	uint64_t (*now)(uint64_t *beyond);
	const char *kind;
	unsigned int peers, addrs; /* 0: those of the kind */
} counts[] = {
        {"grants", 256, now_grants, "grants", 70, 1},
        {"half-open connections", 128, now_half_open, "half_open", 0, 0},
        {"neighbours", 1024 + 1024 / 2, now_neighbours, "syns_spoofed", 0, 0},
        {"frames that wait for an address", 8192 / 2 / 8, now_parked, "syns_spoofed", 0, 0},
};

static void
count(void)
{
	const struct count *r = &counts[test_case_index() - RTE_DIM(rows)];
	const struct world_attr a = {.workers = 1, .seed = test_seed(9)};
	struct crowd_kind k = *kind_of(r->kind);
	uint64_t most = 0, beyond = 0;

	CHECK_EQ(stated(r->name), r->at_most);
	if (r->peers != 0) {
		k.peers = r->peers;
		k.addrs = r->addrs;
	}
	world_open(&a);
	crowd_attack(world.crowd, &k);
	for (unsigned int i = 0; i < 400; i++) {
		world_run(HOLD_NS / 400);
		most = RTE_MAX(most, r->now(&beyond));
	}
	crowd_leave(world.crowd);
	world_close();
	test_note("%-32s at most %5" PRIu64 ", held %5" PRIu64 ", beyond %6" PRIu64, r->name,
	          r->at_most, most, beyond);
	CHECK_EQ(most, r->at_most);
	CHECK(beyond > 0);
}

#define EDGE 8u

/* At the limit, every connection of an address is served. Only the one beyond the limit is refused.
 * Another address is still served. */
static void
edge(void)
{
	const struct world_attr a = {.workers = 1, .seed = 8, .target = "max_conns_per_peer = 8"};

	for (unsigned int more = 0; more < 2; more++) {
		struct crowd_kind k = *kind_of("idle_conns"), other = k;
		struct weft_worker_stats st;
		unsigned int up, served;

		k.peers = EDGE + more;
		other.peers = other.addrs = 1;
		k.again = other.again = false;
		world_open(&a);
		crowd_attack(world.crowd, &k);
		world_run(2 * WORLD_S);
		up = crowd_up(world.crowd);
		crowd_attack(world.crowd, &other);
		world_run(2 * WORLD_S);
		served = crowd_up(world.crowd);
		weft_worker_stats(world.t->stack.workers[0], &st);
		crowd_leave(world.crowd);
		world_close();
		CHECK_EQ(up, EDGE);
		CHECK_EQ(served, EDGE + 1);
		CHECK_EQ(st.conns_refused_peer, more);
	}
}

int
main(int argc, char **argv)
{
	enum { ROWS = RTE_DIM(rows), ALL = ROWS + RTE_DIM(counts) };
	static struct weft_test_case table[ALL + 1];
	static char name[ALL][40];

	/* As in test_hostile_sim.c. */
	if (getenv("PMEM_IS_PMEM_FORCE") == NULL) {
		setenv("PMEM_IS_PMEM_FORCE", "1", 1);
		setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
		execv("/proc/self/exe", argv);
	}
	for (unsigned int i = 0; i < ALL; i++) {
		snprintf(name[i], sizeof(name[i]), "%s",
		         i < ROWS ? rows[i].name : counts[i - ROWS].name);
		for (char *p = name[i]; *p != '\0'; p++)
			if (*p == ' ' || *p == ',')
				*p = '_';
		table[i] = (struct weft_test_case){name[i], i < ROWS ? row : count};
	}
	table[ALL] = (struct weft_test_case){"conns_per_address_edge", edge};
	return test_main(argc, argv, table, RTE_DIM(table));
}
