/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The page of a sweep's results: which diagrams there are, and what stands around them
 * (page.h). */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "chart.h"
#include "doc.h"
#include "interval.h"
#include "markup.h"
#include "page.h"

/* ---- Diagrams ---- */

/** A figure of a diagram, and the name of its line where several stand in one. */
struct page_figure {
	const char *key, *name;
};

static bool
page_same(const struct doc_row *a, const struct doc_row *b)
{
	return strcmp(doc_text(a->job, "test"), doc_text(b->job, "test")) == 0 &&
	       strcmp(doc_text(a->job, "mode"), doc_text(b->job, "mode")) == 0;
}

/** Whether rows of one test and mode differ in a key of the job. */
static bool
page_varies(const struct doc_rows *rows, const struct doc_row *row, const char *key)
{
	const json_t *v = json_object_get(row->job, key), *other;

	for (unsigned int i = 0; i < rows->n; i++) {
		other = json_object_get(rows->at[i].job, key);
		if (page_same(row, &rows->at[i]) && (other == NULL || !json_equal(v, other)))
			return true;
	}
	return false;
}

/** The depth of a row, and what else distinguishes it from others of its test, mode and size:
 * "depth 16, qps 2". */
static void
page_variant(const struct doc_rows *rows, const struct doc_row *row, char *buf, size_t size)
{
	const char *key;
	char value[64];
	json_t *v;

	buf[0] = '\0';
	json_object_foreach(row->job, key, v)
	{
		const size_t n = strlen(buf);

		if (strcmp(key, "test") == 0 || strcmp(key, "mode") == 0 ||
		    strcmp(key, "bytes") == 0 ||
		    (strcmp(key, "depth") != 0 && !page_varies(rows, row, key)))
			continue;
		snprintf(buf + n, size - n, "%s%s %s", n > 0 ? ", " : "", key,
		         doc_value(row->job, key, value, sizeof(value)));
	}
	if (buf[0] == '\0')
		snprintf(buf, size, "all");
}

/** Add a row's figure to the line of its name. 0 or -ENOMEM. */
static int
page_add(struct chart *c, const char *name, const struct doc_row *row, const char *key)
{
	double *v = calloc(row->n, sizeof(*v));
	unsigned int n = v != NULL ? doc_figures(row, key, v) : 0, l = 0, i;
	struct chart_line *line;
	struct chart_point *at, p;

	if (v == NULL)
		return -ENOMEM;
	if (n == 0) {
		free(v);
		return 0;
	}
	p.x = (double)doc_number(row->job, "bytes");
	p.y = interval_median(v, n);
	p.lo = v[0];
	p.hi = v[n - 1];
	free(v);
	while (l < c->n && strcmp(c->line[l].name, name) != 0)
		l++;
	if (l == c->n) {
		line = realloc(c->line, (c->n + 1) * sizeof(*line));
		if (line == NULL)
			return -ENOMEM;
		c->line = line;
		line[c->n] = (struct chart_line){.n = 0};
		snprintf(line[c->n++].name, sizeof(line->name), "%s", name);
	}
	line = &c->line[l];
	at = realloc(line->at, (line->n + 1) * sizeof(*at));
	if (at == NULL)
		return -ENOMEM;
	line->at = at;
	for (i = line->n++; i > 0 && at[i - 1].x > p.x; i--)
		at[i] = at[i - 1];
	at[i] = p;
	return 0;
}

/**
 * Write one diagram of the rows that are as `as`: of one figure with a line for each variant; or of
 * several figures, each a line, of the rows of one variant.
 */
static int
page_diagram(FILE *f, const struct doc_rows *rows, const struct doc_row *as, const char *title,
             const char *unit, const struct page_figure *fig, unsigned int nfig,
             const char *variant)
{
	struct chart c = {.title = title, .unit = unit};
	char name[128];
	int rc = 0;

	for (unsigned int i = 0; i < rows->n; i++) {
		const struct doc_row *row = &rows->at[i];

		page_variant(rows, row, name, sizeof(name));
		if (!page_same(row, as) || (variant != NULL && strcmp(variant, name) != 0))
			continue;
		for (unsigned int k = 0; k < nfig && rc == 0; k++)
			rc = page_add(&c, variant != NULL ? fig[k].name : name, row, fig[k].key);
	}
	if (rc == 0 && c.n > 0) {
		fputs("<figure><figcaption>", f);
		markup_text(f, title);
		fputs("</figcaption>\n", f);
		chart_svg(f, &c);
		chart_table(f, &c);
		fputs("</figure>\n", f);
	}
	for (unsigned int l = 0; l < c.n; l++)
		free(c.line[l].at);
	free(c.line);
	return rc;
}

/** The percentiles of one test: a diagram for each variant. */
static int
page_percentiles(FILE *f, const struct doc_rows *rows, const struct doc_row *as)
{
	static const struct page_figure fig[] = {
	        {"t_typical_us", "50 %"}, {"t_p99_us", "99 %"}, {"t_p999_us", "99.9 %"}};
	char name[128], other[128], title[512];
	int rc = 0;

	for (unsigned int i = 0; i < rows->n && rc == 0; i++) {
		const struct doc_row *row = &rows->at[i];
		bool before = false;

		if (!page_same(row, as))
			continue;
		page_variant(rows, row, name, sizeof(name));
		for (unsigned int k = 0; k < i; k++) {
			page_variant(rows, &rows->at[k], other, sizeof(other));
			before |= page_same(&rows->at[k], as) && strcmp(name, other) == 0;
		}
		if (before)
			continue;
		snprintf(title, sizeof(title), "%s: latency percentiles by size, %s",
		         doc_text(as->job, "test"), name);
		rc = page_diagram(f, rows, as, title, "microseconds", fig, 3, name);
	}
	return rc;
}

/** The diagrams of one test in one mode. */
static int
page_test(FILE *f, const struct doc_rows *rows, const struct doc_row *as)
{
	static const struct page_figure rate = {"average_mb_s", NULL},
	                                cycles = {"cycles_per_message", NULL};
	const char *test = doc_text(as->job, "test"), *mode = doc_text(as->job, "mode");
	char title[512];
	int rc;

	fputs("<h2>", f);
	markup_text(f, test);
	fputs(", ", f);
	markup_text(f, mode);
	fputs("</h2>\n<div class=\"row\">\n", f);
	snprintf(title, sizeof(title), "%s: rate by size", test);
	if (strcmp(mode, "latency") == 0)
		rc = page_percentiles(f, rows, as);
	else
		rc = page_diagram(f, rows, as, title, "MB/s (10^6 octets a second)", &rate, 1,
		                  NULL);
	snprintf(title, sizeof(title), "%s, %s: cycles by message", test, mode);
	if (rc == 0)
		rc = page_diagram(f, rows, as, title, "TSC cycles of this side, per message",
		                  &cycles, 1, NULL);
	fputs("</div>\n", f);
	return rc;
}

/* ---- What stands around them ---- */

static void
page_head(FILE *f, const char *title)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
	      "<meta charset=\"utf-8\"/>\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
	      f);
	markup_text(f, title);
	fputs("</title>\n<style>\n"
	      ":root { color-scheme: light; }\n"
	      "body { font: 16px/1.4 sans-serif; color: #000; background: #fff; margin: 0 auto;\n"
	      "  padding: 0.75rem; max-width: 75rem; overflow-wrap: anywhere; }\n"
	      "h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; border-top: 1px solid #000;\n"
	      "  padding-top: 0.5rem; }\n"
	      ".row { display: flex; flex-wrap: wrap; gap: 1rem 2rem; align-items: flex-start; }\n"
	      "figure { margin: 0 0 1rem; flex: 1 1 24rem; min-width: 0; max-width: 36rem; }\n"
	      "@media (max-width: 26rem) { figure { flex-basis: 100%; } }\n"
	      "figcaption { font-weight: bold; margin-bottom: 0.25rem; }\n"
	      ".wide { overflow-x: auto; }\n"
	      "table { border-collapse: collapse; font-size: 0.85rem; margin: 0.5rem 0; }\n"
	      "caption { text-align: left; } td, th { border: 1px solid #999; padding: 0.15rem "
	      "0.4rem;\n"
	      "  text-align: right; font-variant-numeric: tabular-nums; overflow-wrap: normal; }\n"
	      "td { white-space: nowrap; } td small { display: block; white-space: normal; }\n"
	      ".facts th, .facts td, .failed td, .failed th { text-align: left; }\n"
	      ".facts td, .failed td:last-child { white-space: normal; overflow-wrap: anywhere; }\n"
	      ".partial { border: 3px solid #000; padding: 0.5rem; font-weight: bold; }\n",
	      f);
	chart_css(f);
	fputs("@media print { body { max-width: none; padding: 0; font-size: 11pt; }\n"
	      "figure { flex-basis: 100%; max-width: none; } svg { max-width: 28rem; }\n"
	      "svg, table { break-inside: avoid; } h2, figcaption { break-after: avoid; }\n"
	      "table { font-size: 8pt; } .wide { overflow: visible; } }\n"
	      "</style>\n</head>\n<body>\n<h1>",
	      f);
	markup_text(f, title);
	fputs("</h1>\n", f);
}

/** A table of the texts and numbers of an object. */
static void
page_facts(FILE *f, const char *caption, json_t *o)
{
	const char *key;
	char value[512];
	json_t *v;

	if (json_object_size(o) == 0)
		return;
	fprintf(f, "<table class=\"facts\"><caption>%s</caption>\n", caption);
	json_object_foreach(o, key, v)
	{
		if (json_is_object(v) || json_is_array(v))
			continue;
		fputs("<tr><th scope=\"row\">", f);
		markup_text(f, key);
		fputs("</th><td>", f);
		markup_text(f, doc_value(o, key, value, sizeof(value)));
		fputs("</td></tr>\n", f);
	}
	fputs("</table>\n", f);
}

/** What is missing, at the top. */
static void
page_partial(FILE *f, json_t *doc)
{
	json_t *about = json_object_get(doc, "sweep"), *failed = json_object_get(doc, "failed"), *o;
	char runs[32], done[32];
	size_t i;

	if (!json_is_false(json_object_get(doc, "complete")))
		return;
	fprintf(f, "<p class=\"partial\">Incomplete: %s of %s runs were measured",
	        doc_value(about, "done", done, sizeof(done)),
	        doc_value(about, "runs", runs, sizeof(runs)));
	if (doc_text(about, "ended")[0] != '\0') {
		fputs("; ", f);
		markup_text(f, doc_text(about, "ended"));
	}
	fputs(".</p>\n", f);
	if (json_array_size(failed) == 0)
		return;
	fputs("<div class=\"wide\"><table class=\"failed\"><caption>Failed runs</caption>\n"
	      "<tr><th>test</th><th>mode</th><th>octets</th><th>depth</th><th>round</th>"
	      "<th>why</th></tr>\n",
	      f);
	json_array_foreach(failed, i, o)
	{
		fputs("<tr><td>", f);
		markup_text(f, doc_text(o, "test"));
		fputs("</td><td>", f);
		markup_text(f, doc_text(o, "mode"));
		fprintf(f, "</td><td>%lld</td><td>%lld</td><td>%lld</td><td>",
		        doc_number(o, "bytes"), doc_number(o, "depth"), doc_number(o, "round"));
		markup_text(f, doc_text(o, "why"));
		fputs("</td></tr>\n", f);
	}
	fputs("</table></div>\n", f);
}

/** The results that have warnings, with their reasons. */
static void
page_warned(FILE *f, const json_t *results)
{
	const unsigned int n = doc_warned(results);
	json_t *r, *text;
	size_t i, k;

	if (n == 0)
		return;
	fprintf(f,
	        "<p class=\"partial\">%u of %zu results have warnings.</p>\n"
	        "<div class=\"wide\"><table class=\"failed\"><caption>Results with warnings"
	        "</caption>\n<tr><th>test</th><th>mode</th><th>octets</th><th>depth</th>"
	        "<th>round</th><th>warning</th></tr>\n",
	        n, json_array_size(results));
	json_array_foreach(results, i, r)
	{
		json_array_foreach(json_object_get(r, "warnings"), k, text)
		{
			fputs("<tr><td>", f);
			markup_text(f, doc_text(r, "test"));
			fputs("</td><td>", f);
			markup_text(f, doc_text(r, "mode"));
			fprintf(f, "</td><td>%lld</td><td>%lld</td><td>%lld</td><td>",
			        doc_number(r, "bytes"), doc_number(r, "depth"),
			        doc_number(r, "round"));
			markup_text(f, json_is_string(text) ? json_string_value(text) : "");
			fputs("</td></tr>\n", f);
		}
	}
	fputs("</table></div>\n", f);
}

int
page_write(FILE *f, json_t *doc)
{
	json_t *root = json_incref(doc);
	struct doc_rows rows;
	int rc = doc_rows(&root, 1, &rows);

	if (rc == 0) {
		page_head(f, "weft-perf sweep");
		page_partial(f, doc);
		page_warned(f, json_object_get(doc, "results"));
		fputs("<div class=\"row\">\n", f);
		page_facts(f, "Sweep", json_object_get(doc, "sweep"));
		page_facts(f, "Machine of the client", json_object_get(doc, "machine"));
		fputs("</div>\n<p>weft ", f);
		markup_text(f, doc_text(doc, "version"));
		fputs(". A point is the median of the rounds. Its vertical stroke, and the small "
		      "figures "
		      "in a table, go from the least to the greatest round.</p>\n",
		      f);
	}
	for (unsigned int i = 0; i < rows.n && rc == 0; i++) {
		bool before = false;

		for (unsigned int k = 0; k < i; k++)
			before |= page_same(&rows.at[k], &rows.at[i]);
		if (!before)
			rc = page_test(f, &rows, &rows.at[i]);
	}
	fputs("</body>\n</html>\n", f);
	doc_rows_free(&rows);
	json_decref(root);
	return rc;
}
