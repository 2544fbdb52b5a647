/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Verb: set. What can be changed while the stack runs: log levels, TCP's settings, and the
 * worker of what the console makes. */

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "console.h"

WORD(tok_set, verb, "set");
WORD(tok_log, noun, "log");
WORD(tok_congestion, noun, "congestion");
WORD(tok_algorithm, s1, "cubic#newreno");
WORD(tok_limit, noun, "limit");
WORD(tok_limits, s1, "half-open#time-wait#accepts#resets#challenge-acks");
WORD(tok_none, s2, "none");
WORD(tok_worker, noun, "worker");

static const struct {
	const char *name;
	size_t at; /**< of the member in struct weft_tcp_change, 32 bits wide */
} limits[] = {
        {"half-open", offsetof(struct weft_tcp_change, max_half_open)},
        {"time-wait", offsetof(struct weft_tcp_change, max_time_wait)},
        {"accepts", offsetof(struct weft_tcp_change, max_accepts_per_s)},
        {"resets", offsetof(struct weft_tcp_change, resets_per_s)},
        {"challenge-acks", offsetof(struct weft_tcp_change, challenge_acks_per_s)},
};

static void
cmd_set_log(void *arg, struct cmdline *cl, void *data)
{
	const struct cmd_args *a = arg;

	(void)data;
	if (weft_log_levels(a->s1) != 0)
		console_wrong(cl,
		              "set log: '%s': it is TYPE:LEVEL[,...], such as weft.tcp:debug; "
		              "the levels are critical, error, warning, notice, info and debug",
		              a->s1);
}

/** Change the settings of every worker. False after a message. */
static bool
change_tcp(struct cmdline *cl, const struct weft_tcp_change *change)
{
	for (uint32_t i = 0; i < con.stack.nworkers; i++) {
		const int rc = weft_worker_set_tcp(con.stack.workers[i], change);

		if (rc != 0) {
			console_fail(cl, "set: worker %u: %s", i, strerror(-rc));
			return false;
		}
	}
	return true;
}

static void
cmd_set_congestion(void *arg, struct cmdline *cl, void *data)
{
	const struct cmd_args *a = arg;
	const struct weft_tcp_change change = {
	        .size = sizeof(change),
	        .cc = strcmp(a->s1, "cubic") == 0 ? WEFT_TCP_CC_CUBIC : WEFT_TCP_CC_NEWRENO};

	(void)data;
	if (change_tcp(cl, &change))
		cmdline_printf(cl, "congestion control of new connections: %s\n", a->s1);
}

static void
set_limit(struct cmdline *cl, const char *name, uint64_t n)
{
	struct weft_tcp_change change = {.size = sizeof(change)};
	const uint32_t value = (uint32_t)n;

	if (n < 1 || n > UINT32_MAX) {
		console_wrong(cl, "set limit: the number must be from 1 to %" PRIu32, UINT32_MAX);
		return;
	}
	for (unsigned int i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		if (strcmp(limits[i].name, name) == 0)
			memcpy((char *)&change + limits[i].at, &value, sizeof(value));
	if (!change_tcp(cl, &change))
		return;
	if (value == UINT32_MAX)
		cmdline_printf(cl, "limit %s of each worker: none\n", name);
	else
		cmdline_printf(cl, "limit %s of each worker: %" PRIu32 "\n", name, value);
}

static void
cmd_set_limit(void *arg, struct cmdline *cl, void *data)
{
	const struct cmd_args *a = arg;

	(void)data;
	set_limit(cl, a->s1, a->a);
}

static void
cmd_set_limit_none(void *arg, struct cmdline *cl, void *data)
{
	const struct cmd_args *a = arg;

	(void)data;
	set_limit(cl, a->s1, UINT32_MAX);
}

static void
cmd_set_worker(void *arg, struct cmdline *cl, void *data)
{
	const struct cmd_args *a = arg;

	(void)data;
	if (a->a < con.stack.nworkers) {
		con.worker = (uint32_t)a->a;
		cmdline_printf(cl,
		               "worker of connections, RPC clients and logs from now on: %" PRIu32
		               "\n",
		               con.worker);
	} else {
		console_wrong(cl, "set worker: there is no worker %" PRIu64 "; there are 0 to %u",
		              a->a, con.stack.nworkers - 1);
	}
}

static CMD(cmd_log, cmd_set_log, "set log TYPE:LEVEL[,...]: which log lines are printed",
           (void *)&tok_set, (void *)&tok_log, (void *)&tok_s1);
static CMD(cmd_congestion, cmd_set_congestion,
           "set congestion cubic|newreno: congestion control of new connections", (void *)&tok_set,
           (void *)&tok_congestion, (void *)&tok_algorithm);
static CMD(cmd_limit, cmd_set_limit,
           "set limit NAME N: each worker's TCP: half-open, time-wait, accepts, resets, "
           "challenge-acks",
           (void *)&tok_set, (void *)&tok_limit, (void *)&tok_limits, (void *)&tok_a);
static CMD(cmd_limit_none, cmd_set_limit_none, "set limit NAME none: no limit", (void *)&tok_set,
           (void *)&tok_limit, (void *)&tok_limits, (void *)&tok_none);

static CMD(cmd_worker, cmd_set_worker,
           "set worker N: whose connections, RPC clients and logs are made from now on",
           (void *)&tok_set, (void *)&tok_worker, (void *)&tok_worker_a);

cmdline_parse_inst_t *const cmds_set[] = {&cmd_log,        &cmd_congestion, &cmd_limit,
                                          &cmd_limit_none, &cmd_worker,     NULL};
