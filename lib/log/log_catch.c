/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Giving a target what it missed.
 *
 * First what it has beyond the log's own records is cut off: back from its last record to one that
 * the log has, too (one epoch has one writer, so equal headers have equal pasts). What the log has
 * is what was appended, not what some live target has so far: from the first number of the window
 * on the headers in the window say it, and before that every live target has everything. So no
 * record of this log is cut off, durable or not; and what is cut off was never durable at a quorum.
 * Nothing before that point is touched: it stays a log at each moment.
 *
 * A target that has nothing of what the log holds is begun anew: pointer to nothing, then the head.
 * Since it has none of it, it was none of those that made any of it durable, and may count on as
 * one that lacks all. Where that cannot be seen (a record of its own is damaged, or the walk gets
 * too long) it is first made one that does not count, until it is live.
 *
 * A head above ours is a trim of a writer before us that was durable there when that writer died.
 * It stays: that target does without what is before it, and nobody reads that from it.
 *
 * Then records are copied, from a live target by way of our buffer, checked, durable before the
 * pointer moves: those before the window. When what is missing is in the window, the target goes on
 * from there.
 */

#include <errno.h>
#include <string.h>

#include "log_catch.h"
#include "log_member.h"
#include "log_priv.h"
#include "log_send.h"

static void log_copy(struct weft_log *log, struct log_target *t);
static void log_reset(struct weft_log *log, struct log_target *t);
static void log_compare(struct weft_log *log, struct log_target *t);
static void log_compared(struct weft_log *log, struct log_target *t);
static void log_trim_found(struct weft_log *log, struct log_target *t, uint64_t seq);
static void log_source_read(struct weft_log *log, struct log_target *t, uint64_t position,
                            uint32_t len_bytes, log_step_fn got);

/* ---- Reading from a source ---- */

/** Of the live targets that have what is at the position the one that has most. All keep the record
 * that their tail names, also when their head is behind it: log_target_floor(). */
static struct log_target *
log_source(struct weft_log *log, const struct log_target *t, uint64_t position)
{
	struct log_target *best = NULL;

	for (unsigned int i = 0; i < log->ntargets; i++) {
		struct log_target *s = &log->target[i];

		if (s->state == WEFT_LOG_TARGET_LIVE && (t->c.bad & 1U << i) == 0 &&
		    log_target_floor(s) <= position && s->acked.position > position &&
		    (best == NULL || s->acked.position > best->acked.position))
			best = s;
	}
	return best;
}

/** Where the window begins: every live target has everything before, each from its head on. */
static uint64_t
log_rel_position(const struct weft_log *log)
{
	const struct log_slot *s = log_slot(log, log->rel_seq);

	return log->rel_seq == log->end.seq ? log->end.position : s->at.position - s->gap_bytes;
}

static void
log_got_found(struct weft_log *log, struct log_target *t)
{
	struct log_hdr h;

	if (log_hdr_decode(&log->g, t->c.src_pos, t->buf, &h) != 0) {
		t->c.bad |= 1U << t->c.src;
		log_damaged(&log->target[t->c.src], WEFT_LOG_DAMAGE_HEAD, t->c.src_pos);
		log_source_read(log, t, t->c.src_pos, WEFT_LOG_HEADER_BYTES, log_got_found);
	} else {
		log_trim_found(log, t, h.seq);
	}
}

/**
 * No live target has what is wanted. If that is because each has a head behind it, by a trim that a
 * writer before us was asked for, the head of the log goes there: `trim.found`. False: it is not.
 */
static bool
log_find_trim(struct weft_log *log, struct log_target *t)
{
	struct log_target *low = NULL;

	for (unsigned int i = 0; i < log->ntargets; i++) {
		struct log_target *s = &log->target[i];

		if (s->state == WEFT_LOG_TARGET_LIVE &&
		    (low == NULL || s->head_acked < low->head_acked))
			low = s;
	}
	if (low == NULL || low->head_acked <= t->c.src_pos || t->c.got == log_got_found)
		return false;
	t->c.wanted = t->c.got;
	t->c.src_pos = low->head_acked;
	if (low->head_acked == low->acked.position)
		log_trim_found(log, t, low->acked.seq);
	else
		log_source_read(log, t, low->head_acked, WEFT_LOG_HEADER_BYTES, log_got_found);
	return true;
}

static void
log_source_post(struct weft_log *log, struct log_target *t)
{
	struct log_target *src = log_source(log, t, t->c.src_pos);
	struct weft_sge sink = {.addr = t->buf, .len_bytes = t->c.src_bytes, .lkey = t->lkey};
	int rc;

	t->c.waiting = false;
	if (src == NULL && log_find_trim(log, t))
		return;
	if (src == NULL) {
		log_lost(log, t, -EBADMSG);
		log_later(log);
		return;
	}
	rc = log_post_read(log, src, LOG_WR_COPY, (uint32_t)t->gen << 8 | t->index,
	                   log_ring_to(log, src, t->c.src_pos), &sink);
	if (rc == -EAGAIN) {
		t->c.waiting = true;
		return;
	}
	if (rc != 0) {
		log_lost(log, src, rc);
		log_later(log);
		t->c.waiting = t->state == WEFT_LOG_TARGET_CATCHING;
		return;
	}
	t->c.src = src->index;
	t->c.reading = true;
	t->src_busy = true;
}

static void
log_source_read(struct weft_log *log, struct log_target *t, uint64_t position, uint32_t len_bytes,
                log_step_fn got)
{
	t->c.src_pos = position;
	t->c.src_bytes = len_bytes;
	t->c.got = got;
	log_source_post(log, t);
}

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
}

void
log_catch_lost(struct weft_log *log, struct log_target *src)
{
	for (unsigned int i = 0; i < log->ntargets; i++) {
		struct log_target *t = &log->target[i];

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
}

/** What the source gave is not the log's record. */
static void
log_source_bad(struct weft_log *log, struct log_target *t)
{
	/* It may have been trimmed meanwhile, and its place taken. */
	if (t->c.at.position >= log->head.position) {
		log->stats.bad_reads++;
		t->c.bad |= 1U << t->c.src;
		log_damaged(&log->target[t->c.src], WEFT_LOG_DAMAGE_RECORD, t->c.at.position);
	}
	t->c.big_off = 0;
	log_copy(log, t);
}

/* ---- Live ---- */

/** It gets the rest out of the window, beside the appends. */
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

	if (log->sabotage == LOG_SEAT_EARLY && t->role == LOG_STRANGER)
		card.life = log_life(log->lives, log->ntargets, card.place = log_place_free(log));
	else if (!log_is_seated(t) && log->sabotage != LOG_SEAT_EARLY) {
		/* It is fed: the window begins where the slowest target is, and what is durable at
		 * others lies behind that (log_admit()). */
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
 * What is missing is in the window. A member counts already, and its card only says that it has
 * seen this epoch; who is none is fed. Its words are stamped while nothing else changes them.
 */
static void
log_catch_end(struct weft_log *log, struct log_target *t)
{
	uint64_t tail = t->acked_pos;

	t->pinned = true;
	t->pin_seq = t->c.at.seq;
	log_step_stamps(log, t, tail, t->head_acked, log_catch_stamped);
}

/* ---- Begin anew ---- */

static void
log_reset_done(struct weft_log *log, struct log_target *t)
{
	t->head_acked = t->head_sent;
	t->head_sent = 0;
	log_copy(log, t);
}

/** `join.head` */
static void
log_reset_head(struct weft_log *log, struct log_target *t)
{
	t->acked_pos = 0;
	t->tail = 0;
	t->c.at = log->head;
	/* Of a log that is trimmed whole only its last record says where it ends, and what number
	 * comes. */
	t->c.last = log->head.seq == log->end.seq && log->last_pos != 0;
	if (t->c.last)
		t->c.at = (struct weft_log_at){log->end.seq - 1, log->last_pos};
	t->acked = t->c.at;
	t->c.epoch = 0;
	t->c.big_off = 0;
	/* Where that ends, when a filler is to follow. */
	t->head_sent = t->c.last ? log->end.position : log->head.position;
	log_step_head(log, t, t->head_sent, log_reset_done);
}

/** `join.clear` */
static void
log_reset_tail(struct weft_log *log, struct log_target *t)
{
	/* What is not in the log was never known to so many that it counts. */
	uint32_t knows = log_min(t->knows, log_lives_sum(log->lives, log->ntargets));

	if (log->sabotage == LOG_FORGETS)
		knows = log->ntargets;

	log_step_tail(log, t, log_tail_anew(knows), log_reset_head);
}

/** It has nothing of what the log holds. */
static void
log_reset(struct weft_log *log, struct log_target *t)
{
	log->stats.resets++;
	/* Trims that are faster than it is would have it begin anew for ever: let appends wait. */
	if (!t->pinned && ++t->c.rounds > LOG_CATCH_ROUNDS) {
		t->pinned = true;
		t->pin_seq = log->rel_seq;
	}
	log_reset_tail(log, t);
}

/**
 * `join.unseat`: what it has is not known, and some of it may be durable at a quorum that it
 * belonged to. Who it is stays, unless that is not known either: then it is blank.
 */
static void
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

/* ---- Copy ---- */

static void
log_copied(struct weft_log *log, struct log_target *t)
{
	log->stats.copied_records += t->c.records;
	log->stats.copied_bytes += t->c.next.position - t->c.at.position;
	t->c.at = t->c.next;
	t->c.epoch = t->c.last_epoch;
	t->c.big_off = 0;
	/* The end of its last record, not of a filler behind: its head may go no further. */
	if (t->c.last_pos != 0) {
		t->acked_pos = t->c.last_pos;
		t->acked = t->c.last_end;
		t->c.last = false;
	}
	log_copy(log, t);
}

/** A record longer than the buffer goes piece by piece, and the pointer moves with the last. */
static void log_big_written(struct weft_log *log, struct log_target *t);

static void
log_got_big(struct weft_log *log, struct log_target *t)
{
	uint64_t total = log_record_bytes(t->c.hdr.len_bytes), off = t->c.big_off;
	uint64_t end = WEFT_LOG_HEADER_BYTES + t->c.hdr.len_bytes,
	         from = off == 0 ? WEFT_LOG_HEADER_BYTES : 0;
	uint32_t n = t->c.src_bytes;
	bool last = off + n == total;

	if (off + from < end)
		t->c.big_crc = log_crc(t->c.big_crc, t->buf + from,
		                       log_min((uint64_t)n, end - off) - from);
	if (last && t->c.big_crc != t->c.hdr.crc) {
		log_source_bad(log, t);
		return;
	}
	log_step_copy(log, t, t->c.at.position + off, n, last ? t->c.at.position : 0,
	              log_big_written);
}

static void
log_big_written(struct weft_log *log, struct log_target *t)
{
	uint64_t total = log_record_bytes(t->c.hdr.len_bytes);

	t->c.big_off += t->c.src_bytes;
	if (t->c.big_off < total) {
		log_source_read(log, t, t->c.at.position + t->c.big_off,
		                (uint32_t)log_min(total - t->c.big_off, (uint64_t)log->copy_bytes),
		                log_got_big);
		return;
	}
	t->c.next.seq = t->c.at.seq + 1;
	t->c.next.position = log_norm(log->g.ring_bytes, t->c.at.position + total);
	t->c.last_pos = t->c.at.position;
	t->c.last_end = t->c.next;
	t->c.last_epoch = t->c.hdr.epoch;
	t->c.records = 1;
	log_copied(log, t);
}

static void
log_got_chunk(struct weft_log *log, struct log_target *t)
{
	struct log_walk w = {.at = t->c.at, .least_epoch = t->c.epoch};
	uint64_t off = 0, n = t->c.src_bytes;
	int64_t rc = 0;

	t->c.last_pos = 0;
	t->c.records = 0;
	while (off < n && (rc = log_walk(&log->g, &w, t->buf + off, n - off)) > 0) {
		if (w.hdr.kind != LOG_FILLER) {
			t->c.last_pos = w.hdr.position;
			t->c.last_end = w.at;
			t->c.records++;
		}
		off += (uint64_t)rc;
	}
	if (off == 0 && rc < 0) {
		log_source_bad(log, t);
		return;
	}
	if (off == 0) {
		t->c.hdr = w.hdr;
		t->c.big_crc = 0;
		log_got_big(log, t);
		return;
	}
	t->c.next = w.at;
	t->c.last_epoch = w.least_epoch;
	/* A filler alone: its header says it all, and the pointer stays. */
	log_step_copy(log, t, t->c.at.position,
	              t->c.records == 0 ? WEFT_LOG_HEADER_BYTES : (uint32_t)log_min(off, n),
	              t->c.last_pos, log_copied);
}

static void
log_head_moved(struct weft_log *log, struct log_target *t)
{
	t->head_acked = t->head_sent;
	t->head_sent = 0;
	log_copy(log, t);
}

static void
log_move_head(struct weft_log *log, struct log_target *t)
{
	t->head_sent = log_trim_to(log, t);
	log_step_head(log, t, t->head_sent, log_head_moved);
}

/** While it catches up new appends do not wait for it, until little is missing, or it never gets
 * there. */
static void
log_pin(struct weft_log *log, struct log_target *t)
{
	if (t->c.at.seq >= t->c.goal_seq) {
		t->c.rounds++;
		t->c.goal_seq = log->dur.seq;
	}
	if (!t->pinned && (log->end.seq - t->c.at.seq <= log->max_appends / 2 ||
	                   t->c.rounds > LOG_CATCH_ROUNDS)) {
		t->pinned = true;
		t->pin_seq = log->rel_seq;
	}
}

/** Whether only a filler is between where it goes on and the head. */
static bool
log_at_filler(const struct weft_log *log, const struct log_target *t)
{
	return t->c.at.seq == log->head.seq && t->c.at.position < log->head.position &&
	       log_same_place(log->g.ring_bytes, t->c.at.position, log->head.position);
}

static void
log_filled(struct weft_log *log, struct log_target *t)
{
	t->c.at = t->c.next;
	log_copy(log, t);
}

/** No other target needs to have it any more, and here the head may stand in front of it. */
static void
log_fill_gap(struct weft_log *log, struct log_target *t)
{
	struct log_hdr h = {.position = t->c.at.position,
	                    .seq = t->c.at.seq,
	                    .epoch = log_max(t->c.epoch, 1UL),
	                    .prev = t->acked_pos,
	                    .len_bytes = (uint32_t)(log_left(log->g.ring_bytes, t->c.at.position) -
	                                            WEFT_LOG_HEADER_BYTES),
	                    .kind = LOG_FILLER,
	                    .lives = log->lives};

	log_hdr_encode(&log->g, &h, t->buf);
	t->c.next = (struct weft_log_at){h.seq, h.position + WEFT_LOG_HEADER_BYTES + h.len_bytes};
	log_step_copy(log, t, h.position, WEFT_LOG_HEADER_BYTES, 0, log_filled);
}

/** `join.feed` */
static void
log_copy(struct weft_log *log, struct log_target *t)
{
	uint64_t n, room;

	if (log_at_filler(log, t)) {
		log_fill_gap(log, t);
		return;
	}
	if (t->c.at.position < log->head.position && !t->c.last) {
		log_reset(log, t);
		return;
	}
	if (t->c.at.seq >= log->rel_seq) {
		log_catch_end(log, t);
		return;
	}
	log_pin(log, t);
	n = log_min(log_rel_position(log) - t->c.at.position, (uint64_t)log->copy_bytes);
	n = log_min(n, log_left(log->g.ring_bytes, t->c.at.position));
	/* The record in front of the head lies in memory that is free. */
	room = t->c.last ? n : log->g.ring_bytes - (t->c.at.position - log_target_floor(t));
	if (n > room && t->head_acked < log_trim_to(log, t)) {
		log_move_head(log, t);
		return;
	}
	/* Behind the last record of its own the longest one has room, with a filler in front; and
	 * the log is no longer than the ring. Words that say otherwise are wrong. */
	if (room < WEFT_LOG_HEADER_BYTES) {
		log_damaged(t, WEFT_LOG_DAMAGE_WORDS, t->head_acked);
		log_lost(log, t, -EBADMSG);
		log_later(log);
		return;
	}
	log_source_read(log, t, t->c.at.position, (uint32_t)log_min(n, room), log_got_chunk);
}

/* ---- What it has in common with the log ---- */

static uint64_t
log_hdr_end(const struct weft_log *log, const struct log_hdr *h)
{
	return log_norm(log->g.ring_bytes, h->position + log_record_bytes(h->len_bytes));
}

static void
log_settled(struct weft_log *log, struct log_target *t)
{
	t->acked_pos = t->c.hdr.position;
	t->acked = (struct weft_log_at){t->c.hdr.seq + 1, log_hdr_end(log, &t->c.hdr)};
	t->head_acked = t->head;
	/* `join.trim`: whose record it is that ends at the head does not matter then. */
	if (t->head < log_trim_to(log, t) &&
	    (t->c.at.position >= log->head.position || log_at_filler(log, t)))
		log_move_head(log, t);
	else
		log_copy(log, t);
}

static void
log_common(struct weft_log *log, struct log_target *t)
{
	const struct log_hdr *h = &t->c.hdr;

	t->c.at = (struct weft_log_at){h->seq + 1, log_hdr_end(log, h)};
	t->c.epoch = h->epoch;
	if (t->c.at.position < log->head.position && !log_at_filler(log, t)) {
		log_reset(log, t);
	} else if (h->position != t->tail && log_hdr_end(log, h) < t->head) {
		/* Its head would be behind the end of what its tail names (T3). */
		log_reset_unknown(log, t);
	} else if (h->position != t->tail) {
		/* `join.cut` */
		log->stats.cuts++;
		log_step_tail(log, t, h->position, log_settled);
	} else {
		log_settled(log, t);
	}
}

static void
log_got_own(struct weft_log *log, struct log_target *t)
{
	if (log_hdr_decode(&log->g, t->c.hdr.prev, t->buf, &t->c.hdr) != 0) {
		log_reset_unknown(log, t);
		return;
	}
	memcpy(t->c.raw, t->buf, sizeof(t->c.raw));
	log_compare(log, t);
}

static void
log_back(struct weft_log *log, struct log_target *t)
{
	const struct log_hdr *h = &t->c.hdr;

	/* h is another's: what it shares with the log ends before, and is trimmed; or is nothing.
	 * The one in front of its head is looked at, too: that may be where it ends. */
	if (h->position < log->head.position || h->prev == 0)
		log_reset(log, t);
	else if (h->position < t->head || ++t->c.back > LOG_BACK_STEPS)
		log_reset_unknown(log, t);
	else
		log_step_read(log, t, log_ring_to(log, t, t->c.hdr.prev), WEFT_LOG_HEADER_BYTES,
		              log_got_own);
}

static void
log_compared(struct weft_log *log, struct log_target *t)
{
	if (memcmp(t->buf, t->c.raw, sizeof(t->c.raw)) == 0)
		log_common(log, t);
	else
		log_back(log, t);
}

/** The number of the record there is known: on with what the target was at. */
static void
log_trim_found(struct weft_log *log, struct log_target *t, uint64_t seq)
{
	if (t->c.src_pos > log->head.position)
		log->head = (struct weft_log_at){.seq = seq, .position = t->c.src_pos};
	log->again = true;
	if (t->c.wanted == log_compared) {
		log_compare(log, t);
	} else if (t->c.last) {
		/* To get the last record of a log that has gone on: no live target keeps it. */
		log_reset(log, t);
	} else {
		t->c.big_off = 0;
		log_copy(log, t);
	}
}

/** As a log does it that is wrong: what the live target that has least has not, the log has not. */
static bool
log_laggard_lacks(const struct weft_log *log, uint64_t position)
{
	bool lacks = false;

	for (unsigned int i = 0; i < log->ntargets; i++)
		lacks |= log->target[i].state == WEFT_LOG_TARGET_LIVE &&
		         position >= log->target[i].acked.position;
	return lacks;
}

/**
 * Whoever has everything that was trimmed may be one of those that made it durable: it is not begun
 * anew, it begins at the head. Whose record that is, in front of it, is no matter: it is trimmed.
 */
static void
log_before_head(struct weft_log *log, struct log_target *t)
{
	struct log_hdr *h = &t->c.hdr;

	if (h->seq + 1 == log->head.seq &&
	    log_same_place(log->g.ring_bytes, log_hdr_end(log, h), log->head.position)) {
		h->epoch = 0;
		log_common(log, t);
	} else {
		log_back(log, t);
	}
}

/** `join.compare` */
static void
log_compare(struct weft_log *log, struct log_target *t)
{
	const struct log_hdr *h = &t->c.hdr;
	bool beyond = h->seq >= log->end.seq;

	if (log->sabotage == LOG_LAGGARD)
		beyond = log_laggard_lacks(log, h->position);
	if (beyond) {
		log_back(log, t);
	} else if (h->seq + 1 >= log->rel_seq) {
		const uint8_t *raw =
		        h->seq >= log->rel_seq ? log_slot(log, h->seq)->hdr : log->before_raw;

		if (memcmp(raw, t->c.raw, sizeof(t->c.raw)) == 0)
			log_common(log, t);
		else
			log_back(log, t);
	} else if (h->position < log->head.position) {
		log_before_head(log, t);
	} else if (h->position >= log_rel_position(log)) {
		log_back(log, t);
	} else {
		log_source_read(log, t, h->position, WEFT_LOG_HEADER_BYTES, log_compared);
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
		log_reset_unknown(log, t);
	} else if (t->role == LOG_STRANGER) {
		log_reset(log, t);
	} else if (t->tail == 0 && t->head == log->head.position &&
	           (log->head.seq != log->end.seq || log->last_pos == 0)) {
		t->c.at = log->head;
		t->acked = t->c.at;
		log_copy(log, t);
	} else if (t->tail == 0) {
		log_reset(log, t);
	} else if (log_hdr_decode(&log->g, t->tail, t->tail_raw, &t->c.hdr) != 0) {
		log_lost(log, t, -EBADMSG);
	} else {
		memcpy(t->c.raw, t->tail_raw, sizeof(t->c.raw));
		log_compare(log, t);
	}
}
