/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The commands, help, and how a line is run. */

#include <string.h>

#include "console.h"
#include "ui.h"

#define MAX_CMDS 64

static cmdline_parse_ctx_t commands[MAX_CMDS + 1];

WORD(tok_help, verb, "help");
WORD(tok_quit, verb, "quit#exit");

static void
cmd_help(void *arg, struct cmdline *cl, void *data)
{
	(void)arg;
	(void)data;
	for (unsigned int i = 0; commands[i] != NULL; i++)
		cmdline_printf(cl, "  %s\n", commands[i]->help_str);
	cmdline_printf(cl, "Numbers may be hexadecimal (0x...). Offsets are tagged offsets.\n");
}

/** help VERB: help of the commands that begin with VERB. */
static void
cmd_help_verb(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;
	unsigned int n = 0;

	(void)data;
	for (unsigned int i = 0; commands[i] != NULL; i++)
		if (strncmp(commands[i]->help_str, a->s1, strlen(a->s1)) == 0) {
			cmdline_printf(cl, "  %s\n", commands[i]->help_str);
			n++;
		}
	if (n == 0)
		console_fail(cl, "help: no command begins with '%s'", a->s1);
}

static void
cmd_quit(void *arg, struct cmdline *cl, void *data)
{
	(void)arg;
	(void)data;
	con.quit = true;
	cmdline_quit(cl);
}

static CMD(cmd_help_, cmd_help, "help: this list", (void *)&tok_help);
static CMD(cmd_help_verb_, cmd_help_verb, "help VERB: the commands that begin so",
           (void *)&tok_help, (void *)&tok_s1);
static CMD(cmd_quit_, cmd_quit, "quit: close everything and leave", (void *)&tok_quit);

static void
collect(cmdline_parse_inst_t *const *table)
{
	unsigned int n = 0;

	while (commands[n] != NULL)
		n++;
	for (; *table != NULL && n < MAX_CMDS; table++)
		commands[n++] = *table;
}

void
console_usage(const char *text)
{
	const char *word = text + strspn(text, " \t");
	const size_t n = strcspn(word, " \t\n");

	for (unsigned int i = 0; commands[i] != NULL; i++)
		if (strncmp(commands[i]->help_str, word, n) == 0 &&
		    strchr(" :", commands[i]->help_str[n]) != NULL)
			ui_msg("usage: %s", commands[i]->help_str);
}

const char *
console_run(struct cmdline *cl, const char *text)
{
	const char first = text[strspn(text, " \t")];
	int rc;

	if (first == '\n' || first == '\0' || first == '#')
		return NULL;
	rc = cmdline_parse(cl, text);
	return rc == CMDLINE_PARSE_AMBIGUOUS ? "ambiguous command"
	       : rc == CMDLINE_PARSE_NOMATCH ? "no such command ('help' lists them)"
	       : rc < 0                      ? "bad arguments ('help' shows them)"
	                                     : NULL;
}

cmdline_parse_ctx_t *
console_commands(void)
{
	static cmdline_parse_inst_t *const general[] = {&cmd_help_, &cmd_help_verb_, &cmd_quit_,
	                                                NULL};

	if (commands[0] == NULL) {
		collect(general);
		collect(cmds_show);
		collect(cmds_conn);
		collect(cmds_mem);
		collect(cmds_post);
		collect(cmds_capture);
	}
	return commands;
}
