/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Noun: connection. Listen, connect, disconnect, wait. */

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "connect_why.h"
#include "console.h"
#include "inject.h"
#include "rpc_side.h"
#include "script.h"
#include "traffic.h"
#include "ui.h"
#include "addr.h"

WORD(tok_listen, verb, "listen");
WORD(tok_connect, verb, "connect");
WORD(tok_disconnect, verb, "disconnect");
WORD(tok_wait, verb, "wait");

static bool
qp_decided(void *arg)
{
	struct console_qp *q = arg;

	return q->up || q->closed;
}

static bool
qp_closed(void *arg)
{
	return ((struct console_qp *)arg)->closed;
}

static bool
never(void *arg)
{
	(void)arg;
	return false;
}

/** srq: of the QPs that it accepts, or NULL. */
static void
listen_on(struct cmdline *cl, const struct cmd_args *a, struct console_srq *srq)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons((uint16_t)a->a)};
	struct weft_listen_attr la = {
	        .size = sizeof(la), .evq = con.evq, .keepalive_us = 5000000, .user = srq};
	int rc;

	if (a->a < 1 || a->a > 65535 ||
	    con.nlisteners == sizeof(con.listeners) / sizeof(con.listeners[0])) {
		console_wrong(
		        cl,
		        "listen: the port must be from 1 to 65535, and 16 listeners are the most");
		return;
	}
	rc = weft_listen(con.stack.ctx, (struct sockaddr *)&sin, sizeof(sin), &la,
	                 &con.listeners[con.nlisteners]);
	if (rc != 0) {
		console_fail(cl, "listen: port %" PRIu64 ": %s", a->a, strerror(-rc));
		return;
	}
	con.nlisteners++;
	if (srq != NULL)
		srq->listeners++;
	cmdline_printf(cl, "listening on port %" PRIu64 "\n", a->a);
}

static void
cmd_listen(void *arg, struct cmdline *cl, void *data)
{
	(void)data;
	listen_on(cl, arg, NULL);
}

static void
cmd_listen_srq(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;
	struct console_srq *srq = console_srq(cl, a->b);

	(void)data;
	if (srq != NULL)
		listen_on(cl, a, srq);
}

const char *
console_connect_why(int err, char buf[CONSOLE_WHY_MAX])
{
	static const struct connect_ask ask = {.server = "the program of the other end",
	                                       .there = "the address and the port",
	                                       .here = "dev and address"};

	return connect_why(&ask, con.stack.nports == 1 ? con.stack.ports[0] : NULL, err, buf,
	                   CONSOLE_WHY_MAX);
}

static void
connect_to(struct cmdline *cl, const struct cmd_args *a, struct console_srq *srq)
{
	struct sockaddr_storage to;
	struct weft_conn_attr ca = {
	        .size = sizeof(ca), .timeout_us = 5000000, .keepalive_us = 5000000};
	char why[CONSOLE_WHY_MAX];
	struct console_qp *q;
	int rc;

	if (addr_parse(a->s1, (uint16_t)a->a, &to) != 0 || a->a < 1 || a->a > 65535) {
		console_wrong(cl,
		              "connect: %s %" PRIu64 " is not an IPv4 or IPv6 address and a port",
		              a->s1, a->a);
		return;
	}
	q = console_qp_make(con.stack.workers[con.worker], srq, &rc);
	if (q != NULL)
		rc = weft_connect(q->qp, (struct sockaddr *)&to, addr_len(&to), &ca);
	if (rc < 0) {
		if (q != NULL)
			console_qp_drop(cl, q);
		console_fail(cl, "connect: %s", console_connect_why(rc, why));
		return;
	}
	/* A connection that failed is dropped, because there are only 64 numbers. */
	if (!console_wait(cl, 6000, qp_decided, q) || !q->up) {
		rc = q->closed ? q->status : -ETIMEDOUT;
		console_qp_drop(cl, q);
		console_fail(cl, "connect: %s port %" PRIu64 ": no connection%s%s", a->s1, a->a,
		             rc != 0 ? ": " : "", rc != 0 ? console_connect_why(rc, why) : "");
		return;
	}
	vars_result("qp", "%u", (unsigned int)(q - con.qps));
}

static void
cmd_connect(void *arg, struct cmdline *cl, void *data)
{
	(void)data;
	connect_to(cl, arg, NULL);
}

static void
cmd_connect_srq(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;
	struct console_srq *srq = console_srq(cl, a->b);

	(void)data;
	if (srq != NULL)
		connect_to(cl, a, srq);
}

static void
cmd_disconnect(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;
	struct console_qp *q = console_qp(cl, a->a);

	(void)data;
	if (q == NULL)
		return;
	if (q->up && weft_disconnect(q->qp) == 0)
		console_wait(cl, 5000, qp_closed, q);
	console_qp_drop(cl, q);
}

static void
abort_on_worker(void *arg)
{
	weft_abort(arg);
}

static void
cmd_abort(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;
	struct console_qp *q = console_qp(cl, a->a);
	int rc;

	(void)data;
	if (q == NULL)
		return;
	if (q->up) {
		rc = weft_worker_call(weft_qp_worker(q->qp), abort_on_worker, q->qp);
		if (rc != 0) {
			console_fail(cl, "abort: %s", strerror(-rc));
			return;
		}
		console_wait(cl, 5000, qp_closed, q);
	}
	console_qp_drop(cl, q);
}

static void
cmd_wait(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;

	(void)data;
	if (!console_wait(cl, (uint32_t)(a->a > 3600000 ? 3600000 : a->a), console_idle, NULL))
		console_fail(cl, "wait: work requests are still outstanding after %" PRIu64 " ms",
		             a->a);
}

static void
cmd_sleep(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;

	(void)data;
	console_wait(cl, (uint32_t)(a->a > 3600000 ? 3600000 : a->a), never, NULL);
}

void
console_shutdown(void)
{
	console_logs_end();
	for (uint32_t i = 0; i < con.stack.nports; i++)
		for (int way = 0; way < INJECT_WAYS; way++)
			inject_stop(i, (enum inject_way)way);
	for (unsigned int n = 1; n <= CONSOLE_MAX_QPS; n++)
		if (con.qps[n].used) {
			traffic_drop(&con.qps[n]);
			weft_qp_destroy(con.qps[n].qp);
		}
	for (unsigned int n = 1; n <= CONSOLE_MAX_WINDOWS; n++)
		if (con.windows[n].used)
			weft_mw_dealloc(con.windows[n].mw);
	for (unsigned int n = 1; n <= CONSOLE_MAX_SRQS; n++)
		if (con.srqs[n].used)
			weft_srq_destroy(con.srqs[n].srq);
	for (unsigned int i = 0; i < con.nlisteners; i++)
		weft_unlisten(con.listeners[i]);
	for (unsigned int n = 1; n <= CONSOLE_MAX_REGIONS; n++)
		if (con.regions[n].used)
			weft_mr_dereg(con.regions[n].mr, NULL, NULL);
	stack_stop(&con.stack);
	for (unsigned int n = 1; n <= CONSOLE_MAX_QPS; n++)
		if (con.qps[n].used)
			free(con.qps[n].recv);
	for (unsigned int n = 1; n <= CONSOLE_MAX_SRQS; n++)
		if (con.srqs[n].used) {
			free(con.srqs[n].mem);
			free(con.srqs[n].posted);
		}
	rpc_side_end();
	stack_down(&con.stack);
	for (unsigned int n = 1; n <= CONSOLE_MAX_REGIONS; n++)
		if (con.regions[n].used)
			weft_persist_close(con.regions[n].persist);
}

WORD(tok_sleep, verb, "sleep");
WORD(tok_abort, verb, "abort");
WORD(tok_with_srq, noun, "srq");
static CMD(cmd_listen_, cmd_listen, "listen PORT: accept every connection to it",
           (void *)&tok_listen, (void *)&tok_a);
static CMD(cmd_listen_srq_, cmd_listen_srq,
           "listen PORT srq SRQ: the QPs that it accepts take their receives from the SRQ",
           (void *)&tok_listen, (void *)&tok_a, (void *)&tok_with_srq, (void *)&tok_srq_b);
static CMD(cmd_connect_, cmd_connect, "connect ADDRESS PORT: a new QP, connected",
           (void *)&tok_connect, (void *)&tok_s1, (void *)&tok_a);
static CMD(cmd_connect_srq_, cmd_connect_srq,
           "connect ADDRESS PORT srq SRQ: the QP takes its receives from the SRQ",
           (void *)&tok_connect, (void *)&tok_s1, (void *)&tok_a, (void *)&tok_with_srq,
           (void *)&tok_srq_b);
static CMD(cmd_disconnect_, cmd_disconnect, "disconnect QP: close it in order and free it",
           (void *)&tok_disconnect, (void *)&tok_qp);
static CMD(cmd_abort_, cmd_abort, "abort QP: reset the connection, and free the QP",
           (void *)&tok_abort, (void *)&tok_qp);
static CMD(cmd_wait_, cmd_wait, "wait MS: until all that was posted has completed, at most so long",
           (void *)&tok_wait, (void *)&tok_a);
static CMD(cmd_sleep_, cmd_sleep, "sleep MS: show events and completions for so long",
           (void *)&tok_sleep, (void *)&tok_a);

cmdline_parse_inst_t *const cmds_conn[] = {&cmd_listen_,      &cmd_listen_srq_, &cmd_connect_,
                                           &cmd_connect_srq_, &cmd_disconnect_, &cmd_abort_,
                                           &cmd_wait_,        &cmd_sleep_,      NULL};
