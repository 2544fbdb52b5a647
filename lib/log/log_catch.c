/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Catch-up: giving a target the records that it missed.
 *
 * First the target's records that are not the log's are cut off: the tail goes back from its last
 * record to one that the log has, too. (An epoch has one writer, so where target and log have the
 * same header, all records before it are the same.) The log is what was appended, not what some
 * live target has so far. From the window's first number on, the window has the headers; before
 * that, every live target has everything. So no record of this log is cut off, durable or not, and
 * a record that is cut off was never durable at a quorum. Nothing before that point changes, so the
 * memory holds a log at each moment. What damage hides is no proof that the log has no record there
 * (log_catch_doubt.c).
 *
 * A target that has no record of the log's present range is begun anew: first its tail names
 * nothing, then the head is written. Having none of these records, it was not one of the targets
 * that made any of them durable, so it may continue to count as one that lacks them all. Where that
 * is not certain (one of its records is damaged, or the walk gets too long), its card first says
 * that it does not count, until it is live.
 *
 * A target's head may be above the log's: a trim by an earlier writer, which was durable there when
 * that writer died. That head stays. The target does without the records before it, and is not read
 * for them.
 *
 * Then the records before the window are copied from a live target by way of this worker's buffer.
 * They are checked, and durable before the tail moves. When the missing records are in the window,
 * the target continues from there.
 */

#include <errno.h>
#include <string.h>

#include "log_base.h"
#include "log_catch.h"
#include "log_catch_part.h"
#include "log_member.h"
#include "log_priv.h"
#include "log_step.h"

/* ---- Live ---- */

/** The target gets the rest from the window, like all appends. */
static void
log_catch_fed(struct log_target *t)
{
	t->next_seq = t->c.at.seq;
	t->pinned = false;
	t->state = WEFT_LOG_TARGET_LIVE;
}

/** `join.live` of a member */
static void
log_catch_live(struct weft_log *log, struct log_target *t)
{
	(void)log;
	t->role = LOG_MEMBER;
	t->claimed = true;
	t->ev_live = true;
	log_catch_fed(t);
}

/** `join.words` is done. */
static void
log_catch_stamped(struct weft_log *log, struct log_target *t)
{
	struct log_card card = log_seat_card(log, t);

	if (LOG_SABOTAGED(log, SEAT_EARLY) && t->role == LOG_STRANGER)
		card.life = log_life(log->lives, log->ntargets, card.place = log_place_free(log));
	else if (!log_is_seated(t) && !LOG_SABOTAGED(log, SEAT_EARLY)) {
		/* The target is fed now. The window begins where the slowest target is, and
		 * records that are durable at others are behind that (log_admit()). */
		log_catch_fed(t);
		log_later(log);
		return;
	}
	if (log_is_seated(t) && t->card.epoch == log->epoch)
		log_catch_live(log, t);
	else
		log_step_card(log, t, &card, log_catch_live);
}

/**
 * The missing records are in the window. A member counts already, and its card only records this
 * epoch. A target that is no member is fed. The words are stamped while nothing else changes them.
 */
static void
log_catch_end(struct weft_log *log, struct log_target *t)
{
	uint64_t tail = t->acked_pos;

	t->pinned = true;
	t->pin_seq = t->c.at.seq;
	log_step_stamps(log, t, tail, t->head_acked, log_catch_stamped);
}

/* ---- The parts of a catch-up, in order ---- */

/** The parts in the order of their numbers; each says in log_catch.todo what is next. */
static const log_step_fn log_catch_parts[] = {
        [LOG_CATCH_COMPARE] = log_compare,
        [LOG_CATCH_COMMON] = log_common,
        [LOG_CATCH_COPY] = log_copy,
        [LOG_CATCH_ANEW] = log_reset,
        [LOG_CATCH_UNSEAT] = log_reset_unknown,
        [LOG_CATCH_END] = log_catch_end,
};

void
log_catch_run(struct weft_log *log, struct log_target *t)
{
	while (t->state == WEFT_LOG_TARGET_CATCHING && t->c.todo != LOG_CATCH_WAIT) {
		t->c.part = t->c.todo;
		t->c.todo = LOG_CATCH_WAIT;
		log_catch_parts[t->c.part](log, t);
	}
}

void
log_catch_start(struct weft_log *log, struct log_target *t)
{
	t->state = WEFT_LOG_TARGET_CATCHING;
	memset(&t->c, 0, sizeof(t->c));
	t->c.goal_seq = t->owed_seq = log->dur.seq;
	t->head_acked = t->head;
	t->acked_pos = t->tail;
	if (t->broken) {
		t->c.todo = LOG_CATCH_UNSEAT;
	} else if (t->role == LOG_STRANGER) {
		t->c.todo = LOG_CATCH_ANEW;
	} else if (t->tail == 0 && t->head == log->head.position &&
	           (log->head.seq != log->end.seq || log->last_pos == 0)) {
		t->c.at = log->head;
		t->acked = t->c.at;
		t->c.todo = LOG_CATCH_COPY;
	} else if (t->tail == 0) {
		t->c.todo = LOG_CATCH_ANEW;
	} else if (log_hdr_decode(&log->g, t->tail, t->tail_raw, &t->c.hdr) != 0) {
		log_lost(log, t, -EBADMSG);
	} else {
		memcpy(t->c.raw, t->tail_raw, sizeof(t->c.raw));
		t->c.todo = LOG_CATCH_COMPARE;
	}
	log_catch_run(log, t);
}

/* ---- The Read from a source ---- */

void
log_catch_read(struct weft_log *log, struct log_target *src, uint32_t index)
{
	struct log_target *t = &log->target[(index & 0xff) % log->ntargets];

	if (t->c.src != src->index)
		return;
	t->src_busy = false;
	if (t->gen != index >> 8 || t->state != WEFT_LOG_TARGET_CATCHING || !t->c.reading)
		return;
	t->c.reading = false;
	t->c.got(log, t);
	log_catch_run(log, t);
}

void
log_catch_lost(struct weft_log *log, struct log_target *src)
{
	for (unsigned int i = 0; i < log->ntargets; i++) {
		struct log_target *t = &log->target[i];

		/* Another target may get its index. */
		t->c.bad &= ~(1U << src->index);
		t->c.holes &= ~(1U << src->index);
		t->c.doubt_bad &= ~(1U << src->index);
		if (!t->src_busy || t->c.src != src->index)
			continue;
		t->src_busy = false;
		t->c.waiting = t->c.reading && t->state == WEFT_LOG_TARGET_CATCHING;
		t->c.reading = false;
	}
}

void
log_catch_kick(struct weft_log *log, struct log_target *t)
{
	if (t->c.waiting)
		log_source_post(log, t);
	log_catch_run(log, t);
}
