/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Allocations fail while a context is created, a connection starts up, or an event is delivered.
 */

#include "weft_vworker.h"
#include "vt.h"

static struct weft_wr
wr_send(const struct weft_sge *sg, uint32_t flags)
{
	return (struct weft_wr){
	        .opcode = WEFT_WR_SEND, .flags = flags, .sg_list = sg, .num_sge = 1};
}

static bool no_memory;
static unsigned int fail_in; /* 1: the next allocation fails, once */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void *__libc_calloc(size_t n, size_t size);
void *calloc(size_t n, size_t size);
void *__libc_malloc(size_t size);
void *malloc(size_t size);

void *
calloc(size_t n, size_t size)
{
	return no_memory || (fail_in > 0 && --fail_in == 0) ? NULL : __libc_calloc(n, size);
}

void *
malloc(size_t size)
{
	/* only large blocks: the simulated link allocates its frames, which are short here */
	return fail_in > 0 && size >= 512 && --fail_in == 0 ? NULL : __libc_malloc(size);
}
#define CAN_FAIL 1
#else
#define CAN_FAIL 0
#endif

/** Each allocation of a context and its worker fails in turn. The call returns an error and frees
 * everything. */
static void
test_no_memory_open(void)
{
	struct weft_ctx_attr ca = {.size = sizeof(ca)};
	struct weft_worker_attr wa = {.size = sizeof(wa), .lcore = -1};
	struct weft_tcp_attr ta = {0};
	struct vt t;

	vt_open(&t, NULL);
	for (unsigned int k = 1; k < 1000 && CAN_FAIL; k++) {
		struct weft_rand r = sim_rand(t.sim, 7);
		struct weft_ctx *ctx = NULL;
		struct weft_worker *w = NULL;
		bool hit;
		int rc;

		fail_in = k;
		rc = weft_engine_ctx_create(&ca, &r, NULL, &ctx);
		if (rc == 0)
			rc = weft_engine_worker_create(ctx, &wa, &ta, &r, sim_now_ns(t.sim), &w);
		hit = fail_in == 0;
		fail_in = 0;
		CHECK_MSG(rc == (hit ? -ENOMEM : 0), "allocation %u: %d", k, rc);
		if (ctx != NULL)
			weft_ctx_destroy(ctx);
		if (!hit) {
			CHECK(k > 4);
			break;
		}
	}
	vt_close(&t);
}

/** Each allocation that a first connection makes at either node fails in turn. The connection
 * fails, or it is established. */
static void
test_no_memory_first(void)
{
	bool hit = true;

	for (unsigned int k = 2; k < 400 && hit && CAN_FAIL; k++) {
		const bool accepts = k % 2 != 0;
		struct sockaddr_in sa = vt_addr(1, VT_PORT);
		struct weft_listen_attr la = {.size = sizeof(la), .push_out = true};
		struct weft_event ev;
		struct weft_qp_attr a;
		struct vt t;

		vt_open(&t, NULL);
		la.evq = t.n[1].evq;
		CHECK_EQ(weft_listen(t.n[1].ctx, (struct sockaddr *)&sa, sizeof(sa), &la,
		                     &t.n[1].lsn),
		         0);
		a = vt_qp_attr(&t.n[0]);
		CHECK_EQ(weft_qp_create(t.n[0].pd, &a, &t.n[0].qp), 0);
		CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
		fail_in = k / 2;
		vt_run(&t, VT_S);
		hit = fail_in == 0;
		fail_in = 0;
		if (weft_evq_poll(t.n[1].evq, &ev) == 1) {
			CHECK_EQ(ev.type, WEFT_EV_CONNECT_REQUEST);
			a = vt_qp_attr(&t.n[1]);
			if (accepts) {
				CHECK_EQ(weft_qp_create(t.n[1].pd, &a, &t.n[1].qp), 0);
				CHECK_EQ(weft_accept(ev.connreq, t.n[1].qp, NULL), 0);
			} else {
				weft_reject(ev.connreq, NULL, 0);
			}
		} else {
			CHECK(hit);
		}
		vt_run(&t, 10 * VT_S);
		CHECK_EQ(weft_evq_poll(t.n[0].evq, &ev), 1);
		if (t.n[1].qp != NULL)
			CHECK_EQ(ev.type, WEFT_EV_ESTABLISHED);
		else
			CHECK(ev.type == WEFT_EV_REJECTED ||
			      (hit && ev.type == WEFT_EV_CONNECT_ERROR));
		vt_close(&t);
	}
	CHECK(!hit || !CAN_FAIL);
}

/** Events of an existing QP need no further memory. */
static void
test_no_memory(void)
{
	uint8_t out[8] = {0}, in[8];
	struct weft_sge sg = {out, 8, 0};
	struct weft_wr wr = wr_send(&sg, 0);
	struct weft_srq_attr sa = {.size = sizeof(sa)};
	struct weft_recv_wr rr = {.sg_list = &(struct weft_sge){in, 8, 0}, .num_sge = 1};
	struct weft_qp_attr a;
	struct weft_srq *srq;
	struct vt t;

	vt_open(&t, NULL);
	sa.evq = t.n[1].evq;
	CHECK_EQ(weft_srq_create(t.n[1].pd, &sa, &srq), 0);
	a = vt_qp_attr(&t.n[1]);
	a.srq = srq;
	vt_connect(&t, NULL, &a);
	CHECK_EQ(weft_post_srq_recv(srq, &rr, 1), 1);
	vt_post(&t.n[0], &wr); /* allocates its send queue */
	vt_wc(&t.n[1]);
	CHECK_EQ(weft_srq_modify(srq, 1), 1);
	no_memory = CAN_FAIL;
	vt_post(&t.n[0], &wr);
	CHECK(vt_ev(&t.n[1], WEFT_EV_SRQ_LIMIT).srq == srq);
	struct weft_event ev = vt_ev(&t.n[1], WEFT_EV_TERMINATED);
	CHECK_EQ(ev.term.code, 2);
	CHECK(ev.term.ours && ev.remote.ss_family == AF_INET);
	vt_ev(&t.n[1], WEFT_EV_LAST_WQE);
	vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
	CHECK(!vt_ev(&t.n[0], WEFT_EV_TERMINATED).term.ours);
	vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
	if (CAN_FAIL)
		CHECK_EQ(weft_srq_modify(srq, 1), -ENOMEM);
	no_memory = false;
	weft_qp_destroy(t.n[1].qp);
	t.n[1].qp = NULL;
	CHECK_EQ(weft_srq_destroy(srq), 0);
	vt_close(&t);
}

static bool
syn_came(void *arg)
{
	return weft_tcp_stats(weft_engine_tcp(((struct vt *)arg)->n[1].w))->conns_now > 0;
}

/** A start-up without memory fails at once, with the reason, and not at its timeout. */
static void
test_no_memory_startup(void)
{
	struct vt_attr va = {.link.delay_ns = VT_MS};
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_event ev;
	struct weft_qp_attr a;
	struct vt t;

	vt_open(&t, &va);
	vt_listen(&t.n[1]);
	a = vt_qp_attr(&t.n[0]);
	CHECK_EQ(weft_qp_create(t.n[0].pd, &a, &t.n[0].qp), 0);
	CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
	CHECK(vt_until(&t, VT_S, syn_came, &t)); /* its SYN-ACK is on the way */
	no_memory = CAN_FAIL;
	vt_run(&t, 3 * VT_MS / 2);
	no_memory = false;
	if (CAN_FAIL) {
		CHECK_EQ(weft_evq_poll(t.n[0].evq, &ev), 1);
		CHECK(ev.type == WEFT_EV_CONNECT_ERROR && ev.status == -ENOMEM);
	}
	vt_run(&t, 20 * VT_S);
	vt_close(&t);
}

/**
 * A connection is established while no event can be allocated. It ends with the reason (RFC 6581
 * s9.3), as the consumer would never learn of it.
 */
static void
test_no_memory_up(void)
{
	struct vt_attr va = {.link.delay_ns = VT_MS};
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_event ev;
	struct weft_qp_attr a;
	struct vt t;

	vt_open(&t, &va);
	vt_listen(&t.n[1]);
	for (int i = 0; i < 2; i++) {
		a = vt_qp_attr(&t.n[i]);
		CHECK_EQ(weft_qp_create(t.n[i].pd, &a, &t.n[i].qp), 0);
	}
	CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
	ev = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST);
	CHECK_EQ(weft_accept(ev.connreq, t.n[1].qp, NULL), 0);
	no_memory = CAN_FAIL;
	vt_run(&t, 3 * VT_MS / 2); /* the Reply arrives */
	no_memory = false;
	if (CAN_FAIL) {
		ev = vt_ev(&t.n[0], WEFT_EV_TERMINATED);
		CHECK(ev.term.ours && ev.term.layer == 2 && ev.term.etype == 0);
		CHECK_EQ(ev.term.code, 5); /* "Local Catastrophic Error" */
		vt_ev(&t.n[0], WEFT_EV_CONNECT_ERROR);
		CHECK_EQ(weft_evq_poll(t.n[0].evq, &ev), 0);
	}
	vt_run(&t, VT_S);
	vt_close(&t);
}

WEFT_TEST_MAIN({"events without memory", test_no_memory},
               {"start-up without memory", test_no_memory_startup},
               {"up without memory", test_no_memory_up},
               {"context without memory", test_no_memory_open},
               {"first connection without memory", test_no_memory_first})
