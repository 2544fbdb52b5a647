/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Matches the rows of two sets of results, and judges each of them. */

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"

const char *const compare_verdict_names[COMPARE_VERDICTS] = {
        [COMPARE_FASTER] = "faster",           [COMPARE_SLOWER] = "slower",
        [COMPARE_SAME] = "no difference seen", [COMPARE_FEW] = "too few rounds",
        [COMPARE_NO_RATIO] = "no ratio: a 0",  [COMPARE_AMBIGUOUS] = "matches several rows",
};

/* ---- Metrics ---- */

/** Endings of keys. The first that fits says which values are better. */
static const struct {
	const char *end;
	bool higher;
} compare_ends[] = {
        {"_mb_s", true},
        {"msg_s", true},
        {"gbit_s", true},
        {"_us", false},
        {"_ns", false},
        {"cycles_per_message", false},
        {"retransmitted_segments", false},
};

bool
compare_metric_take(const char *arg, struct compare_metric *m)
{
	const char *colon = strrchr(arg, ':');
	const size_t n = colon != NULL ? (size_t)(colon - arg) : strlen(arg);

	if (n == 0 || n >= sizeof(m->key))
		return false;
	memcpy(m->key, arg, n);
	m->key[n] = '\0';
	if (colon != NULL) {
		m->higher = strcmp(colon, ":higher") == 0;
		return m->higher || strcmp(colon, ":lower") == 0;
	}
	for (size_t i = 0; i < sizeof(compare_ends) / sizeof(compare_ends[0]); i++) {
		const size_t e = strlen(compare_ends[i].end);

		if (n >= e && strcmp(m->key + n - e, compare_ends[i].end) == 0) {
			m->higher = compare_ends[i].higher;
			return true;
		}
	}
	return false;
}

/* ---- Rows ---- */

enum compare_verdict
compare_judge(const struct compare_row *r)
{
	if (!r->is.valid)
		return COMPARE_NO_RATIO;
	if (!r->is.bounded)
		return COMPARE_FEW;
	if (r->is.low <= 1 && r->is.high >= 1)
		return COMPARE_SAME;
	return (r->is.low > 1) == r->metric->higher ? COMPARE_FASTER : COMPARE_SLOWER;
}

/** Compare two rows, if both have the figure. 1: added; 0: one has no such figure; or -errno. */
static int
compare_pair(struct compare *c, const struct compare_metric *m, const struct doc_row *a,
             const struct doc_row *b, json_t *job)
{
	double *va = calloc((size_t)a->n + b->n, sizeof(*va)), *vb;
	struct compare_row *r = &c->row[c->nrows];
	int rc = 0;

	if (va == NULL)
		return -ENOMEM;
	vb = va + a->n;
	*r = (struct compare_row){.metric = m, .job = job};
	r->na = doc_figures(a, m->key, va);
	r->nb = doc_figures(b, m->key, vb);
	if (r->na > 0 && r->nb > 0) {
		r->median_a = interval_median(va, r->na);
		r->median_b = interval_median(vb, r->nb);
		rc = interval_ratio(va, r->na, vb, r->nb, &r->is);
		r->verdict = compare_judge(r);
		if (rc == 0)
			rc = 1;
	}
	free(va);
	return rc;
}

/** The rows of a side that have the job: their number, and the first in *found. */
static unsigned int
compare_find(const struct doc_rows *rows, json_t *job, const struct doc_row **found)
{
	unsigned int n = 0;

	for (unsigned int i = rows->n; i-- > 0;) {
		if (doc_same_job(job, rows->at[i].job)) {
			*found = &rows->at[i];
			n++;
		}
	}
	return n;
}

/** Match one row of A, and compare it by each metric. */
static int
compare_one(struct compare *c, const struct doc_row *a)
{
	const struct doc_row *b = NULL, *back = NULL;
	const unsigned int n = compare_find(&c->side[1].rows, a->job, &b);
	json_t *job;

	if (n == 0)
		return json_array_append(c->only[0], a->job) == 0 ? 0 : -ENOMEM;
	job = json_copy(a->job);
	if (job == NULL || json_array_append_new(c->jobs, job) != 0)
		return -ENOMEM;
	if (n > 1 || compare_find(&c->side[0].rows, b->job, &back) > 1) {
		c->row[c->nrows++] = (struct compare_row){
		        .metric = &c->metric[0], .job = job, .verdict = COMPARE_AMBIGUOUS};
		return 0;
	}
	if (json_object_update_missing(job, b->job) != 0)
		return -ENOMEM;
	for (unsigned int m = 0; m < c->nmetrics; m++) {
		int rc = compare_pair(c, &c->metric[m], a, b, job);

		if (rc < 0)
			return rc;
		c->nrows += (unsigned int)rc;
	}
	return 0;
}

static int
compare_rows(struct compare *c)
{
	const struct doc_rows *a = &c->side[0].rows, *b = &c->side[1].rows;
	const struct doc_row *found;

	c->row = calloc((size_t)a->n * c->nmetrics + 1, sizeof(*c->row));
	c->jobs = json_array();
	c->only[0] = json_array();
	c->only[1] = json_array();
	if (c->row == NULL || c->jobs == NULL || c->only[0] == NULL || c->only[1] == NULL)
		return -ENOMEM;
	for (unsigned int i = 0; i < a->n; i++) {
		int rc = compare_one(c, &a->at[i]);

		if (rc != 0)
			return rc;
	}
	for (unsigned int i = 0; i < b->n; i++)
		if (compare_find(a, b->at[i].job, &found) == 0 &&
		    json_array_append(c->only[1], b->at[i].job) != 0)
			return -ENOMEM;
	return 0;
}

static int
compare_gather(struct compare_side *s, char *why, size_t why_bytes)
{
	int rc = doc_rows(s->docs, s->nfiles, &s->rows);

	for (unsigned int i = 0; rc == 0 && i < s->rows.n; i++) {
		if (s->rows.at[i].n <= COMPARE_MAX_ROUNDS)
			continue;
		snprintf(why, why_bytes, "%s: %u rounds of one row; %u are possible", s->files[0],
		         s->rows.at[i].n, COMPARE_MAX_ROUNDS);
		return -E2BIG;
	}
	if (rc != 0)
		snprintf(why, why_bytes, "%s", strerror(-rc));
	return rc;
}

/** Take the ignored keys out of all jobs. Rows that differ in these alone match several of the
 * other side then, and are not compared. */
static int
compare_ignore(struct compare *c, char *why, size_t why_bytes)
{
	for (unsigned int k = 0; k < c->nignore; k++) {
		bool any = false;

		for (unsigned int s = 0; s < 2; s++)
			for (unsigned int i = 0; i < c->side[s].rows.n; i++)
				any |= json_object_del(c->side[s].rows.at[i].job, c->ignore[k]) ==
				       0;
		if (!any) {
			snprintf(why, why_bytes, "--ignore: no job has the key \"%s\"",
			         c->ignore[k]);
			return -ENOENT;
		}
	}
	return 0;
}

/** Write the keys in which two jobs differ: "post_list (0 and 8), qps (1 and 4)". Returns their
 * number. */
static unsigned int
compare_differ(json_t *a, const json_t *b, char *buf, size_t bytes)
{
	char va[64], vb[64];
	unsigned int n = 0;
	const char *key;
	json_t *v;

	buf[0] = '\0';
	json_object_foreach(a, key, v)
	{
		const json_t *other = json_object_get(b, key);
		const size_t at = strlen(buf);

		if (other == NULL || json_equal(v, other))
			continue;
		snprintf(buf + at, bytes - at, "%s%s (%s and %s)", n > 0 ? ", " : "", key,
		         doc_value(a, key, va, sizeof(va)), doc_value(b, key, vb, sizeof(vb)));
		n++;
	}
	return n;
}

/** No row matches: say in what the two most similar ones differ. */
static void
compare_say_apart(const struct compare *c, char *why, size_t why_bytes)
{
	const struct doc_rows *a = &c->side[0].rows, *b = &c->side[1].rows;
	unsigned int least = UINT_MAX, n;
	char text[256], best[256] = "";

	for (unsigned int i = 0; i < a->n; i++)
		for (unsigned int k = 0; k < b->n; k++) {
			n = compare_differ(a->at[i].job, b->at[k].job, text, sizeof(text));
			if (n < least) {
				least = n;
				strcpy(best, text);
			}
		}
	snprintf(
	        why, why_bytes,
	        "%s and %s have no row in common%s%s; compare runs of one plan, or leave a key out "
	        "with --ignore KEY",
	        c->side[0].files[0], c->side[1].files[0],
	        best[0] != '\0' ? ": the most similar ones differ in " : "", best);
}

int
compare_do(struct compare *c, char *why, size_t why_bytes)
{
	int rc = 0;

	for (unsigned int s = 0; s < 2 && rc == 0; s++)
		rc = compare_gather(&c->side[s], why, why_bytes);
	if (rc == 0)
		rc = compare_ignore(c, why, why_bytes);
	if (rc != 0)
		return rc;
	rc = compare_rows(c);
	if (rc != 0)
		snprintf(why, why_bytes, "%s", strerror(-rc));
	else if (c->nrows == 0 && json_array_size(c->jobs) == 0)
		rc = -ENOENT, compare_say_apart(c, why, why_bytes);
	else if (c->nrows == 0)
		rc = -ENOENT, snprintf(why, why_bytes,
		                       "no row that both have has the figure \"%s\"; the keys of a "
		                       "result in %s are the choice",
		                       c->metric[0].key, c->side[0].files[0]);
	return rc;
}

unsigned int
compare_count(const struct compare *c, enum compare_verdict v)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < c->nrows; i++)
		n += c->row[i].verdict == v;
	return n;
}

void
compare_free(struct compare *c)
{
	for (unsigned int s = 0; s < 2; s++) {
		doc_rows_free(&c->side[s].rows);
		for (unsigned int i = 0; i < c->side[s].nfiles; i++)
			json_decref(c->side[s].docs[i]);
		json_decref(c->only[s]);
	}
	json_decref(c->jobs);
	free(c->row);
}
