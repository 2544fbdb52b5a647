/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The judge of what the media hold; see lt.h. */

#include "lt.h"

bool
lt_same(const struct lt *l, uint64_t seq, const void *data, uint32_t len)
{
	const struct lt_record *r = &l->rec[seq];

	return seq < l->appended && !r->opening && r->len_bytes == len &&
	       (len == 0 || memcmp(r->data, data, len) == 0);
}

/** What recovery from this image would give. */
static enum lt_verdict
lt_judge_image(struct lt *l, const struct weft_log_image *img)
{
	struct weft_log_at at = img->head;
	struct weft_log_record rec;
	uint64_t seq = img->head.seq;
	int rc;

	lt_trimmed(l);
	if (img->end.seq < l->durable || img->head.seq > l->trim_max)
		return LT_LOST;
	while ((rc = weft_log_image_next(img, &at, &rec)) == 1) {
		for (; seq < rec.at.seq; seq++)
			if (!l->rec[seq].opening)
				return LT_WRONG;
		if (!lt_same(l, seq++, rec.data, rec.len_bytes))
			return LT_WRONG;
	}
	if (rc < 0)
		return LT_DAMAGED;
	/* An opening that was not told yet stands where a record was that nobody was told of. */
	for (; seq < img->end.seq; seq++)
		if (!l->rec[seq].opening && (seq + 1 < img->end.seq || img->last_epoch <= l->epoch))
			return LT_WRONG;
	return LT_SOUND;
}

/** Whether there is anything that was not judged yet. */
static bool
lt_news(struct lt *l)
{
	uint64_t promise = l->durable << 32 ^ l->trim_seq << 8 ^ l->epoch;
	bool news = promise != l->judged_promise;

	l->judged_promise = promise;
	for (unsigned int i = 0; i < l->a.targets; i++) {
		const uint8_t *medium = weft_persist_sim_medium(l->target[i].persist);

		if (memcmp(l->target[i].seen, medium, l->region_bytes) == 0)
			continue;
		memcpy(l->target[i].seen, medium, l->region_bytes);
		news = true;
	}
	return news;
}

void
lt_judge(struct lt *l)
{
	struct weft_log_image img[LT_TARGETS];
	unsigned int n = l->a.targets, need = RTE_MAX(l->a.quorum, n - l->a.quorum + 1);
	int rc[LT_TARGETS];
	bool member[LT_TARGETS];

	if (l->a.no_judge || l->verdict != LT_SOUND || !lt_news(l))
		return;
	l->judged++;
	for (unsigned int i = 0; i < n; i++) {
		const uint8_t *medium = weft_persist_sim_medium(l->target[i].persist);

		rc[i] = weft_log_image_open(medium, l->region_bytes, &img[i]);
		member[i] = weft_get_be64(medium + WEFT_LOG_EPOCH_OFF) != 0;
		/* Its word says that it has everything again: what it lacks from here on is lost. */
		if (member[i])
			l->target[i].wiped = false;
		if (!member[i] && !l->target[i].wiped && l->durable > 1)
			l->verdict = LT_LOST;
	}
	for (unsigned int set = 1; set < 1U << n && l->verdict == LT_SOUND; set++) {
		int best = -1;
		bool bad = false, counts = true;

		if (__builtin_popcount(set) != (int)need)
			continue;
		for (unsigned int i = 0; i < n; i++) {
			if ((set & 1U << i) == 0)
				continue;
			counts &= member[i];
			if (rc[i] == -ENODATA)
				continue;
			bad |= rc[i] != 0;
			if (rc[i] == 0 && (best < 0 || img[i].last_epoch > img[best].last_epoch ||
			                   (img[i].last_epoch == img[best].last_epoch &&
			                    img[i].end.seq > img[best].end.seq)))
				best = (int)i;
		}
		if (!counts && l->durable > 1)
			continue;
		if (bad || (best < 0 && l->durable > 1))
			l->verdict = LT_DAMAGED;
		else if (best >= 0)
			l->verdict = lt_judge_image(l, &img[best]);
	}
}
