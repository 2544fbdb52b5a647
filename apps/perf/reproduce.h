/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_REPRODUCE_H
#define WEFT_PERF_REPRODUCE_H

/**
 * @file `weft-perf reproduce`: an earlier run, made again and compared with its run file, which is
 * the document of --json or --out.
 */

#include "again.h"
#include "compare.h"

struct reproduce {
	const char *file; /**< the run file */
	json_t *then;     /**< its document */
	struct again again;
	struct compare compare; /**< the metrics */
	bool json;
	bool trust;                   /**< its configuration may load code and write files */
	const char *out;              /**< the new run's file; NULL: none */
	char **command;               /**< of the earlier run, then NULL; the texts are then's */
	int words;                    /**< of command */
	const char *config, *content; /**< its configuration, if the new run uses it; or NULL */
};

/** Read the command line, whose argv[0] is "reproduce", and the run file. Ends the program, with
 * one line that says why, if either is wrong. */
void reproduce_parse(struct reproduce *r, int argc, char **argv);
/** The descriptor of a file in memory with the configuration's text; the caller closes it. Or
 * -errno. */
int reproduce_config(const struct reproduce *r);
/** Print what differs, and the comparison with the new run's document, which it takes over. Returns
 * the exit status of the program. */
int reproduce_judge(struct reproduce *r, json_t *now);
void reproduce_end(struct reproduce *r);

/* ---- reproduce_diff.c ---- */

/** What differs between two documents of a run: an array of objects with "what", "then" and "now".
 * then_line and now_line are the commands. NULL: no memory. */
json_t *reproduce_diff(const json_t *then, const json_t *now, const char *then_line,
                       const char *now_line);
/** Add one difference, unless the texts are the same. */
void reproduce_diff_add(json_t *list, const char *what, const char *then, const char *now);

#endif /* WEFT_PERF_REPRODUCE_H */
