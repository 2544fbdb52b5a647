/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Revocation of a region (draft-talpey-rdma-commit-02 s6; weft/revoke.h): what the consumer is
 * told, how peers' requests fare before, at and after it, and what a revocation does not affect.
 */

#include "rdmap_irq.h"
#include "weft_verbs_qp.h"
#include "vt_fast.h"

#define LEN     65536
#define HALF    32768
#define BASE_TO 0x700000000ull
#define ALL                                                                                        \
	(RW | WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY |         \
	 WEFT_ACCESS_MW_BIND)
#define REMOTE (ALL & ~(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_MW_BIND))

static _Alignas(4096) uint8_t memory[8 << 20];

/* ---- The consumer ---- */

struct consumer {
	unsigned int n;
	struct weft_revoke r[8];
	void (*act)(struct consumer *c, const struct weft_revoke *r);
	bool freed;
	struct vt *t;
	uint64_t at_ns[8];
};

static void
on_revoke(void *user, const struct weft_revoke *r)
{
	struct consumer *c = user;

	CHECK(c->n < RTE_DIM(c->r));
	c->at_ns[c->n] = sim_now_ns(c->t->sim);
	c->r[c->n++] = *r;
	if (c->act != NULL)
		c->act(c, r);
}

static void
on_freed(void *arg)
{
	((struct consumer *)arg)->freed = true;
}

static struct weft_revoke_attr
attr_of(struct consumer *c, uint32_t access, uint64_t len, uint64_t deadline_us)
{
	return (struct weft_revoke_attr){.size = sizeof(struct weft_revoke_attr),
	                                 .access = access,
	                                 .len_bytes = len,
	                                 .deadline_us = deadline_us,
	                                 .on_revoke = on_revoke,
	                                 .user = c};
}

static int
revoke_region(struct consumer *c, struct weft_mr *mr, uint32_t access, uint64_t len,
              uint64_t deadline_us)
{
	struct weft_revoke_attr a = attr_of(c, access, len, deadline_us);

	return weft_mr_revoke(mr, &a);
}

static struct weft_mr *
reg(struct vt *t, uint64_t len, uint32_t access)
{
	const struct weft_mr_attr a = {
	        .size = sizeof(a),
	        .addr = memory,
	        .len_bytes = len,
	        .base_to = BASE_TO,
	        .access = access,
	        .hash = "crc32c",
	};
	struct weft_mr *mr;

	CHECK_EQ(weft_mr_reg(t->n[1].pd, &a, &mr), 0);
	return mr;
}

/* ---- Requests of peers ---- */

enum op { OP_WRITE, OP_READ, OP_ATOMIC, OP_AWRITE, OP_FLUSH, OP_VERIFY, NOPS };

static const uint32_t right[NOPS] = {
        [OP_WRITE] = WEFT_ACCESS_REMOTE_WRITE,   [OP_READ] = WEFT_ACCESS_REMOTE_READ,
        [OP_ATOMIC] = WEFT_ACCESS_REMOTE_ATOMIC, [OP_AWRITE] = WEFT_ACCESS_REMOTE_WRITE,
        [OP_FLUSH] = WEFT_ACCESS_FLUSH_VISIBLE,  [OP_VERIFY] = WEFT_ACCESS_VERIFY,
};

/** Post an operation on eight octets of node 0's region. */
static void
ask(struct vt *t, struct weft_qp *qp, enum op op, uint32_t stag, uint64_t to)
{
	struct weft_sge sg = {
	        .addr = t->n[0].mem, .len_bytes = 8, .lkey = weft_mr_stag(t->n[0].mr)};
	struct weft_wr wr = {.flags = WEFT_WR_SIGNALED};

	switch (op) {
	case OP_WRITE:
		wr = wr_rdma(WEFT_WR_WRITE, &sg, stag, to);
		break;
	case OP_READ:
		wr = wr_rdma(WEFT_WR_READ, &sg, stag, to);
		break;
	case OP_ATOMIC:
		wr = wr_fetch_add(stag, to);
		break;
	case OP_AWRITE:
		wr = wr_atomic_write(stag, to, 0x5a);
		break;
	case OP_FLUSH:
		wr = wr_flush(stag, to, 8, WEFT_FLUSH_VISIBLE);
		break;
	default:
		wr = wr_verify(stag, to, 8, NULL, 0, NULL);
		break;
	}
	CHECK_EQ(weft_post_send(qp, &wr, 1), 1);
}

/** The operation succeeds. As a Write completes when it is sent, a Read behind it proves it. */
static void
want_good(struct vt *t, struct weft_qp *qp, enum op op, uint32_t stag, uint64_t to)
{
	ask(t, qp, op, stag, to);
	CHECK_EQ(vt_wc(&t->n[0]).status, WEFT_WC_SUCCESS);
	vt_run(t, VT_MS);
	CHECK_EQ(weft_evq_poll(t->n[0].evq, &(struct weft_event){0}), 0);
}

static uint64_t
refused(struct vt *t)
{
	struct weft_worker_stats st;

	weft_worker_stats(t->n[1].w, &st);
	return st.refused_after_revoke;
}

/* ---- Every operation, every way ---- */

enum taken { TAKEN_RIGHT, TAKEN_TAIL, TAKEN_ALL, NTAKEN };

/** Before the revocation the operation succeeds. Afterwards operations on the rest succeed, and an
 * operation on the revoked part ends its stream and no other. */
static void
one(enum op op, enum taken taken)
{
	/* RFC 5040 s4.8 Figure 9. For a Write's STag and bounds RFC 5041 s7.2. */
	static const uint8_t code[NTAKEN] = {[TAKEN_RIGHT] = 2, [TAKEN_TAIL] = 1, [TAKEN_ALL] = 0};
	bool tagged = op == OP_WRITE && taken != TAKEN_RIGHT;
	uint32_t keep = REMOTE, other = op == OP_READ ? OP_WRITE : OP_READ, stag;
	uint64_t len = 0, to = BASE_TO + HALF;
	struct consumer c = {0};
	struct weft_qp *first[2];
	struct weft_mr_info info;
	struct weft_mr *mr;
	struct vt t;

	open_pair(&t, NULL);
	vt_mem(&t.n[0], 4096, RW);
	vt_second_stream(&t, first);
	c.t = &t;
	memset(memory, 0x11, LEN);
	mr = reg(&t, LEN, ALL);
	stag = weft_mr_stag(mr);
	if (taken == TAKEN_RIGHT)
		keep &= ~right[op];
	if (taken == TAKEN_RIGHT && op == OP_READ)
		keep &= ~(uint32_t)WEFT_ACCESS_VERIFY; /* Verify needs the right to read */
	if (taken == TAKEN_TAIL)
		len = HALF;
	if (taken == TAKEN_ALL)
		keep = 0;
	want_good(&t, first[0], op, stag, to);
	CHECK_EQ(revoke_region(&c, mr, keep, len, 0), 0);
	CHECK_EQ(c.n, 0);
	vt_run(&t, VT_MS);
	CHECK_EQ(c.n, 2);
	CHECK_EQ(c.r[0].step, WEFT_REVOKE_ASKED);
	CHECK(c.r[0].mr == mr && c.r[0].stag == stag && c.r[0].had_access == ALL &&
	      c.r[0].had_len_bytes == LEN);
	CHECK_EQ(c.r[1].step, taken == TAKEN_ALL ? WEFT_REVOKE_INVALIDATED : WEFT_REVOKE_REDUCED);
	CHECK(!c.r[1].in_time);
	weft_mr_query(mr, &info);
	CHECK_EQ(info.valid, taken != TAKEN_ALL);
	if (info.valid) {
		CHECK_EQ(info.access, keep | (ALL & ~REMOTE));
		CHECK_EQ(info.len_bytes, taken == TAKEN_TAIL ? HALF : LEN);
		CHECK_EQ(info.stag, stag);
		/* Operations on the rest succeed, with the same STag. */
		want_good(&t, t.n[0].qp, taken == TAKEN_RIGHT ? other : op, stag,
		          BASE_TO + HALF - 8);
	}
	CHECK_EQ(refused(&t), 0);
	memset(memory, 0x22, LEN);
	ask(&t, t.n[0].qp, op, stag, to);
	want_term(&t.n[1], tagged ? 1 : 0, 1, code[taken], true);
	want_term(&t.n[0], tagged ? 1 : 0, 1, code[taken], false);
	CHECK_EQ(refused(&t), 1);
	for (unsigned int i = 0; i < LEN; i++)
		CHECK_MSG(memory[i] == 0x22, "octet %u was changed", i);
	vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
	vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
	(void)vt_wc(&t.n[0]);
	/* The other stream can still use the rest. */
	if (taken != TAKEN_ALL)
		want_good(&t, first[0], taken == TAKEN_RIGHT ? other : op, stag, BASE_TO + 8);
	CHECK_EQ(weft_mr_dereg(mr, on_freed, &c), 0);
	vt_run(&t, VT_MS);
	CHECK(c.freed);
	CHECK_EQ(c.n, 2);
	weft_qp_destroy(first[0]);
	weft_qp_destroy(first[1]);
	vt_close(&t);
}

static void
test_taken(void)
{
	for (int op = 0; op < NOPS; op++)
		for (int taken = 0; taken < NTAKEN; taken++)
			one(op, taken);
}

/* ---- When ---- */

/** Nothing changes before the deadline, or before the consumer ends the wait. */
static void
test_deadline(void)
{
	for (int go = 0; go < 2; go++) {
		struct weft_worker_stats st;
		struct consumer c = {0};
		struct weft_mr *mr;
		uint64_t began;
		struct vt t;

		open_pair(&t, NULL);
		vt_mem(&t.n[0], 4096, RW);
		c.t = &t;
		mr = reg(&t, LEN, ALL);
		began = sim_now_ns(t.sim);
		CHECK_EQ(weft_mr_revoke_go(mr), -ENOENT);
		CHECK_EQ(revoke_region(&c, mr, WEFT_ACCESS_REMOTE_READ, 0, 50000), 0);
		vt_run(&t, 20 * VT_MS);
		CHECK_EQ(c.n, 1);
		CHECK_EQ(c.r[0].deadline_us, 50000);
		CHECK_EQ(c.r[0].access, WEFT_ACCESS_REMOTE_READ | (ALL & ~REMOTE));
		CHECK_EQ(c.r[0].len_bytes, LEN);
		want_good(&t, t.n[0].qp, OP_WRITE, weft_mr_stag(mr), BASE_TO);
		CHECK_EQ(revoke_region(&c, mr, 0, 0, 0), -EALREADY);
		if (go) {
			CHECK_EQ(weft_mr_revoke_go(mr), 0);
			CHECK_EQ(weft_mr_revoke_go(mr), 0);
		}
		vt_run(&t, 10 * VT_MS);
		CHECK_EQ(c.n, go ? 2 : 1);
		vt_run(&t, 30 * VT_MS);
		CHECK_EQ(c.n, 2);
		CHECK_EQ(c.r[1].step, WEFT_REVOKE_REDUCED);
		CHECK_EQ(c.r[1].in_time, go);
		if (!go)
			CHECK(c.at_ns[1] - began >= 50 * VT_MS && c.at_ns[1] - began < 52 * VT_MS);
		/* A second revocation can only reduce the rest further. */
		CHECK_EQ(revoke_region(&c, mr, WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE,
		                       0, 0),
		         -EINVAL);
		CHECK_EQ(revoke_region(&c, mr, 0, 0, 0), 0);
		vt_run(&t, VT_MS);
		CHECK_EQ(c.n, 4);
		CHECK_EQ(c.r[3].step, WEFT_REVOKE_INVALIDATED);
		CHECK_EQ(c.r[3].had_access, WEFT_ACCESS_REMOTE_READ | (ALL & ~REMOTE));
		weft_worker_stats(t.n[1].w, &st);
		CHECK(st.revocations == 2 && st.revocations_reduced == 1 &&
		      st.revocations_invalidated == 1 && st.revocations_failed == 0 &&
		      st.refused_after_revoke == 0);
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
		vt_close(&t);
	}
}

/* ---- Requests that have arrived ---- */

static bool
verifying(void *arg)
{
	const struct weft_rdmap *r = ((struct vt *)arg)->n[1].qp->rdmap;

	return r->work != NULL && r->work->hash != NULL && r->work->hash_pos_bytes > 0;
}

/**
 * A Flush, a long Verify and an Atomic Write wait when a right is revoked. The Flush is done. A
 * request without its right is refused when its turn comes, and no later request is done.
 */
static void
test_queue(void)
{
	static const struct {
		uint32_t taken;
		unsigned int good; /**< how many of Flush, Verify, Atomic Write succeed */
	} rows[] = {
	        {0, 3},
	        {WEFT_ACCESS_FLUSH_VISIBLE, 3},
	        {WEFT_ACCESS_VERIFY, 1},
	        {WEFT_ACCESS_REMOTE_WRITE, 2},
	};

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		static const enum weft_wc_opcode op[] = {WEFT_WC_FLUSH, WEFT_WC_VERIFY,
		                                         WEFT_WC_ATOMIC_WRITE};
		struct consumer c = {0};
		struct weft_wr wr[3];
		struct weft_mr *mr;
		uint32_t stag;
		struct vt t;

		open_pair(&t, NULL);
		c.t = &t;
		memset(memory, 0, 8);
		mr = reg(&t, sizeof(memory), ALL);
		stag = weft_mr_stag(mr);
		wr[0] = (struct weft_wr){.opcode = WEFT_WR_FLUSH,
		                         .flags = WEFT_WR_SIGNALED,
		                         .flush = {.stag = stag,
		                                   .to = BASE_TO,
		                                   .len_bytes = LEN,
		                                   .flags = WEFT_FLUSH_VISIBLE}};
		wr[1] = (struct weft_wr){
		        .opcode = WEFT_WR_VERIFY,
		        .flags = WEFT_WR_SIGNALED,
		        .verify = {.stag = stag, .to = BASE_TO, .len_bytes = sizeof(memory)}};
		wr[2] = (struct weft_wr){.opcode = WEFT_WR_ATOMIC_WRITE,
		                         .flags = WEFT_WR_SIGNALED,
		                         .atomic_write = {.stag = stag,
		                                          .to = BASE_TO,
		                                          .data = {1, 2, 3, 4, 5, 6, 7, 8}}};
		CHECK_EQ(weft_post_send(t.n[0].qp, wr, 3), 3);
		CHECK(vt_until(&t, VT_S, verifying, &t));
		CHECK_EQ(revoke_region(&c, mr, REMOTE & ~rows[i].taken, 0, 0), 0);
		for (unsigned int k = 0; k < RTE_DIM(op); k++)
			want_wc(&t.n[0], op[k],
			        k < rows[i].good    ? WEFT_WC_SUCCESS
			        : k == rows[i].good ? WEFT_WC_REMOTE_ACCESS
			                            : WEFT_WC_FLUSHED);
		CHECK_EQ(c.r[1].step, WEFT_REVOKE_REDUCED);
		CHECK_EQ(memory[7], rows[i].good == 3 ? 8 : 0);
		if (rows[i].good < 3)
			want_term(&t.n[1], 0, 1, 2, true);
		CHECK_EQ(refused(&t), rows[i].good < 3);
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
		vt_run(&t, VT_MS);
		vt_close(&t);
	}
}

/**
 * The region becomes shorter during a long Read or Write. Octets before the new end are whole. Once
 * the consumer is told, octets behind the new end are neither read nor changed.
 */
static void
test_midway(void)
{
	enum { BIG = 4 << 20, KEEP = 2 << 20 };

	for (int write = 0; write < 2; write++) {
		struct vt_attr attr = {.link = {.rate_bps = 1000000000, .delay_ns = 20000}};
		struct consumer c = {0};
		struct weft_sge sg;
		struct weft_mr *mr;
		struct weft_wr wr;
		struct vt t;

		open_pair(&t, &attr);
		vt_mem(&t.n[0], BIG, RW);
		c.t = &t;
		memset(memory, 0x11, BIG);
		memset(t.n[0].mem, 0x33, BIG);
		mr = reg(&t, BIG, ALL);
		sg = (struct weft_sge){t.n[0].mem, BIG, weft_mr_stag(t.n[0].mr)};
		wr = wr_rdma(write ? WEFT_WR_WRITE : WEFT_WR_READ, &sg, weft_mr_stag(mr), BASE_TO);
		vt_post(&t.n[0], &wr);
		vt_run(&t, 5 * VT_MS); /* some 600 KB are transferred */
		CHECK_EQ(revoke_region(&c, mr, REMOTE, KEEP, 0), 0);
		vt_run(&t, VT_MS);
		CHECK_EQ(c.n, 2);
		CHECK_EQ(c.r[1].step, WEFT_REVOKE_REDUCED);
		memset(memory + KEEP, 0x77, BIG - KEEP); /* it belongs to the owner now */
		if (write) {
			want_term(&t.n[1], 1, 1, 1, true);
		} else {
			/* its whole range is checked again for each segment */
			want_wc(&t.n[0], WEFT_WC_READ, WEFT_WC_REMOTE_ACCESS);
			want_term(&t.n[1], 0, 1, 1, true);
		}
		vt_run(&t, VT_S);
		for (unsigned int i = 0; i < BIG; i++) {
			uint8_t want = i >= KEEP ? 0x77 : write ? 0x33 : 0x11;

			/* a last segment that reaches beyond the end is refused as a whole */
			if (!(write && i >= KEEP - 10000 && i < KEEP))
				CHECK_MSG(memory[i] == want, "octet %u: %02x", i, memory[i]);
			CHECK_MSG(write || t.n[0].mem[i] != 0x77, "octet %u was read", i);
		}
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
		vt_close(&t);
	}
}

/** A Flush of the whole region flushes the part that is left when it arrives (s2.1.1: its length is
 * ignored). */
static void
test_region_flush(void)
{
	struct consumer c = {0};
	struct weft_mr *mr;
	struct weft_wr wr;
	struct vt t;

	open_pair(&t, NULL);
	c.t = &t;
	mr = reg(&t, LEN, ALL);
	CHECK_EQ(revoke_region(&c, mr, REMOTE, 100, 0), 0);
	vt_run(&t, VT_MS);
	wr = (struct weft_wr){.opcode = WEFT_WR_FLUSH,
	                      .flags = WEFT_WR_SIGNALED,
	                      .flush = {.stag = weft_mr_stag(mr),
	                                .len_bytes = LEN,
	                                .flags = WEFT_FLUSH_VISIBLE | WEFT_FLUSH_REGION}};
	vt_post(&t.n[0], &wr);
	want_wc(&t.n[0], WEFT_WC_FLUSH, WEFT_WC_SUCCESS);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	vt_close(&t);
}

/* ---- Refused revocations, and changes in between ---- */

static void
test_refusals(void)
{
	struct weft_revoke_attr a;
	struct consumer c = {0};
	struct weft_mr *mr, *fast;
	struct weft_mw *mw;
	struct weft_wr wr;
	struct vt t;

	open_pair(&t, NULL);
	c.t = &t;
	mr = reg(&t, LEN, ALL & ~WEFT_ACCESS_REMOTE_ATOMIC);
	CHECK_EQ(revoke_region(&c, mr, WEFT_ACCESS_REMOTE_ATOMIC, 0, 0), -EINVAL);
	CHECK_EQ(revoke_region(&c, mr, WEFT_ACCESS_REMOTE_READ, LEN + 1, 0), -EINVAL);
	CHECK_EQ(revoke_region(&c, mr, WEFT_ACCESS_REMOTE_READ, 0, UINT64_MAX), -EINVAL);
	/* Verify needs the right to read. */
	CHECK_EQ(revoke_region(&c, mr, WEFT_ACCESS_VERIFY, 0, 0), -EOPNOTSUPP);
	a = attr_of(&c, 0, 0, 0);
	a.worker = t.n[0].w; /* of another context */
	CHECK_EQ(weft_mr_revoke(mr, &a), -EINVAL);
	a.size = 4;
	CHECK_EQ(weft_mr_revoke(mr, &a), -EINVAL);
	CHECK_EQ(weft_mr_alloc(t.n[1].pd, &fast), 0);
	CHECK_EQ(revoke_region(&c, fast, 0, 0, 0), -ENOENT);
	CHECK_EQ(weft_mr_dereg(fast, NULL, NULL), 0);
	CHECK_EQ(weft_mw_alloc(t.n[1].pd, &mw), 0);
	wr = wr_bind(mw, mr, memory, LEN, 0, WEFT_ACCESS_REMOTE_READ);
	vt_post(&t.n[1], &wr);
	want_wc(&t.n[1], WEFT_WC_BIND_MW, WEFT_WC_SUCCESS);
	CHECK_EQ(revoke_region(&c, mr, 0, 0, 0), -EBUSY);
	wr = wr_inv(weft_mw_stag(mw));
	vt_post(&t.n[1], &wr);
	want_wc(&t.n[1], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
	vt_run(&t, VT_MS);
	CHECK_EQ(c.n, 0);
	weft_mw_dealloc(mw);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	vt_close(&t);
}

/** A window is bound after the consumer was told and before the deadline. The revocation fails,
 * whether it reduces or invalidates, and the region is unchanged. */
static void
test_window_meanwhile(void)
{
	for (int revoke = 0; revoke < 2; revoke++) {
		struct consumer c = {0};
		struct weft_mr_info info;
		struct weft_mr *mr;
		struct weft_mw *mw;
		struct weft_wr wr;
		struct vt t;

		open_pair(&t, NULL);
		c.t = &t;
		mr = reg(&t, LEN, ALL);
		CHECK_EQ(weft_mw_alloc(t.n[1].pd, &mw), 0);
		CHECK_EQ(revoke_region(&c, mr, revoke ? 0 : WEFT_ACCESS_REMOTE_READ, 0, 10000), 0);
		wr = wr_bind(mw, mr, memory, LEN, 0, WEFT_ACCESS_REMOTE_WRITE);
		vt_post(&t.n[1], &wr);
		want_wc(&t.n[1], WEFT_WC_BIND_MW, WEFT_WC_SUCCESS);
		vt_run(&t, 20 * VT_MS);
		CHECK_EQ(c.n, 2);
		CHECK_EQ(c.r[1].step, WEFT_REVOKE_FAILED);
		CHECK_EQ(c.r[1].status, -EBUSY);
		weft_mr_query(mr, &info);
		CHECK(info.valid && info.access == ALL && info.windows == 1);
		weft_mw_dealloc(mw);
		vt_run(&t, VT_MS);
		CHECK_EQ(revoke_region(&c, mr, 0, 0, 0), 0);
		vt_run(&t, VT_MS);
		CHECK_EQ(c.r[3].step, WEFT_REVOKE_INVALIDATED);
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
		vt_close(&t);
	}
}

static void
dereg_at_once(struct consumer *c, const struct weft_revoke *r)
{
	CHECK_EQ(weft_mr_dereg(r->mr, on_freed, c), 0);
}

/** The region ends during its revocation: the owner deregisters it, in the callback or outside, the
 * peer invalidates it, or its context is destroyed. */
static void
test_gone_meanwhile(void)
{
	enum { OWNER, CALLBACK, PEER, CONTEXT, NWAYS };

	for (int way = 0; way < NWAYS; way++) {
		struct consumer c = {.act = way == CALLBACK ? dereg_at_once : NULL};
		struct weft_wr wr = {.opcode = WEFT_WR_SEND_INV};
		struct weft_mr *mr;
		uint8_t in[1];
		struct vt t;

		open_pair(&t, NULL);
		c.t = &t;
		mr = reg(&t, LEN, ALL);
		CHECK_EQ(revoke_region(&c, mr, WEFT_ACCESS_REMOTE_READ, 0,
		                       way == CONTEXT ? 3600000000u : 10000),
		         0);
		vt_run(&t, VT_MS);
		CHECK_EQ(c.n, 1);
		if (way == OWNER) {
			CHECK_EQ(weft_mr_dereg(mr, on_freed, &c), 0);
		} else if (way == PEER) {
			vt_post_recv(&t.n[1], in, 1, 0);
			wr.send.inv_stag = weft_mr_stag(mr);
			vt_post(&t.n[0], &wr);
			CHECK(vt_wc(&t.n[1]).flags & WEFT_WC_INV);
		}
		if (way != CONTEXT)
			vt_run(&t, 20 * VT_MS);
		if (way == PEER) {
			CHECK_EQ(c.n, 2);
			CHECK_EQ(c.r[1].step, WEFT_REVOKE_FAILED);
			CHECK_EQ(c.r[1].status, -ENOENT);
			CHECK_EQ(weft_mr_dereg(mr, on_freed, &c), 0);
			vt_run(&t, VT_MS);
		}
		CHECK_EQ(c.freed, way != CONTEXT);
		if (way == CONTEXT) {
			/* the sanitizer checks that nothing is left */
			weft_qp_destroy(t.n[0].qp);
			weft_qp_destroy(t.n[1].qp);
			weft_ctx_destroy(t.n[0].ctx);
			weft_ctx_destroy(t.n[1].ctx);
			sim_destroy(t.sim);
			CHECK_EQ(c.n, 1);
			continue;
		}
		CHECK_EQ(c.n, way == PEER ? 2 : 1);
		vt_close(&t);
	}
}

/** A revocation of a fast-registered region concerns the present registration and not the next. */
static void
test_fast(void)
{
	struct consumer c = {0};
	struct weft_mr_info info;
	struct weft_mr *mr;
	struct weft_wr wr;
	uint32_t stag;
	struct vt t;

	open_pair(&t, NULL);
	vt_mem(&t.n[0], 4096, RW);
	c.t = &t;
	CHECK_EQ(weft_mr_alloc(t.n[1].pd, &mr), 0);
	stag = fast_reg(&t.n[1], mr, memory, LEN, BASE_TO, RW);
	CHECK_EQ(revoke_region(&c, mr, WEFT_ACCESS_REMOTE_READ, HALF, 0), 0);
	vt_run(&t, VT_MS);
	CHECK_EQ(c.r[1].step, WEFT_REVOKE_REDUCED);
	weft_mr_query(mr, &info);
	CHECK(info.access == (WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_LOCAL_WRITE) &&
	      info.len_bytes == HALF && info.stag == stag && info.valid);
	want_good(&t, t.n[0].qp, OP_READ, stag, BASE_TO + HALF - 8);
	wr = wr_inv(stag);
	vt_post(&t.n[1], &wr);
	want_wc(&t.n[1], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
	stag = fast_reg(&t.n[1], mr, memory, LEN, BASE_TO, RW);
	want_good(&t, t.n[0].qp, OP_WRITE, stag, BASE_TO + LEN - 8);
	/* Revoked. Another registration exists at the deadline. */
	CHECK_EQ(revoke_region(&c, mr, WEFT_ACCESS_REMOTE_READ, 0, 10000), 0);
	wr = wr_inv(stag);
	vt_post(&t.n[1], &wr);
	want_wc(&t.n[1], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
	stag = fast_reg(&t.n[1], mr, memory, LEN, BASE_TO, RW);
	vt_run(&t, 20 * VT_MS);
	CHECK_EQ(c.n, 4);
	CHECK_EQ(c.r[3].step, WEFT_REVOKE_FAILED);
	CHECK_EQ(c.r[3].status, -ENOENT);
	want_good(&t, t.n[0].qp, OP_WRITE, stag, BASE_TO + LEN - 8);
	CHECK_EQ(revoke_region(&c, mr, 0, 0, 0), 0);
	vt_run(&t, VT_MS);
	CHECK_EQ(c.r[5].step, WEFT_REVOKE_INVALIDATED);
	fast_reg(&t.n[1], mr, memory, LEN, BASE_TO, RW);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	vt_close(&t);
}

/** No remote right is left. The owner can still use the STag as an lkey. */
static void
test_local_rest(void)
{
	struct consumer c = {0};
	struct weft_mr_info info;
	struct weft_mr *mr;
	struct weft_sge sg;
	struct weft_wr wr;
	struct vt t;

	open_pair(&t, NULL);
	c.t = &t;
	vt_mem(&t.n[0], 4096, RW);
	mr = reg(&t, LEN, ALL);
	CHECK_EQ(revoke_region(&c, mr, WEFT_ACCESS_LOCAL_WRITE, 0, 0), 0);
	vt_run(&t, VT_MS);
	weft_mr_query(mr, &info);
	CHECK_EQ(info.access, ALL & ~REMOTE);
	memset(t.n[0].mem, 0x66, 100);
	memset(memory, 0, 100);
	sg = (struct weft_sge){memory, 100, weft_mr_stag(mr)};
	wr = wr_rdma(WEFT_WR_READ, &sg, weft_mr_stag(t.n[0].mr), 0x100000000ull);
	vt_post(&t.n[1], &wr);
	want_wc(&t.n[1], WEFT_WC_READ, WEFT_WC_SUCCESS);
	CHECK_EQ(memory[99], 0x66);
	CHECK_STR(weft_revoke_step_str(WEFT_REVOKE_ASKED), "asked back");
	CHECK_STR(weft_revoke_step_str((enum weft_revoke_step)9), "?");
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	vt_close(&t);
}

WEFT_TEST_MAIN({"every operation, every way", test_taken}, {"deadline", test_deadline},
               {"requests that have come", test_queue}, {"midway", test_midway},
               {"flush of the region", test_region_flush}, {"refusals", test_refusals},
               {"window meanwhile", test_window_meanwhile}, {"gone meanwhile", test_gone_meanwhile},
               {"fast", test_fast}, {"local rest", test_local_rest})
