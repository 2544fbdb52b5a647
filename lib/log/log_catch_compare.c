/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Catch-up: finds the last record that target and log share, and cuts off the target's
 * records behind it.
 */

#include <string.h>

#include "log_base.h"
#include "log_catch_part.h"
#include "log_priv.h"
#include "log_step.h"
#include "log_window.h"

static void
log_settled(struct weft_log *log, struct log_target *t)
{
	t->acked_pos = t->c.hdr.position;
	t->acked = (struct weft_log_at){t->c.hdr.seq + 1, log_hdr_end(&log->g, &t->c.hdr)};
	t->head_acked = t->head;
	/* `join.trim`: it does not matter whose record ends at the head. */
	if (t->head < log_trim_to(log, t) &&
	    (t->c.at.position >= log->head.position || log_at_filler(log, t)))
		log_move_head(log, t, log_trim_to(log, t));
	else
		t->c.todo = LOG_CATCH_COPY;
}

void
log_common(struct weft_log *log, struct log_target *t)
{
	const struct log_hdr *h = &t->c.hdr;

	/* The target's next record is in doubt, and the log has one there. */
	if (t->c.doubt.position != 0) {
		log_doubt(log, t);
		return;
	}
	log_name_sources(log, t->c.holes, h->position);
	t->c.holes = t->c.bad = 0;
	t->c.at = (struct weft_log_at){h->seq + 1, log_hdr_end(&log->g, h)};
	t->c.epoch = h->epoch;
	if (t->c.at.position < log->head.position && !log_at_filler(log, t)) {
		t->c.todo = LOG_CATCH_ANEW;
	} else if (h->position != t->tail && log_hdr_end(&log->g, h) < t->head) {
		/* Its head would be behind the end of the record that its tail names (T3). */
		t->c.todo = LOG_CATCH_UNSEAT;
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
	uint64_t position = t->c.hdr.prev, seq = t->c.hdr.seq;

	if (log_hdr_decode(&log->g, position, t->buf, &t->c.hdr) != 0) {
		/* In front of its head the memory may have been used again, or never. Of its
		 * records from the log's head on none is the log's then: nothing is shared. */
		if (position < t->head && seq <= log->head.seq) {
			t->c.todo = LOG_CATCH_ANEW;
			return;
		}
		if (position >= t->head) {
			log_damaged(t, WEFT_LOG_DAMAGE_RECORD, position);
			log_later(log);
		}
		t->c.todo = LOG_CATCH_UNSEAT;
		return;
	}
	memcpy(t->c.raw, t->buf, sizeof(t->c.raw));
	t->c.todo = LOG_CATCH_COMPARE;
}

/** Go on with the target's record before this one. */
static void
log_back(struct weft_log *log, struct log_target *t)
{
	const struct log_hdr *h = &t->c.hdr;

	/* h is not the log's record. The part that target and log share ends before the head, or
	 * there is none. The record in front of the head is examined, too, because the shared part
	 * may end there. */
	if (h->position < log->head.position || h->prev == 0)
		t->c.todo = LOG_CATCH_ANEW;
	else if (h->position < t->head || ++t->c.back > LOG_BACK_STEPS)
		t->c.todo = LOG_CATCH_UNSEAT;
	else
		log_step_read(log, t, log_ring_to(log, t, t->c.hdr.prev), WEFT_LOG_HEADER_BYTES,
		              log_got_own);
}

/** The log has another record there, or none. */
static void
log_differs(struct weft_log *log, struct log_target *t)
{
	t->c.doubt.position = 0;
	t->c.holes = t->c.bad = 0;
	log_back(log, t);
}

/** No source has a header there. */
static void
log_doubtful(struct weft_log *log, struct log_target *t)
{
	log_doubt_begin(t);
	if (log_doubt_at_head(log, t))
		log_doubt(log, t);
	else
		log_back(log, t);
}

/** Whether the log has this header, too, or a filler covers the position (log_lap_end()). */
static void
log_common_if(struct weft_log *log, struct log_target *t, bool has)
{
	if (has)
		log_common(log, t);
	else
		log_differs(log, t);
}

/** The source's record behind the ring's end names the last one in front of it. */
static void
log_got_lap(struct weft_log *log, struct log_target *t)
{
	struct log_hdr h;

	if (log_hdr_decode(&log->g, t->c.src_pos, t->buf, &h) == 0) {
		log_common_if(log, t, h.prev >= t->c.hdr.position);
		return;
	}
	t->c.bad |= 1U << t->c.src;
	log_damaged(&log->target[t->c.src], WEFT_LOG_DAMAGE_RECORD, t->c.src_pos);
	log_source_read(log, t, t->c.src_pos, WEFT_LOG_HEADER_BYTES, log_got_lap);
}

static void
log_compared(struct weft_log *log, struct log_target *t)
{
	const uint64_t position = t->c.hdr.position, lap = log_lap_end(log->g.ring_bytes, position);
	struct log_hdr h;

	if (log_hdr_decode(&log->g, position, t->buf, &h) != 0) {
		t->c.bad |= 1U << t->c.src;
		if (log_has_source(log, t, position))
			log_source_read(log, t, position, WEFT_LOG_HEADER_BYTES, log_compared);
		else
			log_doubtful(log, t);
		return;
	}
	t->c.holes = t->c.bad;
	t->c.bad = 0;
	if (memcmp(t->buf, t->c.raw, sizeof(t->c.raw)) != 0)
		log_differs(log, t);
	else if (!log_may_be_filler(log->g.ring_bytes, position, log->end.position))
		log_common(log, t);
	else if (lap >= log_rel_position(log))
		log_common_if(log, t, log_window_prev(log, lap) >= position);
	else
		log_source_read(log, t, lap, WEFT_LOG_HEADER_BYTES, log_got_lap);
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
	    log_same_place(log->g.ring_bytes, log_hdr_end(&log->g, h), log->head.position)) {
		h->epoch = 0;
		log_common(log, t);
	} else {
		log_differs(log, t);
	}
}

/** `join.compare` */
void
log_compare(struct weft_log *log, struct log_target *t)
{
	const struct log_hdr *h = &t->c.hdr;
	bool beyond = h->seq >= log->end.seq;

#ifdef WEFT_TEST_HOOKS
	if (LOG_SABOTAGED(log, LAGGARD))
		beyond = log_laggard_lacks(log, h->position);
#endif
	if (beyond) {
		log_differs(log, t);
	} else if (h->seq + 1 >= log->rel_seq) {
		const uint8_t *raw =
		        h->seq >= log->rel_seq ? log_slot(log, h->seq)->hdr : log->before_raw;

		if (memcmp(raw, t->c.raw, sizeof(t->c.raw)) == 0)
			log_common(log, t);
		else
			log_differs(log, t);
	} else if (h->position < log->head.position) {
		log_before_head(log, t);
	} else if (h->position >= log_rel_position(log)) {
		log_differs(log, t);
	} else {
		log_source_read(log, t, h->position, WEFT_LOG_HEADER_BYTES, log_compared);
	}
}
