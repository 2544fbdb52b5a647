/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * RFC 7306 between two stacks: Atomic Operations and Immediate Data, their results and completions,
 * over links that lose and reorder packets. Requests are refused when posted and by the peer.
 * Several threads change one word.
 */

#include <arpa/inet.h>
#include <stdatomic.h>
#include <unistd.h>

#include <rte_ethdev.h>
#include <rte_ring.h>

#include "mt_rig.h"
#include "test_xorshift.h"
#include "weft_netif_mbuf.h"

#define LEN 65536
#define RIGHTS                                                                                     \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_VISIBLE)

static uint64_t
base_to(const struct vt_node *n)
{
	return 0x100000000ULL * (n->id + 1);
}

static void
pair_open(struct vt *t, const struct vt_attr *a)
{
	vt_open(t, a);
	vt_mem(&t->n[0], LEN, RIGHTS);
	vt_mem(&t->n[1], LEN, RIGHTS);
	vt_connect(t, NULL, NULL);
}

static uint64_t *
word(struct vt_node *n, uint64_t off)
{
	return (uint64_t *)(void *)(n->mem + off);
}

/** An Atomic on the peer's word at offset off. Its result goes to *was. */
static struct weft_wr
wr_atomic(struct vt *t, enum weft_wr_opcode op, uint64_t off, struct weft_sge *sg, uint64_t *was)
{
	*sg = (struct weft_sge){.addr = was, .len_bytes = 8};
	return (struct weft_wr){
	        .opcode = op,
	        .flags = WEFT_WR_SIGNALED,
	        .sg_list = sg,
	        .num_sge = 1,
	        .atomic = {.stag = weft_mr_stag(t->n[1].mr), .to = base_to(&t->n[1]) + off}};
}

static void
test_atomics(void)
{
	static const struct {
		enum weft_wr_opcode op;
		uint64_t orig, data, mask, compare, compare_mask, want;
		enum weft_wc_opcode wc;
	} rows[] = {
	        /* unmasked operations ignore the mask */
	        {WEFT_WR_FETCH_ADD, 40, 2, 0xdead, 1, 1, 42, WEFT_WC_FETCH_ADD},
	        {WEFT_WR_FETCH_ADD, 0, UINT64_MAX, 0, 0, 0, UINT64_MAX, WEFT_WC_FETCH_ADD},
	        {WEFT_WR_MASKED_FETCH_ADD, 0x00ff00ff, 0x00010001, 0x00800080, 0, 0, 0x00000000,
	         WEFT_WC_FETCH_ADD},
	        {WEFT_WR_CMP_SWAP, 7, 8, 0, 7, 0, 8, WEFT_WC_CMP_SWAP},
	        {WEFT_WR_CMP_SWAP, 7, 8, UINT64_MAX, 6, 0, 7, WEFT_WC_CMP_SWAP},
	        {WEFT_WR_MASKED_CMP_SWAP, 0x1234, 0xabcd, 0xff00, 0x0034, 0x00ff, 0xab34,
	         WEFT_WC_CMP_SWAP},
	        {WEFT_WR_MASKED_CMP_SWAP, 0x1234, 0xabcd, 0xff00, 0x0035, 0x00ff, 0x1234,
	         WEFT_WC_CMP_SWAP},
	        /* a masked swap without a comparison */
	        {WEFT_WR_MASKED_CMP_SWAP, 0x1234, 0xabcd, 0x00ff, 99, 0, 0x12cd, WEFT_WC_CMP_SWAP},
	};
	struct weft_sge sg;
	struct weft_wr wr;
	struct weft_wc wc;
	struct vt t;

	pair_open(&t, NULL);
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint8_t result[9]; /* not aligned: any memory may hold a result */
		uint64_t was;

		*word(&t.n[1], 64) = rows[i].orig;
		wr = wr_atomic(&t, rows[i].op, 64, &sg, NULL);
		sg.addr = result + 1;
		wr.wr_id = i;
		wr.atomic.data = rows[i].data;
		wr.atomic.mask = rows[i].mask;
		wr.atomic.compare = rows[i].compare;
		wr.atomic.compare_mask = rows[i].compare_mask;
		vt_post(&t.n[0], &wr);
		wc = vt_wc(&t.n[0]);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		CHECK_EQ(wc.opcode, rows[i].wc);
		CHECK_EQ(wc.wr_id, i);
		CHECK_EQ(wc.len_bytes, 8);
		memcpy(&was, result + 1, 8);
		CHECK_EQ(was, rows[i].orig);
		CHECK_EQ(*word(&t.n[1], 64), rows[i].want);
		CHECK_EQ(*word(&t.n[1], 56), 0);
		CHECK_EQ(*word(&t.n[1], 72), 0);
	}
	/* a request without memory for the result (RFC 7306 s1.1 asks so whether the peer supports
	 * Atomics) */
	wr = wr_atomic(&t, WEFT_WR_FETCH_ADD, 64, &sg, NULL);
	wr.num_sge = 0;
	wr.sg_list = NULL;
	vt_post(&t.n[0], &wr);
	CHECK_EQ(vt_wc(&t.n[0]).status, WEFT_WC_SUCCESS);
	CHECK_EQ(*word(&t.n[1], 64), 0x12cd);
	vt_close(&t);
}

/** Malformed requests are refused when posted. */
static void
test_refused_posts(void)
{
	struct weft_sge sg[2];
	uint64_t was[2];
	struct weft_wr wr;
	struct vt t;

	pair_open(&t, NULL);
	for (enum weft_wr_opcode op = WEFT_WR_FETCH_ADD; op <= WEFT_WR_MASKED_CMP_SWAP; op++) {
		for (uint32_t n = 0; n < 20; n++) {
			wr = wr_atomic(&t, op, 0, sg, was);
			sg[0].len_bytes = n;
			if (n != 8)
				CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
		}
		wr = wr_atomic(&t, op, 0, sg, NULL);
		CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
		wr = wr_atomic(&t, op, 0, sg, was);
		wr.num_sge = 2;
		sg[1] = (struct weft_sge){&was[1], 8, 0};
		CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
		wr.num_sge = 1;
		wr.sg_list = NULL;
		CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
		wr = wr_atomic(&t, op, 0, sg, was);
		wr.flags |= WEFT_WR_SOLICITED;
		CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
		wr.flags = WEFT_WR_INLINE;
		CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
		/* with an lkey, the region must exist and be writable */
		wr = wr_atomic(&t, op, 0, sg, was);
		sg[0].lkey = weft_mr_stag(t.n[0].mr);
		CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	}
	wr = (struct weft_wr){.opcode = WEFT_WR_IMM, .sg_list = sg, .num_sge = 1};
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	wr = (struct weft_wr){.opcode = WEFT_WR_IMM, .flags = WEFT_WR_INLINE};
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	vt_close(&t);
}

/** The result goes to memory with an lkey. Its region is deregistered before the response
 * arrives. */
static void
test_result_lkey(void)
{
	struct weft_mr_attr ma = {
	        .size = sizeof(ma), .len_bytes = 64, .access = WEFT_ACCESS_LOCAL_WRITE};
	static uint64_t area[8], foreign;
	struct weft_mr *mr, *ro;
	struct weft_sge sg;
	struct weft_wr wr;
	struct weft_wc wc;
	struct vt t;

	pair_open(&t, NULL);
	ma.addr = area;
	CHECK_EQ(weft_mr_reg(t.n[0].pd, &ma, &mr), 0);
	ma.access = WEFT_ACCESS_REMOTE_READ;
	CHECK_EQ(weft_mr_reg(t.n[0].pd, &ma, &ro), 0);
	*word(&t.n[1], 0) = 5;
	wr = wr_atomic(&t, WEFT_WR_FETCH_ADD, 0, &sg, &area[3]);
	wr.atomic.data = 1;
	sg.lkey = weft_mr_stag(ro);
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	sg.lkey = weft_mr_stag(mr);
	sg.addr = &foreign;
	CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), -EINVAL);
	sg.addr = &area[3];
	vt_post(&t.n[0], &wr);
	CHECK_EQ(vt_wc(&t.n[0]).status, WEFT_WC_SUCCESS);
	CHECK_EQ(area[3], 5);
	/* two requests, whose responses arrive together */
	vt_post(&t.n[0], &wr);
	vt_post(&t.n[0], &wr);
	weft_mr_dereg(mr, NULL, NULL);
	for (unsigned int i = 0; i < 2; i++) {
		wc = vt_wc(&t.n[0]);
		CHECK_EQ(wc.status, WEFT_WC_LOCAL_PROT);
	}
	CHECK_EQ(wc.opcode, WEFT_WC_FETCH_ADD);
	CHECK_EQ(area[3], 5);
	vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
	vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
	CHECK_EQ(*word(&t.n[1], 0), 8); /* the peer carried out both */
	weft_mr_dereg(ro, NULL, NULL);
	vt_close(&t);
}

/** Completions arrive in the order of the posts, among other operations. An unsignaled request has
 * no completion. */
static void
test_order(void)
{
	struct weft_sge sg[6], src;
	uint64_t was[6] = {0}, sink;
	struct weft_wr wr[6];
	struct weft_wc wc;
	struct vt t;

	pair_open(&t, NULL);
	*word(&t.n[0], 0) = 100;
	src = (struct weft_sge){t.n[0].mem, 8, 0};
	wr[0] = (struct weft_wr){.opcode = WEFT_WR_WRITE,
	                         .flags = WEFT_WR_SIGNALED,
	                         .sg_list = &src,
	                         .num_sge = 1,
	                         .rdma = {weft_mr_stag(t.n[1].mr), base_to(&t.n[1])}};
	wr[1] = wr_atomic(&t, WEFT_WR_FETCH_ADD, 0, &sg[1], &was[1]);
	wr[1].atomic.data = 1;
	sg[2] = (struct weft_sge){t.n[0].mem + 64, 8, weft_mr_stag(t.n[0].mr)};
	wr[2] = (struct weft_wr){.opcode = WEFT_WR_READ,
	                         .flags = WEFT_WR_SIGNALED,
	                         .sg_list = &sg[2],
	                         .num_sge = 1,
	                         .rdma = {weft_mr_stag(t.n[1].mr), base_to(&t.n[1])}};
	wr[3] = wr_atomic(&t, WEFT_WR_CMP_SWAP, 0, &sg[3], &was[3]);
	wr[3].atomic.compare = 101;
	wr[3].atomic.data = 500;
	wr[3].flags = 0;
	wr[4] = (struct weft_wr){
	        .opcode = WEFT_WR_FLUSH,
	        .flags = WEFT_WR_SIGNALED,
	        .flush = {weft_mr_stag(t.n[1].mr), base_to(&t.n[1]), 8, WEFT_FLUSH_VISIBLE}};
	wr[5] = wr_atomic(&t, WEFT_WR_FETCH_ADD, 0, &sg[5], &was[5]);
	wr[5].atomic.data = 1;
	for (unsigned int i = 0; i < 6; i++)
		wr[i].wr_id = i;
	CHECK_EQ(weft_post_send(t.n[0].qp, wr, 6), 6);
	for (unsigned int i = 0; i < 6; i++) {
		if (i == 3)
			continue;
		wc = vt_wc(&t.n[0]);
		CHECK_EQ(wc.wr_id, i);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
	}
	memcpy(&sink, t.n[0].mem + 64, 8);
	CHECK_EQ(was[1], 100);
	CHECK_EQ(sink, 101);
	CHECK_EQ(was[3], 101);
	CHECK_EQ(was[5], 500);
	CHECK_EQ(*word(&t.n[1], 0), 501);
	vt_close(&t);
}

/** Each refusal of RFC 7306 s8.2 and what both nodes report. */
static void
test_errors(void)
{
	static const struct {
		const char *what;
		uint64_t off;
		uint32_t access, stag_xor;
		uint8_t etype, code;
		enum weft_wc_status status;
	} rows[] = {
	        {"not aligned", 4, RIGHTS, 0, 2, 0x07, WEFT_WC_REMOTE_OP},
	        {"behind the region", LEN, RIGHTS, 0, 1, 0x01, WEFT_WC_REMOTE_ACCESS},
	        {"no right", 0, RIGHTS & ~WEFT_ACCESS_REMOTE_ATOMIC, 0, 1, 0x02,
	         WEFT_WC_REMOTE_ACCESS},
	        {"no such STag", 0, RIGHTS, 0x800, 1, 0x00, WEFT_WC_REMOTE_ACCESS},
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t was = 77;
		struct weft_event ev;
		struct weft_sge sg;
		struct weft_wr wr;
		struct weft_wc wc;
		struct vt t;

		vt_open(&t, NULL);
		vt_mem(&t.n[0], LEN, RIGHTS);
		vt_mem(&t.n[1], LEN, rows[i].access);
		vt_connect(&t, NULL, NULL);
		wr = wr_atomic(&t, WEFT_WR_FETCH_ADD, rows[i].off, &sg, &was);
		wr.atomic.stag ^= rows[i].stag_xor;
		wr.atomic.data = 1;
		vt_post(&t.n[0], &wr);
		wc = vt_wc(&t.n[0]);
		CHECK_MSG(wc.status == rows[i].status, "%s: %s", rows[i].what,
		          weft_wc_status_str(wc.status));
		CHECK_EQ(was, 77);
		ev = vt_ev(&t.n[1], WEFT_EV_TERMINATED);
		CHECK(ev.term.ours && ev.term.layer == 0);
		CHECK_EQ(ev.term.etype, rows[i].etype);
		CHECK_EQ(ev.term.code, rows[i].code);
		ev = vt_ev(&t.n[0], WEFT_EV_TERMINATED);
		CHECK(!ev.term.ours && ev.term.code == rows[i].code);
		for (unsigned int k = 0; k < LEN; k++)
			CHECK_EQ(t.n[1].mem[k], 0);
		vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
		vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
		vt_close(&t);
	}
}

/* ---- Immediate Data ---- */

static void
test_imm(void)
{
	uint8_t in[4][16];
	struct weft_sge src;
	struct weft_wr wr;
	struct weft_wc wc;
	struct vt t;

	pair_open(&t, NULL);
	memset(in, 0xee, sizeof(in));
	for (uint64_t i = 0; i < 4; i++)
		vt_post_recv(&t.n[1], in[i], i == 1 ? 0 : 16, 40 + i);
	wr = (struct weft_wr){.wr_id = 1, .opcode = WEFT_WR_IMM, .flags = WEFT_WR_SIGNALED};
	memcpy(wr.imm.data, "immediat", 8);
	vt_post(&t.n[0], &wr);
	wr.flags |= WEFT_WR_SOLICITED;
	wr.wr_id = 2;
	memcpy(wr.imm.data, "\0\1\2\3\4\5\6\7", 8);
	vt_post(&t.n[0], &wr);
	for (unsigned int i = 0; i < 2; i++) {
		wc = vt_wc(&t.n[0]);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		CHECK_EQ(wc.opcode, WEFT_WC_IMM);
		CHECK_EQ(wc.wr_id, 1 + i);
		CHECK_EQ(wc.len_bytes, 8);
		/* the second uses a receive without memory, which suffices */
		wc = vt_wc(&t.n[1]);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		CHECK_EQ(wc.opcode, WEFT_WC_RECV_IMM);
		CHECK_EQ(wc.wr_id, 40 + i);
		CHECK_EQ(wc.len_bytes, 8);
		CHECK_EQ(wc.flags, i == 1 ? WEFT_WC_SOLICITED : 0);
		CHECK_MEM(wc.imm, i == 0 ? "immediat" : "\0\1\2\3\4\5\6\7", 8);
	}
	CHECK_EQ(in[0][0], 0xee);
	/* a Write with Immediate Data: one completion here, and one at the peer for the eight
	 * octets */
	vt_fill(t.n[0].mem, 5000, 3);
	src = (struct weft_sge){t.n[0].mem, 5000, 0};
	wr = (struct weft_wr){
	        .wr_id = 3,
	        .opcode = WEFT_WR_WRITE_IMM,
	        .flags = WEFT_WR_SIGNALED | WEFT_WR_SOLICITED,
	        .sg_list = &src,
	        .num_sge = 1,
	        .write_imm = {weft_mr_stag(t.n[1].mr), base_to(&t.n[1]) + 7, "written!"}};
	vt_post(&t.n[0], &wr);
	wc = vt_wc(&t.n[1]);
	CHECK_EQ(wc.opcode, WEFT_WC_RECV_IMM);
	CHECK_EQ(wc.flags, WEFT_WC_SOLICITED);
	CHECK_MEM(wc.imm, "written!", 8);
	CHECK_MEM(t.n[1].mem + 7, t.n[0].mem, 5000);
	wc = vt_wc(&t.n[0]);
	CHECK_EQ(wc.opcode, WEFT_WC_WRITE);
	CHECK_EQ(wc.wr_id, 3);
	CHECK_EQ(wc.len_bytes, 5000);
	CHECK_EQ(weft_cq_poll(t.n[0].cq, &wc, 1), 0);
	/* a Send behind them uses the last receive */
	wr = (struct weft_wr){.opcode = WEFT_WR_SEND, .sg_list = &src, .num_sge = 1};
	src.len_bytes = 4;
	vt_post(&t.n[0], &wr);
	wc = vt_wc(&t.n[1]);
	CHECK_EQ(wc.opcode, WEFT_WC_RECV);
	CHECK_EQ(wc.wr_id, 43);
	vt_close(&t);
}

/** Without a receive, as for a Send (RFC 5041 s7.2). */
static void
test_imm_without_receive(void)
{
	struct weft_wr wr = {.opcode = WEFT_WR_IMM};
	struct weft_event ev;
	struct vt t;

	pair_open(&t, NULL);
	vt_post(&t.n[0], &wr);
	ev = vt_ev(&t.n[1], WEFT_EV_TERMINATED);
	CHECK(ev.term.ours);
	CHECK_EQ(ev.term.layer, 1);
	CHECK_EQ(ev.term.etype, 2);
	CHECK_EQ(ev.term.code, 2);
	vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
	vt_close(&t);
}

/** Immediate Data uses a receive of a shared receive queue like a Send. */
static void
test_imm_srq(void)
{
	struct weft_srq_attr sa = {.size = sizeof(sa), .depth = 8};
	struct weft_qp_attr qa;
	struct weft_srq *srq;
	struct weft_srq_info info;
	struct weft_wc wc;
	uint8_t in[16];
	struct vt t;

	vt_open(&t, NULL);
	sa.evq = t.n[1].evq;
	CHECK_EQ(weft_srq_create(t.n[1].pd, &sa, &srq), 0);
	qa = vt_qp_attr(&t.n[1]);
	qa.srq = srq;
	vt_connect(&t, NULL, &qa);
	for (uint64_t i = 0; i < 3; i++) {
		struct weft_sge sg = {in, sizeof(in), 0};
		struct weft_recv_wr rr = {.wr_id = 70 + i, .sg_list = &sg, .num_sge = 1};

		CHECK_EQ(weft_post_srq_recv(srq, &rr, 1), 1);
	}
	for (unsigned int i = 0; i < 3; i++) {
		struct weft_wr wr = {.opcode = WEFT_WR_IMM, .imm = {{(uint8_t)i}}};

		vt_post(&t.n[0], &wr);
		wc = vt_wc(&t.n[1]);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		CHECK_EQ(wc.opcode, WEFT_WC_RECV_IMM);
		CHECK_EQ(wc.wr_id, 70 + i);
		CHECK_EQ(wc.imm[0], i);
	}
	weft_srq_query(srq, &info);
	CHECK_EQ(info.used, 0);
	weft_qp_destroy(t.n[1].qp);
	t.n[1].qp = NULL;
	vt_run(&t, VT_S);
	CHECK_EQ(weft_srq_destroy(srq), 0);
	vt_close(&t);
}

/* ---- Hostile links ---- */

#define SOAK_WORDS 32
#define SOAK_OPS   400

/** Both nodes change each other's words, with all other operations between. The sums must be
 * right. */
static void
soak(uint64_t seed)
{
	struct vt_attr a = {.seed = seed,
	                    .link = {.delay_ns = 10000 + seed * 7919 % 200000,
	                             .loss_ppm = 20000,
	                             .dup_ppm = 10000,
	                             .corrupt_ppm = 5000,
	                             .reorder_ppm = 20000,
	                             .reorder_ns = 300000}};
	static uint64_t was[2][SOAK_OPS];
	uint64_t sum[2][SOAK_WORDS] = {{0}}, imms[2] = {0}, got[2] = {0}, x = seed * 77 + 1;
	unsigned int posted[2] = {0}, done[2] = {0}, recvs[2] = {0};
	struct vt t;

	pair_open(&t, &a);
	for (unsigned int i = 0; i < 2; i++)
		for (unsigned int k = 0; k < 200; k++)
			vt_post_recv(&t.n[i], t.n[i].mem + 4096, 16, k);
	while (done[0] + done[1] < 2 * SOAK_OPS) {
		for (unsigned int i = 0; i < 2; i++) {
			struct vt_node *n = &t.n[i], *peer = &t.n[!i];
			struct weft_wc wc;
			struct weft_sge sg;
			struct weft_wr wr;

			while (posted[i] < SOAK_OPS && posted[i] - done[i] < 100) {
				unsigned int w;

				w = test_xorshift(&x) >> 32 & (SOAK_WORDS - 1);
				wr = (struct weft_wr){.wr_id = posted[i],
				                      .flags = WEFT_WR_SIGNALED |
				                               (x & 0x70 ? 0 : WEFT_WR_FENCE),
				                      .sg_list = &sg,
				                      .num_sge = 1};
				sg = (struct weft_sge){&was[i][posted[i]], 8, 0};
				switch (x % 5) {
				case 0:
				case 1:
					wr.opcode = WEFT_WR_FETCH_ADD;
					wr.atomic.stag = weft_mr_stag(peer->mr);
					wr.atomic.to = base_to(peer) + 8 * w;
					wr.atomic.data = x;
					sum[!i][w] += x;
					break;
				case 2:
					if (imms[i] - got[!i] >= 100)
						continue;
					wr.opcode = WEFT_WR_IMM;
					wr.num_sge = 0;
					memcpy(wr.imm.data, &imms[i], 8);
					imms[i]++;
					break;
				case 3:
					if (imms[i] - got[!i] >= 100)
						continue;
					wr.opcode = WEFT_WR_WRITE_IMM;
					sg = (struct weft_sge){n->mem + 8192, x >> 40 & 4095, 0};
					wr.write_imm.stag = weft_mr_stag(peer->mr);
					wr.write_imm.to = base_to(peer) + 16384;
					memcpy(wr.write_imm.data, &imms[i], 8);
					imms[i]++;
					break;
				default:
					wr.opcode = WEFT_WR_READ;
					sg.addr = n->mem + 32768;
					sg.lkey = weft_mr_stag(n->mr);
					wr.rdma.stag = weft_mr_stag(peer->mr);
					wr.rdma.to = base_to(peer) + 8 * w;
					break;
				}
				vt_post(n, &wr);
				posted[i]++;
			}
			while (weft_cq_poll(n->cq, &wc, 1) == 1) {
				CHECK_MSG(wc.status == WEFT_WC_SUCCESS, "seed %" PRIu64 ": %s",
				          seed, weft_wc_status_str(wc.status));
				if (wc.opcode == WEFT_WC_RECV_IMM) {
					uint64_t v;

					memcpy(&v, wc.imm, 8);
					CHECK_EQ(v, got[i]++);
					CHECK_EQ(wc.wr_id, recvs[i]++ % 200);
					vt_post_recv(n, n->mem + 4096, 16, wc.wr_id);
				} else {
					CHECK_EQ(wc.wr_id, done[i]++);
				}
			}
		}
		vt_run(&t, 200000);
		CHECK_MSG(sim_now_ns(t.sim) < 1000 * VT_S, "seed %" PRIu64 " does not end", seed);
	}
	vt_run(&t, 5 * VT_S);
	for (unsigned int i = 0; i < 2; i++)
		for (unsigned int w = 0; w < SOAK_WORDS; w++)
			CHECK_MSG(*word(&t.n[i], 8 * w) == sum[i][w], "seed %" PRIu64 ", word %u",
			          seed, w);
	vt_close(&t);
}

static void
test_hostile_link(void)
{
	if (test_seed_given()) {
		soak(test_seed(0));
		return;
	}
	for (uint64_t s = 1; s <= 25; s++)
		soak(s);
}

/* ---- Threads: one region is the target of two workers and of this thread ---- */

static _Atomic uint64_t left[2]; /**< additions without a response, of each QP */

static void
on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)user, (void)cq;
	for (unsigned int i = 0; i < n; i++) {
		_Atomic uint64_t *mine = wc[i].qp_user;

		CHECK_EQ(wc[i].status, WEFT_WC_SUCCESS);
		atomic_fetch_sub(mine, 1);
	}
}

static struct weft_event
next_ev(struct weft_evq *evq)
{
	struct weft_event ev;

	for (unsigned int i = 0; i < 20000; i++) {
		if (weft_evq_poll(evq, &ev) == 1)
			return ev;
		usleep(1000);
	}
	CHECK_MSG(false, "no event");
	return ev;
}

#define TH_ADDS 20000

static void
test_threads(void)
{
	static uint64_t target[8] __rte_aligned(64), results[2];
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 1024, .on_wc = on_wc};
	struct weft_evq_attr ea = {.size = sizeof(ea)};
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct weft_qp_attr qa = {.size = sizeof(qa), .sq_depth = 64, .all_signaled = true};
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .addr = target,
	                          .len_bytes = sizeof(target),
	                          .access = WEFT_ACCESS_REMOTE_ATOMIC};
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	unsigned int posted[2] = {0}, cpu = 0;
	struct wire_end end[2];
	struct rte_ring *ring[2];
	struct rte_mempool *pool;
	struct weft_listener *lsn;
	struct weft_worker *w[2];
	struct weft_qp *qp[2];
	struct weft_ctx *ctx;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_mr *mr;
	struct weft_event ev;

	test_eal_init();
	CHECK_EQ(weft_ctx_create(NULL, &ctx), 0);
	CHECK_EQ(weft_netif_pool_create("atomics", 4095, 1500, -1, &pool), 0);
	for (unsigned int i = 0; i < 2; i++)
		CHECK((ring[i] = rte_ring_create(i ? "atomics1" : "atomics0", 1024, SOCKET_ID_ANY,
		                                 RING_F_SP_ENQ | RING_F_SC_DEQ)) != NULL);
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_netif_attr na = {.dev = &wire_dev,
		                             .dev_arg = &end[i],
		                             .pool = pool,
		                             .mac = {{2, 0, 0, 0, 3, (uint8_t)(i + 1)}},
		                             .addr = weft_ip_from_v4(htonl(0x0a000001 + i)),
		                             .prefix_len = 24};

		end[i] = (struct wire_end){.in = ring[i], .out = ring[!i]};
		CHECK_EQ(weft_worker_create(ctx, NULL, &w[i]), 0);
		CHECK_EQ(weft_engine_add_netif(w[i], &na), 0);
	}
	CHECK_EQ(weft_pd_alloc(ctx, &pd), 0);
	CHECK_EQ(weft_cq_create(ctx, &ca, &cq), 0);
	CHECK_EQ(weft_evq_create(ctx, &ea, &evq), 0);
	CHECK_EQ(weft_mr_reg(pd, &ma, &mr), 0);
	qa.send_cq = qa.recv_cq = cq;
	la.evq = qa.evq = evq;
	for (unsigned int i = 0; i < 2; i++) {
		CHECK_EQ(weft_worker_start(w[i]), 0);
		qa.worker = w[i];
		qa.user = &left[i];
		atomic_store(&left[i], TH_ADDS);
		CHECK_EQ(weft_qp_create(pd, &qa, &qp[i]), 0);
	}
	CHECK_EQ(weft_listen(ctx, (struct sockaddr *)&sa, sizeof(sa), &la, &lsn), 0);
	CHECK_EQ(weft_connect(qp[0], (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
	ev = next_ev(evq);
	CHECK_EQ(ev.type, WEFT_EV_CONNECT_REQUEST);
	CHECK_EQ(weft_accept(ev.connreq, qp[1], NULL), 0);
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(next_ev(evq).type, WEFT_EV_ESTABLISHED);
	while (atomic_load(&left[0]) + atomic_load(&left[1]) > 0) {
		for (unsigned int i = 0; i < 2; i++) {
			struct weft_sge sg = {&results[i], 8, 0};
			struct weft_wr wr = {.opcode = i ? WEFT_WR_MASKED_FETCH_ADD
			                                 : WEFT_WR_FETCH_ADD,
			                     .sg_list = &sg,
			                     .num_sge = 1,
			                     .atomic = {.stag = weft_mr_stag(mr),
			                                .to = 8,
			                                .data = 1,
			                                .mask = 0x8000000080000000}};

			/* The responder may not send before the initiator. Its posts wait until
			 * then. */
			while (posted[i] < TH_ADDS && weft_post_send(qp[i], &wr, 1) == 1)
				posted[i]++;
		}
		for (unsigned int i = 0; i < 100 && cpu < TH_ADDS; i++, cpu++)
			__atomic_fetch_add(&target[1], 1, __ATOMIC_RELAXED);
		usleep(100);
	}
	for (; cpu < TH_ADDS; cpu++)
		__atomic_fetch_add(&target[1], 1, __ATOMIC_RELAXED);
	CHECK_EQ(__atomic_load_n(&target[1], __ATOMIC_RELAXED), 3 * TH_ADDS);
	CHECK_EQ(target[0] | target[2], 0);
	weft_qp_destroy(qp[0]);
	weft_qp_destroy(qp[1]);
	weft_unlisten(lsn);
	weft_mr_dereg(mr, NULL, NULL);
	CHECK_EQ(weft_cq_destroy(cq), 0);
	CHECK_EQ(weft_evq_destroy(evq), 0);
	CHECK_EQ(weft_pd_dealloc(pd), 0);
	weft_worker_stop(w[0]);
	weft_worker_stop(w[1]);
	weft_ctx_destroy(ctx);
}

WEFT_TEST_MAIN({"atomics", test_atomics}, {"refused posts", test_refused_posts},
               {"result with an lkey", test_result_lkey}, {"order", test_order},
               {"errors", test_errors}, {"immediate data", test_imm},
               {"immediate data without receive", test_imm_without_receive},
               {"immediate data of a shared queue", test_imm_srq},
               {"hostile link", test_hostile_link}, {"two workers and a cpu", test_threads})
