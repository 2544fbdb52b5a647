/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_TABLE_H
#define WEFT_CONSOLE_TABLE_H

/**
 * @file JSON objects as text: a table with a row for each, or a block of lines for each. The suffix
 * of a key gives the unit of its value: _bytes, _ns, _us, _ms; _per_s behind these is a rate.
 */

#include <cmdline.h>
#include <jansson.h>
#include <stdbool.h>

#define TABLE_CELL_MAX 512
#define TABLE_KEY_MAX  64

/** How many columns the terminal has; without one $COLUMNS, or 80. */
unsigned int table_width(void);
/**
 * Print `rows`, an array of objects. columns: keys with blanks between; NULL: all keys of the
 * first row. `blocks`: a block for each object. A table that is wider than the terminal becomes
 * blocks by itself.
 */
void table_print(struct cmdline *cl, const json_t *rows, const char *columns, bool blocks);
/** The heading of a key: times have their unit in the cells. Returns buf. */
const char *table_heading(const char *key, char buf[TABLE_KEY_MAX]);
/** The value of a key with its unit; `exact`: sizes in octets as well. Returns buf. */
const char *table_cell(const char *key, const json_t *v, bool exact, char buf[TABLE_CELL_MAX]);
/** The value of `key` in row, or of `key` with the suffix of a unit; NULL: there is none. */
const json_t *table_value(const json_t *row, const char *key);
/** Copy the next word of *list, words with blanks between, and move behind it. False: none is left.
 */
bool table_word(const char **list, char *word, size_t size);

#endif /* WEFT_CONSOLE_TABLE_H */
