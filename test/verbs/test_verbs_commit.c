/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Transactions in one call (draft-talpey-rdma-commit-02 s2): which messages are sent in which
 * order, when a transaction completes, and which transactions are refused.
 */

#include "vt_commit.h"
#include "vt_wire.h"

/** Entries of node 0's send queue in use. */
static uint32_t
sq_used(struct vt *t)
{
	struct weft_qp_info info;

	weft_qp_query(t->n[0].qp, &info);
	return info.sq_used;
}

static void
commit_ok(struct vt *t, const struct ct *x)
{
	CHECK_EQ(weft_commit(t->n[0].qp, &x->c), 0);
}

static void
test_one(void)
{
	struct vt t;
	struct ct x;

	ct_open(&t, NULL, NULL);
	ct_make(&t, &x, 0, 5000);
	CHECK_EQ(weft_commit_places(&x.c), 5);
	commit_ok(&t, &x);
	CHECK_EQ(sq_used(&t), 5);
	ct_done(&t, 100);
	CHECK_MEM(t.n[1].mem, t.n[0].mem, 5000);
	CHECK_EQ(ct_word(&t), 1);
	CHECK_EQ(sq_used(&t), 0);
	ct_silence(&t);
	vt_close(&t);
}

/* ---- Order on the wire (s2.2.2, s2.3.2) ---- */

/** Make a transaction of n ranges of one region, 3000 octets each. */
static void
make_ranges(struct vt *t, struct ct *x, unsigned int n)
{
	struct ct one;

	ct_make(t, x, 0, 3000);
	for (unsigned int i = 1; i < n; i++) {
		ct_make(t, &one, i, 3000);
		x->sg[i] = one.sg[0];
		memcpy(x->expect[i], one.expect[0], 4);
		x->r[i] = one.r[0];
		x->r[i].sg_list = &x->sg[i];
		x->r[i].expect = x->expect[i];
	}
	x->c.num_ranges = n;
}

struct shape {
	const char *want; /* letters: W, F, V, A */
	unsigned int ranges;
	uint32_t flags, flush_flags;
	bool no_verify, written_before;
};

static const struct shape shapes[] = {
        {"WFVAF", 1, 0, WEFT_FLUSH_VISIBLE, false, false},
        {"WWWFFFVVVAF", 3, 0, WEFT_FLUSH_VISIBLE, false, false},
        {"WWWFVVVAF", 3, 0, WEFT_FLUSH_VISIBLE | WEFT_FLUSH_REGION, false, false},
        {"WWFFAF", 2, 0, WEFT_FLUSH_VISIBLE, true, false},
        {"WVA", 1, WEFT_COMMIT_NO_FLUSH, 0, false, false},
        {"WA", 1, WEFT_COMMIT_NO_FLUSH, 0, true, false},
        {"WFV", 1, WEFT_COMMIT_NO_WORD, WEFT_FLUSH_VISIBLE, false, false},
        {"WW", 2, WEFT_COMMIT_NO_WORD | WEFT_COMMIT_NO_FLUSH, 0, true, false},
        {"FVAF", 1, 0, WEFT_FLUSH_VISIBLE, false, true},
        {"FFVVAF", 2, 0, WEFT_FLUSH_VISIBLE, false, true},
        {"VA", 1, WEFT_COMMIT_NO_FLUSH, 0, false, true},
        {"AF", 0, 0, WEFT_FLUSH_VISIBLE, false, false},
        {"A", 0, WEFT_COMMIT_NO_FLUSH, 0, false, false},
};

static void
run_shape(struct vt *t, struct wire *w, const struct shape *s)
{
	struct ct x;

	make_ranges(t, &x, s->ranges);
	x.c.flags = s->flags;
	x.c.flush_flags = s->flush_flags;
	for (unsigned int i = 0; i < s->ranges; i++) {
		if (s->no_verify) {
			x.r[i].expect = NULL;
			x.r[i].expect_bytes = 0;
		}
		if (s->written_before) {
			memcpy(t->n[1].mem + i * CT_SLOT, x.sg[i].addr, 3000);
			x.r[i].len_bytes = 3000;
			x.r[i].num_sge = 0;
		}
	}
	CHECK_EQ(weft_commit_places(&x.c), strlen(s->want));
	w->n = 0;
	memset(t->n[1].mem + CT_WORD, 0, 8);
	commit_ok(t, &x);
	ct_done(t, 100);
	ct_silence(t);
	CHECK_EQ(w->n, strlen(s->want));
	for (unsigned int i = 0; i < w->n; i++) {
		static const char letters[32] = {[WEFT_RDMAP_WRITE] = 'W',
		                                 [WEFT_RDMAP_FLUSH_REQ] = 'F',
		                                 [WEFT_RDMAP_VERIFY_REQ] = 'V',
		                                 [WEFT_RDMAP_AWRITE_REQ] = 'A'};

		CHECK_MSG(letters[w->op[i]] == s->want[i], "%s: message %u is opcode 0x%x", s->want,
		          i, w->op[i]);
	}
	CHECK_EQ(ct_word(t), (s->flags & WEFT_COMMIT_NO_WORD) == 0);
}

static void
test_order(void)
{
	static struct wire w;
	struct vt t;

	memset(&w, 0, sizeof(w));
	vt_open(&t, NULL);
	sim_link_tap(t.link, wire_tap, &w);
	vt_mem(&t.n[0], CT_LEN, WEFT_ACCESS_LOCAL_WRITE);
	vt_mem(&t.n[1], CT_LEN, CT_RIGHTS);
	vt_connect(&t, NULL, NULL);
	for (unsigned int i = 0; i < RTE_DIM(shapes); i++)
		run_shape(&t, &w, &shapes[i]);
	vt_close(&t);
}

/** Flags of 0 mean a persistent Flush. A volatile region lacks the right for it. */
static void
test_flush_flags(void)
{
	struct vt t;
	struct ct x;

	ct_open(&t, NULL, NULL);
	ct_make(&t, &x, 0, 100);
	x.c.flush_flags = 0;
	commit_ok(&t, &x);
	CHECK_EQ(vt_wc(&t.n[0]).status, WEFT_WC_REMOTE_ACCESS);
	vt_close(&t);
}

/* ---- One completion, in the order of the posts ---- */

static void
test_among_others(void)
{
	struct weft_qp_attr qa = {.all_signaled = true};
	struct weft_sge sg;
	struct weft_wr wr = {.opcode = WEFT_WR_WRITE, .sg_list = &sg, .num_sge = 1};
	struct vt t;
	struct ct x[3];

	for (unsigned int all = 0; all < 2; all++) {
		qa.all_signaled = all;
		ct_open(&t, NULL, &qa);
		sg = (struct weft_sge){.addr = t.n[0].mem, .len_bytes = 64};
		wr.rdma.stag = weft_mr_stag(t.n[1].mr);
		wr.rdma.to = CT_TO + 13 * CT_SLOT;
		wr.flags = WEFT_WR_SIGNALED;
		for (unsigned int i = 0; i < 3; i++) {
			ct_make(&t, &x[i], i, 700);
			commit_ok(&t, &x[i]);
			wr.wr_id = i;
			vt_post(&t.n[0], &wr);
		}
		for (unsigned int i = 0; i < 3; i++) {
			struct weft_wc wc;

			ct_done(&t, 100 + i);
			wc = vt_wc(&t.n[0]);
			CHECK_EQ(wc.opcode, WEFT_WC_WRITE);
			CHECK_EQ(wc.wr_id, i);
		}
		ct_silence(&t);
		CHECK_EQ(ct_word(&t), 3);
		vt_close(&t);
	}
}

struct chain {
	struct vt t;
	struct ct x;
	unsigned int done;
};

static void
chain_on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	struct chain *c = user;

	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		CHECK_EQ(wc[i].status, WEFT_WC_SUCCESS);
		CHECK_EQ(wc[i].wr_id, 100 + c->done);
		if (++c->done == 200)
			return;
		/* with the completion, the range and the entries of the send queue are free
		 * again */
		ct_make(&c->t, &c->x, c->done, 300);
		c->x.r[0].to = CT_TO;
		CHECK_EQ(weft_commit(wc[i].qp, &c->x.c), 0);
	}
}

static bool
chain_over(void *arg)
{
	return ((struct chain *)arg)->done == 200;
}

static void
test_from_callback(void)
{
	static struct chain c;
	struct weft_cq_attr qa = {.size = sizeof(qa), .depth = 8, .on_wc = chain_on_wc, .user = &c};
	struct weft_qp_attr a = {.sq_depth = 5};
	struct vt_attr va = {.cq = &qa};

	memset(&c, 0, sizeof(c));
	ct_open(&c.t, &va, &a);
	ct_make(&c.t, &c.x, 0, 300);
	commit_ok(&c.t, &c.x);
	CHECK(vt_until(&c.t, 10 * VT_S, chain_over, &c));
	CHECK_EQ(ct_word(&c.t), 200);
	vt_close(&c.t);
}

/** A fence holds back the whole transaction. */
static void
test_fence(void)
{
	static struct wire w;
	struct weft_sge sg;
	struct weft_wr wr = {.opcode = WEFT_WR_READ, .flags = WEFT_WR_SIGNALED, .sg_list = &sg};
	struct vt t;
	struct ct x;

	memset(&w, 0, sizeof(w));
	ct_open(&t, NULL, NULL);
	ct_make(&t, &x, 0, 3000);
	memset(t.n[1].mem, 0x11, 3000);
	sg = (struct weft_sge){t.n[0].mem + 5 * CT_SLOT, 3000, weft_mr_stag(t.n[0].mr)};
	wr.num_sge = 1;
	wr.rdma.stag = weft_mr_stag(t.n[1].mr);
	wr.rdma.to = CT_TO;
	x.c.flags = WEFT_COMMIT_FENCE;
	vt_post(&t.n[0], &wr);
	commit_ok(&t, &x);
	CHECK_EQ(vt_wc(&t.n[0]).opcode, WEFT_WC_READ);
	/* the transaction did not begin before the Read */
	CHECK_EQ(t.n[1].mem[0], 0x11);
	for (unsigned int i = 0; i < 3000; i++)
		CHECK_EQ(t.n[0].mem[5 * CT_SLOT + i], 0x11);
	ct_done(&t, 100);
	CHECK_MEM(t.n[1].mem, t.n[0].mem, 3000);
	vt_close(&t);
}

/* ---- Payloads ---- */

static void
test_inline(void)
{
	struct weft_qp_attr qa = {.max_inline_bytes = 512};
	struct vt t;
	struct ct x;

	ct_open(&t, NULL, &qa);
	for (unsigned int i = 0; i < 8; i++) {
		uint8_t copy[512];

		ct_make(&t, &x, i, 512);
		x.r[0].flags = WEFT_COMMIT_INLINE;
		memcpy(copy, x.sg[0].addr, 512);
		commit_ok(&t, &x);
		/* weft_commit() has returned: the memory may be changed */
		memset(x.sg[0].addr, 0xee, 512);
		memset(&x, 0xee, sizeof(x)); /* so may all its arguments */
		ct_done(&t, 100 + i);
		CHECK_MEM(t.n[1].mem + i * CT_SLOT, copy, 512);
	}
	ct_make(&t, &x, 0, 513);
	x.r[0].flags = WEFT_COMMIT_INLINE;
	CHECK_EQ(weft_commit(t.n[0].qp, &x.c), -EINVAL);
	CHECK_EQ(sq_used(&t), 0);
	vt_close(&t);
}

static void
test_pieces(void)
{
	struct weft_qp_attr qa = {.max_send_sge = 32};
	struct weft_sge sg[33];
	uint8_t whole[33 * 111];
	struct vt t;
	struct ct x;

	ct_open(&t, NULL, &qa);
	ct_make(&t, &x, 0, 40000);
	for (uint32_t i = 0; i < 33; i++) {
		/* from the end to the front, with gaps */
		sg[i] = (struct weft_sge){.addr = t.n[0].mem + 39000 - i * 1000, .len_bytes = 111};
		memcpy(whole + i * 111, sg[i].addr, 111);
	}
	for (uint32_t n = 1; n <= 32; n++) {
		CHECK_EQ(weft_commit_hash("crc32c", NULL, 0, sg, n, x.expect[0], 4), 4);
		x.r[0].sg_list = sg;
		x.r[0].num_sge = n;
		commit_ok(&t, &x);
		ct_done(&t, 100);
		CHECK_MEM(t.n[1].mem, whole, (size_t)n * 111);
	}
	x.r[0].num_sge = 33;
	CHECK_EQ(weft_commit(t.n[0].qp, &x.c), -EINVAL);
	CHECK_EQ(sq_used(&t), 0);
	vt_close(&t);
}

/** A range may be longer than its written part. The whole range is flushed and verified. */
static void
test_longer_than_written(void)
{
	struct weft_sge sg;
	struct weft_wr wr = {.opcode = WEFT_WR_WRITE, .sg_list = &sg, .num_sge = 1};
	struct vt t;
	struct ct x;

	ct_open(&t, NULL, NULL);
	ct_make(&t, &x, 0, 9000);
	sg = (struct weft_sge){.addr = t.n[0].mem + 1000, .len_bytes = 8000};
	wr.rdma.stag = weft_mr_stag(t.n[1].mr);
	wr.rdma.to = CT_TO + 1000;
	vt_post(&t.n[0], &wr);
	x.sg[0].len_bytes = 1000;
	x.r[0].len_bytes = 9000;
	commit_ok(&t, &x);
	ct_done(&t, 100);
	CHECK_MEM(t.n[1].mem, t.n[0].mem, 9000);
	x.r[0].len_bytes = 999;
	CHECK_EQ(weft_commit(t.n[0].qp, &x.c), -EINVAL);
	vt_close(&t);
}

static void
test_hash(void)
{
	static const struct weft_sge none[1];
	uint8_t a[64], b[64], key[32] = {1, 2, 3}, data[1000];
	struct weft_sge sg[3] = {{data, 1, 0}, {data + 1, 0, 0}, {data + 1, 999, 0}};
	const struct weft_hash_ops *h;

	vt_fill(data, sizeof(data), 1);
	for (unsigned int i = 0; (h = weft_hash_get(i)) != NULL; i++) {
		const uint8_t *k = h->key_max_bytes > 0 ? key : NULL;
		uint32_t kn = k != NULL ? sizeof(key) : 0;

		CHECK_EQ(weft_hash_once_keyed(h, k, kn, data, sizeof(data), a), 0);
		CHECK_EQ(weft_commit_hash(h->name, k, kn, sg, 3, b, sizeof(b)), h->result_bytes);
		CHECK_MEM(a, b, h->result_bytes);
		CHECK_EQ(weft_commit_hash(h->name, k, kn, sg, 3, b, h->result_bytes - 1), -ENOSPC);
		CHECK_EQ(weft_commit_hash(h->name, k != NULL ? NULL : key, k != NULL ? 0 : 1, sg, 3,
		                          b, sizeof(b)),
		         -EINVAL);
	}
	CHECK_EQ(weft_commit_hash("no such", NULL, 0, sg, 3, b, sizeof(b)), -ENOENT);
	CHECK_EQ(weft_commit_hash("crc32c", NULL, 0, none, 1, b, sizeof(b)), 4);
	sg[1].addr = NULL;
	sg[1].len_bytes = 1;
	CHECK_EQ(weft_commit_hash("crc32c", NULL, 0, sg, 3, b, sizeof(b)), -EINVAL);
}

/* ---- Refused transactions ---- */

static void
test_malformed(void)
{
	struct weft_qp_attr qa = {.max_send_sge = 2};
	struct weft_commit_range many[WEFT_COMMIT_MAX_RANGES + 1];
	struct weft_sge sg[3];
	struct vt t;
	struct ct x, good;

	ct_open(&t, NULL, &qa);
	ct_make(&t, &good, 0, 100);
	for (unsigned int i = 0; i < RTE_DIM(many); i++) {
		many[i] = good.r[0];
		many[i].to += 100 * i;
	}
	sg[0] = sg[1] = sg[2] = good.sg[0];
#define BAD(...)                                                                                   \
	do {                                                                                       \
		ct_make(&t, &x, 0, 100);                                                           \
		__VA_ARGS__;                                                                       \
		CHECK_EQ(weft_commit(t.n[0].qp, &x.c), -EINVAL);                                   \
	} while (0)
	BAD(x.c.flags = 0x8);
	BAD(x.c.flush_flags = 0x10);
	/* at least one disposition must be set (s2.1.1) */
	BAD(x.c.flush_flags = WEFT_FLUSH_REGION);
	BAD(x.c.ranges = NULL);
	BAD(x.c.ranges = many; x.c.num_ranges = RTE_DIM(many));
	BAD(x.c.num_ranges = 0; x.c.flags = WEFT_COMMIT_NO_WORD);
	BAD(x.r[0].flags = 0x2);
	BAD(x.r[0].sg_list = NULL);
	BAD(x.r[0].num_sge = 0);    /* no octets */
	BAD(x.sg[0].len_bytes = 0); /* no octets */
	BAD(x.r[0].len_bytes = 99);
	BAD(x.r[0].expect = NULL);
	BAD(x.r[0].expect_bytes = 0);
	BAD(x.r[0].expect_bytes = WEFT_HASH_MAX_BYTES + 1);
	BAD(x.sg[0].addr = NULL);
	BAD(x.sg[0].lkey = 0xdead);
	BAD(x.r[0].sg_list = sg; x.r[0].num_sge = 3);
	BAD(x.r[0].sg_list = sg; x.r[0].num_sge = 2;
	    sg[0].len_bytes = sg[1].len_bytes = UINT32_MAX);
	/* an error in the second of two ranges: the first is not posted, either */
	BAD(x.r[1] = x.r[0]; x.r[1].to += 100; x.r[1].num_sge = 3; x.r[1].sg_list = sg;
	    x.c.num_ranges = 2);
	BAD(x.r[1] = x.r[0]; x.r[1].to += 100; sg[0] = x.sg[0]; sg[0].lkey = 1; x.r[1].sg_list = sg;
	    x.c.num_ranges = 2);
	CHECK_EQ(sq_used(&t), 0);
	ct_silence(&t);
	CHECK_EQ(ct_word(&t), 0);
	/* a refused transaction leaves nothing behind: the range is free */
	commit_ok(&t, &good);
	ct_done(&t, 100);
	/* with the greatest number of ranges */
	good.c.ranges = many;
	good.c.num_ranges = WEFT_COMMIT_MAX_RANGES;
	commit_ok(&t, &good);
	ct_done(&t, 100);
	vt_close(&t);
}

static void
test_full(void)
{
	struct weft_qp_attr qa = {.sq_depth = 13};
	struct weft_qp_attr idle = {0};
	struct weft_qp *qp;
	struct vt t;
	struct ct x;

	ct_open(&t, NULL, &qa);
	for (unsigned int round = 0; round < 20; round++) {
		for (unsigned int i = 0; i < 2; i++) {
			ct_make(&t, &x, i, 100);
			commit_ok(&t, &x);
		}
		ct_make(&t, &x, 2, 100);
		CHECK_EQ(weft_commit(t.n[0].qp, &x.c), -EAGAIN);
		CHECK_EQ(sq_used(&t), 10);
		/* a smaller transaction fits into the remaining entries */
		x.r[0].expect = NULL;
		x.r[0].expect_bytes = 0;
		x.c.flags = WEFT_COMMIT_NO_FLUSH;
		commit_ok(&t, &x);
		CHECK_EQ(sq_used(&t), 12);
		for (unsigned int i = 0; i < 3; i++)
			ct_done(&t, 100 + i);
		CHECK_EQ(sq_used(&t), 0);
	}
	make_ranges(&t, &x, 4);
	CHECK_EQ(weft_commit_places(&x.c), 14);
	CHECK_EQ(weft_commit(t.n[0].qp, &x.c), -EMSGSIZE);
	/* a QP that is not connected, and a QP that is disconnected */
	idle = vt_qp_attr(&t.n[0]);
	CHECK_EQ(weft_qp_create(t.n[0].pd, &idle, &qp), 0);
	ct_make(&t, &x, 0, 100);
	CHECK_EQ(weft_commit(qp, &x.c), -ENOTCONN);
	weft_qp_destroy(qp);
	weft_qp_destroy(t.n[1].qp);
	t.n[1].qp = NULL;
	vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
	commit_ok(&t, &x);
	{
		struct weft_wc wc = vt_wc(&t.n[0]);

		CHECK_EQ(wc.status, WEFT_WC_FLUSHED);
		CHECK_EQ(wc.opcode, WEFT_WC_COMMIT);
		CHECK_EQ(wc.commit.step, WEFT_COMMIT_STEP_WRITE);
	}
	ct_silence(&t);
	vt_close(&t);
}

/** After some seconds without requests the memory of the send queue is allocated anew. The
 * transaction wraps around the end of the queue. */
static void
test_after_rest(void)
{
	struct weft_qp_attr qa = {.sq_depth = 8};
	struct vt t;
	struct ct x;

	ct_open(&t, NULL, &qa);
	for (unsigned int i = 0; i < 6; i++) {
		ct_make(&t, &x, i, 2000);
		commit_ok(&t, &x);
		ct_done(&t, 100 + i);
		vt_run(&t, 5 * VT_S);
	}
	CHECK_EQ(ct_word(&t), 6);
	vt_close(&t);
}

/* ---- Hostile links ---- */

static void
test_lossy(void)
{
	uint64_t first = test_seed(1), n = test_seed_given() ? 1 : 12;

	for (uint64_t seed = first; seed < first + n; seed++) {
		struct vt_attr va = {.seed = seed,
		                     .link = {.loss_ppm = 20000,
		                              .dup_ppm = 5000,
		                              .reorder_ppm = 20000,
		                              .reorder_ns = 300000,
		                              .corrupt_ppm = 2000}};
		unsigned int posted = 0, done = 0;
		struct vt t;

		test_seed_note(seed);
		ct_open(&t, &va, NULL);
		while (done < 60) {
			struct ct x;

			/* a slot may be used again when its transaction is complete */
			while (posted < 60 && posted < done + 12) {
				ct_make(&t, &x, posted,
				        1 + (uint32_t)(seed * 977 + posted * 7919) % 9000);
				commit_ok(&t, &x);
				posted++;
			}
			ct_done(&t, 100 + done);
			CHECK(ct_word(&t) >= done + 1);
			done++;
		}
		for (unsigned int i = 48; i < 60; i++)
			CHECK_EQ(t.n[1].mem[i % 12 * CT_SLOT], t.n[0].mem[i % 12 * CT_SLOT]);
		ct_silence(&t);
		vt_close(&t);
	}
}

WEFT_TEST_MAIN({"one", test_one}, {"order on the wire", test_order},
               {"flush flags", test_flush_flags}, {"among other requests", test_among_others},
               {"from a callback", test_from_callback}, {"fence", test_fence},
               {"inline", test_inline}, {"pieces", test_pieces},
               {"longer than written", test_longer_than_written}, {"hash", test_hash},
               {"malformed", test_malformed}, {"full queue", test_full},
               {"after a rest", test_after_rest}, {"hostile link", test_lossy})
