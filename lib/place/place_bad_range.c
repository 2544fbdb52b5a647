/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The marks of a region: its ranges that failed a Flush or a Verify. */

#include <stdlib.h>

#include "place_priv.h"
#include <weft/bad_range.h>

/** Bad ranges of one region; made at its first failure. Under the context's lock. */
struct place_bad_ranges {
	unsigned int n;
	struct weft_bad_range
	        s[WEFT_MAX_BAD_RANGES + 1]; /**< one more than the limit, until two are joined */
};

/** The last octet. A range may end with octet 2^64 - 1, so its end is not computed. */
static inline uint64_t
bad_range_last(const struct weft_bad_range *s)
{
	return s->to + (s->len_bytes - 1);
}

static void
bad_range_remove(struct place_bad_ranges *l, unsigned int i)
{
	memmove(&l->s[i], &l->s[i + 1], (l->n - i - 1) * sizeof(l->s[0]));
	l->n--;
}

static void
bad_range_insert(struct place_bad_ranges *l, unsigned int i, const struct weft_bad_range *s)
{
	memmove(&l->s[i + 1], &l->s[i], (l->n - i) * sizeof(l->s[0]));
	l->s[i] = *s;
	l->n++;
}

/** Join s[i] with the next range and the octets between them. */
static void
bad_range_join(struct place_bad_ranges *l, unsigned int i)
{
	struct weft_bad_range *a = &l->s[i], *b = &l->s[i + 1];
	uint64_t end_a = bad_range_last(a), end_b = bad_range_last(b);

	a->wide |= b->wide || (end_a < b->to && b->to - end_a > 1);
	if (a->status != b->status)
		a->status = -EIO;
	a->failures += b->failures;
	a->len_bytes = RTE_MAX(end_a, end_b) - a->to + 1;
	bad_range_remove(l, i + 1);
}

static bool
bad_range_touch(const struct weft_bad_range *a, const struct weft_bad_range *b)
{
	uint64_t end = bad_range_last(a);

	return end >= b->to || b->to - end == 1;
}

static void
bad_range_add(struct place_bad_ranges *l, const struct weft_bad_range *s)
{
	unsigned int i = 0, best = 0;

	while (i < l->n && l->s[i].to <= s->to)
		i++;
	bad_range_insert(l, i, s);
	if (i > 0 && bad_range_touch(&l->s[i - 1], &l->s[i]))
		bad_range_join(l, --i);
	while (i + 1 < l->n && bad_range_touch(&l->s[i], &l->s[i + 1]))
		bad_range_join(l, i);
	if (l->n <= WEFT_MAX_BAD_RANGES)
		return;
	for (i = 1; i + 1 < l->n; i++)
		if (l->s[i + 1].to - bad_range_last(&l->s[i]) <
		    l->s[best + 1].to - bad_range_last(&l->s[best]))
			best = i;
	bad_range_join(l, best);
}

static void
bad_range_publish(struct weft_mr *mr)
{
	atomic_store_explicit(&mr->nbad_ranges, mr->bad_ranges->n, memory_order_relaxed);
}

static bool
bad_range_mark(struct weft_mr *mr, uint64_t to, uint64_t len_bytes, int status)
{
	const struct weft_bad_range s = {
	        .to = to, .len_bytes = len_bytes, .status = status, .failures = 1};
	struct weft_vctx *v = mr->pd->ctx;
	bool marked;

	pthread_mutex_lock(&v->lock);
	if (mr->bad_ranges == NULL)
		mr->bad_ranges = calloc(1, sizeof(*mr->bad_ranges));
	marked = mr->bad_ranges != NULL;
	if (marked) {
		bad_range_add(mr->bad_ranges, &s);
		bad_range_publish(mr);
	}
	pthread_mutex_unlock(&v->lock);
	return marked;
}

unsigned int
weft_mr_bad_ranges(struct weft_mr *mr, struct weft_bad_range *out, unsigned int max)
{
	struct weft_vctx *v;
	unsigned int n = 0;

	if (WEFT_HANDLE_BAD(mr, MR) || (out == NULL && max > 0))
		return 0;
	v = mr->pd->ctx;
	pthread_mutex_lock(&v->lock);
	if (mr->bad_ranges != NULL) {
		n = mr->bad_ranges->n;
		for (unsigned int i = 0; i < RTE_MIN(n, max); i++)
			out[i] = mr->bad_ranges->s[i];
	}
	pthread_mutex_unlock(&v->lock);
	return n;
}

/**
 * The context's lock is held. Cut [to, last] out of l->s[i]. Returns the index to continue with.
 */
static unsigned int
bad_range_cut(struct place_bad_ranges *l, unsigned int i, uint64_t to, uint64_t last)
{
	struct weft_bad_range *s = &l->s[i], rest = *s;
	uint64_t end = bad_range_last(s);

	rest.to = last + 1;
	rest.len_bytes = end - last;
	if (s->to < to) {
		s->len_bytes = to - s->to;
		i++;
		if (end > last)
			bad_range_insert(l, i++, &rest);
		return i;
	}
	if (end > last) {
		*s = rest;
		return i + 1;
	}
	bad_range_remove(l, i);
	return i;
}

static int
bad_ranges_clear(struct weft_mr *mr, uint64_t to, uint64_t len_bytes)
{
	uint64_t last = len_bytes == UINT64_MAX || len_bytes - 1 > UINT64_MAX - to
	                        ? UINT64_MAX
	                        : to + (len_bytes - 1);
	struct weft_vctx *v = mr->pd->ctx;
	struct place_bad_ranges *l;
	int rc = 0;

	if (len_bytes == 0)
		return 0;
	pthread_mutex_lock(&v->lock);
	l = mr->bad_ranges;
	for (unsigned int i = 0; l != NULL && i < l->n && rc == 0;) {
		struct weft_bad_range *s = &l->s[i];

		if (bad_range_last(s) < to || s->to > last)
			i++;
		else if (s->to < to && bad_range_last(s) > last && l->n == WEFT_MAX_BAD_RANGES)
			rc = -ENOSPC; /* this one range contains the whole cleared part */
		else
			i = bad_range_cut(l, i, to, last);
	}
	if (l != NULL)
		bad_range_publish(mr);
	pthread_mutex_unlock(&v->lock);
	return rc;
}

int
weft_mr_clear_bad_ranges(struct weft_mr *mr, uint64_t to, uint64_t len_bytes)
{
	return WEFT_HANDLE_BAD(mr, MR) ? -EINVAL : bad_ranges_clear(mr, to, len_bytes);
}

static void
bad_ranges_reset(struct weft_mr *mr)
{
	(void)bad_ranges_clear(mr, 0, UINT64_MAX);
}

static void
bad_ranges_free(struct weft_mr *mr)
{
	free(mr->bad_ranges);
}

const struct weft_verbs_place_ops weft_place_ops = {
        .bad_range = bad_range_mark,
        .registered = bad_ranges_reset,
        .deregistered = place_revoke_end,
        .freed = bad_ranges_free,
};
