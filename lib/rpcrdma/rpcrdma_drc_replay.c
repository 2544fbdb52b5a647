/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Answers a call with the reply that the duplicate request cache has kept. */

#include "rpcrdma_drc.h"
#include "rpcrdma_drc_ent.h"
#include "rpcrdma_msg.h"
#include "rpcrdma_priv.h"
#include "rpcrdma_req.h"

/* Encode a kept reply. Each item is put alone, as XDR routines do, so that the stream recognises
 * it. */
static bool
drc_encode(void *arg, XDR *xdr)
{
	const struct rpcrdma_drc_ent *e = arg;
	const char *p = (const char *)e->reply;
	uint32_t at = 0;

	for (unsigned int i = 0; i < e->nitems; i++) {
		uint32_t len = e->item[i].len_bytes, end = e->item[i].pos_bytes + len;

		if (!XDR_PUTBYTES(xdr, p + at, e->item[i].pos_bytes - at) ||
		    !XDR_PUTBYTES(xdr, p + e->item[i].pos_bytes, len) ||
		    !XDR_PUTBYTES(xdr, p + end, (4 - len % 4) % 4))
			return false;
		at = end + (4 - len % 4) % 4;
	}
	return XDR_PUTBYTES(xdr, p + at, e->reply_bytes - at);
}

/* False: req waits. */
static bool
drc_answer(struct weft_rpc_req *req, struct rpcrdma_drc_ent *e)
{
	struct weft_rpc_item items[WEFT_RPC_MAX_ITEMS];
	struct rpcrdma_prefix p = req->p;
	struct weft_rpc *rpc = req->rpc;

	if (e->reply == NULL) {
		weft_rpcrdma_req_free(req);
		weft_rpcrdma_error(rpc, &p, &(struct rpcrdma_err){.code = RDMA2_ERR_SYSTEM});
		return true;
	}
	for (unsigned int i = 0; i < e->nitems; i++)
		items[i] = (struct weft_rpc_item){e->reply + e->item[i].pos_bytes,
		                                  e->item[i].len_bytes, WEFT_RPC_OCTETS};
	req->raw = true; /* the entry may be freed before its items are written */
	req->stage = RPCRDMA_STAGE_REPLAY;
	return weft_rpcrdma_answer(req, drc_encode, e, items, e->nitems);
}

void
weft_rpcrdma_drc_replay(struct weft_rpc_req *req)
{
	struct rpcrdma_drc_ent *e = req->replay != NULL ? req->replay : req->drc;

	req->drc = req->replay = NULL;
	if (drc_answer(req, e))
		weft_rpcrdma_drc_release(e);
	else
		req->replay = e;
}
