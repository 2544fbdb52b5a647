/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Charges the memory of an endpoint to its budget (weft/rpc_budget.h). */

#include "rpcrdma_priv.h"

bool
weft_rpcrdma_hold(struct weft_rpc *rpc, uint64_t n)
{
	if (rpc->a.budget == NULL)
		return true;
	if (rpc->down)
		return false;
	rpc->holder.known = weft_rpcrdma_known(rpc);
	/* What rests goes first, here and then elsewhere. */
	if (rpcrdma_budget_tight(rpc->a.budget, &rpc->holder, n))
		(void)rpc->holder.rest(&rpc->holder);
	return rpcrdma_budget_take(rpc->a.budget, &rpc->holder, rpc->peer_share,
	                           rpc->peer_share_bytes, n, weft_worker_now_ns(rpc->worker),
	                           rpc->ops->shed);
}

void
weft_rpcrdma_let_go(struct weft_rpc *rpc, uint64_t n)
{
	if (rpc->a.budget != NULL)
		rpcrdma_budget_give(rpc->a.budget, &rpc->holder, n);
}
