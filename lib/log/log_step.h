/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_STEP_H
#define LOG_STEP_H

/**
 * @file Posts to one target: transactions, Reads, and the changes of its words. A target that joins
 * or catches up has one step under way at a time; its function runs when the step is done. Without
 * a connection the target is lost.
 */

#include "log_priv.h"

/** Whether the send queue has room for so many entries. */
static inline bool
log_sq_has(const struct log_target *t, uint32_t places)
{
	return t->sq_depth - t->sq_used >= places;
}

/** A transaction that only sets the word at this offset. */
struct weft_commit log_commit(const struct weft_log *log, const struct log_target *t,
                              uint32_t word_off, uint64_t value);
/** Post a transaction. Returns its send queue entries, or -errno of the QP. */
int log_post(struct log_target *t, struct weft_commit *c, enum log_wr kind, uint32_t index);
/** If the log verifies, let the range be verified with the hash of these pieces. 0 or -errno. */
int log_verify(const struct weft_log *log, struct weft_commit_range *r, const struct weft_sge *sg,
               uint32_t nsg, uint8_t *hash);
/** Post a Read from another target. 0 or -EAGAIN. */
int log_post_read(struct log_target *from, enum log_wr kind, uint32_t index, uint64_t to,
                  const struct weft_sge *sink);

/** With the epoch known: compute the constant part of the checks of this target's words. */
void log_words_begin(struct weft_log *log, struct log_target *t);
/** The tail word that names the record at this position, LOG_TAIL_NONE or log_tail_anew(). */
uint64_t log_tail_word(const struct weft_log *log, const struct log_target *t, uint64_t position);
uint64_t log_head_word(const struct weft_log *log, const struct log_target *t, uint64_t position);

/** Write a word durably; then t->step runs. */
void log_step_word(struct weft_log *log, struct log_target *t, uint32_t off, uint64_t value,
                   log_step_fn step);
void log_step_tail(struct weft_log *log, struct log_target *t, uint64_t position, log_step_fn step);
void log_step_head(struct weft_log *log, struct log_target *t, uint64_t position, log_step_fn step);
/** Write the card; t->card holds its value when the step runs. */
void log_step_card(struct weft_log *log, struct log_target *t, const struct log_card *card,
                   log_step_fn step);
/** Write tail (position, LOG_TAIL_NONE, log_tail_anew()) and head with this epoch's stamp. */
void log_step_stamps(struct weft_log *log, struct log_target *t, uint64_t tail, uint64_t head,
                     log_step_fn step);
/** Write octets of t->buf to the ring durably; then, unless `word` is 0, make the tail name the
 * record at `word`. */
void log_step_copy(struct weft_log *log, struct log_target *t, uint64_t position,
                   uint32_t len_bytes, uint64_t word, log_step_fn step);
/** Read from the target into t->buf. */
void log_step_read(struct weft_log *log, struct log_target *t, uint64_t to, uint32_t len_bytes,
                   log_step_fn step);
/** Post one transaction as the step. */
void log_step_commit(struct weft_log *log, struct log_target *t, struct weft_commit *c,
                     log_step_fn step);

#endif /* LOG_STEP_H */
