/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Noun: log. Create, join targets, open, append, read, trim, show, destroy. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "addr.h"
#include "console.h"
#include "log_side.h"
#include "script.h"
#include "show_print.h"
#include "worker_side.h"

WORD(tok_log, verb, "log");
WORD(tok_show, verb, "show");
WORD(tok_logs, noun, "logs");
WORD(tok_json, s1, "json");
WORD(tok_create, noun, "create");
WORD(tok_join, noun, "join");
WORD(tok_leave, noun, "leave");
WORD(tok_open, noun, "open");
WORD(tok_append, noun, "append");
WORD(tok_read, noun, "read");
WORD(tok_trim, noun, "trim");
WORD(tok_destroy, noun, "destroy");

#define LOG_WAIT_MS 10000u

/** An operation on the worker, and its result. */
struct op {
	unsigned int n;
	uint64_t a, b;
	const char *text;
	struct log_side_target target;
	unsigned int join;
	int rc;
};

/** Whether an operation on log n was successful; else there is a message. */
static bool
succeeded(struct cmdline *cl, unsigned int n, int rc)
{
	if (rc == 0)
		return true;
	console_fail(cl, "log %u: %s", n,
	             rc == -ENOTCONN   ? "it is not open, or has too few targets"
	             : rc == -EPIPE    ? "it has ended"
	             : rc == -ENOSPC   ? "there is no room: trim it, or all its targets have joined"
	             : rc == -EAGAIN   ? "too much is under way; wait"
	             : rc == -EALREADY ? "it was opened already, or is being read"
	             : rc == -ENOENT   ? "it has no such target"
	                               : strerror(-rc));
	return false;
}

/** The log with this number. False after a message. */
static bool
log_ok(struct cmdline *cl, uint64_t n)
{
	if (n >= 1 && n <= CONSOLE_MAX_LOGS && con.logs[n])
		return true;
	console_fail(cl, "there is no log %" PRIu64 "; 'show logs' lists them", n);
	return false;
}

static struct weft_worker *
worker_of(unsigned int n)
{
	return con.stack.workers[con.log_worker[n]];
}

/** Run an operation on a log. False after a message. */
static bool
run(struct cmdline *cl, struct op *op, uint64_t n, void (*fn)(void *arg))
{
	int rc;

	if (!log_ok(cl, n))
		return false;
	op->n = (unsigned int)n;
	rc = worker_side_call(worker_of(op->n), fn, op);
	return succeeded(cl, op->n, rc != 0 ? rc : op->rc);
}

static void
make_on_worker(void *arg)
{
	struct op *op = arg;

	op->rc = log_side_make(op->n, (uint32_t)op->a, (uint32_t)op->b);
}

static void
create(struct cmdline *cl, uint64_t targets, uint64_t quorum)
{
	struct op op = {.a = targets, .b = quorum};
	unsigned int n = 1;
	int rc;

	while (n <= CONSOLE_MAX_LOGS && con.logs[n])
		n++;
	if (n > CONSOLE_MAX_LOGS || targets < 1 || targets > WEFT_LOG_MAX_TARGETS || quorum < 1 ||
	    quorum > targets) {
		console_wrong(
		        cl,
		        "log: it has 1 to %u targets and no larger quorum, and %d logs are the "
		        "most",
		        WEFT_LOG_MAX_TARGETS, CONSOLE_MAX_LOGS);
		return;
	}
	op.n = n;
	con.log_worker[n] = con.worker;
	rc = worker_side_call(worker_of(n), make_on_worker, &op);
	if (rc == 0)
		rc = op.rc;
	if (rc != 0) {
		console_fail(cl, "log: %s", strerror(-rc));
		return;
	}
	con.logs[n] = true;
	vars_result("log", "%u", n);
	cmdline_printf(cl, "log %u: no targets\n", n);
}

static void
cmd_create(void *arg, struct cmdline *cl, void *data)
{
	(void)arg;
	(void)data;
	create(cl, 1, 1);
}

static void
cmd_create_of(void *arg, struct cmdline *cl, void *data)
{
	const struct cmd_args *a = arg;

	(void)data;
	create(cl, a->a, a->b);
}

static void
join_on_worker(void *arg)
{
	struct op *op = arg;

	op->rc = log_side_join(op->n, &op->target, &op->join);
}

static void
join_end_on_worker(void *arg)
{
	struct op *op = arg;

	log_side_join_end(op->n, op->join);
}

static bool
join_decided(void *arg)
{
	const struct op *op = arg;

	return log_side_join_outcome(op->n, op->join) != LOG_SIDE_WAITS;
}

static void
join_outcome(struct cmdline *cl, struct op *op)
{
	int rc;

	if (!console_wait(cl, LOG_WAIT_MS, join_decided, op)) {
		worker_side_call(worker_of(op->n), join_end_on_worker, op);
		console_drain(cl);
		console_fail(cl, "log %u: no answer within %u s; the target is given up", op->n,
		             LOG_WAIT_MS / 1000);
		return;
	}
	console_drain(cl);
	rc = log_side_join_outcome(op->n, op->join);
	if (rc < 0)
		console_fail(cl, "log %u: %s", op->n,
		             rc == -ENODATA ? "the peer sent no grant; give STAG OFFSET BYTES"
		                            : strerror(-rc));
}

static void
join(struct cmdline *cl, const struct cmd_args *a, bool granted)
{
	struct op op = {
	        .target = {
	                .granted = granted, .stag = (uint32_t)a->c, .to = a->d, .len_bytes = a->e}};

	if (a->b < 1 || a->b > 65535 || addr_parse(a->s1, (uint16_t)a->b, &op.target.address) != 0)
		console_wrong(cl, "log: %s %" PRIu64 " is not an IPv4 or IPv6 address and a port",
		              a->s1, a->b);
	else if (run(cl, &op, a->a, join_on_worker))
		join_outcome(cl, &op);
}

static void
cmd_join(void *arg, struct cmdline *cl, void *data)
{
	(void)data;
	join(cl, arg, false);
}

static void
cmd_join_stag(void *arg, struct cmdline *cl, void *data)
{
	(void)data;
	join(cl, arg, true);
}

static void
leave_on_worker(void *arg)
{
	struct op *op = arg;

	op->rc = log_side_leave(op->n, (uint32_t)op->a);
}

static void
cmd_leave(void *arg, struct cmdline *cl, void *data)
{
	const struct cmd_args *a = arg;
	struct op op = {.a = a->b};

	(void)data;
	run(cl, &op, a->a, leave_on_worker);
	console_drain(cl);
}

static void
open_on_worker(void *arg)
{
	struct op *op = arg;

	op->rc = log_side_open(op->n);
}

static bool
open_decided(void *arg)
{
	const struct op *op = arg;

	return log_side_open_outcome(op->n) != LOG_SIDE_WAITS;
}

static void
cmd_open(void *arg, struct cmdline *cl, void *data)
{
	struct op op = {0};
	int rc;

	(void)data;
	if (!run(cl, &op, ((struct cmd_args *)arg)->a, open_on_worker))
		return;
	if (!console_wait(cl, LOG_WAIT_MS, open_decided, &op)) {
		console_fail(cl, "log %u: no answer within %u s", op.n, LOG_WAIT_MS / 1000);
		return;
	}
	console_drain(cl);
	rc = log_side_open_outcome(op.n);
	if (rc < 0)
		console_fail(cl, "log %u: %s", op.n, strerror(-rc));
}

static void
append_on_worker(void *arg)
{
	struct op *op = arg;

	op->rc = log_side_append(op->n, op->text);
}

/** Try to append. False: too much is under way. */
static bool
append_taken(void *arg)
{
	struct op *op = arg;
	const int rc = worker_side_call(worker_of(op->n), append_on_worker, op);

	if (rc != 0)
		op->rc = rc;
	return op->rc != -EAGAIN;
}

static void
cmd_append(void *arg, struct cmdline *cl, void *data)
{
	const struct rest_args *a = arg;
	struct op op = {.text = a->rest};

	(void)data;
	if (!log_ok(cl, a->a))
		return;
	op.n = (unsigned int)a->a;
	/* While too much is under way, until there is room. */
	console_wait(cl, LOG_WAIT_MS, append_taken, &op);
	if (succeeded(cl, op.n, op.rc))
		con.pending++;
}

static void
read_on_worker(void *arg)
{
	struct op *op = arg;

	op->rc = log_side_read(op->n, op->a, op->b != 0);
}

/** A read, or a trim, which looks for its record by reading. */
static void
read_from(struct cmdline *cl, uint64_t log, uint64_t seq, bool trim)
{
	struct op op = {.a = seq, .b = trim};

	if (run(cl, &op, log, read_on_worker)) {
		con.pending++;
		if (!console_wait(cl, LOG_WAIT_MS, console_idle, NULL))
			console_fail(cl, "log %" PRIu64 ": not read within %u s", log,
			             LOG_WAIT_MS / 1000);
	}
}

static void
cmd_read(void *arg, struct cmdline *cl, void *data)
{
	(void)data;
	read_from(cl, ((struct cmd_args *)arg)->a, 0, false);
}

static void
cmd_read_from(void *arg, struct cmdline *cl, void *data)
{
	const struct cmd_args *a = arg;

	(void)data;
	read_from(cl, a->a, a->b, false);
}

/** What a log tells of itself, on the worker. */
struct look {
	unsigned int n;
	struct weft_log_info in;
};

static void
look_on_worker(void *arg)
{
	struct look *l = arg;

	log_side_query(l->n, &l->in);
}

static struct look
look_at(uint64_t n)
{
	static struct look l;

	l.n = (unsigned int)n;
	if (n < 1 || n > CONSOLE_MAX_LOGS || !con.logs[n] ||
	    worker_side_call(worker_of(l.n), look_on_worker, &l) != 0)
		l.n = 0;
	return l;
}

/** A trim that is under way. */
struct trim {
	uint64_t log, seq, bad_before;
	bool bad;
};

/** The head is moved when a target was asked for the record, or has refused. */
static bool
trimmed(void *arg)
{
	struct trim *t = arg;
	const struct look l = look_at(t->log);

	t->bad = l.in.bad_trims != t->bad_before;
	return l.n == 0 || t->bad || l.in.state != WEFT_LOG_OPENED || l.in.head.seq >= t->seq;
}

static void
cmd_trim(void *arg, struct cmdline *cl, void *data)
{
	const struct cmd_args *a = arg;
	struct trim t = {.log = a->a, .seq = a->b, .bad_before = look_at(a->a).in.bad_trims};

	(void)data;
	read_from(cl, a->a, a->b, true);
	if (!con.failed && (!console_wait(cl, LOG_WAIT_MS, trimmed, &t) || t.bad))
		console_fail(cl, "log %" PRIu64 ": no target has executed the trim", a->a);
}

static void
destroy_on_worker(void *arg)
{
	struct op *op = arg;

	log_side_destroy(op->n);
}

static void
cmd_destroy(void *arg, struct cmdline *cl, void *data)
{
	struct op op = {0};

	(void)data;
	if (!run(cl, &op, ((struct cmd_args *)arg)->a, destroy_on_worker))
		return;
	con.logs[op.n] = false;
	console_drain(cl);
}

void
console_logs_end(void)
{
	for (unsigned int n = 1; n <= CONSOLE_MAX_LOGS; n++) {
		struct op op = {.n = n};

		if (con.logs[n])
			worker_side_call(worker_of(n), destroy_on_worker, &op);
	}
}

static const char *const log_states[] = {"new", "opening", "open", "ended"};
static const char *const target_states[] = {"none", "being examined", "joined", "catching up",
                                            "live"};

/** The number of the last record before this place; 0: there is none. */
static uint64_t
last_before(const struct weft_log_at *at)
{
	return at->seq > 0 ? at->seq - 1 : 0;
}

static void
print_log(struct cmdline *cl, unsigned int n, const struct weft_log_info *in)
{
	char worker[32] = "";

	if (con.stack.nworkers > 1)
		snprintf(worker, sizeof(worker), ", worker %u", con.log_worker[n]);
	cmdline_printf(cl,
	               "log %u: %s, epoch %" PRIu64 ", records %" PRIu64 " to %" PRIu64
	               " durable, %" PRIu64 " appended, ring %" PRIu64 " bytes%s\n"
	               "  appends %" PRIu64 " in %" PRIu64 " transactions, reads %" PRIu64
	               ", trims %" PRIu64 ", targets lost %" PRIu64 "\n",
	               n, log_states[in->state], in->epoch, in->head.seq, last_before(&in->durable),
	               last_before(&in->end), in->ring_bytes, worker, in->appends, in->transactions,
	               in->reads, in->trims, in->lost);
	for (unsigned int i = 0; i < WEFT_LOG_MAX_TARGETS; i++)
		if (in->target[i].state != WEFT_LOG_TARGET_NONE)
			cmdline_printf(cl, "  target %u: %s, durable to record %" PRIu64 "\n", i,
			               target_states[in->target[i].state],
			               last_before(&in->target[i].durable));
}

static void
set_integer(json_t *o, const char *key, uint64_t n)
{
	json_object_set_new(o, key, json_integer((json_int_t)n));
}

static json_t *
log_object(unsigned int n, const struct weft_log_info *in)
{
	json_t *o = json_object(), *targets = json_array();

	set_integer(o, "number", n);
	set_integer(o, "worker", con.log_worker[n]);
	json_object_set_new(o, "state", json_string(log_states[in->state]));
	set_integer(o, "epoch", in->epoch);
	set_integer(o, "first_record", in->head.seq);
	set_integer(o, "durable_record", last_before(&in->durable));
	set_integer(o, "last_record", last_before(&in->end));
	set_integer(o, "ring_bytes", in->ring_bytes);
	set_integer(o, "appends", in->appends);
	set_integer(o, "transactions", in->transactions);
	set_integer(o, "reads", in->reads);
	set_integer(o, "trims", in->trims);
	set_integer(o, "lost", in->lost);
	for (unsigned int i = 0; i < WEFT_LOG_MAX_TARGETS; i++) {
		json_t *t;

		if (in->target[i].state == WEFT_LOG_TARGET_NONE)
			continue;
		t = json_object();
		set_integer(t, "target", i);
		json_object_set_new(t, "state", json_string(target_states[in->target[i].state]));
		set_integer(t, "durable_record", last_before(&in->target[i].durable));
		json_array_append_new(targets, t);
	}
	json_object_set_new(o, "targets", targets);
	return o;
}

static void
show_logs(void *arg, struct cmdline *cl, void *data)
{
	json_t *rows = json_array();
	bool any = false;

	(void)arg;
	console_drain(cl);
	for (unsigned int n = 1; n <= CONSOLE_MAX_LOGS; n++) {
		const struct look l = look_at(n);

		any = any || con.logs[n];
		/* data: as JSON. */
		if (l.n != 0 && data == NULL)
			print_log(cl, n, &l.in);
		else if (l.n != 0)
			json_array_append_new(rows, log_object(n, &l.in));
	}
	if (data != NULL)
		show_print_json(cl, rows);
	else if (!any)
		cmdline_printf(cl, "no logs\n");
	json_decref(rows);
}

static CMD(cmd_create_, cmd_create, "log create: a log with one target", (void *)&tok_log,
           (void *)&tok_create);
static CMD(cmd_create_of_, cmd_create_of,
           "log create TARGETS QUORUM: durable when it is so at QUORUM of them", (void *)&tok_log,
           (void *)&tok_create, (void *)&tok_a, (void *)&tok_b);
static CMD(cmd_join_, cmd_join,
           "log join LOG ADDRESS PORT: a target whose private data has the grant", (void *)&tok_log,
           (void *)&tok_join, (void *)&tok_log_a, (void *)&tok_s1, (void *)&tok_b);
static CMD(cmd_join_stag_, cmd_join_stag,
           "log join LOG ADDRESS PORT STAG OFFSET BYTES: a target with this memory",
           (void *)&tok_log, (void *)&tok_join, (void *)&tok_log_a, (void *)&tok_s1, (void *)&tok_b,
           (void *)&tok_c, (void *)&tok_d, (void *)&tok_e);
static CMD(cmd_leave_, cmd_leave, "log leave LOG TARGET: give up a target", (void *)&tok_log,
           (void *)&tok_leave, (void *)&tok_log_a, (void *)&tok_b);
static CMD(cmd_open_, cmd_open, "log open LOG: recover it from its targets, and begin an epoch",
           (void *)&tok_log, (void *)&tok_open, (void *)&tok_log_a);
static CMD(cmd_append_, cmd_append, "log append LOG TEXT: 'wait' waits until it is durable",
           (void *)&tok_log, (void *)&tok_append, (void *)&tok_log_rest, (void *)&tok_rest);
static CMD(cmd_read_, cmd_read, "log read LOG: all its records", (void *)&tok_log,
           (void *)&tok_read, (void *)&tok_log_a);
static CMD(cmd_read_from_, cmd_read_from, "log read LOG RECORD: from this one on", (void *)&tok_log,
           (void *)&tok_read, (void *)&tok_log_a, (void *)&tok_b);
static CMD(cmd_trim_, cmd_trim, "log trim LOG RECORD: give up all records before this one",
           (void *)&tok_log, (void *)&tok_trim, (void *)&tok_log_a, (void *)&tok_b);
static CMD(cmd_destroy_, cmd_destroy, "log destroy LOG: leave its targets, which keep the records",
           (void *)&tok_log, (void *)&tok_destroy, (void *)&tok_log_a);
static CMD(cmd_logs_, show_logs, "show logs: states, records, targets of the console's logs",
           (void *)&tok_show, (void *)&tok_logs);

static char as_json;
static cmdline_parse_inst_t cmd_logs_json = {
        .f = show_logs,
        .data = &as_json,
        .help_str = "show logs json: the same as JSON",
        .tokens = {(void *)&tok_show, (void *)&tok_logs, (void *)&tok_json, NULL}};

cmdline_parse_inst_t *const cmds_log[] = {&cmd_create_,    &cmd_create_of_,
                                          &cmd_join_,      &cmd_join_stag_,
                                          &cmd_leave_,     &cmd_open_,
                                          &cmd_append_,    &cmd_read_,
                                          &cmd_read_from_, &cmd_trim_,
                                          &cmd_destroy_,   &cmd_logs_,
                                          &cmd_logs_json,  NULL};
