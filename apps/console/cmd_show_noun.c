/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Nouns of show that telemetry answers: show NOUN, rates NOUN, clear. */

#include <string.h>

#include "console.h"
#include "show.h"
#include "ui.h"

/** As struct cmd_args, with the rest of the line. */
struct show_args {
	cmdline_fixed_string_t verb, noun;
	cmdline_multi_string_t rest;
};

#define SHOW_WORD(id, field, text)                                                                 \
	static cmdline_parse_token_string_t id =                                                   \
	        TOKEN_STRING_INITIALIZER(struct show_args, field, text)

/* Nouns of cmd_show.c, which shows those of this process in its own form. */
#define OLD_NOUNS "port#connections#qps#regions#counters#polls#drivers"
#define NEW_NOUNS                                                                                  \
	"ports#xstats#interfaces#neighbours#routes#group#tcp#tcp-timers#tcp-counters#local-ports#" \
	"mpa#ddp#rdmap#faults#messages#qp#cq#srq#mr#mw#objects#workers#timers#pools#limits#guard#" \
	"exports#clients#grants#tickets#calls#replies"

SHOW_WORD(tok_show, verb, "show");
SHOW_WORD(tok_rates, verb, "rates");
SHOW_WORD(tok_clear, verb, "clear");
SHOW_WORD(tok_nouns, noun, "nouns");
SHOW_WORD(tok_new, noun, NEW_NOUNS);
SHOW_WORD(tok_any, noun, NEW_NOUNS "#" OLD_NOUNS);
SHOW_WORD(show_rest, rest, TOKEN_STRING_MULTI);

static void
cmd_show(void *arg, struct cmdline *cl, void *data)
{
	const struct show_args *a = arg;

	/* data: whether the line has a rest. */
	show_run(cl, a->noun, data != NULL ? a->rest : "");
}

static void
cmd_rates(void *arg, struct cmdline *cl, void *data)
{
	const struct show_args *a = arg;
	char words[sizeof(a->rest) + 8];

	snprintf(words, sizeof(words), "rates %s", data != NULL ? a->rest : "");
	show_run(cl, a->noun, words);
}

static void
cmd_clear(void *arg, struct cmdline *cl, void *data)
{
	const struct show_args *a = arg;

	show_clear(cl, data != NULL ? a->noun : NULL);
}

static void
cmd_nouns(void *arg, struct cmdline *cl, void *data)
{
	(void)arg;
	(void)data;
	show_list(cl);
}

bool
console_show_usage(const char *word, size_t n)
{
	static const char *const verbs[] = {"show", "rates"};
	char usage[128];

	for (unsigned int i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (n == strlen(verbs[i]) && memcmp(word, verbs[i], n) == 0) {
			snprintf(usage, sizeof(usage),
			         "%s NOUN [OBJECT] [detail] [json] [where K=V]; 'show nouns' "
			         "lists them",
			         verbs[i]);
			console_usage_print(usage);
			return true;
		}
	return false;
}

#define SHOW_CMD(id, fn_, rest_, help_, ...)                                                       \
	static cmdline_parse_inst_t id = {                                                         \
	        .f = fn_, .data = rest_, .help_str = help_, .tokens = {__VA_ARGS__, NULL}}

static char has_rest;

SHOW_CMD(cmd_show_, cmd_show, NULL, "show NOUN: one that 'show nouns' lists", (void *)&tok_show,
         (void *)&tok_new);
SHOW_CMD(cmd_show_rest, cmd_show, &has_rest, "show NOUN [OBJECT] [detail] [json] [where K=V]",
         (void *)&tok_show, (void *)&tok_any, (void *)&show_rest);
SHOW_CMD(cmd_nouns_, cmd_nouns, NULL, "show nouns: what can be shown", (void *)&tok_show,
         (void *)&tok_nouns);
SHOW_CMD(cmd_rates_, cmd_rates, NULL, "rates NOUN: by the second since the last time",
         (void *)&tok_rates, (void *)&tok_any);
SHOW_CMD(cmd_rates_rest, cmd_rates, &has_rest, "rates NOUN [OBJECT] [detail] [json] [where K=V]",
         (void *)&tok_rates, (void *)&tok_any, (void *)&show_rest);
SHOW_CMD(cmd_clear_, cmd_clear, NULL, "clear: show counters as from zero from now on",
         (void *)&tok_clear);
SHOW_CMD(cmd_clear_noun, cmd_clear, &has_rest, "clear NOUN: those of one noun", (void *)&tok_clear,
         (void *)&tok_any);

cmdline_parse_inst_t *const cmds_show_noun[] = {
        &cmd_show_,      &cmd_show_rest, &cmd_nouns_,     &cmd_rates_,
        &cmd_rates_rest, &cmd_clear_,    &cmd_clear_noun, NULL};
