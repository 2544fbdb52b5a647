/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Results as tables for people. */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "ui.h"

#define CELL_MAX 512

static void
cell_names(const json_t *names, char *buf, size_t size)
{
	size_t n = 0, i;
	json_t *one;

	buf[0] = '\0';
	json_array_foreach((json_t *)names, i, one) if (n < size) n +=
	        (size_t)snprintf(buf + n, size - n, "%s%s", i > 0 ? ", " : "",
	                         json_is_string(one) ? json_string_value(one) : "?");
}

static void
cell_seconds(uint64_t s, char *buf, size_t size)
{
	if (s < 120)
		snprintf(buf, size, "%" PRIu64 " s", s);
	else if (s < 7200)
		snprintf(buf, size, "%" PRIu64 " min", s / 60);
	else if (s < 172800)
		snprintf(buf, size, "%" PRIu64 " h %" PRIu64 " min", s / 3600, s / 60 % 60);
	else
		snprintf(buf, size, "%" PRIu64 " days %" PRIu64 " h", s / 86400, s / 3600 % 24);
}

/** A counter as its rate. A counter that has become less began anew. */
static void
cell_rate(const struct ctl_field *f, json_int_t was, json_int_t now, double elapsed_s, char *buf,
          size_t size)
{
	const double rate = now > was ? (double)(now - was) / elapsed_s : 0;
	char b[32];

	if (f->type == CTL_BYTES)
		snprintf(buf, size, "%s/s", ui_bytes((uint64_t)rate, b, sizeof(b)));
	else
		snprintf(buf, size, "%.1f/s", rate);
}

static void
cell(const struct ctl_field *f, const json_t *row, const json_t *before, double elapsed_s,
     char buf[CELL_MAX])
{
	const json_t *v = json_object_get(row, f->name), *was = json_object_get(before, f->name);
	const uint64_t n = (uint64_t)json_integer_value(v);
	char text[CELL_MAX], bytes[32];

	if (v == NULL || json_is_null(v))
		snprintf(text, sizeof(text), "-");
	else if (json_is_string(v))
		snprintf(text, sizeof(text), "%s",
		         json_string_length(v) > 0 ? json_string_value(v) : "-");
	else if (json_is_boolean(v))
		snprintf(text, sizeof(text), "%s", json_is_true(v) ? "yes" : "no");
	else if (json_is_array(v) && json_array_size(v) == 0)
		snprintf(text, sizeof(text), "-");
	else if (json_is_array(v))
		cell_names(v, text, sizeof(text));
	else if (f->type == CTL_BYTES_PER_S)
		snprintf(text, sizeof(text), "%s/s",
		         ui_bytes((uint64_t)json_number_value(v), bytes, sizeof(bytes)));
	else if (f->type == CTL_PER_S)
		snprintf(text, sizeof(text), "%.1f/s", json_number_value(v));
	else if (f->grows && json_is_integer(was))
		cell_rate(f, json_integer_value(was), json_integer_value(v), elapsed_s, text,
		          sizeof(text));
	else if (f->type == CTL_BYTES)
		ui_bytes(n, text, sizeof(text));
	else if (n == 0 && strcmp(f->name, "slow_ms") == 0)
		snprintf(text, sizeof(text), "off");
	else if (f->type == CTL_S)
		cell_seconds(n, text, sizeof(text));
	else
		snprintf(text, sizeof(text), "%" PRIu64, n);
	ui_printable(text, buf, CELL_MAX);
}

/** The row of `before` that is about the same thing: its first field is the same. */
static const json_t *
row_before(const struct ctl_method *m, const json_t *before, const json_t *row)
{
	const json_t *all = json_object_get(before, m->rows_name);
	json_t *one;
	size_t i;

	json_array_foreach((json_t *)all, i,
	                   one) if (json_equal(json_object_get(one, m->rows[0].name),
	                                       json_object_get(row, m->rows[0].name))) return one;
	return NULL;
}

static bool
is_number(const struct ctl_field *f)
{
	return f->type == CTL_COUNT || f->type == CTL_BYTES || f->type == CTL_MS ||
	       f->type == CTL_BYTES_PER_S || f->type == CTL_PER_S;
}

/** The heading of a column: without the unit, which stands in its cells. */
static void
heading(const struct ctl_field *f, char *buf, size_t size)
{
	const char *unit = f->type == CTL_BYTES         ? "_bytes"
	                   : f->type == CTL_BYTES_PER_S ? "_bytes_per_s"
	                   : f->type == CTL_PER_S       ? "_per_s"
	                                                : "";

	snprintf(buf, size, "%.*s%s", (int)(strlen(f->name) - strlen(unit)), f->name,
	         f->type == CTL_BYTES_PER_S || f->type == CTL_PER_S ? "/s" : "");
}

static void
show_rows(const struct ctl_method *m, const json_t *result, const json_t *before, double elapsed_s,
          bool wide)
{
	const json_t *rows = json_object_get(result, m->rows_name);
	const size_t n = json_array_size(rows);
	char(*cells)[CELL_MAX] = calloc((n + 1) * m->nrows, CELL_MAX);
	unsigned int width[40] = {0}, last = 0;

	if (cells == NULL)
		ui_die("out of memory");
	/* Changes: no line for none. */
	if (n == 0 && strcmp(m->rows_name, "changes") == 0) {
		free(cells);
		return;
	}
	for (unsigned int k = 0; k < m->nrows; k++) {
		if (m->rows[k].wide && !wide)
			continue;
		last = k;
		heading(&m->rows[k], cells[k], CELL_MAX);
		width[k] = (unsigned int)strlen(cells[k]);
		for (size_t i = 0; i < n; i++) {
			char *at = cells[(i + 1) * m->nrows + k];
			const json_t *row = json_array_get(rows, i);

			cell(&m->rows[k], row, row_before(m, before, row), elapsed_s, at);
			if (strlen(at) > width[k])
				width[k] = (unsigned int)strlen(at);
		}
	}
	for (size_t i = 0; i <= n; i++) {
		for (unsigned int k = 0; k <= last; k++) {
			const char *at = cells[i * m->nrows + k];

			if (m->rows[k].wide && !wide)
				continue;
			if (k == last && !is_number(&m->rows[k]))
				printf("%s", at);
			else
				printf(is_number(&m->rows[k]) ? "%*s" : "%-*s", (int)width[k], at);
			if (k < last)
				fputs("  ", stdout);
		}
		putchar('\n');
	}
	free(cells);
}

/** Lines as they are; what is not printable becomes a '?'. */
static void
show_text(const char *s)
{
	for (; s != NULL && *s != '\0'; s++)
		putchar((unsigned char)*s < ' ' && *s != '\n' ? '?' : *s);
}

void
ctl_show(const struct ctl_method *m, const json_t *result, const json_t *before, double elapsed_s,
         bool wide)
{
	unsigned int width = 0;
	char text[CELL_MAX];

	for (unsigned int i = 0; i < m->nfields; i++)
		if ((wide || !m->fields[i].wide) && strlen(m->fields[i].name) > width)
			width = (unsigned int)strlen(m->fields[i].name);
	for (unsigned int i = 0; i < m->nfields; i++) {
		if (m->fields[i].wide && !wide)
			continue;
		if (m->fields[i].type == CTL_TEXT) {
			show_text(json_string_value(json_object_get(result, m->fields[i].name)));
			continue;
		}
		cell(&m->fields[i], result, before, elapsed_s, text);
		printf("%-*s  %s\n", (int)width, m->fields[i].name, text);
	}
	if (m->rows_name != NULL)
		show_rows(m, result, before, elapsed_s, wide);
}
