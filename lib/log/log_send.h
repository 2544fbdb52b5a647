/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_SEND_H
#define LOG_SEND_H

/** @file Sends the window to a live target, in transactions, and its trims. */

#include "log_priv.h"

/** Post what has room. Whether a step has room, too; the target may be lost (false). */
bool log_kick_live(struct weft_log *log, struct log_target *t);
/** The target's first transaction is durable. */
void log_transaction_done(struct weft_log *log, struct log_target *t);

#endif /* LOG_SEND_H */
