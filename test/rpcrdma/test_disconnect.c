/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Causes that end a connection, and causes that must not: work that can no longer be posted,
 * invalidations that cross on the wire, messages of other versions, unexpected reverse calls, and
 * repeated calls that cannot be read or answered.
 */

#include <errno.h>
#include <stdarg.h>

#include "by_hand.h"
#include "rig.h"
#include "weft_test.h"

static struct rig rig;
static struct rig_answer ans[128];

static void
start(const struct rig_opts *o)
{
	memset(ans, 0, sizeof(ans));
	rig_up(&rig, o);
	CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[127]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[127].status, WEFT_RPC_OK);
}

/* For tests in which the server's messages are injected by the test only. */
static void
start_by_hand(const struct rig_opts *o)
{
	rig_up(&rig, o);
	rig.c.qp.on_post = rig.s.qp.on_post = NULL;
	rig.c.qp.on_arrive = rig.s.qp.on_arrive = NULL;
}

/* ---- Work that can no longer be posted ---- */

static struct {
	unsigned int n, disconnects;
	enum weft_rpc_status status;
} end;

/* Record the state in which the caller is told of the end and may reuse its memory. */
static void
on_end(void *arg, enum weft_rpc_status status, void *res)
{
	(void)arg;
	(void)res;
	end.n++;
	end.status = status;
	end.disconnects = rig.c.qp.disconnects;
}

static void
move_and_end(struct rig_move *args)
{
	static char data[20000], name[] = "n";
	struct weft_rpc_call_attr a = {.size = sizeof(a),
	                               .prog = RIG_PROG,
	                               .vers = 1,
	                               .proc = RIG_MOVE,
	                               .xdr_args = rig_xdr_move,
	                               .args = args,
	                               .xdr_res = rig_xdr_move,
	                               .res_bytes = sizeof(*args),
	                               .binding = &rig_move_binding,
	                               .fn = on_end};

	memset(&end, 0, sizeof(end));
	*args = (struct rig_move){
	        .seed = 3, .data_len = sizeof(data), .data = data, .name = name, .want = 5000};
	rig_octets(data, sizeof(data), 3);
	CHECK_EQ(weft_rpc_call_with(rig.c.rpc, &a), 0);
}

/* Draft s7.4, RFC 8166 s4.5.4: the connection is closed before the call is complete. */
static void
test_no_invalidation(void)
{
	for (unsigned int i = 0; i < 4; i++) {
		struct rig_move args;

		start(&(struct rig_opts){.client_max = (uint8_t)(1 + i % 2),
		                         .no_invalidate = true});
		move_and_end(&args);
		if (i < 2) {
			rig.c.qp.refuse = 1u << WEFT_WR_LOCAL_INV;
			rig_settle(&rig);
			CHECK_EQ(end.disconnects, 1);
		} else {
			/* The invalidation is posted, but has no effect, because the QP is
			 * already in the error state. */
			while (rig.c.rpc->stats.replies_in < 2) {
				fake_deliver(&rig.c.qp);
				fake_complete(&rig.c.qp);
				fake_deliver(&rig.s.qp);
				fake_complete(&rig.s.qp);
			}
			CHECK_EQ(end.n, 0);
			fake_forget_regions();
			rig_settle(&rig);
			CHECK(rig.c.qp.dead);
		}
		CHECK_EQ(end.n, 1);
		CHECK(rig.c.rpc->down);
		rig_down(&rig);
	}
}

/* Draft s7.4, RFC 8166 s4.5.4: a reply, its results, or an error cannot be posted. */
static void
test_no_answer(void)
{
	static const unsigned int what[] = {1u << WEFT_WR_SEND | 1u << WEFT_WR_SEND_INV,
	                                    1u << WEFT_WR_WRITE};

	for (unsigned int i = 0; i < 4; i++) {
		struct rig_move args;

		start(&(struct rig_opts){.client_max = (uint8_t)(1 + i % 2)});
		rig.s.qp.refuse = what[i / 2];
		move_and_end(&args);
		rig_settle(&rig);
		CHECK_EQ(rig.s.served, 2);
		CHECK_EQ(rig.s.qp.disconnects, 1);
		CHECK(rig.s.rpc->down);
		fake_break(&rig.s.qp);
		CHECK_EQ(end.n, 1);
		CHECK_EQ(end.status, WEFT_RPC_CONNLOST);
		rig_down(&rig);
	}
	for (uint8_t vers = 1; vers <= 2; vers++) {
		struct rpcrdma_hdr h;
		uint8_t m[256];

		start_by_hand(&(struct rig_opts){.server_max = vers});
		rig.s.qp.refuse = what[0];
		weft_rpcrdma_hdr_init(&h, vers, vers == 2 ? RDMA2_CALL_INLINE : RDMA1_MSG, 5);
		h.p.credit = 100;
		weft_rpcrdma_encode(m, sizeof(m), &h);
		weft_put_be32(m + 12, 77); /* an undefined type */
		fake_inject(&rig.s.qp, m, 80);
		CHECK_EQ(rig.s.rpc->stats.errors_out, 1);
		CHECK_EQ(rig.s.qp.disconnects, 1);
		rig_down(&rig);
	}
}

/* ---- Messages that cross ---- */

/* The call times out when its answer, which carries an invalidation, is about to be sent. */
static void
time_out_late(struct rig_answer *a, uint32_t there)
{
	struct fake_msg *m;

	CHECK_EQ(rig_move(&rig.c, there, 0, &rig_move_binding, a), 0);
	while ((m = STAILQ_FIRST(&rig.s.qp.wire)) == NULL || m->wr.opcode != WEFT_WR_SEND_INV) {
		fake_deliver(&rig.c.qp);
		fake_complete(&rig.c.qp);
		if (m != NULL)
			fake_deliver(&rig.s.qp);
		fake_complete(&rig.s.qp);
	}
	fake_advance(&rig.worker, RPCRDMA_TIMEOUT_US);
}

static void
test_crossing(void)
{
	for (unsigned int owner_first = 0; owner_first < 2; owner_first++) {
		start(NULL);
		time_out_late(&ans[0], 20000);
		CHECK_EQ(ans[0].n, 0); /* the caller has not got its memory back yet */
		if (owner_first) {
			while (fake_deliver(&rig.c.qp))
				fake_complete(&rig.c.qp);
			CHECK_EQ(ans[0].n, 1);
			CHECK_EQ(rig.c.rpc->regs_late.n, 1);
			/* Later calls register other memory. */
			for (unsigned int i = 1; i < 6; i++)
				CHECK_EQ(rig_move(&rig.c, 20000, 9000, &rig_move_binding, &ans[i]),
				         0);
		} else {
			CHECK(fake_deliver(&rig.s.qp));
		}
		rig_settle(&rig);
		CHECK(!rig.c.qp.dead && !rig.c.rpc->down && !rig.s.rpc->down);
		CHECK_EQ(ans[0].n, 1);
		CHECK_EQ(ans[0].status, WEFT_RPC_TIMEDOUT);
		CHECK_EQ(rig.c.rpc->stats.bad_xid, 1);
		for (unsigned int i = 6; i < 12; i++)
			CHECK_EQ(rig_move(&rig.c, 20000, 9000, &rig_move_binding, &ans[i]), 0);
		rig_settle(&rig);
		for (unsigned int i = owner_first ? 1 : 6; i < 12; i++)
			CHECK_EQ(ans[i].status, WEFT_RPC_OK);
		CHECK_EQ(rig.c.rpc->regs_late.n, 0);
		CHECK_EQ(fake_regions(), 0);
		rig_down(&rig);
	}
}

/* A server that never answers keeps only a limited number of regions from being reused. */
static void
test_never_late(void)
{
	start(&(struct rig_opts){.server_credits = 200});
	for (unsigned int i = 0; i < 2 * RPCRDMA_LATE_MAX; i++) {
		uint8_t out[8192];

		ans[0].n = 0;
		CHECK_EQ(rig_move(&rig.c, 9000, 0, &rig_move_binding, &ans[0]), 0);
		while (fake_take(&rig.c.qp, out, sizeof(out)) >= 0)
			fake_complete(&rig.c.qp);
		fake_advance(&rig.worker, RPCRDMA_TIMEOUT_US);
		while (fake_deliver(&rig.c.qp) || fake_complete(&rig.c.qp))
			;
		CHECK_EQ(ans[0].n, 1);
		CHECK_EQ(ans[0].status, WEFT_RPC_TIMEDOUT);
		CHECK(rig.c.rpc->regs_late.n <= RPCRDMA_LATE_MAX);
		if (rig.c.rpc->credit.sent == rig.c.rpc->credit.limit)
			break;
	}
	CHECK(fake_mrs() < 2 * RPCRDMA_LATE_MAX);
	fake_break(&rig.c.qp);
	weft_rpc_disconnected(rig.c.rpc);
	weft_rpc_disconnected(rig.s.rpc);
	CHECK_EQ(fake_mrs(), 0);
	rig_down(&rig);
}

/* ---- Other versions ---- */

/* RFC 8166 s4.5.1: each message is answered, regardless of its credits. There is a receive for
 * the answer (s3.3.1). */
static void
test_err_vers(void)
{
	for (uint8_t max = 1; max <= 2; max++) {
		start_by_hand(&(struct rig_opts){.server_max = max});
		for (uint32_t i = 1; i <= 5; i++) {
			struct rpcrdma_err e;
			uint8_t m[256];
			uint32_t len = rig_raw_add(m, i, i % 2, 1, 2);

			weft_put_be32(m + 4, max + 1u);
			fake_inject(&rig.s.qp, m, len);
			CHECK_EQ(hand_error(&rig.s.qp, &e), RDMA2_ERR_VERS);
			CHECK_EQ(e.a, 1);
			CHECK_EQ(e.b, max);
			CHECK_EQ(hand_error(&rig.s.qp, NULL), 0);
		}
		CHECK_EQ(rig.s.served, 0);
		CHECK_EQ(rig.s.qp.disconnects, 0);
		rig_down(&rig);
	}
}

/* In version 1 a call in the reverse direction fails until weft_rpc_peer_serves() says that the
 * peer serves calls (RFC 8167 s6). In version 2 the peer says so itself, by a transport property
 * (draft s4.6.3). */
static void
test_reverse(void)
{
	for (uint8_t vers = 1; vers <= 2; vers++) {
		unsigned int sends;

		start(&(struct rig_opts){
		        .client_max = vers, .client_serves = vers == 1, .untold = true});
		sends = rig.s.qp.sends;
		CHECK_EQ(rig_add(&rig.s, 3, 4, &ans[0]), 0);
		rig_settle(&rig);
		CHECK_EQ(ans[0].n, 1);
		CHECK_EQ(ans[0].status, WEFT_RPC_TRANSPORT);
		CHECK_EQ(rig.s.qp.sends, sends);
		weft_rpc_peer_serves(rig.s.rpc);
		CHECK_EQ(rig_add(&rig.s, 3, 4, &ans[1]), 0);
		rig_settle(&rig);
		CHECK_EQ(ans[1].status, vers == 1 ? WEFT_RPC_OK : WEFT_RPC_TRANSPORT);
		CHECK_EQ(rig.s.qp.sends, sends + (vers == 1));
		rig_down(&rig);
	}
}

/* ---- Repeated calls ---- */

/* Draft s7.3, RFC 8166 s4.5.3: a call whose chunk cannot be read ends the connection. On the
 * next connection the same call is not read again. */
static void
test_unreadable(void)
{
	const struct rpcrdma_segment seg = {.handle = 0xbad, .len_bytes = 8};
	struct weft_rpc_drc *drc;

	for (uint8_t vers = 1; vers <= 2; vers++) {
		/* the client's name, and whether the call is read: the same client twice more,
		 * another, no name */
		static const struct {
			const char *who;
			uint32_t xid;
			bool reads;
		} turn[] = {{"a", 7, true}, {"b", 7, true},  {"a", 8, true}, {"a", 7, false},
		            {"a", 7, true}, {"a", 7, false}, {"", 7, true},  {"", 7, true}};

		CHECK_EQ(weft_rpc_drc_create(4, &drc), 0);
		for (unsigned int i = 0; i < sizeof(turn) / sizeof(turn[0]); i++) {
			struct rpcrdma_hdr h;
			uint8_t m[512], raw[256];
			uint32_t len;

			start_by_hand(&(struct rig_opts){.server_max = vers, .drc = drc});
			CHECK_EQ(weft_rpc_set_peer_name(rig.s.rpc, turn[i].who,
			                                (uint32_t)strlen(turn[i].who)),
			         0);
			weft_rpcrdma_hdr_init(&h, vers, vers == 2 ? RDMA2_CALL_INLINE : RDMA1_MSG,
			                      turn[i].xid);
			h.p.credit = 100;
			CHECK_EQ(weft_rpcrdma_read_add(&h.chunks, 44, &seg, 1), 0);
			len = weft_rpcrdma_encode(m, sizeof(m), &h);
			rig_raw_add(raw, turn[i].xid, 0, 1, 2);
			memcpy(m + len, raw + 32, 48);
			fake_inject(&rig.s.qp, m, len + 48);
			if (turn[i].reads) {
				while (!rig.s.qp.dead)
					CHECK(fake_deliver(&rig.s.qp));
				CHECK_EQ(rig.s.qp.access_errors, 1);
			} else {
				CHECK_EQ(hand_error(&rig.s.qp, NULL),
				         vers == 2 ? RDMA2_ERR_SYSTEM : RDMA1_ERR_CHUNK);
				CHECK_EQ(rig.s.qp.access_errors, 0);
				CHECK(!rig.s.rpc->down);
			}
			CHECK_EQ(rig.s.served, 0);
			rig_down(&rig);
		}
		weft_rpc_drc_destroy(drc);
	}
}

static unsigned int ran;

static enum weft_rpc_status
serve_unanswerable(void *user, void *args, void *res)
{
	(void)user;
	(void)args;
	(void)res;
	ran++;
	return WEFT_RPC_OK;
}

/* Results that cannot be encoded in XDR. */
static bool_t
xdr_never(XDR *x, ...)
{
	return x->x_op == XDR_FREE;
}

static const struct weft_rpc_proc unanswerable_procs[] = {
        [RIG_ADD] = {.serve = serve_unanswerable, .xdr_res = xdr_never, .once = true}};
static const struct weft_rpc_program unanswerable = {RIG_PROG, 1, unanswerable_procs, RIG_ADD + 1};
static const struct weft_rpc_program *const unanswerables[] = {&unanswerable, NULL};

/* Draft s7.3: a call that was executed and cannot be answered gets an error, and is not executed
 * again. */
static void
test_unanswerable(void)
{
	struct weft_rpc_drc *drc;

	for (uint8_t vers = 1; vers <= 2; vers++) {
		CHECK_EQ(weft_rpc_drc_create(4, &drc), 0);
		ran = 0;
		for (unsigned int i = 0; i < 4; i++) {
			struct weft_rpc_call_attr a = {.size = sizeof(a),
			                               .prog = RIG_PROG,
			                               .vers = 1,
			                               .proc = RIG_ADD,
			                               .fn = rig_on_none,
			                               .arg = &ans[i],
			                               .xid = i < 3 ? 77 : 78};

			memset(&ans[i], 0, sizeof(ans[i]));
			rig_up(&rig, &(struct rig_opts){.client_max = vers,
			                                .programs = unanswerables,
			                                .drc = drc});
			CHECK_EQ(weft_rpc_set_peer_name(rig.s.rpc, "a", 1), 0);
			CHECK_EQ(weft_rpc_call_with(rig.c.rpc, &a), 0);
			if (i == 0) { /* the connection ends before the first call is answered */
				while (ran == 0)
					CHECK(fake_deliver(&rig.c.qp));
				fake_break(&rig.c.qp);
			}
			rig_settle(&rig);
			CHECK_EQ(ans[i].n, 1);
			CHECK(ans[i].status == (i == 0      ? WEFT_RPC_CONNLOST
			                        : vers == 2 ? WEFT_RPC_TRANSPORT
			                                    : WEFT_RPC_TOO_LONG));
			CHECK_EQ(ran, i < 3 ? 1 : 2);
			rig_down(&rig);
		}
		weft_rpc_drc_destroy(drc);
	}
}

WEFT_TEST_MAIN({"memory that cannot be invalidated", test_no_invalidation},
               {"an answer that cannot be sent", test_no_answer}, {"crossing", test_crossing},
               {"never answered", test_never_late}, {"other versions", test_err_vers},
               {"reverse", test_reverse}, {"unreadable", test_unreadable},
               {"unanswerable", test_unanswerable})
