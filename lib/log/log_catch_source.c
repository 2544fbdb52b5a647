/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Catch-up: reads from a live target what another one misses, and finds out that it is
 * trimmed.
 */

#include <errno.h>

#include "log_base.h"
#include "log_catch_part.h"
#include "log_priv.h"
#include "log_step.h"

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

bool
log_has_source(struct weft_log *log, const struct log_target *t, uint64_t position)
{
	return log_source(log, t, position) != NULL;
}

/** The number of the record at the head is known: begin the part under way again. */
static void
log_trim_found(struct weft_log *log, struct log_target *t, uint64_t seq)
{
	if (t->c.src_pos > log->head.position)
		log->head = (struct weft_log_at){.seq = seq, .position = t->c.src_pos};
	log->again = true;
	/* The target was to get the last record of a log that has continued since: no live target
	 * keeps that record. */
	t->c.todo = t->c.part == LOG_CATCH_COPY && t->c.last ? LOG_CATCH_ANEW : t->c.part;
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
	/* It is not trimmed: it is damaged at each target that has it. */
	if (log_at_last(log, t))
		return false;
	t->c.src_pos = low->head_acked;
	if (low->head_acked == low->acked.position)
		log_trim_found(log, t, low->acked.seq);
	else
		log_source_read(log, t, low->head_acked, WEFT_LOG_HEADER_BYTES, log_got_found);
	return true;
}

/** Whether another target may still bring what no live target has: it is away, or its catch-up
 * does not wait for one that brings what it lacks itself. */
static bool
log_may_bring(struct weft_log *log, const struct log_target *t)
{
	if (log->waits == NULL)
		return false;
	for (unsigned int i = 0; i < log->ntargets; i++) {
		const struct log_target *s = &log->target[i];

		if (s != t && s->state != WEFT_LOG_TARGET_LIVE &&
		    (s->state < WEFT_LOG_TARGET_CATCHING || !s->c.waiting ||
		     log_has_source(log, s, s->c.src_pos)))
			return true;
	}
	return false;
}

void
log_source_post(struct weft_log *log, struct log_target *t)
{
	struct log_target *src = log_source(log, t, t->c.src_pos);
	struct weft_sge sink = {.addr = t->buf, .len_bytes = t->c.src_bytes, .lkey = t->lkey};
	int rc;

	t->c.waiting = false;
	if (src == NULL && log_find_trim(log, t))
		return;
	if (src == NULL && log_may_bring(log, t)) {
		t->c.waiting = true;
		return;
	}
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

void
log_source_read(struct weft_log *log, struct log_target *t, uint64_t position, uint32_t len_bytes,
                log_step_fn got)
{
	t->c.src_pos = position;
	t->c.src_bytes = len_bytes;
	t->c.got = got;
	log_source_post(log, t);
}
