/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Lines of text, broken between words on a terminal (wrap.h). */

#include "wrap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/** A terminal that is narrower is treated as if it were of this width. */
#define WRAP_MIN_WIDTH 40
#define WRAP_INDENT    2

unsigned int
wrap_width(FILE *f)
{
	struct winsize w;
	const int fd = fileno(f);

	if (fd < 0 || !isatty(fd) || ioctl(fd, TIOCGWINSZ, &w) != 0 || w.ws_col == 0)
		return 0;
	return w.ws_col < WRAP_MIN_WIDTH ? WRAP_MIN_WIDTH : w.ws_col;
}

/** Octets of text that a line of so many columns takes, up to a blank; a word that is too long is
 * not broken, and a percent sign stays with its number. */
static size_t
wrap_fits(const char *text, size_t columns)
{
	const size_t all = strlen(text);
	size_t n = columns;

	if (all <= columns)
		return all;
	while (n > 0 && (text[n] != ' ' || text[n + 1] == '%'))
		n--;
	return n > 0 ? n : strcspn(text, " ");
}

void
wrap_text(FILE *f, const char *line)
{
	const unsigned int width = wrap_width(f);
	char *all = NULL;
	size_t len = 0, indent = 0, n;
	FILE *to = open_memstream(&all, &len);

	do {
		n = width == 0 ? strlen(line) : wrap_fits(line, width - 1 - indent);
		fprintf(to != NULL ? to : f, "%*s%.*s\n", (int)indent, "", (int)n, line);
		line += n + strspn(line + n, " ");
		indent = WRAP_INDENT;
	} while (*line != '\0');
	/* One write, so that lines of several threads do not mix. */
	if (to != NULL && fclose(to) == 0)
		fwrite(all, 1, len, f);
	free(all);
	fflush(f);
}
