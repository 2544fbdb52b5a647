/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_QUEUE_H
#define VERBS_QUEUE_H

/**
 * @file The queues of a queue pair, below posting: completions, the send queue, the receive queue,
 * windows that are bound to the stream, and rdmap's up-calls about them. On the QP's worker only.
 */

#include "verbs_cq.h"
#include "verbs_wr.h"

/* ---- Completions (verbs_wc.c) ---- */

/** The status of a completion, by enum weft_rdmap_status. */
extern const uint8_t weft_verbs_wc_status[];
/** A completion was lost: report it once, and reset the QP. */
void weft_verbs_overrun(struct weft_qp *qp, struct weft_cq_shard *sub);

/** Put a completion into its CQ. If there is no room, the QP ends. */
static inline void
verbs_wc(struct weft_qp *qp, struct weft_cq_shard *sub, struct weft_wc *wc)
{
	/* Destroyed from another thread: the consumer expects no more completions. */
	if (unlikely(atomic_load_explicit(&qp->dying, memory_order_relaxed)) && !qp->flushing)
		return;
	wc->qp = qp;
	wc->qp_user = qp->user;
	if (unlikely(!weft_verbs_cq_put(sub, wc)))
		weft_verbs_overrun(qp, sub);
}

/* ---- The send queue (verbs_sq.c) ---- */

/** Allocate the send queue's memory again; false: no memory. */
bool weft_verbs_sq_wake(struct weft_qp *qp);
/** Complete as flushed what rdmap, which is destroyed, left undone. */
void weft_verbs_sq_flush(struct weft_qp *qp);
/** A request that never reached rdmap is dropped: complete it as flushed. */
void weft_verbs_sq_drop(struct weft_qp *qp, struct verbs_sqe *s);
/** rdmap's up-calls. */
void weft_verbs_done(void *user, struct weft_rdmap_req *req, enum weft_rdmap_status status);
void weft_verbs_turn(void *user, bool begins);
/** Complete now what was done in this turn. */
void weft_verbs_reap(struct weft_qp *qp);
void weft_verbs_write_refused(void *user, uint32_t stag, uint64_t to,
                              enum weft_rdmap_status status);

/* ---- The receive queue (verbs_rq.c) ---- */

/** Complete all receives as flushed. */
void weft_verbs_rq_flush(struct weft_qp *qp);
/** rdmap's up-calls. */
const struct weft_rdmap_sge *weft_verbs_recv_buf(void *user, uint8_t *nsge);
void weft_verbs_recv_done(void *user, enum weft_rdmap_status status, uint32_t len_bytes,
                          bool solicited, uint32_t inv_stag);
bool weft_verbs_recv_whole(void *user, const uint8_t *p, uint32_t len_bytes);
void weft_verbs_recv_imm(void *user, const uint8_t imm[WEFT_RDMAP_IMM_BYTES], bool solicited);

/* ---- Windows of the stream (verbs_mw.c) ---- */

/** A window was bound to the stream. */
void weft_verbs_mw_bound(struct weft_qp *qp, struct weft_mw *mw);
/** The stream invalidates its window; the list's reference passes to the caller. */
void weft_verbs_mw_unbound(struct weft_qp *qp, struct weft_mw *mw);
/** The stream has ended: its windows end. */
void weft_verbs_mw_orphan(struct weft_qp *qp);

/* ---- Ranges that fail (verbs_bad_range.c) ---- */

/** rdmap's up-call. */
void weft_verbs_bad_range(void *user, struct weft_mem_mr *m, uint64_t to, uint64_t len_bytes,
                          uint8_t code, int status);

#endif /* VERBS_QUEUE_H */
