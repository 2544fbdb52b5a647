/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file What a command of the prompt prints, one page of the terminal at a time. Commands that only
 * show something print into memory first. A line that is wider than the terminal is broken between
 * words. Events that come while a page is looked at are added to its end.
 */

#include "pager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rows.h"
#include "script.h"

/** What the last line of a page says; it leaves room for the percentage in 40 columns. */
#define MORE  "--More-- %u %% (space, Enter, q)"
#define ERASE "\r\033[K"

enum key { KEY_PAGE, KEY_LINE, KEY_END };

/** Wait for a key that does something; events that come are printed into o. */
static enum key
next_key(struct output *o)
{
	char c;

	while (console_until_readable(o->cl, STDIN_FILENO, NULL, NULL) &&
	       read(STDIN_FILENO, &c, 1) == 1)
		switch (c) {
		case ' ':
		case 'f':
			return KEY_PAGE;
		case '\r':
		case '\n':
		case 'j':
			return KEY_LINE;
		case 'q':
		case 'Q':
		case 3: /* Ctrl-C, where it is a key */
		case 4: /* Ctrl-D */
			return KEY_END;
		default:
			break;
		}
	return KEY_END;
}

/** Show what was printed into o; `mine` octets of it are the command's, events may follow. */
static void
show_pages(struct output *o, size_t mine, bool breaks)
{
	struct rows_at p = {.breaks = breaks};
	enum key key = KEY_PAGE;
	char more[64];
	unsigned int rows, columns;
	const char *text = output_text(o);

	while (text[p.at] != '\0' && rows_window(&rows, &columns)) {
		rows_print(&p, text, key == KEY_LINE ? 1 : rows - 1, columns);
		if (text[p.at] == '\0')
			return;
		rows_put(more, (size_t)snprintf(more, sizeof(more), MORE,
		                                (unsigned int)(p.at * 100 / strlen(text))));
		key = next_key(o);
		rows_put(ERASE, sizeof(ERASE) - 1);
		text = output_text(o);
		if (key == KEY_END)
			break;
	}
	/* Of a terminal that has become too small, all. */
	if (key == KEY_END && p.at < mine)
		p.at = mine;
	rows_put(text + p.at, strlen(text + p.at));
}

const char *
pager_run(struct cmdline *cl, const char *line)
{
	struct output o;
	const char *why;
	bool ended;

	if (output_begin(&o) != 0)
		return console_run(cl, line);
	why = console_run(o.cl, line);
	ended = interrupted();
	/* A line of JSON stays one. */
	show_pages(&o, strlen(output_text(&o)), strstr(line, " json") == NULL);
	/* Ctrl-C that only left the pages interrupted no command. */
	if (!ended)
		interrupt_clear();
	output_end(&o);
	return why;
}
