/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Noun: traffic. Start, stop and show messages that a QP's worker sends or takes. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console.h"
#include "options.h"
#include "script.h"
#include "show_print.h"
#include "traffic.h"
#include "ui.h"

#define RATE_MAX 1000000000ull

/** As struct cmd_args, with the rest of the line. */
struct traffic_args {
	struct cmd_args c;
	cmdline_multi_string_t rest;
};

WORD(tok_start, verb, "start");
WORD(tok_stop, verb, "stop");
WORD(tok_show, verb, "show");
WORD(tok_write, noun, "write");
WORD(tok_read, noun, "read");
WORD(tok_send, noun, "send");
WORD(tok_ping, noun, "ping");
WORD(tok_sink, noun, "sink");
WORD(tok_echo, noun, "echo");
WORD(tok_traffic, noun, "traffic");
WORD(tok_json, s1, "json");
static cmdline_parse_token_string_t traffic_rest =
        TOKEN_STRING_INITIALIZER(struct traffic_args, rest, TOKEN_STRING_MULTI);

/* Beside the function, cmdline passes data. */
static char kinds[] = {TRAFFIC_WRITE, TRAFFIC_READ, TRAFFIC_SEND,
                       TRAFFIC_PING,  TRAFFIC_SINK, TRAFFIC_ECHO};

static void
begin(struct cmdline *cl, struct console_qp *q, const struct traffic_want *want)
{
	int rc;

	if (!q->up) {
		console_fail(cl, "start: qp %u is not connected", (unsigned int)(q - con.qps));
		return;
	}
	rc = traffic_start(q, want);
	if (rc < 0) {
		console_fail(
		        cl, "start: %s",
		        rc == -EBUSY
		                ? "other traffic takes the receives of this qp; 'stop' it first"
		        : rc == -EOPNOTSUPP
		                ? "this qp takes its receives from an srq; ping, sink and echo "
		                  "need a qp with its own"
		        : rc == -ENOSPC
		                ? "16 traffics are there; 'stop' ends them and frees their numbers"
		                : strerror(-rc));
		return;
	}
	vars_result("traffic", "%d", rc);
	cmdline_printf(cl, "traffic %d: %s on qp %u\n", rc, traffic_kind_str(want->kind),
	               (unsigned int)(q - con.qps));
}

/** start write|read QP REGION STAG [options] */
static void
start_rdma(struct cmdline *cl, const struct cmd_args *a, const char *rest, enum traffic_kind kind)
{
	uint64_t size = 64, depth = TRAFFIC_DEPTH_MAX, span = 0;
	struct traffic_want want = {.kind = kind, .stag = (uint32_t)a->b};
	const struct option_word options[] = {
	        {"size", OPTION_BYTES, 1, TRAFFIC_RDMA_MAX, {.number = &size}},
	        {"depth", OPTION_NUMBER, 1, TRAFFIC_DEPTH_MAX, {.number = &depth}},
	        {"count", OPTION_NUMBER, 1, UINT64_MAX, {.number = &want.count}},
	        {"rate", OPTION_NUMBER, 1, RATE_MAX, {.number = &want.rate}},
	        {"offset", OPTION_BYTES, 0, UINT64_MAX, {.number = &want.to}},
	        {"span", OPTION_BYTES, 1, UINT64_MAX, {.number = &span}},
	};
	const char *why = options_take(rest, options, sizeof(options) / sizeof(options[0]));
	char words[32];
	struct console_qp *q = console_qp(cl, a->a);
	struct console_region *r = q != NULL ? console_region(cl, strtoull(a->s1, NULL, 0)) : NULL;

	if (r == NULL)
		return;
	if (why != NULL) {
		snprintf(words, sizeof(words), "start %s", traffic_kind_str(kind));
		console_misuse(cl, words, why);
		return;
	}
	if (span == 0)
		span = r->bytes;
	if (span > r->bytes || size > span) {
		console_wrong(cl,
		              "start: size %" PRIu64 ", span %" PRIu64 ": region %s has %" PRIu64
		              " bytes",
		              size, span, a->s1, r->bytes);
		return;
	}
	want.size = (uint32_t)size;
	want.depth = (uint32_t)depth;
	want.span = span - span % size;
	want.mem = r->mem;
	want.lkey = weft_mr_stag(r->mr);
	begin(cl, q, &want);
}

/** start send|ping QP [options] */
static void
start_send(struct cmdline *cl, const struct cmd_args *a, const char *rest, enum traffic_kind kind)
{
	uint64_t size = 64, depth = kind == TRAFFIC_PING ? 1 : TRAFFIC_DEPTH_MAX;
	struct traffic_want want = {.kind = kind};
	const struct option_word options[] = {
	        {"size", OPTION_BYTES, 1, TRAFFIC_SEND_MAX, {.number = &size}},
	        {"depth", OPTION_NUMBER, 1, TRAFFIC_DEPTH_MAX, {.number = &depth}},
	        {"count", OPTION_NUMBER, 1, UINT64_MAX, {.number = &want.count}},
	        {"rate", OPTION_NUMBER, 1, RATE_MAX, {.number = &want.rate}},
	};
	const char *why = options_take(rest, options, sizeof(options) / sizeof(options[0]));
	char words[32];
	struct console_qp *q = console_qp(cl, a->a);

	if (q == NULL)
		return;
	if (why != NULL) {
		snprintf(words, sizeof(words), "start %s", traffic_kind_str(kind));
		console_misuse(cl, words, why);
		return;
	}
	want.size = (uint32_t)size;
	want.depth = (uint32_t)depth;
	begin(cl, q, &want);
}

static void
start(struct cmdline *cl, const struct cmd_args *a, const char *rest, enum traffic_kind kind)
{
	const struct traffic_want want = {.kind = kind};
	struct console_qp *q;

	switch (kind) {
	case TRAFFIC_WRITE:
	case TRAFFIC_READ:
		start_rdma(cl, a, rest, kind);
		return;
	case TRAFFIC_SEND:
	case TRAFFIC_PING:
		start_send(cl, a, rest, kind);
		return;
	default:
		q = console_qp(cl, a->a);
		if (q != NULL)
			begin(cl, q, &want);
	}
}

static void
cmd_start(void *arg, struct cmdline *cl, void *data)
{
	start(cl, arg, "", *(char *)data);
}

static void
cmd_start_rest(void *arg, struct cmdline *cl, void *data)
{
	const struct traffic_args *a = arg;

	start(cl, &a->c, a->rest, *(char *)data);
}

/* ---- Figures ---- */

static double
a_second(uint64_t n, uint64_t ns)
{
	return (double)n * 1e9 / (double)(ns > 0 ? ns : 1);
}

static void
print_rate(struct cmdline *cl, uint64_t messages, uint64_t octets, uint64_t ns)
{
	cmdline_printf(cl, "%.0f messages/s, %.3f Gbit/s\n", a_second(messages, ns),
	               a_second(octets, ns) * 8 / 1e9);
}

static void
print_ping(struct cmdline *cl, const struct traffic_figures *f)
{
	char least[32], mean[32], most[32];

	if (f->messages > 0)
		cmdline_printf(cl, "  round trip: least %s, mean %s, most %s\n",
		               ui_time(f->rtt_min_ns, least, sizeof(least)),
		               ui_time(f->rtt_sum_ns / f->messages, mean, sizeof(mean)),
		               ui_time(f->rtt_max_ns, most, sizeof(most)));
	if (f->bad > 0)
		cmdline_printf(cl, "  %" PRIu64 " received that are no echo of what was sent\n",
		               f->bad);
}

static const char *
state_str(const struct traffic_figures *f)
{
	static const char *const states[] = {[TRAFFIC_RUNNING] = "running",
	                                     [TRAFFIC_ENDING] = "ending",
	                                     [TRAFFIC_DONE] = "done"};

	return f->why[0] != '\0' ? "failed" : states[f->state];
}

static void
print_traffic(struct cmdline *cl, const struct traffic_figures *f)
{
	const struct traffic_want *w = &f->want;
	char shape[64] = "", time[32];

	if (w->depth > 0)
		snprintf(shape, sizeof(shape), ", size %u, depth %u", w->size, w->depth);
	cmdline_printf(cl, "traffic %u: %s, qp %u%s: %s, %s%s%s\n", f->number,
	               traffic_kind_str(w->kind), f->qp, shape, state_str(f),
	               ui_time(f->ns, time, sizeof(time)), f->why[0] != '\0' ? ": " : "", f->why);
	cmdline_printf(cl, "  %" PRIu64 " messages, %" PRIu64 " octets; ", f->messages, f->octets);
	print_rate(cl, f->messages, f->octets, f->ns);
	if (f->state == TRAFFIC_RUNNING) {
		cmdline_printf(cl, "  since the last look: ");
		print_rate(cl, f->since_messages, f->since_octets, f->since_ns);
	}
	if (w->kind == TRAFFIC_PING)
		print_ping(cl, f);
}

static void
set_integer(json_t *o, const char *key, uint64_t n)
{
	json_object_set_new(o, key, json_integer((json_int_t)n));
}

/** The same as an object of JSON; units are in the names. Rates are whole numbers. */
static json_t *
traffic_object(const struct traffic_figures *f)
{
	const struct traffic_want *w = &f->want;
	json_t *o = json_object();

	set_integer(o, "number", f->number);
	json_object_set_new(o, "kind", json_string(traffic_kind_str(w->kind)));
	set_integer(o, "qp", f->qp);
	json_object_set_new(o, "state", json_string(state_str(f)));
	if (f->why[0] != '\0')
		json_object_set_new(o, "why", json_string(f->why));
	if (w->depth > 0) {
		set_integer(o, "size_bytes", w->size);
		set_integer(o, "depth", w->depth);
	}
	set_integer(o, "time_ns", f->ns);
	set_integer(o, "messages", f->messages);
	set_integer(o, "bytes", f->octets);
	set_integer(o, "messages_per_s", (uint64_t)a_second(f->messages, f->ns));
	set_integer(o, "bytes_per_s", (uint64_t)a_second(f->octets, f->ns));
	if (f->state == TRAFFIC_RUNNING) {
		set_integer(o, "since_ns", f->since_ns);
		set_integer(o, "since_messages_per_s",
		            (uint64_t)a_second(f->since_messages, f->since_ns));
		set_integer(o, "since_bytes_per_s",
		            (uint64_t)a_second(f->since_octets, f->since_ns));
	}
	if (w->kind == TRAFFIC_PING && f->messages > 0) {
		set_integer(o, "rtt_min_ns", f->rtt_min_ns);
		set_integer(o, "rtt_mean_ns", f->rtt_sum_ns / f->messages);
		set_integer(o, "rtt_max_ns", f->rtt_max_ns);
		set_integer(o, "no_echo", f->bad);
	}
	return o;
}

/** Show the traffic with this number, or all (0); as JSON or in words. */
static void
show_traffic(struct cmdline *cl, uint64_t number, bool as_json)
{
	struct traffic_figures f;
	json_t *rows;
	bool any = false;

	if (!console_has_stack(cl))
		return;
	console_drain(cl);
	rows = json_array();
	for (unsigned int n = 1; n <= TRAFFIC_MAX; n++) {
		if ((number != 0 && number != n) || !traffic_get(n, &f))
			continue;
		if (as_json)
			json_array_append_new(rows, traffic_object(&f));
		else
			print_traffic(cl, &f);
		traffic_looked(n);
		any = true;
	}
	if (!any && number != 0)
		console_fail(cl, "there is no traffic %" PRIu64 "; 'show traffic' lists it",
		             number);
	else if (as_json)
		show_print_json(cl, rows);
	else if (!any)
		cmdline_printf(cl, "no traffic\n");
	json_decref(rows);
}

static void
cmd_show_traffic(void *arg, struct cmdline *cl, void *data)
{
	(void)arg;
	/* data: as JSON. */
	show_traffic(cl, 0, data != NULL);
}

static void
cmd_show_one_traffic(void *arg, struct cmdline *cl, void *data)
{
	const struct cmd_args *a = arg;

	if (a->a == 0)
		console_fail(cl, "there is no traffic 0; 'show traffic' lists it");
	else
		show_traffic(cl, a->a, data != NULL);
}

/** Print a summary and free the number; traffic that ended early is a failure. */
static void
stop(struct cmdline *cl, unsigned int n)
{
	struct traffic_figures f;
	char text[160];

	traffic_stop(n);
	console_drain(cl);
	traffic_get(n, &f);
	print_traffic(cl, &f);
	if (f.state != TRAFFIC_DONE) {
		console_fail(cl, "stop: traffic %u does not end: %s", n,
		             "the peer does not answer; 'disconnect' its qp");
		return;
	}
	if (f.why[0] != '\0')
		console_fail(cl, "%s: %s", traffic_str(&f, text, sizeof(text)), f.why);
	traffic_free(n);
}

static void
cmd_stop(void *arg, struct cmdline *cl, void *data)
{
	const struct cmd_args *a = arg;
	struct traffic_figures f;
	bool any = false;

	/* What takes messages ends last: else those under way would be shown one by one. */
	for (unsigned int i = 0; i < 2 * TRAFFIC_MAX; i++) {
		const unsigned int n = i % TRAFFIC_MAX + 1;

		if ((data != NULL && a->a != n) || !traffic_get(n, &f) ||
		    (f.want.kind >= TRAFFIC_SINK) != (i >= TRAFFIC_MAX))
			continue;
		stop(cl, n);
		any = true;
	}
	if (!any && data != NULL)
		console_fail(cl, "there is no traffic %" PRIu64 "; 'show traffic' lists it", a->a);
	else if (!any)
		console_wrong(cl, "stop: there is no traffic");
}

/* ---- The numbers that Tab completes ---- */

static int
numbers_nb(cmdline_parse_token_hdr_t *tk)
{
	struct traffic_figures f;
	int n = 0;

	(void)tk;
	for (unsigned int i = 1; i <= TRAFFIC_MAX; i++)
		n += traffic_get(i, &f);
	return n;
}

static int
numbers_elt(cmdline_parse_token_hdr_t *tk, int at, char *buf, unsigned int size)
{
	struct traffic_figures f;

	(void)tk;
	for (unsigned int i = 1; i <= TRAFFIC_MAX; i++)
		if (traffic_get(i, &f) && at-- == 0)
			return snprintf(buf, size, "%u", i) < (int)size ? 0 : -1;
	return -1;
}

static struct cmdline_token_ops number_ops = {cmdline_parse_num, numbers_nb, numbers_elt,
                                              cmdline_get_help_num};
static cmdline_parse_token_num_t tok_number = {{&number_ops, offsetof(struct cmd_args, a)},
                                               {RTE_UINT64}};

#define START(id, fn_, kind_, help_, ...)                                                          \
	static cmdline_parse_inst_t id = {.f = fn_,                                                \
	                                  .data = &kinds[kind_],                                   \
	                                  .help_str = help_,                                       \
	                                  .tokens = {(void *)&tok_start, __VA_ARGS__, NULL}}

START(cmd_write, cmd_start, TRAFFIC_WRITE,
      "start write QP REGION STAG: RDMA Writes of 64 octets until 'stop'", (void *)&tok_write,
      (void *)&tok_qp, (void *)&tok_region_s1, (void *)&tok_b);
START(cmd_write_rest, cmd_start_rest, TRAFFIC_WRITE,
      "start write QP REGION STAG OPTIONS: size, depth, count, rate, offset, span",
      (void *)&tok_write, (void *)&tok_qp, (void *)&tok_region_s1, (void *)&tok_b,
      (void *)&traffic_rest);
START(cmd_read, cmd_start, TRAFFIC_READ,
      "start read QP REGION STAG: RDMA Reads of 64 octets until 'stop'", (void *)&tok_read,
      (void *)&tok_qp, (void *)&tok_region_s1, (void *)&tok_b);
START(cmd_read_rest, cmd_start_rest, TRAFFIC_READ,
      "start read QP REGION STAG OPTIONS: size, depth, count, rate, offset, span",
      (void *)&tok_read, (void *)&tok_qp, (void *)&tok_region_s1, (void *)&tok_b,
      (void *)&traffic_rest);
START(cmd_send, cmd_start, TRAFFIC_SEND,
      "start send QP: Sends of 64 octets until 'stop', to a sink of the peer", (void *)&tok_send,
      (void *)&tok_qp);
START(cmd_send_rest, cmd_start_rest, TRAFFIC_SEND,
      "start send QP OPTIONS: size, depth, count, rate", (void *)&tok_send, (void *)&tok_qp,
      (void *)&traffic_rest);
START(cmd_ping, cmd_start, TRAFFIC_PING,
      "start ping QP: Sends of 64 octets, one at a time, to an echo of the peer", (void *)&tok_ping,
      (void *)&tok_qp);
START(cmd_ping_rest, cmd_start_rest, TRAFFIC_PING,
      "start ping QP OPTIONS: size, depth, count, rate", (void *)&tok_ping, (void *)&tok_qp,
      (void *)&traffic_rest);
START(cmd_sink, cmd_start, TRAFFIC_SINK,
      "start sink QP: take what arrives, and post the receives again", (void *)&tok_sink,
      (void *)&tok_qp);
START(cmd_echo, cmd_start, TRAFFIC_ECHO, "start echo QP: send each message back", (void *)&tok_echo,
      (void *)&tok_qp);
static CMD(cmd_stop_all, cmd_stop, "stop: end all traffic, and show what each has done",
           (void *)&tok_stop);
static cmdline_parse_inst_t cmd_stop_one = {
        .f = cmd_stop,
        .data = kinds,
        .help_str = "stop NUMBER: end one",
        .tokens = {(void *)&tok_stop, (void *)&tok_number, NULL}};
static CMD(cmd_show_all, cmd_show_traffic,
           "show traffic: states, messages, octets, rates, round trips", (void *)&tok_show,
           (void *)&tok_traffic);
static cmdline_parse_inst_t cmd_show_json = {
        .f = cmd_show_traffic,
        .data = kinds,
        .help_str = "show traffic json: the same as JSON",
        .tokens = {(void *)&tok_show, (void *)&tok_traffic, (void *)&tok_json, NULL}};
static CMD(cmd_show_one, cmd_show_one_traffic, "show traffic NUMBER: of one", (void *)&tok_show,
           (void *)&tok_traffic, (void *)&tok_number);
static cmdline_parse_inst_t cmd_show_one_json = {
        .f = cmd_show_one_traffic,
        .data = kinds,
        .help_str = "show traffic NUMBER json: of one, as JSON",
        .tokens = {(void *)&tok_show, (void *)&tok_traffic, (void *)&tok_number, (void *)&tok_json,
                   NULL}};

cmdline_parse_inst_t *const cmds_traffic[] = {
        &cmd_write, &cmd_write_rest, &cmd_read, &cmd_read_rest, &cmd_send,     &cmd_send_rest,
        &cmd_ping,  &cmd_ping_rest,  &cmd_sink, &cmd_echo,      &cmd_stop_all, &cmd_stop_one,
        NULL};
/* Those that an attached console takes, too. */
cmdline_parse_inst_t *const cmds_own_show[] = {&cmd_show_all, &cmd_show_json, &cmd_show_one,
                                               &cmd_show_one_json, NULL};
