/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * weft_qp_leave(): a QP goes, and its connection closes in order without it. What was sent arrives;
 * what the peer still sends touches no memory; domains and queues are free at once.
 */

#include "vt.h"

#define LEN     200000u
#define WAIT_US 1000000u

static struct vt t;
static uint8_t out[LEN], in[LEN], canary[LEN];
static unsigned int ended;
static int end_status; /**< of the last one that ended */

static void
on_gone(void *arg, int status)
{
	CHECK(arg == &ended);
	ended++;
	end_status = status;
}

static int
leave(struct vt_node *n)
{
	int rc = weft_qp_leave(n->qp, WAIT_US, on_gone, &ended);

	if (rc >= 0)
		n->qp = NULL;
	return rc;
}

static struct weft_worker_stats
stats(void)
{
	struct weft_worker_stats st;

	weft_worker_stats(t.n[0].w, &st);
	return st;
}

static bool
left_at_last(void *arg)
{
	return leave(arg) != -EBUSY;
}

static bool
has_ended(void *arg)
{
	(void)arg;
	return ended > 0;
}

static void
start(const struct vt_attr *a)
{
	ended = 0;
	vt_fill(out, sizeof(out), 5);
	memset(in, 0, sizeof(in));
	vt_open(&t, a);
}

/** Post to node n what is in `out`; wait until all of it is in the TCP stream. */
static void
send_out(struct vt_node *n)
{
	struct weft_sge sg = {.addr = out, .len_bytes = LEN};
	struct weft_wr wr = {
	        .opcode = WEFT_WR_SEND, .flags = WEFT_WR_SIGNALED, .sg_list = &sg, .num_sge = 1};

	vt_post(n, &wr);
	CHECK_EQ(vt_wc(n).status, WEFT_WC_SUCCESS);
	/* It is copied by now: a program may write into its buffer. */
	memset(out, 0, sizeof(out));
}

/** A Send without data to the other node, which has posted a receive for it. */
static void
send_back(struct vt_node *n)
{
	struct weft_wr wr = {.opcode = WEFT_WR_SEND};

	vt_post_recv(&t.n[1 - n->id], in, 1, 2);
	vt_post(n, &wr);
}

static void
check_delivered(struct vt_node *n)
{
	struct weft_wc wc = vt_wc(n);

	CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
	CHECK_EQ(wc.len_bytes, LEN);
	vt_fill(out, sizeof(out), 5);
	CHECK_MEM(in, out, LEN);
	CHECK_EQ(vt_ev(n, WEFT_EV_DISCONNECTED).status, 0);
}

/* With an initiator that the responder has not answered yet, and with packets that get lost. */
static void
test_delivered(void)
{
	for (unsigned int i = 0; i < 24; i++) {
		struct vt_attr a = {.seed = i + 1, .link.loss_ppm = i % 2 ? 30000 : 0};
		const unsigned int from = i / 2 % 2;
		struct weft_qp_attr qa;

		start(&a);
		vt_connect(&t, NULL, NULL);
		if (from == 1 || i % 3 == 0)
			vt_speak(&t);
		vt_post_recv(&t.n[1 - from], in, LEN, 1);
		send_out(&t.n[from]);
		CHECK(vt_until(&t, VT_S, left_at_last, &t.n[from]) && t.n[from].qp == NULL);
		check_delivered(&t.n[1 - from]);
		CHECK_MSG(vt_until(&t, 2 * VT_S, has_ended, NULL), "seed %u", i + 1);
		CHECK_EQ(end_status, 0);
		if (from == 0)
			CHECK(stats().left_total == 1 && stats().left_now == 0 &&
			      stats().left_timeouts == 0 && stats().msgs_out > 0);
		/* The node is as good as new. */
		qa = vt_qp_attr(&t.n[from]);
		CHECK_EQ(weft_qp_create(t.n[from].pd, &qa, &t.n[from].qp), 0);
		vt_run(&t, VT_S);
		CHECK_EQ(ended, 1);
		vt_close(&t);
	}
}

/* Objects of a QP that is gone are of no use to its connection. */
static void
test_objects(void)
{
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 64};
	struct weft_evq_attr ea = {.size = sizeof(ea)};
	struct weft_qp_attr qa;
	struct weft_evq *evq = NULL;
	struct weft_pd *pd, *pd0;
	struct weft_evq *evq0;
	struct weft_cq *cq;
	struct weft_wc wc[4];

	start(NULL);
	CHECK_EQ(weft_pd_alloc(t.n[0].ctx, &pd), 0);
	CHECK_EQ(weft_cq_create(t.n[0].ctx, &ca, &cq), 0);
	CHECK_EQ(weft_evq_create(t.n[0].ctx, &ea, &evq), 0);
	pd0 = t.n[0].pd;
	evq0 = t.n[0].evq;
	t.n[0].pd = pd;
	t.n[0].evq = evq;
	qa = vt_qp_attr(&t.n[0]);
	qa.send_cq = qa.recv_cq = cq;
	vt_connect(&t, &qa, NULL);
	vt_post_recv(&t.n[0], in, LEN, 77);
	CHECK(vt_until(&t, VT_S, left_at_last, &t.n[0]));
	/* The receive comes back. */
	CHECK_EQ(weft_cq_poll(cq, wc, 4), 1);
	CHECK(wc[0].wr_id == 77 && wc[0].status == WEFT_WC_FLUSHED);
	CHECK_EQ(ended, 0);
	CHECK_EQ(weft_cq_destroy(cq), 0);
	CHECK_EQ(weft_evq_destroy(evq), 0);
	CHECK_EQ(weft_pd_dealloc(pd), 0);
	t.n[0].pd = pd0;
	t.n[0].evq = evq0;
	CHECK(vt_until(&t, 2 * VT_S, has_ended, NULL));
	vt_close(&t);
}

static void
freed(void *arg)
{
	*(bool *)arg = true;
}

/* What the peer has under way, or posts later, and what was asked of it: Writes, a Send, a Read of
 * each side. The region stays registered. */
static void
test_no_access(void)
{
	for (unsigned int i = 0; i < 40; i++) {
		struct vt_attr a = {.seed = i + 1, .link.rate_bps = 1000000000};
		struct weft_sge own = {.len_bytes = LEN}, far = {.len_bytes = LEN};
		struct weft_wr wr = {.flags = WEFT_WR_SIGNALED, .num_sge = 1};
		bool done = false;

		start(&a);
		vt_connect(&t, NULL, NULL);
		vt_speak(&t);
		for (unsigned int n = 0; n < 2; n++)
			vt_mem(&t.n[n], LEN,
			       WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_WRITE |
			               WEFT_ACCESS_REMOTE_READ);
		vt_fill(t.n[1].mem, LEN, 9);
		vt_post_recv(&t.n[0], in, LEN, 1);
		/* Node 0 reads node 1 ... */
		own.addr = t.n[0].mem;
		own.lkey = weft_mr_stag(t.n[0].mr);
		wr.opcode = WEFT_WR_READ;
		wr.sg_list = &own;
		wr.rdma.stag = weft_mr_stag(t.n[1].mr);
		wr.rdma.to = 0x200000000ULL;
		if (i % 4 != 0)
			vt_post(&t.n[0], &wr);
		/* ... and node 1 writes, sends and reads. */
		far.addr = t.n[1].mem;
		far.lkey = weft_mr_stag(t.n[1].mr);
		wr.sg_list = &far;
		wr.opcode = WEFT_WR_WRITE;
		wr.rdma.stag = weft_mr_stag(t.n[0].mr);
		wr.rdma.to = 0x100000000ULL;
		vt_post(&t.n[1], &wr);
		wr.opcode = WEFT_WR_SEND;
		vt_post(&t.n[1], &wr);
		vt_run(&t, i * 50000 + 1);
		CHECK(vt_until(&t, VT_S, left_at_last, &t.n[0]));
		memcpy(canary, t.n[0].mem, LEN);
		memcpy(out, in, LEN);
		wr.opcode = WEFT_WR_WRITE;
		wr.rdma.stag = weft_mr_stag(t.n[0].mr);
		wr.rdma.to = 0x100000000ULL;
		(void)weft_post_send(t.n[1].qp, &wr, 1);
		vt_run(&t, 50000);
		if (i % 2 == 0) { /* a region can go at once */
			CHECK_EQ(weft_mr_dereg(t.n[0].mr, freed, &done), 0);
			vt_run(&t, VT_MS);
			CHECK(done);
			t.n[0].mr = NULL;
		}
		CHECK(vt_until(&t, 2 * VT_S, has_ended, NULL));
		CHECK_MSG(memcmp(canary, t.n[0].mem, LEN) == 0, "seed %u: memory was written",
		          i + 1);
		CHECK_MSG(memcmp(out, in, LEN) == 0, "seed %u: a receive was written", i + 1);
		vt_close(&t);
	}
}

/* More than TCP takes at once: it is not forgotten. */
static void
test_busy(void)
{
	struct vt_attr a = {.link.rate_bps = 50000000};
	struct weft_sge sg = {.addr = out, .len_bytes = LEN};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};

	start(&a);
	vt_connect(&t, NULL, NULL);
	vt_post_recv(&t.n[1], in, LEN, 1);
	vt_post(&t.n[0], &wr);
	CHECK_EQ(leave(&t.n[0]), -EBUSY);
	/* It closes already: nothing more is taken. */
	CHECK_EQ(weft_qp_leave(t.n[0].qp, WAIT_US, NULL, NULL), -EBUSY);
	CHECK(vt_until(&t, VT_S, left_at_last, &t.n[0]));
	check_delivered(&t.n[1]);
	vt_close(&t);
	/* A program that does not wait has what weft_qp_destroy() gives it. */
	start(&a);
	vt_connect(&t, NULL, NULL);
	vt_post_recv(&t.n[1], in, LEN, 1);
	vt_post(&t.n[0], &wr);
	CHECK_EQ(leave(&t.n[0]), -EBUSY);
	weft_qp_destroy(t.n[0].qp);
	t.n[0].qp = NULL;
	CHECK_EQ(vt_wc(&t.n[1]).status, WEFT_WC_FLUSHED);
	CHECK_EQ(vt_ev(&t.n[1], WEFT_EV_DISCONNECTED).status, -ECONNRESET);
	CHECK_EQ(ended, 0);
	vt_close(&t);
}

/* A peer that is gone is waited for so long and no longer, in whatever step of the close: before
 * our FIN, too, which an initiator that has heard nothing sends later. */
static void
test_silent(void)
{
	static const uint32_t wait_us[] = {0, 1, 5000, 15000, 1000000};
	const struct sim_link_cfg down = {.down = true, .delay_ns = 20000};

	for (unsigned int i = 0; i < 2 * RTE_DIM(wait_us); i++) {
		const uint64_t wait_ns = wait_us[i / 2] * 1000ULL;
		uint64_t at_ns;

		start(NULL);
		vt_connect(&t, NULL, NULL);
		vt_post_recv(&t.n[1], in, LEN, 1);
		send_out(&t.n[0]);
		if (i % 2 == 0) {
			send_back(&t.n[1]);
			vt_run(&t, VT_MS);
		}
		sim_link_set(t.link, 0, &down);
		sim_link_set(t.link, 1, &down);
		CHECK_EQ(weft_disconnect(t.n[0].qp), 0);
		vt_run(&t, VT_MS);
		CHECK_EQ(weft_qp_leave(t.n[0].qp, wait_us[i / 2], on_gone, &ended), 1);
		t.n[0].qp = NULL;
		at_ns = sim_now_ns(t.sim);
		CHECK_EQ(weft_tcp_stats(weft_engine_tcp(t.n[0].w))->conns_now, 1);
		CHECK(stats().left_now == 1 && stats().left_total == 1);
		CHECK(vt_until(&t, 70 * VT_S, has_ended, NULL));
		at_ns = sim_now_ns(t.sim) - at_ns;
		CHECK_MSG(at_ns >= wait_ns && at_ns < wait_ns + wait_ns / 100 + 2 * VT_MS,
		          "%u us, %u: %" PRIu64 " ns", wait_us[i / 2], i % 2, at_ns);
		CHECK_EQ(end_status, -ETIMEDOUT);
		CHECK(stats().left_now == 0 && stats().left_timeouts == 1);
		CHECK_EQ(weft_tcp_stats(weft_engine_tcp(t.n[0].w))->conns_now, 0);
		vt_close(&t);
	}
}

/* The longest time is one. What is counted of the connection afterwards is not lost. */
static void
test_longest(void)
{
	struct weft_sge sg = {.addr = out, .len_bytes = 8};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};
	uint64_t fpdus;

	start(NULL);
	vt_connect(&t, NULL, NULL);
	vt_speak(&t);
	vt_run(&t, VT_MS);
	CHECK_EQ(weft_disconnect(t.n[0].qp), 0);
	fpdus = stats().fpdus_in;
	CHECK_EQ(weft_qp_leave(t.n[0].qp, UINT32_MAX, on_gone, &ended), 1);
	t.n[0].qp = NULL;
	CHECK_EQ(stats().fpdus_in, fpdus);
	/* Its peer sends one more message, which finds no QP. */
	vt_post(&t.n[1], &wr);
	CHECK(vt_until(&t, 2 * VT_S, has_ended, NULL));
	CHECK_EQ(end_status, 0);
	CHECK(stats().fpdus_in > fpdus && stats().left_timeouts == 0);
	vt_close(&t);
}

/* One that closed first, one that was never connected, one whose connection has ended. */
static void
test_ended(void)
{
	struct weft_qp_attr qa;

	start(NULL);
	vt_connect(&t, NULL, NULL);
	CHECK_EQ(weft_disconnect(t.n[1].qp), 0);
	vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
	CHECK_EQ(leave(&t.n[0]), 0);
	qa = vt_qp_attr(&t.n[0]);
	CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &t.n[0].qp), 0);
	CHECK_EQ(leave(&t.n[0]), 0);
	vt_run(&t, 2 * VT_S);
	CHECK_EQ(ended, 0);
	vt_close(&t);
}

/* Connections that close take no place from new QPs. */
static void
test_room(void)
{
	const struct sim_link_cfg down = {.down = true, .delay_ns = 20000};
	struct vt_attr a = {.max_conns = {2, 0}};
	struct weft_qp_attr qa;
	struct weft_qp *qp[2], *none;

	start(&a);
	vt_connect(&t, NULL, NULL);
	vt_speak(&t);
	sim_link_set(t.link, 0, &down);
	CHECK(vt_until(&t, VT_S, left_at_last, &t.n[0]));
	qa = vt_qp_attr(&t.n[0]);
	CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &qp[0]), 0);
	vt_run(&t, VT_MS);
	CHECK(ended == 0 && stats().left_cut == 0);
	CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &qp[1]), 0);
	CHECK_EQ(stats().left_cut, 1);
	CHECK(vt_until(&t, VT_MS, has_ended, NULL));
	CHECK_EQ(end_status, -ECONNABORTED);
	CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &none), -ENOSPC);
	for (unsigned int i = 0; i < 2; i++)
		weft_qp_destroy(qp[i]);
	vt_close(&t);
	CHECK_EQ(ended, 1);
}

/* It has been polled before it gives way: its data, and our FIN, have been sent. */
static void
test_polled(void)
{
	struct vt_attr a = {.max_conns = {1, 0}};
	struct weft_qp_attr qa;

	start(&a);
	vt_connect(&t, NULL, NULL);
	vt_speak(&t);
	vt_post_recv(&t.n[1], in, LEN, 1);
	send_back(&t.n[0]);
	CHECK(vt_until(&t, VT_S, left_at_last, &t.n[0]));
	qa = vt_qp_attr(&t.n[0]);
	CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &t.n[0].qp), -ENOSPC);
	CHECK_EQ(stats().left_cut, 0);
	vt_run(&t, 1000);
	CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &t.n[0].qp), 0);
	CHECK_EQ(stats().left_cut, 1);
	CHECK_EQ(vt_wc(&t.n[1]).status, WEFT_WC_SUCCESS);
	vt_close(&t);
}

/* It gives way to a new connection, too, whose QP is not there yet. */
static void
test_admission(void)
{
	const struct sim_link_cfg down = {.down = true, .delay_ns = 20000};
	const struct sim_link_cfg up = {.delay_ns = 20000};
	struct vt_attr a = {.max_conns = {0, 1}};
	const struct weft_conn_attr ca = {.size = sizeof(ca), .timeout_us = 1000000};
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_worker_stats st;
	struct weft_qp_attr qa;
	struct weft_event ev;

	start(&a);
	vt_connect(&t, NULL, NULL);
	vt_speak(&t);
	for (unsigned int i = 0; i < 2; i++)
		sim_link_set(t.link, i, &down);
	CHECK(vt_until(&t, VT_S, left_at_last, &t.n[1]));
	weft_qp_destroy(t.n[0].qp);
	vt_run(&t, VT_MS);
	for (unsigned int i = 0; i < 2; i++)
		sim_link_set(t.link, i, &up);
	CHECK_EQ(ended, 0);
	qa = vt_qp_attr(&t.n[0]);
	CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &t.n[0].qp), 0);
	CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), &ca), 0);
	ev = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST);
	weft_worker_stats(t.n[1].w, &st);
	CHECK_EQ(st.left_cut, 1);
	CHECK(ended == 1 && end_status == -ECONNABORTED);
	qa = vt_qp_attr(&t.n[1]);
	CHECK_EQ(weft_qp_create(t.n[1].pd, &qa, &t.n[1].qp), 0);
	CHECK_EQ(weft_accept(ev.connreq, t.n[1].qp, &ca), 0);
	vt_ev(&t.n[1], WEFT_EV_ESTABLISHED);
	vt_close(&t);
}

/* The context goes first. */
static void
test_context(void)
{
	start(NULL);
	vt_connect(&t, NULL, NULL);
	vt_speak(&t);
	CHECK(vt_until(&t, VT_S, left_at_last, &t.n[0]));
	CHECK_EQ(ended, 0);
	CHECK_EQ(weft_cq_destroy(t.n[0].cq), 0);
	CHECK_EQ(weft_evq_destroy(t.n[0].evq), 0);
	CHECK_EQ(weft_pd_dealloc(t.n[0].pd), 0);
	weft_ctx_destroy(t.n[0].ctx);
	CHECK_EQ(ended, 1);
	weft_qp_destroy(t.n[1].qp);
	weft_ctx_destroy(t.n[1].ctx);
	sim_destroy(t.sim);
	CHECK_EQ(rte_mempool_avail_count(t.pool), t.pool_avail);
}

WEFT_TEST_MAIN({"delivered", test_delivered}, {"objects", test_objects},
               {"no access", test_no_access}, {"busy", test_busy}, {"silent", test_silent},
               {"the longest time", test_longest}, {"ended", test_ended}, {"room", test_room},
               {"polled before", test_polled}, {"admission", test_admission},
               {"context", test_context})
