/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CTL_H
#define WEFT_APPS_CTL_H

/** @file weft-ctl: what the user asked for (ctl_words.c), the call (ctl_call.c), what is shown
 * (ctl_show.c) or saved (ctl_save.c, ctl_bundle.c). */

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "ctl_api.h"

/** The command line. */
struct ctl_wish {
	const char *socket;
	bool json, wide;
	/* of `watch` */
	bool watch;
	uint32_t interval_ms;
	uint64_t rounds; /**< 0: without end */
	/* of `support-bundle` */
	const char *bundle; /**< the file; NULL: another command */
	/* of a method that saves a field */
	const char *save; /**< the file; "-" is standard output; NULL: it prints the result */
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

/* ---- ctl_bundle.c ---- */

/** Ask for all that helps to find a fault, and write it into a new tar file. Returns the exit
 * status. */
int ctl_bundle(int fd, const char *file, bool json);

/* ---- ctl_save.c ---- */

/** Decode base64 (RFC 4648 s4). The caller frees the octets. NULL: it is none, or no memory. */
uint8_t *ctl_base64(const char *text, size_t *len);
/** Write the field that the method saves into a new file of mode 0600. Returns the exit status. */
int ctl_save(const struct ctl_method *m, const json_t *result, const char *file);

/* ---- ctl_tar.c ---- */

/** A tar file (POSIX.1-1988 ustar) that is being written. */
struct ctl_tar {
	int fd;
	uint64_t bytes;
	int rc; /**< -errno of the first failure; then nothing more is written */
};

/** Begin a new file, of mode 0600. -EEXIST and others of open(2). */
int ctl_tar_begin(struct ctl_tar *t, const char *file);
/** Add a file. name: at most 99 octets. */
void ctl_tar_add(struct ctl_tar *t, const char *name, const void *data, size_t len, time_t at_s);
/** End it, and make it durable. -errno: a write failed; the file is not complete. */
int ctl_tar_end(struct ctl_tar *t);

/* ---- ctl_show.c ---- */

/** Print a result for people. before: the result of the same call elapsed_s earlier, for rates;
 * NULL: totals. */
void ctl_show(const struct ctl_method *m, const json_t *result, const json_t *before,
              double elapsed_s, bool wide);

#endif /* WEFT_APPS_CTL_H */
