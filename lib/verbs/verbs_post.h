/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_POST_H
#define VERBS_POST_H

/** @file Posting, as chains of several requests and the QP's life use it (verbs_post.c). */

#include "verbs_wr.h"

struct rte_ring;

/**
 * Check a work request and fill a slot with it. Any thread. Does not add a Verify to the watch
 * list.
 */
int weft_verbs_fill(struct weft_qp *qp, struct verbs_sqe *s, const struct weft_wr *wr);
/** Look up what can be looked up at the post. -EINVAL. Worker only. */
int weft_verbs_local(struct weft_qp *qp, struct verbs_sqe *s);
/** The ring for posts of other threads, made if there is none. NULL: no memory. */
struct rte_ring *weft_verbs_sq_ring(struct weft_qp *qp);
/** Before a post of the owner: take in earlier posts of other threads. Worker only. */
void weft_verbs_foreign_first(struct weft_qp *qp);
/** Tell the worker that another thread has posted. */
void weft_verbs_ring_doorbell(struct weft_qp *qp);
/** Work item: other threads posted. */
void weft_verbs_doorbell_run(struct weft_work_item *m);

#endif /* VERBS_POST_H */
