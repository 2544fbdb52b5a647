/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file An endpoint after a fault: nothing of a refused message is kept, the waiting caller is
 * told, and the next message is handled as if the refused one had not been sent.
 */

#include <stdlib.h>

#include "rpcrdma_call.h"
#include "by_hand.h"
#include "observer.h"
#include "weft_test.h"
#include "xdr_arg.h"

#define N_ANS 16

static struct rig rig;
static struct obs obs;
static struct rig_answer ans[N_ANS];

static void
start(const struct rig_opts *o)
{
	hand_unanswered(ans, N_ANS);
	rig_up(&rig, o);
	obs_watch(&obs, &rig);
}

static uint32_t
sum_behind(uint8_t *m, const struct rpcrdma_hdr *h, uint32_t sum)
{
	const uint32_t words[] = {h->p.xid, 1, 0, 0, 0, 0, sum};
	uint32_t len = weft_rpcrdma_encode(m, 4096, h);

	CHECK(len > 0);
	for (unsigned int i = 0; i < 7; i++)
		weft_put_be32(m + len + 4 * i, words[i]);
	return len + 28;
}

/* The first part of a message. `left` octets remain. */
static uint32_t
middle(uint8_t *m, uint32_t htype, uint32_t xid, uint32_t left)
{
	struct rpcrdma_hdr h;
	uint32_t len;

	hand_header(&h, 2, htype, xid);
	h.remaining_bytes = left;
	len = weft_rpcrdma_encode(m, 4096, &h);
	weft_put_be32(m + len, xid);
	return len + 4;
}

/* ---- Fallback to version 1 ---- */

static unsigned int v2_posted;

static void
count_v2(struct weft_qp *qp, const void *buf, uint32_t len_bytes)
{
	(void)qp;
	(void)len_bytes;
	v2_posted += weft_get_be32((const uint8_t *)buf + RPCRDMA_OFF_VERS) == 2;
}

/* Draft s4.3.2, s7.1.1: waiting properties are dropped in version 1. After the refusal nothing
 * of version 2 is sent. Calls of all kinds continue. */
static void
test_fallback(void)
{
	for (uint32_t vers = 1; vers <= 2; vers++) {
		uint8_t m[64];
		uint32_t len;

		start(&(struct rig_opts){.server_max = 1});
		rig.c.qp.on_post = count_v2;
		v2_posted = 0;
		CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[0]), 0);
		len = rig_raw_error(m, rig_last_xid(&rig), RDMA2_ERR_VERS, 1, 1);
		weft_put_be32(m + RPCRDMA_OFF_VERS, vers);
		weft_put_be32(m + RPCRDMA_OFF_CREDIT, 32);
		/* With a binding, the properties are sent before the call when there is credit. */
		CHECK_EQ(rig_move(&rig.c, 3000, 3000, &rig_move_binding, &ans[1]), 0);
		CHECK_EQ(rig_add(&rig.c, 3, 4, &ans[2]), 0);
		CHECK_EQ(hand_said(&rig.c.qp, NULL), -1);
		CHECK_EQ(hand_said(&rig.c.qp, NULL), 0);
		CHECK_EQ(v2_posted, 1);
		fake_inject(&rig.c.qp, m, len);
		rig_settle(&rig);
		CHECK_EQ(v2_posted, 1);
		for (unsigned int i = 0; i < 3; i++) {
			CHECK_EQ(ans[i].n, 1);
			CHECK_EQ(ans[i].status, WEFT_RPC_OK);
		}
		CHECK_EQ(weft_rpc_version(rig.c.rpc), 1);
		CHECK_EQ(rig_add(&rig.c, 5, 6, &ans[3]), 0);
		rig_settle(&rig);
		CHECK_EQ(ans[3].sum, 11);
		rig_down(&rig);
	}
}

/* ---- Properties that are refused ---- */

static int
step_on(void *user, const uint8_t *in, uint32_t n, uint8_t *out, uint32_t *out_bytes)
{
	(void)user;
	(void)in;
	(void)n;
	out[0] = 7;
	*out_bytes = 1;
	return 0;
}

/* Draft s5.2.6, s6.3.3: a server that refuses the first or the second message of the
 * authentication ends it. If authentication is required, the calls end, too. Otherwise they are
 * sent with the defaults. */
static void
test_middle_refused(void)
{
	for (unsigned int how = 0; how < 4; how++) {
		const struct weft_rpc_auth auth = {step_on, how & 1};
		struct rpcrdma_hdr h;
		uint8_t m[256], number = 9;

		start(&(struct rig_opts){.client_auth = &auth});
		CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[0]), 0);
		CHECK_EQ(hand_said(&rig.c.qp, &h), -1);
		CHECK_EQ(h.p.htype, RDMA2_CONNPROP_MIDDLE);
		if (how & 2) {
			hand_header(&h, 2, RDMA2_CONNPROP_MIDDLE, 0x5000);
			h.props = (struct rpcrdma_propset){.present = 1u << RDMA2_PROPID_HOSTAUTH,
			                                   .hostauth = {&number, 1}};
			fake_inject(&rig.c.qp, m, weft_rpcrdma_encode(m, sizeof(m), &h));
			CHECK_EQ(hand_said(&rig.c.qp, &h), -1);
			CHECK_EQ(h.p.htype, RDMA2_CONNPROP_MIDDLE);
		}
		CHECK_EQ(ans[0].n, 0);
		(void)rig_raw_error(m, h.p.xid, RDMA2_ERR_BAD_PROPVAL, 0, 0);
		weft_put_be32(m + RPCRDMA_OFF_CREDIT, 32);
		fake_inject(&rig.c.qp, m, 20);
		rig_settle(&rig);
		CHECK_EQ(ans[0].n, 1);
		CHECK_EQ(ans[0].status, how & 1 ? WEFT_RPC_TRANSPORT : WEFT_RPC_OK);
		CHECK_EQ(rig.c.qp.disconnects, how & 1);
		CHECK_EQ(weft_rpc_stats(rig.c.rpc)->auth_refused, how & 1);
		rig_down(&rig);
	}
}

/* Draft s7.1.2: a message of another version than the earlier ones is refused in its own
 * version, with the credits of the connection. */
static void
test_other_version(void)
{
	for (uint32_t vers = 1; vers <= 2; vers++) {
		const uint32_t other = 3 - vers;
		struct rpcrdma_hdr h;
		uint8_t m[4096];
		uint32_t limit;

		start(&(struct rig_opts){.client_max = (uint8_t)vers});
		hand_greet(&rig, &ans[N_ANS - 1]);
		hand_header(&h, other, other == 2 ? RDMA2_CALL_INLINE : RDMA1_MSG, 700);
		limit = vers == 2 ? rig.s.rpc->credit.limit : 0;
		fake_inject(&rig.s.qp, m, hand_add(m, &h));
		CHECK_EQ(hand_said(&rig.s.qp, &h), RDMA2_ERR_VERS_MISMATCH);
		CHECK_EQ(h.p.xid, 700);
		CHECK_EQ(h.p.vers, other);
		CHECK_EQ(rig.s.rpc->stats.bad_version, 1);
		CHECK_EQ(rig.s.served, 1);
		if (vers == 2) {
			CHECK_EQ(rig.s.rpc->credit.limit,
			         limit); /* the credits in that message do not count */
			CHECK_EQ(h.p.credit, rig.s.rpc->credit.promised);
			/* Without credit the error waits. */
			rig.s.rpc->credit.limit = rig.s.rpc->credit.sent;
			hand_header(&h, other, RDMA1_MSG, 701);
			fake_inject(&rig.s.qp, m, hand_add(m, &h));
			CHECK_EQ(hand_said(&rig.s.qp, NULL), 0);
			hand_header(&h, 2, RDMA2_GRANT, 0);
			fake_inject(&rig.s.qp, m, weft_rpcrdma_encode(m, sizeof(m), &h));
			CHECK_EQ(hand_said(&rig.s.qp, NULL), RDMA2_ERR_VERS_MISMATCH);
		}
		/* An error is not answered. */
		hand_header(&h, other, RDMA2_ERROR, 702);
		h.err.code = other == 2 ? RDMA2_ERR_SYSTEM : RDMA1_ERR_CHUNK;
		fake_inject(&rig.s.qp, m, weft_rpcrdma_encode(m, sizeof(m), &h));
		CHECK_EQ(hand_said(&rig.s.qp, NULL), 0);
		rig_down(&rig);
	}
}

/* ---- Messages in parts ---- */

static const struct rpcrdma_segment seg0 = {.handle = 1, .len_bytes = 0};

/* Five Read chunks, more than are accepted. */
static void
too_many(struct rpcrdma_hdr *h)
{
	for (unsigned int i = 0; i < 5; i++)
		CHECK_EQ(weft_rpcrdma_read_add(&h->chunks, 44 + 4 * i, &seg0, 1), 0);
}

/* Draft s7.1.4, s7.3.1: the last part of a call is refused for its header. That ends the call.
 * The next message is a new one, even if it is the same call in another form. */
static void
test_fault_in_last(void)
{
	struct rpcrdma_hdr h;
	uint8_t m[4096];

	start(NULL);
	hand_greet(&rig, &ans[N_ANS - 1]);
	fake_inject(&rig.s.qp, m, middle(m, RDMA2_CALL_MIDDLE, 800, 48));
	hand_header(&h, 2, RDMA2_CALL_INLINE, 800);
	too_many(&h);
	fake_inject(&rig.s.qp, m, hand_add(m, &h));
	CHECK_EQ(hand_said(&rig.s.qp, NULL), RDMA2_ERR_READ_CHUNKS);
	hand_header(&h, 2, RDMA2_CALL_INLINE, 801);
	fake_inject(&rig.s.qp, m, hand_add(m, &h));
	CHECK_EQ(hand_said(&rig.s.qp, NULL), -1);
	hand_header(&h, 2, RDMA2_CALL_INLINE, 800);
	fake_inject(&rig.s.qp, m, hand_add(m, &h));
	CHECK_EQ(hand_said(&rig.s.qp, NULL), -1);
	CHECK_EQ(rig.s.served, 3);
	rig_down(&rig);
}

/* Draft s7.1.4: a middle part is refused. All later parts with its xid, including the last, are
 * dropped silently. */
static void
test_fault_in_middle(void)
{
	for (unsigned int first = 0; first < 2; first++) {
		struct rpcrdma_hdr h;
		uint8_t m[4096];

		start(NULL);
		hand_greet(&rig, &ans[N_ANS - 1]);
		if (!first)
			fake_inject(&rig.s.qp, m, middle(m, RDMA2_CALL_MIDDLE, 800, 100));
		middle(m, RDMA2_CALL_MIDDLE, 800, 96);
		fake_inject(&rig.s.qp, m, 18); /* truncated */
		CHECK_EQ(hand_said(&rig.s.qp, NULL), RDMA2_ERR_BAD_XDR);
		fake_inject(&rig.s.qp, m, middle(m, RDMA2_CALL_MIDDLE, 800, 92));
		hand_header(&h, 2, RDMA2_CALL_INLINE, 800);
		too_many(&h);
		fake_inject(&rig.s.qp, m, hand_add(m, &h));
		CHECK_EQ(hand_said(&rig.s.qp, NULL), 0);
		CHECK_EQ(rig.s.served, 1);
		hand_header(&h, 2, RDMA2_CALL_INLINE, 800);
		fake_inject(&rig.s.qp, m, hand_add(m, &h));
		CHECK_EQ(hand_said(&rig.s.qp, NULL), -1);
		CHECK_EQ(rig.s.served, 2);
		rig_down(&rig);
	}
}

/* The same at the requester: its call ends, and the reply to another call completes that one. */
static void
test_fault_in_reply(void)
{
	struct rpcrdma_hdr h;
	uint32_t len, xid[2];
	uint8_t m[4096];

	start(NULL);
	hand_greet(&rig, &ans[N_ANS - 1]);
	for (unsigned int i = 0; i < 2; i++) {
		CHECK_EQ(rig_add(&rig.c, i, 1, &ans[i]), 0);
		xid[i] = rig_last_xid(&rig);
		CHECK_EQ(hand_said(&rig.c.qp, NULL), -1);
	}
	fake_inject(&rig.c.qp, m, middle(m, RDMA2_REPLY_MIDDLE, xid[0], 28));
	hand_header(&h, 2, RDMA2_REPLY_INLINE, xid[0]);
	len = sum_behind(m, &h, 4711);
	weft_put_be32(m + 16, 7); /* start of the Write list: neither 0 nor 1 */
	fake_inject(&rig.c.qp, m, len);
	CHECK_EQ(ans[0].status, WEFT_RPC_BAD_REPLY);
	hand_header(&h, 2, RDMA2_REPLY_INLINE, xid[1]);
	fake_inject(&rig.c.qp, m, sum_behind(m, &h, 4712));
	CHECK_EQ(ans[1].status, WEFT_RPC_OK);
	CHECK_EQ(ans[1].sum, 4712);
	CHECK_EQ(hand_said(&rig.c.qp, NULL), 0);
	rig_down(&rig);
}

/* Draft s6.3.9, s6.3.3: a reply between the parts of another reply or of properties is refused
 * with an error, and both calls end. */
static void
test_reply_out_of_turn(void)
{
	for (unsigned int what = 0; what < 3; what++) {
		struct rpcrdma_hdr h;
		uint8_t m[4096];
		uint32_t xid[3];

		start(NULL);
		hand_greet(&rig, &ans[N_ANS - 1]);
		for (unsigned int i = 0; i < 3; i++) {
			CHECK_EQ(rig_add(&rig.c, i, 1, &ans[i]), 0);
			xid[i] = rig_last_xid(&rig);
			CHECK_EQ(hand_said(&rig.c.qp, NULL), -1);
		}
		if (what == 2) {
			hand_header(&h, 2, RDMA2_CONNPROP_MIDDLE, 7);
			fake_inject(&rig.c.qp, m, weft_rpcrdma_encode(m, sizeof(m), &h));
		} else {
			fake_inject(&rig.c.qp, m, middle(m, RDMA2_REPLY_MIDDLE, xid[0], 28));
		}
		if (what == 1) {
			fake_inject(&rig.c.qp, m, middle(m, RDMA2_REPLY_MIDDLE, xid[1], 28));
		} else {
			hand_header(&h, 2, RDMA2_REPLY_INLINE, xid[1]);
			fake_inject(&rig.c.qp, m, sum_behind(m, &h, 1));
		}
		CHECK_EQ(hand_said(&rig.c.qp, &h), RDMA2_ERR_INVAL_CONT);
		CHECK_EQ(h.p.xid, xid[1]);
		CHECK_EQ(hand_said(&rig.c.qp, NULL), 0);
		CHECK_EQ(ans[0].n, what != 2);
		CHECK_EQ(ans[1].n, 1);
		CHECK_EQ(ans[1].status, WEFT_RPC_BAD_REPLY);
		/* The remaining parts of both have no effect. */
		for (unsigned int i = 0; i < 2 && what == 1; i++) {
			hand_header(&h, 2, RDMA2_REPLY_INLINE, xid[i]);
			fake_inject(&rig.c.qp, m, sum_behind(m, &h, 1));
		}
		CHECK_EQ(rig.c.rpc->stats.replies_in, 1);
		if (what == 2) {
			hand_header(&h, 2, RDMA2_CONNPROP_FINAL, 7);
			fake_inject(&rig.c.qp, m, weft_rpcrdma_encode(m, sizeof(m), &h));
			CHECK_EQ(hand_said(&rig.c.qp, NULL), -1); /* our properties */
		}
		hand_header(&h, 2, RDMA2_REPLY_INLINE, xid[2]);
		fake_inject(&rig.c.qp, m, sum_behind(m, &h, 4713));
		CHECK_EQ(ans[2].sum, 4713);
		CHECK_EQ(hand_said(&rig.c.qp, NULL), 0);
		rig_down(&rig);
	}
}

/* Draft s7.1.4: the parts of two calls are interleaved: neither call is assembled, whatever the
 * parts contain. A reply with the xid of one of them is not a part of it, because each direction
 * has its own xids (s4.6). */
static void
test_calls_in_each_other(void)
{
	struct rpcrdma_hdr h;
	uint8_t m[4096];
	uint32_t xid;

	start(&(struct rig_opts){.client_serves = true});
	hand_greet(&rig, &ans[N_ANS - 1]);
	CHECK_EQ(rig_add(&rig.c, 5, 6, &ans[0]), 0);
	xid = rig_last_xid(&rig);
	CHECK_EQ(hand_said(&rig.c.qp, NULL), -1);
	fake_inject(&rig.c.qp, m, middle(m, RDMA2_CALL_MIDDLE, xid, 100));
	fake_inject(&rig.c.qp, m, middle(m, RDMA2_CALL_MIDDLE, xid + 7, 100));
	CHECK_EQ(hand_said(&rig.c.qp, NULL), RDMA2_ERR_INVAL_CONT);
	CHECK_EQ(hand_said(&rig.c.qp, NULL), RDMA2_ERR_INVAL_CONT);
	for (unsigned int i = 0; i < 2; i++)
		fake_inject(&rig.c.qp, m, middle(m, RDMA2_CALL_MIDDLE, xid + 7 * i, 96));
	for (unsigned int i = 0; i < 2; i++) {
		hand_header(&h, 2, RDMA2_CALL_INLINE, xid + 7 * i);
		fake_inject(&rig.c.qp, m, hand_add(m, &h));
	}
	CHECK_EQ(hand_said(&rig.c.qp, NULL), 0);
	CHECK_EQ(rig.c.served, 0);
	fake_inject(&rig.c.qp, m, middle(m, RDMA2_CALL_MIDDLE, xid, 100));
	hand_header(&h, 2, RDMA2_GRANT, 0);
	fake_inject(&rig.c.qp, m, weft_rpcrdma_encode(m, sizeof(m), &h));
	hand_header(&h, 2, RDMA2_CALL_INLINE, xid); /* 48 octets instead of 100 */
	fake_inject(&rig.c.qp, m, hand_add(m, &h));
	CHECK_EQ(hand_said(&rig.c.qp, NULL), RDMA2_ERR_INVAL_CONT);
	fake_inject(&rig.c.qp, m, middle(m, RDMA2_CALL_MIDDLE, xid, 0));
	CHECK_EQ(hand_said(&rig.c.qp, NULL), RDMA2_ERR_INVAL_CONT);
	hand_header(&h, 2, RDMA2_REPLY_INLINE, xid);
	fake_inject(&rig.c.qp, m, sum_behind(m, &h, 11));
	CHECK_EQ(ans[0].status, WEFT_RPC_OK);
	rig_down(&rig);
}

/* Draft s6.3.8, RFC 8166 s4.2.4: the message is in the Reply chunk. Octets behind such a header
 * are not a message. */
static void
test_behind_external(void)
{
	for (uint32_t vers = 1; vers <= 2; vers++) {
		struct rpcrdma_hdr h;
		uint8_t m[4096];

		start(&(struct rig_opts){.client_max = (uint8_t)vers});
		hand_greet(&rig, &ans[N_ANS - 1]);
		CHECK_EQ(rig_add(&rig.c, 5, 6, &ans[0]), 0);
		CHECK_EQ(hand_said(&rig.c.qp, NULL), -1);
		hand_header(&h, vers, vers == 2 ? RDMA2_REPLY_EXTERNAL : RDMA1_NOMSG,
		            rig_last_xid(&rig));
		CHECK_EQ(weft_rpcrdma_reply_set(&h.chunks, &seg0, 1), 0);
		fake_inject(&rig.c.qp, m, sum_behind(m, &h, 77));
		CHECK_EQ(ans[0].n, 1);
		CHECK_EQ(ans[0].status, WEFT_RPC_BAD_REPLY);
		CHECK_EQ(hand_said(&rig.c.qp, NULL), 0);
		rig_down(&rig);
	}
}

/* ---- A peer that gives no credit ---- */

static unsigned int lent; /* arguments of RIG_ECHO, or its results, that are not freed yet */

static bool_t
xdr_counted(XDR *x, ...)
{
	char **p;

	XDR_ARG(x, p);
	if (x->x_op == XDR_FREE)
		lent--;
	if (x->x_op == XDR_DECODE)
		lent++;
	return xdr_string(x, p, 70000);
}

static enum weft_rpc_status
serve_counted(void *user, void *args, void *res)
{
	(void)user;
	*(char **)res = strdup(*(char **)args);
	lent++;
	return WEFT_RPC_OK;
}

static const struct weft_rpc_proc counted[] = {
        [RIG_ECHO] = {xdr_counted, xdr_counted, sizeof(char *), sizeof(char *), serve_counted},
};
static const struct weft_rpc_program counted_prog = {RIG_PROG, 1, counted, RIG_ECHO + 1};
static const struct weft_rpc_program *const counted_progs[] = {&counted_prog, NULL};

/* Draft s7.4, s11.1.4: answers that wait for credit hold their own octets and nothing of the
 * call, for a limited time. A peer that gives even a little credit in time gets all of them. */
static void
test_no_credit(void)
{
	for (unsigned int slow = 0; slow < 2; slow++) {
		uint8_t m[256], grant[64];
		struct rpcrdma_hdr h;
		unsigned int answers = 0;
		uint32_t len;

		start(&(struct rig_opts){.programs = counted_progs});
		lent = 0;
		len = rig_raw_add(m, 900, 1, 8, 0x61616161);
		weft_put_be32(m + 32 + 20, RIG_ECHO);
		weft_put_be32(m + len, 0x62626262);
		len += 4;
		for (unsigned int i = 0; i < 20; i++) {
			weft_put_be32(m, 900 + i);
			weft_put_be32(m + 32, 900 + i);
			fake_inject(&rig.s.qp, m, len);
		}
		CHECK_EQ(rig.s.rpc->stats.calls_in, 20);
		CHECK_EQ(rig.s.rpc->replies_queued, 19);
		CHECK_EQ(lent, 0);
		for (unsigned int i = 0; i < 25 && slow; i++) {
			fake_advance(&rig.worker, 9000000);
			hand_header(&h, 2, RDMA2_GRANT, 0);
			h.p.credit = rig.s.rpc->credit.sent + 1;
			fake_inject(&rig.s.qp, grant,
			            weft_rpcrdma_encode(grant, sizeof(grant), &h));
			while (hand_said(&rig.s.qp, NULL) == -1)
				answers++;
		}
		CHECK_EQ(answers, slow ? 20 : 0);
		CHECK_EQ(rig.s.qp.disconnects, 0);
		fake_advance(&rig.worker, 20000000);
		CHECK_EQ(rig.s.qp.disconnects, !slow);
		CHECK_EQ(rig.s.rpc->stats.starved, !slow);
		rig_down(&rig);
	}
}

WEFT_TEST_MAIN({"falling back with properties queued", test_fallback},
               {"another version", test_other_version},
               {"an authentication that is refused", test_middle_refused},
               {"a fault in the last part", test_fault_in_last},
               {"a fault in a middle part", test_fault_in_middle},
               {"a fault in a part of a reply", test_fault_in_reply},
               {"a reply out of turn", test_reply_out_of_turn},
               {"calls that cut into each other", test_calls_in_each_other},
               {"octets behind REPLY_EXTERNAL", test_behind_external},
               {"answers without credit", test_no_credit})
