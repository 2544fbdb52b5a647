/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Reads durable records from a target that has them whole. */

#include <errno.h>

#include "log_priv.h"
#include "log_read.h"
#include "log_step.h"

/** A target for the read: live, holds the record, and was not asked before. */
static struct log_target *
log_read_target(struct weft_log *log, const struct log_read *r)
{
	for (unsigned int i = 0; i < log->ntargets; i++) {
		struct log_target *t = &log->target[i];

		if (t->state == WEFT_LOG_TARGET_LIVE && (r->tried & 1U << i) == 0 &&
		    t->head_acked <= r->at.position && t->acked.position > r->at.position)
			return t;
	}
	return NULL;
}

static int
log_read_post(struct weft_log *log, struct log_read *r)
{
	struct log_target *t = log_read_target(log, r);
	struct weft_sge sink = r->buf;
	uint64_t n;
	int rc;

	if (t == NULL)
		return -EBADMSG;
	n = log_min(log->dur.position, t->acked.position) - r->at.position;
	n = log_min(n, log_left(log->g.ring_bytes, r->at.position));
	sink.len_bytes = (uint32_t)log_min(n, (uint64_t)r->buf.len_bytes);
	rc = log_post_read(t, LOG_WR_READ, (uint32_t)(r - log->read),
	                   log_ring_to(log, t, r->at.position), &sink);
	if (rc != 0)
		return rc;
	r->target = t->index;
	r->len_bytes = sink.len_bytes;
	r->again = false;
	return 0;
}

int
weft_log_read(struct weft_log *log, const struct weft_log_at *at, const struct weft_sge *buf,
              weft_log_read_fn fn, void *arg)
{
	struct log_read *r;
	int rc = at == NULL || buf == NULL || fn == NULL ? -EINVAL : log_call(log, __func__);

	if (rc < 0)
		return rc;
	r = log->read;
	log_entered(log);
	if (log->state != WEFT_LOG_OPENED)
		return log->state == WEFT_LOG_FAILED ? -EPIPE : -ENOTCONN;
	if (at->position == log->dur.position && at->seq == log->dur.seq)
		return -ENODATA;
	if (buf->len_bytes < WEFT_LOG_HEADER_BYTES || at->position < log->head.position ||
	    at->position >= log->dur.position || !log_is_place(log->g.ring_bytes, at->position))
		return -EINVAL;
	while (r < log->read + WEFT_LOG_MAX_READS && r->used)
		r++;
	if (r == log->read + WEFT_LOG_MAX_READS)
		return -EAGAIN;
	*r = (struct log_read){.buf = *buf, .at = *at, .fn = fn, .arg = arg};
	rc = log_read_post(log, r);
	if (rc != 0)
		return rc == -EBADMSG ? -EAGAIN : rc;
	r->used = true;
	log->stats.reads++;
	return 0;
}

static void
log_read_tell(struct weft_log *log, struct log_read *r, int status, uint64_t need)
{
	struct weft_log_chunk c = {.status = status,
	                           .at = r->at,
	                           .need_bytes = need,
	                           .log = log,
	                           .data = r->buf.addr,
	                           .left_bytes = status == 0 ? r->len_bytes : 0};
	weft_log_read_fn fn = r->fn;
	void *arg = r->arg;

	r->used = false;
	fn(arg, &c);
}

void
log_read_done(struct weft_log *log, struct log_target *t, uint32_t index)
{
	struct log_read *r = &log->read[index % WEFT_LOG_MAX_READS];
	struct log_walk w = {.at = r->at};
	int64_t rc;

	if (!r->used || r->target != t->index)
		return;
	rc = log_walk(&log->g, &w, r->buf.addr, r->len_bytes);
	if (rc >= 0) {
		r->again = true;
		r->status = rc > 0 ? 1 : -EMSGSIZE;
		r->need = w.need_bytes;
		log->again = true;
		return;
	}
	log->stats.bad_reads++;
	log_damaged(t, WEFT_LOG_DAMAGE_RECORD, r->at.position);
	r->tried |= 1U << t->index;
	r->again = true;
	log->again = true;
}

void
log_read_lost(struct weft_log *log, struct log_target *t)
{
	for (unsigned int i = 0; i < WEFT_LOG_MAX_READS; i++) {
		/* When it comes back it may have the record: it is asked again. */
		log->read[i].tried &= ~(1U << t->index);
		if (log->read[i].used && log->read[i].target == t->index &&
		    log->read[i].status == 0)
			log->read[i].again = true;
	}
}

void
log_read_run(struct weft_log *log)
{
	for (unsigned int i = 0; i < WEFT_LOG_MAX_READS && !log->dead; i++) {
		struct log_read *r = &log->read[i];
		int rc;

		if (!r->used || !r->again)
			continue;
		if (r->status != 0) {
			log->again = true;
			log_read_tell(log, r, r->status > 0 ? 0 : r->status, r->need);
			continue;
		}
		rc = log_read_post(log, r);
		if (rc == -EBADMSG && log_may_have(log, r->tried, r->at.position))
			continue;
		if (rc != 0 && rc != -EAGAIN) {
			log->again = true;
			log_read_tell(log, r, rc, 0);
		}
	}
}

void
log_read_end(struct weft_log *log, int status)
{
	for (unsigned int i = 0; i < WEFT_LOG_MAX_READS; i++)
		if (log->read[i].used)
			log_read_tell(log, &log->read[i], status, 0);
}

int
weft_log_chunk_next(struct weft_log_chunk *chunk, struct weft_log_record *rec)
{
	const struct weft_log *log;
	struct log_walk w = {0};

	if (chunk == NULL || rec == NULL)
		return 0;
	log = chunk->log;
	w.at = chunk->at;
	while (chunk->left_bytes > 0) {
		struct weft_log_at here = w.at;
		int64_t rc = log_walk(&log->g, &w, chunk->data, chunk->left_bytes);
		uint32_t n;

		if (rc <= 0) {
			chunk->left_bytes = 0;
			return 0;
		}
		n = (uint32_t)log_min((uint64_t)rc, (uint64_t)chunk->left_bytes);
		chunk->data += n;
		chunk->left_bytes -= n;
		chunk->at = w.at;
		if (w.hdr.kind != LOG_RECORD)
			continue;
		*rec = log_record_of(&w, &here);
		return 1;
	}
	return 0;
}
