/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Noun: script. Variables, files of commands, repetition. */

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "console.h"
#include "script.h"

WORD(tok_let, verb, "let");
WORD(tok_equals, noun, "=");
WORD(tok_from, noun, "from");
WORD(tok_source, verb, "source");
WORD(tok_repeat, verb, "repeat");
WORD(tok_echo, verb, "echo");

#define REPEAT_MAX 1000000000ull

static void
let(struct cmdline *cl, const char *name, const char *value)
{
	int rc = vars_set(name, value);

	if (rc != 0)
		console_wrong(cl, "let: %s: %s", name, vars_strerror(rc));
}

static void
cmd_let_list(void *arg, struct cmdline *cl, void *data)
{
	(void)arg;
	(void)data;
	vars_print(cl);
}

static void
cmd_let(void *arg, struct cmdline *cl, void *data)
{
	struct rest_args *a = arg;
	size_t n = strlen(a->rest);

	(void)data;
	while (n > 0 && strchr(" \t\r", a->rest[n - 1]) != NULL)
		a->rest[--n] = '\0';
	let(cl, a->s1, a->rest);
}

static void
cmd_let_from(void *arg, struct cmdline *cl, void *data)
{
	struct rest_args *a = arg;
	char value[VAR_BYTES], got[120];
	const char *p = a->rest, *why;
	struct pattern pt;
	struct output o;
	int rc;

	(void)data;
	why = pattern_take(&p, &pt);
	if (why != NULL) {
		console_wrong(cl, "let: %s", why);
		return;
	}
	rc = output_begin(&o);
	if (rc != 0) {
		console_fail(cl, "let: %s", strerror(-rc));
	} else {
		if (console_run_within(o.cl, p) &&
		    !pattern_get(&pt, output_text(&o), value, sizeof(value)))
			console_wrong(cl, "let: %s is not in: %s", pt.text,
			              output_flat(output_text(&o), got, sizeof(got)));
		else if (!con.failed)
			let(cl, a->s1, value);
		else
			cmdline_printf(cl, "%s", output_text(&o));
		output_end(&o);
	}
	pattern_free(&pt);
}

static void
cmd_source(void *arg, struct cmdline *cl, void *data)
{
	struct rest_args *a = arg;
	size_t n = strlen(a->rest);

	(void)data;
	while (n > 0 && strchr(" \t\r", a->rest[n - 1]) != NULL)
		a->rest[--n] = '\0';
	script_file(cl, a->rest);
}

static void
cmd_echo(void *arg, struct cmdline *cl, void *data)
{
	(void)data;
	cmdline_printf(cl, "%s\n", ((struct rest_args *)arg)->rest);
}

static void
cmd_repeat(void *arg, struct cmdline *cl, void *data)
{
	struct rest_args *a = arg;
	const char *rest = a->rest, *p = rest;
	const bool posts = word_take(&p, "post");
	bool counts;

	(void)data;
	if (a->a < 1 || a->a > REPEAT_MAX) {
		console_wrong(cl, "repeat: the number must be from 1 to %llu", REPEAT_MAX);
		return;
	}
	/* A repeat within a repeat counts into the outer one's sum. */
	counts = posts && console_count_begin(cl);
	for (uint64_t i = 1; i <= a->a && !con.failed && !con.quit; i++) {
		vars_result("round", "%" PRIu64, i);
		console_run_within(cl, rest);
	}
	if (counts)
		console_count_end(cl, "repeat");
}

static CMD(cmd_let_list_, cmd_let_list, "let: list the variables", (void *)&tok_let);
static CMD(cmd_let_, cmd_let,
           "let NAME = VALUE: a variable; later lines may have $NAME or ${NAME}, and $$ for $",
           (void *)&tok_let, (void *)&tok_s1, (void *)&tok_equals, (void *)&tok_rest);
static CMD(cmd_let_from_, cmd_let_from,
           "let NAME from /REGEX/ COMMAND: what its group (or all of it) matches in the output",
           (void *)&tok_let, (void *)&tok_s1, (void *)&tok_from, (void *)&tok_rest);
static CMD(cmd_source_, cmd_source,
           "source FILE: run its commands; a relative path is taken from this script's folder",
           (void *)&tok_source, (void *)&tok_rest);
static CMD(cmd_repeat_, cmd_repeat,
           "repeat N COMMAND: run it N times, or until it fails; of a post the sum is shown",
           (void *)&tok_repeat, (void *)&tok_rest_a, (void *)&tok_rest);
static CMD(cmd_echo_, cmd_echo, "echo TEXT: print it", (void *)&tok_echo, (void *)&tok_rest);

cmdline_parse_inst_t *const cmds_script[] = {
        &cmd_let_list_, &cmd_let_, &cmd_let_from_, &cmd_source_, &cmd_repeat_, &cmd_echo_, NULL};
