/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Catch-up: copies the records before the window, and moves the target's head, until the rest
 * is in the window.
 */

#include <errno.h>

#include "log_base.h"
#include "log_catch_part.h"
#include "log_priv.h"
#include "log_step.h"
#include "log_window.h"

/** The source's copy is not the log's record. */
static void
log_source_bad(struct weft_log *log, struct log_target *t)
{
	/* The record may have been trimmed meanwhile, and its memory reused. The last record of a
	 * log that is trimmed completely stays. */
	if (t->c.at.position >= log->head.position || log_at_last(log, t)) {
		log->stats.bad_reads++;
		t->c.bad |= 1U << t->c.src;
		log_damaged(&log->target[t->c.src], WEFT_LOG_DAMAGE_RECORD, t->c.at.position);
	}
	t->c.todo = LOG_CATCH_COPY;
}

static void
log_copied(struct weft_log *log, struct log_target *t)
{
	log->stats.copied_records += t->c.records;
	log->stats.copied_bytes += t->c.next.position - t->c.at.position;
	t->c.at = t->c.next;
	t->c.bad = 0;
	t->c.epoch = t->c.last_epoch;
	/* The end of its last record, not of the filler behind: its head may go no further. */
	if (t->c.last_pos != 0) {
		t->acked_pos = t->c.last_pos;
		t->acked = t->c.last_end;
		t->c.last = false;
	}
	t->c.todo = LOG_CATCH_COPY;
}

static void
log_head_moved(struct weft_log *log, struct log_target *t)
{
	(void)log;
	t->head_acked = t->head_sent;
	t->head_sent = 0;
	t->c.todo = LOG_CATCH_COPY;
}

void
log_move_head(struct weft_log *log, struct log_target *t, uint64_t to)
{
	t->head_sent = to;
	log_step_head(log, t, to, log_head_moved);
}

/** Octets that may be written where the target continues: what its durable head still names, or
 * its last record, is not overwritten. */
static uint64_t
log_copy_room(const struct weft_log *log, const struct log_target *t)
{
	uint64_t used = t->c.at.position - log_target_floor(t);

	/* In front of the head the memory is free. */
	if (t->c.last)
		return UINT64_MAX;
	return used < log->g.ring_bytes ? log->g.ring_bytes - used : 0;
}

/**
 * There is no room for the next part of the copy. The head moves as far as it may, and the copy
 * goes on. Then the room must suffice: from the log's head to its end is at most the ring, and
 * behind the target's own last record there is room for the longest record with a filler. Words
 * that contradict that are wrong.
 */
static void
log_copy_waits(struct weft_log *log, struct log_target *t)
{
	if (t->head_acked < log_trim_to(log, t)) {
		log_move_head(log, t, log_trim_to(log, t));
		return;
	}
	log_damaged(t, WEFT_LOG_DAMAGE_WORDS, t->head_acked);
	log_lost(log, t, -EBADMSG);
	log_later(log);
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
	if (off == 0 && log_record_bytes(w.hdr.len_bytes) > log_copy_room(log, t)) {
		log_copy_waits(log, t);
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

static void
log_filled(struct weft_log *log, struct log_target *t)
{
	(void)log;
	t->c.at = t->c.next;
	t->c.todo = LOG_CATCH_COPY;
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
void
log_copy(struct weft_log *log, struct log_target *t)
{
	uint64_t n, room = log_copy_room(log, t);

	if (log_at_filler(log, t)) {
		if (room < WEFT_LOG_HEADER_BYTES)
			log_copy_waits(log, t);
		else
			log_fill_gap(log, t);
		return;
	}
	if (t->c.at.position < log->head.position && !t->c.last) {
		t->c.todo = LOG_CATCH_ANEW;
		return;
	}
	if (t->c.at.seq >= log->rel_seq) {
		t->c.todo = LOG_CATCH_END;
		return;
	}
	log_pin(log, t);
	n = log_min(log_rel_position(log) - t->c.at.position, (uint64_t)log->copy_bytes);
	n = log_min(n, log_left(log->g.ring_bytes, t->c.at.position));
	if (room < WEFT_LOG_HEADER_BYTES || (n > room && t->head_acked < log_trim_to(log, t))) {
		log_copy_waits(log, t);
		return;
	}
	t->c.big_off = 0;
	log_source_read(log, t, t->c.at.position, (uint32_t)log_min(n, room), log_got_chunk);
}
