/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_OPTIONS_H
#define WEFT_CONSOLE_OPTIONS_H

/** @file The words behind a command that stand in any order, as "size 64 depth 128". */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
	OPTION_NUMBER, /**< as 1000 or 0x3e8 */
	OPTION_BYTES,  /**< the same, or with K, M or G behind it: times 1024, ... */
	OPTION_TEXT,
};

struct option_word {
	const char *name;
	enum option_kind kind;
	uint64_t min, max; /**< of a number; of a text: max is the size of *text */
	union {
		uint64_t *number;
		char *text;
	};
};

/** Take a word off the front of *p, with the blanks around it. False: there is none, or it has
 * size octets or more. */
bool option_take(const char **p, char *word, size_t size);
/** Read a number of this kind. False: it is none. */
bool option_number(const char *text, enum option_kind kind, uint64_t *out);
/**
 * Take "NAME VALUE" pairs. NULL; or why a word is not one, in a buffer that the next call uses
 * again. Values of names that do not occur stay as they are.
 */
const char *options_take(const char *text, const struct option_word *words, size_t n);

#endif /* WEFT_CONSOLE_OPTIONS_H */
