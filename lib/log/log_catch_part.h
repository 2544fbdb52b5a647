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
/** LOG_CATCH_COMMON: the target shares its record t->c.hdr with the log. */
void log_common(struct weft_log *log, struct log_target *t);
/** LOG_CATCH_COPY: copy what is missing before the window. */
void log_copy(struct weft_log *log, struct log_target *t);
/** LOG_CATCH_ANEW: the target has no record of the log's present range. */
void log_reset(struct weft_log *log, struct log_target *t);
/** LOG_CATCH_UNSEAT: the target's records are unknown. */
void log_reset_unknown(struct weft_log *log, struct log_target *t);

/** These sources, one bit per index, have a damaged record at this position. */
void log_name_sources(struct weft_log *log, uint32_t sources, uint64_t position);
/** No source has a header where the target's record t->c.hdr is: it is in doubt. */
void log_doubt_begin(struct log_target *t);
/** Whether the record in doubt, if there is one, has the number and the place of the log's head. */
bool log_doubt_at_head(const struct weft_log *log, const struct log_target *t);
/** The log has a record where the one in doubt is, and it is damaged at the sources. Find out
 * whether it is the target's; else the target is lost. */
void log_doubt(struct weft_log *log, struct log_target *t);

/** Move the target's head; then LOG_CATCH_COPY. */
void log_move_head(struct weft_log *log, struct log_target *t, uint64_t to);
/**
 * Read from a live target into t->buf; then `got` runs. The target is lost when none has it. When
 * all are trimmed past it, the log's head goes there, and the part under way begins again.
 */
void log_source_read(struct weft_log *log, struct log_target *t, uint64_t position,
                     uint32_t len_bytes, log_step_fn got);
/** Whether a source that is not known as damaged has this position. */
bool log_has_source(struct weft_log *log, const struct log_target *t, uint64_t position);
/** Post that Read again, for which there was no room, or whose source was lost. */
void log_source_post(struct weft_log *log, struct log_target *t);

/** Whether only a filler is between the position where the target continues and the head. */
static inline bool
log_at_filler(const struct weft_log *log, const struct log_target *t)
{
	return t->c.at.seq == log->head.seq && t->c.at.position < log->head.position &&
	       log_same_place(log->g.ring_bytes, t->c.at.position, log->head.position);
}

/** Whether the target is to get the last record of a log that is trimmed completely, and the log
 * has not continued since. Every live target that has this record keeps it. */
static inline bool
log_at_last(const struct weft_log *log, const struct log_target *t)
{
	return t->c.last && t->c.at.seq + 1 == log->end.seq;
}

#endif /* LOG_CATCH_PART_H */
