/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Ranges with a Verify under way (draft-talpey-rdma-commit-02 s2.2.2), shared by all threads
 * that post.
 *
 * A thread that is about to write first adds its ranges and then checks for overlapping ones. So of
 * two threads that race, at least one sees the other's range. There is no lock. A thread takes an
 * entry by a bit in `taken`, fills it, and publishes it by a bit in `live`. A sequence number tells
 * a reader that the entry was filled again meanwhile. The thread that did so checks after it added
 * its entry, so it sees the reader's range.
 */

#include <stdlib.h>

#include "weft_verbs_qp.h"
#include "weft_verbs_unit.h"

#define WATCH_CHUNK 32

struct verbs_watch_ent {
	uint32_t seq; /**< odd while the entry is being filled */
	uint32_t stag;
	uint32_t len_bytes;
	uint64_t to;
};

/** All members are atomic. */
struct verbs_watch {
	uint32_t taken, live; /**< a bit for each entry */
	uint32_t writing;     /**< the range is about to be written by the thread that added it */
	struct verbs_watch *next;
	struct verbs_watch_ent e[WATCH_CHUNK];
};

/** The chunk at *at, allocated if there is none. NULL: no memory. */
static struct verbs_watch *
watch_chunk(struct verbs_watch **at)
{
	struct verbs_watch *w = __atomic_load_n(at, __ATOMIC_ACQUIRE), *mine;

	if (likely(w != NULL))
		return w;
	mine = calloc(1, sizeof(*mine));
	if (mine == NULL)
		return NULL;
	if (__atomic_compare_exchange_n(at, &w, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return mine;
	free(mine);
	return w;
}

/** Take a free entry of the chunk; -1: there is none. */
static int
watch_take(struct verbs_watch *w)
{
	uint32_t taken = __atomic_load_n(&w->taken, __ATOMIC_RELAXED);

	while (taken != UINT32_MAX) {
		unsigned int i = (unsigned int)__builtin_ctz(~taken);

		if (__atomic_compare_exchange_n(&w->taken, &taken, taken | 1u << i, true,
		                                __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return (int)i;
	}
	return -1;
}

int
weft_verbs_watch_add(struct weft_qp *qp, uint32_t stag, uint64_t to, uint32_t len_bytes,
                     bool writing)
{
	struct verbs_watch **at = &qp->watch, *w;
	struct verbs_watch_ent *e;
	uint32_t base = 0, seq;
	int i;

	for (;; at = &w->next, base += WATCH_CHUNK) {
		w = watch_chunk(at);
		if (w == NULL)
			return -ENOMEM;
		i = watch_take(w);
		if (i >= 0)
			break;
	}
	e = &w->e[i];
	seq = __atomic_load_n(&e->seq, __ATOMIC_RELAXED);
	__atomic_store_n(&e->seq, seq + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	__atomic_store_n(&e->stag, stag, __ATOMIC_RELAXED);
	__atomic_store_n(&e->to, to, __ATOMIC_RELAXED);
	__atomic_store_n(&e->len_bytes, len_bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&e->seq, seq + 2, __ATOMIC_RELEASE);
	if (writing)
		__atomic_fetch_or(&w->writing, 1u << i, __ATOMIC_RELEASE);
	__atomic_fetch_or(&w->live, 1u << i, __ATOMIC_SEQ_CST);
	return (int)(base + (uint32_t)i);
}

static struct verbs_watch *
watch_of(struct weft_qp *qp, uint32_t i)
{
	struct verbs_watch *w = __atomic_load_n(&qp->watch, __ATOMIC_ACQUIRE);

	for (; i >= WATCH_CHUNK; i -= WATCH_CHUNK)
		w = __atomic_load_n(&w->next, __ATOMIC_ACQUIRE);
	return w;
}

void
weft_verbs_watch_del(struct weft_qp *qp, uint32_t i)
{
	struct verbs_watch *w = watch_of(qp, i);
	uint32_t bit = 1u << i % WATCH_CHUNK;

	__atomic_fetch_and(&w->live, ~bit, __ATOMIC_RELEASE);
	__atomic_fetch_and(&w->writing, ~bit, __ATOMIC_RELEASE);
	__atomic_fetch_and(&w->taken, ~bit, __ATOMIC_RELEASE);
}

static bool
watch_overlaps(struct verbs_watch_ent *e, uint32_t stag, uint64_t to, uint32_t len_bytes)
{
	uint32_t seq = __atomic_load_n(&e->seq, __ATOMIC_ACQUIRE), e_stag, e_len;
	uint64_t e_to;

	e_stag = __atomic_load_n(&e->stag, __ATOMIC_RELAXED);
	e_len = __atomic_load_n(&e->len_bytes, __ATOMIC_RELAXED);
	e_to = __atomic_load_n(&e->to, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if ((seq & 1) != 0 || __atomic_load_n(&e->seq, __ATOMIC_RELAXED) != seq)
		return false;
	/* Offsets wrap, so their differences are compared. */
	return e_stag == stag && (e_to - to < len_bytes || to - e_to < e_len);
}

bool
weft_verbs_watch_hit(struct weft_qp *qp, uint32_t stag, uint64_t to, uint32_t len_bytes,
                     bool writes, const uint32_t *own, unsigned int n_own)
{
	struct verbs_watch *w = __atomic_load_n(&qp->watch, __ATOMIC_ACQUIRE);

	for (uint32_t base = 0; w != NULL;
	     w = __atomic_load_n(&w->next, __ATOMIC_ACQUIRE), base += WATCH_CHUNK) {
		uint32_t look = __atomic_load_n(&w->live, __ATOMIC_SEQ_CST);

		if (!writes)
			look &= __atomic_load_n(&w->writing, __ATOMIC_ACQUIRE);
		for (unsigned int k = 0; k < n_own; k++)
			if (own[k] - base < WATCH_CHUNK)
				look &= ~(1u << (own[k] - base));
		for (; look != 0; look &= look - 1)
			if (watch_overlaps(&w->e[__builtin_ctz(look)], stag, to, len_bytes))
				return true;
	}
	return false;
}

void
weft_verbs_watch_free(struct verbs_watch *w)
{
	while (w != NULL) {
		struct verbs_watch *next = w->next;

		free(w);
		w = next;
	}
}
