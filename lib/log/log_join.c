/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Examination of a target that joins: its identity and its records. */

#include <errno.h>
#include <string.h>

#include "log_open.h"
#include "log_priv.h"
#include "log_step.h"

static void log_look(struct weft_log *log, struct log_target *t);

static void
log_joined(struct weft_log *log, struct log_target *t)
{
	t->state = WEFT_LOG_TARGET_JOINED;
	t->ev_joined = true;
	log_open_joined(log, t);
}

/** Take the target's state from its last record. */
static void
log_look_last(struct weft_log *log, struct log_target *t, const struct log_hdr *h)
{
	memcpy(t->tail_raw, t->buf, sizeof(t->tail_raw));
	t->tail = h->position;
	t->tail_epoch = h->epoch;
	t->tail_lives = h->lives;
	t->knows = log_lives_sum(h->lives, log->ntargets);
	t->end.seq = h->seq + 1;
	t->end.position = log_hdr_end(&log->g, h);
}

/** The target has no record, so its head has no meaning. */
static void
log_look_nothing(struct weft_log *log, struct log_target *t)
{
	t->head = t->anew ? 0 : log_first(log->g.ring_bytes);
	t->end = (struct weft_log_at){.seq = 0, .position = t->head};
	log_joined(log, t);
}

/** The number of the record at the head. If that is damaged, the number stays unknown. */
static void
log_look_number(struct weft_log *log, struct log_target *t)
{
	struct log_hdr h;

	if (log_hdr_decode(&log->g, t->head, t->buf, &h) == 0 && h.seq < t->end.seq)
		t->head_seq = h.seq;
	log_joined(log, t);
}

/** The words are good. An open compares the places of heads by the numbers of the records there. */
static void
log_look_whole(struct weft_log *log, struct log_target *t)
{
	if (t->head == t->end.position)
		t->head_seq = t->end.seq;
	if (t->head_seq != 0 || log->state != WEFT_LOG_NEW)
		log_joined(log, t);
	else
		log_step_read(log, t, log_ring_to(log, t, t->head), WEFT_LOG_HEADER_BYTES,
		              log_look_number);
}

/**
 * T1 to T6: the target's content is invalid. In an open log it is begun anew, and does not count
 * before it has everything (`join.unseat`). Before the open, nothing tells what it should have.
 */
static void
log_look_damaged(struct weft_log *log, struct log_target *t, enum weft_log_damage what,
                 uint64_t position)
{
	log_damaged(t, what, position);
	if (!log->begun || log->state == WEFT_LOG_FAILED) {
		log_lost(log, t, -EBADMSG);
		return;
	}
	t->broken = true;
	t->tail = t->head = 0;
	log_joined(log, t);
}

/** The word's check is wrong, possibly because a writer of an earlier epoch wrote it (T5). */
static void
log_look_word_bad(struct weft_log *log, struct log_target *t, uint32_t off, uint64_t unfenced)
{
	enum weft_log_damage what =
	        off == WEFT_LOG_TAIL_OFF ? WEFT_LOG_DAMAGE_TAIL_WORD : WEFT_LOG_DAMAGE_HEAD_WORD;

	log_look_damaged(log, t, unfenced != 0 ? WEFT_LOG_DAMAGE_UNFENCED : what, off);
	t->damage_epoch = unfenced;
}

/** Whether the tail word is valid for this position; unfenced as log_place_check(). */
static bool
log_look_check(const struct weft_log *log, const struct log_target *t, uint64_t position,
               uint64_t *unfenced)
{
	return log_place_check(log->log_id, t->id, WEFT_LOG_TAIL_OFF, t->card.epoch, t->words[1],
	                       position, unfenced) == 0;
}

/* ---- Version 2 ---- */

static void
log_look_head(struct weft_log *log, struct log_target *t)
{
	uint64_t unfenced;

	if (log_head_decode(log->log_id, t->id, log->g.ring_bytes, t->card.epoch, t->words[2],
	                    t->end.position, &t->head, &unfenced) == 0)
		log_look_whole(log, t);
	else
		log_look_word_bad(log, t, WEFT_LOG_HEAD_OFF, unfenced);
}

/** `join.tail`: the header there tells which lap the word is of. */
static void
log_look_tail_2(struct weft_log *log, struct log_target *t)
{
	uint64_t off, unfenced;
	struct log_hdr h;

	(void)log_place_look(t->words[1], log->g.ring_bytes, &off);
	if (log_hdr_decode_at(&log->g, off, t->buf, &h) != 0 || h.kind == LOG_FILLER) {
		log_look_damaged(log, t, WEFT_LOG_DAMAGE_TAIL, off);
		return;
	}
	if (!log_look_check(log, t, h.position, &unfenced)) {
		log_look_word_bad(log, t, WEFT_LOG_TAIL_OFF, unfenced);
		return;
	}
	if (log_is_seated(t) && log_life(h.lives, log->ntargets, t->card.place) < t->card.life) {
		log_look_damaged(log, t, WEFT_LOG_DAMAGE_LIFE, h.position);
		return;
	}
	log_look_last(log, t, &h);
	log_look_head(log, t);
}

static void
log_look_words_2(struct weft_log *log, struct log_target *t)
{
	uint64_t off, unfenced, none = LOG_TAIL_NONE;

	if (log_card_decode(log->log_id, t->id, log->ntargets, t->words[0], &t->card) != 0) {
		log_look_damaged(log, t, WEFT_LOG_DAMAGE_CARD, WEFT_LOG_CARD_OFF);
		return;
	}
	if (t->card.life == 0) {
		/* The target never counted, and the writer that gives it a place begins it anew.
		 * Its content only shows that it is not new. */
		t->anew = t->words[1] != 0;
		log_look_nothing(log, t);
		return;
	}
	switch (log_place_look(t->words[1], log->g.ring_bytes, &off)) {
	case LOG_PLACE_AT:
		log_step_read(log, t, t->to + WEFT_LOG_RING_OFF + off, WEFT_LOG_HEADER_BYTES,
		              log_look_tail_2);
		return;
	case LOG_PLACE_UNWRITTEN:
		/* A target that was offered a place has no stamps yet. */
		if (log_is_seated(t))
			break;
		log_look_nothing(log, t);
		return;
	case LOG_PLACE_ANEW:
		t->knows = (uint32_t)off;
		none = log_tail_anew(t->knows);
		/* fall through */
	case LOG_PLACE_NONE:
		if (!log_look_check(log, t, none, &unfenced)) {
			log_look_word_bad(log, t, WEFT_LOG_TAIL_OFF, unfenced);
			return;
		}
		t->anew = none != LOG_TAIL_NONE;
		log_look_nothing(log, t);
		return;
	case LOG_PLACE_NOWHERE:
		break;
	}
	log_look_word_bad(log, t, WEFT_LOG_TAIL_OFF, 0);
}

/* ---- Version 1 ---- */

/** A head may be behind the filler that follows the last record, as earlier writers left it. */
static void
log_look_filler(struct weft_log *log, struct log_target *t)
{
	struct log_hdr h;

	if (log_hdr_decode(&log->g, t->end.position, t->buf, &h) != 0 || h.kind != LOG_FILLER ||
	    h.seq != t->end.seq) {
		log_look_damaged(log, t, WEFT_LOG_DAMAGE_WORDS, t->head);
		return;
	}
	t->end.position = t->head;
	log_look_whole(log, t);
}

/** `join.tail` */
static void
log_look_tail_1(struct weft_log *log, struct log_target *t)
{
	uint64_t ring = log->g.ring_bytes;
	struct log_hdr h;

	if (log_hdr_decode(&log->g, t->tail, t->buf, &h) != 0 || h.kind == LOG_FILLER) {
		log_look_damaged(log, t, WEFT_LOG_DAMAGE_TAIL, t->tail);
		return;
	}
	log_look_last(log, t, &h);
	if (t->head > t->end.position && log_same_place(ring, t->end.position, t->head))
		log_step_read(log, t, log_ring_to(log, t, t->end.position), WEFT_LOG_HEADER_BYTES,
		              log_look_filler);
	else if (t->head > t->end.position || t->end.position - t->head > ring)
		log_look_damaged(log, t, WEFT_LOG_DAMAGE_WORDS, t->head);
	else
		log_look_whole(log, t);
}

static void
log_look_words_1(struct weft_log *log, struct log_target *t)
{
	uint64_t ring = log->g.ring_bytes;

	t->card = (struct log_card){.epoch = t->words[0], .seated = t->words[0] != 0};
	t->tail = t->words[1];
	t->head = t->words[2] != 0 ? t->words[2] : log_first(ring);
	t->end = (struct weft_log_at){.seq = 0, .position = t->head};
	if (!log_is_place(ring, t->head) || (t->tail != 0 && !log_is_place(ring, t->tail))) {
		log_look_damaged(log, t, WEFT_LOG_DAMAGE_WORDS,
		                 log_is_place(ring, t->head) ? t->tail : t->head);
	} else if (t->tail == 0) {
		t->anew = t->head != log_first(ring);
		log_joined(log, t);
	} else {
		log_step_read(log, t, log_ring_to(log, t, t->tail), WEFT_LOG_HEADER_BYTES,
		              log_look_tail_1);
	}
}

/* ---- Either ---- */

/** Examine the words, which were read before the grant was recorded. */
static void
log_look_on(struct weft_log *log, struct log_target *t)
{
	if (log->g.version == 1)
		log_look_words_1(log, t);
	else
		log_look_words_2(log, t);
}

/** Check that the target is one of this log's, and not joined yet. */
static int
log_look_super(struct weft_log *log, struct log_target *t, const struct weft_log_super *s)
{
	if (s->targets != log->ntargets || s->quorum != log->quorum)
		return -EINVAL;
	if (log->have_geom && (memcmp(log->log_id, s->log_id, sizeof(log->log_id)) != 0 ||
	                       log->g.ring_bytes != s->ring_bytes || log->g.version != s->version))
		return -EINVAL;
	for (unsigned int i = 0; i < log->ntargets; i++) {
		const struct log_target *o = &log->target[i];

		if (o != t && o->state >= WEFT_LOG_TARGET_LOOKING &&
		    memcmp(o->id, s->target_id, sizeof(o->id)) == 0)
			return -EEXIST;
	}
	memcpy(t->id, s->target_id, sizeof(t->id));
	if (!log->have_geom) {
		log->have_geom = true;
		memcpy(log->log_id, s->log_id, sizeof(log->log_id));
		log_geom_of(s, &log->g);
	}
	return 0;
}

static void
log_formatted(struct weft_log *log, struct log_target *t)
{
	t->has_format = false;
	log_look(log, t);
}

/**
 * `format.body`: all but the magic; `format.magic` when that is durable. So a magic shows a
 * complete format. A format that ended before is begun again.
 */
static void
log_format_target(struct weft_log *log, struct log_target *t)
{
	struct weft_commit c = {.flush_flags = log->flush_flags};
	struct weft_sge sg = {.addr = t->buf + 8, .len_bytes = WEFT_LOG_RING_OFF - 8};
	struct weft_commit_range r = {
	        .sg_list = &sg, .num_sge = 1, .stag = t->stag, .to = t->to + 8};
	int rc;

	if (t->format.version == 0 && log->have_geom)
		t->format.version = log->g.version;
	rc = weft_log_format(t->buf, t->len_bytes, &t->format);
	if (rc != 0) {
		log_lost(log, t, rc);
		return;
	}
	c.ranges = &r;
	c.num_ranges = 1;
	c.word.stag = t->stag;
	c.word.to = t->to;
	memcpy(c.word.data, t->buf, 8);
	log_step_commit(log, t, &c, log_formatted);
}

/**
 * `join.grant`: this STag is already in the grant word. So the host gave one grant twice, and data
 * of the other connection may still be under way. Then no word is trusted.
 */
static void
log_look_grant(struct weft_log *log, struct log_target *t)
{
	uint64_t ours = log_grant_word(log->log_id, t->id, t->stag);

	if (weft_get_be64(t->buf + WEFT_LOG_GRANT_OFF) == ours)
		log_lost(log, t, -EALREADY);
	else
		log_step_word(log, t, WEFT_LOG_GRANT_OFF, ours, log_look_on);
}

/** T1: behind a magic that was never written the words are zero. A word there means that the
 * magic, and perhaps more, is lost. */
static bool
log_look_has_words(const struct log_target *t)
{
	for (unsigned int off = WEFT_LOG_CARD_OFF; off < WEFT_LOG_RING_OFF; off++)
		if (t->buf[off] != 0)
			return true;
	return false;
}

static void
log_look_words(struct weft_log *log, struct log_target *t)
{
	struct weft_log_super s = {.size = sizeof(s)};
	int rc = weft_log_super_decode(t->buf, t->len_bytes, &s);

	if (rc == -ENODATA && t->has_format && log_look_has_words(t))
		rc = -EBADMSG;
	if (rc == -ENODATA && t->has_format) {
		log_format_target(log, t);
		return;
	}
	if (rc == -EBADMSG)
		log_damaged(t, WEFT_LOG_DAMAGE_SUPER, 0);
	if (rc == 0)
		rc = log_look_super(log, t, &s);
	if (rc != 0) {
		log_lost(log, t, rc);
		return;
	}
	for (unsigned int i = 0; i < LOG_DIM(t->words); i++)
		t->words[i] = weft_get_be64(t->buf + WEFT_LOG_CARD_OFF + i * LOG_WORD_STRIDE);
	t->card = (struct log_card){0};
	t->broken = t->anew = false;
	t->tail = t->head = t->head_seq = t->tail_epoch = t->tail_lives = 0;
	t->knows = log->ntargets;
	t->role = LOG_MEMBER;
	log_look_grant(log, t);
}

/**
 * The target's medium may lack what its memory has (draft-talpey-rdma-commit-02 s2.3.2): the
 * previous writer may have died between its Atomic Write and the Flush, of a word or of the magic.
 * So everything that is read is flushed first (`join.flush`, `join.look`), in this order, and later
 * steps build on durable data.
 */
static void
log_look(struct weft_log *log, struct log_target *t)
{
	const uint64_t from = LOG_SABOTAGED(log, WORDS_ONLY) ? WEFT_LOG_CARD_OFF : 0;
	struct weft_wr flush = {.opcode = WEFT_WR_FLUSH,
	                        .wr_id = log_wr_id(t, LOG_WR_NONE, 0),
	                        .flags = WEFT_WR_SIGNALED,
	                        .flush = {.stag = t->stag,
	                                  .to = t->to + from,
	                                  .len_bytes = WEFT_LOG_RING_OFF - from,
	                                  .flags = log->flush_flags}};

	if (!LOG_SABOTAGED(log, NO_STEP0) && weft_post_send(t->qp, &flush, 1) != 1) {
		log_lost(log, t, -ENOTCONN);
		log_later(log);
		return;
	}
	log_step_read(log, t, t->to, WEFT_LOG_RING_OFF, log_look_words);
}

static struct log_target *
log_free_place(struct weft_log *log, int *rc)
{
	struct log_target *t = NULL;

	*rc = -ENOSPC;
	for (unsigned int i = 0; i < log->ntargets && t == NULL; i++) {
		if (log->target[i].state != WEFT_LOG_TARGET_NONE)
			continue;
		*rc = -EAGAIN;
		/* Events of the previous target are still to be reported, or still to come. */
		if (!log->target[i].ev_lost && !log->target[i].ev_damaged &&
		    !log->target[i].src_busy)
			t = &log->target[i];
	}
	return t;
}

int
weft_log_join(struct weft_log *log, const struct weft_log_target *attr)
{
	struct weft_log_target copy, *target = &copy;
	struct weft_qp_info qi;
	struct log_target *t;
	int rc = log_call(log, __func__);

	if (rc == 0)
		rc = weft_attr_copy(&copy, sizeof(copy), attr);
	if (rc < 0)
		return rc;
	log_entered(log);
	if (weft_qp_check(target->qp, __func__) < 0 || target->len_bytes < WEFT_LOG_MIN_BYTES ||
	    weft_qp_worker(target->qp) != log->worker)
		return -EINVAL;
	if (log->state == WEFT_LOG_FAILED)
		return -EPIPE;
	weft_qp_query(target->qp, &qi);
	if (qi.state != WEFT_QP_RTS)
		return -ENOTCONN;
	if (qi.send_cq != log->cq || qi.pd != log->pd ||
	    qi.sq_depth < 3 * LOG_TRANSACTION_PLACES + WEFT_LOG_MAX_READS ||
	    qi.max_send_sge < LOG_SEND_SGE)
		return -EINVAL;
	if (qi.sq_used != 0)
		return -EAGAIN;
	t = log_free_place(log, &rc);
	if (t == NULL)
		return rc;
	t->state = WEFT_LOG_TARGET_LOOKING;
	t->gen++;
	t->qp = target->qp;
	t->stag = target->stag;
	t->to = target->to;
	t->len_bytes = target->len_bytes;
	t->user = target->user;
	t->max_send_sge = LOG_SEND_SGE;
	t->sq_depth = qi.sq_depth;
	t->sq_used = 0;
	t->has_format = target->format != NULL;
	if (t->has_format)
		t->format = *target->format;
	memset(t->id, 0, sizeof(t->id));
	t->counts = t->claimed = t->pinned = false;
	t->acked = (struct weft_log_at){0};
	t->acked_pos = t->head_acked = t->head_sent = t->lag_seq = 0;
	t->transaction_first = t->ntransactions = 0;
	log_look(log, t);
	return (int)t->index;
}
