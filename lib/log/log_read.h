/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_READ_H
#define LOG_READ_H

/** @file Reads of records for the application. */

#include "log_priv.h"

void log_read_done(struct weft_log *log, struct log_target *t, uint32_t index);
void log_read_lost(struct weft_log *log, struct log_target *t);
void log_read_run(struct weft_log *log);
void log_read_end(struct weft_log *log, int status);

#endif /* LOG_READ_H */
