/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The list of all commands, and help. */

#include <string.h>

#include "console.h"
#include "ui.h"

#define MAX_CMDS      256
#define USAGE_COLUMNS 76

static cmdline_parse_ctx_t commands[MAX_CMDS + 1];
/** The heading that help prints before a command; NULL: none. */
static const char *headings[MAX_CMDS + 1];

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
	for (unsigned int i = 0; commands[i] != NULL; i++) {
		if (headings[i] != NULL)
			cmdline_printf(cl, "%s\n", headings[i]);
		if (!console_usage_again(i))
			print_usage(cl, commands[i]->help_str);
	}
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

static cmdline_parse_inst_t *const cmds_general[] = {&cmd_help_, &cmd_help_command_, &cmd_quit_,
                                                     NULL};

/** All tables in the order of help; heading NULL: of the group before. */
static const struct {
	const char *heading;
	cmdline_parse_inst_t *const *table;
} tables[] = {
        {NULL, cmds_general},
        {"Looking", cmds_show},
        {NULL, cmds_show_noun},
        {NULL, cmds_watch},
        {"Connections", cmds_conn},
        {NULL, cmds_terminate},
        {"Memory and shared receive queues", cmds_mem},
        {NULL, cmds_window},
        {NULL, cmds_srq},
        {"Work requests and transactions", cmds_post},
        {NULL, cmds_local},
        {NULL, cmds_commit},
        {"Logs", cmds_log},
        {"RPC", cmds_rpc},
        {"Captures", cmds_capture},
        {NULL, cmds_show_capture},
        {"Traffic and faults", cmds_traffic},
        {NULL, cmds_own_show},
        {NULL, cmds_inject},
        {NULL, cmds_show_inject},
        {"Settings", cmds_set},
        {"Scripts", cmds_script},
        {NULL, cmds_expect},
};

static void
collect(const char *heading, cmdline_parse_inst_t *const *table)
{
	unsigned int n = 0;

	while (commands[n] != NULL)
		n++;
	headings[n] = heading;
	for (; *table != NULL && n < MAX_CMDS; table++)
		commands[n++] = *table;
}

cmdline_parse_ctx_t *
console_commands(void)
{
	static cmdline_parse_inst_t *const *const of_stack[] = {
	        cmds_conn,    cmds_mem,     cmds_post, cmds_window,    cmds_local,
	        cmds_srq,     cmds_log,     cmds_rpc,  cmds_terminate, cmds_commit,
	        cmds_capture, cmds_traffic, cmds_set,  cmds_inject,    NULL};

	con.of_stack = of_stack;
	if (commands[0] != NULL)
		return commands;
	for (unsigned int i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		collect(tables[i].heading, tables[i].table);
	return commands;
}
