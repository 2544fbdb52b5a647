/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Fast registration, local and remote invalidation: order in the send queue, what they wait for,
 * what they refuse, and what is left when the stream dies at any point.
 */

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "vt.h"

#define RW (WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE)

/** Memory that ends at a page nobody may touch, with a canary before it. */
struct guarded {
	uint8_t *page, *mem;
	size_t len;
};

static void
guard(struct guarded *g, size_t len)
{
	size_t pages = (len + 64 + 4095) / 4096 * 4096;

	g->page = mmap(NULL, pages + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
	               0);
	CHECK(g->page != MAP_FAILED);
	CHECK_EQ(mprotect(g->page + pages, 4096, PROT_NONE), 0);
	memset(g->page, 0xca, pages - len);
	g->mem = g->page + pages - len;
	memset(g->mem, 0, len);
	g->len = len;
}

static void
unguard(struct guarded *g)
{
	size_t before = (size_t)(g->mem - g->page);

	for (size_t i = 0; i < before; i++)
		CHECK_MSG(g->page[i] == 0xca, "octet %zu before the region", before - i);
	CHECK_EQ(munmap(g->page, before + g->len + 4096), 0);
}

static struct weft_wr
wr_fast(struct weft_mr *mr, void *addr, uint64_t len, uint64_t base_to, uint32_t access)
{
	return (struct weft_wr){.opcode = WEFT_WR_FAST_REG,
	                        .flags = WEFT_WR_SIGNALED,
	                        .fast_reg = {.mr = mr,
	                                     .addr = addr,
	                                     .len_bytes = len,
	                                     .base_to = base_to,
	                                     .access = access}};
}

static struct weft_wr
wr_inv(uint32_t stag)
{
	return (struct weft_wr){
	        .opcode = WEFT_WR_LOCAL_INV, .flags = WEFT_WR_SIGNALED, .local_inv.stag = stag};
}

static struct weft_wr
wr_rdma(enum weft_wr_opcode op, const struct weft_sge *sg, uint32_t stag, uint64_t to)
{
	return (struct weft_wr){.opcode = op,
	                        .flags = WEFT_WR_SIGNALED,
	                        .sg_list = sg,
	                        .num_sge = 1,
	                        .rdma = {.stag = stag, .to = to}};
}

/** Connected, and the initiator has spoken: both may send. */
static void
open_pair(struct vt *t, const struct vt_attr *attr)
{
	struct weft_wr wr = {.opcode = WEFT_WR_SEND};
	uint8_t in[1];

	vt_open(t, attr);
	vt_connect(t, NULL, NULL);
	vt_post_recv(&t->n[1], in, 1, 0);
	vt_post(&t->n[0], &wr);
	CHECK_EQ(vt_wc(&t->n[1]).status, WEFT_WC_SUCCESS);
}

static void
want_wc(struct vt_node *n, enum weft_wc_opcode op, enum weft_wc_status status)
{
	struct weft_wc wc = vt_wc(n);

	CHECK_MSG(wc.opcode == op && wc.status == status, "opcode %d, %s", wc.opcode,
	          weft_wc_status_str(wc.status));
}

static void
want_term(struct vt_node *n, unsigned int layer, unsigned int etype, unsigned int code, bool ours)
{
	struct weft_event ev = vt_ev(n, WEFT_EV_TERMINATED);

	CHECK_MSG(ev.term.layer == layer && ev.term.etype == etype && ev.term.code == code &&
	                  ev.term.ours == ours,
	          "node %u: %u/%u/%02x", n->id, ev.term.layer, ev.term.etype, ev.term.code);
}

/** Register behind the scenes: posted at the node, completed. */
static uint32_t
fast_reg(struct vt_node *n, struct weft_mr *mr, void *addr, uint64_t len, uint64_t base_to,
         uint32_t access)
{
	struct weft_wr wr = wr_fast(mr, addr, len, base_to, access);

	vt_post(n, &wr);
	want_wc(n, WEFT_WC_FAST_REG, WEFT_WC_SUCCESS);
	CHECK(weft_mem_lookup(weft_engine_mem(n->ctx), weft_mr_stag(mr)) != NULL);
	return weft_mr_stag(mr);
}

/* ---- A life ---- */

/** Registration and the Send that tells of it in one list; use; invalidation; use no more. */
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
	CHECK(weft_mem_lookup(weft_engine_mem(t.n[1].ctx), stag) == NULL);
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

/** Rounds of register, tell, invalidate, all posted before anything is done. */
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
		CHECK(weft_mem_lookup(weft_engine_mem(t.n[1].ctx), stag[i]) == NULL);
	}
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	vt_close(&t);
	unguard(&g);
}

/** A Read and a keyed Send behind the registration of their memory, in one list. */
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
	/* Fenced, the invalidation waits for the Read into it. */
	list[3] = wr_inv(stag);
	list[3].flags |= WEFT_WR_FENCE;
	/* Alone the sink is none. */
	CHECK_EQ(weft_post_send(t.n[0].qp, &list[1], 1), -EINVAL);
	CHECK_EQ(weft_post_send(t.n[0].qp, list, 4), 4);
	want_wc(&t.n[0], WEFT_WC_FAST_REG, WEFT_WC_SUCCESS);
	want_wc(&t.n[0], WEFT_WC_READ, WEFT_WC_SUCCESS);
	want_wc(&t.n[0], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
	want_wc(&t.n[1], WEFT_WC_RECV, WEFT_WC_SUCCESS);
	CHECK_MEM(g.mem, t.n[1].mem + 100, 64);
	CHECK_MEM(in, t.n[1].mem + 100, 64);

	/* Not fenced, it takes the Read's sink away: the response finds none (RFC 5041 s7.2). */
	memset(g.mem, 0, 64);
	sg.lkey = weft_mr_next_stag(mr);
	list[3] = wr_inv(sg.lkey);
	CHECK_EQ(weft_post_send(t.n[0].qp, list, 2), 2);
	vt_post(&t.n[0], &list[3]);
	want_wc(&t.n[0], WEFT_WC_FAST_REG, WEFT_WC_SUCCESS);
	want_wc(&t.n[0], WEFT_WC_READ, WEFT_WC_LOCAL_PROT);
	/* Behind a failed request all else is flushed; it was carried out. */
	want_wc(&t.n[0], WEFT_WC_LOCAL_INV, WEFT_WC_FLUSHED);
	CHECK(weft_mem_lookup(weft_engine_mem(t.n[0].ctx), sg.lkey) == NULL);
	want_term(&t.n[0], 1, 1, 0, true);
	want_term(&t.n[1], 1, 1, 0, false);
	for (unsigned int i = 0; i < 64; i++)
		CHECK_EQ(g.mem[i], 0);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	vt_close(&t);
	unguard(&g);
}

/** Another stream between the same nodes; the first one's QPs in qp[]. */
static void
second_stream(struct vt *t, struct weft_qp *qp[2])
{
	struct weft_wr wr = {.opcode = WEFT_WR_SEND};
	uint8_t in[1];

	qp[0] = t->n[0].qp;
	qp[1] = t->n[1].qp;
	vt_connect(t, NULL, NULL);
	vt_post_recv(&t->n[1], in, 1, 0);
	vt_post(&t->n[0], &wr);
	CHECK_EQ(vt_wc(&t->n[1]).status, WEFT_WC_SUCCESS);
}

/**
 * An invalidation is done when nothing touches the memory any more: another stream that answers a
 * Read out of it has found out by then. What is behind waits for that.
 */
static void
test_drains(void)
{
	enum { LEN = 4 << 20 };
	struct vt_attr attr = {.link = {.delay_ns = 1000000}};
	uint8_t *src = malloc(LEN), *copy = malloc(LEN), small[8] = {0};
	const struct weft_mem_mr *m;
	struct weft_wr wr, list[2];
	struct weft_qp *first[2];
	struct weft_mr *mr;
	struct weft_sge sg;
	struct weft_wc wc;
	uint32_t stag, got;
	struct vt t;

	CHECK(src != NULL && copy != NULL);
	open_pair(&t, &attr);
	second_stream(&t, first);
	vt_fill(src, LEN, 4);
	memcpy(copy, src, LEN);
	vt_mem(&t.n[0], LEN, WEFT_ACCESS_LOCAL_WRITE);
	CHECK_EQ(weft_mr_alloc(t.n[1].pd, &mr), 0);
	stag = fast_reg(&t.n[1], mr, src, LEN, 0, WEFT_ACCESS_REMOTE_READ);
	m = weft_mem_lookup(weft_engine_mem(t.n[1].ctx), stag);
	sg = (struct weft_sge){
	        .addr = t.n[0].mem, .len_bytes = LEN, .lkey = weft_mr_stag(t.n[0].mr)};
	wr = wr_rdma(WEFT_WR_READ, &sg, stag, 0);
	vt_post(&t.n[0], &wr);
	vt_run(&t, 5 * VT_MS); /* under way */
	CHECK_EQ(m->refs, 1);
	list[0] = wr_inv(stag);
	list[1] = wr_fast(mr, small, sizeof(small), 0, WEFT_ACCESS_REMOTE_READ);
	CHECK_EQ(weft_post_send(first[1], list, 2), 2);
	vt_run(&t, 1000);
	CHECK(weft_mem_lookup(weft_engine_mem(t.n[1].ctx), stag) == NULL);
	CHECK_EQ(m->refs, 1);
	CHECK_EQ(weft_cq_poll(t.n[1].cq, &wc, 1), 0);
	want_wc(&t.n[1], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
	CHECK_EQ(m->refs, 0);
	/* From here on the memory is ours alone. */
	memset(src, 0xee, LEN);
	want_wc(&t.n[1], WEFT_WC_FAST_REG, WEFT_WC_SUCCESS);
	/* RFC 5040 s8.1.1 item 6: the Read ends midway. */
	want_term(&t.n[1], 0, 1, 0, true);
	want_wc(&t.n[0], WEFT_WC_READ, WEFT_WC_REMOTE_ACCESS);
	for (got = 0; got < LEN && t.n[0].mem[got] == copy[got];)
		got++;
	CHECK(got > 0 && got < LEN);
	for (; got < LEN && t.n[0].mem[got] != 0xee;)
		got++;
	CHECK_MSG(got == LEN, "what was ours by then has been read");
	CHECK(weft_mem_lookup(weft_engine_mem(t.n[1].ctx), weft_mr_stag(mr)) == m);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	weft_qp_destroy(first[0]);
	weft_qp_destroy(first[1]);
	vt_close(&t);
	free(src);
	free(copy);
}

/* ---- By the peer ---- */

static void
send_inv(struct vt *t, uint32_t stag)
{
	struct weft_wr wr = {.opcode = WEFT_WR_SEND_INV, .send.inv_stag = stag};

	vt_post(&t->n[0], &wr);
}

/** RFC 5040 s5.3: Send with Invalidate of a fast-registered region, again and again. */
static void
test_remote(void)
{
	struct guarded g;
	struct weft_mr *mr;
	struct weft_wc wc;
	uint8_t in[8];
	uint32_t stag;
	struct vt t;

	open_pair(&t, NULL);
	guard(&g, 100);
	CHECK_EQ(weft_mr_alloc(t.n[1].pd, &mr), 0);
	for (unsigned int i = 0; i < 20; i++) {
		stag = fast_reg(&t.n[1], mr, g.mem, g.len, i, RW);
		vt_post_recv(&t.n[1], in, sizeof(in), i);
		send_inv(&t, stag);
		wc = vt_wc(&t.n[1]);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		CHECK_EQ(wc.flags, WEFT_WC_INV);
		CHECK_EQ(wc.inv_stag, stag);
		CHECK(weft_mem_lookup(weft_engine_mem(t.n[1].ctx), stag) == NULL);
	}
	/* A stale one is nobody's. */
	vt_post_recv(&t.n[1], in, sizeof(in), 99);
	send_inv(&t, stag);
	want_wc(&t.n[1], WEFT_WC_RECV, WEFT_WC_FLUSHED);
	want_term(&t.n[1], 0, 1, 9, true);
	want_term(&t.n[0], 0, 1, 9, false);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	vt_close(&t);
	unguard(&g);
}

/** What the peer may not invalidate. */
static void
test_remote_refused(void)
{
	for (unsigned int what = 0; what < 4; what++) {
		static uint8_t mem[64];
		struct weft_pd *other;
		struct weft_mr *mr;
		uint8_t in[8];
		uint32_t stag;
		struct vt t;

		open_pair(&t, NULL);
		CHECK_EQ(weft_pd_alloc(t.n[1].ctx, &other), 0);
		if (what == 0) { /* another domain's: RFC 5042 s6.1.1 */
			struct weft_mr_attr a = {.size = sizeof(a),
			                         .addr = mem,
			                         .len_bytes = sizeof(mem),
			                         .access = RW};

			CHECK_EQ(weft_mr_reg(other, &a, &mr), 0);
			stag = weft_mr_stag(mr);
		} else {
			CHECK_EQ(weft_mr_alloc(t.n[1].pd, &mr), 0);
			stag = weft_mr_next_stag(mr);
			if (what == 1) /* one that only we use */
				fast_reg(&t.n[1], mr, mem, sizeof(mem), 0, WEFT_ACCESS_LOCAL_WRITE);
			else if (what == 2) /* drawn, and not registered */
				CHECK(stag != 0);
			else
				stag = 0;
		}
		vt_post_recv(&t.n[1], in, sizeof(in), 0);
		send_inv(&t, stag);
		want_term(&t.n[1], 0, 1, 9, true);
		want_term(&t.n[0], 0, 1, 9, false);
		if (what < 2)
			CHECK(weft_mem_lookup(weft_engine_mem(t.n[1].ctx), stag) != NULL);
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
		vt_run(&t, VT_S);
		CHECK_EQ(weft_pd_dealloc(other), 0);
		vt_close(&t);
	}
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
	/* None of them used up an STag, nor left anything. */
	CHECK_EQ(weft_mr_next_stag(mr), next);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	CHECK_EQ(weft_mr_dereg(plain, NULL, NULL), 0);
	CHECK_EQ(weft_mr_dereg(foreign, NULL, NULL), 0);
	vt_run(&t, VT_S);
	CHECK_EQ(weft_pd_dealloc(other), 0);
	vt_close(&t);
}

/** What turns out in its turn: an error completion, and a Terminate 0/0 (RFC 5040 s7.1 case 1). */
static void
test_turns(void)
{
	for (unsigned int what = 0; what < 5; what++) {
		static uint8_t mem[64];
		struct weft_wr wr, after = {.opcode = WEFT_WR_SEND};
		unsigned int op = WEFT_WC_LOCAL_INV;
		struct weft_pd *other;
		struct weft_mr *mr;
		uint32_t stag;
		struct vt t;

		open_pair(&t, NULL);
		CHECK_EQ(weft_pd_alloc(t.n[0].ctx, &other), 0);
		CHECK_EQ(weft_mr_alloc(what == 3 ? other : t.n[0].pd, &mr), 0);
		stag = weft_mr_next_stag(mr);
		switch (what) {
		case 0: /* registered twice */
			fast_reg(&t.n[0], mr, mem, sizeof(mem), 0, RW);
			wr = wr_fast(mr, mem, sizeof(mem), 0, RW);
			op = WEFT_WC_FAST_REG;
			break;
		case 1: /* not valid */
			wr = wr_inv(stag);
			break;
		case 2: /* invalidated twice */
			stag = fast_reg(&t.n[0], mr, mem, sizeof(mem), 0, RW);
			wr = wr_inv(stag);
			vt_post(&t.n[0], &wr);
			want_wc(&t.n[0], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
			break;
		case 3: /* another domain's */
			CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
			CHECK_EQ(weft_mr_reg(
			                 other,
			                 &(struct weft_mr_attr){.size = sizeof(struct weft_mr_attr),
			                                        .addr = mem,
			                                        .len_bytes = sizeof(mem),
			                                        .access = RW},
			                 &mr),
			         0);
			wr = wr_inv(weft_mr_stag(mr));
			break;
		default:
			wr = wr_inv(0);
			break;
		}
		wr.flags = 0; /* errors complete all the same */
		vt_post(&t.n[0], &wr);
		after.flags = WEFT_WR_SIGNALED;
		vt_post(&t.n[0], &after);
		want_wc(&t.n[0], op, WEFT_WC_LOCAL_PROT);
		want_wc(&t.n[0], WEFT_WC_SEND, WEFT_WC_FLUSHED);
		want_term(&t.n[0], 0, 0, 0, true);
		want_term(&t.n[1], 0, 0, 0, false);
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
		vt_run(&t, VT_S);
		CHECK_EQ(weft_pd_dealloc(other), 0);
		vt_close(&t);
	}
}

/** Ranges that end at 2^64, and zero-based ones: the last octet, and one further. */
static void
test_extremes(void)
{
	static const struct {
		uint64_t base, to; /* to: what lies beyond */
		unsigned int code; /* RFC 5041 s7.2 */
	} rows[] = {
	        {UINT64_MAX - 99, UINT64_MAX - 99 - 1, 1}, /* before it */
	        {UINT64_MAX - 99, UINT64_MAX, 3},          /* wraps with its second octet */
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
	/* Others are not concerned. */
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
};

static void *
foreign_post(void *arg)
{
	struct foreign *f = arg;

	for (unsigned int i = 0; i < 32; i++) {
		struct weft_wr list[2];

		f->stag[i] = weft_mr_next_stag(f->mr);
		list[0] = wr_fast(f->mr, f->mem, 64, i, RW);
		list[1] = wr_inv(f->stag[i]);
		if (weft_post_send(f->t->n[1].qp, list, i == 31 ? 1 : 2) != (i == 31 ? 1 : 2))
			return f;
	}
	return NULL;
}

static void *
foreign_dereg(void *arg)
{
	struct foreign *f = arg;

	return weft_mr_dereg(f->mr, NULL, NULL) == 0 ? NULL : f;
}

static void
elsewhere(void *(*fn)(void *arg), void *arg)
{
	pthread_t th;
	void *bad;

	CHECK_EQ(pthread_create(&th, NULL, fn, arg), 0);
	CHECK_EQ(pthread_join(th, &bad), 0);
	CHECK(bad == NULL);
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
	elsewhere(foreign_post, &f);
	for (unsigned int i = 0; i < 63; i++)
		want_wc(&t.n[1], i % 2 == 0 ? WEFT_WC_FAST_REG : WEFT_WC_LOCAL_INV,
		        WEFT_WC_SUCCESS);
	CHECK(weft_mem_lookup(weft_engine_mem(t.n[1].ctx), f.stag[31]) != NULL);
	CHECK_EQ(weft_mr_stag(f.mr), f.stag[31]);
	wr = wr_inv(f.stag[31]);
	vt_post(&t.n[1], &wr);
	want_wc(&t.n[1], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
	/* Deregistered under a request that is posted and not carried out. */
	wr = wr_fast(f.mr, g.mem, 64, 0, RW);
	vt_post(&t.n[1], &wr);
	elsewhere(foreign_dereg, &f);
	want_wc(&t.n[1], WEFT_WC_FAST_REG, WEFT_WC_LOCAL_PROT);
	want_term(&t.n[1], 0, 0, 0, true);
	vt_close(&t);
	unguard(&g);
}

/* ---- Death at each step ---- */

/** The stream or the QP goes away after `steps` polls of a sequence that does everything. */
static unsigned int
die_after(unsigned int steps, unsigned int how)
{
	struct weft_mr_info info;
	struct weft_wr list[6];
	struct weft_mr *mr, *sink;
	uint8_t in[64], stag_out[4];
	struct guarded g, g0;
	struct weft_sge sg, sg0;
	unsigned int wcs = 0, n = 0;
	uint32_t stag, stag0;
	struct weft_wc wc;
	struct vt t;

	open_pair(&t, NULL);
	guard(&g, 3000);
	guard(&g0, 3000);
	CHECK_EQ(weft_mr_alloc(t.n[1].pd, &mr), 0);
	CHECK_EQ(weft_mr_alloc(t.n[0].pd, &sink), 0);
	vt_post_recv(&t.n[0], in, sizeof(in), 0);
	stag = weft_mr_next_stag(mr);
	memcpy(stag_out, &stag, 4);
	sg = (struct weft_sge){.addr = stag_out, .len_bytes = 4};
	list[n++] = wr_fast(mr, g.mem, g.len, 0, RW);
	list[n++] = (struct weft_wr){
	        .opcode = WEFT_WR_SEND, .flags = WEFT_WR_SIGNALED, .sg_list = &sg, .num_sge = 1};
	CHECK_EQ(weft_post_send(t.n[1].qp, list, n), (int)n);
	/* The peer knows it by other means, so as to be quick. */
	stag0 = weft_mr_next_stag(sink);
	sg0 = (struct weft_sge){.addr = g0.mem, .len_bytes = 3000, .lkey = stag0};
	list[0] = wr_fast(sink, g0.mem, g0.len, 0, WEFT_ACCESS_LOCAL_WRITE);
	vt_run(&t, 10000);
	list[1] = wr_rdma(WEFT_WR_WRITE, &(struct weft_sge){.addr = g0.mem, .len_bytes = 3000},
	                  stag, 0);
	list[2] = wr_rdma(WEFT_WR_READ, &sg0, stag, 0);
	list[3] = wr_inv(stag0);
	list[3].flags |= WEFT_WR_FENCE;
	list[4] = (struct weft_wr){
	        .opcode = WEFT_WR_SEND_INV, .flags = WEFT_WR_SIGNALED, .send.inv_stag = stag};
	CHECK_EQ(weft_post_send(t.n[0].qp, list, 5), 5);
	vt_post_recv(&t.n[1], in, sizeof(in), 1);
	for (unsigned int i = 0; i < steps; i++)
		vt_run(&t, 5000);
	switch (how) {
	case 0:
		weft_qp_destroy(t.n[0].qp);
		t.n[0].qp = NULL;
		break;
	case 1:
		weft_qp_destroy(t.n[1].qp);
		t.n[1].qp = NULL;
		break;
	default: /* both at once, with the regions */
		weft_qp_destroy(t.n[0].qp);
		weft_qp_destroy(t.n[1].qp);
		t.n[0].qp = t.n[1].qp = NULL;
		break;
	}
	if (how == 2)
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL) + weft_mr_dereg(sink, NULL, NULL), 0);
	vt_run(&t, 10 * VT_S);
	while (weft_cq_poll(t.n[0].cq, &wc, 1) == 1)
		wcs += wc.status == WEFT_WC_SUCCESS;
	while (weft_cq_poll(t.n[1].cq, &wc, 1) == 1)
		wcs += wc.status == WEFT_WC_SUCCESS;
	if (how != 2) {
		weft_mr_query(mr, &info);
		CHECK_EQ(info.valid, weft_mem_lookup(weft_engine_mem(t.n[1].ctx), stag) != NULL);
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL) + weft_mr_dereg(sink, NULL, NULL), 0);
	}
	CHECK(weft_mem_lookup(weft_engine_mem(t.n[1].ctx), stag) == NULL);
	CHECK(weft_mem_lookup(weft_engine_mem(t.n[0].ctx), stag0) == NULL);
	vt_close(&t); /* checks that no region is left */
	unguard(&g);
	unguard(&g0);
	return wcs;
}

static void
test_death(void)
{
	unsigned int most = 0, least = 100;

	for (unsigned int how = 0; how < 3; how++)
		for (unsigned int steps = 0; steps < 40; steps++) {
			unsigned int n = die_after(steps, how);

			most = n > most ? n : most;
			least = n < least ? n : least;
		}
	/* The steps reach from before the first to behind the last. */
	CHECK_MSG(least <= 3 && most == 9, "%u to %u done", least, most);
}

WEFT_TEST_MAIN({"life", test_life}, {"pipeline", test_pipeline}, {"behind", test_behind},
               {"drains", test_drains}, {"remote", test_remote},
               {"remote refused", test_remote_refused}, {"posts", test_posts},
               {"turns", test_turns}, {"extremes", test_extremes}, {"limits", test_limits},
               {"foreign", test_foreign}, {"death", test_death})
