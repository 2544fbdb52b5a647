/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_OPEN_H
#define LOG_OPEN_H

/** @file Joining of a target, and opening of the log. */

#include "log_priv.h"

void log_open_lost(struct weft_log *log, struct log_target *t);
/** A target was examined. If the log is open, the target now catches up. */
void log_open_joined(struct weft_log *log, struct log_target *t);

#endif /* LOG_OPEN_H */
