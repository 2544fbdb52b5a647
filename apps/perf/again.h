/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_AGAIN_H
#define WEFT_PERF_AGAIN_H

/** @file The command line of an earlier run, to be run again (again.c). */

#include <stdbool.h>
#include <stddef.h>

#define AGAIN_WORDS 8

/** What a new run does not take from the earlier one. */
struct again {
	bool port;                     /**< --config, --dev, --address and --mtu */
	bool tcp_port;                 /**< --port */
	bool rounds;                   /**< --rounds */
	const char *word[AGAIN_WORDS]; /**< options that stand in place of these */
	unsigned int words;
	const char *host; /**< NULL: the earlier one's */
};

/**
 * Make the command of a new run: that of the earlier one without options that say what is printed
 * and where, every option by its long name, with the changes. *out ends in a NULL and is the
 * caller's, with its words. 0; -ENOTSUP: this build lacks an option or the test; -EINVAL: the
 * changes do not fit it; -ENOMEM. One line is in why.
 */
int again_command(int argc, char *const *argv, const struct again *a, char ***out, char *why,
                  size_t why_bytes);
/** The words of a command in one line, which the caller frees; NULL: no memory. */
char *again_line(char *const *argv);
void again_free(char **argv);

#endif /* WEFT_PERF_AGAIN_H */
