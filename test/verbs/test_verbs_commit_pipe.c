/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Many outstanding transactions: round trips counted in simulated time, a small ORD, other
 * threads, and ranges that must not be written yet (draft-talpey-rdma-commit-02 s2.2.2).
 */

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "test_xorshift.h"
#include "vt_commit.h"

#define ONE_WAY_NS 1000000ULL
#define RTT_NS     (2 * ONE_WAY_NS)

/* ---- Round trips ---- */

/** Run `total` transactions, n of them outstanding at a time. Returns the time taken. */
static uint64_t
run_units(struct vt *t, unsigned int total, unsigned int n, uint32_t len)
{
	uint64_t begin = sim_now_ns(t->sim);
	unsigned int posted = 0;

	for (unsigned int done = 0; done < total; done++) {
		while (posted < total && posted < done + n) {
			struct ct x;

			ct_make(t, &x, posted++, len);
			CHECK_EQ(weft_commit(t->n[0].qp, &x.c), 0);
		}
		ct_done(t, 100 + done);
	}
	CHECK_EQ(ct_word(t), total);
	return sim_now_ns(t->sim) - begin;
}

static uint64_t
timed(uint16_t ord, unsigned int total, unsigned int n, uint64_t *stalls)
{
	struct vt_attr va = {.link.delay_ns = ONE_WAY_NS};
	struct weft_qp_attr qa = {.ord = ord, .ird = ord};
	struct weft_qp_info info;
	struct vt t;
	uint64_t ns;

	ct_open(&t, &va, &qa);
	ns = run_units(&t, total, n, 100);
	weft_qp_query(t.n[0].qp, &info);
	if (stalls != NULL)
		*stalls = info.ord_stalls;
	vt_close(&t);
	return ns;
}

static void
test_round_trips(void)
{
	uint64_t stalls, one = timed(32, 1, 1, NULL), serial = timed(32, 8, 1, NULL), eight;

	/* one transaction: one round trip for five requests */
	CHECK_MSG(one >= RTT_NS && one < RTT_NS + RTT_NS / 10, "%" PRIu64 " ns", one);
	CHECK_MSG(serial >= 8 * RTT_NS && serial < 9 * RTT_NS, "%" PRIu64 " ns", serial);
	/* eight transactions have 32 requests on queue 1, which is the whole ORD: no request
	 * waits */
	eight = timed(32, 8, 8, &stalls);
	CHECK_EQ(stalls, 0);
	CHECK_MSG(eight < RTT_NS + RTT_NS / 4, "%" PRIu64 " ns", eight);
	/* 200 transactions: each response lets the next one start, so eight complete each round
	 * trip */
	eight = timed(32, 200, 8, &stalls);
	CHECK_EQ(stalls, 0);
	CHECK_MSG(eight < 26 * RTT_NS, "%" PRIu64 " ns", eight);
	test_note("one %" PRIu64 " us, eight one by one %" PRIu64
	          " us, 200 with eight under way %" PRIu64 " us; a round trip %llu us",
	          one / 1000, serial / 1000, eight / 1000, RTT_NS / 1000);
}

/** With an ORD smaller than a transaction, transactions work and take more round trips. */
static void
test_small_ord(void)
{
	for (uint16_t ord = 1; ord <= 6; ord++) {
		uint64_t stalls, ns = timed(ord, 12, 12, &stalls), trips = (12 * 4 + ord - 1) / ord;

		CHECK(stalls > 0);
		CHECK_MSG(ns >= trips * RTT_NS && ns < (trips + 1) * RTT_NS,
		          "ord %u: %" PRIu64 " ns for %" PRIu64 " round trips", ord, ns, trips);
	}
}

/* ---- Ranges with a Verify under way ---- */

static void
wr_verify(struct vt *t, struct weft_wr *wr, uint64_t to, uint32_t len)
{
	*wr = (struct weft_wr){
	        .wr_id = 7,
	        .opcode = WEFT_WR_VERIFY,
	        .flags = WEFT_WR_SIGNALED,
	        .verify = {.stag = weft_mr_stag(t->n[1].mr), .to = to, .len_bytes = len}};
}

/** Transactions that write near slot 0's octets 1000 to 1999 while these are verified. */
static void
check_refused(struct vt *t)
{
	static const struct {
		uint32_t off, len;
		int rc;
	} cases[] = {{0, 1000, 0},      {0, 1001, -EBUSY}, {1000, 1000, -EBUSY}, {1500, 10, -EBUSY},
	             {1999, 1, -EBUSY}, {2000, 10, 0},     {500, 3000, -EBUSY},  {999, 1, 0}};

	for (unsigned int i = 0; i < RTE_DIM(cases); i++) {
		struct ct x;
		struct weft_qp_info was, is;

		ct_make(t, &x, 1, cases[i].len);
		x.r[0].to = CT_TO + cases[i].off;
		/* without a Verify, so that it does not block the next transaction */
		x.r[0].expect = NULL;
		x.r[0].expect_bytes = 0;
		weft_qp_query(t->n[0].qp, &was);
		CHECK_EQ(weft_commit(t->n[0].qp, &x.c), cases[i].rc);
		weft_qp_query(t->n[0].qp, &is);
		CHECK_EQ(is.sq_used - was.sq_used, cases[i].rc == 0 ? 4 : 0);
	}
}

static void
drain(struct vt *t, unsigned int n)
{
	while (n-- > 0)
		CHECK_EQ(vt_wc(&t->n[0]).status, WEFT_WC_SUCCESS);
	ct_silence(t);
}

static void
test_busy(void)
{
	struct weft_wr wr;
	struct vt t;
	struct ct x, y;

	ct_open(&t, NULL, NULL);
	/* the Verify of a transaction */
	ct_make(&t, &x, 0, 1000);
	x.r[0].to += 1000;
	CHECK_EQ(weft_commit(t.n[0].qp, &x.c), 0);
	check_refused(&t);
	/* two of three ranges are free: none is written */
	ct_make(&t, &y, 3, 100);
	y.r[2] = y.r[1] = y.r[0];
	y.r[1].to += 200;
	y.r[2].to = CT_TO + 1100;
	y.c.num_ranges = 3;
	CHECK_EQ(weft_commit(t.n[0].qp, &y.c), -EBUSY);
	/* A range that is being verified may be verified again, and its word may change: the Atomic
	 * Write waits for the Verify (s2.3.2). */
	ct_make(&t, &y, 0, 1000);
	y.r[0].to += 1000;
	y.r[0].num_sge = 0;
	y.r[0].len_bytes = 1000;
	y.c.word.to = CT_TO + 1000;
	y.c.word.data[0] = t.n[0].mem[0]; /* the same octets, as the next Verify expects */
	memcpy(y.c.word.data, t.n[0].mem, 8);
	CHECK_EQ(weft_commit(t.n[0].qp, &y.c), 0);
	CHECK_EQ(weft_commit(t.n[0].qp, &y.c), 0);
	drain(&t, 6);
	/* all Verifies are complete */
	CHECK_EQ(weft_commit(t.n[0].qp, &x.c), 0);
	drain(&t, 1);
	/* the Verify of weft_post_send(), signaled or not */
	wr_verify(&t, &wr, CT_TO + 1000, 1000);
	vt_post(&t.n[0], &wr);
	check_refused(&t);
	drain(&t, 4);
	wr.flags = 0;
	vt_post(&t.n[0], &wr);
	check_refused(&t);
	drain(&t, 3);
	CHECK_EQ(weft_commit(t.n[0].qp, &x.c), 0);
	drain(&t, 1);
	/* Another STag counts as another range: this node cannot tell. */
	vt_post(&t.n[0], &wr);
	x.r[0].stag ^= 0x100;
	CHECK_EQ(weft_commit(t.n[0].qp, &x.c), 0);
	CHECK_EQ(vt_wc(&t.n[0]).opcode, WEFT_WC_VERIFY);
	CHECK_EQ(vt_wc(&t.n[0]).status, WEFT_WC_REMOTE_ACCESS);
	vt_close(&t);
}

/** A hundred outstanding Verifies: each blocks its range, and none does once it is complete. */
static void
test_busy_many(void)
{
	struct vt t;
	struct ct x;

	ct_open(&t, NULL, NULL);
	for (unsigned int round = 0; round < 3; round++) {
		struct weft_wr wr;

		for (unsigned int i = 0; i < 100; i++) {
			wr_verify(&t, &wr, CT_TO + i * 100, 50);
			wr.flags = i == 99 ? WEFT_WR_SIGNALED : 0;
			vt_post(&t.n[0], &wr);
		}
		for (unsigned int i = 0; i < 100; i++) {
			ct_make(&t, &x, 1, 1);
			x.r[0].to = CT_TO + i * 100 + 49;
			CHECK_EQ(weft_commit(t.n[0].qp, &x.c), -EBUSY);
			if (i % 10 != 0)
				continue;
			x.r[0].to++;
			CHECK_EQ(weft_commit(t.n[0].qp, &x.c), 0);
		}
		drain(&t, 11);
		for (unsigned int i = 0; i < 10; i++) {
			ct_make(&t, &x, 1, 100);
			x.r[0].to = CT_TO + i * 1000;
			CHECK_EQ(weft_commit(t.n[0].qp, &x.c), 0);
		}
		drain(&t, 10);
	}
	vt_close(&t);
}

/* ---- Another thread ---- */

static unsigned int failed; /* on another thread a check must not end the case */

#define EXPECT(cond) failed += !(cond)

static void
foreign_units(void *arg)
{
	struct vt *t = arg;
	struct weft_sge sg[32];
	struct ct x;

	for (unsigned int i = 0; i < 2; i++) {
		ct_make(t, &x, i, 2000);
		EXPECT(weft_commit(t->n[0].qp, &x.c) == 0);
	}
	/* refused on this thread as on the worker */
	EXPECT(weft_commit(t->n[0].qp, &x.c) == -EBUSY);
	x.r[0].to += 2000;
	x.r[0].flags = WEFT_COMMIT_INLINE;
	EXPECT(weft_commit(t->n[0].qp, &x.c) == -EINVAL);
	ct_make(t, &x, 2, 32 * 50);
	for (unsigned int i = 0; i < 32; i++)
		sg[i] = (struct weft_sge){.addr = t->n[0].mem + 2 * CT_SLOT + i * 50,
		                          .len_bytes = 50};
	x.r[0].sg_list = sg;
	x.r[0].num_sge = 32;
	EXPECT(weft_commit(t->n[0].qp, &x.c) == 0);
	ct_make(t, &x, 3, 1000);
	x.r[0].flags = WEFT_COMMIT_INLINE;
	EXPECT(weft_commit(t->n[0].qp, &x.c) == 0);
	memset(x.sg[0].addr, 0xee, 1000);
	memset(sg, 0xee, sizeof(sg));
	memset(&x, 0xee, sizeof(x));
	ct_make(t, &x, 5, 10);
	EXPECT(weft_commit(t->n[0].qp, &x.c) == -EAGAIN);
	x.c.num_ranges = 0;
	EXPECT(weft_commit(t->n[0].qp, &x.c) == 0);
}

static void
test_elsewhere(void)
{
	struct weft_qp_attr qa = {.sq_depth = 22, .max_send_sge = 32, .max_inline_bytes = 1024};
	struct vt t;
	struct ct x;

	failed = 0;
	ct_open(&t, NULL, &qa);
	for (unsigned int round = 0; round < 30; round++) {
		uint8_t inl[1000];

		memset(t.n[1].mem, 0, 4 * CT_SLOT);
		vt_elsewhere(foreign_units, &t);
		CHECK_EQ(failed, 0);
		ct_make(&t, &x, 3, 1000);
		memcpy(inl, x.sg[0].addr, 1000);
		/* requests in the ring count for the worker, although it has not taken them yet */
		ct_make(&t, &x, 1, 100);
		x.c.flags = WEFT_COMMIT_NO_WORD | WEFT_COMMIT_NO_FLUSH;
		x.r[0].expect = NULL;
		x.r[0].expect_bytes = 0;
		CHECK_EQ(weft_commit(t.n[0].qp, &x.c), -EAGAIN);
		for (unsigned int i = 0; i < 4; i++)
			ct_done(&t, 100 + i);
		ct_done(&t, 105);
		CHECK_MEM(t.n[1].mem + 2 * CT_SLOT, t.n[0].mem + 2 * CT_SLOT, 1600);
		CHECK_MEM(t.n[1].mem + 3 * CT_SLOT, inl, 1000);
		CHECK_EQ(ct_word(&t), 6);
	}
	ct_silence(&t);
	vt_close(&t);
}

static void
foreign_one(void *arg)
{
	struct vt *t = arg;
	struct ct x;

	ct_make(t, &x, 0, 2000);
	EXPECT(weft_commit(t->n[0].qp, &x.c) == 0);
}

static void
foreign_verify(void *arg)
{
	struct vt *t = arg;
	struct weft_wr wr;

	wr_verify(t, &wr, CT_TO, 100);
	EXPECT(weft_post_send(t->n[0].qp, &wr, 1) == 1);
}

static void
foreign_busy(void *arg)
{
	struct vt *t = arg;
	struct ct x;

	ct_make(t, &x, 0, 2000);
	EXPECT(weft_commit(t->n[0].qp, &x.c) == -EBUSY);
}

static void
foreign_write(void *arg)
{
	struct vt *t = arg;
	struct ct x;

	ct_make(t, &x, 1, 2000);
	x.r[0].to = CT_TO;
	x.r[0].expect = NULL;
	x.r[0].expect_bytes = 0;
	EXPECT(weft_commit(t->n[0].qp, &x.c) == 0);
}

/** One thread verifies and another one writes, in both roles. */
static void
test_busy_elsewhere(void)
{
	struct weft_wr wr;
	struct vt t;
	struct ct x;

	failed = 0;
	ct_open(&t, NULL, NULL);
	ct_make(&t, &x, 0, 2000);
	vt_elsewhere(foreign_one, &t);
	CHECK_EQ(weft_commit(t.n[0].qp, &x.c), -EBUSY);
	vt_elsewhere(foreign_busy, &t);
	drain(&t, 1);
	vt_elsewhere(foreign_verify, &t);
	CHECK_EQ(weft_commit(t.n[0].qp, &x.c), -EBUSY);
	vt_elsewhere(foreign_busy, &t);
	drain(&t, 1);
	CHECK_EQ(weft_commit(t.n[0].qp, &x.c), 0);
	vt_elsewhere(foreign_busy, &t);
	drain(&t, 1);
	wr_verify(&t, &wr, CT_TO, 100);
	vt_post(&t.n[0], &wr);
	vt_elsewhere(foreign_busy, &t);
	drain(&t, 1);
	vt_elsewhere(foreign_one, &t);
	drain(&t, 1);
	/* A request posted on another thread earlier is written earlier, whether or not the worker
	 * has taken it from the ring. */
	ct_make(&t, &x, 0, 2000);
	vt_elsewhere(foreign_write, &t);
	CHECK_EQ(weft_commit(t.n[0].qp, &x.c), 0);
	drain(&t, 2);
	CHECK_MEM(t.n[1].mem, t.n[0].mem, 2000);
	CHECK_EQ(failed, 0);
	vt_close(&t);
}

/* ---- Threads that race ---- */

#define RACERS 3
#define ROUNDS 1500
#define BUFS   4

struct racer {
	struct vt *t;
	unsigned int id;
	uint32_t busy[BUFS]; /* atomic: this buffer belongs to a posted transaction */
	uint64_t refused, full, taken;
	uint64_t rng;
};

static uint32_t
racer_draw(struct racer *r, uint32_t n)
{
	return (uint32_t)(test_xorshift(&r->rng) >> 20) % n;
}

/**
 * Post one transaction into ranges that the other threads write and verify, too. If it were posted
 * while another thread's Verify of these ranges is outstanding, that Verify would find a wrong
 * hash.
 */
static bool
racer_step(struct racer *r, unsigned int b)
{
	uint8_t *src = r->t->n[0].mem + (r->id * BUFS + b) * CT_SLOT / 2, expect[4];
	uint32_t len = 1 + racer_draw(r, 600), kind = racer_draw(r, 8);
	struct weft_sge sg = {.addr = src, .len_bytes = len};
	struct weft_commit_range g = {.sg_list = &sg,
	                              .num_sge = 1,
	                              .stag = weft_mr_stag(r->t->n[1].mr),
	                              .to = CT_TO + racer_draw(r, 1200)};
	struct weft_commit c = {.wr_id = (uint64_t)r->id << 32 | b,
	                        .flags = kind < 4 ? WEFT_COMMIT_NO_WORD | WEFT_COMMIT_NO_FLUSH : 0,
	                        .flush_flags = WEFT_FLUSH_VISIBLE,
	                        .ranges = &g,
	                        .num_ranges = 1,
	                        .word = {.stag = g.stag, .to = CT_TO + CT_WORD}};
	int rc;

	for (uint32_t i = 0; i < len; i++)
		src[i] = (uint8_t)racer_draw(r, 256);
	if (kind % 4 != 0) { /* otherwise it only writes */
		if (weft_commit_hash("crc32c", NULL, 0, &sg, 1, expect, 4) != 4)
			return false;
		g.expect = expect;
		g.expect_bytes = 4;
	}
	__atomic_store_n(&r->busy[b], 1, __ATOMIC_RELAXED);
	rc = weft_commit(r->t->n[0].qp, &c);
	if (rc < 0)
		__atomic_store_n(&r->busy[b], 0, __ATOMIC_RELAXED);
	r->refused += rc == -EBUSY;
	r->full += rc == -EAGAIN;
	__atomic_fetch_add(&r->taken, rc == 0, __ATOMIC_RELAXED);
	return rc == 0 || rc == -EBUSY || rc == -EAGAIN;
}

static void
racer_some(struct racer *r)
{
	for (unsigned int b = 0; b < BUFS; b++)
		if (__atomic_load_n(&r->busy[b], __ATOMIC_ACQUIRE) == 0 && !racer_step(r, b))
			__atomic_fetch_add(&failed, 1, __ATOMIC_RELAXED);
}

static void *
racer_main(void *arg)
{
	struct racer *r = arg;

	while (r->taken < ROUNDS && __atomic_load_n(&failed, __ATOMIC_RELAXED) == 0) {
		racer_some(r);
		sched_yield();
	}
	return NULL;
}

static void
test_race(void)
{
	static struct racer r[RACERS + 1];
	struct weft_qp_attr qa = {.sq_depth = 40};
	uint64_t wcs = 0, taken = 0, refused = 0, full = 0;
	pthread_t th[RACERS];
	unsigned int idle = 0;
	struct vt t;

	failed = 0;
	ct_open(&t, NULL, &qa);
	memset(r, 0, sizeof(r));
	for (unsigned int i = 0; i <= RACERS; i++) {
		r[i].t = &t;
		r[i].id = i;
		r[i].rng = t.seed * 77 + i + 1;
	}
	for (unsigned int i = 0; i < RACERS; i++)
		CHECK_EQ(pthread_create(&th[i], NULL, racer_main, &r[i]), 0);
	/* this thread is the worker and posts as well */
	while (idle < 50 && failed == 0) {
		struct weft_wc wc;

		vt_run(&t, 30000);
		if (r[RACERS].taken < ROUNDS)
			racer_some(&r[RACERS]);
		idle++;
		while (weft_cq_poll(t.n[0].cq, &wc, 1) == 1) {
			idle = 0;
			wcs++;
			if (wc.status != WEFT_WC_SUCCESS)
				failed++;
			__atomic_store_n(&r[wc.wr_id >> 32].busy[wc.wr_id & 0xff], 0,
			                 __ATOMIC_RELEASE);
		}
		for (unsigned int i = 0; i <= RACERS; i++)
			if (__atomic_load_n(&r[i].taken, __ATOMIC_RELAXED) < ROUNDS)
				idle = 0;
	}
	for (unsigned int i = 0; i < RACERS; i++)
		pthread_join(th[i], NULL);
	CHECK_EQ(failed, 0);
	for (unsigned int i = 0; i <= RACERS; i++) {
		taken += r[i].taken;
		refused += r[i].refused;
		full += r[i].full;
	}
	CHECK_EQ(wcs, taken);
	CHECK(refused > 0);
	test_note("%" PRIu64 " units taken, %" PRIu64 " refused for a range, %" PRIu64
	          " for want of room",
	          taken, refused, full);
	vt_close(&t);
}

WEFT_TEST_MAIN({"round trips", test_round_trips}, {"small ORD", test_small_ord},
               {"Verify under way", test_busy}, {"many Verifies under way", test_busy_many},
               {"another thread", test_elsewhere},
               {"Verify under way, another thread", test_busy_elsewhere},
               {"threads that race", test_race})
