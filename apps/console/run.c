/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The list of all commands, and help. */

#include <string.h>

#include "console.h"
#include "ui.h"

#define MAX_CMDS      256
#define USAGE_COLUMNS 76

static cmdline_parse_ctx_t commands[MAX_CMDS + 1];

WORD(tok_help, verb, "help");
WORD(tok_quit, verb, "quit#exit");

/** Print a command's usage; in two lines if one were wider than a terminal. */
static void
print_usage(struct cmdline *cl, const char *usage)
{
	const char *colon = strlen(usage) > USAGE_COLUMNS ? strstr(usage, ": ") : NULL;

	if (colon != NULL)
		cmdline_printf(cl, "  %.*s:\n      %s\n", (int)(colon - usage), usage, colon + 2);
	else
		cmdline_printf(cl, "  %s\n", usage);
}

static void
cmd_help(void *arg, struct cmdline *cl, void *data)
{
	(void)arg;
	(void)data;
	for (unsigned int i = 0; commands[i] != NULL; i++)
		if (!console_usage_again(i))
			print_usage(cl, commands[i]->help_str);
	cmdline_printf(cl, "Numbers may be hexadecimal (0x...). Offsets are tagged offsets.\n"
	                   "$NAME is a variable. 'help COMMAND' shows an example.\n");
}

/** help COMMAND: usage and an example of the commands that begin so. */
static void
cmd_help_command(void *arg, struct cmdline *cl, void *data)
{
	char *words = ((struct rest_args *)arg)->rest;
	size_t len = strlen(words);
	unsigned int n = 0;

	(void)data;
	while (len > 0 && strchr(" \t\r", words[len - 1]) != NULL)
		words[--len] = '\0';
	for (unsigned int i = 0; commands[i] != NULL; i++) {
		const char *usage = commands[i]->help_str, *example = console_example(usage);

		if (strncmp(usage, words, len) != 0 || console_usage_again(i))
			continue;
		print_usage(cl, usage);
		if (example != NULL)
			cmdline_printf(cl, "      example: %s\n", example);
		n++;
	}
	if (n == 0)
		console_fail(cl, "help: no command begins with '%s'", words);
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
static CMD(cmd_help_command_, cmd_help_command,
           "help COMMAND: the commands that begin so, each with an example", (void *)&tok_help,
           (void *)&tok_rest);
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

cmdline_parse_ctx_t *
console_commands(void)
{
	static cmdline_parse_inst_t *const *const of_stack[] = {
	        cmds_conn,    cmds_mem, cmds_post,      cmds_local,  cmds_srq,
	        cmds_log,     cmds_rpc, cmds_terminate, cmds_commit, cmds_capture,
	        cmds_traffic, cmds_set, cmds_inject,    NULL};
	static cmdline_parse_inst_t *const general[] = {&cmd_help_, &cmd_help_command_, &cmd_quit_,
	                                                NULL};

	con.of_stack = of_stack;
	if (commands[0] == NULL) {
		collect(general);
		collect(cmds_show);
		collect(cmds_show_noun);
		collect(cmds_watch);
		collect(cmds_conn);
		collect(cmds_mem);
		collect(cmds_post);
		collect(cmds_local);
		collect(cmds_srq);
		collect(cmds_terminate);
		collect(cmds_commit);
		collect(cmds_log);
		collect(cmds_rpc);
		collect(cmds_capture);
		collect(cmds_traffic);
		collect(cmds_own_show);
		collect(cmds_show_capture);
		collect(cmds_show_inject);
		collect(cmds_inject);
		collect(cmds_set);
		collect(cmds_script);
		collect(cmds_expect);
	}
	return commands;
}
