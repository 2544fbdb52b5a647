/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Every operation between two stacks, its data and its errors. Completion queues. */

#include <unistd.h>

#include "vt.h"
#include "weft_mem_find.h"

#define ALL_RIGHTS                                                                                 \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY)
#define LEN (300 * 1024)

static void
pair_open(struct vt *t)
{
	vt_open(t, NULL);
	vt_mem(&t->n[0], LEN, ALL_RIGHTS);
	vt_mem(&t->n[1], LEN, ALL_RIGHTS);
	vt_connect(t, NULL, NULL);
}

static uint64_t
base_to(const struct vt_node *n)
{
	return 0x100000000ULL * (n->id + 1);
}

static struct weft_wr
wr_write(struct vt *t, struct weft_sge *sg, uint32_t n, uint64_t off)
{
	return (struct weft_wr){
	        .wr_id = 1,
	        .opcode = WEFT_WR_WRITE,
	        .flags = WEFT_WR_SIGNALED,
	        .sg_list = sg,
	        .num_sge = n,
	        .rdma = {.stag = weft_mr_stag(t->n[1].mr), .to = base_to(&t->n[1]) + off}};
}

static struct weft_wr
wr_flush(struct vt *t, uint64_t off, uint32_t len)
{
	return (struct weft_wr){.wr_id = 2,
	                        .opcode = WEFT_WR_FLUSH,
	                        .flags = WEFT_WR_SIGNALED,
	                        .flush = {.stag = weft_mr_stag(t->n[1].mr),
	                                  .to = base_to(&t->n[1]) + off,
	                                  .len_bytes = len,
	                                  .flags = WEFT_FLUSH_VISIBLE}};
}

static void
test_write_read(void)
{
	static const uint32_t sizes[] = {0, 1, 7, 8, 1447, 1448, 1449, 4096, 65536, 200000};
	struct weft_wc wc;
	struct vt t;

	pair_open(&t);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint32_t n = sizes[i];
		struct weft_sge sg[3] = {
		        {.addr = t.n[0].mem, .len_bytes = n / 3},
		        {.addr = t.n[0].mem + n / 3, .len_bytes = 0},
		        {.addr = t.n[0].mem + n / 3, .len_bytes = n - n / 3},
		};
		struct weft_wr wr = wr_write(&t, sg, 3, 13);

		vt_fill(t.n[0].mem, n, i + 100);
		vt_post(&t.n[0], &wr);
		wc = vt_wc(&t.n[0]);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		CHECK_EQ(wc.opcode, WEFT_WC_WRITE);
		CHECK_EQ(wc.len_bytes, n);
		CHECK(wc.qp == t.n[0].qp && wc.qp_user == &t.n[0]);
		/* Read it back to another place. The Write is placed before the Read is carried
		 * out. */
		sg[0] = (struct weft_sge){t.n[0].mem + 250 * 1024 - n % 5, n < 40000 ? n : 40000,
		                          weft_mr_stag(t.n[0].mr)};
		wr = (struct weft_wr){.wr_id = 9,
		                      .opcode = WEFT_WR_READ,
		                      .flags = WEFT_WR_SIGNALED,
		                      .sg_list = sg,
		                      .num_sge = 1,
		                      .rdma = {weft_mr_stag(t.n[1].mr), base_to(&t.n[1]) + 13}};
		vt_post(&t.n[0], &wr);
		wc = vt_wc(&t.n[0]);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		CHECK_EQ(wc.opcode, WEFT_WC_READ);
		CHECK_EQ(wc.len_bytes, sg[0].len_bytes);
		CHECK_MEM(t.n[1].mem + 13, t.n[0].mem, n);
		CHECK_MEM(sg[0].addr, t.n[0].mem, sg[0].len_bytes);
	}
	vt_close(&t);
}

static void
test_send(void)
{
	uint8_t in[3][5000];
	struct weft_wc wc;
	struct vt t;

	pair_open(&t);
	for (uint64_t i = 0; i < 3; i++)
		vt_post_recv(&t.n[1], in[i], sizeof(in[i]), 40 + i);
	vt_fill(t.n[0].mem, 5000, 5);
	for (uint32_t i = 0; i < 3; i++) {
		static const uint32_t len[] = {5000, 0, 17};
		struct weft_sge sg = {.addr = t.n[0].mem, .len_bytes = len[i]};
		struct weft_wr wr = {.wr_id = i,
		                     .opcode = WEFT_WR_SEND,
		                     .flags = i == 1 ? WEFT_WR_SOLICITED : WEFT_WR_SIGNALED,
		                     .sg_list = &sg,
		                     .num_sge = 1};

		vt_post(&t.n[0], &wr);
		wc = vt_wc(&t.n[1]);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		CHECK_EQ(wc.opcode, WEFT_WC_RECV);
		CHECK_EQ(wc.wr_id, 40 + i);
		CHECK_EQ(wc.len_bytes, len[i]);
		CHECK_EQ(wc.flags, i == 1 ? WEFT_WC_SOLICITED : 0);
		CHECK_MEM(in[i], t.n[0].mem, len[i]);
	}
	/* the second is unsignaled */
	CHECK_EQ(vt_wc(&t.n[0]).wr_id, 0);
	CHECK_EQ(vt_wc(&t.n[0]).wr_id, 2);
	CHECK_EQ(weft_cq_poll(t.n[0].cq, &wc, 1), 0);
	vt_close(&t);
}

static void
test_send_invalidate(void)
{
	struct weft_sge sg;
	struct weft_wr wr;
	struct weft_wc wc;
	uint8_t in[16];
	struct vt t;

	pair_open(&t);
	vt_post_recv(&t.n[1], in, sizeof(in), 1);
	sg = (struct weft_sge){.addr = t.n[0].mem, .len_bytes = 4};
	wr = (struct weft_wr){.opcode = WEFT_WR_SEND_INV,
	                      .flags = WEFT_WR_SOLICITED,
	                      .sg_list = &sg,
	                      .num_sge = 1,
	                      .send.inv_stag = weft_mr_stag(t.n[1].mr)};
	vt_post(&t.n[0], &wr);
	wc = vt_wc(&t.n[1]);
	CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
	CHECK_EQ(wc.flags, WEFT_WC_INV | WEFT_WC_SOLICITED);
	CHECK_EQ(wc.inv_stag, weft_mr_stag(t.n[1].mr));
	CHECK_EQ(weft_mem_count(inside_mem(t.n[1].ctx)), 0);
	/* the STag is invalid: a Write to it causes a Terminate */
	wr = wr_write(&t, &sg, 1, 0);
	vt_post(&t.n[0], &wr);
	struct weft_event ev = vt_ev(&t.n[1], WEFT_EV_TERMINATED);
	CHECK(ev.term.ours);
	CHECK_EQ(ev.term.layer, 1);
	CHECK_EQ(ev.term.etype, 1);
	CHECK_EQ(ev.term.code, 0);
	ev = vt_ev(&t.n[0], WEFT_EV_TERMINATED);
	CHECK(!ev.term.ours);
	CHECK_EQ(ev.term.layer, 1);
	vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
	vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
	vt_close(&t); /* the handle still exists and is deregistered here */
}

static void
test_placement_ops(void)
{
	uint8_t crc[4], got[8] = {0};
	struct weft_wr wr;
	struct weft_wc wc;
	struct vt t;

	pair_open(&t);
	vt_fill(t.n[0].mem, LEN, 77);
	struct weft_sge sg = {.addr = t.n[0].mem, .len_bytes = 100000};
	struct weft_wr all[5];
	vt_crc32c(t.n[0].mem, 100000, crc);
	all[0] = wr_write(&t, &sg, 1, 64);
	all[1] = wr_flush(&t, 64, 100000);
	all[2] = (struct weft_wr){.wr_id = 3,
	                          .opcode = WEFT_WR_VERIFY,
	                          .flags = WEFT_WR_SIGNALED,
	                          .verify = {.stag = weft_mr_stag(t.n[1].mr),
	                                     .to = base_to(&t.n[1]) + 64,
	                                     .len_bytes = 100000,
	                                     .expect = crc,
	                                     .expect_bytes = 4,
	                                     .result = got,
	                                     .result_bytes = sizeof(got)}};
	all[3] = (struct weft_wr){.wr_id = 4,
	                          .opcode = WEFT_WR_ATOMIC_WRITE,
	                          .flags = WEFT_WR_SIGNALED,
	                          .atomic_write = {.stag = weft_mr_stag(t.n[1].mr),
	                                           .to = base_to(&t.n[1]),
	                                           .data = {1, 2, 3, 4, 5, 6, 7, 8}}};
	all[4] = wr_flush(&t, 0, 8);
	all[4].wr_id = 5;
	CHECK_EQ(weft_post_send(t.n[0].qp, all, 5), 5);
	for (unsigned int i = 0; i < 5; i++) {
		static const uint8_t op[] = {WEFT_WC_WRITE, WEFT_WC_FLUSH, WEFT_WC_VERIFY,
		                             WEFT_WC_ATOMIC_WRITE, WEFT_WC_FLUSH};

		wc = vt_wc(&t.n[0]);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, i == 1 ? 2 : i + 1);
		CHECK_EQ(wc.opcode, op[i]);
		if (op[i] == WEFT_WC_VERIFY)
			CHECK_EQ(wc.len_bytes, 4);
	}
	CHECK_MEM(got, crc, 4);
	CHECK_MEM(t.n[1].mem, "\1\2\3\4\5\6\7\10", 8);
	CHECK_MEM(t.n[1].mem + 64, t.n[0].mem, 100000);
	/* without an expected value */
	memset(got, 0, sizeof(got));
	all[2].verify.expect = NULL;
	all[2].verify.expect_bytes = 0;
	vt_post(&t.n[0], &all[2]);
	CHECK_EQ(vt_wc(&t.n[0]).status, WEFT_WC_SUCCESS);
	CHECK_MEM(got, crc, 4);
	/* a wrong hash: the Verify fails, later requests are flushed, and the target gets an event
	 * with the range */
	crc[0] ^= 1;
	all[2].verify.expect = crc;
	all[2].verify.expect_bytes = 4;
	wr = all[3];
	wr.atomic_write.data[0] = 0xee;
	vt_post(&t.n[0], &all[2]);
	vt_post(&t.n[0], &wr);
	wc = vt_wc(&t.n[0]);
	CHECK_EQ(wc.wr_id, 3);
	CHECK_EQ(wc.status, WEFT_WC_HASH_MISMATCH);
	wc = vt_wc(&t.n[0]);
	CHECK_EQ(wc.wr_id, 4);
	CHECK_EQ(wc.status, WEFT_WC_FLUSHED);
	CHECK_EQ(t.n[1].mem[0], 1); /* never carried out */
	struct weft_event ev = vt_ev(&t.n[1], WEFT_EV_BAD_RANGE);
	CHECK_EQ(ev.bad_range.stag, weft_mr_stag(t.n[1].mr));
	CHECK_EQ(ev.bad_range.to, base_to(&t.n[1]) + 64);
	CHECK_EQ(ev.bad_range.len_bytes, 100000);
	vt_ev(&t.n[1], WEFT_EV_TERMINATED);
	vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
	ev = vt_ev(&t.n[0], WEFT_EV_TERMINATED);
	char s[80];
	struct weft_terminate term = ev.term;
	CHECK_STR(weft_terminate_str(&term, s, sizeof(s)),
	          "RDMA layer: remote operation error: hash mismatch");
	struct weft_qp_info info;
	weft_qp_query(t.n[0].qp, &info);
	CHECK(info.terminated);
	vt_close(&t);
}

/** A faulty request completes at the initiator with this status, and the Terminate has this
 * code. */
static void
expect_refusal(void (*change)(struct vt *t, struct weft_wr *wr),
               struct weft_wr (*make)(struct vt *t), enum weft_wc_status want, uint8_t layer,
               uint8_t etype, uint8_t code)
{
	struct weft_wr wr;
	struct weft_wc wc;
	struct weft_event ev;
	struct vt t;

	pair_open(&t);
	wr = make(&t);
	change(&t, &wr);
	vt_post(&t.n[0], &wr);
	wc = vt_wc(&t.n[0]);
	CHECK_EQ(wc.status, want);
	ev = vt_ev(&t.n[0], WEFT_EV_TERMINATED);
	CHECK_EQ(ev.term.layer, layer);
	CHECK_EQ(ev.term.etype, etype);
	CHECK_EQ(ev.term.code, code);
	ev = vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
	vt_close(&t);
}

static struct weft_wr
make_read(struct vt *t)
{
	static struct weft_sge sg;

	sg = (struct weft_sge){t->n[0].mem, 100, weft_mr_stag(t->n[0].mr)};
	return (struct weft_wr){.opcode = WEFT_WR_READ,
	                        .sg_list = &sg,
	                        .num_sge = 1,
	                        .rdma = {weft_mr_stag(t->n[1].mr), base_to(&t->n[1])}};
}

static struct weft_wr
make_flush(struct vt *t)
{
	return wr_flush(t, 0, 100);
}

static void
bad_stag(struct vt *t, struct weft_wr *wr)
{
	(void)t;
	if (wr->opcode == WEFT_WR_READ)
		wr->rdma.stag ^= 0x5a5a0000;
	else
		wr->flush.stag ^= 0x5a5a0000;
}

static void
bad_bounds(struct vt *t, struct weft_wr *wr)
{
	if (wr->opcode == WEFT_WR_READ)
		wr->rdma.to = base_to(&t->n[1]) + LEN - 99;
	else
		wr->flush.to = base_to(&t->n[1]) - 1;
}

static void
bad_right(struct vt *t, struct weft_wr *wr)
{
	(void)t;
	wr->flush.flags = WEFT_FLUSH_PERSISTENT;
}

static void
test_refusals(void)
{
	expect_refusal(bad_stag, make_read, WEFT_WC_REMOTE_ACCESS, 0, 1, 0);
	expect_refusal(bad_bounds, make_read, WEFT_WC_REMOTE_ACCESS, 0, 1, 1);
	expect_refusal(bad_stag, make_flush, WEFT_WC_REMOTE_ACCESS, 0, 1, 0);
	expect_refusal(bad_bounds, make_flush, WEFT_WC_REMOTE_ACCESS, 0, 1, 1);
	expect_refusal(bad_right, make_flush, WEFT_WC_REMOTE_ACCESS, 0, 1, 2);
}

static void
test_no_receive(void)
{
	struct weft_event ev;
	struct vt t;

	pair_open(&t);
	struct weft_sge sg = {.addr = t.n[0].mem, .len_bytes = 10};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};
	vt_post(&t.n[0], &wr);
	ev = vt_ev(&t.n[1], WEFT_EV_TERMINATED);
	CHECK_EQ(ev.term.layer, 1);
	CHECK_EQ(ev.term.etype, 2);
	CHECK_EQ(ev.term.code, 2);
	ev = vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
	CHECK(ev.status != 0 || true);
	vt_close(&t);
	/* a message longer than the receive */
	uint8_t small[4];
	struct weft_wc wc;
	pair_open(&t);
	vt_post_recv(&t.n[1], small, sizeof(small), 3);
	sg.addr = t.n[0].mem;
	vt_post(&t.n[0], &wr);
	wc = vt_wc(&t.n[1]);
	CHECK_EQ(wc.wr_id, 3);
	CHECK_EQ(wc.status, WEFT_WC_LOCAL_LENGTH);
	ev = vt_ev(&t.n[1], WEFT_EV_TERMINATED);
	CHECK_EQ(ev.term.code, 5);
	vt_close(&t);
}

static void
test_post_errors(void)
{
	struct weft_sge sg[5] = {{0}};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND}, many[8];
	struct weft_recv_wr rr = {.sg_list = sg, .num_sge = 5};
	struct weft_qp_attr qa;
	struct weft_wc wc;
	struct vt t;

	vt_open(&t, NULL);
	vt_mem(&t.n[0], LEN, WEFT_ACCESS_LOCAL_WRITE);
	vt_mem(&t.n[1], LEN, ALL_RIGHTS);
	qa = vt_qp_attr(&t.n[0]);
	qa.sq_depth = 6;
	qa.rq_depth = 2;
	/* not connected yet */
	CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &t.n[0].qp), 0);
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -ENOTCONN);
	CHECK_EQ(weft_disconnect(t.n[0].qp), -ENOTCONN);
	weft_qp_destroy(t.n[0].qp);
	vt_connect(&t, &qa, NULL);

	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 0), 0);
	wr.opcode = 99;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	wr.opcode = WEFT_WR_WRITE;
	wr.flags = WEFT_WR_SOLICITED;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	wr.flags = 0x80;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	wr.flags = 0;
	wr.num_sge = 1; /* without a list */
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	wr.sg_list = sg;
	wr.num_sge = 5;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	sg[0].len_bytes = 1; /* without an address */
	wr.num_sge = 1;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	sg[0].addr = sg[1].addr = t.n[0].mem; /* longer than 2^32 - 1 in all */
	sg[0].len_bytes = sg[1].len_bytes = 0x80000000;
	wr.num_sge = 2;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	/* Reads: one SGE, in a local region with local write */
	wr.opcode = WEFT_WR_READ;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	wr.num_sge = 1;
	sg[0] = (struct weft_sge){t.n[0].mem, 10, 0};
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	sg[0].lkey = weft_mr_stag(t.n[0].mr);
	sg[0].len_bytes = LEN + 1;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	sg[0].addr = t.n[0].mem - 1;
	sg[0].len_bytes = 1;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	sg[0].addr = t.n[0].mem + LEN;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	/* Flush, Verify */
	wr = wr_flush(&t, 0, 8);
	wr.flush.flags = 0;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	wr.flush.flags = WEFT_FLUSH_VISIBLE | 0x10;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	wr = (struct weft_wr){.opcode = WEFT_WR_VERIFY, .verify = {.expect_bytes = 4}};
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	wr.verify.expect = t.n[0].mem;
	wr.verify.expect_bytes = WEFT_HASH_MAX_BYTES + 1;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	/* a list is posted up to the malformed request, and up to the depth */
	for (unsigned int i = 0; i < 8; i++) {
		many[i] = wr_flush(&t, 0, 8);
		many[i].wr_id = i;
	}
	many[2].flags = 0x80;
	CHECK_EQ(weft_post_send(t.n[0].qp, many, 8), 2);
	many[2].flags = WEFT_WR_SIGNALED;
	CHECK_EQ(weft_post_send(t.n[0].qp, &many[2], 6), 4);
	CHECK_EQ(weft_post_send(t.n[0].qp, &many[6], 2), -EAGAIN);
	struct weft_qp_info info;
	weft_qp_query(t.n[0].qp, &info);
	CHECK_EQ(info.sq_used, 6);
	for (unsigned int i = 0; i < 6; i++) {
		wc = vt_wc(&t.n[0]);
		CHECK_EQ(wc.wr_id, i);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
	}
	CHECK_EQ(weft_post_send(t.n[0].qp, &many[6], 2), 2);
	CHECK_EQ(vt_wc(&t.n[0]).wr_id, 6);
	CHECK_EQ(vt_wc(&t.n[0]).wr_id, 7);
	/* receives */
	CHECK_EQ(weft_post_recv(t.n[0].qp, &rr, 1), -EINVAL);
	rr.num_sge = 1;
	rr.wr_id = 70;
	sg[0] = (struct weft_sge){t.n[0].mem, 10, 0};
	CHECK_EQ(weft_post_recv(t.n[0].qp, &rr, 1), 1);
	CHECK_EQ(weft_post_recv(t.n[0].qp, &rr, 1), 1);
	CHECK_EQ(weft_post_recv(t.n[0].qp, &rr, 1), -EAGAIN);
	/* after the end, posting is accepted and completes as flushed */
	CHECK_EQ(weft_disconnect(t.n[1].qp), 0);
	vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
	for (unsigned int i = 0; i < 2; i++) {
		wc = vt_wc(&t.n[0]);
		CHECK_EQ(wc.wr_id, 70);
		CHECK_EQ(wc.opcode, WEFT_WC_RECV);
		CHECK_EQ(wc.status, WEFT_WC_FLUSHED);
	}
	rr.wr_id = 71;
	CHECK_EQ(weft_post_recv(t.n[0].qp, &rr, 1), 1);
	wc = vt_wc(&t.n[0]);
	CHECK_EQ(wc.wr_id, 71);
	CHECK_EQ(wc.status, WEFT_WC_FLUSHED);
	many[0].wr_id = 72;
	CHECK_EQ(weft_post_send(t.n[0].qp, many, 1), 1);
	wc = vt_wc(&t.n[0]);
	CHECK_EQ(wc.wr_id, 72);
	CHECK_EQ(wc.status, WEFT_WC_FLUSHED);
	vt_close(&t);
}

static void
test_ord_stall(void)
{
	struct weft_qp_attr a0, a1;
	struct weft_wr wr;
	struct vt t;

	/* Twenty Flushes with a depth of two are carried out in order. */
	vt_open(&t, NULL);
	vt_mem(&t.n[1], LEN, ALL_RIGHTS);
	a0 = vt_qp_attr(&t.n[0]);
	a1 = vt_qp_attr(&t.n[1]);
	a1.ird = 2;
	vt_connect(&t, &a0, &a1);
	for (unsigned int i = 0; i < 20; i++) {
		wr = wr_flush(&t, i, 8);
		wr.wr_id = i;
		vt_post(&t.n[0], &wr);
	}
	for (unsigned int i = 0; i < 20; i++) {
		struct weft_wc wc = vt_wc(&t.n[0]);

		CHECK_EQ(wc.wr_id, i);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
	}
	vt_close(&t);
}

/* ---- Completion queues ---- */

struct cb {
	struct vt *t;
	unsigned int wcs, bursts, flushed, established, disconnected;
	bool wc_before_established, wc_after_disconnected;
	enum { CB_COUNT, CB_DESTROY, CB_REPOST, CB_DISCONNECT } what;
	uint8_t buf[64];
};

static void
cb_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	struct cb *cb = user;

	CHECK(cq != NULL && n > 0 && wc != NULL);
	cb->bursts++;
	cb->wcs += n;
	for (unsigned int i = 0; i < n; i++)
		cb->flushed += wc[i].status == WEFT_WC_FLUSHED;
	cb->wc_before_established |= cb->established == 0;
	cb->wc_after_disconnected |= cb->disconnected > 0;
	if (cb->what == CB_DESTROY && cb->t->n[1].qp != NULL) {
		weft_qp_destroy(cb->t->n[1].qp);
		cb->t->n[1].qp = NULL;
	} else if (cb->what == CB_DISCONNECT) {
		weft_disconnect(wc->qp);
	} else if (cb->what == CB_REPOST && wc->status == WEFT_WC_SUCCESS && cb->wcs < 50) {
		struct weft_sge sg = {.addr = cb->buf, .len_bytes = sizeof(cb->buf)};
		struct weft_recv_wr rr = {.sg_list = &sg, .num_sge = 1};
		CHECK_EQ(weft_post_recv(wc->qp, &rr, 1), 1);
	}
}

static void
cb_ev(void *user, const struct weft_event *ev)
{
	struct cb *cb = user;
	struct vt_node *n = &cb->t->n[1];

	if (ev->type == WEFT_EV_CONNECT_REQUEST) {
		struct weft_qp_attr qa = vt_qp_attr(n);
		struct weft_sge sg = {.addr = cb->buf, .len_bytes = sizeof(cb->buf)};
		struct weft_recv_wr rr = {.wr_id = 1, .sg_list = &sg, .num_sge = 1};

		CHECK_EQ(weft_qp_create(n->pd, &qa, &n->qp), 0);
		for (unsigned int i = 0; i < 20; i++)
			CHECK_EQ(weft_post_recv(n->qp, &rr, 1), 1);
		CHECK_EQ(weft_accept(ev->connreq, n->qp, NULL), 0);
	}
	cb->established += ev->type == WEFT_EV_ESTABLISHED;
	cb->disconnected += ev->type == WEFT_EV_DISCONNECTED;
}

static void
cb_run(struct vt *t, struct cb *cb, int what)
{
	struct weft_cq_attr qa = {.size = sizeof(qa), .depth = 256, .on_wc = cb_wc, .user = cb};
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = cb_ev, .user = cb};
	struct vt_attr a = {.evq = {NULL, &ea}};
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_qp_attr qp;

	memset(cb, 0, sizeof(*cb));
	cb->t = t;
	cb->what = what;
	vt_open(t, &a);
	CHECK_EQ(weft_cq_destroy(t->n[1].cq), 0);
	CHECK_EQ(weft_cq_create(t->n[1].ctx, &qa, &t->n[1].cq), 0);
	CHECK_EQ(weft_evq_fd(t->n[1].evq), -1);
	vt_listen(&t->n[1]);
	qp = vt_qp_attr(&t->n[0]);
	CHECK_EQ(weft_qp_create(t->n[0].pd, &qp, &t->n[0].qp), 0);
	CHECK_EQ(weft_connect(t->n[0].qp, (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
	vt_ev(&t->n[0], WEFT_EV_ESTABLISHED);
	for (unsigned int i = 0; i < 10; i++) {
		struct weft_sge sg = {.addr = cb->buf, .len_bytes = 8};
		struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};

		vt_post(&t->n[0], &wr);
	}
	vt_run(t, VT_S);
}

static void
test_callbacks(void)
{
	struct weft_wc wc;
	struct cb cb;
	struct vt t;

	cb_run(&t, &cb, CB_REPOST);
	CHECK_EQ(cb.wcs, 10);
	CHECK_EQ(cb.established, 1);
	CHECK(!cb.wc_before_established);
	CHECK_EQ(weft_cq_poll(t.n[1].cq, &wc, 1), 0);
	CHECK_EQ(weft_disconnect(t.n[0].qp), 0);
	vt_run(&t, VT_S);
	CHECK_EQ(cb.disconnected, 1);
	CHECK(cb.flushed >= 10 && cb.wcs == 10 + cb.flushed);
	CHECK(!cb.wc_after_disconnected);
	vt_close(&t);

	/* destroyed in its own completion callback: outstanding requests complete as flushed,
	 * without an event */
	cb_run(&t, &cb, CB_DESTROY);
	CHECK_EQ(cb.disconnected, 0);
	CHECK_EQ(cb.wcs, 20);
	CHECK_EQ(cb.wcs - cb.flushed + cb.flushed, 20);
	CHECK_EQ(vt_ev(&t.n[0], WEFT_EV_DISCONNECTED).status, -ECONNRESET);
	vt_close(&t);

	cb_run(&t, &cb, CB_DISCONNECT);
	CHECK_EQ(cb.disconnected, 1);
	CHECK_EQ(cb.wcs, 20);
	vt_close(&t);
}

static void
test_arm(void)
{
	struct weft_cq_attr qa = {.size = sizeof(qa), .depth = 64, .want_fd = true};
	struct vt_attr a = {.cq = &qa};
	struct weft_wc wc[4];
	uint8_t buf[16];
	uint64_t v;
	struct vt t;

	vt_open(&t, &a);
	CHECK(weft_cq_fd(t.n[1].cq) >= 0);
	vt_connect(&t, NULL, NULL);
	for (unsigned int i = 0; i < 6; i++)
		vt_post_recv(&t.n[1], buf, sizeof(buf), i);
	struct weft_sge sg = {.addr = buf, .len_bytes = 4};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};
	/* not armed: no wake-up */
	vt_post(&t.n[0], &wr);
	vt_run(&t, VT_MS);
	CHECK_EQ(read(weft_cq_fd(t.n[1].cq), &v, 8), -1);
	CHECK_EQ(weft_cq_arm(t.n[1].cq, false), 1);
	CHECK_EQ(weft_cq_poll(t.n[1].cq, wc, 4), 1);
	CHECK_EQ(weft_cq_arm(t.n[1].cq, false), 0);
	/* armed: one wake-up */
	vt_post(&t.n[0], &wr);
	vt_run(&t, VT_MS);
	CHECK_EQ(read(weft_cq_fd(t.n[1].cq), &v, 8), 8);
	vt_post(&t.n[0], &wr);
	vt_run(&t, VT_MS);
	CHECK_EQ(read(weft_cq_fd(t.n[1].cq), &v, 8), -1);
	CHECK_EQ(weft_cq_poll(t.n[1].cq, wc, 4), 2);
	/* armed for solicited completions */
	CHECK_EQ(weft_cq_arm(t.n[1].cq, true), 0);
	vt_post(&t.n[0], &wr);
	vt_run(&t, VT_MS);
	CHECK_EQ(read(weft_cq_fd(t.n[1].cq), &v, 8), -1);
	wr.flags = WEFT_WR_SOLICITED;
	vt_post(&t.n[0], &wr);
	vt_run(&t, VT_MS);
	CHECK_EQ(read(weft_cq_fd(t.n[1].cq), &v, 8), 8);
	CHECK_EQ(weft_cq_poll(t.n[1].cq, wc, 4), 2);
	/* an error wakes a thread that waits for solicited completions */
	CHECK_EQ(weft_cq_arm(t.n[1].cq, true), 0);
	CHECK_EQ(weft_disconnect(t.n[0].qp), 0);
	vt_run(&t, VT_S);
	CHECK_EQ(read(weft_cq_fd(t.n[1].cq), &v, 8), 8);
	CHECK_EQ(weft_cq_poll(t.n[1].cq, wc, 4), 1);
	CHECK_EQ(wc[0].status, WEFT_WC_FLUSHED);
	vt_close(&t);
}

static void
test_overrun(void)
{
	struct vt_attr a = {.cq_depth = 4};
	struct weft_worker_stats st;
	struct weft_wc wc[8];
	struct weft_event ev;
	uint8_t buf[16];
	struct vt t;

	vt_open(&t, &a);
	vt_connect(&t, NULL, NULL);
	for (unsigned int i = 0; i < 6; i++)
		vt_post_recv(&t.n[1], buf, sizeof(buf), i);
	struct weft_sge sg = {.addr = buf, .len_bytes = 4};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};
	for (unsigned int i = 0; i < 4; i++)
		vt_post(&t.n[0], &wr);
	vt_run(&t, VT_MS);
	CHECK_EQ(weft_evq_poll(t.n[1].evq, &ev), 0); /* exactly full is no overrun */
	vt_post(&t.n[0], &wr);
	vt_ev(&t.n[1], WEFT_EV_CQ_OVERRUN);
	vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
	CHECK_EQ(weft_cq_poll(t.n[1].cq, wc, 8), -EOVERFLOW);
	CHECK_EQ(weft_cq_poll(t.n[1].cq, wc, 8), 4);
	CHECK_EQ(weft_cq_poll(t.n[1].cq, wc, 8), 0);
	weft_worker_stats(t.n[1].w, &st);
	CHECK_EQ(st.cq_overruns, 2); /* the fifth completion, and the flushed sixth */
	vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
	vt_close(&t);
}

static void
test_destroy_flushes(void)
{
	struct weft_wc wc;
	struct weft_event ev;
	uint8_t buf[16];
	struct vt t;

	pair_open(&t);
	for (unsigned int i = 0; i < 3; i++)
		vt_post_recv(&t.n[0], buf, sizeof(buf), 10 + i);
	for (unsigned int i = 0; i < 3; i++) {
		struct weft_wr wr = wr_flush(&t, 0, 8);

		wr.wr_id = i;
		wr.flags = 0;
		vt_post(&t.n[0], &wr);
	}
	weft_qp_destroy(t.n[0].qp);
	t.n[0].qp = NULL;
	for (unsigned int i = 0; i < 6; i++) {
		CHECK_EQ(weft_cq_poll(t.n[0].cq, &wc, 1), 1);
		CHECK_EQ(wc.status, WEFT_WC_FLUSHED);
		CHECK_EQ(wc.wr_id, i < 3 ? i : 7 + i);
	}
	CHECK_EQ(weft_cq_poll(t.n[0].cq, &wc, 1), 0);
	ev = vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
	CHECK_EQ(ev.status, -ECONNRESET);
	CHECK_EQ(weft_evq_poll(t.n[0].evq, &ev), 0);
	vt_close(&t);
}

static void
count_freed(void *arg)
{
	++*(unsigned int *)arg;
}

static void
test_dereg(void)
{
	unsigned int freed = 0;
	uint32_t stag;
	struct vt t;

	pair_open(&t);
	stag = weft_mr_stag(t.n[1].mr);
	weft_mr_dereg(t.n[1].mr, count_freed, &freed);
	t.n[1].mr = NULL;
	CHECK(weft_mem_lookup(inside_mem(t.n[1].ctx), stag) == NULL);
	for (unsigned int i = 0; i < 10 && freed == 0; i++)
		weft_engine_poll_at(t.n[1].w, sim_now_ns(t.sim));
	CHECK_EQ(freed, 1);
	vt_close(&t);
	CHECK_EQ(freed, 1);
}

/** Texts of Terminates, statuses, events and states, also of unknown values. */
static void
test_strings(void)
{
	struct weft_terminate t = {.layer = 2, .etype = 0, .code = 6};
	char s[100];

	CHECK_STR(weft_terminate_str(&t, s, sizeof(s)),
	          "MPA layer: stream error: insufficient IRD resources");
	t = (struct weft_terminate){.layer = 1, .etype = 2, .code = 0x44};
	CHECK_STR(weft_terminate_str(&t, s, sizeof(s)),
	          "DDP layer: untagged buffer error: code 0x44");
	t = (struct weft_terminate){.layer = 15, .etype = 9, .code = 1};
	CHECK_STR(weft_terminate_str(&t, s, sizeof(s)), "?: unknown type: code 0x01");
	CHECK_STR(weft_wc_status_str(WEFT_WC_HASH_MISMATCH), "hash mismatch");
	CHECK_STR(weft_wc_status_str(1000), "?");
	CHECK_STR(weft_event_str(WEFT_EV_BAD_RANGE), "bad range");
	CHECK_STR(weft_qp_state_str(WEFT_QP_TERMINATE), "TERMINATE");
	for (unsigned int l = 0; l < 4; l++)
		for (unsigned int e = 0; e < 16; e++)
			for (unsigned int c = 0; c < 256; c++) {
				t = (struct weft_terminate){(uint8_t)l, (uint8_t)e, (uint8_t)c,
				                            false};
				CHECK(weft_terminate_str(&t, s, sizeof(s)) == s);
			}
}

WEFT_TEST_MAIN({"write and read", test_write_read}, {"send", test_send},
               {"send with invalidate", test_send_invalidate},
               {"flush, verify, atomic write", test_placement_ops}, {"refusals", test_refusals},
               {"no receive, short receive", test_no_receive},
               {"errors of posting", test_post_errors}, {"stall at ORD", test_ord_stall},
               {"callbacks", test_callbacks}, {"arming", test_arm}, {"overrun", test_overrun},
               {"destroy flushes", test_destroy_flushes}, {"deregistration", test_dereg},
               {"strings", test_strings})
