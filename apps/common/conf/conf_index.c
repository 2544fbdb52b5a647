/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Exports in an array, found by their names. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conf_index.h"

#define INDEX_FIRST 64U

uint32_t
conf_name_hash(const char *name)
{
	uint32_t h = 2166136261U; /* FNV-1a */

	for (; *name != '\0'; name++)
		h = (h ^ (unsigned char)*name) * 16777619U;
	return h;
}

/** Put the export of number i into the table, which has a free place. */
static void
index_put(struct conf_index *x, const char *name, uint32_t i)
{
	uint32_t at = conf_name_hash(name) & (x->size - 1);

	while (x->place[at] != 0)
		at = (at + 1) & (x->size - 1);
	x->place[at] = i + 1;
}

/** Make the table anew, of n exports with room for as many more. */
static int
index_grow(struct conf_index *x, const struct conf_export *set, uint32_t n)
{
	struct conf_index wider = {.size = INDEX_FIRST};

	while (wider.size / 4 < n)
		wider.size *= 2;
	wider.place = calloc(wider.size, sizeof(wider.place[0]));
	if (wider.place == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		index_put(&wider, set[i].name, i);
	free(x->place);
	*x = wider;
	return 0;
}

int
conf_index_make(struct conf_index *x, const struct conf_export *set, uint32_t n)
{
	*x = (struct conf_index){0};
	return index_grow(x, set, n);
}

int
conf_index_add(struct conf_index *x, const struct conf_export *set, uint32_t n, const char *name)
{
	const int rc = x->size / 2 > n ? 0 : index_grow(x, set, n);

	if (rc == 0)
		index_put(x, name, n);
	return rc;
}

uint32_t
conf_index_find(const struct conf_index *x, const struct conf_export *set, uint32_t n,
                const char *name)
{
	uint32_t at;

	if (x->size == 0)
		return n;
	at = conf_name_hash(name) & (x->size - 1);
	for (; x->place[at] != 0; at = (at + 1) & (x->size - 1))
		if (strcmp(set[x->place[at] - 1].name, name) == 0)
			return x->place[at] - 1;
	return n;
}

void
conf_index_free(struct conf_index *x)
{
	free(x->place);
	*x = (struct conf_index){0};
}

int
conf_exports_room(struct conf_export **set, uint32_t n)
{
	struct conf_export *more;

	if ((n & (n - 1)) != 0)
		return 0;
	more = realloc(*set, (size_t)(n > 0 ? 2 * n : 1) * sizeof(**set));
	if (more == NULL)
		return -ENOMEM;
	*set = more;
	return 0;
}
