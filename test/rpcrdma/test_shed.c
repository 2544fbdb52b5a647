/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Endpoints that end during the consumer's callbacks: an endpoint that is closed for
 * another one of its budget, and an endpoint that is destroyed. */

#include <errno.h>
#include <string.h>

#include "by_hand.h"
#include <weft/rpc_budget.h>
#include "weft_test.h"

#define LIMIT 200000u
#define CALLS 4u

static struct rig a, b;
static struct weft_rpc_budget *budget;

/* What the callback of a call's end does, and what it saw. */
static struct {
	unsigned int answers;
	bool inside; /* a message is being handed to an endpoint of b */
	struct rig_side *destroys;
	bool once_more; /* destroy the call's own endpoint twice */
	struct weft_rpc *rpc;
	unsigned int asked;
} at_end;

static void
on_end(void *arg, enum weft_rpc_status status, void *res)
{
	struct rig_side *d = at_end.destroys;
	const struct weft_rpc_stats *st;

	(void)arg;
	(void)res;
	CHECK_EQ(status, WEFT_RPC_CONNLOST);
	at_end.answers++;
	CHECK(!at_end.inside);
	at_end.destroys = NULL;
	if (d != NULL) {
		d->qp.dead = true;
		weft_rpc_destroy(d->rpc);
		d->rpc = NULL;
	}
	if (at_end.rpc == NULL || d != NULL)
		return;
	/* The endpoint still exists in the callback of its last call. */
	st = weft_rpc_stats(at_end.rpc);
	CHECK(st != NULL);
	CHECK_EQ(st->calls_out, CALLS);
	CHECK_EQ(weft_rpc_version(at_end.rpc), 2);
	CHECK_EQ(weft_rpc_call(at_end.rpc, RIG_PROG, 1, RIG_ADD, rig_xdr_u32, &at_end.answers,
	                       rig_xdr_u32, 4, 0, on_end, NULL),
	         -ENOTCONN);
	at_end.asked++;
	if (at_end.once_more)
		weft_rpc_destroy(at_end.rpc);
}

static void
call(struct rig_side *side)
{
	uint32_t arg = 1;

	CHECK_EQ(weft_rpc_call(side->rpc, RIG_PROG, 1, RIG_STATUS, rig_xdr_u32, &arg, NULL, 0, 0,
	                       on_end, NULL),
	         0);
}

/* ---- Closed for another endpoint ---- */

/* A call that the server must read. Its RDMA Read is never completed. */
static void
chunk(struct rig_side *to, uint32_t xid, uint32_t len_bytes)
{
	static uint8_t m[4096];
	struct rpcrdma_hdr h;

	hand_header(&h, 2, RDMA2_CALL_EXTERNAL, xid);
	h.chunks.call = (struct rpcrdma_chunk){.n_segs = 1, .len_bytes = len_bytes};
	h.chunks.segs[0] = (struct rpcrdma_segment){.handle = 7, .len_bytes = len_bytes};
	h.chunks.n_segs = 1;
	fake_inject(&to->qp, m, weft_rpcrdma_encode(m, sizeof(m), &h));
}

/* A message in several parts. */
static void
parts(struct rig_side *to, uint32_t xid, uint32_t total)
{
	static uint8_t m[4096];
	struct rpcrdma_hdr h;
	uint32_t n;

	for (uint32_t done = 0; done < total && to->rpc != NULL && !to->rpc->down; done += 3000) {
		hand_header(&h, 2, RDMA2_CALL_MIDDLE, xid);
		h.remaining_bytes = total - done;
		n = weft_rpcrdma_encode(m, sizeof(m), &h);
		memset(m + n, 0, 3000);
		weft_put_be32(m + n, xid);
		fake_inject(&to->qp, m, n + 3000);
		while (fake_take(&to->qp, m, sizeof(m)) >= 0)
			fake_complete(&to->qp);
	}
}

/* Two connections under one budget. Each endpoint that will hold memory has a share of its own. */
static void
shed_up(void)
{
	struct rig_opts o = {.client_serves = true};
	struct rig_answer ans;

	memset(&at_end, 0, sizeof(at_end));
	CHECK_EQ(weft_rpc_budget_create(LIMIT, &budget), 0);
	o.budget = budget;
	rig_up(&a, &o);
	rig_up(&b, &o);
	hand_greet(&a, &ans);
	hand_greet(&b, &ans);
	CHECK_EQ(weft_rpc_set_peer_share(a.s.rpc, "1", 1), 0);
	CHECK_EQ(weft_rpc_set_peer_share(a.c.rpc, "2", 1), 0);
	CHECK_EQ(weft_rpc_set_peer_share(b.s.rpc, "3", 1), 0);
}

/* The endpoints of a hold most of the budget, and a's client waits for an answer. The server of
 * b asks for memory. */
static void
shed_by(bool by_parts, bool no_alarm)
{
	struct weft_rpc_budget_info info;

	shed_up();
	chunk(&a.s, 9, WEFT_RPC_BUDGET_OWN + 80000);
	chunk(&a.c, 9, WEFT_RPC_BUDGET_OWN + 90000);
	call(&a.c);
	fake_advance(&a.worker, 1000000);
	fake_advance(&b.worker, 1000000);
	a.worker.no_memory = no_alarm;
	at_end.destroys = &b.s;
	at_end.inside = true;
	if (by_parts)
		parts(&b.s, 5, WEFT_RPC_BUDGET_OWN + 60000);
	else
		chunk(&b.s, 5, WEFT_RPC_BUDGET_OWN + 60000);
	at_end.inside = false;
	weft_rpc_budget_info(budget, &info);
	CHECK_EQ(info.shed, 1);
	CHECK_EQ(info.refused, 0);
	CHECK_EQ(a.c.qp.disconnects, 1);
	CHECK_EQ(at_end.answers, 0);
	CHECK(a.c.rpc->down && !a.s.rpc->down);
	CHECK(by_parts ? b.s.rpc->cont.active : b.s.rpc->pulled_bytes > 0);
}

static void
shed_over(void)
{
	struct weft_rpc_budget_info info;

	CHECK_EQ(at_end.answers, 1);
	fake_break(&a.c.qp);
	fake_break(&b.c.qp);
	CHECK_EQ(at_end.answers, 1);
	rig_down(&a);
	rig_down(&b);
	weft_rpc_budget_info(budget, &info);
	CHECK_EQ(info.held_bytes, 0);
	weft_rpc_budget_destroy(budget);
}

/* The callbacks of the closed endpoint may destroy the endpoint that asked. */
static void
test_shed(void)
{
	for (unsigned int by_parts = 0; by_parts < 2; by_parts++) {
		shed_by(by_parts, false);
		fake_advance(&a.worker, 0);
		CHECK(b.s.rpc == NULL);
		shed_over();
	}
}

/* Without memory for the alarm, the end comes with the flushed work completions, or with the
 * destruction. */
static void
test_shed_otherwise(void)
{
	for (unsigned int how = 0; how < 3; how++) {
		shed_by(false, how == 0);
		at_end.destroys = NULL;
		if (how == 0) {
			fake_advance(&a.worker, 1000);
			CHECK_EQ(at_end.answers, 0);
			fake_break(&a.c.qp);
		} else if (how == 1) {
			weft_rpc_disconnected(a.c.rpc);
		} else {
			a.c.qp.dead = true;
			weft_rpc_destroy(a.c.rpc);
			a.c.rpc = NULL;
		}
		CHECK_EQ(at_end.answers, 1);
		fake_advance(&a.worker, 1000);
		shed_over();
	}
}

/* The endpoint that holds the most has a call that its consumer serves. It is not closed,
 * because the consumer's work would be lost. Another one is closed. */
static void
test_not_served(void)
{
	struct rig_answer later = {0};
	struct weft_rpc_req *req;

	shed_up();
	CHECK_EQ(rig_call_u32(&a.s, RIG_LATER, 7, &later), 0);
	rig_settle(&a);
	CHECK(a.c.later != NULL);
	chunk(&a.s, 9, WEFT_RPC_BUDGET_OWN + 80000);
	chunk(&a.c, 9, WEFT_RPC_BUDGET_OWN + 90000);
	fake_advance(&a.worker, 1000000);
	fake_advance(&b.worker, 1000000);
	chunk(&b.s, 5, WEFT_RPC_BUDGET_OWN + 60000);
	CHECK(a.s.rpc->down && !a.c.rpc->down);
	CHECK(b.s.rpc->pulled_bytes > 0);
	req = a.c.later;
	a.c.later = NULL;
	weft_rpc_done(req, WEFT_RPC_OK);
	fake_advance(&a.worker, 1000);
	fake_break(&a.c.qp);
	fake_break(&b.c.qp);
	CHECK_EQ(later.status, WEFT_RPC_CONNLOST);
	rig_down(&a);
	rig_down(&b);
	weft_rpc_budget_destroy(budget);
}

/* ---- Destroyed ---- */

/* Calls end while their endpoint still exists: its statistics can be read, and a second destroy
 * does nothing. */
static void
test_destroyed(void)
{
	struct rig_answer ans;

	for (unsigned int how = 0; how < 4; how++) {
		struct weft_rpc *rpc;

		memset(&at_end, 0, sizeof(at_end));
		rig_up(&a, NULL);
		hand_greet(&a, &ans);
		for (unsigned int i = 1; i < CALLS; i++)
			call(&a.c);
		at_end.rpc = rpc = a.c.rpc;
		at_end.once_more = how & 1;
		if (how >= 2) { /* inside the callback of its own first call */
			at_end.destroys = &a.c;
			weft_rpc_disconnected(rpc);
		} else {
			a.c.qp.dead = true;
			weft_rpc_destroy(rpc);
			a.c.rpc = NULL;
		}
		CHECK_EQ(at_end.answers, CALLS - 1);
		CHECK_EQ(at_end.asked, CALLS - 1 - (how >= 2));
		CHECK(weft_rpc_stats(rpc) == NULL);
		weft_rpc_destroy(rpc);
		fake_break(&a.s.qp);
		rig_down(&a);
	}
}

WEFT_TEST_MAIN({"gives way to another", test_shed},
               {"gives way, told otherwise", test_shed_otherwise}, {"destroyed", test_destroyed},
               {"not with a call of its consumer's", test_not_served})
