/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Entry to an endpoint and exit, and its end. */

#include <stddef.h>

#include "rpcrdma_mem.h"
#include "rpcrdma_priv.h"

struct weft_handle_kind rpcrdma_rpc_kind = {.name = "RPC endpoint"};

void
weft_rpcrdma_enter(struct weft_rpc *rpc)
{
	rpc->depth++;
}

void
weft_rpcrdma_leave(struct weft_rpc *rpc)
{
	if (rpc->depth == 1 && !rpc->down)
		rpc->ops->pump(rpc);
	if (rpc->depth == 1 && rpc->closing)
		weft_rpcrdma_fail(rpc);
	if (rpc->depth == 1)
		rpc->ops->leave(rpc);
	if (--rpc->depth == 0 && weft_rpcrdma_is_dead(rpc))
		rpc->ops->free(rpc);
}

void
weft_rpcrdma_down(struct weft_rpc *rpc)
{
	if (!rpc->down)
		rpc->ops->drop(rpc);
	if (rpc->telling != NULL)
		weft_alarm_cancel(rpc->telling);
	rpc->telling = NULL;
	/* Also when the caller is one of these calls' ends: the others end first. */
	rpc->ops->lost(rpc);
	weft_rpcrdma_regs_free(rpc);
}

void
weft_rpcrdma_fail(struct weft_rpc *rpc)
{
	if (!rpc->down)
		weft_disconnect(rpc->qp);
	weft_rpcrdma_down(rpc);
}

static void
entry_tell(void *arg)
{
	struct weft_rpc *rpc = arg;

	weft_rpcrdma_enter(rpc);
	rpc->telling = NULL;
	weft_rpcrdma_down(rpc);
	weft_rpcrdma_leave(rpc);
}

/*
 * This endpoint's consumer might end the other one, which is in the middle of a message, so it is
 * told later. Without memory for the alarm, the flushed receives cause that. The connection is
 * aborted: an orderly close would wait, with everything posted, for a peer that has stopped.
 */
void
weft_rpcrdma_shed(struct rpcrdma_holder *h)
{
	struct weft_rpc *rpc = (struct weft_rpc *)((char *)h - offsetof(struct weft_rpc, holder));

	if (weft_rpcrdma_is_dead(rpc))
		return;
	(void)weft_abort(rpc->qp);
	if (rpc->down)
		return;
	rpc->ops->drop(rpc);
	if (weft_alarm_set(rpc->worker, 0, entry_tell, rpc, &rpc->telling) != 0)
		rpc->telling = NULL;
}
