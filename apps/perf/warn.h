/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_WARN_H
#define WEFT_PERF_WARN_H

/** @file What makes a result doubtful, in a line each. */

struct perf_result;

/** Call say(arg, text) for each reason; the text is valid in the call. */
void warn_each(const struct perf_result *r, void (*say)(void *arg, const char *text), void *arg);
/** Print the reasons on standard error, with the test and the size; and that a run was
 * interrupted. */
void warn_print(const struct perf_result *r);
/** Print that the frequency of the CPUs changes, if it does. */
void warn_frequency(void);

#endif /* WEFT_PERF_WARN_H */
