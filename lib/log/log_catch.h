/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_CATCH_H
#define LOG_CATCH_H

/** @file Catch-up: giving a target the records that it missed. */

#include "log_priv.h"

void log_catch_start(struct weft_log *log, struct log_target *t);
/** A target that served as source was lost. */
void log_catch_lost(struct weft_log *log, struct log_target *src);
/** A Read from the source is done. */
void log_catch_read(struct weft_log *log, struct log_target *src, uint32_t index);
/** Go on with what the target's last step or Read found out is next. */
void log_catch_run(struct weft_log *log, struct log_target *t);
/** Try again to post what had no room. */
void log_catch_kick(struct weft_log *log, struct log_target *t);

#endif /* LOG_CATCH_H */
