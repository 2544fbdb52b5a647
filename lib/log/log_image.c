/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Reading a log from memory: a target's mapping, or a copy of its medium. */

#include <errno.h>

#include "log_wire.h"
#include <weft/byteorder.h>

static const uint8_t *
log_image_at(const struct weft_log_image *img, uint64_t position)
{
	return (const uint8_t *)img->region + WEFT_LOG_RING_OFF + position % img->super.ring_bytes;
}

/** Set the last record and the end behind it. */
static void
log_image_last(struct weft_log_image *i, const struct log_hdr *h)
{
	i->last = (struct weft_log_at){.seq = h->seq, .position = h->position};
	i->last_epoch = h->epoch;
	i->end.seq = h->seq + 1;
	i->end.position =
	        log_norm(i->super.ring_bytes, h->position + log_record_bytes(h->len_bytes));
}

/** The target's words show no append. */
static int
log_image_empty(struct weft_log_image *i)
{
	i->head = (struct weft_log_at){.seq = 1, .position = log_first(i->super.ring_bytes)};
	i->end = i->head;
	return 0;
}

static int
log_image_words_1(struct weft_log_image *i, const struct log_geom *g, const uint64_t *words)
{
	uint64_t ring = g->ring_bytes, tail = words[1];
	struct log_hdr h;

	i->epoch = words[0];
	i->seated = words[0] != 0;
	i->head.position = words[2] != 0 ? words[2] : log_first(ring);
	if (!log_is_place(ring, i->head.position))
		return -EBADMSG;
	if (tail == 0)
		return i->head.position == log_first(ring) ? log_image_empty(i) : -ENODATA;
	if (!log_is_place(ring, tail) || log_hdr_decode(g, tail, log_image_at(i, tail), &h) != 0 ||
	    h.kind == LOG_FILLER)
		return -EBADMSG;
	log_image_last(i, &h);
	/* The head may be behind the filler that follows, as earlier writers left it. */
	if (i->head.position > i->end.position &&
	    log_same_place(ring, i->end.position, i->head.position) &&
	    log_hdr_decode(g, i->end.position, log_image_at(i, i->end.position), &h) == 0 &&
	    h.kind == LOG_FILLER && h.seq == i->end.seq)
		i->end.position = i->head.position;
	return i->head.position > i->end.position || i->end.position - i->head.position > ring
	               ? -EBADMSG
	               : 0;
}

/** Check T2, T3, T5, T6; 1: there is a record. */
static int
log_image_words_2(struct weft_log_image *i, const struct log_geom *g, const uint64_t *words)
{
	const uint8_t *log_id = i->super.log_id, *id = i->super.target_id;
	uint64_t off, unfenced;
	struct log_card card;
	struct log_hdr h;

	if (log_card_decode(log_id, id, g->targets, words[0], &card) != 0)
		return -EBADMSG;
	i->epoch = card.epoch;
	i->seated = card.seated;
	i->place = card.place;
	i->life = card.life;
	/* For a target without a place the epoch of its words is unknown. */
	if (card.life == 0)
		return words[1] == 0 ? log_image_empty(i) : -ENODATA;
	switch (log_place_look(words[1], g->ring_bytes, &off)) {
	case LOG_PLACE_UNWRITTEN:
		return card.seated ? -EBADMSG : log_image_empty(i);
	case LOG_PLACE_NONE:
		return log_place_check(log_id, id, WEFT_LOG_TAIL_OFF, card.epoch, words[1],
		                       LOG_TAIL_NONE, &unfenced) == 0
		               ? log_image_empty(i)
		               : -EBADMSG;
	case LOG_PLACE_ANEW:
		return log_place_check(log_id, id, WEFT_LOG_TAIL_OFF, card.epoch, words[1],
		                       log_tail_anew((uint32_t)off), &unfenced) == 0
		               ? -ENODATA
		               : -EBADMSG;
	case LOG_PLACE_NOWHERE:
		return -EBADMSG;
	case LOG_PLACE_AT:
		break;
	}
	if (log_hdr_decode_at(g, off, log_image_at(i, off), &h) != 0 || h.kind == LOG_FILLER ||
	    log_place_check(log_id, id, WEFT_LOG_TAIL_OFF, card.epoch, words[1], h.position,
	                    &unfenced) != 0 ||
	    (card.seated && log_life(h.lives, g->targets, card.place) < card.life))
		return -EBADMSG;
	log_image_last(i, &h);
	i->replaced = log_life(h.lives, g->targets, card.place) != card.life;
	return log_head_decode(log_id, id, g->ring_bytes, card.epoch, words[2], i->end.position,
	                       &i->head.position, &unfenced);
}

int
weft_log_image_open(const void *region, uint64_t len_bytes, struct weft_log_image *img)
{
	struct weft_log_image i = {.region = region, .super = {.size = sizeof(i.super)}};
	uint64_t words[3];
	struct log_geom g;
	struct log_hdr h;
	int rc;

	if (region == NULL || img == NULL)
		return -EINVAL;
	if (len_bytes < WEFT_LOG_MIN_BYTES)
		return -EBADMSG;
	rc = weft_log_super_decode(region, len_bytes, &i.super);
	if (rc != 0)
		return rc;
	log_geom_of(&i.super, &g);
	/* Read the head before the tail: a writer that trims meanwhile never lets the head pass
	 * the tail. */
	words[0] = weft_get_be64((const uint8_t *)region + WEFT_LOG_CARD_OFF);
	words[2] = weft_get_be64((const uint8_t *)region + WEFT_LOG_HEAD_OFF);
	words[1] = weft_get_be64((const uint8_t *)region + WEFT_LOG_TAIL_OFF);
	rc = g.version == 1 ? log_image_words_1(&i, &g, words) : log_image_words_2(&i, &g, words);
	if (rc != 0)
		return rc;
	if (i.last.seq != 0)
		i.head.seq = i.end.seq;
	if (i.head.position != i.end.position) {
		if (log_hdr_decode(&g, i.head.position, log_image_at(&i, i.head.position), &h) !=
		            0 ||
		    h.seq > i.last.seq)
			return -EBADMSG;
		i.head.seq = h.seq;
	}
	i.certain = i.super.quorum == 1 ? i.end : i.head;
	*img = i;
	return 0;
}

int
weft_log_image_next(const struct weft_log_image *img, struct weft_log_at *at,
                    struct weft_log_record *rec)
{
	struct log_walk w = {0};
	struct log_geom g;

	if (img == NULL || at == NULL || rec == NULL)
		return -EINVAL;
	w.at = *at;
	log_geom_of(&img->super, &g);
	while (w.at.position != img->end.position) {
		uint64_t left = log_left(g.ring_bytes, w.at.position);
		struct weft_log_at here = w.at;

		if (here.position < img->head.position || here.position > img->end.position ||
		    !log_is_place(g.ring_bytes, here.position) ||
		    log_walk(&g, &w, log_image_at(img, here.position), left) <= 0 ||
		    w.hdr.epoch > img->last_epoch || w.at.position > img->end.position)
			return -EBADMSG;
		if (w.hdr.kind != LOG_RECORD)
			continue;
		*rec = log_record_of(&w, &here);
		*at = w.at;
		return 1;
	}
	if (w.at.seq != img->end.seq)
		return -EBADMSG;
	*at = w.at;
	return 0;
}
