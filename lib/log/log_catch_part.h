/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_CATCH_PART_H
#define LOG_CATCH_PART_H

/**
 * @file The parts of the catch-up. Each runs until it waits for a step or a Read, or says in
 * log_catch.todo which part is next; log_catch_run() calls that one.
 */

#include "log_priv.h"

/** LOG_CATCH_COMPARE: find the last record that the target shares with the log. */
void log_compare(struct weft_log *log, struct log_target *t);
/** LOG_CATCH_COPY: copy what is missing before the window. */
void log_copy(struct weft_log *log, struct log_target *t);
/** LOG_CATCH_ANEW: the target has no record of the log's present range. */
void log_reset(struct weft_log *log, struct log_target *t);
/** LOG_CATCH_UNSEAT: the target's records are unknown. */
void log_reset_unknown(struct weft_log *log, struct log_target *t);

/** Move the target's head; then LOG_CATCH_COPY. */
void log_move_head(struct weft_log *log, struct log_target *t, uint64_t to);
/**
 * Read from a live target into t->buf; then `got` runs. The target is lost when none has it. When
 * all are trimmed past it, the log's head goes there, and the part under way begins again.
 */
void log_source_read(struct weft_log *log, struct log_target *t, uint64_t position,
                     uint32_t len_bytes, log_step_fn got);
/** Post that Read again, for which there was no room, or whose source was lost. */
void log_source_post(struct weft_log *log, struct log_target *t);

/** Whether only a filler is between the position where the target continues and the head. */
static inline bool
log_at_filler(const struct weft_log *log, const struct log_target *t)
{
	return t->c.at.seq == log->head.seq && t->c.at.position < log->head.position &&
	       log_same_place(log->g.ring_bytes, t->c.at.position, log->head.position);
}

#endif /* LOG_CATCH_PART_H */
