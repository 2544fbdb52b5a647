/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_WARN_H
#define WEFT_PERF_WARN_H

/** @file What makes a result doubtful, in a line each. */

struct perf_result;

/** Call say(arg, text) for each reason; the text is valid in the call. */
void warn_each(const struct perf_result *r, void (*say)(void *arg, const char *text), void *arg);
/** Print the reasons on standard error, with the test and the size; that a run was interrupted; and
 * once for the program that the frequency of the CPUs changes. */
void warn_print(const struct perf_result *r);

#endif /* WEFT_PERF_WARN_H */
