/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Both sides get a report (draft-talpey-rdma-commit-02 s1.6, s4.1 case 3): each refusal of a Flush,
 * Verify or Atomic Write between two whole stacks. The initiator's request completes with the
 * error, later requests are flushed, and both sides get an event for the Terminate. A range that
 * failed on the target's medium is reported to the target before that. Memory and medium are
 * unchanged, and the target's other connection goes on. Each refusal is a case.
 */

#include "vt.h"
#include "weft_persist_sim.h"

#define LEN  16384u
#define BASE 0x200000000ULL
#define RIGHTS                                                                                     \
	(WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_FLUSH_PERSISTENT |       \
	 WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY)

enum region {
	ALL,   /**< every right, on a medium */
	WEAK,  /**< only remote read */
	ALIEN, /**< every right, of another domain */
	NOBODY,
	GONE, /**< deregistered before */
	NREGIONS
};

enum trouble {
	NONE,
	FLUSH_ERR, /**< the medium fails to write */
	READ_ERR,
	FLIP,      /**< the content of the medium changes by itself */
	TAKEN_BACK /**< the region is deregistered while the request waits behind a slow Flush */
};

static const struct row {
	const char *name;
	enum weft_wr_opcode op;
	enum region region;
	uint64_t off;
	uint32_t len, flags, hash_bytes;
	enum trouble trouble;
	enum weft_wc_status status;
	struct weft_terminate term;
	int bad_range; /**< status of WEFT_EV_BAD_RANGE; 0: no event */
} rows[] = {
/* clang-format off */
#define P WEFT_FLUSH_PERSISTENT
#define V WEFT_FLUSH_VISIBLE
#define R WEFT_FLUSH_REGION
#define ACC WEFT_WC_REMOTE_ACCESS
#define OP  WEFT_WC_REMOTE_OP
#define MIS WEFT_WC_HASH_MISMATCH
{"Flush, bad STag", WEFT_WR_FLUSH, NOBODY, 0, 8, P, 0, NONE, ACC, {0, 1, 0x00}, 0},
{"Flush, STag of before", WEFT_WR_FLUSH, GONE, 0, 8, P, 0, NONE, ACC, {0, 1, 0x00}, 0},
{"Flush out of bounds", WEFT_WR_FLUSH, ALL, LEN - 7, 8, V, 0, NONE, ACC, {0, 1, 0x01}, 0},
{"Flush without the right", WEFT_WR_FLUSH, WEAK, 0, 8, P, 0, NONE, ACC, {0, 1, 0x02}, 0},
{"Flush of a region without the right", WEFT_WR_FLUSH, WEAK, 0, 0, V | R, 0,
 NONE, ACC, {0, 1, 0x02}, 0},
{"Flush, another domain", WEFT_WR_FLUSH, ALIEN, 0, 8, P | V, 0, NONE, ACC, {0, 1, 0x03}, 0},
{"Flush that wraps", WEFT_WR_FLUSH, ALL, UINT64_MAX - BASE - 3, 8, P, 0,
 NONE, ACC, {0, 1, 0x04}, 0},
{"Flush that fails", WEFT_WR_FLUSH, ALL, 64, 128, P, 0, FLUSH_ERR, OP, {0, 2, 0x0a}, -EIO},
{"Flush of a region that fails", WEFT_WR_FLUSH, ALL, 0, LEN, P | R, 0,
 FLUSH_ERR, OP, {0, 2, 0x0a}, -EIO},
{"Verify, bad STag", WEFT_WR_VERIFY, NOBODY, 0, 8, 0, 0, NONE, ACC, {0, 1, 0x00}, 0},
{"Verify out of bounds", WEFT_WR_VERIFY, ALL, 0, LEN + 1, 0, 0, NONE, ACC, {0, 1, 0x01}, 0},
{"Verify without the right", WEFT_WR_VERIFY, WEAK, 0, 8, 0, 4, NONE, ACC, {0, 1, 0x02}, 0},
{"Verify, another domain", WEFT_WR_VERIFY, ALIEN, 0, 8, 0, 0, NONE, ACC, {0, 1, 0x03}, 0},
{"Verify that wraps", WEFT_WR_VERIFY, ALL, UINT64_MAX - BASE, 2, 0, 0, NONE, ACC, {0, 1, 0x04}, 0},
{"Verify, hash of another length", WEFT_WR_VERIFY, ALL, 0, 8, 0, 8, NONE, OP, {0, 2, 0xff}, 0},
{"Verify that differs", WEFT_WR_VERIFY, ALL, 0, 8, 0, 4, NONE, MIS, {0, 2, 0x0b}, -EBADMSG},
{"Verify of a changed medium", WEFT_WR_VERIFY, ALL, 256, 512, 0, 4,
 FLIP, MIS, {0, 2, 0x0b}, -EBADMSG},
{"Verify of an unreadable medium", WEFT_WR_VERIFY, ALL, 8, 100, 0, 0,
 READ_ERR, OP, {0, 2, 0x0c}, -EIO},
{"Verify whose region goes", WEFT_WR_VERIFY, ALL, 0, 8, 0, 0, TAKEN_BACK, ACC, {0, 1, 0x00}, 0},
{"Atomic Write, bad STag", WEFT_WR_ATOMIC_WRITE, NOBODY, 0, 8, 0, 0, NONE, ACC, {0, 1, 0x00}, 0},
{"Atomic Write out of bounds", WEFT_WR_ATOMIC_WRITE, ALL, LEN, 8, 0, 0, NONE, ACC, {0, 1, 0x01}, 0},
{"Atomic Write without the right", WEFT_WR_ATOMIC_WRITE, WEAK, 0, 8, 0, 0,
 NONE, ACC, {0, 1, 0x02}, 0},
{"Atomic Write, another domain", WEFT_WR_ATOMIC_WRITE, ALIEN, 0, 8, 0, 0,
 NONE, ACC, {0, 1, 0x03}, 0},
{"Atomic Write that wraps", WEFT_WR_ATOMIC_WRITE, ALL, UINT64_MAX - BASE - 3, 8, 0, 0,
 NONE, ACC, {0, 1, 0x04}, 0},
{"Atomic Write not aligned", WEFT_WR_ATOMIC_WRITE, ALL, 4, 8, 0, 0, NONE, OP, {0, 2, 0x07}, 0},
{"Atomic Write whose region goes", WEFT_WR_ATOMIC_WRITE, ALL, 0, 8, 0, 0,
 TAKEN_BACK, ACC, {0, 1, 0x00}, 0},
        /* clang-format on */
};

static struct rig {
	struct vt t;
	struct weft_pd *other;
	struct weft_mr *mr[NREGIONS];
	uint32_t stag[NREGIONS];
	struct weft_qp *second[2];
} rig;

static void
medium_poll(void *arg, uint64_t now_ns)
{
	struct rig *r = arg;

	weft_persist_sim_step(r->t.n[1].persist, now_ns);
}

static uint64_t
medium_next(void *arg)
{
	struct rig *r = arg;

	return weft_persist_sim_next_ns(r->t.n[1].persist);
}

static void
region(enum region k, struct weft_pd *pd, uint32_t access)
{
	struct vt_node *b = &rig.t.n[1];
	struct weft_mr_attr a = {.size = sizeof(a),
	                         .addr = b->mem,
	                         .len_bytes = LEN,
	                         .base_to = BASE,
	                         .access = access,
	                         .persist = b->persist,
	                         .hash = access & WEFT_ACCESS_VERIFY ? "crc32c" : NULL};

	CHECK_EQ(weft_mr_reg(pd, &a, &rig.mr[k]), 0);
	rig.stag[k] = weft_mr_stag(rig.mr[k]);
}

static void
set_up(void)
{
	struct weft_persist_attr pa = {
	        .size = sizeof(pa), .driver = "sim", .bytes = LEN, .numa_node = -1};
	struct sim_node sn = {.poll = medium_poll, .next = medium_next, .arg = &rig};
	struct weft_pd_attr da = {.size = sizeof(da)};
	struct vt_node *b = &rig.t.n[1];

	memset(&rig, 0, sizeof(rig));
	vt_open(&rig.t, &(struct vt_attr){.seed = test_seed(1)});
	CHECK_EQ(weft_persist_open(&pa, &b->persist), 0);
	weft_persist_sim_set(b->persist, &(struct weft_persist_sim_cfg){.delay_min_ns = VT_MS,
	                                                                .delay_max_ns = VT_MS});
	b->mem = b->persist->base;
	CHECK_EQ(weft_pd_alloc_attr(b->ctx, &da, &rig.other), 0);
	region(ALL, b->pd, RIGHTS);
	region(WEAK, b->pd, WEFT_ACCESS_REMOTE_READ);
	region(ALIEN, rig.other, RIGHTS);
	region(GONE, b->pd, RIGHTS);
	CHECK_EQ(weft_mr_dereg(rig.mr[GONE], NULL, NULL), 0);
	rig.mr[GONE] = NULL;
	rig.stag[NOBODY] = 0x12345678;
	sim_add_node(rig.t.sim, &sn);
	vt_connect(&rig.t, NULL, NULL);
	for (unsigned int i = 0; i < 2; i++)
		rig.second[i] = rig.t.n[i].qp;
	vt_connect(&rig.t, NULL, NULL);
}

static void
post(struct weft_qp *qp, uint64_t id, const struct row *r, const uint8_t crc[4])
{
	static const uint8_t none[8];
	struct weft_wr wr = {.wr_id = id, .opcode = r->op, .flags = WEFT_WR_SIGNALED};
	uint32_t stag = rig.stag[r->region];
	uint64_t to = BASE + r->off;

	switch (r->op) {
	case WEFT_WR_FLUSH:
		wr.flush.stag = stag;
		wr.flush.to = to;
		wr.flush.len_bytes = r->len;
		wr.flush.flags = r->flags;
		break;
	case WEFT_WR_VERIFY:
		wr.verify.stag = stag;
		wr.verify.to = to;
		wr.verify.len_bytes = r->len;
		wr.verify.expect = r->hash_bytes == 0 ? NULL : crc != NULL ? crc : none;
		wr.verify.expect_bytes = r->hash_bytes;
		break;
	default:
		wr.atomic_write.stag = stag;
		wr.atomic_write.to = to;
		memcpy(wr.atomic_write.data, "whatever", 8);
		break;
	}
	CHECK_EQ(weft_post_send(qp, &wr, 1), 1);
}

static void
expect_wc(uint64_t id, enum weft_wc_status status)
{
	struct weft_wc wc = vt_wc(&rig.t.n[0]);

	CHECK_EQ(wc.wr_id, id);
	CHECK_MSG(wc.status == status, "completion %u: %s, not %s", (unsigned int)id,
	          weft_wc_status_str(wc.status), weft_wc_status_str(status));
}

static void
expect_ev(unsigned int side, const struct row *r)
{
	struct vt_node *n = &rig.t.n[side];
	struct weft_event ev;

	if (side == 1 && r->bad_range != 0) {
		ev = vt_ev(n, WEFT_EV_BAD_RANGE);
		CHECK_EQ(ev.status, r->bad_range);
		CHECK(ev.qp == n->qp);
		CHECK_EQ(ev.bad_range.stag, rig.stag[ALL]);
		CHECK_EQ(ev.bad_range.to, BASE + r->off);
		CHECK_EQ(ev.bad_range.len_bytes, r->len);
	}
	ev = vt_ev(n, WEFT_EV_TERMINATED);
	CHECK(ev.qp == n->qp);
	CHECK_EQ(ev.term.layer, r->term.layer);
	CHECK_EQ(ev.term.etype, r->term.etype);
	CHECK_EQ(ev.term.code, r->term.code);
	CHECK_EQ(ev.term.ours, side == 1);
	vt_ev(n, WEFT_EV_DISCONNECTED);
}

static void
run_row(void)
{
	static const struct row flush = {"", WEFT_WR_FLUSH, ALL, 0, LEN, P | V, 0, NONE, 0, {0}, 0};
	static const struct row word = {"", WEFT_WR_ATOMIC_WRITE, ALL, 1024, 8, 0, 0, NONE, 0, {0},
	                                0};
	const struct row *r = &rows[test_case_index()];
	struct vt_node *b;
	static uint8_t mem[LEN], medium[LEN];
	uint8_t crc[4];

	set_up();
	b = &rig.t.n[1];
	vt_fill(b->mem, LEN, 7);
	weft_persist_mark(b->persist, 0, LEN);
	post(rig.t.n[0].qp, 1, &flush, NULL);
	expect_wc(1, WEFT_WC_SUCCESS);
	memcpy(mem, b->mem, LEN);
	if (r->trouble == FLIP) {
		vt_crc32c(b->mem + r->off, r->len, crc);
		weft_persist_sim_flip(b->persist, 8 * (r->off + r->len - 1) + 3);
	}
	memcpy(medium, weft_persist_sim_medium(b->persist), LEN);
	if (r->trouble == FLUSH_ERR || r->trouble == READ_ERR)
		weft_persist_sim_fault(b->persist,
		                       r->trouble == FLUSH_ERR ? WEFT_SIM_FLUSH_ERR
		                                               : WEFT_SIM_READ_ERR,
		                       0, LEN, r->trouble == FLUSH_ERR ? 1 : 0);
	/* a Flush that succeeds, the faulty request, and the commit word, which is never written */
	post(rig.t.n[0].qp, 2, &flush, NULL);
	post(rig.t.n[0].qp, 3, r, r->trouble == FLIP ? crc : NULL);
	post(rig.t.n[0].qp, 4, &word, NULL);
	if (r->trouble == TAKEN_BACK) {
		vt_run(&rig.t, VT_MS / 2);
		CHECK_EQ(weft_mr_dereg(rig.mr[ALL], NULL, NULL), 0);
		rig.mr[ALL] = NULL;
	}
	expect_wc(2, WEFT_WC_SUCCESS);
	expect_wc(3, r->status);
	expect_wc(4, WEFT_WC_FLUSHED);
	for (unsigned int side = 0; side < 2; side++)
		expect_ev(side, r);
	vt_run(&rig.t, VT_S);
	CHECK(memcmp(b->mem, mem, LEN) == 0);
	CHECK(memcmp(weft_persist_sim_medium(b->persist), medium, LEN) == 0);
	/* the other client of the same target is not affected */
	if (r->trouble == TAKEN_BACK)
		region(ALL, b->pd, RIGHTS);
	post(rig.second[0], 5, &flush, NULL);
	post(rig.second[0], 6, &word, NULL);
	expect_wc(5, WEFT_WC_SUCCESS);
	expect_wc(6, WEFT_WC_SUCCESS);
	CHECK_MEM(b->mem + 1024, "whatever", 8);
	for (unsigned int i = 0; i < 2; i++)
		weft_qp_destroy(rig.second[i]);
	for (unsigned int i = 0; i < NREGIONS; i++)
		if (rig.mr[i] != NULL)
			CHECK_EQ(weft_mr_dereg(rig.mr[i], NULL, NULL), 0);
	vt_run(&rig.t, VT_S);
	CHECK_EQ(weft_pd_dealloc(rig.other), 0);
	vt_close(&rig.t);
}

int
main(int argc, char **argv)
{
	static struct weft_test_case cases[RTE_DIM(rows)];

	for (unsigned int i = 0; i < RTE_DIM(rows); i++)
		cases[i] = (struct weft_test_case){rows[i].name, run_row};
	return test_main(argc, argv, cases, RTE_DIM(cases));
}
