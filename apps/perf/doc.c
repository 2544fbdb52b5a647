/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Reads documents of `weft-perf --json`, and gathers their results into rows (doc.h). */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doc.h"
#include "file_open.h"
#include "perf.h"

#define DOC_MAX_BYTES (256u << 20)
#define DOC_REDO      "; write the file again with weft-perf --json"

/* ---- Files ---- */

static int
doc_check_result(const json_t *r, size_t i, const char *path, char *why, size_t why_bytes)
{
	static const char *const text[] = {"test", "mode"};
	const json_t *bytes = json_object_get(r, "bytes");

	for (unsigned int k = 0; k < 2; k++) {
		if (json_is_string(json_object_get(r, text[k])))
			continue;
		snprintf(why, why_bytes, "%s: result %zu has no text \"%s\"" DOC_REDO, path, i + 1,
		         text[k]);
		return -EINVAL;
	}
	/* of a mix it is the mean, which need not be whole */
	if (json_is_number(bytes) && json_number_value(bytes) > 0)
		return 0;
	snprintf(why, why_bytes, "%s: result %zu has no positive number \"bytes\"" DOC_REDO, path,
	         i + 1);
	return -EINVAL;
}

static int
doc_check(const json_t *doc, const char *path, char *why, size_t why_bytes)
{
	const json_t *results = json_object_get(doc, "results"), *r;
	const json_int_t schema = json_integer_value(json_object_get(doc, "schema"));
	size_t i;

	if (schema > PERF_SCHEMA) {
		snprintf(why, why_bytes,
		         "%s: has schema %lld, of a newer weft-perf; this one reads up to %u", path,
		         (long long)schema, PERF_SCHEMA);
		return -EPROTO;
	}
	if (!json_is_array(results)) {
		snprintf(why, why_bytes,
		         "%s: is JSON, but has no list \"results\" as weft-perf --json writes it",
		         path);
		return -EINVAL;
	}
	if (json_array_size(results) == 0) {
		snprintf(why, why_bytes,
		         "%s: has no result, because nothing was measured; measure again", path);
		return -EINVAL;
	}
	json_array_foreach(results, i, r)
	{
		int rc = doc_check_result(r, i, path, why, why_bytes);

		if (rc != 0)
			return rc;
	}
	return 0;
}

char *
doc_read(const char *path, size_t *len, char *why, size_t why_bytes)
{
	char said[256], *text = NULL;
	size_t room = 0;
	ssize_t n = 0;
	int fd = file_open(path, said, sizeof(said));

	*len = 0;
	if (fd < 0) {
		snprintf(why, why_bytes, "%s: %s", path, said);
		return NULL;
	}
	do {
		*len += (size_t)n;
		if (*len + 1 >= room) {
			char *more = realloc(text, room = room * 2 + 65536);

			if (more == NULL || room > DOC_MAX_BYTES)
				break;
			text = more;
		}
		n = read(fd, text + *len, room - *len - 1);
	} while (n > 0);
	close(fd);
	if (n == 0 && *len > 0) {
		text[*len] = '\0';
		return text;
	}
	if (n == 0)
		snprintf(why, why_bytes, "%s: is empty" DOC_REDO, path);
	else if (n < 0)
		snprintf(why, why_bytes, "%s: cannot be read: %s", path, strerror(errno));
	else
		snprintf(why, why_bytes, "%s: is too large for a document of weft-perf --json",
		         path);
	free(text);
	return NULL;
}

json_t *
doc_load(const char *path, char *why, size_t why_bytes)
{
	size_t len;
	char *text = doc_read(path, &len, why, why_bytes);
	json_t *doc = text != NULL ? doc_parse(path, text, len, why, why_bytes) : NULL;

	free(text);
	return doc;
}

json_t *
doc_parse(const char *path, const char *text, size_t len, char *why, size_t why_bytes)
{
	json_error_t e;
	json_t *doc = json_loadb(text, len, JSON_REJECT_DUPLICATES, &e);

	if (doc == NULL && json_error_code(&e) == json_error_premature_end_of_input) {
		snprintf(why, why_bytes, "%s:%d: the file ends within the document" DOC_REDO, path,
		         e.line);
	} else if (doc == NULL) {
		snprintf(why, why_bytes, "%s:%d: is not JSON (%s)" DOC_REDO, path, e.line, e.text);
	} else if (doc_check(doc, path, why, why_bytes) != 0) {
		json_decref(doc);
		doc = NULL;
	}
	return doc;
}

/* ---- Jobs ---- */

/** Numbers of a result that are part of its job; all other numbers are figures. */
static const char *const doc_job_numbers[] = {"bytes",
                                              "depth",
                                              "tx_depth",
                                              "rx_depth",
                                              "qps",
                                              "workers",
                                              "clients",
                                              "rpc_version",
                                              "post_list",
                                              "cq_mod",
                                              "mtu_bytes",
                                              "inline_bytes",
                                              "max_inline_bytes",
                                              "rate_limit",
                                              "rate_limit_mb_s",
                                              "rate_limit_mmsg_s",
                                              "rate_asked",
                                              "outs",
                                              "recv_post_list",
                                              "margin_s",
                                              "quorum",
                                              "range_offset",
                                              "range_bytes",
                                              "flush_every",
                                              "seed",
                                              "targets"};

/** Texts of a result that describe what was found, and not what was asked for. */
static const char *const doc_found_texts[] = {"region", "warning",     "note", "why",
                                              "status", "interrupted", "ended"};

static bool
doc_is_one_of(const char *const *list, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i], key) == 0)
			return true;
	return false;
}

static bool
doc_is_job_key(const char *key, const json_t *v)
{
	if (json_is_string(v) || json_is_boolean(v))
		return !doc_is_one_of(doc_found_texts,
		                      sizeof(doc_found_texts) / sizeof(doc_found_texts[0]), key);
	return json_is_number(v) &&
	       doc_is_one_of(doc_job_numbers, sizeof(doc_job_numbers) / sizeof(doc_job_numbers[0]),
	                     key);
}

static json_t *
doc_job(json_t *result)
{
	json_t *job = json_object(), *v;
	const char *key;
	int rc = 0;

	json_object_foreach(result, key, v)
	{
		/* one name for what two versions call differently */
		const char *as = strcmp(key, "tx_depth") == 0 ? "depth" : key;

		if (doc_is_job_key(key, v))
			rc |= json_object_set(job, as, v);
	}
	if (rc == 0)
		return job;
	json_decref(job);
	return NULL;
}

bool
doc_same_job(json_t *a, const json_t *b)
{
	const char *key;
	json_t *v;

	json_object_foreach(a, key, v)
	{
		const json_t *other = json_object_get(b, key);

		if (other != NULL && !json_equal(v, other))
			return false;
	}
	return true;
}

const char *
doc_text(const json_t *job, const char *key)
{
	const char *s = json_string_value(json_object_get(job, key));

	return s != NULL ? s : "";
}

long long
doc_number(const json_t *job, const char *key)
{
	return (long long)json_number_value(json_object_get(job, key));
}

const char *
doc_value(const json_t *job, const char *key, char *buf, size_t size)
{
	const json_t *v = json_object_get(job, key);

	if (json_is_string(v))
		snprintf(buf, size, "%s", json_string_value(v));
	else if (json_is_integer(v))
		snprintf(buf, size, "%lld", (long long)json_integer_value(v));
	else if (json_is_real(v))
		snprintf(buf, size, "%g", json_real_value(v));
	else
		snprintf(buf, size, "%s", v == NULL ? "-" : json_is_true(v) ? "yes" : "no");
	return buf;
}

/* ---- Rows ---- */

static int
doc_row_add(struct doc_rows *rows, json_t *result)
{
	json_t *job = doc_job(result);
	struct doc_row *row;
	json_t **round;
	unsigned int i = 0;

	if (job == NULL)
		return -ENOMEM;
	while (i < rows->n && !json_equal(rows->at[i].job, job))
		i++;
	if (i == rows->n) {
		row = realloc(rows->at, (rows->n + 1) * sizeof(*row));
		if (row == NULL) {
			json_decref(job);
			return -ENOMEM;
		}
		rows->at = row;
		row[rows->n++] = (struct doc_row){.job = json_incref(job)};
	}
	json_decref(job);
	row = &rows->at[i];
	round = realloc(row->round, (row->n + 1) * sizeof(json_t *));
	if (round == NULL)
		return -ENOMEM;
	row->round = round;
	round[row->n++] = result;
	return 0;
}

int
doc_rows(json_t *const *docs, unsigned int n, struct doc_rows *out)
{
	*out = (struct doc_rows){0};
	for (unsigned int d = 0; d < n; d++) {
		json_t *result;
		size_t i;

		json_array_foreach(json_object_get(docs[d], "results"), i, result)
		{
			int rc = doc_row_add(out, result);

			if (rc != 0) {
				doc_rows_free(out);
				return rc;
			}
		}
	}
	return 0;
}

void
doc_rows_free(struct doc_rows *rows)
{
	for (unsigned int i = 0; i < rows->n; i++) {
		json_decref(rows->at[i].job);
		free(rows->at[i].round);
	}
	free(rows->at);
	*rows = (struct doc_rows){0};
}

unsigned int
doc_figures(const struct doc_row *row, const char *key, double *v)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < row->n; i++) {
		const json_t *f = json_object_get(row->round[i], key);

		if (json_is_number(f))
			v[n++] = json_number_value(f);
	}
	return n;
}

/* ---- Warnings ---- */

size_t
doc_warnings(const json_t *result, const char **first)
{
	const json_t *list = json_object_get(result, "warnings");
	const char *text = json_string_value(json_array_get(list, 0));

	*first = text != NULL ? text : "";
	return json_array_size(list);
}

unsigned int
doc_warned(const json_t *results)
{
	const char *first;
	unsigned int n = 0;

	for (size_t i = 0; i < json_array_size(results); i++)
		n += doc_warnings(json_array_get(results, i), &first) > 0;
	return n;
}
