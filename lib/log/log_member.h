/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_MEMBER_H
#define LOG_MEMBER_H

/** @file Which targets count: cards, and places for new targets. */

#include "log_priv.h"

/** Whether a target that came later has this target's place. */
bool log_is_replaced(const struct weft_log *log, const struct log_target *t);
/** The target's role in the log. */
enum log_role log_role_of(const struct weft_log *log, const struct log_target *t);
/** The card of the target when it is seated, with the log's epoch. */
struct log_card log_seat_card(const struct weft_log *log, const struct log_target *t);
/** The lowest place that no present target has. */
uint8_t log_place_free(const struct weft_log *log);
/** Give a place to a target that waits for one. */
void log_seat_next(struct weft_log *log);
/** A target was lost. */
void log_seat_lost(struct weft_log *log, const struct log_target *t);
/** Count a target that is fed from now on, if it holds all records that it owes. */
void log_admit(struct weft_log *log, struct log_target *t);

#endif /* LOG_MEMBER_H */
