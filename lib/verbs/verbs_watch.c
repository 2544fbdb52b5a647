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
#include "weft_verbs_chain.h"

#define WATCH_CHUNK 32

struct verbs_watch_ent {
	_Atomic uint32_t seq; /**< odd while the entry is being filled */
	_Atomic uint32_t stag;
	_Atomic uint32_t len_bytes;
	_Atomic uint64_t to;
};

struct verbs_watch {
	_Atomic uint32_t taken, live; /**< a bit for each entry */
	_Atomic uint32_t
	        writing; /**< the range is about to be written by the thread that added it */
	struct verbs_watch *_Atomic next;
	struct verbs_watch_ent e[WATCH_CHUNK];
};

/** The chunk at *at, allocated if there is none. NULL: no memory. */
static struct verbs_watch *
watch_chunk(struct verbs_watch *_Atomic *at)
{
	struct verbs_watch *w = atomic_load_explicit(at, memory_order_acquire), *mine;

	if (likely(w != NULL))
		return w;
	mine = calloc(1, sizeof(*mine));
	if (mine == NULL)
		return NULL;
	if (atomic_compare_exchange_strong_explicit(at, &w, mine, memory_order_acq_rel,
	                                            memory_order_acquire))
		return mine;
	free(mine);
	return w;
}

/** Take a free entry of the chunk; -1: there is none. */
static int
watch_take(struct verbs_watch *w)
{
	uint32_t taken = atomic_load_explicit(&w->taken, memory_order_relaxed);

	while (taken != UINT32_MAX) {
		unsigned int i = (unsigned int)__builtin_ctz(~taken);

		if (atomic_compare_exchange_weak_explicit(&w->taken, &taken, taken | 1u << i,
		                                          memory_order_acquire,
		                                          memory_order_relaxed))
			return (int)i;
	}
	return -1;
}

int
weft_verbs_watch_add(struct weft_qp *qp, uint32_t stag, uint64_t to, uint32_t len_bytes,
                     bool writing)
{
	struct verbs_watch *_Atomic *at = &qp->watch, *w;
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
	seq = atomic_load_explicit(&e->seq, memory_order_relaxed);
	atomic_store_explicit(&e->seq, seq + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&e->stag, stag, memory_order_relaxed);
	atomic_store_explicit(&e->to, to, memory_order_relaxed);
	atomic_store_explicit(&e->len_bytes, len_bytes, memory_order_relaxed);
	atomic_store_explicit(&e->seq, seq + 2, memory_order_release);
	if (writing)
		atomic_fetch_or_explicit(&w->writing, 1u << i, memory_order_release);
	atomic_fetch_or_explicit(&w->live, 1u << i, memory_order_seq_cst);
	return (int)(base + (uint32_t)i);
}

static struct verbs_watch *
watch_of(struct weft_qp *qp, uint32_t i)
{
	struct verbs_watch *w = atomic_load_explicit(&qp->watch, memory_order_acquire);

	for (; i >= WATCH_CHUNK; i -= WATCH_CHUNK)
		w = atomic_load_explicit(&w->next, memory_order_acquire);
	return w;
}

void
weft_verbs_watch_del(struct weft_qp *qp, uint32_t i)
{
	struct verbs_watch *w = watch_of(qp, i);
	uint32_t bit = 1u << i % WATCH_CHUNK;

	atomic_fetch_and_explicit(&w->live, ~bit, memory_order_release);
	atomic_fetch_and_explicit(&w->writing, ~bit, memory_order_release);
	atomic_fetch_and_explicit(&w->taken, ~bit, memory_order_release);
}

static bool
watch_overlaps(struct verbs_watch_ent *e, uint32_t stag, uint64_t to, uint32_t len_bytes)
{
	uint32_t seq = atomic_load_explicit(&e->seq, memory_order_acquire), e_stag, e_len;
	uint64_t e_to;

	e_stag = atomic_load_explicit(&e->stag, memory_order_relaxed);
	e_len = atomic_load_explicit(&e->len_bytes, memory_order_relaxed);
	e_to = atomic_load_explicit(&e->to, memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	if ((seq & 1) != 0 || atomic_load_explicit(&e->seq, memory_order_relaxed) != seq)
		return false;
	/* Offsets wrap, so their differences are compared. */
	return e_stag == stag && (e_to - to < len_bytes || to - e_to < e_len);
}

bool
weft_verbs_watch_hit(struct weft_qp *qp, uint32_t stag, uint64_t to, uint32_t len_bytes,
                     bool writes, const uint32_t *own, unsigned int n_own)
{
	struct verbs_watch *w = atomic_load_explicit(&qp->watch, memory_order_acquire);

	for (uint32_t base = 0; w != NULL;
	     w = atomic_load_explicit(&w->next, memory_order_acquire), base += WATCH_CHUNK) {
		uint32_t look = atomic_load_explicit(&w->live, memory_order_seq_cst);

		if (!writes)
			look &= atomic_load_explicit(&w->writing, memory_order_acquire);
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
		struct verbs_watch *next = atomic_load_explicit(&w->next, memory_order_relaxed);

		free(w);
		w = next;
	}
}
