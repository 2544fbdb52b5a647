/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_ROWS_H
#define WEFT_CONSOLE_ROWS_H

/** @file Text on the terminal, in rows that end between words. Main thread. */

#include "console.h"

/** Where the output stands. */
struct rows_at {
	bool breaks;    /**< lines between words; else where the terminal breaks them */
	bool continued; /**< the last row was not the end of its line */
	size_t at;      /**< of the next octet */
};

/** Print so many octets on the terminal. */
void rows_put(const char *text, size_t n);
/** Rows and columns of the terminal. False: it has none, or too few. */
bool rows_window(unsigned int *rows, unsigned int *columns);
/** Print rows until the text is at its end or there are so many. */
void rows_print(struct rows_at *p, const char *text, unsigned int rows, unsigned int columns);
/** Print lines and a newline behind the last; those wider than the terminal are broken. */
void rows_lines(const char *text);
/** Print what a line has printed into memory: at the prompt as rows_lines(), but for JSON. */
void rows_output(struct cmdline *cl, const char *line, const char *text);
/** Whether this line only shows something, and the prompt is on a terminal that says how large it
 * is. */
bool rows_shows(const char *line);

#endif /* WEFT_CONSOLE_ROWS_H */
