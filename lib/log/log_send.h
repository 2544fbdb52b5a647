/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_SEND_H
#define LOG_SEND_H

/** @file Posts work to targets, and handles completions. */

#include "log_priv.h"

void log_on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n);
/** Post all work that has room. */
void log_kick(struct weft_log *log);
/** Write a word durably; then t->step runs. */
void log_step_word(struct weft_log *log, struct log_target *t, uint32_t off, uint64_t value,
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
/** Post a Read from another target. 0 or -EAGAIN. */
int log_post_read(struct weft_log *log, struct log_target *from, enum log_wr kind, uint32_t index,
                  uint64_t to, const struct weft_sge *sink);

#endif /* LOG_SEND_H */
