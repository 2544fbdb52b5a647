/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_SWEEP_H
#define WEFT_PERF_SWEEP_H

/** @file `weft-perf sweep`: runs the jobs of a plan and keeps the results in a folder. */

#include <jansson.h>
#include <signal.h>

#include "plan.h"
#include "port_args.h"

#define SWEEP_GIVE_UP 3 /**< failures in a row that end a sweep */

/** Run one job. 0, or -errno with one line in why; -EINTR: the user has interrupted it. */
typedef int (*sweep_run)(const struct perf_job *job, struct perf_result *out, char *why,
                         size_t why_bytes);

struct sweep {
	/* sweep_parse() */
	struct port_args port_args;
	const char *plan_path, *host, *out;
	uint16_t port;
	bool force;
	/* sweep_begin() */
	struct plan plan;
	/* sweep_go() */
	json_t *doc;       /**< the document of --json, with what sweep adds */
	json_t *status;    /**< array: for each run "ok", "not run" or why it failed */
	unsigned int done; /**< runs that have a result */
};

/** Read the command line; argv[0] is "sweep". Ends the program if it is wrong. */
void sweep_parse(struct sweep *s, int argc, char **argv);
/** Read the plan and take the folder. 0; or -errno with one line in why. */
int sweep_begin(struct sweep *s, char *why, size_t why_bytes);
/**
 * Run the plan on this thread until its end or *stop, and write the folder. 0: all was measured; 1:
 * some results are missing, or the folder could not be written; a line on standard error says
 * which.
 */
int sweep_go(struct sweep *s, sweep_run run, const volatile sig_atomic_t *stop);
void sweep_end(struct sweep *s);

/* ---- sweep_dir.c: the folder ---- */

/** Create the folder, and in it an empty file for the results so far. -EEXIST: it has results;
 * with force they are replaced at the end. */
int sweep_dir_take(const char *dir, bool force, char *why, size_t why_bytes);
/** Replace the results so far. */
int sweep_dir_partial(const char *dir, json_t *doc);
/** Write results.json, results.csv and index.html under temporary names, rename them, and remove
 * the results so far. */
int sweep_dir_finish(const char *dir, const struct sweep *s);

/* ---- sweep_doc.c: the document ---- */

/** The document's frame: machine, command, no results. NULL: out of memory. */
json_t *sweep_doc(const struct sweep *s);
/** Add the result of a run. 0 or -ENOMEM. */
int sweep_doc_add(json_t *doc, const struct perf_result *r, unsigned int round);
/** Add a run without result. */
int sweep_doc_failed(json_t *doc, const struct perf_job *job, unsigned int round, const char *why);
/** Write the results as comma-separated values (RFC 4180), a line for each run of the plan. */
void sweep_csv(FILE *f, const struct sweep *s);

#endif /* WEFT_PERF_SWEEP_H */
