/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Exports from the pairs and texts of the control socket. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target_state_file.h"

/** Whether a value is one line that the parser of configurations takes as it is. */
static bool
value_ok(const char *v)
{
	for (const char *p = v; *p != '\0'; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f || (*p == ';' && p > v && p[-1] == ' '))
			return false;
	return *v != '\0' && *v != ' ' && v[strlen(v) - 1] != ' ';
}

static bool
key_ok(const char *k)
{
	return *k != '\0' && k[strspn(k, "abcdefghijklmnopqrstuvwxyz_")] == '\0';
}

/** The lines of `text` whose key is not among the pairs. */
static void
print_others(FILE *out, char *text, const char *const (*pairs)[2], unsigned int npairs)
{
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save)) {
		size_t n = strcspn(line, " ");
		bool given = false;

		for (unsigned int i = 0; i < npairs; i++)
			given = given ||
			        (strlen(pairs[i][0]) == n && memcmp(pairs[i][0], line, n) == 0);
		if (!given && line[0] != '[')
			fprintf(out, "%s\n", line);
	}
}

/** The text of an export as a section; the caller frees it. NULL: no memory. */
static char *
export_text(const struct conf_export *e)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (f == NULL)
		return NULL;
	conf_print_export(f, e);
	if (fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}

/** Messages of the parser name a file and a line, which the operator has not seen. */
static void
without_place(char *err, const char *name)
{
	char *at = strstr(err, "[export ");

	if (strncmp(err, name, strlen(name)) == 0 && at != NULL)
		memmove(err, at, strlen(at) + 1);
}

/** What is written has to be read as what it was. It is of the state from now on. */
static int
kept_as_it_is(struct conf_export *e, const char *place, char *err, size_t err_size)
{
	char *once = NULL, *again;
	struct conf_export second;
	int rc;

	e->of_state = true;
	again = export_text(e);
	rc = again == NULL ? -ENOMEM : conf_parse_export(place, again, &second, err, err_size);
	if (rc == 0) {
		once = export_text(&second);
		if (once == NULL || strcmp(once, again) != 0) {
			snprintf(err, err_size, "[export %.60s]: a value that cannot be kept",
			         e->name);
			rc = -EINVAL;
		}
	}
	free(again);
	free(once);
	return rc;
}

int
state_parse(const struct state *s, const char *name, const struct conf_export *base,
            const char *const (*pairs)[2], unsigned int npairs, struct conf_export *out, char *err,
            size_t err_size)
{
	char place[STATE_PATH_MAX], *text = NULL, *before = NULL;
	size_t len;
	FILE *f;
	int rc = -ENOMEM;

	snprintf(err, err_size, "out of memory");
	for (unsigned int i = 0; i < npairs; i++)
		if (!key_ok(pairs[i][0]) || !value_ok(pairs[i][1])) {
			snprintf(err, err_size,
			         "[export %.60s] %.60s: not a value of one line, or with a comment "
			         "in it",
			         name, key_ok(pairs[i][0]) ? pairs[i][0] : "a key");
			return -EINVAL;
		}
	if (!value_ok(name) || strpbrk(name, "[]") != NULL) {
		snprintf(err, err_size,
		         "\"%.60s\": bad name; use letters, digits, '.', '_' and '-' only",
		         value_ok(name) ? name : "");
		return -EINVAL;
	}
	f = open_memstream(&text, &len);
	if (f == NULL)
		return -ENOMEM;
	fprintf(f, "[export %s]\n", name);
	if (base != NULL && (before = export_text(base)) != NULL)
		print_others(f, before, pairs, npairs);
	for (unsigned int i = 0; i < npairs; i++)
		fprintf(f, "%s = %s\n", pairs[i][0], pairs[i][1]);
	if (fclose(f) == 0 && (base == NULL || before != NULL)) {
		rc = conf_parse_export(state_path(s, "request", place), text, out, err, err_size);
		without_place(err, place);
	}
	if (rc == 0)
		rc = kept_as_it_is(out, place, err, err_size);
	if (rc == 0 && strcmp(out->name, name) != 0) {
		snprintf(err, err_size, "[export %.60s]: a name that cannot be kept", name);
		rc = -EINVAL;
	}
	free(text);
	free(before);
	return rc;
}

/** The first line that begins a section of another kind; 0: there is none. */
static int
other_section(const char *text)
{
	for (int line = 1; text != NULL; line++) {
		text += strspn(text, " \t");
		if (*text == '[' &&
		    (strncmp(text + 1, "export", 6) != 0 || strchr(" \t", text[7]) == NULL))
			return line;
		text = strchr(text, '\n');
		text = text != NULL ? text + 1 : NULL;
	}
	return 0;
}

int
state_parse_set(const struct state *s, const char *text, struct conf *out, char *err,
                size_t err_size)
{
	char place[STATE_PATH_MAX];
	const int other = other_section(text);
	int rc;

	if (other != 0) {
		snprintf(err, err_size, "line %d: not an [export NAME]; a set has nothing else",
		         other);
		return -EINVAL;
	}
	state_path(s, "set", place);
	rc = conf_load_sections(place, text, strlen(text), out, err, err_size);
	/* The operator knows the line, and another name of the file. */
	if (rc != 0 && strncmp(err, place, strlen(place)) == 0 && err[strlen(place)] == ':') {
		const char *rest = err + strlen(place) + 1;

		memmove(err + 5, rest, strlen(rest) + 1);
		memcpy(err, "line ", 5);
	}
	for (uint32_t i = 0; rc == 0 && i < out->nexports; i++)
		rc = kept_as_it_is(&out->exports[i], place, err, err_size);
	return rc;
}
