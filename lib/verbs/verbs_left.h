/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_LEFT_H
#define VERBS_LEFT_H

/** @file Streams whose QP is gone, and that close by themselves: weft_qp_leave(). On the worker. */

#include "weft_verbs_qp.h"

struct verbs_left;

/** gone() of weft_qp_leave(). */
typedef void (*verbs_left_fn)(void *arg, int status);

/** Allocate what a stream needs when its QP is gone. gone: NULL, or called when it has ended, see
 * weft_qp_leave(). NULL: no memory. */
struct verbs_left *weft_verbs_left_new(struct weft_vworker *vw, verbs_left_fn gone, void *arg);
/** It was not needed. */
void weft_verbs_left_free(struct verbs_left *l);
/**
 * Take the QP's stream over, and with it the QP's place in nqps. The QP is to be destroyed next,
 * and weft_verbs_left_put() is to be called in the course of that. False: nothing has changed; see
 * weft_rdmap_leave().
 */
bool weft_verbs_left_take(struct verbs_left *l, struct weft_qp *qp, uint64_t wait_ns);
/** The QP does not count its stream any more: it is listed here. The context's lock is held. */
void weft_verbs_left_put(struct verbs_left *l);
/** Add the counts of all streams here. The context's lock is held. */
void weft_verbs_left_stats(const struct weft_vworker *vw, struct weft_vworker_stats *st);
/** Reset the oldest stream, at the end of the context. False: there is none. */
bool weft_verbs_left_cut(struct weft_vworker *vw);

#endif /* VERBS_LEFT_H */
