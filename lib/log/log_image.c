/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Reading a log from memory: a target's mapping, or a copy of its medium. */

#include <errno.h>

#include "log_judge.h"
#include "log_wire.h"
#include <weft/byteorder.h>

static const uint8_t *
log_image_at(const struct weft_log_image *img, uint64_t position)
{
	return (const uint8_t *)img->region + WEFT_LOG_RING_OFF + position % img->super.ring_bytes;
}

static const uint8_t *
log_image_header(void *owner, uint64_t off)
{
	return (const uint8_t *)owner + WEFT_LOG_RING_OFF + off;
}

int
weft_log_image_open(const void *region, uint64_t len_bytes, struct weft_log_image *img)
{
	struct weft_log_image i = {.region = region, .super = {.size = sizeof(i.super)}};
	uint64_t words[3];
	const struct log_judge from = {.header = log_image_header,
	                               .owner = (void *)(uintptr_t)region};
	struct log_verdict verdict;
	int rc;

	if (region == NULL || img == NULL)
		return -EINVAL;
	if (len_bytes < WEFT_LOG_MIN_BYTES)
		return -EBADMSG;
	rc = weft_log_super_decode(region, len_bytes, &i.super);
	if (rc != 0)
		return rc;
	/* Read the head before the tail: a writer that trims meanwhile never lets the head pass
	 * the tail. */
	words[0] = weft_get_be64((const uint8_t *)region + WEFT_LOG_CARD_OFF);
	words[2] = weft_get_be64((const uint8_t *)region + WEFT_LOG_HEAD_OFF);
	words[1] = weft_get_be64((const uint8_t *)region + WEFT_LOG_TAIL_OFF);
	rc = log_judge_words(&i, words, &from, &verdict);
	if (rc != 0)
		return rc;
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
