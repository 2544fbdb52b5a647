/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Sends the window to a live target, in transactions, and its trims. */

#include <errno.h>

#include "log_base.h"
#include "log_priv.h"
#include "log_send.h"
#include "log_step.h"

static const uint8_t log_pad[8];

struct log_build {
	struct weft_sge sg[LOG_TRANSACTION_PIECES];
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

		if (b->nsg + s->num_sge + 2 > LOG_TRANSACTION_PIECES ||
		    s->next.position - log_target_floor(t) > ring ||
		    (b->bytes > 0 &&
		     (s->gap_bytes > 0 || b->bytes + s->bytes > log->transaction_bytes)))
			return;
		log_take(b, s);
		/* Behind a rest that is not used, the next record is at the begin of the ring. */
		if (s->next.position != behind || behind % ring == 0)
			return;
	}
}

/** Write, ahead of the transaction, the pieces beyond what a range may have. */
static int
log_write_rest(struct log_target *t, const struct log_build *b, uint64_t to, uint64_t wr_id)
{
	struct weft_wr wr[LOG_TRANSACTION_WRITES];
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
	b = log_post(t, c, LOG_WR_TRANSACTION, index);
	return a < 0 ? a : b < 0 ? b : a + b;
}
#endif

/** `append.write`, `append.flush`, `append.tail`, `append.flush-tail`: posted together; the
 * target keeps the order. */
static int
log_post_transaction(struct weft_log *log, struct log_target *t, struct log_build *b)
{
	const struct log_slot *first = log_slot(log, t->next_seq),
	                      *last = log_slot(log, b->seq - 1);
	uint32_t i = (t->transaction_first + t->ntransactions) % log->max_transactions;
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
	rest = log_write_rest(t, b, to, log_wr_id(t, LOG_WR_TRANSACTION, i));
	if (rest < 0)
		return rest;
#ifdef WEFT_TEST_HOOKS
	if (LOG_SABOTAGED(log, POINTER_FIRST))
		places = log_post_sabotaged(t, &c, i);
	else
#endif
		places = log_post(t, &c, LOG_WR_TRANSACTION, i);
	if (places < 0)
		return places;
	t->transactions[i] = (struct log_transaction){.end = last->next,
	                                              .last_pos = last->at.position,
	                                              .places = (uint32_t)(rest + places)};
	t->ntransactions++;
	log->stats.transactions++;
	log->stats.transaction_records += b->seq - t->next_seq;
	t->next_seq = b->seq;
	return 0;
}

bool
log_kick_live(struct weft_log *log, struct log_target *t)
{
	struct log_build b;
	bool full = false; /* the next transaction has no room there */
	int rc = 0;

	while (rc == 0 && t->ntransactions < log->max_transactions && t->next_seq < log->end.seq &&
	       log_sq_has(t, 2 * LOG_TRANSACTION_PLACES)) {
		log_gather(log, t, &b);
		full = b.bytes == 0;
		if (full)
			break;
		rc = log_post_transaction(log, t, &b);
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
		return false;
	}
	return log_sq_has(t, 4);
}

/** `append.ack`, of one target. */
void
log_transaction_done(struct weft_log *log, struct log_target *t)
{
	const struct log_transaction *u = &t->transactions[t->transaction_first];

	t->acked = u->end;
	t->acked_pos = u->last_pos;
	t->sq_used -= u->places;
	t->transaction_first = (t->transaction_first + 1) % log->max_transactions;
	t->ntransactions--;
}
