/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Numbered QPs, and what comes of them: events and completions are taken and printed, and
 * set the variables of results. */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/byteorder.h>
#include <weft/commit.h>

#include "console.h"
#include "inbox.h"
#include "rows.h"
#include "script.h"
#include "traffic.h"
#include "ui.h"
#include "worker_side.h"

/** Room for what the commands post, and for all traffic with its Reads of no octets. */
#define SQ_DEPTH (CONSOLE_POSTED_MAX + TRAFFIC_MAX * (TRAFFIC_DEPTH_MAX + 4))

static void
say(struct cmdline *cl, const char *line)
{
	if (cl == con.prompt)
		rows_lines(line);
	else
		cmdline_printf(cl, "%s\n", line);
}

/** Print a line about an event or a completion, which `wait for` finds. */
static void __attribute__((format(printf, 2, 3))) tell(struct cmdline *cl, const char *fmt, ...)
{
	char line[CONSOLE_ERROR_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	ui_printable(line, line, sizeof(line));
	say(cl, line);
	heard_add(line);
}

static unsigned int
qp_number(const struct console_qp *q)
{
	return (unsigned int)(q - con.qps);
}

static int
qp_post_recv(struct console_qp *q, uint64_t i)
{
	struct weft_sge sge = {q->recv + i * CONSOLE_RECV_BYTES, CONSOLE_RECV_BYTES, 0};
	struct weft_recv_wr wr = {.wr_id = RECV_ID | i, .sg_list = &sge, .num_sge = 1};

	return weft_post_recv(q->qp, &wr, 1);
}

int
console_srq_post(struct console_srq *s, uint32_t i)
{
	struct weft_sge sge = {s->mem + (size_t)i * CONSOLE_RECV_BYTES, CONSOLE_RECV_BYTES, 0};
	struct weft_recv_wr wr = {.wr_id = RECV_ID | (uint64_t)(s - con.srqs) << 32 | i,
	                          .sg_list = &sge,
	                          .num_sge = 1};
	int rc;

	s->posted[i] = true;
	rc = weft_post_srq_recv(s->srq, &wr, 1);
	if (rc < 0)
		s->posted[i] = false;
	return rc;
}

struct console_qp *
console_qp_make(struct weft_worker *w, struct console_srq *srq, int *rc)
{
	struct weft_qp_attr qa = {.size = sizeof(qa),
	                          .worker = w,
	                          .send_cq = con.cq,
	                          .recv_cq = con.cq,
	                          .evq = con.evq,
	                          .sq_depth = SQ_DEPTH,
	                          .srq = srq != NULL ? srq->srq : NULL,
	                          .max_inline_bytes = CONSOLE_INLINE};
	struct console_qp *q = NULL;

	for (unsigned int n = 1; n <= CONSOLE_MAX_QPS && q == NULL; n++)
		if (!con.qps[n].used)
			q = &con.qps[n];
	if (q == NULL) {
		*rc = -ENOSPC;
		return NULL;
	}
	memset(q, 0, sizeof(*q));
	q->srq = srq;
	if (srq == NULL) {
		q->recv = malloc((size_t)CONSOLE_RECVS * CONSOLE_RECV_BYTES);
		if (q->recv == NULL) {
			*rc = -ENOMEM;
			return NULL;
		}
	}
	qa.user = q;
	*rc = weft_qp_create(con.pd, &qa, &q->qp);
	for (uint64_t i = 0; i < CONSOLE_RECVS && srq == NULL && *rc >= 0; i++)
		*rc = qp_post_recv(q, i);
	if (*rc < 0) {
		if (q->qp != NULL)
			weft_qp_destroy(q->qp);
		free(q->recv);
		return NULL;
	}
	q->used = true;
	return q;
}

/** Free the place of a work request. */
static void
wr_free(struct console_wr *p)
{
	p->q = NULL;
	con.wrs_used--;
}

void
console_qp_drop(struct cmdline *cl, struct console_qp *q)
{
	struct weft_worker *w = weft_qp_worker(q->qp);
	bool settled;

	traffic_drop(q);
	weft_qp_destroy(q->qp);
	settled = traffic_settle(w);
	console_drain(cl);
	for (unsigned int i = 0; i < CONSOLE_WRS; i++)
		if (con.wrs[i].q == q)
			wr_free(&con.wrs[i]);
	if (con.chain.q == q)
		memset(&con.chain, 0, sizeof(con.chain));
	q->used = false;
	/* A worker that hangs may still place a message there. */
	if (settled)
		free(q->recv);
}

static void
take_request(struct cmdline *cl, const struct weft_event *ev)
{
	struct console_qp *q;
	int rc;

	q = console_qp_make(weft_connreq_worker(ev->connreq), ev->user, &rc);
	if (q == NULL) {
		weft_reject(ev->connreq, NULL, 0);
		tell(cl, "connection request rejected: %s", strerror(-rc));
		return;
	}
	rc = weft_accept(ev->connreq, q->qp, NULL);
	if (rc != 0) {
		/* Nothing was sent, so the completions still to be polled are of receives, and
		 * harmless. */
		weft_qp_destroy(q->qp);
		q->used = false;
		free(q->recv);
		tell(cl, "accept: %s", strerror(-rc));
		return;
	}
	vars_result("accepted", "%u", qp_number(q));
}

static void
take_event(struct cmdline *cl, const struct weft_event *ev)
{
	const struct console_srq *srq;
	struct console_qp *q = ev->user;
	char text[160], traffic[CONSOLE_ERROR_BYTES] = "";

	switch (ev->type) {
	case WEFT_EV_CONNECT_REQUEST:
		take_request(cl, ev);
		return;
	case WEFT_EV_ESTABLISHED:
		q->up = true;
		tell(cl, "qp %u: established", qp_number(q));
		return;
	case WEFT_EV_TERMINATED:
		q->terminated = true;
		weft_terminate_str(&ev->term, text, sizeof(text));
		vars_result("term", "%s", text);
		tell(cl, "qp %u: Terminate %s: %s", qp_number(q),
		     ev->term.ours ? "sent" : "received", text);
		return;
	case WEFT_EV_BAD_RANGE:
		tell(cl, "qp %u: stag 0x%08x offset %" PRIu64 " length %" PRIu64 " is bad",
		     qp_number(q), ev->bad_range.stag, ev->bad_range.to, ev->bad_range.len_bytes);
		return;
	case WEFT_EV_REJECTED:
	case WEFT_EV_CONNECT_ERROR:
	case WEFT_EV_DISCONNECTED:
		q->closed = true;
		q->up = false;
		q->status = ev->type == WEFT_EV_REJECTED ? 0 : ev->status;
		traffic_lost(q, traffic, sizeof(traffic));
		tell(cl, "qp %u: %s%s%s%s", qp_number(q), weft_event_str(ev->type),
		     ev->status != 0 ? ": " : "", ev->status != 0 ? strerror(-ev->status) : "",
		     traffic);
		return;
	case WEFT_EV_SRQ_LIMIT:
		srq = ev->user;
		tell(cl, "srq %u: fewer than %u receives are left", (unsigned int)(srq - con.srqs),
		     srq->limit);
		return;
	case WEFT_EV_LAST_WQE:
		tell(cl, "qp %u: takes no more receives of its srq", qp_number(q));
		return;
	default:
		tell(cl, "event %s", weft_event_str(ev->type));
	}
}

/** The buffer of a receive that has completed. An SRQ's is free again, until a command posts it. */
static const char *
recv_buffer(const struct weft_wc *wc)
{
	const uint32_t i = (uint32_t)wc->wr_id, srq = (uint32_t)(wc->wr_id >> 32) & 0xffff;
	const struct console_qp *q = wc->qp_user;

	if (srq == 0)
		return (const char *)q->recv + (size_t)i * CONSOLE_RECV_BYTES;
	con.srqs[srq].posted[i] = false;
	return (const char *)con.srqs[srq].mem + (size_t)i * CONSOLE_RECV_BYTES;
}

/** Post the receive of a QP's own queue again. */
static void
recv_again(const struct weft_wc *wc)
{
	struct console_qp *q = wc->qp_user;

	if (q->srq == NULL)
		qp_post_recv(q, wc->wr_id & ~RECV_ID);
}

static void
take_recv_imm(struct cmdline *cl, const struct weft_wc *wc)
{
	recv_buffer(wc);
	if (wc->status != WEFT_WC_SUCCESS)
		return;
	vars_result("imm", "0x%016" PRIx64, weft_get_be64(wc->imm));
	tell(cl, "qp %u: immediate data%s: 0x%016" PRIx64, qp_number(wc->qp_user),
	     wc->flags & WEFT_WC_SOLICITED ? " (solicited)" : "", weft_get_be64(wc->imm));
	recv_again(wc);
}

static void
take_recv(struct cmdline *cl, const struct weft_wc *wc)
{
	const char *text = recv_buffer(wc);
	char all[VAR_BYTES], inv[32] = "";

	if (wc->status != WEFT_WC_SUCCESS)
		return; /* receives flushed by a close */
	snprintf(all, sizeof(all), "%.*s", (int)wc->len_bytes, text);
	vars_result("recv", "%s", ui_printable(all, all, sizeof(all)));
	if ((wc->flags & WEFT_WC_INV) != 0) {
		vars_result("inv", "0x%08x", wc->inv_stag);
		snprintf(inv, sizeof(inv), " (invalidated 0x%08x)", wc->inv_stag);
	}
	tell(cl, "qp %u: received %u bytes%s%s: %.*s", qp_number(wc->qp_user), wc->len_bytes,
	     wc->flags & WEFT_WC_SOLICITED ? " (solicited)" : "", inv,
	     (int)(wc->len_bytes < 64 ? wc->len_bytes : 64), text);
	recv_again(wc);
}

/** What a successful operation brought, behind ", "; "" if nothing. Sets its variable. */
static void
result_of(const struct weft_wc *wc, char *buf, size_t size)
{
	const uint8_t *place = con.wrs[wc->wr_id % CONSOLE_WRS].hash;
	char hex[2 * WEFT_HASH_MAX_BYTES + 1] = "";
	uint64_t was;

	buf[0] = '\0';
	if (wc->opcode == WEFT_WC_VERIFY) {
		for (uint32_t i = 0; i < wc->len_bytes && i < WEFT_HASH_MAX_BYTES; i++)
			snprintf(hex + 2 * i, 3, "%02x", place[i]);
		vars_result("hash", "%s", hex);
		snprintf(buf, size, ", hash %s", hex);
	} else if (wc->opcode == WEFT_WC_FETCH_ADD || wc->opcode == WEFT_WC_CMP_SWAP) {
		memcpy(&was, place, sizeof(was));
		vars_result("was", "0x%" PRIx64, was);
		snprintf(buf, size, ", it was 0x%" PRIx64, was);
	}
}

/** A work request has completed, and those before it that were unsignaled are done with it. */
static void
wr_done(struct console_qp *q, uint64_t id)
{
	struct console_wr *p = &con.wrs[id % CONSOLE_WRS];

	for (unsigned int i = 0; i < CONSOLE_WRS && q->unsignaled > 0; i++)
		if (con.wrs[i].q == q && con.wrs[i].unsignaled && con.wrs[i].id < id) {
			q->unsignaled--;
			wr_free(&con.wrs[i]);
		}
	if (p->q != q || p->id != id)
		return;
	if (p->unsignaled)
		q->unsignaled--;
	else
		q->outstanding--;
	wr_free(p);
}

static void
take_wc(struct cmdline *cl, const struct weft_wc *wc)
{
	static const char *const names[] = {
	        [WEFT_WC_SEND] = "send",
	        [WEFT_WC_WRITE] = "write",
	        [WEFT_WC_READ] = "read",
	        [WEFT_WC_FLUSH] = "flush",
	        [WEFT_WC_VERIFY] = "verify",
	        [WEFT_WC_ATOMIC_WRITE] = "atomic-write",
	        [WEFT_WC_FETCH_ADD] = "fetch-add",
	        [WEFT_WC_CMP_SWAP] = "cmp-swap",
	        [WEFT_WC_IMM] = "imm",
	        [WEFT_WC_COMMIT] = "commit",
	        [WEFT_WC_FAST_REG] = "fast-register",
	        [WEFT_WC_LOCAL_INV] = "invalidate",
	        [WEFT_WC_BIND_MW] = "bind",
	};
	struct console_qp *q = wc->qp_user;
	const bool success = wc->status == WEFT_WC_SUCCESS;
	char result[2 * WEFT_HASH_MAX_BYTES + 64] = "", line[CONSOLE_ERROR_BYTES];

	if (wc->opcode == WEFT_WC_RECV_IMM) {
		take_recv_imm(cl, wc);
		return;
	}
	if (wc->opcode == WEFT_WC_RECV) {
		take_recv(cl, wc);
		return;
	}
	vars_result("status", "%s", weft_wc_status_str(wc->status));
	if (success)
		result_of(wc, result, sizeof(result));
	else if (wc->opcode == WEFT_WC_COMMIT)
		snprintf(result, sizeof(result), ", at the %s of range %u",
		         weft_commit_step_str(wc->commit.step), wc->commit.range);
	wr_done(q, wc->wr_id);
	if (con.counting.on && success) {
		con.counting.completed++;
		return;
	}
	snprintf(line, sizeof(line), "qp %u: wr %" PRIu64 " %s: %s%s", qp_number(q), wc->wr_id,
	         names[wc->opcode], weft_wc_status_str(wc->status), result);
	tell(cl, "%s", line);
	if (success)
		return;
	/* The first one is the reason; those behind it are flushed. */
	if (!con.failed)
		snprintf(con.error, sizeof(con.error), "%s", line);
	con.failed = true;
}

/** What a worker has to say of a log or an RPC endpoint, or a line of the program's log. */
static void
take_note(struct cmdline *cl, const struct note *n)
{
	char line[sizeof(n->line)];

	if (n->kind == NOTE_LOG) {
		say(cl, ui_printable(n->line, line, sizeof(line)));
		return;
	}
	if (n->var[0] != '\0')
		vars_result(n->var, "%s", n->value);
	tell(cl, "%s", n->line);
	if (n->kind == NOTE_EVENT)
		return;
	con.pending--;
	if (n->kind == NOTE_DONE)
		return;
	if (!con.failed)
		snprintf(con.error, sizeof(con.error), "%s", n->line);
	con.failed = true;
}

unsigned int
console_drain(struct cmdline *cl)
{
	struct note note;
	struct weft_event ev;
	struct weft_wc wc[16];
	unsigned int total = 0, n;
	char line[CONSOLE_ERROR_BYTES];

	if (con.attached)
		return 0;
	while (weft_evq_poll(con.evq, &ev) > 0) {
		take_event(cl, &ev);
		total++;
	}
	while (note_take(&note)) {
		take_note(cl, &note);
		total++;
	}
	while ((n = inbox_take(wc, 16)) > 0) {
		for (unsigned int i = 0; i < n; i++)
			take_wc(cl, &wc[i]);
		total += n;
	}
	for (; traffic_news(line, sizeof(line)); total++)
		tell(cl, "%s", line);
	return total;
}

unsigned int
console_outstanding(void)
{
	unsigned int n = con.pending;

	for (unsigned int i = 1; i <= CONSOLE_MAX_QPS; i++)
		if (con.qps[i].used)
			n += con.qps[i].outstanding;
	return n;
}

bool
console_idle(void *arg)
{
	(void)arg;
	return console_outstanding() == 0;
}

/** Descriptors of the stack's queues; -1, which poll() ignores: there is no stack. */
static int
cq_fd(void)
{
	return con.attached ? -1 : inbox_fd();
}

static int
evq_fd(void)
{
	return con.attached ? -1 : weft_evq_fd(con.evq);
}

bool
console_wait(struct cmdline *cl, uint32_t ms, bool (*done)(void *arg), void *arg)
{
	uint64_t until = ui_now_ns() + ms * 1000000ull;

	for (;;) {
		struct pollfd fds[3] = {{.fd = cq_fd(), .events = POLLIN},
		                        {.fd = evq_fd(), .events = POLLIN},
		                        {.fd = note_fd(), .events = POLLIN}};
		uint64_t now, junk;

		console_drain(cl);
		if (done(arg))
			return true;
		now = ui_now_ns();
		if (now >= until || interrupted())
			return false;
		if (!con.attached && inbox_arm())
			continue;
		/* `done` may depend on something without a descriptor: check again every 10 ms. */
		if (poll(fds, 3, 10) > 0 && (fds[0].revents & POLLIN) != 0 &&
		    read(fds[0].fd, &junk, sizeof(junk)) < 0 && errno != EAGAIN)
			return false;
	}
}

bool
console_until_readable(struct cmdline *cl, int fd, void (*drained)(void *arg), void *arg)
{
	for (;;) {
		struct pollfd fds[5] = {{.fd = fd, .events = POLLIN},
		                        {.fd = cq_fd(), .events = POLLIN},
		                        {.fd = evq_fd(), .events = POLLIN},
		                        {.fd = interrupt_fd(), .events = POLLIN},
		                        {.fd = note_fd(), .events = POLLIN}};
		uint64_t junk;

		console_drain(cl);
		if (drained != NULL)
			drained(arg);
		if (interrupted())
			return false;
		if (!con.attached && inbox_arm())
			continue;
		if (poll(fds, 5, -1) < 0 && errno != EINTR)
			return false;
		if ((fds[1].revents & POLLIN) != 0 && read(fds[1].fd, &junk, sizeof(junk)) < 0 &&
		    errno != EAGAIN)
			return false;
		if (fds[0].revents != 0)
			return true;
	}
}
