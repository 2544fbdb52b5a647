/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Noun: expectation. What a command must print, or that it must fail; waiting until it
 * prints it, or for an event. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console.h"
#include "rows.h"
#include "script.h"
#include "ui.h"

WORD(tok_expect, verb, "expect");
WORD(tok_wait, verb, "wait");
WORD(tok_until, noun, "until");
WORD(tok_for, noun, "for");

#define WAIT_DEFAULT_S 10.0
#define WAIT_MAX_S     3600.0
#define POLL_MS        10

static bool
never(void *arg)
{
	(void)arg;
	return false;
}

/** Take " timeout S" at the front of *p: milliseconds; 0 after a message. */
static uint32_t
timeout_take(struct cmdline *cl, const char *p)
{
	double s = WAIT_DEFAULT_S;
	char *end = NULL;

	if (*p == '\0')
		return (uint32_t)(s * 1000);
	if (word_take(&p, "timeout"))
		s = strtod(p, &end);
	if (end == NULL || end == p || end[strspn(end, " \t")] != '\0' || !(s > 0) ||
	    s > WAIT_MAX_S) {
		console_wrong(
		        cl, "wait: only 'timeout SECONDS', at most %.0f, may stand behind the text",
		        WAIT_MAX_S);
		return 0;
	}
	return s < 0.001 ? 1 : (uint32_t)(s * 1000);
}

static bool
begin(struct cmdline *cl, struct output *o)
{
	int rc = output_begin(o);

	if (rc != 0)
		console_fail(cl, "no memory for the output: %s", strerror(-rc));
	return rc == 0;
}

/** Run a command that must fail. Interrupted it did not fail. */
static void
expect_fail(struct cmdline *cl, const char *text)
{
	const bool before = con.failed;
	const char *why;

	con.failed = false;
	why = console_run(cl, text);
	if (why != NULL)
		cmdline_printf(cl, "error: %s\n", why);
	if (interrupted())
		return;
	if (why == NULL && !con.failed) {
		console_fail(cl, "expect: it must fail and did not");
		return;
	}
	con.failed = before;
	con.said = false;
	con.misused[0] = '\0';
}

static void
expect_output(struct cmdline *cl, const char *text, const struct pattern *pt, bool without)
{
	char got[160];
	struct output o;

	if (!begin(cl, &o))
		return;
	if (console_run_within(o.cl, text) && pattern_in(pt, output_text(&o)) == without) {
		rows_output(cl, text, output_text(&o));
		console_fail(cl, "expect: expected %s%s, got: %s", without ? "no " : "", pt->text,
		             output_flat(output_text(&o), got, sizeof(got)));
	} else {
		rows_output(cl, text, output_text(&o));
	}
	output_end(&o);
}

static void
cmd_expect(void *arg, struct cmdline *cl, void *data)
{
	const char *p = ((struct rest_args *)arg)->rest, *why;
	struct pattern pt;
	bool without;

	(void)data;
	if (word_take(&p, "fail")) {
		if (*p == '\0')
			console_wrong(cl, "expect: no command behind fail");
		else
			expect_fail(cl, p);
		return;
	}
	without = word_take(&p, "not");
	why = pattern_take(&p, &pt);
	if (why != NULL) {
		console_wrong(cl, "expect: %s", why);
		return;
	}
	if (*p == '\0')
		console_wrong(cl, "expect: no command behind %s", pt.text);
	else
		expect_output(cl, p, &pt, without);
	pattern_free(&pt);
}

/** Run the command until it prints the pattern; events meanwhile are printed. */
static void
wait_until(struct cmdline *cl, const char *text, const struct pattern *pt, uint32_t ms)
{
	const uint64_t until = ui_now_ns() + ms * 1000000ull;
	char got[160];
	struct output o;
	bool found;

	if (!begin(cl, &o))
		return;
	for (;;) {
		found = console_run_within(o.cl, text) && pattern_in(pt, output_text(&o));
		if (found || con.failed || ui_now_ns() >= until)
			break;
		console_wait(cl, POLL_MS, never, NULL);
		if (con.failed || interrupted())
			break;
		output_clear(&o);
	}
	rows_output(cl, text, output_text(&o));
	if (!found && !con.failed && !interrupted())
		console_fail(cl, "wait: no %s within %.3g s, got: %s", pt->text, ms / 1e3,
		             output_flat(output_text(&o), got, sizeof(got)));
	output_end(&o);
}

static void
cmd_wait_until(void *arg, struct cmdline *cl, void *data)
{
	static const char contains[] = " contains ";
	char *text = ((struct rest_args *)arg)->rest, *at = strstr(text, contains);
	struct pattern pt;
	const char *p, *why;
	uint32_t ms;

	(void)data;
	if (at == NULL) {
		console_wrong(cl, "wait: 'contains TEXT' is missing behind the command");
		return;
	}
	*at = '\0';
	p = at + sizeof(contains) - 1;
	p += strspn(p, " \t");
	why = pattern_take(&p, &pt);
	if (why != NULL) {
		console_wrong(cl, "wait: %s", why);
		return;
	}
	ms = timeout_take(cl, p);
	if (ms > 0)
		wait_until(cl, text, &pt, ms);
	pattern_free(&pt);
}

/** Whether it came, or a completion failed, which ends the wait. */
static bool
heard(void *arg)
{
	return heard_take(arg) || con.failed;
}

static void
cmd_wait_for(void *arg, struct cmdline *cl, void *data)
{
	const char *p = ((struct rest_args *)arg)->rest, *why;
	struct pattern pt;
	uint32_t ms;

	(void)data;
	why = pattern_take(&p, &pt);
	if (why != NULL) {
		console_wrong(cl, "wait: %s", why);
		return;
	}
	ms = timeout_take(cl, p);
	if (ms > 0 && !console_wait(cl, ms, heard, &pt) && !interrupted())
		console_fail(cl, "wait: no event or completion with %s within %.3g s", pt.text,
		             ms / 1e3);
	pattern_free(&pt);
}

/** Skip a word, a quoted text or a regular expression, and the blanks behind it. */
static const char *
skip(const char *p)
{
	const char *end = *p == '"' || *p == '/' ? strchr(p + 1, *p) : NULL;

	p = end != NULL ? end + 1 : p + strcspn(p, " \t");
	return p + strspn(p, " \t");
}

const char *
console_inner(const char *text)
{
	const char *p = text + strspn(text, " \t"), *from;

	do {
		from = p;
		if (word_take(&p, "expect"))
			p = word_take(&p, "fail") ? p : skip(word_take(&p, "not") ? p : p);
		else if (word_take(&p, "repeat"))
			p = skip(p);
		else if (word_take(&p, "wait") && !word_take(&p, "until"))
			p = from;
		if (*p == '\0' && p[-1] != ' ')
			p = from;
	} while (p != from);
	return p;
}

static CMD(cmd_expect_, cmd_expect,
           "expect [not] TEXT|/REGEX/ COMMAND, expect fail COMMAND: what it must print, or fail",
           (void *)&tok_expect, (void *)&tok_rest);
static CMD(cmd_until_, cmd_wait_until,
           "wait until COMMAND contains TEXT|/REGEX/ [timeout SECONDS]: run it until it prints it",
           (void *)&tok_wait, (void *)&tok_until, (void *)&tok_rest);
static CMD(cmd_for_, cmd_wait_for,
           "wait for TEXT|/REGEX/ [timeout SECONDS]: an event or completion not waited for before",
           (void *)&tok_wait, (void *)&tok_for, (void *)&tok_rest);

cmdline_parse_inst_t *const cmds_expect[] = {&cmd_expect_, &cmd_until_, &cmd_for_, NULL};
