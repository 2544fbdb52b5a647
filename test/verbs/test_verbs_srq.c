/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Shared receive queues: order, exhaustion, limit, receives held by a QP that ends. Several
 * workers and threads. */

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "verbs_srq.h"
#include "verbs_wr.h"
#include "vt.h"

#define QPS  2
#define BUFS 16
#define SIZE (64 * 1024)

struct srq_rig {
	struct vt t;
	struct weft_srq *srq;
	struct weft_qp *qp[2][QPS]; /**< [node] */
	uint8_t *buf[BUFS];
};

static void
rig_open(struct srq_rig *r, uint32_t depth)
{
	struct weft_srq_attr sa = {.size = sizeof(sa), .depth = depth, .max_sge = 2, .user = r};

	memset(r, 0, sizeof(*r));
	vt_open(&r->t, NULL);
	sa.evq = r->t.n[1].evq;
	CHECK_EQ(weft_srq_create(r->t.n[1].pd, &sa, &r->srq), 0);
	for (unsigned int i = 0; i < QPS; i++) {
		struct weft_qp_attr a = vt_qp_attr(&r->t.n[1]);

		a.srq = r->srq;
		vt_connect(&r->t, NULL, &a);
		for (unsigned int k = 0; k < 2; k++) {
			r->qp[k][i] = r->t.n[k].qp;
			r->t.n[k].qp = NULL;
		}
	}
	for (unsigned int i = 0; i < BUFS; i++)
		r->buf[i] = calloc(1, SIZE);
}

static void
rig_close(struct srq_rig *r)
{
	CHECK_EQ(weft_srq_destroy(r->srq), r->qp[1][0] || r->qp[1][1] ? -EBUSY : 0);
	for (unsigned int i = 0; i < 2 * QPS; i++)
		if (r->qp[i % 2][i / 2] != NULL)
			weft_qp_destroy(r->qp[i % 2][i / 2]);
	if (r->qp[1][0] || r->qp[1][1])
		CHECK_EQ(weft_srq_destroy(r->srq), 0);
	vt_close(&r->t);
	for (unsigned int i = 0; i < BUFS; i++)
		free(r->buf[i]);
}

static void
post(struct srq_rig *r, uint64_t from, unsigned int n)
{
	for (uint64_t i = from; i < from + n; i++) {
		struct weft_sge sg[2] = {{r->buf[i % BUFS], 10, 0},
		                         {r->buf[i % BUFS] + 10, SIZE - 10, 0}};
		struct weft_recv_wr wr = {.wr_id = i, .sg_list = sg, .num_sge = 2};

		CHECK_EQ(weft_post_srq_recv(r->srq, &wr, 1), 1);
	}
}

static void
send_on(struct srq_rig *r, unsigned int qp, void *buf, uint32_t len)
{
	struct weft_sge sg = {buf, len, 0};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};

	CHECK_EQ(weft_post_send(r->qp[0][qp], &wr, 1), 1);
}

static struct weft_srq_info
query(struct srq_rig *r)
{
	struct weft_srq_info i;

	weft_srq_query(r->srq, &i);
	return i;
}

static void
no_wc(struct srq_rig *r)
{
	struct weft_wc wc;

	vt_run(&r->t, VT_S);
	CHECK_EQ(weft_cq_poll(r->t.n[1].cq, &wc, 1), 0);
}

static void
no_ev(struct srq_rig *r)
{
	struct weft_event ev;

	vt_run(&r->t, VT_S);
	CHECK_EQ(weft_evq_poll(r->t.n[1].evq, &ev), 0);
}

static void
test_shared(void)
{
	uint8_t out[3000];
	struct weft_recv_wr bad[3];
	struct weft_sge sg[3];
	struct srq_rig r;

	rig_open(&r, 8);
	vt_fill(out, sizeof(out), 4);
	post(&r, 0, 6);
	CHECK_EQ(query(&r).posted, 6);
	CHECK_EQ(query(&r).used, 6);
	CHECK_EQ(query(&r).qps, QPS);
	for (uint64_t i = 0; i < 12; i++) {
		unsigned int q = (i / 3) % 2;
		struct weft_wc wc;

		send_on(&r, q, out, 100 + (uint32_t)i * 200);
		wc = vt_wc(&r.t.n[1]);
		CHECK_EQ(wc.wr_id, i); /* in the order of the posts */
		CHECK(wc.qp == r.qp[1][q]);
		CHECK_EQ(wc.len_bytes, 100 + i * 200);
		CHECK_MEM(r.buf[i % BUFS], out, wc.len_bytes);
		post(&r, i + 6, 1);
	}
	CHECK_EQ(query(&r).used, 6);
	/* full; and a bad request in a list */
	for (unsigned int i = 0; i < 3; i++) {
		sg[i] = (struct weft_sge){out, 1, 0};
		bad[i] = (struct weft_recv_wr){.sg_list = sg, .num_sge = i == 1 ? 3 : 1};
	}
	CHECK_EQ(weft_post_srq_recv(r.srq, bad, 3), 1);
	CHECK_EQ(weft_post_srq_recv(r.srq, &bad[1], 2), -EINVAL);
	CHECK_EQ(weft_post_srq_recv(r.srq, bad, 1), 1);
	CHECK_EQ(weft_post_srq_recv(r.srq, bad, 1), -EAGAIN);
	CHECK_EQ(query(&r).posted, 8);
	/* the QP has no receive queue of its own */
	CHECK_EQ(weft_post_recv(r.qp[1][0], bad, 1), -EINVAL);
	no_wc(&r);
	rig_close(&r);
}

/** RFC 5041 s7.2: a message without a buffer ends its own stream and no other. */
static void
test_exhausted(void)
{
	uint8_t out[100] = {0};
	struct weft_event ev;
	struct srq_rig r;

	rig_open(&r, 8);
	post(&r, 0, 1);
	send_on(&r, 0, out, 100);
	CHECK_EQ(vt_wc(&r.t.n[1]).wr_id, 0);
	send_on(&r, 0, out, 100);
	ev = vt_ev(&r.t.n[1], WEFT_EV_TERMINATED);
	CHECK(ev.qp == r.qp[1][0]);
	CHECK_EQ(ev.term.layer, 1);
	CHECK_EQ(ev.term.etype, 2);
	CHECK_EQ(ev.term.code, 2);
	CHECK(vt_ev(&r.t.n[1], WEFT_EV_LAST_WQE).qp == r.qp[1][0]);
	vt_ev(&r.t.n[1], WEFT_EV_DISCONNECTED);
	CHECK_EQ(query(&r).no_buffer, 1);
	post(&r, 1, 1);
	send_on(&r, 1, out, 100);
	CHECK_EQ(vt_wc(&r.t.n[1]).wr_id, 1);
	rig_close(&r);
}

static bool
is_held(void *arg)
{
	return query(arg).posted == 1;
}

static void *
destroy_main(void *arg)
{
	weft_qp_destroy(arg);
	return NULL;
}

/** However a QP ends in the middle of a message, its receive is returned once. */
static void
test_held(void)
{
	static uint8_t out[SIZE];
	enum { PEER_RESETS, PEER_TERMINATES, DESTROYED, DESTROYED_ELSEWHERE, DISCONNECTED, WAYS };

	for (unsigned int way = 0; way < WAYS; way++) {
		struct srq_rig r;
		struct weft_wc wc;
		pthread_t th;

		rig_open(&r, 8);
		post(&r, 0, 2);
		send_on(&r, 0, out, SIZE);
		CHECK(vt_until(&r.t, VT_S, is_held, &r));
		CHECK_EQ(query(&r).used, 2);
		switch (way) {
		case PEER_RESETS:
			weft_qp_destroy(r.qp[0][0]);
			r.qp[0][0] = NULL;
			break;
		case PEER_TERMINATES: {
			const struct weft_term t = {1, 0, 0};

			weft_rdmap_terminate(r.qp[0][0]->rdmap, &t, sim_now_ns(r.t.sim));
			break;
		}
		case DISCONNECTED:
			/* the message is received to its end first */
			CHECK_EQ(weft_disconnect(r.qp[1][0]), 0);
			break;
		case DESTROYED:
			weft_qp_destroy(r.qp[1][0]);
			r.qp[1][0] = NULL;
			break;
		case DESTROYED_ELSEWHERE:
			CHECK_EQ(pthread_create(&th, NULL, destroy_main, r.qp[1][0]), 0);
			pthread_join(th, NULL);
			r.qp[1][0] = NULL;
			break;
		}
		if (way != DESTROYED_ELSEWHERE) {
			wc = vt_wc(&r.t.n[1]);
			CHECK_EQ(wc.wr_id, 0);
			CHECK_EQ(wc.status,
			         way == DISCONNECTED ? WEFT_WC_SUCCESS : WEFT_WC_FLUSHED);
		}
		vt_run(&r.t, 200 * VT_S);
		CHECK_EQ(weft_cq_poll(r.t.n[1].cq, &wc, 1), 0);
		/* destroyed on another thread there is no completion, so the receive is unused */
		CHECK_EQ(query(&r).posted, way == DESTROYED_ELSEWHERE ? 2 : 1);
		CHECK_EQ(query(&r).used, query(&r).posted);
		if (way == DESTROYED_ELSEWHERE) {
			post(&r, 2, 1);
			for (unsigned int i = 0; i < 3; i++) {
				static const uint64_t order[] = {1, 0, 2};

				send_on(&r, 1, out, 50);
				CHECK_EQ(vt_wc(&r.t.n[1]).wr_id, order[i]);
			}
		}
		rig_close(&r);
	}
}

static void
test_limit(void)
{
	uint8_t out[8] = {0};
	struct weft_srq *plain;
	struct weft_event ev;
	struct srq_rig r;

	rig_open(&r, 8);
	CHECK_EQ(weft_srq_create(r.t.n[1].pd,
	                         &(struct weft_srq_attr){.size = sizeof(struct weft_srq_attr)},
	                         &plain),
	         0);
	CHECK_EQ(weft_srq_modify(plain, 1), -EINVAL); /* without an event queue */
	CHECK_EQ(weft_srq_destroy(plain), 0);
	CHECK_EQ(weft_srq_modify(r.srq, 9), -EINVAL);
	post(&r, 0, 5);
	CHECK_EQ(weft_srq_modify(r.srq, 3), 0);
	CHECK_EQ(query(&r).limit, 3);
	for (unsigned int i = 0; i < 2; i++) {
		send_on(&r, i, out, 8);
		vt_wc(&r.t.n[1]);
	}
	no_ev(&r); /* three are not fewer than three */
	send_on(&r, 0, out, 8);
	ev = vt_ev(&r.t.n[1], WEFT_EV_SRQ_LIMIT);
	CHECK(ev.srq == r.srq && ev.qp == NULL && ev.user == &r);
	CHECK_EQ(query(&r).limit, 0);
	CHECK_EQ(query(&r).limit_events, 1);
	vt_wc(&r.t.n[1]);
	send_on(&r, 1, out, 8);
	vt_wc(&r.t.n[1]);
	no_ev(&r); /* one event */
	/* below the limit already: an event at once, with the next message */
	CHECK_EQ(weft_srq_modify(r.srq, 4), 1);
	no_ev(&r);
	send_on(&r, 1, out, 8);
	CHECK(vt_ev(&r.t.n[1], WEFT_EV_SRQ_LIMIT).srq == r.srq);
	vt_wc(&r.t.n[1]);
	/* armed, armed with another number, disarmed */
	post(&r, 5, 4);
	CHECK_EQ(weft_srq_modify(r.srq, 4), 0);
	CHECK_EQ(weft_srq_modify(r.srq, 2), 0);
	send_on(&r, 0, out, 8);
	vt_wc(&r.t.n[1]);
	no_ev(&r);
	CHECK_EQ(weft_srq_modify(r.srq, 0), 0);
	for (unsigned int i = 0; i < 3; i++) {
		send_on(&r, 0, out, 8);
		vt_wc(&r.t.n[1]);
	}
	no_ev(&r);
	/* The message that finds no receive also causes the event. An event that is not polled is
	 * freed with the SRQ. */
	CHECK_EQ(weft_srq_modify(r.srq, 1), 1);
	send_on(&r, 0, out, 8);
	vt_run(&r.t, VT_S);
	CHECK_EQ(query(&r).limit_events, 3);
	rig_close(&r);
}

/**
 * RFC 5042 s6.4.3.1: one peer sends as fast as it can. The limit event comes before the others have
 * no receives. The queries show which QP uses them. When that QP is gone the others go on.
 */
static void
test_greedy_peer(void)
{
	uint8_t out[1] = {0};
	struct weft_qp_info info[QPS];
	struct weft_event ev;
	struct srq_rig r;

	rig_open(&r, 16);
	post(&r, 0, 16);
	CHECK_EQ(weft_srq_modify(r.srq, 4), 0);
	send_on(&r, 0, out, 1);
	for (unsigned int i = 0; i < 12; i++)
		send_on(&r, 1, out, 1);
	ev = vt_ev(&r.t.n[1], WEFT_EV_SRQ_LIMIT);
	CHECK(ev.srq == r.srq);
	CHECK_EQ(query(&r).posted, 3);
	for (unsigned int i = 0; i < QPS; i++)
		weft_qp_query(r.qp[1][i], &info[i]);
	CHECK_EQ(info[0].recv_msgs, 1);
	CHECK_EQ(info[1].recv_msgs, 12);
	weft_qp_destroy(r.qp[1][1]);
	r.qp[1][1] = NULL;
	for (unsigned int i = 0; i < 13; i++)
		CHECK_EQ(vt_wc(&r.t.n[1]).status, WEFT_WC_SUCCESS);
	for (unsigned int i = 0; i < 3; i++) {
		send_on(&r, 0, out, 1);
		CHECK_EQ(vt_wc(&r.t.n[1]).status, WEFT_WC_SUCCESS);
	}
	CHECK_EQ(query(&r).no_buffer, 0);
	rig_close(&r);
}

static void
test_lkeys(void)
{
	static uint8_t area[64];
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .addr = area,
	                          .len_bytes = sizeof(area),
	                          .access = WEFT_ACCESS_LOCAL_WRITE};
	struct weft_sge sg = {area, 64, 0};
	struct weft_recv_wr wr = {.wr_id = 3, .sg_list = &sg, .num_sge = 1};
	uint8_t out[8] = {7, 7, 7, 7, 7, 7, 7, 7};
	struct weft_mr *mr;
	struct weft_wc wc;
	struct srq_rig r;

	rig_open(&r, 8);
	CHECK_EQ(weft_mr_reg(r.t.n[1].pd, &ma, &mr), 0);
	sg.lkey = weft_mr_stag(mr);
	CHECK_EQ(weft_post_srq_recv(r.srq, &wr, 1), 1);
	CHECK_EQ(weft_post_srq_recv(r.srq, &wr, 1), 1);
	send_on(&r, 0, out, 8);
	CHECK_EQ(vt_wc(&r.t.n[1]).status, WEFT_WC_SUCCESS);
	CHECK_MEM(area, out, 8);
	weft_mr_dereg(mr, NULL, NULL);
	send_on(&r, 0, out, 8);
	wc = vt_wc(&r.t.n[1]);
	CHECK_EQ(wc.wr_id, 3);
	CHECK_EQ(wc.status, WEFT_WC_LOCAL_PROT);
	vt_run(&r.t, 10 * VT_S);
	CHECK_EQ(query(&r).used, 0);
	rig_close(&r);
}

/* ---- Threads ---- */

#define TAKERS  2
#define POSTERS 2
#define EACH    20000
#define DEPTH   64

struct crowd {
	struct weft_srq *srq;
	struct weft_worker *w[TAKERS];
	struct weft_qp *qp[TAKERS];
	atomic_uint posted, taken;
	atomic_uchar seen[(POSTERS + TAKERS) * EACH];
};

struct member {
	struct crowd *c;
	unsigned int id;
	pthread_t thread;
};

static int
post_number(struct crowd *c, unsigned int id, unsigned int i)
{
	static uint8_t mem[8];
	struct weft_sge sg[2] = {{mem, 8, 0}, {mem, 8, 0}};
	struct weft_recv_wr wr = {.wr_id = (uint64_t)id << 32 | i, .sg_list = sg, .num_sge = i % 3};

	return weft_post_srq_recv(c->srq, &wr, 1);
}

static void *
poster_main(void *arg)
{
	struct member *m = arg;

	for (unsigned int i = 0; i < EACH;) {
		if (post_number(m->c, m->id, i) == 1)
			i++;
		else
			sched_yield();
	}
	return NULL;
}

/** A worker that takes receives, and posts some itself as callbacks do. */
static void *
taker_main(void *arg)
{
	struct member *m = arg;
	struct crowd *c = m->c;
	struct weft_qp *qp = c->qp[m->id];
	uint64_t last[POSTERS + TAKERS];
	unsigned int mine = 0;

	memset(last, 0xff, sizeof(last));
	weft_engine_poll_at(c->w[m->id], 1);
	while (atomic_load(&c->taken) < (POSTERS + TAKERS) * EACH) {
		const struct verbs_rqe *r = verbs_rqe_at(qp, qp->rq_tail);
		uint64_t id, i;

		if (mine < EACH && post_number(c, POSTERS + m->id, mine) == 1)
			mine++;
		if (!weft_verbs_srq_take(qp)) {
			sched_yield();
			continue;
		}
		id = r->wr_id >> 32;
		i = (uint32_t)r->wr_id;
		if (id >= POSTERS + TAKERS || i >= EACH || r->nsge != i % 3 ||
		    (last[id] != UINT64_MAX && i <= last[id]) ||
		    atomic_fetch_add(&c->seen[id * EACH + i], 1) != 0)
			return (void *)1;
		last[id] = i;
		qp->rq_head = qp->rq_tail;
		verbs_credits_give(qp->rq_places, 1);
		atomic_fetch_add(&c->taken, 1);
	}
	return NULL;
}

/**
 * Every receive is taken exactly once. One worker sees each poster's receives in the order of the
 * posts. At the end one worker gets the receives that all others posted: none is reserved for a
 * worker.
 */
static void
test_crowd(void)
{
	static struct crowd c;
	struct weft_srq_attr sa = {.size = sizeof(sa), .depth = DEPTH, .max_sge = 2};
	struct weft_cq_attr qa = {.size = sizeof(qa), .depth = 16};
	struct weft_evq_attr ea = {.size = sizeof(ea)};
	struct member m[POSTERS + TAKERS];
	struct weft_srq_info info;
	struct weft_evq *evq;
	struct weft_cq *cq;
	struct weft_pd *pd;
	struct weft_ctx *ctx;

	test_eal_init();
	CHECK_EQ(weft_ctx_create(NULL, &ctx), 0);
	CHECK_EQ(weft_pd_alloc(ctx, &pd), 0);
	CHECK_EQ(weft_cq_create(ctx, &qa, &cq), 0);
	CHECK_EQ(weft_evq_create(ctx, &ea, &evq), 0);
	CHECK_EQ(weft_srq_create(pd, &sa, &c.srq), 0);
	for (unsigned int i = 0; i < TAKERS; i++) {
		struct weft_qp_attr a = {
		        .size = sizeof(a), .send_cq = cq, .recv_cq = cq, .evq = evq, .srq = c.srq};

		CHECK_EQ(weft_worker_create(ctx, NULL, &c.w[i]), 0);
		a.worker = c.w[i];
		CHECK_EQ(weft_qp_create(pd, &a, &c.qp[i]), 0);
	}
	for (unsigned int i = 0; i < POSTERS + TAKERS; i++) {
		m[i] = (struct member){.c = &c, .id = i < TAKERS ? i : i - TAKERS};
		CHECK_EQ(pthread_create(&m[i].thread, NULL, i < TAKERS ? taker_main : poster_main,
		                        &m[i]),
		         0);
	}
	for (unsigned int i = 0; i < POSTERS + TAKERS; i++) {
		void *bad;

		pthread_join(m[i].thread, &bad);
		CHECK(bad == NULL);
	}
	weft_srq_query(c.srq, &info);
	CHECK_EQ(info.posted, 0);
	CHECK_EQ(info.used, 0);
	/* Worker 1 finds all receives that worker 0 and this thread post. */
	for (unsigned int k = 0; k < 2; k++) {
		if (k == 0)
			weft_engine_poll_at(c.w[0], 2);
		for (unsigned int i = 0; i < DEPTH / 2; i++)
			CHECK_EQ(post_number(&c, k, i), 1);
		weft_worker_detach(c.w[0]);
	}
	CHECK_EQ(post_number(&c, 0, 0), -EAGAIN);
	for (unsigned int i = 0; i < DEPTH; i++) {
		CHECK(weft_verbs_srq_take(c.qp[1]));
		/* receives of other threads come before those of other workers */
		CHECK_EQ(verbs_rqe_at(c.qp[1], 0)->wr_id >> 32, i < DEPTH / 2);
		CHECK_EQ((uint32_t)verbs_rqe_at(c.qp[1], 0)->wr_id, i % (DEPTH / 2));
		c.qp[1]->rq_head = c.qp[1]->rq_tail;
		verbs_credits_give(c.qp[1]->rq_places, 1);
	}
	CHECK(!weft_verbs_srq_take(c.qp[1]));
	for (unsigned int i = 0; i < TAKERS; i++) {
		weft_engine_poll_at(c.w[i], 3);
		weft_qp_destroy(c.qp[i]);
		weft_engine_poll_at(c.w[i], 4);
		weft_worker_detach(c.w[i]);
	}
	CHECK_EQ(weft_srq_destroy(c.srq), 0);
	CHECK_EQ(weft_cq_destroy(cq), 0);
	CHECK_EQ(weft_evq_destroy(evq), 0);
	CHECK_EQ(weft_pd_dealloc(pd), 0);
	weft_ctx_destroy(ctx);
}

/** The limit is disarmed while a worker holds the event and finds that it is not due. The limit
 * stays disarmed. */
static void
test_disarm(void)
{
	struct weft_evnode *n;
	struct srq_rig r;

	rig_open(&r, 16);
	post(&r, 0, 4);
	while (weft_evq_poll(r.t.n[1].evq, &(struct weft_event){0}) == 1)
		;
	CHECK_EQ(weft_srq_modify(r.srq, 4), 0);
	n = weft_verbs_srq_arm_take(r.srq);
	CHECK(n != NULL);
	CHECK_EQ(weft_srq_modify(r.srq, 0), 0);
	weft_verbs_srq_arm_back(r.srq, n);
	CHECK_EQ(query(&r).limit, 0);
	send_on(&r, 0, r.buf[8], 1);
	no_ev(&r);
	CHECK_EQ(query(&r).limit_events, 0);
	/* Armed again, it causes one event. */
	CHECK_EQ(weft_srq_modify(r.srq, 3), 0);
	CHECK_EQ(query(&r).limit, 3);
	send_on(&r, 0, r.buf[8], 1);
	CHECK(vt_ev(&r.t.n[1], WEFT_EV_SRQ_LIMIT).srq == r.srq);
	no_ev(&r);
	rig_close(&r);
}

static void *
gone_thread(void *arg)
{
	struct srq_rig *r = arg;

	for (unsigned int i = 0; i < QPS; i++)
		weft_qp_destroy(r->qp[1][i]);
	return weft_srq_destroy(r->srq) == 0 ? NULL : r;
}

/** QPs and SRQ are destroyed on another thread. A message arrives before the worker knows. There is
 * no event. */
static void
test_gone(void)
{
	struct weft_event ev;
	struct srq_rig r;
	pthread_t th;
	void *bad;

	rig_open(&r, 16);
	post(&r, 0, 2);
	while (weft_evq_poll(r.t.n[1].evq, &ev) == 1)
		;
	CHECK_EQ(weft_srq_modify(r.srq, 2), 0);
	CHECK_EQ(pthread_create(&th, NULL, gone_thread, &r), 0);
	CHECK_EQ(pthread_join(th, &bad), 0);
	CHECK(bad == NULL);
	CHECK(weft_verbs_srq_take(r.qp[1][0]));
	CHECK_EQ(weft_evq_poll(r.t.n[1].evq, &ev), 0);
	r.qp[1][0] = r.qp[1][1] = NULL;
	for (unsigned int i = 0; i < QPS; i++) {
		weft_qp_destroy(r.qp[0][i]);
		r.qp[0][i] = NULL;
	}
	vt_close(&r.t);
	for (unsigned int i = 0; i < BUFS; i++)
		free(r.buf[i]);
}

WEFT_TEST_MAIN({"shared by QPs", test_shared}, {"exhausted", test_exhausted},
               {"what a dying QP holds", test_held}, {"limit", test_limit},
               {"disarmed", test_disarm}, {"events of one that is gone", test_gone},
               {"a greedy peer", test_greedy_peer}, {"lkeys", test_lkeys},
               {"many workers and threads", test_crowd})
