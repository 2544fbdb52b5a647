/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Noun: RPC. Connect, call, show, disconnect; serve a program that returns its argument. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "addr.h"
#include "console.h"
#include "rpc_side.h"
#include "script.h"
#include "show_print.h"
#include "worker_side.h"

WORD(tok_rpc, verb, "rpc");
WORD(tok_show, verb, "show");
WORD(tok_rpcs, noun, "rpcs");
WORD(tok_json, s1, "json");
WORD(tok_serve, noun, "serve");
WORD(tok_connect, noun, "connect");
WORD(tok_null, noun, "null");
WORD(tok_call, noun, "call");
WORD(tok_disconnect, noun, "disconnect");

#define RPC_WAIT_MS 6000u

/** Arguments of a call: words, numbers, then the rest of the line. */
struct call_args {
	struct cmd_args c;
	cmdline_multi_string_t rest;
};

/** An operation on the worker, and its result. */
struct op {
	unsigned int n;
	struct sockaddr_storage to;
	struct rpc_side_call call;
	struct rpc_side_info info;
	int rc;
};

static cmdline_parse_token_string_t tok_call_rest =
        TOKEN_STRING_INITIALIZER(struct call_args, rest, TOKEN_STRING_MULTI);

static struct weft_worker *
worker_of(unsigned int n)
{
	return con.stack.workers[con.rpc_worker[n]];
}

/** Run an operation. False after a message. */
static bool
run(struct cmdline *cl, struct op *op, void (*fn)(void *arg))
{
	int rc = worker_side_call(worker_of(op->n), fn, op);
	char why[CONSOLE_WHY_MAX];

	if (rc == 0)
		rc = op->rc;
	if (rc != 0)
		console_fail(cl, "rpc: %s", console_connect_why(rc, why));
	return rc == 0;
}

static bool
client_ok(struct cmdline *cl, uint64_t n)
{
	if (n >= 1 && n <= CONSOLE_MAX_RPCS && con.rpcs[n])
		return true;
	console_fail(cl, "there is no rpc client %" PRIu64 "; 'show rpcs' lists them", n);
	return false;
}

static void
disconnect_on_worker(void *arg)
{
	struct op *op = arg;

	rpc_side_disconnect(op->n);
	op->rc = 0;
}

static void
connect_on_worker(void *arg)
{
	struct op *op = arg;

	op->rc = rpc_side_connect(op->n, &op->to);
}

static bool
decided(void *arg)
{
	const struct op *op = arg;

	return rpc_side_outcome(op->n) != RPC_SIDE_WAITS;
}

static void
cmd_connect(void *arg, struct cmdline *cl, void *data)
{
	const struct cmd_args *a = arg;
	struct op op = {.n = 1};
	char why[CONSOLE_WHY_MAX];
	int rc;

	(void)data;
	while (op.n <= CONSOLE_MAX_RPCS && con.rpcs[op.n])
		op.n++;
	if (op.n > CONSOLE_MAX_RPCS) {
		console_fail(cl, "rpc: %d clients are the most", CONSOLE_MAX_RPCS);
		return;
	}
	if (a->a < 1 || a->a > 65535 || addr_parse(a->s1, (uint16_t)a->a, &op.to) != 0) {
		console_wrong(cl, "rpc: %s %" PRIu64 " is not an IPv4 or IPv6 address and a port",
		              a->s1, a->a);
		return;
	}
	con.rpc_worker[op.n] = con.worker;
	if (!run(cl, &op, connect_on_worker))
		return;
	rc = console_wait(cl, RPC_WAIT_MS, decided, &op) ? rpc_side_outcome(op.n) : -ETIMEDOUT;
	if (rc != 0) {
		run(cl, &op, disconnect_on_worker);
		console_drain(cl);
		console_fail(cl, "rpc: %s port %" PRIu64 ": no connection: %s", a->s1, a->a,
		             console_connect_why(rc, why));
		return;
	}
	con.rpcs[op.n] = true;
	vars_result("rpc", "%u", op.n);
}

static void
call_on_worker(void *arg)
{
	struct op *op = arg;

	op->rc = rpc_side_call(op->n, &op->call);
}

/** Try to call. False: too many calls are under way. */
static bool
call_taken(void *arg)
{
	struct op *op = arg;
	const int rc = worker_side_call(worker_of(op->n), call_on_worker, op);

	if (rc != 0)
		op->rc = rc;
	return op->rc != -EAGAIN;
}

static void
call(struct cmdline *cl, struct op *op, const struct cmd_args *a, uint64_t proc)
{
	if (!client_ok(cl, a->a))
		return;
	op->n = (unsigned int)a->a;
	op->call.prog = (uint32_t)a->b;
	op->call.vers = (uint32_t)a->c;
	op->call.proc = (uint32_t)proc;
	/* While as many as there may be are under way, until there is room. */
	console_wait(cl, RPC_WAIT_MS, call_taken, op);
	if (op->rc == 0)
		con.pending++;
	else
		console_fail(cl, "rpc: %s",
		             op->rc == -EAGAIN
		                     ? "as many calls as may be are under way; 'wait' for "
		                       "their replies"
		                     : strerror(-op->rc));
}

static void
cmd_null(void *arg, struct cmdline *cl, void *data)
{
	struct op op = {0};

	(void)data;
	call(cl, &op, arg, 0);
}

static void
cmd_call(void *arg, struct cmdline *cl, void *data)
{
	const struct cmd_args *a = arg;
	struct op op = {0};

	(void)data;
	call(cl, &op, a, a->d);
}

/** The words of "0x" and hexadecimal digits, eight for each word. How many; 0: it is no such. */
static unsigned int
take_words(const char *text, uint32_t words[RPC_SIDE_WORDS])
{
	const size_t n = strlen(text) - 2;
	unsigned int i = 0;

	if (n == 0 || n % 8 != 0 || n / 8 > RPC_SIDE_WORDS ||
	    strspn(text + 2, "0123456789abcdefABCDEF") != n)
		return 0;
	for (; i < n / 8; i++)
		sscanf(text + 2 + (size_t)8 * i, "%8x", &words[i]);
	return i;
}

static void
cmd_call_with(void *arg, struct cmdline *cl, void *data)
{
	static uint32_t words[RPC_SIDE_WORDS];
	struct call_args *a = arg;
	struct op op = {.call = {.text = a->rest, .words = words}};
	size_t n = strlen(a->rest);

	(void)data;
	while (n > 0 && strchr(" \t\r", a->rest[n - 1]) != NULL)
		a->rest[--n] = '\0';
	if (strncmp(a->rest, "0x", 2) == 0) {
		op.call.text = NULL;
		op.call.nwords = take_words(a->rest, words);
		if (op.call.nwords == 0) {
			console_wrong(cl, "rpc: XDR in hexadecimal has eight digits for each word");
			return;
		}
	}
	call(cl, &op, &a->c, a->c.d);
}

static void
cmd_disconnect(void *arg, struct cmdline *cl, void *data)
{
	const struct cmd_args *a = arg;
	struct op op = {0};

	(void)data;
	if (!client_ok(cl, a->a))
		return;
	op.n = (unsigned int)a->a;
	if (run(cl, &op, disconnect_on_worker))
		con.rpcs[op.n] = false;
	console_drain(cl);
}

static void
cmd_serve(void *arg, struct cmdline *cl, void *data)
{
	const struct cmd_args *a = arg;
	int rc = -EINVAL;

	(void)data;
	if (a->a >= 1 && a->a <= 65535 &&
	    con.nlisteners < sizeof(con.listeners) / sizeof(con.listeners[0]))
		rc = rpc_side_serve((uint16_t)a->a);
	if (rc != 0)
		console_fail(cl, "rpc: port %" PRIu64 ": %s", a->a,
		             rc == -EINVAL ? "it must be from 1 to 65535, and 16 listeners are the "
		                             "most"
		                           : strerror(-rc));
	else
		cmdline_printf(cl, "serving program 0x%x version %u on port %" PRIu64 "\n",
		               RPC_SIDE_PROG, RPC_SIDE_VERS, a->a);
}

static void
look_on_worker(void *arg)
{
	struct op *op = arg;

	rpc_side_query(op->n, &op->info);
	op->rc = 0;
}

static void
print_rpc(struct cmdline *cl, unsigned int n, const struct rpc_side_info *in)
{
	char worker[32] = "";

	if (con.stack.nworkers > 1)
		snprintf(worker, sizeof(worker), ", worker %u", con.rpc_worker[n]);
	cmdline_printf(cl,
	               "rpc %u: %s, version %u, calls %" PRIu64 ", replies %" PRIu64
	               ", errors %" PRIu64 ", waits for credit %" PRIu64 "%s\n",
	               n, in->down ? "down" : "connected", in->version, in->calls, in->replies,
	               in->errors, in->credit_stalls, worker);
}

static json_t *
rpc_object(unsigned int n, const struct rpc_side_info *in)
{
	json_t *o = json_object();

	json_object_set_new(o, "number", json_integer(n));
	json_object_set_new(o, "worker", json_integer(con.rpc_worker[n]));
	json_object_set_new(o, "state", json_string(in->down ? "down" : "connected"));
	json_object_set_new(o, "version", json_integer(in->version));
	json_object_set_new(o, "calls", json_integer((json_int_t)in->calls));
	json_object_set_new(o, "replies", json_integer((json_int_t)in->replies));
	json_object_set_new(o, "errors", json_integer((json_int_t)in->errors));
	json_object_set_new(o, "credit_stalls", json_integer((json_int_t)in->credit_stalls));
	return o;
}

struct served {
	const struct weft_worker *worker;
	struct rpc_side_served sum;
};

static void
count_on_worker(void *arg)
{
	struct served *s = arg;

	rpc_side_count(s->worker, &s->sum);
}

/** What the console's server has done: as an object of JSON, or (rows NULL) printed. */
static void
show_served(struct cmdline *cl, json_t *rows)
{
	struct served s = {0};
	json_t *o;

	for (uint32_t i = 0; i < con.stack.nworkers; i++) {
		s.worker = con.stack.workers[i];
		(void)worker_side_call(con.stack.workers[i], count_on_worker, &s);
	}
	rpc_side_count_ended(&s.sum);
	if (rows == NULL) {
		cmdline_printf(cl,
		               "rpc server: connections %u, calls %" PRIu64 ", replies %" PRIu64
		               ", errors %" PRIu64 "\n",
		               s.sum.connections, s.sum.calls, s.sum.replies, s.sum.errors);
		return;
	}
	o = json_object();
	json_object_set_new(o, "state", json_string("server"));
	json_object_set_new(o, "connections", json_integer(s.sum.connections));
	json_object_set_new(o, "calls", json_integer((json_int_t)s.sum.calls));
	json_object_set_new(o, "replies", json_integer((json_int_t)s.sum.replies));
	json_object_set_new(o, "errors", json_integer((json_int_t)s.sum.errors));
	json_array_append_new(rows, o);
}

static void
show_rpcs(void *arg, struct cmdline *cl, void *data)
{
	json_t *rows = json_array();
	bool any = false;

	(void)arg;
	console_drain(cl);
	for (unsigned int n = 1; n <= CONSOLE_MAX_RPCS; n++) {
		struct op op = {.n = n};

		if (!con.rpcs[n])
			continue;
		any = true;
		if (!run(cl, &op, look_on_worker))
			continue;
		/* data: as JSON. */
		if (data == NULL)
			print_rpc(cl, n, &op.info);
		else
			json_array_append_new(rows, rpc_object(n, &op.info));
	}
	if (data == NULL && !any)
		cmdline_printf(cl, "no rpc clients\n");
	if (rpc_side_serves())
		show_served(cl, data != NULL ? rows : NULL);
	if (data != NULL)
		show_print_json(cl, rows);
	json_decref(rows);
}

static CMD(cmd_serve_, cmd_serve,
           "rpc serve PORT: program 0x20004543 version 1; procedure 1 returns what it is sent",
           (void *)&tok_rpc, (void *)&tok_serve, (void *)&tok_a);
static CMD(cmd_connect_, cmd_connect, "rpc connect ADDRESS PORT: a client of RPC-over-RDMA",
           (void *)&tok_rpc, (void *)&tok_connect, (void *)&tok_s1, (void *)&tok_a);
static CMD(cmd_null_, cmd_null, "rpc null CLIENT PROGRAM VERSION: call procedure 0, NULL",
           (void *)&tok_rpc, (void *)&tok_null, (void *)&tok_rpc_a, (void *)&tok_b, (void *)&tok_c);
static CMD(cmd_call_, cmd_call, "rpc call CLIENT PROGRAM VERSION PROCEDURE: without arguments",
           (void *)&tok_rpc, (void *)&tok_call, (void *)&tok_rpc_a, (void *)&tok_b, (void *)&tok_c,
           (void *)&tok_d);
static CMD(cmd_call_with_, cmd_call_with,
           "rpc call CLIENT PROGRAM VERSION PROCEDURE TEXT|0xXDR: a string, or words of XDR",
           (void *)&tok_rpc, (void *)&tok_call, (void *)&tok_rpc_a, (void *)&tok_b, (void *)&tok_c,
           (void *)&tok_d, (void *)&tok_call_rest);
static CMD(cmd_disconnect_, cmd_disconnect, "rpc disconnect CLIENT: its calls end as lost",
           (void *)&tok_rpc, (void *)&tok_disconnect, (void *)&tok_rpc_a);
static CMD(cmd_rpcs_, show_rpcs,
           "show rpcs: the console's RPC clients and their calls, and what it has served",
           (void *)&tok_show, (void *)&tok_rpcs);

static char as_json;
static cmdline_parse_inst_t cmd_rpcs_json = {
        .f = show_rpcs,
        .data = &as_json,
        .help_str = "show rpcs json: the same as JSON",
        .tokens = {(void *)&tok_show, (void *)&tok_rpcs, (void *)&tok_json, NULL}};

cmdline_parse_inst_t *const cmds_rpc[] = {&cmd_serve_, &cmd_connect_,   &cmd_null_,
                                          &cmd_call_,  &cmd_call_with_, &cmd_disconnect_,
                                          &cmd_rpcs_,  &cmd_rpcs_json,  NULL};
