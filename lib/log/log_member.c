/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Which targets count: cards, the words of this epoch, and places for new targets
 * (docs/log-format.md, "Joining an open log").
 *
 * A target counts by its card: seated, in the place and life that the log's lives name. A life is
 * never used again, so a target that was replaced is recognised by every writer and wherever it
 * appears.
 *
 * Version 1 has no cards: a word that is not 0 is a seat, and there are neither places nor stamps.
 */

#include <errno.h>

#include "log_append.h"
#include "log_member.h"
#include "log_priv.h"
#include "log_send.h"

/* ---- Words ---- */

void
log_words_begin(struct weft_log *log, struct log_target *t)
{
	t->tail_seed = log_word_seed(log->log_id, t->id, WEFT_LOG_TAIL_OFF, log->epoch);
	t->head_seed = log_word_seed(log->log_id, t->id, WEFT_LOG_HEAD_OFF, log->epoch);
	t->tail_ours = t->head_ours = false;
}

uint64_t
log_tail_word(const struct weft_log *log, const struct log_target *t, uint64_t position)
{
	if (log->g.version == 1)
		return (position & 1) != 0 ? 0 : position;
	return log_place_encode(t->tail_seed, log->epoch, log->g.ring_bytes, position);
}

uint64_t
log_head_word(const struct weft_log *log, const struct log_target *t, uint64_t position)
{
	if (log->g.version == 1)
		return position;
	return log_place_encode(t->head_seed, log->epoch, log->g.ring_bytes, position);
}

void
log_step_tail(struct weft_log *log, struct log_target *t, uint64_t position, log_step_fn step)
{
	t->tail_ours = true;
	log_step_word(log, t, WEFT_LOG_TAIL_OFF, log_tail_word(log, t, position), step);
}

void
log_step_head(struct weft_log *log, struct log_target *t, uint64_t position, log_step_fn step)
{
	t->head_ours = true;
	log_step_word(log, t, WEFT_LOG_HEAD_OFF, log_head_word(log, t, position), step);
}

/** The card is written. */
static void
log_card_written(struct weft_log *log, struct log_target *t)
{
	t->card = t->card_next;
	t->words_done(log, t);
}

void
log_step_card(struct weft_log *log, struct log_target *t, const struct log_card *card,
              log_step_fn step)
{
	uint64_t word = log_card_encode(log->log_id, t->id, card);

	if (log->g.version == 1)
		word = card->seated ? card->epoch : 0;
	/* From here on the target may be unseated, so it does not count. A seat counts when the
	 * card is written. */
	if (!card->seated)
		t->card.seated = false;
	t->card_next = *card;
	t->words_done = step;
	log_step_word(log, t, WEFT_LOG_CARD_OFF, word, log_card_written);
}

static void
log_stamp_head(struct weft_log *log, struct log_target *t)
{
	if (t->head_ours)
		t->words_done(log, t);
	else
		log_step_head(log, t, t->stamp_head, t->words_done);
}

/** `open.words` and `join.words`. Version 1 has no stamps. */
void
log_step_stamps(struct weft_log *log, struct log_target *t, uint64_t tail, uint64_t head,
                log_step_fn step)
{
	t->words_done = step;
	t->stamp_head = head;
	if (log->g.version == 1)
		step(log, t);
	else if (t->tail_ours)
		log_stamp_head(log, t);
	else
		log_step_tail(log, t, tail, log_stamp_head);
}

/* ---- Who is who ---- */

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

/** `join.seat-record`: one seat at a time, in the lowest place that no present target has. */
void
log_seat_next(struct weft_log *log)
{
	const uint64_t lives = log->lives;
	struct log_target *t = log->target;
	unsigned int place;
	uint16_t life;

	log->seat_due = false;
	if (log->g.version == 1 || log->state != WEFT_LOG_OPENED || log->seat_seq != 0)
		return;
	while (t < log->target + log->ntargets && !(t->role == LOG_STRANGER && log_has_owed(t)))
		t++;
	if (t == log->target + log->ntargets)
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
		log->seat_due = true;
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

/** Whether enough members of the previous lives know of the seat, so that every later open sees
 * it. */
static bool
log_seat_known(const struct weft_log *log)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < log->ntargets; i++)
		n += log_counts(&log->target[i]) && log->target[i].acked.seq > log->seat_seq;
	return n >= log_min(log->quorum, log->ntargets - log->quorum + 1);
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
