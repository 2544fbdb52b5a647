/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Which targets count: cards, and places for new targets
 * (docs/log-format.md, "Joining an open log").
 *
 * A target counts by its card: seated, in the place and life that the log's lives name. A life is
 * never used again, so a target that was replaced is recognised by every writer and wherever it
 * appears.
 *
 * Version 1 has no cards: a word that is not 0 is a seat, and there are neither places nor stamps.
 */

#include <errno.h>

#include "log_base.h"
#include "log_member.h"
#include "log_priv.h"
#include "log_step.h"
#include "log_window.h"

/** The life that the log knows in the target's place. */
static uint16_t
log_life_known(const struct weft_log *log, const struct log_target *t)
{
	return log_life(log->lives, log->ntargets, t->card.place);
}

bool
log_is_replaced(const struct weft_log *log, const struct log_target *t)
{
	return log->g.version > 1 && !LOG_SABOTAGED(log, NO_LIVES) && t->card.life != 0 &&
	       t->card.life != log_life_known(log, t);
}

enum log_role
log_role_of(const struct weft_log *log, const struct log_target *t)
{
	if (log->g.version > 1 && (t->card.life == 0 || log_is_replaced(log, t)))
		return LOG_STRANGER;
	return log_is_seated(t) ? LOG_MEMBER : LOG_UNSEATED;
}

struct log_card
log_seat_card(const struct weft_log *log, const struct log_target *t)
{
	struct log_card card = t->card;

	card.epoch = log->epoch;
	card.seated = true;
	return card;
}

/* ---- The place of a stranger ---- */

/** Whether a present target has the place. */
static bool
log_place_taken(const struct weft_log *log, unsigned int place)
{
	for (unsigned int i = 0; i < log->ntargets; i++) {
		const struct log_target *t = &log->target[i];

		if (t->state >= WEFT_LOG_TARGET_JOINED && t->card.place == place &&
		    t->role != LOG_STRANGER)
			return true;
	}
	return false;
}

uint8_t
log_place_free(const struct weft_log *log)
{
	uint8_t place = 0;

	while (log_place_taken(log, place))
		place++;
	return place;
}

/** Whether the target has everything that was durable when it joined. */
static bool
log_has_owed(const struct log_target *t)
{
	return t->state == WEFT_LOG_TARGET_LIVE && !log_is_seated(t) && t->acked.seq >= t->owed_seq;
}

/** Members that must know of a seat, so that every later open sees it. */
static unsigned int
log_seat_tell(const struct weft_log *log)
{
	return log_min(log->quorum, log->ntargets - log->quorum + 1);
}

/**
 * Whether enough members are live to know of a seat. With fewer, the place may be that of a member
 * which is away for a while, and which is one of those that must know.
 */
static bool
log_seat_can_be_known(const struct weft_log *log)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < log->ntargets; i++)
		n += log_counts(&log->target[i]);
	return n >= log_seat_tell(log);
}

/** `join.seat-record`: one seat at a time, in the lowest place that no present target has. */
void
log_seat_next(struct weft_log *log)
{
	const uint64_t lives = log->lives;
	struct log_target *t = log->target;
	unsigned int place;
	uint16_t life;

	if (log->g.version == 1 || log->state != WEFT_LOG_OPENED || log->seat_seq != 0)
		return;
	while (t < log->target + log->ntargets && !(t->role == LOG_STRANGER && log_has_owed(t)))
		t++;
	if (t == log->target + log->ntargets || !log_seat_can_be_known(log))
		return;
	place = log_place_free(log);
	life = log_life(lives, log->ntargets, place);
	if (life == log_lives_max(log->ntargets)) {
		log_lost(log, t, -EOVERFLOW);
		log->again = true;
		return;
	}
	log->lives = log_lives_set(lives, log->ntargets, place, (uint16_t)(life + 1));
	if (log_append_seat(log) != 0) {
		log->lives = lives;
		return;
	}
	log->seat_seq = log->end.seq - 1;
	log->seat_target = t->index;
	log->seat_place = place;
}

void
log_seat_lost(struct weft_log *log, const struct log_target *t)
{
	if (log->seat_seq != 0 && log->seat_target == t->index)
		log->seat_seq = 0;
}

/** Whether enough members of the previous lives know of the seat. */
static bool
log_seat_known(const struct weft_log *log)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < log->ntargets; i++)
		n += log_counts(&log->target[i]) && log->target[i].acked.seq > log->seat_seq;
	return n >= log_seat_tell(log);
}

/** `join.live` */
static void
log_admitted(struct weft_log *log, struct log_target *t)
{
	log_seat_lost(log, t);
	t->role = LOG_MEMBER;
	t->claimed = true;
	t->ev_live = true;
	log->again = true;
}

/** `join.seat` of a target that is fed; `join.words` came before. */
void
log_admit(struct weft_log *log, struct log_target *t)
{
	struct log_card card = log_seat_card(log, t);

	if (t->step != NULL || !log_has_owed(t))
		return;
	if (t->role == LOG_STRANGER) {
		if (log->seat_seq == 0 || log->seat_target != t->index ||
		    t->acked.seq <= log->seat_seq || !log_seat_known(log))
			return;
		card.place = (uint8_t)log->seat_place;
		card.life = log_life(log->lives, log->ntargets, log->seat_place);
	}
	log_step_card(log, t, &card, log_admitted);
}
