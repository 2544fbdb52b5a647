/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The check of the content of the media; see lt.h. */

#include "lt.h"

bool
lt_same(const struct lt *l, uint64_t seq, const void *data, uint32_t len)
{
	const struct lt_record *r = &l->rec[seq];

	return seq < l->appended && !r->opening && r->len_bytes == len &&
	       (len == 0 || memcmp(r->data, data, len) == 0);
}

struct lt_words
lt_words(const struct lt *l, unsigned int i)
{
	const uint8_t *medium = weft_persist_sim_medium(l->target[i].persist);
	uint64_t card = weft_get_be64(medium + WEFT_LOG_CARD_OFF),
	         tail = weft_get_be64(medium + WEFT_LOG_TAIL_OFF), off, u;
	struct weft_log_super s = {.size = sizeof(s)};
	struct lt_words w = {.head = weft_get_be64(medium + WEFT_LOG_HEAD_OFF)};
	uint64_t head = w.head;
	const uint8_t *h;
	struct log_geom g;

	if (weft_log_super_decode(medium, l->region_bytes, &s) != 0)
		return (struct lt_words){0};
	log_geom_of(&s, &g);
	if (s.version == 1) {
		w.card = (struct log_card){.epoch = card, .seated = card != 0};
		w.tail = tail;
		w.anew = tail == 0 && w.head > g.ring_bytes;
	} else if (log_card_decode(s.log_id, s.target_id, s.targets, card, &w.card) != 0) {
		w.bad = true;
		return w;
	} else if (log_place_look(tail, g.ring_bytes, &off) == LOG_PLACE_AT) {
		w.tail = weft_get_be64(medium + WEFT_LOG_RING_OFF + off + 8);
	} else {
		w.anew = log_place_look(tail, g.ring_bytes, &off) == LOG_PLACE_ANEW;
		w.knows = w.anew ? (uint32_t)off : 0;
	}
	if (w.tail == 0) {
		w.head = w.anew || s.version == 1 ? w.head : g.ring_bytes;
		return w;
	}
	h = medium + WEFT_LOG_RING_OFF + w.tail % g.ring_bytes;
	w.end = log_norm(g.ring_bytes, w.tail + log_record_bytes(weft_get_be32(h + 40)));
	w.lives = weft_get_be64(h + 52);
	if (s.version > 1)
		w.bad = log_head_decode(s.log_id, s.target_id, g.ring_bytes, w.card.epoch, head,
		                        w.end, &w.head, &u) != 0;
	return w;
}

/**
 * Compare the records of target i from the head of this image on with the model. Sets *seq to the
 * number behind the last record that has data. What was compared stays right until the medium
 * changes, so it is compared once.
 */
static enum lt_verdict
lt_judge_records(struct lt *l, unsigned int i, const struct weft_log_image *img, uint64_t *seq)
{
	struct lt_target *g = &l->target[i];
	struct weft_log_at at = img->head;
	struct weft_log_record rec;
	int rc;

	*seq = g->same_end;
	if (g->same_end != 0 && g->same_from <= img->head.position)
		return LT_SOUND;
	*seq = img->head.seq;
	while ((rc = weft_log_image_next(img, &at, &rec)) == 1) {
		for (; *seq < rec.at.seq; ++*seq)
			if (!l->rec[*seq].opening)
				return LT_WRONG;
		if (!lt_same(l, (*seq)++, rec.data, rec.len_bytes))
			return LT_WRONG;
	}
	if (rc < 0)
		return LT_DAMAGED;
	g->same_from = img->head.position;
	g->same_end = *seq;
	return LT_SOUND;
}

/** Check the log that recovery from this image of target i would give. */
static enum lt_verdict
lt_judge_image(struct lt *l, unsigned int i, const struct weft_log_image *img)
{
	enum lt_verdict v;
	uint64_t seq;

	lt_trimmed(l);
	if (img->end.seq < l->durable || img->head.seq > l->trim_max)
		return LT_LOST;
	v = lt_judge_records(l, i, img, &seq);
	if (v != LT_SOUND)
		return v;
	/* The opening of a new writer that is not reported yet may replace a record that was not
	 * reported as durable. */
	for (seq = RTE_MAX(seq, img->head.seq); seq < img->end.seq; seq++)
		if (!l->rec[seq].opening && (seq + 1 < img->end.seq || img->last_epoch <= l->epoch))
			return LT_WRONG;
	return LT_SOUND;
}

/**
 * Whether the log of this image has this place: the number of the record there. (A writer may have
 * trimmed to a record that was not durable, behind a filler, where another writer wrote other
 * records. Then the head of one target is no place of the log, or that of a later record.)
 */
static bool
lt_has_number(const struct lt *l, unsigned int i, const struct weft_log_image *img,
              const struct weft_log_at *place)
{
	const uint8_t *ring = weft_persist_sim_medium(l->target[i].persist) + WEFT_LOG_RING_OFF;
	struct weft_log_super s = {.size = sizeof(s)};
	struct log_geom g;
	struct log_hdr h = {0};
	uint64_t at = img->head.position;

	if (weft_log_super_decode(ring - WEFT_LOG_RING_OFF, l->region_bytes, &s) != 0)
		return false;
	log_geom_of(&s, &g);
	for (; at < place->position && at < img->end.position; at = log_hdr_end(&g, &h))
		if (log_hdr_decode(&g, at, ring + at % g.ring_bytes, &h) != 0)
			return false;
	if (at != place->position)
		return false;
	if (at == img->end.position)
		return place->seq == img->end.seq;
	return log_hdr_decode(&g, at, ring + at % g.ring_bytes, &h) == 0 && h.seq == place->seq;
}

/** Whether every record that the words of this target name is whole (T4). */
static bool
lt_is_whole(const struct weft_log_image *img)
{
	struct weft_log_at at = img->head;
	struct weft_log_record rec;
	int rc;

	while ((rc = weft_log_image_next(img, &at, &rec)) == 1)
		;
	return rc == 0;
}

/** What has changed since the last check: a bit mask of the media; all of them if a promise has
 * changed. */
static unsigned int
lt_changed(struct lt *l)
{
	uint64_t promise = l->durable << 32 ^ l->trim_seq << 8 ^ l->epoch;
	unsigned int changed = promise != l->judged_promise ? (1U << l->media) - 1 : 0;

	l->judged_promise = promise;
	for (unsigned int i = 0; i < l->media; i++) {
		struct lt_target *g = &l->target[i];
		const uint8_t *medium = weft_persist_sim_medium(g->persist);
		uint64_t writes = weft_persist_sim_stats(g->persist)->writes;

		g->moved =
		        g->seen_writes != writes && memcmp(g->seen, medium, l->region_bytes) != 0;
		g->seen_writes = writes;
		if (!g->moved)
			continue;
		g->same_end = 0;
		memcpy(g->seen, medium, l->region_bytes);
		changed |= 1U << i;
	}
	return changed;
}

/** Whether a target has the life of its place in `lives` and knows of no later lives. */
static bool
lt_is_member(const struct lt *l, const struct lt_words *w, uint64_t lives)
{
	uint32_t n = l->a.targets;

	return log_life(lives, n, w->card.place) == w->card.life &&
	       w->knows <= log_lives_sum(lives, n);
}

/** Whether another medium is seated in the place of this one, with a later life. */
static bool
lt_is_replaced(const struct lt *l, const struct lt_words *w, unsigned int i)
{
	for (unsigned int k = 0; k < l->media; k++)
		if (w[k].card.seated && w[k].card.place == w[i].card.place &&
		    w[k].card.life > w[i].card.life)
			return true;
	return false;
}

/**
 * Check the log that these targets give, of which one is the right one. Its head is the highest of
 * theirs. The head of each is a place of the right one's log, since what is in front of a head was
 * durable.
 */
static enum lt_verdict
lt_judge_open(struct lt *l, unsigned int set, const struct weft_log_image *img, const int *rc,
              unsigned int right)
{
	struct weft_log_image found = img[right];

	for (unsigned int i = 0; i < l->media; i++) {
		if ((set & 1U << i) == 0 || rc[i] != 0 ||
		    img[i].head.position <= img[right].head.position)
			continue;
		if (!lt_has_number(l, right, &img[right], &img[i].head))
			return LT_DAMAGED;
		if (img[i].head.position > found.head.position)
			found.head = img[i].head;
	}
	return lt_judge_image(l, right, &found);
}

/** Note the log's head of each target that has joined since the last call. */
static void
lt_note_heads(struct lt *l)
{
	for (unsigned int i = 0; i < l->media; i++) {
		struct lt_target *g = &l->target[i];

		if (l->log != NULL && g->joined >= 0 && g->join_head_seq == 0)
			g->join_head_seq = lt_info(l).head.seq;
	}
}

void
lt_judge(struct lt *l)
{
	struct weft_log_image img[LT_TARGETS];
	unsigned int n = l->media, need = RTE_MAX(l->a.quorum, l->a.targets - l->a.quorum + 1);
	int rc[LT_TARGETS];
	struct lt_words w[LT_TARGETS];
	unsigned int changed;

	if (l->a.no_judge || l->verdict != LT_SOUND)
		return;
	lt_note_heads(l);
	changed = lt_changed(l);
	if (changed == 0)
		return;
	l->judged++;
	for (unsigned int i = 0; i < n; i++) {
		struct lt_target *g = &l->target[i];

		if (g->moved || l->judged == 1) {
			g->image_rc = weft_log_image_open(weft_persist_sim_medium(g->persist),
			                                  l->region_bytes, &g->image);
			g->words = lt_words(l, i);
		}
		rc[i] = g->image_rc;
		img[i] = g->image;
		w[i] = g->words;
		/* A seated target has all records again. From now on, a missing record is lost. */
		if (rc[i] == 0 || rc[i] == -ENODATA)
			l->target[i].rotten = false;
		if (w[i].card.seated && !l->target[i].rotten)
			l->target[i].wiped = false;
		if (rc[i] == 0 && l->target[i].moved && !l->target[i].rotten &&
		    !lt_is_whole(&img[i]))
			l->verdict = LT_DAMAGED;
		if (w[i].card.seated || l->target[i].wiped || l->target[i].rotten ||
		    l->durable <= 1)
			continue;
		/* `join.unseat` of a target that was trimmed further than the log, so that the
		 * record that both share is readable no more. It counts again when it has been
		 * fed. The log may have been trimmed, too, before the card was written. */
		if (rc[i] == 0 && l->log != NULL && img[i].head.seq > l->target[i].join_head_seq)
			l->target[i].wiped = true;
		else
			l->verdict = LT_LOST;
	}
	for (unsigned int set = 1; set < 1U << n && l->verdict == LT_SOUND; set++) {
		unsigned int places = 0;
		int best = -1;
		bool bad = false, counts = true;

		/* Of media that have not changed the verdict is known, under the same promise. */
		if (__builtin_popcount(set) != (int)need || (set & changed) == 0)
			continue;
		for (unsigned int i = 0; i < n; i++) {
			if ((set & 1U << i) == 0)
				continue;
			counts &= w[i].card.seated && !l->target[i].rotten;
			/* If two targets have the same place, one was replaced, whatever they hold.
			 */
			counts &= l->a.version == 1 || (places & 1U << w[i].card.place) == 0;
			places |= 1U << w[i].card.place;
			if (rc[i] == -ENODATA)
				continue;
			bad |= rc[i] != 0;
			if (rc[i] == 0 && (best < 0 || img[i].last_epoch > img[best].last_epoch ||
			                   (img[i].last_epoch == img[best].last_epoch &&
			                    img[i].end.seq > img[best].end.seq)))
				best = (int)i;
		}
		/* The lives of the best target tell which targets were replaced. A target that
		 * never had a record knows the lives of the first open. */
		for (unsigned int i = 0; best >= 0 && l->a.version != 1 && i < n; i++)
			if ((set & 1U << i) != 0)
				counts &= lt_is_member(l, &w[i],
				                       w[best].lives != 0
				                               ? w[best].lives
				                               : log_lives_first(l->a.targets));
		/* If all of them were begun anew, no record tells the lives, and an open is refused
		 * in any case. This is a loss only if none of them was replaced. */
		for (unsigned int i = 0; best < 0 && l->a.version != 1 && i < n; i++)
			if ((set & 1U << i) != 0)
				counts &= !lt_is_replaced(l, w, i);
		if (!counts && l->durable > 1)
			continue;
		if (bad || (best < 0 && l->durable > 1))
			l->verdict = LT_DAMAGED;
		else if (best >= 0)
			l->verdict = lt_judge_open(l, set, img, rc, (unsigned int)best);
	}
}
