/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Calls from another thread at the worst moment: inside a callback, while the simulated stacks wait
 * until the call is done.
 */

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "vt.h"
#include "weft_cm.h"
#include "weft_mem_find.h"

/** Connect, and send the initiator's first message. Before it the responder may not send. */
static void
pair_up(struct vt *t)
{
	vt_connect(t, NULL, NULL);
	vt_speak(t);
	vt_run(t, VT_MS);
}

/* ---- Requests whose event queue is destroyed ---- */

struct drop {
	struct vt t;
	struct weft_evq *evq;
	unsigned int requests;
	int destroyed; /* result of weft_evq_destroy() */
};

static void
drop_thread(void *arg)
{
	struct drop *d = arg;

	weft_unlisten(d->t.n[1].lsn);
	d->t.n[1].lsn = NULL;
	d->destroyed = weft_evq_destroy(d->evq);
}

static void
drop_event(void *user, const struct weft_event *ev)
{
	struct drop *d = user;

	CHECK_EQ(ev->type, WEFT_EV_CONNECT_REQUEST);
	CHECK_EQ(d->requests++, 0);
	vt_elsewhere(drop_thread, d);
	CHECK_EQ(d->destroyed, 0);
	weft_reject(ev->connreq, NULL, 0);
}

/** Two requests arrive in one poll. The callback of the first destroys the event queue that the
 * second is for. */
static void
test_dropped_request(void)
{
	static struct drop d;
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = drop_event, .user = &d};
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct weft_qp_attr qa;
	struct weft_qp *qp[2];

	memset(&d, 0, sizeof(d));
	vt_open(&d.t, NULL);
	CHECK_EQ(weft_evq_create(d.t.n[1].ctx, &ea, &d.evq), 0);
	la.evq = d.evq;
	CHECK_EQ(weft_listen(d.t.n[1].ctx, (struct sockaddr *)&sa, sizeof(sa), &la, &d.t.n[1].lsn),
	         0);
	qa = vt_qp_attr(&d.t.n[0]);
	for (unsigned int i = 0; i < 2; i++) {
		CHECK_EQ(weft_qp_create(d.t.n[0].pd, &qa, &qp[i]), 0);
		CHECK_EQ(weft_connect(qp[i], (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
	}
	vt_ev(&d.t.n[0], WEFT_EV_REJECTED);
	vt_ev(&d.t.n[0], WEFT_EV_REJECTED);
	CHECK_EQ(d.requests, 1);
	vt_run(&d.t, VT_S);
	CHECK(TAILQ_EMPTY(&weft_vworker_of(d.t.n[1].w)->cm->connreqs));
	weft_qp_destroy(qp[0]);
	weft_qp_destroy(qp[1]);
	vt_close(&d.t);
}

/* ---- Order of posts ---- */

struct order {
	struct vt t;
	uint8_t buf[4];
	bool recv;
};

static void
order_post(struct order *o, uint64_t wr_id)
{
	struct weft_sge sg = {.addr = &o->buf[wr_id], .len_bytes = 1};
	struct weft_wr wr = {.wr_id = wr_id,
	                     .opcode = WEFT_WR_SEND,
	                     .flags = WEFT_WR_SIGNALED,
	                     .sg_list = &sg,
	                     .num_sge = 1};

	if (o->recv)
		vt_post_recv(&o->t.n[0], &o->buf[wr_id], 1, wr_id);
	else
		vt_post(&o->t.n[0], &wr);
}

static void
order_thread(void *arg)
{
	order_post(arg, 1);
	order_post(arg, 2);
}

static void
order_alarm(void *arg)
{
	struct order *o = arg;

	order_post(o, 0);
	vt_elsewhere(order_thread, o);
	order_post(o, 3);
}

/** A post that has returned on another thread comes before the owner's next post. */
static void
test_post_order(void)
{
	for (unsigned int recv = 0; recv < 2; recv++) {
		static struct order o;
		uint8_t in[4];

		memset(&o, 0, sizeof(o));
		o.recv = recv;
		vt_open(&o.t, NULL);
		pair_up(&o.t);
		if (!recv)
			for (unsigned int i = 0; i < 4; i++) {
				o.buf[i] = (uint8_t)(i + 10);
				vt_post_recv(&o.t.n[1], &in[i], 1, i);
			}
		CHECK_EQ(weft_alarm_set(o.t.n[0].w, 1000, order_alarm, &o, NULL), 0);
		vt_run(&o.t, 10 * VT_MS);
		for (uint8_t i = 0; recv && i < 4; i++) {
			struct weft_sge sg = {.addr = &in[i], .len_bytes = 1};
			struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};

			in[i] = i + 10;
			vt_post(&o.t.n[1], &wr);
		}
		for (uint64_t i = 0; i < 4; i++)
			CHECK_EQ(vt_wc(&o.t.n[0]).wr_id, i);
		if (!recv)
			for (uint64_t i = 0; i < 4; i++)
				CHECK_EQ(vt_wc(&o.t.n[1]).wr_id, i);
		for (unsigned int i = 0; i < 4; i++)
			CHECK_EQ(recv ? o.buf[i] : in[i], i + 10);
		vt_close(&o.t);
	}
}

/* ---- Several sleepers on one CQ ---- */

struct sleepers {
	struct vt t;
	unsigned int waiting; /**< arms that found completions */
	bool on;
};

static void
sleepers_alarm(void *arg)
{
	struct sleepers *s = arg;
	int rc = weft_cq_arm(s->t.n[0].cq, true);

	CHECK(rc == 0 || rc == 1);
	s->waiting += (unsigned int)rc;
	if (s->on)
		CHECK_EQ(weft_alarm_set(s->t.n[0].w, 1, sleepers_alarm, s, NULL), 0);
}

static bool
readable(const struct vt_node *n)
{
	struct pollfd p = {.fd = weft_cq_fd(n->cq), .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/** One thread waits for any completion. Threads that arm for other completions at any moment must
 * not make it miss one. */
static void
test_arm_by_several(void)
{
	for (unsigned int busy = 0; busy < 2; busy++) {
		struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 64, .want_fd = true};
		struct vt_attr a = {.cq = &ca};
		static struct sleepers s;
		uint8_t in[1], out[1] = {7};
		struct weft_sge sg = {.addr = out, .len_bytes = 1};
		struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};

		memset(&s, 0, sizeof(s));
		vt_open(&s.t, &a);
		pair_up(&s.t);
		vt_post_recv(&s.t.n[0], in, 1, 1);
		CHECK_EQ(weft_cq_arm(s.t.n[0].cq, false), 0);
		CHECK_EQ(weft_cq_arm(s.t.n[0].cq, true), 0);
		s.on = busy;
		if (busy) /* armed in the same poll that delivers the completion */
			sleepers_alarm(&s);
		vt_post(&s.t.n[1], &wr);
		vt_run(&s.t, VT_MS);
		s.on = false;
		CHECK_EQ(s.waiting > 0, busy);
		CHECK(readable(&s.t.n[0]));
		CHECK_EQ(vt_wc(&s.t.n[0]).wr_id, 1);
		vt_run(&s.t, VT_MS);
		vt_close(&s.t);
	}
}

/* ---- Invalidation by the peer ---- */

/** An invalidation is on the data path and must not wait for the context's lock. */
static void
test_invalidate_takes_no_lock(void)
{
	struct weft_vctx *v;
	uint8_t in[1];
	struct weft_wr wr = {.opcode = WEFT_WR_SEND_INV};
	struct vt t;

	vt_open(&t, NULL);
	vt_mem(&t.n[0], 4096, WEFT_ACCESS_REMOTE_WRITE);
	pair_up(&t);
	vt_post_recv(&t.n[0], in, 1, 1);
	wr.send.inv_stag = weft_mr_stag(t.n[0].mr);
	vt_post(&t.n[1], &wr);
	v = weft_vctx_of(t.n[0].ctx);
	alarm(20); /* a deadlock ends the test */
	pthread_mutex_lock(&v->lock);
	CHECK_EQ(vt_wc(&t.n[0]).inv_stag, wr.send.inv_stag);
	pthread_mutex_unlock(&v->lock);
	alarm(0);
	CHECK(weft_mem_lookup(inside_mem(t.n[0].ctx), wr.send.inv_stag) == NULL);
	vt_close(&t);
}

/* ---- Events of destroyed objects ---- */

struct stale {
	struct vt t;
	struct weft_qp *qp;
	unsigned int calls;
};

static void
stale_thread(void *arg)
{
	weft_qp_destroy(((struct stale *)arg)->qp);
}

static void
stale_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	struct stale *s = *(struct stale **)user;
	struct weft_wr bad = {.opcode = WEFT_WR_LOCAL_INV, .local_inv.stag = 0x12345};

	(void)n;
	if (s->qp == NULL || cq != s->t.n[0].cq || s->calls++ > 0)
		return;
	CHECK_EQ(wc->status, WEFT_WC_SUCCESS);
	CHECK_EQ(weft_post_send(s->qp, &bad, 1), 1);
	vt_elsewhere(stale_thread, s);
}

/** Another thread has destroyed a QP. The worker still works on it, but delivers no events of
 * it. */
static void
test_stale_event(void)
{
	static struct stale s;
	static struct stale *at = &s;
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 64, .on_wc = stale_wc, .user = &at};
	struct vt_attr va = {.cq = &ca};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND, .flags = WEFT_WR_SIGNALED};
	struct weft_event ev;

	memset(&s, 0, sizeof(s));
	vt_open(&s.t, &va);
	vt_connect(&s.t, NULL, NULL);
	vt_run(&s.t, 10 * VT_MS);
	while (weft_evq_poll(s.t.n[0].evq, &ev) == 1)
		;
	s.qp = s.t.n[0].qp;
	vt_post(&s.t.n[0], &wr);
	s.t.n[0].qp = NULL;
	/* In one poll: the callback, and then a failure of the QP. */
	for (unsigned int i = 0; i < 20; i++) {
		weft_engine_poll_at(s.t.n[0].w, sim_now_ns(s.t.sim));
		CHECK_EQ(weft_evq_poll(s.t.n[0].evq, &ev), 0);
	}
	CHECK_EQ(s.calls, 1);
	vt_close(&s.t);
}

WEFT_TEST_MAIN({"request dropped with its queue", test_dropped_request},
               {"order of posts between threads", test_post_order},
               {"one CQ armed by several", test_arm_by_several},
               {"invalidation takes no lock", test_invalidate_takes_no_lock},
               {"events of a QP destroyed elsewhere", test_stale_event})
