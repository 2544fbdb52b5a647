/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Queries; events of completion queues, armed and overrun. */

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "weft_verbs_qp.h"
#include "vt.h"

#define RIGHTS (WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE)
#define LEN    (256 * 1024)

static struct weft_qp_info
query(struct weft_qp *qp)
{
	struct weft_qp_info i;

	weft_qp_query(qp, &i);
	return i;
}

static struct weft_wr
wr_send(const struct weft_sge *sg, uint32_t flags)
{
	return (struct weft_wr){
	        .opcode = WEFT_WR_SEND, .flags = flags, .sg_list = sg, .num_sge = 1};
}

static bool
reads_meet(void *arg)
{
	struct vt *t = arg;

	return query(t->n[0].qp).out_reads == 2 && query(t->n[1].qp).in_reads == 2;
}

/** The peer has not acknowledged a Write of 3000 octets. */
static bool
write_is_out(void *arg)
{
	return query(arg).unacked_bytes >= 3000;
}

static bool
all_is_acked(void *arg)
{
	return query(arg).unacked_bytes == 0;
}

static void
test_qp(void)
{
	struct weft_qp_info i;
	struct weft_qp_attr a[2];
	struct weft_sge sg;
	struct weft_wr wr;
	struct vt t;

	vt_open(&t, NULL);
	for (unsigned int k = 0; k < 2; k++) {
		vt_mem(&t.n[k], LEN, RIGHTS);
		a[k] = vt_qp_attr(&t.n[k]);
	}
	a[0].sq_depth = 5;
	a[0].rq_depth = 7;
	a[0].max_send_sge = 9;
	a[0].max_sge = 2;
	a[0].max_inline_bytes = 33;
	a[0].all_signaled = true;
	a[0].ord = 8;
	a[0].ird = 3;
	a[1].ird = 2;
	a[1].ord = 9;
	struct weft_qp *idle;
	CHECK_EQ(weft_qp_create(t.n[0].pd, &a[0], &idle), 0);
	i = query(idle);
	CHECK_EQ(i.state, WEFT_QP_IDLE);
	CHECK_EQ(i.sq_depth, 5);
	CHECK_EQ(i.rq_depth, 7);
	CHECK_EQ(i.max_send_sge, 9);
	CHECK_EQ(i.max_sge, 2);
	CHECK_EQ(i.max_inline_bytes, 33);
	CHECK(i.all_signaled && i.srq == NULL && i.pd == t.n[0].pd && i.evq == t.n[0].evq);
	CHECK(i.send_cq == t.n[0].cq && i.recv_cq == t.n[0].cq);
	CHECK_EQ(i.asked_ord, 8);
	CHECK_EQ(i.remote.ss_family, 0);
	weft_qp_destroy(idle);
	vt_connect(&t, &a[0], &a[1]);
	i = query(t.n[1].qp);
	CHECK_EQ(i.sq_depth, 256); /* the defaults */
	CHECK_EQ(i.max_sge, WEFT_DEFAULT_SGE);
	CHECK_EQ(i.max_inline_bytes, 0);
	/* RFC 6581 s9.1: each ORD is at most the other's IRD */
	CHECK_EQ(i.ird, 2);
	CHECK_EQ(i.ord, 3);
	i = query(t.n[0].qp);
	CHECK_EQ(i.state, WEFT_QP_RTS);
	CHECK_EQ(i.asked_ord, 8);
	CHECK_EQ(i.ord, 2);
	CHECK_EQ(i.remote.ss_family, AF_INET);
	CHECK(i.mulpdu_bytes > 1000);
	/* four Reads: two are sent, the others wait for ORD */
	sg = (struct weft_sge){t.n[0].mem, 60000, weft_mr_stag(t.n[0].mr)};
	wr = (struct weft_wr){.opcode = WEFT_WR_READ,
	                      .sg_list = &sg,
	                      .num_sge = 1,
	                      .rdma = {weft_mr_stag(t.n[1].mr), 0x200000000ULL}};
	for (unsigned int k = 0; k < 4; k++)
		vt_post(&t.n[0], &wr);
	CHECK_EQ(query(t.n[0].qp).sq_used, 4);
	vt_post_recv(&t.n[0], t.n[0].mem, 8, 1);
	CHECK_EQ(query(t.n[0].qp).rq_used, 1);
	CHECK(vt_until(&t, VT_S, reads_meet, &t));
	for (unsigned int k = 0; k < 4; k++)
		CHECK_EQ(vt_wc(&t.n[0]).status, WEFT_WC_SUCCESS);
	i = query(t.n[0].qp);
	CHECK_EQ(i.out_reads, 0);
	CHECK_EQ(i.sq_used, 0);
	CHECK(i.ord_stalls > 0);
	CHECK_EQ(i.recv_bytes, 240000);
	/* Four Read Requests, on queue 1; the responses are tagged. */
	CHECK_EQ(i.ddp[1].tx_msn, 5);
	CHECK_EQ(i.ddp[1].rx_msn, 1);
	CHECK_EQ(i.ddp[0].tx_msn, 1);
	i = query(t.n[1].qp);
	CHECK_EQ(i.ddp[1].rx_msn, 5);
	CHECK_EQ(i.ddp[1].rx_mo, 0);
	CHECK(vt_until(&t, VT_S, all_is_acked, t.n[0].qp));
	sg.len_bytes = 3000;
	wr.opcode = WEFT_WR_WRITE;
	vt_post(&t.n[0], &wr);
	CHECK(vt_until(&t, VT_S, write_is_out, t.n[0].qp));
	CHECK(vt_until(&t, VT_S, all_is_acked, t.n[0].qp));
	CHECK_EQ(vt_wc(&t.n[0]).status, WEFT_WC_SUCCESS);
	CHECK_EQ(weft_disconnect(t.n[0].qp), 0);
	vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
	i = query(t.n[0].qp);
	CHECK_EQ(i.state, WEFT_QP_ERROR);
	CHECK_EQ(i.remote.ss_family, AF_INET); /* kept after the end */
	vt_close(&t);
}

static void
test_objects(void)
{
	struct weft_srq_attr sa = {.size = sizeof(sa)};
	struct weft_cq_attr qa = {.size = sizeof(qa), .depth = 100, .want_fd = true};
	struct weft_ctx_info c0, c1;
	struct weft_cq_info ci;
	struct weft_pd_info pi;
	struct weft_qp_attr a;
	struct weft_srq *srq;
	struct weft_cq *cq;
	struct weft_qp *qp;
	struct vt t;

	vt_open(&t, NULL);
	weft_ctx_query(t.n[0].ctx, &c0);
	CHECK_EQ(c0.max_sge, WEFT_MAX_SGE);
	CHECK_EQ(c0.max_inline_bytes, WEFT_MAX_INLINE);
	CHECK_EQ(c0.max_ird, 0x3ffe);
	CHECK_EQ(c0.max_message_bytes, UINT32_MAX);
	CHECK_EQ(c0.max_regions, 4096);
	CHECK_EQ(c0.workers, 1);
	CHECK(c0.max_qps >= 1024);
	CHECK_EQ(c0.qps, 0);
	CHECK_EQ(c0.regions, 0);
	vt_mem(&t.n[0], LEN, RIGHTS);
	vt_listen(&t.n[0]);
	CHECK_EQ(weft_cq_create(t.n[0].ctx, &qa, &cq), 0);
	CHECK_EQ(weft_srq_create(t.n[0].pd, &sa, &srq), 0);
	weft_cq_query(cq, &ci);
	CHECK_EQ(ci.depth, 128);
	CHECK_EQ(ci.workers + ci.users + ci.waiting + ci.armed, 0);
	a = vt_qp_attr(&t.n[0]);
	a.send_cq = a.recv_cq = cq;
	a.srq = srq;
	CHECK_EQ(weft_qp_create(t.n[0].pd, &a, &qp), 0);
	CHECK(query(qp).srq == srq && query(qp).rq_depth == 0);
	weft_cq_query(cq, &ci);
	CHECK_EQ(ci.workers, 1);
	CHECK_EQ(ci.users, 2);
	CHECK_EQ(weft_cq_arm(cq, true), 0);
	weft_cq_query(cq, &ci);
	CHECK(!ci.armed && ci.armed_solicited);
	CHECK_EQ(weft_cq_arm(cq, false), 0);
	weft_cq_query(cq, &ci);
	CHECK(ci.armed && !ci.armed_solicited);
	weft_pd_query(t.n[0].pd, &pi);
	CHECK_EQ(pi.regions, 1);
	CHECK_EQ(pi.qps, 1);
	CHECK_EQ(pi.srqs, 1);
	CHECK_EQ(weft_pd_dealloc(t.n[0].pd), -EBUSY);
	weft_ctx_query(t.n[0].ctx, &c1);
	CHECK_EQ(c1.qps, 1);
	CHECK_EQ(c1.regions, 1);
	CHECK_EQ(c1.cqs, c0.cqs + 1);
	CHECK_EQ(c1.srqs, 1);
	CHECK_EQ(c1.pds, 1);
	CHECK_EQ(c1.evqs, 1);
	CHECK_EQ(c1.listeners, 1);
	weft_qp_destroy(qp);
	CHECK_EQ(weft_srq_destroy(srq), 0);
	CHECK_EQ(weft_cq_destroy(cq), 0);
	weft_ctx_query(t.n[0].ctx, &c1);
	CHECK_EQ(c1.qps + c1.srqs, 0);
	CHECK_EQ(c1.cqs, c0.cqs);
	vt_close(&t);
}

/** A context's numbers are the sums of its workers'. */
static void
test_workers(void)
{
	struct vt_attr va = {.max_conns = {300, 200}};
	struct weft_worker_attr wa = {.size = sizeof(wa), .lcore = -1, .max_conns = 50};
	struct weft_cq_attr qa = {.size = sizeof(qa), .depth = 4, .want_fd = true};
	struct weft_recv_wr rr = {0};
	struct weft_tcp_attr ta = {0};
	struct weft_worker *other;
	struct weft_ctx_info c;
	struct weft_cq *cq;
	struct weft_wc wc;
	struct weft_qp_attr a;
	struct weft_rand rand;
	struct weft_qp *qp[2];
	struct vt t;

	vt_open(&t, &va);
	weft_ctx_query(t.n[0].ctx, &c);
	CHECK_EQ(c.workers, 1);
	CHECK_EQ(c.max_qps, 300);
	rand = sim_rand(t.sim, 2);
	CHECK_EQ(weft_engine_worker_create(t.n[0].ctx, &wa, &ta, &rand, sim_now_ns(t.sim), &other),
	         0);
	a = vt_qp_attr(&t.n[0]);
	CHECK_EQ(weft_cq_create(t.n[0].ctx, &qa, &cq), 0);
	a.recv_cq = cq;
	CHECK_EQ(weft_qp_create(t.n[0].pd, &a, &qp[0]), 0);
	a.worker = other;
	CHECK_EQ(weft_qp_create(t.n[0].pd, &a, &qp[1]), 0);
	weft_ctx_query(t.n[0].ctx, &c);
	CHECK_EQ(c.workers, 2);
	CHECK_EQ(c.max_qps, 350);
	CHECK_EQ(c.qps, 2);
	/* weft_cq_arm() sees completions that wait at any worker. */
	weft_engine_poll_at(other, sim_now_ns(t.sim));
	CHECK_EQ(weft_cq_arm(cq, false), 0);
	CHECK_EQ(weft_post_recv(qp[1], &rr, 1), 1);
	weft_qp_destroy(qp[1]); /* flushes the receive */
	CHECK_EQ(weft_cq_arm(cq, false), 1);
	CHECK_EQ(weft_cq_poll(cq, &wc, 1), 1);
	CHECK_EQ(wc.status, WEFT_WC_FLUSHED);
	CHECK_EQ(weft_cq_arm(cq, false), 0);
	weft_qp_destroy(qp[0]);
	weft_engine_poll_at(other, sim_now_ns(t.sim));
	CHECK_EQ(weft_cq_destroy(cq), 0);
	weft_worker_detach(other);
	vt_close(&t);
}

static void
test_names(void)
{
	for (unsigned int i = WEFT_EV_CONNECT_REQUEST; i <= WEFT_EV_LAST_WQE; i++)
		CHECK_MSG(strcmp(weft_event_str((enum weft_event_type)i), "?") != 0, "%u", i);
	for (unsigned int i = WEFT_WC_SUCCESS; i <= WEFT_WC_LOCAL_PROT; i++)
		CHECK_MSG(strcmp(weft_wc_status_str((enum weft_wc_status)i), "?") != 0, "%u", i);
	for (unsigned int i = WEFT_QP_IDLE; i <= WEFT_QP_ERROR; i++)
		CHECK_MSG(strcmp(weft_qp_state_str((enum weft_qp_state)i), "?") != 0, "%u", i);
	CHECK_STR(weft_event_str((enum weft_event_type)999), "?");
}

/* ---- A CQ that is too small ---- */

static bool
readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void *
post_main(void *arg)
{
	uint8_t buf[8] = {0};
	struct weft_sge sg = {buf, 8, 0};
	struct weft_wr wr = wr_send(&sg, WEFT_WR_SIGNALED);

	for (unsigned int i = 0; i < 6; i++)
		CHECK_EQ(weft_post_send(arg, &wr, 1), 1);
	return NULL;
}

/**
 * A completion finds no room in the CQ of a send queue, of a receive queue or of an SRQ, posted on
 * this thread or on another one. The event names QP and CQ, the stream ends, and a sleeping thread
 * wakes.
 */
static void
test_overrun(void)
{
	enum { SEND, SEND_FOREIGN, RECV, RECV_SRQ, WAYS };

	for (unsigned int way = 0; way < WAYS; way++) {
		struct weft_cq_attr qa = {.size = sizeof(qa), .depth = 4, .want_fd = true};
		struct weft_srq_attr sa = {.size = sizeof(sa)};
		unsigned int k = way >= RECV; /* the node whose CQ overruns */
		uint8_t in[8];
		struct weft_sge sg = {in, 8, 0};
		struct weft_recv_wr rr = {.sg_list = &sg, .num_sge = 1};
		struct weft_qp_attr a[2];
		struct weft_event ev;
		struct weft_cq_info ci;
		struct weft_wc wc[8];
		struct weft_srq *srq;
		struct weft_cq *cq;
		pthread_t th;
		struct vt t;

		vt_open(&t, NULL);
		CHECK_EQ(weft_cq_create(t.n[k].ctx, &qa, &cq), 0);
		CHECK_EQ(weft_srq_create(t.n[1].pd, &sa, &srq), 0);
		for (unsigned int i = 0; i < 2; i++)
			a[i] = vt_qp_attr(&t.n[i]);
		if (k == 0)
			a[0].send_cq = cq;
		else
			a[1].recv_cq = cq;
		if (way == RECV_SRQ)
			a[1].srq = srq;
		vt_connect(&t, &a[0], &a[1]);
		for (unsigned int i = 0; i < 6; i++)
			CHECK_EQ(way == RECV_SRQ ? weft_post_srq_recv(srq, &rr, 1)
			                         : weft_post_recv(t.n[1].qp, &rr, 1),
			         1);
		/* Four unsolicited successes cause no wake-up. The lost fifth completion does. */
		CHECK_EQ(weft_cq_arm(cq, true), 0);
		if (way == SEND_FOREIGN) {
			CHECK_EQ(pthread_create(&th, NULL, post_main, t.n[0].qp), 0);
			pthread_join(th, NULL);
		} else {
			post_main(t.n[0].qp);
		}
		ev = vt_ev(&t.n[k], WEFT_EV_CQ_OVERRUN);
		CHECK(ev.qp == t.n[k].qp && ev.cq == cq && ev.user == &t.n[k]);
		CHECK_EQ(ev.status, -EOVERFLOW);
		CHECK(readable(weft_cq_fd(cq)));
		if (way == RECV_SRQ)
			vt_ev(&t.n[k], WEFT_EV_LAST_WQE);
		CHECK_EQ(vt_ev(&t.n[k], WEFT_EV_DISCONNECTED).status, -ECONNABORTED);
		CHECK_EQ(query(t.n[k].qp).state, WEFT_QP_ERROR);
		CHECK_EQ(weft_cq_arm(cq, true), 1);
		CHECK_EQ(weft_cq_poll(cq, wc, 8), -EOVERFLOW);
		CHECK_EQ(weft_cq_poll(cq, wc, 8), 4);
		for (unsigned int i = 0; i < 4; i++)
			CHECK_EQ(wc[i].status, WEFT_WC_SUCCESS);
		weft_cq_query(cq, &ci);
		CHECK(ci.overruns >= 1);
		vt_run(&t, 10 * VT_S);
		CHECK_EQ(weft_evq_poll(t.n[k].evq, &ev), 0); /* only one event */
		for (unsigned int i = 0; i < 2; i++) {
			weft_qp_destroy(t.n[i].qp);
			t.n[i].qp = NULL;
		}
		CHECK_EQ(weft_srq_destroy(srq), 0);
		CHECK_EQ(weft_cq_destroy(cq), 0);
		vt_close(&t);
	}
}

static void *
query_main(void *arg)
{
	static struct weft_qp_info info;

	weft_qp_query(arg, &info);
	return &info;
}

/** The first query of another thread returns the present state, not that of an earlier query. */
static void
test_query_elsewhere(void)
{
	const struct weft_qp_info *qi;
	struct weft_recv_wr rr = {0};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND};
	pthread_t th;
	struct vt t;
	void *p;

	vt_open(&t, NULL);
	vt_connect(&t, NULL, NULL);
	for (unsigned int round = 1; round <= 3; round++) {
		for (unsigned int i = 0; i < 5; i++) {
			CHECK_EQ(weft_post_recv(t.n[1].qp, &rr, 1), 1);
			CHECK_EQ(weft_post_send(t.n[0].qp, &wr, 1), 1);
			CHECK_EQ(vt_wc(&t.n[1]).status, WEFT_WC_SUCCESS);
		}
		vt_run(&t, VT_MS);
		for (unsigned int i = 0; i < 2; i++) {
			CHECK_EQ(pthread_create(&th, NULL, query_main, t.n[i].qp), 0);
			CHECK_EQ(pthread_join(th, &p), 0);
			qi = p;
			CHECK_EQ(qi->state, WEFT_QP_RTS);
			CHECK_EQ(i == 0 ? qi->sent_msgs : qi->recv_msgs, 5 * round);
			CHECK(qi->remote.ss_family == AF_INET && qi->mpa.rev == 2);
		}
	}
	vt_close(&t);
}

/* A CQ with a callback. The callback causes more completions than the CQ holds. */

static unsigned int callbacks;

static void
on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	struct vt *t = user;

	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		callbacks++;
		if (wc[i].status == WEFT_WC_SUCCESS && callbacks == 1)
			post_main(t->n[0].qp);
	}
}

static void
test_overrun_callback(void)
{
	struct weft_cq_attr qa = {.size = sizeof(qa), .depth = 4, .on_wc = on_wc};
	uint8_t buf[8] = {0};
	struct weft_sge sg = {buf, 8, 0};
	struct weft_wr wr = wr_send(&sg, WEFT_WR_SIGNALED);
	struct weft_qp_attr a;
	struct weft_event ev;
	struct weft_cq *cq;
	struct vt t;

	callbacks = 0;
	vt_open(&t, NULL);
	qa.user = &t;
	CHECK_EQ(weft_cq_create(t.n[0].ctx, &qa, &cq), 0);
	a = vt_qp_attr(&t.n[0]);
	a.send_cq = cq;
	vt_connect(&t, &a, NULL);
	for (unsigned int i = 0; i < 7; i++)
		vt_post_recv(&t.n[1], buf, 8, i);
	vt_post(&t.n[0], &wr);
	ev = vt_ev(&t.n[0], WEFT_EV_CQ_OVERRUN);
	CHECK(ev.cq == cq && ev.qp == t.n[0].qp);
	vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
	CHECK_EQ(callbacks, 5); /* the first, and as many as fit */
	weft_qp_destroy(t.n[0].qp);
	t.n[0].qp = NULL;
	CHECK_EQ(weft_cq_destroy(cq), 0);
	vt_close(&t);
}

/* ---- Armed, with a sleeping thread ---- */

#define ROUNDS 400

struct sleeper {
	struct weft_cq *cq;
	bool solicited;
	atomic_uint got, wakes;
	atomic_bool stop;
};

static void *
sleeper_main(void *arg)
{
	struct sleeper *s = arg;
	struct pollfd p = {.fd = weft_cq_fd(s->cq), .events = POLLIN};
	struct weft_wc wc[4];
	uint64_t v;

	while (!atomic_load(&s->stop)) {
		int n = weft_cq_poll(s->cq, wc, 4);

		if (n > 0) {
			atomic_fetch_add(&s->got, (unsigned int)n);
			continue;
		}
		if (weft_cq_arm(s->cq, s->solicited) == 1)
			continue;
		if (poll(&p, 1, 20000) != 1)
			return (void *)1; /* a wake-up was lost */
		atomic_fetch_add(&s->wakes, 1);
		CHECK_EQ(read(p.fd, &v, 8), 8);
	}
	return NULL;
}

static void
test_sleeper(void)
{
	for (unsigned int solicited = 0; solicited < 2; solicited++) {
		struct weft_cq_attr qa = {.size = sizeof(qa), .depth = 64, .want_fd = true};
		struct vt_attr va = {.cq = &qa};
		struct sleeper s = {.solicited = solicited != 0};
		uint8_t buf[8] = {0};
		struct weft_sge sg = {buf, 8, 0};
		pthread_t th;
		struct vt t;
		void *bad;

		vt_open(&t, &va);
		vt_connect(&t, NULL, NULL);
		s.cq = t.n[1].cq;
		CHECK_EQ(pthread_create(&th, NULL, sleeper_main, &s), 0);
		for (unsigned int i = 1; i <= ROUNDS; i++) {
			for (unsigned int k = 0; k < 3; k++) {
				struct weft_wr wr =
				        wr_send(&sg, k == 2 && solicited ? WEFT_WR_SOLICITED : 0);

				vt_post_recv(&t.n[1], buf, 8, k);
				vt_post(&t.n[0], &wr);
				vt_run(&t, VT_MS);
			}
			for (unsigned int w = 0; atomic_load(&s.got) < 3 * i; w++) {
				CHECK_MSG(w < 200000, "round %u: a wake-up was lost", i);
				usleep(50);
			}
		}
		/* no wake-up was lost, and not every unsolicited completion caused one */
		if (solicited)
			CHECK(atomic_load(&s.wakes) <= ROUNDS);
		/* an error wakes as well: the peer aborts, and the receive is flushed */
		vt_post_recv(&t.n[1], buf, 8, 9);
		atomic_store(&s.stop, true);
		weft_qp_destroy(t.n[0].qp);
		t.n[0].qp = NULL;
		vt_run(&t, VT_S);
		pthread_join(th, &bad);
		CHECK(bad == NULL);
		vt_close(&t);
	}
}

WEFT_TEST_MAIN({"asked from another thread", test_query_elsewhere}, {"queue pairs", test_qp},
               {"pd, cq, srq, context", test_objects}, {"workers of a context", test_workers},
               {"names", test_names}, {"cq overrun", test_overrun},
               {"cq overrun by callback", test_overrun_callback}, {"armed, asleep", test_sleeper})
