/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Transactions that fail: one completion names the failed step, the commit word is unchanged,
 * and later requests are flushed (draft-talpey-rdma-commit-02 s2.3.2, s4.2; RFC 5040 s6.2, s7).
 */

#include <pthread.h>

#include "weft_verbs_qp.h"
#include "weft_ddp.h"
#include "vt_commit.h"
#include "weft_persist_sim.h"

#define UNITS  4 /* outstanding transactions; the second or third fails */
#define RIGHTS (CT_RIGHTS | WEFT_ACCESS_FLUSH_PERSISTENT) /* of a region on the medium "sim" */

/** Regions of the target, all on one medium that can fail. */
struct fail_rig {
	struct vt t;
	struct weft_persist *p;
	struct weft_mr *mr, *no_write, *no_flush, *no_verify, *ro;
};

static struct weft_mr *
reg(struct fail_rig *r, uint32_t access)
{
	struct weft_mr_attr a = {.size = sizeof(a),
	                         .addr = r->p->base,
	                         .len_bytes = CT_LEN,
	                         .base_to = CT_TO,
	                         .access = access,
	                         .persist = r->p,
	                         .hash = access & WEFT_ACCESS_VERIFY ? "crc32c" : NULL};
	struct weft_mr *mr;

	CHECK_EQ(weft_mr_reg(r->t.n[1].pd, &a, &mr), 0);
	return mr;
}

static void
rig_open(struct fail_rig *r, const struct vt_attr *va, const struct weft_qp_attr *qa)
{
	struct weft_persist_attr pa = {
	        .size = sizeof(pa), .driver = "sim", .bytes = CT_LEN, .numa_node = -1};
	struct weft_qp_attr a;

	memset(r, 0, sizeof(*r));
	vt_open(&r->t, va);
	a = vt_qp_attr(&r->t.n[0]);
	if (qa != NULL) {
		a.ord = qa->ord;
		a.sq_depth = qa->sq_depth;
		a.max_inline_bytes = qa->max_inline_bytes;
	}
	CHECK_EQ(weft_persist_open(&pa, &r->p), 0);
	vt_mem(&r->t.n[0], CT_LEN, WEFT_ACCESS_LOCAL_WRITE);
	r->mr = reg(r, RIGHTS);
	r->no_write = reg(r, RIGHTS & ~(uint32_t)WEFT_ACCESS_REMOTE_WRITE);
	r->no_flush = reg(r, CT_RIGHTS);
	r->no_verify = reg(r, RIGHTS & ~(uint32_t)WEFT_ACCESS_VERIFY);
	r->t.n[1].mr = r->mr;
	r->t.n[1].mem = r->p->base;
	r->t.n[1].persist = r->p;
	vt_connect(&r->t, &a, NULL);
}

static void
rig_close(struct fail_rig *r)
{
	weft_mr_dereg(r->no_write, NULL, NULL);
	weft_mr_dereg(r->no_flush, NULL, NULL);
	weft_mr_dereg(r->no_verify, NULL, NULL);
	vt_close(&r->t);
}

/** A transaction of two ranges, so that the second can fail. */
static void
make_two(struct fail_rig *r, struct ct *x, unsigned int i, uint32_t len)
{
	struct ct y;

	ct_make(&r->t, x, i, len);
	x->c.flush_flags = WEFT_FLUSH_PERSISTENT;
	ct_make(&r->t, &y, i + UNITS, len);
	x->sg[1] = y.sg[0];
	memcpy(x->expect[1], y.expect[0], 4);
	x->r[1] = y.r[0];
	x->r[1].sg_list = &x->sg[1];
	x->r[1].expect = x->expect[1];
	x->c.num_ranges = 2;
}

/* ---- Each failure ---- */

static void
bad_stag(struct fail_rig *r, struct ct *x)
{
	(void)r;
	x->r[1].stag ^= 0x5500;
}

static void
bad_bounds(struct fail_rig *r, struct ct *x)
{
	(void)r;
	x->r[1].to = CT_TO + CT_LEN - 10;
}

static void
no_write(struct fail_rig *r, struct ct *x)
{
	x->r[1].stag = weft_mr_stag(r->no_write);
}

static void
no_flush(struct fail_rig *r, struct ct *x)
{
	x->r[1].stag = weft_mr_stag(r->no_flush);
}

static void
no_verify(struct fail_rig *r, struct ct *x)
{
	x->r[1].stag = weft_mr_stag(r->no_verify);
}

/** The transaction writes nothing to the bad STag: the Flush is the first request that is
 * refused. */
static void
flush_stag(struct fail_rig *r, struct ct *x)
{
	(void)r;
	x->r[1].stag ^= 0x5500;
	x->r[1].num_sge = 0;
	x->r[1].len_bytes = 100;
}

static void
mismatch(struct fail_rig *r, struct ct *x)
{
	(void)r;
	x->expect[1][0] ^= 1;
}

static void
hash_length(struct fail_rig *r, struct ct *x)
{
	(void)r;
	x->r[1].expect_bytes = 3;
}

static void
word_stag(struct fail_rig *r, struct ct *x)
{
	(void)r;
	x->c.word.stag ^= 0x5500;
}

static void
word_bounds(struct fail_rig *r, struct ct *x)
{
	(void)r;
	x->c.word.to = CT_TO + CT_LEN;
}

static void
word_no_write(struct fail_rig *r, struct ct *x)
{
	x->c.word.stag = weft_mr_stag(r->no_write);
}

static void
word_misaligned(struct fail_rig *r, struct ct *x)
{
	(void)r;
	x->c.word.to += 4;
}

static void
word_no_flush(struct fail_rig *r, struct ct *x)
{
	x->c.word.stag = weft_mr_stag(r->no_flush);
}

static void
flush_fails(struct fail_rig *r, struct ct *x)
{
	weft_persist_sim_fault(r->p, WEFT_SIM_FLUSH_ERR, x->r[1].to - CT_TO, 100, 0);
}

static void
read_fails(struct fail_rig *r, struct ct *x)
{
	weft_persist_sim_fault(r->p, WEFT_SIM_READ_ERR, x->r[1].to - CT_TO, 100, 0);
}

static void
bit_flips(struct fail_rig *r, struct ct *x)
{
	weft_persist_sim_fault(r->p, WEFT_SIM_FLIP, x->r[1].to - CT_TO, 100, 0);
}

static void
word_flush_fails(struct fail_rig *r, struct ct *x)
{
	/* the Flushes of the words of earlier transactions succeed */
	weft_persist_sim_fault(r->p, WEFT_SIM_FLUSH_ERR, CT_WORD, 8,
	                       (unsigned int)x->c.wr_id - 100);
}

struct failure {
	const char *what;
	void (*make)(struct fail_rig *r, struct ct *x);
	enum weft_wc_status status;
	enum weft_commit_step step;
	uint32_t range;
	uint8_t layer, etype, code; /* of the Terminate */
};

#define ACC WEFT_WC_REMOTE_ACCESS
#define OP  WEFT_WC_REMOTE_OP
#define MIS WEFT_WC_HASH_MISMATCH

static const struct failure failures[] = {
        {"bad STag", bad_stag, ACC, WEFT_COMMIT_STEP_WRITE, 1, 1, 1, 0x00},
        {"bounds", bad_bounds, ACC, WEFT_COMMIT_STEP_WRITE, 1, 1, 1, 0x01},
        {"no right to write", no_write, ACC, WEFT_COMMIT_STEP_WRITE, 1, 0, 1, 0x02},
        {"no right to flush", no_flush, ACC, WEFT_COMMIT_STEP_FLUSH, 1, 0, 1, 0x02},
        {"bad STag of a Flush", flush_stag, ACC, WEFT_COMMIT_STEP_FLUSH, 1, 0, 1, 0x00},
        {"no right to verify", no_verify, ACC, WEFT_COMMIT_STEP_VERIFY, 1, 0, 1, 0x02},
        {"hash mismatch", mismatch, MIS, WEFT_COMMIT_STEP_VERIFY, 1, 0, 2, 0x0b},
        {"bit error", bit_flips, MIS, WEFT_COMMIT_STEP_VERIFY, 1, 0, 2, 0x0b},
        {"hash length", hash_length, OP, WEFT_COMMIT_STEP_VERIFY, 1, 0, 2, 0xff},
        {"Flush fails", flush_fails, OP, WEFT_COMMIT_STEP_FLUSH, 1, 0, 2, 0x0a},
        {"read-back fails", read_fails, OP, WEFT_COMMIT_STEP_VERIFY, 1, 0, 2, 0x0c},
        {"bad STag of the word", word_stag, ACC, WEFT_COMMIT_STEP_WORD, 0, 0, 1, 0x00},
        {"word out of bounds", word_bounds, ACC, WEFT_COMMIT_STEP_WORD, 0, 0, 1, 0x01},
        {"word not writable", word_no_write, ACC, WEFT_COMMIT_STEP_WORD, 0, 0, 1, 0x02},
        {"word misaligned", word_misaligned, OP, WEFT_COMMIT_STEP_WORD, 0, 0, 2, 0x07},
        {"word not flushable", word_no_flush, ACC, WEFT_COMMIT_STEP_WORD_FLUSH, 0, 0, 1, 0x02},
        {"Flush of the word fails", word_flush_fails, OP, WEFT_COMMIT_STEP_WORD_FLUSH, 0, 0, 2,
         0x0a},
};

static void *
post_elsewhere(void *arg)
{
	struct vt *t = ((void **)arg)[0];

	return (void *)(intptr_t)weft_commit(t->n[0].qp, ((void **)arg)[1]);
}

static int
commit_from(struct vt *t, bool foreign, struct ct *x)
{
	void *arg[2] = {t, &x->c}, *rc;
	pthread_t th;

	if (!foreign)
		return weft_commit(t->n[0].qp, &x->c);
	CHECK_EQ(pthread_create(&th, NULL, post_elsewhere, arg), 0);
	pthread_join(th, &rc);
	return (int)(intptr_t)rc;
}

/** Run UNITS transactions of which number `bad` fails. */
static void
run_failure(const struct failure *f, unsigned int bad, bool foreign, uint64_t seed)
{
	struct weft_persist_sim_cfg cfg = {.seed = seed};
	struct vt_attr va = {.seed = seed};
	struct fail_rig r;
	struct ct x[UNITS];
	bool behind = false;

	test_seed_note(seed);
	rig_open(&r, &va, NULL);
	weft_persist_sim_set(r.p, &cfg);
	for (unsigned int i = 0; i < UNITS; i++) {
		make_two(&r, &x[i], i, 100 + (uint32_t)seed % 7 * 1000);
		if (i == bad)
			f->make(&r, &x[i]);
		CHECK_EQ(commit_from(&r.t, foreign, &x[i]), 0);
	}
	for (unsigned int i = 0; i < UNITS; i++) {
		struct weft_wc wc = vt_wc(&r.t.n[0]);

		CHECK_EQ(wc.opcode, WEFT_WC_COMMIT);
		CHECK_EQ(wc.wr_id, 100 + i);
		/* a refused Write ends the stream at once, so earlier transactions may be
		 * flushed */
		if (i < bad && !(f->step == WEFT_COMMIT_STEP_WRITE && wc.status == WEFT_WC_FLUSHED))
			CHECK_MSG(wc.status == WEFT_WC_SUCCESS, "%s: unit %u of %u: %s", f->what, i,
			          bad, weft_wc_status_str(wc.status));
		else if (i == bad) {
			CHECK_MSG(wc.status == f->status && wc.commit.step == f->step &&
			                  wc.commit.range == f->range,
			          "%s: %s at %s of range %u", f->what,
			          weft_wc_status_str(wc.status),
			          weft_commit_step_str(wc.commit.step), wc.commit.range);
			behind = true;
		} else if (behind) {
			CHECK_EQ(wc.status, WEFT_WC_FLUSHED);
		}
	}
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_event ev;

		if (i == 1 && f->code >= 0x0a && f->code <= 0x0c)
			vt_ev(&r.t.n[1], WEFT_EV_BAD_RANGE);
		ev = vt_ev(&r.t.n[i], WEFT_EV_TERMINATED);
		CHECK_EQ(ev.term.layer, f->layer);
		CHECK_EQ(ev.term.etype, f->etype);
		CHECK_EQ(ev.term.code, f->code);
		CHECK_EQ(ev.term.ours, i == 1);
	}
	ct_silence(&r.t);
	/* the words of the failed transaction and of later ones were never written */
	if (f->step == WEFT_COMMIT_STEP_WRITE)
		CHECK(ct_word(&r.t) <= bad);
	else
		CHECK_EQ(ct_word(&r.t), bad + (f->step == WEFT_COMMIT_STEP_WORD_FLUSH));
	rig_close(&r);
}

static void
test_failures(void)
{
	for (unsigned int i = 0; i < RTE_DIM(failures); i++)
		for (unsigned int k = 0; k < 8; k++)
			run_failure(&failures[i], k % UNITS, k >= UNITS, 1 + i * 8 + k);
	test_note("%u failures, at each of %u units, posted on the worker and elsewhere",
	          (unsigned int)RTE_DIM(failures), UNITS);
}

/** A Write of many segments is refused while its last segments are still being sent. */
static void
test_long_write(void)
{
	struct vt_attr va = {.link = {.rate_bps = 100000000, .delay_ns = 20000}};
	struct weft_wc wc;
	struct fail_rig r;
	struct ct x;

	rig_open(&r, &va, NULL);
	ct_make(&r.t, &x, 0, 600000);
	x.r[0].to = CT_TO + CT_LEN - 20000;
	CHECK_EQ(weft_commit(r.t.n[0].qp, &x.c), 0);
	wc = vt_wc(&r.t.n[0]);
	CHECK_EQ(wc.status, WEFT_WC_REMOTE_ACCESS);
	CHECK_EQ(wc.commit.step, WEFT_COMMIT_STEP_WRITE);
	CHECK_EQ(wc.commit.range, 0);
	ct_silence(&r.t);
	rig_close(&r);
}

/** Two transactions write the same octets. The Terminate does not tell which of the two was
 * refused. */
static void
test_same_octets(void)
{
	struct fail_rig r;
	struct ct x;

	for (unsigned int same = 0; same < 2; same++) {
		rig_open(&r, NULL, NULL);
		for (unsigned int i = 0; i < 2; i++) {
			struct weft_wc wc;

			ct_make(&r.t, &x, i, 100);
			x.r[0].stag = weft_mr_stag(r.no_write);
			x.r[0].to = CT_TO + (same ? 0 : i * 100);
			x.r[0].expect = NULL;
			x.r[0].expect_bytes = 0;
			CHECK_EQ(weft_commit(r.t.n[0].qp, &x.c), 0);
			if (i == 0)
				continue;
			wc = vt_wc(&r.t.n[0]);
			CHECK_EQ(wc.wr_id, 100);
			CHECK_EQ(wc.status, same ? WEFT_WC_FLUSHED : WEFT_WC_REMOTE_ACCESS);
			CHECK_EQ(wc.commit.step,
			         same ? WEFT_COMMIT_STEP_FLUSH : WEFT_COMMIT_STEP_WRITE);
			CHECK_EQ(vt_wc(&r.t.n[0]).status, WEFT_WC_FLUSHED);
		}
		CHECK_EQ(ct_word(&r.t), 0);
		ct_silence(&r.t);
		rig_close(&r);
	}
}

/** A bad lkey. On the worker the call refuses it. From another thread the completion reports it
 * (RFC 5040 s7.1 case 1). */
static void
test_lkey(void)
{
	struct weft_wc wc;
	struct fail_rig r;
	struct ct x;

	rig_open(&r, NULL, NULL);
	make_two(&r, &x, 0, 100);
	x.sg[1].lkey = 0x1234;
	CHECK_EQ(commit_from(&r.t, false, &x), -EINVAL);
	ct_silence(&r.t);
	CHECK_EQ(commit_from(&r.t, true, &x), 0);
	wc = vt_wc(&r.t.n[0]);
	CHECK_EQ(wc.status, WEFT_WC_LOCAL_PROT);
	CHECK_EQ(wc.opcode, WEFT_WC_COMMIT);
	CHECK_EQ(wc.commit.step, WEFT_COMMIT_STEP_WRITE);
	CHECK_EQ(wc.commit.range, 1);
	CHECK_EQ(ct_word(&r.t), 0);
	ct_silence(&r.t);
	rig_close(&r);
	/* valid lkeys */
	rig_open(&r, NULL, NULL);
	make_two(&r, &x, 0, 100);
	x.sg[0].lkey = x.sg[1].lkey = weft_mr_stag(r.t.n[0].mr);
	CHECK_EQ(commit_from(&r.t, false, &x), 0);
	ct_done(&r.t, 100);
	CHECK_EQ(commit_from(&r.t, true, &x), 0);
	ct_done(&r.t, 100);
	rig_close(&r);
}

/** A peer answers a Verify with a wrong hash and goes on, which breaks s2.2.2. The transaction
 * fails at the initiator. */
static void
test_wrong_answer(void)
{
	struct weft_ddp_hdr h = {
	        .last = true, .version = 1, .rsvdulp = 0x40 | WEFT_RDMAP_VERIFY_RESP, .qn = 3};
	struct weft_wc wc;
	struct fail_rig r;
	struct weft_ddp *d;
	struct ct x;
	uint8_t *p;

	rig_open(&r, NULL, NULL);
	d = weft_rdmap_ddp(r.t.n[1].qp->rdmap);
	ct_make(&r.t, &x, 0, 100);
	x.c.flush_flags = WEFT_FLUSH_PERSISTENT;
	CHECK_EQ(weft_commit(r.t.n[0].qp, &x.c), 0);
	ct_done(&r.t, 100);
	x.r[0].num_sge = 0;
	x.r[0].len_bytes = 100;
	x.c.flags = WEFT_COMMIT_NO_FLUSH | WEFT_COMMIT_NO_WORD;
	CHECK_EQ(weft_commit(r.t.n[0].qp, &x.c), 0);
	/* sends the request before the response arrives */
	weft_engine_poll_at(r.t.n[0].w, sim_now_ns(r.t.sim));
	p = weft_ddp_tx_begin(d, &h, 4, sim_now_ns(r.t.sim));
	CHECK(p != NULL);
	memset(p, 0x77, 4);
	weft_ddp_tx_end(d, sim_now_ns(r.t.sim));
	weft_ddp_tx_flush(d, sim_now_ns(r.t.sim));
	wc = vt_wc(&r.t.n[0]);
	CHECK_EQ(wc.status, WEFT_WC_HASH_MISMATCH);
	CHECK_EQ(wc.commit.step, WEFT_COMMIT_STEP_VERIFY);
	/* a wrong response does not end the stream, and the range is free again */
	ct_make(&r.t, &x, 0, 100);
	CHECK_EQ(weft_commit(r.t.n[0].qp, &x.c), 0);
	CHECK_EQ(vt_wc(&r.t.n[0]).opcode, WEFT_WC_COMMIT);
	ct_silence(&r.t);
	rig_close(&r);
}

/* ---- The stream is lost at every step ---- */

enum way { LINK_DOWN, PEER_GONE, OURS_GONE, DISCONNECTED, NWAYS };

struct lost {
	struct fail_rig r;
	unsigned int events, cut_at;
};

static void
count_events(void *arg, unsigned int from_end, enum sim_event what, const uint8_t *frame,
             uint32_t len_bytes, uint64_t now_ns)
{
	struct lost *l = arg;

	(void)from_end;
	(void)frame;
	(void)len_bytes;
	(void)now_ns;
	l->events += what == SIM_DELIVERED;
}

static bool
is_time(void *arg)
{
	struct lost *l = arg;

	return l->events >= l->cut_at;
}

/** Post three transactions, one of them from another thread. The stream ends after cut_at packets.
 * Returns false if they completed before. */
static bool
run_lost(enum way way, unsigned int cut_at, uint16_t ord)
{
	static const struct sim_link_cfg down = {.delay_ns = 20000, .down = true};
	struct weft_conn_attr ca = {.size = sizeof(ca), .keepalive_us = 1000000};
	struct weft_qp_attr qa = {.ord = ord};
	struct weft_cq *cq;
	unsigned int n = 0, flushed = 0;
	struct weft_wc wc;
	struct lost l = {.cut_at = cut_at};
	bool cut;

	(void)ca;
	rig_open(&l.r, NULL, &qa);
	cq = l.r.t.n[0].cq;
	sim_link_watch(l.r.t.link, count_events, &l);
	for (unsigned int i = 0; i < 3; i++) {
		struct ct x;

		make_two(&l.r, &x, i, 3000);
		CHECK_EQ(commit_from(&l.r.t, i == 1, &x), 0);
	}
	cut = vt_until(&l.r.t, 50 * VT_MS, is_time, &l);
	switch (way) {
	case LINK_DOWN:
		for (unsigned int i = 0; i < 2; i++)
			sim_link_set(l.r.t.link, i, &down);
		vt_run(&l.r.t, VT_MS);
		weft_rdmap_abort(l.r.t.n[0].qp->rdmap, sim_now_ns(l.r.t.sim));
		break;
	case PEER_GONE:
		weft_qp_destroy(l.r.t.n[1].qp);
		l.r.t.n[1].qp = NULL;
		break;
	case OURS_GONE:
		weft_qp_destroy(l.r.t.n[0].qp);
		l.r.t.n[0].qp = NULL;
		break;
	case DISCONNECTED:
	case NWAYS:
		weft_disconnect(l.r.t.n[1].qp);
		break;
	}
	vt_run(&l.r.t, VT_S);
	while (weft_cq_poll(cq, &wc, 1) == 1) {
		CHECK_EQ(wc.opcode, WEFT_WC_COMMIT);
		CHECK_EQ(wc.wr_id, 100 + n);
		CHECK_MSG(wc.status == WEFT_WC_SUCCESS ? flushed == 0
		                                       : wc.status == WEFT_WC_FLUSHED,
		          "cut at %u: unit %u: %s", cut_at, n, weft_wc_status_str(wc.status));
		flushed += wc.status == WEFT_WC_FLUSHED;
		n++;
	}
	CHECK_MSG(n == 3, "way %d, cut at %u: %u of 3 completions", (int)way, cut_at, n);
	CHECK(ct_word(&l.r.t) >= 3 - flushed);
	if (way == LINK_DOWN) {
		static const struct sim_link_cfg up = {.delay_ns = 20000};

		for (unsigned int i = 0; i < 2; i++)
			sim_link_set(l.r.t.link, i, &up);
	}
	rig_close(&l.r);
	return cut && flushed > 0;
}

static void
test_lost(void)
{
	unsigned int steps = 0;

	for (unsigned int way = 0; way < NWAYS; way++)
		for (unsigned int ord = 2; ord <= 32; ord *= 4) {
			unsigned int at = 0;

			while (run_lost((enum way)way, at, (uint16_t)ord))
				at++;
			CHECK(at > 5);
			steps += at;
		}
	test_note("%u steps at which the stream was lost", steps);
}

WEFT_TEST_MAIN({"each failure", test_failures}, {"long Write", test_long_write},
               {"same octets", test_same_octets}, {"lkey", test_lkey},
               {"wrong answer", test_wrong_answer}, {"stream lost at every step", test_lost})
