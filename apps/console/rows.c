/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Text on the terminal, in rows that end between words. */

#include "rows.h"

#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/** Less has no room for a page. */
#define ROWS_MIN    3u
#define COLUMNS_MIN 20u
#define INDENT      4u /**< of the rest of a line that was broken */

void
rows_put(const char *text, size_t n)
{
	while (n > 0) {
		const ssize_t done = write(STDOUT_FILENO, text, n);

		if (done <= 0)
			return;
		text += done;
		n -= (size_t)done;
	}
}

bool
rows_window(unsigned int *rows, unsigned int *columns)
{
	struct winsize w;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_row < ROWS_MIN ||
	    w.ws_col < COLUMNS_MIN)
		return false;
	*rows = w.ws_row;
	*columns = w.ws_col;
	return true;
}

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

void
rows_print(struct rows_at *p, const char *text, unsigned int rows, unsigned int columns)
{
	for (; rows > 0 && text[p->at] != '\0'; rows--) {
		const unsigned int indent = p->breaks && p->continued ? INDENT : 0;
		const size_t n = row_bytes(text + p->at, columns - indent, p->breaks);

		rows_put("                ", indent);
		rows_put(text + p->at, n);
		p->at += n;
		p->continued = text[p->at] != '\n' && text[p->at] != '\0';
		if (!p->continued || p->breaks)
			rows_put("\n", 1);
		p->at += p->continued ? strspn(text + p->at, " ") : text[p->at] == '\n';
	}
}

void
rows_lines(const char *text)
{
	struct rows_at p = {.breaks = true};
	const size_t n = strlen(text);
	unsigned int rows, columns;

	if (rows_window(&rows, &columns)) {
		rows_print(&p, text, UINT_MAX, columns);
		return;
	}
	rows_put(text, n);
	if (n > 0 && text[n - 1] != '\n')
		rows_put("\n", 1);
}

void
rows_output(struct cmdline *cl, const char *line, const char *text)
{
	if (cl == con.prompt && strstr(line, " json") == NULL)
		rows_lines(text);
	else
		cmdline_printf(cl, "%s", text);
}

bool
rows_shows(const char *line)
{
	static const char *const verbs[] = {"help", "show", "rates", "dump", "let"};
	const size_t n = strcspn(line += strspn(line, " \t"), " \t\n");
	unsigned int rows, columns;

	for (unsigned int i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (n == strlen(verbs[i]) && memcmp(line, verbs[i], n) == 0)
			return isatty(STDIN_FILENO) && rows_window(&rows, &columns);
	return false;
}
