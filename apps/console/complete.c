/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Words that Tab completes and DPDK's cmdline does not know (complete.h). */

#include "complete.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "script.h"
#include "show.h"

#define NAMES_BYTES 8192

/** Which words complete, by what the line begins with, behind so many words. */
static const struct {
	const char *begin;
	unsigned int words; /**< that stand before the options */
	const char *names;  /**< each with a blank behind it; a value follows each */
	const char *first;  /**< words without a value, one of which may stand first; NULL: none */
} completions[] = {
        {"start write ", 5, "size depth count rate offset span ", NULL},
        {"start read ", 5, "size depth count rate offset span ", NULL},
        {"start send ", 3, "size depth count rate ", NULL},
        {"start ping ", 3, "size depth count rate ", NULL},
        {"inject start ", 3, "rx tx drop delay by duplicate corrupt seed ", "rx tx "},
        {"capture start ", 3, "on qp peer local port opcode unknown ring size snap ", NULL},
        {"set capture ", 3, "qp peer local port opcode unknown ", NULL},
};

/** Values of options, each with a blank behind it. */
static const struct {
	const char *option, *values;
	bool list; /**< several, with commas between them */
} values[] = {
        {"opcode", "write read send terminate imm atomic flush verify atomic-write ", true},
        {"unknown", "keep drop ", false},
};

/** The i-th name, of those with this beginning; its length, or 0: there are fewer. */
static size_t
nth_name(const char *names, const char *begin, size_t n, int i, const char **name)
{
	for (; *names != '\0'; names += strcspn(names, " ") + 1)
		if (strncmp(names, begin, n) == 0 && i-- == 0) {
			*name = names;
			return strcspn(names, " ");
		}
	return 0;
}

/** How many words of the line have a blank behind them, and where the last one begins. */
static unsigned int
whole_words(const char *line, const char **last)
{
	unsigned int n = 0;

	for (;;) {
		line += strspn(line, " \t");
		*last = line;
		line += strcspn(line, " \t\n");
		if (*line != ' ' && *line != '\t')
			return n;
		n++;
	}
}

/** Whether the word number n of the line, from 0, is one of these names. */
static bool
word_is_one(const char *line, unsigned int n, const char *names)
{
	const char *name;

	line += strspn(line, " \t");
	for (; n > 0; n--) {
		line += strcspn(line, " \t\n");
		line += strspn(line, " \t");
	}
	return nth_name(names, line, strcspn(line, " \t\n"), 0, &name) == strcspn(line, " \t\n");
}

/** The options that may stand where the line ends, behind `have` words; NULL: none. *value: it is
 * the value of an option, whose name is the word before. */
static const char *
options_at(const char *line, unsigned int have, bool *value)
{
	for (size_t i = 0; i < sizeof(completions) / sizeof(completions[0]); i++) {
		unsigned int words = completions[i].words;
		const char *names = completions[i].names, *first = completions[i].first;

		if (strncmp(line, completions[i].begin, strlen(completions[i].begin)) != 0)
			continue;
		if (first != NULL && have > words) {
			words += word_is_one(line, words, first);
			names += strlen(first);
		}
		*value = have >= words && (have - words) % 2 == 1;
		if (have >= words)
			return names;
	}
	return NULL;
}

/** Copy the word number n of the line, from 0. */
static void
word_at(const char *line, unsigned int n, char *buf, size_t size)
{
	for (;; n--) {
		line += strspn(line, " \t");
		if (n == 0)
			break;
		line += strcspn(line, " \t\n");
	}
	snprintf(buf, size, "%.*s", (int)strcspn(line, " \t\n"), line);
}

/** The values of the option whose name is the last word but one; "": it has none that are known.
 * *last is moved behind the last comma of a list. */
static const char *
values_at(const char *line, unsigned int have, const char **last)
{
	char option[32];
	const char *comma = strrchr(*last, ',');

	word_at(line, have - 1, option, sizeof(option));
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		if (strcmp(values[i].option, option) != 0)
			continue;
		if (values[i].list && comma != NULL)
			*last = comma + 1;
		return values[i].values;
	}
	return "";
}

/** Of "show NOUN ... where", and of rates: the keys of the noun; NULL: it is no such line. */
static const char *
keys_at(const char *line, unsigned int have)
{
	static char keys[NAMES_BYTES];
	char word[64], noun[64];
	bool where = false;

	word_at(line, 0, word, sizeof(word));
	if (have < 3 || (strcmp(word, "show") != 0 && strcmp(word, "rates") != 0))
		return NULL;
	for (unsigned int i = 2; i < have; i++) {
		word_at(line, i, word, sizeof(word));
		where = where || strcmp(word, "where") == 0;
	}
	word_at(line, 1, noun, sizeof(noun));
	return where && show_keys(noun, keys, sizeof(keys)) ? keys : NULL;
}

/** The names that may stand at *last, which is moved to where they begin; NULL: it is no word of
 * this file. */
static const char *
names_at(const char *line, unsigned int have, const char **last)
{
	static char variables[NAMES_BYTES];
	const char *dollar = strrchr(*last, '$'), *names;
	bool value = false;

	if (dollar != NULL) {
		*last = dollar;
		return vars_names(variables, sizeof(variables));
	}
	names = options_at(line, have, &value);
	if (names != NULL)
		return value ? values_at(line, have, last) : names;
	return keys_at(line, have);
}

/** What stands behind a word that is whole: the value of a key follows at once. */
static const char *
behind(const char *name, size_t len)
{
	return len > 0 && name[len - 1] == '=' ? "" : " ";
}

int
complete_word(const char *line, int *state, char *dst, size_t size)
{
	const char *last, *name = NULL, *other;
	const unsigned int have = whole_words(line, &last);
	const char *names = names_at(line, have, &last);
	const size_t n = strlen(last);
	size_t len, common;

	if (names == NULL)
		return -1;
	len = nth_name(names, last, n, *state > 0 ? *state : 0, &name);
	if (*state > 0 || len == 0) {
		/* The choices, after the first call; then none. */
		snprintf(dst, size, "%.*s", (int)len, name != NULL ? name : "");
		++*state;
		return len > 0 ? 1 : 0;
	}
	common = len;
	for (int i = 1; nth_name(names, last, n, i, &other) > 0; i++)
		while (strncmp(name, other, common) != 0)
			common--;
	if (common > n || nth_name(names, last, n, 1, &other) == 0) {
		const bool whole = nth_name(names, last, n, 1, &other) == 0;

		snprintf(dst, size, "%.*s%s", (int)(common - n), name + n,
		         whole ? behind(name, len) : "");
		return 2;
	}
	snprintf(dst, size, "%.*s", (int)len, name);
	*state = 1;
	return 1;
}
