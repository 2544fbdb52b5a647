/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_DRC_H
#define RPCRDMA_DRC_H

/**
 * @file
 * The duplicate request cache: what came of the last calls that must not be done twice. A call whose reply was
 * lost with its connection comes again with the same xid on the next one (RFC 5531 s4, draft s3.1.5.1);
 * it gets the reply that the first one made.
 */

#include "rpcrdma_priv.h"

enum rpcrdma_drc_found {
	RPCRDMA_DRC_NEW,    /**< req->drc is its entry now (NULL: no memory; it is done without) */
	RPCRDMA_DRC_BUSY,   /**< the first one is being served */
	RPCRDMA_DRC_REPLAY, /**< req->drc has the reply */
};

enum rpcrdma_drc_found weft_rpcrdma_drc_find(struct weft_rpc_drc *drc, struct weft_rpc_req *req);
/** Keep the reply; encode writes it whole. Without memory the entry goes. */
void weft_rpcrdma_drc_keep(struct weft_rpc_req *req, bool (*encode)(void *arg, XDR *xdr), void *arg);
/** Answer with what is kept; req is gone. */
void weft_rpcrdma_drc_replay(struct weft_rpc_req *req);
/** The request goes without an answer: its entry, if nothing is kept in it, goes, too. */
void weft_rpcrdma_drc_drop(struct rpcrdma_drc_ent *e);

#endif /* RPCRDMA_DRC_H */
