/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_VERBS_EVENT_H
#define WEFT_VERBS_EVENT_H

/** @file Event queues, and the nodes by which events wait in them. */

#include "weft_vworker.h"

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
	_Atomic uint32_t users, refs;
	atomic_bool dead;
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

#endif /* WEFT_VERBS_EVENT_H */
