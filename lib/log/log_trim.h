/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_TRIM_H
#define LOG_TRIM_H

/** @file The proof of a trim's place. */

#include "log_priv.h"

/** As weft_log_trim(), of an open log. */
int log_trim(struct weft_log *log, const struct weft_log_at *keep);
/** Ask a target for the record at the place, if that is due. */
void log_trim_run(struct weft_log *log);
/** The header there was read from this target. */
void log_trim_read(struct weft_log *log, struct log_target *t);
void log_trim_lost(struct weft_log *log, const struct log_target *t);

#endif /* LOG_TRIM_H */
