/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The answering side. Every client has a session; all sessions run on the calling thread. */

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "addr.h"
#include "ping.h"
#include "stack.h"
#include "ui.h"

#define CLOSE_NS 1000000000ull /* limit of an orderly close */
/* Receives, for messages that a client may send before the first is taken; the protocol allows
 * one. */
#define RECVS 4

/** What a session waits for next. */
enum turn {
	TURN_SOURCE, /**< the client's message with its source */
	TURN_READ,   /**< the completion of the Read */
	TURN_SHOW,   /**< standard output, with -v */
	TURN_SINK,   /**< the client's message with its sink */
};

enum { WR_READ = RECVS, WR_SEND };

struct session {
	LIST_ENTRY(session) link;
	struct server *s;
	struct weft_cq *cq;
	struct weft_pd *pd;
	struct weft_qp *qp;
	struct weft_mr *mr;
	uint8_t *mem;  /**< -S octets: sink of the Read, source of the Write */
	uint8_t *want; /**< -V: the expected data */
	uint8_t in[RECVS][PING_INFO_BYTES];
	uint8_t out[PING_INFO_BYTES];
	enum turn turn;
	struct ping_info source;
	uint64_t pings;
	uint64_t died_ns; /**< when the server closed it */
	bool up;
	bool fault;   /**< the client's error was printed */
	bool closing; /**< the server has closed the connection */
	bool gone;
	char who[ADDR_STR_MAX];
};

struct server {
	const struct ping_opt *opt;
	struct ping_result *res;
	struct weft_ctx *ctx;
	struct weft_worker *w;
	struct weft_evq *evq;
	struct weft_listener *listener;
	LIST_HEAD(, session) sessions;
	unsigned int nsessions;
	bool taken; /**< a client was accepted */
};

/* ---- The end of a session ---- */

/** Print a client's error, once, and close its connection. */
static void __attribute__((format(printf, 2, 3)))
session_fail(struct session *x, const char *fmt, ...)
{
	char text[PING_WHY_MAX];
	va_list ap;

	if (x->fault)
		return;
	x->fault = true;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ui_msg("%s: ping %" PRIu64 ": %s", x->who, x->pings, text);
	if (x->qp == NULL || x->gone || x->closing)
		return;
	x->closing = true;
	x->died_ns = ui_now_ns();
	if (weft_disconnect(x->qp) != 0)
		x->gone = true;
}

/** Free a session. False: its protection domain is still in use; try again. */
static bool
session_free(struct session *x)
{
	if (x->qp != NULL)
		weft_qp_destroy(x->qp);
	x->qp = NULL;
	if (x->cq != NULL)
		(void)weft_cq_destroy(x->cq);
	x->cq = NULL;
	if (x->mr != NULL)
		weft_mr_dereg(x->mr, free, x->mem);
	else
		free(x->mem);
	x->mr = NULL;
	x->mem = NULL;
	if (x->pd != NULL && weft_pd_dealloc(x->pd) != 0)
		return false;
	free(x->want);
	free(x);
	return true;
}

static void
session_end(struct session *x)
{
	struct server *s = x->s;

	LIST_REMOVE(x, link);
	s->nsessions--;
	s->res->pings += x->pings;
	if (x->fault)
		s->res->failed++;
	else
		s->res->clients++;
	if (!x->fault && !s->opt->quiet)
		ui_msg("%s: %" PRIu64 " ping%s, left in order", x->who, x->pings,
		       x->pings == 1 ? "" : "s");
	while (!session_free(x))
		(void)weft_worker_poll(s->w);
}

/* ---- The protocol ---- */

static bool
session_recv(struct session *x, unsigned int i)
{
	struct weft_sge sge = {x->in[i], PING_INFO_BYTES, 0};
	struct weft_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};

	return weft_post_recv(x->qp, &wr, 1) == 1;
}

static void
session_post(struct session *x, const struct weft_wr *wr, unsigned int n)
{
	int rc = weft_post_send(x->qp, wr, n);

	if (rc != (int)n)
		session_fail(x, "cannot answer: %s", strerror(rc < 0 ? -rc : EAGAIN));
}

/** Read the client's source. */
static void
session_source(struct session *x, const struct ping_info *info)
{
	struct weft_sge sge = {x->mem, info->size_bytes, weft_mr_stag(x->mr)};
	struct weft_wr wr = {.wr_id = WR_READ,
	                     .opcode = WEFT_WR_READ,
	                     .flags = WEFT_WR_SIGNALED,
	                     .sg_list = &sge,
	                     .num_sge = 1,
	                     .rdma = {info->stag, info->addr}};

	if (info->size_bytes > x->s->opt->size_bytes) {
		session_fail(x, "%u octets, and there is room for %u; start the server with -S %u",
		             info->size_bytes, x->s->opt->size_bytes, info->size_bytes);
		return;
	}
	x->source = *info;
	x->turn = TURN_READ;
	session_post(x, &wr, 1);
}

/** Tell the client to go on. */
static void
session_go_ahead(struct session *x)
{
	struct weft_sge sge = {x->out, PING_INFO_BYTES, 0};
	struct weft_wr wr = {
	        .wr_id = WR_SEND, .opcode = WEFT_WR_SEND, .sg_list = &sge, .num_sge = 1};

	x->turn = TURN_SINK;
	session_post(x, &wr, 1);
}

/** The Read is done: check the data. */
static void
session_read_done(struct session *x)
{
	uint32_t n = x->source.size_bytes, at = n;

	if (x->turn != TURN_READ)
		return;
	if (x->s->opt->verify && n >= PING_SIZE_MIN) {
		ping_fill(x->want, n, x->pings);
		at = ping_diff(x->want, x->mem, n);
	}
	if (at != n) {
		session_fail(x,
		             "the data is not a ping's, first at octet %u of %u: 0x%02x instead of "
		             "0x%02x",
		             at, n, x->mem[at], x->want[at]);
		return;
	}
	if (!x->s->opt->verbose) {
		session_go_ahead(x);
		return;
	}
	ping_say("server ping data", x->mem, n);
	x->turn = TURN_SHOW;
}

/** Write the same data to the client's sink, and send "done". */
static void
session_sink(struct session *x, const struct ping_info *info)
{
	struct weft_sge data = {x->mem, info->size_bytes, 0}, sge = {x->out, PING_INFO_BYTES, 0};
	struct weft_wr wr[2] = {
	        {.wr_id = WR_SEND,
	         .opcode = WEFT_WR_WRITE,
	         .sg_list = &data,
	         .num_sge = 1,
	         .rdma = {info->stag, info->addr}},
	        {.wr_id = WR_SEND, .opcode = WEFT_WR_SEND, .sg_list = &sge, .num_sge = 1},
	};

	if (info->size_bytes != x->source.size_bytes) {
		session_fail(x, "%u octets were offered and room for %u; is that an rping client?",
		             x->source.size_bytes, info->size_bytes);
		return;
	}
	x->turn = TURN_SOURCE;
	x->pings++;
	session_post(x, wr, 2);
}

static void
session_told(struct session *x, const struct weft_wc *wc)
{
	const bool sink = x->turn == TURN_SINK;
	struct ping_info info;

	if (ping_info_decode(x->in[wc->wr_id], wc->len_bytes, &info) != 0) {
		session_fail(x, "a message of %u octets instead of %u; is that an rping client?",
		             wc->len_bytes, PING_INFO_BYTES);
		return;
	}
	if (x->turn == TURN_READ || x->turn == TURN_SHOW) {
		session_fail(x, "a message that is not due; is that an rping client?");
		return;
	}
	ping_debug(x->s->opt,
	           "%s: ping %" PRIu64 ": %s: STag 0x%08x, offset 0x%" PRIx64 ", %u octets", x->who,
	           x->pings, sink ? "write to" : "read from", info.stag, info.addr,
	           info.size_bytes);
	/* Post the receive before the answer, because the answer may bring the next message. */
	if (!session_recv(x, (unsigned int)wc->wr_id))
		session_fail(x, "cannot receive");
	else if (sink)
		session_sink(x, &info);
	else
		session_source(x, &info);
}

static void
session_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	struct session *x = user;

	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		/* The event that follows has the reason. */
		if (x->fault || wc[i].status != WEFT_WC_SUCCESS)
			continue;
		if (wc[i].opcode == WEFT_WC_RECV)
			session_told(x, &wc[i]);
		else if (wc[i].opcode == WEFT_WC_READ)
			session_read_done(x);
	}
}

/* ---- Connections ---- */

static int
session_make(struct server *s, const struct weft_event *ev, struct session **out)
{
	struct session *x = calloc(1, sizeof(*x));
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 64, .on_wc = session_wc, .user = x};
	struct weft_qp_attr qa = {.size = sizeof(qa),
	                          .worker = weft_connreq_worker(ev->connreq),
	                          .evq = s->evq,
	                          .sq_depth = 8,
	                          .rq_depth = RECVS,
	                          .ird = 1,
	                          .ord = 1,
	                          .max_sge = 1,
	                          .user = x};
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .len_bytes = s->opt->size_bytes,
	                          .access = WEFT_ACCESS_LOCAL_WRITE};
	int rc;

	*out = x;
	if (x == NULL)
		return -ENOMEM;
	x->s = s;
	addr_str(&ev->remote, x->who);
	ma.addr = x->mem = malloc(s->opt->size_bytes);
	x->want = s->opt->verify ? malloc(s->opt->size_bytes) : NULL;
	if (x->mem == NULL || (s->opt->verify && x->want == NULL))
		return -ENOMEM;
	rc = weft_pd_alloc(s->ctx, &x->pd);
	if (rc == 0)
		rc = weft_cq_create(s->ctx, &ca, &x->cq);
	if (rc == 0)
		rc = weft_mr_reg(x->pd, &ma, &x->mr);
	qa.send_cq = qa.recv_cq = x->cq;
	if (rc == 0)
		rc = weft_qp_create(x->pd, &qa, &x->qp);
	for (unsigned int i = 0; i < RECVS && rc == 0; i++)
		if (!session_recv(x, i))
			rc = -ENOMEM;
	return rc;
}

static void
server_request(struct server *s, const struct weft_event *ev)
{
	struct weft_conn_attr ca = {.size = sizeof(ca), .keepalive_us = PING_KEEPALIVE_US};
	char who[ADDR_STR_MAX];
	struct session *x;
	int rc;

	if (s->opt->persistent ? s->nsessions == PING_MAX_SESSIONS : s->taken) {
		static const char busy[] = "it has as many clients as it takes";

		ui_msg("%s: refused: there %s already", addr_str(&ev->remote, who),
		       s->opt->persistent ? "are as many clients as there can be"
		                          : "is a client (-P takes more)");
		weft_reject(ev->connreq, busy, sizeof(busy) - 1);
		return;
	}
	rc = session_make(s, ev, &x);
	if (rc != 0) {
		ui_msg("%s: refused: %s", addr_str(&ev->remote, who), strerror(-rc));
		weft_reject(ev->connreq, NULL, 0);
	} else {
		rc = weft_accept(ev->connreq, x->qp, &ca);
		if (rc != 0)
			ui_msg("%s: not accepted: %s", x->who, strerror(-rc));
	}
	if (rc != 0) {
		while (x != NULL && !session_free(x))
			(void)weft_worker_poll(s->w);
		return;
	}
	s->taken = true;
	s->nsessions++;
	LIST_INSERT_HEAD(&s->sessions, x, link);
}

static void
server_event(void *user, const struct weft_event *ev)
{
	struct server *s = user;
	struct session *x = ev->user;
	struct weft_qp_info info;
	char text[160];

	switch (ev->type) {
	case WEFT_EV_CONNECT_REQUEST:
		server_request(s, ev);
		break;
	case WEFT_EV_ESTABLISHED:
		x->up = true;
		weft_qp_query(x->qp, &info);
		ping_debug(s->opt, "%s: connected: IRD %u, ORD %u, MULPDU %u octets", x->who,
		           info.ird, info.ord, info.mulpdu_bytes);
		if (info.ord == 0)
			session_fail(x, "the client takes no RDMA Read (its IRD is 0)");
		break;
	case WEFT_EV_TERMINATED:
		session_fail(x, "%s ended the connection: %s", ev->term.ours ? "we" : "the client",
		             weft_terminate_str(&ev->term, text, sizeof(text)));
		break;
	case WEFT_EV_CONNECT_ERROR:
	case WEFT_EV_DISCONNECTED:
		x->gone = true;
		if (ev->status != 0)
			session_fail(x, "%s: %s",
			             x->up ? "the connection is lost" : "start-up failed",
			             strerror(-ev->status));
		else if (x->turn != TURN_SOURCE)
			session_fail(x, "the client left in the middle of it");
		break;
	default:
		break;
	}
}

/* ---- The server's loop ---- */

/** Continue the sessions whose text was printed, free those that have ended, and abort those
 * that do not end after the close. */
static void
server_sweep(struct server *s)
{
	struct session *x, *next;
	bool shown = ping_shown();

	for (x = LIST_FIRST(&s->sessions); x != NULL; x = next) {
		next = LIST_NEXT(x, link);
		if (x->turn == TURN_SHOW && shown && !x->fault && !x->gone)
			session_go_ahead(x);
		if (x->gone || (x->closing && ui_now_ns() - x->died_ns > CLOSE_NS))
			session_end(x);
	}
}

/** Close the remaining sessions in order. */
static void
server_hang_up(struct server *s, struct ping_wait *wait)
{
	struct session *x;

	LIST_FOREACH (x, &s->sessions, link) {
		if (!x->closing && weft_disconnect(x->qp) != 0)
			x->gone = true;
		x->closing = true;
		x->died_ns = ui_now_ns();
		/* The server ends this client's ping, so it is no fault of the client. */
		x->turn = TURN_SOURCE;
	}
	while (!LIST_EMPTY(&s->sessions)) {
		(void)ping_turn(wait, s->w);
		server_sweep(s);
	}
}

int
ping_server_run(struct weft_ctx *ctx, struct weft_worker *w, const struct ping_opt *opt,
                struct ping_result *res)
{
	struct server s = {.opt = opt, .res = res, .ctx = ctx, .w = w};
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = server_event, .user = &s};
	struct weft_listen_attr la = {.size = sizeof(la),
	                              .backlog = PING_MAX_SESSIONS,
	                              .keepalive_us = PING_KEEPALIVE_US};
	struct ping_wait wait = {0};
	char where[ADDR_STR_MAX];
	int rc;

	LIST_INIT(&s.sessions);
	rc = weft_evq_create(ctx, &ea, &s.evq);
	la.evq = s.evq;
	if (rc == 0)
		rc = weft_listen(ctx, (const struct sockaddr *)&opt->addr, addr_len(&opt->addr),
		                 &la, &s.listener);
	if (rc == 0)
		ui_msg("waiting for %s on %s", opt->persistent ? "clients" : "a client",
		       addr_str(&opt->addr, where));
	while (rc == 0 && !ping_stop) {
		(void)ping_turn(&wait, w);
		server_sweep(&s);
		if (!opt->persistent && s.taken && LIST_EMPTY(&s.sessions))
			break;
		if (weft_port_removed(weft_port_get(ctx, 0)))
			rc = -ENODEV;
	}
	if (s.listener != NULL)
		weft_unlisten(s.listener);
	server_hang_up(&s, &wait);
	stack_release(w, NULL, s.evq, NULL);
	return rc;
}
