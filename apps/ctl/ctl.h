/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CTL_H
#define WEFT_APPS_CTL_H

/** @file weft-ctl: what the user asked for (ctl_words.c), the call (ctl_call.c), what is shown
 * (ctl_show.c). */

#include <stdbool.h>
#include <stdint.h>

#include "ctl_api.h"

/** The command line. */
struct ctl_wish {
	const char *socket;
	bool json, wide;
	/* of `watch` */
	bool watch;
	uint32_t interval_ms;
	uint64_t rounds; /**< 0: without end */
	const struct ctl_method *method;
	json_t *params;
};

/* ---- ctl_words.c ---- */

/** Read the command line, or end the program: with help, or with one line and exit status 2. */
void ctl_words(int argc, char **argv, struct ctl_wish *w);

/* ---- ctl_call.c ---- */

/** Connect to a target's socket. Ends the program with CTL_EXIT_UNREACHABLE if that fails. */
int ctl_connect(const char *path);
/**
 * Make one call. Returns the result, which the caller owns, and NULL with *f for an error of the
 * target. Ends the program with CTL_EXIT_UNREACHABLE if the target goes away.
 */
json_t *ctl_call(int fd, const struct ctl_method *m, json_t *params, struct ctl_fault *f);

/* ---- ctl_show.c ---- */

/** Print a result for people. before: the result of the same call elapsed_s earlier, for rates;
 * NULL: totals. */
void ctl_show(const struct ctl_method *m, const json_t *result, const json_t *before,
              double elapsed_s, bool wide);

#endif /* WEFT_APPS_CTL_H */
