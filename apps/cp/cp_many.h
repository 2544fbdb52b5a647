/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CP_MANY_H
#define WEFT_APPS_CP_MANY_H

/** @file Which file goes where (cp_many.c). */

#include <stdbool.h>
#include <stdint.h>

#include "url.h"

/** A file and its export. */
struct cp_job {
	char *source, *destination; /**< as the report names them */
	const char *file;           /**< the one of both that is a file, or "-" */
	struct url url;             /**< the other one */
	bool push;
};

struct cp_jobs {
	struct cp_job *job;
	uint32_t n;
	uint32_t failed; /**< operands of which no job could be made; each has had its line */
};

/**
 * Make the jobs of the operands SRC... DST. Exits with status 2 if they make no sense. A
 * destination that ends with '/' stands for names: "weft://HOST/" for exports that are called as
 * the files are, "FOLDER/" for files that are called as the exports are. A folder among the sources
 * stands for the regular files in it and below. Two sources that would go to one place are refused
 * before anything is copied.
 */
void cp_jobs_make(char *const *operands, int n, struct cp_jobs *jobs);
void cp_jobs_free(struct cp_jobs *jobs);

#endif /* WEFT_APPS_CP_MANY_H */
