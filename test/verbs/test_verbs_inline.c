/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Local memory of work requests: scatter/gather elements, inline payloads, lkeys. Lists of
 * requests. */

#include <pthread.h>

#include "vt.h"

#define RIGHTS                                                                                     \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY)
#define LEN    (64 * 1024)
#define INLINE 256

static void
pair_open(struct vt *t, uint32_t send_sge, uint32_t sge, uint32_t inline_bytes)
{
	struct weft_qp_attr a[2];

	vt_open(t, NULL);
	for (unsigned int i = 0; i < 2; i++) {
		vt_mem(&t->n[i], LEN, RIGHTS);
		a[i] = vt_qp_attr(&t->n[i]);
		a[i].max_send_sge = send_sge;
		a[i].max_sge = sge;
		a[i].max_inline_bytes = inline_bytes;
	}
	vt_connect(t, &a[0], &a[1]);
}

static struct weft_wr
wr_of(struct vt *t, enum weft_wr_opcode op, const struct weft_sge *sg, uint32_t n, uint32_t flags)
{
	struct weft_wr wr = {.opcode = op, .flags = flags, .sg_list = sg, .num_sge = n};

	if (op == WEFT_WR_WRITE)
		wr.rdma.stag = weft_mr_stag(t->n[1].mr), wr.rdma.to = 0x200000000ULL;
	return wr;
}

/** Post from another thread. The worker does not run meanwhile. */
struct foreign {
	struct weft_qp *qp;
	const struct weft_wr *wr;
	const struct weft_recv_wr *rr;
	unsigned int n;
	int rc;
};

static void *
foreign_main(void *arg)
{
	struct foreign *f = arg;

	f->rc = f->wr != NULL ? weft_post_send(f->qp, f->wr, f->n)
	                      : weft_post_recv(f->qp, f->rr, f->n);
	return NULL;
}

static int
post_foreign(struct weft_qp *qp, const struct weft_wr *wr, const struct weft_recv_wr *rr,
             unsigned int n)
{
	struct foreign f = {.qp = qp, .wr = wr, .rr = rr, .n = n};
	pthread_t th;

	CHECK_EQ(pthread_create(&th, NULL, foreign_main, &f), 0);
	pthread_join(th, NULL);
	return f.rc;
}

static void
test_inline(void)
{
	uint8_t in[2][INLINE], out[INLINE], want[INLINE];
	struct vt t;

	pair_open(&t, 3, 1, INLINE);
	for (unsigned int foreign = 0; foreign < 2; foreign++) {
		struct weft_sge sg[3] = {
		        {out, 7, 0xdead}, {out + 7, 0, 1}, {out + 7, INLINE - 7, 0xbeef}};
		struct weft_wr wr[2] = {
		        wr_of(&t, WEFT_WR_WRITE, sg, 3, WEFT_WR_INLINE | WEFT_WR_SIGNALED),
		        wr_of(&t, WEFT_WR_SEND, sg, 3, WEFT_WR_INLINE | WEFT_WR_SIGNALED)};
		int n;

		vt_fill(want, INLINE, 3 + foreign);
		memcpy(out, want, INLINE);
		vt_post_recv(&t.n[1], in[0], INLINE, 1);
		n = foreign ? post_foreign(t.n[0].qp, wr, NULL, 2)
		            : weft_post_send(t.n[0].qp, wr, 2);
		CHECK_EQ(n, 2);
		memset(out, 0xee, INLINE); /* inline: the memory may be changed after the post */
		CHECK_EQ(vt_wc(&t.n[0]).len_bytes, INLINE);
		CHECK_EQ(vt_wc(&t.n[0]).status, WEFT_WC_SUCCESS);
		CHECK_EQ(vt_wc(&t.n[1]).len_bytes, INLINE);
		CHECK_MEM(in[0], want, INLINE);
		CHECK_MEM(t.n[1].mem, want, INLINE);
	}
	vt_close(&t);
}

static void
test_inline_bounds(void)
{
	uint8_t buf[WEFT_MAX_INLINE] = {0};
	struct weft_sge sg[2] = {{buf, INLINE, 0}, {buf, 1, 0}};
	struct weft_qp_attr a;
	struct weft_qp *qp;
	struct weft_wr wr;
	struct vt t;

	pair_open(&t, 0, 0, INLINE);
	wr = wr_of(&t, WEFT_WR_WRITE, sg, 2, WEFT_WR_INLINE);
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	CHECK_EQ(post_foreign(t.n[0].qp, &wr, NULL, 1), -EINVAL);
	wr.num_sge = 1;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), 1);
	wr.num_sge = 0;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), 1);
	/* the sum of the lengths wraps */
	sg[0].len_bytes = 8;
	sg[1].len_bytes = UINT32_MAX - 3;
	wr.num_sge = 2;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	/* a Read has no payload to carry inline */
	sg[0].lkey = weft_mr_stag(t.n[0].mr);
	sg[0].addr = t.n[0].mem;
	wr = wr_of(&t, WEFT_WR_READ, sg, 1, WEFT_WR_INLINE);
	wr.rdma.stag = weft_mr_stag(t.n[1].mr), wr.rdma.to = 0x200000000ULL;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	wr.flags = 0;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), 1);
	vt_run(&t, VT_S);
	/* limits of weft_qp_create() */
	a = vt_qp_attr(&t.n[0]);
	a.max_inline_bytes = WEFT_MAX_INLINE + 1;
	CHECK_EQ(weft_qp_create(t.n[0].pd, &a, &qp), -EINVAL);
	a.max_inline_bytes = 0;
	a.max_send_sge = WEFT_MAX_SGE + 1;
	CHECK_EQ(weft_qp_create(t.n[0].pd, &a, &qp), -EINVAL);
	a.max_send_sge = 0;
	a.max_sge = WEFT_MAX_SGE + 1;
	CHECK_EQ(weft_qp_create(t.n[0].pd, &a, &qp), -EINVAL);
	vt_close(&t);
}

/** Elements of every size, also empty, on both sides. Segments and elements end at all relative
 * positions. */
static void
test_gather_scatter(void)
{
	static uint8_t in[LEN], out[LEN];
	struct weft_sge src[WEFT_MAX_SGE + 1], dst[WEFT_MAX_SGE + 1];
	struct weft_recv_wr rr = {.sg_list = dst};
	struct vt t;

	pair_open(&t, WEFT_MAX_SGE, WEFT_MAX_SGE, 100);
	for (unsigned int round = 0; round < 8; round++) {
		uint32_t n = 0, m = 0, k = round % 2 ? WEFT_MAX_SGE : 1 + round * 3;
		struct weft_wr wr = wr_of(&t, WEFT_WR_SEND, src, k, WEFT_WR_SIGNALED);

		vt_fill(out, LEN, round);
		memset(in, 0, LEN);
		for (unsigned int i = 0; i < k; i++) {
			uint32_t len = i % 5 == 3 ? 0 : (i * 977 + round * 131) % 1900;

			src[i] = (struct weft_sge){len ? out + n : NULL, len, 0};
			n += len;
		}
		for (unsigned int i = 0; i < WEFT_MAX_SGE; i++) {
			uint32_t len = i % 7 == 2 ? 0 : 1 + (i * 613 + round * 37) % 1500;

			if (i == WEFT_MAX_SGE - 1)
				len = LEN - m;
			dst[i] = (struct weft_sge){len ? in + m : NULL, len, 0};
			m += len;
		}
		rr.num_sge = WEFT_MAX_SGE;
		CHECK_EQ(round < 4 ? weft_post_recv(t.n[1].qp, &rr, 1)
		                   : post_foreign(t.n[1].qp, NULL, &rr, 1),
		         1);
		CHECK_EQ(round < 4 ? weft_post_send(t.n[0].qp, &wr, 1)
		                   : post_foreign(t.n[0].qp, &wr, NULL, 1),
		         1);
		CHECK_EQ(vt_wc(&t.n[1]).len_bytes, n);
		CHECK_EQ(vt_wc(&t.n[0]).len_bytes, n);
		CHECK_MEM(in, out, n);
		wr = wr_of(&t, WEFT_WR_WRITE, src, k, WEFT_WR_SIGNALED);
		CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), 1);
		CHECK_EQ(vt_wc(&t.n[0]).len_bytes, n);
		vt_run(&t, VT_S);
		CHECK_MEM(t.n[1].mem, out, n);
	}
	vt_close(&t);
}

static void
test_sge_bounds(void)
{
	uint8_t buf[8] = {0}, in[8] = {0};
	struct weft_sge sg[5] = {{buf, 1, 0}, {buf, 1, 0}, {buf, 1, 0}, {buf, 1, 0}, {buf, 1, 0}};
	struct weft_recv_wr rr = {.sg_list = sg, .num_sge = 5};
	struct weft_wr wr;
	struct vt t;

	pair_open(&t, 0, 0, 0);
	/* the default limit is four, on both sides */
	wr = wr_of(&t, WEFT_WR_SEND, sg, 5, 0);
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	CHECK_EQ(weft_post_recv(t.n[0].qp, &rr, 1), -EINVAL);
	CHECK_EQ(post_foreign(t.n[0].qp, &wr, NULL, 1), -EINVAL);
	CHECK_EQ(post_foreign(t.n[0].qp, NULL, &rr, 1), -EINVAL);
	/* RFC 5041 s5.2: a message is shorter than 2^32 octets */
	sg[0].len_bytes = sg[1].len_bytes = 0x80000000;
	rr.num_sge = wr.num_sge = 2;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	CHECK_EQ(weft_post_recv(t.n[0].qp, &rr, 1), -EINVAL);
	/* One octet less is accepted. Only memory that a message fills is touched. */
	sg[0] = (struct weft_sge){in, 0x80000000, 0};
	sg[1].len_bytes = 0x7fffffff;
	CHECK_EQ(weft_post_recv(t.n[1].qp, &rr, 1), 1);
	sg[0].addr = NULL;
	CHECK_EQ(weft_post_recv(t.n[1].qp, &rr, 1), -EINVAL);
	wr.num_sge = 1;
	sg[0] = (struct weft_sge){buf, 8, 0};
	memset(buf, 5, 8);
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), 1);
	CHECK_EQ(vt_wc(&t.n[1]).len_bytes, 8);
	CHECK_MEM(in, buf, 8);
	wr.sg_list = NULL;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	rr.sg_list = NULL;
	CHECK_EQ(weft_post_recv(t.n[0].qp, &rr, 1), -EINVAL);
	vt_close(&t);
}

static struct weft_mr *
mr_reg(struct weft_pd *pd, void *addr, uint64_t len, uint32_t access)
{
	struct weft_mr_attr a = {
	        .size = sizeof(a), .addr = addr, .len_bytes = len, .access = access};
	struct weft_mr *mr;

	CHECK_EQ(weft_mr_reg(pd, &a, &mr), 0);
	return mr;
}

static void
test_lkeys(void)
{
	static uint8_t around[130], *const area = around + 1;
	struct weft_mr *ro, *rw, *other;
	struct weft_pd *pd;
	struct weft_sge sg = {area + 8, 100, 0};
	struct weft_recv_wr rr = {.wr_id = 7, .sg_list = &sg, .num_sge = 1};
	struct weft_event ev;
	struct weft_wc wc;
	struct weft_wr wr;
	struct vt t;

	pair_open(&t, 0, 0, 0);
	CHECK_EQ(weft_pd_alloc(t.n[0].ctx, &pd), 0);
	ro = mr_reg(t.n[0].pd, area, 128, WEFT_ACCESS_REMOTE_READ);
	rw = mr_reg(t.n[0].pd, area, 128, WEFT_ACCESS_LOCAL_WRITE);
	other = mr_reg(pd, area, 128, WEFT_ACCESS_LOCAL_WRITE);
	wr = wr_of(&t, WEFT_WR_WRITE, &sg, 1, WEFT_WR_SIGNALED);
	sg.lkey = weft_mr_stag(ro);
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), 1);
	CHECK_EQ(vt_wc(&t.n[0]).status, WEFT_WC_SUCCESS);
	CHECK_EQ(weft_post_recv(t.n[0].qp, &rr, 1), -EINVAL); /* without the right to write */
	sg.lkey = weft_mr_stag(other);
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL); /* of another domain */
	CHECK_EQ(weft_post_recv(t.n[0].qp, &rr, 1), -EINVAL);
	sg.lkey = weft_mr_stag(rw);
	sg.len_bytes = 121;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL); /* ends behind the region */
	sg.addr = area - 1;
	sg.len_bytes = 2;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL); /* begins before the region */
	CHECK_EQ(weft_post_recv(t.n[0].qp, &rr, 1), -EINVAL);
	sg.len_bytes = 0;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), 1); /* an empty element is not checked */
	CHECK_EQ(vt_wc(&t.n[0]).status, WEFT_WC_SUCCESS);
	sg = (struct weft_sge){area, 128, weft_mr_stag(rw)};
	CHECK_EQ(weft_post_recv(t.n[0].qp, &rr, 1), 1);
	/* The region is deregistered before the message arrives. Nothing is placed, and the
	 * completion reports a local error. */
	weft_mr_dereg(rw, NULL, NULL);
	memset(area, 0x11, 128);
	sg.lkey = 0;
	wr = wr_of(&t, WEFT_WR_SEND, &sg, 1, 0);
	CHECK_EQ(weft_post_send(t.n[1].qp, &wr, 1), 1);
	wc = vt_wc(&t.n[0]);
	CHECK_EQ(wc.wr_id, 7);
	CHECK_EQ(wc.status, WEFT_WC_LOCAL_PROT);
	ev = vt_ev(&t.n[1], WEFT_EV_TERMINATED);
	CHECK_EQ(ev.term.layer, 0);
	CHECK_EQ(ev.term.etype, 0);
	CHECK_EQ(area[0], 0x11);
	vt_run(&t, 10 * VT_S);
	CHECK_EQ(weft_cq_poll(t.n[0].cq, &wc, 1), 0);
	weft_mr_dereg(ro, NULL, NULL);
	weft_mr_dereg(other, NULL, NULL);
	CHECK_EQ(weft_pd_dealloc(pd), 0);
	vt_close(&t);
}

/** The worker finds a bad lkey that another thread posted. The request completes in its place with
 * an error, and the stream ends. */
static void
test_lkey_foreign(void)
{
	uint8_t buf[8] = {0};
	struct weft_sge good = {buf, 8, 0}, bad = {buf, 8, 0x1234};
	struct weft_wr wr[3];
	struct vt t;

	pair_open(&t, 0, 0, 0);
	for (uint64_t i = 0; i < 3; i++) {
		wr[i] = wr_of(&t, WEFT_WR_WRITE, i == 1 ? &bad : &good, 1, 0);
		wr[i].wr_id = i;
	}
	wr[0].flags = WEFT_WR_SIGNALED;
	CHECK_EQ(post_foreign(t.n[0].qp, wr, NULL, 3), 3);
	for (uint64_t i = 0; i < 3; i++) {
		struct weft_wc wc = vt_wc(&t.n[0]);

		CHECK_EQ(wc.wr_id, i);
		if (i == 1)
			CHECK_EQ(wc.status, WEFT_WC_LOCAL_PROT);
		if (i == 2)
			CHECK_EQ(wc.status, WEFT_WC_FLUSHED);
	}
	vt_ev(&t.n[0], WEFT_EV_TERMINATED);
	vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
	vt_close(&t);
}

/** A list with one bad request: the requests before it are posted. The bad request and those after
 * it are not. */
static void
test_lists(void)
{
	uint8_t buf[8] = {0};
	struct weft_sge sg = {buf, 8, 0}, none = {NULL, 8, 0};
	struct weft_recv_wr rr[5];
	struct weft_wr wr[5];
	struct weft_qp_info info;
	struct weft_wc wc;
	struct vt t;

	pair_open(&t, 0, 0, 0);
	for (unsigned int foreign = 0; foreign < 2; foreign++)
		for (unsigned int bad = 0; bad < 5; bad++) {
			int want = bad > 0 ? (int)bad : -EINVAL, n, m;

			for (uint64_t i = 0; i < 5; i++) {
				wr[i] = wr_of(&t, WEFT_WR_SEND, i == bad ? &none : &sg, 1,
				              WEFT_WR_SIGNALED);
				wr[i].wr_id = i;
				rr[i] = (struct weft_recv_wr){
				        .wr_id = i, .sg_list = wr[i].sg_list, .num_sge = 1};
			}
			n = foreign ? post_foreign(t.n[1].qp, NULL, rr, 5)
			            : weft_post_recv(t.n[1].qp, rr, 5);
			m = foreign ? post_foreign(t.n[0].qp, wr, NULL, 5)
			            : weft_post_send(t.n[0].qp, wr, 5);
			CHECK_EQ(n, want);
			CHECK_EQ(m, want);
			for (uint64_t i = 0; i < bad; i++) {
				CHECK_EQ(vt_wc(&t.n[0]).wr_id, i);
				CHECK_EQ(vt_wc(&t.n[1]).wr_id, i);
			}
			vt_run(&t, VT_S);
			CHECK_EQ(weft_cq_poll(t.n[0].cq, &wc, 1), 0);
			CHECK_EQ(weft_cq_poll(t.n[1].cq, &wc, 1), 0);
			for (unsigned int i = 0; i < 2; i++) {
				weft_qp_query(t.n[i].qp, &info);
				CHECK_EQ(info.sq_used, 0);
				CHECK_EQ(info.rq_used, 0);
			}
		}
	vt_close(&t);
}

/** A queue with fewer free entries than the list takes the beginning of the list. A bad request
 * behind that is not examined. */
static void
test_lists_full(void)
{
	uint8_t buf[8] = {0};
	struct weft_sge sg = {buf, 8, 0}, none = {NULL, 8, 0};
	struct weft_recv_wr rr[6];
	struct weft_qp_attr a[2];
	struct weft_wr wr[6];
	struct vt t;

	vt_open(&t, NULL);
	for (unsigned int i = 0; i < 2; i++) {
		vt_mem(&t.n[i], LEN, RIGHTS);
		a[i] = vt_qp_attr(&t.n[i]);
		a[i].sq_depth = a[i].rq_depth = 4;
	}
	vt_connect(&t, &a[0], &a[1]);
	for (uint64_t i = 0; i < 6; i++) {
		wr[i] = wr_of(&t, WEFT_WR_SEND, i == 5 ? &none : &sg, 1, WEFT_WR_SIGNALED);
		rr[i] = (struct weft_recv_wr){.sg_list = wr[i].sg_list, .num_sge = 1};
	}
	for (unsigned int foreign = 0; foreign < 2; foreign++) {
		CHECK_EQ(foreign ? post_foreign(t.n[1].qp, NULL, rr, 6)
		                 : weft_post_recv(t.n[1].qp, rr, 6),
		         4);
		CHECK_EQ(weft_post_recv(t.n[1].qp, rr, 1), -EAGAIN);
		CHECK_EQ(foreign ? post_foreign(t.n[0].qp, wr, NULL, 6)
		                 : weft_post_send(t.n[0].qp, wr, 6),
		         4);
		CHECK_EQ(weft_post_send(t.n[0].qp, wr, 1), -EAGAIN);
		for (unsigned int i = 0; i < 4; i++) {
			CHECK_EQ(vt_wc(&t.n[0]).status, WEFT_WC_SUCCESS);
			CHECK_EQ(vt_wc(&t.n[1]).status, WEFT_WC_SUCCESS);
		}
	}
	vt_close(&t);
}

/** Unsignaled requests free their entries without a completion. Their errors are always
 * reported. */
static void
test_unsignalled(void)
{
	uint8_t buf[1000] = {0};
	struct weft_sge sg = {buf, sizeof(buf), 0};
	struct weft_qp_attr a[2];
	unsigned int posted = 0, full = 0;
	struct weft_wr wr;
	struct weft_wc wc;
	struct vt t;

	vt_open(&t, NULL);
	for (unsigned int i = 0; i < 2; i++) {
		vt_mem(&t.n[i], LEN, RIGHTS);
		a[i] = vt_qp_attr(&t.n[i]);
		a[i].sq_depth = 4;
	}
	vt_connect(&t, &a[0], &a[1]);
	wr = wr_of(&t, WEFT_WR_WRITE, &sg, 1, 0);
	while (posted < 500) {
		int n = weft_post_send(t.n[0].qp, &wr, 1);

		CHECK(n == 1 || n == -EAGAIN);
		posted += n == 1;
		full += n != 1;
		if (n != 1)
			vt_run(&t, 100000);
	}
	CHECK(full > 10);
	vt_run(&t, VT_S);
	CHECK_EQ(weft_cq_poll(t.n[0].cq, &wc, 1), 0);
	/* The peer aborts. The requests in the queue complete with an error, in order. */
	weft_qp_destroy(t.n[1].qp);
	t.n[1].qp = NULL;
	for (uint64_t i = 0; i < 4; i++) {
		wr.wr_id = i;
		wr.opcode = WEFT_WR_FLUSH;
		wr.flush.stag = weft_mr_stag(t.n[1].mr);
		wr.flush.to = 0;
		wr.flush.len_bytes = 8;
		wr.flush.flags = WEFT_FLUSH_VISIBLE;
		vt_post(&t.n[0], &wr);
	}
	for (uint64_t i = 0; i < 4; i++) {
		wc = vt_wc(&t.n[0]);
		CHECK_EQ(wc.wr_id, i);
		CHECK_EQ(wc.status, WEFT_WC_FLUSHED);
	}
	vt_close(&t);
}

/**
 * A fenced request uses the data of the Read before it: its source is the Read's sink. For
 * Read-like requests the number of outstanding requests shows the fence.
 */
static void
test_fence(void)
{
	static const enum weft_wr_opcode from_sink[] = {WEFT_WR_SEND, WEFT_WR_SEND_INV,
	                                                WEFT_WR_WRITE, WEFT_WR_WRITE_IMM};
	static uint8_t in[20000];
	struct vt t;

	for (unsigned int k = 0; k < RTE_DIM(from_sink); k++) {
		bool write = from_sink[k] >= WEFT_WR_WRITE;
		struct weft_sge sink, sg;
		struct weft_mr *inv;
		struct weft_wr wr[2];

		pair_open(&t, 0, 0, 0);
		inv = mr_reg(t.n[1].pd, in, 8, WEFT_ACCESS_REMOTE_READ);
		vt_fill(t.n[1].mem, 20000, 9);
		sink = (struct weft_sge){t.n[0].mem, 20000, weft_mr_stag(t.n[0].mr)};
		sg = (struct weft_sge){t.n[0].mem, 20000, 0};
		vt_post_recv(&t.n[1], in, sizeof(in), 1);
		wr[0] = wr_of(&t, WEFT_WR_READ, &sink, 1, 0);
		wr[0].rdma.stag = weft_mr_stag(t.n[1].mr), wr[0].rdma.to = 0x200000000ULL;
		wr[1] = wr_of(&t, from_sink[k], &sg, 1, WEFT_WR_FENCE | WEFT_WR_SIGNALED);
		if (write)
			wr[1].rdma.stag = weft_mr_stag(t.n[1].mr),
			wr[1].rdma.to = 0x200000000ULL + 30000;
		if (from_sink[k] == WEFT_WR_SEND_INV)
			wr[1].send.inv_stag = weft_mr_stag(inv);
		CHECK_EQ(weft_post_send(t.n[0].qp, wr, 2), 2);
		CHECK_EQ(vt_wc(&t.n[0]).status, WEFT_WC_SUCCESS);
		vt_run(&t, VT_S);
		CHECK_MEM(write ? t.n[1].mem + 30000 : in, t.n[1].mem, 20000);
		weft_mr_dereg(inv, NULL, NULL);
		vt_close(&t);
	}
}

static bool
outstanding_never_two(void *arg)
{
	struct vt *t = arg;
	struct weft_qp_info info;

	weft_qp_query(t->n[0].qp, &info);
	CHECK(info.out_reads <= 1);
	return info.sq_used == 0;
}

/** A fenced request that has a response is sent only after the response to the request before
 * it. */
static void
test_fence_reads(void)
{
	static const enum weft_wr_opcode ops[] = {WEFT_WR_READ,      WEFT_WR_FLUSH,
	                                          WEFT_WR_VERIFY,    WEFT_WR_ATOMIC_WRITE,
	                                          WEFT_WR_FETCH_ADD, WEFT_WR_MASKED_FETCH_ADD,
	                                          WEFT_WR_CMP_SWAP,  WEFT_WR_MASKED_CMP_SWAP};
	static uint8_t got[8];
	uint64_t to = 0x200000000ULL;

	for (unsigned int k = 0; k < RTE_DIM(ops); k++) {
		struct weft_sge sink, sg = {got, 8, 0};
		struct weft_wr wr[2];
		uint32_t stag;
		struct vt t;

		pair_open(&t, 0, 0, 0);
		stag = weft_mr_stag(t.n[1].mr);
		sink = (struct weft_sge){t.n[0].mem, 20000, weft_mr_stag(t.n[0].mr)};
		wr[0] = wr_of(&t, WEFT_WR_READ, &sink, 1, 0);
		wr[0].rdma.stag = stag, wr[0].rdma.to = to;
		wr[1] = wr_of(&t, ops[k], NULL, 0, WEFT_WR_FENCE);
		switch (ops[k]) {
		case WEFT_WR_READ:
			wr[1] = wr[0];
			wr[1].flags = WEFT_WR_FENCE;
			break;
		case WEFT_WR_FLUSH:
			wr[1].flush.stag = stag, wr[1].flush.to = to;
			wr[1].flush.len_bytes = 8;
			wr[1].flush.flags = WEFT_FLUSH_VISIBLE;
			break;
		case WEFT_WR_VERIFY:
			wr[1].verify.stag = stag, wr[1].verify.to = to;
			wr[1].verify.len_bytes = 8;
			break;
		case WEFT_WR_ATOMIC_WRITE:
			wr[1].atomic_write.stag = stag, wr[1].atomic_write.to = to;
			break;
		default:
			wr[1].sg_list = &sg;
			wr[1].num_sge = 1;
			wr[1].atomic.stag = stag, wr[1].atomic.to = to;
			break;
		}
		CHECK_EQ(weft_post_send(t.n[0].qp, wr, 2), 2);
		CHECK_MSG(vt_until(&t, VT_S, outstanding_never_two, &t), "opcode %u", ops[k]);
		vt_close(&t);
	}
}

WEFT_TEST_MAIN({"inline payloads", test_inline}, {"inline bounds", test_inline_bounds},
               {"gather and scatter", test_gather_scatter}, {"sge bounds", test_sge_bounds},
               {"lkeys", test_lkeys}, {"lkey of another thread", test_lkey_foreign},
               {"lists with a bad request", test_lists}, {"lists and full queues", test_lists_full},
               {"unsignalled", test_unsignalled}, {"fence", test_fence},
               {"fence: reads and the like", test_fence_reads})
