/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The main thread's side of traffic: start, stop, figures. */

#include "traffic.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "traffic_flow.h"
#include "ui.h"

#define STOP_NS       5000000000ull
#define LOST_NS       1000000000ull
#define GENERATION_AT 52

static enum traffic_state
state(unsigned int n)
{
	return atomic_load_explicit(&flows[n].state, memory_order_acquire);
}

static bool
runs(unsigned int n)
{
	return state(n) == TRAFFIC_RUNNING || state(n) == TRAFFIC_ENDING;
}

/** Wait until a flow is done. False: it is not, after so long. */
static bool
await_done(unsigned int n, uint64_t ns)
{
	const uint64_t until = ui_now_ns() + ns;

	while (runs(n)) {
		if (ui_now_ns() >= until)
			return false;
		usleep(100);
	}
	return true;
}

void
traffic_call(struct weft_worker *w, void (*fn)(void *arg), void *arg)
{
	int rc;

	/* Without memory, too: what this call ends would run on otherwise. */
	while ((rc = weft_worker_call(w, fn, arg)) == -EAGAIN || rc == -ENOMEM)
		usleep(100);
}

static bool
takes_receives(const struct console_qp *q)
{
	for (unsigned int n = 1; n <= TRAFFIC_MAX; n++)
		if (flows[n].q == q && flows[n].want.kind >= TRAFFIC_PING && runs(n))
			return true;
	return false;
}

/** A number that is free; else that of traffic whose end was printed; 0: there is none. */
static unsigned int
free_number(void)
{
	for (unsigned int n = 1; n <= TRAFFIC_MAX; n++)
		if (state(n) == TRAFFIC_FREE)
			return n;
	for (unsigned int n = 1; n <= TRAFFIC_MAX; n++)
		if (state(n) == TRAFFIC_DONE && flows[n].told) {
			traffic_free(n);
			return n;
		}
	return 0;
}

/** A Read has a region for its octets, even if there are none. That of all SENDs is made once. */
static int
sync_region(struct traffic_want *want)
{
	static uint8_t octets[8];
	static struct weft_mr *mr;
	const struct weft_mr_attr ma = {.size = sizeof(ma),
	                                .addr = octets,
	                                .len_bytes = sizeof(octets),
	                                .access = WEFT_ACCESS_LOCAL_WRITE};
	const int rc = mr != NULL ? 0 : weft_mr_reg(con.pd, &ma, &mr);

	want->mem = octets;
	want->lkey = rc == 0 ? weft_mr_stag(mr) : 0;
	return rc;
}

/** What a SEND or PING sends. */
static int
make_messages(struct flow *f)
{
	const size_t bytes = (size_t)f->want.size * f->want.depth;

	if (f->want.kind != TRAFFIC_SEND && f->want.kind != TRAFFIC_PING)
		return 0;
	f->buf = malloc(bytes);
	if (f->buf == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < bytes; i++)
		f->buf[i] = (uint8_t)('a' + i % 26);
	return 0;
}

int
traffic_start(struct console_qp *q, const struct traffic_want *want)
{
	static uint8_t generation;
	struct flow *f;
	unsigned int n;
	int rc;

	if (want->kind >= TRAFFIC_PING && q->srq != NULL)
		return -EOPNOTSUPP;
	if (want->kind >= TRAFFIC_PING && takes_receives(q))
		return -EBUSY;
	n = free_number();
	if (n == 0)
		return -ENOSPC;
	f = &flows[n];
	memset(f, 0, sizeof(*f));
	f->want = *want;
	f->q = q;
	f->worker = weft_qp_worker(q->qp);
	f->id = TRAFFIC_ID | (uint64_t)generation++ << GENERATION_AT |
	        (uint64_t)(n - 1) << TRAFFIC_AT;
	atomic_init(&f->rtt_min_ns, UINT64_MAX);
	rc = want->kind == TRAFFIC_SEND ? sync_region(&f->want) : 0;
	if (rc == 0)
		rc = make_messages(f);
	if (rc != 0)
		return rc;
	f->begin_ns = f->look_ns = ui_now_ns();
	atomic_store_explicit(&f->state, TRAFFIC_RUNNING, memory_order_relaxed);
	traffic_call(f->worker, flow_begin, f);
	return (int)n;
}

void
traffic_stop(unsigned int number)
{
	if (!runs(number))
		return;
	flows[number].told = true; /* its figures are shown */
	traffic_call(flows[number].worker, flow_stop, &flows[number]);
	await_done(number, STOP_NS);
}

void
traffic_free(unsigned int number)
{
	struct flow *f = &flows[number];

	/* The port may still send from the octets of a QP that was destroyed. */
	if (!f->dropped)
		free(f->buf);
	f->buf = NULL;
	atomic_store_explicit(&f->state, TRAFFIC_FREE, memory_order_relaxed);
}

static uint64_t
count(_Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

bool
traffic_get(unsigned int number, struct traffic_figures *t)
{
	struct flow *f = &flows[number];

	if (number < 1 || number > TRAFFIC_MAX || state(number) == TRAFFIC_FREE)
		return false;
	memset(t, 0, sizeof(*t));
	t->number = number;
	t->want = f->want;
	t->qp = (unsigned int)(f->q - con.qps);
	t->state = state(number);
	t->messages = count(&f->messages);
	t->octets = count(&f->octets);
	t->bad = count(&f->bad);
	t->rtt_min_ns = count(&f->rtt_min_ns);
	t->rtt_max_ns = count(&f->rtt_max_ns);
	t->rtt_sum_ns = count(&f->rtt_sum_ns);
	t->ns = (t->state == TRAFFIC_DONE ? count(&f->end_ns) : ui_now_ns()) - f->begin_ns;
	t->since_ns = f->begin_ns + t->ns - f->look_ns;
	t->since_messages = t->messages - f->look_messages;
	t->since_octets = t->octets - f->look_octets;
	if (t->state != TRAFFIC_DONE)
		return true;
	if (f->error != 0)
		snprintf(t->why, sizeof(t->why), "post: %s", strerror(-f->error));
	else if (f->no_echo)
		snprintf(t->why, sizeof(t->why),
		         "no echo for %u s; does the peer run 'start echo'?", TRAFFIC_ECHO_S);
	else if (f->status != WEFT_WC_SUCCESS && f->status != WEFT_WC_FLUSHED)
		snprintf(t->why, sizeof(t->why), "%s", weft_wc_status_str(f->status));
	else if (f->status != WEFT_WC_SUCCESS || f->lost)
		snprintf(t->why, sizeof(t->why), "the connection has ended");
	return true;
}

void
traffic_looked(unsigned int number)
{
	struct flow *f = &flows[number];

	f->look_ns = ui_now_ns();
	f->look_messages = count(&f->messages);
	f->look_octets = count(&f->octets);
}

const char *
traffic_kind_str(enum traffic_kind k)
{
	static const char *const names[] = {
	        [TRAFFIC_WRITE] = "write", [TRAFFIC_READ] = "read", [TRAFFIC_SEND] = "send",
	        [TRAFFIC_PING] = "ping",   [TRAFFIC_SINK] = "sink", [TRAFFIC_ECHO] = "echo",
	};

	return names[k];
}

const char *
traffic_str(const struct traffic_figures *f, char *buf, size_t size)
{
	snprintf(buf, size,
	         "traffic %u (%s, qp %u) ended after %" PRIu64 " messages, %" PRIu64 " octets",
	         f->number, traffic_kind_str(f->want.kind), f->qp, f->messages, f->octets);
	return buf;
}

bool
traffic_news(char *buf, size_t size)
{
	struct traffic_figures t;
	char text[160];

	for (unsigned int n = 1; n <= TRAFFIC_MAX; n++) {
		/* The event of a connection's end tells of the traffic that ended with it. */
		if (state(n) != TRAFFIC_DONE || flows[n].told ||
		    (flows[n].error == 0 && (flows[n].lost || flows[n].status != WEFT_WC_SUCCESS)))
			continue;
		flows[n].told = true;
		traffic_get(n, &t);
		traffic_str(&t, text, sizeof(text));
		snprintf(buf, size, "%s%s%s", text, t.why[0] != '\0' ? ": " : "", t.why);
		return true;
	}
	return false;
}

void
traffic_lost(const struct console_qp *q, char *buf, size_t size)
{
	struct traffic_figures t;
	char text[160];

	for (unsigned int n = 1; n <= TRAFFIC_MAX; n++) {
		size_t have = strlen(buf);

		if (flows[n].q != q || state(n) == TRAFFIC_FREE || flows[n].told)
			continue;
		if (runs(n)) {
			traffic_call(flows[n].worker, flow_halt, &flows[n]);
			await_done(n, LOST_NS);
		}
		flows[n].told = true;
		traffic_get(n, &t);
		snprintf(buf + have, size - have, "; %s", traffic_str(&t, text, sizeof(text)));
	}
}

/** The number of the last call of traffic_settle() that has run. */
static atomic_uintptr_t passed_last;

static void
passed(void *arg)
{
	atomic_store_explicit(&passed_last, (uintptr_t)arg, memory_order_release);
}

void
traffic_drop(struct console_qp *q)
{
	for (unsigned int n = 1; n <= TRAFFIC_MAX; n++)
		if (flows[n].q == q && runs(n)) {
			flows[n].dropped = true;
			flows[n].told = true;
			traffic_call(flows[n].worker, flow_drop, &flows[n]);
		}
}

bool
traffic_settle(struct weft_worker *w)
{
	static uintptr_t number;
	const uint64_t until = ui_now_ns() + STOP_NS;

	/* Calls run in their order, and after a callback that runs now. A call that was given up
	 * may still run, so each has a number. */
	number++;
	traffic_call(w, passed, (void *)number);
	while (atomic_load_explicit(&passed_last, memory_order_acquire) != number) {
		if (ui_now_ns() >= until)
			return false;
		usleep(50);
	}
	return true;
}
