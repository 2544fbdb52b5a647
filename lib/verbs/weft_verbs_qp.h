/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_VERBS_QP_H
#define WEFT_VERBS_QP_H

/**
 * @file The queue pair, as all who work on one see it. verbs_wr.h has the entries of its queues,
 * verbs_queue.h their completion, verbs_post.h posting.
 */

#include <stdalign.h>

#include "weft_verbs_event.h"
#include "weft_vworker.h"

#define VERBS_QP_MAX_DEPTH (1u << 16)
#define VERBS_QP_MAX_IRD   0x3ffe /* RFC 6581 s9.1: 0x3fff means "not negotiated" */

struct rte_ring;
TAILQ_HEAD(weft_mw_list, weft_mw);

/**
 * What a query reports of a connection, also after it is gone. The QP's worker writes it under the
 * context's lock, and only it reads without the lock.
 */
struct verbs_snap {
	uint16_t ird, ord; /**< agreed; before, as requested */
	bool terminated;
	struct weft_terminate term;
	struct weft_mpa_info mpa; /**< agreed */
	struct weft_ip local, remote;
	uint16_t local_port, remote_port;
	bool named; /**< the addresses are known */
	uint16_t mulpdu_bytes;
	uint32_t srtt_us, unacked_bytes;
	uint64_t sent_msgs, recv_msgs, sent_bytes, recv_bytes, retrans_segs, ord_stalls;
	uint16_t out_reads, in_reads;
	struct weft_ddp_queue_info ddp[WEFT_DDP_QUEUES];
};

/** State of connection management. Only a weft_connect() that fails at once goes back to IDLE. */
enum verbs_cm {
	CM_IDLE,
	CM_CONNECTING, /**< or accepting */
	CM_UP,
	CM_DOWN, /**< the last event was delivered */
};

struct weft_cm_conn;
struct verbs_watch;

/* Bits of a QP's gate. */
#define QP_GATE_SEND 0x1 /**< nothing can be sent yet */
#define QP_GATE_RECV 0x2 /**< its receives come from an SRQ */

struct weft_qp {
	struct weft_handle h;
	/* the worker only; the first two cache lines are those of short messages */
	struct weft_vworker *vw;
	struct weft_rdmap *rdmap;
	struct weft_cq_shard *send_sub;
	void *user;
	struct weft_pd *pd;
	uint8_t *sq; /**< struct verbs_sqe; NULL while empty and unused for a time */
	uint32_t sq_mask, sq_head, sq_tail;
	uint32_t locals;               /**< local work requests in the send queue */
	uint16_t sqe_bytes, rqe_bytes; /**< of one entry of sq, of rq */
	bool all_signaled;
	/** the stream has its turn: requests are completed at its end, not one by one */
	bool in_turn;
	/** a send request ended the stream, or failed with it: all behind are flushed */
	bool sq_failed;
	bool rq_dead; /**< receives are flushed when posted */
	uint8_t *rq;  /**< struct verbs_rqe; with an SRQ, the one that it holds */
	uint32_t rq_mask, rq_head, rq_tail;
	uint8_t max_send_sge, max_sge;
	uint16_t max_inline_bytes;
	struct weft_cq_shard *recv_sub;
	struct weft_srq *srq;        /**< NULL: none */
	_Atomic uint32_t *rq_places; /**< rq_credits, or the SRQ's */
	uint32_t sq_seen;            /**< sq_tail at the last check for unused memory */
	bool overrun;                /**< a completion was lost: the QP will be reset */
	atomic_bool overrun_told;    /**< the event was delivered */
	bool aborting;               /**< queued in `later` to be reset */
	bool flushing;  /**< destroyed on the worker: its last completions are delivered */
	bool dead;      /**< destroyed on the worker; memory waits for refs */
	uint8_t waits;  /**< how often in a row the head of the send queue had to wait */
	bool uncounted; /**< was reset; its place in nqps was given away */
	/** requested; weft_connect() and weft_accept() store them while other threads query */
	_Atomic uint16_t ird, ord;
	/** bound to the stream and not invalidated by it; with references */
	struct weft_mw_list windows;
	struct weft_evq *evq;
	struct weft_cq *send_cq, *recv_cq;
	/* any thread */
	alignas(64) _Atomic uint32_t sq_credits; /**< slots free */
	_Atomic uint32_t rq_credits;
	_Atomic uint32_t doorbell_rung;
	_Atomic uint32_t dying; /**< weft_qp_destroy() was called */
	_Atomic uint32_t cm;    /**< enum verbs_cm */
	_Atomic uint32_t state; /**< enum weft_qp_state */
	_Atomic uint32_t refs;  /**< handle, and work items under way */
	uint32_t qpn;
	/** posts of other threads; made at the first one */
	struct rte_ring *_Atomic sq_ring, *_Atomic rq_ring;
	struct verbs_watch
	        *_Atomic watch; /**< made at the first Verify or weft_commit(); any thread */
	struct weft_work_item doorbell, destroy; /**< sent by other threads */
	void (*free)(struct weft_qp *qp);        /**< when the last reference is gone */
	/* connection management, on the worker */
	uint32_t sq_depth, rq_depth;
	struct weft_cm_conn *conn;   /**< of lib/cm; part of the QP's memory */
	struct weft_timer timer;     /**< frees unused memory, resumes local work */
	struct weft_evnode *last_ev; /**< allocated in advance for the last event */
	struct weft_evnode note;     /**< likewise, for the notes */
	struct verbs_bad_range bad_range;
	struct weft_cq *overrun_cq;
	struct weft_work_item later;
	/* snapshot for queries of other threads, under the context's lock */
	struct verbs_snap snap;
	struct weft_work_item snap_work;
	_Atomic uint32_t snap_asked;
	bool listed; /**< in the context's list, under its lock: rdmap exists */
	TAILQ_ENTRY(weft_qp) all;
};

/** The state of connection management; on the QP's worker. */
static inline enum verbs_cm
verbs_cm_get(const struct weft_qp *qp)
{
	return atomic_load_explicit(&qp->cm, memory_order_relaxed);
}

/** Set the state of connection management, which the gate tells the data path. */
static inline void
verbs_cm_set(struct weft_qp *qp, enum verbs_cm cm)
{
	atomic_store_explicit(&qp->cm, cm, memory_order_release);
	if (cm >= CM_UP)
		atomic_fetch_and_explicit(WEFT_ATOMIC_REF(qp->h.gate), ~(uint32_t)QP_GATE_SEND,
		                          memory_order_release);
}

static inline void
weft_verbs_qp_ref(struct weft_qp *qp)
{
	atomic_fetch_add_explicit(&qp->refs, 1, memory_order_relaxed);
}

static inline void
weft_verbs_qp_unref(struct weft_qp *qp)
{
	if (atomic_fetch_sub_explicit(&qp->refs, 1, memory_order_acq_rel) == 1)
		qp->free(qp);
}

/** Reset the stream soon, not inside the up-call. */
static inline void
weft_verbs_qp_abort_later(struct weft_qp *qp)
{
	if (qp->aborting)
		return;
	qp->aborting = true;
	weft_verbs_qp_ref(qp);
	weft_vworker_later(qp->vw, &qp->later);
}

/** Reset the stream at once; not inside an up-call of the QP. */
void weft_verbs_qp_abort(struct weft_qp *qp);
/** weft_qp_leave(), behind weft_disconnect(). On the QP's worker. */
int weft_verbs_qp_leave(struct weft_qp *qp, uint64_t wait_ns, void (*gone)(void *arg, int status),
                        void *arg);
/** Take in receives that other threads have posted. Returns whether there were some. Worker. */
bool weft_verbs_take_receives(struct weft_qp *qp);
/** Take in posts of other threads; without an rdmap only into the queues. */
void weft_verbs_take_posts(struct weft_qp *qp);
/**
 * Whether a stream that its QP has left can be reset for a QP or a connection; take: it is. None
 * that the worker has not polled since. Worker.
 */
bool weft_verbs_make_room(struct weft_vworker *vw, bool take);
/** The QP was reset for another connection: it gives away its place in weft_vworker.nqps. */
void weft_verbs_qp_uncount(struct weft_qp *qp);
/** Work item: another thread queried. */
void weft_verbs_qp_snap(struct weft_work_item *m);
/** Add the counters of a stream. The context's lock is held. */
void weft_verbs_count(const struct weft_vctx *v, struct weft_rdmap *r,
                      struct weft_vworker_stats *st);

#endif /* WEFT_VERBS_QP_H */
