/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Recovery: the choice of the authoritative target, and the epoch of a new writer.
 *
 * Any max(q, n - q + 1) targets share a target with those that made an append durable, and with
 * those that took part in the previous opening. So every durable record is seen here, and so is the
 * epoch of a writer that may have written records. Some records that were not durable are kept.
 * They are durable under the new epoch before the open is reported, which settles them for all
 * later writers.
 */

#include <errno.h>
#include <string.h>

#include "log_catch.h"
#include "log_member.h"
#include "log_open.h"
#include "log_priv.h"
#include "log_step.h"
#include "log_window.h"

static uint32_t
log_needed(const struct weft_log *log)
{
	return log_max(log->quorum, log->ntargets - log->quorum + 1);
}

static bool
log_is_better(const struct weft_log *log, const struct log_target *a, const struct log_target *b)
{
	if (a->tail_epoch != b->tail_epoch && !LOG_SABOTAGED(log, LONGEST))
		return a->tail_epoch > b->tail_epoch;
	return a->end.seq > b->end.seq;
}

/** Whether the target can be the authoritative one: it has records, or never had any, and was not
 * being begun anew. */
static bool
log_is_whole(const struct log_target *t)
{
	return !t->anew;
}

/* ---- The epoch begins ---- */

static void
log_begin(struct weft_log *log)
{
	struct log_target *t = &log->target[log->authoritative];

	log->begun = true;
	log->end = log->dur = t->end;
	log->rel_seq = log->told_seq = log->opening_seq = t->end.seq;
	log->last_pos = t->tail;
	if (t->tail != 0)
		memcpy(log->before_raw, t->tail_raw, sizeof(log->before_raw));
	t->state = WEFT_LOG_TARGET_LIVE;
	t->ev_live = true;
	t->acked = t->end;
	t->acked_pos = t->tail;
	t->head_acked = t->head;
	t->next_seq = t->end.seq;
	/*
	 * A record of this epoch, durable at a quorum, makes this log the longest for every later
	 * writer. The records before it are not safe earlier. Appends leave room for some such
	 * records; when that is used up and the log is not trimmed, it cannot be opened.
	 */
	log_append_opening(log);
	if (log->state == WEFT_LOG_FAILED)
		return;
	for (unsigned int i = 0; i < log->ntargets; i++)
		if (log->target[i].state == WEFT_LOG_TARGET_JOINED &&
		    (log->target[i].claimed || !log->target[i].counts))
			log_catch_start(log, &log->target[i]);
}

static void
log_check_claims(struct weft_log *log)
{
	uint32_t claimed = 0, counted = 0;

	for (unsigned int i = 0; i < log->ntargets; i++) {
		const struct log_target *t = &log->target[i];

		if (t->state == WEFT_LOG_TARGET_NONE || !t->counts)
			continue;
		counted++;
		claimed += t->claimed;
	}
	/* In a new log every target is a member before there is a record anywhere. */
	if (!log->begun && log->target[log->authoritative].claimed &&
	    claimed >= (log->fresh ? log->ntargets : log_needed(log)))
		log_begin(log);
}

static void
log_claimed(struct weft_log *log, struct log_target *t)
{
	t->claimed = true;
	if (log->begun)
		log_catch_start(log, t);
	else
		log_check_claims(log);
}

/** `open.claim` */
static void
log_claim_card(struct weft_log *log, struct log_target *t)
{
	struct log_card card = log_seat_card(log, t);

	log_step_card(log, t, &card, log_claimed);
}

/** `open.words`: the words are stamped before the card has the epoch (T5). */
static void
log_claim_words(struct weft_log *log)
{
	for (unsigned int i = 0; i < log->ntargets; i++) {
		struct log_target *t = &log->target[i];
		uint64_t tail = t->tail;

		if (t->state != WEFT_LOG_TARGET_JOINED || !t->counts)
			continue;
		if (t->anew)
			tail = log_tail_anew(t->knows);
		log_step_stamps(log, t, tail, t->head != 0 ? t->head : log->head.position,
		                log_claim_card);
	}
}

static void
log_offered(struct weft_log *log, struct log_target *t)
{
	(void)t;
	if (++log->offered == log->ntargets)
		log_claim_words(log);
}

/**
 * `open.offer`: in a new log every target gets its place before one of them counts. So a target
 * without a place, beside one that counts, is known to have come later.
 */
static void
log_offer(struct weft_log *log)
{
	for (unsigned int i = 0; i < log->ntargets; i++) {
		struct log_card card = {.epoch = log->epoch, .place = (uint8_t)i, .life = 1};

		log_step_card(log, &log->target[i], &card, log_offered);
	}
}

/** Whether each target was offered a place of its own, so that their words may carry stamps: an
 * offer of this epoch would come after them (T5). */
static bool
log_all_offered(const struct weft_log *log)
{
	uint32_t places = 0;

	for (unsigned int i = 0; i < log->ntargets; i++)
		if (log->target[i].card.life != 0)
			places |= 1U << log->target[i].card.place;
	return places == (1U << log->ntargets) - 1;
}

static void
log_claim(struct weft_log *log)
{
	bool offer = log->fresh && log->g.version > 1 && !log_all_offered(log);

	for (unsigned int i = 0; i < log->ntargets; i++) {
		struct log_target *t = &log->target[i];

		if (t->state == WEFT_LOG_TARGET_JOINED)
			log_words_begin(log, t);
		offer &= !log_is_seated(t);
	}
	if (offer)
		log_offer(log);
	else
		log_claim_words(log);
}

/* ---- The head of the log ---- */

static void log_ask_head(struct weft_log *log);
static void log_head_next(struct weft_log *log);

static void
log_head_is(struct weft_log *log, uint64_t seq)
{
	log->head.seq = seq;
	log_claim(log);
}

/** The record there is not whole at this target; another one may have it. */
static void
log_head_bad(struct weft_log *log, struct log_target *t)
{
	log->head_tried |= 1U << t->index;
	if (log->head_of == LOG_HEAD_AUTHORITATIVE)
		log_damaged(t, WEFT_LOG_DAMAGE_HEAD, log->head.position);
	log_ask_head(log);
}

static bool
log_head_fits(const struct weft_log *log, uint64_t seq)
{
	return log->head_want == 0 || log->head_want == seq;
}

/** The authoritative target's log has no such place. */
static void
log_head_refused(struct weft_log *log)
{
	if (log->head_of == LOG_HEAD_MEMBER)
		log_head_next(log);
	else
		log_fail(log, log->head_of == LOG_HEAD_KEEP ? -EINVAL : -EBADMSG);
}

static void
log_got_before_keep(struct weft_log *log, struct log_target *t)
{
	uint64_t seq = log->head_hdr.seq, position = log->head_hdr.prev;
	bool filler = log->head.position != log->head_hdr.position;
	struct log_hdr h;

	if (log_hdr_decode(&log->g, position, t->buf, &h) == 0 &&
	    log_same_place(log->g.ring_bytes, log_hdr_end(&log->g, &h), log->head_hdr.position)) {
		log->head.position = log_hdr_end(&log->g, &h);
	} else if (filler) {
		/* Another writer's filler may begin at the place that was named. */
		log_damaged(t, WEFT_LOG_DAMAGE_RECORD, position);
		log_head_refused(log);
		return;
	}
	log_head_is(log, seq);
}

/** The record that `keep` names need not be durable, nor the one behind a filler at a member's
 * head. So the head stays in front of the filler that may be there. */
static void
log_got_keep(struct weft_log *log, struct log_target *t)
{
	const struct log_hdr *h = &log->head_hdr;

	if (h->position % log->g.ring_bytes != 0 || h->prev == 0) {
		log_head_is(log, h->seq);
	} else if (h->prev >= t->head) {
		log_step_read(log, t, log_ring_to(log, t, h->prev), WEFT_LOG_HEADER_BYTES,
		              log_got_before_keep);
	} else {
		log->head.position = t->head;
		log_head_is(log, h->seq);
	}
}

/** The authoritative target's log has the record that head_hdr is the header of. */
static void
log_head_proven(struct weft_log *log, struct log_target *t)
{
	if (log->head_of != LOG_HEAD_AUTHORITATIVE && (log->head_tried & 1U << t->index) != 0)
		log_damaged(t, WEFT_LOG_DAMAGE_HEAD, log->head.position);
	if (log->head_of == LOG_HEAD_KEEP || log->head_hdr.position != log->head.position)
		log_got_keep(log, t);
	else
		log_head_is(log, log->head_hdr.seq);
}

static void
log_got_head_lap(struct weft_log *log, struct log_target *t)
{
	uint64_t lap = log_lap_end(log->g.ring_bytes, log->head.position);
	struct log_hdr h;

	if (log_hdr_decode(&log->g, lap, t->buf, &h) != 0) {
		log_damaged(t, WEFT_LOG_DAMAGE_RECORD, lap);
		log_head_refused(log);
	} else if (log->head_hdr.kind == LOG_FILLER && h.seq == log->head_hdr.seq) {
		/* In front of the filler and behind it are one place. */
		log->head_hdr = h;
		log_head_proven(log, t);
	} else if (log->head_hdr.kind != LOG_FILLER && h.prev >= log->head.position) {
		log_head_proven(log, t);
	} else {
		log_head_refused(log);
	}
}

/**
 * The authoritative target has the header head_hdr at the head. If the head is not its own, a
 * filler may cover the place (log_lap_end()), or begin there.
 */
static void
log_head_place(struct weft_log *log, struct log_target *t)
{
	const uint64_t ring = log->g.ring_bytes, at = log->head.position;

	if (log->head_of != LOG_HEAD_AUTHORITATIVE && log_may_be_filler(ring, at, t->end.position))
		log_step_read(log, t, log_ring_to(log, t, log_lap_end(ring, at)),
		              WEFT_LOG_HEADER_BYTES, log_got_head_lap);
	else if (log->head_of != LOG_HEAD_AUTHORITATIVE && log->head_hdr.kind == LOG_FILLER)
		log_head_refused(log);
	else
		log_head_proven(log, t);
}

static void
log_got_head(struct weft_log *log, struct log_target *t)
{
	struct log_hdr *h = &log->head_hdr;

	if (log_hdr_decode(&log->g, log->head.position, t->buf, h) != 0 || h->seq >= t->end.seq)
		log_head_bad(log, t);
	else if (!log_head_fits(log, h->seq))
		log_head_refused(log);
	else
		log_head_place(log, t);
}

/** The authoritative target's next header: check that it follows the other target's record at the
 * head. */
static void
log_got_behind_head(struct weft_log *log, struct log_target *t)
{
	const struct log_hdr *first = &log->head_hdr;
	bool filler = first->kind == LOG_FILLER;
	struct log_hdr h;

	if (log_hdr_decode(&log->g, log_hdr_end(&log->g, first), t->buf, &h) != 0 ||
	    h.seq != first->seq + !filler ||
	    (!filler && h.kind != LOG_FILLER && h.prev != first->position)) {
		log_ask_head(log);
		return;
	}
	if (!log_head_fits(log, first->seq)) {
		log_head_refused(log);
		return;
	}
	log_head_place(log, t);
}

/**
 * Another target's header at the head is valid when the authoritative target has, behind it, the
 * record that follows. Otherwise the other target may hold records there that are not the log's.
 */
static void
log_got_other_head(struct weft_log *log, struct log_target *t)
{
	struct log_target *authority = &log->target[log->authoritative];
	uint64_t behind;

	log->head_from = NULL;
	log->head_tried |= 1U << t->index;
	if (log_hdr_decode(&log->g, log->head.position, t->buf, &log->head_hdr) != 0) {
		log_head_bad(log, t);
		return;
	}
	behind = log_hdr_end(&log->g, &log->head_hdr);
	if (behind >= authority->end.position)
		log_ask_head(log);
	else
		log_step_read(log, authority, log_ring_to(log, authority, behind),
		              WEFT_LOG_HEADER_BYTES, log_got_behind_head);
}

/** `open.head`: read the header there, from the authoritative target, then from each other that
 * holds the place. */
static void
log_ask_head(struct weft_log *log)
{
	struct log_target *t = &log->target[log->authoritative];

	if ((log->head_tried & 1U << log->authoritative) == 0) {
		log_step_read(log, t, log_ring_to(log, t, log->head.position),
		              WEFT_LOG_HEADER_BYTES, log_got_head);
		return;
	}
	for (unsigned int i = 0; i < log->ntargets; i++) {
		t = &log->target[i];
		if (t->state != WEFT_LOG_TARGET_JOINED || !t->counts || t->tail == 0 ||
		    (log->head_tried & 1U << i) != 0 || t->head > log->head.position ||
		    t->end.position <= log->head.position)
			continue;
		log->head_from = t;
		log_step_read(log, t, log_ring_to(log, t, log->head.position),
		              WEFT_LOG_HEADER_BYTES, log_got_other_head);
		return;
	}
	log_head_refused(log);
}

/** Where a member's head is in the authoritative target's log. */
enum log_head_where {
	LOG_HEAD_BEFORE, /**< not behind the authoritative target's head, or not in its log */
	/** in front of its end, if the authoritative target has that record, too */
	LOG_HEAD_INSIDE,
	LOG_HEAD_END,
	/** behind its end: the log was trimmed beyond what the authoritative target has */
	LOG_HEAD_BEYOND,
};

/**
 * A position alone does not say which place a head is. A writer that died may have trimmed up to a
 * record that was not durable, behind a filler; another writer wrote other records there. So the
 * number of the record counts. (A target of version 1 that is begun anew has no number there.)
 */
static enum log_head_where
log_head_where(const struct weft_log *log, const struct log_target *authority,
               const struct log_target *t)
{
	const struct weft_log_at *end = &authority->end;

	if (t->state != WEFT_LOG_TARGET_JOINED || !t->counts || t->head <= authority->head)
		return LOG_HEAD_BEFORE;
	if (t->tail == 0 || t->head_seq == 0)
		return t->head > end->position    ? LOG_HEAD_BEYOND
		       : t->tail != 0             ? LOG_HEAD_BEFORE
		       : t->head == end->position ? LOG_HEAD_END
		                                  : LOG_HEAD_INSIDE;
	if (t->head_seq == end->seq && t->head >= end->position &&
	    log_same_place(log->g.ring_bytes, end->position, t->head))
		return LOG_HEAD_END;
	if (t->head_seq >= end->seq)
		return LOG_HEAD_BEYOND;
	return t->head < end->position ? LOG_HEAD_INSIDE : LOG_HEAD_BEFORE;
}

/** Consider `keep`, which is behind the heads of all members that are left. */
static void
log_head_keep(struct weft_log *log, const struct weft_log_at *end)
{
	const struct weft_log_at *keep = &log->keep;

	if (!log_is_place(log->g.ring_bytes, keep->position) || keep->position > end->position ||
	    (keep->position == end->position) != (keep->seq == end->seq)) {
		log_fail(log, -EINVAL);
		log_later(log);
		return;
	}
	log->head = *keep;
	log->head_want = keep->seq;
	log->head_of = LOG_HEAD_KEEP;
	if (keep->position == end->position)
		log_head_is(log, end->seq);
	else
		log_ask_head(log);
}

/** `open.head`: consider the highest head that was not considered yet; the authoritative target's
 * is last. */
static void
log_head_next(struct weft_log *log)
{
	struct log_target *authority = &log->target[log->authoritative], *best = authority;
	uint64_t at = authority->head;

	for (unsigned int i = 0; i < log->ntargets; i++) {
		struct log_target *t = &log->target[i];
		enum log_head_where where = log_head_where(log, authority, t);
		uint64_t head = where == LOG_HEAD_END ? authority->end.position : t->head;

		if ((log->head_asked & 1U << i) != 0 || where == LOG_HEAD_BEFORE || head <= at)
			continue;
		best = t;
		at = head;
	}
	log->head_tried = 0;
	if (log->keep.position > at) {
		log_head_keep(log, &authority->end);
		return;
	}
	log->head_asked |= 1U << best->index;
	log->head_want = best == authority ? 0 : best->head_seq;
	log->head_of = best == authority ? LOG_HEAD_AUTHORITATIVE : LOG_HEAD_MEMBER;
	log->head.position = at;
	if (at == authority->end.position)
		log_head_is(log, authority->end.seq);
	else
		log_ask_head(log);
}

/** Whether a member's head is behind the end of the authoritative target's log. */
static bool
log_head_beyond(const struct weft_log *log, const struct log_target *authority)
{
	for (unsigned int i = 0; i < log->ntargets; i++)
		if (log_head_where(log, authority, &log->target[i]) == LOG_HEAD_BEYOND)
			return true;
	return false;
}

/** The best of the targets that can be the authoritative one. */
static struct log_target *
log_best(struct weft_log *log)
{
	struct log_target *best = NULL;

	for (unsigned int i = 0; i < log->ntargets; i++) {
		struct log_target *t = &log->target[i];

		if (t->state != WEFT_LOG_TARGET_JOINED)
			continue;
		log->epoch = log_max(log->epoch, t->card.epoch);
		log->epoch = log_max(log->epoch, t->tail_epoch);
		if ((log->fresh || log_is_seated(t)) && log_is_whole(t) &&
		    (best == NULL || log_is_better(log, t, best)))
			best = t;
	}
	return best;
}

/** Refuse a target whose place another target has that came later. Only lives that grew show
 * that. */
static void
log_refuse_replaced(struct weft_log *log)
{
	for (unsigned int i = 0; i < log->ntargets; i++) {
		struct log_target *t = &log->target[i];

		if (t->state != WEFT_LOG_TARGET_JOINED || !log_is_seated(t) ||
		    !log_is_replaced(log, t) ||
		    t->card.life > log_life(log->lives, log->ntargets, t->card.place))
			continue;
		log_lost(log, t, -EREMCHG);
		log_later(log);
	}
}

/** `open.choose`: the authoritative target and, by its lives, the members. Returns how many members
 * there are. */
static unsigned int
log_choose(struct weft_log *log, struct log_target **authority)
{
	struct log_target *best = log_best(log);
	unsigned int members = 0;

	*authority = NULL;
	log->head = (struct weft_log_at){0};
	log->lives = 0;
	if (best == NULL)
		return 0;
	if (log->g.version > 1)
		log->lives = best->tail != 0 ? best->tail_lives : log_lives_first(log->ntargets);
	for (unsigned int i = 0; i < log->ntargets; i++) {
		struct log_target *t = &log->target[i];

		t->counts = false;
		if (t->state != WEFT_LOG_TARGET_JOINED)
			continue;
		t->role = log->fresh ? LOG_MEMBER : log_role_of(log, t);
		t->counts = log->fresh || t->role == LOG_MEMBER;
		members += t->counts;
	}
	log_refuse_replaced(log);
	if (best->counts)
		*authority = best;
	return members;
}

/** Whether a target that was being begun anew knew more lives than the authoritative target does.
 * Then the authoritative target was replaced. */
static bool
log_knows_more(const struct weft_log *log)
{
	uint32_t sum = log_lives_sum(log->lives, log->ntargets);

	for (unsigned int i = 0; i < log->ntargets; i++) {
		const struct log_target *t = &log->target[i];

		if (t->state == WEFT_LOG_TARGET_JOINED && t->counts && t->anew && t->knows > sum)
			return true;
	}
	return false;
}

/** Whether no target has a record, nor can have had one: all are present and have, or get, their
 * places together. */
static bool
log_is_fresh(const struct weft_log *log)
{
	unsigned int seated = 0, placed = 0;

	for (unsigned int i = 0; i < log->ntargets; i++) {
		const struct log_target *t = &log->target[i];

		if (t->state != WEFT_LOG_TARGET_JOINED || t->tail != 0 || t->anew)
			return false;
		seated += log_is_seated(t);
		placed += t->card.life != 0;
	}
	return log->g.version == 1 || seated == 0 || placed == log->ntargets;
}

int
weft_log_open(struct weft_log *log)
{
	return weft_log_open_trim(log, NULL);
}

int
weft_log_open_trim(struct weft_log *log, const struct weft_log_at *keep)
{
	struct log_target *t;
	unsigned int members;
	int rc = log_call(log, __func__);

	if (rc < 0)
		return rc;
	if (log->state != WEFT_LOG_NEW)
		return log->state == WEFT_LOG_FAILED ? -EPIPE : -EALREADY;
	log->fresh = log_is_fresh(log);
	members = log_choose(log, &t);
	/* Absent targets know more: where the log ends, or what is behind its head. */
	if (t == NULL || members < log_needed(log) || (log->g.version > 1 && log_knows_more(log)) ||
	    (members < log->ntargets && log_head_beyond(log, t)))
		return -ENOTCONN;
	log->state = WEFT_LOG_OPENING;
	log->epoch++;
	if (log_head_beyond(log, t) || log->epoch == 0 ||
	    (log->g.version > 1 && log->epoch > UINT32_MAX)) {
		log_fail(log, -EBADMSG);
		log_later(log);
		return 0;
	}
	log->authoritative = t->index;
	if (t->tail == 0)
		t->end.seq = 1;
	if (keep != NULL)
		log->keep = *keep;
	log_head_next(log);
	return 0;
}

void
log_open_lost(struct weft_log *log, struct log_target *t)
{
	uint32_t counted = 0;

	for (unsigned int i = 0; i < log->ntargets; i++)
		counted += log->target[i].state != WEFT_LOG_TARGET_NONE && log->target[i].counts;
	/* A new choice is left to the next open: this opening has claimed what it could. */
	if (t->counts &&
	    (log->fresh || t->index == log->authoritative || counted < log_needed(log))) {
		log_fail(log, -ENOTCONN);
	} else if (log->head_from == t) {
		log->head_from = NULL;
		log_ask_head(log);
	}
}

void
log_open_joined(struct weft_log *log, struct log_target *t)
{
	if (log->state != WEFT_LOG_OPENED && log->state != WEFT_LOG_OPENING)
		return;
	if (t->card.epoch > log->epoch || t->tail_epoch > log->epoch) {
		log_lost(log, t, -ESTALE);
		log_fail(log, -ESTALE);
		return;
	}
	if (log_is_seated(t) && log_is_replaced(log, t)) {
		log_lost(log, t, -EREMCHG);
		return;
	}
	t->role = log_role_of(log, t);
	log_words_begin(log, t);
	if (log->begun)
		log_catch_start(log, t);
}
