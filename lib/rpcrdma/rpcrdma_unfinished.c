/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What a peer has begun and does not finish: a message of which parts have come, a call whose
 * chunks are being read. Each keeps memory as long as the whole message may be, so neither may take
 * for ever, however it drips. One alarm looks at all of an endpoint's: what was there at its last
 * look, too, ends the connection.
 */

#include "rpcrdma_priv.h"

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
	/* Without memory for the alarm, the next message that begins has another try. */
	if (rpc->unfinished == NULL && weft_alarm_set(rpc->worker, RPCRDMA_UNFINISHED_US,
	                                              unfinished_look, rpc, &rpc->unfinished) != 0)
		rpc->unfinished = NULL;
}
