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
#include <sys/ioctl.h>
#include <unistd.h>

#include "script.h"

/** What the last line of a page says; it leaves room for the percentage in 40 columns. */
#define MORE  "--More-- %u %% (space, Enter, q)"
#define ERASE "\r\033[K"
/** Less has no room for a page. */
#define ROWS_MIN    3u
#define COLUMNS_MIN 20u
#define INDENT      4u /**< of the rest of a line that was broken */

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

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_row < ROWS_MIN ||
	    w.ws_col < COLUMNS_MIN)
		return false;
	*rows = w.ws_row;
	*columns = w.ws_col;
	return true;
}

/** Where the output stands. */
struct pages {
	bool breaks;    /**< lines between words; else where the terminal breaks them */
	bool continued; /**< the last row was not the end of its line */
	size_t at;      /**< of the next octet */
};

/** Octets of the next row, in which `room` have a place. */
static size_t
row_bytes(const char *text, unsigned int room, bool breaks)
{
	const size_t n = strcspn(text, "\n");

	if (n <= room)
		return n;
	for (size_t k = room; breaks && k > room / 2; k--)
		if (text[k] == ' ')
			return k;
	return room;
}

/** Print rows until the text is at its end or there are so many. */
static void
print_rows(struct pages *p, const char *text, unsigned int rows, unsigned int columns)
{
	for (; rows > 0 && text[p->at] != '\0'; rows--) {
		const unsigned int indent = p->breaks && p->continued ? INDENT : 0;
		const size_t n = row_bytes(text + p->at, columns - indent, p->breaks);

		put("                ", indent);
		put(text + p->at, n);
		p->at += n;
		p->continued = text[p->at] != '\n' && text[p->at] != '\0';
		if (!p->continued || p->breaks)
			put("\n", 1);
		p->at += p->continued ? strspn(text + p->at, " ") : text[p->at] == '\n';
	}
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
show_pages(struct output *o, size_t mine, bool breaks)
{
	struct pages p = {.breaks = breaks};
	enum key key = KEY_PAGE;
	char more[64];
	unsigned int rows, columns;
	const char *text = output_text(o);

	while (text[p.at] != '\0' && window(&rows, &columns)) {
		print_rows(&p, text, key == KEY_LINE ? 1 : rows - 1, columns);
		if (text[p.at] == '\0')
			return;
		put(more, (size_t)snprintf(more, sizeof(more), MORE,
		                           (unsigned int)(p.at * 100 / strlen(text))));
		key = next_key(o);
		put(ERASE, sizeof(ERASE) - 1);
		text = output_text(o);
		if (key == KEY_END)
			break;
	}
	/* Of a terminal that has become too small, all. */
	if (key == KEY_END && p.at < mine)
		p.at = mine;
	put(text + p.at, strlen(text + p.at));
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
	/* A line of JSON stays one. */
	show_pages(&o, strlen(output_text(&o)), strstr(line, " json") == NULL);
	/* Ctrl-C that only left the pages interrupted no command. */
	if (!ended)
		interrupt_clear();
	output_end(&o);
	return why;
}
