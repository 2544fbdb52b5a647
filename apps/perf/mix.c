/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The schedule of a run with several sizes or tests. */

#include <stdlib.h>
#include <string.h>

#include "conf.h"
#include "mix.h"
#include "perf.h"
#include "ui.h"

/** One part of a list: a value and its share. */
struct part {
	uint32_t value;
	double share;
};

static bool
part_size(const char *s, uint32_t *value)
{
	uint64_t size;

	if (conf_parse_size(s, &size) != 0 || size < 1 || size > PERF_MAX_BYTES)
		return false;
	*value = (uint32_t)size;
	return true;
}

static bool
part_test(const char *s, uint32_t *value)
{
	static const enum perf_test may[] = {PERF_WRITE, PERF_READ, PERF_ATOMIC_WRITE,
	                                     PERF_FETCH_ADD};

	for (size_t i = 0; i < sizeof(may) / sizeof(may[0]); i++)
		if (strcmp(s, perf_test_names[may[i]]) == 0) {
			*value = may[i];
			return true;
		}
	return false;
}

/** Read "VALUE:SHARE,..."; returns the number of parts. */
static unsigned int
parts_read(const char *option, const char *text, bool (*value)(const char *, uint32_t *),
           struct part parts[MIX_PARTS])
{
	char copy[256], *save = NULL, *item;
	unsigned int n = 0;

	if (strlen(text) >= sizeof(copy))
		ui_usage_die("%s: the list is too long", option);
	strcpy(copy, text);
	for (item = strtok_r(copy, ",", &save); item != NULL; item = strtok_r(NULL, ",", &save)) {
		char *colon = strchr(item, ':'), *end = NULL;

		if (n == MIX_PARTS)
			ui_usage_die("%s: at most %u parts", option, MIX_PARTS);
		if (colon != NULL)
			*colon = '\0';
		parts[n].share = colon != NULL ? strtod(colon + 1, &end) : 0;
		if (colon == NULL || end == colon + 1 || *end != '\0' || !(parts[n].share > 0) ||
		    parts[n].share > 1e6 || !value(item, &parts[n].value))
			ui_usage_die("%s: '%s' is no list of VALUE:SHARE%s", option, text,
			             value == part_test
			                     ? " of write, read, atomic-write and fetch-add"
			                     : ", such as 64:80,4096:15,1M:5");
		n++;
	}
	if (n == 0)
		ui_usage_die("%s: the list is empty", option);
	return n;
}

/** The value of place i of MIX_SHOTS, when the parts follow each other by their shares. */
static uint32_t
parts_at(const struct part *parts, unsigned int n, unsigned int i)
{
	double all = 0, upto = 0;

	for (unsigned int k = 0; k < n; k++)
		all += parts[k].share;
	for (unsigned int k = 0; k + 1 < n; k++) {
		upto += parts[k].share;
		if (i + 0.5 < upto / all * MIX_SHOTS)
			return parts[k].value;
	}
	return parts[n - 1].value;
}

/** An order that looks random, the same in each run (a permutation by Fisher and Yates). */
static void
mix_order(unsigned int order[MIX_SHOTS], uint64_t seed)
{
	for (unsigned int i = 0; i < MIX_SHOTS; i++)
		order[i] = i;
	for (unsigned int i = MIX_SHOTS - 1; i > 0; i--) {
		unsigned int k, keep = order[i];

		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		k = (unsigned int)((seed >> 33) % (i + 1));
		order[i] = order[k];
		order[k] = keep;
	}
}

void
mix_make(struct mix *m, uint32_t test, uint32_t size_bytes)
{
	struct part sizes[MIX_PARTS] = {{size_bytes, 1}}, tests[MIX_PARTS] = {{test, 1}};
	unsigned int nsizes = 1, ntests = 1;
	unsigned int by_size[MIX_SHOTS], by_test[MIX_SHOTS];

	if (m->sizes != NULL)
		nsizes = parts_read("--sizes", m->sizes, part_size, sizes);
	if (m->tests != NULL)
		ntests = parts_read("--mix", m->tests, part_test, tests);
	mix_order(by_size, 1);
	mix_order(by_test, 2);
	m->mean_bytes = 0;
	m->max_bytes = 8;
	for (unsigned int i = 0; i < MIX_SHOTS; i++) {
		struct mix_shot *s = &m->shot[i];

		s->test = parts_at(tests, ntests, by_test[i]);
		s->size_bytes = perf_is_word(s->test) ? 8 : parts_at(sizes, nsizes, by_size[i]);
		m->mean_bytes += (double)s->size_bytes / MIX_SHOTS;
		if (s->size_bytes > m->max_bytes)
			m->max_bytes = s->size_bytes;
	}
}
