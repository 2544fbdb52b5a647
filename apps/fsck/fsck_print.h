/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_FSCK_PRINT_H
#define WEFT_APPS_FSCK_PRINT_H

/** @file The report of weft-fsck. Findings are printed as they come, because there can be many. */

#include <stdio.h>

#include "fsck.h"
#include "json.h"

struct fsck_print {
	FILE *out;
	const char *path;
	bool as_json;
	struct json json;
};

void fsck_print_begin(struct fsck_print *p);
void fsck_print_finding(struct fsck_print *p, const struct fsck_finding *f);
/** rc and r: of fsck_run(). status: the program's exit status. */
void fsck_print_end(struct fsck_print *p, const struct fsck_result *r, int rc, int status);

#endif /* WEFT_APPS_FSCK_PRINT_H */
