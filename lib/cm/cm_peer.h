/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CM_PEER_H
#define CM_PEER_H

/**
 * @file Peers, the limits of each address (cm_peer.c), and which of their connections may be reset
 * for another (cm_push.c). On the worker only.
 */

#include <weft/standing.h>
#include "weft_cm.h"

struct weft_cm_conn;

#define CM_PEER_BUCKETS 256

LIST_HEAD(cm_peer_list, cm_peer);

#define CM_PUSH_STANDINGS WEFT_STANDING_KEPT /* connections of a lower standing may be reset */

/** The connections of one address and one standing that may be reset. */
struct cm_crowd {
	TAILQ_ENTRY(cm_crowd) link;         /**< while it has connections */
	TAILQ_HEAD(, weft_cm_conn) members; /**< in the order in which they were added */
	uint32_t conns;
};

/** A stream, which is never reset for another connection, but counts for its address. */
struct cm_push_stream {
	TAILQ_ENTRY(cm_push_stream) link; /**< of peer->streams */
	struct cm_peer *peer;
	const struct weft_tcp_conn *tcp;
	uint64_t entered_ns;
	bool in_use; /**< when it was looked at */
};

/** A remote address with requests or connections on this worker. */
struct cm_peer {
	LIST_ENTRY(cm_peer) link;
	struct weft_ip ip; /**< weft_ip_peer() */
	uint32_t requests, conns;
	uint32_t in_use; /**< of conns, those known to be in use (cm_push.c) */
	struct cm_crowd crowd[CM_PUSH_STANDINGS];
	TAILQ_HEAD(cm_push_streams, cm_push_stream)
	streams;            /**< of conns; the next one to be looked at first */
	uint64_t looked_ns; /**< when that was done */
};

/** The peer with this address, or NULL. */
struct cm_peer *cm_peer_of(const struct weft_vworker *vw, const struct weft_ip *ip);
/** Number of requests of this address. */
uint32_t cm_peer_requests(const struct weft_vworker *vw, const struct weft_ip *ip);
/** Count one more request of this address; NULL: no memory. */
struct cm_peer *cm_peer_call(struct weft_vworker *vw, const struct weft_ip *ip);
/** The request has ended. */
void cm_peer_hang_up(struct cm_peer *p);
/** Count one more connection of this address, which is a stream; NULL: no memory. */
struct cm_peer *cm_peer_hold(struct weft_vworker *vw, const struct weft_ip *ip);
/** The stream has ended. */
void cm_peer_drop(struct cm_peer *p);
/** A request has become a connection. */
void cm_peer_enter(struct cm_peer *p, struct weft_cm_conn *c);
/** The connection has ended; does nothing without a peer. */
void cm_peer_leave(struct weft_cm_conn *c);

/* ---- Push-out (cm_push.c) ---- */

/** Before the first connection. -ENOMEM. */
int cm_push_init(struct weft_cm_worker *w);
void cm_push_fini(struct weft_cm_worker *w);
/** An accepted connection is added, or its standing changes. */
void cm_push_enter(struct weft_cm_conn *c);
void cm_push_leave(struct weft_cm_conn *c);
/** Likewise a stream. It leaves before its TCP connection ends. */
void cm_push_stream_enter(struct weft_vworker *vw, struct cm_push_stream *s, struct cm_peer *peer,
                          const struct weft_tcp_conn *tcp);
void cm_push_stream_leave(struct weft_vworker *vw, struct cm_push_stream *s);
/** Whether a connection might be reset for one of this address. */
bool cm_push_may(struct weft_vworker *vw, const struct weft_ip *remote, bool own);
/** Reset it: TCP then has a connection free. Not inside an up-call of a QP. False: none. */
bool cm_push_out(struct weft_vworker *vw, const struct weft_ip *remote);
/** The same, for a peer that has used its share: resets a connection of another address of this
 * IPv6 /64. */
bool cm_push_own(struct weft_vworker *vw, const struct weft_ip *remote);

#endif /* CM_PEER_H */
