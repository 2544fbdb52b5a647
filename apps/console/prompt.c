/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The prompt on a terminal: DPDK's line editor with completion and history. A line that
 * cannot be run gets the console's own message. Events that come while a line is edited are printed
 * above it. While a command runs, Ctrl-C sends SIGINT; while a
 * line is edited, it is a key.
 */
#define ALLOW_EXPERIMENTAL_API /* rdline_new() */

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cmdline_rdline.h>

#include "complete.h"
#include "console.h"
#include "log_lines.h"
#include "pager.h"
#include "rows.h"
#include "script.h"
#include "ui.h"

#define PROMPT       "weft> "
#define KEY_LINE_END 0x05 /* Ctrl-E */
/** From the beginning of the cursor's row on. */
#define ERASE_BELOW "\r\033[J"

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
	why = rows_shows(text) ? pager_run(cl, text) : console_run(cl, text);
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
	const int rc = complete_word(console_inner(text), state, dst, dst_size);

	return rc >= 0 ? rc
	               : cmdline_complete(rdline_get_opaque(rdl), console_inner(text), state, dst,
	                                  dst_size);
}

static void
prompt_recall(void *arg, const char *line)
{
	rdline_add_history(arg, line);
}

/** What is printed while a line is edited. */
struct edit {
	struct rdline *rdl;
	struct output told;
};

/** Erase the line that is edited, with the rows that it fills. */
static void
erase_line(struct rdline *rdl)
{
	const size_t typed = strlen(rdline_get_buffer(rdl)) - 1; /* without its newline */
	unsigned int rows = 0;
	char up[16];
	struct winsize w;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0)
		rows = (unsigned int)((sizeof(PROMPT) - 1 + typed) / w.ws_col);
	if (rows > 0) {
		/* The cursor may be in any of the rows: it goes to the end of the text. */
		rdline_char_in(rdl, KEY_LINE_END);
		rows_put(up, (size_t)snprintf(up, sizeof(up), "\033[%uA", rows));
	}
	rows_put(ERASE_BELOW, sizeof(ERASE_BELOW) - 1);
}

/** Print what events have told, above the line that is edited. */
static void
show_told(void *arg)
{
	struct edit *e = arg;
	const char *text = output_text(&e->told);

	if (text[0] == '\0')
		return;
	erase_line(e->rdl);
	rows_lines(text);
	output_clear(&e->told);
	rdline_redisplay(e->rdl);
}

/** Take one key. The line editor's answer; RDLINE_RES_EOF when there are no more. */
static int
prompt_key(struct edit *e)
{
	struct rdline *rdl = e->rdl;
	const char *line;
	int rc;
	char c;

	if (!console_until_readable(e->told.cl, STDIN_FILENO, show_told, e)) {
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
	struct edit e = {.rdl = rdl};
	int rc = RDLINE_RES_SUCCESS;

	if (rdl == NULL)
		return -1;
	if (output_begin(&e.told) != 0) {
		rdline_free(rdl);
		return -1;
	}
	con.prompt = cl;
	log_lines_begin();
	history_open(prompt_recall, rdl);
	rdline_newline(rdl, PROMPT);
	while (!con.quit && rc != RDLINE_RES_EOF && rc != RDLINE_RES_EXITED)
		rc = prompt_key(&e);
	history_close();
	log_lines_end();
	console_drain(cl);
	con.prompt = NULL;
	output_end(&e.told);
	rdline_free(rdl);
	return 0;
}
