/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file What a command of the prompt prints, one page of the terminal at a time. Commands that only
 * show something print into memory first. Events that come while a page is looked at are added to
 * its end.
 */

#include "pager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "script.h"

/** What the last line of a page says; it leaves room for the percentage in 40 columns. */
#define MORE  "--More-- %u %% (space, Enter, q)"
#define ERASE "\r\033[K"
/** Fewer rows have no room for a page. */
#define ROWS_MIN 3u

enum key { KEY_PAGE, KEY_LINE, KEY_END };

static void
put(const char *text, size_t n)
{
	while (n > 0) {
		const ssize_t done = write(STDOUT_FILENO, text, n);

		if (done <= 0)
			return;
		text += done;
		n -= (size_t)done;
	}
}

/** Rows and columns of the terminal. False: it has none, or too few. */
static bool
window(unsigned int *rows, unsigned int *columns)
{
	struct winsize w;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_row < ROWS_MIN || w.ws_col == 0)
		return false;
	*rows = w.ws_row;
	*columns = w.ws_col;
	return true;
}

/** Octets of the text that fill at most so many rows, in whole lines, one at least. */
static size_t
fill(const char *text, unsigned int rows, unsigned int columns)
{
	size_t n = 0;

	while (text[n] != '\0') {
		const size_t line = strcspn(text + n, "\n");
		const unsigned int need =
		        line == 0 ? 1 : (unsigned int)((line + columns - 1) / columns);

		if (need > rows && n > 0)
			break;
		rows -= need < rows ? need : rows;
		n += line + (text[n + line] == '\n');
	}
	return n;
}

/** Wait for a key that does something; events that come are printed into o. */
static enum key
next_key(struct output *o)
{
	char c;

	while (console_until_readable(o->cl, STDIN_FILENO) && read(STDIN_FILENO, &c, 1) == 1)
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
show_pages(struct output *o, size_t mine)
{
	enum key key = KEY_PAGE;
	char more[64];
	unsigned int rows, columns;
	const char *text = output_text(o);
	size_t at = 0, n;

	while (text[at] != '\0') {
		n = strlen(text + at);
		if (window(&rows, &columns))
			n = fill(text + at, key == KEY_LINE ? 1 : rows - 1, columns);
		put(text + at, n);
		at += n;
		if (text[at] == '\0')
			return;
		put(more, (size_t)snprintf(more, sizeof(more), MORE,
		                           (unsigned int)(at * 100 / strlen(text))));
		key = next_key(o);
		put(ERASE, sizeof(ERASE) - 1);
		text = output_text(o);
		if (key == KEY_END) {
			at = at > mine ? at : mine;
			put(text + at, strlen(text + at));
			return;
		}
	}
}

bool
pager_takes(const char *line)
{
	static const char *const verbs[] = {"help", "show", "rates", "dump", "let"};
	const size_t n = strcspn(line += strspn(line, " \t"), " \t\n");
	unsigned int rows, columns;

	for (unsigned int i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (n == strlen(verbs[i]) && memcmp(line, verbs[i], n) == 0)
			return isatty(STDIN_FILENO) && window(&rows, &columns);
	return false;
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
	show_pages(&o, strlen(output_text(&o)));
	/* Ctrl-C that only left the pages interrupted no command. */
	if (!ended)
		interrupt_clear();
	output_end(&o);
	return why;
}
