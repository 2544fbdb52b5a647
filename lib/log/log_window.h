/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_WINDOW_H
#define LOG_WINDOW_H

/** @file The window: appended records from their slot until they are durable and released. */

#include "log_priv.h"

/** Append a record of kind LOG_RECORD or LOG_OPENING; errors of weft_log_append(). */
int log_window_append(struct weft_log *log, enum log_kind kind, const struct weft_log_append *a,
                      struct weft_log_at *at);
/** Append the record with which the epoch begins, or wait until a trim makes room for it. */
void log_append_opening(struct weft_log *log);
/** Append an opening; it may use the reserve. -EAGAIN: no room now. */
int log_append_seat(struct weft_log *log);
/** Handle completions: report appends that became durable or released; the log may be dead. */
void log_settle(struct weft_log *log);
/** Record for the report that there is room again, and who lags. */
void log_window_tell(struct weft_log *log);
/** All is durable, but an append or a trim still waits: report each target that lacks records. A
 * target is reported once, until it makes progress. Whether one is to be reported. */
bool log_lagging(struct weft_log *log);
/** The position where the window begins. Every live target holds everything from its head up to
 * there. */
uint64_t log_rel_position(const struct weft_log *log);
/** The position of the record in front of the one that the window has at this position; 0: the
 * window has no record there. */
uint64_t log_window_prev(const struct weft_log *log, uint64_t position);
/** Report the end to every append, and release all. */
void log_end_appends(struct weft_log *log, int status);

#endif /* LOG_WINDOW_H */
