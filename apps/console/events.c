/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Numbered QPs, and what comes of them: events and completions are taken and printed. */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/byteorder.h>

#include "console.h"
#include "ui.h"

/** Marks the wr_id of a receive; the low bits are the buffer's number. */
#define RECV_ID (1ull << 63)

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

struct console_qp *
console_qp_make(struct weft_worker *w, int *rc)
{
	struct weft_qp_attr qa = {.size = sizeof(qa),
	                          .worker = w,
	                          .send_cq = con.cq,
	                          .recv_cq = con.cq,
	                          .evq = con.evq,
	                          .all_signaled = true};
	struct console_qp *q = NULL;

	for (unsigned int n = 1; n <= CONSOLE_MAX_QPS && q == NULL; n++)
		if (!con.qps[n].used)
			q = &con.qps[n];
	if (q == NULL) {
		*rc = -ENOSPC;
		return NULL;
	}
	memset(q, 0, sizeof(*q));
	q->recv = malloc((size_t)CONSOLE_RECVS * CONSOLE_RECV_BYTES);
	if (q->recv == NULL) {
		*rc = -ENOMEM;
		return NULL;
	}
	qa.user = q;
	*rc = weft_qp_create(con.pd, &qa, &q->qp);
	for (uint64_t i = 0; i < CONSOLE_RECVS && *rc >= 0; i++)
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

void
console_qp_drop(struct cmdline *cl, struct console_qp *q)
{
	weft_qp_destroy(q->qp);
	console_drain(cl);
	q->used = false;
	free(q->recv);
}

static void
take_request(struct cmdline *cl, const struct weft_event *ev)
{
	struct console_qp *q;
	int rc;

	q = console_qp_make(weft_connreq_worker(ev->connreq), &rc);
	if (q == NULL) {
		weft_reject(ev->connreq, NULL, 0);
		cmdline_printf(cl, "connection request rejected: %s\n", strerror(-rc));
		return;
	}
	rc = weft_accept(ev->connreq, q->qp, NULL);
	if (rc != 0) {
		/* Nothing was sent, so the completions still to be polled are of receives, and
		 * harmless. */
		weft_qp_destroy(q->qp);
		q->used = false;
		free(q->recv);
		cmdline_printf(cl, "accept: %s\n", strerror(-rc));
	}
}

static void
take_event(struct cmdline *cl, const struct weft_event *ev)
{
	struct console_qp *q = ev->user;
	char text[160];

	switch (ev->type) {
	case WEFT_EV_CONNECT_REQUEST:
		take_request(cl, ev);
		return;
	case WEFT_EV_ESTABLISHED:
		q->up = true;
		cmdline_printf(cl, "qp %u: established\n", qp_number(q));
		return;
	case WEFT_EV_TERMINATED:
		cmdline_printf(cl, "qp %u: Terminate %s: %s\n", qp_number(q),
		               ev->term.ours ? "sent" : "received",
		               weft_terminate_str(&ev->term, text, sizeof(text)));
		return;
	case WEFT_EV_BAD_RANGE:
		cmdline_printf(cl,
		               "qp %u: stag 0x%08x offset %" PRIu64 " length %" PRIu64 " is bad\n",
		               qp_number(q), ev->bad_range.stag, ev->bad_range.to,
		               ev->bad_range.len_bytes);
		return;
	case WEFT_EV_REJECTED:
	case WEFT_EV_CONNECT_ERROR:
	case WEFT_EV_DISCONNECTED:
		q->closed = true;
		q->up = false;
		cmdline_printf(cl, "qp %u: %s%s%s\n", qp_number(q), weft_event_str(ev->type),
		               ev->status != 0 ? ": " : "",
		               ev->status != 0 ? strerror(-ev->status) : "");
		return;
	default:
		cmdline_printf(cl, "event %s\n", weft_event_str(ev->type));
	}
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
	};
	struct console_qp *q = wc->qp_user;

	if (wc->opcode == WEFT_WC_RECV_IMM) {
		cmdline_printf(cl, "qp %u: immediate data%s: 0x%016" PRIx64 "\n", qp_number(q),
		               wc->flags & WEFT_WC_SOLICITED ? " (solicited)" : "",
		               weft_get_be64(wc->imm));
		qp_post_recv(q, wc->wr_id & ~RECV_ID);
		return;
	}
	if (wc->opcode == WEFT_WC_RECV) {
		uint64_t i = wc->wr_id & ~RECV_ID;

		if (wc->status != WEFT_WC_SUCCESS)
			return; /* receives flushed by a close */
		cmdline_printf(cl, "qp %u: received %u bytes%s: %.*s\n", qp_number(q),
		               wc->len_bytes, wc->flags & WEFT_WC_SOLICITED ? " (solicited)" : "",
		               (int)(wc->len_bytes < 64 ? wc->len_bytes : 64),
		               (const char *)q->recv + i * CONSOLE_RECV_BYTES);
		qp_post_recv(q, i);
		return;
	}
	q->outstanding--;
	cmdline_printf(cl, "qp %u: wr %" PRIu64 " %s: %s", qp_number(q), wc->wr_id,
	               names[wc->opcode], weft_wc_status_str(wc->status));
	if (wc->opcode == WEFT_WC_VERIFY && wc->status == WEFT_WC_SUCCESS) {
		cmdline_printf(cl, ", hash ");
		for (uint32_t i = 0; i < wc->len_bytes && i < WEFT_HASH_MAX_BYTES; i++)
			cmdline_printf(cl, "%02x", con.hash[wc->wr_id % 256][i]);
	}
	if ((wc->opcode == WEFT_WC_FETCH_ADD || wc->opcode == WEFT_WC_CMP_SWAP) &&
	    wc->status == WEFT_WC_SUCCESS) {
		uint64_t was;

		memcpy(&was, con.hash[wc->wr_id % 256], sizeof(was));
		cmdline_printf(cl, ", it was 0x%" PRIx64, was);
	}
	cmdline_printf(cl, "\n");
	if (wc->status != WEFT_WC_SUCCESS)
		con.failed = true;
}

unsigned int
console_drain(struct cmdline *cl)
{
	struct weft_event ev;
	struct weft_wc wc[16];
	unsigned int total = 0;
	int n;

	while (weft_evq_poll(con.evq, &ev) > 0) {
		take_event(cl, &ev);
		total++;
	}
	while ((n = weft_cq_poll(con.cq, wc, 16)) > 0) {
		for (int i = 0; i < n; i++)
			take_wc(cl, &wc[i]);
		total += (unsigned int)n;
	}
	return total;
}

bool
console_wait(struct cmdline *cl, uint32_t ms, bool (*done)(void *arg), void *arg)
{
	uint64_t until = ui_now_ns() + ms * 1000000ull;

	for (;;) {
		struct pollfd fds[2] = {{.fd = weft_cq_fd(con.cq), .events = POLLIN},
		                        {.fd = weft_evq_fd(con.evq), .events = POLLIN}};
		uint64_t now, junk;

		console_drain(cl);
		if (done(arg))
			return true;
		now = ui_now_ns();
		if (now >= until)
			return false;
		if (weft_cq_arm(con.cq, false) > 0)
			continue;
		/* `done` may depend on something without a descriptor: check again every 10 ms. */
		if (poll(fds, 2, 10) > 0 && (fds[0].revents & POLLIN) != 0 &&
		    read(fds[0].fd, &junk, sizeof(junk)) < 0 && errno != EAGAIN)
			return false;
	}
}

void
console_until_readable(struct cmdline *cl, int fd)
{
	for (;;) {
		struct pollfd fds[3] = {{.fd = fd, .events = POLLIN},
		                        {.fd = weft_cq_fd(con.cq), .events = POLLIN},
		                        {.fd = weft_evq_fd(con.evq), .events = POLLIN}};
		uint64_t junk;

		console_drain(cl);
		if (weft_cq_arm(con.cq, false) > 0)
			continue;
		if (poll(fds, 3, -1) < 0 && errno != EINTR)
			return;
		if ((fds[1].revents & POLLIN) != 0 && read(fds[1].fd, &junk, sizeof(junk)) < 0 &&
		    errno != EAGAIN)
			return;
		if (fds[0].revents != 0)
			return;
	}
}
