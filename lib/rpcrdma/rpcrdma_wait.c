/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Calls for which the budget has no room, to be read or to be answered, and calls behind such
 * a call. They keep their order, so of one endpoint's calls only the first has results that are not
 * encoded. They are tried again when octets were given back that they may have, and by an alarm,
 * because only time shows that other peers have stopped.
 */

#include "rpcrdma_priv.h"
#include "rpcrdma_req.h"

static void
wait_alarm(void *arg)
{
	struct weft_rpc *rpc = arg;
	struct weft_rpc_req *req;

	weft_rpcrdma_enter(rpc);
	rpc->resume = NULL;
	rpc->woken = rpc->refused = false;
	rpc->resuming = true;
	while (!rpc->down && !rpc->refused && (req = TAILQ_FIRST(&rpc->waiting)) != NULL) {
		TAILQ_REMOVE(&rpc->waiting, req, wait);
		req->waits = false;
		rpc->refresh = true;
		req->ops->go(req);
	}
	rpc->resuming = false;
	if (!rpc->down && TAILQ_EMPTY(&rpc->waiting))
		rpcrdma_budget_unwait(rpc->a.budget, &rpc->holder);
	else if (!rpc->down)
		rpcrdma_budget_wait(rpc->a.budget, &rpc->holder, true);
	weft_rpcrdma_leave(rpc);
}

static void
wait_wake(struct rpcrdma_holder *h)
{
	struct weft_rpc *rpc = (struct weft_rpc *)((char *)h - offsetof(struct weft_rpc, holder));

	if (rpc->woken || rpc->resuming)
		return;
	if (rpc->resume != NULL)
		weft_alarm_cancel(rpc->resume);
	rpc->woken = weft_alarm_set(rpc->worker, 0, wait_alarm, rpc, &rpc->resume) == 0;
	if (!rpc->woken)
		rpc->resume = NULL;
}

void
weft_rpcrdma_wait(struct weft_rpc_req *req)
{
	struct weft_rpc *rpc = req->rpc;

	req->waits = true;
	rpc->refused = true;
	rpc->stats.no_room++;
	/* A call that was served before the waiting ones goes before them. */
	if (rpc->resuming || req->stage > RPCRDMA_STAGE_SERVE)
		TAILQ_INSERT_HEAD(&rpc->waiting, req, wait);
	else
		TAILQ_INSERT_TAIL(&rpc->waiting, req, wait);
	rpc->holder.wake = wait_wake;
	rpcrdma_budget_wait(rpc->a.budget, &rpc->holder, false);
}

bool
weft_rpcrdma_waits(struct weft_rpc_req *req, enum rpcrdma_stage stage)
{
	req->stage = stage;
	if (TAILQ_EMPTY(&req->rpc->waiting) || req->rpc->resuming)
		return false;
	weft_rpcrdma_wait(req);
	return true;
}

void
weft_rpcrdma_wait_drop(struct weft_rpc_req *req)
{
	if (!req->waits)
		return;
	TAILQ_REMOVE(&req->rpc->waiting, req, wait);
	req->waits = false;
}

void
weft_rpcrdma_wait_arm(struct weft_rpc *rpc)
{
	if (rpc->down || rpc->resume != NULL || TAILQ_EMPTY(&rpc->waiting))
		return;
	/* Without memory for the alarm, the next message that is received or sent sets it. */
	if (weft_alarm_set(rpc->worker, RPCRDMA_RESUME_US, wait_alarm, rpc, &rpc->resume) != 0)
		rpc->resume = NULL;
}

void
weft_rpcrdma_wait_end(struct weft_rpc *rpc)
{
	if (rpc->resume != NULL)
		weft_alarm_cancel(rpc->resume);
	rpc->resume = NULL;
	if (rpc->a.budget != NULL)
		rpcrdma_budget_unwait(rpc->a.budget, &rpc->holder);
}
