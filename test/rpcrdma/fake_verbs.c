/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The verbs that RPC-over-RDMA uses, over a wire in memory. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fake_verbs.h"
#include "weft_test.h"

/* ---- The verbs ---- */

struct weft_worker *
weft_qp_worker(const struct weft_qp *qp)
{
	return qp->worker;
}

void *
weft_qp_user(const struct weft_qp *qp)
{
	return qp->user;
}

static struct fake_msg *
msg_new(uint64_t wr_id, const void *buf, uint32_t len_bytes)
{
	struct fake_msg *m = calloc(1, sizeof(*m));

	CHECK(m != NULL);
	m->wr_id = wr_id;
	m->len_bytes = len_bytes;
	if (buf != NULL) {
		/* Exactly as long as the message, so that a sanitizer sees a read beyond it. */
		m->buf = malloc(len_bytes != 0 ? len_bytes : 1);
		CHECK(m->buf != NULL);
		memcpy(m->buf, buf, len_bytes);
	}
	return m;
}

int
weft_post_send(struct weft_qp *qp, const struct weft_wr *wr, unsigned int n)
{
	struct fake_msg *m;

	CHECK_EQ(n, 1);
	CHECK_EQ(wr->opcode, WEFT_WR_SEND);
	CHECK_EQ(wr->num_sge, 1);
	if (!qp->connected)
		return -ENOTCONN;
	if (qp->sq_used == qp->sq_depth)
		return -EAGAIN;
	qp->sq_used++;
	m = msg_new(wr->wr_id, wr->sg_list[0].addr, wr->sg_list[0].len_bytes);
	m->signaled = (wr->flags & WEFT_WR_SIGNALED) != 0;
	if (qp->on_post != NULL)
		qp->on_post(qp, m->buf, m->len_bytes);
	STAILQ_INSERT_TAIL(&qp->wire, m, next);
	return 1;
}

int
weft_post_recv(struct weft_qp *qp, const struct weft_recv_wr *wr, unsigned int n)
{
	struct fake_msg *m;

	CHECK_EQ(n, 1);
	CHECK_EQ(wr->num_sge, 1);
	if (qp->nrecvs == qp->rq_depth)
		return -EAGAIN;
	m = msg_new(wr->wr_id, NULL, wr->sg_list[0].len_bytes);
	m->buf = wr->sg_list[0].addr;
	STAILQ_INSERT_TAIL(&qp->recvs, m, next);
	qp->nrecvs++;
	return 1;
}

int
weft_disconnect(struct weft_qp *qp)
{
	qp->disconnects++;
	return 0;
}

int
weft_alarm_set(struct weft_worker *w, uint64_t delay_us, void (*fn)(void *arg), void *arg,
               struct weft_alarm **out)
{
	struct weft_alarm *a;

	if (w->no_memory)
		return -ENOMEM;
	a = calloc(1, sizeof(*a));
	CHECK(a != NULL);
	a->w = w;
	a->at_us = w->now_us + delay_us;
	a->fn = fn;
	a->arg = arg;
	LIST_INSERT_HEAD(&w->alarms, a, entry);
	*out = a;
	return 0;
}

void
weft_alarm_cancel(struct weft_alarm *a)
{
	LIST_REMOVE(a, entry);
	free(a);
}

/* ---- The clock ---- */

void
fake_worker_init(struct weft_worker *w)
{
	memset(w, 0, sizeof(*w));
	LIST_INIT(&w->alarms);
}

void
fake_advance(struct weft_worker *w, uint64_t us)
{
	uint64_t end_us = w->now_us + us;

	for (;;) {
		struct weft_alarm *a, *first = NULL;
		void (*fn)(void *arg);
		void *arg;

		LIST_FOREACH (a, &w->alarms, entry)
			if (a->at_us <= end_us && (first == NULL || a->at_us < first->at_us))
				first = a;
		if (first == NULL)
			break;
		w->now_us = first->at_us;
		fn = first->fn;
		arg = first->arg;
		weft_alarm_cancel(first);
		fn(arg);
	}
	w->now_us = end_us;
}

unsigned int
fake_alarms(const struct weft_worker *w)
{
	const struct weft_alarm *a;
	unsigned int n = 0;

	LIST_FOREACH (a, &w->alarms, entry)
		n++;
	return n;
}

/* ---- The wire ---- */

void
fake_qp_init(struct weft_qp *qp, struct weft_worker *w, void *user,
             void (*on_wc)(void *user, const struct weft_wc *wc))
{
	memset(qp, 0, sizeof(*qp));
	qp->worker = w;
	qp->user = user;
	qp->on_wc = on_wc;
	qp->sq_depth = qp->rq_depth = 256;
	STAILQ_INIT(&qp->recvs);
	STAILQ_INIT(&qp->wire);
	STAILQ_INIT(&qp->done);
}

static struct fake_msg *
msg_pop(struct fake_msgs *q)
{
	struct fake_msg *m = STAILQ_FIRST(q);

	if (m != NULL)
		STAILQ_REMOVE_HEAD(q, next);
	return m;
}

void
fake_qp_fini(struct weft_qp *qp)
{
	struct fake_msg *m;

	while ((m = msg_pop(&qp->recvs)) != NULL)
		free(m); /* its buffer is the endpoint's */
	while ((m = msg_pop(&qp->wire)) != NULL || (m = msg_pop(&qp->done)) != NULL) {
		free(m->buf);
		free(m);
	}
	if (qp->peer != NULL)
		qp->peer->peer = NULL;
}

void
fake_connect(struct weft_qp *a, struct weft_qp *b)
{
	a->peer = b;
	b->peer = a;
	a->connected = b->connected = true;
}

static void
complete(struct weft_qp *qp, enum weft_wc_opcode opcode, enum weft_wc_status status, uint64_t wr_id,
         uint32_t len_bytes)
{
	struct weft_wc wc = {
	        .wr_id = wr_id,
	        .qp = qp,
	        .qp_user = qp->user,
	        .status = status,
	        .opcode = opcode,
	        .len_bytes = len_bytes,
	};

	qp->on_wc(qp->user, &wc);
}

static void
flush(struct weft_qp *qp)
{
	struct fake_msg *m;

	qp->dead = true;
	while ((m = msg_pop(&qp->done)) != NULL || (m = msg_pop(&qp->wire)) != NULL) {
		complete(qp, WEFT_WC_SEND, WEFT_WC_FLUSHED, m->wr_id, 0);
		free(m->buf);
		free(m);
	}
	while ((m = msg_pop(&qp->recvs)) != NULL) {
		qp->nrecvs--;
		complete(qp, WEFT_WC_RECV, WEFT_WC_FLUSHED, m->wr_id, 0);
		free(m);
	}
}

void
fake_break(struct weft_qp *qp)
{
	struct weft_qp *peer = qp->peer;

	flush(qp);
	if (peer != NULL && !peer->dead)
		flush(peer);
}

static void
arrive(struct weft_qp *to, const void *buf, uint32_t len_bytes)
{
	struct fake_msg *r = msg_pop(&to->recvs);

	if (r == NULL) {
		to->overruns++;
		return;
	}
	to->nrecvs--;
	CHECK(len_bytes <= r->len_bytes);
	memset(r->buf, 0xee, r->len_bytes);
	memcpy(r->buf, buf, len_bytes);
	if (to->on_arrive != NULL)
		to->on_arrive(to, buf, len_bytes);
	complete(to, WEFT_WC_RECV, WEFT_WC_SUCCESS, r->wr_id, len_bytes);
	free(r);
}

void
fake_inject(struct weft_qp *qp, const void *buf, uint32_t len_bytes)
{
	arrive(qp, buf, len_bytes);
}

bool
fake_deliver(struct weft_qp *qp)
{
	struct fake_msg *m = msg_pop(&qp->wire);

	if (m == NULL)
		return false;
	STAILQ_INSERT_TAIL(&qp->done, m, next);
	if (qp->peer != NULL && !qp->peer->dead)
		arrive(qp->peer, m->buf, m->len_bytes);
	return true;
}

int
fake_take(struct weft_qp *qp, void *buf, uint32_t cap_bytes)
{
	struct fake_msg *m = msg_pop(&qp->wire);

	if (m == NULL)
		return -1;
	CHECK(m->len_bytes <= cap_bytes);
	memcpy(buf, m->buf, m->len_bytes);
	STAILQ_INSERT_TAIL(&qp->done, m, next);
	return (int)m->len_bytes;
}

bool
fake_complete(struct weft_qp *qp)
{
	struct fake_msg *m = msg_pop(&qp->done);

	if (m == NULL)
		return false;
	qp->sq_used--;
	if (m->signaled)
		complete(qp, WEFT_WC_SEND, WEFT_WC_SUCCESS, m->wr_id, m->len_bytes);
	free(m->buf);
	free(m);
	return true;
}

void
fake_settle(struct weft_qp *qp)
{
	struct weft_qp *peer = qp->peer;
	bool moved;

	do {
		moved = fake_deliver(qp);
		moved |= fake_complete(qp);
		if (peer != NULL) {
			moved |= fake_deliver(peer);
			moved |= fake_complete(peer);
		}
	} while (moved);
}
