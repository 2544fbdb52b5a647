/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Catch-up: a target gives up its records, and begins anew at the head. */

#include "log_base.h"
#include "log_catch_part.h"
#include "log_priv.h"
#include "log_step.h"

/** `join.head` */
static void
log_reset_head(struct weft_log *log, struct log_target *t)
{
	t->acked_pos = 0;
	t->tail = 0;
	t->c.at = log->head;
	/* When a log is trimmed completely, only its last record says where it ends and which
	 * number comes next. */
	t->c.last = log->head.seq == log->end.seq && log->last_pos != 0;
	if (t->c.last)
		t->c.at = (struct weft_log_at){log->end.seq - 1, log->last_pos};
	t->acked = t->c.at;
	t->c.epoch = 0;
	t->c.bad = 0;
	/* The end of that record, when a filler is to follow. */
	log_move_head(log, t, t->c.last ? log->end.position : log->head.position);
}

/** `join.clear` */
static void
log_reset_tail(struct weft_log *log, struct log_target *t)
{
	/* Lives that the log does not record were never known to enough targets to be valid. */
	uint32_t knows = log_min(t->knows, log_lives_sum(log->lives, log->ntargets));

	if (LOG_SABOTAGED(log, FORGETS))
		knows = log->ntargets;

	log_step_tail(log, t, log_tail_anew(knows), log_reset_head);
}

/** The target has no record of the log's present range. */
void
log_reset(struct weft_log *log, struct log_target *t)
{
	log->stats.resets++;
	/* With trims faster than its catch-up the target would begin anew for ever: let appends
	 * wait for it. */
	if (!t->pinned && ++t->c.rounds > LOG_CATCH_ROUNDS) {
		t->pinned = true;
		t->pin_seq = log->rel_seq;
	}
	log_reset_tail(log, t);
}

/**
 * `join.unseat`: the target's records are unknown, and some of them may be durable at a quorum that
 * it belonged to. Its identity stays, unless that is unknown, too: then its card becomes blank.
 */
void
log_reset_unknown(struct weft_log *log, struct log_target *t)
{
	struct log_card card = t->card;

	log->stats.resets++;
	t->owed_seq = log->dur.seq;
	if (t->role == LOG_MEMBER)
		t->role = LOG_UNSEATED;
	card.seated = false;
	log_step_card(log, t, &card, log_reset_tail);
}
