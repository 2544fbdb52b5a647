/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Ends connections whose peer does not finish what it began: a message of which only parts
 * have come, or a call whose chunks are being read. Each holds memory for the whole message, so
 * neither may last for ever, however slowly octets come. One alarm checks all of an endpoint's; one
 * that was there at its previous look, too, ends the connection.
 */

#include "rpcrdma_priv.h"
#include "rpcrdma_req.h"

/* Mark all that is unfinished. Returns whether something was marked already. */
static bool
unfinished_mark(struct weft_rpc *rpc, bool *any)
{
	struct weft_rpc_req *req;
	bool old = rpc->cont.active && rpc->cont.old;

	*any = rpc->cont.active;
	rpc->cont.old = true;
	LIST_FOREACH (req, &rpc->reqs, entry) {
		if (!req->reading)
			continue;
		old = old || req->old;
		req->old = true;
		*any = true;
	}
	return old;
}

static void
unfinished_look(void *arg)
{
	struct weft_rpc *rpc = arg;
	bool any;

	weft_rpcrdma_enter(rpc);
	rpc->unfinished = NULL;
	if (unfinished_mark(rpc, &any)) {
		rpc->stats.unfinished++;
		weft_rpcrdma_fail(rpc);
	} else if (any) {
		weft_rpcrdma_unfinished(rpc);
	}
	weft_rpcrdma_leave(rpc);
}

void
weft_rpcrdma_unfinished(struct weft_rpc *rpc)
{
	/* Without memory for the alarm, the next message that begins sets it. */
	if (rpc->unfinished == NULL && weft_alarm_set(rpc->worker, RPCRDMA_UNFINISHED_US,
	                                              unfinished_look, rpc, &rpc->unfinished) != 0)
		rpc->unfinished = NULL;
}
