/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_CHART_H
#define WEFT_PERF_CHART_H

/** @file A diagram of several lines over message sizes, as SVG, and the table of its figures. */

#include <stdbool.h>
#include <stdio.h>

struct chart_point {
	double x;      /**< octets */
	double y;      /**< the median of the rounds */
	double lo, hi; /**< the least and the greatest round */
};

struct chart_line {
	char name[128];
	struct chart_point *at; /**< by rising x */
	unsigned int n;
};

struct chart {
	const char *title, *unit; /**< unit: of y, in words */
	struct chart_line *line;
	unsigned int n; /**< no line is empty */
};

/** Write the diagram. x is logarithmic; y has 0, or is logarithmic if the figures span more
 * than a factor of 30. */
void chart_svg(FILE *f, const struct chart *c);
/** Write tables: a line for each size, a column for each line of the diagram, and few columns in
 * one table. */
void chart_table(FILE *f, const struct chart *c);
/** Write the style of diagrams, for the head of the page. */
void chart_css(FILE *f);
/** A size as text: 64, 4K, 1M. Returns buf. */
const char *chart_size(double bytes, char *buf, size_t size);

#endif /* WEFT_PERF_CHART_H */
