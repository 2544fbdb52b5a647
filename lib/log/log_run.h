/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_RUN_H
#define LOG_RUN_H

/** @file The log's one loop: completions come in, work goes out, events are reported. */

#include "log_base.h"
#include <weft/verbs.h>

/** Report events and send what can be sent; not from inside a change. */
void log_run(struct weft_log *log);
/** Post all work that has room. */
void log_kick(struct weft_log *log);
void log_on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n);
extern const struct log_ops log_run_ops;

#endif /* LOG_RUN_H */
