/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Draws diagrams as SVG, told apart by colour, dashes and markers, and their tables
 * (chart.h). */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chart.h"
#include "markup.h"

/* user units of the SVG; a phone shows it at about three quarters */
#define WIDTH   440
#define LEFT    56
#define RIGHT   424
#define TOP     30
#define BOTTOM  250
#define LEGEND  304 /**< first line of the legend */
#define ROW     18
#define STYLES  8
#define COLUMNS 5 /**< lines in one table, so that it fits a page and a small window */

struct chart_scale {
	double x0, x1; /**< logarithms of the sizes at either end */
	double y0, y1; /**< values, or their logarithms */
	bool log_y;
};

void
chart_css(FILE *f)
{
	static const char *const colour[STYLES] = {"#0060a0", "#c04000", "#007050", "#a03080",
	                                           "#806000", "#303030", "#4060e0", "#a01010"};
	static const char *const dash[STYLES] = {"none", "7 3",     "2 3", "9 3 2 3",
	                                         "12 4", "5 2 1 2", "4 4", "9 2 2 2 2 2"};

	fprintf(f, "svg { display: block; width: 100%%; max-width: 36rem; height: auto; }\n"
	           "svg text { font: 13px sans-serif; fill: #000; }\n"
	           "svg .t { font-weight: bold; }\n"
	           ".grid { stroke: #ccc; stroke-width: 1; }\n"
	           ".axis { stroke: #000; stroke-width: 1; fill: none; }\n"
	           ".line { fill: none; stroke-width: 2; }\n"
	           ".mark { stroke-width: 1.5; stroke-dasharray: none !important; }\n"
	           ".range { stroke-width: 1; stroke-dasharray: none !important; }\n");
	for (unsigned int i = 0; i < STYLES; i++)
		fprintf(f,
		        ".s%u { stroke: %s; stroke-dasharray: %s; } .m%u { fill: %s; stroke: %s; "
		        "}\n",
		        i, colour[i], dash[i], i, i >= 4 ? "#fff" : colour[i], colour[i]);
	fprintf(f, "@media print { .line, .mark, .range { stroke: #000 !important; }\n");
	for (unsigned int i = 0; i < 4; i++)
		fprintf(f, ".m%u { fill: #000; }\n", i);
	fprintf(f, ".grid { stroke: #bbb; } }\n");
}

const char *
chart_size(double bytes, char *buf, size_t size)
{
	if (bytes >= 1048576 && fmod(bytes, 1048576) == 0)
		snprintf(buf, size, "%.0fM", bytes / 1048576);
	else if (bytes >= 1024 && fmod(bytes, 1024) == 0)
		snprintf(buf, size, "%.0fK", bytes / 1024);
	else
		snprintf(buf, size, "%.0f", bytes);
	return buf;
}

/* ---- Scales ---- */

static struct chart_scale
chart_scale(const struct chart *c)
{
	double least = INFINITY, most = 0, x0 = INFINITY, x1 = 0;
	struct chart_scale s = {0};

	for (unsigned int l = 0; l < c->n; l++) {
		for (unsigned int i = 0; i < c->line[l].n; i++) {
			const struct chart_point *p = &c->line[l].at[i];

			least = fmin(least, p->lo);
			most = fmax(most, p->hi);
			x0 = fmin(x0, log2(p->x));
			x1 = fmax(x1, log2(p->x));
		}
	}
	/* a single size stands in the middle; else some room at either end */
	s.x0 = x0 - fmax(0.05 * (x1 - x0), x0 == x1);
	s.x1 = x1 + fmax(0.05 * (x1 - x0), x0 == x1);
	s.log_y = least > 0 && most > 30 * least;
	s.y0 = s.log_y ? log10(least) - 0.05 : least < 0 ? least * 1.05 : 0;
	s.y1 = s.log_y ? log10(most) + 0.05 : most > 0 ? most * 1.05 : 1;
	return s;
}

static double
chart_x(const struct chart_scale *s, double x)
{
	return LEFT + (log2(x) - s->x0) / (s->x1 - s->x0) * (RIGHT - LEFT);
}

static double
chart_y(const struct chart_scale *s, double y)
{
	const double v = s->log_y ? log10(y) : y;

	return BOTTOM - (v - s->y0) / (s->y1 - s->y0) * (BOTTOM - TOP);
}

static const char *
chart_number(double v, char *buf, size_t size)
{
	if (v >= 1e9)
		snprintf(buf, size, "%.4gG", v / 1e9);
	else if (v >= 1e6)
		snprintf(buf, size, "%.4gM", v / 1e6);
	else if (v >= 1e5)
		snprintf(buf, size, "%.4gk", v / 1e3);
	else
		snprintf(buf, size, v >= 1000 ? "%.0f" : "%.4g", v);
	return buf;
}

static void
chart_tick_y(FILE *f, const struct chart_scale *s, double v)
{
	const double y = chart_y(s, v);
	char n[32];

	if (y < TOP - 0.5 || y > BOTTOM + 0.5)
		return;
	fprintf(f,
	        "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
	        "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
	        LEFT, RIGHT, y, y, LEFT - 5, y + 4.5, chart_number(v, n, sizeof(n)));
}

static void
chart_axis_y(FILE *f, const struct chart_scale *s)
{
	if (s->log_y) {
		const bool few = s->y1 - s->y0 > 2.5;

		for (int d = (int)floor(s->y0); d <= (int)ceil(s->y1); d++) {
			chart_tick_y(f, s, pow(10, d));
			if (!few) {
				chart_tick_y(f, s, 2 * pow(10, d));
				chart_tick_y(f, s, 5 * pow(10, d));
			}
		}
	} else {
		const double raw = (s->y1 - s->y0) / 5, tens = pow(10, floor(log10(raw)));
		const double step = tens * (raw > 5 * tens ? 10 : raw > 2 * tens ? 5 : 2);

		const double first = ceil(s->y0 / step);

		for (unsigned int i = 0; i < 20; i++)
			chart_tick_y(f, s, (first + i) * step);
	}
}

/** The least size above `from`; infinite: none. */
static double
chart_next_x(const struct chart *c, double from)
{
	double x = INFINITY;

	for (unsigned int l = 0; l < c->n; l++)
		for (unsigned int i = 0; i < c->line[l].n; i++)
			if (c->line[l].at[i].x > from)
				x = fmin(x, c->line[l].at[i].x);
	return x;
}

/** Label the sizes that occur, but none closer than a label is wide. */
static void
chart_axis_x(FILE *f, const struct chart *c, const struct chart_scale *s)
{
	double last = 0;
	char n[32];

	for (double x = chart_next_x(c, 0); isfinite(x); x = chart_next_x(c, x)) {
		if (chart_x(s, x) < last)
			continue;
		chart_size(x, n, sizeof(n));
		last = chart_x(s, x) + 9.0 * (double)strlen(n) + 12;
		fprintf(f,
		        "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>"
		        "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
		        chart_x(s, x), chart_x(s, x), TOP, BOTTOM, chart_x(s, x), BOTTOM + 17, n);
	}
	fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">octets of a message</text>\n",
	        (LEFT + RIGHT) / 2, BOTTOM + 34);
}

/* ---- Lines ---- */

static void
chart_mark(FILE *f, unsigned int style, double x, double y)
{
	static const char *const path[STYLES] = {
	        NULL, "m-4 -4h8v8h-8z", "m0 -5l5 9h-10z", "m0 -5.5l5 5.5l-5 5.5l-5 -5.5z",
	        NULL, "m-4 -4h8v8h-8z", "m0 5l5 -9h-10z", "m0 -5.5l5 5.5l-5 5.5l-5 -5.5z"};

	style %= STYLES;
	if (path[style] == NULL)
		fprintf(f, "<circle class=\"mark m%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\">", style, x,
		        y);
	else
		fprintf(f, "<path class=\"mark m%u\" d=\"M%.1f %.1f%s\">", style, x, y,
		        path[style]);
}

static void
chart_mark_end(FILE *f, unsigned int style)
{
	fputs(style % STYLES % 4 == 0 ? "</circle>\n" : "</path>\n", f);
}

static void
chart_draw_line(FILE *f, const struct chart *c, const struct chart_scale *s, unsigned int l)
{
	const struct chart_line *line = &c->line[l];
	const unsigned int dash = (l + l / STYLES) % STYLES; /* other pairs after the first eight */
	char size[32], n[32];

	fprintf(f, "<polyline class=\"line s%u\" points=\"", dash);
	for (unsigned int i = 0; i < line->n; i++)
		fprintf(f, "%s%.1f,%.1f", i > 0 ? " " : "", chart_x(s, line->at[i].x),
		        chart_y(s, line->at[i].y));
	fputs("\"/>\n", f);
	for (unsigned int i = 0; i < line->n; i++) {
		const struct chart_point *p = &line->at[i];
		const double x = chart_x(s, p->x);

		if (p->hi > p->lo)
			fprintf(f,
			        "<line class=\"range s%u\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" "
			        "y2=\"%.1f\"/>\n",
			        dash, x, x, chart_y(s, p->lo), chart_y(s, p->hi));
		chart_mark(f, l, x, chart_y(s, p->y));
		fputs("<title>", f);
		markup_text(f, line->name);
		fprintf(f, ", %s: %s ", chart_size(p->x, size, sizeof(size)),
		        chart_number(p->y, n, sizeof(n)));
		markup_text(f, c->unit);
		fputs("</title>", f);
		chart_mark_end(f, l);
	}
}

/** Width of a text in the diagram, in user units, guessed. */
static double
chart_text_width(const char *s)
{
	return 7.4 * (double)strlen(s);
}

/** Place each entry of the legend, and draw it if f is not NULL. Returns the rows. */
static unsigned int
chart_legend(FILE *f, const struct chart *c)
{
	double x = LEFT - 40;
	unsigned int row = 0;

	for (unsigned int l = 0; l < c->n; l++) {
		const double wide = 60 + chart_text_width(c->line[l].name);
		const unsigned int dash = (l + l / STYLES) % STYLES;

		if (l > 0 && x + wide > WIDTH) {
			x = LEFT - 40;
			row++;
		}
		if (f != NULL) {
			const unsigned int y = LEGEND + ROW * row;

			fprintf(f,
			        "<line class=\"line s%u\" x1=\"%.0f\" x2=\"%.0f\" y1=\"%u\" "
			        "y2=\"%u\"/>",
			        dash, x, x + 36, y, y);
			chart_mark(f, l, x + 18, y);
			chart_mark_end(f, l);
			fprintf(f, "<text x=\"%.0f\" y=\"%.1f\">", x + 42, y + 4.5);
			markup_text(f, c->line[l].name);
			fputs("</text>\n", f);
		}
		x += wide;
	}
	return row + 1;
}

void
chart_svg(FILE *f, const struct chart *c)
{
	const struct chart_scale s = chart_scale(c);

	fprintf(f,
	        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %u\" role=\"img\">\n"
	        "<title>",
	        WIDTH, LEGEND + ROW * chart_legend(NULL, c) - 4);
	markup_text(f, c->title);
	fputs("</title>\n", f);
	fprintf(f, "<text x=\"4\" y=\"16\">");
	markup_text(f, c->unit);
	fprintf(f, "%s</text>\n", s.log_y ? ", logarithmic" : "");
	chart_axis_y(f, &s);
	chart_axis_x(f, c, &s);
	fprintf(f, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n", LEFT, TOP, BOTTOM, RIGHT);
	for (unsigned int l = 0; l < c->n; l++)
		chart_draw_line(f, c, &s, l);
	chart_legend(f, c);
	fputs("</svg>\n", f);
}

/* ---- The table ---- */

static void
chart_cell(FILE *f, const struct chart_line *line, double x)
{
	const struct chart_point *p = NULL;
	char n[32], lo[32], hi[32];

	for (unsigned int i = 0; i < line->n; i++)
		if (line->at[i].x == x)
			p = &line->at[i];
	if (p == NULL) {
		fputs("<td>&#8211;</td>", f);
		return;
	}
	fprintf(f, "<td>%s", chart_number(p->y, n, sizeof(n)));
	if (p->hi > p->lo)
		fprintf(f, " <small>%s&#8211;%s</small>", chart_number(p->lo, lo, sizeof(lo)),
		        chart_number(p->hi, hi, sizeof(hi)));
	fputs("</td>", f);
}

/** The table of the lines from `first` to before `end`. */
static void
chart_table_of(FILE *f, const struct chart *c, unsigned int first, unsigned int end)
{
	char n[32];

	fputs("<div class=\"wide\"><table>\n<caption>", f);
	markup_text(f, c->unit);
	fputs("</caption>\n<tr><th scope=\"col\">octets</th>", f);
	for (unsigned int l = first; l < end; l++) {
		fputs("<th scope=\"col\">", f);
		markup_text(f, c->line[l].name);
		fputs("</th>", f);
	}
	fputs("</tr>\n", f);
	for (double x = chart_next_x(c, 0); isfinite(x); x = chart_next_x(c, x)) {
		fprintf(f, "<tr><th scope=\"row\">%s</th>", chart_size(x, n, sizeof(n)));
		for (unsigned int l = first; l < end; l++)
			chart_cell(f, &c->line[l], x);
		fputs("</tr>\n", f);
	}
	fputs("</table></div>\n", f);
}

void
chart_table(FILE *f, const struct chart *c)
{
	for (unsigned int first = 0; first < c->n; first += COLUMNS)
		chart_table_of(f, c, first, first + COLUMNS < c->n ? first + COLUMNS : c->n);
}
