/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_COMPARE_H
#define WEFT_PERF_COMPARE_H

/** @file `weft-perf compare`: two sets of results, row by row (docs/weft-perf-compare.md). */

#include <stdio.h>

#include "doc.h"
#include "interval.h"

#define COMPARE_EXIT_SLOWER 3 /**< some row is slower */
#define COMPARE_MAX_METRICS 8
#define COMPARE_MAX_ROUNDS  2000 /**< of one row on one side */

/** Run the command; argv[0] is "compare". Returns the program's exit status. */
int compare_main(int argc, char **argv);

enum compare_verdict {
	COMPARE_FASTER,
	COMPARE_SLOWER,
	COMPARE_SAME,      /**< the interval contains 1 */
	COMPARE_FEW,       /**< too few rounds for an interval */
	COMPARE_NO_RATIO,  /**< a figure is 0 or negative */
	COMPARE_AMBIGUOUS, /**< the other side has several rows that differ in keys missing here */
	COMPARE_VERDICTS,
};

extern const char *const compare_verdict_names[COMPARE_VERDICTS];

/** A figure, and which values of it are better. */
struct compare_metric {
	char key[64];
	bool higher; /**< higher is better; else lower */
};

/** One side's documents. */
struct compare_side {
	char **files;
	unsigned int nfiles;
	json_t **docs;
	struct doc_rows rows;
};

/** The comparison of one row by one metric. */
struct compare_row {
	const struct compare_metric *metric;
	json_t *job; /**< the keys of A's row, and those that only B's has */
	enum compare_verdict verdict;
	unsigned int na, nb; /**< rounds that have the figure */
	double median_a, median_b;
	struct interval is;
};

struct compare {
	struct compare_side side[2]; /**< A and B */
	struct compare_metric metric[COMPARE_MAX_METRICS];
	unsigned int nmetrics;
	const char *ignore[COMPARE_MAX_METRICS]; /**< keys of jobs that tell no rows apart */
	unsigned int nignore;
	struct compare_row *row;
	unsigned int nrows;
	json_t *jobs;    /**< array that owns the jobs of the rows */
	json_t *only[2]; /**< arrays of jobs that one side alone has */
};

/** Find out which values of a figure are better: "KEY", "KEY:higher" or "KEY:lower". False: the key
 * is unknown and nothing was said. */
bool compare_metric_take(const char *arg, struct compare_metric *m);
/** The verdict on a row whose medians and interval are set. */
enum compare_verdict compare_judge(const struct compare_row *r);
/** Match and compare the rows of both sides. 0; or -errno with one line in why. */
int compare_do(struct compare *c, char *why, size_t why_bytes);
/** Release the rows and the documents of both sides. */
void compare_free(struct compare *c);
/** Number of rows with a verdict. */
unsigned int compare_count(const struct compare *c, enum compare_verdict v);

/* ---- compare_args.c ---- */

/** Take the value of --metric; ends the program if it is none. */
void compare_add_metric(struct compare *c, const char *arg);

/* ---- compare_print.c ---- */

void compare_print(FILE *f, const struct compare *c);
void compare_print_json(FILE *f, const struct compare *c);

#endif /* WEFT_PERF_COMPARE_H */
