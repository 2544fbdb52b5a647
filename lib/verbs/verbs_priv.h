/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_PRIV_H
#define VERBS_PRIV_H

/**
 * @file What the files of lib/verbs share: the objects behind the handles, and how a call on
 * another thread reaches the worker.
 *
 * The memory of an object may exist longer than its handle. `users` counts the handles that use the
 * object (-EBUSY), `refs` counts the pointers to it. Callbacks of the user run only from
 * weft_vworker_deliver(), from work items and from alarms, never inside an up-call of a lower
 * layer. So they may destroy anything.
 */

#include <pthread.h>
#include <stdalign.h>

#include <rte_ring.h>
#include <rte_ring_elem.h>

#include "weft_mem.h"
#include "weft_mpa_startup.h"
#include <weft/standing.h>
#include "weft_tsan.h"
#include "weft_vworker.h"

WEFT_LOG_DECLARE(verbs);

/* ---- Limits ---- */

#define VERBS_CQ_MAX_DEPTH  (1u << 20)
#define VERBS_SRQ_MAX_DEPTH (1u << 16)
#define VERBS_QP_MAX_DEPTH  (1u << 16)
#define VERBS_QP_MAX_IRD    (WEFT_MPA_IRD_ORD_NONE - 1) /* 0x3fff means "not negotiated" */

/* ---- Domains and regions ---- */

struct weft_pd {
	struct weft_handle h;
	struct weft_mem_pd mem;
	struct weft_vctx *ctx;
	uint32_t users;            /**< handles: QPs, regions and windows */
	uint32_t nqps;             /**< handles of QPs, which may use its regions (atomic) */
	uint32_t refs;             /**< pointers: handle, QPs, regions and windows */
	TAILQ_HEAD(, weft_mw) mws; /**< under the context's lock */
	TAILQ_ENTRY(weft_pd) all;
};

struct weft_mr {
	struct weft_handle h;
	/**
	 * Of weft_mr_reg(): valid while `bound` is not closed. Of weft_mr_alloc(): while not
	 * `dead`.
	 */
	struct weft_mem_mr *mr;
	struct weft_pd *pd;
	struct weft_mem_attr attr; /**< of weft_mr_reg(): as registered */
	_Atomic uint32_t stag;
	_Atomic uint32_t bound; /**< weft_mem_attr.bound; tells also whether it is valid */
	void (*freed)(void *arg);
	void *freed_arg;
	bool fast; /**< of weft_mr_alloc() */
	bool dead; /**< atomic: weft_mr_dereg() was called */
	bool gone; /**< atomic: no operation accesses the memory any more */
	/** counts the handle and the region; freed() is called when both are gone */
	uint32_t left;
	/** calls freed() if the handle is the last, outside weft_mr_dereg() */
	struct weft_work_item last;
	uint32_t refs; /**< handle, region, work requests, a revocation */
	/* under the context's lock; NULL: none */
	struct verbs_revoke *revoke;         /**< a revocation under way */
	struct verbs_bad_ranges *bad_ranges; /**< made at the first failure */
	TAILQ_ENTRY(weft_mr) all;
};

struct weft_mw {
	struct weft_handle h;
	struct weft_mem_mr *win; /**< valid while not `dead` */
	struct weft_pd *pd;
	_Atomic uint32_t stag;
	bool dead;     /**< atomic: weft_mw_dealloc() was called */
	bool gone;     /**< atomic: weft_mw_dealloc() has made it invalid */
	uint32_t refs; /**< the handle, the window, work requests, the stream it was bound to */
	TAILQ_ENTRY(weft_mw) all;
	TAILQ_ENTRY(weft_mw) bound; /**< in its stream's `windows` */
};
TAILQ_HEAD(weft_mw_list, weft_mw);

/**
 * Invalidate a region of weft_mr_reg(): the STag ends, the handle stays until weft_mr_dereg(). The
 * caller looked it up in this poll, so it and its handle exist. -EBUSY: windows are bound to it.
 */
int weft_verbs_mr_disable(struct weft_vctx *v, struct weft_mem_mr *mem_mr);
void weft_verbs_mr_unref(struct weft_mr *mr);
/** The caller's worker, else one that a thread polls, else the first; NULL: there is none. */
struct weft_vworker *weft_verbs_any_worker(const struct weft_vctx *v);
/**
 * Take the context's lock in order to destroy a claimed handle. -EBUSY: the object is in use; the
 * lock is released and the claim given back.
 */
int weft_verbs_lock_unused(struct weft_vctx *v, struct weft_handle *h,
                           const struct weft_handle_kind *kind, const uint32_t *users);
/** The handle is destroyed: end a revocation without a callback. The context's lock is held. */
void weft_verbs_revoke_drop(struct weft_mr *mr);
/** The region is registered anew: remove all marks. */
void weft_verbs_bad_ranges_reset(struct weft_mr *mr);
/** Number of bad ranges. Any thread, no lock. */
uint32_t weft_verbs_bad_ranges_count(const struct weft_mr *mr);
void weft_verbs_mw_unref(struct weft_mw *mw);
void weft_verbs_pd_unref(struct weft_pd *pd);

/* ---- Completion queues ---- */

/** The completions of one worker; that worker is the only producer. */
struct weft_cq_sub {
	TAILQ_ENTRY(weft_cq_sub) link; /**< in the worker's `ready` while `queued` */
	struct weft_cq *cq;
	struct weft_vworker *vw;
	struct rte_ring *ring;
	bool queued;
	bool solicited; /**< a solicited completion or an error came since the last wake-up */
	struct weft_work_item bye; /**< run when the CQ's handle is destroyed */
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
	uint32_t users, refs;
	uint32_t armed;    /**< enum verbs_arm */
	uint64_t overruns; /**< atomic: completions lost */
	bool dead;         /**< handle destroyed: completions are dropped */
	uint32_t nsubs;
	uint32_t rr; /**< the sub with which the next poll begins */
	struct weft_cq_sub *sub[WEFT_MAX_WORKERS];
	TAILQ_ENTRY(weft_cq) all;
};

/** The CQ's ring for a worker, made the first time. NULL: no memory. Takes a reference. */
struct weft_cq_sub *weft_verbs_cq_join(struct weft_cq *cq, struct weft_vworker *vw);
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
bool weft_verbs_cq_put(struct weft_cq_sub *sub, const struct weft_wc *wc);
/** Deliver new completions: callbacks or wake-ups. */
unsigned int weft_verbs_cq_deliver(struct weft_vworker *vw);

/* ---- Events ---- */

/**
 * Events of a QP that come once and must not fail for lack of memory. A QP has one node and the
 * data for all of them. In the order in which they are delivered if several are due.
 */
enum verbs_note { NOTE_BAD_RANGE, NOTE_OVERRUN, NOTE_TERMINATED, NOTE_LAST_WQE };

struct verbs_bad_range {
	uint64_t to, len_bytes;
	uint32_t stag;
	int status;
};

struct weft_evnode {
	TAILQ_ENTRY(weft_evnode) link;
	struct weft_evq *evq; /**< referenced while queued */
	enum weft_event_type type;
	int status;
	struct weft_qp *qp;           /**< NULL: of a listener */
	struct weft_connreq *connreq; /**< NULL: not a request */
	struct weft_srq *srq;         /**< referenced; NULL: not of one */
	struct weft_cq *cq;           /**< referenced; NULL: not an overrun that outlived its QP */
	struct weft_ip remote;        /**< brief only; remote_port 0: unknown */
	uint16_t remote_port;
	bool brief;    /**< all data of the event is in this structure */
	bool kept;     /**< part of its QP: delivers the events in `notes`, one by one */
	uint8_t notes; /**< kept only: bits of enum verbs_note; not queued while 0 */
};

/** A node that is not brief. */
struct verbs_evfull {
	struct weft_evnode n;
	struct weft_event ev;
};

static inline struct weft_event *
verbs_ev_full(struct weft_evnode *n)
{
	return &((struct verbs_evfull *)n)->ev;
}

struct weft_evq {
	struct weft_handle h;
	struct weft_vctx *ctx;
	weft_event_fn on_event;
	void *user;
	int fd;
	uint32_t users, refs;
	bool dead;
	pthread_mutex_t lock; /**< of list; polled queues only */
	struct weft_evnode_list list;
	TAILQ_ENTRY(weft_evq) all;
};

struct weft_evnode *weft_verbs_ev_new(void);
/** A node for an event without private data: small enough to be allocated in advance. */
struct weft_evnode *weft_verbs_ev_new_brief(void);
/** Queue a node, which is consumed. Worker of vw only. */
void weft_verbs_ev_emit(struct weft_vworker *vw, struct weft_evq *evq, struct weft_evnode *n);
/** Queue one of a QP's notes; each at most once. Its worker only. */
void weft_verbs_ev_note(struct weft_qp *qp, enum verbs_note note);
/** An event without its QP, which is gone: the loss of its completions was not reported yet. */
void weft_verbs_ev_overrun(struct weft_qp *qp);
/** Free a node that is not queued. */
void weft_verbs_ev_drop_node(struct weft_evnode *n);
/** Remove the events of an SRQ. Those queued for a callback find it dead. */
void weft_verbs_ev_purge_srq(struct weft_evq *evq, const struct weft_srq *srq);
/** Remove the events of a QP; `vw` when called on the worker. */
void weft_verbs_ev_purge_qp(struct weft_evq *evq, struct weft_vworker *vw,
                            const struct weft_qp *qp);
/** Remove the undelivered event of a request; false: the consumer has it. */
bool weft_verbs_ev_withdraw(struct weft_evq *evq, struct weft_vworker *vw,
                            const struct weft_connreq *r);
void weft_verbs_ev_unref(struct weft_evq *evq);
void weft_verbs_ev_free(struct weft_evq *evq);
/** Deliver events by callback, those before this poll's completions or those after. */
unsigned int weft_verbs_ev_deliver(struct weft_vworker *vw, bool late);

/* ---- Shared receive queues (verbs_srq.c) ---- */

/** Add a QP of this worker as a user of the SRQ; -ENOMEM. Takes a reference. */
int weft_verbs_srq_join(struct weft_srq *srq, struct weft_vworker *vw);
void weft_verbs_srq_unuse(struct weft_srq *srq);
void weft_verbs_srq_unref(struct weft_srq *srq);
bool weft_verbs_srq_is_dead(const struct weft_srq *srq);
void *weft_verbs_srq_user(const struct weft_srq *srq);
const struct weft_mem_pd *weft_verbs_srq_pd(const struct weft_srq *srq);
uint8_t weft_verbs_srq_max_sge(const struct weft_srq *srq);
/** The next SRQ in the context's list, whose lock is held. */
struct weft_srq *weft_verbs_srq_next(const struct weft_srq *srq);
/** The counter of free places for receives. */
uint32_t *weft_verbs_srq_credits(struct weft_srq *srq);
/** Take a receive into the QP's own queue; false: none is posted. The QP's worker only. */
bool weft_verbs_srq_take(struct weft_qp *qp);
/** Take the event of the armed limit, to deliver it or to put it back; NULL: there is none. */
struct weft_evnode *weft_verbs_srq_arm_take(struct weft_srq *srq);
/** Put it back: the limit is not reached. It may have been armed or disarmed meanwhile. */
void weft_verbs_srq_arm_back(struct weft_srq *srq, struct weft_evnode *n);
/** Return the receive that the QP holds, unused. The QP's worker only. */
void weft_verbs_srq_give_back(struct weft_qp *qp);

/* ---- Queue pairs ---- */

/** part of a weft_commit(): completes with the last part, not by itself */
#define VERBS_UNIT_PART 0x1
#define VERBS_UNIT_LAST 0x2
#define VERBS_UNIT_WORD 0x4 /**< its Atomic Write, or the Flush of that */
#define VERBS_WATCHED   0x8 /**< a Verify in the watch list */

/** One posted send work request. */
struct verbs_swr {
	struct weft_rdmap_req req;
	uint64_t wr_id;
	/** VERIFY, atomics: receives the hash, or the original value; else NULL */
	void *result;
	union {
		uint32_t result_bytes;
		/** VERBS_UNIT_PART: index of its range, 0 for the word's steps */
		uint32_t range;
	};
	union {
		uint32_t lkey;  /**< READ: lkey of the sink */
		uint32_t watch; /**< VERBS_WATCHED: its number */
	};
	uint8_t opcode; /**< enum weft_wc_opcode */
	bool signaled;
	uint8_t status; /**< enum weft_wc_status, once done */
	bool done;
	bool keyed;   /**< some piece has an lkey */
	bool inlined; /**< the payload is behind the structure */
	uint8_t unit; /**< VERBS_UNIT_*, VERBS_WATCHED */
	/* followed by max_send_sge pieces if they may be more than fit req.sge; max_inline_bytes */
};

/** One posted receive; followed by the number of pieces chosen at the QP's creation. */
struct verbs_rwr {
	uint64_t wr_id;
	uint8_t nsge;
	bool keyed; /**< some piece has an lkey */
	struct weft_rdmap_sge sge[];
};

#define VERBS_RWR_MAX_BYTES                                                                        \
	(sizeof(struct verbs_rwr) + WEFT_MAX_SGE * sizeof(struct weft_rdmap_sge))
#define VERBS_SWR_MAX_BYTES                                                                        \
	(sizeof(struct verbs_swr) + WEFT_MAX_SGE * sizeof(struct weft_rdmap_sge) + WEFT_MAX_INLINE)

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
	uint32_t srtt_us;
	uint64_t sent_msgs, recv_msgs, sent_bytes, recv_bytes, retrans_segs, ord_stalls;
	uint16_t out_reads, in_reads;
};

/** State of connection management. Only a weft_connect() that fails at once goes back to IDLE. */
enum verbs_cm {
	CM_IDLE,
	CM_CONNECTING, /**< or accepting */
	CM_UP,
	CM_DOWN, /**< the last event was delivered */
};

struct verbs_connect;
struct verbs_watch;

#define VERBS_DEFAULT_TIMEOUT_US 10000000

/* Bits of a QP's gate. */
#define QP_GATE_SEND 0x1 /**< nothing can be sent yet */
#define QP_GATE_RECV 0x2 /**< its receives come from an SRQ */

struct weft_qp {
	struct weft_handle h;
	/* the worker only */
	struct weft_vworker *vw;
	struct weft_rdmap *rdmap;
	struct weft_cq_sub *send_sub, *recv_sub;
	void *user;
	uint8_t *sq; /**< struct verbs_swr; NULL while empty and unused for a time */
	uint32_t sq_mask, sq_head, sq_tail;
	uint32_t sq_seen; /**< sq_tail at the last check for unused memory */
	uint32_t rq_mask, rq_head, rq_tail;
	uint16_t swr_bytes, rwr_bytes; /**< of one entry of sq, of rq */
	uint16_t max_inline_bytes;
	uint8_t max_send_sge, max_sge;
	uint8_t *rq;          /**< struct verbs_rwr; with an SRQ, the one that it holds */
	struct weft_srq *srq; /**< NULL: none */
	uint32_t *rq_places;  /**< rq_credits, or the SRQ's */
	bool all_signaled;
	bool overrun;      /**< a completion was lost: the QP will be reset */
	bool overrun_told; /**< atomic: the event was delivered */
	/** a send request ended the stream, or failed with it: all behind are flushed */
	bool sq_failed;
	bool aborting;   /**< queued in `later` to be reset */
	bool rq_dead;    /**< receives are flushed when posted */
	bool flushing;   /**< destroyed on the worker: its last completions are delivered */
	bool dead;       /**< destroyed on the worker; memory waits for refs */
	uint8_t waits;   /**< how often in a row the head of the send queue had to wait */
	uint32_t locals; /**< local work requests in the send queue */
	/** bound to the stream and not invalidated by it; with references */
	struct weft_mw_list windows;
	/* any thread */
	alignas(64) uint32_t sq_credits; /**< slots free */
	uint32_t rq_credits;
	uint32_t bell_rung;
	uint32_t dying;                     /**< weft_qp_destroy() was called */
	uint32_t cm;                        /**< enum verbs_cm */
	uint32_t state;                     /**< enum weft_qp_state */
	uint32_t refs;                      /**< handle, and work items under way */
	struct rte_ring *sq_ring, *rq_ring; /**< posts of other threads; made at the first one */
	struct verbs_watch *watch; /**< made at the first Verify or weft_commit(); any thread */
	struct weft_work_item bell, bye;
	/* connection management, on the worker */
	struct weft_pd *pd;
	struct weft_evq *evq;
	struct weft_cq *send_cq, *recv_cq;
	uint16_t ird, ord; /**< requested */
	uint32_t sq_depth, rq_depth;
	struct weft_tcp_conn *conn;
	struct verbs_connect *connect; /**< arguments of an active open, until the peer's answer */
	struct weft_timer timer;       /**< active open; later, freeing unused memory */
	struct weft_evnode *last_ev;   /**< allocated in advance for the last event */
	struct weft_evnode note;       /**< likewise, for the notes */
	struct verbs_bad_range bad_range;
	struct weft_cq *overrun_cq;
	struct weft_work_item later;
	/** the accepted connection's peer; NULL: none, or it has ended */
	struct verbs_peer *peer;
	TAILQ_ENTRY(weft_qp) crowd_link; /**< in peer->crowd of its standing, if it may be reset */
	TAILQ_ENTRY(weft_qp) push_link;  /**< likewise, of all that may be reset (verbs_push.c) */
	/** time of entering the lists; when data was last seen to move */
	uint64_t entered_ns, seen_ns;
	bool in_use;      /**< which of the two lists */
	uint8_t standing; /**< enum weft_standing */
	bool may_go;      /**< may be reset for another connection: its listener says so */
	bool uncounted;   /**< was reset; its place in nqps was given away */
	bool keepalive;   /**< TCP's keepalive is on */
	uint32_t qpn;
	/* snapshot for queries of other threads, under the context's lock */
	struct verbs_snap snap;
	struct weft_work_item snap_work;
	uint32_t snap_asked;
	bool listed; /**< in the context's list, under its lock: rdmap exists */
	TAILQ_ENTRY(weft_qp) all;
};

/** Set the state of connection management, which the gate tells the data path. */
static inline void
verbs_cm_set(struct weft_qp *qp, enum verbs_cm cm)
{
	__atomic_store_n(&qp->cm, cm, __ATOMIC_RELEASE);
	if (cm >= CM_UP)
		__atomic_fetch_and(&qp->h.gate, ~(uint32_t)QP_GATE_SEND, __ATOMIC_RELEASE);
}

static inline struct verbs_swr *
verbs_swr_at(const struct weft_qp *qp, uint32_t i)
{
	return (struct verbs_swr *)(void *)(qp->sq + (size_t)(i & qp->sq_mask) * qp->swr_bytes);
}

/** Whether a request is executed locally and never sent. */
static inline bool
verbs_is_local(const struct verbs_swr *s)
{
	return (s->opcode & WEFT_WC_FAST_REG) != 0;
}

static inline struct verbs_rwr *
verbs_rwr_at(const struct weft_qp *qp, uint32_t i)
{
	return (struct verbs_rwr *)(void *)(qp->rq + (size_t)(i & qp->rq_mask) * qp->rwr_bytes);
}

static inline void
weft_verbs_qp_ref(struct weft_qp *qp)
{
	__atomic_fetch_add(&qp->refs, 1, __ATOMIC_RELAXED);
}

void weft_verbs_qp_unref(struct weft_qp *qp);
/** Destroy on the worker (or at teardown); `flush`: with flushed completions. */
void weft_verbs_qp_kill(struct weft_qp *qp, bool flush);
extern const struct weft_rdmap_ops weft_verbs_rdmap_ops;
/** Copy a list of pieces; *len_bytes: total; *keyed: a piece has an lkey. -EINVAL. */
static inline int
verbs_sges(struct weft_rdmap_sge *dst, const struct weft_sge *sg, uint32_t n, uint32_t *len_bytes,
           bool *keyed)
{
	uint64_t total = 0;
	uint32_t keys = 0;

	if (unlikely(n > 0 && sg == NULL))
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++) {
		if (unlikely(sg[i].addr == NULL && sg[i].len_bytes > 0))
			return -EINVAL;
		dst[i].addr = sg[i].addr;
		dst[i].len_bytes = sg[i].len_bytes;
		dst[i].lkey = sg[i].lkey;
		keys |= sg[i].lkey;
		total += sg[i].len_bytes;
	}
	/* RFC 5041 s5.2: a message is shorter than 2^32 octets. */
	if (unlikely(total > UINT32_MAX))
		return -EINVAL;
	*keyed = keys != 0;
	*len_bytes = (uint32_t)total;
	return 0;
}

/** Pieces that do not fit the request. */
static inline struct weft_rdmap_sge *
verbs_swr_sgl(struct verbs_swr *s)
{
	return (struct weft_rdmap_sge *)(void *)(s + 1);
}

/** Copy the octets of a payload into slot s. -EINVAL. */
int weft_verbs_inline(const struct weft_qp *qp, struct verbs_swr *s, const struct weft_wr *wr);

/** Put the payload of a Send or Write into slot s: its pieces, or its octets. -EINVAL. */
static inline int
verbs_gather(const struct weft_qp *qp, struct verbs_swr *s, const struct weft_wr *wr)
{
	struct weft_rdmap_sge *dst = s->req.sge;

	if (unlikely(wr->num_sge > qp->max_send_sge))
		return -EINVAL;
	if ((wr->flags & WEFT_WR_INLINE) != 0)
		return weft_verbs_inline(qp, s, wr);
	if (unlikely(wr->num_sge > WEFT_RDMAP_MAX_SGE)) {
		dst = verbs_swr_sgl(s);
		s->req.sgl = dst;
	}
	s->req.nsge = (uint8_t)wr->num_sge;
	return verbs_sges(dst, wr->sg_list, wr->num_sge, &s->req.len_bytes, &s->keyed);
}

/** The slot was copied: correct its pointers to its own parts. */
void weft_verbs_swr_moved(const struct weft_qp *qp, struct verbs_swr *s);
/** Whether every piece with an lkey allows `access`. Worker only (RCU). */
bool weft_verbs_lkeys_ok(struct weft_mem *mem, const struct weft_mem_pd *pd,
                         const struct weft_rdmap_sge *sge, uint32_t n, uint32_t access);
/** Size of a slot of the send queue. */
uint16_t weft_verbs_swr_bytes(uint32_t max_send_sge, uint32_t max_inline_bytes);
/* verbs_atomic.c: fill a slot with a work request of RFC 7306. -EINVAL. */
int weft_verbs_fill_atomic(struct verbs_swr *s, const struct weft_wr *wr);
int weft_verbs_fill_imm(const struct weft_qp *qp, struct verbs_swr *s, const struct weft_wr *wr);
/** An Atomic Operation is answered: store its result, or fail the request. */
void weft_verbs_atomic_done(struct weft_qp *qp, struct verbs_swr *s);
/** Look up the local memory of a request. -EINVAL. Worker only (RCU). */
int weft_verbs_lookup(struct weft_qp *qp, struct verbs_swr *s);
/** Fill a slot with a local work request; takes references. Any thread. */
int weft_verbs_local_fill(const struct weft_qp *qp, struct verbs_swr *s, const struct weft_wr *wr);
/** The request has ended: release its references. */
void weft_verbs_local_put(struct verbs_swr *s);
/** Release those of requests that will never complete; the QP is about to be freed. */
void weft_verbs_local_drop(struct weft_qp *qp);
/** rdmap's up-calls. */
void weft_verbs_bad_range(void *user, struct weft_mem_mr *m, uint64_t to, uint64_t len_bytes,
                          uint8_t code);
enum weft_rdmap_start weft_verbs_start(void *user, struct weft_rdmap_req *req);
int weft_verbs_invalidate(void *user, uint32_t stag, struct weft_term *term);
/** A window was bound to the stream. Worker only. */
void weft_verbs_mw_bound(struct weft_qp *qp, struct weft_mw *mw);
/** The stream invalidates its window; the list's reference passes to the caller. Worker only. */
void weft_verbs_mw_unbound(struct weft_qp *qp, struct weft_mw *mw);
/** The stream has ended: its windows end. Worker only. */
void weft_verbs_mw_orphan(struct weft_qp *qp);
/** Put a completion into its CQ. If there is no room, the QP ends. */
void weft_verbs_wc(struct weft_qp *qp, struct weft_cq_sub *sub, struct weft_wc *wc);
/** Complete requests that are done at the head of the send queue, in order. */
void weft_verbs_sq_reap(struct weft_qp *qp);
void weft_verbs_rq_flush(struct weft_qp *qp);
/** Allocate the send queue's memory again; false: no memory. Worker only. */
bool weft_verbs_sq_wake(struct weft_qp *qp);
/** Copy addresses from the connection to the snapshot. Under the context's lock; worker only. */
void weft_verbs_snap_addrs(struct weft_qp *qp);
/** Take in posts of other threads; without an rdmap only into the queues. */
void weft_verbs_take_posts(struct weft_qp *qp);
/** Work item: another thread queried. */
void weft_verbs_qp_snap(struct weft_work_item *m);
/** Work item: other threads posted. */
void weft_verbs_bell(struct weft_work_item *m);
/** Reset the stream soon, not inside the up-call. */
void weft_verbs_qp_abort_later(struct weft_qp *qp);
/** Reset the stream at once; not inside an up-call of the QP. */
void weft_verbs_qp_abort(struct weft_qp *qp);

/** Add the counters of a QP that is being destroyed to those of its worker. */
void weft_verbs_stats_keep(struct weft_qp *qp);

/* ---- Peers (verbs_peer.c) ---- */

#define VERBS_PEER_BUCKETS 256

LIST_HEAD(verbs_peer_list, verbs_peer);

#define VERBS_PUSH_STANDINGS WEFT_STANDING_KEPT /* connections of a lower standing may be reset */

/** The connections of one address and one standing that may be reset (verbs_push.c). */
struct verbs_crowd {
	TAILQ_ENTRY(verbs_crowd) link; /**< while it has connections */
	TAILQ_HEAD(, weft_qp) qps;     /**< in the order in which they were added */
	uint32_t conns;
};

/** A remote address with requests or connections on this worker. */
struct verbs_peer {
	LIST_ENTRY(verbs_peer) link;
	struct weft_ip ip; /**< weft_ip_peer() */
	uint32_t requests, conns;
	uint32_t in_use; /**< of conns, those known to be in use (verbs_push.c) */
	struct verbs_crowd crowd[VERBS_PUSH_STANDINGS];
};

/** The peer with this address, or NULL. Worker only, as all of these functions. */
struct verbs_peer *weft_verbs_peer_of(const struct weft_vworker *vw, const struct weft_ip *ip);
/** Number of requests of this address. */
uint32_t weft_verbs_peer_requests(const struct weft_vworker *vw, const struct weft_ip *ip);
/** Count one more request of this address; NULL: no memory. */
struct verbs_peer *weft_verbs_peer_call(struct weft_vworker *vw, const struct weft_ip *ip);
/** The request has ended. */
void weft_verbs_peer_hang_up(struct verbs_peer *p);
/** A request has become a connection, of this QP. */
void weft_verbs_peer_enter(struct verbs_peer *p, struct weft_qp *qp);
/** The QP's connection has ended; does nothing without a peer. */
void weft_verbs_peer_leave(struct weft_qp *qp);

/* ---- Push-out (verbs_push.c) ---- */

/** -ENOMEM. Worker only, as all of these functions. */
int weft_verbs_push_init(struct weft_vworker *vw);
void weft_verbs_push_fini(struct weft_vworker *vw);
/** An accepted QP is added, or its standing changes. */
void weft_verbs_push_enter(struct weft_qp *qp);
void weft_verbs_push_leave(struct weft_qp *qp);
/** Whether a connection might be reset for one of this address. */
bool weft_verbs_push_may(const struct weft_vworker *vw, const struct weft_ip *remote, bool own);
/** Reset it: TCP then has a connection free. Not inside an up-call of a QP. False: none. */
bool weft_verbs_push_out(struct weft_vworker *vw, const struct weft_ip *remote);
/** The same for one of another address of this IPv6 peer, which has used its share. */
bool weft_verbs_push_own(struct weft_vworker *vw, const struct weft_ip *remote);

/* ---- Connections ---- */

/** Number of listeners; the context's lock is held. */
uint32_t weft_verbs_listeners(const struct weft_vctx *v);
/** The event of a request will never reach a consumer: reject the request. Worker only. */
void weft_verbs_req_drop(struct weft_connreq *r);
/** Teardown: free every request of a worker. */
void weft_verbs_connreqs_free(struct weft_vworker *vw);
/** MPA's start-up is complete: start RDMAP with the agreed depths. */
void weft_verbs_up(struct weft_qp *qp, uint16_t ird, uint16_t ord,
                   const struct weft_mpa_frame *peer);
/** The connection has ended or failed: deliver the last event, once. */
void weft_verbs_down(struct weft_qp *qp, int err);
/** The part of a policy that applies to both roles. */
struct weft_mpa_opts weft_verbs_mpa_opts(const struct weft_mpa_policy *p);
/** rdmap's up-call when a start-up failed: whether the QP makes a second attempt. */
bool weft_verbs_again(struct weft_qp *qp);
/** rdmap's up-call at the initiator: the MPA Reply. */
void weft_verbs_reply(struct weft_qp *qp, const struct weft_mpa_frame *rep);
/** Drop timer and arguments of an active open; reset a connection that MPA does not have yet. */
void weft_verbs_connect_forget(struct weft_qp *qp);
/** TCP keepalive of a connection; 0: off. */
void weft_verbs_keepalive(struct weft_qp *qp, uint32_t idle_us);
/** Check and convert a caller's address. -EINVAL, -EAFNOSUPPORT. */
int weft_verbs_addr(const struct sockaddr *sa, socklen_t len, struct weft_ip *ip, uint16_t *port);

/* ---- Small things ---- */

/** Take up to n of a count of free places that threads share. */
static inline uint32_t
verbs_credits_take(uint32_t *credits, uint32_t n)
{
	uint32_t have = __atomic_load_n(credits, __ATOMIC_RELAXED);
	uint32_t take;

	do {
		take = RTE_MIN(have, n);
		if (take == 0)
			return 0;
	} while (!__atomic_compare_exchange_n(credits, &have, have - take, true, __ATOMIC_ACQUIRE,
	                                      __ATOMIC_RELAXED));
	return take;
}

/** Take n of them, or none. */
static inline bool
verbs_credits_take_all(uint32_t *credits, uint32_t n)
{
	uint32_t have = __atomic_load_n(credits, __ATOMIC_RELAXED);

	do {
		if (have < n)
			return false;
	} while (!__atomic_compare_exchange_n(credits, &have, have - n, true, __ATOMIC_ACQUIRE,
	                                      __ATOMIC_RELAXED));
	return true;
}

static inline void
verbs_credits_give(uint32_t *credits, uint32_t n)
{
	__atomic_fetch_add(credits, n, __ATOMIC_RELEASE);
}

#endif /* VERBS_PRIV_H */
