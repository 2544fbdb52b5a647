/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_APPEND_H
#define LOG_APPEND_H

/** @file Appends, from the window until they are durable and released. */

#include "log_priv.h"

/** kind LOG_RECORD or LOG_OPENING; the same errors as weft_log_append(). */
int log_append(struct weft_log *log, enum log_kind kind, const struct weft_log_append *a,
               struct weft_log_at *at);
/** What came back: durable and released appends are told, room is. */
void log_settle(struct weft_log *log);
/** Append the record by which the epoch begins, or wait for the room of a trim. */
void log_append_opening(struct weft_log *log);
/** Append an opening, the room of the reserve taken, too; -EAGAIN: no room now. */
int log_append_seat(struct weft_log *log);

#endif /* LOG_APPEND_H */
