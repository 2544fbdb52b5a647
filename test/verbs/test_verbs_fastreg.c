/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Fast registration: order in the send queue, refusals, extremes, limits, threads. */

#include <rte_common.h>

#include "vt_fast.h"
#include "weft_mem_find.h"

/* ---- The life of a registration ---- */

/** One list has a registration and the Send that tells the peer the STag. The peer uses the region,
 * the owner invalidates it, and the peer can no longer use it. */
static void
test_life(void)
{
	struct weft_mr_info info;
	struct weft_wr list[2], wr;
	uint8_t in[4], out[64];
	struct weft_sge sg;
	struct guarded g;
	struct weft_mr *mr;
	uint32_t stag;
	struct vt t;

	open_pair(&t, NULL);
	guard(&g, 1000);
	vt_fill(out, sizeof(out), 3);
	CHECK_EQ(weft_mr_alloc(t.n[1].pd, &mr), 0);
	CHECK_EQ(weft_mr_stag(mr), 0);
	weft_mr_query(mr, &info);
	CHECK(!info.valid && info.fast && info.addr == NULL && info.stag == 0);
	vt_post_recv(&t.n[0], in, sizeof(in), 1);
	stag = weft_mr_next_stag(mr);
	sg = (struct weft_sge){.addr = &stag, .len_bytes = 4};
	list[0] = wr_fast(mr, g.mem, g.len, 7, WEFT_ACCESS_REMOTE_WRITE);
	list[1] = (struct weft_wr){
	        .opcode = WEFT_WR_SEND, .flags = WEFT_WR_SIGNALED, .sg_list = &sg, .num_sge = 1};
	CHECK_EQ(weft_post_send(t.n[1].qp, list, 2), 2);
	CHECK_EQ(weft_mr_stag(mr), stag);
	CHECK(weft_mr_next_stag(mr) != stag);
	want_wc(&t.n[1], WEFT_WC_FAST_REG, WEFT_WC_SUCCESS);
	want_wc(&t.n[1], WEFT_WC_SEND, WEFT_WC_SUCCESS);
	want_wc(&t.n[0], WEFT_WC_RECV, WEFT_WC_SUCCESS);
	CHECK_MEM(in, &stag, 4);
	weft_mr_query(mr, &info);
	CHECK(info.valid && info.addr == g.mem && info.len_bytes == g.len && info.base_to == 7 &&
	      info.access == WEFT_ACCESS_REMOTE_WRITE && info.stag == stag && info.windows == 0 &&
	      info.persist == NULL && info.hash == NULL);

	sg = (struct weft_sge){.addr = out, .len_bytes = sizeof(out)};
	wr = wr_rdma(WEFT_WR_WRITE, &sg, stag, 7 + g.len - sizeof(out));
	vt_post(&t.n[0], &wr);
	want_wc(&t.n[0], WEFT_WC_WRITE, WEFT_WC_SUCCESS);
	vt_run(&t, VT_MS);
	CHECK_MEM(g.mem + g.len - sizeof(out), out, sizeof(out));

	wr = wr_inv(stag);
	vt_post(&t.n[1], &wr);
	want_wc(&t.n[1], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
	CHECK(weft_mem_lookup(inside_mem(t.n[1].ctx), stag) == NULL);
	weft_mr_query(mr, &info);
	CHECK(!info.valid && info.addr == g.mem && info.stag == stag);
	/* RFC 5042 s6.2.2: no packet modifies the buffer any more. */
	memset(g.mem, 0x55, g.len);
	wr = wr_rdma(WEFT_WR_WRITE, &sg, stag, 7);
	vt_post(&t.n[0], &wr);
	want_term(&t.n[1], 1, 1, 0, true);
	want_term(&t.n[0], 1, 1, 0, false);
	for (size_t i = 0; i < g.len; i++)
		CHECK_EQ(g.mem[i], 0x55);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	vt_close(&t);
	unguard(&g);
}

/** Rounds of registration, Send and invalidation. All are posted before any is carried out. */
static void
test_pipeline(void)
{
	enum { ROUNDS = 60 };
	static uint32_t stag[ROUNDS], got[ROUNDS];
	struct guarded g;
	struct weft_mr *mr;
	struct vt t;

	open_pair(&t, NULL);
	guard(&g, ROUNDS);
	CHECK_EQ(weft_mr_alloc(t.n[1].pd, &mr), 0);
	for (unsigned int i = 0; i < ROUNDS; i++)
		vt_post_recv(&t.n[0], &got[i], 4, i);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct weft_sge sg = {.addr = &stag[i], .len_bytes = 4};
		struct weft_wr list[3];

		stag[i] = weft_mr_next_stag(mr);
		list[0] = wr_fast(mr, g.mem + i, 1, 0, WEFT_ACCESS_REMOTE_READ);
		list[1] = (struct weft_wr){.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};
		list[2] = wr_inv(stag[i]);
		for (unsigned int k = 0; k < 3; k++)
			list[k].wr_id = i * 3 + k;
		CHECK_EQ(weft_post_send(t.n[1].qp, list, 3), 3);
	}
	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct weft_wc wc = vt_wc(&t.n[1]);

		CHECK(wc.status == WEFT_WC_SUCCESS && wc.opcode == WEFT_WC_FAST_REG);
		CHECK_EQ(wc.wr_id, i * 3);
		wc = vt_wc(&t.n[1]);
		CHECK(wc.status == WEFT_WC_SUCCESS && wc.opcode == WEFT_WC_LOCAL_INV);
		CHECK_EQ(wc.wr_id, i * 3 + 2);
	}
	for (unsigned int i = 0; i < ROUNDS; i++) {
		want_wc(&t.n[0], WEFT_WC_RECV, WEFT_WC_SUCCESS);
		CHECK_EQ(got[i], stag[i]);
		for (unsigned int k = 0; k < i; k++)
			CHECK(stag[k] != stag[i]);
		CHECK(weft_mem_lookup(inside_mem(t.n[1].ctx), stag[i]) == NULL);
	}
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	vt_close(&t);
	unguard(&g);
}

/** A Read and a Send with an lkey follow the registration of their memory in one list. */
static void
test_behind(void)
{
	struct weft_wr list[4];
	uint8_t in[64];
	struct weft_sge sg;
	struct guarded g;
	struct weft_mr *mr;
	uint32_t stag;
	struct vt t;

	open_pair(&t, NULL);
	guard(&g, 64);
	vt_mem(&t.n[1], 4096, WEFT_ACCESS_REMOTE_READ);
	vt_fill(t.n[1].mem, 4096, 9);
	CHECK_EQ(weft_mr_alloc(t.n[0].pd, &mr), 0);
	vt_post_recv(&t.n[1], in, sizeof(in), 0);
	stag = weft_mr_next_stag(mr);
	sg = (struct weft_sge){.addr = g.mem, .len_bytes = 64, .lkey = stag};
	list[0] = wr_fast(mr, g.mem, 64, UINT64_MAX - 63, WEFT_ACCESS_LOCAL_WRITE);
	list[1] = wr_rdma(WEFT_WR_READ, &sg, weft_mr_stag(t.n[1].mr), (2ULL << 32) + 100);
	list[2] = (struct weft_wr){
	        .opcode = WEFT_WR_SEND, .flags = WEFT_WR_FENCE, .sg_list = &sg, .num_sge = 1};
	/* With a fence, the invalidation waits for the Read into the region. */
	list[3] = wr_inv(stag);
	list[3].flags |= WEFT_WR_FENCE;
	/* Without the registration the Read's sink is not valid. */
	CHECK_EQ(weft_post_send(t.n[0].qp, &list[1], 1), -EINVAL);
	CHECK_EQ(weft_post_send(t.n[0].qp, list, 4), 4);
	want_wc(&t.n[0], WEFT_WC_FAST_REG, WEFT_WC_SUCCESS);
	want_wc(&t.n[0], WEFT_WC_READ, WEFT_WC_SUCCESS);
	want_wc(&t.n[0], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
	want_wc(&t.n[1], WEFT_WC_RECV, WEFT_WC_SUCCESS);
	CHECK_MEM(g.mem, t.n[1].mem + 100, 64);
	CHECK_MEM(in, t.n[1].mem + 100, 64);

	/* Without a fence, the invalidation removes the Read's sink, and the response finds none
	 * (RFC 5041 s7.2). */
	memset(g.mem, 0, 64);
	sg.lkey = weft_mr_next_stag(mr);
	list[3] = wr_inv(sg.lkey);
	CHECK_EQ(weft_post_send(t.n[0].qp, list, 2), 2);
	vt_post(&t.n[0], &list[3]);
	want_wc(&t.n[0], WEFT_WC_FAST_REG, WEFT_WC_SUCCESS);
	want_wc(&t.n[0], WEFT_WC_READ, WEFT_WC_LOCAL_PROT);
	/* Behind a failed request all others complete as flushed. The invalidation was carried
	 * out. */
	want_wc(&t.n[0], WEFT_WC_LOCAL_INV, WEFT_WC_FLUSHED);
	CHECK(weft_mem_lookup(inside_mem(t.n[0].ctx), sg.lkey) == NULL);
	want_term(&t.n[0], 1, 1, 0, true);
	want_term(&t.n[1], 1, 1, 0, false);
	for (unsigned int i = 0; i < 64; i++)
		CHECK_EQ(g.mem[i], 0);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	vt_close(&t);
	unguard(&g);
}

/* ---- What is refused ---- */

static void
test_posts(void)
{
	static uint8_t mem[64];
	struct weft_mr *mr, *plain, *foreign;
	struct weft_mr_attr a = {
	        .size = sizeof(a), .addr = mem, .len_bytes = sizeof(mem), .access = RW};
	struct weft_pd *other;
	struct vt t;

	open_pair(&t, NULL);
	CHECK_EQ(weft_pd_alloc(t.n[0].ctx, &other), 0);
	CHECK_EQ(weft_mr_alloc(t.n[0].pd, &mr), 0);
	CHECK_EQ(weft_mr_alloc(other, &foreign), 0);
	CHECK_EQ(weft_mr_reg(t.n[0].pd, &a, &plain), 0);
	CHECK_EQ(weft_mr_next_stag(plain), 0);
	const struct {
		const char *what;
		struct weft_wr wr;
		int rc;
	} rows[] = {
	        {"no region", wr_fast(NULL, mem, 64, 0, RW), -EINVAL},
	        {"one of weft_mr_reg()", wr_fast(plain, mem, 64, 0, RW), -EINVAL},
	        {"another domain's", wr_fast(foreign, mem, 64, 0, RW), -EINVAL},
	        {"no memory", wr_fast(mr, NULL, 64, 0, RW), -EINVAL},
	        {"no length", wr_fast(mr, mem, 0, 0, RW), -EINVAL},
	        {"TO wraps", wr_fast(mr, mem, 64, UINT64_MAX - 62, RW), -EINVAL},
	        {"unknown right", wr_fast(mr, mem, 64, 0, 0x100), -EINVAL},
	        {"no medium", wr_fast(mr, mem, 64, 0, WEFT_ACCESS_FLUSH_PERSISTENT), -EOPNOTSUPP},
	        {"no hash", wr_fast(mr, mem, 64, 0, WEFT_ACCESS_VERIFY | RW), -EOPNOTSUPP},
	};
	uint32_t next = weft_mr_next_stag(mr);

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int rc = weft_post_send(t.n[0].qp, &rows[i].wr, 1);

		CHECK_MSG(rc == rows[i].rc, "%s: %d", rows[i].what, rc);
	}
	struct weft_wr wr = wr_fast(mr, mem, 64, 0, RW);
	wr.fast_reg.hash = "nobody's";
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -ENOENT);
	wr = wr_fast(mr, mem, 64, 0, RW);
	wr.flags |= WEFT_WR_SOLICITED;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	wr.flags = WEFT_WR_INLINE;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	/* None of the refused requests used an STag or left any state. */
	CHECK_EQ(weft_mr_next_stag(mr), next);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	CHECK_EQ(weft_mr_dereg(plain, NULL, NULL), 0);
	CHECK_EQ(weft_mr_dereg(foreign, NULL, NULL), 0);
	vt_run(&t, VT_S);
	CHECK_EQ(weft_pd_dealloc(other), 0);
	vt_close(&t);
}

/** Ranges that end at 2^64, and zero-based ones: access to the last octet and one octet beyond. */
static void
test_extremes(void)
{
	static const struct {
		uint64_t base, to; /* to: a Write of two octets that goes beyond the region */
		unsigned int code; /* RFC 5041 s7.2 */
	} rows[] = {
	        {UINT64_MAX - 99, UINT64_MAX - 99 - 1, 1}, /* begins before the region */
	        {UINT64_MAX - 99, UINT64_MAX, 3},          /* its second octet wraps */
	        {0, 99, 1},
	        {0, UINT64_MAX, 3},
	        {(1ULL << 63) - 50, (1ULL << 63) + 49, 1},
	        {UINT64_MAX - 99, 0, 1},
	};
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weft_sge sg;
		struct weft_wr wr;
		struct guarded g;
		struct weft_mr *mr;
		uint8_t two[2] = {0x11, 0x22}, *sink;
		uint32_t stag;
		struct vt t;

		open_pair(&t, NULL);
		guard(&g, 100);
		vt_mem(&t.n[0], 4096, WEFT_ACCESS_LOCAL_WRITE);
		sink = t.n[0].mem;
		CHECK_EQ(weft_mr_alloc(t.n[1].pd, &mr), 0);
		stag = fast_reg(&t.n[1], mr, g.mem, g.len, rows[i].base, RW);
		sg = (struct weft_sge){.addr = two, .len_bytes = 1};
		wr = wr_rdma(WEFT_WR_WRITE, &sg, stag, rows[i].base + 99);
		vt_post(&t.n[0], &wr);
		want_wc(&t.n[0], WEFT_WC_WRITE, WEFT_WC_SUCCESS);
		sg = (struct weft_sge){
		        .addr = sink, .len_bytes = 100, .lkey = weft_mr_stag(t.n[0].mr)};
		wr = wr_rdma(WEFT_WR_READ, &sg, stag, rows[i].base);
		vt_post(&t.n[0], &wr);
		want_wc(&t.n[0], WEFT_WC_READ, WEFT_WC_SUCCESS);
		CHECK_EQ(g.mem[99], 0x11);
		CHECK_MEM(sink, g.mem, 100);
		sg = (struct weft_sge){.addr = two, .len_bytes = 2};
		wr = wr_rdma(WEFT_WR_WRITE, &sg, stag, rows[i].to);
		vt_post(&t.n[0], &wr);
		want_wc(&t.n[0], WEFT_WC_WRITE, WEFT_WC_SUCCESS);
		want_term(&t.n[1], 1, 1, rows[i].code, true);
		want_term(&t.n[0], 1, 1, rows[i].code, false);
		CHECK_EQ(g.mem[99], 0x11);
		CHECK_EQ(g.mem[0], 0);
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
		vt_close(&t);
		unguard(&g);
	}
}

/* ---- Limits ---- */

static void
test_limits(void)
{
	static uint8_t mem[64];
	struct weft_pd_attr pa = {.size = sizeof(pa), .max_regions = 2, .max_windows = 1};
	struct weft_mr_attr a = {
	        .size = sizeof(a), .addr = mem, .len_bytes = sizeof(mem), .access = RW};
	struct weft_pd_info info;
	struct weft_mr *mr[3];
	struct weft_mw *mw[2];
	struct weft_pd *pd;
	struct vt t;

	vt_open(&t, NULL);
	CHECK_EQ(weft_pd_alloc_attr(t.n[0].ctx, NULL, &pd), -EINVAL);
	CHECK_EQ(weft_pd_alloc_attr(t.n[0].ctx, &pa, &pd), 0);
	CHECK_EQ(weft_mr_alloc(pd, &mr[0]), 0);
	CHECK_EQ(weft_mr_reg(pd, &a, &mr[1]), 0);
	CHECK_EQ(weft_mr_reg(pd, &a, &mr[2]), -ENOSPC);
	CHECK_EQ(weft_mr_alloc(pd, &mr[2]), -ENOSPC);
	CHECK_EQ(weft_mw_alloc(pd, &mw[0]), 0);
	CHECK_EQ(weft_mw_alloc(pd, &mw[1]), -ENOSPC);
	weft_pd_query(pd, &info);
	CHECK(info.regions == 2 && info.windows == 1 && info.refused == 3);
	CHECK(info.max_regions == 2 && info.max_windows == 1);
	/* Other domains are not affected. */
	CHECK_EQ(weft_mr_reg(t.n[0].pd, &a, &mr[2]), 0);
	CHECK_EQ(weft_pd_dealloc(pd), -EBUSY);
	for (unsigned int i = 0; i < 3; i++)
		CHECK_EQ(weft_mr_dereg(mr[i], NULL, NULL), 0);
	CHECK_EQ(weft_pd_dealloc(pd), -EBUSY);
	weft_mw_dealloc(mw[0]);
	CHECK_EQ(weft_pd_dealloc(pd), 0);
	vt_close(&t);
}

/* ---- From other threads ---- */

struct foreign {
	struct vt *t;
	struct weft_mr *mr;
	uint8_t *mem;
	uint32_t stag[32];
	unsigned int refused; /* calls */
};

static void
foreign_post(void *arg)
{
	struct foreign *f = arg;

	for (unsigned int i = 0; i < 32; i++) {
		struct weft_wr list[2];

		f->stag[i] = weft_mr_next_stag(f->mr);
		list[0] = wr_fast(f->mr, f->mem, 64, i, RW);
		list[1] = wr_inv(f->stag[i]);
		f->refused +=
		        weft_post_send(f->t->n[1].qp, list, i == 31 ? 1 : 2) != (i == 31 ? 1 : 2);
	}
}

static void
foreign_dereg(void *arg)
{
	struct foreign *f = arg;

	f->refused += weft_mr_dereg(f->mr, NULL, NULL) != 0;
}

static void
test_foreign(void)
{
	struct foreign f;
	struct guarded g;
	struct weft_wr wr;
	struct vt t;

	open_pair(&t, NULL);
	guard(&g, 64);
	f = (struct foreign){.t = &t, .mem = g.mem};
	CHECK_EQ(weft_mr_alloc(t.n[1].pd, &f.mr), 0);
	vt_elsewhere(foreign_post, &f);
	CHECK_EQ(f.refused, 0);
	for (unsigned int i = 0; i < 63; i++)
		want_wc(&t.n[1], i % 2 == 0 ? WEFT_WC_FAST_REG : WEFT_WC_LOCAL_INV,
		        WEFT_WC_SUCCESS);
	CHECK(weft_mem_lookup(inside_mem(t.n[1].ctx), f.stag[31]) != NULL);
	CHECK_EQ(weft_mr_stag(f.mr), f.stag[31]);
	wr = wr_inv(f.stag[31]);
	vt_post(&t.n[1], &wr);
	want_wc(&t.n[1], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
	/* The region is deregistered while a request that names it is posted and not carried
	 * out. */
	wr = wr_fast(f.mr, g.mem, 64, 0, RW);
	vt_post(&t.n[1], &wr);
	vt_elsewhere(foreign_dereg, &f);
	CHECK_EQ(f.refused, 0);
	want_wc(&t.n[1], WEFT_WC_FAST_REG, WEFT_WC_LOCAL_PROT);
	want_term(&t.n[1], 0, 0, 0, true);
	vt_close(&t);
	unguard(&g);
}

/* ---- Behind an invalidation ---- */

struct behind {
	struct weft_qp *qp;
	struct weft_wr list[2];
	int posted;
};

static void
behind_post(void *arg)
{
	struct behind *b = arg;

	b->posted = weft_post_send(b->qp, b->list, 2);
}

/**
 * A list invalidates a region and then names it, at either node. The check at the post does not
 * hold when the request is carried out (RFC 5040 s7.1 case 1), and no octet of the memory is sent.
 */
static void
test_behind_inv(void)
{
	static const struct {
		enum weft_wr_opcode op;
		enum weft_wc_opcode wc;
	} rows[] = {
	        {WEFT_WR_SEND, WEFT_WC_SEND},
	        {WEFT_WR_WRITE, WEFT_WC_WRITE},
	        {WEFT_WR_READ, WEFT_WC_READ},
	        {WEFT_WR_FETCH_ADD, WEFT_WC_FETCH_ADD},
	};
	for (unsigned int i = 0; i < 2 * RTE_DIM(rows); i++) {
		unsigned int row = i / 2;
		struct behind b;
		struct weft_sge sg;
		uint8_t in[8] = {0};
		struct vt t;

		open_pair(&t, NULL);
		vt_mem(&t.n[0], 4096, WEFT_ACCESS_LOCAL_WRITE);
		vt_mem(&t.n[1], 4096, RW | WEFT_ACCESS_REMOTE_ATOMIC);
		memset(t.n[0].mem, 0x55, 4096);
		vt_post_recv(&t.n[1], in, sizeof(in), 0);
		sg = (struct weft_sge){
		        .addr = t.n[0].mem, .len_bytes = 8, .lkey = weft_mr_stag(t.n[0].mr)};
		b.qp = t.n[0].qp;
		b.list[0] = wr_inv(weft_mr_stag(t.n[0].mr));
		b.list[1] = wr_rdma(rows[row].op, &sg, weft_mr_stag(t.n[1].mr), 0);
		if (rows[row].op == WEFT_WR_FETCH_ADD) {
			memset(&b.list[1].atomic, 0, sizeof(b.list[1].atomic));
			b.list[1].atomic.stag = weft_mr_stag(t.n[1].mr);
			b.list[1].atomic.data = 1;
		}
		if (i % 2 == 0)
			behind_post(&b);
		else
			vt_elsewhere(behind_post, &b);
		CHECK_EQ(b.posted, 2);
		want_wc(&t.n[0], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
		want_wc(&t.n[0], rows[row].wc, WEFT_WC_LOCAL_PROT);
		want_term(&t.n[0], 0, 0, 0, true);
		vt_run(&t, 10 * VT_MS);
		for (unsigned int k = 0; k < 8; k++)
			CHECK(in[k] == 0 && t.n[1].mem[k] == 0 && t.n[0].mem[k] == 0x55);
		vt_close(&t);
	}
}

/* ---- A worker that is slow ---- */

/**
 * An invalidation that waits until another worker polls does not keep its own worker busy. Its
 * worker checks now and then. The invalidation completes after the other worker has polled.
 */
static void
test_slow_worker(void)
{
	struct weft_worker_attr wa = {.size = sizeof(wa), .lcore = -1};
	struct weft_tcp_attr ta = {0};
	struct weft_worker *other;
	struct weft_rand rand;
	struct guarded g;
	struct weft_mr *mr;
	struct weft_wc wc;
	struct weft_wr wr;
	struct vt t;

	open_pair(&t, NULL);
	guard(&g, 1000);
	CHECK_EQ(weft_mr_alloc(t.n[1].pd, &mr), 0);
	wr = wr_fast(mr, g.mem, g.len, 7, WEFT_ACCESS_REMOTE_WRITE);
	vt_post(&t.n[1], &wr);
	want_wc(&t.n[1], WEFT_WC_FAST_REG, WEFT_WC_SUCCESS);
	rand = sim_rand(t.sim, 2);
	CHECK_EQ(weft_engine_worker_create(t.n[1].ctx, &wa, &ta, &rand, sim_now_ns(t.sim), &other),
	         0);
	weft_engine_poll_at(other, sim_now_ns(t.sim));
	wr = wr_inv(weft_mr_stag(mr));
	vt_post(&t.n[1], &wr);
	for (unsigned int turn = 0; turn < 20; turn++)
		weft_engine_poll_at(t.n[1].w, sim_now_ns(t.sim));
	for (unsigned int i = 0; i < 8; i++) {
		CHECK_EQ(weft_cq_poll(t.n[1].cq, &wc, 1), 0);
		CHECK(weft_engine_next_ns(t.n[1].w) > sim_now_ns(t.sim));
		vt_run(&t, VT_MS);
	}
	weft_engine_poll_at(other, sim_now_ns(t.sim));
	vt_run(&t, 10 * VT_MS);
	CHECK_EQ(weft_cq_poll(t.n[1].cq, &wc, 1), 1);
	CHECK(wc.opcode == WEFT_WC_LOCAL_INV && wc.status == WEFT_WC_SUCCESS);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	weft_engine_poll_at(other, sim_now_ns(t.sim));
	weft_worker_detach(other);
	vt_close(&t);
	unguard(&g);
}

WEFT_TEST_MAIN({"life", test_life}, {"pipeline", test_pipeline}, {"behind", test_behind},
               {"posts", test_posts}, {"extremes", test_extremes}, {"limits", test_limits},
               {"foreign", test_foreign}, {"lkey behind its invalidation", test_behind_inv},
               {"slow worker", test_slow_worker})
