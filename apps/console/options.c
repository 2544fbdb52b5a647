/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The words behind a command that stand in any order, as "size 64 depth 128", and their
 * completion. */

#include "options.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BYTES 128

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

bool
option_take(const char **p, char *word, size_t size)
{
	const char *from = *p + strspn(*p, " \t\r\n");
	const size_t n = strcspn(from, " \t\r\n");

	if (n == 0 || n >= size)
		return false;
	memcpy(word, from, n);
	word[n] = '\0';
	*p = from + n + strspn(from + n, " \t\r\n");
	return true;
}

bool
option_number(const char *text, enum option_kind kind, uint64_t *out)
{
	static const char units[] = "KMG";
	const char *unit;
	char *end;
	uint64_t v;

	if (!isdigit((unsigned char)text[0]))
		return false;
	v = strtoull(text, &end, 0);
	if (kind == OPTION_BYTES && *end != '\0' &&
	    (unit = strchr(units, toupper((unsigned char)*end))) != NULL) {
		const unsigned int shift = 10 * (unsigned int)(unit - units + 1);

		if (v > UINT64_MAX >> shift)
			return false;
		v <<= shift;
		end++;
	}
	*out = v;
	return *end == '\0';
}

static const char *
option_value(const struct option_word *w, const char *value, char *why, size_t size)
{
	uint64_t v;

	if (w->kind == OPTION_TEXT) {
		if (strlen(value) >= w->max) {
			snprintf(why, size, "%s: longer than %" PRIu64 " octets", w->name,
			         w->max - 1);
			return why;
		}
		memcpy(w->text, value, strlen(value) + 1);
		return NULL;
	}
	if (!option_number(value, w->kind, &v) || v < w->min || v > w->max) {
		snprintf(why, size, "%s '%s': a number from %" PRIu64 " to %" PRIu64, w->name,
		         value, w->min, w->max);
		return why;
	}
	*w->number = v;
	return NULL;
}

const char *
options_take(const char *text, const struct option_word *words, size_t n)
{
	static char why[2 * WORD_BYTES + 64];
	char name[WORD_BYTES], value[WORD_BYTES];
	const char *bad;
	size_t i;

	while (option_take(&text, name, sizeof(name))) {
		for (i = 0; i < n && strcmp(words[i].name, name) != 0; i++)
			;
		if (i == n) {
			int have =
			        snprintf(why, sizeof(why), "'%s' was not expected; options:", name);

			for (i = 0; i < n && have < (int)sizeof(why); i++)
				have += snprintf(why + have, sizeof(why) - (size_t)have, " %s",
				                 words[i].name);
			return why;
		}
		if (!option_take(&text, value, sizeof(value))) {
			snprintf(why, sizeof(why), "%s: its value is missing", name);
			return why;
		}
		bad = option_value(&words[i], value, why, sizeof(why));
		if (bad != NULL)
			return bad;
	}
	if (*text != '\0')
		return "a word is too long";
	return NULL;
}

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

/** The names that may stand where the line ends, behind `have` words; NULL: none. */
static const char *
names_at(const char *line, unsigned int have)
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
		if (have >= words && (have - words) % 2 == 0)
			return names;
	}
	return NULL;
}

int
options_complete(const char *line, int *state, char *dst, size_t size)
{
	const char *last, *name = NULL, *other;
	const unsigned int have = whole_words(line, &last);
	size_t n = strlen(last), len, common;
	const char *names = names_at(line, have);

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

		snprintf(dst, size, "%.*s%s", (int)(common - n), name + n, whole ? " " : "");
		return 2;
	}
	snprintf(dst, size, "%.*s", (int)len, name);
	*state = 1;
	return 1;
}
