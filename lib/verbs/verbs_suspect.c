/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Ranges that failed a Flush or a Verify: told once as an event, and marked in the region.
 */

#include <stdlib.h>

#include "verbs_priv.h"
#include <weft/suspect.h>

/** Of one region; made at its first failure. Under the context's lock, but for `count`. */
struct verbs_suspects {
	uint32_t count; /**< atomic: n for who has no lock */
	unsigned int n;
	struct weft_suspect
	        s[WEFT_MAX_SUSPECTS + 1]; /**< one more while two of them are made one */
};

/** The last octet: a range may end with 2^64 - 1. */
static inline uint64_t
suspect_last(const struct weft_suspect *s)
{
	return s->to + (s->len_bytes - 1);
}

static void
suspect_remove(struct verbs_suspects *l, unsigned int i)
{
	memmove(&l->s[i], &l->s[i + 1], (l->n - i - 1) * sizeof(l->s[0]));
	l->n--;
}

static void
suspect_insert(struct verbs_suspects *l, unsigned int i, const struct weft_suspect *s)
{
	memmove(&l->s[i + 1], &l->s[i], (l->n - i) * sizeof(l->s[0]));
	l->s[i] = *s;
	l->n++;
}

/** s[i] takes in the one behind it, and what lies between. */
static void
suspect_join(struct verbs_suspects *l, unsigned int i)
{
	struct weft_suspect *a = &l->s[i], *b = &l->s[i + 1];
	uint64_t end_a = suspect_last(a), end_b = suspect_last(b);

	a->wide |= b->wide || (end_a < b->to && b->to - end_a > 1);
	if (a->status != b->status)
		a->status = -EIO;
	a->failures += b->failures;
	a->len_bytes = RTE_MAX(end_a, end_b) - a->to + 1;
	suspect_remove(l, i + 1);
}

static bool
suspect_touch(const struct weft_suspect *a, const struct weft_suspect *b)
{
	uint64_t end = suspect_last(a);

	return end >= b->to || b->to - end == 1;
}

static void
suspect_add(struct verbs_suspects *l, const struct weft_suspect *s)
{
	unsigned int i = 0, best = 0;

	while (i < l->n && l->s[i].to <= s->to)
		i++;
	suspect_insert(l, i, s);
	if (i > 0 && suspect_touch(&l->s[i - 1], &l->s[i]))
		suspect_join(l, --i);
	while (i + 1 < l->n && suspect_touch(&l->s[i], &l->s[i + 1]))
		suspect_join(l, i);
	if (l->n <= WEFT_MAX_SUSPECTS)
		return;
	for (i = 1; i + 1 < l->n; i++)
		if (l->s[i + 1].to - suspect_last(&l->s[i]) <
		    l->s[best + 1].to - suspect_last(&l->s[best]))
			best = i;
	suspect_join(l, best);
}

/** The handle and the offset in its region; a window's octets are its region's. */
static struct weft_mr *
suspect_region(const struct weft_mem_mr *m, uint64_t *to)
{
	const struct weft_mem_mr *region = m->parent != NULL ? m->parent : m;

	*to = region->base_to + (uint64_t)(m->addr - region->addr) + (*to - m->base_to);
	return region->owner;
}

static void
suspect_publish(struct verbs_suspects *l)
{
	__atomic_store_n(&l->count, l->n, __ATOMIC_RELAXED);
}

static bool
suspect_mark(struct weft_vctx *v, struct weft_mr *mr, const struct weft_suspect *s)
{
	bool marked;

	pthread_mutex_lock(&v->lock);
	if (mr->suspects == NULL)
		__atomic_store_n(&mr->suspects, calloc(1, sizeof(*mr->suspects)), __ATOMIC_RELEASE);
	marked = mr->suspects != NULL;
	if (marked) {
		suspect_add(mr->suspects, s);
		suspect_publish(mr->suspects);
	}
	pthread_mutex_unlock(&v->lock);
	return marked;
}

void
weft_verbs_suspect(void *user, struct weft_mem_mr *m, uint64_t to, uint64_t len_bytes, uint8_t code)
{
	struct weft_qp *qp = user;
	struct weft_suspect s = {.to = to,
	                         .len_bytes = len_bytes,
	                         .status = code == WEFT_TERM_OP_HASH_MISMATCH ? -EBADMSG : -EIO,
	                         .failures = 1};
	struct weft_mr *mr = suspect_region(m, &s.to);

	qp->vw->stats.suspects++;
	if (len_bytes > 0 && !suspect_mark(qp->vw->ctx, mr, &s))
		WEFT_LOG_PEER(verbs, ERR,
		              "stag 0x%08x: no memory to mark %" PRIu64 " octets at %" PRIu64
		              " as suspect",
		              m->stag, len_bytes, to);
	/* What fails ends the stream: the first is the last. */
	if (qp->suspect.status != 0)
		return;
	qp->suspect = (struct verbs_suspect){
	        .stag = m->stag, .to = to, .len_bytes = len_bytes, .status = s.status};
	weft_verbs_ev_note(qp, NOTE_SUSPECT);
}

uint32_t
weft_verbs_suspects_count(const struct weft_mr *mr)
{
	const struct verbs_suspects *l = __atomic_load_n(&mr->suspects, __ATOMIC_ACQUIRE);

	return likely(l == NULL) ? 0 : __atomic_load_n(&l->count, __ATOMIC_RELAXED);
}

unsigned int
weft_mr_suspects(struct weft_mr *mr, struct weft_suspect *out, unsigned int max)
{
	struct weft_vctx *v;
	unsigned int n = 0;

	if (WEFT_HANDLE_BAD(mr, MR) || (out == NULL && max > 0))
		return 0;
	v = mr->pd->ctx;
	pthread_mutex_lock(&v->lock);
	if (mr->suspects != NULL) {
		n = mr->suspects->n;
		for (unsigned int i = 0; i < RTE_MIN(n, max); i++)
			out[i] = mr->suspects->s[i];
	}
	pthread_mutex_unlock(&v->lock);
	return n;
}

/** Under the lock. Cut [to, last] out of l->s[i]; returns where to go on. */
static unsigned int
suspect_cut(struct verbs_suspects *l, unsigned int i, uint64_t to, uint64_t last)
{
	struct weft_suspect *s = &l->s[i], rest = *s;
	uint64_t end = suspect_last(s);

	rest.to = last + 1;
	rest.len_bytes = end - last;
	if (s->to < to) {
		s->len_bytes = to - s->to;
		i++;
		if (end > last)
			suspect_insert(l, i++, &rest);
		return i;
	}
	if (end > last) {
		*s = rest;
		return i + 1;
	}
	suspect_remove(l, i);
	return i;
}

static int
suspects_clear(struct weft_mr *mr, uint64_t to, uint64_t len_bytes)
{
	uint64_t last = len_bytes == UINT64_MAX || len_bytes - 1 > UINT64_MAX - to
	                        ? UINT64_MAX
	                        : to + (len_bytes - 1);
	struct weft_vctx *v = mr->pd->ctx;
	struct verbs_suspects *l;
	int rc = 0;

	if (len_bytes == 0)
		return 0;
	pthread_mutex_lock(&v->lock);
	l = mr->suspects;
	for (unsigned int i = 0; l != NULL && i < l->n && rc == 0;) {
		struct weft_suspect *s = &l->s[i];

		if (suspect_last(s) < to || s->to > last)
			i++;
		else if (s->to < to && suspect_last(s) > last && l->n == WEFT_MAX_SUSPECTS)
			rc = -ENOSPC; /* it alone covers all that was named */
		else
			i = suspect_cut(l, i, to, last);
	}
	if (l != NULL)
		suspect_publish(l);
	pthread_mutex_unlock(&v->lock);
	return rc;
}

int
weft_mr_clear_suspects(struct weft_mr *mr, uint64_t to, uint64_t len_bytes)
{
	return WEFT_HANDLE_BAD(mr, MR) ? -EINVAL : suspects_clear(mr, to, len_bytes);
}

void
weft_verbs_suspects_reset(struct weft_mr *mr)
{
	if (likely(weft_verbs_suspects_count(mr) == 0))
		return;
	(void)suspects_clear(mr, 0, UINT64_MAX);
}
