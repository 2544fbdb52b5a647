/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Prints a comparison as tables of 80 columns and less where names allow, and as JSON. */

#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "ui.h"

#define METHOD "Hodges-Lehmann ratio, interval by Mann-Whitney ranks, at least 95 % confidence"

static const char *
compare_version(const json_t *doc)
{
	const char *v = json_string_value(json_object_get(doc, "version"));

	return v != NULL ? v : "of unknown version";
}

/* ---- Text ---- */

/** Names of the keys, beside test and mode, in which jobs of the comparison differ. */
static json_t *
compare_varying(const struct compare *c)
{
	json_t *keys = json_object();
	const char *key;
	json_t *v;

	for (unsigned int i = 0; i < c->nrows; i++)
		json_object_foreach(c->row[i].job, key, v)
		{
			const json_t *first = json_object_get(c->row[0].job, key);

			if (strcmp(key, "test") == 0 || strcmp(key, "mode") == 0 ||
			    strcmp(key, "bytes") == 0 || strcmp(key, "depth") == 0)
				continue;
			if (first == NULL || !json_equal(v, first))
				json_object_set_new(keys, key, json_true());
		}
	return keys;
}

/** The job in words: "write 64 depth 128 qps 2". all: with its mode, and each key. */
static const char *
compare_label(json_t *job, json_t *varying, bool all, char *buf, size_t size)
{
	char value[64], printable[512];
	size_t n;
	const char *key;
	json_t *v;

	snprintf(buf, size, "%s%s%s %lld", doc_text(job, "test"), all ? " " : "",
	         all ? doc_text(job, "mode") : "", doc_number(job, "bytes"));
	json_object_foreach(job, key, v)
	{
		if (strcmp(key, "test") == 0 || strcmp(key, "mode") == 0 ||
		    strcmp(key, "bytes") == 0)
			continue;
		if (!all && strcmp(key, "depth") != 0 && json_object_get(varying, key) == NULL)
			continue;
		n = strlen(buf);
		snprintf(buf + n, size - n, " %s %s", strcmp(key, "depth") == 0 ? "d" : key,
		         doc_value(job, key, value, sizeof(value)));
	}
	ui_printable(buf, printable, sizeof(printable));
	snprintf(buf, size, "%s", printable);
	return buf;
}

/** A figure in eight columns. */
static const char *
compare_figure(double v, char *buf, size_t size)
{
	snprintf(buf, size, v >= 1e6 ? "%.3e" : v >= 1000 ? "%.1f" : v >= 10 ? "%.2f" : "%.3f", v);
	return buf;
}

/** The layout of one metric's table. */
struct compare_columns {
	int label;           /**< width of the first column */
	bool rounds;         /**< a column has each row's rounds, because they differ */
	unsigned int na, nb; /**< rounds of all rows, if they do not */
	bool any;            /**< the table has a row */
};

static void
compare_print_row(FILE *f, const struct compare_row *r, const char *label,
                  const struct compare_columns *col)
{
	char a[32], b[32], is[64] = "-", n[32];

	fprintf(f, " %-*s", col->label, label);
	if (r->verdict == COMPARE_AMBIGUOUS) {
		fprintf(f, " %s of the other side\n", compare_verdict_names[r->verdict]);
		return;
	}
	snprintf(n, sizeof(n), "%u/%u", r->na, r->nb);
	if (col->rounds)
		fprintf(f, " %5s", n);
	fprintf(f, " %8s %8s", compare_figure(r->median_a, a, sizeof(a)),
	        compare_figure(r->median_b, b, sizeof(b)));
	if (!r->is.valid) {
		fprintf(f, " %6s %12s %s\n", "-", "-", compare_verdict_names[r->verdict]);
		return;
	}
	if (r->is.bounded)
		snprintf(is, sizeof(is), "%.3f..%.3f", r->is.low, r->is.high);
	fprintf(f, " %6.3f %12s %s\n", r->is.ratio, is, compare_verdict_names[r->verdict]);
}

static struct compare_columns
compare_layout(const struct compare *c, const struct compare_metric *m, json_t *varying)
{
	struct compare_columns col = {.label = 4};
	char label[512];

	for (unsigned int i = 0; i < c->nrows; i++) {
		const struct compare_row *r = &c->row[i];
		int n;

		if (r->metric != m)
			continue;
		col.any = true;
		n = (int)strlen(compare_label(r->job, varying, false, label, sizeof(label)));
		if (n > col.label)
			col.label = n;
		if (r->verdict == COMPARE_AMBIGUOUS)
			continue;
		col.rounds |= col.na != 0 && (col.na != r->na || col.nb != r->nb);
		col.na = r->na;
		col.nb = r->nb;
	}
	return col;
}

/** The table of one metric. */
static void
compare_print_table(FILE *f, const struct compare *c, const struct compare_metric *m,
                    json_t *varying)
{
	const struct compare_columns col = compare_layout(c, m, varying);
	char label[512];

	if (!col.any)
		return;
	fprintf(f, "\n%s (%s is better)", m->key, m->higher ? "more" : "less");
	if (!col.rounds && col.na != 0)
		fprintf(f, ", %u rounds of A, %u of B", col.na, col.nb);
	fprintf(f, "\n %-*s%s %8s %8s %6s %12s verdict\n", col.label, "test",
	        col.rounds ? " n A/B" : "", "A", "B", "B/A", "95 %");
	for (unsigned int i = 0; i < c->nrows; i++)
		if (c->row[i].metric == m)
			compare_print_row(
			        f, &c->row[i],
			        compare_label(c->row[i].job, varying, false, label, sizeof(label)),
			        &col);
}

static void
compare_print_side(FILE *f, const struct compare_side *s, char name)
{
	char text[512];

	for (unsigned int i = 0; i < s->nfiles; i++) {
		/* that of a sweep is a list */
		const char *failed = doc_text(s->docs[i], "failed");

		fprintf(f, "%c: %s", name, ui_printable(s->files[i], text, sizeof(text)));
		fprintf(f, ", weft %s",
		        ui_printable(compare_version(s->docs[i]), text, sizeof(text)));
		if (json_is_false(json_object_get(s->docs[i], "complete")))
			fprintf(f, ", %s%s",
			        failed[0] != '\0' ? "incomplete: " : "an incomplete sweep",
			        ui_printable(failed, text, sizeof(text)));
		fprintf(f, "\n");
	}
}

/** Name the rows of a side whose results have warnings, with one reason each. */
static void
compare_print_warned(FILE *f, const struct compare_side *s, char name, json_t *varying)
{
	const char *first, *why = "";
	char label[512], text[512];

	for (unsigned int i = 0; i < s->rows.n; i++) {
		const struct doc_row *row = &s->rows.at[i];
		unsigned int n = 0;

		for (unsigned int k = 0; k < row->n; k++)
			if (doc_warnings(row->round[k], &first) > 0) {
				why = n == 0 ? first : why;
				n++;
			}
		if (n == 0)
			continue;
		compare_label(row->job, varying, false, label, sizeof(label));
		fprintf(f, "warnings in %c, %u of %u rounds: %s of %s: ", name, n, row->n,
		        ui_printable(doc_text(row->job, "mode"), text, sizeof(text)), label);
		fprintf(f, "%s\n", ui_printable(why, text, sizeof(text)));
	}
}

/** How many results of a side have warnings. */
static unsigned int
compare_warned(const struct compare_side *s)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < s->nfiles; i++)
		n += doc_warned(json_object_get(s->docs[i], "results"));
	return n;
}

void
compare_print(FILE *f, const struct compare *c)
{
	json_t *varying = compare_varying(c), *job;
	char label[512];
	size_t i;

	for (unsigned int s = 0; s < 2; s++)
		compare_print_side(f, &c->side[s], "AB"[s]);
	for (unsigned int k = 0; k < c->nignore; k++)
		fprintf(f, "%s%s%s", k == 0 ? "not compared: " : ", ",
		        ui_printable(c->ignore[k], label, sizeof(label)),
		        k + 1 == c->nignore ? "\n" : "");
	for (unsigned int m = 0; m < c->nmetrics; m++)
		compare_print_table(f, c, &c->metric[m], varying);
	for (unsigned int s = 0; s < 2; s++)
		json_array_foreach(c->only[s], i, job)
		        fprintf(f, "%sonly in %c: %s\n", i == 0 ? "\n" : "", "AB"[s],
		                compare_label(job, varying, true, label, sizeof(label)));
	for (unsigned int s = 0; s < 2; s++) {
		if (compare_warned(&c->side[s]) > 0 && (s == 0 || compare_warned(&c->side[0]) == 0))
			fprintf(f, "\n");
		compare_print_warned(f, &c->side[s], "AB"[s], varying);
	}
	fprintf(f, "\n%u rows: %u faster, %u slower, %u no difference seen, %u too few rounds",
	        c->nrows, compare_count(c, COMPARE_FASTER), compare_count(c, COMPARE_SLOWER),
	        compare_count(c, COMPARE_SAME), compare_count(c, COMPARE_FEW));
	if (compare_count(c, COMPARE_NO_RATIO) + compare_count(c, COMPARE_AMBIGUOUS) > 0)
		fprintf(f, ", %u not compared",
		        compare_count(c, COMPARE_NO_RATIO) + compare_count(c, COMPARE_AMBIGUOUS));
	fprintf(f, "\n");
	json_decref(varying);
}

/* ---- JSON ---- */

static json_t *
compare_json_side(const struct compare_side *s)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < s->nfiles; i++) {
		const json_t *complete = json_object_get(s->docs[i], "complete");
		/* a name that is not UTF-8 becomes null */
		json_t *o = json_pack("{s:s?, s:s, s:b}", "file", s->files[i], "version",
		                      compare_version(s->docs[i]), "complete",
		                      !json_is_false(complete));

		if (o == NULL)
			o = json_pack("{s:n, s:s, s:b}", "file", "version",
			              compare_version(s->docs[i]), "complete",
			              !json_is_false(complete));
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *
compare_json_row(const struct compare_row *r)
{
	json_t *o = json_deep_copy(r->job);

	json_object_set_new(o, "metric", json_string(r->metric->key));
	json_object_set_new(o, "better", json_string(r->metric->higher ? "higher" : "lower"));
	json_object_set_new(o, "verdict", json_string(compare_verdict_names[r->verdict]));
	if (r->verdict == COMPARE_AMBIGUOUS)
		return o;
	json_object_set_new(o, "rounds_a", json_integer(r->na));
	json_object_set_new(o, "rounds_b", json_integer(r->nb));
	json_object_set_new(o, "median_a", json_real(r->median_a));
	json_object_set_new(o, "median_b", json_real(r->median_b));
	if (r->is.valid)
		json_object_set_new(o, "ratio", json_real(r->is.ratio));
	if (r->is.bounded) {
		json_object_set_new(o, "ratio_low", json_real(r->is.low));
		json_object_set_new(o, "ratio_high", json_real(r->is.high));
		json_object_set_new(o, "confidence", json_real(r->is.level));
	}
	return o;
}

void
compare_print_json(FILE *f, const struct compare *c)
{
	json_t *doc = json_object(), *rows = json_array();

	json_object_set_new(doc, "version", json_string(WEFT_VERSION));
	json_object_set_new(doc, "method", json_string(METHOD));
	json_object_set_new(doc, "a", compare_json_side(&c->side[0]));
	json_object_set_new(doc, "b", compare_json_side(&c->side[1]));
	for (unsigned int i = 0; i < c->nrows; i++)
		json_array_append_new(rows, compare_json_row(&c->row[i]));
	if (c->nignore > 0) {
		json_t *ignored = json_array();

		for (unsigned int k = 0; k < c->nignore; k++)
			json_array_append_new(ignored, json_string(c->ignore[k]));
		json_object_set_new(doc, "ignored", ignored);
	}
	json_object_set_new(doc, "rows", rows);
	json_object_set(doc, "only_in_a", c->only[0]);
	json_object_set(doc, "only_in_b", c->only[1]);
	json_object_set_new(doc, "faster", json_integer(compare_count(c, COMPARE_FASTER)));
	json_object_set_new(doc, "slower", json_integer(compare_count(c, COMPARE_SLOWER)));
	json_object_set_new(doc, "warned_a", json_integer(compare_warned(&c->side[0])));
	json_object_set_new(doc, "warned_b", json_integer(compare_warned(&c->side[1])));
	json_dumpf(doc, f, JSON_INDENT(2) | JSON_REAL_PRECISION(8));
	fputc('\n', f);
	json_decref(doc);
}
