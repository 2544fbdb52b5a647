/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_SAY_H
#define WEFT_APPS_TARGET_SAY_H

/** @file Log lines that a peer can provoke. */

/** Log a line that a peer can provoke. Beyond 20 a second lines are counted, not written. Any
 * thread. */
void target_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** Like target_log(), for the state of exports; its limit of 20 a second is separate. */
void target_log_export(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** Likewise, one line a second, for slow operations, of which `weft-ctl slow` has more. */
void target_log_slow(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif /* WEFT_APPS_TARGET_SAY_H */
