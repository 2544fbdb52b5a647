/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The window: appended records from their slot until they are durable and released. */

#include <errno.h>
#include <string.h>

#include "log_base.h"
#include "log_priv.h"
#include "log_window.h"

/* ---- Room ---- */

/** Targets whose memory and window count. */
static inline bool
log_holds(const struct log_target *t)
{
	return t->state == WEFT_LOG_TARGET_LIVE ||
	       (t->state == WEFT_LOG_TARGET_CATCHING && t->pinned);
}

/**
 * Whether the log waits, and leaves the target's memory as it is: the target then comes back as it
 * was, and is not begun anew. What a target has that was never there, or that is looked at, is not
 * known. One that was lost long ago has given up its memory already.
 */
static bool
log_is_kept(const struct weft_log *log, const struct log_target *t)
{
	return log->waits != NULL && t->head_acked != 0 &&
	       log->end.position - log_target_floor(t) <= log->g.ring_bytes;
}

/** `trim.reuse`: memory before this position may be overwritten. */
static uint64_t
log_floor(const struct weft_log *log)
{
	/* The present targets may all have a newer head than the log; absent targets may need
	 * everything from the log's head on. */
	uint64_t floor = log->head.position;

	for (unsigned int i = 0; i < log->ntargets; i++) {
		const struct log_target *t = &log->target[i];

		if (log_holds(t) || log_is_kept(log, t))
			floor = log_min(floor, log_target_floor(t));
	}
	return floor;
}

/** Octets of the filler that a record of `bytes` in all needs in front; 0: none. */
static uint64_t
log_gap(const struct weft_log *log, uint64_t bytes)
{
	uint64_t left = log_left(log->g.ring_bytes, log->end.position);

	return bytes <= left ? 0 : left;
}

/** Whether a record of `bytes` in all has room now, and `reserve` octets stay free behind it. */
static bool
log_has_room(const struct weft_log *log, uint64_t bytes, uint64_t reserve)
{
	uint64_t end = log_norm(log->g.ring_bytes, log->end.position + log_gap(log, bytes) + bytes);

	return end + reserve - log_floor(log) <= log->g.ring_bytes;
}

bool
log_lagging(struct weft_log *log)
{
	bool told = false;

	if ((!log->refused_window && log->refused_bytes == 0) || log->dur.seq != log->end.seq)
		return false;
	for (unsigned int i = 0; i < log->ntargets; i++) {
		struct log_target *t = &log->target[i];

		if (log_holds(t) && t->acked.seq < log->dur.seq && t->lag_seq != t->acked.seq) {
			t->lag_seq = t->acked.seq;
			t->ev_lag = told = true;
		}
	}
	return told;
}

/* ---- Append ---- */

static int
log_sges(const struct weft_log *log, const struct weft_log_append *a, uint64_t *len)
{
	*len = 0;
	if (a->num_sge > log->max_sge || (a->num_sge > 0 && a->sg_list == NULL))
		return -EINVAL;
	for (uint32_t i = 0; i < a->num_sge; i++)
		*len += a->sg_list[i].len_bytes;
	return *len > log_max_record(log->g.ring_bytes) ? -EMSGSIZE : 0;
}

static uint32_t
log_data_crc(const struct weft_log_append *a)
{
	uint32_t crc = 0;

	for (uint32_t i = 0; i < a->num_sge; i++)
		if (a->sg_list[i].len_bytes > 0)
			crc = log_crc(crc, a->sg_list[i].addr, a->sg_list[i].len_bytes);
	return crc;
}

static void
log_fill(struct weft_log *log, struct log_slot *s, enum log_kind kind,
         const struct weft_log_append *a, uint32_t len)
{
	struct log_hdr h = {.seq = log->end.seq,
	                    .epoch = log->epoch,
	                    .prev = log->last_pos,
	                    .lives = log->lives};

	s->len_bytes = len;
	s->bytes = log_record_bytes(len);
	s->pad_bytes = (uint32_t)(s->bytes - WEFT_LOG_HEADER_BYTES - len);
	s->gap_bytes = log_gap(log, s->bytes);
	s->at.seq = log->end.seq;
	s->at.position = log->end.position + s->gap_bytes;
	s->next.seq = s->at.seq + 1;
	s->next.position = log_norm(log->g.ring_bytes, s->at.position + s->bytes);
	s->num_sge = 0;
	for (uint32_t i = 0; i < a->num_sge; i++)
		if (a->sg_list[i].len_bytes > 0)
			s->sge[s->num_sge++] = a->sg_list[i];
	s->durable = a->durable;
	s->released = a->released;
	s->arg = a->arg;
	if (s->gap_bytes > 0) {
		h.position = log->end.position;
		h.kind = LOG_FILLER;
		h.len_bytes = (uint32_t)(s->gap_bytes - WEFT_LOG_HEADER_BYTES);
		log_hdr_encode(&log->g, &h, s->filler);
	}
	h.position = s->at.position;
	h.kind = kind;
	h.len_bytes = len;
	h.crc = log_data_crc(a);
	log_hdr_encode(&log->g, &h, s->hdr);
}

int
log_window_append(struct weft_log *log, enum log_kind kind, const struct weft_log_append *a,
                  struct weft_log_at *at)
{
	struct log_slot *s;
	uint64_t len;
	int rc = log_sges(log, a, &len);

	if (rc != 0)
		return rc;
	if (log->end.seq - log->rel_seq >=
	    (kind == LOG_RECORD ? log->max_appends : log->num_slots)) {
		log->stats.full_window++;
		log->refused_window = true;
		return -EAGAIN;
	}
	if (!log_has_room(log, log_record_bytes(len),
	                  kind == LOG_OPENING ? 0 : log_reserve(log->g.ring_bytes))) {
		log->stats.full_ring++;
		log->refused_bytes = log_record_bytes(len);
		return log->waits != NULL ? -EAGAIN : -ENOSPC;
	}
	s = log_slot(log, log->end.seq);
	log_fill(log, s, kind, a, (uint32_t)len);
	log->end = s->next;
	log->last_pos = s->at.position;
	if (at != NULL)
		*at = s->at;
	return 0;
}

int
log_append_seat(struct weft_log *log)
{
	const struct weft_log_append seat = {0};

	if (log->end.seq - log->rel_seq >= log->num_slots ||
	    !log_has_room(log, log_record_bytes(0), 0))
		return -EAGAIN;
	return log_window_append(log, LOG_OPENING, &seat, NULL);
}

/** Whether the target's head is going to move. */
static bool
log_will_trim(const struct weft_log *log, const struct log_target *t)
{
	return t->head_acked < log_trim_to(log, t) ||
	       (t->head_acked < log->head.position && t->acked.seq < log->head.seq);
}

/** `open.record` */
void
log_append_opening(struct weft_log *log)
{
	const struct weft_log_append opening = {0};
	uint64_t bytes = log_record_bytes(0);
	bool trims = false;

	for (unsigned int i = 0; i < log->ntargets; i++)
		trims |= log_holds(&log->target[i]) && log_will_trim(log, &log->target[i]);
	/* More room may come while a trim is under way, and none without one. */
	log->opening_due = !log_has_room(log, bytes, 0) && trims;
	if (!log->opening_due && log_window_append(log, LOG_OPENING, &opening, NULL) != 0)
		log_fail(log, -ENOSPC);
}

/* ---- Answers of targets ---- */

/** The first record number that fewer than a quorum hold. */
static uint64_t
log_quorum_seq(const struct weft_log *log)
{
	uint64_t best = 0;

	for (unsigned int i = 0; i < log->ntargets; i++) {
		const struct log_target *t = &log->target[i];
		unsigned int n = 0;

		if (!log_counts(t) || t->acked.seq <= best)
			continue;
		for (unsigned int k = 0; k < log->ntargets; k++)
			n += log_counts(&log->target[k]) &&
			     log->target[k].acked.seq >= t->acked.seq;
		if (n >= (LOG_SABOTAGED(log, EARLY_DURABLE) ? 1 : log->quorum))
			best = t->acked.seq;
	}
	return best;
}

/** The first record number that a target may still need from the window. */
static uint64_t
log_release_seq(const struct weft_log *log)
{
	uint64_t seq = log->told_seq;

	/* What targets have that are waited for is not known now. */
	if (log->waits != NULL)
		return log->rel_seq;
	for (unsigned int i = 0; i < log->ntargets; i++) {
		const struct log_target *t = &log->target[i];

		if (log_holds(t))
			seq = log_min(seq, t->pinned ? t->pin_seq : t->acked.seq);
	}
	return seq;
}

void
log_settle(struct weft_log *log)
{
	uint64_t seq = log_quorum_seq(log);

	if (!log->begun)
		return;
	if (log->opening_due) {
		log_append_opening(log);
		if (log->state == WEFT_LOG_FAILED)
			return;
	}
	if (seq > log->dur.seq)
		log->dur = log_slot(log, seq - 1)->next;
	/* `open.done` */
	if (log->state == WEFT_LOG_OPENING && log->dur.seq > log->opening_seq) {
		log->state = WEFT_LOG_OPENED;
		log->ev_open = true;
	}
	while (log->told_seq < log->dur.seq) {
		const struct log_slot *s = log_slot(log, log->told_seq++);

		if (s->durable != NULL)
			s->durable(s->arg, &s->at, 0);
		if (log->dead)
			return;
	}
	seq = log_release_seq(log);
	while (log->rel_seq < seq) {
		const struct log_slot *s = log_slot(log, log->rel_seq++);
		struct weft_log_at at = s->at;

		/* An append inside the callback takes the slot. */
		memcpy(log->before_raw, s->hdr, sizeof(log->before_raw));
		if (s->released != NULL)
			s->released(s->arg, &at);
		if (log->dead)
			return;
	}
}

void
log_window_tell(struct weft_log *log)
{
	if (log->refused_window && log->end.seq - log->rel_seq < log->max_appends) {
		log->refused_window = false;
		log->ev_room = true;
	}
	if (log->refused_bytes != 0 &&
	    log_has_room(log, log->refused_bytes, log_reserve(log->g.ring_bytes))) {
		log->refused_bytes = 0;
		log->ev_room = true;
	}
	(void)log_lagging(log);
}

/** Report the end to every append, and release all. */
void
log_end_appends(struct weft_log *log, int status)
{
	uint64_t next = log->end.seq;

	while (log->told_seq < next) {
		const struct log_slot *s = log_slot(log, log->told_seq++);

		if (s->durable != NULL)
			s->durable(s->arg, &s->at, status);
	}
	while (log->rel_seq < next) {
		const struct log_slot *s = log_slot(log, log->rel_seq++);

		if (s->released != NULL)
			s->released(s->arg, &s->at);
	}
}

uint64_t
log_rel_position(const struct weft_log *log)
{
	const struct log_slot *s = log_slot(log, log->rel_seq);

	return log->rel_seq == log->end.seq ? log->end.position : s->at.position - s->gap_bytes;
}

uint64_t
log_window_prev(const struct weft_log *log, uint64_t position)
{
	struct log_hdr h;

	for (uint64_t seq = log->rel_seq; seq < log->end.seq; seq++) {
		const struct log_slot *s = log_slot(log, seq);

		if (s->at.position == position &&
		    log_hdr_decode(&log->g, position, s->hdr, &h) == 0)
			return h.prev;
	}
	return 0;
}
