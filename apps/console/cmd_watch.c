/* SPDX-License-Identifier: BSD-3-Clause */
/** @file watch N [xK] show ...: a command of show again and again. */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "console.h"
#include "script.h"
#include "show.h"
#include "table.h"

#define WATCH_MAX_S    86400
#define LINE_MAX_BYTES 1000

struct watch_args {
	cmdline_fixed_string_t verb;
	cmdline_multi_string_t rest;
};

static cmdline_parse_token_string_t tok_watch =
        TOKEN_STRING_INITIALIZER(struct watch_args, verb, "watch");
static cmdline_parse_token_string_t watch_rest =
        TOKEN_STRING_INITIALIZER(struct watch_args, rest, TOKEN_STRING_MULTI);

/** Ctrl-C, a key, or the end of the input. */
static bool
watch_ends(void *arg)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};

	(void)arg;
	return interrupted() || poll(&in, 1, 0) > 0;
}

/** Only of a count: the input is the script, and does not end the command. */
static bool
watch_interrupted(void *arg)
{
	(void)arg;
	return interrupted();
}

static void
heading(struct cmdline *cl, const char *line, double seconds)
{
	const time_t now = time(NULL);
	struct tm tm;
	char at[16];

	if (strstr(line, "json") != NULL)
		return;
	strftime(at, sizeof(at), "%H:%M:%S", localtime_r(&now, &tm));
	if (isatty(STDOUT_FILENO))
		cmdline_printf(cl, "\033[H\033[J%s  every %g s: %s (any key ends)\n\n", at, seconds,
		               line);
	else
		cmdline_printf(cl, "%s %s\n", at, line);
}

/** Whether "show NOUN" is a command of the console, and not a noun of telemetry. */
static bool
own_noun(const char *noun)
{
	static cmdline_parse_inst_t *const *const tables[] = {cmds_own_show, cmds_show_capture,
	                                                      cmds_show_inject};
	const size_t n = strlen(noun);

	for (unsigned int t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
		for (unsigned int i = 0; tables[t][i] != NULL; i++) {
			const char *help = tables[t][i]->help_str + strlen("show ");

			if (strncmp(help, noun, n) == 0 && strchr(" :", help[n]) != NULL)
				return true;
		}
	return false;
}

/** Run "show NOUN WORDS" or "rates NOUN WORDS". False after a message. */
static bool
run_line(struct cmdline *cl, const char *line)
{
	const char *whole = line;
	char verb[16], noun[64], words[LINE_MAX_BYTES + 8];

	if (!table_word(&line, verb, sizeof(verb)) || !table_word(&line, noun, sizeof(noun))) {
		console_wrong(cl, "watch: show what?");
		return false;
	}
	if (strcmp(verb, "show") == 0 && own_noun(noun))
		return console_run_within(cl, whole);
	snprintf(words, sizeof(words), "%s%s", strcmp(verb, "rates") == 0 ? "rates" : "", line);
	return show_run(cl, noun, words);
}

/** Run the line `times` times; 0: until watch_ends(). */
static void
repeat(struct cmdline *cl, const char *line, double seconds, unsigned long times)
{
	bool ends = false;
	char key;

	for (unsigned long i = 1; !ends; i++) {
		heading(cl, line, seconds);
		if (!run_line(cl, line) || i == times)
			break;
		ends = console_wait(cl, (uint32_t)(seconds * 1000),
		                    times > 0 ? watch_interrupted : watch_ends, NULL);
	}
	if (ends && !interrupted() && isatty(STDIN_FILENO) && read(STDIN_FILENO, &key, 1) < 0)
		con.failed = true;
}

static void
cmd_watch(void *arg, struct cmdline *cl, void *data)
{
	const struct watch_args *a = arg;
	const char *rest = a->rest;
	char word[32], line[LINE_MAX_BYTES], *end;
	unsigned long times = 0;
	double seconds = 0;

	(void)data;
	if (table_word(&rest, word, sizeof(word))) {
		seconds = strtod(word, &end);
		seconds = *end == '\0' ? seconds : 0;
	}
	rest += strspn(rest, " \t");
	if (rest[0] == 'x') {
		table_word(&rest, word, sizeof(word));
		times = strtoul(word + 1, &end, 10);
		if (*end != '\0' || times == 0)
			seconds = 0;
		rest += strspn(rest, " \t");
	}
	snprintf(line, sizeof(line), "%s", rest);
	if (!(seconds >= 0.1 && seconds <= WATCH_MAX_S) ||
	    (strncmp(line, "show ", 5) != 0 && strncmp(line, "rates ", 6) != 0)) {
		console_fail(cl,
		             "watch: usage: watch SECONDS [xTIMES] show ... (or rates ...), from "
		             "0.1 s on");
		return;
	}
	repeat(cl, line, seconds, times);
}

static CMD(cmd_watch_, cmd_watch, "watch SECONDS [xTIMES] show ...: until a key",
           (void *)&tok_watch, (void *)&watch_rest);

cmdline_parse_inst_t *const cmds_watch[] = {&cmd_watch_, NULL};
