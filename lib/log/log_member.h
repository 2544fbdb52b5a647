/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_MEMBER_H
#define LOG_MEMBER_H

/** @file Membership: cards, the words of this epoch, and the assignment of places. */

#include "log_priv.h"

/** With the epoch known: compute the constant part of the checks of this target's words. */
void log_words_begin(struct weft_log *log, struct log_target *t);
/** The tail word that names the record at this position, LOG_TAIL_NONE or log_tail_anew(). */
uint64_t log_tail_word(const struct weft_log *log, const struct log_target *t, uint64_t position);
void log_step_tail(struct weft_log *log, struct log_target *t, uint64_t position, log_step_fn step);
void log_step_head(struct weft_log *log, struct log_target *t, uint64_t position, log_step_fn step);
uint64_t log_head_word(const struct weft_log *log, const struct log_target *t, uint64_t position);
/** Write the card; t->card holds its value when the step runs. */
void log_step_card(struct weft_log *log, struct log_target *t, const struct log_card *card,
                   log_step_fn step);
/** Write tail (position, LOG_TAIL_NONE, log_tail_anew()) and head with this epoch's stamp. */
void log_step_stamps(struct weft_log *log, struct log_target *t, uint64_t tail, uint64_t head,
                     log_step_fn step);
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
