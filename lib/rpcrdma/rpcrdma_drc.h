/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_DRC_H
#define RPCRDMA_DRC_H

/**
 * @file The duplicate request cache: replies of the latest calls that must not be executed twice. A
 * client whose reply was lost with its connection sends the call again, with the same xid, on the
 * next connection (RFC 5531 s4, draft s3.1.5.1), which may belong to another worker. It gets the
 * reply that the first execution made, or will have made. Any worker's thread.
 */

#include "rpcrdma_priv.h"
#include "rpcrdma_req.h"

extern struct weft_handle_kind rpcrdma_drc_kind;

enum rpcrdma_drc_found {
	/** req->drc is its new entry (NULL: no memory; the call is served without) */
	RPCRDMA_DRC_NEW,
	/** the first call is being served: req waits for it, and rpcrdma_req_ops.woken
	 * follows */
	RPCRDMA_DRC_BUSY,
	RPCRDMA_DRC_REPLAY, /**< req->drc has the reply */
};

enum rpcrdma_drc_found weft_rpcrdma_drc_find(struct weft_rpc_drc *drc, struct weft_rpc_req *req);
/** Whether a call of this peer with this xid is being served, or was: the new call may be the
 * same. */
bool weft_rpcrdma_drc_known(struct weft_rpc_drc *drc, const struct weft_rpc *rpc, uint32_t xid);
/**
 * Keep the reply. encode writes it whole; chunks may carry the items, now or when the call comes
 * again. A reply that does not encode, or finds no memory, is kept as an executed call without
 * reply. Returns the request that waits for this reply, or NULL; the caller passes it to
 * weft_rpcrdma_drc_wake() when this one was answered.
 */
struct weft_rpc_req *weft_rpcrdma_drc_keep(struct weft_rpc_req *req,
                                           bool (*encode)(void *arg, XDR *xdr), void *arg,
                                           const struct weft_rpc_item *items, unsigned int nitems);
/** Wake the waiting request; on the request's own worker it is served inside. */
void weft_rpcrdma_drc_wake(struct weft_rpc_req *waiter);
/** Release req->replay without an answer. */
void weft_rpcrdma_drc_release(struct rpcrdma_drc_ent *e);
/**
 * The peer refused access to the memory of this call's chunks, and the connection is lost. A caller
 * with a name would send the call again for ever, so its next one is answered with an error (draft
 * s7.3, RFC 8166 s4.5.3). Recorded once, and found once.
 */
void weft_rpcrdma_drc_refused(struct weft_rpc_drc *drc, const struct weft_rpc_req *req);
bool weft_rpcrdma_drc_was_refused(struct weft_rpc_drc *drc, const struct weft_rpc_req *req);
/** The request ends without an answer: its entry is dropped, and a request that waits for it
 * begins anew. */
void weft_rpcrdma_drc_drop(struct rpcrdma_drc_ent *e);

/* ---- rpcrdma_drc_replay.c ---- */

/** Answer with the kept reply, or with an error when there is none (draft s7.3). req is freed,
 * or waits for room with req->replay. */
void weft_rpcrdma_drc_replay(struct weft_rpc_req *req);

#endif /* RPCRDMA_DRC_H */
