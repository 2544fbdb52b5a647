/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_UNIT_H
#define VERBS_UNIT_H

/**
 * @file Transactions of several work requests with one completion (weft_commit()), and the ranges
 * with a Verify under way that a transaction must not write. In this layer a transaction is a unit.
 *
 * The parts of a unit are adjacent in the send queue and leave it together, when the last one is
 * done. So a Write that was copied long ago keeps its place, and a Terminate that names it can be
 * matched.
 */

#include "verbs_priv.h"

/* ---- Posting, of verbs_post.c ---- */

/**
 * Check a work request and fill a slot with it. Any thread. Does not add a Verify to the watch
 * list.
 */
int weft_verbs_fill(struct weft_qp *qp, struct verbs_swr *s, const struct weft_wr *wr);
/** Look up what can be looked up at the post. -EINVAL. Worker only. */
int weft_verbs_local(struct weft_qp *qp, struct verbs_swr *s);
/** The ring for posts of other threads, made if there is none. NULL: no memory. */
struct rte_ring *weft_verbs_sq_ring(struct weft_qp *qp);
/** Before a post of the owner: take in earlier posts of other threads. Worker only. */
void weft_verbs_foreign_first(struct weft_qp *qp);
/** Tell the worker that another thread has posted. */
void weft_verbs_ring_bell(struct weft_qp *qp);

/* ---- Completing, of verbs_qp.c ---- */

/** A request at the head of the send queue has failed, or the stream failed before it. */
void weft_verbs_sq_fail(struct weft_qp *qp, struct verbs_swr *s);

/* ---- Transactions (verbs_commit.c) and the watch list (verbs_watch.c) ---- */

/**
 * The head of the send queue is a unit: complete it if all its parts are done, and count its
 * places. False: not all are done. Worker only.
 */
bool weft_verbs_unit_reap(struct weft_qp *qp, uint32_t *free_places);
/**
 * The peer refused a Write. If it is a part of a unit, its status becomes `status`. Worker only.
 */
void weft_verbs_unit_refused(struct weft_qp *qp, uint32_t stag, uint64_t to,
                             enum weft_wc_status status);
/** A request that never reached rdmap is dropped. True: it makes a completion, *wc. Worker only. */
bool weft_verbs_unit_dropped(struct weft_qp *qp, struct verbs_swr *s, struct weft_wc *wc);

/**
 * Add a range to the watch list: with a Verify, from before the post until the answer; with
 * `writing`, a range that the caller is about to write, until it is posted. Returns its number, or
 * -ENOMEM. Any thread.
 */
int weft_verbs_watch_add(struct weft_qp *qp, uint32_t stag, uint64_t to, uint32_t len_bytes,
                         bool writing);
void weft_verbs_watch_del(struct weft_qp *qp, uint32_t i);
/**
 * Whether the range overlaps an entry, except those in own[]. `writes` false: only entries that are
 * about to be written count. The caller has added all its own ranges before.
 */
bool weft_verbs_watch_hit(struct weft_qp *qp, uint32_t stag, uint64_t to, uint32_t len_bytes,
                          bool writes, const uint32_t *own, unsigned int n_own);
void weft_verbs_watch_free(struct verbs_watch *w);

#endif /* VERBS_UNIT_H */
