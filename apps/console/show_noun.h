/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_SHOW_NOUN_H
#define WEFT_CONSOLE_SHOW_NOUN_H

/** @file The nouns of `show`: which endpoints of telemetry answer, and what of it is shown. */

#include "tel_client.h"

struct show_noun {
	const char *name, *help;
	/** Append the objects to `rows`. 0, or -1: err says why. */
	int (*fetch)(struct tel_client *t, const struct show_noun *n, json_t *rows,
	             char err[TEL_ERR_MAX]);
	const char *cmd;  /**< endpoint */
	const char *list; /**< endpoint of the names; NULL: fetch() needs none */
	/** keys that name an object, the last of which people type; words */
	const char *ident;
	const char *columns; /**< of the table; NULL: a block for each object, of all keys */
	/**
	 * Keys that only grow until the program ends; words. A first word "!" means all but those
	 * that follow, where "*" stands for any text.
	 */
	const char *counters;
	const char *rates; /**< columns of rates; NULL: those that are not zero */
};

/** All nouns; the last has no name. */
extern const struct show_noun show_nouns[];

/** NULL: there is none. */
const struct show_noun *show_noun_find(const char *name);
/** The number of a noun, from 0. */
unsigned int show_noun_index(const struct show_noun *n);
unsigned int show_noun_count(void);
/** Whether the value of a key only grows. */
bool show_noun_grows(const struct show_noun *n, const char *key, const json_t *v);

#endif /* WEFT_CONSOLE_SHOW_NOUN_H */
