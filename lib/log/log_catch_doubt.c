/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Catch-up: a record of the target of which no source has a header. Either the log has no
 * record at this position, or the record is damaged at each source, and the target may have the
 * last whole copy. It is not cut off then.
 *
 * The walk back goes on without a change of the target. If it comes to a record that target and log
 * share, or to the log's head, the log has a record right behind that. So the header is damaged.
 * The target's record is the log's if the log's next record names it, and is of the same epoch: an
 * epoch has one writer. If that cannot be shown, the target is lost, and keeps what it has.
 */

#include <errno.h>
#include <string.h>

#include "log_base.h"
#include "log_catch_part.h"
#include "log_priv.h"
#include "log_step.h"
#include "log_window.h"

void
log_name_sources(struct weft_log *log, uint32_t sources, uint64_t position)
{
	for (unsigned int i = 0; i < log->ntargets; i++)
		if ((sources & 1U << i) != 0)
			log_damaged(&log->target[i], WEFT_LOG_DAMAGE_RECORD, position);
	if (sources != 0)
		log_later(log);
}

void
log_doubt_begin(struct log_target *t)
{
	t->c.doubt = t->c.hdr;
	memcpy(t->c.doubt_raw, t->c.raw, sizeof(t->c.doubt_raw));
	t->c.doubt_bad = t->c.bad;
	t->c.bad = 0;
}

bool
log_doubt_at_head(const struct weft_log *log, const struct log_target *t)
{
	const struct log_hdr *d = &t->c.doubt;

	return d->position != 0 && d->seq == log->head.seq &&
	       log_same_place(log->g.ring_bytes, log->head.position, d->position);
}

static void
log_doubt_stays(struct weft_log *log, struct log_target *t)
{
	log_lost(log, t, -EBADMSG);
	log_later(log);
}

static void
log_doubt_ends(struct log_target *t)
{
	t->c.hdr = t->c.doubt;
	memcpy(t->c.raw, t->c.doubt_raw, sizeof(t->c.raw));
	t->c.doubt.position = 0;
	t->c.todo = LOG_CATCH_COMMON;
}

/** The record at the next multiple of the ring's length shows whether a filler covers the log's
 * next record. */
static void
log_got_doubt_lap(struct weft_log *log, struct log_target *t)
{
	const uint64_t next = log_hdr_end(&log->g, &t->c.doubt);
	struct log_hdr h;

	if (log_hdr_decode(&log->g, t->c.src_pos, t->buf, &h) == 0 && h.prev >= next)
		log_doubt_ends(t);
	else
		log_doubt_stays(log, t);
}

static void
log_got_doubt(struct weft_log *log, struct log_target *t)
{
	const struct log_hdr *d = &t->c.doubt;
	const uint64_t next = t->c.src_pos, lap = log_lap_end(log->g.ring_bytes, next);
	struct log_hdr h;

	if (log_hdr_decode(&log->g, next, t->buf, &h) != 0 || h.kind == LOG_FILLER ||
	    h.seq != d->seq + 1 || h.prev != d->position || h.epoch != d->epoch)
		log_doubt_stays(log, t);
	else if (!log_may_be_filler(log->g.ring_bytes, next, log->end.position))
		log_doubt_ends(t);
	else if (lap < log_rel_position(log))
		log_source_read(log, t, lap, WEFT_LOG_HEADER_BYTES, log_got_doubt_lap);
	else if (log_window_prev(log, lap) >= next)
		log_doubt_ends(t);
	else
		log_doubt_stays(log, t);
}

void
log_doubt(struct weft_log *log, struct log_target *t)
{
	const uint64_t next = log_hdr_end(&log->g, &t->c.doubt);

	log_name_sources(log, t->c.doubt_bad, t->c.doubt.position);
	t->c.doubt_bad = 0;
	/* The next record is in front of the window, whose headers are not compared this way. */
	if (next < log_rel_position(log))
		log_source_read(log, t, next, WEFT_LOG_HEADER_BYTES, log_got_doubt);
	else
		log_doubt_stays(log, t);
}
