/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_SAY_H
#define WEFT_APPS_TARGET_SAY_H

/** @file Log lines that a peer can provoke. */

#include <stdbool.h>

/** Log a line that a peer can provoke. Beyond 20 a second lines are counted, not written. Any
 * thread. */
void target_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** Like target_log(), for the state of exports; its limit of 20 a second is separate. */
void target_log_export(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** Whether a line about a slow operation may be logged: one a second, as `weft-ctl slow` has more.
 * If so, the caller calls target_log_slow(). It is asked before the line is made. */
bool target_may_log_slow(void);
/** Log a line for which target_may_log_slow() was asked. */
void target_log_slow(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif /* WEFT_APPS_TARGET_SAY_H */
