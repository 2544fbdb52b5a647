/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The words of one target: what they say, and what is damaged. */

#include <errno.h>

#include "log_judge.h"
#include "log_wire.h"

/** Set the last record and the end behind it. */
static void
log_judge_last(struct weft_log_image *i, const struct log_hdr *h)
{
	i->last = (struct weft_log_at){.seq = h->seq, .position = h->position};
	i->last_epoch = h->epoch;
	i->end.seq = h->seq + 1;
	i->end.position =
	        log_norm(i->super.ring_bytes, h->position + log_record_bytes(h->len_bytes));
}

/** The target's words show no append. */
static int
log_judge_empty(struct weft_log_image *i)
{
	i->head = (struct weft_log_at){.seq = 1, .position = log_first(i->super.ring_bytes)};
	i->end = i->head;
	return 0;
}

static int
log_judge_fault(struct log_verdict *v, enum log_fault fault)
{
	v->fault = fault;
	return -EBADMSG;
}

/** Decode the header at this octet of the ring: with the position that it names itself, if
 * `position` is 0. */
static int
log_judge_header(const struct log_geom *g, const struct log_judge *from, uint64_t off,
                 uint64_t position, struct log_hdr *h, struct log_verdict *v)
{
	const uint8_t *p = from->header(from->owner, off);

	if (p == NULL)
		return log_judge_fault(v, LOG_FAULT_READ);
	return position != 0 ? log_hdr_decode(g, position, p, h) : log_hdr_decode_at(g, off, p, h);
}

/** A header that is none is the fault, unless it could not be read. */
static int
log_judge_no_header(struct log_verdict *v, enum log_fault fault)
{
	return v->fault == LOG_FAULT_READ ? -EBADMSG : log_judge_fault(v, fault);
}

static int
log_judge_1(struct weft_log_image *i, const struct log_geom *g, const uint64_t *words,
            const struct log_judge *from, struct log_verdict *v)
{
	uint64_t ring = g->ring_bytes, tail = words[1];
	struct log_hdr h;

	i->epoch = words[0];
	i->seated = words[0] != 0;
	i->head.position = words[2] != 0 ? words[2] : log_first(ring);
	if (!log_is_place(ring, i->head.position))
		return log_judge_fault(v, LOG_FAULT_HEAD);
	if (tail == 0)
		return i->head.position == log_first(ring) ? log_judge_empty(i) : -ENODATA;
	if (!log_is_place(ring, tail))
		return log_judge_fault(v, LOG_FAULT_TAIL);
	if (log_judge_header(g, from, tail % ring, tail, &h, v) != 0 || h.kind == LOG_FILLER)
		return log_judge_no_header(v, LOG_FAULT_TAIL_RECORD);
	log_judge_last(i, &h);
	/* The head may be behind the filler that follows, as earlier writers left it. */
	if (i->head.position > i->end.position &&
	    log_same_place(ring, i->end.position, i->head.position) &&
	    log_judge_header(g, from, i->end.position % ring, i->end.position, &h, v) == 0 &&
	    h.kind == LOG_FILLER && h.seq == i->end.seq)
		i->end.position = i->head.position;
	if (v->fault != LOG_FAULT_NONE)
		return -EBADMSG;
	return i->head.position > i->end.position || i->end.position - i->head.position > ring
	               ? log_judge_fault(v, LOG_FAULT_HEAD)
	               : 0;
}

/** Check T2, T3, T5, T6. */
static int
log_judge_2(struct weft_log_image *i, const struct log_geom *g, const uint64_t *words,
            const struct log_judge *from, struct log_verdict *v)
{
	const uint8_t *log_id = i->super.log_id, *id = i->super.target_id;
	uint64_t off, position;
	struct log_card card;
	struct log_hdr h;
	int rc;

	if (log_card_decode(log_id, id, g->targets, words[0], &card) != 0)
		return log_judge_fault(v, LOG_FAULT_CARD);
	i->epoch = card.epoch;
	i->seated = card.seated;
	i->place = card.place;
	i->life = card.life;
	/* For a target without a place the epoch of its words is unknown. */
	if (card.life == 0)
		return words[1] == 0 ? log_judge_empty(i) : -ENODATA;
	switch (log_place_look(words[1], g->ring_bytes, &off)) {
	case LOG_PLACE_UNWRITTEN:
		return card.seated ? log_judge_fault(v, LOG_FAULT_TAIL) : log_judge_empty(i);
	case LOG_PLACE_NONE:
		return log_place_check(log_id, id, WEFT_LOG_TAIL_OFF, card.epoch, words[1],
		                       LOG_TAIL_NONE, &v->unfenced) == 0
		               ? log_judge_empty(i)
		               : log_judge_fault(v, LOG_FAULT_TAIL);
	case LOG_PLACE_ANEW:
		return log_place_check(log_id, id, WEFT_LOG_TAIL_OFF, card.epoch, words[1],
		                       log_tail_anew((uint32_t)off), &v->unfenced) == 0
		               ? -ENODATA
		               : log_judge_fault(v, LOG_FAULT_TAIL);
	case LOG_PLACE_NOWHERE:
		return log_judge_fault(v, LOG_FAULT_TAIL);
	case LOG_PLACE_AT:
		break;
	}
	if (log_judge_header(g, from, off, 0, &h, v) != 0 || h.kind == LOG_FILLER)
		return log_judge_no_header(v, LOG_FAULT_TAIL_RECORD);
	if (log_place_check(log_id, id, WEFT_LOG_TAIL_OFF, card.epoch, words[1], h.position,
	                    &v->unfenced) != 0)
		return log_judge_fault(v, LOG_FAULT_TAIL);
	if (card.seated && log_life(h.lives, g->targets, card.place) < card.life)
		return log_judge_fault(v, LOG_FAULT_SEAT);
	log_judge_last(i, &h);
	i->replaced = log_life(h.lives, g->targets, card.place) != card.life;
	rc = log_head_decode(log_id, id, g->ring_bytes, card.epoch, words[2], i->end.position,
	                     &position, &v->unfenced);
	if (rc != 0)
		return log_judge_fault(v, LOG_FAULT_HEAD);
	i->head.position = position;
	return 0;
}

int
log_judge_words(struct weft_log_image *i, const uint64_t words[3], const struct log_judge *from,
                struct log_verdict *v)
{
	struct log_geom g;
	struct log_hdr h;
	int rc;

	*v = (struct log_verdict){0};
	log_geom_of(&i->super, &g);
	rc = g.version == 1 ? log_judge_1(i, &g, words, from, v)
	                    : log_judge_2(i, &g, words, from, v);
	if (rc != 0)
		return rc;
	if (i->last.seq != 0)
		i->head.seq = i->end.seq;
	if (i->head.position != i->end.position) {
		if (log_judge_header(&g, from, i->head.position % g.ring_bytes, i->head.position,
		                     &h, v) != 0 ||
		    h.seq > i->last.seq)
			return log_judge_no_header(v, LOG_FAULT_HEAD_RECORD);
		i->head.seq = h.seq;
	}
	i->certain = i->super.quorum == 1 ? i->end : i->head;
	return 0;
}
