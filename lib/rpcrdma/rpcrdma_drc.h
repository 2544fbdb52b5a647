/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_DRC_H
#define RPCRDMA_DRC_H

/**
 * @file The duplicate request cache: what came of the last calls that must not be done twice. A
 * call whose reply was lost with its connection comes again with the same xid on the next one (RFC
 * 5531 s4, draft s3.1.5.1), which may live on another worker; it gets the reply that the first one
 * made, or will have made. Any worker's thread.
 */

#include "rpcrdma_priv.h"

extern struct weft_handle_kind rpcrdma_drc_kind;

enum rpcrdma_drc_found {
	RPCRDMA_DRC_NEW, /**< req->drc is its entry now (NULL: no memory; it is done without) */
	/** the first one is being served: req waits for it, weft_rpcrdma_drc_woken() follows */
	RPCRDMA_DRC_BUSY,
	RPCRDMA_DRC_REPLAY, /**< req->drc has the reply */
};

enum rpcrdma_drc_found weft_rpcrdma_drc_find(struct weft_rpc_drc *drc, struct weft_rpc_req *req);
/** Whether a call of this endpoint's peer with this xid is being served or was: it may be the same.
 */
bool weft_rpcrdma_drc_known(struct weft_rpc_drc *drc, const struct weft_rpc *rpc, uint32_t xid);
/**
 * Keep the reply; encode writes it whole, the items are those that chunks may carry, now or when it
 * is asked for again. What does not encode, or finds no memory, is kept as a call that was carried
 * out and has no reply. Returns who waits for it, or NULL: for weft_rpcrdma_drc_wake() when this
 * one has been answered.
 */
struct weft_rpc_req *weft_rpcrdma_drc_keep(struct weft_rpc_req *req,
                                           bool (*encode)(void *arg, XDR *xdr), void *arg,
                                           const struct weft_rpc_item *items, unsigned int nitems);
/** On its own worker it is served inside. */
void weft_rpcrdma_drc_wake(struct weft_rpc_req *waiter);
/** Answer with what is kept, or with an error when there is no reply (draft s7.3); req is gone, or
 * waits for room with req->replay. */
void weft_rpcrdma_drc_replay(struct weft_rpc_req *req);
/** req->replay is not answered any more. */
void weft_rpcrdma_drc_release(struct rpcrdma_drc_ent *e);
/**
 * The peer refused us the memory that this call was to be read from, and the connection is lost.
 * When its caller, if it has a name, sends it again, that would go on for ever: the next one is
 * answered with an error (draft s7.3, RFC 8166 s4.5.3). Noted once, and found once.
 */
void weft_rpcrdma_drc_refused(struct weft_rpc_drc *drc, const struct weft_rpc_req *req);
bool weft_rpcrdma_drc_was_refused(struct weft_rpc_drc *drc, const struct weft_rpc_req *req);
/** The request goes without an answer: its entry goes, too, and who waits for it begins anew. */
void weft_rpcrdma_drc_drop(struct rpcrdma_drc_ent *e);

/** rpcrdma_serve.c: arg, a request that waited, on its worker: look again. */
void weft_rpcrdma_drc_woken(void *arg);

#endif /* RPCRDMA_DRC_H */
