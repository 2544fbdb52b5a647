/* SPDX-License-Identifier: BSD-3-Clause */
/** @file One line: its variables are substituted, and its command is run. */

#include <stdio.h>
#include <string.h>

#include "console.h"
#include "rows.h"
#include "script.h"
#include "ui.h"

#define DEPTH_MAX 16 /* commands within commands */

/**
 * Whether the command substitutes variables itself, because it runs the rest of its line as a
 * command, perhaps more than once.
 */
static bool
takes_rest(const char *text)
{
	const char *p = text;

	if (word_take(&p, "expect") || word_take(&p, "repeat"))
		return true;
	if (word_take(&p, "wait"))
		return word_take(&p, "until") || word_take(&p, "for");
	if (!word_take(&p, "let"))
		return false;
	p += strcspn(p, " \t");
	p += strspn(p, " \t");
	return word_take(&p, "from");
}

/** Whether the line's first word is a command of those that use the console's own stack. */
static bool
needs_stack(const char *text)
{
	const size_t word = strcspn(text, " \t\n");
	const bool shows = strncmp(text, "show", word) == 0;

	if (strncmp(text, "sleep", word) == 0)
		return false;
	for (unsigned int i = 0; con.of_stack[i] != NULL; i++)
		for (unsigned int k = 0; con.of_stack[i][k] != NULL; k++) {
			const char *help = con.of_stack[i][k]->help_str;
			/* Telemetry answers `show`, but for a few nouns of the console's own. */
			const size_t n = shows ? strcspn(help, ":") : word;

			if (strncmp(help, text, n) == 0 && strchr(" :", help[n]) != NULL &&
			    strchr(" \t\n", text[n]) != NULL)
				return true;
		}
	return false;
}

/** Nouns of show that name objects of the console itself, and what stands in their place when it is
 * attached. */
static const struct {
	const char *noun, *instead; /**< a noun of telemetry; NULL: why there is none */
	const char *why;
} attached_nouns[] = {
        {"windows", "mw", NULL},
        {"srqs", "srq", NULL},
        {"logs", NULL, "telemetry has no logs; only the program that opened one knows it"},
        {"rpcs", NULL,
         "telemetry has no RPC clients; 'show calls' and 'show replies' have what a weft-target "
         "serves"},
        {"traffic", NULL, "traffic is what a console itself sends, and --attach has none"},
        {"injected", NULL, "faults are those of a console's own ports, and --attach has none"},
        {"captures", NULL, "telemetry does not list captures; --attach has none of its own"},
        {"events", NULL, "events are those of a console's own stack, and --attach has none"},
};

/** In an attached console: write the line with the noun of telemetry that shows the same, if there
 * is one, into EXPANDED_BYTES; n is its length. NULL; or why there is none. */
static const char *
attached_noun(const char *text, size_t *n, char *line)
{
	const char *p = text, *rest;

	if (!word_take(&p, "show"))
		return NULL;
	for (size_t i = 0; i < sizeof(attached_nouns) / sizeof(attached_nouns[0]); i++) {
		rest = p;
		if (!word_take(&rest, attached_nouns[i].noun))
			continue;
		if (attached_nouns[i].why == NULL)
			*n = (size_t)snprintf(line, EXPANDED_BYTES, "show %s %.*s",
			                      attached_nouns[i].instead, (int)(text + *n - rest),
			                      rest);
		return attached_nouns[i].why;
	}
	return NULL;
}

static const char *
parse(struct cmdline *cl, const char *line)
{
	static int depth;
	int rc;

	if (depth == DEPTH_MAX)
		return "more than 16 commands within each other";
	depth++;
	rc = cmdline_parse(cl, line);
	depth--;
	if (interrupted()) {
		snprintf(con.error, sizeof(con.error), "interrupted");
		con.failed = true;
	}
	return rc == CMDLINE_PARSE_AMBIGUOUS ? "ambiguous command"
	       : rc == CMDLINE_PARSE_NOMATCH ? "no such command ('help' lists them)"
	       : rc < 0                      ? "bad arguments ('help' shows them)"
	                                     : NULL;
}

const char *
console_run(struct cmdline *cl, const char *text)
{
	char line[EXPANDED_BYTES + 1], other[EXPANDED_BYTES] = "";
	const char *why = NULL, *outer = con.line;
	size_t n;

	text += strspn(text, " \t");
	n = strcspn(text, "\n");
	if (n == 0 || text[0] == '#')
		return NULL;
	if (con.attached) {
		why = attached_noun(text, &n, other);
		text = other[0] != '\0' ? other : text;
	}
	if (why == NULL && con.attached && !takes_rest(text) && needs_stack(text))
		why = CONSOLE_NO_STACK;
	if (why != NULL)
		line[0] = '\0';
	else if (takes_rest(text))
		snprintf(line, EXPANDED_BYTES, "%.*s", (int)n, text);
	else
		why = vars_expand(text, n, line, EXPANDED_BYTES);
	if (why == NULL) {
		strcat(line, "\n");
		con.line = text;
		why = parse(cl, line);
		con.line = outer;
	}
	if (why != NULL && con.misused[0] == '\0')
		snprintf(con.misused, sizeof(con.misused), "%.*s", (int)n, text);
	return why;
}

/** Whether a usage begins with the first n octets of the line that could not be run. */
static bool
begins(const char *usage, size_t n)
{
	return strncmp(usage, con.misused, n) == 0 && strchr(" :", usage[n]) != NULL;
}

/** Length of the line's first word, or of its first two if a command has them. */
static size_t
misused_words(void)
{
	const size_t one = strcspn(con.misused, " \t");
	size_t two = one;

	if (con.misused[one] != '\0')
		two += 1 + strcspn(con.misused + one + 1, " \t");
	for (unsigned int i = 0; two > one && con.commands[i] != NULL; i++)
		if (begins(con.commands[i]->help_str, two))
			return two;
	return one;
}

void
console_usage(void)
{
	const size_t n = misused_words();

	if (console_show_usage(con.misused, strcspn(con.misused, " \t"))) {
		con.misused[0] = '\0';
		return;
	}
	for (unsigned int i = 0; n > 0 && con.commands[i] != NULL; i++)
		if (begins(con.commands[i]->help_str, n) && !console_usage_again(i))
			console_usage_print(con.commands[i]->help_str);
	con.misused[0] = '\0';
}

/** Run a line that shows something; print what it shows broken between words, but in one go. */
static const char *
run_broken(struct cmdline *cl, const char *text)
{
	struct output o;
	const char *why;

	if (output_begin(&o) != 0)
		return console_run(cl, text);
	why = console_run(o.cl, text);
	rows_output(cl, text, output_text(&o));
	output_end(&o);
	return why;
}

bool
console_run_within(struct cmdline *cl, const char *text)
{
	const char *why =
	        cl == con.prompt && rows_shows(text) ? run_broken(cl, text) : console_run(cl, text);

	if (why != NULL)
		console_fail(cl, "%s: %.*s", why, (int)strcspn(text, "\n"), text);
	return !con.failed;
}
