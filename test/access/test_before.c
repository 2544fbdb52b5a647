/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file What a peer gets from an RPC endpoint before the peer has authenticated: at most one
 * refusal, and no memory. Both sides, both versions, and any sequence of messages.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpcrdma_call.h"
#include "by_hand.h"
#include "weft_test.h"

#define EXCHANGE 0x100 /* xids of messages with properties */

static struct rig rig;
static unsigned int steps, passed; /* of the server's authentication */

/* A single word from the peer decides the authentication. */
static int
step(void *user, const uint8_t *in, uint32_t n, uint8_t *out, uint32_t *out_bytes)
{
	(void)user;
	steps++;
	out[0] = 'h';
	*out_bytes = 1;
	if (in == NULL)
		return 0;
	if (n != 4 || memcmp(in, "good", 4) != 0)
		return n == 2 ? 0 : -EACCES; /* "me": a name */
	passed++;
	return 1;
}

static const struct weft_rpc_auth required = {step, true}, optional = {step, false};

static void
server_up(const struct weft_rpc_auth *auth)
{
	steps = passed = 0;
	rig_up(&rig, &(struct rig_opts){.server_auth = auth, .server_credits = 32});
}

/* A client that has sent its first message and waits for the server's authentication. */
static void
client_up(struct rig_answer *ans)
{
	struct rpcrdma_hdr h;

	steps = passed = 0;
	memset(ans, 0, sizeof(*ans));
	rig_up(&rig, &(struct rig_opts){.client_auth = &required, .client_serves = true});
	CHECK_EQ(rig_add(&rig.c, 1, 2, ans), 0);
	CHECK_EQ(hand_said(&rig.c.qp, &h), -1);
	CHECK_EQ(h.p.htype, RDMA2_CONNPROP_MIDDLE);
}

static void
down(void)
{
	fake_break(&rig.c.qp);
	rig_down(&rig);
}

/* A well-formed message of any kind, followed by a call if the kind carries one. */
static uint32_t
message(uint8_t *m, uint32_t vers, uint32_t htype, uint32_t xid)
{
	struct rpcrdma_hdr h;
	uint32_t n;

	hand_header(&h, vers, htype, xid);
	h.remaining_bytes = 900000;
	if (vers == RPCRDMA_V1 && htype != RDMA1_NOMSG)
		return hand_add(m, &h);
	switch (vers == RPCRDMA_V1 ? RDMA2_CALL_EXTERNAL : htype) {
	case RDMA2_CALL_MIDDLE:
	case RDMA2_REPLY_MIDDLE:
		n = weft_rpcrdma_encode(m, 4096, &h);
		memset(m + n, 0, 4000);
		weft_put_be32(m + n, xid);
		return n + 4000;
	case RDMA2_CALL_INLINE:
	case RDMA2_REPLY_INLINE:
		return hand_add(m, &h);
	case RDMA2_CALL_EXTERNAL:
		h.chunks.call = (struct rpcrdma_chunk){.n_segs = 1, .len_bytes = 900000};
		h.chunks.segs[0] = (struct rpcrdma_segment){.handle = 7, .len_bytes = 900000};
		h.chunks.n_segs = 1;
		return weft_rpcrdma_encode(m, 4096, &h);
	case RDMA2_REPLY_EXTERNAL:
		h.chunks.has_reply = true;
		h.chunks.reply = (struct rpcrdma_chunk){.n_segs = 1, .len_bytes = 9};
		h.chunks.segs[0] = (struct rpcrdma_segment){.handle = 7, .len_bytes = 9};
		h.chunks.n_segs = 1;
		return weft_rpcrdma_encode(m, 4096, &h);
	case RDMA2_ERROR:
		return rig_raw_error(m, xid, RDMA2_ERR_VERS, 1, 1);
	default:
		return weft_rpcrdma_encode(m, 4096, &h);
	}
}

static uint32_t
props(uint8_t *m, bool final, uint32_t xid, const char *auth)
{
	struct rpcrdma_hdr h;

	hand_header(&h, 2, final ? RDMA2_CONNPROP_FINAL : RDMA2_CONNPROP_MIDDLE, xid);
	if (auth != NULL) {
		h.props.present = 1u << RDMA2_PROPID_HOSTAUTH;
		h.props.hostauth =
		        (struct rpcrdma_opaque){(const uint8_t *)auth, (uint32_t)strlen(auth)};
	}
	return weft_rpcrdma_encode(m, 4096, &h);
}

static const struct {
	uint32_t vers, htype;
} payloads[] = {
        {2, RDMA2_CALL_MIDDLE},  {2, RDMA2_CALL_INLINE},    {2, RDMA2_CALL_EXTERNAL},
        {2, RDMA2_REPLY_MIDDLE}, {2, RDMA2_REPLY_EXTERNAL}, {2, RDMA2_REPLY_INLINE},
        {1, RDMA1_MSG},          {1, RDMA1_NOMSG},
};
#define PAYLOADS (sizeof(payloads) / sizeof(payloads[0]))

static bool
keeps_nothing(const struct weft_rpc *rpc)
{
	return rpc->cont.buf == NULL && rpc->nreqs == 0 && LIST_EMPTY(&rpc->reqs);
}

/* A server that receives any part of a call keeps none of it, and the first part ends the
 * connection. */
static void
test_server(void)
{
	uint8_t m[8192];

	for (unsigned int i = 0; i < PAYLOADS; i++) {
		server_up(&required);
		fake_inject(&rig.s.qp, m, message(m, payloads[i].vers, payloads[i].htype, 9));
		CHECK_MSG(keeps_nothing(rig.s.rpc), "message %u", i);
		CHECK_MSG(rig.s.qp.disconnects == 1, "message %u", i);
		CHECK_EQ(rig.s.rpc->stats.auth_refused, 1);
		CHECK_EQ(rig.s.served, 0);
		/* a second message has no effect either */
		fake_inject(&rig.s.qp, m, message(m, payloads[i].vers, payloads[i].htype, 9));
		CHECK(keeps_nothing(rig.s.rpc));
		CHECK_EQ(rig.s.rpc->stats.auth_refused, 1);
		down();
	}
}

/* A server sends calls and answers to a client, instead of its proof. */
static void
test_client(void)
{
	static struct rig_answer ans;
	uint8_t m[8192];

	for (unsigned int i = 0; i < PAYLOADS; i++) {
		for (unsigned int mine = 0; mine < 2; mine++) {
			uint32_t xid = 9;

			client_up(&ans);
			if (mine) /* looks like the answer to the waiting call */
				xid = LIST_FIRST(&rig.c.rpc->calls)->xid;
			fake_inject(&rig.c.qp, m,
			            message(m, payloads[i].vers, payloads[i].htype, xid));
			CHECK_MSG(keeps_nothing(rig.c.rpc), "message %u", i);
			CHECK_MSG(rig.c.qp.disconnects == 1, "message %u", i);
			CHECK_EQ(rig.c.served, 0);
			CHECK_EQ(ans.n, 1);
			CHECK_EQ(ans.status, WEFT_RPC_CONNLOST);
			CHECK_EQ(passed, 0);
			down();
		}
	}
}

/* Empty messages of every kind, without end: few are answered, then the connection is closed. */
static void
test_endless(void)
{
	static struct rig_answer ans;
	struct rpcrdma_hdr h;
	uint8_t m[8192];

	for (unsigned int side = 0; side < 3; side++) {
		for (unsigned int kind = 0; kind < 4; kind++) {
			struct rig_side *s = side == 0 ? &rig.c : &rig.s;
			unsigned int n, said = 0;

			if (side == 0)
				client_up(&ans);
			else
				server_up(side == 1 ? &required : &optional);
			/* a peer that need not authenticate may send empty messages, but not
			 * during the exchange */
			if (side == 2)
				fake_inject(&s->qp, m, props(m, false, EXCHANGE, "me"));
			for (n = 0; n < 1000 && s->qp.disconnects == 0; n++) {
				uint32_t len = props(m, false, EXCHANGE + n, NULL);

				if (kind == 1)
					len = message(m, 2, RDMA2_GRANT, 0);
				if (kind == 2)
					len = rig_raw_error(m, 0x77, RDMA2_ERR_SYSTEM, 0, 0);
				if (kind == 3)
					len = 8;
				fake_inject(&s->qp, m, len);
				while (hand_said(&s->qp, &h) != 0)
					said++;
			}
			CHECK_MSG(n <= RPCRDMA_STRANGER_MSGS + 1, "side %u, kind %u: %u messages",
			          side, kind, n);
			CHECK(said <= RPCRDMA_STRANGER_MSGS + 2);
			CHECK_EQ(s->rpc->stats.auth_refused, 1);
			CHECK_EQ(passed, 0);
			down();
		}
	}
}

/* Only the client chooses the version (draft s4.3.2). A server that is told that the client does
 * not speak its version continues, and still requires authentication. */
static void
test_fall_back(void)
{
	for (unsigned int must = 0; must < 2; must++) {
		uint8_t m[8192];

		server_up(must ? &required : &optional);
		fake_inject(&rig.s.qp, m, rig_raw_error(m, 9, RDMA2_ERR_VERS, 1, 1));
		CHECK(!rig.s.rpc->authentic);
		CHECK_EQ(rig.s.rpc->vers, 2);
		CHECK_EQ(weft_rpc_version(rig.s.rpc), 0);
		fake_inject(&rig.s.qp, m, props(m, false, EXCHANGE, "me"));
		CHECK_EQ(steps, 1);
		fake_inject(&rig.s.qp, m, props(m, false, EXCHANGE, "evil"));
		CHECK_EQ(steps, 2);
		CHECK_EQ(passed, 0);
		CHECK_EQ(rig.s.qp.disconnects, 1);
		down();
	}
}

/* A peer gets few receives before authentication, and all of them after it. */
static void
test_receives(void)
{
	struct rpcrdma_hdr h;
	uint8_t m[8192];

	server_up(&required);
	CHECK_EQ(rig.s.qp.nrecvs, RPCRDMA_STRANGER_CREDITS + 1);
	fake_inject(&rig.s.qp, m, props(m, false, EXCHANGE, "me"));
	CHECK_EQ(hand_said(&rig.s.qp, &h), -1);
	CHECK(h.p.credit <= 1 + RPCRDMA_STRANGER_CREDITS);
	fake_inject(&rig.s.qp, m, props(m, false, EXCHANGE + 1, "good"));
	CHECK_EQ(passed, 1);
	CHECK_EQ(rig.s.qp.nrecvs, 33);
	CHECK_EQ(hand_said(&rig.s.qp, &h), -1);
	CHECK_EQ(h.p.credit, 2 + 32);
	fake_inject(&rig.s.qp, m, props(m, true, EXCHANGE + 2, NULL));
	fake_inject(&rig.s.qp, m, message(m, 2, RDMA2_CALL_INLINE, 9));
	CHECK_EQ(rig.s.served, 1);
	down();
}

/* ---- Random sequences ---- */

static void
sequence(uint64_t seed)
{
	const struct weft_rpc_auth *auth = seed % 2 ? &required : &optional;
	static const char *const words[] = {NULL, "me", "me", "evil", "good"};
	uint64_t rnd = seed * 0x9e3779b97f4a7c15u + 1;
	uint8_t m[8192];

	server_up(auth);
	rig.s.qp.on_post = NULL; /* errors that name versions which do not exist */
	for (unsigned int i = 0; i < 60 && rig.s.rpc != NULL && !rig.s.rpc->down; i++) {
		unsigned int pick;
		uint32_t len;

		rnd = rnd * 6364136223846793005u + 1442695040888963407u;
		pick = (unsigned int)(rnd >> 40) % 24;
		if (pick < PAYLOADS)
			len = message(m, payloads[pick].vers, payloads[pick].htype, i);
		else if (pick < 18)
			len = props(m, (rnd >> 33) % 4 == 0, EXCHANGE + i, words[(rnd >> 50) % 5]);
		else if (pick < 20)
			len = rig_raw_error(m, (rnd >> 33) % 2 ? 0 : i, RDMA2_ERR_VERS,
			                    1 + (rnd >> 35) % 2, 1 + (rnd >> 36) % 2);
		else if (pick < 21)
			len = message(m, 2, RDMA2_GRANT, 0);
		else
			len = message(m, 2, RDMA2_CALL_INLINE, i);
		if (pick == 23) /* damaged somewhere */
			m[(rnd >> 33) % len] ^= (uint8_t)(1 + (rnd >> 45) % 255);
		fake_inject(&rig.s.qp, m, len);
		while (fake_take(&rig.s.qp, m, sizeof(m)) >= 0)
			fake_complete(&rig.s.qp);
		/* a damaged call may name a procedure that ends its endpoint or answers later */
		if (rig.s.later != NULL) {
			weft_rpc_done(rig.s.later, WEFT_RPC_OK);
			rig.s.later = NULL;
		}
		if (rig.s.rpc == NULL)
			break;
		CHECK_EQ(rig.s.rpc->authentic, passed > 0);
		if (auth->required && passed == 0) {
			CHECK_EQ(rig.s.served, 0);
			CHECK(keeps_nothing(rig.s.rpc));
			CHECK(rig.s.qp.nrecvs <= RPCRDMA_STRANGER_CREDITS + 1);
		}
	}
	down();
}

static void
test_sequences(void)
{
	if (test_seed_given()) {
		sequence(test_seed(0));
		return;
	}
	for (uint64_t seed = 0; seed < 20000; seed++) {
		test_seed_note(seed);
		sequence(seed);
	}
}

WEFT_TEST_MAIN({"a server, before a name", test_server}, {"a client, before a proof", test_client},
               {"empty messages without end", test_endless},
               {"a server is told of another version", test_fall_back},
               {"receives for strangers", test_receives}, {"any sequence", test_sequences})
