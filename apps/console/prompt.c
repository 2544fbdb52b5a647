/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The prompt on a terminal: DPDK's line editor with completion and history. A line that
 * cannot be run gets the console's own message.
 */
#define ALLOW_EXPERIMENTAL_API /* rdline_new() */

#include <string.h>
#include <unistd.h>

#include <cmdline_rdline.h>

#include "console.h"
#include "ui.h"

#define PROMPT "weft> "

static int
prompt_put(struct rdline *rdl, char c)
{
	(void)rdl;
	return write(STDOUT_FILENO, &c, 1) == 1 ? 0 : -1;
}

static void
prompt_line(struct rdline *rdl, const char *text, unsigned int size)
{
	struct cmdline *cl = rdline_get_opaque(rdl);
	const char *why;

	(void)size;
	con.failed = false;
	why = console_run(cl, text);
	if (why == NULL)
		return;
	cmdline_printf(cl, "error: %s\n", why);
	console_usage(text);
}

static int
prompt_complete(struct rdline *rdl, const char *text, char *dst, unsigned int dst_size, int *state)
{
	return cmdline_complete(rdline_get_opaque(rdl), text, state, dst, dst_size);
}

int
console_prompt(struct cmdline *cl)
{
	struct rdline *rdl = rdline_new(prompt_put, prompt_line, prompt_complete, cl);
	int rc = RDLINE_RES_SUCCESS;
	char c;

	if (rdl == NULL)
		return -1;
	rdline_newline(rdl, PROMPT);
	while (!con.quit && rc != RDLINE_RES_EOF && rc != RDLINE_RES_EXITED) {
		console_until_readable(cl, STDIN_FILENO);
		if (read(STDIN_FILENO, &c, 1) != 1)
			break;
		rc = rdline_char_in(rdl, c);
		if (rc != RDLINE_RES_VALIDATED || con.quit)
			continue;
		if (rdline_get_buffer(rdl)[strspn(rdline_get_buffer(rdl), " \t\n")] != '\0')
			rdline_add_history(rdl, rdline_get_buffer(rdl));
		rdline_newline(rdl, PROMPT);
	}
	rdline_free(rdl);
	return 0;
}
