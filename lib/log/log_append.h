/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_APPEND_H
#define LOG_APPEND_H

/** @file Appends: from their slot in the window until they are durable and released. */

#include "log_priv.h"

/** Append a record of kind LOG_RECORD or LOG_OPENING; errors of weft_log_append(). */
int log_append(struct weft_log *log, enum log_kind kind, const struct weft_log_append *a,
               struct weft_log_at *at);
/** Handle completions: report appends that became durable or released, and that there is room
 * again. */
void log_settle(struct weft_log *log);
/** Append the record with which the epoch begins, or wait until a trim makes room for it. */
void log_append_opening(struct weft_log *log);
/** Append an opening; it may use the reserve. -EAGAIN: no room now. */
int log_append_seat(struct weft_log *log);

#endif /* LOG_APPEND_H */
