/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The application's appends and trims. */

#include <errno.h>

#include "log_base.h"
#include "log_priv.h"
#include "log_run.h"
#include "log_window.h"

int
weft_log_append(struct weft_log *log, const struct weft_log_append *append, struct weft_log_at *at)
{
	int rc = append == NULL ? -EINVAL : log_call(log, __func__);

	if (rc < 0)
		return rc;
	log_entered(log);
	if (log->state != WEFT_LOG_OPENED)
		return log->state == WEFT_LOG_FAILED ? -EPIPE : -ENOTCONN;
	rc = log_window_append(log, LOG_RECORD, append, at);
	if (rc != 0) {
		if (log_lagging(log))
			log_later(log);
		return rc;
	}
	log->stats.appends++;
	log->stats.append_bytes += log_slot(log, log->end.seq - 1)->len_bytes;
	log_kick(log);
	return 0;
}

/* ---- Trim ---- */

/** Whether the position and number match, as far as the window knows. */
static bool
log_is_at(const struct weft_log *log, const struct weft_log_at *at)
{
	if (at->seq >= log->rel_seq && at->seq < log->end.seq) {
		const struct log_slot *s = log_slot(log, at->seq);

		/* A position in front of the record's filler matches, too. */
		return at->position == s->at.position ||
		       at->position == s->at.position - s->gap_bytes;
	}
	if (at->seq == log->dur.seq)
		return at->position == log->dur.position;
	return log_is_place(log->g.ring_bytes, at->position) && at->position < log->dur.position &&
	       at->position > log->head.position &&
	       (at->position - log->head.position) / WEFT_LOG_HEADER_BYTES >=
	               at->seq - log->head.seq;
}

/** `trim.log` */
int
weft_log_trim(struct weft_log *log, const struct weft_log_at *keep)
{
	int rc = keep == NULL ? -EINVAL : log_call(log, __func__);

	if (rc < 0)
		return rc;
	log_entered(log);
	if (log->state != WEFT_LOG_OPENED)
		return log->state == WEFT_LOG_FAILED ? -EPIPE : -ENOTCONN;
	if (keep->seq <= log->head.seq)
		return 0;
	if (keep->seq > log->dur.seq || !log_is_at(log, keep))
		return -EINVAL;
	/* The record behind the durable end is not durable. The target that has it may die with
	 * this writer, and the next one then writes another record at that end: so the head does
	 * not pass the filler that may be there. */
	log->head = keep->seq == log->dur.seq ? log->dur : *keep;
	log->stats.trims++;
	log_kick(log);
	return 0;
}
