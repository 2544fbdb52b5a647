/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The prompt on a terminal: DPDK's line editor with completion and history. A line that
 * cannot be run gets the console's own message. While a command runs, Ctrl-C sends SIGINT; while a
 * line is edited, it is a key.
 */
#define ALLOW_EXPERIMENTAL_API /* rdline_new() */

#include <string.h>
#include <termios.h>
#include <unistd.h>

#include <cmdline_rdline.h>

#include "console.h"
#include "options.h"
#include "pager.h"
#include "script.h"
#include "ui.h"

#define PROMPT "weft> "

static int
prompt_put(struct rdline *rdl, char c)
{
	(void)rdl;
	return write(STDOUT_FILENO, &c, 1) == 1 ? 0 : -1;
}

static void
keys_are_signals(bool on)
{
	struct termios t;

	if (tcgetattr(STDIN_FILENO, &t) != 0)
		return;
	if (on)
		t.c_lflag |= ISIG;
	else
		t.c_lflag &= ~(tcflag_t)ISIG;
	tcsetattr(STDIN_FILENO, TCSANOW, &t);
}

static void
prompt_line(struct rdline *rdl, const char *text, unsigned int size)
{
	struct cmdline *cl = rdline_get_opaque(rdl);
	const char *why;

	(void)size;
	con.failed = false;
	con.said = false;
	con.misused[0] = '\0';
	interrupt_clear();
	keys_are_signals(true);
	why = pager_takes(text) ? pager_run(cl, text) : console_run(cl, text);
	keys_are_signals(false);
	if (interrupted())
		cmdline_printf(cl, "interrupted\n");
	interrupt_clear();
	if (why != NULL)
		cmdline_printf(cl, "error: %s\n", why);
	console_usage();
}

static int
prompt_complete(struct rdline *rdl, const char *text, char *dst, unsigned int dst_size, int *state)
{
	const int rc = options_complete(console_inner(text), state, dst, dst_size);

	return rc >= 0 ? rc
	               : cmdline_complete(rdline_get_opaque(rdl), console_inner(text), state, dst,
	                                  dst_size);
}

static void
prompt_recall(void *arg, const char *line)
{
	rdline_add_history(arg, line);
}

/** Take one key. The line editor's answer; RDLINE_RES_EOF when there are no more. */
static int
prompt_key(struct cmdline *cl, struct rdline *rdl)
{
	const char *line;
	int rc;
	char c;

	if (!console_until_readable(cl, STDIN_FILENO)) {
		/* A SIGINT that another process sent. */
		if (!interrupted())
			return RDLINE_RES_EOF;
		interrupt_clear();
		return RDLINE_RES_SUCCESS;
	}
	if (read(STDIN_FILENO, &c, 1) != 1)
		return RDLINE_RES_EOF;
	rc = rdline_char_in(rdl, c);
	if (rc != RDLINE_RES_VALIDATED || con.quit)
		return rc;
	line = rdline_get_buffer(rdl);
	if (line[strspn(line, " \t\n")] != '\0') {
		rdline_add_history(rdl, line);
		history_add(line);
	}
	rdline_newline(rdl, PROMPT);
	return rc;
}

int
console_prompt(struct cmdline *cl)
{
	struct rdline *rdl = rdline_new(prompt_put, prompt_line, prompt_complete, cl);
	int rc = RDLINE_RES_SUCCESS;

	if (rdl == NULL)
		return -1;
	con.prompt = cl;
	history_open(prompt_recall, rdl);
	rdline_newline(rdl, PROMPT);
	while (!con.quit && rc != RDLINE_RES_EOF && rc != RDLINE_RES_EXITED)
		rc = prompt_key(cl, rdl);
	history_close();
	con.prompt = NULL;
	rdline_free(rdl);
	return 0;
}
