/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_MARKUP_H
#define WEFT_PERF_MARKUP_H

/** @file Texts within HTML and SVG. */

#include <stdio.h>

/** Write a text, which is UTF-8, between tags or in an attribute's quotes. What XML has no
 * character for becomes U+FFFD. */
void markup_text(FILE *f, const char *s);

#endif /* WEFT_PERF_MARKUP_H */
