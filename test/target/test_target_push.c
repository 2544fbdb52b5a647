/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Windows of one connection with several Flushes under way: the device works on all of them
 * at once, and no promise is given early for that.
 *
 * The commits of the second case are posted in one breath: data and its Flush, an Atomic Write of a
 * word and its Flush. Whenever the power fails, a word that is on the medium has its data there.
 */

#include <stdlib.h>

#include "rdmap_sabotage.h"
#include "target_rig.h"
#include "volume_sabotage.h"
#include "weft_test.h"

#define DISK_BYTES (4U << 20)
#define PAGE       4096U
#define WINDOW_LEN 65536U
#define PUSHES     8U
#define SLOW_NS    (5 * RIG_MS) /* of each request of the device */
#define COMMITS    5U
#define ROUNDS     6U
#define SEEDS      40U

static struct push {
	struct rig_conn k;
	weft_volrpc_grant grant;
	weft_volrpc_window win[PUSHES];
	struct rig_wr wr[PUSHES];
	uint8_t is[(COMMITS + 1) * PAGE];
	uint64_t seed;
} * p;

static uint64_t
draw(uint64_t n)
{
	p->seed = p->seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (p->seed >> 33) % n;
}

static void
push_begin(uint64_t seed)
{
	const struct rig_attr a = {.seed = seed,
	                           .workers = 1,
	                           .bytes = DISK_BYTES,
	                           .target = "staging = 8M\nwindow = 64K\n"};

	test_seed_note(seed);
	p = calloc(1, sizeof(*p));
	CHECK(p != NULL);
	p->seed = seed;
	rig_open(&a);
	rig_connected(&p->k, 0);
	CHECK_EQ(rig_grant(&p->k, RIG_RIGHTS, &p->grant), WEFT_VOLRPC_OK);
}

static void
push_end(void)
{
	rig_disconnect(&p->k);
	CHECK(rig_until(60 * RIG_S, rig_is_clean, NULL));
	rig_close();
	free(p);
}

static void
push_window(unsigned int i)
{
	struct rig_call c = {.proc = WEFT_VOLRPC_WINDOW_OPEN,
	                     .args.window = {.handle = p->grant.handle,
	                                     .off = i * (uint64_t)WINDOW_LEN,
	                                     .len = WINDOW_LEN,
	                                     .rights = RIG_RIGHTS}};

	rig_call(&p->k, &c);
	rig_wait(&c);
	CHECK(c.rpc == WEFT_RPC_OK && c.status == WEFT_VOLRPC_OK);
	p->win[i] = c.win;
}

static bool
push_is_done(void *arg)
{
	const unsigned int *n = arg;

	for (unsigned int i = 0; i < *n; i++)
		if (!p->wr[i].done)
			return false;
	return true;
}

/* ---- Flushes overlap ---- */

/** A Write and a Flush for each of n windows, or for n parts of one, in one breath. Returns how
 * many times SLOW_NS they have taken. */
static uint64_t
push_takes(unsigned int n, bool one)
{
	const struct weft_block_fault_cfg cfg = {.delay_min_ns = SLOW_NS, .delay_max_ns = SLOW_NS};
	uint8_t *mem, is[PAGE];
	uint64_t from;

	push_begin(31 + n);
	mem = rig.node[0].mem;
	for (unsigned int i = 0; i < n && (!one || i == 0); i++)
		push_window(i);
	memset(mem, 0x5a, PAGE);
	weft_block_fault_set(rig.block, &cfg);
	from = sim_now_ns(rig.sim);
	for (unsigned int i = 0; i < n; i++) {
		const weft_volrpc_window *w = &p->win[one ? 0 : i];

		CHECK(rig_rdma(&p->k, w->stag, w->to + (one ? i * 2 * PAGE : 0), mem, PAGE, true,
		               &p->wr[i]));
	}
	for (unsigned int left = 60000; left > 0 && !push_is_done(&n); left--)
		rig_run(RIG_MS / 10);
	CHECK(push_is_done(&n));
	from = sim_now_ns(rig.sim) - from;
	for (unsigned int i = 0; i < n; i++) {
		CHECK_EQ(p->wr[i].status, WEFT_WC_SUCCESS);
		rig_medium(i * (uint64_t)(one ? 2 * PAGE : WINDOW_LEN), is, PAGE);
		CHECK_MEM(is, mem, PAGE);
	}
	weft_block_fault_set(rig.block, &(struct weft_block_fault_cfg){0});
	push_end();
	test_note("%u Flushes of %s took %.1f times the device's delay", n,
	          one ? "one window" : "as many windows", (double)from / SLOW_NS);
	return from / SLOW_NS;
}

/** One Flush takes a write and a flush of the device. So do many, and a flush more where the first
 * one of a window began before the other pages were written. */
static void
test_overlap(void)
{
	CHECK_EQ(push_takes(1, false), 2);
	CHECK_EQ(push_takes(PUSHES, false), 2);
	CHECK(push_takes(PUSHES, true) <= 3);
}

/* ---- Commits ---- */

static void
commit_post(unsigned int i, uint8_t value)
{
	const weft_volrpc_window *w = &p->win[0];
	uint8_t *mem = rig.node[0].mem;
	struct weft_sge sg = {.addr = mem, .len_bytes = PAGE};
	struct weft_wr list[] = {{.opcode = WEFT_WR_WRITE,
	                          .sg_list = &sg,
	                          .num_sge = 1,
	                          .rdma = {.stag = w->stag, .to = w->to + (i + 1) * PAGE}},
	                         {.opcode = WEFT_WR_FLUSH,
	                          .flush = {.stag = w->stag,
	                                    .to = w->to + (i + 1) * PAGE,
	                                    .len_bytes = PAGE,
	                                    .flags = WEFT_FLUSH_PERSISTENT}},
	                         {.opcode = WEFT_WR_ATOMIC_WRITE,
	                          .atomic_write = {.stag = w->stag,
	                                           .to = w->to + i * 8,
	                                           .data = {value, value, value, value, value,
	                                                    value, value, value}}},
	                         {.opcode = WEFT_WR_FLUSH,
	                          .flush = {.stag = w->stag,
	                                    .to = w->to + i * 8,
	                                    .len_bytes = 8,
	                                    .flags = WEFT_FLUSH_PERSISTENT}}};

	CHECK(rig_post(&p->k, list, 4, &p->wr[i]));
}

/** How many words are on the medium without their data, or were promised and are not there. */
static unsigned int
commit_wrong(uint8_t value)
{
	unsigned int wrong = 0;

	rig_medium(0, p->is, sizeof(p->is));
	for (unsigned int i = 0; i < COMMITS; i++) {
		const uint8_t *data = p->is + (i + 1) * PAGE;
		bool whole = true;

		for (unsigned int at = 0; at < PAGE; at++)
			whole &= data[at] == value;
		wrong += p->is[i * 8] == value && !whole;
		wrong += p->wr[i].done && p->is[i * 8] != value;
	}
	return wrong;
}

static unsigned int
commit_run(uint64_t seed)
{
	const struct weft_block_fault_cfg cfg = {
	        .delay_max_ns = RIG_MS / 2, .leak_ppm = 200000, .atom_bytes = 8};
	unsigned int wrong = 0, all = COMMITS;

	push_begin(seed);
	push_window(0);
	weft_block_fault_set(rig.block, &cfg);
	for (uint8_t value = 1; value <= ROUNDS && wrong == 0; value++) {
		memset(rig.node[0].mem, value, PAGE);
		for (unsigned int i = 0; i < COMMITS; i++)
			commit_post(i, value);
		for (unsigned int left = 60000; left > 0 && !push_is_done(&all); left--) {
			rig_run(1 + draw(100000));
			wrong += commit_wrong(value);
		}
		CHECK(push_is_done(&all));
		for (unsigned int i = 0; i < COMMITS; i++)
			CHECK_EQ(p->wr[i].status, WEFT_WC_SUCCESS);
		wrong += commit_wrong(value);
	}
	weft_block_fault_set(rig.block, &(struct weft_block_fault_cfg){0});
	push_end();
	return wrong;
}

static void
test_commits(void)
{
	const uint64_t seed = test_seed(101);
	const char *env = getenv("WEFT_VOLUME_RUNS");
	const unsigned int runs = test_seed_given() ? 1
	                          : env == NULL     ? SEEDS
	                                            : (unsigned int)strtoul(env, NULL, 0);

	for (unsigned int i = 0; i < runs; i++)
		CHECK_EQ(commit_run(seed + i), 0);
}

/** Faults on purpose. */
static void
test_mutants(void)
{
	static const struct {
		enum volume_sabotage volume;
		enum weft_rdmap_sabotage rdmap;
		const char *name;
	} mutants[] = {{VOLUME_SOUND, WEFT_RDMAP_EARLY_AWRITE,
	                "an Atomic Write that does not wait for the Flush before it"},
	               {VOLUME_WINDOW_HASTY, WEFT_RDMAP_SOUND,
	                "a Flush that does not wait for writes ahead"},
	               {VOLUME_WINDOW_MIXES, WEFT_RDMAP_SOUND,
	                "pages that are taken for flushed too early"}};

	for (unsigned int i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++) {
		unsigned int found = 0, runs = 0;

		volume_sabotage = mutants[i].volume;
		rdmap_sabotage(NULL, mutants[i].rdmap);
		for (; runs < 10 * SEEDS && found == 0; runs++)
			found += commit_run(500 + runs) > 0;
		volume_sabotage = VOLUME_SOUND;
		rdmap_sabotage(NULL, WEFT_RDMAP_SOUND);
		CHECK_MSG(found > 0, "not found: %s", mutants[i].name);
		test_note("%s: found in run %u", mutants[i].name, runs);
	}
}

WEFT_TEST_MAIN({"Flushes of a connection overlap", test_overlap},
               {"a word comes behind its data", test_commits}, {"mutants are found", test_mutants})
