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
 * memory holds a log at each moment.
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

#include "log_catch.h"
#include "log_member.h"
#include "log_priv.h"
#include "log_step.h"

static void log_copy(struct weft_log *log, struct log_target *t);
static void log_reset(struct weft_log *log, struct log_target *t);
static void log_compare(struct weft_log *log, struct log_target *t);
static void log_compared(struct weft_log *log, struct log_target *t);
static void log_trim_found(struct weft_log *log, struct log_target *t, uint64_t seq);
static void log_source_read(struct weft_log *log, struct log_target *t, uint64_t position,
                            uint32_t len_bytes, log_step_fn got);

/* ---- Reading from a source ---- */

/** Choose the source: of the live targets that hold this position, the one that holds most. All
 * keep the record that their tail names, even when their head is behind it: log_target_floor(). */
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

/** The position where the window begins. Every live target holds everything from its head up to
 * there. */
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
 * No live target has the record that is wanted. If that is because the head of each is behind it,
 * by a trim that an earlier writer was asked for, the log's head goes there: `trim.found`. False:
 * it is not.
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
	rc = log_post_read(src, LOG_WR_COPY, (uint32_t)t->gen << 8 | t->index,
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

/** The source's copy is not the log's record. */
static void
log_source_bad(struct weft_log *log, struct log_target *t)
{
	/* The record may have been trimmed meanwhile, and its memory reused. */
	if (t->c.at.position >= log->head.position) {
		log->stats.bad_reads++;
		t->c.bad |= 1U << t->c.src;
		log_damaged(&log->target[t->c.src], WEFT_LOG_DAMAGE_RECORD, t->c.at.position);
	}
	t->c.big_off = 0;
	log_copy(log, t);
}

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
	/* When a log is trimmed completely, only its last record says where it ends and which
	 * number comes next. */
	t->c.last = log->head.seq == log->end.seq && log->last_pos != 0;
	if (t->c.last)
		t->c.at = (struct weft_log_at){log->end.seq - 1, log->last_pos};
	t->acked = t->c.at;
	t->c.epoch = 0;
	t->c.big_off = 0;
	/* The end of that record, when a filler is to follow. */
	t->head_sent = t->c.last ? log->end.position : log->head.position;
	log_step_head(log, t, t->head_sent, log_reset_done);
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
static void
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
	/* The end of its last record, not of the filler behind: its head may go no further. */
	if (t->c.last_pos != 0) {
		t->acked_pos = t->c.last_pos;
		t->acked = t->c.last_end;
		t->c.last = false;
	}
	log_copy(log, t);
}

/** A record longer than the buffer is copied in pieces, and the tail moves with the last one. */
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
	/* A filler alone: its header is enough, and the tail stays. */
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

/** New appends do not wait for a target that catches up, until little is missing, or until it
 * would never finish. */
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

/** Whether only a filler is between the position where the target continues and the head. */
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

/** Write the filler; no other target need have it any more, and the head here may be in front of
 * it. */
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
	/* The memory of the record in front of the head is free. */
	room = t->c.last ? n : log->g.ring_bytes - (t->c.at.position - log_target_floor(t));
	if (n > room && t->head_acked < log_trim_to(log, t)) {
		log_move_head(log, t);
		return;
	}
	/* Behind the target's own last record there is room for the longest record with a
	 * filler, and the log is not longer than the ring. Words that contradict that are wrong. */
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
	/* `join.trim`: it does not matter whose record ends at the head. */
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
		/* Its head would be behind the end of the record that its tail names (T3). */
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

	/* h is not the log's record. The part that target and log share ends before the head, or
	 * there is none. The record in front of the head is examined, too, because the shared part
	 * may end there. */
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

/** The number of the record at the head is known: continue the catch-up. */
static void
log_trim_found(struct weft_log *log, struct log_target *t, uint64_t seq)
{
	if (t->c.src_pos > log->head.position)
		log->head = (struct weft_log_at){.seq = seq, .position = t->c.src_pos};
	log->again = true;
	if (t->c.wanted == log_compared) {
		log_compare(log, t);
	} else if (t->c.last) {
		/* To get the last record of a log that has continued since: no live target keeps
		 * it. */
		log_reset(log, t);
	} else {
		t->c.big_off = 0;
		log_copy(log, t);
	}
}

#ifdef WEFT_TEST_HOOKS
/** A deliberate fault: records that the slowest live target lacks count as not in the log. */
static bool
log_laggard_lacks(const struct weft_log *log, uint64_t position)
{
	bool lacks = false;

	for (unsigned int i = 0; i < log->ntargets; i++)
		lacks |= log->target[i].state == WEFT_LOG_TARGET_LIVE &&
		         position >= log->target[i].acked.position;
	return lacks;
}
#endif

/**
 * A target that has everything that was trimmed may be one of those that made it durable. So it is
 * not begun anew, but continues at the head. It does not matter whose record is in front of the
 * head, because that record is trimmed.
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

#ifdef WEFT_TEST_HOOKS
	if (LOG_SABOTAGED(log, LAGGARD))
		beyond = log_laggard_lacks(log, h->position);
#endif
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
