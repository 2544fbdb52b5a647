/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The pinging side: one connection, one ping after the other. */

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "addr.h"
#include "connect_why.h"
#include "ping.h"
#include "stack.h"
#include "ui.h"

#define NS_PER_SEC 1000000000ull
/* after this time without anything received the link is checked, and a signal obeyed */
#define LINK_NS 200000000ull
/* limit of an orderly close, and of the wait for a failure's reason */
#define CLOSE_NS     NS_PER_SEC
#define CONNECT_US   5000000u
#define SENDS_A_PING 2 /* Sends of one ping; there are as many receives */

struct client {
	const struct ping_opt *opt;
	struct weft_ctx *ctx;
	struct weft_worker *w;
	struct weft_evq *evq;
	struct weft_cq *cq;
	struct weft_pd *pd;
	struct weft_qp *qp;
	uint8_t *mem[2]; /**< the server's source and its sink */
	struct weft_mr *mr[2];
	uint8_t in[SENDS_A_PING][PING_INFO_BYTES], out[SENDS_A_PING][PING_INFO_BYTES];
	struct ping_wait wait;
	uint64_t seq;      /**< number of this ping */
	unsigned int told; /**< messages received from the server in this ping */
	unsigned int due;  /**< messages that the server may have sent by now */
	bool up, gone, rejected, terminated, flushed;
	int status;    /**< status of the connection's end */
	int odd_bytes; /**< length of a message that is not rping's, or -1 */
	bool early;    /**< the server has sent a message out of turn */
	enum weft_wc_status wc;
	struct weft_terminate term;
	char said[64]; /**< text of the rejection */
};

static void
client_event(void *user, const struct weft_event *ev)
{
	struct client *c = user;

	switch (ev->type) {
	case WEFT_EV_ESTABLISHED:
		c->up = true;
		break;
	case WEFT_EV_REJECTED:
		c->rejected = c->gone = true;
		snprintf(c->said, sizeof(c->said), "%.*s", (int)ev->private_data_bytes,
		         (const char *)ev->private_data);
		break;
	case WEFT_EV_TERMINATED:
		c->terminated = true;
		c->term = ev->term;
		break;
	case WEFT_EV_CONNECT_ERROR:
	case WEFT_EV_DISCONNECTED:
		c->gone = true;
		c->status = ev->status;
		break;
	default:
		break;
	}
}

static int
client_post_recv(struct client *c, unsigned int i)
{
	struct weft_sge sge = {c->in[i], PING_INFO_BYTES, 0};
	struct weft_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};

	return weft_post_recv(c->qp, &wr, 1);
}

static void
client_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	struct client *c = user;

	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		if (wc[i].status != WEFT_WC_SUCCESS) {
			c->flushed = true;
			if (c->wc == WEFT_WC_SUCCESS)
				c->wc = wc[i].status;
		} else if (wc[i].opcode == WEFT_WC_RECV) {
			struct ping_info info;

			c->early = c->early || c->told == c->due;
			if (ping_info_decode(c->in[wc[i].wr_id], wc[i].len_bytes, &info) != 0)
				c->odd_bytes = (int)wc[i].len_bytes;
			c->told++;
			(void)client_post_recv(c, (unsigned int)wc[i].wr_id);
		}
	}
}

/* ---- Waiting ---- */

static bool
is_up(const struct client *c)
{
	return c->up;
}

static bool
is_told(const struct client *c)
{
	return c->told >= c->due;
}

/** Wait until done(c). 0, -EPIPE (the server has gone or broke the protocol), -EINTR,
 * -ETIMEDOUT, -ENETDOWN. */
static int
client_wait(struct client *c, bool (*done)(const struct client *c), uint64_t limit_ns)
{
	uint64_t quiet = 0;
	struct weft_port_stats ps;

	c->wait.since_ns = 0;
	for (;;) {
		if (c->early || c->odd_bytes >= 0)
			return -EPIPE;
		if (done(c))
			return 0;
		if (c->gone || c->flushed)
			return -EPIPE;
		/* After a signal a ping under way may finish, if that is soon. */
		if (ping_stop && (!c->up || quiet > LINK_NS))
			return -EINTR;
		if (quiet > limit_ns)
			return -ETIMEDOUT;
		/* On a connection, a link that is down ends the wait earlier. */
		if (c->up && quiet > LINK_NS &&
		    weft_port_stats(weft_port_get(c->ctx, 0), &ps) == 0 && !ps.link_up &&
		    !ps.link_returns)
			return -ENETDOWN;
		quiet = ping_turn(&c->wait, c->w);
	}
}

/* ---- One ping ---- */

static int
client_tell(struct client *c, unsigned int which)
{
	struct ping_info info = {0, weft_mr_stag(c->mr[which]), c->opt->size_bytes};
	struct weft_sge sge = {c->out[which], PING_INFO_BYTES, 0};
	struct weft_wr wr = {.wr_id = which, .opcode = WEFT_WR_SEND, .sg_list = &sge, .num_sge = 1};
	int rc;

	ping_info_encode(&info, c->out[which]);
	c->due++;
	rc = weft_post_send(c->qp, &wr, 1);
	ping_debug(c->opt, "ping %" PRIu64 ": %s: STag 0x%08x, offset 0, %u octets", c->seq,
	           which == 0 ? "read from" : "write to", info.stag, info.size_bytes);
	return rc == 1 ? client_wait(c, is_told, c->opt->timeout_s * NS_PER_SEC) : rc;
}

/** Make one ping. 0, -EBADMSG (the answer differs), or as client_wait(). */
static int
client_ping(struct client *c, struct ping_result *res)
{
	uint32_t size = c->opt->size_bytes;
	uint64_t begin;
	int rc;

	ping_fill(c->mem[0], size, c->seq);
	if (c->opt->verify || c->opt->verbose)
		memset(c->mem[1], 0xff, size);
	c->told = c->due = 0;
	begin = ui_now_ns();
	rc = client_tell(c, 0);
	if (rc == 0)
		rc = client_tell(c, 1);
	if (rc != 0)
		return rc;
	hist_add(&res->rtt, ui_now_ns() - begin);
	if (c->opt->verify && ping_diff(c->mem[0], c->mem[1], size) != size)
		return -EBADMSG;
	if (c->opt->verbose) {
		ping_say("ping data", c->mem[1], size);
		c->wait.since_ns = 0;
		while (!ping_shown() && !ping_stop && !c->gone)
			(void)ping_turn(&c->wait, c->w);
	}
	res->pings++;
	return 0;
}

/* ---- The error message ---- */

/** Wait for the reason, which may come a poll or two after the first flushed completion. */
static void
client_hear_out(struct client *c)
{
	uint64_t until = ui_now_ns() + CLOSE_NS;

	c->wait.since_ns = 0;
	while (!c->gone && ui_now_ns() < until)
		(void)ping_turn(&c->wait, c->w);
}

static void __attribute__((format(printf, 3, 4))) add(char *why, size_t size, const char *fmt, ...)
{
	size_t n = strlen(why);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why + n, size - n, fmt, ap);
	va_end(ap);
}

static void
client_why_not_up(const struct client *c, int rc, char *why, size_t size)
{
	static const struct connect_ask ask = {.server = "weft-ping -s or rping -s",
	                                       .there = "the address and -p",
	                                       .here = "--dev and --address, or --config"};
	int err = c->gone ? -c->status : -rc;
	struct weft_port *port = weft_port_get(c->ctx, 0);
	const char *no_link = err == ETIMEDOUT && port != NULL ? connect_no_link(port) : NULL;
	char text[256];

	if (rc == -EINTR)
		add(why, size, "interrupted");
	else if (c->rejected)
		add(why, size, "the server refuses%s%s", c->said[0] != '\0' ? ": " : "", c->said);
	else if (no_link != NULL)
		add(why, size, "%s", no_link);
	else if (err == ETIMEDOUT)
		add(why, size,
		    "no answer within %u s; is the address right, and does a server run there?",
		    CONNECT_US / 1000000);
	else if (err == ECONNREFUSED)
		add(why, size,
		    "no server listens there; start rping -s or weft-ping -s, or check -p");
	else if (c->terminated)
		add(why, size, "%s ended the start-up: %s", c->term.ours ? "we" : "the server",
		    weft_terminate_str(&c->term, text, sizeof(text)));
	else
		add(why, size, "cannot connect: %s",
		    connect_why(&ask, NULL, err != 0 ? -err : -ECONNRESET, text, sizeof(text)));
}

/**
 * Whether the server closed in order and left before its last acknowledgment arrived; with
 * net_memif the link goes down with it. This side has not closed, so a QP that is closing was
 * closed by the server.
 */
static bool
client_left(struct client *c)
{
	struct weft_qp_info info;

	weft_qp_query(c->qp, &info);
	return info.state == WEFT_QP_CLOSING;
}

static void
client_why(struct client *c, int rc, char *why, size_t size)
{
	uint32_t n = c->opt->size_bytes, at;
	char text[160];
	bool size_hint;

	if (!c->up) {
		client_why_not_up(c, rc, why, size);
		return;
	}
	add(why, size, "ping %" PRIu64 ": ", c->seq);
	if (rc == -EINTR) {
		add(why, size, "interrupted");
		return;
	}
	if (rc == -EBADMSG) {
		at = ping_diff(c->mem[0], c->mem[1], n);
		add(why, size,
		    "the answer differs from what was sent, first at octet %u of %u: 0x%02x "
		    "instead of "
		    "0x%02x",
		    at, n, c->mem[1][at], c->mem[0][at]);
		return;
	}
	if (c->odd_bytes >= 0) {
		add(why, size, "a message of %d octets instead of %u; is that an rping server?",
		    c->odd_bytes, PING_INFO_BYTES);
		return;
	}
	if (c->early) {
		add(why, size, "a message that is not due; is that an rping server?");
		return;
	}
	if (rc == -EPIPE)
		client_hear_out(c);
	if (rc == -ENETDOWN)
		c->gone = client_left(c);
	/* Before the go-ahead the server can have failed only at its Read. */
	size_hint = c->told == 0 && c->due == 1 && !(c->terminated && c->term.ours);
	if (c->terminated)
		add(why, size, "%s ended the connection: %s", c->term.ours ? "we" : "the server",
		    weft_terminate_str(&c->term, text, sizeof(text)));
	else if (c->status == -ENODEV)
		add(why, size, "the port's device was removed");
	else if (c->gone)
		add(why, size, "the server closed the connection%s%s", c->status != 0 ? ": " : "",
		    c->status != 0 ? strerror(-c->status) : "");
	else if (rc == -EPIPE)
		add(why, size, "the connection failed: %s", weft_wc_status_str(c->wc));
	else if (rc == -ETIMEDOUT)
		add(why, size, "no answer within %u s", c->opt->timeout_s);
	else if (rc == -ENETDOWN)
		add(why, size, "the link is down");
	else
		add(why, size, "cannot be sent: %s", strerror(-rc));
	if (size_hint && (c->terminated || c->gone))
		add(why, size, "; it has not read our %u octets: is its -S smaller, or its ORD 0?",
		    n);
}

/* ---- Set-up and teardown ---- */

static int
client_buffer(struct client *c, unsigned int which, uint32_t access)
{
	struct weft_mr_attr ma = {
	        .size = sizeof(ma), .len_bytes = c->opt->size_bytes, .access = access};

	c->mem[which] = malloc(c->opt->size_bytes);
	ma.addr = c->mem[which];
	return ma.addr == NULL ? -ENOMEM : weft_mr_reg(c->pd, &ma, &c->mr[which]);
}

static int
client_setup(struct client *c, struct weft_ctx *ctx)
{
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = client_event, .user = c};
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 64, .on_wc = client_wc, .user = c};
	struct weft_qp_attr qa = {.size = sizeof(qa),
	                          .worker = c->w,
	                          .sq_depth = 8,
	                          .rq_depth = SENDS_A_PING,
	                          .ird = 1,
	                          .ord = 1,
	                          .max_sge = 1,
	                          .user = c};
	int rc = weft_evq_create(ctx, &ea, &c->evq);

	if (rc == 0)
		rc = weft_cq_create(ctx, &ca, &c->cq);
	if (rc == 0)
		rc = weft_pd_alloc(ctx, &c->pd);
	/* Each buffer has only the right that the server needs (RFC 5042 s6.2.1). */
	if (rc == 0)
		rc = client_buffer(c, 0, WEFT_ACCESS_REMOTE_READ);
	if (rc == 0)
		rc = client_buffer(c, 1, WEFT_ACCESS_REMOTE_WRITE);
	qa.send_cq = qa.recv_cq = c->cq;
	qa.evq = c->evq;
	if (rc == 0)
		rc = weft_qp_create(c->pd, &qa, &c->qp);
	for (unsigned int i = 0; i < SENDS_A_PING && rc == 0; i++)
		if (client_post_recv(c, i) != 1)
			rc = -ENOMEM;
	return rc;
}

static void
client_teardown(struct client *c)
{
	if (c->qp != NULL) {
		if (c->up && !c->gone && weft_disconnect(c->qp) == 0)
			client_hear_out(c);
		weft_qp_destroy(c->qp);
	}
	for (unsigned int i = 0; i < 2; i++)
		if (c->mr[i] != NULL)
			weft_mr_dereg(c->mr[i], free, c->mem[i]);
		else
			free(c->mem[i]);
	stack_release(c->w, c->cq, c->evq, c->pd);
}

static int
client_connect(struct client *c)
{
	struct weft_conn_attr ca = {.size = sizeof(ca),
	                            .timeout_us = CONNECT_US,
	                            .mpa_rev = c->opt->mpa_rev,
	                            .local = c->opt->from};
	struct weft_qp_info info;
	int rc = weft_connect(c->qp, (const struct sockaddr *)&c->opt->addr,
	                      addr_len(&c->opt->addr), &ca);

	/* weft ends the attempt itself; the clock here only guards against a fault of that. */
	if (rc == 0)
		rc = client_wait(c, is_up, CONNECT_US * 1000ull + CLOSE_NS);
	if (rc == 0) {
		weft_qp_query(c->qp, &info);
		ping_debug(c->opt, "connected: IRD %u, ORD %u, MULPDU %u octets", info.ird,
		           info.ord, info.mulpdu_bytes);
	}
	return rc;
}

/** Poll for the pause before the first ping. Linux's siw does not read an FPDU that comes with
 * the end of start-up until the next one comes. */
static void
client_settle(struct client *c)
{
	uint64_t until = ui_now_ns() + c->opt->settle_ms * 1000000ull;

	while (!c->gone && !ping_stop && ui_now_ns() < until)
		if (weft_worker_poll(c->w) == 0)
			weft_worker_idle(c->w, 1000);
}

int
ping_client_run(struct weft_ctx *ctx, struct weft_worker *w, const struct ping_opt *opt,
                struct ping_result *res, char *why, size_t why_bytes)
{
	struct client c = {.opt = opt, .ctx = ctx, .w = w, .odd_bytes = -1};
	uint64_t begin;
	int rc = client_setup(&c, ctx);

	why[0] = '\0';
	if (rc != 0) {
		add(why, why_bytes, "cannot start: %s", strerror(-rc));
		client_teardown(&c);
		return rc;
	}
	rc = client_connect(&c);
	if (rc == 0)
		client_settle(&c);
	begin = ui_now_ns();
	for (; rc == 0 && !ping_stop && (opt->count == 0 || c.seq < opt->count); c.seq++) {
		rc = client_ping(&c, res);
		if (rc != 0)
			break;
	}
	if (rc == 0 && res->pings == 0)
		rc = -EINTR; /* before the first */
	res->seconds = (double)(ui_now_ns() - begin) / 1e9;
	if (rc != 0)
		client_why(&c, rc, why, why_bytes);
	client_teardown(&c);
	return rc;
}
