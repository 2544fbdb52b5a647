/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_OPEN_H
#define LOG_OPEN_H

/** @file A target that joins, and the opening of the log. */

#include "log_priv.h"

void log_open_lost(struct weft_log *log, struct log_target *t);
/** A target has been looked at; open already, it gets what it missed. */
void log_open_joined(struct weft_log *log, struct log_target *t);

#endif /* LOG_OPEN_H */
