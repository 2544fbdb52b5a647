/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * An unauthenticated peer cannot make a target unavailable. The cases cover each kind of hostile
 * peer, with one worker and with two workers that share the port, and mixes of kinds that a seed
 * selects. An honest client writes, calls, connects and pings, first alone, then under attack.
 * Under attack it gets more than half of its throughput, and no ping, call or connection is lost.
 * Half of the attackers leave with a reset and half silently. Afterwards the target holds what it
 * held before.
 *
 * Each case prints the resources held and the client's results.
 */

#include <stdlib.h>
#include <unistd.h>

#include <rte_mempool.h>

#include "kinds.h"
#include "weft_test.h"
#include "world.h"

#define QUIET_NS  (1 * WORLD_S)
#define ATTACK_NS (3 * WORLD_S)
/* By then the target has found out that the last silent peer is gone. */
#define AFTER_NS    (300 * WORLD_S)
#define HEAP_SLACK  (64u << 10)
#define HEAP_WORKER (80ull << 20)
#define HEAP_CONN   (128ull << 10)
/* Most turns that each worker asks for in a run and in which no frame arrives. A target that waits
 * for an event does not ask for turns. */
#define POLLS_MAX 1000000u
#define SMALL     1024 /* minimum of [port] mbufs */
#define MIXES     6
#define MIX_KINDS 3

struct outcome {
	double quiet, attacked; /* octets per second */
	struct world_held before, most, after;
	struct world_got got;
	unsigned int pings, pings_lost, up;
	uint64_t polls;
	bool cut; /* the client's connection has ended */
};

static void
watch_most(struct world_held *most)
{
	struct world_held h = world_held();

	most->rx_mbufs = RTE_MAX(most->rx_mbufs, h.rx_mbufs);
	most->tx_mbufs = RTE_MAX(most->tx_mbufs, h.tx_mbufs);
	most->conns = RTE_MAX(most->conns, h.conns);
	most->half_open = RTE_MAX(most->half_open, h.half_open);
	most->regions = RTE_MAX(most->regions, h.regions);
	most->heap_bytes = RTE_MAX(most->heap_bytes, h.heap_bytes);
}

/* Whether each worker has served a connection, so that what it allocates at the first one is
 * allocated. */
static bool
every_worker_served(void)
{
	bool all = true;

	for (unsigned int i = 0; i < world.a.workers; i++) {
		struct weft_worker_stats st;

		weft_worker_stats(world.t->stack.workers[i], &st);
		all = all && st.conns_total > 1;
	}
	return all;
}

static struct outcome
attack(unsigned int workers, unsigned int mbufs, uint64_t seed,
       const struct crowd_kind *const *kinds, unsigned int n)
{
	const struct world_attr a = {.workers = workers, .seed = seed, .mbufs = mbufs};
	struct world_client *c = &world.c;
	struct outcome o = {0};
	unsigned int first;

	world_open(&a);
	/* Use everything once before counting, so that allocations at first use are made. */
	c->often = true;
	world_push(true);
	for (unsigned int i = 0; i < 50 && !every_worker_served(); i++)
		world_run(WORLD_S / 10);
	CHECK(every_worker_served());
	world_push(false);
	c->often = false;
	world_run(5 * WORLD_S);
	o.before = o.most = world_held();
	world.polls_max = POLLS_MAX * workers;

	world_push(true);
	world_run(WORLD_S / 5);
	c->got = (struct world_got){0};
	world_run(QUIET_NS);
	o.quiet = (double)c->got.bytes * WORLD_S / QUIET_NS;

	c->got = (struct world_got){0};
	first = world.crowd->pings;
	for (unsigned int i = 0; i < n; i++)
		crowd_attack(world.crowd, kinds[i]);
	for (unsigned int i = 0; i < 30; i++) {
		world_run(ATTACK_NS / 30);
		watch_most(&o.most);
	}
	o.up = crowd_up(world.crowd);
	o.attacked = (double)c->got.bytes * WORLD_S / ATTACK_NS;
	c->trying = c->pushing = false;
	world_run(4 * WORLD_S); /* the last requests are answered or time out */
	o.got = c->got;
	o.pings = world.crowd->pings - first;
	o.pings_lost = crowd_lost(world.crowd, world.crowd->pings) - crowd_lost(world.crowd, first);
	crowd_leave(world.crowd);
	world_run(AFTER_NS);
	o.after = world_held();
	o.cut = c->stay.gone;
	o.polls = world.polls;
	world_close();
	return o;
}

static void
judge(const char *name, unsigned int workers, uint64_t seed, const struct outcome *o)
{
	test_note("%-24s %u  held rx %4u tx %4u mbufs, %4u conns (%4u half-open), %4u regions, "
	          "%6.1f MiB  "
	          "goodput %3.0f%% of %.1f MB/s  pings lost %u of %u  calls failed %u of %u  conns "
	          "failed %u of %u  %.1f M polls asked for",
	          name, workers, o->most.rx_mbufs - o->before.rx_mbufs,
	          o->most.tx_mbufs - o->before.tx_mbufs, o->most.conns, o->most.half_open,
	          o->most.regions, (double)(o->most.heap_bytes - o->before.heap_bytes) / (1 << 20),
	          100 * o->attacked / o->quiet, o->quiet / 1e6, o->pings_lost, o->pings,
	          o->got.calls_failed, o->got.calls, o->got.conns_failed, o->got.conns,
	          (double)o->polls / 1e6);
	CHECK_MSG(o->polls <= (uint64_t)POLLS_MAX * workers,
	          "seed %" PRIu64 ": the target never rests", seed);
	CHECK_MSG(!o->cut, "seed %" PRIu64 ": the client's connection ended", seed);
	CHECK_MSG(o->quiet > 1e6 && o->attacked > o->quiet / 2,
	          "seed %" PRIu64 ": %.0f of %.0f octets a second", seed, o->attacked, o->quiet);
	CHECK_MSG(o->pings > 100 && o->pings_lost == 0, "seed %" PRIu64 ": %u of %u pings lost",
	          seed, o->pings_lost, o->pings);
	CHECK_MSG(o->got.calls > 10 && o->got.calls_failed == 0, "seed %" PRIu64 ": %u of %u calls",
	          seed, o->got.calls_failed, o->got.calls);
	CHECK_MSG(o->got.conns > 3 && o->got.conns_failed == 0,
	          "seed %" PRIu64 ": %u of %u connections", seed, o->got.conns_failed,
	          o->got.conns);
	/* docs/limits.md: calls, answers and FPDUs of all addresses, and the part of each
	 * connection. */
	CHECK_MSG(o->most.heap_bytes - o->before.heap_bytes <=
	                  workers * HEAP_WORKER + o->most.conns * HEAP_CONN,
	          "%" PRIu64 " octets on the heap", o->most.heap_bytes - o->before.heap_bytes);
	CHECK(o->after.rx_mbufs <= o->before.rx_mbufs);
	CHECK(o->after.tx_mbufs <= o->before.tx_mbufs);
	CHECK_EQ(o->after.conns, o->before.conns);
	CHECK_EQ(o->after.half_open, 0);
	CHECK_EQ(o->after.target_conns, o->before.target_conns);
	CHECK_EQ(o->after.regions, o->before.regions);
	CHECK_MSG(o->after.heap_bytes <= o->before.heap_bytes + HEAP_SLACK,
	          "%" PRIu64 " octets more on the heap",
	          o->after.heap_bytes - o->before.heap_bytes);
}

/* ---- Cases made at run time ---- */

#define CASES 128

static struct {
	char name[64];
	const struct crowd_kind *kind; /* NULL: a mix of kinds */
	unsigned int workers, mbufs;
	uint64_t seed;
} cases[CASES];
static unsigned int ncases;

static void
run(void)
{
	unsigned int i = test_case_index();
	const struct crowd_kind *kinds[MIX_KINDS] = {cases[i].kind};
	unsigned int n = 1;
	uint64_t seed = test_seed(cases[i].seed);
	struct outcome o;
	char name[100] = "";

	test_seed_note(seed);
	if (kinds[0] == NULL) {
		uint64_t x = seed * 0x9e3779b97f4a7c15ULL;
		unsigned int nconn = 0, nread = 0, nstorm = 0;

		while (kinds_conn[nconn] != NULL)
			nconn++;
		while (kinds_read[nread] != NULL)
			nread++;
		while (kinds_storm[nstorm] != NULL)
			nstorm++;
		kinds[0] = kinds_conn[(x >> 32) % nconn];
		kinds[1] = kinds_read[(x >> 16) % nread];
		kinds[2] = kinds_storm[(x >> 40) % nstorm];
		n = 3;
		if (kinds[0]->peers + kinds[1]->peers + kinds[2]->peers > CROWD_PEERS)
			n = 1;
	}
	for (unsigned int k = 0; k < n; k++)
		snprintf(name + strlen(name), sizeof(name) - strlen(name), "%s%s", k > 0 ? "+" : "",
		         kinds[k]->name);
	o = attack(cases[i].workers, cases[i].mbufs, seed, kinds, n);
	judge(name, cases[i].workers, seed, &o);
}

static void
add(const char *name, const struct crowd_kind *kind, unsigned int workers, uint64_t seed)
{
	snprintf(cases[ncases].name, sizeof(cases[ncases].name), "%s_w%u", name, workers);
	cases[ncases].kind = kind;
	cases[ncases].workers = workers;
	cases[ncases++].seed = seed;
}

int
main(int argc, char **argv)
{
	static struct weft_test_case table[CASES];
	char mix[16];

	/*
	 * Both variables are read when libraries are loaded. The first makes a flush of the medium
	 * an instruction, not a write to disk. The second makes the heap count freed blocks as
	 * free; blocks in a thread's cache do not count.
	 */
	if (getenv("PMEM_IS_PMEM_FORCE") == NULL) {
		setenv("PMEM_IS_PMEM_FORCE", "1", 1);
		setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
		execv("/proc/self/exe", argv);
	}
	for (unsigned int w = 1; w <= WORLD_WORKERS; w++) {
		for (unsigned int i = 0; kinds_conn[i] != NULL; i++)
			add(kinds_conn[i]->name, kinds_conn[i], w, 100 * w + i);
		for (unsigned int i = 0; kinds_read[i] != NULL; i++)
			add(kinds_read[i]->name, kinds_read[i], w, 500 * w + i);
		for (unsigned int i = 0; kinds_storm[i] != NULL; i++)
			add(kinds_storm[i]->name, kinds_storm[i], w, 200 * w + i);
		for (unsigned int i = 0; kinds_small[i] != NULL; i++) {
			char name[40];

			snprintf(name, sizeof(name), "%s_small", kinds_small[i]->name);
			add(name, kinds_small[i], w, 700 * w + i);
			cases[ncases - 1].mbufs = SMALL;
		}
		for (unsigned int i = 0; i < MIXES; i++) {
			snprintf(mix, sizeof(mix), "mix%u", i);
			add(mix, NULL, w, 300 * w + i);
		}
	}
	for (unsigned int i = 0; i < ncases; i++)
		table[i] = (struct weft_test_case){cases[i].name, run};
	return test_main(argc, argv, table, ncases);
}
