/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The verbs that RPC-over-RDMA uses, over a simulated wire. */

#include <errno.h>
#include <pthread.h>
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

/* ---- Regions ---- */

static LIST_HEAD(mr_list, weft_mr) mrs = LIST_HEAD_INITIALIZER(mrs);
/* Freed regions that posted work requests may still refer to. */
static struct mr_list gone = LIST_HEAD_INITIALIZER(gone);
static uint32_t mr_slots;

void
weft_qp_query(struct weft_qp *qp, struct weft_qp_info *info)
{
	(void)qp;
	memset(info, 0, sizeof(*info));
}

int
weft_mr_alloc(struct weft_pd *pd, struct weft_mr **out)
{
	struct weft_mr *mr = calloc(1, sizeof(*mr));

	(void)pd;
	CHECK(mr != NULL);
	mr->next_stag = 0x10000 * ++mr_slots + 0x77;
	LIST_INSERT_HEAD(&mrs, mr, entry);
	*out = mr;
	return 0;
}

int
weft_mr_dereg(struct weft_mr *mr, void (*freed)(void *arg), void *arg)
{
	CHECK(freed == NULL);
	(void)arg;
	LIST_REMOVE(mr, entry);
	mr->gone = true;
	LIST_INSERT_HEAD(&gone, mr, entry);
	return 0;
}

uint32_t
weft_mr_next_stag(const struct weft_mr *mr)
{
	return mr->next_stag;
}

static unsigned int
regions(bool remote)
{
	const uint32_t rights = WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE;
	const struct weft_mr *mr;
	unsigned int n = 0;

	LIST_FOREACH (mr, &mrs, entry)
		n += mr->valid && ((mr->access & rights) != 0) == remote;
	return n;
}

unsigned int
fake_regions(void)
{
	return regions(true);
}

unsigned int
fake_sinks(void)
{
	return regions(false);
}

void
fake_forget_regions(void)
{
	struct weft_mr *mr;

	LIST_FOREACH (mr, &mrs, entry) {
		mr->valid = false;
		mr->stag = 0;
	}
}

unsigned int
fake_mrs(void)
{
	const struct weft_mr *mr;
	unsigned int n = 0;

	LIST_FOREACH (mr, &mrs, entry)
		n++;
	return n;
}

/* The memory of a valid STag, or NULL. */
static uint8_t *
fake_range(uint32_t stag, uint64_t to, uint64_t len, uint32_t access)
{
	const struct weft_mr *mr;

	LIST_FOREACH (mr, &mrs, entry)
		if (mr->valid && mr->stag == stag && (mr->access & access) == access &&
		    to <= mr->len_bytes && len <= mr->len_bytes - to)
			return mr->addr + to;
	return NULL;
}

static struct weft_mr *
fake_mr(uint32_t stag)
{
	struct weft_mr *mr;

	LIST_FOREACH (mr, &mrs, entry)
		if (mr->valid && mr->stag == stag)
			return mr;
	return NULL;
}

/* The region that had this STag last and that the peer, or this side, has invalidated. */
static struct weft_mr *
fake_past(uint32_t stag, bool by_peer)
{
	struct weft_mr *mr;

	LIST_FOREACH (mr, &mrs, entry)
		if (!mr->valid && mr->stag == stag && mr->by_peer == by_peer)
			return mr;
	return NULL;
}

static struct fake_msg *
msg_new(uint64_t wr_id, const void *buf, uint32_t len_bytes)
{
	struct fake_msg *m = calloc(1, sizeof(*m));

	CHECK(m != NULL);
	m->wr_id = wr_id;
	m->len_bytes = len_bytes;
	if (buf != NULL) {
		/* The buffer has the exact length of the message, so that ASan detects overruns. */
		m->buf = malloc(len_bytes != 0 ? len_bytes : 1);
		CHECK(m->buf != NULL);
		memcpy(m->buf, buf, len_bytes);
	}
	return m;
}

int
weft_post_send(struct weft_qp *qp, const struct weft_wr *wr, unsigned int n)
{
	bool send = wr->opcode == WEFT_WR_SEND || wr->opcode == WEFT_WR_SEND_INV;
	struct fake_msg *m;

	CHECK_EQ(n, 1);
	CHECK(wr->num_sge <= 1);
	if (!qp->connected)
		return -ENOTCONN;
	if (qp->refuse & 1u << wr->opcode)
		return -EIO;
	if (qp->sq_used == qp->sq_depth)
		return -EAGAIN;
	qp->sq_used++;
	qp->sends += send;
	qp->solicited += send && (wr->flags & WEFT_WR_SOLICITED) != 0;
	m = send ? msg_new(wr->wr_id, wr->sg_list[0].addr, wr->sg_list[0].len_bytes)
	         : msg_new(wr->wr_id, NULL, wr->num_sge > 0 ? wr->sg_list[0].len_bytes : 0);
	m->wr = *wr;
	m->local = wr->num_sge > 0 ? wr->sg_list[0].addr : NULL;
	m->lkey = wr->num_sge > 0 ? wr->sg_list[0].lkey : 0;
	m->signaled = (wr->flags & WEFT_WR_SIGNALED) != 0;
	if (wr->opcode == WEFT_WR_FAST_REG)
		wr->fast_reg.mr->next_stag += 0x100;
	if (send && qp->on_post != NULL)
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
weft_abort(struct weft_qp *qp)
{
	qp->disconnects++;
	return 0;
}

unsigned int fake_clock_reads;

uint64_t
weft_worker_now_ns(const struct weft_worker *w)
{
	fake_clock_reads++;
	return w->now_us * 1000;
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
	STAILQ_INIT(&w->calls);
	while (!LIST_EMPTY(&mrs)) /* left by a case that failed */
		weft_mr_dereg(LIST_FIRST(&mrs), NULL, NULL);
	while (!LIST_EMPTY(&gone)) {
		struct weft_mr *mr = LIST_FIRST(&gone);

		LIST_REMOVE(mr, entry);
		free(mr);
	}
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

/* ---- Calls to a worker ---- */

void
weft_worker_random(struct weft_worker *w, void *buf, size_t len_bytes)
{
	uint8_t *p = buf;

	for (size_t i = 0; i < len_bytes; i++) {
		w->random = w->random * 1664525 + (w->random != 0) * 1013904223;
		p[i] = (uint8_t)(w->random >> 24);
	}
}

static pthread_mutex_t call_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct weft_worker *mine;

int
weft_worker_call(struct weft_worker *w, void (*fn)(void *arg), void *arg)
{
	struct fake_call *c;

	if (w == mine) {
		fn(arg);
		return 0;
	}
	if (w->deaf)
		return -EAGAIN;
	c = malloc(sizeof(*c));
	CHECK(c != NULL);
	c->fn = fn;
	c->arg = arg;
	pthread_mutex_lock(&call_lock);
	STAILQ_INSERT_TAIL(&w->calls, c, next);
	pthread_mutex_unlock(&call_lock);
	return 0;
}

unsigned int
fake_calls(struct weft_worker *w)
{
	unsigned int n = 0;

	for (;; n++) {
		struct fake_call *c;

		pthread_mutex_lock(&call_lock);
		c = STAILQ_FIRST(&w->calls);
		if (c != NULL)
			STAILQ_REMOVE_HEAD(&w->calls, next);
		pthread_mutex_unlock(&call_lock);
		if (c == NULL)
			return n;
		c->fn(c->arg);
		free(c);
	}
}

void
fake_mine(struct weft_worker *w)
{
	mine = w;
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
		free(m); /* the endpoint owns the buffer */
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

static enum weft_wc_opcode
wc_opcode(const struct weft_wr *wr)
{
	switch (wr->opcode) {
	case WEFT_WR_WRITE:
		return WEFT_WC_WRITE;
	case WEFT_WR_READ:
		return WEFT_WC_READ;
	case WEFT_WR_FAST_REG:
		return WEFT_WC_FAST_REG;
	case WEFT_WR_LOCAL_INV:
		return WEFT_WC_LOCAL_INV;
	default:
		return WEFT_WC_SEND;
	}
}

static void
complete_inv(struct weft_qp *qp, enum weft_wc_opcode opcode, enum weft_wc_status status,
             uint64_t wr_id, uint32_t len_bytes, uint32_t inv_stag)
{
	struct weft_wc wc = {
	        .wr_id = wr_id,
	        .qp = qp,
	        .qp_user = qp->user,
	        .status = status,
	        .opcode = opcode,
	        .len_bytes = len_bytes,
	        .inv_stag = inv_stag,
	        .flags = inv_stag != 0 ? WEFT_WC_INV : 0,
	};

	qp->on_wc(qp->user, &wc);
}

static void
complete(struct weft_qp *qp, enum weft_wc_opcode opcode, enum weft_wc_status status, uint64_t wr_id,
         uint32_t len_bytes)
{
	complete_inv(qp, opcode, status, wr_id, len_bytes, 0);
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
arrive_inv(struct weft_qp *to, const void *buf, uint32_t len_bytes, uint32_t inv_stag)
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
	complete_inv(to, WEFT_WC_RECV, WEFT_WC_SUCCESS, r->wr_id, len_bytes, inv_stag);
	free(r);
}

static void
arrive(struct weft_qp *to, const void *buf, uint32_t len_bytes)
{
	arrive_inv(to, buf, len_bytes, 0);
}

void
fake_inject(struct weft_qp *qp, const void *buf, uint32_t len_bytes)
{
	arrive(qp, buf, len_bytes);
}

/* Execute a work request. False: the peer refuses it, which ends the connection. */
static bool
fake_do(struct weft_qp *qp, struct fake_msg *m)
{
	const struct weft_wr *wr = &m->wr;
	struct weft_mr *mr;
	uint8_t *at;

	switch (wr->opcode) {
	case WEFT_WR_FAST_REG:
		mr = wr->fast_reg.mr;
		if (mr->gone)
			return false;
		CHECK(!mr->valid);
		mr->stag = mr->next_stag - 0x100;
		mr->addr = wr->fast_reg.addr;
		mr->len_bytes = wr->fast_reg.len_bytes;
		mr->access = wr->fast_reg.access;
		mr->valid = true;
		mr->by_peer = false;
		return true;
	case WEFT_WR_LOCAL_INV:
		mr = fake_mr(wr->local_inv.stag);
		if (mr == NULL) /* the peer invalidated it before */
			return fake_past(wr->local_inv.stag, true) != NULL;
		mr->valid = false;
		return true;
	case WEFT_WR_READ:
	case WEFT_WR_WRITE:
		at = fake_range(wr->rdma.stag, wr->rdma.to, m->len_bytes,
		                wr->opcode == WEFT_WR_READ ? WEFT_ACCESS_REMOTE_READ
		                                           : WEFT_ACCESS_REMOTE_WRITE);
		if (qp->on_access != NULL)
			qp->on_access(qp, wr->opcode == WEFT_WR_WRITE, wr->rdma.stag, wr->rdma.to,
			              m->len_bytes);
		if (at == NULL) {
			qp->access_errors++;
			return false;
		}
		if (wr->opcode == WEFT_WR_READ) {
			mr = fake_mr(m->lkey);
			if (mr == NULL || !(mr->access & WEFT_ACCESS_LOCAL_WRITE) ||
			    (uint8_t *)m->local < mr->addr ||
			    (uint8_t *)m->local + m->len_bytes > mr->addr + mr->len_bytes) {
				qp->sink_errors++;
				return false;
			}
			memcpy(m->local, at, m->len_bytes);
			qp->reads++;
		} else {
			memcpy(at, m->local, m->len_bytes);
			qp->writes++;
		}
		return true;
	case WEFT_WR_SEND_INV:
		mr = fake_mr(wr->send.inv_stag);
		if (qp->on_invalidate != NULL)
			qp->on_invalidate(qp, m->buf, m->len_bytes, wr->send.inv_stag);
		if (mr == NULL) /* this side invalidated it before */
			mr = fake_past(wr->send.inv_stag, false);
		if (mr == NULL)
			return false;
		mr->valid = false;
		mr->by_peer = true;
		arrive_inv(qp->peer, m->buf, m->len_bytes, wr->send.inv_stag);
		return true;
	default:
		arrive(qp->peer, m->buf, m->len_bytes);
		return true;
	}
}

bool
fake_deliver(struct weft_qp *qp)
{
	struct fake_msg *m = msg_pop(&qp->wire);

	if (m == NULL)
		return false;
	STAILQ_INSERT_TAIL(&qp->done, m, next);
	if (qp->peer == NULL || qp->peer->dead || fake_do(qp, m))
		return true;
	/* Only a Read completes with an error of its own, because the peer's Terminate names it. */
	if (m->wr.opcode == WEFT_WR_READ) {
		while (STAILQ_FIRST(&qp->done) != m)
			fake_complete(qp);
		msg_pop(&qp->done);
		complete(qp, WEFT_WC_READ, WEFT_WC_REMOTE_ACCESS, m->wr_id, 0);
		free(m);
	}
	fake_break(qp);
	return true;
}

int
fake_take(struct weft_qp *qp, void *buf, uint32_t cap_bytes)
{
	struct fake_msg *m;

	while ((m = msg_pop(&qp->wire)) != NULL) {
		STAILQ_INSERT_TAIL(&qp->done, m, next);
		if (m->buf != NULL)
			break;
		if (qp->peer != NULL && !qp->peer->dead && !fake_do(qp, m)) {
			fake_break(qp);
			return -1;
		}
	}
	if (m == NULL)
		return -1;
	CHECK(m->len_bytes <= cap_bytes);
	memcpy(buf, m->buf, m->len_bytes);
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
		complete(qp, wc_opcode(&m->wr), WEFT_WC_SUCCESS, m->wr_id, m->len_bytes);
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
