/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Which file or image an export has, and a set of those of many exports. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "conf_index.h"
#include "target_export.h"
#include "target_media.h"

#define MEDIA_FIRST 64U

struct media_row {
	char *key; /**< NULL: free */
	const struct conf_export *of;
};

/** What a path names: a file that there is by its inode, another one by its folder and its name
 * there. *key is "" if there is no such folder. -ENOMEM. */
static int
path_key(const char *path, char **key)
{
	const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
	char dir[CONF_PATH_MAX], *real;
	struct stat st;
	int n;

	if (stat(path, &st) == 0)
		return asprintf(key, "f%" PRIu64 ":%" PRIu64, (uint64_t)st.st_dev,
		                (uint64_t)st.st_ino) < 0
		               ? -ENOMEM
		               : 0;
	snprintf(dir, sizeof(dir), "%.*s/", slash != NULL ? (int)(slash - path) : 1,
	         slash != NULL ? path : ".");
	real = realpath(dir, NULL);
	n = real != NULL ? asprintf(key, "n%s/%s", real, base) : asprintf(key, "%s", "");
	free(real);
	return n < 0 ? -ENOMEM : 0;
}

bool
target_export_same_file(const struct conf_export *a, const struct conf_export *b)
{
	char *of_a = NULL, *of_b = NULL;
	bool same = false;

	if (a->path[0] != '\0' && b->path[0] != '\0' && path_key(a->path, &of_a) == 0 &&
	    path_key(b->path, &of_b) == 0)
		same = of_a[0] != '\0' && strcmp(of_a, of_b) == 0;
	free(of_a);
	free(of_b);
	return same;
}

void
media_begin(struct media *m)
{
	*m = (struct media){0};
}

void
media_end(struct media *m)
{
	for (uint32_t i = 0; i < m->size; i++)
		free(m->row[i].key);
	free(m->row);
}

/** The place of a key, which is in it, or is free. */
static struct media_row *
place_of(const struct media *m, const char *key)
{
	uint32_t at = conf_name_hash(key) & (m->size - 1);

	while (m->row[at].key != NULL && strcmp(m->row[at].key, key) != 0)
		at = (at + 1) & (m->size - 1);
	return &m->row[at];
}

static int
media_grow(struct media *m)
{
	struct media wider = {.size = m->size > 0 ? 2 * m->size : MEDIA_FIRST, .n = m->n};

	wider.row = calloc(wider.size, sizeof(wider.row[0]));
	if (wider.row == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->size; i++)
		if (m->row[i].key != NULL)
			*place_of(&wider, m->row[i].key) = m->row[i];
	free(m->row);
	*m = wider;
	return 0;
}

int
media_add(struct media *m, const struct conf_export *e, const struct conf_export **has)
{
	struct media_row *row;
	char *key;
	int rc;

	if (e->image[0] != '\0')
		rc = asprintf(&key, "i%s", e->image) < 0 ? -ENOMEM : 0;
	else if (e->path[0] != '\0')
		rc = path_key(e->path, &key);
	else
		return 0;
	if (rc != 0)
		return rc;
	if (m->size / 2 <= m->n)
		rc = media_grow(m);
	if (rc != 0 || key[0] == '\0') {
		free(key);
		return rc;
	}
	row = place_of(m, key);
	if (row->key != NULL) {
		*has = row->of;
		free(key);
		return -EEXIST;
	}
	*row = (struct media_row){key, e};
	m->n++;
	return 0;
}
