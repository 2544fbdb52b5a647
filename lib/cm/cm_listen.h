/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CM_LISTEN_H
#define CM_LISTEN_H

/**
 * @file A listener and its connection requests, as the files of the passive side share them:
 * cm_listen.c opens and closes listeners, cm_admit.c decides about admission, cm_request.c manages
 * the life of a request, cm_accept.c the consumer's answer. The part of a listener on a worker, and
 * its requests, belong to that worker.
 */

#include "cm_conn.h"

#define LISTEN_DEFAULT_BACKLOG 128
/* Wait for a worker's thread to listen: more than a second, for a worker that does not poll. */
#define LISTEN_AWAIT_US    20
#define LISTEN_AWAIT_TURNS 50000

/** A listener's part on one worker. */
struct cm_lsn {
	struct weft_work_item open, close; /**< work items to its worker */
	struct weft_listener *l;
	struct weft_vworker *vw;
	struct weft_tcp_listener *tcp;
	struct weft_ip addr;  /**< that of the listener, as the worker's interfaces write it */
	atomic_bool answered; /**< its work item has run */
	uint32_t requests;    /**< unanswered requests */
};

struct weft_listener {
	struct weft_handle h;
	struct weft_vctx *ctx;
	struct weft_evq *evq;
	void *user;
	struct weft_ip addr;
	uint8_t bits; /**< of addr that a local address must have; 0: any address */
	uint16_t port;
	uint32_t backlog;
	uint64_t timeout_us;
	uint32_t keepalive_us;
	struct weft_mpa_policy mpa;
	uint32_t max_requests_per_peer;
	uint32_t max_conns_per_peer; /**< 0: cm_admit_conns() */
	uint32_t max_conns;          /**< 0: as many as the worker has */
	int dscp;                    /**< WEFT_TCP_DSCP_PORT: the port's */
	bool push_out;               /**< accepted connections may be reset for others */
	_Atomic uint32_t refs;       /**< handle, parts, requests */
	atomic_bool closed;          /**< weft_unlisten() was called */
	unsigned int nparts;
	struct cm_lsn part[WEFT_MAX_WORKERS];
	TAILQ_ENTRY(weft_listener) all;
};

/**
 * Whether weft_unlisten() was called. The workers learn this by a work item, and may still get
 * requests before.
 */
static inline bool
cm_listener_closed(const struct weft_listener *l)
{
	return atomic_load_explicit(&l->closed, memory_order_acquire);
}

/** State of a request: PENDING until it is answered, then CLOSING until TCP is done with it. */
enum cm_req_state {
	REQ_WAIT,    /**< waits for the MPA Request; the consumer does not know it */
	REQ_PENDING, /**< the consumer has it, or will get it */
	REQ_DEAD,    /**< given up by the peer or by this side; the consumer still has it */
	REQ_CLOSING, /**< rejected; waits for TCP */
	REQ_FREED,   /**< queued in `later` */
};

struct weft_connreq {
	struct weft_handle h; /**< live while the consumer has the request, or will get it */
	struct weft_mpa mpa;
	struct weft_vworker *vw;
	struct cm_lsn *lsn;
	struct cm_peer *peer; /**< peer of the request; NULL when not counted */
	struct weft_tcp_conn *conn;
	uint64_t since_ns;      /**< accepted by TCP; CLOSING: rejected */
	_Atomic uint32_t state; /**< enum cm_req_state */
	bool counted;           /**< in lsn->requests and peer->requests */
	bool has_mpa;
	struct weft_timer timer; /**< limits the consumer's time to answer */
	struct weft_mpa_frame req;
	struct weft_work_item later; /**< frees the request outside of up-calls */
	TAILQ_ENTRY(weft_connreq) link;
	/* the consumer's answer, on its way */
	struct weft_work_item answer;
	struct weft_qp *qp; /**< NULL: rejected */
	uint16_t ird, ord;  /**< depths of a rejection */
	uint32_t keepalive_us;
	int dscp;                      /**< WEFT_TCP_DSCP_PORT: as it is */
	struct weft_mpa_policy policy; /**< the consumer's, or the listener's */
	uint16_t private_data_bytes;
	uint8_t private_data[WEFT_MPA_MAX_PDATA];
};

/** enum cm_req_state; on the request's worker. */
static inline uint32_t
cm_req_state(const struct weft_connreq *r)
{
	return atomic_load_explicit(&r->state, memory_order_relaxed);
}

/** Drop a reference of the listener. */
static inline void
cm_listener_unref(struct weft_listener *l)
{
	if (atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) == 1) {
		weft_verbs_ev_unref(l->evq);
		weft_handle_free(&l->h, sizeof(l->h));
	}
}

/* ---- cm_listen_addr.c: what listeners of both kinds need ---- */

/** The bits of the address that count. -EINVAL: a prefix longer than addresses of the family, or
 * shorter than the address; or one of the unspecified address. */
int cm_listen_bits(const struct weft_ip *addr, bool any, uint8_t prefix_len);
/** Whether it is the unspecified address. */
bool cm_listen_any(const struct weft_ip *addr);
/** Whether a connection to this address and port could be for a listener that exists, of either
 * kind. With the context's lock. */
bool cm_listen_taken(const struct weft_vctx *v, const struct weft_ip *addr, unsigned int bits,
                     uint16_t port);
/** Whether a worker has a fitting address; then *as is addr as its interfaces write it. */
bool cm_listen_local(const struct weft_vworker *vw, const struct weft_ip *addr, unsigned int bits,
                     struct weft_ip *as);
/**
 * Whether a worker that another thread is to make listen has not done so yet: its work item has not
 * run, and a thread of the engine polls it.
 */
bool cm_listen_waits(const struct weft_vworker *vw, const atomic_bool *answered);

/* ---- cm_request.c ---- */

/** Make the request of a connection that was admitted; it counts for peer. -ENOMEM, ... */
int cm_req_new(struct cm_lsn *lsn, struct cm_peer *peer, struct weft_tcp_conn *c);
/** Free the request in the delivery phase, when no up-call of it is running. */
void cm_req_end(struct weft_connreq *r);
/** Reject the request, and wait until TCP has closed. */
void cm_req_refuse(struct weft_connreq *r);
/** The consumer returned a request that could no longer be answered. */
void cm_req_returned(struct weft_connreq *r);
/** Reject a request that the consumer has given back, or that it will never get. */
void cm_req_drop(struct weft_connreq *r);
/** The listener is closed: no consumer gets the request any more. */
void cm_req_unlisten(struct weft_connreq *r);
/**
 * Reset a request that no consumer has, in REQ_WAIT or REQ_CLOSING: its place is free on return,
 * its memory goes later. Counts it.
 */
void cm_req_evict(struct weft_connreq *r);
/** Teardown: free every request of a worker. */
void cm_req_free_all(struct weft_vworker *vw);

/* ---- cm_admit.c ---- */

/** The default share of one remote address in `all`: half, but at least 8 if there are so many. */
uint32_t cm_admit_share(uint32_t all);
/** Connections that an address may have: per_peer, or if that is 0 its default share. owners: as
 * many the listener's owner takes on a worker, 0: it says nothing; tcps: as many TCP has. */
uint32_t cm_admit_conns(const struct weft_vworker *vw, uint32_t per_peer, uint32_t owners,
                        uint32_t tcps);
/**
 * Decide whether one more connection of this peer, whose request is counted already, may become a
 * request of the listener. An idle connection may be reset for it. -ENOBUFS: refused, and counted.
 * most: connections that TCP has for the peer and all others.
 */
int cm_admit(struct cm_lsn *lsn, const struct cm_peer *peer, const struct weft_ip *remote,
             uint32_t most);
/** weft_tcp_room_fn of a worker's listeners. */
bool cm_admit_make_room(struct weft_vworker *vw, const struct weft_ip *remote, bool own, bool take);
/**
 * weft_tcp_room_fn of a listener's part: TCP has no connection left, or no buffers for one more.
 */
bool cm_admit_room(void *arg, const struct weft_ip *remote, bool own, bool take);

#endif /* CM_LISTEN_H */
