/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_WRAP_H
#define WEFT_APPS_WRAP_H

/** @file Lines of text, broken between words on a terminal. Elsewhere, as in a pipe or a file, a
 * line stays one line. */

#include <stdio.h>

/** Columns of the terminal that f is, 40 at least; 0: it is none, or of no known width. */
unsigned int wrap_width(FILE *f);
/** Print a line in one write, broken at blanks where f is a terminal: what does not fit stands in
 * further lines, which are indented. */
void wrap_text(FILE *f, const char *line);

#endif /* WEFT_APPS_WRAP_H */
