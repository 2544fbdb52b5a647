/* SPDX-License-Identifier: BSD-3-Clause */
/** @file JSON objects as text: a table with a row for each, or a block of lines for each. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "table.h"
#include "ui.h"

#define WIDTH_MIN   40
#define COLUMNS_MAX 32
#define GAP         2 /**< blanks between columns */

unsigned int
table_width(void)
{
	const char *env = getenv("COLUMNS");
	struct winsize ws;
	unsigned long n;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col > 0)
		n = ws.ws_col;
	else
		n = env != NULL ? strtoul(env, NULL, 10) : 80;
	return n < WIDTH_MIN ? WIDTH_MIN : n > 1000 ? 1000 : (unsigned int)n;
}

bool
table_word(const char **list, char *word, size_t size)
{
	size_t n;

	*list += strspn(*list, " \t\n");
	n = strcspn(*list, " \t\n");
	if (n == 0)
		return false;
	snprintf(word, size, "%.*s", (int)n, *list);
	*list += n;
	return true;
}

/* ---- Units ---- */

static bool
ends_in(const char *s, size_t n, const char *suffix)
{
	const size_t k = strlen(suffix);

	return n > k && memcmp(s + n - k, suffix, k) == 0;
}

static const struct {
	const char *suffix;
	uint32_t ns; /**< nanoseconds in one; 0: octets */
} units[] = {{"_bytes", 0}, {"_ns", 1}, {"_us", 1000}, {"_ms", 1000000}};

#define NUNITS (sizeof(units) / sizeof(units[0]))

/** The unit of the first n octets of a key, or NUNITS. */
static unsigned int
unit_of(const char *key, size_t n)
{
	for (unsigned int i = 0; i < NUNITS; i++)
		if (ends_in(key, n, units[i].suffix))
			return i;
	return NUNITS;
}

const char *
table_heading(const char *key, char buf[TABLE_KEY_MAX])
{
	const bool rate = ends_in(key, strlen(key), "_per_s");
	const size_t n = strlen(key) - (rate ? strlen("_per_s") : 0);
	const unsigned int u = unit_of(key, n);
	const size_t cut = u < NUNITS && units[u].ns != 0 ? strlen(units[u].suffix) : 0;

	snprintf(buf, TABLE_KEY_MAX, "%.*s%s", (int)(n - cut), key, rate ? "/s" : "");
	return buf;
}

const json_t *
table_value(const json_t *row, const char *key)
{
	const json_t *v = json_object_get(row, key);
	char full[TABLE_KEY_MAX];

	for (unsigned int i = 0; v == NULL && i < NUNITS; i++) {
		snprintf(full, sizeof(full), "%s%s", key, units[i].suffix);
		v = json_object_get(row, full);
	}
	return v;
}

static void
cell_number(const char *key, double x, const json_t *v, bool exact, char buf[TABLE_CELL_MAX])
{
	const bool rate = ends_in(key, strlen(key), "_per_s");
	const unsigned int u = unit_of(key, strlen(key) - (rate ? strlen("_per_s") : 0));
	char text[32], whole[32];

	if (json_is_integer(v))
		snprintf(whole, sizeof(whole), "%" JSON_INTEGER_FORMAT, json_integer_value(v));
	else
		snprintf(whole, sizeof(whole), "%.*f", x < 10 ? 2 : x < 1000 ? 1 : 0, x);
	if (u == NUNITS || x < 0)
		snprintf(buf, TABLE_CELL_MAX, "%s", whole);
	else if (units[u].ns != 0)
		snprintf(buf, TABLE_CELL_MAX, "%s",
		         ui_time((uint64_t)(x * units[u].ns), text, sizeof(text)));
	else if (exact && x >= 1024 && !rate)
		snprintf(buf, TABLE_CELL_MAX, "%s (%s)", whole,
		         ui_bytes((uint64_t)x, text, sizeof(text)));
	else
		snprintf(buf, TABLE_CELL_MAX, "%s", ui_bytes((uint64_t)x, text, sizeof(text)));
}

const char *
table_cell(const char *key, const json_t *v, bool exact, char buf[TABLE_CELL_MAX])
{
	size_t n = 0, i;
	json_t *item;
	char *text;

	buf[0] = '\0';
	if (strcmp(key, "ssthresh_bytes") == 0 && json_integer_value(v) >= INT32_MAX) {
		strcpy(buf, "-"); /* no loss has set it yet (RFC 5681 s3.1) */
	} else if (json_is_string(v)) {
		ui_printable(json_string_value(v), buf, TABLE_CELL_MAX);
	} else if (json_is_number(v)) {
		cell_number(key, json_number_value(v), v, exact, buf);
	} else if (json_is_array(v)) {
		json_array_foreach(v, i, item) if (json_is_string(item) && n < TABLE_CELL_MAX) n +=
		        (size_t)snprintf(buf + n, TABLE_CELL_MAX - n, "%s%s", i > 0 ? "; " : "",
		                         json_string_value(item));
	} else if (v != NULL && !json_is_null(v)) {
		text = json_dumps(v, JSON_ENCODE_ANY);
		snprintf(buf, TABLE_CELL_MAX, "%s", text != NULL ? text : "");
		free(text);
	}
	return buf;
}

/* ---- Blocks ---- */

/** Print text behind an indent, broken at blanks where the line would be longer than `width`. */
static void
print_wrapped(struct cmdline *cl, const char *text, unsigned int indent, unsigned int width)
{
	const unsigned int room = width > indent + 20 ? width - indent : 20;

	while (strlen(text) > room) {
		size_t cut = room;

		while (cut > 0 && text[cut] != ' ')
			cut--;
		if (cut == 0)
			break;
		cmdline_printf(cl, "%.*s\n%*s", (int)cut, text, (int)indent, "");
		text += cut + 1;
	}
	cmdline_printf(cl, "%s\n", text);
}

/** empty: with the keys that have no text. */
static void
print_block(struct cmdline *cl, const json_t *row, const char *columns, bool empty)
{
	const unsigned int width = table_width();
	char cell[TABLE_CELL_MAX], key[TABLE_KEY_MAX], head[TABLE_KEY_MAX];
	unsigned int w = 0;
	const char *list;

	for (list = columns; table_word(&list, key, sizeof(key));)
		if (json_object_get(row, key) != NULL && strlen(table_heading(key, head)) > w)
			w = (unsigned int)strlen(head);
	for (list = columns; table_word(&list, key, sizeof(key));) {
		const json_t *v = json_object_get(row, key);

		if (v == NULL || (!empty && table_cell(key, v, true, cell)[0] == '\0'))
			continue;
		cmdline_printf(cl, "  %-*s  ", (int)w, table_heading(key, head));
		print_wrapped(cl, table_cell(key, v, true, cell), w + 4, width);
	}
}

/* ---- Tables ---- */

struct column {
	char key[TABLE_KEY_MAX];
	unsigned int width;
	bool text; /**< at least one cell is no number: flush left */
};

/** Fill in the columns that some row has; returns how many. *total: width of the table. */
static unsigned int
measure(const json_t *rows, const char *columns, struct column *col, unsigned int *total)
{
	char cell[TABLE_CELL_MAX], head[TABLE_KEY_MAX];
	unsigned int n = 0;
	size_t i;
	json_t *row;

	*total = 0;
	while (n < COLUMNS_MAX && table_word(&columns, col[n].key, sizeof(col[n].key))) {
		struct column *c = &col[n];
		bool any = false;

		c->width = (unsigned int)strlen(table_heading(c->key, head));
		c->text = false;
		json_array_foreach(rows, i, row)
		{
			const json_t *v = json_object_get(row, c->key);
			const unsigned int w =
			        (unsigned int)strlen(table_cell(c->key, v, false, cell));

			any = any || w > 0;
			c->text = c->text || (v != NULL && !json_is_number(v));
			c->width = w > c->width ? w : c->width;
		}
		if (!any)
			continue;
		*total += c->width + (n > 0 ? GAP : 0);
		n++;
	}
	if (table_word(&columns, head, sizeof(head)))
		*total = UINT32_MAX; /* more columns than a table has */
	return n;
}

static void
print_row(struct cmdline *cl, const json_t *row, const struct column *col, unsigned int n)
{
	char cell[TABLE_CELL_MAX], line[1024 + TABLE_CELL_MAX];
	size_t at = 0;

	line[0] = '\0';
	for (unsigned int i = 0; i < n; i++) {
		if (row == NULL)
			table_heading(col[i].key, cell);
		else
			table_cell(col[i].key, json_object_get(row, col[i].key), false, cell);
		at += (size_t)snprintf(line + at, sizeof(line) - at, "%*s%*s", i > 0 ? GAP : 0, "",
		                       col[i].text ? -(int)col[i].width : (int)col[i].width, cell);
		if (at >= sizeof(line))
			break;
	}
	at = strlen(line);
	while (at > 0 && line[at - 1] == ' ')
		line[--at] = '\0';
	cmdline_printf(cl, "%s\n", line);
}

/** The keys of an object with blanks between; the caller frees the text. */
static char *
keys_of(const json_t *row)
{
	size_t size = 1;
	const char *key;
	char *list;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)row, key, v) size += strlen(key) + 1;
	list = calloc(1, size);
	if (list == NULL)
		return NULL;
	json_object_foreach((json_t *)(uintptr_t)row, key, v)
	{
		strcat(list, key);
		strcat(list, " ");
	}
	return list;
}

void
table_print(struct cmdline *cl, const json_t *rows, const char *columns, bool blocks)
{
	struct column col[COLUMNS_MAX];
	unsigned int total, n;
	char *all = NULL;
	json_t *row;
	size_t i;

	if (columns != NULL)
		n = measure(rows, columns, col, &total);
	if (columns != NULL && !blocks && total <= table_width()) {
		print_row(cl, NULL, col, n);
		json_array_foreach(rows, i, row) print_row(cl, row, col, n);
		return;
	}
	json_array_foreach(rows, i, row)
	{
		if (columns == NULL)
			all = keys_of(row);
		if (i > 0)
			cmdline_printf(cl, "\n");
		print_block(cl, row,
		            columns != NULL ? columns
		            : all != NULL   ? all
		                            : "",
		            columns == NULL);
		free(all);
		all = NULL;
	}
}
