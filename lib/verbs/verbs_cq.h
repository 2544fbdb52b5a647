/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_CQ_H
#define VERBS_CQ_H

/** @file Completion queues, and the rings by which other threads post. */

#include <rte_ring.h>
#include <rte_ring_elem.h>

#include "weft_tsan.h"
#include "weft_vworker.h"

#define VERBS_CQ_MAX_DEPTH (1u << 20)

/** The completions of one worker; that worker is the only producer. */
struct weft_cq_shard {
	TAILQ_ENTRY(weft_cq_shard) link; /**< in the worker's `ready` while `queued` */
	struct weft_cq *cq;
	struct weft_vworker *vw;
	struct rte_ring *ring;
	bool queued;
	bool solicited; /**< a solicited completion or an error came since the last wake-up */
	struct weft_work_item detach; /**< run when the CQ's handle is destroyed */
};

/* Bits of a CQ's gate. 0: a poll just takes completions. */
#define CQ_GATE_OVERRUN  0x1 /**< to be reported once */
#define CQ_GATE_CALLBACK 0x2

struct weft_cq {
	struct weft_handle h;
	struct weft_vctx *ctx;
	weft_cq_fn on_wc;
	void *user;
	uint32_t depth;
	int fd;
	_Atomic uint32_t users, refs;
	_Atomic uint32_t armed;    /**< enum verbs_arm */
	_Atomic uint64_t overruns; /**< completions lost */
	atomic_bool dead;          /**< handle destroyed: completions are dropped */
	_Atomic uint32_t nsubs;
	_Atomic uint32_t rr; /**< the sub with which the next poll begins */
	struct weft_cq_shard *sub[WEFT_MAX_WORKERS];
	TAILQ_ENTRY(weft_cq) all;
};

/** The CQ's ring for a worker, made the first time. NULL: no memory. Takes a reference. */
struct weft_cq_shard *weft_verbs_cq_join(struct weft_cq *cq, struct weft_vworker *vw);
void weft_verbs_cq_unref(struct weft_cq *cq);
/**
 * A ring of elements for many producers and one consumer; free() it. `inplace`: producers fill the
 * elements in the ring itself, one producer at a time. NULL: no memory.
 */
struct rte_ring *weft_verbs_ring_mpsc(unsigned int esize, uint32_t count, bool inplace);
/** Take the next element of such a ring; false: it is empty. Consumer only. */
static inline bool
weft_verbs_ring_take(struct rte_ring *r, void *elem, unsigned int esize)
{
	if (rte_ring_sc_dequeue_elem(r, elem, esize) != 0)
		return false;
	WEFT_TSAN_ACQUIRE(r);
	return true;
}
/** Free a CQ even if there are pointers to it; teardown of the context. */
void weft_verbs_cq_free(struct weft_cq *cq);
/** Add a completion; false when there is no room. Owner only. */
bool weft_verbs_cq_put(struct weft_cq_shard *sub, const struct weft_wc *wc);
/** Deliver new completions: callbacks or wake-ups. */
unsigned int weft_verbs_cq_deliver(struct weft_vworker *vw);

#endif /* VERBS_CQ_H */
