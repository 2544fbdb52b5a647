/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_CONN_H
#define VERBS_CONN_H

/** @file Connections: peers, push-out, and what both sides of a connection share. */

#include "weft_mpa_startup.h"
#include <weft/standing.h>
#include "weft_verbs_qp.h"

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

#define VERBS_DEFAULT_TIMEOUT_US 10000000

#endif /* VERBS_CONN_H */
