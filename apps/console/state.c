/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The state of the console, and what every command uses: argument tokens, errors, usages,
 * numbered objects. */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console.h"
#include "ui.h"

#define TERMINAL_COLUMNS 79u /* a line of 80 would end in the next one on some terminals */
#define INDENT           "    "

struct console con;

cmdline_parse_token_string_t tok_s1 = TOKEN_STRING_INITIALIZER(struct cmd_args, s1, NULL);
cmdline_parse_token_string_t tok_s2 = TOKEN_STRING_INITIALIZER(struct cmd_args, s2, NULL);
cmdline_parse_token_string_t tok_rest =
        TOKEN_STRING_INITIALIZER(struct rest_args, rest, TOKEN_STRING_MULTI);
cmdline_parse_token_num_t tok_rest_a = TOKEN_NUM_INITIALIZER(struct rest_args, a, RTE_UINT64);
cmdline_parse_token_num_t tok_a = TOKEN_NUM_INITIALIZER(struct cmd_args, a, RTE_UINT64);
cmdline_parse_token_num_t tok_b = TOKEN_NUM_INITIALIZER(struct cmd_args, b, RTE_UINT64);
cmdline_parse_token_num_t tok_c = TOKEN_NUM_INITIALIZER(struct cmd_args, c, RTE_UINT64);
cmdline_parse_token_num_t tok_d = TOKEN_NUM_INITIALIZER(struct cmd_args, d, RTE_UINT64);
cmdline_parse_token_num_t tok_e = TOKEN_NUM_INITIALIZER(struct cmd_args, e, RTE_UINT64);
cmdline_parse_token_num_t tok_f = TOKEN_NUM_INITIALIZER(struct cmd_args, f, RTE_UINT64);
cmdline_parse_token_num_t tok_g = TOKEN_NUM_INITIALIZER(struct cmd_args, g, RTE_UINT64);

/** How much of a text goes into a line of so many columns, up to a blank; all of it if none. */
static size_t
line_length(const char *text, size_t columns)
{
	size_t n = columns;

	if (strlen(text) <= columns)
		return strlen(text);
	while (n > 0 && text[n] != ' ')
		n--;
	return n > 0 ? n : strcspn(text, " ");
}

static void
fail(struct cmdline *cl, const char *fmt, va_list ap)
{
	/* What commands print into memory is broken by the pages, if at all. */
	const bool breaks = con.prompt == cl && isatty(STDOUT_FILENO);
	const char *rest = con.error;
	size_t n;

	vsnprintf(con.error, sizeof(con.error), fmt, ap);
	n = breaks ? line_length(rest, TERMINAL_COLUMNS - strlen("error: ")) : strlen(rest);
	cmdline_printf(cl, "error: %.*s\n", (int)n, rest);
	for (rest += n; *rest != '\0'; rest += n) {
		rest += strspn(rest, " ");
		n = line_length(rest, TERMINAL_COLUMNS - strlen(INDENT));
		cmdline_printf(cl, INDENT "%.*s\n", (int)n, rest);
	}
	con.failed = true;
}

void
console_fail(struct cmdline *cl, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fail(cl, fmt, ap);
	va_end(ap);
}

void
console_wrong(struct cmdline *cl, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fail(cl, fmt, ap);
	va_end(ap);
	if (con.misused[0] == '\0' && con.line != NULL)
		snprintf(con.misused, sizeof(con.misused), "%.*s", (int)strcspn(con.line, "\n"),
		         con.line);
}

void
console_misuse(struct cmdline *cl, const char *words, const char *why)
{
	console_fail(cl, "%.*s: %s", (int)strcspn(words, " "), words, why);
	if (con.misused[0] == '\0')
		snprintf(con.misused, sizeof(con.misused), "%s", words);
}

void
console_usage_print(const char *usage)
{
	const size_t first = TERMINAL_COLUMNS - strlen(ui_progname()) - strlen(": usage: ");
	size_t n = isatty(STDERR_FILENO) ? line_length(usage, first) : strlen(usage);

	ui_msg("usage: %.*s", (int)n, usage);
	for (usage += n; *usage != '\0'; usage += n) {
		usage += strspn(usage, " ");
		n = line_length(usage, TERMINAL_COLUMNS - strlen(INDENT));
		fprintf(stderr, INDENT "%.*s\n", (int)n, usage);
	}
}

bool
console_usage_again(unsigned int i)
{
	return i > 0 && con.commands[i]->help_str == con.commands[i - 1]->help_str;
}

bool
console_has_stack(struct cmdline *cl)
{
	if (con.attached)
		console_fail(cl, CONSOLE_NO_STACK);
	return !con.attached;
}

struct console_qp *
console_qp(struct cmdline *cl, uint64_t n)
{
	if (n >= 1 && n <= CONSOLE_MAX_QPS && con.qps[n].used)
		return &con.qps[n];
	console_fail(cl, "there is no qp %llu; 'show qps' lists them", (unsigned long long)n);
	return NULL;
}

struct console_region *
console_region(struct cmdline *cl, uint64_t n)
{
	if (n >= 1 && n <= CONSOLE_MAX_REGIONS && con.regions[n].used)
		return &con.regions[n];
	console_fail(cl, "there is no region %llu; 'show regions' lists them",
	             (unsigned long long)n);
	return NULL;
}

struct console_region *
console_region_named(struct cmdline *cl, const char *number)
{
	char *end;
	const uint64_t n = strtoull(number, &end, 0);

	if (*end == '\0')
		return console_region(cl, n);
	console_fail(cl, "'%s' is no region; 'show regions' lists them", number);
	return NULL;
}

struct console_window *
console_window(struct cmdline *cl, uint64_t n)
{
	if (n >= 1 && n <= CONSOLE_MAX_WINDOWS && con.windows[n].used)
		return &con.windows[n];
	console_fail(cl, "there is no window %llu; 'show windows' lists them",
	             (unsigned long long)n);
	return NULL;
}

struct console_srq *
console_srq(struct cmdline *cl, uint64_t n)
{
	if (n >= 1 && n <= CONSOLE_MAX_SRQS && con.srqs[n].used)
		return &con.srqs[n];
	console_fail(cl, "there is no srq %llu; 'show srqs' lists them", (unsigned long long)n);
	return NULL;
}
