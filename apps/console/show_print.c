/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Objects as JSON text, and the durations of polls as a histogram. */

#include <stdlib.h>
#include <string.h>

#include "show_print.h"
#include "table.h"
#include "ui.h"

#define BAR_INDENT 32
#define BAR_MAX    100

void
show_print_bar(struct cmdline *cl, uint64_t below_ns, double polls, double most)
{
	const unsigned int room = table_width() - BAR_INDENT;
	char text[32], bar[BAR_MAX + 1];
	unsigned int n = (unsigned int)(polls / most * (room < BAR_MAX ? room : BAR_MAX));

	memset(bar, '#', BAR_MAX);
	bar[polls > 0 && n == 0 ? 1 : n] = '\0';
	cmdline_printf(cl, "  below %-9s %10.0f  %s\n", ui_time(below_ns, text, sizeof(text)),
	               polls, bar);
}

void
show_print_polls(struct cmdline *cl, const json_t *rows)
{
	char text[TABLE_CELL_MAX], head[TABLE_KEY_MAX];
	json_t *row, *v;
	const char *key;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		double most = 1;

		json_object_foreach(row, key, v) if (strncmp(key, "below_", 6) == 0 &&
		                                     json_number_value(v) > most) most =
		        json_number_value(v);
		json_object_foreach(row, key, v) if (strncmp(key, "below_", 6) == 0)
		        show_print_bar(cl, strtoull(key + 6, NULL, 10), json_number_value(v), most);
		else cmdline_printf(cl, "  %-10s  %s\n", table_heading(key, head),
		                    table_cell(key, v, true, text));
	}
}

void
show_print_json(struct cmdline *cl, const json_t *rows)
{
	/* Of 15 digits each is meant: 17 would make 0.0050000000000000001 of 0.005. */
	char *text = json_dumps(rows, JSON_INDENT(2) | JSON_REAL_PRECISION(15));

	/* cmdline_printf() has a limit, and the text has none. */
	for (const char *p = text; p != NULL && *p != '\0';) {
		const size_t n = strcspn(p, "\n");

		cmdline_printf(cl, "%.*s\n", (int)n, p);
		p += n + (p[n] == '\n');
	}
	free(text);
}
