/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Posts to one target: transactions, Reads, and the changes of its words. */

#include <errno.h>

#include "log_base.h"
#include "log_priv.h"
#include "log_step.h"

struct weft_commit
log_commit(const struct weft_log *log, const struct log_target *t, uint32_t word_off,
           uint64_t value)
{
	struct weft_commit c = {.flush_flags = log->flush_flags};

	c.word.stag = t->stag;
	c.word.to = t->to + word_off;
	weft_put_be64(c.word.data, value);
	return c;
}

int
log_post(struct log_target *t, struct weft_commit *c, enum log_wr kind, uint32_t index)
{
	int places = weft_commit_places(c), rc;

	if (places < 0)
		return places;
	c->wr_id = log_wr_id(t, kind, index);
	rc = weft_commit(t->qp, c);
	if (rc != 0)
		return rc;
	t->sq_used += (uint32_t)places;
	return places;
}

int
log_verify(const struct weft_log *log, struct weft_commit_range *r, const struct weft_sge *sg,
           uint32_t nsg, uint8_t *hash)
{
	int n;

	if (!log->verify)
		return 0;
	n = weft_commit_hash(log->hash, log->key_bytes > 0 ? log->key : NULL, log->key_bytes, sg,
	                     nsg, hash, WEFT_HASH_MAX_BYTES);
	if (n < 0)
		return n;
	r->expect = hash;
	r->expect_bytes = (uint32_t)n;
	return 0;
}

/* ---- Words ---- */

void
log_words_begin(struct weft_log *log, struct log_target *t)
{
	t->tail_seed = log_word_seed(log->log_id, t->id, WEFT_LOG_TAIL_OFF, log->epoch);
	t->head_seed = log_word_seed(log->log_id, t->id, WEFT_LOG_HEAD_OFF, log->epoch);
	t->tail_ours = t->head_ours = false;
}

uint64_t
log_tail_word(const struct weft_log *log, const struct log_target *t, uint64_t position)
{
	if (log->g.version == 1)
		return (position & 1) != 0 ? 0 : position;
	return log_place_encode(t->tail_seed, log->epoch, log->g.ring_bytes, position);
}

uint64_t
log_head_word(const struct weft_log *log, const struct log_target *t, uint64_t position)
{
	if (log->g.version == 1)
		return position;
	return log_place_encode(t->head_seed, log->epoch, log->g.ring_bytes, position);
}

/* ---- The step under way ---- */

static void
log_step_posted(struct weft_log *log, struct log_target *t, int places, log_step_fn step)
{
	if (places < 0) {
		log_lost(log, t, places);
		log_later(log);
		return;
	}
	t->step = step;
	t->step_places = (uint32_t)places;
}

void
log_step_commit(struct weft_log *log, struct log_target *t, struct weft_commit *c, log_step_fn step)
{
	log_step_posted(log, t, log_post(t, c, LOG_WR_STEP, 0), step);
}

void
log_step_word(struct weft_log *log, struct log_target *t, uint32_t off, uint64_t value,
              log_step_fn step)
{
	struct weft_commit c = log_commit(log, t, off, value);

	log_step_commit(log, t, &c, step);
}

void
log_step_copy(struct weft_log *log, struct log_target *t, uint64_t position, uint32_t len_bytes,
              uint64_t word, log_step_fn step)
{
	struct weft_commit c = log_commit(log, t, WEFT_LOG_TAIL_OFF, log_tail_word(log, t, word));
	struct weft_sge sg = {.addr = t->buf, .len_bytes = len_bytes};
	struct weft_commit_range r = {
	        .sg_list = &sg, .num_sge = 1, .stag = t->stag, .to = log_ring_to(log, t, position)};
	uint8_t hash[WEFT_HASH_MAX_BYTES];
	int rc = log_verify(log, &r, &sg, 1, hash);

	c.ranges = &r;
	c.num_ranges = 1;
	if (word == 0)
		c.flags |= WEFT_COMMIT_NO_WORD;
	else
		t->tail_ours = true;
	log_step_posted(log, t, rc != 0 ? rc : log_post(t, &c, LOG_WR_STEP, 0), step);
}

int
log_post_read(struct log_target *from, enum log_wr kind, uint32_t index, uint64_t to,
              const struct weft_sge *sink)
{
	struct weft_wr wr = {.opcode = WEFT_WR_READ,
	                     .wr_id = log_wr_id(from, kind, index),
	                     .flags = WEFT_WR_SIGNALED,
	                     .sg_list = sink,
	                     .num_sge = 1,
	                     .rdma = {.stag = from->stag, .to = to}};
	int rc;

	if (!log_sq_has(from, 1))
		return -EAGAIN;
	rc = weft_post_send(from->qp, &wr, 1);
	if (rc != 1)
		return rc;
	from->sq_used++;
	return 0;
}

void
log_step_read(struct weft_log *log, struct log_target *t, uint64_t to, uint32_t len_bytes,
              log_step_fn step)
{
	struct weft_sge sink = {.addr = t->buf, .len_bytes = len_bytes, .lkey = t->lkey};
	int rc = log_post_read(t, LOG_WR_STEP, 0, to, &sink);

	log_step_posted(log, t, rc != 0 ? rc : 1, step);
}

/* ---- Steps that change words ---- */

void
log_step_tail(struct weft_log *log, struct log_target *t, uint64_t position, log_step_fn step)
{
	t->tail_ours = true;
	log_step_word(log, t, WEFT_LOG_TAIL_OFF, log_tail_word(log, t, position), step);
}

void
log_step_head(struct weft_log *log, struct log_target *t, uint64_t position, log_step_fn step)
{
	t->head_ours = true;
	log_step_word(log, t, WEFT_LOG_HEAD_OFF, log_head_word(log, t, position), step);
}

/** The card is written. */
static void
log_card_written(struct weft_log *log, struct log_target *t)
{
	t->card = t->card_next;
	t->words_done(log, t);
}

void
log_step_card(struct weft_log *log, struct log_target *t, const struct log_card *card,
              log_step_fn step)
{
	uint64_t word = log_card_encode(log->log_id, t->id, card);

	if (log->g.version == 1)
		word = card->seated ? card->epoch : 0;
	/* From here on the target may be unseated, so it does not count. A seat counts when the
	 * card is written. */
	if (!card->seated)
		t->card.seated = false;
	t->card_next = *card;
	t->words_done = step;
	log_step_word(log, t, WEFT_LOG_CARD_OFF, word, log_card_written);
}

static void
log_stamp_head(struct weft_log *log, struct log_target *t)
{
	if (t->head_ours)
		t->words_done(log, t);
	else
		log_step_head(log, t, t->stamp_head, t->words_done);
}

/** `open.words` and `join.words`. Version 1 has no stamps. */
void
log_step_stamps(struct weft_log *log, struct log_target *t, uint64_t tail, uint64_t head,
                log_step_fn step)
{
	t->words_done = step;
	t->stamp_head = head;
	if (log->g.version == 1)
		step(log, t);
	else if (t->tail_ours)
		log_stamp_head(log, t);
	else
		log_step_tail(log, t, tail, log_stamp_head);
}
