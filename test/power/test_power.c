/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Power cuts: every acknowledged transaction is on the medium, and every transaction on the
 * medium is complete (draft-talpey-rdma-commit-02 s2.1, s2.2, s2.3). A stack that breaks this
 * promise is detected.
 */

#include "power.h"
#include <weft/commit.h>

#define RUNS 2500

static void
run_one(uint64_t seed, struct power *p)
{
	struct power_attr a = {.seed = seed,
	                       .txns = 12,
	                       .inits = 1 + (seed % 3 == 0),
	                       .cuts = 3,
	                       .no_verify = seed % 5 == 0};

	test_seed_note(seed);
	power_open(p, &a);
	power_run(p);
	for (unsigned int k = 0; k < a.inits; k++) {
		const struct power_init *in = &p->in[k];

		CHECK_MSG(p->verdict == POWER_SOUND,
		          "seed %" PRIu64 ": %s; initiator %u: %" PRIu64 " posted, %" PRIu64
		          " acknowledged",
		          seed, power_verdict_str(p->verdict), k, in->posted, in->acked);
		CHECK_EQ(in->acked, a.txns);
		CHECK_MSG(in->odd == 0, "seed %" PRIu64 ": %" PRIu64 " answers out of order", seed,
		          in->odd);
	}
	power_close(p);
}

static void
test_cuts(void)
{
	uint64_t first = test_seed(1), n = test_seed_given() ? 1 : RUNS, judged = 0, cuts = 0,
	         resets = 0, units = 0, asides = 0, two = 0;

	for (uint64_t seed = first; seed < first + n; seed++) {
		struct power p;

		run_one(seed, &p);
		judged += p.judged;
		cuts += p.cuts_done;
		resets += p.resets_done;
		units += p.units;
		two += p.a.inits == 2;
		asides += p.in[0].asides + p.in[1].asides;
	}
	test_note("%" PRIu64 " runs (%" PRIu64 " of two initiators), %" PRIu64
	          " power cuts, %" PRIu64 " streams lost, %" PRIu64 " media judged; %" PRIu64
	          " transactions by weft_commit(), %" PRIu64 " Reads and atomics between",
	          n, two, cuts, resets, judged, units, asides);
	if (test_seed_given())
		return;
	/* Each variant was tried in enough runs. */
	CHECK_MSG(two >= n / 4, "%" PRIu64 " runs of two initiators", two);
	CHECK_MSG(cuts >= n, "%" PRIu64 " power cuts", cuts);
	CHECK_MSG(resets >= n / 3, "%" PRIu64 " streams lost", resets);
	CHECK_MSG(judged >= 200 * n, "%" PRIu64 " media judged", judged);
	CHECK_MSG(units >= 5 * n, "%" PRIu64 " transactions by weft_commit()", units);
	CHECK_MSG(asides >= 5 * n, "%" PRIu64 " Reads and atomics between", asides);
}

/* ---- The test detects faulty stacks and initiators ---- */

/** A faulty stack or initiator, and the verdict that must detect it. */
struct wrong {
	const char *what;
	enum weft_rdmap_sabotage sabotage;
	bool swapped, plain;
	enum power_verdict want;
};

static const struct wrong wrongs[] = {
        {"Flush left out", WEFT_RDMAP_DROP_FLUSH, false, false, POWER_LOST},
        {"Flush answered early", WEFT_RDMAP_EARLY_RESPONSE, false, false, POWER_LOST},
        {"Atomic Write ahead of Flush", WEFT_RDMAP_EARLY_AWRITE, false, false, POWER_HOLE},
        {"initiator commits ahead of Flush", WEFT_RDMAP_SOUND, true, false, POWER_HOLE},
        {"no Atomic Write", WEFT_RDMAP_SOUND, false, true, POWER_TORN},
};

#define WRONG_RUNS 300

/** Half of the runs post single work requests. The other half use weft_commit() if the fault is
 * possible with it. A third of the runs have two initiators. */
static void
test_wrong(void)
{
	for (unsigned int i = 0; i < RTE_DIM(wrongs); i++) {
		bool by_hand = wrongs[i].swapped || wrongs[i].plain;
		unsigned int caught[POWER_VERDICTS] = {0}, units = 0, odd = 0;

		for (uint64_t seed = 1; seed <= WRONG_RUNS; seed++) {
			struct power_attr a = {.seed = seed,
			                       .txns = 12,
			                       .inits = 1 + (seed % 3 == 0),
			                       .cuts = 1,
			                       .post = seed / 2 % 2 == 0 ? POWER_COMMIT
			                                                 : POWER_BY_HAND,
			                       .no_verify = seed % 2 == 0,
			                       .sabotage = wrongs[i].sabotage,
			                       .swapped = wrongs[i].swapped,
			                       .plain = wrongs[i].plain};
			struct power p;

			if (by_hand)
				a.post = POWER_BY_HAND;
			test_seed_note(seed);
			power_open(&p, &a);
			power_run(&p);
			caught[p.verdict]++;
			units += p.verdict == wrongs[i].want && a.post == POWER_COMMIT;
			odd += p.in[0].odd + p.in[1].odd > 0;
			power_close(&p);
		}
		test_note("%s: of %u runs %u lost what was acknowledged, %u had holes, %u had torn "
		          "words, %u were stopped by Verify, %u passed; in %u an answer was wrong",
		          wrongs[i].what, WRONG_RUNS, caught[POWER_LOST], caught[POWER_HOLE],
		          caught[POWER_TORN], caught[POWER_STOPPED], caught[POWER_SOUND], odd);
		/* an Atomic Write that overtakes the Flush also overtakes an earlier Read */
		if (wrongs[i].sabotage == WEFT_RDMAP_EARLY_AWRITE)
			CHECK_MSG(odd >= WRONG_RUNS / 10, "%u runs with a wrong answer", odd);
		/* at least one run in ten detects the fault, for either way of posting */
		CHECK_MSG(caught[wrongs[i].want] - units >= WRONG_RUNS / 20 &&
		                  (by_hand || units >= WRONG_RUNS / 20) &&
		                  caught[wrongs[i].want] >= WRONG_RUNS / 10,
		          "%s: %s in %u of %u runs, %u of them by weft_commit()", wrongs[i].what,
		          power_verdict_str(wrongs[i].want), caught[wrongs[i].want], WRONG_RUNS,
		          units);
	}
}

/* ---- Faults of the medium ---- */

/** One fault at a transaction that the seed selects, and what both sides report. */
struct fault {
	const char *what;
	enum weft_persist_sim_fault fault;
	enum weft_wc_status status;
	enum weft_wc_opcode opcode;
	uint8_t code;               /**< code of the Terminate */
	int event;                  /**< status of the bad range event */
	bool word;                  /**< the Flush of the commit word fails */
	enum weft_commit_step step; /**< failing step of a weft_commit() */
};

static const struct fault faults[] = {
        {"bit error", WEFT_SIM_FLIP, WEFT_WC_HASH_MISMATCH, WEFT_WC_VERIFY,
         WEFT_TERM_OP_HASH_MISMATCH, -EBADMSG, false, WEFT_COMMIT_STEP_VERIFY},
        {"read error", WEFT_SIM_READ_ERR, WEFT_WC_REMOTE_OP, WEFT_WC_VERIFY,
         WEFT_TERM_OP_VERIFY_FAILED, -EIO, false, WEFT_COMMIT_STEP_VERIFY},
        {"failed Flush", WEFT_SIM_FLUSH_ERR, WEFT_WC_REMOTE_OP, WEFT_WC_FLUSH,
         WEFT_TERM_OP_FLUSH_FAILED, -EIO, false, WEFT_COMMIT_STEP_FLUSH},
        {"failed Flush of the commit word", WEFT_SIM_FLUSH_ERR, WEFT_WC_REMOTE_OP, WEFT_WC_FLUSH,
         WEFT_TERM_OP_FLUSH_FAILED, -EIO, true, WEFT_COMMIT_STEP_WORD_FLUSH},
};

static void
expect_told(struct power *p, const struct fault *f, uint64_t k)
{
	struct weft_event ev = vt_ev(&p->t.n[1], WEFT_EV_BAD_RANGE);

	CHECK_EQ(ev.status, f->event);
	CHECK_EQ(ev.bad_range.stag, weft_mr_stag(p->in[0].mr));
	CHECK_EQ(ev.bad_range.to - 0x200000000ULL, f->word ? 0 : power_slot(k));
	CHECK_EQ(ev.bad_range.len_bytes, f->word ? 8 : p->in[0].len[k % POWER_SLOTS]);
	for (unsigned int i = 2; i-- > 0;) {
		ev = vt_ev(&p->t.n[i], WEFT_EV_TERMINATED);
		CHECK_EQ(ev.term.layer, WEFT_TERM_LAYER_RDMA);
		CHECK_EQ(ev.term.etype, WEFT_TERM_RDMA_OPERATION);
		CHECK_EQ(ev.term.code, f->code);
		CHECK_EQ(ev.term.ours, i == 1);
		vt_ev(&p->t.n[i], WEFT_EV_DISCONNECTED);
	}
}

/** Run until the fault. Returns the number of the transaction that failed. */
static uint64_t
fault_run(struct power *p, const struct fault *f, uint64_t seed, enum weft_rdmap_sabotage sabotage)
{
	struct power_attr a = {.seed = seed,
	                       .txns = 12,
	                       .post = seed % 2 == 0 ? POWER_BY_HAND : POWER_COMMIT,
	                       .no_asides = true,
	                       .quick = true,
	                       .exact = true,
	                       .sabotage = sabotage};
	uint64_t k = 1 + seed % POWER_SLOTS; /* the first transaction in its slot */

	test_seed_note(seed);
	power_open(p, &a);
	if (f->word)
		weft_persist_sim_fault(p->t.n[1].persist, f->fault, 0, 8, (unsigned int)k - 1);
	else
		weft_persist_sim_fault(p->t.n[1].persist, f->fault, power_slot(k), POWER_SLOT_BYTES,
		                       0);
	power_run(p);
	return k;
}

static void
test_faults(void)
{
	for (unsigned int i = 0; i < RTE_DIM(faults); i++)
		for (uint64_t seed = 1; seed <= 150; seed++) {
			const struct fault *f = &faults[i];
			const struct weft_persist *m;
			struct power p;
			uint64_t k = fault_run(&p, f, seed, WEFT_RDMAP_SOUND);

			m = p.t.n[1].persist;
			CHECK_MSG(weft_persist_sim_stats(m)->faults == 1, "%s, seed %" PRIu64,
			          f->what, seed);
			CHECK_MSG(p.verdict == POWER_STOPPED, "%s, seed %" PRIu64 ": %s", f->what,
			          seed, power_verdict_str(p.verdict));
			CHECK_EQ(p.failed.status, f->status);
			if (p.a.post == POWER_COMMIT) {
				CHECK_EQ(p.failed.opcode, WEFT_WC_COMMIT);
				CHECK_EQ(p.failed.commit.step, f->step);
			} else {
				CHECK_EQ(p.failed.opcode, f->opcode);
			}
			CHECK_MSG(POWER_TXN(p.failed.wr_id) == k,
			          "%s, seed %" PRIu64 ": transaction %u", f->what, seed,
			          (unsigned int)POWER_TXN(p.failed.wr_id));
			/* The transactions before k are committed. k and those after it are not. */
			CHECK_EQ(p.in[0].acked, k - 1);
			CHECK_EQ(power_word(p.t.n[1].mem), f->word ? k : k - 1);
			CHECK(power_word(weft_persist_sim_medium(m)) <= (f->word ? k : k - 1));
			expect_told(&p, f, k);
			power_close(&p);
		}
	test_note("%u faults of the medium, 150 seeds each", (unsigned int)RTE_DIM(faults));
}

/** Bit errors on the medium that a Verify of memory would not detect. */
static void
test_verify_memory(void)
{
	unsigned int caught = 0;

	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct power p;

		fault_run(&p, &faults[0], seed, WEFT_RDMAP_VERIFY_MEMORY);
		caught += p.verdict == POWER_HOLE;
		power_close(&p);
	}
	CHECK_EQ(caught, 50);
}

/** The medium changes data that was flushed and verified before. Memory does not change (s2.2.2).
 */
static void
test_behind_cache(void)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct power_attr a = {.seed = seed, .txns = 5, .quick = true};
		struct weft_wr wr = {.opcode = WEFT_WR_VERIFY, .flags = WEFT_WR_SIGNALED};
		struct power p;
		uint32_t len;

		test_seed_note(seed);
		power_open(&p, &a);
		power_run(&p);
		CHECK_EQ(p.verdict, POWER_SOUND);
		len = p.in[0].len[3];
		wr.verify.stag = weft_mr_stag(p.in[0].mr);
		wr.verify.to = 0x200000000ULL + power_slot(3);
		wr.verify.len_bytes = len;
		wr.verify.expect = p.in[0].expect[3];
		wr.verify.expect_bytes = 4;
		CHECK_EQ(weft_post_send(p.in[0].qp[0], &wr, 1), 1);
		CHECK_EQ(vt_wc(&p.t.n[0]).status, WEFT_WC_SUCCESS);
		weft_persist_sim_flip(p.t.n[1].persist,
		                      power_slot(3) * 8 + seed * 0x9e3779b9 % (len * 8));
		CHECK_MEM(p.t.n[1].mem + power_slot(3), p.t.n[0].mem + power_slot(3), len);
		CHECK_EQ(weft_post_send(p.in[0].qp[0], &wr, 1), 1);
		CHECK_EQ(vt_wc(&p.t.n[0]).status, WEFT_WC_HASH_MISMATCH);
		expect_told(&p, &faults[0], 3);
		power_close(&p);
	}
}

WEFT_TEST_MAIN({"power cuts", test_cuts}, {"wrong stacks are caught", test_wrong},
               {"faults of the medium", test_faults},
               {"Verify out of memory is caught", test_verify_memory},
               {"the medium changes behind the cache", test_behind_cache})
