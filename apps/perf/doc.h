/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_DOC_H
#define WEFT_PERF_DOC_H

/**
 * @file Documents of `weft-perf --json`: how they are read and checked, and how their results are
 * gathered into rows. A row is one job with all its rounds.
 *
 * A result is an object with `test`, `mode` and `bytes`. The other keys of its job are `depth` (or
 * `tx_depth`), the numbers that doc.c lists, and each text or truth value that is not about the
 * server's memory. All other keys are figures.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/** The rounds of one job. */
struct doc_row {
	json_t *job;    /**< object with the keys of the job */
	json_t **round; /**< results, borrowed from their documents */
	unsigned int n;
};

struct doc_rows {
	struct doc_row *at; /**< in the order of their first rounds */
	unsigned int n;
};

/** Read and check the document in a file. The caller releases it by json_decref(). NULL: one line
 * in why, which names the file and says what to do. */
json_t *doc_load(const char *path, char *why, size_t why_bytes);
/** Read a whole regular file of *len octets; a zero follows them. The caller frees it. NULL: one
 * line in why. */
char *doc_read(const char *path, size_t *len, char *why, size_t why_bytes);
/** Check the document in a text, which is that of the file `path`. As doc_load(). */
json_t *doc_parse(const char *path, const char *text, size_t len, char *why, size_t why_bytes);
/** Gather the results of n documents, which must stay while the rows are used. 0 or -ENOMEM. */
int doc_rows(json_t *const *docs, unsigned int n, struct doc_rows *out);
void doc_rows_free(struct doc_rows *rows);
/** Store the figure `key` of each round that has one in v, which has room for row->n. Returns their
 * number. */
unsigned int doc_figures(const struct doc_row *row, const char *key, double *v);
/** How many warnings a result has; *first is one of them if there is any. */
size_t doc_warnings(const json_t *result, const char **first);
/** How many results of an array have warnings. */
unsigned int doc_warned(const json_t *results);
/** Whether no key that both jobs have differs between them. */
bool doc_same_job(json_t *a, const json_t *b);
/** A text of the job, or "" without it. */
const char *doc_text(const json_t *job, const char *key);
/** A number of the job; 0 without it. */
long long doc_number(const json_t *job, const char *key);
/** Write the value of a key of the job as text. Returns buf. */
const char *doc_value(const json_t *job, const char *key, char *buf, size_t size);

#endif /* WEFT_PERF_DOC_H */
