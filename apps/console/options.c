/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The words behind a command that stand in any order, as "size 64 depth 128". */

#include "options.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BYTES 128

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
