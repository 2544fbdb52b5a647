/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The worker's side of traffic: it posts, takes completions and posts again. */

#include "traffic_flow.h"

#include <errno.h>
#include <string.h>

#include "ui.h"

#define FLOW_BURST    32u
#define FLOW_RETRY_US 1000u /**< after a post that found the send queue full */
/** How long a PING that is stopped waits for the last echoes. */
#define FLOW_ECHOES_US 1000000u
#define FLOW_WATCH_US  500000u /**< between two looks whether echoes come */
/** A flow that is further behind its rate does not catch up. */
#define FLOW_BEHIND_NS 10000000u
#define FLOW_SEQ_BYTES 8u
#define GENERATION_AT  52

struct flow flows[TRAFFIC_MAX + 1];
/** Which flow takes the receives of a QP, by the QP's number; only of the QP's worker. */
static struct flow *takers[CONSOLE_MAX_QPS + 1];

/** Tells the main thread that traffic has ended. */
static void (*told_end)(void);

static void flow_pump(struct flow *f);

void
traffic_on_end(void (*fn)(void))
{
	told_end = fn;
}

static void
add(_Atomic uint64_t *counter, uint64_t n)
{
	/* One writer, the worker. */
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
	                      memory_order_relaxed);
}

static enum traffic_state
state(const struct flow *f)
{
	return atomic_load_explicit(&f->state, memory_order_relaxed);
}

static unsigned int
qp_at(const struct flow *f)
{
	return (unsigned int)(f->q - con.qps);
}

static void
flow_done(struct flow *f)
{
	if (takers[qp_at(f)] == f)
		takers[qp_at(f)] = NULL;
	if (f->alarm != NULL)
		weft_alarm_cancel(f->alarm);
	f->alarm = NULL;
	if (f->watch != NULL)
		weft_alarm_cancel(f->watch);
	f->watch = NULL;
	atomic_store_explicit(&f->end_ns, ui_now_ns(), memory_order_relaxed);
	atomic_store_explicit(&f->state, TRAFFIC_DONE, memory_order_release);
}

static void
flow_ending(struct flow *f)
{
	if (state(f) != TRAFFIC_RUNNING)
		return;
	atomic_store_explicit(&f->state, TRAFFIC_ENDING, memory_order_relaxed);
	/* What arrives from now on is the main thread's. */
	if (f->want.kind != TRAFFIC_PING && takers[qp_at(f)] == f)
		takers[qp_at(f)] = NULL;
}

static bool
flow_failed(const struct flow *f)
{
	return f->error != 0 || f->status != WEFT_WC_SUCCESS || f->lost || f->no_echo;
}

static void
on_alarm(void *arg)
{
	struct flow *f = arg;

	f->alarm = NULL;
	if (f->give_up)
		f->taken = f->posted; /* no more echoes are waited for */
	flow_pump(f);
}

static void
flow_alarm(struct flow *f, uint64_t delay_us)
{
	int rc;

	if (f->alarm != NULL)
		return;
	rc = weft_alarm_set(f->worker, delay_us, on_alarm, f, &f->alarm);
	if (rc == 0)
		return;
	f->error = rc;
	flow_ending(f);
}

/** Post one work request, with a completion. False: not now, or the flow ends. */
static bool
flow_post(struct flow *f, struct weft_wr *wr)
{
	int rc;

	wr->flags |= WEFT_WR_SIGNALED;
	rc = weft_post_send(f->q->qp, wr, 1);
	if (rc == 1) {
		f->outstanding++;
		return true;
	}
	if (rc != -EAGAIN) {
		f->error = rc;
		flow_ending(f);
	} else if (f->outstanding == 0) {
		flow_alarm(f, FLOW_RETRY_US);
	}
	return false;
}

/** A Read of no octets: its answer says that the peer has taken what was posted before. */
static bool
flow_sync(struct flow *f)
{
	struct weft_sge sge = {f->want.mem, 0, f->want.lkey};
	struct weft_wr wr = {.wr_id = f->id | TRAFFIC_SYNC |
	                              (f->posted & ((1ull << TRAFFIC_AT) - 1)),
	                     .opcode = WEFT_WR_READ,
	                     .sg_list = &sge,
	                     .num_sge = 1,
	                     .rdma = {f->want.stag, f->want.to}};

	return flow_post(f, &wr);
}

static void
post_recv(struct console_qp *q, uint64_t i)
{
	struct weft_sge sge = {q->recv + i * CONSOLE_RECV_BYTES, CONSOLE_RECV_BYTES, 0};
	struct weft_recv_wr wr = {.wr_id = RECV_ID | i, .sg_list = &sge, .num_sge = 1};

	weft_post_recv(q->qp, &wr, 1);
}

/** How many messages the rate permits now; sets the alarm for the next one if none. */
static uint64_t
rate_room(struct flow *f)
{
	const uint64_t now = ui_now_ns(), rate = f->want.rate;
	uint64_t due;

	if (rate == 0)
		return FLOW_BURST;
	due = f->rate_base + (uint64_t)((double)(now - f->rate_from_ns) * (double)rate / 1e9) + 1;
	if (due > f->posted + rate * FLOW_BEHIND_NS / 1000000000 + 1) {
		f->rate_from_ns = now;
		f->rate_base = f->posted;
		due = f->posted + 1;
	}
	if (due <= f->posted) {
		flow_alarm(f, 1000000 / rate > 50 ? 1000000 / rate : 50);
		return 0;
	}
	return due - f->posted;
}

static uint64_t
least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/** How many messages may be posted now. */
static uint64_t
flow_room(struct flow *f)
{
	const uint64_t depth = f->want.depth;
	uint64_t n = depth - least(f->outstanding, depth);

	if (f->want.kind == TRAFFIC_SEND)
		n = least(n, depth - (f->posted - f->synced));
	if (f->want.kind == TRAFFIC_PING)
		n = least(n, depth - (f->posted - f->taken));
	if (f->want.count != 0)
		n = least(n, f->want.count - f->posted);
	n = least(n, FLOW_BURST);
	return n == 0 ? 0 : least(n, rate_room(f));
}

/** Post message number f->posted. */
static bool
flow_message(struct flow *f)
{
	const struct traffic_want *w = &f->want;
	const uint64_t at = w->span != 0 ? f->posted * w->size % w->span : 0;
	struct weft_sge sge = {w->mem + at, w->size, w->lkey};
	struct weft_wr wr = {.wr_id = f->id, .sg_list = &sge, .num_sge = 1};

	if (w->kind == TRAFFIC_WRITE || w->kind == TRAFFIC_READ) {
		wr.opcode = w->kind == TRAFFIC_WRITE ? WEFT_WR_WRITE : WEFT_WR_READ;
		wr.rdma.stag = w->stag;
		wr.rdma.to = w->to + at;
	} else {
		wr.opcode = WEFT_WR_SEND;
		sge.addr = f->buf;
		sge.lkey = 0;
	}
	if (w->kind == TRAFFIC_PING) {
		sge.addr = f->buf + f->posted % w->depth * w->size;
		memcpy(sge.addr, &f->posted, least(w->size, FLOW_SEQ_BYTES));
		f->sent_ns[f->posted % w->depth] = ui_now_ns();
	}
	if (!flow_post(f, &wr))
		return false;
	f->posted++;
	return true;
}

/** SEND: a Read of no octets behind each half of a window. False: it is due, but cannot be
 * posted. */
static bool
flow_window(struct flow *f)
{
	if (f->want.kind != TRAFFIC_SEND || f->posted - f->sync_at < (f->want.depth + 1) / 2)
		return true;
	if (!flow_sync(f))
		return false;
	f->sync_at = f->posted;
	return true;
}

static void
flow_send(struct flow *f)
{
	uint64_t n;

	while (state(f) == TRAFFIC_RUNNING && flow_window(f) && (n = flow_room(f)) > 0)
		while (n-- > 0)
			if (!flow_message(f) || !flow_window(f))
				return;
	if (f->want.count != 0 && f->posted == f->want.count)
		flow_ending(f);
}

/** ECHO: send back what has arrived. */
static void
flow_echo(struct flow *f)
{
	while (f->npending > 0) {
		const uint32_t i = f->pending[f->pending_at].recv;
		struct weft_sge sge = {f->q->recv + (size_t)i * CONSOLE_RECV_BYTES,
		                       f->pending[f->pending_at].octets, 0};
		struct weft_wr wr = {
		        .wr_id = f->id | i, .opcode = WEFT_WR_SEND, .sg_list = &sge, .num_sge = 1};

		if (!flow_post(f, &wr))
			return;
		f->pending_at = (f->pending_at + 1) % CONSOLE_RECVS;
		f->npending--;
	}
}

/** Whether all is complete; posts the last Read of no octets before. */
static bool
flow_complete(struct flow *f)
{
	if (f->outstanding > 0)
		return false;
	if (flow_failed(f))
		return true;
	switch (f->want.kind) {
	case TRAFFIC_WRITE:
	case TRAFFIC_SEND:
		if (f->last_sync || f->posted == 0)
			return true;
		f->last_sync = flow_sync(f);
		return flow_failed(f);
	case TRAFFIC_PING:
		return f->taken >= f->posted;
	case TRAFFIC_ECHO:
		return f->npending == 0;
	default:
		return true;
	}
}

static void
flow_pump(struct flow *f)
{
	if (f->want.kind == TRAFFIC_ECHO)
		flow_echo(f);
	else if (f->want.kind != TRAFFIC_SINK)
		flow_send(f);
	if (state(f) == TRAFFIC_ENDING && flow_complete(f))
		flow_done(f);
}

/** PING: end it if the peer sends nothing back. */
static void
on_watch(void *arg)
{
	struct flow *f = arg;
	int rc;

	f->watch = NULL;
	if (f->taken == f->posted)
		f->heard_ns = ui_now_ns();
	if (ui_now_ns() - f->heard_ns >= TRAFFIC_ECHO_S * 1000000000ull) {
		f->no_echo = true;
		flow_ending(f);
		flow_pump(f);
		told_end();
		return;
	}
	rc = weft_alarm_set(f->worker, FLOW_WATCH_US, on_watch, f, &f->watch);
	if (rc == 0)
		return;
	f->error = rc;
	flow_ending(f);
	flow_pump(f);
}

void
flow_begin(void *arg)
{
	struct flow *f = arg;

	f->rate_from_ns = f->heard_ns = ui_now_ns();
	if (f->want.kind >= TRAFFIC_PING)
		takers[qp_at(f)] = f;
	flow_pump(f);
	if (f->want.kind == TRAFFIC_PING && state(f) == TRAFFIC_RUNNING)
		on_watch(f);
}

void
flow_stop(void *arg)
{
	struct flow *f = arg;

	if (state(f) != TRAFFIC_RUNNING)
		return;
	flow_ending(f);
	if (f->alarm != NULL)
		weft_alarm_cancel(f->alarm);
	f->alarm = NULL;
	if (f->want.kind == TRAFFIC_PING) {
		f->give_up = true;
		flow_alarm(f, FLOW_ECHOES_US);
	}
	flow_pump(f);
}

void
flow_halt(void *arg)
{
	struct flow *f = arg;

	if (state(f) != TRAFFIC_RUNNING && state(f) != TRAFFIC_ENDING)
		return;
	f->lost = true;
	f->npending = 0;
	flow_ending(f);
	flow_pump(f);
}

void
flow_drop(void *arg)
{
	struct flow *f = arg;

	if (state(f) != TRAFFIC_RUNNING && state(f) != TRAFFIC_ENDING)
		return;
	f->lost = true;
	flow_done(f);
}

/* ---- Completions ---- */

static enum traffic_taken
taken(const struct flow *f)
{
	return state(f) == TRAFFIC_DONE ? TRAFFIC_ENDED : TRAFFIC_TAKEN;
}

static void
take_echo(struct flow *f, const struct weft_wc *wc, const uint8_t *message)
{
	const uint64_t ns = ui_now_ns() - f->sent_ns[f->taken % f->want.depth];
	const uint8_t *sent = f->buf + f->taken % f->want.depth * f->want.size;

	if (f->taken == f->posted || wc->len_bytes != f->want.size ||
	    memcmp(message, sent, f->want.size) != 0) {
		add(&f->bad, 1);
		return;
	}
	f->taken++;
	f->heard_ns = f->sent_ns[(f->taken - 1) % f->want.depth] + ns;
	add(&f->messages, 1);
	add(&f->octets, wc->len_bytes);
	add(&f->rtt_sum_ns, ns);
	if (ns < atomic_load_explicit(&f->rtt_min_ns, memory_order_relaxed))
		atomic_store_explicit(&f->rtt_min_ns, ns, memory_order_relaxed);
	if (ns > atomic_load_explicit(&f->rtt_max_ns, memory_order_relaxed))
		atomic_store_explicit(&f->rtt_max_ns, ns, memory_order_relaxed);
}

/** A receive of a QP whose receives are traffic's. */
static enum traffic_taken
take_recv(struct flow *f, const struct weft_wc *wc)
{
	const uint64_t i = wc->wr_id & ~RECV_ID;

	if (wc->status != WEFT_WC_SUCCESS) {
		f->status = wc->status;
		flow_halt(f);
		return taken(f);
	}
	if (f->want.kind == TRAFFIC_ECHO && wc->opcode == WEFT_WC_RECV) {
		const uint32_t at = (f->pending_at + f->npending++) % CONSOLE_RECVS;

		f->pending[at].recv = (uint32_t)i;
		f->pending[at].octets = wc->len_bytes;
		flow_echo(f);
		return taken(f);
	}
	if (f->want.kind == TRAFFIC_PING) {
		take_echo(f, wc, f->q->recv + i * CONSOLE_RECV_BYTES);
	} else {
		add(&f->messages, 1);
		add(&f->octets, wc->len_bytes);
	}
	post_recv(f->q, i);
	if (f->want.kind == TRAFFIC_PING)
		flow_pump(f);
	return taken(f);
}

/** Whether to post again: in lists of a few, and always when nothing is under way. */
static bool
worth_it(const struct flow *f)
{
	const uint32_t depth = f->want.depth, few = depth < 16 ? (depth + 1) / 2 : 8;

	return state(f) != TRAFFIC_RUNNING || f->outstanding == 0 || f->outstanding + few <= depth;
}

static enum traffic_taken
take_sent(struct flow *f, const struct weft_wc *wc)
{
	const bool sync = (wc->wr_id & TRAFFIC_SYNC) != 0;

	f->outstanding--;
	if (wc->status != WEFT_WC_SUCCESS) {
		if (f->status == WEFT_WC_SUCCESS)
			f->status = wc->status;
		flow_halt(f);
		return taken(f);
	}
	if (sync) {
		f->synced = wc->wr_id & ((1ull << TRAFFIC_AT) - 1);
	} else if (f->want.kind != TRAFFIC_PING) {
		add(&f->messages, 1);
		add(&f->octets, wc->len_bytes);
	}
	if (f->want.kind == TRAFFIC_ECHO)
		post_recv(f->q, wc->wr_id & ((1ull << TRAFFIC_AT) - 1));
	if (sync || worth_it(f))
		flow_pump(f);
	return taken(f);
}

enum traffic_taken
traffic_take(const struct weft_wc *wc)
{
	const uint64_t mask = TRAFFIC_ID | 0xffull << GENERATION_AT | 0xfull << TRAFFIC_AT;
	struct console_qp *q = wc->qp_user;
	struct flow *f;

	if ((wc->wr_id & RECV_ID) != 0) {
		f = takers[q - con.qps];
		return f != NULL ? take_recv(f, wc) : TRAFFIC_NOT_MINE;
	}
	if ((wc->wr_id & TRAFFIC_ID) == 0)
		return TRAFFIC_NOT_MINE;
	f = &flows[((wc->wr_id >> TRAFFIC_AT) & 0xf) + 1];
	/* A late completion of a QP that was destroyed belongs to earlier traffic. */
	if (f->id != (wc->wr_id & mask) ||
	    (state(f) != TRAFFIC_RUNNING && state(f) != TRAFFIC_ENDING))
		return TRAFFIC_TAKEN;
	return take_sent(f, wc);
}
