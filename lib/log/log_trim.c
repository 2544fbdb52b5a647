/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The application's trims. Nothing is cut without proof: a place that the window does not
 * know is looked up at a target before the log's head goes there.
 */

#include <errno.h>

#include "log_priv.h"
#include "log_step.h"
#include "log_trim.h"
#include "log_window.h"

/** `trim.log` */
static void
log_trim_now(struct weft_log *log, const struct weft_log_at *keep)
{
	/* The record behind the durable end is not durable. The target that has it may die with
	 * this writer, and the next one then writes another record at that end: so the head does
	 * not pass the filler that may be there. */
	log->head = keep->seq == log->dur.seq ? log->dur : *keep;
	log->stats.trims++;
	log->again = true;
}

/** Whether the slot still has the record with this number, which may be released. */
static bool
log_trim_is_known(const struct weft_log *log, uint64_t seq)
{
	if (seq < log->rel_seq && seq + log->max_appends < log->end.seq)
		return seq == log->dur.seq;
	return seq == log->dur.seq || log_slot(log, seq)->at.seq == seq;
}

static bool
log_trim_fits(const struct weft_log *log, const struct weft_log_at *at)
{
	const struct log_slot *s = log_slot(log, at->seq);

	/* A position in front of the record's filler matches, too. */
	if (at->seq < log->end.seq && s->at.seq == at->seq)
		return at->position == s->at.position ||
		       at->position == s->at.position - s->gap_bytes;
	return at->position == log->dur.position;
}

/** Whether a record of this number can be there. */
static bool
log_trim_may_be(const struct weft_log *log, const struct weft_log_at *at)
{
	return log_is_place(log->g.ring_bytes, at->position) && at->position < log->dur.position &&
	       at->position > log->head.position &&
	       (at->position - log->head.position) / WEFT_LOG_HEADER_BYTES >=
	               at->seq - log->head.seq;
}

int
log_trim(struct weft_log *log, const struct weft_log_at *keep)
{
	struct log_proof *p = &log->proof;

	if (keep->seq <= log->head.seq)
		return 0;
	if (keep->seq > log->dur.seq)
		return -EINVAL;
	if (log_trim_is_known(log, keep->seq)) {
		if (!log_trim_fits(log, keep))
			return -EINVAL;
		log_trim_now(log, keep);
		return 0;
	}
	if (!log_trim_may_be(log, keep))
		return -EINVAL;
	if (p->keep.seq == 0) {
		*p = (struct log_proof){.keep = *keep, .due = true};
		log_trim_run(log);
	} else if (keep->seq > p->next.seq) {
		p->next = *keep;
	}
	return 0;
}

/* ---- The proof ---- */

/** The place is proven, or it is none: go on with the next one. */
static void
log_trim_proven(struct weft_log *log, bool good)
{
	struct log_proof *p = &log->proof;

	if (!good)
		log->stats.bad_trims++;
	else if (p->keep.seq > log->head.seq)
		log_trim_now(log, &p->keep);
	*p = (struct log_proof){.keep = p->next, .due = p->next.seq != 0};
	log->again = true;
}

void
log_trim_run(struct weft_log *log)
{
	struct log_proof *p = &log->proof;
	uint64_t at = p->keep.position;

	if (!p->due)
		return;
	if (p->keep.seq <= log->head.seq) {
		log_trim_proven(log, true);
		return;
	}
	if (p->lap)
		at = log_lap_end(log->g.ring_bytes, at);
	for (unsigned int i = 0; i < log->ntargets; i++) {
		struct log_target *t = &log->target[i];
		struct weft_sge sink = {
		        .addr = t->buf, .len_bytes = WEFT_LOG_HEADER_BYTES, .lkey = t->lkey};
		int rc;

		if (t->state != WEFT_LOG_TARGET_LIVE || (p->tried & 1U << i) != 0 ||
		    t->head_acked > at || t->acked.position <= at)
			continue;
		rc = log_post_read(t, LOG_WR_PROOF, 0, log_ring_to(log, t, at), &sink);
		/* Without room there, the next completion makes some. */
		p->due = rc != 0;
		p->target = i;
		if (rc != 0 && rc != -EAGAIN) {
			log_lost(log, t, rc);
			log_later(log);
		}
		return;
	}
	if (!log_may_have(log, p->tried, at))
		log_trim_proven(log, false);
}

/**
 * The header at the place has the number. Prove that no filler covers it (log_lap_end()), or that a
 * filler which begins there is in front of the record of that number.
 */
static void
log_trim_place(struct weft_log *log, const struct log_hdr *h)
{
	struct log_proof *p = &log->proof;
	uint64_t at = p->keep.position, lap = log_lap_end(log->g.ring_bytes, at);

	p->filler = h->kind == LOG_FILLER;
	if (!log_may_be_filler(log->g.ring_bytes, at, log->end.position)) {
		log_trim_proven(log, !p->filler);
	} else if (lap >= log_rel_position(log)) {
		/* The window knows each place in front of a filler. */
		log_trim_proven(log, !p->filler && log_window_prev(log, lap) >= at);
	} else {
		p->lap = true;
		p->tried = 0;
	}
}

/** h: the header at the next multiple of the ring's length. */
static void
log_trim_lap(struct weft_log *log, const struct log_hdr *h)
{
	struct log_proof *p = &log->proof;

	if (!p->filler) {
		log_trim_proven(log, h->prev >= p->keep.position);
		return;
	}
	/* The record of this number is durable, so the place behind the filler is one as well, and
	 * it does not matter whose filler begins in front. */
	p->keep.position = h->position;
	log_trim_proven(log, h->seq == p->keep.seq);
}

void
log_trim_read(struct weft_log *log, struct log_target *t)
{
	struct log_proof *p = &log->proof;
	uint64_t at = p->keep.position;
	struct log_hdr h;

	if (p->keep.seq == 0 || p->due || p->target != t->index)
		return;
	p->due = true;
	p->tried |= 1U << t->index;
	if (p->lap) {
		if (log_hdr_decode(&log->g, log_lap_end(log->g.ring_bytes, at), t->buf, &h) == 0)
			log_trim_lap(log, &h);
	} else if (log_hdr_decode(&log->g, at, t->buf, &h) == 0 && h.seq == p->keep.seq) {
		log_trim_place(log, &h);
	}
}

void
log_trim_lost(struct weft_log *log, const struct log_target *t)
{
	/* When it comes back it may have the place: it is asked again. */
	log->proof.tried &= ~(1U << t->index);
	if (log->proof.keep.seq != 0 && log->proof.target == t->index)
		log->proof.due = true;
}
