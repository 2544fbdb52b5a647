/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A plan as rows: a change a row. */

#include <stdlib.h>
#include <string.h>

#include "target_apply.h"
#include "target_control.h"

/** The keys of an export, a line each; the caller frees it. NULL: no memory. */
static char *
keys_of(const struct conf_export *e)
{
	char *text = NULL, *line;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (f == NULL)
		return NULL;
	conf_print_export(f, e);
	if (fclose(f) != 0) {
		free(text);
		return NULL;
	}
	line = strchr(text, '\n');
	memmove(text, line + 1, strlen(line + 1) + 1);
	return text;
}

/** The value of a key in keys_of(), which ends at its newline; NULL: it is not there. */
static const char *
value_of(const char *text, const char *key, size_t key_len)
{
	while (text != NULL && *text != '\0') {
		if (strncmp(text, key, key_len) == 0 && strncmp(text + key_len, " = ", 3) == 0)
			return text + key_len + 3;
		text = strchr(text, '\n');
		text = text != NULL ? text + 1 : NULL;
	}
	return NULL;
}

/** A value as a text. "": it is not given. */
static json_t *
value_text(const char *value)
{
	char *copy = value != NULL ? strndup(value, strcspn(value, "\n")) : strdup("");
	json_t *v = copy != NULL ? control_text(copy) : NULL;

	free(copy);
	return v;
}

static void
row(json_t *rows, const char *change, const char *name, json_t *key, json_t *was, json_t *now)
{
	(void)json_array_append_new(rows,
	                            json_pack("{s:s, s:s, s:o, s:o, s:o}", "change", change,
	                                      "export", name, "key", key, "was", was, "now", now));
}

/** A row for each key whose values differ. */
static void
rows_of_keys(json_t *rows, const struct apply_change *c, const char *was, const char *now)
{
	for (int pass = 0; pass < 2; pass++) {
		const char *line = pass == 0 ? now : was;

		for (; *line != '\0'; line = strchr(line, '\n') + 1) {
			const size_t n = strcspn(line, " ");
			const char *a = value_of(was, line, n), *b = value_of(now, line, n);
			const char *change = c->kind == APPLY_CREATE          ? "create"
			                     : strncmp(line, "size ", 5) == 0 ? "resize"
			                                                      : "set";
			char key[64];

			/* Those that only `was` has come second. */
			if (pass == 1 && b != NULL)
				continue;
			if (a != NULL && b != NULL && strcspn(a, "\n") == strcspn(b, "\n") &&
			    memcmp(a, b, strcspn(a, "\n")) == 0)
				continue;
			snprintf(key, sizeof(key), "%.*s", n < sizeof(key) ? (int)n : 63, line);
			row(rows, change, c->now.name, json_string(key), value_text(a),
			    value_text(b));
		}
	}
}

json_t *
apply_rows(const struct apply_plan *p)
{
	json_t *rows = json_array();
	bool good = rows != NULL;

	for (uint32_t i = 0; good && i < p->n; i++) {
		const struct apply_change *c = &p->changes[i];
		char *was = c->kind != APPLY_CREATE ? keys_of(&c->was) : NULL;
		char *now = c->kind != APPLY_DELETE ? keys_of(&c->now) : NULL;

		good = (was != NULL || c->kind == APPLY_CREATE) &&
		       (now != NULL || c->kind == APPLY_DELETE);
		if (good && c->kind == APPLY_DELETE) {
			row(rows, "delete", c->was.name, json_string(""),
			    control_text(target_place(&c->was)), json_string(""));
		} else if (good) {
			rows_of_keys(rows, c, was != NULL ? was : "", now);
		}
		free(was);
		free(now);
	}
	if (!good) {
		json_decref(rows);
		return NULL;
	}
	return rows;
}
