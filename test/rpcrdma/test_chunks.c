/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Long messages and data items: every format, both directions, both versions. Afterwards
 * nothing is left registered.
 */

#include <errno.h>
#include <stdlib.h>

#include "rpcrdma_call.h"
#include "rpcrdma_msg.h"
#include "rpcrdma_req.h"
#include "rig.h"
#include <weft/rpc_budget.h>
#include "weft_test.h"

static struct rig rig;
static struct rig_answer ans[64];

static void
start(const struct rig_opts *o)
{
	memset(ans, 0, sizeof(ans));
	rig_up(&rig, o);
}

/* Check that the endpoints accessed only offered memory, and that no region is left registered. */
static void
finish(void)
{
	rig_settle(&rig);
	CHECK_EQ(fake_regions(), 0);
	CHECK_EQ(rig.c.qp.access_errors + rig.s.qp.access_errors, 0);
	CHECK_EQ(rig.c.rpc->regs_used.n, 0);
	CHECK_EQ(rig.s.rpc->regs_used.n, 0);
	CHECK(LIST_EMPTY(&rig.c.rpc->reqs));
	CHECK(LIST_EMPTY(&rig.s.rpc->reqs));
	rig_down(&rig);
}

static const uint32_t sizes[] = {0,    1,    2,    3,    4,     5,     100,   900,
                                 1024, 3900, 4096, 5001, 17000, 65536, 300001};

static void
one_by_one(struct rig_side *side, const struct weft_rpc_binding *b, bool all_ok)
{
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (unsigned int k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
			ans[0].n = 0;
			CHECK_EQ(rig_move(side, sizes[i], sizes[k], b, &ans[0]), 0);
			rig_settle(&rig);
			CHECK_MSG(ans[0].n == 1, "%u there, %u back: %u answers", sizes[i],
			          sizes[k], ans[0].n);
			if (all_ok)
				CHECK_MSG(ans[0].status == WEFT_RPC_OK, "%u there, %u back: %s",
				          sizes[i], sizes[k], weft_rpc_status_str(ans[0].status));
			else
				CHECK(ans[0].status == WEFT_RPC_OK ||
				      ans[0].status == WEFT_RPC_TOO_LONG);
		}
	}
}

static void
test_formats(void)
{
	for (uint8_t vers = 1; vers <= 2; vers++) {
		for (unsigned int flags = 0; flags < 4; flags++) {
			struct rig_opts o = {.client_max = vers,
			                     .no_invalidate = flags & 1,
			                     .max_segment_bytes = flags & 2 ? 60000 : 0};
			const struct weft_rpc_stats *c, *s;

			start(&o);
			c = weft_rpc_stats(rig.c.rpc);
			s = weft_rpc_stats(rig.s.rpc);
			one_by_one(&rig.c, &rig_move_binding, true);
			CHECK_EQ(weft_rpc_version(rig.c.rpc), vers);
			CHECK(s->read_chunks > 0 && s->write_chunks > 0);
			CHECK_EQ(c->invalidated > 0, vers == 2 && !o.no_invalidate);
			CHECK_EQ(c->errors_in + s->errors_in, 0);
			finish();
		}
	}
}

/* Without a binding nothing is reduced: long calls are read. Long replies are continued, or
 * refused in version 1. */
static void
test_unbound(void)
{
	for (uint8_t vers = 1; vers <= 2; vers++) {
		struct rig_opts o = {.client_max = vers};

		start(&o);
		one_by_one(&rig.c, NULL, vers == 2);
		CHECK(weft_rpc_stats(rig.c.rpc)->special > 0);
		CHECK_EQ(weft_rpc_stats(rig.c.rpc)->continued > 0, vers == 2);
		finish();
	}
}

static uint32_t
long_reply(const void *args)
{
	(void)args;
	return 400000;
}

/* s6.6.3: a Reply chunk that is present must be used. */
static void
test_reply_chunk(void)
{
	const struct weft_rpc_binding b = {.reply_bytes = long_reply};

	for (uint8_t vers = 1; vers <= 2; vers++) {
		struct rig_opts o = {.client_max = vers};

		start(&o);
		one_by_one(&rig.c, &b, true);
		CHECK_EQ(weft_rpc_stats(rig.s.rpc)->continued > 0, vers == 2); /* and for calls */
		finish();
	}
}

/* The Reply chunk is too small: version 2 continues the message (s6.6.4), version 1 refuses. */
static void
test_reply_chunk_short(void)
{
	const struct weft_rpc_binding b = {.reply_bytes = rig_reply_5000};

	for (uint8_t vers = 1; vers <= 2; vers++) {
		struct rig_opts o = {.client_max = vers};

		start(&o);
		CHECK_EQ(rig_move(&rig.c, 10, 6000, &b, &ans[0]), 0);
		rig_settle(&rig);
		CHECK_EQ(ans[0].n, 1);
		CHECK_EQ(ans[0].status, vers == 2 ? WEFT_RPC_OK : WEFT_RPC_TOO_LONG);
		CHECK_EQ(rig_move(&rig.c, 10, 100, &b, &ans[1]), 0);
		rig_settle(&rig);
		CHECK_EQ(ans[1].status, WEFT_RPC_OK);
		finish();
	}
}

static unsigned int
small_sinks(const void *args, struct weft_rpc_sink *sinks)
{
	(void)args;
	sinks[0] = (struct weft_rpc_sink){NULL, 1000, 0};
	return 1;
}

/* s7.3.4: the Write chunk is too small. The call is repeated with room for the whole reply. */
static void
test_write_resource(void)
{
	const struct weft_rpc_binding b = {.sinks = small_sinks};

	start(NULL);
	CHECK_EQ(rig_move(&rig.c, 10, 5000, &b, &ans[0]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[0].status, WEFT_RPC_OK);
	CHECK_EQ(weft_rpc_stats(rig.c.rpc)->retries, 1);
	CHECK_EQ(weft_rpc_stats(rig.s.rpc)->errors_out, 1);
	CHECK_EQ(rig.s.served, 2);
	finish();
}

/* Many calls at once, in both directions and in random order. */
static void
test_shuffled(void)
{
	uint64_t first = test_seed(1), n = test_seed_given() ? 1 : 60;

	for (uint64_t seed = first; seed < first + n; seed++) {
		struct rig_opts o = {.client_serves = true,
		                     .client_max = (uint8_t)(1 + seed % 2),
		                     .client_credits = (uint32_t)(2 + seed % 7),
		                     .server_credits = (uint32_t)(2 + seed / 7 % 7),
		                     .client_inline = seed % 3 == 0 ? 1024 : 0,
		                     .server_inline = seed % 5 == 0 ? 8192 : 0};

		test_seed_note(seed);
		start(&o);
		rig.rand = seed + 1;
		CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[40]), 0); /* after this, either side may call */
		rig_settle(&rig);
		CHECK_EQ(ans[40].status, WEFT_RPC_OK);
		for (unsigned int i = 0; i < 40; i++)
			CHECK_EQ(rig_move(i % 2 ? &rig.c : &rig.s,
			                  (uint32_t)(rig_rand(&rig) % 20000),
			                  (uint32_t)(rig_rand(&rig) % 20000), &rig_move_binding,
			                  &ans[i]),
			         0);
		rig_shuffle(&rig);
		for (unsigned int i = 0; i < 40; i++)
			CHECK_MSG(ans[i].n == 1 && ans[i].status == WEFT_RPC_OK,
			          "seed %" PRIu64 ": call %u has %u answers, %s", seed, i, ans[i].n,
			          weft_rpc_status_str(ans[i].status));
		finish();
	}
}

/* Reverse calls at every level (s5.2.5): none is sent beyond the announced level. */
static void
test_reverse(void)
{
	for (enum weft_rpc_reverse level = WEFT_RPC_REVERSE_NONE; level <= WEFT_RPC_REVERSE_GENERAL;
	     level++) {
		struct rig_opts o = {.client_serves = true, .reverse = level};

		start(&o);
		CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[0]), 0);
		rig_settle(&rig);
		CHECK_EQ(rig_move(&rig.s, 100, 100, &rig_move_binding, &ans[1]), 0);
		CHECK_EQ(rig_move(&rig.s, 6000, 100, &rig_move_binding, &ans[2]), 0);
		CHECK_EQ(rig_move(&rig.s, 100000, 100000, &rig_move_binding, &ans[3]), 0);
		rig_settle(&rig);
		CHECK_EQ(ans[1].status,
		         level == WEFT_RPC_REVERSE_NONE ? WEFT_RPC_TRANSPORT : WEFT_RPC_OK);
		CHECK_EQ(ans[2].status, level < WEFT_RPC_REVERSE_CONT
		                                ? level == WEFT_RPC_REVERSE_NONE
		                                          ? WEFT_RPC_TRANSPORT
		                                          : WEFT_RPC_CALL_TOO_LONG
		                                : WEFT_RPC_OK);
		CHECK(ans[3].n == 1);
		if (level != WEFT_RPC_REVERSE_GENERAL)
			CHECK_EQ(rig.s.qp.reads + rig.s.qp.writes + rig.c.qp.reads +
			                 rig.c.qp.writes,
			         0);
		else
			CHECK_EQ(ans[3].status, WEFT_RPC_OK);
		finish();
	}
}

/* The connection ends at every step: each call is answered once, and nothing stays registered. */
static void
test_broken(void)
{
	for (unsigned int step = 0; step < 120; step++) {
		struct rig_opts o = {.client_serves = true, .client_max = (uint8_t)(1 + step % 2)};

		start(&o);
		rig.rand = step + 1;
		for (unsigned int i = 0; i < 6; i++)
			CHECK_EQ(rig_move(&rig.c, 3000 * i, 20000 - 3000 * i, &rig_move_binding,
			                  &ans[i]),
			         0);
		for (unsigned int k = 0; k < step; k++) {
			struct rig_side *side = rig_rand(&rig) & 1 ? &rig.c : &rig.s;

			rig_rand(&rig) & 1 ? fake_deliver(&side->qp) : fake_complete(&side->qp);
		}
		fake_break(&rig.c.qp);
		weft_rpc_disconnected(rig.c.rpc);
		weft_rpc_disconnected(rig.s.rpc);
		for (unsigned int i = 0; i < 6; i++)
			CHECK_EQ(ans[i].n, 1);
		CHECK_EQ(fake_mrs(), 0);
		rig_down(&rig);
	}
}

/* A call that times out: the caller gets its memory back only when the peer cannot access it any
 * more. */
static void
test_timeout(void)
{
	start(NULL);
	CHECK_EQ(rig_add(&rig.c, 1, 1, &ans[1]), 0);
	rig_settle(&rig);
	CHECK_EQ(rig_move(&rig.c, 20000, 20000, &rig_move_binding, &ans[0]), 0);
	/* The fake registers a region when it delivers the request. Deliver until both regions
	 * are registered. The call is sent and not delivered. */
	while (fake_regions() < 2)
		CHECK(fake_deliver(&rig.c.qp));
	fake_advance(&rig.worker, RPCRDMA_TIMEOUT_US);
	CHECK_EQ(ans[0].n, 0);
	CHECK(fake_regions() > 0);
	rig.c.qp.peer->on_arrive = NULL;
	for (unsigned int i = 0; i < 20; i++) {
		fake_deliver(&rig.c.qp);
		fake_complete(&rig.c.qp);
	}
	CHECK_EQ(ans[0].n, 1);
	CHECK_EQ(ans[0].status, WEFT_RPC_TIMEDOUT);
	CHECK_EQ(fake_regions(), 0);
	fake_break(&rig.c.qp);
	rig_down(&rig);
}

/* s4.3.2: a server with version 1 only. The call is repeated on the same connection. */
static void
test_fallback(void)
{
	struct rig_opts o = {.server_max = 1};

	start(&o);
	for (unsigned int i = 0; i < 8; i++)
		CHECK_EQ(rig_move(&rig.c, 1000 * i, 8000 - 1000 * i, &rig_move_binding, &ans[i]),
		         0);
	rig_settle(&rig);
	for (unsigned int i = 0; i < 8; i++) {
		CHECK_EQ(ans[i].n, 1);
		CHECK_EQ(ans[i].status, WEFT_RPC_OK);
	}
	CHECK_EQ(weft_rpc_version(rig.c.rpc), 1);
	CHECK_EQ(weft_rpc_version(rig.s.rpc), 1);
	CHECK_EQ(weft_rpc_stats(rig.c.rpc)->errors_in, 1);
	finish();

	/* if the client has only version 2, the call fails at once */
	o.client_min = 2;
	start(&o);
	CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[0]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[0].status, WEFT_RPC_TRANSPORT);
	CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[0]), -EPROTONOSUPPORT);
	finish();
}

/* ---- Delayed answers and repeated calls ---- */

static void
test_later(void)
{
	struct weft_rpc_drc *drc;
	struct rig_opts o;
	uint32_t xid;

	CHECK_EQ(weft_rpc_drc_create(4, &drc), 0);
	o = (struct rig_opts){.drc = drc};
	start(&o);
	CHECK_EQ(weft_rpc_set_peer_name(rig.s.rpc, "a", 1), 0);
	CHECK_EQ(rig_call_u32(&rig.c, RIG_LATER, 41, &ans[0]), 0);
	rig_settle(&rig);
	CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[1]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[0].n, 0);
	CHECK_EQ(ans[1].sum, 3);
	CHECK(rig.s.later != NULL);
	weft_rpc_done(rig.s.later, WEFT_RPC_OK);
	rig.s.later = NULL;
	rig_settle(&rig);
	CHECK_EQ(ans[0].status, WEFT_RPC_OK);
	/* The next call loses its answer with the connection. It is repeated on a new
	 * connection, and executed once. */
	CHECK_EQ(rig_call_u32(&rig.c, RIG_LATER, 7, &ans[2]), 0);
	rig_settle(&rig);
	xid = LIST_FIRST(&rig.c.rpc->calls)->xid;
	fake_break(&rig.c.qp);
	CHECK_EQ(ans[2].status, WEFT_RPC_CONNLOST);
	weft_rpc_destroy(rig.s.rpc);
	rig.s.rpc = NULL;
	weft_rpc_done(rig.s.later, WEFT_RPC_OK);
	rig_down(&rig);

	for (unsigned int other = 0; other < 2; other++) {
		struct weft_rpc_call_attr a = {.size = sizeof(a),
		                               .prog = RIG_PROG,
		                               .vers = 1,
		                               .proc = RIG_LATER,
		                               .xdr_args = rig_xdr_u32,
		                               .args = &(uint32_t){7},
		                               .fn = rig_on_none,
		                               .arg = &ans[0],
		                               .xid = xid};

		start(&o);
		CHECK_EQ(weft_rpc_set_peer_name(rig.s.rpc, other ? "b" : "a", 1), 0);
		CHECK_EQ(weft_rpc_call_with(rig.c.rpc, &a), 0);
		rig_settle(&rig);
		CHECK_EQ(ans[0].n, !other);
		CHECK_EQ(rig.s.served, other); /* b is another client */
		CHECK_EQ(weft_rpc_stats(rig.s.rpc)->replayed, !other);
		if (other)
			weft_rpc_done(rig.s.later, WEFT_RPC_OK);
		finish();
	}
	weft_rpc_drc_destroy(drc);
	CHECK_EQ(weft_rpc_drc_create(0, &drc), -EINVAL);
}

/* s4.7: no answer follows, and the call is complete when it was sent. */
static void
test_call_only(void)
{
	static const struct weft_rpc_binding only = {.call_only = true};
	struct weft_rpc_call_attr a = {.size = sizeof(a),
	                               .prog = RIG_PROG,
	                               .vers = 1,
	                               .proc = RIG_TELL,
	                               .xdr_args = rig_xdr_u32,
	                               .args = &(uint32_t){5},
	                               .binding = &only,
	                               .fn = rig_on_none,
	                               .arg = &ans[0]};

	start(NULL);
	for (unsigned int i = 0; i < 100; i++) {
		ans[0].n = 0;
		CHECK_EQ(weft_rpc_call_with(rig.c.rpc, &a), 0);
		rig_settle(&rig);
		CHECK_EQ(ans[0].n, 1);
		CHECK_EQ(ans[0].status, WEFT_RPC_OK);
	}
	CHECK_EQ(rig.s.told, 500);
	CHECK_EQ(weft_rpc_stats(rig.s.rpc)->replies_out, 0);
	finish();
}

/* The heap of an answer that cannot be sent yet is charged in full: its octets, and the work
 * requests that write them, in any number of pieces. */
static void
test_charged(void)
{
	for (uint32_t segs = 1; segs <= 30; segs++) {
		const struct rpcrdma_msg *m;
		const struct weft_rpc_req *req;
		struct weft_rpc_budget *budget;

		CHECK_EQ(weft_rpc_budget_create(1 << 20, &budget), 0);
		start(&(struct rig_opts){
		        .budget = budget, .max_segment_bytes = 4096, .server_segments = 32});
		CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[1]), 0);
		rig_settle(&rig);
		rig.c.rpc->peer.segs = 32;
		rig.s.qp.sq_used = rig.s.qp.sq_depth; /* no work request can be posted */
		CHECK_EQ(rig_move(&rig.c, 4, segs * 4096, &rig_move_binding, &ans[0]), 0);
		while (fake_deliver(&rig.c.qp) || fake_complete(&rig.c.qp))
			;
		m = STAILQ_FIRST(&rig.s.rpc->tx);
		CHECK(m != NULL && m->kind == RPCRDMA_REPLY && m->req != NULL);
		req = m->req;
		CHECK_MSG(m->pre.n >= segs, "%u segments: %u writes", segs, m->pre.n);
		CHECK_MSG(
		        req->out_held_bytes >= sizeof(*m) + req->out.cap_bytes +
		                                       (uint64_t)m->pre.cap * (sizeof(*m->pre.wr) +
		                                                               sizeof(*m->pre.sge)),
		        "%u segments: %llu octets", segs, (unsigned long long)req->out_held_bytes);
		rig.s.qp.sq_used = 0;
		fake_advance(&rig.worker, 1000000);
		rig_settle(&rig);
		CHECK_EQ(ans[0].status, WEFT_RPC_OK);
		finish();
		weft_rpc_budget_destroy(budget);
	}
}

/* A short message is read into memory that stays registered: the next one needs no registration.
 * An endpoint at rest keeps no more of it than its free octets. */
static void
test_kept(void)
{
	struct weft_rpc_budget *budget;
	const struct rpcrdma_reg *reg;
	uint32_t stag = 0;

	CHECK_EQ(weft_rpc_budget_create(4 << 20, &budget), 0);
	start(&(struct rig_opts){.budget = budget});
	for (unsigned int i = 0; i < 4; i++) {
		CHECK_EQ(rig_move(&rig.c, 8000, 4, &rig_move_binding, &ans[i]), 0);
		rig_settle(&rig);
		CHECK_EQ(ans[i].status, WEFT_RPC_OK);
		CHECK_EQ(rig.s.rpc->sinks_kept.n, 1);
		reg = TAILQ_FIRST(&rig.s.rpc->sinks_kept.regs);
		CHECK(reg->valid && (stag == 0 || reg->stag == stag));
		stag = reg->stag;
	}
	for (unsigned int i = 4; i < 12; i++)
		CHECK_EQ(rig_move(&rig.c, 16000, 4, &rig_move_binding, &ans[i]), 0);
	rig_settle(&rig);
	for (unsigned int i = 4; i < 12; i++)
		CHECK_EQ(ans[i].status, WEFT_RPC_OK);
	CHECK_EQ(rig.s.rpc->nreqs, 0);
	CHECK(rig.s.rpc->holder.bytes <= WEFT_RPC_BUDGET_OWN);
	CHECK_EQ(fake_sinks(), rig.s.rpc->sinks_kept.n);
	finish();
	weft_rpc_budget_destroy(budget);
}

/* Memory at rest is given up before a call is refused or waits for it. */
static void
test_kept_for_others(void)
{
	const uint32_t big = 300000;
	struct weft_rpc_budget_info info;
	struct weft_rpc_budget *budget;

	CHECK_EQ(weft_rpc_budget_create(2 * (big + WEFT_RPC_BUDGET_OWN), &budget), 0);
	start(&(struct rig_opts){.budget = budget});
	CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[12]), 0); /* its answer brings credit */
	rig_settle(&rig);
	/* A call that is not answered, so that the endpoint is not at rest. */
	CHECK_EQ(rig_call_u32(&rig.c, RIG_LATER, 1, &ans[0]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[0].n, 0);
	for (unsigned int i = 5; i < 12; i++)
		CHECK_EQ(rig_move(&rig.c, 16000, 4, &rig_move_binding, &ans[i]), 0);
	/* All of them are under way at once. */
	while (fake_deliver(&rig.c.qp) || fake_complete(&rig.c.qp))
		;
	rig_settle(&rig);
	CHECK(rig.s.rpc->sinks_kept.n > 0 && rig.s.rpc->nreqs > 0);
	CHECK(rig.s.rpc->holder.bytes > WEFT_RPC_BUDGET_OWN);
	CHECK_EQ(rig_move(&rig.c, big, 4, &rig_move_binding, &ans[4]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[4].n, 1);
	CHECK_EQ(ans[4].status, WEFT_RPC_OK);
	weft_rpc_budget_info(budget, &info);
	CHECK_EQ(info.refused, 0);
	*rig.s.later_res = 0;
	weft_rpc_done(rig.s.later, WEFT_RPC_OK);
	rig_settle(&rig);
	CHECK_EQ(ans[0].status, WEFT_RPC_OK);
	finish();
	CHECK_EQ(fake_sinks(), 0);
	weft_rpc_budget_destroy(budget);
}

/* ---- Authentication ---- */

static unsigned int auth_steps;

/* Three messages: the client's name, a number, and that number plus one. */
static int
auth_client(void *user, const uint8_t *in, uint32_t n, uint8_t *out, uint32_t *out_bytes)
{
	(void)user;
	auth_steps++;
	if (in == NULL) {
		memcpy(out, "me", 2);
		*out_bytes = 2;
		return 0;
	}
	if (n != 1)
		return -EACCES;
	out[0] = in[0] + 1;
	*out_bytes = 1;
	return 1;
}

static uint8_t auth_number;

static int
auth_server(void *user, const uint8_t *in, uint32_t n, uint8_t *out, uint32_t *out_bytes)
{
	(void)user;
	auth_steps++;
	if (n == 2 && memcmp(in, "me", 2) == 0) {
		out[0] = auth_number = 77;
		*out_bytes = 1;
		return 0;
	}
	return n == 1 && in[0] == auth_number + 1 ? 1 : -EACCES;
}

static int
auth_liar(void *user, const uint8_t *in, uint32_t n, uint8_t *out, uint32_t *out_bytes)
{
	int rc = auth_client(user, in, n, out, out_bytes);

	if (in != NULL)
		out[0]++;
	return rc;
}

static void
test_auth(void)
{
	static const struct weft_rpc_auth c = {auth_client, true}, s = {auth_server, true},
	                                  l = {auth_liar, true};
	static const struct weft_rpc_auth *const who[] = {&c, &l, NULL};

	for (unsigned int i = 0; i < 3; i++) {
		struct rig_opts o = {.client_auth = who[i], .server_auth = &s};

		auth_steps = 0;
		start(&o);
		CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[0]), 0);
		rig_settle(&rig);
		if (who[i] == &c) {
			CHECK_EQ(ans[0].status, WEFT_RPC_OK);
			CHECK_EQ(auth_steps, 4);
			CHECK_EQ(rig.s.qp.disconnects, 0);
		} else {
			CHECK_EQ(rig.s.served, 0);
			CHECK_EQ(weft_rpc_stats(rig.s.rpc)->auth_refused, 1);
			CHECK_EQ(rig.s.qp.disconnects, 1);
			fake_break(&rig.c.qp);
			CHECK_EQ(ans[0].n, 1);
			CHECK(ans[0].status == WEFT_RPC_TRANSPORT ||
			      ans[0].status == WEFT_RPC_CONNLOST);
		}
		rig_down(&rig);
	}
	/* A client that requires authentication, and a server without it. */
	{
		struct rig_opts o = {.client_auth = &c};

		start(&o);
		CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[0]), 0);
		rig_settle(&rig);
		CHECK_EQ(rig.s.served, 0);
		CHECK_EQ(ans[0].status, WEFT_RPC_CONNLOST);
		fake_break(&rig.c.qp);
		rig_down(&rig);
	}
}

/* No call is sent before the peer is authenticated: not in version 1, which has no
 * authentication, and not when the peer speaks first. */
static void
test_auth_required(void)
{
	static const struct weft_rpc_auth c = {auth_client, true}, s = {auth_server, true};
	struct weft_rpc_attr a = {.size = sizeof(a), .max_vers = 1, .auth = &c};
	struct rpcrdma_hdr h;
	struct weft_rpc *rpc;
	uint8_t m[64];

	start(NULL);
	a.qp = &rig.c.qp;
	CHECK_EQ(weft_rpc_create(&a, &rpc), -EINVAL);
	rig_down(&rig);

	auth_steps = 0;
	start(&(struct rig_opts){.client_auth = &c, .server_auth = &s});
	weft_rpcrdma_hdr_init(&h, 2, RDMA2_GRANT, 0);
	h.p.credit = 1;
	fake_inject(&rig.c.qp, m, weft_rpcrdma_encode(m, sizeof(m), &h));
	CHECK_EQ(weft_rpc_version(rig.c.rpc), 2);
	CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[0]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[0].status, WEFT_RPC_OK);
	CHECK_EQ(auth_steps, 4);
	rig_down(&rig);

	/* The server does not call a client of version 1 either: its connection is closed. */
	start(&(struct rig_opts){.client_max = 1, .client_serves = true, .server_auth = &s});
	CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[0]), 0);
	rig_settle(&rig);
	CHECK(ans[0].n == 1 && ans[0].status != WEFT_RPC_OK);
	CHECK_EQ(rig.s.served, 0);
	CHECK_EQ(rig.s.qp.disconnects, 1);
	CHECK_EQ(rig_add(&rig.s, 1, 2, &ans[1]), -ENOTCONN);
	CHECK_EQ(rig.c.served, 0);
	rig_down(&rig);
}

WEFT_TEST_MAIN({"formats", test_formats}, {"nothing bound", test_unbound},
               {"Reply chunk", test_reply_chunk}, {"Reply chunk too small", test_reply_chunk_short},
               {"Write chunk too small", test_write_resource}, {"shuffled", test_shuffled},
               {"reverse", test_reverse}, {"broken at every step", test_broken},
               {"timeout", test_timeout}, {"fallback", test_fallback},
               {"later, and again", test_later}, {"call-only", test_call_only},
               {"charged", test_charged}, {"kept", test_kept},
               {"kept for others", test_kept_for_others}, {"host authentication", test_auth},
               {"required of all", test_auth_required})
