/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_SRQ_H
#define VERBS_SRQ_H

/** @file Shared receive queues, as queue pairs, events and queries see them. */

#include <stdalign.h>

#include "weft_vworker.h"

#define VERBS_SRQ_MAX_DEPTH (1u << 16)

struct weft_srq {
	struct weft_handle h; /**< its gate also holds max_sge, for the data path */
	struct weft_vctx *ctx;
	struct weft_pd *pd;
	struct weft_evq *evq;
	void *user;
	uint32_t depth, mask;
	uint16_t slot_bytes;
	uint8_t max_sge;
	atomic_bool dead; /**< the handle is destroyed */
	_Atomic uint32_t users, refs;
	void (*free)(struct weft_srq *srq); /**< when the last reference is gone */
	_Atomic uint32_t nrings;            /**< grows under the context's lock */
	/** the first one is for other threads */
	struct verbs_srq_ring *ring[WEFT_MAX_WORKERS + 1];
	TAILQ_ENTRY(weft_srq) all;
	/*
	 * The limit is armed while there is a node. The thread that takes the node reports the
	 * event.
	 */
	_Atomic uint32_t limit; /**< 0: disarmed, even if there is a node */
	struct weft_evnode *_Atomic armed;
	_Atomic uint64_t no_buffer, limit_events;
	alignas(64) _Atomic uint32_t credits;
};

/** Add a QP of this worker as a user of the SRQ; -ENOMEM. Takes a reference. */
int weft_verbs_srq_join(struct weft_srq *srq, struct weft_vworker *vw);
void weft_verbs_srq_unuse(struct weft_srq *srq);

static inline void
weft_verbs_srq_unref(struct weft_srq *srq)
{
	if (atomic_fetch_sub_explicit(&srq->refs, 1, memory_order_acq_rel) == 1)
		srq->free(srq);
}

static inline bool
weft_verbs_srq_is_dead(const struct weft_srq *srq)
{
	return atomic_load_explicit(&srq->dead, memory_order_acquire);
}

const struct weft_mem_pd *weft_verbs_srq_pd(const struct weft_srq *srq);
uint8_t weft_verbs_srq_max_sge(const struct weft_srq *srq);
/** The next SRQ in the context's list, whose lock is held. */
struct weft_srq *weft_verbs_srq_next(const struct weft_srq *srq);
/** The counter of free places for receives. */
_Atomic uint32_t *weft_verbs_srq_credits(struct weft_srq *srq);
/** Take a receive into the QP's own queue; false: none is posted. The QP's worker only. */
bool weft_verbs_srq_take(struct weft_qp *qp);
/** Take the event of the armed limit, to deliver it or to put it back; NULL: there is none. */
struct weft_evnode *weft_verbs_srq_arm_take(struct weft_srq *srq);
/** Put it back: the limit is not reached. It may have been armed or disarmed meanwhile. */
void weft_verbs_srq_arm_back(struct weft_srq *srq, struct weft_evnode *n);
/** Return the receive that the QP holds, unused. The QP's worker only. */
void weft_verbs_srq_give_back(struct weft_qp *qp);

#endif /* VERBS_SRQ_H */
