/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Posts transactions and steps to targets, and handles their completions. */

#include <errno.h>

#include "log_catch.h"
#include "log_member.h"
#include "log_priv.h"
#include "log_read.h"
#include "log_send.h"

static const uint8_t log_pad[8];

static bool
log_sq_has(const struct log_target *t, uint32_t places)
{
	return t->sq_depth - t->sq_used >= places;
}

static struct weft_commit
log_commit(const struct weft_log *log, const struct log_target *t, uint32_t word_off,
           uint64_t value)
{
	struct weft_commit c = {.flush_flags = log->flush_flags};

	c.word.stag = t->stag;
	c.word.to = t->to + word_off;
	weft_put_be64(c.word.data, value);
	return c;
}

/** Post a transaction. Returns its send queue entries, or -errno of the QP. */
static int
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

/* ---- Units ---- */

struct log_build {
	struct weft_sge sg[LOG_UNIT_PIECES];
	uint32_t nsg;
	uint64_t seq; /**< end of the last record taken */
	uint64_t bytes;
	uint8_t hash[WEFT_HASH_MAX_BYTES], filler_hash[WEFT_HASH_MAX_BYTES];
};

static void
log_take(struct log_build *b, const struct log_slot *s)
{
	b->sg[b->nsg++] = (struct weft_sge){.addr = (void *)(uintptr_t)s->hdr,
	                                    .len_bytes = WEFT_LOG_HEADER_BYTES};
	for (uint32_t i = 0; i < s->num_sge; i++)
		b->sg[b->nsg++] = s->sge[i];
	if (s->pad_bytes > 0)
		b->sg[b->nsg++] = (struct weft_sge){.addr = (void *)(uintptr_t)log_pad,
		                                    .len_bytes = s->pad_bytes};
	b->bytes += s->bytes;
	b->seq = s->at.seq + 1;
}

/** Gather the records of one transaction: they are adjacent, and a filler begins a transaction. */
static void
log_gather(const struct weft_log *log, const struct log_target *t, struct log_build *b)
{
	uint64_t ring = log->g.ring_bytes;

	b->nsg = 0;
	b->bytes = 0;
	for (b->seq = t->next_seq; b->seq < log->end.seq;) {
		const struct log_slot *s = log_slot(log, b->seq);
		uint64_t behind = s->at.position + s->bytes;

		if (b->nsg + s->num_sge + 2 > LOG_UNIT_PIECES ||
		    s->next.position - log_target_floor(t) > ring ||
		    (b->bytes > 0 && (s->gap_bytes > 0 || b->bytes + s->bytes > log->unit_bytes)))
			return;
		log_take(b, s);
		/* Behind a rest that is not used, the next record is at the begin of the ring. */
		if (s->next.position != behind || behind % ring == 0)
			return;
	}
}

static int
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

/** Write, ahead of the transaction, the pieces beyond what a range may have. */
static int
log_write_rest(struct log_target *t, const struct log_build *b, uint64_t to, uint64_t wr_id)
{
	struct weft_wr wr[LOG_UNIT_WRITES];
	uint32_t n = 0, i = t->max_send_sge;

	for (uint32_t k = 0; k < log_min(i, b->nsg); k++)
		to += b->sg[k].len_bytes;
	while (i < b->nsg) {
		uint32_t num = log_min(b->nsg - i, t->max_send_sge);

		wr[n++] = (struct weft_wr){.opcode = WEFT_WR_WRITE,
		                           .wr_id = wr_id,
		                           .sg_list = &b->sg[i],
		                           .num_sge = num,
		                           .rdma = {.stag = t->stag, .to = to}};
		for (uint32_t k = 0; k < num; k++)
			to += b->sg[i + k].len_bytes;
		i += num;
	}
	if (n > 0 && weft_post_send(t->qp, wr, n) != (int)n)
		return -ENOTCONN;
	t->sq_used += n;
	return (int)n;
}

#ifdef WEFT_TEST_HOOKS
/** A deliberate fault: the tail first. */
static int
log_post_sabotaged(struct log_target *t, struct weft_commit *c, uint32_t index)
{
	struct weft_commit word = *c;
	int a, b;

	word.num_ranges = 0;
	a = log_post(t, &word, LOG_WR_NONE, 0);
	c->flags |= WEFT_COMMIT_NO_WORD;
	b = log_post(t, c, LOG_WR_UNIT, index);
	return a < 0 ? a : b < 0 ? b : a + b;
}
#endif

/** `append.write`, `append.flush`, `append.tail`, `append.flush-tail`: posted together; the
 * target keeps the order. */
static int
log_post_unit(struct weft_log *log, struct log_target *t, struct log_build *b)
{
	const struct log_slot *first = log_slot(log, t->next_seq),
	                      *last = log_slot(log, b->seq - 1);
	uint32_t i = (t->unit_first + t->nunits) % log->max_units;
	struct weft_sge filler = {.addr = (void *)(uintptr_t)first->filler,
	                          .len_bytes = WEFT_LOG_HEADER_BYTES};
	struct weft_commit c =
	        log_commit(log, t, WEFT_LOG_TAIL_OFF, log_tail_word(log, t, last->at.position));
	struct weft_commit_range r[2];
	uint64_t to = log_ring_to(log, t, first->at.position);
	unsigned int n = 0;
	int rest, places, rc = 0;

	/* In front of the log of a target that was begun anew, the octets belong to a later lap. */
	if (first->gap_bytes > 0 && first->at.position - first->gap_bytes >= log_target_floor(t)) {
		uint64_t at = first->at.position - first->gap_bytes;

		r[n] = (struct weft_commit_range){.sg_list = &filler,
		                                  .num_sge = 1,
		                                  .stag = t->stag,
		                                  .to = log_ring_to(log, t, at)};
		rc = log_verify(log, &r[n++], &filler, 1, b->filler_hash);
	}
	r[n] = (struct weft_commit_range){.sg_list = b->sg,
	                                  .num_sge = log_min(b->nsg, t->max_send_sge),
	                                  .stag = t->stag,
	                                  .len_bytes = (uint32_t)b->bytes,
	                                  .to = to};
	if (rc == 0)
		rc = log_verify(log, &r[n++], b->sg, b->nsg, b->hash);
	if (rc != 0)
		return rc;
	c.ranges = r;
	c.num_ranges = n;
	if (LOG_SABOTAGED(log, NO_FLUSH))
		c.flags |= WEFT_COMMIT_NO_FLUSH;
	rest = log_write_rest(t, b, to, log_wr_id(t, LOG_WR_UNIT, i));
	if (rest < 0)
		return rest;
#ifdef WEFT_TEST_HOOKS
	if (LOG_SABOTAGED(log, POINTER_FIRST))
		places = log_post_sabotaged(t, &c, i);
	else
#endif
		places = log_post(t, &c, LOG_WR_UNIT, i);
	if (places < 0)
		return places;
	t->units[i] = (struct log_unit){.end = last->next,
	                                .last_pos = last->at.position,
	                                .places = (uint32_t)(rest + places)};
	t->nunits++;
	log->stats.units++;
	log->stats.unit_records += b->seq - t->next_seq;
	t->next_seq = b->seq;
	return 0;
}

static void
log_kick_live(struct weft_log *log, struct log_target *t)
{
	struct log_build b;
	bool full = false; /* the next transaction has no room there */
	int rc = 0;

	while (rc == 0 && t->nunits < log->max_units && t->next_seq < log->end.seq &&
	       log_sq_has(t, 2 * LOG_UNIT_PLACES)) {
		log_gather(log, t, &b);
		full = b.bytes == 0;
		if (full)
			break;
		rc = log_post_unit(log, t, &b);
	}
	/* `trim.head`. A target without room does not wait for the record at the head, which
	 * waits for room itself. */
	if (rc == 0 && t->head_sent == 0 && t->head_acked < log_trim_to(log, t) &&
	    (full || t->acked.seq >= log->head.seq) && log_sq_has(t, 4)) {
		uint64_t to = log_trim_to(log, t);
		struct weft_commit c =
		        log_commit(log, t, WEFT_LOG_HEAD_OFF, log_head_word(log, t, to));

		rc = log_post(t, &c, LOG_WR_TRIM, 0);
		if (rc > 0) {
			t->head_sent = to;
			rc = 0;
		}
	}
	if (rc != 0) {
		log_lost(log, t, rc);
		log_later(log);
	} else if (log_sq_has(t, 4)) {
		log_admit(log, t);
	}
}

void
log_kick(struct weft_log *log)
{
	for (unsigned int i = 0; i < log->ntargets; i++) {
		struct log_target *t = &log->target[i];

		if (t->state == WEFT_LOG_TARGET_LIVE)
			log_kick_live(log, t);
		else if (t->state == WEFT_LOG_TARGET_CATCHING)
			log_catch_kick(log, t);
	}
}

/* ---- Steps ---- */

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
log_post_read(struct weft_log *log, struct log_target *from, enum log_wr kind, uint32_t index,
              uint64_t to, const struct weft_sge *sink)
{
	struct weft_wr wr = {.opcode = WEFT_WR_READ,
	                     .wr_id = log_wr_id(from, kind, index),
	                     .flags = WEFT_WR_SIGNALED,
	                     .sg_list = sink,
	                     .num_sge = 1,
	                     .rdma = {.stag = from->stag, .to = to}};
	int rc;

	(void)log;
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
	int rc = log_post_read(log, t, LOG_WR_STEP, 0, to, &sink);

	log_step_posted(log, t, rc != 0 ? rc : 1, step);
}

/* ---- Completions ---- */

static int
log_wc_status(enum weft_wc_status s)
{
	switch (s) {
	case WEFT_WC_REMOTE_ACCESS:
		return -EACCES;
	case WEFT_WC_REMOTE_OP:
		return -EIO;
	case WEFT_WC_HASH_MISMATCH:
		return -EILSEQ;
	case WEFT_WC_LOCAL_PROT:
	case WEFT_WC_LOCAL_LENGTH:
		return -EINVAL;
	default:
		return -ENOTCONN;
	}
}

/** `append.ack`, of one target. */
static void
log_unit_done(struct weft_log *log, struct log_target *t)
{
	const struct log_unit *u = &t->units[t->unit_first];

	t->acked = u->end;
	t->acked_pos = u->last_pos;
	t->sq_used -= u->places;
	t->unit_first = (t->unit_first + 1) % log->max_units;
	t->nunits--;
}

static void
log_wc(struct weft_log *log, const struct weft_wc *wc)
{
	unsigned int index = wc->wr_id >> 40 & 0xff;
	struct log_target *t = &log->target[index];
	log_step_fn step;

	if (index >= log->ntargets || t->gen != wc->wr_id >> 48 || t->state == WEFT_LOG_TARGET_NONE)
		return;
	if (wc->status != WEFT_WC_SUCCESS) {
		log_lost(log, t, log_wc_status(wc->status));
		return;
	}
	switch ((enum log_wr)(wc->wr_id >> 32 & 0xff)) {
	case LOG_WR_UNIT:
		log_unit_done(log, t);
		break;
	case LOG_WR_TRIM:
		t->head_acked = t->head_sent;
		t->head_sent = 0;
		t->sq_used -= 2;
		break;
	case LOG_WR_STEP:
		t->sq_used -= t->step_places;
		step = t->step;
		t->step = NULL;
		step(log, t);
		break;
	case LOG_WR_COPY:
		t->sq_used--;
		log_catch_read(log, t, (uint32_t)wc->wr_id);
		break;
	case LOG_WR_READ:
		t->sq_used--;
		log_read_done(log, t, (uint32_t)wc->wr_id);
		break;
	case LOG_WR_NONE:
		break;
	}
}

void
log_on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	struct weft_log *log = user;

	(void)cq;
	for (unsigned int i = 0; i < n; i++)
		log_wc(log, &wc[i]);
	log_run(log);
}
