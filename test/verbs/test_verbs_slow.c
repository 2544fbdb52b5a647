/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The order table (order_rows.h) with a slow medium, so that operations carried out of order become
 * visible. Behind a slow Flush each operation is followed by each other one, on memory of its own.
 * The target is checked at each step. draft-talpey-rdma-commit-02 s2.3.2: whichever of several
 * Flushes or Verifies fails, the Atomic Write behind them is not carried out.
 */

#include "order_rows.h"
#include "rdmap_irq.h"
#include "weft_verbs_qp.h"
#include "vt.h"
#include "weft_persist_sim.h"

#define AREA   256u
#define MAXN   10u
#define NAREAS (MAXN + 1) /* the first belongs to the slow Flush in front */
#define LEN    (AREA * NAREAS)
#define BASE   0x200000000ULL
#define RIGHTS                                                                                     \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_PERSISTENT | WEFT_ACCESS_FLUSH_VISIBLE |    \
	 WEFT_ACCESS_VERIFY)
#define DELAY_NS (2 * VT_MS) /* many round trips */

enum kind {
	SEND,
	SEND_INV,
	WRITE,
	WRITE_IMM,
	IMM,
	READ,
	ATOMIC,
	FLUSH_P,
	FLUSH_V,
	FLUSH_PV,
	FLUSH_R,
	VERIFY,
	AWRITE,
	NKINDS
};

static const struct {
	const char *name;
	enum order_op row;
	enum weft_wr_opcode op;
	uint32_t flags; /* of a Flush */
	uint8_t answer; /* the response; 0: none */
	bool receive;
} kinds[NKINDS] = {
        [SEND] = {"Send", O_SEND, WEFT_WR_SEND, 0, 0, true},
        [SEND_INV] = {"Send with Invalidate", O_SEND, WEFT_WR_SEND_INV, 0, 0, true},
        [WRITE] = {"Write", O_WRITE, WEFT_WR_WRITE, 0, 0, false},
        [WRITE_IMM] = {"Write with Immediate Data", O_IMM, WEFT_WR_WRITE_IMM, 0, 0, true},
        [IMM] = {"Immediate Data", O_IMM, WEFT_WR_IMM, 0, 0, true},
        [READ] = {"Read", O_READ, WEFT_WR_READ, 0, WEFT_RDMAP_READ_RESP, false},
        [ATOMIC] = {"Atomic", O_ATOMIC, WEFT_WR_FETCH_ADD, 0, WEFT_RDMAP_ATOMIC_RESP, false},
        [FLUSH_P] = {"Flush P", O_FLUSH, WEFT_WR_FLUSH, 1, WEFT_RDMAP_FLUSH_RESP, false},
        [FLUSH_V] = {"Flush V", O_FLUSH, WEFT_WR_FLUSH, 2, WEFT_RDMAP_FLUSH_RESP, false},
        [FLUSH_PV] = {"Flush P, V", O_FLUSH, WEFT_WR_FLUSH, 3, WEFT_RDMAP_FLUSH_RESP, false},
        [FLUSH_R] = {"Flush P, R", O_FLUSH, WEFT_WR_FLUSH, 5, WEFT_RDMAP_FLUSH_RESP, false},
        [VERIFY] = {"Verify", O_VERIFY, WEFT_WR_VERIFY, 0, WEFT_RDMAP_VERIFY_RESP, false},
        [AWRITE] = {"Atomic Write", O_AWRITE, WEFT_WR_ATOMIC_WRITE, 0, WEFT_RDMAP_AWRITE_RESP,
                    false},
};

static struct slow {
	struct vt t;
	unsigned int n; /**< operations without the Flush in front */
	enum kind op[MAXN];
	bool fence[MAXN];
	struct weft_mr *lent[MAXN]; /**< regions that a Send with Invalidate invalidates */
	uint8_t lent_mem[MAXN][8], data[LEN], was[LEN];
	uint64_t orig[MAXN];
	bool running, region_flush, slow_done, seen[MAXN];
	unsigned int receives;
	uint64_t base[WEFT_RDMAP_AWRITE_RESP + 1]; /* responses before the operation began */
	uint64_t step, at[MAXN];                   /* the step in which each was seen to be done */
} s;

static uint64_t
area(unsigned int k)
{
	return AREA * (k + 1);
}

static const uint8_t *
medium(void)
{
	return weft_persist_sim_medium(s.t.n[1].persist);
}

static uint64_t
responses(uint8_t op)
{
	return s.t.n[1].qp->rdmap->op_stats->out[op];
}

/** The number of responses of the operation's kind when its own has left. */
static uint64_t
responses_with(unsigned int k)
{
	uint8_t op = kinds[s.op[k]].answer;
	uint64_t n = s.base[op] + (op == WEFT_RDMAP_FLUSH_RESP);

	for (unsigned int i = 0; i <= k; i++)
		n += kinds[s.op[i]].answer == op;
	return n;
}

static unsigned int
receives_before(unsigned int k)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < k; i++)
		n += kinds[s.op[i]].receive;
	return n;
}

/** Whether the target has carried out operation k, as seen in memory or by a receive, or otherwise
 * by its response. */
static bool
is_done(unsigned int k)
{
	const uint8_t *mem = s.t.n[1].mem + area(k);

	switch (s.op[k]) {
	case SEND:
	case SEND_INV:
	case IMM:
	case WRITE_IMM:
		return s.receives > receives_before(k);
	case WRITE:
		return mem[AREA - 1] == s.data[area(k) + AREA - 1];
	case AWRITE:
	case ATOMIC:
		return memcmp(mem, s.was + area(k), 8) != 0;
	case FLUSH_P:
	case FLUSH_PV:
		/* no octet reaches the medium without a Flush here, and other Flushes flush other
		 * octets */
		if (!s.region_flush)
			return memcmp(medium() + area(k), s.was + area(k), AREA) == 0;
		/* fallthrough */
	default:
		return responses(kinds[s.op[k]].answer) >= responses_with(k);
	}
}

/** Whether operation k must wait for operation i < k, by the table and by what weft guarantees
 * beyond it. */
static bool
must_wait(unsigned int i, unsigned int k)
{
	return s.fence[k] || !order_may_overtake(kinds[s.op[i]].row, kinds[s.op[k]].row);
}

/* Runs after the workers in each round. */
static void
slow_poll(void *arg, uint64_t now_ns)
{
	struct vt_node *b = &s.t.n[1];
	bool done[MAXN];
	struct weft_wc wc;

	(void)arg;
	weft_persist_sim_step(b->persist, now_ns);
	if (!s.running)
		return;
	s.step++;
	while (weft_cq_poll(b->cq, &wc, 1) == 1) {
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, ++s.receives);
	}
	s.slow_done = memcmp(medium(), s.was, AREA) == 0;
	for (unsigned int k = 0; k < s.n; k++) {
		done[k] = is_done(k);
		CHECK_MSG(!s.seen[k] || done[k], "%s was done", kinds[s.op[k]].name);
		if (done[k] && !s.seen[k])
			s.at[k] = s.step;
		s.seen[k] = done[k];
		/* a response never leaves before earlier ones */
		if (kinds[s.op[k]].answer != 0)
			CHECK_MSG(s.slow_done ||
			                  responses(kinds[s.op[k]].answer) < responses_with(k),
			          "%s answered before the Flush", kinds[s.op[k]].name);
		for (unsigned int i = 0; i < k; i++)
			CHECK_MSG(!done[k] || done[i] || !must_wait(i, k),
			          "%s (%u) before %s (%u), seed %" PRIu64, kinds[s.op[k]].name, k,
			          kinds[s.op[i]].name, i, s.t.seed);
	}
}

static uint64_t
slow_next(void *arg)
{
	(void)arg;
	return weft_persist_sim_next_ns(s.t.n[1].persist);
}

static void
slow_open(const struct vt_attr *va, const struct weft_persist_sim_cfg *cfg)
{
	struct weft_persist_attr pa = {
	        .size = sizeof(pa), .driver = "sim", .bytes = LEN, .numa_node = -1};
	struct sim_node sn = {.poll = slow_poll, .next = slow_next, .arg = &s};
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .len_bytes = LEN,
	                          .base_to = BASE,
	                          .access = RIGHTS,
	                          .hash = "crc32c"};
	struct vt_node *b = &s.t.n[1];

	vt_open(&s.t, va);
	CHECK_EQ(weft_persist_open(&pa, &b->persist), 0);
	weft_persist_sim_set(b->persist, cfg);
	b->mem = ma.addr = b->persist->base;
	ma.persist = b->persist;
	CHECK_EQ(weft_mr_reg(b->pd, &ma, &b->mr), 0);
	vt_mem(&s.t.n[0], LEN, WEFT_ACCESS_LOCAL_WRITE);
	sim_add_node(s.t.sim, &sn);
	vt_fill(s.was, LEN, 1);
	memcpy(b->mem, s.was, LEN);
	weft_persist_mark(b->persist, 0, LEN);
	vt_fill(s.data, LEN, 2);
}

static void
slow_post(enum kind k, uint64_t at, uint32_t len, uint64_t id, uint32_t flags)
{
	struct vt_node *a = &s.t.n[0];
	struct weft_sge sg = {.addr = s.data + at, .len_bytes = len};
	struct weft_wr wr = {.wr_id = id,
	                     .opcode = kinds[k].op,
	                     .flags = WEFT_WR_SIGNALED | flags,
	                     .sg_list = &sg,
	                     .num_sge = 1};
	uint32_t stag = weft_mr_stag(s.t.n[1].mr);
	unsigned int which = (unsigned int)id % MAXN;

	switch (k) {
	case SEND:
		break;
	case SEND_INV:
		wr.send.inv_stag = weft_mr_stag(s.lent[which]);
		break;
	case WRITE_IMM:
		wr.write_imm.stag = stag;
		wr.write_imm.to = BASE + at;
		break;
	case ATOMIC:
		sg = (struct weft_sge){&s.orig[which], 8, 0};
		wr.atomic.stag = stag;
		wr.atomic.to = BASE + at;
		wr.atomic.data = 1;
		break;
	case FLUSH_P:
	case FLUSH_V:
	case FLUSH_PV:
	case FLUSH_R:
		wr.num_sge = 0;
		wr.flush.stag = stag;
		wr.flush.to = BASE + at;
		wr.flush.len_bytes = len;
		wr.flush.flags = kinds[k].flags;
		break;
	case VERIFY:
		wr.num_sge = 0;
		wr.verify.stag = stag;
		wr.verify.to = BASE + at;
		wr.verify.len_bytes = len;
		break;
	case IMM:
		wr.num_sge = 0;
		break;
	case AWRITE:
		wr.num_sge = 0;
		wr.atomic_write.stag = stag;
		wr.atomic_write.to = BASE + at;
		memcpy(wr.atomic_write.data, s.data + at, 8);
		break;
	default: /* READ, WRITE */
		if (k == READ) {
			sg.addr = a->mem + at;
			sg.lkey = weft_mr_stag(a->mr);
		}
		wr.rdma.stag = stag;
		wr.rdma.to = BASE + at;
		break;
	}
	vt_post(a, &wr);
}

static bool
all_seen(void *arg)
{
	(void)arg;
	for (unsigned int k = 0; k < s.n; k++)
		if (!s.seen[k])
			return false;
	return true;
}

/** Run the Flush in front, then s.op[0] to s.op[n - 1], until all are complete at both nodes. */
static void
slow_run(const struct sim_link_cfg *link, const struct weft_persist_sim_cfg *cfg, uint64_t seed)
{
	static uint8_t sink[MAXN][AREA];

	slow_open(&(struct vt_attr){.seed = seed, .link = *link}, cfg);
	vt_connect(&s.t, NULL, NULL);
	for (unsigned int k = 0; k < s.n; k++) {
		struct weft_mr_attr ma = {.size = sizeof(ma),
		                          .addr = s.lent_mem[k],
		                          .len_bytes = 8,
		                          .access = WEFT_ACCESS_REMOTE_READ};

		CHECK_EQ(weft_mr_reg(s.t.n[1].pd, &ma, &s.lent[k]), 0);
		vt_post_recv(&s.t.n[1], sink[k], AREA, k + 1);
		s.region_flush |= s.op[k] == FLUSH_R;
	}
	for (uint8_t op = 0; op < RTE_DIM(s.base); op++)
		s.base[op] = responses(op);
	s.running = true;
	slow_post(FLUSH_P, 0, AREA, MAXN, 0);
	for (unsigned int k = 0; k < s.n; k++)
		slow_post(s.op[k], area(k), AREA, k, s.fence[k] ? WEFT_WR_FENCE : 0);
	for (unsigned int k = 0; k <= s.n; k++) {
		struct weft_wc wc = vt_wc(&s.t.n[0]);

		CHECK_EQ(wc.wr_id, k == 0 ? MAXN : k - 1);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
	}
	CHECK_MSG(vt_until(&s.t, 10 * VT_S, all_seen, NULL), "not all is done, seed %" PRIu64,
	          seed);
	s.running = false;
	for (unsigned int k = 0; k < s.n; k++)
		CHECK_EQ(weft_mr_dereg(s.lent[k], NULL, NULL), 0);
	vt_close(&s.t);
}

static void
run_pair(enum kind first, enum kind second, bool fence, const struct sim_link_cfg *link,
         uint64_t seed)
{
	static const struct weft_persist_sim_cfg cfg = {.delay_min_ns = DELAY_NS,
	                                                .delay_max_ns = DELAY_NS};

	memset(&s, 0, sizeof(s));
	s.n = 2;
	s.op[0] = first;
	s.op[1] = second;
	s.fence[1] = fence;
	slow_run(link, &cfg, seed);
	/* the second does not wait: the Flush in front takes many round trips */
	if (!must_wait(0, 1) && link->loss_ppm == 0)
		CHECK_MSG(s.at[1] < s.at[0], "%s waited for %s", kinds[second].name,
		          kinds[first].name);
}

static const struct sim_link_cfg clean = {.delay_ns = 20000};
static const struct sim_link_cfg hostile = {.loss_ppm = 20000,
                                            .reorder_ppm = 50000,
                                            .reorder_ns = 100000,
                                            .dup_ppm = 10000,
                                            .delay_ns = 20000};

/** Every pair, with a fence and without. */
static void
test_every_pair(void)
{
	for (unsigned int i = 0; i < NKINDS * NKINDS * 2; i++)
		run_pair(i / 2 / NKINDS, i / 2 % NKINDS, i % 2, &clean, test_seed(i + 1));
}

/** The same over links that lose, reorder and duplicate packets. An operation that may overtake may
 * also come late. */
static void
test_hostile(void)
{
	for (unsigned int i = 0; i < NKINDS * NKINDS * 2; i++)
		run_pair(i / 2 / NKINDS, i / 2 % NKINDS, i % 2, &hostile, test_seed(1000 + i));
}

/** Ten operations in a row, each compared with each before it, on media of different speeds. */
static void
test_sequences(void)
{
	unsigned int rounds = test_seed_given() ? 1 : 400;

	for (unsigned int r = 0; r < rounds; r++) {
		uint64_t seed = test_seed(5000 + r);
		struct weft_persist_sim_cfg cfg = {.seed = seed};
		uint8_t draw[4 * MAXN];

		memset(&s, 0, sizeof(s));
		vt_fill(draw, sizeof(draw), seed);
		s.n = MAXN;
		for (unsigned int k = 0; k < MAXN; k++) {
			s.op[k] = (enum kind)(draw[2 * k] % NKINDS);
			s.fence[k] = draw[2 * k + 1] % 5 == 0;
		}
		cfg.delay_min_ns = draw[2 * MAXN] % 4 == 0 ? 0 : 1000 * draw[2 * MAXN + 1];
		cfg.delay_max_ns = cfg.delay_min_ns + 2000 * draw[2 * MAXN + 2];
		cfg.busy_ppm = draw[2 * MAXN + 3] % 3 == 0 ? 200000 : 0;
		slow_run(draw[2 * MAXN + 4] % 2 ? &clean : &hostile, &cfg, seed);
	}
}

/* ---- The k-th of several fails ---- */

static void
run_kth(unsigned int n, unsigned int k, uint32_t verify, const struct sim_link_cfg *link,
        uint64_t seed)
{
	unsigned int before = 0;
	struct vt_node *b = &s.t.n[1];

	memset(&s, 0, sizeof(s));
	slow_open(&(struct vt_attr){.seed = seed, .link = *link},
	          &(struct weft_persist_sim_cfg){.delay_min_ns = VT_MS / 10,
	                                         .delay_max_ns = VT_MS / 10});
	vt_connect(&s.t, NULL, NULL);
	for (unsigned int i = 0; i < k; i++)
		before += (verify >> i & 1) == (verify >> k & 1);
	weft_persist_sim_fault(b->persist, verify >> k & 1 ? WEFT_SIM_READ_ERR : WEFT_SIM_FLUSH_ERR,
	                       0, LEN, before);
	for (unsigned int i = 0; i < n; i++) {
		slow_post(verify >> i & 1 ? VERIFY : FLUSH_PV, AREA * (i % 3), AREA, i + 10, 0);
		if (i == k / 2) /* the word is written if no request before it fails */
			slow_post(AWRITE, AREA * 3, 8, 100, 0);
	}
	slow_post(AWRITE, AREA * 3 + 8, 8, 200, 0);
	slow_post(FLUSH_P, AREA * 3, 16, 201, 0);
	for (unsigned int i = 0, word = 0; i < n + 3; i++) {
		struct weft_wc wc = vt_wc(&s.t.n[0]);
		enum weft_wc_status want = WEFT_WC_FLUSHED;

		if (wc.wr_id == 100) {
			word = 1;
			want = k / 2 < k ? WEFT_WC_SUCCESS : WEFT_WC_FLUSHED;
		} else if (wc.wr_id < 100) {
			CHECK_EQ(wc.wr_id, 10 + i - word);
			want = i - word < k    ? WEFT_WC_SUCCESS
			       : i - word == k ? WEFT_WC_REMOTE_OP
			                       : WEFT_WC_FLUSHED;
		}
		CHECK_MSG(wc.status == want, "request %u: %s, n %u, k %u, verify %x, seed %" PRIu64,
		          (unsigned int)wc.wr_id, weft_wc_status_str(wc.status), n, k, verify,
		          seed);
	}
	vt_ev(b, WEFT_EV_BAD_RANGE);
	vt_ev(b, WEFT_EV_TERMINATED);
	vt_run(&s.t, VT_S);
	CHECK_MSG(memcmp(b->mem + AREA * 3 + 8, s.was + AREA * 3 + 8, 8) == 0,
	          "the word was written: n %u, k %u, verify %x, seed %" PRIu64, n, k, verify, seed);
	CHECK_MEM(b->mem + AREA * 3, (k / 2 < k ? s.data : s.was) + AREA * 3, 8);
	vt_close(&s.t);
}

static void
test_kth_fails(void)
{
	for (unsigned int n = 1; n <= 5; n++)
		for (unsigned int k = 0; k < n; k++)
			for (uint32_t verify = 0; verify < 1u << n; verify++)
				run_kth(n, k, verify, verify % 3 ? &clean : &hostile,
				        test_seed(n * 1000 + k * 100 + verify));
}

/* ---- The time of the medium alone ---- */

/**
 * K Flushes are posted 40 us apart, on a medium that takes 100 us for each. With a depth that
 * covers the round trip they take K times 100 us and one round trip. With a depth of one, each
 * takes one round trip more.
 */
static void
test_pipelined(void)
{
	enum { K = 40 };
	static const uint16_t depths[] = {1, 4, 32};
	const uint64_t job_ns = 100000, rtt_ns = 2 * clean.delay_ns;

	for (unsigned int d = 0; d < RTE_DIM(depths); d++)
		for (unsigned int mixed = 0; mixed < 2; mixed++) {
			uint64_t begin, took, want;

			memset(&s, 0, sizeof(s));
			slow_open(&(struct vt_attr){.link = clean},
			          &(struct weft_persist_sim_cfg){.delay_min_ns = job_ns,
			                                         .delay_max_ns = job_ns});
			{
				struct weft_qp_attr qa[2] = {vt_qp_attr(&s.t.n[0]),
				                             vt_qp_attr(&s.t.n[1])};

				qa[0].ord = qa[1].ird = depths[d];
				qa[0].sq_depth = 64;
				vt_connect(&s.t, &qa[0], &qa[1]);
			}
			vt_run(&s.t, VT_MS);
			begin = sim_now_ns(s.t.sim);
			for (unsigned int i = 0; i < K; i++)
				slow_post(mixed && i % 2 ? VERIFY : FLUSH_P, 0, AREA, i, 0);
			for (unsigned int i = 0; i < K; i++)
				CHECK_EQ(vt_wc(&s.t.n[0]).status, WEFT_WC_SUCCESS);
			took = sim_now_ns(s.t.sim) - begin;
			want = K * job_ns + (depths[d] == 1 ? K : 1) * rtt_ns;
			test_note("depth %u%s: %u took %" PRIu64 " us, %" PRIu64 " by the plan",
			          depths[d], mixed ? ", mixed" : "", K, took / 1000, want / 1000);
			/* the medium's clock is that of its last step, so a job may be one way
			 * short */
			CHECK(took >= want - K * clean.delay_ns);
			CHECK_MSG(took <= want + want / 50, "%" PRIu64 " ns, %" PRIu64 " wanted",
			          took, want);
			vt_close(&s.t);
		}
}

WEFT_TEST_MAIN({"every pair", test_every_pair}, {"hostile links", test_hostile},
               {"sequences", test_sequences}, {"the k-th fails", test_kth_fails},
               {"pipelined", test_pipelined})
