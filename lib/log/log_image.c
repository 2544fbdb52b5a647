/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A log read where it lies: in a target's mapping, or in a copy of its medium. */

#include "log_wire.h"

static const uint8_t *
log_image_at(const struct weft_log_image *img, uint64_t position)
{
	return (const uint8_t *)img->region + WEFT_LOG_RING_OFF + position % img->super.ring_bytes;
}

int
weft_log_image_open(const void *region, uint64_t len_bytes, struct weft_log_image *img)
{
	struct weft_log_image i = {.region = region, .super = {.size = sizeof(i.super)}};
	const uint8_t *p = region;
	struct log_geom g;
	struct log_hdr h;
	uint64_t ring;
	int rc;

	if (region == NULL || img == NULL)
		return -EINVAL;
	if (len_bytes < WEFT_LOG_MIN_BYTES)
		return -EBADMSG;
	rc = weft_log_super_decode(p, len_bytes, &i.super);
	if (rc != 0)
		return rc;
	log_geom_of(&i.super, &g);
	ring = g.ring_bytes;
	i.epoch = weft_get_be64(p + WEFT_LOG_EPOCH_OFF);
	/* The head first: a writer that trims meanwhile never lets it pass the tail. */
	i.head.position = weft_get_be64(p + WEFT_LOG_HEAD_OFF);
	i.last.position = weft_get_be64(p + WEFT_LOG_TAIL_OFF);
	if (i.head.position == 0)
		i.head.position = log_first(ring);
	if (!log_is_place(ring, i.head.position))
		return -EBADMSG;
	if (i.last.position == 0) {
		/* Begun anew in the middle of a log, and nothing was copied yet: it does not say
		 * what number comes. */
		if (i.head.position != log_first(ring))
			return -ENODATA;
		i.head.seq = 1;
		i.end = i.head;
		*img = i;
		return 0;
	}
	if (!log_is_place(ring, i.last.position) ||
	    log_hdr_decode(&g, i.last.position, log_image_at(&i, i.last.position), &h) != 0 ||
	    h.kind == LOG_FILLER)
		return -EBADMSG;
	i.last.seq = h.seq;
	i.last_epoch = h.epoch;
	i.end.seq = h.seq + 1;
	i.end.position = log_norm(ring, i.last.position + log_record_bytes(h.len_bytes));
	/* Behind the filler that follows: as writers of once left it. */
	if (i.head.position > i.end.position &&
	    log_same_place(ring, i.end.position, i.head.position) &&
	    log_hdr_decode(&g, i.end.position, log_image_at(&i, i.end.position), &h) == 0 &&
	    h.kind == LOG_FILLER && h.seq == i.end.seq)
		i.end.position = i.head.position;
	if (i.head.position > i.end.position || i.end.position - i.head.position > ring)
		return -EBADMSG;
	i.head.seq = i.end.seq;
	if (i.head.position != i.end.position) {
		if (log_hdr_decode(&g, i.head.position, log_image_at(&i, i.head.position), &h) !=
		            0 ||
		    h.seq > i.last.seq)
			return -EBADMSG;
		i.head.seq = h.seq;
	}
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
		*rec = (struct weft_log_record){.at = here,
		                                .epoch = w.hdr.epoch,
		                                .data = w.data,
		                                .len_bytes = w.hdr.len_bytes,
		                                .next = w.at};
		*at = w.at;
		return 1;
	}
	if (w.at.seq != img->end.seq)
		return -EBADMSG;
	*at = w.at;
	return 0;
}
