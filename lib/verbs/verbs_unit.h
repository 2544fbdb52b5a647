/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_UNIT_H
#define VERBS_UNIT_H

/**
 * @file Units: several work requests in one piece with one completion (weft_commit()), and the
 * ranges with a Verify under way that they must not write.
 *
 * The parts of a unit stand side by side in the send queue and leave it together, by its last one.
 * A Write that was copied long ago so keeps its place, and a Terminate that names it finds it.
 */

#include "verbs_priv.h"

/* ---- Posting, of verbs_post.c ---- */

/** Check a work request and lay it into a slot; needs nothing of the worker. A Verify is not
 * watched. */
int weft_verbs_fill(struct weft_qp *qp, struct verbs_swr *s, const struct weft_wr *wr);
/** What of it can be looked up at the post, is. -EINVAL. Worker only. */
int weft_verbs_local(struct weft_qp *qp, struct verbs_swr *s);
/** Where other threads' posts go, made if need be; NULL: no memory. */
struct rte_ring *weft_verbs_sq_ring(struct weft_qp *qp);
/** Before an owner's post: what other threads have posted comes first. Worker only. */
void weft_verbs_foreign_first(struct weft_qp *qp);
/** Other threads have posted: the worker takes it in. */
void weft_verbs_ring_bell(struct weft_qp *qp);

/* ---- Completing, of verbs_qp.c ---- */

/** A request at the head of the send queue is no success, or the stream has failed before it. */
void weft_verbs_sq_fail(struct weft_qp *qp, struct verbs_swr *s);

/* ---- Transactions (verbs_commit.c) and what they must not write (verbs_watch.c) ---- */

/**
 * The head of the send queue is a unit: complete it when all of it is done, and count its places.
 * False: it is not. Worker only.
 */
bool weft_verbs_unit_reap(struct weft_qp *qp, uint32_t *free_places);
/** The peer refused a Write; if a unit's, that is what has become of it. Worker only. */
void weft_verbs_unit_refused(struct weft_qp *qp, uint32_t stag, uint64_t to,
                             enum weft_wc_status status);
/** The stream never knew this one: its completion, if it makes one. Worker only. */
bool weft_verbs_unit_dropped(struct weft_qp *qp, struct verbs_swr *s, struct weft_wc *wc);

/**
 * A range with a Verify, from before that is posted until it is answered; or (`writing`) one that
 * who calls is about to write, until that is posted. Its number, or -ENOMEM. Any thread.
 */
int weft_verbs_watch_add(struct weft_qp *qp, uint32_t stag, uint64_t to, uint32_t len_bytes,
                         bool writing);
void weft_verbs_watch_del(struct weft_qp *qp, uint32_t i);
/**
 * Whether the range overlaps one that is there, those in own[] apart; `writes` false: one that is
 * about to be written. The caller has added its own, all of them, before it asks.
 */
bool weft_verbs_watch_hit(struct weft_qp *qp, uint32_t stag, uint64_t to, uint32_t len_bytes,
                          bool writes, const uint32_t *own, unsigned int n_own);
void weft_verbs_watch_free(struct verbs_watch *w);

#endif /* VERBS_UNIT_H */
