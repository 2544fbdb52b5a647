/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_PLAN_H
#define WEFT_PERF_PLAN_H

/**
 * @file The plan of a sweep: an INI file whose [sweep] sections have lists of tests, sizes and
 * depths, and the jobs that they expand to (docs/weft-perf-compare.md).
 */

#include "perf.h"

#define PLAN_MAX_POINTS 4096
#define PLAN_MAX_ROUNDS 1000

/** A job that is run once in each round. Its iterations are 0 where the plan names none. */
struct plan_point {
	struct perf_job job;
	unsigned int rounds;
};

struct plan {
	struct plan_point *at;
	unsigned int n;
	unsigned int rounds;  /**< the most of any point */
	unsigned int runs;    /**< all rounds of all points */
	unsigned int workers; /**< the most of any point */
};

/** Read a plan. 0; or -errno with one line in why, which begins with the file's name. */
int plan_load(const char *path, struct plan *p, char *why, size_t why_bytes);
/** The same, from a text; name stands for the file in messages. */
int plan_load_string(const char *name, const char *text, struct plan *p, char *why,
                     size_t why_bytes);
void plan_free(struct plan *p);
/** The point of run i, counted from 0, of round 1 of all points, then round 2 and so on; *round is
 * counted from 1. i is less than p->runs. */
const struct plan_point *plan_run(const struct plan *p, unsigned int i, unsigned int *round);

#endif /* WEFT_PERF_PLAN_H */
