/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Answers are charged to the budget of their calls from their encoding until the peer has
 * received them. Answers without room wait, and none is lost. */

#include <stdlib.h>
#include <string.h>

#include "by_hand.h"
#include <weft/rpc_budget.h>
#include "weft_test.h"

#define LONG   66000u  /* octets of an answer */
#define LIMIT  120000u /* half of it has room for one answer besides the endpoints' own shares */
#define SHORT  50000u  /* half of it has no room for one */
#define RESUME RPCRDMA_RESUME_US
#define STALL  (RPCRDMA_BUDGET_STALL_NS / 1000)
#define XID    0x77001

static struct rig r[3];
static struct rig_answer ans[3];
static struct weft_rpc_budget *budget;
static unsigned int served;

static uint64_t
held(void)
{
	struct weft_rpc_budget_info info;

	weft_rpc_budget_info(budget, &info);
	CHECK(info.most_bytes <= info.limit_bytes);
	return info.held_bytes;
}

static uint64_t
shed(void)
{
	struct weft_rpc_budget_info info;

	weft_rpc_budget_info(budget, &info);
	return info.shed;
}

/* Each endpoint with a peer of its own, or all with one peer. */
static void
begin(uint64_t limit, const char *const *share, struct rig_opts o)
{
	CHECK_EQ(weft_rpc_budget_create(limit, &budget), 0);
	o.budget = budget;
	memset(ans, 0, sizeof(ans));
	for (unsigned int i = 0; i < 3; i++) {
		rig_up(&r[i], &o);
		CHECK_EQ(weft_rpc_set_peer_share(r[i].c.rpc, "c", 1), 0);
		CHECK_EQ(weft_rpc_set_peer_name(r[i].s.rpc, share[i], 1), 0);
		if (o.programs == NULL)
			hand_greet(&r[i], &ans[i]);
	}
	memset(ans, 0, sizeof(ans));
	CHECK_EQ(held(), 0);
}

static void
tear_down(void)
{
	for (unsigned int i = 0; i < 3; i++)
		rig_down(&r[i]);
	CHECK_EQ(held(), 0);
	weft_rpc_budget_destroy(budget);
}

/* The call arrives, and its answer is not delivered. */
static void
ask(unsigned int i)
{
	CHECK_EQ(rig_big(&r[i].c, LONG, &ans[i]), 0);
	while (fake_deliver(&r[i].c.qp))
		fake_complete(&r[i].c.qp);
}

static uint64_t
waited(unsigned int i)
{
	return weft_rpc_stats(r[i].s.rpc)->no_room;
}

static void
pass(uint64_t us)
{
	for (unsigned int i = 0; i < 3; i++)
		fake_advance(&r[i].worker, us);
}

/* An answer is charged until its peer has acknowledged the last octet. */
static void
test_charged(void)
{
	begin(LIMIT, (const char *const[]){"1", "2", "3"}, (struct rig_opts){0});
	ask(0);
	CHECK(held() >= LONG - WEFT_RPC_BUDGET_OWN);
	for (unsigned int n = 0; n < 4; n++) {
		CHECK(fake_deliver(&r[0].s.qp));
		CHECK(held() >= LONG - WEFT_RPC_BUDGET_OWN);
	}
	rig_settle(&r[0]);
	CHECK_EQ(held(), 0);
	CHECK_EQ(ans[0].n, 1);
	CHECK_EQ(ans[0].status, WEFT_RPC_OK);
	CHECK_EQ(strlen(ans[0].text), LONG);
	tear_down();
}

/* An answer waits because another connection of the same peer holds the room. It is tried again
 * ten times a second, and at once when octets are given back. Later answers wait behind it, in
 * order. */
static void
test_turn(void)
{
	struct rig_answer more;
	uint64_t n;

	memset(&more, 0, sizeof(more));
	begin(LIMIT, (const char *const[]){"1", "1", "3"}, (struct rig_opts){0});
	ask(0);
	ask(1);
	CHECK_EQ(waited(1), 1);
	CHECK_EQ(rig_add(&r[1].c, 20, 22, &more), 0);
	rig_settle(&r[1]);
	CHECK_EQ(waited(1), 2);
	CHECK_EQ(r[1].s.served, 1); /* the call of hand_greet() */
	pass(RESUME - 1);
	CHECK_EQ(waited(1), 2);
	pass(1);
	n = waited(1);
	CHECK_EQ(n, 3);
	pass(RESUME - 1);
	CHECK_EQ(waited(1), n);
	CHECK_EQ(ans[1].n + more.n, 0);
	rig_settle(&r[0]);
	CHECK_EQ(ans[0].status, WEFT_RPC_OK);
	fake_advance(&r[1].worker, 0);
	rig_settle(&r[1]);
	CHECK_EQ(ans[1].n, 1);
	CHECK_EQ(ans[1].status, WEFT_RPC_OK);
	CHECK_EQ(strlen(ans[1].text), LONG);
	CHECK_EQ(more.n, 1);
	CHECK_EQ(more.sum, 42);
	CHECK_EQ(shed(), 0);
	CHECK_EQ(held(), 0);
	tear_down();
}

/* An endpoint whose peer receives no answer is closed when another one needs the room, of its
 * own peer or of another. */
static void
stopped(const char *const *share, unsigned int late)
{
	unsigned int goes;

	begin(LIMIT, share, (struct rig_opts){0});
	for (unsigned int i = 0; i < late; i++)
		ask(i);
	pass(STALL - RESUME);
	ask(late);
	CHECK_EQ(waited(late), 1);
	pass(RESUME - 1);
	CHECK_EQ(shed(), 0);
	pass(1);
	CHECK_EQ(shed(), 1);
	goes = late == 1 || r[0].s.qp.disconnects == 1 ? 0 : 1;
	for (unsigned int i = 0; i < 3; i++)
		CHECK_EQ(r[i].s.qp.disconnects, i == goes);
	/* The memory of its answers is free after the endpoint is destroyed. */
	weft_rpc_destroy(r[goes].s.rpc);
	r[goes].s.rpc = NULL;
	pass(0);
	rig_settle(&r[late]);
	CHECK_EQ(ans[late].n, 1);
	CHECK_EQ(ans[late].status, WEFT_RPC_OK);
	for (unsigned int i = 0; i < late; i++)
		fake_break(&r[i].c.qp);
	tear_down();
}

static void
test_stopped(void)
{
	stopped((const char *const[]){"1", "1", "3"}, 1);
	stopped((const char *const[]){"1", "2", "3"}, 2);
}

/* An answer that could never have room is replaced by an error. */
static void
test_never(void)
{
	begin(SHORT, (const char *const[]){"1", "2", "3"}, (struct rig_opts){0});
	ask(0);
	rig_settle(&r[0]);
	CHECK_EQ(ans[0].n, 1);
	CHECK_EQ(ans[0].status, WEFT_RPC_TRANSPORT);
	CHECK_EQ(held(), 0);
	CHECK_EQ(rig_add(&r[0].c, 1, 2, &ans[1]), 0);
	rig_settle(&r[0]);
	CHECK_EQ(ans[1].status, WEFT_RPC_OK);
	tear_down();
}

/* The connection of a waiting answer ends. */
static void
test_waits_and_ends(void)
{
	for (unsigned int how = 0; how < 2; how++) {
		begin(LIMIT, (const char *const[]){"1", "1", "3"}, (struct rig_opts){0});
		ask(0);
		ask(1);
		if (how == 0) {
			fake_break(&r[1].s.qp);
		} else {
			r[1].s.qp.dead = true;
			weft_rpc_destroy(r[1].s.rpc);
			r[1].s.rpc = NULL;
		}
		rig_settle(&r[0]);
		pass(RESUME);
		CHECK_EQ(ans[0].status, WEFT_RPC_OK);
		CHECK_EQ(ans[1].n, how == 0);
		fake_break(&r[1].c.qp);
		tear_down();
	}
}

/* ---- Calls that are executed once ---- */

static enum weft_rpc_status
serve_long(void *user, void *args, void *res)
{
	char *text = malloc(LONG + 1);

	(void)user;
	(void)args;
	served++;
	memset(text, 'y', LONG);
	text[LONG] = '\0';
	*(char **)res = text;
	return WEFT_RPC_OK;
}

static void
on_long(void *arg, enum weft_rpc_status status, void *res)
{
	struct rig_answer *a = arg;

	a->n++;
	a->status = status;
	if (res != NULL)
		snprintf(a->text, sizeof(a->text), "%s", *(char **)res);
}

static void
ask_once(unsigned int i)
{
	uint32_t arg = 1;
	const struct weft_rpc_call_attr c = {.size = sizeof(c),
	                                     .prog = RIG_PROG,
	                                     .vers = 1,
	                                     .proc = 1,
	                                     .xdr_args = rig_xdr_u32,
	                                     .args = &arg,
	                                     .xdr_res = rig_xdr_text,
	                                     .res_bytes = sizeof(char *),
	                                     .fn = on_long,
	                                     .arg = &ans[i],
	                                     .xid = XID,
	                                     .once = true};

	CHECK_EQ(weft_rpc_call_with(r[i].c.rpc, &c), 0);
	while (fake_deliver(&r[i].c.qp))
		fake_complete(&r[i].c.qp);
}

/* A repeated call is answered from the cache when there is room, and not executed again. The
 * cache also has an answer that waited and was lost with its connection. */
static void
test_once(void)
{
	static const struct weft_rpc_proc procs[] = {{0},
	                                             {rig_xdr_u32, rig_xdr_text, sizeof(uint32_t),
	                                              sizeof(char *), serve_long, .once = true}};
	static const struct weft_rpc_program prog = {RIG_PROG, 1, procs, 2};
	static const struct weft_rpc_program *const programs[] = {&prog, NULL};
	struct weft_rpc_drc *drc;

	for (unsigned int lost = 0; lost < 2; lost++) {
		CHECK_EQ(weft_rpc_drc_create(16, &drc), 0);
		served = 0;
		begin(LIMIT, (const char *const[]){"1", "1", "1"},
		      (struct rig_opts){.programs = programs, .drc = drc});
		ask_once(0);
		CHECK_EQ(served, 1);
		ask_once(1);
		CHECK_EQ(waited(1), 1);
		if (lost) {
			fake_break(&r[1].s.qp);
			ask_once(2);
		}
		rig_settle(&r[0]);
		pass(0);
		rig_settle(&r[1 + lost]);
		CHECK_EQ(ans[0].status, WEFT_RPC_OK);
		CHECK_EQ(ans[1 + lost].n, 1);
		CHECK_EQ(ans[1 + lost].status, WEFT_RPC_OK);
		CHECK_EQ(strlen(ans[1 + lost].text), LONG);
		CHECK_EQ(weft_rpc_stats(r[1 + lost].s.rpc)->replayed, 1);
		CHECK_EQ(served, 1);
		if (lost)
			fake_break(&r[1].c.qp);
		tear_down();
		weft_rpc_drc_destroy(drc);
	}
}

WEFT_TEST_MAIN({"charged until taken", test_charged}, {"waits its turn", test_turn},
               {"who has stopped goes", test_stopped}, {"never", test_never},
               {"waits and ends", test_waits_and_ends}, {"done once", test_once})
