/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Rules of RFC 5040 and RFC 5042 for the user of several streams: completions in the order of
 * posting, and independence of streams.
 */

#include "test_xorshift.h"
#include "../verbs/vt.h"

#define RIGHTS                                                                                     \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_FLUSH_VISIBLE)
#define LEN 65536

static uint64_t
base_to(unsigned int node)
{
	return 0x100000000ULL * (node + 1);
}

static struct weft_wr
wr_write(struct vt *t, struct weft_sge *sg, uint32_t stag)
{
	return (struct weft_wr){.wr_id = 7,
	                        .opcode = WEFT_WR_WRITE,
	                        .flags = WEFT_WR_SIGNALED,
	                        .sg_list = sg,
	                        .num_sge = 1,
	                        .rdma = {stag, base_to(t->n[1].id)}};
}

/* RFC 5040 s5.5 rule 15: completions in the order of posting, for all kinds and any duration. */
static void
test_completion_order(void)
{
	static const enum weft_wr_opcode ops[] = {WEFT_WR_READ, WEFT_WR_WRITE, WEFT_WR_SEND,
	                                          WEFT_WR_FLUSH};
	static const enum weft_wc_opcode done[] = {WEFT_WC_READ, WEFT_WC_WRITE, WEFT_WC_SEND,
	                                           WEFT_WC_FLUSH};
	struct vt_attr a = {.seed = test_seed(5),
	                    .link = {.delay_ns = 2 * VT_MS, .loss_ppm = 10000}};
	uint64_t x = a.seed * 0x9e3779b97f4a7c15ULL + 1;
	struct weft_qp_attr qa[2];
	uint8_t in[4096];
	struct vt t;

	vt_open(&t, &a);
	vt_mem(&t.n[0], LEN, RIGHTS);
	vt_mem(&t.n[1], LEN, RIGHTS);
	qa[0] = vt_qp_attr(&t.n[0]);
	qa[1] = vt_qp_attr(&t.n[1]);
	qa[0].sq_depth = qa[1].rq_depth = 64;
	vt_connect(&t, &qa[0], &qa[1]);
	for (unsigned int round = 0; round < 10; round++) {
		unsigned int op[64];

		for (uint64_t i = 0; i < 64; i++) {
			struct weft_sge sg = {t.n[0].mem + 512 * i, (uint32_t)(x % 400) + 1,
			                      weft_mr_stag(t.n[0].mr)};
			struct weft_wr wr = {.wr_id = i,
			                     .flags = WEFT_WR_SIGNALED,
			                     .sg_list = &sg,
			                     .num_sge = 1};

			op[i] = (unsigned int)(test_xorshift(&x) >> 40) % 4;
			wr.opcode = ops[op[i]];
			if (wr.opcode == WEFT_WR_FLUSH) {
				wr.sg_list = NULL;
				wr.num_sge = 0;
				wr.flush.stag = weft_mr_stag(t.n[1].mr);
				wr.flush.to = base_to(1);
				wr.flush.len_bytes = 8;
				wr.flush.flags = WEFT_FLUSH_VISIBLE;
			} else if (wr.opcode == WEFT_WR_SEND) {
				vt_post_recv(&t.n[1], in, sizeof(in), i);
			} else {
				wr.rdma.stag = weft_mr_stag(t.n[1].mr);
				wr.rdma.to = base_to(1) + 512 * i;
			}
			vt_post(&t.n[0], &wr);
		}
		for (uint64_t i = 0; i < 64; i++) {
			struct weft_wc wc = vt_wc(&t.n[0]);

			CHECK_EQ(wc.wr_id, i);
			CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
			CHECK_EQ(wc.opcode, done[op[i]]);
		}
	}
	vt_close(&t);
}

/* A second connection between the two nodes. At node 1 it has a domain and a CQ of its own. */
struct second {
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_mr *mr;
	struct weft_qp *qp[2];
	uint8_t mem[4096];
};

static void
second_open(struct vt *t, struct second *s)
{
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 4};
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .addr = s->mem,
	                          .len_bytes = sizeof(s->mem),
	                          .base_to = base_to(1),
	                          .access = RIGHTS & ~WEFT_ACCESS_FLUSH_VISIBLE};
	struct weft_conn_attr na = {.size = sizeof(na)};
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_qp_attr qa[2] = {vt_qp_attr(&t->n[0]), vt_qp_attr(&t->n[1])};
	struct weft_event ev;

	memset(s->mem, 0, sizeof(s->mem));
	CHECK_EQ(weft_pd_alloc(t->n[1].ctx, &s->pd), 0);
	CHECK_EQ(weft_cq_create(t->n[1].ctx, &ca, &s->cq), 0);
	CHECK_EQ(weft_mr_reg(s->pd, &ma, &s->mr), 0);
	qa[1].send_cq = qa[1].recv_cq = s->cq;
	qa[1].sq_depth = 1;
	qa[1].rq_depth = 8;
	CHECK_EQ(weft_qp_create(t->n[0].pd, &qa[0], &s->qp[0]), 0);
	CHECK_EQ(weft_qp_create(s->pd, &qa[1], &s->qp[1]), 0);
	CHECK_EQ(weft_connect(s->qp[0], (struct sockaddr *)&sa, sizeof(sa), &na), 0);
	ev = vt_ev(&t->n[1], WEFT_EV_CONNECT_REQUEST);
	CHECK_EQ(weft_accept(ev.connreq, s->qp[1], NULL), 0);
	vt_ev(&t->n[1], WEFT_EV_ESTABLISHED);
	vt_ev(&t->n[0], WEFT_EV_ESTABLISHED);
}

static void
second_close(struct vt *t, struct second *s)
{
	weft_qp_destroy(s->qp[0]);
	weft_qp_destroy(s->qp[1]);
	weft_mr_dereg(s->mr, NULL, NULL);
	vt_run(t, 20 * VT_S);
	CHECK_EQ(weft_cq_destroy(s->cq), 0);
	CHECK_EQ(weft_pd_dealloc(s->pd), 0);
}

/* Check that the connection of vt_connect() still works. */
static void
check_alive(struct vt *t)
{
	struct weft_sge sg = {t->n[0].mem, 100, weft_mr_stag(t->n[0].mr)};
	struct weft_wr wr = wr_write(t, &sg, weft_mr_stag(t->n[1].mr));
	struct weft_wc wc;

	vt_fill(t->n[0].mem, 100, 3);
	vt_post(&t->n[0], &wr);
	wc = vt_wc(&t->n[0]);
	CHECK(wc.qp == t->n[0].qp && wc.status == WEFT_WC_SUCCESS);
	wr.opcode = WEFT_WR_READ;
	vt_post(&t->n[0], &wr);
	CHECK_EQ(vt_wc(&t->n[0]).status, WEFT_WC_SUCCESS);
	CHECK_MEM(t->n[1].mem, t->n[0].mem, 100);
}

static void
pair_open(struct vt *t, struct second *s)
{
	vt_open(t, NULL);
	vt_mem(&t->n[0], LEN, RIGHTS);
	vt_mem(&t->n[1], LEN, RIGHTS);
	vt_connect(t, NULL, NULL);
	second_open(t, s);
}

/* RFC 5040 s8.1.1 rule 10, RFC 5042 s6.4.6: a CQ overflows. Users of other CQs are not affected. */
static void
test_overrun_apart(void)
{
	struct weft_sge sg = {.len_bytes = 4};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};
	struct weft_recv_wr rr = {.sg_list = &sg, .num_sge = 1};
	static struct second s;
	struct weft_event ev;
	struct vt t;

	pair_open(&t, &s);
	sg.addr = s.mem;
	for (unsigned int i = 0; i < 8; i++)
		CHECK_EQ(weft_post_recv(s.qp[1], &rr, 1), 1);
	for (unsigned int i = 0; i < 5; i++)
		CHECK_EQ(weft_post_send(s.qp[0], &wr, 1), 1);
	ev = vt_ev(&t.n[1], WEFT_EV_CQ_OVERRUN);
	CHECK(ev.qp == s.qp[1]);
	ev = vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
	CHECK(ev.qp == s.qp[1]);
	ev = vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
	CHECK(ev.qp == s.qp[0]);
	check_alive(&t);
	CHECK_EQ(weft_evq_poll(t.n[1].evq, &ev), 0);
	second_close(&t, &s);
	vt_close(&t);
}

/* RFC 5040 s5.3, s8.1.1 rule 1: an STag of another domain gives no access and is not
 * invalidated. */
static void
test_foreign_stag(void)
{
	for (unsigned int how = 0; how < 4; how++) {
		static const struct {
			enum weft_wr_opcode op;
			uint8_t layer, etype, code;
		} row[] = {{WEFT_WR_SEND_INV, 0, 1, 0x09},
		           {WEFT_WR_WRITE, 1, 1, 0x02},
		           {WEFT_WR_READ, 0, 1, 0x03},
		           {WEFT_WR_SEND_INV, 0, 1, 0x09}};
		struct weft_sge sg = {.len_bytes = 16};
		struct weft_recv_wr rr = {.sg_list = &sg, .num_sge = 1};
		struct weft_wr wr = {.opcode = row[how].op, .sg_list = &sg, .num_sge = 1};
		static struct second s;
		struct weft_event ev;
		uint8_t in[16];
		struct vt t;

		pair_open(&t, &s);
		sg.addr = in;
		CHECK_EQ(weft_post_recv(s.qp[1], &rr, 1), 1);
		sg = (struct weft_sge){t.n[0].mem, 16, weft_mr_stag(t.n[0].mr)};
		memset(t.n[0].mem, 0x33, 16);
		wr.rdma.to = base_to(1);
		if (how == 0)
			wr.send.inv_stag = weft_mr_stag(t.n[1].mr);
		else if (how == 3) /* an STag that was never used */
			wr.send.inv_stag = weft_mr_stag(t.n[1].mr) ^ 0x01000000;
		else
			wr.rdma.stag = weft_mr_stag(t.n[1].mr);
		CHECK_EQ(weft_post_send(s.qp[0], &wr, 1), 1);
		ev = vt_ev(&t.n[1], WEFT_EV_TERMINATED);
		CHECK(ev.qp == s.qp[1] && ev.term.ours);
		CHECK_EQ(ev.term.layer, row[how].layer);
		CHECK_EQ(ev.term.etype, row[how].etype);
		CHECK_EQ(ev.term.code, row[how].code);
		vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
		ev = vt_ev(&t.n[0], WEFT_EV_TERMINATED);
		CHECK(ev.qp == s.qp[0] && ev.term.code == row[how].code);
		vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
		CHECK(t.n[1].mem[0] == 0 && t.n[0].mem[0] == 0x33);
		/* the region's own stream is not affected */
		while (weft_cq_poll(t.n[0].cq, &(struct weft_wc){0}, 1) > 0)
			;
		check_alive(&t);
		second_close(&t, &s);
		vt_close(&t);
	}
}

struct revoke {
	uint8_t *mem;
	unsigned int freed;
};

static void
revoked(void *arg)
{
	struct revoke *r = arg;

	memset(r->mem, 0xdd, LEN); /* the owner may use it again */
	r->freed++;
}

/*
 * RFC 5040 s8.1.1 rule 6, RFC 5042 s6.2.2: after the ULP is told that its region is free, a Write
 * in progress changes nothing. Its next segment causes a Terminate.
 */
static void
test_revoked(void)
{
	for (uint64_t ms = 1; ms < 12; ms++) {
		struct vt_attr a = {.link = {.delay_ns = VT_MS / 2, .rate_bps = 100000000}};
		struct weft_sge sg = {.len_bytes = LEN};
		struct revoke r = {0};
		struct weft_event ev;
		struct weft_wr wr;
		struct vt t;

		vt_open(&t, &a);
		vt_mem(&t.n[0], LEN, WEFT_ACCESS_LOCAL_WRITE);
		vt_mem(&t.n[1], LEN, WEFT_ACCESS_REMOTE_WRITE);
		vt_connect(&t, NULL, NULL);
		vt_fill(t.n[0].mem, LEN, 8);
		sg.addr = t.n[0].mem;
		wr = wr_write(&t, &sg, weft_mr_stag(t.n[1].mr));
		for (unsigned int i = 0; i < 4; i++)
			vt_post(&t.n[0], &wr);
		vt_run(&t, ms * VT_MS);
		CHECK(ms < 6 || t.n[1].mem[0] == t.n[0].mem[0]); /* in progress */
		r.mem = t.n[1].mem;
		weft_mr_dereg(t.n[1].mr, revoked, &r);
		t.n[1].mr = NULL;
		ev = vt_ev(&t.n[1], WEFT_EV_TERMINATED);
		CHECK(ev.term.ours && ev.term.layer == 1 && ev.term.etype == 1 &&
		      ev.term.code == 0);
		vt_run(&t, VT_S);
		CHECK_EQ(r.freed, 1);
		for (unsigned int i = 0; i < LEN; i++)
			CHECK_EQ(t.n[1].mem[i], 0xdd);
		vt_close(&t);
	}
}

WEFT_TEST_MAIN({"completion order", test_completion_order},
               {"overrun stays apart", test_overrun_apart}, {"foreign STag", test_foreign_stag},
               {"revoked", test_revoked})
