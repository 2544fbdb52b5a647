/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_EVENT_H
#define LOG_EVENT_H

/** @file Reports to the application what was recorded. */

struct weft_log;

/** Report all events; a callback may destroy the log. */
void log_tell_all(struct weft_log *log);

#endif /* LOG_EVENT_H */
